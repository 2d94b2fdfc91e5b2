"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]

def fft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """The discrete Fourier transform along an axis."""

def fftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a spectrum."""

def fftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward') -> _T:
    """The transform over several axes."""

def fftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None) -> _T:
    """The zero frequency moved to the middle."""

def hfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """The real spectrum of a Hermitian signal, given by its non-negative half."""

def ifft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """The inverse transform along an axis."""

def ifftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward') -> _T:
    """The inverse transform over several axes."""

def ifftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None) -> _T:
    """The zero frequency moved back to the front."""

def ihfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """The non-negative half of a Hermitian signal, from its real spectrum."""

def irfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """Real numbers from the non-negative half of their spectrum."""

def irfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward') -> _T:
    """Real numbers from their halved spectrum over several axes."""

def rfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward') -> _T:
    """The non-negative half of the spectrum of real numbers."""

def rfftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies of a halved spectrum."""

def rfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward') -> _T:
    """The halved spectrum of real numbers over several axes."""
