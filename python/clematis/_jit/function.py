"""Functions that run as programs."""

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
from . import nests, told
from .compiling import COMPILING
from .listed import Listed
from .tracing import HeldModule, HeldOptimizer, OtherBackend, Slot, Tracing, Unready, owned

_flat = _core._flat  # type: ignore[attr-defined]
_is_recording = _core._is_recording  # type: ignore[attr-defined]

# How often something is referred to that a list and one owner hold; the list has to live while it is counted.
_HOLDER = [object()]
_ALONE = getrefcount(_HOLDER[0]) + 1

# How many programs a function keeps unless told otherwise.
LIMIT = 64


class Made:
    """One program of a function, with all that stands beside its graph."""

    __slots__ = (
        "arguments", "build", "count", "grads", "has_run", "held", "home", "kept", "moved", "program", "puts", "replaced", "slots",
        "specs", "statics", "used", "writes",
    )  # fmt: skip

    program: Any
    # What is read at each run beyond the arguments, and what is written: the place among results.
    slots: list[Slot]
    writes: list[tuple[int, Slot]]
    # The places of the values that are written anew, and the lists that hold each besides: their memory may be reused.
    replaced: list[tuple[int, list[Listed]]]
    # Arrays of arguments that are replaced: in a container of the call, or the tensor itself.
    puts: list[tuple[int, nests.Path, int | None]]
    held: list[HeldModule | HeldOptimizer]
    # What makes the results of arrays, and how many of these there are.
    build: Callable[..., Any]
    count: int
    # What it was traced for: where, with gradients or not, which arrays under which names, beside what else.
    home: str
    # The places of arguments that are no tensors and come from another backend than the program's.
    moved: list[int]
    grads: bool
    specs: list[str]
    arguments: list[str]
    statics: tuple[Any, ...]
    # What its key knows by address, and so must live.
    kept: list[Any]
    has_run: bool
    used: int

    def fits(self) -> bool:
        """Whether what it was traced with is as it was."""
        return self.grads is with_grads() and all(held.fits() for held in self.held)

    def write(self, outs: list[Any], leaves: list[Any], nest: Any) -> None:
        """Puts results where they belong; the second time it changes nothing."""
        for at, path, leaf in self.puts:
            if leaf is None:
                nests.put(nest, path, outs[at])
            else:
                _core._put(leaves[leaf], outs[at])  # type: ignore[attr-defined]
        for at, slot in self.writes:
            slot.write(outs[at])  # type: ignore[union-attr]
        for held in self.held:
            held.settle()


