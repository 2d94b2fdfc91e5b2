"""Functions that TensorFlow lacks, computes too inexactly or supports for too few dtypes: composed of its own ops."""
import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_math_ops as math
from tensorflow.python.ops import gen_nn_ops as nn

BOOL, I32, I64, U64, F32, F64 = tf.bool, tf.int32, tf.int64, tf.uint64, tf.float32, tf.float64
F16, BF16 = HALF = (tf.float16, tf.bfloat16)
FLOATS = frozenset({*HALF, F32, F64})
UNSIGNED = frozenset({tf.uint8, tf.uint16, tf.uint32, U64})
BITS = {tf.float16: tf.int16, tf.bfloat16: tf.int16, F32: I32, F64: I64}


FAR = 2**31 - 1


@functools.lru_cache(65536)
def const(value, dtype=I32):
    """A parameter as a tensor, made once; outside of graphs that are being traced."""
    with tf.init_scope():
        return tf.constant(value, dtype, (len(value),) if isinstance(value, tuple) and not value else None)


@functools.lru_cache(None)
def zero_of(dtype):
    with tf.init_scope():
        return tf.zeros((), dtype)


def rest(shape):
    """Sizes for a reshape: one that is not known yet is what the others leave."""
    return tuple([n if type(n) is int else -1 for n in shape])


def sizes_of(x):
    """Sizes: numbers, and 64-bit tensors where tensorflow does not know them while it traces."""
    known = x.shape.as_list()
    if None not in known:
        return tuple(known)
    dynamic = tf.shape(x, I64)
    return tuple(dynamic[axis] if n is None else n for axis, n in enumerate(known))


def are_known(sizes):
    return all(type(n) is int for n in sizes)


def packed(sizes, dtype=I64):
    """Sizes as one tensor."""
    return const(tuple(sizes), dtype) if are_known(sizes) else tf.stack([tf.cast(n, dtype) for n in sizes])


def permuted(x, axes):
    return x if axes == tuple(range(len(axes))) else array.transpose(x, const(axes))


def wide(f, back=True):
    """f with half precision computed in f32 and rounded once."""
    @functools.wraps(f)
    def through(x, *rest, **kwargs):
        dtype = x.dtype
        if dtype is not F16 and dtype is not BF16:
            return f(x, *rest, **kwargs)
        y = f(*(v if v is None or v.dtype not in HALF else math.cast(v, F32) for v in (x, *rest)), **kwargs)
        if not back:
            return y
        return tuple(math.cast(v, dtype) for v in y) if isinstance(y, tuple) else math.cast(y, dtype)
    return through


def pair(x, y):
    if x.shape == y.shape:
        return x, y
    shape = const(tuple(tf.broadcast_static_shape(x.shape, y.shape)))
    return array.broadcast_to(x, shape), array.broadcast_to(y, shape)


def _real(x):
    return math.real(x, Tout=x.dtype.real_dtype)


def _imag(x):
    return math.imag(x, Tout=x.dtype.real_dtype)


def complex(x, y):
    x, y = pair(x, y)
    return math._complex(x, y, Tout=tf.complex128 if x.dtype is F64 else tf.complex64)


def complex_abs(x):
    # As a distance: tensorflow's is NaN where one part is infinite and the other NaN.
    a, b = _real(x), _imag(x)
    return math.select_v2(math.is_inf(a) | math.is_inf(b), tf.constant(np.inf, a.dtype), math.complex_abs(x, Tout=a.dtype))


def _number(x, like):
    return tf.constant(x, like.dtype)


def tan(x):
    if not x.dtype.is_complex:
        return math.tan(x)
    # Through tanh of x j: sine and cosine overflow where their quotient does not.
    y = math.tanh(complex(-_imag(x), _real(x)))
    return complex(_imag(y), -_real(y))


def exp2(x):
    return math.exp(x * _number(np.log(2), x)) if x.dtype.is_complex else math._pow(_number(2, x), x)


def cbrt(x):
    y = math._pow(math._abs(x), _number(1 / 3, x))
    fine = math.is_finite(y) & (x != 0)
    y1 = math.select_v2(fine, y, array.ones_like(y))
    # One step of Newton's.
    y = math.select_v2(fine, y1 - (y1 - math._abs(x) / (y1 * y1)) * _number(1 / 3, x), y)
    return math.select_v2(x < 0, -y, math.select_v2(x == 0, x, y))


