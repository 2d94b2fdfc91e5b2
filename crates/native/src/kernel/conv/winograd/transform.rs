//! The transforms of F(2×2, 3×3): additions and multiplications by 1/2, sixteen features at a time.
// Counted loops, as in the micro-kernels: all of them are unrolled into registers.
#![allow(clippy::needless_range_loop)]

use super::patches::Run;
use crate::simd::{TileShape, multiversion};
use num_traits::Float;

/// Values that a patch is transformed into.
pub(in super::super) const PLANES: usize = 16;
/// Features that are transformed at a time.
pub(in super::super) const LANES: usize = 16;
/// The side length of a patch.
pub(in super::super) const SIDE: usize = 4;
/// Results along the side of the square that it gives.
pub(super) const STEP: usize = 2;

/// Elements of a plane, rounded up so that the sixteen values of a patch do not all map to the same few sets of L1.
pub(super) fn spaced(plane: usize) -> usize {
    (plane.div_ceil(LANES) | 1) * LANES
}

pub(in super::super) type Lanes<S> = [S; LANES];

#[inline(always)]
pub(in super::super) fn add<S: Float>(mut a: Lanes<S>, b: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = a[i] + b[i];
    }
    a
}

#[inline(always)]
pub(in super::super) fn sub<S: Float>(mut a: Lanes<S>, b: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = a[i] - b[i];
    }
    a
}

#[inline(always)]
pub(in super::super) fn half<S: Float>(mut a: Lanes<S>) -> Lanes<S> {
    let two = S::one() + S::one();
    for i in 0..LANES {
        a[i] = a[i] / two;
    }
    a
}

#[inline(always)]
pub(in super::super) fn negative<S: Float>(mut a: Lanes<S>) -> Lanes<S> {
    for i in 0..LANES {
        a[i] = -a[i];
    }
    a
}

/// Transforms four positions of a patch.
#[inline(always)]
pub(in super::super) fn patch_line<S: Float>(d: [Lanes<S>; 4]) -> [Lanes<S>; 4] {
    [
        sub(d[0], d[2]),
        add(d[1], d[2]),
        sub(d[2], d[1]),
        sub(d[1], d[3]),
    ]
}

/// Transforms three taps of a filter.
#[inline(always)]
fn filter_line<S: Float>(g: [Lanes<S>; 3]) -> [Lanes<S>; 4] {
    let outer = add(g[0], g[2]);
    [g[0], half(add(outer, g[1])), half(sub(outer, g[1])), g[2]]
}

/// Two results from four products.
#[inline(always)]
fn square_line<S: Float>(m: [Lanes<S>; 4]) -> [Lanes<S>; 2] {
    [add(add(m[0], m[1]), m[2]), sub(sub(m[1], m[2]), m[3])]
}

/// Transforms the gradients of two results: the transpose of `square_line`.
#[inline(always)]
fn spread_line<S: Float>(y: [Lanes<S>; 2]) -> [Lanes<S>; 4] {
    [y[0], add(y[0], y[1]), sub(y[0], y[1]), negative(y[1])]
}

/// The gradients of three taps from four sums.
#[inline(always)]
fn taps_line<S: Float>(s: [Lanes<S>; 4]) -> [Lanes<S>; 3] {
    let both = half(add(s[1], s[2]));
    [add(s[0], both), half(sub(s[1], s[2])), add(both, s[3])]
}

