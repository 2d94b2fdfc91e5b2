"""What users are told: where they are, what was compiled again and why, what a trace cannot do."""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core

# After so many programs of one function, and after each doubling, a user is told.
MANY = 8

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def name(function: Callable[..., Any]) -> str:
    """A function and where it stands."""
    inner: Any = function
    while hasattr(inner, "__wrapped__"):
        inner = inner.__wrapped__
    code = getattr(inner, "__code__", None)
    called = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__name__
    return called if code is None else f"{called} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def spec(x: Any) -> str:
    """Type and shape of an array."""
    if isinstance(x, _core._random.Key):
        return "key"
    t = _core.asarray(x)
    return f"{t.dtype.name}[{','.join(map(str, t.shape))}]"


def level() -> int:
    """How far up the caller's own line is, for warnings."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame, count = frame.f_back, count + 1
    return count


def warn(text: str) -> None:
    """A warning at the line of the user's that led here."""
    warnings.warn(text, RuntimeWarning, stacklevel=level())


def about_compilations(jitted: Any, made: Any, others: list[Any]) -> None:
    """Many programs of one function mean that something changes at each call."""
    count = jitted.compilations
    if count < MANY or count & (count - 1):
        return
    last = max(others, key=lambda one: one.used, default=None)
    which = ""
    advice = "see what changes with `cm.explain`, or make it the same"
    if last is not None and last.specs != made.specs and len(last.specs) == len(made.specs):
        at = next(i for i, (a, b) in enumerate(zip(last.specs, made.specs, strict=True)) if a != b)
        which = f", the last for {made.arguments[at]}: {made.specs[at]} after {last.specs[at]}"
        advice = "give arrays of one shape: pad them, or drop the last, smaller batch (cm.data: drop_last=True)"
    elif last is not None and last.statics != made.statics:
        which = f", the last for the static arguments {[x[2] for x in made.statics]}"
        advice = "an argument that is another one at each call is no static one"
    elif last is not None and last.specs == made.specs:
        which = ", the last for the same arrays beside another number, mode or object"
        advice = "give a number that changes as an array: cm.asarray(x)"
    warn(f"jit: {name(jitted.__wrapped__)} was compiled {count} times{which}; {advice}")


def about_eviction(jitted: Any) -> None:
    """Room was made for a new program."""
    if jitted.evictions == 1:
        warn(
            f"jit: {name(jitted.__wrapped__)} has {jitted._limit} programs, and the one that was not used for longest is"
            " dropped for each new one; give arrays of fewer shapes, or cm.jit(f, limit=...)"
        )


def explain(error: BaseException, function: Callable[..., Any]) -> None:
    """Adds to an error where in the user's code it came up, and what to write instead."""
    place, step = None, error.__traceback__
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if not file.startswith(_HERE) and not file.startswith("<"):
            place = f"{os.path.basename(file)}:{step.tb_lineno}"
        step = step.tb_next
    error.add_note(f"while jit traced {name(function)}" + (f", at {place}" if place else ""))
    if "has no value" in str(error):
        error.add_note(
            "what decides on shapes or ways is to be a plain value: name its argument in static_argnums or"
            " static_argnames; what depends on arrays goes by cm.where, cm.cond, cm.while_loop or cm.scan"
        )
