"""How a module is called: with its own variables or with others, with gradients or without, watched or not.

All that a call needs is in a frame that ends with it, whatever happens inside.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from .._placement import backend_of_tree, moved
from ..container import Container
from ..errors import ClematisError, StructureError, TraceError
from ..gradients import with_grads as gradients_wanted
from .build import ensure, fitted, is_built, label, sync_tied_weights, stored
from .hooks import after, before
from .info import RUNNING, TRACING, Frame, Info, info_of, routed
from .track import Tracker

# What every call takes besides the arguments of the forward pass.
WORDS = frozenset(
    (
        "v", "with_grads", "stateful", "arg_stateful_idxs", "kwarg_stateful_idxs", "track_submod_rets", "submod_depth",
        "submods_to_track", "track_submod_call_order", "expected_submod_rets",
    )
)  # fmt: skip


# What calls modules in the place of `run`, in this context alone: it sees each call of a module and its sub-modules.
AROUND: ContextVar[Callable[..., Any] | None] = ContextVar("around", default=None)


def _find_words(function: Callable[..., Any]) -> frozenset[str]:
    """The words that are not the function's own."""
    # Slow to import, and needed by calls with keywords alone.
    import inspect

    try:
        return WORDS - set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return WORDS


_words: Callable[[Callable[..., Any]], frozenset[str]] = functools.lru_cache(maxsize=4096)(_find_words)


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    """A `__call__` that does all that calls of modules do."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        # `super().__call__(…)` is a part of the call that is running.
        if type(self).__call__ is not call:
            return function(self, *args, **kwargs)
        around = AROUND.get()
        return (run if around is None else around)(self, function, args, kwargs)

    # tf.function rewrites what it calls, line by line; this mark keeps it away from us.
    call.autograph_info__ = {}  # type: ignore[attr-defined]
    return call


def run(module: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Calls a module."""
    asked: dict[str, Any] = {}
    if kwargs:
        inner = type(module)._forward if getattr(function, "is_base", False) else function
        asked = {word: kwargs.pop(word) for word in _words(inner) if word in kwargs}
    outer = RUNNING.get()
    tracing = TRACING.get()
    if tracing is not None:
        tracing.register_module(module)
    frame = Frame(outer, module)
    v = asked.get("v")
    info = _built(module, args, kwargs, v is not None)
    own = routed(module) if v is None else stopped_at(fitted(module, v, info.partial), _frozen(module))
    if v is None and own is None and not info.store and info.leaves:
        raise StructureError(f"{label(module)}: it stores no variables (store_vars=False); call it with v=")
    frame.grads = asked.get("with_grads")
    if frame.grads is not None:
        gradients_wanted(with_grads=frame.grads)
    elif outer is not None:
        frame.grads = outer.grads
    if not gradients_wanted(with_grads=frame.grads):
        if v is not None or outer is None or outer.grads is not False or own is None:
            base = own if own is not None else info.v
            frame.routes = routes(module, base.map(_stopped))
        frame.grads = False
    elif v is not None:
        frame.routes = routes(module, own if own is not None else Container())
    tracker = _tracker(module, info, asked, outer)
    frame.tracker = tracker
    scope: Any = None
    if outer is None and module._moves_arguments and any(type(x) is not _core.Tensor for x in (*args, *kwargs.values())):
        backend = backend_of_tree(own if own is not None else info.v)
        args, kwargs = moved((args, kwargs), backend)
        if backend not in (None, _core.current_backend()):
            # A list of numbers becomes a tensor where the module is, and so does what the call makes.
            scope = _core.backend(backend)
    token = RUNNING.set(frame)
    try:
        if scope is not None:
            scope.__enter__()
            # Only a scope that was entered is left.
            frame.backend = scope
        if info.hooks:
            args, kwargs = before(module, info.hooks, args, kwargs)
        if tracker is None:
            ret = function(module, *args, **kwargs)
        else:
            with tracker.during(module):
                ret = function(module, *args, **kwargs)
                tracker.returned(module, ret)
        return after(module, info.hooks, args, kwargs, ret) if info.hooks else ret
    except ClematisError as e:
        # The innermost module is the one to be named.
        if not getattr(e, "_has_place", False):
            e._has_place = True  # type: ignore[attr-defined]
            e.add_note(f"in {label(module)}")
        raise
    finally:
        if frame.backend is not None:
            frame.backend.__exit__()
        RUNNING.reset(token)