/// A transform along both axes.
#[inline(always)]
pub(in super::super) fn both<S: Float, const I: usize, const O: usize>(
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

/// The second half of that: transforms columns, which are done, along the other axis.
#[inline(always)]
fn rows<S: Float, const I: usize>(
    columns: &[[Lanes<S>; 4]; I],
    line: impl Fn([Lanes<S>; I]) -> [Lanes<S>; 4],
) -> [[Lanes<S>; 4]; 4] {
    let mut out = [[[S::zero(); LANES]; 4]; 4];
    for i in 0..4 {
        let mut row = [[S::zero(); LANES]; I];
        for j in 0..I {
            row[j] = columns[j][i];
        }
        out[i] = line(row);
    }
    out
}

/// A vector of features.
#[inline(always)]
pub(in super::super) fn load<S: Float>(features: &[S], at: usize) -> Lanes<S> {
    let mut lanes = [S::zero(); LANES];
    lanes.copy_from_slice(&features[at..at + LANES]);
    lanes
}

/// Some features of a column of positions, at an offset from the start of a run.
#[inline(always)]
fn column<S: Float, const N: usize>(
    run: &Run<'_, S, N>,
    behind: usize,
    at: usize,
) -> [Lanes<S>; N] {
    let mut column = [[S::zero(); LANES]; N];
    let x = run.first + behind as isize;
    if x >= 0 && (x as usize) < run.size {
        for i in 0..N {
            column[i] = load(run.lines[i].at(x as usize), at);
        }
    }
    column
}

/// A line of four from planes with stride `plane`.
#[inline(always)]
pub(in super::super) fn load_line<S: Float>(data: &[S], at: usize, plane: usize) -> [Lanes<S>; 4] {
    [
        load(data, at),
        load(data, at + plane),
        load(data, at + 2 * plane),
        load(data, at + 3 * plane),
    ]
}

/// Stores sixteen values in their planes.
#[inline(always)]
pub(in super::super) fn put<S: Float>(out: &mut [S], plane: usize, planes: &[[Lanes<S>; 4]; 4]) {
    for i in 0..4 {
        for j in 0..4 {
            let start = (4 * i + j) * plane;
            out[start..start + LANES].copy_from_slice(&planes[i][j]);
        }
    }
}

multiversion! {
    /// Patches: the values of one have the distance `pitch` from those of the next, in planes with stride `plane`.
    /// Neighbours share two columns of positions, which are transformed along the other axis once. If there are many
    /// features, columns are not shared: contiguous elements are read and written together instead.
    pub(super) fn patches[S: Float](out: &mut [S], pitch: usize, plane: usize, run: &Run<'_, S, 4>) {
        let mut columns = [[[S::zero(); LANES]; 4]; 4];
        if run.features > LANES {
            for i in 0..run.count {
                for at in (0..run.features).step_by(LANES) {
                    for j in 0..4 {
                        columns[j] = patch_line(column(run, STEP * i + j, at));
                    }
                    put(&mut out[i * pitch + at..], plane, &rows(&columns, patch_line));
                }
            }
            return;
        }
        for j in 0..2 {
            columns[j] = patch_line(column(run, j, 0));
        }
        for i in 0..run.count {
            for j in 2..4 {
                columns[j] = patch_line(column(run, STEP * i + j, 0));
            }
            put(&mut out[i * pitch..], plane, &rows(&columns, patch_line));
            columns[0] = columns[2];
            columns[1] = columns[3];
        }
    }

    /// Transforms the gradients of the four results of each patch.
    pub(super) fn spread[S: Float](out: &mut [S], pitch: usize, plane: usize, run: &Run<'_, S, 2>) {
        let mut columns = [[[S::zero(); LANES]; 4]; 2];
        for i in 0..run.count {
            for at in (0..run.features).step_by(LANES) {
                for j in 0..2 {
                    columns[j] = spread_line(column(run, STEP * i + j, at));
                }
                put(&mut out[i * pitch + at..], plane, &rows(&columns, spread_line));
            }
        }
    }

    /// Transforms a filter's taps.
    pub(super) fn filter[S: Float](out: &mut [S], plane: usize, taps: &[[[S; LANES]; 3]; 3]) {
        put(out, plane, &both(*taps, filter_line));
    }

    /// The results of neighbouring patches, `size` lines and positions of them, with these `strides`. Their products
    /// are in the rows from `row` on of register tiles with sixteen planes each. Line by line, because otherwise the
    /// compiler keeps the sixteen values in memory.
    pub(super) fn squares[S: Float](out: &mut [S], strides: [usize; 2], size: [usize; 2], accumulators: &[S], row: usize, shape: TileShape) {
        let plane = shape.rows * shape.columns;
        let (mut tile, mut row) = (row / shape.rows * PLANES * plane, row % shape.rows);
        for x in (0..size[1]).step_by(STEP) {
            let data = &accumulators[tile + row * shape.columns..];
            let mut lines = [[[S::zero(); LANES]; 2]; 4];
            for i in 0..4 {
                lines[i] = square_line(load_line(data, 4 * i * plane, plane));
            }
            for j in 0..2 {
                let column = square_line([lines[0][j], lines[1][j], lines[2][j], lines[3][j]]);
                for i in 0..2 {
                    if i < size[0] && x + j < size[1] {
                        let to = i * strides[0] + (x + j) * strides[1];
                        out[to..to + LANES].copy_from_slice(&column[i]);
                    }
                }
            }
            row += 1;
            if row == shape.rows {
                (tile, row) = (tile + PLANES * plane, 0);
            }
        }
    }

    /// The gradients of a filter's taps.
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
