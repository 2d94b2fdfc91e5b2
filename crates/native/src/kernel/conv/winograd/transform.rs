//! The transforms: additions and halves, sixteen features at once.
// Loops are counted, as in the register tiles: all of them are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use crate::simd::multiversion;
use num_traits::Float;

/// Numbers that a patch is transformed into.
pub(super) const PLANES: usize = 16;
/// Features that are transformed at once.
pub(super) const LANES: usize = 16;
/// Places along the side of a patch.
pub(super) const SIDE: usize = 4;
/// Results along the side of the square that it gives.
pub(super) const STEP: usize = 2;

type Lanes<S> = [S; LANES];

#[inline(always)]
fn add<S: Float>(mut a: Lanes<S>, b: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = a[i] + b[i];
    }
    a
}

#[inline(always)]
fn sub<S: Float>(mut a: Lanes<S>, b: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = a[i] - b[i];
    }
    a
}

#[inline(always)]
fn half<S: Float>(mut a: Lanes<S>) -> Lanes<S> {
    let two = S::one() + S::one();
    for i in 0..LANES {
        a[i] = a[i] / two;
    }
    a
}

#[inline(always)]
fn negative<S: Float>(mut a: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = -a[i];
    }
    a
}

/// Four places of a patch.
#[inline(always)]
fn patch_line<S: Float>(d: [Lanes<S>; 4]) -> [Lanes<S>; 4] {
    [
        sub(d[0], d[2]),
        add(d[1], d[2]),
        sub(d[2], d[1]),
        sub(d[1], d[3]),
    ]
}

/// Three taps of a filter.
#[inline(always)]
fn filter_line<S: Float>(g: [Lanes<S>; 3]) -> [Lanes<S>; 4] {
    let outer = add(g[0], g[2]);
    [g[0], half(add(outer, g[1])), half(sub(outer, g[1])), g[2]]
}

/// Two results out of four products.
#[inline(always)]
fn square_line<S: Float>(m: [Lanes<S>; 4]) -> [Lanes<S>; 2] {
    [add(add(m[0], m[1]), m[2]), sub(sub(m[1], m[2]), m[3])]
}

/// Two results' gradients, the other way round.
#[inline(always)]
fn spread_line<S: Float>(y: [Lanes<S>; 2]) -> [Lanes<S>; 4] {
    [y[0], add(y[0], y[1]), sub(y[0], y[1]), negative(y[1])]
}

/// Three taps' gradients out of four sums.
#[inline(always)]
fn taps_line<S: Float>(s: [Lanes<S>; 4]) -> [Lanes<S>; 3] {
    let both = half(add(s[1], s[2]));
    [add(s[0], both), half(sub(s[1], s[2])), add(both, s[3])]
}

/// A transform along both axes.
#[inline(always)]
fn both<S: Float, const I: usize, const O: usize>(
    x: [[Lanes<S>; I]; I],
    line: impl Fn([Lanes<S>; I]) -> [Lanes<S>; O],
) -> [[Lanes<S>; O]; O] {
    let zero = [S::zero(); LANES];
    let mut lines = [[zero; O]; I];
    for i in 0..I {
        lines[i] = line(x[i]);
    }
    let mut out = [[zero; O]; O];
    for j in 0..O {
        let mut column = [zero; I];
        for i in 0..I {
            column[i] = lines[i][j];
        }
        let column = line(column);
        for i in 0..O {
            out[i][j] = column[i];
        }
    }
    out
}

/// A vector of features.
#[inline(always)]
fn load<S: Float>(features: &[S], at: usize) -> Lanes<S> {
    let mut lanes = [S::zero(); LANES];
    lanes.copy_from_slice(&features[at..at + LANES]);
    lanes
}

/// A line of four from planes that lie `plane` apart.
#[inline(always)]
fn load_line<S: Float>(data: &[S], at: usize, plane: usize) -> [Lanes<S>; 4] {
    [
        load(data, at),
        load(data, at + plane),
        load(data, at + 2 * plane),
        load(data, at + 3 * plane),
    ]
}

/// Puts sixteen numbers into their planes.
#[inline(always)]
fn put<S: Float>(out: &mut [S], plane: usize, planes: &[[Lanes<S>; 4]; 4]) {
    for i in 0..4 {
        for j in 0..4 {
            let start = (4 * i + j) * plane;
            out[start..start + LANES].copy_from_slice(&planes[i][j]);
        }
    }
}

multiversion! {
    /// A patch: its numbers go to planes that lie `plane` apart.
    pub(super) fn patch[S: Float](out: &mut [S], plane: usize, places: &[[&[S]; 4]; 4], features: usize) {
        for at in (0..features).step_by(LANES) {
            let mut x = [[[S::zero(); LANES]; 4]; 4];
            for i in 0..4 {
                for j in 0..4 {
                    x[i][j] = load(places[i][j], at);
                }
            }
            put(&mut out[at..], plane, &both(x, patch_line));
        }
    }

    /// Gradients of the four results of a patch.
    pub(super) fn spread[S: Float](out: &mut [S], plane: usize, places: &[[&[S]; 2]; 2], features: usize) {
        for at in (0..features).step_by(LANES) {
            let mut x = [[[S::zero(); LANES]; 2]; 2];
            for i in 0..2 {
                for j in 0..2 {
                    x[i][j] = load(places[i][j], at);
                }
            }
            put(&mut out[at..], plane, &both(x, spread_line));
        }
    }

    /// A filter's taps.
    pub(super) fn filter[S: Float](out: &mut [S], plane: usize, taps: &[[[S; LANES]; 3]; 3]) {
        put(out, plane, &both(*taps, filter_line));
    }

    /// The four results of a patch. Line by line, or the compiler keeps the sixteen numbers in memory.
    pub(super) fn square[S: Float](out: &mut [[[S; LANES]; 2]; 2], data: &[S], plane: usize) {
        let mut lines = [[[S::zero(); LANES]; 2]; 4];
        for i in 0..4 {
            lines[i] = square_line(load_line(data, 4 * i * plane, plane));
        }
        for j in 0..2 {
            let column = square_line([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
            out[0][j] = column[0];
            out[1][j] = column[1];
        }
    }

    /// Gradients of a filter's taps.
    pub(super) fn taps[S: Float](out: &mut [[[S; LANES]; 3]; 3], data: &[S], plane: usize) {
        let mut lines = [[[S::zero(); LANES]; 3]; 4];
        for i in 0..4 {
            lines[i] = taps_line(load_line(data, 4 * i * plane, plane));
        }
        for j in 0..3 {
            let column = taps_line([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
            for i in 0..3 {
                out[i][j] = column[i];
            }
        }
    }
}
