"""The parameters of any tree, by path, and the way to put others in their places.

A Module's parameters are those that are not frozen; they are put into the module itself.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from .. import _clematis as _core
from .. import _pytree
from .._module.build import take
from ..errors import ArgumentError, StructureError
from ..module import Module

is_array = _core._tree.is_array


def joined(path: str, key: Any) -> str:
    """A path one word longer."""
    return f"{path}/{key}" if path else str(key)


def entries(tree: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every array with the path to it, in order."""
    if depth > _pytree.DEPTH:
        raise ArgumentError(f"tree: nested deeper than {_pytree.DEPTH}")
    if isinstance(tree, Module):
        tree = tree.parameters()
    parts = _pytree.children(tree)
    if parts is not None:
        for key, part in parts:
            yield from entries(part, joined(path, key), depth + 1)
    elif is_array(tree):
        yield path, tree


def by_path(op: str, tree: Any) -> dict[str, Any]:
    """Every array by its path; two with one path are a mistake."""
    found = list(entries(tree))
    out = dict(found)
    if len(out) < len(found):
        paths = [path for path, _ in found]
        twice = next(path for path in paths if paths.count(path) > 1)
        raise StructureError(f"{op}: two arrays have the path `{twice}`")
    return out


def frozen(tree: Any, path: str = "") -> set[str]:
    """The paths of what is not trained, variables of modules and plain numbers: gradients of it are left aside."""
    if isinstance(tree, Module):
        trained = set(tree.parameters().paths())
        return {joined(path, at) for at in tree.v.paths() if at not in trained}
    parts = _pytree.children(tree)
    if parts is None:
        return {path} if isinstance(tree, (int, float, complex)) else set()
    return {at for key, part in parts for at in frozen(part, joined(path, key))}


def placed(tree: Any, values: Mapping[str, Any], path: str = "", *, inplace: bool) -> Any:
    """A tree with other arrays at these paths: the same one, where its parts can be changed, or another."""
    if isinstance(tree, Module):
        return _into_module(tree, values, path, inplace)
    parts = _pytree.children(tree)
    if parts is None:
        return values.get(path, tree)
    new = [(key, part, placed(part, values, joined(path, key), inplace=inplace)) for key, part in parts]
    if inplace and all(part is other for _, part, other in new):
        return tree
    if not inplace or isinstance(tree, tuple):
        return _pytree.like(tree, [(key, other) for key, _, other in new])
    if not isinstance(tree, (dict, list)):
        return _pytree.changed(tree, [(key, other) for key, _, other in new])
    for key, part, other in new:
        if part is other:
            continue
        if isinstance(tree, dict):
            # A container would take a key for a path.
            dict.__setitem__(tree, key, other)
        else:
            tree[key] = other
    return tree


def _into_module(module: Module, values: Mapping[str, Any], path: str, inplace: bool) -> Any:
    v = module.parameters()
    own = {at: values[joined(path, at)] for at in v.paths() if joined(path, at) in values}
    new = v.set_at_key_chains(own)
    if not inplace:
        return module.__tree_unflatten__(new)
    if own:
        take(module, module.v.set_at_key_chains(own), partial=False, checked=False)
    return module
