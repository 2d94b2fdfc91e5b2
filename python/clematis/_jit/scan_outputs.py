"""Passes scan outputs between unrolled loops as Python lists instead of stacked arrays.

An unrolled scan stacks its outputs, and a scan that reads them indexes the stack: two copies. This pass lets the second
loop read the list of the first. It also defers concatenation: an output that is a concat of parts is stacked in one step.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Parts(NamedTuple):
    """The operands of a concat along `axis` that has not been computed."""

    parts: tuple[Any, ...]
    axis: int


def run_scan_as_lists(
    ops: Any, body: Callable[..., Any], consts: Any, start: Any, xs: Any, length: int, reverse: bool
) -> tuple[Any, ...]:
    """Computes `ops.run_scan` with scanned inputs and outputs as lists, one item per step."""
    carries, found = tuple(start), []
    for at in range(length - 1, -1, -1) if reverse else range(length):
        out = body(ops, *consts, *carries, *(x[at] for x in xs))
        carries = out[: len(start)]
        found.append(out[len(start) :])
    return carries + tuple(list(line) for line in zip(*(found[::-1] if reverse else found), strict=True))


def stack_outputs(ops: Any, items: list[Any]) -> Any:
    """Stacks the outputs of the steps. `Parts` are concatenated once, along their axis, then reshaped and transposed."""
    if not isinstance(items[0], Parts):
        shape = tuple(items[0].shape)
        return ops.concat(*(ops.reshape(x, shape=(1, *shape)) for x in items), axis=0)
    axis = items[0].axis
    flat = ops.concat(*(part for item in items for part in item.parts), axis=axis)
    shape = tuple(flat.shape)
    split = ops.reshape(flat, shape=(*shape[:axis], len(items), shape[axis] // len(items), *shape[axis + 1 :]))
    return ops.transpose(split, axes=(axis, *range(axis), *range(axis + 1, len(shape) + 1)))


class _Scan:
    """A line that runs a scan: `names = ops.run_scan(ops, body, consts, start, xs, length, reverse)`."""

    def __init__(self, line: Any, call: Any) -> None:
        _, self.body, _, start, self.xs, _, _ = call.args
        self.line, self.call, self.names = line, call, line.targets[0].elts
        self.carries = len(start.elts)

    def outputs(self) -> list[str]:
        """The names of the stacked outputs."""
        return [name.id for name in self.names[self.carries :]]

    def inputs(self) -> list[str]:
        """The names of the arrays that are scanned over."""
        return [x.id for x in self.xs.elts if isinstance(x, ast.Name)]


def _scans(function: ast.FunctionDef) -> Iterator[_Scan]:
    for line in function.body:
        match line:
            # With zero steps only `run_scan` knows the shapes of the outputs.
            case ast.Assign(
                [ast.Tuple()], ast.Call(ast.Attribute(attr="run_scan"), [*_, ast.Constant(n), _]) as call
            ) if n:
                yield _Scan(line, call)


def _defer_concats(body: ast.FunctionDef, carries: int, wanted: list[bool]) -> None:
    """Makes a scan body return the wanted outputs as `Parts` where they are concats."""
    concats: dict[str, tuple[list[ast.expr], ast.expr]] = {}
    for line in body.body:
        match line:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Attribute(attr="concat"), parts, [ast.keyword("axis", axis)])):
                concats[name] = parts, axis
            case ast.Return(ast.Tuple(values)):
                for at, is_wanted in enumerate(wanted, carries):
                    value = values[at]
                    if is_wanted and isinstance(value, ast.Name) and value.id in concats:
                        parts, axis = concats[value.id]
                        values[at] = ast.Call(ast.Name("Parts"), [ast.Tuple(parts), axis], [])


def scan_outputs_as_lists(text: str) -> str:
    """Rewrites a program so that scans return lists; `stack_outputs` makes arrays of those with other uses."""
    module = ast.parse(text)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        scans = list(_scans(function))
        bodies = {line.name: line for line in function.body if isinstance(line, ast.FunctionDef)}
        # Inner functions are scopes of their own.
        own = [line for line in function.body if not isinstance(line, ast.FunctionDef)]
        uses = Counter(node.id for line in own for node in ast.walk(line) if isinstance(node, ast.Name))
        scan_uses = Counter(name for scan in scans for name in scan.inputs())
        lists = {name: f"{name}_list" for scan in scans for name in scan.outputs()}
        for scan in scans:
            for x in scan.xs.elts:
                if isinstance(x, ast.Name):
                    x.id = lists.get(x.id, x.id)
            outputs = scan.outputs()
            _defer_concats(bodies[scan.body.id], scan.carries, [not scan_uses[name] for name in outputs])
            for name in scan.names[scan.carries :]:
                name.id = lists[name.id]
            scan.call.func = ast.Name("run_scan_as_lists")
            # The assignment counts as one use.
            arrays = [f"{name} = stack_outputs(ops, {lists[name]})" for name in outputs if uses[name] > 1 + scan_uses[name]]
            at = function.body.index(scan.line) + 1
            function.body[at:at] = ast.parse("\n".join(arrays)).body
    return ast.unparse(module)
