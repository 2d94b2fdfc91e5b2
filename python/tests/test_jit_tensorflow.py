"""What programs on tensorflow are made of: loops of its compiler between products, and loops that are written out."""

import os
import re
import subprocess
import sys
from pathlib import Path

import clematis as cm
import numpy as np
import pytest
from clematis._jit import clusters


@pytest.fixture
def eager_clusters(monkeypatch):
    """Everything that can be handed to the compiler is, however small."""
    monkeypatch.setattr(clusters, "_FEWEST", 1)
    monkeypatch.setattr(clusters, "_LEAST", 0)


def trained(backend, steps=3):
    """Parameters and losses of a small net with convolutions, pools and Adam."""
    with cm.backend(backend):
        rng = np.random.default_rng(0)
        draw = lambda *shape: cm.asarray(rng.standard_normal(shape).astype("float32") * 0.3)
        v = {"a": draw(3, 3, 2, 4), "b": draw(4), "c": draw(36, 5)}
        x, y, adam = draw(6, 8, 8, 2), draw(6, 5), cm.optim.Adam(1e-2)

        def loss(v):
            z = cm.relu(cm.conv2d(x, v["a"], 1, "VALID") + v["b"])
            z = cm.reshape(cm.max_pool2d(z, 2, 2, "VALID"), (6, 36))
            return cm.mean((cm.tanh(z @ v["c"]) - y) ** 2)

        @cm.jit
        def step(v):
            value, grads = cm.value_and_grad(loss)(v)
            adam.step(v, grads)
            return value

        losses = [float(step(v)) for _ in range(steps)]
        return losses, {name: np.asarray(x) for name, x in v.items()}, cm.explain(step, v).plan


def test_a_step_in_clusters_is_the_step(eager_clusters):
    losses, params, plan = trained("tensorflow")
    expected, others, _ = trained("native")
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name, x in params.items():
        np.testing.assert_allclose(x, others[name], rtol=1e-4, atol=1e-5)
    assert plan.count("ops.run_compiled(") >= 3


def test_what_a_pool_reads_is_made_in_another_function(eager_clusters):
    functions = trained("tensorflow", steps=1)[2].split("    def _loop_")[1:]
    for text in functions:
        for x in re.findall(r"ops\.(?:reduce_window_max|window_scatter_max)\((v\d+)", text):
            assert f"        {x} = " not in text


def test_products_of_turned_operands_are_not_compiled(eager_clusters):
    with cm.backend("tensorflow"):
        x, w = cm.ones((512, 512)), cm.ones((512, 512))
        step = cm.jit(cm.grad(lambda w: cm.sum(cm.tanh(x @ w))))
        np.testing.assert_allclose(np.asarray(step(w)), 0, atol=1e-6)
        lines = cm.explain(step, w).plan.splitlines()
    products = {line.partition("lhs_contract=")[2][:4]: line for line in lines if "dot_general" in line}
    assert products["(1,)"].startswith("        v") and products["(0,)"].startswith("    v")


BESIDE = """
import numpy as np
import tensorflow as tf
from clematis._convert.lowered import dialect

@tf.function(autograph=False)
def slopes(x, y):
    # Only the first of what one node gives goes to the filter gradient.
    one, other = tf.split(y, 2, 0)
    how = {"filter_sizes": [3, 3, 3, 5], "strides": [1, 1, 1, 1], "padding": "VALID"}
    filters = tf.raw_ops.Conv2DBackpropFilter(input=x, out_backprop=one, **how)
    return filters, dialect("tensorflow").reduce_sum(other, axes=(0, 1, 2))

x, y = tf.ones((4, 8, 8, 3)), tf.constant(np.arange(8 * 36 * 5, dtype="float32").reshape(8, 6, 6, 5))
np.testing.assert_allclose(slopes(x, y)[1].numpy(), y.numpy()[4:].sum((0, 1, 2)), rtol=1e-5)
"""


def test_sums_beside_filter_gradients_that_read_the_same_node():
    pytest.importorskip("tensorflow")
    # With the kernels that users have, which the other tests do without.
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": str(Path(cm.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", BESIDE], env=env, capture_output=True, check=False, text=True)
    assert out.returncode == 0, out.stderr[-4000:]


def test_what_is_small_is_not_compiled():
    assert "run_compiled" not in trained("tensorflow", steps=1)[2]


@pytest.mark.parametrize("length", [1, 5, 70])
@pytest.mark.parametrize("reverse", [False, True])
def test_loops_short_and_long(length, reverse):
    def sums(x):
        return cm.scan(lambda c, r: (c * 0.5 + r, c * r), cm.zeros((2,)), x, reverse=reverse)

    values = np.linspace(-1, 1, 2 * length, dtype="float32").reshape(length, 2)
    with cm.backend("tensorflow"):
        last, rows = cm.jit(sums)(cm.asarray(values))
        slope = cm.jit(cm.grad(lambda x: cm.sum(sums(x)[1])))(cm.asarray(values))
    other_last, other_rows = sums(cm.asarray(values))
    other_slope = cm.grad(lambda x: cm.sum(sums(x)[1]))(cm.asarray(values))
    pairs = ((last, other_last), (rows, other_rows), (slope, other_slope))
    for mine, other in pairs:
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=1e-5, atol=1e-6)
