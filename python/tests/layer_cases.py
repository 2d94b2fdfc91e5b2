"""Each layer, what it is called with, and the same in torch: what `test_layers` and `test_agree` go through."""

from dataclasses import dataclass, field
from typing import Any

import clematis as cm
import numpy as np
import torch
import torch.nn.functional as F


def numbers(*shape, seed=0):
    """Numbers that are far from each other, so that the largest of a window is not in doubt."""
    drawn = np.random.default_rng(seed).permutation(int(np.prod(shape, dtype=int)))
    return ((drawn - drawn.size / 2) / max(drawn.size, 1) * 4).reshape(shape).astype("float32")


@dataclass
class Case:
    """A layer made with a key, its inputs, and the same function of torch's tensors."""

    make: Any
    inputs: tuple
    torch: Any
    call: dict = field(default_factory=dict)


def first(x):
    """[batch, …, channels] as [batch, channels, …]."""
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def forward_filter(w):
    """[spatial…, in, out] as torch has it."""
    return w.movedim((-1, -2), (0, 1))


def convolved(function, **words):
    return lambda v, x: last(function(first(x), forward_filter(v["w"]), **words)) + v["b"]


def transposed(function, **words):
    return lambda v, x: last(function(first(x), v["w"].movedim((-2, -1), (0, 1)), **words)) + v["b"]


def depthwise(v, x):
    w = v["w"].movedim(-1, 0)[:, None]
    return last(F.conv2d(first(x), w, groups=w.shape[0])) + v["b"]


def recurrent(kind, layers, ways, with_bias, **words):
    """torch's own recurrent layer with our parameters."""

    def run(v, x):
        names = {}
        for i in range(layers):
            for way, suffix in (("", ""), ("reverse_", "_reverse"))[:ways]:
                for ours, theirs in (("input", "ih"), ("recurrent", "hh")):
                    names[f"weight_{theirs}_l{i}{suffix}"] = v[f"{way}{ours}/layer_{i}/w"].T
                    if with_bias:
                        names[f"bias_{theirs}_l{i}{suffix}"] = v[f"{way}{ours}/layer_{i}/b"]
        size = v["recurrent/layer_0/w"].shape[0]
        net = kind(x.shape[-1], size, layers, batch_first=True, bidirectional=ways == 2, bias=with_bias, **words)
        out, state = torch.func.functional_call(net, names, (x,))
        state = state if isinstance(state, tuple) else (state,)
        return [out, *(one for part in state for one in part)]

    return run


def attended(v, x, context=None, mask=None, *, heads, at="", causal=False):
    context = x if context is None else context

    def linear(name, x):
        return F.linear(x, v[f"{at}{name}/w"], v[f"{at}{name}/b"])

    def split(x):
        return x.unflatten(-1, (heads, -1)).transpose(-2, -3)

    q, k, w = (split(linear(n, y)) for n, y in (("to_q", x), ("to_kv/k", context), ("to_kv/v", context)))
    mask = None if mask is None else (mask != 0)[..., None, :, :]
    y = F.scaled_dot_product_attention(q, k, w, attn_mask=mask, is_causal=causal)
    return linear("to_out/submodules/v0", y.transpose(-2, -3).flatten(-2))


def block(v, x, memory=None, *, heads, act, norm_first, at="", causal=False):
    def norm(i, x):
        return F.layer_norm(x, x.shape[-1:], v[f"{at}norms/v{i}/weight"], v[f"{at}norms/v{i}/bias"])

    def network(x):
        hidden = act(F.linear(x, v[f"{at}hidden/w"], v[f"{at}hidden/b"]))
        return F.linear(hidden, v[f"{at}out/w"], v[f"{at}out/b"])

    parts = [lambda x: attended(v, x, heads=heads, at=f"{at}attention/", causal=causal)]
    if memory is not None:
        parts.append(lambda x: attended(v, x, memory, heads=heads, at=f"{at}cross_attention/"))
    for i, part in enumerate([*parts, network]):
        x = x + part(norm(i, x)) if norm_first else norm(i, x + part(x))
    return x


