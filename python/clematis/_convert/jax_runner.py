"""Runs programs in jax, for exported Haiku and Flax modules."""

from typing import Any

import jax
import numpy as np

from .. import _clematis as _core
from ..errors import ConvertError
from . import lowered
from .tree_structure import unflatten
from .trace import Held, Programs, Spec, ExportedProgram, build, held


def array(x: Any) -> Any:
    """A copy of a Clematis tensor as a jax array, including 64-bit dtypes."""
    data = np.ascontiguousarray(x.numpy()).tobytes()
    return lowered.dialect("jax").from_bytes(data, lowered.short(x.dtype.name), tuple(x.shape))


def _is_array(x: Any) -> bool:
    return isinstance(x, (jax.Array, np.ndarray, _core.Tensor))


def _plain(x: Any) -> Any:
    """The argument as a jax array."""
    if isinstance(x, _core.Tensor):
        return x.native if x.backend == "jax" else array(x)
    return x


def words(key: Any) -> Any:
    """The two words of a jax PRNG key."""
    data = jax.random.key_data(key) if jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key) else key
    return data.reshape(-1)[:2]


class Runner:
    """The traced programs of a module, and how to call them."""

    def __init__(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        build(module, args, kwargs)
        self.programs = Programs(module, "jax")
        self.values: list[Held] = held(module)
        # None if the submodules differ in their training flags, and keep them until train or eval is called.
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
        # jax may be tracing; what the module creates here must be concrete.
        with jax.ensure_compile_time_eval():
            program = self.programs.add(structure, specs, training)
            program.constants = [array(_core.asarray(x)) for x in program.constants]
        return program

    def call(self, args: Any, kwargs: Any, training: bool | None, values: Any, key: Any, store: Any) -> Any:
        """Runs the program for these arguments: `values(path)` reads a variable, `key()` draws a key, `store(path, x)` writes."""
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
