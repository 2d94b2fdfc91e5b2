"""The converters as the conversion exam calls them: `exam.py --converter examined:convert --target native`.

The target is a backend: the model is captured and run there.
"""

import sys

import clematis as cm
import numpy as np
from clematis._convert.incoming import from_torch_module

BACKENDS = {"clematis": "native", "tf": "tensorflow", "keras": "tensorflow", "flax": "jax", "haiku": "jax"}


# A framework that is slow to load is loaded before the exam measures anything.
for word in sys.argv:
    if BACKENDS.get(word, word) in ("torch", "jax", "tensorflow"):
        cm.asarray([0.0]).to(BACKENDS.get(word, word))


class Converted:
    """A model on one backend, with what the exam asks of it."""

    def __init__(self, module, backend):
        self.module, self.backend = module.to(backend), backend

    def _given(self, args, kwargs):
        def array(x):
            return cm.asarray(x).to(self.backend) if isinstance(x, np.ndarray) else x

        return cm.tree.map(array, list(args)), {k: array(v) for k, v in kwargs.items()}

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        self.module.eval()
        with cm.backend(self.backend):
            args, kwargs = self._given(args, kwargs)
            return host(self.module(*args, **kwargs))

    def exam_grads(self, args, kwargs, probes):
        """Gradients of the outputs' sum, weighed by the probes, by parameter."""
        self.module.eval()
        with cm.backend(self.backend):
            args, kwargs = self._given(args, kwargs)
            probes = [cm.asarray(p).to(self.backend) for p in probes]

            def loss(v):
                outs = [x for x in leaves(self.module(*args, v=v, **kwargs)) if cm.isdtype(x.dtype, "real floating")]
                return sum(cm.sum(x * p) for x, p in zip(chosen(outs, probes), probes, strict=True))

            grads = cm.grad(loss)(self.module.parameters())
        return {path.replace("/", "."): np.asarray(x.numpy()) for path, x in grads._entries()}

    def exam_train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        self.module.train()
        with cm.backend(self.backend):
            args, kwargs = self._given(args, kwargs)
            out = host(self.module(*args, **kwargs))
        return out, {path.replace("/", "."): x.numpy() for path, x in self.module.buffers()._entries()}


def leaves(x):
    """The tensors in a result, in order."""
    if isinstance(x, cm.Tensor):
        return [x]
    if hasattr(x, "to_tuple"):
        x = x.to_tuple()
    if isinstance(x, dict):
        x = list(x.values())
    return [leaf for part in x for leaf in leaves(part)] if isinstance(x, (list, tuple)) else []


def chosen(outs, probes):
    """The outputs that depend on parameters, for which there are probes of the same shapes in the same order."""
    left, found = list(outs), []
    for probe in probes:
        while left and len(left) > len(probes) - len(found) and left[0].shape != probe.shape:
            left.pop(0)
        found.append(left.pop(0))
    return found


def host(x):
    """The same result with numpy arrays."""
    return [leaf.numpy() for leaf in leaves(x)]


def convert(module, example_inputs, target):
    """What the exam calls."""
    args, kwargs = example_inputs
    with cm.backend("native"):
        made = from_torch_module(module, args, instance_kwargs=kwargs)
    return Converted(made, BACKENDS.get(target, target))
