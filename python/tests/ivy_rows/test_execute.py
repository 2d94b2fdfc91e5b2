"""`execute_with_gradients`: value and gradients of anything that holds arrays."""

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from . import draw
from .arrays import HAS_RAW, HAS_VARIABLES, doubles, dtype_name, raw, tensor, variable
from .harness import leaves, three
from .test_gradients import CURVES, close, each

pytestmark = pytest.mark.row("gradients", "test_execute_with_gradients")


@st.composite
def points(d):
    name = d(st.sampled_from(sorted(CURVES)))
    return name, draw.content(d, *draw.one_of(d, (2, 3), (3,), (1, 2, 2))), d(st.booleans())


def test_execute_with_gradients(cell):
    backend = cell.backend

    def test(dtype, name, x, retain):
        ours, value, derivative, _ = CURVES[name]
        t = tensor(backend, x, dtype)

        def run(xs, f):
            v, g = cm.execute_with_gradients(f, xs, retain_grads=retain)
            close(cell, v, value(x), dtype, "value")
            return g

        close(cell, run(t, ours), derivative(x), dtype, "an array")
        if backend in HAS_RAW:
            v, g = cm.execute_with_gradients(ours, raw(backend, x, dtype), retain_grads=retain)
            close(cell, v, value(x), dtype, "value of a framework's array")
            close(cell, g, derivative(x), dtype, "a framework's array")
        if backend in HAS_VARIABLES:
            v, g = cm.execute_with_gradients(ours, variable(backend, x, dtype), retain_grads=retain)
            close(cell, g, derivative(x), dtype, "a variable")
        # All three leaves are one object: each gets the whole derivative.
        found = run(three(t), lambda c: ours(c["a"]) / 2 + ours(c["b"]["c"]) / 4 + ours(c["b"]["d"]) / 4)
        assert isinstance(found, cm.Container)
        for leaf in leaves(found):
            close(cell, leaf, derivative(x), dtype, "one object in three leaves")
        longer = cm.Container({"layer0": {"w": t}, "layer1": {"w": t, "b": tensor(backend, x, dtype)}})
        found = run(longer, lambda c: (ours(c.layer0.w) + ours(c.layer1.w)) / 2)
        close(cell, found.layer0.w, derivative(x), dtype, "aliases under long names")
        close(cell, found.layer1.w, derivative(x), dtype, "aliases under long names")
        close(cell, found.layer1.b, 0 * x, dtype, "a leaf that is not used")
        found = run({"w": t, "n": 3}, lambda p: ours(p["w"]) * p["n"] / 3)
        assert isinstance(found, dict) and set(found) == {"w"}
        close(cell, found["w"], derivative(x), dtype, "a dict with a number in it")

    each(cell, test, points())


def numbers(cell, *values):
    return [tensor(cell.backend, np.array(v)) for v in values]


def test_several_outputs(cell):
    (x,) = numbers(cell, [1.0, 2.0])

    def f(xs):
        return cm.sum(xs["w"]), {"b": cm.sum(xs["w"] ** 2)}

    value, found = cm.execute_with_gradients(f, {"w": x})
    assert isinstance(value, tuple) and doubles(value[1]["b"]) == 5
    assert isinstance(found, cm.Container) and list(found) == ["0", "1_b"]
    assert doubles(found["0"]["w"]).tolist() == [1, 1] and doubles(found["1_b"]["w"]).tolist() == [2, 4]
    _, found = cm.execute_with_gradients(f, {"w": x}, ret_grad_idxs=[[1, "b"]])
    assert list(found) == ["1_b"] and doubles(found["1_b"]["w"]).tolist() == [2, 4]


def test_some_inputs(cell):
    a, b, c = numbers(cell, [1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    xs = [a, {"w": b, "v": c}]
    _, found = cm.execute_with_gradients(
        lambda xs: cm.sum(xs[0] * xs[1]["w"] * xs[1]["v"]), xs, xs_grad_idxs=[[1, "w"]]
    )
    assert [doubles(g).tolist() for g in cm.tree.leaves(found)] == [[5, 12]]
    _, found = cm.execute_with_gradients(lambda xs: cm.sum(xs[0] * xs[1]["w"] * xs[1]["v"]), xs, xs_grad_idxs=[[1]])
    assert [doubles(g).tolist() for g in cm.tree.leaves(found)] == [[5, 12], [3, 8]]


def test_lists(cell):
    a, b = numbers(cell, [1.0, 2.0], [3.0, 4.0])
    _, found = cm.execute_with_gradients(lambda xs: cm.sum(xs[0] * xs[1]), [a, b])
    assert [doubles(g).tolist() for g in found] == [[3, 4], [1, 2]]
    _, found = cm.execute_with_gradients(lambda xs: cm.sum(xs[0] ** 2), [a])
    assert doubles(found).tolist() == [2, 4], "a list of one gradient is that gradient"


def test_nothing_is_missing_or_infinite(cell):
    """What is not used has a gradient of zeros; what is not finite becomes zero."""
    x, y = numbers(cell, [0.0, 4.0], [1.0, 1.0])
    _, found = cm.execute_with_gradients(lambda xs: cm.sum(cm.sqrt(xs["x"])), {"x": x, "y": y})
    assert doubles(found["x"]).tolist() == [0, 0.25] and doubles(found["y"]).tolist() == [0, 0]
    # A derivative that is asked for by its own name is left as it is.
    assert np.isinf(doubles(cm.grad(lambda x: cm.sum(cm.sqrt(x)))(x))[0])


def test_integers_become_floats(cell):
    x = tensor(cell.backend, np.array([1, 2]))
    value, found = cm.execute_with_gradients(lambda x: cm.sum(x * 1.5), x)
    assert dtype_name(found) == dtype_name(value) == "float32" and doubles(found).tolist() == [1.5, 1.5]


def test_no_array_comes_out(cell):
    (x,) = numbers(cell, [1.0])
    value, found = cm.execute_with_gradients(lambda x: 3, x)
    assert value == 3 and isinstance(found, cm.Container) and len(found) == 0


def test_a_vector_is_no_loss(cell):
    (x,) = numbers(cell, [1.0, 2.0])
    with pytest.raises(cm.ClematisError):
        cm.execute_with_gradients(lambda x: x * 2, x)
    value, found = cm.execute_with_gradients(lambda x: cm.sum(x, axis=0, keepdims=True), x)
    assert value.shape == (1,) and doubles(found).tolist() == [1, 1], "one element is enough"


def test_kept_gradients_are_differentiated(cell):
    """Second order: the derivative of what the inner call returns."""
    (x,) = numbers(cell, [1.0, 2.0])

    def outer(x):
        value, g = cm.execute_with_gradients(lambda x: cm.sum(x**3), x, retain_grads=True)
        return cm.sum(g * g) + value

    found = cm.grad(outer)(x)
    np.testing.assert_allclose(doubles(found), [36 + 3, 36 * 8 + 12], rtol=1e-12)

    def cut(x):
        value, _ = cm.execute_with_gradients(lambda x: cm.sum(x**3), x)
        return value + cm.sum(x)

    assert doubles(cm.grad(cut)(x)).tolist() == [1, 1], "without retain_grads the value is a constant"
