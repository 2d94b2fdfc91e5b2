//! Matrix factorizations and triangular solves.
//!
//! Matrices are contiguous row-major slices; the matrices of a batch are consecutive. The arithmetic is faer's, except
//! for LU, where faer divides by a zero pivot. Owns the choice of threads: a batch is divided among them. A single
//! large matrix runs on several threads in `cholesky`, `lu` and `triangular_solve` only; the other algorithms of faer
//! round differently for every number of threads, and results must not depend on it.
//!
//! A matrix with NaN or infinite entries yields NaN results, not an error, so that one bad matrix does not hide the
//! rest of a batch. The exception is `cholesky`, for which it is one more way of not being positive definite.

mod cholesky;
mod eigen;
mod lu;
mod qr;
mod svd;
mod triangular;

pub use cholesky::cholesky;
pub use eigen::{eig, eigh};
pub use lu::lu;
pub use qr::qr;
pub use svd::svd;
pub use triangular::{Side, Transform, Triangle, triangular_solve};

use crate::math::complex;
use crate::parallel;
use faer::traits::{ComplexField, RealField};
use faer::{Mat, Par};
use num_complex::Complex;
use num_traits::Float;
use std::fmt;

/// Errors of a factorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinalgError {
    /// The leading block up to and including `pivot` is not positive definite.
    NotPositiveDefinite {
        /// The matrix within the batch.
        batch: usize,
        /// Row of the first pivot that is not positive, from 0.
        pivot: usize,
    },
    /// An iteration did not converge.
    NoConvergence {
        /// The factorization.
        op: &'static str,
        /// The matrix within the batch.
        batch: usize,
    },
    /// The length of a slice does not match its sizes.
    Length {
        /// The operation.
        op: &'static str,
        /// Which of its operands.
        operand: &'static str,
        /// The length that the sizes require.
        expected: usize,
        /// The length of the slice.
        found: usize,
    },
    /// No memory for a workspace.
    Memory {
        /// The operation.
        op: &'static str,
        /// Bytes requested.
        bytes: usize,
    },
}

impl fmt::Display for LinalgError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The same text in every backend; others do not know the matrix and the pivot.
            Self::NotPositiveDefinite { .. } => {
                f.write_str("cholesky: the matrix is not positive definite")
            }
            Self::NoConvergence { op, batch } => {
                write!(f, "{op}: the iteration for matrix {batch} did not converge")
            }
            Self::Length {
                op,
                operand,
                expected,
                found,
            } => {
                write!(
                    f,
                    "{op}: {operand} has {found} elements, its sizes ask for {expected}"
                )
            }
            Self::Memory { op, bytes } => {
                write!(f, "{op}: no memory for a workspace of {bytes} bytes")
            }
        }
    }
}

impl std::error::Error for LinalgError {}

/// The real type of a [`Scalar`].
pub trait Part: RealField + Float + Send + Sync + 'static {}
impl Part for f32 {}
impl Part for f64 {}

/// Matrix element types: `f32`, `f64`, `Complex<f32>`, `Complex<f64>`.
pub trait Scalar:
    ComplexField<Real = Self::Part> + num_traits::Num + Copy + Send + Sync + 'static + eigen::Eigen
{
    /// Type of absolute values.
    type Part: Part;
    /// Complex conjugate.
    fn conjugate(self) -> Self;
    /// Real part.
    fn real_part(self) -> Self::Part;
    /// Absolute value.
    fn magnitude(self) -> Self::Part;
    /// `|re| + |im|`: cheaper than the magnitude and as good for choosing a pivot.
    fn pivot_size(self) -> Self::Part;
    /// Product with a real number.
    fn scaled(self, factor: Self::Part) -> Self;
    /// Quotient without intermediate overflow.
    fn over(self, divisor: Self) -> Self;
    /// Neither NaN nor infinite.
    fn finite(self) -> bool;
    /// NaN in every part.
    fn undefined() -> Self;
}

macro_rules! real_scalar {
    ($t:ty) => {
        impl Scalar for $t {
            type Part = $t;
            #[inline(always)]
            fn conjugate(self) -> Self {
                self
            }
            #[inline(always)]
            fn real_part(self) -> $t {
                self
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                Float::abs(self)
            }
            #[inline(always)]
            fn pivot_size(self) -> $t {
                Float::abs(self)
            }
            #[inline(always)]
            fn scaled(self, factor: $t) -> Self {
                self * factor
            }
            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                self / divisor
            }
            #[inline(always)]
            fn finite(self) -> bool {
                Float::is_finite(self)
            }
            #[inline(always)]
            fn undefined() -> Self {
                <$t>::NAN
            }
        }

        impl Scalar for Complex<$t> {
            type Part = $t;
            #[inline(always)]
            fn conjugate(self) -> Self {
                Complex::new(self.re, -self.im)
            }
            #[inline(always)]
            fn real_part(self) -> $t {
                self.re
            }
            #[inline(always)]
            fn magnitude(self) -> $t {
                complex::abs(self)
            }
            #[inline(always)]
            fn pivot_size(self) -> $t {
                Float::abs(self.re) + Float::abs(self.im)
            }
            #[inline(always)]
            fn scaled(self, factor: $t) -> Self {
                Complex::new(self.re * factor, self.im * factor)
            }
            #[inline(always)]
            fn over(self, divisor: Self) -> Self {
                complex::divide(self, divisor)
            }
            #[inline(always)]
            fn finite(self) -> bool {
                complex::isfinite(self)
            }
            #[inline(always)]
            fn undefined() -> Self {
                Complex::new(<$t>::NAN, <$t>::NAN)
            }
        }
    };
}

