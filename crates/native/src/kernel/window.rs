//! Reductions over sliding windows: pooling, and the kernels of its gradients.
//!
//! [`reduce_window`] folds each window to one element; [`window_scatter`] and [`window_gather`] find the selected
//! element of each window (the largest or smallest) and add to, or read from, its position in another array. Any number
//! of axes, any layout, padding (which never takes part), strides and both dilations. A window that lies entirely in
//! padding gives the reduction's identity.

use std::marker::PhantomData;

use half::{bf16, f16};
use num_complex::Complex;

use super::conv::phases::PhasedAxis;
use super::conv::problem::Dim;
use super::conv::{Axis, Step};
use crate::element::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};

pub(crate) mod fold;
pub(crate) mod loops;
mod select;

use fold::{Fold, Work};
use loops::{LoopAxis, WindowLoops};
pub use select::{
    Elsewhere, window_gather, window_gather_elsewhere, window_scatter, window_scatter_elsewhere,
};

/// Reads below which a second thread does not pay.
const PARALLEL: usize = 1 << 18;

/// One axis of a sliding window. Axes that are not reduced have a window of 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowAxis {
    /// The axis in the array that is reduced.
    pub input: Axis,
    /// The same axis of the result.
    pub output: Axis,
    /// The size of the window.
    pub window: usize,
    /// Stride, padding and dilations; `lhs_dilation` dilates the input, `rhs_dilation` the window.
    pub step: Step,
}

/// The reduction of a window to one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Sum; `or` for booleans.
    Sum,
    /// Product; `and` for booleans.
    Prod,
    /// Largest; NaN if there is one.
    Max,
    /// Smallest; NaN if there is one.
    Min,
}

