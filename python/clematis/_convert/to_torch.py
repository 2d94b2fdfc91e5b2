"""Converts Clematis modules to torch. Imported on first use, because it imports torch."""

import copy
from typing import Any

import torch

from .. import _clematis as _core
from ..errors import ClematisError, ConvertError
from . import lowered
from .tree_structure import unflatten
from .trace import Held, Programs, ExportedProgram, build, held


class _Part(torch.nn.Module):
    """A submodule: holds the parameters below one component of their paths."""


def _words(path: str) -> list[str]:
    """A path as attribute names; names that `torch.nn.Module` uses itself get a trailing underscore."""
    return [f"{word}_" if hasattr(_PLAIN, word) else word for word in path.split(".")]


_PLAIN = _Part()


class TorchModule(torch.nn.Module):
    """A Clematis module that runs on torch.

    Parameters and buffers have the names of the source module, with dots. The module is traced at the first call with a
    structure of arguments; the program accepts every batch size if the module allows that.
    """

    def __init__(self, programs: Programs, values: list[Held]) -> None:
        super().__init__()
        self._programs = programs
        # Whether the submodules still have the differing training flags of the source.
        self._as_source = programs.training is None
        self._places: dict[str, list[str]] = {}
        self._constants = 0
        for x in values:
            self._places[x.path] = _words(x.path)
            tensor = shared(x.value)
            if x.role != "state":
                trained = x.role == "param" and (tensor.is_floating_point() or tensor.is_complex())
                tensor = torch.nn.Parameter(tensor, requires_grad=trained)
            self._put(self._places[x.path], tensor)

    def _put(self, words: list[str], x: Any) -> None:
        holder: torch.nn.Module = self
        for word in words[:-1]:
            inner = holder._modules.get(word)
            if inner is None:
                inner = _Part()
                holder.add_module(word, inner)
            holder = inner
        if isinstance(x, torch.nn.Parameter):
            holder.register_parameter(words[-1], x)
        else:
            holder.register_buffer(words[-1], x)

    def _value(self, path: str) -> Any:
        holder: Any = self
        for word in self._places[path]:
            holder = getattr(holder, word)
        return holder

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = self._programs.arrays(args, kwargs, _is_tensor)
        specs = [(str(x.dtype)[6:], tuple(x.shape)) for x in leaves]
        mode = None if self._as_source else self.training
        program = self._programs.find(structure, specs, mode)
        if program is None:
            program = self._add(structure, leaves, mode)
        run = program.run
        pairs = zip(leaves, specs, program.inputs, strict=True)
        leaves = [lowered.cast(_OPS, x, given, want) for x, (given, _), (want, _) in pairs]
        values = [self._value(path) for path in program.paths]
        more = _keys(program.draws, leaves, values) if program.draws else ()
        constants = [getattr(self, name) for name in program.constants]
        device = _device(leaves, values)
        if device.type == "cpu":
            outs = run(_OPS, *values, *leaves, *more, *constants)
        else:
            # New tensors of the program are created on the device of the operands.
            with device:
                outs = run(_OPS, *values, *leaves, *more, *constants)
        results = []
        for x, at in zip(outs, program.updates, strict=True):
            if at is None:
                results.append(x)
            else:
                with torch.no_grad():
                    values[at].copy_(x)
        return unflatten(program.shape, results)

    def train(self, mode: bool = True) -> "TorchModule":
        """Sets every submodule to training mode, or with False to evaluation mode."""
        self._as_source = False
        return super().train(mode)

    @torch.compiler.disable
    def _add(self, structure: Any, leaves: list[Any], mode: bool | None) -> ExportedProgram:
        specs = [(str(x.dtype)[6:], tuple(n if type(n) is int else None for n in x.shape)) for x in leaves]
        program = self._programs.add(structure, specs, mode)
        # Constants move with the module.
        names = []
        for x in program.constants:
            name = f"_constant_{self._constants}"
            self._constants += 1
            self.register_buffer(name, shared(x).to(_device(leaves, list(self.parameters()))), persistent=False)
            names.append(name)
        program.constants = names
        return program

    def __deepcopy__(self, memo: Any) -> "TorchModule":
        # Tracing does not change the source module, so copies share it.
        new = self.__class__.__new__(self.__class__)
        memo[id(self)] = new
        memo[id(self._programs)] = programs = copy.copy(self._programs)
        programs.known = list(self._programs.known)
        torch.nn.Module.__init__(new)
        new.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return new

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        programs = copy.copy(self._programs)
        if programs.known:
            # The values of the source are stored in this module already.
            programs.module = None
        state["_programs"] = programs
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for _, _, program in self._programs.known:
            program.prepared("torch")

    def extra_repr(self) -> str:
        return f"of {self._programs.name}"


def _is_tensor(x: Any) -> bool:
    return isinstance(x, torch.Tensor)


def _device(leaves: list[Any], values: list[Any]) -> Any:
    """The device of the model, or else of its arguments."""
    for x in values:
        return x.device
    for x in leaves:
        return x.device
    return torch.device("cpu")


def _keys(count: int, leaves: list[Any], values: list[Any]) -> Any:
    """Random keys from torch's generator, two words each."""
    return torch.randint(0, 1 << 32, (count, 2), device=_device(leaves, values)).to(torch.uint32).unbind()


def shared(x: Any) -> Any:
    """A torch tensor that shares memory with a Clematis tensor if possible, else a copy."""
    if x.backend == "torch":
        native = x.native.detach()
        return native if type(native) is torch.Tensor else native.as_subclass(torch.Tensor)
    if x.backend in ("native", "numpy"):
        try:
            return torch.from_dlpack(x)
        except (BufferError, RuntimeError, TypeError, ClematisError):
            pass
    own = x.to("torch").native.detach()
    return own.clone() if x.backend != "native" else own


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> TorchModule:
    """Converts a module to torch; with example arguments its programs are traced now."""
    build(module, args, kwargs)
    programs = Programs(module, "torch")
    made = TorchModule(programs, held(module))
    torch.nn.Module.train(made, module.training)
    if args or kwargs:
        leaves, structure = made._programs.arrays(args, kwargs, _core._tree.is_array)
        examples = [shared(_core.asarray(x)) for x in leaves]
        for mode in programs.modes():
            try:
                made._add(structure, examples, mode)
            except ConvertError:
                if not mode:
                    raise
    return made


_OPS = lowered.dialect("torch")
