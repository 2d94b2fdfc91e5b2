"""The functions of `clematis.random`."""

from . import _clematis as _core

_part = _core._random
_restored = _part._restored
globals().update({name: getattr(_part, name) for name in dir(_part) if not name.startswith("_")})
__all__ = [name for name in dir(_part) if not name.startswith("_")]
