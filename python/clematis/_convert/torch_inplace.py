"""Functionalizes a torch graph: replaces in-place ops by ops without side effects.

torch's own functionalization traces a program twice more, which takes longer than the export. Most models update values in
place that have no live alias: each in-place op is then replaced by its out-of-place variant, and later reads use the result.
Other programs are left to torch.
"""

import itertools
import operator
from typing import Any


def without_writes(torch: Any, module: Any, known: frozenset[str]) -> tuple[Any, dict[str, Any]] | None:
    """The graph without in-place ops, and the new values of placeholders by name.

    None if the graph has to be functionalized by torch.
    """
    if not all(_is_plain(torch, node, known) for node in module.graph.nodes):
        return None
    graph = torch.fx.Graph()
    names: dict[Any, Any] = {}
    graph.output(graph.graph_copy(module.graph, names))
    for old, new in names.items():
        # The copy renames nodes that are called like Python builtins, such as `input`.
        new.name = old.name
    nodes = list(graph.nodes)
    writer = _Writer(torch, nodes)
    for node in nodes:
        if node.op == "call_function" and not writer.write(graph, node):
            return None
    written = [node for node in nodes if node.op == "placeholder" and node in writer.new]
    return torch.fx.GraphModule(module, graph), {node.name: writer.newest(node) for node in written}


def _is_plain(torch: Any, node: Any, known: frozenset[str]) -> bool:
    """Whether there is an import rule for the op or for its out-of-place variant."""
    if node.op == "call_module" or node.op == "call_method":
        return False
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    if isinstance(node.target, torch._ops.HigherOrderOperator):
        return node.target.name() in _BODIES and all(
            _is_plain(torch, inner, known) and not _writes(torch, inner)
            for body in node.args
            if getattr(body, "op", "") == "get_attr"
            for inner in getattr(node.graph.owning_module, body.target).graph.nodes
        )
    if not isinstance(node.target, torch._ops.OpOverload):
        # Arithmetic on sizes.
        return True
    family, _, name = node.target._schema.name.partition("::")
    if name.startswith(("_assert", "sym_")):
        return True
    if name == "item":
        return False
    if not isinstance(node.meta.get("val"), (torch.Tensor, list, tuple)):
        return True
    if name in ("lstm", "gru", "rnn_tanh", "rnn_relu") and node.target._overloadname == "data":
        return False
    if name == "as_strided":
        return False
    name = name if name in known else name.removesuffix("_copy")
    return family == "aten" and (name in known or _counterpart(torch, node.target) is not None and name[:-1] in known)


# Higher-order ops that only run their body.
_BODIES = ("wrap_with_set_grad_enabled", "wrap_with_autocast")


def _writes(torch: Any, node: Any) -> bool:
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return False
    schema = node.target._schema
    if schema.name in ("aten::batch_norm", "aten::instance_norm"):
        return node.args[3] is not None and bool(node.args[5])
    return schema.is_mutable


def _counterpart(torch: Any, op: Any) -> Any:
    """The out-of-place variant of an op that updates its first operand."""
    name = op._schema.name.removeprefix("aten::")
    if not name.endswith("_") or name.endswith("__"):
        return None
    packet = getattr(torch.ops.aten, name[:-1], None)
    # The overload with a scalar probability has another name there.
    overload = "p" if name == "bernoulli_" and op._overloadname == "float" else op._overloadname
    found = getattr(packet, overload, None) if packet is not None else None
    if found is None:
        return None
    own, other = op._schema.arguments, found._schema.arguments
    # An in-place random op has other arguments than the op that returns a tensor.
    return found if [a.name for a in own] == [a.name for a in other] else None


