"""Assembles the container of a module's variables from its attributes and from the containers of its children.

The containers of children are in the parent's as they are, so there is one store. A tensor with several paths is kept at
the first; the others are tied to it.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

from .. import _clematis as _core
from .._leafwise import same_objects
from ..container import Container
from ..errors import BackendError, StructureError
from .discover import Found, bare, has_changed, refilled
from .info import NAME, RUNNING, Base, Child, Info, Tie, add_parent, ancestors, invalidate, info_of, label

_LOCK = threading.RLock()


def ensure(module: Any) -> Info:
    """Assembles the variables of a module unless they are up to date."""
    info = info_of(module)
    # Lists are compared before a call, not again by each module inside it.
    if not info.fresh or info.watch and RUNNING.get() is None and _has_changed(info):
        if not info.building:
            with _LOCK:
                _assemble(module, info)
    elif info.containers and RUNNING.get() is None:
        for owner in info.containers:
            agree(owner)
    return info


def _has_changed(info: Info) -> bool:
    return any(has_changed(tree, was) for tree, was in info.watch)


def sync_tied_weights(module: Any) -> None:
    """Makes tied variables equal, in this module and those above it."""
    if not info_of(module).tied:
        return
    ties = [tie for top in (module, *ancestors(module)) for tie in info_of(top).ties]
    # A tie may pull at the next: at most as often as there are ties.
    for _ in ties:
        if not sum(tie.sync() for tie in ties):
            return


def _assemble(module: Any, info: Info) -> None:
    recipe = info.recipe
    info.building = True
    try:
        if info.fresh:
            invalidate(module)
        release(module, info)
        if recipe is not None:
            recipe.create(module)
        found = Found(module)
        _adopt(module, info, [x for _, x in found.entries if isinstance(x, Base)])
        watch = list(found.watch)
        parts: list[tuple[str, Any, Any]] = []
        for path, x in found.entries:
            if isinstance(x, Base):
                below = ensure(x)
                watch += below.watch
                parts.append((path, below.v, x))
            else:
                parts.append((path, x, None))
        _fill(module, info, parts)
        for name in [name for name in info.held if name not in found.attributes]:
            module.__dict__[name] = info.held.pop(name)
        for name in found.attributes:
            if name not in info.held:
                info.held[name] = module.__dict__.pop(name)
                _keep_name(type(module), name)
        info.direct = {name: bare(name) for name, x in info.held.items() if isinstance(x, _core.Tensor)}
        info.watch = watch
        info.filled = {path: x for path, x in found.entries if "/" in path and not isinstance(x, Base)}
        info.containers = [owner for child in info.children for owner in info_of(child.module).containers]
        if info.filled:
            info.containers.append(info)
        info.buffers = found.buffers
        info.assembled += 1
        info.fresh = True
    finally:
        info.building = False
    if recipe is not None and recipe.take_given(module):
        # The given variables may share arrays.
        info.fresh = False
        _assemble(module, info)


def finder(info: Info, v: Container) -> Callable[[str, Any], Any]:
    """Finds variables by their own paths, though they may be kept at others."""
    return lambda path, default: v.get(info.pruned.get(path, path), default)


def agree(info: Info) -> None:
    """Makes variables and the lists and dicts that hold them equal: an item that was replaced is the variable's new value."""

    def find(path: str, x: Any) -> Any:
        at = info.pruned.get(path, path)
        new, last = info.v.get(at, x), info.filled.get(path)
        if x is not new and last is not None and x is not last and at in info.v:
            info.v[at] = new = x
        if path in info.filled or new is not x:
            info.filled[path] = new
        return new

    for name, x in list(info.held.items()):
        info.held[name] = refilled(x, bare(name), find, True)


def release(module: Any, info: Info) -> None:
    """Puts the newest values back to where they were found."""
    sync_tied_weights(module)
    agree(info)
    if info.recipe is not None:
        info.recipe.release(info)


def _adopt(module: Any, info: Info, children: list[Any]) -> None:
    """Records this module as the parent of its children, and no longer of others."""
    now = {id(child) for child in children}
    for old in info.children:
        if id(old.module) not in now:
            links = info_of(old.module).parents
            links[:] = [link for link in links if link() is not None and link() is not module]
    for child in children:
        add_parent(child, module)


