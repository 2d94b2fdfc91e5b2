"""Multi-head attention."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import Layer, count, keys
from .container import Sequential
from .dropout import Dropout
from .linear import Linear


class MultiHeadAttention(Layer):
    """`softmax(q · kᵀ · scale) · v` for each head; the heads are joined and go through `to_out`.

    Queries are `to_q` of the inputs, keys and values `to_kv/k` and `to_kv/v` of the context, or of the inputs without one.
    A call takes `context`, a `mask` that is 0 where a query does not attend, and `causal`.

    Parameters
    ----------
    query_dim, context_dim : int
        The sizes of the last axes of the inputs and of the context, which are equal by default.
    num_heads, head_dim : int
    dropout_rate : float
        The probability of the dropout behind `to_out`.
    scale : float, optional
        `head_dim ** -0.5` by default.
    with_to_q_fn, with_to_kv_fn, with_to_out_fn, with_bias : bool
        Which of the linear layers there are, and whether they have biases.

    Examples
    --------
    >>> layer = cm.nn.MultiHeadAttention(16, num_heads=4, head_dim=4, key=cm.random.key(0))
    >>> layer(cm.ones((2, 5, 16)), causal=True).shape
    (2, 5, 16)
    """

    def __init__(
        self, query_dim: int, num_heads: int = 8, head_dim: int = 64, dropout_rate: float = 0.0,
        context_dim: int | None = None, scale: float | None = None, *, with_to_q_fn: bool = True,
        with_to_kv_fn: bool = True, with_to_out_fn: bool = True, with_bias: bool = True, key: Any = None,
        device: Any = None, dtype: Any = None,
    ) -> None:  # fmt: skip
        self.query_dim = count(self, "query_dim", query_dim)
        self.num_heads, self.head_dim = count(self, "num_heads", num_heads), count(self, "head_dim", head_dim)
        self.context_dim = query_dim if context_dim is None else count(self, "context_dim", context_dim)
        inner, context = self.num_heads * self.head_dim, self.context_dim
        self.scale = head_dim**-0.5 if scale is None else scale
        if not with_to_q_fn and query_dim != inner:
            raise ArgumentError(
                f"MultiHeadAttention: without to_q the queries are {query_dim} wide, not {num_heads} heads of {head_dim}"
            )
        words = {"with_bias": with_bias, "device": device, "dtype": dtype}
        q, k, v, out = keys(key, 4)
        self._to_q = Linear(query_dim, inner, key=q, **words) if with_to_q_fn else None
        self._to_kv: Any = None
        self._to_out = None
        if with_to_kv_fn:
            self._to_kv = {"k": Linear(context, inner, key=k, **words), "v": Linear(context, inner, key=v, **words)}
        if with_to_out_fn:
            self._to_out = Sequential(Linear(inner, query_dim, key=out, **words), Dropout(dropout_rate))

    def _keys_and_values(self, x: Any, v: Any = None) -> tuple[Any, Any]:
        return self._to_kv["k"](x), self._to_kv["v"](x)

    def __call__(self, inputs: Any, context: Any = None, mask: Any = None, *, causal: bool = False) -> Any:
        if causal:
            mask = _core.causal_mask(inputs, context, mask=mask)
        return _core.multi_head_attention(
            inputs, self.scale, self.num_heads, context=context, mask=mask, to_q_fn=self._to_q,
            to_kv_fn=self._keys_and_values if self._to_kv else None, to_out_fn=self._to_out,
        )  # fmt: skip
