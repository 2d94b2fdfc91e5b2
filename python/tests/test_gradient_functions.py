"""`execute_with_gradients`, the switches, `stop_gradient`; `grad`, `value_and_grad`, `jac` as the rows have them."""

import dataclasses
from collections import namedtuple

import clematis as cm
import numpy as np
import pytest

X = np.array([[4.6, 2.1, 5.0], [2.8, 1.3, 6.2]])
W = np.array([0.5, -1.5, 2.0])


def close(got, want, rtol=1e-6):
    np.testing.assert_allclose(np.asarray(cm.asarray(got).tolist()), want, rtol=rtol, atol=1e-7)


def test_an_array(backend):
    for dtype in ("float32", "float64"):
        value, gradient = cm.execute_with_gradients(lambda x: cm.mean(x * x), cm.asarray(X, dtype=dtype))
        assert value.dtype == gradient.dtype == dtype and value.shape == () and gradient.backend == backend
        close(value, np.mean(X**2))
        close(gradient, 2 * X / X.size)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_kept(backend, dtype):
    value, gradient = cm.execute_with_gradients(lambda x: cm.sum(x * x), cm.asarray(W, dtype=dtype))
    assert value.dtype == gradient.dtype == dtype
    close(gradient, 2 * W)


@pytest.mark.parametrize("retain_grads", [True, False])
def test_one_array_in_several_places_gets_the_whole_gradient_at_each(backend, retain_grads):
    x = cm.asarray(X)

    def mean_of_all(v):
        return cm.mean(cm.stack([v["alpha"], v["beta"]["gamma"], v["beta"]["delta"]]))

    tree = {"alpha": x, "beta": {"gamma": x, "delta": x}}
    for v in (cm.Container(tree), tree):
        value, gradients = cm.execute_with_gradients(mean_of_all, v, retain_grads=retain_grads)
        assert type(gradients) is type(v) and type(gradients["beta"]) is type(v["beta"])
        close(value, X.mean())
        for g in cm.tree.leaves(gradients):
            close(g, np.full(X.shape, 1 / X.size))
    # Equal values that are other objects are other inputs.
    _, gradients = cm.execute_with_gradients(mean_of_all, cm.tree.map(lambda x: x + 0, tree))
    close(gradients["alpha"], np.full(X.shape, 1 / X.size / 3))
    # Not the same weight at each place: the sum of all.
    _, (first, second) = cm.execute_with_gradients(lambda v: cm.sum(v[0]) * 2 + cm.sum(v[1]) * 3, [x, x])
    close(first, np.full(X.shape, 5))
    close(second, np.full(X.shape, 5))


def test_several_results_are_keyed_by_their_index(backend):
    w = cm.asarray(W)

    def f(v):
        return [cm.sum(v["w"] ** 2), {"b": cm.sum(v["w"]), "note": "text"}, 3]

    ret, gradients = cm.execute_with_gradients(f, {"w": w})
    assert type(gradients) is cm.Container and list(gradients) == ["0", "1_b"] and type(gradients["0"]) is dict
    close(gradients["0"]["w"], 2 * W)
    close(gradients["1_b"]["w"], np.ones(3))
    assert ret[1]["note"] == "text" and ret[2] == 3 and type(ret[2]) is int
    close(ret[1]["b"], W.sum())
    _, gradients = cm.execute_with_gradients(lambda x: (cm.sum(x), cm.sum(x * x)), w)
    close(gradients["0"], np.ones(3))
    close(gradients["1"], 2 * W)
    _, gradients = cm.execute_with_gradients(lambda x: {"a": cm.sum(x), "b": cm.sum(x)}, w)
    assert list(gradients) == ["a", "b"]


def test_a_single_result_in_a_pytree_needs_no_key(backend):
    for pack in (lambda y: (y, 1), lambda y: {"loss": y, "note": None}, lambda y: [[y]]):
        ret, gradient = cm.execute_with_gradients(lambda x, pack=pack: pack(cm.sum(x * x)), cm.asarray(W))
        close(gradient, 2 * W)
        assert type(ret) is type(pack(1))
    # A count beside the loss is not differentiated.
    (_, count), gradient = cm.execute_with_gradients(lambda x: (cm.sum(x * x), cm.sum(x > 0)), cm.asarray(W))
    assert int(count) == 2
    close(gradient, 2 * W)


