//! Layers, losses, optimiser steps and draws as plain functions.
//!
//! Written with the core's public ops alone, so each runs, differentiates and traces on every backend. What Python calls
//! under the same names reads its arguments and comes here.

pub mod activation;
pub mod adaptive;
pub mod arrange;
pub mod attention;
pub mod bilinear;
pub mod conv;
pub mod dropout;
pub mod gated;
pub mod linear;
pub mod logits;
pub mod loss;
pub mod norm;
pub mod optimise;
pub mod orthogonal;
pub mod pool;
pub mod random;
pub mod recurrent;
pub mod step;
pub mod running;
pub use clematis_core::random::stream;
pub mod words;

use clematis_core::expr::Expr;
use clematis_core::ops;
use clematis_core::{DType, Repr, Result, Tensor, bail};

/// The element type that all of these meet in.
pub fn common(xs: &[&Tensor]) -> DType {
    let mut strong = xs.iter().filter(|x| !x.is_weak());
    let Some(first) = strong.next() else {
        return xs.first().map_or(DType::FLOAT, |x| x.dtype());
    };
    let met = strong.fold(first.dtype(), |d, x| d.promote(x.dtype()));
    // A plain number follows its neighbours unless it is of a higher family.
    xs.iter()
        .filter_map(|x| x.as_number().filter(|_| x.is_weak()))
        .fold(met, |d, v| v.dtype_beside(d))
}

/// Floats as they are, everything else as the default float.
pub fn float(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_inexact() {
        Ok(x.clone())
    } else {
        ops::cast(x, DType::FLOAT).done()
    }
}

/// Computes halves in f32 and rounds once.
fn rounded_once(x: &Tensor, f: impl FnOnce(Tensor) -> Expr) -> Result<Tensor> {
    match x.dtype() {
        half @ (DType::F16 | DType::BF16) => {
            ops::cast(f(ops::cast(x, DType::F32).done()?), half).done()
        }
        _ => f(x.clone()).done(),
    }
}

/// Whether values can be read now: not those of what we, or a framework itself, only trace.
pub fn has_values(x: &Tensor) -> bool {
    let x = x.lowest();
    match x.repr() {
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x),
        Repr::Traced { .. } => false,
    }
}

/// An error where one of these is complex.
fn real(op: &str, xs: &[&Tensor]) -> Result<()> {
    match xs.iter().find(|x| x.dtype().is_complex()) {
        Some(x) => bail!(DType, "{op}: takes real numbers, not {}", x.spec()),
        None => Ok(()),
    }
}

/// Whether a derivative may be asked for.
fn is_traced(x: &Tensor) -> bool {
    matches!(x.repr(), Repr::Traced { .. })
}

/// The square root, whose derivative at 0 is 0.
fn safe_sqrt(x: &Tensor) -> Expr {
    if !is_traced(x) {
        return ops::sqrt(ops::maximum(x, 0.0));
    }
    ops::greater(x, 0.0).then(|some| {
        let root = ops::sqrt(ops::where_(&some, x, 1.0));
        ops::where_(&some, root, 0.0)
    })
}
