"""Gradients, the functions of optimisers and the switches, each on every backend."""

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from . import draw
from . import reference_gradients as reference
from .arrays import FLOATS, HAS_RAW, HAS_VARIABLES, doubles, dtype_name, is_raw, raw, tensor, variable
from .harness import Row, check, three
from .tolerance import GRADIENTS, share

pytestmark = pytest.mark.row("gradients")


def stopped(stop_gradients=True, **arguments):
    return stop_gradients


def update_row(name, names):
    return Row(name, draw.update(names), getattr(reference, name), 3, stopped=stopped)


def test_optimizer_update(cell):
    check(update_row("optimizer_update", ("w", "effective_grad")), cell)


def test_gradient_descent_update(cell):
    check(update_row("gradient_descent_update", ("w", "grads")), cell)


def nonempty(w, **arguments):
    """The norm of zeros is 0, and its gradient there is 0."""
    return w.size > 0


def test_lars_update(cell):
    check(Row("lars_update", draw.lars, reference.lars_update, 3, stopped=stopped, smooth=nonempty), cell)


def test_adam_step(cell):
    check(Row("adam_step", draw.adam_step, reference.adam_step, 4), cell)


def test_adam_update(cell):
    # The moments are not stopped: only the new weights are.
    row = Row("adam_update", draw.moments(), reference.adam_update, 6, smooth=without_stop)
    check(row, cell)


def without_stop(stop_gradients, **arguments):
    """Where gradients are stopped, `test_stopped_moments` looks."""
    return not stop_gradients and arguments["w"].size > 0


def off_the_limit(
    stop_gradients, w, grads, mw_tm1, vw_tm1, step, beta1, beta2, epsilon, max_trust_ratio, decay_lambda, lr
):
    """The limit of the ratio is a kink, and so is a step of no length."""
    delta = reference.adam_step(grads, mw_tm1, vw_tm1, step, beta1, beta2, epsilon)[0]
    ratio = reference.trust(w, delta, decay_lambda)
    return not stop_gradients and w.size > 0 and abs(ratio - max_trust_ratio) > 0.05 and reference.norm(delta) > 0


def test_lamb_update(cell):
    check(Row("lamb_update", draw.moments(lamb=True), reference.lamb_update, 6, smooth=off_the_limit), cell)


@pytest.mark.parametrize("name", ["adam_update", "lamb_update"])
def test_stopped_moments(cell, request, name):
    """With `stop_gradients` the new weights have no gradient, whatever they were made of."""
    request.node.add_marker(pytest.mark.row("gradients", f"test_{name}"))
    w, g, m = (tensor(cell.backend, np.array(v)) for v in ([1.0, 2.0], [0.5, -0.25], [0.1, 0.2]))
    for stop in (True, False):
        f = getattr(cm, name)
        found = cm.grad(lambda w, g: cm.sum(f(w, g, 0.1, m, m, 1, stop_gradients=stop)[0]), argnums=(0, 1))(w, g)  # noqa: B023
        assert all((doubles(x) == 0).all() == stop for x in found)


def test_stop_gradient(cell):
    @st.composite
    def cases(d):
        return {"x": draw.content(d, *draw.shape_of(d)), "preserve_type": d(st.booleans())}

    check(Row("stop_gradient", lambda b: cases(), lambda x, preserve_type: x, 1, stopped=lambda **a: True), cell)


@pytest.mark.row("gradients", "test_stop_gradient")
def test_stop_gradient_of_variables(cell):
    if cell.backend not in HAS_VARIABLES:
        return
    x = variable(cell.backend, np.array([1.0, 2.0]))
    y = cm.stop_gradient(x, preserve_type=False)
    assert is_raw(cell.backend, y) and not getattr(y, "requires_grad", False)
    if cell.backend == "torch":
        assert cm.stop_gradient(x * 2, preserve_type=True).requires_grad
        assert cm.stop_gradient(x * 2, preserve_type=True).grad_fn is None


