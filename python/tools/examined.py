"""The converters as the conversion exam calls them: `exam.py --converter examined:convert --target native`.

The target is a backend, where the model is captured and run by us, or a kind of live module: `torch_module`,
`keras_module`, `haiku_module`, `flax_module`, which is the other framework's own and runs without us.
"""

import copy
import sys
import warnings

import clematis as cm
import numpy as np
from clematis._convert.from_torch import from_torch_module

warnings.filterwarnings("ignore", message=".*specialised on your example.*|.*could not be made dynamic.*")

BACKENDS = {"clematis": "native", "tf": "tensorflow", "keras": "tensorflow", "flax": "jax", "haiku": "jax"}
FRAMEWORKS = {
    "torch_module": "torch", "keras_module": "tensorflow", "haiku_module": "jax", "flax_module": "jax",
}  # fmt: skip


# A framework that is slow to load is loaded before the exam measures anything.
for word in sys.argv:
    name = FRAMEWORKS.get(word, BACKENDS.get(word, word))
    if name in ("torch", "jax", "tensorflow"):
        cm.asarray([0.0]).to(name)
    if word == "keras_module":
        import keras  # noqa: F401


def leaves(x):
    """The arrays in a result, in order."""
    if hasattr(x, "shape"):
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
        while left and len(left) > len(probes) - len(found) and tuple(left[0].shape) != tuple(probe.shape):
            left.pop(0)
        found.append(left.pop(0))
    return found


def mapped(x, f):
    """Maps the arrays of a tree."""
    if isinstance(x, np.ndarray):
        return f(x)
    if isinstance(x, dict):
        return {k: mapped(v, f) for k, v in x.items()}
    return type(x)(mapped(v, f) for v in x) if type(x) in (list, tuple) else x


class Examined:
    """A model, with what the exam asks of it."""

    def __init__(self, source, example):
        self.source, self.example = source, example
        with cm.backend("native"):
            self.captured = self._capture(source)
        # Models may count their calls.
        self.pristine = copy.deepcopy(self.captured) if any(True for _ in source.buffers()) else self.captured

    def __getattr__(self, name):
        # Where the exam's own reference cannot say what is right, it finds nothing to compare.
        if name == "exam_grads" and self._has_gradients():
            return self._grads
        if name == "exam_train" and self._trains():
            return self._train
        raise AttributeError(name)

    def _has_gradients(self):
        params = list(self.source.parameters())
        return bool(params) and all(p.requires_grad for p in params)

    def _trains(self):
        import torch

        args, kwargs = self.example
        try:
            with torch.no_grad():
                copy.deepcopy(self.source).train()(*args, **kwargs)
        except Exception:  # noqa: BLE001 - a model may fail in any way
            return False
        return True

    def _fresh(self):
        """The captured model with the state that the source has."""
        return copy.deepcopy(self.pristine)

    def _capture(self, source):
        args, kwargs = self.example
        return from_torch_module(source, args, instance_kwargs=kwargs, specialise=True)

    def _without_dropout(self):
        """Captured again as the exam's reference is in training, if dropout makes a difference."""
        from exam import no_dropout

        other = no_dropout(copy.deepcopy(self.source))
        attributes = [{k: v for k, v in vars(m).items() if isinstance(v, float)} for m in other.modules()]
        if attributes == [{k: v for k, v in vars(m).items() if isinstance(v, float)} for m in self.source.modules()]:
            return self._fresh()
        with cm.backend("native"):
            return self._capture(other)


class OnBackend(Examined):
    """On one of our backends."""

    def __init__(self, source, example, backend):
        super().__init__(source, example)
        self.backend = backend
        self.module = self.captured.to(backend)

    def _given(self, args, kwargs):
        return mapped((tuple(args), kwargs), lambda x: cm.asarray(x).to(self.backend))

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        self.module.eval()
        with cm.backend(self.backend):
            args, kwargs = self._given(args, kwargs)
            return [x.numpy() for x in leaves(self.module(*args, **kwargs))]

    def _grads(self, args, kwargs, probes):
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

    def _train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        module = self._without_dropout().to(self.backend).train()
        with cm.backend(self.backend):
            args, kwargs = self._given(args, kwargs)
            out = [x.numpy() for x in leaves(module(*args, **kwargs))]
        return out, {path.replace("/", "."): x.numpy() for path, x in module.buffers()._entries()}


# Models that choose by a value, or whose state moves: jax's `jit` cannot take them, op by op they run.
REFUSED = (cm.errors.TraceError, cm.errors.FrameworkError)


