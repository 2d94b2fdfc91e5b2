//! The element that a window selects, and its position in other arrays.
#![allow(unsafe_code)]

use super::loops::{Job, WindowLoops};
use super::{PARALLEL, Pooled, Reduction, WindowAxis, loops};
use crate::parallel;
use crate::simd::multiversion;

/// Windows whose selections are searched together.
const WIDTH: usize = 64;
/// Elements that a task fills with zeros.
const FILLED: usize = 1 << 16;

multiversion! {
    /// Finds which of `reads` each of `width` windows selects: the first largest (or smallest) in order, or the first
    /// NaN. Windows have the stride `step`, the first is shifted by `shift`.
    fn select[T: Pooled, F: Fn(T, T) -> bool](chosen: &mut [u32; WIDTH], x: &[T], reads: &[(isize, usize)], shift: isize, step: isize, width: usize, replaces: F) {
        let mut best = [T::ZERO; WIDTH];
        let mut found = [0u32; WIDTH];
        for (i, &(read, _)) in reads.iter().enumerate() {
            let mut next = [T::ZERO; WIDTH];
            let from = read + shift;
            if step == 1 {
                next[..width].copy_from_slice(&x[from as usize..from as usize + width]);
            } else if step > 0 {
                let x = x[from as usize..].iter().step_by(step as usize);
                next[..width].iter_mut().zip(x).for_each(|(next, &x)| *next = x);
            } else {
                for (lane, next) in next[..width].iter_mut().enumerate() {
                    *next = x[(from + lane as isize * step) as usize];
                }
            }
            for ((best, found), next) in best.iter_mut().zip(&mut found).zip(next) {
                let take = (i == 0) | replaces(next, *best);
                *best = if take { next } else { *best };
                *found = if take { i as u32 } else { *found };
            }
        }
        *chosen = found;
    }
}

multiversion! {
    /// Adds to one element of each of several windows the values of the windows that selected it.
    fn spread[T: Pooled](out: &mut [T], source: &[T], chosen: &[u32], element: u32) {
        for ((out, &x), &chosen) in out.iter_mut().zip(source).zip(chosen) {
            let x = if chosen == element { x } else { T::ZERO };
            *out = T::narrow(T::add(out.widen(), x.widen()));
        }
    }
}

/// Neighbouring windows, and which element each of them selects.
struct Line<'a> {
    /// The offsets of the first window's elements.
    reads: &'a [(isize, usize)],
    /// The element that each window selects, as an index into `reads`.
    chosen: &'a [u32],
    shift: isize,
    /// Strides of windows, in the input and among the windows.
    step: isize,
    write_step: isize,
    /// The first window.
    start: isize,
}

impl Line<'_> {
    /// Calls `visit(window, selected)` for every window: indices in the windows' array and in the input.
    fn each(&self, mut visit: impl FnMut(usize, Option<usize>)) {
        for (lane, &i) in self.chosen.iter().enumerate() {
            let window = self.start + lane as isize * self.write_step;
            let read = self.reads.get(i as usize);
            let at = read.map(|(read, _)| read + self.shift + lane as isize * self.step);
            visit(window as usize, at.map(|at| at as usize));
        }
    }
}

