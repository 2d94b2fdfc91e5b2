//! Functional API: layers, losses, optimiser steps and random draws as plain functions.
//!
//! Written with the core's public ops only, so every function runs, differentiates and traces on every backend. The
//! Python functions of the same names parse their arguments and call these.

pub mod activation;
pub mod adaptive;
pub mod attention;
pub mod batch_norm;
pub mod bilinear;
pub mod conv;
pub mod cross_entropy;
pub mod data_format;
pub mod dropout;
pub mod gru;
pub mod linear;
pub mod loss;
pub mod lstm;
pub mod mask;
pub mod norm;
pub mod optimizer_rule;
pub mod optimizer_updates;
pub mod orthogonal;
pub mod pool;
pub mod random;
pub use clematis_core::random::stream;

use clematis_core::expr::Expr;
use clematis_core::ops;
use clematis_core::{DType, Repr, Result, Tensor, bail};

/// The promoted dtype of all tensors.
pub fn common(xs: &[&Tensor]) -> DType {
    let mut strong = xs.iter().filter(|x| !x.is_weak());
    let Some(first) = strong.next() else {
        return xs.first().map_or(DType::FLOAT, |x| x.dtype());
    };
    let met = strong.fold(first.dtype(), |d, x| d.promote(x.dtype()));
    // A plain number adopts its neighbours' dtype unless it is of a higher category.
    xs.iter()
        .filter_map(|x| x.as_number().filter(|_| x.is_weak()))
        .fold(met, |d, v| v.dtype_beside(d))
}

/// Converts to a float dtype: floats stay, everything else becomes the default float.
pub fn float(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_inexact() {
        Ok(x.clone())
    } else {
        ops::cast(x, DType::FLOAT).done()
    }
}

/// Computes half precision in f32 and rounds once.
fn rounded_once(x: &Tensor, f: impl FnOnce(Tensor) -> Expr) -> Result<Tensor> {
    match x.dtype() {
        half @ (DType::F16 | DType::BF16) => {
            ops::cast(f(ops::cast(x, DType::F32).done()?), half).done()
        }
        _ => f(x.clone()).done(),
    }
}

/// Whether values can be read: false for tracers, ours or a framework's.
pub fn has_values(x: &Tensor) -> bool {
    let x = x.lowest();
    match x.repr() {
        Repr::Scalar { .. } => true,
        Repr::Concrete { backend, .. } => backend.has_values(x),
        Repr::Traced { .. } => false,
    }
}

/// Returns an error if an operand is complex.
fn real(op: &str, xs: &[&Tensor]) -> Result<()> {
    match xs.iter().find(|x| x.dtype().is_complex()) {
        Some(x) => bail!(DType, "{op}: expected real numbers, got {}", x.spec()),
        None => Ok(()),
    }
}

/// Whether the tensor is traced, and so may be differentiated.
fn is_traced(x: &Tensor) -> bool {
    matches!(x.repr(), Repr::Traced { .. })
}

/// The square root with derivative 0 at 0.
fn safe_sqrt(x: &Tensor) -> Expr {
    if !is_traced(x) {
        return ops::sqrt(ops::maximum(x, 0.0));
    }
    ops::greater(x, 0.0).then(|some| {
        let root = ops::sqrt(ops::where_(&some, x, 1.0));
        ops::where_(&some, root, 0.0)
    })
}
