"""Sums of arrays that are padded with zeros, which is what derivatives of slices are, as the arrays one after the other."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

# An array, and how many zeros stand before and behind it along each axis.
Part = tuple[Any, tuple[int, ...], tuple[int, ...]]

_PAD = re.compile(
    r" +(v\d+) = ops\.pad\((v\d+), (0\.0|ops\.full\(value=0\.0, dtype=[^,]+, shape=\(\)\)), low=(\([^)]*\)), high=(\([^)]*\)),"
    r" interior=\((?:0, ?)*\)\)"
)
_ADD = re.compile(r" +(v\d+) = ops\.add\((v\d+), (v\d+)\)")
_NAME = re.compile(r"\bv\d+\b")


def _functions(lines: list[str]) -> list[list[int]]:
    """The numbers of the lines of each function, which knows nothing of the names in those around it."""
    done: list[list[int]] = []
    open_: list[tuple[int, list[int]]] = []
    for at, line in enumerate(lines):
        depth = len(line) - len(line.lstrip())
        while open_ and line and depth <= open_[-1][0]:
            done.append(open_.pop()[1])
        if line.lstrip().startswith("def "):
            open_.append((depth, []))
        elif open_:
            open_[-1][1].append(at)
    return done + [own for _, own in open_]


def joined(text: str) -> str:
    """The same program, with `sum_of_pads` where it adds padded arrays up that nothing else reads."""
    lines: list[str | None] = list(text.split("\n"))
    for function in _functions(text.split("\n")):
        uses = Counter(name for at in function for name in _NAME.findall(lines[at] or ""))
        # What each name is the sum of, and the line that sets it.
        sums: dict[str, tuple[list[str], str, int]] = {}
        for at in function:
            line = lines[at] or ""
            if pad := _PAD.fullmatch(line):
                name, x, zero, low, high = pad.groups()
                sums[name] = [f"({x}, {low}, {high})"], zero, at
            elif add := _ADD.fullmatch(line):
                name, *both = add.groups()
                if both[0] != both[1] and all(x in sums and uses[x] == 2 for x in both):
                    parts = [part for x in both for part in sums[x][0]]
                    sums[name] = parts, sums[both[0]][1], at
                    indent = line[: len(line) - len(line.lstrip())]
                    lines[at] = f"{indent}{name} = sum_of_pads(ops, {sums[name][1]}, {', '.join(parts)})"
                    for x in both:
                        lines[sums[x][2]] = None
    return "\n".join(line for line in lines if line is not None)


def in_order(parts: Sequence[Part]) -> tuple[tuple[Any, ...], int] | None:
    """Padded arrays that lie one after the other, and the axis; None where they do not."""
    axes = {a for _, low, high in parts for a in range(len(low)) if low[a] or high[a]}
    if len(axes) != 1:
        return None
    (axis,) = axes
    ordered, end = sorted(parts, key=lambda part: part[1][axis]), 0
    for x, low, _ in ordered:
        end = end + x.shape[axis] if low[axis] == end else -1
    return (tuple(x for x, _, _ in ordered), axis) if end > 0 and ordered[-1][2][axis] == 0 else None


def sum_of_pads(ops: Any, zero: Any, *parts: Part) -> Any:
    """The sum of arrays, each with so many zeros before and behind along each axis."""
    found = in_order(parts)
    if found is not None:
        return ops.concat(*found[0], axis=found[1])
    none = (0,) * len(parts[0][1])
    return functools.reduce(ops.add, [ops.pad(x, zero, low=low, high=high, interior=none) for x, low, high in parts])
