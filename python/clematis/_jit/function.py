"""`cm.jit`: traces a function, caches the compiled programs, and runs them."""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable
from sys import getrefcount
from typing import Any

from .. import _clematis as _core
from .._module.info import TRACING
from .._placement import backend_of, is_elsewhere
from ..errors import ArgumentError, TraceError
from ..gradients import with_grads
from . import diagnostics, pytree
from .compiling import USE_COMPILER
from .container_slots import ContainerSlot
from .tracing import BackendMismatch, Slot, Tracing, UnbuiltModule, UsedModule, UsedOptimizer, donatable_inputs

_flat = _core._flat  # type: ignore[attr-defined]
_is_recording = _core._is_recording  # type: ignore[attr-defined]

# The reference count of an object that one list and one owner refer to. The list lives while it is counted.
_HOLDER = [object()]
_UNIQUE_REFCOUNT = getrefcount(_HOLDER[0]) + 1

# The default size of the program cache of a function.
CACHE_SIZE = 64


class CompiledProgram:
    """A compiled program with the inputs and outputs that its graph does not describe."""

    __slots__ = (
        "argument_names", "argument_writes", "backend", "donatable", "grads", "has_run", "keepalive", "last_used", "owners",
        "program", "result_count", "slot_writes", "slots", "specs", "statics", "transferred", "unflatten",
    )  # fmt: skip

    program: Any
    # State that is an input besides the arguments, and state that is written: the index of the output, the slot.
    slots: list[Slot]
    slot_writes: list[tuple[int, Slot]]
    # Inputs that may be donated, with the list and dict items that refer to them as well.
    donatable: list[tuple[int, list[ContainerSlot]]]
    # Arguments that the function changes: the index of the output, then a path in the arguments or the leaf itself.
    argument_writes: list[tuple[int, pytree.Path, int | None]]
    owners: list[UsedModule | UsedOptimizer]
    # Makes the result tree from its leaves, of which there are so many.
    unflatten: Callable[..., Any]
    result_count: int
    backend: str
    # Arguments that are not tensors and come from another backend: they are transferred at each call.
    transferred: list[int]
    grads: bool
    specs: list[str]
    argument_names: list[str]
    statics: tuple[Any, ...]
    # Objects that the cache key knows by address.
    keepalive: list[Any]
    has_run: bool
    last_used: int

    def is_valid(self) -> bool:
        """Whether the modules and optimizers of the trace still have the settings that it depends on."""
        return self.grads is with_grads() and all(owner.is_unchanged() for owner in self.owners)

    def write(self, outs: list[Any], leaves: list[Any], tree: Any) -> None:
        """Writes updated values to arguments, modules and optimizers. Idempotent."""
        for at, path, leaf in self.argument_writes:
            if leaf is None:
                pytree.put(tree, path, outs[at])
            else:
                _core._put(leaves[leaf], outs[at])  # type: ignore[attr-defined]
        for at, slot in self.slot_writes:
            slot.write(outs[at])  # type: ignore[union-attr]
        for owner in self.owners:
            owner.end_run()


