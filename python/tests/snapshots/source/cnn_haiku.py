import haiku as hk
import jax
import jax.numpy as jnp
from jax import lax
from safetensors.flax import load_file


class CNN(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.conv1 = hk.Conv2D(8, 3, stride=2, padding=((0, 1), (0, 1)), name="conv1")
        self.norm1 = hk.BatchNorm(True, True, decay_rate=0.9, name="norm1")
        self.conv2 = hk.Conv2D(16, 3, padding="VALID", with_bias=False, name="conv2")
        self.norm2 = hk.BatchNorm(True, True, decay_rate=0.9, name="norm2")
        self.head = hk.Linear(10, name="head")

    def __call__(self, x):
        x = jax.nn.relu(self.norm1(self.conv1(x), is_training=False))
        x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        x = jax.nn.relu(self.norm2(self.conv2(x), is_training=False))
        return self.head(x.mean(axis=(1, 2)))


model = hk.transform_with_state(lambda x: CNN(name="model")(x))


def load(path):
    """Parameters and state from a file, for `model.apply(params, state, None, ...)`."""
    params, state = {}, {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        part = state if module.endswith("_ema") else params
        part.setdefault(module, {})[name] = value
    return params, state
