//! Linear algebra: matmul, decompositions, norms.

use super::index::named;
use crate::args::{axes, integers};
use crate::error::exception;
use crate::operand::Call;
use clematis_core::{Kind, Tensor, ops};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};

type Object<'py> = Bound<'py, PyAny>;
type Maybe<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

/// Matrix multiplication of matrices, vectors and batches of matrices.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn matmul<'py>(x1: &Object<'py>, x2: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "matmul");
    call.look(x2)?;
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    call.one(|| ops::matmul(x, y))
}

/// Tensor contraction over axes.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axes=None), text_signature = "(x1, x2, /, *, axes=2)")]
fn tensordot<'py>(
    x1: &Object<'py>,
    x2: &Object<'py>,
    axes: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "tensordot");
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    let (a, b) = match axes {
        None => last_and_first(&x, 2)?,
        Some(n) => match n.extract::<i64>() {
            Ok(n) => last_and_first(&x, n)?,
            Err(_) => {
                let (a, b): (Object<'py>, Object<'py>) = n.extract()?;
                (
                    integers("tensordot", "axes", &a)?,
                    integers("tensordot", "axes", &b)?,
                )
            }
        },
    };
    call.one(|| ops::tensordot(x, y, &a, &b))
}

fn last_and_first(x: &Tensor, n: i64) -> PyResult<(Vec<i64>, Vec<i64>)> {
    let rank = x.rank() as i64;
    if n < 0 || n > rank {
        return Err(exception(
            Kind::Value,
            format!("tensordot: {n} axes of {}", x.spec()),
        ));
    }
    Ok(((rank - n..rank).collect(), (0..n).collect()))
}

/// Dot product of vectors along an axis; the first operand is conjugated.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis=-1), text_signature = "(x1, x2, /, *, axis=-1)")]
fn vecdot<'py>(x1: &Object<'py>, x2: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "vecdot");
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    call.one(|| ops::vecdot(x, y, axis))
}

/// Outer product of two vectors.
#[pyfunction]
#[pyo3(signature = (x1, x2, /))]
fn outer<'py>(x1: &Object<'py>, x2: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "outer");
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    if x.rank() != 1 || y.rank() != 1 {
        return Err(exception(
            Kind::Shape,
            format!(
                "outer: two vectors were expected, not {} and {}",
                x.spec(),
                y.spec()
            ),
        ));
    }
    call.one(|| ops::outer(x, y))
}

/// Cross product of vectors with three elements.
#[pyfunction]
#[pyo3(signature = (x1, x2, /, *, axis=-1), text_signature = "(x1, x2, /, *, axis=-1)")]
fn cross<'py>(x1: &Object<'py>, x2: &Object<'py>, axis: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x1.py(), "cross");
    let (x, y) = (call.take(x1)?, call.take(x2)?);
    call.one(|| ops::cross(x, y, axis))
}

/// Einstein summation: `einsum("ij,jk->ik", a, b)`.
#[pyfunction]
#[pyo3(signature = (equation, /, *operands))]
fn einsum<'py>(equation: &str, operands: &Bound<'py, PyTuple>) -> PyResult<Object<'py>> {
    let mut call = Call::new(operands.py(), "einsum");
    let xs = call.take_all(operands.as_any())?;
    call.one(|| ops::einsum(equation, &xs.iter().collect::<Vec<_>>()))
}

/// Cholesky decomposition: the triangular factor of a positive definite matrix.
#[pyfunction]
#[pyo3(signature = (x, /, *, upper=false))]
fn cholesky<'py>(x: &Object<'py>, upper: bool) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "cholesky");
    let x = call.take(x)?;
    call.one(|| ops::cholesky(x, upper))
}

macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
            let mut call = Call::new(x.py(), stringify!($name));
            let x = call.take(x)?;
            call.one(|| ops::$name(x))
        }
    )* };
}
plain! {
    /// Determinant of a square matrix.
    det;
    /// Inverse of a square matrix.
    inv;
    /// Singular values in descending order.
    svdvals;
    /// Eigenvalues of a Hermitian matrix in ascending order.
    eigvalsh;
    /// Eigenvalues of a square matrix; complex.
    eigvals;
}

macro_rules! pairs {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[pyfunction]
        #[pyo3(signature = (x, /))]
        fn $name<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
            let py = x.py();
            let mut call = Call::new(py, stringify!($name));
            let x = call.take(x)?;
            let out = call.many(|| ops::$name(&x).map(|(a, b)| vec![a, b]))?;
            named(py, stringify!($name), out)
        }
    )* };
}
pairs! {
    /// Eigenvalues, in ascending order, and eigenvectors of a Hermitian matrix.
    eigh;
    /// Eigenvalues and eigenvectors of a square matrix; complex.
    eig;
    /// Sign, and logarithm of the absolute value, of the determinant.
    slogdet;
}

/// QR decomposition: an orthogonal and an upper triangular factor. The mode is `reduced` or `complete`.
#[pyfunction]
#[pyo3(signature = (x, /, *, mode="reduced"))]
fn qr<'py>(x: &Object<'py>, mode: &str) -> PyResult<Object<'py>> {
    let complete = match mode {
        "reduced" => false,
        "complete" => true,
        other => {
            return Err(exception(
                Kind::Value,
                format!("qr: mode is `reduced` or `complete`, not `{other}`"),
            ));
        }
    };
    let py = x.py();
    let mut call = Call::new(py, "qr");
    let x = call.take(x)?;
    let out = call.many(|| ops::qr(&x, complete).map(|(q, r)| vec![q, r]))?;
    named(py, "qr", out)
}

