"""The call of a module: with its own variables or with others, with gradients or without, with hooks.

All that a call needs is in a frame that ends with it, whatever happens inside.
"""

import functools
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from .. import _clematis as _core
from .._placement import backend_of_tree, moved
from ..container import Container
from ..errors import ClematisError
from ..gradients import with_grads as gradients_wanted
from ..gradients import with_grads_stack
from .build import ensure, fitted, is_built, sync_tied_weights
from .hooks import after, before
from .info import RUNNING, TRACING, Frame, info_of, label, routed

# The words of `_module.ivy`: a call with one of these is recorded.
TRACKING = frozenset(
    ("track_submod_rets", "submod_depth", "submods_to_track", "track_submod_call_order", "expected_submod_rets")
)
# What every call takes besides the arguments of the forward pass; those of Ivy's compiler are accepted and not used.
WORDS = TRACKING | {"v", "with_grads", "stateful", "arg_stateful_idxs", "kwarg_stateful_idxs"}


# What calls modules in the place of `run`, in this context alone: it sees each call of a module and its sub-modules.
AROUND: ContextVar[Callable[..., Any] | None] = ContextVar("around", default=None)


def forward_of(kind: type) -> Callable[..., Any]:
    """The forward pass that a class of modules defines: `__call__`, or Ivy's `_forward`."""
    call: Any = kind.__call__
    inner: Callable[..., Any] = getattr(call, "__wrapped__", call)
    return kind._forward if getattr(inner, "is_forward", False) else inner  # type: ignore[attr-defined]


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
    asked = kwargs
    if kwargs:
        inner = type(module)._forward if getattr(function, "is_forward", False) else function
        asked = {word: kwargs.pop(word) for word in _words(inner) if word in kwargs}
    info, outer, tracing = info_of(module), RUNNING.get(), TRACING.get()
    if tracing is not None:
        tracing.register_module(module)
    frame = Frame(outer, module)
    v, recipe = asked.get("v"), info.recipe
    if recipe is not None:
        recipe.before_call(module, args, kwargs, v is not None)
    if outer is None or not info.fresh:
        ensure(module)
    if v is not None and not is_built(module):
        from .ivy import build_children

        build_children(module, args, kwargs)
    if info.tied:
        sync_tied_weights(module)
    own = routed(module)
    if v is not None:
        own = stopped_at(fitted(module, v, recipe is not None and recipe.partial), frozen_paths(module))
    frame.grads = asked.get("with_grads")
    if frame.grads is None and outer is not None:
        frame.grads = outer.grads
    if (frame.grads is not None or with_grads_stack) and not gradients_wanted(with_grads=frame.grads):
        if v is not None or outer is None or outer.grads is not False or own is None:
            frame.route(routes(module, (info.v if own is None else own).map(_stopped)))
        frame.grads = False
    elif v is not None and own is not None:
        frame.route(routes(module, own))
    if not TRACKING.isdisjoint(asked):
        from .ivy.track import tracker

        frame.tracker = tracker(module, asked, frame.tracker)
    elif outer is None:
        info.tracked = None
    scope: Any = None
    if outer is None and module._moves_arguments and not _are_tensors(args, kwargs):
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
        if frame.tracker is None:
            ret = function(module, *args, **kwargs)
        else:
            ret = frame.tracker.call(module, function, args, kwargs)
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


def _are_tensors(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    for x in args:
        if type(x) is not _core.Tensor:
            return False
    return not kwargs or all(type(x) is _core.Tensor for x in kwargs.values())


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


def frozen_paths(module: Any) -> set[str]:
    """The paths of all frozen variables of a module and of those below."""
    info = info_of(module)
    found = set(info.frozen)
    for child in info.children:
        for path in frozen_paths(child.module):
            found.add(f"{child.place}/{path}" if isinstance(child.place, str) else child.place.get(path, ""))
    return {info.pruned.get(path, path) for path in found}


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