class OnJax(OnBackend):
    """On jax, in its own `jit`: without it jax compiles each op for each shape, which takes far longer."""

    def __init__(self, source, example):
        super().__init__(source, example, "jax")
        self.params = {path: x.native for path, x in self.module.v._entries()}
        self.programs = {}

    def _jitted(self, what, args, kwargs, *more):
        """What a function makes of variables and arguments, as one program of jax's."""
        import jax

        arrays = []

        def put_aside(x):
            arrays.append(cm.asarray(x).to("jax").native)
            return Place(len(arrays) - 1)

        tree = mapped((tuple(args), kwargs), put_aside)

        def run(params, arrays, more):
            states = list(states_in(self.module._state))
            held = [x.value for x in states]
            try:
                with cm.backend("jax"):
                    v = self.module.v.map(lambda _, path: cm.asarray(params[path]))
                    args, kwargs = filled(tree, [cm.asarray(x) for x in arrays])
                    return what(v, args, kwargs, *[cm.asarray(x) for x in more])
            finally:
                # Nothing of a trace outlives it.
                for x, value in zip(states, held, strict=True):
                    x.value = value

        self.module.eval()
        program = self.programs.setdefault((what.__name__, repr(tree)), jax.jit(run))
        return program(self.params, arrays, more)

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""

        def forward(v, args, kwargs):
            return [x.native for x in leaves(self.module(*args, v=v, **kwargs))]

        try:
            return [np.asarray(x) for x in self._jitted(forward, args, kwargs)]
        except REFUSED:
            return super().exam_call(args, kwargs)

    def _grads(self, args, kwargs, probes):
        """Gradients of the outputs' sum, weighed by the probes, by parameter."""

        def gradients(v, args, kwargs, *probes):
            def loss(v):
                outs = [x for x in leaves(self.module(*args, v=v, **kwargs)) if cm.isdtype(x.dtype, "real floating")]
                return sum(cm.sum(x * p) for x, p in zip(chosen(outs, probes), probes, strict=True))

            return {path.replace("/", "."): x.native for path, x in cm.grad(loss)(v)._entries()}

        try:
            return {path: np.asarray(x) for path, x in self._jitted(gradients, args, kwargs, *probes).items()}
        except REFUSED:
            return super()._grads(args, kwargs, probes)


class Place(int):
    """Where an array stands in a list of arrays."""


def filled(x, arrays):
    """Fills a tree with arrays."""
    if isinstance(x, Place):
        return arrays[x]
    if isinstance(x, dict):
        return {k: filled(v, arrays) for k, v in x.items()}
    return type(x)(filled(v, arrays) for v in x) if type(x) in (list, tuple) else x


def states_in(tree):
    """What a captured model keeps between calls."""
    for x in tree.values():
        yield from states_in(x) if isinstance(x, dict) else [x]


class OnTorch(Examined):
    """A live module of torch's."""

    def __init__(self, source, example):
        super().__init__(source, example)
        self.module = self._live(self.captured)

    def _live(self, captured):
        args, kwargs = mapped_torch(self.example)
        return cm.to_torch_module(captured, args, example_kwargs=kwargs)

    def _run(self, module, args, kwargs):
        import torch

        args, kwargs = mapped((tuple(args), kwargs), lambda x: torch.from_numpy(x.copy()))
        return leaves(module(*args, **kwargs))

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        import torch

        with torch.no_grad():
            return [x.numpy() for x in self._run(self.module.eval(), args, kwargs)]

    def _grads(self, args, kwargs, probes):
        """torch's own gradients."""
        import torch

        outs = [x for x in self._run(self.module.eval(), args, kwargs) if x.is_floating_point()]
        outs = [x for x in outs if x.requires_grad]
        params = dict(self.module.named_parameters())
        loss = sum((x * torch.from_numpy(p)).sum() for x, p in zip(chosen(outs, probes), probes, strict=True))
        grads = torch.autograd.grad(loss, [p for p in params.values() if p.requires_grad], allow_unused=True)
        names = [k for k, p in params.items() if p.requires_grad]
        return {
            k: np.zeros(tuple(params[k].shape), "float32") if g is None else g.numpy()
            for k, g in zip(names, grads, strict=True)
        }

    def _train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        module = self._live(self._without_dropout()).train()
        out = [x.detach().numpy() for x in self._run(module, args, kwargs)]
        return out, {k: x.detach().numpy() for k, x in module.named_buffers()}


def mapped_torch(x):
    """Examples of torch's as numpy arrays."""
    if hasattr(x, "detach"):
        return x.detach().numpy()
    if isinstance(x, dict):
        return {k: mapped_torch(v) for k, v in x.items()}
    return type(x)(mapped_torch(v) for v in x) if type(x) in (list, tuple) else x


