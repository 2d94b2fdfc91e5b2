import haiku as hk
import jax
from safetensors.flax import load_file


class MultiHeadAttention(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.to_q = hk.Linear(8, name="to_q")
        self.to_kv_k = hk.Linear(8, name="to_kv_k")
        self.to_kv_v = hk.Linear(8, name="to_kv_v")
        self.to_out = [hk.Linear(8, name="to_out_0")]

    def __call__(self, x):
        y = self.to_q(x).reshape(-1, 5, 2, 4) * 0.5
        y2 = self.to_kv_k(x).reshape(-1, 5, 2, 4).transpose(0, 2, 3, 1)
        y = y.transpose(0, 2, 1, 3) @ y2
        x = self.to_kv_v(x).reshape(-1, 5, 2, 4).transpose(0, 2, 1, 3)
        y = (jax.nn.softmax(y, axis=-1) @ x).transpose(0, 2, 1, 3)
        return self.to_out[0](y.reshape(-1, 5, 8))


class TransformerEncoderLayer(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.norms = [hk.LayerNorm(-1, True, True, name=f"norms_{i}") for i in range(2)]
        self.attention = MultiHeadAttention(name="attention")
        self.hidden = hk.Linear(16, name="hidden")
        self.out = hk.Linear(8, name="out")

    def __call__(self, x):
        x = x + self.attention(self.norms[0](x))
        hidden = self.hidden(self.norms[1](x))
        return x + self.out(jax.nn.gelu(hidden, approximate=False))


class Encoder(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.layers = [TransformerEncoderLayer(name=f"layers_{i}") for i in range(2)]
        self.norm = hk.LayerNorm(-1, True, True, name="norm")
        self.head = hk.Linear(3, name="head")

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


model = hk.transform(lambda x: Encoder(name="model")(x))


def load(path):
    """Parameters from a file, for `model.apply(params, None, ...)`."""
    params = {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        params.setdefault(module, {})[name] = value
    return params
