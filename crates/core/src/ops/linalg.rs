//! Linear algebra and Fourier transforms.

use super::{call1, elementwise::promoted, linear::matmul, require::require, with2};
use crate::dim::Dim;
use crate::dispatch::{apply, apply_one};
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{
    Cholesky, Composite, Eig, Eigh, Fft, FftKind, Op, Qr, Svd, Takes, Transposed, TriangularSolve,
};
use crate::precondition::Precondition;
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// Adds a check that all elements are finite: factorisations of other matrices differ between libraries.
fn finite(op: &'static str, x: &Tensor) -> Result<()> {
    if !x.dtype().is_inexact() {
        return Ok(());
    }
    let rule = Precondition::Within {
        op,
        what: "an element of",
        low: f64::MIN,
        high: f64::MAX,
        above: false,
    };
    if !x.dtype().is_complex() {
        return require(x, rule);
    }
    require(&super::real(x).done()?, rule)?;
    require(&super::imag(x).done()?, rule)
}

fn of_finite(op: impl Into<Op>, x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        let op: Op = op.into();
        finite(op.name(), &x)?;
        apply_one(&op, &[&x])
    })
}

/// Cholesky factor of a positive definite matrix.
pub fn cholesky(x: impl IntoExpr, upper: bool) -> Expr {
    of_finite(Cholesky { upper }, x)
}

fn two(op: Op, x: &Tensor) -> Result<(Tensor, Tensor)> {
    finite(op.name(), x)?;
    let outs = apply(&op, &[x])?.into_vec();
    match <[Tensor; 2]>::try_from(outs) {
        Ok([a, b]) => Ok((a, b)),
        Err(_) => bail!(Internal, "{}: expected two results", op.name()),
    }
}

fn three(op: Op, x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    finite(op.name(), x)?;
    triple(op, x)
}

fn triple(op: Op, x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let outs = apply(&op, &[x])?.into_vec();
    match <[Tensor; 3]>::try_from(outs) {
        Ok([a, b, c]) => Ok((a, b, c)),
        Err(_) => bail!(Internal, "{}: expected three results", op.name()),
    }
}

/// QR decomposition.
pub fn qr(x: &Tensor, complete: bool) -> Result<(Tensor, Tensor)> {
    two(Qr { complete }.into(), x)
}

/// Singular value decomposition: `u`, descending singular values, `vh`.
pub fn svd(x: &Tensor, complete: bool) -> Result<(Tensor, Tensor, Tensor)> {
    three(
        Svd {
            complete,
            vectors: true,
        }
        .into(),
        x,
    )
}

/// Singular values in descending order.
pub fn svdvals(x: impl IntoExpr) -> Expr {
    of_finite(
        Svd {
            complete: false,
            vectors: false,
        },
        x,
    )
}

/// Ascending eigenvalues, and eigenvectors, of a Hermitian matrix.
pub fn eigh(x: &Tensor) -> Result<(Tensor, Tensor)> {
    two(Eigh { vectors: true }.into(), x)
}

/// Ascending eigenvalues of a Hermitian matrix.
pub fn eigvalsh(x: impl IntoExpr) -> Expr {
    of_finite(Eigh { vectors: false }, x)
}

/// Eigenvalues and eigenvectors of any square matrix.
pub fn eig(x: &Tensor) -> Result<(Tensor, Tensor)> {
    two(Eig { vectors: true }.into(), x)
}

/// Eigenvalues of any square matrix.
pub fn eigvals(x: impl IntoExpr) -> Expr {
    of_finite(Eig { vectors: false }, x)
}

/// LU decomposition: packed factors, pivots and the row permutation.
pub fn lu(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    three(Op::Lu, x)
}

/// Solves with a triangular matrix; batch axes broadcast.
pub fn triangular_solve(a: impl IntoExpr, b: impl IntoExpr, p: TriangularSolve) -> Expr {
    with2(a, b, |a, b| {
        let (a, b) = promoted(a, b, Takes::Inexact)?;
        let (a, b) = match_batch("triangular_solve", &a, &b)?;
        apply_one(&p.into(), &[&a, &b])
    })
}

fn match_batch(op: &str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    ensure!(
        a.rank() >= 2 && b.rank() >= 2,
        Shape,
        "{op}: expected matrices, got {} and {}",
        a.spec(),
        b.spec()
    );
    let split = |x: &Tensor| {
        let (batch, matrix) = x.shape().dims().split_at(x.rank() - 2);
        (
            Shape::from_dims(batch.iter().copied()),
            Shape::from_dims(matrix.iter().copied()),
        )
    };
    let ((ba, ma), (bb, mb)) = (split(a), split(b));
    let batch = ba.broadcast_with(&bb, op)?;
    Ok((
        super::broadcast_to(a, batch.join(&ma)).done()?,
        super::broadcast_to(b, batch.join(&mb)).done()?,
    ))
}

