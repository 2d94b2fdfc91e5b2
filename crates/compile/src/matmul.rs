//! f32 matmuls divided into tasks: batched ones by matrices, single ones by rows or columns.
//!
//! Threads take tasks in order, the calling thread first, so a thread that starts late delays nobody. Results are
//! bit-identical for any number of threads.

use clematis_core::op::Dot;
use clematis_core::shape::Axes;
use clematis_core::{DType, Result, Shape, Spec, Tensor};
use clematis_native::buffer::{concrete, contiguous};
use clematis_native::kernel::dot::{gemm_f32, uses_packed_panels};
use clematis_native::layout::{View, merge};
use clematis_native::simd::{self, Strides};
use clematis_native::{Buffer, backend, memory, parallel};

/// MACs per matrix from which one matmul is worth all threads.
const MIN_PARALLEL_MACS: usize = 1 << 23;
/// MACs per task of a batch.
const TASK_MACS: usize = 1 << 19;

/// MACs per thread of a single matmul; smaller ones stay on the calling thread.
const MIN_MACS_PER_THREAD: usize = 1 << 21;
/// The fewest rows or columns of a task.
const MIN_TASK_ROWS: usize = 64;
/// Rows or columns of a task are a multiple of this.
const TASK_ALIGNMENT: usize = 16;

/// Whether this module runs a matmul of these shapes.
pub fn is_partitioned(p: &Dot, out: &Spec, x: &Spec) -> bool {
    let size = |axes: &[usize]| axes.iter().map(|&a| x.shape.size(a)).product::<usize>();
    let (count, k) = (size(&p.lhs_batch), size(&p.lhs_contract));
    let macs = out.shape.count() / count.max(1) * k;
    out.dtype == DType::F32 && macs > 0 && (macs < MIN_PARALLEL_MACS || count == 1)
}

/// One operand: sizes and strides of its batch axes, and size and stride of its free and of its contracted axes.
struct Operand<'a> {
    view: View<'a, f32>,
    batch: Vec<(usize, isize)>,
    free: (usize, isize),
    sum: (usize, isize),
}

/// Several axes as one, if a single stride spans them.
fn collapse_axes(view: &View<'_, f32>, axes: &[usize]) -> Option<(usize, isize)> {
    let sizes: Vec<usize> = axes.iter().map(|&a| view.sizes[a]).collect();
    let strides: Vec<isize> = axes.iter().map(|&a| view.strides[a]).collect();
    let (sizes, [strides]) = merge(&sizes, [&strides]);
    match (&sizes[..], &strides[..]) {
        ([], []) => Some((1, 1)),
        ([size], [step]) => Some((*size, *step)),
        _ => None,
    }
}

fn operand<'a>(x: &'a Tensor, batch: &[usize], sum: &[usize]) -> Option<Operand<'a>> {
    let view = concrete(x).ok()?.view::<f32>(x.shape());
    let free: Vec<usize> = (0..x.rank())
        .filter(|a| !batch.contains(a) && !sum.contains(a))
        .collect();
    Some(Operand {
        batch: batch
            .iter()
            .map(|&a| (view.sizes[a], view.strides[a]))
            .collect(),
        free: collapse_axes(&view, &free)?,
        sum: collapse_axes(&view, sum)?,
        view,
    })
}

impl Operand<'_> {
    /// The offset of the `index`-th matrix.
    fn offset(&self, mut index: usize) -> usize {
        let mut offset = self.view.offset as isize;
        for &(size, stride) in self.batch.iter().rev() {
            offset += (index % size) as isize * stride;
            index /= size;
        }
        offset as usize
    }
}

/// Axes in memory order, from the largest stride to the smallest.
fn by_stride(x: &Tensor, axes: &[usize]) -> Result<Vec<usize>> {
    let view = concrete(x)?.view::<f32>(x.shape());
    let mut order: Vec<usize> = (0..axes.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(view.strides[axes[i]]));
    Ok(order)
}

