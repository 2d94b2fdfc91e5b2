import keras
from keras import layers, ops
from safetensors.numpy import load_file


class SelfAttn(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.in_proj = layers.Dense(24, name="in_proj")
        self.out_proj = layers.Dense(8, name="out_proj")

    def call(self, x):
        x = self.in_proj(ops.transpose(x, (1, 0, 2)))
        x = ops.reshape(x, (1, 16, -1, 3, 8))
        x = ops.transpose(x, (3, 1, 2, 0, 4))
        x = ops.reshape(x, (3, 16, -1, 8))
        y = ops.transpose(ops.reshape(x[:1], (16, -1, 4)), (1, 0, 2))
        y2 = ops.transpose(ops.reshape(x[1:2], (16, -1, 4)), (1, 0, 2))
        x = ops.transpose(ops.reshape(x[2:], (16, -1, 4)), (1, 0, 2))
        y = ops.reshape(y, (-1, 2, 16, 4)) * 0.5
        y2 = ops.transpose(ops.reshape(y2, (-1, 2, 16, 4)), (0, 1, 3, 2))
        x = ops.reshape(x, (-1, 2, 16, 4))
        y = ops.matmul(ops.softmax(ops.matmul(y, y2), axis=-1), x)
        y = ops.reshape(ops.transpose(y, (2, 0, 1, 3)), (-1, 8))
        y = ops.reshape(self.out_proj(y), (16, -1, 8))
        return ops.transpose(y, (1, 0, 2))


class Encoder(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.self_attn = SelfAttn(name="self_attn")
        self.norm1 = layers.LayerNormalization(epsilon=1e-5, name="norm1")
        self.linear1 = layers.Dense(16, name="linear1")
        self.linear2 = layers.Dense(8, name="linear2")
        self.norm2 = layers.LayerNormalization(epsilon=1e-5, name="norm2")

    def call(self, x):
        x = self.norm1(x + self.self_attn(x))
        return self.norm2(x + self.linear2(ops.relu(self.linear1(x))))


class Net(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.features = [
            layers.Conv2D(8, 3, padding="same", name="features_0"),
            layers.BatchNormalization(epsilon=1e-5, name="features_1"),
        ]
        self.encoder = [Encoder(name=f"encoder_{i}") for i in range(2)]
        self.classifier = layers.Dense(4, name="classifier")

    def call(self, image):
        image = ops.transpose(image, (0, 2, 3, 1))
        for feature in self.features:
            image = feature(image)
        image = ops.relu(image)
        image = ops.max_pool(image, 2, 2, "valid", data_format="channels_last")
        image = ops.reshape(ops.transpose(image, (0, 3, 1, 2)), (-1, 8, 16))
        image = ops.transpose(image, (0, 2, 1))
        for layer in self.encoder:
            image = layer(image)
        return self.classifier(ops.mean(image, axis=1))


def load(path):
    """The model with the weights of a file."""
    model = Net(name="model")
    model(ops.zeros((1, 3, 8, 8)))
    values = load_file(path)
    for variable in model.variables:
        name = variable.path.removeprefix("model/")
        if name in values:
            variable.assign(values[name])
    return model
