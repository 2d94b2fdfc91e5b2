"""Functions that printed source calls besides the ops: sizes, branches and loops, whose bodies are functions of `ops` and
arrays; and custom derivatives and random numbers.

Source also runs on arrays with an unknown batch size: `for_source` returns ops that support it.
"""
import functools
import types

import numpy as np
import tensorflow as tf
from tensorflow.python.eager.record import could_possibly_record
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_math_ops as math

from clematis._dialects import tensorflow_special as special

I32, I64 = tf.int32, tf.int64
# The maximum number of steps of an unrolled loop.
MOST_STEPS = 64


def size(x, axis):
    n = x.shape[axis]
    return tf.shape(x)[axis] if n is None else n


def run_cond(ops, which, branches, args):
    which = tf.reshape(tf.cast(which, tf.int32), ())
    which = tf.clip_by_value(which, 0, len(branches) - 1)
    # What tensorflow makes of one result is no tuple.
    out = tf.switch_case(which, [lambda way=way: way(ops, *args) for way in branches])
    return tuple(out) if isinstance(out, (list, tuple)) else (out,)


def run_while(ops, test, body, test_consts, body_consts, start):
    shapes = tuple(x.shape for x in start)
    go_on = lambda *xs: tf.reshape(test(ops, *test_consts, *xs)[0], ())
    step = lambda *xs: tuple(body(ops, *body_consts, *xs))
    return tuple(tf.while_loop(go_on, step, tuple(start), shape_invariants=shapes))


def run_compiled(ops, body, args):
    """A function that tensorflow's compiler makes one loop of, or a few."""
    return tf.function(lambda *xs: body(ops, *xs), autograph=False, jit_compile=True)(*args)


def after(x):
    """Where ops begin that have to wait for x though they do not read it."""
    return tf.control_dependencies([x])


def run_scan(ops, body, consts, start, rows, length, reverse):
    carries = len(start)
    if isinstance(length, int) and length == 0:
        out = body(ops, *consts, *start, *(tf.zeros(x.shape[1:], x.dtype) for x in rows))
        return tuple(start) + tuple(tf.expand_dims(x, 0)[:0] for x in out[carries:])
    made = []

    def first(*given):
        # The first step determines the dtypes of its results.
        out = body(ops, *consts, *start, *given)
        return out[:carries], out[carries:]
    begin = length - 1 if reverse else 0
    xs, row = first(*(x[begin] for x in rows))
    made = [tf.TensorArray(x.dtype, length, element_shape=x.shape).write(begin, x) for x in row]

    def step(i, xs, made):
        at = length - 1 - i if reverse else i
        out = body(ops, *consts, *xs, *(x[at] for x in rows))
        return i + 1, tuple(out[:carries]), tuple(m.write(at, x) for m, x in zip(made, out[carries:]))
    _, xs, made = tf.while_loop(lambda i, xs, made: i < length, step, (tf.constant(1), tuple(xs), tuple(made)))
    return tuple(xs) + tuple(m.stack() for m in made)


def run_steps(ops, body, consts, start, rows, length, reverse):
    """A loop unrolled, if it has few steps: tensorflow's loops cost more than such steps do."""
    if not 0 < length <= MOST_STEPS:
        return run_scan(ops, body, consts, start, rows, length, reverse)
    carries, xs, made = len(start), tuple(start), [None] * length
    rows = [array.unpack(x, length, 0) for x in rows]
    for at in reversed(range(length)) if reverse else range(length):
        out = body(ops, *consts, *xs, *(x[at] for x in rows))
        xs, made[at] = tuple(out[:carries]), out[carries:]
    return xs + tuple(array.pack(each, 0) for each in zip(*made))


def _is_open(x):
    """Whether a size is unknown."""
    return None in x.shape


def sizes(x):
    """Numbers, and tensors where there are none."""
    return tuple(size(x, axis) for axis in range(len(x.shape)))


def _packed(shape, dtype=I32):
    """Sizes as one tensor."""
    return special.packed(shape, dtype)


def _settled(x, shape):
    """x with its static shape set to what is known of its sizes."""
    x.set_shape([n if type(n) is int else None for n in shape])
    return x


def _product(ns):
    return functools.reduce(lambda a, b: a * b, ns, 1)


def _reshape(x, *, shape):
    return _settled(array.reshape(x, _packed(shape)), [None if type(n) is int and n < 0 else n for n in shape])


def _broadcast(x, *, shape, axes):
    spread = [1] * len(shape)
    for axis, n in zip(axes, sizes(x)):
        spread[axis] = n
    return _settled(array.broadcast_to(_reshape(x, shape=tuple(spread)), _packed(shape)), shape)


def _slice(x, *, start, limit, strides):
    out = array.strided_slice(x, _packed(start), _packed(limit), _packed(strides))
    known = [None if type(a) is not int or type(b) is not int else len(range(a, b, s)) for a, b, s in zip(start, limit, strides)]
    return _settled(out, known)


def _full(*, value, dtype, shape):
    one = tf.reshape(tf.constant(value, dtype), ())
    return _settled(array.fill(_packed(shape, I64), one), shape)


def _iota(*, axis, dtype, shape):
    along = [1] * len(shape)
    along[axis] = -1
    line = special.cast(tf.range(tf.cast(shape[axis], I64)), dtype)
    return _settled(array.broadcast_to(tf.reshape(line, along), _packed(shape)), shape)


def _pad(x, value, *, low, high, interior):
    around = tuple(zip(low, high))
    here = special.pad(tf.ones_like(x, tf.bool), tf.constant(False), around, interior)
    return math.select_v2(here, special.pad(x, tf.zeros((), x.dtype), around, interior), value)


