"""Modules of ours as modules of flax. Imported when one is asked for, since it imports flax."""

from typing import Any

from flax import linen, nnx

from .jax_runner import Runner, array


class _Part(nnx.Module):  # type: ignore[misc]
    """Holds variables under a word of their paths."""


class Frozen(nnx.Variable):  # type: ignore[misc]
    """A parameter that is not trained."""


def _words(path: str) -> list[str]:
    """A path as names of attributes; what flax calls otherwise gets a stroke at its end."""
    return [f"{word}_" if word in _TAKEN else word for word in path.split(".")]


class FlaxModule(nnx.Module):  # type: ignore[misc]
    """A module of ours that jax computes.

    Its variables stand under our paths, with `_` behind names that flax itself has: `nnx.Param`, `nnx.BatchStat` for
    buffers. `train()` and `eval()` choose the way.
    """

    def __init__(self, runner: Runner, rngs: Any = None) -> None:
        self._runner = runner
        # None until `train()` or `eval()` is called, where the parts of the source differ in their training flags.
        self.deterministic = self.use_running_average = None if runner.training is None else not runner.training
        self.rngs = rngs if rngs is not None else nnx.Rngs(0)
        for x in runner.values:
            kind = {"param": nnx.Param, "state": nnx.BatchStat, "frozen": Frozen}[x.role]
            *above, last = _words(x.path)
            holder: Any = self
            for word in above:
                if not hasattr(holder, word):
                    setattr(holder, word, _Part())
                holder = getattr(holder, word)
            setattr(holder, last, kind(array(x.value)))

    def _variable(self, path: str) -> Any:
        holder: Any = self
        for word in _words(path):
            holder = getattr(holder, word)
        return holder

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        def key() -> Any:
            streams = self.rngs
            return streams.dropout() if "dropout" in streams else streams.default()

        def store(path: str, x: Any) -> None:
            self._variable(path)[...] = x

        training = None if self.deterministic is None else not self.deterministic
        return self._runner.call(args, kwargs, training, lambda path: self._variable(path)[...], key, store)


# Attributes of modules that are no variables.
_TAKEN = {*dir(FlaxModule), "_runner", "deterministic", "use_running_average", "rngs"}


class LinenModule(linen.Module):  # type: ignore[misc]
    """A module of ours that jax computes; `train=` at a call says which way, else it is as the module was."""

    runner: Any

    @linen.compact
    def __call__(self, *args: Any, train: bool | None = None, **kwargs: Any) -> Any:
        runner, roles = self.runner, {x.path: x.role for x in self.runner.values}
        first, own = {x.path: x.value for x in runner.values}, {}

        def scope(path: str) -> Any:
            found: Any = self.scope
            for i, word in enumerate(path.split(".")[:-1]):
                # Flax takes parameters of this name for a dict that was wrapped twice.
                found = found.push("params_" if word == "params" and not i else word, reuse=True)
            return found

        for path, role in roles.items():
            last = path.rpartition(".")[2]
            if role == "param":
                own[path] = scope(path).param(last, lambda _, path=path: array(first[path]))
            else:
                place = "batch_stats" if role == "state" else "frozen"
                own[path] = scope(path).variable(place, last, lambda path=path: array(first[path])).value

        def store(path: str, x: Any) -> None:
            # The first call makes the state and does not move it.
            if not self.is_initializing():
                scope(path).put_variable("batch_stats", path.rpartition(".")[2], x)

        training = runner.training if train is None else train
        if self.is_initializing():
            training = False
        return runner.call(args, kwargs, training, own.__getitem__, lambda: self.make_rng("dropout"), store)


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], style: str, rngs: Any) -> Any:
    """A module of flax in one of its two styles."""
    runner = Runner(module, args, kwargs)
    return FlaxModule(runner, rngs) if style == "nnx" else LinenModule(runner)
