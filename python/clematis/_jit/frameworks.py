"""Compiles a graph with jax.jit, torch.compile or tf.function, or runs it as straight-line NumPy."""

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
from .clusters import cluster
from .compiling import USE_COMPILER
from .xla_policy import compile_whole

# torch.compile takes from seconds to minutes, so the first runs are eager.
EAGER_RUNS = 2

_NUMBERS = itertools.count()
_WIDE = frozenset({"float64", "int64", "uint64", "complex128"})


def _executed(text: str, ops: Any) -> Callable[..., Any]:
    """The function that a source text defines. `linecache` keeps the text while the function lives, for tracebacks and for
    compilers that read source."""
    filename = f"<clematis jit {next(_NUMBERS)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    space: dict[str, Any] = {"__name__": "clematis._jit.programs", "ops": ops}
    exec(compile(text, filename, "exec"), space)  # noqa: S102
    function: Callable[..., Any] = space["run"]
    # The program has no control flow on values, so AutoGraph has nothing to convert.
    function.autograph_info__ = space["program"].autograph_info__ = {}  # type: ignore[attr-defined]
    weakref.finalize(function, linecache.cache.pop, filename, None)
    return function


class Prepared:
    """A program as a framework's function, with the context and the donation that calls need."""

    __slots__ = ("context", "copies", "is_doubtful", "overwrites", "plan", "run")

    def __init__(self, run: Callable[..., Any]) -> None:
        # A function from arrays to a tuple or list of arrays, and a factory of the context manager for its calls.
        self.run = run
        self.context: Callable[[], Any] | None = None
        # Donation: the inputs whose memory results reuse, a function that copies arrays, and whether a call may raise
        # after it has overwritten donated inputs.
        self.overwrites: list[int] = []
        self.copies: Callable[..., Any] | None = None
        self.is_doubtful: Callable[[], bool] | None = None
        # The text that `cm.explain` shows.
        self.plan = ""


def prepared(graph: Any, framework: str, has_unrolled: bool) -> Prepared:
    """Compiles a graph to a function of a framework's arrays; `has_unrolled` says whether its loops were unrolled."""
    text = source(graph, framework, "program")
    if framework == "tensorflow" and USE_COMPILER.get() and not compile_whole(graph.text()):
        text = cluster(text, graph).replace("ops.run_scan(", "ops.run_steps(")
    names = ", ".join(f"x{i}" for i in range(len(graph.inputs())))
    text += f"\n\ndef run({names}):\n    return program(ops{', ' if names else ''}{names})\n"
    function = _executed(text, dialect(framework))
    compiler = _COMPILERS.get(framework) if USE_COMPILER.get() else None
    program = Prepared(function) if compiler is None else compiler(function, graph, has_unrolled)
    how = "run op by op" if compiler is None else _HOW[framework]
    program.plan = f"{framework}: {len(graph.ops())} ops, {how}\n\n{text}"
    return program


def _is_wide(graph: Any) -> bool:
    """Whether a graph has 64-bit values, for which jax needs `enable_x64`."""
    text: str = graph.text()
    dtypes = {dtype for _, _, dtype, _ in graph.inputs()} | {dtype for dtype, _ in graph.outputs()}
    return bool(dtypes & _WIDE) or any(word in text for word in ("f64", "i64", "u64", "c128"))


def _overwritten(graph: Any) -> list[int]:
    """The inputs that results update in place: those with the same dtype and shape."""
    specs = [(dtype, sizes) for _, _, dtype, sizes in graph.inputs()]
    pairs = zip(graph.updates(), graph.outputs(), strict=True)
    return sorted({at for at, spec in pairs if at is not None and specs[at] == spec})


@functools.cache
def _jax_copies() -> Callable[..., Any]:
    """A compiled function that copies jax arrays."""
    import jax

    return jax.jit(lambda *arrays: tuple(map(jax.numpy.copy, arrays)))


def _jax(function: Callable[..., Any], graph: Any, has_unrolled: bool) -> Prepared:
    import jax

    overwrites = _overwritten(graph)
    program = Prepared(jax.jit(function, donate_argnums=tuple(overwrites)))
    program.overwrites = overwrites
    program.copies = _jax_copies()
    # With these options jax checks for NaN and infinity after the run, and raises.
    program.is_doubtful = lambda: jax.config.jax_debug_nans or jax.config.jax_debug_infs
    if _is_wide(graph):
        program.context = lambda: jax.enable_x64(True)
    return program


