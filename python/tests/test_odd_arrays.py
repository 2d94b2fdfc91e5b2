"""Objects of a framework's classes that are no plain arrays, and arrays whose sizes are not known yet."""

import clematis as cm
import numpy as np
import pytest
from conftest import FRAMEWORKS, raw

ONES = np.ones((2, 2), np.float32)
X = np.array([[0.5, -1.0, 2.0, 0.25], [1.5, 0.25, -0.75, 1.0], [0.0, 3.0, 1.0, -2.0]], np.float32)
W = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
B = np.linspace(0, 1, 5, dtype=np.float32)

TORCH = pytest.mark.parametrize("name", [n for n in FRAMEWORKS if n == "torch"])
TENSORFLOW = pytest.mark.parametrize("name", [n for n in FRAMEWORKS if n == "tensorflow"])


def calls(x, plain):
    """Calls of every kind with x among the operands."""
    return {
        "exp": lambda: cm.exp(x), "add": lambda: cm.add(x, x), "add beside": lambda: cm.add(plain, x),
        "matmul": lambda: cm.matmul(x, plain), "matmul beside": lambda: cm.matmul(plain, x),
        "sum": lambda: cm.sum(x, axis=0), "softmax": lambda: cm.softmax(x), "linear": lambda: cm.linear(plain, x),
        "reshape": lambda: cm.reshape(x, (4,)), "asarray": lambda: cm.asarray(x), "concat": lambda: cm.concat([plain, x]),
        "out": lambda: cm.add(plain, plain, out=x),
    }


@pytest.mark.parametrize("call", calls(None, None))
def test_masked_arrays_are_refused(call):
    x = np.ma.masked_array(ONES, mask=[[0, 1], [0, 0]])
    with pytest.raises(cm.DTypeError, match="numpy has a masked array, which is no plain array; take x.filled"):
        calls(x, ONES)[call]()


@TORCH
@pytest.mark.parametrize("call", calls(None, None))
def test_sparse_arrays_are_refused(name, call):
    x = raw(name, ONES).to_sparse()
    with pytest.raises(cm.DTypeError, match="torch has an array of layout torch.sparse_coo, .*; take x.to_dense"):
        calls(x, raw(name, ONES))[call]()


def test_a_matrix_is_an_array_of_two_axes():
    x = np.matrix([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    plain = np.asarray(x)
    for call in ("exp", "add", "add beside", "matmul", "matmul beside", "sum", "softmax", "linear", "reshape", "concat"):
        out = calls(x, ONES)[call]()
        assert type(out) is np.ndarray
        np.testing.assert_array_equal(out, calls(plain, ONES)[call](), err_msg=call)
    # For numpy's matrix class this would be a matmul.
    np.testing.assert_array_equal(cm.multiply(x, x), plain * plain)


@TORCH
def test_parameters_of_torch_stand_beside_arrays(name):
    import torch

    x, w, b = raw(name, X), torch.nn.Parameter(raw(name, W)), torch.nn.Parameter(raw(name, B))
    out = cm.linear(x, w, bias=b)
    assert type(out) is torch.Tensor
    out.sum().backward()
    torch.testing.assert_close(w.grad, x.sum(0).expand(5, 4))
    torch.testing.assert_close(b.grad, torch.full((5,), 3.0))


@pytest.mark.parametrize("shape", [(1,), (), (2, 2), (3,)])
@pytest.mark.parametrize("kind", ["arrays", "tensors"])
def test_a_bias_does_not_broadcast(framework, kind, shape):
    x, b = raw(framework, ONES), raw(framework, np.ones(shape, np.float32))
    if kind == "tensors":
        x, b = cm.wrap(x), cm.wrap(b)
    with pytest.raises(cm.ShapeError, match="linear: the bias"):
        cm.linear(x, x, bias=b)


def test_a_tensor_replaced_while_it_is_used(framework):
    """The value that was there at the time of the call counts, and nothing is lost."""
    x = cm.wrap(raw(framework, X))
    y = x + x
    x += 1
    x = cm.add(x, x, out=x)
    np.testing.assert_allclose(y.numpy(), 2 * X)
    np.testing.assert_allclose(x.numpy(), 2 * (X + 1))


UNKNOWN = {
    "add": lambda x, w, b: cm.add(x, x), "a number": lambda x, w, b: x * 1.5 + cm.add(x, 2.0), "exp": lambda x, w, b: cm.exp(x),
    "sum": lambda x, w, b: cm.sum(x), "sum of an axis": lambda x, w, b: cm.sum(x, axis=-1, keepdims=True),
    "mean": lambda x, w, b: cm.mean(x, axis=0), "max": lambda x, w, b: cm.max(x, axis=0),
    "matmul": lambda x, w, b: cm.matmul(x, cm.matrix_transpose(w)), "softmax": lambda x, w, b: cm.softmax(x),
    "linear": lambda x, w, b: cm.linear(x, w, bias=b), "reshape": lambda x, w, b: cm.reshape(x, (-1, 2)),
    "permute_dims": lambda x, w, b: cm.permute_dims(x, (1, 0)), "concat": lambda x, w, b: cm.concat([x, x, w]),
    "stack": lambda x, w, b: cm.stack([x, x]), "where": lambda x, w, b: cm.where(cm.greater(x, 0.5), x, 0.0),
    "layer_norm": lambda x, w, b: cm.layer_norm(x, -1), "argmax": lambda x, w, b: cm.argmax(x, axis=-1),
    "gelu": lambda x, w, b: cm.gelu(x), "expand_dims": lambda x, w, b: cm.expand_dims(x, axis=0),
}


@TENSORFLOW
@pytest.mark.parametrize("case", UNKNOWN)
def test_tensorflow_functions_with_unknown_sizes(name, case):
    import tensorflow as tf

    f = UNKNOWN[case]
    signature = [tf.TensorSpec([None, 4], tf.float32), tf.TensorSpec([5, 4], tf.float32), tf.TensorSpec([5], tf.float32)]
    compiled = tf.function(f, input_signature=signature, autograph=False)
    for rows in (3, 2):
        values = [raw(name, v) for v in (X[:rows], W, B)]
        want, got = f(*values), compiled(*values)
        assert want.dtype == got.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)
