"""The networks of the rows of modules."""

import functools

import clematis as cm


class Net(cm.Module):
    """Attributes first, then the base."""

    def __init__(self, n, m, **options):
        self._linear0 = cm.nn.Linear(n, 64)
        self._linear1 = cm.nn.Linear(64, 64)
        self._linear2 = cm.nn.Linear(64, m)
        cm.Module.__init__(self, **options)

    def _forward(self, x):
        x = cm.expand_dims(x, axis=0)
        for layer in (self._linear0, self._linear1, self._linear2):
            x = cm.tanh(layer(x))
        return x[0]


class BaseFirst(Net):
    """The base first, then attributes, as torch wants it."""

    def __init__(self, n, m):
        cm.Module.__init__(self)
        self._linear0, self._linear1, self._linear2 = cm.nn.Linear(n, 64), cm.nn.Linear(64, 64), cm.nn.Linear(64, m)


class Plain(cm.nn.Module):
    """No base, and an ordinary call."""

    def __init__(self, n, m):
        self.linear0, self.linear1, self.linear2 = cm.nn.Linear(n, 64), cm.nn.Linear(64, 64), cm.nn.Linear(64, m)

    def __call__(self, x):
        return cm.tanh(self.linear2(cm.tanh(self.linear1(cm.tanh(self.linear0(x))))))


class InDict(cm.Module):
    def __init__(self, n, m):
        self._layers = {"linear0": cm.nn.Linear(n, 64), "linear1": cm.nn.Linear(64, 64), "linear2": cm.nn.Linear(64, m)}
        cm.Module.__init__(self)

    def _forward(self, x):
        return functools.reduce(lambda x, layer: cm.tanh(layer(x)), self._layers.values(), x)


class InList(cm.Module):
    def __init__(self, n, m):
        self._layers = [cm.nn.Linear(n, 64), cm.nn.Linear(64, 64), cm.nn.Linear(64, m)]
        cm.Module.__init__(self)

    def _forward(self, x):
        return functools.reduce(lambda x, layer: cm.tanh(layer(x)), self._layers, x)


class DoubleLinear(cm.Module):
    def __init__(self, n, m):
        self._l0 = cm.nn.Linear(n, m)
        self._l1 = cm.nn.Linear(m, m)
        cm.Module.__init__(self)

    def _forward(self, x):
        return self._l1(self._l0(x))


class Nested(cm.Module):
    """The second part runs twice."""

    def __init__(self, n):
        self._dl0 = DoubleLinear(n, 64)
        self._dl1 = DoubleLinear(64, 64)
        cm.Module.__init__(self)

    def _forward(self, x):
        return self._dl1(self._dl1(self._dl0(x)))

    def all(self):
        return [self._dl0, self._dl1, self._dl0._l0, self._dl0._l1, self._dl1._l0, self._dl1._l1]
