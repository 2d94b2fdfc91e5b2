//! Indexing, gather, embedding and grouped matmul.

use super::super::args::{Args, Slot};
use super::super::roi_align::{Align, roi_align};
use super::super::{Importer, Rule};
use super::{axis, out};
use clematis_core::op::ScatterKind;
use clematis_core::ops::{At, Subscript};
use clematis_core::{DType, Dim, Result, Tensor, bail, control, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("embedding", |_, a| {
        let at = a.tensor(1, "indices")?;
        let padding = a.int(2, "padding_idx", -1)?;
        if padding < 0 {
            return out(ops::embedding(a.expr(0, "weight"), at));
        }
        // The padding row is read like any other; it is only left out of the gradient.
        let table = a.tensor(0, "weight")?;
        let found = ops::embedding(&table, &at).done()?;
        let is_padding = ops::expand_dims(ops::equal(&at, padding), -1);
        out(ops::where_(is_padding, ops::stop_gradient(&found), &found))
    }),
    ("embedding_renorm", renormed),
    ("_embedding_bag", bags),
    ("_embedding_bag_forward_only", bags),
    ("index_select", |_, a| {
        let x = a.tensor(0, "self")?;
        if x.rank() == 0 {
            return out(ops::broadcast_to(x, a.recorded_spec(0)?.shape));
        }
        let at = ops::reshape(a.expr(2, "index"), [-1i64]);
        out(ops::take(x, at, a.int(1, "dim", 0)?))
    }),
    ("gather", gather),
    ("take", |_, a| {
        let x = a.tensor(0, "self")?;
        out(ops::take(ops::reshape(x, [-1i64]), a.expr(1, "index"), 0))
    }),
    ("index", index),
    ("_unsafe_index", index),
    ("_unsafe_masked_index", |_, a| {
        let (x, mask) = (a.tensor(0, "self")?, a.expr(1, "mask"));
        let picked = ops::subscript(&x, &brackets(a, 2)?).done()?;
        let fill = ops::cast(a.expr(3, "fill"), x.dtype());
        out(ops::where_(mask, picked, fill))
    }),
    ("masked_fill", |_, a| {
        let x = a.tensor(0, "self")?;
        let value = ops::cast(a.expr(2, "value"), x.dtype());
        out(ops::where_(a.expr(1, "mask"), value, &x))
    }),
    ("one_hot", |_, a| {
        let recorded = a.recorded_spec(0)?;
        let depth = recorded
            .shape
            .dims()
            .last()
            .copied()
            .unwrap_or(Dim::from(1));
        out(ops::one_hot(a.expr(0, "self"), depth, recorded.dtype))
    }),
    ("searchsorted", |_, a| {
        let right = a.flag(3, "right", false)?
            || a.kwargs
                .get("side")
                .is_some_and(|s| matches!(s, Slot::Text(t) if t == "right"));
        let mut sorted = a.tensor(0, "sorted_sequence")?;
        if let Some(Slot::Tensor(order)) = a.kwargs.get("sorter") {
            sorted = ops::take_along_axis(&sorted, order, -1).done()?;
        }
        placed(a, &sorted, &a.tensor(1, "self")?, right)
    }),
    ("bucketize", |_, a| {
        placed(
            a,
            &a.tensor(1, "boundaries")?,
            &a.tensor(0, "self")?,
            a.flag(3, "right", false)?,
        )
    }),
    ("_grouped_mm", grouped_product),
    ("transformers.grouped_mm_fallback", grouped_product),
    ("nonzero", |_, a| of_values(a)),
    ("torchvision.nms", |_, _| {
        bail!(
            Unsupported,
            "convert: the number of boxes that `nms` keeps depends on their values; convert the part of the model that computes boxes and scores, and select among them outside of it"
        )
    }),
    ("torchvision.roi_align", |_, a| {
        let (x, boxes) = (a.tensor(0, "input")?, a.tensor(1, "rois")?);
        let image_of = ops::squeeze(ops::slice_axis(&boxes, 1, 0, 1), 1i64).done()?;
        let corners = ops::slice_axis(&boxes, 1, 1, 5).done()?;
        let how = Align {
            scale: a.float(2, "spatial_scale", 1.0)?,
            bins: (a.int(3, "pooled_height", 1)?, a.int(4, "pooled_width", 1)?),
            points: a.int(5, "sampling_ratio", -1)?,
            centred: a.flag(6, "aligned", false)?,
        };
        out(roi_align(&x, &corners, &image_of, &how)?)
    }),
    ("masked_select", |_, a| of_values(a)),
    ("_unique2", |_, a| of_values(a)),
    ("unique_dim", |_, a| of_values(a)),
    ("unique_consecutive", |_, a| of_values(a)),
    ("bincount", |_, a| of_values(a)),
    ("_local_scalar_dense", |_, a| of_values(a)),
    ("nonzero_static", |_, a| {
        let recorded = a.recorded_spec(0)?;
        let x = a.tensor(0, "self")?;
        let size = recorded.shape.dims()[0];
        let found = ops::nonzero_sized(&x, size).done()?;
        // Indices past the last row fill with a value of the caller's.
        let count = ops::sum(ops::cast(ops::not_equal(&x, 0), DType::I64), ..);
        let used = ops::less(
            ops::expand_dims(ops::iota([size], 0, DType::I64), -1),
            count,
        );
        out(ops::where_(used, found, a.int(2, "fill_value", -1)?))
    }),
];

