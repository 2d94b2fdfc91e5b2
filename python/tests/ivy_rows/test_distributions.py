"""Whether what is drawn is distributed as it says, at fixed seeds; and the other promises of single functions."""

import clematis as cm
import numpy as np
import pytest
from scipy import stats

from .arrays import FLOATS, doubles, dtype_name, host, tensor

N = 4096
#: Seeds are fixed, so a sound generator passes for ever and an unsound one fails at once.
LEVEL = 1e-4


def row(name):
    return pytest.mark.row("random", f"test_{name}")


def fits(values, distribution):
    assert stats.kstest(np.ravel(values), distribution.cdf).pvalue > LEVEL


def counted(values, shares):
    found = np.bincount(np.ravel(values).astype(int), minlength=len(shares))
    assert len(found) == len(shares), "a number outside of the range"
    assert stats.chisquare(found, np.array(shares) * values.size).pvalue > LEVEL


CONTINUOUS = [
    pytest.param(
        lambda d, s: cm.random_uniform(low=-1.0, high=3.0, shape=(N,), dtype=d, seed=s), stats.uniform(-1, 4),
        marks=row("random_uniform"), id="random_uniform",
    ),
    pytest.param(
        lambda d, s: cm.random_normal(mean=2.0, std=0.5, shape=(N,), dtype=d, seed=s), stats.norm(2, 0.5),
        marks=row("random_normal"), id="random_normal",
    ),
    pytest.param(
        lambda d, s: cm.beta(2.0, 3.0, shape=(N,), dtype=d, seed=s), stats.beta(2, 3), marks=row("beta"), id="beta"
    ),
    pytest.param(
        lambda d, s: cm.beta(0.25, 0.5, shape=(N,), dtype=d, seed=s), stats.beta(0.25, 0.5), marks=row("beta"), id="beta-u"
    ),
    # The second parameter is a rate.
    pytest.param(
        lambda d, s: cm.gamma(2.5, 4.0, shape=(N,), dtype=d, seed=s), stats.gamma(2.5, scale=0.25), marks=row("gamma"),
        id="gamma",
    ),
    pytest.param(
        lambda d, s: cm.gamma(0.5, 1.0, shape=(N,), dtype=d, seed=s), stats.gamma(0.5), marks=row("gamma"), id="gamma-low"
    ),
]  # fmt: skip


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("drawn, distribution", CONTINUOUS)
def test_continuous(cell, drawn, distribution, dtype, seed):
    values = drawn(dtype, seed)
    assert dtype_name(values) == dtype
    fits(doubles(values), distribution)


@pytest.mark.parametrize("seed", [0, 1])
@row("randint")
def test_integers(cell, seed):
    counted(doubles(cm.randint(-3, 4, shape=(N,), seed=seed)) + 3, [1 / 7] * 7)
    far = doubles(cm.randint(0, 1 << 40, shape=(N,), dtype="int64", seed=seed))
    fits(far, stats.uniform(0, 1 << 40))


@pytest.mark.parametrize("seed", [0, 1])
@row("bernoulli")
def test_truths(cell, seed):
    for p in (0.0, 0.25, 1.0):
        found = doubles(cm.bernoulli(p, shape=(N,), seed=seed))
        assert abs(found.mean() - p) <= 5 * (p * (1 - p) / N) ** 0.5 and set(np.unique(found)) <= {0.0, 1.0}
    # Logits go through a sigmoid.
    found = doubles(cm.bernoulli(logits=tensor(cell.backend, np.full(N, np.log(3.0))), seed=seed))
    assert abs(found.mean() - 0.75) < 5 * (0.1875 / N) ** 0.5


@pytest.mark.parametrize("seed", [0, 1])
@row("poisson")
def test_counts(cell, seed):
    for rate in (0.5, 3.5, 40.0):
        found = doubles(cm.poisson(rate, shape=(N,), seed=seed))
        assert (found == np.round(found)).all() and (found >= 0).all()
        assert abs(found.mean() - rate) < 5 * (rate / N) ** 0.5
        assert abs(found.var() / rate - 1) < 0.2
    assert (doubles(cm.poisson(0.0, shape=(5,), seed=seed)) == 0).all()


@pytest.mark.parametrize("seed", [0, 1])
@row("dirichlet")
def test_shares(cell, seed):
    alpha = np.array([1.0, 2.0, 4.0])
    found = doubles(cm.dirichlet(tensor(cell.backend, alpha), size=(N,), seed=seed))
    np.testing.assert_allclose(found.sum(-1), 1, atol=1e-12)
    assert ((found >= 0) & (found <= 1)).all()
    for at in range(3):
        fits(found[:, at], stats.beta(alpha[at], alpha.sum() - alpha[at]))


