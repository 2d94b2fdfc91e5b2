"""Traces Clematis modules for export: one program in evaluation and one in training mode per structure of arguments."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .. import _clematis as _core
from .._module.build import is_built
from .._module.call import frozen_paths
from .._module.discover import RECORDING
from .._module.roles import put_buffers, shared_training_flag, training_flags_kept
from ..container import Container
from ..errors import ClematisError, ConvertError, StructureError
from .captured import Captured
from .lowered import function
from .tree_structure import unflatten, flatten

# Batch sizes that no model uses itself: what two programs at these sizes have in common holds for every batch size.
_SIZES = (1013, 1008)
_NAME = "batch"

Spec = tuple[str, tuple[Any, ...]]


@dataclass
class ExportedProgram:
    """A traced program as plain data, except for the constants."""

    text: str
    # Paths of the model's values, which are the first inputs. Arguments, a key per draw, and constants follow.
    paths: list[str]
    inputs: list[Spec]
    draws: int
    constants: list[Any]
    # For each output the index of the input that it updates, or None.
    updates: list[int | None]
    outputs: list[Spec]
    # The structure of the results.
    shape: Any
    # The compiled function of the framework; None until it is first needed.
    run: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "run": None}

    def prepared(self, framework: str) -> Any:
        """The program as a function of the framework's arrays."""
        if self.run is None:
            self.run = function(self.text, framework)
        return self.run

    def fits(self, specs: list[Spec], loosely: bool = False) -> bool:
        """Whether the program accepts arguments of these dtypes and shapes; None is an unknown size.

        With `loosely`, other dtypes of the same kind are accepted too, and have to be cast.
        """
        if len(specs) != len(self.inputs):
            return False
        sizes: dict[str, Any] = {}
        for (dtype, want), (given_dtype, given) in zip(self.inputs, specs, strict=True):
            if len(want) != len(given):
                return False
            if dtype != given_dtype and not (loosely and _kind(dtype) == _kind(given_dtype)):
                return False
            for n, m in zip(want, given, strict=True):
                if isinstance(n, str):
                    if sizes.setdefault(n, m) is not m and sizes[n] != m:
                        return False
                elif n != m:
                    return False
        return True


def _kind(dtype: str) -> str:
    """The kind of a dtype: float, int, complex or bool."""
    word = dtype.rstrip("0123456789").removeprefix("u")
    return "float" if word == "bfloat" else word


@dataclass
class Held:
    """A value of a module: its dotted path, role and tensor."""

    path: str
    role: str
    value: Any


def held(module: Any) -> list[Held]:
    """The parameters, then the buffers of a module."""
    v, frozen, found = module.v, frozen_paths(module), []
    for path, x in v._entries():
        if _core._tree.is_array(x):
            found.append(Held(path.replace("/", "."), "frozen" if path in frozen else "param", _core.asarray(x)))
    for path, x in module.buffers()._entries():
        found.append(Held(path.replace("/", "."), "state", _core.asarray(x)))
    return found


def spec_of(dtype: Any, shape: Any) -> Spec:
    """The dtype's name and the shape; a size that is not an integer is unknown (None)."""
    return str(dtype), tuple(n if type(n) is int else None for n in shape)