/// The error for ops whose output shape depends on values.
fn of_values(a: &Args<'_>) -> Result<Slot> {
    bail!(
        Unsupported,
        "convert: the output shape of `{}` depends on values; use a mask with `where`, or a fixed number of elements",
        a.node.op
    )
}

fn placed(a: &Args<'_>, sorted: &Tensor, values: &Tensor, right: bool) -> Result<Slot> {
    out(ops::cast(
        ops::searchsorted(sorted, values, right),
        a.recorded_spec(0)?.dtype,
    ))
}

/// Slices the operand to the index's size along the other axes.
pub fn cropped(x: &Tensor, like: &Tensor, along: i64) -> Result<Tensor> {
    let mut out = x.clone();
    for i in 0..x.rank() as i64 {
        let (own, other) = (
            x.shape().dims()[i as usize],
            like.shape().dims()[i as usize],
        );
        if i != along && own != other {
            out = ops::slice_axis(out, i, 0, other).done()?;
        }
    }
    Ok(out)
}

fn gather(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at) = (a.tensor(0, "self")?, a.tensor(2, "index")?);
    if x.rank() == 0 {
        return out(ops::broadcast_to(x, a.recorded_spec(0)?.shape));
    }
    let along = axis(&x, a.int(1, "dim", 0)?);
    out(ops::take_along_axis(cropped(&x, &at, along)?, at, along))
}

/// The subscripts of an indexing op.
pub fn brackets(a: &Args<'_>, i: usize) -> Result<Vec<Subscript>> {
    let Slot::List(parts) = a.slot(i, "indices") else {
        bail!(Convert, "convert: `{}` without indices", a.node.op);
    };
    let one = |part: &Slot| match part {
        Slot::Nothing => Ok(Subscript::At(At::Range(None, None, 1))),
        Slot::Tensor(x) if x.dtype() == DType::Bool => {
            bail!(
                Unsupported,
                "convert: a boolean mask as index, whose result has a shape that depends on values; use `where`"
            )
        }
        // uint8 tensors are legacy boolean masks.
        Slot::Tensor(x) => Ok(Subscript::Array(x.clone())),
        other => bail!(Convert, "convert: unsupported index {}", other.kind()),
    };
    parts.iter().map(one).collect()
}

fn index(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    out(ops::subscript(&a.tensor(0, "self")?, &brackets(a, 1)?))
}

/// Scales the indexed rows of a table down to the maximum norm.
fn renormed(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (table, at) = (a.tensor(0, "self")?, a.tensor(1, "indices")?);
    let (limit, order) = (a.float(2, "max_norm", 1.0)?, a.float(3, "norm_type", 2.0)?);
    let size = ops::keepdims(&table, [-1i32], |x, axes| ops::vector_norm(x, axes, order)).done()?;
    let scale = ops::where_(ops::greater(&size, limit), limit / (&size + 1e-7), 1.0).done()?;
    let rows = ops::zeros([table.shape().dims()[0]], DType::Bool).done()?;
    let flat = ops::reshape(at, [-1i64]);
    let named = ops::put(
        ScatterKind::Set,
        rows,
        flat,
        Tensor::scalar(true, DType::Bool),
        0,
    );
    out(ops::where_(
        ops::expand_dims(named, -1),
        &table * scale,
        &table,
    ))
}