def test_results_that_are_chosen(backend):
    f = lambda x: (cm.sum(x), x * 2, {"k": cm.sum(x**3)})  # noqa: E731
    x = cm.asarray(W)
    ret, gradients = cm.execute_with_gradients(f, x, ret_grad_idxs=[[0], [2, "k"]])
    assert list(gradients) == ["0", "2_k"] and ret[1].shape == (3,)
    close(gradients["2_k"], 3 * W**2)
    _, gradients = cm.execute_with_gradients(f, x, ret_grad_idxs=[[2]])
    assert list(gradients) == ["2_k"]
    # What older programs say for an array alone.
    close(cm.execute_with_gradients(lambda x: cm.sum(x), x, xs_grad_idxs=[[0]], ret_grad_idxs=[[0]])[1], np.ones(3))
    with pytest.raises(cm.ArgumentError, match=r"execute_with_gradients: there is nothing at index \[5\]"):
        cm.execute_with_gradients(f, x, ret_grad_idxs=[[5]])


def test_inputs_that_are_chosen(backend):
    a, b = cm.asarray(W), cm.asarray(W) + 1
    xs = [a, {"w": b, "n": cm.asarray([1, 2, 3])}, "text"]

    def f(v):
        # What is not chosen comes as it is.
        assert v[2] == "text" and cm.isdtype(v[1]["n"].dtype, "integral")
        return cm.sum(v[0] * v[1]["w"] * v[1]["n"])

    _, gradient = cm.execute_with_gradients(f, xs, xs_grad_idxs=[[0]])
    close(gradient, (W + 1) * [1, 2, 3])
    _, gradients = cm.execute_with_gradients(f, xs, xs_grad_idxs=[[0], [1, "w"]])
    assert len(gradients) == 2 and list(gradients[1]) == ["w"]
    close(gradients[1]["w"], W * [1, 2, 3])
    _, gradients = cm.execute_with_gradients(
        lambda v: cm.sum(v[0] * v[1]["w"] * v[1]["n"]), xs, xs_grad_idxs=[[-2]]
    )
    assert list(gradients) == ["w", "n"]
    close(gradients["n"], W * (W + 1))
    with pytest.raises(cm.ArgumentError, match=r"nothing at index \[1, 'x'\]"):
        cm.execute_with_gradients(f, xs, xs_grad_idxs=[[1, "x"]])


def test_integers_are_made_floats_and_masks_stay(backend):
    seen = []

    def f(v):
        seen.append((v["n"].dtype.name, v["mask"].dtype.name))
        return cm.sum(cm.where(v["mask"], v["n"] ** 2, 0.0))

    _, gradients = cm.execute_with_gradients(f, {"n": cm.asarray([1, 2, 3]), "mask": cm.asarray([True, False, True])})
    assert seen == [("float32", "bool")] and list(gradients) == ["n"] and gradients["n"].dtype == "float32"
    close(gradients["n"], [2, 0, 6])


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    w: object
    name: str = "layer"


def test_the_structure_of_gradients(backend):
    w = cm.asarray(W)
    _, g = cm.execute_with_gradients(lambda v: cm.sum(v[0][0] ** 2), [(w,), {}, 0])
    assert type(g) is list and len(g) == 1
    close(g[0], 2 * W)
    _, g = cm.execute_with_gradients(lambda v: cm.sum(v[0] ** 2), [w])
    close(g, 2 * W)
    _, g = cm.execute_with_gradients(lambda v: cm.sum(v[0] * v[1]), (w, w + 1))
    assert type(g) is list and len(g) == 2
    tree = {"p": Point(w, None), "l": [Layer(w + 1)], "none": None, "empty": {"k": "text"}, "unused": w + 2}
    _, g = cm.execute_with_gradients(lambda v: cm.sum(v["p"].x * v["l"][0].w), tree)
    assert list(g) == ["p", "l", "unused"] and type(g["l"][0]) is Layer and g["l"][0].name == "layer"
    close(g["p"][0], W + 1)
    close(g["l"][0].w, W)
    close(g["unused"], np.zeros(3))


