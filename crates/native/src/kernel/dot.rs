//! Matmul: batched, over operands with any strides, for every dtype.
//!
//! f32 runs on our own packed GEMM (`gemm_f32`), because the crate `gemm` packs more and cannot use our tasks. f64,
//! complex pairs and matmuls too small for tiles run on that crate. Half-precision operands are widened panel by panel,
//! accumulated in f32 and rounded once (bf16 without widening if the CPU has an instruction for it: `gemm_bf16`).
//! Integers wrap and booleans are an `or` of `and`s, by a blocked loop. The result is contiguous. Contractions over
//! several axes are reduced by the caller: here an operand has a batch, one row axis and one column axis.
//!
//! Work is divided by sizes alone, and `gemm` sums each element in one order on any number of threads, so results are
//! bit-identical for any number of threads.

use half::{bf16, f16};
use num_complex::Complex;

use crate::element::Stored;
use crate::memory::Scratch;
use crate::parallel;
use crate::simd::{self, Strides, multiversion};

mod gemm_bf16;
mod gemm_f32;

pub use gemm_f32::fits as uses_packed_panels;

/// MACs below which a second thread does not pay.
const PARALLEL: usize = 1 << 20;

/// MACs per task when a batch is divided.
const TASK_MACS: usize = 1 << 18;

/// The sizes of a batched matmul: each of `batch` an `m` by `k` matrix times a `k` by `n` one.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'a> {
    /// Batch axes, outermost first; empty for a single matmul.
    pub batch: &'a [usize],
    /// Rows of the left operand and the result.
    pub m: usize,
    /// Columns of the right operand and the result.
    pub n: usize,
    /// The contracted size.
    pub k: usize,
}

/// A strided operand.
#[derive(Clone, Copy, Debug)]
pub struct Operand<'a, T> {
    /// All of its storage.
    pub data: &'a [T],
    /// The first matrix.
    pub matrix: Strides,
    /// One stride per batch axis.
    pub batch: &'a [isize],
}

impl<'a, T> Operand<'a, T> {
    /// The `index`-th matrix of the batch.
    fn at(&self, sizes: &[usize], mut index: usize) -> (&'a [T], Strides) {
        let mut offset = self.matrix.offset as isize;
        for (&size, &stride) in sizes.iter().zip(self.batch).rev() {
            offset += (index % size) as isize * stride;
            index /= size;
        }
        // A negative sum is invalid; the bounds check of the kernel refuses this value.
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        (
            self.data,
            Strides {
                offset,
                ..self.matrix
            },
        )
    }
}

/// Types that can be multiplied as matrices.
pub trait Dot: Copy + Send + Sync + 'static {
    /// `dst = lhs · rhs` for one matrix of shape `m, n, k`, contiguous `dst`, on `threads` threads.
    #[doc(hidden)]
    fn gemm(
        shape: [usize; 3],
        dst: &mut [Self],
        lhs: (&[Self], Strides),
        rhs: (&[Self], Strides),
        threads: usize,
    );
}

/// `dst[b, i, j] = Σ_k lhs[b, i, k] · rhs[b, k, j]`; zeros where `k` is 0.
pub fn matmul<T: Dot>(dst: &mut [T], sizes: Sizes<'_>, lhs: Operand<'_, T>, rhs: Operand<'_, T>) {
    let Sizes { batch, m, n, k } = sizes;
    let count: usize = batch.iter().product();
    assert!(
        dst.len() == count * m * n,
        "matmul: the result has another size"
    );
    assert!(lhs.batch.len() == batch.len() && rhs.batch.len() == batch.len());
    let (size, macs) = (m * n, m.saturating_mul(n).saturating_mul(k.max(1)));
    if count == 0 || size == 0 {
        return;
    }
    if macs >= PARALLEL {
        let threads = parallel::threads();
        for (index, dst) in dst.chunks_mut(size).enumerate() {
            large(
                [m, n, k],
                dst,
                lhs.at(batch, index),
                rhs.at(batch, index),
                threads,
            );
        }
        return;
    }
    let step = if macs.saturating_mul(count) < PARALLEL {
        count
    } else {
        TASK_MACS.div_ceil(macs)
    };
    parallel::for_chunks_mut(dst, step * size, |start, dst| {
        for (i, dst) in dst.chunks_mut(size).enumerate() {
            let index = start / size + i;
            T::gemm(
                [m, n, k],
                dst,
                lhs.at(batch, index),
                rhs.at(batch, index),
                1,
            );
        }
    });
}

/// One matmul that is worth several threads.
fn large<T: Dot>(
    [m, n, k]: [usize; 3],
    dst: &mut [T],
    lhs: (&[T], Strides),
    rhs: (&[T], Strides),
    threads: usize,
) {
    // Nearly a GEMV: reading the matrix dominates, and `gemm` does not divide that.
    if n <= 4 {
        let rows = (TASK_MACS / (n * k.max(1))).max(1);
        return parallel::for_chunks_mut(dst, rows * n, |start, dst| {
            let lhs = (lhs.0, shifted(lhs.1, start / n, 0));
            T::gemm([dst.len() / n, n, k], dst, lhs, rhs, 1);
        });
    }
    if m == 1 {
        let columns = (TASK_MACS / k.max(1)).max(16);
        return parallel::for_chunks_mut(dst, columns, |start, dst| {
            let rhs = (rhs.0, shifted(rhs.1, 0, start));
            T::gemm([1, dst.len(), k], dst, lhs, rhs, 1);
        });
    }
    T::gemm([m, n, k], dst, lhs, rhs, threads);
}

