"""An optimiser around another."""

from collections.abc import Mapping
from typing import Any

from .._module.info import TRACING
from ..container import Container
from ..errors import StructureError, TraceError
from .optimizer import Optimizer


class Wrapper:
    """Looks like an optimiser, and has one inside that takes the steps."""

    __jit_held__ = True

    def __init__(self, optimizer: Any) -> None:
        if not isinstance(optimizer, (Optimizer, Wrapper)):
            raise StructureError(f"{type(self).__name__}: an optimiser was expected, not {type(optimizer).__name__}")
        self.optimizer: Any = optimizer

    def init(self, v: Any) -> Any:
        """Starts anew for these parameters."""
        self.optimizer.init(v)
        self._reset()
        return self

    def _check_untraced(self) -> None:
        if TRACING.get() is not None:
            raise TraceError(
                f"{type(self).__name__}.step: what it does depends on numbers of Python's, which a program would keep;"
                " jit the gradients alone and take the step outside"
            )

    def _reset(self) -> None:
        """Forgets what was remembered."""

    @property
    def lr(self) -> Any:
        """The learning rate of the optimiser inside."""
        return self.optimizer.lr

    @property
    def steps(self) -> int:
        """How many steps were taken."""
        return int(self.optimizer.steps)

    def _own(self) -> dict[str, Any]:
        """What is remembered beside the optimiser's state."""
        raise NotImplementedError

    def _take(self, state: Mapping[str, Any]) -> None:
        """Takes over what `_own` gave."""
        raise NotImplementedError

    @property
    def state(self) -> Container:
        """All that is remembered, the state of the optimiser inside included."""
        return Container({**self._own(), "optimizer": self.optimizer.state})

    def set_state(self, state: Any) -> None:
        """Goes on where another was; a StructureError tells what does not fit."""
        name = type(self).__name__
        if not isinstance(state, Mapping):
            raise StructureError(f"{name}.set_state: a dict was expected, not {type(state).__name__}")
        wanted = {*self._own(), "optimizer"}
        lines = [f"`{key}` is missing" for key in sorted(wanted - set(state))]
        lines += [f"`{key}` is not part of this state" for key in sorted(set(map(str, state)) - wanted)]
        if lines:
            raise StructureError(f"{name}.set_state: the state is of something else:\n  " + "\n  ".join(lines))
        before = self.optimizer.state
        self.optimizer.set_state(state["optimizer"])
        try:
            self._take(state)
        except BaseException:
            self.optimizer.set_state(before)
            raise
