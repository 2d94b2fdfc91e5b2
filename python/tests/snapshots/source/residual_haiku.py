import haiku as hk
import jax
from safetensors.flax import load_file


class Block(hk.Module):
    def __init__(self, out_features, name=None):
        super().__init__(name)
        self.conv1 = hk.Conv2D(out_features, 3, padding=((1, 1), (1, 1)), name="conv1")
        self.conv2 = hk.Conv2D(4, 3, padding=((1, 1), (1, 1)), name="conv2")

    def __call__(self, x):
        return jax.nn.relu(x + self.conv2(jax.nn.relu(self.conv1(x))))


class Residual(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.stem = hk.Conv2D(4, 1, padding="VALID", name="stem")
        self.first = Block(8, name="first")
        self.second = Block(6, name="second")
        self.head = hk.Linear(2, name="head")

    def __call__(self, x):
        x = self.second(self.first(self.stem(x))).mean(axis=(1, 2))
        return self.head(x)


model = hk.transform(lambda x: Residual(name="model")(x))


def load(path):
    """Parameters from a file, for `model.apply(params, None, ...)`."""
    params = {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        params.setdefault(module, {})[name] = value
    return params
