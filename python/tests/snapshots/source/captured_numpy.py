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


def layer_norm(p, x, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * p["scale"] + p["bias"]


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


def conv2d(p, x, strides=1, padding=((0, 0), (0, 0)), dilation=1, groups=1):
    y = _conv(x, p["weight"], strides, padding, dilation, groups)
    return y + p["bias"][:, None, None] if "bias" in p else y


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def _windows(x, size, strides, padding, value):
    x = np.pad(x, padding, constant_values=value)
    x = np.lib.stride_tricks.sliding_window_view(x, size)
    return x[tuple(slice(None, None, s) for s in strides)]


def max_pool(x, size, strides, padding):
    windows = _windows(x, size, strides, padding, -np.inf)
    return windows.max(axis=tuple(range(x.ndim, 2 * x.ndim)))


def self_attn(p, x):
    x = linear(p["in_proj"], x.transpose(1, 0, 2))
    x = x.reshape(1, 16, -1, 3, 8).transpose(3, 1, 2, 0, 4)
    x = x.reshape(3, 16, -1, 8)
    y = x[:1].reshape(16, -1, 4).transpose(1, 0, 2)
    y2 = x[1:2].reshape(16, -1, 4).transpose(1, 0, 2)
    x = x[2:].reshape(16, -1, 4).transpose(1, 0, 2)
    y2 = y2.reshape(-1, 2, 16, 4).transpose(0, 1, 3, 2)
    y = y.reshape(-1, 2, 16, 4) * 0.5 @ y2
    y = softmax(y, axis=-1) @ x.reshape(-1, 2, 16, 4)
    y = y.transpose(2, 0, 1, 3).reshape(-1, 8)
    y = linear(p["out_proj"], y).reshape(16, -1, 8)
    return y.transpose(1, 0, 2)


def encoder(p, x):
    x = layer_norm(p["norm1"], x + self_attn(p["self_attn"], x))
    linear2 = linear(p["linear2"], np.maximum(linear(p["linear1"], x), 0))
    return layer_norm(p["norm2"], x + linear2)


def net(p, image):
    image = conv2d(p["features"][0], image, padding=((1, 1), (1, 1)))
    image = np.maximum(batch_norm(p["features"][1], image, axis=1), 0)
    image = max_pool(image, (1, 1, 2, 2), (1, 1, 2, 2), 0)
    image = image.reshape(-1, 8, 16).transpose(0, 2, 1)
    image = encoder(p["encoder"][1], encoder(p["encoder"][0], image)).mean(axis=1)
    return linear(p["classifier"], image)


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
