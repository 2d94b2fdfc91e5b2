"""Loss scaling, which keeps half-precision gradients from underflowing."""

from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core
from . import leaves
from .schedules import number, whole
from .wrapper import Wrapper


class LossScale(Wrapper):
    """Differentiate `optimizer.scaled(loss)`; the step divides the gradients by the scale.

    A step whose gradients are not finite is left out, and the scale shrinks by `backoff`; after so many good steps it
    grows by `growth`. Unscaled gradients are float32.

    >>> optimizer = cm.optim.LossScale(cm.optim.SGD(1.0), scale=1024)
    >>> v = cm.Container(w=cm.asarray([1.0], dtype=cm.float16))
    >>> gradients = cm.grad(lambda v: optimizer.scaled(cm.sum(v.w * 0.5)))(v)
    >>> optimizer.step(v, gradients).w
    Tensor([0.5], float16, native)
    >>> _ = optimizer.step(v, {"w": cm.asarray([cm.inf], dtype=cm.float16)})
    >>> v.w, optimizer.scale, optimizer.skipped
    (Tensor([0.5], float16, native), 512.0, 1)
    """

    def __init__(
        self, optimizer: Any, scale: float = 65536.0, growth: float = 2.0, backoff: float = 0.5, every: int = 2000
    ) -> None:
        super().__init__(optimizer)
        self._first = self.scale = number("LossScale: scale", scale)
        self.growth, self.backoff = number("LossScale: growth", growth), number("LossScale: backoff", backoff)
        self.every = whole("LossScale: every", every, 0)
        self._reset()
        self._next(True)

    def _reset(self) -> None:
        self.scale, self._good, self.skipped = self._first, 0, 0

    def _next(self, finite: bool) -> tuple[float, int]:
        scale, good = _core._next_scale(self.scale, self.growth, self.backoff, self.every, self._good, finite)
        return scale, good

    def scaled(self, loss: Any) -> Any:
        """The loss times the scale, in float32 if it is a half."""
        return _core._scaled(loss, self.scale)

    def step(self, v: Any, grads: Any, ignore_missing: bool = False) -> Any:
        """A step of the optimiser inside with the gradients divided by the scale, or none if they are not finite."""
        self._check_untraced()
        new = _core._scaled(leaves.by_path("LossScale.step", grads), 1.0 / self.scale)
        finite = _core._tree.all_finite(new)
        out = self.optimizer.step(v, new, ignore_missing) if finite else v
        self.scale, self._good = self._next(finite)
        self.skipped += not finite
        return out

    def _own(self) -> dict[str, Any]:
        return {"scale": self.scale, "good": self._good, "skipped": self.skipped}

    def _take(self, state: Mapping[str, Any]) -> None:
        scale = number("LossScale.set_state: scale", state["scale"])
        good, skipped = (whole(f"LossScale.set_state: {what}", state[what], 0) for what in ("good", "skipped"))
        self.scale, self._good, self.skipped = scale, good, skipped
