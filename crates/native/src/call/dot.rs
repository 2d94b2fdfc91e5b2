//! `dot_general` over any axes, reduced to batched matmul by strides. An operand is copied only where strides do not
//! suffice, and then piece by piece.

use super::{Plain, elements, elements_mut};
use crate::buffer::{self, Buffer};
use crate::kernel::dot::{self, Dot as Matmul, Operand, Sizes};
use crate::layout::{Strides, View, dense_strides, merge};
use crate::memory;
use crate::simd;
use clematis_core::op::Dot;
use clematis_core::{Result, Spec, Tensor, with_element};

/// Merges several axes into one: its size and stride, or `None` if no single stride spans them.
fn collapse_axes(sizes: &[usize], strides: &[isize]) -> Option<(usize, isize)> {
    let (merged, [steps]) = merge(sizes, [strides]);
    match (&merged[..], &steps[..]) {
        ([], []) => Some((1, 1)),
        ([size], [step]) => Some((*size, *step)),
        // An empty axis needs no stride.
        _ if sizes.contains(&0) => Some((0, 1)),
        _ => None,
    }
}

/// Elements of copied operands that are held at a time; a single row of the contraction may exceed it.
const MAX_COPIED: usize = 1 << 20;

/// An operand with its axes sorted by role: batch, free, contracted.
#[derive(Clone)]
struct DotOperand<'a, S> {
    view: View<'a, S>,
    batch: &'a [usize],
    free: Vec<usize>,
    contract: Vec<usize>,
}

impl<S: Copy> DotOperand<'_, S> {
    /// A part of one axis.
    fn sliced(&self, axis: usize, start: usize, count: usize) -> Self {
        let mut side = self.clone();
        let offset = side.view.offset as isize + start as isize * side.view.strides[axis];
        side.view.offset = offset as usize;
        side.view.sizes[axis] = count;
        side
    }

    /// The number of elements that must be copied.
    fn to_copy(&self) -> usize {
        match self.matrix() {
            Some(_) => 0,
            None => self.view.count(),
        }
    }

    fn group(&self, axes: &[usize]) -> Option<(usize, isize)> {
        let sizes: Vec<usize> = axes.iter().map(|&a| self.view.sizes[a]).collect();
        let strides: Vec<isize> = axes.iter().map(|&a| self.view.strides[a]).collect();
        collapse_axes(&sizes, &strides)
    }

    /// Strides of the free and the contracted axes, if each group is one axis.
    fn matrix(&self) -> Option<(isize, isize)> {
        Some((self.group(&self.free)?.1, self.group(&self.contract)?.1))
    }

    fn count(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&a| self.view.sizes[a]).product()
    }
}

/// Orders of the contracted axes worth trying: as given, and the memory order of either operand.
fn contraction_orders<S: Copy>(x: &DotOperand<'_, S>, y: &DotOperand<'_, S>) -> [Vec<usize>; 3] {
    let given: Vec<usize> = (0..x.contract.len()).collect();
    let by = |side: &DotOperand<'_, S>| {
        let mut order = given.clone();
        order.sort_by_key(|&i| {
            std::cmp::Reverse(side.view.strides[side.contract[i]].unsigned_abs())
        });
        order
    };
    let (left, right) = (by(x), by(y));
    [given, left, right]
}

/// Runs a `dot_general`.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    with_element!(out.dtype, E => typed::<E>(p, x, y, out))
}

fn typed<E: Plain + Matmul>(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer>
where
    E::Stored: crate::element::Stored,
{
    let (a, b) = (buffer::of(x)?, buffer::of(y)?);
    if let Some(done) = matrices::<E>(p, (x, &a), (y, &b), out) {
        return done;
    }
    let free = |rank: usize, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..rank)
            .filter(|i| !batch.contains(i) && !contract.contains(i))
            .collect()
    };
    let mut left = DotOperand {
        view: a.view::<E::Stored>(x.shape()),
        batch: &p.lhs_batch,
        free: free(x.rank(), &p.lhs_batch, &p.lhs_contract),
        contract: p.lhs_contract.to_vec(),
    };
    let mut right = DotOperand {
        view: b.view::<E::Stored>(y.shape()),
        batch: &p.rhs_batch,
        free: free(y.rank(), &p.rhs_batch, &p.rhs_contract),
        contract: p.rhs_contract.to_vec(),
    };
    let found = contraction_orders(&left, &right).into_iter().find(|order| {
        let pick = |axes: &[usize]| order.iter().map(|&i| axes[i]).collect::<Vec<_>>();
        left.group(&pick(&left.contract)).is_some() && right.group(&pick(&right.contract)).is_some()
    });
    if let Some(order) = found {
        left.contract = order.iter().map(|&i| left.contract[i]).collect();
        right.contract = order.iter().map(|&i| right.contract[i]).collect();
    }
    let n = right.count(&right.free);
    let mut bytes = memory::alloc("dot_general", out)?;
    solve::<E>(elements_mut::<E>(&mut bytes)?, n, &left, &right)?;
    Ok(Buffer::new(bytes))
}

