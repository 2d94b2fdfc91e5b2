"""Casts, special functions, gathers, factorizations and random bits that NumPy lacks, vectorized.

The functions are computed in f64 and rounded once to the operand's dtype. The polynomials are Chebyshev fits of
erf(x)/x in x² on [0, 1] and of (1 + 2x) exp(x²) erfc(x) beyond 1, good to 1e-17.
"""
import functools
import math

import ml_dtypes
import numpy as np

_BF16 = np.dtype(ml_dtypes.bfloat16)
_F32, _F64, _I32, _I64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32), np.dtype(np.int64)
_QUIET = {"all": "ignore"}
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)

_ERF = (5.957176147748911e-11, -1.1372848856791674e-09, 1.4659775274047436e-08, -1.6350312701054695e-07,
        1.6461000484121368e-06, -1.4925595266831182e-05, 0.0001205533111164271, -0.000854832698083379,
        0.0052239776248180145, -0.026866170645076792, 0.11283791670954879, -0.3761263890318375, 1.1283791670955126)
_ERFCX = (4.781091850866363e-11, -2.3501355798423037e-10, -4.040404938939522e-10, 3.930860065080885e-09,
          -2.0784354909088768e-09, -3.957977580993702e-08, 1.1275320638057088e-07, 1.5536337903120124e-07,
          -1.8305874488851334e-06, 4.569417260126024e-06, 5.644301571303672e-06, -9.307738657616224e-05,
          0.00044424379564660387, -0.0014528467747865464, 0.0037118758020626514, -0.007689101031218332,
          0.012795709920882367, -0.01569572804491473, 0.008173063328825102, 0.024395630715254087,
          -0.10231459756603467, 1.2060953814069986)
# B₂ₖ / (2k (2k - 1)), B₂ₖ / 2k and B₂ₖ / (2k)!, from k = 1 on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
_STIRLING = tuple(b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(_BERNOULLI))
_PSI = tuple(b / (2 * k + 2) for k, b in enumerate(_BERNOULLI))
_ZETA = tuple(b / math.factorial(2 * k + 2) for k, b in enumerate(_BERNOULLI))
_FACTORIALS = np.array([math.factorial(n) for n in range(171)], _F64)
# Above this the asymptotic series are exact to the last digit.
_FAR = 8


def reciprocal(x):
    if x.dtype.kind != "c":
        return np.reciprocal(x)
    # Of a complex 0 numpy's own is NaN, unlike its quotient.
    with np.errstate(**_QUIET):
        return np.divide(1, x)


def rsqrt(x):
    return reciprocal(np.sqrt(x.astype(np.float32) if is_half(x.dtype) else x)).astype(x.dtype)


def _in_f64(f):
    """f on f64 arrays, for every float dtype."""
    @functools.wraps(f)
    def wide(x):
        x = np.asarray(x)
        with np.errstate(**_QUIET):
            return f(x if x.dtype == _F64 else x.astype(_F64)).astype(x.dtype)
    return wide


def _polynomial(coefficients, x):
    y = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        y *= x
        y += c
    return y


def _erf_inside(x):
    return x * _polynomial(_ERF, x * x)


def _erfc_outside(x):
    """erfc from 1 on."""
    t = (x - 4) / (x + 4)
    scaled = _polynomial(_ERFCX, np.where(x == np.inf, 1.0, (t + 0.6) / 0.8 - 1)) / (1 + 2 * x)
    # x² as two parts, since the exponential multiplies its error.
    high = (x * 134217729.0) - (x * 134217729.0 - x)
    low, square = x - high, x * x
    rest = ((high * high - square) + 2 * high * low) + low * low
    return np.where(x > 28, 0.0, np.exp(-square) * (1 - rest) * scaled)


def _erfc64(x):
    size = np.absolute(x)
    far = _erfc_outside(np.maximum(size, 1.0))
    far = np.where(x < 0, 2 - far, far)
    return np.where(size < 1, 1 - _erf_inside(np.where(size < 1, x, 0.0)), far)


def _erf64(x):
    size = np.absolute(x)
    far = np.copysign(1 - _erfc_outside(np.maximum(size, 1.0)), x)
    return np.where(size < 1, _erf_inside(np.where(size < 1, x, 0.0)), far)


