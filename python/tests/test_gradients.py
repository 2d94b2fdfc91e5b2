"""Derivatives of Python functions on every backend."""

import dataclasses
from collections import namedtuple

import clematis as cm
import numpy as np
import pytest


def close(got, want, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(np.asarray(got.tolist()), np.asarray(want), rtol=rtol, atol=atol)


W = np.array([[0.5, -1.0], [2.0, 0.25], [-0.5, 1.0]], np.float32)
X = np.array([[1.0, 2.0, 3.0], [0.5, -1.0, 0.0]], np.float32)


def test_grad_and_value(backend):
    w, x = cm.asarray(W), cm.asarray(X)

    def loss(w):
        return cm.mean((x @ w - 1) ** 2)

    value, gradient = cm.value_and_grad(loss)(w)
    assert value.backend == gradient.backend == backend
    close(value, np.mean((X @ W - 1) ** 2))
    close(gradient, X.T @ (X @ W - 1) * 2 / 4)
    close(cm.grad(loss)(w), gradient.tolist())
    assert cm.grad(loss).__wrapped__ is loss


def test_argnums(backend):
    a, b = cm.asarray([1.0, 2.0]), cm.asarray([3.0, 4.0])

    def f(a, b, scale=1.0):
        return cm.sum(a * b * b) * scale

    close(cm.grad(f)(a, b), [9, 16])
    close(cm.grad(f, 1)(a, b), [6, 16])
    close(cm.grad(f, argnums=-1)(a, b), [6, 16])
    ga, gb = cm.grad(f, (0, 1))(a, b, scale=2.0)
    close(ga, [18, 32])
    close(gb, [12, 32])
    with pytest.raises(cm.ArgumentError, match="argument 2 of 2"):
        cm.grad(f, 2)(a, b)


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    w: object
    b: object
    name: str = "layer"


def test_pytrees_in_pytrees_out(backend):
    point = Point(cm.asarray(1.0), cm.asarray(2.0))
    tree = {"p": point, "l": [Layer(cm.asarray([1.0, 2.0]), None)], "k": (cm.asarray(3.0),)}

    def f(t):
        return t["p"].x * t["p"].y + cm.sum(t["l"][0].w ** 2) + t["k"][0] ** 3

    g = cm.grad(f)(tree)
    assert isinstance(g["p"], Point) and isinstance(g["l"][0], Layer)
    assert g["l"][0].name == "layer" and g["l"][0].b is None
    close(g["p"].x, 2)
    close(g["l"][0].w, [2, 4])
    close(g["k"][0], 27)


def test_aux(backend):
    x = cm.asarray([1.0, 2.0])

    def f(x):
        y = cm.exp(x)
        return cm.sum(y), {"y": y, "n": 3}

    g, aux = cm.grad(f, has_aux=True)(x)
    close(g, np.exp([1, 2]))
    close(aux["y"], np.exp([1, 2]))
    (value, aux), g = cm.value_and_grad(f, has_aux=True)(x)
    close(value, np.exp([1, 2]).sum())
    assert aux["y"].backend == backend
    close(aux["y"] + 1, np.exp([1, 2]) + 1)
    with pytest.raises(cm.ArgumentError, match="has_aux"):
        cm.grad(lambda x: cm.sum(x), has_aux=True)(x)


def test_second_and_third_derivatives(backend):
    f = lambda x: cm.sum(x**4)  # noqa: E731
    x = cm.asarray([1.0, -2.0])
    close(cm.grad(lambda x: cm.sum(cm.grad(f)(x)))(x), [12, 48])
    close(cm.grad(lambda x: cm.sum(cm.grad(lambda x: cm.sum(cm.grad(f)(x)))(x)))(x), [24, -48])
    h = cm.hessian(lambda x: x[0] ** 2 * x[1] ** 3)(x)
    close(h, [[2 * -8, 2 * 3 * 4], [2 * 3 * 4, 6 * -2]])
    # The outer variable inside the inner derivative.
    close(cm.grad(lambda x: cm.sum(cm.grad(lambda y: cm.sum(y * y * x))(x)))(x), [4, -8])


def test_jacobians(backend):
    x = cm.asarray([0.5, 1.0, 2.0])
    f = lambda x: cm.stack([cm.sum(x * x), x[0] * x[2]])  # noqa: E731
    want = [[1, 2, 4], [2, 0, 0.5]]
    for mode in (None, "forward", "reverse"):
        close(cm.jac(f, mode=mode)(x), want)
    tree = cm.jac(lambda t: {"s": t["a"] * 2, "p": t["a"] * t["b"]})({"a": x[:2], "b": cm.asarray(3.0)})
    close(tree["s"]["a"], [[2, 0], [0, 2]])
    close(tree["s"]["b"], [0, 0])
    close(tree["p"]["b"], [0.5, 1])
    ja, jb = cm.jac(lambda a, b: a * b, (0, 1))(x, x)
    close(ja, np.diag([0.5, 1, 2]))
    with pytest.raises(cm.ArgumentError, match="mode"):
        cm.jac(f, mode="sideways")


def test_vjp_jvp_linearize(backend):
    x, y = cm.asarray([1.0, 2.0]), cm.asarray([3.0, 4.0])
    f = lambda x, y: {"m": x * y, "s": cm.sin(x)}  # noqa: E731
    out, pull = cm.vjp(f, x, y)
    close(out["m"], [3, 8])
    gx, gy = pull({"m": cm.ones(2), "s": cm.zeros(2)})
    close(gx, [3, 4])
    close(gy, [1, 2])
    gx, _ = pull({"m": cm.zeros(2), "s": cm.ones(2)})
    close(gx, np.cos([1, 2]))
    out, change = cm.jvp(f, (x, y), (cm.ones(2), cm.zeros(2)))
    close(change["m"], [3, 4])
    out, push = cm.linearize(f, x, y)
    close(push(cm.zeros(2), cm.ones(2))["m"], [1, 2])
    close(push(cm.ones(2), cm.zeros(2))["s"], np.cos([1, 2]))
    with pytest.raises(cm.ShapeError, match=r"vjp: got a cotangent of f32\[3\] for an output of f32\[2\]"):
        pull({"m": cm.ones(3), "s": cm.zeros(2)})
    with pytest.raises(cm.ArgumentError, match="jvp: got 1 tangents for 2 inputs"):
        push(cm.ones(2))


def test_a_framework_s_arrays_in_and_out(framework, make_raw):
    x = make_raw(framework, [1.0, 2.0])
    f = lambda v: cm.sum(v**3)  # noqa: E731
    value, gradient = cm.value_and_grad(f)(x)
    out, pull = cm.vjp(f, x)
    for got in (value, gradient, cm.jac(lambda v: v * v)(x), cm.hessian(f)(x), out, pull(value)[0]):
        assert type(got).__module__.split(".")[0].removesuffix("lib") == framework
    close(cm.asarray(gradient), [3, 12])


def test_python_decides_by_values(backend):
    def f(x):
        total = cm.sum(x)
        while total < 10:
            total = total * 2
        return total if total > 0 else -total

    close(cm.grad(f)(cm.asarray([1.0, 1.0])), [8, 8])


def test_custom_rules(backend):
    seen = []

    def back(pair, upstream):
        x, y = pair
        seen.append((x.shape, y.shape, upstream.shape))
        return upstream * y * 100

    f = cm.custom_vjp(lambda x: cm.exp(x), back)
    x = cm.asarray([0.5, 1.0])
    close(f(x), np.exp([0.5, 1.0]))
    close(cm.grad(lambda x: cm.sum(f(x) * 2))(x), 200 * np.exp([0.5, 1.0]))
    assert seen == [((2,), (2,), (2,))]
    # Second order differentiates the rule: y is exp(x) with the rule's own derivative again.
    second = cm.grad(lambda x: cm.sum(cm.grad(lambda x: cm.sum(f(x)))(x)))(x)
    close(second, 10000 * np.exp([0.5, 1.0]), rtol=1e-4)


def test_custom_rules_of_several(backend):
    def forward(a, b):
        return {"s": a + b["k"], "p": a * b["k"]}

    def back(pair, up):
        (a, b), out = pair
        assert set(out) == {"s", "p"} and set(b) == {"k"}
        return up["s"] + up["p"] * 7, {"k": up["s"] * 0}

    f = cm.custom_vjp(forward, back)
    a, b = cm.asarray([1.0, 2.0]), {"k": cm.asarray([3.0, 4.0])}
    out = f(a, b)
    close(out["p"], [3, 8])
    ga, gb = cm.grad(lambda a, b: cm.sum(f(a, b)["s"] + f(a, b)["p"]), (0, 1))(a, b)
    close(ga, [8, 8])
    close(gb["k"], [0, 0])
    none = cm.custom_vjp(lambda a, b: a * b, lambda pair, up: (None, up))
    ga, gb = cm.grad(lambda a, b: cm.sum(none(a, b)), (0, 1))(a, a)
    close(ga, [0, 0])
    close(gb, [1, 1])
    scanned = cm.scan(lambda c, x: (c + cm.sum(none(x, x)), None), cm.asarray(0.0), cm.reshape(a, (2, 1)))[0]
    close(scanned, 5)


def test_custom_rules_that_do_not_fit(backend):
    x = cm.asarray([1.0, 2.0])
    wrong = cm.custom_vjp(lambda x: x * x, lambda pair, up: cm.ones(3))
    with pytest.raises(cm.ShapeError, match=r"custom_vjp: the rule gives f32\[3\] for an input of f32\[2\]"):
        cm.grad(lambda x: cm.sum(wrong(x)))(x)
    few = cm.custom_vjp(lambda a, b: a * b, lambda pair, up: (up,))
    with pytest.raises(cm.ArgumentError, match="1 gradients for 2 arguments"):
        cm.grad(lambda x: cm.sum(few(x, x)))(x)
    with pytest.raises(cm.DTypeError, match="a function was expected"):
        cm.custom_vjp(3, 4)
    raising = cm.custom_vjp(lambda x: x * x, lambda pair, up: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        cm.grad(lambda x: cm.sum(raising(x)))(x)


def test_refusals(backend):
    x = cm.asarray([1.0, 2.0])
    with pytest.raises(cm.DTypeError, match="grad: expected floats or complex numbers to differentiate, .* is i32"):
        cm.grad(lambda x: cm.sum(x))(cm.asarray([1, 2]))
    with pytest.raises(cm.ShapeError, match=r"grad: expected a result of one element, got f32\[2\]"):
        cm.grad(lambda x: x * 2)(x)
    with pytest.raises(cm.DTypeError, match=r"grad: expected a real float result, got .*"):
        cm.grad(lambda x: cm.sum(x > 0))(x)
    with pytest.raises(TypeError):
        cm.grad(3)
    with pytest.raises(cm.ClematisError):
        cm.grad(lambda x: None)(x)

    class Mine(Exception):
        pass

    def raises(x):
        raise Mine("as it is")

    for f in (cm.grad(raises), cm.jac(raises), cm.hessian(raises), lambda x: cm.vjp(raises, x)):
        with pytest.raises(Mine, match="as it is"):
            f(x)


def test_constants_and_unused_inputs(backend):
    x = cm.asarray([1.0, 2.0])
    close(cm.grad(lambda x: cm.sum(cm.stop_gradient(x) * x))(x), [1, 2])
    close(cm.grad(lambda x, y: cm.sum(x), 1)(x, x), [0, 0])
    close(cm.grad(lambda x: cm.sum(cm.zeros(2)))(x), [0, 0])


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_gradients_keep_the_element_type(backend, dtype):
    x = cm.asarray([1.0, 2.0], dtype=dtype)
    g = cm.grad(lambda x: cm.sum(x * x * 0.5))(x)
    assert g.dtype == dtype
    close(g, [1, 2])


def test_gradients_through_indexing_and_assignment(backend):
    x = cm.asarray([1.0, 2.0, 3.0])
    close(cm.grad(lambda x: cm.sum(x[[0, 0, 2]] ** 2))(x), [4, 0, 6])

    def f(x):
        y = x * 2
        y[1] = 5.0
        y += x
        return cm.sum(y * y)

    close(cm.grad(f)(x), [18, 14, 54])
