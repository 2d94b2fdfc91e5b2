"""Arguments and results without their arrays, in the order in which the extension finds them."""

from collections.abc import Callable, Iterator
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from ..errors import TraceError

Path = tuple[Any, ...]


# One of NumPy's single numbers counts as a number.
is_array = _core._tree.is_array


def is_leaf(x: Any) -> bool:
    """An array or a key."""
    return isinstance(x, (_core.Tensor, _core._random.Key)) or is_array(x)


def parts(tree: Any) -> list[tuple[Any, Any]] | None:
    """Keys and parts of a pytree; None of an array, and of what is kept as it is."""
    if is_leaf(tree) or isinstance(tree, type) or hasattr(type(tree), "__jit_held__"):
        return None
    return _pytree.children(tree)


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every array with the path to it."""
    inside = parts(tree)
    if inside is None:
        if is_leaf(tree):
            yield path, tree
        return
    for key, part in inside:
        yield from leaves(part, (*path, key))


def refilled(tree: Any, new: Iterator[Any]) -> Any:
    """A pytree of the same kind with other arrays; what holds none is the same object."""
    inside = parts(tree)
    if inside is None:
        return next(new) if is_leaf(tree) else tree
    return _pytree.like(tree, [(key, refilled(part, new)) for key, part in inside])


def builder(tree: Any) -> Callable[[Iterator[Any]], Any]:
    """What makes such a pytree of arrays, without looking at it again."""
    inside = parts(tree)
    if inside is None:
        if not is_leaf(tree):
            return lambda new: tree
        if isinstance(tree, _core._random.Key):
            return lambda new: _core._key_of(next(new))  # type: ignore[attr-defined]
        return next
    makers = [(key, builder(part)) for key, part in inside]
    if type(tree) is tuple:
        alone = [make for _, make in makers]
        return lambda new: tuple([make(new) for make in alone])
    # An example without arrays of the trace, which would live as long as the program.
    like = refilled(tree, iter(lambda: None, 0))
    return lambda new: _pytree.like(like, [(key, make(new)) for key, make in makers])


def spelled(path: Path, names: list[str]) -> str:
    """How messages call a place among the arguments: `x`, `batch[0]`, `v["w"]`."""
    if len(path) < 2:
        return "an argument"
    which, first, *rest = path
    word = str(first) if which == 1 else names[first] if first < len(names) else f"argument {first}"
    return word + "".join(f"[{key!r}]" for key in rest)


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Where a pytree holds other arrays than before; an error where it holds more or fewer."""
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


def put(tree: Any, path: Path, value: Any) -> None:
    """Puts an array into a dict, list or object of an argument."""
    for key in path[:-1]:
        tree = dict(_pytree.children(tree) or ())[key]
    if isinstance(tree, dict):
        dict.__setitem__(tree, path[-1], value)
    elif isinstance(tree, list):
        tree[path[-1]] = value
    else:
        object.__setattr__(tree, path[-1], value)