/// Types that windows can reduce.
pub trait Pooled: Copy + Send + Sync + PartialEq + 'static {
    /// The accumulator type: f32 for half precision.
    type Sum: Copy + Send + Sync + 'static;
    /// Identity of the sum, and the result of an empty selection.
    const ZERO: Self;
    /// Smallest and largest value.
    const LIMITS: (Self, Self);
    /// Folds by plain loops, unless a type overrides it.
    #[doc(hidden)]
    #[allow(private_bounds, private_interfaces)]
    fn run<F: Fold<Item = Self>>(out: &mut [Self], work: &Work<'_, F>) {
        fold::plain(out, work);
    }
    /// To the accumulator type.
    fn widen(self) -> Self::Sum;
    /// Back, rounded.
    fn narrow(sum: Self::Sum) -> Self;
    /// Identities of sum and product.
    const IDENTITIES: (Self::Sum, Self::Sum);
    /// Sum.
    fn add(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// Product.
    fn mul(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// The larger, or NaN if either is.
    fn max(self, other: Self) -> Self;
    /// The smaller, or NaN if either is.
    fn min(self, other: Self) -> Self;
    /// Whether `self` replaces `other` as the larger: it is larger, or NaN and `other` is not.
    fn above(self, other: Self) -> bool;
    /// The same for the smaller.
    fn below(self, other: Self) -> bool;
}

macro_rules! pooled {
    (float $($t:ty, $sum:ty, $widen:expr, $narrow:expr, $lo:expr, $hi:expr;)*) => {$(
        impl Pooled for $t {
            type Sum = $sum;
            const ZERO: $t = <$t as PooledConst>::ZERO;
            const LIMITS: ($t, $t) = ($lo, $hi);
            const IDENTITIES: ($sum, $sum) = (0.0, 1.0);
            #[allow(private_bounds, private_interfaces)]
            fn run<F: Fold<Item = Self>>(out: &mut [Self], work: &Work<'_, F>) {
                fold::vectors(out, work);
            }
            #[inline(always)]
            fn widen(self) -> $sum { $widen(self) }
            #[inline(always)]
            fn narrow(sum: $sum) -> $t { $narrow(sum) }
            #[inline(always)]
            fn add(a: $sum, b: $sum) -> $sum { a + b }
            #[inline(always)]
            fn mul(a: $sum, b: $sum) -> $sum { a * b }
            // Without branches, so that loops over them vectorize.
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                let (a, b): ($sum, $sum) = ($widen(self), $widen(other));
                if (a > b) | a.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                let (a, b): ($sum, $sum) = ($widen(self), $widen(other));
                if (a < b) | a.is_nan() { self } else { other }
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                let (a, b): ($sum, $sum) = ($widen(self), $widen(other));
                (a > b) | (a.is_nan() & !b.is_nan())
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                let (a, b): ($sum, $sum) = ($widen(self), $widen(other));
                (a < b) | (a.is_nan() & !b.is_nan())
            }
        }
    )*};
    (int $($t:ty),*) => {$(
        impl Pooled for $t {
            type Sum = $t;
            const ZERO: $t = 0;
            const LIMITS: ($t, $t) = (<$t>::MIN, <$t>::MAX);
            const IDENTITIES: ($t, $t) = (0, 1);
            #[inline(always)]
            fn widen(self) -> $t { self }
            #[inline(always)]
            fn narrow(sum: $t) -> $t { sum }
            #[inline(always)]
            fn add(a: $t, b: $t) -> $t { a.wrapping_add(b) }
            #[inline(always)]
            fn mul(a: $t, b: $t) -> $t { a.wrapping_mul(b) }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self.above(other) { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self.below(other) { self } else { other }
            }
            #[inline(always)]
            fn above(self, other: Self) -> bool { self > other }
            #[inline(always)]
            fn below(self, other: Self) -> bool { self < other }
        }
    )*};
    (complex $($t:ty),*) => {$(
        impl Pooled for Complex<$t> {
            type Sum = Self;
            const ZERO: Self = Complex::new(0.0, 0.0);
            const LIMITS: (Self, Self) = (
                Complex::new(<$t>::NEG_INFINITY, <$t>::NEG_INFINITY),
                Complex::new(<$t>::INFINITY, <$t>::INFINITY),
            );
            const IDENTITIES: (Self, Self) = (Complex::new(0.0, 0.0), Complex::new(1.0, 0.0));
            #[inline(always)]
            fn widen(self) -> Self { self }
            #[inline(always)]
            fn narrow(sum: Self) -> Self { sum }
            #[inline(always)]
            fn add(a: Self, b: Self) -> Self { a + b }
            #[inline(always)]
            fn mul(a: Self, b: Self) -> Self { a * b }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                if self.above(other) { self } else { other }
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                if self.below(other) { self } else { other }
            }
            // By real part, then imaginary part, as numpy orders complex numbers.
            #[inline(always)]
            fn above(self, other: Self) -> bool {
                let nan = self.is_nan() & !other.is_nan();
                nan || self.re > other.re || (self.re == other.re && self.im > other.im)
            }
            #[inline(always)]
            fn below(self, other: Self) -> bool {
                let nan = self.is_nan() & !other.is_nan();
                nan || self.re < other.re || (self.re == other.re && self.im < other.im)
            }
        }
    )*};
}

/// Zero as a constant, under one name for built-in and half-precision floats.
trait PooledConst {
    const ZERO: Self;
}
impl PooledConst for f32 {
    const ZERO: f32 = 0.0;
}
impl PooledConst for f64 {
    const ZERO: f64 = 0.0;
}
impl PooledConst for f16 {
    const ZERO: f16 = f16::ZERO;
}
impl PooledConst for bf16 {
    const ZERO: bf16 = bf16::ZERO;
}

pooled! { float
    f32, f32, |x| x, |x| x, f32::NEG_INFINITY, f32::INFINITY;
    f64, f64, |x| x, |x| x, f64::NEG_INFINITY, f64::INFINITY;
    f16, f32, f16_to_f32, f32_to_f16, f16::NEG_INFINITY, f16::INFINITY;
    bf16, f32, bf16_to_f32, f32_to_bf16, bf16::NEG_INFINITY, bf16::INFINITY;
}
pooled! { int i8, i16, i32, i64, u8, u16, u32, u64 }
pooled! { complex f32, f64 }

