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

def fft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """The discrete Fourier transform along an axis.

>>> cm.fft.fft(cm.asarray([1.0, 0.0, -1.0, 0.0]))
Tensor([0.0+0.0j, 2.0+0.0j, 0.0+0.0j, 2.0+0.0j], complex64, native)"""

def fftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """The frequencies of a spectrum.

>>> cm.fft.fftfreq(4)
Tensor([  0.0,  0.25,  -0.5, -0.25], float32, native)"""

def fftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """The transform over several axes.

>>> cm.fft.fftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
Tensor([[10.0+0.0j, -2.0+0.0j],
        [-4.0+0.0j,  0.0+0.0j]], complex64, native)"""

def fftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """The zero frequency moved to the middle.

>>> cm.fft.fftshift(cm.fft.fftfreq(4))
Tensor([ -0.5, -0.25,   0.0,  0.25], float32, native)"""

def hfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """The real spectrum of a Hermitian signal, given by its non-negative half.

>>> cm.fft.hfft(cm.asarray([1.0, 2.0, 1.0]))
Tensor([ 6.0,  0.0, -2.0,  0.0], float32, native)"""

def ifft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """The inverse transform along an axis.

>>> cm.fft.ifft(cm.asarray([0, 2, 0, 2], dtype="complex64"))
Tensor([ 1.0+0.0j,  0.0+0.0j, -1.0+0.0j,  0.0+0.0j], complex64, native)"""

def ifftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """The inverse transform over several axes.

>>> cm.fft.ifftn(cm.fft.fftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]])))
Tensor([[1.0+0.0j, 2.0+0.0j],
        [3.0+0.0j, 4.0+0.0j]], complex64, native)"""

def ifftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """The zero frequency moved back to the front.

>>> cm.fft.ifftshift(cm.asarray([-2, -1, 0, 1]))
Tensor([ 0,  1, -2, -1], int32, native)"""

def ihfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """The non-negative half of a Hermitian signal, from its real spectrum.

>>> cm.real(cm.fft.ihfft(cm.asarray([6.0, 0.0, -2.0, 0.0])))
Tensor([1.0, 2.0, 1.0], float32, native)"""

def irfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """Real numbers from the non-negative half of their spectrum.

>>> cm.fft.irfft(cm.asarray([10 + 0j, -2 + 2j, -2 + 0j]))
Tensor([1.0, 2.0, 3.0, 4.0], float32, native)"""

def irfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """Real numbers from their halved spectrum over several axes.

>>> cm.fft.irfftn(cm.fft.rfftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]])))
Tensor([[1.0, 2.0],
        [3.0, 4.0]], float32, native)"""

def rfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """The non-negative half of the spectrum of real numbers.

>>> cm.fft.rfft(cm.asarray([1.0, 2.0, 3.0, 4.0]))
Tensor([10.0+0.0j, -2.0+2.0j, -2.0+0.0j], complex64, native)"""

def rfftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """The frequencies of a halved spectrum.

>>> cm.fft.rfftfreq(4)
Tensor([ 0.0, 0.25,  0.5], float32, native)"""

def rfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """The halved spectrum of real numbers over several axes.

>>> cm.fft.rfftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
Tensor([[10.0+0.0j, -2.0+0.0j],
        [-4.0+0.0j,  0.0+0.0j]], complex64, native)"""
