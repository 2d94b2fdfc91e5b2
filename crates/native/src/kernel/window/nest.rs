//! Moving windows as loops: what to read for every place of the result.
//!
//! Axes fall in three kinds. Along *free* axes the window is one element wide, so they only shift
//! everything. One free axis that is contiguous in both arrays, if there is one, becomes the *lanes*
//! that a vector loop runs along. The rest is cut into *jobs*: runs of places along one axis that all
//! read the same taps, listed once and used for every position of the free axes. Places at a border
//! simply have fewer reads, so padding costs nothing and is never touched.

use std::marker::PhantomData;
use std::ops::Range;

use crate::kernel::conv::List;
use crate::kernel::conv::cut::Cut;
use crate::parallel::{self, Part};
use crate::simd::multiversion;

/// How a window's elements become one.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    /// What is read and written.
    type Item: Copy + Send + Sync;
    /// What is kept in between, and what the taps of a filter are.
    type Sum: Copy + Send + Sync;
    /// Whether there is a filter.
    const TAPS: bool;
    fn start() -> Self::Sum;
    fn fold(sum: Self::Sum, x: Self::Item, tap: Self::Sum) -> Self::Sum;
    fn finish(sum: Self::Sum) -> Self::Item;
}

/// An axis with its part in the index of a tap.
pub(crate) struct NestAxis {
    pub cut: Cut,
    /// From one tap of this axis to the next.
    pub tap: usize,
    /// From one place to the next: the channel axis of a filter.
    pub place: usize,
}

/// An axis along which nothing is folded.
#[derive(Clone, Copy, Debug)]
struct Free {
    size: usize,
    read: isize,
    write: isize,
    tap: usize,
}

/// A run of places with equal reads.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// First place in the result.
    pub write: isize,
    pub count: usize,
    /// Which of the nest's reads.
    pub reads: Range<usize>,
}

/// The loops over a moving window.
pub(crate) struct Nest {
    free: List<Free>,
    /// Length of the vector axis; 1 if there is none.
    pub lanes: usize,
    /// From one lane's tap to the next.
    lane_tap: usize,
    pub jobs: Vec<Job>,
    /// Where each job's first place reads, and the tap it meets.
    pub reads: Vec<(isize, usize)>,
    /// Between the places of a job, in the input and in the result.
    pub read_step: isize,
    pub write_step: isize,
    /// Jobs that together write whole lines of the result.
    rows: Vec<Range<usize>>,
}

impl Nest {
    /// `read` and `write` are where the arrays begin.
    pub fn new(read: isize, write: isize, axes: impl IntoIterator<Item = NestAxis>) -> Self {
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
                    tap: axis.place,
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
        // The job axis is the one whose places lie closest.
        moving.sort_by_key(|axis| std::cmp::Reverse(axis.cut.out.stride.unsigned_abs()));
        let mut nest = Nest {
            free,
            lanes: lanes.map_or(1, |axis| axis.size),
            lane_tap: lanes.map_or(0, |axis| axis.tap),
            jobs: Vec::new(),
            reads: Vec::new(),
            read_step: 0,
            write_step: 0,
            rows: Vec::new(),
        };
        let inner = moving.pop();
        nest.list_rows(&moving, inner.as_ref(), write, &[origin]);
        nest
    }

    /// Goes down the outer moving axes, carrying the reads of the place reached so far.
    fn list_rows(
        &mut self,
        outer: &[NestAxis],
        inner: Option<&NestAxis>,
        write: isize,
        reads: &[(isize, usize)],
    ) {
        let Some((axis, outer)) = outer.split_first() else {
            return self.list_jobs(inner, write, reads);
        };
        let cut = &axis.cut;
        for place in 0..cut.out.size {
            let phase = &cut.phases[place % cut.phases.len()];
            let shift = (place / phase.step * cut.advance) as isize;
            let mut next = Vec::with_capacity(reads.len() * phase.taps.len());
            for &(read, tap) in reads {
                for &(t, at) in &phase.taps {
                    let at = at + shift;
                    if (0..cut.source.size as isize).contains(&at) {
                        let tap = tap + t * axis.tap + place * axis.place;
                        next.push((read + at * cut.source.stride, tap));
                    }
                }
            }
            self.list_rows(outer, inner, write + place as isize * cut.out.stride, &next);
        }
    }

