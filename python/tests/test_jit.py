"""`cm.jit` on every backend."""

import gc
import warnings
from dataclasses import dataclass

import clematis as cm
import numpy as np
import pytest


def close(a, b, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(
        np.asarray(cm.asarray(a).numpy()), np.asarray(cm.asarray(b).numpy()), rtol=rtol, atol=atol
    )


def test_jit_equals_the_function(backend):
    calls = []

    @cm.jit
    def f(x, y):
        calls.append(1)
        return cm.sum(cm.tanh(x @ y) * 2 + 1), {"x": x - 1}

    x, y = cm.ones((3, 4)) * 0.3, cm.ones((4, 2)) * 0.2
    for _ in range(4):
        total, rest = f(x, y)
        close(total, np.sum(np.tanh(np.full((3, 4), 0.3) @ np.full((4, 2), 0.2)) * 2 + 1))
        close(rest["x"], np.full((3, 4), -0.7))
        assert total.backend == backend and rest["x"].backend == backend
    assert len(calls) == 1
    f(cm.ones((2, 4)), y)
    assert len(calls) == 2


def test_framework_arrays_in_framework_arrays_out(framework, make_raw):
    f = cm.jit(lambda x: (cm.exp(x), x + 1))
    x = make_raw(framework, [1.0, 2.0])
    for _ in range(4):
        y, z = f(x)
        assert type(y) is type(x) and type(z) is type(x)
        close(y, np.exp([1.0, 2.0]))


def test_jit_composes_with_grad(backend):
    def f(x):
        return cm.sum(cm.sin(x) * x)

    x = cm.asarray([0.1, -0.7, 2.0])
    want = cm.grad(f)(x)
    close(cm.grad(cm.jit(f))(x), want)
    close(cm.jit(cm.grad(f))(x), want)
    close(cm.jit(cm.grad(cm.jit(f)))(x), want)
    close(cm.jit(lambda x: cm.jit(f)(x) * 2)(x), f(x) * 2)
    close(cm.jit(cm.hessian(f))(x), cm.hessian(f)(x), atol=1e-5)


def test_control_flow_is_compiled(backend):
    @cm.jit
    def f(x):
        y = cm.cond(cm.sum(x) > 1, lambda x: x * 2, lambda x: x - 1, x)
        c, ys = cm.scan(lambda c, _: (c * 1.5, c), y, None, length=3)
        return cm.while_loop(lambda c: cm.sum(c) < 50, lambda c: c + 10.0, c), ys

    def plain(x):
        y = x * 2 if x.sum() > 1 else x - 1
        ys = []
        for _ in range(3):
            ys.append(y)
            y = y * 1.5
        while y.sum() < 50:
            y = y + 10
        return y, np.stack(ys)

    for values in ([0.1, 0.2], [3.0, 4.0]):
        got, want = f(cm.asarray(values)), plain(np.array(values, np.float32))
        close(got[0], want[0])
        close(got[1], want[1])
    assert f.compilations == 1


def test_static_arguments(backend):
    seen = []

    def f(x, n, mode="sum"):
        seen.append((n, mode))
        return cm.sum(x[:n]) if mode == "sum" else cm.max(x[:n])

    x = cm.asarray([1.0, 5.0, 2.0])
    jitted = cm.jit(f, static_argnums=1, static_argnames="mode")
    close(jitted(x, 2), 6)
    close(jitted(x, 2, mode="max"), 5)
    close(jitted(x, n=2), 6)
    close(jitted(x, 2), 6)
    assert len(seen) == 3
    with pytest.raises(cm.errors.ArgumentError, match="hashed"):
        jitted(x, [2])


def test_python_numbers_are_part_of_the_cache_key():
    f = cm.jit(lambda x, a: x * a)
    half = cm.asarray([1.0], dtype=cm.float16)
    assert f(half, 2.0).dtype == cm.float16
    close(f(half, 3.0), 3.0)
    close(f(half, True), 1.0)
    close(f(half, 1), 1.0)


def test_pytree_arguments_and_results(backend):
    @dataclass
    class Pair:
        a: object
        b: object

    @cm.jit
    def f(pair, rest, *, scale):
        return Pair(pair.a * scale["s"], pair.b), [rest[0], (rest[1]["w"] + 1, "word", None)]

    x = cm.asarray([1.0, 2.0])
    out, rest = f(Pair(x, 3), [x, {"w": x}], scale={"s": x})
    close(out.a, [1.0, 4.0])
    assert out.b == 3 and rest[1][1:] == ("word", None)
    close(rest[1][0], [2.0, 3.0])


def test_random_draws_equal_eager_draws(backend):
    @cm.jit
    def f(x):
        return x + cm.random_uniform(shape=(4,)), cm.dropout(cm.ones((8,)), 0.5)

    def draw():
        cm.seed(5)
        return [f(cm.zeros((4,))) for _ in range(2)]

    first, second = draw(), draw()
    cm.seed(5)
    eager = [f.__wrapped__(cm.zeros((4,))) for _ in range(2)]
    for a, b, c in zip(first, second, eager, strict=True):
        for x, y, z in zip(a, b, c, strict=True):
            assert np.array_equal(x.numpy(), y.numpy()) and np.array_equal(x.numpy(), z.numpy())
    assert not np.array_equal(first[0][0].numpy(), first[1][0].numpy())


def test_random_keys_are_arguments(backend):
    f = cm.jit(lambda key, x: (x + cm.random.normal(key, (3,)), key.split()[0]))
    x = cm.zeros((3,))
    for seed in range(3):
        key = cm.random.key(seed)
        y, next_key = f(key, x)
        close(y, cm.random.normal(key, (3,)))
        assert next_key == key.split()[0]
    assert f.compilations == 1


class Net(cm.Module):
    def __init__(self, key):
        first, second = key.split()
        self.hidden = cm.nn.Linear(4, 8, key=first)
        self.norm = cm.nn.BatchNorm(8)
        self.out = cm.nn.Linear(8, 1, key=second)

    def __call__(self, x):
        # The bias before a batch norm has a gradient of rounding errors only, which Adam would scale up.
        return self.out(self.norm(cm.relu(self.hidden(x))))


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 4)).astype(np.float32)
    return cm.asarray(x), cm.asarray(x @ np.array([[1.0], [-2.0], [0.5], [3.0]], np.float32))


