"""One step for the gradients of several batches."""

from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core
from . import leaves
from .optimizer import flat, nested
from .schedules import whole
from .wrapper import Wrapper


class Accumulate(Wrapper):
    """Takes one step with the mean of every so many gradients; until then parameters stay as they are.

    >>> optimizer = cm.optim.Accumulate(cm.optim.SGD(1.0), every=2)
    >>> v = cm.Container(w=cm.asarray([0.0]))
    >>> optimizer.step(v, {"w": cm.asarray([1.0])}).w
    Tensor([0.0], float32, native)
    >>> optimizer.step(v, {"w": cm.asarray([3.0])}).w
    Tensor([-2.0], float32, native)
    """

    def __init__(self, optimizer: Any, every: int) -> None:
        super().__init__(optimizer)
        self.every = whole("Accumulate: every", every)
        self._reset()

    def _reset(self) -> None:
        self._count = 0
        self._sum: dict[str, Any] = {}

    def step(self, v: Any, grads: Any, ignore_missing: bool = False) -> Any:
        """Adds the gradients to the sum; every so many times, a step of the optimiser inside."""
        self._check_untraced()
        new = leaves.by_path("Accumulate.step", grads)
        total = _core._summed(self._sum, new) if self._count else _core._scaled(new, 1.0)
        if self._count + 1 < self.every:
            self._sum, self._count = total, self._count + 1
            return v
        out = self.optimizer.step(v, _core._scaled(total, 1.0 / self.every), ignore_missing)
        self._reset()
        return out

    def _own(self) -> dict[str, Any]:
        return {"count": self._count, "sum": nested(self._sum)}

    def _take(self, state: Mapping[str, Any]) -> None:
        count = whole("Accumulate.set_state: count", state["count"], 0)
        self._count, self._sum = count, dict(flat(state["sum"]))
