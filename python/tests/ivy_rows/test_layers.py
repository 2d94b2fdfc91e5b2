"""The layers, each on every backend."""

import clematis as cm
import numpy as np
import pytest

from . import draw
from . import reference_layers as reference
from .arrays import FLOATS, INTEGERS, doubles, dtype_name, raw, tensor
from .harness import Row, check, check_one

pytestmark = pytest.mark.row("layers")


def conv_row(name, dims, **more):
    general = dims is None
    return Row(name, lambda backend: draw.conv(backend, dims, general), reference.conv, 4, **more)


def transposed_row(name, dims):
    general = dims is None
    return Row(name, lambda backend: draw.conv_transpose(backend, dims, general), reference.conv_transpose, 4)


def test_conv1d(cell):
    check(conv_row("conv1d", 1), cell)


def test_conv2d(cell):
    check(conv_row("conv2d", 2), cell)


def test_conv3d(cell):
    check(conv_row("conv3d", 3), cell)


def test_conv1d_transpose(cell):
    check(transposed_row("conv1d_transpose", 1), cell)


def test_conv2d_transpose(cell):
    check(transposed_row("conv2d_transpose", 2), cell)


def test_conv3d_transpose(cell):
    check(transposed_row("conv3d_transpose", 3), cell)


def test_depthwise_conv2d(cell):
    check(Row("depthwise_conv2d", draw.depthwise, reference.depthwise_conv2d, 4), cell)


def test_conv_general_dilated(cell):
    check(conv_row("conv_general_dilated", None), cell)


def test_conv_general_transpose(cell):
    check(transposed_row("conv_general_transpose", None), cell)


def test_linear(cell):
    check(Row("linear", draw.linear, reference.linear, 2, integers="same"), cell)


MASK = frozenset({"mask"})


def test_scaled_dot_product_attention(cell):
    row = Row(
        "scaled_dot_product_attention", draw.attention, reference.scaled_dot_product_attention, 4, flat=MASK,
        integers="float64",
    )  # fmt: skip
    check(row, cell)


def test_multi_head_attention(cell):
    # In half precision each of the three functions rounds once more.
    row = Row("multi_head_attention", draw.multi_head, reference.multi_head_attention, 3, flat=MASK, factor=4)
    check(row, cell)


def test_lstm_update(cell):
    check(Row("lstm_update", draw.lstm, reference.lstm_update, 5, out=None), cell)


def dropped(x, prob, scale, dtype, training, seed, noise_shape):
    """What the engine keeps with this seed decides; the rest is arithmetic."""
    if not training or prob == 0:
        return x
    if prob == 1:
        return x * 0
    ones = tensor("native", np.ones(x.shape))
    kept = doubles(cm.dropout(ones, prob, scale=False, dtype=dtype, seed=seed, noise_shape=noise_shape))
    return x * kept / (1 - prob if scale else 1)


def test_dropout(cell):
    check(Row("dropout", draw.dropout, dropped, 2), cell)


@pytest.mark.row("layers", "test_dropout")
def test_dropout_draws(cell):
    """How many are kept, whether a noise axis is shared, and whether a seed is a seed."""
    backend = cell.backend
    x = tensor(backend, np.ones((64, 64)), "float32")
    for prob in (0.1, 0.5, 0.9):
        y = doubles(cm.dropout(x, prob, seed=0))
        kept = np.mean(y != 0)
        assert abs(kept - (1 - prob)) < 6 * (prob * (1 - prob) / 4096) ** 0.5
        np.testing.assert_allclose(y[y != 0], 1 / (1 - prob), rtol=1e-6)
        again = doubles(cm.dropout(x, prob, seed=0))
        assert (y == again).all(), "a seed of 0 is a seed"
        assert (y != doubles(cm.dropout(x, prob, seed=1))).any()
    shared = doubles(cm.dropout(x, 0.5, seed=5, noise_shape=(None, 1)))
    assert (shared == shared[:, :1]).all() and 0 < np.mean(shared[:, 0] != 0) < 1
    cm.seed(seed_value=4)
    first, second = doubles(cm.dropout(x, 0.5)), doubles(cm.dropout(x, 0.5))
    assert (first != second).any()
    cm.seed(seed_value=4)
    assert (first == doubles(cm.dropout(x, 0.5))).all()
    kept = doubles(cm.dropout(x, 0.5, key=cm.random.key(9)))
    assert (kept == doubles(cm.dropout(x, 0.5, seed=9))).all()


@pytest.mark.row("layers", "test_dropout")
@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_at_its_ends(cell, dtype):
    values = np.array([[1.0, -2.0], [np.inf, 0.5]])
    x = tensor(cell.backend, values, dtype)
    for scale in (True, False):
        for more in ({"seed": 0}, {"seed": 0, "noise_shape": (1, None)}, {}):
            all_kept = cm.dropout(x, 0.0, scale=scale, **more)
            assert dtype_name(all_kept) == dtype and (doubles(all_kept) == values).all()
            none_kept = cm.dropout(x, 1.0, scale=scale, **more)
            assert dtype_name(none_kept) == dtype and (doubles(none_kept) == 0).all()
    still = cm.dropout(x, 0.5, training=False)
    assert dtype_name(still) == dtype and (doubles(still) == values).all()


