"""The functions of `clematis.random`."""

from . import _clematis as _core

_part = _core._random
_restored = _part._restored
globals().update({name: getattr(_part, name) for name in dir(_part) if not name.startswith("_")})
for _name in dir(_part):
    # Where users find it, so that it can be pickled.
    if getattr(getattr(_part, _name), "__module__", None) == _part.__name__:
        getattr(_part, _name).__module__ = __name__
__all__ = [name for name in dir(_part) if not name.startswith("_")]
