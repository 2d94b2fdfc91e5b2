"""Captures a TensorFlow function as plain data: its graph, with the functions it calls inlined."""

import json
import math
import os
from collections.abc import Callable
from typing import Any

from ..errors import ConvertError, UnsupportedError
from .captured import Part
from .tree_structure import order_of, flatten

# Ops that only call a function of the graph.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# Attributes that do not affect values.
_IGNORED = (
    "T",
    "dtype",
    "Tidx",
    "Tparams",
    "use_cudnn_on_gpu",
    "Tshape",
    "Index",
    "out_type",
    "Tpaddings",
    "Tin",
    "Tout",
)
_LIBRARIES = ("tensorflow", "keras", "clematis")
# Integer constants of up to this many elements become literals: they are shapes, axes and indices.
_SMALL = 64


def read(
    function: Callable[..., Any],
    held: list[tuple[str, str, Any]],
    args: tuple[Any, ...],
    *,
    dynamic: bool,
    updates: Callable[[Any], tuple[Any, list[tuple[str, Any]]]],
    tag: str = "eval",
) -> Part:
    """Captures `function(values, *args)` as a program; `updates` splits a result into outputs and new values."""
    import tensorflow as tf  # type: ignore[import-untyped]

    leaves = tf.nest.flatten(args)
    order = order_of(tf.nest.flatten, tf.nest.pack_sequence_as, args)
    is_array = [hasattr(leaves[at], "shape") for at in order]
    places = [at for at, array in zip(order, is_array, strict=True) if array]
    given = [leaves[at] for at in places]
    # The batch is the first size of the first array, and of all arrays that start with the same size.
    first = next((int(x.shape[0]) for x in given if len(x.shape)), None)
    batch = dynamic and first is not None
    sizes = [
        tf.TensorSpec([None, *x.shape[1:]] if batch and len(x.shape) and x.shape[0] == first else x.shape, x.dtype)
        for x in given
    ]
    values = [tf.TensorSpec(x.shape, x.dtype) for _, _, x in held]
    seen: dict[str, Any] = {}

    def flat(own: Any, arrays: Any) -> Any:
        full = list(leaves)
        for at, x in zip(places, arrays, strict=True):
            full[at] = x
        out, new = updates(function(own, *tf.nest.pack_sequence_as(args, full)))
        found, seen["shape"] = flatten(out, is_leaf=lambda x: isinstance(x, tf.Tensor))
        seen["count"], seen["paths"] = len(found), [path for path, _ in new]
        # An output that is an input would lose its name.
        return [tf.identity(x) for x in [*found, *(x for _, x in new)]]

    try:
        concrete = tf.function(flat, autograph=False).get_concrete_function(values, sizes)
    except Exception as e:
        if batch:
            return read(function, held, args, dynamic=False, updates=updates, tag=tag)
        raise ConvertError(f"tensorflow cannot trace it: {str(e).strip().splitlines()[0]}") from e
    return _Reader(tf, concrete).part(held, tag, seen, is_array)


