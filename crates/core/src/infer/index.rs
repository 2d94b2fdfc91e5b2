//! Inference of gather, scatter, dynamic slices, updates and search.

use super::{index_dtype, legal_axes, same_dtype};
use crate::dim::Dim;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::op::{Gather, Scatter, ScatterKind};
use crate::shape::{Axes, Shape};
use crate::spec::Spec;

fn start_vector(op: &str, x: &Spec, start: &Spec) -> Result<()> {
    index_dtype(op, start)?;
    ensure!(
        start.rank() == 1 && start.shape.dims()[0] == x.rank(),
        Shape,
        "{op}: expected a start vector of {} indices, got {start}",
        x.rank()
    );
    Ok(())
}

pub fn dynamic_slice(x: &Spec, start: &Spec, sizes: &Shape) -> Result<Spec> {
    start_vector("dynamic_slice", x, start)?;
    sizes.check("dynamic_slice")?;
    fits_inside("dynamic_slice", x, sizes)?;
    Ok(x.with_shape(sizes.clone()))
}

pub fn dynamic_update(x: &Spec, update: &Spec, start: &Spec) -> Result<Spec> {
    start_vector("dynamic_update_slice", x, start)?;
    same_dtype("dynamic_update_slice", x, update)?;
    fits_inside("dynamic_update_slice", x, &update.shape)?;
    Ok(x.clone())
}

fn fits_inside(op: &str, x: &Spec, block: &Shape) -> Result<()> {
    let fits = x.rank() == block.rank()
        && x.shape
            .dims()
            .iter()
            .zip(block.dims())
            .all(|(&size, &part)| (size - part).value().is_none_or(|gap| gap >= 0));
    ensure!(
        fits,
        Shape,
        "{op}: a block of {block} does not fit into {x}"
    );
    Ok(())
}

/// The axes of the indices without the last one, which holds the index vectors.
fn index_axes(op: &str, indices: &Spec, components: usize) -> Result<Shape> {
    index_dtype(op, indices)?;
    ensure!(
        indices.rank() > 0,
        Shape,
        "{op}: expected indices with a last axis of index vectors"
    );
    let last = indices.rank() - 1;
    ensure!(
        indices.shape.dims()[last] == components,
        Shape,
        "{op}: index vectors have {} components, {components} axes are indexed",
        indices.shape.dims()[last]
    );
    Ok(indices.shape.without(&[last]))
}

fn check_batch(
    op: &str,
    x: &Spec,
    indices: &Shape,
    operand_batch: &Axes,
    index_batch: &Axes,
) -> Result<()> {
    legal_axes(op, operand_batch, x.rank())?;
    legal_axes(op, index_batch, indices.rank())?;
    ensure!(
        operand_batch.len() == index_batch.len(),
        Index,
        "{op}: {operand_batch:?} and {index_batch:?} do not pair up"
    );
    for (&a, &b) in operand_batch.iter().zip(index_batch.iter()) {
        ensure!(
            x.shape.dims()[a] == indices.dims()[b],
            Shape,
            "{op}: batch sizes {} (axis {a} of {x}) and {} (axis {b} of the indices) differ",
            x.shape.dims()[a],
            indices.dims()[b]
        );
    }
    Ok(())
}

/// Checks that axes are in range, distinct and not batch axes.
fn apart(op: &str, axes: &Axes, batch: &Axes, rank: usize) -> Result<()> {
    let both: Axes = axes.iter().chain(batch.iter()).copied().collect();
    legal_axes(op, &both, rank)
}