def train(net, optimizer, jitted, steps, source):
    def loss(net, x, y):
        return cm.mean((net(x) - y) ** 2)

    def step(net, optimizer, x, y):
        value, grads = cm.value_and_grad(loss)(net, x, y)
        optimizer.step(net, grads)
        return value

    def closed(x, y):
        return step(net, optimizer, x, y)

    def by_container(v, x, y):
        value, grads = cm.value_and_grad(lambda v: cm.mean((net(x, v=v) - y) ** 2))(v)
        optimizer.step(v, grads)
        return value

    x, y = data()
    losses = []
    run = {"arguments": step, "closure": closed, "container": by_container}[source]
    run = cm.jit(run) if jitted else run
    for _ in range(steps):
        given = {"arguments": (net, optimizer), "closure": (), "container": (net.v,)}[source]
        losses.append(float(run(*given, x, y)))
    return losses, run


@pytest.mark.parametrize("source", ["arguments", "closure", "container"])
@pytest.mark.parametrize("rule", ["Adam", "SGD"])
def test_a_jitted_training_step_equals_an_eager_one(backend, rule, source):
    def made():
        net = Net(cm.random.key(1))
        schedule = cm.optim.schedules.Cosine(0.05, 20)
        return net, cm.optim.Adam(schedule) if rule == "Adam" else cm.optim.SGD(0.02, momentum=0.9)

    plain, own = made(), made()
    want, _ = train(*plain, False, 6, source)
    got, run = train(*own, True, 6, source)
    close(got, want, rtol=2e-4)
    assert run.compilations == 1 and got[-1] < got[0]
    assert own[1].steps == plain[1].steps == 6
    for path, x in plain[0].v._entries():
        close(own[0].v[path], x, rtol=1e-3, atol=1e-4)
    for path, x in plain[0].buffers()._entries():
        close(own[0].buffers()[path], x, rtol=1e-3, atol=1e-4)