class _Reader:
    """Converts a graph to lists and dicts."""

    def __init__(self, tf: Any, concrete: Any) -> None:
        self.tf, self.concrete, self.count = tf, concrete, 0
        self.nodes: list[Any] = []
        self.constants: list[tuple[str, Any]] = []
        self.captured: list[tuple[str, Any]] = []

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def spec(self, tensor: Any) -> Any:
        """The spec of a tensor; unknown sizes get unique names."""
        if tensor.shape.rank is None or tensor.dtype.name in ("resource", "variant"):
            return None
        return {"dtype": tensor.dtype.name, "shape": list(tensor.shape)}

    def value(self, x: Any) -> Any:
        """An attribute of an op as plain data."""
        if isinstance(x, bytes):
            return x.decode()
        if x is None or isinstance(x, (bool, str, int)):
            return x
        if isinstance(x, float):
            return x if math.isfinite(x) else {"f": repr(x)}
        if isinstance(x, (list, tuple)):
            return [self.value(part) for part in x]
        return str(x)

    def constant(self, op: Any) -> Any:
        """Small integers and scalars become literals; anything larger becomes a constant of the model."""
        import numpy as np

        x = np.asarray(self.tf.make_ndarray(op.get_attr("value")))
        if x.dtype.kind in "iu" and x.size <= _SMALL or x.dtype.kind == "b" and x.shape == ():
            return x.tolist()
        if x.shape == () and x.dtype.kind == "f":
            out, number = self.fresh(), x.item()
            number = number if math.isfinite(number) else {"f": repr(number)}
            self.nodes.append({"op": "full", "args": [number], "out": out, "specs": [self.spec(op.outputs[0])]})
            return {"v": out}
        if x.dtype.kind in "OSU":
            # Strings occur in messages only.
            return None
        name = f"c{len(self.constants)}"
        self.constants.append((name, x))
        return {"v": name}

    def bodies(self, graph: Any, names: list[str], more: list[Any]) -> list[Any]:
        """The functions of a branch or a loop. Captured constants become operands, which are appended to `more`."""
        before, parts = len(self.constants), []
        for name in names:
            inner = graph._get_function(name).graph
            outside, self.nodes = self.nodes, []
            inputs, known = [], {}
            for x in inner.inputs:
                inputs.append(self.fresh())
                known[x.name] = {"v": inputs[-1]}
            self.graph(inner, known, "")
            nodes, self.nodes = self.nodes, outside
            parts.append((inputs, nodes, [known[x.name] for x in inner.outputs]))
        fixed = [name for name, _ in self.constants[before:]]
        more += [{"v": name} for name in fixed]
        # Dtypes and shapes inside are those of the operands.
        spec = {"dtype": "float32", "shape": []}
        return [
            {"g": {
                "inputs": [{"name": x, "role": "input", "spec": spec} for x in [*inputs, *fixed]],
                "nodes": nodes,
                "outputs": [{"value": x} for x in outs],
            }}
            for inputs, nodes, outs in parts
        ]  # fmt: skip

    def control(self, graph: Any, op: Any, args: list[Any]) -> Any:
        """The operands and bodies of a branch or a loop; None for another op."""
        if op.type in ("If", "StatelessIf"):
            words = ["then_branch", "else_branch"]
        elif op.type in ("While", "StatelessWhile"):
            words = ["cond", "body"]
        elif op.type in ("Case", "StatelessCase"):
            more: list[Any] = []
            named: dict[str, Any] = {"branches": self.bodies(graph, [f.name for f in op.get_attr("branches")], more)}
            return [*args, *more], named
        else:
            return None
        more = []
        found = self.bodies(graph, [op.get_attr(word).name for word in words], more)
        if "body" in words:
            # A loop returns its captured constants too.
            body = found[1]["g"]
            body["outputs"] += [{"value": x} for x in more]
        return [*args, *more], dict(zip(words, found, strict=True))

    def graph(self, graph: Any, known: dict[str, Any], scope: str) -> None:
        """Appends the ops of a graph."""
        for op in graph.get_operations():
            if op.type in ("Placeholder", "NoOp", "Assert"):
                continue
            if op.type == "Const":
                known[op.outputs[0].name] = self.constant(op)
                continue
            args = [known[x.name] for x in op.inputs]
            if op.type in _CALLS:
                inner = graph._get_function(op.get_attr("f").name)
                body = inner.graph if hasattr(inner, "graph") else None
                if body is None:
                    raise UnsupportedError(f"convert: the function {op.get_attr('f').name} has no graph")
                local = {x.name: y for x, y in zip(body.inputs, args, strict=True)}
                self.graph(body, local, op.name)
                known.update({x.name: local[y.name] for x, y in zip(op.outputs, body.outputs, strict=True)})
                continue
            control = self.control(graph, op, args)
            named = {}
            if control is not None:
                args, named = control
            for key in op.node_def.attr if control is None else ():
                if not key.startswith("_") and key not in _IGNORED:
                    named[key] = self.value(op.get_attr(key))
            out = self.fresh()
            # The import rules infer sizes that are unknown here.
            specs = [self.spec(x) if self._is_known(x) else self._typed(x) for x in op.outputs]
            several = len(op.outputs) > 1 or "body" in named and len(args) > 1
            self.nodes.append({
                "op": op.type, "args": args, "kwargs": named, "out": out, "specs": specs,
                "scope": op.name.rpartition("/")[0], "line": _line(op),
            })  # fmt: skip
            if not several and op.outputs:
                known[op.outputs[0].name] = {"v": out}
            for i, x in enumerate(op.outputs if several else ()):
                part = self.fresh()
                self.nodes.append({"op": "getitem", "args": [{"v": out}, i], "out": part})
                known[x.name] = {"v": part}

    def _is_known(self, x: Any) -> bool:
        return x.shape.rank is not None and all(n is not None for n in x.shape)

    def _typed(self, x: Any) -> Any:
        """The spec of a tensor with its dtype and static sizes; None if there is none."""
        if x.shape.rank is None or x.dtype.name in ("resource", "variant"):
            return None
        return {"dtype": x.dtype.name, "shape": ["unknown" if n is None else n for n in x.shape]}

    def part(self, held: Any, tag: str, seen: Any, is_array: list[bool]) -> Part:
        graph = self.concrete.graph
        places = list(graph.inputs)
        own, rest = places[: len(held)], places[len(held) : len(held) + sum(is_array)]
        if len(places) > len(own) + len(rest):
            self._captures(places[len(own) + len(rest) :])
        inputs: list[Any] = []
        known: dict[str, Any] = {}
        for place, (path, role, _) in zip(own, held, strict=True):
            inputs.append({"name": f"p{len(inputs)}", "role": role, "path": path, "spec": self.spec(place)})
            known[place.name] = {"v": inputs[-1]["name"]}
        for place, (name, x) in zip(places[len(own) + len(rest) :], self.captured, strict=True):
            self.constants.append((name, x))
            known[place.name] = {"v": name}
        given = []
        for i, place in enumerate(rest):
            shape = ["b" if n is None else n for n in place.shape]
            given.append({"name": f"x{i}", "role": "input", "spec": {"dtype": place.dtype.name, "shape": shape}})
            known[place.name] = {"v": f"x{i}"}
        self.graph(graph, known, "")
        outs = [known[x.name] for x in graph.outputs]
        outputs: list[Any] = [{"value": x} for x in outs[: seen["count"]]]
        names = {path: f"p{i}" for i, (path, _, _) in enumerate(held)}
        same = {node["out"]: node["args"][0] for node in self.nodes if node["op"] == "Identity"}
        for path, x in zip(seen["paths"], outs[seen["count"] :], strict=True):
            value = x
            while isinstance(value, dict) and value.get("v") in same:
                value = same[value["v"]]
            # Unchanged state is not an output.
            if value != {"v": names[path]}:
                outputs.append({"value": x, "updates": names[path]})
        values = {path: (role, x) for path, role, x in held}
        fixed = []
        for name, x in self.constants:
            spec = {"dtype": str(x.dtype), "shape": list(x.shape)}
            fixed.append({"name": name, "role": "constant", "path": f"constants.{tag}.{name}", "spec": spec})
            values[f"constants.{tag}.{name}"] = ("constant", x)
        text = json.dumps({"inputs": [*inputs, *fixed, *given], "nodes": self.nodes, "outputs": outputs})
        return Part(text, values, is_array, [None] * seen["count"], None, seen["shape"])

    def _captures(self, places: list[Any]) -> None:
        """The captured tensors of the function, as constants."""
        for outside, _ in self.concrete.graph.captures:
            if outside.dtype.name == "resource":
                raise UnsupportedError("convert: a variable that is not among the model's own is used inside")
            self.captured.append((f"k{len(self.captured)}", outside.numpy()))


def _line(op: Any) -> str:
    """The source line of an op: the last one outside of the libraries."""
    for frame in reversed(op.traceback or ()):
        if not any(f"{os.sep}{name}{os.sep}" in frame.filename for name in _LIBRARIES):
            return f"{os.path.basename(frame.filename)}:{frame.lineno}"
    return ""
