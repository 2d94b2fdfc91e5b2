"""Models of Haiku and Flax, and functions of jax, as modules of ours."""

import clematis as cm
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from clematis._convert.incoming_jax import from_flax_module, from_haiku_module, from_jax
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


def test_what_is_missing_is_said():
    pair = hk.transform(lambda x: hk.Linear(3)(x))
    with pytest.raises(cm.ConvertError, match="params_hk"):
        from_haiku_module(pair, (ROWS,))
    with pytest.raises(cm.ConvertError, match="example inputs"):
        from_haiku_module(Haiku)
    with pytest.raises(cm.ArgumentError, match="a class or a transformed"):
        from_haiku_module(3, (ROWS,))
    with pytest.raises(cm.ArgumentError, match="Flax module was expected"):
        from_flax_module(3, (ROWS,))
    with pytest.raises(cm.ConvertError, match="jax cannot trace it"):
        from_jax(lambda x: x if float(x.sum()) > 0 else -x, ROWS)
