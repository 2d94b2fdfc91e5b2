"""Arguments and results of traced functions as pytrees of arrays and random keys."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from ..errors import TraceError

Path = tuple[Any, ...]

_tree = _core._tree
# NumPy scalars count as numbers.
is_array = _tree.is_array


def is_leaf(x: Any) -> bool:
    """Whether this is an array or a random key."""
    return isinstance(x, (_core.Tensor, _core._random.Key)) or is_array(x)


def _visit(x: Any) -> bool | None:
    if is_leaf(x):
        return True
    return False if _is_static(x) else None


def _is_static(x: Any) -> bool:
    return isinstance(x, type) or hasattr(type(x), "__jit_held__") or _pytree.children(x) is None


def leaves(tree: Any) -> Iterable[tuple[Path, Any]]:
    """Pairs of path and array, in the order of the extension's `_flat`."""
    paths, found, _ = _tree._flatten(tree, _visit)
    return zip(paths, found, strict=True)


def refilled(tree: Any, new: Iterator[Any]) -> Any:
    """A copy of a pytree with other arrays."""
    _, found, treedef = _tree._flatten(tree, _visit)
    return treedef.unflatten([next(new) for _ in found])


def builder(tree: Any) -> Callable[[list[Any]], Any]:
    """A function that builds a pytree like this from a list that begins with its arrays."""
    _, found, _ = _tree._flatten(tree, _visit)
    # The structure of the results must not keep the tracers alive.
    treedef, count = _tree._released(tree, _visit), len(found)
    keys = [i for i, x in enumerate(found) if isinstance(x, _core._random.Key)]
    if is_leaf(tree) and not keys:
        return lambda new: new[0]

    def build(new: list[Any]) -> Any:
        new = new[:count]
        for i in keys:
            new[i] = _core._key_of(new[i])  # type: ignore[attr-defined]
        return treedef.unflatten(new)

    return build


def spelled(path: Path, names: list[str]) -> str:
    """A place among the arguments for messages: `x`, `batch[0]`, `v["w"]`."""
    if len(path) < 2:
        return "an argument"
    which, first, *rest = path
    word = str(first) if which == 1 else names[first] if first < len(names) else f"argument {first}"
    return word + "".join(f"[{key!r}]" for key in rest)


def changes(old: Any, new: Any, path: Path = ()) -> Iterator[tuple[Path, Any, Any]]:
    """Where a pytree holds other arrays than before.

    Raises
    ------
    TraceError
        If a key was added or removed.
    """
    before, after = _parts(old), _parts(new)
    if before is None or after is None:
        if old is not new and (is_leaf(old) or is_leaf(new) or before is not after):
            yield path, old, new
        return
    if before.keys() != after.keys() or list(before) != list(after):
        extra, missing = [k for k in after if k not in before], [k for k in before if k not in after]
        what = f"`{(extra or missing or list(before))[0]}` was {'added' if extra else 'removed'}"
        raise TraceError(
            f"jit: {what}, in an argument of the traced function: a compiled program cannot repeat that at each call"
            "\n  note: return a new container instead"
        )
    for key, x in before.items():
        yield from changes(x, after[key], (*path, key))


def _parts(tree: Any) -> dict[Any, Any] | None:
    return None if _visit(tree) is not None else dict(_pytree.children(tree) or ())


def put(tree: Any, path: Path, value: Any) -> None:
    """Writes an array into a dict, list or object of an argument."""
    for key in path[:-1]:
        tree = dict(_pytree.children(tree) or ())[key]
    if isinstance(tree, dict):
        dict.__setitem__(tree, path[-1], value)
    elif isinstance(tree, list):
        tree[path[-1]] = value
    else:
        object.__setattr__(tree, path[-1], value)
