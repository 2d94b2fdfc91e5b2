//! The convolution micro-kernel: register tiles whose rows are given by offsets. Convolutions and skinny GEMMs use it.
#![allow(unsafe_code)]
// Other CPUs have no such tiles.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]
// Counted loops: an iterator that some build does not inline is a call inside of the innermost loop, which took three
// times as long.
#![allow(clippy::needless_range_loop)]

use super::gemm_kernel::prefetch_line;
use super::{Level, level};

/// A range of the contraction along which both operands advance by a constant step.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// Added to each row's offset in the left operand.
    pub a: usize,
    /// The start of the range in the right operand.
    pub b: usize,
    /// The number of MACs per element.
    pub len: usize,
}

/// `out[i][j] (+)= Σ_segments Σ_k a[rows[i] + segment.a + k·a_step] · b[segment.b + k·b_step + j]`
///
/// The common form of all convolutions: rows need not be evenly spaced and the contraction may jump, so neither operand
/// has to be unfolded (im2col) first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileJob<'a, T> {
    pub a: &'a [T],
    pub rows: TileRows<'a>,
    pub a_step: usize,
    pub b: &'a [T],
    pub b_step: usize,
    pub segments: &'a [Segment],
    /// Whether `out` holds partial sums to add to.
    pub accumulate: bool,
    /// The row stride of `out`: at least the row width.
    pub out_step: usize,
}

/// Where the rows of a tile begin in the left operand.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TileRows<'a> {
    /// The first row, and the row stride.
    Uniform(usize, usize),
    /// One offset per row: exactly [`TileShape::rows`] of them.
    Listed(&'a [usize]),
}

impl<'a> TileRows<'a> {
    /// Listed rows, in the representation that is faster for them.
    pub fn new(rows: &'a [usize]) -> Self {
        match uniform_step(rows) {
            Some(row_stride) => TileRows::Uniform(rows[0], row_stride),
            None => TileRows::Listed(rows),
        }
    }

    #[inline(always)]
    fn at(&self, i: usize) -> usize {
        match self {
            TileRows::Uniform(first, row_stride) => first + i * row_stride,
            TileRows::Listed(rows) => rows[i],
        }
    }
}

/// The stride of these offsets, if it is constant; there are at least two.
pub(crate) fn uniform_step(offsets: &[usize]) -> Option<usize> {
    let (first, rest) = offsets.split_first()?;
    let step = rest.first()?.checked_sub(*first)?;
    let mut even = true;
    for i in 1..offsets.len() {
        even &= offsets[i].wrapping_sub(offsets[i - 1]) == step;
    }
    even.then_some(step)
}

/// Rows and columns of a register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TileShape {
    pub rows: usize,
    pub columns: usize,
}

/// Types with register tiles.
pub(crate) trait Tiled: bytemuck::Pod + Send + Sync + Default {
    /// The best shape on this machine for a result of so many columns, whose rows are evenly spaced in runs of `run`.
    fn tile_shape(columns: usize, run: usize) -> TileShape;

