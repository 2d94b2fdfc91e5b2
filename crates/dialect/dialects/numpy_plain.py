"""numpy's own functions that are ours on f32 and f64."""

import numpy as np


def _plain_linear(x, w, *, bias=None):
    if w.ndim != 2 or bias is not None and (type(bias) is not np.ndarray or bias.ndim != 1 or len(bias) != len(w)):
        return None
    return np.matmul(x, w.T) if bias is None else np.matmul(x, w.T) + bias


def _plain_reshape(x, shape):
    # To numpy any negative number stands for the size that is left.
    return x.reshape(shape) if type(shape) is tuple and min(shape, default=0) >= -1 else None


# numpy's own functions that are ours on f32 and f64: how many arrays they begin with, how many other arguments follow them by
# position, and which keywords they take. None stands for what they do not cover.
PLAIN = {"matmul": (np.matmul, 2), "reshape": (_plain_reshape, 1, 1), "linear": (_plain_linear, 2, 0, ("bias",))}
