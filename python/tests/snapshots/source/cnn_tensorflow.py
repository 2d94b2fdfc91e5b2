import tensorflow as tf
from safetensors.tensorflow import load_file


def linear(p, x):
    y = tf.matmul(x, p["weight"])
    return y + p["bias"] if "bias" in p else y


def batch_norm(p, x, axis=-1, eps=1e-5):
    shape = [1] * len(x.shape)
    shape[axis] = -1
    scale = p["scale"] * tf.math.rsqrt(p["var"] + eps)
    offset = p["bias"] - p["mean"] * scale
    return x * tf.reshape(scale, shape) + tf.reshape(offset, shape)


def conv2d(p, x, strides=1, padding="VALID", dilation=1):
    y = tf.nn.conv2d(x, p["weight"], strides, padding, dilations=dilation)
    return y + p["bias"] if "bias" in p else y


def cnn(p, x):
    x = conv2d(p["conv1"], x, strides=2, padding="SAME")
    x = tf.nn.relu(batch_norm(p["norm1"], x))
    x = conv2d(p["conv2"], tf.nn.max_pool2d(x, 2, 2, "VALID"))
    x = tf.nn.relu(batch_norm(p["norm2"], x))
    return linear(p["head"], tf.reduce_mean(x, axis=(1, 2)))


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