def erf(x):
    # Of f64 infinity tensorflow's is NaN.
    return math.erf(math.minimum(math.maximum(x, const(-30.0, F64)), const(30.0, F64)) if x.dtype is F64 else x)


def erfinv(y):
    """tensorflow's, after one step of Newton's; beyond a half by the complement, which has more digits."""
    x, size = math.erfinv(y), math._abs(y)
    fine = math.is_finite(x)
    x = math.select_v2(fine, x, array.zeros_like(x))
    miss = math.select_v2(size > 0.5, math.erfc(math._abs(x)) - (1 - size), size - math.erf(math._abs(x)))
    miss = miss * math.exp(x * x) * _number(np.sqrt(np.pi) / 2, x)
    # At zero by its derivative, which keeps the sign; tensorflow's own loses it.
    known = math.select_v2(y == 0, y * _number(np.sqrt(np.pi) / 2, y), math.erfinv(y))
    return math.select_v2(fine & (y != 0), x + math.select_v2(y < 0, -miss, miss), known)


def digamma(x):
    inf = _number(np.inf, x)
    return math.select_v2(x == 0, math.select_v2(tf.bitcast(x, BITS[x.dtype]) < 0, inf, -inf), math.digamma(x))


# Of 0 to 170, and then infinity.
FACTORIALS = np.append(np.cumprod(np.append(1.0, np.arange(1.0, 171.0))), np.inf)


def polygamma(n, x):
    n, x = pair(n, x)
    whole = (n >= 0) & (n == math.floor(n))
    with np.errstate(over="ignore"):
        table = tf.constant(FACTORIALS.astype(x.dtype.as_numpy_dtype))
    factorial = tf.gather(table, tf.cast(tf.clip_by_value(n, _number(0, n), _number(171, n)), I32))
    y = math.select_v2(math.floor_mod(n, _number(2, n)) == 1, factorial, -factorial) * math.zeta(math.select_v2(whole & (n > 0), n + 1, _number(2, n)), x)
    return math.select_v2(n == 0, digamma(x), math.select_v2(whole, y, _number(np.nan, y)))


def hypot(x, y):
    x, y = pair(math._abs(x), math._abs(y))
    big, small = math.maximum(x, y), math.minimum(x, y)
    fine = math.is_finite(big) & (big > 0)
    ratio = math.select_v2(fine, small, array.zeros_like(small)) / math.select_v2(fine, big, array.ones_like(big))
    out = math.select_v2(fine, big * math.sqrt(1 + ratio * ratio), big)
    return math.select_v2(math.is_inf(x) | math.is_inf(y), _number(np.inf, x), out)


def logaddexp(x, y):
    if x.dtype is F32:
        # Where the result is near zero, f32 has too few digits left.
        return math.cast(logaddexp(math.cast(x, F64), math.cast(y, F64)), F32)
    x, y = pair(x, y)
    gap = math._abs(x - y)
    same = x == y
    gap = math.select_v2(same, array.zeros_like(gap), gap)
    return math.maximum(x, y) + math.log1p(math.exp(-gap))


def nextafter(x, y):
    """By the bit patterns: negative values count downwards."""
    x, y = pair(x, y)
    dtype = BITS[x.dtype]
    a, b = tf.bitcast(x, dtype), tf.bitcast(y, dtype)
    low = tf.constant(dtype.min, dtype)
    # Rising with the value; both zeros are 0.
    p, q = (math.select_v2(v < 0, low - v, v) for v in (a, b))
    moved = math.select_v2(p < q, p + 1, p - 1)
    moved = math.select_v2((moved < 0) | ((moved == 0) & (a < 0)), low - moved, moved)
    out = tf.bitcast(math.select_v2(p == q, b, moved), x.dtype)
    return math.select_v2(math.is_nan(x) | math.is_nan(y), _number(np.nan, x), out)


