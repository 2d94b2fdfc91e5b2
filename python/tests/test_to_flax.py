"""Modules of ours as modules of flax, in both of its styles."""

import itertools

import clematis as cm
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import linen, nnx
from nets_to_convert import NETS, Image, agree, cases, floats, leaves


def host(out):
    return [np.asarray(x) for x in leaves(out)]


@pytest.mark.parametrize("name", NETS)
def test_nnx_gives_what_the_module_gives(name):
    net, examples = cases(name)
    model = net.to_flax_module()
    assert isinstance(model, nnx.Module)
    with jax.enable_x64(True):
        compiled = nnx.jit(lambda model, args, kwargs: model(*args, **kwargs))
        for args, kwargs, want in examples:
            agree(host(model(*args, **kwargs)), want)
            agree(host(compiled(model, args, kwargs)), want)


@pytest.mark.parametrize("name", NETS)
def test_linen_gives_what_the_module_gives(name):
    net, examples = cases(name)
    model = net.to_flax_module(style="linen")
    assert isinstance(model, linen.Module)
    with jax.enable_x64(True):
        variables = model.init(jax.random.key(0), *examples[0][0], **examples[0][1])
        for args, kwargs, want in examples:
            agree(host(model.apply(variables, *args, **kwargs)), want)
            agree(host(jax.jit(model.apply)(variables, *args, **kwargs)), want)


def test_nnx_variables_have_our_paths():
    net = Image().eval()
    net.freeze("out/b")
    model = net.to_flax_module()
    trained = {"/".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(model, nnx.Param))}
    assert trained == set(net.parameters().paths())
    moved = {"/".join(map(str, path)) for path, _ in nnx.to_flat_state(nnx.state(model, nnx.BatchStat))}
    assert moved == set(net.buffers().paths())
    graph, state = nnx.split(model)
    x = floats(2, 8, 8, 3)
    assert np.array_equal(nnx.merge(graph, state)(x), model(x))


def test_nnx_trains():
    net = Image().eval()
    model = net.to_flax_module()
    x, y = jnp.asarray(floats(8, 8, 8, 3)), jnp.asarray(floats(8, 4))
    optimizer = nnx.Optimizer(model, optax.sgd(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model, optimizer):
        loss, grads = nnx.value_and_grad(lambda model: jnp.mean((model(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return loss

    losses = [float(step(model, optimizer)) for _ in range(10)]
    assert all(b < a for a, b in itertools.pairwise(losses)), losses
    assert all(np.array_equal(v.numpy(), v.numpy()) for _, v in net.v._entries())


def test_nnx_follows_train_and_eval():
    net = Image().eval()
    model = net.to_flax_module(rngs=nnx.Rngs(dropout=3))
    x = floats(6, 8, 8, 3)
    still = model(x)
    assert np.array_equal(model(x), still)
    model.train()
    run = nnx.jit(lambda model, x: model(x))
    one, two = run(model, x), run(model, x)
    assert not np.array_equal(one, two)
    again = net.to_flax_module(rngs=nnx.Rngs(dropout=3))
    again.train()
    assert np.array_equal(run(again, x), one)
    net.train()(cm.asarray(x))
    np.testing.assert_allclose(
        again.norm.running_mean[...], net.buffers()["norm/running_mean"].numpy(), rtol=1e-5, atol=1e-6
    )


def test_linen_trains_and_moves_state():
    net = Image().eval()
    model = net.to_flax_module(style="linen")
    x, y = jnp.asarray(floats(8, 8, 8, 3)), jnp.asarray(floats(8, 4))
    variables = model.init(jax.random.key(0), x)
    assert set(variables) == {"params", "batch_stats"} and set(variables["params"]) == {
        "first",
        "norm",
        "second",
        "out",
    }
    params, rest = variables["params"], {"batch_stats": variables["batch_stats"]}

    @jax.jit
    def step(params):
        value, grads = jax.value_and_grad(lambda p: jnp.mean((model.apply({"params": p, **rest}, x) - y) ** 2))(params)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    losses = []
    for _ in range(10):
        value, params = step(params)
        losses.append(float(value))
    assert all(b < a for a, b in itertools.pairwise(losses)), losses
    out, moved = model.apply(variables, x, train=True, rngs={"dropout": jax.random.key(1)}, mutable=["batch_stats"])
    assert out.shape == (8, 4)
    assert not np.array_equal(moved["batch_stats"]["norm"]["running_mean"], rest["batch_stats"]["norm"]["running_mean"])


class Clashing(cm.Module):
    """Names that flax has for itself."""

    def __init__(self):
        self.rngs, self.deterministic = cm.nn.Linear(3, 4), cm.nn.Linear(4, 4)
        self.split = cm.nn.Linear(4, 2)
        self.params = cm.nn.LayerNorm(2)

    def __call__(self, x):
        return self.params(self.split(cm.relu(self.deterministic(self.rngs(x)))))


@pytest.mark.parametrize("style", ["nnx", "linen"])
def test_names_that_flax_has_itself(style):
    net, x = Clashing().eval(), floats(2, 3)
    want = net(cm.asarray(x)).numpy()
    model = net.to_flax_module(style=style)
    if style == "nnx":
        assert len(nnx.to_flat_state(nnx.state(model, nnx.Param))) == len(net.v.paths())
        model.train()
        model.eval()
        graph, state = nnx.split(model)
        got = nnx.jit(lambda m, x: m(x))(nnx.merge(graph, state), x)
    else:
        got = jax.jit(model.apply)(model.init(jax.random.key(0), x), x)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_maps_over_a_batch():
    net = Image().eval()
    model = net.to_flax_module(style="linen")
    x = floats(3, 8, 8, 3)
    variables = model.init(jax.random.key(0), x)
    got = jax.vmap(lambda x: model.apply(variables, x[None])[0])(x)
    np.testing.assert_allclose(got, net(cm.asarray(x)).numpy(), rtol=1e-5, atol=1e-5)


def test_says_what_is_wrong():
    with pytest.raises(cm.ArgumentError, match="style"):
        cm.nn.Linear(2, 2).to_flax_module(style="old")
