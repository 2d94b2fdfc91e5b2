"""Gather and scatter: indices become offsets in the flat array, also if sizes are unknown."""
import functools

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_array_ops as array
from tensorflow.python.ops import gen_math_ops as math

from clematis._dialects.tensorflow_special import BOOL, FLOATS, I32, I64, are_known, const, index, packed, sizes_of, wide, zero_of


@functools.lru_cache(4096)
def _known_offsets(shape, strides):
    return sum((np.arange(n, dtype=np.int64) * s).reshape([-1 if a == i else 1 for a in range(len(shape))])
               for i, (n, s) in enumerate(zip(shape, strides))) if shape else np.zeros((), np.int64)


def _offsets(shape, strides):
    """The flat offset of every element of a block."""
    if are_known(shape) and are_known(strides):
        return tf.constant(_known_offsets(shape, strides))
    out = const(0, I64)
    for i, (n, stride) in enumerate(zip(shape, strides)):
        along = [1] * len(shape)
        along[i] = -1
        out = out + array.reshape(tf.range(tf.cast(n, I64)) * stride, const(tuple(along)))
    return out


@functools.lru_cache(4096)
def _known_strides(shape):
    return tuple(int(np.prod(shape[i + 1:], dtype=np.int64)) for i in range(len(shape)))


def _strides(shape):
    if are_known(shape):
        return _known_strides(tuple(shape))
    strides = [1]
    for n in reversed(shape[1:]):
        strides.append(strides[-1] * n)
    return tuple(reversed(strides[: len(shape)]))


def _begins(shape, slice_sizes, indices, index_map, operand_batch, index_batch, mode):
    """The flat offset of the slice at each index vector, and whether it is in range."""
    i, strides = index(indices), _strides(shape)
    last = packed([shape[a] - slice_sizes[a] for a in index_map])
    zero = const(0, I64)
    inside = None if mode == "clip" else math._all((i >= zero) & (i <= last), const((-1,)))
    i = math.maximum(math.minimum(i, last), zero)
    flat = math._sum(i * packed([strides[a] for a in index_map]), const((-1,)))
    for a, b in zip(operand_batch, index_batch):
        spread, n = [1] * (len(indices.shape) - 1), indices.shape[b]
        spread[b] = -1
        line = tf.constant(np.arange(n, dtype=np.int64)) if n is not None else tf.range(tf.shape(indices, I64)[b])
        flat = flat + tf.reshape(line, spread) * strides[a]
    return flat, inside


def _placed(rows, kept, at):
    """The permutation that moves the kept axes of `rows + kept` to their positions."""
    rest, own = iter(range(rows)), iter(range(rows, rows + kept))
    return tuple(next(own) if i in at else next(rest) for i in range(rows + kept))


def gather(x, indices, *, offset_axes, collapsed, index_map, operand_batch, index_batch, slice_sizes, mode):
    shape, rows = sizes_of(x), sizes_of(indices)[:-1]
    slice_sizes = tuple(n if type(n) is int else math.cast(n, I64) for n in slice_sizes)
    kept = tuple(a for a in range(len(shape)) if a not in collapsed and a not in operand_batch)
    sizes = tuple(slice_sizes[a] for a in kept)
    turn = _placed(len(rows), len(kept), offset_axes)
    if any(type(n) is int and n == 0 for n in (*rows, *sizes)):
        return tf.zeros(packed([(*rows, *sizes)[a] for a in turn]), x.dtype)
    others = [(n, m) for a, (n, m) in enumerate(zip(shape, slice_sizes)) if a not in index_map]
    whole = all(are_known(pair) and pair[0] == pair[1] for pair in others)
    if len(index_map) == 1 and not operand_batch and are_known(slice_sizes) and slice_sizes[index_map[0]] == 1 and whole:
        axis = index_map[0]
        i, last = index(indices), packed([shape[axis] - 1])
        i = array.reshape(i, packed(rows))
        inside = None if mode == "clip" else (i >= const(0, I64)) & (i <= last)
        i = math.maximum(math.minimum(i, last), const(0, I64))
        if axis:
            front = (axis, *(a for a in range(len(shape)) if a != axis))
            x = array.transpose(x, const(front))
        y = array.reshape(array.gather_v2(x, i, const(0)), packed((*rows, *sizes)))
    else:
        flat, inside = _begins(shape, slice_sizes, indices, index_map, operand_batch, index_batch, mode)
        offsets = _offsets(sizes, tuple(_strides(shape)[a] for a in kept))
        places = array.reshape(flat, packed((*rows, *(1,) * len(kept)))) + offsets
        y = array.gather_v2(array.reshape(x, const((-1,))), places, const(0))
    if inside is not None:
        y = math.select_v2(array.reshape(inside, packed((*rows, *(1,) * len(kept)))), y, zero_of(y.dtype))
    return y if turn == tuple(range(len(turn))) else array.transpose(y, const(turn))


