"""torch's own functions that are ours on f32 and f64."""

import torch
import torch.nn.functional as F


def _array(x):
    if x.layout is not torch.strided:
        return f"an array of layout {x.layout}, which is no plain array; take x.to_dense()"
    return x


# How each is called: with so many arrays, or as the word says (see `Way` in the bridge). Under `array`: which plain array an
# object is, or a text that says why it is none.
PLAIN = {
    "array": _array,
    "add": (torch.add, 2), "sub": (torch.sub, 2), "mul": (torch.mul, 2), "div": (torch.div, 2), "pow": (torch.pow, 2),
    "neg": (torch.neg, 1), "abs": (torch.abs, 1), "rsqrt": (torch.rsqrt, 1), "erf": (torch.erf, 1), "round": (torch.round, 1),
    "equal": (torch.eq, 2), "not_equal": (torch.ne, 2), "less": (torch.lt, 2), "less_equal": (torch.le, 2),
    "greater": (torch.gt, 2), "greater_equal": (torch.ge, 2),
    "matmul": (torch.matmul, "matmul"), "reshape": (torch.reshape, "sizes"), "permute_dims": (torch.permute, "axes"),
    "relu": (torch.relu, 1), "sigmoid": (torch.sigmoid, 1), "silu": (F.silu, 1), "sum": (torch.sum, "reduce"),
    "mean": (torch.mean, "reduce"), "softmax": (torch.softmax, "axis"), "log_softmax": (torch.log_softmax, "axis"),
    "linear": (F.linear, "linear"), "tanh": (torch.tanh, 1), "erfc": (torch.erfc, 1),
}
