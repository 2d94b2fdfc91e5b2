"""`from_keras_module`: imports Keras models of any Keras backend."""

import inspect
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError, ClematisError, ConvertError
from .captured import Arguments, Capture, Captured, Part
from .tree_structure import flatten


def from_keras_module(
    native_module: Any, example_inputs: Any = None, *, constructor_args: Any = None, constructor_kwargs: Any = None,
    instance_args: Any = None, instance_kwargs: Any = None, dynamic_batch: bool = True, **options: Any,
) -> Captured:  # fmt: skip
    """Converts a Keras layer or model to a Clematis module that runs on any backend.

    `native_module` is a layer, a model or a class of one. It is traced with the configured Keras backend, in evaluation
    and in training mode; its variables become parameters and buffers under their paths.

    >>> import keras
    >>> net = cm.from_keras_module(keras.layers.Dense(2), cm.ones((4, 3)))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    import keras  # type: ignore[import-untyped]

    if example_inputs is not None and instance_args is not None:
        raise ArgumentError("from_keras_module: expected either example_inputs or instance_args, got both")
    if inspect.isclass(native_module):
        native_module = native_module(*(constructor_args or ()), **(constructor_kwargs or {}))
    if not isinstance(native_module, keras.Layer):
        kind = type(native_module).__name__
        raise ArgumentError(f"from_keras_module: expected a Keras layer or model, got {kind}")
    args = instance_args if example_inputs is None else example_inputs
    args = () if args is None else tuple(args) if isinstance(args, (list, tuple)) else (args,)
    if not args:
        args = _from_shapes(native_module)
    args, kwargs = _arrays(keras, args), _arrays(keras, dict(instance_kwargs or {}))
    if not native_module.built or not native_module.variables:
        native_module(*args, **kwargs)
    trained, rest = list(native_module.trainable_variables), list(native_module.non_trainable_variables)
    paths = _paths([*trained, *rest])
    weights = _own_weights(native_module)
    roles = ["param" for _ in trained] + ["frozen" if id(v) in weights else "state" for v in rest]
    held = [(path, role, _host(v)) for (path, v), role in zip(paths, roles, strict=True)]
    read = _READERS[keras.backend.backend()]
    told = "training" in inspect.signature(native_module.call).parameters or native_module._call_has_training_arg
    told = told and "training" not in kwargs

    def part_of(training: bool) -> Part:
        words = {"training": training} if told else {}

        def run(values: Any, *given: Any) -> Any:
            *positional, named = given
            own, other = list(values[: len(trained)]), list(values[len(trained) :])
            out, new = native_module.stateless_call(own, other, *positional, **named, **words)[:2]
            kept = zip(held[len(trained) :], new, strict=True)
            return out, [(path, x) for (path, role, _), x in kept if role == "state"]

        part = read(run, held, (*args, kwargs), dynamic_batch, "train" if training else "eval", native_module)
        part.arguments = Arguments.of(native_module.call, args, kwargs)
        return part

    evaluation = part_of(False)
    training: Part | ConvertError = evaluation
    if told:
        try:
            training = part_of(True)
        except ClematisError as e:
            training = ConvertError(str(e))
    values = {**evaluation.values, **(training.values if isinstance(training, Part) else {})}
    name = type(native_module).__name__
    return Captured(Capture(_FAMILY[keras.backend.backend()], values, evaluation, training, name), **options)


def _own_weights(model: Any) -> set[int]:
    """The ids of the weights that would be trainable if no layer were frozen."""
    return {id(v) for layer in model._flatten_layers() for v in layer._trainable_variables}


_FAMILY = {"jax": "jax", "tensorflow": "tensorflow", "torch": "torch"}


def _from_shapes(model: Any) -> tuple[Any, ...]:
    """Examples of zeros, if a model knows its input shapes."""
    import numpy as np

    shapes = getattr(model, "input_shape", None)
    if shapes is None:
        raise ConvertError("from_keras_module: example inputs are needed to capture a model")
    shapes = shapes if isinstance(shapes, list) else [shapes]
    return tuple(np.zeros([2 if n is None else n for n in shape], "float32") for shape in shapes)


def _arrays(keras: Any, x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _arrays(keras, value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        parts = [_arrays(keras, value) for value in x]
        return type(x)(*parts) if hasattr(x, "_fields") else type(x)(parts)
    if isinstance(x, _core.Tensor):
        x = x.numpy()
    return keras.ops.convert_to_tensor(x) if _core._tree.is_array(x) else x


def _host(v: Any) -> Any:
    import keras

    return keras.ops.convert_to_numpy(v.value)


def _paths(variables: list[Any]) -> list[tuple[str, Any]]:
    """Each variable with a unique path."""
    seen: dict[str, int] = {}
    out = []
    for v in variables:
        path = v.path.replace(".", "_").replace("/", ".")
        count = seen[path] = seen.get(path, -1) + 1
        out.append((f"{path}_{count}" if count else path, v))
    return out


def _with_jax(run: Any, held: Any, args: Any, dynamic: bool, tag: str, model: Any) -> Part:
    from . import read_jax

    def function(values: Any, key: Any, *given: Any) -> Any:
        return run(values, *given)

    return read_jax.read(
        function, held, lambda values: values, args, dynamic=dynamic, with_key=False, updates=lambda out: out, tag=tag
    )


def _with_tensorflow(run: Any, held: Any, args: Any, dynamic: bool, tag: str, model: Any) -> Part:
    from . import read_tensorflow

    return read_tensorflow.read(run, held, args, dynamic=dynamic, updates=lambda out: out, tag=tag)


@contextmanager
def _unseeded() -> Iterator[None]:
    """Disables Keras' seeding of a torch generator by a value, which a trace does not have. Programs draw with their own keys."""
    from keras.src.backend.torch import random  # type: ignore[import-untyped]

    own = random.torch_seed_generator
    random.torch_seed_generator = lambda seed: None
    try:
        yield
    finally:
        random.torch_seed_generator = own


