"""`bind_custom_gradient_function`: on every backend, and as the frameworks' own autodiff sees it."""

import clematis as cm
import numpy as np
import pytest

X = np.array([[0.6, 0.1, 1.0], [0.8, 1.3, 0.2]])


def close(got, want, rtol=1e-6):
    np.testing.assert_allclose(np.asarray(cm.asarray(got).tolist()), want, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("x", [X, X.T])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_row(backend, x, dtype):
    inner = [(lambda x: x**2, x**2), (cm.cos, np.cos(x))]
    rules = [(lambda pair, up: up * pair[0], lambda x, y: x), (lambda pair, up: up * pair[1], lambda x, y: y)]
    for f, y in inner:
        for rule, want in rules:
            bound = cm.bind_custom_gradient_function(f, rule)
            value, g = cm.execute_with_gradients(lambda x, f=bound: cm.mean(cm.exp(f(x))), cm.asarray(x, dtype=dtype))
            assert g.dtype == dtype and g.backend == backend
            close(value, np.mean(np.exp(y)))
            close(g, np.exp(y) / x.size * want(x, y), 1e-5)
            close(cm.grad(lambda x, f=bound: cm.mean(cm.exp(f(x))))(cm.asarray(x, dtype=dtype)), g.tolist())


def test_a_framework_s_arrays(framework, make_raw):
    seen = []

    def rule(pair, up):
        seen.append([type(part) for part in (*pair, up)])
        return up * pair[0] * 10

    bound = cm.bind_custom_gradient_function(lambda x: cm.exp(x), rule)
    x = make_raw(framework, X)
    assert type(bound(x)) is type(x)
    close(bound(x), np.exp(X))
    g = cm.grad(lambda x: cm.sum(bound(x)))(x)
    assert type(g) is type(x)
    close(g, 10 * X)
    # The rule gets tensors, whatever came in, and may return either kind.
    assert seen == [[cm.Tensor] * 3]
    native = cm.bind_custom_gradient_function(lambda x: cm.exp(x), lambda pair, up: (up * pair[0] * 10).native)
    close(cm.execute_with_gradients(lambda x: cm.sum(native(x)), x)[1], 10 * X)


def several():
    """Two inputs, one of them a dict, and two outputs."""

    def forward(a, b):
        return a * b["k"], cm.sum(a)

    def rule(pair, ups):
        (a, _), (product, total) = pair
        assert product.shape == a.shape and total.shape == ()
        return ups[0] * 2 + ups[1] * 3, {"k": ups[0] * a * 5}

    return cm.bind_custom_gradient_function(forward, rule)


def test_several_inputs_and_outputs(backend):
    f = several()
    a, b = cm.asarray(X), {"k": cm.asarray(X + 1)}
    product, total = f(a, b)
    close(product, X * (X + 1))
    close(total, X.sum())

    def loss(a, b):
        product, total = f(a, b)
        return cm.sum(product) * 7 + total

    ga, gb = cm.grad(loss, (0, 1))(a, b)
    close(ga, np.full(X.shape, 17))
    close(gb["k"], 35 * X)
    # One output alone: nothing flows into the other.
    close(cm.grad(lambda a: f(a, b)[1])(a), np.full(X.shape, 3))


def test_second_order_differentiates_the_rule(backend):
    f = cm.bind_custom_gradient_function(lambda x: cm.sin(x), lambda pair, up: up * pair[0] ** 3)
    x = cm.asarray(X)
    second = cm.grad(lambda x: cm.sum(cm.grad(lambda x: cm.sum(f(x)))(x)))(x)
    close(second, 3 * X**2)
    # Through the output: its derivative is the rule's.
    g = cm.bind_custom_gradient_function(lambda x: cm.exp(x), lambda pair, up: up * pair[1] * 2)
    second = cm.grad(lambda x: cm.sum(cm.grad(lambda x: cm.sum(g(x)))(x)))(x)
    close(second, 4 * np.exp(X), 1e-5)


def test_wrong_rules(backend):
    x = cm.asarray(X)

    def gradient(rule, f=lambda x: x * x, args=(x,)):
        bound = cm.bind_custom_gradient_function(f, rule)
        return cm.grad(lambda *args: cm.sum(bound(*args)))(*args)

    with pytest.raises(cm.ShapeError, match=r"the rule gives f32\[3,2\] for an input of f(32|64)\[2,3\]"):
        gradient(lambda pair, up: cm.ones((3, 2)))
    with pytest.raises(cm.ShapeError, match="the rule gives"):
        gradient(lambda pair, up: cm.sum(up))
    with pytest.raises(cm.ArgumentError, match="1 gradients for 2 arguments"):
        gradient(lambda pair, up: (up,), lambda a, b: a * b, (x, x))
    with pytest.raises(cm.ArgumentError, match="2 gradients for the 1 tensors of argument 0"):
        gradient(lambda pair, up: [up, up])
    with pytest.raises(cm.DTypeError, match="a function was expected, not int"):
        cm.bind_custom_gradient_function(lambda x: x, 3)
    with pytest.raises(ZeroDivisionError):
        gradient(lambda pair, up: 1 / 0)
    # None and a plain number are gradients, too.
    close(gradient(lambda pair, up: None), np.zeros(X.shape))
    close(gradient(lambda pair, up: 4.0), np.full(X.shape, 4))


def hundred():
    """The exponential with a hundred times its derivative."""
    return cm.bind_custom_gradient_function(lambda x: cm.exp(x), lambda pair, up: up * pair[1] * 100)


ONCE, TWICE = 100 * np.exp(X), 10000 * np.exp(X)


def test_torch_sees_the_rule():
    import torch
    f = hundred()
    x = torch.tensor(X, requires_grad=True)
    y = f(x)
    assert type(y) is torch.Tensor and y.requires_grad
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    close(g, ONCE)
    close(torch.autograd.grad(g.sum(), x)[0], TWICE)
    f(x).sum().backward()
    close(x.grad, ONCE)
    assert not f(x.detach()).requires_grad
    with torch.no_grad():
        assert not f(x).requires_grad
    # Through tensors, and through our own derivative.
    close(torch.autograd.grad(cm.sum(f(cm.asarray(x))).native, x)[0], ONCE)
    close(torch.autograd.grad(cm.grad(lambda x: cm.sum(f(x)))(x).sum(), x)[0], TWICE)
    plain = torch.tensor(X)
    close(torch.func.grad(lambda x: f(x).sum())(plain), ONCE)
    close(torch.func.vmap(torch.func.grad(lambda x: f(x)))(plain.flatten()), ONCE.flatten())
    close(torch.func.jacrev(lambda x: f(x).sum(0))(plain).sum((0, 1)), ONCE.sum(0))


def test_jax_sees_the_rule():
    import jax
    f = hundred()
    x = jax.numpy.asarray(X, dtype="float32")
    loss = lambda x: f(x).sum()  # noqa: E731
    close(jax.grad(loss)(x), ONCE, 1e-5)
    close(jax.jit(jax.grad(loss))(x), ONCE, 1e-5)
    close(jax.grad(lambda x: jax.grad(loss)(x).sum())(x), TWICE, 1e-5)
    close(jax.vmap(jax.grad(lambda x: f(x)))(x.flatten()), ONCE.flatten(), 1e-5)
    close(jax.grad(lambda x: cm.sum(f(cm.asarray(x))).native)(x), ONCE, 1e-5)
    close(jax.grad(lambda x: cm.grad(lambda x: cm.sum(f(x)))(x).sum())(x), TWICE, 1e-5)
    with jax.enable_x64(True):
        wide = jax.numpy.asarray(X, dtype="float64")
        got = jax.grad(loss)(wide)
    assert got.dtype == "float64"
    close(got, ONCE, 1e-12)


def test_tensorflow_sees_the_rule():
    import tensorflow as tf
    f = hundred()

    def twice(x):
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(f(x))
            g = inner.gradient(y, x)
            total = tf.reduce_sum(g)
        return g, outer.gradient(total, x)

    for call in (twice, tf.function(twice)):
        first, second = call(tf.constant(X))
        close(first, ONCE)
        close(second, TWICE)
    v = tf.Variable(X)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(f(v))
    close(tape.gradient(y, v), ONCE)
    with tf.GradientTape() as tape:
        y = cm.sum(f(cm.asarray(v))).native
    close(tape.gradient(y, v), ONCE)
    # A variable that the function finds by itself is no argument of the rule.
    scale = tf.Variable(2.0, dtype=tf.float64)
    closed = cm.bind_custom_gradient_function(lambda x: x * scale, lambda pair, up: up * 7)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(closed(v))
    close(tape.gradient(y, v), np.full(X.shape, 7))


def pull_back(framework, f, x):
    """The framework's own gradient of the sum of a function's floating results."""
    if framework == "torch":
        import torch

        x = x.requires_grad_()
        return torch.autograd.grad(f(x), x)[0]
    if framework == "jax":
        import jax

        with jax.enable_x64(True):
            return jax.grad(f)(x)
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_frameworks_see_several_inputs_outputs_integers_and_numbers(framework, make_raw):
    def forward(a, n, scale, same):
        return a * scale, n, a

    def rule(pair, ups):
        (_, n, *_), (_, whole, _) = pair
        assert whole.tolist() == n.tolist() and isinstance(ups, tuple) and len(ups) == 3
        return ups[0] * 3 + ups[2] * 5, None, None, None

    f = cm.bind_custom_gradient_function(forward, rule)
    n = make_raw(framework, [1, 2], "int32")

    def loss(x):
        product, whole, again = f(x, n, 2.0, x)
        assert type(whole) is type(n) or framework == "jax"
        return cm.sum(product) + cm.sum(again)

    close(pull_back(framework, loss, make_raw(framework, X, "float64")), np.full(X.shape, 8))


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_frameworks_see_complex_rules(framework, make_raw):
    z = np.array([1 + 2j, -0.5 + 0.25j])
    f = cm.bind_custom_gradient_function(lambda x: x * x * 1j, lambda pair, up: up * pair[0] * 2j)
    loss = lambda y: cm.sum(cm.abs(y) ** 2 + cm.real(y))  # noqa: E731
    x = make_raw(framework, z, "complex128")
    want = pull_back(framework, lambda x: loss(x * x * 1j), x)
    close(pull_back(framework, lambda x: loss(f(x)), x), np.asarray(cm.asarray(want).tolist()))


@pytest.mark.parametrize("framework", ["torch", "jax", "tensorflow"])
def test_frameworks_hear_of_wrong_rules(framework, make_raw):
    wrong = cm.bind_custom_gradient_function(lambda x: x * x, lambda pair, up: cm.ones(3))
    with pytest.raises(cm.ShapeError, match=r"the rule gives f32\[3\] for an input of f64\[2,3\]"):
        pull_back(framework, lambda x: cm.sum(wrong(x)), make_raw(framework, X, "float64"))
    raising = cm.bind_custom_gradient_function(lambda x: x * x, lambda pair, up: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pull_back(framework, lambda x: cm.sum(raising(x)), make_raw(framework, X, "float64"))


def test_forward_may_decide_by_values(backend):
    def forward(x):
        return x * 2 if float(cm.sum(x)) > 0 else x

    f = cm.bind_custom_gradient_function(forward, lambda pair, up: up * 9)
    close(cm.grad(lambda x: cm.sum(f(x)))(cm.asarray(X)), np.full(X.shape, 9))
