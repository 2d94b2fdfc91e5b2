"""Complex division, power and logarithm, for which tensorflow gives NaN at zero and infinity."""
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_math_ops as math

from clematis._dialects import tensorflow_special as special
from clematis._dialects.tensorflow_special import const

# One object, by which `const` finds what it made.
_NAN = float("nan")


def div(x, y):
    out = math.real_div(x, y)
    if not out.dtype.is_complex:
        return out
    # Each part over a zero without a sign, as NumPy and torch have it.
    x, y = tf.convert_to_tensor(x, out.dtype), tf.convert_to_tensor(y, out.dtype)
    real, imag = tf.math.real(x), tf.math.imag(x)
    zero = const(0.0, real.dtype)
    return math.select_v2(math.equal(y, array.zeros_like(y)), tf.complex(real / zero, imag / zero), out)


def reciprocal(x):
    return div(array.ones_like(x), x) if x.dtype.is_complex else math.reciprocal(x)


def pow(x, y):
    dtype = x.dtype if isinstance(x, tf.Tensor) else y.dtype
    if not dtype.is_complex:
        return special.pow(x, y)
    # Of a base of 0 tensorflow takes the logarithm.
    x, y = tf.convert_to_tensor(x, dtype), tf.convert_to_tensor(y, dtype)
    real = tf.math.real(y)
    one, zero, nan = (const(value, real.dtype) for value in (1.0, 0.0, _NAN))
    none = math.equal(y, array.zeros_like(y))
    of_zero = math.select_v2(none, one, math.select_v2(real > zero, zero, nan))
    of_zero = tf.complex(of_zero, math.select_v2(math.is_nan(of_zero), of_zero, zero))
    is_zero = math.equal(x, array.zeros_like(x))
    return math.select_v2(is_zero, of_zero, math._pow(math.select_v2(is_zero, array.ones_like(x), x), y))


def _to_base(base):
    def log(x):
        y = math.log(x)
        factor = 1 / np.log(base)
        if not x.dtype.is_complex:
            return y * const(factor, x.dtype)
        # Part by part: infinity times 0 would be NaN.
        real, imag = tf.math.real(y), tf.math.imag(y)
        factor = const(factor, real.dtype)
        return tf.complex(real * factor, imag * factor)
    return log


log2, log10 = _to_base(2), _to_base(10)
