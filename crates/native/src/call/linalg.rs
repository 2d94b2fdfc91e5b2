//! Factorisations and triangular solves, batched over leading axes.

use super::dense;
use crate::buffer::{self, Buffer};
use crate::kernel::linalg::{self as la, LinalgError, Scalar};
use crate::memory;
use clematis_core::host::Bytes;
use clematis_core::op::{Cholesky, Eig, Eigh, Qr, Svd, Transposed, TriangularSolve};
use clematis_core::{DType, Error, Kind, Result, Spec, Tensor, bail};
use num_complex::Complex;

/// Runs an expression with `T` standing for a matrix's element type.
macro_rules! by_matrix {
    ($op:expr, $dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            DType::F32 => {
                type $T = f32;
                $body
            }
            DType::F64 => {
                type $T = f64;
                $body
            }
            DType::C64 => {
                type $T = Complex<f32>;
                $body
            }
            DType::C128 => {
                type $T = Complex<f64>;
                $body
            }
            other => bail!(Internal, "{}: the engine has no kernel for {other}", $op),
        }
    };
}

fn fail(e: LinalgError) -> Error {
    let kind = match e {
        LinalgError::Length { .. } => Kind::Internal,
        _ => Kind::Value,
    };
    Error::new(kind, e.to_string())
}

/// How many matrices, and their rows and columns.
fn shape(x: &Tensor) -> (usize, (usize, usize)) {
    let sizes = x.shape().sizes();
    let rank = sizes.len();
    (
        sizes[..rank - 2].iter().product(),
        (sizes[rank - 2], sizes[rank - 1]),
    )
}

fn rows(op: &str, x: &Tensor) -> Result<Buffer> {
    buffer::contiguous(op, &*buffer::of(x)?, x.spec())
}

fn alloc<const N: usize>(op: &str, out: &[Spec]) -> Result<[Bytes; N]> {
    let all = out
        .iter()
        .map(|spec| memory::alloc(op, spec))
        .collect::<Result<Vec<_>>>()?;
    match all.try_into() {
        Ok(all) => Ok(all),
        Err(_) => bail!(Internal, "{op}: another number of results was expected"),
    }
}

fn finish<const N: usize>(bytes: [Bytes; N]) -> Vec<Buffer> {
    bytes.into_iter().map(Buffer::new).collect()
}

/// The triangular factor; the lower triangle of the operand is read.
pub fn cholesky(p: &Cholesky, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let mut bytes = alloc::<1>("cholesky", out)?;
    by_matrix!("cholesky", x.dtype(), T => {
        let from = rows("cholesky", x)?;
        let a = dense::<T>(&from, x.shape().count())?;
        let to = bytes[0].as_mut_slice::<T>();
        if p.upper {
            // The kernel reads the triangle that it writes: what it gets is the lower one, mirrored.
            let mut mirrored = a.to_vec();
            for (to, from) in mirrored.chunks_mut((n * n).max(1)).zip(a.chunks((n * n).max(1))) {
                for i in 0..n {
                    for j in 0..n {
                        to[j * n + i] = from[i * n + j].conjugate();
                    }
                }
            }
            la::cholesky(&mirrored, batch, n, true, to).map_err(fail)?;
        } else {
            la::cholesky(a, batch, n, false, to).map_err(fail)?;
        }
    });
    Ok(finish(bytes))
}

/// `q` and `r`.
pub fn qr(p: &Qr, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let [mut q, mut r] = alloc("qr", out)?;
    by_matrix!("qr", x.dtype(), T => {
        let from = rows("qr", x)?;
        let a = dense::<T>(&from, x.shape().count())?;
        la::qr(a, batch, sizes, p.complete, q.as_mut_slice::<T>(), r.as_mut_slice()).map_err(fail)?;
    });
    Ok(finish([q, r]))
}

