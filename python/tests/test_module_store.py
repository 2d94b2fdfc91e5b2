"""Random networks with tensors shared everywhere: whoever changes one, all see it."""

import copy
import pickle
import random

import clematis as cm
import numpy as np
import pytest


class Leaf(cm.Module):
    """Tensors in an attribute, a list, a dict and a tuple."""

    def __init__(self, pool, rng):
        self.w = rng.choice(pool)
        self._list = [rng.choice(pool), {"k": rng.choice(pool)}]
        self.pair = (rng.choice(pool), 1)

    def __call__(self, x):
        return x * self.w + self._list[0] * self._list[1]["k"] + self.pair[0]

    def read(self):
        return {"w": self.w, "list": self._list[0], "dict": self._list[1]["k"], "pair": self.pair[0]}


class Made(cm.Module):
    """Variables of its own making, one of which it also holds."""

    def __init__(self, pool, rng):
        self.given = rng.choice(pool)
        super().__init__()

    def _create_variables(self, *, device=None, dtype=None):
        return {"own": cm.asarray([0.5, 0.25]), "deep": {"given": self.given}}

    def _forward(self, x):
        return x + self.v.own * self.v.deep.given * self.given

    def read(self):
        return {"own": self.own, "deep": self.v.deep.given, "given": self.given}


class Node(cm.Module):
    """Children in a list, one perhaps twice, and perhaps under a name."""

    def __init__(self, pool, rng, depth):
        self.kids = [network(pool, rng, depth - 1) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            self.kids.append(self.kids[0])
        self.extra = rng.choice(pool)
        self.named = network(pool, rng, depth - 1) if rng.random() < 0.5 else None
        if rng.random() < 0.3:
            cm.Module.__init__(self)

    def __call__(self, x):
        for kid in self.kids:
            x = kid(x)
        return (x if self.named is None else self.named(x)) * self.extra

    def read(self):
        return {"extra": self.extra}


def network(pool, rng, depth):
    if depth == 0 or rng.random() < 0.3:
        return rng.choice([Leaf, Made])(pool, rng)
    return Node(pool, rng, depth)


NUMBERS = np.random.default_rng(0)


def some():
    return cm.asarray(NUMBERS.random(2), dtype=cm.float32)


def shared(net):
    """Which attributes of which modules hold the same tensor."""
    groups = {}
    for at, module in enumerate(net.modules()):
        for name, x in module.read().items():
            groups.setdefault(id(x), []).append((at, name))
    return sorted(groups.values())


def holds(net, want):
    arrays = [id(x) for _, x in net.v._entries()]
    assert len(arrays) == len(set(arrays)) == len(want)
    assert shared(net) == want
    for module in net.modules():
        own = [id(x) for _, x in module.v._entries()]
        assert len(own) == len(set(own)) and set(own) <= set(arrays)
    x = cm.asarray([0.5, 0.25])
    assert np.array_equal(net(x).numpy(), net(x, v=net.v).numpy())
    assert np.array_equal(net(x).numpy(), net(x, v=net.v.copy()).numpy())


def changed(net, rng):
    """One change, in one of the ways that there are."""
    module = rng.choice(list(net.modules()))
    leaf = rng.choice([m for m in net.modules() if isinstance(m, Leaf)] or [None])
    match rng.randrange(8):
        case 0:
            net.v = net.v * 0.9
        case 1:
            module.v = module.v * 0.5
        case 2:
            net.v[rng.choice(net.v.paths())] = some()
        case 3:
            module.v[rng.choice(module.v.paths())] = some()
        case 4 if leaf is not None:
            leaf.w = some()
        case 5 if leaf is not None:
            leaf._list[0] = new = some()
            assert any(x is new for _, x in net.v._entries())
        case 6:
            net.v += 0.01
        case _:
            return copied(net, rng)
    return net


def copied(net, rng):
    ways = [copy.deepcopy, lambda n: pickle.loads(pickle.dumps(n)), lambda n: cm.tree.map(lambda x: x * 1, n)]
    new = rng.choice(ways)(net)
    assert new.v.paths() == net.v.paths()
    kept = net.v.copy()
    new.v = new.v * 0.5
    assert net.v.identical(kept, same_arrays=True)
    return new


@pytest.mark.parametrize("seed", range(4))
def test_whoever_changes_a_variable(backend, seed):
    rng = random.Random(seed)
    net = network([some() for _ in range(rng.randint(2, 8))], rng, 3)
    want = shared(net)
    holds(net, want)
    for _ in range(10):
        net = changed(net, rng)
        holds(net, want)
    x = cm.asarray([0.5, 0.25])
    _, grads = cm.execute_with_gradients(lambda v: cm.sum(net(x, v=v)), net.v)
    as_tree = cm.grad(lambda net: cm.sum(net(x)))(net).v
    assert as_tree.paths() == grads.paths()
    for path in grads.paths():
        np.testing.assert_allclose(as_tree[path].numpy(), grads[path].numpy(), rtol=1e-4, atol=1e-5)
