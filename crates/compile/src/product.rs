//! Products of floats, divided into tasks: batches between their products, large ones by rows or columns.
//!
//! Whoever is free takes the next task, the caller first. So a second thread that comes late holds nobody up, and the
//! number of threads shows in no bit.

use clematis_core::op::Dot;
use clematis_core::shape::Axes;
use clematis_core::{DType, Result, Shape, Spec, Tensor};
use clematis_native::buffer::{concrete, contiguous};
use clematis_native::kernel::dot::{fits_panels, float_product};
use clematis_native::layout::{View, merge};
use clematis_native::simd::{self, Strides};
use clematis_native::{Buffer, backend, memory, parallel};

/// Sums of a product beyond which it is worth all threads by itself.
const LARGE: usize = 1 << 23;
/// Sums of a task.
const TASK: usize = 1 << 19;

/// Sums of a product below which nobody else is asked.
const SMALL: usize = 1 << 21;
/// The fewest rows or columns of a task.
const FEWEST: usize = 64;
/// Rows or columns of a task are a multiple of this.
const ALIGNED: usize = 16;

/// Whether a product is divided here.
pub fn is_divided(p: &Dot, out: &Spec, x: &Spec) -> bool {
    let size = |axes: &[usize]| axes.iter().map(|&a| x.shape.size(a)).product::<usize>();
    let (count, k) = (size(&p.lhs_batch), size(&p.lhs_contract));
    let products = out.shape.count() / count.max(1) * k;
    out.dtype == DType::F32 && products > 0 && (products < LARGE || count == 1)
}

/// One operand: sizes and steps of its batch, the step along its free axes and along those that are summed.
struct Side<'a> {
    view: View<'a, f32>,
    batch: Vec<(usize, isize)>,
    free: (usize, isize),
    sum: (usize, isize),
}

/// Several axes as one, if there is one step for them.
fn as_one(view: &View<'_, f32>, axes: &[usize]) -> Option<(usize, isize)> {
    let sizes: Vec<usize> = axes.iter().map(|&a| view.sizes[a]).collect();
    let strides: Vec<isize> = axes.iter().map(|&a| view.strides[a]).collect();
    let (sizes, [strides]) = merge(&sizes, [&strides]);
    match (&sizes[..], &strides[..]) {
        ([], []) => Some((1, 1)),
        ([size], [step]) => Some((*size, *step)),
        _ => None,
    }
}

fn side<'a>(x: &'a Tensor, batch: &[usize], sum: &[usize]) -> Option<Side<'a>> {
    let view = concrete(x).ok()?.view::<f32>(x.shape());
    let free: Vec<usize> = (0..x.rank())
        .filter(|a| !batch.contains(a) && !sum.contains(a))
        .collect();
    Some(Side {
        batch: batch
            .iter()
            .map(|&a| (view.sizes[a], view.strides[a]))
            .collect(),
        free: as_one(&view, &free)?,
        sum: as_one(&view, sum)?,
        view,
    })
}

impl Side<'_> {
    /// Where the `index`-th matrix begins.
    fn offset(&self, mut index: usize) -> usize {
        let mut offset = self.view.offset as isize;
        for &(size, stride) in self.batch.iter().rev() {
            offset += (index % size) as isize * stride;
            index /= size;
        }
        offset as usize
    }
}

/// Axes in memory's order, from the largest step to the smallest.
fn by_memory(x: &Tensor, axes: &[usize]) -> Result<Vec<usize>> {
    let view = concrete(x)?.view::<f32>(x.shape());
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(view.strides[axes[i]]));
    Ok(order)
}

/// A copy whose summed axes come first, in the order in which they are listed.
fn gathered(x: &Tensor, sum: &[usize]) -> Result<Tensor> {
    let free = (0..x.rank()).filter(|a| !sum.contains(a));
    let axes: Vec<usize> = sum.iter().copied().chain(free).collect();
    let sizes = x.shape().sizes();
    let buffer = concrete(x)?;
    let layout = buffer.layout().transpose(&sizes, &axes);
    let to: Vec<usize> = axes.iter().map(|&a| sizes[a]).collect();
    let spec = x.spec().with_shape(Shape::from_sizes(&to));
    let copy = contiguous("dot_general", &buffer.with_layout(layout), &spec)?;
    Ok(Tensor::concrete(spec, backend(), copy.boxed()))
}

