"""How new parameters are filled. `fan_in` and `fan_out` are the numbers of inputs and outputs of a layer."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError

_FANS = ("fan_in", "fan_out", "fan_sum", "fan_avg")


def _fan(op: str, mode: str, fan_in: int | None, fan_out: int | None) -> float:
    needed = [fan_in] if mode == "fan_in" else [fan_out] if mode == "fan_out" else [fan_in, fan_out]
    known = [fan for fan in needed if fan is not None]
    if len(known) < len(needed):
        raise ArgumentError(f"{op}: {mode} needs fan_in={fan_in} and fan_out={fan_out} to be known")
    if any(fan <= 0 for fan in known):
        raise ArgumentError(f"{op}: fan_in={fan_in} and fan_out={fan_out} have to be positive")
    return sum(known) / (2 if mode == "fan_avg" else 1)


def _checked(op: str, mode: str) -> str:
    if mode not in _FANS:
        raise ArgumentError(f"{op}: fan_mode is one of {', '.join(_FANS)}, not {mode!r}")
    return mode


class Constant:
    """The same number everywhere."""

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor."""
        return _core.full(tuple(var_shape), float(self.constant), dtype=dtype or _core.float32, device=device)


class Zeros(Constant):
    """Zeros."""

    def __init__(self) -> None:
        super().__init__(0.0)


class Ones(Constant):
    """Ones."""

    def __init__(self) -> None:
        super().__init__(1.0)


class Uniform:
    """Uniform between plus and minus `gain * (numerator / fan) ** power`."""

    def __init__(self, numerator: float, fan_mode: str, power: float, gain: float) -> None:
        self.numerator, self.power, self.gain = numerator, power, gain
        self.fan_mode = _checked(type(self).__name__, fan_mode)

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor, drawn with a key or from the implicit stream."""
        fan = _fan(type(self).__name__, self.fan_mode, fan_in, fan_out)
        bound = self.gain * (self.numerator / fan) ** self.power
        return _core.random_uniform(
            low=-bound, high=bound, shape=tuple(var_shape), device=device, dtype=dtype or _core.float32, key=key
        )


class GlorotUniform(Uniform):
    """Uniform within `sqrt(6 / (fan_in + fan_out))`."""

    def __init__(self) -> None:
        super().__init__(6, "fan_sum", 0.5, 1)


class FirstLayerSiren(Uniform):
    """For the first layer of a network of sines."""

    def __init__(self) -> None:
        super().__init__(1, "fan_in", 1, 1)


class Siren(Uniform):
    """For the other layers of a network of sines."""

    def __init__(self, w0: float = 30) -> None:
        super().__init__(6, "fan_in", 0.5, 1 / w0)


class KaimingNormal:
    """Normal with variance `2 / ((1 + negative_slope ** 2) * fan)`."""

    def __init__(self, mean: float = 0, fan_mode: str = "fan_in") -> None:
        self.mean, self.fan_mode = mean, _checked("KaimingNormal", fan_mode)

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, negative_slope: float = 0.0, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor, drawn with a key or from the implicit stream."""
        fan = _fan("KaimingNormal", self.fan_mode, fan_in, fan_out)
        std = (2 / ((1 + negative_slope**2) * fan)) ** 0.5
        return _core.random_normal(
            mean=self.mean, std=std, shape=tuple(var_shape), device=device, dtype=dtype or _core.float32, key=key
        )