@pytest.mark.parametrize("seed", [0, 1])
@row("multinomial")
def test_categories(cell, seed):
    weights = np.array([1.0, 2.0, 5.0, 0.0])
    found = doubles(cm.multinomial(4, N, probs=tensor(cell.backend, weights), seed=seed))
    assert (found < 3).all(), "what has no weight is never drawn"
    counted(found, weights[:3] / 8)
    # The first of a draw without replacement has the same distribution.
    many = tensor(cell.backend, np.tile(weights[:3], (N, 1)))
    found = doubles(cm.multinomial(3, 3, probs=many, replace=False, seed=seed))
    assert (np.sort(found, -1) == [0, 1, 2]).all(), "each once"
    counted(found[:, 0], weights[:3] / 8)
    rows = doubles(cm.multinomial(100, 8, batch_size=2, seed=seed))
    assert (rows[0] != rows[1]).any(), "rows are independent"


@pytest.mark.parametrize("seed", [0, 1])
@row("shuffle")
def test_places(cell, seed):
    """Each goes everywhere equally often."""
    places = [
        int(np.argmin(host(cm.shuffle(tensor(cell.backend, np.arange(5)), seed=seed * 1000 + n)))) for n in range(300)
    ]
    counted(np.array(places), [0.2] * 5)


@pytest.mark.parametrize("dtype", FLOATS)
@row("random_uniform")
def test_the_upper_bound_is_never_drawn(cell, dtype):
    found = doubles(cm.random_uniform(low=1.0, high=1.5, shape=(4 * N,), dtype=dtype, seed=0))
    assert found.min() >= 1.0 and found.max() < 1.5
    assert doubles(cm.random_uniform(low=2.0, high=2.0, shape=(3,), dtype=dtype, seed=0)).tolist() == [2, 2, 2]


@row("random_normal")
def test_no_spread_is_the_mean(cell):
    mean = tensor(cell.backend, np.array([1.5, -2.0]))
    assert doubles(cm.random_normal(mean=mean, std=0.0, seed=0)).tolist() == [1.5, -2.0]


@pytest.mark.parametrize("dtype", ["int32", "float16", "bfloat16", "float64"])
def test_the_dtype_asked_for_wins(cell, request, dtype):
    """Whatever the parameters are."""
    request.node.add_marker(row("random_uniform"))
    wide = tensor(cell.backend, np.array([10.0, 20.0]), "float64")
    for found in (
        cm.random_uniform(low=0.0, high=wide, dtype=dtype, seed=0),
        cm.random_normal(mean=wide, dtype=dtype, seed=0),
    ):
        assert dtype_name(found) == dtype and found.shape == (2,)
    half = tensor(cell.backend, np.array([10.0, 20.0]), "float16")
    assert dtype_name(cm.random_uniform(low=half, high=30.0, seed=0)) == "float16", "or else the parameters' own"
    assert dtype_name(cm.random_uniform(shape=3, seed=0)) == "float32"


@row("random_uniform")
def test_gradients_reach_the_bounds(cell):
    low, high = (tensor(cell.backend, np.array(v)) for v in ([-1.0, 0.0, 1.0], [1.0, 3.0, 2.0]))
    u = (doubles(cm.random_uniform(low=low, high=high, seed=4)) - doubles(low)) / doubles(high - low)
    found = cm.grad(lambda a, b: cm.sum(cm.random_uniform(low=a, high=b, seed=4)), argnums=(0, 1))(low, high)
    np.testing.assert_allclose(doubles(found[0]), 1 - u, atol=1e-12)
    np.testing.assert_allclose(doubles(found[1]), u, atol=1e-12)


@row("random_normal")
def test_gradients_reach_mean_and_spread(cell):
    mean, std = (tensor(cell.backend, np.array(v)) for v in ([-1.0, 0.0, 1.0], [1.0, 3.0, 2.0]))
    z = (doubles(cm.random_normal(mean=mean, std=std, seed=4)) - doubles(mean)) / doubles(std)
    found = cm.grad(lambda a, b: cm.sum(cm.random_normal(mean=a, std=b, seed=4)), argnums=(0, 1))(mean, std)
    np.testing.assert_allclose(doubles(found[0]), 1, atol=1e-12)
    np.testing.assert_allclose(doubles(found[1]), z, atol=1e-12)
