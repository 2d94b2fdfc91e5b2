"""How far numbers may be apart, and how far they were."""

import numpy as np

from .arrays import EPSILON, doubles, dtype_name

# In units of the element type's precision, relative to the largest number of the result: a few roundings.
VALUES = {"float64": 64, "float32": 16, "float16": 2, "bfloat16": 2}
# Backward there are more.
GRADIENTS = {"float64": 512, "float32": 64, "float16": 8, "bfloat16": 8}
# What central differences of the reference leave uncertain.
DIFFERENCES = 1e-7
CURVATURES = 1e-4


class Mismatch(AssertionError):
    pass


def share(got, want, allowed, what):
    """The largest error as a share of what is allowed."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        raise Mismatch(f"{what}: the shape is {got.shape}, not {want.shape}")
    if got.size == 0:
        return 0.0
    with np.errstate(invalid="ignore", divide="ignore"):
        odd = ~(np.isfinite(got) & np.isfinite(want))
        equal = (got == want) | (np.isnan(got) & np.isnan(want))
        error = np.where(equal, 0.0, np.where(odd, np.inf, np.abs(got - want)))
        # Numbers that are equal need no leave.
        found = np.where(error == 0, 0.0, error / np.broadcast_to(allowed, error.shape))
    worst = np.unravel_index(np.argmax(found), found.shape)
    if not found[worst] <= 1:
        raise Mismatch(
            f"{what}: {got[worst]!r} at {worst}, not {want[worst]!r}: {found[worst]:.3g} times what is allowed"
        )
    return float(found[worst])


def values(got, want, dtype, factor, what):
    """Compares a result with the reference: its element type exactly, its numbers within the type's precision."""
    if dtype_name(got) != dtype:
        raise Mismatch(f"{what}: the dtype is {dtype_name(got)}, not {dtype}")
    want = np.asarray(want, np.float64)
    if dtype not in EPSILON:
        return share(doubles(got), want, 0.5, what)
    finite = np.abs(want[np.isfinite(want)])
    top = float(finite.max(initial=0.0))
    return share(
        doubles(got), want, factor * VALUES[dtype] * EPSILON[dtype] * (np.abs(want) + top / 4) / 1.25 + 1e-300, what
    )


def gradients(got, want, dtype, scale, factor, what):
    """Compares a gradient with what it should be."""
    if dtype_name(got) != dtype:
        raise Mismatch(f"{what}: the dtype is {dtype_name(got)}, not {dtype}")
    allowed = (factor * GRADIENTS[dtype] * EPSILON[dtype] + DIFFERENCES) * scale
    return share(doubles(got), want, allowed, what)
