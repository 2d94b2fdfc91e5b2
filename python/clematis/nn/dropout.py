"""Random zeros while training."""

from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ..module import Module


class Dropout(Module):
    """Sets elements to zero with a probability while training; `scale` keeps the mean as it was."""

    def __init__(self, prob: float, scale: bool = True, dtype: Any = None, **options: Any) -> None:
        if not 0 <= prob < 1:
            raise ArgumentError(f"Dropout: prob is at least 0 and less than 1, not {prob}")
        self.prob, self.scale, self._dtype = prob, scale, dtype
        super().__init__(**options)

    def _forward(self, x: Any, dtype: Any = None, *, key: Any = None) -> Any:
        if not self.training or not self.prob:
            return x
        return _core.dropout(x, self.prob, scale=self.scale, dtype=dtype or self._dtype, key=key)
