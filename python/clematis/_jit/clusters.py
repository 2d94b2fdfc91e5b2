"""Programs of which tensorflow's compiler is given what it runs in less time.

tensorflow runs one op after the other, each of which goes through memory. Its compiler makes one loop of many of them, and
has products that are as fast, but for those of turned operands; its convolutions are slower. So these stay where they are, and
what lies between them is handed over.
"""

import math
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

# What the compiler has in the same meaning.
KNOWN = frozenset({
    "abs", "add", "broadcast", "cast", "clamp", "concat", "div", "dot_general", "equal", "erf", "erfc", "exp", "expm1", "full",
    "gather", "gelu", "greater", "greater_equal", "iota", "isfinite", "isinf", "isnan", "layer_norm", "less", "less_equal",
    "linear", "log", "log1p", "log_softmax", "logical_and", "logical_not", "logical_or", "logsumexp", "maximum", "mean",
    "minimum", "mul", "neg", "not_equal", "pad", "pow", "reciprocal", "reduce_max", "reduce_min", "reduce_sum",
    "reduce_window_max", "relu", "reshape", "reverse", "rsqrt", "scatter_add", "select", "sigmoid", "silu", "slice", "softmax",
    "softplus", "sqrt", "square", "sub", "tanh", "transpose", "window_scatter_max",
})  # fmt: skip
# For elements of these types, as graphs and as frameworks call them.
DTYPES = frozenset({"f32", "f64", "bool", "i32", "i64"})
_PLAIN = DTYPES | {"float32", "float64", "int32", "int64"}
# Products of more multiplications than these are faster in tensorflow.
_MOST = 1 << 31
_AXES = re.compile(r"lhs_batch=\(([^)]*)\), rhs_batch=\(([^)]*)\), lhs_contract=\(([^)]*)\)")
# What reads each element of its first operand several times, and so would have it computed as often within one function.
_READS_OFTEN = frozenset({"reduce_window_max", "window_scatter_max"})
# Fewer ops, or fewer bytes that they write, take less time than a call of what was compiled.
_FEWEST, _LEAST = 2, 1 << 20
# After everything else.
_LAST = 1 << 30


class _Node(NamedTuple):
    text: str
    args: list[int]
    outs: list[int]
    size: int
    is_light: bool
    often: int | None


def _is_turned(line: str, rank: int) -> bool:
    """Whether a product's left operand, of so many axes, has other axes last than that over which it sums."""
    found = _AXES.search(line)
    if found is None:
        return True
    left, right, summed = ([int(n) for n in axes.split(",") if n.strip()] for axes in found.groups())
    return summed != [rank - 1] or left != right or left != list(range(len(left)))


def _is_light(name: str, line: str, shapes: list[list[int]]) -> bool:
    """Whether the compiler is given an op whose operands and result have such shapes."""
    if name in ("dot_general", "linear"):
        # The root of m·k, k·n and m·n.
        work = math.sqrt(math.prod(math.prod(shape) for shape in (*shapes[:2], shapes[-1])))
        return work < _MOST and (name == "linear" or not _is_turned(line, len(shapes[0])))
    return name in KNOWN


def _shape(spec: str) -> list[int]:
    """The sizes of a value, zero where a size is a name."""
    sizes = spec.partition("[")[2].rstrip("]")
    return [int(n) if n.isdigit() else 0 for n in sizes.split(",") if n]


def _parted(text: str, graph: Any) -> tuple[str, list[_Node], str] | None:
    """The head of a program, what it says for each node, and its last line; None if lines and nodes do not go together."""
    head, *lines, last = text.rstrip("\n").split("\n")
    given = list(zip(graph.ends()[0], graph.inputs(), strict=True))
    dtypes = {value: spec[2] for value, spec in given}
    shapes = {value: [int(n) if str(n).isdigit() else 0 for n in spec[3]] for value, spec in given}
    nodes, at = [], 0
    for name, operands, results in graph.nodes():
        # The last line of a node sets its results; functions that it calls stand before.
        sets = re.compile(rf"    v{results[0][0]}(,| =)")
        first = at
        while at < len(lines) and not sets.match(lines[at]):
            at += 1
        if at == len(lines):
            return None
        at += 1
        args, outs = [a for a in operands if a is not None], [out for out, _, _ in results]
        dtypes.update((out, spec.partition("[")[0]) for out, spec, _ in results)
        shapes.update((out, _shape(spec)) for out, spec, _ in results)
        is_light = at == first + 1 and all(dtypes[v] in _PLAIN for v in (*args, *outs))
        is_light = is_light and _is_light(name, lines[first], [shapes[v] for v in (*args, outs[0])])
        size = sum(size for _, _, size in results)
        often = operands[0] if name in _READS_OFTEN else None
        nodes.append(_Node("\n".join(lines[first:at]), args, outs, size, is_light, often))
    return (head, nodes, last) if at == len(lines) else None


def _stages(nodes: list[_Node]) -> list[int]:
    """For each node how many heavy nodes, one after the other, come before it. No way leads from one light node of a stage to
    another through a heavy node, so that they can be one function. Light nodes stand in the last stage where they can, in which
    those are that read them: less has to be kept until then. What is read often is made in a stage before."""
    first: dict[int, int] = {}
    heavy = {out for node in nodes if not node.is_light for out in node.outs}
    for node in nodes:
        known = [a for a in node.args if a in first]
        at = max((first[a] + (node.is_light and (a in heavy or a == node.often)) for a in known), default=0)
        first.update(dict.fromkeys(node.outs, at))
    latest: dict[int, int] = {}
    stages = []
    for node in reversed(nodes):
        at = latest.get(node.outs[0], _LAST) if node.is_light else first[node.outs[0]]
        stages.append(at)
        for arg in node.args:
            latest[arg] = min(latest.get(arg, _LAST), at - (node.is_light and arg == node.often))
    return stages[::-1]


def _names(values: Iterable[int]) -> str:
    return "".join(f"v{value}, " for value in sorted(values))


def _function(nodes: list[_Node], number: int, used: set[int]) -> list[str]:
    """Nodes as a function and its call; `used` is what others read."""
    made = {out for node in nodes for out in node.outs}
    given = {a for node in nodes for a in node.args} - made
    name = f"_loop_{number}"
    lines = [f"    def {name}(ops, {_names(given)}):"]
    lines += [f"    {node.text}" for node in nodes]
    lines += [f"        return ({_names(made & used)})"]
    return [*lines, f"    {_names(made & used)}= ops.run_compiled(ops, {name}, ({_names(given)}))"]


def clustered(text: str, graph: Any) -> str:
    """The same program; what the compiler is given is in functions that `ops.run_compiled` runs."""
    parts = _parted(text, graph)
    if parts is None:
        return text
    head, nodes, last = parts
    stages = _stages(nodes)
    ends = {out for out in graph.ends()[1] if out is not None}
    lines = [head]
    for number, stage in enumerate(sorted(set(stages))):
        here = [node for node, at in zip(nodes, stages, strict=True) if at == stage]
        light = [node for node in here if node.is_light]
        others = {id(node) for node in light}
        used = ends | {a for node in nodes if id(node) not in others for a in node.args}
        if len(light) >= _FEWEST and sum(node.size for node in light) >= _LEAST:
            lines += _function(light, number, used)
        else:
            lines += [node.text for node in light]
        lines += [node.text for node in here if not node.is_light]
    return "\n".join([*lines, last]) + "\n"
