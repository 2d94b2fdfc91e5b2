"""Modules as objects: building, one store, sharing, copies, mistakes. The rows are in `rows/test_modules.py`."""

import copy
import pickle

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


def test_plain_tensors_are_parameters(backend):
    class Scale(cm.Module):
        def __init__(self):
            self.gain = cm.ones((3,))
            self._shift = [cm.zeros((3,)), {"more": cm.ones((3,))}]
            self.pair = (cm.ones((3,)), 2)
            self.steps = cm.asarray([1, 2])
            self.name = "scale"

        def __call__(self, x):
            return x * self.gain + self._shift[0] + self._shift[1]["more"] * self.pair[0] * self.pair[1]

    module, x = Scale(), cm.asarray(X)
    paths = ["gain", "shift/v0", "shift/v1/more", "pair/v0"]
    assert module.v.paths() == paths and module.buffers().paths() == ["steps"]
    loss, grads = cm.execute_with_gradients(lambda v: cm.sum(module(x, v=v)), module.v)
    assert float(loss) == 7.5 and grads.paths() == paths and same(grads.gain, X[0]) and same(grads.pair.v0, [2.0] * 3)
    module.v = module.v * 2
    assert (
        same(module.gain, [2.0] * 3) and same(module._shift[1]["more"], [2.0] * 3) and same(module.pair[0], [2.0] * 3)
    )
    module.gain = cm.zeros((3,))
    assert same(module.v.gain, [0.0] * 3) and float(cm.sum(module(x))) == 24
    module.v.gain = cm.ones((3,))
    assert same(module.gain, [1.0] * 3)
    # A list may be written to, and is filled again when the variables change.
    module._shift[0] = new = cm.ones((3,)) * 5
    assert module.v.shift.v0 is new and same(module(x), numbers(x) + 5 + 2 * 2 * 2)
    assert same(cm.execute_with_gradients(lambda v: cm.sum(module(x, v=v)), module.v)[0], 40.5)
    module.v = module.v * 2
    assert same(module._shift[0], [10.0] * 3) and same(copy.deepcopy(module)._shift[0], [10.0] * 3)


def test_the_store_is_one(backend):
    net = Net()
    v, inner = net.v, net.v.first
    assert inner is net.first.v
    net.first.v = {"w": cm.ones((4, 3)), "b": cm.ones((4,))}
    assert same(net.v.first.w, np.ones((4, 3))) and net.v is v and net.v.first is inner
    net.v = net.v * 3
    assert same(net.first.v.b, [3.0] * 4) and net.first.v is inner
    net.v["first/b"] = cm.zeros((4,))
    assert same(net.first.b, [0.0] * 4)
    net.third = cm.nn.Linear(2, 2)
    assert list(net.v) == ["first", "second", "third"] and net.v is v and net.v.first is inner
    assert net.third.top_mod() is net
    third = net.third
    del net.third
    assert list(net.v) == ["first", "second"] and third.top_mod is None


def test_what_is_appended_later_is_found(backend):
    class Stack(cm.Module):
        def __init__(self):
            self.layers = [cm.nn.Linear(3, 3)]

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    class Outer(cm.Module):
        def __init__(self):
            self.stack = Stack()

        def __call__(self, x):
            return self.stack(x)

    net = Outer()
    assert net.v.paths() == ["stack/layers/v0/w", "stack/layers/v0/b"]
    net.stack.layers.append(cm.nn.Linear(3, 2))
    assert len(net.v.paths()) == 4 and net(cm.asarray(X)).shape == (1, 2)
    net.stack.layers[0] = cm.nn.Linear(3, 3, with_bias=False)
    assert net.v.paths() == ["stack/layers/v0/w", "stack/layers/v1/w", "stack/layers/v1/b"]


def test_shared_variables_stay_shared(backend):
    net, x = Tied(), cm.asarray(X)
    assert net.v.paths() == ["a/w", "a/b", "b/b"]
    net.v["b/b"] = cm.ones((3,))
    assert same(net.b.v.b, [1.0] * 3)
    for change in (
        lambda w: net.v.a.update(w=w),
        lambda w: setattr(net.b, "v", {"w": w, "b": net.b.v.b}),
        lambda w: net.b.v.update(w=w),
        lambda w: setattr(net, "v", {"a": {"w": w, "b": net.v.a.b}, "b": {"b": net.v.b.b}}),
    ):
        new = cm.random_normal(shape=(3, 3))
        change(new)
        assert net.v.a.w is new and net.a.v.w is new and net.b.v.w is new
        want = cm.linear(cm.linear(x, new, bias=net.a.v.b), new, bias=net.b.v.b)
        assert same(net(x), want) and same(net(x, v=net.v), want)
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.v.paths() == net.v.paths() and same(other(x), want)
        other.v = other.v * 0.5
        assert other.a.v.w is other.b.v.w and net.v.a.w is new


