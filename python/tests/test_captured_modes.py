"""Training and evaluation of captured models: each starts with the flags of its source and follows `train` and `eval`."""

import pickle

import clematis as cm
import flax.linen as linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

X = np.linspace(-1, 1, 12, dtype="float32").reshape(4, 3)


def draws(net, x=X):
    """Whether two calls differ, as they do only where dropout drops."""
    x = cm.asarray(x)
    return not np.array_equal(net(x).numpy(), net(x).numpy())


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(3, 64)
        self.norm = torch.nn.BatchNorm1d(64)
        self.drop = torch.nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(self.first(x)))


def frozen_children():
    """A root in training whose children are in evaluation, as users freeze a backbone."""
    net = Net().train()
    net.norm.eval()
    net.drop.eval()
    return net


@pytest.mark.parametrize("lazily", [False, True])
def test_children_in_evaluation_stay_so(lazily):
    source = frozen_children()
    made = cm.from_torch_module(source) if lazily else cm.from_torch_module(source, cm.asarray(X))
    want = source(torch.tensor(X)).detach().numpy()
    assert made.training is True
    np.testing.assert_allclose(made(cm.asarray(X)).numpy(), want, rtol=1e-5, atol=1e-6)
    before = made.buffers().copy()
    assert not draws(made)
    assert all(np.array_equal(a.numpy(), b.numpy()) for (_, a), (_, b) in
               zip(before._entries(), made.buffers()._entries(), strict=True))  # fmt: skip
    made.train()
    assert draws(made)
    made.eval()
    assert not draws(made) and made.training is False


def test_a_child_in_training_below_a_root_in_evaluation_stays_so():
    source = Net().eval()
    source.drop.train()
    made = cm.from_torch_module(source, cm.asarray(X))
    assert made.training is False and draws(made)
    made.eval()
    assert not draws(made)


def test_mixed_flags_survive_pickling_and_what_sets_all_flags_for_a_while():
    made = cm.from_torch_module(frozen_children(), cm.asarray(X))
    made.summary(cm.asarray(X))
    trainer = cm.Trainer(made, lambda net, x: cm.mean(net(x) ** 2), cm.optim.SGD(0.0))
    trainer.evaluate([cm.asarray(X)])
    assert made.training is True and not draws(made)
    assert not draws(pickle.loads(pickle.dumps(made)))


def test_a_program_of_mixed_flags_is_not_used_after_train():
    made = cm.from_torch_module(frozen_children(), cm.asarray(X))
    step = cm.jit(lambda net, x: net(x))
    x = cm.asarray(X)
    assert np.array_equal(step(made, x).numpy(), step(made, x).numpy())
    made.train()
    assert not np.array_equal(step(made, x).numpy(), step(made, x).numpy())


@pytest.mark.parametrize("captured", [True, False])
def test_mixed_flags_go_along_to_torch_and_flax(captured):
    if captured:
        ours = cm.from_torch_module(frozen_children(), cm.asarray(X))
    else:
        class Ours(cm.Module):
            def __init__(self):
                self.drop = cm.nn.Dropout(0.5)

            def __call__(self, x):
                return self.drop(x)

        ours = Ours()
        ours.drop.eval()
    for examples in ((), (cm.asarray(X),)):
        # They share their running statistics, which training moves.
        want = ours(cm.asarray(X)).numpy()
        made = ours.to_torch_module(*examples)
        np.testing.assert_allclose(made(torch.tensor(X)).detach().numpy(), want, rtol=1e-5, atol=1e-6)
        made.train()
        assert not torch.equal(made(torch.tensor(X)), made(torch.tensor(X)))
        made.eval()
        assert torch.equal(made(torch.tensor(X)), made(torch.tensor(X)))
    want = ours(cm.asarray(X)).numpy()
    flax = ours.to_flax_module(cm.asarray(X))
    np.testing.assert_allclose(flax(jnp.asarray(X)), want, rtol=1e-5, atol=1e-6)
    flax.train()
    assert not np.array_equal(flax(jnp.asarray(X)), flax(jnp.asarray(X)))


class HaikuDrops(hk.Module):
    def __call__(self, x, is_training, scale=1.0):
        x = hk.Linear(64)(x) * scale
        return hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x


class LinenDrops(linen.Module):
    @linen.compact
    def __call__(self, x, deterministic, scale=1.0):
        return linen.Dropout(0.5, deterministic=deterministic)(linen.Dense(64)(x)) * scale


def haiku_function():
    both = hk.transform(lambda x, is_training: HaikuDrops()(x, is_training))
    return both, both.init(jax.random.PRNGKey(0), X, True)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("by_name", [True, False])
def test_a_mode_given_to_haiku_is_where_it_starts_and_can_be_changed(training, by_name):
    function, params = haiku_function()
    args = (X,) if by_name else (X, training)
    kwargs = {"is_training": training} if by_name else {}
    ways = [
        lambda: cm.from_haiku_module(HaikuDrops, args, instance_kwargs=kwargs),
        lambda: cm.from_haiku_module(function, args, instance_kwargs=kwargs, params_hk=params),
    ]
    for way in ways:
        made = way()
        assert made.training is training and draws(made) is training
        assert draws(made.train()) and not draws(made.eval())


def test_a_mode_before_other_arguments_is_found():
    made = cm.from_haiku_module(HaikuDrops, (X, False, 2.0))
    want = made(cm.asarray(X), 2.0).numpy()
    x = cm.asarray(X)
    # As the source takes it, and by name.
    assert np.array_equal(made(x, False, 2.0).numpy(), want)
    assert np.array_equal(made(x, 2.0, is_training=False).numpy(), want)
    assert not np.array_equal(made(x, True, 2.0).numpy(), made(x, True, 2.0).numpy())
    with pytest.raises(cm.ClematisError, match="is_training"):
        made(x, 2.0, is_training="yes")


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_mode_given_to_linen_by_position(deterministic):
    made = cm.from_flax_module(LinenDrops(), (X, deterministic))
    assert made.training is not deterministic and draws(made) is not deterministic
    assert draws(made.train()) and not draws(made.eval())
    assert draws(lambda x: made(x, False)) and not draws(lambda x: made(x, deterministic=True))


class Nnx(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(3, 64, rngs=rngs)
        self.drop = nnx.Dropout(0.5, rngs=rngs)
        self.norm = nnx.BatchNorm(64, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.drop(self.first(x)))


def test_flags_of_nnx_modules_are_kept():
    assert cm.from_flax_module(Nnx(), X).training is True
    evaluated = Nnx()
    evaluated.eval()
    made = cm.from_flax_module(evaluated, X)
    assert made.training is False and not draws(made)
    mixed = Nnx()
    mixed.drop.deterministic = True
    made = cm.from_flax_module(mixed, X)
    want = mixed(jnp.asarray(X))
    np.testing.assert_allclose(made(cm.asarray(X)).numpy(), want, rtol=1e-4, atol=1e-4)
    assert not draws(made) and draws(made.train())


def test_a_captured_model_that_draws_is_compiled_with_what_it_closes_over(backend):
    source = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.Dropout(0.5))
    net, x = cm.from_torch_module(source, cm.asarray(X)), cm.asarray(X)
    step = cm.jit(lambda: net(x))
    assert not np.array_equal(step().numpy(), step().numpy())
