import jax
from flax import nnx
from safetensors.flax import load_file


class MultiHeadAttention(nnx.Module):
    def __init__(self, *, rngs):
        self.to_q = nnx.Linear(8, 8, rngs=rngs)
        self.to_kv_k = nnx.Linear(8, 8, rngs=rngs)
        self.to_kv_v = nnx.Linear(8, 8, rngs=rngs)
        self.to_out = nnx.List([nnx.Linear(8, 8, rngs=rngs)])

    def __call__(self, x):
        y = self.to_q(x).reshape(-1, 5, 2, 4) * 0.5
        y2 = self.to_kv_k(x).reshape(-1, 5, 2, 4).transpose(0, 2, 3, 1)
        y = y.transpose(0, 2, 1, 3) @ y2
        x = self.to_kv_v(x).reshape(-1, 5, 2, 4).transpose(0, 2, 1, 3)
        y = (jax.nn.softmax(y, axis=-1) @ x).transpose(0, 2, 1, 3)
        return self.to_out[0](y.reshape(-1, 5, 8))


class TransformerEncoderLayer(nnx.Module):
    def __init__(self, *, rngs):
        self.norms = nnx.List(
            [nnx.LayerNorm(8, epsilon=1e-5, rngs=rngs) for _ in range(2)]
        )
        self.attention = MultiHeadAttention(rngs=rngs)
        self.hidden = nnx.Linear(8, 16, rngs=rngs)
        self.out = nnx.Linear(16, 8, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x))
        hidden = self.hidden(self.norms[1](x))
        return x + self.out(jax.nn.gelu(hidden, approximate=False))


class Encoder(nnx.Module):
    def __init__(self, *, rngs):
        self.layers = nnx.List([TransformerEncoderLayer(rngs=rngs) for _ in range(2)])
        self.norm = nnx.LayerNorm(8, epsilon=1e-5, rngs=rngs)
        self.head = nnx.Linear(8, 3, rngs=rngs)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def load(path):
    """The model with the weights of a file."""
    model = Encoder(rngs=nnx.Rngs(0))
    values = load_file(path)
    state = nnx.state(model)
    for words, variable in nnx.to_flat_state(state):
        name = ".".join(map(str, words))
        if name in values:
            variable.set_value(values[name])
    nnx.update(model, state)
    return model