real_scalar!(f32);
real_scalar!(f64);

/// Entries from which a single matrix is worth several threads: below, faer's threads cost more than they gain, on a
/// busy machine by far.
const LARGE: usize = 512 * 512;

/// Multiplications from which dividing a batch pays.
const WORTH_DIVIDING: usize = 1 << 18;

/// Runs `f` on every item of a batch, each a matrix of `rows` by `columns`. Reports the failure of the first matrix
/// that has one.
fn over_batch<I: Send>(
    items: Vec<I>,
    (rows, columns): (usize, usize),
    f: impl Fn(usize, I, Par) -> Result<(), LinalgError> + Sync,
) -> Result<(), LinalgError> {
    let size = rows.saturating_mul(columns);
    let work = size
        .saturating_mul(rows.min(columns))
        .saturating_mul(items.len());
    if items.len() > 1 && work >= WORTH_DIVIDING {
        let each = (WORTH_DIVIDING / 8 * items.len()).div_ceil(work);
        let slots = items.into_iter().map(|item| (Some(item), Ok(())));
        let mut slots: Vec<_> = slots.collect();
        parallel::for_chunks_mut(&mut slots, each, |first, slots| {
            for (batch, (item, done)) in (first..).zip(slots) {
                if let Some(item) = item.take() {
                    *done = f(batch, item, Par::Seq);
                }
            }
        });
        return slots.into_iter().try_for_each(|(_, done)| done);
    }
    let par = if size >= LARGE {
        Par::rayon(0)
    } else {
        Par::Seq
    };
    items
        .into_iter()
        .enumerate()
        .try_for_each(|(batch, item)| f(batch, item, par))
}

/// `count` consecutive pieces of `size` elements; unlike `chunks`, also of none.
fn pieces<T>(data: &[T], count: usize, size: usize) -> impl Iterator<Item = &[T]> {
    (0..count).map(move |i| data.get(i * size..(i + 1) * size).unwrap_or(&[]))
}

/// [`pieces`] for writing.
fn pieces_mut<T>(data: &mut [T], count: usize, size: usize) -> impl Iterator<Item = &mut [T]> {
    let mut rest = data;
    (0..count).map(move |_| {
        let (piece, tail) = std::mem::take(&mut rest)
            .split_at_mut_checked(size)
            .unwrap_or_default();
        rest = tail;
        piece
    })
}

/// Checks the length of an operand; the sizes may overflow.
fn check(
    op: &'static str,
    operand: &'static str,
    found: usize,
    sizes: &[usize],
) -> Result<(), LinalgError> {
    let expected = sizes
        .iter()
        .try_fold(1usize, |product, &size| product.checked_mul(size));
    match expected {
        Some(expected) if expected == found => Ok(()),
        _ => Err(LinalgError::Length {
            op,
            operand,
            expected: expected.unwrap_or(usize::MAX),
            found,
        }),
    }
}

/// A workspace of the size that faer requires.
fn workspace(
    op: &'static str,
    need: faer::dyn_stack::StackReq,
) -> Result<faer::dyn_stack::MemBuffer, LinalgError> {
    let bytes = need.unaligned_bytes_required();
    faer::dyn_stack::MemBuffer::try_new(need).map_err(|_| LinalgError::Memory { op, bytes })
}

/// A row-major matrix as a column-major copy, which is the fastest layout for faer.
fn load<T: Scalar>(a: &[T], rows: usize, columns: usize) -> Mat<T> {
    Mat::from_fn(rows, columns, |i, j| a[i * columns + j])
}

/// Writes the upper left part of `from` to a row-major slice.
fn store<T: Scalar>(from: faer::MatRef<'_, T>, to: &mut [T], columns: usize) {
    for (i, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            *x = from[(i, j)];
        }
    }
}

/// Ones on the diagonal, zeros elsewhere.
fn store_identity<T: Scalar>(to: &mut [T], columns: usize) {
    for (i, row) in to.chunks_exact_mut(columns.max(1)).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            *x = if i == j { T::one() } else { T::zero() };
        }
    }
}

/// A power of two that brings the entries near 1, if they are so large or small that their squares overflow or
/// underflow; 1 if not, `None` if some are not finite.
fn safe_scale<T: Scalar>(entries: impl Iterator<Item = T>) -> Option<T::Part> {
    let mut largest = <T::Part as num_traits::Zero>::zero();
    let mut finite = true;
    for x in entries {
        finite &= x.finite();
        largest = Float::max(largest, x.pivot_size());
    }
    if !finite {
        return None;
    }
    let one = <T::Part as num_traits::One>::one();
    let fourth_root = |x: T::Part| Float::sqrt(Float::sqrt(x));
    let (low, high) = (
        fourth_root(<T::Part as Float>::min_positive_value()),
        fourth_root(<T::Part as Float>::max_value()),
    );
    if largest == <T::Part as num_traits::Zero>::zero() || (largest > low && largest < high) {
        return Some(one);
    }
    // A sum of two parts may overflow where each does not.
    let largest = Float::min(largest, <T::Part as Float>::max_value());
    // Entries below the smallest normal number would require a power beyond the largest one.
    let most = Float::recip(<T::Part as Float>::min_positive_value());
    let scale = Float::exp2(-Float::floor(Float::log2(largest)));
    Some(Float::min(scale, most))
}

#[cfg(test)]
mod tests;
