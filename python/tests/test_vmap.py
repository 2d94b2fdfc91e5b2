"""Functions of one example as functions of many, on every backend."""

import clematis as cm
import numpy as np
import pytest


def arrays(*shapes):
    rng = np.random.default_rng(0)
    return [cm.asarray(rng.normal(size=shape).astype(np.float32)) for shape in shapes]


def same(f, *args, axes=None, rtol=1e-4):
    axes = axes or (0,) * len(args)
    got = cm.tree.leaves(cm.vmap(f, in_axes=axes)(*args))
    count = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
    rows = [
        f(*[x if a is None else cm.take(x, cm.asarray(i), axis=a) for x, a in zip(args, axes, strict=True)])
        for i in range(count)
    ]
    for k, y in enumerate(got):
        want = np.stack([cm.tree.leaves(row)[k].numpy() for row in rows])
        np.testing.assert_allclose(y.numpy(), want, rtol=rtol, atol=1e-5)


def test_products_and_sums(backend):
    x, y = arrays((3, 4, 5), (3, 5, 2))
    same(lambda x, y: cm.sum(x @ y, axis=0), x, y)
    same(lambda x, y: x @ y, x, y[0], axes=(0, None))
    same(lambda x, y: x @ y, x[0], y, axes=(None, 0))
    same(lambda x: cm.softmax(x, axis=-1), x, axes=(1,))


def test_convolutions_with_a_batch_on_either_side(backend):
    x, w = arrays((3, 2, 5, 5, 2), (3, 3, 3, 2, 4))
    conv = lambda x, w: cm.conv2d(x, w, 1, "SAME")
    same(conv, x, w)
    same(conv, x, w[0], axes=(0, None))
    same(conv, x[0], w, axes=(None, 0))


def test_branches_and_loops(backend):
    (x,) = arrays((3, 4))
    same(lambda x: cm.cond(cm.sum(x) > 0, lambda x: x * 2, lambda x: x - 1, x), x)
    same(lambda x: cm.while_loop(lambda c: cm.sum(c * c) < 50, lambda c: c * 1.5, x), x)
    same(lambda x: cm.scan(lambda c, r: (c + r, c * r), x[0], x), x)


def test_through_derivatives_and_programs(backend):
    (x,) = arrays((3, 4))
    f = lambda x: cm.sum(cm.sin(x) * x)
    same(cm.grad(f), x)
    same(cm.jit(f), x)
    np.testing.assert_allclose(cm.jit(cm.vmap(cm.grad(f)))(x).numpy(), cm.vmap(cm.grad(f))(x).numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        cm.grad(lambda x: cm.sum(cm.vmap(f)(x)))(x).numpy(), cm.vmap(cm.grad(f))(x).numpy(), rtol=1e-5
    )


def test_each_example_draws_for_itself(backend):
    cm.seed(0)
    y = cm.vmap(lambda x: x + cm.random_uniform(shape=(4,)))(cm.zeros((3, 4))).numpy()
    assert len({tuple(row) for row in y}) == 3 and (0 <= y).all() and (y < 1).all()


def test_axes_trees_and_arrays_of_frameworks(framework, make_raw):
    x = make_raw(framework, np.arange(6.0).reshape(2, 3))
    out = cm.vmap(lambda d, k: {"y": d["x"] * k}, in_axes=(1, None), out_axes=1)({"x": x}, 2.0)
    assert type(out["y"]) is type(x)
    np.testing.assert_allclose(np.asarray(out["y"]), np.arange(6.0).reshape(2, 3) * 2)


def test_a_rule_of_the_users_stays(backend):
    f = cm.bind_custom_gradient_function(lambda x: x**2, lambda values, upstream: -upstream)
    (x,) = arrays((3, 4))
    y = cm.vmap(cm.grad(lambda x: cm.sum(f(x))))(x)
    assert (y.numpy() == -1).all()


def test_mistakes():
    with pytest.raises(cm.ShapeError, match="argument 1 has 2 examples, argument 0 has 3"):
        cm.vmap(lambda x, y: x + y)(cm.ones((3,)), cm.ones((2,)))
    with pytest.raises(cm.ShapeError, match="no axis to map over"):
        cm.vmap(lambda x: x)(cm.asarray(1.0))
    with pytest.raises(cm.errors.ArgumentError, match="in_axes names 1 arguments, not 2"):
        cm.vmap(lambda x, y: x, in_axes=(0,))(cm.ones((3,)), cm.ones((3,)))
