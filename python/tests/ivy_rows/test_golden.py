"""The numbers of the golden tables: the references give them, and so does every backend."""

import clematis as cm
import numpy as np
import pytest

from . import reference_gradients as gradients
from . import reference_layers as layers
from .arrays import doubles, tensor

A = np.array


def wave(values):
    return A(values, float).reshape(1, -1, 1)


def taps(count):
    return (10.0 ** np.arange(count)).reshape(count, 1, 1)


SIX = wave([1, 2, 3, 4, 5, 6])
TWO = np.arange(1.0, 9).reshape(1, 2, 4)
Q = A([[[0.2, 1.0], [2.2, 3.0], [4.4, 5.6]]])
K = A([[[0.6, 1.5], [2.4, 3.3], [4.2, 5.1]]])
V = A([[[0.4, 1.3], [2.2, 3.1], [4.3, 5.3]]])
CONTEXT = A([[[0.2, 1.0, 1.1, 4.2], [2.2, 3.0, 0.9, 3.6], [4.4, 5.6, 2.2, 0.4]]])
W, G, ZERO = A([1.0, 2.0, 3.0]), A([0.5, 0.2, 0.1]), np.zeros(3)
LAMB = [W, G, 0.1, ZERO, np.zeros(1), 1]


def row(name, args, want, dashboard="layers", **kwargs):
    return pytest.param(name, args, kwargs, want, marks=pytest.mark.row(dashboard, f"test_{name}"))


def forward(want, *args, **kwargs):
    return row("conv1d", [SIX, taps(3), *args], wave(want), **kwargs)


def transposed(want, count, *args, **kwargs):
    return row("conv1d_transpose", [wave([1, 2, 3]), taps(count), *args], wave(want), **kwargs)


def optimiser(name, args, want, **kwargs):
    return row(name, args, want, "gradients", **kwargs)


