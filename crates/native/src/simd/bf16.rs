//! The bf16 micro-kernel: `vdpbf16ps` multiplies pairs of bf16 and accumulates in f32.
//!
//! The instruction treats numbers below 2⁻¹²⁶ as zero, in its operands and in its sums.
#![allow(unsafe_code)]
// Counted loops: see `conv_kernel.rs`.
#![allow(clippy::needless_range_loop)]

/// Rows and columns of the register tile.
pub(crate) const BF16_TILE: (usize, usize) = (14, 32);

/// Two neighbours along the contraction, the first one in the low 16 bits.
pub(crate) type Bf16Pair = u32;

/// Whether the instruction pays. An Intel Xeon of the fifth generation takes 0.75 ns for it and 0.18 ns for a
/// multiply-add in f32, so it is slower there than two separate multiply-adds. AMD CPUs are said to have equal
/// throughput for both; that was not measured.
pub(crate) fn prefers_bf16_dot() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        static PREFERS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
        *PREFERS.get_or_init(|| has_bf16_dot() && x86::is_amd())
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Whether the CPU has the instruction and `CLEMATIS_SIMD` allows it.
pub(crate) fn has_bf16_dot() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        super::level() == super::Level::Avx512 && std::arch::is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Rows of pairs: the row stride, and the pairs of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairRows<'a> {
    pub data: &'a [Bf16Pair],
    pub row_stride: usize,
    pub step: usize,
}

/// `out[i][j] (+)= Σ_p a[i][p] · b[p][j]`, where `p` counts pairs. Only if [`has_bf16_dot`].
pub(crate) fn bf16_tile(
    out: &mut [[f32; BF16_TILE.1]; BF16_TILE.0],
    a: PairRows<'_>,
    b: &[[Bf16Pair; BF16_TILE.1]],
    accumulate: bool,
) {
    let last = (BF16_TILE.0 - 1) * a.row_stride + b.len().saturating_sub(1) * a.step;
    assert!((b.is_empty() || last < a.data.len()) && has_bf16_dot());
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the CPU has the features, and rows of `a` have as many pairs as `b`.
    unsafe {
        x86::tile(out, a, b, accumulate);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (out, accumulate);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::conv_kernel::{PER_POINTER, opaque};
    use super::{BF16_TILE, Bf16Pair, PairRows};
    use std::arch::x86_64::*;

    const POINTERS: usize = BF16_TILE.0.div_ceil(PER_POINTER);

    /// # Safety
    /// The CPU has these features, and `a` has `BF16_TILE.0` rows of as many pairs as `b`.
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx512bf16,avx2,fma,f16c,bmi2"
    )]
    pub(super) unsafe fn tile(
        out: &mut [[f32; BF16_TILE.1]; BF16_TILE.0],
        a: PairRows<'_>,
        b: &[[Bf16Pair; BF16_TILE.1]],
        accumulate: bool,
    ) {
        // SAFETY: row `i` of `a` begins `i · row_stride` pairs behind its start, and pair `p` of it is read with row
        // `p` of `b`, each of which holds two vectors; so does a row of `out`. The features are the caller's promise.
        unsafe {
            let mut sums = [[_mm512_setzero_ps(); 2]; BF16_TILE.0];
            if accumulate {
                for i in 0..BF16_TILE.0 {
                    for v in 0..2 {
                        sums[i][v] = _mm512_loadu_ps(out[i].as_ptr().add(16 * v));
                    }
                }
            }
            let row_stride = a.row_stride * size_of::<Bf16Pair>();
            let mut starts = [a.data.as_ptr(); POINTERS];
            for g in 0..POINTERS {
                starts[g] = a
                    .data
                    .as_ptr()
                    .wrapping_byte_add(row_stride * PER_POINTER * g);
            }
            for row in b {
                let columns =
                    [0, 1].map(|v| as_bf16(_mm512_loadu_si512(row.as_ptr().add(16 * v).cast())));
                for g in 0..POINTERS {
                    for r in 0..PER_POINTER {
                        let i = g * PER_POINTER + r;
                        if i < BF16_TILE.0 {
                            let pair = *starts[g].wrapping_byte_add(row_stride.wrapping_mul(r));
                            let pair = as_bf16(_mm512_set1_epi32(pair.cast_signed()));
                            for v in 0..2 {
                                sums[i][v] = _mm512_dpbf16_ps(sums[i][v], pair, columns[v]);
                            }
                        }
                    }
                    starts[g] = starts[g].wrapping_add(a.step);
                    opaque(&mut starts[g]);
                }
            }
            for i in 0..BF16_TILE.0 {
                for v in 0..2 {
                    _mm512_storeu_ps(out[i].as_mut_ptr().add(16 * v), sums[i][v]);
                }
            }
        }
    }

    pub(super) fn is_amd() -> bool {
        let vendor = __cpuid(0);
        [vendor.ebx, vendor.edx, vendor.ecx]
            .map(u32::to_le_bytes)
            .as_flattened()
            == b"AuthenticAMD"
    }

    #[inline(always)]
    fn as_bf16(x: __m512i) -> __m512bh {
        // SAFETY: both are 64 bytes, and every bit pattern is valid.
        unsafe { std::mem::transmute(x) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::bf16;

    #[test]
    fn a_tile_holds_sums_of_products_in_pairs() {
        if !has_bf16_dot() {
            return;
        }
        let number = |i: usize| bf16::from_f32((i % 13) as f32 - 6.0);
        let pair =
            |a: bf16, b: bf16| Bf16Pair::from(a.to_bits()) | Bf16Pair::from(b.to_bits()) << 16;
        for pairs in [0, 1, 5, 40] {
            let left = |i: usize, k: usize| number(i * 7 + k * 3);
            let right = |k: usize, j: usize| number(k * 5 + j);
            let a: Vec<Bf16Pair> = (0..BF16_TILE.0 * pairs)
                .map(|at| (at / pairs, at % pairs * 2))
                .map(|(i, k)| pair(left(i, k), left(i, k + 1)))
                .collect();
            let b: Vec<[Bf16Pair; BF16_TILE.1]> = (0..pairs)
                .map(|p| std::array::from_fn(|j| pair(right(2 * p, j), right(2 * p + 1, j))))
                .collect();
            for accumulate in [false, true] {
                let mut out = [[1.0; BF16_TILE.1]; BF16_TILE.0];
                let rows = PairRows {
                    data: &a,
                    row_stride: pairs,
                    step: 1,
                };
                bf16_tile(&mut out, rows, &b, accumulate);
                for (i, row) in out.iter().enumerate() {
                    for (j, &sum) in row.iter().enumerate() {
                        let products =
                            (0..2 * pairs).map(|k| left(i, k).to_f32() * right(k, j).to_f32());
                        let begin = if accumulate { 1.0 } else { 0.0 };
                        assert_eq!(sum, begin + products.sum::<f32>(), "{i} {j}");
                    }
                }
            }
        }
    }
}
