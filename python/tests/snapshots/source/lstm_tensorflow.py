import tensorflow as tf
from safetensors.tensorflow import load_file


def linear(p, x):
    y = tf.matmul(x, p["weight"])
    return y + p["bias"] if "bias" in p else y


def embedding(p, index):
    return tf.gather(p["weight"], index)


def scan(step, carry, xs, length=None, reverse=False):
    rows = range(length) if xs is None else xs
    if isinstance(rows, tuple):
        rows = list(zip(*map(tf.unstack, rows)))
    else:
        rows = list(rows) if xs is None else tf.unstack(rows)
    ys = []
    for x in reversed(rows) if reverse else rows:
        carry, y = step(carry, x)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    if isinstance(ys[0], tuple):
        return carry, tuple(tf.stack(y) for y in zip(*ys))
    return carry, None if ys[0] is None else tf.stack(ys)


def lstm(p, x):
    batch = tf.shape(x)[0]
    x = tf.transpose(
        linear(p["input_layer_0"], x) + p["recurrent_layer_0_b"], (1, 0, 2)
    )

    def step(carry, x, w=p["recurrent_layer_0_w"]):
        h, c = carry
        x = x + tf.matmul(h, w)
        y = x[:, :6]
        y2 = x[:, 18:]
        y = tf.sigmoid(y) * tf.tanh(x[:, 12:18])
        x = tf.sigmoid(x[:, 6:12]) * c + y
        y2 = tf.sigmoid(y2) * tf.tanh(x)
        return (y2, x), y2

    (_, _), h = scan(step, (tf.zeros((batch, 6)), tf.zeros((batch, 6))), x)
    return tf.reshape(tf.transpose(h, (1, 0, 2))[:, 4:], (-1, 6))


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
        part[last] = tf.Variable(value)
    return _listed(params)


def _listed(part):
    if not isinstance(part, dict):
        return part
    part = {name: _listed(inner) for name, inner in part.items()}
    if all(name.isdigit() for name in part):
        return [part[name] for name in sorted(part, key=int)]
    return part
