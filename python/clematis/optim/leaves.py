"""Parameters of any pytree by path. The parameters of a Module are those that are not frozen."""

from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from .._module.build import take
from ..errors import StructureError
from ..module import Module

_tree = _core._tree

# Pairs of path and array, in order.
entries = _tree._arrays


def joined(path: str, key: Any) -> str:
    """A path with one more key."""
    return f"{path}/{key}" if path else str(key)


def by_path(op: str, tree: Any) -> dict[str, Any]:
    """The arrays of a pytree by path.

    Raises
    ------
    StructureError
        If two arrays have the same path.
    """
    found = entries(tree)
    out = dict(found)
    if len(out) < len(found):
        paths = [path for path, _ in found]
        twice = next(path for path in paths if paths.count(path) > 1)
        raise StructureError(f"{op}: two arrays have the path `{twice}`")
    return out


def frozen(tree: Any) -> set[str]:
    """The paths of frozen variables of modules and of plain numbers, whose gradients are ignored."""
    found = set()
    for path, x in _tree._entries(tree, _visit_frozen):
        if isinstance(x, Module):
            trained = set(x.parameters().paths())
            found |= {joined(path, at) for at in x.v.paths() if at not in trained}
        else:
            found.add(path)
    return found


def _visit_frozen(x: Any) -> bool | None:
    return True if isinstance(x, (Module, int, float, complex)) else None


def _visit_arrays(x: Any) -> bool | None:
    return True if _tree.is_array(x) else None


def placed(tree: Any, values: Mapping[str, Any], *, inplace: bool) -> Any:
    """A pytree with other arrays at these paths: the same object if `inplace` and it is mutable, else a copy."""
    if inplace:
        return _placed_in(tree, values, "")
    paths, found, treedef = _tree._flatten(tree, _visit_arrays)
    paths = ["/".join(map(str, path)) for path in paths]
    return treedef.unflatten([values.get(path, x) for path, x in zip(paths, found, strict=True)])


def _placed_in(tree: Any, values: Mapping[str, Any], path: str) -> Any:
    if isinstance(tree, Module):
        own = {at: values[joined(path, at)] for at in tree.parameters().paths() if joined(path, at) in values}
        if own:
            take(tree, tree.v.set_at_key_chains(own), partial=False, checked=False)
        return tree
    parts = None if _tree.is_array(tree) else _pytree.children(tree)
    if parts is None:
        return values.get(path, tree)
    new = [(key, part, _placed_in(part, values, joined(path, key))) for key, part in parts]
    changed = [(key, other) for key, part, other in new if part is not other]
    if changed and not isinstance(tree, (dict, list)):
        return _tree._rebuild(tree, [other for _, _, other in new])
    for key, other in changed:
        if isinstance(tree, dict):
            # A Container would take the key for a path.
            dict.__setitem__(tree, key, other)
        else:
            tree[key] = other
    return tree
