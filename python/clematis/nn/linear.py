"""Products with matrices, and rows of a table."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import GLOROT, ZEROS, Layer, count


class Linear(Layer):
    """`y = x · wᵀ + b` over the last axis; `w` is [output_channels, input_channels].

    >>> layer = cm.nn.Linear(3, 2, key=cm.random.key(0))
    >>> layer(cm.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        **options: Any,
    ) -> None:
        self.input_channels = count(self, "input_channels", input_channels)
        self.output_channels = count(self, "output_channels", output_channels)
        self.with_bias, self._initializers = with_bias, (weight_initializer, bias_initializer)
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        n, m = self.input_channels, self.output_channels
        w_key, b_key = self._take_keys(2)
        for_w, for_b = self._initializers
        made = {"w": for_w.create_variables((m, n), device, m, n, dtype, key=w_key)}
        if self.with_bias:
            made["b"] = for_b.create_variables((m,), device, m, n, dtype, key=b_key)
        return made

    def _forward(self, x: Any) -> Any:
        v = self.v
        return _core.linear(x, v["w"], bias=v["b"] if self.with_bias else None)


class Bilinear(Layer):
    """`y = x1 · w · x2 + b` over the last axes; `w` is [output_channels, input1_channels, input2_channels].

    >>> layer = cm.nn.Bilinear(3, 4, 2, key=cm.random.key(0))
    >>> layer(cm.ones((5, 3)), cm.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(
        self,
        input1_channels: int,
        input2_channels: int,
        output_channels: int,
        /,
        *,
        weight_initializer: Any = GLOROT,
        bias_initializer: Any = ZEROS,
        with_bias: bool = True,
        **options: Any,
    ) -> None:
        self.input1_channels = count(self, "input1_channels", input1_channels)
        self.input2_channels = count(self, "input2_channels", input2_channels)
        self.output_channels = count(self, "output_channels", output_channels)
        self.with_bias, self._initializers = with_bias, (weight_initializer, bias_initializer)
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        n1, n2, m = self.input1_channels, self.input2_channels, self.output_channels
        w_key, b_key = self._take_keys(2)
        for_w, for_b = self._initializers
        made = {"w": for_w.create_variables((m, n1, n2), device, m, n1 * n2, dtype, key=w_key)}
        if self.with_bias:
            made["b"] = for_b.create_variables((m,), device, m, n1 * n2, dtype, key=b_key)
        return made

    def _forward(self, x1: Any, x2: Any) -> Any:
        v = self.v
        return _core.bilinear(x1, x2, v["w"], bias=v["b"] if self.with_bias else None)


class Embedding(Layer):
    """Rows of a table by their numbers; `w` is [num_embeddings, embedding_dim].

    The row `padding_idx` stands for nothing: it gives zeros and is not trained. Rows longer than `max_norm` are
    shortened to it.

    >>> words = cm.nn.Embedding(10, 4, 0, key=cm.random.key(0))
    >>> words(cm.asarray([[3, 7, 0]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        /,
        *,
        max_norm: float | None = None,
        weight_initializer: Any = GLOROT,
        **options: Any,
    ) -> None:
        n = self.num_embeddings = count(self, "num_embeddings", num_embeddings)
        self.embedding_dim = count(self, "embedding_dim", embedding_dim)
        if padding_idx is not None and not -n <= padding_idx < n:
            raise ArgumentError(f"Embedding: padding_idx {padding_idx} is none of {n} rows")
        self.padding_idx, self.max_norm, self._initializer = padding_idx, max_norm, weight_initializer
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        n, m = self.num_embeddings, self.embedding_dim
        (key,) = self._take_keys(1)
        return {"w": self._initializer.create_variables((n, m), device, m, n, dtype, key=key)}

    def _forward(self, indices: Any) -> Any:
        return _core.embedding(self.v["w"], indices, max_norm=self.max_norm, padding_idx=self.padding_idx)
