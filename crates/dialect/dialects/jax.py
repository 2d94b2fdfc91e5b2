"""The ops in jax. Each function is compiled once per shape and static parameters (`jax.jit`), so that a call is one dispatch.

Keyword parameters are static. 64-bit dtypes need `in_64` unless the user has enabled x64.
"""
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from clematis._dialects import jax_special as special
from clematis._dialects.jax_special import BOOL, EXACT, F32, HALF, I32, I64, kind, op, wide

VERSION = jax.__version__
DTYPES = {
    "bool": np.dtype(np.bool_), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "c64": np.dtype(np.complex64), "c128": np.dtype(np.complex128),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NUMBERS = frozenset({
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "atan2", "hypot", "maximum", "minimum", "logaddexp",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
})
# jax refuses a Python integer beyond int64 next to these.
NUMBERLESS = frozenset({"u32", "u64"})
ARRAYS = (jax.Array, jax.core.Tracer)


def is_traced(x):
    return isinstance(x, jax.core.Tracer)


def in_64(f, *args, **kwargs):
    with jax.enable_x64(True):
        return f(*args, **kwargs)


custom_vjp, size = special.custom_vjp, special.size
run_cond, run_while, run_scan = special.run_cond, special.run_while, special.run_scan


def _traced(f, xs, *args):
    # 64-bit dtypes have to be enabled.
    return in_64(f, *args) if any(x.dtype.itemsize == 8 for x in xs) else f(*args)


def traced_cond(predicate, then, otherwise, xs):
    return _traced(jax.lax.cond, xs, predicate.reshape(()), lambda *xs: then(*xs), lambda *xs: otherwise(*xs), *xs)


def traced_while(test, body, xs):
    return _traced(jax.lax.while_loop, xs, lambda xs: test(*xs), lambda xs: body(*xs), xs)


_copied = jax.jit(lambda x: x)


def from_bytes(buffer, dtype, shape):
    x = np.frombuffer(buffer, DTYPES[dtype]).reshape(shape)
    if x.dtype.itemsize == 8 or dtype == "c128":
        return in_64(jnp.array, x)
    # What a training step is given each time, by the way that takes a third of the time once it is compiled.
    return _copied(x) if x.ndim == 1 and x.size <= 8 and dtype == "f32" else jnp.array(x)


def to_bytes(x):
    return np.ascontiguousarray(x).tobytes()


def device(x):
    at = next(iter(x.devices()))
    return "cpu" if at.platform == "cpu" else f"gpu:{at.local_hardware_id or 0}"


def from_dlpack(holder):
    return in_64(jnp.from_dlpack, holder)


def to_dlpack(x):
    return x.__dlpack__()


def _unary(f):
    return op(lambda x: f(x))


def _binary(f):
    return op(lambda x, y: f(x, y))


def _parts(f):
    """Applies a function of real numbers to both parts of a complex one."""
    return op(lambda x: lax.complex(f(x.real), f(x.imag)) if kind(x) == "c" else x if kind(x) in "ui" else f(x))


neg = _unary(lax.neg)
positive = _unary(jnp.positive)
abs = _unary(special.abs)
square = _unary(lax.square)
reciprocal = _unary(wide(jnp.reciprocal))
sqrt = _unary(special.mended(lax.sqrt, special.sqrt_edges))
rsqrt = _unary(wide(lax.rsqrt))
cbrt = _unary(wide(lax.cbrt))
exp = _unary(special.mended(lax.exp, special.exp_edges))
exp2 = _unary(wide(lax.exp2))
expm1 = _unary(wide(lax.expm1))
log = _unary(special.mended(lax.log, special.log_edges))
log2 = _unary(wide(special.log_by(jnp.log2, 2)))
log10 = _unary(wide(special.log_by(jnp.log10, 10)))
log1p = _unary(wide(lax.log1p))
sin = _unary(lax.sin)
cos = _unary(lax.cos)
tan = _unary(wide(lax.tan))
asin = _unary(wide(special.asin))
acos = _unary(wide(special.mended(lax.acos, special.acos_edges)))
atan = _unary(wide(lax.atan))
sinh = _unary(wide(special.mended(special.sinh, special.sinh_edges)))
cosh = _unary(wide(special.mended(special.cosh, special.cosh_edges)))
tanh = _unary(lax.tanh)
asinh = _unary(wide(special.mended(lax.asinh, special.asinh_edges)))
acosh = _unary(wide(lax.acosh))
atanh = _unary(wide(special.mended(lax.atanh, special.atanh_edges)))
erf = _unary(wide(lax.erf))
erfc = _unary(wide(lax.erfc))
erfinv = _unary(wide(lax.erf_inv))
lgamma = _unary(wide(lax.lgamma))
digamma = _unary(wide(special.digamma))
floor = _parts(lax.floor)
ceil = _parts(lax.ceil)
trunc = _parts(jnp.trunc)
round = _parts(lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN))
real = _unary(jnp.real)
imag = _unary(jnp.imag)
conj = _unary(jnp.conj)
isnan = _unary(jnp.isnan)
isinf = _unary(jnp.isinf)
isfinite = _unary(jnp.isfinite)
signbit = _unary(lambda x: jnp.signbit(x) if kind(x) == "f" else x < 0)
bitwise_not = _unary(lax.bitwise_not)
logical_not = _unary(lambda x: x == 0)
stop_gradient = _unary(lax.stop_gradient)


