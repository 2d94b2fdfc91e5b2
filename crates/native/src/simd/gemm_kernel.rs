//! The GEMM micro-kernel: a register tile of some rows of the left operand, strided or copied, times a packed panel of
//! columns of the right one.
#![allow(unsafe_code)]
// Other CPUs have no such tiles.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]
// Counted loops: see `conv_kernel`.
#![allow(clippy::needless_range_loop)]

use super::bf16::Bf16Pair;
use super::conv_kernel::{PER_POINTER, Vector, opaque};
use super::{Level, level};
use crate::parallel::Grid;
use half::bf16;

/// The shape of a register tile: one of two heights, and the columns. Only [`panel_shape`] creates it, so the CPU has
/// what its tiles need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PanelShape {
    pub tall: usize,
    pub short: usize,
    pub columns: usize,
    features: Features,
}

/// The instruction sets that have these tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Features {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The tile shape of this machine; `None` without fused multiply-add.
pub(crate) fn panel_shape() -> Option<PanelShape> {
    PanelShape::of(level())
}

impl PanelShape {
    /// The tile shape of a level that this CPU has.
    fn of(level: Level) -> Option<PanelShape> {
        // Accumulators, columns and one broadcast together just fill the 16 or 32 registers.
        #[cfg(target_arch = "x86_64")]
        {
            let (tall, short, columns, features) = match level.min(Level::detected()) {
                Level::Avx512 => (14, 12, 32, Features::Avx512),
                Level::Avx2 => (6, 4, 16, Features::Avx2),
                Level::Base => return None,
            };
            Some(PanelShape {
                tall,
                short,
                columns,
                features,
            })
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = level;
            None
        }
    }
}

/// The tile shapes of all levels that this CPU has.
#[cfg(test)]
pub(crate) fn panel_shapes() -> Vec<PanelShape> {
    [Level::Avx2, Level::Avx512]
        .into_iter()
        .filter(|&level| level <= Level::detected())
        .filter_map(PanelShape::of)
        .collect()
}

/// Strided rows: element `p` of row `i` is `data[start + i·row_stride + p·step]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows<'a> {
    pub data: &'a [f32],
    pub start: usize,
    pub row_stride: usize,
    pub step: usize,
}

/// Prefetch distance in steps of the contraction: the panel comes from L2.
const PREFETCH_DISTANCE: usize = 8;

/// `out[i][j] (+)= Σ_p rows[i][p] · panel[p][j]` over `depth` steps, in one sum, for one of the heights and all columns
/// of the shape. With `accumulate` the result holds sums to add to.
pub(crate) fn panel_tile(
    shape: PanelShape,
    height: usize,
    rows: Rows<'_>,
    (panel, depth): (&[f32], usize),
    out: &mut Grid<'_, f32>,
    accumulate: bool,
) {
    assert!(depth > 0 && (height == shape.tall || height == shape.short));
    assert!(out.rows() == height && out.width() == shape.columns);
    assert!(panel.len() >= depth * shape.columns);
    let last = rows.start + (height - 1) * rows.row_stride + (depth - 1) * rows.step;
    assert!(last < rows.data.len());
    let job = Job {
        a: rows.data[rows.start..].as_ptr(),
        row_stride: rows.row_stride * size_of::<f32>(),
        step: rows.step,
        b: panel.as_ptr(),
        depth,
        out: out.start(),
        out_step: out.step(),
        accumulate,
    };
    #[cfg(target_arch = "x86_64")]
    // SAFETY: all reads and writes are within the bounds checked above, the grid is this caller's alone, and the CPU
    // has the features of a shape.
    unsafe {
        match (shape.features, height == shape.tall) {
            (Features::Avx512, true) => x86::avx512::<14, 5>(job),
            (Features::Avx512, false) => x86::avx512::<12, 4>(job),
            (Features::Avx2, true) => x86::avx2::<6>(job),
            (Features::Avx2, false) => x86::avx2::<4>(job),
        }
    }
    // There is no shape.
    #[cfg(not(target_arch = "x86_64"))]
    match (shape.features, job) {}
}

/// The same in pointers; `row_stride` in bytes.
struct Job {
    a: *const f32,
    row_stride: usize,
    step: usize,
    b: *const f32,
    depth: usize,
    out: *mut f32,
    out_step: usize,
    accumulate: bool,
}

