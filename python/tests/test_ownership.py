"""A converted model shares no memory with its source: training the one leaves the arrays of the other alone."""

import hashlib

import clematis as cm
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import linen, nnx

X = np.linspace(-1, 1, 24, dtype="float32").reshape(8, 3)


def digest(arrays):
    """A hash of the bytes of every array."""
    return [hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest() for x in arrays]


def from_nnx():
    net = nnx.Linear(3, 4, rngs=nnx.Rngs(0))
    return cm.from_flax_module(net, X), lambda: [np.asarray(x) for x in jax.tree.leaves(nnx.state(net))]


def from_linen():
    net = linen.Dense(4)
    variables = net.init(jax.random.PRNGKey(0), X)
    return cm.from_flax_module(net, X, params=variables), lambda: [np.asarray(x) for x in jax.tree.leaves(variables)]


def from_haiku():
    both = hk.transform(lambda x: hk.Linear(4)(x))
    params = both.init(jax.random.PRNGKey(0), X)
    made = cm.from_haiku_module(both, X, params_hk=params)
    return made, lambda: [np.asarray(x) for x in jax.tree.leaves(params)]


def from_torch():
    net = torch.nn.Linear(3, 4)
    return cm.from_torch_module(net, X), lambda: [x.detach().numpy() for x in net.parameters()]


def from_torch_later():
    net = torch.nn.Linear(3, 4)
    made = cm.from_torch_module(net)
    made(cm.asarray(X))
    return made, lambda: [x.detach().numpy() for x in net.parameters()]


def from_keras():
    import keras

    net = keras.Sequential([keras.layers.Dense(4)])
    net.build((None, 3))
    return cm.from_keras_module(net, X), lambda: [keras.ops.convert_to_numpy(x) for x in net.weights]


def from_jax():
    table = jnp.asarray(X[:3, :3])
    return cm.from_jax(lambda x: x @ table, X), lambda: [np.asarray(table)]


SOURCES = [from_nnx, from_linen, from_haiku, from_torch, from_torch_later, from_keras, from_jax]


def train_ours(made):
    made(cm.asarray(X))
    if not len(made.v):
        return
    sgd = cm.optim.SGD(0.5)
    step = cm.value_and_grad(lambda net: cm.mean(net(cm.asarray(X)) ** 2))
    before = [np.array(x.numpy()) for _, x in made.v._entries()]
    for _ in range(2):
        _, grads = step(made)
        sgd.step(made, grads)
    assert any(not np.array_equal(a, x.numpy()) for a, (_, x) in zip(before, made.v._entries(), strict=True))


def train_jitted(made):
    sgd = cm.optim.SGD(0.5)

    @cm.jit
    def step(net, x):
        loss, grads = cm.value_and_grad(lambda net: cm.mean(net(x) ** 2))(net)
        sgd.step(net, grads)
        return loss

    for _ in range(3):
        step(made, cm.asarray(X))


def train_torch(made):
    net = made.to_torch_module(cm.asarray(X))
    parameters = list(net.parameters())
    if parameters:
        sgd = torch.optim.SGD(parameters, 0.5)
        net(torch.tensor(X)).square().mean().backward()
        sgd.step()


def write_into(made):
    for _, x in made.v._entries():
        cm.multiply(x, 0.0, out=x)


ROUTES = [train_ours, train_jitted, train_torch, write_into]


@pytest.mark.parametrize("route", ROUTES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("source", SOURCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("home", ["native", "numpy", "torch"])
def test_the_source_keeps_its_values(source, route, home):
    with cm.backend(home):
        made, arrays = source()
        before = digest(arrays())
        route(made)
        assert digest(arrays()) == before


@pytest.mark.parametrize("source", SOURCES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("home", ["jax", "tensorflow"])
def test_the_source_keeps_its_values_on_immutable_arrays(source, home):
    with cm.backend(home):
        made, arrays = source()
        before = digest(arrays())
        train_ours(made)
        train_jitted(made)
        assert digest(arrays()) == before
