"""Pooling layers. Channels are last unless `data_format` says otherwise."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ._base import ANY_FORMAT, FORMATS, Layer, choice, counts

_Sizes = int | Sequence[int]


class _Spatial(Layer):
    """A function of some spatial axes."""

    _function: Any = None
    _spatial, data_format = 2, "NHWC"

    def _layout(self, data_format: str | None) -> None:
        if data_format not in (None, self.data_format):
            self.data_format = choice(self, "data_format", data_format, FORMATS[self._spatial])


class _Pool(_Spatial):
    def _windows(self, kernel_size: Any, strides: Any, padding: Any, data_format: str | None, ceil_mode: bool) -> None:
        n = self._spatial
        self.kernel_size = counts(self, "kernel_size", kernel_size, n)
        self.strides = self.kernel_size if strides is None else counts(self, "strides", strides, n)
        self.padding = choice(self, "padding", padding, ("SAME", "VALID")) if isinstance(padding, str) else padding
        self.ceil_mode = ceil_mode
        self._layout(data_format)

    def _pooled(self, x: Any, **words: Any) -> Any:
        words |= {"data_format": self.data_format, "ceil_mode": self.ceil_mode}
        return self._function(x, self.kernel_size, self.strides, self.padding, **words)


class _MaxPool(_Pool):
    """Parameters are those of `MaxPool2D`."""

    def __init__(
        self, kernel_size: _Sizes, strides: _Sizes | None = None, padding: Any = "VALID", dilations: _Sizes = 1, *,
        data_format: str | None = None, ceil_mode: bool = False,
    ) -> None:  # fmt: skip
        self._windows(kernel_size, strides, padding, data_format, ceil_mode)
        self.dilations = counts(self, "dilations", dilations, self._spatial)

    def __call__(self, x: Any) -> Any:
        return self._pooled(x, dilation=self.dilations)


class _AvgPool(_Pool):
    """Parameters are those of `AvgPool2D`."""

    def __init__(
        self, kernel_size: _Sizes, strides: _Sizes | None = None, padding: Any = "VALID", *, data_format: str | None = None,
        ceil_mode: bool = False, count_include_pad: bool = False, divisor_override: float | None = None,
    ) -> None:  # fmt: skip
        self._windows(kernel_size, strides, padding, data_format, ceil_mode)
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override

    def __call__(self, x: Any) -> Any:
        return self._pooled(x, count_include_pad=self.count_include_pad, divisor_override=self.divisor_override)


class MaxPool1D(_MaxPool):
    """The largest of each window over one axis. Parameters are those of `MaxPool2D`.

    Examples
    --------
    >>> cm.nn.MaxPool1D(2)(cm.ones((1, 6, 3))).shape
    (1, 3, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.max_pool1d), 1, "NWC"


class MaxPool2D(_MaxPool):
    """The largest of each window over two axes.

    Parameters
    ----------
    kernel_size, strides, dilations : int or sequence of int
        One for all spatial axes, or one for each. Strides are the kernel's size by default.
    padding : {"SAME", "VALID"}, int or sequence of pairs
    data_format : str, optional
        Channels last or second, as "NHWC" and "NCHW".
    ceil_mode : bool
        Whether windows that begin inside and end outside count.

    Examples
    --------
    >>> cm.nn.MaxPool2D((2, 2), 1, "SAME")(cm.ones((1, 6, 4, 3))).shape
    (1, 6, 4, 3)
    """

    _function = staticmethod(_core.max_pool2d)


class MaxPool3D(_MaxPool):
    """The largest of each window over three axes. Parameters are those of `MaxPool2D`.

    Examples
    --------
    >>> cm.nn.MaxPool3D(2)(cm.ones((1, 6, 4, 2, 3))).shape
    (1, 3, 2, 1, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.max_pool3d), 3, "NDHWC"


class AvgPool1D(_AvgPool):
    """The mean of each window over one axis. Parameters are those of `AvgPool2D`.

    Examples
    --------
    >>> cm.nn.AvgPool1D(2)(cm.ones((1, 6, 3))).shape
    (1, 3, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.avg_pool1d), 1, "NWC"


class AvgPool2D(_AvgPool):
    """The mean of each window over two axes.

    Parameters
    ----------
    kernel_size, strides : int or sequence of int
        One for all spatial axes, or one for each. Strides are the kernel's size by default.
    padding : {"SAME", "VALID"}, int or sequence of pairs
    data_format : str, optional
        Channels last or second, as "NHWC" and "NCHW".
    ceil_mode : bool
        Whether windows that begin inside and end outside count.
    count_include_pad : bool
        Whether padding counts.
    divisor_override : float, optional
        What sums are divided by.

    Examples
    --------
    >>> cm.nn.AvgPool2D(2)(cm.ones((1, 6, 4, 3))).shape
    (1, 3, 2, 3)
    """

    _function = staticmethod(_core.avg_pool2d)