def test_nothing_to_differentiate(backend):
    ret, g = cm.execute_with_gradients(lambda v: (v["a"], 2), {"a": "text", "b": 1.0})
    assert ret == ("text", 2) and type(g) is cm.Container and len(g) == 0
    ret, g = cm.execute_with_gradients(lambda v: 3.0, cm.asarray(W))
    assert ret == 3.0 and type(g) is cm.Container and len(g) == 0
    value, g = cm.execute_with_gradients(lambda v: cm.asarray(3.0), cm.asarray(W))
    close(value, 3)
    close(g, np.zeros(3))


def test_what_is_not_finite_becomes_zero(backend):
    _, g = cm.execute_with_gradients(lambda x: cm.sum(cm.sqrt(x)), cm.asarray([0.0, 4.0]))
    close(g, [0, 0.25])
    _, g = cm.execute_with_gradients(lambda x: cm.sum(cm.log(x) * 0), cm.asarray([0.0, 1.0]))
    close(g, [0, 0])
    # Others do not clean.
    assert not np.isfinite(cm.grad(lambda x: cm.sum(cm.sqrt(x)))(cm.asarray([0.0, 4.0])).tolist()[0])


def test_differentiable_again_if_asked(backend):
    x = cm.asarray(W)

    def outer(x, retain_grads):
        value, g = cm.execute_with_gradients(lambda y: cm.sum(y**3), x, retain_grads=retain_grads)
        return value + cm.sum(g * g)

    close(cm.grad(lambda x: outer(x, True))(x), 3 * W**2 + 36 * W**3)
    close(cm.grad(lambda x: outer(x, False))(x), np.zeros(3))
    # Also with itself outside.
    _, g = cm.execute_with_gradients(lambda x: outer(x, True), x)
    close(g, 3 * W**2 + 36 * W**3)
    # An outer variable in the inner function.
    _, g = cm.execute_with_gradients(
        lambda x: cm.sum(cm.execute_with_gradients(lambda y: cm.sum(y * y * x), x, retain_grads=True)[1]), x
    )
    close(g, 4 * W)


def test_refusals(backend):
    x = cm.asarray(W)
    with pytest.raises(cm.ShapeError, match=r"execute_with_gradients: the result has the shape \(3,\), but one"):
        cm.execute_with_gradients(lambda x: x * 2, x)
    with pytest.raises(cm.ShapeError, match=r"the result at \['a', 0\] has the shape \(3,\)"):
        cm.execute_with_gradients(lambda x: {"a": [x * 2], "b": cm.sum(x)}, x)
    with pytest.raises(cm.DTypeError, match="the result is int.*, not a real float"):
        cm.execute_with_gradients(lambda x: cm.argmax(x), x)
    with pytest.raises(TypeError):
        cm.execute_with_gradients(lambda x: cm.sum(x))
    with pytest.raises(TypeError):
        cm.execute_with_gradients(lambda x: cm.sum(x), x, True)
    close(cm.execute_with_gradients(lambda x: cm.sum(x, keepdims=True), x)[1], np.ones(3))

    class Mine(Exception):
        pass

    def raises(x):
        raise Mine("as it is")

    with pytest.raises(Mine, match="as it is"):
        cm.execute_with_gradients(raises, x)


def test_a_framework_s_arrays(framework, make_raw):
    x, n = make_raw(framework, W), make_raw(framework, [1, 2, 3], "int32")
    data = make_raw(framework, X)

    def f(v):
        return cm.sum((data @ v["w"]) ** 2) + cm.sum(v["n"] * v["w"])

    want = 2 * X.T @ (X @ W) + [1, 2, 3]
    for retain_grads in (True, False):
        value, g = cm.execute_with_gradients(f, {"w": x, "n": n}, retain_grads=retain_grads)
        assert type(value) is type(g["w"]) is type(g["n"]) is type(x)
        close(g["w"], want, 1e-5)
        close(g["n"], W)


