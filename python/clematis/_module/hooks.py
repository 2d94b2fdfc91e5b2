"""Functions that are called before and after each call of a module."""

from collections.abc import Callable
from typing import Any

from ..errors import ArgumentError
from .info import info_of


class Hook:
    """Stays until `remove()`, or until the end of a `with` block."""

    __slots__ = ("after", "before", "module")

    def __init__(self, module: Any, before: Callable[..., Any] | None, after: Callable[..., Any] | None) -> None:
        for name, function in (("before", before), ("after", after)):
            if function is not None and not callable(function):
                raise ArgumentError(f"hook: {name} is a function, not {type(function).__name__}")
        if before is None and after is None:
            raise ArgumentError("hook: one of before and after is needed")
        self.module, self.before, self.after = module, before, after
        info = info_of(module)
        info.hooks = (*info.hooks, self)

    def remove(self) -> None:
        """Takes it away; a second time does nothing."""
        info = info_of(self.module)
        info.hooks = tuple(hook for hook in info.hooks if hook is not self)

    def __enter__(self) -> "Hook":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def before(module: Any, hooks: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """The arguments that the hooks have made of those given."""
    for hook in hooks:
        if hook.before is not None:
            new = hook.before(module, args, kwargs)
            if new is not None:
                if not (isinstance(new, tuple) and len(new) == 2 and isinstance(new[0], tuple)):
                    raise ArgumentError("hook: before returns None, or the new arguments as (args, kwargs)")
                args, kwargs = new[0], dict(new[1])
    return args, kwargs


def after(module: Any, hooks: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any], ret: Any) -> Any:
    """The result that the hooks have made of the module's."""
    for hook in hooks:
        if hook.after is not None:
            new = hook.after(module, args, kwargs, ret)
            ret = ret if new is None else new
    return ret
