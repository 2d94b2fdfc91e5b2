"""Functions that jax lacks or computes too inexactly, and window reductions; with utilities that both files share."""
import functools
import inspect
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

BOOL, I32, I64, F32 = (np.dtype(t) for t in (np.bool_, np.int32, np.int64, np.float32))
HALF = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
# Matmuls of f32 use full f32 precision on devices with shorter multipliers.
EXACT = lax.Precision.HIGHEST


def op(f):
    """Jit-compiles a function with keyword-only parameters as static arguments; inlined into enclosing compiled functions."""
    static = tuple(n for n, p in inspect.signature(f).parameters.items() if p.kind is p.KEYWORD_ONLY)
    return jax.jit(f, static_argnames=static, inline=True)


def kind(x):
    """The kind of the dtype: b, u, i, f or c."""
    return "f" if x.dtype == HALF[1] else x.dtype.kind


def wide(f):
    """Computes half precision in f32 and rounds once."""
    @functools.wraps(f)
    def wide(*args, **kwargs):
        dtype = next((a.dtype for a in args if a is not None and a.dtype in HALF), None)
        if dtype is not None:
            args = [a if a is None or a.dtype not in HALF else a.astype(F32) for a in args]
            return jax.tree.map(lambda y: y.astype(dtype), f(*args, **kwargs))
        return f(*args, **kwargs)
    return wide


def first_of_equals(f):
    """Zeros of two signs are equal; XLA orders them."""
    is_float = lambda x, y: jnp.issubdtype(jnp.result_type(x, y), jnp.floating)
    return lambda x, y: jnp.where(x == y, x, f(x, y)) if is_float(x, y) else f(x, y)


def asin(x):
    if x.dtype.kind == "c":
        return lax.asin(x)
    # XLA goes through half of it, which may be below the normal numbers.
    return jnp.where(lax.abs(x) < 1e-5, x, lax.asin(x))


def _half_exp(x):
    """exp(|x|) / 2 and exp(-|x|) / 2, as products: XLA's way through x + log(1/2) costs digits."""
    h = lax.exp(lax.abs(x) * 0.5)
    return h * (0.5 * h), 0.5 / h / h


def sinh(x):
    if x.dtype.kind == "c":
        return lax.sinh(x)
    grown, rest = _half_exp(x)
    return jnp.where(lax.abs(x) < 1, lax.sinh(x), lax.sign(x) * (grown - rest))


def cosh(x):
    if x.dtype.kind == "c":
        return lax.cosh(x)
    grown, rest = _half_exp(x)
    return grown + rest


def mended(f, edges):
    """f with other values where complex numbers are infinite or NaN, for which XLA's formulas are wrong."""
    def mended(x):
        y = f(x)
        if x.dtype.kind != "c":
            return y
        a, b = y.real, y.imag
        for where, re, im in edges(x.real, x.imag):
            a, b = jnp.where(where, re, a), jnp.where(where, im, b)
        return lax.complex(a, b)
    return mended


def exp_edges(a, b):
    odd = jnp.isinf(a) & ~jnp.isfinite(b)
    return (odd & (a < 0), 0.0, 0.0), (odd & (a > 0), jnp.inf, jnp.nan)


def log_edges(a, b):
    return (((jnp.isinf(a) & jnp.isnan(b)) | (jnp.isnan(a) & jnp.isinf(b)), jnp.inf, jnp.nan),)


def log_by(f, base):
    """A logarithm to another base; of complex numbers part by part, since infinity times 0 would be NaN."""
    def log(x):
        if kind(x) != "c":
            return f(x)
        y = mended(lax.log, log_edges)(x)
        factor = np.asarray(1 / np.log(base), y.real.dtype)
        return lax.complex(y.real * factor, y.imag * factor)
    return log


def sinh_edges(a, b):
    return ((((a == 0) | jnp.isinf(a)) & ~jnp.isfinite(b), a, jnp.nan),)


def cosh_edges(a, b):
    odd = ~jnp.isfinite(b)
    return ((a == 0) & odd, jnp.nan, 0.0), (jnp.isinf(a) & odd, jnp.inf, jnp.nan)


def sqrt_edges(a, b):
    lost = jnp.isnan(b)
    return ((jnp.isinf(b), jnp.inf, b), ((a == -jnp.inf) & lost, jnp.nan, jnp.inf), ((a == jnp.inf) & lost, jnp.inf, jnp.nan))


def acos_edges(a, b):
    return (((a == 0) & jnp.isnan(b), jnp.pi / 2, jnp.nan),)