/// Calls `visit` for all windows of a job, line by line.
fn each_selected<T: Pooled>(
    loops: &WindowLoops,
    job: &Job,
    (read, write): (isize, isize),
    x: &[T],
    reduction: Reduction,
    mut visit: impl FnMut(Line<'_>),
) {
    let reads = &loops.reads[job.reads.clone()];
    // Together: lanes of one position, or positions if there are no lanes.
    let (lines, length, step, write_step) = match loops.lanes {
        1 => (1, job.count, loops.read_step, loops.write_step),
        lanes => (job.count, lanes, 1, 1),
    };
    let mut chosen = [0; WIDTH];
    for line in 0..lines as isize {
        for first in (0..length).step_by(WIDTH) {
            let width = WIDTH.min(length - first);
            let shift = read + line * loops.read_step + first as isize * step;
            let start = write + job.write + line * loops.write_step + first as isize * write_step;
            if !reads.is_empty() {
                match reduction {
                    Reduction::Min => select(&mut chosen, x, reads, shift, step, width, T::below),
                    _ => select(&mut chosen, x, reads, shift, step, width, T::above),
                }
            }
            visit(Line {
                reads,
                chosen: &chosen[..width],
                shift,
                step,
                write_step,
                start,
            });
        }
    }
}

/// Positions of the free axes per task.
fn share(loops: &WindowLoops) -> usize {
    let reads = loops
        .jobs
        .iter()
        .map(|job| job.count * job.reads.len())
        .sum::<usize>();
    let positions = loops.positions().max(1);
    match reads.saturating_mul(positions).saturating_mul(loops.lanes) {
        work if work < PARALLEL => positions,
        _ => positions.div_ceil(64),
    }
}

/// Adds each element of `source` (shaped like the windows) to `out` at the position that its window selects in `input`;
/// all else in `out` is zero. `out` is laid out as `input`, offset included, and `source` as the result of
/// [`super::reduce_window`]. `Min` selects the smallest, all else the largest.
pub fn window_scatter<T: Pooled>(
    out: &mut [T],
    source: (&[T], usize),
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
) {
    let mut loops = loops(input.1, source.1, axes);
    loops.order_reads();
    parallel::for_chunks_mut(out, FILLED, |_, out| out.fill(T::ZERO));
    // Windows may overlap, but not across positions of the free axes: those are the tasks.
    let positions = loops.positions();
    let each = share(&loops);
    // SAFETY: windows overlap within a position only, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = loops.position(position);
                for job in &loops.jobs {
                    each_selected(&loops, job, (read, write), input.0, reduction, |line| {
                        if (line.step, line.write_step) == (1, 1) {
                            let from = line.start as usize;
                            let source = &source.0[from..from + line.chosen.len()];
                            for (i, (read, _)) in line.reads.iter().enumerate() {
                                let at = (read + line.shift) as usize;
                                let out = out.slice(at, source.len());
                                spread(out, source, line.chosen, i as u32);
                            }
                            return;
                        }
                        line.each(|window, chosen| {
                            let position = chosen.map(|at| out.slice(at, 1));
                            if let Some(position) = position.and_then(<[T]>::first_mut) {
                                let x = source.0[window].widen();
                                *position = T::narrow(T::add(position.widen(), x));
                            }
                        });
                    });
                }
            }
        },
    );
}

/// Reads `values` (laid out as `input`, offset included) at the position that each window selects in `input`; zero if a
/// window has nothing to select.
pub fn window_gather<T: Pooled>(
    out: (&mut [T], usize),
    values: &[T],
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
) {
    let mut loops = loops(input.1, out.1, axes);
    loops.order_reads();
    let (positions, each) = (loops.positions(), share(&loops));
    // SAFETY: each window has a result of its own, and one task has its position.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out.0,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = loops.position(position);
                for job in &loops.jobs {
                    each_selected(&loops, job, (read, write), input.0, reduction, |line| {
                        line.each(|window, chosen| {
                            out.set(window, chosen.map_or(T::ZERO, |at| values[at]));
                        });
                    });
                }
            }
        },
    );
}

/// Offsets of windows and of selected elements in arrays whose layouts differ from those of the windows and the input.
pub struct Elsewhere {
    axes: Vec<ElsewhereAxis>,
    window: isize,
    position: isize,
}

struct ElsewhereAxis {
    axis: WindowAxis,
    window: isize,
    position: isize,
}

impl Elsewhere {
    /// For windows numbered in row-major order of `axes`; per array its first offset and its strides.
    pub fn new(
        axes: &[WindowAxis],
        windows: (usize, &[isize]),
        offsets: (usize, &[isize]),
    ) -> Self {
        let strides = windows.1.iter().zip(offsets.1);
        let axes = axes
            .iter()
            .zip(strides)
            .map(|(&axis, (&window, &position))| ElsewhereAxis {
                axis,
                window,
                position,
            });
        Elsewhere {
            axes: axes.collect(),
            window: windows.0 as isize,
            position: offsets.0 as isize,
        }
    }

