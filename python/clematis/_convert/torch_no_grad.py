"""Detaches values that torch computes under `no_grad`.

torch exports a region under `no_grad` as a nested body. The results of such a body are detached by an op, which
remains when torch decomposes the program.
"""

import contextlib
import operator
from collections.abc import Iterator
from typing import Any


def with_stops(torch: Any, module: Any, enabled: bool = True) -> None:
    """Inserts detach ops for values computed while gradients were disabled."""
    changed = False
    for node in list(module.graph.nodes):
        for body in _bodies(module, node):
            with_stops(torch, body, enabled if not _is_region(torch, node) else node.args[0])
        if not _is_region(torch, node) or node.args[0] == enabled:
            continue
        changed = True
        if enabled:
            _detach_results(torch, module, node)
        else:
            _detach_operands(torch, module, node)
    if changed:
        module.recompile()


def _detach_results(torch: Any, module: Any, node: Any) -> None:
    """Detaches the results of a no_grad region, except values it passes through and those of an inner enable_grad region."""
    results = next(n for n in getattr(module, node.args[1].target).graph.nodes if n.op == "output").args[0]
    for user in list(node.users):
        if user.target is not operator.getitem or not _is_differentiable(torch, user):
            continue
        result = results[user.args[1]]
        if result.op == "placeholder" or _has_gradients(torch, result):
            continue
        stopped = _added(module, torch.ops.aten.detach.default, (user,), after=user)
        last = stopped
        if (place := _written(result)) is not None:
            # A tensor updated in place keeps its own gradient, whatever its previous values: adds a zero that carries it.
            old = node.args[2 + place]
            held = _added(module, torch.ops.aten.detach.default, (old,), before=node)
            zero = _added(module, torch.ops.aten.sub.Tensor, (old, held), before=node)
            last = _added(module, torch.ops.aten.add.Tensor, (stopped, zero), after=stopped)
        user.replace_all_uses_with(last, delete_user_cb=lambda other, own=stopped: other is not own)


def _added(module: Any, op: Any, args: tuple[Any, ...], *, before: Any = None, after: Any = None) -> Any:
    """A new node, which looks like its first operand."""
    graph = module.graph
    with graph.inserting_before(before) if before is not None else graph.inserting_after(after):
        made = graph.call_function(op, args)
    made.meta = dict(args[0].meta)
    return made


def _written(node: Any) -> int | None:
    """Which operand of a body has become this result by writing in place, if one has."""
    places = [n for n in node.graph.nodes if n.op == "placeholder"]
    first = node
    while getattr(getattr(getattr(first, "target", None), "_schema", None), "is_mutable", False):
        first = first.args[0]
    return places.index(first) if first is not node and first in places else None


def _detach_operands(torch: Any, module: Any, node: Any) -> None:
    """Before a region with gradients that stands in one without: what was computed there is a constant to it."""
    for x in node.args[2:]:
        if x.op != "call_function" or _has_gradients(torch, x) or not _is_differentiable(torch, x):
            continue
        node.replace_input_with(x, _added(module, torch.ops.aten.detach.default, (x,), before=node))


def _bodies(module: Any, node: Any) -> list[Any]:
    if node.op != "call_function" or hasattr(node.target, "_schema"):
        return []
    found = [getattr(module, x.target, None) for x in node.all_input_nodes if x.op == "get_attr"]
    return [x for x in found if hasattr(x, "graph")]


def _is_region(torch: Any, node: Any) -> bool:
    return node.op == "call_function" and node.target is torch.ops.higher_order.wrap_with_set_grad_enabled


def _has_gradients(torch: Any, node: Any) -> bool:
    """Whether a value comes out of a region with gradients."""
    return (
        getattr(node, "target", None) is operator.getitem and _is_region(torch, node.args[0]) and node.args[0].args[0]
    )


def _is_differentiable(torch: Any, node: Any) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


@contextlib.contextmanager
def stopping(torch: Any, regions: bool) -> Iterator[None]:
    """Detaches `data` of a tensor as it is asked for, and with `regions` what is computed while gradients are off."""
    from torch.overrides import TorchFunctionMode

    data = torch.Tensor.data.__get__

    class Stopping(TorchFunctionMode):
        def __torch_function__(self, f: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if f == data:
                return args[0].detach()
            out = f(*args, **(kwargs or {}))
            if not regions or torch.is_grad_enabled() or not isinstance(out, torch.Tensor):
                return out
            return out.detach() if out.is_floating_point() or out.is_complex() else out

    with Stopping():
        yield


__all__ = ["stopping", "with_stops"]
