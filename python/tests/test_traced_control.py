"""Branches and loops on values that a framework itself is tracing."""

import clematis as cm
import numpy as np
import pytest


def halved_or_doubled(x):
    return cm.cond(cm.sum(x) > 3, lambda x: x * 0.5, lambda x: x * 2.0, x)


def steps_to_one(x):
    """How often x has to be halved to fall below one, and what is left."""
    return cm.while_loop(lambda c: c["x"] >= 1.0, lambda c: {"x": c["x"] / 2, "n": c["n"] + 1}, {"x": x, "n": cm.zeros_like(x)})


SMALL, LARGE = np.float32([0.5, 1.0]), np.float32([2.0, 3.0])


def test_jax_jit_branches():
    import jax

    f = jax.jit(halved_or_doubled)
    np.testing.assert_array_equal(f(jax.numpy.asarray(SMALL)), SMALL * 2)
    np.testing.assert_array_equal(f(jax.numpy.asarray(LARGE)), LARGE / 2)


def test_jax_grad_through_a_branch():
    import jax

    g = jax.jit(jax.grad(lambda x: halved_or_doubled(x).sum()))
    np.testing.assert_array_equal(g(jax.numpy.asarray(SMALL)), [2.0, 2.0])
    np.testing.assert_array_equal(g(jax.numpy.asarray(LARGE)), [0.5, 0.5])


def test_jax_jit_loops():
    import jax

    out = jax.jit(steps_to_one)(jax.numpy.float32(20.0))
    assert (float(out["x"]), float(out["n"])) == (0.625, 5.0)


def test_tensorflow_function_branches():
    import tensorflow as tf

    f = tf.function(halved_or_doubled)
    np.testing.assert_array_equal(f(tf.constant(SMALL)), SMALL * 2)
    np.testing.assert_array_equal(f(tf.constant(LARGE)), LARGE / 2)
    x = tf.constant(LARGE)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(f(x))
    np.testing.assert_array_equal(tape.gradient(y, x), [0.5, 0.5])


def test_tensorflow_function_loops():
    import tensorflow as tf

    out = tf.function(steps_to_one)(tf.constant(20.0))
    assert (float(out["x"]), float(out["n"])) == (0.625, 5.0)


def test_torch_compile_branches():
    import torch

    f = torch.compile(halved_or_doubled)
    np.testing.assert_array_equal(f(torch.tensor(SMALL)), SMALL * 2)
    np.testing.assert_array_equal(f(torch.tensor(LARGE)), LARGE / 2)


def test_branches_of_different_structure_are_refused():
    import jax

    def f(x):
        return cm.cond(cm.sum(x) > 0, lambda x: {"a": x}, lambda x: {"b": x}, x)

    with pytest.raises(cm.ArgumentError, match="branches return different structures"):
        jax.jit(f)(jax.numpy.asarray(SMALL))
