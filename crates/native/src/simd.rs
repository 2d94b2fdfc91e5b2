//! SIMD: vector instructions, chosen at run time.
//!
//! Owns the detection of CPU features and the macro that compiles one plain loop several times, once per instruction
//! set. Nothing else in the crate names a CPU. Also wraps the crate `gemm`, which needs pointers; micro-kernels are in
//! `gemm_kernel` and `conv_kernel`.
//!
//! The level is detected once and kept. `CLEMATIS_SIMD=base|avx2|avx512` lowers it, which lets a test on a new machine
//! run the code of an old one; it never raises it beyond what the CPU has.
#![allow(unsafe_code)]

mod bf16;
mod gemm_kernel;
mod depthwise_3x3;
mod conv_kernel;

use std::sync::atomic::{AtomicU8, Ordering};

pub use crate::prefetch::prefetch_l2;
pub(crate) use crate::prefetch::{prefetch, prefetch_write};
#[cfg(test)]
pub(crate) use bf16::has_bf16_dot;
pub(crate) use bf16::{BF16_TILE, Bf16Pair, PairRows, bf16_tile, prefers_bf16_dot};
pub use conv_kernel::{SKINNY_TILE, skinny_tile};
pub(crate) use conv_kernel::{
    Segment, TileJob, TileRows, TileShape, Tiled, fitting_shape, uniform_step,
};
pub(crate) use depthwise_3x3::{
    ChannelRows, PlaneRows, SIDE, VECTOR, depthwise_rows_nchw, depthwise_rows_nhwc,
    depthwise_wgrad_nchw, depthwise_wgrad_nhwc, has_depthwise_3x3,
};
#[cfg(test)]
pub(crate) use gemm_kernel::panel_shapes;
pub(crate) use gemm_kernel::{
    PanelShape, Rows, TRANSPOSE_SIZE, panel_shape, panel_tile, prefetch_line, transpose16,
    transpose16_pairs,
};

/// An instruction set that loops are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// What every CPU of the target has: SSE2 on x86-64, NEON on aarch64.
    Base = 1,
    /// 256-bit vectors with fused multiply-add.
    Avx2 = 2,
    /// 512-bit vectors.
    Avx512 = 3,
}

impl Level {
    /// The name that `CLEMATIS_SIMD` takes.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Base => "base",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    fn parse(text: &str) -> Option<Level> {
        [Level::Base, Level::Avx2, Level::Avx512]
            .into_iter()
            .find(|level| level.name() == text)
    }

    /// What this CPU has, whatever the environment asks for.
    pub fn detected() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            use std::arch::is_x86_feature_detected as has;
            // The same lists as in the `target_feature` attributes below: a feature enabled there and not tested here
            // would be undefined behaviour on some CPU.
            let avx2 = has!("avx2") && has!("fma") && has!("f16c") && has!("bmi2");
            let avx512 = has!("avx512f")
                && has!("avx512bw")
                && has!("avx512dq")
                && has!("avx512vl")
                && has!("avx512cd");
            if avx2 && avx512 {
                return Level::Avx512;
            }
            if avx2 {
                return Level::Avx2;
            }
        }
        Level::Base
    }
}

/// 0 until the first call of [`level`].
static LEVEL: AtomicU8 = AtomicU8::new(0);

/// The level that loops run at on this machine.
#[inline]
pub fn level() -> Level {
    match LEVEL.load(Ordering::Relaxed) {
        3 => Level::Avx512,
        2 => Level::Avx2,
        1 => Level::Base,
        _ => find_level(),
    }
}

#[cold]
fn find_level() -> Level {
    let asked = std::env::var("CLEMATIS_SIMD")
        .ok()
        .and_then(|text| Level::parse(text.trim()));
    let detected = Level::detected();
    let level = asked.map_or(detected, |asked| asked.min(detected));
    // Two threads may both get here; they store the same value.
    LEVEL.store(level as u8, Ordering::Relaxed);
    level
}

