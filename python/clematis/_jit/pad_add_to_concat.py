"""Rewrites `pad(a) + pad(b)` to `concat(a, b)`. The VJP of a slice is a pad, so gradients of split arrays have this form."""

import functools
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

# An array, and its zero padding before and after it along each axis.
Padded = tuple[Any, tuple[int, ...], tuple[int, ...]]

_PAD = re.compile(
    r" +(v\d+) = ops\.pad\((v\d+), (0\.0|ops\.full\(value=0\.0, dtype=[^,]+, shape=\(\)\)), low=(\([^)]*\)), high=(\([^)]*\)),"
    r" interior=\((?:0, ?)*\)\)"
)
_ADD = re.compile(r" +(v\d+) = ops\.add\((v\d+), (v\d+)\)")
_NAME = re.compile(r"\bv\d+\b")


def _functions(lines: list[str]) -> list[list[int]]:
    """The line numbers of each function body, without those of the functions inside it: each function is a scope of its own."""
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


def pad_add_to_concat(text: str) -> str:
    """Replaces additions of padded arrays that have no other use with calls of `sum_of_pads`."""
    lines: list[str | None] = list(text.split("\n"))
    for function in _functions(text.split("\n")):
        uses = Counter(name for at in function for name in _NAME.findall(lines[at] or ""))
        # For each name that is a sum of pads: the padded arrays, the zero, and the line that assigns it.
        sums: dict[str, tuple[list[str], str, int]] = {}
        for at in function:
            line = lines[at] or ""
            if pad := _PAD.fullmatch(line):
                name, x, zero, low, high = pad.groups()
                sums[name] = [f"({x}, {low}, {high})"], zero, at
            elif add := _ADD.fullmatch(line):
                name, *both = add.groups()
                if both[0] != both[1] and all(x in sums and uses[x] == 2 for x in both):
                    padded = [one for x in both for one in sums[x][0]]
                    sums[name] = padded, sums[both[0]][1], at
                    indent = line[: len(line) - len(line.lstrip())]
                    lines[at] = f"{indent}{name} = sum_of_pads(ops, {sums[name][1]}, {', '.join(padded)})"
                    for x in both:
                        lines[sums[x][2]] = None
    return "\n".join(line for line in lines if line is not None)


def concat_operands(padded: Sequence[Padded]) -> tuple[tuple[Any, ...], int] | None:
    """The operands and the axis of the equal concat; None if the padded arrays overlap or leave gaps."""
    axes = {a for _, low, high in padded for a in range(len(low)) if low[a] or high[a]}
    if len(axes) != 1:
        return None
    (axis,) = axes
    ordered, end = sorted(padded, key=lambda one: one[1][axis]), 0
    for x, low, _ in ordered:
        end = end + x.shape[axis] if low[axis] == end else -1
    return (tuple(x for x, _, _ in ordered), axis) if end > 0 and ordered[-1][2][axis] == 0 else None


def sum_of_pads(ops: Any, zero: Any, *padded: Padded) -> Any:
    """The sum of zero-padded arrays: one concat where they tile an axis, else pads and additions."""
    found = concat_operands(padded)
    if found is not None:
        return ops.concat(*found[0], axis=found[1])
    none = (0,) * len(padded[0][1])
    return functools.reduce(ops.add, [ops.pad(x, zero, low=low, high=high, interior=none) for x, low, high in padded])
