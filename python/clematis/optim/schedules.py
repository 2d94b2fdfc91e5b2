"""Learning rates that change from step to step.

A schedule is a pure function of the number of steps taken, so a run that goes on after a checkpoint needs to know its
step and nothing else. The values are computed in Rust, the same as in `clematis::nn::Schedule`.
"""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError


class Schedule:
    """A number for each step, from 0: `schedule(step)`.

    >>> isinstance(cm.optim.schedules.Constant(0.1), cm.optim.schedules.Schedule)
    True
    """

    # The name in Rust, and the attributes that follow it.
    _name = ""
    _fields: tuple[str, ...] = ()

    def _check(self) -> None:
        """Every number makes sense; the errors are those of the first step."""
        self(0)

    def _data(self) -> tuple[Any, ...]:
        return (self._name, *(getattr(self, field) for field in self._fields))

    def __call__(self, step: int) -> float:
        """The value for a step."""
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ArgumentError(f"{type(self).__name__}: a step is a whole number from 0 on, not {step!r}")
        value: float = _core._schedule_at(self._data(), step)
        return value

    def __repr__(self) -> str:
        inside = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({inside})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Schedule) and self._data() == other._data()

    def __hash__(self) -> int:
        return hash(self._data())


def number(what: str, x: Any) -> float:
    """A plain number."""
    if isinstance(x, (bool, str, bytes)):
        raise ArgumentError(f"{what} is a number, not {x!r}")
    try:
        return float(x)
    except (TypeError, ValueError):
        raise ArgumentError(f"{what} is a number, not {x!r}") from None


def whole(what: str, x: Any, least: int = 1) -> int:
    """A whole number."""
    if isinstance(x, bool) or not hasattr(x, "__index__"):
        raise ArgumentError(f"{what} is a whole number from {least} on, not {x!r}")
    x = x.__index__()
    if not least <= x < 2**63:
        raise ArgumentError(f"{what} is a whole number from {least} on, not {x!r}")
    return int(x)


class Constant(Schedule):
    """Always the same.

    >>> cm.optim.schedules.Constant(0.1)(1000)
    0.1
    """

    _name, _fields = "constant", ("lr",)

    def __init__(self, lr: float) -> None:
        self.lr = number("Constant: lr", lr)
        self._check()


class Step(Schedule):
    """Times `factor` after every so many steps.

    >>> schedule = cm.optim.schedules.Step(1.0, every=10, factor=0.5)
    >>> schedule(9), schedule(10), schedule(20)
    (1.0, 0.5, 0.25)
    """

    _name, _fields = "step", ("lr", "every", "factor")

    def __init__(self, lr: float, every: int, factor: float = 0.1) -> None:
        self.lr, self.factor = number("Step: lr", lr), number("Step: factor", factor)
        self.every = whole("Step: every", every)
        self._check()


class Exponential(Schedule):
    """Times `factor` after each step.

    >>> cm.optim.schedules.Exponential(1.0, 0.5)(3)
    0.125
    """

    _name, _fields = "exponential", ("lr", "factor")

    def __init__(self, lr: float, factor: float) -> None:
        self.lr, self.factor = number("Exponential: lr", lr), number("Exponential: factor", factor)
        self._check()


class Linear(Schedule):
    """From `start` to `end` in so many steps along a straight line, and then constant.

    >>> cm.optim.schedules.Linear(1.0, 0.0, 4)(1)
    0.75
    """

    _name, _fields = "linear", ("start", "end", "steps")

    def __init__(self, start: float, end: float, steps: int) -> None:
        self.start, self.end = number("Linear: start", start), number("Linear: end", end)
        self.steps = whole("Linear: steps", steps)
        self._check()


class Cosine(Schedule):
    """From `lr` to `end` in so many steps along half a period of a cosine, and then constant.

    >>> schedule = cm.optim.schedules.Cosine(1.0, 100)
    >>> schedule(0), schedule(50), schedule(100)
    (1.0, 0.5, 0.0)
    """

    _name, _fields = "cosine", ("lr", "end", "steps")

    def __init__(self, lr: float, steps: int, end: float = 0.0) -> None:
        self.lr, self.end = number("Cosine: lr", lr), number("Cosine: end", end)
        self.steps = whole("Cosine: steps", steps)
        self._check()


class OneCycle(Schedule):
    """From `lr / divide` up to `lr`, then down to `1 / final_divide` of the first; both ways along a cosine.

    `rise` is the share of the steps on the way up.

    >>> schedule = cm.optim.schedules.OneCycle(1.0, 100)
    >>> round(schedule(0), 6), schedule(29)
    (0.04, 1.0)
    """

    _name, _fields = "one_cycle", ("lr", "steps", "rise", "divide", "final_divide")

    def __init__(
        self, lr: float, steps: int, rise: float = 0.3, divide: float = 25.0, final_divide: float = 1e4
    ) -> None:
        self.lr, self.steps = number("OneCycle: lr", lr), whole("OneCycle: steps", steps)
        self.rise, self.divide = number("OneCycle: rise", rise), number("OneCycle: divide", divide)
        self.final_divide = number("OneCycle: final_divide", final_divide)
        self._check()


class Warmup(Schedule):
    """Along a straight line from `start` to the first value of what follows, which then counts from its own step 0.

    >>> schedule = cm.optim.schedules.Warmup(10, cm.optim.schedules.Cosine(1.0, 100))
    >>> schedule(0), schedule(5), schedule(10), schedule(110)
    (0.0, 0.5, 1.0, 0.0)
    """

    _name, _fields = "warmup", ("steps", "then", "start")

    def __init__(self, steps: int, then: "Schedule | float", start: float = 0.0) -> None:
        self.steps, self.start = whole("Warmup: steps", steps, 0), number("Warmup: start", start)
        self.then = then if isinstance(then, Schedule) else Constant(then)
        self._check()

    def _data(self) -> tuple[Any, ...]:
        return (self._name, self.steps, self.then._data(), self.start)


class Join(Schedule):
    """One after the other, as pairs of a step and the schedule that begins there; each counts from its own step 0.

    >>> schedule = cm.optim.schedules.Join([(0, 1.0), (10, cm.optim.schedules.Exponential(1.0, 0.5))])
    >>> schedule(9), schedule(10), schedule(11)
    (1.0, 1.0, 0.5)
    """

    _name, _fields = "join", ("parts",)

    def __init__(self, parts: "Sequence[tuple[int, Schedule | float]]") -> None:
        self.parts = [
            (whole("Join: a step", at, 0), part if isinstance(part, Schedule) else Constant(part)) for at, part in parts
        ]
        self._check()

    def _data(self) -> tuple[Any, ...]:
        return (self._name, tuple((at, part._data()) for at, part in self.parts))


__all__ = ["Constant", "Cosine", "Exponential", "Join", "Linear", "OneCycle", "Schedule", "Step", "Warmup"]
