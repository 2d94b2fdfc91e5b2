"""Converts Clematis modules to flax. Imported on first use, because it imports flax."""

from typing import Any

from flax import linen, nnx

from .jax_runner import Runner, array


class _Part(nnx.Module):  # type: ignore[misc]
    """A submodule: holds the variables below one component of their paths."""


class Frozen(nnx.Variable):  # type: ignore[misc]
    """A parameter that is not trained."""


def _words(path: str) -> list[str]:
    """A path as attribute names; names that flax uses itself get a trailing underscore."""
    return [f"{word}_" if word in _TAKEN else word for word in path.split(".")]


class FlaxModule(nnx.Module):  # type: ignore[misc]
    """A Clematis module that runs on jax, as an `nnx.Module`.

    Variables have the paths of the source module, with a trailing `_` after names that flax uses itself. Parameters are
    `nnx.Param`, buffers are `nnx.BatchStat`. `train()` and `eval()` set the mode.
    """

    def __init__(self, runner: Runner, rngs: Any = None) -> None:
        self._runner = runner
        # None until `train()` or `eval()` is called, if the submodules of the source differ in their training flags.
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


# Attributes of modules that are not variables.
_TAKEN = {*dir(FlaxModule), "_runner", "deterministic", "use_running_average", "rngs"}


class LinenModule(linen.Module):  # type: ignore[misc]
    """A Clematis module that runs on jax, as a `linen.Module`. `train=` sets the mode; default: that of the source."""

    runner: Any

    @linen.compact
    def __call__(self, *args: Any, train: bool | None = None, **kwargs: Any) -> Any:
        runner, roles = self.runner, {x.path: x.role for x in self.runner.values}
        first, own = {x.path: x.value for x in runner.values}, {}

        def scope(path: str) -> Any:
            found: Any = self.scope
            for i, word in enumerate(path.split(".")[:-1]):
                # Flax takes a parameter of this name for a doubly nested variable dict.
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
            # Initialization creates the state and does not update it.
            if not self.is_initializing():
                scope(path).put_variable("batch_stats", path.rpartition(".")[2], x)

        training = runner.training if train is None else train
        if self.is_initializing():
            training = False
        return runner.call(args, kwargs, training, own.__getitem__, lambda: self.make_rng("dropout"), store)


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], style: str, rngs: Any) -> Any:
    """Converts a module to flax, in the nnx or the linen API."""
    runner = Runner(module, args, kwargs)
    return FlaxModule(runner, rngs) if style == "nnx" else LinenModule(runner)