/// Runs a batch; `None` where strides do not suffice.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    if p.lhs_batch.is_empty() && p.lhs_contract.len() > 1 {
        // Sums over several axes go along the memory of the larger operand; the other one is put in that order.
        let (large, axes) = match x.shape().count() >= y.shape().count() {
            true => (x, &p.lhs_contract),
            false => (y, &p.rhs_contract),
        };
        let order = by_memory(large, axes)?;
        let along = |axes: &Axes| order.iter().map(|&i| axes[i]).collect::<Vec<usize>>();
        let (left, right) = (along(&p.lhs_contract), along(&p.rhs_contract));
        let first: Vec<usize> = (0..order.len()).collect();
        let none: &[usize] = &[];
        let copy = |x: &Tensor, sum: &[usize]| match side(x, none, sum) {
            Some(_) => Ok(None),
            None => gathered(x, sum).map(Some),
        };
        let copies = [copy(x, &left)?, copy(y, &right)?];
        let sides = [(x, &left), (y, &right)];
        let sides = [0, 1].map(|i| match &copies[i] {
            Some(copy) => side(copy, none, &first),
            None => side(sides[i].0, none, sides[i].1),
        });
        if let [Some(left), Some(right)] = &sides {
            let mut bytes = memory::alloc("dot_general", out)?;
            let sizes = [left.free.0, right.free.0, left.sum.0];
            one(bytes.as_mut_slice(), sizes, left, right);
            return Ok(Some(Buffer::new(bytes)));
        }
    }
    let sides = side(x, &p.lhs_batch, &p.lhs_contract).zip(side(y, &p.rhs_batch, &p.rhs_contract));
    let Some((left, right)) = sides else {
        return Ok(None);
    };
    let (m, n, k) = (left.free.0, right.free.0, left.sum.0);
    let mut bytes = memory::alloc("dot_general", out)?;
    if p.lhs_batch.is_empty() {
        one(bytes.as_mut_slice(), [m, n, k], &left, &right);
        return Ok(Some(Buffer::new(bytes)));
    }
    let grain = TASK.div_ceil((m * n * k).max(1)) * m * n;
    parallel::for_chunks_mut(bytes.as_mut_slice::<f32>(), grain, |start, part| {
        for (i, dst) in part.chunks_mut(m * n).enumerate() {
            let index = start / (m * n) + i;
            let lhs = Strides {
                offset: left.offset(index),
                row: left.free.1,
                col: left.sum.1,
            };
            let rhs = Strides {
                offset: right.offset(index),
                row: right.sum.1,
                col: right.free.1,
            };
            float_product(
                [m, n, k],
                dst,
                (left.view.data, lhs),
                (right.view.data, rhs),
                false,
                1,
            );
        }
    });
    Ok(Some(Buffer::new(bytes)))
}

/// One product, by rows or columns.
fn one(out: &mut [f32], [m, n, k]: [usize; 3], left: &Side<'_>, right: &Side<'_>) {
    // One for each thread: each task packs the whole of the other operand. The number shows in no bit, since the sums of an
    // element run in one order whatever rows or columns are computed with it.
    let wanted = (m * n * k / SMALL).clamp(1, parallel::threads());
    let long = m.max(n);
    // Of about equal size: one short task in four leaves a thread idle for a quarter of the time.
    let wanted = wanted.min(long.div_ceil(FEWEST));
    let each = long.div_ceil(wanted).next_multiple_of(ALIGNED).min(long);
    let lhs = |row: usize| Strides {
        offset: (left.view.offset as isize + row as isize * left.free.1) as usize,
        row: left.free.1,
        col: left.sum.1,
    };
    let rhs = |column: usize| Strides {
        offset: (right.view.offset as isize + column as isize * right.free.1) as usize,
        row: right.sum.1,
        col: right.free.1,
    };
    let dense = |columns: usize| Strides {
        offset: 0,
        row: columns as isize,
        col: 1,
    };
    let (a, b) = (left.view.data, right.view.data);
    if fits_panels([m, n, k]) {
        let (lhs, rhs) = ((a, lhs(0)), (b, rhs(0)));
        return float_product([m, n, k], out, lhs, rhs, false, parallel::threads());
    }
    if m >= n || each == long {
        let rows = if m >= n { each } else { m };
        return parallel::for_chunks_mut(out, rows * n, |start, dst| {
            let shape = [dst.len() / n, n, k];
            let (lhs, rhs) = (lhs(start / n), rhs(0));
            simd::gemm(shape, (dst, dense(n)), (a, lhs), (b, rhs), false, 1);
        });
    }
    // Columns of a task do not lie together: they are computed apart and copied.
    let all = parallel::Columns::new(out, n, each);
    parallel::for_tasks(n.div_ceil(each), |task| {
        let first = task * each;
        let columns = each.min(n - first);
        let mut room = memory::Room::<f32>::new(m * columns);
        let (to, from) = ((&mut room[..], dense(columns)), (a, lhs(0)));
        simd::gemm([m, columns, k], to, from, (b, rhs(first)), false, 1);
        let mut part = all.take(task);
        for (i, row) in room.chunks_exact(columns).enumerate() {
            part.row(i).copy_from_slice(row);
        }
    });
}
