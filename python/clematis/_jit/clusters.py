"""Programs in which what is computed element by element stands in functions of its own.

tensorflow runs one op after the other, each of which goes through memory. Its compiler makes one loop of many such ops, but
has slower products and convolutions. So these stay where they are, and what lies between them is handed over.
"""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

# What gains by standing in one loop.
LIGHT = frozenset({
    "abs", "add", "broadcast", "cast", "clamp", "div", "equal", "erf", "erfc", "exp", "expm1", "full", "gelu", "greater",
    "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log1p", "logical_and", "logical_not",
    "logical_or", "maximum", "minimum", "mul", "neg", "not_equal", "pow", "reciprocal", "reduce_window_max", "relu", "reshape",
    "rsqrt", "select", "sigmoid", "silu", "slice", "softplus", "sqrt", "square", "sub", "tanh", "window_scatter_max",
})  # fmt: skip
# The compiler has all of these for what holds such elements.
_PLAIN = frozenset({"f32", "f64", "bool", "float32", "float64"})
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


def _parted(text: str, graph: Any) -> tuple[str, list[_Node], str] | None:
    """The head of a program, what it says for each node, and its last line; None if lines and nodes do not go together."""
    head, *lines, last = text.rstrip("\n").split("\n")
    dtypes = {value: spec[2] for value, spec in zip(graph.ends()[0], graph.inputs(), strict=True)}
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
        is_light = name in LIGHT and at == first + 1 and all(dtypes[v] in _PLAIN for v in (*args, *outs))
        size = sum(size for _, _, size in results)
        nodes.append(_Node("\n".join(lines[first:at]), args, outs, size, is_light))
    return (head, nodes, last) if at == len(lines) else None


def _stages(nodes: list[_Node]) -> list[int]:
    """For each node how many heavy nodes, one after the other, come before it. No way leads from one light node of a stage to
    another through a heavy node, so that they can be one function. Light nodes stand in the last stage where they can, in which
    those are that read them: less has to be kept until then."""
    first: dict[int, int] = {}
    heavy = {out for node in nodes if not node.is_light for out in node.outs}
    for node in nodes:
        known = [a for a in node.args if a in first]
        at = max((first[a] + (node.is_light and a in heavy) for a in known), default=0)
        first.update(dict.fromkeys(node.outs, at))
    latest: dict[int, int] = {}
    stages = []
    for node in reversed(nodes):
        at = latest.get(node.outs[0], _LAST) if node.is_light else first[node.outs[0]]
        stages.append(at)
        for arg in node.args:
            latest[arg] = min(latest.get(arg, _LAST), at)
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
    """The same program; what lies between products, sums and loops is in functions that `ops.run_compiled` runs."""
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