# Functions of one array: ours, and their values and derivatives in NumPy.
CURVES = {
    "square": (lambda x: cm.mean(x**2), lambda x: np.mean(x**2), lambda x: 2 * x / x.size, lambda x: 2 / x.size + 0 * x),
    "cos": (
        lambda x: cm.mean(cm.cos(x)), lambda x: np.mean(np.cos(x)), lambda x: -np.sin(x) / x.size,
        lambda x: -np.cos(x) / x.size,
    ),
    "cube": (lambda x: cm.mean(x * x * x), lambda x: np.mean(x**3), lambda x: 3 * x**2 / x.size, lambda x: 6 * x / x.size),
}  # fmt: skip
SHAPES = st.sampled_from([(2, 3), (3,), (), (1, 2, 2)])


def close(cell, got, want, dtype, what):
    assert dtype_name(got) == dtype, f"{what}: {dtype_name(got)}"
    eps = {"float64": 2.3e-16, "float32": 1.2e-7, "float16": 1e-3, "bfloat16": 8e-3}[dtype]
    top = max(float(np.max(np.abs(want), initial=0.0)), 1e-3)
    cell.error(share(doubles(got), want, GRADIENTS[dtype] * eps * top, what))


def kinds(backend):
    """Every kind of array that a function can be differentiated at."""
    yield "tensor", tensor
    if backend in HAS_RAW:
        yield "array", raw
    if backend in HAS_VARIABLES:
        yield "variable", variable


def each(cell, test, strategy):
    """Runs a test on what a strategy draws, in each element type."""
    cell.each(strategy, lambda dtype, drawn: test(dtype, *drawn))


@st.composite
def points(d):
    return d(st.sampled_from(sorted(CURVES))), draw.content(d, *d(SHAPES))


def test_grad(cell):
    def test(dtype, name, x):
        ours, _, derivative, bend = CURVES[name]
        for kind, make in kinds(cell.backend):
            at = make(cell.backend, x, dtype)
            found = cm.grad(ours)(at)
            assert isinstance(found, cm.Tensor) == (kind == "tensor"), kind
            close(cell, found, derivative(x), dtype, f"grad of {name}, {kind}")
        t = tensor(cell.backend, x, dtype)
        twice = cm.grad(lambda x: cm.sum(cm.grad(ours)(x)))(t)
        close(cell, twice, bend(x), dtype, "grad of grad")

        def both(a, b):
            return ours(a) + 2 * ours(b)

        a, b = cm.grad(both, argnums=(0, 1))(t, t)
        close(cell, a, derivative(x), dtype, "the first of two")
        close(cell, b, 2 * derivative(x), dtype, "the second of two")
        close(cell, cm.grad(both, argnums=1)(t, t), 2 * derivative(x), dtype, "argnums=1")
        tree = cm.grad(lambda c: ours(c["a"]) + ours(c["b"]["c"]) + 0 * cm.sum(c["b"]["d"]))(three(t))
        assert isinstance(tree, cm.Container)
        for leaf in (tree["a"], tree["b"]["c"], tree["b"]["d"]):
            assert leaf.shape == x.shape

    each(cell, test, points())


@pytest.mark.row("gradients", "test_grad")
def test_grad_of_integers(cell):
    with pytest.raises(cm.DTypeError):
        cm.grad(lambda x: cm.sum(x))(tensor(cell.backend, np.array([1, 2])))


@pytest.mark.row("gradients", "test_grad")
def test_chained_grad(cell):
    x = tensor(cell.backend, np.array(0.7))
    f = cm.sin
    for want in (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin):
        f = cm.grad(f)
        np.testing.assert_allclose(doubles(f(x)), want(0.7), rtol=1e-14)


@pytest.mark.row("gradients", "test_grad")
def test_a_user_s_error_passes(cell):
    class Own(Exception):
        pass

    def fails(x):
        raise Own("mine")

    for transform in (cm.grad, cm.value_and_grad, cm.jac):
        with pytest.raises(Own, match="mine"):
            transform(fails)(tensor(cell.backend, np.array(1.0)))


