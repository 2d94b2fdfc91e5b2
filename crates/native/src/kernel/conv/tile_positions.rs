//! Output positions of a box as register tiles process them: in runs whose windows read the same taps.
//!
//! At a border of the image a part of the window lies in the padding. Lines of positions there form tiles of their own,
//! which skip those taps. The taps that a position reads depend on the position alone, so dividing boxes differently
//! gives bit-identical results.

use std::ops::Range;

use super::List;
use super::phases::{Phase, PhasedAxis};
use crate::simd::{Segment, uniform_step};

/// The number of window kinds beyond which distinguishing them costs more than it saves.
const MANY: usize = 64;

/// One phase of each axis.
pub(super) struct Combo {
    pub phases: List<usize>,
    /// Taps as segments of the contraction, for each kind of window; `b` counts from the start of a panel.
    pub segments: Vec<Vec<Segment>>,
    /// The offset of each tap in the filter.
    pub taps: Vec<isize>,
    /// Where the combination's part of a panel begins.
    pub start: usize,
    /// For each axis, the kind of each position along it: its contribution to the index of the window's kind. Empty if
    /// there is one kind.
    kinds: List<Vec<usize>>,
}

impl Combo {
    /// Lists taps and segments. `strides` are those of the input as the tiles read it, `f` features are contiguous
    /// there, `whole` says that all taps are read everywhere, `start` is where the panel's part begins.
    pub fn new(
        cuts: &[PhasedAxis],
        phases: List<usize>,
        strides: &[usize],
        (f, columns): (usize, usize),
        whole: bool,
        start: usize,
    ) -> Self {
        // Offsets in the input and in the filter, and the tap of each axis, built up axis by axis.
        let mut taps = vec![(0usize, 0isize, List::<usize>::new())];
        for ((cut, &phase), &stride) in cuts.iter().zip(&phases).zip(strides) {
            taps = taps
                .iter()
                .flat_map(|(x, w, path)| {
                    let reads = cut.phases[phase].taps.iter().enumerate();
                    reads.map(move |(i, &(t, at))| {
                        let mut path = path.clone();
                        path.push(i);
                        let read = x + (at - cut.first) as usize * stride;
                        (read, w + t as isize * cut.rhs, path)
                    })
                })
                .collect();
        }
        let (kinds, reaches) = kinds(cuts, &phases, whole);
        let segments = |reach: &List<Range<usize>>| {
            let mut segments: Vec<Segment> = Vec::new();
            for (i, (a, _, path)) in taps.iter().enumerate() {
                if path
                    .iter()
                    .zip(reach)
                    .any(|(tap, reach)| !reach.contains(tap))
                {
                    continue;
                }
                let (a, b) = (*a, i * f * columns);
                match segments.last_mut() {
                    // Taps that are neighbours in both operands form one segment.
                    Some(last) if last.a + last.len == a && last.b + last.len * columns == b => {
                        last.len += f;
                    }
                    _ => segments.push(Segment { a, b, len: f }),
                }
            }
            segments
        };
        Combo {
            segments: reaches.iter().map(segments).collect(),
            taps: taps.iter().map(|tap| tap.1).collect(),
            phases,
            start,
            kinds,
        }
    }
}

/// The kinds of positions along each axis, and the taps of each axis that the windows of every kind read.
fn kinds(
    cuts: &[PhasedAxis],
    phases: &[usize],
    whole: bool,
) -> (List<Vec<usize>>, Vec<List<Range<usize>>>) {
    let (mut kinds, mut reaches) = (List::new(), vec![List::new()]);
    for (i, (cut, &phase)) in cuts.iter().zip(phases).enumerate() {
        let phase = &cut.phases[phase];
        let all = || std::iter::once(0..phase.taps.len()).collect();
        // Along the last axis positions share tiles, so they share what they read.
        let (each, mut own) = match whole || i + 1 == cuts.len() {
            true => (Vec::new(), all()),
            false => reached(cut, phase),
        };
        if own.len() * reaches.len() > MANY {
            own = all();
        }
        let before = reaches.len();
        kinds.push(match own.len() {
            1 => Vec::new(),
            _ => each.iter().map(|kind| kind * before).collect(),
        });
        reaches = own
            .iter()
            .flat_map(|range| {
                reaches.iter().map(|reach: &List<Range<usize>>| {
                    let mut reach = reach.clone();
                    reach.push(range.clone());
                    reach
                })
            })
            .collect();
    }
    (kinds, reaches)
}

