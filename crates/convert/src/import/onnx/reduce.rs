//! Reductions, cumulative sums, ArgMax and TopK.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, axes, ints, out, sizes, t, version};
use clematis_core::expr::Expr;
use clematis_core::op::CumulativeKind;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("ReduceSum", |_, a| over(a, ops::sum)),
    ("ReduceMean", |_, a| over(a, ops::mean)),
    ("ReduceMax", |_, a| over(a, |x, at| extreme(x, at, true))),
    ("ReduceMin", |_, a| over(a, |x, at| extreme(x, at, false))),
    ("ReduceProd", |_, a| {
        if let (false, Some(dims)) = (matches!(a.slot(0, "x"), Slot::Tensor(_)), sizes(a, 0)) {
            let all = dims.into_iter().fold(Dim::from(1), |n, d| n * d);
            let keep = a.flag(NAMED, "keepdims", true)?;
            return Ok(if keep {
                Slot::List(vec![Slot::Int(all)])
            } else {
                Slot::Int(all)
            });
        }
        over(a, ops::prod)
    }),
    ("ReduceL1", |_, a| {
        over(a, |x, at| ops::sum(ops::abs(x), at))
    }),
    ("ReduceL2", |_, a| {
        over(a, |x, at| {
            let dtype = x.dtype();
            if dtype.is_float() {
                return ops::sqrt(ops::sum(ops::square(x), at));
            }
            ops::cast(
                ops::sqrt(ops::cast(ops::sum(ops::square(x), at), DType::F64)),
                dtype,
            )
        })
    }),
    ("ReduceLogSum", |_, a| {
        over(a, |x, at| ops::log(ops::sum(x, at)))
    }),
    ("ReduceLogSumExp", |_, a| over(a, ops::logsumexp)),
    ("ReduceSumSquare", |_, a| {
        over(a, |x, at| ops::sum(ops::square(x), at))
    }),
    ("ArgMax", |_, a| place(a, true)),
    ("ArgMin", |_, a| place(a, false)),
    ("CumSum", |_, a| running(a, CumulativeKind::Sum)),
    ("CumProd", |_, a| running(a, CumulativeKind::Prod)),
    ("Hardmax", hardmax),
    ("TopK", top_k),
];

fn over(a: &Args<'_>, f: impl Fn(Tensor, Vec<i64>) -> Expr) -> Result<Slot> {
    let x = t(a, 0)?;
    let mut at = axes(a, 1, "axes")?.unwrap_or_default();
    if at.is_empty() {
        if a.flag(NAMED, "noop_with_empty_axes", false)? {
            // An empty list of axes with noop_with_empty_axes: only the elementwise part applies.
            return out(f(x, Vec::new()));
        }
        at = (0..x.rank() as i64).collect();
    }
    let dtype = x.dtype();
    let y = match a.flag(NAMED, "keepdims", true)? {
        true => ops::keepdims(x, at, f),
        false => f(x, at),
    };
    out(y.then(|y| {
        if y.dtype() == dtype {
            Ok(y)
        } else {
            ops::cast(y, dtype).done()
        }
    }))
}

/// Max or min; of an empty axis the identity of the reduction.
fn extreme(x: Tensor, at: Vec<i64>, largest: bool) -> Expr {
    let dtype = x.dtype();
    let none = at.iter().any(|&n| {
        x.shape()
            .axis(n, "reduce")
            .is_ok_and(|n| x.shape().dims()[n].value() == Some(0))
    });
    if none {
        let axes = match x.shape().axes(&at, "reduce") {
            Ok(axes) => axes,
            Err(e) => return Err(e).into(),
        };
        let edge = match dtype.is_float() {
            true => Tensor::scalar(
                if largest {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                },
                DType::F64,
            ),
            // The cast saturates.
            false => Tensor::scalar(
                if largest != (dtype == DType::Bool) {
                    -1e30
                } else {
                    1e30
                } * f64::from(u8::from(dtype != DType::Bool || !largest)),
                DType::F64,
            ),
        };
        return ops::broadcast_to(ops::cast(edge, dtype), x.shape().without(&axes));
    }
    let reduced = |x: Tensor| {
        if largest {
            ops::max(x, at.clone())
        } else {
            ops::min(x, at.clone())
        }
    };
    if dtype == DType::Bool {
        return ops::cast(ops::cast(&x, DType::U8).then(reduced), DType::Bool);
    }
    reduced(x)
}