    /// Runs `job` on a `shape` that [`Tiled::tile_shape`] gave. Evenly spaced rows are faster: a pointer per row does
    /// not fit in registers.
    fn tile(shape: TileShape, job: &TileJob<'_, Self>, out: &mut [Self]);

    /// Transposes a square of `TRANSPOSE_SIZE`: `to[j][i] = from[i][j]`; each slice comes with its row stride.
    fn transpose16(from: (&[Self], usize), to: (&mut [Self], usize));
}

/// The shape for a result of few rows, all evenly spaced. They may leave much of the last tile empty, which a shape
/// with fewer columns and more rows does not.
pub(crate) fn fitting_shape<T: Tiled>(rows: usize, columns: usize) -> TileShape {
    let [wide, tall] = [columns, 1].map(|columns| T::tile_shape(columns, rows));
    let wasted = |shape: TileShape| rows.next_multiple_of(shape.rows) - rows;
    if wasted(wide) > rows / 32 && wasted(tall) == 0 {
        tall
    } else {
        wide
    }
}

/// Panics unless all reads and writes of `job` are in bounds: the kernels below do not check again. Returns the row
/// stride in bytes, if it is constant.
fn check_tile<T>(shape: TileShape, job: &TileJob<'_, T>, out: &[T]) -> Option<usize> {
    assert!(shape.rows > 1 && job.out_step >= shape.columns);
    assert!(out.len() >= (shape.rows - 1) * job.out_step + shape.columns);
    let (last_row, row_stride) = match job.rows {
        TileRows::Uniform(first, row_stride) => {
            let last = row_stride.saturating_mul(shape.rows - 1);
            (first.saturating_add(last), Some(row_stride))
        }
        TileRows::Listed(rows) => {
            assert!(rows.len() == shape.rows);
            (rows.iter().copied().max().unwrap_or(0), None)
        }
    };
    let (mut a_end, mut b_end) = (0, 0);
    for segment in job.segments.iter().filter(|segment| segment.len > 0) {
        a_end = a_end.max(segment.a + (segment.len - 1) * job.a_step + 1);
        b_end = b_end.max(segment.b + (segment.len - 1) * job.b_step + shape.columns);
    }
    let reached = last_row.saturating_add(a_end);
    assert!((a_end == 0 || reached <= job.a.len()) && b_end <= job.b.len());
    row_stride.map(|row_stride| row_stride * size_of::<T>())
}

/// One vector register.
///
/// # Safety
/// All methods need the CPU features of the implementing type; `load` and `store` need
/// `LANES` elements and `splat` one element behind the pointer.
pub(super) trait Vector: Copy {
    type Element: Copy;
    const LANES: usize;
    unsafe fn zero() -> Self;
    unsafe fn splat(from: *const Self::Element) -> Self;
    unsafe fn load(from: *const Self::Element) -> Self;
    unsafe fn store(self, to: *mut Self::Element);
    unsafe fn add(self, other: Self) -> Self;
    /// `self + a · b`
    unsafe fn mul_add(self, a: Self, b: Self) -> Self;
}

/// # Safety
/// `check_tile` has passed for `ROWS` rows and `VECTORS · LANES` columns, and the CPU has the
/// features of `V`.
#[inline(always)]
unsafe fn tile_body<V: Vector, const ROWS: usize, const VECTORS: usize>(
    job: &TileJob<'_, V::Element>,
    out: *mut V::Element,
) {
    // SAFETY: the offsets below are those whose largest values `check_tile` has compared with the lengths; the features
    // are the caller's promise.
    unsafe {
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        let mut starts = [job.a.as_ptr(); ROWS];
        // Whether `out` holds sums already, and how many MACs the registers hold.
        let (mut accumulate, mut held) = (job.accumulate, 0);
        for segment in job.segments {
            for i in 0..ROWS {
                starts[i] = job.a.as_ptr().wrapping_add(job.rows.at(i) + segment.a);
            }
            let mut b = job.b.as_ptr().wrapping_add(segment.b);
            let mut k = 0;
            while k < segment.len {
                let end = segment.len.min(k + MAX_PARTIAL - held);
                held += end - k;
                // Four at a time where the left operand is contiguous: the row pointers do not fit in registers, and
                // this way each is loaded once per four MACs.
                if job.a_step == 1 {
                    while k + 4 <= end {
                        for i in 0..4 {
                            step::<V, ROWS, VECTORS>(&mut sums, &starts, k + i, b);
                            b = b.wrapping_add(job.b_step);
                        }
                        k += 4;
                    }
                }
                while k < end {
                    step::<V, ROWS, VECTORS>(&mut sums, &starts, k * job.a_step, b);
                    b = b.wrapping_add(job.b_step);
                    k += 1;
                }
                if held == MAX_PARTIAL {
                    put::<V, ROWS, VECTORS>(&mut sums, out, job.out_step, accumulate);
                    (accumulate, held) = (true, 0);
                }
            }
        }
        if held > 0 || !accumulate {
            put::<V, ROWS, VECTORS>(&mut sums, out, job.out_step, accumulate);
        }
    }
}

/// Prefetch distance in steps of the contraction: the right operand comes from L2.
const PREFETCH_DISTANCE: usize = 8;

/// Rows per pointer: the row itself, and those one and two strides further, which one address can encode.
pub(super) const PER_POINTER: usize = 3;

/// Hides the origin of a pointer from the compiler, which would otherwise keep one pointer per row, most of them in
/// memory.
// It takes the pointer itself; nothing is read or written through it.
#[allow(clippy::pointers_in_nomem_asm_block)]
#[inline(always)]
pub(super) fn opaque<T>(pointer: &mut *const T) {
    // SAFETY: no instruction at all; it only claims to have changed the pointer.
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    unsafe {
        std::arch::asm!(
            "/* {0} */",
            inout(reg) * pointer,
            options(nomem, nostack, preserves_flags)
        );
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    let _ = pointer;
}

/// As `tile_body`, for rows with a constant stride of `row_stride` bytes. A separate function: combined with the other, the
/// compiler keeps fewer of the columns in registers. `POINTERS` is `ROWS` by [`PER_POINTER`], rounded up.
///
/// # Safety
/// As `tile_body`.
#[inline(always)]
unsafe fn even_body<V: Vector, const ROWS: usize, const VECTORS: usize, const POINTERS: usize>(
    job: &TileJob<'_, V::Element>,
    row_stride: usize,
    out: *mut V::Element,
) {
    const { assert!(ROWS.div_ceil(PER_POINTER) == POINTERS) };
    // SAFETY: as in `tile_body`; row `i` begins `i · row_stride` bytes behind the first one.
    unsafe {
        let mut sums = [[V::zero(); VECTORS]; ROWS];
        let (mut accumulate, mut held) = (job.accumulate, 0);
        let prefetch_offset = PREFETCH_DISTANCE * job.b_step * size_of::<V::Element>();
        for segment in job.segments {
            let first = job.a.as_ptr().wrapping_add(job.rows.at(0) + segment.a);
            let mut starts = [first; POINTERS];
            for g in 0..POINTERS {
                starts[g] = first.wrapping_byte_add(row_stride.wrapping_mul(PER_POINTER * g));
            }
            let mut b = job.b.as_ptr().wrapping_add(segment.b);
            let mut k = 0;
            while k < segment.len {
                let end = segment.len.min(k + MAX_PARTIAL - held);
                held += end - k;
                while k < end {
                    let mut columns = [V::zero(); VECTORS];
                    for v in 0..VECTORS {
                        columns[v] = V::load(b.add(v * V::LANES));
                        prefetch_line(
                            b.wrapping_byte_add(prefetch_offset)
                                .wrapping_add(v * V::LANES),
                        );
                    }
                    for g in 0..POINTERS {
                        for r in 0..PER_POINTER {
                            let i = g * PER_POINTER + r;
                            if i < ROWS {
                                let a = starts[g].wrapping_byte_add(row_stride.wrapping_mul(r));
                                let a = V::splat(a);
                                for v in 0..VECTORS {
                                    sums[i][v] = sums[i][v].mul_add(a, columns[v]);
                                }
                            }
                        }
                        starts[g] = starts[g].wrapping_add(job.a_step);
                        opaque(&mut starts[g]);
                    }
                    b = b.wrapping_add(job.b_step);
                    k += 1;
                }
                if held == MAX_PARTIAL {
                    put::<V, ROWS, VECTORS>(&mut sums, out, job.out_step, accumulate);
                    (accumulate, held) = (true, 0);
                }
            }
        }
        if held > 0 || !accumulate {
            put::<V, ROWS, VECTORS>(&mut sums, out, job.out_step, accumulate);
        }
    }
}

/// MACs that are summed before they are added to the result. Over the thousands of MACs of a convolution, a single sum
/// would have several times the error (512 channels: 8.0e-7 of the largest result by one sum, 2.2e-7 by sums of 256).
const MAX_PARTIAL: usize = 64;

/// Stores sums in the result, or adds them to it.
///
/// # Safety
/// As `tile_body`.
#[inline(always)]
unsafe fn put<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    out: *mut V::Element,
    out_step: usize,
    accumulate: bool,
) {
    let mut to = out.cast_const();
    for i in 0..ROWS {
        // Otherwise the compiler computes the addresses of all rows in advance, in registers that the loop needs.
        opaque(&mut to);
        for v in 0..VECTORS {
            // SAFETY: the caller's promise.
            unsafe {
                let to = to.cast_mut().add(v * V::LANES);
                let sum = if accumulate {
                    V::load(to).add(sums[i][v])
                } else {
                    sums[i][v]
                };
                sum.store(to);
                sums[i][v] = V::zero();
            }
        }
        to = to.wrapping_add(out_step);
    }
}

/// # Safety
/// As `tile_body`: element `k` behind each start and all columns behind `b` are in bounds.
#[inline(always)]
unsafe fn step<V: Vector, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[V; VECTORS]; ROWS],
    starts: &[*const V::Element; ROWS],
    k: usize,
    b: *const V::Element,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut columns = [V::zero(); VECTORS];
        for (v, column) in columns.iter_mut().enumerate() {
            *column = V::load(b.add(v * V::LANES));
        }
        for i in 0..ROWS {
            let a = V::splat(starts[i].wrapping_add(k));
            for v in 0..VECTORS {
                sums[i][v] = sums[i][v].mul_add(a, columns[v]);
            }
        }
    }
}