GOLDEN = [
    forward([210, 321, 432, 543, 654, 65], 1, "SAME"),
    forward([321, 543, 65], 2, "SAME"),
    forward([321, 543], 2, "VALID"),
    forward([420, 53], 3, "SAME", dilations=2),
    forward([100, 210, 321, 432, 543, 654, 65], 1, [(2, 1)]),
    forward([10, 201, 20, 302, 30, 403, 40, 504, 50, 605, 60], 1, "SAME", x_dilations=2),
    forward([1, 20, 300, 3, 40, 500, 5], 2, "VALID", x_dilations=3),
    transposed([12, 123, 230], 3, 1, "SAME"),
    transposed([1, 10, 102, 20, 203, 30], 3, 2, "SAME"),
    transposed([1, 10, 102, 20, 203, 30, 300], 3, 2, "VALID"),
    transposed([1, 10, 0, 2, 20, 0, 3, 30, 0], 2, 3, "SAME"),
    transposed([1, 10, 0, 2, 20, 0, 3, 30, 0], 2, 3, "VALID"),
    transposed([0, 12, 0, 123, 0, 230], 3, 2, "SAME", dilations=2),
    transposed([10, 102, 1020, 203, 2030, 300], 4, 2, "SAME"),
    row(
        "conv_general_dilated", [TWO, np.arange(1.0, 9).reshape(1, 2, 4), 1, "VALID"],
        A([[[11.0, 14, 37, 44], [35, 46, 77, 92]]]), dims=1, feature_group_count=2,
    ),
    row(
        "conv_general_transpose", [TWO, np.arange(1.0, 9).reshape(1, 4, 2), 1, "VALID"],
        A([[[7.0, 10, 43, 50], [23, 34, 91, 106]]]), dims=1, feature_group_count=2,
    ),
    row(
        "depthwise_conv2d",
        [np.arange(1.0, 19).reshape(1, 3, 3, 2), np.stack([np.ones((2, 2)), A([[1.0, 0], [0, -1]])], -1), 1, "VALID"],
        A([[[[20.0, -8], [28, -8]], [[44, -8], [52, -8]]]]),
    ),
    row("scaled_dot_product_attention", [Q, K, V, 1.0], A([[[4.03946, 5.028063], [4.299819, 5.299811], [4.3, 5.3]]])),
    row(
        "scaled_dot_product_attention", [Q, K, V, 1.0], np.tile(A([2.3, 3.233333]), (1, 3, 1)),
        mask=np.zeros((1, 3, 3)),
    ),
    row(
        "scaled_dot_product_attention", [Q, K, V, 0.5],
        A([[[0.4, 1.3], [2.183451, 3.083451], [4.299741, 5.299728]]]), mask=np.tril(np.ones((1, 3, 3))),
    ),
    row(
        "multi_head_attention", [Q, 1.0, 2],
        A([[[1.567876, 0.654418], [2.189697, 0.401314], [2.199919, 0.400002]]]), context=CONTEXT,
    ),
    row(
        "lstm_update", [A([[[1.0], [2.0]]]), A([[0.5]]), A([[0.25]]), A([[0.1, 0.2, 0.3, 0.4]]), A([[0.4, 0.3, 0.2, 0.1]])],
        (A([[[0.225826], [0.364727]]]), A([[0.574516]])), bias=A([0.01, 0.02, 0.03, 0.04]),
    ),
    optimiser("gradient_descent_update", [W, G, 0.1], W - 0.1 * G),
    optimiser("optimizer_update", [W, G, 0.1], W - 0.1 * G),
    optimiser("adam_step", [G, ZERO, np.zeros(1), 1], (
        A([0.999993, 0.999983, 0.999967]), A([0.05, 0.02, 0.01]), A([2.5e-4, 4e-5, 1e-5]),
    )),
    optimiser("adam_step", [W, np.ones(3), np.ones(1), 3], (
        A([0.202011, 0.221879, 0.241449]), A([1.0, 1.1, 1.2]), A([1.0, 1.003, 1.008]),
    )),
    optimiser("adam_update", LAMB, (A([0.900001, 1.900002, 2.900003]), A([0.05, 0.02, 0.01]), A([2.5e-4, 4e-5, 1e-5]))),
    optimiser("lars_update", [W, G, 0.1], A([0.658435, 1.863374, 2.931687])),
    optimiser("lars_update", [W, G, 0.1], A([0.817426, 1.92697, 2.963485]), decay_lambda=0.5),
    optimiser("lamb_update", LAMB, (A([0.783973, 1.783975, 2.783978]), None, None)),
    optimiser("lamb_update", LAMB, (A([0.89417, 1.894171, 2.894172]), None, None), decay_lambda=0.5),
    optimiser("lamb_update", LAMB, (A([0.900001, 1.900002, 2.900003]), None, None), max_trust_ratio=1),
]  # fmt: skip


def reference(name):
    if name in ("conv1d", "conv_general_dilated"):
        return layers.conv
    if name in ("conv1d_transpose", "conv_general_transpose"):
        return layers.conv_transpose
    return getattr(layers, name, None) or getattr(gradients, name)


def compare(got, want):
    got, want = (x if isinstance(x, tuple) else (x,) for x in (got, want))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        if w is not None:
            # The tables have six digits after the point.
            np.testing.assert_allclose(doubles(g) if isinstance(g, cm.Tensor) else g, w, rtol=0, atol=6e-7)


@pytest.mark.parametrize("name, args, kwargs, want", GOLDEN)
def test_the_reference(name, args, kwargs, want):
    compare(reference(name)(*args, **kwargs), want)


@pytest.mark.parametrize("name, args, kwargs, want", GOLDEN)
def test_the_function(cell, name, args, kwargs, want):
    def made(x):
        return tensor(cell.backend, x) if isinstance(x, np.ndarray) else x

    compare(getattr(cm, name)(*map(made, args), **{n: made(x) for n, x in kwargs.items()}), want)


def test_shapes_of_the_docstrings():
    assert layers.conv_transpose(np.ones((1, 28, 3)), np.ones((3, 3, 6)), 2, "SAME").shape == (1, 56, 6)
    y = layers.conv_transpose(np.ones((1, 6, 6, 1)), np.ones((3, 3, 1, 1)), 1, "VALID", dilations=2)
    assert y.shape == (1, 10, 10, 1)