/// Solves `a x = b`; a vector `b` is one column.
pub fn solve(a: impl IntoExpr, b: impl IntoExpr) -> Expr {
    with2(a, b, |a, b| {
        let (a, b) = promoted(a, b, Takes::Inexact)?;
        if b.rank() == 1 {
            let column = super::expand_dims(&b, -1).done()?;
            return super::squeeze(solve(&a, &column), -1).done();
        }
        finite("solve", &a)?;
        let (a, b) = match_batch("solve", &a, &b)?;
        apply_one(&Composite::Solve {}.into(), &[&a, &b])
    })
}

pub(crate) fn solve_body(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (packed, _, order) = triple(Op::Lu, a)?;
    let rows = super::take_along_known(
        b,
        super::broadcast_to(
            super::expand_dims(&super::cast(&order, DType::INDEX).done()?, -1),
            b.shape(),
        ),
        -2,
    );
    let lower = TriangularSolve {
        left: true,
        lower: true,
        transpose: Transposed::No,
        unit_diagonal: true,
    };
    let upper = TriangularSolve {
        lower: false,
        unit_diagonal: false,
        ..lower.clone()
    };
    triangular_solve(&packed, triangular_solve(&packed, rows, lower), upper).done()
}

/// The matrix inverse.
pub fn inv(x: impl IntoExpr) -> Expr {
    of_finite(Composite::Inv {}, x)
}

/// Identity matrices, batched like a square matrix.
pub(crate) fn eye_like(x: &Tensor) -> Expr {
    let mask = super::logical_and(
        super::shape::triangle(x, 0),
        super::logical_not(super::shape::triangle(x, -1)),
    );
    super::broadcast_to(super::cast(mask, x.dtype()), x.shape())
}

/// The determinant.
pub fn det(x: impl IntoExpr) -> Expr {
    call1(Composite::Det {}, x)
}

/// The diagonal of the last two axes, `k` places above the main one.
pub fn diagonal(x: impl IntoExpr, k: i64) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            x.rank() >= 2,
            Shape,
            "diagonal: expected matrices, got {}",
            x.spec()
        );
        let (m, n) = (
            x.shape().known_size(x.rank() - 2, "diagonal")? as i64,
            x.shape().known_size(x.rank() - 1, "diagonal")? as i64,
        );
        let (row, column) = ((-k).max(0), k.max(0));
        let length = (m - row).min(n - column).max(0);
        let lead = Shape::from_dims(x.shape().dims()[..x.rank() - 2].iter().copied());
        let flat = super::reshape(&x, lead.join(&Shape::from_dims([Dim::number(m * n)]))).done()?;
        let first = row * n + column;
        // Every (n + 1)-th element of the flattened matrix.
        super::slice_axis_by(
            &flat,
            -1,
            first.min(m * n),
            (first + length * (n + 1)).min(m * n).max(first.min(m * n)),
            (n + 1) as usize,
        )
        .then(|d| super::slice_axis(&d, -1, 0, length))
        .done()
    })
}

/// The trace: the sum of the diagonal.
pub fn trace(x: impl IntoExpr, k: i64) -> Expr {
    super::sum(diagonal(x, k), -1)
}

/// Sign and logarithm of the absolute value of the determinant.
pub fn slogdet(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let (packed, pivots, _) = lu(x)?;
    let d = diagonal(&packed, 0).done()?;
    let parity = exchange_sign(&pivots, x.dtype())?;
    let sign = (super::prod(super::sign(&d), -1) * parity).done()?;
    let log = super::sum(super::log(super::abs(&d)), -1).done()?;
    Ok((sign, log))
}

/// The sign of a row permutation, from its pivots.
pub(crate) fn exchange_sign(pivots: &Tensor, dtype: DType) -> Result<Tensor> {
    let last = pivots.rank() - 1;
    let places = super::create::iota_like(pivots, pivots.shape(), last, pivots.dtype());
    let moved = super::cast(super::not_equal(pivots, places), DType::I32);
    super::cast(1 - (super::sum(moved, -1) % 2) * 2, dtype).done()
}

/// A square matrix to an integer power.
pub fn matrix_power(x: impl IntoExpr, power: i64) -> Expr {
    x.into_expr().then(|x| {
        ensure!(
            x.rank() >= 2,
            Shape,
            "matrix_power: expected matrices, got {}",
            x.spec()
        );
        let mut base = if power < 0 {
            inv(&x).done()?
        } else {
            x.clone()
        };
        let mut left = power.unsigned_abs();
        let mut out: Option<Tensor> = None;
        while left > 0 {
            if left & 1 == 1 {
                out = Some(match out {
                    Some(acc) => matmul(&acc, &base).done()?,
                    None => base.clone(),
                });
            }
            left >>= 1;
            if left > 0 {
                base = matmul(&base, &base).done()?;
            }
        }
        match out {
            Some(out) => Ok(out),
            None => eye_like(&x).done(),
        }
    })
}

