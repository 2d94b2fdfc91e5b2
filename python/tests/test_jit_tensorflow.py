"""`cm.jit` on TensorFlow: XLA clusters, TensorFlow's own kernels, unrolled loops."""

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
    """Compiles every cluster, however small."""
    monkeypatch.setattr(clusters, "_MIN_OPS", 1)
    monkeypatch.setattr(clusters, "_MIN_BYTES", 0)


def trained(backend, steps=3):
    """Losses, parameters and the plan of a small network with convolution, pooling and Adam."""
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


def test_a_clustered_step_equals_the_step_on_native(eager_clusters):
    losses, params, plan = trained("tensorflow")
    expected, others, _ = trained("native")
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    for name, x in params.items():
        np.testing.assert_allclose(x, others[name], rtol=1e-4, atol=1e-5)
    assert plan.count("ops.run_compiled(") >= 2


def test_operands_of_pooling_are_computed_in_another_cluster(eager_clusters):
    functions = trained("tensorflow", steps=1)[2].split("    def _cluster_")[1:]
    for text in functions:
        for x in re.findall(r"ops\.(?:reduce_window_max|window_scatter_max)\((v\d+)", text):
            assert f"        {x} = " not in text


def test_matmuls_of_transposed_operands_are_not_clustered(eager_clusters):
    with cm.backend("tensorflow"):
        x, w = cm.ones((512, 512)), cm.ones((512, 512))
        step = cm.jit(cm.grad(lambda w: cm.sum(cm.tanh(x @ w))))
        np.testing.assert_allclose(np.asarray(step(w)), 0, atol=1e-6)
        lines = cm.explain(step, w).plan.splitlines()
    matmuls = {line.partition("lhs_contract=")[2][:4]: line for line in lines if "dot_general" in line}
    assert matmuls["(1,)"].startswith("        v") and matmuls["(0,)"].startswith("    v")


def conv_gradients(backend, strides, padding, size):
    """The gradients of a network of two convolutions by weights and input, and the plan."""
    with cm.backend(backend):
        rng = np.random.default_rng(1)
        draw = lambda *shape: cm.asarray(rng.standard_normal(shape).astype("float32"))
        v = {"a": draw(3, 3, 2, 4), "b": draw(4), "c": draw(3, 2, 4, 5), "d": draw(5), "x": draw(2, size, size, 2)}

        def loss(v):
            z = cm.relu(v["b"] + cm.conv2d(v["x"], v["a"], strides, padding))
            return cm.sum(cm.tanh(cm.relu(cm.conv2d(z, v["c"], strides, padding) + v["d"])))

        step = cm.jit(cm.grad(loss))
        return {name: np.asarray(x) for name, x in step(v).items()}, cm.explain(step, v).plan


@pytest.mark.parametrize("size", [9, 12])
@pytest.mark.parametrize("padding", ["VALID", "SAME"])
@pytest.mark.parametrize("strides", [1, 2, (3, 1)])
def test_gradients_of_convolutions_use_kernels(eager_clusters, strides, padding, size):
    mine, plan = conv_gradients("tensorflow", strides, padding, size)
    others, _ = conv_gradients("native", strides, padding, size)
    for name, x in mine.items():
        np.testing.assert_allclose(x, others[name], rtol=1e-4, atol=1e-4, err_msg=name)
    assert "ops.conv_transpose_input_grad(" in plan and "ops.reverse(" not in plan


def test_bias_relu_and_relu_mask_use_kernels(eager_clusters):
    _, plan = conv_gradients("tensorflow", 1, "VALID", 9)
    assert "    v" in plan and "ops.bias_relu(" in plan and "ops.relu_grad(" in plan
    for line in plan.splitlines():
        if "ops.bias_relu(" in line or "ops.relu_grad(" in line:
            assert not line.startswith("     "), line


def test_bias_gradients_run_beside_convolutions(eager_clusters):
    _, plan = conv_gradients("tensorflow", 1, "VALID", 9)
    sums = [line for line in plan.splitlines() if "ops.reduce_sum(" in line and "axes=(0, 1, 2,)" in line]
    assert len(sums) == 2 and not any(line.startswith("     ") for line in sums)


def test_bias_relu_with_another_reader_is_clustered(eager_clusters):
    def loss(v):
        z = cm.conv2d(v["x"], v["a"], 1, "VALID") + v["b"]
        return cm.sum(cm.relu(z) * cm.tanh(z))

    values = {"a": np.sin(np.arange(36)), "b": np.ones(2), "x": np.cos(np.arange(72))}
    values = {"a": values["a"].reshape(3, 3, 2, 2), "b": values["b"], "x": values["x"].reshape(1, 6, 6, 2)}
    found = []
    for backend in ("tensorflow", "native"):
        with cm.backend(backend):
            v = {name: cm.asarray(x.astype("float32")) for name, x in values.items()}
            step = cm.jit(cm.grad(loss))
            found.append(({name: np.asarray(x) for name, x in step(v).items()}, cm.explain(step, v).plan))
    (mine, plan), (others, _) = found
    for name, x in mine.items():
        np.testing.assert_allclose(x, others[name], rtol=1e-4, atol=1e-5, err_msg=name)
    assert "ops.bias_relu(" not in plan


