"""Normalization layers. Channels are last unless `data_format` says otherwise: "NCS", "NCHW" and the like put them second."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ShapeError
from ..module import State
from ._base import ANY_FORMAT, ONES, ZEROS, Layer, choice, count


class _Norm(Layer):
    """A scale `weight` and an offset `bias`, unless they are left out."""

    _has_bias = True

    def _parameters(self, shape: tuple[int, ...], epsilon: float, affine: bool, device: Any, dtype: Any) -> None:
        if not epsilon >= 0:
            raise ArgumentError(f"{type(self).__name__}: epsilon is not negative, not {epsilon}")
        self.epsilon = epsilon
        self.weight = ONES.create_variables(shape, device, dtype=dtype) if affine else None
        if self._has_bias:
            self.bias = ZEROS.create_variables(shape, device, dtype=dtype) if affine else None


class _LastAxes(_Norm):
    """Over the last axes, of which `normalized_shape` are the sizes."""

    def _last_axes(self, shape: Any) -> tuple[int, ...]:
        items = [shape] if hasattr(shape, "__index__") else list(shape)
        if not items:
            raise ArgumentError(f"{type(self).__name__}: normalized_shape has no axes")
        return tuple(count(self, "normalized_shape", n) for n in items)

    def _check(self, x: Any) -> None:
        if tuple(x.shape[-len(self.normalized_shape) :]) != self.normalized_shape:
            kind, shape = type(self).__name__, tuple(x.shape)
            raise ShapeError(f"{kind}: the last axes of {shape} are not {self.normalized_shape}")


class LayerNorm(_LastAxes):
    """`((x - mean) / sqrt(variance + epsilon) · weight + bias) · new_std` over the last axes.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these axes.
    epsilon : float
    elementwise_affine : bool
        Whether there are `weight` and `bias`.
    new_std : float

    Examples
    --------
    >>> layer = cm.nn.LayerNorm(4)
    >>> layer(cm.asarray([[1.0, 1.0, 3.0, 3.0]]))
    Tensor([[-0.999995, -0.999995,  0.999995,  0.999995]], float32, native)
    """

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-5, *, elementwise_affine: bool = True,
        new_std: float = 1.0, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.normalized_shape = self._last_axes(normalized_shape)
        self.elementwise_affine, self.new_std = elementwise_affine, new_std
        self._axes = tuple(range(-len(self.normalized_shape), 0))
        self._parameters(self.normalized_shape, epsilon, elementwise_affine, device, dtype)

    def __call__(self, x: Any) -> Any:
        self._check(x)
        return _core.layer_norm(
            x, self._axes, scale=self.weight, b=self.bias, epsilon=self.epsilon, new_std=self.new_std
        )


class RMSNorm(_LastAxes):
    """`x / sqrt(mean(x²) + epsilon) · weight` over the last axes.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The sizes of these axes.
    epsilon : float
    elementwise_affine : bool
        Whether there is a `weight`.

    Examples
    --------
    >>> layer = cm.nn.RMSNorm(2, epsilon=0.0)
    >>> layer(cm.asarray([[1.0, 7.0]]))
    Tensor([[0.2, 1.4]], float32, native)
    """

    _has_bias = False

    def __init__(
        self, normalized_shape: int | Sequence[int], epsilon: float = 1e-5, *, elementwise_affine: bool = True,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.normalized_shape = self._last_axes(normalized_shape)
        self.elementwise_affine = elementwise_affine
        self._parameters(self.normalized_shape, epsilon, elementwise_affine, device, dtype)

    def __call__(self, x: Any) -> Any:
        self._check(x)
        return _core.rms_norm(x, self.weight, axis=-len(self.normalized_shape), epsilon=self.epsilon)


class _Channels(_Norm):
    """Over the channels of an array with at least two axes."""

    data_format = "NSC"

    def _channels(
        self, channels: int, epsilon: float, affine: bool, data_format: str | None, device: Any, dtype: Any
    ) -> None:
        n = self.channels = count(self, "channels", channels)
        if data_format not in (None, self.data_format):
            self.data_format = choice(self, "data_format", data_format, ANY_FORMAT)
        self.affine = affine
        self._parameters((n,), epsilon, affine, device, dtype)

    def _check(self, x: Any) -> None:
        at = 1 if self.data_format.startswith("NC") else -1
        if len(x.shape) < 2 or x.shape[at] != self.channels:
            kind, shape = type(self).__name__, tuple(x.shape)
            raise ShapeError(f"{kind}: {self.channels} channels ({self.data_format}) were expected in {shape}")


class GroupNorm(_Channels):
    """`(x - mean) / sqrt(variance + epsilon) · weight + bias` over groups of channels of each sample.

    Parameters
    ----------
    num_groups, channels : int
    epsilon : float
    affine : bool
        Whether there are `weight` and `bias`.
    data_format : str, optional
        Channels last, as "NSC", or second, as "NCS".

    Examples
    --------
    >>> layer = cm.nn.GroupNorm(2, 4)
    >>> layer(cm.asarray([[[1.0, 3.0, 5.0, 5.0]]]))
    Tensor([[[-0.999995,  0.999995,       0.0,       0.0]]], float32, native)
    """

    def __init__(
        self, num_groups: int, channels: int, epsilon: float = 1e-5, affine: bool = True, data_format: str | None = None,
        *, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.num_groups = count(self, "num_groups", num_groups)
        self._channels(channels, epsilon, affine, data_format, device, dtype)
        if channels % num_groups:
            raise ArgumentError(f"GroupNorm: {channels} channels do not divide into {num_groups} groups")

    def __call__(self, x: Any) -> Any:
        self._check(x)
        words = {"eps": self.epsilon, "data_format": self.data_format}
        return _core.group_norm(x, self.num_groups, scale=self.weight, offset=self.bias, **words)


class InstanceNorm(_Channels):
    """`(x - mean) / sqrt(variance + epsilon) · weight + bias` over each channel of each sample.

    Parameters
    ----------
    channels : int
    epsilon : float
    affine : bool
        Whether there are `weight` and `bias`.
    data_format : str, optional
        Channels last, as "NSC", or second, as "NCS".

    Examples
    --------
    >>> layer = cm.nn.InstanceNorm(1)
    >>> layer(cm.asarray([[[1.0], [3.0]]]))
    Tensor([[[-0.999995],
             [ 0.999995]]], float32, native)
    """

    def __init__(
        self, channels: int, epsilon: float = 1e-5, affine: bool = True, data_format: str | None = None, *,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self._channels(channels, epsilon, affine, data_format, device, dtype)

    def __call__(self, x: Any) -> Any:
        self._check(x)
        words = {"eps": self.epsilon, "data_format": self.data_format}
        return _core.instance_norm(x, scale=self.weight, bias=self.bias, **words)


class BatchNorm(_Channels):
    """`(x - mean) / sqrt(variance + epsilon) · weight + bias` over each channel.

    Mean and variance are those of the batch in training. In evaluation they are the buffers `running_mean` and
    `running_var` (unbiased).

    Parameters
    ----------
    channels : int
    epsilon : float
    momentum : float
        The weight of a batch in the running statistics.
    affine : bool
        Whether there are `weight` and `bias`.
    track_running_stats : bool
        Whether there are running statistics. Without them those of the batch are used in evaluation, too.
    data_format : str, optional
        Channels last, as "NSC", or second, as "NCS".

    Examples
    --------
    >>> layer = cm.nn.BatchNorm(1, momentum=0.5)
    >>> layer(cm.asarray([[1.0], [3.0]]))
    Tensor([[-0.999995],
            [ 0.999995]], float32, native)
    >>> layer.buffers().running_mean
    Tensor([1.0], float32, native)
    >>> layer.eval()(cm.asarray([[1.0]]))
    Tensor([[0.0]], float32, native)
    """

    # The numbers of axes that an input may have; at least two if there are none.
    _rank: tuple[int, ...] = ()

    def __init__(
        self, channels: int, epsilon: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, data_format: str | None = None, *, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self._channels(channels, epsilon, affine, data_format, device, dtype)
        if not 0 <= momentum <= 1:
            raise ArgumentError(f"{type(self).__name__}: momentum is between 0 and 1, not {momentum}")
        self.momentum, self.track_running_stats = momentum, track_running_stats
        if track_running_stats:
            self.running_mean = State(ZEROS.create_variables((self.channels,), device, dtype=dtype))
            self.running_var = State(ONES.create_variables((self.channels,), device, dtype=dtype))

    def __call__(self, x: Any) -> Any:
        if self._rank and len(x.shape) not in self._rank:
            raise ShapeError(f"{type(self).__name__}: {tuple(x.shape)} has {len(x.shape)} axes, not {self._rank}")
        self._check(x)
        words = {"scale": self.weight, "offset": self.bias, "eps": self.epsilon, "data_format": self.data_format}
        if not self.track_running_stats:
            return _core.batch_norm_update(x, **words)[0]
        mean, var = self.running_mean, self.running_var
        if not self.training:
            return _core.batch_norm(x, mean.value, var.value, **words)
        y, mean.value, var.value = _core.batch_norm_update(x, mean.value, var.value, momentum=self.momentum, **words)
        return y


class BatchNorm1D(BatchNorm):
    """`BatchNorm` of [batch, channels] or [batch, width, channels].

    Examples
    --------
    >>> cm.nn.BatchNorm1D(3)(cm.ones((4, 3))).shape
    (4, 3)
    """

    _rank = (2, 3)


class BatchNorm2D(BatchNorm):
    """`BatchNorm` of [batch, height, width, channels].

    Examples
    --------
    >>> cm.nn.BatchNorm2D(3)(cm.ones((4, 2, 2, 3))).shape
    (4, 2, 2, 3)
    """

    _rank = (4,)


class BatchNorm3D(BatchNorm):
    """`BatchNorm` of [batch, depth, height, width, channels].

    Examples
    --------
    >>> cm.nn.BatchNorm3D(3)(cm.ones((4, 2, 2, 2, 3))).shape
    (4, 2, 2, 2, 3)
    """

    _rank = (5,)
