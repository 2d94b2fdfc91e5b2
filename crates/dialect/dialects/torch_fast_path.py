"""torch's own functions that are ours on f32 and f64."""

import torch
import torch.nn.functional as F


def _array(x):
    if x.layout is not torch.strided:
        return f"an array of layout {x.layout}, which is no plain array; take x.to_dense()"
    if x.is_nested:
        return "a nested array, which is no plain array; take torch.nested.to_padded_tensor(x, value)"
    if x.is_quantized:
        return "a quantized array, which is no plain array; take x.dequantize()"
    return x.clone() if x._is_zerotensor() else x


def resolved(x):
    """An array whose memory holds its values: torch conjugates, negates and fills with zeros when a view is read."""
    x = x.resolve_conj().resolve_neg()
    return x.clone() if x._is_zerotensor() else x


def exported(x):
    """The same array for others, who read its memory; some stand for values that are nowhere."""
    x = resolved(x.detach())
    if x.device.type == "meta" or hasattr(x, "fake_mode") or x.numel() and not x.data_ptr():
        raise TypeError(f"an array of {type(x).__name__} on {x.device} has no values to be read")
    return x


def assign(out, x):
    """Writes one array into another, which may share memory with it."""
    shared = x.untyped_storage().data_ptr() == out.untyped_storage().data_ptr()
    return out.copy_(x.clone() if shared else x)


# Which views are computed when they are read: negated ones, conjugated ones; and what makes plain arrays of them.
LAZY = (torch.Tensor.is_neg, torch.Tensor.is_conj, resolved)
# How its functions refuse arguments.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)


# How each is called: with so many arrays, or as the word says (see `CallingConvention` in the bridge). Under `array`: which plain array an
# object is, or a text that says why it is none.
FAST_PATHS = {
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
