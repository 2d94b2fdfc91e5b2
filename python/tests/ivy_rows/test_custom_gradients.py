"""Functions whose derivative is their author's, on every backend."""

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from . import draw
from .arrays import HAS_RAW, doubles, raw, tensor
from .test_gradients import close, each

pytestmark = pytest.mark.row("custom-gradients", "test_bind_custom_gradient_function")

INNER = {"square": (lambda x: x * x, lambda x: x * x), "cos": (cm.cos, np.cos)}
RULES = {
    "input": (lambda args, up: up * args[0], lambda x, y: x),
    "output": (lambda args, up: up * args[1], lambda x, y: y),
}


@st.composite
def points(d):
    shape = draw.one_of(d, (2, 3), (3, 2), (), (0, 2))
    return d(st.sampled_from(sorted(INNER))), d(st.sampled_from(sorted(RULES))), draw.content(d, *shape, unit=128)


def test_bind_custom_gradient_function(cell):
    def test(dtype, inner, rule, x):
        f, plain = INNER[inner]
        custom, derivative = RULES[rule]
        bound = cm.bind_custom_gradient_function(f, custom)
        y = plain(x)
        t = tensor(cell.backend, x, dtype)
        close(cell, bound(t), y, dtype, "value")
        if cell.backend in HAS_RAW:
            close(cell, bound(raw(cell.backend, x, dtype)), y, dtype, "value of a framework's array")
        if x.size == 0:
            assert cm.grad(lambda x: cm.sum(bound(x)))(t).shape == x.shape
            return

        def loss(x):
            return cm.mean(cm.exp(bound(x)))

        value, found = cm.execute_with_gradients(loss, t)
        want = np.exp(y) / x.size * derivative(x, y)
        close(cell, value, np.mean(np.exp(y)), dtype, "value of the whole")
        close(cell, found, want, dtype, "gradient")
        close(cell, cm.grad(loss)(t), want, dtype, "grad")
        grads = cm.grad(lambda p: loss(p["w"]))(cm.Container({"w": t}))
        close(cell, grads.w, want, dtype, "in a container")

    each(cell, test, points())


def test_inside_the_framework_s_autodiff(cell):
    """The rule is followed there too."""
    bound = cm.bind_custom_gradient_function(lambda x: x * x, lambda args, up: up * args[0] * 10)
    x = np.array([1.0, 2.0], np.float32)
    if cell.backend == "torch":
        t = raw("torch", x).requires_grad_(True)
        bound(t).sum().backward()
        found = t.grad
    elif cell.backend == "jax":
        import jax

        found = jax.grad(lambda x: bound(x).sum())(raw("jax", x))
    elif cell.backend == "tensorflow":
        import tensorflow as tf

        t = raw("tensorflow", x)
        with tf.GradientTape() as tape:
            tape.watch(t)
            y = tf.reduce_sum(bound(t))
        found = tape.gradient(y, t)
    else:
        found = cm.grad(lambda x: cm.sum(bound(x)))(tensor(cell.backend, x))
    assert doubles(found).tolist() == [10, 20]


def test_several_inputs_and_outputs(cell):
    def forward(a, b):
        return a * b, a + b

    def custom(args, ups):
        (a, b), (product, total) = args
        up, up2 = ups
        return up * b * 10 + up2 * product, up * a * 100 + up2 * total

    bound = cm.bind_custom_gradient_function(forward, custom)
    a, b = (tensor(cell.backend, np.array(v)) for v in ([1.0, 2.0], [3.0, 4.0]))
    product, total = bound(a, b)
    assert doubles(product).tolist() == [3, 8] and doubles(total).tolist() == [4, 6]
    found = cm.grad(lambda a, b: cm.sum(bound(a, b)[0] * 2) + cm.sum(bound(a, b)[1]), argnums=(0, 1))(a, b)
    assert doubles(found[0]).tolist() == [63, 88] and doubles(found[1]).tolist() == [204, 406]


def test_second_order_differentiates_the_rule(cell):
    bound = cm.bind_custom_gradient_function(lambda x: x * x * x, lambda args, up: up * args[0] * args[0] * 5)
    x = tensor(cell.backend, np.array([1.0, 2.0]))
    found = cm.grad(lambda x: cm.sum(cm.grad(lambda x: cm.sum(bound(x)))(x)))(x)
    assert doubles(found).tolist() == [10, 20]


def test_a_framework_s_array_may_come_back(cell):
    """A rule may be written in the framework's own words."""
    if cell.backend not in HAS_RAW:
        return
    bound = cm.bind_custom_gradient_function(lambda x: x * 1, lambda args, up: (up * 3).native)
    found = cm.grad(lambda x: cm.sum(bound(x)))(tensor(cell.backend, np.array([1.0, 2.0])))
    assert doubles(found).tolist() == [3, 3]
