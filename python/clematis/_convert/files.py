"""Programs with their weights in files of our own, which the command line runs without Python."""

import os
from typing import Any

from .. import _clematis as _core
from .captured import Captured
from .onnx import captured, program


def to_file(
    module: Any, path: Any, example_inputs: Any = None, *, example_kwargs: Any = None,
    input_names: Any = None, output_names: Any = None,
) -> None:  # fmt: skip
    """Writes what a module computes in evaluation, its program and its weights, as one file.

    `clematis run net.clematis x.npy --out y.npy` runs it in Rust, `clematis convert` makes other formats of it, `from_file`
    reads it back. The program is traced on the example inputs; where it allows for every size of the batch, that size stays
    open. A module that came of another framework's model needs no example. The file is a safetensors file, with the
    weights under the module's paths and the program in its header; nothing in it is ever executed.

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
    """As many names as there are values."""
    return [*names[:count], *(f"{letter}{i}" for i in range(len(names), count))]


def from_file(path: Any, **options: Any) -> Captured:
    """A module of a file that `to_file` or `clematis convert --to clematis` has written.

    Its weights stand under the paths that they had, and train.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "net.clematis")
    >>> cm.to_file(cm.nn.Linear(3, 2), path, cm.ones((4, 3)))
    >>> sorted(cm.from_file(path).v)
    ['b', 'w']
    """
    return captured(_core._import_file(os.fspath(path)), "from_file", options)  # type: ignore[attr-defined]
