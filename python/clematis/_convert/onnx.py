"""`from_onnx` and `to_onnx`."""

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from .. import _clematis as _core
from .._module.call import forward_of
from ..errors import ArgumentError
from .captured import Arguments, Capture, Captured, Part, ImportedProgram
from .tree_structure import LEAF, flatten
from .exporters import _examples
from .trace import build, captured_program, held, spec_of, trace

_EMPTY = '{"inputs": [], "nodes": [], "outputs": []}'


def from_onnx(
    model: Any, *, values: Mapping[str, Any] | None = None, sizes: Mapping[str, int] | None = None, **options: Any
) -> Captured:
    """Converts an ONNX model to a Clematis module that runs on any backend.

    `model` is the path or the bytes of a file. Weights become parameters under their names, running statistics of batch norms
    buffers, small constants part of the program. Symbolic sizes of the model stay dynamic unless `sizes` gives them
    values. Inputs in `values` are constants and not passed in calls: those that determine shapes have to be
    in it.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.onnx")
    >>> cm.to_onnx(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> cm.from_onnx(path)(cm.ones((5, 3))).shape
    (5, 2)
    """
    if not isinstance(model, (str, bytes, os.PathLike)):
        if not hasattr(model, "SerializeToString"):
            raise ArgumentError(f"from_onnx: expected a path or bytes, got {type(model).__name__}")
        model = model.SerializeToString()
    found = _core._import_onnx(model, dict(values or {}), dict(sizes or {}))  # type: ignore[attr-defined]
    return captured(found, "from_onnx", options)


def captured(found: Any, name: str, options: dict[str, Any]) -> Captured:
    """A module of a program that Rust imported from a file."""
    graph, held, constants, draws, inputs, outputs = found
    values = {path: (role, x) for path, role, x in held}
    arguments = Arguments(inputs, [LEAF for _ in inputs], {})
    out_spec = LEAF if len(outputs) == 1 else ["tuple", [LEAF for _ in outputs]]
    part = Part(_EMPTY, values, [True] * len(inputs), [None] * len(outputs), None, out_spec, draws, arguments)
    # Replaces an empty program.
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
    """Exports a module in evaluation mode as an ONNX file.

    The program is traced on the example inputs; if it supports any batch size, the batch is a symbolic dimension in the
    file. Weights are initializers with the module's paths as names. A captured module needs no example.

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
    """The graph of a module in evaluation mode, the values of its parameters and buffers, and names of the other inputs."""
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
            # Each argument is one array, so its name can be used.
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
        raise ArgumentError(f"{what}: example inputs are needed to trace the module")
