import haiku as hk
import jax
import jax.numpy as jnp
from jax import lax
from safetensors.flax import load_file


class LSTM(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.input_layer_0 = hk.Linear(24, name="input_layer_0")
        self.recurrent_layer_0_w = hk.get_parameter(
            "recurrent_layer_0_w", (6, 24), init=hk.initializers.Constant(0.0)
        )
        self.recurrent_layer_0_b = hk.get_parameter(
            "recurrent_layer_0_b", (24,), init=hk.initializers.Constant(0.0)
        )

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


class Classifier(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.words = hk.Embed(20, 8, name="words")
        self.lstm = LSTM(name="lstm")
        self.head = hk.Linear(4, name="head")

    def __call__(self, index):
        return self.head(self.lstm(self.words(index)))


model = hk.transform(lambda index: Classifier(name="model")(index))


def load(path):
    """Parameters from a file, for `model.apply(params, None, ...)`."""
    params = {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        params.setdefault(module, {})[name] = value
    return params
