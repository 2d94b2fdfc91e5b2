"""What the modules of haiku and flax have in common: programs that jax runs."""

from typing import Any

import jax
import numpy as np

from .. import _clematis as _core
from ..errors import ConvertError
from . import lowered
from .tree_structure import unflatten
from .trace import Held, Programs, Spec, ExportedProgram, build, held


def array(x: Any) -> Any:
    """A copy of a tensor of ours as an array of jax's, also of 64 bits."""
    data = np.ascontiguousarray(x.numpy()).tobytes()
    return lowered.dialect("jax").from_bytes(data, lowered.short(x.dtype.name), tuple(x.shape))


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, np.ndarray, _core.Tensor))


def _plain(x: Any) -> Any:
    """An array of jax's, of what is given."""
    if isinstance(x, _core.Tensor):
        return x.native if x.backend == "jax" else array(x)
    return x


def words(key: Any) -> Any:
    """The two words of one of jax's keys."""
    data = jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return data.reshape(-1)[:2]


class Runner:
    """The programs of a module, and the calls of them."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        build(module, args, kwargs)
        self.programs = Programs(module, "jax")
        self.values: list[Held] = held(module)
        # None where the module's parts differ in their training flags, and keep them until told otherwise.
        self.training = self.programs.training
        self.name = type(module).__name__
        if args or kwargs:
            leaves, structure = self.programs.arrays(args, kwargs, _core._tree.is_array)
            examples = [_core.asarray(x) for x in leaves]
            specs = [(x.dtype.name, tuple(x.shape)) for x in examples]
            for mode in self.programs.modes():
                try:
                    self._add(structure, specs, mode)
                except ConvertError:
                    if not mode:
                        raise

    def _add(self, structure: Any, specs: list[Spec], training: bool | None) -> ExportedProgram:
        # jax may be tracing; what the module makes now is made now.
        with jax.ensure_compile_time_eval():
            program = self.programs.add(structure, specs, training)
            program.constants = [array(_core.asarray(x)) for x in program.constants]
        return program

    def call(self, args: Any, kwargs: Any, training: bool | None, values: Any, key: Any, store: Any) -> Any:
        """Runs the program for these arguments: `values(path)` gives what is held, `key()` a key, `store(path, x)` keeps."""
        leaves, structure = self.programs.arrays(args, kwargs, _is_array)
        leaves = [_plain(x) for x in leaves]
        specs = [(np.dtype(x.dtype).name, tuple(x.shape)) for x in leaves]
        program = self.programs.find(structure, specs, training)
        if program is None:
            program = self._add(structure, specs, training)
        own = [values(path) for path in program.paths]
        keys = [words(key()) for _ in range(program.draws)]
        ops, pairs = lowered.dialect("jax"), zip(leaves, specs, program.inputs, strict=True)
        leaves = [lowered.cast(ops, x, given, want) for x, (given, _), (want, _) in pairs]
        outs = program.prepared("jax")(ops, *own, *leaves, *keys, *program.constants)
        results = []
        for x, at in zip(outs, program.updates, strict=True):
            if at is None:
                results.append(x)
            else:
                store(program.paths[at], x)
        return unflatten(program.shape, results)