@op
def sign(x):
    if kind(x) == "c":
        return lax.sign(x)
    # XLA keeps the sign of a zero.
    return jnp.where(x == 0, jnp.zeros_like(x), lax.sign(x)) if kind(x) == "f" else lax.sign(x)


add = _binary(jnp.add)
sub = _binary(jnp.subtract)
mul = _binary(jnp.multiply)
div = op(wide(special.div))
atan2 = _binary(wide(jnp.arctan2))
hypot = _binary(wide(jnp.hypot))
copysign = _binary(jnp.copysign)
nextafter = op(special.nextafter)
logaddexp = _binary(wide(jnp.logaddexp))
polygamma = op(wide(special.polygamma))
maximum = _binary(special.first_of_equals(jnp.maximum))
minimum = _binary(special.first_of_equals(jnp.minimum))
bitwise_and = _binary(jnp.bitwise_and)
bitwise_or = _binary(jnp.bitwise_or)
bitwise_xor = _binary(jnp.bitwise_xor)
equal = _binary(jnp.equal)
not_equal = _binary(jnp.not_equal)
less = _binary(jnp.less)
less_equal = _binary(jnp.less_equal)
greater = _binary(jnp.greater)
greater_equal = _binary(jnp.greater_equal)
logical_and = _binary(lambda x, y: (x != 0) & (y != 0))
logical_or = _binary(lambda x, y: (x != 0) | (y != 0))
logical_xor = _binary(lambda x, y: (x != 0) ^ (y != 0))


@op
def complex(x, y):
    x, y = jnp.broadcast_arrays(*(v.astype(F32) if v.dtype in HALF else v for v in (x, y)))
    return lax.complex(x, y)


def _pair(x, y):
    """Two arrays of one shape and dtype; Python numbers take the other's dtype."""
    x, y = jnp.broadcast_arrays(x, y)
    dtype = jnp.result_type(x, y)
    return x.astype(dtype), y.astype(dtype)


def _by(y):
    """A safe divisor, and a mask of where it was zero."""
    none = y == 0
    return jnp.where(none, jnp.ones_like(y), y), none


@op
def fmod(x, y):
    x, y = _pair(x, y)
    if kind(x) == "f":
        return wide(lax.rem)(x, y)
    by, none = _by(y)
    return jnp.where(none, jnp.zeros_like(x), lax.rem(x, by))


@op
def remainder(x, y):
    x, y = _pair(x, y)
    if kind(x) == "f":
        return wide(_remainder)(x, y)
    by, none = _by(y)
    r = lax.rem(x, by)
    r = jnp.where((r != 0) & ((r < 0) != (by < 0)), r + by, r)
    return jnp.where(none, jnp.zeros_like(x), r)


def _remainder(x, y):
    r = lax.rem(x, y)
    moved = jnp.where((r < 0) != (y < 0), r + y, r)
    return jnp.where(r == 0, jnp.copysign(jnp.zeros_like(r), y), moved)


