"""Written by `cargo xtask stubs`; do not edit."""

import builtins
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, TypeVar, final

_T = TypeVar("_T")
from ._clematis import DType, Tensor

__all__ = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

def cholesky(x: _T | builtins.complex, /, *, upper: Any = False) -> _T:
    """The triangular factor of a positive definite matrix."""

def cross(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1) -> _T:
    """The cross product of vectors with three elements."""

def det(x: _T | builtins.complex, /) -> _T:
    """The determinant."""

def diagonal(x: _T | builtins.complex, /, *, offset: Any = 0) -> _T:
    """The elements on a diagonal."""

def eig(x: Any, /) -> Any:
    """Eigenvalues and vectors of any square matrix, complex."""

def eigh(x: Any, /) -> Any:
    """Eigenvalues, rising, and vectors of a Hermitian matrix."""

def eigvals(x: _T | builtins.complex, /) -> _T:
    """The eigenvalues of any square matrix, complex."""

def eigvalsh(x: _T | builtins.complex, /) -> _T:
    """The eigenvalues of a Hermitian matrix, rising."""

def inv(x: _T | builtins.complex, /) -> _T:
    """The inverse."""

def lu(x: Any, /) -> Any:
    """Lower times upper triangular with row exchanges: packed factors, pivots, permutation."""

def matmul(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """The matrix product; vectors and stacks of matrices follow the usual rules."""

def matrix_norm(x: _T | builtins.complex, /, *, keepdims: builtins.bool = False, ord: Any = 'fro') -> _T:
    """A norm of matrices: ord is `fro`, `nuc`, 1, 2, inf or their negatives."""

def matrix_power(x: _T | builtins.complex, n: Any, /) -> _T:
    """A square matrix multiplied with itself; negative powers invert it."""

def matrix_rank(x: _T | builtins.complex, /, *, rtol: Any = None) -> _T:
    """How many singular values are not negligible."""

def matrix_transpose(x: _T | builtins.complex, /) -> _T:
    """The last two axes exchanged."""

def outer(x1: _T | builtins.complex, x2: _T | builtins.complex, /) -> _T:
    """All products of the elements of two vectors."""

def pinv(x: _T | builtins.complex, /, *, rtol: Any = None) -> _T:
    """The Moore-Penrose inverse."""

def qr(x: Any, /, *, mode: Any = 'reduced') -> Any:
    """Orthogonal times upper triangular; mode is `reduced` or `complete`."""

def slogdet(x: Any, /) -> Any:
    """The sign and the logarithm of the size of the determinant."""

def solve(a: _T | builtins.complex, b: _T | builtins.complex, /) -> _T:
    """The x with a x = b."""

def svd(x: Any, /, *, full_matrices: Any = True) -> Any:
    """Singular values, falling, and vectors."""

def svdvals(x: _T | builtins.complex, /) -> _T:
    """The singular values, falling."""

def tensordot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = 2) -> _T:
    """Sums of products over axes."""

def trace(x: _T | builtins.complex, /, *, offset: Any = 0, dtype: Any = None) -> _T:
    """The sum of a diagonal."""

def vecdot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1) -> _T:
    """Sums of products over one axis, the first operand conjugated."""

def vector_norm(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, ord: Any = 2) -> _T:
    """A norm of vectors: ord is 2, 1, 0, inf, -inf or any number."""
