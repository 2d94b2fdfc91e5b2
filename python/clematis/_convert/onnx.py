"""ONNX files in and out."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import _clematis as _core
from .._module.call import forward_of
from ..errors import ArgumentError
from .captured import Arguments, Capture, Captured, Part, ImportedProgram
from .tree_structure import LEAF, flatten
from .outgoing import _examples
from .trace import build, captured_program, held, spec_of, trace

_EMPTY = '{"inputs": [], "nodes": [], "outputs": []}'


def from_onnx(
    model: Any, *, values: Mapping[str, Any] | None = None, sizes: Mapping[str, int] | None = None, **options: Any
) -> Captured:
    """A module of ours that computes what an ONNX model does, on any backend.

    `model` is a path or the bytes of a file. Weights become parameters under their names, running statistics of batch norms
    buffers, small constants part of the program. Sizes that have names in the model stay open unless `sizes` gives them
    numbers. Inputs in `values` are the same at every call and need not be given: those that decide about shapes have to
    stand there.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> cm.to_onnx(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> cm.from_onnx(path)(cm.ones((5, 3))).shape
    (5, 2)
    """
    if not isinstance(model, (str, bytes, os.PathLike)):
        if not hasattr(model, "SerializeToString"):
            raise ArgumentError(f"from_onnx: a path or bytes are read, not {type(model).__name__}")
        model = model.SerializeToString()
    found = _core._import_onnx(model, dict(values or {}), dict(sizes or {}))  # type: ignore[attr-defined]
    return captured(found, "from_onnx", options)


def captured(found: Any, name: str, options: dict[str, Any]) -> Captured:
    """A module of a program that was read in Rust, from a file."""
    graph, held, constants, draws, inputs, outputs = found
    values = {path: (role, x) for path, role, x in held}
    arguments = Arguments(inputs, [LEAF for _ in inputs], {})
    out_spec = LEAF if len(outputs) == 1 else ["tuple", [LEAF for _ in outputs]]
    part = Part(_EMPTY, values, [True] * len(inputs), [None] * len(outputs), None, out_spec, draws, arguments)
    # The program takes the place of an empty one.
    program = ImportedProgram("onnx", part)
    program.graph, program.constants, program.draws, program.updates = graph, constants, draws, graph.updates()
    program.paths = [path for path, _, _ in held]
    program.dtypes = [dtype for _, role, dtype, _ in graph.inputs() if role == "input"]
    part.program = program
    return Captured(Capture("onnx", values, part, part, name), **options)


def to_onnx(
    module: Any, path: Any, example_inputs: Any = None, *, example_kwargs: Any = None,
    input_names: Any = None, output_names: Any = None,
) -> None:  # fmt: skip
    """Writes what a module computes in evaluation as an ONNX file.

    The program is traced on the example inputs; where it allows for every size of the batch, that size has a name in the
    file. Weights stand in it under the module's paths. A module that came of a model needs no example.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> cm.to_onnx(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> os.path.getsize(path) > 0
    True
    """
    graph, values, names = program("to_onnx", module, example_inputs, example_kwargs, input_names)
    _core._export_onnx(graph, os.fspath(path), values, names, list(output_names or []))  # type: ignore[attr-defined]


def program(
    what: str, module: Any, example_inputs: Any, example_kwargs: Any, input_names: Any
) -> tuple[Any, dict[int, Any], list[str]]:
    """What a module computes in evaluation: the graph, the values of those inputs that no call gives, names of the others."""
    args, kwargs = _examples(what, module, example_inputs, example_kwargs)
    build(module, args, kwargs)
    names = list(input_names or [])
    if isinstance(module, Captured):
        if module._programs is None:
            _needed(what, args, kwargs)
            module(*args, **kwargs)
        program, known = captured_program(module, False), module._programs[0].arguments
        if not names and known is not None:
            names = known.names[: len(program.inputs)]
    else:
        _needed(what, args, kwargs)
        leaves, structure = flatten((args, kwargs))
        specs = [spec_of(x.dtype, x.shape) for x in map(_core.asarray, leaves)]
        program = trace(module, structure, specs, False)
        if not names and len(leaves) == len(args) + len(kwargs):
            # Each argument is one array, so it can lend its name.
            known = Arguments.of(partial(forward_of(type(module)), module), args, kwargs)
            names = [*known.names[: len(args)], *kwargs] if len(known.names) >= len(args) else []
    graph = _core._Graph(program.text)  # type: ignore[call-arg]
    own = {x.path: x.value for x in held(module)}
    values = {i: own[path] for i, path in enumerate(program.paths)}
    first = len(program.paths) + len(program.inputs) + program.draws
    values.update({first + i: _core.asarray(x) for i, x in enumerate(program.constants)})
    return graph, values, names


def _needed(what: str, args: Any, kwargs: Any) -> None:
    if not args and not kwargs:
        raise ArgumentError(f"{what}: example inputs are needed: the module is traced on them")
