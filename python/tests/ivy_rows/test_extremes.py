"""Softmax and losses where exp overflows: at ±1e4 and at infinity, values and gradients, on every backend."""

import clematis as cm
import numpy as np
import pytest

from .arrays import EPSILON, FLOATS, doubles, dtype_name, tensor

X = np.array([[1e4, 0.0, -1e4], [-1e4, -1e4, -1e4], [1e4, 1e4, 0.0]])
DTYPES = pytest.mark.parametrize("dtype", FLOATS)


def close(got, want, dtype):
    assert dtype_name(got) == dtype
    np.testing.assert_allclose(doubles(got), want, rtol=4 * EPSILON[dtype], atol=4 * EPSILON[dtype])


@DTYPES
def test_softmax(backend, dtype):
    x = tensor(backend, X, dtype)
    third = 1 / 3
    close(cm.softmax(x, axis=-1), [[1, 0, 0], [third] * 3, [0.5, 0.5, 0]], dtype)
    exact = doubles(x)
    top = exact.max(-1, keepdims=True)
    want = exact - top - np.log(np.exp(exact - top).sum(-1, keepdims=True))
    close(cm.log_softmax(x, axis=-1), want, dtype)
    found = cm.grad(lambda x: cm.sum(cm.softmax(x, axis=-1)[:, 0]))(x)
    close(found, [[0, 0, 0], [2 / 9, -1 / 9, -1 / 9], [0.25, -0.25, 0]], dtype)
    found = cm.grad(lambda x: cm.sum(cm.log_softmax(x, axis=-1)[:, 0]))(x)
    close(found, [[0, 0, 0], [2 / 3, -third, -third], [0.5, -0.5, 0]], dtype)


@DTYPES
def test_infinities(backend, dtype):
    """What is -inf takes no part; +inf has no defined share."""
    x = tensor(backend, np.array([0.0, -np.inf, 0.0]), dtype)
    close(cm.softmax(x, axis=-1), [0.5, 0, 0.5], dtype)
    assert doubles(cm.log_softmax(x, axis=-1))[1] == -np.inf
    found = doubles(cm.grad(lambda x: cm.softmax(x, axis=-1)[0])(x))
    np.testing.assert_allclose(found, [0.25, 0, -0.25], atol=4 * EPSILON[dtype])
    assert doubles(cm.logsumexp(tensor(backend, np.array([-np.inf, -np.inf]), dtype))) == -np.inf
    assert doubles(cm.logsumexp(tensor(backend, np.array([np.inf, 0.0]), dtype))) == np.inf


@DTYPES
def test_of_logits(backend, dtype):
    """The gradient at a logit is the sigmoid minus the target, at any size."""
    logits = np.array([1e4, -1e4, 1e4, -1e4, 0.0])
    truth = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    x, t = tensor(backend, logits, dtype), tensor(backend, truth, dtype)
    large = abs(doubles(x)[0])
    close(cm.binary_cross_entropy_with_logits(t, x), [0, 0, large, large, np.log(2)], dtype)
    found = cm.grad(lambda x: cm.sum(cm.binary_cross_entropy_with_logits(t, x)))(x)
    close(found, [0, 0, 1, -1, -0.5], dtype)


@DTYPES
def test_of_probabilities(backend, dtype):
    """A wrong prediction with probability 1 has a finite loss and a gradient without NaN."""
    p = tensor(backend, np.array([[0.0, 1.0], [1.0, 0.0]]), dtype)
    t = tensor(backend, np.array([[1.0, 0.0], [1.0, 0.0]]), dtype)
    for loss in (cm.binary_cross_entropy, cm.cross_entropy):
        value = cm.sum(loss(t, p))
        assert np.isfinite(doubles(value)) and doubles(value) > 5
        assert not np.isnan(doubles(cm.grad(lambda p, f=loss: cm.sum(f(t, p)))(p))).any()
    classes = tensor(backend, np.array([0, 0]))
    assert np.isfinite(doubles(cm.sum(cm.sparse_cross_entropy(classes, p))))


@DTYPES
def test_of_differences(backend, dtype):
    """Straight losses stay straight."""
    x, zero = tensor(backend, np.array([1e4, -1e4]), dtype), tensor(backend, np.zeros(2), dtype)
    large = abs(doubles(x)[0])
    close(cm.l1_loss(zero, x, reduction="none"), [large, large], dtype)
    close(cm.huber_loss(zero, x, reduction="none"), [large - 0.5, large - 0.5], dtype)
    close(cm.smooth_l1_loss(x, zero, reduction="none"), [large - 0.5, large - 0.5], dtype)
    for loss in (cm.l1_loss, cm.huber_loss):
        close(cm.grad(lambda x, f=loss: cm.sum(f(zero, x, reduction="none")))(x), [1, -1], dtype)


@DTYPES
def test_smooth_steps(backend, dtype):
    x = tensor(backend, np.array([1e4, -1e4, np.inf, -np.inf, 0.0]), dtype)
    large = abs(doubles(x)[0])
    close(cm.sigmoid(x), [1, 0, 1, 0, 0.5], dtype)
    close(cm.log_sigmoid(x), [0, -large, 0, -np.inf, -np.log(2)], dtype)
    close(cm.softplus(x), [large, 0, np.inf, 0, np.log(2)], dtype)
    finite = tensor(backend, np.array([1e4, -1e4, 0.0]), dtype)
    close(cm.grad(lambda x: cm.sum(cm.softplus(x)))(finite), [1, 0, 0.5], dtype)
    close(cm.grad(lambda x: cm.sum(cm.log_sigmoid(x)))(finite), [0, 1, 0.5], dtype)