/// Moore-Penrose pseudo-inverse; singular values below `rtol` times the largest count as zero.
pub fn pinv(x: &Tensor, rtol: Option<f64>) -> Expr {
    let build = || {
        ensure!(
            x.rank() >= 2,
            Shape,
            "pinv: expected matrices, got {}",
            x.spec()
        );
        let (m, n) = (
            x.shape().known_size(x.rank() - 2, "pinv")?,
            x.shape().known_size(x.rank() - 1, "pinv")?,
        );
        let epsilon = if x.dtype().real() == DType::F32 {
            f64::from(f32::EPSILON)
        } else {
            f64::EPSILON
        };
        let rtol = rtol.unwrap_or(m.max(n) as f64 * epsilon);
        let (u, s, vh) = svd(x, false)?;
        if m.min(n) == 0 {
            return super::conj(super::matrix_transpose(x)).done();
        }
        let floor = super::keepdims(&s, -1, super::max) * rtol;
        let inverse = super::where_(super::greater(&s, floor), super::reciprocal(&s), 0.0);
        let v = super::conj(super::matrix_transpose(&vh));
        let scaled = v * super::cast(super::expand_dims(inverse, -2), x.dtype());
        matmul(scaled, super::conj(super::matrix_transpose(&u))).done()
    };
    build().into()
}

/// The 2-norm over axes, without overflow; its gradient at zero is zero.
pub fn norm(x: impl IntoExpr, axes: impl super::IntoAxes) -> Expr {
    x.into_expr().then(|x| {
        let axes = axes.resolve(x.shape(), "norm")?;
        let size = super::abs(&x).done()?;
        let list: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
        if axes.iter().any(|&a| x.shape().dims()[a] == 0usize) {
            return super::sum(&size, list).done();
        }
        let largest = super::stop_gradient(super::keepdims(&size, list.clone(), |x, a| {
            super::max(x, a)
        }))
        .done()?;
        let fine =
            super::logical_and(super::greater(&largest, 0.0), super::isfinite(&largest)).done()?;
        let scale = super::where_(&fine, &largest, 1.0).done()?;
        let sum = super::sum(super::square(&size / &scale), list.clone());
        // The square root has no derivative at zero; a safe operand keeps NaN out of the gradient.
        let scale = super::reshape(&scale, x.shape().without(&axes)).done()?;
        sum.then(|sum| {
            let zero = super::equal(&sum, 0.0).done()?;
            let root = super::sqrt(super::where_(&zero, 1.0, &sum));
            super::where_(&zero, 0.0, root * &scale).done()
        })
        .done()
    })
}

fn fft_op(kind: FftKind, x: impl IntoExpr, axes: &[i64], length: Option<Dim>) -> Expr {
    x.into_expr().then(|x| {
        let axes = x.shape().axes(axes, "fft")?;
        ensure!(!axes.is_empty(), Index, "fft: expected at least one axis");
        let last = x.shape().dims()[axes[axes.len() - 1]];
        let length = length.unwrap_or(match kind {
            FftKind::RealInverse => (last - Dim::number(1)) * Dim::number(2),
            _ => last,
        });
        let dtype = match (kind, x.dtype()) {
            (FftKind::Real, d) if d.is_float() || d.is_complex() => d,
            (FftKind::Real, _) => DType::FLOAT,
            (_, d) if d.is_complex() => d,
            (_, d) => d.complex(),
        };
        let x = super::elementwise::to_dtype(&x, dtype)?;
        apply_one(&Fft { kind, axes, length }.into(), &[&x])
    })
}

/// The Fourier transform over axes.
pub fn fft(x: impl IntoExpr, axes: &[i64]) -> Expr {
    fft_op(FftKind::Forward, x, axes, None)
}

/// The inverse Fourier transform, scaled by 1/n.
pub fn ifft(x: impl IntoExpr, axes: &[i64]) -> Expr {
    fft_op(FftKind::Inverse, x, axes, None)
}

/// The non-negative half of the spectrum of real input; the last axis is halved.
pub fn rfft(x: impl IntoExpr, axes: &[i64]) -> Expr {
    fft_op(FftKind::Real, x, axes, None)
}

/// The half spectrum to `length` real numbers, scaled by 1/n.
pub fn irfft(x: impl IntoExpr, axes: &[i64], length: Option<usize>) -> Expr {
    fft_op(FftKind::RealInverse, x, axes, length.map(Dim::from))
}
