"""Transformers: attention and a network of two linear layers, each with a residual connection and a norm."""

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
    """An encoder's or a decoder's layer. Parameters are those of `TransformerEncoderLayer`."""

    _attentions: tuple[str, ...] = ("attention",)

    def __init__(
        self, model_dim: int, num_heads: int, hidden_dim: int | None = None, dropout_rate: float = 0.1, *,
        activation: str | Callable[[Any], Any] = "relu", norm_first: bool = False, epsilon: float = 1e-5, key: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        n, heads = count(self, "model_dim", model_dim), count(self, "num_heads", num_heads)
        if n % heads:
            raise ArgumentError(f"{type(self).__name__}: {n} channels do not divide into {heads} heads")
        m = 4 * n if hidden_dim is None else count(self, "hidden_dim", hidden_dim)
        words = {"device": device, "dtype": dtype}
        *attention_keys, first, second = keys(key, len(self._attentions) + 2)
        for name, own in zip(self._attentions, attention_keys, strict=True):
            setattr(self, name, MultiHeadAttention(n, num_heads=heads, head_dim=n // heads, key=own, **words))
        self.hidden, self.out = Linear(n, m, key=first, **words), Linear(m, n, key=second, **words)
        self.norms = [LayerNorm(n, epsilon=epsilon, **words) for _ in range(len(self._attentions) + 1)]
        self.dropout, self.norm_first = Dropout(dropout_rate), norm_first
        self._activation: Any = _core.get(activation)  # type: ignore[arg-type]

    def _residual(self, x: Any, at: int, part: Callable[[Any], Any]) -> Any:
        """`x + part(norm(x))`, or `norm(x + part(x))`."""
        norm = self.norms[at]
        if self.norm_first:
            return _core.add(x, self.dropout(part(norm(x))))
        return norm(_core.add(x, self.dropout(part(x))))

    def _network(self, x: Any) -> Any:
        return self.out(self.dropout(self._activation(self.hidden(x))))


class TransformerEncoderLayer(_Block):
    """Self-attention, then two linear layers. A call takes a `mask` and `causal`.

    Parameters
    ----------
    model_dim, num_heads : int
        The size of the last axis, and the number of heads that it is split into.
    hidden_dim : int, optional
        The size between the linear layers, four times `model_dim` by default.
    dropout_rate : float
    activation : str or callable
        The name of a function, or a function.
    norm_first : bool
        Whether the norms are before attention and network, and not behind the residual connections.
    epsilon : float
        That of the norms.

    Examples
    --------
    >>> layer = cm.nn.TransformerEncoderLayer(8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> layer(cm.ones((1, 5, 8))).shape
    (1, 5, 8)
    """

    def __call__(self, x: Any, mask: Any = None, *, causal: bool = False) -> Any:
        x = self._residual(x, 0, lambda x: self.attention(x, mask=mask, causal=causal))
        return self._residual(x, 1, self._network)


class TransformerDecoderLayer(_Block):
    """Causal self-attention, attention to `memory`, then two linear layers.

    Parameters are those of `TransformerEncoderLayer`. A call takes a `mask`, a `memory_mask` and `causal`.

    Examples
    --------
    >>> layer = cm.nn.TransformerDecoderLayer(8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> layer(cm.ones((1, 5, 8)), cm.ones((1, 3, 8))).shape
    (1, 5, 8)
    """

    _attentions = ("attention", "cross_attention")

    def __call__(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, *, causal: bool = True) -> Any:
        x = self._residual(x, 0, lambda x: self.attention(x, mask=mask, causal=causal))
        x = self._residual(x, 1, lambda x: self.cross_attention(x, context=memory, mask=memory_mask))
        return self._residual(x, 2, self._network)


class _Stack(Layer):
    """Layers on top of each other; with `norm_first` one more norm follows the last."""

    _block: type[_Block] = TransformerEncoderLayer

    def __init__(
        self, num_layers: int, model_dim: int, num_heads: int, hidden_dim: int | None = None, dropout_rate: float = 0.1, *,
        activation: str | Callable[[Any], Any] = "relu", norm_first: bool = False, epsilon: float = 1e-5, key: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        words = {"epsilon": epsilon, "device": device, "dtype": dtype}
        block = {"dropout_rate": dropout_rate, "activation": activation, "norm_first": norm_first, **words}
        own = keys(key, count(self, "num_layers", num_layers))
        self.layers = [self._block(model_dim, num_heads, hidden_dim, key=one, **block) for one in own]
        self.norm = LayerNorm(model_dim, **words) if norm_first else None

    def _layers(self, x: Any, *args: Any, **words: Any) -> Any:
        for layer in self.layers:
            x = layer(x, *args, **words)
        return x if self.norm is None else self.norm(x)


class TransformerEncoder(_Stack):
    """Several `TransformerEncoderLayer`; with `norm_first` one more norm follows the last.

    Parameters
    ----------
    num_layers : int
    **options
        Those of `TransformerEncoderLayer`.

    Examples
    --------
    >>> net = cm.nn.TransformerEncoder(2, 8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> net(cm.ones((1, 5, 8)), causal=True).shape
    (1, 5, 8)
    """

    def __call__(self, x: Any, mask: Any = None, *, causal: bool = False) -> Any:
        return self._layers(x, mask, causal=causal)


class TransformerDecoder(_Stack):
    """Several `TransformerDecoderLayer`; with `norm_first` one more norm follows the last.

    Parameters
    ----------
    num_layers : int
    **options
        Those of `TransformerEncoderLayer`.

    Examples
    --------
    >>> net = cm.nn.TransformerDecoder(2, 8, 2, 16, dropout_rate=0.0, key=cm.random.key(0))
    >>> net(cm.ones((1, 5, 8)), cm.ones((1, 3, 8))).shape
    (1, 5, 8)
    """

    _block = TransformerDecoderLayer

    def __call__(self, x: Any, memory: Any, mask: Any = None, memory_mask: Any = None, *, causal: bool = True) -> Any:
        return self._layers(x, memory, mask, memory_mask, causal=causal)