/// Sum, mean or max of groups of rows; each group starts at an offset.
fn bags(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (table, at) = (a.tensor(0, "weight")?, a.tensor(1, "indices")?);
    let offsets = ops::cast(a.expr(2, "offsets"), DType::I64).done()?;
    let mode = a.int(4, "mode", 0)?;
    let recorded = a.recorded_spec(0)?;
    let n = at.shape().dims()[0];
    let place = ops::searchsorted(&offsets, ops::iota([n], 0, DType::I64), true) - 1;
    let mut keep = ops::ones([n], DType::Bool).done()?;
    let padding = a.int(8, "padding_idx", -1)?;
    if padding >= 0 {
        keep = ops::not_equal(&at, padding).done()?;
    }
    let place = ops::cast(place, DType::I64).done()?;
    let mut rows = ops::embedding(&table, &at).done()?;
    if let Some(weights) = a.maybe_tensor(6, "per_sample_weights")? {
        rows = (rows * ops::expand_dims(weights, -1)).done()?;
    }
    let wide = ops::expand_dims(&keep, -1).done()?;
    let bags = recorded.shape.dims()[0];
    let counts = || {
        let ones = ops::cast(&keep, table.dtype());
        ops::expand_dims(
            ops::put(
                ScatterKind::Add,
                ops::zeros([bags], table.dtype()),
                &place,
                ones,
                0,
            ),
            -1,
        )
    };
    let out = if mode == 2 {
        let low = ops::full(recorded.shape.clone(), f64::NEG_INFINITY, recorded.dtype);
        let rows = ops::where_(&wide, rows, f64::NEG_INFINITY);
        let largest = ops::put(ScatterKind::Max, low, &place, rows, 0);
        ops::where_(ops::greater(counts(), 0.0), largest, 0.0)
    } else {
        let rows = ops::where_(&wide, rows, 0.0);
        let sum = ops::put(
            ScatterKind::Add,
            ops::zeros(recorded.shape.clone(), recorded.dtype),
            &place,
            rows,
            0,
        );
        if mode == 1 {
            sum / ops::maximum(counts(), 1.0)
        } else {
            sum
        }
    };
    Ok(Slot::List(vec![
        out.done()?.into(),
        Slot::Nothing,
        Slot::Nothing,
        Slot::Nothing,
    ]))
}

/// A grouped matmul: each group of rows has a matrix of its own; `offsets` are the ends of the groups.
fn grouped_product(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w) = (a.tensor(0, "input")?, a.tensor(1, "weight")?);
    if x.rank() == 3 && w.rank() == 3 {
        return out(ops::matmul(x, w));
    }
    if x.rank() != 2 || w.rank() != 3 {
        bail!(
            Unsupported,
            "convert: grouped matmul: incompatible operands {} and {}",
            x.spec(),
            w.spec()
        );
    }
    let ends = ops::cast(a.expr(2, "offs"), DType::I64).done()?;
    let first = ops::slice_axis(&ends, 0, 0, ends.shape().dims()[0] - Dim::from(1));
    let starts = ops::concat(
        &[ops::zeros([1usize], DType::I64).done()?, first.done()?],
        0,
    )
    .done()?;
    let row = ops::expand_dims(ops::iota([x.shape().dims()[0]], 0, DType::I64), -1).done()?;
    let recorded = a.recorded_spec(0)?;
    let start = ops::zeros(recorded.shape, recorded.dtype).done()?;
    // Group by group: a batched matmul would compute every row for every group.
    let groups = control::Carry(vec![w, starts, ends]);
    let (sum, ()) = control::scan(&start, &groups, None, false, |sum, g| {
        let [w, start, end] = g.0.as_slice() else {
            bail!(Internal, "convert: expected three sequences");
        };
        let inside = ops::logical_and(ops::greater_equal(&row, start), ops::less(&row, end));
        let own = ops::where_(inside, &x, 0.0);
        Ok(((sum + ops::matmul(own, w)).done()?, ()))
    })?;
    Ok(sum.into())
}