/// Compiles a loop for each [`Level`] and calls the best one at run time.
///
/// The function is written as usual, but its generic parameters are in brackets and its `where`
/// clause in `where [..]`. The body is plain safe Rust that the compiler vectorizes by itself, so
/// write it in the form that vectorizes: slices cut to one common length, no early exit, closures passed as
/// generic parameters. Everything the body calls must be small or `#[inline(always)]`, since only
/// inlined code is compiled with the wider instructions. Arguments are plain names (no patterns,
/// no `mut`, no `self`), and generic parameters must follow from the arguments.
///
/// A call costs about two nanoseconds, so put the macro around a loop over a row or more, not
/// around the work on one element. `a * b + c` stays two roundings at every level; `mul_add` is one
/// instruction from [`Level::Avx2`] on but a slow library call below it.
///
/// The expansion contains `unsafe`, so the macro is private to this crate; other crates call `kernel::row_kernels`.
///
/// ```text
/// multiversion! {
///     /// `out[i] = f(x[i], y[i])`
///     pub(crate) fn zip[T: Copy, F: Fn(T, T) -> T](out: &mut [T], x: &[T], y: &[T], f: F) {
///         for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
///             *out = f(x, y);
///         }
///     }
/// }
/// zip(&mut out, &x, &y, |x, y| x + y);
/// ```
macro_rules! multiversion {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident $([$($gen:tt)*])? ($($arg:ident : $ty:ty),* $(,)?) $(-> $ret:ty)?
        $(where [$($bound:tt)*])?
        $body:block
    )+) => {$(
        $(#[$meta])*
        #[inline]
        #[allow(unsafe_code, clippy::too_many_arguments)]
        $vis fn $name $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
            #[inline(always)]
            fn body $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi2")]
            fn avx512 $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
                body($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c,bmi2")]
            fn avx2 $(<$($gen)*>)? ($($arg : $ty),*) $(-> $ret)? $(where $($bound)*)? {
                body($($arg),*)
            }

            match $crate::simd::level() {
                // SAFETY: `level` returns `Avx512` only if the CPU has these features.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => unsafe { avx512($($arg),*) },
                // SAFETY: as above, for `Avx2`.
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => unsafe { avx2($($arg),*) },
                _ => body($($arg),*),
            }
        }
    )+};
}
pub(crate) use multiversion;