def test_the_framework_differentiates_what_is_retained():
    import jax
    import tensorflow as tf
    import torch

    def f(x, retain_grads=True):
        return cm.execute_with_gradients(lambda y: cm.sum(y**3), x, retain_grads=retain_grads)

    x = torch.tensor(W, requires_grad=True)
    value, g = f(x)
    close(torch.autograd.grad((g * g).sum() + value, x)[0], 36 * W**3 + 3 * W**2)
    value, g = f(x, False)
    assert not value.requires_grad and not g.requires_grad
    with jax.enable_x64(True):
        got = jax.grad(lambda x: (f(x)[1] ** 2).sum())(jax.numpy.asarray(W))
    close(got, 36 * W**3)
    v = tf.Variable(W)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(f(v)[1] ** 2)
    close(tape.gradient(y, v), 36 * W**3)


@pytest.fixture
def empty_stack():
    before = list(cm.with_grads_stack)
    cm.with_grads_stack.clear()
    yield
    cm.with_grads_stack[:] = before


@pytest.mark.parametrize("g", [True, False])
def test_the_switch(backend, empty_stack, g):
    stack = cm.with_grads_stack
    assert cm.with_grads() is True and stack == []
    assert cm.with_grads(with_grads=g) is g and stack == []
    assert cm.set_with_grads(g) is None
    assert cm.with_grads(with_grads=None) is g and cm.with_grads(with_grads=not g) is not g
    cm.set_with_grads(with_grads=not g)
    kept = list(cm.with_grads_stack)
    assert cm.unset_with_grads() is None
    assert kept[0:-1] == cm.with_grads_stack and cm.with_grads() is g
    cm.unset_with_grads()
    assert cm.unset_with_grads() is None and cm.with_grads_stack is stack == []
    with cm.GradientTracking(g):
        assert cm.with_grads() is g
        with pytest.raises(ZeroDivisionError), cm.GradientTracking(not g):
            assert cm.with_grads() is not g
            1 / 0
        assert cm.with_grads() is g
    assert stack == []


def test_the_switch_takes_true_and_false_only(backend, empty_stack):
    for wrong in (1, 0, "True", None, np.bool_(True), []):
        with pytest.raises(cm.ArgumentError, match="with_grads: True or False was expected"):
            cm.set_with_grads(wrong)
        with pytest.raises(cm.ArgumentError, match="with_grads"):
            cm.GradientTracking(wrong)
        if wrong is not None:
            with pytest.raises(cm.ArgumentError, match="with_grads"):
                cm.with_grads(with_grads=wrong)
    with pytest.raises(TypeError):
        cm.with_grads(True)
    assert cm.with_grads_stack == []


@pytest.mark.parametrize("preserve_type", [True, False])
def test_stop_gradient(backend, preserve_type):
    x = cm.asarray(W)
    stop = lambda x: cm.stop_gradient(x, preserve_type=preserve_type)  # noqa: E731
    close(stop(x), W)
    close(cm.grad(lambda x: cm.sum(stop(x) * x))(x), W)
    close(cm.jac(lambda x: stop(x) * x)(x), np.diag(W))
    tree = stop({"a": x, "b": [x]})
    assert type(tree) is dict and type(tree["b"]) is list
    close(cm.Container(a=x).stop_gradient(preserve_type=preserve_type).a, W)
    close(x.stop_gradient(), W)
    out = cm.zeros(3)
    assert cm.stop_gradient(x, out=out) is out
    close(out, W)
    with pytest.raises(TypeError):
        cm.stop_gradient(x, preserve_type)


def test_stop_gradient_and_variables_of_frameworks():
    import tensorflow as tf
    import torch

    x = torch.tensor(W, requires_grad=True)
    for v in (x, x * 2):
        stopped = cm.stop_gradient(v)
        assert stopped.requires_grad and stopped.is_leaf and stopped.grad_fn is None
        assert not cm.stop_gradient(v, preserve_type=False).requires_grad
        assert torch.autograd.grad((cm.stop_gradient(v) * x).sum(), x)[0].tolist() == v.tolist()
    assert not cm.stop_gradient(x.detach()).requires_grad
    got = torch.func.grad(lambda x: (cm.stop_gradient(x) * x).sum())(torch.tensor(W))
    close(got, W)
    v = tf.Variable(W)
    assert isinstance(cm.stop_gradient(v), tf.Variable) and cm.stop_gradient(v) is not v
    assert not isinstance(cm.stop_gradient(v, preserve_type=False), tf.Variable)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(cm.stop_gradient(v) * v)
    close(tape.gradient(y, v), W)


