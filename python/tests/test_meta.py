"""Steps of meta-learning: against formulas, and that they learn."""

import clematis as cm
import numpy as np
import pytest

RNG = np.random.default_rng(5)
TASKS, ROWS, WIDTH = 3, 6, 2
X = RNG.normal(size=(TASKS, ROWS, WIDTH))
Y = RNG.normal(size=(TASKS, ROWS))
X2 = RNG.normal(size=(TASKS, ROWS, WIDTH))
Y2 = RNG.normal(size=(TASKS, ROWS))
W = np.array([0.3, -0.7])
RATE = 0.1


def close(got, want, rtol=1e-8):
    np.testing.assert_allclose(np.asarray(cm.asarray(got).tolist()), want, rtol=rtol, atol=1e-9)


def batch():
    arrays = {"x": X, "y": Y, "x2": X2, "y2": Y2}
    return cm.Container({name: cm.asarray(value, dtype="float64") for name, value in arrays.items()})


def variables(batched):
    w = np.tile(W, (TASKS, 1)) if batched else W
    return cm.Container(w=cm.asarray(w, dtype="float64"))


def cost(x, y):
    def f(data, v):
        w = v.w if v.w.ndim == 2 else cm.expand_dims(v.w, axis=0)
        predicted = cm.sum(data[x] * cm.expand_dims(w, axis=1), axis=-1)
        return cm.mean((predicted - data[y]) ** 2) / 2

    return f


INNER, OUTER = cost("x", "y"), cost("x2", "y2")


def moments(x, y):
    """A and b of the gradient A w - b of half the mean square, one per task."""
    return np.einsum("tri,trj->tij", x, x) / ROWS, np.einsum("tri,tr->ti", x, y) / ROWS


def descended(w, a, b, steps):
    for _ in range(steps):
        w = w - RATE * (a @ w - b)
    return w


def half_mean_square(w, x, y):
    return np.mean((x @ w - y) ** 2) / 2


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("steps", [1, 3])
def test_first_and_second_order_against_formulas(backend, batched, steps):
    a, b = moments(X, Y)
    a2, b2 = moments(X2, Y2)
    ends = [descended(W, a[t], b[t], steps) for t in range(TASKS)]
    loss = np.mean([half_mean_square(ends[t], X2[t], Y2[t]) for t in range(TASKS)])
    first = [a2[t] @ ends[t] - b2[t] for t in range(TASKS)]
    # Each inner step multiplies the derivative by I - rate A.
    second = [np.linalg.matrix_power(np.eye(WIDTH) - RATE * a[t], steps).T @ first[t] for t in range(TASKS)]

    got = cm.fomaml_step(batch(), INNER, OUTER, variables(batched), steps, RATE, batched=batched)
    close(got[0], loss)
    close(got[1].w, np.mean(first, axis=0))
    got = cm.maml_step(batch(), INNER, OUTER, variables(batched), steps, RATE, batched=batched)
    assert isinstance(got[1], cm.Container) and got[1].w.backend == backend and got[2] == ()
    close(got[0], loss)
    close(got[1].w, np.mean(second, axis=0))


@pytest.mark.parametrize("batched", [True, False])
def test_reptile_against_a_formula(backend, batched):
    a, b = moments(X, Y)
    gradients, losses = [], []
    for t in range(TASKS):
        for step in range(3):
            w = descended(W, a[t], b[t], step)
            gradients.append(a[t] @ w - b[t])
            losses.append(half_mean_square(w, X[t], Y[t]))
    got = cm.reptile_step(batch(), INNER, variables(batched), 2, RATE, batched=batched)
    close(got[0], np.mean(losses))
    close(got[1].w, np.mean(gradients, axis=0) / RATE)


