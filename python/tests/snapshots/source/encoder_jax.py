import jax
from jax import lax
from safetensors.flax import load_file


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def layer_norm(p, x, eps=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    var = x.var(axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + eps) * p["scale"] + p["bias"]


def multi_head_attention(p, x):
    y = linear(p["to_kv_v"], x).reshape(-1, 5, 2, 4)
    y2 = linear(p["to_q"], x).reshape(-1, 5, 2, 4) * 0.5
    x = linear(p["to_kv_k"], x).reshape(-1, 5, 2, 4)
    x = x.transpose(0, 2, 3, 1)
    y2 = y2.transpose(0, 2, 1, 3) @ x
    y = y.transpose(0, 2, 1, 3)
    y2 = (jax.nn.softmax(y2, axis=-1) @ y).transpose(0, 2, 1, 3)
    return linear(p["to_out"][0], y2.reshape(-1, 5, 8))


def transformer_encoder_layer(p, x):
    x = x + multi_head_attention(p["attention"], layer_norm(p["norms"][0], x))
    hidden = linear(p["hidden"], layer_norm(p["norms"][1], x))
    return x + linear(p["out"], jax.nn.gelu(hidden, approximate=False))


def encoder(p, x):
    x = transformer_encoder_layer(
        p["layers"][1], transformer_encoder_layer(p["layers"][0], x)
    )
    return linear(p["head"], layer_norm(p["norm"], x))


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