/// For each position of a phase the index of its range of taps within the input, and the list of these ranges.
fn reached(cut: &PhasedAxis, phase: &Phase) -> (Vec<usize>, Vec<Range<usize>>) {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    let kinds = (0..phase.count).map(|q| {
        let shift = (q * cut.advance) as isize;
        // Taps are ordered by the elements they read.
        let start = phase.taps.partition_point(|tap| tap.1 + shift < 0);
        let end = phase
            .taps
            .partition_point(|tap| tap.1 + shift < cut.source.size as isize);
        let range = start..end.max(start);
        ranges.iter().position(|r| *r == range).unwrap_or_else(|| {
            ranges.push(range);
            ranges.len() - 1
        })
    });
    (kinds.collect(), ranges)
}

/// Read and write offsets of positions: along each axis a first offset and a stride.
pub(super) struct Grid<'a> {
    pub cuts: &'a [PhasedAxis],
    pub combo: &'a Combo,
    /// The positions of each axis, counted within a phase.
    pub positions: &'a [Range<usize>],
    pub read: usize,
    pub read_strides: &'a [usize],
    pub write: isize,
    pub write_strides: &'a [isize],
}

/// The positions of a box; reused from box to box for its memory.
#[derive(Default)]
pub(super) struct Positions {
    pub reads: Vec<usize>,
    pub writes: Vec<usize>,
    pub tiles: Vec<PositionTile>,
    /// Runs of positions whose windows are of one kind: length and kind.
    runs: Vec<(usize, usize)>,
}

/// Positions that form a tile.
pub(super) struct PositionTile {
    pub positions: Range<usize>,
    /// The kind of their windows.
    pub kind: usize,
    /// Their stride in the input and in the result, if it is constant and the tile is full.
    pub read_step: Option<usize>,
    pub write_step: Option<usize>,
}

impl Positions {
    /// Lists the positions of a box that belong to a combination of phases, and tiles of `rows` of them.
    pub fn list(&mut self, grid: &Grid<'_>, rows: usize) {
        self.reads.clear();
        self.writes.clear();
        self.runs.clear();
        self.tiles.clear();
        self.go(grid, 0, grid.read, grid.write, 0);
        let mut before = 0;
        for &(count, kind) in &self.runs {
            for tile in 0..count.div_ceil(rows) {
                // The last tile overlaps its neighbour instead of being short; it computes the same sums again.
                let start = before + (tile * rows).min(count.saturating_sub(rows));
                let positions = start..(before + count).min(start + rows);
                let step = |offsets: &[usize]| uniform_step(&offsets[positions.clone()]);
                let full = positions.len() == rows;
                self.tiles.push(PositionTile {
                    kind,
                    read_step: full.then(|| step(&self.reads)).flatten(),
                    write_step: full.then(|| step(&self.writes)).flatten(),
                    positions,
                });
            }
            before += count;
        }
    }

    fn go(&mut self, grid: &Grid<'_>, axis: usize, read: usize, write: isize, kind: usize) {
        let (cut, range) = (&grid.cuts[axis], &grid.positions[axis]);
        let phase = &cut.phases[grid.combo.phases[axis]];
        let (read_step, write_step) = (
            cut.advance * grid.read_strides[axis],
            grid.write_strides[axis],
        );
        let positions = (range.start..range.end.min(phase.count)).map(|q| {
            let read = read + (q - range.start) * read_step;
            let write = write + (phase.first + q * phase.step) as isize * write_step;
            (q, read, write)
        });
        if axis + 1 < grid.cuts.len() {
            let kinds = &grid.combo.kinds[axis];
            for (q, read, write) in positions {
                let own = kinds.get(q).copied().unwrap_or(0);
                self.go(grid, axis + 1, read, write, kind + own);
            }
            return;
        }
        let before = self.reads.len();
        self.reads
            .extend(positions.clone().map(|position| position.1));
        self.writes
            .extend(positions.map(|position| position.2 as usize));
        let count = self.reads.len() - before;
        match self.runs.last_mut() {
            Some(last) if last.1 == kind => last.0 += count,
            _ => self.runs.push((count, kind)),
        }
    }
}
