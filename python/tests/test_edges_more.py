"""More odd arguments: traced numbers, infinities, complex numbers, huge sizes, odd pytrees, and representations."""

import dataclasses
import inspect
import math
import pickle
import subprocess
import sys
import warnings

import clematis as cm
import numpy as np
import pytest
from conftest import FRAMEWORKS, raw

INF, NAN = math.inf, math.nan


# Numbers that a framework traces.


def traced(name, f, *arrays):
    """Calls a function with arrays that the framework traces."""
    if name == "jax":
        import jax

        return jax.jit(f)(*arrays)
    if name == "tensorflow":
        import tensorflow as tf

        return tf.function(f)(*arrays)
    import torch

    return torch.compile(f, backend="eager")(*arrays)


TRACERS = [name for name in FRAMEWORKS if name != "numpy"]


@pytest.mark.parametrize("name", TRACERS)
@pytest.mark.parametrize("step", [3.0, 1.0])
def test_a_traced_step_of_adam(name, step):
    g, m, v = raw(name, [1.0, 2.0, 3.0]), raw(name, [1.0, 1.0, 1.0]), raw(name, [1.0, 1.0, 1.0])
    want = cm.adam_step(g, m, v, step)
    for given in (raw(name, step), raw(name, int(step), "int32")):
        for x, y in zip(traced(name, cm.adam_step, g, m, v, given), want, strict=True):
            np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5)


@pytest.mark.parametrize("name", TRACERS)
@pytest.mark.parametrize("prob", [0.0, 0.25, 1.0])
def test_a_traced_probability_of_dropout(name, prob):
    x = raw(name, np.arange(1, 65))
    want = np.asarray(cm.dropout(x, prob, seed=3))
    got = traced(name, lambda x, p: cm.dropout(x, p, seed=3), x, raw(name, prob))
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


def test_a_probability_is_one_real_number_between_0_and_1(backend):
    x = cm.ones(4)
    for wrong in (cm.asarray(1.5), cm.asarray(-0.5), 2, NAN):
        with pytest.raises(cm.ArgumentError, match="between 0 and 1"):
            cm.dropout(x, wrong)
    with pytest.raises(cm.ShapeError, match="dropout"):
        cm.dropout(x, cm.asarray([0.5, 0.5]))
    with pytest.raises(cm.DTypeError, match="real"):
        cm.dropout(x, cm.asarray(0.5 + 1j))
    with pytest.raises(TypeError):
        cm.dropout(x, "half")
    # The scale is differentiated by, the mask is not.
    kept = cm.dropout(x, 0.5, seed=1).numpy() > 0
    back = cm.grad(lambda p: cm.sum(cm.dropout(x, p, seed=1)))(cm.asarray(0.5))
    np.testing.assert_allclose(back.numpy(), 4.0 * kept.sum(), rtol=1e-6)


# Bounds of draws.


@pytest.mark.parametrize("dtype, most", [("float32", 3e38), ("float64", 1.7e308), ("float16", 6e4), ("bfloat16", 3e38)])
def test_uniform_from_one_end_of_a_type_to_the_other(backend, dtype, most):
    x = cm.random_uniform(low=-most, high=most, shape=(500,), dtype=dtype, seed=1)
    values = x.astype("float64").numpy()
    assert np.all(np.isfinite(values)) and np.all(np.abs(values) <= most * 1.01)
    # Both components, and neither end alone.
    assert 0.4 < np.mean(values > 0) < 0.6 and np.mean(np.abs(values) < most / 2) > 0.4
    low, high = cm.asarray([-most] * 50, dtype=dtype), cm.asarray([most] * 50, dtype=dtype)
    values = cm.random_uniform(low=low, high=high, seed=1).astype("float64").numpy()
    assert np.all(np.isfinite(values)) and len(set(values.tolist())) > 40


@pytest.mark.parametrize(
    "low, high, dtype",
    [
        (0, INF, None),
        (-INF, 0, None),
        (NAN, 1, None),
        (0, 7e4, "float16"),
        (0, 1e39, None),
        (0, 1000, "int8"),
        (-1, 5, "uint8"),
    ],
)
def test_bounds_beyond_the_type(backend, low, high, dtype):
    with pytest.raises(cm.ArgumentError, match="low .*high"):
        cm.random_uniform(low=low, high=high, shape=(3,), dtype=dtype)
    with pytest.raises(cm.ArgumentError, match="low .*high"):
        cm.random.uniform(cm.random.key(0), (3,), low=low, high=high, dtype=dtype)


