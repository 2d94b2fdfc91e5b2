"""What layers have in common: checked sizes, keys in order, parameters from initialisers."""

from collections.abc import Sequence
from operator import index
from typing import Any

from ..errors import ArgumentError
from ..module import Module
from .initializers import GlorotUniform, Ones, Zeros

GLOROT, ZEROS, ONES = GlorotUniform(), Zeros(), Ones()


def count(layer: Any, name: str, value: Any, least: int = 1) -> int:
    """A whole number that is large enough."""
    layer = layer if isinstance(layer, str) else type(layer).__name__
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ArgumentError(f"{layer}: {name} is a whole number of at least {least}, not {value!r}")
    return number


def counts(layer: Any, name: str, value: Any, n: int) -> tuple[int, ...]:
    """One positive number for all axes, or one for each."""
    try:
        items = [value] * n if isinstance(value, (bool, float)) or hasattr(value, "__index__") else list(value)
    except TypeError:
        items = [value] * n
    if len(items) == 1:
        items *= n
    if len(items) != n:
        raise ArgumentError(f"{type(layer).__name__}: {name} is one number or {n}, not {value!r}")
    return tuple(count(layer, name, item) for item in items)


def choice(layer: Any, name: str, value: Any, words: Sequence[str]) -> str:
    """One of a few words."""
    if value not in words:
        known = ", ".join(f'"{word}"' for word in words)
        raise ArgumentError(f"{type(layer).__name__}: {name} is one of {known}, not {value!r}")
    return str(value)


def keys(key: Any, n: int) -> Sequence[Any]:
    """A key for each of several parameters or layers; without one each draws from the implicit stream."""
    return (None,) * n if key is None else key.split(n)


class Layer(Module):
    """A module that draws its parameters with a key, once."""

    def __init__(
        self,
        *,
        key: Any = None,
        v: Any = None,
        device: Any = None,
        dtype: Any = None,
        build_mode: str = "on_init",
        store_vars: bool = True,
        with_partial_v: bool = False,
    ) -> None:
        self._key = key
        super().__init__(
            v=v, device=device, dtype=dtype, build_mode=build_mode, store_vars=store_vars, with_partial_v=with_partial_v
        )

    def _take_keys(self, n: int) -> Sequence[Any]:
        """The key, split; it is for one use."""
        key, self._key = self._key, None
        return keys(key, n)


class Plain(Layer):
    """A layer without parameters: a function and its settings."""

    _function: Any = None

    def __init__(self, settings: dict[str, Any] | None = None, **options: Any) -> None:
        self._settings = settings or {}
        super().__init__(**options)

    def _forward(self, x: Any) -> Any:
        return self._function(x, **self._settings)
