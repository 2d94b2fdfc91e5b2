"""Losses as layers: `loss(true, pred)`. Unless told otherwise each is one number, the mean."""

from typing import Any

from .. import _clematis as _core
from ._base import Layer, choice

_REDUCTIONS = ("none", "sum", "mean")


class _Loss(Layer):
    """A function of the truth and a prediction."""

    _function: Any = None

    def __init__(self, *, reduction: str = "mean", **options: Any) -> None:
        self.reduction = choice(self, "reduction", reduction, _REDUCTIONS)
        super().__init__(**options)

    def _settings(self) -> dict[str, Any]:
        return {}

    def _forward(self, true: Any, pred: Any) -> Any:
        return self._function(true, pred, reduction=self.reduction, **self._settings())


class L1Loss(_Loss):
    """`|pred - true|`.

    >>> cm.nn.L1Loss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.5, float32, native)
    """

    _function = staticmethod(_core.l1_loss)


class MSELoss(_Loss):
    """`(pred - true)²`.

    >>> cm.nn.MSELoss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(2.5, float32, native)
    """

    _function = staticmethod(_core.mse_loss)


class HuberLoss(_Loss):
    """Half the square of the difference up to `delta`, then straight.

    >>> cm.nn.HuberLoss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.0, float32, native)
    """

    _function = staticmethod(_core.huber_loss)

    def __init__(self, *, delta: float = 1.0, **options: Any) -> None:
        self.delta = delta
        super().__init__(**options)

    def _settings(self) -> dict[str, Any]:
        return {"delta": self.delta}


class SmoothL1Loss(_Loss):
    """The Huber loss divided by `beta`, so that its gradient has magnitude 1 beyond `beta`.

    >>> cm.nn.SmoothL1Loss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.0, float32, native)
    """

    _function = staticmethod(_core.smooth_l1_loss)

    def __init__(self, *, beta: float = 1.0, **options: Any) -> None:
        self.beta = beta
        super().__init__(**options)

    def _settings(self) -> dict[str, Any]:
        return {"beta": self.beta}


class BinaryCrossEntropyLoss(_Loss):
    """`-(true · log(pred) + (1 - true) · log(1 - pred))`; with `from_logits`, pred is what the sigmoid is taken of.

    >>> cm.nn.BinaryCrossEntropyLoss(from_logits=True)(cm.asarray([1.0]), cm.asarray([0.0]))
    Tensor(0.693147, float32, native)
    """

    def __init__(
        self, *, from_logits: bool = False, epsilon: float = 1e-7, pos_weight: Any = None, **options: Any
    ) -> None:
        self.from_logits, self.epsilon, self._pos_weight = from_logits, epsilon, pos_weight
        super().__init__(**options)

    def _forward(self, true: Any, pred: Any) -> Any:
        if not self.from_logits:
            return _core.binary_cross_entropy(true, pred, epsilon=self.epsilon, reduction=self.reduction)
        return _core.binary_cross_entropy_with_logits(true, pred, pos_weight=self._pos_weight, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """`-Σ true · log(pred)` over an axis, one loss for each row.

    With `from_logits`, pred is what the softmax is taken of, and the truth may be the numbers of classes.

    >>> logits = cm.asarray([[0.0, 0.0], [0.0, 0.0]])
    >>> cm.nn.CrossEntropyLoss(from_logits=True)(cm.asarray([1, 0]), logits)
    Tensor(0.693147, float32, native)
    """

    _function = staticmethod(_core.cross_entropy)

    def __init__(self, *, axis: int = -1, from_logits: bool = False, epsilon: float = 1e-7, **options: Any) -> None:
        self.axis, self.from_logits, self.epsilon = axis, from_logits, epsilon
        super().__init__(**options)

    def _forward(self, true: Any, pred: Any) -> Any:
        if self.from_logits:
            return _core.cross_entropy_with_logits(true, pred, axis=self.axis, reduction=self.reduction)
        # The function's own reduction is that of the axis.
        rows = self._function(true, pred, axis=self.axis, epsilon=self.epsilon, reduction="sum")
        return {"none": lambda x: x, "sum": _core.sum, "mean": _core.mean}[self.reduction](rows)


class SparseCrossEntropyLoss(CrossEntropyLoss):
    """The cross-entropy where the truth is the number of a class.

    >>> cm.nn.SparseCrossEntropyLoss()(cm.asarray([1]), cm.asarray([[0.5, 0.5]]))
    Tensor(0.693147, float32, native)
    """

    _function = staticmethod(_core.sparse_cross_entropy)
