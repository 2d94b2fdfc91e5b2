"""Pytrees by path, on top of the registry of containers in the extension."""

from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any, TypeAlias

from . import _clematis as _core
from .errors import ArgumentError

Path: TypeAlias = tuple[Any, ...]

# Keys and children of a container, one level deep; None for a leaf.
children = _core._tree._children


def entries(tree: Any) -> Iterable[tuple[Path, Any]]:
    """Pairs of path and leaf, in order; every object that is not a container is a leaf."""
    paths, leaves, _ = _core._tree._flatten(tree)
    return zip(paths, leaves, strict=True)


def replaced(tree: Any, values: Mapping[Path, Any]) -> Any:
    """A copy of a pytree with other leaves at some paths."""
    paths, leaves, treedef = _core._tree._flatten(tree)
    return treedef.unflatten([values.get(path, x) for path, x in zip(paths, leaves, strict=True)])


def kept(tree: Any, values: Mapping[Path, Any], path: Path = ()) -> Any:
    """A pytree of the same kind with these leaves alone; tuples become lists. None if there is no leaf."""
    if hasattr(type(tree), "__tree_flatten__"):
        return kept(tree.__tree_flatten__(), values, path)
    parts = children(tree)
    if parts is None:
        return values.get(path)
    found = [(key, kept(part, values, (*path, key))) for key, part in parts]
    found = [(key, part) for key, part in found if part is not None]
    if not found:
        return None
    if isinstance(tree, (list, tuple)):
        return [part for _, part in found]
    out = copy(tree)
    if isinstance(tree, dict):
        dict.clear(out)
        dict.update(out, found)
    else:
        for name, part in found:
            # A frozen dataclass allows nothing else.
            object.__setattr__(out, name, part)
    return out


def is_list_of_numbers(x: Any) -> bool:
    """Whether this is a nested list of numbers, which converts to one array."""
    if type(x) not in (list, tuple) or not x:
        return False
    return all(is_list_of_numbers(part) or isinstance(part, (int, float, complex)) for part in x)


def within(op: str, tree: Any, paths: Any) -> list[Path]:
    """Checks paths, each a list of keys, a single key or text with `/`, against a pytree."""
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise ArgumentError(f'{op}: expected indices to be a list of paths such as [[0], [1, "w"]], got {paths!r}')
    found: list[Path] = []
    for path in paths:
        path = path if isinstance(path, (str, list, tuple)) else [path]
        keys: list[Any] = []
        inner = tree
        for key in path.split("/") if isinstance(path, str) else path:
            parts = dict(children(inner) or [])
            if isinstance(key, int) and key < 0 and isinstance(inner, (list, tuple)):
                key += len(inner)
            if key not in parts:
                raise ArgumentError(f"{op}: there is nothing at index {path!r}")
            inner = parts[key]
            keys.append(key)
        found.append(tuple(keys))
    return found


def is_below(path: Path, tops: list[Path]) -> bool:
    """Whether a path begins with one of these."""
    return any(path[: len(top)] == top for top in tops)