ATTENTION = ("layers", "test_scaled_dot_product_attention")


@pytest.mark.row(*ATTENTION)
@pytest.mark.parametrize("dtype", FLOATS)
def test_masked_rows(cell, dtype):
    """A row that is masked whole is the plain mean of the values; no gradient is lost in it."""
    rng = np.random.default_rng(0)
    q, k, v = (rng.integers(-64, 65, (2, 3, 4)) / 32 for _ in range(3))
    mask = np.ones((2, 3, 3))
    mask[0, 1] = 0
    mask[1] = 0
    t = [tensor(cell.backend, a, dtype) for a in (q, k, v)]
    for kind in (np.float64, np.bool_, np.int32):
        y = cm.scaled_dot_product_attention(*t, 1.0, mask=tensor(cell.backend, mask.astype(kind)))
        want = reference.scaled_dot_product_attention(q, k, v, 1.0, mask)
        np.testing.assert_allclose(want[0, 1], v[0].mean(0))
        np.testing.assert_allclose(doubles(y), want, rtol=0, atol={"float64": 1e-12, "float32": 1e-5}.get(dtype, 3e-2))

    def loss(q, k, v):
        return cm.sum(cm.scaled_dot_product_attention(q, k, v, 1.0, mask=tensor(cell.backend, mask)))

    found = cm.grad(loss, argnums=(0, 1, 2))(*t)
    for g in found:
        assert np.isfinite(doubles(g)).all()
    assert (doubles(found[0])[1] == 0).all() and (doubles(found[0])[0, 1] == 0).all()


@pytest.mark.row(*ATTENTION)
@pytest.mark.parametrize("dtype", FLOATS)
def test_large_scores(cell, dtype):
    """Scores of ±1e4 and more overflow nothing: the largest takes all."""
    q = tensor(cell.backend, np.array([[100.0], [-100.0]]), dtype)
    k = tensor(cell.backend, np.array([[100.0], [0.0], [-100.0]]), dtype)
    v = tensor(cell.backend, np.array([[1.0], [2.0], [4.0]]), dtype)
    y = cm.scaled_dot_product_attention(q, k, v, 1.0)
    assert doubles(y).tolist() == [[1.0], [4.0]]


def grid(*shape):
    """Numbers that every float type holds exactly."""
    return np.random.default_rng(7).integers(-64, 65, shape) / 32


# Examples that a full run has found, kept for the quick one.
@pytest.mark.row("layers", "test_conv2d_transpose")
@pytest.mark.parametrize("dtype", FLOATS)
def test_one_channel(cell, dtype):
    """torch's own gradient of a filter that lies in memory in another order."""
    arguments = {"x": grid(2, 2, 2, 1), "filters": grid(2, 2, 1, 2), "strides": [2, 2], "padding": "SAME"}
    check_one(transposed_row("conv2d_transpose", 2), cell, dtype, arguments)


@pytest.mark.row(*ATTENTION)
def test_equal_widths(cell):
    """torch has a kernel for these, which it cannot differentiate twice."""
    arguments = {"q": grid(2, 2, 4), "k": grid(2, 2, 4), "v": grid(2, 2, 4), "scale": 0.5}
    row = Row("scaled_dot_product_attention", draw.attention, reference.scaled_dot_product_attention, 4)
    check_one(row, cell, "float64", arguments)


@pytest.mark.row("layers", "test_multi_head_attention")
def test_heads_of_equal_widths(cell):
    arguments = {"x": grid(1, 2, 4), "scale": 0.5, "num_heads": 2, "context": grid(1, 2, 8)}
    check_one(
        Row("multi_head_attention", draw.multi_head, reference.multi_head_attention, 3), cell, "float64", arguments
    )


@pytest.mark.row("layers", "test_linear")
def test_linear_of_vectors(cell):
    """A vector per batch, and one for all."""
    backend = cell.backend
    w = np.arange(6.0).reshape(2, 3)
    x = np.array([1.0, -1.0, 2.0])
    y = cm.linear(tensor(backend, x), tensor(backend, w))
    assert doubles(y).tolist() == (w @ x).tolist() and y.shape == (2,)


@pytest.mark.row("layers", "test_linear")
@pytest.mark.parametrize("dtype", INTEGERS)
def test_linear_of_integers(cell, dtype):
    y = cm.linear(tensor(cell.backend, np.array([[1, 2]]), dtype), tensor(cell.backend, np.array([[3, 4]]), dtype))
    assert dtype_name(y) == dtype and doubles(y).tolist() == [[11.0]]


@pytest.mark.row("layers", "test_conv2d")
def test_lists_of_one_are_shared(cell):
    """`strides=(2,)` means both axes."""
    x, w = tensor(cell.backend, np.ones((1, 5, 5, 1))), tensor(cell.backend, np.ones((2, 2, 1, 1)))
    assert cm.conv2d(x, w, (2,), "VALID").shape == cm.conv2d(x, w, 2, "VALID").shape == (1, 2, 2, 1)
    if cell.backend != "native":
        y = cm.conv2d(raw(cell.backend, np.ones((1, 5, 5, 1))), raw(cell.backend, np.ones((2, 2, 1, 1))), 2, "SAME")
        assert tuple(y.shape) == (1, 3, 3, 1)
