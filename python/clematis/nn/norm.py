"""Normalisations. Channels are last unless `data_format` says otherwise: "NCS", "NCHW" and the like put them second."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ShapeError
from ..module import State
from ._base import ONES, ZEROS, Layer, choice, count

_FORMATS = ("NSC", "NCS", "NWC", "NCW", "NHWC", "NCHW", "NDHWC", "NCDHW")


class _Norm(Layer):
    """A scale `weight` and an offset `bias`, unless they are left out."""

    _has_bias = True

    def __init__(self, shape: tuple[int, ...], epsilon: float, affine: bool, **options: Any) -> None:
        if not epsilon >= 0:
            raise ArgumentError(f"{type(self).__name__}: epsilon is not negative, not {epsilon}")
        self._shape, self.epsilon, self._affine = shape, epsilon, affine
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        made: dict[str, Any] = {}
        if self._affine:
            made["weight"] = ONES.create_variables(self._shape, device, dtype=dtype)
            if self._has_bias:
                made["bias"] = ZEROS.create_variables(self._shape, device, dtype=dtype)
        return made

    def _weights(self) -> tuple[Any, Any]:
        v = self.v
        return (v["weight"], v["bias"]) if self._affine else (None, None)

    def _check_channels(self, x: Any) -> None:
        at = 1 if self.data_format.startswith("NC") else -1
        if len(x.shape) < 2 or x.shape[at] != self.channels:
            kind, shape = type(self).__name__, tuple(x.shape)
            raise ShapeError(f"{kind}: {self.channels} channels ({self.data_format}) were expected in {shape}")


def _sizes(layer: Any, shape: Any) -> tuple[int, ...]:
    items = [shape] if hasattr(shape, "__index__") else list(shape)
    if not items:
        raise ArgumentError(f"{type(layer).__name__}: normalized_shape has no axes")
    return tuple(count(layer, "normalized_shape", n) for n in items)


def _check_last(layer: Any, x: Any) -> None:
    if tuple(x.shape[-len(layer.normalized_shape) :]) != layer.normalized_shape:
        kind, shape = type(layer).__name__, tuple(x.shape)
        raise ShapeError(f"{kind}: the last axes of {shape} are not {layer.normalized_shape}")


class LayerNorm(_Norm):
    """Normalised over the last axes, of which `normalized_shape` are the sizes, then `(x · weight + bias) · new_std`.

    >>> layer = cm.nn.LayerNorm(4)
    >>> layer(cm.asarray([[1.0, 1.0, 3.0, 3.0]]))
    Tensor([[-0.999995, -0.999995,  0.999995,  0.999995]], float32, native)
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        /,
        *,
        epsilon: float = 1e-5,
        elementwise_affine: bool = True,
        new_std: float = 1.0,
        **options: Any,
    ) -> None:
        self.normalized_shape = _sizes(self, normalized_shape)
        self._axes, self.new_std = tuple(range(-len(self.normalized_shape), 0)), new_std
        super().__init__(self.normalized_shape, epsilon, elementwise_affine, **options)

    def _forward(self, x: Any) -> Any:
        _check_last(self, x)
        scale, b = self._weights()
        return _core.layer_norm(x, self._axes, scale=scale, b=b, epsilon=self.epsilon, new_std=self.new_std)


class RMSNorm(_Norm):
    """Divided by the root mean square over the last axes, then multiplied by `weight`.

    >>> layer = cm.nn.RMSNorm(2, epsilon=0.0)
    >>> layer(cm.asarray([[1.0, 7.0]]))
    Tensor([[0.2, 1.4]], float32, native)
    """

    _has_bias = False

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        /,
        *,
        epsilon: float = 1e-5,
        elementwise_affine: bool = True,
        **options: Any,
    ) -> None:
        self.normalized_shape = _sizes(self, normalized_shape)
        super().__init__(self.normalized_shape, epsilon, elementwise_affine, **options)

    def _forward(self, x: Any) -> Any:
        _check_last(self, x)
        scale = self.v["weight"] if self._affine else None
        return _core.rms_norm(x, scale, axis=-len(self.normalized_shape), epsilon=self.epsilon)