def _tensorflow(function: Callable[..., Any], graph: Any, has_unrolled: bool) -> Prepared:
    tf: Any = importlib.import_module("tensorflow")
    try:
        could_record = getattr(importlib.import_module("tensorflow.python.eager.record"), "could_possibly_record", None)
    except ImportError:
        could_record = None

    specs = [tf.TensorSpec([int(n) for n in sizes], dtype) for _, _, dtype, sizes in graph.inputs()]

    def compiled(jit_compile: bool | None) -> Callable[..., Any]:
        concrete: Any = tf.function(function, autograph=False, jit_compile=jit_compile).get_concrete_function(*specs)
        if not hasattr(concrete, "_call_flat"):
            return concrete  # type: ignore[no-any-return]
        captured, count = concrete.captured_inputs, len(graph.outputs())

        # Skips the check of each argument against its spec, which can take longer than the program: jit has checked them.
        def call_flat(*arrays: Any) -> Any:
            return concrete._call_flat([*arrays], captured)

        inner = getattr(concrete, "_inference_function", None)
        call = getattr(getattr(inner, "_bound_context", None), "call_function", None)
        if call is None or could_record is None or not count:
            return call_flat

        def run(*arrays: Any) -> Any:
            if could_record() or not tf.executing_eagerly():
                return call_flat(*arrays)
            # No tape and no enclosing tf.function: skips the code that handles them.
            return call(inner.name, [*arrays, *captured], count)

        return run

    if not compile_whole(graph.text()):
        return Prepared(compiled(None))
    return Prepared(_XlaProgram(compiled(True), lambda: compiled(None), tf.errors.OpError))


class _XlaProgram:
    """A program that XLA compiles whole, with a fallback if XLA fails at the first call."""

    __slots__ = ("error", "fallback", "has_run", "run")

    def __init__(self, run: Callable[..., Any], fallback: Callable[[], Callable[..., Any]], error: type[Exception]) -> None:
        self.run, self.fallback, self.error, self.has_run = run, fallback, error, False

    def __call__(self, *arrays: Any) -> Any:
        if self.has_run:
            return self.run(*arrays)
        try:
            out = self.run(*arrays)
        except self.error as e:
            fallback = self.fallback()
            out = fallback(*arrays)
            self.run = fallback
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            warnings.warn(f"jit: XLA cannot compile a program, which runs without XLA: {reason}", stacklevel=2)
        self.has_run = True
        return out


@functools.cache
def _has_compiler() -> bool:
    """Whether a C++ compiler is on the path, which torch.compile needs on CPU."""
    return any(shutil.which(name) for name in ("g++", "clang++", "c++", "cl"))


def _torch_options() -> dict[str, Any]:
    """Options that skip guards on the globals of a program, which nothing else can set. Guards on tensors and on torch's
    own state stay."""
    import torch

    guard_filter = getattr(torch.compiler, "skip_guard_on_globals_unsafe", None)
    return {} if guard_filter is None else {"guard_filter_fn": guard_filter}


def _is_compiler_error(error: BaseException) -> bool:
    """Whether the compiler itself raised an error, not a signal handler or a timeout."""
    seen: list[BaseException | None] = [error]
    while seen:
        at = seen.pop()
        if at is None:
            continue
        if isinstance(at, TimeoutError) or type(at).__module__.partition(".")[0] not in _COMPILER_PACKAGES:
            return False
        seen += [at.__cause__ or at.__context__, getattr(at, "inner_exception", None)]
    return True


# Packages whose exceptions torch.compile raises.
_COMPILER_PACKAGES = ("builtins", "torch", "sympy", "subprocess", "mpmath")


class _Torch:
    """A torch program: eager for the first `EAGER_RUNS` calls, then compiled by torch.compile."""

    __slots__ = ("compiled", "function", "has_loops", "runs")

    def __init__(self, function: Callable[..., Any], has_loops: bool) -> None:
        self.function, self.has_loops, self.runs = function, has_loops, 0
        self.compiled: Callable[..., Any] | None = None

    def __call__(self, *arrays: Any) -> Any:
        if self.compiled is not None:
            return self.compiled(*arrays)
        self.runs += 1
        if self.runs <= EAGER_RUNS:
            return self.function(*arrays)
        return self._compile_and_run(arrays)

    def _compile_and_run(self, arrays: tuple[Any, ...]) -> Any:
        if self.has_loops and all(x.is_cpu for x in arrays):
            # The C++ wrapper saves the Python dispatch between hundreds of short kernels, a tenth of the time. It does not
            # support every op.
            try:
                compiled = self._compiled({"cpp_wrapper": True})
                out = compiled(*arrays)
                self.compiled = compiled
                return out
            except Exception as e:
                if not _is_compiler_error(e):
                    raise
        try:
            compiled = self._compiled({})
            out = compiled(*arrays)
        except Exception as e:
            if not _is_compiler_error(e):
                raise
            # If the arguments are at fault, the eager call raises the clearer error.
            out = self.function(*arrays)
            self.compiled = self.function
            reason = str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__
            warnings.warn(f"jit: torch.compile cannot compile a program, which runs without it: {reason}", stacklevel=2)
            return out
        self.compiled = compiled
        return out

    def _compiled(self, options: dict[str, Any]) -> Callable[..., Any]:
        import torch

        options = {**_torch_options(), **options}
        return torch.compile(self.function, dynamic=False, fullgraph=True, options=options or None)


def _torch(function: Callable[..., Any], graph: Any, has_unrolled: bool) -> Prepared:
    if not _has_compiler() or sys.platform == "win32":
        return Prepared(function)
    return Prepared(_Torch(function, has_unrolled or "scan" in graph.ops()))


_COMPILERS: dict[str, Callable[..., Prepared]] = {"jax": _jax, "tensorflow": _tensorflow, "torch": _torch}
_HOW = {
    "jax": "compiled by jax.jit",
    "tensorflow": "compiled by tf.function",
    "torch": f"compiled by torch.compile from run {EAGER_RUNS + 1} on",
}