@pytest.mark.parametrize("x", [X, X.T])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_rows_of_grad(backend, x, dtype):
    rows = [
        (lambda x: cm.mean(cm.square(x)), np.mean(x**2), 2 * x / x.size),
        (lambda x: cm.mean(cm.cos(x)), np.mean(np.cos(x)), -np.sin(x) / x.size),
    ]
    t = cm.asarray(x, dtype=dtype)
    for f, value, gradient in rows:
        got = cm.value_and_grad(f)(t)
        close(got[0], value)
        for g in (got[1], cm.grad(f)(t), cm.jac(f)(t)):
            assert g.dtype == dtype and g.shape == x.shape and g.backend == backend
            close(g, gradient, 1e-5)
    close(cm.jac(lambda x: x * x)(t), np.einsum("ij,ik,jl->ijkl", 2 * x, np.eye(len(x)), np.eye(x.shape[1])))


def test_chains_and_several_arguments(backend):
    x, y = cm.asarray(0.7), cm.asarray(-1.3)
    close(cm.grad(cm.grad(cm.grad(cm.sin)))(x), -np.cos(0.7))
    f = lambda x, y: x**3 * y**2  # noqa: E731
    close(cm.grad(cm.grad(f, 0), 1)(x, y), 3 * 0.7**2 * 2 * -1.3)
    _, gy = cm.grad(f, argnums=(0, 1))(x, y)
    close(gy, 0.7**3 * 2 * -1.3)
    value, gradients = cm.value_and_grad(f, argnums=[1, 0])(x, y)
    assert type(gradients) is tuple
    close(gradients[0], gy.tolist())
    close(value, 0.7**3 * 1.3**2)
    nested = cm.jac(cm.jac(f, (0, 1)), (0, 1))(x, y)
    close(nested[0][1], 3 * 0.7**2 * 2 * -1.3)
    close(nested[1][1], 2 * 0.7**3)
    out = cm.jac(lambda a, b: {"p": a["k"] * b, "s": b}, (0, 1))({"k": x}, y)
    assert type(out["p"]) is tuple and type(out["p"][0]) is dict
    close(out["p"][0]["k"], -1.3)
    close(out["s"][0]["k"], 0)


def test_integers_have_no_gradient(backend):
    for transform in (cm.grad, cm.value_and_grad, cm.jac):
        with pytest.raises(cm.DTypeError, match="i(32|64)"):
            transform(lambda x: cm.sum(x) * 1.0)(cm.asarray([1, 2]))
        with pytest.raises(cm.DTypeError, match="`w`.*i(32|64)"):
            transform(lambda t: cm.sum(t["w"]) * 1.0)({"w": cm.asarray([1, 2])})
    # Beside the argument that counts they are welcome.
    close(cm.grad(lambda x, n: cm.sum(x * n))(cm.asarray(W), cm.asarray([1, 2, 3])), [1, 2, 3])


def test_other_libraries_cannot_take_the_value_for_a_constant(backend):
    def f(x):
        with pytest.raises(cm.TraceError, match="other libraries do not see"):
            np.asarray(x)
        assert x.numpy().shape == (3,)
        return cm.sum(x)

    close(cm.grad(f)(cm.asarray(W)), np.ones(3))


def test_a_framework_s_array_on_the_left(framework, make_raw):
    left, x = make_raw(framework, W), make_raw(framework, W + 3)
    matrix = make_raw(framework, X)
    close(cm.grad(lambda x: cm.sum(left + x))(x), np.ones(3))
    close(cm.grad(lambda x: cm.sum(left - x))(x), -np.ones(3))
    close(cm.grad(lambda x: cm.sum(left * x))(x), W)
    close(cm.grad(lambda x: cm.sum(left / x))(x), -W / (W + 3) ** 2)
    close(cm.grad(lambda x: cm.sum(matrix @ x))(x), X.sum(0))
