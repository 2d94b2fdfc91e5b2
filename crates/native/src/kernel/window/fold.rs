//! Folds sliding windows ([`WindowLoops`]), vectors at a time.
#![allow(unsafe_code)]

use super::loops::{Job, WindowLoops};
use crate::parallel::{self, TaskSlice};
use crate::simd::multiversion;

/// The reduction of a window's elements to one.
pub(crate) trait Fold: Copy + Send + Sync + 'static {
    /// The element type.
    type Item: Copy + Send + Sync;
    /// The accumulator type, which is also the type of a filter's taps.
    type Sum: Copy + Send + Sync;
    /// Whether there is a filter.
    const TAPS: bool;
    /// Folds consecutive jobs with the widest vectors available. Types for which that does not pay are folded by
    /// [`plain`], since each instruction set is one more copy of all loops.
    fn run(out: &mut [Self::Item], work: &Work<'_, Self>) {
        vectors(out, work);
    }
    fn start() -> Self::Sum;
    fn fold(sum: Self::Sum, x: Self::Item, tap: Self::Sum) -> Self::Sum;
    fn finish(sum: Self::Sum) -> Self::Item;
}

/// Consecutive jobs of the loops at one position of the free axes, and what they read.
pub(crate) struct Work<'a, F: Fold> {
    x: &'a [F::Item],
    loops: &'a WindowLoops,
    jobs: &'a [Job],
    taps: &'a [F::Sum],
    read: isize,
    tap: usize,
}

impl WindowLoops {
    /// Folds the window at every position; on several threads from `parallel` reads on.
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
        let reads = |job: &Job| job.count * job.reads.len().max(1);
        let reads = self.jobs.iter().map(reads).sum::<usize>();
        let work = reads
            .saturating_mul(self.positions())
            .saturating_mul(self.lanes);
        let each = match work < parallel {
            true => units,
            false => (units * (parallel / 8)).div_ceil(work).max(1),
        };
        // SAFETY: a unit is one position with some of its jobs, each of which has results of its own, and one task has
        // it.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(
            disjoint,
            out,
            units.div_ceil(each),
            Vec::new,
            |buffer, task, out| {
                let (mut unit, end) = (task * each, units.min((task + 1) * each));
                while unit < end {
                    let (read, write, tap) = self.position(unit / rows);
                    let first = unit % rows;
                    let count = (rows - first).min(end - unit);
                    unit += count;
                    let jobs = self.rows[first].start..self.rows[first + count - 1].end;
                    let jobs = &self.jobs[jobs];
                    let start = jobs.first().map_or(0, |job| job.write + write) as usize;
                    if let Some(length) = self.row_length {
                        let out = out.slice(start, count * length);
                        let work = Work {
                            x,
                            loops: self,
                            jobs,
                            taps,
                            read,
                            tap,
                        };
                        F::run(out, &work);
                    } else {
                        for job in jobs {
                            self.run_job::<F>(buffer, job, (read, write, tap), x, taps, out);
                        }
                    }
                }
            },
        );
    }

    /// Folds a job whose positions may be strided in the result, with other tasks' elements in between.
    fn run_job<F: Fold>(
        &self,
        buffer: &mut Vec<F::Item>,
        job: &Job,
        (read, write, tap): (isize, isize, usize),
        x: &[F::Item],
        taps: &[F::Sum],
        out: &mut TaskSlice<'_, F::Item>,
    ) {
        let work = Work {
            x,
            loops: self,
            jobs: std::slice::from_ref(job),
            taps,
            read,
            tap,
        };
        buffer.clear();
        buffer.resize(job.count * self.lanes, F::finish(F::start()));
        F::run(buffer, &work);
        for (i, line) in buffer.chunks_exact(self.lanes).enumerate() {
            let start = job.write + write + i as isize * self.write_step;
            out.slice(start as usize, self.lanes).copy_from_slice(line);
        }
    }
}

/// The strides of a job's reads.
#[derive(Clone, Copy)]
struct Line {
    count: usize,
    lanes: usize,
    step: isize,
    read: isize,
    tap: usize,
    lane_tap: usize,
}

impl Line {
    #[inline(always)]
    fn new(loops: &WindowLoops, job: &Job, read: isize, tap: usize) -> Self {
        Line {
            count: job.count,
            lanes: loops.lanes,
            step: loops.read_step,
            read,
            tap,
            lane_tap: loops.lane_tap,
        }
    }
}