def _dot_general(x, y, *, lhs_batch, rhs_batch, lhs_contract, rhs_contract):
    a, b = sizes(x), sizes(y)
    free = tuple(i for i in range(len(a)) if i not in lhs_batch and i not in lhs_contract)
    more = tuple(i for i in range(len(b)) if i not in rhs_batch and i not in rhs_contract)
    batch, rows, columns = [a[i] for i in lhs_batch], [a[i] for i in free], [b[i] for i in more]
    inner = _product([a[i] for i in lhs_contract])
    side = [_product(batch)] if lhs_batch else []
    left = _reshape(special.permuted(x, (*lhs_batch, *free, *lhs_contract)), shape=(*side, _product(rows), inner))
    right = _reshape(special.permuted(y, (*rhs_batch, *rhs_contract, *more)), shape=(*side, inner, _product(columns)))
    plain = functools.partial(
        special.dot_general, lhs_batch=(0,) if lhs_batch else (), rhs_batch=(0,) if lhs_batch else (),
        lhs_contract=(len(side) + 1,), rhs_contract=(len(side),))
    return _reshape(special._multiplied(_matrices)(left, right) if lhs_batch else plain(left, right), shape=(*batch, *rows, *columns))


def _matrices(x, y):
    return math.batch_mat_mul_v2(x, y)


def _random_bits(key, *, dtype, shape):
    count = tf.cast(_product(shape), I64)
    return _settled(tf.reshape(threefry(key, dtype, count), _packed(shape)), shape)


def _plain_or(plain, open_):
    """The dialect's own function where all sizes are known, the other one where not."""
    def either(*xs, **kwargs):
        known = all(not _is_open(x) for x in xs if isinstance(x, tf.Tensor))
        for value in kwargs.values():
            known = known and (not isinstance(value, tuple) or not any(isinstance(n, tf.Tensor) for n in value))
        return plain(*xs, **kwargs) if known else open_(*xs, **kwargs)
    return either


def for_source(ops):
    """The ops, with support for unknown sizes."""
    own = {
        "reshape": _reshape, "broadcast": _broadcast, "slice": _slice, "full": _full, "iota": _iota, "pad": _pad,
        "dot_general": _dot_general, "random_bits": _random_bits,
    }
    out = types.SimpleNamespace(**ops)
    for name, f in own.items():
        setattr(out, name, _plain_or(ops[name], f))
    # They call each other by their names, so those that call one of these are made of it again.
    out.linear = functools.partial(_linear, out)
    return out


def _linear(ops, x, w, b=None):
    y = ops.dot_general(x, w, lhs_batch=(), rhs_batch=(), lhs_contract=(len(x.shape) - 1,), rhs_contract=(1,))
    return y if b is None else ops.add(y, b)


def random_bits(key, *, dtype, shape):
    return _bits(dtype, shape, key.dtype)(key)


@functools.lru_cache(256)
def _bits(dtype, shape, key_dtype):
    """As one graph."""
    count = int(np.prod(shape, dtype=np.int64))
    draw = tf.function(lambda key: tf.reshape(threefry(key, dtype, count), shape), autograph=False)
    return draw.get_concrete_function(tf.TensorSpec((2,), key_dtype))


def threefry(key, dtype, count):
    """Threefry-2x32 with 20 rounds; word i is half i mod 2 of block i / 2."""
    count = count * (2 if dtype is tf.uint64 else 1)
    key = tf.cast(key, tf.uint32)
    word = lambda v: tf.constant(v, tf.uint32)
    schedule = key[0], key[1], tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(word(0x1BD11BDA), key[0]), key[1])
    blocks = tf.range((count + 1) // 2, dtype=I64)
    a = tf.cast(tf.bitwise.right_shift(blocks, special.const(32, I64)), tf.uint32) + schedule[0]
    b = tf.cast(blocks, tf.uint32) + schedule[1]
    for turn in range(20):
        by = (13, 15, 26, 6, 17, 29, 16, 24)[turn % 8]
        a = a + b
        b = tf.bitwise.bitwise_or(tf.bitwise.left_shift(b, word(by)), tf.bitwise.right_shift(b, word(32 - by)))
        b = tf.bitwise.bitwise_xor(b, a)
        if turn % 4 == 3:
            s = turn // 4 + 1
            a, b = a + schedule[s % 3], b + schedule[(s + 1) % 3] + word(s)
    words = tf.reshape(tf.stack([a, b], -1), (-1,))[:count]
    if dtype is tf.uint64:
        high, low = tf.unstack(tf.cast(tf.reshape(words, (-1, 2)), tf.uint64), axis=-1)
        words = tf.bitwise.bitwise_or(tf.bitwise.left_shift(high, tf.constant(32, tf.uint64)), low)
    return tf.cast(words, dtype)


def custom_vjp(forward, backward, xs):
    """Runs a function of tensorflow tensors with a custom gradient."""
    if tf.executing_eagerly() and not could_possibly_record():
        return NotImplemented

    @tf.custom_gradient
    def f(*xs):
        ys = forward(*xs)

        def grad(*cts, variables=None):
            # Complex cotangents are the conjugates of ours.
            cts = [tf.zeros_like(y) if ct is None else tf.math.conj(tf.convert_to_tensor(ct)) for ct, y in zip(cts, ys)]
            # Through the rule again if a second derivative is recorded.
            known = f(*xs) if not tf.executing_eagerly() or could_possibly_record() else ys
            back = [None if dx is None else tf.math.conj(dx) for dx in backward(xs, known, cts)]
            return back if variables is None else (back, [None] * len(variables))

        return ys, grad

    return f(*xs)


def variable_like(x, y):
    return tf.Variable(y) if isinstance(x, tf.Variable) and tf.executing_eagerly() else y
