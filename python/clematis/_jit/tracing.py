"""Lifts the state that a traced function uses besides its arguments: variables and buffers of modules, optimizer state.

While a function is traced, modules and optimizers hold tracers; afterwards their values are restored. Each one registers
at its first use, whether it is an argument, a closure variable or a global.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from .. import _clematis as _core
from .._module.build import _has_changed, ensure, is_built, stored, sync_tied_weights
from .._module.discover import RECORDING, State
from .._module.info import NAME, TRACING, info_of, label
from .._module.roles import _buffers, _inside
from .._placement import backend_of
from ..errors import TraceError
from .container_slots import ContainerSlot, container_slots, slots_of

_has_values = _core._has_values  # type: ignore[attr-defined]

# How many vectors of step scalars are made at once, at most.
MAX_BATCHED_STEPS = 16


class UnbuiltModule(Exception):
    """A module is built at its first call, which cannot be traced."""


class BackendMismatch(Exception):
    """A module is on another backend than array arguments that are not tensors: these are transferred to it."""

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
    """A state tensor of an optimizer, such as a moment of Adam, for one parameter."""

    __slots__ = ("at", "optimizer", "path")
    role = "state"

    def __init__(self, optimizer: Any, path: str, at: int) -> None:
        self.optimizer, self.path, self.at = optimizer, path, at

    def read(self) -> Any:
        return self.optimizer._moments[self.path][self.at]

    def write(self, value: Any) -> None:
        self.optimizer._moments[self.path][self.at] = value


class StepScalars:
    """The learning rate and the bias corrections of a step, as one vector.

    Creating an array between two large steps takes several times as long as right after another creation. So the vectors of
    the next steps are created in one batch while only the step count changes.
    """

    __slots__ = ("backend", "batch", "is_double", "optimizer", "which")
    role = "input"

    def __init__(self, optimizer: Any, which: tuple[int, int, int], is_double: bool, backend: str) -> None:
        self.optimizer, self.which, self.is_double, self.backend = optimizer, which, is_double, backend
        # The settings and the learning rate of the vectors, the step count of the first one, and the vectors. Replaced as a
        # whole: an interruption must not leave the vectors of other steps.
        self.batch: tuple[dict[str, Any], float, int, list[Any]] = ({}, 0.0, 0, [])

    def read(self) -> Any:
        settings, lr, count = self.optimizer._given(*self.which)
        *inputs, first, vectors = self.batch
        is_same = inputs == [settings, lr]
        if not is_same or not 0 <= count - first < len(vectors):
            follows = is_same and vectors and count == first + len(vectors)
            many = min(2 * len(vectors), MAX_BATCHED_STEPS) if follows else 1
            rule, counts = self.optimizer._rule, range(count, count + many)
            make = _core._optim_numbers  # type: ignore[attr-defined]
            first, vectors = count, [make(rule, settings, lr, n, self.is_double, self.backend) for n in counts]
            self.batch = (dict(settings), lr, first, vectors)
        return vectors[count - first]


Slot = Variable | Buffer | Moment | StepScalars


class UsedModule:
    """A module that a traced function uses, with its slots and the settings that the trace depends on."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.slots: list[Variable | Buffer] = []
        # Whether a transform created it for this trace, and it has no slots of its own.
        self.is_temporary = False

    def record(self) -> None:
        """Records the settings that the program depends on."""
        below = list(_below(self.module, {}))
        self.known = [(info, info.training, info.assembled, frozenset(info.frozen)) for info in map(info_of, below)]
        self.container_slots: list[ContainerSlot] | None = container_slots(info_of(self.module).containers)

    def _is_in_sync(self) -> bool:
        """Whether lists and dicts still hold the module's variables: cheaper than to synchronize them."""
        info = info_of(self.module)
        if not info.fresh or self.container_slots is None or _has_changed(info):
            return False
        return all(slot.is_in_sync() for slot in self.container_slots)

    def is_unchanged(self) -> bool:
        if not self._is_in_sync():
            ensure(self.module)
        return all(
            info.training is mode and info.assembled == count and (not info.frozen or info.frozen == frozen)
            for info, mode, count, frozen in self.known
        )

    def begin_run(self) -> None:
        """Called before each run."""

    def end_run(self) -> None:
        """Called after each run, when the slots hold the new values."""
        sync_tied_weights(self.module)
        for slot in self.container_slots or ():
            slot.sync()


