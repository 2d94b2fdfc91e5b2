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

def cholesky(x: _T | builtins.complex, /, *, upper: Any = False, out: Any = None) -> _T:
    """Cholesky decomposition: the triangular factor of a positive definite matrix.

>>> cm.linalg.cholesky(cm.asarray([[4.0, 2.0], [2.0, 5.0]]))
Tensor([[2.0, 0.0],
        [1.0, 2.0]], float32, native)"""

def cross(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """Cross product of vectors with three elements.

>>> cm.linalg.cross(cm.asarray([1, 0, 0]), cm.asarray([0, 1, 0]))
Tensor([0, 0, 1], int32, native)"""

def det(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Determinant of a square matrix.

>>> cm.linalg.det(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
Tensor(-2.0, float32, native)"""

def diagonal(x: _T | builtins.complex, /, *, offset: Any = 0, out: Any = None) -> _T:
    """Diagonal of a matrix.

>>> cm.linalg.diagonal(cm.asarray([[1, 2], [3, 4]]))
Tensor([1, 4], int32, native)"""

def eig(x: Any, /, *, out: Any = None) -> Any:
    """Eigenvalues and eigenvectors of a square matrix; complex.

>>> values, vectors = cm.linalg.eig(cm.asarray([[2.0, 0.0], [0.0, 3.0]]))
>>> values
Tensor([2.0+0.0j, 3.0+0.0j], complex64, native)"""

def eigh(x: Any, /, *, out: Any = None) -> Any:
    """Eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix.

>>> values, vectors = cm.linalg.eigh(cm.asarray([[2.0, 1.0], [1.0, 2.0]]))
>>> values
Tensor([1.0, 3.0], float32, native)"""

def eigvals(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Eigenvalues of a square matrix; complex.

>>> cm.linalg.eigvals(cm.asarray([[0.0, -1.0], [1.0, 0.0]]))
Tensor([0.0+1.0j, 0.0-1.0j], complex64, native)"""

def eigvalsh(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Eigenvalues of a Hermitian matrix in ascending order.

>>> cm.linalg.eigvalsh(cm.asarray([[2.0, 1.0], [1.0, 2.0]]))
Tensor([1.0, 3.0], float32, native)"""

def inv(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Inverse of a square matrix.

>>> cm.linalg.inv(cm.asarray([[2.0, 0.0], [0.0, 4.0]]))
Tensor([[ 0.5,  0.0],
        [ 0.0, 0.25]], float32, native)"""

def lu(x: Any, /, *, out: Any = None) -> Any:
    """LU decomposition with partial pivoting: packed factors, pivots, permutation.

>>> packed, pivots, permutation = cm.linalg.lu(cm.asarray([[1.0, 2.0], [4.0, 5.0]]))
>>> packed
Tensor([[ 4.0,  5.0],
        [0.25, 0.75]], float32, native)
>>> permutation
Tensor([1, 0], int32, native)"""

def matmul(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Matrix multiplication of matrices, vectors and batches of matrices.

>>> cm.matmul(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]))
Tensor([12, 34], int32, native)"""

def matrix_norm(x: _T | builtins.complex, /, *, keepdims: builtins.bool = False, ord: Any = 'fro', out: Any = None) -> _T:
    """Matrix norm. `ord` is `fro`, `nuc`, 1, 2, inf or their negatives.

>>> cm.linalg.matrix_norm(cm.asarray([[3.0, 0.0], [0.0, 4.0]]))
Tensor(5.0, float32, native)
>>> cm.linalg.matrix_norm(cm.asarray([[3.0, 0.0], [0.0, 4.0]]), ord=2)
Tensor(4.0, float32, native)"""

def matrix_power(x: _T | builtins.complex, n: Any, /, *, out: Any = None) -> _T:
    """Integer power of a square matrix; a negative power inverts it.

>>> cm.linalg.matrix_power(cm.asarray([[1, 1], [0, 1]]), 3)
Tensor([[1, 3],
        [0, 1]], int32, native)"""

def matrix_rank(x: _T | builtins.complex, /, *, rtol: Any = None, out: Any = None) -> _T:
    """Rank of a matrix: the number of singular values above a tolerance.

>>> cm.linalg.matrix_rank(cm.asarray([[1.0, 2.0], [2.0, 4.0]]))
Tensor(1, int64, native)"""

def matrix_transpose(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Transposes a matrix: exchanges the last two axes.

>>> cm.matrix_transpose(cm.asarray([[1, 2], [3, 4]]))
Tensor([[1, 3],
        [2, 4]], int32, native)"""

def outer(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Outer product of two vectors.

>>> cm.outer(cm.asarray([1, 2]), cm.asarray([3, 4]))
Tensor([[3, 4],
        [6, 8]], int32, native)"""

def pinv(x: _T | builtins.complex, /, *, rtol: Any = None, out: Any = None) -> _T:
    """Moore-Penrose pseudo-inverse.

>>> cm.linalg.pinv(cm.asarray([[2.0, 0.0], [0.0, 0.0]]))
Tensor([[0.5, 0.0],
        [0.0, 0.0]], float32, native)"""

def qr(x: Any, /, *, mode: Any = 'reduced', out: Any = None) -> Any:
    """QR decomposition: an orthogonal and an upper triangular factor. The mode is `reduced` or `complete`.

>>> q, r = cm.linalg.qr(cm.asarray([[3.0, 1.0], [4.0, 2.0]]))
>>> cm.allclose(q @ r, cm.asarray([[3.0, 1.0], [4.0, 2.0]]))
True"""

def slogdet(x: Any, /, *, out: Any = None) -> Any:
    """Sign, and logarithm of the absolute value, of the determinant.

>>> cm.linalg.slogdet(cm.asarray([[1.0, 2.0], [3.0, 4.0]]))
slogdet(sign=Tensor(-1.0, float32, native), logabsdet=Tensor(0.693147, float32, native))"""

def solve(a: _T | builtins.complex, b: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Solves a x = b for x.

>>> cm.linalg.solve(cm.asarray([[2.0, 0.0], [0.0, 4.0]]), cm.asarray([2.0, 2.0]))
Tensor([1.0, 0.5], float32, native)"""

def svd(x: Any, /, *, full_matrices: Any = True, out: Any = None) -> Any:
    """Singular value decomposition (SVD); singular values are in descending order.

>>> u, s, vh = cm.linalg.svd(cm.asarray([[3.0, 0.0], [0.0, 4.0]]))
>>> s
Tensor([4.0, 3.0], float32, native)"""

def svdvals(x: _T | builtins.complex, /, *, out: Any = None) -> _T:
    """Singular values in descending order.

>>> cm.linalg.svdvals(cm.asarray([[3.0, 0.0], [0.0, 4.0]]))
Tensor([4.0, 3.0], float32, native)"""

def tensordot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axes: int | Sequence[int] | None = 2, out: Any = None) -> _T:
    """Tensor contraction over axes.

>>> cm.tensordot(cm.asarray([[1, 2], [3, 4]]), cm.asarray([10, 1]), axes=1)
Tensor([12, 34], int32, native)"""

def trace(x: _T | builtins.complex, /, *, offset: Any = 0, dtype: Any = None, out: Any = None) -> _T:
    """Trace: the sum of a diagonal.

>>> cm.linalg.trace(cm.asarray([[1, 2], [3, 4]]))
Tensor(5, int32, native)"""

def vecdot(x1: _T | builtins.complex, x2: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = -1, out: Any = None) -> _T:
    """Dot product of vectors along an axis; the first operand is conjugated.

>>> cm.vecdot(cm.asarray([1, 2, 3]), cm.asarray([4, 5, 6]))
Tensor(32, int32, native)"""

def vector_norm(x: _T | builtins.complex, /, *, axis: int | Sequence[int] | None = None, keepdims: builtins.bool = False, ord: Any = 2, out: Any = None) -> _T:
    """Vector norm. `ord` is 2, 1, 0, inf, -inf or any number.

>>> cm.linalg.vector_norm(cm.asarray([3.0, 4.0]))
Tensor(5.0, float32, native)
>>> cm.linalg.vector_norm(cm.asarray([3.0, -4.0]), ord=1)
Tensor(7.0, float32, native)"""