def _tracker(module: Any, info: Info, asked: dict[str, Any], outer: Frame | None) -> Tracker | None:
    rets, order = bool(asked.get("track_submod_rets")), bool(asked.get("track_submod_call_order"))
    expected = asked.get("expected_submod_rets")
    if not rets and not order and expected is None:
        if outer is None:
            if info.submod_rets or info.submod_call_order:
                info.submod_rets, info.submod_call_order = Container(), Container()
            return None
        return outer.tracker  # type: ignore[no-any-return]
    if TRACING.get() is not None:
        raise TraceError("track: there are no values to note while jit traces the call; call the module outside of it")
    info.submod_rets, info.submod_call_order = Container(), Container()
    return Tracker(
        module, rets or expected is not None, order, asked.get("submod_depth"), asked.get("submods_to_track"), expected
    )


def _stopped(x: Any) -> Any:
    return _core.stop_gradient(x) if _core._tree.is_array(x) else x


def stopped_at(v: Container, paths: set[str]) -> Container:
    """Variables of which some have no gradients."""
    if not paths:
        return v
    out = v.copy()
    for path in paths:
        if path in out:
            out[path] = _stopped(out[path])
    return out


def _frozen(module: Any) -> set[str]:
    """The paths of all frozen variables of a module and of those below."""
    info = info_of(module)
    found = set(info.frozen)
    for child in info.children:
        for path in _frozen(child.module):
            found.add(f"{child.place}/{path}" if isinstance(child.place, str) else child.place.get(path, ""))
    return {info.pruned.get(path, path) for path in found}


frozen_paths = _frozen


def routes(module: Any, v: Container, found: dict[int, Container] | None = None) -> dict[int, Container]:
    """The variables of a module and of all below it, by the module's id."""
    found = {} if found is None else found
    if id(module) in found:
        return found
    found[id(module)] = v
    for child in info_of(module).children:
        if isinstance(child.place, str):
            part = v[child.place]
        else:
            part = Container()
            for path, place in child.place.items():
                part[path] = v[place]
        routes(child.module, part, found)
    return found


def _built(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], with_v: bool) -> Info:
    """Builds at the first call what waits for it."""
    kind = module._kind
    info = info_of(module)
    if info.mode == "explicit" and info.created is None:
        raise StructureError(f'{label(module)}: build_mode is "explicit": call build() before the first call')
    if info.mode == "on_call" and info.created is None:
        if not info.args and not info.kwargs:
            info.args, info.kwargs = args, kwargs
        info.dtype = info.dtype if info.dtype is not None else _float_dtype(args, kwargs)
        try:
            ensure(module, kind, now=True)
        finally:
            # They were for the building alone; kept, they would stay alive with the module.
            if info.args is args:
                info.args, info.kwargs = (), {}
    ensure(module, kind)
    if (with_v or info.given is not None) and not is_built(module):
        # The children that wait for a call know their variables only after one.
        given, info.given = info.given, None
        token = RUNNING.set(Frame(RUNNING.get(), module))
        try:
            module._raw_call(*args, **kwargs)
        finally:
            RUNNING.reset(token)
            info.given = given
        info.fresh = False
        ensure(module, kind)
    sync_tied_weights(module)
    return info


def _float_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    for _, x in _pytree.entries([args, kwargs]):
        if _core._tree.is_array(x):
            dtype = _core.asarray(x).dtype
            if _core.isdtype(dtype, "real floating"):
                return dtype
    return None


def active(module: Any) -> Container:
    """The variables that count now."""
    found = routed(module)
    if found is not None:
        return found
    if info_of(module).store:
        return info_of(module).v
    return stored(module) if not info_of(module).leaves else Container()
