"""Where a module stands among others, as names and as text."""

from typing import Any

from ... import _clematis as _core
from ..._leafwise import same_objects
from ...container import Container
from ..info import ancestors, info_of, parent_of


def flat_repr(module: Any) -> str:
    """A name of its own for each module, fit for a key."""
    return Container.flatten_key_chain(object.__repr__(module), "_")


def root_of(module: Any) -> Any:
    """The outermost module."""
    above = ancestors(module)
    return above[-1] if above else module


def recorded(module: Any) -> dict[str, list[int]]:
    """The modules below that have keys, by the names of their classes."""
    found: dict[str, list[int]] = vars(info_of(module)).setdefault("submod_dict", {})
    return found


def mod_key(module: Any, top: Any = None) -> str:
    """Class and number of a module among those of its root."""
    name = type(module).__name__
    known = recorded(root_of(module) if top is None else top).setdefault(name, [])
    if id(module) not in known:
        known.append(id(module))
    return f"{' ' * len(ancestors(module))}{name}_{known.index(id(module))}"


def above(module: Any, depth: int | None) -> Any:
    """The ancestor so many levels up, or the outermost."""
    found = ancestors(module)
    if not found:
        return module
    return found[-1] if depth is None else found[min(max(depth, 1), len(found)) - 1]


def chain_in(v: Container, own: Container, path: str = "") -> str | None:
    """Where a container stands in another: itself, or one with the same arrays."""
    for key, x in dict.items(v):
        if isinstance(x, Container):
            at = f"{path}/{key}" if path else str(key)
            if x is own or same_objects(x, own):
                return at
            inner = chain_in(x, own, at)
            if inner is not None:
                return inner
    return None


def height(module: Any) -> int:
    """How many levels of modules are below."""
    return max((1 + height(child.module) for child in info_of(module).children), default=0)


def lines(module: Any, name: str = "", indent: int = 0, depth: int | None = None) -> list[str]:
    """A module and those below it, one on a line, with their own variables."""
    info = info_of(module)
    inner = {f"{child.place}/" for child in info.children if isinstance(child.place, str)}
    inner |= {place for child in info.children if isinstance(child.place, dict) for place in child.place.values()}
    own = [path for path in info.leaves if not any(path.startswith(i) if i.endswith("/") else path == i for i in inner)]
    shown = ", ".join(f"{path}{_shape(module, path)}" for path in own)
    head = f"{name}: " if name else ""
    out = [f"{' ' * indent}{head}{type(module).__name__}({shown})"]
    if depth is None or depth > 0:
        for child in info.children:
            out += lines(child.module, child.chain, indent + 4, None if depth is None else depth - 1)
    return out


def _shape(module: Any, path: str) -> str:
    x = info_of(module).v.get(path)
    if not _core._tree.is_array(x):
        return ""
    t = _core.asarray(x)
    return f" {t.dtype.name}{list(t.shape)}"


def is_child(module: Any) -> bool:
    """Whether a module belongs to another."""
    return parent_of(module) is not None
