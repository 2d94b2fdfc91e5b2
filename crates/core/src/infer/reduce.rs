//! Inference of reductions, cumulative reductions and sorts.

use super::legal_axes;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Cumulative, CumulativeKind, Reduce, ReduceKind, Sort};
use crate::outs::Outs;
use crate::spec::Spec;
use crate::{bail, ensure};

pub fn reduce(op: &str, x: &Spec, p: &Reduce) -> Result<Spec> {
    legal_axes(op, &p.axes, x.rank())?;
    match p.kind {
        ReduceKind::Sum | ReduceKind::Prod => {
            ensure!(
                x.dtype != DType::Bool,
                DType,
                "{op}: expected numbers, got {x}"
            );
        }
        ReduceKind::Max | ReduceKind::Min => {
            ensure!(
                !x.dtype.is_complex(),
                DType,
                "{op}: complex numbers have no order"
            );
            let empty = p.axes.iter().find(|&&a| x.shape.dims()[a] == 0usize);
            if let Some(axis) = empty {
                bail!(
                    Value,
                    "{op}: axis {axis} of {x} is empty, and {} has no identity",
                    p.kind.name()
                );
            }
        }
        ReduceKind::Any | ReduceKind::All => {
            ensure!(
                x.dtype == DType::Bool,
                DType,
                "{op}: expected bool, got {x}"
            );
        }
    }
    Ok(x.with_shape(x.shape.without(&p.axes)))
}

pub fn arg_reduce(op: &str, x: &Spec, axis: usize) -> Result<Spec> {
    legal_axes(op, &[axis], x.rank())?;
    ensure!(
        !x.dtype.is_complex(),
        DType,
        "{op}: complex numbers have no order"
    );
    ensure!(
        x.shape.dims()[axis] != 0usize,
        Value,
        "{op}: axis {axis} of {x} is empty"
    );
    Ok(Spec::new(DType::INDEX, x.shape.without(&[axis])))
}

pub fn cumulative(op: &str, x: &Spec, p: &Cumulative) -> Result<Spec> {
    legal_axes(op, &[p.axis], x.rank())?;
    let fine = match p.kind {
        CumulativeKind::Sum | CumulativeKind::Prod => x.dtype != DType::Bool,
        CumulativeKind::Max | CumulativeKind::Min => !x.dtype.is_complex(),
        CumulativeKind::LogSumExp => x.dtype.is_float(),
    };
    ensure!(fine, DType, "{op}: unsupported dtype of {x}");
    Ok(x.clone())
}

pub fn sort(inputs: &[&Spec], p: &Sort) -> Result<Outs<Spec>> {
    let Some(first) = inputs.first() else {
        bail!(Value, "sort: expected at least one operand");
    };
    legal_axes("sort", &[p.axis], first.rank())?;
    let keys = usize::from(p.keys);
    ensure!(
        (1..=inputs.len()).contains(&keys),
        Value,
        "sort: got {keys} keys for {} operands",
        inputs.len()
    );
    for (i, x) in inputs.iter().enumerate() {
        ensure!(
            x.shape == first.shape,
            Shape,
            "sort: operands {first} and {x} differ in shape"
        );
        ensure!(
            i >= keys || !x.dtype.is_complex(),
            DType,
            "sort: complex numbers have no order"
        );
    }
    Ok(match inputs {
        [x] => Outs::One((*x).clone()),
        many => Outs::Many(many.iter().map(|s| (*s).clone()).collect()),
    })
}

pub fn top_k(x: &Spec, k: Dim) -> Result<Outs<Spec>> {
    let Some(last) = x.rank().checked_sub(1) else {
        bail!(Shape, "top_k: expected an operand with an axis, got {x}");
    };
    ensure!(
        !x.dtype.is_complex(),
        DType,
        "top_k: complex numbers have no order"
    );
    let size = x.shape.dims()[last];
    let fits = [k, size - k]
        .iter()
        .all(|d| d.value().is_none_or(|v| v >= 0));
    ensure!(fits, Value, "top_k: {k} of {size}");
    let values = x.with_shape(x.shape.with(last, k));
    let indices = values.with_dtype(DType::INDEX);
    Ok(Outs::Many(vec![values, indices]))
}
