"""Every op in NumPy.

bf16 is ml_dtypes' bfloat16, which computes each function in f32 and rounds once, as numpy does for f16. Results may be
numpy scalars or views of operands. Warnings about floats (1 / 0, overflow) are numpy's own and stay.
"""
import functools
import itertools
import math

import ml_dtypes
import numpy as np

from clematis._dialects import numpy_fast_path, numpy_special as special

_as_index, _is_half, size = special.as_index, special.is_half, special.size
run_cond, run_while, run_scan = special.run_cond, special.run_while, special.run_scan
_slice = slice
_F32, _F64, _I32, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.int64)
_BF16 = np.dtype(ml_dtypes.bfloat16)
_reduce_add, _reduce_multiply = np.add.reduce, np.multiply.reduce
_reduce_maximum, _reduce_minimum = np.maximum.reduce, np.minimum.reduce
_reduce_or, _reduce_and = np.logical_or.reduce, np.logical_and.reduce

FAST_PATHS = numpy_fast_path.FAST_PATHS
VERSION = np.__version__
DTYPES = {
    "bool": np.dtype(np.bool_), "u8": np.dtype(np.uint8), "u16": np.dtype(np.uint16), "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64), "i8": np.dtype(np.int8), "i16": np.dtype(np.int16), "i32": _I32, "i64": _I64,
    "f16": np.dtype(np.float16), "bf16": _BF16, "f32": _F32, "f64": _F64, "c64": np.dtype(np.complex64),
    "c128": np.dtype(np.complex128),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
ARRAYS = (np.ndarray, np.generic)
# Python floats beside bf16 give f32, which is why `NUMBERLESS` says where numbers must become arrays first.
NUMBERS = frozenset({
    "add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "maximum", "minimum", "equal", "not_equal", "less",
    "less_equal", "greater", "greater_equal", "bitwise_and", "bitwise_or", "bitwise_xor", "logical_and", "logical_or",
    "logical_xor", "atan2", "hypot", "copysign", "nextafter", "logaddexp", "shift_left",
})
NUMBERLESS = frozenset({"bf16"})


def from_bytes(buffer, dtype_name, shape):
    return np.frombuffer(buffer, DTYPES[dtype_name]).reshape(shape).copy()


def to_bytes(x):
    return x.tobytes()


def assign(out, x):
    out[...] = x


def device(x):
    return "cpu"


from_dlpack = np.from_dlpack
scalar_to_array = np.asarray


def to_dlpack(x):
    return x.__dlpack__()


def _wide(x):
    """Half precision as f32, in which it is computed."""
    return x.astype(_F32) if _is_half(x.dtype) else x


neg, positive, abs, square, reciprocal, rsqrt = (
    np.negative, np.positive, np.absolute, np.square, special.reciprocal, special.rsqrt)
sqrt, cbrt, exp, exp2, expm1 = np.sqrt, np.cbrt, np.exp, np.exp2, np.expm1
log, log2, log10, log1p = np.log, np.log2, np.log10, np.log1p
sin, cos, tan, asin, acos, atan = np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan
sinh, cosh, tanh, asinh, acosh, atanh = np.sinh, np.cosh, np.tanh, np.arcsinh, np.arccosh, np.arctanh
erf, erfc, erfinv, lgamma, digamma = special.erf, special.erfc, special.erfinv, special.lgamma, special.digamma
floor, ceil, trunc, conj = np.floor, np.ceil, np.trunc, np.conjugate
isnan, isinf, isfinite, bitwise_not, logical_not = np.isnan, np.isinf, np.isfinite, np.invert, np.logical_not


def sign(x):
    # bf16 keeps -0, which adding 0 makes 0.
    return np.add(np.sign(x), 0) if x.dtype is _BF16 else np.sign(x)


def round(x):
    # rint converts integers to floats.
    return np.positive(x) if x.dtype.kind in "iu" else np.rint(x)


def real(x):
    return x.real


def imag(x):
    return x.imag if x.dtype.kind == "c" else np.zeros_like(x)


def signbit(x):
    return np.less(x, 0) if x.dtype.kind in "iu" else np.signbit(x)


add, sub, mul, div = np.add, np.subtract, np.multiply, np.divide
floor_divide, remainder, fmod = np.floor_divide, np.remainder, np.fmod
atan2, hypot, copysign, logaddexp, polygamma = np.arctan2, np.hypot, np.copysign, np.logaddexp, special.polygamma
bitwise_and, bitwise_or, bitwise_xor, shift_left = np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift
logical_and, logical_or, logical_xor = np.logical_and, np.logical_or, np.logical_xor
equal, not_equal, less, less_equal = np.equal, np.not_equal, np.less, np.less_equal
greater, greater_equal, select = np.greater, np.greater_equal, np.where


def maximum(x, y):
    # For equal operands (0 and -0) x: numpy's vector loops take the second, those of f16 the first.
    out = np.maximum(y, x)
    return np.maximum(x, y) if out.dtype.char == "e" else out


def minimum(x, y):
    out = np.minimum(y, x)
    return np.minimum(x, y) if out.dtype.char == "e" else out


def nextafter(x, y):
    out = np.nextafter(x, y)
    # f16 gives x where both are zeros.
    return np.where(np.equal(x, y), y, out) if out.dtype.char == "e" else out


def pow(x, y):
    if x.dtype.kind != "i":
        return np.power(x, y)
    # numpy rejects negative exponents: 1 to the power y, -1 to the last bit of y, or 0.
    root = np.where((x == 1) | (x == -1), x, 0).astype(x.dtype)
    low = y < 0
    power = np.power(np.where(low, root, x), np.where(low, y & 1, y))
    return np.where(low, np.multiply(power, np.square(root)), power)


def complex(x, y):
    # x + 1j * y would make NaN of infinite parts.
    out = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x.dtype, np.complex64))
    out.real, out.imag = x, y
    return out


