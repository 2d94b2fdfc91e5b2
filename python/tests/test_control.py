"""Branches and loops over pytrees, with and without derivatives."""

import clematis as cm
import numpy as np
import pytest


def close(got, want, rtol=1e-5):
    np.testing.assert_allclose(np.asarray(got.tolist()), np.asarray(want), rtol=rtol, atol=1e-6)


def test_cond_takes_one_way(backend):
    x = cm.asarray([1.0, 2.0])
    ran = []
    out = cm.cond(cm.sum(x) > 2, lambda a: (ran.append("yes"), a * 2)[1], lambda a: (ran.append("no"), -a)[1], x)
    close(out, [2, 4])
    assert ran == ["yes"] and out.backend == backend
    close(cm.cond(False, lambda a: a * 2, lambda a: -a, x), [-1, -2])
    tree = cm.cond(True, lambda a, b: {"s": a + b["k"], "t": (a,)}, lambda a, b: {"s": a, "t": (a,)}, x, {"k": x})
    close(tree["s"], [2, 4])
    assert isinstance(tree["t"], tuple)


def test_cond_inside_a_loop_is_decided_at_each_step(backend):
    def body(carry, x):
        y = cm.cond(x > 0, lambda v: v * 10, lambda v: v - 1, x)
        return carry + y, y

    total, ys = cm.scan(body, cm.asarray(0.0), cm.asarray([1.0, -1.0, 2.0]))
    close(ys, [10, -2, 20])
    close(total, 28)


def test_switch(backend):
    ways = [lambda a: a + 1, lambda a: a * 10, lambda a: -a]
    x = cm.asarray([1.0, 2.0])
    for index, want in [(0, [2, 3]), (1, [10, 20]), (2, [-1, -2]), (7, [-1, -2]), (-3, [2, 3])]:
        close(cm.switch(index, ways, x), want)
        close(cm.switch(cm.asarray(index), ways, x), want)
    ys = cm.map(lambda i: cm.switch(i, ways, cm.asarray(3.0)), cm.asarray([0, 1, 2, 5]))
    close(ys, [4, 30, -3, -3])


def test_while_loop(backend):
    start = {"n": cm.asarray(0), "x": cm.asarray([1.0, 3.0])}
    out = cm.while_loop(lambda c: c["n"] < 5, lambda c: {"n": c["n"] + 1, "x": c["x"] * 2}, start)
    assert out["n"].item() == 5
    close(out["x"], [32, 96])
    assert out["x"].backend == backend
    # Newton's square root, with a tensor found outside.
    a = cm.asarray(2.0)
    root = cm.while_loop(lambda x: cm.abs(x * x - a) > 1e-5, lambda x: (x + a / x) / 2, cm.asarray(1.0))
    close(root, 2**0.5)


def test_scan_over_pytrees(backend):
    xs = {"a": cm.asarray([1.0, 2.0, 3.0]), "b": cm.asarray([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])}

    def body(carry, x):
        carry = {"sum": carry["sum"] + x["a"], "last": x["b"]}
        return carry, (carry["sum"] * 2, x["b"] + 1)

    start = {"sum": cm.asarray(0.0), "last": cm.zeros(2)}
    last, (doubled, more) = cm.scan(body, start, xs)
    close(last["sum"], 6)
    close(last["last"], [1, 1])
    close(doubled, [2, 6, 12])
    assert more.shape == (3, 2)
    last, (doubled, _) = cm.scan(body, start, xs, reverse=True)
    close(doubled, [12, 10, 6])
    close(last["last"], [1, 0])
    n, none = cm.scan(lambda c, _: (c + 1, None), cm.asarray(0), length=4)
    assert n.item() == 4 and none is None
    empty, ys = cm.scan(lambda c, x: (c + x, x), cm.asarray(1.0), cm.zeros((0,)))
    assert empty.item() == 1 and ys.shape == (0,)


def test_map(backend):
    xs = cm.asarray([[1.0, 2.0], [3.0, 4.0]])
    close(cm.map(lambda row: cm.sum(row * row), xs), [5, 25])
    out = cm.map(lambda t: {"y": t[0] + t[1]}, (xs, xs))
    close(out["y"], [[2, 4], [6, 8]])


def test_a_framework_s_arrays_in_and_out(framework, make_raw):
    x = make_raw(framework, [1.0, 2.0, 3.0])
    last, ys = cm.scan(lambda c, v: (c + v, c * v), make_raw(framework, 0.0), x)
    assert type(ys).__module__.split(".")[0].removesuffix("lib") == framework
    assert not isinstance(last, cm.Tensor)
    close(cm.asarray(ys), [0, 2, 9])
    assert not isinstance(cm.map(lambda v: v * 2, x), cm.Tensor)
    assert not isinstance(cm.cond(True, lambda v: v * 2, lambda v: v, x), cm.Tensor)
    assert not isinstance(cm.while_loop(lambda v: cm.sum(v) < 100, lambda v: v * 2, x), cm.Tensor)


