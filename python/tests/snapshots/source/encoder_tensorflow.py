import tensorflow as tf
from safetensors.tensorflow import load_file


def linear(p, x):
    y = tf.matmul(x, p["weight"])
    return y + p["bias"] if "bias" in p else y


def layer_norm(p, x, eps=1e-5):
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    var = tf.math.reduce_variance(x, axis=-1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(var + eps) * p["scale"] + p["bias"]


def multi_head_attention(p, x):
    y = tf.reshape(linear(p["to_kv_v"], x), (-1, 5, 2, 4))
    y2 = tf.reshape(linear(p["to_q"], x), (-1, 5, 2, 4)) * 0.5
    x = tf.reshape(linear(p["to_kv_k"], x), (-1, 5, 2, 4))
    x = tf.transpose(x, (0, 2, 3, 1))
    y2 = tf.matmul(tf.transpose(y2, (0, 2, 1, 3)), x)
    y = tf.transpose(y, (0, 2, 1, 3))
    y2 = tf.matmul(tf.nn.softmax(y2, axis=-1), y)
    y2 = tf.reshape(tf.transpose(y2, (0, 2, 1, 3)), (-1, 5, 8))
    return linear(p["to_out"][0], y2)


def transformer_encoder_layer(p, x):
    x = x + multi_head_attention(p["attention"], layer_norm(p["norms"][0], x))
    hidden = linear(p["hidden"], layer_norm(p["norms"][1], x))
    return x + linear(p["out"], tf.nn.gelu(hidden))


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
        part[last] = tf.Variable(value)
    return _listed(params)


def _listed(part):
    if not isinstance(part, dict):
        return part
    part = {name: _listed(inner) for name, inner in part.items()}
    if all(name.isdigit() for name in part):
        return [part[name] for name in sorted(part, key=int)]
    return part