/// A product of two matrices or vectors over one axis: the fast path, which needs no analysis of strides.
fn matrices<E: Plain + Matmul>(
    p: &Dot,
    (x, a): (&Tensor, &Buffer),
    (y, b): (&Tensor, &Buffer),
    out: &Spec,
) -> Option<Result<Buffer>>
where
    E::Stored: crate::element::Stored,
{
    let (&[left], &[right]) = (&p.lhs_contract[..], &p.rhs_contract[..]) else {
        return None;
    };
    if !p.lhs_batch.is_empty() || x.rank() > 2 || y.rank() > 2 {
        return None;
    }
    let (a, b) = (
        a.view::<E::Stored>(x.shape()),
        b.view::<E::Stored>(y.shape()),
    );
    // The axis that is not contracted: a vector has none.
    let free = |view: &View<'_, E::Stored>, contract: usize| match view.sizes.len() {
        2 => (view.sizes[1 - contract], view.strides[1 - contract]),
        _ => (1, 1),
    };
    let ((m, row), (n, col)) = (free(&a, left), free(&b, right));
    let run = || {
        let mut bytes = memory::alloc("dot_general", out)?;
        let sizes = Sizes {
            batch: &[],
            m,
            n,
            k: a.sizes[left],
        };
        let lhs = Operand {
            data: elements::<E>(a.data)?,
            matrix: simd::Strides {
                offset: a.offset,
                row,
                col: a.strides[left],
            },
            batch: &[],
        };
        let rhs = Operand {
            data: elements::<E>(b.data)?,
            matrix: simd::Strides {
                offset: b.offset,
                row: b.strides[right],
                col,
            },
            batch: &[],
        };
        dot::matmul(elements_mut::<E>(&mut bytes)?, sizes, lhs, rhs);
        Ok(Buffer::new(bytes))
    };
    Some(run())
}

/// The first of some axes that can be split, by its position among them.
fn divisible<S: Copy>(side: &DotOperand<'_, S>, axes: &[usize]) -> Option<usize> {
    axes.iter().position(|&axis| side.view.sizes[axis] > 1)
}

/// Calls `f(start, count)` for parts of an axis such that a part takes about `MAX_COPIED` of the `whole` elements.
fn pieces(size: usize, whole: usize, mut f: impl FnMut(usize, usize) -> Result<()>) -> Result<()> {
    let each = (MAX_COPIED / (whole / size).max(1)).max(1);
    (0..size)
        .step_by(each)
        .try_for_each(|start| f(start, each.min(size - start)))
}

/// Computes into rows of `dst` with stride `pitch`, which exceeds the number of columns only for a single matmul.
fn solve<E: Plain + Matmul>(
    dst: &mut [E],
    pitch: usize,
    left: &DotOperand<'_, E::Stored>,
    right: &DotOperand<'_, E::Stored>,
) -> Result<()>
where
    E::Stored: crate::element::Stored,
{
    let (m, n) = (left.count(&left.free), right.count(&right.free));
    let (lhs, rhs) = (left.to_copy(), right.to_copy());
    // A range of the result's columns is computed in scratch and copied.
    let result = if pitch == n { 0 } else { m * n };
    if dst.is_empty() || lhs.max(rhs).max(result) <= MAX_COPIED {
        return multiply(dst, pitch, left, right);
    }
    if let Some(at) = divisible(left, left.batch) {
        let (axis, other) = (left.batch[at], right.batch[at]);
        let size = left.view.sizes[axis];
        let step = dst.len() / size;
        return pieces(size, lhs.max(rhs), |start, count| {
            let dst = &mut dst[start * step..(start + count) * step];
            let left = left.sliced(axis, start, count);
            solve(dst, pitch, &left, &right.sliced(other, start, count))
        });
    }
    match (divisible(left, &left.free), divisible(right, &right.free)) {
        (_, Some(at)) if rhs > MAX_COPIED => {
            let axis = right.free[at];
            let size = right.view.sizes[axis];
            pieces(size, rhs, |start, count| {
                let right = right.sliced(axis, start, count);
                solve(&mut dst[start * (n / size)..], pitch, left, &right)
            })
        }
        (Some(at), _) if lhs.max(result) > MAX_COPIED => {
            let axis = left.free[at];
            let size = left.view.sizes[axis];
            pieces(size, lhs.max(result), |start, count| {
                let dst = &mut dst[start * (m / size) * pitch..];
                solve(dst, pitch, &left.sliced(axis, start, count), right)
            })
        }
        _ => multiply(dst, pitch, left, right),
    }
}