/// Copies with streaming (non-temporal) stores where the CPU has them: the destination is not read first, and evicts
/// nothing from the caches. Call [`stream_done`] before another thread may read.
pub(crate) fn stream<T: bytemuck::Pod>(to: &mut [T], from: &[T]) {
    let (to, from): (&mut [u8], &[u8]) = (bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from));
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if to.len() == from.len() {
        if level() >= Level::Avx2 && to.as_ptr().align_offset(32) == 0 {
            // SAFETY: the slices are equally long, `to` is 32-byte aligned, and this level has the feature.
            return unsafe { stream_wide(to, from) };
        }
        if to.as_ptr().align_offset(16) == 0 {
            // SAFETY: the slices are equally long and `to` is 16-byte aligned.
            return unsafe { stream_narrow(to, from) };
        }
    }
    to.copy_from_slice(from);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! stream_by {
    ($(#[$feature:meta])? $name:ident, $vector:ident, $load:ident, $store:ident) => {
        /// # Safety
        /// The slices are equally long, and `to` is aligned to a whole vector.
        $(#[$feature])?
        unsafe fn $name(to: &mut [u8], from: &[u8]) {
            use std::arch::x86_64::{$load, $store, $vector};
            let whole = to.len() / size_of::<$vector>();
            for i in 0..whole {
                // SAFETY: both slices have `whole` vectors, and the caller has promised the alignment; the instructions
                // belong to the base set or to the feature of this function.
                unsafe {
                    let vector = $load(from.as_ptr().cast::<$vector>().add(i));
                    $store(to.as_mut_ptr().cast::<$vector>().add(i), vector);
                }
            }
            let done = whole * size_of::<$vector>();
            to[done..].copy_from_slice(&from[done..]);
        }
    };
}
#[cfg(all(target_arch = "x86_64", not(miri)))]
stream_by!(stream_narrow, __m128i, _mm_loadu_si128, _mm_stream_si128);
#[cfg(all(target_arch = "x86_64", not(miri)))]
stream_by!(
    #[target_feature(enable = "avx2")]
    stream_wide,
    __m256i,
    _mm256_loadu_si256,
    _mm256_stream_si256
);

/// Elements that are computed before one streaming store: at least a cache line of f32.
const STREAM_LINE: usize = 16;

multiversion! {
    /// `out[i] = f(x[i], y[i])`, with streaming stores from registers. See [`stream`].
    pub(crate) fn zip_streamed[T: bytemuck::Pod, F: Fn(T, T) -> T](out: &mut [T], x: &[T], y: &[T], f: F) {
        let whole = out.len() / STREAM_LINE * STREAM_LINE;
        let (lines, rest) = out.split_at_mut(whole);
        #[cfg(target_arch = "x86_64")]
        let is_streamed = level() >= Level::Avx2
            && size_of::<T>() >= 4
            && lines.as_ptr().cast::<u8>().align_offset(32) == 0;
        let parts = lines.chunks_exact_mut(STREAM_LINE);
        for ((out, x), y) in parts.zip(x.chunks_exact(STREAM_LINE)).zip(y.chunks_exact(STREAM_LINE)) {
            let mut line = [x[0]; STREAM_LINE];
            for (line, (&x, &y)) in line.iter_mut().zip(x.iter().zip(y)) {
                *line = f(x, y);
            }
            #[cfg(target_arch = "x86_64")]
            if is_streamed {
                // SAFETY: level and alignment were checked above; a chunk is as long as the line, a multiple of 32
                // bytes.
                unsafe { stream_line(out, &line) };
                continue;
            }
            out.copy_from_slice(&line);
        }
        for ((out, &x), &y) in rest.iter_mut().zip(&x[whole..]).zip(&y[whole..]) {
            *out = f(x, y);
        }
    }

    /// `out[i] = f(x[i], y[i], z[i])` with streaming stores.
    pub(crate) fn zip3_streamed[T: bytemuck::Pod, F: Fn(T, T, T) -> T](out: &mut [T], x: &[T], y: &[T], z: &[T], f: F) {
        let ((lines, rest), (xs, x_rest)) = (out.as_chunks_mut::<STREAM_LINE>(), x.as_chunks::<STREAM_LINE>());
        let ((ys, y_rest), (zs, z_rest)) = (y.as_chunks::<STREAM_LINE>(), z.as_chunks::<STREAM_LINE>());
        #[cfg(target_arch = "x86_64")]
        let is_streamed = level() >= Level::Avx2
            && size_of::<T>() >= 4
            && lines.as_ptr().cast::<u8>().align_offset(32) == 0;
        for (((out, x), y), z) in lines.iter_mut().zip(xs).zip(ys).zip(zs) {
            let mut line = *x;
            for i in 0..STREAM_LINE {
                line[i] = f(x[i], y[i], z[i]);
            }
            #[cfg(target_arch = "x86_64")]
            if is_streamed {
                // SAFETY: level and alignment were checked above; a chunk is as long as the line, a multiple of 32
                // bytes.
                unsafe { stream_line(out, &line) };
                continue;
            }
            *out = line;
        }
        for (((out, &x), &y), &z) in rest.iter_mut().zip(x_rest).zip(y_rest).zip(z_rest) {
            *out = f(x, y, z);
        }
    }
}

/// Streams one line.
///
/// # Safety
/// The CPU has AVX, and `to` is as long as the line and 32-byte aligned.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx")]
unsafe fn stream_line<T: bytemuck::Pod>(to: &mut [T], line: &[T; STREAM_LINE]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_stream_si256};
    for i in 0..size_of_val(line) / size_of::<__m256i>() {
        // SAFETY: both have so many vectors, as the caller promises.
        unsafe {
            let vector = _mm256_loadu_si256(line.as_ptr().cast::<__m256i>().add(i));
            _mm256_stream_si256(to.as_mut_ptr().cast::<__m256i>().add(i), vector);
        }
    }
}

/// Makes streamed stores visible to other threads.
pub(crate) fn stream_done() {
    // SAFETY: a fence touches no memory, and the base set of the target has it.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// A strided matrix in a slice: element `(i, j)` is at `offset + i·row_stride + j·col_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    /// The position of element `(0, 0)`.
    pub offset: usize,
    /// Row stride; may be zero or negative.
    pub row: isize,
    /// Column stride.
    pub col: isize,
}

impl Strides {
    /// Whether all elements of an `m` by `n` matrix lie within a slice of length `len`.
    pub(crate) fn fit(self, m: usize, n: usize, len: usize) -> bool {
        if m == 0 || n == 0 {
            return true;
        }
        let reach = |count: usize, stride: isize| stride as i128 * (count as i128 - 1);
        let (rows, cols) = (reach(m, self.row), reach(n, self.col));
        let first = self.offset as i128 + rows.min(0) + cols.min(0);
        let last = self.offset as i128 + rows.max(0) + cols.max(0);
        first >= 0 && last < len as i128
    }

    /// Whether no two elements of an `m` by `n` matrix have the same address, for matrices whose rows, or whose
    /// columns, do not interleave; those that do are reported as overlapping.
    pub(crate) fn is_injective(self, m: usize, n: usize) -> bool {
        let reach =
            |count: usize, stride: isize| stride.unsigned_abs() as u128 * (count as u128 - 1);
        let apart = |stride: isize, count: usize, reach: u128| {
            count < 2 || stride.unsigned_abs() as u128 > reach
        };
        if m == 0 || n == 0 {
            return true;
        }
        let (rows, columns) = (reach(m, self.row), reach(n, self.col));
        let by_rows = apart(self.row, m, columns) && apart(self.col, n, 0);
        by_rows || apart(self.col, n, rows) && apart(self.row, m, 0)
    }
}

/// Types for which the crate `gemm` has a kernel.
pub trait Gemm: Copy + Send + Sync + num_traits::Zero + num_traits::One + 'static {}
impl Gemm for f32 {}
impl Gemm for f64 {}
impl Gemm for num_complex::Complex<f32> {}
impl Gemm for num_complex::Complex<f64> {}

/// MACs from which a GEMM polls for interrupts, and beyond which it is split so that it polls often enough: some tenths
/// of a second on one thread.
const POLLED_MACS: usize = 1 << 22;
const MAX_MACS: usize = 1 << 28;
/// Rows or columns of a part are a multiple of this.
const MIN_PART: usize = 128;

/// `dst (+)= lhs · rhs`, `m` by `k` times `k` by `n`, on `threads` threads.
#[allow(clippy::too_many_arguments)]
pub fn gemm<T: Gemm>(
    [m, n, k]: [usize; 3],
    dst: (&mut [T], Strides),
    lhs: (&[T], Strides),
    rhs: (&[T], Strides),
    accumulate: bool,
    threads: usize,
) {
    assert!(dst.1.fit(m, n, dst.0.len()) && dst.1.is_injective(m, n));
    assert!(lhs.1.fit(m, k, lhs.0.len()) && rhs.1.fit(k, n, rhs.0.len()));
    if m == 0 || n == 0 {
        return;
    }
    let macs = m.saturating_mul(n).saturating_mul(k);
    if macs > POLLED_MACS {
        crate::parallel::poll();
    }
    // The sums of an element run in one order whatever rows or columns are computed with it.
    if macs > MAX_MACS && m.max(n) >= 2 * MIN_PART {
        let mut part = |first: [usize; 2], [m, n]: [usize; 2]| {
            let from = |strides: Strides, i: usize, j: usize| {
                let at = i as isize * strides.row + j as isize * strides.col;
                let offset = strides.offset.wrapping_add_signed(at);
                Strides { offset, ..strides }
            };
            let [i, j] = first;
            let dst = (&mut *dst.0, from(dst.1, i, j));
            let (lhs, rhs) = ((lhs.0, from(lhs.1, i, 0)), (rhs.0, from(rhs.1, 0, j)));
            gemm([m, n, k], dst, lhs, rhs, accumulate, threads);
        };
        if m >= n {
            let half = (m / 2).next_multiple_of(MIN_PART);
            part([0, 0], [half, n]);
            part([half, 0], [m - half, n]);
        } else {
            let half = (n / 2).next_multiple_of(MIN_PART);
            part([0, 0], [m, half]);
            part([0, half], [m, n - half]);
        }
        return;
    }
    let parallelism = match threads {
        0 | 1 => gemm::Parallelism::None,
        threads => gemm::Parallelism::Rayon(threads),
    };
    // SAFETY: every element that the three descriptions reach lies in its slice (asserted above; the pointers are
    // offset with `wrapping_add`, so an empty operand may have any offset), `dst` is borrowed mutably and so overlaps
    // neither operand, and no two of its elements have the same address.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            dst.0.as_mut_ptr().wrapping_add(dst.1.offset),
            dst.1.col,
            dst.1.row,
            accumulate,
            lhs.0.as_ptr().wrapping_add(lhs.1.offset),
            lhs.1.col,
            lhs.1.row,
            rhs.0.as_ptr().wrapping_add(rhs.1.offset),
            rhs.1.col,
            rhs.1.row,
            T::one(),
            T::one(),
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    multiversion! {
        fn zip[T: Copy, F: Fn(T, T) -> T](out: &mut [T], x: &[T], y: &[T], f: F) {
            for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
                *out = f(x, y);
            }
        }

        fn total(x: &[f32]) -> f32 {
            let mut lanes = [0f32; 16];
            let chunks = x.chunks_exact(16);
            let rest: f32 = chunks.remainder().iter().sum();
            for chunk in chunks {
                for (lane, x) in lanes.iter_mut().zip(chunk) {
                    *lane += x;
                }
            }
            rest + lanes.iter().sum::<f32>()
        }

        fn largest[T](x: &[T]) -> Option<T> where [T: Copy + PartialOrd] {
            x.iter().copied().reduce(|a, b| if b > a { b } else { a })
        }
    }

    #[test]
    fn a_multiversioned_loop_gives_what_the_plain_loop_gives() {
        let x: Vec<f32> = (0..1000).map(|i| i as f32 * 0.5).collect();
        let y: Vec<f32> = (0..1000).map(|i| 1.0 - i as f32).collect();
        let mut out = vec![0.0; 1000];
        zip(&mut out, &x, &y, |x, y| x * y);
        assert!((0..1000).all(|i| out[i] == x[i] * y[i]));
        assert_eq!(total(&x), 999.0 * 1000.0 / 4.0);
        assert_eq!(largest(&y), Some(1.0));
        assert_eq!(largest::<i8>(&[]), None);
    }

    #[test]
    fn a_result_whose_elements_coincide_is_refused() {
        let strides = |row, col| Strides {
            offset: 0,
            row,
            col,
        };
        assert!(strides(4, 1).is_injective(3, 4) && strides(1, 3).is_injective(3, 4));
        assert!(strides(-4, -1).is_injective(3, 4) && strides(0, 0).is_injective(1, 1));
        assert!(strides(0, 1).is_injective(1, 4) && strides(7, 7).is_injective(0, 4));
        assert!(!strides(1, 1).is_injective(2, 2) && !strides(3, 1).is_injective(3, 4));
        assert!(!strides(0, 1).is_injective(2, 2));
    }

    #[test]
    fn a_level_is_parsed_by_its_name_and_never_exceeds_the_processor() {
        for level in [Level::Base, Level::Avx2, Level::Avx512] {
            assert_eq!(Level::parse(level.name()), Some(level));
        }
        assert_eq!(Level::parse("sse9"), None);
        assert!(level() <= Level::detected());
    }

    fn check_against_plain_sums<T: Tiled + std::fmt::Debug + PartialEq>(
        from: fn(usize) -> T,
        add: fn(T, T, T) -> T,
    ) {
        for (columns, run, even) in [
            (1, 1, false),
            (1, 14, true),
            (1, 16, true),
            (1000, 1, false),
            (1000, 1, true),
        ] {
            let shape = T::tile_shape(columns, run);
            for (a_step, lens) in [(1, vec![3, 9, 0, 4]), (5, vec![7]), (2, vec![])] {
                let a: Vec<T> = (0..400).map(|i| from(i * 7 % 11)).collect();
                let b: Vec<T> = (0..2000).map(|i| from(i * 5 % 13)).collect();
                let rows: Vec<usize> = (0..shape.rows)
                    .map(|i| if even { i * 9 } else { i * 17 % 31 })
                    .collect();
                let segments: Vec<Segment> = lens
                    .iter()
                    .enumerate()
                    .map(|(i, &len)| Segment {
                        a: 40 * i,
                        b: 100 * i,
                        len,
                    })
                    .collect();
                for (accumulate, gap) in [(false, 0), (true, 0), (false, 3)] {
                    let step = shape.columns + gap;
                    let job = TileJob {
                        a: &a,
                        rows: TileRows::new(&rows),
                        a_step,
                        b: &b,
                        b_step: 67,
                        segments: &segments,
                        accumulate,
                        out_step: step,
                    };
                    let mut out: Vec<T> = (0..shape.rows * step).map(from).collect();
                    let mut expected = out.clone();
                    for i in 0..shape.rows {
                        for j in 0..shape.columns {
                            let sum = &mut expected[i * step + j];
                            if !accumulate {
                                *sum = T::default();
                            }
                            for s in &segments {
                                for k in 0..s.len {
                                    *sum = add(
                                        *sum,
                                        a[rows[i] + s.a + k * a_step],
                                        b[s.b + k * 67 + j],
                                    );
                                }
                            }
                        }
                    }
                    T::tile(shape, &job, &mut out);
                    assert_eq!(out, expected);
                }
            }
        }
    }

    #[test]
    fn a_tile_holds_the_sums_of_products() {
        // Small integers: exact in any order, fused or not.
        check_against_plain_sums::<f32>(|i| i as f32, |s, a, b| s + a * b);
        check_against_plain_sums::<f64>(|i| i as f64, |s, a, b| s + a * b);
    }

    #[test]
    #[should_panic]
    fn a_tile_that_would_read_beyond_its_operands_is_refused() {
        let shape = f32::tile_shape(1, 1);
        let rows = vec![0; shape.rows];
        let segments = [Segment { a: 0, b: 0, len: 3 }];
        let job = TileJob {
            a: &[0.0; 2],
            rows: TileRows::new(&rows),
            a_step: 1,
            b: &[0.0; 99],
            b_step: 16,
            segments: &segments,
            accumulate: false,
            out_step: shape.columns,
        };
        f32::tile(shape, &job, &mut vec![0.0; shape.rows * shape.columns]);
    }
}