/// Plain arrays, which the compiler turns into vectors of any target.
#[derive(Clone, Copy)]
struct Lanes<T, const N: usize>([T; N]);

macro_rules! plain_vector {
    ($($t:ty, $n:literal;)*) => {$(
        impl Vector for Lanes<$t, $n> {
            type Element = $t;
            const LANES: usize = $n;
            #[inline(always)]
            unsafe fn zero() -> Self {
                Lanes([0.0; $n])
            }
            #[inline(always)]
            unsafe fn splat(from: *const $t) -> Self {
                // SAFETY: one element is readable by the trait's contract.
                Lanes([unsafe { *from }; $n])
            }
            #[inline(always)]
            unsafe fn load(from: *const $t) -> Self {
                // SAFETY: an array of elements has the alignment of one; all are readable.
                Lanes(unsafe { *from.cast::<[$t; $n]>() })
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $t) {
                // SAFETY: as in `load`, writable.
                unsafe { *to.cast::<[$t; $n]>() = self.0 }
            }
            #[inline(always)]
            unsafe fn add(mut self, other: Self) -> Self {
                for (sum, x) in self.0.iter_mut().zip(other.0) {
                    *sum += x;
                }
                self
            }
            #[inline(always)]
            unsafe fn mul_add(mut self, a: Self, b: Self) -> Self {
                for ((sum, a), b) in self.0.iter_mut().zip(a.0).zip(b.0) {
                    // aarch64 fuses at no cost; elsewhere the base set has no such instruction.
                    *sum = if cfg!(target_arch = "aarch64") { a.mul_add(b, *sum) } else { *sum + a * b };
                }
                self
            }
        }
    )*};
}
plain_vector! { f32, 4; f64, 2; }

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Vector;
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($($v:ty, $t:ty, $n:literal, $zero:ident, $splat:ident, $load:ident, $store:ident, $add:ident, $fma:ident;)*) => {$(
            impl Vector for $v {
                type Element = $t;
                const LANES: usize = $n;
                #[inline(always)]
                unsafe fn zero() -> Self {
                    // SAFETY: the features are the trait's contract, here and below.
                    unsafe { $zero() }
                }
                #[inline(always)]
                unsafe fn splat(from: *const $t) -> Self {
                    // SAFETY: one element is readable.
                    unsafe { $splat(*from) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $t) -> Self {
                    // SAFETY: `LANES` elements are readable; the instruction takes any alignment.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $t) {
                    // SAFETY: `LANES` elements are writable.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: as `zero`.
                    unsafe { $add(self, other) }
                }
                #[inline(always)]
                unsafe fn mul_add(self, a: Self, b: Self) -> Self {
                    // SAFETY: as `zero`.
                    unsafe { $fma(a, b, self) }
                }
            }
        )*};
    }
    vector! {
        __m256, f32, 8, _mm256_setzero_ps, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_add_ps, _mm256_fmadd_ps;
        __m256d, f64, 4, _mm256_setzero_pd, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_add_pd, _mm256_fmadd_pd;
        __m512, f32, 16, _mm512_setzero_ps, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_add_ps, _mm512_fmadd_ps;
        __m512d, f64, 8, _mm512_setzero_pd, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_add_pd, _mm512_fmadd_pd;
    }
}

