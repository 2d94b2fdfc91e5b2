"""Convolutions and their transposes. Channels are last unless `data_format` says otherwise."""

from collections.abc import Sequence
from math import prod
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import FORMATS, GLOROT, ZEROS, Layer, choice, count, counts, keys

_Sizes = int | Sequence[int]


class _Conv(Layer):
    """A convolution with a filter `w`, and a bias `b` that is as wide as the result's channels and 1 elsewhere.

    Parameters are those of `Conv2D`.
    """

    _spatial, data_format = 2, "NHWC"

    def __init__(
        self, input_channels: int, output_channels: int, filter_shape: _Sizes, strides: _Sizes = 1, padding: Any = "SAME",
        *, data_format: str | None = None, dilations: _Sizes = 1, groups: int = 1, weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS, with_bias: bool = True, key: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self._spatial
        self.input_channels = count(self, "input_channels", input_channels)
        self.output_channels = count(self, "output_channels", output_channels)
        self.filter_shape = counts(self, "filter_shape", filter_shape, n)
        self.strides, self.dilations = counts(self, "strides", strides, n), counts(self, "dilations", dilations, n)
        self.padding = choice(self, "padding", padding, ("SAME", "VALID")) if isinstance(padding, str) else padding
        if data_format not in (None, self.data_format):
            self.data_format = choice(self, "data_format", data_format, FORMATS[n])
        self.groups, self.with_bias = count(self, "groups", groups), with_bias
        for name, channels in (("input", self.input_channels), ("output", self.output_channels)):
            if channels % self.groups:
                kind = type(self).__name__
                raise ArgumentError(f"{kind}: {channels} {name} channels do not divide into {self.groups} groups")
        field = prod(self.filter_shape)
        fans = field * self.output_channels // self.groups, field * self.input_channels // self.groups
        bias_shape = [self.output_channels if axis == "C" else 1 for axis in self.data_format]
        w, b = keys(key, 2)
        self.w = weight_initializer.create_variables(self._w_shape(), device, *fans, dtype, key=w)
        self.b = bias_initializer.create_variables(bias_shape, device, *fans, dtype, key=b) if with_bias else None

    def _w_shape(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.input_channels // self.groups, self.output_channels)

    def _convolved(self, function: Any, x: Any, **words: Any) -> Any:
        layout = "channel_last" if self.data_format.endswith("C") else "channel_first"
        y = function(
            x, self.w, self.strides, self.padding, dims=self._spatial, data_format=layout, dilations=self.dilations,
            feature_group_count=self.groups, **words,
        )  # fmt: skip
        return y if self.b is None else _core.add(y, self.b)

    def __call__(self, x: Any) -> Any:
        return self._convolved(_core.conv_general_dilated, x)


class _ConvTranspose(_Conv):
    """The transpose of a convolution. Parameters are those of `Conv2DTranspose`."""

    def __init__(
        self, input_channels: int, output_channels: int, filter_shape: _Sizes, strides: _Sizes = 1, padding: str = "SAME",
        *, output_shape: Sequence[int] | None = None, **options: Any,
    ) -> None:  # fmt: skip
        choice(self, "padding", padding, ("SAME", "VALID"))
        self.output_shape = None if output_shape is None else tuple(output_shape)
        super().__init__(input_channels, output_channels, filter_shape, strides, padding, **options)

    def _w_shape(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.input_channels, self.output_channels // self.groups)

    def __call__(self, x: Any) -> Any:
        return self._convolved(_core.conv_general_transpose, x, output_shape=self.output_shape)


class Conv1D(_Conv):
    """A convolution over one axis; `w` is [width, in / groups, out]. Parameters are those of `Conv2D`.

    Examples
    --------
    >>> layer = cm.nn.Conv1D(3, 8, 5, 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 10, 3))).shape
    (2, 5, 8)
    """

    _spatial, data_format = 1, "NWC"


class Conv2D(_Conv):
    """A convolution over two axes; `w` is [height, width, in / groups, out].

    Parameters
    ----------
    input_channels, output_channels : int
    filter_shape, strides, dilations : int or sequence of int
        One for all spatial axes, or one for each.
    padding : {"SAME", "VALID"}, int or sequence of pairs
    data_format : str, optional
        Channels last or second, as "NHWC" and "NCHW".
    groups : int
        The number of groups of channels; each is convolved for itself.
    with_bias : bool
        Whether there is a `b`.
    weight_initializer, bias_initializer : initializer

    Examples
    --------
    >>> layer = cm.nn.Conv2D(3, 8, (3, 3), 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 10, 12, 3))).shape
    (2, 5, 6, 8)
    """


class Conv3D(_Conv):
    """A convolution over three axes; `w` is [depth, height, width, in / groups, out]. Parameters are those of `Conv2D`.

    Examples
    --------
    >>> layer = cm.nn.Conv3D(1, 4, (3, 3, 3), 1, "VALID", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 7, 1))).shape
    (2, 3, 4, 5, 4)
    """

    _spatial, data_format = 3, "NDHWC"


class Conv1DTranspose(_ConvTranspose):
    """The transpose of a convolution over one axis; `w` is [width, in, out / groups].

    Parameters are those of `Conv2DTranspose`.

    Examples
    --------
    >>> layer = cm.nn.Conv1DTranspose(3, 8, 4, 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 3))).shape
    (2, 10, 8)
    """

    _spatial, data_format = 1, "NWC"


class Conv2DTranspose(_ConvTranspose):
    """The transpose of a convolution over two axes; `w` is [height, width, in, out / groups].

    Parameters
    ----------
    output_shape : sequence of int, optional
        The spatial sizes of the result, where several are possible.
    **options
        The other parameters of `Conv2D`; padding is "SAME" or "VALID".

    Examples
    --------
    >>> layer = cm.nn.Conv2DTranspose(3, 8, (4, 4), 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 3))).shape
    (2, 10, 12, 8)
    """


class Conv3DTranspose(_ConvTranspose):
    """The transpose of a convolution over three axes; `w` is [depth, height, width, in, out / groups].

    Parameters are those of `Conv2DTranspose`.

    Examples
    --------
    >>> layer = cm.nn.Conv3DTranspose(2, 3, (2, 2, 2), 2, "VALID", key=cm.random.key(0))
    >>> layer(cm.ones((1, 2, 3, 4, 2))).shape
    (1, 4, 6, 8, 3)
    """

    _spatial, data_format = 3, "NDHWC"


class DepthwiseConv2D(_Conv):
    """A convolution of each channel with a filter of its own; `w` is [height, width, channels].

    Parameters
    ----------
    num_channels : int
    **options
        The other parameters of `Conv2D`, without `groups`.

    Examples
    --------
    >>> layer = cm.nn.DepthwiseConv2D(3, (3, 3), 1, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 3))).shape
    (2, 5, 6, 3)
    """

    def __init__(
        self, num_channels: int, filter_shape: _Sizes, strides: _Sizes = 1, padding: Any = "SAME", **options: Any
    ) -> None:
        n = self.num_channels = count(self, "num_channels", num_channels)
        super().__init__(n, n, filter_shape, strides, padding, groups=n, **options)

    def _w_shape(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.num_channels)

    def __call__(self, x: Any) -> Any:
        words = {"data_format": self.data_format, "dilations": self.dilations}
        y = _core.depthwise_conv2d(x, self.w, self.strides, self.padding, **words)
        return y if self.b is None else _core.add(y, self.b)