class Jitted:
    """A function compiled by `cm.jit`.

    Attributes
    ----------
    compilations : int
        How often the function was compiled.
    evictions : int
        How many programs were evicted from the cache.
    """

    def __init__(self, function: Callable[..., Any], statics: tuple[Any, Any], limit: int, compiler: bool, fast: bool):
        functools.update_wrapper(self, function)
        self._function, self._limit, self._compiler, self._fast = function, limit, compiler, fast
        self._names = _parameter_names(function)
        self._static = _static_arguments(function, self._names, *statics)
        self._programs: dict[Any, list[CompiledProgram]] = {}
        # Tracing puts tracers into modules, and a step reads and writes state: one thread at a time.
        self._lock = threading.RLock()
        self._clock = itertools.count()
        self.compilations = self.evictions = 0

    def __repr__(self) -> str:
        return f"<jit of {diagnostics.name(self._function)}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        return _rebuild, (self._function, self._static, self._limit, self._compiler, self._fast)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Inside another trace, ours or a framework's, the function is inlined.
        if TRACING.get() is not None or _is_recording():
            return self._function(*args, **kwargs)
        statics: tuple[Any, ...] = ()
        tree: Any = (args, kwargs)
        if self._static != ((), ()):
            statics, tree = self._split_static(args, kwargs)
        leaves, key, keepalive, known = _flat(tree)
        if not known:
            return self._function(*args, **kwargs)
        if not leaves:
            # Without arrays the backend is that of new tensors.
            key = (*key, _core.current_backend())
        compiled = self._lookup((key, statics))
        if compiled is None:
            try:
                compiled = self._trace((key, statics), args, kwargs, tree, leaves, keepalive)
            except UnbuiltModule:
                # This call builds the module; the next one traces it.
                return self._function(*args, **kwargs)
            if compiled is None:
                return self._function(*args, **kwargs)
        if compiled.slot_writes or compiled.argument_writes:
            with self._lock:
                # Another thread may have replaced arrays in the arguments meanwhile.
                out = self._run(compiled, _flat(tree)[0] if compiled.argument_writes else leaves, tree)
        else:
            out = self._run(compiled, leaves, tree)
        return self._function(*args, **kwargs) if out is _TRACED else out

    # Compilation and the cache.

    def _lookup(self, key: Any) -> CompiledProgram | None:
        try:
            found = self._programs.get(key)
        except TypeError:
            where = diagnostics.name(self._function)
            raise ArgumentError(f"jit: {where}: expected static arguments that can be hashed, got {key[1]!r}") from None
        for compiled in found or ():
            if compiled.is_valid():
                compiled.last_used = next(self._clock)
                return compiled
        return None

    def _split_static(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Splits arguments into static ones, with their types, and the others."""
        places, names = self._static
        statics: list[tuple[int | str, type, Any]]
        statics = [(i, type(args[i]), args[i]) for i in places if i < len(args)]
        statics += [(name, type(kwargs[name]), kwargs[name]) for name in names if name in kwargs]
        rest = tuple(None if i in places else x for i, x in enumerate(args))
        return tuple(statics), (rest, {name: x for name, x in kwargs.items() if name not in names})

    def _trace(
        self, key: Any, args: Any, kwargs: Any, tree: Any, leaves: list[Any], keepalive: list[Any]
    ) -> CompiledProgram | None:
        with self._lock:
            compiled = self._lookup(key)
            if compiled is None:
                compiled = self._compile(args, kwargs, tree, leaves, keepalive)
                if compiled is None:
                    return None
                compiled.statics = key[1]
                self._store(key, compiled)
            return compiled

    def _compile(
        self, args: Any, kwargs: Any, tree: Any, leaves: list[Any], keepalive: list[Any]
    ) -> CompiledProgram | None:
        tensors = [x for x in leaves if isinstance(x, _core.Tensor)]
        arrays = tensors or [x for x in leaves if pytree.is_array(x)]
        backend = backend_of(arrays[0]) if arrays else None
        backend = backend or _core.current_backend()
        try:
            return self._compile_on(backend, bool(arrays) and not tensors, args, kwargs, tree, leaves, keepalive)
        except BackendMismatch as other:
            return self._compile_on(other.backend, False, args, kwargs, tree, leaves, keepalive)

    def _compile_on(
        self, backend: str, follows: bool, args: Any, kwargs: Any, tree: Any, leaves: list[Any], keepalive: list[Any]
    ) -> CompiledProgram | None:
        compiled = CompiledProgram()
        compiled.backend = backend
        compiled.keepalive, compiled.has_run = keepalive, False
        compiled.grads, compiled.last_used = with_grads(), next(self._clock)
        compiled.specs = [diagnostics.spec(x) for x in leaves]
        compiled.transferred = [i for i, x in enumerate(leaves) if is_elsewhere(x, backend)]
        leaves = _transfer(compiled, leaves)
        compiled.argument_names = [pytree.spelled(path, self._names) for path, _ in pytree.leaves(tree)]
        tracing: Tracing | None = None

        def run(lift: Any) -> list[tuple[Any, int | None]]:
            nonlocal tracing
            named = zip(leaves, compiled.argument_names, strict=True)
            traced = [lift(x, "input", f"{i}:{name}") for i, (x, name) in enumerate(named)]
            tracing = Tracing(lift, len(traced), backend, follows)
            numbers = [lift.number(x) for x in traced]
            given = self._traced_arguments(args, kwargs, tree, traced)
            before = pytree.refilled(given, iter(traced))
            try:
                with tracing.active():
                    out = self._function(*given[0], **given[1])
                results = [x for _, x in pytree.leaves(out)]
                compiled.unflatten, compiled.result_count = pytree.builder(out), len(results)
                outputs: list[tuple[Any, int | None]] = [(x, None) for x in results]
                compiled.argument_writes = []
                for i, (x, number) in enumerate(zip(traced, numbers, strict=True)):
                    if lift.number(x) != number:
                        self._check_in_place(leaves[i], compiled.argument_names[i])
                        compiled.argument_writes.append((len(outputs), (), i))
                        outputs.append((x, None))
                for path, _, x in pytree.changes(before, given):
                    if not pytree.is_leaf(x):
                        raise TraceError(
                            f"jit: the traced function set {pytree.spelled(path, self._names)} to an object of type"
                            f" {type(x).__name__}; a compiled program can only write arrays: return it instead"
                        )
                    compiled.argument_writes.append((len(outputs), path, None))
                    outputs.append((x, None))
                compiled.slot_writes, replaced = [], []
                for at, slot, x in tracing.updates():
                    compiled.slot_writes.append((len(outputs), slot))
                    replaced.append((at, slot))
                    outputs.append((x, at))
                tracing.check_leaks()
                compiled.owners = tracing.owners()
                for owner in compiled.owners:
                    owner.record()
                compiled.slots = tracing.slots
                compiled.donatable = donatable_inputs(replaced, compiled.owners)
                return outputs
            finally:
                tracing.restore()

        name = f"`{diagnostics.name(self._function)}`, which jit has traced"
        try:
            compiled.program = _core._record(run, name, backend, self._fast)  # type: ignore[attr-defined]
        except TraceError as error:
            diagnostics.add_trace_notes(error, self._function)
            raise
        # A program that an outer derivative differentiates through cannot be cached.
        return compiled if compiled.program.lasts else None

    def _traced_arguments(self, args: Any, kwargs: Any, tree: Any, traced: list[Any]) -> tuple[Any, Any]:
        """The arguments with tracers instead of arrays."""
        places, names = self._static
        own, named = pytree.refilled(tree, iter(traced))
        own = tuple(args[i] if i in places else x for i, x in enumerate(own))
        return own, {name: kwargs[name] if name in names else named[name] for name in kwargs}

    def _check_in_place(self, x: Any, name: str) -> None:
        if not isinstance(x, _core.Tensor):
            raise TraceError(
                f"jit: the traced function updated {name} in place, an array of {type(x).__module__.partition('.')[0]};"
                " only tensors can be updated in place: return the new array instead"
            )

    def _store(self, key: Any, compiled: CompiledProgram) -> None:
        others = [one for all_ in self._programs.values() for one in all_]
        self.compilations += 1
        diagnostics.warn_of_recompilation(self, compiled, others)
        self._programs.setdefault(key, []).append(compiled)
        if len(others) + 1 > self._limit:
            oldest = min(others, key=lambda one: one.last_used)
            for at, all_ in list(self._programs.items()):
                if oldest in all_:
                    all_.remove(oldest)
                    if not all_:
                        del self._programs[at]
            self.evictions += 1
            diagnostics.warn_of_eviction(self)

    # Execution.

    def _run(self, compiled: CompiledProgram, leaves: list[Any], tree: Any) -> Any:
        leaves = _transfer(compiled, leaves)
        raw = any(not isinstance(x, (_core.Tensor, _core._random.Key)) for x in leaves)
        values = leaves + [slot.read() for slot in compiled.slots] if compiled.slots else leaves
        donated = []
        # Another thread could read a tensor while its memory is overwritten.
        for at, container_slots in compiled.donatable if threading.active_count() == 1 else ():
            count = getrefcount(values[at])
            for slot in container_slots:
                count -= slot.count_references(values[at])
            if count == _UNIQUE_REFCOUNT:
                donated.append(at)
        for owner in compiled.owners:
            owner.begin_run()
        outs: list[Any] = []
        # The first run compiles.
        token = None if compiled.has_run else USE_COMPILER.set(self._compiler)
        try:
            if not compiled.program.run(values, compiled.result_count, raw, donated, outs):
                return _TRACED
            compiled.write(outs, leaves, tree)
        except BaseException:
            # After Ctrl-C a step that has run is still written completely.
            if outs:
                compiled.write(outs, leaves, tree)
            raise
        finally:
            if token is not None:
                USE_COMPILER.reset(token)
        compiled.has_run = True
        return compiled.unflatten(outs)


_TRACED = object()


def _transfer(compiled: CompiledProgram, leaves: list[Any]) -> list[Any]:
    """Transfers arguments to the backend of the program."""
    if not compiled.transferred:
        return leaves
    leaves = list(leaves)
    for i in compiled.transferred:
        leaves[i] = _core.asarray(leaves[i]).to(compiled.backend)
    return leaves


def _rebuild(function: Any, static: Any, limit: int, compiler: bool, fast: bool) -> Jitted:
    return Jitted(function, static, limit, compiler, fast)


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    # Imported here, because it is slow and only jitted functions need it.
    import inspect

    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _accepts_keyword(function: Callable[..., Any], word: str) -> bool:
    """Whether a function accepts a keyword argument."""
    import inspect

    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return word in found or any(p.kind is p.VAR_KEYWORD for p in found.values())


def _static_arguments(
    function: Callable[..., Any], names: list[str], numbers: Any, words: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by position and by name; an argument that has both is in both."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    words = (words,) if isinstance(words, str) else tuple(words)
    places = {i + len(names) if i < 0 else i for i in numbers}
    where = diagnostics.name(function)
    for i in places:
        if not isinstance(i, int) or i < 0:
            raise ArgumentError(f"jit: {where}: expected positions of arguments as static_argnums, got {numbers}")
    known = {names[i] for i in places if i < len(names)} | set(words)
    for word in words:
        if not _accepts_keyword(function, word):
            raise ArgumentError(f"jit: {where}: static_argnames: no argument is named `{word}`; arguments are {names}")
        if word in names:
            places.add(names.index(word))
    return tuple(sorted(places)), tuple(sorted(known))


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    limit: int = CACHE_SIZE,
    compiler: bool = True,
    fast_math: bool = False,
) -> Any:
    """Compile a function: trace it once per cache key, optimize the graph, compile it and cache the program.

    The native backend compiles the program itself; jax, torch and tensorflow use jax.jit, torch.compile and tf.function;
    numpy runs it op by op. The cache key is the structure of the arguments, the dtypes and shapes of the arrays in them,
    and the values of everything else, Python numbers included. Modules and optimizers that the function uses, as
    arguments or from an enclosing scope, are inputs of the program: a call reads their state and updates it.

    Parameters
    ----------
    function : callable, optional
        The function to compile. Without it `jit` returns a decorator.
    static_argnums : int or iterable of int, default ()
        Positions of arguments that are part of the cache key by value. They must be hashable.
    static_argnames : str or iterable of str, default ()
        Names of such arguments.
    limit : int, default 64
        The number of programs in the cache. A new program evicts the least recently used one.
    compiler : bool, default True
        Whether to use the framework's compiler. If false, the framework runs the optimized graph op by op.
    fast_math : bool, default False
        Whether the optimizer may ignore the sign of zero, infinities and NaN.

    Returns
    -------
    Jitted
        A callable with the signature of `function`.

    Raises
    ------
    ArgumentError
        If `function` is not callable, `limit` is not positive, or a static argument does not exist.
    TraceError
        On a call, if the function reads a value that tracing does not have, as in `if x > 0`.

    See Also
    --------
    cm.explain : Shows the graphs and the plan of a compiled function.

    Examples
    --------
    >>> @cm.jit
    ... def step(x):
    ...     return cm.sum(x * x)
    >>> step(cm.asarray([1.0, 2.0]))
    Tensor(5.0, float32, native)
    >>> cm.jit(cm.grad(step))(cm.asarray([1.0, 2.0]))
    Tensor([2.0, 4.0], float32, native)
    """
    if function is None:
        return functools.partial(
            jit, static_argnums=static_argnums, static_argnames=static_argnames, limit=limit, compiler=compiler,
            fast_math=fast_math,
        )  # fmt: skip
    if not callable(function):
        raise ArgumentError(f"jit: expected a function, got {type(function).__name__}")
    if not isinstance(limit, int) or limit < 1:
        raise ArgumentError(f"jit: expected limit to be a positive integer, got {limit!r}")
    return Jitted(function, (static_argnums, static_argnames), limit, bool(compiler), bool(fast_math))
