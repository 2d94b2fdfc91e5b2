import jax
import jax.numpy as jnp
from jax import lax
from safetensors.flax import load_file


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def batch_norm(p, x, axis=-1, eps=1e-5):
    shape = [1] * x.ndim
    shape[axis] = -1
    scale = p["scale"] * lax.rsqrt(p["var"] + eps)
    offset = p["bias"] - p["mean"] * scale
    return x * scale.reshape(shape) + offset.reshape(shape)


def layer_norm(p, x, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + eps) * p["scale"] + p["bias"]


def _conv(p, x, data, kernel, strides, padding, dilation, groups):
    n = x.ndim - 2
    y = lax.conv_general_dilated(
        x,
        p["weight"],
        strides if isinstance(strides, tuple) else (strides,) * n,
        padding,
        rhs_dilation=dilation if isinstance(dilation, tuple) else (dilation,) * n,
        dimension_numbers=(data, kernel, data),
        feature_group_count=groups,
    )
    if "bias" not in p:
        return y
    shape = (-1,) if data.endswith("C") else (-1,) + (1,) * n
    return y + p["bias"].reshape(shape)


def conv2d(p, x, strides=1, padding=((0, 0), (0, 0)), dilation=1, groups=1):
    return _conv(p, x, "NCHW", "OIHW", strides, padding, dilation, groups)


def self_attn(p, x):
    x = linear(p["in_proj"], x.transpose(1, 0, 2))
    x = x.reshape(1, 16, -1, 3, 8).transpose(3, 1, 2, 0, 4)
    x = x.reshape(3, 16, -1, 8)
    y = x[:1].reshape(16, -1, 4).transpose(1, 0, 2)
    y2 = x[1:2].reshape(16, -1, 4).transpose(1, 0, 2)
    x = x[2:].reshape(16, -1, 4).transpose(1, 0, 2)
    y2 = y2.reshape(-1, 2, 16, 4).transpose(0, 1, 3, 2)
    y = y.reshape(-1, 2, 16, 4) * 0.5 @ y2
    y = jax.nn.softmax(y, axis=-1) @ x.reshape(-1, 2, 16, 4)
    y = y.transpose(2, 0, 1, 3).reshape(-1, 8)
    y = linear(p["out_proj"], y).reshape(16, -1, 8)
    return y.transpose(1, 0, 2)


def encoder(p, x):
    x = layer_norm(p["norm1"], x + self_attn(p["self_attn"], x))
    linear2 = linear(p["linear2"], jax.nn.relu(linear(p["linear1"], x)))
    return layer_norm(p["norm2"], x + linear2)


def net(p, image):
    image = conv2d(p["features"][0], image, padding=((1, 1), (1, 1)))
    image = jax.nn.relu(batch_norm(p["features"][1], image, axis=1))
    image = lax.reduce_window(
        image, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
    )
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
