//! `x[…]` with every kind of index, for reading and writing.
//!
//! Integers, ranges and new axes become slices. Integer arrays and masks follow NumPy's advanced indexing: they
//! broadcast together, and their axes replace the first of them, or come first if other indices separate them.

use super::index::{At, in_range, index, nonzero, one_or_none};
use super::{create::iota_like, elementwise::to_dtype};
use crate::dim::Dim;
use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::{Gather, OutOfRange, Scatter, ScatterKind};
use crate::shape::{Axes, Shape};
use crate::tensor::Tensor;
use crate::{bail, ensure};

/// One index inside the brackets.
#[derive(Clone, Debug)]
pub enum Subscript {
    /// An integer, a range, a new axis or `...`.
    At(At),
    /// An array of integers, or a mask that covers as many axes as it has.
    Array(Tensor),
}

impl<T: Into<At>> From<T> for Subscript {
    fn from(at: T) -> Subscript {
        Subscript::At(at.into())
    }
}

/// The result of applying the slices: `x` with index arrays for some of its axes.
struct Picked {
    x: Tensor,
    /// Index arrays of one shape, with the axis of each.
    arrays: Vec<(usize, Tensor)>,
    /// Whether other indices separate them.
    apart: bool,
}

/// Replaces masks by index arrays: one for each axis that a mask covers.
fn without_masks(parts: &[Subscript]) -> Result<Vec<Subscript>> {
    let mut out = Vec::new();
    for part in parts {
        match part {
            Subscript::Array(mask) if mask.dtype() == DType::Bool => {
                let places = nonzero(mask).done()?;
                for axis in 0..mask.rank() {
                    let column =
                        index(&places, &[At::Range(None, None, 1), At::Place(axis as i64)]);
                    out.push(Subscript::Array(column.done()?));
                }
            }
            other => out.push(other.clone()),
        }
    }
    Ok(out)
}

/// Checks that the shape of each mask matches the axes it covers.
fn check_masks(x: &Tensor, parts: &[Subscript]) -> Result<()> {
    let takes = |p: &Subscript| match p {
        Subscript::At(At::Place(_) | At::Range(..)) => 1,
        Subscript::At(_) => 0,
        Subscript::Array(a) if a.dtype() == DType::Bool => a.rank(),
        Subscript::Array(_) => 1,
    };
    let used: usize = parts.iter().map(takes).sum();
    ensure!(
        used <= x.rank(),
        Index,
        "index: got {used} indexed axes, {} has {}",
        x.spec(),
        x.rank()
    );
    let mut axis = 0;
    for part in parts {
        if let Subscript::At(At::Rest) = part {
            axis += x.rank() - used;
        }
        if let Subscript::Array(mask) = part
            && mask.dtype() == DType::Bool
        {
            let covered = &x.shape().dims()[axis..axis + mask.rank()];
            // A mask of size 0 along an axis selects nothing from it.
            let fits = |(own, mask): (&Dim, &Dim)| own == mask || *mask == 0usize;
            ensure!(
                covered.iter().zip(mask.shape().dims()).all(fits),
                Index,
                "index: mask {} does not match {} from axis {axis} on",
                mask.spec(),
                x.spec()
            );
        }
        axis += takes(part);
    }
    Ok(())
}

/// Whether this is a mask without axes.
fn is_truth(part: &Subscript) -> bool {
    matches!(part, Subscript::Array(a) if a.dtype() == DType::Bool && a.rank() == 0)
}

