//! Discrete Fourier transforms along axes of a contiguous array.
//!
//! Forward transforms are not scaled, inverse ones are divided by the number of points. Any length works, primes
//! included. The one-dimensional transforms are those of rustfft and realfft; this module applies them along axes.
//! Lines that are not contiguous are gathered a few at a time, so the workspace stays small compared with the array.

mod lines;

use lines::Layout;
use num_complex::Complex;
use num_traits::{Float, NumCast};
use realfft::RealFftPlanner;
use rustfft::{FftDirection, FftPlanner};
use std::cell::RefCell;
use std::fmt;

/// Errors of a transform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FftError {
    /// An axis that the array does not have.
    Axis {
        /// The requested axis.
        axis: usize,
        /// Number of axes of the array.
        rank: usize,
    },
    /// An axis that is listed twice.
    RepeatedAxis(usize),
    /// A real transform needs an axis.
    NoAxes,
    /// A real transform of no points.
    NoPoints {
        /// The axis without points.
        axis: usize,
    },
    /// The length of a slice does not match its sizes.
    Length {
        /// Which operand.
        operand: &'static str,
        /// The length that the sizes require.
        expected: usize,
        /// The length of the slice.
        found: usize,
    },
    /// The transform failed.
    Refused(String),
}

impl fmt::Display for FftError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Axis { axis, rank } => {
                write!(f, "fft: no axis {axis} in an array of {rank} axes")
            }
            Self::RepeatedAxis(axis) => write!(f, "fft: axis {axis} is named twice"),
            Self::NoAxes => write!(f, "fft: a real transform needs at least one axis"),
            Self::NoPoints { axis } => {
                write!(f, "fft: a real transform of no points on axis {axis}")
            }
            Self::Length {
                operand,
                expected,
                found,
            } => {
                write!(
                    f,
                    "fft: {operand} has {found} elements, its sizes ask for {expected}"
                )
            }
            Self::Refused(reason) => write!(f, "fft: {reason}"),
        }
    }
}

impl std::error::Error for FftError {}

/// One thread's cached plans, with their tables of roots of unity.
pub struct Plans<T: rustfft::FftNum> {
    complex: FftPlanner<T>,
    real: RealFftPlanner<T>,
}

/// `f32` and `f64`.
pub trait Real: rustfft::FftNum + Float + Default {
    /// Lends this thread's plans.
    #[doc(hidden)]
    fn with_plans<R>(f: impl FnOnce(&mut Plans<Self>) -> R) -> R;
}

macro_rules! real {
    ($t:ty) => {
        impl Real for $t {
            fn with_plans<R>(f: impl FnOnce(&mut Plans<Self>) -> R) -> R {
                thread_local! {
                    static PLANS: RefCell<Plans<$t>> = RefCell::new(Plans {
                        complex: FftPlanner::new(),
                        real: RealFftPlanner::new(),
                    });
                }
                PLANS.with_borrow_mut(f)
            }
        }
    };
}

real!(f32);
real!(f64);

/// Complex transform of `data` along `axes`, in place.
pub fn c2c<T: Real>(
    data: &mut [Complex<T>],
    shape: &[usize],
    axes: &[usize],
    inverse: bool,
) -> Result<(), FftError> {
    check_axes(axes, shape.len())?;
    check_length("the array", data.len(), shape)?;
    if data.is_empty() {
        return Ok(());
    }
    for &axis in axes {
        transform(data, Layout::of(shape, axis), inverse);
    }
    if inverse {
        let factor = inverse_count(axes.iter().map(|&axis| shape[axis]));
        data.iter_mut().for_each(|x| *x = x.scale(factor));
    }
    Ok(())
}

/// Transform of a real array: along the last of `axes` into its `n / 2 + 1` non-negative frequencies, then along the
/// others.
pub fn r2c<T: Real>(
    input: &[T],
    shape: &[usize],
    axes: &[usize],
    output: &mut [Complex<T>],
) -> Result<(), FftError> {
    check_axes(axes, shape.len())?;
    let (&last, others) = axes.split_last().ok_or(FftError::NoAxes)?;
    let n = shape[last];
    let half = n / 2 + 1;
    let mut result_shape = shape.to_vec();
    result_shape[last] = half;
    check_length("the input", input.len(), shape)?;
    check_length("the output", output.len(), &result_shape)?;
    if output.is_empty() {
        return Ok(());
    }
    if n == 0 {
        return Err(FftError::NoPoints { axis: last });
    }
    let plan = T::with_plans(|plans| plans.real.plan_fft_forward(n));
    let worker = || {
        let mut scratch = plan.make_scratch_vec();
        let plan = &plan;
        move |from: &mut [T], to: &mut [Complex<T>]| {
            plan.process_with_scratch(from, to, &mut scratch)
                .map_err(|error| FftError::Refused(error.to_string()))
        }
    };
    lines::map(input, output, Layout::of(shape, last), (n, half), worker)?;
    for &axis in others {
        transform(output, Layout::of(&result_shape, axis), false);
    }
    Ok(())
}