def _divided(f):
    """A division of integers, by 1 where it would trap; what that gives is replaced."""
    def divided(x, y):
        if x.dtype in FLOATS:
            return wide(f)(x, y)
        zero, one = const(0, x.dtype), const(1, x.dtype)
        none = y == zero
        if x.dtype in UNSIGNED:
            return math.select_v2(none, zero, f(x, math.select_v2(none, one, y)))
        back = y == const(-1, x.dtype)
        minus = zero - x if f is _quotient else zero
        return math.select_v2(none, zero, math.select_v2(back, minus, f(x, math.select_v2(none | back, one, y))))
    return divided


def _quotient(x, y):
    if x.dtype not in FLOATS:
        return math.floor_div(x, y)
    r = _rest(x, y)
    below = (r != 0) & (_negative(r) != _negative(y))
    q = math.rint((x - r) / y) - math.cast(below, x.dtype)
    ratio = x / y
    q = math.select_v2(q == 0, math.select_v2(_negative(ratio), -_number(0.0, x), _number(0.0, x)), q)
    return math.select_v2(y == 0, ratio, q)


def _negative(x):
    return tf.bitcast(x, BITS[x.dtype]) < 0


def _remainder(x, y):
    if x.dtype not in FLOATS:
        return math.floor_mod(x, y)
    r = _rest(x, y)
    moved = math.select_v2((r < 0) != (y < 0), r + y, r)
    return math.select_v2(r == 0, math.select_v2(_negative(y), -_number(0.0, x), _number(0.0, x)), moved)


def _rest(x, y):
    if x.dtype not in FLOATS:
        return x - math.truncate_div(x, y) * y
    # Of sizes: tensorflow's own division towards zero has no derivative.
    r = math.floor_mod(math._abs(x), math._abs(y))
    return math.select_v2(_negative(x), -r, r)


floor_divide, remainder, fmod = _divided(_quotient), _divided(_remainder), _divided(_rest)


def pow(x, y):
    dtype = x.dtype if isinstance(x, tf.Tensor) else y.dtype
    if dtype in FLOATS:
        return math._pow(x, y)
    x, y = tf.convert_to_tensor(x, dtype), tf.convert_to_tensor(y, dtype)
    if dtype is U64:
        a, b = tf.bitcast(x, I64), tf.bitcast(y, I64)
        # Odd numbers come around after 2^62 steps, even ones are 0 long before.
        out = math._pow(*pair(a, tf.bitwise.bitwise_and(b, const(2**62 - 1, I64))))
        even = tf.bitwise.bitwise_and(a, const(1, I64)) == 0
        return tf.bitcast(math.select_v2(even & (y >= const(64, U64)), const(0, I64), out), U64)
    a, b = math.cast(x, I64), math.cast(y, I64)
    out = math._pow(*pair(a, math.maximum(b, const(0, I64))))
    odd = tf.bitwise.bitwise_and(b, const(1, I64)) == 1
    below = math.select_v2(a == 1, const(1, I64), math.select_v2(a == -1, math.select_v2(odd, const(-1, I64), const(1, I64)), const(0, I64)))
    return math.cast(math.select_v2(b < 0, below, out), dtype)


def cast(x, dtype):
    if dtype is BOOL:
        return math.not_equal(x, zero_of(x.dtype))
    if x.dtype.is_complex and not dtype.is_complex:
        x = _real(x)
    if x.dtype not in FLOATS or dtype in FLOATS or dtype.is_complex:
        if x.dtype is U64 and dtype in HALF or x.dtype is I64 and dtype in HALF:
            return math.cast(math.cast(x, F64), dtype)
        return math.cast(x, dtype)
    # Floats to integers are cut and saturate; NaN gives 0.
    x = math.cast(x, F64)
    x = math.select_v2(math.is_nan(x), const(0.0, F64), x)
    if dtype.size < 8:
        low, high = const(float(dtype.min), F64), const(float(dtype.max), F64)
        return math.cast(math.cast(math.minimum(math.maximum(x, low), high), I64), dtype)
    top = const(2.0**63, F64)
    if dtype is I64:
        y = math.cast(math.select_v2(x < top, math.maximum(x, -top), const(0.0, F64)), I64)
        return math.select_v2(x < top, y, const(I64.max, I64))
    x = math.minimum(math.maximum(x, const(0.0, F64)), const(2.0**64, F64))
    high = x >= top
    y = math.cast(math.select_v2(high, math.select_v2(x < 2.0**64, x - top, const(0.0, F64)), x), I64)
    y = tf.bitcast(math.select_v2(high, tf.bitwise.bitwise_xor(y, const(I64.min, I64)), y), U64)
    return math.select_v2(x < 2.0**64, y, tf.constant(U64.max, U64))


