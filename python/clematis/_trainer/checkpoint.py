"""What a trainer needs to go on: one file with everything in it, written whole or not at all."""

import os
from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core
from .._module.build import take
from .._module.roles import put_buffers
from ..container import Container
from ..errors import CheckpointError, StructureError
from ..module import Module
from ..optim import leaves
from ..optim.optimizer import flat, listed, nested

FORMAT = 1


def parts(model: Any) -> dict[str, dict[str, Any]]:
    """Parameters and buffers of a model by path: of a module all of them, frozen ones too."""
    if isinstance(model, Module):
        return {"parameters": dict(model.v._entries()), "buffers": dict(model.buffers()._entries())}
    return {"parameters": dict(leaves.entries(model)), "buffers": {}}


def parts_as_tree(model: Any) -> Any:
    """What is saved of a model alone: of a module what `module.load` takes."""
    return model._whole() if isinstance(model, Module) else model


def put(model: Any, found: Mapping[str, Mapping[str, Any]]) -> Any:
    """The model with these parameters and buffers."""
    if not isinstance(model, Module):
        return leaves.placed(model, found["parameters"], inplace=True)
    take(model, Container(found["parameters"]), partial=False, checked=False)
    put_buffers(model, Container(found["buffers"]))
    return model


def save(path: str | os.PathLike[str], trainer: Any) -> None:
    """Writes everything."""
    tree = {"trainer": FORMAT}
    tree |= {name: nested(values) for name, values in parts(trainer.model).items()}
    tree |= {"optimizer": trainer.optimizer.state, "random": _core._random.get_state(), "data": trainer.place}
    tree |= {"run": trainer.run_state()}
    _core.save(path, tree)


def load(path: str | os.PathLike[str], trainer: Any) -> None:
    """Takes everything, or tells every difference and takes nothing."""
    tree = _core.load(path)
    if not isinstance(tree, dict) or tree.get("trainer") != FORMAT:
        raise CheckpointError(f"Trainer: {os.fspath(path)} is no checkpoint of a trainer, or one of a later version")
    own = parts(trainer.model)
    found = {name: dict(flat(tree[name])) for name in own}
    lines = []
    for name, values in own.items():
        lines += _differences(name, values, found[name])
    if lines:
        raise StructureError(f"Trainer: {os.fspath(path)} is of another model:\n{listed(lines)}")
    # All is read and compared before anything is changed.
    moved = {name: {at: _like(x, found[name][at]) for at, x in values.items()} for name, values in own.items()}
    before = trainer.optimizer.state
    trainer.optimizer.set_state(tree["optimizer"])
    try:
        trainer.set_run_state(tree["run"])
        trainer.place = tree["data"]
    except Exception:
        trainer.optimizer.set_state(before)
        raise
    trainer.model = put(trainer.model, moved)
    _core._random.set_state(tree["random"])


def _like(old: Any, new: Any) -> Any:
    """A tensor from a file as what it replaces: on its backend, or a framework's own array."""
    if isinstance(old, _core.Tensor):
        return new.to(old.backend)
    home = "numpy" if type(old).__module__.startswith("numpy") else _core.asarray(old).backend
    return new.to(home).native


def _differences(name: str, own: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    lines = [f"`{name}/{at}` is not in the file" for at in own if at not in found]
    lines += [f"`{name}/{at}` is not in the model" for at in found if at not in own]
    for at in own:
        if at in found:
            a, b = _core.asarray(own[at]), found[at]
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                lines.append(
                    f"`{name}/{at}` is {a.dtype.name}{list(a.shape)}, in the file {b.dtype.name}{list(b.shape)}"
                )
    return lines
