"""Operators of tensors, their reflected and in-place forms, and Python's conversions, on every backend."""

import operator

import clematis as cm
import numpy as np
import pytest

ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]
COMPARE = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]
IN_PLACE = [
    operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.imod, operator.ipow,
]  # fmt: skip

X = np.array([[1.5, 2.0], [3.0, 4.5]], np.float32)
Y = np.array([[2.0, 1.0], [0.5, 3.0]], np.float32)
I = np.array([[5, 2], [7, 12]], np.int32)
J = np.array([[1, 3], [2, 1]], np.int32)


def check(got, want, backend):
    assert isinstance(got, cm.Tensor)
    assert got.backend == backend
    assert got.dtype == str(want.dtype)
    assert got.shape == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


@pytest.mark.parametrize("op", ARITHMETIC)
def test_floats_with_tensors_and_numbers_on_both_sides(backend, op):
    x, y = cm.asarray(X), cm.asarray(Y)
    check(op(x, y), op(X, Y), backend)
    check(op(x, 2), op(X, np.float32(2)), backend)
    check(op(x, 2.5), op(X, np.float32(2.5)), backend)
    check(op(2, x), op(np.float32(2), X), backend)
    check(op(2.5, x), op(np.float32(2.5), X), backend)


@pytest.mark.parametrize("op", [op for op in ARITHMETIC if op is not operator.truediv])
def test_integers_with_tensors_and_numbers_on_both_sides(backend, op):
    x, y = cm.asarray(I), cm.asarray(J)
    check(op(x, y), op(I, J), backend)
    check(op(x, 3), op(I, np.int32(3)), backend)
    check(op(3, x), op(np.int32(3), I), backend)


@pytest.mark.parametrize("op", BITS)
def test_bits(backend, op):
    x, y = cm.asarray(I), cm.asarray(J)
    check(op(x, y), op(I, J), backend)
    check(op(x, 2), op(I, np.int32(2)), backend)
    check(op(9, y), op(np.int32(9), J), backend)


@pytest.mark.parametrize("op", COMPARE)
def test_comparisons(backend, op):
    x, y = cm.asarray(X), cm.asarray(Y)
    check(op(x, y), op(X, Y), backend)
    check(op(x, 2), op(X, 2), backend)
    check(op(2.0, x), op(2.0, X), backend)


