"""Arguments and results without their arrays, in the order in which the extension finds them."""

from collections.abc import Callable, Iterator
from typing import Any

from .. import _clematis as _core
from .. import _nest
from ..errors import TraceError

Path = tuple[Any, ...]


# One of NumPy's single numbers counts as a number.
is_array = _core._tree.is_array


def is_leaf(x: Any) -> bool:
    """An array or a key."""
    return isinstance(x, (_core.Tensor, _core._random.Key)) or is_array(x)


def parts(nest: Any) -> list[tuple[Any, Any]] | None:
    """Keys and parts of a nest; None of an array, and of what is kept as it is."""
    if is_leaf(nest) or isinstance(nest, type) or hasattr(type(nest), "__jit_held__"):
        return None
    return _nest.children(nest)


def leaves(nest: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every array with the path to it."""
    inside = parts(nest)
    if inside is None:
        if is_leaf(nest):
            yield path, nest
        return
    for key, part in inside:
        yield from leaves(part, (*path, key))


def refilled(nest: Any, new: Iterator[Any]) -> Any:
    """A nest of the same kind with other arrays; what holds none is the same object."""
    inside = parts(nest)
    if inside is None:
        return next(new) if is_leaf(nest) else nest
    return _nest.like(nest, [(key, refilled(part, new)) for key, part in inside])


def builder(nest: Any) -> Callable[[Iterator[Any]], Any]:
    """What makes such a nest of arrays, without looking at it again."""
    inside = parts(nest)
    if inside is None:
        if not is_leaf(nest):
            return lambda new: nest
        if isinstance(nest, _core._random.Key):
            return lambda new: _core._key_of(next(new))  # type: ignore[attr-defined]
        return next
    makers = [(key, builder(part)) for key, part in inside]
    if type(nest) is tuple:
        alone = [make for _, make in makers]
        return lambda new: tuple([make(new) for make in alone])
    # An example without arrays of the trace, which would live as long as the program.
    like = refilled(nest, iter(lambda: None, 0))
    return lambda new: _nest.like(like, [(key, make(new)) for key, make in makers])


def spelled(path: Path, names: list[str]) -> str:
    """How messages call a place among the arguments: `x`, `batch[0]`, `v["w"]`."""
    if len(path) < 2:
        return "an argument"
    which, first, *rest = path
    word = str(first) if which == 1 else names[first] if first < len(names) else f"argument {first}"
    return word + "".join(f"[{key!r}]" for key in rest)


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Where a nest holds other arrays than before; an error where it holds more or fewer."""
    before, after = parts(old), parts(new)
    if before is None or after is None:
        if old is not new and (is_leaf(old) or is_leaf(new) or before is not after):
            yield path, old, new
        return
    if [key for key, _ in before] != [key for key, _ in after]:
        missing = [key for key, _ in before if key not in dict(after)]
        extra = [key for key, _ in after if key not in dict(before)]
        told = f"`{(extra or missing or [key for key, _ in after])[0]}` was {'put in' if extra else 'taken out'}"
        raise TraceError(
            f"jit: {told}, in an argument of the traced function: that cannot be repeated at each call;"
            " return a new container instead"
        )
    for (key, x), (_, y) in zip(before, after, strict=True):
        yield from changes(x, y, (*path, key))


def put(nest: Any, path: Path, value: Any) -> None:
    """Puts an array into a dict, list or object of an argument."""
    for key in path[:-1]:
        nest = dict(_nest.children(nest) or ())[key]
    if isinstance(nest, dict):
        dict.__setitem__(nest, path[-1], value)
    elif isinstance(nest, list):
        nest[path[-1]] = value
    else:
        object.__setattr__(nest, path[-1], value)