class _Merge:
    """Merges containers so that each tensor has one path."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[str, Container, str]] = {}
        self.pruned: dict[str, str] = {}
        self.ties: dict[int, Tie] = {}

    def once(self, source: Container, path: str, out: Container | None = None) -> Container:
        """A container without what stands elsewhere: itself, if that is nothing."""
        new = Container() if out is None else out
        changed = out is not None
        mine: list[tuple[str, Any]] = []
        for key, x in dict.items(source):
            at = f"{path}/{key}" if path else str(key)
            if isinstance(x, Container):
                part = self.once(x, at)
                changed = changed or part is not x
                if len(part) or not len(x):
                    dict.__setitem__(new, key, part)
                continue
            before = self.kept.get(id(x))
            if before is None or not _core._tree.is_array(x):
                self.kept[id(x)] = (at, new, key)
                dict.__setitem__(new, key, x)
                mine.append((key, x))
                continue
            changed = True
            self.pruned[at] = before[0]
            self.tie(x, before[1], before[2])
            self.tie(x, source, key)
        if not changed:
            for key, x in mine:
                at, _, name = self.kept[id(x)]
                self.kept[id(x)] = (at, source, name)
            return source
        if out is None:
            for key, x in mine:
                self.tie(x, new, key)
                self.tie(x, source, key)
        return new

    def tie(self, x: Any, holder: Container, key: str) -> None:
        tie = self.ties.setdefault(id(x), Tie(x, []))
        if not any(holder is other and key == name for other, name in tie.places):
            tie.places.append((holder, key))


def _fill(module: Any, info: Info, parts: list[tuple[str, Any, Any]]) -> None:
    whole = Container()
    children = [part for _, part, child in parts if child is not None and len(part)]
    of_children = {id(part) for part in children}
    for key, x in dict.items({} if info.recipe is None or info.recipe.created is None else info.recipe.created):
        dict.__setitem__(whole, key, _as_of_children(x, children))
    for path, x, _ in parts:
        if isinstance(x, Container) and not len(x):
            continue
        if path in whole and not same_objects(whole[path], x):
            raise StructureError(f"{label(module)}: `{path}` is both created and found among the attributes")
        above = path.split("/")[:-1]
        if any(id(whole.get("/".join(above[: i + 1]))) in of_children for i in range(len(above))):
            raise StructureError(f"{label(module)}: `{path}` lies among the variables of another module")
        whole[path] = x
    merge = _Merge()
    dict.clear(info.v)
    merge.once(whole, "", info.v)
    info.pruned, info.ties = merge.pruned, list(merge.ties.values())
    info.leaves = info.v.paths()
    info.children = []
    for path, x, child in parts:
        if child is None:
            continue
        at = next((p for p in _candidates(path, whole) if info.v.get(p) is x), None) if len(x) else None
        place: str | dict[str, str] = at or {p: merge.kept[id(leaf)][0] for p, leaf in x._entries()}
        info.children.append(Child(child, path, place))
        info.ties += info_of(child).ties
    if info.ties:
        _mark(module)
    if info.recipe is not None:
        info.recipe.empty(info)


def _mark(module: Any) -> None:
    """Has a module and those below it synchronize tied variables before each use."""
    info = info_of(module)
    info.tied = True
    for child in info.children:
        _mark(child.module)


def _candidates(path: str, whole: Container) -> Iterator[str]:
    yield path
    yield from _inner(whole, "")


def _inner(c: Container, path: str) -> Iterator[str]:
    for key, x in dict.items(c):
        if isinstance(x, Container):
            at = f"{path}/{key}" if path else str(key)
            yield at
            yield from _inner(x, at)


def _as_of_children(x: Any, children: list[Container]) -> Any:
    """Created variables, with the containers of children themselves in place of equal ones."""
    if not isinstance(x, Container):
        return x
    for part in children:
        if same_objects(x, part):
            return part
    out = Container()
    for key, inner in dict.items(x):
        dict.__setitem__(out, key, _as_of_children(inner, children))
    return out


class _Held:
    """An attribute that holds a variable and has a default in the class."""

    def __init__(self, name: str, default: Any) -> None:
        self.name, self.default = name, default

    def __get__(self, module: Any, kind: type | None = None) -> Any:
        if module is None:
            return self.default
        if self.name in module.__dict__:
            return module.__dict__[self.name]
        return module._held(self.name) if self.name in info_of(module).held else self.default

    def __set__(self, module: Any, value: Any) -> None:
        module.__dict__[self.name] = value

    def __delete__(self, module: Any) -> None:
        del module.__dict__[self.name]


def _keep_name(kind: type, name: str) -> None:
    """A default of the class would be found before what the module holds."""
    default = getattr(kind, name, None)
    if hasattr(kind, name) and not hasattr(default, "__set__"):
        holder = next(c for c in kind.__mro__ if name in vars(c))
        if not isinstance(vars(holder)[name], _Held):
            setattr(holder, name, _Held(name, default))


def is_built(module: Any) -> bool:
    """Whether all variables are there, those of the children included."""
    info = info_of(module)
    if info.recipe is not None and info.recipe.created is None:
        return False
    return all(is_built(child.module) for child in info.children)


# Variables from outside.


def as_container(module: Any, v: Any) -> Container:
    """Variables as a container, whatever they came as."""
    if NAME in getattr(v, "__dict__", ()):
        v = v.v
    if not isinstance(v, dict):
        raise StructureError(f"{label(module)}: v is a container or dict of variables, not {type(v).__name__}")
    return v if isinstance(v, Container) else Container(v)


def fitted(module: Any, v: Any, partial: bool) -> Container:
    """Variables with the structure of the module's own: missing ones are its own if `partial`, else a mistake."""
    info = info_of(module)
    given = as_container(module, v)
    paths = given.paths()
    if paths == info.leaves:
        return given
    known = set(info.leaves)
    extra = [path for path in paths if path not in known and not _is_pruned(info, given, path)]
    if extra:
        raise StructureError(f"{label(module)}: v has `{extra[0]}`, which the module has not; it has {info.leaves}")
    missing = sorted(known - set(paths))
    if missing and not partial:
        raise StructureError(f"{label(module)}: v has no `{missing[0]}`; with_partial_v=True takes a part")
    out = Container()
    for path in info.leaves:
        x = given[path] if path in given else stored(module)[path]
        out[path] = x
    return out


