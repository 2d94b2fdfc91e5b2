//! Convolution in any number of dimensions, with strides, padding, dilation of either operand, feature and batch
//! groups, in any layout; and its input and weight gradients.
//!
//! All three are one sum (`Problem`) with the roles of the axes exchanged, so they share their algorithms: GEMM for
//! windows of one element (`pointwise`), implicit GEMM (`implicit_gemm`), the same with the window as the long axis of
//! the contraction (`weight_gradient`), Winograd F(2×2, 3×3) for windows of 3×3, also in volumes (`winograd`), Winograd
//! for 4×4 windows with stride 2 (`winograd_strided`), depthwise kernels (`depthwise_3x3`, `depthwise`,
//! `depthwise_nchw`, `depthwise_weight_gradient`), and direct convolution for all else. None of them unfolds the whole
//! input (im2col): workspaces are bounded by `SLAB` and `PACKED`.
//!
//! The fast algorithms read padding as zeros or not at all, so an infinite filter element may give NaN at a padded
//! border, as it does in XLA.

use half::{bf16, f16};
use num_complex::Complex;
use smallvec::SmallVec;

use crate::kernel::dot;
use crate::simd::{self, Gemm, Tiled};

pub(crate) mod phases;
mod depthwise;
mod depthwise_weight_gradient;
mod tile_positions;
mod winograd_strided;
mod direct;
mod depthwise_nchw;
mod pointwise;
pub(crate) mod problem;
mod blocking;
mod depthwise_3x3;
mod staging_buffer;
mod reduce_tasks;
mod implicit_gemm;
mod weight_gradient;
mod winograd;

#[cfg(test)]
pub use direct::conv_naive;
use problem::Problem;

/// Elements of the input that one task copies at a time: they stay in L2.
const SLAB: usize = 1 << 18;

/// Elements of the packed filter or input that are held at a time.
const PACKED: usize = 1 << 22;

/// MACs below which a second thread does not pay.
const PARALLEL: usize = 1 << 20;

/// A small list, on the stack for up to three spatial axes.
pub(crate) type List<T> = SmallVec<[T; 4]>;

/// One axis of an array: its size and stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Number of elements.
    pub size: usize,
    /// Stride in elements.
    pub stride: isize,
}

/// A strided operand, by the roles of its axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// The position of the first element.
    pub offset: usize,
    /// Batch of the input and the output; output features of the filter.
    pub outer: Axis,
    /// Features of the input and the output; input features (of one group) of the filter.
    pub inner: Axis,
    /// The spatial axes, in one order for all three arrays.
    pub spatial: SmallVec<[Axis; 4]>,
}

/// Window parameters of one spatial axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Stride of the window.
    pub stride: usize,
    /// Padding before the first element; negative crops.
    pub lo: isize,
    /// Padding after the last element; negative crops.
    pub hi: isize,
    /// Dilation of the input: the distance between its elements, with zeros in between.
    pub lhs_dilation: usize,
    /// Dilation of the filter.
    pub rhs_dilation: usize,
}

impl Default for Step {
    fn default() -> Self {
        Step {
            stride: 1,
            lo: 0,
            hi: 0,
            lhs_dilation: 1,
            rhs_dilation: 1,
        }
    }
}

impl Step {
    /// The number of windows of `window` elements in `input` elements.
    pub fn output_size(&self, input: usize, window: usize) -> usize {
        let spread = |size: usize, dilation: usize| match size {
            0 => 0,
            _ => ((size - 1) * dilation + 1) as isize,
        };
        let padded = spread(input, self.lhs_dilation) + self.lo + self.hi;
        let window = spread(window, self.rhs_dilation);
        match padded - window {
            space if space < 0 || padded < 0 => 0,
            space => space as usize / self.stride + 1,
        }
    }
}

/// Window parameters and groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// One step per spatial axis.
    pub steps: SmallVec<[Step; 4]>,
    /// The number of feature groups.
    pub feature_groups: usize,
    /// The number of batch groups, each with its own part of the filter.
    pub batch_groups: usize,
}

/// Types that can be convolved.
pub trait Convolved: Copy + Send + Sync + 'static {
    /// Solves `problem` by the best algorithm for the type.
    #[doc(hidden)]
    fn run(out: &mut [Self], lhs: &[Self], rhs: &[Self], problem: &Problem);
}

