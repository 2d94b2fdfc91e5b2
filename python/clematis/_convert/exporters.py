"""`to_torch_module`, `to_keras_module`, `to_haiku_module` and `to_flax_module`: export Clematis modules."""

from typing import Any

from ..errors import ArgumentError
from .lowered import require


def _examples(
    name: str, module: Any, example_inputs: Any, example_kwargs: Any
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    from ..module import Module

    if not isinstance(module, Module):
        raise ArgumentError(f"{name}: expected a Clematis module, got {type(module).__name__}")
    args = () if example_inputs is None else example_inputs
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    return args, dict(example_kwargs or {})


def to_torch_module(module: Any, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
    """Converts a module to a `torch.nn.Module` with training and evaluation mode.

    Parameters and buffers have the module's names, with dots, and share its memory if both sides can (on torch always).
    The program is traced at the first call, or now if there are example inputs; torch differentiates, compiles and
    exports it like any other module.

    >>> net = cm.to_torch_module(cm.nn.Linear(3, 2))
    >>> [name for name, _ in net.named_parameters()]
    ['w', 'b']
    >>> import torch
    >>> net(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """
    args, kwargs = _examples("to_torch_module", module, example_inputs, example_kwargs)
    require("torch", "to_torch_module")
    from .to_torch import convert

    return convert(module, args, kwargs)


def to_keras_module(module: Any, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
    """Converts a module to a `keras.Model` that runs on any Keras backend.

    Its weights have the module's names, with `__` as path separator, and are initialized with copies of its values. It can be
    trained with `fit`, used in
    functional models, and saved as `.keras`, with its programs as text, once it has been called or has had examples.

    >>> net = cm.to_keras_module(cm.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> sorted(x.name for x in net.trainable_weights)
    ['b', 'w']
    """
    args, kwargs = _examples("to_keras_module", module, example_inputs, example_kwargs)
    require("keras", "to_keras_module")
    from .to_keras import convert

    return convert(module, args, kwargs)


def to_haiku_module(module: Any, example_inputs: Any = None, *, example_kwargs: Any = None) -> Any:
    """Converts a module to a subclass of `hk.Module`.

    Parameters are initialized with the module's values, under its paths; buffers are state, so a module with buffers needs
    `hk.transform_with_state`. `is_training=` in a call, or `training=` in the constructor, selects the mode.

    >>> import haiku as hk, jax
    >>> Net = cm.to_haiku_module(cm.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> forward = hk.transform(lambda x: Net()(x))
    >>> params = forward.init(jax.random.PRNGKey(0), jax.numpy.ones((4, 3)))
    >>> forward.apply(params, None, jax.numpy.ones((5, 3))).shape
    (5, 2)
    """
    args, kwargs = _examples("to_haiku_module", module, example_inputs, example_kwargs)
    require("haiku", "to_haiku_module")
    from .to_haiku import convert

    return convert(module, args, kwargs)


def to_flax_module(
    module: Any, example_inputs: Any = None, *, example_kwargs: Any = None, style: str = "nnx", rngs: Any = None
) -> Any:
    """Converts a module to a Flax module: `nnx`, or with `style="linen"` linen.

    An nnx module holds the values under the module's paths, and draws from `rngs`. A linen module creates them in `init`:
    `params`, and `batch_stats` for buffers; it draws from the stream `dropout`.

    >>> import jax
    >>> net = cm.to_flax_module(cm.nn.Linear(3, 2), cm.ones((4, 3)))
    >>> net(jax.numpy.ones((5, 3))).shape, net.w.shape
    ((5, 2), (2, 3))
    """
    args, kwargs = _examples("to_flax_module", module, example_inputs, example_kwargs)
    if style not in ("nnx", "linen"):
        raise ArgumentError(f'to_flax_module: style is "nnx" or "linen", not {style!r}')
    require("flax", "to_flax_module")
    from .to_flax import convert

    return convert(module, args, kwargs, style, rngs)
