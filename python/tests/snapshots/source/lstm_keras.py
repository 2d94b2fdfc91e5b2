import keras
from keras import layers, ops
from safetensors.numpy import load_file


def scan(step, carry, xs, length=None, reverse=False):
    rows = range(length) if xs is None else xs
    if isinstance(rows, tuple):
        rows = list(zip(*map(ops.unstack, rows)))
    else:
        rows = list(rows) if xs is None else ops.unstack(rows)
    ys = []
    for x in reversed(rows) if reverse else rows:
        carry, y = step(carry, x)
        ys.append(y)
    ys = ys[::-1] if reverse else ys
    if isinstance(ys[0], tuple):
        return carry, tuple(ops.stack(y) for y in zip(*ys))
    return carry, None if ys[0] is None else ops.stack(ys)


class LSTM(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.input_layer_0 = layers.Dense(24, name="input_layer_0")
        self.recurrent_layer_0_w = self.add_weight(
            shape=(6, 24), name="recurrent_layer_0_w"
        )
        self.recurrent_layer_0_b = self.add_weight(
            shape=(24,), name="recurrent_layer_0_b"
        )

    def call(self, x):
        batch = ops.shape(x)[0]
        y = ops.zeros((batch, 6))
        x = ops.transpose(self.input_layer_0(x) + self.recurrent_layer_0_b, (1, 0, 2))

        def step(carry, x, w=self.recurrent_layer_0_w):
            h, c = carry
            x = x + ops.matmul(h, w)
            y = x[:, :6]
            y2 = x[:, 18:]
            y = ops.sigmoid(y) * ops.tanh(x[:, 12:18])
            x = ops.sigmoid(x[:, 6:12]) * c + y
            y2 = ops.sigmoid(y2) * ops.tanh(x)
            return (y2, x), y2

        (_, _), h = scan(step, (ops.zeros((batch, 6)), y), x)
        return ops.reshape(ops.transpose(h, (1, 0, 2))[:, 4:], (-1, 6))


class Classifier(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.words = layers.Embedding(20, 8, name="words")
        self.lstm = LSTM(name="lstm")
        self.head = layers.Dense(4, name="head")

    def call(self, index):
        return self.head(self.lstm(self.words(index)))


def load(path):
    """The model with the weights of a file."""
    model = Classifier(name="model")
    model(ops.zeros((1, 5), dtype="int64"))
    values = load_file(path)
    for variable in model.variables:
        name = variable.path.removeprefix("model/")
        if name in values:
            variable.assign(values[name])
    return model