fn pick(x: &Tensor, parts: &[Subscript]) -> Result<Picked> {
    check_masks(x, parts)?;
    if parts.iter().any(is_truth) {
        // A mask without axes keeps all or nothing along a new axis.
        return pick_by_truth(x, parts);
    }
    let parts = without_masks(parts)?;
    // Slices first; axes with an array are kept whole. An integer next to arrays becomes an array.
    let mut slices = Vec::new();
    let mut places = Vec::new();
    let any = parts.iter().any(|p| matches!(p, Subscript::Array(_)));
    let whole = || At::Range(None, None, 1);
    for part in &parts {
        match part {
            Subscript::Array(a) => {
                places.push((slices.len(), a.clone()));
                slices.push(whole());
            }
            Subscript::At(At::Place(i)) if any => {
                places.push((slices.len(), Tensor::scalar(*i, DType::INDEX)));
                slices.push(whole());
            }
            Subscript::At(at) => slices.push(at.clone()),
        }
    }
    let indexed = slices
        .iter()
        .filter(|a| matches!(a, At::Place(_) | At::Range(..)))
        .count();
    ensure!(
        indexed <= x.rank(),
        Index,
        "index: got {indexed} indices for {}",
        x.spec()
    );
    let rest = x.rank() - indexed;
    let sliced = index(x, &slices).done()?;
    // The axis of each array once `...` is expanded.
    let mut axes = Vec::with_capacity(slices.len());
    let mut axis = 0;
    for at in &slices {
        axes.push(axis);
        axis += match at {
            At::Rest => rest,
            At::Place(_) => 0,
            At::Range(..) | At::New => 1,
        };
    }
    let apart = places.windows(2).any(|w| w[1].0 != w[0].0 + 1);
    let mut arrays = Vec::with_capacity(places.len());
    for (slot, array) in places {
        let axis = axes[slot];
        let array = in_range("index", &array, axis, sliced.shape().dims()[axis])?;
        arrays.push((axis, array));
    }
    let refs: Vec<&Tensor> = arrays.iter().map(|(_, a)| a).collect();
    let spread = super::broadcast_arrays(&refs)
        .map_err(|e| e.note("index arrays must broadcast together"))?;
    let arrays = arrays.iter().map(|(axis, _)| *axis).zip(spread).collect();
    Ok(Picked {
        x: sliced,
        arrays,
        apart,
    })
}

fn pick_by_truth(x: &Tensor, parts: &[Subscript]) -> Result<Picked> {
    let [Subscript::Array(mask), rest @ ..] = parts else {
        bail!(
            Unsupported,
            "index: a mask without axes must be the first index"
        );
    };
    ensure!(
        rest.iter().all(|p| matches!(p, Subscript::At(At::Rest))),
        Unsupported,
        "index: a mask without axes must be the only index"
    );
    let keep = mask.item()?.as_bool();
    // Selects index 0, or nothing.
    let shape = Shape::from_sizes(&[usize::from(keep)]);
    let places = iota_like(x, &shape, 0, DType::INDEX).done()?;
    Ok(Picked {
        x: super::expand_dims(x, 0).done()?,
        arrays: vec![(0, places)],
        apart: false,
    })
}

impl Picked {
    /// The index vectors, and the position of the arrays' axes in the result.
    fn vectors(&self) -> Result<(Tensor, usize)> {
        let columns: Vec<Tensor> = self.arrays.iter().map(|(_, a)| a.clone()).collect();
        let first = self.arrays.first().map_or(0, |(axis, _)| *axis);
        Ok((
            super::stack(&columns, -1).done()?,
            if self.apart { 0 } else { first },
        ))
    }

    fn axes(&self) -> Axes {
        self.arrays.iter().map(|(axis, _)| *axis).collect()
    }

    /// The positions in the result of the axes that have no array.
    fn window_axes(&self, at: usize) -> Axes {
        let axes = self.axes();
        let extra = self.arrays.first().map_or(0, |(_, a)| a.rank());
        (0..self.x.rank() - axes.len())
            .map(|i| if i < at { i } else { i + extra })
            .collect()
    }
}

