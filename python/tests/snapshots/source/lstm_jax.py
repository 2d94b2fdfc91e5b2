import jax
import jax.numpy as jnp
from jax import lax
from safetensors.flax import load_file


def linear(p, x):
    y = x @ p["weight"]
    return y + p["bias"] if "bias" in p else y


def embedding(p, index):
    return p["weight"][index]


def lstm(p, x):
    batch = x.shape[0]
    y = jnp.zeros((batch, 6))
    x = (linear(p["input_layer_0"], x) + p["recurrent_layer_0_b"]).transpose(1, 0, 2)

    def step(carry, x, w=p["recurrent_layer_0_w"]):
        h, c = carry
        x = x + h @ w
        y = x[:, :6]
        y2 = x[:, 18:]
        y = jax.nn.sigmoid(y) * jnp.tanh(x[:, 12:18])
        x = jax.nn.sigmoid(x[:, 6:12]) * c + y
        y2 = jax.nn.sigmoid(y2) * jnp.tanh(x)
        return (y2, x), y2

    (_, _), h = lax.scan(step, (jnp.zeros((batch, 6)), y), x)
    return h.transpose(1, 0, 2)[:, 4:].reshape(-1, 6)


def classifier(p, index):
    index = linear(p["head"], lstm(p["lstm"], embedding(p["words"], index)))
    return index


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
