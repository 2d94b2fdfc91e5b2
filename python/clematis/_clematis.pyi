"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")

__all__ = [
    "Tensor",
    "DType",
    "__version__",
    "asarray",
    "from_dlpack",
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
    "wrap",
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
    "selu",
    "sigmoid",
    "log_sigmoid",
    "silu",
    "softplus",
    "mish",
    "hard_sigmoid",
    "hard_swish",
    "leaky_relu",
    "elu",
    "gelu",
    "softmax",
    "log_softmax",
    "cross_entropy",
    "layer_norm",
    "rms_norm",
    "linear",
    "embedding",
    "grad",
    "value_and_grad",
    "jac",
    "hessian",
    "vjp",
    "jvp",
    "linearize",
    "custom_vjp",
    "cond",
    "switch",
    "while_loop",
    "scan",
    "map",
    "backend",
    "backends",
    "set_backend",
    "current_backend",
    "register_backend",
    "_backend_facts",
    "_restore",
    "run_command_line",
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
    def __deepcopy__(self, /, _memo: Any) -> Any: ...
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

def __array_namespace_info__() -> Any:
    """The namespace's answers to questions about itself."""

__version__: str

def _backend_facts() -> Any:
    """What each backend is: name, version, what it says of itself, and why it cannot be used if so."""

_fft: ModuleType

_linalg: ModuleType

_random: ModuleType

def _restore(home: Any, dtype: Any, shape: int | Sequence[int], bytes: Any) -> Any:
    """A tensor from what `pickle` kept of it; on the engine if its backend is not there."""

_tree: ModuleType

def abs(x: _T | builtins.complex, /) -> _T:
    """the distance from zero"""

def absolute(x: _T | builtins.complex, /) -> _T:
    """the distance from zero"""

def acos(x: _T | builtins.complex, /) -> _T:
    """the inverse cosine"""

def acosh(x: _T | builtins.complex, /) -> _T:
    """the inverse hyperbolic cosine"""

def add(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x + y, wrapping for integers, or for bool"""

def all(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """Whether none is zero."""

def allclose(x: Any, y: Any, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> builtins.bool:
    """Whether all elements are close."""

def angle(x: _T | builtins.complex, /) -> _T:
    """The angle of a complex number."""

def any(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """Whether one is not zero."""

def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """From `start` by `step` up to, but not including, `stop`."""

def arctan2(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the angle of the point (y, x), counted from the x axis"""

def argmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """The first place of the largest."""

def argmin(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """The first place of the smallest."""

def argsort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True) -> _T:
    """Where the elements in rising order stand."""

def array(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of anything: numbers, nests of them, arrays of any library.

Numbers, lists and NumPy arrays go to the current backend; arrays of torch, jax and tensorflow keep their home."""

def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """A tensor of anything: numbers, nests of them, arrays of any library.

Numbers, lists and NumPy arrays go to the current backend; arrays of torch, jax and tensorflow keep their home."""

def asin(x: _T | builtins.complex, /) -> _T:
    """the inverse sine"""

def asinh(x: _T | builtins.complex, /) -> _T:
    """the inverse hyperbolic sine"""

def astype(x: _T | builtins.complex, dtype: Any, /, *, copy: builtins.bool | None = True, device: Any = None) -> _T:
    """The same values as another element type."""

def atan(x: _T | builtins.complex, /) -> _T:
    """the inverse tangent"""

def atan2(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the angle of the point (y, x), counted from the x axis"""

def atanh(x: _T | builtins.complex, /) -> _T:
    """the inverse hyperbolic tangent"""

@final
class backend:
    def __enter__(self, /) -> Any: ...
    def __exit__(self, /, *_exception: Any) -> Any: ...
    def __new__(cls, name: str) -> backend: ...

def backends() -> list[str]:
    """The names of the backends that are installed; none is imported for it."""

bfloat16: DType

def bitcast(x: _T | builtins.complex, dtype: Any, /) -> _T:
    """The same bits read as another element type of the same size."""

def bitwise_and(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits set in both"""

def bitwise_invert(x: _T | builtins.complex, /) -> _T:
    """all bits flipped"""

def bitwise_left_shift(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits moved up by y; 0 when y is the width or more"""

def bitwise_not(x: _T | builtins.complex, /) -> _T:
    """all bits flipped"""

def bitwise_or(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits set in either"""

def bitwise_right_shift(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits moved down by y, keeping the sign"""

def bitwise_xor(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits set in one"""

bool: DType

def broadcast_arrays(*arrays: Any) -> tuple[Any, ...]:
    """All repeated to one shape."""

def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape that shapes broadcast to."""

def broadcast_to(x: _T | builtins.complex, /, shape: int | Sequence[int]) -> _T:
    """Repeated to a larger shape."""

def can_cast(from_: Any, to: Any, /) -> builtins.bool:
    """Whether every value of one type is one of the other, by the promotion table."""

def cbrt(x: _T | builtins.complex, /) -> _T:
    """the real cube root"""

def ceil(x: _T | builtins.complex, /) -> _T:
    """rounded up"""

def clip(x: _T | builtins.complex, /, min: Any = None, max: Any = None) -> _T:
    """x held between two bounds, which may be left out; NaN stays NaN."""

def complex(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x + iy"""

complex128: DType

complex64: DType

def concat(arrays: Any, /, *, axis: int | Sequence[int] | None = 0) -> Any:
    """All operands one after the other along an axis; flattened first where the axis is None."""

def cond(predicate: Any, then: Any, otherwise: Any, /, *operands: Any) -> Any:
    """`then(*operands)` if the predicate holds, else `otherwise(*operands)`; both return the same structure."""

def conj(x: _T | builtins.complex, /) -> _T:
    """the complex conjugate"""

def copysign(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x with y's sign"""

def cos(x: _T | builtins.complex, /) -> _T:
    """the cosine"""

def cosh(x: _T | builtins.complex, /) -> _T:
    """the hyperbolic cosine"""

def count_nonzero(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """How many elements are not zero."""

def cross_entropy(logits: Any, labels: Any, /) -> Any:
    """-log softmax at the label along the last axis, one per row."""

def cumulative_logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False) -> _T:
    """log of the sum of exp(x) up to each element."""

def cumulative_max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False) -> _T:
    """The largest of all elements up to each one."""

def cumulative_min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False) -> _T:
    """The smallest of all elements up to each one."""

def cumulative_prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False) -> _T:
    """The product of all elements up to each one."""

def cumulative_sum(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, include_initial: Any = False) -> _T:
    """The sum of all elements up to each one."""

def current_backend() -> str:
    """The name of the backend that new tensors are made on."""

def custom_vjp(forward: Any, backward: Any, /) -> Any:
    """The function `forward` with the gradient that `backward((inputs, outputs), upstream)` says: one per argument of
`forward`, or None for zeros. Tuples where there are several. Higher derivatives differentiate the rule."""

def diff(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, n: Any = 1, prepend: Any = None, append: Any = None) -> _T:
    """Differences of neighbours along an axis, n times."""

def digamma(x: _T | builtins.complex, /) -> _T:
    """the derivative of lgamma"""

def div(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x / y"""

def divide(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x / y"""

def einsum(equation: Any, /, *operands: Any) -> Any:
    """Sums of products by index letters: `einsum("ij,jk->ik", a, b)`."""

def elu(x: _T | builtins.complex, /, *, alpha: Any = 1.0) -> _T:
    """x where positive, alpha (exp(x) - 1) elsewhere."""

def embedding(table: Any, indices: Any, /) -> Any:
    """Rows of a table."""

def empty(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Whatever values; zeros here, the same on every backend."""

def empty_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None) -> _T:
    """Whatever values; zeros here, the same on every backend.

Of the shape and element type of another tensor, beside it."""

def equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x = y; NaN equals nothing"""

def erf(x: _T | builtins.complex, /) -> _T:
    """the Gauss error function"""

def erfc(x: _T | builtins.complex, /) -> _T:
    """1 - erf(x), exact for large x"""

def erfinv(x: _T | builtins.complex, /) -> _T:
    """the inverse of erf"""

def exp(x: _T | builtins.complex, /) -> _T:
    """e to the power x"""

def exp2(x: _T | builtins.complex, /) -> _T:
    """2 to the power x"""

def expand_dims(x: _T | builtins.complex, /, axis: int | Sequence[int] | None) -> _T:
    """New axes of size 1."""

def expm1(x: _T | builtins.complex, /) -> _T:
    """exp(x) - 1, exact near zero"""

def eye(n_rows: Any, n_cols: Any = None, /, *, k: Any = 0, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""

def finfo(type: Any, /) -> Any:
    """The machine limits of a float type."""

def flip(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None) -> _T:
    """Back to front along axes."""

float16: DType

float32: DType

float64: DType

def floor(x: _T | builtins.complex, /) -> _T:
    """rounded down"""

def floor_divide(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x / y rounded down; an integer by zero gives 0"""

def fmod(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """what division towards zero leaves, with x's sign; an integer by zero gives 0"""

def from_dlpack(x: Any, /, *, device: Any = None, copy: builtins.bool | None = None) -> Tensor:
    """An array of another library that speaks DLPack, on the current backend and without a copy where memory allows."""

def full(shape: int | Sequence[int], fill_value: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """One value everywhere."""

def full_like(x: _T | builtins.complex, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> _T:
    """One value everywhere, of the shape and element type of another tensor, beside it."""

def gelu(x: _T | builtins.complex, /, *, approximate: Any = False) -> _T:
    """x times the normal distribution function of x, or its tanh approximation."""

def grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """The gradient of a function with one real result, by one argument (the first) or several."""

def greater(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x > y"""

def greater_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x ≥ y"""

def hard_sigmoid(x: _T | builtins.complex, /) -> _T:
    """relu6(x + 3) / 6."""

def hard_swish(x: _T | builtins.complex, /) -> _T:
    """x hard_sigmoid(x)."""

def hessian(f: Callable[..., Any], /, argnums: Any = None) -> Any:
    """The matrix of second derivatives of a function with one real result."""

def hypot(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """sqrt(x² + y²) without overflow"""

def iinfo(type: Any, /) -> Any:
    """The machine limits of an integer type."""

def imag(x: _T | builtins.complex, /) -> _T:
    """the imaginary part"""

int16: DType

int32: DType

int64: DType

int8: DType

def isclose(x: _T | builtins.complex, y: _T | builtins.complex, /, *, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: Any = False) -> _T:
    """Whether |x - y| <= atol + rtol |y|, element by element."""

def isdtype(dtype: Any, kind: Any) -> builtins.bool:
    """Whether a type is of a kind: a type, a name of a kind, or a tuple of them."""

def isfinite(x: _T | builtins.complex, /) -> _T:
    """whether it is neither infinite nor NaN"""

def isin(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, invert: Any = False) -> _T:
    """Whether each element stands among others."""

def isinf(x: _T | builtins.complex, /) -> _T:
    """whether it is infinite"""

def isnan(x: _T | builtins.complex, /) -> _T:
    """whether it is not a number"""

def jac(f: Callable[..., Any], /, argnums: Any = None, *, mode: Any = None) -> Any:
    """The matrix of derivatives: the output nest outside, the input nest inside. Mode is `forward`, `reverse` or None."""

def jvp(f: Callable[..., Any], primals: Any, tangents: Any, /) -> Any:
    """The value of f and its change along tangents of the arguments."""

def layer_norm(x: _T | builtins.complex, /, scale: Any = None, bias: Any = None, *, axis: int | Sequence[int] | None = ..., epsilon: Any = 1e-05) -> _T:
    """Normalised over the last axes from `axis` on, then scaled and moved."""

def leaky_relu(x: _T | builtins.complex, /, *, slope: Any = 0.01) -> _T:
    """x where positive, slope times x elsewhere."""

def less(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x < y"""

def less_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x ≤ y"""

def lgamma(x: _T | builtins.complex, /) -> _T:
    """log |gamma(x)|"""

def linear(x: _T | builtins.complex, weight: Any, /, *, bias: Any = None) -> _T:
    """x wᵀ + b over the last axis; w is [out, in]."""

def linearize(f: Callable[..., Any], /, *primals: Any) -> Any:
    """The value of f, and its best linear approximation there."""

def linspace(start: Any, stop: Any, /, num: Any, *, dtype: Any = None, device: Any = None, endpoint: Any = True) -> Tensor:
    """Evenly spaced from `start` to `stop`."""

def log(x: _T | builtins.complex, /) -> _T:
    """the natural logarithm"""

def log10(x: _T | builtins.complex, /) -> _T:
    """the logarithm to base 10"""

def log1p(x: _T | builtins.complex, /) -> _T:
    """log(1 + x), exact near zero"""

def log2(x: _T | builtins.complex, /) -> _T:
    """the logarithm to base 2"""

def log_sigmoid(x: _T | builtins.complex, /) -> _T:
    """log(sigmoid(x))."""

def log_softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = ...) -> _T:
    """log(softmax(x))."""

def logaddexp(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """log(exp(x) + exp(y))"""

def logical_and(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """whether both are not zero"""

def logical_not(x: _T | builtins.complex, /) -> _T:
    """whether it is zero"""

def logical_or(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """whether one is not zero"""

def logical_xor(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """whether exactly one is not zero"""

def logsumexp(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """log of the sum of exp(x) over axes."""

def map(f: Callable[..., Any], xs: Any, /) -> Any:
    """`f` of each step along the leading axis of a nest, stacked."""

def matmul(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """The matrix product; vectors and stacks of matrices follow the usual rules."""

def matrix_transpose(x: _T | builtins.complex, /) -> _T:
    """The last two axes exchanged."""

def max(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """The largest over axes; NaN if one is."""

def maximum(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the larger; NaN if either is"""

def mean(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """The mean over axes; integers become floats; of nothing, NaN."""

def median(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None) -> _T:
    """The median along an axis."""

def meshgrid(*arrays: Any, indexing: Any = 'xy') -> tuple[Any, ...]:
    """Coordinate matrices of coordinate vectors."""

def min(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False) -> _T:
    """The smallest over axes; NaN if one is."""

def minimum(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the smaller; NaN if either is"""

def mish(x: _T | builtins.complex, /) -> _T:
    """x tanh(softplus(x))."""

def moveaxis(x: _T | builtins.complex, source: Any, destination: Any, /) -> _T:
    """Axes moved to other places."""

def mul(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x * y, wrapping for integers, and for bool"""

def multiply(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x * y, wrapping for integers, and for bool"""

def neg(x: _T | builtins.complex, /) -> _T:
    """-x, wrapping for unsigned integers"""

def negative(x: _T | builtins.complex, /) -> _T:
    """-x, wrapping for unsigned integers"""

def nextafter(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the float after x towards y"""

def nonzero(x: Any, /) -> tuple[Any, ...]:
    """The places of the elements that are not zero, one tensor per axis."""

def not_equal(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x ≠ y"""

def one_hot(indices: Any, depth: Any, /, *, dtype: Any = None) -> Any:
    """1 at the index along a new last axis, 0 elsewhere."""

def ones(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Ones."""

def ones_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None) -> _T:
    """Ones.

Of the shape and element type of another tensor, beside it."""

def outer(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """All products of the elements of two vectors."""

def pad(x: _T | builtins.complex, pad_width: Any, /, *, constant_values: Any = None) -> _T:
    """x with a value around it: `pad_width` is ((before, after), …), one pair for all axes, or one number."""

def permute_dims(x: _T | builtins.complex, /, axes: int | Sequence[int] | None) -> _T:
    """Axis i of the result is axis axes[i] of x."""

def polygamma(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """the x-th derivative of digamma at y, for whole x"""

def positive(x: _T | builtins.complex, /) -> _T:
    """x itself"""

def pow(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x to the power y; integers to a negative power give 0 but for bases 1 and -1"""

def power(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x to the power y; integers to a negative power give 0 but for bases 1 and -1"""

def prod(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: builtins.bool = False) -> _T:
    """The product over axes; of nothing, 1."""

def real(x: _T | builtins.complex, /) -> _T:
    """the real part"""

def reciprocal(x: _T | builtins.complex, /) -> _T:
    """1 / x"""

def register_backend(name: str, module: ModuleType, /) -> None:
    """Makes a backend of a module of functions named after the ops."""

def relu(x: _T | builtins.complex, /) -> _T:
    """max(x, 0)."""

def remainder(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """what floor_divide leaves, with y's sign; an integer by zero gives 0"""

def repeat(x: _T | builtins.complex, repeats: Any, /, *, axis: int | Sequence[int] | None = None) -> _T:
    """Each element repeated, as often as a number or a tensor of numbers says."""

def reshape(x: _T | builtins.complex, /, shape: int | Sequence[int], *, copy: builtins.bool | None = None) -> _T:
    """The same elements in row-major order with another shape; one size may be -1."""

def result_type(*arrays_and_dtypes: Any) -> DType:
    """The type that operands meet in."""

def rms_norm(x: _T | builtins.complex, /, scale: Any = None, *, axis: int | Sequence[int] | None = ..., epsilon: Any = 1e-05) -> _T:
    """Divided by the root mean square over the last axes from `axis` on, then scaled."""

def roll(x: _T | builtins.complex, /, shift: Any, *, axis: int | Sequence[int] | None = None) -> _T:
    """Moved along axes; what falls off one end comes in at the other."""

def round(x: _T | builtins.complex, /) -> _T:
    """rounded to the nearest, halves to even"""

def rsqrt(x: _T | builtins.complex, /) -> _T:
    """1 / sqrt(x)"""

def run_command_line(args: Any) -> int:
    """Runs the command line; returns the exit code."""

def scan(body: Any, start: Any, xs: Any = None, /, *, length: Any = None, reverse: Any = False) -> Any:
    """Goes along the leading axis of `xs` with `body(carry, x) -> (carry, y)`; returns the last carry and all `y`, stacked."""

def searchsorted(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, side: Any = 'left', sorter: Any = None) -> _T:
    """Where each value would be put into the sorted elements."""

def selu(x: _T | builtins.complex, /) -> _T:
    """elu with the constants that keep mean and variance."""

def set_backend(name: str, /) -> None:
    """Makes new tensors on this backend from now on, in the whole process."""

def shift_left(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits moved up by y; 0 when y is the width or more"""

def shift_right(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """bits moved down by y, keeping the sign"""

def sigmoid(x: _T | builtins.complex, /) -> _T:
    """1 / (1 + exp(-x))."""

def sign(x: _T | builtins.complex, /) -> _T:
    """-1, 0 or 1; z/|z| for complex z; NaN stays NaN"""

def signbit(x: _T | builtins.complex, /) -> _T:
    """whether the sign bit is set"""

def silu(x: _T | builtins.complex, /) -> _T:
    """x sigmoid(x)."""

def sin(x: _T | builtins.complex, /) -> _T:
    """the sine"""

def sinh(x: _T | builtins.complex, /) -> _T:
    """the hyperbolic sine"""

def softmax(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = ...) -> _T:
    """exp(x), scaled to sum to one along an axis."""

def softplus(x: _T | builtins.complex, /) -> _T:
    """log(1 + exp(x))."""

def sort(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, descending: Any = False, stable: Any = True) -> _T:
    """The elements in rising order along an axis; NaN last."""

def split(x: Any, indices_or_sections: Any, /, *, axis: int | Sequence[int] | None = 0) -> tuple[Any, ...]:
    """Equal parts along an axis, or parts that end at given places."""

def sqrt(x: _T | builtins.complex, /) -> _T:
    """the principal square root"""

def square(x: _T | builtins.complex, /) -> _T:
    """x times x"""

def squeeze(x: _T | builtins.complex, /, axis: int | Sequence[int] | None = None) -> _T:
    """Without axes of size 1."""

def stack(arrays: Any, /, *, axis: int | Sequence[int] | None = 0) -> Any:
    """All operands along a new axis."""

def std(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False) -> _T:
    """The square root of the variance."""

def stop_gradient(x: _T | builtins.complex, /) -> _T:
    """x as a constant to every derivative."""

def sub(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x - y, wrapping for integers"""

def subtract(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """x - y, wrapping for integers"""

def sum(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, dtype: Any = None, keepdims: builtins.bool = False) -> _T:
    """The sum over axes; of nothing, 0."""

def swapaxes(x: _T | builtins.complex, axis1: Any, axis2: Any, /) -> _T:
    """Two axes exchanged."""

def switch(index: Any, branches: Any, /, *operands: Any) -> Any:
    """The branch that `index` numbers, clipped to the range, called with the operands."""

def take(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = None) -> _T:
    """Slices along an axis at these indices."""

def take_along_axis(x: _T | builtins.complex, indices: Any, /, *, axis: int | Sequence[int] | None = -1) -> _T:
    """One element per index along an axis, the other axes going side by side."""

def tan(x: _T | builtins.complex, /) -> _T:
    """the tangent"""

def tanh(x: _T | builtins.complex, /) -> _T:
    """the hyperbolic tangent"""

def tensordot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = 2) -> _T:
    """Sums of products over axes."""

def tile(x: _T | builtins.complex, repetitions: Any, /) -> _T:
    """The whole repeated along each axis."""

def top_k(x: Any, k: Any, /) -> Any:
    """The k largest along the last axis, falling, and where they stood."""

def tril(x: _T | builtins.complex, /, *, k: Any = 0) -> _T:
    """The lower triangle, zeros elsewhere."""

def triu(x: _T | builtins.complex, /, *, k: Any = 0) -> _T:
    """The upper triangle, zeros elsewhere."""

def trunc(x: _T | builtins.complex, /) -> _T:
    """rounded towards zero"""

uint16: DType

uint32: DType

uint64: DType

uint8: DType

def unique_all(x: Any, /) -> Any:
    """The distinct elements, where each stood first, which one each element is, and how often each stands."""

def unique_counts(x: Any, /) -> Any:
    """The distinct elements and how often each stands."""

def unique_inverse(x: Any, /) -> Any:
    """The distinct elements and which one each element is."""

def unique_values(x: _T | builtins.complex, /) -> _T:
    """The distinct elements in rising order."""

def unstack(x: Any, /, *, axis: int | Sequence[int] | None = 0) -> tuple[Any, ...]:
    """The slices along an axis."""

def value_and_grad(f: Callable[..., Any], /, argnums: Any = None, *, has_aux: Any = False) -> Any:
    """The value and the gradient of a function with one real result."""

def var(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, correction: Any = 0.0, keepdims: builtins.bool = False) -> _T:
    """The variance over axes; divides by n - correction."""

def vecdot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1) -> _T:
    """Sums of products over one axis, the first operand conjugated."""

def vjp(f: Callable[..., Any], /, *primals: Any) -> Any:
    """The value of f, and the map from cotangents of its output to a tuple of cotangents of its arguments."""

def where(condition: Any, x1: Any, x2: Any, /) -> Any:
    """The second operand where the first is true, else the third."""

def while_loop(test: Any, body: Any, start: Any, /) -> Any:
    """Runs `body` on the carried nest while `test` of it holds."""

def wrap(x: Any, /) -> Tensor:
    """The tensor of a framework's own array, at home there."""

def zeros(shape: int | Sequence[int], *, dtype: Any = None, device: Any = None) -> Tensor:
    """Zeros."""

def zeros_like(x: _T | builtins.complex, /, *, dtype: Any = None, device: Any = None) -> _T:
    """Zeros.

Of the shape and element type of another tensor, beside it."""
