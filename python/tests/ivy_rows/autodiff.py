"""Derivatives of a row that owe nothing to ours: differences of the reference, and each framework's own autodiff."""

import numpy as np

from .arrays import raw, wide
from .reference_gradients import directional_derivative

#: So many elements of an argument are moved one by one; a direction through all of them is added.
ELEMENTS = 6


class Vector(dict):
    """Named arrays that can be added and scaled, as the formulas of differences want."""

    def __add__(self, other):
        return Vector({n: a + other[n] for n, a in self.items()})

    def __sub__(self, other):
        return self + other * -1.0

    def __mul__(self, number):
        return Vector({n: a * number for n, a in self.items()})

    __rmul__ = __mul__


def at(example, moved, empty=False):
    """The reference's loss with some arguments moved."""
    return example.reference_loss({**example.arguments, **moved}, empty)


def differences(example, names, rng, empty):
    """For each argument directions, and the directional derivative of the reference's loss along each."""
    found = {}
    for n in names:
        x = example.arguments[n]
        directions = [rng.choice([-1.0, 1.0], x.shape)]
        for place in rng.permutation(x.size)[:ELEMENTS]:
            one = np.zeros(x.size)
            one[place] = 1.0
            directions.append(one.reshape(x.shape))
        still = n in example.row.flat or example.row.stopped(**example.arguments)
        found[n] = [
            (d, 0.0 if still or x.size == 0 else directional_derivative(lambda v, n=n: at(example, {n: v}, empty), x, d, 1e-4))
            for d in directions
        ]
    return found


def own_gradients(example, names, empty):
    """By the framework's own autodiff, through our functions on its own arrays."""
    raws = example.made(raw)
    if example.backend == "torch":
        import torch

        leaves = {n: raws[n].requires_grad_(True) for n in names}
        total = example.loss({**raws, **leaves}, torch.sum if empty else torch.mean, torch.add)
        if not total.requires_grad:
            return [torch.zeros_like(leaves[n]) for n in names]
        found = torch.autograd.grad(total, [leaves[n] for n in names], allow_unused=True)
        return [torch.zeros_like(leaves[n]) if g is None else g for n, g in zip(names, found, strict=True)]
    if example.backend == "jax":
        import jax

        with wide(example.dtype):
            mean = jax.numpy.sum if empty else jax.numpy.mean
            loss = _of(example, raws, names, mean, jax.numpy.add)
            # Compiled whole: op by op jax would compile a hundred little programs.
            return jax.jit(jax.grad(loss, argnums=tuple(range(len(names)))))(*(raws[n] for n in names))
    import tensorflow as tf

    watched = [raws[n] for n in names]
    with tf.GradientTape() as tape:
        tape.watch(watched)
        total = example.loss(raws, tf.reduce_sum if empty else tf.reduce_mean, tf.add)
    return tape.gradient(total, watched, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def own_second(example, names, along):
    """The same twice: of the derivative along a direction."""
    raws = example.made(raw)
    if example.backend == "torch":
        import torch

        leaves = [raws[n].requires_grad_(True) for n in names]
        total = example.loss(raws, torch.mean, torch.add)
        if not total.requires_grad:
            return [torch.zeros_like(x) for x in leaves]
        first = torch.autograd.grad(total, leaves, allow_unused=True, create_graph=True)
        parts = [(g * raw("torch", along[n])).sum() for n, g in zip(names, first, strict=True) if g is not None]
        total = sum(parts, torch.zeros(()))
        if not total.requires_grad:
            return [torch.zeros_like(x) for x in leaves]
        found = torch.autograd.grad(total, leaves, allow_unused=True)
        return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]
    if example.backend == "jax":
        import jax

        with wide(example.dtype):
            places = tuple(range(len(names)))
            first = jax.grad(_of(example, raws, names, jax.numpy.mean, jax.numpy.add), argnums=places)
            directions = [raw("jax", along[n]) for n in names]

            def loss_of(*arrays):
                return sum((g * d).sum() for g, d in zip(first(*arrays), directions, strict=True))

            return jax.jit(jax.grad(loss_of, argnums=places))(*(raws[n] for n in names))
    import tensorflow as tf

    watched = [raws[n] for n in names]
    zero = tf.UnconnectedGradients.ZERO
    with tf.GradientTape() as outer:
        outer.watch(watched)
        with tf.GradientTape() as inner:
            inner.watch(watched)
            total = example.loss(raws, tf.reduce_mean, tf.add)
        first = inner.gradient(total, watched, unconnected_gradients=zero)
        parts = [tf.reduce_sum(g * raw("tensorflow", along[n])) for n, g in zip(names, first, strict=True)]
        total = tf.add_n(parts)
    return outer.gradient(total, watched, unconnected_gradients=zero)


def _of(example, raws, names, mean, add):
    def function(*arrays):
        return example.loss({**raws, **dict(zip(names, arrays, strict=True))}, mean, add)

    return function