def along(x, axis, start, stop, stride=1):
    rank = len(x.shape)
    begin, end, step = [0] * rank, [FAR if n is None else n for n in x.shape], [1] * rank
    begin[axis], end[axis], step[axis] = start, stop, stride
    return array.strided_slice(x, const(tuple(begin)), const(tuple(end)), const(tuple(step)))


def pad(x, value, padding, interior):
    for axis, gap in enumerate(interior):
        n = x.shape[axis]
        if gap and n > 1:
            shape = rest(x.shape)
            x = array.reshape(x, const((*shape[:axis + 1], 1, *shape[axis + 1:])))
            around = [(0, 0)] * len(x.shape)
            around[axis + 1] = (0, gap)
            x = array.pad_v2(x, const(tuple(around)), value)
            x = array.reshape(x, const((*shape[:axis], n * (gap + 1), *shape[axis + 1:])))
            x = along(x, axis, 0, n * (gap + 1) - gap)
    grown = tuple((max(low, 0), max(high, 0)) for low, high in padding)
    if any(p != (0, 0) for p in grown):
        x = array.pad_v2(x, const(grown), value)
    if any(low < 0 or high < 0 for low, high in padding):
        begin = tuple(max(-low, 0) for low, _ in padding)
        end = tuple(FAR if n is None else n - max(-high, 0) for n, (_, high) in zip(x.shape, padding))
        x = array.strided_slice(x, const(begin), const(end), const((1,) * len(begin)))
    return x


def index(i):
    """As int64; what is larger stays beyond every size."""
    if i.dtype is I64:
        return i
    return math.cast(math.minimum(i, const(2**62, U64)) if i.dtype is U64 else i, I64)


def order(x, nan_low=False):
    """Integers in the order of x; both zeros are alike, NaN is behind all others or before them."""
    dtype = x.dtype
    if dtype in FLOATS:
        y = math.cast(x, F32) if dtype in HALF else x
        raw = tf.bitcast(y, BITS[y.dtype])
        low = const(raw.dtype.min, raw.dtype)
        nan = low if nan_low else const(raw.dtype.max, raw.dtype)
        return math.select_v2(math.is_nan(x), nan, math.select_v2(raw < 0, low - raw, raw))
    if dtype is U64:
        return tf.bitwise.bitwise_xor(tf.bitcast(x, I64), const(I64.min, I64))
    return x if dtype is I64 else math.cast(x, I64 if dtype is tf.uint32 else I32)


def cumulative_logsumexp(x, *, axis, reverse):
    """Over twice as many elements in each step."""
    n, step = x.shape[axis], 1
    while step < n:
        if reverse:
            rest, other, one = along(x, axis, 0, n - step), along(x, axis, step, n), along(x, axis, n - step, n)
            x = tf.concat([logaddexp(rest, other), one], axis)
        else:
            one, rest, other = along(x, axis, 0, step), along(x, axis, step, n), along(x, axis, 0, n - step)
            x = tf.concat([one, logaddexp(other, rest)], axis)
        step *= 2
    return x


def _multiplied(f):
    """Matmul in a dtype that has kernels: small integers and u64 as int64, which wraps to the same bits."""
    def multiplied(x, y, **kwargs):
        dtype = x.dtype
        if dtype is F32 or dtype is F64:
            return f(x, y, **kwargs)
        if dtype is BOOL:
            return f(math.cast(x, I32), math.cast(y, I32), **kwargs) > 0
        if dtype is U64:
            return tf.bitcast(f(tf.bitcast(x, I64), tf.bitcast(y, I64), **kwargs), U64)
        if dtype in HALF:
            return math.cast(f(math.cast(x, F32), math.cast(y, F32), **kwargs), dtype)
        if dtype.is_integer and dtype not in (I32, I64):
            return math.cast(f(math.cast(x, I64), math.cast(y, I64), **kwargs), dtype)
        return f(x, y, **kwargs)
    return multiplied


