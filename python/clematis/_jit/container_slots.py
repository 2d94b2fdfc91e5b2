"""Slots for module variables held in lists and dicts: a compiled program writes updated variables there, too."""

from typing import Any

from .. import _clematis as _core
from .._module.discover import bare, is_pytree, parts
from .._module.info import Info


class ContainerSlot:
    """An item of a list or dict, and the module variable that it holds."""

    __slots__ = ("container", "holder", "info", "key", "path", "word")

    def __init__(self, info: Info, container: Any, key: Any, path: str) -> None:
        self.info, self.container, self.key, self.path = info, container, key, path
        above, _, self.word = info.pruned.get(path, path).rpartition("/")
        self.holder: Any = info.v[above]

    def is_in_sync(self) -> bool:
        """Whether the item is the variable's current value."""
        try:
            return self.container[self.key] is dict.__getitem__(self.holder, self.word)
        except (IndexError, KeyError):
            return False

    def count_references(self, x: Any) -> int:
        """How many references to `x` this slot holds: the item, and the record of the last write."""
        try:
            return (self.container[self.key] is x) + (self.info.filled.get(self.path) is x)
        except (IndexError, KeyError):
            return 0

    def sync(self) -> None:
        """Writes the variable's current value to the item."""
        self.container[self.key] = self.info.filled[self.path] = dict.__getitem__(self.holder, self.word)


def slots_of(holder: Any, word: Any, slots: list[ContainerSlot]) -> list[ContainerSlot] | None:
    """The slots of one variable; None if one container appears twice, because then its references cannot be counted."""
    own = [slot for slot in slots if slot.holder is holder and slot.word == word]
    return own if len({(id(slot.container), slot.key) for slot in own}) == len(own) else None


def _collect(info: Info, container: Any, path: str, above: tuple[int, ...], out: list[ContainerSlot]) -> bool:
    """Appends the slots in a list or dict; returns whether these are all the variables that it holds."""
    if id(container) in above:
        return False
    for name, key, x in parts(container) or ():
        here = f"{path}/{name}"
        if isinstance(x, _core.Tensor):
            if here in info.filled:
                out.append(ContainerSlot(info, container, key, here))
        elif type(x) in (list, dict):
            if not _collect(info, x, here, (*above, id(container)), out):
                return False
        elif is_pytree(x):
            return False
    return True


def container_slots(infos: list[Info]) -> list[ContainerSlot] | None:
    """The slots in all lists and dicts of modules; None if immutable containers (tuples) hold variables."""
    out: list[ContainerSlot] = []
    for info in infos:
        for name, x in info.held.items():
            if isinstance(x, _core.Tensor) or type(x) in (list, dict) and _collect(info, x, bare(name), (), out):
                continue
            return None
    return out
