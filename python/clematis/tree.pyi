"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "leaves",
    "map",
    "paths",
]

def leaves(tree: Any, /) -> list[Any]:
    """The leaves of a nest, in order."""

def map(function: Callable[..., Any], tree: Any, /, *rest: Any) -> Any:
    """Applies a function to each leaf of a nest, or to the leaves of several of the same structure."""

def paths(tree: Any, /) -> list[str]:
    """The paths of the leaves of a nest, in order."""