/// The same without splitting.
fn multiply<E: Plain + Matmul>(
    dst: &mut [E],
    pitch: usize,
    left: &DotOperand<'_, E::Stored>,
    right: &DotOperand<'_, E::Stored>,
) -> Result<()>
where
    E::Stored: crate::element::Stored,
{
    let batch: Vec<usize> = left.batch.iter().map(|&i| left.view.sizes[i]).collect();
    let (m, n) = (left.count(&left.free), right.count(&right.free));
    let k = left.count(&left.contract);
    let sizes = Sizes {
        batch: &batch,
        m,
        n,
        k,
    };
    // Rows of the left and of the right operand are its free axes, columns its contracted axes.
    let lhs_copy = packed(left)?;
    let (lhs, lhs_batch, (row, col)) = locate(left, lhs_copy.as_ref(), (m, k));
    let lhs = Operand {
        data: elements::<E>(lhs.0)?,
        matrix: simd::Strides {
            offset: lhs.1,
            row,
            col,
        },
        batch: &lhs_batch,
    };
    let rhs_copy = packed(right)?;
    let (rhs, rhs_batch, (col, row)) = locate(right, rhs_copy.as_ref(), (n, k));
    let rhs = Operand {
        data: elements::<E>(rhs.0)?,
        matrix: simd::Strides {
            offset: rhs.1,
            row,
            col,
        },
        batch: &rhs_batch,
    };
    if pitch == n {
        let count = batch.iter().product::<usize>() * m * n;
        dot::matmul(&mut dst[..count], sizes, lhs, rhs);
    } else if let Some(&any) = dst.first() {
        let mut part = vec![any; m * n];
        dot::matmul(&mut part, sizes, lhs, rhs);
        for (dst, part) in dst.chunks_mut(pitch).zip(part.chunks_exact(n)) {
            dst[..n].copy_from_slice(part);
        }
    }
    Ok(())
}

type Located<'a, S> = ((&'a [S], usize), Vec<isize>, (isize, isize));

/// Where the matrices of an operand are: in its own memory or in its copy `[batch, free, contracted]`.
fn locate<'a, S: crate::element::Stored>(
    side: &DotOperand<'a, S>,
    copy: Option<&'a clematis_core::host::Bytes>,
    (free, contract): (usize, usize),
) -> Located<'a, S> {
    match (copy, side.matrix()) {
        (None, Some(steps)) => {
            let batch = side.batch.iter().map(|&i| side.view.strides[i]).collect();
            ((side.view.data, side.view.offset), batch, steps)
        }
        (copy, _) => {
            let mut sizes: Vec<usize> = side.batch.iter().map(|&i| side.view.sizes[i]).collect();
            sizes.extend([free, contract]);
            let mut strides: Strides = dense_strides(&sizes);
            strides.truncate(side.batch.len());
            let data = copy.map_or(&[][..], |bytes| bytes.as_slice());
            ((data, 0), strides.to_vec(), (contract.max(1) as isize, 1))
        }
    }
}

/// A copy in the order `[batch, free, contracted]`, where strides do not suffice.
fn packed<S: crate::element::Stored>(
    side: &DotOperand<'_, S>,
) -> Result<Option<clematis_core::host::Bytes>> {
    if side.matrix().is_some() {
        return Ok(None);
    }
    let axes: Vec<usize> = side
        .batch
        .iter()
        .chain(&side.free)
        .chain(&side.contract)
        .copied()
        .collect();
    let view = side.view.transposed(&axes);
    // By its size in bytes: the scratch buffer has no dtype of its own.
    let spec = Spec::of(clematis_core::DType::U8, [view.count() * size_of::<S>()])?;
    let mut bytes = memory::alloc("dot_general", &spec)?;
    crate::layout::copy(&view, bytes.as_mut_slice::<S>());
    Ok(Some(bytes))
}
