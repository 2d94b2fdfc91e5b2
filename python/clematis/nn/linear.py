"""Linear, Bilinear and Embedding layers."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import GLOROT, ZEROS, Layer, count, keys


class Linear(Layer):
    """`y = x · wᵀ + b` over the last axis.

    Parameters
    ----------
    input_channels, output_channels : int
        The sizes of the last axes of `x` and `y`. `w` is [output_channels, input_channels].
    with_bias : bool
        Whether there is a `b`.
    weight_initializer, bias_initializer : initializer

    Examples
    --------
    >>> layer = cm.nn.Linear(3, 2, key=cm.random.key(0))
    >>> layer(cm.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self, input_channels: int, output_channels: int, *, weight_initializer: Any = GLOROT, bias_initializer: Any = ZEROS,
        with_bias: bool = True, key: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self.input_channels = count(self, "input_channels", input_channels)
        m = self.output_channels = count(self, "output_channels", output_channels)
        self.with_bias = with_bias
        w, b = keys(key, 2)
        self.w = weight_initializer.create_variables((m, n), device, m, n, dtype, key=w)
        self.b = bias_initializer.create_variables((m,), device, m, n, dtype, key=b) if with_bias else None

    def __call__(self, x: Any) -> Any:
        return _core.linear(x, self.w, bias=self.b)


class Bilinear(Layer):
    """`y = x1 · w · x2 + b` over the last axes.

    Parameters
    ----------
    input1_channels, input2_channels, output_channels : int
        The sizes of the last axes. `w` is [output_channels, input1_channels, input2_channels].
    with_bias : bool
        Whether there is a `b`.
    weight_initializer, bias_initializer : initializer

    Examples
    --------
    >>> layer = cm.nn.Bilinear(3, 4, 2, key=cm.random.key(0))
    >>> layer(cm.ones((5, 3)), cm.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(
        self, input1_channels: int, input2_channels: int, output_channels: int, *, weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS, with_bias: bool = True, key: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n1 = self.input1_channels = count(self, "input1_channels", input1_channels)
        n2 = self.input2_channels = count(self, "input2_channels", input2_channels)
        m = self.output_channels = count(self, "output_channels", output_channels)
        self.with_bias = with_bias
        w, b = keys(key, 2)
        self.w = weight_initializer.create_variables((m, n1, n2), device, m, n1 * n2, dtype, key=w)
        self.b = bias_initializer.create_variables((m,), device, m, n1 * n2, dtype, key=b) if with_bias else None

    def __call__(self, x1: Any, x2: Any) -> Any:
        return _core.bilinear(x1, x2, self.w, bias=self.b)


class Embedding(Layer):
    """The rows of `w` at integer indices.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        The shape of `w`.
    padding_idx : int, optional
        An index that gives zeros; its row is not trained.
    max_norm : float, optional
        Rows with a larger norm are scaled down to it.
    weight_initializer : initializer

    Examples
    --------
    >>> words = cm.nn.Embedding(10, 4, 0, key=cm.random.key(0))
    >>> words(cm.asarray([[3, 7, 0]])).shape
    (1, 3, 4)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None, *,
        weight_initializer: Any = GLOROT, key: Any = None, device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n = self.num_embeddings = count(self, "num_embeddings", num_embeddings)
        m = self.embedding_dim = count(self, "embedding_dim", embedding_dim)
        if padding_idx is not None and not -n <= padding_idx < n:
            raise ArgumentError(f"Embedding: padding_idx {padding_idx} is none of {n} rows")
        self.padding_idx, self.max_norm = padding_idx, max_norm
        (w,) = keys(key, 1)
        self.w = weight_initializer.create_variables((n, m), device, m, n, dtype, key=w)

    def __call__(self, indices: Any) -> Any:
        return _core.embedding(self.w, indices, max_norm=self.max_norm, padding_idx=self.padding_idx)