/// The same matrix from element `(i, j)` on.
fn shifted(strides: Strides, i: usize, j: usize) -> Strides {
    let offset = strides.offset as isize + i as isize * strides.row + j as isize * strides.col;
    Strides {
        offset: usize::try_from(offset).unwrap_or(usize::MAX),
        ..strides
    }
}

/// A contiguous matrix of `n` columns at the start of a slice.
pub(crate) fn contiguous(n: usize) -> Strides {
    Strides {
        offset: 0,
        row: n as isize,
        col: 1,
    }
}

macro_rules! dot_by_gemm {
    ($($t:ty),*) => {$(
        impl Dot for $t {
            fn gemm(
                shape: [usize; 3],
                dst: &mut [Self],
                lhs: (&[Self], Strides),
                rhs: (&[Self], Strides),
                threads: usize,
            ) {
                simd::gemm(shape, (dst, contiguous(shape[1])), lhs, rhs, false, threads);
            }
        }
    )*};
}
dot_by_gemm!(f64, Complex<f32>, Complex<f64>);

impl Dot for f32 {
    fn gemm(
        shape: [usize; 3],
        dst: &mut [Self],
        lhs: (&[Self], Strides),
        rhs: (&[Self], Strides),
        threads: usize,
    ) {
        gemm_f32(shape, dst, lhs, rhs, false, threads);
    }
}

/// `dst (+)= lhs · rhs`, contiguous `dst`: by our own packed GEMM if it applies.
pub fn gemm_f32(
    shape: [usize; 3],
    dst: &mut [f32],
    lhs: (&[f32], Strides),
    rhs: (&[f32], Strides),
    accumulate: bool,
    threads: usize,
) {
    if let Some(tiles) = gemm_f32::tile_shape(shape) {
        return gemm_f32::run(tiles, shape, dst, lhs, rhs, accumulate, threads);
    }
    simd::gemm(
        shape,
        (dst, contiguous(shape[1])),
        lhs,
        rhs,
        accumulate,
        threads,
    );
}

/// Rows, columns and depth of the f32 panels that half-precision operands are widened to: 4 + 4 + 4 MiB.
const PANEL: [usize; 3] = [512, 2048, 512];

macro_rules! dot_by_widening {
    ($($t:ty, $own:expr;)*) => {$(
        impl Dot for $t {
            fn gemm(
                [m, n, k]: [usize; 3],
                dst: &mut [Self],
                lhs: (&[Self], Strides),
                rhs: (&[Self], Strides),
                threads: usize,
            ) {
                let own: fn([usize; 3], &mut [Self], (&[Self], Strides), (&[Self], Strides), usize) -> bool = $own;
                if own([m, n, k], dst, lhs, rhs, threads) {
                    return;
                }
                let [mb, nb, kb] = [m.min(PANEL[0]), n.min(PANEL[1]), k.min(PANEL[2])];
                let mut sums = Scratch::<f32>::unzeroed(mb * nb);
                let (mut left, mut right) = (Scratch::<f32>::unzeroed(mb * kb), Scratch::<f32>::unzeroed(kb * nb));
                for j in (0..n).step_by(nb) {
                    let nb = nb.min(n - j);
                    for i in (0..m).step_by(mb) {
                        let mb = mb.min(m - i);
                        if k == 0 {
                            sums.fill(0.0);
                        }
                        for p in (0..k).step_by(kb.max(1)) {
                            let kb = kb.min(k - p);
                            widen(&mut left[..mb * kb], kb, lhs.0, shifted(lhs.1, i, p), threads);
                            widen(&mut right[..kb * nb], nb, rhs.0, shifted(rhs.1, p, j), threads);
                            gemm_f32(
                                [mb, nb, kb],
                                &mut sums[..mb * nb],
                                (&left, contiguous(kb)),
                                (&right, contiguous(nb)),
                                p > 0,
                                threads,
                            );
                        }
                        let rows = if threads > 1 { CONVERTED } else { mb };
                        let sums = &sums;
                        let dst = &mut dst[i * n..(i + mb) * n];
                        parallel::for_chunks_mut(dst, rows * n, |start, dst| {
                            let sums = sums[start / n * nb..].chunks_exact(nb);
                            for (dst, sums) in dst.chunks_exact_mut(n).zip(sums) {
                                Self::narrow(sums, &mut dst[j..j + nb]);
                            }
                        });
                    }
                }
            }
        }
    )*};
}
dot_by_widening! {
    f16, |_, _, _, _, _| false;
    bf16, |shape, dst, lhs, rhs, threads| {
        let fits = simd::prefers_bf16_dot() && gemm_bf16::fits(shape);
        if fits {
            gemm_bf16::run(shape, dst, lhs, rhs, threads);
        }
        fits
    };
}

