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
    """Discrete Fourier transform (FFT) along an axis.

>>> cm.fft.fft(cm.asarray([1.0, 0.0, -1.0, 0.0]))
Tensor([0.0+0.0j, 2.0+0.0j, 0.0+0.0j, 2.0+0.0j], complex64, native)"""

def fftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Sample frequencies of `fft`.

>>> cm.fft.fftfreq(4)
Tensor([  0.0,  0.25,  -0.5, -0.25], float32, native)"""

def fftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """FFT over several axes.

>>> cm.fft.fftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
Tensor([[10.0+0.0j, -2.0+0.0j],
        [-4.0+0.0j,  0.0+0.0j]], complex64, native)"""

def fftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Shifts the zero frequency to the center of the spectrum.

>>> cm.fft.fftshift(cm.fft.fftfreq(4))
Tensor([ -0.5, -0.25,   0.0,  0.25], float32, native)"""

def hfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """FFT of a Hermitian signal, given by its non-negative half; real output.

>>> cm.fft.hfft(cm.asarray([1.0, 2.0, 1.0]))
Tensor([ 6.0,  0.0, -2.0,  0.0], float32, native)"""

def ifft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """Inverse discrete Fourier transform along an axis.

>>> cm.fft.ifft(cm.asarray([0, 2, 0, 2], dtype="complex64"))
Tensor([ 1.0+0.0j,  0.0+0.0j, -1.0+0.0j,  0.0+0.0j], complex64, native)"""

def ifftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """Inverse FFT over several axes.

>>> cm.fft.ifftn(cm.fft.fftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]])))
Tensor([[1.0+0.0j, 2.0+0.0j],
        [3.0+0.0j, 4.0+0.0j]], complex64, native)"""

def ifftshift(x: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = None, out: Any = None) -> _T:
    """Inverse of `fftshift`: shifts the zero frequency to the front.

>>> cm.fft.ifftshift(cm.asarray([-2, -1, 0, 1]))
Tensor([ 0,  1, -2, -1], int32, native)"""

def ihfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """Inverse FFT of a real spectrum: the non-negative half of a Hermitian signal.

>>> cm.real(cm.fft.ihfft(cm.asarray([6.0, 0.0, -2.0, 0.0])))
Tensor([1.0, 2.0, 1.0], float32, native)"""

def irfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """Inverse FFT of the non-negative half of a spectrum; real output.

>>> cm.fft.irfft(cm.asarray([10 + 0j, -2 + 2j, -2 + 0j]))
Tensor([1.0, 2.0, 3.0, 4.0], float32, native)"""

def irfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """Inverse FFT of the non-negative half of a spectrum over several axes; real output.

>>> cm.fft.irfftn(cm.fft.rfftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]])))
Tensor([[1.0, 2.0],
        [3.0, 4.0]], float32, native)"""

def rfft(x: _T | builtins.complex, /, *, n: Any = None, axis: int | Sequence[int] | None = -1, norm: Any = 'backward', out: Any = None) -> _T:
    """FFT of real input: the non-negative half of the spectrum.

>>> cm.fft.rfft(cm.asarray([1.0, 2.0, 3.0, 4.0]))
Tensor([10.0+0.0j, -2.0+2.0j, -2.0+0.0j], complex64, native)"""

def rfftfreq(n: Any, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None, out: Any = None) -> Tensor:
    """Sample frequencies of `rfft`.

>>> cm.fft.rfftfreq(4)
Tensor([ 0.0, 0.25,  0.5], float32, native)"""

def rfftn(x: _T | builtins.complex, /, *, s: Any = None, axes: int | Sequence[int] | None = None, norm: Any = 'backward', out: Any = None) -> _T:
    """FFT of real input over several axes: the non-negative half of the spectrum.

>>> cm.fft.rfftn(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
Tensor([[10.0+0.0j, -2.0+0.0j],
        [-4.0+0.0j,  0.0+0.0j]], complex64, native)"""