def _of_few(small, large):
    """Python's own function on a few numbers, where calls cost more than arithmetic."""
    def f(x):
        x = np.asarray(x)
        if x.size > 256:
            return large(x)
        return np.array([small(v) for v in x.reshape(-1).tolist()], _F64).astype(x.dtype).reshape(x.shape)
    return f


erf, erfc = _of_few(math.erf, _in_f64(_erf64)), _of_few(math.erfc, _in_f64(_erfc64))


@_in_f64
def erfinv(y):
    size = np.absolute(y)
    # Winitzki's estimate has 3 digits; each of Halley's steps triples them.
    log = np.log1p(-y * y)
    a = 2 / (math.pi * 0.147) + log / 2
    x = np.sqrt(np.sqrt(a * a - log / 0.147) - a)
    for _ in range(3):
        miss = np.where(size > 0.5, 1 - size - _erfc64(x), _erf64(x) - size)
        step = miss / (2 / math.sqrt(math.pi) * np.exp(-x * x))
        x = x - step / (1 + x * step)
    x = np.where(size < 1e-8, size * (math.sqrt(math.pi) / 2), x)
    x = np.where(size == 1, np.inf, x)
    return np.copysign(np.where(size <= 1, x, np.nan), y)


def _lgamma_positive(x):
    product = np.ones_like(x)
    for _ in range(_FAR):
        near = x < _FAR
        product = np.where(near, product * x, product)
        x = np.where(near, x + 1, x)
    log, r = np.log(x), 1 / x
    tail = _polynomial(_STIRLING[::-1], r * r) * r
    # In this order the largest x overflow no sooner than the result.
    return x * (log - 1) - 0.5 * log + _HALF_LOG_TAU + tail - np.log(product)


@_in_f64
def lgamma(x):
    low = x < 0
    y = _lgamma_positive(np.where(low, 1 - x, x))
    reflected = np.log(math.pi / np.absolute(np.sin(math.pi * (x - np.rint(x))))) - y
    pole = np.isinf(x) | (x <= 0) & (x == np.floor(x))
    return np.where(pole, np.inf, np.where(low, reflected, y))


def _digamma_positive(x):
    total = np.zeros_like(x)
    for _ in range(_FAR):
        near = x < _FAR
        total = np.where(near, total - 1 / x, total)
        x = np.where(near, x + 1, x)
    r = 1 / x
    return total + np.log(x) - 0.5 * r - _polynomial(_PSI[::-1], r * r) * (r * r)


def _digamma64(x):
    low = x < 0
    y = _digamma_positive(np.where(low, 1 - x, x))
    y = np.where(low, y - math.pi / np.tan(math.pi * (x - np.rint(x))), y)
    y = np.where(low & (x == np.floor(x)), np.nan, y)
    return np.where(x == 0, np.copysign(np.inf, -x), y)


digamma = _in_f64(_digamma64)


def polygamma(n, x):
    """(-1)ⁿ⁺¹ n! ζ(n + 1, x), the Hurwitz zeta function by Euler and Maclaurin."""
    dtype = np.asarray(x).dtype
    with np.errstate(**_QUIET):
        n, x = np.asarray(n, _F64), np.asarray(x, _F64)
        s, a = n + 1, x + 10
        total = a ** -n / n + 0.5 * a ** -s
        for k in range(9, -1, -1):
            total = total + (x + k) ** -s
        rising, power = s, a ** (-s - 1)
        for k, b in enumerate(_ZETA):
            total = total + b * rising * power
            rising, power = rising * (s + 2 * k + 1) * (s + 2 * k + 2), power / (a * a)
        whole = (n >= 0) & (n == np.floor(n))
        sign = np.where(n % 2 == 1, 1.0, -1.0)
        factorial = np.where(n > 170, np.inf, _FACTORIALS[np.where(whole & (n <= 170), n, 0).astype(np.intp)])
        y = np.where(whole, sign * factorial * total, np.nan)
        return np.where(n == 0, _digamma64(x), y).astype(dtype)


def saturated(x, dtype):
    """Casts floats to integers, truncated and saturated; NaN becomes 0."""
    info, x = np.iinfo(dtype), np.trunc(x.astype(_F64))
    low, high = x < info.min, x >= float(info.max)
    inside = np.where(low | high | np.isnan(x), 0.0, x).astype(dtype)
    return np.where(low, dtype.type(info.min), np.where(high, dtype.type(info.max), inside))


