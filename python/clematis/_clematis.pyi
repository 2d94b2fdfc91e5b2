"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")

__all__ = [
    "_panic_for_tests",
    "Tensor",
    "DType",
    "__version__",
    "asarray",
    "from_dlpack",
    "wrap",
    "full",
    "full_like",
    "zeros",
    "zeros_like",
    "ones",
    "ones_like",
    "empty",
    "empty_like",
    "arange",
    "linspace",
    "eye",
    "tril",
    "triu",
    "meshgrid",
    "array",
    "neg",
    "positive",
    "abs",
    "sign",
    "square",
    "reciprocal",
    "sqrt",
    "rsqrt",
    "cbrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "erfinv",
    "lgamma",
    "digamma",
    "floor",
    "ceil",
    "trunc",
    "round",
    "real",
    "imag",
    "conj",
    "isnan",
    "isinf",
    "isfinite",
    "signbit",
    "bitwise_not",
    "logical_not",
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "pow",
    "atan2",
    "hypot",
    "copysign",
    "nextafter",
    "logaddexp",
    "polygamma",
    "maximum",
    "minimum",
    "complex",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "shift_left",
    "shift_right",
    "logical_and",
    "logical_or",
    "logical_xor",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "negative",
    "subtract",
    "multiply",
    "divide",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_right_shift",
    "arctan2",
    "power",
    "absolute",
    "clip",
    "where",
    "astype",
    "bitcast",
    "stop_gradient",
    "angle",
    "isclose",
    "allclose",
    "reshape",
    "permute_dims",
    "matrix_transpose",
    "swapaxes",
    "moveaxis",
    "broadcast_to",
    "broadcast_arrays",
    "broadcast_shapes",
    "expand_dims",
    "squeeze",
    "concat",
    "stack",
    "unstack",
    "split",
    "flip",
    "roll",
    "tile",
    "repeat",
    "pad",
    "sum",
    "prod",
    "max",
    "min",
    "any",
    "all",
    "mean",
    "logsumexp",
    "count_nonzero",
    "var",
    "std",
    "argmax",
    "argmin",
    "cumulative_sum",
    "cumulative_prod",
    "cumulative_max",
    "cumulative_min",
    "cumulative_logsumexp",
    "median",
    "diff",
    "take",
    "take_along_axis",
    "nonzero",
    "searchsorted",
    "sort",
    "argsort",
    "top_k",
    "isin",
    "one_hot",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "finfo",
    "iinfo",
    "can_cast",
    "result_type",
    "isdtype",
    "__array_namespace_info__",
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "log_sigmoid",
    "logsigmoid",
    "silu",
    "softplus",
    "mish",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "prelu",
    "thresholded_relu",
    "elu",
    "gelu",
    "logit",
    "softmax",
    "log_softmax",
    "layer_norm",
    "rms_norm",
    "batch_norm",
    "group_norm",
    "instance_norm",
    "l1_normalize",
    "l2_normalize",
    "lp_normalize",
    "deserialize",
    "get",
    "bilinear",
    "geglu",
    "gru_update",
    "rnn_update",
    "batch_norm_update",
    "flatten",
    "causal_mask",
    "cross_entropy_with_logits",
    "random_orthogonal",
    "linear",
    "embedding",
    "scaled_dot_product_attention",
    "multi_head_attention",
    "lstm_update",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv1d_transpose",
    "conv2d_transpose",
    "conv3d_transpose",
    "depthwise_conv2d",
    "conv_general_dilated",
    "conv_general_transpose",
    "conv",
    "cross_entropy",
    "sparse_cross_entropy",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "l1_loss",
    "mse_loss",
    "huber_loss",
    "smooth_l1_loss",
    "optimizer_update",
    "gradient_descent_update",
    "adam_step",
    "adam_update",
    "lars_update",
    "lamb_update",
    "_schedule_at",
    "_optim_slots",
    "_optim_step",
    "_optim_numbers",
    "_moment_zeros",
    "_scaled",
    "_summed",
    "_next_scale",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "adaptive_max_pool3d",
    "global_avg_pool",
    "global_max_pool",
    "random_uniform",
    "random_normal",
    "multinomial",
    "randint",
    "shuffle",
    "bernoulli",
    "beta",
    "gamma",
    "dirichlet",
    "poisson",
    "seed",
    "grad",
    "value_and_grad",
    "jac",
    "hessian",
    "vjp",
    "jvp",
    "linearize",
    "_method",
    "_derivative",
    "vmap",
    "custom_vjp",
    "_custom_gradient",
    "cond",
    "switch",
    "while_loop",
    "scan",
    "map",
    "_write_file",
    "save",
    "load",
    "_Graph",
    "_import_program",
    "_next_key",
    "_import_rules",
    "_trace_call",
    "_dialect",
    "_without_held",
    "_lower",
    "_Program",
    "_record",
    "_is_recording",
    "_key_of",
    "_has_values",
    "_put",
    "_below",
    "_is_mapped",
    "_flat",
    "_write_source",
    "_python_string",
    "_in_scope",
    "_import_onnx",
    "_run_onnx",
    "_export_onnx",
    "_export_file",
    "_import_file",
    "_onnx_ops",
    "_flops",
    "backend",
    "backends",
    "set_backend",
    "current_backend",
    "register_backend",
    "_backend_facts",
    "_restore",
    "_run_command_line",
    "_fft",
    "_random",
    "_tree",
    "matmul",
    "tensordot",
    "vecdot",
    "outer",
    "einsum",
    "_linalg",
]

@final
class DType:
    def __eq__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def __ge__(self, value: Any, /) -> Any: ...
    def __gt__(self, value: Any, /) -> Any: ...
    def __le__(self, value: Any, /) -> Any: ...
    def __lt__(self, value: Any, /) -> Any: ...
    def __ne__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    @property
    def itemsize(self) -> Any: ...
    @property
    def kind(self) -> Any: ...
    @property
    def name(self) -> Any: ...
    def __new__(cls, x: Any) -> DType: ...

@final
class Tensor:
    @property
    def T(self) -> Any: ...
    def __abs__(self) -> Tensor: ...
    def __add__(self, value: Any, /) -> Tensor: ...
    def __and__(self, value: Any, /) -> Tensor: ...
    def __array__(self, /, dtype: Any = None, copy: builtins.bool | None = None) -> Any: ...
    def __array_namespace__(self, /, *, api_version: Any = None) -> Any: ...
    __array_ufunc__: None
    def __bool__(self, /) -> builtins.bool: ...
    def __complex__(self, /) -> builtins.complex: ...
    def __contains__(self, key: Any, /) -> builtins.bool: ...
    def __copy__(self, /) -> Any: ...
    def __deepcopy__(self, /, memo: Any) -> Any: ...
    def __divmod__(self, value: Any, /) -> Any: ...
    def __dlpack__(self, /, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: builtins.bool | None = None) -> Any: ...
    def __dlpack_device__(self, /) -> Any: ...
    def __eq__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def __float__(self, /) -> float: ...
    def __floordiv__(self, value: Any, /) -> Tensor: ...
    def __ge__(self, value: Any, /) -> Any: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __gt__(self, value: Any, /) -> Any: ...
    def __iadd__(self, value: Any, /) -> Tensor: ...
    def __iand__(self, value: Any, /) -> Tensor: ...
    def __ifloordiv__(self, value: Any, /) -> Tensor: ...
    def __ilshift__(self, value: Any, /) -> Tensor: ...
    def __imatmul__(self, value: Any, /) -> Tensor: ...
    def __imod__(self, value: Any, /) -> Tensor: ...
    def __imul__(self, value: Any, /) -> Tensor: ...
    def __index__(self, /) -> int: ...
    def __int__(self, /) -> int: ...
    def __invert__(self) -> Tensor: ...
    def __ior__(self, value: Any, /) -> Tensor: ...
    def __ipow__(self, value: Any, /) -> Tensor: ...  # type: ignore[misc]
    def __irshift__(self, value: Any, /) -> Tensor: ...
    def __isub__(self, value: Any, /) -> Tensor: ...
    def __iter__(self, /) -> Any: ...
    def __itruediv__(self, value: Any, /) -> Tensor: ...
    def __ixor__(self, value: Any, /) -> Tensor: ...
    def __le__(self, value: Any, /) -> Any: ...
    def __len__(self, /) -> int: ...
    def __lshift__(self, value: Any, /) -> Tensor: ...
    def __lt__(self, value: Any, /) -> Any: ...
    def __matmul__(self, value: Any, /) -> Tensor: ...
    def __mod__(self, value: Any, /) -> Tensor: ...
    def __mul__(self, value: Any, /) -> Tensor: ...
    def __ne__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def __neg__(self) -> Tensor: ...
    def __or__(self, value: Any, /) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __pow__(self, value: Any, mod: Any = None, /) -> Tensor: ...
    def __radd__(self, value: Any, /) -> Tensor: ...
    def __rand__(self, value: Any, /) -> Tensor: ...
    def __rdivmod__(self, value: Any, /) -> Any: ...
    def __rfloordiv__(self, value: Any, /) -> Tensor: ...
    def __rlshift__(self, value: Any, /) -> Tensor: ...
    def __rmatmul__(self, value: Any, /) -> Tensor: ...
    def __rmod__(self, value: Any, /) -> Tensor: ...
    def __rmul__(self, value: Any, /) -> Tensor: ...
    def __ror__(self, value: Any, /) -> Tensor: ...
    def __rpow__(self, value: Any, mod: Any = None, /) -> Tensor: ...
    def __rrshift__(self, value: Any, /) -> Tensor: ...
    def __rshift__(self, value: Any, /) -> Tensor: ...
    def __rsub__(self, value: Any, /) -> Tensor: ...
    def __rtruediv__(self, value: Any, /) -> Tensor: ...
    def __rxor__(self, value: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any, /) -> Any: ...
    def __sub__(self, value: Any, /) -> Tensor: ...
    def __truediv__(self, value: Any, /) -> Tensor: ...
    def __xor__(self, value: Any, /) -> Tensor: ...
    @property
    def backend(self) -> Any: ...
    def copy(self, /) -> Any: ...
    @property
    def device(self) -> Any: ...
    @property
    def dtype(self) -> Any: ...
    def item(self, /) -> Any: ...
    @property
    def itemsize(self) -> Any: ...
    @property
    def mT(self) -> Any: ...
    @property
    def native(self) -> Any: ...
    @property
    def nbytes(self) -> Any: ...
    @property
    def ndim(self) -> Any: ...
    def numpy(self, /) -> Any: ...
    @property
    def shape(self) -> Any: ...
    @property
    def size(self) -> Any: ...
    def to(self, /, target: Any) -> Any: ...
    def to_device(self, device: Any, /, *, stream: Any = None) -> Any: ...
    def tolist(self, /) -> Any: ...

@final
class _Graph:
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def bound(self, /, name: str, size: Any) -> Any: ...
    def ends(self, /) -> Any: ...
    def inputs(self, /) -> Any: ...
    def nodes(self, /) -> Any: ...
    def ops(self, /) -> Any: ...
    def outputs(self, /) -> Any: ...
    def text(self, /) -> Any: ...
    def updates(self, /) -> Any: ...
    def __new__(cls, text: str) -> _Graph: ...

@final
class _Program:
    def explain(self, /, backend_name: Any) -> Any: ...
    @property
    def graph(self) -> Any: ...
    @property
    def keys(self) -> Any: ...
    @property
    def lasts(self) -> Any: ...
    def run(self, /, values: Any, count: Any, raw: Any, replaced: Any, outs: Any) -> Any: ...

def __array_namespace_info__() -> Any:
    """The namespace's answers to questions about itself."""

__version__: str

def _backend_facts() -> Any:
    """What each backend is: name, version, what it says of itself, and why it cannot be used if so."""

def _below(x: _T | builtins.complex) -> _T:
    """The same numbers below all derivatives that are being taken."""

def _custom_gradient(forward: Any, backward: Any, name: str, /) -> Any:
    """The same by position, for pickles."""

def _derivative(f: Callable[..., Any], argnums: Any, name: str, has_aux: Any, reverse: Any, /) -> Any:
    """A derivative by its name, for pickles."""