def _scatter(f):
    def scatter(x, indices, updates, *, window_axes, inserted, index_map, operand_batch, index_batch, mode):
        shape, rows = sizes_of(x), sizes_of(indices)[:-1]
        if 0 in updates.shape or 0 in x.shape:
            return x
        kept = tuple(a for a in range(len(shape)) if a not in inserted and a not in operand_batch)
        slice_sizes, updated = [1] * len(shape), sizes_of(updates)
        for a, w in zip(kept, window_axes):
            slice_sizes[a] = updated[w]
        sizes = tuple(slice_sizes[a] for a in kept)
        turn = (*(a for a in range(len(updates.shape)) if a not in window_axes), *window_axes)
        if turn != tuple(range(len(turn))):
            updates = array.transpose(updates, const(turn))
        flat, inside = _begins(shape, slice_sizes, indices, index_map, operand_batch, index_batch, mode)
        places = array.reshape(flat, packed((*rows, *(1,) * len(kept)))) + _offsets(sizes, tuple(_strides(shape)[a] for a in kept))
        count = const(int(np.prod(shape)), I64) if are_known(shape) else tf.size(x, I64)
        one = array.reshape(x, const((-1,)))
        if inside is not None:
            # Dropped updates go to an element past the last.
            inside = array.reshape(inside, packed((*rows, *(1,) * len(kept))))
            places = math.select_v2(inside, places, count)
            one = array.concat_v2([one, tf.zeros((1,), x.dtype)], const(0))
        out = f(one, array.reshape(places, const((-1, 1))), array.reshape(updates, const((-1,))))
        return array.reshape(out if inside is None else out[:count], packed(shape))
    return scatter


def _sum_at(x, places, updates):
    if x.dtype is BOOL:
        return _sum_at(math.cast(x, I32), places, math.cast(updates, I32)) > 0
    return wide(lambda x, updates: array.tensor_scatter_add(x, places, updates))(x, updates)


def _product_at(x, places, updates):
    if x.dtype is BOOL:
        return x & (_sum_at(tf.zeros(packed(sizes_of(x)), I32), places, math.cast(~updates, I32)) == 0)
    flat, n = array.reshape(places, const((-1,))), packed(sizes_of(x))[0]
    return wide(lambda x, updates: x * math.unsorted_segment_prod(updates, flat, n))(x, updates)


def _extreme_at(f):
    def extreme(x, places, updates):
        if x.dtype is BOOL:
            return math.cast(f(math.cast(x, I32), places, math.cast(updates, I32)), BOOL)
        out = f(x, places, updates)
        if x.dtype not in FLOATS:
            return out
        hit = array.tensor_scatter_add(math.cast(math.is_nan(x), I32), places, math.cast(math.is_nan(updates), I32)) > 0
        return math.select_v2(hit, tf.constant(np.nan, x.dtype), out)
    return extreme


scatter = _scatter(array.tensor_scatter_update)
scatter_add = _scatter(_sum_at)
scatter_mul = _scatter(_product_at)
scatter_min = _scatter(_extreme_at(array.tensor_scatter_min))
scatter_max = _scatter(_extreme_at(array.tensor_scatter_max))
