"""Compiles graphs to functions of a framework: printed as source in the dialect's operators, compiled and cached."""

import functools
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from .. import _clematis as _core
from ..errors import BackendError

_NUMBERS = itertools.count()


def require(package: str, needed_for: str) -> None:
    """Raises an error if a package is not installed; nothing is imported."""
    from importlib.util import find_spec

    if package not in sys.modules and find_spec(package) is None:
        raise BackendError(f"{needed_for}: the package {package} is not installed")


@functools.cache
def dialect(framework: str) -> Any:
    """The module that printed source uses as `ops`."""
    ops = _core._dialect(framework)  # type: ignore[attr-defined]
    if hasattr(ops, "for_source"):
        return ops.for_source()
    return _without_caches(ops) if framework == "torch" else ops


def _without_caches(module: ModuleType, done: dict[int, Any] | None = None) -> ModuleType:
    """The same functions without their caches: sizes that torch is tracing are symbolic and cannot be cached."""
    done = {} if done is None else done
    if id(module) in done:
        return done[id(module)]  # type: ignore[no-any-return]
    new = done[id(module)] = ModuleType(module.__name__)
    for name, x in vars(module).items():
        if isinstance(x, ModuleType) and x.__name__.startswith("clematis._dialects."):
            x = _without_caches(x, done)
        inner = getattr(x, "__wrapped__", x) if hasattr(x, "cache_info") else x
        if isinstance(inner, FunctionType) and inner.__module__ == module.__name__:
            x = FunctionType(inner.__code__, new.__dict__, inner.__name__, inner.__defaults__, inner.__closure__)
            x.__kwdefaults__ = inner.__kwdefaults__
            done[id(inner)] = x
        setattr(new, name, x)
    for name, x in list(vars(new).items()):
        # Functions imported from the other files of the dialect.
        setattr(new, name, done.get(id(x), x) if isinstance(x, FunctionType) else x)
    return new


@functools.cache
def _refuses(framework: str) -> frozenset[str]:
    """The functions that may return NotImplemented."""
    found = set()
    for name, f in vars(_core._dialect(framework)).items():  # type: ignore[attr-defined]
        if not callable(f) or name.startswith("_"):
            continue
        try:
            text = inspect.getsource(inspect.unwrap(f))
        except (TypeError, OSError):
            continue
        if "NotImplemented" in text:
            found.add(name)
    return frozenset(found)


def source(graph: Any, framework: str, name: str = "forward") -> str:
    """A graph as the source of a function `name(ops, *inputs)`."""
    return _core._lower(graph, framework, name, _refuses(framework))  # type: ignore[attr-defined, no-any-return]


_COMPILED: dict[tuple[str, str], Callable[..., Any]] = {}


def compiled(text: str, name: str = "forward") -> Callable[..., Any]:
    """Compiles source to a function; tracebacks, and compilers that read source, find its lines."""
    known = _COMPILED.get((text, name))
    if known is not None:
        return known
    place = f"<clematis program {next(_NUMBERS)}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    space: dict[str, Any] = {"__name__": "clematis._convert.lowered"}
    exec(compile(text, place, "exec"), space)  # noqa: S102
    function: Callable[..., Any] = space[name]
    # No line depends on values, so tensorflow's autograph has nothing to rewrite.
    function.autograph_info__ = {}  # type: ignore[attr-defined]
    _COMPILED[text, name] = function
    return function


_LOWERED: dict[tuple[str, str], Callable[..., Any]] = {}


def function(text: str, framework: str) -> Callable[..., Any]:
    """The function on a framework's arrays for a graph, given as text."""
    known = _LOWERED.get((text, framework))
    if known is None:
        known = _LOWERED[text, framework] = compiled(source(_core._Graph(text), framework))  # type: ignore[call-arg]
    return known


_SHORT = {
    "bool": "bool", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64", "int8": "i8", "int16": "i16",
    "int32": "i32", "int64": "i64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "complex64": "c64", "complex128": "c128",
}  # fmt: skip


def short(dtype: str) -> str:
    """A dialect's name of a dtype."""
    return _SHORT[dtype]


def cast(ops: Any, x: Any, given: str, wanted: str) -> Any:
    """Casts an array to the dtype that a program takes."""
    if given == wanted:
        return x
    dtype = ops.DTYPES[_SHORT[wanted]]
    return ops.in_64(ops.cast, x, dtype=dtype) if hasattr(ops, "in_64") else ops.cast(x, dtype=dtype)