pub fn gather(x: &Spec, indices: &Spec, p: &Gather) -> Result<Spec> {
    let op = "gather";
    let rows = index_axes(op, indices, p.index_map.len())?;
    let rank = x.rank();
    apart(op, &p.collapsed, &p.operand_batch, rank)?;
    apart(op, &p.index_map, &p.operand_batch, rank)?;
    check_batch(op, x, &rows, &p.operand_batch, &p.index_batch)?;
    ensure!(
        p.slice_sizes.len() == rank,
        Shape,
        "{op}: got {} slice sizes for {x}",
        p.slice_sizes.len()
    );
    // A dropped axis may be empty, as long as nothing is read from it.
    let dropped = |axis: usize| p.collapsed.contains(&axis) || p.operand_batch.contains(&axis);
    let slice = (0..rank).map(|axis| {
        if dropped(axis) && x.shape.dims()[axis] == 0usize {
            Dim::number(0)
        } else {
            p.slice_sizes[axis]
        }
    });
    let slice = Shape::from_dims(slice);
    slice.check(op)?;
    fits_inside(op, x, &slice)?;
    for &axis in p.collapsed.iter().chain(p.operand_batch.iter()) {
        ensure!(
            p.slice_sizes[axis].value().is_some_and(|s| s <= 1),
            Shape,
            "{op}: a slice of size {} on axis {axis} cannot be dropped",
            p.slice_sizes[axis]
        );
    }
    let mut kept = (0..rank)
        .filter(|a| !p.collapsed.contains(a) && !p.operand_batch.contains(a))
        .map(|a| p.slice_sizes[a])
        .collect::<Vec<_>>()
        .into_iter();
    let out_rank = rows.rank() + kept.len();
    legal_axes(op, &p.offset_axes, out_rank)?;
    ensure!(
        p.offset_axes.len() == kept.len() && p.offset_axes.is_sorted(),
        Index,
        "{op}: expected increasing positions for {} slice axes, got {:?}",
        kept.len(),
        p.offset_axes
    );
    let mut rows = rows.dims().iter().copied();
    let dims: Option<Vec<_>> = (0..out_rank)
        .map(|i| {
            if p.offset_axes.contains(&i) {
                kept.next()
            } else {
                rows.next()
            }
        })
        .collect();
    let shape = Shape::from_dims(dims.unwrap_or_default());
    shape.check(op)?;
    let nothing = p
        .collapsed
        .iter()
        .find(|&&axis| p.slice_sizes[axis] == 0usize || x.shape.dims()[axis] == 0usize);
    if let Some(axis) = nothing {
        ensure!(
            shape.dims().iter().any(|&d| d == 0usize),
            Shape,
            "{op}: axis {axis} of {x} gives no element for {shape}"
        );
    }
    Ok(x.with_shape(shape))
}

pub fn scatter(op: &str, x: &Spec, indices: &Spec, updates: &Spec, p: &Scatter) -> Result<Spec> {
    let rows = index_axes(op, indices, p.index_map.len())?;
    let rank = x.rank();
    same_dtype(op, x, updates)?;
    ensure!(
        !(matches!(p.kind, ScatterKind::Min | ScatterKind::Max) && x.dtype.is_complex()),
        DType,
        "{op}: complex numbers have no order"
    );
    apart(op, &p.inserted, &p.operand_batch, rank)?;
    apart(op, &p.index_map, &p.operand_batch, rank)?;
    legal_axes(op, &p.window_axes, updates.rank())?;
    check_batch(op, x, &rows, &p.operand_batch, &p.index_batch)?;
    let kept: Vec<usize> = (0..rank)
        .filter(|a| !p.inserted.contains(a) && !p.operand_batch.contains(a))
        .collect();
    ensure!(
        p.window_axes.len() == kept.len()
            && p.window_axes.is_sorted()
            && updates.rank() == rows.rank() + kept.len(),
        Shape,
        "{op}: updates {updates} do not match {} index axes and {} slice axes",
        rows.rank(),
        kept.len()
    );
    let (mut window, mut row) = (kept.iter(), rows.dims().iter());
    for axis in 0..updates.rank() {
        let size = updates.shape.dims()[axis];
        let fits = if p.window_axes.contains(&axis) {
            window.next().is_some_and(|&a| {
                (x.shape.dims()[a] - size)
                    .value()
                    .is_none_or(|gap| gap >= 0)
            })
        } else {
            row.next() == Some(&size)
        };
        ensure!(
            fits,
            Shape,
            "{op}: axis {axis} of updates {updates} does not match {x} at {indices}"
        );
    }
    Ok(x.clone())
}

pub fn searchsorted(sorted: &Spec, values: &Spec) -> Result<Spec> {
    let op = "searchsorted";
    same_dtype(op, sorted, values)?;
    ensure!(
        !sorted.dtype.is_complex(),
        DType,
        "{op}: complex numbers have no order"
    );
    let rank = sorted.rank();
    ensure!(
        rank > 0 && values.rank() > 0,
        Shape,
        "{op}: expected operands with an axis, got {sorted} and {values}"
    );
    // One sorted row serves values of any shape; several rows are batched.
    ensure!(
        rank == 1
            || (values.rank() == rank
                && sorted.shape.without(&[rank - 1]) == values.shape.without(&[rank - 1])),
        Shape,
        "{op}: the rows of {sorted} and {values} do not match"
    );
    Ok(values.with_dtype(DType::INDEX))
}
