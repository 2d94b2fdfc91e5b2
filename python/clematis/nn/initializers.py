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
    """The same number everywhere.

    >>> cm.nn.Constant(0.5).create_variables((2,))
    Tensor([0.5, 0.5], float32, native)
    """

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor."""
        return _core.full(tuple(var_shape), float(self.constant), dtype=dtype or _core.float32, device=device)


class Zeros(Constant):
    """Zeros.

    >>> cm.nn.Zeros().create_variables((2,))
    Tensor([0.0, 0.0], float32, native)
    """

    def __init__(self) -> None:
        super().__init__(0.0)


class Ones(Constant):
    """Ones.

    >>> cm.nn.Ones().create_variables((2,))
    Tensor([1.0, 1.0], float32, native)
    """

    def __init__(self) -> None:
        super().__init__(1.0)


class Uniform:
    """Uniform between plus and minus `gain * (numerator / fan) ** power`.

    >>> cm.nn.Uniform(1, "fan_in", 0.5, 1).create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

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
    """Uniform within `sqrt(6 / (fan_in + fan_out))`.

    >>> cm.nn.GlorotUniform().create_variables((2, 6), fan_in=6, fan_out=2, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(6, "fan_sum", 0.5, 1)


class FirstLayerSiren(Uniform):
    """For the first layer of a network of sines.

    >>> cm.nn.FirstLayerSiren().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(1, "fan_in", 1, 1)


class Siren(Uniform):
    """For the other layers of a network of sines.

    >>> cm.nn.Siren().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, w0: float = 30) -> None:
        super().__init__(6, "fan_in", 0.5, 1 / w0)


class KaimingUniform(Uniform):
    """Uniform within `sqrt(6 / ((1 + negative_slope ** 2) * fan))`.

    >>> cm.nn.KaimingUniform().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, fan_mode: str = "fan_in", negative_slope: float = 0.0) -> None:
        super().__init__(6 / (1 + negative_slope**2), fan_mode, 0.5, 1)


class LecunUniform(Uniform):
    """Uniform within `sqrt(3 / fan_in)`.

    >>> cm.nn.LecunUniform().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(3, "fan_in", 0.5, 1)


class Normal:
    """Normal with a mean and a standard deviation.

    >>> cm.nn.Normal(std=0.02).create_variables((2, 6), key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        if not std >= 0:
            raise ArgumentError(f"{type(self).__name__}: std is not negative, not {std}")
        self.mean, self.std = mean, std

    def _std(self, fan_in: int | None, fan_out: int | None) -> float:
        return self.std

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor, drawn with a key or from the implicit stream."""
        std, dtype = self._std(fan_in, fan_out), dtype or _core.float32
        return _core.random_normal(mean=self.mean, std=std, shape=tuple(var_shape), device=device, dtype=dtype, key=key)


class TruncatedNormal(Normal):
    """Normal, drawn anew beyond two standard deviations.

    >>> cm.nn.TruncatedNormal(std=0.02).create_variables((2, 6), key=cm.random.key(0)).shape
    (2, 6)
    """

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor, drawn with a key or from the implicit stream."""
        if key is None:
            key = _core._random.key(int(_core.randint(0, 2**31 - 1)))
        std, dtype = self._std(fan_in, fan_out), dtype or _core.float32
        drawn = _core._random.truncated_normal(key, tuple(var_shape), low=-2.0, high=2.0, dtype=dtype)
        return _core.asarray(drawn * std + self.mean, device=device)


class Orthogonal:
    """Columns, or rows, at right angles and of length `gain`; all axes but the last are taken as one.

    >>> w = cm.nn.Orthogonal().create_variables((3, 2), key=cm.random.key(0))
    >>> cm.allclose(w.T @ w, cm.eye(2), atol=1e-6)
    True
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor, drawn with a key or from the implicit stream."""
        shape, dtype = tuple(var_shape), dtype or _core.float32
        return _core.random_orthogonal(shape=shape, gain=self.gain, device=device, dtype=dtype, key=key)


class _FanNormal(Normal):
    """Normal with variance `numerator / fan`."""

    def __init__(self, numerator: float, fan_mode: str) -> None:
        super().__init__()
        self.numerator, self.fan_mode = numerator, _checked(type(self).__name__, fan_mode)

    def _std(self, fan_in: int | None, fan_out: int | None) -> float:
        return (self.numerator / _fan(type(self).__name__, self.fan_mode, fan_in, fan_out)) ** 0.5


class GlorotNormal(_FanNormal):
    """Normal with variance `2 / (fan_in + fan_out)`.

    >>> cm.nn.GlorotNormal().create_variables((2, 6), fan_in=6, fan_out=2, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(2, "fan_sum")


class LecunNormal(_FanNormal):
    """Normal with variance `1 / fan_in`.

    >>> cm.nn.LecunNormal().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(1, "fan_in")


class KaimingNormal:
    """Normal with variance `2 / ((1 + negative_slope ** 2) * fan)`.

    >>> cm.nn.KaimingNormal().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

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
