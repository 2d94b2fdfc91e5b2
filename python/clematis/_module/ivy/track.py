"""Tracked calls: records what sub-modules return and in what order they run, as NumPy arrays."""

from typing import Any

from ... import _clematis as _core
from ... import _pytree
from ..._leafwise import parts
from ...container import Container
from ...errors import ArgumentError, ClematisError, FrameworkError, TraceError
from ..info import TRACING, ancestors, info_of, path_of
from .look import flat_repr, mod_key


def to_host(x: Any) -> Any:
    """A pytree with NumPy's arrays in place of all others."""
    try:
        found = {path: _core.asarray(y).numpy().copy() for path, y in _pytree.entries(x) if _core._tree.is_array(y)}
    except FrameworkError as e:
        raise TraceError("track: there are no values to note while a compiler traces the call") from e
    return _pytree.replaced(x, found)


class _Entry:
    """A call that is running, and its place among what is noted."""

    __slots__ = ("children", "is_leaf", "module", "parent")

    def __init__(self, module: Any, parent: "_Entry | None") -> None:
        self.module, self.parent = module, parent
        self.children: Container | None = None
        self.is_leaf = False

    def noted(self, order: Container) -> Container:
        """The container for the calls below this one, made when first needed."""
        if self.children is None:
            above = order if self.parent is None else self.parent.noted(order)
            name = flat_repr(self.module)
            count = sum(str(key).rpartition("_")[0] == name for key in above)
            self.children = Container()
            dict.__setitem__(above, f"{name}_{count}", self.children)
        return self.children


class Tracker:
    """Records one call: the return values of sub-modules, and their order."""

    def __init__(self, root: Any, rets: bool, order: bool, depth: int | None, only: Any, expected: Any) -> None:
        self.root, self.rets, self.order, self.depth = root, rets, order, depth
        self.only = None if only is None else {id(m) for m in only}
        self.expected = _by_key(expected)
        self.base = len(ancestors(root))
        self.entry: _Entry | None = None
        self.submod_rets, self.submod_call_order = Container(), Container()

    def is_tracked(self, module: Any) -> bool:
        if self.depth is not None and len(ancestors(module)) - self.base > self.depth:
            return False
        return self.only is None or id(module) in self.only

    def call(self, module: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records the call of a module, and what it returns."""
        before = self.entry
        entry = _Entry(module, before)
        entry.is_leaf = before is not None and before.is_leaf
        self.entry = entry
        try:
            if self.order and not entry.is_leaf:
                self._note(entry)
            ret = function(module, *args, **kwargs)
            self._returned(module, ret)
            return ret
        finally:
            self.entry = before

    def _note(self, entry: _Entry) -> None:
        module = entry.module
        if entry.parent is None:
            entry.noted(self.submod_call_order)
        elif self.is_tracked(module):
            inside = entry.noted(self.submod_call_order)
            is_deep = self.depth is not None and len(ancestors(module)) - self.base >= self.depth
            if is_deep or self.only is not None or not info_of(module).children:
                entry.is_leaf = True
                for key, x in dict.items(to_host(module.v.flatten())):
                    dict.__setitem__(inside, key, x)

    def _returned(self, module: Any, ret: Any) -> None:
        """Records what a module has returned, and compares it."""
        if not self.rets or module is self.root or not self.is_tracked(module):
            return
        key = mod_key(module)
        noted = dict.setdefault(self.submod_rets, key, [])
        noted.append(to_host(ret))
        expected = self.expected.get(key, self.expected.get(key.replace(" ", "")))
        if expected is not None:
            _compare(module, noted, *expected)


def tracker(module: Any, asked: dict[str, Any], outer: Tracker | None) -> Tracker | None:
    """What records a call with these words, if it asks for a record; else what records the call around it."""
    info = info_of(module)
    rets, order = bool(asked.get("track_submod_rets")), bool(asked.get("track_submod_call_order"))
    expected = asked.get("expected_submod_rets")
    if not rets and not order and expected is None:
        if outer is None:
            info.tracked = None
        return outer
    if TRACING.get() is not None:
        raise TraceError(
            "track: there are no values to record while jit traces the call; call the module outside of it"
        )
    depth, only = asked.get("submod_depth"), asked.get("submods_to_track")
    found = Tracker(module, rets or expected is not None, order, depth, only, expected)
    info.tracked = (found.submod_rets, found.submod_call_order)
    return found


def _by_key(expected: Any) -> dict[str, tuple[Any, Any, Any]]:
    """Values and tolerances for each key."""
    if expected is None:
        return {}
    if not isinstance(expected, dict):
        raise ArgumentError(f"expected_submod_rets: a mapping was expected, not {type(expected).__name__}")
    out = {}
    for key, x in dict.items(expected):
        known = parts(x) if isinstance(x, dict) else {"val": x}
        if "val" not in known:
            raise ArgumentError(f"expected_submod_rets: `{key}` has no `val`")
        out[str(key)] = (known["val"], known.get("atol", 1e-8), known.get("rtol", 1e-5))
    return {**{key.replace(" ", ""): x for key, x in out.items()}, **out}


def _compare(module: Any, noted: list[Any], values: Any, atol: Any, rtol: Any) -> None:
    import numpy as np

    def tolerance(x: Any, at: int) -> Any:
        return x[at] if isinstance(x, (list, tuple)) else x

    for at, (got, want) in enumerate(zip(noted, values, strict=False)):
        if want is None:
            continue
        mine, theirs = list(_pytree.entries(got)), list(_pytree.entries(to_host(want)))
        bounds = {"atol": tolerance(atol, at), "rtol": tolerance(rtol, at)}
        fits = len(mine) == len(theirs) and all(
            np.shape(x) == np.shape(y) and np.allclose(x, y, **bounds)
            for (_, x), (_, y) in zip(mine, theirs, strict=True)
        )
        if not fits:
            where = path_of(module) or type(module).__name__
            raise ClematisError(f"{where}: return value {at} of {mod_key(module).strip()} is not what was expected")
