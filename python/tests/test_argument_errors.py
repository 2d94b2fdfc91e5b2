"""What arguments cannot be is said by our exceptions; what the caller's own code raises is not touched."""

import clematis as cm
import numpy as np
import pytest

BEYOND = 2**70
X = cm.asarray([[1.0, 2.0], [3.0, 4.0]])
LARGE = {
    "reshape": lambda n: cm.reshape(X, (n,)), "sum": lambda n: cm.sum(X, axis=n), "roll": lambda n: cm.roll(X, n),
    "concat": lambda n: cm.concat([X, X], axis=n), "stack": lambda n: cm.stack([X, X], axis=n), "full": lambda n: cm.full((2,), n),
    "eye": lambda n: cm.eye(n), "arange": lambda n: cm.arange(n), "zeros": lambda n: cm.zeros(n), "an operator": lambda n: X + n,
    "softmax": lambda n: cm.softmax(X, axis=n), "sort": lambda n: cm.sort(X, axis=n), "split": lambda n: cm.split(X, n),
    "cumulative_sum": lambda n: cm.cumulative_sum(X, axis=n), "one_hot": lambda n: cm.one_hot(cm.asarray([1]), n),
    "squeeze": lambda n: cm.squeeze(X, n), "expand_dims": lambda n: cm.expand_dims(X, axis=n), "moveaxis": lambda n: cm.moveaxis(X, n, 0),
    "matrix_power": lambda n: cm.linalg.matrix_power(X, n), "seed": lambda n: cm.seed(n), "key": lambda n: cm.random.key(n),
    "fold_in": lambda n: cm.random.key(0).fold_in(n),
    "randint": lambda n: cm.randint(0, n, shape=(2,)), "conv2d": lambda n: cm.conv2d(cm.ones((1, 4, 4, 1)), cm.ones((2, 2, 1, 1)), n, "SAME"),
    "tile": lambda n: cm.tile(X, (n,)), "repeat": lambda n: cm.repeat(X, n), "take": lambda n: cm.take(X, cm.asarray([0]), axis=n),
    "linspace": lambda n: cm.linspace(0.0, 1.0, n), "flip": lambda n: cm.flip(X, axis=n),
    "diff": lambda n: cm.diff(X, axis=n), "layer_norm": lambda n: cm.layer_norm(X, n), "unstack": lambda n: cm.unstack(X, axis=n),
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("n", [BEYOND, -BEYOND, "one", 1.5, None, "\ud800"], ids=["large", "small", "word", "fraction", "none", "surrogate"])
def test_what_no_argument_can_be_is_our_error(name, n):
    try:
        LARGE[name](n)
    except cm.ClematisError:
        pass
    except TypeError:
        assert not isinstance(n, int)


@pytest.mark.parametrize("name", ["reshape", "concat", "softmax", "eye", "seed"])
def test_an_integer_that_fits_nowhere_is_an_argument_error(name):
    with pytest.raises(cm.ClematisError) as raised:
        LARGE[name](BEYOND)
    assert isinstance(raised.value, (ValueError, IndexError))


def test_a_text_that_is_none_is_an_argument_error():
    for call in (lambda: cm.backend("\ud800"), lambda: X.to("\ud800"), lambda: cm.set_backend("\ud800"), lambda: cm.einsum("\ud800", X)):
        with pytest.raises((cm.ClematisError, UnicodeError)):
            call()
    with pytest.raises(cm.ArgumentError, match="einsum"):
        cm.einsum("\ud800", X)


class Raises:
    def __init__(self, kind):
        self.kind = kind

    def __index__(self):
        raise self.kind("mine")

    def __iter__(self):
        raise self.kind("mine")


@pytest.mark.parametrize("kind", [KeyError, StopIteration, OverflowError, RecursionError, MemoryError, KeyboardInterrupt])
def test_what_functions_of_the_caller_raise_passes(kind):
    def f(x):
        raise kind("mine")

    calls = [lambda: cm.grad(f)(X), lambda: cm.vmap(f)(X), lambda: cm.jit(f)(X), lambda: cm.map(f, X), lambda: cm.vjp(f, X)]
    calls += [lambda: cm.while_loop(f, lambda x: x, X), lambda: cm.scan(lambda c, x: f(x), X, X)]
    for call in calls:
        with pytest.raises(kind, match="mine") as raised:
            call()
        assert type(raised.value) is kind


@pytest.mark.parametrize("kind", [KeyError, KeyboardInterrupt])
def test_what_objects_of_the_caller_raise_passes(kind):
    for call in (lambda x: cm.reshape(X, x), lambda x: cm.sum(X, axis=x), lambda x: cm.eye(x), lambda x: cm.seed(x)):
        with pytest.raises(kind, match="mine"):
            call(Raises(kind))


def test_an_argument_of_another_type_is_named():
    with pytest.raises(TypeError) as raised:
        cm.concat([X, X], axis="one")
    assert raised.value.__notes__ == ["while processing 'axis'"]
    with pytest.raises(TypeError, match="unexpected keyword"):
        cm.concat([X, X], axes=0)
    with pytest.raises(TypeError, match="missing"):
        cm.concat()


def test_lists_within_lists_end():
    nested = []
    for _ in range(5000):
        nested = [nested]
    for call in (cm.asarray, cm.exp, lambda x: cm.add(x, 1.0), lambda x: cm.tree.leaves(x)):
        with pytest.raises(cm.ClematisError):
            call(nested)
    endless = []
    endless.append(endless)
    for call in (cm.asarray, cm.exp):
        with pytest.raises(cm.ClematisError):
            call(endless)


def test_exporting_what_is_none_is_our_error():
    with pytest.raises(cm.DTypeError, match="from_dlpack: expected an object with `__dlpack__`, got list"):
        cm.from_dlpack([1.0])
    np.testing.assert_array_equal(cm.from_dlpack(np.ones(2)[::-1]).numpy(), np.ones(2))
