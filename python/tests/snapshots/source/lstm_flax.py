import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax
from safetensors.flax import load_file


class LSTM(nnx.Module):
    def __init__(self, *, rngs):
        self.input_layer_0 = nnx.Linear(8, 24, rngs=rngs)
        self.recurrent_layer_0_w = nnx.Param(jnp.zeros((6, 24)))
        self.recurrent_layer_0_b = nnx.Param(jnp.zeros((24,)))

    def __call__(self, x):
        batch = x.shape[0]
        y = jnp.zeros((batch, 6))
        x = (self.input_layer_0(x) + self.recurrent_layer_0_b).transpose(1, 0, 2)

        def step(carry, x, w=self.recurrent_layer_0_w):
            h, c = carry
            x = x + h @ w
            y = x[:, :6]
            y2 = x[:, 18:]
            y = jax.nn.sigmoid(y) * jnp.tanh(x[:, 12:18])
            x = jax.nn.sigmoid(x[:, 6:12]) * c + y
            y2 = jax.nn.sigmoid(y2) * jnp.tanh(x)
            return (y2, x), y2

        (_, _), h = lax.scan(step, (jnp.zeros((batch, 6)), y), x)
        return h.transpose(1, 0, 2)[:, 4:].reshape(-1, 6)


class Classifier(nnx.Module):
    def __init__(self, *, rngs):
        self.words = nnx.Embed(20, 8, rngs=rngs)
        self.lstm = LSTM(rngs=rngs)
        self.head = nnx.Linear(6, 4, rngs=rngs)

    def __call__(self, index):
        return self.head(self.lstm(self.words(index)))


def load(path):
    """The model with the weights of a file."""
    model = Classifier(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
