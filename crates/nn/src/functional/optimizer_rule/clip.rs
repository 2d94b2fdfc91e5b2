//! Gradient clipping, norms, sums and scaling.
//!
//! Half precision is computed in f32. Sums and unscaled gradients of half precision stay f32 to keep small values;
//! update rules accept both.

use clematis_core::{DType, Result, Tensor, ensure, ops};

/// The dtype in which norms are computed.
fn wide(leaves: &[Tensor]) -> DType {
    let float = |x: &Tensor| match x.dtype().accumulator() {
        d if d.is_inexact() => d.real(),
        _ => DType::FLOAT,
    };
    leaves
        .iter()
        .map(float)
        .reduce(DType::promote)
        .unwrap_or(DType::FLOAT)
}

/// The global norm: the 2-norm of all leaves as one vector.
pub fn global_norm(leaves: &[Tensor]) -> Result<Tensor> {
    let dtype = wide(leaves);
    let norm = |x: &Tensor| {
        let own = x.dtype().accumulator();
        let own = if own.is_inexact() { own } else { dtype };
        ops::cast(ops::norm(ops::cast(x, own), ..), dtype).done()
    };
    let norms = leaves.iter().map(norm).collect::<Result<Vec<_>>>()?;
    match norms.as_slice() {
        [] => Ok(Tensor::scalar(0.0, dtype)),
        [one] => Ok(one.clone()),
        all => ops::norm(ops::stack(all, 0), ..).done(),
    }
}

/// Clips leaves by global norm: scales all of them if their norm exceeds `most`. Also returns the norm.
///
/// If the norm is not finite, the leaves are unchanged.
pub fn clip_by_global_norm(leaves: &[Tensor], most: f64) -> Result<(Vec<Tensor>, Tensor)> {
    ensure!(
        most > 0.0,
        Value,
        "clip_by_global_norm: expected a positive max_norm, got {most}"
    );
    let norm = global_norm(leaves)?;
    let is_long = ops::logical_and(ops::greater(&norm, most), ops::isfinite(&norm)).done()?;
    let factor = ops::where_(&is_long, ops::full_like(&norm, most) / &norm, 1.0).done()?;
    let clipped = leaves.iter().map(|x| {
        let own = x.dtype().accumulator();
        let short = ops::cast(x, own) * ops::cast(&factor, own);
        // Leaves within the limit keep their bits: multiplying a zero could change its sign.
        ops::where_(&is_long, ops::cast(short, x.dtype()), x).done()
    });
    Ok((clipped.collect::<Result<_>>()?, norm))
}

/// Clips each element to [low, high].
pub fn clip_by_value(leaves: &[Tensor], low: f64, high: f64) -> Result<Vec<Tensor>> {
    ensure!(
        low <= high,
        Value,
        "clip_by_value: expected low <= high, got {low} and {high}"
    );
    leaves
        .iter()
        .map(|x| ops::clamp(x, low, high).done())
        .collect()
}

/// Whether no element is infinite or NaN.
pub fn all_finite(leaves: &[Tensor]) -> Result<bool> {
    let each = leaves.iter().filter(|x| x.dtype().is_inexact());
    let each = each.map(|x| ops::all(ops::isfinite(x), ..).done());
    match each.collect::<Result<Vec<_>>>()?.as_slice() {
        [] => Ok(true),
        // Synchronises once, whatever the number of leaves.
        all => Ok(ops::all(ops::stack(all, 0), ..).done()?.item()?.as_bool()),
    }
}

/// Scales each leaf; half precision becomes f32.
pub fn scaled(leaves: &[Tensor], factor: f64) -> Result<Vec<Tensor>> {
    let scale = |x: &Tensor| (ops::cast(x, x.dtype().accumulator()) * factor).done();
    leaves.iter().map(scale).collect()
}

/// Adds leaves pairwise; half precision becomes f32.
pub fn summed(one: &[Tensor], two: &[Tensor]) -> Result<Vec<Tensor>> {
    let wide = |x: &Tensor| ops::cast(x, x.dtype().accumulator());
    let add = |(x, y): (&Tensor, &Tensor)| (wide(x) + wide(y)).done();
    one.iter().zip(two).map(add).collect()
}
