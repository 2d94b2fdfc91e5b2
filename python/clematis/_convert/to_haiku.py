"""Converts Clematis modules to haiku. Imported on first use, because it imports haiku."""

from typing import Any

import haiku as hk

from .jax_runner import Runner, array


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> type:
    """Converts a module to a haiku class; the initial parameters are the current values of the module."""
    runner = Runner(module, args, kwargs)
    values = {x.path: x for x in runner.values}
    first = {path: array(x.value) for path, x in values.items()}

    class HaikuModule(hk.Module):  # type: ignore[misc]
        """A Clematis module that runs on jax. `training` sets the mode, `is_training` overrides it for a call."""

        def __init__(self, name: str | None = None, *, training: bool | None = None) -> None:
            super().__init__(name or hk_name(runner.name))
            self.training = runner.training if training is None else training

        def __call__(self, *args: Any, is_training: bool | None = None, **kwargs: Any) -> Any:
            def value(path: str) -> Any:
                x = first[path]
                get = hk.get_state if values[path].role == "state" else hk.get_parameter
                found = get(path.replace(".", "/"), x.shape, x.dtype, init=lambda shape, dtype: x)
                return hk_stopped(found) if values[path].role == "frozen" else found

            def store(path: str, x: Any) -> None:
                hk.set_state(path.replace(".", "/"), x)

            # All variables are created, so that those that one program does not use exist for another.
            own = {path: value(path) for path in first}
            training = self.training if is_training is None else is_training
            return runner.call(args, kwargs, training, own.__getitem__, hk.next_rng_key, store)

    HaikuModule.__name__ = HaikuModule.__qualname__ = runner.name
    return HaikuModule


def hk_stopped(x: Any) -> Any:
    """Stops the gradient of a frozen parameter."""
    import jax

    return jax.lax.stop_gradient(x)


def hk_name(name: str) -> str:
    """A class name in haiku's snake_case."""
    return (
        "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name) if c.isalnum()) or "net"
    )