impl Pooled for bool {
    type Sum = bool;
    const ZERO: bool = false;
    const LIMITS: (bool, bool) = (false, true);
    const IDENTITIES: (bool, bool) = (false, true);
    #[inline(always)]
    fn widen(self) -> bool {
        self
    }
    #[inline(always)]
    fn narrow(sum: bool) -> bool {
        sum
    }
    #[inline(always)]
    fn add(a: bool, b: bool) -> bool {
        a | b
    }
    #[inline(always)]
    fn mul(a: bool, b: bool) -> bool {
        a & b
    }
    #[inline(always)]
    fn max(self, other: bool) -> bool {
        self | other
    }
    #[inline(always)]
    fn min(self, other: bool) -> bool {
        self & other
    }
    #[inline(always)]
    fn above(self, other: bool) -> bool {
        self & !other
    }
    #[inline(always)]
    fn below(self, other: bool) -> bool {
        !self & other
    }
}

/// Declares the folds: a marker type each, so that every loop is compiled for its own.
macro_rules! folds {
    ($($name:ident: $sum:ty, $start:expr, |$s:ident, $x:ident| $fold:expr, $finish:expr;)*) => {$(
        struct $name<T>(PhantomData<T>);
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self { *self }
        }
        impl<T> Copy for $name<T> {}
        impl<T: Pooled> Fold for $name<T> {
            type Item = T;
            type Sum = $sum;
            const TAPS: bool = false;
            fn run(out: &mut [T], work: &Work<'_, Self>) {
                T::run(out, work);
            }
            #[inline(always)]
            fn start() -> $sum { $start }
            #[inline(always)]
            fn fold($s: $sum, $x: T, _: $sum) -> $sum { $fold }
            #[inline(always)]
            fn finish(sum: $sum) -> T { $finish(sum) }
        }
    )*};
}
folds! {
    Sum: T::Sum, T::IDENTITIES.0, |s, x| T::add(s, x.widen()), T::narrow;
    Prod: T::Sum, T::IDENTITIES.1, |s, x| T::mul(s, x.widen()), T::narrow;
    Max: T, T::LIMITS.0, |s, x| x.max(s), |x| x;
    Min: T, T::LIMITS.1, |s, x| x.min(s), |x| x;
}

/// The loops over `axes`, whose arrays begin at these offsets.
fn loops(input: usize, output: usize, axes: &[WindowAxis]) -> WindowLoops {
    let mut stride: usize = axes.iter().map(|axis| axis.window).product();
    let axes = axes.iter().map(|axis| {
        stride /= axis.window.max(1);
        let size = axis.step.output_size(axis.input.size, axis.window);
        assert!(size == axis.output.size, "reduce_window: sizes do not fit");
        LoopAxis {
            cut: PhasedAxis::spatial(&Dim {
                out: axis.output,
                lhs: axis.input,
                rhs: Axis {
                    size: axis.window,
                    stride: 0,
                },
                step: axis.step.stride,
                spread: axis.step.rhs_dilation,
                dilation: axis.step.lhs_dilation,
                lo: axis.step.lo,
            }),
            // Numbers the elements of a window in row-major order, for callers that need it.
            tap: stride,
            position: 0,
        }
    });
    WindowLoops::new(input as isize, output as isize, axes)
}

/// Folds every window of `input` to one element of `out`. Both come with the offset of their first element; `out` must
/// not have broadcast axes.
pub fn reduce_window<T: Pooled>(
    out: (&mut [T], usize),
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
) {
    let loops = loops(input.1, out.1, axes);
    match reduction {
        Reduction::Sum => loops.run::<Sum<T>>(out.0, input.0, &[], PARALLEL),
        Reduction::Prod => loops.run::<Prod<T>>(out.0, input.0, &[], PARALLEL),
        Reduction::Max => loops.run::<Max<T>>(out.0, input.0, &[], PARALLEL),
        Reduction::Min => loops.run::<Min<T>>(out.0, input.0, &[], PARALLEL),
    }
}

#[cfg(test)]
mod tests;