@op
def floor_divide(x, y):
    x, y = _pair(x, y)
    if kind(x) == "f":
        return wide(_floor_divide)(x, y)
    by, none = _by(y)
    q, r = lax.div(x, by), lax.rem(x, by)
    q = jnp.where((r != 0) & ((r < 0) != (by < 0)), q - 1, q)
    return jnp.where(none, jnp.zeros_like(x), q)


def _floor_divide(x, y):
    r = lax.rem(x, y)
    below = (r != 0) & (jnp.signbit(r) != jnp.signbit(y))
    q = lax.round((x - r) / y, lax.RoundingMethod.TO_NEAREST_EVEN) - below
    q = jnp.where(q == 0, jnp.copysign(jnp.zeros_like(q), x / y), q)
    return jnp.where(y == 0, x / y, q)


@op
def pow(x, y):
    x, y = _pair(x, y)
    if kind(x) in "fc":
        return lax.pow(x, y)
    # By repeated squaring; XLA's integer power goes through floats.
    out, base, rest = jnp.ones_like(x), x, y
    for _ in range(x.dtype.itemsize * 8 - (kind(x) == "i")):
        out = jnp.where(rest & 1 == 1, out * base, out)
        base, rest = base * base, rest >> 1
    if kind(x) == "u":
        return out
    odd = jnp.where((x == -1) & (y & 1 == 1), -jnp.ones_like(x), jnp.ones_like(x))
    return jnp.where(y < 0, jnp.where((x == 1) | (x == -1), odd, jnp.zeros_like(x)), out)


@op
def shift_left(x, y):
    x, y = _pair(x, y)
    return lax.shift_left(x, y)


@op
def shift_right(x, y):
    x, y = _pair(x, y)
    if kind(x) == "u":
        return lax.shift_right_logical(x, y)
    return jnp.where(y < 0, jnp.zeros_like(x), lax.shift_right_arithmetic(x, y))


select = op(lambda where, x, y: jnp.where(where, x, y))


@op
def clamp(low, x, high):
    low, x, high = jnp.broadcast_arrays(low, x, high)
    return jnp.minimum(jnp.maximum(x, low), high)


@op
def cast(x, *, dtype):
    if dtype == BOOL:
        return x != 0
    if kind(x) == "c" and dtype.kind != "c":
        x = x.real
    return lax.convert_element_type(x, dtype)


@op
def bitcast(x, *, dtype):
    if dtype == BOOL:
        return x != 0
    if x.dtype == dtype:
        return x
    if x.dtype == BOOL:
        return x.astype(dtype)
    # XLA's bitcast does not support complex numbers: through their parts.
    if kind(x) == "c":
        low, high = (lax.bitcast_convert_type(v, np.uint32).astype(np.uint64) for v in (x.real, x.imag))
        return lax.bitcast_convert_type(low | high << 32, dtype)
    if dtype.kind == "c":
        bits = lax.bitcast_convert_type(x, np.uint64)
        low, high = (lax.bitcast_convert_type(v.astype(np.uint32), F32) for v in (bits & 0xFFFFFFFF, bits >> 32))
        return lax.complex(low, high)
    return lax.bitcast_convert_type(x, dtype)


reshape = op(lambda x, *, shape: lax.reshape(x, shape))
transpose = op(lambda x, *, axes: lax.transpose(x, axes))
concat = op(lambda *xs, axis: lax.concatenate(xs, axis))
reverse = op(lambda x, *, axes: lax.rev(x, axes))
broadcast = op(lambda x, *, shape, axes: lax.broadcast_in_dim(x, shape, axes))
slice = op(lambda x, *, start, limit, strides: lax.slice(x, start, limit, strides))
pad = op(lambda x, value, *, low, high, interior: lax.pad(x, value, tuple(zip(low, high, interior))))
iota = op(lambda *, axis, dtype, shape: lax.broadcasted_iota(dtype, shape, axis))
_spread = op(lambda value, *, shape: lax.broadcast(value, shape))


def full(*, value, dtype, shape):
    # Not static: NaN never equals a cached key.
    return _spread(np.asarray(value).astype(dtype), shape=shape)


