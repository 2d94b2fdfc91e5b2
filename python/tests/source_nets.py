"""Models and functions whose code is written in `test_source.py`, and how the code of each framework is called."""

import clematis as cm
import numpy as np


def array(*shape, low=-1.0, high=1.0, seed=0):
    return np.random.default_rng(seed).uniform(low, high, shape).astype("float32")


class MLP(cm.Module):
    def __init__(self, key):
        a, b = key.split()
        self.hidden = cm.nn.Linear(6, 16, key=a)
        self.out = cm.nn.Linear(16, 3, key=b)

    def __call__(self, x):
        return cm.softmax(self.out(cm.relu(self.hidden(x))), axis=-1)


class CNN(cm.Module):
    def __init__(self, key):
        a, b, c = key.split(3)
        self.conv1 = cm.nn.Conv2D(3, 8, 3, 2, "SAME", key=a)
        self.norm1 = cm.nn.BatchNorm2D(8)
        self.conv2 = cm.nn.Conv2D(8, 16, 3, 1, "VALID", with_bias=False, key=b)
        self.norm2 = cm.nn.BatchNorm2D(16)
        self.head = cm.nn.Linear(16, 10, key=c)

    def __call__(self, x):
        x = cm.max_pool2d(cm.relu(self.norm1(self.conv1(x))), 2, 2, "VALID")
        x = cm.relu(self.norm2(self.conv2(x)))
        return self.head(cm.mean(x, axis=(1, 2)))


class Block(cm.Module):
    def __init__(self, channels, width, key):
        a, b = key.split()
        self.conv1 = cm.nn.Conv2D(channels, width, 3, 1, "SAME", key=a)
        self.conv2 = cm.nn.Conv2D(width, channels, 3, 1, "SAME", key=b)

    def __call__(self, x):
        return cm.relu(x + self.conv2(cm.relu(self.conv1(x))))


class Residual(cm.Module):
    def __init__(self, key):
        a, b, c, d = key.split(4)
        self.stem = cm.nn.Conv2D(3, 4, 1, key=a)
        self.first, self.second = Block(4, 8, b), Block(4, 6, c)
        self.head = cm.nn.Linear(4, 2, key=d)

    def __call__(self, x):
        return self.head(cm.mean(self.second(self.first(self.stem(x))), axis=(1, 2)))


class Classifier(cm.Module):
    def __init__(self, key):
        a, b, c = key.split(3)
        self.words = cm.nn.Embedding(20, 8, key=a)
        self.lstm = cm.nn.LSTM(8, 6, with_bias=True, return_sequence=False, return_state=False, key=b)
        self.head = cm.nn.Linear(6, 4, key=c)

    def __call__(self, index):
        return self.head(self.lstm(self.words(index)))


class Encoder(cm.Module):
    def __init__(self, key):
        *own, last = key.split(3)
        words = {"dropout_rate": 0.0, "norm_first": True, "activation": "gelu"}
        self.layers = [cm.nn.TransformerEncoderLayer(8, 2, 16, key=k, **words) for k in own]
        self.norm = cm.nn.LayerNorm(8)
        self.head = cm.nn.Linear(8, 3, key=last)

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def standardize(x, scale, shift):
    mean = cm.mean(x, axis=-1, keepdims=True)
    spread = cm.sqrt(cm.mean((x - mean) ** 2, axis=-1, keepdims=True) + 1e-5)
    return cm.tanh((x - mean) / spread * scale + shift)


def from_torch():
    import torch
    from torch import nn

    torch.manual_seed(0)

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
            self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(2))
            self.classifier = nn.Linear(8, 4)

        def forward(self, image):
            x = self.features(image).flatten(2).transpose(1, 2)
            for layer in self.encoder:
                x = layer(x)
            return self.classifier(x.mean(1))

    x = array(2, 3, 8, 8)
    from clematis._convert.from_torch import from_torch_module

    return from_torch_module(Net().eval(), torch.from_numpy(x)).eval(), (x,)


def own(kind, *shape):
    return lambda: (kind(cm.random.key(0)).eval(), (array(*shape),))


CASES = {
    "mlp": own(MLP, 2, 6),
    "cnn": own(CNN, 2, 16, 16, 3),
    "residual": own(Residual, 2, 8, 8, 3),
    "lstm": lambda: (Classifier(cm.random.key(0)).eval(), (np.arange(10).reshape(2, 5) % 20,)),
    "encoder": own(Encoder, 2, 5, 8),
    "captured": from_torch,
    "function": lambda: (standardize, (array(2, 5), array(5, seed=1), array(5, seed=2))),
}


def run(file, code, target, folder, args):
    """What a written file computes, as an array of numpy's."""
    place = folder / "weights.safetensors"
    entry = getattr(file, code.entry)
    is_model = isinstance(entry, type)
    given = [_given(target, x) for x in args]
    if target == "haiku" and is_model:
        values = file.load(place)
        if isinstance(values, tuple):
            out, _ = file.model.apply(*values, None, *given)
        else:
            out = file.model.apply(values, None, *given)
    elif is_model:
        out = file.load(place)(*given)
    elif code.weights:
        out = entry(file.load(place), *given)
    else:
        out = entry(*given)
    return tuple(map(_host, out)) if isinstance(out, tuple) else _host(out)


def _given(target, x):
    if target == "torch":
        import torch

        return torch.from_numpy(np.array(x))
    if target in ("jax", "haiku", "flax"):
        import jax.numpy as jnp

        return jnp.asarray(x)
    if target == "tensorflow":
        import tensorflow as tf

        return tf.constant(x)
    return cm.asarray(x) if target == "clematis" else x


def _host(x):
    x = x.detach().resolve_conj() if hasattr(x, "detach") else x
    return x.numpy() if hasattr(x, "numpy") else np.asarray(x)