/// A copy whose contracted axes come first, in the given order.
fn sum_axes_first(x: &Tensor, sum: &[usize]) -> Result<Tensor> {
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

/// Runs a `dot_general`; `None` where the axes cannot be expressed by strides.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    if p.lhs_batch.is_empty() && p.lhs_contract.len() > 1 {
        // Contract several axes in the memory order of the larger operand; copy the other one into that order.
        let (large, axes) = match x.shape().count() >= y.shape().count() {
            true => (x, &p.lhs_contract),
            false => (y, &p.rhs_contract),
        };
        let order = by_stride(large, axes)?;
        let along = |axes: &Axes| order.iter().map(|&i| axes[i]).collect::<Vec<usize>>();
        let (left, right) = (along(&p.lhs_contract), along(&p.rhs_contract));
        let first: Vec<usize> = (0..order.len()).collect();
        let none: &[usize] = &[];
        let copy = |x: &Tensor, sum: &[usize]| match operand(x, none, sum) {
            Some(_) => Ok(None),
            None => sum_axes_first(x, sum).map(Some),
        };
        let copies = [copy(x, &left)?, copy(y, &right)?];
        let operands = [(x, &left), (y, &right)];
        let operands = [0, 1].map(|i| match &copies[i] {
            Some(copy) => operand(copy, none, &first),
            None => operand(operands[i].0, none, operands[i].1),
        });
        if let [Some(left), Some(right)] = &operands {
            let mut bytes = memory::alloc("dot_general", out)?;
            let sizes = [left.free.0, right.free.0, left.sum.0];
            single_matmul(bytes.as_mut_slice(), sizes, left, right);
            return Ok(Some(Buffer::new(bytes)));
        }
    }
    let operands =
        operand(x, &p.lhs_batch, &p.lhs_contract).zip(operand(y, &p.rhs_batch, &p.rhs_contract));
    let Some((left, right)) = operands else {
        return Ok(None);
    };
    let (m, n, k) = (left.free.0, right.free.0, left.sum.0);
    let mut bytes = memory::alloc("dot_general", out)?;
    if p.lhs_batch.is_empty() {
        single_matmul(bytes.as_mut_slice(), [m, n, k], &left, &right);
        return Ok(Some(Buffer::new(bytes)));
    }
    let grain = TASK_MACS.div_ceil((m * n * k).max(1)) * m * n;
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
            gemm_f32(
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

/// One matmul, divided by rows or columns.
fn single_matmul(out: &mut [f32], [m, n, k]: [usize; 3], left: &Operand<'_>, right: &Operand<'_>) {
    // One task per thread, since each task packs the whole other operand. The result does not depend on the number of
    // tasks: the sums of an element run in one order whatever rows or columns are computed with it.
    let wanted = (m * n * k / MIN_MACS_PER_THREAD).clamp(1, parallel::threads());
    let long = m.max(n);
    // Equal task sizes: one short task in four would leave a thread idle for a quarter of the time.
    let wanted = wanted.min(long.div_ceil(MIN_TASK_ROWS));
    let each = long
        .div_ceil(wanted)
        .next_multiple_of(TASK_ALIGNMENT)
        .min(long);
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
    let contiguous_rows = |columns: usize| Strides {
        offset: 0,
        row: columns as isize,
        col: 1,
    };
    let (a, b) = (left.view.data, right.view.data);
    if uses_packed_panels([m, n, k]) {
        let (lhs, rhs) = ((a, lhs(0)), (b, rhs(0)));
        return gemm_f32([m, n, k], out, lhs, rhs, false, parallel::threads());
    }
    if m >= n || each == long {
        let rows = if m >= n { each } else { m };
        return parallel::for_chunks_mut(out, rows * n, |start, dst| {
            let shape = [dst.len() / n, n, k];
            let (lhs, rhs) = (lhs(start / n), rhs(0));
            simd::gemm(
                shape,
                (dst, contiguous_rows(n)),
                (a, lhs),
                (b, rhs),
                false,
                1,
            );
        });
    }
    // The columns of a task are not contiguous: compute them in scratch and copy.
    let all = parallel::Columns::new(out, n, each);
    parallel::for_tasks(n.div_ceil(each), |task| {
        let first = task * each;
        let columns = each.min(n - first);
        let mut scratch = memory::Scratch::<f32>::new(m * columns);
        let (to, from) = ((&mut scratch[..], contiguous_rows(columns)), (a, lhs(0)));
        simd::gemm([m, columns, k], to, from, (b, rhs(first)), false, 1);
        let mut part = all.take(task);
        for (i, row) in scratch.chunks_exact(columns).enumerate() {
            part.row(i).copy_from_slice(row);
        }
    });
}