class Jitted:
    """A function that runs as a program; see `cm.jit`."""

    def __init__(self, function: Callable[..., Any], statics: tuple[Any, Any], limit: int, compiler: bool, fast: bool):
        functools.update_wrapper(self, function)
        self._function, self._limit, self._compiler, self._fast = function, limit, compiler, fast
        self._names = _parameter_names(function)
        self._static = _static_places(function, self._names, *statics)
        self._programs: dict[Any, list[Made]] = {}
        # Tracing changes what modules hold for a while, and a step reads and writes: one at a time.
        self._lock = threading.RLock()
        self._clock = itertools.count()
        self.compilations = self.evictions = 0

    def __repr__(self) -> str:
        return f"<jit of {told.name(self._function)}>"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __reduce__(self) -> Any:
        return _again, (self._function, self._static, self._limit, self._compiler, self._fast)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Inside a trace of ours or of a framework it is the function itself.
        if TRACING.get() is not None or _is_recording():
            return self._function(*args, **kwargs)
        statics: tuple[Any, ...] = ()
        nest: Any = (args, kwargs)
        if self._static != ((), ()):
            statics, nest = self._parted(args, kwargs)
        leaves, key, kept, known = _flat(nest)
        if not known:
            return self._function(*args, **kwargs)
        if not leaves:
            # Nothing else tells where new tensors are made.
            key = (*key, _core.current_backend())
        made = self._find((key, statics))
        if made is None:
            try:
                made = self._trace((key, statics), args, kwargs, nest, leaves, kept)
            except Unready:
                # It makes its variables now, and is traced the next time.
                return self._function(*args, **kwargs)
            if made is None:
                return self._function(*args, **kwargs)
        if made.writes or made.puts:
            with self._lock:
                # Another thread may have put other arrays into the arguments meanwhile.
                out = self._run(made, _flat(nest)[0] if made.puts else leaves, nest)
        else:
            out = self._run(made, leaves, nest)
        return self._function(*args, **kwargs) if out is _TRACED else out

    # Finding and making.

    def _find(self, key: Any) -> Made | None:
        try:
            found = self._programs.get(key)
        except TypeError:
            where = told.name(self._function)
            raise ArgumentError(f"jit: {where}: a static argument cannot be hashed: {key[1]!r}") from None
        for made in found or ():
            if made.fits():
                made.used = next(self._clock)
                return made
        return None

    def _parted(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Static arguments, with their classes, and the others."""
        places, names = self._static
        statics: list[tuple[int | str, type, Any]]
        statics = [(i, type(args[i]), args[i]) for i in places if i < len(args)]
        statics += [(name, type(kwargs[name]), kwargs[name]) for name in names if name in kwargs]
        rest = tuple(None if i in places else x for i, x in enumerate(args))
        return tuple(statics), (rest, {name: x for name, x in kwargs.items() if name not in names})

    def _trace(self, key: Any, args: Any, kwargs: Any, nest: Any, leaves: list[Any], kept: list[Any]) -> Made | None:
        with self._lock:
            made = self._find(key)
            if made is None:
                made = self._made(args, kwargs, nest, leaves, kept)
                if made is None:
                    return None
                made.statics = key[1]
                self._keep(key, made)
            return made

    def _made(self, args: Any, kwargs: Any, nest: Any, leaves: list[Any], kept: list[Any]) -> Made | None:
        tensors = [x for x in leaves if isinstance(x, _core.Tensor)]
        arrays = tensors or [x for x in leaves if nests.is_array(x)]
        home = backend_of(arrays[0]) if arrays else None
        home = home or _core.current_backend()
        try:
            return self._made_on(home, bool(arrays) and not tensors, args, kwargs, nest, leaves, kept)
        except OtherBackend as other:
            return self._made_on(other.backend, False, args, kwargs, nest, leaves, kept)

    def _made_on(
        self, home: str, follows: bool, args: Any, kwargs: Any, nest: Any, leaves: list[Any], kept: list[Any]
    ) -> Made | None:
        made = Made()
        made.home = home
        made.kept, made.has_run = kept, False
        made.grads, made.used = with_grads(), next(self._clock)
        made.specs = [told.spec(x) for x in leaves]
        made.moved = [i for i, x in enumerate(leaves) if is_elsewhere(x, home)]
        leaves = _moved(made, leaves)
        made.arguments = [nests.spelled(path, self._names) for path, _ in nests.leaves(nest)]
        tracing: Tracing | None = None

        def run(lift: Any) -> list[tuple[Any, int | None]]:
            nonlocal tracing
            named = zip(leaves, made.arguments, strict=True)
            traced = [lift(x, "input", f"{i}:{name}") for i, (x, name) in enumerate(named)]
            tracing = Tracing(lift, len(traced), made.home, follows)
            numbers = [lift.number(x) for x in traced]
            given = self._given(args, kwargs, nest, traced)
            before = nests.refilled(given, iter(traced))
            try:
                with tracing.during():
                    out = self._function(*given[0], **given[1])
                results = [x for _, x in nests.leaves(out)]
                made.build, made.count = nests.builder(out), len(results)
                outputs: list[tuple[Any, int | None]] = [(x, None) for x in results]
                made.puts = []
                for i, (x, number) in enumerate(zip(traced, numbers, strict=True)):
                    if lift.number(x) != number:
                        self._check_place(leaves[i], made.arguments[i])
                        made.puts.append((len(outputs), (), i))
                        outputs.append((x, None))
                for path, _, x in nests.changes(before, given):
                    if not nests.is_leaf(x):
                        raise TraceError(
                            f"jit: {nests.spelled(path, self._names)} was set to {type(x).__name__}, which no program can"
                            " repeat; return it instead"
                        )
                    made.puts.append((len(outputs), path, None))
                    outputs.append((x, None))
                made.writes, replaced = [], []
                for at, slot, x in tracing.updates():
                    made.writes.append((len(outputs), slot))
                    replaced.append((at, slot))
                    outputs.append((x, at))
                tracing.left_behind()
                made.held = tracing.held()
                for held in made.held:
                    held.note()
                made.slots = tracing.slots
                made.replaced = owned(replaced, made.held)
                return outputs
            finally:
                tracing.restore()

        name = f"`{told.name(self._function)}`, which jit has traced"
        try:
            made.program = _core._record(run, name, made.home, self._fast)  # type: ignore[attr-defined]
        except TraceError as error:
            told.explain(error, self._function)
            raise
        # What a derivative outside of the function has to reach cannot be kept.
        return made if made.program.lasts else None

    def _given(self, args: Any, kwargs: Any, nest: Any, traced: list[Any]) -> tuple[Any, Any]:
        """The arguments with stand-ins for arrays."""
        places, names = self._static
        own, named = nests.refilled(nest, iter(traced))
        own = tuple(args[i] if i in places else x for i, x in enumerate(own))
        return own, {name: kwargs[name] if name in names else named[name] for name in kwargs}

    def _check_place(self, x: Any, name: str) -> None:
        if not isinstance(x, _core.Tensor):
            raise TraceError(
                f"jit: {name}, an array of {type(x).__module__.partition('.')[0]}, was changed in its place by the traced"
                " function, which cannot be kept; return the new array instead"
            )

    def _keep(self, key: Any, made: Made) -> None:
        others = [one for all_ in self._programs.values() for one in all_]
        self.compilations += 1
        told.about_compilations(self, made, others)
        self._programs.setdefault(key, []).append(made)
        if len(others) + 1 > self._limit:
            oldest = min(others, key=lambda one: one.used)
            for at, all_ in list(self._programs.items()):
                if oldest in all_:
                    all_.remove(oldest)
                    if not all_:
                        del self._programs[at]
            self.evictions += 1
            told.about_eviction(self)

    # Running.

    def _run(self, made: Made, leaves: list[Any], nest: Any) -> Any:
        leaves = _moved(made, leaves)
        raw = any(not isinstance(x, (_core.Tensor, _core._random.Key)) for x in leaves)
        values = leaves + [slot.read() for slot in made.slots] if made.slots else leaves
        alone = []
        # Another thread could look at a tensor while its memory is being written over.
        for at, places in made.replaced if threading.active_count() == 1 else ():
            count = getrefcount(values[at])
            for place in places:
                count -= place.count(values[at])
            if count == _ALONE:
                alone.append(at)
        for held in made.held:
            held.begin()
        outs: list[Any] = []
        # Compiled at its first run.
        token = None if made.has_run else COMPILING.set(self._compiler)
        try:
            if not made.program.run(values, made.count, raw, alone, outs):
                return _TRACED
            made.write(outs, leaves, nest)
        except BaseException:
            # Ctrl-C: a step that has run is done whole.
            if outs:
                made.write(outs, leaves, nest)
            raise
        finally:
            if token is not None:
                COMPILING.reset(token)
        made.has_run = True
        return made.build(iter(outs))


_TRACED = object()


def _moved(made: Made, leaves: list[Any]) -> list[Any]:
    """The arguments where the program runs."""
    if not made.moved:
        return leaves
    leaves = list(leaves)
    for i in made.moved:
        leaves[i] = _core.asarray(leaves[i]).to(made.home)
    return leaves


def _again(function: Any, static: Any, limit: int, compiler: bool, fast: bool) -> Jitted:
    return Jitted(function, static, limit, compiler, fast)


def _parameter_names(function: Callable[..., Any]) -> list[str]:
    # Slow to import, and needed by programs that jit something alone.
    import inspect

    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _takes(function: Callable[..., Any], word: str) -> bool:
    """Whether an argument of that name can be given."""
    import inspect

    try:
        found = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return True
    return word in found or any(p.kind is p.VAR_KEYWORD for p in found.values())


def _static_places(
    function: Callable[..., Any], names: list[str], numbers: Any, words: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Static arguments by place and by name, each by both where it has both."""
    numbers = (numbers,) if isinstance(numbers, int) else tuple(numbers)
    words = (words,) if isinstance(words, str) else tuple(words)
    places = {i + len(names) if i < 0 else i for i in numbers}
    where = told.name(function)
    for i in places:
        if not isinstance(i, int) or i < 0:
            raise ArgumentError(f"jit: {where}: static_argnums {numbers} names an argument that is not there")
    known = {names[i] for i in places if i < len(names)} | set(words)
    for word in words:
        if not _takes(function, word):
            raise ArgumentError(f"jit: {where}: static_argnames: no argument is called `{word}`; there are {names}")
        if word in names:
            places.add(names.index(word))
    return tuple(sorted(places)), tuple(sorted(known))


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    static_argnums: int | Iterable[int] = (),
    static_argnames: str | Iterable[str] = (),
    limit: int = LIMIT,
    compiler: bool = True,
    fast_math: bool = False,
) -> Any:
    """The function as a program: traced once for each kind of arguments, optimised, compiled, kept.

    On native the engine runs it as a whole; jax, torch and tensorflow hand it to jax.jit, torch.compile and tf.function,
    unless `compiler` is false; on numpy it is a straight line. Programs are found by the structure of the arguments, by
    types and shapes of the arrays in them, and by the values of all else; a number is such a value, and so is what
    `static_argnums` and `static_argnames` name. At most `limit` programs are kept. What modules and optimisers hold that
    the function uses, as arguments or from outside, is read at each call and changed by it. `fast_math` lets the sign of
    zero, infinities and NaN get lost.

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
        raise ArgumentError(f"jit: a function was expected, not {type(function).__name__}")
    if not isinstance(limit, int) or limit < 1:
        raise ArgumentError(f"jit: limit is a number from 1 on, not {limit!r}")
    return Jitted(function, (static_argnums, static_argnames), limit, bool(compiler), bool(fast_math))
