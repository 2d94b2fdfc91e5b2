import numpy as np
from safetensors.numpy import load_file


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def batch_norm(p, x, axis=-1, eps=1e-5):
    shape = [1] * x.ndim
    shape[axis] = -1
    scale = p["scale"] / np.sqrt(p["var"] + eps)
    offset = p["bias"] - p["mean"] * scale
    return x * scale.reshape(shape) + offset.reshape(shape)


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


def _windows(x, size, strides, padding, value):
    x = np.pad(x, padding, constant_values=value)
    x = np.lib.stride_tricks.sliding_window_view(x, size)
    return x[tuple(slice(None, None, s) for s in strides)]


def max_pool(x, size, strides, padding):
    windows = _windows(x, size, strides, padding, -np.inf)
    return windows.max(axis=tuple(range(x.ndim, 2 * x.ndim)))


def cnn(p, x):
    x = conv2d_nhwc(p["conv1"], x, strides=2, padding=((0, 1), (0, 1)))
    x = np.maximum(batch_norm(p["norm1"], x), 0)
    x = max_pool(x, (1, 2, 2, 1), (1, 2, 2, 1), 0)
    x = batch_norm(p["norm2"], conv2d_nhwc(p["conv2"], x))
    return linear(p["head"], np.maximum(x, 0).mean(axis=(1, 2)))


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