def asinh_edges(a, b):
    return ((jnp.isnan(a) & (b == 0), jnp.nan, b),)


def atanh_edges(a, b):
    lost = jnp.isnan(b)
    return ((jnp.isnan(a) | lost, jnp.nan, jnp.nan), (lost & (a == 0), a, jnp.nan),
            (lost & jnp.isinf(a), jnp.copysign(0.0, a), jnp.nan),
            (jnp.isnan(a) & jnp.isinf(b), 0.0, jnp.copysign(jnp.pi / 2, b)))


# Of 0 to 170, and then infinity.
FACTORIALS = np.append(np.cumprod(np.append(1.0, np.arange(1.0, 171.0))), np.inf)


def abs(x):
    if x.dtype.kind != "c":
        return jnp.abs(x)
    # XLA's is NaN where one part is infinite and the other NaN.
    return jnp.where(jnp.isinf(x.real) | jnp.isinf(x.imag), jnp.inf, jnp.abs(x))


def digamma(x):
    return jnp.where(x == 0, jnp.copysign(jnp.asarray(jnp.inf, x.dtype), -x), lax.digamma(x))


def polygamma(n, x):
    return _polygamma(*jnp.broadcast_arrays(n, x))


@jax.custom_jvp
def _polygamma(n, x):
    whole = (n >= 0) & (n == jnp.floor(n))
    # The factorial from a table: XLA's own, by exp and lgamma, loses digits.
    table = jnp.asarray(FACTORIALS.astype(x.dtype))
    factorial = table[jnp.clip(n, 0, len(FACTORIALS) - 1).astype(np.int32)]
    y = jnp.where(n % 2 == 1, factorial, -factorial) * lax.zeta(jnp.where(whole & (n > 0), n + 1, 2), x)
    return jnp.where(n == 0, digamma(x), jnp.where(whole, y, jnp.nan))


@_polygamma.defjvp
def _polygamma_jvp(primals, tangents):
    # jax has no derivative of zeta; the order is whole and has none.
    n, x = primals
    return _polygamma(n, x), tangents[1] * _polygamma(n + 1, x)


def nextafter(x, y):
    """By the bit patterns, since XLA flushes subnormals to zero; negative values count downwards."""
    x, y = jnp.broadcast_arrays(x, y)
    bits = {2: np.int16, 4: np.int32, 8: np.int64}[x.dtype.itemsize]
    a, b = (lax.bitcast_convert_type(v, bits) for v in (x, y))
    low = np.iinfo(bits).min
    # Rising with the value; both zeros are 0.
    p, q = (jnp.where(v < 0, low - v, v) for v in (a, b))
    moved = jnp.where(p < q, p + 1, p - 1)
    moved = jnp.where((moved < 0) | ((moved == 0) & (a < 0)), low - moved, moved)
    out = lax.bitcast_convert_type(jnp.where(p == q, b, moved), x.dtype)
    return jnp.where((x != x) | (y != y), jnp.asarray(jnp.nan, x.dtype), out)



def div(x, y):
    if jnp.shape(y) != jnp.broadcast_shapes(jnp.shape(x), jnp.shape(y)):
        # XLA turns division by a repeated number into a product with its inverse, which is 0 for the largest ones.
        y = lax.optimization_barrier(jnp.broadcast_to(y, jnp.broadcast_shapes(jnp.shape(x), jnp.shape(y))))
    return jnp.divide(x, y)


def scatter_mul(x, indices, updates, numbers, mode):
    """jax differentiates a scatter with repeated indices only if it is told that indices are unique."""
    @jax.custom_jvp
    def product(x, updates, indices):
        return lax.scatter_mul(x, indices, updates, numbers, mode=mode)

    @product.defjvp
    def derive(primals, tangents):
        (x, u, indices), (dx, du, _) = primals, tangents
        zero = u == 0
        ones = jnp.ones_like(x)
        rest = lax.scatter_mul(ones, indices, jnp.where(zero, 1, u), numbers, mode=mode)
        zeros = lax.scatter_add(jnp.zeros_like(x), indices, zero.astype(x.dtype), numbers, mode=mode)
        # How often each update's place is hit by a zero, and the product of the others there: as a linear read.
        read = jax.vjp(lambda v: lax.scatter_add(x, indices, v, numbers, mode=mode), u)[1]
        rest_at, zeros_at = read(rest)[0], read(zeros)[0]
        others = jnp.where(zero, jnp.where(zeros_at == 1, rest_at, 0), jnp.where(zeros_at == 0, rest_at / jnp.where(zero, 1, u), 0))
        moved = lax.scatter_add(jnp.zeros_like(x), indices, du * others, numbers, mode=mode)
        return product(x, u, indices), dx * jnp.where(zeros == 0, rest, 0) + x * moved

    return product(x, updates, indices)


