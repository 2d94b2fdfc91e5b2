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


def conv2d_nhwc(p, x, strides=1, padding=((0, 0), (0, 0)), dilation=1, groups=1):
    return _conv(p, x, "NHWC", "HWIO", strides, padding, dilation, groups)


def cnn(p, x):
    x = conv2d_nhwc(p["conv1"], x, strides=2, padding=((0, 1), (0, 1)))
    x = jax.nn.relu(batch_norm(p["norm1"], x))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = batch_norm(p["norm2"], conv2d_nhwc(p["conv2"], x))
    return linear(p["head"], jax.nn.relu(x).mean(axis=(1, 2)))


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
