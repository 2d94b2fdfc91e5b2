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
    def __round__(self, /, decimals: Any = None) -> Any: ...
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
    """Information about the namespace, as the Array API defines it."""

__version__: str

def _backend_facts() -> Any:
    """Describes each backend: name, version, description, and why it cannot be used if so."""

def _below(x: _T | builtins.complex) -> _T:
    """The same values without the derivatives that are being computed."""

def _custom_gradient(forward: Any, backward: Any, name: str, /) -> Any:
    """The same with positional arguments; used by pickle."""

def _derivative(f: Callable[..., Any], argnums: Any, name: str, has_aux: Any, reverse: Any, /) -> Any:
    """Rebuilds a derivative from its name; used by pickle."""

def _dialect(name: str) -> Any:
    """The module of a framework's functions, named after the ops."""

def _export_file(graph: Any, path: Any, values: Any, inputs: Any, outputs: Any) -> Any:
    """Saves a graph and its values as a file of our own format."""

def _export_onnx(graph: Any, path: Any, values: Any, inputs: Any, outputs: Any) -> Any:
    """Exports a graph as an ONNX model; `values` are those of the inputs that a call does not pass, by index."""

_fft: ModuleType

def _flat(tree: Any, /) -> Any:
    """The arrays of a pytree in order, the key of everything else, the objects that the key compares by address, and whether
all arrays are concrete."""

def _flops(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Counts the operations of `f(*args, **kwargs)` by tracing it on abstract values."""

def _has_values(x: _T | builtins.complex) -> _T:
    """Whether the values of an array can be read."""

def _import_file(path: Any) -> Any:
    """Loads such a file."""

def _import_onnx(model: Any, values: Any, sizes: Any) -> Any:
    """Imports a model as a graph."""

def _import_program(text: Any, framework: Any) -> Any:
    """Imports a captured program: the graph, its constants, and whether it takes a key."""

def _import_rules(framework: Any) -> Any:
    """The names of the ops that a capture may leave as they are."""

def _in_scope(name: str, function: Callable[..., Any], args: Any, words: Any) -> Any:
    """Calls `function(*args, **words)` in a named scope: ops that are recorded meanwhile get its path."""

def _is_mapped(x: _T | builtins.complex) -> _T:
    """Whether an array is that of one example inside `vmap`."""

def _is_recording() -> Any:
    """Whether something is being recorded on this thread: a program or the body of a loop."""

def _key_of(words: Any) -> Any:
    """A random key from two words that a program returned."""

_linalg: ModuleType

def _lower(graph: Any, framework_name: Any, name: str, refuses: Any) -> Any:
    """Prints a graph as source: a function `name(ops, *inputs)` of a framework's functions; `refuses` may reject their
arguments."""

def _method(x: Any, name: str, /) -> Any:
    """A library function bound to a pytree as a method on its leaves."""

def _moment_zeros(param: Any, /) -> Any:
    """A moment before the first step; concrete also while a step is traced."""

def _next_key() -> Any:
    """The words of the next key of the implicit stream."""

def _next_scale(scale: Any, growth: Any, backoff: Any, every: Any, good: Any, finite: Any, /) -> Any:
    """Dynamic loss scaling: the new loss scale and the number of consecutive finite steps, after a step with finite
gradients or not."""

def _onnx_ops() -> Any:
    """The names of the supported ops."""

def _optim_numbers(name: str, settings: Any, lr: Any, count: Any, wide: Any, backend: Any, /) -> Any:
    """The scalar inputs of an update step, which a compiled step takes at each call."""

def _optim_slots(name: str, settings: Any, /) -> Any:
    """The names of the optimizer state (moments) of a parameter; checks the hyperparameters."""

def _optim_step(name: str, groups: Any, leaves: Any, stop: Any, /) -> Any:
    """Updates many parameters: returns the new parameters and moments. If one update fails, none is applied.

`groups` are pairs of a learning rate and a dict of hyperparameters. `leaves` are tuples of a path, a parameter, its
gradient, a list of moments or None, the index of its group, and the step count, from 1, or a vector of the scalars
derived from it."""

def _panic_for_tests(place: Any, message: Any) -> Any:
    """Panics, for tests."""

def _put(x: _T | builtins.complex, value: Any) -> _T:
    """Stores a result in a tensor that a program updates."""

def _python_string(text: Any) -> Any:
    """A Python string literal, on one line, whose value is the text."""

_random: ModuleType

def _record(f: Callable[..., Any], name: str, backend: Any, fast_math: Any, /) -> Any:
    """Records `f(lift)`, which returns its results and which inputs they replace."""

def _restore(backend: Any, dtype: Any, shape: int | Sequence[int], bytes: Any) -> Any:
    """Rebuilds a tensor from its pickled state; on the engine if its backend is not installed."""

def _run_command_line(args: Any) -> Any:
    """Runs the command line; returns the exit code."""

def _run_onnx(model: Any, inputs: Any) -> Any:
    """Runs a model once, on the built-in engine."""

def _scaled(tree: Any, factor: Any, /) -> Any:
    """Scales every leaf by a number; half precision is promoted to f32."""

def _schedule_at(what: Any, step: Any, /) -> Any:
    """The value of a schedule at a step; checks the parameters."""

def _summed(one: Any, two: Any, /) -> Any:
    """Adds leaves of the same path; half precision is promoted to f32."""

def _trace_call(f: Callable[..., Any], held: Any, inputs: Any) -> Any:
    """Records `f(held, inputs)`, which returns results and new values of the model.

Returns the graph, the values of its last inputs, and the number of keys before those."""

_tree: ModuleType

def _without_held(graph: Any) -> Any:
    """A graph without ops that hold tensors, and those tensors, which become its last inputs."""

def _write_file(path: Any, bytes: Any) -> Any:
    """Writes a file atomically."""

def _write_source(request: Any) -> Any:
    """Writes a program as source code; request and answer are JSON."""

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
    """Adam step before the learning rate: returns the step and the new first and second moments.

>>> zero = cm.zeros((2,))
>>> step, mean, square = cm.adam_step(cm.asarray([1.0, -4.0]), zero, zero, 1)
>>> step
Tensor([ 0.999996, -0.999998], float32, native)
>>> mean
Tensor([ 0.1, -0.4], float32, native)"""

def adam_update(w: Any, grads: Any, lr: Any, mw_tm1: Any, vw_tm1: Any, step: Any, /, *, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-07, stop_gradients: Any = True, out: Any = None) -> Any:
    """Adam update: returns the new parameter and the new first and second moments.

>>> w, zero = cm.asarray([1.0, 2.0]), cm.zeros((2,))
>>> w, mean, square = cm.adam_update(w, cm.asarray([1.0, -4.0]), 0.1, zero, zero, 1)
>>> w
Tensor([0.9, 2.1], float32, native)"""

def adaptive_avg_pool1d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """1D adaptive average pooling to a given output size. Channels precede the spatial axis unless `data_format` says
otherwise.

>>> cm.adaptive_avg_pool1d(cm.asarray([[1.0, 2.0, 3.0, 4.0]]), 2)
Tensor([[1.5, 3.5]], float32, native)"""

def adaptive_avg_pool2d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """2D adaptive average pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
otherwise.

>>> x = cm.asarray([[[1.0, 2.0], [3.0, 4.0]]])
>>> cm.adaptive_avg_pool2d(x, (1, 2))
Tensor([[[2.0, 3.0]]], float32, native)"""

def adaptive_avg_pool3d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """3D adaptive average pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
otherwise.

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2))
>>> cm.adaptive_avg_pool3d(x, (1, 1, 2))
Tensor([[[[3.0, 4.0]]]], float32, native)"""

def adaptive_max_pool1d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """1D adaptive max pooling to a given output size. Channels precede the spatial axis unless `data_format` says
otherwise.

>>> cm.adaptive_max_pool1d(cm.asarray([[1.0, 2.0, 3.0, 4.0]]), 2)
Tensor([[2.0, 4.0]], float32, native)"""

def adaptive_max_pool2d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """2D adaptive max pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
otherwise.

>>> x = cm.asarray([[[1.0, 2.0], [3.0, 4.0]]])
>>> cm.adaptive_max_pool2d(x, (1, 2))
Tensor([[[3.0, 4.0]]], float32, native)"""

def adaptive_max_pool3d(input: Any, output_size: Any, *, data_format: Any = None, out: Any = None) -> Any:
    """3D adaptive max pooling to given output sizes. Channels precede the spatial axes unless `data_format` says
otherwise.

>>> cm.adaptive_max_pool3d(cm.ones((1, 2, 2, 2)), 1)
Tensor([[[[1.0]]]], float32, native)"""

def add(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x + y, wrapping for integers, or for bool

>>> cm.add(cm.asarray([1, 2]), 3)
Tensor([4, 5], int32, native)"""

