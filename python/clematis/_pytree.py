"""Nests of dicts, lists, tuples, dataclasses and modules, walked in Python where leaves must stay what they are."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any, TypeAlias

from .errors import ArgumentError

Path: TypeAlias = tuple[Any, ...]

# The deepest pytree that is followed; a list that holds itself has no end.
DEPTH = 200


def children(tree: Any) -> list[tuple[Any, Any]] | None:
    """Keys and parts of a pytree, None of a leaf."""
    if isinstance(tree, dict):
        return list(dict.items(tree))
    if isinstance(tree, (list, tuple)):
        return list(enumerate(tree))
    if hasattr(type(tree), "__tree_flatten__"):
        return children(tree.__tree_flatten__())
    if hasattr(type(tree), "__dataclass_fields__"):
        return [(name, getattr(tree, name)) for name in field_names(tree)]
    return None


def field_names(tree: Any) -> list[str]:
    """The fields of a dataclass that hold something."""
    # Slow to import; whoever has made one has paid for it.
    import dataclasses

    return [field.name for field in dataclasses.fields(tree) if hasattr(tree, field.name)]


def entries(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every leaf with the path to it, in order."""
    parts = children(tree)
    if parts is None:
        yield path, tree
        return
    if len(path) > DEPTH:
        raise ArgumentError(f"tree: nested deeper than {DEPTH}")
    for key, part in parts:
        yield from entries(part, (*path, key))


def replaced(tree: Any, values: Mapping[Path, Any], path: Path = ()) -> Any:
    """A pytree of the same kind with other leaves at some paths; nothing of the old one is changed."""
    parts = children(tree)
    if parts is None:
        return values.get(path, tree)
    return like(tree, [(key, replaced(part, values, (*path, key))) for key, part in parts])


def like(tree: Any, parts: list[tuple[Any, Any]]) -> Any:
    """A pytree of the same kind with these parts."""
    kind: Any = type(tree)
    if isinstance(tree, defaultdict):
        return kind(tree.default_factory, parts)
    if isinstance(tree, dict):
        return kind(parts)
    if isinstance(tree, list):
        return [part for _, part in parts]
    if isinstance(tree, tuple):
        values = [part for _, part in parts]
        return kind(*values) if hasattr(kind, "_fields") else tuple(values)
    if hasattr(kind, "__tree_flatten__"):
        return tree.__tree_unflatten__(like(tree.__tree_flatten__(), parts))
    return changed(tree, parts)


def changed(tree: Any, parts: list[tuple[str, Any]]) -> Any:
    """A dataclass with other values in some fields; it is not made anew, so `__init__` need not take them."""
    out = copy(tree)
    for name, part in parts:
        # Frozen ones allow no other way.
        object.__setattr__(out, name, part)
    return out


def kept(tree: Any, values: Mapping[Path, Any], path: Path = ()) -> Any:
    """Only these leaves, in a pytree of the same kind; tuples become lists. None where there are none."""
    parts = children(tree)
    if parts is None:
        return values.get(path)
    inner = [(key, kept(part, values, (*path, key))) for key, part in parts]
    inner = [(key, part) for key, part in inner if part is not None]
    if not inner:
        return None
    if isinstance(tree, dict):
        return like(tree, inner)
    if isinstance(tree, (list, tuple)):
        return [part for _, part in inner]
    if hasattr(type(tree), "__tree_flatten__"):
        return like(tree.__tree_flatten__(), inner)
    return changed(tree, inner)


def is_list_of_numbers(x: Any) -> bool:
    """Whether this stands for an array: lists of numbers all the way down."""
    if type(x) not in (list, tuple) or not x:
        return False
    return all(is_list_of_numbers(part) or isinstance(part, (int, float, complex)) for part in x)


def within(op: str, tree: Any, paths: Any) -> list[Path]:
    """Paths given as lists of keys, or as one key each, checked against a pytree."""
    if isinstance(paths, str) or not isinstance(paths, Iterable):
        raise ArgumentError(f'{op}: indices are a list of paths such as [[0], [1, "w"]], not {paths!r}')
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
