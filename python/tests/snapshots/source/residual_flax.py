import jax
from flax import nnx
from safetensors.flax import load_file


class Block(nnx.Module):
    def __init__(self, out_features, *, rngs):
        self.conv1 = nnx.Conv(
            4, out_features, kernel_size=(3, 3), padding=((1, 1), (1, 1)), rngs=rngs
        )
        self.conv2 = nnx.Conv(
            out_features, 4, kernel_size=(3, 3), padding=((1, 1), (1, 1)), rngs=rngs
        )

    def __call__(self, x):
        return jax.nn.relu(x + self.conv2(jax.nn.relu(self.conv1(x))))


class Residual(nnx.Module):
    def __init__(self, *, rngs):
        self.stem = nnx.Conv(3, 4, kernel_size=(1, 1), padding="VALID", rngs=rngs)
        self.first = Block(8, rngs=rngs)
        self.second = Block(6, rngs=rngs)
        self.head = nnx.Linear(4, 2, rngs=rngs)

    def __call__(self, x):
        x = self.second(self.first(self.stem(x))).mean(axis=(1, 2))
        return self.head(x)


def load(path):
    """The model with the weights of a file."""
    model = Residual(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
