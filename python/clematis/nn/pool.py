"""Pooling. Channels are last unless `data_format` says otherwise."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ._base import Layer, choice, counts

_FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
_ANY = ("NSC", "NCS", *_FORMATS[1], *_FORMATS[2], *_FORMATS[3])


class _Pool(Layer):
    """A window that slides; its strides are its size unless they are told."""

    _function: Any = None
    _spatial = 2

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        strides: int | Sequence[int] | None = None,
        padding: Any = "VALID",
        /,
        *,
        data_format: str | None = None,
        ceil_mode: bool = False,
        **options: Any,
    ) -> None:
        n = self._spatial
        self.kernel_size = counts(self, "kernel_size", kernel_size, n)
        self.strides = self.kernel_size if strides is None else counts(self, "strides", strides, n)
        if isinstance(padding, str):
            choice(self, "padding", padding, ("SAME", "VALID"))
        self.padding, self.ceil_mode = padding, ceil_mode
        known = _FORMATS[n]
        self.data_format = known[0] if data_format is None else choice(self, "data_format", data_format, known)
        super().__init__(**options)

    def _words(self) -> dict[str, Any]:
        return {}

    def _forward(self, x: Any) -> Any:
        words = {"data_format": self.data_format, "ceil_mode": self.ceil_mode, **self._words()}
        return self._function(x, self.kernel_size, self.strides, self.padding, **words)


class _MaxPool(_Pool):
    def __init__(self, *args: Any, dilation: int | Sequence[int] = 1, **options: Any) -> None:
        self.dilation = counts(self, "dilation", dilation, self._spatial)
        super().__init__(*args, **options)

    def _words(self) -> dict[str, Any]:
        return {"dilation": self.dilation}


class _AvgPool(_Pool):
    def __init__(
        self, *args: Any, count_include_pad: bool = False, divisor_override: float | None = None, **options: Any
    ) -> None:
        self.count_include_pad, self.divisor_override = count_include_pad, divisor_override
        super().__init__(*args, **options)

    def _words(self) -> dict[str, Any]:
        return {"count_include_pad": self.count_include_pad, "divisor_override": self.divisor_override}


class MaxPool1D(_MaxPool):
    """The largest of each window over one axis.

    >>> cm.nn.MaxPool1D(2)(cm.ones((1, 6, 3))).shape
    (1, 3, 3)
    """

    _function, _spatial = staticmethod(_core.max_pool1d), 1


class MaxPool2D(_MaxPool):
    """The largest of each window over two axes.

    >>> cm.nn.MaxPool2D((2, 2), 1, "SAME")(cm.ones((1, 6, 4, 3))).shape
    (1, 6, 4, 3)
    """

    _function = staticmethod(_core.max_pool2d)


class MaxPool3D(_MaxPool):
    """The largest of each window over three axes.

    >>> cm.nn.MaxPool3D(2)(cm.ones((1, 6, 4, 2, 3))).shape
    (1, 3, 2, 1, 3)
    """

    _function, _spatial = staticmethod(_core.max_pool3d), 3


class AvgPool1D(_AvgPool):
    """The mean of each window over one axis; padding does not count unless `count_include_pad`.

    >>> cm.nn.AvgPool1D(2)(cm.ones((1, 6, 3))).shape
    (1, 3, 3)
    """

    _function, _spatial = staticmethod(_core.avg_pool1d), 1


class AvgPool2D(_AvgPool):
    """The mean of each window over two axes; padding does not count unless `count_include_pad`.

    >>> cm.nn.AvgPool2D(2)(cm.ones((1, 6, 4, 3))).shape
    (1, 3, 2, 3)
    """

    _function = staticmethod(_core.avg_pool2d)


class AvgPool3D(_AvgPool):
    """The mean of each window over three axes; padding does not count unless `count_include_pad`.

    >>> cm.nn.AvgPool3D(2)(cm.ones((1, 6, 4, 2, 3))).shape
    (1, 3, 2, 1, 3)
    """

    _function, _spatial = staticmethod(_core.avg_pool3d), 3


class _Adaptive(Layer):
    """Windows as even as they can be, so that the result has a given size; None leaves an axis as it is."""

    _function: Any = None
    _spatial = 2

    def __init__(self, output_size: Any, /, *, data_format: str | None = None, **options: Any) -> None:
        n = self._spatial
        sizes = list(output_size) if isinstance(output_size, Sequence) else [output_size]
        sizes = sizes * n if len(sizes) == 1 else sizes
        known = counts(self, "output_size", [1 if size is None else size for size in sizes], n)
        self.output_size = tuple(None if a is None else b for a, b in zip(sizes, known, strict=True))
        words = _FORMATS[n]
        self.data_format = words[0] if data_format is None else choice(self, "data_format", data_format, words)
        super().__init__(**options)

    def _forward(self, x: Any) -> Any:
        return self._function(x, self.output_size, data_format=self.data_format)


class AdaptiveAvgPool1D(_Adaptive):
    """Means over one axis, so that it comes out with a given size.

    >>> cm.nn.AdaptiveAvgPool1D(2)(cm.ones((1, 5, 3))).shape
    (1, 2, 3)
    """

    _function, _spatial = staticmethod(_core.adaptive_avg_pool1d), 1


class AdaptiveAvgPool2D(_Adaptive):
    """Means over two axes, so that they come out with given sizes.

    >>> cm.nn.AdaptiveAvgPool2D((2, 1))(cm.ones((1, 5, 4, 3))).shape
    (1, 2, 1, 3)
    """

    _function = staticmethod(_core.adaptive_avg_pool2d)


class AdaptiveAvgPool3D(_Adaptive):
    """Means over three axes, so that they come out with given sizes.

    >>> cm.nn.AdaptiveAvgPool3D(1)(cm.ones((1, 5, 4, 2, 3))).shape
    (1, 1, 1, 1, 3)
    """

    _function, _spatial = staticmethod(_core.adaptive_avg_pool3d), 3


class AdaptiveMaxPool1D(_Adaptive):
    """The largest over windows of one axis, so that it comes out with a given size.

    >>> cm.nn.AdaptiveMaxPool1D(2)(cm.ones((1, 5, 3))).shape
    (1, 2, 3)
    """

    _function, _spatial = staticmethod(_core.adaptive_max_pool1d), 1


class AdaptiveMaxPool2D(_Adaptive):
    """The largest over windows of two axes, so that they come out with given sizes.

    >>> cm.nn.AdaptiveMaxPool2D((2, None))(cm.ones((1, 5, 4, 3))).shape
    (1, 2, 4, 3)
    """

    _function = staticmethod(_core.adaptive_max_pool2d)


class AdaptiveMaxPool3D(_Adaptive):
    """The largest over windows of three axes, so that they come out with given sizes.

    >>> cm.nn.AdaptiveMaxPool3D(1)(cm.ones((1, 5, 4, 2, 3))).shape
    (1, 1, 1, 1, 3)
    """

    _function, _spatial = staticmethod(_core.adaptive_max_pool3d), 3


class _Global(Layer):
    """All spatial axes in one."""

    _function: Any = None

    def __init__(self, *, data_format: str = "NSC", keepdims: bool = False, **options: Any) -> None:
        self.data_format, self.keepdims = choice(self, "data_format", data_format, _ANY), keepdims
        super().__init__(**options)

    def _forward(self, x: Any) -> Any:
        return self._function(x, data_format=self.data_format, keepdims=self.keepdims)


class GlobalAvgPool(_Global):
    """The mean over all spatial axes.

    >>> cm.nn.GlobalAvgPool()(cm.ones((2, 5, 4, 3))).shape
    (2, 3)
    """

    _function = staticmethod(_core.global_avg_pool)


class GlobalMaxPool(_Global):
    """The largest over all spatial axes.

    >>> cm.nn.GlobalMaxPool(keepdims=True)(cm.ones((2, 5, 4, 3))).shape
    (2, 1, 1, 3)
    """

    _function = staticmethod(_core.global_max_pool)
