//! What is done to gradients before a step: lengths, limits, sums, scales.
//!
//! Halves are computed in f32. Sums and unscaled gradients of halves stay f32, for they are small; the rules take both.

use clematis_core::{DType, Result, Tensor, ensure, ops};

/// The element type that lengths of these are computed in.
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

/// The length of all leaves as one vector.
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

/// The leaves, made shorter together where their length is more than `most`, and that length.
///
/// Where it is no finite number the leaves stay as they are.
pub fn clip_by_global_norm(leaves: &[Tensor], most: f64) -> Result<(Vec<Tensor>, Tensor)> {
    ensure!(
        most > 0.0,
        Value,
        "clip_by_global_norm: max_norm is a number above 0, not {most}"
    );
    let norm = global_norm(leaves)?;
    let is_long = ops::logical_and(ops::greater(&norm, most), ops::isfinite(&norm)).done()?;
    let factor = ops::where_(&is_long, ops::full_like(&norm, most) / &norm, 1.0).done()?;
    let clipped = leaves.iter().map(|x| {
        let own = x.dtype().accumulator();
        let short = ops::cast(x, own) * ops::cast(&factor, own);
        // Zero times a factor is zero of either sign, so what is short enough stays the very bits that it was.
        ops::where_(&is_long, ops::cast(short, x.dtype()), x).done()
    });
    Ok((clipped.collect::<Result<_>>()?, norm))
}

/// Each element held between two numbers.
pub fn clip_by_value(leaves: &[Tensor], low: f64, high: f64) -> Result<Vec<Tensor>> {
    ensure!(
        low <= high,
        Value,
        "clip_by_value: {low} is not at most {high}"
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
        // One value is waited for, whatever the number of leaves.
        all => Ok(ops::all(ops::stack(all, 0), ..).done()?.item()?.as_bool()),
    }
}

/// Each leaf times a number, in f32 if it is a half.
pub fn scaled(leaves: &[Tensor], factor: f64) -> Result<Vec<Tensor>> {
    let scale = |x: &Tensor| (ops::cast(x, x.dtype().accumulator()) * factor).done();
    leaves.iter().map(scale).collect()
}

/// The sums of leaves in the same places, in f32 if they are halves.
pub fn summed(one: &[Tensor], two: &[Tensor]) -> Result<Vec<Tensor>> {
    let wide = |x: &Tensor| ops::cast(x, x.dtype().accumulator());
    let add = |(x, y): (&Tensor, &Tensor)| (wide(x) + wide(y)).done();
    one.iter().zip(two).map(add).collect()
}
