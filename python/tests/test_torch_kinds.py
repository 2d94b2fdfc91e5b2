"""Arrays of torch of every kind: what is read of them in C is what torch says of them."""

import clematis as cm
import pytest
import torch
from clematis.errors import DTypeError


def kinds():
    """Arrays that differ in their flags, their keys, or in where they lie."""
    x = torch.arange(24.0).reshape(2, 3, 4) / 7
    with torch.inference_mode():
        inferred = x * 1
    return {
        "plain": x,
        "no axes": torch.tensor(3.5),
        "empty": torch.zeros(0, 3),
        "six axes": x.reshape(1, 2, 1, 3, 1, 4),
        "transposed": x.transpose(0, 2),
        "expanded": torch.ones(3, 1).expand(3, 5),
        "part": x[:, ::2, 1:],
        "channels last": torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "trained": x.clone().requires_grad_(),
        "made of trained": x.clone().requires_grad_() * 2,
        "parameter": torch.nn.Parameter(x),
        "inferred": inferred,
        "double": x.double(),
        "half": x.half(),
        "brain": x.bfloat16(),
        "complex": torch.complex(x, x + 1),
        "conjugate": torch.complex(x, x + 1).conj(),
        "negative view": torch.complex(x, x + 1).conj().imag,
        "shared": x.clone().share_memory_(),
    }


@pytest.mark.parametrize("name", kinds())
def test_each_kind_gives_what_torch_gives(name):
    x = kinds()[name]
    # More than once: what is met for the first time is read in another way.
    for _ in range(3):
        out = cm.add(x, x)
        assert type(out) is torch.Tensor
        assert out.dtype == x.dtype and out.shape == x.shape
        assert torch.equal(out, torch.add(x, x))
        assert tuple(cm.wrap(x).shape) == tuple(x.shape)
        assert str(cm.wrap(x).dtype) == str(x.dtype).removeprefix("torch.")


def test_kinds_between_each_other():
    x = kinds()["plain"]
    for name, other in kinds().items():
        if other.dtype == torch.float32 and other.shape == x.shape:
            assert torch.equal(cm.multiply(x, other), x * other), name


@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()])
def test_sparse_arrays_are_refused_also_after_dense_ones(make):
    x = torch.eye(3)
    for _ in range(3):
        cm.add(x, x)
        with pytest.raises(DTypeError, match="sparse"):
            cm.add(make(x), make(x))


def test_sizes_are_read_anew_when_an_array_changes_its_shape():
    x = torch.ones(4)
    assert tuple(cm.wrap(x).shape) == (4,)
    x.resize_(2, 3)
    assert tuple(cm.wrap(x).shape) == (2, 3)
    x.data = torch.ones(1, 2, 3, 1, 1, 2, 1)
    assert tuple(cm.wrap(x).shape) == (1, 2, 3, 1, 1, 2, 1)
    x.data = torch.ones(5, dtype=torch.float64)
    assert tuple(cm.wrap(x).shape) == (5,) and cm.wrap(x).dtype == cm.float64


def test_under_transforms_of_torch():
    x = torch.rand(5, 3)
    y = torch.rand(3)
    cm.add(x, x)
    assert torch.allclose(torch.func.vmap(lambda r: cm.add(r, y))(x), x + y)
    assert torch.allclose(torch.func.grad(lambda r: cm.sum(cm.multiply(r, r)))(y), 2 * y)
    out, tangent = torch.func.jvp(lambda r: cm.exp(r), (y,), (torch.ones(3),))
    assert torch.allclose(out, tangent)
    meta = torch.empty(3, 4, device="meta")
    assert cm.add(meta, meta).shape == (3, 4) and cm.add(meta, meta).is_meta