def test_a_tensor_of_a_child(backend):
    class Reads(cm.Module):
        def __init__(self):
            self.layer = cm.nn.Linear(3, 3)
            self.again = self.layer.w
            self.list = [self.again, cm.ones((3,))]

        def __call__(self, x):
            return self.layer(x) @ self.again + self.list[1] @ self.list[0]

    cm.random.seed(0)
    net, x = Reads(), cm.asarray(X)
    assert net.v.paths() == ["layer/w", "layer/b", "list/v1"]
    for change in (
        lambda w: setattr(net.layer, "w", w),
        lambda w: setattr(net, "again", w),
        lambda w: net.v.layer.update(w=w),
    ):
        new = cm.random_normal(shape=(3, 3))
        change(new)
        assert net.layer.w is new and net.again is new and net.list[0] is new and net.v.layer.w is new
        w, b = numbers(new), numbers(net.layer.b)
        want = (numbers(x) @ w.T + b) @ w + np.ones(3) @ w
        np.testing.assert_allclose(numbers(net(x)), want, rtol=1e-5)
        np.testing.assert_allclose(numbers(copy.deepcopy(net)(x)), want, rtol=1e-5)
    zeros = net.v * 0
    assert same(net(x, v=zeros), [[0.0] * 3]) and net.list[0] is new
    with pytest.raises(cm.StructureError, match="w"):
        net.layer.w = cm.ones((1,))
    with pytest.raises(cm.StructureError, match="w"):
        net.layer.w = None


def test_sharing_deep_inside(backend):
    class Two(cm.Module):
        def __init__(self):
            self.left, self.right = Tied(), Tied()
            self.right.a.v = {"w": self.left.a.v.w, "b": self.right.a.v.b}

    net = Two()
    assert net.v.paths() == ["left/a/w", "left/a/b", "left/b/b", "right/a/b", "right/b/b"]
    for holder in (net.v.left.a, net.right.b.v, net.left.b.v, net.right.a.v):
        new = cm.random_normal(shape=(3, 3))
        holder["w"] = new
        assert all(m.v.w is new for m in (net.left.a, net.left.b, net.right.a, net.right.b)) and net.v.left.a.w is new
    new = cm.ones((3,))
    net.v["right/b/b"] = new
    assert net.right.b.v.b is new and net.right.v.b.b is new


def test_build_modes(backend):
    class Lazy(cm.Module):
        made = 0

        def _create_variables(self, *, device=None, dtype=None):
            self.made += 1
            return {"w": cm.ones((3,), dtype=dtype or cm.float32)}

        def _forward(self, n, x):
            return x * self.v.w

    class Early(Lazy):
        def __init__(self, **options):
            super().__init__(**options)
            self.late = 1

    now = Early()
    assert now.built_ and now.made == 1 and now.w is now.v.w
    x = cm.asarray(X, dtype=cm.float64)
    on_call = Early(build_mode="on_call")
    assert not on_call.built_ and len(on_call.v) == 0 and len(on_call.build()) == 0
    assert same(on_call(2, x), X) and on_call.built_ and on_call.v.w.dtype == cm.float64 and on_call.made == 1
    explicit = Early(build_mode="explicit")
    with pytest.raises(cm.StructureError, match="build"):
        explicit(2, x)
    assert explicit.build().w is explicit.v.w and same(explicit(2, cm.asarray(X)), X) and explicit.made == 1
    with pytest.raises(cm.ArgumentError, match="sometimes"):
        Early(build_mode="sometimes")
    unstored = Early(store_vars=False, build_mode="explicit")
    v = unstored.build()
    assert v.paths() == ["w"] and len(unstored.v) == 0 and same(unstored(2, cm.asarray(X), v=v), X)
    with pytest.raises(cm.StructureError, match="v="):
        unstored(2, cm.asarray(X))


def test_nothing_is_made_before_it_is_asked_for(backend):
    class Late(cm.Module):
        def __init__(self):
            self.made = 0

        def _create_variables(self, *, device=None, dtype=None):
            self.made += 1
            return {"w": cm.ones((self.size,))}

        def __call__(self, x):
            return x * self.w

    late = Late()
    assert late.made == 0
    late.size = 3
    assert same(late(cm.asarray(X)), X) and late.made == 1 and late.v.paths() == ["w"]


def test_children_that_wait_for_a_call(backend):
    class Outer(cm.Module):
        def __init__(self, **options):
            self.inner = cm.nn.Linear(3, 2, build_mode="on_call")
            self.other = cm.nn.Linear(2, 2)
            super().__init__(**options)

        def _forward(self, x):
            return self.other(self.inner(x))

    net, x = Outer(), cm.asarray(X)
    assert list(net.v) == ["other"] and not net.built_
    assert net(x).shape == (1, 2) and net.built_ and set(net.v) == {"inner", "other"}
    ones = {k: {"w": cm.ones((2, n)), "b": cm.zeros((2,))} for k, n in (("inner", 3), ("other", 2))}
    net = Outer(v=ones)
    assert same(net(x), [[3.0, 3.0]]) and net.inner.v.w is ones["inner"]["w"]
    assert same(Outer()(x, v=ones), [[3.0, 3.0]])