@pytest.mark.parametrize("batched", [True, False])
def test_averages_and_inner_variables(backend, batched):
    a, b = moments(X, Y)
    a2, b2 = moments(X2, Y2)
    ways = [[descended(W, a[t], b[t], n) for n in range(3)] for t in range(TASKS)]
    want = np.mean([[a2[t] @ w - b2[t] for w in ways[t]] for t in range(TASKS)], axis=(0, 1))
    loss = np.mean([[half_mean_square(w, X2[t], Y2[t]) for w in ways[t]] for t in range(TASKS)])
    ends = np.stack([way[-1] for way in ways])
    for which, count in ((True, TASKS), ("all", TASKS), ("first", 1)):
        got = cm.fomaml_step(
            batch(), INNER, OUTER, variables(batched), 2, RATE,
            batched=batched, average_across_steps=True, return_inner_v=which,
        )  # fmt: skip
        close(got[0], loss)
        close(got[1].w, want)
        close(got[2].w, ends[:count])
    # The gradient of the mean: each term by as many inner steps as lead to it.
    inside = [np.eye(WIDTH) - RATE * a[t] for t in range(TASKS)]
    want = np.mean(
        [[np.linalg.matrix_power(inside[t], n) @ (a2[t] @ ways[t][n] - b2[t]) for n in range(3)] for t in range(TASKS)],
        axis=(0, 1),
    )
    cost, gradient, inner = cm.maml_step(
        batch(), INNER, OUTER, variables(batched), 2, RATE,
        batched=batched, average_across_steps=True, return_inner_v="all",
    )  # fmt: skip
    close(cost, loss)
    close(gradient.w, want)
    close(inner.w, ends)


def test_some_variables_only(backend):
    v = cm.Container(latent=cm.asarray(0.5, dtype="float64"), weight=cm.asarray(2.0, dtype="float64"))
    data = {"x": cm.asarray([[1.0], [3.0]], dtype="float64")}

    def cost(batch, v):
        return cm.mean(batch["x"]) * v.latent * v.weight**2

    # latent moves by -rate x weight², weight stays; then d cost / d weight = 2 x latent weight.
    def latent(x):
        return 0.5 - 0.1 * x * 4

    fomaml = cm.fomaml_step(data, cost, None, v, 1, 0.1, batched=False, inner_v="latent", outer_v=["weight"])
    assert list(fomaml[1]) == ["weight"]
    close(fomaml[1].weight, np.mean([2 * x * latent(x) * 2 for x in (1, 3)]))
    maml = cm.maml_step(
        data, cost, None, v, 1, 0.1,
        batched=False, inner_v="weight", keep_inner_v=False, outer_v="latent", keep_outer_v=False,
    )  # fmt: skip
    assert list(maml[1]) == ["weight"]
    # cost = x w² (latent - rate x w²)
    close(maml[1].weight, np.mean([2 * x * 2 * 0.5 - 4 * 0.1 * x * x * 8 for x in (1, 3)]))
    close(maml[0], np.mean([x * 4 * latent(x) for x in (1, 3)]))
    each = cm.fomaml_step(data, cost, None, v, 1, 0.1, batched=False, inner_v=[["latent"], ["weight"]])
    assert list(each[1]) == ["latent", "weight"]
    plain = cm.fomaml_step(data, cost, None, dict(v), 1, 0.1, batched=False)
    assert type(plain[1]) is dict


def test_other_steps_and_batches(backend):
    calls = []

    def step(v, g, rate, *, stop_gradients):
        calls.append(stop_gradients)
        return v - g * rate * 2

    inner = lambda batch: cm.Container(x=batch.x, y=batch.y)  # noqa: E731
    outer = lambda batch: cm.Container(x=batch.x2, y=batch.y2)  # noqa: E731
    options = {"inner_batch_fn": inner, "outer_batch_fn": outer, "batched": False}
    got = cm.maml_step(batch(), INNER, None, variables(False), 2, RATE / 2, inner_optimization_step=step, **options)
    want = cm.maml_step(batch(), INNER, OUTER, variables(False), 2, RATE, batched=False)
    close(got[1].w, want[1].w.tolist())
    assert calls == [False] * 2 * TASKS
    cm.fomaml_step(batch(), INNER, None, variables(False), 1, RATE, inner_optimization_step=step, **options)
    assert calls[-1] is True