class GroupNorm(_Norm):
    """Normalised within groups of channels of each sample.

    >>> layer = cm.nn.GroupNorm(2, 4)
    >>> layer(cm.asarray([[[1.0, 3.0, 5.0, 5.0]]]))
    Tensor([[[-0.999995,  0.999995,       0.0,       0.0]]], float32, native)
    """

    def __init__(
        self,
        num_groups: int,
        channels: int,
        /,
        *,
        epsilon: float = 1e-5,
        affine: bool = True,
        data_format: str = "NSC",
        **options: Any,
    ) -> None:
        self.num_groups, self.channels = count(self, "num_groups", num_groups), count(self, "channels", channels)
        if channels % num_groups:
            raise ArgumentError(f"GroupNorm: {channels} channels do not divide into {num_groups} groups")
        self.data_format = choice(self, "data_format", data_format, _FORMATS)
        super().__init__((self.channels,), epsilon, affine, **options)

    def _forward(self, x: Any) -> Any:
        self._check_channels(x)
        scale, offset = self._weights()
        words = {"eps": self.epsilon, "data_format": self.data_format}
        return _core.group_norm(x, self.num_groups, scale=scale, offset=offset, **words)


class InstanceNorm(_Norm):
    """Normalised per sample and channel.

    >>> layer = cm.nn.InstanceNorm(1)
    >>> layer(cm.asarray([[[1.0], [3.0]]]))
    Tensor([[[-0.999995],
             [ 0.999995]]], float32, native)
    """

    def __init__(
        self,
        channels: int,
        /,
        *,
        epsilon: float = 1e-5,
        affine: bool = True,
        data_format: str = "NSC",
        **options: Any,
    ) -> None:
        self.channels = count(self, "channels", channels)
        self.data_format = choice(self, "data_format", data_format, _FORMATS)
        super().__init__((self.channels,), epsilon, affine, **options)

    def _forward(self, x: Any) -> Any:
        self._check_channels(x)
        scale, bias = self._weights()
        return _core.instance_norm(x, scale=scale, bias=bias, eps=self.epsilon, data_format=self.data_format)


class BatchNorm(_Norm):
    """Normalised per channel: by the batch in training, by running statistics in evaluation.

    `momentum` is the weight of a batch in the running statistics, which are the buffers `running_mean` and
    `running_var` (unbiased). Without `track_running_stats` the batch counts always.

    >>> layer = cm.nn.BatchNorm(1, momentum=0.5)
    >>> layer(cm.asarray([[1.0], [3.0]]))
    Tensor([[-0.999995],
            [ 0.999995]], float32, native)
    >>> layer.buffers().running_mean
    Tensor([1.0], float32, native)
    >>> layer.eval()(cm.asarray([[1.0]]))
    Tensor([[0.0]], float32, native)
    """

    # How many axes the input has; any number of at least two unless it is said.
    _rank: tuple[int, ...] = ()

    def __init__(
        self,
        channels: int,
        /,
        *,
        epsilon: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        data_format: str = "NSC",
        device: Any = None,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        n = self.channels = count(self, "channels", channels)
        if not 0 <= momentum <= 1:
            raise ArgumentError(f"{type(self).__name__}: momentum is between 0 and 1, not {momentum}")
        self.momentum, self.track_running_stats = momentum, track_running_stats
        self.data_format = choice(self, "data_format", data_format, _FORMATS)
        if track_running_stats:
            self.running_mean = State(ZEROS.create_variables((n,), device, dtype=dtype))
            self.running_var = State(ONES.create_variables((n,), device, dtype=dtype))
        super().__init__((n,), epsilon, affine, device=device, dtype=dtype, **options)

    def _forward(self, x: Any) -> Any:
        if self._rank and len(x.shape) not in self._rank:
            raise ShapeError(f"{type(self).__name__}: {tuple(x.shape)} has {len(x.shape)} axes, not {self._rank}")
        self._check_channels(x)
        scale, offset = self._weights()
        words = {"scale": scale, "offset": offset, "eps": self.epsilon, "data_format": self.data_format}
        if not self.track_running_stats:
            return _core.batch_norm_update(x, **words)[0]
        mean, var = self.running_mean, self.running_var
        if not self.training:
            return _core.batch_norm(x, mean.value, var.value, **words)
        y, new_mean, new_var = _core.batch_norm_update(x, mean.value, var.value, momentum=self.momentum, **words)
        mean.value, var.value = new_mean, new_var
        return y


class BatchNorm1D(BatchNorm):
    """`BatchNorm` of [batch, channels] or [batch, width, channels].

    >>> cm.nn.BatchNorm1D(3)(cm.ones((4, 3))).shape
    (4, 3)
    """

    _rank = (2, 3)


class BatchNorm2D(BatchNorm):
    """`BatchNorm` of [batch, height, width, channels].

    >>> cm.nn.BatchNorm2D(3)(cm.ones((4, 2, 2, 3))).shape
    (4, 2, 2, 3)
    """

    _rank = (4,)


class BatchNorm3D(BatchNorm):
    """`BatchNorm` of [batch, depth, height, width, channels].

    >>> cm.nn.BatchNorm3D(3)(cm.ones((4, 2, 2, 2, 3))).shape
    (4, 2, 2, 2, 3)
    """

    _rank = (5,)
