"""How new parameters are filled. `fan_in` and `fan_out` are the numbers of inputs and outputs of a layer."""

from collections.abc import Sequence
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError

_FANS = ("fan_in", "fan_out", "fan_sum", "fan_avg")


class _Initializer:
    """Makes tensors of a shape."""

    def create_variables(
        self, var_shape: Sequence[int], device: Any = None, fan_out: int | None = None, fan_in: int | None = None,
        dtype: Any = None, *, key: Any = None,
    ) -> Any:  # fmt: skip
        """A new tensor (float32 unless `dtype` says otherwise), drawn with a key or from the stream of `cm.seed`."""
        return self._tensor(tuple(var_shape), fan_in, fan_out, device=device, dtype=dtype or _core.float32, key=key)

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        raise NotImplementedError


def _checked(op: Any, mode: str) -> str:
    if mode not in _FANS:
        raise ArgumentError(f"{type(op).__name__}: fan_mode is one of {', '.join(_FANS)}, not {mode!r}")
    return mode


def _fan(op: Any, mode: str, fan_in: int | None, fan_out: int | None) -> float:
    kind = type(op).__name__
    needed = [fan_in] if mode == "fan_in" else [fan_out] if mode == "fan_out" else [fan_in, fan_out]
    known = [fan for fan in needed if fan is not None]
    if len(known) < len(needed):
        raise ArgumentError(f"{kind}: {mode} needs fan_in={fan_in} and fan_out={fan_out} to be known")
    if any(fan <= 0 for fan in known):
        raise ArgumentError(f"{kind}: fan_in={fan_in} and fan_out={fan_out} have to be positive")
    return sum(known) / (2 if mode == "fan_avg" else 1)


class Constant(_Initializer):
    """The same number everywhere.

    Examples
    --------
    >>> cm.nn.Constant(0.5).create_variables((2,))
    Tensor([0.5, 0.5], float32, native)
    """

    def __init__(self, constant: float) -> None:
        self.constant = constant

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        return _core.full(shape, float(self.constant), dtype=words["dtype"], device=words["device"])


class Zeros(Constant):
    """Zeros.

    Examples
    --------
    >>> cm.nn.Zeros().create_variables((2,))
    Tensor([0.0, 0.0], float32, native)
    """

    def __init__(self) -> None:
        super().__init__(0.0)


class Ones(Constant):
    """Ones.

    Examples
    --------
    >>> cm.nn.Ones().create_variables((2,))
    Tensor([1.0, 1.0], float32, native)
    """

    def __init__(self) -> None:
        super().__init__(1.0)


class Uniform(_Initializer):
    """Uniform between plus and minus `gain * (numerator / fan) ** power`.

    Parameters
    ----------
    numerator, power, gain : float
    fan_mode : {"fan_in", "fan_out", "fan_sum", "fan_avg"}

    Examples
    --------
    >>> cm.nn.Uniform(1, "fan_in", 0.5, 1).create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, numerator: float, fan_mode: str, power: float, gain: float) -> None:
        self.numerator, self.power, self.gain = numerator, power, gain
        self.fan_mode = _checked(self, fan_mode)

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        bound = self.gain * (self.numerator / _fan(self, self.fan_mode, fan_in, fan_out)) ** self.power
        return _core.random_uniform(low=-bound, high=bound, shape=shape, **words)


class GlorotUniform(Uniform):
    """Uniform within `sqrt(6 / (fan_in + fan_out))`.

    Examples
    --------
    >>> cm.nn.GlorotUniform().create_variables((2, 6), fan_in=6, fan_out=2, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(6, "fan_sum", 0.5, 1)


class FirstLayerSiren(Uniform):
    """Uniform within `1 / fan_in`: the first layer of a SIREN.

    Examples
    --------
    >>> cm.nn.FirstLayerSiren().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(1, "fan_in", 1, 1)


class Siren(Uniform):
    """Uniform within `sqrt(6 / fan_in) / w0`: the other layers of a SIREN.

    Examples
    --------
    >>> cm.nn.Siren().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, w0: float = 30) -> None:
        super().__init__(6, "fan_in", 0.5, 1 / w0)