macro_rules! tiled {
    ($($t:ty, $plain:literal, $avx2:ident, $avx512:ident, $transpose16:path;)*) => {$(
        impl Tiled for $t {
            fn transpose16(from: (&[Self], usize), to: (&mut [Self], usize)) {
                $transpose16(from, to);
            }

            fn tile_shape(columns: usize, run: usize) -> TileShape {
                // Accumulators, columns and one broadcast together just fill the 16 or 32 registers.
                let (rows, lanes) = match level() {
                    Level::Avx512 => (14, 64 / size_of::<$t>()),
                    Level::Avx2 => (6, 32 / size_of::<$t>()),
                    Level::Base => (4, $plain),
                };
                if columns > lanes {
                    return TileShape { rows, columns: 2 * lanes };
                }
                let rows = if rows == 14 && !run.is_multiple_of(14) { 16 } else { rows };
                TileShape { rows, columns: lanes }
            }

            fn tile(shape: TileShape, job: &TileJob<'_, $t>, out: &mut [$t]) {
                #[cfg(target_arch = "x86_64")]
                use std::arch::x86_64::{$avx2, $avx512};

                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
                unsafe fn avx512<const ROWS: usize, const VECTORS: usize>(job: &TileJob<'_, $t>, out: *mut $t) {
                    // SAFETY: the caller has checked the job and this function has the features.
                    unsafe { tile_body::<$avx512, ROWS, VECTORS>(job, out) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
                unsafe fn avx512_even<const ROWS: usize, const VECTORS: usize, const POINTERS: usize>(job: &TileJob<'_, $t>, row_stride: usize, out: *mut $t) {
                    // SAFETY: as above.
                    unsafe { even_body::<$avx512, ROWS, VECTORS, POINTERS>(job, row_stride, out) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c,bmi2")]
                unsafe fn avx2<const VECTORS: usize>(job: &TileJob<'_, $t>, out: *mut $t) {
                    // SAFETY: as above.
                    unsafe { tile_body::<$avx2, 6, VECTORS>(job, out) }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2,fma,f16c,bmi2")]
                unsafe fn avx2_even<const VECTORS: usize>(job: &TileJob<'_, $t>, row_stride: usize, out: *mut $t) {
                    // SAFETY: as above.
                    unsafe { even_body::<$avx2, 6, VECTORS, 2>(job, row_stride, out) }
                }

                let row_stride = check_tile(shape, job, out);
                let one = shape.columns == Self::tile_shape(1, 1).columns;
                assert!([1, 14].iter().any(|&run| shape == Self::tile_shape(if one { 1 } else { usize::MAX }, run)));
                let out = out.as_mut_ptr();
                // SAFETY: the job fits its slices by `check_tile`, the shape is one compiled for this level, and
                // `level` names only features that the CPU has.
                unsafe {
                    match (level(), shape.rows, one, row_stride) {
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, 16, true, Some(row_stride)) => avx512_even::<16, 1, 6>(job, row_stride, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, 16, true, None) => avx512::<16, 1>(job, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, _, true, Some(row_stride)) => avx512_even::<14, 1, 5>(job, row_stride, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, _, true, None) => avx512::<14, 1>(job, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, _, false, Some(row_stride)) => avx512_even::<14, 2, 5>(job, row_stride, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx512, _, false, None) => avx512::<14, 2>(job, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx2, _, true, Some(row_stride)) => avx2_even::<1>(job, row_stride, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx2, _, true, None) => avx2::<1>(job, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx2, _, false, Some(row_stride)) => avx2_even::<2>(job, row_stride, out),
                        #[cfg(target_arch = "x86_64")]
                        (Level::Avx2, _, false, None) => avx2::<2>(job, out),
                        (_, _, true, _) => tile_body::<Lanes<$t, $plain>, 4, 1>(job, out),
                        (_, _, false, _) => tile_body::<Lanes<$t, $plain>, 4, 2>(job, out),
                    }
                }
            }
        }
    )*};
}
tiled! {
    f32, 4, __m256, __m512, super::gemm_kernel::transpose16;
    f64, 2, __m256d, __m512d, super::gemm_kernel::transpose_scalar;
}

/// Rows and columns of [`skinny_tile`].
pub const SKINNY_TILE: (usize, usize) = (8, 32);

/// `out[i][j] = Σ_p a[rows[i] + p] · b[p][j]`: the micro-kernel of skinny GEMM with a right operand packed in panels of
/// columns.
pub fn skinny_tile(
    a: &[f32],
    rows: &[usize; SKINNY_TILE.0],
    b: &[[f32; SKINNY_TILE.1]],
    out: &mut [[f32; SKINNY_TILE.1]; SKINNY_TILE.0],
) {
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    unsafe fn avx512(job: &TileJob<'_, f32>, out: *mut f32) {
        // SAFETY: the caller has checked the job and this function has the features.
        unsafe { tile_body::<std::arch::x86_64::__m512, 8, 2>(job, out) }
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    unsafe fn avx2(job: &TileJob<'_, f32>, out: *mut f32) {
        // SAFETY: as above.
        unsafe { tile_body::<std::arch::x86_64::__m256, 4, 2>(job, out) }
    }
    let (b, len) = (b.as_flattened(), b.len());
    let plain = TileJob {
        a,
        rows: TileRows::Listed(rows),
        a_step: 1,
        b,
        b_step: SKINNY_TILE.1,
        segments: &[],
        accumulate: false,
        out_step: SKINNY_TILE.1,
    };
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        let segments = [Segment { a: 0, b: 0, len }];
        let job = TileJob {
            segments: &segments,
            ..plain
        };
        let (rows, columns) = SKINNY_TILE;
        check_tile(TileShape { rows, columns }, &job, out.as_flattened());
        // SAFETY: the job fits its slices by `check_tile`, and `level` names only features that the CPU has.
        return unsafe { avx512(&job, out.as_flattened_mut().as_mut_ptr()) };
    }
    // Blocks of 4 rows, of as many columns as registers hold.
    let columns = if level() == Level::Avx2 { 16 } else { 8 };
    let mut piece = [0f32; 64];
    for first in (0..SKINNY_TILE.0).step_by(4) {
        for column in (0..SKINNY_TILE.1).step_by(columns) {
            let segments = [Segment {
                a: 0,
                b: column,
                len,
            }];
            let rows = TileRows::Listed(&rows[first..first + 4]);
            let job = TileJob {
                rows,
                segments: &segments,
                out_step: columns,
                ..plain
            };
            check_tile(TileShape { rows: 4, columns }, &job, &piece);
            // SAFETY: as above.
            unsafe {
                match level() {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => avx2(&job, piece.as_mut_ptr()),
                    _ => tile_body::<Lanes<f32, 4>, 4, 2>(&job, piece.as_mut_ptr()),
                }
            }
            for (i, piece) in piece.chunks_exact(columns).take(4).enumerate() {
                out[first + i][column..column + columns].copy_from_slice(piece);
            }
        }
    }
}
