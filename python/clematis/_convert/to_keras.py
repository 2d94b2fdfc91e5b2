"""Converts Clematis modules to Keras models. Imported on first use, or with Keras, which has to register the class."""

import base64
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import keras  # type: ignore[import-untyped]
import numpy as np

from .. import _clematis as _core
from ..errors import ConvertError
from . import lowered
from .captured import Arguments
from .tree_structure import unflatten
from .trace import Held, Programs, Spec, ExportedProgram, build, held


def _is_tensor(x: Any) -> bool:
    return isinstance(x, (keras.KerasTensor, np.ndarray)) or keras.ops.is_tensor(x)


def _spec(x: Any) -> Spec:
    return keras.backend.standardize_dtype(x.dtype), tuple(x.shape)


def _outside() -> Any:
    """Context in which ops run eagerly although the backend may be tracing."""
    backend = keras.backend.backend()
    if backend == "tensorflow":
        import tensorflow as tf  # type: ignore[import-untyped]

        return tf.init_scope()
    if backend == "jax":
        import jax

        return jax.ensure_compile_time_eval()
    return nullcontext()


@keras.saving.register_keras_serializable(package="clematis", name="KerasModule")
class KerasModule(keras.Model):  # type: ignore[misc]
    """A Clematis module that runs on the Keras backend.

    Variables have the names of the source module, with `__` between the components of a path. The module is traced at the
    first call with a structure of arguments; the program accepts every batch size if the module allows that.
    """

    def __init__(self, programs: Programs, values: list[Held], **options: Any) -> None:
        super().__init__(**options)
        self._programs = programs
        self._held: dict[str, Any] = {}
        self._roles = {x.path: x.role for x in values}
        for x in values:
            dtype, shape = x.value.dtype.name, tuple(x.value.shape)
            self._held[x.path] = self.add_weight(
                name=x.path.replace(".", "__"),
                shape=shape,
                dtype=dtype,
                initializer="zeros",
                trainable=x.role == "param",
                autocast=False,
            )
            if isinstance(x.value, _core.Tensor):
                self._held[x.path].assign(x.value.numpy())
        self._keys = keras.random.SeedGenerator()
        self.built = self.supports_masking = True

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Does nothing: all variables exist from the start."""

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        """Returns None: masks are ordinary arguments and are not propagated."""

    def call(self, *args: Any, training: Any = None, **kwargs: Any) -> Any:
        """Runs the program for arguments like these."""
        leaves, structure = self._programs.arrays(args, kwargs, _is_tensor)
        program = self._find(structure, leaves, bool(training))
        framework = keras.backend.backend()
        values = [keras.ops.convert_to_tensor(self._held[path].value) for path in program.paths]
        more = [_words(self._keys.next()) for _ in range(program.draws)]
        constants = [keras.ops.convert_to_tensor(x) for x in program.constants]
        ops, leaves = lowered.dialect(framework), [keras.ops.convert_to_tensor(x) for x in leaves]
        pairs = zip(leaves, program.inputs, strict=True)
        leaves = [lowered.cast(ops, x, _spec(x)[0], want) for x, (want, _) in pairs]
        outs = program.prepared(framework)(ops, *values, *leaves, *more, *constants)
        results = []
        for x, at in zip(outs, program.updates, strict=True):
            if at is None:
                results.append(x)
            else:
                self._held[program.paths[at]].assign(x)
        return unflatten(program.shape, results)

    def compute_output_spec(self, *args: Any, training: Any = None, **kwargs: Any) -> Any:
        """The specs of the outputs, from the program."""
        leaves, structure = self._programs.arrays(args, kwargs, _is_tensor)
        program = self._find(structure, leaves, bool(training))
        results = []
        for (dtype, sizes), at in zip(program.outputs, program.updates, strict=True):
            if at is None:
                shape = tuple(n if isinstance(n, int) else None for n in sizes)
                results.append(keras.KerasTensor(shape, dtype))
        return unflatten(program.shape, results)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The output shape for one float array."""
        one = keras.KerasTensor(tuple(input_shape), self.compute_dtype)
        return self.compute_output_spec(one).shape

    def _find(self, structure: Any, leaves: list[Any], training: bool) -> ExportedProgram:
        specs = [_spec(x) for x in leaves]
        program = self._programs.find(structure, specs, training)
        if program is None:
            with _outside():
                program = self._programs.add(structure, specs, training)
                program.constants = [_core.asarray(x).numpy() for x in program.constants]
        return program

    # Files.

    def get_config(self) -> dict[str, Any]:
        """The programs as text, and the variables by name, dtype and shape."""
        if not self._programs.known:
            raise ConvertError(
                f"{self._programs.name}: there is no program to save yet; call the model once, or convert with example_inputs"
            )
        values = [[path, self._roles[path], v.dtype, list(v.shape)] for path, v in self._held.items()]
        programs = [[structure, training, _written(program)] for structure, training, program in self._programs.known]
        words = self._programs.arguments
        words = None if words is None else [words.names, words.args, words.kwargs]
        own = {"module": self._programs.name, "held": values, "programs": programs, "arguments": words}
        return {**keras.layers.Layer.get_config(self), "clematis": own}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> "KerasModule":
        """Rebuilds a model from a file; its values are loaded afterwards."""
        config = dict(config)
        own = config.pop("clematis")
        programs = Programs(None, keras.backend.backend())
        programs.name = own["module"]
        programs.arguments = own["arguments"] and Arguments(*own["arguments"])
        programs.known = [(structure, training, _read(program)) for structure, training, program in own["programs"]]
        values = [Held(path, role, _blank(dtype, shape)) for path, role, dtype, shape in own["held"]]
        return cls(programs, values, **config)