    /// The offsets of the `window`-th window and of its `tap`-th element.
    fn find(&self, mut window: usize, mut tap: usize) -> (usize, usize) {
        let (mut at, mut position) = (self.window, self.position);
        for ElsewhereAxis {
            axis,
            window: window_stride,
            position: place_stride,
        } in self.axes.iter().rev()
        {
            let (p, t) = (window % axis.output.size, tap % axis.window);
            (window, tap) = (window / axis.output.size, tap / axis.window);
            let read = (p * axis.step.stride + t * axis.step.rhs_dilation) as isize - axis.step.lo;
            at += p as isize * window_stride;
            position += read / axis.step.lhs_dilation as isize * place_stride;
        }
        (at as usize, position as usize)
    }
}

/// Calls `visit(window, tap)` for every window of a job: its number, and which of its elements it selects. One by one,
/// unlike [`each_selected`], because each visit does more work.
fn each_tap<T: Pooled>(
    loops: &WindowLoops,
    job: &Job,
    (read, write): (isize, isize),
    x: &[T],
    replaces: fn(T, T) -> bool,
    mut visit: impl FnMut(usize, Option<usize>),
) {
    let reads = &loops.reads[job.reads.clone()];
    for position in 0..job.count as isize {
        for lane in 0..loops.lanes as isize {
            let shift = read + position * loops.read_step + lane;
            let mut best = None;
            for &(read, tap) in reads {
                let next = x[(read + shift) as usize];
                if best.is_none_or(|(best, _)| replaces(next, best)) {
                    best = Some((next, tap));
                }
            }
            let window = write + job.write + position * loops.write_step + lane;
            visit(window as usize, best.map(|(_, tap)| tap));
        }
    }
}

fn replaces<T: Pooled>(reduction: Reduction) -> fn(T, T) -> bool {
    match reduction {
        Reduction::Min => T::below,
        _ => T::above,
    }
}

/// [`window_scatter`] for an `out` that is not laid out as `input`, or a `source` that is not contiguous.
pub fn window_scatter_elsewhere<T: Pooled>(
    out: &mut [T],
    source: &[T],
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
    elsewhere: &Elsewhere,
) {
    let mut loops = loops(input.1, 0, axes);
    loops.order_reads();
    out.fill(T::ZERO);
    let (positions, each) = (loops.positions(), share(&loops));
    // SAFETY: windows overlap within a position only, and one task has it.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = loops.position(position);
                for job in &loops.jobs {
                    let (at, replaces) = ((read, write), replaces(reduction));
                    each_tap(&loops, job, at, input.0, replaces, |window, tap| {
                        let Some(tap) = tap else { return };
                        let (window, position) = elsewhere.find(window, tap);
                        if let [position] = out.slice(position, 1) {
                            *position = T::narrow(T::add(position.widen(), source[window].widen()));
                        }
                    });
                }
            }
        },
    );
}

/// [`window_gather`] for `values` that are not laid out as `input`; `out` is contiguous.
pub fn window_gather_elsewhere<T: Pooled>(
    out: &mut [T],
    values: &[T],
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
    elsewhere: &Elsewhere,
) {
    let mut loops = loops(input.1, 0, axes);
    loops.order_reads();
    let (positions, each) = (loops.positions(), share(&loops));
    // SAFETY: each window has a result of its own, and one task has its position.
    let disjoint = unsafe { parallel::Disjoint::promise() };
    parallel::for_disjoint(
        disjoint,
        out,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = loops.position(position);
                for job in &loops.jobs {
                    let (at, replaces) = ((read, write), replaces(reduction));
                    each_tap(&loops, job, at, input.0, replaces, |window, tap| {
                        let position = tap.map(|tap| elsewhere.find(window, tap).1);
                        out.set(
                            window,
                            position.map_or(T::ZERO, |position| values[position]),
                        );
                    });
                }
            }
        },
    );
}
