"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "is_array",
    "leaves",
    "map",
    "paths",
]

def is_array(x: Any, /) -> builtins.bool:
    """Whether this is an array: a tensor, or a framework's own array or variable.

>>> cm.tree.is_array(cm.asarray([1])), cm.tree.is_array([1])
(True, False)"""

def leaves(tree: Any, /) -> list[Any]:
    """The leaves of a nest, in order.

>>> cm.tree.leaves({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
[Tensor([1.0, 2.0], float32, native), Tensor(3.0, float32, native)]"""

def map(function: Callable[..., Any], tree: Any, /, *rest: Any) -> Any:
    """Applies a function to each leaf of a nest, or to the leaves of several of the same structure.

>>> cm.tree.map(lambda x, y: x + y, {"a": cm.asarray([1, 2])}, {"a": 10})
{'a': Tensor([11, 12], int32, native)}"""

def paths(tree: Any, /) -> list[str]:
    """The paths of the leaves of a nest, in order.

>>> cm.tree.paths({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
['w', 'b.0']"""
