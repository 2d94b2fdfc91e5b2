"""Pytree operations beside optree: flatten, unflatten and map of 1,000 leaves.

    python bench/tree.py [--rounds 7]

Prints for each row the minimum and the median time of both in microseconds, and their ratios. The rounds of the two
libraries alternate.
"""

import argparse
import statistics
import time

import clematis as cm
import optree


class Layer(cm.Module):
    """A module of ten parameters."""

    def __init__(self, make):
        for i in range(10):
            setattr(self, f"w{i}", make())

    def __call__(self, x):
        return x


class Net(cm.Module):
    """A module of a thousand parameters."""

    def __init__(self, make):
        self.layers = [Layer(make) for _ in range(100)]

    def __call__(self, x):
        return x


class PlainLayer:
    """The same attributes without Clematis."""

    def __init__(self, values):
        self.__dict__.update(values)


class PlainNet:
    def __init__(self, layers):
        self.layers = layers


def register_with_optree():
    """Registers the plain classes: what a user of optree writes for modules."""
    optree.register_pytree_node(
        PlainLayer,
        lambda x: (tuple(x.__dict__.values()), tuple(x.__dict__), tuple(x.__dict__)),
        lambda names, values: PlainLayer(dict(zip(names, values, strict=True))),
        namespace="bench",
    )
    optree.register_pytree_node(PlainNet, lambda x: ((x.layers,), None), lambda _, parts: PlainNet(*parts), namespace="bench")


def rows():
    """Name, our call, optree's call."""
    leaf = cm.ones((2,))
    nested = {f"layer{i}": {f"w{j}": leaf for j in range(10)} for i in range(100)}
    flat = [leaf] * 1000
    net = Net(lambda: cm.ones((2,)))
    plain = PlainNet([PlainLayer({f"w{i}": leaf for i in range(10)}) for _ in range(100)])
    for name, tree, other in (("list", flat, flat), ("nested dict", nested, nested), ("module", net, plain)):
        leaves, treedef = cm.tree.flatten(tree)
        optree_leaves, spec = optree.tree_flatten(other, namespace="bench")
        if len(leaves) != 1000 or len(optree_leaves) != 1000:
            raise AssertionError(f"{name}: expected 1000 leaves, got {len(leaves)} and {len(optree_leaves)}")
        yield f"{name}: flatten", lambda t=tree: cm.tree.flatten(t), lambda t=other: optree.tree_flatten(t, namespace="bench")
        yield (
            f"{name}: unflatten",
            lambda d=treedef, x=leaves: d.unflatten(x),
            lambda s=spec, x=optree_leaves: optree.tree_unflatten(s, x),
        )
        yield (
            f"{name}: map",
            lambda t=tree: cm.tree.map(lambda x: x, t),
            lambda t=other: optree.tree_map(lambda x: x, t, namespace="bench"),
        )


def seconds(call, count):
    """The time of one call, from the mean of `count`."""
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    register_with_optree()
    print(f"{'1,000 leaves, µs':<24}{'clematis':>18}{'optree':>18}{'ratio min':>11}{'median':>8}")
    for name, ours, theirs in rows():
        count = max(1, int(0.05 / seconds(ours, 3)))
        times = [(seconds(ours, count), seconds(theirs, count)) for _ in range(rounds)]
        least, middle = ([f([t[i] for t in times]) for i in (0, 1)] for f in (min, statistics.median))
        pairs = [f"{least[i] * 1e6:8.1f} {middle[i] * 1e6:8.1f}" for i in (0, 1)]
        print(f"{name:<24}{pairs[0]:>18}{pairs[1]:>18}{least[0] / least[1]:>11.2f}{middle[0] / middle[1]:>8.2f}")


if __name__ == "__main__":
    main()
