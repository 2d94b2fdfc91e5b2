"""Functions that jax lacks or has with too few digits."""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


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
    """By the bits, since XLA takes subnormal numbers for zero; bits of one sign count away from zero."""
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
    """jax derives a product over repeated indices only if it is told that there are none."""
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
            x = jnp.moveaxis(jnp.tensordot(x, rows, ((axis,), (1,)), precision=lax.Precision.HIGHEST), -1, axis)
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
