import keras
from keras import layers, ops
from safetensors.numpy import load_file


class MultiHeadAttention(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.to_q = layers.Dense(8, name="to_q")
        self.to_kv_k = layers.Dense(8, name="to_kv_k")
        self.to_kv_v = layers.Dense(8, name="to_kv_v")
        self.to_out = [layers.Dense(8, name="to_out_0")]

    def call(self, x):
        y = ops.reshape(self.to_kv_v(x), (-1, 5, 2, 4))
        y2 = ops.reshape(self.to_q(x), (-1, 5, 2, 4)) * 0.5
        x = ops.reshape(self.to_kv_k(x), (-1, 5, 2, 4))
        x = ops.transpose(x, (0, 2, 3, 1))
        y2 = ops.matmul(ops.transpose(y2, (0, 2, 1, 3)), x)
        y = ops.transpose(y, (0, 2, 1, 3))
        y2 = ops.matmul(ops.softmax(y2, axis=-1), y)
        y2 = ops.reshape(ops.transpose(y2, (0, 2, 1, 3)), (-1, 5, 8))
        return self.to_out[0](y2)


class TransformerEncoderLayer(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.norms = [
            layers.LayerNormalization(epsilon=1e-5, name=f"norms_{i}") for i in range(2)
        ]
        self.attention = MultiHeadAttention(name="attention")
        self.hidden = layers.Dense(16, name="hidden")
        self.out = layers.Dense(8, name="out")

    def call(self, x):
        x = x + self.attention(self.norms[0](x))
        y = ops.gelu(self.hidden(self.norms[1](x)), approximate=False)
        return x + self.out(y)


class Encoder(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.blocks = [TransformerEncoderLayer(name=f"blocks_{i}") for i in range(2)]
        self.norm = layers.LayerNormalization(epsilon=1e-5, name="norm")
        self.head = layers.Dense(3, name="head")

    def call(self, x):
        for layer in self.blocks:
            x = layer(x)
        return self.head(self.norm(x))


def load(path):
    """The model with the weights of a file."""
    model = Encoder(name="model")
    model(ops.zeros((1, 5, 8)))
    values = load_file(path)
    for variable in model.variables:
        name = variable.path.removeprefix("model/")
        if name in values:
            variable.assign(values[name])
    return model
