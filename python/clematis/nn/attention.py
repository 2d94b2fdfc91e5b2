"""Attention by heads."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import Layer, count, keys
from .container import Sequential
from .dropout import Dropout
from .linear import Linear


class MultiHeadAttention(Layer):
    """Each place of the inputs looks at all places of the context, or of the inputs themselves.

    Queries are `to_q`, keys and values `to_kv/k` and `to_kv/v`, the result goes through `to_out`; each may be left out.
    Where the mask is 0, nothing is looked at; with `causal` nothing behind a place is.

    >>> layer = cm.nn.MultiHeadAttention(16, num_heads=4, head_dim=4, key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 16)), causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self,
        query_dim: int,
        /,
        *,
        num_heads: int = 8,
        head_dim: int = 64,
        dropout_rate: float = 0.0,
        context_dim: int | None = None,
        scale: float | None = None,
        with_to_q_fn: bool = True,
        with_to_kv_fn: bool = True,
        with_to_out_fn: bool = True,
        with_bias: bool = True,
        build_mode: str = "on_init",
        key: Any = None,
        device: Any = None,
        dtype: Any = None,
        **options: Any,
    ) -> None:
        self.query_dim = count(self, "query_dim", query_dim)
        self.num_heads, self.head_dim = count(self, "num_heads", num_heads), count(self, "head_dim", head_dim)
        self.context_dim = query_dim if context_dim is None else count(self, "context_dim", context_dim)
        inner = self.num_heads * self.head_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        if not with_to_q_fn and query_dim != inner:
            raise ArgumentError(
                f"MultiHeadAttention: without to_q the queries are {query_dim} wide, not {num_heads} heads of {head_dim}"
            )
        words = {"with_bias": with_bias, "build_mode": build_mode, "device": device, "dtype": dtype}
        q, k, v, out = keys(key, 4)
        self._to_q = Linear(query_dim, inner, key=q, **words) if with_to_q_fn else None
        self._to_kv: Any = None
        if with_to_kv_fn:
            context = self.context_dim
            self._to_kv = {"k": Linear(context, inner, key=k, **words), "v": Linear(context, inner, key=v, **words)}
        self._to_out = None
        if with_to_out_fn:
            self._to_out = Sequential(Linear(inner, query_dim, key=out, **words), Dropout(dropout_rate))
        options.setdefault("with_partial_v", True)
        super().__init__(build_mode=build_mode, device=device, dtype=dtype, **options)

    def _keys_and_values(self, x: Any, v: Any = None) -> tuple[Any, Any]:
        return self._to_kv["k"](x), self._to_kv["v"](x)

    def _forward(self, inputs: Any, context: Any = None, mask: Any = None, *, causal: bool = False) -> Any:
        if causal:
            mask = _core.causal_mask(inputs, context, mask=mask)
        return _core.multi_head_attention(
            inputs, self.scale, self.num_heads, context=context, mask=mask, to_q_fn=self._to_q,
            to_kv_fn=self._keys_and_values if self._to_kv else None, to_out_fn=self._to_out,
        )  # fmt: skip
