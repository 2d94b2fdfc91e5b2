"""torch's own functions that are ours on f32 and f64."""

import torch
import torch.nn.functional as F


# To torch no axes are all axes, and an array without axes has one.
def _plain_sum(x, *, axis=None, keepdims=False):
    if axis is None and not keepdims:
        return torch.sum(x)
    return torch.sum(x, axis, keepdims) if axis != () and x.ndim else None


def _plain_mean(x, *, axis=None, keepdims=False):
    if axis is None and not keepdims:
        return torch.mean(x)
    return torch.mean(x, axis, keepdims) if axis != () and x.ndim else None


def _plain_softmax(x, *, axis=None):
    return torch.softmax(x, -1 if axis is None else axis) if x.ndim else None


def _plain_log_softmax(x, *, axis=None):
    return torch.log_softmax(x, -1 if axis is None else axis) if x.ndim else None


def _plain_linear(x, w, *, bias=None):
    if w.dim() != 2 or bias is not None and (type(bias) is not torch.Tensor or bias.dim() != 1 or bias.size(0) != w.size(0)):
        return None
    return F.linear(x, w, bias)


def _plain_reshape(x, shape):
    return torch.reshape(x, shape) if type(shape) is tuple else None


# torch's own functions that are ours on f32 and f64: how many arrays they begin with, how many other arguments follow them by
# position, which keywords they take, and what to call where no keywords are given. None stands for what they do not cover.
PLAIN = {
    "add": (torch.add, 2), "sub": (torch.sub, 2), "mul": (torch.mul, 2), "div": (torch.div, 2), "pow": (torch.pow, 2),
    "neg": (torch.neg, 1), "abs": (torch.abs, 1), "rsqrt": (torch.rsqrt, 1), "erf": (torch.erf, 1), "round": (torch.round, 1),
    "equal": (torch.eq, 2), "not_equal": (torch.ne, 2), "less": (torch.lt, 2), "less_equal": (torch.le, 2),
    "greater": (torch.gt, 2), "greater_equal": (torch.ge, 2),
    "matmul": (torch.matmul, 2), "reshape": (_plain_reshape, 1, 1), "permute_dims": (torch.permute, 1, 1), "relu": (torch.relu, 1),
    "sigmoid": (torch.sigmoid, 1), "silu": (F.silu, 1), "sum": (_plain_sum, 1, 0, ("axis", "keepdims"), torch.sum),
    "mean": (_plain_mean, 1, 0, ("axis", "keepdims"), torch.mean),
    "softmax": (_plain_softmax, 1, 0, ("axis",)), "log_softmax": (_plain_log_softmax, 1, 0, ("axis",)),
    "linear": (_plain_linear, 2, 0, ("bias",)),
}
