"""What layers share: checked sizes, and keys in order."""

from collections.abc import Sequence
from operator import index
from typing import Any

from ..errors import ArgumentError
from ..module import Module
from .initializers import GlorotUniform, Ones, Zeros

GLOROT, ZEROS, ONES = GlorotUniform(), Zeros(), Ones()
# Layouts by the number of spatial axes: channels last, channels second.
FORMATS = {1: ("NWC", "NCW"), 2: ("NHWC", "NCHW"), 3: ("NDHWC", "NCDHW")}
ANY_FORMAT = ("NSC", "NCS", *FORMATS[1], *FORMATS[2], *FORMATS[3])


class Layer(Module):
    """A module of `cm.nn`. Each takes the options below, whether it has a use for them or not.

    Parameters
    ----------
    key : Key, optional
        What parameters are drawn with; without it from the stream of `cm.seed`.
    device, dtype : optional
        Where parameters are made, and their dtype (float32).
    v, build_mode, store_vars, with_partial_v : optional
        Options of `Module`.
    """

    _options = frozenset(("key", "device", "dtype", "v", "build_mode", "store_vars", "with_partial_v"))
    _is_fixed = True

    def __init__(self) -> None:
        pass


def count(layer: Any, name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`."""
    layer = layer if isinstance(layer, str) else type(layer).__name__
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ArgumentError(f"{layer}: {name} is a whole number of at least {least}, not {value!r}")
    return number


def counts(layer: Any, name: str, value: Any, n: int) -> tuple[int, ...]:
    """A positive number for each of `n` axes, from one for all or one for each."""
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
    """A key for each of `n` parameters or layers, or None for each: these draw from the implicit stream."""
    return (None,) * n if key is None else key.split(n)
