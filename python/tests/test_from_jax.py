"""Models of Haiku and Flax, and functions of jax, as modules of ours."""

import clematis as cm
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clematis._convert.from_jax import from_flax_module, from_haiku_module, from_jax
from flax import linen, nnx

ROWS = np.random.default_rng(0).normal(size=(2, 4)).astype("float32")
IMAGES = np.random.default_rng(1).normal(size=(2, 8, 8, 3)).astype("float32")


class Haiku(hk.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

    def __call__(self, x, is_training):
        x = hk.Conv2D(6, 3)(x)
        x = jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training))
        x = hk.MaxPool((1, 2, 2, 1), (1, 2, 2, 1), "VALID")(x)
        x = hk.Flatten()(x)
        if is_training:
            x = hk.dropout(hk.next_rng_key(), 0.2, x)
        return hk.Linear(self.width)(x)


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x, train):
        x = linen.Conv(6, (3, 3))(x)
        x = linen.relu(linen.BatchNorm(use_running_average=not train)(x))
        x = linen.max_pool(x, (2, 2), (2, 2)).reshape((x.shape[0], -1))
        return linen.log_softmax(linen.Dropout(0.2, deterministic=not train)(linen.Dense(5)(x)))


class Nnx(nnx.Module):
    def __init__(self, *, rngs):
        self.first = nnx.Linear(4, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.drop = nnx.Dropout(0.3, rngs=rngs)
        self.last = nnx.Linear(8, 2, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.gelu(self.norm(self.first(x)))))


def haiku_case():
    both = hk.transform_with_state(lambda x, is_training: Haiku(5)(x, is_training))
    params, state = both.init(jax.random.PRNGKey(0), IMAGES, True)
    made = from_haiku_module(Haiku, (IMAGES,), constructor_args=(5,))
    return made, lambda x: both.apply(params, state, None, x, False)[0], IMAGES


def linen_case():
    module = Linen()
    variables = module.init(jax.random.PRNGKey(1), IMAGES, False)
    return from_flax_module(module, (IMAGES,), params=variables), lambda x: module.apply(variables, x, False), IMAGES


def nnx_case():
    module = Nnx(rngs=nnx.Rngs(0))
    made = from_flax_module(module, (ROWS,))
    module.eval()
    return made, module, ROWS


CASES = {"haiku": haiku_case, "linen": linen_case, "nnx": nnx_case}


@pytest.mark.parametrize("name", CASES)
def test_a_model_computes_the_same_on_every_backend_at_any_batch_size(backend, name):
    made, reference, x = CASES[name]()
    made.eval()
    for rows in (x, np.concatenate([x, x, x])):
        out = made(cm.asarray(rows))
        assert out.backend == backend
        np.testing.assert_allclose(out.numpy(), np.asarray(reference(rows)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_model_trains_and_moves_its_state(backend, name):
    made, _, x = CASES[name]()
    before = {path: y.numpy() for path, y in made.buffers()._entries()}
    grads = cm.grad(lambda v: cm.sum(made(cm.asarray(x), v=v) ** 2))(made.v)
    assert list(grads.paths()) == list(made.v.paths())
    moved = [path for path, y in made.buffers()._entries() if not np.array_equal(y.numpy(), before[path])]
    assert moved


def test_functions_of_jax_with_loops_branches_and_indices(backend):
    def function(x):
        start = jnp.zeros(x.shape[0])
        _, rows = jax.lax.scan(lambda c, r: (jnp.tanh(c + r), c * 2), start, x.T)
        picked = x[:, jnp.array([0, 2])].at[:, 0].add(1.0)
        chosen = jax.lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, x)
        return rows.T, picked, chosen, jnp.sort(x, axis=1), jnp.argmax(x, axis=1)

    made = from_jax(function, ROWS)
    for x in (ROWS, np.concatenate([ROWS, -ROWS])):
        for got, want in zip(made(cm.asarray(x)), function(jnp.asarray(x)), strict=True):
            np.testing.assert_allclose(got.numpy(), np.asarray(want), rtol=1e-5, atol=1e-6)


def same(got, want, **tolerance):
    """Pytrees of one structure, arrays of one kind."""
    leaves = jax.tree.leaves(got, is_leaf=lambda x: isinstance(x, cm.Tensor))
    wanted, structure = jax.tree.flatten(want)
    assert structure == jax.tree.structure(jax.tree.unflatten(structure, leaves))
    for g, w in zip(leaves, map(np.asarray, wanted), strict=True):
        assert g.shape == w.shape and g.dtype.name == w.dtype.name
        np.testing.assert_allclose(g.numpy(), w, **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))