def _blank(dtype: str, shape: list[int]) -> Any:
    """Dtype and shape of a value that is loaded later."""
    return SimpleNamespace(dtype=SimpleNamespace(name=dtype), shape=tuple(shape))


def _words(seed: Any) -> Any:
    """A random key of two words."""
    seed = keras.ops.convert_to_tensor(seed)
    if keras.backend.backend() == "torch":
        import torch

        return seed.to(torch.int64).to(torch.uint32)
    return keras.ops.cast(seed, "uint32")


def _written(program: ExportedProgram) -> dict[str, Any]:
    constants = [[x.dtype.name, list(x.shape), base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()]
                 for x in program.constants]  # fmt: skip
    return {
        "text": program.text, "paths": program.paths, "inputs": program.inputs, "draws": program.draws, "constants": constants,
        "updates": program.updates, "outputs": program.outputs, "shape": program.shape,
    }  # fmt: skip


def _read(program: dict[str, Any]) -> ExportedProgram:
    constants = [np.frombuffer(base64.b64decode(data), dtype).reshape(shape) for dtype, shape, data in program["constants"]]

    def specs(x: Any) -> list[Spec]:
        return [(dtype, tuple(shape)) for dtype, shape in x]

    return ExportedProgram(
        program["text"], list(program["paths"]), specs(program["inputs"]), program["draws"], constants, list(program["updates"]),
        specs(program["outputs"]), program["shape"],
    )  # fmt: skip


def convert(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> KerasModule:
    """Converts a module to a Keras model; with example arguments its programs are traced now."""
    build(module, args, kwargs)
    values = held(module)
    floats = [x.value.dtype.name for x in values if _core.isdtype(x.value.dtype, "real floating")]
    made = KerasModule(
        Programs(module, keras.backend.backend()), values, dtype=floats[0] if floats else "float32", name=_name(module)
    )
    if args or kwargs:
        leaves, structure = made._programs.arrays(args, kwargs, _core._tree.is_array)
        examples = [_core.asarray(x) for x in leaves]
        specs = [(x.dtype.name, tuple(x.shape)) for x in examples]
        for training in (False, True):
            try:
                program = made._programs.add(structure, specs, training)
                program.constants = [_core.asarray(x).numpy() for x in program.constants]
            except ConvertError:
                if not training:
                    raise
    return made


def _name(module: Any) -> str:
    return "".join(c if c.isalnum() else "_" for c in type(module).__name__).lower()
