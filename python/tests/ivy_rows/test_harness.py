"""The harness itself: a function with any one fault does not pass."""

import clematis as cm
import numpy as np
import pytest

from . import draw
from . import reference_layers as reference
from .conftest import Cell
from .harness import Row, check

HONEST = cm.linear


def wrong_values(x, weight, /, *, bias=None, out=None):
    return HONEST(x * 1.01, weight, bias=bias, out=out)


def wrong_dtype(x, weight, /, *, bias=None, out=None):
    y = HONEST(x, weight, bias=bias, out=out)
    return y.astype("float64") if isinstance(y, cm.Tensor) and out is None else y


def no_identity(x, weight, /, *, bias=None, out=None):
    return HONEST(x, weight, bias=bias)


def no_gradient(x, weight, /, *, bias=None, out=None):
    return HONEST(x, weight if out is not None else cm.stop_gradient(weight), bias=bias, out=out)


def no_bias(x, weight, /, *, bias=None, out=None):
    return HONEST(x, weight, out=out)


def tensors_alone(x, weight, /, *, bias=None, out=None):
    y = HONEST(x, weight, bias=bias, out=out)
    return y if isinstance(y, cm.Tensor | cm.Container) else cm.asarray(y)


def no_containers(x, weight, /, *, bias=None, out=None):
    y = HONEST(x, weight, bias=bias, out=out)
    return dict(y) if isinstance(y, cm.Container) else y


def no_keyword(x, weight, bias=None, out=None, /):
    return HONEST(x, weight, bias=bias, out=out)


FAULTS = [wrong_values, wrong_dtype, no_identity, no_gradient, no_bias, tensors_alone, no_containers, no_keyword]
LINEAR = Row("linear", draw.linear, reference.linear, 2)


def cell(backend):
    return Cell(backend, seed=0, full=False)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_found(monkeypatch, fault):
    monkeypatch.setattr(cm, "linear", fault)
    with pytest.raises((AssertionError, TypeError)):
        check(LINEAR, cell("numpy"))


def test_what_is_honest_passes(monkeypatch):
    monkeypatch.setattr(cm, "linear", lambda *args, **kwargs: HONEST(*args, **kwargs))
    own = cell("numpy")
    check(LINEAR, own)
    assert own.examples == sum(own.counts.values()) and 0 < own.worst <= 1


def test_a_wrong_second_derivative_is_found(monkeypatch):
    """The value is right, and its gradient is not."""

    def stopped(x, weight, /, *, bias=None, out=None):
        y = HONEST(x, weight, bias=bias, out=out)
        return y if not isinstance(y, cm.Tensor) or out is not None else y + cm.stop_gradient(y * 0)

    def gradient(args, up):
        (x, w), _ = args
        # The product rule with both factors held still.
        return (
            cm.matmul(up, cm.stop_gradient(w)),
            cm.matmul(cm.matrix_transpose(up), cm.stop_gradient(x)),
        )

    product = cm.bind_custom_gradient_function(lambda x, w: HONEST(x, w), gradient)

    def held(x, weight, /, *, bias=None, out=None):
        if isinstance(x, cm.Tensor) and isinstance(weight, cm.Tensor) and x.ndim == weight.ndim == 2 and out is None:
            y = product(x, weight)
            return y if bias is None else y + bias
        return stopped(x, weight, bias=bias, out=out)

    def cases(backend):
        return draw.linear(backend).filter(lambda a: a["x"].ndim == a["weight"].ndim == 2 and a["x"].size)

    monkeypatch.setattr(cm, "linear", held)
    with pytest.raises(AssertionError, match="second derivative"):
        check(Row("linear", cases, reference.linear, 2), cell("numpy"))


def test_the_same_seed_draws_the_same(monkeypatch):
    drawn = {}

    def recorded(name):
        def f(x, weight, /, *, bias=None, out=None):
            drawn.setdefault(name, []).append(np.shape(x))
            return HONEST(x, weight, bias=bias, out=out)

        return f

    for name in "ab":
        monkeypatch.setattr(cm, "linear", recorded(name))
        check(LINEAR, cell("numpy"))
    assert drawn["a"] == drawn["b"] and len(set(map(str, drawn["a"]))) > 2
