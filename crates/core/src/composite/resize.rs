//! Interpolation to another size, as a matmul with a small weight matrix along each axis that changes.
//!
//! The weights depend on the sizes only, so the result is linear in the operand.

use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::limit;
use crate::op::composite::ResizeMethod;
use crate::ops::{self, Ops};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Resizes by interpolation.
pub fn resize(
    x: &Tensor,
    to: &Shape,
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
) -> Result<Tensor> {
    to.check("resize")?;
    ensure!(
        to.rank() == x.rank(),
        Shape,
        "resize: {} and the shape {to} differ in rank",
        x.spec()
    );
    let wide = if x.dtype().is_inexact() {
        x.dtype().accumulator()
    } else {
        DType::FLOAT
    };
    let mut y = if method == ResizeMethod::Nearest {
        x.clone()
    } else {
        x.cast(wide).done()?
    };
    for axis in 0..x.rank() {
        let (from, size) = (x.shape().dims()[axis], to.dims()[axis]);
        if from == size {
            continue;
        }
        let known = from.value().zip(size.value());
        let Some((from, size)) = known else {
            crate::bail!(
                Trace,
                "resize: expected known sizes, got axis {axis} from {from} to {size}"
            );
        };
        ensure!(
            from > 0,
            Shape,
            "resize: axis {axis} of {} is empty",
            x.spec()
        );
        let (from, size) = (from as usize, size as usize);
        if method == ResizeMethod::Nearest {
            let mut places: Vec<i64> = limit::list("resize", "places", &[size])?;
            places.extend((0..size).map(|i| nearest(i, from, size, align_corners)));
            let places = like(&y, || ops::from_slice(&places, [size]))?;
            y = ops::index::take_unchecked(&y, &places, axis)?;
        } else {
            let weights = weights(from, size, method, align_corners, antialias)?;
            let weights = like(&y, || ops::from_slice(&weights, [size, from]))?
                .cast(wide)
                .done()?;
            let product = ops::tensordot(&y, &weights, &[axis as i64], &[1]);
            y = ops::move_axis(product, -1, axis as i64).done()?;
        }
    }
    if method == ResizeMethod::Nearest || !x.dtype().is_inexact() {
        Ok(y)
    } else {
        y.cast(x.dtype()).done()
    }
}

fn like(x: &Tensor, make: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    match x.backend() {
        Some(b) => crate::backend::with(b, make),
        None => make(),
    }
}

/// The centre of result pixel `i` in operand coordinates.
fn centre(i: usize, from: usize, size: usize, align_corners: bool) -> f64 {
    if align_corners {
        return if size > 1 {
            i as f64 * (from - 1) as f64 / (size - 1) as f64
        } else {
            0.0
        };
    }
    (i as f64 + 0.5) * from as f64 / size as f64 - 0.5
}

fn nearest(i: usize, from: usize, size: usize, align_corners: bool) -> i64 {
    let at = if align_corners {
        (centre(i, from, size, true) + 0.5).floor()
    } else {
        (i as f64 * from as f64 / size as f64).floor()
    };
    (at as i64).clamp(0, from as i64 - 1)
}

/// Keys' cubic kernel with a = -0.75 as in torch, or a = -0.5 with antialiasing as in PIL.
fn kernel(method: ResizeMethod, t: f64, antialias: bool) -> f64 {
    let t = t.abs();
    match method {
        ResizeMethod::Linear | ResizeMethod::Nearest => (1.0 - t).max(0.0),
        ResizeMethod::Cubic => {
            let a = if antialias { -0.5 } else { -0.75 };
            if t <= 1.0 {
                ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0
            } else if t < 2.0 {
                (((t - 5.0) * t + 8.0) * t - 4.0) * a
            } else {
                0.0
            }
        }
    }
}

/// Row i: the weight of each operand pixel in result pixel i. Rows sum to one.
fn weights(
    from: usize,
    size: usize,
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
) -> Result<Vec<f64>> {
    let stretch = if antialias {
        (from as f64 / size as f64).max(1.0)
    } else {
        1.0
    };
    let reach = (if method == ResizeMethod::Cubic {
        2.0
    } else {
        1.0
    }) * stretch;
    let mut out = limit::list("resize", "weights", &[size, from])?;
    out.resize(size * from, 0.0);
    for i in 0..size {
        let c = centre(i, from, size, align_corners);
        let row = &mut out[i * from..(i + 1) * from];
        let (low, high) = ((c - reach).floor() as i64, (c + reach).ceil() as i64);
        let mut total = 0.0;
        for j in low..=high {
            let inside = (0..from as i64).contains(&j);
            // Antialiasing drops pixels outside the image; interpolation repeats the border.
            if antialias && !inside {
                continue;
            }
            let weight = kernel(method, (j as f64 - c) / stretch, antialias);
            row[j.clamp(0, from as i64 - 1) as usize] += weight;
            total += weight;
        }
        if total != 0.0 {
            row.iter_mut().for_each(|w| *w /= total);
        }
    }
    Ok(out)
}