def _dialect(name: str) -> Any:
    """The module of a framework's functions, named after the ops."""

def _export_file(graph: Any, path: Any, values: Any, inputs: Any, outputs: Any) -> Any:
    """Writes a graph and its values as a file of our own."""

def _export_onnx(graph: Any, path: Any, values: Any, inputs: Any, outputs: Any) -> Any:
    """Writes a graph as a model; `values` are those of the inputs that a call does not give, by their places."""

_fft: ModuleType

def _flat(tree: Any, /) -> Any:
    """The arrays of a pytree in order, a key of all else, what the key knows by its address, and whether all arrays have values."""

def _flops(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """The operations of `f(args, kwargs)`, found by a trace without values."""

def _has_values(x: _T | builtins.complex) -> _T:
    """Whether the values of an array can be read."""

def _import_file(path: Any) -> Any:
    """Reads such a file."""

def _import_onnx(model: Any, values: Any, sizes: Any) -> Any:
    """Makes a graph of a model."""

def _import_program(text: Any, framework: Any) -> Any:
    """Imports a captured program: the graph, its constants, and whether it takes a key."""

def _import_rules(framework: Any) -> Any:
    """The names of the ops that a reader may leave as they are."""

def _in_scope(name: str, function: Callable[..., Any], args: Any, words: Any) -> Any:
    """Calls `function(*args, **words)` as a part of this name: what is recorded meanwhile bears its path."""

def _is_mapped(x: _T | builtins.complex) -> _T:
    """Whether an array is that of one example of many."""

def _is_recording() -> Any:
    """Whether something is recorded on this thread: a program, the body of a loop."""

def _key_of(words: Any) -> Any:
    """A key of two words that came out of a program."""

_linalg: ModuleType

def _lower(graph: Any, framework_name: Any, name: str, refuses: Any) -> Any:
    """A graph as source: a function `name(ops, *inputs)` of a framework's functions; `refuses` may decline their arguments."""

def _method(x: Any, name: str, /) -> Any:
    """A function of the library bound to a pytree as a method of its leaves."""

def _moment_zeros(param: Any, /) -> Any:
    """A moment before the first step, at hand also while a step is traced."""

def _next_key() -> Any:
    """The words of the next key of the implicit stream."""

def _next_scale(scale: Any, growth: Any, backoff: Any, every: Any, good: Any, finite: Any, /) -> Any:
    """The scale of a loss, and the number of good steps, after a step whose gradients were finite or not."""

def _onnx_ops() -> Any:
    """The names of the ops that are known."""

def _optim_numbers(name: str, settings: Any, lr: Any, count: Any, wide: Any, backend: Any, /) -> Any:
    """What the formula of a step takes besides tensors, for a program that is given it at each call."""

def _optim_slots(name: str, settings: Any, /) -> Any:
    """The names of what an optimiser remembers of each parameter; its numbers are checked."""

def _optim_step(name: str, groups: Any, leaves: Any, stop: Any, /) -> Any:
    """A step of many parameters: the new ones and their new moments, or an error and nothing is changed.

`groups` are pairs of a learning rate and a dict of numbers; `leaves` are tuples of a path, a parameter, its gradient,
a list of moments or None, the number of its group, and which step of it this is, from 1, or a vector of the numbers
that follow from it."""

def _panic_for_tests(place: Any, message: Any) -> Any:
    """Panics, to test what becomes of it."""

def _put(x: _T | builtins.complex, value: Any) -> _T:
    """Puts a result into a tensor that a program changes."""

def _python_string(text: Any) -> Any:
    """A string literal of Python's, on one line, whose value is the text."""

_random: ModuleType

def _record(f: Callable[..., Any], name: str, backend: Any, fast_math: Any, /) -> Any:
    """Records `f(lift)`, which returns results with what they replace."""

def _restore(backend: Any, dtype: Any, shape: int | Sequence[int], bytes: Any) -> Any:
    """A tensor from what `pickle` kept of it; on the engine if its backend is not there."""

def _run_command_line(args: Any) -> Any:
    """Runs the command line; returns the exit code."""

def _run_onnx(model: Any, inputs: Any) -> Any:
    """Runs a model once, on the built-in engine."""

def _scaled(tree: Any, factor: Any, /) -> Any:
    """Every leaf times a number; half precision becomes f32."""

def _schedule_at(what: Any, step: Any, /) -> Any:
    """The value of a schedule at a step; its numbers are checked."""

def _summed(one: Any, two: Any, /) -> Any:
    """The sums of leaves at the same paths; half precision becomes f32."""

def _trace_call(f: Callable[..., Any], held: Any, inputs: Any) -> Any:
    """Records `f(held, inputs)`, which returns results and new values of what is held.

The graph, the values of its last inputs, and how many keys stand before those."""

_tree: ModuleType

def _without_held(graph: Any) -> Any:
    """A graph without ops that hold tensors, and those tensors, which are its last inputs."""

def _write_file(path: Any, bytes: Any) -> Any:
    """Writes bytes as a file that is whole or not there."""

def _write_source(request: Any) -> Any:
    """Writes a program as code; request and answer are JSON."""

def abs(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the absolute value

>>> cm.abs(cm.asarray([-2, 0, 3]))
Tensor([2, 0, 3], int32, native)
>>> cm.abs(cm.asarray([3 + 4j]))
Tensor([5.0], float32, native)"""

def absolute(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the absolute value

>>> cm.abs(cm.asarray([-2, 0, 3]))
Tensor([2, 0, 3], int32, native)
>>> cm.abs(cm.asarray([3 + 4j]))
Tensor([5.0], float32, native)"""

def acos(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse cosine

>>> cm.acos(cm.asarray([1.0, 0.0, -1.0]))
Tensor([    0.0,  1.5708, 3.14159], float32, native)"""

def acosh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse hyperbolic cosine

>>> cm.acosh(cm.asarray([1.0, 2.0]))
Tensor([    0.0, 1.31696], float32, native)"""

def adam_step(grads: Any, mw: Any, vw: Any, step: Any, /, *, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-07, out: Any = None) -> Any:
    """Adam's step before the learning rate, the new mean of gradients and the new mean of their squares.

>>> zero = cm.zeros((2,))
>>> step, mean, square = cm.adam_step(cm.asarray([1.0, -4.0]), zero, zero, 1)
>>> step
Tensor([ 0.999996, -0.999998], float32, native)
>>> mean
Tensor([ 0.1, -0.4], float32, native)"""

def adam_update(w: Any, grads: Any, lr: Any, mw_tm1: Any, vw_tm1: Any, step: Any, /, *, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-07, stop_gradients: Any = True, out: Any = None) -> Any:
    """A step of Adam: the new parameter and both means.

>>> w, zero = cm.asarray([1.0, 2.0]), cm.zeros((2,))
>>> w, mean, square = cm.adam_update(w, cm.asarray([1.0, -4.0]), 0.1, zero, zero, 1)
>>> w
Tensor([0.9, 2.1], float32, native)"""

def adaptive_avg_pool1d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """Means over even windows, so that the spatial axis comes out with this size; channels stand before it unless told so.

>>> cm.adaptive_avg_pool1d(cm.asarray([[1.0, 2.0, 3.0, 4.0]]), 2)
Tensor([[1.5, 3.5]], float32, native)"""

def adaptive_avg_pool2d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """Means over even windows, so that the spatial axes come out with these sizes; channels stand before them unless told so.

>>> x = cm.asarray([[[1.0, 2.0], [3.0, 4.0]]])
>>> cm.adaptive_avg_pool2d(x, (1, 2))
Tensor([[[2.0, 3.0]]], float32, native)"""

def adaptive_avg_pool3d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """Means over even windows, so that the spatial axes come out with these sizes; channels stand before them unless told so.

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2))
>>> cm.adaptive_avg_pool3d(x, (1, 1, 2))
Tensor([[[[3.0, 4.0]]]], float32, native)"""

def adaptive_max_pool1d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """The largest of even windows, so that the spatial axis comes out with this size; channels stand before it unless told so.

>>> cm.adaptive_max_pool1d(cm.asarray([[1.0, 2.0, 3.0, 4.0]]), 2)
Tensor([[2.0, 4.0]], float32, native)"""

def adaptive_max_pool2d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """The largest of even windows, so that the spatial axes come out with these sizes; channels stand before them unless told so.

>>> x = cm.asarray([[[1.0, 2.0], [3.0, 4.0]]])
>>> cm.adaptive_max_pool2d(x, (1, 2))
Tensor([[[3.0, 4.0]]], float32, native)"""

def adaptive_max_pool3d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """The largest of even windows, so that the spatial axes come out with these sizes; channels stand before them unless told so.

>>> cm.adaptive_max_pool3d(cm.ones((1, 2, 2, 2)), 1)
Tensor([[[[1.0]]]], float32, native)"""

def add(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x + y, wrapping for integers, or for bool

>>> cm.add(cm.asarray([1, 2]), 3)
Tensor([4, 5], int32, native)"""

def all(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Whether none is zero.

>>> cm.all(cm.asarray([[True, True], [True, False]]), axis=1)
Tensor([ True, False], bool, native)"""

def allclose(x: Any, y: Any, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False, out: Any = None) -> builtins.bool:
    """Whether all elements are close.

>>> cm.allclose(cm.asarray([1.0, 2.0]), cm.asarray([1.0, 2.000001]))
True"""

def angle(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """The angle of a complex number.

>>> cm.angle(cm.asarray([1 + 0j, 1j]))
Tensor([   0.0, 1.5708], float32, native)"""

def any(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Whether one is not zero.

>>> cm.any(cm.asarray([[False, False], [True, False]]), axis=1)
Tensor([False,  True], bool, native)"""

def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """From `start` by `step` up to, but not including, `stop`.

>>> cm.arange(4)
Tensor([0, 1, 2, 3], int32, native)
>>> cm.arange(1, 2, 0.25)
Tensor([ 1.0, 1.25,  1.5, 1.75], float32, native)"""

def arctan2(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the angle of the point with coordinates x (second operand) and y (first operand)

>>> cm.atan2(cm.asarray([1.0, 1.0]), cm.asarray([0.0, -1.0]))
Tensor([ 1.5708, 2.35619], float32, native)"""

def argmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The first place of the largest.

>>> cm.argmax(cm.asarray([[1, 5, 2], [7, 0, 7]]), axis=1)
Tensor([1, 0], int64, native)"""

def argmin(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The first place of the smallest.

>>> cm.argmin(cm.asarray([[1, 5, 2], [7, 0, 7]]), axis=1)
Tensor([0, 1], int64, native)"""

def argsort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True, out: Any = None) -> _T:
    """Where the elements in rising order stand.

>>> cm.argsort(cm.asarray([3.0, 1.0, 2.0]))
Tensor([1, 2, 0], int64, native)"""

def array(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of anything: numbers, pytrees of them, arrays of any library.

Numbers, lists and NumPy arrays go to the current backend; arrays of torch, jax and tensorflow keep their backend.

>>> cm.asarray([1, 2, 3])
Tensor([1, 2, 3], int32, native)
>>> cm.asarray([1, 2.5], dtype=cm.float64)
Tensor([1.0, 2.5], float64, native)"""

def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of anything: numbers, pytrees of them, arrays of any library.

Numbers, lists and NumPy arrays go to the current backend; arrays of torch, jax and tensorflow keep their backend.

>>> cm.asarray([1, 2, 3])
Tensor([1, 2, 3], int32, native)
>>> cm.asarray([1, 2.5], dtype=cm.float64)
Tensor([1.0, 2.5], float64, native)"""

def asin(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse sine

>>> cm.asin(cm.asarray([0.0, 1.0]))
Tensor([   0.0, 1.5708], float32, native)"""

def asinh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse hyperbolic sine

>>> cm.asinh(cm.asarray([0.0, 1.0]))
Tensor([     0.0, 0.881374], float32, native)"""

def astype(x: _T | builtins.complex, dtype: Any, /, *, copy: builtins.bool | None = True, device: Any = None, out: Any = None) -> _T:
    """The same values as another element type.

>>> cm.astype(cm.asarray([1.7, -1.7]), cm.int32)
Tensor([ 1, -1], int32, native)"""

def atan(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse tangent

>>> cm.atan(cm.asarray([0.0, 1.0]))
Tensor([     0.0, 0.785398], float32, native)"""

def atan2(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the angle of the point with coordinates x (second operand) and y (first operand)

>>> cm.atan2(cm.asarray([1.0, 1.0]), cm.asarray([0.0, -1.0]))
Tensor([ 1.5708, 2.35619], float32, native)"""

def atanh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse hyperbolic tangent

>>> cm.atanh(cm.asarray([0.0, 0.5]))
Tensor([     0.0, 0.549306], float32, native)"""

def avg_pool1d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NWC', count_include_pad: Any = False, ceil_mode: Any = False, divisor_override: Any = None, out: Any = None) -> _T:
    """The mean of each window over one spatial axis; padding does not count unless told so.

>>> x = cm.asarray([[[1.0], [2.0], [3.0], [6.0]]])
>>> cm.avg_pool1d(x, 2, 2, "VALID")[0, :, 0]
Tensor([1.5, 4.5], float32, native)"""

def avg_pool2d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', count_include_pad: Any = False, ceil_mode: Any = False, divisor_override: Any = None, out: Any = None) -> _T:
    """The mean of each window over two spatial axes; padding does not count unless told so.

>>> x = cm.reshape(cm.arange(16.0), (1, 4, 4, 1))
>>> cm.avg_pool2d(x, 2, 2, "VALID")[0, :, :, 0]
Tensor([[ 2.5,  4.5],
        [10.5, 12.5]], float32, native)"""

def avg_pool3d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', count_include_pad: Any = False, ceil_mode: Any = False, divisor_override: Any = None, out: Any = None) -> _T:
    """The mean of each window over three spatial axes; padding does not count unless told so.

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2, 1))
>>> cm.avg_pool3d(x, (1, 1, 2), 1, "VALID")[0, :, :, 0, 0]
Tensor([[0.5, 2.5],
        [4.5, 6.5]], float32, native)"""

@final
class backend:
    def __enter__(self, /) -> Any: ...
    def __exit__(self, /, *_exception: Any) -> Any: ...
    def __new__(cls, name: str) -> backend: ...

def backends() -> list[str]:
    """The names of the backends that are installed; none is imported for it.

>>> "native" in cm.backends()
True"""

def batch_norm(x: _T | builtins.complex, mean: Any, variance: Any, /, *, offset: Any = None, scale: Any = None, training: Any = False, eps: Any = 1e-05, data_format: Any = 'NCS', out: Any = None) -> _T:
    """Normalised per channel, with given statistics or with those of the batch while training; channels are axis 1.

>>> x = cm.asarray([[1.0, 10.0], [3.0, 30.0]])
>>> cm.batch_norm(x, cm.asarray([2.0, 20.0]), cm.asarray([1.0, 100.0]), eps=0.0)
Tensor([[-1.0, -1.0],
        [ 1.0,  1.0]], float32, native)"""

def batch_norm_update(x: _T | builtins.complex, mean: Any = None, variance: Any = None, /, *, offset: Any = None, scale: Any = None, momentum: Any = 0.1, eps: Any = 1e-05, data_format: Any = 'NSC', out: Any = None) -> _T:
    """Normalised per channel by the statistics of the batch; the result, and the running mean and variance moved towards them.

`momentum` is the weight of the new value; the running variance is unbiased. Channels are last unless told so.

>>> y, mean, var = cm.batch_norm_update(cm.asarray([[1.0], [3.0]]), cm.zeros((1,)), cm.ones((1,)), momentum=0.5)
>>> mean, var
(Tensor([1.0], float32, native), Tensor([1.5], float32, native))"""

def bernoulli(probs: Any = None, *, logits: Any = None, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Tensor:
    """1 with a probability, or with that of a logit; 0 else.

>>> cm.bernoulli(0.5, shape=(4,), seed=1)
Tensor([1.0, 1.0, 1.0, 0.0], float32, native)
>>> cm.random.bernoulli(cm.random.key(1), (4,), p=0.5)
Tensor([ True,  True,  True, False], bool, native)"""

def beta(a: _T | builtins.complex, b: _T | builtins.complex, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Beta by both parameters.

>>> cm.beta(2.0, 3.0, shape=(2,), seed=1)
Tensor([0.475944, 0.331999], float32, native)
>>> cm.random.beta(cm.random.key(1), 2.0, 3.0, (2,))
Tensor([0.475944, 0.331999], float32, native)"""

bfloat16: DType

def bilinear(x1: _T | builtins.complex, x2: _T | builtins.complex, weight: Any, /, *, bias: Any = None, out: Any = None) -> _T:
    """x1 weight x2 + bias over the last axes; a weight is [out, in1, in2].

>>> cm.bilinear(cm.asarray([1.0, 2.0]), cm.asarray([3.0]), cm.ones((1, 2, 1)))
Tensor([9.0], float32, native)"""

def binary_cross_entropy(true: Any, pred: Any, /, *, epsilon: Any = 1e-07, reduction: Any = 'none', out: Any = None) -> Any:
    """The cross-entropy of two cases: -(true log(pred) + (1 - true) log(1 - pred)) of each element. Eager calls refuse a `pred` that
is no probability: for logits there is `binary_cross_entropy_with_logits`.

>>> cm.binary_cross_entropy(cm.asarray([1.0, 0.0]), cm.asarray([0.9, 0.5]))
Tensor([0.105361, 0.693147], float32, native)"""

def binary_cross_entropy_with_logits(true: Any, pred: Any, /, *, epsilon: Any = 1e-07, pos_weight: Any = None, reduction: Any = 'none', out: Any = None) -> Any:
    """The binary cross-entropy of logits, without overflow; positive cases weigh `pos_weight`. `epsilon` is not needed.

>>> cm.binary_cross_entropy_with_logits(cm.asarray([1.0, 0.0]), cm.asarray([2.0, 0.0]))
Tensor([0.126928, 0.693147], float32, native)"""

def bitcast(x: _T | builtins.complex, dtype: Any, /, *, out: Any = None) -> _T:
    """The same bits read as another element type of the same size.

>>> cm.bitcast(cm.asarray([1.0]), cm.uint32)
Tensor([1065353216], uint32, native)"""

def bitwise_and(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits set in both

>>> cm.bitwise_and(cm.asarray([12, 7]), 10)
Tensor([8, 2], int32, native)"""

def bitwise_invert(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """all bits flipped

>>> cm.bitwise_not(cm.asarray([0, 255], dtype="uint8"))
Tensor([255,   0], uint8, native)"""

def bitwise_left_shift(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits shifted left by y; 0 when y is the width or more

>>> cm.shift_left(cm.asarray([1, 5]), 2)
Tensor([ 4, 20], int32, native)"""

def bitwise_not(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """all bits flipped

>>> cm.bitwise_not(cm.asarray([0, 255], dtype="uint8"))
Tensor([255,   0], uint8, native)"""

def bitwise_or(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits set in either

>>> cm.bitwise_or(cm.asarray([12, 7]), 10)
Tensor([14, 15], int32, native)"""

def bitwise_right_shift(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits shifted right by y, keeping the sign

>>> cm.shift_right(cm.asarray([20, -20]), 2)
Tensor([ 5, -5], int32, native)"""

def bitwise_xor(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits set in one

>>> cm.bitwise_xor(cm.asarray([12, 7]), 10)
Tensor([ 6, 13], int32, native)"""

bool: DType

def broadcast_arrays(*arrays: Any, out: Any = None) -> tuple[Any, ...]:
    """All repeated to one shape.

>>> x, y = cm.broadcast_arrays(cm.asarray([1, 2]), cm.asarray([[3], [4]]))
>>> x
Tensor([[1, 2],
        [1, 2]], int32, native)"""

def broadcast_shapes(*shapes: Any, out: Any = None) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

>>> cm.broadcast_shapes((3, 1), (2,))
(3, 2)"""

def broadcast_to(x: _T | builtins.complex, /, shape: int | Sequence[int], *, out: Any = None) -> _T:
    """Repeated to a larger shape.

>>> cm.broadcast_to(cm.asarray([1, 2]), (2, 2))
Tensor([[1, 2],
        [1, 2]], int32, native)"""

def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether every value of one type is one of the other, by the promotion table.

>>> cm.can_cast(cm.int32, cm.int64), cm.can_cast(cm.float64, cm.float32)
(True, False)"""

def causal_mask(queries: Any, keys: Any = None, /, *, mask: Any = None, out: Any = None) -> Any:
    """True where a query may look at a key: not behind it, and where the mask is not 0. Both are [..., places, features].

>>> cm.causal_mask(cm.ones((2, 4)))
Tensor([[ True, False],
        [ True,  True]], bool, native)"""

def cbrt(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the real cube root

>>> cm.cbrt(cm.asarray([-8.0, 27.0]))
Tensor([-2.0,  3.0], float32, native)"""

def ceil(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """rounded up

>>> cm.ceil(cm.asarray([1.2, -1.2]))
Tensor([ 2.0, -1.0], float32, native)"""

def clip(x: _T | builtins.complex, /, min: Any = None, max: Any = None, *, out: Any = None) -> _T:
    """x held between two bounds, which may be left out; NaN stays NaN.

>>> cm.clip(cm.asarray([-1.0, 0.5, 3.0]), 0.0, 1.0)
Tensor([0.0, 0.5, 1.0], float32, native)
>>> cm.clip(cm.asarray([-1, 2]), min=0)
Tensor([0, 2], int32, native)"""

def complex(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x + iy

>>> cm.complex(cm.asarray([1.0, 0.0]), cm.asarray([2.0, -1.0]))
Tensor([1.0+2.0j, 0.0-1.0j], complex64, native)"""

complex128: DType

complex64: DType

def concat(arrays: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> Any:
    """All operands one after the other along an axis; flattened first where the axis is None.

>>> cm.concat([cm.asarray([1, 2]), cm.asarray([3])])
Tensor([1, 2, 3], int32, native)"""

def cond(predicate: Any, then: Any, otherwise: Any, /, *operands: Any) -> Any:
    """`then(*operands)` if the predicate holds, else `otherwise(*operands)`; both return the same structure.

>>> cm.cond(True, lambda x: x + 1, lambda x: x - 1, cm.asarray(5))
Tensor(6, int32, native)"""

def conj(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the complex conjugate

>>> cm.conj(cm.asarray([1 + 2j]))
Tensor([1.0-2.0j], complex64, native)"""

def conv(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, transpose: Any = False, dims: Any = 2, output_shape: Any = None, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', feature_group_count: Any = 1, x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """A convolution over one, two or three spatial axes, or its transpose.

>>> x = cm.reshape(cm.arange(1.0, 7.0), (1, 6, 1))
>>> cm.conv(x, cm.ones((2, 1, 1)), 2, "VALID", dims=1)[0, :, 0]
Tensor([ 3.0,  7.0, 11.0], float32, native)"""

def conv1d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """A convolution over one spatial axis; filters are [width, in, out].

>>> x = cm.reshape(cm.arange(1.0, 7.0), (1, 6, 1))
>>> w = cm.reshape(cm.asarray([1.0, 10.0, 100.0]), (3, 1, 1))
>>> cm.conv1d(x, w, 2, "SAME")[0, :, 0]
Tensor([321.0, 543.0,  65.0], float32, native)"""

def conv1d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """The transpose of a convolution over one spatial axis; filters are [width, in, out].

>>> x = cm.reshape(cm.asarray([1.0, 2.0, 3.0]), (1, 3, 1))
>>> w = cm.reshape(cm.asarray([1.0, 10.0, 100.0]), (3, 1, 1))
>>> cm.conv1d_transpose(x, w, 2, "SAME")[0, :, 0]
Tensor([  1.0,  10.0, 102.0,  20.0, 203.0,  30.0], float32, native)"""

def conv2d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """A convolution over two spatial axes; filters are [height, width, in, out].

>>> x = cm.reshape(cm.arange(9.0), (1, 3, 3, 1))
>>> cm.conv2d(x, cm.ones((2, 2, 1, 1)), 1, "VALID")[0, :, :, 0]
Tensor([[ 8.0, 12.0],
        [20.0, 24.0]], float32, native)"""

def conv2d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NHWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """The transpose of a convolution over two spatial axes; filters are [height, width, in, out].

>>> x = cm.reshape(cm.asarray([1.0, 2.0]), (1, 1, 2, 1))
>>> cm.conv2d_transpose(x, cm.ones((2, 2, 1, 1)), 2, "VALID")[0, :, :, 0]
Tensor([[1.0, 1.0, 2.0, 2.0],
        [1.0, 1.0, 2.0, 2.0]], float32, native)"""

def conv3d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """A convolution over three spatial axes; filters are [depth, height, width, in, out].

>>> x, w = cm.ones((1, 3, 3, 3, 1)), cm.ones((3, 3, 3, 1, 2))
>>> cm.conv3d(x, w, 1, "VALID")[0, 0, 0]
Tensor([[27.0, 27.0]], float32, native)"""

def conv3d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NDHWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """The transpose of a convolution over three spatial axes; filters are [depth, height, width, in, out].

>>> x, w = cm.ones((1, 2, 2, 2, 1)), cm.ones((2, 2, 2, 1, 1))
>>> cm.conv3d_transpose(x, w, 2, "SAME").shape
(1, 4, 4, 4, 1)"""

def conv_general_dilated(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, dims: Any = 2, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', feature_group_count: Any = 1, x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """A convolution over one, two or three spatial axes, in groups, with gaps in input and filter.

>>> x = cm.reshape(cm.arange(1.0, 5.0), (1, 4, 1))
>>> cm.conv_general_dilated(x, cm.ones((2, 1, 1)), 1, "VALID", dims=1, dilations=2)[0, :, 0]
Tensor([4.0, 6.0], float32, native)"""

def conv_general_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, dims: Any = 2, output_shape: Any = None, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', dilations: Any = 1, feature_group_count: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """The transpose of a convolution over one, two or three spatial axes, in groups.

>>> x = cm.reshape(cm.arange(1.0, 9.0), (1, 2, 4))
>>> w = cm.reshape(cm.arange(1.0, 9.0), (1, 4, 2))
>>> cm.conv_general_transpose(x, w, 1, "VALID", dims=1, feature_group_count=2)[0]
Tensor([[  7.0,  10.0,  43.0,  50.0],
        [ 23.0,  34.0,  91.0, 106.0]], float32, native)"""

def copysign(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x with y's sign

>>> cm.copysign(cm.asarray([1.0, -2.0]), cm.asarray([-3.0, 4.0]))
Tensor([-1.0,  2.0], float32, native)"""

def cos(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the cosine

>>> cm.cos(cm.asarray([0.0, cm.pi]))
Tensor([ 1.0, -1.0], float32, native)"""

def cosh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the hyperbolic cosine

>>> cm.cosh(cm.asarray([0.0, 1.0]))
Tensor([    1.0, 1.54308], float32, native)"""

def count_nonzero(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """How many elements are not zero.

>>> cm.count_nonzero(cm.asarray([[0, 1], [2, 3]]), axis=1)
Tensor([1, 2], int64, native)"""

def cross_entropy(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-07, reduction: Any = 'sum', out: Any = None) -> Any:
    """The cross-entropy of probabilities: -true log(pred), summed over the axis of classes, or as `reduction` says. `pred` is
kept within [epsilon, 1 - epsilon], so that logarithms have an end. Eager calls refuse a `pred` below -0.004 or above 1.004:
for logits there is `cross_entropy_with_logits`.

>>> true, pred = cm.asarray([[0.0, 1.0], [1.0, 0.0]]), cm.asarray([[0.25, 0.75], [0.5, 0.5]])
>>> cm.cross_entropy(true, pred)
Tensor([0.287682, 0.693147], float32, native)"""

def cross_entropy_with_logits(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, reduction: Any = 'mean', out: Any = None) -> Any:
    """-Σ true log(softmax(pred)) over an axis. The truth is probabilities, or numbers of classes without that axis.

There is one loss per row; `reduction` says what becomes of the rows.

>>> cm.cross_entropy_with_logits(cm.asarray([1]), cm.asarray([[0.0, 0.0]]))
Tensor(0.693147, float32, native)"""

def cumulative_logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """log of the sum of exp(x) up to each element.

>>> cm.cumulative_logsumexp(cm.asarray([0.0, 0.0, 0.0]))
Tensor([     0.0, 0.693147,  1.09861], float32, native)"""

def cumulative_max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """The largest of all elements up to each one.

>>> cm.cumulative_max(cm.asarray([1, 3, 2, 4]))
Tensor([1, 3, 3, 4], int32, native)"""

def cumulative_min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """The smallest of all elements up to each one.

>>> cm.cumulative_min(cm.asarray([4, 2, 3, 1]))
Tensor([4, 2, 2, 1], int32, native)"""

def cumulative_prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """The product of all elements up to each one.

>>> cm.cumulative_prod(cm.asarray([1, 2, 3]))
Tensor([1, 2, 6], int32, native)"""

def cumulative_sum(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """The sum of all elements up to each one.

>>> cm.cumulative_sum(cm.asarray([1, 2, 3]))
Tensor([1, 3, 6], int32, native)
>>> cm.cumulative_sum(cm.asarray([1, 2, 3]), include_initial=True)
Tensor([0, 1, 3, 6], int32, native)"""

def current_backend() -> str:
    """The name of the backend that new tensors are made on.

>>> cm.current_backend()
'native'"""

def custom_vjp(forward: Any, backward: Any, /, *, name: str = 'custom_vjp') -> Any:
    """The function `forward` with the gradient that `backward((inputs, outputs), upstream)` says: one per argument of
`forward`, or None for zeros. Tuples where there are several. Higher derivatives differentiate the rule.

>>> double = cm.custom_vjp(lambda x: 2 * x, lambda xs_and_ys, upstream: 10 * upstream)
>>> cm.grad(double)(cm.asarray(1.0))
Tensor(10.0, float32, native)"""

def depthwise_conv2d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', dilations: Any = 1, out: Any = None) -> _T:
    """A convolution of each channel with a filter of its own; filters are [height, width, channels].

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2))
>>> w = cm.reshape(cm.asarray([1.0, 100.0]), (1, 1, 2))
>>> cm.depthwise_conv2d(x, w, 1, "VALID")[0, 0]
Tensor([[  0.0, 100.0],
        [  2.0, 300.0]], float32, native)"""

def deserialize(name: str, /, *, custom_objects: Any = None) -> Any:
    """An activation by its name; `custom_objects` are looked at first.

>>> cm.deserialize("relu")(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def diff(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, n: Any = 1, prepend: Any = None, append: Any = None, out: Any = None) -> _T:
    """Differences of neighbours along an axis, n times.

>>> cm.diff(cm.asarray([1, 4, 9, 16]))
Tensor([3, 5, 7], int32, native)
>>> cm.diff(cm.asarray([1, 4, 9, 16]), n=2)
Tensor([2, 2], int32, native)"""

def digamma(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the derivative of lgamma

>>> cm.digamma(cm.asarray([1.0, 2.0]))
Tensor([-0.577216,  0.422784], float32, native)"""

def dirichlet(alpha: Any, /, *, size: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Vectors that sum to one, by parameters for each of their places.

>>> cm.dirichlet(cm.asarray([1.0, 2.0, 3.0]), seed=1)
Tensor([0.310278, 0.124119, 0.565603], float32, native)
>>> cm.random.dirichlet(cm.random.key(1), cm.asarray([1.0, 2.0, 3.0]))
Tensor([0.310278, 0.124119, 0.565603], float32, native)"""

def div(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x / y

>>> cm.div(cm.asarray([1, 3]), 2)
Tensor([0.5, 1.5], float32, native)"""

def divide(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x / y

>>> cm.div(cm.asarray([1, 3]), 2)
Tensor([0.5, 1.5], float32, native)"""

def dropout(x: _T | builtins.complex, prob: Any, /, *, scale: Any = True, dtype: Any = None, training: Any = True, seed: Any = None, noise_shape: Any = None, key: Any = None, out: Any = None) -> _T:
    """Zeroes elements with a probability and scales up the rest; a value of the mask is shared where `noise_shape` is 1.

>>> cm.dropout(cm.ones((6,)), 0.5, seed=0)
Tensor([0.0, 2.0, 0.0, 2.0, 2.0, 2.0], float32, native)"""

def dropout1d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Zeroes whole channels of one spatial axis.

>>> cm.dropout1d(cm.ones((1, 2, 4)), 0.5, seed=0)
Tensor([[[0.0, 2.0, 0.0, 2.0],
         [0.0, 2.0, 0.0, 2.0]]], float32, native)"""

def dropout2d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NHWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Zeroes whole channels of two spatial axes.

>>> cm.dropout2d(cm.ones((1, 1, 2, 4)), 0.5, seed=0)
Tensor([[[[0.0, 2.0, 0.0, 2.0],
          [0.0, 2.0, 0.0, 2.0]]]], float32, native)"""

def dropout3d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NDHWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Zeroes whole channels of three spatial axes.

>>> cm.dropout3d(cm.ones((1, 1, 1, 2, 4)), 0.5, seed=0)[0, 0]
Tensor([[[0.0, 2.0, 0.0, 2.0],
         [0.0, 2.0, 0.0, 2.0]]], float32, native)"""

def einsum(equation: Any, /, *operands: Any, out: Any = None) -> Any:
    """Sums of products by index letters: `einsum("ij,jk->ik", a, b)`.

>>> cm.einsum("ij,j->i", cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]))
Tensor([12, 34], int32, native)"""

def elu(x: _T | builtins.complex, /, *, alpha: Any = 1.0, out: Any = None) -> _T:
    """x where positive, alpha (exp(x) - 1) elsewhere.

>>> cm.elu(cm.asarray([-1.0, 2.0]))
Tensor([-0.632121,       2.0], float32, native)"""

def embedding(weights: Any, indices: Any, /, *, max_norm: Any = None, padding_idx: Any = None, out: Any = None) -> Any:
    """Rows of a table; longer ones than `max_norm` are shortened to it, the row `padding_idx` is zeros.

>>> table = cm.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
>>> cm.embedding(table, cm.asarray([2, 0]))
Tensor([[5.0, 6.0],
        [1.0, 2.0]], float32, native)"""

def empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Whatever values; zeros here, the same on every backend.

>>> cm.empty((2,)).shape
(2,)"""

def empty_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Whatever values; zeros here, the same on every backend.

Of the shape and element type of another tensor, beside it.

>>> cm.empty_like(cm.asarray([[1, 2]])).shape
(1, 2)"""

def equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x = y; NaN equals nothing

>>> cm.equal(cm.asarray([1, 2]), 2)
Tensor([False,  True], bool, native)"""

def erf(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the Gauss error function

>>> cm.erf(cm.asarray([0.0, 1.0]))
Tensor([     0.0, 0.842701], float32, native)"""

def erfc(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """1 - erf(x), exact for large x

>>> cm.erfc(cm.asarray([0.0, 1.0]))
Tensor([     1.0, 0.157299], float32, native)"""

def erfinv(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the inverse of erf

>>> cm.erfinv(cm.asarray([0.0, 0.5]))
Tensor([     0.0, 0.476936], float32, native)"""

def exp(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """e to the power x

>>> cm.exp(cm.asarray([0.0, 1.0]))
Tensor([    1.0, 2.71828], float32, native)"""

def exp2(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """2 to the power x

>>> cm.exp2(cm.asarray([0.0, 3.0]))
Tensor([1.0, 8.0], float32, native)"""

def expand_dims(x: _T | builtins.complex, /, axis: int | Sequence[int] | None, *, out: Any = None) -> _T:
    """New axes of size 1.

>>> cm.expand_dims(cm.asarray([1, 2]), 0)
Tensor([[1, 2]], int32, native)"""

def expm1(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """exp(x) - 1, exact near zero

>>> cm.expm1(cm.asarray([1e-7, 1.0]))
Tensor([1.00000e-7,    1.71828], float32, native)"""

def eye(n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere.

>>> cm.eye(2)
Tensor([[1.0, 0.0],
        [0.0, 1.0]], float32, native)"""

def finfo(type: Any, /) -> Any:
    """The machine limits of a float type.

>>> cm.finfo(cm.float32).bits, cm.finfo("float16").max
(32, 65504.0)"""

def flatten(x: _T | builtins.complex, /, *, start_dim: Any = 0, end_dim: Any = -1, out: Any = None) -> _T:
    """The axes from start_dim to end_dim as one.

>>> cm.flatten(cm.ones((2, 3, 4)), start_dim=1).shape
(2, 12)"""

def flip(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Back to front along axes.

>>> cm.flip(cm.asarray([1, 2, 3]))
Tensor([3, 2, 1], int32, native)"""

float16: DType

float32: DType

float64: DType

def floor(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """rounded down

>>> cm.floor(cm.asarray([1.7, -1.7]))
Tensor([ 1.0, -2.0], float32, native)"""

def floor_divide(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x / y rounded down; an integer by zero gives 0

>>> cm.floor_divide(cm.asarray([7, -7]), 2)
Tensor([ 3, -4], int32, native)"""

def fmod(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the remainder of division towards zero, with x's sign; an integer by zero gives 0

>>> cm.fmod(cm.asarray([7, -7]), 3)
Tensor([ 1, -1], int32, native)"""

def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """An array of another library that speaks DLPack, on the current backend and without a copy where memory allows.

>>> import numpy as np
>>> cm.from_dlpack(np.asarray([1.0, 2.0]))
Tensor([1.0, 2.0], float64, native)"""

def full(shape: int | Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """One value everywhere.

>>> cm.full((2,), 7)
Tensor([7, 7], int32, native)"""

def full_like(x: _T | builtins.complex, /, fill_value: Any, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """One value everywhere, of the shape and element type of another tensor, beside it.

>>> cm.full_like(cm.asarray([1.0, 2.0]), 7)
Tensor([7.0, 7.0], float32, native)"""

def gamma(alpha: Any, beta: Any, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Gamma by shape (alpha) and rate (beta).

>>> cm.gamma(2.0, 1.0, shape=(2,), seed=1)
Tensor([ 3.77787, 0.892618], float32, native)
>>> cm.random.gamma(cm.random.key(1), 2.0, 1.0, (2,))
Tensor([ 3.77787, 0.892618], float32, native)"""

def geglu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """The first half of the last axis times gelu of the second.

>>> cm.geglu(cm.asarray([3.0, 0.0]))
Tensor([0.0], float32, native)"""

def gelu(x: _T | builtins.complex, /, *, approximate: Any = False, out: Any = None) -> _T:
    """x times the normal distribution function of x, or its tanh approximation.

>>> cm.gelu(cm.asarray([-1.0, 0.0, 1.0]))
Tensor([-0.158655,       0.0,  0.841345], float32, native)"""

def get(name: str, /, *, custom_objects: Any = None) -> Any:
    """An activation by its name; `None` is the one that changes nothing.

>>> cm.get("relu")(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def global_avg_pool(x: _T | builtins.complex, /, *, data_format: Any = 'NSC', keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The mean over all spatial axes.

>>> cm.global_avg_pool(cm.asarray([[[1.0], [3.0]]]))
Tensor([[2.0]], float32, native)"""

def global_max_pool(x: _T | builtins.complex, /, *, data_format: Any = 'NSC', keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The largest over all spatial axes.

>>> cm.global_max_pool(cm.asarray([[[1.0], [3.0]]]))
Tensor([[3.0]], float32, native)"""

def grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """The gradient of a function with one real result, by one argument (the first) or several.

Values may be read to choose a way (`if x > 0`), but a number that `float(x)` or `x.item()` gives is a constant: nothing
is differentiated through it. What the result does not depend on has a gradient of zeros. A list of numbers is an array.

>>> cm.grad(lambda x: cm.sum(x**2))(cm.asarray([1.0, 2.0]))
Tensor([2.0, 4.0], float32, native)"""

def gradient_descent_update(w: Any, grads: Any, lr: Any, /, *, stop_gradients: Any = True, out: Any = None) -> Any:
    """w - lr grads.

>>> cm.gradient_descent_update(cm.asarray([1.0, 2.0]), cm.asarray([1.0, -1.0]), 0.5)
Tensor([0.5, 2.5], float32, native)"""

def greater(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x > y

>>> cm.greater(cm.asarray([1, 2, 3]), 2)
Tensor([False, False,  True], bool, native)"""

def greater_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x ≥ y

>>> cm.greater_equal(cm.asarray([1, 2, 3]), 2)
Tensor([False,  True,  True], bool, native)"""

def group_norm(x: _T | builtins.complex, num_groups: Any = 1, /, *, offset: Any = None, scale: Any = None, eps: Any = 1e-05, data_format: Any = 'NCS', out: Any = None) -> _T:
    """Normalised within groups of channels; channels are axis 1.

>>> cm.group_norm(cm.asarray([[1.0, 3.0, 10.0, 30.0]]), 2, eps=0.0)
Tensor([[-1.0,  1.0, -1.0,  1.0]], float32, native)"""

def gru_update(x: _T | builtins.complex, init_h: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, out: Any = None) -> _T:
    """A gated recurrent unit over time: all hidden states. Gates are in the order reset, update, new.

>>> h = cm.gru_update(cm.ones((1, 3, 2)), cm.zeros((1, 4)), cm.ones((2, 12)), cm.ones((4, 12)))
>>> h.shape
(1, 3, 4)"""

def hard_sigmoid(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """relu6(x + 3) / 6.

>>> cm.hard_sigmoid(cm.asarray([-4.0, 0.0, 1.5]))
Tensor([ 0.0,  0.5, 0.75], float32, native)"""

def hard_swish(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x hard_sigmoid(x).

>>> cm.hard_swish(cm.asarray([-2.0, 1.5, 4.0]))
Tensor([-0.333333,     1.125,       4.0], float32, native)"""

def hessian(f: Callable[..., Any], /, argnums: Any = None) -> Any:
    """The matrix of second derivatives of a function with one real result.

>>> cm.hessian(lambda x: x[0] ** 2 * x[1])(cm.asarray([1.0, 2.0]))
Tensor([[4.0, 2.0],
        [2.0, 0.0]], float32, native)"""

def huber_loss(true: Any, pred: Any, /, *, delta: Any = 1.0, reduction: Any = 'mean', out: Any = None) -> Any:
    """`0.5 d²` of the difference `d` where `|d| <= delta`, and `delta (|d| - 0.5 delta)` elsewhere.

>>> cm.huber_loss(cm.asarray([0.0, 0.0]), cm.asarray([0.5, 3.0]), reduction="none")
Tensor([0.125,   2.5], float32, native)"""

def hypot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """sqrt(x² + y²) without overflow

>>> cm.hypot(cm.asarray([3.0, 5.0]), cm.asarray([4.0, 12.0]))
Tensor([ 5.0, 13.0], float32, native)"""

def iinfo(type: Any, /) -> Any:
    """The machine limits of an integer type.

>>> cm.iinfo(cm.int8).min, cm.iinfo("uint16").max
(-128, 65535)"""

def imag(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the imaginary part

>>> cm.imag(cm.asarray([1 + 2j, 3j]))
Tensor([2.0, 3.0], float32, native)"""

def instance_norm(x: _T | builtins.complex, /, *, scale: Any = None, bias: Any = None, eps: Any = 1e-05, momentum: Any = 0.1, data_format: Any = 'NCHW', running_mean: Any = None, running_stddev: Any = None, affine: Any = True, track_running_stats: Any = False, out: Any = None) -> _T:
    """Normalised per sample and channel; with running statistics a triple with their new values.

`momentum` is the weight of the new value.

>>> cm.instance_norm(cm.asarray([[[[1.0, 3.0], [1.0, 3.0]]]]), eps=0.0)
Tensor([[[[-1.0,  1.0],
          [-1.0,  1.0]]]], float32, native)"""

int16: DType

int32: DType

int64: DType

int8: DType

def isclose(x: _T | builtins.complex, y: _T | builtins.complex, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False, out: Any = None) -> _T:
    """Whether |x - y| <= atol + rtol |y|, element by element.

>>> cm.isclose(cm.asarray([1.0, 2.0]), cm.asarray([1.0, 2.1]))
Tensor([ True, False], bool, native)"""

def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a type is of a kind: a type, a name of a kind, or a tuple of them.

>>> cm.isdtype(cm.int8, "integral"), cm.isdtype(cm.int8, ("real floating", cm.bool))
(True, False)"""

def isfinite(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether it is neither infinite nor NaN

>>> cm.isfinite(cm.asarray([1.0, cm.inf, cm.nan]))
Tensor([ True, False, False], bool, native)"""

def isin(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, invert: Any = False, out: Any = None) -> _T:
    """Whether each element stands among others.

>>> cm.isin(cm.asarray([1, 2, 3]), cm.asarray([3, 1]))
Tensor([ True, False,  True], bool, native)"""

def isinf(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether it is infinite

>>> cm.isinf(cm.asarray([1.0, -cm.inf, cm.nan]))
Tensor([False,  True, False], bool, native)"""

def isnan(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether it is NaN

>>> cm.isnan(cm.asarray([1.0, cm.inf, cm.nan]))
Tensor([False, False,  True], bool, native)"""

def jac(f: Callable[..., Any], /, argnums: Any = None, *, mode: Any = None) -> Any:
    """The matrix of derivatives: the output pytree outside, the input pytree inside. Mode is `forward`, `reverse` or None.

>>> cm.jac(lambda x: cm.asarray([2.0, 3.0]) * x)(cm.asarray([1.0, 1.0]))
Tensor([[2.0, 0.0],
        [0.0, 3.0]], float32, native)"""

def jvp(f: Callable[..., Any], primals: Any, tangents: Any, /) -> Any:
    """The value of f and its change along tangents of the arguments.

>>> cm.jvp(lambda x: x**3, (cm.asarray(2.0),), (cm.asarray(1.0),))
(Tensor(8.0, float32, native), Tensor(12.0, float32, native))"""

def l1_loss(true: Any, pred: Any, /, *, reduction: Any = 'mean', out: Any = None) -> Any:
    """|pred - true|.

>>> cm.l1_loss(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 5.0]))
Tensor(2.0, float32, native)"""

def l1_normalize(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """x divided by the sum of its magnitudes, over an axis or all elements.

>>> cm.l1_normalize(cm.asarray([1.0, -3.0]))
Tensor([ 0.25, -0.75], float32, native)"""

def l2_normalize(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """x divided by its length, over an axis or all elements.

>>> cm.l2_normalize(cm.asarray([3.0, 4.0]))
Tensor([0.6, 0.8], float32, native)"""

def lamb_update(w: Any, grads: Any, lr: Any, mw_tm1: Any, vw_tm1: Any, step: Any, /, *, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-07, max_trust_ratio: Any = 10.0, decay_lambda: Any = 0.0, stop_gradients: Any = True, out: Any = None) -> Any:
    """A step of Adam scaled by the ratio of the lengths of parameter and step: the new parameter and both means.

>>> w, zero = cm.asarray([3.0, 4.0]), cm.zeros((2,))
>>> w, mean, square = cm.lamb_update(w, cm.asarray([1.0, -1.0]), 0.1, zero, zero, 1)
>>> w
Tensor([2.64645, 4.35355], float32, native)"""

def lars_update(w: Any, grads: Any, lr: Any, /, *, decay_lambda: Any = 0.0, stop_gradients: Any = True, out: Any = None) -> Any:
    """A step against the gradient whose length follows that of the parameter; a decay divides the step.

>>> cm.lars_update(cm.asarray([3.0, 4.0]), cm.asarray([0.0, 10.0]), 0.1)
Tensor([3.0, 3.5], float32, native)"""

def layer_norm(x: _T | builtins.complex, normalized_idxs: Any, /, *, scale: Any = None, b: _T | builtins.complex | None = None, epsilon: Any = 1e-05, new_std: Any = 1.0, out: Any = None) -> _T:
    """Normalised over axes, then (x scale + b) new_std; without a scale, b is left out.

>>> cm.layer_norm(cm.asarray([[1.0, 3.0], [10.0, 30.0]]), [1], epsilon=0.0)
Tensor([[-1.0,  1.0],
        [-1.0,  1.0]], float32, native)"""

def leaky_relu(x: _T | builtins.complex, /, *, alpha: Any = 0.2, out: Any = None) -> _T:
    """x where positive, alpha times x elsewhere.

>>> cm.leaky_relu(cm.asarray([-1.0, 2.0]), alpha=0.1)
Tensor([-0.1,  2.0], float32, native)"""

def less(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x < y

>>> cm.less(cm.asarray([1, 2, 3]), 2)
Tensor([ True, False, False], bool, native)"""

def less_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x ≤ y

>>> cm.less_equal(cm.asarray([1, 2, 3]), 2)
Tensor([ True,  True, False], bool, native)"""

def lgamma(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """log |gamma(x)|

>>> cm.lgamma(cm.asarray([1.0, 5.0]))
Tensor([    0.0, 3.17805], float32, native)"""

def linear(x: _T | builtins.complex, weight: Any, /, *, bias: Any = None, out: Any = None) -> _T:
    """x weightᵀ + bias over the last axis; a weight is [out, in], or one such matrix per place in the leading axes of x.

>>> weight = cm.asarray([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
>>> cm.linear(cm.asarray([3.0, 4.0]), weight, bias=cm.asarray([0.0, 0.0, 0.5]))
Tensor([3.0, 8.0, 7.5], float32, native)"""

def linearize(f: Callable[..., Any], /, *primals: Any) -> Any:
    """The value of f, and its best linear approximation there.

>>> y, change = cm.linearize(lambda x: x**2, cm.asarray(3.0))
>>> y, change(cm.asarray(0.5))
(Tensor(9.0, float32, native), Tensor(3.0, float32, native))"""

def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: Any = True, out: Any = None) -> Tensor:
    """Evenly spaced from `start` to `stop`.

>>> cm.linspace(0, 1, 5)
Tensor([ 0.0, 0.25,  0.5, 0.75,  1.0], float32, native)"""

def load(path: Any, /, like: Any = None, *, strict: Any = True) -> Any:
    """Reads a file that `save` wrote, or any safetensors file, onto the current backend.

With `like`, a pytree of arrays, the result is one like it: names, shapes and element types must be the same, and all
differences are told in one CheckpointError. With `strict=False` what differs is left as it is in `like`, and the result
is a pair of the pytree and a dict of what was skipped, by path.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "x.safetensors")
...     cm.save(path, {"w": cm.asarray([1.0, 2.0]), "step": 3})
...     cm.load(path)
{'w': Tensor([1.0, 2.0], float32, native), 'step': 3}"""

def log(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the natural logarithm

>>> cm.log(cm.asarray([1.0, cm.e]))
Tensor([0.0, 1.0], float32, native)"""

def log10(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the logarithm to base 10

>>> cm.log10(cm.asarray([0.1, 100.0]))
Tensor([-1.0,  2.0], float32, native)"""

def log1p(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """log(1 + x), exact near zero

>>> cm.log1p(cm.asarray([1e-7, 1.0]))
Tensor([1.00000e-7,   0.693147], float32, native)"""

def log2(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the logarithm to base 2

>>> cm.log2(cm.asarray([0.5, 8.0]))
Tensor([-1.0,  3.0], float32, native)"""

def log_sigmoid(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """log(sigmoid(x)).

>>> cm.log_sigmoid(cm.asarray([-100.0, 0.0]))
Tensor([   -100.0, -0.693147], float32, native)"""

def log_softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """log(softmax(x)).

>>> cm.log_softmax(cm.asarray([0.0, 0.0]))
Tensor([-0.693147, -0.693147], float32, native)"""

def logaddexp(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """log(exp(x) + exp(y))

>>> cm.logaddexp(cm.asarray([0.0, 1000.0]), 0.0)
Tensor([0.693147,   1000.0], float32, native)"""

def logical_and(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether both are not zero

>>> cm.logical_and(cm.asarray([True, True, False]), cm.asarray([True, False, False]))
Tensor([ True, False, False], bool, native)"""

def logical_not(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether it is zero

>>> cm.logical_not(cm.asarray([True, False]))
Tensor([False,  True], bool, native)"""

def logical_or(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether one is not zero

>>> cm.logical_or(cm.asarray([True, True, False]), cm.asarray([True, False, False]))
Tensor([ True,  True, False], bool, native)"""

def logical_xor(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether exactly one is not zero

>>> cm.logical_xor(cm.asarray([True, True, False]), cm.asarray([True, False, False]))
Tensor([False,  True, False], bool, native)"""

def logit(x: _T | builtins.complex, /, *, eps: Any = None, out: Any = None) -> _T:
    """log(x / (1 - x)); x is first held between eps and 1 - eps if that is given.

>>> cm.logit(cm.asarray([0.5, 0.75]))
Tensor([    0.0, 1.09861], float32, native)"""

def logsigmoid(input: Any, *, out: Any = None) -> Any:
    """log(sigmoid(x)), under its other name.

>>> cm.logsigmoid(cm.asarray([-100.0, 0.0]))
Tensor([   -100.0, -0.693147], float32, native)"""

def logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """log of the sum of exp(x) over axes.

>>> cm.logsumexp(cm.asarray([[0.0, 0.0], [1000.0, 1000.0]]), axis=1)
Tensor([0.693147,  1000.69], float32, native)"""

def lp_normalize(x: _T | builtins.complex, /, *, p: Any = 2.0, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """x divided by its p-norm, over an axis or all elements.

>>> cm.lp_normalize(cm.asarray([1.0, 2.0]), p=3)
Tensor([0.48075,  0.9615], float32, native)"""

def lstm_update(x: _T | builtins.complex, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, out: Any = None) -> _T:
    """An LSTM over time: all hidden states, and the last cell state. Gates are in the order input, forget, cell, output.

>>> x, h, c = cm.asarray([[[1.0], [2.0]]]), cm.asarray([[0.5]]), cm.asarray([[0.25]])
>>> kernel, recurrent = cm.asarray([[0.1, 0.2, 0.3, 0.4]]), cm.asarray([[0.4, 0.3, 0.2, 0.1]])
>>> hs, c = cm.lstm_update(x, h, c, kernel, recurrent)
>>> hs[0, :, 0]
Tensor([0.213439, 0.346355], float32, native)"""

def map(f: Callable[..., Any], xs: Any, /) -> Any:
    """`f` of each step along the leading axis of a pytree, stacked.

>>> cm.map(lambda row: cm.sum(row), cm.asarray([[1, 2], [3, 4]]))
Tensor([3, 7], int32, native)"""

def matmul(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """The matrix product; vectors and stacks of matrices follow the usual rules.

>>> cm.matmul(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]))
Tensor([12, 34], int32, native)"""

def matrix_transpose(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """The last two axes exchanged.

>>> cm.matrix_transpose(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 3],
        [2, 4]], int32, native)"""

def max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The largest over axes; NaN if one is.

>>> cm.max(cm.asarray([[1, 5], [7, 2]]), axis=0)
Tensor([7, 5], int32, native)"""

def max_pool1d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """The largest of each window over one spatial axis.

>>> x = cm.asarray([[[1.0], [2.0], [3.0], [6.0]]])
>>> cm.max_pool1d(x, 2, 2, "VALID")[0, :, 0]
Tensor([2.0, 6.0], float32, native)"""

def max_pool2d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """The largest of each window over two spatial axes.

>>> x = cm.reshape(cm.arange(16.0), (1, 4, 4, 1))
>>> cm.max_pool2d(x, 2, 2, "VALID")[0, :, :, 0]
Tensor([[ 5.0,  7.0],
        [13.0, 15.0]], float32, native)"""

def max_pool3d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """The largest of each window over three spatial axes.

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2, 1))
>>> cm.max_pool3d(x, (1, 1, 2), 1, "VALID")[0, :, :, 0, 0]
Tensor([[1.0, 3.0],
        [5.0, 7.0]], float32, native)"""

def maximum(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the larger; NaN if either is

>>> cm.maximum(cm.asarray([1, 5]), cm.asarray([3, 2]))
Tensor([3, 5], int32, native)"""

def mean(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The mean over axes; integers become floats; of nothing, NaN.

>>> cm.mean(cm.asarray([[1.0, 2.0], [3.0, 6.0]]), axis=1)
Tensor([1.5, 4.5], float32, native)"""

def median(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """The median along an axis.

>>> cm.median(cm.asarray([3.0, 1.0, 2.0, 10.0]))
Tensor(2.5, float32, native)"""

def meshgrid(*arrays: Any, indexing: Any = 'xy', out: Any = None) -> tuple[Any, ...]:
    """Coordinate matrices of coordinate vectors.

>>> x, y = cm.meshgrid(cm.asarray([1, 2]), cm.asarray([3, 4]))
>>> x
Tensor([[1, 2],
        [1, 2]], int32, native)
>>> y
Tensor([[3, 3],
        [4, 4]], int32, native)"""

def min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The smallest over axes; NaN if one is.

>>> cm.min(cm.asarray([[1, 5], [7, 2]]), axis=0)
Tensor([1, 2], int32, native)"""

def minimum(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the smaller; NaN if either is

>>> cm.minimum(cm.asarray([1, 5]), cm.asarray([3, 2]))
Tensor([1, 2], int32, native)"""

def mish(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x tanh(softplus(x)).

>>> cm.mish(cm.asarray([-1.0, 0.0, 1.0]))
Tensor([-0.303401,       0.0,  0.865098], float32, native)"""

def moveaxis(x: _T | builtins.complex, source: Any, destination: Any, /, *, out: Any = None) -> _T:
    """Axes moved to other places.

>>> cm.moveaxis(cm.zeros((2, 3, 4)), 0, -1).shape
(3, 4, 2)"""

def mse_loss(true: Any, pred: Any, /, *, reduction: Any = 'mean', out: Any = None) -> Any:
    """(pred - true)².

>>> cm.mse_loss(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 5.0]))
Tensor(5.0, float32, native)"""

def mul(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x * y, wrapping for integers, and for bool

>>> cm.mul(cm.asarray([1, 2]), 3)
Tensor([3, 6], int32, native)"""

def multi_head_attention(x: _T | builtins.complex, scale: Any, num_heads: Any, /, *, context: Any = None, mask: Any = None, to_q_fn: Any = None, to_kv_fn: Any = None, to_out_fn: Any = None, to_q_v: Any = None, to_kv_v: Any = None, to_out_v: Any = None, out: Any = None) -> _T:
    """Attention by heads, with functions for queries, keys and values, and the result; each is called with the keyword `v`.

>>> x, context = cm.zeros((1, 2)), cm.asarray([[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]])
>>> cm.multi_head_attention(x, 1.0, 2, context=context)
Tensor([[2.0, 3.0]], float32, native)"""

def multinomial(population_size: Any, num_samples: Any, /, *, batch_size: Any = 1, probs: Any = None, replace: Any = True, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Numbers of categories: by weights, or even ones of so many for each of a batch.

>>> cm.multinomial(5, 3, replace=False, seed=1)
Tensor([[3, 4, 2]], int64, native)
>>> cm.random.multinomial(cm.random.key(1), cm.asarray([0.0, 1.0, 0.0]), 3)
Tensor([1, 1, 1], int64, native)"""

def multiply(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x * y, wrapping for integers, and for bool

>>> cm.mul(cm.asarray([1, 2]), 3)
Tensor([3, 6], int32, native)"""

def neg(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """-x, wrapping for unsigned integers

>>> cm.neg(cm.asarray([1, -2]))
Tensor([-1,  2], int32, native)"""

def negative(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """-x, wrapping for unsigned integers

>>> cm.neg(cm.asarray([1, -2]))
Tensor([-1,  2], int32, native)"""

def nextafter(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the float after x towards y

>>> cm.nextafter(cm.asarray([1.0]), 2.0) > 1
Tensor([True], bool, native)"""

def nonzero(x: Any, /, *, out: Any = None) -> tuple[Any, ...]:
    """The places of the elements that are not zero, one tensor per axis.

>>> cm.nonzero(cm.asarray([0, 3, 0, 5]))
(Tensor([1, 3], int64, native),)"""

def not_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x ≠ y

>>> cm.not_equal(cm.asarray([1, 2]), 2)
Tensor([ True, False], bool, native)"""

def one_hot(indices: Any, depth: Any, /, *, dtype: Any = None, out: Any = None) -> Any:
    """1 at the index along a new last axis, 0 elsewhere; zeros for an index out of range.

>>> cm.one_hot(cm.asarray([2, 0]), 3)
Tensor([[0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0]], float32, native)"""

def ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Ones.

>>> cm.ones((2,))
Tensor([1.0, 1.0], float32, native)"""

def ones_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Ones.

Of the shape and element type of another tensor, beside it.

>>> cm.ones_like(cm.asarray([5, 6]))
Tensor([1, 1], int32, native)"""

def optimizer_update(w: Any, effective_grad: Any, lr: Any, /, *, stop_gradients: Any = True, out: Any = None) -> Any:
    """w - effective_grad lr.

>>> cm.optimizer_update(cm.asarray([1.0, 2.0]), cm.asarray([1.0, -1.0]), 0.5)
Tensor([0.5, 2.5], float32, native)"""

def outer(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """All products of the elements of two vectors.

>>> cm.outer(cm.asarray([1, 2]), cm.asarray([3, 4]))
Tensor([[3, 4],
        [6, 8]], int32, native)"""

def pad(x: _T | builtins.complex, pad_width: Any, /, *, constant_values: Any = None, out: Any = None) -> _T:
    """x with a value around it: `pad_width` is ((before, after), …), one pair for all axes, or one number.

>>> cm.pad(cm.asarray([1, 2]), ((1, 2),), constant_values=9)
Tensor([9, 1, 2, 9, 9], int32, native)"""

def permute_dims(x: _T | builtins.complex, /, axes: int | Sequence[int] | None, *, out: Any = None) -> _T:
    """Axis i of the result is axis axes[i] of x.

>>> cm.permute_dims(cm.zeros((2, 3, 4)), (2, 0, 1)).shape
(4, 2, 3)"""

def poisson(lam: Any, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Poisson numbers of a rate.

>>> cm.poisson(3.0, shape=(4,), seed=1)
Tensor([3.0, 4.0, 5.0, 4.0], float32, native)
>>> cm.random.poisson(cm.random.key(1), 3.0, (4,))
Tensor([3.0, 4.0, 5.0, 4.0], float32, native)"""

def polygamma(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the derivative of digamma at the second operand, of the order given by the first, a whole number

>>> cm.polygamma(1, cm.asarray([1.0, 2.0]))
Tensor([ 1.64493, 0.644934], float32, native)"""

def positive(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x itself

>>> cm.positive(cm.asarray([1, -2]))
Tensor([ 1, -2], int32, native)"""

def pow(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x to the power y; integers to a negative power give 0 but for bases 1 and -1

>>> cm.pow(cm.asarray([2, 3]), 2)
Tensor([4, 9], int32, native)"""

def power(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x to the power y; integers to a negative power give 0 but for bases 1 and -1

>>> cm.pow(cm.asarray([2, 3]), 2)
Tensor([4, 9], int32, native)"""

def prelu(x: _T | builtins.complex, weight: Any, /, *, out: Any = None) -> _T:
    """x where positive, weight times x elsewhere; the weight broadcasts.

>>> cm.prelu(cm.asarray([-2.0, 2.0]), cm.asarray([0.5, 0.5]))
Tensor([-1.0,  2.0], float32, native)"""

def prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The product over axes; of nothing, 1.

>>> cm.prod(cm.asarray([[1, 2], [3, 4]]), axis=1)
Tensor([ 2, 12], int32, native)"""

def randint(low: Any, high: Any, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Tensor:
    """Whole numbers in [low, high).

>>> cm.randint(0, 10, shape=(4,), seed=1)
Tensor([4, 4, 9, 6], int64, native)
>>> cm.random.randint(cm.random.key(1), (4,), low=0, high=10)
Tensor([4, 4, 9, 6], int64, native)"""

def random_normal(*, mean: Any = 0.0, std: Any = 1.0, shape: int | Sequence[int] | None = None, dtype: Any = None, seed: Any = None, device: Any = None, key: Any = None, out: Any = None) -> Any:
    """Normal numbers.

>>> cm.random_normal(mean=10.0, shape=(2,), seed=0)
Tensor([9.79416, 10.2546], float32, native)"""

def random_orthogonal(*, shape: int | Sequence[int], gain: Any = 1.0, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None) -> Any:
    """A matrix whose columns, or rows, are at right angles and of length `gain`; all axes but the last are one.

>>> q = cm.random_orthogonal(shape=(3, 2), key=cm.random.key(0))
>>> cm.allclose(q.T @ q, cm.eye(2), atol=1e-6)
True"""

def random_uniform(*, low: Any = 0.0, high: Any = 1.0, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Uniform numbers in [low, high).

>>> cm.random_uniform(low=5.0, high=6.0, shape=(2,), seed=0)
Tensor([5.41846,  5.6005], float32, native)"""

def real(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the real part

>>> cm.real(cm.asarray([1 + 2j, 3j]))
Tensor([1.0, 0.0], float32, native)"""

def reciprocal(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """1 / x

>>> cm.reciprocal(cm.asarray([2.0, -4.0]))
Tensor([  0.5, -0.25], float32, native)"""

def register_backend(name: str, module: ModuleType, /) -> None:
    """Makes a backend of a module of functions named after the ops.

>>> import types
>>> cm.register_backend("mine", types.ModuleType("mine"))
Traceback (most recent call last):
    ...
clematis.errors.FrameworkError: mine: its module cannot be bound: <class 'AttributeError'>: module 'mine' has no attribute 'DTYPES'"""

def relu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """max(x, 0).

>>> cm.relu(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def relu6(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x held between 0 and 6.

>>> cm.relu6(cm.asarray([-1.0, 2.0, 8.0]))
Tensor([0.0, 2.0, 6.0], float32, native)"""

def remainder(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the remainder of floor_divide, with y's sign; an integer by zero gives 0

>>> cm.remainder(cm.asarray([7, -7]), 3)
Tensor([1, 2], int32, native)"""

def repeat(x: _T | builtins.complex, repeats: Any, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Each element repeated, as often as a number or a tensor of numbers says.

>>> cm.repeat(cm.asarray([1, 2]), 2)
Tensor([1, 1, 2, 2], int32, native)
>>> cm.repeat(cm.asarray([1, 2]), cm.asarray([3, 1]))
Tensor([1, 1, 1, 2], int32, native)"""

def reshape(x: _T | builtins.complex, /, shape: int | Sequence[int], *, copy: builtins.bool | None = None, out: Any = None) -> _T:
    """The same elements in row-major order with another shape; one size may be -1.

>>> cm.reshape(cm.arange(6), (2, -1))
Tensor([[0, 1, 2],
        [3, 4, 5]], int32, native)"""

def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that operands meet in.

>>> cm.result_type(cm.int32, cm.float32), cm.result_type(cm.asarray([1.0]), 2)
(clematis.float32, clematis.float32)"""

def rms_norm(x: _T | builtins.complex, /, scale: Any = None, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-05, out: Any = None) -> _T:
    """Divided by the root mean square over the last axes from `axis` on, then scaled.

>>> cm.rms_norm(cm.asarray([3.0, 4.0, 0.0, 0.0]))
Tensor([1.2, 1.6, 0.0, 0.0], float32, native)"""

def rnn_update(x: _T | builtins.complex, init_h: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, nonlinearity: Any = 'tanh', out: Any = None) -> _T:
    """A plain recurrent layer over time: all hidden states. The nonlinearity is "tanh" or "relu".

>>> cm.rnn_update(cm.zeros((1, 2, 1)), cm.ones((1, 1)), cm.ones((1, 1)), cm.ones((1, 1)), nonlinearity="relu")
Tensor([[[1.0],
         [1.0]]], float32, native)"""

def roll(x: _T | builtins.complex, /, shift: Any, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Moved along axes; what falls off one end comes in at the other.

>>> cm.roll(cm.asarray([1, 2, 3]), 1)
Tensor([3, 1, 2], int32, native)"""

def round(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """rounded to the nearest, ties to even

>>> cm.round(cm.asarray([0.5, 1.5, 2.6]))
Tensor([0.0, 2.0, 3.0], float32, native)"""

def rsqrt(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """1 / sqrt(x)

>>> cm.rsqrt(cm.asarray([4.0, 16.0]))
Tensor([ 0.5, 0.25], float32, native)"""

def save(path: Any, tree: Any, /) -> Any:
    """Writes a pytree of arrays and plain values to a file.

The file is a safetensors file with the arrays by their paths; dicts, lists and tuples, numbers, strings, booleans and
`None` are kept in its metadata. It is written beside the old one and renamed, so that a file of this name is always
whole. Modules and dataclasses are saved as dicts of what they hold.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     cm.save(os.path.join(folder, "x.safetensors"), [cm.asarray([1, 2]), "text"])
...     os.listdir(folder)
['x.safetensors']"""

def scaled_dot_product_attention(q: Any, k: Any, v: Any, scale: Any, /, *, mask: Any = None, out: Any = None) -> Any:
    """softmax(q kᵀ scale) v; positions where the mask is 0 are ignored.

>>> q, k, v = cm.asarray([[1.0, 0.0]]), cm.eye(2), cm.asarray([[1.0], [3.0]])
>>> cm.scaled_dot_product_attention(q, k, v, 1.0)
Tensor([[1.53788]], float32, native)
>>> cm.scaled_dot_product_attention(q, k, v, 1.0, mask=cm.asarray([[0, 1]]))
Tensor([[3.0]], float32, native)"""

def scan(body: Any, start: Any, xs: Any = None, /, *, length: Any = None, reverse: Any = False) -> Any:
    """Goes along the leading axis of `xs` with `body(carry, x) -> (carry, y)`; returns the last carry and all `y`, stacked.

>>> cm.scan(lambda total, x: (total + x, total), cm.asarray(0), cm.asarray([1, 2, 3]))
(Tensor(6, int32, native), Tensor([0, 1, 3], int32, native))"""

def searchsorted(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, side: Any = 'left', sorter: Any = None, out: Any = None) -> _T:
    """Where each value would be put into the sorted elements.

>>> cm.searchsorted(cm.asarray([1, 3, 5]), cm.asarray([3, 4]))
Tensor([1, 2], int64, native)
>>> cm.searchsorted(cm.asarray([1, 3, 5]), cm.asarray([3, 4]), side="right")
Tensor([2, 2], int64, native)"""

def seed(seed_value: Any = 0) -> Any:
    """Begins the stream anew that draws without a key or a seed come from.

>>> cm.seed(0)
>>> first = cm.random_uniform(shape=(2,))
>>> cm.random.seed(0)
>>> cm.all(cm.random_uniform(shape=(2,)) == first)
Tensor(True, bool, native)"""

def selu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """elu with the constants that keep mean and variance.

>>> cm.selu(cm.asarray([-1.0, 1.0]))
Tensor([-1.11133,   1.0507], float32, native)"""

def set_backend(name: str, /) -> None:
    """Makes new tensors on this backend from now on, in the whole process.

>>> cm.set_backend("native")
>>> cm.current_backend()
'native'"""

def shift_left(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits shifted left by y; 0 when y is the width or more

>>> cm.shift_left(cm.asarray([1, 5]), 2)
Tensor([ 4, 20], int32, native)"""

def shift_right(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """bits shifted right by y, keeping the sign

>>> cm.shift_right(cm.asarray([20, -20]), 2)
Tensor([ 5, -5], int32, native)"""

def shuffle(x: _T | builtins.complex, axis: int | Sequence[int] | None = 0, /, *, seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Parts along an axis in random order.

>>> cm.shuffle(cm.asarray([1, 2, 3, 4]), seed=4)
Tensor([4, 1, 2, 3], int32, native)
>>> cm.random.shuffle(cm.random.key(4), cm.asarray([1, 2, 3, 4]))
Tensor([4, 1, 2, 3], int32, native)"""

def sigmoid(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """1 / (1 + exp(-x)).

>>> cm.sigmoid(cm.asarray([0.0, 2.0]))
Tensor([     0.5, 0.880797], float32, native)"""

def sign(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """-1, 0 or 1; z/|z| for complex z; NaN stays NaN

>>> cm.sign(cm.asarray([-5, 0, 5]))
Tensor([-1,  0,  1], int32, native)"""

def signbit(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether the sign bit is set

>>> cm.signbit(cm.asarray([-0.0, 0.0]))
Tensor([ True, False], bool, native)"""

def silu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x sigmoid(x).

>>> cm.silu(cm.asarray([0.0, 2.0]))
Tensor([    0.0, 1.76159], float32, native)"""

def sin(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the sine

>>> cm.sin(cm.asarray([0.0, cm.pi / 2]))
Tensor([0.0, 1.0], float32, native)"""

def sinh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the hyperbolic sine

>>> cm.sinh(cm.asarray([0.0, 1.0]))
Tensor([   0.0, 1.1752], float32, native)"""

def smooth_l1_loss(input: Any, target: Any, /, *, beta: Any = 1.0, reduction: Any = 'mean', out: Any = None) -> Any:
    """`0.5 d² / beta` of the difference `d` where `|d| < beta`, and `|d| - 0.5 beta` elsewhere.

>>> cm.smooth_l1_loss(cm.asarray([0.0, 0.0]), cm.asarray([0.5, 3.0]), reduction="none")
Tensor([0.125,   2.5], float32, native)"""

def softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """exp(x), scaled to sum to one along an axis, the last one unless told otherwise.

>>> cm.softmax(cm.asarray([0.0, 0.0, 1.0]))
Tensor([0.211942, 0.211942, 0.576117], float32, native)"""

def softplus(x: _T | builtins.complex, /, *, beta: Any = None, threshold: Any = None, out: Any = None) -> _T:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.

>>> cm.softplus(cm.asarray([0.0, 100.0]))
Tensor([0.693147,    100.0], float32, native)"""

def sort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True, out: Any = None) -> _T:
    """The elements in rising order along an axis; NaN last.

>>> cm.sort(cm.asarray([3.0, 1.0, 2.0]))
Tensor([1.0, 2.0, 3.0], float32, native)
>>> cm.sort(cm.asarray([3.0, 1.0, 2.0]), descending=True)
Tensor([3.0, 2.0, 1.0], float32, native)"""

def sparse_cross_entropy(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-07, reduction: Any = 'sum', out: Any = None) -> Any:
    """The cross-entropy of probabilities where `true` holds the number of the class: -log(pred) there. A number below 0, or of no
class, is an `AxisError`; logits are refused as by `cross_entropy`.

>>> cm.sparse_cross_entropy(cm.asarray([1, 0]), cm.asarray([[0.25, 0.75], [0.5, 0.5]]))
Tensor([0.287682, 0.693147], float32, native)"""

def split(x: Any, indices_or_sections: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> tuple[Any, ...]:
    """Equal parts along an axis, or parts that end at given places.

>>> cm.split(cm.asarray([1, 2, 3, 4]), 2)
(Tensor([1, 2], int32, native), Tensor([3, 4], int32, native))
>>> cm.split(cm.asarray([1, 2, 3, 4]), [1])
(Tensor([1], int32, native), Tensor([2, 3, 4], int32, native))"""

def sqrt(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the principal square root

>>> cm.sqrt(cm.asarray([4.0, 2.0]))
Tensor([    2.0, 1.41421], float32, native)"""

def square(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x times x

>>> cm.square(cm.asarray([3, -4]))
Tensor([ 9, 16], int32, native)"""

def squeeze(x: _T | builtins.complex, /, axis: int | Sequence[int] | None = None, *, out: Any = None) -> _T:
    """Without axes of size 1.

>>> cm.squeeze(cm.zeros((1, 2, 1)), 0).shape
(2, 1)"""

def stack(arrays: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> Any:
    """All operands along a new axis.

>>> cm.stack([cm.asarray([1, 2]), cm.asarray([3, 4])], axis=1)
Tensor([[1, 3],
        [2, 4]], int32, native)"""

def std(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The square root of the variance.

>>> cm.std(cm.asarray([1.0, 3.0]))
Tensor(1.0, float32, native)
>>> cm.std(cm.asarray([1.0, 3.0]), correction=1)
Tensor(1.41421, float32, native)"""

def stop_gradient(x: _T | builtins.complex, /, *, preserve_type: Any = True, out: Any = None) -> _T:
    """x as a constant to every derivative. A variable of a framework's own autodiff gives a new one, unless
`preserve_type` is false.

>>> cm.grad(lambda x: x * cm.stop_gradient(x))(cm.asarray(3.0))
Tensor(3.0, float32, native)"""

def sub(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x - y, wrapping for integers

>>> cm.sub(cm.asarray([1, 2]), 3)
Tensor([-2, -1], int32, native)"""

def subtract(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x - y, wrapping for integers

>>> cm.sub(cm.asarray([1, 2]), 3)
Tensor([-2, -1], int32, native)"""

def sum(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The sum over axes; of nothing, 0.

>>> cm.sum(cm.asarray([[1, 2], [3, 4]]), axis=0)
Tensor([4, 6], int32, native)"""

def swapaxes(x: _T | builtins.complex, axis1: Any, axis2: Any, /, *, out: Any = None) -> _T:
    """Two axes exchanged.

>>> cm.swapaxes(cm.zeros((2, 3, 4)), 0, 2).shape
(4, 3, 2)"""

def switch(index: Any, branches: Any, /, *operands: Any) -> Any:
    """The branch that `index` numbers, clipped to the range, called with the operands.

>>> cm.switch(1, [lambda x: x + 1, lambda x: x * 10], cm.asarray(5))
Tensor(50, int32, native)"""

def take(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Slices along an axis at these indices. Negative ones count from the end; one out of range is an `AxisError`, also in programs.

>>> cm.take(cm.asarray([10, 20, 30]), cm.asarray([2, 0]))
Tensor([30, 10], int32, native)"""

def take_along_axis(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """One element per index along an axis, the other axes going side by side.

>>> cm.take_along_axis(cm.asarray([[1, 2], [3, 4]]), cm.asarray([[1], [0]]))
Tensor([[2],
        [3]], int32, native)"""

def tan(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the tangent

>>> cm.tan(cm.asarray([0.0, cm.pi / 4]))
Tensor([0.0, 1.0], float32, native)"""

def tanh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the hyperbolic tangent

>>> cm.tanh(cm.asarray([0.0, 1.0]))
Tensor([     0.0, 0.761594], float32, native)"""

def tensordot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = 2, out: Any = None) -> _T:
    """Sums of products over axes.

>>> cm.tensordot(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]), axes=1)
Tensor([12, 34], int32, native)"""

def thresholded_relu(x: _T | builtins.complex, /, *, threshold: Any = 0.0, out: Any = None) -> _T:
    """x where it is above the threshold, 0 elsewhere.

>>> cm.thresholded_relu(cm.asarray([-1.0, 0.5, 2.0]), threshold=1.0)
Tensor([0.0, 0.0, 2.0], float32, native)"""

def tile(x: _T | builtins.complex, repetitions: Any, /, *, out: Any = None) -> _T:
    """The whole repeated along each axis.

>>> cm.tile(cm.asarray([1, 2]), (2,))
Tensor([1, 2, 1, 2], int32, native)"""

def top_k(x: Any, k: Any, /, *, out: Any = None) -> Any:
    """The k largest along the last axis, falling, and where they stood.

>>> cm.top_k(cm.asarray([3, 9, 5]), 2)
(Tensor([9, 5], int32, native), Tensor([1, 2], int64, native))"""

def tril(x: _T | builtins.complex, /, *, k: Any = 0, out: Any = None) -> _T:
    """The lower triangle, zeros elsewhere.

>>> cm.tril(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 0],
        [3, 4]], int32, native)"""

def triu(x: _T | builtins.complex, /, *, k: Any = 0, out: Any = None) -> _T:
    """The upper triangle, zeros elsewhere.

>>> cm.triu(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 2],
        [0, 4]], int32, native)"""

def trunc(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """rounded towards zero

>>> cm.trunc(cm.asarray([1.7, -1.7]))
Tensor([ 1.0, -1.0], float32, native)"""

uint16: DType

uint32: DType

uint64: DType

uint8: DType

def unique_all(x: Any, /, *, out: Any = None) -> Any:
    """The distinct elements, where each stood first, which one each element is, and how often each stands.

>>> cm.unique_all(cm.asarray([5, 3, 5])).inverse_indices
Tensor([1, 0, 1], int64, native)"""

def unique_counts(x: Any, /, *, out: Any = None) -> Any:
    """The distinct elements and how often each stands.

>>> cm.unique_counts(cm.asarray([5, 3, 5]))
unique_counts(values=Tensor([3, 5], int32, native), counts=Tensor([1, 2], int64, native))"""

def unique_inverse(x: Any, /, *, out: Any = None) -> Any:
    """The distinct elements and which one each element is.

>>> cm.unique_inverse(cm.asarray([5, 3, 5]))
unique_inverse(values=Tensor([3, 5], int32, native), inverse_indices=Tensor([1, 0, 1], int64, native))"""

def unique_values(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """The distinct elements in rising order.

>>> cm.unique_values(cm.asarray([5, 3, 5]))
Tensor([3, 5], int32, native)"""

def unstack(x: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> tuple[Any, ...]:
    """The slices along an axis.

>>> cm.unstack(cm.asarray([[1, 2], [3, 4]]))
(Tensor([1, 2], int32, native), Tensor([3, 4], int32, native))"""

def value_and_grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """The value and the gradient of a function with one real result.

>>> cm.value_and_grad(lambda x: cm.sum(x**2))(cm.asarray([1.0, 2.0]))
(Tensor(5.0, float32, native), Tensor([2.0, 4.0], float32, native))"""

def var(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """The variance over axes; divides by n - correction.

>>> cm.var(cm.asarray([1.0, 3.0]))
Tensor(1.0, float32, native)
>>> cm.var(cm.asarray([1.0, 3.0]), correction=1)
Tensor(2.0, float32, native)"""

def vecdot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """Sums of products over one axis, the first operand conjugated.

>>> cm.vecdot(cm.asarray([1, 2, 3]), cm.asarray([4, 5, 6]))
Tensor(32, int32, native)"""

def vjp(f: Callable[..., Any], /, *primals: Any) -> Any:
    """The value of f, and the map from cotangents of its output to a tuple of cotangents of its arguments.

>>> y, pull = cm.vjp(lambda x: x**2, cm.asarray([1.0, 3.0]))
>>> pull(cm.asarray([1.0, 1.0]))
(Tensor([2.0, 6.0], float32, native),)"""

def vmap(f: Callable[..., Any], /, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """A function of one example as a function of many, which stand along `in_axes` of its arguments.

`in_axes` is one axis for all arguments, or a tuple with one for each; None is for what is the same for all examples.
Keyword arguments go along their first axis. Results have the examples along `out_axes`. Draws without a key are
another one for each example.

    >>> cm.vmap(lambda x, y: x @ y)(cm.ones((3, 4)), cm.ones((3, 4)))
    Tensor([4.0, 4.0, 4.0], float32, native)"""

def where(condition: Any, x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """The second operand where the first is true, else the third.

>>> cm.where(cm.asarray([True, False]), cm.asarray([1, 2]), 0)
Tensor([1, 0], int32, native)"""

def while_loop(test: Any, body: Any, start: Any, /) -> Any:
    """Runs `body` on the carried pytree while `test` of it holds.

>>> cm.while_loop(lambda x: x < 100, lambda x: x * 2, cm.asarray(3))
Tensor(192, int32, native)"""

def wrap(x: Any, /) -> Tensor:
    """The tensor of a framework's own array.

>>> import numpy as np
>>> cm.wrap(np.asarray([1.0, 2.0]))
Tensor([1.0, 2.0], float64, numpy)"""

def zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Zeros.

>>> cm.zeros((2,))
Tensor([0.0, 0.0], float32, native)"""

def zeros_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Zeros.

Of the shape and element type of another tensor, beside it.

>>> cm.zeros_like(cm.asarray([5, 6]))
Tensor([0, 0], int32, native)"""
