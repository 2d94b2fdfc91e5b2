//! The transforms of F(3×3, 2×2): additions and multiplications by 1/2, sixteen features at a time.
// Counted loops, as in the micro-kernels: all of them are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use super::super::winograd::transform::{
    LANES, Lanes, add, both, half, load, load_line, negative, patch_line, put, sub,
};
use crate::simd::multiversion;
use num_traits::Float;

/// Taps along the side of a phase's window.
pub(super) const TAPS: usize = 2;
/// Results along the side of the square that a patch gives.
pub(super) const STEP: usize = 3;

/// Transforms two taps of a filter. The middle values are twice as large as they should be.
#[inline(always)]
fn tap_line<S: Float>(g: [Lanes<S>; TAPS]) -> [Lanes<S>; 4] {
    [g[0], add(g[0], g[1]), sub(g[0], g[1]), negative(g[1])]
}

/// Transforms the gradients of three results, with the same factor.
#[inline(always)]
fn spread_line<S: Float>(g: [Lanes<S>; STEP]) -> [Lanes<S>; 4] {
    let outer = add(g[0], g[2]);
    [g[0], add(outer, g[1]), sub(outer, g[1]), g[2]]
}

/// Scales the middle values that [`tap_line`] and [`spread_line`] left twice as large.
#[inline(always)]
fn scale_middle<S: Float>([first, second, third, last]: [Lanes<S>; 4]) -> [Lanes<S>; 4] {
    [first, half(second), half(third), last]
}

/// Three results from four products.
#[inline(always)]
fn result_line<S: Float>(m: [Lanes<S>; 4]) -> [Lanes<S>; STEP] {
    let sum = add(m[1], m[2]);
    [add(m[0], sum), sub(m[1], m[2]), add(sum, m[3])]
}

/// The gradients of two taps from four sums.
#[inline(always)]
fn tap_gradient_line<S: Float>(m: [Lanes<S>; 4]) -> [Lanes<S>; TAPS] {
    let [m0, m1, m2, m3] = scale_middle(m);
    [add(m0, add(m1, m2)), sub(sub(m1, m2), m3)]
}

/// The `N × N` values that sixteen planes give. Line by line, because otherwise the compiler keeps the sixteen values
/// in memory.
#[inline(always)]
fn gathered<S: Float, const N: usize>(
    out: &mut [[Lanes<S>; N]; N],
    data: &[S],
    plane: usize,
    line: impl Fn([Lanes<S>; 4]) -> [Lanes<S>; N],
) {
    let mut lines = [[[S::zero(); LANES]; N]; 4];
    for i in 0..4 {
        lines[i] = line(load_line(data, 4 * i * plane, plane));
    }
    for j in 0..N {
        let column = line([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
        for i in 0..N {
            out[i][j] = column[i];
        }
    }
}

/// Some features of all positions.
#[inline(always)]
fn loaded<S: Float, const N: usize>(positions: &[[&[S]; N]; N], at: usize) -> [[Lanes<S>; N]; N] {
    let mut x = [[[S::zero(); LANES]; N]; N];
    for i in 0..N {
        for j in 0..N {
            x[i][j] = load(positions[i][j], at);
        }
    }
    x
}

multiversion! {
    /// Transforms a patch; its values go to planes with stride `plane`.
    pub(super) fn patch[S: Float](out: &mut [S], plane: usize, positions: &[[&[S]; 4]; 4], features: usize) {
        for at in (0..features).step_by(LANES) {
            put(&mut out[at..], plane, &both(loaded(positions, at), patch_line));
        }
    }

    /// Transforms the gradients of a patch's results.
    pub(super) fn spread[S: Float](out: &mut [S], plane: usize, positions: &[[&[S]; STEP]; STEP], features: usize) {
        for at in (0..features).step_by(LANES) {
            put(&mut out[at..], plane, &both(loaded(positions, at), spread_line));
        }
    }

    /// Transforms a filter's taps.
    pub(super) fn filter[S: Float](out: &mut [S], plane: usize, taps: &[[[S; LANES]; TAPS]; TAPS]) {
        put(out, plane, &both(*taps, |line| scale_middle(tap_line(line))));
    }

    /// The results of a patch.
    pub(super) fn square[S: Float](out: &mut [[[S; LANES]; STEP]; STEP], data: &[S], plane: usize) {
        gathered(out, data, plane, result_line);
    }

    /// The gradients of a filter's taps.
    pub(super) fn taps[S: Float](out: &mut [[[S; LANES]; TAPS]; TAPS], data: &[S], plane: usize) {
        gathered(out, data, plane, tap_gradient_line);
    }
}
