"""Activations as layers. Each is the function of the same name."""

from typing import Any

from .. import _clematis as _core
from ..errors import ShapeError
from ._base import Layer, count
from .initializers import Constant


class ReLU(Layer):
    """`max(x, 0)`.

    Examples
    --------
    >>> cm.nn.ReLU()(cm.asarray([-1.0, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.relu(x)


class ReLU6(Layer):
    """x held between 0 and 6.

    Examples
    --------
    >>> cm.nn.ReLU6()(cm.asarray([-1.0, 2.0, 8.0]))
    Tensor([0.0, 2.0, 6.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.relu6(x)


class SELU(Layer):
    """`elu` with the constants that keep mean and variance.

    Examples
    --------
    >>> cm.nn.SELU()(cm.asarray([0.0, 1.0]))
    Tensor([   0.0, 1.0507], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.selu(x)


class Sigmoid(Layer):
    """`1 / (1 + exp(-x))`.

    Examples
    --------
    >>> cm.nn.Sigmoid()(cm.asarray([0.0]))
    Tensor([0.5], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.sigmoid(x)


class LogSigmoid(Layer):
    """`log(sigmoid(x))`.

    Examples
    --------
    >>> cm.nn.LogSigmoid()(cm.asarray([0.0]))
    Tensor([-0.693147], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.log_sigmoid(x)


class Tanh(Layer):
    """The hyperbolic tangent.

    Examples
    --------
    >>> cm.nn.Tanh()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.tanh(x)


class SiLU(Layer):
    """`x · sigmoid(x)`.

    Examples
    --------
    >>> cm.nn.SiLU()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.silu(x)


class Mish(Layer):
    """`x · tanh(softplus(x))`.

    Examples
    --------
    >>> cm.nn.Mish()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.mish(x)


class HardSigmoid(Layer):
    """`relu6(x + 3) / 6`.

    Examples
    --------
    >>> cm.nn.HardSigmoid()(cm.asarray([0.0, 5.0]))
    Tensor([0.5, 1.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.hard_sigmoid(x)


class HardSwish(Layer):
    """`x · hard_sigmoid(x)`.

    Examples
    --------
    >>> cm.nn.HardSwish()(cm.asarray([0.0, 5.0]))
    Tensor([0.0, 5.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.hard_swish(x)


class GEGLU(Layer):
    """The first half of the last axis times `gelu` of the second.

    Examples
    --------
    >>> cm.nn.GEGLU()(cm.asarray([[3.0, 0.0]]))
    Tensor([[0.0]], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return _core.geglu(x)


class GELU(Layer):
    """x times the normal distribution function of x, or its tanh approximation.

    Parameters
    ----------
    approximate : bool

    Examples
    --------
    >>> cm.nn.GELU(approximate=True)(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    def __init__(self, approximate: bool = False) -> None:
        self.approximate = approximate

    def __call__(self, x: Any) -> Any:
        return _core.gelu(x, approximate=self.approximate)


class LeakyReLU(Layer):
    """x where positive, `alpha · x` elsewhere.

    Parameters
    ----------
    alpha : float

    Examples
    --------
    >>> cm.nn.LeakyReLU(0.5)(cm.asarray([-1.0, 2.0]))
    Tensor([-0.5,  2.0], float32, native)
    """

    def __init__(self, alpha: float = 0.2) -> None:
        self.alpha = alpha

    def __call__(self, x: Any) -> Any:
        return _core.leaky_relu(x, alpha=self.alpha)


class ELU(Layer):
    """x where positive, `alpha · (exp(x) - 1)` elsewhere.

    Parameters
    ----------
    alpha : float

    Examples
    --------
    >>> cm.nn.ELU()(cm.asarray([0.0, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def __call__(self, x: Any) -> Any:
        return _core.elu(x, alpha=self.alpha)


class ThresholdedReLU(Layer):
    """x where it is above a threshold, 0 elsewhere.

    Parameters
    ----------
    threshold : float

    Examples
    --------
    >>> cm.nn.ThresholdedReLU(1.0)(cm.asarray([0.5, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    def __init__(self, threshold: float = 0.0) -> None:
        self.threshold = threshold

    def __call__(self, x: Any) -> Any:
        return _core.thresholded_relu(x, threshold=self.threshold)


class Softplus(Layer):
    """`log(1 + exp(beta · x)) / beta`; x itself where `beta · x` is above a threshold.

    Parameters
    ----------
    beta, threshold : float, optional

    Examples
    --------
    >>> cm.nn.Softplus()(cm.asarray([0.0]))
    Tensor([0.693147], float32, native)
    """

    def __init__(self, beta: float | None = None, threshold: float | None = None) -> None:
        self.beta, self.threshold = beta, threshold

    def __call__(self, x: Any) -> Any:
        return _core.softplus(x, beta=self.beta, threshold=self.threshold)


class Logit(Layer):
    """`log(x / (1 - x))`, with x held between `epsilon` and `1 - epsilon`.

    Parameters
    ----------
    epsilon : float, optional

    Examples
    --------
    >>> cm.nn.Logit()(cm.asarray([0.5]))
    Tensor([0.0], float32, native)
    """

    def __init__(self, epsilon: float | None = None) -> None:
        self.epsilon = epsilon

    def __call__(self, x: Any) -> Any:
        return _core.logit(x, eps=self.epsilon)


class Softmax(Layer):
    """`exp(x)`, scaled to sum to one along an axis.

    Parameters
    ----------
    axis : int

    Examples
    --------
    >>> cm.nn.Softmax()(cm.asarray([1.0, 1.0]))
    Tensor([0.5, 0.5], float32, native)
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, x: Any) -> Any:
        return _core.softmax(x, axis=self.axis)


class LogSoftmax(Layer):
    """`log(softmax(x))` along an axis.

    Parameters
    ----------
    axis : int

    Examples
    --------
    >>> cm.nn.LogSoftmax()(cm.asarray([1.0, 1.0]))
    Tensor([-0.693147, -0.693147], float32, native)
    """

    def __init__(self, axis: int = -1) -> None:
        self.axis = axis

    def __call__(self, x: Any) -> Any:
        return _core.log_softmax(x, axis=self.axis)


class PReLU(Layer):
    """x where positive, `weight · x` elsewhere; the weight is trained.

    Parameters
    ----------
    channels : int
        The size of `weight`: one for all channels, or one for each (last axis).
    init : float
        What `weight` starts with.

    Examples
    --------
    >>> cm.nn.PReLU()(cm.asarray([-1.0, 2.0]))
    Tensor([-0.25,   2.0], float32, native)
    """

    def __init__(self, channels: int = 1, init: float = 0.25, *, device: Any = None, dtype: Any = None) -> None:
        self.channels, self.init = count(self, "channels", channels), init
        self.weight = Constant(init).create_variables((self.channels,), device, dtype=dtype)

    def __call__(self, x: Any) -> Any:
        if self.channels > 1 and x.shape[-1] != self.channels:
            raise ShapeError(f"PReLU: {self.channels} channels were expected in {tuple(x.shape)}")
        return _core.prelu(x, self.weight)