def all(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Tests whether all elements are nonzero.

>>> cm.all(cm.asarray([[True, True], [True, False]]), axis=1)
Tensor([ True, False], bool, native)"""

def allclose(x: Any, y: Any, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False, out: Any = None) -> builtins.bool:
    """Tests whether all elements are equal within a tolerance.

>>> cm.allclose(cm.asarray([1.0, 2.0]), cm.asarray([1.0, 2.000001]))
True"""

def angle(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Angle (argument) of a complex number.

>>> cm.angle(cm.asarray([1 + 0j, 1j]))
Tensor([   0.0, 1.5708], float32, native)"""

def any(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Tests whether any element is nonzero.

>>> cm.any(cm.asarray([[False, False], [True, False]]), axis=1)
Tensor([False,  True], bool, native)"""

def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Evenly spaced values from `start` up to, but not including, `stop`, with spacing `step`.

>>> cm.arange(4)
Tensor([0, 1, 2, 3], int32, native)
>>> cm.arange(1, 2, 0.25)
Tensor([ 1.0, 1.25,  1.5, 1.75], float32, native)"""

def arctan2(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the angle of the point with coordinates x (second operand) and y (first operand)

>>> cm.atan2(cm.asarray([1.0, 1.0]), cm.asarray([0.0, -1.0]))
Tensor([ 1.5708, 2.35619], float32, native)"""

def argmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Index of the first maximum.

>>> cm.argmax(cm.asarray([[1, 5, 2], [7, 0, 7]]), axis=1)
Tensor([1, 0], int64, native)"""

def argmin(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Index of the first minimum.

>>> cm.argmin(cm.asarray([[1, 5, 2], [7, 0, 7]]), axis=1)
Tensor([0, 1], int64, native)"""

def argsort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True, out: Any = None) -> _T:
    """Indices that sort the elements along an axis in ascending order.

>>> cm.argsort(cm.asarray([3.0, 1.0, 2.0]))
Tensor([1, 2, 0], int64, native)"""

def array(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """Converts an object to a tensor: numbers, nested lists of numbers, arrays of any library.

Numbers, lists and NumPy arrays are placed on the current backend; arrays of torch, jax and tensorflow keep their
backend.

>>> cm.asarray([1, 2, 3])
Tensor([1, 2, 3], int32, native)
>>> cm.asarray([1, 2.5], dtype=cm.float64)
Tensor([1.0, 2.5], float64, native)"""

def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """Converts an object to a tensor: numbers, nested lists of numbers, arrays of any library.

Numbers, lists and NumPy arrays are placed on the current backend; arrays of torch, jax and tensorflow keep their
backend.

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
    """Casts to a dtype.

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
    """1D average pooling. Padding is not counted unless `count_include_pad` is set.

>>> x = cm.asarray([[[1.0], [2.0], [3.0], [6.0]]])
>>> cm.avg_pool1d(x, 2, 2, "VALID")[0, :, 0]
Tensor([1.5, 4.5], float32, native)"""

def avg_pool2d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', count_include_pad: Any = False, ceil_mode: Any = False, divisor_override: Any = None, out: Any = None) -> _T:
    """2D average pooling. Padding is not counted unless `count_include_pad` is set.

>>> x = cm.reshape(cm.arange(16.0), (1, 4, 4, 1))
>>> cm.avg_pool2d(x, 2, 2, "VALID")[0, :, :, 0]
Tensor([[ 2.5,  4.5],
        [10.5, 12.5]], float32, native)"""

def avg_pool3d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', count_include_pad: Any = False, ceil_mode: Any = False, divisor_override: Any = None, out: Any = None) -> _T:
    """3D average pooling. Padding is not counted unless `count_include_pad` is set.

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
    """Names of the installed backends; none is imported.

>>> "native" in cm.backends()
True"""

def batch_norm(x: _T | builtins.complex, mean: Any, variance: Any, /, *, offset: Any = None, scale: Any = None, training: Any = False, eps: Any = 1e-05, data_format: Any = 'NCS', out: Any = None) -> _T:
    """Batch normalization per channel, with the given statistics, or with those of the batch in training. Channels are axis
1.

>>> x = cm.asarray([[1.0, 10.0], [3.0, 30.0]])
>>> cm.batch_norm(x, cm.asarray([2.0, 20.0]), cm.asarray([1.0, 100.0]), eps=0.0)
Tensor([[-1.0, -1.0],
        [ 1.0,  1.0]], float32, native)"""

def batch_norm_update(x: _T | builtins.complex, mean: Any = None, variance: Any = None, /, *, offset: Any = None, scale: Any = None, momentum: Any = 0.1, eps: Any = 1e-05, data_format: Any = 'NSC', out: Any = None) -> _T:
    """Batch normalization in training: normalizes each channel by the statistics of the batch.

Returns the result, the new running mean and the new running variance. `momentum` is the weight of the new value; the
running variance is unbiased. Channels are last unless `data_format` says otherwise.

>>> y, mean, var = cm.batch_norm_update(cm.asarray([[1.0], [3.0]]), cm.zeros((1,)), cm.ones((1,)), momentum=0.5)
>>> mean, var
(Tensor([1.0], float32, native), Tensor([1.5], float32, native))"""

def bernoulli(probs: Any = None, *, logits: Any = None, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Tensor:
    """Samples from the Bernoulli distribution, by probabilities or logits: 1 or 0.

>>> cm.bernoulli(0.5, shape=(4,), seed=1)
Tensor([1.0, 1.0, 1.0, 0.0], float32, native)
>>> cm.random.bernoulli(cm.random.key(1), (4,), p=0.5)
Tensor([ True,  True,  True, False], bool, native)"""

def beta(a: _T | builtins.complex, b: _T | builtins.complex, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """Samples from the beta distribution with parameters alpha and beta.

>>> cm.beta(2.0, 3.0, shape=(2,), seed=1)
Tensor([0.475944, 0.331999], float32, native)
>>> cm.random.beta(cm.random.key(1), 2.0, 3.0, (2,))
Tensor([0.475944, 0.331999], float32, native)"""

bfloat16: DType

def bilinear(x1: _T | builtins.complex, x2: _T | builtins.complex, weight: Any, /, *, bias: Any = None, out: Any = None) -> _T:
    """Bilinear layer over the last axes: x1 weight x2 + bias. A weight is [out, in1, in2].

>>> cm.bilinear(cm.asarray([1.0, 2.0]), cm.asarray([3.0]), cm.ones((1, 2, 1)))
Tensor([9.0], float32, native)"""

def binary_cross_entropy(true: Any, pred: Any, /, *, epsilon: Any = 1e-07, reduction: Any = 'none', out: Any = None) -> Any:
    """Binary cross-entropy of probabilities: -(true log(pred) + (1 - true) log(1 - pred)) elementwise. Eager calls reject a
`pred` that is not a probability: use `binary_cross_entropy_with_logits` for logits.

>>> cm.binary_cross_entropy(cm.asarray([1.0, 0.0]), cm.asarray([0.9, 0.5]))
Tensor([0.105361, 0.693147], float32, native)"""

def binary_cross_entropy_with_logits(true: Any, pred: Any, /, *, epsilon: Any = 1e-07, pos_weight: Any = None, reduction: Any = 'none', out: Any = None) -> Any:
    """Binary cross-entropy of logits, computed without overflow. The weight of positive examples is `pos_weight`; `epsilon`
is ignored.

>>> cm.binary_cross_entropy_with_logits(cm.asarray([1.0, 0.0]), cm.asarray([2.0, 0.0]))
Tensor([0.126928, 0.693147], float32, native)"""

def bitcast(x: _T | builtins.complex, dtype: Any, /, *, out: Any = None) -> _T:
    """Bitcast: reinterprets the bits as another dtype of the same size.

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
    """Broadcasts tensors to a common shape.

>>> x, y = cm.broadcast_arrays(cm.asarray([1, 2]), cm.asarray([[3], [4]]))
>>> x
Tensor([[1, 2],
        [1, 2]], int32, native)"""

def broadcast_shapes(*shapes: Any, out: Any = None) -> tuple[int, ...]:
    """The shape that shapes broadcast to.

>>> cm.broadcast_shapes((3, 1), (2,))
(3, 2)"""

def broadcast_to(x: _T | builtins.complex, /, shape: int | Sequence[int], *, out: Any = None) -> _T:
    """Broadcasts to a shape.

>>> cm.broadcast_to(cm.asarray([1, 2]), (2, 2))
Tensor([[1, 2],
        [1, 2]], int32, native)"""

def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Tests whether one dtype can be cast to another by the promotion rules.

>>> cm.can_cast(cm.int32, cm.int64), cm.can_cast(cm.float64, cm.float32)
(True, False)"""

def causal_mask(queries: Any, keys: Any = None, /, *, mask: Any = None, out: Any = None) -> Any:
    """Causal mask: True where a query may attend to a key, which is at its position or before, and where the mask is not 0.
Both are [..., positions, features].

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
    """Clips x to bounds, each of which is optional; NaN stays NaN.

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
    """Concatenates tensors along an axis; flattens them first if the axis is None.

>>> cm.concat([cm.asarray([1, 2]), cm.asarray([3])])
Tensor([1, 2, 3], int32, native)"""

def cond(predicate: Any, then: Any, otherwise: Any, /, *operands: Any) -> Any:
    """Conditional: `then(*operands)` if the predicate holds, else `otherwise(*operands)`; both return the same structure.

>>> cm.cond(True, lambda x: x + 1, lambda x: x - 1, cm.asarray(5))
Tensor(6, int32, native)"""

def conj(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the complex conjugate

>>> cm.conj(cm.asarray([1 + 2j]))
Tensor([1.0-2.0j], complex64, native)"""

def conv(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, transpose: Any = False, dims: Any = 2, output_shape: Any = None, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', feature_group_count: Any = 1, x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """Convolution or transposed convolution over one, two or three spatial axes.

>>> x = cm.reshape(cm.arange(1.0, 7.0), (1, 6, 1))
>>> cm.conv(x, cm.ones((2, 1, 1)), 2, "VALID", dims=1)[0, :, 0]
Tensor([ 3.0,  7.0, 11.0], float32, native)"""

def conv1d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """1D convolution; filters are [width, in, out].

>>> x = cm.reshape(cm.arange(1.0, 7.0), (1, 6, 1))
>>> w = cm.reshape(cm.asarray([1.0, 10.0, 100.0]), (3, 1, 1))
>>> cm.conv1d(x, w, 2, "SAME")[0, :, 0]
Tensor([321.0, 543.0,  65.0], float32, native)"""

def conv1d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """1D transposed convolution; filters are [width, in, out].

>>> x = cm.reshape(cm.asarray([1.0, 2.0, 3.0]), (1, 3, 1))
>>> w = cm.reshape(cm.asarray([1.0, 10.0, 100.0]), (3, 1, 1))
>>> cm.conv1d_transpose(x, w, 2, "SAME")[0, :, 0]
Tensor([  1.0,  10.0, 102.0,  20.0, 203.0,  30.0], float32, native)"""

def conv2d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """2D convolution; filters are [height, width, in, out].

>>> x = cm.reshape(cm.arange(9.0), (1, 3, 3, 1))
>>> cm.conv2d(x, cm.ones((2, 2, 1, 1)), 1, "VALID")[0, :, :, 0]
Tensor([[ 8.0, 12.0],
        [20.0, 24.0]], float32, native)"""

def conv2d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NHWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """2D transposed convolution; filters are [height, width, in, out].

>>> x = cm.reshape(cm.asarray([1.0, 2.0]), (1, 1, 2, 1))
>>> cm.conv2d_transpose(x, cm.ones((2, 2, 1, 1)), 2, "VALID")[0, :, :, 0]
Tensor([[1.0, 1.0, 2.0, 2.0],
        [1.0, 1.0, 2.0, 2.0]], float32, native)"""

def conv3d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', filter_format: Any = 'channel_last', x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """3D convolution; filters are [depth, height, width, in, out].

>>> x, w = cm.ones((1, 3, 3, 3, 1)), cm.ones((3, 3, 3, 1, 2))
>>> cm.conv3d(x, w, 1, "VALID")[0, 0, 0]
Tensor([[27.0, 27.0]], float32, native)"""

def conv3d_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, output_shape: Any = None, data_format: Any = 'NDHWC', filter_format: Any = 'channel_last', dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """3D transposed convolution; filters are [depth, height, width, in, out].

>>> x, w = cm.ones((1, 2, 2, 2, 1)), cm.ones((2, 2, 2, 1, 1))
>>> cm.conv3d_transpose(x, w, 2, "SAME").shape
(1, 4, 4, 4, 1)"""

def conv_general_dilated(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, dims: Any = 2, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', feature_group_count: Any = 1, x_dilations: Any = 1, dilations: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """Convolution over one, two or three spatial axes, with groups, filter dilation and input dilation.

>>> x = cm.reshape(cm.arange(1.0, 5.0), (1, 4, 1))
>>> cm.conv_general_dilated(x, cm.ones((2, 1, 1)), 1, "VALID", dims=1, dilations=2)[0, :, 0]
Tensor([4.0, 6.0], float32, native)"""

def conv_general_transpose(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, dims: Any = 2, output_shape: Any = None, data_format: Any = 'channel_last', filter_format: Any = 'channel_last', dilations: Any = 1, feature_group_count: Any = 1, bias: Any = None, out: Any = None) -> _T:
    """Transposed convolution over one, two or three spatial axes, with groups.

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
    """Counts the nonzero elements.

>>> cm.count_nonzero(cm.asarray([[0, 1], [2, 3]]), axis=1)
Tensor([1, 2], int64, native)"""

def cross_entropy(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-07, reduction: Any = 'sum', out: Any = None) -> Any:
    """Cross-entropy of probabilities: -true log(pred), summed over the class axis, or reduced by `reduction`. `pred` is
clipped to [epsilon, 1 - epsilon], so that logarithms are finite. Eager calls reject a `pred` below -0.004 or
above 1.004: use `cross_entropy_with_logits` for logits.

>>> true, pred = cm.asarray([[0.0, 1.0], [1.0, 0.0]]), cm.asarray([[0.25, 0.75], [0.5, 0.5]])
>>> cm.cross_entropy(true, pred)
Tensor([0.287682, 0.693147], float32, native)"""

def cross_entropy_with_logits(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, reduction: Any = 'mean', out: Any = None) -> Any:
    """Softmax cross-entropy of logits: -Σ true log(softmax(pred)) over an axis.

`true` holds probabilities, or class indices without that axis. There is one loss per row; `reduction` is applied to
the rows.

>>> cm.cross_entropy_with_logits(cm.asarray([1]), cm.asarray([[0.0, 0.0]]))
Tensor(0.693147, float32, native)"""

def cumulative_logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """Cumulative logsumexp: the logarithm of the cumulative sum of exp(x).

>>> cm.cumulative_logsumexp(cm.asarray([0.0, 0.0, 0.0]))
Tensor([     0.0, 0.693147,  1.09861], float32, native)"""

def cumulative_max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """Cumulative maximum.

>>> cm.cumulative_max(cm.asarray([1, 3, 2, 4]))
Tensor([1, 3, 3, 4], int32, native)"""

def cumulative_min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """Cumulative minimum.

>>> cm.cumulative_min(cm.asarray([4, 2, 3, 1]))
Tensor([4, 2, 2, 1], int32, native)"""

def cumulative_prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """Cumulative product.

>>> cm.cumulative_prod(cm.asarray([1, 2, 3]))
Tensor([1, 2, 6], int32, native)"""

def cumulative_sum(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False, out: Any = None) -> _T:
    """Cumulative sum.

>>> cm.cumulative_sum(cm.asarray([1, 2, 3]))
Tensor([1, 3, 6], int32, native)
>>> cm.cumulative_sum(cm.asarray([1, 2, 3]), include_initial=True)
Tensor([0, 1, 3, 6], int32, native)"""

def current_backend() -> str:
    """Name of the backend that new tensors are created on.

>>> cm.current_backend()
'native'"""

def custom_vjp(forward: Any, backward: Any, /, *, name: str = 'custom_vjp') -> Any:
    """Defines a custom gradient: the function `forward`, whose gradient is `backward((inputs, outputs), upstream)`: one
gradient per argument of `forward`, or None for zeros. With several arguments or results these are tuples. Higher
derivatives differentiate the rule.

>>> double = cm.custom_vjp(lambda x: 2 * x, lambda xs_and_ys, upstream: 10 * upstream)
>>> cm.grad(double)(cm.asarray(1.0))
Tensor(10.0, float32, native)"""

def depthwise_conv2d(x: _T | builtins.complex, filters: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', dilations: Any = 1, out: Any = None) -> _T:
    """2D depthwise convolution: one filter per channel; filters are [height, width, channels].

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2))
>>> w = cm.reshape(cm.asarray([1.0, 100.0]), (1, 1, 2))
>>> cm.depthwise_conv2d(x, w, 1, "VALID")[0, 0]
Tensor([[  0.0, 100.0],
        [  2.0, 300.0]], float32, native)"""

def deserialize(name: str, /, *, custom_objects: Any = None) -> Any:
    """Returns an activation function by name; `custom_objects` are searched first.

>>> cm.deserialize("relu")(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def diff(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, n: Any = 1, prepend: Any = None, append: Any = None, out: Any = None) -> _T:
    """n-th discrete difference along an axis.

>>> cm.diff(cm.asarray([1, 4, 9, 16]))
Tensor([3, 5, 7], int32, native)
>>> cm.diff(cm.asarray([1, 4, 9, 16]), n=2)
Tensor([2, 2], int32, native)"""

def digamma(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the derivative of lgamma

>>> cm.digamma(cm.asarray([1.0, 2.0]))
Tensor([-0.577216,  0.422784], float32, native)"""

def dirichlet(alpha: Any, /, *, size: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples from the Dirichlet distribution: vectors that sum to 1, one concentration parameter per element.

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
    """Dropout: zeroes elements with a probability and scales the rest. The mask is broadcast along axes where `noise_shape`
is 1.

>>> cm.dropout(cm.ones((6,)), 0.5, seed=0)
Tensor([0.0, 2.0, 0.0, 2.0, 2.0, 2.0], float32, native)"""

def dropout1d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """1D channel dropout: zeroes whole channels.

>>> cm.dropout1d(cm.ones((1, 2, 4)), 0.5, seed=0)
Tensor([[[0.0, 2.0, 0.0, 2.0],
         [0.0, 2.0, 0.0, 2.0]]], float32, native)"""

def dropout2d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NHWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """2D channel dropout: zeroes whole channels.

>>> cm.dropout2d(cm.ones((1, 1, 2, 4)), 0.5, seed=0)
Tensor([[[[0.0, 2.0, 0.0, 2.0],
          [0.0, 2.0, 0.0, 2.0]]]], float32, native)"""

def dropout3d(x: _T | builtins.complex, prob: Any, /, *, training: Any = True, data_format: Any = 'NDHWC', seed: Any = None, key: Any = None, out: Any = None) -> _T:
    """3D channel dropout: zeroes whole channels.

>>> cm.dropout3d(cm.ones((1, 1, 1, 2, 4)), 0.5, seed=0)[0, 0]
Tensor([[[0.0, 2.0, 0.0, 2.0],
         [0.0, 2.0, 0.0, 2.0]]], float32, native)"""

def einsum(equation: Any, /, *operands: Any, out: Any = None) -> Any:
    """Einstein summation: `einsum("ij,jk->ik", a, b)`.

>>> cm.einsum("ij,j->i", cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]))
Tensor([12, 34], int32, native)"""

def elu(x: _T | builtins.complex, /, *, alpha: Any = 1.0, out: Any = None) -> _T:
    """ELU: x where positive, alpha (exp(x) - 1) elsewhere.

>>> cm.elu(cm.asarray([-1.0, 2.0]))
Tensor([-0.632121,       2.0], float32, native)"""

def embedding(weights: Any, indices: Any, /, *, max_norm: Any = None, padding_idx: Any = None, out: Any = None) -> Any:
    """Embedding lookup: rows of a table by index. Rows with a norm above `max_norm` are scaled down to it; the row
`padding_idx` is zeros.

>>> table = cm.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
>>> cm.embedding(table, cm.asarray([2, 0]))
Tensor([[5.0, 6.0],
        [1.0, 2.0]], float32, native)"""

def empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Uninitialized tensor; filled with zeros here, so that it is the same on every backend.

>>> cm.empty((2,)).shape
(2,)"""

def empty_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Uninitialized tensor; filled with zeros here, so that it is the same on every backend.

Uses the shape, dtype and backend of another tensor.

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
    """Inserts axes of size 1.

>>> cm.expand_dims(cm.asarray([1, 2]), 0)
Tensor([[1, 2]], int32, native)"""

def expm1(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """exp(x) - 1, exact near zero

>>> cm.expm1(cm.asarray([1e-7, 1.0]))
Tensor([1.00000e-7,    1.71828], float32, native)"""

def eye(n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Identity matrix: ones on the k-th diagonal, zeros elsewhere.

>>> cm.eye(2)
Tensor([[1.0, 0.0],
        [0.0, 1.0]], float32, native)"""

def finfo(type: Any, /) -> Any:
    """Machine limits of a float dtype.

>>> cm.finfo(cm.float32).bits, cm.finfo("float16").max
(32, 65504.0)"""

def flatten(x: _T | builtins.complex, /, *, start_dim: Any = 0, end_dim: Any = -1, out: Any = None) -> _T:
    """Flattens the axes from start_dim to end_dim into one.

>>> cm.flatten(cm.ones((2, 3, 4)), start_dim=1).shape
(2, 12)"""

def flip(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Reverses the order of elements along axes.

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
    """Imports an array of another library through DLPack, on the current backend, without a copy where possible.

>>> import numpy as np
>>> cm.from_dlpack(np.asarray([1.0, 2.0]))
Tensor([1.0, 2.0], float64, native)"""

def full(shape: int | Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Tensor of a shape filled with one value.

>>> cm.full((2,), 7)
Tensor([7, 7], int32, native)"""

def full_like(x: _T | builtins.complex, /, fill_value: Any, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Tensor filled with one value, with the shape, dtype and backend of another tensor.

>>> cm.full_like(cm.asarray([1.0, 2.0]), 7)
Tensor([7.0, 7.0], float32, native)"""

def gamma(alpha: Any, beta: Any, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples from the gamma distribution with shape (alpha) and rate (beta).

>>> cm.gamma(2.0, 1.0, shape=(2,), seed=1)
Tensor([ 3.77787, 0.892618], float32, native)
>>> cm.random.gamma(cm.random.key(1), 2.0, 1.0, (2,))
Tensor([ 3.77787, 0.892618], float32, native)"""

def geglu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """GEGLU: the first half of the last axis times gelu of the second half.

>>> cm.geglu(cm.asarray([3.0, 0.0]))
Tensor([0.0], float32, native)"""

def gelu(x: _T | builtins.complex, /, *, approximate: Any = False, out: Any = None) -> _T:
    """GELU: x times the normal cumulative distribution function of x, or its tanh approximation.

>>> cm.gelu(cm.asarray([-1.0, 0.0, 1.0]))
Tensor([-0.158655,       0.0,  0.841345], float32, native)"""

def get(name: str, /, *, custom_objects: Any = None) -> Any:
    """Returns an activation function by name; `None` gives the identity.

>>> cm.get("relu")(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def global_avg_pool(x: _T | builtins.complex, /, *, data_format: Any = 'NSC', keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Global average pooling: the mean over all spatial axes.

>>> cm.global_avg_pool(cm.asarray([[[1.0], [3.0]]]))
Tensor([[2.0]], float32, native)"""

def global_max_pool(x: _T | builtins.complex, /, *, data_format: Any = 'NSC', keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Global max pooling: the maximum over all spatial axes.

>>> cm.global_max_pool(cm.asarray([[[1.0], [3.0]]]))
Tensor([[3.0]], float32, native)"""

def grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """Gradient of a function with one real result, with respect to one argument (the first) or several.

Control flow may depend on values (`if x > 0`), but a number that `float(x)` or `x.item()` returns is a constant:
nothing is differentiated through it. Arguments that the result does not depend on have zero gradients. A list of
numbers is an array.

>>> cm.grad(lambda x: cm.sum(x**2))(cm.asarray([1.0, 2.0]))
Tensor([2.0, 4.0], float32, native)"""

def gradient_descent_update(w: Any, grads: Any, lr: Any, /, *, stop_gradients: Any = True, out: Any = None) -> Any:
    """Gradient descent step: w - lr grads.

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
    """Group normalization: normalizes within groups of channels. Channels are axis 1.

>>> cm.group_norm(cm.asarray([[1.0, 3.0, 10.0, 30.0]]), 2, eps=0.0)
Tensor([[-1.0,  1.0, -1.0,  1.0]], float32, native)"""

def gru_update(x: _T | builtins.complex, init_h: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, out: Any = None) -> _T:
    """Gated recurrent unit (GRU) over time: returns all hidden states. The gates are in the order reset, update, new.

>>> h = cm.gru_update(cm.ones((1, 3, 2)), cm.zeros((1, 4)), cm.ones((2, 12)), cm.ones((4, 12)))
>>> h.shape
(1, 3, 4)"""

def hard_sigmoid(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Hard sigmoid: relu6(x + 3) / 6.

>>> cm.hard_sigmoid(cm.asarray([-4.0, 0.0, 1.5]))
Tensor([ 0.0,  0.5, 0.75], float32, native)"""

def hard_swish(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Hard swish: x hard_sigmoid(x).

>>> cm.hard_swish(cm.asarray([-2.0, 1.5, 4.0]))
Tensor([-0.333333,     1.125,       4.0], float32, native)"""

def hessian(f: Callable[..., Any], /, argnums: Any = None) -> Any:
    """Hessian: the matrix of second derivatives of a function with one real result.

>>> cm.hessian(lambda x: x[0] ** 2 * x[1])(cm.asarray([1.0, 2.0]))
Tensor([[4.0, 2.0],
        [2.0, 0.0]], float32, native)"""

def huber_loss(true: Any, pred: Any, /, *, delta: Any = 1.0, reduction: Any = 'mean', out: Any = None) -> Any:
    """Huber loss: `0.5 d²` of the difference `d` where `|d| <= delta`, and `delta (|d| - 0.5 delta)` elsewhere.

>>> cm.huber_loss(cm.asarray([0.0, 0.0]), cm.asarray([0.5, 3.0]), reduction="none")
Tensor([0.125,   2.5], float32, native)"""

def hypot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """sqrt(x² + y²) without overflow

>>> cm.hypot(cm.asarray([3.0, 5.0]), cm.asarray([4.0, 12.0]))
Tensor([ 5.0, 13.0], float32, native)"""

def iinfo(type: Any, /) -> Any:
    """Machine limits of an integer dtype.

>>> cm.iinfo(cm.int8).min, cm.iinfo("uint16").max
(-128, 65535)"""

def imag(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the imaginary part

>>> cm.imag(cm.asarray([1 + 2j, 3j]))
Tensor([2.0, 3.0], float32, native)"""

def instance_norm(x: _T | builtins.complex, /, *, scale: Any = None, bias: Any = None, eps: Any = 1e-05, momentum: Any = 0.1, data_format: Any = 'NCHW', running_mean: Any = None, running_stddev: Any = None, affine: Any = True, track_running_stats: Any = False, out: Any = None) -> _T:
    """Instance normalization: normalizes per sample and channel.

With running statistics returns a triple of the result and their new values. `momentum` is the weight of the new
value.

>>> cm.instance_norm(cm.asarray([[[[1.0, 3.0], [1.0, 3.0]]]]), eps=0.0)
Tensor([[[[-1.0,  1.0],
          [-1.0,  1.0]]]], float32, native)"""

int16: DType

int32: DType

int64: DType

int8: DType

def isclose(x: _T | builtins.complex, y: _T | builtins.complex, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False, out: Any = None) -> _T:
    """Tests elementwise whether two arrays are equal within a tolerance: |x - y| <= atol + rtol |y|.

>>> cm.isclose(cm.asarray([1.0, 2.0]), cm.asarray([1.0, 2.1]))
Tensor([ True, False], bool, native)"""

def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Tests whether a dtype is of a kind: a dtype, the name of a kind, or a tuple of them.

>>> cm.isdtype(cm.int8, "integral"), cm.isdtype(cm.int8, ("real floating", cm.bool))
(True, False)"""

def isfinite(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """whether it is neither infinite nor NaN

>>> cm.isfinite(cm.asarray([1.0, cm.inf, cm.nan]))
Tensor([ True, False, False], bool, native)"""

def isin(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, invert: Any = False, out: Any = None) -> _T:
    """Tests whether each element is among the given values.

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
    """Jacobian: the output pytree outside, the input pytree inside. The mode is `forward`, `reverse` or None.

>>> cm.jac(lambda x: cm.asarray([2.0, 3.0]) * x)(cm.asarray([1.0, 1.0]))
Tensor([[2.0, 0.0],
        [0.0, 3.0]], float32, native)"""

def jvp(f: Callable[..., Any], primals: Any, tangents: Any, /) -> Any:
    """Jacobian-vector product (JVP): the value of f and the tangent of its output along tangents of the arguments.

>>> cm.jvp(lambda x: x**3, (cm.asarray(2.0),), (cm.asarray(1.0),))
(Tensor(8.0, float32, native), Tensor(12.0, float32, native))"""

def l1_loss(true: Any, pred: Any, /, *, reduction: Any = 'mean', out: Any = None) -> Any:
    """Absolute error (l1 loss): |pred - true|.

>>> cm.l1_loss(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 5.0]))
Tensor(2.0, float32, native)"""

def l1_normalize(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Divides x by its l1 norm, over an axis or all elements.

>>> cm.l1_normalize(cm.asarray([1.0, -3.0]))
Tensor([ 0.25, -0.75], float32, native)"""

def l2_normalize(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Divides x by its l2 norm, over an axis or all elements.

>>> cm.l2_normalize(cm.asarray([3.0, 4.0]))
Tensor([0.6, 0.8], float32, native)"""

def lamb_update(w: Any, grads: Any, lr: Any, mw_tm1: Any, vw_tm1: Any, step: Any, /, *, beta1: Any = 0.9, beta2: Any = 0.999, epsilon: Any = 1e-07, max_trust_ratio: Any = 10.0, decay_lambda: Any = 0.0, stop_gradients: Any = True, out: Any = None) -> Any:
    """LAMB update: an Adam step scaled by the ratio of the norms of parameter and step. Returns the new parameter and both
moments.

>>> w, zero = cm.asarray([3.0, 4.0]), cm.zeros((2,))
>>> w, mean, square = cm.lamb_update(w, cm.asarray([1.0, -1.0]), 0.1, zero, zero, 1)
>>> w
Tensor([2.64645, 4.35355], float32, native)"""

def lars_update(w: Any, grads: Any, lr: Any, /, *, decay_lambda: Any = 0.0, stop_gradients: Any = True, out: Any = None) -> Any:
    """LARS update: the learning rate is scaled by the ratio of the norms of parameter and gradient; weight decay divides the
step.

>>> cm.lars_update(cm.asarray([3.0, 4.0]), cm.asarray([0.0, 10.0]), 0.1)
Tensor([3.0, 3.5], float32, native)"""

def layer_norm(x: _T | builtins.complex, normalized_idxs: Any, /, *, scale: Any = None, b: _T | builtins.complex | None = None, epsilon: Any = 1e-05, new_std: Any = 1.0, out: Any = None) -> _T:
    """Layer normalization over axes: (x̂ scale + b) new_std. Without a scale, b is ignored.

>>> cm.layer_norm(cm.asarray([[1.0, 3.0], [10.0, 30.0]]), [1], epsilon=0.0)
Tensor([[-1.0,  1.0],
        [-1.0,  1.0]], float32, native)"""

def leaky_relu(x: _T | builtins.complex, /, *, alpha: Any = 0.2, out: Any = None) -> _T:
    """Leaky ReLU: x where positive, alpha x elsewhere.

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
    """Linear layer: x weightᵀ + bias over the last axis. A weight is [out, in], or a batch of such matrices, one per index
of the leading axes of x.

>>> weight = cm.asarray([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
>>> cm.linear(cm.asarray([3.0, 4.0]), weight, bias=cm.asarray([0.0, 0.0, 0.5]))
Tensor([3.0, 8.0, 7.5], float32, native)"""

def linearize(f: Callable[..., Any], /, *primals: Any) -> Any:
    """Linearizes f: the value of f, and its JVP at this point as a function of the tangents.

>>> y, change = cm.linearize(lambda x: x**2, cm.asarray(3.0))
>>> y, change(cm.asarray(0.5))
(Tensor(9.0, float32, native), Tensor(3.0, float32, native))"""

def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: Any = True, out: Any = None) -> Tensor:
    """Evenly spaced numbers from `start` to `stop`.

>>> cm.linspace(0, 1, 5)
Tensor([ 0.0, 0.25,  0.5, 0.75,  1.0], float32, native)"""

def load(path: Any, /, like: Any = None, *, strict: Any = True) -> Any:
    """Loads a file that `save` wrote, or any safetensors file, onto the current backend.

With `like`, a pytree of arrays, the result has the structure of `like`: names, shapes and dtypes must match, and one
CheckpointError reports all differences. With `strict=False` leaves that differ keep the value they have in `like`,
and the result is a pair of the pytree and a dict of what was skipped, by path.

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
    """Logarithm of the sigmoid: log(sigmoid(x)).

>>> cm.log_sigmoid(cm.asarray([-100.0, 0.0]))
Tensor([   -100.0, -0.693147], float32, native)"""

def log_softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Logarithm of the softmax along an axis, the last one by default.

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
    """Logit: log(x / (1 - x)). With `eps`, x is clipped to [eps, 1 - eps] first.

>>> cm.logit(cm.asarray([0.5, 0.75]))
Tensor([    0.0, 1.09861], float32, native)"""

def logsigmoid(input: Any, *, out: Any = None) -> Any:
    """Logarithm of the sigmoid; alias of `log_sigmoid`.

>>> cm.logsigmoid(cm.asarray([-100.0, 0.0]))
Tensor([   -100.0, -0.693147], float32, native)"""

def logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Logarithm of the sum of exponentials over axes: log(sum(exp(x))).

>>> cm.logsumexp(cm.asarray([[0.0, 0.0], [1000.0, 1000.0]]), axis=1)
Tensor([0.693147,  1000.69], float32, native)"""

def lp_normalize(x: _T | builtins.complex, /, *, p: Any = 2.0, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Divides x by its p-norm, over an axis or all elements.

>>> cm.lp_normalize(cm.asarray([1.0, 2.0]), p=3)
Tensor([0.48075,  0.9615], float32, native)"""

def lstm_update(x: _T | builtins.complex, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, out: Any = None) -> _T:
    """LSTM over time: returns all hidden states and the last cell state. The gates are in the order input, forget, cell,
output.

>>> x, h, c = cm.asarray([[[1.0], [2.0]]]), cm.asarray([[0.5]]), cm.asarray([[0.25]])
>>> kernel, recurrent = cm.asarray([[0.1, 0.2, 0.3, 0.4]]), cm.asarray([[0.4, 0.3, 0.2, 0.1]])
>>> hs, c = cm.lstm_update(x, h, c, kernel, recurrent)
>>> hs[0, :, 0]
Tensor([0.213439, 0.346355], float32, native)"""

def map(f: Callable[..., Any], xs: Any, /) -> Any:
    """Maps `f` over the leading axis of a pytree and stacks the results.

>>> cm.map(lambda row: cm.sum(row), cm.asarray([[1, 2], [3, 4]]))
Tensor([3, 7], int32, native)"""

def matmul(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Matrix multiplication of matrices, vectors and batches of matrices.

>>> cm.matmul(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]))
Tensor([12, 34], int32, native)"""

def matrix_transpose(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Transposes a matrix: exchanges the last two axes.

>>> cm.matrix_transpose(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 3],
        [2, 4]], int32, native)"""

def max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Maximum over axes; NaN if an element is NaN.

>>> cm.max(cm.asarray([[1, 5], [7, 2]]), axis=0)
Tensor([7, 5], int32, native)"""

def max_pool1d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """1D max pooling.

>>> x = cm.asarray([[[1.0], [2.0], [3.0], [6.0]]])
>>> cm.max_pool1d(x, 2, 2, "VALID")[0, :, 0]
Tensor([2.0, 6.0], float32, native)"""

def max_pool2d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NHWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """2D max pooling.

>>> x = cm.reshape(cm.arange(16.0), (1, 4, 4, 1))
>>> cm.max_pool2d(x, 2, 2, "VALID")[0, :, :, 0]
Tensor([[ 5.0,  7.0],
        [13.0, 15.0]], float32, native)"""

def max_pool3d(x: _T | builtins.complex, kernel: Any, strides: Any, padding: Any, /, *, data_format: Any = 'NDHWC', dilation: Any = 1, ceil_mode: Any = False, out: Any = None) -> _T:
    """3D max pooling.

>>> x = cm.reshape(cm.arange(8.0), (1, 2, 2, 2, 1))
>>> cm.max_pool3d(x, (1, 1, 2), 1, "VALID")[0, :, :, 0, 0]
Tensor([[1.0, 3.0],
        [5.0, 7.0]], float32, native)"""

def maximum(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the larger; NaN if either is

>>> cm.maximum(cm.asarray([1, 5]), cm.asarray([3, 2]))
Tensor([3, 5], int32, native)"""

def mean(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Mean over axes. Integers are promoted to floats; the mean of no elements is NaN.

>>> cm.mean(cm.asarray([[1.0, 2.0], [3.0, 6.0]]), axis=1)
Tensor([1.5, 4.5], float32, native)"""

def median(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Median along an axis.

>>> cm.median(cm.asarray([3.0, 1.0, 2.0, 10.0]))
Tensor(2.5, float32, native)"""

def meshgrid(*arrays: Any, indexing: Any = 'xy', out: Any = None) -> tuple[Any, ...]:
    """Coordinate matrices from coordinate vectors.

>>> x, y = cm.meshgrid(cm.asarray([1, 2]), cm.asarray([3, 4]))
>>> x
Tensor([[1, 2],
        [1, 2]], int32, native)
>>> y
Tensor([[3, 3],
        [4, 4]], int32, native)"""

def min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Minimum over axes; NaN if an element is NaN.

>>> cm.min(cm.asarray([[1, 5], [7, 2]]), axis=0)
Tensor([1, 2], int32, native)"""

def minimum(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the smaller; NaN if either is

>>> cm.minimum(cm.asarray([1, 5]), cm.asarray([3, 2]))
Tensor([1, 2], int32, native)"""

def mish(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Mish: x tanh(softplus(x)).

>>> cm.mish(cm.asarray([-1.0, 0.0, 1.0]))
Tensor([-0.303401,       0.0,  0.865098], float32, native)"""

def moveaxis(x: _T | builtins.complex, source: Any, destination: Any, /, *, out: Any = None) -> _T:
    """Moves axes to other positions.

>>> cm.moveaxis(cm.zeros((2, 3, 4)), 0, -1).shape
(3, 4, 2)"""

def mse_loss(true: Any, pred: Any, /, *, reduction: Any = 'mean', out: Any = None) -> Any:
    """Squared error (MSE loss): (pred - true)².

>>> cm.mse_loss(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 5.0]))
Tensor(5.0, float32, native)"""

def mul(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x * y, wrapping for integers, and for bool

>>> cm.mul(cm.asarray([1, 2]), 3)
Tensor([3, 6], int32, native)"""

def multi_head_attention(x: _T | builtins.complex, scale: Any, num_heads: Any, /, *, context: Any = None, mask: Any = None, to_q_fn: Any = None, to_kv_fn: Any = None, to_out_fn: Any = None, to_q_v: Any = None, to_kv_v: Any = None, to_out_v: Any = None, out: Any = None) -> _T:
    """Multi-head attention. Projections of queries, keys and values and of the output are functions, called with the keyword
`v`.

>>> x, context = cm.zeros((1, 2)), cm.asarray([[0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 3.0, 4.0]])
>>> cm.multi_head_attention(x, 1.0, 2, context=context)
Tensor([[2.0, 3.0]], float32, native)"""

def multinomial(population_size: Any, num_samples: Any, /, *, batch_size: Any = 1, probs: Any = None, replace: Any = True, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples category indices: by weights, or uniformly if none are given.

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
    """Indices of the nonzero elements, one tensor per axis.

>>> cm.nonzero(cm.asarray([0, 3, 0, 5]))
(Tensor([1, 3], int64, native),)"""

def not_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """x ≠ y

>>> cm.not_equal(cm.asarray([1, 2]), 2)
Tensor([ True, False], bool, native)"""

def one_hot(indices: Any, depth: Any, /, *, dtype: Any = None, out: Any = None) -> Any:
    """One-hot encoding along a new last axis: 1 at the index, 0 elsewhere. An index out of range gives zeros.

>>> cm.one_hot(cm.asarray([2, 0]), 3)
Tensor([[0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0]], float32, native)"""

def ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Tensor of ones.

>>> cm.ones((2,))
Tensor([1.0, 1.0], float32, native)"""

def ones_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Tensor of ones.

Uses the shape, dtype and backend of another tensor.

>>> cm.ones_like(cm.asarray([5, 6]))
Tensor([1, 1], int32, native)"""

def optimizer_update(w: Any, effective_grad: Any, lr: Any, /, *, stop_gradients: Any = True, out: Any = None) -> Any:
    """Applies an optimizer update: w - effective_grad lr.

>>> cm.optimizer_update(cm.asarray([1.0, 2.0]), cm.asarray([1.0, -1.0]), 0.5)
Tensor([0.5, 2.5], float32, native)"""

def outer(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Outer product of two vectors.

>>> cm.outer(cm.asarray([1, 2]), cm.asarray([3, 4]))
Tensor([[3, 4],
        [6, 8]], int32, native)"""

def pad(x: _T | builtins.complex, pad_width: Any, /, *, constant_values: Any = None, out: Any = None) -> _T:
    """Pads with a value. `pad_width` is ((before, after), …), one pair for all axes, or one number.

>>> cm.pad(cm.asarray([1, 2]), ((1, 2),), constant_values=9)
Tensor([9, 1, 2, 9, 9], int32, native)"""

def permute_dims(x: _T | builtins.complex, /, axes: int | Sequence[int] | None, *, out: Any = None) -> _T:
    """Permutes axes: axis i of the result is axis axes[i] of x.

>>> cm.permute_dims(cm.zeros((2, 3, 4)), (2, 0, 1)).shape
(4, 2, 3)"""

def poisson(lam: Any, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples from the Poisson distribution with a rate.

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
    """PReLU: x where positive, weight x elsewhere. The weight broadcasts.

>>> cm.prelu(cm.asarray([-2.0, 2.0]), cm.asarray([0.5, 0.5]))
Tensor([-1.0,  2.0], float32, native)"""

def prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Multiplies elements over axes. The product of no elements is 1.

>>> cm.prod(cm.asarray([[1, 2], [3, 4]]), axis=1)
Tensor([ 2, 12], int32, native)"""

def randint(low: Any, high: Any, /, *, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Tensor:
    """Random integers in [low, high).

>>> cm.randint(0, 10, shape=(4,), seed=1)
Tensor([4, 4, 9, 6], int64, native)
>>> cm.random.randint(cm.random.key(1), (4,), low=0, high=10)
Tensor([4, 4, 9, 6], int64, native)"""

def random_normal(*, mean: Any = 0.0, std: Any = 1.0, shape: int | Sequence[int] | None = None, dtype: Any = None, seed: Any = None, device: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples from the normal distribution.

>>> cm.random_normal(mean=10.0, shape=(2,), seed=0)
Tensor([9.79416, 10.2546], float32, native)"""

def random_orthogonal(*, shape: int | Sequence[int], gain: Any = 1.0, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None) -> Any:
    """Orthogonal matrix scaled by `gain`: its columns or rows are orthogonal and have norm `gain`. All axes but the last
count as rows.

>>> q = cm.random_orthogonal(shape=(3, 2), key=cm.random.key(0))
>>> cm.allclose(q.T @ q, cm.eye(2), atol=1e-6)
True"""

def random_uniform(*, low: Any = 0.0, high: Any = 1.0, shape: int | Sequence[int] | None = None, device: Any = None, dtype: Any = None, seed: Any = None, key: Any = None, out: Any = None) -> Any:
    """Samples from the uniform distribution over [low, high).

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
    """Registers a backend: a module of functions named after the ops.

>>> import types
>>> cm.register_backend("mine", types.ModuleType("mine"))
Traceback (most recent call last):
    ...
clematis.errors.FrameworkError: mine: its module cannot be bound: <class 'AttributeError'>: module 'mine' has no attribute 'DTYPES'"""

def relu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Rectified linear unit: max(x, 0).

>>> cm.relu(cm.asarray([-1.0, 2.0]))
Tensor([0.0, 2.0], float32, native)"""

def relu6(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """ReLU6: x clipped to [0, 6].

>>> cm.relu6(cm.asarray([-1.0, 2.0, 8.0]))
Tensor([0.0, 2.0, 6.0], float32, native)"""

def remainder(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """the remainder of floor_divide, with y's sign; an integer by zero gives 0

>>> cm.remainder(cm.asarray([7, -7]), 3)
Tensor([1, 2], int32, native)"""

def repeat(x: _T | builtins.complex, repeats: Any, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Repeats each element, as often as a number or a tensor of numbers says.

>>> cm.repeat(cm.asarray([1, 2]), 2)
Tensor([1, 1, 2, 2], int32, native)
>>> cm.repeat(cm.asarray([1, 2]), cm.asarray([3, 1]))
Tensor([1, 1, 1, 2], int32, native)"""

def reshape(x: _T | builtins.complex, /, shape: int | Sequence[int], *, copy: builtins.bool | None = None, out: Any = None) -> _T:
    """Reshapes in row-major order; one size may be -1.

>>> cm.reshape(cm.arange(6), (2, -1))
Tensor([[0, 1, 2],
        [3, 4, 5]], int32, native)"""

def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that operands are promoted to.

>>> cm.result_type(cm.int32, cm.float32), cm.result_type(cm.asarray([1.0]), 2)
(clematis.float32, clematis.float32)"""

def rms_norm(x: _T | builtins.complex, /, scale: Any = None, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-05, out: Any = None) -> _T:
    """RMS normalization: divides by the root mean square over the axes from `axis` on, then multiplies by the scale.

>>> cm.rms_norm(cm.asarray([3.0, 4.0, 0.0, 0.0]))
Tensor([1.2, 1.6, 0.0, 0.0], float32, native)"""

def rnn_update(x: _T | builtins.complex, init_h: Any, kernel: Any, recurrent_kernel: Any, /, *, bias: Any = None, recurrent_bias: Any = None, nonlinearity: Any = 'tanh', out: Any = None) -> _T:
    """Recurrent layer (Elman RNN) over time: returns all hidden states. The nonlinearity is "tanh" or "relu".

>>> cm.rnn_update(cm.zeros((1, 2, 1)), cm.ones((1, 1)), cm.ones((1, 1)), cm.ones((1, 1)), nonlinearity="relu")
Tensor([[[1.0],
         [1.0]]], float32, native)"""

def roll(x: _T | builtins.complex, /, shift: Any, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Rolls elements along axes; elements that pass the end re-enter at the start.

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
    """Saves a pytree of arrays and plain values to a file.

The file is a safetensors file with the arrays by path; dicts, lists and tuples, numbers, strings, booleans and `None`
are stored in its metadata. The file is written to a temporary file beside it and renamed, so a file of this name is
always complete. Modules and dataclasses are saved as dicts of their contents.

>>> import os, tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     cm.save(os.path.join(folder, "x.safetensors"), [cm.asarray([1, 2]), "text"])
...     os.listdir(folder)
['x.safetensors']"""

def scaled_dot_product_attention(q: Any, k: Any, v: Any, scale: Any, /, *, mask: Any = None, out: Any = None) -> Any:
    """Scaled dot-product attention: softmax(q kᵀ scale) v. Positions where the mask is 0 are ignored.

>>> q, k, v = cm.asarray([[1.0, 0.0]]), cm.eye(2), cm.asarray([[1.0], [3.0]])
>>> cm.scaled_dot_product_attention(q, k, v, 1.0)
Tensor([[1.53788]], float32, native)
>>> cm.scaled_dot_product_attention(q, k, v, 1.0, mask=cm.asarray([[0, 1]]))
Tensor([[3.0]], float32, native)"""

def scan(body: Any, start: Any, xs: Any = None, /, *, length: Any = None, reverse: Any = False) -> Any:
    """Scans over the leading axis of `xs` with `body(carry, x) -> (carry, y)`; returns the last carry and all `y`, stacked.

>>> cm.scan(lambda total, x: (total + x, total), cm.asarray(0), cm.asarray([1, 2, 3]))
(Tensor(6, int32, native), Tensor([0, 1, 3], int32, native))"""

def searchsorted(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, side: Any = 'left', sorter: Any = None, out: Any = None) -> _T:
    """Indices at which values would be inserted into sorted elements to keep the order.

>>> cm.searchsorted(cm.asarray([1, 3, 5]), cm.asarray([3, 4]))
Tensor([1, 2], int64, native)
>>> cm.searchsorted(cm.asarray([1, 3, 5]), cm.asarray([3, 4]), side="right")
Tensor([2, 2], int64, native)"""

def seed(seed_value: Any = 0) -> Any:
    """Seeds the implicit random stream, which draws without a key or a seed use.

>>> cm.seed(0)
>>> first = cm.random_uniform(shape=(2,))
>>> cm.random.seed(0)
>>> cm.all(cm.random_uniform(shape=(2,)) == first)
Tensor(True, bool, native)"""

def selu(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """SELU: scaled exponential linear unit, with the constants that preserve mean and variance.

>>> cm.selu(cm.asarray([-1.0, 1.0]))
Tensor([-1.11133,   1.0507], float32, native)"""

def set_backend(name: str, /) -> None:
    """Sets the default backend of new tensors, for the whole process.

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
    """Shuffles randomly along an axis.

>>> cm.shuffle(cm.asarray([1, 2, 3, 4]), seed=4)
Tensor([4, 1, 2, 3], int32, native)
>>> cm.random.shuffle(cm.random.key(4), cm.asarray([1, 2, 3, 4]))
Tensor([4, 1, 2, 3], int32, native)"""

def sigmoid(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Sigmoid: 1 / (1 + exp(-x)).

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
    """SiLU (swish): x sigmoid(x).

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
    """Smooth l1 loss: `0.5 d² / beta` of the difference `d` where `|d| < beta`, and `|d| - 0.5 beta` elsewhere.

>>> cm.smooth_l1_loss(cm.asarray([0.0, 0.0]), cm.asarray([0.5, 3.0]), reduction="none")
Tensor([0.125,   2.5], float32, native)"""

def softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Softmax along an axis, the last one by default.

>>> cm.softmax(cm.asarray([0.0, 0.0, 1.0]))
Tensor([0.211942, 0.211942, 0.576117], float32, native)"""

def softplus(x: _T | builtins.complex, /, *, beta: Any = None, threshold: Any = None, out: Any = None) -> _T:
    """Softplus: log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold.

>>> cm.softplus(cm.asarray([0.0, 100.0]))
Tensor([0.693147,    100.0], float32, native)"""

def sort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True, out: Any = None) -> _T:
    """Sorts the elements along an axis in ascending order; NaN last.

>>> cm.sort(cm.asarray([3.0, 1.0, 2.0]))
Tensor([1.0, 2.0, 3.0], float32, native)
>>> cm.sort(cm.asarray([3.0, 1.0, 2.0]), descending=True)
Tensor([3.0, 2.0, 1.0], float32, native)"""

def sparse_cross_entropy(true: Any, pred: Any, /, *, axis: int | Sequence[int] | None = -1, epsilon: Any = 1e-07, reduction: Any = 'sum', out: Any = None) -> Any:
    """Sparse cross-entropy of probabilities, where `true` holds class indices: -log(pred) at the class. An index out of
range raises `AxisError`; logits are rejected as by `cross_entropy`.

>>> cm.sparse_cross_entropy(cm.asarray([1, 0]), cm.asarray([[0.25, 0.75], [0.5, 0.5]]))
Tensor([0.287682, 0.693147], float32, native)"""

def split(x: Any, indices_or_sections: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> tuple[Any, ...]:
    """Splits a tensor along an axis, into equal parts or at given indices.

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
    """Removes axes of size 1.

>>> cm.squeeze(cm.zeros((1, 2, 1)), 0).shape
(2, 1)"""

def stack(arrays: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> Any:
    """Stacks tensors along a new axis.

>>> cm.stack([cm.asarray([1, 2]), cm.asarray([3, 4])], axis=1)
Tensor([[1, 3],
        [2, 4]], int32, native)"""

def std(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Standard deviation over axes: the square root of the variance.

>>> cm.std(cm.asarray([1.0, 3.0]))
Tensor(1.0, float32, native)
>>> cm.std(cm.asarray([1.0, 3.0]), correction=1)
Tensor(1.41421, float32, native)"""

def stop_gradient(x: _T | builtins.complex, /, *, preserve_type: Any = True, out: Any = None) -> _T:
    """Stops gradients: x is a constant to every derivative. A variable of a framework's own autodiff is returned as a new
variable, unless `preserve_type` is false.

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
    """Sums elements over axes. The sum of no elements is 0.

>>> cm.sum(cm.asarray([[1, 2], [3, 4]]), axis=0)
Tensor([4, 6], int32, native)"""

def swapaxes(x: _T | builtins.complex, axis1: Any, axis2: Any, /, *, out: Any = None) -> _T:
    """Exchanges two axes.

>>> cm.swapaxes(cm.zeros((2, 3, 4)), 0, 2).shape
(4, 3, 2)"""

def switch(index: Any, branches: Any, /, *operands: Any) -> Any:
    """Calls the branch at `index`, clamped to the range, with the operands.

>>> cm.switch(1, [lambda x: x + 1, lambda x: x * 10], cm.asarray(5))
Tensor(50, int32, native)"""

def take(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Takes slices along an axis at the given indices. Negative indices count from the end; an index out of range raises
`AxisError`, also in compiled functions.

>>> cm.take(cm.asarray([10, 20, 30]), cm.asarray([2, 0]))
Tensor([30, 10], int32, native)"""

def take_along_axis(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """Takes one element per index along an axis; the other axes are matched with those of the indices.

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
    """Tensor contraction over axes.

>>> cm.tensordot(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]), axes=1)
Tensor([12, 34], int32, native)"""

def thresholded_relu(x: _T | builtins.complex, /, *, threshold: Any = 0.0, out: Any = None) -> _T:
    """Thresholded ReLU: x where it is above the threshold, 0 elsewhere.

>>> cm.thresholded_relu(cm.asarray([-1.0, 0.5, 2.0]), threshold=1.0)
Tensor([0.0, 0.0, 2.0], float32, native)"""

def tile(x: _T | builtins.complex, repetitions: Any, /, *, out: Any = None) -> _T:
    """Tiles a tensor: repeats it along each axis.

>>> cm.tile(cm.asarray([1, 2]), (2,))
Tensor([1, 2, 1, 2], int32, native)"""

def top_k(x: Any, k: Any, /, *, out: Any = None) -> Any:
    """The k largest elements along the last axis in descending order, and their indices.

>>> cm.top_k(cm.asarray([3, 9, 5]), 2)
(Tensor([9, 5], int32, native), Tensor([1, 2], int64, native))"""

def tril(x: _T | builtins.complex, /, *, k: Any = 0, out: Any = None) -> _T:
    """Lower triangle of a matrix; zeros elsewhere.

>>> cm.tril(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 0],
        [3, 4]], int32, native)"""

def triu(x: _T | builtins.complex, /, *, k: Any = 0, out: Any = None) -> _T:
    """Upper triangle of a matrix; zeros elsewhere.

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
    """Unique elements, the index of the first occurrence of each, the inverse indices and the counts.

>>> cm.unique_all(cm.asarray([5, 3, 5])).inverse_indices
Tensor([1, 0, 1], int64, native)"""

def unique_counts(x: Any, /, *, out: Any = None) -> Any:
    """Unique elements and their counts.

>>> cm.unique_counts(cm.asarray([5, 3, 5]))
unique_counts(values=Tensor([3, 5], int32, native), counts=Tensor([1, 2], int64, native))"""

def unique_inverse(x: Any, /, *, out: Any = None) -> Any:
    """Unique elements and the inverse indices, which rebuild the input from them.

>>> cm.unique_inverse(cm.asarray([5, 3, 5]))
unique_inverse(values=Tensor([3, 5], int32, native), inverse_indices=Tensor([1, 0, 1], int64, native))"""

def unique_values(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Unique elements in ascending order.

>>> cm.unique_values(cm.asarray([5, 3, 5]))
Tensor([3, 5], int32, native)"""

def unstack(x: Any, /, *, axis: int | Sequence[int] | None = 0, out: Any = None) -> tuple[Any, ...]:
    """Unstacks a tensor: the slices along an axis.

>>> cm.unstack(cm.asarray([[1, 2], [3, 4]]))
(Tensor([1, 2], int32, native), Tensor([3, 4], int32, native))"""

def value_and_grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """Value and gradient of a function with one real result.

>>> cm.value_and_grad(lambda x: cm.sum(x**2))(cm.asarray([1.0, 2.0]))
(Tensor(5.0, float32, native), Tensor([2.0, 4.0], float32, native))"""

def var(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False, out: Any = None) -> _T:
    """Variance over axes; the divisor is n - correction.

>>> cm.var(cm.asarray([1.0, 3.0]))
Tensor(1.0, float32, native)
>>> cm.var(cm.asarray([1.0, 3.0]), correction=1)
Tensor(2.0, float32, native)"""

def vecdot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """Dot product of vectors along an axis; the first operand is conjugated.

>>> cm.vecdot(cm.asarray([1, 2, 3]), cm.asarray([4, 5, 6]))
Tensor(32, int32, native)"""

def vjp(f: Callable[..., Any], /, *primals: Any) -> Any:
    """Vector-Jacobian product (VJP): the value of f, and the function from cotangents of its output to a tuple of cotangents
of its arguments.

>>> y, pull = cm.vjp(lambda x: x**2, cm.asarray([1.0, 3.0]))
>>> pull(cm.asarray([1.0, 1.0]))
(Tensor([2.0, 6.0], float32, native),)"""

def vmap(f: Callable[..., Any], /, in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """Vectorizes a function of one example: maps it over the axis `in_axes` of its arguments.

`in_axes` is one axis for all arguments, or a tuple with one for each; None marks an argument that all examples share.
Keyword arguments are mapped over their first axis. Results have the batch axis at `out_axes`. Draws without a key
differ between examples.

    >>> cm.vmap(lambda x, y: x @ y)(cm.ones((3, 4)), cm.ones((3, 4)))
    Tensor([4.0, 4.0, 4.0], float32, native)"""

def where(condition: Any, x1: Any, x2: Any, /, *, out: Any = None) -> Any:
    """Selects elements: the second operand where the first is true, else the third.

>>> cm.where(cm.asarray([True, False]), cm.asarray([1, 2]), 0)
Tensor([1, 0], int32, native)"""

def while_loop(test: Any, body: Any, start: Any, /) -> Any:
    """Runs `body` on the carried pytree while `test` of it is true.

>>> cm.while_loop(lambda x: x < 100, lambda x: x * 2, cm.asarray(3))
Tensor(192, int32, native)"""

def wrap(x: Any, /) -> Tensor:
    """The tensor of a framework's own array.

>>> import numpy as np
>>> cm.wrap(np.asarray([1.0, 2.0]))
Tensor([1.0, 2.0], float64, numpy)"""

def zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Tensor of zeros.

>>> cm.zeros((2,))
Tensor([0.0, 0.0], float32, native)"""

def zeros_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None, out: Any = None) -> _T:
    """Tensor of zeros.

Uses the shape, dtype and backend of another tensor.

>>> cm.zeros_like(cm.asarray([5, 6]))
Tensor([0, 0], int32, native)"""