def test_a_deviation_is_finite(backend):
    for std in (INF, NAN, -1.0, cm.asarray([1.0, INF])):
        with pytest.raises(cm.ArgumentError, match="random_normal: expected a .*std"):
            cm.random_normal(std=std)


@pytest.mark.parametrize("rate", [INF, 1e39, NAN, -1.0])
def test_a_rate_of_poisson_is_finite(backend, rate):
    with pytest.raises(cm.ArgumentError, match="poisson: a rate of"):
        cm.poisson(rate, shape=(3,))
    with pytest.raises(cm.ArgumentError, match="poisson: a rate of"):
        cm.poisson(cm.asarray([1.0, rate]))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("small", [1e-30, 1e-38, 1e-40, 1.5e-45])
def test_parameters_next_to_nothing(backend, dtype, small):
    # The limit is a coin: all of the mass is in one place.
    x = cm.beta(small, small, shape=(400,), dtype=dtype, seed=1).astype("float64").numpy()
    assert set(x.tolist()) == {0.0, 1.0} and 0.4 < x.mean() < 0.6
    y = cm.dirichlet([small] * 3, size=(400,), dtype=dtype, seed=1).astype("float64").numpy()
    assert set(y.ravel().tolist()) == {0.0, 1.0}
    np.testing.assert_array_equal(y.sum(-1), 1.0)
    np.testing.assert_allclose(y.mean(0), 1 / 3, atol=0.1)
    assert set(cm.beta(5e-324, 5e-324, shape=(50,), dtype=dtype, seed=1).tolist()) == {0.0, 1.0}
    # Ratios count: three times as likely.
    z = cm.beta(cm.asarray(3e-42, dtype="float64"), 1e-42, shape=(400,), dtype="float64", seed=2).numpy()
    assert 0.68 < z.mean() < 0.82


# Complex numbers are not made real in silence.

Z = "complex64"


@pytest.mark.parametrize(
    "call",
    {
        "lstm_update x": lambda: cm.lstm_update(
            cm.ones((1, 2, 2), dtype=Z), cm.ones((1, 2)), cm.ones((1, 2)), cm.ones((2, 8)), cm.ones((2, 8))
        ),
        "lstm_update bias": lambda: cm.lstm_update(
            cm.ones((1, 2, 2)),
            cm.ones((1, 2)),
            cm.ones((1, 2)),
            cm.ones((2, 8)),
            cm.ones((2, 8)),
            bias=cm.ones(8, dtype=Z),
        ),
        "scale": lambda: cm.scaled_dot_product_attention(*[cm.ones((1, 2, 2))] * 3, 1 + 2j),
        "scale as an array": lambda: cm.scaled_dot_product_attention(*[cm.ones((1, 2, 2))] * 3, cm.asarray(1 + 2j)),
        "queries": lambda: cm.scaled_dot_product_attention(
            cm.ones((1, 2, 2), dtype=Z), cm.ones((1, 2, 2)), cm.ones((1, 2, 2)), 1.0
        ),
        "low": lambda: cm.random_uniform(low=1j, high=2.0, shape=(2,)),
        "low as an array": lambda: cm.random_uniform(low=cm.asarray([1 + 1j]), high=20.0),
        "mean": lambda: cm.random_normal(mean=cm.asarray([1 + 1j])),
        "std": lambda: cm.random_normal(std=1j),
        "poisson": lambda: cm.poisson(cm.asarray([1 + 1j])),
        "gamma": lambda: cm.gamma(cm.asarray([1 + 1j]), 1.0),
        "beta": lambda: cm.beta(1.0, 1j),
        "bernoulli": lambda: cm.bernoulli(cm.asarray([0.5 + 1j])),
        "dirichlet": lambda: cm.dirichlet(cm.asarray([1 + 1j, 2.0])),
        "multinomial": lambda: cm.multinomial(2, 1, probs=cm.asarray([1 + 1j, 2.0])),
        "randint": lambda: cm.randint(cm.asarray([1 + 1j]), 5),
        "exponential": lambda: cm.random.exponential(cm.random.key(0), cm.asarray([1 + 1j])),
        "gradient": lambda: cm.adam_step(cm.asarray([1j]), cm.ones(1), cm.ones(1), 1),
        "step": lambda: cm.adam_step(cm.ones(1), cm.ones(1), cm.ones(1), 1 + 1j),
        "rate": lambda: cm.gradient_descent_update(cm.ones(1), cm.ones(1), 1 + 1j),
        "rate of lars": lambda: cm.lars_update(cm.ones(1), cm.ones(1), cm.asarray([1j])),
        "lamb": lambda: cm.lamb_update(cm.ones(1), cm.ones(1), 0.1, cm.asarray([1j]), cm.ones(1), 1),
    }.items(),
    ids=lambda pair: pair[0],
)
def test_complex_numbers_where_real_ones_belong(backend, call):
    with pytest.raises(cm.DTypeError, match="real numbers|signed integer"):
        call[1]()


