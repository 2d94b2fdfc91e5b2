"""A backend written for a test: lists of Python numbers in a small class, and a handful of ops."""

import itertools
import math
import struct

DTYPES = {"bool": "bool", "i32": "i32", "i64": "i64", "f32": "f32", "f64": "f64"}
CODES = {"bool": "?", "i32": "i", "i64": "q", "f32": "f", "f64": "d"}


class Array:
    """A shape, an element type and the elements in row-major order."""

    def __init__(self, items, dtype, shape):
        cut = {"f32": lambda v: struct.unpack("f", struct.pack("f", v))[0], "bool": bool}.get(dtype, lambda v: v)
        self.items, self.dtype, self.shape = [cut(v) for v in items], dtype, tuple(shape)


ARRAYS = (Array,)
VERSION = "6.0"


def from_bytes(buffer, dtype, shape):
    return Array(struct.unpack(f"{math.prod(shape)}{CODES[dtype]}", buffer), dtype, shape)


def to_bytes(x):
    return struct.pack(f"{len(x.items)}{CODES[x.dtype]}", *x.items)


def _places(shape):
    return itertools.product(*map(range, shape))


def _at(x, place):
    """The element at a place of a larger shape that x is spread over."""
    at = 0
    for size, i in zip(x.shape, place[len(place) - len(x.shape) :]):
        at = at * size + (i if size > 1 else 0)
    return x.items[at]


def _shape(x, y):
    pairs = itertools.zip_longest(reversed(x.shape), reversed(y.shape), fillvalue=1)
    return tuple(max(p) if min(p) else 0 for p in pairs)[::-1]


def _binary(f, dtype=None):
    def run(x, y):
        shape = _shape(x, y)
        return Array([f(_at(x, p), _at(y, p)) for p in _places(shape)], dtype or x.dtype, shape)

    return run


def _unary(f):
    return lambda x: Array(map(f, x.items), x.dtype, x.shape)


add = _binary(lambda a, b: a + b)
sub = _binary(lambda a, b: a - b)
mul = _binary(lambda a, b: a * b)
div = _binary(lambda a, b: a / b)
greater = _binary(lambda a, b: a > b, "bool")
equal = _binary(lambda a, b: a == b, "bool")
neg = _unary(lambda a: -a)
exp = _unary(math.exp)
sin = _unary(math.sin)
cos = _unary(math.cos)


def full(*, value, dtype, shape):
    return Array([value] * math.prod(shape), dtype, shape)


def cast(x, *, dtype):
    number = {"bool": bool, "i32": int, "i64": int}.get(dtype, float)
    return Array(map(number, x.items), dtype, x.shape)


def reshape(x, *, shape):
    return Array(x.items, x.dtype, shape)


def broadcast(x, *, shape, axes):
    placed = [1] * len(shape)
    for size, axis in zip(x.shape, axes):
        placed[axis] = size
    x = Array(x.items, x.dtype, placed)
    return Array([_at(x, p) for p in _places(shape)], x.dtype, shape)


def reduce_sum(x, *, axes):
    kept = [a for a in range(len(x.shape)) if a not in axes]
    sums = {}
    for place, item in zip(_places(x.shape), x.items):
        key = tuple(place[a] for a in kept)
        sums[key] = sums.get(key, 0) + item
    shape = tuple(x.shape[a] for a in kept)
    return Array([sums.get(p, 0) for p in _places(shape)], x.dtype, shape)
