//! Products over any axes, brought to batched matrices by strides; an operand is copied only where they do not suffice.

use super::{Plain, elements, elements_mut};
use crate::buffer::{self, Buffer};
use crate::kernel::dot::{self, Dot as Product, Operand, Sizes};
use crate::layout::{Strides, View, dense_strides, merge};
use crate::memory;
use crate::simd;
use clematis_core::op::Dot;
use clematis_core::{Result, Spec, Tensor, with_element};

/// Several axes as one: its size and step, or `None` where there is no such step.
fn as_one(sizes: &[usize], strides: &[isize]) -> Option<(usize, isize)> {
    let (merged, [steps]) = merge(sizes, [strides]);
    match (&merged[..], &steps[..]) {
        ([], []) => Some((1, 1)),
        ([size], [step]) => Some((*size, *step)),
        // A product of nothing needs no step.
        _ if sizes.contains(&0) => Some((0, 1)),
        _ => None,
    }
}

/// An operand with its axes sorted by what becomes of them.
struct Side<'a, S> {
    view: View<'a, S>,
    batch: &'a [usize],
    free: Vec<usize>,
    contract: Vec<usize>,
}

impl<S: Copy> Side<'_, S> {
    fn group(&self, axes: &[usize]) -> Option<(usize, isize)> {
        let sizes: Vec<usize> = axes.iter().map(|&a| self.view.sizes[a]).collect();
        let strides: Vec<isize> = axes.iter().map(|&a| self.view.strides[a]).collect();
        as_one(&sizes, &strides)
    }

    /// Steps of the free and the contracted axes, if each group is one axis.
    fn matrix(&self) -> Option<(isize, isize)> {
        Some((self.group(&self.free)?.1, self.group(&self.contract)?.1))
    }

    fn count(&self, axes: &[usize]) -> usize {
        axes.iter().map(|&a| self.view.sizes[a]).product()
    }
}

/// Orders of the contracted axes worth trying: as given, and as either operand lies in memory.
fn orders<S: Copy>(x: &Side<'_, S>, y: &Side<'_, S>) -> [Vec<usize>; 3] {
    let given: Vec<usize> = (0..x.contract.len()).collect();
    let by = |side: &Side<'_, S>| {
        let mut order = given.clone();
        order.sort_by_key(|&i| {
            std::cmp::Reverse(side.view.strides[side.contract[i]].unsigned_abs())
        });
        order
    };
    let (left, right) = (by(x), by(y));
    [given, left, right]
}

/// Runs a product.
pub fn run(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    with_element!(out.dtype, E => typed::<E>(p, x, y, out))
}

fn typed<E: Plain + Product>(p: &Dot, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer>
where
    E::Stored: crate::element::Stored,
{
    let (a, b) = (buffer::of(x)?, buffer::of(y)?);
    let free = |rank: usize, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..rank)
            .filter(|i| !batch.contains(i) && !contract.contains(i))
            .collect()
    };
    let mut left = Side {
        view: a.view::<E::Stored>(x.shape()),
        batch: &p.lhs_batch,
        free: free(x.rank(), &p.lhs_batch, &p.lhs_contract),
        contract: p.lhs_contract.to_vec(),
    };
    let mut right = Side {
        view: b.view::<E::Stored>(y.shape()),
        batch: &p.rhs_batch,
        free: free(y.rank(), &p.rhs_batch, &p.rhs_contract),
        contract: p.rhs_contract.to_vec(),
    };
    let found = orders(&left, &right).into_iter().find(|order| {
        let pick = |axes: &[usize]| order.iter().map(|&i| axes[i]).collect::<Vec<_>>();
        left.group(&pick(&left.contract)).is_some() && right.group(&pick(&right.contract)).is_some()
    });
    if let Some(order) = found {
        left.contract = order.iter().map(|&i| left.contract[i]).collect();
        right.contract = order.iter().map(|&i| right.contract[i]).collect();
    }
    let sizes: Vec<usize> = left.batch.iter().map(|&i| left.view.sizes[i]).collect();
    let (m, n) = (left.count(&left.free), right.count(&right.free));
    let k = left.count(&left.contract);
    let mut bytes = memory::alloc("dot_general", out)?;
    let (lhs_room, rhs_room);
    // Rows of the left operand and of the right one are its free and its contracted axes.
    let (lhs, lhs_batch, (row, col)) = {
        lhs_room = packed(&left)?;
        place(&left, lhs_room.as_ref(), (m, k))
    };
    let lhs = Operand {
        data: elements::<E>(lhs.0)?,
        matrix: simd::Strides {
            offset: lhs.1,
            row,
            col,
        },
        batch: &lhs_batch,
    };
    let (rhs, rhs_batch, (col, row)) = {
        rhs_room = packed(&right)?;
        place(&right, rhs_room.as_ref(), (n, k))
    };
    let rhs = Operand {
        data: elements::<E>(rhs.0)?,
        matrix: simd::Strides {
            offset: rhs.1,
            row,
            col,
        },
        batch: &rhs_batch,
    };
    dot::matmul(
        elements_mut::<E>(&mut bytes)?,
        Sizes {
            batch: &sizes,
            m,
            n,
            k,
        },
        lhs,
        rhs,
    );
    Ok(Buffer::new(bytes))
}

type Placed<'a, S> = ((&'a [S], usize), Vec<isize>, (isize, isize));

/// Where an operand's matrices lie: in its own memory or in its copy, which is `[batch, free, contracted]`.
fn place<'a, S: crate::element::Stored>(
    side: &Side<'a, S>,
    room: Option<&'a clematis_core::host::Bytes>,
    (free, contract): (usize, usize),
) -> Placed<'a, S> {
    match (room, side.matrix()) {
        (None, Some(steps)) => {
            let batch = side.batch.iter().map(|&i| side.view.strides[i]).collect();
            ((side.view.data, side.view.offset), batch, steps)
        }
        (room, _) => {
            let mut sizes: Vec<usize> = side.batch.iter().map(|&i| side.view.sizes[i]).collect();
            sizes.extend([free, contract]);
            let mut strides: Strides = dense_strides(&sizes);
            strides.truncate(side.batch.len());
            let data = room.map_or(&[][..], |bytes| bytes.as_slice());
            ((data, 0), strides.to_vec(), (contract.max(1) as isize, 1))
        }
    }
}

/// A copy in the order `[batch, free, contracted]`, where strides do not suffice.
fn packed<S: crate::element::Stored>(
    side: &Side<'_, S>,
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
    // By its size in bytes: the workspace has no dtype of its own.
    let spec = Spec::of(clematis_core::DType::U8, [view.count() * size_of::<S>()])?;
    let mut bytes = memory::alloc("dot_general", &spec)?;
    crate::kernel::map::copy(&view, bytes.as_mut_slice::<S>());
    Ok(Some(bytes))
}
