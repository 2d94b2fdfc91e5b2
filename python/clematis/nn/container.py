"""Sequential, Identity and Flatten."""

from collections.abc import Iterator
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from ._base import Layer


class Sequential(Layer):
    """Modules and functions, each called with the result of the one before.

    Parameters
    ----------
    *sub_modules : callable

    Examples
    --------
    >>> net = cm.nn.Sequential(cm.nn.Linear(3, 4), cm.relu, cm.nn.Linear(4, 2))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """

    def __init__(self, *sub_modules: Any) -> None:
        for x in sub_modules:
            if not callable(x):
                raise ArgumentError(f"Sequential: a module or function was expected, not {type(x).__name__}")
        self._submodules = list(sub_modules)

    def __call__(self, x: Any) -> Any:
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


class Identity(Layer):
    """Its input.

    Examples
    --------
    >>> cm.nn.Identity()(cm.asarray([1.0]))
    Tensor([1.0], float32, native)
    """

    def __call__(self, x: Any) -> Any:
        return x


class Flatten(Layer):
    """The axes from `start_axis` to `end_axis` as one.

    Parameters
    ----------
    start_axis, end_axis : int

    Examples
    --------
    >>> cm.nn.Flatten()(cm.ones((2, 3, 4))).shape
    (2, 12)
    """

    def __init__(self, start_axis: int = 1, end_axis: int = -1) -> None:
        self.start_axis, self.end_axis = start_axis, end_axis

    def __call__(self, x: Any) -> Any:
        return _core.flatten(x, start_dim=self.start_axis, end_dim=self.end_axis)