def test_gradients_through_control_flow(backend):
    w = cm.asarray([0.5, 1.5])
    xs = cm.asarray([[1.0, 2.0], [3.0, 4.0], [0.5, -1.0]])

    def rnn(w):
        def body(h, x):
            h = cm.tanh(h * w + x)
            return h, cm.sum(h)

        h, ys = cm.scan(body, cm.zeros(2), xs)
        return cm.sum(h) + cm.sum(ys)

    def plain(w):
        h, total = cm.zeros(2), 0.0
        for i in range(3):
            h = cm.tanh(h * w + xs[i])
            total = total + cm.sum(h)
        return cm.sum(h) + total

    close(rnn(w), plain(w).item())
    close(cm.grad(rnn)(w), cm.grad(plain)(w).tolist())
    close(cm.hessian(rnn)(w), cm.hessian(plain)(w).tolist(), rtol=1e-3)

    def branchy(w):
        return cm.sum(cm.cond(cm.sum(w) > 0, lambda v: v * v, lambda v: v, w))

    close(cm.grad(branchy)(w), [1, 3])
    close(cm.grad(branchy)(-w), [1, 1])
    mapped = cm.grad(lambda w: cm.sum(cm.map(lambda r: cm.sum(r * w) ** 2, xs)))(w)
    close(mapped, cm.grad(lambda w: cm.sum(cm.matmul(xs, w) ** 2))(w).tolist())

    def branchy_inside(w):
        def body(c, x):
            y = cm.cond(cm.sum(x) > 0, lambda v: cm.sum(v * w), lambda v: cm.sum(v), x)
            return c + y, None

        return cm.scan(body, cm.asarray(0.0), xs)[0]

    close(cm.grad(branchy_inside)(w), [4, 6])

    def fourth_power(v):
        return cm.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * v), (cm.asarray(0), v))[1]

    _, change = cm.jvp(fourth_power, (w,), (cm.ones(2),))
    close(change, (4 * np.array([0.5, 1.5]) ** 3).tolist())


def test_mistakes(backend):
    x = cm.asarray([1.0, 2.0])
    with pytest.raises(cm.ShapeError, match=r"cond: expected a single element, got bool\[2\]"):
        cm.cond(x > 0, lambda v: v, lambda v: v, x)
    with pytest.raises(cm.DTypeError, match=r"cond: expected a bool, got f32"):
        cm.cond(cm.sum(x), lambda v: v, lambda v: v, x)
    with pytest.raises(cm.DTypeError, match=r"switch: expected an integer, got"):
        cm.switch(1.0, [lambda v: v], x)
    with pytest.raises(cm.ArgumentError, match=r"switch: expected at least one branch"):
        cm.switch(1, [], x)
    with pytest.raises(cm.ArgumentError, match=r"scan: expected the body to return a pair"):
        cm.scan(lambda c, v: c, x, x)
    with pytest.raises(cm.ArgumentError, match=r"scan: expected a length"):
        cm.scan(lambda c, v: (c, v), x)
    with pytest.raises(cm.ShapeError, match=r"scan: expected a leading axis to scan over, got f32\[\]"):
        cm.scan(lambda c, v: (c, v), x, cm.asarray(1.0))
    with pytest.raises(cm.ArgumentError, match=r"scan: the body changes the structure of the carry"):
        cm.scan(lambda c, v: ((c, c), v), x, x)
    with pytest.raises(cm.ArgumentError, match=r"while_loop: the body changes the structure"):
        cm.while_loop(lambda c: cm.sum(c) < 3, lambda c: {"a": c}, x)
    with pytest.raises(cm.ClematisError, match=r"while"):
        cm.while_loop(lambda c: cm.sum(c) < 3, lambda c: cm.sum(c), x)
    with pytest.raises(cm.ArgumentError, match=r"cond: branches return different structures"):
        cm.map(lambda v: cm.cond(v > 0, lambda a: (a, a), lambda a: a, v), x)
    with pytest.raises(cm.TraceError, match=r"bool\(x\): bool\[\] has no value while it is traced"):
        cm.map(lambda v: v if v > 0 else -v, x)
    with pytest.raises(ZeroDivisionError):
        cm.map(lambda v: 1 / 0, x)
    with pytest.raises(TypeError):
        cm.scan(x)