class UsedOptimizer:
    """An optimizer that a traced function uses, with its slots and the settings that the trace depends on."""

    def __init__(self, optimizer: Any) -> None:
        self.optimizer = optimizer
        self.slots: list[Moment] = []
        self.before = (optimizer._step, dict(optimizer._missed), optimizer._is_restored)
        # The optimizer steps per run, and the step count after the current run.
        self.steps = self.after = 0

    def record(self) -> None:
        own = self.optimizer
        self.steps = own._step - self.before[0]
        if own._missed != self.before[1]:
            raise TraceError(
                f"{own._rule}.step: expected gradients of all parameters under jit, because a parameter without one counts its"
                " own steps; pass gradients of all parameters, or call step outside of jit"
            )
        own._step, own._missed, own._is_restored = self.before
        self.known = (len(own._moments), dict(own._missed), own._settings, own.groups, own.stop_gradients)

    def is_unchanged(self) -> bool:
        own = self.optimizer
        return self.known == (len(own._moments), own._missed, own._settings, own.groups, own.stop_gradients)

    def begin_run(self) -> None:
        self.after = self.optimizer._step + self.steps

    def end_run(self) -> None:
        self.optimizer._step = self.after


def _below(module: Any, seen: dict[int, Any]) -> Iterator[Any]:
    if id(module) not in seen:
        seen[id(module)] = module
        yield module
        for child in info_of(module).children:
            yield from _below(child.module, seen)