def _is_pruned(info: Info, given: Container, path: str) -> bool:
    kept = info.pruned.get(path)
    return kept is not None and (kept not in given or given[kept] is given[path])


def stored(module: Any) -> Container:
    """The module's variables, also with `store_vars=False`, which leaves `v` empty."""
    info = info_of(module)
    emptied: Container | None = None if info.recipe is None else info.recipe.emptied
    return info.v if emptied is None else emptied


def check(module: Any, path: str, old: Any, new: Any, home: bool) -> None:
    """A new value fits into the place of an old one."""
    is_array = _core._tree.is_array
    if is_array(old) is not is_array(new):
        raise StructureError(f"{label(module)}: `{path}` is {type(old).__name__}, not {type(new).__name__}")
    if not is_array(old):
        return
    a, b = _core.asarray(old), _core.asarray(new)
    if a.shape != b.shape:
        raise StructureError(f"{label(module)}: `{path}` has the shape {a.shape}, not {b.shape}")
    if home and a.backend != b.backend:
        raise BackendError(
            f"{label(module)}: `{path}` lives on {a.backend}, not on {b.backend}"
            f'\n  note: module.to("{b.backend}") moves a module'
        )


def take(module: Any, v: Any, partial: bool, home: bool = False, checked: bool = True) -> None:
    """Puts other variables in the place of a module's own; all or none."""
    given = fitted(module, v, partial)
    own = stored(module)
    changes = [(path, given[path]) for path in info_of(module).leaves]
    if checked:
        for path, x in changes:
            check(module, path, own[path], x, home)
    for path, x in changes:
        above, _, key = path.rpartition("/")
        dict.__setitem__(own[above] if above else own, key, x)
    sync_tied_weights(module)
