"""Splits a TensorFlow program into clusters that XLA compiles and ops that TensorFlow runs.

TensorFlow runs op by op, each through memory; XLA fuses many ops into one loop. XLA's matmuls are as fast except for
transposed operands, and its convolutions are slower. So convolutions and such matmuls stay TensorFlow ops, and the ops
between them become clusters, unless TensorFlow has a fused kernel for them.
"""

import math
import re
from collections.abc import Iterable
from typing import Any

from .kernels import Kernels, Node, Value, fold_kernel_reversals, keep_concurrent_sums

# Ops that XLA computes with the same semantics.
XLA_OPS = frozenset({
    "abs", "add", "broadcast", "cast", "clamp", "concat", "div", "dot_general", "equal", "erf", "erfc", "exp", "expm1", "full",
    "gather", "gelu", "greater", "greater_equal", "iota", "isfinite", "isinf", "isnan", "layer_norm", "less", "less_equal",
    "linear", "log", "log1p", "log_softmax", "logical_and", "logical_not", "logical_or", "logsumexp", "maximum", "mean",
    "minimum", "mul", "neg", "not_equal", "pad", "pow", "reciprocal", "reduce_max", "reduce_min", "reduce_sum",
    "reduce_window_max", "relu", "reshape", "reverse", "rsqrt", "scatter_add", "select", "sigmoid", "silu", "slice", "softmax",
    "softplus", "sqrt", "square", "sub", "tanh", "transpose", "window_scatter_max",
})  # fmt: skip
# The dtypes of clusters, and their short names in graphs.
DTYPES = frozenset({"f32", "f64", "bool", "i32", "i64"})
_SHORT = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64"}
# Matmuls with more multiply-accumulates are faster in TensorFlow.
_MAX_XLA_MACS = 1 << 31
_AXES = re.compile(r"lhs_batch=\(([^)]*)\), rhs_batch=\(([^)]*)\), lhs_contract=\(([^)]*)\)")
# Ops that read each element of their first operand several times: XLA would fuse its producer and recompute it each time.
_REREADS = frozenset({"reduce_window_max", "window_scatter_max"})
# A cluster with fewer ops or fewer result bytes costs less than the call of a compiled function.
_MIN_OPS, _MIN_BYTES = 2, 1 << 20
# Matmuls with more multiply-accumulates use all threads; two at once contend for them.
_MULTI_THREADED_MACS = 1 << 24
# The stage after all others.
_LAST = 1 << 30


def _is_transposed(line: str, rank: int) -> bool:
    """Whether a matmul contracts another axis of its left operand, which has this rank, than the last."""
    found = _AXES.search(line)
    if found is None:
        return True
    left, right, contracted = ([int(n) for n in axes.split(",") if n.strip()] for axes in found.groups())
    return contracted != [rank - 1] or left != right or left != list(range(len(left)))


def _macs(name: str, shapes: list[list[int]]) -> float:
    """The multiply-accumulates of a matmul, given the shapes of its operands and result; zero for other ops."""
    # macs = m·k·n = sqrt(m·k · k·n · m·n)
    is_matmul = name in ("dot_general", "linear")
    return math.sqrt(math.prod(math.prod(shape) for shape in (*shapes[:2], shapes[-1]))) if is_matmul else 0.0


def _is_for_xla(name: str, line: str, rank: int, macs: float) -> bool:
    """Whether XLA compiles an op; `rank` is that of its first operand."""
    if name in ("dot_general", "linear"):
        return macs < _MAX_XLA_MACS and (name == "linear" or not _is_transposed(line, rank))
    return name in XLA_OPS


def _shape(spec: str) -> list[int]:
    """The shape of a value; symbolic dimensions are zero."""
    sizes = spec.partition("[")[2].rstrip("]")
    return [int(n) if n.isdigit() else 0 for n in sizes.split(",") if n]


