"""Transformers: attention and a network of two layers, each around a shortcut, with norms before or behind."""

from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import Layer, count, keys
from .attention import MultiHeadAttention
from .dropout import Dropout
from .linear import Linear
from .norm import LayerNorm


class _Block(Layer):
    """What blocks of both kinds have."""

    def __init__(
        self, model_dim: int, num_heads: int, hidden_dim: int | None, *, attentions: tuple[str, ...],
        dropout_rate: float, activation: Any, norm_first: bool, epsilon: float, key: Any,
        device: Any = None, dtype: Any = None, **options: Any,
    ) -> None:  # fmt: skip
        n, heads = count(self, "model_dim", model_dim), count(self, "num_heads", num_heads)
        if n % heads:
            raise ArgumentError(f"{type(self).__name__}: {n} channels do not divide into {heads} heads")
        m = 4 * n if hidden_dim is None else count(self, "hidden_dim", hidden_dim)
        words = {"device": device, "dtype": dtype}
        *attention_keys, first, second = keys(key, len(attentions) + 2)
        for name, own in zip(attentions, attention_keys, strict=True):
            attention = MultiHeadAttention(n, num_heads=heads, head_dim=n // heads, key=own, **words)
            setattr(self, name, attention)
        self.hidden, self.out = Linear(n, m, key=first, **words), Linear(m, n, key=second, **words)
        self.norms = [LayerNorm(n, epsilon=epsilon, **words) for _ in range(len(attentions) + 1)]
        self.dropout, self.norm_first = Dropout(dropout_rate), norm_first
        self._activation = _core.get(activation)
        super().__init__(device=device, dtype=dtype, **options)

    def _around(self, x: Any, at: int, part: Callable[[Any], Any]) -> Any:
        """A part with a shortcut around it, and the norm where it belongs."""
        norm = self.norms[at]
        if self.norm_first:
            return _core.add(x, self.dropout(part(norm(x))))
        return norm(_core.add(x, self.dropout(part(x))))

    def _network(self, x: Any) -> Any:
        return self.out(self.dropout(self._activation(self.hidden(x))))


class TransformerEncoderLayer(_Block):
    """Attention of a sequence to itself, then two linear layers.

    `norm_first` puts the norms before the parts rather than behind the shortcuts; `activation` is a name or a function.

    >>> layer = cm.nn.TransformerEncoderLayer(8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> layer(cm.ones((1, 5, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        /,
        *,
        dropout_rate: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-5,
        key: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            model_dim, num_heads, hidden_dim, attentions=("attention",), dropout_rate=dropout_rate,
            activation=activation, norm_first=norm_first, epsilon=epsilon, key=key, **options,
        )  # fmt: skip

    def _forward(self, x: Any, mask: Any = None, *, causal: bool = False) -> Any:
        x = self._around(x, 0, lambda x: self.attention(x, mask=mask, causal=causal))
        return self._around(x, 1, self._network)


class TransformerDecoderLayer(_Block):
    """Attention of a sequence to itself and to another one, then two linear layers.

    A place sees nothing behind it unless `causal=False` is said when calling.

    >>> layer = cm.nn.TransformerDecoderLayer(8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> layer(cm.ones((1, 5, 8)), cm.ones((1, 3, 8))).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        model_dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        /,
        *,
        dropout_rate: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-5,
        key: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            model_dim, num_heads, hidden_dim, attentions=("attention", "cross_attention"), dropout_rate=dropout_rate,
            activation=activation, norm_first=norm_first, epsilon=epsilon, key=key, **options,
        )  # fmt: skip

    def _forward(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, *, causal: bool = True) -> Any:
        x = self._around(x, 0, lambda x: self.attention(x, mask=mask, causal=causal))
        x = self._around(x, 1, lambda x: self.cross_attention(x, context=memory, mask=memory_mask))
        return self._around(x, 2, self._network)


class _Stack(Layer):
    """Equal blocks on top of each other; with norms first, one more behind the last."""

    _block: type = TransformerEncoderLayer

    def __init__(
        self, num_layers: int, model_dim: int, num_heads: int, hidden_dim: int | None, *, norm_first: bool,
        epsilon: float, key: Any, device: Any = None, dtype: Any = None, dropout_rate: float, activation: Any,
        **options: Any,
    ) -> None:  # fmt: skip
        words = {"epsilon": epsilon, "device": device, "dtype": dtype}
        block = {"norm_first": norm_first, "dropout_rate": dropout_rate, "activation": activation, **words}
        own = keys(key, count(self, "num_layers", num_layers))
        self.layers = [self._block(model_dim, num_heads, hidden_dim, key=one, **block) for one in own]
        self.norm = LayerNorm(model_dim, **words) if norm_first else None
        super().__init__(device=device, dtype=dtype, **options)

    def _forward(self, x: Any, *args: Any, **words: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *args, **words)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Several `TransformerEncoderLayer`; with `norm_first` a norm follows the last.

    >>> net = cm.nn.TransformerEncoder(2, 8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> net(cm.ones((1, 5, 8)), causal=True).shape
    (1, 5, 8)
    """

    def __init__(
        self,
        num_layers: int,
        model_dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        /,
        *,
        dropout_rate: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-5,
        key: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            num_layers, model_dim, num_heads, hidden_dim, dropout_rate=dropout_rate, activation=activation,
            norm_first=norm_first, epsilon=epsilon, key=key, **options,
        )  # fmt: skip

    def _forward(self, x: Any, mask: Any = None, *, causal: bool = False) -> Any:
        return super()._forward(x, mask, causal=causal)


class TransformerDecoder(_Stack):
    """Several `TransformerDecoderLayer`; with `norm_first` a norm follows the last.

    >>> net = cm.nn.TransformerDecoder(2, 8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> net(cm.ones((1, 5, 8)), cm.ones((1, 3, 8))).shape
    (1, 5, 8)
    """

    _block = TransformerDecoderLayer

    def __init__(
        self,
        num_layers: int,
        model_dim: int,
        num_heads: int,
        hidden_dim: int | None = None,
        /,
        *,
        dropout_rate: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        norm_first: bool = False,
        epsilon: float = 1e-5,
        key: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(
            num_layers, model_dim, num_heads, hidden_dim, dropout_rate=dropout_rate, activation=activation,
            norm_first=norm_first, epsilon=epsilon, key=key, **options,
        )  # fmt: skip

    def _forward(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, *, causal: bool = True) -> Any:
        return super()._forward(x, memory, mask, memory_mask, causal=causal)
