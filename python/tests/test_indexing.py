"""Reading and writing through brackets, against NumPy."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import given, settings
from hypothesis import strategies as st

SHAPES = [(5,), (3, 4), (2, 3, 4), (1, 3, 1, 2), (4, 1), (0, 3)]


def filled(shape):
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


@st.composite
def slices(draw, size):
    bound = st.one_of(st.none(), st.integers(-size - 2, size + 2))
    step = draw(st.sampled_from([None, 1, 2, 3, -1, -2]))
    return slice(draw(bound), draw(bound), step)


@st.composite
def basic(draw, shape):
    """Integers, ranges, new axes and at most one ellipsis."""
    parts = []
    count = draw(st.integers(0, len(shape)))
    for axis in range(count):
        size = shape[axis]
        kinds = ["range", "new"] + (["place"] if size else [])
        kind = draw(st.sampled_from(kinds))
        if kind == "place":
            parts.append(draw(st.integers(-size, size - 1)))
        elif kind == "range":
            parts.append(draw(slices(size)))
        else:
            parts += [None, draw(slices(size))]
    if draw(st.booleans()):
        tail = draw(st.booleans())
        if tail or not parts:
            parts.append(Ellipsis)
    return tuple(parts) if len(parts) != 1 or draw(st.booleans()) else parts[0]


@st.composite
def arrays(draw, shape):
    """Arrays of integers beside ranges and numbers; arrays of one shape, or that broadcast."""
    rank = len(shape)
    many = draw(st.integers(1, rank))
    picked = sorted(draw(st.sets(st.integers(0, rank - 1), min_size=many, max_size=many)))
    spread = draw(st.sampled_from([(2,), (3,), (2, 2), ()]))
    parts = []
    for axis, size in enumerate(shape):
        if axis in picked and size:
            own = tuple(n if draw(st.booleans()) else 1 for n in spread)
            count = int(np.prod(own))
            values = draw(st.lists(st.integers(-size, size - 1), min_size=count, max_size=count))
            parts.append(np.array(values, np.int64).reshape(own))
        elif size and draw(st.booleans()):
            parts.append(draw(st.integers(-size, size - 1)))
        else:
            parts.append(draw(slices(size)))
    return tuple(parts)


def ours(key):
    """The same key with arrays as tensors of the current backend."""
    if isinstance(key, tuple):
        return tuple(ours(k) for k in key)
    return cm.asarray(key) if isinstance(key, np.ndarray) else key


def same(got, want):
    want = np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_basic_reading(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(basic(shape))
    x = filled(shape)
    with cm.backend(name):
        same(cm.asarray(x)[key], x[key])


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_reading_through_arrays(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(arrays(shape))
    x = filled(shape)
    with cm.backend(name):
        same(cm.asarray(x)[ours(key)], x[key])


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=12)  # jax compiles for each number of elements picked
@given(data=st.data())
def test_reading_and_writing_through_masks(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    covered = data.draw(st.integers(1, len(shape)))
    count = int(np.prod(shape[:covered]))
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    mask = mask.reshape(shape[:covered])
    x = filled(shape)
    with cm.backend(name):
        t = cm.asarray(x)
        same(t[ours(mask)], x[mask])
        t[ours(mask)] = -1.0
        x[mask] = -1
        same(t, x)


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_basic_writing(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(basic(shape))
    x = filled(shape)
    with cm.backend(name):
        t = cm.asarray(x)
        t[key] = -1
        x[key] = -1
        same(t, x)
        part = -filled(x[key].shape) if np.ndim(x[key]) else np.float32(5)
        t[key] = cm.asarray(part)
        x[key] = part
        same(t, x)


@pytest.mark.parametrize("name", BACKENDS)
@given(data=st.data())
def test_writing_through_arrays(name, data):
    shape = data.draw(st.sampled_from(SHAPES))
    key = data.draw(arrays(shape))
    x = filled(shape)
    with cm.backend(name):
        t = cm.asarray(x)
        t[ours(key)] = 7.0
        x[key] = 7
        same(t, x)


def test_lists_numpy_arrays_and_tensors_as_indices(backend):
    x = filled((3, 4))
    t = cm.asarray(x)
    same(t[[0, 2]], x[[0, 2]])
    same(t[[]], x[[]])
    same(t[np.array([2, 0])], x[[2, 0]])
    same(t[np.array([True, False, True])], x[[0, 2]])
    same(t[:, np.int64(1)], x[:, 1])
    same(t[cm.asarray(1)], x[1])
    same(t[cm.asarray([0, 1], dtype="uint8")], x[[0, 1]])
    same(t[t > 5], x[x > 5])
    same(t[True], x[True])
    same(t[False], x[False])
    t[False] = 9.0
    same(t, x)
    t[cm.asarray(True)] = t - 1
    x -= 1
    same(t, x)
    t[[0, 1], [2, 3]] += 10
    x[[0, 1], [2, 3]] += 10
    same(t, x)


def test_writing_casts_to_the_tensor_s_type(backend):
    t = cm.zeros(3)
    t[0] = 1
    t[1] = cm.asarray(2)
    t[2] = True
    same(t, np.array([1, 2, 1], np.float32))
    i = cm.zeros(3, dtype="int32")
    with pytest.raises(cm.DTypeError, match="index: f32.* cannot be written into i32"):
        i[0] = 1.5
    with pytest.raises(cm.DTypeError, match="index: c64.* cannot be written into f32"):
        t[0] = 1j


def test_writing_does_not_reach_other_tensors(backend):
    t = cm.asarray(filled((3, 4)))
    view, copy = t[0], cm.asarray(t, copy=True)
    t[0] = -1
    same(view, filled((3, 4))[0])
    same(copy, filled((3, 4)))


@pytest.mark.parametrize(
    ("key", "error", "words"),
    [
        (3, cm.AxisError, "index"),
        (-4, cm.AxisError, "index"),
        ((0, 0, 0), cm.AxisError, "index"),
        ((..., 0, ...), cm.AxisError, "index"),
        (1.0, cm.AxisError, "index"),
        ("a", cm.AxisError, "index: str cannot be an index"),
        ([0, 5], cm.AxisError, "index"),
        ([True, False], cm.AxisError, "index: mask"),
        (slice(None, None, 0), ValueError, "step"),
    ],
)
def test_bad_indices(backend, key, error, words):
    t = cm.asarray(filled((3, 4)))
    with pytest.raises(error, match=words):
        t[key]
    with pytest.raises(error, match=words):
        t[key] = 0.0


def test_updates_must_fit(backend):
    t = cm.asarray(filled((3, 4)))
    with pytest.raises(cm.ShapeError):
        t[0] = cm.zeros(3)
    with pytest.raises(cm.BackendError, match="tensors of"):
        other = "numpy" if backend != "numpy" else "native"
        with cm.backend(other):
            zeros = cm.zeros(4)
        t[0] = zeros