def shift_right(x, y):
    shifted = np.right_shift(x, y)
    return shifted if x.dtype.kind == "u" else np.where(y < 0, x.dtype.type(0), shifted)


def clamp(low, x, high):
    return minimum(maximum(x, low), high)


def stop_gradient(x):
    return x


def cast(x, *, dtype):
    kind = x.dtype.kind
    if dtype.kind in "fb" and kind != "c":
        return x.astype(dtype)
    if dtype.kind in "iu" and kind in "fcV":
        return special.saturated(x.real, dtype)
    if kind == "c" and dtype.kind not in "cb":
        x = x.real
    if dtype is _BF16 and x.dtype.itemsize > 4:
        return special.to_bf16(x)
    return x.astype(dtype)


def bitcast(x, *, dtype):
    return x.astype(dtype) if dtype.kind == "b" else x.view(dtype)


def full(*, value, dtype, shape):
    out = np.empty(shape, dtype)
    out.fill(value)
    return out


def iota(*, axis, dtype, shape):
    line = np.arange(shape[axis]).astype(dtype).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    out = np.empty(shape, dtype)
    out[...] = line
    return out


def reshape(x, *, shape):
    return x.reshape(shape)


def transpose(x, *, axes):
    return x.transpose(axes)


@functools.lru_cache(4096)
def _spread(sizes, rank, axes):
    dims = [1] * rank
    for axis, n in zip(axes, sizes):
        dims[axis] = n
    return tuple(dims)


def broadcast(x, *, shape, axes):
    x = x.reshape(_spread(x.shape, len(shape), axes))
    if math.prod(shape) > 4096:
        return np.broadcast_to(x, shape)
    # A small copy is cheaper than a view.
    out = np.empty(shape, x.dtype)
    out[...] = x
    return out


@functools.lru_cache(4096)
def _slices(start, limit, strides):
    return tuple(map(_slice, start, limit, strides))


def slice(x, *, start, limit, strides):
    return x[_slices(start, limit, strides)]


