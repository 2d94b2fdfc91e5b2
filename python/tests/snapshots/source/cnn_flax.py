import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from safetensors.flax import load_file


class CNN(nnx.Module):
    def __init__(self, *, rngs):
        self.conv1 = nnx.Conv(
            3, 8, kernel_size=(3, 3), strides=2, padding=((0, 1), (0, 1)), rngs=rngs
        )
        self.norm1 = nnx.BatchNorm(8, use_running_average=True, rngs=rngs)
        self.conv2 = nnx.Conv(
            8, 16, kernel_size=(3, 3), padding="VALID", use_bias=False, rngs=rngs
        )
        self.norm2 = nnx.BatchNorm(16, use_running_average=True, rngs=rngs)
        self.head = nnx.Linear(16, 10, rngs=rngs)

    def __call__(self, x):
        x = jax.nn.relu(self.norm1(self.conv1(x)))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(self.norm2(self.conv2(x))).mean(axis=(1, 2))
        return self.head(x)


def load(path):
    """The model with the weights of a file."""
    model = CNN(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