def to_bf16(x):
    """ml_dtypes goes through f32 and rounds twice: the f32 is rounded to odd, so that the second one is right."""
    with np.errstate(all="ignore"):
        x = x.astype(_F64)
        y = x.astype(_F32)
        y = np.where(np.absolute(y.astype(_F64)) > np.absolute(x), np.nextafter(y, np.float32(0)), y)
        odd = (y.astype(_F64) != x) & np.isfinite(y)
        return np.bitwise_or(y.view(np.uint32), odd.astype(np.uint32)).view(_F32).astype(_BF16)


def is_half(dtype):
    return dtype.itemsize == 2 and dtype.kind in "fV"


@functools.lru_cache(4096)
def _index_plan(shape, rows, dropped, index_map, batch, index_batch, places, sizes):
    """How slices at index vectors are read or written.

    x is first cut at `head` (axes without indices) and permuted by `order`, its indexed axes first. Each of these gets
    rows of starts or row numbers plus `offsets`. The result has the axes rows, indexed and kept, others; `turn`
    brings them to the result's places.
    """
    rank, indexed = len(shape), index_map + batch
    kept = [a for a in range(rank) if a not in dropped and a not in batch]
    head = tuple(slice(None) if a in indexed else 0 if a in dropped else slice(0, sizes[a]) for a in range(rank))
    left = [a for a in range(rank) if a in indexed or a not in dropped]
    order = tuple(left.index(a) for a in indexed) + tuple(i for i, a in enumerate(left) if a not in indexed)
    moving = [a for a in index_map if a in kept]
    # Row r has its places before the offsets of the moving axes.
    offsets, number = [], []
    for a in indexed:
        spot = moving.index(a) if a in moving else None
        dims = [1] * (len(rows) + len(moving))
        if a in batch:
            n = index_batch[batch.index(a)]
            dims[n] = rows[n]
            number.append(None)
            offsets.append(np.arange(rows[n]).reshape(dims))
            continue
        number.append(index_map.index(a))
        if spot is None:
            offsets.append(None)
        else:
            dims[len(rows) + spot] = sizes[a]
            offsets.append(np.arange(sizes[a]).reshape(dims))
    window = moving + [a for a in left if a not in indexed]
    place = dict(zip(kept, places))
    free = [i for i in range(len(rows) + len(kept)) if i not in places]
    came = free + [place[a] for a in window]
    turn = tuple(came.index(i) for i in range(len(came)))
    last = np.array([shape[a] - sizes[a] for a in index_map], _I64)
    return head, order, tuple(number), tuple(offsets), len(moving), tuple(came), turn, last


def as_index(indices):
    # u64 beyond i64 stays out of range.
    if indices.dtype.kind == "u" and indices.dtype.itemsize == 8:
        indices = np.minimum(indices, np.uint64(2**63 - 1))
    return indices.astype(_I64)


def _index_arrays(starts, number, offsets, moving):
    spread = starts.shape[:-1] + (1,) * moving
    parts = []
    for n, offset in zip(number, offsets):
        if n is None:
            parts.append(offset)
        elif offset is None:
            parts.append(starts[..., n].reshape(spread))
        else:
            parts.append(starts[..., n].reshape(spread) + offset)
    if not starts.shape[-1]:
        # Rows that nothing points with are repeated all the same.
        rows = np.zeros(spread, _I64)
        parts = [parts[0] + rows] + parts[1:] if parts else [rows]
    return tuple(parts)


@functools.lru_cache(4096)
def _taken(shape, rows, offset_axes, collapsed, index_map, operand_batch, slice_sizes):
    """The axis along which whole slices are gathered, or None."""
    if len(index_map) != 1 or collapsed != index_map or operand_batch:
        return None
    axis = index_map[0]
    fine = all(n == k for a, (n, k) in enumerate(zip(shape, slice_sizes)) if a != axis)
    return axis if fine and offset_axes == tuple(i if i < axis else i + rows for i in range(len(shape) - 1)) else None


