"""Named tuples of functions with several results, as the Array API standard names them."""

from typing import Any, NamedTuple


class unique_all(NamedTuple):
    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class unique_counts(NamedTuple):
    values: Any
    counts: Any


class unique_inverse(NamedTuple):
    values: Any
    inverse_indices: Any


class eigh(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class eig(NamedTuple):
    eigenvalues: Any
    eigenvectors: Any


class slogdet(NamedTuple):
    sign: Any
    logabsdet: Any


class qr(NamedTuple):
    Q: Any
    R: Any


class svd(NamedTuple):
    U: Any
    S: Any
    Vh: Any