    /// Lists the jobs of one row: runs between the places where a tap enters or leaves the input.
    fn list_jobs(&mut self, inner: Option<&NestAxis>, write: isize, outer: &[(isize, usize)]) {
        let first_job = self.jobs.len();
        let point = NestAxis {
            cut: Cut::batch(1, 0, 0),
            tap: 0,
            place: 0,
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
                let place = phase.first + pair[0] * phase.step;
                self.jobs.push(Job {
                    write: write + place as isize * cut.out.stride,
                    count: pair[1] - pair[0],
                    reads: start..self.reads.len(),
                });
            }
        }
        self.rows.push(first_job..self.jobs.len());
    }

    /// Puts the reads of every job in the order of their taps.
    pub fn order_reads(&mut self) {
        for job in &self.jobs {
            self.reads[job.reads.clone()].sort_unstable_by_key(|read| read.1);
        }
    }

    /// Positions of the free axes.
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

    /// Folds the window at every place; `parallel` from so many reads on.
    pub fn run<F: Fold>(
        &self,
        out: &mut [F::Item],
        x: &[F::Item],
        taps: &[F::Sum],
        parallel: usize,
    ) {
        let rows = self.rows.len();
        let units = self.positions() * rows;
        if units == 0 {
            return;
        }
        let work = self.positions().saturating_mul(self.lanes);
        let work = self
            .jobs
            .iter()
            .map(|job| job.count * job.reads.len().max(1))
            .sum::<usize>()
            .saturating_mul(work);
        let each = if work < parallel {
            units
        } else {
            (units * (parallel / 8)).div_ceil(work).max(1)
        };
        parallel::for_disjoint(out, units.div_ceil(each), Vec::new, |buffer, task, out| {
            for unit in task * each..units.min((task + 1) * each) {
                let position = self.position(unit / rows);
                for job in &self.jobs[self.rows[unit % rows].clone()] {
                    self.run_job::<F>(buffer, job, position, x, taps, out);
                }
            }
        });
    }

    fn run_job<F: Fold>(
        &self,
        buffer: &mut Vec<F::Item>,
        job: &Job,
        (read, write, tap): (isize, isize, usize),
        x: &[F::Item],
        taps: &[F::Sum],
        out: &mut Part<'_, F::Item>,
    ) {
        let line = Line {
            count: job.count,
            lanes: self.lanes,
            step: self.read_step,
            read,
            tap,
            lane_tap: self.lane_tap,
        };
        let reads = &self.reads[job.reads.clone()];
        let (start, len) = ((job.write + write) as usize, job.count * self.lanes);
        if self.write_step == self.lanes as isize || job.count == 1 {
            return fold_line(
                PhantomData::<F>,
                out.slice(start, len),
                x,
                reads,
                taps,
                line,
            );
        }
        // Places lie apart, and what lies between them may be another task's.
        buffer.clear();
        buffer.resize(len, F::finish(F::start()));
        fold_line(PhantomData::<F>, buffer, x, reads, taps, line);
        for (i, line) in buffer.chunks_exact(self.lanes).enumerate() {
            let start = start as isize + i as isize * self.write_step;
            out.slice(start as usize, self.lanes).copy_from_slice(line);
        }
    }
}

/// The places whose read at `at + q·advance` is inside `0..size`.
fn valid(at: isize, advance: usize, size: usize, count: usize) -> Range<usize> {
    let first = if at < 0 {
        at.unsigned_abs().div_ceil(advance)
    } else {
        0
    };
    let room = (size as isize - at).max(0) as usize;
    let end = count.min(room.div_ceil(advance));
    first.min(end)..end
}

