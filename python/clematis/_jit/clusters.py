"""Programs of which tensorflow's compiler is given what it runs in less time.

tensorflow runs one op after the other, each of which goes through memory. Its compiler makes one loop of many of them, and
has products that are as fast, but for those of turned operands; its convolutions are slower. So these stay where they are, and
what lies between them is handed over, unless it is what tensorflow has kernels for.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from .kernels import Kernels, Node, Value, with_sums_beside, with_turned_windows

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
_SHORT = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}
# Products of more multiplications than these are faster in tensorflow.
_MOST = 1 << 31
_AXES = re.compile(r"lhs_batch=\(([^)]*)\), rhs_batch=\(([^)]*)\), lhs_contract=\(([^)]*)\)")
# What reads each element of its first operand several times, and so would have it computed as often within one function.
_READS_OFTEN = frozenset({"reduce_window_max", "window_scatter_max"})
# Fewer ops, or fewer bytes that they write, take less time than a call of what was compiled.
_FEWEST, _LEAST = 2, 1 << 20
# Products of more multiplications than these keep all threads busy. Of two at once one thread is left with the end of both.
_BUSY = 1 << 24
# After everything else.
_LAST = 1 << 30


def _is_turned(line: str, rank: int) -> bool:
    """Whether a product's left operand, of so many axes, has other axes last than that over which it sums."""
    found = _AXES.search(line)
    if found is None:
        return True
    left, right, summed = ([int(n) for n in axes.split(",") if n.strip()] for axes in found.groups())
    return summed != [rank - 1] or left != right or left != list(range(len(left)))


def _work(name: str, shapes: list[list[int]]) -> float:
    """How many multiplications a product has whose operands and result have such shapes."""
    # The root of m·k, k·n and m·n.
    is_product = name in ("dot_general", "linear")
    return math.sqrt(math.prod(math.prod(shape) for shape in (*shapes[:2], shapes[-1]))) if is_product else 0.0


def _is_light(name: str, line: str, rank: int, work: float) -> bool:
    """Whether the compiler is given an op whose first operand has so many axes."""
    if name in ("dot_general", "linear"):
        return work < _MOST and (name == "linear" or not _is_turned(line, rank))
    return name in KNOWN


def _shape(spec: str) -> list[int]:
    """The sizes of a value, zero where a size is a name."""
    sizes = spec.partition("[")[2].rstrip("]")
    return [int(n) if n.isdigit() else 0 for n in sizes.split(",") if n]


def _parted(text: str, graph: Any) -> tuple[str, list[Node], str, dict[int, Value]] | None:
    """The head of a program, what it says for each node, its last line, and what its values are; None if lines and nodes do not
    go together."""
    head, *lines, last = text.rstrip("\n").split("\n")
    values: dict[int, Value] = {}
    for value, (_, _, dtype, sizes) in zip(graph.ends()[0], graph.inputs(), strict=True):
        values[value] = Value(_SHORT.get(dtype, dtype), [int(n) if str(n).isdigit() else 0 for n in sizes])
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
        values.update((out, Value(spec.partition("[")[0], _shape(spec))) for out, spec, _ in results)
        shapes = [values[v].shape for v in (*args, outs[0])]
        work = _work(name, shapes)
        is_light = at == first + 1 and all(values[v].dtype in DTYPES for v in (*args, *outs))
        is_light = is_light and _is_light(name, lines[first], len(shapes[0]), work)
        size = sum(size for _, _, size in results)
        often = operands[0] if name in _READS_OFTEN else None
        nodes.append(Node(name, "\n".join(lines[first:at]), args, outs, size, work, is_light, often))
    return (head, nodes, last, values) if at == len(lines) else None


def _stages(nodes: list[Node]) -> list[int]:
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


def _function(nodes: list[Node], number: int, used: set[int]) -> list[str]:
    """Nodes as a function and its call; `used` is what others read."""
    made = {out for node in nodes for out in node.outs}
    given = {a for node in nodes for a in node.args} - made
    name = f"_loop_{number}"
    lines = [f"    def {name}(ops, {_names(given)}):"]
    lines += [f"    {node.text}" for node in nodes]
    lines += [f"        return ({_names(made & used)})"]
    return [*lines, f"    {_names(made & used)}= ops.run_compiled(ops, {name}, ({_names(given)}))"]


def _in_turn(nodes: list[Node]) -> list[str]:
    """The lines of heavy nodes of one stage; of large products each begins when the one before it is done."""
    lines, before = [], None
    for node in nodes:
        if node.work < _BUSY or "\n" in node.text:
            lines.append(node.text)
            continue
        lines += [node.text] if before is None else [f"    with ops.after(v{before}):", f"    {node.text}"]
        before = node.outs[0]
    return lines


def clustered(text: str, graph: Any) -> str:
    """The same program; what the compiler is given is in functions that `ops.run_compiled` runs."""
    parts = _parted(text, graph)
    if parts is None:
        return text
    head, nodes, last, values = parts
    ends = {out for out in graph.ends()[1] if out is not None}
    nodes = with_sums_beside(with_turned_windows(nodes, ends), values, _LEAST)
    stages, kernels = _stages(nodes), Kernels(nodes, values, ends)
    lines = [head]
    for number, stage in enumerate(sorted(set(stages))):
        here = [node for node, at in zip(nodes, stages, strict=True) if at == stage]
        light = [node for node in here if node.is_light]
        others = {id(node) for node in light}
        used = ends | {a for node in nodes if id(node) not in others for a in node.args}
        if len(light) >= _FEWEST and sum(node.size for node in light) >= _LEAST:
            own = kernels.lines(light)
            lines += _function(light, number, used) if own is None else own
        else:
            lines += [node.text for node in light]
        lines += _in_turn([node for node in here if not node.is_light])
    return "\n".join([*lines, last]) + "\n"
