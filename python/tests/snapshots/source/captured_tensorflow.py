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


def layer_norm(p, x, eps=1e-5):
    mean = tf.reduce_mean(x, axis=-1, keepdims=True)
    var = tf.math.reduce_variance(x, axis=-1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(var + eps) * p["scale"] + p["bias"]


def conv2d(p, x, strides=1, padding="VALID", dilation=1):
    y = tf.nn.conv2d(x, p["weight"], strides, padding, dilations=dilation)
    return y + p["bias"] if "bias" in p else y


def self_attn(p, x):
    x = linear(p["in_proj"], tf.transpose(x, (1, 0, 2)))
    x = tf.reshape(x, (1, 16, -1, 3, 8))
    x = tf.reshape(tf.transpose(x, (3, 1, 2, 0, 4)), (3, 16, -1, 8))
    y = tf.transpose(tf.reshape(x[:1], (16, -1, 4)), (1, 0, 2))
    y2 = tf.transpose(tf.reshape(x[1:2], (16, -1, 4)), (1, 0, 2))
    x = tf.transpose(tf.reshape(x[2:], (16, -1, 4)), (1, 0, 2))
    y = tf.reshape(y, (-1, 2, 16, 4)) * 0.5
    y2 = tf.transpose(tf.reshape(y2, (-1, 2, 16, 4)), (0, 1, 3, 2))
    x = tf.reshape(x, (-1, 2, 16, 4))
    y = tf.matmul(tf.nn.softmax(tf.matmul(y, y2), axis=-1), x)
    y = tf.reshape(tf.transpose(y, (2, 0, 1, 3)), (-1, 8))
    y = tf.reshape(linear(p["out_proj"], y), (16, -1, 8))
    return tf.transpose(y, (1, 0, 2))


def encoder(p, x):
    x = layer_norm(p["norm1"], x + self_attn(p["self_attn"], x))
    linear2 = linear(p["linear2"], tf.nn.relu(linear(p["linear1"], x)))
    return layer_norm(p["norm2"], x + linear2)


def net(p, image):
    image = tf.transpose(image, (0, 2, 3, 1))
    image = conv2d(p["features"][0], image, padding="SAME")
    image = tf.nn.relu(batch_norm(p["features"][1], image))
    image = tf.nn.max_pool2d(image, 2, 2, "VALID")
    image = tf.reshape(tf.transpose(image, (0, 3, 1, 2)), (-1, 8, 16))
    image = encoder(p["encoder"][0], tf.transpose(image, (0, 2, 1)))
    image = tf.reduce_mean(encoder(p["encoder"][1], image), axis=1)
    return linear(p["classifier"], image)


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