/// `out[b, o, p] = Σ_{f, t} lhs[b, f, p·stride + t·rhs_dilation - lo] · rhs[o, f, t]`, with zeros between the elements
/// of a dilated `lhs` and outside of it. `out` must not have broadcast axes.
pub fn conv<T: Convolved>(
    out: (&mut [T], &View),
    lhs: (&[T], &View),
    rhs: (&[T], &View),
    window: &Window,
) {
    let problem = Problem::forward(out.1, lhs.1, rhs.1, window);
    T::run(out.0, lhs.0, rhs.0, &problem);
}

/// Input gradient of [`conv`], written to `out` (a view shaped like `lhs`), from `grad` (a view shaped like the forward
/// result) and the forward's filter and window.
#[cfg(test)]
pub fn conv_input_gradient<T: Convolved>(
    out: (&mut [T], &View),
    grad: (&[T], &View),
    rhs: (&[T], &View),
    window: &Window,
) {
    let problem = Problem::input_gradient(out.1, grad.1, rhs.1, window);
    T::run(out.0, grad.0, rhs.0, &problem);
}

/// Weight gradient of [`conv`], written to `out` (a view shaped like `rhs`), from the forward's input, `grad` (a view
/// shaped like the forward result) and the forward's window.
#[cfg(test)]
pub fn conv_weight_gradient<T: Convolved>(
    out: (&mut [T], &View),
    lhs: (&[T], &View),
    grad: (&[T], &View),
    window: &Window,
) {
    let problem = Problem::weight_gradient(out.1, lhs.1, grad.1, window);
    T::run(out.0, lhs.0, grad.0, &problem);
}

/// Real types: stored as themselves, accumulated in f32 or f64.
pub(crate) trait Real: Copy + Send + Sync + 'static {
    /// The accumulator type.
    type Sum: Tiled + num_traits::Float + num_traits::NumAssign;
    fn widen(self) -> Self::Sum;
    fn narrow(sum: Self::Sum) -> Self;
    /// The slice itself if no conversion is needed.
    fn as_sums(slice: &[Self]) -> Option<&[Self::Sum]>;
    /// The same for writing.
    fn as_sums_mut(slice: &mut [Self]) -> Option<&mut [Self::Sum]>;
    /// Runs a problem that is a plain GEMM, or for which only this type has kernels. Returns whether it did.
    fn run_specialized(out: &mut [Self], lhs: &[Self], rhs: &[Self], problem: &Problem) -> bool;
}

macro_rules! real {
    ($($t:ty, $sum:ty, $widen:expr, $narrow:expr, $same:expr, $same_mut:expr, $multiply:expr;)*) => {$(
        impl Real for $t {
            type Sum = $sum;
            #[inline(always)]
            fn widen(self) -> $sum {
                $widen(self)
            }
            #[inline(always)]
            fn narrow(sum: $sum) -> $t {
                $narrow(sum)
            }
            #[inline(always)]
            fn as_sums(slice: &[$t]) -> Option<&[$sum]> {
                $same(slice)
            }
            #[inline(always)]
            fn as_sums_mut(slice: &mut [$t]) -> Option<&mut [$sum]> {
                $same_mut(slice)
            }
            fn run_specialized(out: &mut [$t], lhs: &[$t], rhs: &[$t], problem: &Problem) -> bool {
                $multiply(out, lhs, rhs, problem)
            }
        }
        impl Convolved for $t {
            fn run(out: &mut [$t], lhs: &[$t], rhs: &[$t], problem: &Problem) {
                run_real(out, lhs, rhs, problem);
            }
        }
    )*};
}
real! {
    f32, f32, |x| x, |x| x, Some, Some, specialized_f32;
    f64, f64, |x| x, |x| x, Some, Some, specialized_f64;
    f16, f32, f16::to_f32, f16::from_f32, |_| None, |_| None, |_, _, _, _| false;
    bf16, f32, bf16::to_f32, bf16::from_f32, |_| None, |_| None, |_, _, _, _| false;
}

fn specialized_f32(out: &mut [f32], lhs: &[f32], rhs: &[f32], problem: &Problem) -> bool {
    depthwise_3x3::run(out, lhs, rhs, problem)
        || pointwise::run_rows(out, lhs, rhs, problem)
        || run_pointwise(
            out,
            lhs,
            rhs,
            problem,
            |shape, out, lhs, rhs, accumulate| {
                dot::gemm_f32(shape, out, lhs, rhs, accumulate, 1);
            },
        )
}