fn place(a: &Args<'_>, largest: bool) -> Result<Slot> {
    let x = t(a, 0)?;
    let axis = x.shape().axis(a.int(NAMED, "axis", 0)?, "argmax")?;
    let find = |x: &Tensor| {
        if largest {
            ops::argmax(x, Some(axis as i64))
        } else {
            ops::argmin(x, Some(axis as i64))
        }
    };
    let mut at = if a.flag(NAMED, "select_last_index", false)? {
        // select_last_index: the first one from the end.
        let size = super::counted(x.shape().dims()[axis])?;
        let back = ops::flip(&x, axis as i64).done()?;
        size - 1 - ops::cast(find(&back), DType::I64)
    } else {
        ops::cast(find(&x), DType::I64)
    };
    if a.flag(NAMED, "keepdims", true)? {
        at = ops::expand_dims(at, axis as i64);
    }
    out(at)
}

fn running(a: &Args<'_>, kind: CumulativeKind) -> Result<Slot> {
    let x = t(a, 0)?;
    let axis = ints(a, 1)?.first().copied().unwrap_or(0);
    let at = x.shape().axis(axis, "cumulative")?;
    let reverse = a.flag(NAMED, "reverse", false)?;
    let mut y = ops::cumulative(kind, &x, axis, reverse);
    if a.flag(NAMED, "exclusive", false)? {
        // exclusive: shifted by one, starting with the identity.
        let rank = x.rank();
        let none = Tensor::scalar(
            if kind == CumulativeKind::Sum { 0i64 } else { 1 },
            x.dtype(),
        );
        let (mut low, mut high) = (vec![Dim::from(0); rank], vec![Dim::from(0); rank]);
        (low[at], high[at]) = if reverse {
            (Dim::number(-1), Dim::from(1))
        } else {
            (Dim::from(1), Dim::number(-1))
        };
        y = ops::pad(y, none, &low, &high, &vec![0; rank]);
    }
    out(ops::cast(y, x.dtype()))
}

/// Before version 13 all axes from this one on are flattened.
pub fn as_rows(a: &Args<'_>, f: impl Fn(&Tensor, i64) -> Expr) -> Result<Slot> {
    let x = t(a, 0)?;
    if version(a) >= 13 {
        return out(f(&x, a.int(NAMED, "axis", -1)?));
    }
    let axis = x.shape().axis(a.int(NAMED, "axis", 1)?, "softmax")?;
    if axis + 1 == x.rank() {
        return out(f(&x, -1));
    }
    let part = |dims: &[Dim]| dims.iter().fold(Dim::from(1), |n, &d| n * d);
    let (first, last) = x.shape().dims().split_at(axis);
    let rows = ops::reshape(&x, Shape::from_dims([part(first), part(last)])).done()?;
    out(ops::reshape(f(&rows, 1), x.shape().clone()))
}

fn hardmax(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    as_rows(a, |x, axis| {
        let depth = match x.shape().axis(axis, "hardmax") {
            Ok(at) => x.shape().dims()[at],
            Err(e) => return Err(e).into(),
        };
        let hot = ops::one_hot(ops::argmax(x, Some(axis)), depth, x.dtype());
        ops::move_axis(hot, -1, axis)
    })
}

fn top_k(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let k = match a.has(1, "k") {
        true => super::known_sizes(a, 1)?
            .first()
            .copied()
            .unwrap_or(Dim::from(1)),
        false => a.dim(NAMED, "k")?,
    };
    let axis = a.int(NAMED, "axis", -1)?;
    let at = x.shape().axis(axis, "top_k")?;
    if let (Some(k), Some(n)) = (k.value(), x.shape().dims()[at].value())
        && (k < 0 || k > n)
    {
        bail!(Convert, "convert: `TopK` of k = {k} on an axis of size {n}");
    }
    let largest = a.flag(NAMED, "largest", true)?;
    let places = ops::iota(x.shape().clone(), at, DType::I64).done()?;
    // A stable sort: of equal elements the first comes first, in either direction.
    let sorted = ops::sort_many(&[&x, &places], 1, axis, largest)?;
    let cut = |x: &Tensor| ops::slice_axis(x, axis, 0, k).done();
    let both = vec![cut(&sorted[0])?.into(), cut(&sorted[1])?.into()];
    Ok(super::several(a, both))
}
