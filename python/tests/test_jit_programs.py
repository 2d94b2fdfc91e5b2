"""Property test: for random programs jit(f) equals f on every backend, values and gradients."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

UNARY = {
    "sin": cm.sin, "cos": cm.cos, "tanh": cm.tanh, "exp": lambda x: cm.exp(-cm.abs(x)), "neg": lambda x: -x, "abs": cm.abs,
    "square": lambda x: x * x * 0.1, "sqrt": lambda x: cm.sqrt(cm.abs(x) + 0.5), "log": lambda x: cm.log(cm.abs(x) + 0.5),
    "relu": cm.relu, "sigmoid": cm.sigmoid, "gelu": cm.gelu, "softmax": lambda x: cm.softmax(x, axis=-1), "stop": cm.stop_gradient,
    "zero": lambda x: x * 0 + x, "floor": cm.floor, "transpose": lambda x: cm.matrix_transpose(x),
    "cumsum": lambda x: cm.cumulative_sum(x, axis=0) * 0.3, "flip": lambda x: cm.flip(x, axis=1),
    "sum": lambda x: x - cm.sum(x, axis=0, keepdims=True) * 0.1, "max": lambda x: x - cm.max(x, axis=1, keepdims=True),
    "mean": lambda x: x - cm.mean(x), "var": lambda x: x / cm.sqrt(cm.var(x) + 1.0), "sort": lambda x: cm.sort(x, axis=0),
    "slice": lambda x: cm.concat([x[1:], x[:1]], axis=0), "reshape": lambda x: cm.reshape(cm.reshape(x, (-1,)), x.shape),
    "scan": lambda x: cm.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)[1],
    "cond": lambda x: cm.cond(cm.sum(x) > 0, lambda x: x * 2, lambda x: x - 1, x),
    "take": lambda x: cm.take(x, cm.asarray([2, 0, 1]), axis=0), "clip": lambda x: cm.clip(x, -1.0, 1.0),
    "where": lambda x: cm.where(x > 0.2, x, x * 0.5), "layer_norm": lambda x: cm.layer_norm(x, (-1,)),
}  # fmt: skip
BINARY = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y, "div": lambda x, y: x / (cm.abs(y) + 1.0),
    "max": cm.maximum, "min": cm.minimum, "matmul": lambda x, y: (x @ y) * 0.3, "hypot": lambda x, y: cm.sqrt(x * x + y * y + 1),
    "select": lambda x, y: cm.where(x > y, x, y), "row": lambda x, y: x + y[0],
}  # fmt: skip


@st.composite
def programs(draw):
    """A list of ops on earlier values; the first two values are the arguments."""
    steps, count = [], 2
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(sorted(UNARY))), draw(st.integers(0, count - 1)), None))
        else:
            name, x = draw(st.sampled_from(sorted(BINARY))), draw(st.integers(0, count - 1))
            steps.append((name, x, draw(st.integers(0, count - 1))))
        count += 1
    return steps


def function(steps):
    def f(x, y):
        values = [x, y]
        for name, a, b in steps:
            values.append(UNARY[name](values[a]) if b is None else BINARY[name](values[a], values[b]))
        return values[-1]

    return f


def same(got, want, scale):
    got, want = got.numpy(), want.numpy()
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-5 * scale)


def check(backend, steps, seed, compiler):
    f = function(steps)
    rng = np.random.default_rng(seed)
    with cm.backend(backend):
        x, y = (cm.asarray(rng.normal(size=(3, 3)).astype(np.float32)) for _ in range(2))
        value = f(x, y)
        same(cm.jit(f, compiler=compiler)(x, y), value, 1)

        def loss(x, y):
            return cm.sum(cm.tanh(f(x, y)))

        plain = cm.grad(loss, argnums=(0, 1))
        wants, gots = plain(x, y), cm.jit(plain, compiler=compiler)(x, y)
        for got, want in zip(gots, wants, strict=True):
            same(got, want, max(1.0, float(cm.max(cm.abs(want)))))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(steps=programs(), seed=st.integers(0, 100))
def test_jit_equals_the_function(backend, steps, seed):
    # Compiling each program would take minutes; the next test compiles a few.
    check(backend, steps, seed, compiler=backend in ("native", "numpy"))


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=4, suppress_health_check=[HealthCheck.too_slow], deadline=None, derandomize=True)
@given(steps=programs(), seed=st.integers(0, 100))
def test_jit_with_the_framework_compiler_equals_the_function(backend, steps, seed):
    check(backend, steps, seed, compiler=True)


@settings(deadline=None)
@given(steps=programs(), seed=st.integers(0, 100))
def test_vmap_equals_a_loop(steps, seed):
    f = function(steps)
    rng = np.random.default_rng(seed)
    x, y = (cm.asarray(rng.normal(size=(4, 3, 3)).astype(np.float32)) for _ in range(2))
    got = cm.vmap(f)(x, y)
    want = cm.stack([f(x[i], y[i]) for i in range(4)])
    same(got, want, 1)
    same(cm.jit(cm.vmap(f))(x, y), want, 1)
    one = cm.vmap(f, in_axes=(0, None))(x, y[0])
    same(one, cm.stack([f(x[i], y[0]) for i in range(4)]), 1)
