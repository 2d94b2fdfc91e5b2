"""`cm.tree`: one registry of containers for jit, grad, vmap, optimizers, modules and checkpoints."""

import collections
import dataclasses

import clematis as cm
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class State:
    mean: object
    name: str
    steps: list


class Interval:
    """A class that joins the registry."""

    def __init__(self, low, high, closed):
        self.low, self.high, self.closed = low, high, closed


cm.tree.register(Interval, lambda x: ((x.low, x.high), x.closed), lambda closed, ends: Interval(*ends, closed))


class Net(cm.Module):
    def __init__(self, key):
        self.layers = [cm.nn.Linear(2, 3, key=key), cm.nn.Linear(3, 1, key=key)]
        self.scale = cm.ones(())

    def __call__(self, x):
        return self.scale * self.layers[1](cm.tanh(self.layers[0](x)))


@pytest.mark.parametrize(
    ("tree", "paths"),
    [
        (cm.ones(2), [""]),
        (None, []),
        ({"b": cm.ones(1), "a": [cm.ones(2), None, "text"]}, ["b", "a.0"]),
        ((cm.ones(1), (), {}), ["0"]),
        (Pair(cm.ones(1), Pair(cm.ones(2), 3.0)), ["0", "1.0", "1.1"]),
        (State(cm.ones(1), "batch", [cm.zeros(2)]), ["mean", "steps.0"]),
        (collections.OrderedDict(x=cm.ones(1)), ["x"]),
        (Interval(cm.zeros(1), [cm.ones(1)], True), ["0", "1.0"]),
        (cm.Container(a={"b": cm.ones(1)}), ["a.b"]),
        (np.ones(3), [""]),
    ],
    ids=["leaf", "None", "dict", "tuple", "namedtuple", "dataclass", "OrderedDict", "registered", "Container", "numpy"],
)
def test_flatten_and_unflatten(tree, paths):
    leaves, treedef = cm.tree.flatten(tree)
    assert cm.tree.paths(tree) == paths
    assert treedef.num_leaves == len(leaves) == len(paths)
    again = treedef.unflatten(leaves)
    assert type(again) is type(tree)
    assert cm.tree.structure(again) == treedef
    assert all(a is b for a, b in zip(cm.tree.flatten(again)[0], leaves, strict=True))


def test_modules_are_trees_of_their_parameters():
    net = Net(cm.random.key(0))
    leaves, treedef = cm.tree.flatten(net)
    assert cm.tree.paths(net) == [path.replace("/", ".") for path in net.v.paths()]
    doubled = treedef.unflatten([x * 2 for x in leaves])
    assert type(doubled) is Net
    np.testing.assert_array_equal(doubled.layers[1].v["w"].numpy(), 2 * net.layers[1].v["w"].numpy())
    # The module that was flattened is left as it is.
    assert float(net.scale) == 1.0 and float(doubled.scale) == 2.0
    x = cm.ones((4, 2))
    np.testing.assert_array_equal(treedef.unflatten(leaves)(x).numpy(), net(x).numpy())


LEAVES = st.floats(-10, 10, width=32) | st.integers(-5, 5)
STATIC = st.none() | st.text(max_size=3)
TREES = st.recursive(
    LEAVES | STATIC,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(max_size=3) | st.integers(0, 9), inner, max_size=3)
    | st.tuples(inner, inner).map(lambda pair: Pair(*pair))
    | st.tuples(inner)
    | st.builds(State, inner, st.text(max_size=2), st.lists(inner, max_size=2)),
    max_leaves=20,
)


@given(TREES)
def test_a_round_trip_changes_nothing(tree):
    leaves, treedef = cm.tree.flatten(tree)
    assert treedef.unflatten(leaves) == tree
    assert cm.tree.structure(tree) == treedef and hash(cm.tree.structure(tree)) == hash(treedef)
    assert len(cm.tree.paths(tree)) == len(leaves)
    numbered = treedef.unflatten(range(len(leaves)))
    assert cm.tree.flatten(numbered)[0] == list(range(len(leaves)))


def test_structures_differ_by_container_keys_and_static_objects():
    same = cm.tree.structure({"a": 1, "b": [2, "x"]})
    assert same == cm.tree.structure({"a": cm.ones(3), "b": [cm.zeros(()), "x"]})
    for other in ({"a": 1, "b": (2, "x")}, {"a": 1, "c": [2, "x"]}, {"a": 1, "b": [2, "y"]}, {"a": 1, "b": [2]}, [1, [2, "x"]]):
        assert same != cm.tree.structure(other)


def test_map_takes_trees_of_one_structure():
    out = cm.tree.map(lambda x, y: x - y, {"a": cm.asarray([3.0]), "b": [2.0]}, {"b": [0.5], "a": cm.asarray([1.0])})
    assert out["a"].tolist() == [2.0] and float(out["b"][0]) == 1.5
    named = cm.tree.map_with_path(lambda path, x: path, {"a": [0, {"b": 0}]})
    assert named == {"a": [("a", 0), {"b": ("a", 1, "b")}]}


@pytest.mark.parametrize(
    ("first", "second", "place"),
    [
        ({"a": [1, 2]}, {"a": [1]}, "a"),
        ({"a": {"b": 1}}, {"a": {"c": 1}}, "a"),
        ([1, (2, 3)], [1, 2], "1"),
    ],
)
def test_a_mismatch_names_the_place(first, second, place):
    with pytest.raises(cm.StructureError, match=rf"tree\.map.*`?{place}`?"):
        cm.tree.map(lambda x, y: x, first, second)


def test_the_number_of_leaves_is_checked():
    treedef = cm.tree.structure([1, 2])
    for leaves in ([1], [1, 2, 3]):
        with pytest.raises(cm.StructureError, match=f"expected 2 leaves, got {len(leaves)}"):
            cm.tree.unflatten(treedef, leaves)


def test_cycles_and_deep_trees_are_errors():
    cycle = [1]
    cycle.append({"again": cycle})
    deep = 1
    for _ in range(500):
        deep = [deep]
    for call in (cm.tree.flatten, cm.tree.leaves, lambda t: cm.tree.map(lambda x: x, t), lambda t: cm.jit(lambda t: 0)(t)):
        with pytest.raises(ValueError, match="contains? itself"):
            call(cycle)
        with pytest.raises(ValueError, match="at most 100 levels"):
            call(deep)


def test_every_transform_takes_registered_classes():
    interval = Interval(cm.asarray(1.0), cm.asarray(3.0), True)
    width = lambda x: (x.high - x.low) ** 2 if x.closed else cm.asarray(0.0)
    grads = cm.grad(width)(interval)
    assert type(grads) is Interval and grads.closed and (float(grads.low), float(grads.high)) == (-4.0, 4.0)
    assert float(cm.jit(width)(interval)) == 4.0
    many = Interval(cm.zeros(3), cm.asarray([1.0, 2.0, 3.0]), True)
    assert cm.vmap(width)(many).tolist() == [1.0, 4.0, 9.0]
    after = cm.optim.SGD(0.25, inplace=False).step(interval, grads)
    assert (float(after.low), float(after.high)) == (2.0, 2.0)


def test_register_says_what_is_wrong():
    with pytest.raises(TypeError):
        cm.tree.register(3, lambda x: ((), None), lambda aux, parts: None)

    class Broken:
        pass

    cm.tree.register(Broken, lambda x: 7, lambda aux, parts: Broken())
    with pytest.raises((TypeError, cm.ArgumentError), match="Broken"):
        cm.tree.flatten(Broken())