/// # Safety
/// All elements that the job names are readable, those of the result writable by this caller alone, and the CPU has
/// the features of `V`.
#[inline(always)]
unsafe fn body<V: Vector<Element = f32>, const ROWS: usize, const POINTERS: usize>(job: Job) {
    const { assert!(ROWS.div_ceil(PER_POINTER) == POINTERS) };
    // The result's rows are prefetched one after the other in the course of the sum: all at once they would delay the
    // panel.
    let each = job.depth / ROWS;
    let mut steps = job.depth - each * (ROWS - 1);
    let mut row = job.out.cast_const();
    // SAFETY: the caller's promise; hints may name any address.
    unsafe {
        let mut sums = [[V::zero(); 2]; ROWS];
        let mut starts = [job.a; POINTERS];
        for g in 0..POINTERS {
            starts[g] = job.a.wrapping_byte_add(job.row_stride * PER_POINTER * g);
        }
        let mut b = job.b;
        for _ in 0..ROWS {
            prefetch_line(row);
            prefetch_line(row.wrapping_add(2 * V::LANES - 1));
            row = row.wrapping_add(job.out_step);
            for _ in 0..steps {
                prefetch_line(b.wrapping_add(2 * V::LANES * PREFETCH_DISTANCE));
                prefetch_line(b.wrapping_add(2 * V::LANES * PREFETCH_DISTANCE + V::LANES));
                let columns = [V::load(b), V::load(b.add(V::LANES))];
                for g in 0..POINTERS {
                    for r in 0..PER_POINTER {
                        let i = g * PER_POINTER + r;
                        if i < ROWS {
                            let a = starts[g].wrapping_byte_add(job.row_stride.wrapping_mul(r));
                            let a = V::splat(a);
                            sums[i][0] = sums[i][0].mul_add(a, columns[0]);
                            sums[i][1] = sums[i][1].mul_add(a, columns[1]);
                        }
                    }
                    starts[g] = starts[g].wrapping_add(job.step);
                    opaque(&mut starts[g]);
                }
                b = b.wrapping_add(2 * V::LANES);
            }
            steps = each;
        }
        let mut to = job.out.cast_const();
        for i in 0..ROWS {
            opaque(&mut to);
            for v in 0..2 {
                let to = to.cast_mut().add(v * V::LANES);
                let sum = if job.accumulate {
                    V::load(to).add(sums[i][v])
                } else {
                    sums[i][v]
                };
                sum.store(to);
            }
            to = to.wrapping_add(job.out_step);
        }
    }
}

/// Prefetches one cache line.
#[inline(always)]
pub(crate) fn prefetch_line<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint reads nothing, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The side length of the squares of [`transpose16`].
pub(crate) const TRANSPOSE_SIZE: usize = 16;

/// Transposes a square of [`TRANSPOSE_SIZE`]: `to[j][i] = from[i][j]`; each slice comes with its row stride.
pub(crate) fn transpose16(from: (&[f32], usize), to: (&mut [f32], usize)) {
    let ((from, step), (to, to_step)) = (from, to);
    let reach = |step: usize| (TRANSPOSE_SIZE - 1) * step + TRANSPOSE_SIZE;
    assert!(
        step.min(to_step) >= TRANSPOSE_SIZE
            && from.len() >= reach(step)
            && to.len() >= reach(to_step)
    );
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        // SAFETY: both squares lie in their slices, and the CPU has the feature.
        return unsafe {
            x86::transpose16(
                from.as_ptr(),
                step * size_of::<f32>(),
                to.as_mut_ptr(),
                to_step,
            )
        };
    }
    transpose_scalar((from, step), (to, to_step));
}

/// Transposes a square of bf16 pairs: `to[j][i]` is the pair at `from[i][2j]`, its first element in the low 16 bits.
pub(crate) fn transpose16_pairs(from: (&[bf16], usize), to: (&mut [Bf16Pair], usize)) {
    let ((from, step), (to, to_step)) = (from, to);
    assert!(
        step >= 2 * TRANSPOSE_SIZE
            && from.len() >= (TRANSPOSE_SIZE - 1) * step + 2 * TRANSPOSE_SIZE
    );
    assert!(
        to_step >= TRANSPOSE_SIZE && to.len() >= (TRANSPOSE_SIZE - 1) * to_step + TRANSPOSE_SIZE
    );
    #[cfg(target_arch = "x86_64")]
    if level() == Level::Avx512 {
        let (start, to) = (from.as_ptr().cast(), to.as_mut_ptr().cast());
        // SAFETY: both squares lie in their slices, whose pairs are moved as they are, and the CPU has the feature.
        return unsafe { x86::transpose16(start, step * size_of::<bf16>(), to, to_step) };
    }
    for i in 0..TRANSPOSE_SIZE {
        for j in 0..TRANSPOSE_SIZE {
            let [low, high] = [0, 1].map(|k| Bf16Pair::from(from[i * step + 2 * j + k].to_bits()));
            to[j * to_step + i] = low | high << 16;
        }
    }
}

