"""`cm.explain`: the graphs and the plan of a compiled function, as text and as a drawing."""

import os
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from ..errors import TraceError
from . import diagnostics
from .function import CompiledProgram, Jitted, jit

_flat = _core._flat  # type: ignore[attr-defined]


class Explanation:
    """The graphs and the plan of a compiled function.

    Attributes
    ----------
    name : str
        The function, with its file and line.
    backend : str
        The backend that the function was compiled for.
    before, after : str
        The graph as traced, and after the optimization passes.
    plan : str
        How the program runs: fusion groups and buffers on native, generated source code on a framework.
    """

    def __init__(self, name: str, backend: str, before: Any, after: Any, plan: str) -> None:
        self.name, self.backend, self.plan = name, backend, plan
        self._before, self._after = before, after
        self.before, self.after = before.text(), after.text()

    def __repr__(self) -> str:
        had, has = len(self._before.ops()), len(self._after.ops())
        parts = [
            f"{self.name} on {self.backend}",
            f"traced: {had} ops\n{self.before.rstrip()}",
            f"after the passes: {has} ops, {_bytes(self._after):,} bytes of results\n{self.after.rstrip()}",
            f"plan\n{self.plan.rstrip()}",
        ]
        return "\n\n".join(parts)

    def html(self) -> str:
        """A self-contained HTML page with a drawing of the graph, both graphs as text, and the plan."""
        from html import escape

        texts = [("Traced", self.before), ("After the passes", self.after), ("Plan", self.plan)]
        parts = [f"<h2>{title}</h2><pre>{escape(text)}</pre>" for title, text in texts]
        title = escape(f"{self.name} on {self.backend}")
        return (
            f"<!doctype html><html><head><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style></head>"
            f"<body><h1>{title}</h1>{_drawing(self._after)}{''.join(parts)}</body></html>"
        )

    def save(self, path: Any) -> None:
        """Writes the HTML page to a file."""
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
    """An SVG drawing: ops are boxes, in rows by their depth in the graph, and lines join results with their readers."""
    # Imported here, because only drawings need it.
    from html import escape

    boxes: list[tuple[str, str, str]] = []
    producers: dict[int, int] = {}
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
        producers[id_] = add("end", name.partition(":")[2] or name or role, f"{role} {dtype}[{','.join(sizes)}]", [])
    for name, args, outs in graph.nodes():
        sources = [producers[a] for a in args if a is not None and a in producers]
        at = add("op", name, outs[0][1] if outs else "", sources)
        for id_, _, _ in outs:
            producers[id_] = at
    for i, (id_, update) in enumerate(zip(ends, graph.updates(), strict=True)):
        word = f"result {i}" if update is None else f"new value of input {update}"
        add("end", word, "", [producers[id_]] if id_ is not None else [])
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
    """Compile a function for the given arguments and return its graphs and its plan, without running it.

    Parameters
    ----------
    function : callable
        A function, or the result of `cm.jit`.
    *args, **kwargs
        Arguments for the function. Only their structure, dtypes, shapes and static values matter.

    Returns
    -------
    Explanation
        The graph before and after the optimization passes, and the plan. A notebook shows its drawing;
        `save("page.html")` writes it.

    Raises
    ------
    TraceError
        If the function cannot be traced, or an argument is a tracer of an enclosing transform.

    Examples
    --------
    >>> print(cm.explain(lambda x: x * 2 + 0 * cm.sum(x), cm.ones((2,))).after.splitlines()[-1])
    }
    """
    jitted = function if isinstance(function, Jitted) else jit(function)
    compiled = _compiled_for(jitted, args, kwargs)
    after, plan = compiled.program.explain(compiled.backend)
    return Explanation(diagnostics.name(jitted._function), compiled.backend, compiled.program.graph, after, plan)


def _compiled_for(jitted: Jitted, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CompiledProgram:
    """The program for such arguments, from the cache or traced now."""
    statics, tree = jitted._split_static(args, kwargs)
    leaves, key, keepalive, known = _flat(tree)
    if not leaves:
        key = (*key, _core.current_backend())
    compiled = jitted._lookup((key, statics)) if known else None
    if compiled is None and known:
        compiled = jitted._trace((key, statics), args, kwargs, tree, leaves, keepalive)
    if compiled is None:
        raise TraceError(
            f"explain: {diagnostics.name(jitted._function)}: expected arrays, got tracers of an enclosing transform"
        )
    return compiled
