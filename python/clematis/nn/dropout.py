"""Dropout layers: identity in evaluation."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import FORMATS, Layer, choice


def _probability(layer: Layer, prob: float) -> float:
    if not 0 <= prob <= 1:
        raise ArgumentError(f"{type(layer).__name__}: prob is from 0 to 1, not {prob}")
    return prob


class Dropout(Layer):
    """Sets elements to zero with a probability.

    Parameters
    ----------
    prob : float
        The probability, from 0 to 1.
    scale : bool
        Whether the other elements are divided by `1 - prob`, which keeps the mean.
    dtype : optional
        The dtype of the random numbers, unless the call has one.

    Examples
    --------
    >>> layer = cm.nn.Dropout(0.5)
    >>> layer.eval()(cm.asarray([1.0, 2.0]))
    Tensor([1.0, 2.0], float32, native)
    """

    def __init__(self, prob: float, scale: bool = True, dtype: Any = None) -> None:
        self.prob, self.scale, self._dtype = _probability(self, prob), scale, dtype

    def __call__(self, x: Any, dtype: Any = None, *, key: Any = None) -> Any:
        if not self.training or not self.prob:
            return x
        return _core.dropout(x, self.prob, scale=self.scale, dtype=dtype or self._dtype, key=key)


class _ChannelDropout(Layer):
    """Parameters are those of `Dropout2D`."""

    _function: Any = None
    _spatial, data_format = 2, "NHWC"

    def __init__(self, prob: float, data_format: str | None = None) -> None:
        self.prob = _probability(self, prob)
        if data_format not in (None, self.data_format):
            self.data_format = choice(self, "data_format", data_format, FORMATS[self._spatial])

    def __call__(self, x: Any, *, key: Any = None) -> Any:
        if not self.training or not self.prob:
            return x
        return self._function(x, self.prob, data_format=self.data_format, key=key)


class Dropout1D(_ChannelDropout):
    """Sets whole channels of [batch, width, channels] to zero; parameters are those of `Dropout2D`.

    Examples
    --------
    >>> cm.nn.Dropout1D(0.5)(cm.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    _function, _spatial, data_format = staticmethod(_core.dropout1d), 1, "NWC"


class Dropout2D(_ChannelDropout):
    """Sets whole channels of [batch, height, width, channels] to zero.

    Parameters
    ----------
    prob : float
        The probability, from 0 to 1; the other channels are divided by `1 - prob`.
    data_format : str, optional
        Channels last or second, as "NHWC" and "NCHW".

    Examples
    --------
    >>> cm.nn.Dropout2D(0.5)(cm.ones((2, 3, 3, 4))).shape
    (2, 3, 3, 4)
    """

    _function = staticmethod(_core.dropout2d)


class Dropout3D(_ChannelDropout):
    """Sets whole channels of [batch, depth, height, width, channels] to zero; parameters are those of `Dropout2D`.

    Examples
    --------
    >>> cm.nn.Dropout3D(0.5)(cm.ones((2, 3, 3, 3, 4))).shape
    (2, 3, 3, 3, 4)
    """

    _function, _spatial, data_format = staticmethod(_core.dropout3d), 3, "NDHWC"
