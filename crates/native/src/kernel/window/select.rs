//! The element that a window selects, and its place in other arrays.

use super::nest::{Job, Nest};
use super::{PARALLEL, Pooled, Reduction, WindowAxis, nest};
use crate::parallel;

/// Lanes whose selections are searched side by side.
const LANES: usize = 64;

/// Finds, for `width` lanes from `first` on, where each selects among `reads` of the place `shift`
/// further: the first largest (or smallest) in order, or the first NaN.
#[inline]
fn select<T: Pooled>(
    chosen: &mut [usize; LANES],
    x: &[T],
    reads: &[(isize, usize)],
    shift: isize,
    width: usize,
    replaces: impl Fn(T, T) -> bool,
) {
    let mut best = [T::ZERO; LANES];
    for (i, &(read, _)) in reads.iter().enumerate() {
        let from = (read + shift) as usize;
        let x = &x[from..from + width];
        for (lane, ((best, chosen), &x)) in
            best.iter_mut().zip(chosen.iter_mut()).zip(x).enumerate()
        {
            if i == 0 || replaces(x, *best) {
                *best = x;
                *chosen = from + lane;
            }
        }
    }
}

/// Calls `visit(written, read)` for the selected element of every window of a job: indices in the
/// windows' array and in the input.
fn each_selected<T: Pooled>(
    nest: &Nest,
    job: &Job,
    (read, write): (isize, isize),
    x: &[T],
    reduction: Reduction,
    mut visit: impl FnMut(usize, Option<usize>),
) {
    let reads = &nest.reads[job.reads.clone()];
    let mut chosen = [0; LANES];
    for place in 0..job.count as isize {
        for first in (0..nest.lanes).step_by(LANES) {
            let width = LANES.min(nest.lanes - first);
            let shift = read + place * nest.read_step + first as isize;
            let start = (write + job.write + place * nest.write_step) as usize + first;
            if reads.is_empty() {
                (start..start + width).for_each(|at| visit(at, None));
                continue;
            }
            match reduction {
                Reduction::Min => select(&mut chosen, x, reads, shift, width, T::below),
                _ => select(&mut chosen, x, reads, shift, width, T::above),
            }
            for (lane, &from) in chosen[..width].iter().enumerate() {
                visit(start + lane, Some(from));
            }
        }
    }
}

/// Positions of the free axes per task.
fn share(nest: &Nest) -> usize {
    let reads = nest
        .jobs
        .iter()
        .map(|job| job.count * job.reads.len())
        .sum::<usize>();
    let positions = nest.positions().max(1);
    match reads.saturating_mul(positions).saturating_mul(nest.lanes) {
        work if work < PARALLEL => positions,
        _ => positions.div_ceil(64),
    }
}

/// Adds each element of `source` (shaped like the windows) to `out` at the place that its window
/// selects in `input`; all else in `out` is zero. `out` is laid out as `input`, offset included, and
/// `source` as the result of [`super::reduce_window`]. `Min` selects the smallest, all else the largest.
pub fn window_scatter<T: Pooled>(
    out: &mut [T],
    source: (&[T], usize),
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
) {
    let mut nest = nest(input.1, source.1, axes);
    nest.order_reads();
    out.fill(T::ZERO);
    // Windows may overlap, but not across positions of the free axes: those are the tasks.
    let positions = nest.positions();
    let each = share(&nest);
    parallel::for_disjoint(
        out,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = nest.position(position);
                for job in &nest.jobs {
                    each_selected(
                        &nest,
                        job,
                        (read, write),
                        input.0,
                        reduction,
                        |window, chosen| {
                            if let Some(place) =
                                chosen.map(|at| out.slice(at, 1)).and_then(<[T]>::first_mut)
                            {
                                *place = T::narrow(T::add(place.widen(), source.0[window].widen()));
                            }
                        },
                    );
                }
            }
        },
    );
}

/// Reads `values` (laid out as `input`, offset included) where each window selects in `input`; zero
/// where a window has nothing to select.
pub fn window_gather<T: Pooled>(
    out: (&mut [T], usize),
    values: &[T],
    input: (&[T], usize),
    axes: &[WindowAxis],
    reduction: Reduction,
) {
    let mut nest = nest(input.1, out.1, axes);
    nest.order_reads();
    let (positions, each) = (nest.positions(), share(&nest));
    parallel::for_disjoint(
        out.0,
        positions.div_ceil(each),
        || (),
        |(), task, out| {
            for position in task * each..positions.min((task + 1) * each) {
                let (read, write, _) = nest.position(position);
                for job in &nest.jobs {
                    each_selected(
                        &nest,
                        job,
                        (read, write),
                        input.0,
                        reduction,
                        |window, chosen| {
                            out.set(window, chosen.map_or(T::ZERO, |at| values[at]));
                        },
                    );
                }
            }
        },
    );
}
