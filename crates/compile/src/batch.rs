//! Batches of small products, divided between the products: one hand-over for all of them, none inside of any.

use clematis_core::op::Dot;
use clematis_core::{DType, Result, Spec, Tensor};
use clematis_native::buffer::concrete;
use clematis_native::layout::{View, merge};
use clematis_native::simd::{self, Strides};
use clematis_native::{Buffer, memory, parallel};

/// Sums of a product beyond which it is worth all threads by itself.
const LARGE: usize = 1 << 23;
/// Sums of a task.
const TASK: usize = 1 << 19;

/// Whether a product is a batch of small ones.
pub fn is_batch(p: &Dot, out: &Spec, x: &Spec) -> bool {
    let size = |axes: &[usize]| axes.iter().map(|&a| x.shape.size(a)).product::<usize>();
    let (count, k) = (size(&p.lhs_batch), size(&p.lhs_contract));
    out.dtype == DType::F32 && count > 1 && out.shape.count() / count * k < LARGE && k > 0
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

/// Runs a batch; `None` where strides do not suffice.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    let sides = side(x, &p.lhs_batch, &p.lhs_contract).zip(side(y, &p.rhs_batch, &p.rhs_contract));
    let Some((left, right)) = sides else {
        return Ok(None);
    };
    let (m, n, k) = (left.free.0, right.free.0, left.sum.0);
    let mut bytes = memory::alloc("dot_general", out)?;
    let grain = TASK.div_ceil((m * n * k).max(1)) * m * n;
    parallel::for_chunks_mut(bytes.as_mut_slice::<f32>(), grain, |start, part| {
        for (i, dst) in part.chunks_mut(m * n).enumerate() {
            let index = start / (m * n) + i;
            let whole = Strides {
                offset: 0,
                row: n as isize,
                col: 1,
            };
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
            simd::gemm(
                [m, n, k],
                (dst, whole),
                (left.view.data, lhs),
                (right.view.data, rhs),
                false,
                1,
            );
        }
    });
    Ok(Some(Buffer::new(bytes)))
}
