//! Fourier transforms, by their defining sums.

use crate::array::{Array, C, Num};
use clematis_core::op::{Fft, FftKind};
use std::f64::consts::TAU;

/// Σ x[j] e^(sign 2πi jk / n) along one axis.
fn along(x: &Array, axis: usize, sign: f64, scale: f64) -> Array {
    let n = x.shape[axis];
    Array::from_fn(x.dtype, &x.shape, |at| {
        let mut sum = C::new(0.0, 0.0);
        for j in 0..n {
            let mut from = at.to_vec();
            from[axis] = j;
            // The product is reduced modulo n first, to keep angles small.
            let fraction = (j * at[axis] % n) as f64 / n as f64;
            sum += x.at(&from).c() * C::from_polar(1.0, sign * TAU * fraction);
        }
        Num::Inexact(sum * scale)
    })
}

/// The first `size` elements along an axis.
fn first(x: &Array, axis: usize, size: usize) -> Array {
    let mut shape = x.shape.clone();
    shape[axis] = size;
    Array::from_fn(x.dtype, &shape, |at| x.at(at))
}

pub fn fft(x: &Array, p: &Fft) -> Array {
    let (last, others) = (p.axes[p.axes.len() - 1], &p.axes[..p.axes.len() - 1]);
    let length = p.length.value().unwrap_or(0) as usize;
    let mut y = x.clone();
    match p.kind {
        FftKind::Forward => {
            for &a in p.axes.iter() {
                y = along(&y, a, -1.0, 1.0);
            }
        }
        FftKind::Inverse => {
            for &a in p.axes.iter() {
                y = along(&y, a, 1.0, 1.0 / x.shape[a] as f64);
            }
        }
        FftKind::Real => {
            y.dtype = x.dtype.complex();
            y = first(&along(&y, last, -1.0, 1.0), last, length / 2 + 1);
            for &a in others {
                y = along(&y, a, -1.0, 1.0);
            }
        }
        FftKind::RealInverse => {
            for &a in others {
                y = along(&y, a, 1.0, 1.0 / x.shape[a] as f64);
            }
            // The other half of the spectrum is the conjugate; the imaginary parts of its ends are ignored.
            let mut shape = y.shape.clone();
            shape[last] = length;
            let whole = Array::from_fn(y.dtype, &shape, |at| {
                let mut from = at.to_vec();
                let k = at[last];
                if k > length / 2 {
                    from[last] = length - k;
                    return Num::Inexact(y.at(&from).c().conj());
                }
                let v = y.at(&from).c();
                let end = k == 0 || 2 * k == length;
                Num::Inexact(if end { C::new(v.re, 0.0) } else { v })
            });
            y = along(&whole, last, 1.0, 1.0 / length as f64);
            y = y.map(x.dtype.real(), |v| Num::real(v.re()));
        }
    }
    y
}
