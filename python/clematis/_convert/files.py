"""`to_file` and `from_file`: a program with its weights in one file, which the command line runs without Python."""

import os
from typing import Any

from .. import _clematis as _core
from .captured import Captured
from .onnx import captured, program


def to_file(
    module: Any, path: Any, example_inputs: Any = None, *, example_kwargs: Any = None,
    input_names: Any = None, output_names: Any = None,
) -> None:  # fmt: skip
    """Saves the program of a module in evaluation mode with its weights as one file.

    `clematis run net.clematis x.npy --out y.npy` runs it in Rust, `clematis convert` converts it to other formats,
    `from_file`
    loads it. The program is traced on the example inputs; the batch size is dynamic if the program supports
    it. A module captured from another framework needs no example. The file is a safetensors file, with the
    weights under the module's paths and the program in its header; loading it executes no code.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.clematis")
    >>> cm.to_file(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> cm.from_file(path)(cm.ones((5, 3))).shape
    (5, 2)
    """
    graph, values, names = program("to_file", module, example_inputs, example_kwargs, input_names)
    inputs = sum(role == "input" for _, role, _, _ in graph.inputs())
    outputs = sum(at is None for at in graph.updates())
    words = (_filled(names, inputs, "x"), _filled(list(output_names or []), outputs, "y"))
    _core._export_file(graph, os.fspath(path), values, *words)  # type: ignore[attr-defined]


def _filled(names: list[str], count: int, letter: str) -> list[str]:
    """`count` names: the given ones, then a letter and a number."""
    return [*names[:count], *(f"{letter}{i}" for i in range(len(names), count))]


def from_file(path: Any, **options: Any) -> Captured:
    """Loads a module from a file that `to_file` or `clematis convert --to clematis` has written.

    Its parameters have their original paths, and are trainable.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.clematis")
    >>> cm.to_file(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> sorted(cm.from_file(path).v)
    ['b', 'w']
    """
    return captured(_core._import_file(os.fspath(path)), "from_file", options)  # type: ignore[attr-defined]