class Tracing:
    """The modules, optimizers and slots that a function uses while it is traced."""

    def __init__(self, lift: Callable[..., Any], count: int, backend: str, follows: bool) -> None:
        self.lift, self.backend = lift, backend
        # Whether the arguments, none of them a tensor, follow the backend of the first module.
        self.follows = follows
        # The number of inputs; for each input after the arguments: the slot, its value, its tracer.
        self.first = self.count = count
        self.slots: list[Slot] = []
        self.old: list[Any] = []
        self.new: list[Any] = []
        self.modules: dict[int, UsedModule] = {}
        self.optimizers: dict[int, UsedOptimizer] = {}
        self._scalars: dict[tuple[Any, ...], Any] = {}

    def _add(self, slot: Slot, value: Any, name: str) -> Any:
        traced = self.lift(value, slot.role, f"{self.count}:{name}")
        self.slots.append(slot)
        self.old.append(value)
        self.new.append(traced)
        self.count += 1
        return traced

    def register_module(self, module: Any) -> None:
        """Replaces the variables and buffers of a module with tracers."""
        if id(module) in self.modules:
            return
        used = self.modules[id(module)] = UsedModule(module)
        if not is_built(module):
            raise UnbuiltModule(label(module))
        info = ensure(module)
        v = stored(module)
        for path in info.leaves:
            slot: Variable | Buffer = Variable(v, path)
            self._lift(used, slot)
        sync_tied_weights(module)
        for path, holder, key in _buffers(module, ""):
            self._lift(used, Buffer(holder, key, path))
        used.is_temporary = info.is_copy and not used.slots

    def owners(self) -> list["UsedModule | UsedOptimizer"]:
        """The outermost modules and the optimizers that the program depends on, without temporary modules of transforms."""
        modules = [used for used in self.modules.values() if not used.is_temporary]
        inner: dict[int, Any] = {}
        for own in modules:
            for module in _below(own.module, {}):
                if module is not own.module:
                    inner[id(module)] = module
        return [*(own for own in modules if id(own.module) not in inner), *self.optimizers.values()]

    def _lift(self, used: UsedModule, slot: Variable | Buffer) -> None:
        x = slot.read()
        if _core._tree.is_array(x) and _has_values(x):
            if self.follows and (backend := backend_of(x)) != self.backend:
                raise BackendMismatch(backend)
            self.follows = False
            slot.write(self._add(slot, x, slot.path))
            used.slots.append(slot)

    def register_optimizer(self, optimizer: Any, params: dict[str, Any]) -> None:
        """Replaces the state of an optimizer with tracers; state that does not exist yet is created."""
        if id(optimizer) in self.optimizers:
            return
        used = self.optimizers[id(optimizer)] = UsedOptimizer(optimizer)
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
                used.slots.append(slot)

    def step_scalars(self, optimizer: Any, group: int, missed: int, x: Any) -> Any:
        """The scalars of an update rule, as a traced vector."""
        ahead = optimizer._step - self.optimizers[id(optimizer)].before[0]
        is_double = x.dtype in (_core.float64, _core.complex128)
        key = (id(optimizer), group, missed, ahead, is_double)
        if key not in self._scalars:
            slot = StepScalars(optimizer, (group, missed, ahead), is_double, self.backend)
            self._scalars[key] = self._add(slot, slot.read(), f"rate {len(self._scalars)}")
        return self._scalars[key]

    def updates(self) -> list[tuple[int, Slot, Any]]:
        """The slots that no longer hold the tracer put there: index of the input, slot, new value."""
        found: list[tuple[int, Slot, Any]] = []
        for at, (slot, traced) in enumerate(zip(self.slots, self.new, strict=True)):
            if isinstance(slot, StepScalars):
                continue
            now = slot.read()
            number = self.lift.number(now)  # type: ignore[attr-defined]
            if now is not traced or number != self.lift.number(traced):  # type: ignore[attr-defined]
                if not isinstance(now, _core.Tensor):
                    now = _core.asarray(now)
                found.append((self.first + at, slot, now))
        return found

    def check_leaks(self) -> None:
        """Raises if an attribute of a module that is neither a variable nor a buffer holds a tracer."""
        for used in self.modules.values():
            for module in _below(used.module, {}):
                for name, x in module.__dict__.items():
                    if name != NAME and isinstance(x, _core.Tensor) and self.lift.owns(x):  # type: ignore[attr-defined]
                        slots = {id(s.holder): s.key for s in used.slots if isinstance(s, Buffer)}
                        if slots.get(id(module)) == name:
                            continue
                        del module.__dict__[name]
                        raise TraceError(
                            f"{label(module)}: `{name}` was set to a tracer, which is only valid while the function is"
                            " traced; make it a cm.State(...) in __init__ to keep the value, or return it"
                        )

    def restore(self) -> None:
        """Restores the values of all slots."""
        for slot, value in zip(self.slots, self.old, strict=True):
            if not isinstance(slot, StepScalars):
                slot.write(value)
        for used in self.modules.values():
            sync_tied_weights(used.module)
        for own in self.optimizers.values():
            own.optimizer._step, own.optimizer._missed, own.optimizer._is_restored = own.before

    @contextmanager
    def active(self) -> Iterator[None]:
        """A context in which modules and optimizers register here at their first use."""
        token, other = TRACING.set(self), RECORDING.set(True)
        try:
            yield
        finally:
            RECORDING.reset(other)
            TRACING.reset(token)


def donatable_inputs(
    replaced: list[tuple[int, Slot]], owners: list[UsedModule | UsedOptimizer]
) -> list[tuple[int, list[ContainerSlot]]]:
    """The updated inputs whose references can all be counted, each with the container items that refer to it as well."""
    items = [item for own in owners if isinstance(own, UsedModule) for item in own.container_slots or ()]
    found = []
    for at, slot in replaced:
        own = slots_of(slot.holder, slot.key, items) if isinstance(slot, Variable) else []
        if own is not None:
            found.append((at, own))
    return found
