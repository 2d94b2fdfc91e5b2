//! Skinny GEMM (few rows, as in each step of a recurrent network): reads the right operand in place, because packing it
//! would take as long as the matmul itself.

use clematis_core::op::Dot;
use clematis_core::{DType, Result, Shape, Spec, Tensor, ensure};
use clematis_native::buffer::{concrete, contiguous};
use clematis_native::kernel::row_kernels::gemm_tile;
use clematis_native::layout::View;
use clematis_native::parallel::{self, Columns};
use clematis_native::simd::{self, Level, SKINNY_TILE};
use clematis_native::{Buffer, backend, memory};

/// Rows and columns of the register tile.
const ROWS: usize = 4;
const COLUMNS: usize = 64;
/// The most rows for which nothing is packed.
const MAX_ROWS: usize = 48;
/// MACs per task: handing a task to a thread takes a tenth of its run time.
const TASK_MACS: usize = 1 << 22;

/// Rows and columns of the register tile where the right operand is packed.
const PACKED_ROWS: usize = SKINNY_TILE.0;
const PACKED_COLUMNS: usize = SKINNY_TILE.1;

/// Packs a right operand into panels of columns, which the packed kernel reads sequentially; one panel stays in L1.
pub fn pack(y: &Tensor, sum: usize) -> Result<Tensor> {
    let b = concrete(y)?.view::<f32>(y.shape());
    let (k, n) = (b.sizes[sum], b.sizes[1 - sum]);
    let spec = y
        .spec()
        .with_shape(Shape::from_sizes(&[n / PACKED_COLUMNS, k, PACKED_COLUMNS]));
    let mut bytes = memory::alloc("dot_general", &spec)?;
    let (along, across) = (b.strides[sum], b.strides[1 - sum]);
    let blocks = bytes
        .as_mut_slice::<f32>()
        .chunks_exact_mut(k * PACKED_COLUMNS);
    for (block, out) in blocks.enumerate() {
        for (p, out) in out.chunks_exact_mut(PACKED_COLUMNS).enumerate() {
            let from = b.offset as isize + p as isize * along;
            for (j, out) in out.iter_mut().enumerate() {
                let column = (block * PACKED_COLUMNS + j) as isize;
                *out = b.data[(from + column * across) as usize];
            }
        }
    }
    Ok(Tensor::concrete(
        spec,
        backend(),
        Buffer::new(bytes).boxed(),
    ))
}

/// A matmul with a right operand packed by `pack`, on this thread.
pub fn run_packed(x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    let whole = contiguous("dot_general", concrete(x)?, x.spec())?;
    let (a, b) = (
        whole.view::<f32>(x.shape()),
        concrete(y)?.view::<f32>(y.shape()),
    );
    let [m, k] = [a.sizes[0], a.sizes[1]];
    let n = out.shape.size(1);
    ensure!(
        b.sizes[..] == [n / PACKED_COLUMNS, k, PACKED_COLUMNS],
        Internal,
        "compile: cannot multiply {} by a packed {}",
        x.spec(),
        y.spec()
    );
    let (panels, _) = b.data[b.offset..].as_chunks::<PACKED_COLUMNS>();
    let mut bytes = memory::alloc("dot_general", out)?;
    let rows = bytes.as_mut_slice::<f32>();
    let mut sums = [[0f32; PACKED_COLUMNS]; PACKED_ROWS];
    for (block, panel) in panels.chunks_exact(k).take(n / PACKED_COLUMNS).enumerate() {
        for first in (0..m).step_by(PACKED_ROWS) {
            let row = |i: usize| a.offset + (first + i).min(m - 1) * k;
            simd::skinny_tile(a.data, &std::array::from_fn(row), panel, &mut sums);
            for (i, sums) in sums.iter().enumerate().take(m - first) {
                let at = (first + i) * n + block * PACKED_COLUMNS;
                rows[at..at + PACKED_COLUMNS].copy_from_slice(sums);
            }
        }
    }
    Ok(Buffer::new(bytes))
}

/// Whether the shapes of a matmul make it a skinny GEMM.
pub fn is_skinny(p: &Dot, x: &Spec, y: &Spec) -> bool {
    let plain = p.lhs_batch.is_empty() && p.lhs_contract[..] == [1] && p.rhs_contract.len() == 1;
    plain
        && x.dtype == DType::F32
        && x.rank() == 2
        && y.rank() == 2
        && x.shape.size(0) <= MAX_ROWS
        && x.shape.size(1) > 0
        && y.shape.size(1 - p.rhs_contract[0]).is_multiple_of(COLUMNS)
        // Needs a fused multiply-add instruction; without it, each one would be a library call.
        && simd::level() >= Level::Avx2
}

fn row<'a>(view: &View<'a, f32>, i: usize, len: usize) -> &'a [f32] {
    let start = (view.offset as isize + i as isize * view.strides[0]) as usize;
    &view.data[start..start + len]
}

/// Runs the matmul; `None` for other memory layouts.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Option<Buffer>> {
    let (a, b) = (
        concrete(x)?.view::<f32>(x.shape()),
        concrete(y)?.view::<f32>(y.shape()),
    );
    let sum = p.rhs_contract[0];
    let (m, n, k) = (a.sizes[0], b.sizes[1 - sum], a.sizes[1]);
    if a.strides[1] != 1 || b.strides[1 - sum] != 1 || b.strides[sum] < n as isize {
        return Ok(None);
    }
    let step = b.strides[sum] as usize;
    let mut bytes = memory::alloc("dot_general", out)?;
    // A task has whole column blocks, so the sums are the same whichever thread runs it.
    let width = (TASK_MACS / (m * k)).max(COLUMNS).div_ceil(COLUMNS) * COLUMNS;
    let columns = Columns::new(bytes.as_mut_slice::<f32>(), n, width);
    parallel::for_tasks(n.div_ceil(width), |task| {
        let mut part = columns.take(task);
        let mut sums = [[0f32; COLUMNS]; ROWS];
        for first in (0..m).step_by(ROWS) {
            let rows: [&[f32]; ROWS] = std::array::from_fn(|i| row(&a, (first + i).min(m - 1), k));
            for column in (task * width..n.min((task + 1) * width)).step_by(COLUMNS) {
                gemm_tile(&mut sums, &rows, &b.data[b.offset + column..], step);
                for (i, sums) in sums.iter().enumerate().take(m - first) {
                    part.slice(first + i, column - task * width, COLUMNS)
                        .copy_from_slice(sums);
                }
            }
        }
    });
    Ok(Some(Buffer::new(bytes)))
}