def _index(i):
    """As signed integers that hold sizes; larger ones stay out of range."""
    if kind(i) == "u" and i.dtype.itemsize >= 4:
        return lax.min(i, jnp.asarray(np.iinfo(I32).max, i.dtype)).astype(I32)
    # In 32 bits: the framework's own VJP runs where x64 is disabled.
    return lax.clamp(np.int64(-2**31), i, np.int64(2**31 - 1)).astype(I32) if i.dtype == I64 else i.astype(I32)


def _start(start):
    start = _index(start)
    return [lax.index_in_dim(start, i, keepdims=False) for i in range(start.shape[0])]


@op
def dynamic_slice(x, start, *, sizes):
    return lax.dynamic_slice(x, _start(start), sizes, allow_negative_indices=False) if sizes else x


@op
def dynamic_update_slice(x, update, start):
    return lax.dynamic_update_slice(x, update, _start(start), allow_negative_indices=False) if x.shape else update


MODES = {"clip": lax.GatherScatterMode.CLIP, "drop": lax.GatherScatterMode.FILL_OR_DROP}


@op
def gather(x, indices, *, offset_axes, collapsed, index_map, operand_batch, index_batch, slice_sizes, mode):
    kept = [a for a in range(x.ndim) if a not in collapsed and a not in operand_batch]
    if 0 in indices.shape[:-1] or any(slice_sizes[a] == 0 for a in kept):
        rows, sizes = iter(indices.shape[:-1]), iter(slice_sizes[a] for a in kept)
        shape = [next(sizes) if i in offset_axes else next(rows) for i in range(indices.ndim - 1 + len(kept))]
        return jnp.zeros(shape, x.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=offset_axes, collapsed_slice_dims=tuple(sorted(collapsed)), start_index_map=index_map,
        operand_batching_dims=operand_batch, start_indices_batching_dims=index_batch)
    return lax.gather(x, _index(indices), numbers, slice_sizes, mode=MODES[mode], fill_value=0)


def _scatter(f):
    @op
    def scatter(x, indices, updates, *, window_axes, inserted, index_map, operand_batch, index_batch, mode):
        if 0 in updates.shape or 0 in x.shape:
            return x
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=window_axes, inserted_window_dims=tuple(sorted(inserted)), scatter_dims_to_operand_dims=index_map,
            operand_batching_dims=operand_batch, scatter_indices_batching_dims=index_batch)
        return f(x, _index(indices), updates, numbers, MODES[mode])
    return scatter


def _combined(f, truth):
    """Bool is reduced as u8, half precision as f32."""
    def combined(x, indices, updates, numbers, mode):
        if x.dtype == BOOL:
            return truth(x.astype(np.uint8), indices, updates.astype(np.uint8), numbers, mode=mode).astype(BOOL)
        return wide(lambda x, updates: f(x, indices, updates, numbers, mode=mode))(x, updates)
    return combined


scatter = _scatter(lambda x, i, u, numbers, mode: lax.scatter(x, i, u, numbers, mode=mode))
scatter_add = _scatter(_combined(lax.scatter_add, lax.scatter_max))
scatter_mul = _scatter(_combined(special.scatter_mul, lax.scatter_min))
scatter_min = _scatter(_combined(lax.scatter_min, lax.scatter_min))
scatter_max = _scatter(_combined(lax.scatter_max, lax.scatter_max))


@op
def nonzero(x, *, size):
    if x.ndim == 0 or 0 in x.shape:
        return jnp.broadcast_to(jnp.asarray(x.shape, I64), (size, x.ndim))
    places = jnp.nonzero(x, size=size, fill_value=x.shape)
    return jnp.stack(places, -1).astype(I64)


@op
def searchsorted(sorted, values, *, right):
    side = "right" if right else "left"
    if sorted.ndim == 1:
        return jnp.searchsorted(sorted, values, side=side).astype(I64)
    rows, found = sorted.reshape(-1, sorted.shape[-1]), values.reshape(-1, values.shape[-1])
    return jax.vmap(lambda s, v: jnp.searchsorted(s, v, side=side))(rows, found).reshape(values.shape).astype(I64)


def _sized(x):
    """Bool as u8, for functions without bool."""
    return x.astype(np.uint8) if x.dtype == BOOL else x


