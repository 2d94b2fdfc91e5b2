"""What all optimisers have in common: a learning rate, groups of parameters, state, and the step over a tree.

The formulas are in Rust (`clematis::nn::functional::optimizer_rule`), called once for all parameters. Everything that can go
wrong goes wrong before anything is changed.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .. import _clematis as _core
from .._module.info import TRACING
from ..container import Container
from ..errors import ArgumentError, StructureError
from . import leaves
from .schedules import Schedule, whole

Rate = float | Schedule | Callable[[], Any]


def rate(name: str, lr: Any, step: int) -> float:
    """The learning rate of a step."""
    value = lr(step) if isinstance(lr, Schedule) else lr() if callable(lr) and not _core._tree.is_array(lr) else lr
    try:
        out = float(value)
    except (TypeError, ValueError):
        raise ArgumentError(f"{name}: lr is a number, a schedule or a function of nothing, not {value!r}") from None
    if isinstance(value, (bool, str)) or not (math.isfinite(out) and out >= 0):
        raise ArgumentError(f"{name}: lr is a number from 0 on, not {value!r}")
    return out


def listed(lines: Iterable[str], most: int = 20) -> str:
    """Lines under each other, the first of many."""
    lines = list(lines)
    more = [f"  … and {len(lines) - most} more"] if len(lines) > most else []
    return "\n".join([*(f"  {line}" for line in lines[:most]), *more])


class Optimizer:
    """Moves parameters against their gradients: `v = optimizer.step(v, gradients)`.

    Subclasses name a rule of the core and its numbers. `groups` gives parameters whose paths fit a pattern other
    numbers: `Adam(1e-3, groups={"head/*": {"lr": 1e-2}})`; the first pattern that fits counts.

    >>> isinstance(cm.optim.Adam(), cm.optim.Optimizer)
    True
    """

    # A program knows an optimiser by itself, not by what it remembers.
    __jit_held__ = True

    def __init__(
        self,
        lr: Rate,
        settings: Mapping[str, Any],
        *,
        inplace: bool = True,
        stop_gradients: bool = True,
        compile_on_next_step: bool = False,
        device: Any = None,
        groups: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        # `compile_on_next_step` and `device` are what older programs say; arrays live where the parameters do.
        self.lr, self.inplace, self.stop_gradients = lr, bool(inplace), bool(stop_gradients)
        # The rule in the core has the name of the class in this package.
        self._rule = next(c.__name__ for c in type(self).__mro__ if c.__module__.startswith(f"{__package__}."))
        self._settings = dict(settings)
        self._names = tuple(_core._optim_slots(self._rule, self._settings))
        if isinstance(lr, Schedule) or not callable(lr) or _core._tree.is_array(lr):
            rate(self._rule, lr, 0)
        self.groups = {pattern: self._group(pattern, numbers) for pattern, numbers in (groups or {}).items()}
        # Steps taken, moments by path, and how many of the steps went by without a parameter.
        self._step = 0
        self._moments: dict[str, list[Any]] = {}
        self._missed: dict[str, int] = {}
        # A state from elsewhere is compared with the parameters at the next step.
        self._is_restored = False
        # Which group a path belongs to; patterns are looked at once.
        self._known: dict[str, int] = {}

    def _group(self, pattern: str, numbers: Mapping[str, Any]) -> dict[str, Any]:
        allowed = ["lr", *self._settings]
        for name in numbers:
            if name not in allowed:
                raise ArgumentError(
                    f"{self._rule}: group {pattern!r} sets `{name}`, but there are {', '.join(allowed)}"
                )
        merged = {**self._settings, **{name: x for name, x in numbers.items() if name != "lr"}}
        if tuple(_core._optim_slots(self._rule, merged)) != self._names:
            raise ArgumentError(f"{self._rule}: group {pattern!r} needs other moments than the rest")
        lr = numbers.get("lr", self.lr)
        if isinstance(lr, Schedule) or not callable(lr):
            rate(self._rule, lr, 0)
        return {"lr": numbers.get("lr"), "settings": merged}

    def __getattr__(self, name: str) -> Any:
        settings = self.__dict__.get("_settings", {})
        if name in settings:
            return settings[name]
        raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'", name=name, obj=self)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name}={x!r}" for name, x in {"lr": self.lr, **self._settings}.items())
        return f"{type(self).__name__}({numbers})"

    # Steps.

    def init(self, v: Any) -> "Optimizer":
        """Moments of zeros for these parameters, and no step taken. The first step does so by itself."""
        moments = {}
        for path, x in leaves.by_path(f"{self._rule}.init", v).items():
            with _core.backend(_core.asarray(x).backend):
                zeros = _core._scaled(_core.zeros_like(_core.asarray(x)), 1.0)
            moments[path] = [zeros] * len(self._names)
        self._step, self._missed, self._is_restored = 0, {}, False
        self._moments = moments if self._names else {}
        return self

    def step(self, v: Any, grads: Any, ignore_missing: bool = False) -> Any:
        """One step: the tree with its new arrays, the same one if `inplace`.

        Parameters are the arrays of a container, a dict, a module or any other tree; gradients have the same paths,
        shapes, dtypes and backends. With `ignore_missing` parameters without a gradient stay as they are.
        """
        grad_leaves = leaves.by_path(f"{self._rule}.step", grads)
        params = leaves.by_path(f"{self._rule}.step", v)
        self._compare(v, params, grad_leaves, ignore_missing)
        tracing = TRACING.get()
        if tracing is not None:
            tracing.register_optimizer(self, params)
        rates = self._rates()
        rows = []
        for path, x in params.items():
            if path in grad_leaves:
                # A parameter that comes late, or was left out, counts its own steps.
                missed = self._missed.get(path, self._step if self._is_new(path) else 0)
                place, count = self._place(path), self._step - missed + 1
                if tracing is not None:
                    # The count is another one at each run of the program.
                    count = tracing.step_scalars(self, place, missed, x)
                rows.append((path, x, grad_leaves[path], self._moments.get(path), place, count))
        new, moments = _core._optim_step(self._rule, rates, rows, self.stop_gradients)
        paths = [row[0] for row in rows]
        out = leaves.placed(v, dict(zip(paths, new, strict=True)), inplace=self.inplace)
        self._advance(paths, moments)
        return out

    def _is_new(self, path: str) -> bool:
        return self._step > 0 and bool(self._names) and path not in self._moments

    def _advance(self, moved: list[str], moments: list[Any]) -> None:
        """Takes the new moments over and counts the step."""
        if self._names:
            done = set(moved)
            for path in moved:
                if self._is_new(path):
                    self._missed[path] = self._step
            for path in self._moments:
                if path not in done:
                    self._missed[path] = self._missed.get(path, 0) + 1
            self._moments.update(zip(moved, moments, strict=True))
        self._step, self._is_restored = self._step + 1, False

    def _rates(self) -> list[tuple[float, dict[str, Any]]]:
        """The learning rate and the numbers of each group, the rest first."""
        mine = rate(self._rule, self.lr, self._step)
        out = [(mine, self._settings)]
        for group in self.groups.values():
            own = group["lr"]
            out.append((mine if own is None else rate(self._rule, own, self._step), group["settings"]))
        return out

    def _given(self, group: int, missed: int, ahead: int) -> tuple[Mapping[str, Any], float, int]:
        """Settings, learning rate and count of the step that is so many steps ahead."""
        step = self._step + ahead
        own = list(self.groups.values())[group - 1] if group else {"lr": None, "settings": self._settings}
        lr = rate(self._rule, self.lr if own["lr"] is None else own["lr"], step)
        return own["settings"], lr, step - missed + 1

    def _place(self, path: str) -> int:
        """The number of the group that a path belongs to."""
        if not self.groups:
            return 0
        if path not in self._known:
            # Slow to import, and needed by few.
            import fnmatch

            fits = (i for i, pattern in enumerate(self.groups, 1) if fnmatch.fnmatchcase(path, pattern))
            self._known[path] = next(fits, 0)
        return self._known[path]

    def _compare(self, v: Any, params: Mapping[str, Any], grad_leaves: Mapping[str, Any], ignore_missing: bool) -> None:
        """Parameters, gradients and state are of the same things."""
        missing = [path for path in params if path not in grad_leaves]
        extra = [path for path in grad_leaves if path not in params]
        if extra:
            still = leaves.frozen(v)
            extra = [path for path in extra if path not in still]
        if extra or missing and not ignore_missing:
            lines = [f"`{path}` has no gradient" for path in missing if not ignore_missing]
            lines += [f"`{path}` has a gradient, but is no parameter" for path in extra]
            raise StructureError(f"{self._rule}.step: parameters and gradients differ:\n{listed(lines)}")
        unknown = [path for path in self._moments if path not in params]
        if unknown:
            still = leaves.frozen(v)
        lines = [f"`{path}` is in the state, but is no parameter" for path in unknown if path not in still]
        if self._is_restored and self._names:
            for path, x in params.items():
                slots = self._moments.get(path)
                if slots is None:
                    if self._step and path in grad_leaves and not ignore_missing:
                        lines.append(f"`{path}` is a parameter, but is not in the state")
                elif tuple(slots[0].shape) != tuple(x.shape):
                    lines.append(f"`{path}` has the shape {tuple(x.shape)}, in the state {tuple(slots[0].shape)}")
        if lines:
            raise StructureError(f"{self._rule}.step: the state is of other parameters:\n{listed(lines)}")

    # State.

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return self._step

    @property
    def state(self) -> Container:
        """All that is remembered: `step`, and the moments by name and path. `cm.save` takes it as it is."""
        out = Container(step=self._step)
        for i, name in enumerate(self._names):
            out[name] = nested({path: slots[i] for path, slots in self._moments.items()})
        missed = {path: n for path, n in self._missed.items() if n}
        if missed:
            dict.__setitem__(out, "missed", nested(missed))
        return out

    def set_state(self, state: Any) -> None:
        """Goes on where another optimiser of the same kind was; a StructureError tells every difference."""
        step, moments, missed = self._read(state)
        self._step, self._moments, self._missed, self._is_restored = step, moments, missed, True

    def _read(self, state: Any) -> tuple[int, dict[str, list[Any]], dict[str, int]]:
        if not isinstance(state, Mapping):
            raise StructureError(f"{self._rule}.set_state: a dict was expected, not {type(state).__name__}")
        lines = []
        known = {"step", "missed", *self._names}
        lines += [f"`{name}` is not part of this optimiser's state" for name in state if name not in known]
        if "step" not in state:
            lines.append("`step` is missing")
        columns: list[dict[str, Any]] = []
        for name in self._names:
            if name not in state:
                lines.append(f"`{name}` is missing")
            columns.append(dict(leaves.entries(state.get(name, {}))))
        paths = list(dict.fromkeys(path for column in columns for path in column))
        # What is in one column and not in the other.
        for name, column in zip(self._names, columns, strict=True):
            if name in state:
                lines += [f"`{leaves.joined(name, path)}` is missing" for path in paths if path not in column]
        # Once there are moments, they tell what the parameters are.
        for path in self._moments if self._moments else ():
            if path not in paths:
                lines.append(f"`{path}` is a parameter, but has no moments in the state")
        for path in paths if self._moments else ():
            if path not in self._moments:
                lines.append(f"`{path}` has moments in the state, but is no parameter")
                continue
            for i, column in enumerate(columns):
                if path in column and tuple(column[path].shape) != tuple(self._moments[path][i].shape):
                    own, other = tuple(self._moments[path][i].shape), tuple(column[path].shape)
                    lines.append(f"`{leaves.joined(self._names[i], path)}` has the shape {own}, in the state {other}")
        if lines:
            raise StructureError(f"{self._rule}.set_state: the state is of something else:\n{listed(lines)}")
        step = whole(f"{self._rule}.set_state: step", state["step"], 0)
        missed = {path: whole("missed", n, 0) for path, n in flat(state.get("missed", {}))}
        return step, {path: [_core.asarray(column[path]) for column in columns] for path in paths}, missed


def nested(flat: Mapping[str, Any]) -> Any:
    """Dicts inside each other by the words of paths; a single array has none."""
    if list(flat) == [""]:
        return flat[""]
    out = Container()
    for path, x in flat.items():
        out[path] = x
    return out


def flat(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    if not isinstance(tree, Mapping):
        return [(path, tree)]
    return [entry for key, part in tree.items() for entry in flat(part, leaves.joined(path, key))]