def test_value_and_grad(cell):
    def test(dtype, name, x):
        ours, value, derivative, _ = CURVES[name]
        for kind, make in kinds(cell.backend):
            v, g = cm.value_and_grad(ours)(make(cell.backend, x, dtype))
            close(cell, v, value(x), dtype, f"value, {kind}")
            close(cell, g, derivative(x), dtype, f"gradient, {kind}")
        t = tensor(cell.backend, x, dtype)
        v, (a, b) = cm.value_and_grad(lambda a, b: ours(a), argnums=(0, 1))(t, t)
        close(cell, v, value(x), dtype, "value of two")
        close(cell, a, derivative(x), dtype, "gradient of two")
        close(cell, b, 0 * x, dtype, "an argument that is not used")
        v, tree = cm.value_and_grad(lambda p: ours(p["w"]))({"w": t, "b": [t]})
        close(cell, tree["w"], derivative(x), dtype, "a dict")
        close(cell, tree["b"][0], 0 * x, dtype, "a leaf that is not used")

    each(cell, test, points())


def test_jac(cell):
    def test(dtype, name, x):
        f = {"square": cm.square, "cos": cm.cos, "cube": lambda x: x * x * x}[name]
        derivative = {"square": lambda x: 2 * x, "cos": lambda x: -np.sin(x), "cube": lambda x: 3 * x * x}[name](x)
        want = (np.eye(x.size) * derivative.reshape(-1)).reshape(x.shape + x.shape)
        for kind, make in kinds(cell.backend):
            found = cm.jac(f)(make(cell.backend, x, dtype))
            close(cell, found, want, dtype, f"jac of {name}, {kind}")
        t = tensor(cell.backend, x, dtype)
        a, b = cm.jac(lambda a, b: f(a) - b, argnums=(0, 1))(t, t)
        close(cell, a, want, dtype, "the first of two")
        close(cell, b, -np.eye(x.size).reshape(x.shape + x.shape), dtype, "the second of two")
        jacobian = cm.jac(lambda p: {"y": f(p["w"]), "z": cm.sum(p["v"])})({"w": t, "v": t})
        close(cell, jacobian["y"]["w"], want, dtype, "output outside, input inside")
        close(cell, jacobian["y"]["v"], 0 * want, dtype, "y does not depend on v")
        close(cell, jacobian["z"]["v"], np.ones(x.shape), dtype, "a number")
        scalar = cm.jac(CURVES[name][0])(t)
        close(cell, scalar, CURVES[name][2](x), dtype, "a number's jac is its grad")

    each(cell, test, points())


@pytest.fixture
def stack():
    """The switches as they were, whatever a test leaves."""
    yield cm.with_grads_stack
    while cm.with_grads_stack:
        cm.unset_with_grads()


# What a user may do in a row: set to a truth, or unset.
STEPS = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=8)


def walked(cell, look):
    """Takes steps on the switches and on a list of our own, and looks at both after each."""

    def test(dtype, steps):
        while cm.with_grads_stack:
            cm.unset_with_grads()
        model, kept = [], cm.with_grads_stack
        for step in steps:
            before = list(model)
            if step is None:
                assert cm.unset_with_grads() is None
                model = model[:-1]
            else:
                assert cm.set_with_grads(step) is None
                model = [*model, step]
            assert cm.with_grads_stack is kept, "one list, changed in place"
            look(step, before, model)

    cell.each(STEPS, test)


def top(model):
    return model[-1] if model else True


def test_with_grads(cell, stack):
    assert cm.with_grads() is True and cm.with_grads_stack == []

    def look(step, before, model):
        assert cm.with_grads() is top(model) and cm.with_grads(with_grads=None) is top(model)
        for truth in (True, False):
            assert cm.with_grads(with_grads=truth) is truth
        assert cm.with_grads_stack == model, "to ask changes nothing"

    walked(cell, look)
    for wrong in (1, 0, "yes", 1.0, np.True_):
        with pytest.raises(cm.ArgumentError):
            cm.with_grads(with_grads=wrong)


def test_set_with_grads(cell, stack):
    def look(step, before, model):
        if step is not None:
            assert cm.with_grads(with_grads=None) is step and cm.with_grads_stack == [*before, step]

    walked(cell, look)
    for wrong in (1, 0, "yes", None, np.False_):
        with pytest.raises(cm.ArgumentError):
            cm.set_with_grads(wrong)