reduce_sum = op(wide(lambda x, *, axes: lax.reduce_sum(x, axes)))
reduce_prod = op(wide(lambda x, *, axes: lax.reduce_prod(x, axes)))
reduce_max = op(lambda x, *, axes: lax.reduce_max(_sized(x), axes).astype(x.dtype))
reduce_min = op(lambda x, *, axes: lax.reduce_min(_sized(x), axes).astype(x.dtype))
reduce_any = op(lambda x, *, axes: lax.reduce_or(x, axes))
reduce_all = op(lambda x, *, axes: lax.reduce_and(x, axes))


def _place(f, best):
    def place(x, *, axis):
        x = _sized(x)
        if not is_traced(x):
            return f(x, axis, I64)
        # In a caller's own jit jax lowers this in 32 bits, operands and places alike.
        if x.dtype.itemsize < 8:
            return f(x, axis, I32).astype(I64)
        hit = (x == lax.expand_dims(best(x, (axis,)), (axis,))) | (x != x)
        rows = lax.broadcasted_iota(I32, x.shape, axis)
        return lax.reduce_min(jnp.where(hit, rows, x.shape[axis]), (axis,)).astype(I64)

    return op(place)


argmax, argmin = _place(lax.argmax, lax.reduce_max), _place(lax.argmin, lax.reduce_min)
cumulative_sum = op(wide(lambda x, *, axis, reverse: lax.cumsum(x, axis, reverse)))
cumulative_prod = op(wide(lambda x, *, axis, reverse: lax.cumprod(x, axis, reverse)))
cumulative_max = op(lambda x, *, axis, reverse: lax.cummax(_sized(x), axis, reverse).astype(x.dtype))
cumulative_min = op(lambda x, *, axis, reverse: lax.cummin(_sized(x), axis, reverse).astype(x.dtype))
cumulative_logsumexp = op(wide(lambda x, *, axis, reverse: lax.cumlogsumexp(x, axis, reverse)))


def _descending(x):
    """Keys in the reverse order of x; NaN stays last."""
    return -x if kind(x) == "f" else ~x


@op
def sort(*xs, axis, keys, descending, stable):
    if descending:
        out = lax.sort((*map(_descending, xs[:keys]), *xs), axis, is_stable=True, num_keys=keys)[keys:]
    else:
        out = lax.sort(xs, axis, is_stable=stable, num_keys=keys)
    return out[0] if len(xs) == 1 else tuple(out)


@op
def top_k(x, *, k):
    places = lax.broadcasted_iota(I64, x.shape, x.ndim - 1)
    # NaN counts as the largest here, not as the last.
    *_, values, places = lax.sort((x == x, _descending(x), x, places), x.ndim - 1, is_stable=True, num_keys=2)
    return lax.slice_in_dim(values, 0, k, axis=-1), lax.slice_in_dim(places, 0, k, axis=-1)


@op
def dot_general(x, y, *, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    return _dot(x, y, ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)))


def _dot(x, y, axes):
    if x.dtype == BOOL:
        return lax.dot_general(x.astype(I32), y.astype(I32), axes) != 0
    if x.dtype in HALF:
        return lax.dot_general(x, y, axes, preferred_element_type=F32).astype(x.dtype)
    return lax.dot_general(x, y, axes, precision=EXACT)


# jax's own functions on f32: compiled without static parameters, which would take as long as the rest of a small call.
FAST_PATHS = {"matmul": (jax.jit(lambda x, y: jnp.matmul(x, y, precision=EXACT)), "matmul")}


@op
def conv_general(x, w, *, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout, feature_groups, batch_groups):
    numbers = lax.ConvDimensionNumbers(lhs_layout, rhs_layout, out_layout)
    if x.dtype == BOOL:
        return _conv(x.astype(I32), w.astype(I32), strides, padding, lhs_dilation, rhs_dilation, numbers, feature_groups, batch_groups) != 0
    return wide(_conv)(x, w, strides=strides, padding=padding, lhs_dilation=lhs_dilation, rhs_dilation=rhs_dilation,
                        numbers=numbers, feature_groups=feature_groups, batch_groups=batch_groups)