def _weights(n, size, method, align_corners, antialias):
    """Rows of what each result takes from the n elements of an axis."""
    ratio, i = n / size, np.arange(size)[:, None]
    if align_corners:
        centre = i * (n - 1) / max(size - 1, 1)
    else:
        centre = (i + 0.5) * ratio - 0.5
    low = np.floor(centre)

    def cubic(a, t):
        t = np.abs(t)
        near, far = (a + 2) * t**3 - (a + 3) * t**2 + 1, a * t**3 - 5 * a * t**2 + 8 * a * t - 4 * a
        return np.where(t <= 1, near, np.where(t < 2, far, 0.0))

    if antialias and ratio > 1:
        t = (np.arange(n)[None, :] - centre) / ratio
        rows = cubic(-0.5, t) if method == "cubic" else np.maximum(1 - np.abs(t), 0)
    elif method == "cubic" and antialias:
        t = np.arange(n)[None, :] - centre
        rows = cubic(-0.5, t) * ((t > low - 1.5 - centre) & (t < low + 2.5 - centre))
    else:
        taps = [(low, 1 - (centre - low)), (low + 1, centre - low)]
        if method == "cubic":
            taps = [(low + k, cubic(-0.75, centre - low - k)) for k in (-1, 0, 1, 2)]
        rows = np.zeros((size, n))
        for at, weight in taps:
            np.add.at(rows, (np.arange(size)[:, None], np.clip(at, 0, n - 1).astype(int)), weight)
    return rows / rows.sum(1, keepdims=True)


def resize(x, *, shape, method, align_corners, antialias):
    if method == "nearest":
        for axis, (n, size) in enumerate(zip(x.shape, shape)):
            if n != size:
                i = np.arange(size)
                at = i * (n - 1) / max(size - 1, 1) + 0.5 if align_corners else i * (n / size)
                x = jnp.take(x, np.clip(np.floor(at).astype(np.int32), 0, n - 1), axis=axis)
        return x
    dtype = x.dtype
    inexact = jnp.issubdtype(dtype, jnp.inexact)
    wide = dtype if inexact and dtype.itemsize >= 4 else np.dtype(np.float32)
    x = x.astype(wide)
    for axis, (n, size) in enumerate(zip(x.shape, shape)):
        if n != size:
            rows = _weights(n, size, method, align_corners, antialias).astype(wide)
            x = jnp.moveaxis(jnp.tensordot(x, rows, ((axis,), (1,)), precision=EXACT), -1, axis)
    return x.astype(dtype) if inexact else x


def _rotated(x, by):
    return x << np.uint32(by) | x >> np.uint32(32 - by)


