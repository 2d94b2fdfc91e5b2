import keras
from keras import layers, ops
from safetensors.numpy import load_file


class CNN(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.conv1 = layers.Conv2D(8, 3, strides=2, padding="same", name="conv1")
        self.norm1 = layers.BatchNormalization(epsilon=1e-5, name="norm1")
        self.conv2 = layers.Conv2D(16, 3, use_bias=False, name="conv2")
        self.norm2 = layers.BatchNormalization(epsilon=1e-5, name="norm2")
        self.head = layers.Dense(10, name="head")

    def call(self, x):
        x = ops.relu(self.norm1(self.conv1(x)))
        x = ops.max_pool(x, 2, 2, "valid", data_format="channels_last")
        x = ops.mean(ops.relu(self.norm2(self.conv2(x))), axis=(1, 2))
        return self.head(x)


def load(path):
    """The model with the weights of a file."""
    model = CNN(name="model")
    model(ops.zeros((1, 16, 16, 3)))
    values = load_file(path)
    for variable in model.variables:
        name = variable.path.removeprefix("model/")
        if name in values:
            variable.assign(values[name])
    return model