def _conv(x, w, strides, padding, lhs_dilation, rhs_dilation, numbers, feature_groups, batch_groups):
    empty = [w.shape[axis] == 0 for axis in numbers.rhs_spec[2:]]
    if any(empty):
        # XLA rejects an empty filter; a zero filter of size one with matching padding gives the same result.
        spatial = numbers.rhs_spec[2:]
        w = jnp.zeros([max(n, 1) if axis in spatial else n for axis, n in enumerate(w.shape)], w.dtype)
        padding = [(low, high + more) for (low, high), more in zip(padding, empty)]
    return lax.conv_general_dilated(x, w, strides, padding, lhs_dilation, rhs_dilation, numbers, feature_groups, batch_groups, EXACT)


reduce_window_sum = special.reduce_window_sum
reduce_window_prod = special.reduce_window_prod
reduce_window_max = special.reduce_window_max
reduce_window_min = special.reduce_window_min
window_gather_max = special.window_gather_max
window_gather_min = special.window_gather_min
window_scatter_max = special.window_scatter_max
window_scatter_min = special.window_scatter_min


@op
def _cholesky(x, *, upper):
    y = jnp.tril(lax.linalg.cholesky(x, symmetrize_input=False))
    return jnp.conj(jnp.swapaxes(y, -1, -2)) if upper else y


def cholesky(x, *, upper):
    y = _cholesky(x, upper=upper)
    if not isinstance(y, jax.core.Tracer) and bool(jnp.isnan(y).any()):
        raise ValueError("cholesky: the matrix is not positive definite")
    return y


qr = op(lambda x, *, complete: tuple(lax.linalg.qr(x, full_matrices=complete)))
lu = op(lambda x: tuple(lax.linalg.lu(x)))


@op
def svd(x, *, complete, vectors):
    out = lax.linalg.svd(x, full_matrices=complete, compute_uv=vectors)
    return tuple(out) if vectors else out[0] if isinstance(out, (list, tuple)) else out


@op
def eigh(x, *, vectors):
    v, w = lax.linalg.eigh(x, lower=True, symmetrize_input=False)
    return (w, v) if vectors else w


@op
def eig(x, *, vectors):
    out = lax.linalg.eig(x, compute_left_eigenvectors=False, compute_right_eigenvectors=vectors)
    return tuple(out) if vectors else out[0]


@op
def triangular_solve(a, b, *, left, lower, transpose, unit_diagonal):
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=lower, transpose_a=transpose != "no",
                                       conjugate_a=transpose == "adjoint", unit_diagonal=unit_diagonal)


def _each(f, x, axes):
    """jax transforms at most three axes at once, in the order of the axes: transform one after the other."""
    for axis in axes:
        x = f(x, axis=axis)
    return x


fft = op(lambda x, *, axes, length: _each(jnp.fft.fft, x, axes))
ifft = op(lambda x, *, axes, length: _each(jnp.fft.ifft, x, axes))
rfft = op(lambda x, *, axes, length: _each(jnp.fft.fft, jnp.fft.rfft(x, axis=axes[-1]), axes[:-1]))
irfft = op(lambda x, *, axes, length: jnp.fft.irfft(_each(jnp.fft.ifft, x, axes[:-1]), length, axes[-1]))


# Composites: one dispatch instead of one per op.

relu = op(lambda x: jnp.where(x <= 0, jnp.zeros_like(x), x))
leaky_relu = op(wide(lambda x, *, negative_slope: jnp.where(x > 0, x, negative_slope * x)))
elu = op(wide(lambda x, *, alpha: jnp.where(x > 0, x, alpha * jnp.expm1(jnp.where(x > 0, 0, x)))))
selu = op(wide(jax.nn.selu))
sigmoid = op(wide(jax.nn.sigmoid))
log_sigmoid = op(wide(lambda x: -_softplus(-x)))
silu = op(wide(jax.nn.silu))
softplus = op(wide(lambda x: _softplus(x)))
mish = op(wide(lambda x: x * jnp.tanh(_softplus(x))))
hard_sigmoid = op(wide(lambda x: jnp.clip(x + 3, 0, 6) / 6))
hard_swish = op(wide(lambda x: x * jnp.clip(x + 3, 0, 6) / 6))


