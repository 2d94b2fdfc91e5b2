"""Convolutions and their transposes. Channels are last unless `data_format` says otherwise."""

from collections.abc import Sequence
from math import prod
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import GLOROT, ZEROS, Layer, choice, count, counts

_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}


class _Conv(Layer):
    """Over some spatial axes: a filter `w` and a bias `b` that is as wide as the result and 1 elsewhere."""

    _spatial = 2

    def __init__(
        self, input_channels: Any, output_channels: Any, filter_shape: Any, strides: Any, padding: Any, *,
        weight_initializer: Any, bias_initializer: Any, with_bias: bool, data_format: str, dilations: Any, groups: Any,
        **options: Any,
    ) -> None:  # fmt: skip
        n = self._spatial
        self.input_channels = count(self, "input_channels", input_channels)
        self.output_channels = count(self, "output_channels", output_channels)
        self.filter_shape = counts(self, "filter_shape", filter_shape, n)
        self.strides, self.dilations = counts(self, "strides", strides, n), counts(self, "dilations", dilations, n)
        if isinstance(padding, str):
            choice(self, "padding", padding, ("SAME", "VALID"))
        self.padding = padding
        self.data_format = choice(self, "data_format", data_format, _FORMATS[n])
        self.groups = count(self, "groups", groups)
        for name, channels in (("input", self.input_channels), ("output", self.output_channels)):
            if channels % self.groups:
                kind = type(self).__name__
                raise ArgumentError(f"{kind}: {channels} {name} channels do not divide into {self.groups} groups")
        self.with_bias, self._initializers = with_bias, (weight_initializer, bias_initializer)
        super().__init__(**options)

    def _filter(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.input_channels // self.groups, self.output_channels)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        field = prod(self.filter_shape)
        fans = field * self.output_channels // self.groups, field * self.input_channels // self.groups
        w_key, b_key = self._take_keys(2)
        for_w, for_b = self._initializers
        made = {"w": for_w.create_variables(self._filter(), device, *fans, dtype, key=w_key)}
        if self.with_bias:
            sizes, at = [1] * (self._spatial + 2), self.data_format.index("C")
            sizes[at] = self.output_channels
            made["b"] = for_b.create_variables(sizes, device, *fans, dtype, key=b_key)
        return made

    def _words(self) -> dict[str, Any]:
        last = self.data_format.endswith("C")
        return {
            "dims": self._spatial, "data_format": "channel_last" if last else "channel_first",
            "dilations": self.dilations, "feature_group_count": self.groups,
        }  # fmt: skip

    def _biased(self, y: Any) -> Any:
        return _core.add(y, self.v["b"]) if self.with_bias else y

    def _forward(self, x: Any) -> Any:
        y = _core.conv_general_dilated(x, self.v["w"], self.strides, self.padding, **self._words())
        return self._biased(y)


class _Transpose(_Conv):
    """The transpose: filters are [spatial…, in, out / groups]."""

    def __init__(self, *args: Any, output_shape: Any, **options: Any) -> None:
        self.output_shape = None if output_shape is None else tuple(output_shape)
        super().__init__(*args, **options)
        choice(self, "padding", self.padding, ("SAME", "VALID"))

    def _filter(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.input_channels, self.output_channels // self.groups)

    def _forward(self, x: Any) -> Any:
        sizes, words = self.output_shape, self._words()
        y = _core.conv_general_transpose(x, self.v["w"], self.strides, self.padding, output_shape=sizes, **words)
        return self._biased(y)


class Conv1D(_Conv):
    """A convolution over one axis; `w` is [width, in / groups, out].

    >>> layer = cm.nn.Conv1D(3, 8, 5, 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 10, 3))).shape
    (2, 5, 8)
    """

    _spatial = 1

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Any = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        data_format: str = "NWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_size, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, data_format=data_format, dilations=dilations,
            groups=groups, **options,
        )  # fmt: skip


class Conv2D(_Conv):
    """A convolution over two axes; `w` is [height, width, in / groups, out].

    >>> layer = cm.nn.Conv2D(3, 8, (3, 3), 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 10, 12, 3))).shape
    (2, 5, 6, 8)
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Any = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        data_format: str = "NHWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_shape, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, data_format=data_format, dilations=dilations,
            groups=groups, **options,
        )  # fmt: skip


class Conv3D(_Conv):
    """A convolution over three axes; `w` is [depth, height, width, in / groups, out].

    >>> layer = cm.nn.Conv3D(1, 4, (3, 3, 3), 1, "VALID", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 7, 1))).shape
    (2, 3, 4, 5, 4)
    """

    _spatial = 3

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Any = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        data_format: str = "NDHWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_shape, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, data_format=data_format, dilations=dilations,
            groups=groups, **options,
        )  # fmt: skip


class Conv1DTranspose(_Transpose):
    """The transpose of a convolution over one axis; `w` is [width, in, out / groups].

    >>> layer = cm.nn.Conv1DTranspose(3, 8, 4, 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 3))).shape
    (2, 10, 8)
    """

    _spatial = 1

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_size: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        output_shape: Sequence[int] | None = None,
        data_format: str = "NWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_size, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, output_shape=output_shape, data_format=data_format,
            dilations=dilations, groups=groups, **options,
        )  # fmt: skip


class Conv2DTranspose(_Transpose):
    """The transpose of a convolution over two axes; `w` is [height, width, in, out / groups].

    >>> layer = cm.nn.Conv2DTranspose(3, 8, (4, 4), 2, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 3))).shape
    (2, 10, 12, 8)
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        output_shape: Sequence[int] | None = None,
        data_format: str = "NHWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_shape, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, output_shape=output_shape, data_format=data_format,
            dilations=dilations, groups=groups, **options,
        )  # fmt: skip


