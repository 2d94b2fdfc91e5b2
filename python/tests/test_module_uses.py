"""What modules are used with: copies, gradients, trees, state, modes, moving, threads."""

import copy
import dataclasses
import functools
import pickle
import threading

import clematis as cm
import numpy as np
import pytest


class Net(cm.Module):
    def __init__(self, n=3, m=2, **options):
        self.first = cm.nn.Linear(n, 4)
        self.second = cm.nn.Linear(4, m)
        super().__init__(**options)

    def __call__(self, x):
        return self.second(cm.tanh(self.first(x)))


class Tied(cm.Module):
    """The same matrix in two layers."""

    def __init__(self):
        w = cm.ones((3, 3))
        self.a = cm.nn.Linear(3, 3, v={"w": w, "b": cm.zeros((3,))})
        self.b = cm.nn.Linear(3, 3, v={"w": w, "b": cm.zeros((3,))})

    def __call__(self, x):
        return self.b(self.a(x))


X = [[0.5, -1.0, 2.0]]


def numbers(x):
    return np.asarray(cm.asarray(x).numpy(), dtype=np.float64)


def same(a, b):
    return np.array_equal(numbers(a), numbers(b))


def test_copies(backend):
    net, x = Net(), cm.asarray(X)
    net.eval()
    net.freeze("first/b")
    for other in (copy.deepcopy(net), copy.copy(net), pickle.loads(pickle.dumps(net))):
        assert same(other(x), net(x)) and other.v.identical(net.v) and not other.training
        assert other.parameters().paths() == net.parameters().paths()
    deep, shallow = copy.deepcopy(net), copy.copy(net)
    assert shallow.first is net.first and deep.first is not net.first and deep.first.top_mod() is deep
    deep.v = deep.v * 0
    assert not same(deep(x), net(x))


def test_gradients_switched_off(backend):
    net, x = Net(), cm.asarray(X)

    def grads(**words):
        _, found = cm.execute_with_gradients(lambda v: cm.sum(net(x, v=v, **words)), net.v)
        return [float(cm.sum(cm.abs(g))) > 0 for _, g in found._entries()]

    assert all(grads()) and not any(grads(with_grads=False)) and all(grads(with_grads=True))
    with cm.GradientTracking(False):
        assert not any(grads()) and all(grads(with_grads=True))
    assert cm.with_grads_stack == []
    with pytest.raises(cm.ArgumentError):
        net(x, with_grads=1)
    net.freeze("first")
    assert grads() == [False, False, True, True]
    assert net.parameters().paths() == ["second/w", "second/b"]
    assert cm.tree.paths(net) == ["second.w", "second.b"]
    found = cm.grad(lambda net: cm.sum(net(x)))(net)
    assert found.parameters().paths() == ["second/w", "second/b"] and same(found.first.w, net.first.w)
    net.unfreeze("first/w")
    assert net.parameters().paths() == ["first/w", "second/w", "second/b"]
    net.second.freeze("b")
    assert net.parameters().paths() == ["first/w", "second/w"] and grads() == [True, False, True, False]
    net.unfreeze()
    assert all(grads())
    with pytest.raises(cm.StructureError, match="nowhere"):
        net.freeze("nowhere")


def test_modules_are_trees(backend):
    net, x = Net(), cm.asarray(X)
    assert cm.tree.paths(net) == ["first.w", "first.b", "second.w", "second.b"]
    loss, grads = cm.value_and_grad(lambda net: cm.mean(net(x) ** 2))(net)
    new = cm.tree.map(lambda p, g: p - 0.1 * g, net, grads)
    assert isinstance(new, Net) and float(cm.mean(new(x) ** 2)) < float(loss)
    assert new.first.top_mod() is new and net.first.top_mod() is net and new.v.first is new.first.v
    pair = cm.grad(lambda nets: cm.sum(nets["a"](x)) + cm.sum(nets["b"](x)))({"a": net, "b": Net()})
    assert isinstance(pair["a"], Net)
    tied = cm.grad(lambda net: cm.sum(net(x)))(Tied())
    assert tied.v.paths() == ["a/w", "a/b", "b/b"] and tied.b.v.w is tied.a.v.w


