//! Sliding windows as loops: what to read for every position of the result.
//!
//! Axes fall into three kinds. Along *free* axes the window is one element wide, so they only shift all offsets. One
//! free axis that is contiguous in both arrays, if there is one, becomes the *lanes* that a vector loop runs along. The
//! rest is divided into *jobs*: runs of positions along one axis that all read the same taps, listed once and used for
//! every position of the free axes. Positions at a border have fewer reads, so padding costs nothing and is never read.

use std::ops::Range;

use crate::kernel::conv::List;
use crate::kernel::conv::phases::PhasedAxis;

/// An axis with its contribution to the index of a tap.
pub(crate) struct LoopAxis {
    pub cut: PhasedAxis,
    /// The stride of taps of this axis.
    pub tap: usize,
    /// The tap stride of positions: the channel axis of a filter.
    pub position: usize,
}

/// An axis along which nothing is folded.
#[derive(Clone, Copy, Debug)]
struct Free {
    size: usize,
    read: isize,
    write: isize,
    tap: usize,
}

/// A run of positions with equal reads.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// First position in the result.
    pub write: isize,
    pub count: usize,
    /// Its range of the loops' reads.
    pub reads: Range<usize>,
}

/// The loops over a sliding window.
pub(crate) struct WindowLoops {
    free: List<Free>,
    /// Length of the vector axis; 1 if there is none.
    pub lanes: usize,
    /// The tap stride of lanes.
    pub lane_tap: usize,
    pub jobs: Vec<Job>,
    /// The read offset of each job's first position, and its tap.
    pub reads: Vec<(isize, usize)>,
    /// Strides between the positions of a job, in the input and in the result.
    pub read_step: isize,
    pub write_step: isize,
    /// Jobs that together write whole lines of the result.
    pub rows: Vec<Range<usize>>,
    /// The length of a row, if rows are contiguous in the result and jobs within a row.
    pub row_length: Option<usize>,
}

impl WindowLoops {
    /// `read` and `write` are the offsets at which the arrays begin.
    pub fn new(read: isize, write: isize, axes: impl IntoIterator<Item = LoopAxis>) -> Self {
        let (mut free, mut moving) = (List::<Free>::new(), Vec::new());
        let mut origin = (read, 0);
        for axis in axes {
            let cut = &axis.cut;
            let one = cut.phases.len() == 1 && cut.phases[0].taps.len() == 1;
            if one && cut.first >= 0 && cut.first as usize + cut.reach(cut.count) <= cut.source.size
            {
                origin.0 += cut.first * cut.source.stride;
                origin.1 += cut.phases[0].taps[0].0 * axis.tap;
                free.push(Free {
                    size: cut.count,
                    read: cut.advance as isize * cut.source.stride,
                    write: cut.out.stride,
                    tap: axis.position,
                });
            } else {
                moving.push(axis);
            }
        }
        free.retain(|axis| axis.size > 1);
        let lanes = free
            .iter()
            .position(|axis| axis.read == 1 && axis.write == 1 && axis.size >= 4);
        let lanes = lanes.map(|i| free.remove(i));
        // The job axis is the one with the smallest stride.
        moving.sort_by_key(|axis| std::cmp::Reverse(axis.cut.out.stride.unsigned_abs()));
        let mut loops = WindowLoops {
            free,
            lanes: lanes.map_or(1, |axis| axis.size),
            lane_tap: lanes.map_or(0, |axis| axis.tap),
            jobs: Vec::new(),
            reads: Vec::new(),
            read_step: 0,
            write_step: 0,
            rows: Vec::new(),
            row_length: None,
        };
        let inner = moving.pop();
        loops.list_rows(&moving, inner.as_ref(), write, &[origin]);
        loops.row_length = loops.find_row_length();
        loops
    }

    fn find_row_length(&self) -> Option<usize> {
        let row = self.rows.first()?;
        let length = |job: &Job| job.count * self.lanes;
        let row_length = self.jobs[row.clone()].iter().map(length).sum();
        let mut at = self.jobs.first()?.write;
        let mut follow = self.write_step == self.lanes as isize;
        for row in &self.rows {
            let start = at;
            for job in &self.jobs[row.clone()] {
                follow &= job.write == at;
                at += length(job) as isize;
            }
            follow &= at - start == row_length as isize;
        }
        follow.then_some(row_length)
    }

