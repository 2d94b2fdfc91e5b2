//! Cumulative reductions along one axis, and argmin and argmax.
//!
//! Each lane along the axis is a dependency chain, so threads and vectors divide the lanes. Sums of f32 run in f64,
//! since a chain cannot sum pairwise to keep rounding errors small. Lanes that are adjacent in memory are processed in
//! strips.
#![allow(unsafe_code)]

use super::binary::Ordered;
use super::map::Cost;
use super::reduce::{Max, Min, fold_slice};
use crate::buffer::{self, Buffer};
use crate::element::{Stored, by_real};
use crate::layout::{View, Walk, dense_strides, read_run};
use crate::math::double;
use crate::simd::multiversion;
use crate::{memory, parallel};
use clematis_core::op::{ArgReduce, Cumulative, CumulativeKind, Extreme};
use clematis_core::{DType, Result, Spec, Tensor, bail, limit};
use half::{bf16, f16};
use num_complex::Complex;

/// Lanes that are processed together.
const STRIP: usize = 16;

/// Lanes along `axis`: their offsets in the view and in a contiguous result, and the strides along them.
struct Lanes<'a, T> {
    view: View<'a, T>,
    out_strides: crate::layout::Strides,
    count: usize,
    length: usize,
    step_in: isize,
    step_out: isize,
}

impl<'a, T: Stored> Lanes<'a, T> {
    /// `keeps`: whether the result has the axis too.
    fn new(view: View<'a, T>, axis: usize, keeps: bool) -> Self {
        let mut view = view;
        let mut out_strides = dense_strides(&view.sizes);
        let step_out = out_strides[axis];
        let length = view.sizes.remove(axis);
        let step_in = view.strides.remove(axis);
        if keeps {
            out_strides.remove(axis);
        } else {
            out_strides = dense_strides(&view.sizes);
        }
        Lanes {
            count: view.count(),
            view,
            out_strides,
            length,
            step_in,
            step_out,
        }
    }

    /// Runs `f(workspace, lane values, offset)` on each lane; strips make use of whole cache lines.
    fn each<O: Send>(
        &self,
        out: &mut [O],
        f: impl Fn(&mut Vec<T>, &mut parallel::TaskSlice<'_, O>, isize) + Sync,
    ) {
        if self.count == 0 || self.length == 0 {
            return;
        }
        let per_task = (Cost::Medium.grain() / self.length)
            .max(1)
            .next_multiple_of(STRIP);
        let tasks = self.count.div_ceil(per_task);
        let make = || (Vec::new(), Vec::new());
        // SAFETY: a task has some lanes, and lanes do not overlap.
        let disjoint = unsafe { parallel::Disjoint::promise() };
        parallel::for_disjoint(disjoint, out, tasks, make, |(strip, lane), task, out| {
            let end = self.count.min((task + 1) * per_task);
            let mut first = task * per_task;
            let offsets = [self.view.offset as isize, 0];
            let strides = [&self.view.strides[..], &self.out_strides[..]];
            let mut walk = Walk::new(&self.view.sizes, strides, offsets, first);
            while first < end {
                let width = STRIP.min(end - first);
                let mut starts = [[0isize; 2]; STRIP];
                for start in &mut starts[..width] {
                    *start = walk.at;
                    walk.step();
                }
                let starts = &starts[..width];
                let side_by_side = self.step_in != 1
                    && starts
                        .iter()
                        .enumerate()
                        .all(|(i, s)| s[0] == starts[0][0] + i as isize);
                if side_by_side {
                    self.read_strip(starts[0][0], width, strip);
                }
                for (i, start) in starts.iter().enumerate() {
                    lane.resize(self.length, T::zeroed());
                    if side_by_side {
                        read_run(strip, i as isize, width as isize, lane);
                    } else {
                        read_run(self.view.data, start[0], self.step_in, lane);
                    }
                    f(lane, out, start[1]);
                }
                first += width;
            }
        });
    }

    /// Copies adjacent lanes, element by element of all.
    fn read_strip(&self, at: isize, width: usize, strip: &mut Vec<T>) {
        strip.resize(self.length * width, T::zeroed());
        for (i, row) in strip.chunks_exact_mut(width).enumerate() {
            let from = (at + i as isize * self.step_in) as usize;
            row.copy_from_slice(&self.view.data[from..from + width]);
        }
    }
}

/// Elements of a lane after which it polls for interrupts.
const POLLED: usize = 1 << 20;

/// Runs a chain over a lane.
fn chain<T: Stored, S: Copy>(
    lane: &mut [T],
    mut state: S,
    reverse: bool,
    step: impl Fn(S, T) -> (S, T),
) {
    let mut advance = |x: &mut T| (state, *x) = step(state, *x);
    // A long lane polls for interrupts.
    if reverse {
        for lane in lane.rchunks_mut(POLLED) {
            lane.iter_mut().rev().for_each(&mut advance);
            if lane.len() == POLLED {
                parallel::poll();
            }
        }
    } else {
        for lane in lane.chunks_mut(POLLED) {
            lane.iter_mut().for_each(&mut advance);
            if lane.len() == POLLED {
                parallel::poll();
            }
        }
    }
}

fn run_chain<T: Stored, S: Copy + Sync>(
    (p, x, out): (&Cumulative, &Tensor, &Spec),
    start: S,
    step: impl Fn(S, T) -> (S, T) + Sync,
) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    let mut bytes = memory::alloc("cumulative", out)?;
    let lanes = Lanes::new(buffer.view::<T>(x.shape()), p.axis, true);
    lanes.each(bytes.as_mut_slice::<T>(), |lane, out, out_offset| {
        chain(lane, start, p.reverse, &step);
        if lanes.step_out == 1 {
            out.slice(out_offset as usize, lanes.length)
                .copy_from_slice(lane);
        } else {
            for (i, &value) in lane.iter().enumerate() {
                out.set((out_offset + i as isize * lanes.step_out) as usize, value);
            }
        }
    });
    Ok(Buffer::new(bytes))
}