/// `u`, `s` and `vh`, or `s`.
pub fn svd(p: &Svd, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let from = rows("svd", x)?;
    by_matrix!("svd", x.dtype(), T => {
        type Part = <T as Scalar>::Part;
        let a = dense::<T>(&from, x.shape().count())?;
        if !p.vectors {
            let [mut s] = alloc("svd", out)?;
            la::svd(a, batch, sizes, p.complete, s.as_mut_slice::<Part>(), None).map_err(fail)?;
            return Ok(finish([s]));
        }
        let [mut u, mut s, mut vh] = alloc("svd", out)?;
        let vectors = Some((u.as_mut_slice::<T>(), vh.as_mut_slice::<T>()));
        la::svd(a, batch, sizes, p.complete, s.as_mut_slice::<Part>(), vectors).map_err(fail)?;
        Ok(finish([u, s, vh]))
    })
}

/// `w` and `v`, or `w`.
pub fn eigh(p: &Eigh, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let from = rows("eigh", x)?;
    by_matrix!("eigh", x.dtype(), T => {
        type Part = <T as Scalar>::Part;
        let a = dense::<T>(&from, x.shape().count())?;
        if !p.vectors {
            let [mut w] = alloc("eigh", out)?;
            la::eigh(a, batch, n, w.as_mut_slice::<Part>(), None).map_err(fail)?;
            return Ok(finish([w]));
        }
        let [mut w, mut v] = alloc("eigh", out)?;
        la::eigh(a, batch, n, w.as_mut_slice::<Part>(), Some(v.as_mut_slice())).map_err(fail)?;
        Ok(finish([w, v]))
    })
}

/// `w` and `v`, or `w`, complex.
pub fn eig(p: &Eig, x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, (n, _)) = shape(x);
    let from = rows("eig", x)?;
    by_matrix!("eig", x.dtype(), T => {
        type Pair = Complex<<T as Scalar>::Part>;
        let a = dense::<T>(&from, x.shape().count())?;
        if !p.vectors {
            let [mut w] = alloc("eig", out)?;
            la::eig(a, batch, n, w.as_mut_slice::<Pair>(), None).map_err(fail)?;
            return Ok(finish([w]));
        }
        let [mut w, mut v] = alloc("eig", out)?;
        la::eig(a, batch, n, w.as_mut_slice::<Pair>(), Some(v.as_mut_slice())).map_err(fail)?;
        Ok(finish([w, v]))
    })
}

/// Packed factors, pivots and permutation.
pub fn lu(x: &Tensor, out: &[Spec]) -> Result<Vec<Buffer>> {
    let (batch, sizes) = shape(x);
    let from = rows("lu", x)?;
    let [mut factors, mut pivots, mut permutation] = alloc("lu", out)?;
    by_matrix!("lu", x.dtype(), T => {
        let a = dense::<T>(&from, x.shape().count())?;
        let (pivots, permutation) = (pivots.as_mut_slice::<i32>(), permutation.as_mut_slice::<i32>());
        la::lu(a, batch, sizes, factors.as_mut_slice::<T>(), pivots, permutation).map_err(fail)?;
    });
    Ok(finish([factors, pivots, permutation]))
}

/// Solves with a triangular matrix.
pub fn triangular_solve(
    p: &TriangularSolve,
    a: &Tensor,
    b: &Tensor,
    out: &[Spec],
) -> Result<Vec<Buffer>> {
    let op = "triangular_solve";
    let (batch, (n, _)) = shape(a);
    let (_, (height, width)) = shape(b);
    let (side, columns) = if p.left {
        (la::Side::Left, width)
    } else {
        (la::Side::Right, height)
    };
    let triangle = if p.lower {
        la::Triangle::Lower
    } else {
        la::Triangle::Upper
    };
    let transform = match p.transpose {
        Transposed::No => la::Transform::None,
        Transposed::Yes => la::Transform::Transpose,
        Transposed::Adjoint => la::Transform::Adjoint,
    };
    let (left, right) = (rows(op, a)?, rows(op, b)?);
    let [mut x] = alloc(op, out)?;
    by_matrix!(op, a.dtype(), T => {
        la::triangular_solve(
            dense::<T>(&left, a.shape().count())?,
            dense::<T>(&right, b.shape().count())?,
            batch,
            (n, columns),
            side,
            triangle,
            transform,
            p.unit_diagonal,
            x.as_mut_slice::<T>(),
        )
        .map_err(fail)?;
    });
    Ok(finish([x]))
}
