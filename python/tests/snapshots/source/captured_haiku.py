import haiku as hk
import jax
import jax.numpy as jnp
from jax import lax
from safetensors.flax import load_file


class SelfAttn(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.in_proj = hk.Linear(24, name="in_proj")
        self.out_proj = hk.Linear(8, name="out_proj")

    def __call__(self, x):
        x = self.in_proj(x.transpose(1, 0, 2)).reshape(1, 16, -1, 3, 8)
        x = x.transpose(3, 1, 2, 0, 4).reshape(3, 16, -1, 8)
        y = x[:1].reshape(16, -1, 4).transpose(1, 0, 2)
        y2 = x[1:2].reshape(16, -1, 4).transpose(1, 0, 2)
        x = x[2:].reshape(16, -1, 4).transpose(1, 0, 2)
        y2 = y2.reshape(-1, 2, 16, 4).transpose(0, 1, 3, 2)
        y = y.reshape(-1, 2, 16, 4) * 0.5 @ y2
        y = jax.nn.softmax(y, axis=-1) @ x.reshape(-1, 2, 16, 4)
        y = self.out_proj(y.transpose(2, 0, 1, 3).reshape(-1, 8))
        return y.reshape(16, -1, 8).transpose(1, 0, 2)


class Encoder(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.self_attn = SelfAttn(name="self_attn")
        self.norm1 = hk.LayerNorm(-1, True, True, name="norm1")
        self.linear1 = hk.Linear(16, name="linear1")
        self.linear2 = hk.Linear(8, name="linear2")
        self.norm2 = hk.LayerNorm(-1, True, True, name="norm2")

    def __call__(self, x):
        x = self.norm1(x + self.self_attn(x))
        x = self.norm2(x + self.linear2(jax.nn.relu(self.linear1(x))))
        return x


class Net(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.features = [
            hk.Conv2D(8, 3, padding=((1, 1), (1, 1)), name="features_0"),
            hk.BatchNorm(True, True, decay_rate=0.9, name="features_1"),
        ]
        self.encoder = [Encoder(name=f"encoder_{i}") for i in range(2)]
        self.classifier = hk.Linear(4, name="classifier")

    def __call__(self, image):
        image = self.features[0](image.transpose(0, 2, 3, 1))
        image = jax.nn.relu(self.features[1](image, is_training=False))
        image = image.transpose(0, 3, 1, 2)
        image = lax.reduce_window(
            image, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )
        image = image.reshape(-1, 8, 16).transpose(0, 2, 1)
        for layer in self.encoder:
            image = layer(image)
        return self.classifier(image.mean(axis=1))


model = hk.transform_with_state(lambda image: Net(name="model")(image))


def load(path):
    """Parameters and state from a file, for `model.apply(params, state, None, ...)`."""
    params, state = {}, {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        part = state if module.endswith("_ema") else params
        part.setdefault(module, {})[name] = value
    return params, state
