"""Programs as functions of a framework, handed to its own compiler where it has one."""

import functools
import importlib
import itertools
import linecache
import shutil
import sys
import warnings
import weakref
from collections.abc import Callable
from typing import Any

from .._convert.lowered import dialect, source
from .clusters import clustered
from .compiling import COMPILING
from .joined import joined, sum_of_pads
from .rows import handed_on, in_parts, run_rows, stacked
from .whole import is_whole

# torch's compiler takes from seconds to minutes: a program that runs a few times only is faster without.
RUNS_BEFORE = 2

# Where what is written to memory once is faster than what is read through padding; XLA sees through it.
_JOINED = frozenset({"numpy", "tensorflow", "torch"})

_NUMBERS = itertools.count()
_WIDE = frozenset({"float64", "int64", "uint64", "complex128"})


def _executed(text: str, ops: Any) -> Callable[..., Any]:
    """The function that a text defines; tracebacks, and compilers that read source, find its lines as long as it lives."""
    place = f"<clematis jit {next(_NUMBERS)}>"
    linecache.cache[place] = (len(text), None, text.splitlines(keepends=True), place)
    space: dict[str, Any] = {"__name__": "clematis._jit.programs", "ops": ops}
    space.update((f.__name__, f) for f in (in_parts, run_rows, stacked, sum_of_pads))
    exec(compile(text, place, "exec"), space)  # noqa: S102
    function: Callable[..., Any] = space["run"]
    # No line depends on values, so nothing is for tensorflow to rewrite.
    function.autograph_info__ = space["program"].autograph_info__ = {}  # type: ignore[attr-defined]
    weakref.finalize(function, linecache.cache.pop, place, None)
    return function


class Prepared:
    """A program of a framework, and how it is to be called."""

    __slots__ = ("context", "copies", "is_doubtful", "overwrites", "plan", "run")

    def __init__(self, run: Callable[..., Any]) -> None:
        # A function of arrays, which returns a tuple or a list of them, and what makes the context for it.
        self.run = run
        self.context: Callable[[], Any] | None = None
        # Where results share memory with nothing but the inputs that they overwrite: which inputs these are, what makes
        # copies of arrays, whether a call may fail after it has overwritten something.
        self.overwrites: list[int] = []
        self.copies: Callable[..., Any] | None = None
        self.is_doubtful: Callable[[], bool] | None = None
        # What is told about it.
        self.plan = ""


def prepared(graph: Any, framework: str) -> Prepared:
    """A graph as a function of a framework's arrays."""
    text = source(graph, framework, "program")
    if framework == "tensorflow" and COMPILING.get() and not is_whole(graph.text()):
        text = clustered(text, graph).replace("ops.run_scan(", "ops.run_steps(")
    if framework in _JOINED:
        text = joined(text)
    if framework == "torch" and "ops.run_scan(" in text:
        text = handed_on(text)
    names = ", ".join(f"x{i}" for i in range(len(graph.inputs())))
    text += f"\n\ndef run({names}):\n    return program(ops{', ' if names else ''}{names})\n"
    function = _executed(text, dialect(framework))
    maker = _MAKERS.get(framework) if COMPILING.get() else None
    made = Prepared(function) if maker is None else maker(function, graph)
    how = "one after the other" if maker is None else _HOW[framework]
    made.plan = f"{framework}: {len(graph.ops())} calls of its functions, {how}\n\n{text}"
    return made


def _is_wide(graph: Any) -> bool:
    """Whether jax has to be asked for 64 bits."""
    text: str = graph.text()
    dtypes = {dtype for _, _, dtype, _ in graph.inputs()} | {dtype for dtype, _ in graph.outputs()}
    return bool(dtypes & _WIDE) or any(word in text for word in ("f64", "i64", "u64", "c128"))


def _overwritten(graph: Any) -> list[int]:
    """The inputs that results replace which fit into their memory."""
    specs = [(dtype, sizes) for _, _, dtype, sizes in graph.inputs()]
    pairs = zip(graph.updates(), graph.outputs(), strict=True)
    return sorted({at for at, spec in pairs if at is not None and specs[at] == spec})


@functools.cache
def _jax_copies() -> Callable[..., Any]:
    """What makes copies of arrays of jax."""
    import jax

    return jax.jit(lambda *arrays: tuple(map(jax.numpy.copy, arrays)))


def _jax(function: Callable[..., Any], graph: Any) -> Prepared:
    import jax

    overwrites = _overwritten(graph)
    made = Prepared(jax.jit(function, donate_argnums=tuple(overwrites)))
    made.overwrites = overwrites
    made.copies = _jax_copies()
    # jax looks for NaN when a program has run, and raises.
    made.is_doubtful = lambda: jax.config.jax_debug_nans or jax.config.jax_debug_infs
    if _is_wide(graph):
        made.context = lambda: jax.enable_x64(True)
    return made


