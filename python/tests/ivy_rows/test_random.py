"""Random functions: equal bits on every backend, honest distributions, seeds that are seeds."""

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from . import draw
from .arrays import FLOATS, HAS_RAW, HAS_VARIABLES, doubles, dtype_name, host, is_raw, raw, tensor, variable
from .harness import call, call_method, leaves, three
from .test_gradients import each

pytestmark = pytest.mark.row("random")


def state():
    """Where the implicit stream stands."""
    return host(cm.random.get_state()).tobytes()


def check(cell, name, cases, positional=0, self_name=None, dtypes=FLOATS):
    """What every random function keeps: bits, dtype, shape, seeds, containers, methods and `out=`."""
    f = getattr(cm, name)
    backend = cell.backend

    def test(dtype, arguments, shape):
        def made(where, make=tensor):
            own = {n: make(where, a, dtype) if isinstance(a, np.ndarray) else a for n, a in arguments.items()}
            if dtypes is not None:
                own["dtype"] = dtype
            return own

        here = made(backend)
        got = call(f, here, positional)
        assert isinstance(got, cm.Tensor) and got.backend == backend
        assert tuple(got.shape) == shape, f"the shape is {got.shape}, not {shape}"
        wanted = dtype if dtypes is not None else "int64"
        assert dtype_name(got) == wanted, f"{dtype_name(got)}, not {wanted}"
        with cm.backend("native"):
            native = call(f, made("native"), positional)
        assert host(got).tobytes() == host(native).tobytes(), "other bits than on the native engine"
        key = {**{n: a for n, a in here.items() if n != "seed"}, "key": cm.random.key(arguments["seed"])}
        assert host(call(f, key, positional)).tobytes() == host(got).tobytes(), "a seed is the key of that seed"
        out = cm.zeros_like(got)
        assert call(f, here, positional, out=out) is out and host(out).tobytes() == host(got).tobytes()
        arrays = [n for n, a in here.items() if isinstance(a, cm.Tensor)]
        if arrays:
            if backend in HAS_RAW:
                theirs = call(f, made(backend, raw), positional)
                assert is_raw(backend, theirs) and host(theirs).tobytes() == host(got).tobytes()
            if backend in HAS_VARIABLES:
                theirs = call(f, made(backend, variable), positional)
                assert is_raw(backend, theirs) and host(theirs).tobytes() == host(got).tobytes()
            tree = call(f, {**here, arrays[0]: three(here[arrays[0]])}, positional)
            assert isinstance(tree, cm.Container)
            for leaf in leaves(tree):
                assert host(leaf).tobytes() == host(got).tobytes(), "equal leaves, equal draws"
            own = self_name or arrays[0]
            if own in arrays:
                assert host(call_method(here, name, positional, own)).tobytes() == host(got).tobytes()
        before = state()
        call(f, here, positional)
        assert state() == before, "a seed leaves the stream alone"

    each(cell, test, cases)


SEED = st.sampled_from([3, 0, 7, (1 << 63) - 1])


@st.composite
def bounds(d, low, high):
    """Two arrays, one array and a number, or two numbers and a shape."""
    form = draw.one_of(d, "arrays", "first", "second", "shape", "none")
    shape = draw.one_of(d, (2, 3), (4,), (1, 2, 2), (0, 3), ())
    a, b = draw.content(d, *shape, **low), draw.content(d, *shape, **high)
    arguments = {}
    if form == "arrays":
        arguments = {"a": a, "b": b}
    elif form == "first":
        arguments = {"a": a, "b": 3.0}
    elif form == "second":
        arguments = {"a": -3.0, "b": b}
    elif form == "shape":
        arguments = {"a": -1.5, "b": 2.5, "shape": shape}
    else:
        shape = ()
    return {**arguments, "seed": d(SEED)}, shape


def renamed(strategy, **names):
    return strategy.map(lambda drawn: ({names.get(n, n): a for n, a in drawn[0].items()}, drawn[1]))


LOW, HIGH = {"low": -127, "high": -8}, {"low": 8, "high": 127}


def test_random_uniform(cell):
    check(cell, "random_uniform", renamed(bounds(LOW, HIGH), a="low", b="high"), self_name="low")


def test_random_normal(cell):
    check(cell, "random_normal", renamed(bounds(LOW, HIGH), a="mean", b="std"), self_name="mean")


@st.composite
def populations(d):
    form = draw.one_of(d, "vector", "none", "batch")
    population = draw.one_of(d, 5, 1, 7)
    replace = d(st.booleans())
    count = draw.one_of(d, 1, population) if not replace else draw.one_of(d, 3, 1, 9)
    arguments = {"population_size": population, "num_samples": count}
    batch = draw.one_of(d, 2, 1, 0)
    if form == "none":
        arguments["batch_size"], shape = batch, (batch, count)
        arguments["replace"] = replace
        return {**arguments, "seed": d(SEED)}, shape
    shape = () if form == "vector" else (batch,)
    arguments["probs"] = draw.positive(d, *shape, population)
    arguments["replace"] = replace
    return {**arguments, "seed": d(SEED)}, (*shape, count)


def test_multinomial(cell):
    check(cell, "multinomial", populations(), positional=2, self_name="probs", dtypes=None)


@st.composite
def rows(d):
    shape = draw.one_of(d, (5, 2), (7,), (1, 3), (0, 2), (2, 2, 2), ())
    return {"x": draw.content(d, *shape), "seed": d(SEED)}, shape


