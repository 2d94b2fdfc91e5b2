"""Modules that the tests of converters take to other frameworks, with arguments for them."""

import clematis as cm
import numpy as np

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype("float32")


class Image(cm.Module):
    """Convolutions, running statistics, pools, dropout."""

    def __init__(self):
        self.first = cm.nn.Conv2D(3, 8, [3, 3], 1, "SAME")
        self.norm = cm.nn.BatchNorm(8)
        self.second = cm.nn.Conv2D(8, 16, [3, 3], 2, "VALID")
        self.drop = cm.nn.Dropout(0.3)
        self.out = cm.nn.Linear(16, 4)

    def __call__(self, x):
        x = cm.max_pool2d(cm.relu(self.norm(self.first(x))), 2, 2, "VALID")
        return self.out(self.drop(cm.mean(self.second(x), axis=(1, 2))))


class Text(cm.Module):
    """Integer and boolean inputs, a dict as output; reshapes by the batch size."""

    def __init__(self):
        self.table = cm.nn.Embedding(20, 16)
        self.qkv = cm.nn.Linear(16, 48)
        self.norm = cm.nn.LayerNorm(16)
        self.out = cm.nn.Linear(16, 16)

    def __call__(self, ids, mask=None):
        x = self.table(ids)
        b, t, d = x.shape
        parts = (cm.reshape(y, (b, t, 4, 4)) for y in cm.split(self.qkv(x), 3, axis=-1))
        q, k, v = (cm.permute_dims(y, (0, 2, 1, 3)) for y in parts)
        scores = cm.matmul(q, cm.matrix_transpose(k)) / 2.0
        if mask is not None:
            scores = cm.where(mask[:, None, None, :], scores, -1e9)
        weights = cm.softmax(scores, axis=-1)
        y = cm.reshape(cm.permute_dims(cm.matmul(weights, v), (0, 2, 1, 3)), (b, t, d))
        return {"out": self.norm(x + self.out(y)), "weights": weights}


class Control(cm.Module):
    """A scan, a branch and a loop."""

    def __init__(self):
        self.w = cm.asarray(floats(5, 5) * 0.3)

    def __call__(self, x):
        def step(carry, row):
            carry = cm.tanh(row + carry @ self.w)
            return carry, carry

        last, rows = cm.scan(step, cm.zeros((x.shape[0], 5)), cm.permute_dims(x, (1, 0, 2)))
        y = cm.cond(cm.sum(last) > 0, lambda c: c * 2, lambda c: c - 1, last)
        _, z = cm.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * 1.5), (cm.asarray(0), y))
        return last, rows, z


class Recurrent(cm.Module):
    """A recurrent layer."""

    def __init__(self):
        self.cells = cm.nn.LSTM(6, 8)

    def __call__(self, x):
        return self.cells(x)


class Shared(cm.Module):
    """Two arguments, one layer under two names, a pytree of results."""

    def __init__(self):
        self.layer = cm.nn.Linear(3, 4)
        self.again = self.layer

    def __call__(self, x, y):
        return self.layer(x) - self.again(y), [cm.concat([x, y], axis=-1), {"place": cm.argmax(x, axis=-1)}]


class Shapes(cm.Module):
    """Groups, transposed convolutions, pads, orders, running sums, slices."""

    def __init__(self):
        self.norm = cm.nn.GroupNorm(2, 4)
        self.wider = cm.nn.Conv2DTranspose(4, 6, [3, 3], 2, "SAME")

    def __call__(self, x):
        y = cm.pad(self.wider(self.norm(x)), ((0, 0), (1, 1), (0, 2), (0, 0)))
        k = cm.cumulative_sum(cm.avg_pool2d(y, 2, 2, "SAME"), axis=1)
        w = cm.take_along_axis(k, cm.argsort(k, axis=-1), axis=-1)
        z = cm.arange(0, 6) * 0.5 + cm.flip(w, axis=2) + cm.roll(k, 1, axis=1)
        places = cm.one_hot(cm.argmax(z, axis=-1), 6)
        return z[:, ::2], z[:, 1], cm.var(z, axis=(1, 2)), places, cm.einsum("bhwc,bhwd->bcd", z, z)


class Types(cm.Module):
    """Wide floats, integers, complex numbers."""

    def __init__(self):
        self.w = cm.astype(cm.asarray(floats(4, 4)), cm.float64)

    def __call__(self, x):
        wave = cm.exp(cm.astype(x, cm.complex64) * 1j)
        return cm.astype(x, cm.float64) @ self.w, cm.astype(x * 4, cm.int32) // 3, cm.real(wave)


NETS = {
    "image": (Image, (floats(2, 8, 8, 3),), {}),
    "text": (Text, (RNG.integers(0, 20, (2, 5)).astype("int64"),), {"mask": RNG.random((2, 5)) > 0.2}),
    "control": (Control, (floats(2, 4, 5),), {}),
    "recurrent": (Recurrent, (floats(2, 3, 6),), {}),
    "shared": (Shared, (floats(2, 3), floats(2, 3)), {}),
    "shapes": (Shapes, (floats(2, 5, 5, 4),), {}),
    "types": (Types, (floats(3, 4),), {}),
}


def leaves(x):
    if isinstance(x, dict):
        return [leaf for part in x.values() for leaf in leaves(part)]
    if isinstance(x, list | tuple):
        return [leaf for part in x for leaf in leaves(part)]
    return [x]


def other_batch(x):
    return np.concatenate([x, x[::-1], x[:1]])


def cases(name):
    """A new module in evaluation, and arguments with what it gives for them, in two sizes of the batch."""
    kind, args, kwargs = NETS[name]
    net = kind().eval()

    def result(args, kwargs):
        out = net(*map(cm.asarray, args), **{k: cm.asarray(x) for k, x in kwargs.items()})
        return [x.numpy() for x in leaves(out)]

    more = tuple(map(other_batch, args)), {k: other_batch(x) for k, x in kwargs.items()}
    return net, [(args, kwargs, result(args, kwargs)), (*more, result(*more))]


def agree(got, want):
    """Each result of its type and shape, within 1e-5 of the source's."""
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-5)
