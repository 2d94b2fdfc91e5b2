"""Converters: the rows of the dashboard `converters`, each with its source module on every backend.

The loops are the frameworks' own: whatever backend the module computes on, the result trains there.
"""

import itertools
import os

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import clematis as cm
import numpy as np
import pytest
from hypothesis import strategies as st

from .arrays import doubles, tensor


class Source(cm.Module):
    """Three layers, which take more arguments than they use."""

    def __init__(self, n, m):
        self._linear0, self._linear1, self._linear2 = cm.nn.Linear(n, 64), cm.nn.Linear(64, 64), cm.nn.Linear(64, m)
        cm.Module.__init__(self)

    def _forward(self, x, *args, **kwargs):
        return cm.sigmoid(self._linear2(cm.relu(self._linear1(cm.relu(self._linear0(x))))))


PATHS = [f"linear{i}/{name}" for i in range(3) for name in "wb"]


def each(cell, strategy, test, count=2):
    cell._some(strategy, lambda dtype, drawn: test(*drawn), "float32", 20 if cell.full else count)


# Ivy's sizes first, then some others.
sizes = st.one_of(
    st.just(([2, 3], 10, 5)),
    st.tuples(st.lists(st.integers(1, 3), min_size=1, max_size=2), st.integers(2, 10), st.integers(1, 5)),
)


def data(batch, n, m):
    def line(channels):
        flat = np.linspace(0, 1, int(np.prod(batch)) * channels, dtype="float32")
        return flat.reshape([*batch, channels])

    return line(n), line(m)


def made(cell, n, m):
    module = Source(n, m)
    assert all(x.backend == cell.backend for _, x in module.v._entries())
    return module, [doubles(x) for _, x in module.v._entries()]


def agrees(cell, module, x, result):
    """What the source gives for the same input, before training."""
    want = doubles(module(tensor(cell.backend, x, "float32")))
    np.testing.assert_allclose(np.asarray(result, "float64"), want, rtol=1e-5, atol=1e-6)


def falling(losses):
    assert all(b < a for a, b in itertools.pairwise([1e12, *losses])), losses


@pytest.mark.row("converters", "to_torch_module")
def test_to_torch_module(cell):
    import torch

    def test(batch, n, m):
        module, before = made(cell, n, m)
        x, y = (torch.tensor(a) for a in data(batch, n, m))
        net = module.to_torch_module()
        assert isinstance(net, torch.nn.Module)
        assert [name.replace(".", "/") for name, _ in net.named_parameters()] == PATHS
        assert all(
            np.array_equal(doubles(p.detach().numpy()), v) for p, v in zip(net.parameters(), before, strict=True)
        )
        agrees(cell, module, x.numpy(), net(x, 1, more=2).detach().numpy())
        optimizer, losses = torch.optim.SGD(net.parameters(), lr=1e-3), []
        for _ in range(10):
            loss = torch.nn.L1Loss()(y, net(x))
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        falling(losses)
        if cell.backend == "torch":
            # One memory: what torch trains, the module has.
            agrees(cell, module, x.numpy(), net(x).detach().numpy())
        again = Source(n, m).to_torch_module()
        again.load_state_dict(net.state_dict())
        assert torch.equal(again(x), net(x))

    each(cell, sizes, test)


@pytest.mark.row("converters", "to_keras_module")
def test_to_keras_module(cell):
    import keras
    import tensorflow as tf

    assert keras.backend.backend() == "tensorflow"

    def test(batch, n, m):
        module, before = made(cell, n, m)
        x, y = (tf.constant(a) for a in data(batch, n, m))
        net = module.to_keras_module()
        assert isinstance(net, keras.Model)
        assert [w.name.replace("__", "/") for w in net.trainable_weights] == PATHS
        assert all(np.array_equal(doubles(w.numpy()), v) for w, v in zip(net.trainable_weights, before, strict=True))
        agrees(cell, module, x.numpy(), net(x).numpy())
        loss_of, optimizer, losses = keras.losses.MeanAbsoluteError(), keras.optimizers.SGD(1e-3), []
        for _ in range(10):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch([w.value for w in net.trainable_weights])
                loss = loss_of(y, net(x))
            grads = tape.gradient(loss, [w.value for w in net.trainable_weights])
            optimizer.apply_gradients(zip(grads, net.trainable_weights, strict=True))
            losses.append(float(loss))
        falling(losses)
        assert all(np.array_equal(doubles(v), b) for (_, v), b in zip(module.v._entries(), before, strict=True))

    each(cell, sizes, test)


