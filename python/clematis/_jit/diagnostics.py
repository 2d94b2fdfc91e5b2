"""Warnings and error notes of `cm.jit`: repeated compilation, evicted programs, values read while tracing."""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core

# The number of compilations of one function at which the user is warned first; each doubling warns again.
MANY_COMPILATIONS = 8

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def name(function: Callable[..., Any]) -> str:
    """The qualified name of a function with its file and line."""
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    called = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    return called if code is None else f"{called} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def spec(x: Any) -> str:
    """The dtype and shape of an array, as `float32[2,3]`."""
    if isinstance(x, _core._random.Key):
        return "key"
    t = _core.asarray(x)
    return f"{t.dtype.name}[{','.join(map(str, t.shape))}]"


def user_stacklevel() -> int:
    """The `stacklevel` of the innermost frame outside of this package, for warnings."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, count = frame.f_back, count + 1
    return count


def warn(text: str) -> None:
    """Warns at the line of user code that made the call."""
    warnings.warn(text, RuntimeWarning, stacklevel=user_stacklevel())


def warn_of_recompilation(jitted: Any, program: Any, others: list[Any]) -> None:
    """Warns when a function has been compiled many times, and names the argument that differs."""
    count = jitted.compilations
    if count < MANY_COMPILATIONS or count & (count - 1):
        return
    last = max(others, key=lambda one: one.last_used, default=None)
    which = ""
    advice = "see what changes with `cm.explain`, or make it constant"
    if last is not None and last.specs != program.specs and len(last.specs) == len(program.specs):
        at = next(i for i, (a, b) in enumerate(zip(last.specs, program.specs, strict=True)) if a != b)
        which = f", the last for {program.argument_names[at]}: {program.specs[at]} after {last.specs[at]}"
        advice = "pass arrays of one shape: pad them, or drop the last, smaller batch (cm.data: drop_last=True)"
    elif last is not None and last.statics != program.statics:
        which = f", the last for the static arguments {[x[2] for x in program.statics]}"
        advice = "do not make an argument static that differs at each call"
    elif last is not None and last.specs == program.specs:
        which = ", the last for arrays of the same specs with a different number, mode or object"
        advice = "pass a number that changes as an array: cm.asarray(x)"
    warn(f"jit: {name(jitted.__wrapped__)} was compiled {count} times{which}; {advice}")


def warn_of_eviction(jitted: Any) -> None:
    """Warns when the cache of a function evicts a program for the first time."""
    if jitted.evictions == 1:
        warn(
            f"jit: {name(jitted.__wrapped__)} has {jitted._limit} programs; each new one evicts the least recently used;"
            " pass arrays of fewer shapes, or raise cm.jit(f, limit=...)"
        )


def add_trace_notes(error: BaseException, function: Callable[..., Any]) -> None:
    """Adds notes to a trace error: the line of user code that raised it, and what to write instead."""
    place, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_PACKAGE) and not file.startswith("<"):
            place = f"{os.path.basename(file)}:{step.tb_lineno}"
        step = step.tb_next
    error.add_note(f"while jit traced {name(function)}" + (f", at {place}" if place else ""))
    if "has no value" in str(error):
        error.add_note(
            "pass a value that decides on shapes or branches as a static argument (static_argnums, static_argnames);"
            " for control flow on arrays use cm.where, cm.cond, cm.while_loop or cm.scan"
        )
