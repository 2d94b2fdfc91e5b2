"""Losses as layers: `loss(true, pred)`."""

from typing import Any

from .. import _clematis as _core
from ._base import Layer, choice


class _Loss(Layer):
    """A function of the truth and a prediction."""

    def __init__(self, reduction: str = "mean") -> None:
        self.reduction = choice(self, "reduction", reduction, ("none", "sum", "mean"))


class L1Loss(_Loss):
    """`|pred - true|`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> cm.nn.L1Loss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.5, float32, native)
    """

    def __call__(self, true: Any, pred: Any) -> Any:
        return _core.l1_loss(true, pred, reduction=self.reduction)


class MSELoss(_Loss):
    """`(pred - true)²`.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> cm.nn.MSELoss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(2.5, float32, native)
    """

    def __call__(self, true: Any, pred: Any) -> Any:
        return _core.mse_loss(true, pred, reduction=self.reduction)


class HuberLoss(_Loss):
    """`d² / 2` of the difference `d` up to `delta`, `delta · (|d| - delta / 2)` beyond.

    Parameters
    ----------
    delta : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> cm.nn.HuberLoss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.0, float32, native)
    """

    def __init__(self, delta: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.delta = delta

    def __call__(self, true: Any, pred: Any) -> Any:
        return _core.huber_loss(true, pred, delta=self.delta, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """The Huber loss divided by `beta`, so that its gradient has magnitude 1 beyond `beta`.

    Parameters
    ----------
    beta : float
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> cm.nn.SmoothL1Loss()(cm.asarray([1.0, 2.0]), cm.asarray([2.0, 4.0]))
    Tensor(1.0, float32, native)
    """

    def __init__(self, beta: float = 1.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.beta = beta

    def __call__(self, true: Any, pred: Any) -> Any:
        return _core.smooth_l1_loss(true, pred, beta=self.beta, reduction=self.reduction)


class BinaryCrossEntropyLoss(_Loss):
    """`-(true · log(pred) + (1 - true) · log(1 - pred))`.

    Parameters
    ----------
    from_logits : bool
        Whether the sigmoid of `pred` is taken first.
    epsilon : float
        Probabilities are clamped to `[epsilon, 1 - epsilon]`.
    pos_weight : array, optional
        The weight of the first term, with `from_logits`.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> cm.nn.BinaryCrossEntropyLoss(from_logits=True)(cm.asarray([1.0]), cm.asarray([0.0]))
    Tensor(0.693147, float32, native)
    """

    def __init__(
        self, from_logits: bool = False, epsilon: float = 1e-7, pos_weight: Any = None, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.from_logits, self.epsilon, self._pos_weight = from_logits, epsilon, pos_weight

    def __call__(self, true: Any, pred: Any) -> Any:
        if not self.from_logits:
            return _core.binary_cross_entropy(true, pred, epsilon=self.epsilon, reduction=self.reduction)
        return _core.binary_cross_entropy_with_logits(true, pred, pos_weight=self._pos_weight, reduction=self.reduction)


class CrossEntropyLoss(_Loss):
    """`-Σ true · log(pred)` over an axis, one loss for each row.

    Parameters
    ----------
    axis : int
        The axis of the classes.
    from_logits : bool
        Whether the softmax of `pred` is taken first; the truth may then be the indices of the classes.
    epsilon : float
        Probabilities are clamped to `[epsilon, 1 - epsilon]`.
    reduction : {"mean", "sum", "none"}

    Examples
    --------
    >>> logits = cm.asarray([[0.0, 0.0], [0.0, 0.0]])
    >>> cm.nn.CrossEntropyLoss(from_logits=True)(cm.asarray([1, 0]), logits)
    Tensor(0.693147, float32, native)
    """

    _function: Any = staticmethod(_core.cross_entropy)

    def __init__(
        self, axis: int = -1, from_logits: bool = False, epsilon: float = 1e-7, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction)
        self.axis, self.from_logits, self.epsilon = axis, from_logits, epsilon

    def __call__(self, true: Any, pred: Any) -> Any:
        if self.from_logits:
            return _core.cross_entropy_with_logits(true, pred, axis=self.axis, reduction=self.reduction)
        # The function's own reduction is that of the axis.
        rows = self._function(true, pred, axis=self.axis, epsilon=self.epsilon, reduction="sum")
        return {"none": lambda x: x, "sum": _core.sum, "mean": _core.mean}[self.reduction](rows)


class SparseCrossEntropyLoss(CrossEntropyLoss):
    """The cross-entropy where the truth is the index of a class. Parameters are those of `CrossEntropyLoss`.

    Examples
    --------
    >>> cm.nn.SparseCrossEntropyLoss()(cm.asarray([1]), cm.asarray([[0.5, 0.5]]))
    Tensor(0.693147, float32, native)
    """

    _function = staticmethod(_core.sparse_cross_entropy)
