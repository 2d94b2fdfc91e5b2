"""`y = x · wᵀ + b`."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ..module import Module
from .initializers import GlorotUniform, Zeros

_GLOROT, _ZEROS = GlorotUniform(), Zeros()


class Linear(Module):
    """`y = x · wᵀ + b` over the last axis; `w` is [output_channels, input_channels]."""

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        /,
        *,
        weight_initializer: Any = _GLOROT,
        bias_initializer: Any = _ZEROS,
        with_bias: bool = True,
        key: Any = None,
        **options: Any,
    ) -> None:
        if input_channels < 1 or output_channels < 1:
            raise ArgumentError(f"Linear: channels have to be positive, not {input_channels} and {output_channels}")
        self.input_channels, self.output_channels, self.with_bias = input_channels, output_channels, with_bias
        self._initializers, self._key = (weight_initializer, bias_initializer), key
        super().__init__(**options)

    def _create_variables(self, *, device: Any = None, dtype: Any = None) -> dict[str, Any]:
        n, m = self.input_channels, self.output_channels
        w_key, b_key = (None, None) if self._key is None else self._key.split()
        # A key is for one use.
        self._key = None
        for_w, for_b = self._initializers
        made = {"w": for_w.create_variables((m, n), device, m, n, dtype, key=w_key)}
        if self.with_bias:
            made["b"] = for_b.create_variables((m,), device, m, n, dtype, key=b_key)
        return made

    def _forward(self, x: Any) -> Any:
        v = self.v
        return _core.linear(x, v["w"], bias=v["b"] if self.with_bias else None)
