"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "TreeDef",
    "all_finite",
    "clip_by_global_norm",
    "clip_by_value",
    "flatten",
    "global_norm",
    "is_array",
    "leaves",
    "map",
    "map_with_path",
    "paths",
    "register",
    "structure",
    "unflatten",
]

@final
class TreeDef:
    def __eq__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    def __ge__(self, value: Any, /) -> Any: ...
    def __gt__(self, value: Any, /) -> Any: ...
    def __le__(self, value: Any, /) -> Any: ...
    def __lt__(self, value: Any, /) -> Any: ...
    def __ne__(self, value: Any, /) -> Any: ...  # type: ignore[override]
    @property
    def num_leaves(self) -> Any: ...
    def unflatten(self, leaves: Any, /) -> Any: ...

def _arrays(tree: Any, /) -> Any:
    """Pairs of path and array, as `_entries`; other leaves are left out."""

def _children(x: _T | builtins.complex, /) -> _T:
    """Keys and children of a container, one level deep; `None` for anything else. What `__tree_flatten__` returns stands for
its object."""

def _entries(tree: Any, containers: Any = None, /) -> Any:
    """Pairs of path and leaf, the path as text with `/` between keys. `containers` as in `_flatten`."""

def _flatten(tree: Any, containers: Any = None, /) -> Any:
    """Paths, leaves and structure. `containers` are the classes that are unpacked, or a function of an object that returns
True for a leaf, False for a static object and None for a container; by default all containers are."""

def _rebuild(x: _T | builtins.complex, parts: Any, /) -> _T:
    """A container like `x` with other children."""

def _released(tree: Any, containers: Any, /) -> Any:
    """The structure without references to leaves: objects that are copied on unflattening hold `None` instead."""

def all_finite(tree: Any, /) -> Any:
    """Tests whether all elements of a pytree are finite.

>>> cm.tree.all_finite({"w": cm.asarray([1.0, cm.inf])})
False"""

def clip_by_global_norm(tree: Any, max_norm: Any, /) -> Any:
    """Clips a pytree by its global norm: scales all leaves by one factor so that the norm is at most `max_norm`.

If the norm is infinite or NaN, the leaves are returned unchanged.

    >>> cm.tree.clip_by_global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)}, 1.0)
    {'w': Tensor([0.6, 0.0], float32, native), 'b': Tensor(0.8, float32, native)}"""

def clip_by_value(tree: Any, low: Any, high: Any, /) -> Any:
    """Clips every element of a pytree to an interval.

>>> cm.tree.clip_by_value({"w": cm.asarray([3.0, -7.0])}, -5.0, 1.0)
{'w': Tensor([ 1.0, -5.0], float32, native)}"""

def flatten(tree: Any, /) -> Any:
    """Flattens a pytree into the list of its leaves and its structure.

Tensors, framework arrays and Python numbers are leaves and are returned as they are; other objects that are not
containers, such as strings and `None`, are part of the structure.

    >>> leaves, treedef = cm.tree.flatten({"w": cm.asarray([1.0]), "name": "dense"})
    >>> leaves, treedef
    ([Tensor([1.0], float32, native)], TreeDef({'w': *, 'name': 'dense'}))

>>> cm.flatten(cm.ones((2, 3, 4)), start_dim=1).shape
(2, 12)"""

def global_norm(tree: Any, /) -> Any:
    """Global norm of a pytree: the square root of the sum of squares of all leaves.

>>> cm.tree.global_norm({"w": cm.asarray([3.0, 0.0]), "b": cm.asarray(4.0)})
Tensor(5.0, float32, native)"""

def is_array(x: Any, /) -> builtins.bool:
    """Tests whether an object is an array: a tensor, or a framework's own array or variable.

>>> cm.tree.is_array(cm.asarray([1])), cm.tree.is_array([1])
(True, False)"""

def leaves(tree: Any, /) -> list[Any]:
    """Leaves of a pytree, in order; numbers become tensors.

>>> cm.tree.leaves({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
[Tensor([1.0, 2.0], float32, native), Tensor(3.0, float32, native)]"""

def map(function: Callable[..., Any], tree: Any, /, *rest: Any) -> Any:
    """Applies a function to each leaf of a pytree, or to the leaves of several of the same structure.

    >>> cm.tree.map(lambda x, y: x + y, {"a": cm.asarray([1, 2])}, {"a": 10})
    {'a': Tensor([11, 12], int32, native)}

>>> cm.map(lambda row: cm.sum(row), cm.asarray([[1, 2], [3, 4]]))
Tensor([3, 7], int32, native)"""

def map_with_path(function: Callable[..., Any], tree: Any, /, *rest: Any) -> Any:
    """Applies `function(path, leaf, …)` to each leaf of a pytree; `path` is a tuple of keys.

>>> cm.tree.map_with_path(lambda path, x: (path, x * 2), {"a": [cm.asarray(1.0)]})
{'a': [(('a', 0), Tensor(2.0, float32, native))]}"""

def paths(tree: Any, /) -> list[str]:
    """Paths of the leaves of a pytree, in order.

>>> cm.tree.paths({"w": cm.asarray([1.0, 2.0]), "b": [3.0]})
['w', 'b.0']"""

def register(cls: Any, flatten: Any, unflatten: Any, /) -> Any:
    """Registers a class as a pytree node.

Parameters
----------
cls : type
    The class. Subclasses are registered separately.
flatten : callable
    `flatten(x)` returns the pair `(children, aux)`: a list or dict of what `x` holds, and any other data.
unflatten : callable
    `unflatten(aux, children)` returns an object like `x` with these children.

Raises
------
ArgumentError
If the class is registered already, or is a built-in container of Python.

    >>> class Pair:
    ...     def __init__(self, left, right):
    ...         self.left, self.right = left, right
    >>> cm.tree.register(Pair, lambda p: ({"left": p.left, "right": p.right}, None), lambda _, kw: Pair(**kw))
    >>> cm.tree.paths([Pair(1.0, 2.0)])
    ['0.left', '0.right']"""

def structure(tree: Any, /) -> Any:
    """Structure of a pytree; two pytrees have the same structure if these are equal.

>>> cm.tree.structure({"a": 1}) == cm.tree.structure({"a": cm.asarray([2.0])})
True"""

def unflatten(treedef: Any, leaves: Any, /) -> Any:
    """Rebuilds a pytree from its structure and new leaves, as `treedef.unflatten` does.

>>> cm.tree.unflatten(cm.tree.structure([0, {"a": 0}]), ["x", "y"])
['x', {'a': 'y'}]"""