@contextmanager
def _unrolled(model: Any) -> Iterator[list[Any]]:
    """Unrolls recurrent layers inside the context."""
    changed = [layer for layer in model._flatten_layers() if getattr(layer, "unroll", None) is False]
    for layer in changed:
        layer.unroll = True
    try:
        yield changed
    finally:
        for layer in changed:
            layer.unroll = False


def _is_open(part: Part) -> bool:
    """Whether an input has a symbolic size."""
    given = [place["spec"]["shape"] for place in json.loads(part.text)["inputs"] if place["role"] == "input"]
    return not any(given) or any(not isinstance(n, int) for shape in given for n in shape)


def _with_torch(run: Any, held: Any, args: Any, dynamic: bool, tag: str, model: Any) -> Part:
    """Captures a torch module that holds the variables, under other names."""
    import torch

    from . import read_torch

    seen: dict[str, Any] = {}
    names = [f"held{i}" for i in range(len(held))]

    class Call(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name, (_, role, x) in zip(names, held, strict=True):
                x = torch.as_tensor(x)
                if role == "param":
                    setattr(self, name, torch.nn.Parameter(x))
                else:
                    self.register_buffer(name, x)

        def forward(self, *given: Any) -> Any:
            positional, last = given[: len(given) - len(words)], given[len(given) - len(words) :]
            out, new = run([getattr(self, name) for name in names], *positional, dict(zip(words, last, strict=True)))
            found, seen["shape"] = flatten(out, is_leaf=lambda x: isinstance(x, torch.Tensor))
            seen["count"], seen["paths"] = len(found), [path for path, _ in new]
            return [*found, *(x for _, x in new)]

    *positional, named = args
    words = list(named)
    given_all = (*positional, *named.values())

    def captured() -> Part:
        with _unseeded():
            return read_torch._Reader(torch, Call(), given_all, {}, dynamic, specialise=False).part()

    part = captured()
    if dynamic and not _is_open(part):
        # Keras' loops over time also iterate over the batch, unless they are unrolled.
        with _unrolled(model) as changed:
            part = captured() if changed else part
        if not _is_open(part):
            why = "its batch size could not be made dynamic: the result takes inputs of the example's shapes only"
            warnings.warn(f"from_keras_module: {why}", stacklevel=4)
    program = json.loads(part.text)
    known = {name: (path, role) for name, (path, role, _) in zip(names, held, strict=True)}
    places = {}
    for place in program["inputs"]:
        if place.get("path") in known:
            place["path"], place["role"] = known[place["path"]]
            places[place["path"]] = place["name"]
        elif place["role"] == "constant":
            place["path"] = f"constants.{tag}.{place['path'].replace('.', '_')}"
    outs = program["outputs"][: seen["count"] + len(seen["paths"])]
    for out, path in zip(outs[seen["count"] :], seen["paths"], strict=True):
        if path in places:
            out["updates"] = places[path]
    program["outputs"] = [out for out in outs[: seen["count"]]] + [o for o in outs[seen["count"] :] if o.get("updates")]
    own = {path: (role, x) for path, role, x in held}
    for path, value in part.values.items():
        if path not in known:
            own[f"constants.{tag}.{path.replace('.', '_')}"] = ("constant", value[1])
    return Part(json.dumps(program), own, part.order, [None] * seen["count"], None, seen["shape"])


_READERS = {"jax": _with_jax, "tensorflow": _with_tensorflow, "torch": _with_torch}