TABLE = np.arange(8, dtype="float32").reshape(2, 4) / 8
FUNCTIONS = {
    "fori_loop": lambda x: jax.lax.fori_loop(0, 5, lambda i, c: c * 0.5 + i, x),
    "while_loop": lambda x: jax.lax.while_loop(lambda c: jnp.abs(c).sum() > 1.0, lambda c: c * 0.5, x),
    "counted": lambda x: jax.lax.while_loop(lambda c: c[0] < 4, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, x)),
    "switch": lambda x: jax.lax.switch(
        jnp.argmax(x.sum(0)), [jnp.tanh, lambda x: x * 2, jnp.negative, lambda x: x - 1], x
    ),
    "scan with constants": lambda x: jax.lax.scan(lambda c, r: (jnp.tanh(c + r + TABLE[0]), c.sum()), x, TABLE),
    "associative scan": lambda x: jax.lax.associative_scan(jnp.multiply, x, axis=1),
    "complex": lambda x: (jnp.exp(1j * x), jnp.angle(x + 1j), jnp.abs(jnp.fft.fft(x)), jnp.fft.irfft(jnp.fft.rfft(x))),
    "pytree": lambda x: {"b": x, "a": (x * 2, [x - 1, {"z": x.sum(1)}])},
    "derivative": jax.vmap(jax.grad(lambda r: jnp.sum(jnp.tanh(r) ** 2))),
    "second derivative": lambda x: jax.hessian(lambda r: jnp.sum(r**3))(x[0]),
    "solve": lambda x: jnp.linalg.solve(jnp.eye(4) * 3 + TABLE.T @ TABLE, x.T),
    "fill": lambda x: jnp.take(x, jnp.array([0, 5]), axis=1, mode="fill", fill_value=7.0),
    "search": lambda x: jnp.searchsorted(jnp.array([-1.0, 0.0, 1.0]), x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_jax(name):
    function = FUNCTIONS[name]
    same(from_jax(function, ROWS)(cm.asarray(ROWS)), function(jnp.asarray(ROWS)))


def test_arguments_are_pytrees_in_any_order(backend):
    def function(pair, *, scale):
        return pair["y"] * scale["k"] - pair["x"]["z"]

    made = from_jax(lambda pair: function(pair, scale={"k": 2.0}), {"y": ROWS, "x": {"z": ROWS[:, :1]}})
    got = made({"x": {"z": cm.asarray(ROWS[:, :1])}, "y": cm.asarray(ROWS)})
    np.testing.assert_allclose(got.numpy(), ROWS * 2 - ROWS[:, :1], rtol=1e-6)
    with pytest.raises(cm.ArgumentError, match="'x'"):
        made({"y": cm.asarray(ROWS), "z": cm.asarray(ROWS)})


def test_both_modes_of_a_transformed_function_and_its_state():
    def forward(x, is_training):
        x = hk.BatchNorm(True, True, 0.9)(hk.Linear(3)(x), is_training)
        count = hk.get_state("count", (), jnp.int32, init=jnp.zeros)
        hk.set_state("count", count + 1)
        return hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x

    both = hk.transform_with_state(forward)
    params, state = both.init(jax.random.PRNGKey(0), ROWS, True)
    made = from_haiku_module(
        both, (ROWS,), params_hk=params, state_hk=state, instance_kwargs={"is_training": False}
    ).eval()
    same(made(cm.asarray(ROWS)), both.apply(params, state, None, ROWS, False)[0])
    path = next(path for path in made.buffers().paths() if path.endswith("count"))
    assert int(made.buffers()[path].numpy()) == 1
    made.train()
    one, two = made(cm.ones((30, 4))), made(cm.ones((30, 4)))
    assert not np.array_equal(one.numpy(), two.numpy())


def test_states_of_recurrent_cells(backend):
    def forward(x, state):
        return hk.LSTM(5)(x, state)

    pair = hk.transform(forward)
    start = hk.LSTMState(np.ones((2, 5), "float32"), np.zeros((2, 5), "float32"))
    params = pair.init(jax.random.PRNGKey(0), ROWS, start)
    made = from_haiku_module(pair, (ROWS, start), params_hk=params)
    out, state = made(cm.asarray(ROWS), hk.LSTMState(*map(cm.asarray, start)))
    want, after = pair.apply(params, None, ROWS, start)
    assert isinstance(state, hk.LSTMState)
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.cell.numpy(), after.cell, rtol=1e-5, atol=1e-6)


class Told(linen.Module):
    """Told when it is made, and drawing from a stream of its own."""

    train: bool = False

    @linen.compact
    def __call__(self, x):
        x = linen.BatchNorm(use_running_average=not self.train)(linen.Dense(3)(x))
        if self.train:
            x = x + jax.random.normal(self.make_rng("noise"), x.shape)
        return x


class Called(nnx.Module):
    """Told when it is called."""

    def __init__(self, rngs):
        self.layer, self.drop = nnx.Linear(4, 3, rngs=rngs), nnx.Dropout(0.5)

    def __call__(self, x, *, deterministic, rngs=None):
        return self.drop(self.layer(x), deterministic=deterministic, rngs=rngs)


@pytest.mark.parametrize("make", [Told, lambda: Called(nnx.Rngs(0))])
def test_modes_that_are_told_otherwise(make):
    made = from_flax_module(make(), (ROWS,)).eval()
    x = cm.ones((30, 4))
    assert np.array_equal(made(x).numpy(), made(x).numpy())
    made.train()
    assert not np.array_equal(made(x).numpy(), made(x).numpy())


def test_what_is_missing_is_said():
    pair = hk.transform(lambda x: hk.Linear(3)(x))
    with pytest.raises(cm.ConvertError, match="params_hk"):
        from_haiku_module(pair, (ROWS,))
    with pytest.raises(cm.ConvertError, match="example inputs"):
        from_haiku_module(Haiku)
    with pytest.raises(cm.ArgumentError, match="a class or a transformed"):
        from_haiku_module(3, (ROWS,))
    with pytest.raises(cm.ArgumentError, match="expected a Flax module"):
        from_flax_module(3, (ROWS,))
    with pytest.raises(cm.ConvertError, match="jax cannot trace it"):
        from_jax(lambda x: x if float(x.sum()) > 0 else -x, ROWS)
