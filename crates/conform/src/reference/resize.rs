//! Interpolation, axis by axis, as torch and PIL define it.

use crate::array::{Array, C, Num};
use clematis_core::DType;
use clematis_core::op::composite::ResizeMethod;

pub fn resize(
    x: &Array,
    to: &[usize],
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
) -> Array {
    let mut y = x.clone();
    if method != ResizeMethod::Nearest && !x.dtype.is_inexact() {
        // Interpolated values are not integers.
        y = x.map(DType::FLOAT, |v| Num::Inexact(v.c()));
    }
    for (axis, &size) in to.iter().enumerate() {
        if x.shape[axis] != size {
            y = along(&y, axis, size, method, align_corners, antialias);
        }
    }
    y
}

fn along(
    x: &Array,
    axis: usize,
    size: usize,
    method: ResizeMethod,
    align_corners: bool,
    antialias: bool,
) -> Array {
    let n = x.shape[axis];
    let mut shape = x.shape.clone();
    shape[axis] = size;
    let ratio = n as f64 / size as f64;
    Array::from_fn(x.dtype, &shape, |at| {
        let i = at[axis] as f64;
        let value = |j: i64| {
            let mut from = at.to_vec();
            // Indices past the edge repeat the last element.
            from[axis] = j.clamp(0, n as i64 - 1) as usize;
            x.at(&from)
        };
        let centre = if align_corners {
            if size > 1 {
                i * (n - 1) as f64 / (size - 1) as f64
            } else {
                0.0
            }
        } else {
            (i + 0.5) * ratio - 0.5
        };
        match method {
            ResizeMethod::Nearest if align_corners => value((centre + 0.5).floor() as i64),
            ResizeMethod::Nearest => value((i * ratio).floor() as i64),
            _ if antialias && ratio > 1.0 => smoothed(n, centre, ratio, method, value),
            ResizeMethod::Linear => {
                let low = centre.floor();
                let share = centre - low;
                let (a, b) = (value(low as i64).c(), value(low as i64 + 1).c());
                Num::Inexact(a * (1.0 - share) + b * share)
            }
            ResizeMethod::Cubic => {
                let a = if antialias { -0.5 } else { -0.75 };
                let low = centre.floor() as i64;
                let mut taps: Vec<i64> = (low - 1..=low + 2).collect();
                if antialias {
                    // Taps outside are dropped, and the remaining weights renormalised.
                    taps.retain(|j| (0..n as i64).contains(j));
                }
                weighed(taps, |j| cubic(a, centre - j as f64), value)
            }
        }
    })
}

/// Keys' cubic kernel.
fn cubic(a: f64, t: f64) -> f64 {
    let t = t.abs();
    if t <= 1.0 {
        (a + 2.0) * t.powi(3) - (a + 3.0) * t.powi(2) + 1.0
    } else if t < 2.0 {
        a * t.powi(3) - 5.0 * a * t.powi(2) + 8.0 * a * t - 4.0 * a
    } else {
        0.0
    }
}

/// A weighted mean of elements.
fn weighed(taps: Vec<i64>, weight: impl Fn(i64) -> f64, value: impl Fn(i64) -> Num) -> Num {
    let total: f64 = taps.iter().map(|&j| weight(j)).sum();
    let sum: C = taps.iter().map(|&j| value(j).c() * weight(j)).sum();
    Num::Inexact(sum / total)
}

/// The kernel stretched by the scale factor, over the taps inside.
fn smoothed(
    n: usize,
    centre: f64,
    ratio: f64,
    method: ResizeMethod,
    value: impl Fn(i64) -> Num,
) -> Num {
    let weight = |j: i64| {
        let t = (j as f64 - centre) / ratio;
        match method {
            ResizeMethod::Cubic => cubic(-0.5, t),
            _ => (1.0 - t.abs()).max(0.0),
        }
    };
    weighed((0..n as i64).collect(), weight, value)
}
