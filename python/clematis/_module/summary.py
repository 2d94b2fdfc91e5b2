"""The table that `module.summary(x)` gives."""

import contextlib
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from ..errors import ClematisError
from .hooks import Hook
from .info import ancestors, path_of
from .roles import training_flags_kept


class Row:
    """One module of a summary."""

    __slots__ = ("calls", "depth", "flops", "kind", "output", "parameters", "path")

    def __init__(self, path: str, kind: str, depth: int) -> None:
        self.path, self.kind, self.depth = path, kind, depth
        self.output, self.parameters, self.flops, self.calls = "", 0, None, 0  # type: Any, int, int | None, int


class Summary:
    """A table of modules; `rows` holds it as data, printing shows it."""

    def __init__(self, rows: list[Row], parameters: int, trained: int, size: int) -> None:
        self.rows, self.parameters, self.trained, self.bytes = rows, parameters, trained, size

    @property
    def flops(self) -> int | None:
        """Operations of one call, or None if they could not be counted."""
        return self.rows[0].flops if self.rows else None

    def __repr__(self) -> str:
        head = ("module", "output", "parameters", "FLOPs")
        lines = [head]
        for row in self.rows:
            name = row.path.rpartition("/")[2]
            name = f"{name} ({row.kind})" if name else row.kind
            again = f" ×{row.calls}" if row.calls > 1 else ""
            lines.append((f"{'  ' * row.depth}{name}{again}", str(row.output), f"{row.parameters:,}", _count(row.flops)))
        lines.append(("total", "", f"{self.parameters:,}", _count(self.flops)))
        lines.append(("trained", "", f"{self.trained:,}", ""))
        lines.append(("bytes", "", f"{self.bytes:,}", ""))
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        widths[0] = max(widths[0], 10)
        return "\n".join(
            f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c:>{widths[2]}}  {d:>{widths[3]}}".rstrip() for a, b, c, d in lines
        )


def _count(n: int | None) -> str:
    return "?" if n is None else f"{n:,}"


def _shapes(ret: Any) -> Any:
    """The shapes in a result, nested as the result is."""
    if _core._tree.is_array(ret):
        return tuple(_core.asarray(ret).shape)
    if isinstance(ret, dict):
        return {key: _shapes(x) for key, x in ret.items()}
    if isinstance(ret, (list, tuple)):
        return type(ret)(map(_shapes, ret)) if type(ret) in (list, tuple) else tuple(map(_shapes, ret))
    return ret if isinstance(ret, (int, float, str, type(None))) else type(ret).__name__


def _size(v: Any) -> tuple[int, int]:
    """How many numbers, and how many bytes."""
    arrays = [_core.asarray(x) for _, x in v._entries() if _core._tree.is_array(x)]
    return sum(x.size for x in arrays), sum(x.nbytes for x in arrays)


def _flops(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int | None:
    """Operations of a call, counted without values; None where the call needs values."""
    places = [(path, x) for path, x in _pytree.entries([args, kwargs]) if _core._tree.is_array(x)]
    if not places:
        return None
    try:
        return _core._flops(lambda a, k: module(*a, **k), args, kwargs)  # type: ignore[attr-defined, no-any-return]
    except ClematisError:
        return None


def summarised(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Summary:
    """Calls a module once, and tells what was seen."""
    modules = list(module.modules())
    stream = _core._random.get_state()
    seen: dict[int, Row] = {}
    calls: dict[int, tuple[Any, Any]] = {}
    order: list[Any] = []

    def enter(m: Any, a: tuple[Any, ...], k: dict[str, Any]) -> None:
        if id(m) not in seen:
            path = path_of(m)
            seen[id(m)] = Row("" if m is module else path, type(m).__name__, 0)
            calls[id(m)] = (a, k)
            order.append(m)

    def leave(m: Any, a: tuple[Any, ...], k: dict[str, Any], ret: Any) -> None:
        row = seen[id(m)]
        row.calls += 1
        if row.calls == 1:
            row.output = _shapes(ret)

    try:
        with contextlib.ExitStack() as stack:
            stack.enter_context(training_flags_kept(module))
            module.eval()
            for m in modules:
                stack.enter_context(Hook(m, enter, leave))
            module(*args, **kwargs)
        for m in order:
            row = seen[id(m)]
            row.parameters = _size(m.v)[0]
            row.flops = _flops(m, *calls[id(m)])
            row.depth = len(ancestors(m)) - len(ancestors(module))
    finally:
        _core._random.set_state(stream)
    count, size = _size(module.v)
    size += _size(module.buffers())[1]
    return Summary([seen[id(m)] for m in order], count, _size(module.parameters())[0], size)
