"""`out=`: what is written where, and what is refused."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS, raw

WRITABLE = [name for name in BACKENDS if name in ("native", "numpy", "torch")]
FUNCTIONS = {
    "add": lambda x, out: cm.add(x, x, out=out), "exp": lambda x, out: cm.exp(x, out=out),
    "matmul": lambda x, out: cm.matmul(x, x, out=out), "cumulative_sum": lambda x, out: cm.cumulative_sum(x, axis=0, out=out),
    "flip": lambda x, out: cm.flip(x, out=out), "transpose": lambda x, out: cm.permute_dims(x, (1, 0), out=out),
    "softmax": lambda x, out: cm.softmax(x, out=out), "where": lambda x, out: cm.where(cm.greater(x, 0), x, 0.0, out=out),
    "roll": lambda x, out: cm.roll(x, 1, out=out), "reshape": lambda x, out: cm.reshape(x, (3, 3), out=out),
}
VALUES = np.array([[0.5, -1.0, 2.0], [0.25, 3.0, -2.0], [1.0, 0.0, -0.5]], np.float32)


def tensor(name, values=VALUES):
    """A tensor of memory of its own."""
    return cm.asarray(np.array(values)).to(name).copy()


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_tensor_given_as_out_holds_the_result_and_is_returned(name, f):
    x, out = tensor(name), tensor(name, np.zeros((3, 3), np.float32))
    want = FUNCTIONS[f](x, None).numpy()
    assert FUNCTIONS[f](x, out) is out and out.backend == name
    np.testing.assert_array_equal(out.numpy(), want)


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("name", BACKENDS)
def test_an_input_may_be_out(name, f):
    x = tensor(name)
    want = np.array(FUNCTIONS[f](x, None).numpy())
    FUNCTIONS[f](x, x)
    np.testing.assert_array_equal(x.numpy(), want)


@pytest.mark.parametrize("f", FUNCTIONS)
@pytest.mark.parametrize("name", WRITABLE)
def test_the_result_is_written_into_the_memory_of_out(name, f):
    x, out = tensor(name), tensor(name, np.zeros((3, 3), np.float32))
    before, seen = out.native, np.from_dlpack(out)
    want = FUNCTIONS[f](x, None).numpy()
    FUNCTIONS[f](x, out)
    assert out.native is before
    np.testing.assert_array_equal(np.asarray(before), want)
    np.testing.assert_array_equal(seen, want)


@pytest.mark.parametrize("name", [name for name in BACKENDS if name in ("jax", "tensorflow")])
def test_arrays_that_never_change_stay_as_they_were(name):
    x, out = tensor(name), tensor(name, np.zeros((3, 3), np.float32))
    before = out.native
    cm.add(x, x, out=out)
    assert not np.asarray(before).any() and out.native is not before
    with pytest.raises(cm.UnsupportedError, match="cannot be written to"):
        cm.add(x, x, out=raw(name, np.zeros((3, 3))))


@pytest.mark.parametrize("name", WRITABLE)
def test_out_may_be_a_view_with_gaps(name):
    whole = np.zeros((4, 6, 2), np.float32)
    if name == "torch":
        import torch

        whole = torch.tensor(whole)
    view = whole.swapaxes(0, 1)[::2, 1:4, 1] if name == "numpy" else whole.transpose(0, 1)[::2, 1:4, 1] if name == "torch" else None
    if name == "native":
        base = tensor(name, whole)
        view = cm.permute_dims(base, (1, 0, 2))[::2, 1:4, 1]
        x = tensor(name)
        cm.add(x, x, out=view)
        np.testing.assert_array_equal(view.numpy(), VALUES * 2)
        return
    x, out = tensor(name), cm.wrap(view)
    cm.add(x, x, out=out)
    np.testing.assert_array_equal(np.asarray(view), VALUES * 2)
    assert float(np.abs(np.asarray(whole)).sum()) == float(np.abs(VALUES * 2).sum())


@pytest.mark.parametrize("name", BACKENDS)
def test_an_out_that_does_not_fit_is_named_with_the_result(name):
    x = tensor(name)
    for wrong in (np.zeros((2, 3), np.float32), np.zeros((3, 3, 1), np.float32)):
        with pytest.raises(cm.ShapeError, match=r"add: out is f32\[[23],3(,1)?\], the result f32\[3,3\]"):
            cm.add(x, x, out=tensor(name, wrong))
    complex_x = tensor(name, VALUES + 1j)
    with pytest.raises(cm.DTypeError, match=r"exp: out is f32\[3,3\], .* c64\[3,3\]|exp: out is f32\[3,3\], .* c128\[3,3\]"):
        cm.exp(complex_x, out=tensor(name))
    other = "numpy" if name != "numpy" else "native"
    with pytest.raises(cm.BackendError, match=f"out is on {other}, the result on {name}"):
        cm.add(x, x, out=tensor(other))


@pytest.mark.parametrize("name", BACKENDS)
def test_the_dtype_of_out_wins(name):
    x, out = tensor(name), tensor(name, np.zeros((3, 3), np.float64))
    cm.add(x, x, out=out)
    assert out.dtype == cm.float64
    np.testing.assert_array_equal(out.numpy(), (VALUES * 2).astype(np.float64))


def test_a_tensor_whose_elements_are_one_in_memory_gets_memory_of_its_own():
    row = cm.zeros((1, 3))
    out = cm.broadcast_to(row, (3, 3))
    assert cm.add(cm.ones((3, 3)), cm.ones((3, 3)), out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.full((3, 3), 2.0))
    np.testing.assert_array_equal(row.numpy(), np.zeros((1, 3)))
    large = cm.ones((40, 40, 40))
    assert cm.add(large, large, out=(zeros := cm.zeros_like(large))) is zeros and float(zeros[1, 2, 3]) == 2.0


def test_several_results_are_written_to_several_places(backend):
    x = cm.asarray(VALUES @ VALUES.T + 5 * np.eye(3, dtype=np.float32))
    q, r = cm.linalg.qr(x)
    a, b = cm.zeros_like(q).copy(), cm.zeros_like(r).copy()
    got = cm.linalg.qr(x, out=(a, b))
    assert got[0] is a and got[1] is b
    np.testing.assert_array_equal(a.numpy(), q.numpy())
    np.testing.assert_array_equal(b.numpy(), r.numpy())
