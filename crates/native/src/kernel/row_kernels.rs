//! Row kernels for fused programs, compiled for each instruction set like all of the engine's loops.

use crate::simd::multiversion;

multiversion! {
    /// `out[i] = f(x[i])`
    pub fn map1[F: Fn(f32) -> f32](out: &mut [f32], x: &[f32], f: F) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f(x);
        }
    }

    /// `out[i] = f(x[i], y[i])`
    pub fn map2[F: Fn(f32, f32) -> f32](out: &mut [f32], x: &[f32], y: &[f32], f: F) {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = f(x, y);
        }
    }

    /// `out[i] = f(x[i], y[i], z[i])`
    pub fn map3[F: Fn(f32, f32, f32) -> f32](out: &mut [f32], x: &[f32], y: &[f32], z: &[f32], f: F) {
        for (((out, &x), &y), &z) in out.iter_mut().zip(x).zip(y).zip(z) {
            *out = f(x, y, z);
        }
    }

    /// `out[i] = f(x[i], y[i])` for bools, which are 0 or 1.
    pub fn map2_bool[F: Fn(u8, u8) -> u8](out: &mut [u8], x: &[u8], y: &[u8], f: F) {
        for ((out, &x), &y) in out.iter_mut().zip(x).zip(y) {
            *out = f(x, y);
        }
    }

    /// 1 where a bool is 1, 0 elsewhere.
    pub fn bool_to_float(out: &mut [f32], x: &[u8]) {
        for (out, &x) in out.iter_mut().zip(x) {
            *out = f32::from(x);
        }
    }

    /// The square root of positive numbers, 0 of anything else.
    pub fn positive_sqrt(out: &mut [f32], x: &[f32]) {
        for (out, &x) in out.iter_mut().zip(x) {
            let root = x.sqrt();
            *out = if x > 0.0 { root } else { 0.0 };
        }
    }

    /// `sums[i] += row[i]`
    pub fn accumulate(sums: &mut [f32], row: &[f32]) {
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum += x;
        }
    }

    /// `out[i][j] = Σ a[i][p] b[p · step + j]`, summed in the order of `p`: a register tile of a GEMM.
    pub fn gemm_tile[const M: usize, const N: usize](out: &mut [[f32; N]; M], a: &[&[f32]; M], b: &[f32], step: usize) {
        let mut sums = [[0f32; N]; M];
        let k = a.first().map_or(0, |a| a.len());
        let a: [&[f32]; M] = std::array::from_fn(|i| &a[i][..k]);
        for p in 0..k {
            let Some(b) = b[p * step..].first_chunk::<N>() else { break };
            for i in 0..M {
                let x = a[i][p];
                for j in 0..N {
                    sums[i][j] = x.mul_add(b[j], sums[i][j]);
                }
            }
        }
        *out = sums;
    }
}
