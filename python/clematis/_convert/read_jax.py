"""Captures a jax function as plain data: its jaxpr, with calls inlined."""

import ast
import enum
import json
import math
from collections.abc import Callable
from typing import Any

from ..errors import ConvertError, UnsupportedError
from .captured import Part
from .tree_structure import order_of, flatten

# Primitives that only call a jaxpr, and the parameter that holds it.
_CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr", "remat": "jaxpr",
    "checkpoint": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr", "custom_lin": "jaxpr", "remat2": "jaxpr", "run_state": "jaxpr",
}  # fmt: skip


def read(
    function: Callable[..., Any],
    held: list[tuple[str, str, Any]],
    build: Callable[[list[Any]], Any],
    args: tuple[Any, ...],
    *,
    dynamic: bool,
    with_key: bool,
    updates: Callable[[Any], tuple[Any, list[tuple[str, Any]]]] | None = None,
    tag: str = "eval",
) -> Part:
    """Captures `function(build(values), key or None, *args)` as a program.

    `held` are path, role and array of the model's values; `updates` splits a result into the outputs of the caller and pairs
    of a path and a new value. Constants get paths under `constants.tag`.
    """
    import jax
    import jax.numpy as jnp

    leaves, tree = jax.tree_util.tree_flatten(args)
    order = order_of(jax.tree_util.tree_leaves, lambda _, new: jax.tree_util.tree_unflatten(tree, new), args)
    is_array = [hasattr(leaves[at], "shape") for at in order]
    places = [at for at, array in zip(order, is_array, strict=True) if array]
    given = [leaves[at] for at in places]
    values = [jax.ShapeDtypeStruct(x.shape, x.dtype) for _, _, x in held]
    sizes = _abstract(jax, given, dynamic)
    key = [jax.ShapeDtypeStruct((2,), jnp.uint32)] if with_key else []
    seen: dict[str, Any] = {}

    def flat(*all_values: Any) -> Any:
        own, rest = list(all_values[: len(values)]), list(all_values[len(values) :])
        words = rest.pop() if with_key else None
        full = list(leaves)
        for at, x in zip(places, rest, strict=True):
            full[at] = x
        out = function(build(own), words, *jax.tree_util.tree_unflatten(tree, full))
        out, new = updates(out) if updates else (out, [])
        found, seen["shape"] = flatten(out, is_leaf=lambda x: isinstance(x, jax.Array) or hasattr(x, "aval"))
        seen["count"], seen["paths"] = len(found), [path for path, _ in new]
        return [*found, *(x for _, x in new)]

    try:
        closed = jax.make_jaxpr(flat)(*values, *sizes, *key)
    except Exception as e:
        if dynamic:
            return read(function, held, build, args, dynamic=False, with_key=with_key, updates=updates, tag=tag)
        raise ConvertError(f"jax cannot trace it: {str(e).strip().splitlines()[0]}") from e
    return _Reader(jax, closed).part(held, tag, with_key, seen, is_array)


def _abstract(jax: Any, given: list[Any], dynamic: bool) -> list[Any]:
    """Shapes with a symbolic batch: the first size of the first array, and of all arrays that start with the same size."""
    first = next((x.shape[0] for x in given if len(x.shape)), None)
    if not dynamic or first is None:
        return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given]
    (batch,) = jax.export.symbolic_shape("b")
    return [jax.ShapeDtypeStruct((batch, *x.shape[1:]) if x.shape[:1] == (first,) else x.shape, x.dtype) for x in given]


def _size(x: Any) -> Any:
    """A size as a number or an expression in our syntax."""
    return x if isinstance(x, int) else _spelled(ast.parse(str(x).replace("^", "**"), mode="eval").body)


def _spelled(node: ast.expr) -> str:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        parts = [_spelled(x) for x in node.args]
        if node.func.id == "floordiv":
            return f"(({parts[0]})//({parts[1]}))"
        if node.func.id == "mod":
            return f"(({parts[0]})%({parts[1]}))"
        return f"{node.func.id}({','.join(parts)})"
    if isinstance(node, ast.BinOp):
        left, right = _spelled(node.left), node.right
        if isinstance(node.op, ast.Pow) and isinstance(right, ast.Constant):
            return "(" + "*".join([left] * int(right.value)) + ")"  # type: ignore[arg-type]
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}.get(type(node.op))
        if sign:
            return f"({left}{sign}{_spelled(right)})"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return f"(0-{_spelled(node.operand)})"
    if isinstance(node, (ast.Name, ast.Constant)):
        return node.id if isinstance(node, ast.Name) else str(node.value)
    raise UnsupportedError(f"convert: a size that is {ast.unparse(node)}")


