"""Modules of ours as modules of haiku. Imported when one is asked for, since it imports haiku."""

from typing import Any

import haiku as hk

from .jax_runner import Runner, array


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> type:
    """A class of haiku's; the first parameters are the values that the module has now."""
    runner = Runner(module, args, kwargs)
    values = {x.path: x for x in runner.values}
    first = {path: array(x.value) for path, x in values.items()}

    class HaikuModule(hk.Module):  # type: ignore[misc]
        """A module of ours that jax computes; `training` says which way, unless a call does."""

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

            # All are made at once, so that what one program does not need is there for another.
            own = {path: value(path) for path in first}
            training = self.training if is_training is None else is_training
            return runner.call(args, kwargs, training, own.__getitem__, hk.next_rng_key, store)

    HaikuModule.__name__ = HaikuModule.__qualname__ = runner.name
    return HaikuModule


def hk_stopped(x: Any) -> Any:
    """What is frozen has no gradients."""
    import jax

    return jax.lax.stop_gradient(x)


def hk_name(name: str) -> str:
    """A class's name as haiku writes names."""
    return (
        "".join(f"_{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name) if c.isalnum()) or "net"
    )