def test_large_matmuls_are_serialized(eager_clusters, monkeypatch):
    monkeypatch.setattr(clusters, "_MULTI_THREADED_MACS", 0)
    values = [np.sin(np.arange(n * n, dtype="float32")).reshape(n, n) / 20 for n in (512, 512, 512)]
    found = []
    for backend in ("tensorflow", "native"):
        with cm.backend(backend):
            x, *ws = (cm.asarray(value) for value in values)
            step = cm.jit(cm.grad(lambda ws, x=x: cm.sum(cm.tanh(cm.tanh(x @ ws[0]) @ ws[1]))))
            found.append(([np.asarray(w) for w in step(ws)], cm.explain(step, ws).plan))
    (mine, plan), (others, _) = found
    for one, other in zip(mine, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)
    lines = plan.splitlines()
    (at,) = (i for i, line in enumerate(lines) if "with ops.after(" in line)
    waits = re.search(r"v\d+", lines[at])[0]
    assert "lhs_contract=(0,)" in lines[at + 1]
    assert any(line.startswith(f"    {waits} = ops.dot_general(") for line in lines[:at])


BIAS_RELU = """
import numpy as np
import tensorflow as tf
from clematis._convert.lowered import dialect

ops = dialect("tensorflow")

@tf.function(autograph=False)
def run(x, w, bias):
    return ops.bias_relu(tf.nn.conv2d(x, w, 1, "VALID"), bias)

x = np.ones((2, 9, 9, 3), "float32")
x[0, 0, 0, 0], x[1] = np.nan, -0.0
bias = np.where(np.arange(17) % 2, np.float32(-0.0), np.float32(-1.0))
y = run(tf.constant(x), tf.ones((3, 3, 3, 17)), tf.constant(bias)).numpy()
assert np.isnan(y[0, 0, 0]).all() and not np.isnan(y[0, 1:]).any() and y[0, 3, 3, 0] == 26
assert not y[1].any() and not np.signbit(y[1]).any()
"""


def test_bias_relu_propagates_nan_and_returns_positive_zero():
    pytest.importorskip("tensorflow")
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": str(Path(cm.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", BIAS_RELU], env=env, capture_output=True, check=False, text=True)
    assert out.returncode == 0, out.stderr[-4000:]


BIAS_GRADIENT = """
import numpy as np
import tensorflow as tf
from clematis._convert.lowered import dialect

@tf.function(autograph=False)
def gradients(x, y):
    # Only the first output of the split is an operand of the weight gradient.
    one, other = tf.split(y, 2, 0)
    attributes = {"filter_sizes": [3, 3, 3, 5], "strides": [1, 1, 1, 1], "padding": "VALID"}
    filters = tf.raw_ops.Conv2DBackpropFilter(input=x, out_backprop=one, **attributes)
    return filters, dialect("tensorflow").reduce_sum(other, axes=(0, 1, 2))

x, y = tf.ones((4, 8, 8, 3)), tf.constant(np.arange(8 * 36 * 5, dtype="float32").reshape(8, 6, 6, 5))
np.testing.assert_allclose(gradients(x, y)[1].numpy(), y.numpy()[4:].sum((0, 1, 2)), rtol=1e-5)
"""


def test_bias_gradient_of_a_split_that_a_weight_gradient_reads():
    pytest.importorskip("tensorflow")
    # With oneDNN, which users have and the other tests switch off.
    env = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": "1", "PYTHONPATH": str(Path(cm.__file__).parents[1])}
    out = subprocess.run([sys.executable, "-c", BIAS_GRADIENT], env=env, capture_output=True, check=False, text=True)
    assert out.returncode == 0, out.stderr[-4000:]


def test_small_clusters_are_not_compiled():
    assert "run_compiled" not in trained("tensorflow", steps=1)[2]


@pytest.mark.parametrize("length", [1, 5, 70])
@pytest.mark.parametrize("reverse", [False, True])
def test_unrolled_and_rolled_loops(length, reverse):
    def sums(x):
        return cm.scan(lambda c, r: (c * 0.5 + r, c * r), cm.zeros((2,)), x, reverse=reverse)

    values = np.linspace(-1, 1, 2 * length, dtype="float32").reshape(length, 2)
    with cm.backend("tensorflow"):
        last, rows = cm.jit(sums)(cm.asarray(values))
        gradient = cm.jit(cm.grad(lambda x: cm.sum(sums(x)[1])))(cm.asarray(values))
    other_last, other_rows = sums(cm.asarray(values))
    other_gradient = cm.grad(lambda x: cm.sum(sums(x)[1]))(cm.asarray(values))
    pairs = ((last, other_last), (rows, other_rows), (gradient, other_gradient))
    for mine, other in pairs:
        np.testing.assert_allclose(np.asarray(mine), np.asarray(other), rtol=1e-5, atol=1e-6)