def with_batch(specs: list[Spec]) -> list[Spec] | None:
    """Specs with a symbolic batch: the first size of the first array, and of all arrays that start with the same size."""
    first = next((shape[0] for _, shape in specs if shape), 0)
    if first == 0:
        return None

    def named(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        return (_NAME, *shape[1:]) if shape and shape[0] == first else shape

    found = [(dtype, named(shape)) for dtype, shape in specs]
    # An unknown size has no value to fall back on.
    return None if any(n is None for _, shape in found for n in shape) else found


def build(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Creates the variables of a module that is built at its first call."""
    if module.v is not None and is_built(module):
        return
    if not args and not kwargs:
        raise StructureError(
            f"{type(module).__name__}: some variables are made at the first call; call it once, or give example_inputs"
        )
    before = module.buffers().copy()
    module(*args, **kwargs)
    put_buffers(module, before)


@contextmanager
def as_it_was(module: Any, training: bool | None) -> Iterator[None]:
    """Sets every training flag (None: leaves each as it is); restores flags and buffers afterwards."""
    buffers = module.buffers().copy()
    token = RECORDING.set(True)
    try:
        with training_flags_kept(module):
            if training is not None:
                module.train(training)
            yield
    finally:
        put_buffers(module, buffers)
        RECORDING.reset(token)


def _record(module: Any, values: list[Held], structure: Any, specs: list[Spec], training: bool | None) -> tuple[Any, ...]:
    """The graph of a call with arguments of these shapes, and the structure of its results."""
    shapes = []

    def call(own: list[Any], given: list[Any]) -> Any:
        v, state = module.v.copy(), Container()
        for x, traced in zip(values, own, strict=True):
            (state if x.role == "state" else v)[x.path.replace(".", "/")] = traced
        put_buffers(module, state)
        before = dict(module.buffers()._entries())
        args, kwargs = unflatten(structure, given)
        result = module(*args, v=v, **kwargs) if len(v) else module(*args, **kwargs)
        leaves, shape = flatten(result)
        shapes.append(shape)
        at = {x.path.replace(".", "/"): i for i, x in enumerate(values) if x.role == "state"}
        new = [(at[path], _core.stop_gradient(x)) for path, x in module.buffers()._entries() if x is not before[path]]
        return leaves, new

    with as_it_was(module, training):
        triples = [(x.path, x.role, x.value) for x in values]
        graph, constants, draws = _core._trace_call(call, triples, specs)  # type: ignore[attr-defined]
    return graph, constants, draws, shapes[0]


_PLACES = re.compile(r"(?<![\w.%\"-])\d+(?![\w.])")


def _between(texts: tuple[str, str]) -> str | None:
    """Merges two program texts that differ only in sizes into a symbolic one; None if they differ in more."""
    numbers = [[int(n) for n in _PLACES.findall(text)] for text in texts]
    rests = [_PLACES.sub("#", text) for text in texts]
    if rests[0] != rests[1]:
        return None
    span = _SIZES[0] - _SIZES[1]
    words = []
    for a, b in zip(*numbers, strict=True):
        times, rest = divmod(a - b, span)
        if rest:
            return None
        more = a - times * _SIZES[0]
        word = str(a) if not times else _NAME if times == 1 else f"{times}*{_NAME}"
        words.append(word if not times or not more else f"{word}{more:+d}")
    out = iter(words)
    return _PLACES.sub(lambda _: next(out), texts[0])


def _sized(specs: list[Spec], size: int) -> list[Spec]:
    return [(dtype, tuple(size if n == _NAME else n for n in shape)) for dtype, shape in specs]


def _exported(graph: Any, paths: list[str], specs: list[Spec], draws: int, constants: Any, shape: Any) -> ExportedProgram:
    outs = [(dtype, tuple(int(n) if n.isdigit() else n for n in sizes)) for dtype, sizes in graph.outputs()]
    graph, more = _core._without_held(graph)  # type: ignore[attr-defined]
    return ExportedProgram(graph.text(), paths, specs, draws, [*constants, *more], graph.updates(), outs, shape)


def trace(module: Any, structure: Any, specs: list[Spec], training: bool | None) -> ExportedProgram:
    """The program of a call: for every batch size if possible, else for the given shapes."""
    values, named = held(module), with_batch(specs)
    if named is not None:
        found = _for_every_batch(module, values, structure, named, specs, training)
        if found is not None:
            return found
    if any(n is None for _, shape in specs for n in shape):
        raise ConvertError(
            f"{type(module).__name__}: its program depends on sizes that are not known here; call it once with arrays of"
            " known sizes, or give example_inputs"
        )
    graph, constants, draws, shape = _record(module, values, structure, specs, training)
    return _exported(graph, [x.path for x in values], specs, draws, constants, shape)


def _for_every_batch(
    module: Any, values: list[Held], structure: Any, named: list[Spec], specs: list[Spec], training: bool | None
) -> ExportedProgram | None:
    try:
        pair = [_record(module, values, structure, _sized(named, size), training) for size in _SIZES]
        text = _between((pair[0][0].text(), pair[1][0].text()))
        if text is None or pair[0][3] != pair[1][3]:
            return None
        graph = _core._Graph(text)  # type: ignore[call-arg]
        _, constants, draws, shape = pair[0]
        if any(_NAME in size for _, role, _, sizes in graph.inputs() if role == "constant" for size in sizes):
            return None
        # A program that branches on small sizes is detected at the actual size.
        size = next((s[0] for (_, s), (_, n) in zip(specs, named, strict=True) if n and n[0] == _NAME), None)
        if size is not None and size != 1:
            here = _record(module, values, structure, specs, training)
            if here[0].text() != graph.bound(_NAME, size).text():
                return None
    except (ClematisError, ValueError, TypeError, MemoryError):
        return None
    return _exported(graph, [x.path for x in values], named, draws, constants, shape)


def captured_program(module: Captured, training: bool | None) -> ExportedProgram:
    """The program that a captured model already has."""
    from .captured import ImportedProgram as Own

    program: Any = module._programs[training]
    if not isinstance(program, Own):
        raise ConvertError(f"in training: {program}; call eval() first")
    inputs = [(dtype, tuple(int(n) if n.isdigit() else n for n in sizes))
              for _, role, dtype, sizes in program.graph.inputs() if role == "input"]  # fmt: skip
    return _exported(program.graph, list(program.paths), inputs, int(program.draws), program.constants, program.out_spec)


class Programs:
    """The programs of a module, traced on first use."""

    def __init__(self, module: Any, framework: str) -> None:
        self.module: Any = module
        self.framework = framework
        self.name = module._name if isinstance(module, Captured) else type(module).__name__
        # Structure of the arguments, training flag, program.
        self.known: list[tuple[Any, bool | None, ExportedProgram]] = []
        self.is_captured = isinstance(module, Captured)
        # The initial mode of the converted model; None keeps the flag of each submodule.
        self.training = None if module is None else shared_training_flag(module)
        # A captured model knows how arguments become its arrays.
        self.arguments = module._programs[0].arguments if isinstance(module, Captured) else None

    def modes(self) -> tuple[bool | None, ...]:
        """The modes that a converted model can be in."""
        return (False, True) if self.training is not None else (False, True, None)

    def arrays(self, args: Any, kwargs: Any, is_leaf: Any) -> tuple[list[Any], Any]:
        """The arrays among the arguments of a call, and the structure that is the cache key."""
        if self.arguments is not None:
            return self.arguments.leaves(self.name, args, kwargs), None
        return flatten((args, kwargs), is_leaf)

    def add(self, structure: Any, specs: list[Spec], training: bool | None) -> ExportedProgram:
        """Traces a program; `training` is None for a module whose submodules differ in their training flags."""
        if self.module is None:
            raise ConvertError(
                f"{self.name}: it was saved with programs for other arguments than {specs} in"
                f" {'training' if training else 'evaluation'}; convert the module again with example_inputs like these"
            )
        if isinstance(self.module, Captured):
            program = captured_program(self.module, training)
            if not program.fits(specs, loosely=True):
                raise ConvertError(f"{self.name}: it was captured for {program.inputs}, not for {specs}")
        else:
            program = trace(self.module, structure, specs, training)
        # Ops that the framework does not support are reported now.
        program.prepared(self.framework)
        self.known.append((structure, training, program))
        return program

    def find(self, structure: Any, specs: list[Spec], training: bool | None) -> "ExportedProgram | None":
        """The program for a call, if there is one."""
        for own, mode, program in self.known:
            if mode == training and own == structure and program.fits(specs, self.is_captured):
                return program
        return None
