"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "Key",
    "bernoulli",
    "bits",
    "key",
    "normal",
    "permutation",
    "randint",
    "uniform",
]

@final
class Key:
    def fold_in(self, /, n: Any) -> Any: ...
    def split(self, n: Any = 2, /) -> Any: ...
    def words(self, /) -> Any: ...

def bernoulli(key: Any, shape: int | Sequence[int] | None = None, *, p: Any = 0.5) -> Tensor:
    """True with a probability."""

def bits(key: Any, shape: int | Sequence[int] | None = None, *, dtype: Any = None) -> Tensor:
    """Random bits as unsigned integers."""

def key(seed: Any, /) -> Key:
    """The key of a seed."""

def normal(key: Any, shape: int | Sequence[int] | None = None, *, mean: Any = 0.0, std: Any = 1.0, dtype: Any = None) -> Tensor:
    """Normal numbers."""

def permutation(key: Any, n: Any, /) -> Tensor:
    """The numbers 0 … n-1 in random order."""

def randint(key: Any, shape: int | Sequence[int] | None = None, *, low: Any = 0, high: Any, dtype: Any = None) -> Tensor:
    """Integers in [low, high)."""

def uniform(key: Any, shape: int | Sequence[int] | None = None, *, low: Any = 0.0, high: Any = 1.0, dtype: Any = None) -> Tensor:
    """Uniform numbers in [low, high)."""
