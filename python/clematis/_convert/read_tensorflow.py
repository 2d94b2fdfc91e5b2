"""Flattens a TensorFlow function into plain data: its graph, with the functions inside of it opened."""

import json
import math
from collections.abc import Callable
from typing import Any

from ..errors import ConvertError, UnsupportedError
from .captured import Part
from .nests import taken_apart

# Ops that only call a function of the graph's library.
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
# What is left out of the attributes: it says nothing about values.
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
# Whole numbers of up to so many are written down: they are shapes, axes and places.
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
    """`function(values, *args)` as a program; `updates` takes a result apart into what the caller gets and new values."""
    import tensorflow as tf  # type: ignore[import-untyped]

    leaves = tf.nest.flatten(args)
    is_array = [hasattr(x, "shape") for x in leaves]
    given = [x for x, array in zip(leaves, is_array, strict=True) if array]
    first = {x.shape[0] for x in given if len(x.shape)}
    batch = [None] if dynamic and len(first) == 1 else []
    sizes = [tf.TensorSpec([*batch, *x.shape[len(batch) :]] if len(x.shape) else x.shape, x.dtype) for x in given]
    values = [tf.TensorSpec(x.shape, x.dtype) for _, _, x in held]
    seen: dict[str, Any] = {}

    def flat(own: Any, arrays: Any) -> Any:
        left = iter(arrays)
        full = [next(left) if array else x for x, array in zip(leaves, is_array, strict=True)]
        out, new = updates(function(own, *tf.nest.pack_sequence_as(args, full)))
        found, seen["shape"] = taken_apart(out, is_leaf=lambda x: isinstance(x, tf.Tensor))
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
    """Turns a graph into lists and dicts."""

    def __init__(self, tf: Any, concrete: Any) -> None:
        self.tf, self.concrete = tf, concrete
        self.nodes: list[Any] = []
        self.constants: list[tuple[str, Any]] = []
        self.captured: list[tuple[str, Any]] = []

    def spec(self, tensor: Any) -> Any:
        """Sizes that are not known have names of their own, which bind nothing."""
        if tensor.shape.rank is None:
            return None
        return {"dtype": tensor.dtype.name, "shape": list(tensor.shape)}

    def value(self, x: Any) -> Any:
        """An attribute."""
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
        import numpy as np

        x = self.tf.make_ndarray(op.get_attr("value"))
        if x.dtype.kind in "iu" and x.size <= _SMALL:
            return np.asarray(x).tolist()
        name = f"c{len(self.constants)}"
        self.constants.append((name, x))
        return {"v": name}

    def graph(self, graph: Any, known: dict[str, Any], scope: str) -> None:
        """Writes the ops of a graph down."""
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
            named = {}
            for key in op.node_def.attr:
                if not key.startswith("_") and key not in _IGNORED:
                    named[key] = self.value(op.get_attr(key))
            out = f"t{len(self.nodes)}"
            # Sizes that are not known here are known to the rules.
            specs = [self.spec(x) if self._is_known(x) else self._typed(x) for x in op.outputs]
            self.nodes.append({
                "op": op.type, "args": args, "kwargs": named, "out": out, "specs": specs, "scope": op.name.rpartition("/")[0],
            })  # fmt: skip
            if len(op.outputs) == 1:
                known[op.outputs[0].name] = {"v": out}
            for i, x in enumerate(op.outputs if len(op.outputs) > 1 else ()):
                part = f"t{len(self.nodes)}"
                self.nodes.append({"op": "getitem", "args": [{"v": out}, i], "out": part})
                known[x.name] = {"v": part}

    def _is_known(self, x: Any) -> bool:
        return x.shape.rank is not None and all(n is not None for n in x.shape)

    def _typed(self, x: Any) -> Any:
        """The element type alone matters, and sizes that are numbers."""
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
        for path, x in zip(seen["paths"], outs[seen["count"] :], strict=True):
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
        """What the function took from outside, as constants."""
        for outside, _ in self.concrete.graph.captures:
            if outside.dtype.name == "resource":
                raise UnsupportedError("convert: a variable that is not among the model's own is used inside")
            self.captured.append((f"k{len(self.captured)}", outside.numpy()))
