"""Every op in torch; differentiable by autograd, and compatible with torch.compile and torch.func.vmap.

Ops that torch lacks for all or some dtypes are implemented in torch_special.
"""
import ctypes
import functools
import math
import operator

import torch
import torch.nn.functional as F

from clematis._dialects import torch_arithmetic as arithmetic, torch_fast_path, torch_special as special

_SIGNED, _HALF = special.SIGNED, special.HALF
_INEXACT = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128})
_COUNTED, _WIDE = frozenset({torch.bool, *_SIGNED}), frozenset({torch.float32, torch.float64})
# How sums of these are made: torch has none of wide unsigned integers, and multiplies complex operands by 1 + 0i, which
# makes NaN of infinite parts.
_POOR = {dtype: special.wrapping for dtype in _SIGNED}
_POOR[torch.complex64] = _POOR[torch.complex128] = special.by_parts
_slice = slice

FAST_PATHS, LAZY, REFUSALS = torch_fast_path.FAST_PATHS, torch_fast_path.LAZY, torch_fast_path.REFUSALS
VERSION = torch.__version__
DTYPES = {
    "bool": torch.bool, "u8": torch.uint8, "u16": torch.uint16, "u32": torch.uint32, "u64": torch.uint64,
    "i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64, "f16": torch.float16,
    "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64, "c64": torch.complex64,
    "c128": torch.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
ARRAYS = (torch.Tensor,)
NUMBERS = frozenset({
    "add", "sub", "mul", "div", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "floor_divide",
    "pad",
})


def from_bytes(buffer, dtype_name, shape):
    return special.from_bytes(buffer, DTYPES[dtype_name], shape)


def to_bytes(x):
    x = exported(x).cpu().contiguous()
    return ctypes.string_at(x.data_ptr(), x.numel() * x.element_size())


def device(x):
    return "cpu" if x.device.type == "cpu" else f"gpu:{x.device.index or 0}"


from_dlpack, assign, is_traced, exported = torch.from_dlpack, torch_fast_path.assign, special.is_traced, torch_fast_path.exported
custom_vjp, variable_like, size = special.custom_vjp, special.variable_like, special.size
run_cond, run_while, run_scan = special.run_cond, special.run_while, special.run_scan


def to_dlpack(x):
    return exported(x).__dlpack__()


positive, reciprocal, sqrt = torch.positive, torch.reciprocal, torch.sqrt
exp, exp2, expm1, log, log2, log10, log1p = (
    torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log10, torch.log1p)
sin, cos, tan, asin, acos, atan = torch.sin, torch.cos, torch.tan, torch.asin, special.acos, torch.atan
sinh, cosh, tanh, asinh, acosh, atanh = torch.sinh, torch.cosh, arithmetic.tanh, torch.asinh, torch.acosh, torch.atanh
erfc, erfinv, lgamma, digamma = arithmetic.erfc, torch.erfinv, torch.lgamma, torch.digamma
floor, ceil, trunc, real, conj = torch.floor, torch.ceil, torch.trunc, torch.real, torch.conj_physical
isnan, isinf, isfinite, signbit = torch.isnan, torch.isinf, torch.isfinite, torch.signbit


def neg(x):
    if x.dtype in _SIGNED:
        return special.wrapping(torch.neg, x)
    # torch makes 0 of a complex 0, not -0.
    return special.by_parts(torch.neg, x) if x.dtype.is_complex else -x


def abs(x):
    return torch.abs(x) if x.dtype not in _SIGNED else x


def sign(x):
    if x.dtype in _SIGNED:
        return (x != 0).to(x.dtype)
    if x.dtype.is_floating_point:
        # torch gives 0 for NaN.
        return torch.where(x != x, x, torch.sign(x))
    return torch.sgn(x)


def square(x):
    return x * x


def rsqrt(x):
    # f16 is rounded twice by torch itself.
    return torch.rsqrt(x.float()).to(x.dtype) if x.dtype in _HALF else torch.rsqrt(x)


def erf(x):
    # For half precision torch has a polynomial that is off near 0.
    return torch.erf(x.float()).to(x.dtype) if x.dtype in _HALF else torch.erf(x)


def cbrt(x):
    if x.dtype in _HALF:
        return cbrt(x.float()).to(x.dtype)
    # torch has none: a power of the size, mended by one of Newton's steps; zeros and infinities pass by.
    size = torch.abs(x)
    plain = (size > 0) & (size < torch.inf)
    size = torch.where(plain, size, 1.0)
    root = torch.pow(size, 1 / 3)
    root = root - (root - size / (root * root)) / 3
    return torch.where(plain, torch.copysign(root, x), x)


def round(x):
    return torch.complex(torch.round(x.real), torch.round(x.imag)) if x.dtype.is_complex else torch.round(x)


def imag(x):
    return torch.imag(x) if x.dtype.is_complex else torch.zeros_like(x)


def bitwise_not(x):
    return torch.bitwise_not(x) if x.dtype not in _SIGNED else special.wrapping(torch.bitwise_not, x)


def logical_not(x):
    return torch.logical_not(x) if x.dtype not in _SIGNED else x == 0


mul, equal, not_equal = operator.mul, operator.eq, operator.ne
hypot, copysign, nextafter, logaddexp = torch.hypot, torch.copysign, torch.nextafter, torch.logaddexp
polygamma = special.polygamma
atan2, complex, bitwise_and, bitwise_or, bitwise_xor = (
    torch.atan2, torch.complex, torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor)
select = torch.where


def _unsigned(x, y):
    """Whether torch has no arithmetic for them; one may be a number."""
    try:
        return x.dtype in _SIGNED
    except AttributeError:
        return y.dtype in _SIGNED


def add(x, y):
    try:
        poor = _POOR.get(x.dtype)
    except AttributeError:
        poor = _POOR.get(y.dtype)
    return x + y if poor is None else poor(operator.add, x, y)


def sub(x, y):
    try:
        poor = _POOR.get(x.dtype)
    except AttributeError:
        poor = _POOR.get(y.dtype)
    return x - y if poor is None else poor(operator.sub, x, y)


def div(x, y):
    # torch multiplies a number by the reciprocal, which rounds twice.
    return x / y if isinstance(x, torch.Tensor) else y.new_full((), x) / y


def maximum(x, y):
    # Of equal ones (0 and -0) x: torch's vector loops take the second, those of half precision the first.
    return torch.maximum(x, y) if x.dtype in _HALF else torch.maximum(y, x)


def minimum(x, y):
    return torch.minimum(x, y) if x.dtype in _HALF else torch.minimum(y, x)


def floor_divide(x, y):
    dtype = (x if isinstance(x, torch.Tensor) else y).dtype
    if dtype in _HALF:
        return floor_divide(*(v.float() if isinstance(v, torch.Tensor) else v for v in (x, y))).to(dtype)
    return x // y if dtype.is_floating_point else special.integer_division(x, y, "floor_divide")


def remainder(x, y):
    if not x.dtype.is_floating_point:
        return special.integer_division(x, y, "remainder")
    out = special.float_fmod(x, y)
    out = torch.where((out != 0) & ((out < 0) != (y < 0)), out + y, out)
    # A zero has y's sign.
    return torch.where(out == 0, torch.copysign(out, y), out)


def fmod(x, y):
    return special.float_fmod(x, y) if x.dtype.is_floating_point else special.integer_division(x, y, "fmod")


def pow(x, y):
    if x.dtype.is_complex:
        return special.complex_power(x, y)
    return special.integer_power(x, y) if x.dtype in _SIGNED else torch.pow(x, y)


def shift_left(x, y):
    return torch.bitwise_left_shift(x, y) if x.dtype not in _SIGNED else special.unsigned_shift_left(x, y)


def shift_right(x, y):
    if x.dtype in _SIGNED:
        return special.unsigned_shift_right(x, y)
    return torch.where(y < 0, torch.zeros_like(x), torch.bitwise_right_shift(x, y))


def logical_and(x, y):
    return torch.logical_and(x != 0, y != 0) if x.dtype in _SIGNED else torch.logical_and(x, y)


def logical_or(x, y):
    return torch.logical_or(x != 0, y != 0) if x.dtype in _SIGNED else torch.logical_or(x, y)


def logical_xor(x, y):
    return torch.logical_xor(x != 0, y != 0) if x.dtype in _SIGNED else torch.logical_xor(x, y)


def less(x, y):
    return special.ordered(operator.lt, x, y) if _unsigned(x, y) else x < y


def less_equal(x, y):
    return special.ordered(operator.le, x, y) if _unsigned(x, y) else x <= y


def greater(x, y):
    return special.ordered(operator.gt, x, y) if _unsigned(x, y) else x > y


def greater_equal(x, y):
    return special.ordered(operator.ge, x, y) if _unsigned(x, y) else x >= y


def clamp(low, x, high):
    return minimum(maximum(x, low), high)


def stop_gradient(x):
    return x.detach()


def cast(x, *, dtype):
    if dtype in _WIDE and not x.dtype.is_complex:
        return x.to(dtype)
    if x.dtype.is_complex and not dtype.is_complex:
        x = x != 0 if dtype is torch.bool else x.real
    if x.dtype.is_floating_point and not dtype.is_floating_point and not dtype.is_complex and dtype is not torch.bool:
        return special.saturated(x, dtype)
    if dtype in _HALF and x.dtype.itemsize == 8:
        return special.narrowed(x.double(), dtype)
    return x.to(dtype)


def bitcast(x, *, dtype):
    return x != 0 if dtype is torch.bool else x.view(dtype)


def full(*, value, dtype, shape):
    if dtype in _SIGNED:
        return torch.full(shape, special.bits(value, _SIGNED[dtype]), dtype=_SIGNED[dtype]).view(dtype)
    return torch.full(shape, value, dtype=dtype)


def iota(*, axis, dtype, shape):
    line = torch.arange(shape[axis]).to(dtype).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return line.expand(shape).contiguous()


reshape = torch.reshape


def transpose(x, *, axes):
    return torch.permute(x, axes)


@functools.lru_cache(4096)
def _spread(sizes, rank, axes):
    dims = [1] * rank
    for axis, n in zip(axes, sizes):
        dims[axis] = n
    return None if axes == tuple(range(rank - len(sizes), rank)) else tuple(dims)


def broadcast(x, *, shape, axes):
    dims = _spread(x.shape, len(shape), axes)
    return x.expand(shape) if dims is None else torch.reshape(x, dims).expand(shape)


@functools.lru_cache(4096)
def _slices(start, limit, strides):
    return tuple(map(_slice, start, limit, strides))


def slice(x, *, start, limit, strides):
    return x[_slices(start, limit, strides)]


def pad(x, value, *, low, high, interior):
    if x.dtype in _INEXACT and not isinstance(value, torch.Tensor):
        return special.padded(x, value, low, high, interior)
    inside = special.padded(torch.ones(x.shape, dtype=torch.bool, device=x.device), False, low, high, interior)
    return torch.where(inside, special.padded(x, 0, low, high, interior), value)


def concat(*xs, axis):
    return torch.cat(xs, axis)


def reverse(x, *, axes):
    return torch.flip(x, axes)


def _lines(start, shape, sizes):
    """For each axis the indices of a block whose start is clamped."""
    start = special.as_index(start)
    firsts = [start[a].clamp(0, n - k) for a, (n, k) in enumerate(zip(shape, sizes))]
    return [torch.arange(k, device=start.device) + first for k, first in zip(sizes, firsts)]


def dynamic_slice(x, start, *, sizes):
    for axis, line in enumerate(_lines(start, x.shape, sizes)):
        if sizes[axis] != x.shape[axis]:
            x = x.index_select(axis, line)
    return x


def dynamic_update_slice(x, update, start):
    if 0 in update.shape:
        return x
    if not x.ndim:
        return update
    if x.dtype in _SIGNED:
        return dynamic_update_slice(x.view(_SIGNED[x.dtype]), update.view(_SIGNED[x.dtype]), start).view(x.dtype)
    lines = _lines(start, x.shape, update.shape)
    return x.index_put(tuple(line.reshape((-1,) + (1,) * (x.ndim - a - 1)) for a, line in enumerate(lines)), update)


gather, nonzero = special.gather, special.nonzero


def scatter(x, indices, updates, **places):
    return special.scatter_flat(special.write_last, None, x, indices, updates, **places)


def scatter_add(x, indices, updates, **places):
    if x.dtype is torch.bool:
        return scatter_max(x, indices, updates, **places)
    if x.dtype in _SIGNED:
        return scatter_add(x.view(_SIGNED[x.dtype]), indices, updates.view(_SIGNED[x.dtype]), **places).view(x.dtype)
    if x.dtype in _HALF:
        return scatter_add(x.float(), indices, updates.float(), **places).to(x.dtype)
    return special.scatter_flat(special.write_add, 0, x, indices, updates, **places)


def scatter_mul(x, indices, updates, **places):
    if x.dtype is torch.bool:
        return scatter_min(x, indices, updates, **places)
    if x.dtype in _SIGNED:
        return scatter_mul(x.view(_SIGNED[x.dtype]), indices, updates.view(_SIGNED[x.dtype]), **places).view(x.dtype)
    if x.dtype in _HALF:
        return scatter_mul(x.float(), indices, updates.float(), **places).to(x.dtype)
    return special.scatter_flat(special.write_mul, 1, x, indices, updates, **places)


def scatter_min(x, indices, updates, **places):
    if x.dtype in _COUNTED:
        return special.scatter_in_order(scatter_min, x, indices, updates, **places)
    return special.scatter_flat(special.write_min, special.extremes(x.dtype)[1], x, indices, updates, **places)


def scatter_max(x, indices, updates, **places):
    if x.dtype in _COUNTED:
        return special.scatter_in_order(scatter_max, x, indices, updates, **places)
    return special.scatter_flat(special.write_max, special.extremes(x.dtype)[0], x, indices, updates, **places)


def searchsorted(sorted, values, *, right):
    # By keys, since torch takes NaN for less than nothing.
    return torch.searchsorted(special.key(sorted).contiguous(), special.key(values).contiguous(), right=right)


def reduce_sum(x, *, axes):
    # To torch no axes are all axes.
    if not axes:
        return x
    if x.dtype in _INEXACT:
        return torch.sum(x, axes)
    if x.dtype in _SIGNED:
        return special.wrapping(torch.sum, x, dim=axes, dtype=_SIGNED[x.dtype])
    return torch.sum(x, axes, dtype=x.dtype)


def reduce_prod(x, *, axes):
    if not axes:
        return x
    if x.dtype in _SIGNED:
        return reduce_prod(x.view(_SIGNED[x.dtype]), axes=axes).view(x.dtype)
    if x.dtype in _HALF:
        return reduce_prod(x.float(), axes=axes).to(x.dtype)
    if len(axes) > 1:
        kept = tuple(a for a in range(x.ndim) if a not in axes)
        x, axes = x.permute(kept + axes).flatten(len(kept)), (len(kept),)
    return torch.prod(x, axes[0], dtype=x.dtype)


def reduce_max(x, *, axes):
    if not axes:
        return x
    return torch.amax(x, axes) if x.dtype not in _SIGNED else special.keep_order(torch.amax, x, dim=axes)


def reduce_min(x, *, axes):
    if not axes:
        return x
    return torch.amin(x, axes) if x.dtype not in _SIGNED else special.keep_order(torch.amin, x, dim=axes)


def reduce_any(x, *, axes):
    return torch.any(x, axes) if axes else x


def reduce_all(x, *, axes):
    return torch.all(x, axes) if axes else x


def _comparable(x):
    """What torch can compare: booleans as bytes, unsigned integers with their sign bit flipped."""
    return x.to(torch.uint8) if x.dtype is torch.bool else special.risen(x) if x.dtype in _SIGNED else x


def argmax(x, *, axis):
    return torch.argmax(_comparable(x), axis)


def argmin(x, *, axis):
    return torch.argmin(_comparable(x), axis)


def _running(f, x, axis, reverse):
    if reverse:
        return torch.flip(f(torch.flip(x, (axis,)), axis), (axis,))
    return f(x, axis)


def cumulative_sum(x, *, axis, reverse):
    if x.dtype in _SIGNED:
        return cumulative_sum(x.view(_SIGNED[x.dtype]), axis=axis, reverse=reverse).view(x.dtype)
    wide = torch.float32 if x.dtype in _HALF else x.dtype
    return _running(functools.partial(torch.cumsum, dtype=wide), x, axis, reverse).to(x.dtype)


def cumulative_prod(x, *, axis, reverse):
    if x.dtype in _SIGNED:
        return cumulative_prod(x.view(_SIGNED[x.dtype]), axis=axis, reverse=reverse).view(x.dtype)
    wide = torch.float32 if x.dtype in _HALF else x.dtype
    return _running(functools.partial(torch.cumprod, dtype=wide), x, axis, reverse).to(x.dtype)


def cumulative_max(x, *, axis, reverse):
    if x.dtype in _SIGNED:
        return special.keep_order(cumulative_max, x, axis=axis, reverse=reverse)
    return _running(lambda x, axis: torch.cummax(x, axis)[0], x, axis, reverse)


def cumulative_min(x, *, axis, reverse):
    if x.dtype in _SIGNED:
        return special.keep_order(cumulative_min, x, axis=axis, reverse=reverse)
    return _running(lambda x, axis: torch.cummin(x, axis)[0], x, axis, reverse)


def cumulative_logsumexp(x, *, axis, reverse):
    if x.dtype in _HALF:
        return cumulative_logsumexp(x.float(), axis=axis, reverse=reverse).to(x.dtype)
    return _running(torch.logcumsumexp, x, axis, reverse)


def sort(*xs, axis, keys, descending, stable):
    x = xs[0]
    if len(xs) == 1 and not descending and x.dtype not in _SIGNED:
        return torch.sort(x, dim=axis, stable=True)[0]
    order = None
    # From the last key to the first: each sort keeps what the one before has done.
    for x in reversed(xs[:keys]):
        key = special.key(x, descending)
        if order is None:
            order = torch.argsort(key, dim=axis, stable=True)
        else:
            order = order.gather(axis, torch.argsort(key.gather(axis, order), dim=axis, stable=True))
    out = tuple(x.gather(axis, order) for x in xs)
    return out if len(out) > 1 else out[0]


def top_k(x, *, k):
    order = special.falling(x)[..., :k]
    return x.gather(-1, order), order


def dot_general(x, y, *, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    if x.dtype in _COUNTED:
        return _exact(dot_general, x, y, lhs_batch=lhs_batch, rhs_batch=rhs_batch,
                      lhs_contract=lhs_contract, rhs_contract=rhs_contract)
    if lhs_contract == (1,) and not lhs_batch and x.ndim == 2 and y.ndim == 2:
        return special.product(x, y if rhs_contract == (0,) else y.t())
    if len(lhs_contract) > 1:
        lhs_contract, rhs_contract = special.along_memory(x, y, lhs_contract, rhs_contract)
    left, right, out = special.dot_plan(x.shape, y.shape, lhs_batch, rhs_batch, lhs_contract, rhs_contract)
    x, y = special.as_matrices(x, *left), special.as_matrices(y, *right)
    product = torch.bmm(x, y) if lhs_batch else special.product(x, y)
    return product if out is None else torch.reshape(product, out)


def _exact(f, x, y, **parameters):
    """Sums of products of unsigned integers by their bits, of booleans by counting."""
    if x.dtype is torch.bool:
        return f(x.to(torch.int32), y.to(torch.int32), **parameters) != 0
    return f(x.view(_SIGNED[x.dtype]), y.view(_SIGNED[x.dtype]), **parameters).view(x.dtype)


_CONV_TRANSPOSE = {1: torch.conv_transpose1d, 2: torch.conv_transpose2d, 3: torch.conv_transpose3d}


def _turn(layout):
    return None if layout == tuple(range(len(layout))) else layout


@functools.lru_cache(4096)
def _conv_plan(sizes, kernel, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout, groups):
    """Permutations of operands and result (None for none), symmetric padding or explicit pads and dilation, positions."""
    size, taps = [sizes[a] for a in lhs_layout], [kernel[a] for a in rhs_layout]
    low, high = tuple([p[0] for p in padding]), tuple([p[1] for p in padding])
    gaps, sides, pads = tuple([d - 1 for d in lhs_dilation]), low, None
    if low != high or any(gaps) or any([p < 0 for p in low]):
        sides, pads = (0,) * len(low), ((0, 0) + low, (0, 0) + high, (0, 0) + gaps)
    reach = [n + max(n - 1, 0) * g + lo + hi for n, g, lo, hi in zip(size[2:], gaps, low, high)]
    places = tuple([special.count(*w) for w in zip(reach, taps[2:], strides, rhs_dilation)])
    back = tuple([out_layout.index(a) for a in range(len(out_layout))])
    whole = (size[0] // groups, taps[0]) + places
    empty = tuple([whole[a] for a in back]) if 0 in places or 0 in size or 0 in taps else None
    return _turn(lhs_layout), _turn(rhs_layout), _turn(back), sides, pads, places, empty


def conv_general(x, w, *, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout,
                 feature_groups, batch_groups):
    if x.dtype in _COUNTED:
        return _exact(conv_general, x, w, strides=strides, padding=padding, lhs_dilation=lhs_dilation,
                      rhs_dilation=rhs_dilation, lhs_layout=lhs_layout, rhs_layout=rhs_layout, out_layout=out_layout,
                      feature_groups=feature_groups, batch_groups=batch_groups)
    turn, other_turn, back, sides, pads, places, empty = _conv_plan(
        x.shape, w.shape, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout,
        batch_groups)
    if empty is not None:
        return x.new_zeros(empty)
    x = x if turn is None else torch.permute(x, turn)
    w = w if other_turn is None else torch.permute(w, other_turn)
    if batch_groups > 1:
        # Rows of a batch group become features of a feature group.
        x = x.unflatten(0, (batch_groups, x.shape[0] // batch_groups)).transpose(0, 1).flatten(1, 2)
    x = x if pads is None else special.padded(x, 0, *pads)
    spatial, groups = len(strides), max(feature_groups, batch_groups)
    if x.dtype not in _INEXACT:
        # Integers have no dilated convolution: the filter gets gaps of zeros.
        w, rhs_dilation = special.padded(w, 0, (), (), (0, 0) + tuple(d - 1 for d in rhs_dilation)), (1,) * spatial
    out = special.conv(x, w, strides, sides, rhs_dilation, groups, places)
    return out if back is None else torch.permute(out, back)


reduce_window_sum, reduce_window_prod = special.reduce_window_sum, special.reduce_window_prod
reduce_window_max, reduce_window_min = special.reduce_window_max, special.reduce_window_min
window_scatter_max, window_scatter_min = special.window_scatter_max, special.window_scatter_min
window_gather_max, window_gather_min = special.window_gather_max, special.window_gather_min


def fft(x, *, axes, length):
    return torch.fft.fftn(x, dim=axes)


def ifft(x, *, axes, length):
    return torch.fft.ifftn(x, dim=axes)


rfft = special.rfft


def irfft(x, *, axes, length):
    return torch.fft.irfftn(x, tuple(x.shape[a] for a in axes[:-1]) + (length,), axes)


def cholesky(x, *, upper):
    try:
        factor = torch.linalg.cholesky(x)
    except torch.linalg.LinAlgError:
        raise ValueError("cholesky: the matrix is not positive definite") from None
    return factor.mH if upper else factor


def qr(x, *, complete):
    return tuple(torch.linalg.qr(x, "complete" if complete else "reduced"))


def svd(x, *, complete, vectors):
    return tuple(torch.linalg.svd(x, complete)) if vectors else torch.linalg.svdvals(x)


def eigh(x, *, vectors):
    return tuple(torch.linalg.eigh(x)) if vectors else torch.linalg.eigvalsh(x)


def eig(x, *, vectors):
    return tuple(torch.linalg.eig(x)) if vectors else torch.linalg.eigvals(x)


def lu(x):
    m, n = x.shape[-2:]
    if 0 in x.shape:
        order = torch.arange(m, dtype=torch.int32, device=x.device).expand(x.shape[:-1])
        return x, order.new_zeros(x.shape[:-2] + (min(m, n),)), order
    factors, pivots, _ = torch.linalg.lu_factor_ex(x)
    order = torch.lu_unpack(factors, pivots, unpack_data=False)[0]
    # Column i of the permutation has its 1 in the row that comes to place i.
    return factors, pivots - 1, torch.argmax(order.real, -2).to(torch.int32)


def triangular_solve(a, b, *, left, lower, transpose, unit_diagonal):
    if transpose != "no":
        a, lower = a.mH if transpose == "adjoint" else a.mT, not lower
    return torch.linalg.solve_triangular(a, b, upper=not lower, left=left, unitriangular=unit_diagonal)


random_bits = special.random_bits


def relu(x):
    return torch.relu(x) if x.dtype not in _SIGNED else x


def leaky_relu(x, *, negative_slope):
    return F.leaky_relu(x, negative_slope)


def elu(x, *, alpha):
    return F.elu(x, alpha)


selu, sigmoid, log_sigmoid, silu, mish = F.selu, torch.sigmoid, F.logsigmoid, F.silu, F.mish
hard_sigmoid, hard_swish, gelu = F.hardsigmoid, F.hardswish, special.gelu


def softplus(x):
    # Beyond 40 the difference to x is below the last digit of f64; torch's own 20 is not.
    return F.softplus(x, threshold=40)


def softmax(x, *, axis):
    return torch.softmax(x, axis)


def log_softmax(x, *, axis):
    return torch.log_softmax(x, axis)


def logsumexp(x, *, axes):
    return torch.logsumexp(x, axes) if axes else NotImplemented


def cross_entropy(logits, labels):
    labels = special.as_index(labels)
    labels = torch.where(labels < 0, labels + logits.shape[-1], labels)
    return -torch.log_softmax(logits, -1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)


def mean(x, *, axes):
    return x.mean(axes) if axes else NotImplemented


def var(x, *, axes, correction):
    return torch.var(x, axes, correction=correction) if axes else NotImplemented


def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    shape = x.shape[axis:]
    if scale is not None and scale.shape != shape or bias is not None and bias.shape != shape:
        return NotImplemented
    if x.dtype in _HALF and math.prod(shape) == 1:
        # torch leaves some 1e-7 where x minus its mean is 0.
        return NotImplemented
    return F.layer_norm(x, shape, scale, bias, epsilon)


def rms_norm(x, scale=None, *, axis, epsilon):
    if scale is not None and scale.shape != x.shape[axis:]:
        return NotImplemented
    return F.rms_norm(x, x.shape[axis:], scale, epsilon)


def group_norm(x, scale=None, bias=None, *, axis, groups, epsilon):
    return F.group_norm(x, groups, scale, bias, epsilon) if axis == 1 else NotImplemented


def batch_norm(x, mean, variance, scale=None, bias=None, *, axis, epsilon):
    # torch's own has no derivative by the statistics.
    plain = axis == 1 and not mean.requires_grad and not variance.requires_grad
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon) if plain else NotImplemented


def linear(x, w, b=None):
    return F.linear(x, w, b) if x.dtype in _INEXACT else NotImplemented


def embedding(table, indices):
    # A flat index: torch would read the value of a 0-d one.
    return table[special.as_index(indices).reshape(-1)].reshape(indices.shape + table.shape[1:])


def one_hot(indices, *, depth, dtype):
    return (special.as_index(indices).unsqueeze(-1) == torch.arange(depth, device=indices.device)).to(dtype)


def attention(q, k, v, mask=None, *, scale, causal):
    if causal and mask is not None:
        lower = torch.ones((q.shape[-2], k.shape[-2]), dtype=torch.bool, device=q.device).tril()
        mask, causal = mask & lower if mask.dtype is torch.bool else torch.where(lower, mask, -math.inf), False
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        return NotImplemented  # the fused one has no second derivative
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale)


def conv_transpose(x, w, *, strides, padding, rhs_dilation, lhs_layout, rhs_layout, out_layout, feature_groups):
    spatial = len(strides)
    if spatial not in _CONV_TRANSPOSE or x.dtype not in _INEXACT or 0 in x.shape or 0 in w.shape:
        return NotImplemented
    out = _CONV_TRANSPOSE[spatial](
        x.permute(lhs_layout), w.permute(rhs_layout).contiguous(), None, strides, 0, 0, feature_groups, rhs_dilation)
    out = special.padded(out, 0, (0, 0) + tuple(-p[0] for p in padding), (0, 0) + tuple(-p[1] for p in padding), ())
    return out.permute(tuple(out_layout.index(a) for a in range(len(out_layout))))


def max_pool(x, *, size, strides, padding, dilation):
    return reduce_window_max(
        x, size=size, strides=strides, padding=padding, base_dilation=(1,) * x.ndim, window_dilation=dilation)


_AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def avg_pool(x, *, size, strides, padding, dilation, count_padding):
    """torch's own pool if supported: windows over up to three last axes, no dilation, symmetric and small padding."""
    first = next((a for a in range(x.ndim) if (size[a], strides[a], padding[a]) != (1, 1, (0, 0))), x.ndim)
    last, sides = x.ndim - first, tuple(p[0] for p in padding[first:])
    fits = all(lo == hi and 0 <= 2 * lo <= k for (lo, hi), k in zip(padding, size)) and all(d == 1 for d in dilation)
    if not 1 <= last <= 3 or not fits or not x.dtype.is_floating_point or 0 in x.shape:
        return NotImplemented
    # Over three axes torch counts no padding when it asks whether a window fits.
    if any(n + (2 * p if last < 3 else 0) < k for n, p, k in zip(x.shape[first:], sides, size[first:])):
        return NotImplemented
    flat = x.reshape((1, -1) + x.shape[first:])
    out = _AVG_POOL[last](flat, size[first:], strides[first:], sides, False, count_padding)
    return out.reshape(x.shape[:first] + out.shape[2:])


def einsum(*xs, equation):
    # Between three operands half precision would be rounded twice.
    if xs[0].dtype in _INEXACT and (len(xs) < 3 or xs[0].dtype not in _HALF):
        return torch.einsum(equation, *xs)
    return NotImplemented


def lstm_cell(x, h, c, wx, wh, b=None):
    # torch.lstm_cell cannot be vmapped, and has two biases.
    i, f, g, o = (F.linear(x, wx, b) + F.linear(h, wh)).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(x, h, wx, wh, bx=None, bh=None):
    if x.ndim != 2 or (bx is None) != (bh is None):
        return NotImplemented
    return torch.gru_cell(x, h, wx, wh, bx, bh)


def solve(a, b):
    return torch.linalg.solve_ex(a, b)[0]


def inv(x):
    return torch.linalg.inv_ex(x)[0]


det = torch.linalg.det