class KaimingUniform(Uniform):
    """Uniform within `sqrt(6 / ((1 + negative_slope ** 2) * fan))`.

    Examples
    --------
    >>> cm.nn.KaimingUniform().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, fan_mode: str = "fan_in", negative_slope: float = 0.0) -> None:
        super().__init__(6 / (1 + negative_slope**2), fan_mode, 0.5, 1)


class LecunUniform(Uniform):
    """Uniform within `sqrt(3 / fan_in)`.

    Examples
    --------
    >>> cm.nn.LecunUniform().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(3, "fan_in", 0.5, 1)


class Normal(_Initializer):
    """Normal with a mean and a standard deviation.

    Examples
    --------
    >>> cm.nn.Normal(std=0.02).create_variables((2, 6), key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, mean: float = 0.0, std: float = 1.0) -> None:
        if not std >= 0:
            raise ArgumentError(f"{type(self).__name__}: std is not negative, not {std}")
        self.mean, self.std = mean, std

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        return _core.random_normal(mean=self.mean, std=self.std, shape=shape, **words)


class TruncatedNormal(Normal):
    """Normal, drawn again beyond two standard deviations.

    Examples
    --------
    >>> cm.nn.TruncatedNormal(std=0.02).create_variables((2, 6), key=cm.random.key(0)).shape
    (2, 6)
    """

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        key = words["key"]
        if key is None:
            key = _core._random.key(int(_core.randint(0, 2**31 - 1)))
        drawn = _core._random.truncated_normal(key, shape, low=-2.0, high=2.0, dtype=words["dtype"])
        return _core.asarray(drawn * self.std + self.mean, device=words["device"])


class Orthogonal(_Initializer):
    """Orthogonal columns, or rows, of length `gain`; all axes but the last are taken as one.

    Examples
    --------
    >>> w = cm.nn.Orthogonal().create_variables((3, 2), key=cm.random.key(0))
    >>> cm.allclose(w.T @ w, cm.eye(2), atol=1e-6)
    True
    """

    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        return _core.random_orthogonal(shape=shape, gain=self.gain, **words)


class _FanNormal(_Initializer):
    """Normal with variance `numerator / fan`."""

    def __init__(self, numerator: float, fan_mode: str, mean: float = 0.0) -> None:
        self.numerator, self.mean, self.fan_mode = numerator, mean, _checked(self, fan_mode)

    def _tensor(self, shape: tuple[int, ...], fan_in: int | None, fan_out: int | None, **words: Any) -> Any:
        std = (self.numerator / _fan(self, self.fan_mode, fan_in, fan_out)) ** 0.5
        return _core.random_normal(mean=self.mean, std=std, shape=shape, **words)


class GlorotNormal(_FanNormal):
    """Normal with variance `2 / (fan_in + fan_out)`.

    Examples
    --------
    >>> cm.nn.GlorotNormal().create_variables((2, 6), fan_in=6, fan_out=2, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(2, "fan_sum")


class LecunNormal(_FanNormal):
    """Normal with variance `1 / fan_in`.

    Examples
    --------
    >>> cm.nn.LecunNormal().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self) -> None:
        super().__init__(1, "fan_in")


class KaimingNormal(_FanNormal):
    """Normal with variance `2 / ((1 + negative_slope ** 2) * fan)`.

    Examples
    --------
    >>> cm.nn.KaimingNormal().create_variables((2, 6), fan_in=6, key=cm.random.key(0)).shape
    (2, 6)
    """

    def __init__(self, mean: float = 0, fan_mode: str = "fan_in", negative_slope: float = 0.0) -> None:
        super().__init__(2 / (1 + negative_slope**2), fan_mode, mean)