/// How a job walks its reads.
#[derive(Clone, Copy)]
struct Line {
    count: usize,
    lanes: usize,
    step: isize,
    read: isize,
    tap: usize,
    lane_tap: usize,
}

multiversion! {
    /// Folds `count` places of `lanes` elements, all with the same reads.
    fn fold_line[F: Fold](_fold: PhantomData<F>, out: &mut [F::Item], x: &[F::Item], reads: &[(isize, usize)], taps: &[F::Sum], line: Line) {
        let Line { count, lanes, step, .. } = line;
        if lanes == 1 && step != 1 {
            return strided::<F>(out, x, reads, taps, line);
        }
        // Contiguous from place to place as well: one long line, unless the taps differ by lane.
        let flat = step == lanes as isize && !(F::TAPS && line.lane_tap > 0);
        let (lines, len) = if flat { (1, count * lanes) } else { (count, lanes) };
        for i in 0..lines {
            let out = &mut out[i * len..(i + 1) * len];
            let line = Line { read: line.read + i as isize * step, ..line };
            match len {
                64.. => blocks::<F, 64>(out, x, reads, taps, line),
                32..64 => blocks::<F, 32>(out, x, reads, taps, line),
                16..32 => blocks::<F, 16>(out, x, reads, taps, line),
                8..16 => blocks::<F, 8>(out, x, reads, taps, line),
                4..8 => blocks::<F, 4>(out, x, reads, taps, line),
                _ => blocks::<F, 1>(out, x, reads, taps, line),
            }
        }
    }
}

/// Folds a contiguous line in blocks of `N`, at least one. The last block overlaps its predecessor
/// instead of being short: it computes the same values again.
#[inline(always)]
fn blocks<F: Fold, const N: usize>(
    out: &mut [F::Item],
    x: &[F::Item],
    reads: &[(isize, usize)],
    taps: &[F::Sum],
    line: Line,
) {
    let mut at = 0;
    while at < out.len() {
        let start = at.min(out.len() - N);
        let mut sums = [F::start(); N];
        for &(read, tap) in reads {
            let from = (line.read + read) as usize + start;
            let x = &x[from..from + N];
            if F::TAPS && line.lane_tap > 0 {
                let tap = tap + line.tap + start;
                for ((sum, &x), &tap) in sums.iter_mut().zip(x).zip(&taps[tap..tap + N]) {
                    *sum = F::fold(*sum, x, tap);
                }
            } else {
                let tap = if F::TAPS {
                    taps[tap + line.tap]
                } else {
                    F::start()
                };
                for (sum, &x) in sums.iter_mut().zip(x) {
                    *sum = F::fold(*sum, x, tap);
                }
            }
        }
        for (out, sum) in out[start..start + N].iter_mut().zip(sums) {
            *out = F::finish(sum);
        }
        at += N;
    }
}

/// Folds places that lie apart in the input, sixteen at a time.
#[inline(always)]
fn strided<F: Fold>(
    out: &mut [F::Item],
    x: &[F::Item],
    reads: &[(isize, usize)],
    taps: &[F::Sum],
    line: Line,
) {
    for (block, out) in out.chunks_mut(16).enumerate() {
        let mut sums = [F::start(); 16];
        let sums = &mut sums[..out.len()];
        let start = line.read + block as isize * 16 * line.step;
        for &(read, tap) in reads {
            let tap = if F::TAPS {
                taps[tap + line.tap]
            } else {
                F::start()
            };
            let from = start + read;
            if line.step > 0 {
                let step = line.step as usize;
                for (sum, &x) in sums.iter_mut().zip(x[from as usize..].iter().step_by(step)) {
                    *sum = F::fold(*sum, x, tap);
                }
            } else {
                // Repeated or reversed input.
                for (i, sum) in sums.iter_mut().enumerate() {
                    let at = from + i as isize * line.step;
                    *sum = F::fold(*sum, x[at as usize], tap);
                }
            }
        }
        for (out, &mut sum) in out.iter_mut().zip(sums) {
            *out = F::finish(sum);
        }
    }
}
