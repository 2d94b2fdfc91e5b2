"""Decomposes torch operators without an import rule, and unpacks results in classes that torch does not know."""

from collections.abc import Iterator
from typing import Any


def plain(x: Any) -> Any:
    """Results as plain containers instead of classes that are not pytrees to torch."""
    if hasattr(x, "to_legacy_cache"):
        return plain(x.to_legacy_cache())
    if isinstance(x, dict):
        # A class of results names those that are not there.
        return {k: plain(v) for k, v in x.items() if v is not None or type(x) is dict}
    if isinstance(x, (list, tuple)) and not hasattr(x, "_fields"):
        return type(x)(plain(v) for v in x) if type(x) in (list, tuple) else [plain(v) for v in x]
    fields = getattr(type(x), "__dataclass_fields__", None)
    if fields:
        return {k: plain(getattr(x, k)) for k in fields if getattr(x, k) is not None}
    return x


def with_plain_results(torch: Any, module: Any) -> Any:
    """A module around another, as its `inner`, whose results are plain pytrees."""

    class Inner(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = module
            self.training = module.training

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return plain(self.inner(*args, **kwargs))

    return Inner()


def table_for(torch: Any, known: frozenset[str], graph_module: Any) -> Any:
    """torch's decompositions, but for the ops that have a rule of ours."""
    from torch.export import default_decompositions

    table = default_decompositions()
    for op in list(table.keys()):
        name = op._schema.name
        if name.startswith("aten::") and name[6:] in known:
            # Packed sequences have no rule.
            if op._overloadname == "data" and name[6:] in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
                continue
            # Where it comes to this, it moves its statistics: torch writes down how.
            if name == "aten::instance_norm":
                continue
            table.pop(op)
    more = _others(torch, known)
    for node in _every_node(graph_module):
        op = node.target
        if node.op != "call_function" or not hasattr(op, "_schema") or op in table:
            continue
        family, _, name = op._schema.name.rpartition("::")
        if family == "aten":
            if name not in known and op in more:
                table[op] = more[op]
        elif f"{family}.{name}" not in known and (body := _custom(torch, op)) is not None:
            table[op] = body
    # Ops that result from a decomposition may need these too.
    for op, body in more.items():
        if op not in table:
            table[op] = body
    return table


def _others(torch: Any, known: frozenset[str]) -> dict[Any, Any]:
    """Decompositions that torch has beyond its own list for exporting."""
    from torch._decomp import global_decomposition_table

    found = {}
    for op, body in global_decomposition_table["post_autograd"].items():
        name = getattr(getattr(op, "_schema", None), "name", "")
        if name.startswith("aten::") and name[6:] not in known and "backward" not in name:
            found[op] = body
    return found


def plain_table(torch: Any, known: frozenset[str]) -> dict[Any, Any]:
    from torch._decomp import core_aten_decompositions

    table = dict(core_aten_decompositions().items()) | _others(torch, known)
    return {op: f for op, f in table.items() if op._schema.name.removeprefix("aten::") not in known}


def _custom(torch: Any, op: Any) -> Any:
    """The Python function of an op that somebody has registered, if it has one."""
    from torch._library.custom_ops import OPDEFS

    found = OPDEFS.get(op._schema.name)
    if found is not None:
        bodies = found._backend_fns
        return bodies.get(None) or bodies.get("cpu") or next(iter(bodies.values()), None)
    keys = torch._C.DispatchKey
    for key in (keys.CompositeImplicitAutograd, keys.CompositeExplicitAutograd, keys.CPU):
        if key in op.py_kernels:
            return op.py_kernels[key]
    return None


def _every_node(module: Any) -> Iterator[Any]:
    for part in module.modules():
        if hasattr(part, "graph"):
            yield from part.graph.nodes
