"""What jit makes of a function, for people: as text and as a drawing."""

import os
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from ..errors import TraceError
from . import told
from .function import Jitted, Made, jit

_flat = _core._flat  # type: ignore[attr-defined]


class Explanation:
    """The graph of a function before and after the passes, and the plan to run it; `html()` and `save(path)` draw it."""

    def __init__(self, name: str, home: str, before: Any, after: Any, plan: str) -> None:
        self.name, self.home, self.plan = name, home, plan
        self._before, self._after = before, after
        self.before, self.after = before.text(), after.text()

    def __repr__(self) -> str:
        had, has = len(self._before.ops()), len(self._after.ops())
        parts = [
            f"{self.name} on {self.home}",
            f"traced: {had} ops\n{self.before.rstrip()}",
            f"after the passes: {has} ops, {_bytes(self._after):,} bytes of results\n{self.after.rstrip()}",
            f"plan\n{self.plan.rstrip()}",
        ]
        return "\n\n".join(parts)

    def html(self) -> str:
        """A page that needs nothing else: the drawing, the texts, the plan."""
        from html import escape

        texts = [("Traced", self.before), ("After the passes", self.after), ("Plan", self.plan)]
        parts = [f"<h2>{title}</h2><pre>{escape(text)}</pre>" for title, text in texts]
        title = escape(f"{self.name} on {self.home}")
        return (
            f"<!doctype html><html><head><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style></head>"
            f"<body><h1>{title}</h1>{_drawing(self._after)}{''.join(parts)}</body></html>"
        )

    def save(self, path: Any) -> None:
        """Writes the page to a file."""
        _core._write_file(os.fspath(path), self.html().encode())  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        return self.html()


_STYLE = (
    "body{font:14px system-ui,sans-serif;margin:2em;color:#222}pre{background:#f6f6f4;padding:1em;overflow:auto}"
    "svg{background:#fcfcfa;border:1px solid #ddd}rect{fill:#e9f2e6;stroke:#4a7a42}rect.end{fill:#e6ecf5;stroke:#42597a}"
    "text{font:11px ui-monospace,monospace}path{fill:none;stroke:#888}.plot{overflow:auto;max-height:80vh}"
)
_WIDE, _HIGH, _GAP = 170, 36, 24


def _bytes(graph: Any) -> int:
    return sum(size for _, _, outs in graph.nodes() for _, _, size in outs)


def _drawing(graph: Any) -> str:
    """Ops as boxes, in rows by the longest way to them; lines from results to where they go."""
    # Needed by those who draw alone.
    from html import escape

    boxes: list[tuple[str, str, str]] = []
    made_by: dict[int, int] = {}
    rows: dict[int, int] = {}
    lines: list[tuple[int, int]] = []

    def add(kind: str, name: str, spec: str, sources: list[int]) -> int:
        at = len(boxes)
        boxes.append((kind, name, spec))
        rows[at] = 1 + max((rows[s] for s in sources), default=-1)
        lines.extend((s, at) for s in dict.fromkeys(sources))
        return at

    starts, ends = graph.ends()
    for id_, (name, role, dtype, sizes) in zip(starts, graph.inputs(), strict=True):
        made_by[id_] = add("end", name.partition(":")[2] or name or role, f"{role} {dtype}[{','.join(sizes)}]", [])
    for name, args, outs in graph.nodes():
        sources = [made_by[a] for a in args if a is not None and a in made_by]
        at = add("op", name, outs[0][1] if outs else "", sources)
        for id_, _, _ in outs:
            made_by[id_] = at
    for i, (id_, update) in enumerate(zip(ends, graph.updates(), strict=True)):
        word = f"result {i}" if update is None else f"new value of input {update}"
        add("end", word, "", [made_by[id_]] if id_ is not None else [])
    places: dict[int, tuple[int, int]] = {}
    filled: dict[int, int] = {}
    for at in range(len(boxes)):
        row = rows[at]
        places[at] = (_GAP + filled.get(row, 0) * (_WIDE + _GAP), _GAP + row * (_HIGH + 2 * _GAP))
        filled[row] = filled.get(row, 0) + 1
    width = _GAP + max(filled.values(), default=1) * (_WIDE + _GAP)
    height = _GAP + (max(rows.values(), default=0) + 1) * (_HIGH + 2 * _GAP)
    parts = []
    for a, b in lines:
        (x, y), (u, v) = places[a], places[b]
        x, y, u = x + _WIDE // 2, y + _HIGH, u + _WIDE // 2
        parts.append(f"<path d='M{x} {y} C{x} {y + _GAP} {u} {v - _GAP} {u} {v}'/>")
    for at, (kind, name, spec) in enumerate(boxes):
        x, y = places[at]
        short = escape(name if len(name) < 25 else name[:24] + "…")
        parts.append(
            f"<g><title>{escape(f'{name} {spec}')}</title><rect class='{kind}' x='{x}' y='{y}' rx='4' width='{_WIDE}'"
            f" height='{_HIGH}'/><text x='{x + 8}' y='{y + 15}'>{short}</text>"
            f"<text x='{x + 8}' y='{y + 29}' fill='#666'>{escape(spec[:26])}</text></g>"
        )
    return f"<div class='plot'><svg width='{width}' height='{height}'>{''.join(parts)}</svg></div>"


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Explanation:
    """What jit makes of a function for such arguments: its graph before and after the passes, and the plan to run it.

    Nothing is computed. In a notebook the drawing is shown; `save("page.html")` writes it.

    >>> print(cm.explain(lambda x: x * 2 + 0 * cm.sum(x), cm.ones((2,))).after.splitlines()[-1])
    }
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    made = made_for(jitted, args, kwargs)
    after, plan = made.program.explain(made.home)
    return Explanation(told.name(jitted._function), made.home, made.program.graph, after, plan)


def made_for(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Made:
    """The program for such arguments, traced if it has to be."""
    statics, nest = jitted._parted(args, kwargs)
    leaves, key, kept, known = _flat(nest)
    if not leaves:
        key = (*key, _core.current_backend())
    made = jitted._find((key, statics)) if known else None
    if made is None and known:
        made = jitted._trace((key, statics), args, kwargs, nest, leaves, kept)
    if made is None:
        raise TraceError(f"explain: {told.name(jitted._function)}: its arguments are traced, so it is no program here")
    return made
