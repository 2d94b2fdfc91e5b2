"""Activations as layers. Each is the function of the same name."""

from typing import Any

from .. import _clematis as _core
from ..errors import ShapeError
from ._base import Layer, Plain, count
from .initializers import Constant


class ReLU(Plain):
    """`max(x, 0)`.

    >>> cm.nn.ReLU()(cm.asarray([-1.0, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    _function = staticmethod(_core.relu)


class ReLU6(Plain):
    """x held between 0 and 6.

    >>> cm.nn.ReLU6()(cm.asarray([-1.0, 2.0, 8.0]))
    Tensor([0.0, 2.0, 6.0], float32, native)
    """

    _function = staticmethod(_core.relu6)


class SELU(Plain):
    """`elu` with the constants that keep mean and variance.

    >>> cm.nn.SELU()(cm.asarray([0.0, 1.0]))
    Tensor([   0.0, 1.0507], float32, native)
    """

    _function = staticmethod(_core.selu)


class Sigmoid(Plain):
    """`1 / (1 + exp(-x))`.

    >>> cm.nn.Sigmoid()(cm.asarray([0.0]))
    Tensor([0.5], float32, native)
    """

    _function = staticmethod(_core.sigmoid)


class LogSigmoid(Plain):
    """`log(sigmoid(x))`.

    >>> cm.nn.LogSigmoid()(cm.asarray([0.0]))
    Tensor([-0.693147], float32, native)
    """

    _function = staticmethod(_core.log_sigmoid)


class Tanh(Plain):
    """The hyperbolic tangent.

    >>> cm.nn.Tanh()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    _function = staticmethod(_core.tanh)


class SiLU(Plain):
    """`x · sigmoid(x)`.

    >>> cm.nn.SiLU()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    _function = staticmethod(_core.silu)


class Mish(Plain):
    """`x · tanh(softplus(x))`.

    >>> cm.nn.Mish()(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    _function = staticmethod(_core.mish)


class HardSigmoid(Plain):
    """`relu6(x + 3) / 6`.

    >>> cm.nn.HardSigmoid()(cm.asarray([0.0, 5.0]))
    Tensor([0.5, 1.0], float32, native)
    """

    _function = staticmethod(_core.hard_sigmoid)


class HardSwish(Plain):
    """`x · hard_sigmoid(x)`.

    >>> cm.nn.HardSwish()(cm.asarray([0.0, 5.0]))
    Tensor([0.0, 5.0], float32, native)
    """

    _function = staticmethod(_core.hard_swish)


class GEGLU(Plain):
    """The first half of the last axis times `gelu` of the second.

    >>> cm.nn.GEGLU()(cm.asarray([[3.0, 0.0]]))
    Tensor([[0.0]], float32, native)
    """

    _function = staticmethod(_core.geglu)


class GELU(Plain):
    """x times the normal distribution function of x, or its tanh approximation.

    >>> cm.nn.GELU(approximate=True)(cm.asarray([0.0]))
    Tensor([0.0], float32, native)
    """

    _function = staticmethod(_core.gelu)

    def __init__(self, *, approximate: bool = False, **options: Any) -> None:
        super().__init__({"approximate": approximate}, **options)


class LeakyReLU(Plain):
    """x where positive, `alpha · x` elsewhere.

    >>> cm.nn.LeakyReLU(0.5)(cm.asarray([-1.0, 2.0]))
    Tensor([-0.5,  2.0], float32, native)
    """

    _function = staticmethod(_core.leaky_relu)

    def __init__(self, alpha: float = 0.2, **options: Any) -> None:
        super().__init__({"alpha": alpha}, **options)


class ELU(Plain):
    """x where positive, `alpha · (exp(x) - 1)` elsewhere.

    >>> cm.nn.ELU()(cm.asarray([0.0, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    _function = staticmethod(_core.elu)

    def __init__(self, alpha: float = 1.0, **options: Any) -> None:
        super().__init__({"alpha": alpha}, **options)


class ThresholdedReLU(Plain):
    """x where it is above a threshold, 0 elsewhere.

    >>> cm.nn.ThresholdedReLU(1.0)(cm.asarray([0.5, 2.0]))
    Tensor([0.0, 2.0], float32, native)
    """

    _function = staticmethod(_core.thresholded_relu)

    def __init__(self, threshold: float = 0.0, **options: Any) -> None:
        super().__init__({"threshold": threshold}, **options)


class Softplus(Plain):
    """`log(1 + exp(beta · x)) / beta`; x itself where `beta · x` is above a threshold.

    >>> cm.nn.Softplus()(cm.asarray([0.0]))
    Tensor([0.693147], float32, native)
    """

    _function = staticmethod(_core.softplus)

    def __init__(self, beta: float | None = None, threshold: float | None = None, **options: Any) -> None:
        super().__init__({"beta": beta, "threshold": threshold}, **options)


class Logit(Plain):
    """`log(x / (1 - x))`, with x held between `eps` and `1 - eps`.

    >>> cm.nn.Logit()(cm.asarray([0.5]))
    Tensor([0.0], float32, native)
    """

    _function = staticmethod(_core.logit)

    def __init__(self, eps: float | None = None, **options: Any) -> None:
        super().__init__({"eps": eps}, **options)


class Softmax(Plain):
    """`exp(x)`, scaled to sum to one along an axis.

    >>> cm.nn.Softmax()(cm.asarray([1.0, 1.0]))
    Tensor([0.5, 0.5], float32, native)
    """

    _function = staticmethod(_core.softmax)

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__({"axis": axis}, **options)


class LogSoftmax(Plain):
    """`log(softmax(x))` along an axis.

    >>> cm.nn.LogSoftmax()(cm.asarray([1.0, 1.0]))
    Tensor([-0.693147, -0.693147], float32, native)
    """

    _function = staticmethod(_core.log_softmax)

    def __init__(self, axis: int = -1, **options: Any) -> None:
        super().__init__({"axis": axis}, **options)


class PReLU(Layer):
    """x where positive, `weight · x` elsewhere. The weight is trained: one for all channels, or one for each (last axis).

    >>> cm.nn.PReLU()(cm.asarray([-1.0, 2.0]))
    Tensor([-0.25,   2.0], float32, native)
    """

    def __init__(self, channels: int = 1, /, *, init: float = 0.25, **options: Any) -> None:
        self.channels, self.init = count(self, "channels", channels), init
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        return {"weight": Constant(self.init).create_variables((self.channels,), device, dtype=dtype)}

    def _forward(self, x: Any) -> Any:
        if self.channels > 1 and x.shape[-1] != self.channels:
            raise ShapeError(f"PReLU: {self.channels} channels were expected in {tuple(x.shape)}")
        return _core.prelu(x, self.v["weight"])
