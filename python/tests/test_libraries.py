"""Libraries that take any array: einops, xarray, array-api-compat, array-api-extra."""

import array_api_compat
import array_api_extra as xpx
import clematis as cm
import einops
import einops.array_api
import numpy as np
import pytest
import xarray

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def check(got, want, backend):
    assert isinstance(got, cm.Tensor) and got.backend == backend
    np.testing.assert_allclose(np.asarray(got.tolist()), want, rtol=1e-6)


def test_compat_finds_the_namespace(backend):
    x = cm.asarray(X)
    assert array_api_compat.is_array_api_obj(x)
    assert array_api_compat.array_namespace(x, x) is cm
    assert array_api_compat.size(x) == 24
    assert array_api_compat.device(x) == "cpu"
    assert array_api_compat.to_device(x, "cpu") is x
    assert array_api_compat.is_writeable_array(x)
    assert not array_api_compat.is_lazy_array(x)
    assert not array_api_compat.is_numpy_array(x)
    with pytest.raises(TypeError):
        array_api_compat.array_namespace(x, np.ones(2))


EXTRA = {
    "atleast_nd": lambda x, xp: xpx.atleast_nd(x, ndim=5, xp=xp),
    "cov": lambda x, xp: xpx.cov(x[0], xp=xp),
    "create_diagonal": lambda x, xp: xpx.create_diagonal(x[0, 0], xp=xp),
    "isclose": lambda x, xp: xpx.isclose(x, x + 1e-9, xp=xp),
    "kron": lambda x, xp: xpx.kron(x[0], x[1], xp=xp),
    "nunique": lambda x, xp: xpx.nunique(x % 5, xp=xp),
    "one_hot": lambda x, xp: xpx.one_hot(xp.astype(x[0, 0], xp.int64), 5, xp=xp),
    "pad": lambda x, xp: xpx.pad(x, 2, xp=xp),
    "setdiff1d": lambda x, xp: xpx.setdiff1d(x[0, 0], x[0, 0, :2], xp=xp),
    "sinc": lambda x, xp: xpx.sinc(x / 7, xp=xp),
    "at set": lambda x, xp: xpx.at(x)[0, 1:].set(9.0, xp=xp),
    "at add": lambda x, xp: xpx.at(x)[..., 0].add(1.0, xp=xp),
    "at mask": lambda x, xp: xpx.at(x, x > 12).multiply(2.0, xp=xp),
    "apply_where": lambda x, xp: xpx.apply_where(x > 3, x, lambda a: a * 2, lambda a: -a, xp=xp),
}


@pytest.mark.parametrize("what", EXTRA)
def test_extra(backend, what):
    got, want = EXTRA[what](cm.asarray(X), cm), EXTRA[what](X.copy(), np)
    check(got, want, backend)


def test_extra_leaves_its_argument_alone(backend):
    x = cm.asarray(X)
    y = xpx.at(x)[0].set(5.0, copy=True)
    assert y[0, 0, 0].item() == 5 and x[0, 0, 1].item() == 1


@pytest.mark.parametrize(
    ("name", "pattern", "more"),
    [
        ("rearrange", ("a b c -> c (a b)",), {}),
        ("rearrange", ("a b (c d) -> a (b d) c",), {"d": 2}),
        ("reduce", ("a b c -> a c", "max"), {}),
        ("reduce", ("a b c -> b", "sum"), {}),
        ("reduce", ("a b c -> a c", "mean"), {}),
        ("repeat", ("a b c -> a b c r",), {"r": 2}),
    ],
)
def test_einops(backend, name, pattern, more):
    # einops knows frameworks by their names, and everything else through its module for the array API.
    got = getattr(einops.array_api, name)(cm.asarray(X), *pattern, **more)
    check(got, getattr(einops, name)(X, *pattern, **more), backend)


def test_einops_packs(backend):
    x = cm.asarray(X)
    packed, shapes = einops.array_api.pack([x, x[0]], "* c")
    assert packed.shape == (9, 4)
    back = einops.array_api.unpack(packed, shapes, "* c")
    check(back[0], X, backend)


def test_xarray(backend):
    t = cm.asarray(X)
    array = xarray.DataArray(t, dims=("a", "b", "c"))
    want = xarray.DataArray(X, dims=("a", "b", "c"))
    assert isinstance(array.data, cm.Tensor)
    # Where NaN is to be skipped, xarray calls NumPy itself, on anything but sums.
    for act in (
        lambda v: v + 1,
        lambda v: v * v.isel(a=0),
        lambda v: v.sum("b"),
        lambda v: v.mean(("a", "c"), skipna=False),
        lambda v: v.max("c", skipna=False),
        lambda v: v.isel(a=1, b=[0, 2]),
        lambda v: v.transpose("c", "a", "b"),
        lambda v: v[:, 1:, ::2],
        lambda v: v.expand_dims("z"),
        lambda v: -abs(v - 5),
        lambda v: v.where(v > 3, 0.0),
        lambda v: v.stack(z=("a", "b")).drop_vars(("z", "a", "b")),
        lambda v: xarray.concat([v, v], "a"),
        lambda v: v.astype("float64"),
    ):
        got = act(array)
        check(got.data, act(want).values, backend)
        assert got.dims == act(want).dims
    assert "Tensor" in repr(array) or "float32" in repr(array)
