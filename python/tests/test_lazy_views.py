"""Views whose memory does not hold their values: what leaves is what their framework shows of them."""

import clematis as cm
import numpy as np
import pytest
from conftest import BACKENDS, FRAMEWORKS, raw
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")


def exits(x):
    """Every way by which an array leaves, of a framework's own array."""
    t = cm.asarray(x)
    yield "numpy", t.numpy()
    yield "np.asarray", np.asarray(t)
    yield "from_dlpack", cm.from_dlpack(x).numpy()
    yield "numpy's from_dlpack", np.from_dlpack(t)
    yield "torch's from_dlpack", torch.from_dlpack(t).resolve_neg().resolve_conj().numpy()
    yield "tolist", np.array(t.tolist(), dtype=t.numpy().dtype).reshape(t.shape)
    yield "copy", t.copy().numpy()
    yield "an op", cm.multiply(t, 1).numpy()
    yield "an op on arrays", cm.asarray(cm.multiply(x, 1)).numpy()
    yield "jit", cm.asarray(cm.jit(lambda x: x * 1)(x)).numpy()
    for name in BACKENDS:
        yield f"to {name}", t.to(name).numpy()
        yield f"to {name} as a list", np.array(t.to(name).tolist(), dtype=t.numpy().dtype).reshape(t.shape)


def check(x, want):
    for name, got in exits(x):
        np.testing.assert_array_equal(np.asarray(got), want, err_msg=name)


def test_negative_views_are_resolved():
    check(torch.tensor([1 + 2j]).conj().imag, np.array([-2.0], np.float32))
    assert float(cm.sum(cm.asarray(torch.tensor([1 + 2j]).conj().imag))) == -2.0


def test_conjugate_views_are_resolved():
    check(torch.tensor([1 + 2j, 3 - 1j]).conj(), np.array([1 - 2j, 3 + 1j], np.complex64))


def test_zeros_without_memory_are_resolved():
    check(torch._efficientzerotensor((2, 3)), np.zeros((2, 3), np.float32))


def test_complex_factors_leave_as_they_are_shown():
    draw = np.random.default_rng(0)
    a = draw.standard_normal((3, 3)) + 1j * draw.standard_normal((3, 3))
    a = a @ a.conj().T + 3 * np.eye(3)
    upper = cm.linalg.cholesky(cm.wrap(torch.tensor(a)), upper=True)
    np.testing.assert_allclose(upper.numpy(), np.linalg.cholesky(a).conj().T, rtol=1e-12)
    np.testing.assert_array_equal(upper.to("native").numpy(), upper.numpy())
    u, s, v = cm.linalg.svd(cm.wrap(torch.tensor(a)))
    got = (u.to("native") * s.to("native")) @ v.to("native")
    np.testing.assert_allclose(got.numpy(), a, rtol=1e-10)


VIEWS = ["conj", "imag", "real", "neg", "transpose", "flip", "expand", "every other", "backwards", "as_strided", "unsqueeze"]


def step(x, name):
    """One view of an array of torch, or the array where it has none."""
    if name == "conj":
        return x.conj()
    if name in ("imag", "real"):
        return getattr(x, name) if x.is_complex() else x
    if name == "neg":
        return torch._neg_view(x)
    if name == "transpose":
        return x.transpose(0, -1)
    if name == "flip":
        return x.flip(0)
    if name == "expand":
        return x.unsqueeze(0).expand(2, *x.shape) if x.ndim < 4 else x
    if name == "every other":
        return x[::2]
    if name == "backwards":
        return x.narrow(0, 0, max(1, x.shape[0] - 1))
    if name == "as_strided":
        return x.as_strided(x.shape[:1], x.stride()[:1], x.storage_offset())
    return x.unsqueeze(-1)[..., 0:1].squeeze(-1)


@given(st.lists(st.sampled_from(VIEWS), max_size=6), st.sampled_from([torch.complex64, torch.complex128]))
def test_chains_of_torch_views_leave_as_torch_shows_them(steps, dtype):
    x = torch.arange(24).reshape(2, 3, 4).to(dtype) * (1 - 2j)
    for name in steps:
        x = step(x, name)
    want = np.array(x.resolve_conj().resolve_neg().tolist()).astype(str(x.dtype).removeprefix("torch."))
    check(x, want.reshape(x.shape))


SLICES = st.tuples(*[st.sampled_from([slice(None), slice(None, None, -1), slice(None, None, 2), slice(1, None), slice(2, 0, -1)])] * 3)


@given(SLICES, st.permutations(range(3)), st.booleans(), st.sampled_from(FRAMEWORKS))
def test_chains_of_numpy_views_leave_as_numpy_shows_them(slices, axes, repeated, name):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)[slices].transpose(axes)
    if repeated:
        x = np.broadcast_to(x, (2, *x.shape))
    if name == "numpy":
        check(x, np.array(x))
    elif name != "torch":
        y = raw(name, np.ascontiguousarray(x))
        check(y, np.array(x))


REFUSED = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_arrays_that_are_no_plain_arrays_are_refused(kind):
    x = REFUSED[kind]()
    for call in (cm.asarray, cm.exp, lambda x: cm.add(x, x), lambda x: cm.add(torch.ones(2), x), cm.from_dlpack):
        with pytest.raises(cm.ClematisError, match="torch"):
            call(x)


def test_arrays_without_values_cannot_leave():
    from torch._subclasses.fake_tensor import FakeTensorMode

    arrays = [torch.ones(2, device="meta"), FakeTensorMode().from_tensor(torch.ones(2))]
    for x in arrays:
        t = cm.wrap(x)
        for leave in (t.numpy, t.tolist, lambda t=t: t.to("native"), lambda t=t: t.to("numpy"), lambda t=t: np.asarray(t)):
            with pytest.raises(cm.ClematisError, match="torch"):
                leave()


@pytest.mark.filterwarnings("ignore")
def test_arrays_of_a_transform_cannot_leave():
    def f(x):
        with pytest.raises(cm.ClematisError, match="torch"):
            cm.wrap(x).numpy()
        with pytest.raises(cm.ClematisError, match="torch"):
            cm.wrap(x).to("native")
        return x

    torch.func.vmap(f)(torch.ones(3))


def test_a_subclass_leaves_by_what_its_class_says():
    class Marked(torch.Tensor):
        pass

    x = torch.tensor([1.0, 2.0]).as_subclass(Marked)
    check(x, np.array([1.0, 2.0], np.float32))
    check(torch.tensor([1 + 2j]).conj().imag.as_subclass(Marked), np.array([-2.0], np.float32))