def test_any_class_may_be_a_tree(backend):
    class Pair:
        def __init__(self, left, right):
            self.left, self.right = left, right

        def __tree_flatten__(self):
            return {"left": self.left, "right": [self.right]}

        def __tree_unflatten__(self, inside):
            return Pair(inside["left"], inside["right"][0])

    pair = Pair(cm.asarray([1.0, 2.0]), cm.asarray([3.0]))
    assert cm.tree.paths([pair]) == ["0.left", "0.right.0"]
    grads = cm.grad(lambda pair: cm.sum(pair.left**2) * cm.sum(pair.right))(pair)
    assert isinstance(grads, Pair) and same(grads.left, [6.0, 12.0]) and same(grads.right, [5.0])
    assert same(cm.tree.map(lambda x, y: x + y, pair, grads).left, [7.0, 14.0])
    assert cm.tree.leaves(Pair) == []


def test_state_is_not_trained(backend):
    class Counts(cm.Module):
        def __init__(self):
            self.w = cm.ones((3,))
            self.mean = cm.State(cm.zeros((3,)))

        def __call__(self, x):
            y = x * self.w
            self.mean.value = 0.5 * self.mean.value + 0.5 * y[0]
            self.seen = y
            return y

    net, x = Counts(), cm.asarray(X)
    assert net.v.paths() == ["w"] and net.buffers().paths() == ["mean"]
    cm.grad(lambda net: cm.sum(net(x) ** 2))(net)
    assert same(net.mean.value * 2, X[0])
    cm.execute_with_gradients(lambda v: cm.sum(net(x, v=v)), net.v)
    assert (
        same(net.mean.value * 4, np.multiply(3, X[0])) and net.v.paths() == ["w"] and net.mean.value.backend == backend
    )
    net.mean = cm.zeros((3,))
    assert isinstance(net.mean, cm.State) and same(net.buffers().mean, [0.0] * 3)


def test_training_mode(backend):
    net = cm.nn.Sequential(cm.nn.Linear(3, 100), cm.tanh, cm.nn.Dropout(0.5))
    x = cm.asarray(X)
    assert net.v.paths() == ["submodules/v0/w", "submodules/v0/b"]
    assert float(cm.sum(cm.astype(net(x) == 0, cm.float32))) > 20
    net.eval()
    assert same(net(x), net(x)) and not net[2].training and net(x).shape == (1, 100)
    net.train()
    cm.seed(3)
    first = net(x)
    cm.seed(3)
    assert same(first, net(x)) and not same(first, net(x))
    names = []
    net.apply(lambda m: names.append(type(m).__name__))
    assert names == ["Dropout", "Linear", "Sequential"]


def test_a_key_decides(backend):
    one, two = (cm.nn.Linear(3, 4, key=cm.random.key(7)) for _ in range(2))
    assert same(one.v.w, two.v.w) and not same(one.v.w, cm.nn.Linear(3, 4, key=cm.random.key(8)).v.w)
    bound = (6 / 7) ** 0.5
    assert np.abs(numbers(one.v.w)).max() <= bound and same(one.v.b, [0.0] * 4)
    assert cm.nn.Linear(3, 4, with_bias=False).v.paths() == ["w"]
    assert cm.nn.Linear(3, 4, dtype=cm.float64).v.w.dtype == cm.float64
    with pytest.raises(cm.ArgumentError):
        cm.nn.Linear(0, 4)


def test_moving(backend):
    with cm.backend("native"):
        net = Net()
        net.mean = cm.State(cm.ones((2,)))
        net.steps = cm.asarray([1, 2])
        tied = Tied()
    want = numbers(net(cm.asarray(X).to("native")))
    inner = net.v.first
    assert net.to(backend) is net and net.v.first is inner
    assert {x.backend for _, x in [*net.v._entries(), *net.buffers()._entries()]} == {backend}
    np.testing.assert_allclose(numbers(net(cm.asarray(X))), want, rtol=1e-5)
    tied.to(backend)
    assert tied.a.v.w is tied.b.v.w and tied.b.v.w.backend == backend


