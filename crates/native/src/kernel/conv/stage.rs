//! Results whose features lie apart: they are put together with features innermost, as tiles leave them, and turned from there.

use std::ops::Range;

use super::cut::Cut;
use super::slab;
use super::{List, Real};
use crate::parallel::Part;
use crate::simd::{TURNED, Tiled};

/// Elements of a band of places and a panel of features: they are still near when they are turned.
const BAND: usize = 1 << 14;

/// Beginnings of squares that cover so many elements: the last one overlaps its neighbour instead of being short.
pub(super) fn squares(len: usize) -> impl Iterator<Item = usize> {
    let count = if len < TURNED {
        0
    } else {
        len.div_ceil(TURNED)
    };
    (0..count).map(move |i| (i * TURNED).min(len - TURNED))
}

/// Into which sizes a box of places is cut: of each phase as many, outermost axis first.
pub(super) fn band(cuts: &[Cut], sizes: &[usize], columns: usize) -> List<usize> {
    let phases: usize = cuts.iter().map(|cut| cut.phases.len()).product();
    slab::divide(sizes, |sizes| {
        sizes.iter().product::<usize>() * phases * columns <= BAND
    })
}

/// Places of the result, all phases of them, put together.
pub(super) struct Stage {
    /// What lies in between along each axis of the result.
    ranges: List<Range<usize>>,
    /// From one place to the next, in the stage and in the result.
    pub strides: List<isize>,
    out: List<isize>,
    /// What the first place is behind the result's beginning.
    start: isize,
}

impl Stage {
    /// For places that are counted within phases.
    pub fn new(cuts: &[Cut], places: &[Range<usize>], columns: usize) -> Self {
        let ranges: List<Range<usize>> = cuts
            .iter()
            .zip(places)
            .map(|(cut, range)| {
                let period = cut.phases.first().map_or(1, |phase| phase.step);
                range.start * period..cut.out.size.min(range.end * period)
            })
            .collect();
        let sizes: List<usize> = ranges.iter().map(Range::len).collect();
        let strides = slab::strides(&sizes, columns);
        let first = |(cut, range): (&Cut, &Range<usize>)| range.start as isize * cut.out.stride;
        Stage {
            strides: strides.iter().map(|&stride| stride as isize).collect(),
            out: cuts.iter().map(|cut| cut.out.stride).collect(),
            start: cuts.iter().zip(&ranges).map(first).sum(),
            ranges,
        }
    }

    /// Where place 0 of all axes would lie: the first place that is held lies at 0.
    pub fn origin(&self) -> isize {
        let skipped = self.ranges.iter().zip(&self.strides);
        -skipped
            .map(|(range, stride)| range.start as isize * stride)
            .sum::<isize>()
    }

    /// How many elements there are with so many for each place.
    pub fn len(&self, columns: usize) -> usize {
        self.ranges.iter().map(Range::len).product::<usize>() * columns
    }

    /// Writes the first `width` features of all places to `out`, where the first feature of place 0 is at `base` and features
    /// are `apart`.
    pub fn write<T: Real>(
        &self,
        held: &[T::Sum],
        (columns, width): (usize, usize),
        out: &mut Part<'_, T>,
        base: isize,
        apart: isize,
    ) {
        let Some((&step, outer)) = self.out.split_last() else {
            return;
        };
        let line = self.ranges.last().map_or(1, Range::len);
        // Lines that follow each other in the result are one.
        let full: List<usize> = self.ranges[..outer.len()].iter().map(Range::len).collect();
        let ones: List<usize> = full.iter().map(|_| 1).collect();
        let lines = (0..full.iter().product()).map(|index| {
            let corner = slab::corner(&full, &ones, index);
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
                        write_line::<T>(held, (columns, width), out, start, step, apart);
                    }
                    Some((to, index * line, line))
                }
            };
        }
        if let Some((start, from, len)) = open {
            let held = &held[from * columns..(from + len) * columns];
            write_line::<T>(held, (columns, width), out, start, step, apart);
        }
    }
}

/// Writes the first `width` features of places that are `step` from each other; their features are `apart` in the result.
pub(super) fn write_line<T: Real>(
    held: &[T::Sum],
    (columns, width): (usize, usize),
    out: &mut Part<'_, T>,
    start: isize,
    step: isize,
    apart: isize,
) {
    let len = held.len() / columns;
    let turned = match step == 1 && len >= TURNED {
        true => width - width % TURNED,
        false => 0,
    };
    let mut square = [T::Sum::default(); TURNED * TURNED];
    for first in (0..turned).step_by(TURNED) {
        for place in squares(len) {
            let from = (&held[place * columns + first..], columns);
            T::Sum::turn(from, (&mut square, TURNED));
            let at = start + first as isize * apart + place as isize;
            for (j, sums) in square.as_chunks::<TURNED>().0.iter().enumerate() {
                let out = out.slice((at + j as isize * apart) as usize, TURNED);
                if let Some(out) = out.first_chunk_mut::<TURNED>() {
                    *out = sums.map(T::narrow);
                }
            }
        }
    }
    for j in turned..width {
        let at = start + j as isize * apart;
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
