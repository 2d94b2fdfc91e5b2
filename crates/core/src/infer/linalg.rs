//! Inference of matrix factorisations and Fourier transforms; matrices are on the last two axes.

use super::{legal_axes, same_dtype};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::op::{Eig, Eigh, Fft, FftKind, Qr, Svd, TriangularSolve};
use crate::outs::Outs;
use crate::shape::Shape;
use crate::spec::Spec;

/// Batch axes, rows and columns of a matrix of f32, f64, c64 or c128.
fn matrix(op: &str, x: &Spec) -> Result<(Shape, Dim, Dim)> {
    ensure!(x.rank() >= 2, Shape, "{op}: expected matrices, got {x}");
    ensure!(
        matches!(x.dtype, DType::F32 | DType::F64 | DType::C64 | DType::C128),
        DType,
        "{op}: expected f32, f64, c64 or c128, got {x}"
    );
    let (m, n) = (x.shape.dims()[x.rank() - 2], x.shape.dims()[x.rank() - 1]);
    Ok((x.shape.without(&[x.rank() - 2, x.rank() - 1]), m, n))
}

/// The same for a square matrix.
pub fn square(op: &str, x: &Spec) -> Result<(Shape, Dim)> {
    let (batch, m, n) = matrix(op, x)?;
    ensure!(m == n, Shape, "{op}: expected square matrices, got {x}");
    Ok((batch, n))
}

fn with(batch: &Shape, dims: &[Dim]) -> Shape {
    batch.join(&Shape::from_dims(dims.iter().copied()))
}

pub fn qr(x: &Spec, p: &Qr) -> Result<Outs<Spec>> {
    let (batch, m, n) = matrix("qr", x)?;
    let k = if p.complete { m } else { m.min(n) };
    Ok(Outs::Many(vec![
        x.with_shape(with(&batch, &[m, k])),
        x.with_shape(with(&batch, &[k, n])),
    ]))
}

pub fn svd(x: &Spec, p: &Svd) -> Result<Outs<Spec>> {
    let (batch, m, n) = matrix("svd", x)?;
    let k = m.min(n);
    let s = Spec::new(x.dtype.real(), with(&batch, &[k]));
    if !p.vectors {
        return Ok(Outs::One(s));
    }
    let (rows, cols) = if p.complete { (m, n) } else { (k, k) };
    let (u, vh) = (
        x.with_shape(with(&batch, &[m, rows])),
        x.with_shape(with(&batch, &[cols, n])),
    );
    Ok(Outs::Many(vec![u, s, vh]))
}

pub fn eigh(x: &Spec, p: &Eigh) -> Result<Outs<Spec>> {
    let (batch, n) = square("eigh", x)?;
    let w = Spec::new(x.dtype.real(), with(&batch, &[n]));
    Ok(if p.vectors {
        Outs::Many(vec![w, x.clone()])
    } else {
        Outs::One(w)
    })
}

pub fn eig(x: &Spec, p: &Eig) -> Result<Outs<Spec>> {
    let (batch, n) = square("eig", x)?;
    let w = Spec::new(x.dtype.complex(), with(&batch, &[n]));
    Ok(if p.vectors {
        Outs::Many(vec![w, x.with_dtype(x.dtype.complex())])
    } else {
        Outs::One(w)
    })
}

pub fn lu(x: &Spec) -> Result<Outs<Spec>> {
    let (batch, m, n) = matrix("lu", x)?;
    let pivots = Spec::new(DType::I32, with(&batch, &[m.min(n)]));
    let permutation = Spec::new(DType::I32, with(&batch, &[m]));
    Ok(Outs::Many(vec![x.clone(), pivots, permutation]))
}

pub fn triangular_solve(a: &Spec, b: &Spec, p: &TriangularSolve) -> Result<Spec> {
    let op = "triangular_solve";
    let (batch, n) = square(op, a)?;
    let (rhs_batch, rows, cols) = matrix(op, b)?;
    same_dtype(op, a, b)?;
    let side = if p.left { rows } else { cols };
    ensure!(
        batch == rhs_batch && side == n,
        Shape,
        "{op}: {a} and {b} do not match"
    );
    Ok(b.clone())
}

pub fn fft(op: &str, x: &Spec, p: &Fft) -> Result<Spec> {
    legal_axes(op, &p.axes, x.rank())?;
    ensure!(
        !p.axes.is_empty(),
        Index,
        "{op}: expected at least one axis"
    );
    let last = p.axes[p.axes.len() - 1];
    let half = p.length.floor_div(Dim::number(2))? + Dim::number(1);
    let size = x.shape.dims()[last];
    for &axis in p.axes.iter() {
        ensure!(
            x.shape.dims()[axis] != 0usize,
            Shape,
            "{op}: axis {axis} of {x} is empty"
        );
    }
    let complex = matches!(x.dtype, DType::C64 | DType::C128);
    match p.kind {
        FftKind::Forward | FftKind::Inverse => {
            ensure!(complex, DType, "{op}: expected complex numbers, got {x}");
            ensure!(
                p.length == size,
                Shape,
                "{op}: invalid length {} for axis {last} of {x}",
                p.length
            );
            Ok(x.clone())
        }
        FftKind::Real => {
            ensure!(
                matches!(x.dtype, DType::F32 | DType::F64),
                DType,
                "{op}: expected f32 or f64, got {x}"
            );
            ensure!(
                p.length == size,
                Shape,
                "{op}: invalid length {} for axis {last} of {x}",
                p.length
            );
            Ok(Spec::new(x.dtype.complex(), x.shape.with(last, half)))
        }
        FftKind::RealInverse => {
            ensure!(complex, DType, "{op}: expected complex numbers, got {x}");
            ensure!(
                size == half && p.length.value().is_none_or(|n| n > 0),
                Shape,
                "{op}: the half spectrum of length {} has {half} elements, got {size}",
                p.length
            );
            Ok(Spec::new(x.dtype.real(), x.shape.with(last, p.length)))
        }
    }
}
