"""Random zeros while training."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import Layer, choice


def _share(layer: Any, prob: float) -> float:
    if not 0 <= prob <= 1:
        raise ArgumentError(f"{type(layer).__name__}: prob is from 0 to 1, not {prob}")
    return prob


class Dropout(Layer):
    """Sets elements to zero with a probability while training; `scale` keeps the mean as it was.

    >>> layer = cm.nn.Dropout(0.5)
    >>> layer.eval()(cm.asarray([1.0, 2.0]))
    Tensor([1.0, 2.0], float32, native)
    """

    def __init__(self, prob: float, scale: bool = True, dtype: Any = None, **options: Any) -> None:
        self.prob, self.scale, self._dtype = _share(self, prob), scale, dtype
        super().__init__(**options)

    def _forward(self, x: Any, dtype: Any = None, *, key: Any = None) -> Any:
        if not self.training or not self.prob:
            return x
        return _core.dropout(x, self.prob, scale=self.scale, dtype=dtype or self._dtype, key=key)


class _ChannelDropout(Layer):
    _function: Any = None
    _formats: tuple[str, str] = ("NHWC", "NCHW")

    def __init__(self, prob: float, *, data_format: str | None = None, **options: Any) -> None:
        self.prob, known = _share(self, prob), self._formats
        self.data_format = known[0] if data_format is None else choice(self, "data_format", data_format, known)
        super().__init__(**options)

    def _forward(self, x: Any, *, key: Any = None) -> Any:
        if not self.training or not self.prob:
            return x
        return self._function(x, self.prob, data_format=self.data_format, key=key)


class Dropout1D(_ChannelDropout):
    """Sets whole channels of [batch, width, channels] to zero while training.

    >>> cm.nn.Dropout1D(0.5)(cm.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    _function, _formats = staticmethod(_core.dropout1d), ("NWC", "NCW")


class Dropout2D(_ChannelDropout):
    """Sets whole channels of [batch, height, width, channels] to zero while training.

    >>> cm.nn.Dropout2D(0.5)(cm.ones((2, 3, 3, 4))).shape
    (2, 3, 3, 4)
    """

    _function = staticmethod(_core.dropout2d)


class Dropout3D(_ChannelDropout):
    """Sets whole channels of [batch, depth, height, width, channels] to zero while training.

    >>> cm.nn.Dropout3D(0.5)(cm.ones((2, 3, 3, 3, 4))).shape
    (2, 3, 3, 3, 4)
    """

    _function, _formats = staticmethod(_core.dropout3d), ("NDHWC", "NCDHW")
