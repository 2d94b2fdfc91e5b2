//! Backward pass of layer norm: one pass over the rows gives all three cotangents.

use super::map::{self, Cost, Source};
use super::norm::{Float, parameter};
use super::reduce::{fold_once, fold_vector};
use crate::buffer::Buffer;
use crate::element::Stored;
use crate::parallel::Columns;
use crate::simd::{multiversion, zip3_streamed};
use crate::{memory, parallel, simd};
use clematis_core::{DType, Result, Shape, Spec, Tensor, bail};
use half::{bf16, f16};

/// Independent sums: two vectors of sixteen for each of the two sums.
const LANES: usize = 32;
/// The fewest rows per partial sum, and the most partial sums: they stay below half the size of an operand.
const MIN_ROWS: usize = 4;
const MAX_PARTS: usize = 64;
/// Padding between partial sums: rows are often a page long, and would all map to the same cache sets.
const SUMS_PAD: usize = 16;

multiversion! {
    /// `(Σ c, Σ c n)` of a row, with `c = ct scale` and `n = (x - mean) by`; adds `ct n` and `ct` to the sums over
    /// rows.
    fn sums[W: Float](x: &[W], ct: &[W], scale: &[W], mean: W, by: W, with: &mut [W], alone: &mut [W]) -> (W, W) {
        let mut plain = [W::zero(); LANES];
        let mut along = [W::zero(); LANES];
        let ((xs, x_rest), (cts, ct_rest)) = (x.as_chunks::<LANES>(), ct.as_chunks::<LANES>());
        let (scales, scale_rest) = scale.as_chunks::<LANES>();
        let ((withs, with_rest), (alones, alone_rest)) =
            (with.as_chunks_mut::<LANES>(), alone.as_chunks_mut::<LANES>());
        let chunks = xs.iter().zip(cts).zip(scales).zip(withs).zip(alones);
        for ((((x, ct), scale), with), alone) in chunks {
            for i in 0..LANES {
                let normal = (x[i] - mean) * by;
                let scaled = ct[i] * scale[i];
                plain[i] = plain[i] + scaled;
                along[i] = along[i] + scaled * normal;
                with[i] = with[i] + ct[i] * normal;
                alone[i] = alone[i] + ct[i];
            }
        }
        let rest = x_rest.iter().zip(ct_rest).zip(scale_rest).zip(with_rest).zip(alone_rest);
        for (i, ((((&x, &ct), &scale), with), alone)) in rest.enumerate() {
            let normal = (x - mean) * by;
            let scaled = ct * scale;
            plain[i] = plain[i] + scaled;
            along[i] = along[i] + scaled * normal;
            *with = *with + ct * normal;
            *alone = *alone + ct;
        }
        let all = |lanes: &[W]| fold_vector(fold_once(lanes, W::add), W::add);
        (all(&plain), all(&along))
    }

    fn zip3[W: Float, F: Fn(W, W, W) -> W](out: &mut [W], x: &[W], y: &[W], z: &[W], f: F) {
        for (((out, &x), &y), &z) in out.iter_mut().zip(x).zip(y).zip(z) {
            *out = f(x, y, z);
        }
    }

    fn add[W: Float](all: &mut [W], part: &[W]) {
        for (all, &x) in all.iter_mut().zip(part) {
            *all = *all + x;
        }
    }
}

/// One row; `streams` says whether its results use streaming stores.
fn row<W: Float>(
    past: bool,
    out: &mut [W],
    x: &[W],
    ct: &[W],
    scale: &[W],
    epsilon: W,
    [with, alone]: [&mut [W]; 2],
) {
    let count = W::rounded(x.len() as f64);
    let mean = W::total(x) / count;
    let by = W::one() / (W::squares(x, mean) / count + epsilon).sqrt();
    let (plain, along) = sums(x, ct, scale, mean, by, with, alone);
    let (plain, along) = (plain / count, along / count);
    let to_operand = |x: W, ct: W, scale: W| {
        let normal = (x - mean) * by;
        (ct * scale - normal * along - plain) * by
    };
    if past {
        zip3_streamed(out, x, ct, scale, to_operand);
    } else {
        zip3(out, x, ct, scale, to_operand);
    }
}

/// An operand's rows, one at a time, in the computed type.
struct Reader<T: Stored> {
    stored: Vec<T>,
    wide: Vec<T::Wide>,
}

impl<T: Stored> Reader<T> {
    fn new() -> Self {
        let (stored, wide) = (Vec::new(), Vec::new());
        Reader { stored, wide }
    }