def test_unset_with_grads(cell, stack):
    def look(step, before, model):
        if step is None:
            assert cm.with_grads_stack == before[:-1] and cm.with_grads() is top(before[:-1])

    walked(cell, look)


@pytest.mark.row("gradients", "test_set_with_grads")
def test_the_switch_is_felt(cell, stack):
    """`GradientTracking` sets and unsets, whatever happens inside."""
    with pytest.raises(ZeroDivisionError), cm.GradientTracking(False):
        assert cm.with_grads() is False
        raise ZeroDivisionError
    assert cm.with_grads() is True and cm.with_grads_stack == []


LARGE = {"float64": 1e300, "float32": 1e37, "float16": 6e4, "bfloat16": 1e38}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["lars_update", "lamb_update"])
def test_norms_near_the_limits(cell, request, name, dtype):
    """Squares overflow or vanish long before norms do."""
    request.node.add_marker(pytest.mark.row("gradients", f"test_{name}"))
    # Nothing below the smallest normal number, which jax and tensorflow make zero.
    small = {"float64": 1e-300, "float32": 1e-36, "float16": 1e-3, "bfloat16": 1e-36}[dtype]
    for size in (LARGE[dtype], small):
        values = np.array([3.0, 4.0]) / 8 * size
        w = tensor(cell.backend, values, dtype)
        exact = doubles(w)
        if name == "lars_update":
            got = cm.lars_update(w, w, 0.5)
            want = reference.lars_update(exact, exact, 0.5)
        else:
            m = tensor(cell.backend, np.array([1.0, 1.0]), dtype)
            got = cm.lamb_update(w, m * 0.5, 0.5, m, m, 1, epsilon=0.125)[0]
            want = reference.lamb_update(exact, np.full(2, 0.5), 0.5, np.ones(2), np.ones(2), 1, epsilon=0.125)[0]
        assert np.isfinite(doubles(got)).all(), f"{got} of {w}"
        eps = {"float64": 1e-13, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
        np.testing.assert_allclose(doubles(got), want, rtol=eps, atol=6e-8 if dtype == "float16" else 0)


@pytest.mark.row("gradients", "test_lars_update")
@pytest.mark.parametrize("dtype", FLOATS)
def test_lars_of_nothing(cell, dtype):
    """Weights of zero stay, with decay too; a gradient of zero moves nothing."""
    zero, one = (tensor(cell.backend, np.array(v), dtype) for v in ([0.0, 0.0], [1.0, -1.0]))
    for decay in (0, 0.5):
        assert doubles(cm.lars_update(zero, one, 0.5, decay_lambda=decay)).tolist() == [0, 0]
        assert doubles(cm.lars_update(one, zero, 0.5, decay_lambda=decay)).tolist() == [1, -1]
        found = cm.grad(
            lambda w, g: cm.sum(cm.lars_update(w, g, 0.5, decay_lambda=decay, stop_gradients=False)),  # noqa: B023
            argnums=(0, 1),
        )(zero, one)
        assert all(np.isfinite(doubles(g)).all() for g in found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["adam_step", "adam_update", "lamb_update"])
def test_betas_of_one(cell, request, name, dtype):
    """With a second beta of 1 there is no step; with a first one the divisor is epsilon."""
    request.node.add_marker(pytest.mark.row("gradients", f"test_{name}"))
    g = np.array([0.5, -2.0])
    for b1, b2 in ((1.0, 1.0), (1.0, 0.5), (0.5, 1.0)):
        extra = [] if name == "adam_step" else [g * 2, g, 0.5]
        args = [*(extra or [g]), g, g * g, 2]
        kwargs = {"beta1": b1, "beta2": b2, "epsilon": 0.25}
        want = getattr(reference, name)(*args, **kwargs)
        made = [tensor(cell.backend, a, dtype) if isinstance(a, np.ndarray) else a for a in args]
        got = getattr(cm, name)(*made, **kwargs)
        eps = {"float64": 1e-14, "float32": 1e-6, "float16": 2e-3, "bfloat16": 1.6e-2}[dtype]
        for found, wanted in zip(got, want, strict=True):
            np.testing.assert_allclose(doubles(found), wanted, rtol=eps, atol=eps)
