import tensorflow as tf
from safetensors.tensorflow import load_file


def linear(p, x):
    y = tf.matmul(x, p["weight"])
    return y + p["bias"] if "bias" in p else y


def mlp(p, x):
    x = linear(p["out"], tf.nn.relu(linear(p["hidden"], x)))
    return tf.nn.softmax(x, axis=-1)


def load(path):
    """Loads the parameters as nested dicts and lists."""
    params = {}
    for name, value in load_file(path).items():
        *above, last = name.split(".")
        part = params
        for word in above:
            part = part.setdefault(word, {})
        part[last] = tf.Variable(value)
    return _listed(params)


def _listed(part):
    if not isinstance(part, dict):
        return part
    part = {name: _listed(inner) for name, inner in part.items()}
    if all(name.isdigit() for name in part):
        return [part[name] for name in sorted(part, key=int)]
    return part
