"""What a traced function finds outside of its arguments: modules with their variables and buffers, optimisers with their moments.

While a function is traced they hold stand-ins, and hold again what they held when it is done. Each is met when it is
first used, wherever it comes from: an argument, a closure, a global name.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _clematis as _core
from .._module.build import _has_changed, ensure, is_built, label, settle, stored
from .._module.discover import RECORDING, State
from .._module.info import NAME, TRACING, info_of
from .._module.roles import _buffers, _inside
from .._placement import backend_of
from ..errors import TraceError
from .listed import Listed, listed, places_of

_has_values = _core._has_values  # type: ignore[attr-defined]

# For how many steps the numbers are made at once.
MOST_AHEAD = 16


class Unready(Exception):
    """A module that makes its variables at its first call: that call cannot be traced."""


class OtherBackend(Exception):
    """A module lives on another backend than the arrays that were given, which are to follow it."""

    def __init__(self, backend: str) -> None:
        super().__init__(backend)
        self.backend = backend


class Variable:
    """A variable of a module."""

    __slots__ = ("holder", "key", "path")
    role = "param"

    def __init__(self, v: Any, path: str) -> None:
        above, _, key = path.rpartition("/")
        self.key: Any = key
        self.path, self.holder = path, v[above] if above else v

    def read(self) -> Any:
        return dict.__getitem__(self.holder, self.key)

    def write(self, value: Any) -> None:
        dict.__setitem__(self.holder, self.key, value)


class Buffer:
    """A buffer of a module."""

    __slots__ = ("holder", "key", "path")
    role = "state"

    def __init__(self, holder: Any, key: Any, path: str) -> None:
        x = _inside(holder, key)
        self.path = path
        self.holder: Any = x if isinstance(x, State) else holder
        self.key: Any = None if isinstance(x, State) else key

    def read(self) -> Any:
        return self.holder._value if self.key is None else _inside(self.holder, self.key)

    def write(self, value: Any) -> None:
        if self.key is None:
            self.holder._value = value
        elif isinstance(self.holder, (list, dict)):
            self.holder[self.key] = value
        else:
            self.holder.__dict__[self.key] = value


class Moment:
    """What an optimiser remembers of one parameter."""

    __slots__ = ("at", "optimizer", "path")
    role = "state"

    def __init__(self, optimizer: Any, path: str, at: int) -> None:
        self.optimizer, self.path, self.at = optimizer, path, at

    def read(self) -> Any:
        return self.optimizer._moments[self.path][self.at]

    def write(self, value: Any) -> None:
        self.optimizer._moments[self.path][self.at] = value


class Numbers:
    """The learning rate of a step and what follows from its count, as one vector.

    Between two large steps a framework takes several times as long to make an array as it does right after another one: those
    of some steps to come are made together, as long as nothing but the count changes.
    """

    __slots__ = ("first", "home", "known", "made", "optimizer", "which", "wide")
    role = "input"

    def __init__(self, optimizer: Any, which: tuple[int, int, int], wide: bool, home: str) -> None:
        self.optimizer, self.which, self.wide, self.home = optimizer, which, wide, home
        # Settings and learning rate that the vectors are made of, and the count that the first of these is for.
        self.known: tuple[dict[str, Any], float] | None = None
        self.first, self.made = 0, []

    def read(self) -> Any:
        settings, lr, count = self.optimizer._given(*self.which)
        if self.known != (settings, lr):
            self.known, self.first, self.made = (dict(settings), lr), count, []
        if not 0 <= count - self.first < len(self.made):
            follows = self.made and count == self.first + len(self.made)
            many = min(2 * len(self.made), MOST_AHEAD) if follows else 1
            rule, counts = self.optimizer._rule, range(count, count + many)
            make = _core._optim_numbers  # type: ignore[attr-defined]
            self.first, self.made = count, [make(rule, settings, lr, n, self.wide, self.home) for n in counts]
        return self.made[count - self.first]


Slot = Variable | Buffer | Moment | Numbers


class HeldModule:
    """A module that a program uses."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.slots: list[Variable | Buffer] = []
        # Whether a transform made it, and it holds nothing of its own.
        self.passes = False

    def note(self) -> None:
        """What must be the same when the program runs again."""
        below = list(_below(self.module, {}))
        self.known = [(info, info.training, info.assembled, frozenset(info.frozen)) for info in map(info_of, below)]
        self.listed: list[Listed] | None = listed(info_of(self.module).nests)

    def _is_settled(self) -> bool:
        """Whether nothing was put into or taken out of the lists that hold variables: less work than to make them agree."""
        info = info_of(self.module)
        if not info.fresh or self.listed is None or _has_changed(info):
            return False
        return all(place.agrees() for place in self.listed)

    def fits(self) -> bool:
        if not self._is_settled():
            ensure(self.module, self.module._kind)
        return all(
            info.training is mode and info.assembled == count and (not info.frozen or info.frozen == frozen)
            for info, mode, count, frozen in self.known
        )

    def begin(self) -> None:
        """Called before each run."""

    def settle(self) -> None:
        """Called after each run."""
        settle(self.module)
        for place in self.listed or ():
            place.fill()