def _parse(text: str, graph: Any) -> tuple[str, list[Node], str, dict[int, Value]] | None:
    """The first line of a program, its nodes, its last line and its values; None if lines and graph nodes do not match."""
    head, *lines, last = text.rstrip("\n").split("\n")
    values: dict[int, Value] = {}
    for value, (_, _, dtype, sizes) in zip(graph.ends()[0], graph.inputs(), strict=True):
        values[value] = Value(_SHORT.get(dtype, dtype), [int(n) if str(n).isdigit() else 0 for n in sizes])
    nodes, at = [], 0
    for name, operands, results in graph.nodes():
        # The last line of a node assigns its results; definitions of functions that it calls come before.
        assigns = re.compile(rf"    v{results[0][0]}(,| =)")
        first = at
        while at < len(lines) and not assigns.match(lines[at]):
            at += 1
        if at == len(lines):
            return None
        at += 1
        args, outs = [a for a in operands if a is not None], [out for out, _, _ in results]
        values.update((out, Value(spec.partition("[")[0], _shape(spec))) for out, spec, _ in results)
        shapes = [values[v].shape for v in (*args, outs[0])]
        macs = _macs(name, shapes)
        for_xla = at == first + 1 and all(values[v].dtype in DTYPES for v in (*args, *outs))
        for_xla = for_xla and _is_for_xla(name, lines[first], len(shapes[0]), macs)
        size = sum(size for _, _, size in results)
        reread = operands[0] if name in _REREADS else None
        nodes.append(Node(name, "\n".join(lines[first:at]), args, outs, size, macs, for_xla, reread))
    return (head, nodes, last, values) if at == len(lines) else None


def _stages(nodes: list[Node]) -> list[int]:
    """The stage of each node: the largest number of TensorFlow nodes on a path to it.

    No path between two XLA nodes of one stage passes a TensorFlow node, so a stage can be one cluster. XLA nodes are placed
    in the last possible stage, beside their readers, which shortens lifetimes. Operands that are read several times are
    computed one stage earlier.
    """
    first: dict[int, int] = {}
    tensorflow = {out for node in nodes if not node.for_xla for out in node.outs}
    for node in nodes:
        known = [a for a in node.args if a in first]
        at = max((first[a] + (node.for_xla and (a in tensorflow or a == node.reread)) for a in known), default=0)
        first.update(dict.fromkeys(node.outs, at))
    latest: dict[int, int] = {}
    stages = []
    for node in reversed(nodes):
        at = latest.get(node.outs[0], _LAST) if node.for_xla else first[node.outs[0]]
        stages.append(at)
        for arg in node.args:
            latest[arg] = min(latest.get(arg, _LAST), at - (node.for_xla and arg == node.reread))
    return stages[::-1]


def _names(values: Iterable[int]) -> str:
    return "".join(f"v{value}, " for value in sorted(values))


def _function(nodes: list[Node], number: int, used: set[int]) -> list[str]:
    """The lines of a cluster: a function of its nodes, and the call; `used` are the values that other nodes read."""
    outs = {out for node in nodes for out in node.outs}
    args = {a for node in nodes for a in node.args} - outs
    name = f"_cluster_{number}"
    lines = [f"    def {name}(ops, {_names(args)}):"]
    lines += [f"    {node.text}" for node in nodes]
    lines += [f"        return ({_names(outs & used)})"]
    return [*lines, f"    {_names(outs & used)}= ops.run_compiled(ops, {name}, ({_names(args)}))"]


def _serialize_matmuls(nodes: list[Node]) -> list[str]:
    """The lines of the TensorFlow nodes of one stage; each large matmul waits for the one before it."""
    lines, before = [], None
    for node in nodes:
        if node.macs < _MULTI_THREADED_MACS or "\n" in node.text:
            lines.append(node.text)
            continue
        lines += [node.text] if before is None else [f"    with ops.after(v{before}):", f"    {node.text}"]
        before = node.outs[0]
    return lines


def cluster(text: str, graph: Any) -> str:
    """Moves the XLA nodes of a program into functions that `ops.run_compiled` runs."""
    parts = _parse(text, graph)
    if parts is None:
        return text
    head, nodes, last, values = parts
    ends = {out for out in graph.ends()[1] if out is not None}
    nodes = keep_concurrent_sums(fold_kernel_reversals(nodes, ends), values, _MIN_BYTES)
    stages, kernels = _stages(nodes), Kernels(nodes, values, ends)
    lines = [head]
    for number, stage in enumerate(sorted(set(stages))):
        here = [node for node, at in zip(nodes, stages, strict=True) if at == stage]
        inside = [node for node in here if node.for_xla]
        own = {id(node) for node in inside}
        used = ends | {a for node in nodes if id(node) not in own for a in node.args}
        if len(inside) >= _MIN_OPS and sum(node.size for node in inside) >= _MIN_BYTES:
            calls = kernels.lines(inside)
            lines += _function(inside, number, used) if calls is None else calls
        else:
            lines += [node.text for node in inside]
        lines += _serialize_matmuls([node for node in here if not node.for_xla])
    return "\n".join([*lines, last]) + "\n"