def gather(x, indices, *, offset_axes, collapsed, index_map, operand_batch, index_batch, slice_sizes, mode):
    rows = indices.shape[:-1]
    axis = _taken(x.shape, len(rows), offset_axes, collapsed, index_map, operand_batch, slice_sizes)
    if axis is not None and mode == "clip" and x.size:
        return x.take(as_index(indices[..., 0]), axis, mode="clip")
    head, order, number, offsets, moving, came, turn, last = _index_plan(
        x.shape, rows, collapsed, index_map, operand_batch, index_batch, offset_axes, slice_sizes)
    if not indices.size and index_map or not x.size:
        sizes = rows + tuple(n for a, n in enumerate(slice_sizes) if a not in collapsed and a not in operand_batch)
        free = [i for i in range(len(sizes)) if i not in offset_axes]
        shape = [0] * len(sizes)
        for place, n in zip(free + list(offset_axes), sizes):
            shape[place] = n
        return np.zeros(shape, x.dtype)
    wanted = as_index(indices)
    starts = np.minimum(np.maximum(wanted, 0), last)
    source = x[head + (...,)].transpose(order)
    out = (source if number else source[None])[_index_arrays(starts, number, offsets, moving)]
    if mode == "drop":
        inside = np.logical_and.reduce(wanted == starts, axis=-1)
        out = np.where(inside.reshape(rows + (1,) * (out.ndim - len(rows))), out, x.dtype.type(0))
    return out.transpose(turn)


def _scatter(write, x, indices, updates, window_axes, inserted, index_map, operand_batch, index_batch, mode):
    out = x.copy()
    if not updates.size:
        return out
    rows = indices.shape[:-1]
    sizes, kept = [1] * x.ndim, [a for a in range(x.ndim) if a not in inserted and a not in operand_batch]
    for axis, place in zip(kept, window_axes):
        sizes[axis] = updates.shape[place]
    head, order, number, offsets, moving, came, _, last = _index_plan(
        x.shape, rows, inserted, index_map, operand_batch, index_batch, window_axes, tuple(sizes))
    wanted = as_index(indices)
    starts = np.minimum(np.maximum(wanted, 0), last)
    at, updates = _index_arrays(starts, number, offsets, moving), updates.transpose(came)
    if mode == "drop":
        inside = np.broadcast_to(np.logical_and.reduce(wanted == starts, axis=-1), rows)
        # Of every index array only the rows that are inside.
        shapes = [rows + part.shape[len(rows):] for part in at]
        at = tuple(np.broadcast_to(part, shape)[inside] for part, shape in zip(at, shapes))
        updates = updates[inside]
    # With an ellipsis even a single element is a view.
    target = out[head + (...,)].transpose(order)
    write(target if number else target[None], at, updates)
    return out


def _set(target, at, updates):
    # In one row, since numpy visits several axes in an order of its own, and the last write must count.
    at = np.broadcast_arrays(*at)
    updates = np.ascontiguousarray(updates)
    target[tuple(part.reshape(-1) for part in at)] = updates.reshape((-1,) + updates.shape[at[0].ndim:])


def _scatter_with(ufunc, narrow):
    """A scatter that combines; half precision is rounded once, at the end."""
    def write(target, at, updates):
        ufunc.at(target, at, updates)

    def scatter(x, indices, updates, *, window_axes, inserted, index_map, operand_batch, index_batch, mode):
        places = window_axes, inserted, index_map, operand_batch, index_batch, mode
        if is_half(x.dtype):
            return _scatter(write, x.astype(_F32), indices, updates.astype(_F32), *places).astype(x.dtype)
        return _scatter(write, x, indices, updates, *places)
    scatter.__name__ = narrow
    return scatter


def scatter(x, indices, updates, *, window_axes, inserted, index_map, operand_batch, index_batch, mode):
    return _scatter(_set, x, indices, updates, window_axes, inserted, index_map, operand_batch, index_batch, mode)


scatter_add, scatter_mul = _scatter_with(np.add, "scatter_add"), _scatter_with(np.multiply, "scatter_mul")
scatter_min, scatter_max = _scatter_with(np.minimum, "scatter_min"), _scatter_with(np.maximum, "scatter_max")