class _Reader:
    """Converts a jaxpr to lists and dicts."""

    def __init__(self, jax: Any, closed: Any) -> None:
        self.jax, self.closed, self.count = jax, closed, 0
        self.constants: list[tuple[str, Any]] = []
        self.nodes_now: list[Any] = []

    def fresh(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def spec(self, aval: Any) -> Any:
        if self.jax.dtypes.issubdtype(aval.dtype, self.jax.dtypes.prng_key):
            return {"dtype": "uint32", "shape": [*map(_size, aval.shape), 2]}
        return {"dtype": str(aval.dtype), "shape": [_size(n) for n in aval.shape]}

    def literal(self, value: Any, aval: Any) -> Any:
        """A scalar becomes a literal; larger arrays become constants."""
        import numpy as np

        x = np.asarray(value)
        if x.shape == () and x.dtype.kind in "biuf":
            out, name = x.item(), self.fresh()
            out = out if not isinstance(out, float) or math.isfinite(out) else {"f": repr(out)}
            self.nodes_now.append({"op": "full", "args": [out], "out": name, "specs": [self.spec(aval)]})
            return {"v": name}
        return self.constant(x)

    def constant(self, x: Any) -> Any:
        name = f"c{len(self.constants)}"
        self.constants.append((name, x))
        return {"v": name}

    def parameter(self, x: Any) -> Any:
        """A parameter of an equation as plain data."""
        import numpy as np

        if x is None or isinstance(x, (bool, str)):
            return x
        if isinstance(x, enum.Enum):
            return _enumerated(x)
        if isinstance(x, (int, np.integer)):
            return int(x)
        if isinstance(x, float):
            return x if math.isfinite(x) else {"f": repr(x)}
        if isinstance(x, (list, tuple)):
            return [self.parameter(part) for part in x]
        if isinstance(x, np.dtype) or isinstance(x, type) and issubclass(x, np.generic):
            return {"t": str(np.dtype(x))}
        if hasattr(x, "eqns") or hasattr(x, "jaxpr"):
            return {"g": self.body(x)}
        if hasattr(x, "name") and hasattr(x, "value"):
            return x.name if isinstance(x.value, str) or not isinstance(x.value, int) else _enumerated(x)
        if type(x).__name__ == "_DimExpr":
            return {"d": str(_size(x))}
        return str(x)

    def parameters(self, primitive: str, params: dict[str, Any]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, x in params.items():
            if name in ("sharding", "out_sharding", "accuracy", "precision", "jvp", "num_consts_jvp", "ctx_mesh"):
                continue
            fields = getattr(x, "_fields", None) or getattr(type(x), "__dataclass_fields__", None)
            if name == "dimension_numbers" and fields:
                out |= {field: self.parameter(getattr(x, field)) for field in fields}
            elif name == "mode":
                out[name] = _mode(x)
            elif name == "select_prim":
                out[name] = getattr(x, "name", str(x))
            else:
                out[name] = self.parameter(x)
        return out

    def body(self, jaxpr: Any) -> Any:
        """The body of a branch or a loop; its closed-over constants are part of it."""
        closed_over = list(getattr(jaxpr, "consts", ()))
        inner = getattr(jaxpr, "jaxpr", jaxpr)
        outside, self.nodes_now = self.nodes_now, []
        known: dict[Any, Any] = {}
        for var, x in zip(inner.constvars, closed_over, strict=True):
            known[var] = self.literal(x, var.aval)
        inputs = []
        for var in inner.invars:
            name = self.fresh()
            known[var] = {"v": name}
            inputs.append({"name": name, "role": "input", "spec": self.spec(var.aval)})
        outs = self.equations(inner, known)
        nodes, self.nodes_now = self.nodes_now, outside
        return {"inputs": inputs, "nodes": nodes, "outputs": [{"value": x} for x in outs]}

    def equations(self, jaxpr: Any, known: dict[Any, Any]) -> list[Any]:
        """Appends equations; returns their results."""

        def operand(var: Any) -> Any:
            return self.literal(var.val, var.aval) if type(var).__name__ == "Literal" else known[var]

        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            args = [operand(var) for var in eqn.invars]
            if name == "custom_linear_solve":
                # It has jaxprs for matvec, vecmat, solve and transpose_solve; the result is that of solve.
                lengths = eqn.params["const_lengths"]
                first = lengths.matvec + lengths.vecmat
                own = args[first : first + lengths.solve]
                args, inner = [*own, *args[sum(lengths) :]], eqn.params["jaxprs"].solve
            elif name in _CALLS:
                inner = eqn.params[_CALLS[name]]
            if name == "custom_linear_solve" or name in _CALLS:
                inside = getattr(inner, "jaxpr", inner)
                local = dict(zip(inside.invars, args, strict=True))
                for var, x in zip(inside.constvars, getattr(inner, "consts", ()), strict=True):
                    local[var] = self.literal(x, var.aval)
                known.update(zip(eqn.outvars, self.equations(inside, local), strict=True))
                continue
            out, specs = self.fresh(), [self.spec(var.aval) for var in eqn.outvars]
            self.nodes_now.append({
                "op": name, "args": args, "kwargs": self.parameters(name, eqn.params), "out": out, "specs": specs,
                "scope": _scope(eqn), "line": _line(eqn),
            })  # fmt: skip
            if len(eqn.outvars) == 1 and not eqn.primitive.multiple_results:
                known[eqn.outvars[0]] = {"v": out}
            elif len(eqn.outvars) == 1:
                # Import rules return a single result without a tuple.
                known[eqn.outvars[0]] = {"v": out}
            else:
                for i, var in enumerate(eqn.outvars):
                    part = self.fresh()
                    self.nodes_now.append({"op": "getitem", "args": [{"v": out}, i], "out": part, "specs": [specs[i]]})
                    known[var] = {"v": part}
        return [operand(var) for var in jaxpr.outvars]

    def part(self, held: Any, tag: str, with_key: bool, seen: Any, is_array: list[bool]) -> Part:
        from jax._src.interpreters import partial_eval

        jaxpr = self.closed.jaxpr
        with_consts = dict(zip(jaxpr.constvars, self.closed.consts, strict=True))
        # Recurrent layers leave dead code.
        jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars), instantiate=True)
        inputs: list[Any] = []
        known: dict[Any, Any] = {}
        for var, (path, role, _) in zip(jaxpr.invars, held, strict=False):
            inputs.append({"name": f"p{len(inputs)}", "role": role, "path": path, "spec": self.spec(var.aval)})
            known[var] = {"v": inputs[-1]["name"]}
        names = {path: f"p{i}" for i, (path, _, _) in enumerate(held)}
        own = len(inputs)
        rest = jaxpr.invars[own:]
        for i, var in enumerate(rest):
            role = "key" if with_key and i == len(rest) - 1 else "input"
            name = f"x{i}"
            inputs.append({"name": name, "role": role, "spec": self.spec(var.aval)})
            known[var] = {"v": name}
        for var in jaxpr.constvars:
            known[var] = self.literal(with_consts[var], var.aval)
        outs = self.equations(jaxpr, known)
        outputs = [{"value": x} for x in outs[: seen["count"]]]
        for path, x in zip(seen["paths"], outs[seen["count"] :], strict=True):
            # Unchanged state is not an output.
            if x != {"v": names[path]}:
                outputs.append({"value": x, "updates": names[path]})
        values = {path: (role, x) for path, role, x in held}
        constants = [
            {"name": name, "role": "constant", "path": f"constants.{tag}.{name}", "spec": _host_spec(x)}
            for name, x in self.constants
        ]
        values |= {f"constants.{tag}.{name}": ("constant", x) for name, x in self.constants}
        inputs = [*inputs[:own], *constants, *inputs[own:]]
        text = json.dumps({"inputs": inputs, "nodes": self.nodes_now, "outputs": outputs})
        return Part(text, values, is_array, [None] * seen["count"], None, seen["shape"], with_key)


def _host_spec(x: Any) -> Any:
    return {"dtype": str(x.dtype), "shape": list(x.shape)}


def _enumerated(x: Any) -> Any:
    named = type(x).__name__ == "FftType" or not isinstance(x.value, int)
    return x.name if named else int(x.value)


def _mode(x: Any) -> str:
    text = str(x).lower()
    return "fill" if "fill" in text else "clip" if "clip" in text else "promise"


def _scope(eqn: Any) -> str:
    stack = str(eqn.source_info.name_stack)
    return stack.replace("/", ".")


def _line(eqn: Any) -> str:
    from jax._src import source_info_util

    text = str(source_info_util.summarize(eqn.source_info))
    return text.split(" (")[0].rpartition("/")[2]


__all__ = ["read"]
