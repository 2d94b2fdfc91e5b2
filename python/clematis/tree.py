"""The functions of `clematis.tree`."""

from . import _clematis as _core

_part = _core._tree
globals().update({name: getattr(_part, name) for name in dir(_part) if not name.startswith("_")})
__all__ = [name for name in dir(_part) if not name.startswith("_")]
