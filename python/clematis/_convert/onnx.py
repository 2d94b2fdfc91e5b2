"""ONNX files in and out."""

import os
from collections.abc import Mapping
from typing import Any

from .. import _clematis as _core
from ..errors import ArgumentError
from .captured import Arguments, Capture, Captured, Part, Way
from .nests import LEAF, taken_apart
from .outgoing import _examples
from .trace import build, captured_way, held, spec_of, trace

_EMPTY = '{"inputs": [], "nodes": [], "outputs": []}'


def from_onnx(
    model: Any, *, values: Mapping[str, Any] | None = None, sizes: Mapping[str, int] | None = None, **options: Any
) -> Captured:
    """A module of ours that computes what an ONNX model does, on any backend.

    `model` is a path or the bytes of a file. Weights become parameters under their names, running statistics of batch norms
    buffers, small constants part of the program. Sizes that have names in the model stay open unless `sizes` gives them
    numbers. Inputs in `values` are the same at every call and need not be given: those that decide about shapes have to
    stand there.
    """
    if not isinstance(model, (str, bytes, os.PathLike)):
        if not hasattr(model, "SerializeToString"):
            raise ArgumentError(f"from_onnx: a path or bytes are read, not {type(model).__name__}")
        model = model.SerializeToString()
    found = _core._import_onnx(model, dict(values or {}), dict(sizes or {}))  # type: ignore[attr-defined]
    graph, held, constants, draws, inputs, outputs = found
    values_ = {path: (role, x) for path, role, x in held}
    arguments = Arguments(inputs, [LEAF for _ in inputs], {})
    out_spec = LEAF if len(outputs) == 1 else ["tuple", [LEAF for _ in outputs]]
    part = Part(_EMPTY, values_, [True] * len(inputs), [None] * len(outputs), None, out_spec, draws, arguments)
    # The program was read in Rust, from the file: it takes the place of an empty one.
    way = Way("onnx", part)
    way.graph, way.constants, way.draws, way.updates = graph, constants, draws, graph.updates()
    way.paths = [path for path, _, _ in held]
    way.dtypes = [dtype for _, role, dtype, _ in graph.inputs() if role == "input"]
    part.way = way
    return Captured(Capture("onnx", values_, part, part, "from_onnx"), **options)


def to_onnx(
    module: Any, path: Any, example_inputs: Any = None, *, example_kwargs: Any = None,
    input_names: Any = None, output_names: Any = None,
) -> None:  # fmt: skip
    """Writes what a module computes in evaluation as an ONNX file.

    The program is traced on the example inputs; where it allows for every size of the batch, that size has a name in the
    file. Weights stand in it under the module's paths. A module that came of a model needs no example.
    """
    args, kwargs = _examples("to_onnx", module, example_inputs, example_kwargs)
    build(module, args, kwargs)
    names = list(input_names or [])
    if isinstance(module, Captured):
        way, known = captured_way(module, False), module._ways[0].arguments
        if not names and known is not None:
            names = known.names[: len(way.inputs)]
    else:
        if not args and not kwargs:
            raise ArgumentError("to_onnx: example inputs are needed: the module is traced on them")
        leaves, structure = taken_apart((args, kwargs))
        specs = [spec_of(x.dtype, x.shape) for x in map(_core.asarray, leaves)]
        way = trace(module, structure, specs, False)
    graph = _core._Graph(way.text)  # type: ignore[attr-defined]
    own = {x.path: x.value for x in held(module)}
    values = {i: own[path] for i, path in enumerate(way.paths)}
    first = len(way.paths) + len(way.inputs) + way.draws
    values.update({first + i: _core.asarray(x) for i, x in enumerate(way.constants)})
    _core._export_onnx(graph, os.fspath(path), values, names, list(output_names or []))  # type: ignore[attr-defined]