def test_shuffle(cell):
    backend = cell.backend

    def test(dtype, arguments, shape):
        x, seed = arguments["x"], arguments["seed"]
        t = tensor(backend, x, dtype)
        got = cm.shuffle(t, seed=seed)
        assert tuple(got.shape) == shape and dtype_name(got) == dtype and got.backend == backend
        want = cm.shuffle(tensor("native", x, dtype), seed=seed)
        assert host(got).tobytes() == host(want).tobytes(), "other bits than on the native engine"
        if shape:
            # Rows move as units: the same rows come back, each once.
            assert sorted(map(repr, doubles(got).tolist())) == sorted(map(repr, doubles(t).tolist()))
        else:
            assert doubles(got) == x
        out = cm.zeros_like(got)
        assert cm.shuffle(t, seed=seed, out=out) is out and host(out).tobytes() == host(got).tobytes()
        if backend in HAS_RAW:
            theirs = cm.shuffle(raw(backend, x, dtype), seed=seed)
            assert is_raw(backend, theirs) and host(theirs).tobytes() == host(got).tobytes()
        assert host(t.shuffle(seed=seed)).tobytes() == host(got).tobytes()
        tree = cm.shuffle(three(t), seed=seed)
        for leaf in leaves(tree):
            assert host(leaf).tobytes() == host(got).tobytes()
        before = state()
        cm.shuffle(t, seed=seed)
        assert state() == before

    each(cell, test, rows())


@st.composite
def whole(d):
    shape = draw.one_of(d, (3, 2), (4,), (), (0, 2))
    return d(SEED), shape, draw.one_of(d, "int32", None, "int64", "int16", "int8")


def test_randint(cell):
    def test(_, seed, shape, dtype):
        got = cm.randint(-5, 9, shape=shape, dtype=dtype, seed=seed)
        assert dtype_name(got) == (dtype or "int64") and tuple(got.shape) == shape and got.backend == cell.backend
        assert ((doubles(got) >= -5) & (doubles(got) < 9)).all()
        with cm.backend("native"):
            want = cm.randint(-5, 9, shape=shape, dtype=dtype, seed=seed)
        assert host(got).tobytes() == host(want).tobytes()
        low = tensor(cell.backend, np.full((2, 2), -3))
        high = tensor(cell.backend, np.full((2, 2), 3))
        for drawn in (cm.randint(low, high, seed=seed), low.randint(high, seed=seed), cm.randint(low, 3, seed=seed)):
            assert tuple(drawn.shape) == (2, 2) and (np.abs(doubles(drawn)) <= 3).all()
        assert doubles(cm.randint(4, 5, shape=(3,), seed=seed)).tolist() == [4, 4, 4]

    each(cell, test, whole())


@st.composite
def parameter(d, name, low=8, high=60, unit=64):
    shape = draw.one_of(d, (2, 3), (4,), (), (0, 2))
    return {name: draw.content(d, *shape, low=low, high=high, unit=unit), "seed": d(SEED)}, shape


def test_bernoulli(cell):
    check(cell, "bernoulli", parameter("probs"), positional=1)


def test_poisson(cell):
    check(cell, "poisson", parameter("lam", high=127), positional=1)


@st.composite
def two(d, first, second):
    shape = draw.one_of(d, (2, 3), (4,), (), (0, 2))
    return {first: draw.positive(d, *shape), second: draw.positive(d, *shape), "seed": d(SEED)}, shape


def test_beta(cell):
    check(cell, "beta", two("a", "b"), positional=2)


def test_gamma(cell):
    check(cell, "gamma", two("alpha", "beta"), positional=2)


@st.composite
def concentrations(d):
    k = draw.one_of(d, 3, 1, 2)
    size = draw.one_of(d, (2, 2), None, (3,), (0,))
    arguments = {"alpha": draw.positive(d, k), "size": size, "seed": d(SEED)}
    return arguments, (*(size or ()), k)


def test_dirichlet(cell):
    check(cell, "dirichlet", concentrations(), positional=1)


DRAWS = [
    lambda: cm.random_uniform(shape=(3,)),
    lambda: cm.random_normal(shape=(2, 2)),
    lambda: cm.randint(0, 100, shape=(4,)),
    lambda: cm.shuffle(cm.arange(6)),
    lambda: cm.dropout(cm.ones((8,)), 0.5),
    lambda: cm.multinomial(5, 3),
]


@st.composite
def streams(d):
    value = draw.one_of(d, 11, 0, (1 << 63) - 1) if d(st.booleans()) else d(st.integers(0, (1 << 63) - 1))
    return value, d(st.lists(st.integers(0, len(DRAWS) - 1), min_size=1, max_size=5))


def test_seed(cell):
    """The n-th draw after a seed is the same, whatever backend makes it."""

    def test(dtype, value, order):
        def drawn(where):
            with cm.backend(where):
                assert cm.seed(seed_value=value) is None
                return [host(DRAWS[n]()).tobytes() for n in order]

        found = drawn(cell.backend)
        assert found == drawn("native") == drawn(cell.backend)
        cm.seed(value)
        first, second = (host(cm.random_uniform(shape=(4,))).tobytes() for _ in range(2))
        assert first != second
        cm.seed(value)
        assert host(cm.random_uniform(shape=(4,))).tobytes() == first

    each(cell, test, streams())


@pytest.mark.row("random", "test_seed")
def test_state_is_kept_and_put_back(cell):
    cm.seed(5)
    cm.random_uniform(shape=(2,))
    state = cm.random.get_state()
    first = host(cm.random_normal(shape=(3,))).tobytes()
    cm.random.set_state(state)
    assert host(cm.random_normal(shape=(3,))).tobytes() == first
