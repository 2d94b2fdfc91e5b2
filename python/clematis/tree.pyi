"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "all_finite",
    "clip_by_global_norm",
    "clip_by_value",
    "global_norm",
    "is_array",
    "leaves",
    "map",
    "paths",
]

def all_finite(tree: Any, /) -> Any:
    """Whether no element of a nest is infinite or NaN.

>>> cm.tree.all_finite({"w": cm.asarray([1.0, cm.inf])})
False"""

def clip_by_global_norm(tree: Any, max_norm: Any, /) -> Any:
    """A nest whose leaves are made shorter together where their length is more than `max_norm`.

Where the length is no finite number they stay as they are.

    >>> cm.tree.clip_by_global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)}, 1.0)
    {'w': Tensor([0.6, 0.0], float32, native), 'b': Tensor(0.8, float32, native)}"""

def clip_by_value(tree: Any, low: Any, high: Any, /) -> Any:
    """A nest with every element held between two numbers.

>>> cm.tree.clip_by_value({"w": cm.asarray([3.0, -7.0])}, -5.0, 1.0)
{'w': Tensor([ 1.0, -5.0], float32, native)}"""

def global_norm(tree: Any, /) -> Any:
    """The length of all leaves of a nest as one vector: the root of the sum of all squares.

>>> cm.tree.global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)})
Tensor(5.0, float32, native)"""

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
    {'a': Tensor([11, 12], int32, native)}

>>> cm.map(lambda row: cm.sum(row), cm.asarray([[1, 2], [3, 4]]))
Tensor([3, 7], int32, native)"""

def paths(tree: Any, /) -> list[str]:
    """The paths of the leaves of a nest, in order.

>>> cm.tree.paths({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
['w', 'b.0']"""