def test_complex_parameters_descend(backend):
    w = cm.asarray([1 + 1j, 2.0])
    assert cm.gradient_descent_update(w, w, 0.5).tolist() == [0.5 + 0.5j, 1.0]


# Infinities.

ROWS = [
    [INF, 0, 1],
    [-INF, 0, 1],
    [NAN, 0, 1],
    [INF, INF, 0],
    [-INF] * 3,
    [INF, -INF, 0],
    [1e4, -1e4, 0],
    [0.5, -1.0, 2.0],
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_softmax_of_infinite_numbers(backend, dtype):
    x = np.array(ROWS)
    with np.errstate(all="ignore"):
        moved = x - x.max(-1, keepdims=True)
        want = np.exp(moved) / np.exp(moved).sum(-1, keepdims=True)
        log = moved - np.log(np.exp(moved).sum(-1, keepdims=True))
        total = np.log(np.exp(x[:-2]).sum(-1))
        for given in (cm.asarray(ROWS, dtype=dtype), cm.asarray(np.ascontiguousarray(x.T), dtype=dtype).T):
            got = [f(given, axis=-1).astype("float64").numpy() for f in (cm.softmax, cm.log_softmax)]
            got.append(cm.logsumexp(given[:-2], axis=-1).astype("float64").numpy())
    tight = (
        {"rtol": 1e-5, "atol": 1e-5}
        if dtype.startswith("float") and dtype != "float16"
        else {"rtol": 0.02, "atol": 0.02}
    )
    for a, b in zip(got, (want, log, total), strict=True):
        np.testing.assert_allclose(a, b, **tight)


def test_softmax_of_infinite_numbers_on_raw_arrays(framework):
    with np.errstate(all="ignore"):
        x = np.array(ROWS, np.float32)
        moved = x - x.max(-1, keepdims=True)
        want = np.exp(moved) / np.exp(moved).sum(-1, keepdims=True)
        np.testing.assert_allclose(np.asarray(cm.softmax(raw(framework, ROWS), axis=-1)), want, rtol=1e-5)
        logs = np.asarray(cm.log_softmax(raw(framework, ROWS), axis=-1))
        np.testing.assert_array_equal(np.isnan(logs), np.isnan(want))


# In float32 `1 + erf(x / sqrt(2))` at -3 has 17 bits; bfloat16 has 8.
GELU_RTOL = {"float32": 1e-4, "float64": 1e-12, "bfloat16": 2**-8}


@pytest.mark.parametrize("dtype", GELU_RTOL)
@pytest.mark.parametrize("approximate", [False, True])
def test_gelu_of_infinite_numbers(backend, dtype, approximate):
    with np.errstate(all="ignore"):
        x = cm.asarray([INF, -INF, NAN, 1e30, 0.0, 3.0, -3.0] * 3, dtype=dtype)
        got = cm.gelu(x, approximate=approximate).astype("float64").numpy()[:7]
    if approximate:
        tanh = math.tanh(math.sqrt(2 / math.pi) * (3 + 0.044715 * 3**3))
        low, high = -1.5 * (1 - tanh), 1.5 * (1 + tanh)
    else:
        low, high = -1.5 * math.erfc(3 / math.sqrt(2)), 1.5 * math.erfc(-3 / math.sqrt(2))
    np.testing.assert_allclose(got, [INF, NAN, NAN, 1e30, 0.0, high, low], rtol=GELU_RTOL[dtype])


# What a derivative sees.


def test_values_read_are_constants(backend):
    assert cm.grad(lambda x: x * 2 if x > 0 else x * 3)(cm.asarray(2.0)).tolist() == 2.0
    # Half of the square is a constant.
    assert cm.grad(lambda x: x * x.item())(cm.asarray(3.0)).tolist() == 3.0
    assert cm.grad(lambda x: cm.asarray(3.0))(cm.asarray(2.0)).tolist() == 0.0
    with pytest.warns(RuntimeWarning, match="plain number 4.0"):
        assert cm.grad(lambda x: float(x) ** 2)(cm.asarray(2.0)).tolist() == 0.0
    assert "constant" in cm.grad.__doc__


def test_a_list_of_numbers_is_an_array(backend):
    square = lambda x: cm.sum(x**2)
    assert cm.grad(square)([1.0, 2.0]).tolist() == [2.0, 4.0]
    assert cm.grad(square)([[1.0], [2.0]]).tolist() == [[2.0], [4.0]]
    assert cm.grad(square)((1.0, 2.0)).backend == backend
    value, back = cm.value_and_grad(square)([1.0, 2.0])
    assert value.tolist() == 5.0 and back.tolist() == [2.0, 4.0]
    assert cm.jac(lambda x: x**2)([1.0, 2.0]).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    assert cm.hessian(square)([1.0, 2.0]).tolist() == [[2.0, 0.0], [0.0, 2.0]]
    a, b = cm.grad(lambda x, y: cm.sum(x * y), argnums=(0, 1))([1.0, 2.0], [3.0, 4.0])
    assert a.tolist() == [3.0, 4.0] and b.tolist() == [1.0, 2.0]
    value, pull = cm.vjp(lambda x: x**2, [1.0, 2.0])
    assert pull([1.0, 1.0])[0].tolist() == [2.0, 4.0]
    assert cm.jvp(lambda x: x**2, ([1.0, 2.0],), ([1.0, 0.0],))[1].tolist() == [2.0, 0.0]
    value, back = cm.execute_with_gradients(square, [1.0, 2.0])
    assert value.tolist() == 5.0 and back.tolist() == [2.0, 4.0]
    with pytest.raises(cm.DTypeError, match="grad: expected floats or complex numbers to differentiate, the argument is i"):
        cm.grad(square)([1, 2])
    # A list that contains an array is a pytree.
    back = cm.grad(lambda x: x[0] ** 2 * x[1])([cm.asarray(3.0), 2.0])
    assert [x.tolist() for x in back] == [12.0, 9.0]


def squares(x):
    return cm.sum(x**2)


def fives(values, upstream):
    return values[0] * upstream * 5


def test_functions_go_through_pickles():
    x = cm.asarray([1.0, 2.0])
    for f in (cm.grad(squares), cm.grad(squares, argnums=(0,)), cm.value_and_grad(squares), cm.jac(squares),
              cm.jac(squares, mode="reverse"), cm.hessian(squares)):  # fmt: skip
        again = pickle.loads(pickle.dumps(f))
        assert repr(again(x)) == repr(f(x)) and "squares" in repr(again)
    noted = cm.grad(squares)
    noted.note = "kept"
    assert pickle.loads(pickle.dumps(noted)).note == "kept"
    custom = pickle.loads(pickle.dumps(cm.bind_custom_gradient_function(squares, fives)))
    assert cm.grad(custom)(x).tolist() == cm.grad(cm.bind_custom_gradient_function(squares, fives))(x).tolist()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(cm.grad(lambda x: x))
    for space in (cm, cm.tree, cm.linalg, cm.fft, cm.random):
        for name in dir(space):
            f = getattr(space, name)
            if callable(f) and not name.startswith("_"):
                assert pickle.loads(pickle.dumps(f)) is f, name


# Pytrees.


def test_index_paths_of_one_key(backend):
    x, y = cm.asarray([1.0, 2.0]), cm.asarray([3.0, 4.0])
    f = lambda v: cm.sum(v[0] * v[1])
    for paths in ([0], [[0]], [(0,)], ([0],)):
        assert cm.execute_with_gradients(f, [x, y], xs_grad_idxs=paths)[1].tolist() == [3.0, 4.0]
    both = cm.execute_with_gradients(f, [x, y], xs_grad_idxs=[0, 1])[1]
    assert [g.tolist() for g in both] == [[3.0, 4.0], [1.0, 2.0]]
    _, back = cm.execute_with_gradients(lambda v: (cm.sum(v), cm.sum(v**2)), x, ret_grad_idxs=[1])
    assert list(back) == ["1"] and back["1"].tolist() == [2.0, 4.0]
    for wrong in (0, "a", 2.5):
        with pytest.raises(cm.ArgumentError, match="list of paths"):
            cm.execute_with_gradients(f, [x, y], xs_grad_idxs=wrong)
    for wrong in ([None], [5], [[0, 0]], ["a"]):
        with pytest.raises(cm.ArgumentError, match="nothing at index"):
            cm.execute_with_gradients(f, [x, y], xs_grad_idxs=wrong)


class Scaled(cm.Module):
    def __init__(self):
        self.w = cm.asarray([1.0, 2.0])
        self.inner = {"b": cm.asarray(3.0)}
        self.seen = cm.State(cm.asarray(0.0))

    def __call__(self, x):
        return cm.sum(self.w * x) + self.inner["b"]


def test_modules_are_pytrees(backend):
    x, net = cm.asarray([5.0, 7.0]), Scaled()
    value, back = cm.execute_with_gradients(lambda m: m(x), net)
    assert value.tolist() == 22.0 and isinstance(back, cm.Container)
    assert back.w.tolist() == [5.0, 7.0] and sorted(back.paths()) == sorted(net.parameters().paths())
    value, back = cm.execute_with_gradients(lambda v: v["net"](v["x"]), {"net": net, "x": x, "name": "n"})
    assert back["x"].tolist() == [1.0, 2.0] and back["net"].w.tolist() == [5.0, 7.0]
    value, back = cm.execute_with_gradients(lambda m: m(x), net, xs_grad_idxs=[["w"]])
    assert back.paths() == ["w"]
    # The module itself is as it was.
    assert net.w.tolist() == [1.0, 2.0]


@dataclasses.dataclass
class Twice:
    a: object
    b: object = dataclasses.field(init=False)
    note: str = dataclasses.field(default="n", init=False)

    def __post_init__(self):
        self.b = self.a * 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: object = dataclasses.field(init=False)
    made: dataclasses.InitVar[int] = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    a: object
    b: float = 2.0


def test_dataclasses_with_fields_of_their_own(backend):
    x = cm.asarray([1.0, 2.0])
    d = Twice(x)
    d.note = "mine"
    for out in (cm.tree.map(lambda v: v * 10, d), cm.multiply(d, 10.0)):
        assert out.a.tolist() == [10.0, 20.0] and out.b.tolist() == [20.0, 40.0] and out.note == "mine"
    assert d.a is x
    for back in (cm.grad(lambda d: cm.sum(d.a * d.b))(d), cm.execute_with_gradients(lambda d: cm.sum(d.a * d.b), d)[1]):
        assert back.a.tolist() == [2.0, 4.0] and back.b.tolist() == [1.0, 2.0]
    back = cm.grad(lambda d: cm.sum(d.a * 3))(Frozen(x))
    assert back.a.tolist() == [3.0, 3.0] and not hasattr(back, "b")
    assert cm.execute_with_gradients(lambda d: cm.sum(d.a * 3), Frozen(x))[1].a.tolist() == [3.0, 3.0]
    back = cm.grad(lambda d: cm.sum(d.a * d.b))(Slotted(x))
    assert back.a.tolist() == [2.0, 2.0] and back.b.tolist() == 3.0


def test_a_place_for_some_leaves(backend):
    c = cm.Container(a=cm.asarray([0.0, 0.0]), b={"c": cm.asarray([3.0])})
    place = cm.Container(a=cm.zeros(2) + 7, b={"c": cm.zeros(1)})
    a = place.a
    assert c.exp(key_chains=["a"], out=place) is place
    assert place.a is a and a.tolist() == [1.0, 1.0]
    # A leaf that is not chosen is what it is without a place.
    assert place.b.c is c.b.c
    place = cm.Container(a=cm.zeros(2), b={"c": cm.zeros(1)})
    assert c.exp(key_chains="a", to_apply=False, out=place) is place
    assert place.a is c.a and place.b.c.tolist() == pytest.approx([math.exp(3)], rel=1e-6)
    place = cm.Container(a=cm.zeros(2), b={"c": cm.zeros(1)})
    assert c.exp(key_chains="a", prune_unapplied=True, out=place) is place
    assert place.paths() == ["a"]


# Sizes beyond reason.

BIG = 10**12
ONE = (1, 3, 1)


@pytest.mark.parametrize("n", [2**31, 2**40, 2**62, 2**63, 10**30])
def test_windows_of_too_large_numbers(backend, n):
    x, w = cm.ones(ONE), cm.ones((1, 1, 1))
    y, v = cm.ones((1, 3, 3, 1)), cm.ones((1, 1, 1, 1))
    for call in (
        lambda: cm.conv1d(x, w, n, "SAME"),
        lambda: cm.conv1d(x, w, 1, "VALID", dilations=n),
        lambda: cm.conv1d(x, w, 1, "VALID", x_dilations=n),
        lambda: cm.conv2d(y, v, (1, n), "VALID"),
        lambda: cm.depthwise_conv2d(y, cm.ones((1, 1, 1)), n, "SAME"),
        lambda: cm.conv_general_dilated(x, w, n, "SAME", dims=1),
        lambda: cm.conv1d_transpose(x, w, n, "SAME"),
        lambda: cm.max_pool1d(x, 2, n, "SAME"),
        lambda: cm.max_pool1d(x, n, 1, "SAME"),
        lambda: cm.max_pool1d(x, 2, 1, "SAME", dilation=n),
        lambda: cm.avg_pool2d(y, 2, n, "SAME"),
        lambda: cm.conv1d(x, w, 1, n),
        lambda: cm.conv1d(x, w, 1, [(n, 0)]),
        lambda: cm.max_pool1d(x, 2, 1, [(n, 0)]),
    ):
        with pytest.raises(cm.ArgumentError, match="conv|pool"):
            call()


def test_a_stride_of_31_bits(backend):
    assert cm.conv1d(cm.ones(ONE), cm.ones((1, 1, 1)), 2**31 - 1, "SAME").shape == (1, 1, 1)
    assert cm.max_pool1d(cm.ones(ONE), 2, 2**31 - 1, "SAME").shape == (1, 1, 1)


@pytest.mark.parametrize("n", [BIG, 10**30])
def test_arrays_that_no_machine_holds(backend, n):
    for call in (
        lambda: cm.pad(cm.ones(3), ((0, BIG),)),
        lambda: cm.zeros((n,)),
        lambda: cm.ones(n),
        lambda: cm.full((2, n), 1.0),
        lambda: cm.eye(n),
        lambda: cm.linspace(0, 1, n),
        lambda: cm.arange(BIG),
        lambda: cm.tile(cm.ones(3), (BIG,)),
        lambda: cm.repeat(cm.ones(3), BIG),
        lambda: cm.one_hot(cm.asarray([1]), n),
        lambda: cm.random_uniform(shape=n),
        lambda: cm.random_normal(shape=(n, 2)),
        lambda: cm.randint(0, 5, shape=n),
        lambda: cm.bernoulli(0.5, shape=n),
        lambda: cm.poisson(2.0, shape=n),
        lambda: cm.gamma(2.0, 1.0, shape=n),
        lambda: cm.beta(2.0, 1.0, shape=n),
        lambda: cm.dirichlet([1.0, 2.0], size=n),
        lambda: cm.random.bits(cm.random.key(0), n),
        lambda: cm.random.permutation(cm.random.key(0), n),
    ):
        with pytest.raises(cm.ArgumentError, match="at most|64 bits|from 0 to") as e:
            call()
        assert "random_bits" not in str(e.value)
    assert cm.zeros((0, BIG)).shape == (0, BIG)


@pytest.mark.parametrize("n", [-1, BIG, 10**30])
def test_counts_of_draws(backend, n):
    for call in (
        lambda: cm.multinomial(n, 2),
        lambda: cm.multinomial(3, n),
        lambda: cm.multinomial(3, 2, batch_size=n),
        lambda: cm.multinomial(None, n, probs=cm.ones(3)),
        lambda: cm.random.multinomial(cm.random.key(0), cm.ones(3), n),
    ):
        with pytest.raises(cm.ArgumentError, match="multinomial"):
            call()
    for wrong in (2.5, "a", None):
        with pytest.raises(TypeError):
            cm.multinomial(3, wrong)
    with pytest.raises(cm.ArgumentError, match="fold_in"):
        cm.random.key(0).fold_in(-1)


# What people read.


def test_spellings_are_those_of_python(backend):
    assert repr(cm.asarray([True, False])) == f"Tensor([ True, False], bool, {backend})"
    assert repr(cm.asarray([1 + 2j, complex(NAN, -INF)])) == f"Tensor([1.0+2.0j, nan-infj], complex64, {backend})"
    assert repr(cm.asarray([NAN, -INF])) == f"Tensor([ nan, -inf], float32, {backend})"
    with pytest.raises(cm.ShapeError, match=r"\[2, None\]"):
        cm.dropout(cm.ones((3, 4)), 0.5, noise_shape=[2, None])
    with pytest.raises(cm.ArgumentError) as e:
        cm.conv1d_transpose(cm.ones(ONE), cm.ones((1, 1, 1)), 1, [(1, 1)])
    assert "Each" not in str(e.value)


@pytest.mark.parametrize(
    "loss", ["l1_loss", "mse_loss", "huber_loss", "smooth_l1_loss", "cross_entropy", "binary_cross_entropy"]
)
def test_messages_name_what_was_called(backend, loss):
    with pytest.raises(cm.ShapeError, match=f"^{loss}: "):
        getattr(cm, loss)(cm.ones((2, 3)), cm.ones((4, 5)))
    if "entropy" in loss:
        with pytest.raises(cm.DTypeError, match=f"^{loss}: expected real numbers"):
            getattr(cm, loss)(cm.ones(2), cm.ones(2, dtype=Z))
    for f in (cm.grad, cm.value_and_grad, cm.jac, cm.hessian):
        with pytest.raises(cm.DTypeError, match=f"^{f.__name__}: a function was expected, not int"):
            f(3)


def test_limits_of_types_are_shown():
    assert repr(cm.iinfo("int8")) == "iinfo(dtype=int8, bits=8, max=127, min=-128)"
    assert repr(cm.finfo("float32")).startswith("finfo(dtype=float32, bits=32, eps=1.1920928955078125e-07, max=3.4028")


def test_what_the_namespace_shows():
    assert "run_command_line" not in dir(cm)
    for space in (cm, cm.tree, cm.linalg, cm.fft, cm.random):
        for name in dir(space):
            f = getattr(space, name)
            if name.startswith("_") or not callable(f) or inspect.isclass(f):
                continue
            assert "..." not in (f.__text_signature__ or "") if hasattr(f, "__text_signature__") else True, name
            assert not f.__module__.startswith("_"), name
    assert cm.tree.map.__module__ == "clematis.tree"


def test_no_warning_of_a_loss_that_is_a_tensor(backend):
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        cm.grad(lambda x: cm.sum(x * 2))(cm.ones(2))


def test_a_process_that_was_forked_off_computes():
    # In a process of its own: others here hold threads of their frameworks.
    code = "import os, clematis as cm; x = cm.ones((600, 600)); want = float(cm.sum(x @ x)); pid = os.fork()\n"
    code += "if pid == 0: os._exit(0 if float(cm.sum(x @ x)) == want else 1)\n"
    code += "print(os.waitpid(pid, 0)[1])"
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert out.stdout.split() == ["0"]
