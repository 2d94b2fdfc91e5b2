"""Modules of ours as modules of haiku."""

import itertools

import clematis as cm
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from nets_to_convert import NETS, Image, agree, cases, floats, leaves


def transformed(net):
    kind = net.to_haiku_module()
    return hk.transform_with_state(lambda *args, **kwargs: kind()(*args, **kwargs))


@pytest.mark.parametrize("name", NETS)
def test_gives_what_the_module_gives(name):
    net, examples = cases(name)
    model = transformed(net)
    with jax.enable_x64(True):
        params, state = model.init(0, *examples[0][0], **examples[0][1])

        def plain(*args, **kwargs):
            return model.apply(params, state, None, *args, **kwargs)[0]

        for args, kwargs, want in examples:
            for call in (plain, jax.jit(plain)):
                agree([np.asarray(x) for x in leaves(call(*args, **kwargs))], want)


def test_starts_with_the_values_of_the_module(backend):
    net = Image().eval()
    params, state = transformed(net).init(0, floats(2, 8, 8, 3))
    (params,), (state,) = params.values(), state.values()
    assert set(params) == set(net.v.paths()) and set(state) == set(net.buffers().paths())
    assert all(np.array_equal(x.numpy(), np.asarray(params[path])) for path, x in net.v._entries())


def test_trains_with_optax():
    net = Image()
    model = transformed(net)
    x, y = jnp.asarray(floats(8, 8, 8, 3)), jnp.asarray(floats(8, 4))
    params, state = model.init(0, x, is_training=False)
    optimizer = optax.sgd(1e-3)
    memory = optimizer.init(params)

    @jax.jit
    def step(params, memory):
        def loss(params):
            return jnp.mean((model.apply(params, state, None, x, is_training=False)[0] - y) ** 2)

        value, grads = jax.value_and_grad(loss)(params)
        updates, memory = optimizer.update(grads, memory)
        return value, optax.apply_updates(params, updates), memory

    losses = []
    for _ in range(10):
        value, params, memory = step(params, memory)
        losses.append(float(value))
    assert all(b < a for a, b in itertools.pairwise(losses)), losses


def test_training_draws_and_moves_state():
    net = Image().eval()
    model = transformed(net)
    x = floats(6, 8, 8, 3)
    params, state = model.init(0, x)
    run = jax.jit(lambda key: model.apply(params, state, key, x, is_training=True))
    one, moved = run(jax.random.key(0))
    two, _ = run(jax.random.key(1))
    again, _ = run(jax.random.key(0))
    assert np.array_equal(one, again) and not np.array_equal(one, two)
    before, after = state["image"]["norm/running_mean"], moved["image"]["norm/running_mean"]
    assert not np.array_equal(before, after)
    net.train()(cm.asarray(x))
    np.testing.assert_allclose(after, net.buffers()["norm/running_mean"].numpy(), rtol=1e-5, atol=1e-6)


def test_maps_over_a_batch():
    net = Image().eval()
    model = transformed(net)
    x = floats(3, 8, 8, 3)
    params, state = model.init(0, x)

    def one(x):
        return model.apply(params, state, None, x[None])[0][0]

    np.testing.assert_allclose(jax.vmap(one)(x), net(cm.asarray(x)).numpy(), rtol=1e-5, atol=1e-5)


def test_the_module_keeps_no_tracers():
    net = cm.nn.Linear(3, 2)
    kind = net.to_haiku_module()
    model = hk.transform(lambda x: kind()(x))
    params = model.init(0, jnp.ones((2, 3)))
    jax.jit(jax.grad(lambda p: model.apply(p, None, jnp.ones((2, 3))).sum()))(params)
    assert net(cm.ones((2, 3))).shape == (2, 2)
    frozen = cm.nn.Linear(3, 2)
    frozen.freeze("w")
    kind = frozen.to_haiku_module()
    model = hk.transform(lambda x: kind()(x))
    params = model.init(0, jnp.ones((2, 3)))
    grads = jax.grad(lambda p: model.apply(p, None, jnp.ones((2, 3))).sum())(params)
    assert not grads["linear"]["w"].any() and grads["linear"]["b"].any()
