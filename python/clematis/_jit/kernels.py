"""Patterns that TensorFlow's own kernels compute faster than XLA.

Calling an XLA-compiled function costs as much as a pass over one or two MiB of memory. Three patterns keep TensorFlow's
kernels: bias and `relu` after a convolution (the convolution kernel adds the bias), the mask of `relu` in the backward pass,
and convolutions with a reversed kernel, which need no reversed copy. Reductions run concurrently with convolutions.
"""

import math
import re
from collections import Counter
from typing import NamedTuple


class Value(NamedTuple):
    """A dtype and a shape; symbolic dimensions are zero."""

    dtype: str
    shape: list[int]


class Node(NamedTuple):
    """A node of a graph with the program text that computes it."""

    name: str
    text: str
    args: list[int]
    outs: list[int]
    # Bytes of the results.
    size: int
    # Multiply-accumulates of a matmul; zero for other ops.
    macs: float
    # Whether XLA compiles the node.
    for_xla: bool
    # An operand of which each element is read several times.
    reread: int | None


_FLOATS = frozenset({"f32", "f64"})
_AXES = re.compile(r"\baxes=\(([^)]*)\)")
_KERNEL_LAYOUT = re.compile(r"rhs_layout=\(([^)]*)\)")
_OUT_LAYOUT = re.compile(r"out_layout=\(([^)]*)\)")
# The printed attributes of a 2-D convolution without strides, dilation and groups.
_UNIT_ATTRIBUTES = ("strides=(1, 1,)", "rhs_dilation=(1, 1,)", "feature_groups=1, batch_groups=1")


def _numbers(found: re.Match[str] | None) -> list[int]:
    return [] if found is None else [int(n) for n in found[1].split(",") if n.strip()]


def _is_unit_conv(node: Node) -> bool:
    return node.name == "conv_general" and "\n" not in node.text and all(part in node.text for part in _UNIT_ATTRIBUTES)


def fold_kernel_reversals(nodes: list[Node], ends: set[int]) -> list[Node]:
    """Folds `reverse` into the convolution that reads it: the input gradient of a convolution has this form."""
    reverses = {node.outs[0]: node for node in nodes if node.name == "reverse" and node.for_xla}
    out = []
    for node in nodes:
        reverse = reverses.get(node.args[1]) if _is_unit_conv(node) else None
        if reverse is not None:
            layout = _numbers(_KERNEL_LAYOUT.search(node.text))
            if sorted(layout[2:]) == sorted(_numbers(_AXES.search(reverse.text))):
                (x, _), w = node.args, reverse.args[0]
                old, new = f"ops.conv_general(v{x}, v{reverse.outs[0]}, ", f"ops.conv_transpose_input_grad(v{x}, v{w}, "
                node = node._replace(text=node.text.replace(old, new), args=[x, w])
        out.append(node)
    read = ends | {a for node in out for a in node.args}
    return [node for node in out if node.outs[0] not in reverses or node.outs[0] in read]


def keep_concurrent_sums(nodes: list[Node], values: dict[int, Value], min_bytes: int) -> list[Node]:
    """Keeps large reductions of convolution operands, the gradients of biases, out of XLA: they run beside the convolution."""
    convolved = {a for node in nodes if node.name == "conv_general" for a in node.args}

    def is_concurrent(node: Node) -> bool:
        if node.name != "reduce_sum" or node.args[0] not in convolved:
            return False
        dtype, shape = values[node.args[0]]
        size = math.prod(shape) * (8 if dtype.endswith("64") else 4)
        return _numbers(_AXES.search(node.text)) == list(range(len(shape) - 1)) and size >= min_bytes

    return [node._replace(for_xla=False) if is_concurrent(node) else node for node in nodes]


class Kernels:
    """Matches nodes of a program to TensorFlow's fused kernels."""

    def __init__(self, nodes: list[Node], values: dict[int, Value], ends: set[int]) -> None:
        self.values, self.ends = values, ends
        self.producers = {node.outs[0]: node for node in nodes}
        self.reads = Counter(a for node in nodes for a in node.args)

    def _inner(self, value: int, name: str, for_xla: set[int]) -> Node | None:
        """The producer of a value that has one reader, if it is the named op."""
        node = self.producers.get(value)
        is_inner = node is not None and node.name == name and value in for_xla and self.reads[value] == 1
        return node if is_inner and value not in self.ends else None

    def _bias_and_relu(self, relu: Node, for_xla: set[int]) -> tuple[str, list[Node]] | None:
        add = self._inner(relu.args[0], "add", for_xla)
        if add is None or len(add.args) != 2:
            return None
        for x, bias in (add.args, add.args[::-1]):
            node, (dtype, shape) = self.producers.get(x), self.values[x]
            if node is None or node.name != "conv_general" or dtype not in _FLOATS or 0 in shape:
                continue
            is_last = _numbers(_OUT_LAYOUT.search(node.text))[1:2] == [len(shape) - 1]
            if is_last and self.values[bias].shape == shape[-1:] and self.reads[x] == 1 and x not in self.ends:
                return f"    v{relu.outs[0]} = ops.bias_relu(v{x}, v{bias})", [add, relu]
        return None

    def _relu_mask(self, mul: Node, for_xla: set[int]) -> tuple[str, list[Node]] | None:
        for grad, mask in (mul.args, mul.args[::-1]) if len(mul.args) == 2 else ():
            cast = self._inner(mask, "cast", for_xla)
            test = cast and self._inner(cast.args[0], "greater", for_xla)
            if cast is None or test is None or f"ops.greater(v{test.args[0]}, 0.0)" not in test.text:
                continue
            result = self.values[mul.outs[0]]
            if result.dtype in _FLOATS and result == self.values[grad] == self.values[test.args[0]]:
                return f"    v{mul.outs[0]} = ops.relu_grad(v{grad}, v{test.args[0]})", [test, cast, mul]
        return None

    def lines(self, nodes: list[Node]) -> list[str] | None:
        """The program lines of nodes as kernel calls; None unless kernels compute all of them."""
        for_xla, rest, lines = {node.outs[0] for node in nodes}, {node.outs[0] for node in nodes}, []
        for node in nodes:
            found = None
            if node.name == "relu":
                found = self._bias_and_relu(node, for_xla)
            elif node.name == "mul":
                found = self._relu_mask(node, for_xla)
            if found is not None:
                lines.append(found[0])
                rest.difference_update(part.outs[0] for part in found[1])
        return None if rest else lines