class AvgPool3D(_AvgPool):
    """The mean of each window over three axes. Parameters are those of `AvgPool2D`.

    Examples
    --------
    >>> cm.nn.AvgPool3D(2)(cm.ones((1, 6, 4, 2, 3))).shape
    (1, 3, 2, 1, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.avg_pool3d), 3, "NDHWC"


class _Adaptive(_Spatial):
    """Windows as even as possible. Parameters are those of `AdaptiveAvgPool2D`."""

    def __init__(self, output_size: Any, data_format: str | None = None) -> None:
        n = self._spatial
        sizes = list(output_size) if isinstance(output_size, Sequence) else [output_size]
        sizes = sizes * n if len(sizes) == 1 else sizes
        known = counts(self, "output_size", [1 if size is None else size for size in sizes], n)
        self.output_size = tuple(None if a is None else b for a, b in zip(sizes, known, strict=True))
        self._layout(data_format)

    def __call__(self, x: Any) -> Any:
        return self._function(x, self.output_size, data_format=self.data_format)


class AdaptiveAvgPool1D(_Adaptive):
    """The mean of windows over one axis, as many as the result has elements.

    Parameters are those of `AdaptiveAvgPool2D`.

    Examples
    --------
    >>> cm.nn.AdaptiveAvgPool1D(2)(cm.ones((1, 5, 3))).shape
    (1, 2, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.adaptive_avg_pool1d), 1, "NWC"


class AdaptiveAvgPool2D(_Adaptive):
    """The mean of windows over two axes, as many as the result has elements.

    Parameters
    ----------
    output_size : int, None or sequence of these
        The size of the result; None leaves an axis as it is.
    data_format : str, optional
        Channels last or second, as "NHWC" and "NCHW".

    Examples
    --------
    >>> cm.nn.AdaptiveAvgPool2D((2, 1))(cm.ones((1, 5, 4, 3))).shape
    (1, 2, 1, 3)
    """

    _function = staticmethod(_core.adaptive_avg_pool2d)


class AdaptiveAvgPool3D(_Adaptive):
    """The mean of windows over three axes, as many as the result has elements.

    Parameters are those of `AdaptiveAvgPool2D`.

    Examples
    --------
    >>> cm.nn.AdaptiveAvgPool3D(1)(cm.ones((1, 5, 4, 2, 3))).shape
    (1, 1, 1, 1, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.adaptive_avg_pool3d), 3, "NDHWC"


class AdaptiveMaxPool1D(_Adaptive):
    """The largest of windows over one axis, as many as the result has elements.

    Parameters are those of `AdaptiveAvgPool2D`.

    Examples
    --------
    >>> cm.nn.AdaptiveMaxPool1D(2)(cm.ones((1, 5, 3))).shape
    (1, 2, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.adaptive_max_pool1d), 1, "NWC"


class AdaptiveMaxPool2D(_Adaptive):
    """The largest of windows over two axes, as many as the result has elements.

    Parameters are those of `AdaptiveAvgPool2D`.

    Examples
    --------
    >>> cm.nn.AdaptiveMaxPool2D((2, None))(cm.ones((1, 5, 4, 3))).shape
    (1, 2, 4, 3)
    """

    _function = staticmethod(_core.adaptive_max_pool2d)


class AdaptiveMaxPool3D(_Adaptive):
    """The largest of windows over three axes, as many as the result has elements.

    Parameters are those of `AdaptiveAvgPool2D`.

    Examples
    --------
    >>> cm.nn.AdaptiveMaxPool3D(1)(cm.ones((1, 5, 4, 2, 3))).shape
    (1, 1, 1, 1, 3)
    """

    _function, _spatial, data_format = staticmethod(_core.adaptive_max_pool3d), 3, "NDHWC"


class _Global(Layer):
    """Parameters are those of `GlobalAvgPool`."""

    _function: Any = None

    def __init__(self, data_format: str = "NSC", keepdims: bool = False) -> None:
        self.data_format, self.keepdims = choice(self, "data_format", data_format, ANY_FORMAT), keepdims

    def __call__(self, x: Any) -> Any:
        return self._function(x, data_format=self.data_format, keepdims=self.keepdims)


class GlobalAvgPool(_Global):
    """The mean over all spatial axes.

    Parameters
    ----------
    data_format : str
        Channels last, as "NSC", or second, as "NCS".
    keepdims : bool
        Whether these axes stay, with size 1.

    Examples
    --------
    >>> cm.nn.GlobalAvgPool()(cm.ones((2, 5, 4, 3))).shape
    (2, 3)
    """

    _function = staticmethod(_core.global_avg_pool)


class GlobalMaxPool(_Global):
    """The largest over all spatial axes. Parameters are those of `GlobalAvgPool`.

    Examples
    --------
    >>> cm.nn.GlobalMaxPool(keepdims=True)(cm.ones((2, 5, 4, 3))).shape
    (2, 1, 1, 3)
    """

    _function = staticmethod(_core.global_max_pool)
