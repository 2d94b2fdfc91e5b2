"""On which backend arrays are, and how those that are no tensors follow a model there."""

import sys
from typing import Any

from . import _clematis as _core
from . import _pytree


def backend_of(x: Any) -> str | None:
    """The backend of an array; None where it is traced. NumPy's own arrays are on numpy, whatever the current backend is."""
    if not isinstance(x, _core.Tensor):
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(x, (numpy.ndarray, numpy.generic)):
            return "numpy"
    return _core.asarray(x).backend  # type: ignore[no-any-return]


def backend_of_tree(tree: Any) -> str | None:
    """The backend of the first array of a tree; None where there is none, or it is traced."""
    for _, x in _pytree.entries(tree):
        if _core._tree.is_array(x):
            return backend_of(x)
    return None


def is_elsewhere(x: Any, backend: str | None) -> bool:
    """Whether it is an array that is no tensor, of another backend than this."""
    return not isinstance(x, _core.Tensor) and _core._tree.is_array(x) and backend_of(x) not in (None, backend)


def moved(x: Any, backend: str | None) -> Any:
    """A tree in which arrays that are no tensors are tensors on a backend; those that are there already stay what they are."""
    if backend is None or isinstance(x, _core.Tensor):
        return x
    if type(x) in (tuple, list):
        return type(x)(moved(part, backend) for part in x)
    if type(x) is dict:
        return {key: moved(part, backend) for key, part in x.items()}
    return _core.asarray(x).to(backend) if is_elsewhere(x, backend) else x