/// The same for any elements, one by one.
pub(super) fn transpose_scalar<T: Copy>(
    (from, step): (&[T], usize),
    (to, to_step): (&mut [T], usize),
) {
    for i in 0..TRANSPOSE_SIZE {
        for j in 0..TRANSPOSE_SIZE {
            to[j * to_step + i] = from[i * step + j];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Job, TRANSPOSE_SIZE, body, prefetch_line};
    use std::arch::x86_64::*;

    /// Prefetch distance in bytes.
    const NEXT: usize = 256;

    /// # Safety
    /// As `body`; the CPU has the features.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn avx512<const ROWS: usize, const POINTERS: usize>(job: Job) {
        // SAFETY: the caller's promise.
        unsafe { body::<__m512, ROWS, POINTERS>(job) }
    }

    /// # Safety
    /// As `body`; the CPU has the features.
    #[target_feature(enable = "avx2,fma,f16c,bmi2")]
    pub(super) unsafe fn avx2<const ROWS: usize>(job: Job) {
        // SAFETY: the caller's promise.
        unsafe { body::<__m256, ROWS, 2>(job) }
    }

    /// # Safety
    /// Sixteen rows of sixteen elements, with these strides in bytes and any alignment, are readable and writable, and the CPU has
    /// the feature.
    #[target_feature(enable = "avx512f")]
    pub(super) unsafe fn transpose16(from: *const f32, step: usize, to: *mut f32, to_step: usize) {
        let mut a = [_mm512_setzero_ps(); TRANSPOSE_SIZE];
        for i in 0..TRANSPOSE_SIZE {
            // SAFETY: the caller's promise.
            a[i] = unsafe { _mm512_loadu_ps(from.byte_add(i * step)) };
            // The square that is transposed next follows in memory.
            prefetch_line(from.wrapping_byte_add(i * step + NEXT));
        }
        // Pairs of rows, pairs of those, then quarters of vectors: four steps for sixteen rows.
        let mut b = a;
        for i in (0..TRANSPOSE_SIZE).step_by(2) {
            b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
            b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
        }
        for i in (0..TRANSPOSE_SIZE).step_by(4) {
            let [p, q, r, s] = [b[i], b[i + 1], b[i + 2], b[i + 3]].map(|x| _mm512_castps_pd(x));
            a[i] = _mm512_castpd_ps(_mm512_unpacklo_pd(p, r));
            a[i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(p, r));
            a[i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(q, s));
            a[i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(q, s));
        }
        for i in 0..4 {
            for half in [0, 8] {
                b[half + i] = _mm512_shuffle_f32x4::<0x88>(a[half + i], a[half + i + 4]);
                b[half + i + 4] = _mm512_shuffle_f32x4::<0xdd>(a[half + i], a[half + i + 4]);
            }
        }
        for i in 0..8 {
            let even = _mm512_shuffle_f32x4::<0x88>(b[i], b[i + 8]);
            let odd = _mm512_shuffle_f32x4::<0xdd>(b[i], b[i + 8]);
            // SAFETY: the caller's promise.
            unsafe {
                _mm512_storeu_ps(to.add(i * to_step), even);
                _mm512_storeu_ps(to.add((i + 8) * to_step), odd);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::TaskSlice;

    #[test]
    fn squares_are_transposed() {
        let from: Vec<f32> = (0..16 * 20).map(|i| i as f32).collect();
        let mut to = vec![-1.0; 16 * 18];
        transpose16((&from, 20), (&mut to, 18));
        for i in 0..16 {
            for j in 0..16 {
                assert_eq!(to[j * 18 + i], from[i * 20 + j], "{i} {j}");
            }
        }
        assert!((0..15).all(|j| to[j * 18 + 16] == -1.0));
    }

    #[test]
    fn tiles_are_dot_products_at_every_level() {
        panel_shapes().into_iter().for_each(check_tiles);
    }

    fn check_tiles(shape: PanelShape) {
        let depth = 37;
        let number = |i: usize| ((i * 31) % 17) as f32 - 8.0;
        let a: Vec<f32> = (0..16 * 64).map(number).collect();
        let panel: Vec<f32> = (5..5 + depth * shape.columns).map(number).collect();
        for height in [shape.tall, shape.short] {
            for (row_stride, step) in [(64, 1), (1, 16), (0, 1)] {
                for accumulate in [false, true] {
                    let out_step = shape.columns + 3;
                    let mut out = vec![100.0; height * out_step];
                    let rows = Rows {
                        data: &a,
                        start: 7,
                        row_stride,
                        step,
                    };
                    let mut part = TaskSlice::whole(&mut out);
                    let mut grid = part.grid(0, height, shape.columns, out_step);
                    panel_tile(shape, height, rows, (&panel, depth), &mut grid, accumulate);
                    for i in 0..height {
                        for j in 0..out_step {
                            let products = (0..depth).map(|p| {
                                a[7 + i * row_stride + p * step]
                                    * panel[p * shape.columns + j.min(shape.columns - 1)]
                            });
                            let sum: f32 = products.sum();
                            let expected = match (j < shape.columns, accumulate) {
                                (true, true) => 100.0 + sum,
                                (true, false) => sum,
                                (false, _) => 100.0,
                            };
                            assert_eq!(
                                out[i * out_step + j],
                                expected,
                                "{height} {row_stride} {i} {j}"
                            );
                        }
                    }
                }
            }
        }
    }
}
