import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from safetensors.flax import load_file


class SelfAttn(nnx.Module):
    def __init__(self, *, rngs):
        self.in_proj = nnx.Linear(8, 24, rngs=rngs)
        self.out_proj = nnx.Linear(8, 8, rngs=rngs)

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


class Encoder(nnx.Module):
    def __init__(self, *, rngs):
        self.self_attn = SelfAttn(rngs=rngs)
        self.norm1 = nnx.LayerNorm(8, epsilon=1e-5, rngs=rngs)
        self.linear1 = nnx.Linear(8, 16, rngs=rngs)
        self.linear2 = nnx.Linear(16, 8, rngs=rngs)
        self.norm2 = nnx.LayerNorm(8, epsilon=1e-5, rngs=rngs)

    def __call__(self, x):
        x = self.norm1(x + self.self_attn(x))
        x = self.norm2(x + self.linear2(jax.nn.relu(self.linear1(x))))
        return x


class Net(nnx.Module):
    def __init__(self, *, rngs):
        self.features = nnx.List(
            [
                nnx.Conv(3, 8, kernel_size=(3, 3), padding=((1, 1), (1, 1)), rngs=rngs),
                nnx.BatchNorm(8, use_running_average=True, rngs=rngs),
            ],
        )
        self.encoder = nnx.List([Encoder(rngs=rngs) for _ in range(2)])
        self.classifier = nnx.Linear(8, 4, rngs=rngs)

    def __call__(self, image):
        image = image.transpose(0, 2, 3, 1)
        for feature in self.features:
            image = feature(image)
        image = jax.nn.relu(image).transpose(0, 3, 1, 2)
        image = lax.reduce_window(
            image, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID"
        )
        image = image.reshape(-1, 8, 16).transpose(0, 2, 1)
        for layer in self.encoder:
            image = layer(image)
        return self.classifier(image.mean(axis=1))


def load(path):
    """The model with the weights of a file."""
    model = Net(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