def random_bits(key, *, dtype, shape):
    """Threefry-2x32 with 20 rounds; word i is half i mod 2 of block i / 2."""
    count = int(np.prod(shape, dtype=np.int64)) * (2 if dtype == np.uint64 else 1)
    key = key.astype(np.uint32)
    schedule = key[0], key[1], np.uint32(0x1BD11BDA) ^ key[0] ^ key[1]
    blocks = np.arange((count + 1) // 2, dtype=np.uint64)
    high = int(blocks[-1] >> np.uint64(32)) if len(blocks) else 0
    counter = lax.iota(np.uint32, len(blocks))
    a = jnp.full(len(blocks), schedule[0]) if high == 0 else (blocks >> np.uint64(32)).astype(np.uint32) + schedule[0]
    b = counter + schedule[1]
    for turn in range(20):
        a = a + b
        b = _rotated(b, (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]) ^ a
        if turn % 4 == 3:
            s = turn // 4 + 1
            a, b = a + schedule[s % 3], b + schedule[(s + 1) % 3] + np.uint32(s)
    words = jnp.stack([a, b], -1).reshape(-1)[:count]
    if dtype == np.uint64:
        words = words.reshape(-1, 2).astype(np.uint64)
        words = words[:, 0] << np.uint64(32) | words[:, 1]
    return words.astype(dtype).reshape(shape)


# Window reductions are separable: one axis after the other.

@functools.lru_cache(4096)
def tap_table(n, size, stride, padding, base, dilation):
    """Per position in the window: its first element in the padded axis, and which results it contributes to."""
    low, high = padding
    full_size = 0 if n == 0 else (n - 1) * base + 1
    count = max(0, (full_size + low + high - ((size - 1) * dilation + 1)) // stride + 1)
    out = []
    for k in range(size):
        at = np.arange(count) * stride + k * dilation - low
        out.append((k * dilation, (at >= 0) & (at % base == 0) & (at // base < n)))
    return count, tuple(out)


def _stages(x, size, strides, padding, base_dilation, window_dilation):
    """The axes on which something happens, last first, so that the first of equals is the first in the window."""
    for axis in reversed(range(x.ndim)):
        stage = size[axis], strides[axis], padding[axis], base_dilation[axis], window_dilation[axis]
        if stage != (1, 1, (0, 0), 1, 1):
            yield (axis, *stage)


def _padded(x, axis, padding, base, value):
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (*padding, base - 1)
    return lax.pad(x, jnp.asarray(value, x.dtype), config)


def _tap(x, axis, first, count, stride):
    return lax.slice_in_dim(x, first, first + (count - 1) * stride + 1, stride, axis)


def _along(mask, axis, rank):
    return np.expand_dims(mask, tuple(a for a in range(rank) if a != axis))


def _replaced(shape, axis, n):
    return (*shape[:axis], n, *shape[axis + 1:])


def _folded(combine, identity):
    """A window reduction of any dilation by one combination per place of the window and axis."""
    def fold(x, **window):
        value = identity(x.dtype)
        for axis, size, stride, padding, base, dilation in _stages(x, **window):
            count, taps = tap_table(x.shape[axis], size, stride, padding, base, dilation)
            if count == 0:
                x = jnp.zeros(_replaced(x.shape, axis, 0), x.dtype)
                continue
            wide, out = _padded(x, axis, padding, base, value), None
            for first, _ in taps:
                tap = _tap(wide, axis, first, count, stride)
                out = tap if out is None else combine(out, tap)
            x = out
        return x
    return fold


def _lowest(dtype):
    return -np.inf if dtype in HALF or dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype):
    return np.inf if dtype in HALF or dtype.kind == "f" else np.iinfo(dtype).max


def _keeps(x, y, largest):
    """Whether x, which came first, remains the extreme; any NaN wins."""
    stays = x >= y if largest else x <= y
    return stays | (x != x) if kind(x) == "f" else stays


def _window(combine, identity):
    folded = _folded(combine, identity)

    @op
    def window(x, *, size, strides, padding, base_dilation, window_dilation):
        p = dict(size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
        return wide(folded)(x, **p)
    return window


reduce_window_sum = _window(lax.add, lambda dtype: 0)
reduce_window_prod = _window(lax.mul, lambda dtype: 1)
reduce_window_max = _window(lambda x, y: jnp.where(_keeps(x, y, True), x, y), _lowest)
reduce_window_min = _window(lambda x, y: jnp.where(_keeps(x, y, False), x, y), _highest)


def _chosen(x, axis, stage, largest):
    """Per result the first index of the extreme along an axis (NaN is the largest) and its value."""
    size, stride, padding, base, dilation = stage
    count, taps = tap_table(x.shape[axis], size, stride, padding, base, dilation)
    wide = _padded(x, axis, padding, base, 0)
    best = place = found = None
    for k, (first, inside) in enumerate(taps):
        tap, inside = _tap(wide, axis, first, count, stride), _along(inside, axis, x.ndim)
        if best is None:
            best, place, found = tap, jnp.zeros(tap.shape, I32), inside
            continue
        if largest:
            better = (tap > best) | ((tap != tap) & (best == best))
        else:
            better = (tap < best) | ((tap == tap) & (best != best))
        better = inside & (better | ~found)
        best, place, found = jnp.where(better, tap, best), jnp.where(better, k, place), found | inside
    return best, place, found


def _picked(y, place, axis, stage):
    """The elements of y at the selected indices of an axis."""
    size, stride, padding, base, dilation = stage
    count, taps = tap_table(y.shape[axis], size, stride, padding, base, dilation)
    wide = _padded(y, axis, padding, base, 0)
    out = None
    for k, (first, _) in enumerate(taps):
        tap = _tap(wide, axis, first, count, stride)
        out = tap if out is None else jnp.where(place == k, tap, out)
    return out


def _empty(x, **window):
    sizes = [tap_table(x.shape[a], *stage)[0] for a, *stage in _stages(x, **window)]
    return 0 in sizes or 0 in x.shape


def _window_gather(largest):
    @op
    def window_gather(x, y, *, size, strides, padding, base_dilation, window_dilation):
        p = dict(size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
        if _empty(x, **p):
            shape = list(x.shape)
            for axis, *stage in _stages(x, **p):
                shape[axis] = tap_table(x.shape[axis], *stage)[0]
            return jnp.zeros(shape, y.dtype)
        some = True
        for axis, *stage in _stages(x, **p):
            x, place, found = _chosen(x, axis, stage, largest)
            y, some = _picked(y, place, axis, stage), some & found
        return y if np.all(some) else jnp.where(some, y, jnp.zeros_like(y))
    return window_gather


def _window_scatter(largest):
    @op
    def window_scatter(x, y, *, size, strides, padding, base_dilation, window_dilation):
        p = dict(size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
        if _empty(x, **p):
            return jnp.zeros_like(x)
        return wide(_spread_back)(x, y, largest=largest, stages=list(_stages(x, **p)))
    return window_scatter


def _spread_back(x, y, largest, stages):
    places = []
    for axis, *stage in stages:
        n = x.shape[axis]
        x, place, found = _chosen(x, axis, stage, largest)
        places.append((axis, stage, n, place, found))
    for axis, (size, stride, (low, high), base, dilation), n, place, found in reversed(places):
        if not np.all(found):
            y = jnp.where(found, y, jnp.zeros_like(y))
        count, taps = tap_table(n, size, stride, (low, high), base, dilation)
        total = (n - 1) * base + 1 + low + high
        config, out = [(0, 0, 0)] * y.ndim, None
        for k, (first, _) in enumerate(taps):
            # Back to where the element was read: the transpose of a strided slice.
            config[axis] = (first, total - first - (count - 1) * stride - 1, stride - 1)
            part = lax.pad(jnp.where(place == k, y, jnp.zeros_like(y)), jnp.asarray(0, y.dtype), config)
            out = part if out is None else out + part
        config[axis] = (-low, -high, 0)
        y = lax.pad(out, jnp.asarray(0, y.dtype), config)
        y = lax.slice_in_dim(y, 0, None, base, axis)
    return y


window_gather_max = _window_gather(True)
window_gather_min = _window_gather(False)
window_scatter_max = _window_scatter(True)
window_scatter_min = _window_scatter(False)


def custom_vjp(forward, backward, xs):
    """Runs a function of jax arrays with a custom VJP."""
    if not any(isinstance(x, jax.core.Tracer) for x in xs):
        return NotImplemented
    f = jax.custom_vjp(lambda *xs: forward(*xs))

    def fwd(*xs):
        # Not `forward`: a second derivative uses the rule for these results, too.
        ys = f(*xs)
        return ys, (xs, ys)

    def bwd(saved, cts):
        xs, ys = saved
        # jax uses float0 for the cotangents of integers.
        cts = [jnp.zeros_like(y) if ct.dtype == jax.dtypes.float0 else ct for ct, y in zip(cts, ys)]
        return backward(xs, ys, cts)

    f.defvjp(fwd, bwd)
    wide = any(x.dtype.name in ("uint64", "int64", "float64", "complex128") for x in xs)
    with jax.enable_x64(True) if wide else nullcontext():
        return f(*xs)


# Functions that printed source calls besides the ops: sizes, branches and loops, whose bodies are functions of `ops` and arrays.

def size(x, axis):
    return x.shape[axis]


def _in_64(ops, f, xs, *args):
    # 64-bit dtypes have to be enabled.
    return ops.in_64(f, *args) if any(x.dtype.itemsize == 8 for x in xs) else f(*args)


def run_cond(ops, which, branches, args):
    ways = [lambda *xs, way=way: way(ops, *xs) for way in branches]
    which = which.reshape(()).astype(I32)
    return _in_64(ops, lax.switch, args, which, ways, *args)


def run_while(ops, test, body, test_consts, body_consts, start):
    go_on = lambda xs: test(ops, *test_consts, *xs)[0].reshape(())
    step = lambda xs: tuple(body(ops, *body_consts, *xs))
    return _in_64(ops, lax.while_loop, (*start, *body_consts), go_on, step, tuple(start))


def run_scan(ops, body, consts, start, rows, length, reverse):
    def step(xs, given):
        out = body(ops, *consts, *xs, *given)
        return tuple(out[:len(start)]), tuple(out[len(start):])
    scan = lambda: lax.scan(step, tuple(start), tuple(rows), length, reverse)
    xs, found = _in_64(ops, scan, (*consts, *start, *rows))
    return tuple(xs) + tuple(found)
