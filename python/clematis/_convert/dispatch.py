"""`from_backend_module`: selects the importer by the kind of model."""

import inspect
import sys
from typing import Any

from ..errors import ArgumentError


def kind_of(native: Any) -> str | None:
    """The framework of a model, a model class or a transformed function; nothing is imported."""
    kind = native if inspect.isclass(native) else type(native)

    def comes_from(package: str, *names: str) -> bool:
        module = sys.modules.get(package)
        found = [getattr(module, name, None) for name in names]
        return any(isinstance(x, type) and issubclass(kind, x) for x in found)

    # Keras first: on the torch backend its layers are torch modules too.
    if comes_from("keras", "Layer"):
        return "keras"
    if comes_from("torch.nn", "Module"):
        return "torch"
    if comes_from("haiku", "Module", "Transformed", "TransformedWithState"):
        return "haiku"
    if comes_from("flax.linen", "Module") or comes_from("flax.nnx", "Module"):
        return "flax"
    return None


def from_backend_module(native_module: Any, example_inputs: Any = None, **options: Any) -> Any:
    """Converts a module of torch, Keras, Haiku or Flax to a Clematis module on the active backend.

    The framework is inferred from the module. The options are those of `from_torch_module`, `from_keras_module`,
    `from_haiku_module` and
    `from_flax_module`.

    >>> import torch
    >>> net = cm.from_backend_module(torch.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> net(cm.ones((5, 3))).shape
    (5, 2)
    """
    kind = kind_of(native_module)
    if kind == "torch":
        from .from_torch import from_torch_module as convert
    elif kind == "keras":
        from .from_keras import from_keras_module as convert
    elif kind == "haiku":
        from .from_jax import from_haiku_module as convert
    elif kind == "flax":
        from .from_jax import from_flax_module as convert
    else:
        name = native_module.__name__ if inspect.isclass(native_module) else type(native_module).__name__
        raise ArgumentError(f"from_backend_module: expected a module of torch, Keras, Haiku or Flax, got {name}")
    return convert(native_module, example_inputs, **options)
