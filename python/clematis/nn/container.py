"""Modules made of modules."""

from collections.abc import Iterator
from typing import Any

from ..errors import ArgumentError
from ..module import Module


class Sequential(Module):
    """One after the other; functions without parameters may stand among them."""

    def __init__(self, *sub_modules: Any, **options: Any) -> None:
        for x in sub_modules:
            if not callable(x):
                raise ArgumentError(f"Sequential: a module or function was expected, not {type(x).__name__}")
        self._submodules = list(sub_modules)
        super().__init__(**options)

    def _forward(self, x: Any) -> Any:
        for step in self._submodules:
            x = step(x)
        return x

    def __len__(self) -> int:
        return len(self._submodules)

    def __bool__(self) -> bool:
        return True

    def __iter__(self) -> Iterator[Any]:
        return iter(self._submodules)

    def __getitem__(self, at: int) -> Any:
        return self._submodules[at]