/// Runs a cumulative reduction.
pub fn cumulative(op: &str, p: &Cumulative, x: &Tensor, out: &Spec) -> Result<Buffer> {
    let with = (p, x, out);
    macro_rules! integers {
        ($($d:ident $t:ty),*; $state:expr, |$a:ident, $b:ident| $body:expr) => {
            match x.dtype() {
                $(DType::$d => return run_chain::<$t, $t>(with, $state, |$a: $t, $b: $t| { let s = $body; (s, s) }),)*
                _ => {}
            }
        };
    }
    macro_rules! floats {
        ($state:expr, |$a:ident, $b:ident| $body:expr) => {
            match x.dtype() {
                DType::F16 => {
                    return run_chain::<f16, f64>(with, $state, |$a, x: f16| {
                        let $b = f64::from(x);
                        let s = $body;
                        (s, f16::from_f64(s))
                    })
                }
                DType::BF16 => {
                    return run_chain::<bf16, f64>(with, $state, |$a, x: bf16| {
                        let $b = f64::from(x);
                        let s = $body;
                        (s, bf16::from_f64(s))
                    })
                }
                DType::F32 => {
                    return run_chain::<f32, f64>(with, $state, |$a, x: f32| {
                        let $b = f64::from(x);
                        let s = $body;
                        (s, s as f32)
                    })
                }
                DType::F64 => {
                    return run_chain::<f64, f64>(with, $state, |$a, $b: f64| {
                        let s = $body;
                        (s, s)
                    })
                }
                _ => {}
            }
        };
    }
    macro_rules! complexes {
        ($re:expr, |$a:ident, $b:ident| $body:expr) => {
            match x.dtype() {
                DType::C64 => {
                    return run_chain::<Complex<f32>, Complex<f64>>(
                        with,
                        Complex::new($re, 0.0),
                        |$a, x: Complex<f32>| {
                            let $b = Complex::new(f64::from(x.re), f64::from(x.im));
                            let s = $body;
                            (s, Complex::new(s.re as f32, s.im as f32))
                        },
                    )
                }
                DType::C128 => {
                    return run_chain::<Complex<f64>, Complex<f64>>(
                        with,
                        Complex::new($re, 0.0),
                        |$a, $b| {
                            let s = $body;
                            (s, s)
                        },
                    )
                }
                _ => {}
            }
        };
    }
    macro_rules! all_integers {
        ($state:expr, |$a:ident, $b:ident| $body:expr) => {
            integers!(U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64; $state, |$a, $b| $body)
        };
    }
    macro_rules! extreme {
        ($pick:ident) => {
            by_real!(x.dtype(), T => return run_chain::<T, Option<<T as Stored>::Wide>>(with, None, |best, x: T| {
                // Back from the computed type without rounding: the extremum is one of the elements.
                let value = widen(x);
                let best = best.map_or(value, |best: <T as Stored>::Wide| best.$pick(value));
                (Some(best), narrow(best))
            }), {})
        };
    }
    match p.kind {
        CumulativeKind::Sum => {
            all_integers!(0, |a, b| a.wrapping_add(b));
            floats!(0.0, |a, b| a + b);
            complexes!(0.0, |a, b| a + b);
        }
        CumulativeKind::Prod => {
            all_integers!(1, |a, b| a.wrapping_mul(b));
            floats!(1.0, |a, b| a * b);
            complexes!(1.0, |a, b| a * b);
        }
        CumulativeKind::Max => extreme!(larger),
        CumulativeKind::Min => extreme!(smaller),
        CumulativeKind::LogSumExp => floats!(f64::NEG_INFINITY, |a, b| double::logaddexp(a, b)),
    }
    bail!(Internal, "{op}: the engine has no kernel for {}", x.dtype())
}