@functools.lru_cache(4096)
def _dot_plan(x, y, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    """How both become [batch, free, contracted] and what the result's shape is."""
    free = [tuple(a for a in range(len(s)) if a not in b and a not in c)
            for s, b, c in ((x, lhs_batch, lhs_contract), (y, rhs_batch, rhs_contract))]
    size = lambda s, axes: int(np.prod([s[a] for a in axes], dtype=np.int64))
    b, k = size(x, lhs_batch), size(x, lhs_contract)
    turn = [(*lhs_batch, *free[0], *lhs_contract), (*rhs_batch, *rhs_contract, *free[1])]
    turn = [None if t == tuple(range(len(t))) else const(t) for t in turn]
    shapes = [(size(x, free[0]), k), (k, size(y, free[1]))]
    shapes = [const((b, *s) if lhs_batch else s) for s in shapes]
    out = (*(x[a] for a in lhs_batch), *(x[a] for a in free[0]), *(y[a] for a in free[1]))
    return turn, shapes, const(out)


@_multiplied
def dot_general(x, y, *, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    if not lhs_batch and len(x.shape) == len(y.shape) == 2 and len(lhs_contract) == 1:
        return math.mat_mul(x, y, lhs_contract == (0,), rhs_contract == (1,))
    turn, shapes, out = _dot_plan(tuple(x.shape), tuple(y.shape), lhs_batch, rhs_batch, lhs_contract, rhs_contract)
    x = x if turn[0] is None else array.transpose(x, turn[0])
    y = y if turn[1] is None else array.transpose(y, turn[1])
    x, y = array.reshape(x, shapes[0]), array.reshape(y, shapes[1])
    return array.reshape(math.batch_mat_mul_v2(x, y) if lhs_batch else math.mat_mul(x, y), out)


def _taps_of(x, axis, count, size, stride, dilation):
    return [along(x, axis, k * dilation, k * dilation + (count - 1) * stride + 1, stride) for k in range(size)]


@_multiplied
def conv_general(x, w, *, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, out_layout, feature_groups, batch_groups):
    if _is_weight_gradient(x, w, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, max(feature_groups, batch_groups)):
        return _conv_as_weight_gradient(x, w, padding, rhs_dilation, lhs_layout, rhs_layout, out_layout)
    spatial = len(strides)
    inner = tuple(range(1, spatial + 1))
    # To [batch, spatial, feature] and [spatial, in, out].
    x = permuted(x, (lhs_layout[0], *lhs_layout[2:], lhs_layout[1]))
    w = permuted(w, (*rhs_layout[2:], rhs_layout[1], rhs_layout[0]))
    kernel, groups = tuple(w.shape[:spatial]), max(feature_groups, batch_groups)
    is_plain = groups == 1 and x.dtype in (F32, F64) and 1 <= spatial <= 3 and max(rhs_dilation) == 1
    around, inside = ((0, 0), *padding, (0, 0)), ((0, 0),) * (spatial + 2)
    if is_plain and spatial == 2 and max(lhs_dilation) == 1 and min(min(p) for p in padding) >= 0:
        # The kernel goes around the edges itself.
        around, inside = inside, around
    x = pad(x, zero_of(x.dtype), around, (0, *(d - 1 for d in lhs_dilation), 0))
    sizes = [n + sum(p) for n, p in zip(x.shape[1:-1], inside[1:-1])]
    counts = [max(0, (n - (k - 1) * d - 1) // s + 1) for n, k, d, s in zip(sizes, kernel, rhs_dilation, strides)]
    shape = (x.shape[0] // batch_groups if x.shape[0] is not None else -1, *counts, w.shape[-1])
    if 0 in shape or 0 in x.shape or 0 in w.shape:
        y = tf.zeros(shape, x.dtype)
    elif is_plain:
        # The kernels have no derivative with dilation or groups on every device.
        y = _conv_kernel(x, w, strides, inside, shape)
    else:
        y = _conv_taps(x, w, kernel, counts, strides, rhs_dilation, feature_groups, batch_groups, inner)
    return permuted(y, order_back((out_layout[0], *out_layout[2:], out_layout[1])))


def _conv_kernel(x, w, strides, padding, shape):
    if len(strides) == 3:
        return nn.conv3d(x, w, (1, *strides, 1), "VALID")
    if len(strides) == 2:
        edges = [n for p in padding for n in p]
        return nn.conv2d(x, w, (1, *strides, 1), "EXPLICIT" if any(edges) else "VALID", explicit_paddings=edges if any(edges) else [])
    y = nn.conv2d(tf.expand_dims(x, 1), tf.expand_dims(w, 0), (1, 1, *strides, 1), "VALID")
    return array.reshape(y, const(shape))


def _is_weight_gradient(x, w, strides, padding, lhs_dilation, rhs_dilation, lhs_layout, rhs_layout, groups):
    """Whether the filter is larger than the output in its spatial axes, as in the weight gradient of a convolution."""
    if groups != 1 or len(strides) != 2 or (*strides, *lhs_dilation) != (1, 1, 1, 1) or x.dtype not in (F32, F64):
        return False
    sizes, kernel = [x.shape[a] for a in lhs_layout[2:]], [w.shape[a] for a in rhs_layout[2:]]
    if None in (*x.shape, *w.shape) or 0 in (*x.shape, *w.shape) or min(min(p) for p in padding) < 0:
        return False
    counts = [n + sum(p) - (k - 1) * d for n, p, k, d in zip(sizes, padding, kernel, rhs_dilation)]
    return min(counts) > 0 and np.prod(kernel) > np.prod(counts)


def _conv_as_weight_gradient(x, w, padding, dilation, lhs_layout, rhs_layout, out_layout):
    """The convolution as a weight gradient: its features are the batch of that op, its output the filter."""
    x = permuted(x, (lhs_layout[1], *lhs_layout[2:], lhs_layout[0]))
    w = permuted(w, (rhs_layout[1], *rhs_layout[2:], rhs_layout[0]))
    x = pad(x, zero_of(x.dtype), ((0, 0), *padding, (0, 0)), (0,) * 4)
    counts = [n - (k - 1) * d for n, k, d in zip(x.shape[1:3], w.shape[1:3], dilation)]
    y = nn.conv2d_backprop_filter(x, const((*counts, x.shape[3], w.shape[3])), w, (1, *dilation, 1), "VALID")
    return permuted(y, order_back((*out_layout[2:], *out_layout[:2])))


def order_back(places):
    """The axes of a result whose axes belong at these places."""
    back = [0] * len(places)
    for axis, at in enumerate(places):
        back[at] = axis
    return tuple(back)


def _conv_taps(x, w, kernel, counts, strides, dilation, feature_groups, batch_groups, inner):
    """A convolution as a matmul: the elements under the filter are stacked (im2col)."""
    taps = [x]
    for axis, count, size, stride, by in zip(inner, counts, kernel, strides, dilation):
        taps = [t for x in taps for t in _taps_of(x, axis, count, size, stride, by)]
    groups, (n, *_, c), o = max(feature_groups, batch_groups), x.shape, w.shape[-1]
    places, per = int(np.prod(counts)), int(np.prod(kernel))
    x = tf.stack(taps, -2)
    if batch_groups > 1:
        x = array.reshape(x, const((groups, n // groups * places, per * c)))
    else:
        x = array.reshape(x, const((-1 if n is None else n * places * per, groups, c // groups)))
        x = array.reshape(array.transpose(x, const((1, 0, 2))), const((groups, -1 if n is None else n * places, per * (c // groups))))
    w = array.reshape(w, const((per * w.shape[-2], groups, o // groups)))
    y = math.batch_mat_mul_v2(x, array.transpose(w, const((1, 0, 2))))
    return array.reshape(array.transpose(y, const((1, 0, 2))), const((-1 if n is None else n // batch_groups, *counts, o)))


@functools.lru_cache(4096)
def taps_of_axis(n, size, stride, padding, base, dilation):
    """How many results an axis has, and per place in the window which of them find an element there."""
    low, high = padding
    total = 0 if n == 0 else (n - 1) * base + 1
    count = max(0, (total + low + high - ((size - 1) * dilation + 1)) // stride + 1)
    at = [np.arange(count) * stride + k * dilation - low for k in range(size)]
    return count, tuple((a >= 0) & (a % base == 0) & (a // base < n) for a in at)


def _stages(rank, size, strides, padding, base_dilation, window_dilation):
    """The axes on which something happens, last first, so that the first of equals is the first in the window."""
    for axis in reversed(range(rank)):
        stage = size[axis], strides[axis], padding[axis], base_dilation[axis], window_dilation[axis]
        if stage != (1, 1, (0, 0), 1, 1):
            yield (axis, *stage)


def _is_apart(x, axis, size, stride, padding, base, dilation):
    """Whether windows lie side by side, each a row of a reshaped array: steps through memory are slow in tensorflow."""
    known = x.shape[axis] is not None and list(x.shape).count(None) <= 1
    return known and size == stride and padding == (0, 0) and base == dilation == 1


def _reshaped(x, shape):
    """A reshape with at most one unknown size."""
    return array.reshape(x, const(tuple(-1 if n is None else n for n in shape)))


def _in_rows(x, axis, count, size):
    """An axis as two, windows and places in them."""
    shape = tuple(x.shape)
    return _reshaped(along(x, axis, 0, count * size), (*shape[:axis], count, size, *shape[axis + 1:]))


def _read(x, axis, stage, value):
    """The elements under each position of the window along an axis."""
    size, stride, padding, base, dilation = stage
    if _is_apart(x, axis, *stage):
        return array.unpack(_in_rows(x, axis, x.shape[axis] // size, size), size, axis + 1)
    around, gaps = [(0, 0)] * len(x.shape), [0] * len(x.shape)
    around[axis], gaps[axis] = padding, base - 1
    count, _ = taps_of_axis(x.shape[axis], *stage)
    return _taps_of(pad(x, value, tuple(around), gaps), axis, count, size, stride, dilation)


def _none(x, window):
    """Zeros of the result's shape where there are no results or no elements, else None."""
    shape = list(x.shape)
    for axis, *stage in _stages(len(shape), **window):
        shape[axis] = taps_of_axis(shape[axis], *stage)[0]
    return shape if 0 in shape or 0 in x.shape else None


def _window(combine, identity):
    @wide
    def fold(x, **window):
        shape, value = _none(x, window), identity(x.dtype)
        if shape is not None:
            return tf.fill(shape, value)
        for axis, *stage in _stages(len(x.shape), **window):
            x = functools.reduce(combine, _read(x, axis, stage, value))
        return x

    def window(x, *, size, strides, padding, base_dilation, window_dilation):
        return fold(x, size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
    return window


def _bound(largest):
    def bound(dtype):
        if dtype in FLOATS:
            return tf.constant(-np.inf if largest else np.inf, dtype)
        return tf.constant(dtype.min if largest else dtype.max, dtype)
    return bound


def _extreme(largest):
    def extreme(x, y):
        stays = x >= y if largest else x <= y
        return math.select_v2(stays | math.is_nan(x) if x.dtype in FLOATS else stays, x, y)
    return extreme


reduce_window_sum = _window(math.add_v2, lambda dtype: zero_of(dtype))
reduce_window_prod = _window(math.mul, lambda dtype: tf.ones((), dtype))
reduce_window_max = _window(_extreme(True), _bound(True))
reduce_window_min = _window(_extreme(False), _bound(False))


def _chosen(x, axis, stage, largest):
    """Per result the extreme along an axis (NaN is the largest), its place in the window and whether there is one."""
    _, inside = taps_of_axis(x.shape[axis], *stage)
    spread = [-1 if a == axis else 1 for a in range(len(x.shape))]
    best = place = found = None
    for k, tap in enumerate(_read(x, axis, stage, zero_of(x.dtype))):
        here = inside[k].reshape(spread)
        if best is None:
            best, place, found = tap, tf.zeros(tap.shape, I32), here
            continue
        better = tap > best if largest else tap < best
        if x.dtype in FLOATS:
            old, new = math.is_nan(best), math.is_nan(tap)
            better = better | (new & ~old if largest else old & ~new)
        better = tf.constant(here) & (better | tf.constant(~found))
        best, place, found = math.select_v2(better, tap, best), math.select_v2(better, k, place), found | here
    return best, place, found


def _window_gather(largest):
    def window_gather(x, y, *, size, strides, padding, base_dilation, window_dilation):
        window = dict(size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
        shape = _none(x, window)
        if shape is not None:
            return tf.zeros(shape, y.dtype)
        some = np.True_
        for axis, *stage in _stages(len(x.shape), **window):
            taps = _read(y, axis, stage, zero_of(y.dtype))
            x, place, found = _chosen(x, axis, stage, largest)
            y, some = taps[0], some & found
            for k, tap in enumerate(taps[1:], 1):
                y = math.select_v2(place == k, tap, y)
        return y if some.all() else math.select_v2(tf.constant(some), y, zero_of(y.dtype))
    return window_gather


def _window_scatter(largest):
    @wide
    def back(x, y, **window):
        zero = zero_of(y.dtype)
        if _none(x, window) is not None:
            return array.zeros_like(x)
        stages, rank = [], len(x.shape)
        for axis, *stage in _stages(rank, **window):
            n = x.shape[axis]
            x, place, found = _chosen(x, axis, stage, largest)
            stages.append((axis, stage, n, place, found))
        for axis, (size, stride, (low, high), base, dilation), n, place, found in reversed(stages):
            y = y if found.all() else math.select_v2(tf.constant(found), y, zero)
            count, total = y.shape[axis], (n - 1) * base + 1 + low + high
            around, gaps, out = [(0, 0)] * rank, [0] * rank, None
            if _is_apart(y, axis, size, stride, (low, high), base, dilation):
                places = tf.reshape(tf.range(size), [-1 if a == axis + 1 else 1 for a in range(rank + 1)])
                here = tf.expand_dims(place, axis + 1) == places
                shape = (*y.shape[:axis], count * size, *y.shape[axis + 1:])
                y = _reshaped(math.select_v2(here, tf.expand_dims(y, axis + 1), zero), shape)
                around[axis] = (0, n - count * size)
                y = pad(y, zero, tuple(around), gaps)
                continue
            gaps[axis] = stride - 1
            for k in range(size):
                # Back to where the place was read.
                around[axis] = (k * dilation, total - k * dilation - (count - 1) * stride - 1)
                part = pad(math.select_v2(place == k, y, zero), zero, tuple(around), gaps)
                out = part if out is None else out + part
            around[axis] = (-low, -high)
            y = along(pad(out, zero, tuple(around), [0] * rank), axis, 0, (n - 1) * base + 1, base)
        return y

    def window_scatter(x, y, *, size, strides, padding, base_dilation, window_dilation):
        return back(x, y, size=size, strides=strides, padding=padding, base_dilation=base_dilation, window_dilation=window_dilation)
    return window_scatter


window_gather_max, window_gather_min = _window_gather(True), _window_gather(False)
window_scatter_max, window_scatter_min = _window_scatter(True), _window_scatter(False)


def lu(x):
    """Column by column: tensorflow's own takes square matrices only and refuses singular ones."""
    *batch, m, n = x.shape
    order, pivots = tf.broadcast_to(tf.range(m), (*batch, m)), []
    rows = tf.range(m)
    for k in range(min(m, n)):
        column = x[..., k]
        # LAPACK's measure of complex numbers.
        column = math._abs(tf.math.real(column)) + math._abs(tf.math.imag(column)) if x.dtype.is_complex else math._abs(column)
        pivot = tf.cast(tf.argmax(math.select_v2(rows >= k, column, tf.constant(-1, column.dtype)), -1), I32)
        pivots.append(pivot)
        swapped = math.select_v2(rows == k, pivot[..., None], math.select_v2(rows == pivot[..., None], k, rows))
        x = tf.gather(x, swapped, batch_dims=len(batch))
        order = tf.gather(order, swapped, batch_dims=len(batch))
        top = x[..., k, k]
        safe = math.select_v2(top == 0, tf.ones_like(top), top)
        factor = math.select_v2(rows > k, math.select_v2(top[..., None] == 0, tf.zeros_like(x[..., k]), x[..., k] / safe[..., None]), zero_of(x.dtype))
        x = x - factor[..., None] * math.select_v2(tf.range(n) > k, x[..., k, :], zero_of(x.dtype))[..., None, :]
        x = math.select_v2((rows > k)[:, None] & (tf.range(n) == k), factor[..., None], x)
    pivots = tf.stack(pivots, -1) if pivots else tf.zeros((*batch, 0), I32)
    return x, pivots, order


def softplus(x):
    return math.maximum(x, const(0.0, x.dtype)) + math.log1p(math.exp(-math._abs(x)))
