"""Rows that loops find, where loops are written out: one loop reads those of another as they are, and rows that are arrays one
after the other become one array without being joined by themselves first. Each would be a copy of all of them."""

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .joined import in_order


class Row(NamedTuple):
    """A row that is arrays one after the other along an axis."""

    parts: tuple[Any, ...]
    axis: int


def in_parts(whole: Any, *parts: Any) -> Any:
    """A sum of padded arrays as what it is made of, where these lie one after the other."""
    found = in_order(parts)
    return whole if found is None else Row(*found)


def run_rows(
    ops: Any, body: Callable[..., Any], consts: Any, start: Any, rows: Any, length: int, reverse: bool
) -> tuple[Any, ...]:
    """What `ops.run_scan` computes, with lists of rows for arrays of them."""
    carries, found = tuple(start), []
    for at in range(length - 1, -1, -1) if reverse else range(length):
        out = body(ops, *consts, *carries, *(x[at] for x in rows))
        carries = out[: len(start)]
        found.append(out[len(start) :])
    return carries + tuple(list(line) for line in zip(*(found[::-1] if reverse else found), strict=True))


def stacked(ops: Any, rows: list[Any]) -> Any:
    """The array of rows. Those in parts lie beside one another along the axis of the parts."""
    if not isinstance(rows[0], Row):
        shape = tuple(rows[0].shape)
        return ops.concat(*(ops.reshape(x, shape=(1, *shape)) for x in rows), axis=0)
    axis = rows[0].axis
    flat = ops.concat(*(part for row in rows for part in row.parts), axis=axis)
    shape = tuple(flat.shape)
    apart = ops.reshape(flat, shape=(*shape[:axis], len(rows), shape[axis] // len(rows), *shape[axis + 1 :]))
    return ops.transpose(apart, axes=(axis, *range(axis), *range(axis + 1, len(shape) + 1)))


class _Loop:
    """A line that runs a loop: `names = ops.run_scan(ops, body, consts, start, rows, length, reverse)`."""

    def __init__(self, line: Any, call: Any) -> None:
        _, self.body, _, start, self.rows, _, _ = call.args
        self.line, self.call, self.names = line, call, line.targets[0].elts
        self.carries = len(start.elts)

    def made(self) -> list[str]:
        """The names of the arrays of rows."""
        return [name.id for name in self.names[self.carries :]]

    def read(self) -> list[str]:
        """The names of those that it goes through."""
        return [row.id for row in self.rows.elts if isinstance(row, ast.Name)]


def _loops(function: ast.FunctionDef) -> Iterator[_Loop]:
    for line in function.body:
        match line:
            # Of no rows `run_scan` finds the shapes.
            case ast.Assign(
                [ast.Tuple()], ast.Call(ast.Attribute(attr="run_scan"), [*_, ast.Constant(n), _]) as call
            ) if n:
                yield _Loop(line, call)


def _say_parts(body: ast.FunctionDef, carries: int, wanted: list[bool]) -> None:
    """Lets those rows of a body that are wanted in parts come out so, where they are sums of padded arrays."""
    sums: dict[str, list[ast.expr]] = {}
    for line in body.body:
        match line:
            case ast.Assign([ast.Name(name)], ast.Call(ast.Name("sum_of_pads"), [_, _, *parts])):
                sums[name] = parts
            case ast.Return(ast.Tuple(made)):
                for at, is_wanted in enumerate(wanted, carries):
                    value = made[at]
                    if is_wanted and isinstance(value, ast.Name) and value.id in sums:
                        made[at] = ast.Call(ast.Name("in_parts"), [value, *sums[value.id]], [])


def handed_on(text: str) -> str:
    """The same program, with loops that give lists of rows; of those that are read as arrays `stacked` makes arrays."""
    module = ast.parse(text)
    functions = [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        loops = list(_loops(function))
        bodies = {line.name: line for line in function.body if isinstance(line, ast.FunctionDef)}
        # Functions inside know nothing of the names here.
        own = [line for line in function.body if not isinstance(line, ast.FunctionDef)]
        uses = Counter(node.id for line in own for node in ast.walk(line) if isinstance(node, ast.Name))
        by_loops = Counter(name for loop in loops for name in loop.read())
        lists = {name: f"{name}_rows" for loop in loops for name in loop.made()}
        for loop in loops:
            for row in loop.rows.elts:
                if isinstance(row, ast.Name):
                    row.id = lists.get(row.id, row.id)
            made = loop.made()
            _say_parts(bodies[loop.body.id], loop.carries, [not by_loops[name] for name in made])
            for name in loop.names[loop.carries :]:
                name.id = lists[name.id]
            loop.call.func = ast.Name("run_rows")
            # A name stands where it is set, too.
            arrays = [f"{name} = stacked(ops, {lists[name]})" for name in made if uses[name] > 1 + by_loops[name]]
            at = function.body.index(loop.line) + 1
            function.body[at:at] = ast.parse("\n".join(arrays)).body
    return ast.unparse(module)