fn widen<T: Stored>(x: T) -> T::Wide {
    let mut wide = [bytemuck::Zeroable::zeroed()];
    T::widen(&[x], &mut wide);
    wide[0]
}

fn narrow<T: Stored>(x: T::Wide) -> T {
    let mut out = [T::zeroed()];
    T::narrow(&[x], &mut out);
    out[0]
}

multiversion! {
    /// Whether one of some elements equals `best`, or is NaN as `best` is; only NaN differs from itself.
    #[allow(clippy::eq_op)]
    fn has[W: PartialEq + Copy](some: &[W], best: W) -> bool {
        let mut found = false;
        for &x in some {
            found |= (x == best) | (x != x);
        }
        found
    }
}

/// The index of the first occurrence of a value that is present. If there is a NaN, NaN is the value.
#[allow(clippy::eq_op)]
fn first<W: PartialEq + Copy>(lane: &[W], best: W) -> usize {
    const SOME: usize = 256;
    let some = lane
        .chunks(SOME)
        .position(|some| has(some, best))
        .unwrap_or(0)
        * SOME;
    let out_offset = lane[some..].iter().position(|&x| x == best || x != x);
    some + out_offset.unwrap_or(0)
}

/// The index of the first extremum of each lane; NaN is beyond every number.
pub fn arg_reduce(p: &ArgReduce, x: &Tensor, out: &Spec) -> Result<Buffer> {
    let buffer = buffer::of(x)?;
    // A lane may be longer than memory: broadcast elements take none.
    limit::count::<Complex<f64>>(
        p.kind.name(),
        "elements of a lane",
        &[x.shape().size(p.axis)],
    )?;
    let mut bytes = memory::alloc(p.kind.name(), out)?;
    let indices = bytes.as_mut_slice::<i64>();
    by_real!(x.dtype(), T => {
        let lanes = Lanes::new(buffer.view::<T>(x.shape()), p.axis, false);
        let larger = p.kind == Extreme::Max;
        lanes.each(indices, |lane, out, out_offset| {
            let mut buffer = Vec::new();
            let lane: &[<T as Stored>::Wide] = if T::DIRECT {
                bytemuck::cast_slice(lane)
            } else {
                buffer.resize(lane.len(), bytemuck::Zeroable::zeroed());
                T::widen(lane, &mut buffer);
                &buffer
            };
            let best = if larger { fold_slice(lane, Max) } else { fold_slice(lane, Min) };
            let at = first(lane, best);
            out.set(out_offset as usize, at as i64);
        });
    }, bail!(Internal, "argmax: complex numbers have no order"));
    Ok(Buffer::new(bytes))
}