def _softplus(x):
    return jnp.maximum(x, 0) + jnp.log1p(jnp.exp(-jnp.abs(x)))


@op
@wide
def gelu(x, *, approximate):
    if approximate:
        return 0.5 * x * (1 + jnp.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))
    return 0.5 * x * lax.erfc(-x * 0.7071067811865476)


softmax = op(wide(lambda x, *, axis: jax.nn.softmax(x, axis)))
@op
@wide
def log_softmax(x, *, axis):
    moved = x - lax.stop_gradient(jnp.max(x, axis, keepdims=True, initial=-jnp.inf))
    return moved - jnp.log(jnp.sum(jnp.exp(moved), axis, keepdims=True))


logsumexp = op(wide(lambda x, *, axes: jax.nn.logsumexp(x, axes)))
mean = op(wide(lambda x, *, axes: jnp.mean(x, axes)))


@op
@wide
def var(x, *, axes, correction):
    n = int(np.prod([x.shape[a] for a in axes]))
    d = x - jnp.mean(x, axes, keepdims=True)
    d = jnp.square(d.real) + jnp.square(d.imag) if kind(x) == "c" else jnp.square(d)
    return jnp.sum(d, axes) / max(n - correction, 0.0)


def _standardized(x, axes, epsilon):
    d = x - jnp.mean(x, axes, keepdims=True)
    return d * lax.rsqrt(jnp.mean(jnp.square(d), axes, keepdims=True) + epsilon)


def _affine(x, scale, bias):
    x = x if scale is None else x * scale
    return x if bias is None else x + bias


@op
@wide
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    return _affine(_standardized(x, tuple(range(axis, x.ndim)), epsilon), scale, bias)


@op
@wide
def rms_norm(x, scale=None, *, axis, epsilon):
    axes = tuple(range(axis, x.ndim))
    return _affine(x * lax.rsqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + epsilon), scale, None)


def _channels(v, axis, rank):
    return None if v is None else jnp.expand_dims(v, tuple(a for a in range(rank) if a != axis))


@op
@wide
def group_norm(x, scale=None, bias=None, *, axis, groups, epsilon):
    wide = x.reshape(*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1:])
    y = _standardized(wide, tuple(a for a in range(1, wide.ndim) if a != axis), epsilon).reshape(x.shape)
    return _affine(y, _channels(scale, axis, x.ndim), _channels(bias, axis, x.ndim))


@op
@wide
def batch_norm(x, mean, variance, scale=None, bias=None, *, axis, epsilon):
    factor = lax.rsqrt(variance + epsilon)
    factor = factor if scale is None else factor * scale
    return _affine(x - _channels(mean, axis, x.ndim), _channels(factor, axis, x.ndim), _channels(bias, axis, x.ndim))


@op
def linear(x, w, b=None):
    axes = ((x.ndim - 1,), (1,)), ((), ())
    if b is None or x.dtype not in HALF:
        y = _dot(x, w, axes)
        return y if b is None else y + b
    return (lax.dot_general(x, w, axes, preferred_element_type=F32) + b.astype(F32)).astype(x.dtype)


@op
def embedding(table, indices):
    i = _index(indices)
    return jnp.take(table, jnp.where(i < 0, i + table.shape[0], i), axis=0, mode="clip")


@op
@wide
def attention(q, k, v, mask=None, *, scale, causal):
    scores = jnp.einsum("...qd,...kd->...qk", q * scale, k, precision=EXACT)
    keep = None
    if mask is not None:
        if mask.dtype == BOOL:
            keep = mask
        else:
            scores = scores + mask
    if causal:
        lower = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
        keep = lower if keep is None else keep & lower
    if keep is not None:
        scores = jnp.where(keep, scores, -jnp.inf)
        some = jnp.any(keep, -1, keepdims=True)
        # A fully masked row gives zeros, and no NaN in its derivative.
        weights = jnp.where(some, jax.nn.softmax(jnp.where(some, scores, 0), -1), 0)
    else:
        weights = jax.nn.softmax(scores, -1)
    return jnp.einsum("...qk,...kd->...qd", weights, v, precision=EXACT)