def test_train_and_eval_mode_are_separate_programs(backend):
    net = Net(cm.random.key(0))
    x, _ = data()
    f = cm.jit(lambda x: net(x))
    net.eval()
    before = f(x)
    close(before, net(x))
    net.train()
    f(x)
    assert f.compilations == 2
    net.eval()
    assert not np.allclose(f(x).numpy(), before.numpy())
    close(f(x), net(x))
    assert f.compilations == 2


def test_replaced_parameters_are_read(backend):
    net = cm.nn.Linear(4, 2, key=cm.random.key(0))
    x = cm.ones((3, 4))
    f = cm.jit(net)
    close(f(x), net(x))
    net.v = net.v * 3
    close(f(x), net(x))
    net.v.b = cm.ones((2,))
    close(f(x), net(x))
    assert f.compilations == 1


def test_methods(backend):
    class Model:
        def __init__(self):
            self.scale = 3.0

        @cm.jit
        def run(self, x):
            return x * self.scale

    class Own(cm.Module):
        def __init__(self):
            self.w = cm.asarray([2.0])

        @cm.jit
        def __call__(self, x):
            return x * self.w

    x = cm.asarray([1.0, 2.0])
    close(Model().run(x), [3.0, 6.0])
    close(cm.jit(Model().run.__wrapped__ if hasattr(Model().run, "__wrapped__") else Model().run)(x), [3.0, 6.0])
    own = Own()
    close(own(x), [2.0, 4.0])
    own.w = cm.asarray([5.0])
    close(own(x), [5.0, 10.0])


def test_modules_built_on_call(backend):
    net = cm.nn.Linear(4, 2, key=cm.random.key(0), build_mode="on_call")
    f = cm.jit(lambda x: net(x))
    x = cm.ones((1, 4))
    first = f(x)
    close(f(x), first)
    assert f.compilations == 1


def test_in_place_updates_of_arguments():
    @cm.jit
    def f(x, box):
        x += 1
        box["a"] = box["a"] * 2
        return cm.sum(x)

    x, box = cm.asarray([1.0, 2.0]), {"a": cm.asarray([3.0])}
    for n in range(1, 4):
        f(x, box)
        close(x, [1.0 + n, 2.0 + n])
        close(box["a"], [3.0 * 2**n])


# Errors.


