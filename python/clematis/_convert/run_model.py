"""Runs a model of each framework once in evaluation mode, without modifying it."""

import inspect
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from .tree_structure import unflatten, flatten

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def of_ours(module: Any, backend: str | None) -> Run:
    """A module of ours, on the backend where its parameters are."""
    from .trace import as_it_was

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with as_it_was(module, False):
            if backend is None:
                return module(*_given(args, _core.asarray), **_given(kwargs, _core.asarray))
            with _core.backend(backend):
                return module(*_given(args, _core.asarray), **_given(kwargs, _core.asarray))

    return run


def of_torch(module: Any) -> Run:
    import torch

    from .torch_example import device, tensors, untouched

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = tensors(torch, args, kwargs, device(module))
        with untouched(module) as own, torch.no_grad():
            own.eval()
            return own(*args, **kwargs)

    return run


def of_keras(layer: Any) -> Run:
    import keras  # type: ignore[import-untyped]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        convert = keras.ops.convert_to_tensor
        return layer(*_given(args, convert), **_given(kwargs, convert), training=False)

    return run


def of_keras_traced(layer: Any) -> Run | None:
    """The layer as tensorflow traces it in `fit` and `predict`, with an unknown batch size; None on other backends."""
    import keras

    if keras.backend.backend() != "tensorflow":
        return None
    import tensorflow as tf  # type: ignore[import-untyped]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, shape = flatten((args, kwargs))
        leaves = [keras.ops.convert_to_tensor(x) for x in leaves]
        batch = next((x.shape[0] for x in leaves if x.shape.rank), None)

        def spec(x: Any) -> Any:
            is_batched = x.shape.rank and x.shape[0] == batch
            return tf.TensorSpec([None, *x.shape[1:]] if is_batched else x.shape, x.dtype)

        def call(*given: Any) -> Any:
            args, kwargs = unflatten(shape, list(given))
            return layer(*args, **kwargs, training=False)

        return tf.function(call, input_signature=[spec(x) for x in leaves], autograph=False)(*leaves)

    return run


def of_haiku(module: Any, options: dict[str, Any]) -> Run:
    """A class, made as `from_haiku_module` makes it, or what `hk.transform` gave."""
    import haiku as hk
    import jax
    import jax.numpy as jnp

    from .from_jax import haiku_function, in_mode, mode_switch

    key = jax.random.PRNGKey(options.get("rng_seed", 0))
    params, state = options.get("params_hk"), options.get("state_hk")

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _given(args, jnp.asarray), _given(kwargs, jnp.asarray)
        switch, args, kwargs = mode_switch(haiku_function(module), args, kwargs)
        first_args, first_kwargs = in_mode(switch, True, args, kwargs)
        args, kwargs = in_mode(switch, False, args, kwargs)
        made = (options.get("constructor_args") or (), options.get("constructor_kwargs") or {})
        both = hk.transform_with_state(lambda *a, **k: module(*made[0], **made[1])(*a, **k))

        if not inspect.isclass(module):
            if isinstance(module, hk.TransformedWithState):
                return module.apply(params, state or {}, key, *args, **kwargs)[0]
            return module.apply(params, key, *args, **kwargs)
        first = both.init(key, *first_args, **first_kwargs)
        own = [x if x is not None else y for x, y in zip((params, state), first, strict=True)]
        return both.apply(*own, key, *args, **kwargs)[0]

    return run


def of_flax(module: Any, options: dict[str, Any]) -> Run:
    """A module of linen or nnx, or a class of either, made as `from_flax_module` makes it."""
    import jax
    import jax.numpy as jnp
    from flax import linen, nnx

    from .from_jax import _MODES, flax_instance, in_mode, linen_field, mode_switch

    seed = options.get("rng_seed", 0)
    module = flax_instance(module, options.get("constructor_args"), options.get("constructor_kwargs"), seed)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _given(args, jnp.asarray), _given(kwargs, jnp.asarray)
        switch, args, kwargs = mode_switch(type(module).__call__, args, kwargs)
        args, kwargs = in_mode(switch, False, args, kwargs)
        if not isinstance(module, linen.Module):
            own = nnx.clone(module)
            own.eval()
            return own(*args, **kwargs)
        field = None if switch else linen_field(module)
        made: dict[str, Any] = {field: _MODES[field][0]} if field else {}
        here = module.clone(**made)
        variables = options.get("params")
        if variables is None:
            keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.PRNGKey(seed)), strict=True))
            variables = here.init(keys, *args, **kwargs)
        elif "params" not in variables:
            variables = {"params": variables}
        return here.apply(variables, *args, **kwargs)

    return run


def _given(tree: Any, convert: Callable[[Any], Any]) -> Any:
    leaves, shape = flatten(tree)
    return unflatten(shape, [convert(x) for x in leaves])