class OnKeras(Examined):
    """A live model of Keras."""

    def __init__(self, source, example):
        super().__init__(source, example)
        self.module = self._live(self.captured)

    def _live(self, captured):
        args, kwargs = mapped_torch(self.example)
        return cm.to_keras_module(captured, args, example_kwargs=kwargs)

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        return [np.asarray(x) for x in leaves(self.module(*args, training=False, **kwargs))]

    def _grads(self, args, kwargs, probes):
        """tensorflow's own gradients."""
        import tensorflow as tf

        with tf.GradientTape() as tape:
            outs = [x for x in leaves(self.module(*args, training=False, **kwargs)) if x.dtype.is_floating]
            loss = sum(tf.reduce_sum(x * p) for x, p in zip(chosen(outs, probes), probes, strict=True))
        weights = self.module.trainable_weights
        grads = tape.gradient(loss, [w.value for w in weights], unconnected_gradients="zero")
        return {
            w.name.replace("__", "."): np.asarray(tf.convert_to_tensor(g)) for w, g in zip(weights, grads, strict=True)
        }

    def _train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        module = self._live(self._without_dropout())
        out = [np.asarray(x) for x in leaves(module(*args, training=True, **kwargs))]
        return out, {w.name.replace("__", "."): np.asarray(w.value) for w in module.non_trainable_weights}


class OnHaiku(Examined):
    """A live module of haiku."""

    def __init__(self, source, example):
        super().__init__(source, example)
        self.params, self.state, self.apply = self._live(self.captured)

    def _live(self, captured):
        import haiku as hk
        import jax

        args, kwargs = mapped_torch(self.example)
        made = cm.to_haiku_module(captured, args, example_kwargs=kwargs)
        both = hk.transform_with_state(lambda *a, is_training, **k: made()(*a, is_training=is_training, **k))
        params, state = jax.jit(lambda: both.init(jax.random.key(0), *args, is_training=False, **kwargs))()
        return params, state, jax.jit(both.apply, static_argnames="is_training") if jits(args, kwargs) else both.apply

    def _run(self, params, args, kwargs):
        import jax

        return leaves(self.apply(params, self.state, jax.random.key(0), *args, is_training=False, **kwargs)[0])

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        return [np.asarray(x) for x in self._run(self.params, args, kwargs)]

    def _grads(self, args, kwargs, probes):
        """jax's own gradients."""
        import jax

        def loss(params):
            outs = [x for x in self._run(params, args, kwargs) if jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]
            return sum((x * p).sum() for x, p in zip(chosen(outs, probes), probes, strict=True))

        return flat_haiku(jax.jit(jax.grad(loss, allow_int=True))(self.params))

    def _train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        import jax

        params, state, apply = self._live(self._without_dropout())
        out, state = apply(params, state, jax.random.key(0), *args, is_training=True, **kwargs)
        return [np.asarray(x) for x in leaves(out)], flat_haiku(state)


def jits(args, kwargs):
    """Whether `jax.jit` takes such arguments: what is no array is not to become one."""
    import jax

    return all(isinstance(x, np.ndarray) for x in jax.tree.leaves((args, kwargs), is_leaf=lambda x: x is None))


def flat_haiku(x):
    """Values by their paths, without the module's own name."""
    return {name.replace("/", "."): np.asarray(v) for inner in x.values() for name, v in inner.items()}


class OnFlax(Examined):
    """A live module of flax (nnx)."""

    def __init__(self, source, example):
        super().__init__(source, example)
        self.module = self._live(self.captured)

    def _live(self, captured):
        args, kwargs = mapped_torch(self.example)
        return cm.to_flax_module(captured, args, example_kwargs=kwargs)

    def exam_call(self, args, kwargs, params=None):
        """Outputs as numpy arrays."""
        from flax import nnx

        self.module.eval()
        call = nnx.jit(lambda module, args, kwargs: module(*args, **kwargs)) if jits(args, kwargs) else None
        out = call(self.module, args, kwargs) if call else self.module(*args, **kwargs)
        return [np.asarray(x) for x in leaves(out)]

    def _grads(self, args, kwargs, probes):
        """jax's own gradients."""
        import jax
        from flax import nnx

        self.module.eval()
        graph, params, rest = nnx.split(self.module, nnx.Param, ...)

        def loss(params):
            outs = leaves(nnx.merge(graph, params, rest)(*args, **kwargs))
            outs = [x for x in outs if jax.numpy.issubdtype(x.dtype, jax.numpy.floating)]
            return sum((x * p).sum() for x, p in zip(chosen(outs, probes), probes, strict=True))

        return flat_flax(jax.jit(jax.grad(loss, allow_int=True))(params))

    def _train(self, args, kwargs):
        """Outputs and buffers after one call in training."""
        from flax import nnx

        module = self._live(self._without_dropout())
        module.train()
        out = [np.asarray(x) for x in leaves(module(*args, **kwargs))]
        return out, flat_flax(nnx.state(module, nnx.BatchStat))


def flat_flax(state):
    """Values by their paths."""
    return {".".join(map(str, path)): np.asarray(x[...]) for path, x in state.flat_state()}


LIVE = {"torch_module": OnTorch, "keras_module": OnKeras, "haiku_module": OnHaiku, "flax_module": OnFlax}


def convert(module, example_inputs, target):
    """What the exam calls."""
    if target in LIVE:
        return LIVE[target](module, example_inputs)
    backend = BACKENDS.get(target, target)
    return OnJax(module, example_inputs) if backend == "jax" else OnBackend(module, example_inputs, backend)
