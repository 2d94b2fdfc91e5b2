"""Variables of modules that stand in lists and dicts: what a program writes is written there, too."""

from typing import Any

from .. import _clematis as _core
from .._module.discover import bare, is_nest, parts
from .._module.info import Info


class Listed:
    """A place in a list or dict, and the variable that belongs there."""

    __slots__ = ("holder", "info", "key", "nest", "path", "word")

    def __init__(self, info: Info, nest: Any, key: Any, path: str) -> None:
        self.info, self.nest, self.key, self.path = info, nest, key, path
        above, _, self.word = info.pruned.get(path, path).rpartition("/")
        self.holder: Any = info.v[above]

    def agrees(self) -> bool:
        """Whether both hold the same."""
        try:
            return self.nest[self.key] is dict.__getitem__(self.holder, self.word)
        except (IndexError, KeyError):
            return False

    def count(self, x: Any) -> int:
        """How often this place and the note of what was put there hold a value."""
        try:
            return (self.nest[self.key] is x) + (self.info.filled.get(self.path) is x)
        except (IndexError, KeyError):
            return 0

    def fill(self) -> None:
        """Puts the variable's value there."""
        self.nest[self.key] = self.info.filled[self.path] = dict.__getitem__(self.holder, self.word)


def places_of(holder: Any, word: Any, places: list[Listed]) -> list[Listed] | None:
    """The places of a variable; None where it cannot be told how many owners it has."""
    own = [place for place in places if place.holder is holder and place.word == word]
    # One list that stands in two places of modules holds it once.
    return own if len({(id(place.nest), place.key) for place in own}) == len(own) else None


def _found(info: Info, nest: Any, path: str, above: tuple[int, ...], out: list[Listed]) -> bool:
    """Adds the places in a list or dict; whether that is all that it holds."""
    if id(nest) in above:
        return False
    for name, key, x in parts(nest) or ():
        here = f"{path}/{name}"
        if isinstance(x, _core.Tensor):
            if here in info.filled:
                out.append(Listed(info, nest, key, here))
        elif type(x) in (list, dict):
            if not _found(info, x, here, (*above, id(nest)), out):
                return False
        elif is_nest(x):
            return False
    return True


def listed(infos: list[Info]) -> list[Listed] | None:
    """The places in all lists and dicts of modules; None where tuples and the like, which are made anew, hold variables."""
    out: list[Listed] = []
    for info in infos:
        for name, x in info.held.items():
            if isinstance(x, _core.Tensor) or type(x) in (list, dict) and _found(info, x, bare(name), (), out):
                continue
            return None
    return out
