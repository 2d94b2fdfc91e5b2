"""What tensorflow has kernels for that take less time than what its compiler makes of the same.

A call of what was compiled takes as long as a pass over a MiB or two, so a pass that a kernel makes as well is left to it: a
bias and `relu` after a convolution, which adds the bias itself, and the mask of `relu` on the way back. Convolutions with a
reversed window read it as it lies, and sums beside convolutions run while these do.
"""

import math
import re
from collections import Counter
from typing import NamedTuple


class Value(NamedTuple):
    """Element type and sizes, zero where a size is a name."""

    dtype: str
    shape: list[int]


class Node(NamedTuple):
    """What a program says for one node of a graph."""

    name: str
    text: str
    args: list[int]
    outs: list[int]
    # Bytes of the results, and multiplications of a product.
    size: int
    work: float
    is_light: bool
    # What it reads several times.
    often: int | None


_FLOATS = frozenset({"f32", "f64"})
_AXES = re.compile(r"\baxes=\(([^)]*)\)")
_WINDOW = re.compile(r"rhs_layout=\(([^)]*)\)")
_RESULT = re.compile(r"out_layout=\(([^)]*)\)")
# Convolutions of two axes without steps and groups, as they are printed.
_PLAIN = ("strides=(1, 1,)", "rhs_dilation=(1, 1,)", "feature_groups=1, batch_groups=1")


def _numbers(found: re.Match[str] | None) -> list[int]:
    return [] if found is None else [int(n) for n in found[1].split(",") if n.strip()]


def _is_plain(node: Node) -> bool:
    return node.name == "conv_general" and "\n" not in node.text and all(part in node.text for part in _PLAIN)


def with_turned_windows(nodes: list[Node], ends: set[int]) -> list[Node]:
    """The same nodes; convolutions with a window that was reversed, which is what slopes by the input are, take it as it was."""
    reverses = {node.outs[0]: node for node in nodes if node.name == "reverse" and node.is_light}
    out = []
    for node in nodes:
        turned = reverses.get(node.args[1]) if _is_plain(node) else None
        if turned is not None:
            window = _numbers(_WINDOW.search(node.text))
            if sorted(window[2:]) == sorted(_numbers(_AXES.search(turned.text))):
                (x, _), w = node.args, turned.args[0]
                old, new = f"ops.conv_general(v{x}, v{turned.outs[0]}, ", f"ops.conv_turned(v{x}, v{w}, "
                node = node._replace(text=node.text.replace(old, new), args=[x, w])
        out.append(node)
    read = ends | {a for node in out for a in node.args}
    return [node for node in out if node.outs[0] not in reverses or node.outs[0] in read]


def with_sums_beside(nodes: list[Node], values: dict[int, Value], least: int) -> list[Node]:
    """The same nodes; large sums of what convolutions read, which is what slopes by biases are, are not for the compiler."""
    convolved = {a for node in nodes if node.name == "conv_general" for a in node.args}

    def is_beside(node: Node) -> bool:
        if node.name != "reduce_sum" or node.args[0] not in convolved:
            return False
        dtype, shape = values[node.args[0]]
        size = math.prod(shape) * (8 if dtype.endswith("64") else 4)
        return _numbers(_AXES.search(node.text)) == list(range(len(shape) - 1)) and size >= least

    return [node._replace(is_light=False) if is_beside(node) else node for node in nodes]


class Kernels:
    """Which nodes of a program are kernels."""

    def __init__(self, nodes: list[Node], values: dict[int, Value], ends: set[int]) -> None:
        self.values, self.ends = values, ends
        self.made = {node.outs[0]: node for node in nodes}
        self.reads = Counter(a for node in nodes for a in node.args)

    def _inner(self, value: int, name: str, light: set[int]) -> Node | None:
        """The node that makes a value which one node alone reads."""
        node = self.made.get(value)
        is_inner = node is not None and node.name == name and value in light and self.reads[value] == 1
        return node if is_inner and value not in self.ends else None

    def _bias_and_relu(self, relu: Node, light: set[int]) -> tuple[str, list[Node]] | None:
        add = self._inner(relu.args[0], "add", light)
        if add is None or len(add.args) != 2:
            return None
        for x, bias in (add.args, add.args[::-1]):
            node, (dtype, shape) = self.made.get(x), self.values[x]
            if node is None or node.name != "conv_general" or dtype not in _FLOATS or 0 in shape:
                continue
            is_last = _numbers(_RESULT.search(node.text))[1:2] == [len(shape) - 1]
            if is_last and self.values[bias].shape == shape[-1:] and self.reads[x] == 1 and x not in self.ends:
                return f"    v{relu.outs[0]} = ops.bias_relu(v{x}, v{bias})", [add, relu]
        return None

    def _mask(self, mul: Node, light: set[int]) -> tuple[str, list[Node]] | None:
        for slope, mask in (mul.args, mul.args[::-1]) if len(mul.args) == 2 else ():
            cast = self._inner(mask, "cast", light)
            test = cast and self._inner(cast.args[0], "greater", light)
            if cast is None or test is None or f"ops.greater(v{test.args[0]}, 0.0)" not in test.text:
                continue
            result = self.values[mul.outs[0]]
            if result.dtype in _FLOATS and result == self.values[slope] == self.values[test.args[0]]:
                return f"    v{mul.outs[0]} = ops.relu_slope(v{slope}, v{test.args[0]})", [test, cast, mul]
        return None

    def lines(self, nodes: list[Node]) -> list[str] | None:
        """Light nodes by kernels; None if they are more than that."""
        light, rest, lines = {node.outs[0] for node in nodes}, {node.outs[0] for node in nodes}, []
        for node in nodes:
            found = None
            if node.name == "relu":
                found = self._bias_and_relu(node, light)
            elif node.name == "mul":
                found = self._mask(node, light)
            if found is not None:
                lines.append(found[0])
                rest.difference_update(part.outs[0] for part in found[1])
        return None if rest else lines