@functools.lru_cache(4096)
def _padding(sizes, low, high, interior):
    """The padded shape, where elements land in it, and which of them do."""
    dims, target, source = [], [], []
    for n, lo, hi, gap in zip(sizes, low, high, interior):
        step = gap + 1
        out = (n + max(n - 1, 0) * gap) + lo + hi
        first = max(0, -(lo // step))
        last = max(first, min(n, -((lo - out) // step)))
        dims.append(out)
        source.append(_slice(first, last))
        # The last one may be before the first, and then nothing lands.
        ends = lo + first * step, max(lo + (last - 1) * step + 1, 0), step
        target.append(_slice(*ends) if last > first else _slice(0))
    return tuple(dims), tuple(target), tuple(source)


def pad(x, value, *, low, high, interior):
    shape, target, source = _padding(x.shape, low, high, interior)
    out = np.empty(shape, x.dtype)
    out[...] = value
    out[target] = x[source]
    return out


def concat(*xs, axis):
    return np.concatenate(xs, axis)


@functools.lru_cache(4096)
def _reversal(rank, axes):
    return tuple(_slice(None, None, -1) if a in axes else _slice(None) for a in range(rank))


def reverse(x, *, axes):
    return x[_reversal(x.ndim, axes)]


def _block(start, shape, sizes):
    starts = [min(max(s, 0), n - k) for s, n, k in zip(start.tolist(), shape, sizes)]
    return tuple(_slice(s, s + k) for s, k in zip(starts, sizes))


def dynamic_slice(x, start, *, sizes):
    return x[_block(start, x.shape, sizes)]


def dynamic_update_slice(x, update, start):
    out = x.copy()
    out[_block(start, x.shape, update.shape)] = update
    return out


gather, scatter, scatter_add, scatter_mul = special.gather, special.scatter, special.scatter_add, special.scatter_mul
scatter_min, scatter_max = special.scatter_min, special.scatter_max


def nonzero(x, *, size):
    found = np.argwhere(x.astype(np.bool_))[:size]
    out = np.empty((size, x.ndim), _I64)
    out[:len(found)] = found
    out[len(found):] = x.shape
    return out


def searchsorted(sorted, values, *, right):
    sorted, values, side = _wide(sorted), _wide(values), "right" if right else "left"
    if sorted.ndim == 1:
        return sorted.searchsorted(values, side)
    out = np.empty(values.shape, _I64)
    for row in np.ndindex(values.shape[:-1]):
        out[row] = sorted[row].searchsorted(values[row], side)
    return out


def reduce_sum(x, *, axes):
    if x.itemsize == 2 and _is_half(x.dtype):
        return _reduce_add(x, axes, _F32).astype(x.dtype)
    return _reduce_add(x, axes, x.dtype)


def reduce_prod(x, *, axes):
    if x.itemsize == 2 and _is_half(x.dtype):
        return _reduce_multiply(x, axes, _F32).astype(x.dtype)
    return _reduce_multiply(x, axes, x.dtype)


def reduce_max(x, *, axes):
    return _reduce_maximum(x, axes)


def reduce_min(x, *, axes):
    return _reduce_minimum(x, axes)


def reduce_any(x, *, axes):
    return _reduce_or(x, axes)


def reduce_all(x, *, axes):
    return _reduce_and(x, axes)


def argmax(x, *, axis):
    return x.argmax(axis)


def argmin(x, *, axis):
    return x.argmin(axis)


def _running(ufunc, x, axis, reverse):
    back = _reversal(x.ndim, (axis,)) if reverse else ...
    return ufunc.accumulate(_wide(x)[back], axis, dtype=_F32 if _is_half(x.dtype) else x.dtype)[back].astype(x.dtype)


def cumulative_sum(x, *, axis, reverse):
    return _running(np.add, x, axis, reverse)


def cumulative_prod(x, *, axis, reverse):
    return _running(np.multiply, x, axis, reverse)


def cumulative_max(x, *, axis, reverse):
    return _running(np.maximum, x, axis, reverse)


def cumulative_min(x, *, axis, reverse):
    return _running(np.minimum, x, axis, reverse)


def cumulative_logsumexp(x, *, axis, reverse):
    return _running(np.logaddexp, x, axis, reverse)


def _key(x, descending):
    """Sort keys in ascending order; numpy sorts NaN last."""
    if not descending:
        return _wide(x)
    return np.invert(x) if x.dtype.kind in "biu" else np.negative(_wide(x))


def sort(*xs, axis, keys, descending, stable):
    x = xs[0]
    if len(xs) == 1 and not descending and x.dtype is not _BF16:
        return np.sort(x, axis, kind="stable")
    if keys == 1:
        order = _key(x, descending).argsort(axis, kind="stable")
    else:
        order = np.lexsort(tuple(_key(k, descending) for k in reversed(xs[:keys])), axis)
    out = tuple(np.take_along_axis(operand, order, axis) for operand in xs)
    return out if len(out) > 1 else out[0]


def top_k(x, *, k):
    # NaN counts as the largest here, not as the last.
    order = np.lexsort((_key(x, True), x == x), -1)[..., :k]
    return np.take_along_axis(x, order, -1), order


@functools.lru_cache(4096)
def _dot_plan(shape, other, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    """Transposes and shapes that make a batched matmul; None where nothing is to be done."""
    free = tuple(a for a in range(len(shape)) if a not in lhs_batch and a not in lhs_contract)
    more = tuple(a for a in range(len(other)) if a not in rhs_batch and a not in rhs_contract)
    batch = tuple([shape[a] for a in lhs_batch])
    rows, columns = tuple([shape[a] for a in free]), tuple([other[a] for a in more])
    inner = tuple([shape[a] for a in lhs_contract])

    def steps(turn, size, flat):
        return None if turn == tuple(range(len(turn))) else turn, None if size == flat else flat
    left = steps(lhs_batch + free + lhs_contract, batch + rows + inner, batch + (math.prod(rows), math.prod(inner)))
    sizes = math.prod(inner), math.prod(columns)
    right = steps(rhs_batch + rhs_contract + more, batch + inner + columns, batch + sizes)
    out = batch + rows + columns
    return left + right + (None if out == batch + (math.prod(rows), math.prod(columns)) else out,)


def dot_general(x, y, *, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    if x.itemsize == 2 and _is_half(x.dtype):
        wide = dot_general(x.astype(_F32), y.astype(_F32), lhs_batch=lhs_batch, rhs_batch=rhs_batch,
                           lhs_contract=lhs_contract, rhs_contract=rhs_contract)
        return wide.astype(x.dtype)
    if lhs_contract == (1,) and x.ndim == 2 and y.ndim == 2 and not lhs_batch:
        return np.matmul(x, y if rhs_contract == (0,) else y.T)
    turn, shape, other_turn, other_shape, out = _dot_plan(
        x.shape, y.shape, lhs_batch, rhs_batch, lhs_contract, rhs_contract)
    x = x if turn is None else x.transpose(turn)
    y = y if other_turn is None else y.transpose(other_turn)
    product = np.matmul(x if shape is None else x.reshape(shape), y if other_shape is None else y.reshape(other_shape))
    return product if out is None else product.reshape(out)


def _windows(x, size, strides, dilation):
    """A strided view of x with one axis for the positions and one for the window's elements, for each of the last axes."""
    first = x.ndim - len(size)
    places = tuple(max((n - (k - 1) * d - 1) // s + 1, 0) if k else n // s + 1
                   for n, k, s, d in zip(x.shape[first:], size, strides, dilation))
    steps = tuple(a * s for a, s in zip(x.strides[first:], strides))
    inner = tuple(a * d for a, d in zip(x.strides[first:], dilation))
    return np.lib.stride_tricks.as_strided(
        x, x.shape[:first] + places + tuple(size), x.strides[:first] + steps + inner, writeable=False)


def conv_general(x, w, *, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout,
                 feature_groups, batch_groups):
    dtype, groups = x.dtype, max(feature_groups, batch_groups)
    x, w = _wide(x).transpose(lhs_layout), _wide(w).transpose(rhs_layout)
    low, high = (0, 0) + tuple(p[0] for p in padding), (0, 0) + tuple(p[1] for p in padding)
    gaps = (0, 0) + tuple(d - 1 for d in lhs_dilation)
    if any(low) or any(high) or any(gaps):
        x = pad(x, x.dtype.type(0), low=low, high=high, interior=gaps)
    view = _windows(x, w.shape[2:], strides, rhs_dilation)
    spatial, filters = len(strides), w.shape[0]
    places = view.shape[2:2 + spatial]
    # One matmul per group: [groups, rows and positions, features and taps] by [groups, features and taps, filters].
    if batch_groups > 1:
        view = view.reshape((groups, view.shape[0] // groups) + view.shape[1:])
        turn = (0, 1) + tuple(range(3, 3 + spatial)) + (2,) + tuple(range(3 + spatial, 3 + 2 * spatial))
    else:
        view = view.reshape((view.shape[0], groups, view.shape[1] // groups) + view.shape[2:])
        turn = (1, 0) + tuple(range(3, 3 + spatial)) + (2,) + tuple(range(3 + spatial, 3 + 2 * spatial))
    taps = math.prod(w.shape[1:])
    view = view.transpose(turn)
    rows = view.shape[1]
    columns = view.reshape((groups, rows * math.prod(places), taps))
    kernel = w.reshape((groups, filters // groups, taps)).transpose((0, 2, 1))
    out = np.matmul(columns, kernel).reshape((groups, rows) + places + (filters // groups,))
    out = out.transpose((1, 0, 2 + spatial) + tuple(range(2, 2 + spatial))).reshape((rows, filters) + places)
    return out.transpose(tuple(np.argsort(out_layout).tolist())).astype(dtype, copy=False)


def _padded(x, value, padding, base_dilation):
    if not any(lo or hi for lo, hi in padding) and all(d == 1 for d in base_dilation):
        return x
    return pad(x, value, low=tuple(p[0] for p in padding), high=tuple(p[1] for p in padding),
               interior=tuple(d - 1 for d in base_dilation))


def _count(n, size, stride, dilation):
    return max((n - (size - 1) * dilation - 1) // stride + 1, 0)


def _reduce_window(ufunc, x, nothing, size, strides, padding, base_dilation, window_dilation):
    """Reduces axis by axis, since a window is separable; empty windows give the identity."""
    y = _padded(_wide(x), nothing, padding, base_dilation)
    for axis, (k, stride, step) in enumerate(zip(size, strides, window_dilation)):
        if k == 1 and stride == 1:
            continue
        places, before = _count(y.shape[axis], k, stride, step), (_slice(None),) * axis
        parts = [y[before + (_slice(i * step, i * step + max((places - 1) * stride + 1, 0), stride),)] if places
                 else y[before + (_slice(0, 0),)] for i in range(k)]
        y = parts[0] if k == 1 else ufunc(parts[0], parts[1])
        for part in parts[2:]:
            ufunc(y, part, out=y)
    return y.astype(x.dtype)


def _lowest(dtype):
    if dtype.kind in "fV":
        return -np.inf
    return np.iinfo(dtype).min


def _highest(dtype):
    if dtype.kind in "fV":
        return np.inf
    return np.iinfo(dtype).max


def reduce_window_sum(x, *, size, strides, padding, base_dilation, window_dilation):
    return _reduce_window(np.add, x, 0, size, strides, padding, base_dilation, window_dilation)


def reduce_window_prod(x, *, size, strides, padding, base_dilation, window_dilation):
    return _reduce_window(np.multiply, x, 1, size, strides, padding, base_dilation, window_dilation)


def reduce_window_max(x, *, size, strides, padding, base_dilation, window_dilation):
    return _reduce_window(np.maximum, x, _lowest(x.dtype), size, strides, padding, base_dilation, window_dilation)


def reduce_window_min(x, *, size, strides, padding, base_dilation, window_dilation):
    return _reduce_window(np.minimum, x, _highest(x.dtype), size, strides, padding, base_dilation, window_dilation)


def _selected(x, largest, size, strides, padding, base_dilation, window_dilation):
    """The flat index of the first extreme in each window, -1 for an empty one; NaN is the largest."""
    values = _padded(_wide(x), 0, padding, base_dilation)
    places = _padded(np.arange(x.size).reshape(x.shape), -1, padding, base_dilation)
    counts = tuple(map(_count, values.shape, size, strides, window_dilation))
    best, at = np.zeros(counts, values.dtype), np.full(counts, -1)
    for offset in itertools.product(*map(range, size)):
        part = tuple(_slice(o * d, o * d + max((n - 1) * s + 1, 0), s)
                     for o, d, n, s in zip(offset, window_dilation, counts, strides))
        value, place = (values[part], places[part]) if best.size else (best, at)
        if largest:
            better = (value > best) | (value != value) & (best == best)
        else:
            better = (value < best) | (best != best) & (value == value)
        better = (place >= 0) & (better | (at < 0))
        best, at = np.where(better, value, best), np.where(better, place, at)
    return at


def _window_scatter(x, y, largest, *window):
    at = _selected(x, largest, *window)
    out = np.zeros(x.size, _F32 if _is_half(x.dtype) else x.dtype)
    np.add.at(out, at[at >= 0], _wide(y)[at >= 0])
    return out.reshape(x.shape).astype(x.dtype)


def _window_gather(x, y, largest, *window):
    at = _selected(x, largest, *window)
    return np.where(at >= 0, y.reshape(-1)[at], y.dtype.type(0)) if y.size else np.zeros(at.shape, y.dtype)


def window_scatter_max(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_scatter(x, y, True, size, strides, padding, base_dilation, window_dilation)


def window_scatter_min(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_scatter(x, y, False, size, strides, padding, base_dilation, window_dilation)


def window_gather_max(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_gather(x, y, True, size, strides, padding, base_dilation, window_dilation)


def window_gather_min(x, y, *, size, strides, padding, base_dilation, window_dilation):
    return _window_gather(x, y, False, size, strides, padding, base_dilation, window_dilation)


def fft(x, *, axes, length):
    return np.fft.fftn(x, axes=axes)


def ifft(x, *, axes, length):
    return np.fft.ifftn(x, axes=axes)


def rfft(x, *, axes, length):
    return np.fft.rfftn(x, axes=axes)


def irfft(x, *, axes, length):
    return np.fft.irfftn(x, tuple(x.shape[a] for a in axes[:-1]) + (length,), axes)


def _adjoint(x):
    return np.conjugate(x.swapaxes(-1, -2))


def cholesky(x, *, upper):
    try:
        factor = np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise ValueError("cholesky: the matrix is not positive definite") from None
    return _adjoint(factor) if upper else factor


def qr(x, *, complete):
    return tuple(np.linalg.qr(x, "complete" if complete else "reduced"))


def svd(x, *, complete, vectors):
    return tuple(np.linalg.svd(x, complete)) if vectors else np.linalg.svd(x, compute_uv=False)


def eigh(x, *, vectors):
    return tuple(np.linalg.eigh(x)) if vectors else np.linalg.eigvalsh(x)


def eig(x, *, vectors):
    dtype = np.result_type(x.dtype, np.complex64)
    if not vectors:
        return np.linalg.eigvals(x).astype(dtype)
    w, v = np.linalg.eig(x)
    return w.astype(dtype), v.astype(dtype)


lu, triangular_solve, random_bits = special.lu, special.triangular_solve, special.random_bits


def _in_f32(f):
    """f with half precision computed in f32 and rounded once."""
    @functools.wraps(f)
    def wide(x, *more, **parameters):
        if _is_half(x.dtype):
            return f(x.astype(_F32), *map(_wide, more), **parameters).astype(x.dtype)
        return f(x, *more, **parameters)
    return wide


def relu(x):
    return np.maximum(x, 0)


@_in_f32
def leaky_relu(x, *, negative_slope):
    return np.where(x > 0, x, x * negative_slope)


@_in_f32
def elu(x, *, alpha):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)) * alpha)


@_in_f32
def sigmoid(x):
    # Neither end overflows, and the left one keeps its digits.
    return np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.absolute(x)))


@_in_f32
def silu(x):
    return x * (np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.absolute(x))))


@_in_f32
def log_sigmoid(x):
    return -np.logaddexp(-x, 0)


@_in_f32
def softplus(x):
    return np.logaddexp(x, 0)


@_in_f32
def mish(x):
    return x * np.tanh(np.logaddexp(x, 0))


@_in_f32
def gelu(x, *, approximate):
    if approximate:
        return x * 0.5 * (np.tanh((x + x * x * x * 0.044715) * math.sqrt(2 / math.pi)) + 1)
    return x * 0.5 * special.erfc(x * -math.sqrt(0.5))


def _shifted(x, axes):
    """x minus its largest element; an infinite one stays, since inf - inf would be NaN."""
    top = _reduce_maximum(x, axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isinf(top), x.dtype.type(0), top)
    return x - top, top


@_in_f32
def softmax(x, *, axis):
    if not x.shape[axis]:
        return x
    e = np.exp(np.subtract(x, _reduce_maximum(x, axis, keepdims=True)))
    return np.divide(e, _reduce_add(e, axis, keepdims=True))


@_in_f32
def log_softmax(x, *, axis):
    x = x - _reduce_maximum(x, axis, keepdims=True, initial=-np.inf)
    return x - np.log(_reduce_add(np.exp(x), axis, keepdims=True))


@_in_f32
def logsumexp(x, *, axes):
    x, top = _shifted(x, axes)
    with np.errstate(divide="ignore"):
        return (np.log(_reduce_add(np.exp(x), axes, keepdims=True)) + top).squeeze(axes)


def cross_entropy(logits, labels):
    log = log_softmax(logits, axis=logits.ndim - 1)
    return np.negative(np.take_along_axis(log, _as_index(labels)[..., None], -1)[..., 0])


def _number(x, axes):
    return math.prod([x.shape[a] for a in axes])


@_in_f32
def mean(x, *, axes):
    return np.divide(_reduce_add(x, axes), x.real.dtype.type(_number(x, axes)))


@_in_f32
def var(x, *, axes, correction):
    n = x.real.dtype.type(_number(x, axes))
    off = x - _reduce_add(x, axes, keepdims=True) / n
    squares = np.square(off) if x.dtype.kind == "f" else np.square(off.real) + np.square(off.imag)
    return np.divide(_reduce_add(squares, axes), n.dtype.type(max(n - correction, 0)))


@_in_f32
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    axes = tuple(range(axis, x.ndim))
    n = _number(x, axes)
    off = x - _reduce_add(x, axes, keepdims=True) / n
    y = off / np.sqrt(_reduce_add(np.square(off), axes, keepdims=True) / n + epsilon)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


@_in_f32
def rms_norm(x, scale=None, *, axis, epsilon):
    axes = tuple(range(axis, x.ndim))
    y = x / np.sqrt(_reduce_add(np.square(x), axes, keepdims=True) / _number(x, axes) + epsilon)
    return y if scale is None else y * scale


@_in_f32
def linear(x, w, b=None):
    return np.matmul(x, w.T) if b is None else np.matmul(x, w.T) + b


def embedding(table, indices):
    return table.take(_as_index(indices), 0)


def one_hot(indices, *, depth, dtype):
    return np.equal(indices[..., None], np.arange(depth)).astype(dtype)


@_in_f32
def attention(q, k, v, mask=None, *, scale, causal):
    scores, keep = np.matmul(q * scale, k.swapaxes(-1, -2)), None
    if mask is not None and mask.dtype.kind == "b":
        keep = mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        keep = np.tri(*scores.shape[-2:], dtype=np.bool_) & (True if keep is None else keep)
    if keep is None:
        return np.matmul(softmax(scores, axis=scores.ndim - 1), v)
    e = np.where(keep, np.exp(_shifted(np.where(keep, scores, -np.inf), -1)[0]), 0)
    total = _reduce_add(e, -1, keepdims=True)
    # A fully masked row gives zeros.
    return np.matmul((e / np.where(total == 0, 1, total)).astype(v.dtype), v)


def max_pool(x, *, size, strides, padding, dilation):
    return _reduce_window(np.maximum, x, _lowest(x.dtype), size, strides, padding, (1,) * x.ndim, dilation)


@_in_f32
def avg_pool(x, *, size, strides, padding, dilation, count_padding):
    window = size, strides, padding, (1,) * x.ndim, dilation
    total = _reduce_window(np.add, x, 0, *window)
    if count_padding:
        return total / x.real.dtype.type(math.prod(size))
    return total / _reduce_window(np.add, np.ones_like(x), 0, *window)


def solve(a, b):
    if b.ndim + 1 == a.ndim:
        return solve(a, b[..., None])[..., 0]
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        # A singular matrix is no error: the division by zero shows it.
        factors, _, order = lu(a)
        y = np.take_along_axis(b, order[..., None].astype(_I64), -2)
        y = triangular_solve(factors, y, left=True, lower=True, transpose="no", unit_diagonal=True)
        return triangular_solve(factors, y, left=True, lower=False, transpose="no", unit_diagonal=False)


def inv(x):
    return solve(x, np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape))


det = np.linalg.det