class _Writer:
    def __init__(self, torch: Any, nodes: list[Any]) -> None:
        self.torch = torch
        self.place = {node: i for i, node in enumerate(nodes)}
        # The nodes whose values use each storage.
        self.memory: dict[Any, list[Any]] = {}
        for node in nodes:
            for where in self._memory(node):
                self.memory.setdefault(where, []).append(node)
        self.new: dict[Any, Any] = {}

    def _memory(self, node: Any) -> set[Any]:
        value = node.meta.get("val")
        values = value if isinstance(value, (list, tuple)) else [value]
        return {x.untyped_storage()._cdata for x in values if isinstance(x, self.torch.Tensor)}

    def newest(self, node: Any) -> Any:
        """The latest value of a node after in-place updates."""
        while node in self.new:
            node = self.new[node]
        return node

    def write(self, graph: Any, node: Any) -> bool:
        """Replaces an in-place op by its out-of-place variant; False if that is not possible."""
        if not isinstance(node.target, self.torch._ops.OpOverload):
            return True
        schema = node.target._schema
        name = schema.name.removeprefix("aten::")
        if name == "batch_norm" and len(node.args) == 9 and node.args[5] and node.args[3] is not None:
            return self._batch_norm(graph, node)
        if name == "instance_norm" and len(node.args) > 5 and node.args[5] and node.args[3] is not None:
            return False
        written = [i for i, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write]
        if not written:
            return True
        plain = _counterpart(self.torch, node.target)
        if written != [0] or plain is None:
            return False
        parts = [node.args[0]] if self._is_alone(node, node.args[0]) else self._parts(node)
        if not parts:
            return False
        value = node.meta["val"]
        old = node.args[0].meta["val"]
        if value.shape != old.shape or value.dtype != old.dtype:
            return False
        # Omitted arguments may have no default in the variant.
        left = [a for a in schema.arguments[len(node.args) :] if not a.kwarg_only and a.name not in node.kwargs]
        with graph.inserting_after(node):
            made = graph.call_function(plain, node.args, node.kwargs | {a.name: a.default_value for a in left})
        made.meta = dict(node.meta)
        self._put(node, node.args[0], made)
        if len(parts) > 1:
            self._put(node, parts[-1], self._put_back(graph, node, parts, made))
        node.replace_all_uses_with(made)
        graph.erase_node(node)
        return True

    def _parts(self, node: Any) -> list[Any]:
        """The view that is updated, its base, and so on up to the outermost base; empty if an alias is read later."""
        aten = self.torch.ops.aten
        parts = [node.args[0]]
        while parts[-1].op == "call_function" and parts[-1].target in (aten.slice.Tensor, aten.select.int):
            parts.append(parts[-1].args[0])
        at = self.place[node]
        between = [user for part in parts[1:-1] for user in part.users]
        fine = len(parts) > 1 and parts[-1].op == "call_function" and self._is_alone(node, parts[0], parts[-1])
        return parts if fine and all(self.place[user] <= at for user in between) else []

    def _put_back(self, graph: Any, node: Any, parts: list[Any], made: Any) -> Any:
        """Scatters the new value of a view into its bases; returns the outermost one."""
        aten = self.torch.ops.aten
        for part, whole in itertools.pairwise(parts):
            op = aten.slice_scatter.default if part.target is aten.slice.Tensor else aten.select_scatter.default
            with graph.inserting_after(made):
                made = graph.call_function(op, (whole, made, *part.args[1:]), part.kwargs)
            made.meta = dict(whole.meta)
            self.place[made] = self.place[node]
        return made

    def _is_alone(self, node: Any, *olds: Any) -> bool:
        """Whether no other node that is read later aliases the memory that is updated."""
        at = self.place[node]
        same = set()
        for first in olds:
            # Nodes that earlier updates replaced.
            while first is not None:
                same.add(first)
                first = next((k for k, v in self.new.items() if v is first), None)
        for where in self._memory(olds[0]):
            for other in self.memory.get(where, []):
                if other in same or other is node:
                    continue
                if other.op in ("placeholder", "get_attr"):
                    return False
                if any(self.place.get(user, at + 1) > at for user in other.users) and self.place[other] < at:
                    return False
        return True

    def _put(self, node: Any, old: Any, made: Any) -> None:
        at = self.place[made] = self.place[node]
        for user in list(old.users):
            if user is not node and user is not made and self.place.get(user, at + 1) > at:
                user.replace_input_with(old, made)
        self.new[old] = made
        for where in self._memory(old):
            self.memory[where].append(made)

    def _batch_norm(self, graph: Any, node: Any) -> bool:
        """Returns the new running statistics of a batch norm as results."""
        x, weight, bias, mean, var, _, momentum, eps, _ = node.args
        if not self._is_alone(node, mean) or not self._is_alone(node, var):
            return False
        op = self.torch.ops.aten._native_batch_norm_legit_functional.default
        some = mean.meta["val"]
        with graph.inserting_after(node):
            made = graph.call_function(op, (x, weight, bias, mean, var, True, momentum, eps))
        made.meta = dict(node.meta) | {"val": [node.meta["val"], some, some, some, var.meta["val"]]}
        self.place[made] = self.place[node]
        parts = []
        with graph.inserting_after(made):
            for i in (4, 3, 0):
                part = graph.call_function(operator.getitem, (made, i))
                part.meta = dict(node.meta) | {"val": made.meta["val"][i]}
                self.place[part] = self.place[node]
                parts.append(part)
        self._put(node, var, parts[0])
        self._put(node, mean, parts[1])
        # The new nodes have no storage of their own.
        made.replace_input_with(parts[0], var)
        made.replace_input_with(parts[1], mean)
        node.replace_all_uses_with(parts[2])
        graph.erase_node(node)
        return True


__all__ = ["without_writes"]
