"""Converts a torch graph to plain data for the importer."""

import json
import math
import operator
import re
from dataclasses import dataclass, field
from typing import Any

from .. import _clematis as _core
from ..errors import UnsupportedError

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Python functions of symbolic numbers, and our names for them.
_NUMBERS = {
    "truediv": "truediv", "add": "add", "sub": "sub", "mul": "mul", "pow": "pow", "neg": "neg", "sym_float": "float",
    "sym_int": "int", "_sym_sqrt": "sqrt", "sym_sqrt": "sqrt", "_sym_log2": "log2", "sym_max": "max", "sym_min": "min",
}  # fmt: skip


_READS = ("item.default", "_local_scalar_dense.default")


@dataclass
class Held:
    """A parameter, buffer or constant that a program takes from the model."""

    name: str
    role: str
    path: str
    value: Any


@dataclass
class Traced:
    """A torch graph with the roles of its inputs and outputs."""

    module: Any
    # In order: values of the model, and the names of the inputs of a call.
    held: list[Held]
    given: list[str]
    # Names of results or ("fixed", value); the path of a buffer mapped to the name of its new value.
    results: list[Any]
    updates: dict[str, str]
    out_spec: Any
    constants: dict[str, Any] = field(default_factory=dict)


class Writer:
    """Converts a graph to lists and dicts."""

    def __init__(self, torch: Any, traced: Traced, known: frozenset[str]) -> None:
        self.torch, self.traced, self.known = torch, traced, known
        self.module = traced.module
        self.alias: dict[str, str] = {}
        self.sizes = self.readable_sizes()
        # Tensors that the program creates without operands, by the names of their nodes.
        self.made: list[tuple[str, Any]] = []

    def readable_sizes(self) -> dict[str, str]:
        """Renames torch's numbered symbolic sizes: a symbolic leading size of an input is a batch."""
        given = {n.name: n.meta.get("val") for n in self.module.graph.nodes if n.op == "placeholder"}
        names: dict[str, str] = {}
        for name in self.traced.given:
            x = given.get(name)
            if not isinstance(x, self.torch.Tensor) or not x.dim() or isinstance(x.shape[0], int):
                continue
            size = x.shape[0].node.expr
            if size.is_Symbol and str(size) not in names:
                names[str(size)] = f"{BATCH}_{len(names) + 1}" if names else BATCH
        return names

    def dtype(self, x: Any) -> str:
        return str(x).removeprefix("torch.")

    def size(self, x: Any) -> Any:
        return x if isinstance(x, int) else self.expression(x.node.expr)

    def expression(self, expr: Any) -> Any:
        """A symbolic size as text in our syntax."""
        import sympy  # type: ignore[import-untyped]

        if expr.is_Integer:
            return int(expr)
        if expr.is_Symbol:
            own = _SYMBOL.match(str(expr)).group()  # type: ignore[union-attr]
            return self.sizes.get(own, own)
        name = type(expr).__name__
        parts = [f"({self.expression(x)})" for x in expr.args]
        if isinstance(expr, sympy.Add):
            return "+".join(parts)
        if isinstance(expr, sympy.Mul):
            return "*".join(parts)
        if isinstance(expr, sympy.Pow) and expr.args[1].is_Integer and int(expr.args[1]) > 0:
            return "*".join([parts[0]] * int(expr.args[1]))
        if name in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
            return "//".join(parts)
        if name in ("Mod", "PythonMod"):
            return "%".join(parts)
        if name == "CeilDiv":
            return f"-((-{parts[0]})//{parts[1]})"
        if name in ("CeilToInt", "FloorToInt", "TruncToInt", "ToFloat", "Identity"):
            return self.expression(expr.args[0])
        if name in ("Max", "Min"):
            words = [str(self.expression(x)) for x in expr.args]
            text = words[0]
            for word in words[1:]:
                text = f"{name.lower()}({text},{word})"
            return text
        if name == "ModularIndexing":
            return f"(({parts[0]}//{parts[1]})%{parts[2]})"
        raise UnsupportedError(f"convert: a size that is {expr}")

    def spec(self, x: Any) -> Any:
        if not isinstance(x, self.torch.Tensor):
            return None
        return {"dtype": self.dtype(x.dtype), "shape": [self.size(n) for n in x.shape]}

    def named(self, name: str) -> Any:
        return {"v": self.alias.get(name, name)}

    def value(self, x: Any) -> Any:
        torch = self.torch
        if isinstance(x, torch.fx.Node):
            value = x.meta.get("val")
            if isinstance(value, bool):
                return value
            if isinstance(value, (torch.SymInt, int)):
                return {"d": str(self.size(value))}
            if isinstance(value, float) or isinstance(value, torch.SymFloat) and value.node.expr.is_number:
                return {"f": repr(float(value if isinstance(value, float) else value.node.expr))}
            if x.op == "get_attr":
                return self.attribute(x)
            return self.named(x.name)
        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, torch.SymInt):
            return {"d": str(self.size(x))}
        if isinstance(x, int):
            return x
        if isinstance(x, float):
            return x if math.isfinite(x) else {"f": repr(x)}
        if isinstance(x, (list, tuple)):
            return [self.value(part) for part in x]
        if isinstance(x, torch.dtype):
            return {"t": self.dtype(x)}
        if isinstance(x, (torch.device, torch.layout, torch.memory_format, torch.Generator)):
            return None
        if isinstance(x, torch.fx.GraphModule):
            return {"g": self.graph(x)}
        if isinstance(x, dict):
            return None
        raise UnsupportedError(f"convert: {type(x).__name__} as an argument")

    def attribute(self, node: Any) -> Any:
        found = self.module
        for word in node.target.split("."):
            found = getattr(found, word)
        if isinstance(found, self.torch.fx.GraphModule):
            return {"g": self.graph(found)}
        if isinstance(found, self.torch.Tensor):
            if all(name != node.name for name, _ in self.made):
                self.made.append((node.name, found.detach()))
            return {"v": node.name}
        raise UnsupportedError(f"convert: the attribute {node.target} of class {type(found).__name__}")

    def nodes(self, graph: Any) -> list[Any]:
        torch, out = self.torch, []
        # Which results of each node are used.
        read: dict[Any, set[Any]] = {}
        for node in graph.nodes:
            for source in node.all_input_nodes:
                at = node.args[1] if node.target is operator.getitem and node.args[0] is source else None
                read.setdefault(source, set()).add(at)
        for node in graph.nodes:
            if node.op == "call_module" or node.op == "call_method":
                raise UnsupportedError(f"convert: a call of {node.target} in a graph")
            if node.op != "call_function":
                continue
            value = node.meta.get("val")
            # Sizes are written as expressions wherever they are used.
            if isinstance(value, (torch.SymInt, torch.SymBool, int, float)):
                continue
            if isinstance(value, torch.SymFloat) and value.node.expr.is_number:
                continue
            written = self.node(node, value, read.get(node, set()))
            if written is not None:
                out.append(written)
        return out

    def node(self, node: Any, value: Any, read: set[Any]) -> Any:
        target, args, kwargs = node.target, list(node.args), dict(node.kwargs)
        variant = ""
        if getattr(target, "__name__", "") == "with_effects":
            # An op with an effect token, which precedes its results.
            target, args = args[1], args[2:]
            value = value[1:]
            read = {i - 1 for i in read if i}
            if not target._schema.returns:
                return None
        if target is operator.getitem:
            source = args[0].target
            if getattr(source, "__name__", "") == "with_effects":
                single = len(args[0].args[1]._schema.returns) == 1
                if args[1] == 0 or not args[0].args[1]._schema.returns:
                    return None
                args[1] -= 1
                if single:
                    self.alias[node.name] = self.alias.get(args[0].name, args[0].name)
                    return None
            name = "getitem"
        elif isinstance(value, self.torch.SymFloat) and getattr(target, "__name__", "") in _READS:
            # The scalar read from a tensor is the tensor itself if its rank is 0.
            if args[0].meta["val"].dim() == 0:
                self.alias[node.name] = self.alias.get(args[0].name, args[0].name)
                return None
            name = "_local_scalar_dense"
        elif isinstance(value, self.torch.SymFloat):
            word = getattr(target, "__name__", str(target))
            name = f"sym.{_NUMBERS.get(word, word)}"
        elif hasattr(target, "_schema"):
            family, _, name = target._schema.name.rpartition("::")
            variant = target._schema.overload_name
            if name.startswith(("_assert", "sym_constrain_range", "_functional_assert")) or name == "sym_size":
                return None
            name = name if family == "aten" else f"{family}.{name}"
        else:
            name = getattr(target, "__name__", str(target))
        if value is None and not node.users:
            return None
        if not node.all_input_nodes and name not in self.known and isinstance(value, self.torch.Tensor):
            return self.constant(node, target)
        if name == "as_strided":
            # as_strided indexes storage, so the strides and offset of the operand are part of the op.
            own = args[0].meta["val"]
            kwargs |= {"own_stride": list(own.stride()), "own_offset": own.storage_offset()}
        several = isinstance(value, (list, tuple))
        values = value if several else [value]
        unread = [i for i in range(len(values)) if i not in read] if several and None not in read else []
        stack = node.meta.get("nn_module_stack") or {}
        scope = list(stack.values())[-1][0] if stack else ""
        return {
            "op": name, "variant": variant, "args": [self.value(x) for x in args],
            "kwargs": {k: self.value(v) for k, v in kwargs.items()}, "out": node.name,
            "specs": [self.spec(x) for x in values], "unread": unread,
            "scope": scope if isinstance(scope, str) else "", "line": line_of(node.meta.get("stack_trace")),
        }  # fmt: skip

    def constant(self, node: Any, target: Any) -> None:
        """Evaluates an op without operands and stores the result as a constant."""
        try:
            with self.torch.no_grad():
                made = target(*node.args, **node.kwargs)
        except Exception as e:
            raise UnsupportedError(f"convert: unsupported operator {target}: {first_line(e)}") from e
        self.made.append((node.name, made))

    def graph(self, module: Any) -> Any:
        """The body of a branch or a loop."""
        outer, self.module = self.module, module
        graph = module.graph
        places = [n for n in graph.nodes if n.op == "placeholder"]
        given = [{"name": n.name, "role": "input", "spec": self.spec(n.meta.get("val")) or {"dtype": "int64", "shape": []}}
                 for n in places]  # fmt: skip
        out = next(n for n in graph.nodes if n.op == "output").args[0]
        out = out if isinstance(out, (list, tuple)) else [out]
        whole = {"inputs": given, "nodes": self.nodes(graph), "outputs": [{"value": self.value(x)} for x in out]}
        self.module = outer
        return whole

    def program(self) -> tuple[dict[str, Any], dict[str, tuple[str, Any]]]:
        """The program, and the values of the model by path."""
        traced, graph = self.traced, self.traced.module.graph
        places = {n.name: n for n in graph.nodes}
        inputs: list[Any] = []
        values: dict[str, Any] = {}
        seen: dict[Any, Any] = {}
        names: dict[Any, Any] = {}
        for held in traced.held:
            # A shared tensor is passed once; its other names are aliases.
            first = seen.setdefault(_identity(held.value), held)
            names[held.path] = first.name
            if first is not held:
                self.alias[held.name] = first.name
                continue
            values[held.path] = (held.role, held.value.detach())
            inputs.append({"name": held.name, "role": held.role, "path": held.path, "spec": self.spec(held.value)})
        nodes = self.nodes(graph)
        outputs = [{"value": self.value(places[name])} for name in traced.results if isinstance(name, str)]
        for path, name in traced.updates.items():
            outputs.append({"value": self.value(places[name]), "updates": names[path]})
        for name, x in self.made:
            # A name with a leading underscore is private to its module.
            path = f"constants.{name.lstrip('_')}"
            values[path] = ("constant", x)
            inputs.append({"name": name, "role": "constant", "path": path, "spec": self.spec(x)})
        for name in traced.given:
            inputs.append({"name": name, "role": "input", "spec": self.spec(places[name].meta["val"])})
        return {"inputs": inputs, "nodes": nodes, "outputs": outputs}, values


