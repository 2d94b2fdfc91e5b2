import haiku as hk
import jax
from safetensors.flax import load_file


class MLP(hk.Module):
    def __init__(self, name=None):
        super().__init__(name)
        self.hidden = hk.Linear(16, name="hidden")
        self.out = hk.Linear(3, name="out")

    def __call__(self, x):
        x = self.out(jax.nn.relu(self.hidden(x)))
        return jax.nn.softmax(x, axis=-1)


model = hk.transform(lambda x: MLP(name="model")(x))


def load(path):
    """Parameters from a file, for `model.apply(params, None, ...)`."""
    params = {}
    for key, value in load_file(path).items():
        module, _, name = f"model{key}".rpartition(".")
        params.setdefault(module, {})[name] = value
    return params