/// Inverse of [`r2c`] with `n` real points along the last of `axes`.
///
/// Along it `n / 2 + 1` frequencies are read; missing ones count as zero. The imaginary parts of the first and, for
/// even `n`, of the last are ignored: those of a real signal are zero.
pub fn c2r<T: Real>(
    input: &[Complex<T>],
    shape: &[usize],
    axes: &[usize],
    n: usize,
    output: &mut [T],
) -> Result<(), FftError> {
    check_axes(axes, shape.len())?;
    let (&last, others) = axes.split_last().ok_or(FftError::NoAxes)?;
    let mut result_shape = shape.to_vec();
    result_shape[last] = n;
    check_length("the input", input.len(), shape)?;
    check_length("the output", output.len(), &result_shape)?;
    if n == 0 {
        return Err(FftError::NoPoints { axis: last });
    }
    if output.is_empty() {
        return Ok(());
    }
    if input.is_empty() {
        // No frequencies at all: the signal of zeros.
        output.fill(T::zero());
        return Ok(());
    }
    let mut copy;
    let spectrum = if others.is_empty() {
        input
    } else {
        copy = input.to_vec();
        for &axis in others {
            transform(&mut copy, Layout::of(shape, axis), true);
        }
        &copy
    };
    let half = n / 2 + 1;
    let present = shape[last].min(half);
    let factor = inverse_count(others.iter().map(|&axis| shape[axis]).chain([n]));
    let plan = T::with_plans(|plans| plans.real.plan_fft_inverse(n));
    let worker = || {
        let mut scratch = plan.make_scratch_vec();
        let mut line = vec![Complex::default(); half];
        let plan = &plan;
        move |from: &mut [Complex<T>], to: &mut [T]| {
            line.fill(Complex::default());
            line[..present].copy_from_slice(&from[..present]);
            line[0].im = T::zero();
            if n.is_multiple_of(2) {
                line[half - 1].im = T::zero();
            }
            plan.process_with_scratch(&mut line, to, &mut scratch)
                .map_err(|error| FftError::Refused(error.to_string()))?;
            to.iter_mut().for_each(|x| *x = *x * factor);
            Ok(())
        }
    };
    lines::map(
        spectrum,
        output,
        Layout::of(shape, last),
        (shape[last], n),
        worker,
    )
}

/// Unscaled transform along one axis.
fn transform<T: Real>(data: &mut [Complex<T>], layout: Layout, inverse: bool) {
    if layout.length < 2 {
        return;
    }
    let direction = if inverse {
        FftDirection::Inverse
    } else {
        FftDirection::Forward
    };
    let plan = T::with_plans(|plans| plans.complex.plan_fft(layout.length, direction));
    lines::update(data, layout, || {
        let mut scratch = vec![Complex::default(); plan.get_inplace_scratch_len()];
        let plan = &plan;
        move |line: &mut [Complex<T>]| plan.process_with_scratch(line, &mut scratch)
    });
}

/// One over a product of sizes.
fn inverse_count<T: Real>(sizes: impl Iterator<Item = usize>) -> T {
    let count: f64 = sizes.map(|n| n as f64).product();
    <T as NumCast>::from(1.0 / count).unwrap_or_else(T::nan)
}

fn check_axes(axes: &[usize], rank: usize) -> Result<(), FftError> {
    for (i, &axis) in axes.iter().enumerate() {
        if axis >= rank {
            return Err(FftError::Axis { axis, rank });
        }
        if axes[..i].contains(&axis) {
            return Err(FftError::RepeatedAxis(axis));
        }
    }
    Ok(())
}

fn check_length(operand: &'static str, found: usize, shape: &[usize]) -> Result<(), FftError> {
    let expected = shape
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size));
    match expected {
        Some(expected) if expected == found => Ok(()),
        _ => Err(FftError::Length {
            operand,
            expected: expected.unwrap_or(usize::MAX),
            found,
        }),
    }
}

#[cfg(test)]
mod tests;