    fn row<'a>(&'a mut self, source: &'a Source<'_, T>, at: usize, length: usize) -> &'a [T::Wide] {
        let stored = match source {
            Source::Dense(all) => &all[at..at + length],
            Source::Constant(value) => {
                self.stored.clear();
                self.stored.resize(length, *value);
                &self.stored
            }
            Source::Strided(view) => {
                self.stored.resize(length, T::zeroed());
                view.read(at, &mut self.stored);
                &self.stored
            }
        };
        if T::DIRECT {
            return bytemuck::cast_slice(stored);
        }
        self.wide.resize(length, bytemuck::Zeroable::zeroed());
        T::widen(stored, &mut self.wide);
        &self.wide
    }
}

/// `x, ct, scale?` to the cotangent of `x`, and to the sums over rows of `ct` times the normalized `x` and of `ct`.
pub fn run(
    op: &str,
    inputs: &[&Tensor],
    axis: usize,
    epsilon: f64,
    out: &[Spec],
) -> Result<Vec<Buffer>> {
    match out[0].dtype {
        DType::F16 => all::<f16>(op, inputs, axis, epsilon, out),
        DType::BF16 => all::<bf16>(op, inputs, axis, epsilon, out),
        DType::F32 => all::<f32>(op, inputs, axis, epsilon, out),
        DType::F64 => all::<f64>(op, inputs, axis, epsilon, out),
        other => bail!(Unsupported, "{op}: takes floats, not {other}"),
    }
}

fn all<T: Stored<Wide: Float>>(
    op: &str,
    inputs: &[&Tensor],
    axis: usize,
    epsilon: f64,
    out: &[Spec],
) -> Result<Vec<Buffer>> {
    let shape = inputs[0].shape();
    let inner = Shape::from_sizes(&shape.sizes()[axis..]);
    let length = inner.count();
    let one = <T::Wide as num_traits::One>::one();
    let scale = match inputs.get(2) {
        Some(scale) => {
            let spec = scale.spec().with_dtype(out[0].dtype);
            let cast = super::cast::cast(scale, &spec)?;
            let scale = Tensor::concrete(spec, crate::engine::backend(), cast.boxed());
            parameter::<T>(&scale, &inner)?
        }
        None => vec![one; length],
    };
    let (x, ct) = (
        map::source::<T>(inputs[0], shape)?,
        map::source::<T>(inputs[1], shape)?,
    );
    let epsilon = T::Wide::rounded(epsilon);
    let mut to_x = memory::alloc(op, &out[0])?;
    let mut sums = [memory::alloc(op, &out[1])?, memory::alloc(op, &out[2])?];
    let rows = shape.count().checked_div(length).unwrap_or(0);
    // By sizes alone, so that results are bit-identical for any number of threads.
    let part = (Cost::Medium.grain() / length.max(1))
        .max(rows.div_ceil(MAX_PARTS))
        .max(MIN_ROWS);
    let parts = rows.div_ceil(part);
    // Both operands and the result exceed the last-level cache.
    let past = 3 * out[0].bytes() > memory::last_level_cache();
    let apart = length + SUMS_PAD;
    let mut held = vec![<T::Wide as num_traits::Zero>::zero(); parts * 2 * apart];
    {
        let to_x = Columns::chunks(to_x.as_mut_slice::<T>(), part * length);
        let held = Columns::chunks(&mut held, 2 * apart);
        let make = || (Reader::<T>::new(), Reader::<T>::new(), Vec::new());
        parallel::for_tasks_with(parts, make, |(xs, cts, wide), task| {
            let (mut to_x, mut held) = (to_x.take(task), held.take(task));
            let (with, alone) = held.row(0).split_at_mut(apart);
            let (with, alone) = (&mut with[..length], &mut alone[..length]);
            for at in (task * part..rows.min((task + 1) * part)).map(|row| row * length) {
                let (x, ct) = (xs.row(&x, at, length), cts.row(&ct, at, length));
                let out = to_x.slice(0, at - task * part * length, length);
                let both = [&mut *with, &mut *alone];
                if T::DIRECT {
                    let out = bytemuck::cast_slice_mut(out);
                    row(past, out, x, ct, &scale, epsilon, both);
                } else {
                    wide.resize(length, bytemuck::Zeroable::zeroed());
                    row(false, wide, x, ct, &scale, epsilon, both);
                    T::narrow(wide, out);
                }
            }
            if past {
                simd::stream_done();
            }
        });
    }
    for (i, sum) in sums.iter_mut().enumerate() {
        let sum = sum.as_mut_slice::<T::Wide>();
        sum.fill(bytemuck::Zeroable::zeroed());
        for part in held.chunks(2 * apart) {
            add(sum, &part[i * apart..i * apart + length]);
        }
    }
    let [with, alone] = sums;
    Ok([to_x, with, alone].into_iter().map(Buffer::new).collect())
}