def merged(one: Any, two: Any, sizes: tuple[int, int]) -> Any:
    """Merges programs captured at two batch sizes into a symbolic one; ValueError if they differ in more than sizes."""
    if type(one) is not type(two):
        raise ValueError(f"{one} and {two}")
    if isinstance(one, dict):
        if list(one) != list(two):
            raise ValueError(f"{list(one)} and {list(two)}")
        if list(one) == ["d"]:
            return merged(int(one["d"]), int(two["d"]), sizes)
        return {k: one[k] if k == "line" else merged(one[k], two[k], sizes) for k in one}
    if isinstance(one, list):
        if len(one) != len(two):
            raise ValueError(f"{len(one)} and {len(two)} values")
        return [merged(x, y, sizes) for x, y in zip(one, two, strict=True)]
    if one == two:
        return one
    if isinstance(one, int) and not isinstance(one, bool):
        if one * sizes[1] == two * sizes[0] and one % sizes[0] == 0:
            return _Size(one // sizes[0], 0)
        factor, rest = divmod(two - one, sizes[1] - sizes[0])
        if not rest:
            return _Size(factor, one - factor * sizes[0])
    raise ValueError(f"{one} and {two}")


class _Size:
    """A size that is linear in the batch: times * batch + more."""

    def __init__(self, times: int, more: int) -> None:
        self.times, self.more = times, more

    def __str__(self) -> str:
        return f"{self.times}*{BATCH}+({self.more})" if self.more else f"{self.times}*{BATCH}"


BATCH = "batch"


def text(program: Any) -> str:
    """A program as JSON; symbolic sizes among attributes are marked."""

    def marked(x: Any) -> Any:
        if isinstance(x, _Size):
            return {"d": str(x)}
        if isinstance(x, dict):
            return {k: [str(n) if isinstance(n, _Size) else n for n in v] if k == "shape" else marked(v)
                    for k, v in x.items()}  # fmt: skip
        return [marked(v) for v in x] if isinstance(x, list) else x

    return json.dumps(marked(program))


def _identity(x: Any) -> Any:
    """A key that is equal for two names of one tensor."""
    if not x.numel() or x.is_meta:
        return id(x)
    return x.untyped_storage().data_ptr(), x.storage_offset(), tuple(x.shape), tuple(x.stride()), x.dtype


def line_of(trace: str | None) -> str:
    """The line of user code that an op comes from."""
    found = re.findall(r'File "([^"]+)", line (\d+)', trace or "")
    if not found:
        return ""
    own = [place for place in found if "/torch/" not in place[0]] or found
    return f"{own[-1][0].rpartition('/')[2]}:{own[-1][1]}"


def first_line(e: BaseException) -> str:
    """The first line of an error message."""
    words = str(e).strip()
    return words.splitlines()[0] if words else type(e).__name__


def rules() -> frozenset[str]:
    """The torch ops that have an import rule."""
    return frozenset(_core._import_rules("torch"))  # type: ignore[attr-defined]


__all__ = ["BATCH", "Held", "Traced", "Writer", "first_line", "line_of", "merged", "rules", "text"]
