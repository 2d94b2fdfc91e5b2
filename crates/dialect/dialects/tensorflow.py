"""The ops in TensorFlow, by its generated op functions, which reach the kernels with the least Python overhead.

Parameters that TensorFlow takes as tensors (axes, shapes) are created once and cached.
"""
import sys

import numpy as np

if "torch" in sys.modules:
    # Both register the same options with LLVM; the process is aborted unless torch does so first.
    import torch._dynamo  # noqa: F401
import tensorflow as tf
from tensorflow.python.eager.record import could_possibly_record
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_bitwise_ops as bits
from tensorflow.python.ops import gen_linalg_ops as linalg
from tensorflow.python.ops import gen_math_ops as math
from tensorflow.python.ops import gen_nn_ops as nn

from clematis._dialects import tensorflow_complex as of_complex, tensorflow_control as control, tensorflow_indexing as indexing
from clematis._dialects import tensorflow_kernels as kernels, tensorflow_special as special
from clematis._dialects.tensorflow_special import BOOL, F32, F64, FLOATS, HALF, I64, UNSIGNED, const, index, order, wide, zero_of

VERSION = tf.__version__
DTYPES = {
    "bool": tf.bool, "u8": tf.uint8, "u16": tf.uint16, "u32": tf.uint32, "u64": tf.uint64, "i8": tf.int8, "i16": tf.int16,
    "i32": tf.int32, "i64": tf.int64, "f16": tf.float16, "bf16": tf.bfloat16, "f32": tf.float32, "f64": tf.float64,
    "c64": tf.complex64, "c128": tf.complex128,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
NUMBERS = frozenset({"add", "sub", "mul", "div", "pow", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal"})
ARRAYS = (tf.Tensor,)


def is_traced(x):
    return not hasattr(x, "numpy")


custom_vjp, variable_like, size = control.custom_vjp, control.variable_like, control.size
run_cond, run_while, run_scan = control.run_cond, control.run_while, control.run_scan
run_compiled, run_steps, after = control.run_compiled, control.run_steps, control.after


def traced_cond(predicate, then, otherwise, xs):
    return tf.cond(tf.reshape(predicate, ()), lambda: then(*xs), lambda: otherwise(*xs))


def traced_while(test, body, xs):
    return tf.while_loop(test, body, xs)


def from_bytes(buffer, dtype, shape):
    return tf.constant(np.frombuffer(buffer, DTYPES[dtype].as_numpy_dtype).reshape(shape))


def to_bytes(x):
    return np.ascontiguousarray(x.numpy()).tobytes()


def device(x):
    kind, _, number = x.device.rpartition("/")[2].partition(":")[2].partition(":")
    return "cpu" if kind in ("", "CPU") else f"gpu:{number}"


def from_dlpack(holder):
    return tf.experimental.dlpack.from_dlpack(holder.__dlpack__())


def to_dlpack(x):
    return tf.experimental.dlpack.to_dlpack(x)


def _whole(f):
    """Integers are their own."""
    return lambda x: f(x) if x.dtype in FLOATS else x


def _parts(f):
    return lambda x: tf.complex(f(math.real(x, Tout=x.dtype.real_dtype)), f(math.imag(x, Tout=x.dtype.real_dtype))) if x.dtype.is_complex else f(x)


def _never(f, join):
    """A test of floats; integers never pass or always do."""
    def test(x):
        if x.dtype.is_complex:
            return join(f(real(x)), f(imag(x)))
        if x.dtype in FLOATS:
            return f(x)
        return tf.fill(x.shape, join is math.logical_and)
    return test


square = math.square
sqrt = math.sqrt
rsqrt = wide(math.rsqrt)
exp = math.exp
log = math.log
sin = math.sin
cos = math.cos
tan = wide(special.tan)
tanh = math.tanh
sinh = wide(math.sinh)
cosh = wide(math.cosh)
asin = wide(math.asin)
acos = wide(math.acos)
atan = wide(math.atan)
asinh = wide(math.asinh)
acosh = wide(math.acosh)
atanh = wide(math.atanh)
expm1 = wide(math.expm1)
log1p = wide(math.log1p)
exp2 = wide(special.exp2)
log2 = wide(of_complex.log2)
log10 = wide(of_complex.log10)
cbrt = wide(special.cbrt)
reciprocal = of_complex.reciprocal
erf = wide(special.erf)
erfc = wide(math.erfc)
erfinv = wide(special.erfinv)
lgamma = wide(math.lgamma)
digamma = wide(special.digamma)
polygamma = wide(special.polygamma)
floor = _whole(math.floor)
ceil = _whole(math.ceil)
trunc = _whole(lambda x: math.select_v2(x < 0, math.ceil(x), math.floor(x)))
round = _parts(_whole(wide(math.rint)))
isnan = _never(math.is_nan, math.logical_or)
isinf = _never(math.is_inf, math.logical_or)
isfinite = _never(math.is_finite, math.logical_and)
stop_gradient = array.stop_gradient


def neg(x):
    return array.zeros_like(x) - x if x.dtype in UNSIGNED else math.neg(x)


def positive(x):
    return array.identity(x)


def abs(x):
    if x.dtype.is_complex:
        return special.complex_abs(x)
    return x if x.dtype in UNSIGNED else math._abs(x)


def sign(x):
    if x.dtype in UNSIGNED:
        return tf.cast(x != 0, x.dtype)
    if x.dtype.is_complex:
        y = math.sign(x)
        # NaN in one part is NaN in both.
        lost = math.is_nan(tf.math.real(x)) | math.is_nan(tf.math.imag(x))
        return math.select_v2(lost, tf.constant(np.nan * (1 + 1j), x.dtype), y)
    # Normalizes -0 to 0.
    return math.sign(x) + zero_of(x.dtype)


def real(x):
    return math.real(x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else x


def imag(x):
    return math.imag(x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else array.zeros_like(x)


def conj(x):
    return math.conj(x) if x.dtype.is_complex else x


def signbit(x):
    return tf.bitcast(x, special.BITS[x.dtype]) < 0 if x.dtype in FLOATS else x < 0


def bitwise_not(x):
    return math.logical_not(x) if x.dtype is BOOL else bits.invert(x)


def logical_not(x):
    return math.logical_not(_truth(x))


def _truth(x):
    return x if x.dtype is BOOL else math.not_equal(x, zero_of(x.dtype))


def _or_bool(f, truth):
    """Of numbers, or else of bool, for which tensorflow raises: a `try` without an exception costs nothing."""
    def either(x, y):
        try:
            return f(x, y)
        except (TypeError, tf.errors.InvalidArgumentError):
            if BOOL in (getattr(x, "dtype", None), getattr(y, "dtype", None)):
                return truth(x, y)
            raise
    return either


add = _or_bool(math.add_v2, math.logical_or)
mul = _or_bool(math.mul, math.logical_and)
sub = math.sub
equal = math.equal
not_equal = math.not_equal
less = _or_bool(math.less, lambda x, y: y & ~x)
less_equal = _or_bool(math.less_equal, lambda x, y: y | ~x)
greater = _or_bool(math.greater, lambda x, y: x & ~y)
greater_equal = _or_bool(math.greater_equal, lambda x, y: x | ~y)

def _first_of_equals(f):
    # Zeros of two signs are equal; which one comes out depends on where in a vector they stand.
    return lambda x, y: math.select_v2(x == y, x, f(x, y)) if x.dtype in FLOATS else f(x, y)


maximum, minimum = _first_of_equals(math.maximum), _first_of_equals(math.minimum)
div = of_complex.div
atan2 = wide(math.atan2)
hypot = wide(special.hypot)
logaddexp = wide(special.logaddexp)
nextafter = special.nextafter
complex = wide(special.complex, False)
fmod = special.fmod
remainder = special.remainder
floor_divide = special.floor_divide
pow = of_complex.pow


def copysign(x, y):
    # A sign bit that is read by its bits: also that of NaN.
    x, y = special.pair(x, y)
    a, b = (tf.bitcast(v, special.BITS[v.dtype]) for v in (x, y))
    return _signed(x, math.select_v2((a < 0) == (b < 0), False, True))


def _signed(x, flip):
    return math.select_v2(flip, math.neg(x), x)


def bitwise_and(x, y):
    return math.logical_and(x, y) if x.dtype is BOOL else bits.bitwise_and(x, y)


def bitwise_or(x, y):
    return math.logical_or(x, y) if x.dtype is BOOL else bits.bitwise_or(x, y)


def bitwise_xor(x, y):
    return math.not_equal(x, y) if x.dtype is BOOL else bits.bitwise_xor(x, y)


def shift_left(x, y):
    width = x.dtype.size * 8
    inside = y < width if x.dtype in UNSIGNED else (y >= 0) & (y < width)
    return math.select_v2(inside, bits.left_shift(x, math.select_v2(inside, y, array.zeros_like(y))), zero_of(x.dtype))


def shift_right(x, y):
    last = tf.constant(x.dtype.size * 8 - 1, x.dtype)
    if x.dtype in UNSIGNED:
        return math.select_v2(y > last, zero_of(x.dtype), bits.right_shift(x, math.minimum(y, last)))
    by = math.maximum(math.minimum(y, last), zero_of(x.dtype))
    return math.select_v2(y < 0, zero_of(x.dtype), bits.right_shift(x, by))


def logical_and(x, y):
    return math.logical_and(_truth(x), _truth(y))


def logical_or(x, y):
    return math.logical_or(_truth(x), _truth(y))


def logical_xor(x, y):
    return math.not_equal(_truth(x), _truth(y))


def select(where, x, y):
    return math.select_v2(where, x, y)


def clamp(low, x, high):
    if x.dtype is BOOL:
        return (x | low) & high
    return math.minimum(math.maximum(x, low), high)


def cast(x, *, dtype):
    return x if x.dtype is dtype else special.cast(x, dtype)


def bitcast(x, *, dtype):
    if x.dtype is dtype:
        return x
    if dtype is BOOL:
        return x != 0
    return tf.cast(x, dtype) if x.dtype is BOOL else tf.bitcast(x, dtype)


def reshape(x, *, shape):
    return array.reshape(x, const(shape))


def transpose(x, *, axes):
    return array.transpose(x, const(axes))


def concat(*xs, axis):
    return array.concat_v2(xs, const(axis)) if len(xs) > 1 else xs[0]


def reverse(x, *, axes):
    return array.reverse_v2(x, const(axes))


def broadcast(x, *, shape, axes):
    spread = [1] * len(shape)
    for axis, n in zip(axes, x.shape):
        spread[axis] = n
    return array.broadcast_to(array.reshape(x, const(tuple(spread))), const(shape))


def slice(x, *, start, limit, strides):
    return array.strided_slice(x, const(start), const(limit), const(strides)) if start else x


def pad(x, value, *, low, high, interior):
    around = tuple(zip(low, high))
    if x.dtype not in FLOATS or tf.executing_eagerly() and not could_possibly_record():
        return special.pad(x, value, around, interior)
    # tensorflow's padding has no derivative by the value.
    here = special.pad(tf.ones(x.shape, BOOL), const(False, BOOL), around, interior)
    return math.select_v2(here, special.pad(x, const(0.0, x.dtype), around, interior), value)


def iota(*, axis, dtype, shape):
    along = [1] * len(shape)
    along[axis] = shape[axis]
    return array.broadcast_to(tf.reshape(special.cast(tf.range(shape[axis], dtype=I64), dtype), along), const(shape))


def full(*, value, dtype, shape):
    return array.fill(const(shape, I64), tf.constant(np.asarray(value).astype(dtype.as_numpy_dtype)))


def dynamic_slice(x, start, *, sizes):
    room = tuple(n - s for n, s in zip(x.shape, sizes))
    begin = tf.clip_by_value(index(start), const((0,) * len(sizes), I64), const(room, I64))
    return array._slice(x, begin, const(sizes, I64))


def dynamic_update_slice(x, update, start):
    room = const(tuple(n - s for n, s in zip(x.shape, update.shape)), I64)
    begin = tf.clip_by_value(index(start), const((0,) * len(x.shape), I64), room)
    around = tf.stack([begin, room - begin], -1)
    here = array.pad_v2(tf.ones(update.shape, BOOL), around, const(False, BOOL))
    moved = array.pad_v2(update, around, zero_of(x.dtype))
    return array.reshape(math.select_v2(here, moved, x), const(tuple(x.shape)))


gather = indexing.gather
scatter = indexing.scatter
scatter_add = indexing.scatter_add
scatter_mul = indexing.scatter_mul
scatter_min = indexing.scatter_min
scatter_max = indexing.scatter_max


def nonzero(x, *, size):
    if len(x.shape) == 0:
        return tf.zeros((size, 0), I64)
    places = tf.concat([tf.where(_truth(x)), tf.fill((size, 1), I64.as_numpy_dtype(1)) * const(tuple(x.shape), I64)], 0)
    return tf.reshape(places[:size], (size, len(x.shape)))


def searchsorted(sorted, values, *, right):
    n, m = sorted.shape[-1], values.shape[-1]
    a, b = order(sorted), order(values)
    a, b = (tf.reshape(a, (1, n)), tf.reshape(b, (1, -1))) if len(sorted.shape) == 1 else (tf.reshape(a, (-1, n)), tf.reshape(b, (-1, m)))
    if n == 0 or 0 in values.shape:
        return tf.zeros(values.shape, I64)
    f = array.upper_bound if right else array.lower_bound
    return tf.reshape(f(a, b, out_type=I64), values.shape)


@wide
def reduce_sum(x, *, axes):
    rank = len(x.shape)
    if x.dtype in FLOATS and rank > 1 and None not in x.shape and axes == tuple(range(rank - 1)) and 0 not in x.shape:
        # Many times as fast as the general op. In graphs tensorflow (2.21, with oneDNN) fuses it with a weight
        # gradient that reads another result of the same node, which sums the wrong one; it does not see past a reshape.
        return nn.bias_add_grad(x if tf.executing_eagerly() else array.reshape(x, const((1, -1, x.shape[-1]))))
    return math._sum(x, const(axes))


@wide
def reduce_prod(x, *, axes):
    return math.prod(x, const(axes))


def reduce_any(x, *, axes):
    return math._any(x, const(axes))


def reduce_all(x, *, axes):
    return math._all(x, const(axes))


def reduce_max(x, *, axes):
    return math._any(x, const(axes)) if x.dtype is BOOL else math._max(x, const(axes))


def reduce_min(x, *, axes):
    return math._all(x, const(axes)) if x.dtype is BOOL else math._min(x, const(axes))


def _arg(f):
    def arg(x, *, axis):
        if x.dtype is BOOL:
            x = tf.cast(x, tf.uint8)
        if x.dtype not in FLOATS:
            return f(x, const(axis))
        nan = math.is_nan(x)
        first = math.arg_max(tf.cast(nan, tf.uint8), const(axis))
        return math.select_v2(math._any(nan, const(axis)), first, f(x, const(axis)))
    return arg


argmax = _arg(math.arg_max)
argmin = _arg(math.arg_min)
cumulative_sum = wide(lambda x, *, axis, reverse: math.cumsum(x, const(axis), reverse=reverse))
cumulative_prod = wide(lambda x, *, axis, reverse: math.cumprod(x, const(axis), reverse=reverse))
cumulative_logsumexp = wide(special.cumulative_logsumexp)


def _running(f, truth):
    def running(x, *, axis, reverse):
        """The same over twice as many elements in each step."""
        f_, n, step = truth if x.dtype is BOOL else f, x.shape[axis], 1
        while step < n:
            one, rest = special.along(x, axis, 0, step), special.along(x, axis, step, n)
            if reverse:
                one, rest = special.along(x, axis, n - step, n), special.along(x, axis, 0, n - step)
                x = tf.concat([f_(rest, special.along(x, axis, step, n)), one], axis)
            else:
                x = tf.concat([one, f_(rest, special.along(x, axis, 0, n - step))], axis)
            step *= 2
        return x
    return running


cumulative_max = _running(math.maximum, math.logical_or)
cumulative_min = _running(math.minimum, math.logical_and)


def _ranked(keys):
    """The stable order of the last axis by descending keys."""
    places = None
    for key in reversed(keys):
        if places is not None:
            key = tf.gather(key, places, batch_dims=len(key.shape) - 1)
        _, found = nn.top_kv2(key, const(key.shape[-1]), index_type=I64)
        places = found if places is None else tf.gather(places, found, batch_dims=len(key.shape) - 1)
    return places


def sort(*xs, axis, keys, descending, stable):
    rank = len(xs[0].shape)
    turn = (*(a for a in range(rank) if a != axis), axis)
    moved = [x if axis == rank - 1 else tf.transpose(x, turn) for x in xs]
    places = _ranked([order(x, True) if descending else bits.invert(order(x)) for x in moved[:keys]])
    out = [tf.gather(x, places, batch_dims=rank - 1) for x in moved]
    back = np.argsort(turn)
    out = [x if axis == rank - 1 else tf.transpose(x, back) for x in out]
    return out[0] if len(xs) == 1 else tuple(out)


def top_k(x, *, k):
    _, places = nn.top_kv2(order(x), const(k), index_type=I64)
    return tf.gather(x, places, batch_dims=len(x.shape) - 1), places


dot_general = special.dot_general
conv_general = special.conv_general
bias_relu, relu_grad, conv_transpose_input_grad = kernels.bias_relu, kernels.relu_grad, kernels.conv_transpose_input_grad
reduce_window_sum = special.reduce_window_sum
reduce_window_prod = special.reduce_window_prod
reduce_window_max = special.reduce_window_max
reduce_window_min = special.reduce_window_min
window_gather_max = special.window_gather_max
window_gather_min = special.window_gather_min
window_scatter_max = special.window_scatter_max
window_scatter_min = special.window_scatter_min


def cholesky(x, *, upper):
    y = tf.linalg.cholesky(x)
    if tf.executing_eagerly() and bool(math._any(isnan(y), const(tuple(range(len(y.shape)))))):
        raise ValueError("cholesky: the matrix is not positive definite")
    return tf.linalg.adjoint(y) if upper else y


def qr(x, *, complete):
    # tensorflow squares the elements: columns with large ones are made smaller by a power of two, which R takes back.
    size = tf.maximum(math._abs(tf.math.real(x)), math._abs(tf.math.imag(x))) if x.dtype.is_complex else math._abs(x)
    limit, down = (1e150, 2.0**-600) if size.dtype is F64 else (1e17, 2.0**-80)
    large = tf.reduce_max(size, -2, keepdims=True) > limit
    down, up = (math.cast(tf.where(large, const(s, size.dtype), const(1.0, size.dtype)), x.dtype) for s in (down, 1 / down))
    q, r = tf.linalg.qr(x * down, full_matrices=complete)
    return q, r * up


def svd(x, *, complete, vectors):
    if not vectors:
        return tf.linalg.svd(x, compute_uv=False)
    s, u, v = tf.linalg.svd(x, full_matrices=complete)
    return u, s, tf.linalg.adjoint(v)


def eigh(x, *, vectors):
    w, v = tf.linalg.eigh(x) if vectors else (tf.linalg.eigvalsh(x), None)
    return (real(w), v) if vectors else real(w)


def eig(x, *, vectors):
    return tuple(tf.linalg.eig(x)) if vectors else tf.linalg.eigvals(x)


lu = special.lu


def triangular_solve(a, b, *, left, lower, transpose, unit_diagonal):
    if unit_diagonal:
        a = tf.linalg.set_diag(a, tf.ones(a.shape[:-1], a.dtype))
    adjoint = transpose == "adjoint"
    if transpose == "yes":
        a, lower = tf.linalg.matrix_transpose(a), not lower
    if left:
        return tf.linalg.triangular_solve(a, b, lower=lower, adjoint=adjoint)
    # x a = b is a' x' = b', with the transposed.
    if adjoint:
        y = tf.linalg.triangular_solve(math.conj(a) if a.dtype.is_complex else a, tf.linalg.matrix_transpose(b), lower=lower)
    else:
        y = tf.linalg.triangular_solve(tf.linalg.matrix_transpose(a), tf.linalg.matrix_transpose(b), lower=not lower)
    return tf.linalg.matrix_transpose(y)


def _last(f, x, axis):
    """A function of the last axis, along another one."""
    rank = len(x.shape)
    turn = (*(a for a in range(rank) if a != axis), axis)
    return f(x) if axis == rank - 1 else tf.transpose(f(tf.transpose(x, turn)), np.argsort(turn))


def fft(x, *, axes, length):
    for axis in axes:
        x = _last(tf.signal.fft, x, axis)
    return x


def ifft(x, *, axes, length):
    for axis in axes:
        x = _last(tf.signal.ifft, x, axis)
    return x


def rfft(x, *, axes, length):
    return fft(_last(tf.signal.rfft, x, axes[-1]), axes=axes[:-1], length=0)


def irfft(x, *, axes, length):
    x = ifft(x, axes=axes[:-1], length=0)
    return _last(lambda x: tf.signal.irfft(x, (length,)), x, axes[-1])


def relu(x):
    # A kernel that keeps NaN and takes no -0.
    return math.select_v2(x <= 0, zero_of(x.dtype), x) if x.dtype in FLOATS else math.maximum(x, zero_of(x.dtype))


@wide
def leaky_relu(x, *, negative_slope):
    if x.dtype is F32:
        return nn.leaky_relu(x, alpha=negative_slope)
    # The kernel stores the factor as f32.
    return math.select_v2(x > 0, x, const(negative_slope, F64) * x)


selu = wide(nn.selu)
sigmoid = wide(math.sigmoid)
softplus = wide(special.softplus)
log_sigmoid = wide(lambda x: -special.softplus(-x))
silu = wide(lambda x: x * math.sigmoid(x))
mish = wide(lambda x: x * math.tanh(special.softplus(x)))


def elu(x, *, alpha):
    return wide(nn.elu)(x) if alpha == 1 else NotImplemented


@wide
def gelu(x, *, approximate):
    half = const(0.5, x.dtype)
    if approximate:
        return half * x * (1 + math.tanh(const(0.7978845608028654, x.dtype) * (x + const(0.044715, x.dtype) * x * x * x)))
    return half * x * math.erfc(x * const(-0.7071067811865476, x.dtype))


softmax = wide(lambda x, *, axis: _last(nn.softmax, x, axis))
log_softmax = wide(lambda x, *, axis: _last(nn.log_softmax, x, axis))


_COMPUTED = type(tf.constant(0))


def _last_alone(f):
    """A function of the last axis; another one goes the ordinary way, and so does an array that is yet to get its axes."""

    def call(x, axis):
        if axis != -1 or type(x) is not _COMPUTED and x.shape.rank is None:
            raise ValueError(axis)
        return f(x)

    return call


REFUSALS = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError, TypeError, ValueError)
FAST_PATHS = {"softmax": (_last_alone(nn.softmax), "axis"), "log_softmax": (_last_alone(nn.log_softmax), "axis")}

logsumexp = wide(lambda x, *, axes: tf.reduce_logsumexp(x, axes))


@wide
def mean(x, *, axes):
    return math.mean(x, const(axes))


@wide
def layer_norm(x, scale=None, bias=None, *, axis, epsilon):
    axes = const(tuple(range(axis, len(x.shape))))
    d = x - math.mean(x, axes, keep_dims=True)
    y = d * math.rsqrt(math.mean(math.square(d), axes, keep_dims=True) + const(epsilon, x.dtype))
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def linear(x, w, b=None):
    rank = len(x.shape)
    if x.dtype in HALF and b is not None:
        return math.cast(linear(math.cast(x, F32), math.cast(w, F32), math.cast(b, F32)), x.dtype)
    y = dot_general(x, w, lhs_batch=(), rhs_batch=(), lhs_contract=(rank - 1,), rhs_contract=(1,))
    return y if b is None else add(y, b)


def embedding(table, indices):
    i = index(indices)
    return array.gather_v2(table, math.select_v2(i < 0, i + table.shape[0], i), const(0))


@wide
def attention(q, k, v, mask=None, *, scale, causal):
    scores, keep = math.batch_mat_mul_v2(q * const(scale, q.dtype), k, adj_y=True), None
    if mask is not None and mask.dtype is BOOL:
        keep = mask
    elif mask is not None:
        scores = scores + mask
    if causal:
        lower = tf.constant(np.tri(q.shape[-2], k.shape[-2], dtype=bool))
        keep = lower if keep is None else keep & lower
    if keep is None:
        return math.batch_mat_mul_v2(nn.softmax(scores), v)
    # A fully masked row gives zeros, and no NaN in its derivative.
    zero, some = const(0.0, q.dtype), math._any(keep, const((-1,)), keep_dims=True)
    scores = math.select_v2(some, math.select_v2(keep, scores, const(float("-inf"), q.dtype)), zero)
    return math.batch_mat_mul_v2(math.select_v2(some, nn.softmax(scores), zero), v)


def conv_transpose(x, w, *, strides, padding, rhs_dilation, lhs_layout, rhs_layout, out_layout, feature_groups):
    w = tf.transpose(w, rhs_layout)
    filters, inner, *kernel = w.shape
    w = tf.reshape(w, (feature_groups, filters // feature_groups, inner, *kernel))
    w = tf.transpose(w, (0, 2, 1, *range(3, len(w.shape))))
    w = tf.reverse(tf.reshape(w, (feature_groups * inner, filters // feature_groups, *kernel)), range(2, len(kernel) + 2)) if kernel else w
    reach = [(k - 1) * d for k, d in zip(kernel, rhs_dilation)]
    return conv_general(x, w, strides=(1,) * len(strides), padding=tuple((r - l, r - h) for r, (l, h) in zip(reach, padding)),
                        lhs_dilation=strides, rhs_dilation=rhs_dilation, lhs_layout=lhs_layout, rhs_layout=tuple(range(len(w.shape))),
                        out_layout=out_layout, feature_groups=feature_groups, batch_groups=1)


def einsum(*xs, equation):
    dtype = xs[0].dtype
    if dtype in (F32, F64) or dtype.is_complex:
        return tf.einsum(equation, *xs)
    return NotImplemented


def one_hot(x, *, depth, dtype):
    places = special.cast(tf.range(depth, dtype=I64), x.dtype) if depth <= x.dtype.max else None
    return NotImplemented if places is None else special.cast(tf.expand_dims(x, -1) == places, dtype)


@wide
def cross_entropy(x, labels):
    at = tf.gather(x, index(labels), batch_dims=len(x.shape) - 1)
    return tf.reduce_logsumexp(x, -1) - at


def solve(a, b):
    vector = len(b.shape) + 1 == len(a.shape)
    try:
        y = linalg.matrix_solve(a, tf.expand_dims(b, -1) if vector else b)
    except tf.errors.InvalidArgumentError:
        # The kernel rejects singular matrices, which the LU factors support.
        return NotImplemented
    return tf.squeeze(y, -1) if vector else y


def inv(x):
    try:
        return linalg.matrix_inverse(x)
    except tf.errors.InvalidArgumentError:
        return NotImplemented


det = tf.linalg.det
random_bits = control.random_bits


def for_source():
    return control.for_source(globals())


for _f in list(globals().values()):
    if getattr(_f, "__module__", None) == __name__ and callable(_f):
        # Nothing here is for autograph to rewrite: no branch depends on values.
        _f.autograph_info__ = {}