@op
def conv_transpose(x, w, *, strides, padding, rhs_dilation, lhs_layout, rhs_layout, out_layout, feature_groups):
    w = lax.transpose(w, rhs_layout)
    filters, inner, *kernel = w.shape
    w = w.reshape(feature_groups, filters // feature_groups, inner, *kernel).swapaxes(1, 2)
    w = lax.rev(w.reshape(feature_groups * inner, filters // feature_groups, *kernel), range(2, w.ndim - 1))
    reach = [(k - 1) * d for k, d in zip(kernel, rhs_dilation)]
    return conv_general(x, w, strides=(1,) * len(strides), padding=tuple((r - l, r - h) for r, (l, h) in zip(reach, padding)),
                        lhs_dilation=strides, rhs_dilation=rhs_dilation, lhs_layout=lhs_layout, rhs_layout=tuple(range(w.ndim)),
                        out_layout=out_layout, feature_groups=feature_groups, batch_groups=1)


@op
def max_pool(x, *, size, strides, padding, dilation):
    return reduce_window_max(x, size=size, strides=strides, padding=padding, base_dilation=(1,) * x.ndim, window_dilation=dilation)


@op
@wide
def avg_pool(x, *, size, strides, padding, dilation, count_padding):
    p = dict(size=size, strides=strides, padding=padding, base_dilation=(1,) * x.ndim, window_dilation=dilation)
    total = reduce_window_sum(x, **p)
    if count_padding:
        return total / int(np.prod(size))
    count = np.ones((), np.int32)
    for axis in range(x.ndim):
        _, inside = special.tap_table(x.shape[axis], size[axis], strides[axis], padding[axis], 1, dilation[axis])
        count = np.multiply.outer(count, sum(tap.astype(np.int32) for _, tap in inside))
    return total / count.astype(total.real.dtype)


@op
def einsum(*xs, equation):
    if xs[0].dtype == BOOL:
        return NotImplemented
    return wide(lambda *xs: jnp.einsum(equation, *xs, precision=EXACT))(*xs)


@op
def one_hot(x, *, depth, dtype):
    return (x[..., None] == jnp.arange(depth, dtype=x.dtype)).astype(dtype)


@op
@wide
def cross_entropy(x, labels):
    at = jnp.take_along_axis(x, _index(labels)[..., None], -1, mode="clip")[..., 0]
    return jax.nn.logsumexp(x, -1) - at


def _gates(x, w, b):
    y = jnp.einsum("...i,oi->...o", x, w, precision=EXACT)
    return y if b is None else y + b


@op
@wide
def lstm_cell(x, h, c, wx, wh, b=None):
    i, f, g, o = jnp.split(_gates(x, wx, b) + _gates(h, wh, None), 4, -1)
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


@op
@wide
def gru_cell(x, h, wx, wh, bx=None, bh=None):
    a, b = jnp.split(_gates(x, wx, bx), 3, -1), jnp.split(_gates(h, wh, bh), 3, -1)
    r, z = jax.nn.sigmoid(a[0] + b[0]), jax.nn.sigmoid(a[1] + b[1])
    return (1 - z) * jnp.tanh(a[2] + r * b[2]) + z * h


@op
def solve(a, b):
    return jnp.linalg.solve(a, b[..., None])[..., 0] if b.ndim + 1 == a.ndim else jnp.linalg.solve(a, b)


inv = _unary(jnp.linalg.inv)


@op
def det(x):
    packed, pivots, _ = lax.linalg.lu(x)
    swaps = jnp.sum(pivots != np.arange(x.shape[-1], dtype=np.int32), -1)
    product = jnp.prod(jnp.diagonal(packed, axis1=-2, axis2=-1), -1)
    return jnp.where(swaps % 2 == 1, -product, product)


random_bits = op(special.random_bits)


@op
def dropout(x, key, *, rate):
    if rate in (0, 1):
        # Not x times 0, which is NaN where x is infinite.
        return x if rate == 0 else jnp.zeros_like(x)
    drawn = (special.random_bits(key, dtype=DTYPES["u32"], shape=x.shape) >> 8).astype(F32) * np.float32(2.0**-24)
    keep = drawn >= np.float32(rate)
    return wide(lambda x: jnp.where(keep, x * (1 / (1 - rate)), jnp.zeros_like(x)))(x)


resize = op(special.resize)
