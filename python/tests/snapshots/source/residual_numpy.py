import numpy as np
from safetensors.numpy import load_file


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def _conv(x, w, strides, padding, dilation, groups):
    """Channels first: the sum over a window of each place, by groups of channels."""
    n = x.ndim - 2
    strides = strides if isinstance(strides, tuple) else (strides,) * n
    dilation = dilation if isinstance(dilation, tuple) else (dilation,) * n
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    sizes = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilation)]
    axes = tuple(range(2, n + 2))
    x = np.lib.stride_tricks.sliding_window_view(x, sizes, axis=axes)
    steps = [slice(None, None, s) for s in strides]
    holes = [slice(None, None, d) for d in dilation]
    x = x[(slice(None), slice(None), *steps, *holes)]
    parts = []
    for x, w in zip(np.split(x, groups, axis=1), np.split(w, groups)):
        window = tuple(range(n + 2, 2 * n + 2))
        parts.append(np.tensordot(x, w, axes=((1, *window), (1, *axes))))
    return np.moveaxis(np.concatenate(parts, axis=-1), -1, 1)


def conv2d_nhwc(p, x, strides=1, padding=((0, 0), (0, 0)), dilation=1, groups=1):
    x, w = np.moveaxis(x, -1, 1), p["weight"].transpose(3, 2, 0, 1)
    y = np.moveaxis(_conv(x, w, strides, padding, dilation, groups), 1, -1)
    return y + p["bias"] if "bias" in p else y


def block(p, x):
    conv1 = conv2d_nhwc(p["conv1"], x, padding=((1, 1), (1, 1)))
    conv1 = np.maximum(conv1, 0)
    x = x + conv2d_nhwc(p["conv2"], conv1, padding=((1, 1), (1, 1)))
    return np.maximum(x, 0)


def residual(p, x):
    x = block(p["first"], conv2d_nhwc(p["stem"], x))
    return linear(p["head"], block(p["second"], x).mean(axis=(1, 2)))


def load(path):
    """Loads the parameters as nested dicts and lists."""
    params = {}
    for name, value in load_file(path).items():
        *above, last = name.split(".")
        part = params
        for word in above:
            part = part.setdefault(word, {})
        part[last] = value
    return _listed(params)


def _listed(part):
    if not isinstance(part, dict):
        return part
    part = {name: _listed(inner) for name, inner in part.items()}
    if all(name.isdigit() for name in part):
        return [part[name] for name in sorted(part, key=int)]
    return part