def test_matmul_and_single_operands(backend):
    x, y = cm.asarray(X), cm.asarray(Y)
    check(x @ y, X @ Y, backend)
    check(-x, -X, backend)
    check(+x, X, backend)
    check(abs(-x), X, backend)
    check(~cm.asarray(I), ~I, backend)
    check(~cm.asarray(X > 2), ~(X > 2), backend)
    q, r = divmod(x, y)
    check(q, X // Y, backend)
    check(r, X % Y, backend)
    z = x
    z @= y
    assert z is x
    check(z, X @ Y, backend)


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place_keeps_the_object(backend, op):
    x, y = cm.asarray(X), cm.asarray(Y)
    before = x
    x = op(x, y)
    assert x is before
    with np.errstate(all="ignore"):
        check(x, op(X.copy(), Y), backend)
    x = op(x, 2)
    assert x is before


@pytest.mark.parametrize("op", [operator.iand, operator.ior, operator.ixor, operator.ilshift, operator.irshift])
def test_bits_in_place(backend, op):
    x = cm.asarray(I)
    before = x
    x = op(x, cm.asarray(J))
    assert x is before
    check(x, op(I.copy(), J), backend)


def test_in_place_leaves_others_alone(backend):
    x = cm.asarray(X)
    y = +x
    view = x[0]
    x += 1
    check(y, X, backend)
    check(view, X[0], backend)


def test_in_place_may_not_change_type_or_shape(backend):
    x = cm.asarray(I)
    with pytest.raises(cm.DTypeError, match="cannot hold"):
        x += 0.5
    with pytest.raises(cm.DTypeError, match="cannot hold"):
        x /= 2
    v = cm.asarray(np.ones(2, np.float32))
    with pytest.raises(cm.ShapeError, match="cannot hold"):
        v += cm.asarray(X)
    check(x, I, backend)


def test_numpy_array_on_the_left_reaches_us():
    with cm.backend("numpy"):
        x = cm.asarray(X)
        for op in ARITHMETIC:
            got = op(Y, x)
            assert isinstance(got, np.ndarray) and got.dtype == np.float32
            np.testing.assert_allclose(got, op(Y, X), rtol=1e-6)
        assert (Y == x).shape == (2, 2)
    other = cm.asarray(X)
    assert other.backend == "native"
    with pytest.raises(cm.BackendError, match="add: tensors of numpy and native"):
        Y + other
    with pytest.raises(cm.BackendError, match="add: tensors of native and numpy"):
        other + Y


def test_single_numbers_of_numpy_are_numbers(backend):
    x = cm.asarray(X)
    check(np.float64(2.0) * x, 2 * X, backend)
    check(x * np.float64(2.0), 2 * X, backend)
    check(np.float32(2.0) * x, 2 * X, backend)
    check(cm.multiply(x, np.float64(2.0)), 2 * X, backend)
    check(cm.asarray(I) + np.int32(1), I + 1, backend)
    assert (cm.asarray(I) + np.int64(1)).dtype == cm.int64
    x += np.float64(1)
    check(x, X + 1, backend)
    x[0, 0] = np.float64(7)
    assert x[0, 0].item() == 7
    alone = cm.exp(np.float32(0.0))
    assert isinstance(alone, np.ndarray | np.generic) and alone.dtype == np.float32


def test_what_is_no_operand_is_left_to_python(backend):
    x = cm.asarray(X)
    for op in ARITHMETIC + BITS:
        with pytest.raises(TypeError):
            op(x, "a")
        with pytest.raises(TypeError):
            op(object(), x)
    assert (x == None) is False  # noqa: E711
    assert (x != "a") is True
    with pytest.raises(TypeError):
        pow(x, 2, 3)


class Other:
    """A class that knows our tensors."""

    def __radd__(self, x):
        return "radd"

    def __eq__(self, x):
        return "eq"


def test_other_classes_may_answer(backend):
    x = cm.asarray(X)
    assert x + Other() == "radd"
    assert (x == Other()) == "eq"


def test_conversions(backend):
    assert float(cm.asarray(1.5)) == 1.5
    assert int(cm.asarray(2.9)) == 2
    assert int(cm.asarray([[7]])) == 7
    assert bool(cm.asarray([0.0])) is False
    assert bool(cm.asarray(3)) is True
    assert complex(cm.asarray(1 + 2j)) == 1 + 2j
    assert [10, 20, 30][cm.asarray(1)] == 20
    assert range(5)[cm.asarray(-1)] == 4
    assert cm.asarray(2.5).item() == 2.5
    assert cm.asarray(True).item() is True
    assert type(cm.asarray(3).item()) is int
    big = 2**63 + 5
    assert int(cm.asarray(big, dtype="uint64")) == big
    assert cm.asarray(I).tolist() == I.tolist()
    assert round(float(cm.asarray(2.25)), 1) == 2.2


def test_refused_conversions(backend):
    x = cm.asarray(X)
    for convert in (float, int, bool, complex):
        with pytest.raises(cm.ShapeError, match=r"f32\[2,2\] has more or fewer than one element"):
            convert(x)
    with pytest.raises(TypeError, match="complex number"):
        float(cm.asarray(1j))
    with pytest.raises(TypeError, match="complex number"):
        int(cm.asarray(1j))
    with pytest.raises(TypeError, match="index: only an integer"):
        operator.index(cm.asarray(1.0))
    with pytest.raises(TypeError, match="index: only an integer"):
        operator.index(cm.asarray([1]))
    with pytest.raises(ValueError):
        int(cm.asarray(float("nan")))
    with pytest.raises(OverflowError):
        int(cm.asarray(float("inf")))
    with pytest.raises(TypeError, match="no length"):
        len(cm.asarray(1.0))
    with pytest.raises(TypeError):
        iter(cm.asarray(1.0))
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    with pytest.raises(TypeError):
        cm.Tensor()


def test_length_iteration_and_membership(backend):
    x = cm.asarray(X)
    assert len(x) == 2
    rows = list(x)
    assert [r.shape for r in rows] == [(2,), (2,)]
    check(rows[1], X[1], backend)
    assert [v.item() for v in x[0]] == X[0].tolist()
    a, b = x
    check(b, X[1], backend)
    assert 2.0 in x and 4.5 in x
    assert 9 not in x
    assert cm.asarray(3.0) in x
    assert "a" not in x
    assert list(cm.zeros((0, 3))) == []


def test_what_a_tensor_says_of_itself(backend):
    x = cm.asarray(X)
    assert (x.ndim, x.size, x.itemsize, x.nbytes, x.shape) == (2, 4, 4, 16, (2, 2))
    assert x.dtype == cm.float32 and x.dtype.name == "float32"
    assert x.device == "cpu"
    assert x.to_device("cpu") is x
    check(x.T, X.T, backend)
    check(x.mT, X.mT, backend)
    with pytest.raises(cm.ShapeError, match="T: a matrix"):
        _ = cm.zeros((2, 2, 2)).T
    with pytest.raises(cm.ArgumentError, match="to_device"):
        x.to_device("gpu:7")


def test_readable(backend):
    assert repr(cm.asarray(X)) == f"Tensor([[1.5, 2.0],\n        [3.0, 4.5]], float32, {backend})"
    assert repr(cm.asarray(2)) == f"Tensor(2, int32, {backend})"
    assert repr(cm.asarray([True, False])) == f"Tensor([ True, False], bool, {backend})"
    long = repr(cm.zeros((2000,)))
    assert "…" in long and len(long) < 100
    assert repr(cm.zeros((0, 3))).endswith(f"float32, {backend})")
    assert str(cm.asarray(1.0)) == repr(cm.asarray(1.0))
    seen = []
    cm.grad(lambda v: (seen.append(repr(v)), cm.sum(v))[1])(cm.asarray([1.0, 2.0]))
    assert seen == [f"Tensor([1.0, 2.0], float32, {backend})"]
