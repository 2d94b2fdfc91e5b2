"""How a model of each framework is run once in evaluation, which leaves it as it is."""

import inspect
from collections.abc import Callable
from typing import Any

from .. import _clematis as _core
from .nests import put_together, taken_apart

Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def of_ours(module: Any, backend: str | None) -> Run:
    """A module of ours, on the backend where its parameters are."""
    from .trace import _as_it_was

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with _as_it_was(module, False):
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


def of_haiku(module: Any, options: dict[str, Any]) -> Run:
    """A class, made as `from_haiku_module` makes it, or what `hk.transform` gave."""
    import haiku as hk
    import jax
    import jax.numpy as jnp

    from .incoming_jax import _MODES, _mode_word

    key = jax.random.PRNGKey(options.get("rng_seed", 0))
    params, state = options.get("params_hk"), options.get("state_hk")

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _given(args, jnp.asarray), _given(kwargs, jnp.asarray)
        word, args, kwargs = _mode_word(module.__call__ if inspect.isclass(module) else None, args, kwargs)
        made = (options.get("constructor_args") or (), options.get("constructor_kwargs") or {})
        both = hk.transform_with_state(lambda *a, **k: module(*made[0], **made[1])(*a, **k))

        def told(training: bool) -> dict[str, Any]:
            return {word: _MODES[word][training]} if word else {}

        if not inspect.isclass(module):
            if isinstance(module, hk.TransformedWithState):
                return module.apply(params, state or {}, key, *args, **kwargs, **told(False))[0]
            return module.apply(params, key, *args, **kwargs, **told(False))
        first = both.init(key, *args, **kwargs, **told(True))
        own = [x if x is not None else y for x, y in zip((params, state), first, strict=True)]
        return both.apply(*own, key, *args, **kwargs, **told(False))[0]

    return run


def of_flax(module: Any, options: dict[str, Any]) -> Run:
    """A module of linen or nnx, or a class of either, made as `from_flax_module` makes it."""
    import jax
    import jax.numpy as jnp
    from flax import linen, nnx

    from .incoming_jax import _MODES, _mode_word, flax_instance, linen_field

    seed = options.get("rng_seed", 0)
    module = flax_instance(module, options.get("constructor_args"), options.get("constructor_kwargs"), seed)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args, kwargs = _given(args, jnp.asarray), _given(kwargs, jnp.asarray)
        if not isinstance(module, linen.Module):
            own = nnx.clone(module)
            own.eval()
            word, args, kwargs = _mode_word(type(module).__call__, args, kwargs)
            return own(*args, **kwargs, **({word: _MODES[word][0]} if word else {}))
        word, args, kwargs = _mode_word(type(module).__call__, args, kwargs)
        told: dict[str, Any] = {word: _MODES[word][0]} if word else {}
        field = None if word else linen_field(module)
        made: dict[str, Any] = {field: _MODES[field][0]} if field else {}
        here = module.clone(**made)
        variables = options.get("params")
        if variables is None:
            keys = dict(zip(("params", "dropout"), jax.random.split(jax.random.PRNGKey(seed)), strict=True))
            variables = here.init(keys, *args, **kwargs, **told)
        elif "params" not in variables:
            variables = {"params": variables}
        return here.apply(variables, *args, **kwargs, **told)

    return run


def _given(nest: Any, convert: Callable[[Any], Any]) -> Any:
    leaves, shape = taken_apart(nest)
    return put_together(shape, [convert(x) for x in leaves])
