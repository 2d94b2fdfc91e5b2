"""Odd but legal arguments, and nonsense, in places where a shorter way could let them slip through."""

import collections
import copy
import pickle

import clematis as cm
import numpy as np
import pytest


@pytest.mark.parametrize(
    "draw",
    [
        lambda: cm.gamma(float("inf"), 1.0, seed=2),
        lambda: cm.gamma(1.0, float("inf"), seed=2),
        lambda: cm.beta(float("inf"), 1.0, seed=2),
        lambda: cm.dirichlet([float("inf"), 1.0], seed=2),
        lambda: cm.multinomial(3, 2, probs=cm.asarray([1.0, 0.0, 0.0]), replace=False, seed=5),
        lambda: cm.random.key(0).split(2**40),
        lambda: cm.random.key(0).split(-1),
    ],
)
def test_draws_that_cannot_be_made(draw):
    with pytest.raises(cm.ArgumentError):
        draw()


def test_linear_is_the_same_by_every_way(backend):
    x, w = cm.ones((2, 3)), cm.ones((4, 3))
    for bias in (cm.ones((2, 4)), cm.ones((1,)), cm.ones(()), cm.ones((1, 4))):
        with pytest.raises(cm.ShapeError, match="bias"):
            cm.linear(x, w, bias=bias)
    out = cm.linear(x, w, bias=[1.0, 2.0, 3.0, 4.0])
    assert out.dtype == cm.float32
    assert out.tolist() == [[4.0, 5.0, 6.0, 7.0]] * 2


@pytest.mark.parametrize("shape", [(-2, 3), (6, -7), None])
def test_shapes_that_are_none(backend, shape):
    with pytest.raises((cm.ShapeError, TypeError)):
        cm.reshape(cm.ones((2, 3)), shape)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: cm.matmul(x, x, x),
        lambda x: cm.matmul(x, x, dtype="float64"),
        lambda x: cm.silu(x, True),
        lambda x: cm.sum(x, 0),
        lambda x: cm.reshape(x, 2, 2),
        lambda x: cm.permute_dims(x, dims=(1, 0)),
    ],
)
def test_arguments_that_a_framework_would_take(backend, call):
    x = cm.ones((2, 2))
    with pytest.raises(TypeError):
        call(x)
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_several_results_into_several_places():
    q, r = np.zeros((2, 2), np.float32), np.zeros((2, 2), np.float32)
    x = np.array([[2, 1], [1, 3]], np.float32)
    out = cm.linalg.qr(x, out=(q, r))
    assert out[0] is q and out[1] is r
    np.testing.assert_allclose(q @ r, x, rtol=1e-6)


def test_a_tree_needs_a_place_for_each_leaf():
    with pytest.raises(cm.StructureError):
        cm.exp({"a": cm.ones(2), "b": cm.ones(2)}, out=cm.zeros(2))
    places = {"a": cm.zeros(2), "b": cm.zeros(2)}
    assert cm.exp({"a": cm.ones(2), "b": cm.zeros(2)}, out=places) is places
    assert places["b"].tolist() == [1.0, 1.0]


def test_an_argument_is_named_once():
    with pytest.raises(cm.ArgumentError, match="twice"):
        cm.grad(lambda a, b: cm.sum(a * b), argnums=(0, -2))(cm.ones(2), cm.ones(2))


def test_jacobians_of_custom_gradients(backend):
    f = cm.bind_custom_gradient_function(lambda v: v**2, lambda r, upstream: upstream * 5)
    assert cm.jac(f)(cm.ones(2)).tolist() == [[5.0, 0.0], [0.0, 5.0]]
    assert cm.hessian(lambda v: cm.sum(f(v) ** 2))(cm.ones(2)).tolist() == [[50.0, 0.0], [0.0, 50.0]]


def test_jax_differentiates_what_takes_indices():
    import jax
    import jax.numpy as jnp

    back = jax.grad(lambda a: cm.sum(cm.take(a, jnp.array([0, 1]), axis=0)))(jnp.ones((3, 2)))
    np.testing.assert_array_equal(back, [[1, 1], [1, 1], [0, 0]])


def test_lars_at_the_limit(backend):
    w = cm.asarray([2e38] * 3)
    np.testing.assert_allclose(cm.lars_update(w, w, 0.1).numpy(), [1.8e38] * 3, rtol=1e-6)


def test_what_a_user_function_is_called_with_is_no_data():
    x = cm.Container(a=cm.ones((3, 4)), b=cm.ones((3, 4)))
    out = cm.multi_head_attention(
        x, 1.0, 2, context=cm.ones((2, 8)), to_q_fn=lambda c, v: c @ v.w, to_q_v=cm.Container(w=cm.eye(4))
    )
    assert out.a.shape == (3, 4)


def test_keys_are_values():
    key = cm.random.key(5)
    assert pickle.loads(pickle.dumps(key)) == key == copy.deepcopy(key)
    assert hash(key) == hash(copy.copy(key))
    assert key != cm.random.key(6)


def test_dicts_of_their_own_kind():
    out = cm.exp(collections.defaultdict(list, a=cm.zeros(1)))
    assert out.default_factory is list and out["a"].tolist() == [1.0]


def test_draws_inside_torch_compile():
    import torch

    out = torch.compile(lambda x: cm.dropout(x, 0.5, seed=1) * 2, backend="eager")(torch.ones(8))
    np.testing.assert_array_equal(out, cm.dropout(np.ones(8, np.float32), 0.5, seed=1) * 2)


def test_a_tuple_of_arrays_is_mapped_leaf_by_leaf():
    x = cm.asarray([1.0, 2.0])
    first, second = cm.unstack((x, x * 2))
    assert [part[0].tolist() for part in (first, second)] == [1.0, 2.0]
    assert [part[1].tolist() for part in (first, second)] == [2.0, 4.0]