@pytest.mark.row("converters", "to_haiku_module")
def test_to_haiku_module(cell):
    import haiku as hk
    import jax
    import jax.numpy as jnp

    def test(batch, n, m):
        module, before = made(cell, n, m)
        x, y = (jnp.asarray(a) for a in data(batch, n, m))
        kind = module.to_haiku_module()
        assert isinstance(kind, type) and issubclass(kind, hk.Module)
        model = hk.transform(lambda *a, **k: kind()(*a, **k))
        params = model.init(jax.random.PRNGKey(42), x)
        (own,) = params.values()
        assert sorted(own) == sorted(PATHS)
        assert all(np.array_equal(doubles(np.asarray(own[p])), v) for p, v in zip(PATHS, before, strict=True))
        agrees(cell, module, np.asarray(x), model.apply(params, None, x))

        def loss(params):
            return jnp.mean(jnp.abs(y - model.apply(params, None, x)))

        step, losses = jax.jit(jax.value_and_grad(loss)), []
        for _ in range(10):
            value, grads = step(params)
            params = jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)
            losses.append(float(value))
        falling(losses)
        assert all(np.array_equal(doubles(v), b) for (_, v), b in zip(module.v._entries(), before, strict=True))

    each(cell, sizes, test)


def torch_net():
    import torch

    class Net(torch.nn.Module):
        def __init__(self, in_size, out_size):
            super().__init__()
            self.linear0 = torch.nn.Linear(in_size, 64)
            self.linear1 = torch.nn.Linear(64, 64)
            self.linear2 = torch.nn.Linear(64, out_size)

        def forward(self, x):
            x = torch.unsqueeze(x, 0)
            x = torch.tanh(self.linear0(x))
            x = torch.tanh(self.linear1(x))
            return torch.tanh(self.linear2(x))[0]

    return Net, lambda x: ({}, Net(in_size=4, out_size=5))


def keras_net():
    import keras

    class Net(keras.Model):
        def __init__(self, in_size, out_size, **options):
            super().__init__(**options)
            self.linear0, self.linear1 = keras.layers.Dense(64), keras.layers.Dense(64)
            self.linear2 = keras.layers.Dense(out_size)

        def call(self, x):
            x = keras.ops.expand_dims(x, 0)
            x = keras.ops.tanh(self.linear0(x))
            x = keras.ops.tanh(self.linear1(x))
            return keras.ops.tanh(self.linear2(x))[0]

    def instance(x):
        net = Net(in_size=4, out_size=5)
        net(x)
        return {}, net

    return Net, instance


def haiku_net():
    import haiku as hk
    import jax.numpy as jnp

    class Net(hk.Module):
        def __init__(self, in_size, out_size):
            super().__init__()
            self.linear0, self.linear1, self.linear2 = hk.Linear(64), hk.Linear(64), hk.Linear(out_size)

        def __call__(self, x):
            x = jnp.expand_dims(x, 0)
            x = jnp.tanh(self.linear0(x))
            x = jnp.tanh(self.linear1(x))
            return jnp.tanh(self.linear2(x))[0]

    def instance(x):
        model = hk.transform(lambda x: Net(in_size=4, out_size=5)(x))
        return {"params_hk": model.init(0, x)}, model

    return Net, instance


def flax_net():
    import jax.numpy as jnp
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, in_size, out_size, rngs):
            self.linear0, self.linear1 = nnx.Linear(in_size, 64, rngs=rngs), nnx.Linear(64, 64, rngs=rngs)
            self.linear2 = nnx.Linear(64, out_size, rngs=rngs)

        def __call__(self, x):
            x = jnp.expand_dims(x, 0)
            x = jnp.tanh(self.linear0(x))
            x = jnp.tanh(self.linear1(x))
            return jnp.tanh(self.linear2(x))[0]

    return Net, lambda x: ({}, Net(in_size=4, out_size=5, rngs=nnx.Rngs(0)))


@pytest.mark.row("converters", "from_backend_module")
@pytest.mark.parametrize("from_class_and_args", [True, False])
@pytest.mark.parametrize("framework", [torch_net, keras_net, haiku_net, flax_net])
def test_from_backend_module(cell, framework, from_class_and_args):
    x = np.linspace(0, 1, 8, dtype="float32").reshape(1, 2, 4)
    given = tensor(cell.backend, x, "float32")
    kind, instance = framework()
    if from_class_and_args:
        module = cm.Module.from_backend_module(
            kind, instance_args=[given], constructor_kwargs={"in_size": 4, "out_size": 5}
        )
    else:
        more, native = instance(x)
        module = cm.Module.from_backend_module(native, instance_args=[given], **more)
    assert isinstance(module, cm.Module)
    assert len(module.v.paths()) == 6 and all(v.backend == cell.backend for _, v in module.v._entries())

    def loss_fn(v=None):
        return cm.mean(module(given, v=v))

    loss_fn()
    losses = []
    for _ in range(10):
        loss, grads = cm.execute_with_gradients(loss_fn, module.v)
        module.v = cm.gradient_descent_update(module.v, grads, 1e-3)
        losses.append(float(loss))
    falling(losses)
    assert cm.tree.is_array(loss) and isinstance(grads, cm.Container) and loss.shape == ()
    assert (abs(grads).max() > 0).cont_all_true()
    cell.examples += 1