def test_wrong_values(backend):
    net = Net()
    other = "numpy" if backend == "native" else "native"
    with pytest.raises(cm.BackendError, match="first/w"):
        net.v = net.v.map(lambda x: x.to(other))
    with pytest.raises(cm.StructureError, match="first/w"):
        net.v = net.v.map(lambda x: cm.ones((1,)))
    with pytest.raises(cm.StructureError, match="first/extra"):
        net(cm.asarray(X), v={"first": {"extra": cm.ones((1,))}})
    with pytest.raises(cm.StructureError, match="int"):
        net.v = 3
    with pytest.raises(NotImplementedError):
        cm.Module()(1)

    class Named(cm.Module):
        def __init__(self):
            self.v = cm.nn.Linear(2, 2)

    with pytest.raises(cm.StructureError, match="another name"):
        Named()
    with pytest.raises(AttributeError, match="nothing"):
        net.nothing  # noqa: B018


def test_calls_in_threads_do_not_meet(backend):
    net, x = Net(), cm.asarray(X)
    want = [numbers(net(x, v=net.v * k)) for k in range(4)]
    wrong = []

    def work(k):
        for _ in range(10):
            if not np.array_equal(numbers(net(x, v=net.v * k)), want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_defaults_of_the_class_and_dataclasses(backend):
    class WithDefault(cm.Module):
        w = None

        def __init__(self, w):
            self.w = w

        def __call__(self, x):
            return x if self.w is None else x * self.w

    x = cm.asarray(X)
    full, empty = WithDefault(cm.ones((3,)) * 2), WithDefault(None)
    assert full.v.paths() == ["w"] and same(full(x), 2 * numbers(x)) and empty(x) is x and WithDefault.w is None
    assert same(full(x, v={"w": cm.zeros((3,))}), [[0.0] * 3])

    @dataclasses.dataclass
    class Data(cm.Module):
        layer: cm.Module
        scale: object = 1.0

        def __call__(self, x):
            return self.layer(x) * self.scale

    net = Data(cm.nn.Linear(3, 2), cm.ones((2,)))
    assert net.v.paths() == ["layer/w", "layer/b", "scale"] and net(x).shape == (1, 2)
    assert cm.grad(lambda net: cm.sum(net(x)))(net).scale.shape == (2,)


def test_text(backend, capsys):
    net = Net()
    net.show_structure()
    assert "first: Linear(w float32[4, 3], b float32[4])" in capsys.readouterr().out
    net.first.show_v_in_top_v()
    assert "* first/w" in capsys.readouterr().out
    net.first.show_mod_in_top_mod()
    assert "second: Linear" in capsys.readouterr().out
    assert len(net.first.mod_with_top_mod_key_chain()) == 2 and "first" in dir(net)


def test_no_values_while_a_compiler_traces(backend):
    if backend == "jax":
        import jax as compiler

        compiled, array = compiler.jit, compiler.numpy.asarray
    elif backend == "tensorflow":
        import tensorflow as compiler

        # Its rewriter makes other exceptions of ours.
        compiled, array = functools.partial(compiler.function, autograph=False), compiler.constant
        net = Net()
        assert compiler.function(net)(array(np.float32(X))).shape == (1, 2)
    else:
        return
    net, x = Net(), array(np.float32(X))
    assert np.allclose(compiled(lambda x: net(x))(x), net(x), rtol=1e-5)
    with pytest.raises(cm.TraceError):
        compiled(lambda x: net(x, track_submod_rets=True))(x)
    with pytest.raises(cm.TraceError):
        compiled(lambda v: net(x, v=v, track_submod_call_order=True))(net.v.map(lambda t: t.native).to_dict())