def sines(tasks=4, rows=10):
    """Tasks of regression: waves of other heights and phases."""
    rng = np.random.default_rng(11)
    height, phase = rng.uniform(0.5, 2, (tasks, 1, 1)), rng.uniform(0, 3, (tasks, 1, 1))
    x = rng.uniform(-3, 3, (tasks, rows, 1))
    return {"x": x, "y": height * np.sin(x + phase)}


def network(batch, v):
    hidden = cm.tanh(batch["x"] @ v["w0"] + v["b0"])
    return cm.mean((hidden @ v["w1"] + v["b1"] - batch["y"]) ** 2)


@pytest.mark.parametrize("name", ["fomaml_step", "maml_step", "reptile_step"])
def test_learns(backend, name):
    rng = np.random.default_rng(2)
    start = {"w0": (1, 8), "b0": (8,), "w1": (8, 1), "b1": (1,)}
    v = cm.Container({key: cm.asarray(rng.normal(size=shape) * 0.5, dtype="float32") for key, shape in start.items()})
    data = cm.Container({key: cm.asarray(x, dtype="float32") for key, x in sines().items()})
    costs = (network,) if name == "reptile_step" else (network, None)
    rate = 0.02 * (0.05 if name == "reptile_step" else 1)
    last = np.inf
    for _ in range(8):
        out = getattr(cm, name)(data, *costs, v, 2, 0.05, batched=False)
        assert float(out[0]) < last
        last = float(out[0])
        assert (abs(out[1]).max() > 0).all_true()
        v = cm.gradient_descent_update(v, out[1], rate)
        assert isinstance(v, cm.Container)


def test_a_framework_s_arrays(framework, make_raw):
    data = {"x": make_raw(framework, X, "float64"), "y": make_raw(framework, Y, "float64")}
    v = cm.Container(w=make_raw(framework, W, "float64"))
    _, gradient, _ = cm.maml_step(data, INNER, None, v, 1, RATE, batched=False)
    a, b = moments(X, Y)
    inside = [np.eye(WIDTH) - RATE * a[t] for t in range(TASKS)]
    ends = [descended(W, a[t], b[t], 1) for t in range(TASKS)]
    close(gradient.w, np.mean([inside[t] @ (a[t] @ ends[t] - b[t]) for t in range(TASKS)], axis=0))
    assert type(gradient.w) is type(v.w)


def test_refusals(backend):
    for steps in (0, -1, 1.5, True):
        with pytest.raises(cm.ArgumentError, match="fomaml_step: inner_grad_steps"):
            cm.fomaml_step(batch(), INNER, OUTER, variables(False), steps, RATE)
    with pytest.raises(cm.ArgumentError, match="maml_step: return_inner_v"):
        cm.maml_step(batch(), INNER, OUTER, variables(False), 1, RATE, return_inner_v="some")
    with pytest.raises(cm.StructureError, match="reptile_step: variables are a container or a dict, not list"):
        cm.reptile_step(batch(), INNER, [1], 1, RATE)
    with pytest.raises(cm.ArgumentError, match="no axis of tasks"):
        cm.reptile_step({"x": cm.asarray(1.0)}, INNER, variables(False), 1, RATE)
    with pytest.raises(cm.StructureError, match="there is no `q` among"):
        cm.fomaml_step(batch(), INNER, OUTER, variables(False), 1, RATE, inner_v="q", batched=False)
    with pytest.raises(cm.ShapeError, match="one element"):
        cm.fomaml_step(batch(), lambda data, v: v.w, None, variables(False), 1, RATE, batched=False)
    with pytest.raises(TypeError):
        cm.fomaml_step(batch(), INNER, OUTER, variables(False), 1, inner_learning_rate=RATE)
