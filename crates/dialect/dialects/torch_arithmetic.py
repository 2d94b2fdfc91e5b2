"""Functions of torch as arithmetic, which its compiler fuses with the surrounding ops."""

import functools

import torch


def _is_for_arithmetic(x):
    """Whether a function is faster as arithmetic, which torch's compiler fuses with the surrounding ops: a call
    takes more than twice as long."""
    return x.dtype is torch.float32 and x.is_cpu and torch.compiler.is_compiling() and not x.requires_grad


def erfc(x):
    return _erfc_of_arithmetic(x) if _is_for_arithmetic(x) else torch.erfc(x)


def tanh(x):
    return _tanh_of_arithmetic(x) if _is_for_arithmetic(x) else torch.tanh(x)


# A fit of (tanh(x) / x - 1) / x² by powers of x² below 0.7.
_TANH_SMALL = 0.7
_TANH_FIT = (
    -0.3333319127559662, 0.1332911103963852, -0.05355885624885559, 0.020091958343982697, -0.005138651933521032)


def _tanh_of_arithmetic(x):
    """tanh of f32, right to two units in the last place."""
    size, square = torch.abs(x), x * x
    fit = functools.reduce(lambda sum, factor: sum * square + factor, reversed(_TANH_FIT))
    small = size + size * (square * fit)
    large = 1.0 - 2.0 / (torch.exp(size + size) + 1.0)
    return torch.copysign(torch.where(size < _TANH_SMALL, small, large), x)


# A fit of exp(x²) erfc(x) / t by powers of t - 1/4, t = 1 / (1 + x), for x up to where f32 has only zeros.
_ERFC_END = 10.6
_ERFC_FIT = (
    0.7160046100616455, 0.6158059239387512, -0.11693469434976578, -0.5887858271598816, 0.316258043050766,
    0.7924820780754089, -1.2374995946884155, -0.3511704206466675, 3.0873396396636963, -4.181131362915039,
    2.642580509185791, -0.6782906651496887)


def _top(x):
    """The leading bits of f32, whose products are exact."""
    far = x * 4097.0
    return far - (far - x)


def _erfc_of_arithmetic(x):
    """erfc of f32, right to four units in the last place; x² is what a derivative takes the exponential of, too."""
    size = torch.abs(x).clamp(max=_ERFC_END)
    whole = 1.0 + size
    t = 1.0 / whole
    fit = functools.reduce(lambda sum, factor: sum * (t - 0.25) + factor, reversed(_ERFC_FIT))
    # What rounding took from x², from 1 + x and from t: small parts of the result.
    top, t_top, whole_top = _top(size), _top(t), _top(whole)
    of_square = (top * top - size * size) + (size - top) * (top + size)
    rise = whole - 1.0
    of_whole = t * ((1.0 - (whole - rise)) + (size - rise))
    of_t = ((1.0 - t_top * whole_top) - t_top * (whole - whole_top)) - (t - t_top) * whole
    main = t * fit
    tail = torch.exp(-(x * x)) * (main - main * (of_square + of_whole - of_t))
    return torch.where(x < 0, 2.0 - tail, tail)