class Conv3DTranspose(_Transpose):
    """The transpose of a convolution over three axes; `w` is [depth, height, width, in, out / groups].

    >>> layer = cm.nn.Conv3DTranspose(2, 3, (2, 2, 2), 2, "VALID", key=cm.random.key(0))
    >>> layer(cm.ones((1, 2, 3, 4, 2))).shape
    (1, 4, 6, 8, 3)
    """

    _spatial = 3

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: str = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        output_shape: Sequence[int] | None = None,
        data_format: str = "NDHWC",
        dilations: int | Sequence[int] = 1,
        groups: int = 1,
        **options: Any,
    ) -> None:
        super().__init__(
            input_channels, output_channels, filter_shape, strides, padding, weight_initializer=weight_initializer,
            bias_initializer=bias_initializer, with_bias=with_bias, output_shape=output_shape, data_format=data_format,
            dilations=dilations, groups=groups, **options,
        )  # fmt: skip


class DepthwiseConv2D(_Conv):
    """Each channel with a filter of its own; `w` is [height, width, channels].

    >>> layer = cm.nn.DepthwiseConv2D(3, (3, 3), 1, "SAME", key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 6, 3))).shape
    (2, 5, 6, 3)
    """

    def __init__(
        self,
        num_channels: int,
        filter_shape: int | Sequence[int],
        strides: int | Sequence[int] = 1,
        padding: Any = "SAME",
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        data_format: str = "NHWC",
        dilations: int | Sequence[int] = 1,
        **options: Any,
    ) -> None:
        n = count(self, "num_channels", num_channels)
        super().__init__(
            n, n, filter_shape, strides, padding, weight_initializer=weight_initializer, dilations=dilations,
            bias_initializer=bias_initializer, with_bias=with_bias, data_format=data_format, groups=n, **options,
        )  # fmt: skip

    def _filter(self) -> tuple[int, ...]:
        return (*self.filter_shape, self.input_channels)

    def _forward(self, x: Any) -> Any:
        w, words = self.v["w"], {"data_format": self.data_format, "dilations": self.dilations}
        return self._biased(_core.depthwise_conv2d(x, w, self.strides, self.padding, **words))