def stacked(v, x, *args, layers, norm_first, **words):
    for i in range(layers):
        x = block(v, x, *args, at=f"layers/v{i}/", norm_first=norm_first, **words)
    return F.layer_norm(x, x.shape[-1:], v["norm/weight"], v["norm/bias"]) if norm_first else x


def flat(out):
    """All arrays of a result, in order."""
    if isinstance(out, (tuple, list)):
        return [x for part in out for x in flat(part)]
    return [out]


n = cm.nn
TOKENS = np.array([[1, 0, 3], [4, 2, 0]], "int32")
MASK = np.array([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 0]], "int32")

CASES = {
    "Linear": Case(lambda key: n.Linear(3, 4, key=key), (numbers(2, 3),), lambda v, x: F.linear(x, v["w"], v["b"])),
    "Bilinear": Case(
        lambda key: n.Bilinear(3, 2, 4, key=key), (numbers(5, 3), numbers(5, 2, seed=1)),
        lambda v, x, y: F.bilinear(x, y, v["w"], v["b"]),
    ),
    "Embedding": Case(
        lambda key: n.Embedding(5, 3, 0, key=key), (TOKENS,),
        lambda v, i: v["w"][i.long()] * (i != 0)[..., None],
    ),
    "Conv1D": Case(
        lambda key: n.Conv1D(4, 6, 3, 2, "VALID", groups=2, key=key), (numbers(2, 8, 4),),
        convolved(F.conv1d, stride=2, groups=2),
    ),
    "Conv2D": Case(
        lambda key: n.Conv2D(3, 4, (3, 2), 1, [(1, 1), (0, 0)], dilations=(1, 2), key=key), (numbers(2, 5, 6, 3),),
        convolved(F.conv2d, padding=(1, 0), dilation=(1, 2)),
    ),
    "Conv3D": Case(
        lambda key: n.Conv3D(2, 3, [2, 3, 2], (1, 2, 1), "VALID", key=key), (numbers(1, 3, 5, 4, 2),),
        convolved(F.conv3d, stride=(1, 2, 1)),
    ),
    "Conv1DTranspose": Case(
        lambda key: n.Conv1DTranspose(4, 6, 3, 2, "VALID", groups=2, key=key), (numbers(2, 4, 4),),
        transposed(F.conv_transpose1d, stride=2, groups=2),
    ),
    "Conv2DTranspose": Case(
        lambda key: n.Conv2DTranspose(3, 4, (3, 2), (2, 1), "VALID", key=key), (numbers(2, 3, 4, 3),),
        transposed(F.conv_transpose2d, stride=(2, 1)),
    ),
    "Conv3DTranspose": Case(
        lambda key: n.Conv3DTranspose(2, 3, 2, 2, "VALID", key=key), (numbers(1, 2, 3, 2, 2),),
        transposed(F.conv_transpose3d, stride=2),
    ),
    "DepthwiseConv2D": Case(
        lambda key: n.DepthwiseConv2D(3, (2, 3), 1, "VALID", key=key), (numbers(2, 4, 5, 3),), depthwise
    ),
    "LSTM": Case(
        lambda key: n.LSTM(3, 4, num_layers=2, key=key), (numbers(2, 5, 3),), recurrent(torch.nn.LSTM, 2, 1, False)
    ),
    "LSTMBoth": Case(
        lambda key: n.LSTM(3, 2, num_layers=2, bidirectional=True, with_bias=True, key=key), (numbers(2, 4, 3),),
        recurrent(torch.nn.LSTM, 2, 2, True),
    ),
    "GRU": Case(
        lambda key: n.GRU(3, 4, num_layers=2, bidirectional=True, key=key), (numbers(2, 5, 3),),
        recurrent(torch.nn.GRU, 2, 2, True),
    ),
    "RNN": Case(lambda key: n.RNN(3, 4, key=key), (numbers(2, 5, 3),), recurrent(torch.nn.RNN, 1, 1, True)),
    "RNNReLU": Case(
        lambda key: n.RNN(3, 4, nonlinearity="relu", with_bias=False, key=key), (numbers(2, 5, 3),),
        recurrent(torch.nn.RNN, 1, 1, False, nonlinearity="relu"),
    ),
    "MultiHeadAttention": Case(
        lambda key: n.MultiHeadAttention(6, num_heads=2, head_dim=4, context_dim=5, key=key),
        (numbers(2, 3, 6), numbers(2, 4, 5, seed=1), MASK),
        lambda v, x, y, mask: attended(v, x, y, mask, heads=2),
    ),
    "CausalAttention": Case(
        lambda key: n.MultiHeadAttention(6, num_heads=3, head_dim=2, key=key), (numbers(2, 4, 6),),
        lambda v, x: attended(v, x, heads=3, causal=True), {"causal": True},
    ),
    "TransformerEncoderLayer": Case(
        lambda key: n.TransformerEncoderLayer(6, 2, 8, dropout_rate=0.0, key=key), (numbers(2, 3, 6),),
        lambda v, x: block(v, x, heads=2, act=F.relu, norm_first=False),
    ),
    "TransformerEncoder": Case(
        lambda key: n.TransformerEncoder(2, 6, 2, 8, dropout_rate=0.0, activation="gelu", norm_first=True, key=key),
        (numbers(2, 3, 6),), lambda v, x: stacked(v, x, layers=2, heads=2, act=F.gelu, norm_first=True),
    ),
    "TransformerDecoderLayer": Case(
        lambda key: n.TransformerDecoderLayer(6, 2, 8, dropout_rate=0.0, norm_first=True, key=key),
        (numbers(2, 3, 6), numbers(2, 4, 6, seed=1)),
        lambda v, x, y: block(v, x, y, heads=2, act=F.relu, norm_first=True, causal=True),
    ),
    "TransformerDecoder": Case(
        lambda key: n.TransformerDecoder(2, 6, 2, 8, dropout_rate=0.0, key=key),
        (numbers(2, 3, 6), numbers(2, 4, 6, seed=1)),
        lambda v, x, y: stacked(v, x, y, layers=2, heads=2, act=F.relu, norm_first=False, causal=True),
    ),
    "LayerNorm": Case(
        lambda key: n.LayerNorm((3, 4), key=key), (numbers(2, 3, 4),),
        lambda v, x: F.layer_norm(x, (3, 4), v["weight"], v["bias"]),
    ),
    "RMSNorm": Case(
        lambda key: n.RMSNorm(4, key=key), (numbers(2, 3, 4),), lambda v, x: F.rms_norm(x, (4,), v["weight"], 1e-5)
    ),
    "GroupNorm": Case(
        lambda key: n.GroupNorm(2, 4, key=key), (numbers(2, 3, 4),),
        lambda v, x: last(F.group_norm(first(x), 2, v["weight"], v["bias"])),
    ),
    "InstanceNorm": Case(
        lambda key: n.InstanceNorm(4, key=key), (numbers(2, 5, 4),),
        lambda v, x: last(F.instance_norm(first(x), weight=v["weight"], bias=v["bias"])),
    ),
    "BatchNorm": Case(
        lambda key: n.BatchNorm(3, key=key), (numbers(4, 2, 3),),
        lambda v, x: last(F.batch_norm(first(x), None, None, v["weight"], v["bias"], training=True)),
    ),
    "PReLU": Case(lambda key: n.PReLU(3, key=key), (numbers(4, 3),), lambda v, x: F.prelu(x, v["weight"])),
    "Sequential": Case(
        lambda key: n.Sequential(n.Linear(3, 4, key=key), n.Tanh(), n.Linear(4, 2, key=key)), (numbers(5, 3),),
        lambda v, x: F.linear(
            torch.tanh(F.linear(x, v["submodules/v0/w"], v["submodules/v0/b"])),
            v["submodules/v2/w"], v["submodules/v2/b"],
        ),
    ),
}  # fmt: skip