    /// Recurses into the outer window axes, with the reads of the position reached so far.
    fn list_rows(
        &mut self,
        outer: &[LoopAxis],
        inner: Option<&LoopAxis>,
        write: isize,
        reads: &[(isize, usize)],
    ) {
        let Some((axis, outer)) = outer.split_first() else {
            return self.list_jobs(inner, write, reads);
        };
        let cut = &axis.cut;
        for position in 0..cut.out.size {
            let phase = &cut.phases[position % cut.phases.len()];
            let shift = (position / phase.step * cut.advance) as isize;
            let mut next = Vec::with_capacity(reads.len() * phase.taps.len());
            for &(read, tap) in reads {
                for &(t, at) in &phase.taps {
                    let at = at + shift;
                    if (0..cut.source.size as isize).contains(&at) {
                        let tap = tap + t * axis.tap + position * axis.position;
                        next.push((read + at * cut.source.stride, tap));
                    }
                }
            }
            self.list_rows(
                outer,
                inner,
                write + position as isize * cut.out.stride,
                &next,
            );
        }
    }

    /// Lists the jobs of one row: runs between the positions where a tap enters or leaves the input.
    fn list_jobs(&mut self, inner: Option<&LoopAxis>, write: isize, outer: &[(isize, usize)]) {
        let first_job = self.jobs.len();
        let point = LoopAxis {
            cut: PhasedAxis::batch(1, 0, 0),
            tap: 0,
            position: 0,
        };
        let axis = inner.unwrap_or(&point);
        let cut = &axis.cut;
        self.read_step = cut.advance as isize * cut.source.stride;
        self.write_step =
            cut.out.stride * cut.phases.first().map_or(1, |phase| phase.step) as isize;
        for phase in &cut.phases {
            let ranges: Vec<Range<usize>> = phase
                .taps
                .iter()
                .map(|tap| valid(tap.1, cut.advance, cut.source.size, phase.count))
                .collect();
            let mut edges: Vec<usize> = ranges.iter().flat_map(|r| [r.start, r.end]).collect();
            edges.extend([0, phase.count]);
            edges.retain(|&edge| edge <= phase.count);
            edges.sort_unstable();
            edges.dedup();
            for pair in edges.windows(2) {
                let start = self.reads.len();
                for &(read, tap) in outer {
                    for ((t, at), range) in phase.taps.iter().zip(&ranges) {
                        if range.contains(&pair[0]) {
                            let at = at + (pair[0] * cut.advance) as isize;
                            self.reads
                                .push((read + at * cut.source.stride, tap + t * axis.tap));
                        }
                    }
                }
                let position = phase.first + pair[0] * phase.step;
                self.jobs.push(Job {
                    write: write + position as isize * cut.out.stride,
                    count: pair[1] - pair[0],
                    reads: start..self.reads.len(),
                });
            }
        }
        self.rows.push(first_job..self.jobs.len());
    }

    /// Orders the reads of every job by their taps.
    pub fn order_reads(&mut self) {
        for job in &self.jobs {
            self.reads[job.reads.clone()].sort_unstable_by_key(|read| read.1);
        }
    }

    /// The number of positions of the free axes.
    pub fn positions(&self) -> usize {
        self.free.iter().map(|axis| axis.size).product()
    }

    /// What the `index`-th position adds to reads, writes and taps.
    pub fn position(&self, mut index: usize) -> (isize, isize, usize) {
        let (mut read, mut write, mut tap) = (0, 0, 0);
        for axis in self.free.iter().rev() {
            let i = index % axis.size;
            index /= axis.size;
            read += i as isize * axis.read;
            write += i as isize * axis.write;
            tap += i * axis.tap;
        }
        (read, write, tap)
    }
}

/// The positions whose read at `at + q·advance` is within `0..size`.
fn valid(at: isize, advance: usize, size: usize, count: usize) -> Range<usize> {
    let first = if at < 0 {
        at.unsigned_abs().div_ceil(advance)
    } else {
        0
    };
    let space = (size as isize - at).max(0) as usize;
    let end = count.min(space.div_ceil(advance));
    first.min(end)..end
}