class HeldOptimizer:
    """An optimiser that a program uses."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.slots: list[Moment] = []
        self.before = (optimizer._step, dict(optimizer._missed), optimizer._is_restored)
        # How many steps a run takes, and the count when the present one is done.
        self.steps = self.after = 0

    def note(self) -> None:
        own = self.optimizer
        self.steps = own._step - self.before[0]
        if own._missed != self.before[1]:
            raise TraceError(
                f"{own._rule}.step: parameters without a gradient count their own steps, which a program cannot;"
                " give gradients of all parameters, or take the step outside of jit"
            )
        own._step, own._missed, own._is_restored = self.before
        self.known = (len(own._moments), dict(own._missed), own._settings, own.groups, own.stop_gradients)

    def fits(self) -> bool:
        own = self.optimizer
        return self.known == (len(own._moments), own._missed, own._settings, own.groups, own.stop_gradients)

    def begin(self) -> None:
        self.after = self.optimizer._step + self.steps

    def settle(self) -> None:
        self.optimizer._step = self.after


def _below(module: Any, seen: dict[int, Any]) -> Iterator[Any]:
    if id(module) not in seen:
        seen[id(module)] = module
        yield module
        for child in info_of(module).children:
            yield from _below(child.module, seen)


class Tracing:
    """What was met while one function is traced."""

    def __init__(self, lift: Callable[..., Any], count: int, home: str, follows: bool) -> None:
        self.lift, self.home = lift, home
        # Whether the arguments, none of them a tensor, are to be moved to the backend of the first module.
        self.follows = follows
        # How many inputs there are, and what stands for each beyond the arguments.
        self.first = self.count = count
        self.slots: list[Slot] = []
        self.old: list[Any] = []
        self.new: list[Any] = []
        self.modules: dict[int, HeldModule] = {}
        self.optimizers: dict[int, HeldOptimizer] = {}
        self._numbers: dict[tuple[Any, ...], Any] = {}

    def _add(self, slot: Slot, value: Any, name: str) -> Any:
        traced = self.lift(value, slot.role, f"{self.count}:{name}")
        self.slots.append(slot)
        self.old.append(value)
        self.new.append(traced)
        self.count += 1
        return traced

    def meet(self, module: Any) -> None:
        """Puts stand-ins in the place of all that a module holds."""
        if id(module) in self.modules:
            return
        held = self.modules[id(module)] = HeldModule(module)
        if not is_built(module):
            raise Unready(label(module))
        info = ensure(module, module._kind)
        v = stored(module)
        for path in info.leaves:
            slot: Variable | Buffer = Variable(v, path)
            self._lifted(held, slot)
        settle(module)
        for path, holder, key in _buffers(module, ""):
            self._lifted(held, Buffer(holder, key, path))
        held.passes = info.is_copy and not held.slots

    def held(self) -> list["HeldModule | HeldOptimizer"]:
        """What has to be as it is now when the program runs again: not what a transform made for this trace alone."""
        modules = [held for held in self.modules.values() if not held.passes]
        inner: dict[int, Any] = {}
        for own in modules:
            for module in _below(own.module, {}):
                if module is not own.module:
                    inner[id(module)] = module
        return [*(own for own in modules if id(own.module) not in inner), *self.optimizers.values()]

    def _lifted(self, held: HeldModule, slot: Variable | Buffer) -> None:
        x = slot.read()
        if _core._tree.is_array(x) and _has_values(x):
            if self.follows and (backend := backend_of(x)) != self.home:
                raise OtherBackend(backend)
            self.follows = False
            slot.write(self._add(slot, x, slot.path))
            held.slots.append(slot)

    def meet_optimizer(self, optimizer: Any, params: dict[str, Any]) -> None:
        """The same for what an optimiser remembers; it begins to remember now, if it has not yet."""
        if id(optimizer) in self.optimizers:
            return
        held = self.optimizers[id(optimizer)] = HeldOptimizer(optimizer)
        if not optimizer._names:
            return
        for path, x in params.items():
            if path not in optimizer._moments:
                zeros = [_core._moment_zeros(x) for _ in optimizer._names]  # type: ignore[attr-defined]
                optimizer._moments[path] = zeros
        for path in optimizer._moments:
            optimizer._moments[path] = list(optimizer._moments[path])
            for at in range(len(optimizer._names)):
                slot = Moment(optimizer, path, at)
                slot.write(self._add(slot, slot.read(), f"{optimizer._names[at]}/{path}"))
                held.slots.append(slot)

    def numbers(self, optimizer: Any, group: int, missed: int, x: Any) -> Any:
        """What the formula of a step takes besides tensors."""
        ahead = optimizer._step - self.optimizers[id(optimizer)].before[0]
        wide = x.dtype in (_core.float64, _core.complex128)
        key = (id(optimizer), group, missed, ahead, wide)
        if key not in self._numbers:
            slot = Numbers(optimizer, (group, missed, ahead), wide, self.home)
            self._numbers[key] = self._add(slot, slot.read(), f"rate {len(self._numbers)}")
        return self._numbers[key]

    def updates(self) -> list[tuple[int, Slot, Any]]:
        """What holds something else now than the stand-in that was put there."""
        found: list[tuple[int, Slot, Any]] = []
        for at, (slot, traced) in enumerate(zip(self.slots, self.new, strict=True)):
            if isinstance(slot, Numbers):
                continue
            now = slot.read()
            number = self.lift.number(now)  # type: ignore[attr-defined]
            if now is not traced or number != self.lift.number(traced):  # type: ignore[attr-defined]
                if not isinstance(now, _core.Tensor):
                    now = _core.asarray(now)
                found.append((self.first + at, slot, now))
        return found

    def left_behind(self) -> None:
        """An error where a module holds a stand-in that is neither a variable nor a buffer."""
        for held in self.modules.values():
            for module in _below(held.module, {}):
                for name, x in module.__dict__.items():
                    if name != NAME and isinstance(x, _core.Tensor) and self.lift.owns(x):  # type: ignore[attr-defined]
                        slots = {id(s.holder): s.key for s in held.slots if isinstance(s, Buffer)}
                        if slots.get(id(module)) == name:
                            continue
                        del module.__dict__[name]
                        raise TraceError(
                            f"{label(module)}: `{name}` was set to a value of the traced function, which only exists"
                            f" while it runs; make it a cm.State(...) in __init__ to keep it, or return it"
                        )

    def restore(self) -> None:
        """Everything holds again what it held."""
        for slot, value in zip(self.slots, self.old, strict=True):
            if not isinstance(slot, Numbers):
                slot.write(value)
        for held in self.modules.values():
            settle(held.module)
        for own in self.optimizers.values():
            own.optimizer._step, own.optimizer._missed, own.optimizer._is_restored = own.before

    @contextmanager
    def during(self) -> Iterator[None]:
        """Modules and optimisers tell this one when they are used."""
        token, other = TRACING.set(self), RECORDING.set(True)
        try:
            yield
        finally:
            RECORDING.reset(other)
            TRACING.reset(token)


def owned(replaced: list[tuple[int, Slot]], held: list[HeldModule | HeldOptimizer]) -> list[tuple[int, list[Listed]]]:
    """The inputs that are replaced whose owners are all known, each with the lists that hold it besides."""
    places = [place for own in held if isinstance(own, HeldModule) for place in own.listed or ()]
    found = []
    for at, slot in replaced:
        own = places_of(slot.holder, slot.key, places) if isinstance(slot, Variable) else []
        if own is not None:
            found.append((at, own))
    return found
