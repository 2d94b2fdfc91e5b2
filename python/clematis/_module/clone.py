"""Copies of a module with other variables, which transforms call in its place."""

from copy import copy
from typing import Any

from ..container import Container
from .build import ensure, release, take
from .discover import OBJECTS, State, fingerprint, is_parameter, is_plain, parts
from .info import NAME, Base, Child, Info, add_parent, info_of
from .roles import put_buffers


def clone(module: Any, values: Container) -> Any:
    """New modules with other variables; all else is shared, buffers as well, so that what a call changes is seen.

    Buffers that are among the values are new too.
    """
    info = ensure(module)
    if values.paths() == info.leaves and _is_regular(info):
        known: dict[int, Any] = {}
        new = _copied(module, known, (Base,), is_regular=True)
        _adopt_structure(module, new, _containers(values), known)
        return new
    paths = [] if values.paths() == info.leaves else [path for path in module.buffers().paths() if path in values]
    new = _copied(module, {}, (Base, State) if paths else (Base,))
    ensure(new)
    take(new, values.prune_key_chains(paths) if paths else values, partial=True, checked=False)
    if paths:
        put_buffers(new, values)
    return new


def _is_regular(info: Info) -> bool:
    """Whether each variable of a module and those below it is one attribute, so that a copy has the same structure."""
    return (
        info.recipe is None
        and info.fresh
        and not (info.ties or info.pruned or info.filled)
        and all(isinstance(child.place, str) and _is_regular(info_of(child.module)) for child in info.children)
    )


def _containers(values: Container) -> Container:
    """The containers anew, with the same leaves."""
    out = Container()
    for key, x in dict.items(values):
        dict.__setitem__(out, key, _containers(x) if isinstance(x, Container) else x)
    return out


def _adopt_structure(module: Any, new: Any, values: Container, known: dict[int, Any]) -> None:
    """Fills the record of a copy from that of its original: what assembling the copy would find."""
    old, info = info_of(module), info_of(new)
    info.v = values
    # In a regular module these are tensors; `v` has their values.
    info.held, info.direct, info.leaves = dict(old.held), dict(old.direct), list(old.leaves)
    for child in old.children:
        copied = known[id(child.module)]
        info.children.append(Child(copied, child.chain, child.place))
        add_parent(copied, new)
        part = values[child.place] if child.place in values else Container()
        _adopt_structure(child.module, copied, part, known)
    info.buffers = [(path, known.get(id(holder), holder), key) for path, holder, key in old.buffers]
    for tree, was in old.watch:
        copied = known.get(id(tree), tree)
        info.watch.append((copied, was if isinstance(was, int) else fingerprint(copied)))
    info.fresh = True


def _copied(x: Any, known: dict[int, Any], kinds: tuple[type, ...], is_regular: bool = False) -> Any:
    """Modules, and what leads to them, anew."""
    if is_plain(x):
        return x
    if id(x) in known:
        return known[id(x)]
    if isinstance(x, State) and State in kinds:
        known[id(x)] = State(x.value)
        return known[id(x)]
    if isinstance(x, kinds[0]):
        new = known[id(x)] = object.__new__(type(x))
        old = info_of(x)
        if not is_regular:
            release(x, old)
        info = new.__dict__[NAME] = Info(None if old.recipe is None else old.recipe.copied())
        vars(info).update(old.settings(), is_copy=True)
        for name, value in (x.__dict__ if is_regular else {**x.__dict__, **old.held}).items():
            if name != NAME:
                new.__dict__[name] = _copied(value, known, kinds, is_regular)
        return new
    if not _leads(x, kinds, set()):
        known[id(x)] = x
        return x
    inside = parts(x) or []
    if isinstance(x, tuple):
        items = [_copied(value, known, kinds, is_regular) for _, _, value in inside]
        out: Any = type(x)(*items) if hasattr(x, "_fields") else tuple(items)
        known[id(x)] = out
        return out
    # It is known before its parts are, for they may lead back to it.
    out = known[id(x)] = copy(x)
    for _, key, value in inside:
        new = _copied(value, known, kinds, is_regular)
        if new is value:
            continue
        if isinstance(x, (list, dict)):
            out[key] = new
        else:
            object.__setattr__(out, key, new)
    return out


def _leads(x: Any, kinds: tuple[type, ...], seen: set[int]) -> bool:
    """Whether there is a module behind an object, or a parameter in a list, which each module fills for itself."""
    if isinstance(x, kinds):
        return True
    if is_plain(x) or id(x) in seen or len(seen) > OBJECTS:
        return False
    seen.add(id(x))
    return any(is_parameter(value) or _leads(value, kinds, seen) for _, _, value in parts(x) or ())
