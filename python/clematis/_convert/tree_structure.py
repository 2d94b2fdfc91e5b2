"""Pytree structures of arguments and results as plain data that files can hold."""

import importlib
from typing import Any

from .. import _clematis as _core
from ..container import Container
from ..errors import ConvertError

LEAF = "x"


def flatten(tree: Any, is_leaf: Any = None) -> tuple[list[Any], Any]:
    """The arrays of a pytree in order, and what is left without them."""
    leaves: list[Any] = []
    is_leaf = is_leaf or _core._tree.is_array

    def part(x: Any) -> Any:
        if is_leaf(x):
            leaves.append(x)
            return LEAF
        if isinstance(x, dict):
            kind = "dict" if type(x) is dict else "container" if type(x) is Container else _class(type(x))
            return [kind, [[key, part(value)] for key, value in dict.items(x)]]
        if isinstance(x, (list, tuple)):
            kind = "list" if type(x) is list else "tuple" if type(x) is tuple else _class(type(x))
            return [kind, [part(value) for value in x]]
        return ["value", x]

    return leaves, part(tree)


def unflatten(shape: Any, leaves: list[Any]) -> Any:
    """The opposite of `flatten`."""
    given = iter(leaves)

    def part(shape: Any) -> Any:
        if shape == LEAF:
            return next(given)
        kind, inside = shape
        if kind == "value":
            return inside
        if inside and isinstance(inside[0], (list, tuple)) and _has_keys(kind):
            parts = {key: part(value) for key, value in inside}
            return parts if kind == "dict" else Container(parts) if kind == "container" else _found(kind)(**parts)
        if _has_keys(kind):
            return {} if kind == "dict" else Container() if kind == "container" else _found(kind)()
        values = [part(value) for value in inside]
        if kind in ("list", "tuple"):
            return values if kind == "list" else tuple(values)
        found = _found(kind)
        return found(*values) if hasattr(found, "_fields") else found(values)

    return part(shape)


def order_of(flatten: Any, build: Any, tree: Any) -> list[int]:
    """The places of a framework's own list of leaves, in the order in which `flatten` finds them."""
    count, found = len(flatten(tree)), []

    def walk(x: Any, place: Any) -> None:
        if type(place) is int:
            found.append(place)
        elif isinstance(x, dict):
            for key, value in dict.items(x):
                walk(value, place[key])
        elif isinstance(x, (list, tuple)):
            for value, at in zip(x, place, strict=True):
                walk(value, at)

    walk(tree, build(tree, list(range(count))))
    # Kinds of pytrees that only the framework knows keep its order.
    return found if sorted(found) == list(range(count)) else list(range(count))


def _has_keys(kind: str) -> bool:
    return kind in ("dict", "container") or kind not in ("list", "tuple") and issubclass(_found(kind), dict)


def _class(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _found(name: str) -> Any:
    place, _, path = name.partition(":")
    try:
        found: Any = importlib.import_module(place)
        for word in path.split("."):
            found = getattr(found, word)
    except (ImportError, AttributeError) as e:
        raise ConvertError(f"the class {name} of a result cannot be found: {e}") from e
    return found
