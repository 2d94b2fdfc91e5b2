//! Staging for results whose features are not contiguous: tiles write them with features innermost, and they are
//! transposed on the way to the result.

use std::ops::Range;

use super::blocking;
use super::phases::PhasedAxis;
use super::{List, Real};
use crate::parallel::TaskSlice;
use crate::simd::{TRANSPOSE_SIZE, Tiled};

/// Elements of a band of positions and a panel of features: they are still in cache when they are transposed.
const BAND: usize = 1 << 14;

/// Starts of blocks that cover so many elements: the last block overlaps its neighbour instead of being short.
pub(super) fn squares(len: usize) -> impl Iterator<Item = usize> {
    let count = if len < TRANSPOSE_SIZE {
        0
    } else {
        len.div_ceil(TRANSPOSE_SIZE)
    };
    (0..count).map(move |i| (i * TRANSPOSE_SIZE).min(len - TRANSPOSE_SIZE))
}

/// Sizes that a box of positions is divided into: the same number for each phase, outermost axis first.
pub(super) fn band(cuts: &[PhasedAxis], sizes: &[usize], columns: usize) -> List<usize> {
    let phases: usize = cuts.iter().map(|cut| cut.phases.len()).product();
    blocking::divide(sizes, |sizes| {
        sizes.iter().product::<usize>() * phases * columns <= BAND
    })
}

/// Staged positions of the result, of all phases.
pub(super) struct StagingBuffer {
    /// The range of result positions along each axis.
    ranges: List<Range<usize>>,
    /// Strides between positions, in the staging buffer and in the result.
    pub strides: List<isize>,
    out: List<isize>,
    /// The offset of the first position in the result.
    start: isize,
}

impl StagingBuffer {
    /// For positions that are counted within phases.
    pub fn new(cuts: &[PhasedAxis], positions: &[Range<usize>], columns: usize) -> Self {
        let ranges: List<Range<usize>> = cuts
            .iter()
            .zip(positions)
            .map(|(cut, range)| {
                let period = cut.phases.first().map_or(1, |phase| phase.step);
                range.start * period..cut.out.size.min(range.end * period)
            })
            .collect();
        let sizes: List<usize> = ranges.iter().map(Range::len).collect();
        let strides = blocking::strides(&sizes, columns);
        let first =
            |(cut, range): (&PhasedAxis, &Range<usize>)| range.start as isize * cut.out.stride;
        StagingBuffer {
            strides: strides.iter().map(|&stride| stride as isize).collect(),
            out: cuts.iter().map(|cut| cut.out.stride).collect(),
            start: cuts.iter().zip(&ranges).map(first).sum(),
            ranges,
        }
    }

    /// The offset at which position 0 of all axes would be: the first staged position is at 0.
    pub fn origin(&self) -> isize {
        let skipped = self.ranges.iter().zip(&self.strides);
        -skipped
            .map(|(range, stride)| range.start as isize * stride)
            .sum::<isize>()
    }

    /// The number of elements for so many columns per position.
    pub fn len(&self, columns: usize) -> usize {
        self.ranges.iter().map(Range::len).product::<usize>() * columns
    }

    /// Writes the first `width` features of all positions to `out`, where the first feature of position 0 is at `base`
    /// and features have the stride `feature_stride`.
    pub fn write<T: Real>(
        &self,
        held: &[T::Sum],
        (columns, width): (usize, usize),
        out: &mut TaskSlice<'_, T>,
        base: isize,
        feature_stride: isize,
    ) {
        let Some((&step, outer)) = self.out.split_last() else {
            return;
        };
        let line = self.ranges.last().map_or(1, Range::len);
        // Lines that are adjacent in the result are merged.
        let full: List<usize> = self.ranges[..outer.len()].iter().map(Range::len).collect();
        let ones: List<usize> = full.iter().map(|_| 1).collect();
        let lines = (0..full.iter().product()).map(|index| {
            let corner = blocking::corner(&full, &ones, index);
            let shift = corner
                .iter()
                .zip(outer)
                .map(|(&at, &stride)| at as isize * stride);
            base + self.start + shift.sum::<isize>()
        });
        let mut open: Option<(isize, usize, usize)> = None;
        for (index, to) in lines.enumerate() {
            open = match open {
                Some((start, from, len)) if start + len as isize * step == to => {
                    Some((start, from, len + line))
                }
                before => {
                    if let Some((start, from, len)) = before {
                        let held = &held[from * columns..(from + len) * columns];
                        write_line::<T>(held, (columns, width), out, start, step, feature_stride);
                    }
                    Some((to, index * line, line))
                }
            };
        }
        if let Some((start, from, len)) = open {
            let held = &held[from * columns..(from + len) * columns];
            write_line::<T>(held, (columns, width), out, start, step, feature_stride);
        }
    }
}

/// Writes the first `width` features of positions with stride `step`; their features have the stride `feature_stride`
/// in the result.
pub(super) fn write_line<T: Real>(
    held: &[T::Sum],
    (columns, width): (usize, usize),
    out: &mut TaskSlice<'_, T>,
    start: isize,
    step: isize,
    feature_stride: isize,
) {
    let len = held.len() / columns;
    let transposed = match step == 1 && len >= TRANSPOSE_SIZE {
        true => width - width % TRANSPOSE_SIZE,
        false => 0,
    };
    let mut square = [T::Sum::default(); TRANSPOSE_SIZE * TRANSPOSE_SIZE];
    for first in (0..transposed).step_by(TRANSPOSE_SIZE) {
        for position in squares(len) {
            let from = (&held[position * columns + first..], columns);
            T::Sum::transpose16(from, (&mut square, TRANSPOSE_SIZE));
            let at = start + first as isize * feature_stride + position as isize;
            for (j, sums) in square.as_chunks::<TRANSPOSE_SIZE>().0.iter().enumerate() {
                let out = out.slice((at + j as isize * feature_stride) as usize, TRANSPOSE_SIZE);
                if let Some(out) = out.first_chunk_mut::<TRANSPOSE_SIZE>() {
                    *out = sums.map(T::narrow);
                }
            }
        }
    }
    for j in transposed..width {
        let at = start + j as isize * feature_stride;
        let column = held[j..].iter().step_by(columns);
        if step == 1 {
            for (out, &sum) in out.slice(at as usize, len).iter_mut().zip(column) {
                *out = T::narrow(sum);
            }
        } else {
            for (i, &sum) in column.enumerate() {
                out.set((at + i as isize * step) as usize, T::narrow(sum));
            }
        }
    }
}