fn specialized_f64(out: &mut [f64], lhs: &[f64], rhs: &[f64], problem: &Problem) -> bool {
    run_pointwise(
        out,
        lhs,
        rhs,
        problem,
        |shape, out, lhs, rhs, accumulate| {
            simd::gemm(
                shape,
                (out, dot::contiguous(shape[1])),
                lhs,
                rhs,
                accumulate,
                1,
            );
        },
    )
}

fn run_pointwise<T: Gemm>(
    out: &mut [T],
    lhs: &[T],
    rhs: &[T],
    problem: &Problem,
    gemm: pointwise::GemmFn<T>,
) -> bool {
    let plan = pointwise::plan(problem);
    if let Some(plan) = plan {
        pointwise::run(out, lhs, rhs, problem, plan, gemm);
    }
    plan.is_some()
}

fn run_real<T: Real>(out: &mut [T], lhs: &[T], rhs: &[T], problem: &Problem) {
    if problem.is_empty() {
        direct::run(
            out,
            lhs,
            rhs,
            problem,
            T::Sum::default(),
            |s, _, _| s,
            T::narrow,
        );
    } else if T::run_specialized(out, lhs, rhs, problem) {
        // Done.
    } else if let Some(plan) = problem
        .is_depthwise_weight_gradient()
        .then(|| depthwise_weight_gradient::plan(problem))
        .flatten()
    {
        depthwise_weight_gradient::run(out, lhs, rhs, problem, &plan);
    } else if problem.is_depthwise() && !problem.has_long_window() {
        depthwise::run(out, lhs, rhs, problem);
    } else if let Some(axes) = problem
        .has_long_window()
        .then(|| winograd::fits_weight_gradient::<T>(problem))
        .flatten()
    {
        winograd::run_weight_gradient(out, lhs, rhs, problem, axes);
    } else if problem.has_long_window() && winograd_strided::fits_weight_gradient::<T>(problem) {
        winograd_strided::run_weight_gradient(out, lhs, rhs, problem);
    } else if problem.has_long_window() {
        weight_gradient::run(out, lhs, rhs, problem);
    } else if let Some(axes) = winograd::fits::<T>(problem) {
        winograd::run(out, lhs, rhs, problem, axes);
    } else if winograd_strided::fits::<T>(problem) {
        winograd_strided::run(out, lhs, rhs, problem);
    } else if problem.is_input_dilated() && problem.with_swapped_operands().has_long_window() {
        // The weight gradient of a transposed convolution: its input is dilated, its window is not. If the input were
        // not dilated, the window would cover the whole image.
        let with_swapped_operands = problem.with_swapped_operands();
        match winograd_strided::fits_weight_gradient::<T>(&with_swapped_operands) {
            true => winograd_strided::run_weight_gradient(out, rhs, lhs, &with_swapped_operands),
            false => weight_gradient::run(out, rhs, lhs, &with_swapped_operands),
        }
    } else if implicit_gemm::fits(problem) {
        implicit_gemm::run(out, lhs, rhs, problem);
    } else {
        let add = |sum: T::Sum, a: T, b: T| sum + a.widen() * b.widen();
        direct::run(out, lhs, rhs, problem, T::Sum::default(), add, T::narrow);
    }
}

macro_rules! direct_conv {
    ($($t:ty: $zero:expr, $add_product:expr;)*) => {$(
        impl Convolved for $t {
            fn run(out: &mut [$t], lhs: &[$t], rhs: &[$t], problem: &Problem) {
                direct::run(out, lhs, rhs, problem, $zero, $add_product, |sum| sum);
            }
        }
    )*};
    ($($t:ty),*) => {
        direct_conv! { $($t: 0, |s: $t, a: $t, b: $t| s.wrapping_add(a.wrapping_mul(b));)* }
    };
}
direct_conv!(i8, i16, i32, i64, u8, u16, u32, u64);
direct_conv! {
    bool: false, |s, a, b| s | (a & b);
    Complex<f32>: Complex::new(0.0, 0.0), |s, a, b| s + a * b;
    Complex<f64>: Complex::new(0.0, 0.0), |s, a, b| s + a * b;
}

#[cfg(test)]
mod tests;