def _tensorflow(function: Callable[..., Any], graph: Any) -> Prepared:
    tf: Any = importlib.import_module("tensorflow")
    try:
        could_record = getattr(importlib.import_module("tensorflow.python.eager.record"), "could_possibly_record", None)
    except ImportError:
        could_record = None

    specs = [tf.TensorSpec([int(n) for n in sizes], dtype) for _, _, dtype, sizes in graph.inputs()]

    def made(compiler: bool | None) -> Callable[..., Any]:
        concrete: Any = tf.function(function, autograph=False, jit_compile=compiler).get_concrete_function(*specs)
        if not hasattr(concrete, "_call_flat"):
            return concrete  # type: ignore[no-any-return]
        captured, count = concrete.captured_inputs, len(graph.outputs())

        # Past the comparison of each argument with its spec, which takes longer than many a program: they are known to fit.
        def whole(*arrays: Any) -> Any:
            return concrete._call_flat([*arrays], captured)

        inner = getattr(concrete, "_inference_function", None)
        call = getattr(getattr(inner, "_bound_context", None), "call_function", None)
        if call is None or could_record is None or not count:
            return whole

        def run(*arrays: Any) -> Any:
            if could_record() or not tf.executing_eagerly():
                return whole(*arrays)
            # Nobody differentiates or traces: past what looks for that, too.
            return call(inner.name, [*arrays, *captured], count)

        return run

    if not is_whole(graph.text()):
        return Prepared(made(None))
    return Prepared(_Whole(made(True), lambda: made(None), tf.errors.OpError))


class _Whole:
    """A program that tensorflow's compiler is given whole, or runs without it where that refuses it at first."""

    __slots__ = ("is_tried", "otherwise", "refusal", "run")

    def __init__(self, run: Callable[..., Any], otherwise: Callable[[], Callable[..., Any]], refusal: type[Exception]) -> None:
        self.run, self.otherwise, self.refusal, self.is_tried = run, otherwise, refusal, False

    def __call__(self, *arrays: Any) -> Any:
        if self.is_tried:
            return self.run(*arrays)
        try:
            out = self.run(*arrays)
        except self.refusal as e:
            plain = self.otherwise()
            out = plain(*arrays)
            self.run = plain
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            warnings.warn(f"jit: tensorflow's compiler refused a program, which runs without it: {reason}", stacklevel=2)
        self.is_tried = True
        return out


@functools.cache
def _has_compiler() -> bool:
    """Whether a compiler of C++ is at hand, which torch's own needs on a processor."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl"))


def _torch_options() -> dict[str, Any]:
    """Without comparisons of each function that a program names with what it was: nothing else can set these names. Those of
    arrays and of torch's own state stay."""
    import torch

    kept = getattr(torch.compiler, "skip_guard_on_globals_unsafe", None)
    return {} if kept is None else {"guard_filter_fn": kept}


def _is_refusal(error: BaseException) -> bool:
    """Whether an error of compiling is the compiler's own: what a signal handler raises, say, is none."""
    seen: list[BaseException | None] = [error]
    while seen:
        at = seen.pop()
        if at is None:
            continue
        if isinstance(at, TimeoutError) or type(at).__module__.partition(".")[0] not in _COMPILERS:
            return False
        seen += [at.__cause__ or at.__context__, getattr(at, "inner_exception", None)]
    return True


# Whose exceptions a compiler's own are.
_COMPILERS = ("builtins", "torch", "sympy", "subprocess", "mpmath")


class _Torch:
    """Straight-line torch at first, then what its compiler makes of it."""

    __slots__ = ("compiled", "function", "has_loops", "runs")

    def __init__(self, function: Callable[..., Any], has_loops: bool) -> None:
        self.function, self.has_loops, self.runs = function, has_loops, 0
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *arrays: Any) -> Any:
        if self.compiled is not None:
            return self.compiled(*arrays)
        self.runs += 1
        if self.runs <= RUNS_BEFORE:
            return self.function(*arrays)
        return self._first(arrays)

    def _first(self, arrays: tuple[Any, ...]) -> Any:
        if self.has_loops and all(x.is_cpu for x in arrays):
            # Hundreds of short kernels: in Python what goes on between them is a tenth of the time. Not every op can be called so.
            try:
                compiled = self._compiled({"cpp_wrapper": True})
                out = compiled(*arrays)
                self.compiled = compiled
                return out
            except Exception as e:
                if not _is_refusal(e):
                    raise
        try:
            compiled = self._compiled({})
            out = compiled(*arrays)
        except Exception as e:
            if not _is_refusal(e):
                raise
            # What is wrong with the arrays is wrong without a compiler, too, and is told from there.
            out = self.function(*arrays)
            self.compiled = self.function
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            warnings.warn(f"jit: torch.compile refused a program, which runs without it: {reason}", stacklevel=2)
            return out
        self.compiled = compiled
        return out

    def _compiled(self, options: dict[str, Any]) -> Callable[..., Any]:
        import torch

        options = {**_torch_options(), **options}
        return torch.compile(self.function, dynamic=False, fullgraph=True, options=options or None)


def _torch(function: Callable[..., Any], graph: Any) -> Prepared:
    if not _has_compiler() or sys.platform == "win32":
        return Prepared(function)
    return Prepared(_Torch(function, "scan" in graph.ops()))


_MAKERS: dict[str, Callable[..., Prepared]] = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}
_HOW = {
    "jax": "compiled by jax.jit",
    "tensorflow": "compiled by tf.function",
    "torch": f"compiled by torch.compile from run {RUNS_BEFORE + 1} on",
}
