"""A dict with paths: `d["a/b/c"]` goes from dict to dict."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, overload

from . import _leafwise
from .errors import StructureError

_T = TypeVar("_T")


class Paths(dict[Any, Any]):
    """A dict whose keys may be paths; dicts inside become of its kind."""

    __slots__ = ()

    def __init__(self, entries: Mapping[Any, Any] | Iterable[tuple[Any, Any]] | None = None, /, **more: Any) -> None:
        super().__init__()
        self.update({} if entries is None else entries, **more)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            found: Any = self
            for word in key.split("/") if key else ():
                if not isinstance(found, dict) or not dict.__contains__(found, word):
                    raise KeyError(key)
                found = dict.__getitem__(found, word)
            return found
        try:
            return dict.__getitem__(self, key)
        except (KeyError, TypeError):
            if not _leafwise.is_index(key):
                raise
        return self._at_index(key)

    def __setitem__(self, key: Any, value: Any) -> None:
        inner, word = self._place(key) if isinstance(key, str) else (self, key)
        if isinstance(value, dict) and not isinstance(value, Paths):
            value = type(self)(value)
        dict.__setitem__(inner, word, value)

    def _place(self, key: str) -> tuple["Paths", str]:
        """The container that holds the last word of a path, made on the way."""
        *above, word = key.split("/")
        inner: Paths = self
        for name in above:
            if not dict.__contains__(inner, name):
                dict.__setitem__(inner, name, type(self)())
            inner = dict.__getitem__(inner, name)
            if not isinstance(inner, Paths):
                raise StructureError(f"Container: `{name}` of `{key}` is no container but {type(inner).__name__}")
        return inner, word

    def __delitem__(self, key: Any) -> None:
        if not isinstance(key, str) or "/" not in key:
            return dict.__delitem__(self, key)
        above, _, word = key.rpartition("/")
        inner = self[above]
        if not isinstance(inner, dict):
            raise KeyError(key)
        dict.__delitem__(inner, word)

    def __contains__(self, key: object) -> bool:
        """Whether there is such a path; for a container, whether one inside has the same keys and the same arrays."""
        if isinstance(key, str):
            try:
                self[key]
            except KeyError:
                return False
            return True
        if isinstance(key, dict):
            inside = (part for part in dict.values(self) if isinstance(part, Paths))
            return _leafwise.same_objects(self, key) or any(key in part for part in inside)
        return dict.__contains__(self, key)

    def get(self, key: Any, default: Any = None, /) -> Any:
        """The entry at a key or path, or something else where there is none."""
        try:
            return self[key]
        except KeyError:
            return default

    @overload
    def pop(self, key: Any, /) -> Any: ...
    @overload
    def pop(self, key: Any, default: _T, /) -> Any | _T: ...
    def pop(self, key: Any, /, *default: Any) -> Any:
        """Takes the entry at a key or path out."""
        if key not in self and default:
            return default[0]
        value = self[key]
        del self[key]
        return value

    def setdefault(self, key: Any, default: Any = None, /) -> Any:
        """The entry at a key or path, put there if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, entries: Any = (), /, **more: Any) -> None:
        """Puts in the entries of another dict, or of pairs."""
        pairs = entries.items() if hasattr(entries, "items") else entries
        for key, value in [*pairs, *more.items()]:
            self[key] = value

    @classmethod
    def fromkeys(cls, keys: Iterable[Any], value: Any = None, /) -> "Paths":
        """The same value at several keys or paths."""
        return cls([(key, value) for key in keys])

    def _at_index(self, key: Any) -> Any:
        """What an index that is no key means."""
        raise KeyError(key)