/// Singular value decomposition (SVD); singular values are in descending order.
#[pyfunction]
#[pyo3(signature = (x, /, *, full_matrices=true))]
fn svd<'py>(x: &Object<'py>, full_matrices: bool) -> PyResult<Object<'py>> {
    let py = x.py();
    let mut call = Call::new(py, "svd");
    let x = call.take(x)?;
    let out = call.many(|| ops::svd(&x, full_matrices).map(|(u, s, vh)| vec![u, s, vh]))?;
    named(py, "svd", out)
}

/// LU decomposition with partial pivoting: packed factors, pivots, permutation.
#[pyfunction]
#[pyo3(signature = (x, /))]
fn lu<'py>(x: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "lu");
    let x = call.take(x)?;
    call.many(|| ops::lu(&x).map(|(a, b, c)| vec![a, b, c]))
}

/// Solves a x = b for x.
#[pyfunction]
#[pyo3(signature = (a, b, /))]
fn solve<'py>(a: &Object<'py>, b: &Object<'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(a.py(), "solve");
    let (a, b) = (call.take(a)?, call.take(b)?);
    call.one(|| ops::solve(a, b))
}

/// Diagonal of a matrix.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset=0))]
fn diagonal<'py>(
    x: &Object<'py>,
    #[pyo3(from_py_with = crate::args::diagonal)] offset: i64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "diagonal");
    let x = call.take(x)?;
    call.one(|| ops::diagonal(x, offset))
}

/// Trace: the sum of a diagonal.
#[pyfunction]
#[pyo3(signature = (x, /, *, offset=0, dtype=None))]
fn trace<'py>(
    x: &Object<'py>,
    #[pyo3(from_py_with = crate::args::diagonal)] offset: i64,
    dtype: Maybe<'_, 'py>,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "trace");
    let x = call.take(x)?;
    let dtype = match crate::dtype::maybe(dtype)? {
        Some(d) => d,
        None => super::reduce::sum_type(x.dtype()),
    };
    call.one(|| ops::trace(ops::cast(x, dtype), offset))
}

/// Integer power of a square matrix; a negative power inverts it.
#[pyfunction]
#[pyo3(signature = (x, n, /))]
fn matrix_power<'py>(x: &Object<'py>, n: i64) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "matrix_power");
    let x = call.take(x)?;
    call.one(|| ops::matrix_power(x, n))
}

/// Rank of a matrix: the number of singular values above a tolerance.
#[pyfunction]
#[pyo3(signature = (x, /, *, rtol=None))]
fn matrix_rank<'py>(x: &Object<'py>, rtol: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "matrix_rank");
    let x = call.take(x)?;
    let rtol = call.maybe(rtol)?;
    call.one(|| ops::matrix_rank(&x, rtol.as_ref()))
}

/// Moore-Penrose pseudo-inverse.
#[pyfunction]
#[pyo3(signature = (x, /, *, rtol=None))]
fn pinv<'py>(x: &Object<'py>, rtol: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "pinv");
    let x = call.take(x)?;
    let rtol = call.maybe(rtol)?;
    call.one(|| ops::pinv_by(&x, rtol.as_ref()))
}

/// Vector norm. `ord` is 2, 1, 0, inf, -inf or any number.
#[pyfunction]
#[pyo3(
    signature = (x, /, *, axis=None, keepdims=false, ord=2.0),
    text_signature = "(x, /, *, axis=None, keepdims=False, ord=2)"
)]
fn vector_norm<'py>(
    x: &Object<'py>,
    axis: Maybe<'_, 'py>,
    keepdims: bool,
    ord: f64,
) -> PyResult<Object<'py>> {
    let mut call = Call::new(x.py(), "vector_norm");
    let x = call.take(x)?;
    let axes = axes("vector_norm", axis)?;
    call.one(|| {
        if keepdims {
            ops::keepdims(x, axes, |x, axes| ops::vector_norm(x, axes, ord))
        } else {
            ops::vector_norm(x, axes, ord)
        }
    })
}

/// Matrix norm. `ord` is `fro`, `nuc`, 1, 2, inf or their negatives.
#[pyfunction]
#[pyo3(
    signature = (x, /, *, keepdims=false, ord=None),
    text_signature = "(x, /, *, keepdims=False, ord='fro')"
)]
fn matrix_norm<'py>(x: &Object<'py>, keepdims: bool, ord: Maybe<'_, 'py>) -> PyResult<Object<'py>> {
    let kind = match ord {
        None => ops::MatrixNorm::Frobenius,
        Some(o) => match o.extract::<String>().as_deref() {
            Ok("fro") => ops::MatrixNorm::Frobenius,
            Ok("nuc") => ops::MatrixNorm::Nuclear,
            Ok(other) => {
                return Err(exception(
                    Kind::Value,
                    format!("matrix_norm: ord is `fro`, `nuc` or a number, not `{other}`"),
                ));
            }
            Err(_) => ops::MatrixNorm::Order(o.extract()?),
        },
    };
    let mut call = Call::new(x.py(), "matrix_norm");
    let x = call.take(x)?;
    call.one(|| ops::matrix_norm(&x, kind, keepdims))
}

/// Adds the functions to modules: the common ones to the main namespace, all to `linalg`.
pub fn install(m: &Bound<'_, PyModule>, linalg: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::functions!(m; matmul tensordot vecdot outer einsum);
    crate::functions!(linalg;
        matmul tensordot vecdot outer cross cholesky det inv svdvals eigvalsh eigvals eigh eig slogdet qr svd lu solve
        diagonal trace matrix_power matrix_rank pinv vector_norm matrix_norm);
    linalg.add("matrix_transpose", m.getattr("matrix_transpose")?)?;
    Ok(())
}