multiversion! {
    /// Folds the positions of consecutive jobs, whose results are contiguous.
    pub(crate) fn vectors[F: Fold](out: &mut [F::Item], work: &Work<'_, F>) {
        fold_jobs(out, work);
    }
}

/// The same with the base instruction set.
pub(crate) fn plain<F: Fold>(out: &mut [F::Item], work: &Work<'_, F>) {
    fold_jobs(out, work);
}

#[inline(always)]
fn fold_jobs<F: Fold>(out: &mut [F::Item], work: &Work<'_, F>) {
    let mut at = 0;
    for job in work.jobs {
        let line = Line::new(work.loops, job, work.read, work.tap);
        let length = job.count * work.loops.lanes;
        let reads = &work.loops.reads[job.reads.clone()];
        fold_line_body::<F>(&mut out[at..at + length], work.x, reads, work.taps, line);
        at += length;
    }
}

#[inline(always)]
fn fold_line_body<F: Fold>(
    out: &mut [F::Item],
    x: &[F::Item],
    reads: &[(isize, usize)],
    taps: &[F::Sum],
    line: Line,
) {
    let Line {
        count, lanes, step, ..
    } = line;
    if lanes == 1 && step != 1 {
        return strided::<F>(out, x, reads, taps, line);
    }
    // Contiguous from position to position as well: one long line, unless the taps differ by lane.
    let flat = step == lanes as isize && !(F::TAPS && line.lane_tap > 0);
    let (lines, len) = if flat {
        (1, count * lanes)
    } else {
        (count, lanes)
    };
    let mut first = 0;
    if F::TAPS && line.lane_tap > 0 && lanes >= 16 {
        // Four positions share the loads of the filter.
        while first + 4 <= lines {
            let out = &mut out[first * len..(first + 4) * len];
            let line = Line {
                read: line.read + first as isize * step,
                ..line
            };
            match lanes {
                32.. => filtered::<F, 32>(out, x, reads, taps, line),
                _ => filtered::<F, 16>(out, x, reads, taps, line),
            }
            first += 4;
        }
    }
    for i in first..lines {
        let out = &mut out[i * len..(i + 1) * len];
        let line = Line {
            read: line.read + i as isize * step,
            ..line
        };
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

/// Folds a contiguous line in blocks of `N`, at least one. The last block overlaps its predecessor instead of being
/// short: it computes the same values again.
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

/// Folds four positions with a filter that differs by lane, in blocks of `N` lanes like [`blocks`].
#[inline(always)]
fn filtered<F: Fold, const N: usize>(
    out: &mut [F::Item],
    x: &[F::Item],
    reads: &[(isize, usize)],
    taps: &[F::Sum],
    line: Line,
) {
    let (a, b) = out.split_at_mut(2 * line.lanes);
    let (out_a, out_b) = a.split_at_mut(line.lanes);
    let (out_c, out_d) = b.split_at_mut(line.lanes);
    let mut at = 0;
    while at < line.lanes {
        let start = at.min(line.lanes - N);
        // Four arrays rather than an array of four: only then does the compiler keep them in registers.
        let mut a = [F::start(); N];
        let mut b = [F::start(); N];
        let mut c = [F::start(); N];
        let mut d = [F::start(); N];
        for &(read, tap) in reads {
            let tap = tap + line.tap + start;
            let taps = &taps[tap..tap + N];
            let from = line.read + read + start as isize;
            let position = |i: isize| {
                let from = (from + i * line.step) as usize;
                &x[from..from + N]
            };
            let (xa, xb, xc, xd) = (position(0), position(1), position(2), position(3));
            for i in 0..N {
                a[i] = F::fold(a[i], xa[i], taps[i]);
                b[i] = F::fold(b[i], xb[i], taps[i]);
                c[i] = F::fold(c[i], xc[i], taps[i]);
                d[i] = F::fold(d[i], xd[i], taps[i]);
            }
        }
        let offsets = [&mut *out_a, &mut *out_b, &mut *out_c, &mut *out_d];
        for (out, sums) in offsets.into_iter().zip([a, b, c, d]) {
            for (out, sum) in out[start..start + N].iter_mut().zip(sums) {
                *out = F::finish(sum);
            }
        }
        at += N;
    }
}

/// Folds positions that are strided in the input, sixteen at a time.
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
                // Broadcast or reversed input.
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