def test_reading_a_tracer_raises_with_the_line():
    def f(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(cm.errors.TraceError) as caught:
        cm.jit(f)(cm.asarray(1.0))
    notes = " ".join(caught.value.__notes__)
    assert "test_jit.py" in notes and "static_argnums" in notes and "cm.cond" in notes


def test_leaked_tracers_are_reported():
    leaked = []

    def leaks(x):
        leaked.append(x * 2)
        return x

    cm.jit(leaks)(cm.asarray(1.0))
    with pytest.raises(cm.errors.TraceError, match="leaks .*outlived|outlived .*leaks"):
        leaked[0] + 1
    with pytest.raises(cm.errors.TraceError, match="outlived .*leaks"):
        float(leaked[0])


def test_unsupported_side_effects():
    class Keeps(cm.Module):
        def __init__(self):
            self.w = cm.asarray([1.0])

        def __call__(self, x):
            self.last = x * self.w
            return self.last

    x = cm.asarray([1.0])
    net = Keeps()
    with pytest.raises(cm.errors.TraceError, match="`last`.*cm.State"):
        cm.jit(net)(x)
    net(x)

    def adds(box):
        box["new"] = box["a"]

    with pytest.raises(cm.errors.TraceError, match="`new` was added"):
        cm.jit(adds)({"a": x})
    with pytest.raises(cm.errors.TraceError, match="seed"):
        cm.jit(lambda x: cm.seed(0))(x)
    with pytest.raises(cm.errors.TraceError, match="track"):
        cm.jit(lambda x: cm.nn.Sequential(cm.nn.Identity())(x, track_submod_rets=True))(x)


def test_an_error_while_tracing_restores_state(backend):
    net = Net(cm.random.key(0))
    optimizer = cm.optim.Adam(0.1)
    x, y = data()

    def step(x, y):
        value, grads = cm.value_and_grad(lambda net: cm.mean((net(x) - y) ** 2))(net)
        optimizer.step(net, grads)
        raise KeyError("mine")

    before = net.v.copy(), net.buffers().copy()
    with pytest.raises(KeyError, match="mine"):
        cm.jit(step)(x, y)
    assert optimizer.steps == 0
    for was, now in zip(before, (net.v, net.buffers()), strict=True):
        for path, value in was._entries():
            assert now[path] is value
    close(net(x), net(x))


def test_recompilation_warns():
    f = cm.jit(lambda x: x + 1, limit=10)
    with pytest.warns(
        RuntimeWarning, match=r"compiled 8 times, the last for x: float32\[8\] after float32\[7\].*drop_last"
    ):
        for n in range(1, 9):
            f(cm.zeros((n,)))
    with pytest.warns(RuntimeWarning, match="has 10 programs"):
        for n in range(9, 13):
            f(cm.zeros((n,)))
    g = cm.jit(lambda x, a: x * a)
    with pytest.warns(RuntimeWarning, match=r"cm.asarray\(x\)"):
        for n in range(9):
            g(cm.zeros((2,)), float(n))


def test_cache_size_is_limited(backend):
    f = cm.jit(lambda x: cm.sum(x * 2), limit=4, compiler=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in range(1, 40):
            close(f(cm.ones((n,))), 2 * n)
    gc.collect()
    assert sum(map(len, f._programs.values())) == 4 and f.evictions == 35


# Inside traces of frameworks.


def test_inside_jax():
    import jax

    f = cm.jit(lambda x: cm.sum(cm.sin(x) * x))
    x = jax.numpy.asarray([0.1, 0.2])
    np.testing.assert_allclose(jax.jit(f)(x), f(x), rtol=1e-6)
    np.testing.assert_allclose(jax.grad(f)(x), cm.grad(f)(x), rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(f)(x[None]), [f(x)], rtol=1e-6)


def test_inside_torch():
    import torch

    f = cm.jit(lambda x: cm.sum(cm.sin(x) * x))
    x = torch.tensor([0.1, 0.2], requires_grad=True)
    for _ in range(4):
        x.grad = None
        f(x).backward()
        np.testing.assert_allclose(x.grad, np.sin([0.1, 0.2]) + np.array([0.1, 0.2]) * np.cos([0.1, 0.2]), rtol=1e-5)
    np.testing.assert_allclose(torch.func.grad(f)(x.detach()), x.grad, rtol=1e-6)
    np.testing.assert_allclose(torch.func.vmap(f)(x.detach()[None])[0], f(x.detach()), rtol=1e-6)


def test_inside_tensorflow():
    import tensorflow as tf

    f = cm.jit(lambda x: cm.sum(cm.sin(x) * x))
    x = tf.constant([0.1, 0.2])
    np.testing.assert_allclose(tf.function(f)(x), f(x), rtol=1e-6)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    np.testing.assert_allclose(tape.gradient(y, x), cm.grad(f)(x), rtol=1e-6)


def test_unknown_static_argument():
    with pytest.raises(cm.ArgumentError, match="static_argnames: no argument is named `m`.*'x', 'n'"):
        cm.jit(lambda x, n: x * n, static_argnames="m")
    assert cm.jit(lambda x, **more: x, static_argnames="m")(cm.ones((2,)), m=3).shape == (2,)