def lu(x):
    """LU by columns over the batch: numpy does not expose LAPACK's getrf."""
    m, n = x.shape[-2:]
    a = x.reshape((math.prod(x.shape[:-2]), m, n)).copy()
    batch, k = np.arange(len(a)), min(m, n)
    pivots, order = np.zeros((len(a), k), _I32), np.zeros((len(a), m), _I32) + np.arange(m, dtype=_I32)
    for j in range(k if len(a) else 0):
        column = a[:, j:, j]
        # LAPACK's measure of complex numbers.
        pivot = j + (np.absolute(column.real) + np.absolute(column.imag)).argmax(-1)
        pivots[:, j] = pivot
        for matrix in (a, order):
            row = matrix[batch, pivot].copy()
            matrix[batch, pivot] = matrix[:, j]
            matrix[:, j] = row
        # A column of zeros has nothing to divide.
        a[:, j + 1:, j] /= np.where(a[:, j, j] == 0, 1, a[:, j, j])[:, None]
        a[:, j + 1:, j + 1:] -= a[:, j + 1:, j, None] * a[:, j, None, j + 1:]
    return a.reshape(x.shape), pivots.reshape(x.shape[:-2] + (k,)), order.reshape(x.shape[:-1])


def _solve_lower(a, b, unit):
    """Recursive: splits the matrix in two, so that nearly all work is matmuls."""
    n = a.shape[-1]
    if n > 8:
        top = _solve_lower(a[..., :n // 2, :n // 2], b[..., :n // 2, :], unit)
        rest = b[..., n // 2:, :] - np.matmul(a[..., n // 2:, :n // 2], top)
        return np.concatenate((top, _solve_lower(a[..., n // 2:, n // 2:], rest, unit)), -2)
    x = b.copy()
    for i in range(n):
        if i:
            x[..., i, :] -= np.matmul(a[..., i:i + 1, :i], x[..., :i, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def triangular_solve(a, b, *, left, lower, transpose, unit_diagonal):
    if transpose == "adjoint":
        a = np.conjugate(a)
    if (transpose == "no") != left:
        a, lower = a.swapaxes(-1, -2), not lower
    if not left:
        b = b.swapaxes(-1, -2)
    if lower:
        x = _solve_lower(a, b, unit_diagonal)
    else:
        x = _solve_lower(a[..., ::-1, ::-1], b[..., ::-1, :], unit_diagonal)[..., ::-1, :]
    return x if left else x.swapaxes(-1, -2)


def random_bits(key, *, dtype, shape):
    """Threefry-2x32 with 20 rounds; word i is half i mod 2 of block i / 2."""
    words = math.prod(shape) * (2 if dtype.itemsize == 8 else 1)
    counter = np.arange((words + 1) // 2, dtype=np.uint64)
    first, second = key[:1], key[1:]
    schedule = (first, second, first ^ second ^ np.uint32(0x1BD11BDA))
    a = (counter >> np.uint64(32)).astype(np.uint32) + first
    b = counter.astype(np.uint32) + second
    for group in range(5):
        for turn in (13, 15, 26, 6) if group % 2 == 0 else (17, 29, 16, 24):
            a = a + b
            b = (b << turn | b >> (32 - turn)) ^ a
        a = a + schedule[(group + 1) % 3]
        b = b + schedule[(group + 2) % 3] + np.uint32(group + 1)
    if dtype.itemsize == 8:
        out = a.astype(np.uint64) << np.uint64(32) | b
    else:
        out = np.stack((a, b), -1).reshape(-1)[:words]
    return out.astype(dtype).reshape(shape)


# Functions that printed source calls besides the ops: sizes, branches and loops, whose bodies are functions of `ops` and arrays.

def size(x, axis):
    return x.shape[axis]


def run_cond(ops, which, branches, args):
    return branches[min(max(int(which), 0), len(branches) - 1)](ops, *args)


def run_while(ops, test, body, test_consts, body_consts, start):
    xs = tuple(start)
    while bool(test(ops, *test_consts, *xs)[0]):
        xs = body(ops, *body_consts, *xs)
    return xs


def run_scan(ops, body, consts, start, rows, length, reverse):
    xs, found = tuple(start), []
    # Without rows, the body runs once on zeros to determine the shapes.
    given = rows if length else tuple(np.zeros((1,) + x.shape[1:], x.dtype) for x in rows)
    for i in range(length or 1):
        at = length - 1 - i if reverse and length else i
        out = body(ops, *consts, *xs, *(np.asarray(x[at]) for x in given))
        xs, made = (out[:len(start)] if length else xs), out[len(start):]
        found.append(made)
    found = found[::-1] if reverse else found
    return xs + tuple(np.stack(line)[:length] for line in zip(*found))