def test_late_layers(backend):
    class Built(cm.Module):
        def _build(self, n):
            self.layer = cm.nn.Linear(n, 2)

        def _forward(self, x):
            return self.layer(x)

    net = Built(3)
    assert net.built_ and net.v.paths() == ["layer/w", "layer/b"] and net(cm.asarray(X)).shape == (1, 2)


def test_failures_leave_nothing_behind(backend):
    class Fails(Net):
        bad = True

        def __call__(self, x):
            y = self.first(x)
            if self.bad:
                raise ValueError("no")
            return self.second(y)

    net, x = Fails(), cm.asarray(X)
    before = net.v.copy()
    zeros = net.v * 0
    with pytest.raises(ValueError, match="^no$"):
        net(x, v=zeros, with_grads=False, track_submod_rets=True, track_submod_call_order=True)
    assert net.v.identical(before, same_arrays=True) and net.first.v is net.v.first
    with pytest.raises(cm.StructureError):
        net.v = {"first": net.v.first * 0, "second": {"w": cm.ones((1,)), "b": net.v.second.b}}
    assert net.v.identical(before, same_arrays=True)
    net.bad = False
    assert not same(net(x), net(x, v=zeros)) and len(net.submod_rets) == 0
    with pytest.raises(cm.ShapeError) as caught:
        net(cm.ones((1, 7)))
    assert any("first" in note for note in caught.value.__notes__)


def test_ways_back_in_the_graph(backend):
    class Part(cm.Module):
        def __init__(self, owner):
            self.owner = owner
            self.layer = cm.nn.Linear(3, 3)

        def __call__(self, x):
            return self.layer(x)

    class Bag:
        pass

    class Owner(cm.Module):
        def __init__(self):
            self.me = self
            self.part = Part(self)
            self.list = [1]
            self.list.append(self.list)
            self.bag = Bag()
            self.bag.bag, self.bag.owner, self.bag._inner = self.bag, self, cm.nn.Linear(3, 3)

        def __call__(self, x):
            return self.bag._inner(self.part(x))

    net, x = Owner(), cm.asarray(X)
    paths = ["part/layer/w", "part/layer/b", "bag/inner/w", "bag/inner/b"]
    assert net.v.paths() == paths and net.part.top_mod() is net and net.mod_height() == 2
    other = copy.deepcopy(net)
    assert other.part.top_mod() is other
    assert other.v.paths() == paths and other.part.owner is other and same(other(x), net(x))
    one, two = Part(None), Part(None)
    one.other, two.other = two, one
    assert len(one.v.paths()) == 4 and two.top_mod() is one and len(two.v.paths()) == 2
    grads = cm.grad(lambda net: cm.sum(net(x)))(net)
    assert grads.v.paths() == paths and grads.part.owner is grads


def test_super_and_own_words(backend):
    class Base(cm.Module):
        def __init__(self):
            self.w = cm.ones((3,))

        def __call__(self, x):
            return x * self.w

    class More(Base):
        def __call__(self, x):
            return super().__call__(x) + 1

    class Attends(cm.Module):
        def __call__(self, q, k, v):
            return q + k + v

    class Outer(cm.Module):
        def __init__(self):
            self.more = More()

        def __call__(self, x):
            return self.more(x)

    net, x = Outer(), cm.asarray(X)
    net(x, track_submod_rets=True)
    assert [len(v) for v in net.submod_rets.values()] == [1]
    assert same(More()(x, v={"w": cm.zeros((3,))}), [[1.0] * 3])
    assert same(Attends()(x, x, v=x), 3 * numbers(x))


def test_names_that_clash(backend):
    class Clash(cm.Module):
        def __init__(self):
            self.w = cm.ones((2,))

        def _create_variables(self, *, device=None, dtype=None):
            return {"w": cm.ones((2,))}

    with pytest.raises(cm.StructureError, match="w"):
        Clash().v  # noqa: B018

    class Both(cm.Module):
        def __init__(self):
            self.w, self._w = cm.ones((2,)), cm.zeros((2,))

    with pytest.raises(cm.StructureError, match="_w"):
        Both()

    class Keys(cm.Module):
        def __init__(self, **more):
            self.table = {"http://example.org": 3, 7: cm.nn.Linear(2, 2), **more}

    assert Keys().v.paths() == ["table/7/w", "table/7/b"]
    with pytest.raises(cm.StructureError, match="a/b"):
        Keys(**{"a/b": cm.ones((2,))})