/// Rows of a matrix that one task converts.
const CONVERTED: usize = 32;

/// Copies a matrix of so many columns to contiguous storage in f32, on `threads` threads.
fn widen<S: Stored<Wide = f32> + Into<f32>>(
    out: &mut [f32],
    columns: usize,
    data: &[S],
    from: Strides,
    threads: usize,
) {
    if out.is_empty() {
        return;
    }
    let rows = if threads > 1 {
        CONVERTED
    } else {
        out.len() / columns
    };
    parallel::for_chunks_mut(out, rows * columns, |start, out| {
        let from = shifted(from, start / columns, 0);
        if from.col != 1 {
            return gather(out, out.len() / columns, data, from, Into::into);
        }
        for (i, out) in out.chunks_mut(columns).enumerate() {
            let start = (from.offset as isize + i as isize * from.row) as usize;
            S::widen(&data[start..start + columns], out);
        }
    });
}

/// Copies a matrix of so many rows to contiguous storage, converting each element.
fn gather<S: Copy, T>(
    out: &mut [T],
    rows: usize,
    data: &[S],
    from: Strides,
    convert: impl Fn(S) -> T,
) {
    if rows == 0 || out.is_empty() {
        return;
    }
    let columns = out.len() / rows;
    for (i, out) in out.chunks_mut(columns).enumerate() {
        let start = from.offset as isize + i as isize * from.row;
        if from.col == 1 {
            let start = start as usize;
            for (out, &x) in out.iter_mut().zip(&data[start..start + columns]) {
                *out = convert(x);
            }
        } else {
            for (j, out) in out.iter_mut().enumerate() {
                *out = convert(data[(start + j as isize * from.col) as usize]);
            }
        }
    }
}

/// Depth and columns of the panel of the right operand that the exact loop keeps in cache: up to 256 KiB.
const BLOCK: [usize; 2] = [128, 256];

/// Types whose sums are exact in any order, so that blocking may choose the order.
trait Exact: Copy + Default + Send + Sync + 'static {
    fn add_product(self, a: Self, b: Self) -> Self;
}

multiversion! {
    /// `out[j] += Σ_p a[p] · b[p][j]` over rows of `b` as long as `out`.
    fn add_rows[T: Exact](out: &mut [T], a: &[T], b: &[T]) {
        let n = out.len();
        for (&a, b) in a.iter().zip(b.chunks_exact(n)) {
            for (out, &b) in out.iter_mut().zip(b) {
                *out = out.add_product(a, b);
            }
        }
    }
}

/// `dst = lhs · rhs` with a contiguous copy of each block of the operands.
fn exact<T: Exact>(
    [m, n, k]: [usize; 3],
    dst: &mut [T],
    lhs: (&[T], Strides),
    rhs: (&[T], Strides),
) {
    dst.fill(T::default());
    let [kb, nb] = [k.min(BLOCK[0]), n.min(BLOCK[1])];
    if kb == 0 {
        return;
    }
    let (mut row, mut panel) = (vec![T::default(); kb], vec![T::default(); kb * nb]);
    for j in (0..n).step_by(nb) {
        let nb = nb.min(n - j);
        for p in (0..k).step_by(kb) {
            let kb = kb.min(k - p);
            gather(
                &mut panel[..kb * nb],
                kb,
                rhs.0,
                shifted(rhs.1, p, j),
                |x| x,
            );
            for i in 0..m {
                gather(&mut row[..kb], 1, lhs.0, shifted(lhs.1, i, p), |x| x);
                let start = i * n + j;
                add_rows(&mut dst[start..start + nb], &row[..kb], &panel[..kb * nb]);
            }
        }
    }
}

macro_rules! dot_exactly {
    ($($t:ty: $add_product:expr;)*) => {$(
        impl Exact for $t {
            #[inline(always)]
            fn add_product(self, a: Self, b: Self) -> Self {
                let add_product: fn($t, $t, $t) -> $t = $add_product;
                add_product(self, a, b)
            }
        }
        impl Dot for $t {
            fn gemm(
                [m, n, k]: [usize; 3],
                dst: &mut [Self],
                lhs: (&[Self], Strides),
                rhs: (&[Self], Strides),
                threads: usize,
            ) {
                let rows = if threads > 1 { TASK_MACS.div_ceil(n * k.max(1)) } else { m };
                parallel::for_chunks_mut(dst, rows * n, |start, dst| {
                    let lhs = (lhs.0, shifted(lhs.1, start / n, 0));
                    exact([dst.len() / n, n, k], dst, lhs, rhs);
                });
            }
        }
    )*};
}
dot_exactly! {
    i8: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    i16: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    i32: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    i64: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    u8: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    u16: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    u32: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    u64: |s, a, b| s.wrapping_add(a.wrapping_mul(b));
    bool: |s, a, b| s | (a & b);
}

#[cfg(test)]
mod tests;