/// Indexing: `x[…]`.
pub fn subscript(x: impl IntoExpr, parts: &[Subscript]) -> Expr {
    x.into_expr().then(|x| {
        if let Some(at) = plain(parts) {
            return index(&x, &at).done();
        }
        let picked = pick(&x, parts)?;
        let (vectors, at) = picked.vectors()?;
        let axes = picked.axes();
        let whole_or_one = |a| {
            if axes.contains(&a) {
                one_or_none(&picked.x, a)
            } else {
                picked.x.shape().dims()[a]
            }
        };
        let slice_sizes = (0..picked.x.rank()).map(whole_or_one).collect();
        let p = Gather {
            offset_axes: picked.window_axes(at),
            collapsed: axes.sorted(),
            index_map: axes,
            operand_batch: Axes::default(),
            index_batch: Axes::default(),
            slice_sizes,
            mode: OutOfRange::Clip,
        };
        apply_one(&p.into(), &[&picked.x, &vectors])
    })
}

/// `x` with `x[…]` set, incremented, …; the updates broadcast.
pub fn subscript_put(
    kind: ScatterKind,
    x: impl IntoExpr,
    parts: &[Subscript],
    updates: impl IntoExpr,
) -> Expr {
    x.into_expr().then(|x| {
        updates.into_expr().then(|updates| {
            let updates = to_dtype(&updates, x.dtype())?;
            let slices_only = plain(parts).is_some();
            let reordered = parts.iter().any(|p| !matches!(p, Subscript::Array(_)));
            if !slices_only && !reordered && !parts.iter().any(is_truth) {
                return put_at_arrays(kind, &x, parts, &updates);
            }
            // Numbers all elements, indexes the numbers, and scatters to them: one path for all combinations.
            let count = x.shape().known_count("index")?;
            let numbers = iota_like(&x, &Shape::from_sizes(&[count]), 0, DType::INDEX);
            let places = subscript(super::reshape(numbers, x.shape()), parts).done()?;
            let updates = fitting(&updates, places.shape())?;
            let flat = super::put(
                kind,
                super::reshape(&x, [-1i64]),
                super::reshape(&places, [-1i64]),
                super::reshape(&updates, [-1i64]),
                0,
            );
            super::reshape(flat, x.shape()).done()
        })
    })
}

/// Only arrays: they are the index vectors themselves.
fn put_at_arrays(
    kind: ScatterKind,
    x: &Tensor,
    parts: &[Subscript],
    updates: &Tensor,
) -> Result<Tensor> {
    let picked = pick(x, parts)?;
    let (vectors, at) = picked.vectors()?;
    let window_axes = picked.window_axes(at);
    let axes = picked.axes();
    let mut dims: Vec<_> = (0..x.rank())
        .filter(|a| !axes.contains(a))
        .map(|a| x.shape().dims()[a])
        .collect();
    let places = &vectors.shape().dims()[..vectors.rank() - 1];
    dims.splice(at..at, places.iter().copied());
    let updates = fitting(updates, &Shape::from_dims(dims))?;
    let p = Scatter {
        kind,
        window_axes,
        inserted: axes.sorted(),
        index_map: axes,
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        mode: OutOfRange::Drop,
    };
    apply_one(&p.into(), &[x, &vectors, &updates])
}

/// Broadcasts updates to the shape that is written; leading axes of size 1 are dropped as in NumPy.
fn fitting(updates: &Tensor, to: &Shape) -> Result<Tensor> {
    let mut updates = updates.clone();
    while updates.rank() > to.rank() && updates.shape().dims()[0] == 1usize {
        updates = super::squeeze(&updates, 0).done()?;
    }
    super::broadcast_to(&updates, to).done()
}

/// The indices as slices, if none of them is an array.
fn plain(parts: &[Subscript]) -> Option<Vec<At>> {
    parts
        .iter()
        .map(|p| match p {
            Subscript::At(at) => Some(at.clone()),
            Subscript::Array(_) => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_alone_need_no_arrays() {
        let parts = [Subscript::from(0), Subscript::At(At::Rest)];
        assert_eq!(plain(&parts).map(|p| p.len()), Some(2));
        let mask = Tensor::scalar(true, DType::Bool);
        assert!(plain(&[Subscript::Array(mask)]).is_none());
    }
}
