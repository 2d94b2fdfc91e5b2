"""numpy's own functions that are ours on f32 and f64."""

import numpy as np


def _array(x):
    if isinstance(x, np.ma.MaskedArray):
        return "a masked array, which is no plain array; take x.filled(value)"
    return np.asarray(x)


# How each is called: with so many arrays, or as the word says (see `CallingConvention` in the bridge). Under `array`: which plain array an
# object is, or a text that says why it is none.
FAST_PATHS = {
    "array": _array,
    "matmul": (np.matmul, "matmul"), "reshape": (np.ndarray.reshape, "sizes"), "linear": (np.matmul, "linear", np.add),
}
