//! Inference of `dot_general` and convolutions.

use super::window::{dilated, window_output};
use super::{legal_axes, same_dtype};
use crate::dim::Dim;
use crate::ensure;
use crate::error::Result;
use crate::op::{Conv, Dot};
use crate::shape::Shape;
use crate::spec::Spec;

pub fn dot(x: &Spec, y: &Spec, p: &Dot) -> Result<Spec> {
    let op = "dot_general";
    same_dtype(op, x, y)?;
    let left: Vec<usize> = p
        .lhs_batch
        .iter()
        .chain(p.lhs_contract.iter())
        .copied()
        .collect();
    let right: Vec<usize> = p
        .rhs_batch
        .iter()
        .chain(p.rhs_contract.iter())
        .copied()
        .collect();
    legal_axes(op, &left, x.rank())?;
    legal_axes(op, &right, y.rank())?;
    for (what, a, b) in [
        ("batch", &p.lhs_batch, &p.rhs_batch),
        ("contracted", &p.lhs_contract, &p.rhs_contract),
    ] {
        ensure!(
            a.len() == b.len(),
            Index,
            "{op}: {what} axes {a:?} and {b:?} do not pair up"
        );
        for (&i, &j) in a.iter().zip(b.iter()) {
            let (m, n) = (x.shape.dims()[i], y.shape.dims()[j]);
            ensure!(
                m == n,
                Shape,
                "{op}: {what} axes differ: {m} (lhs {x}, axis {i}) and {n} (rhs {y}, axis {j})"
            );
        }
    }
    let batch = p.lhs_batch.iter().map(|&i| x.shape.dims()[i]);
    let lhs = x.shape.without(&left);
    let rhs = y.shape.without(&right);
    let shape = Shape::from_dims(
        batch
            .chain(lhs.dims().iter().copied())
            .chain(rhs.dims().iter().copied()),
    );
    shape.check(op)?;
    Ok(x.with_shape(shape))
}

pub fn conv(x: &Spec, w: &Spec, p: &Conv) -> Result<Spec> {
    let op = "conv_general";
    same_dtype(op, x, w)?;
    let rank = x.rank();
    ensure!(
        rank >= 2,
        Shape,
        "{op}: expected an input with batch and feature axes, got {x}"
    );
    ensure!(
        w.rank() == rank,
        Shape,
        "{op}: input {x} and filter {w} differ in rank"
    );
    let spatial = rank - 2;
    for (what, layout) in [
        ("lhs", &p.lhs_layout),
        ("rhs", &p.rhs_layout),
        ("out", &p.out_layout),
    ] {
        legal_axes(op, layout, rank)?;
        ensure!(
            layout.len() == rank,
            Index,
            "{op}: expected {what}_layout of {rank} axes, got {layout:?}"
        );
    }
    ensure!(
        p.strides.len() == spatial
            && p.padding.len() == spatial
            && p.lhs_dilation.len() == spatial
            && p.rhs_dilation.len() == spatial,
        Shape,
        "{op}: got {spatial} spatial axes, but {} strides, {} paddings, {} and {} dilations",
        p.strides.len(),
        p.padding.len(),
        p.lhs_dilation.len(),
        p.rhs_dilation.len()
    );
    let at = |s: &Spec, layout: &[usize], i: usize| s.shape.dims()[layout[i]];
    let (batch, features) = (at(x, &p.lhs_layout, 0), at(x, &p.lhs_layout, 1));
    let (filters, inner) = (at(w, &p.rhs_layout, 0), at(w, &p.rhs_layout, 1));
    let (groups, batch_groups) = (Dim::from(p.feature_groups), Dim::from(p.batch_groups));
    ensure!(
        p.feature_groups > 0 && p.batch_groups > 0,
        Value,
        "{op}: expected at least 1 group"
    );
    ensure!(
        p.feature_groups == 1 || p.batch_groups == 1,
        Value,
        "{op}: feature and batch groups exclude each other"
    );
    ensure!(
        inner * groups == features,
        Shape,
        "{op}: the filter expects {inner} features in {groups} groups, the input has {features}"
    );
    ensure!(
        filters.rem(groups)? == 0usize && filters.rem(batch_groups)? == 0usize,
        Shape,
        "{op}: {filters} filters are not divisible into {groups} feature and {batch_groups} batch groups"
    );
    ensure!(
        batch.rem(batch_groups)? == 0usize,
        Shape,
        "{op}: a batch of {batch} is not divisible into {batch_groups} groups"
    );
    let mut dims = vec![Dim::number(0); rank];
    dims[p.out_layout[0]] = batch.floor_div(batch_groups)?;
    dims[p.out_layout[1]] = filters;
    for i in 0..spatial {
        ensure!(
            p.strides[i] > 0 && p.lhs_dilation[i] > 0 && p.rhs_dilation[i] > 0,
            Value,
            "{op}: invalid stride {} and dilations {} and {} on spatial axis {i}",
            p.strides[i],
            p.lhs_dilation[i],
            p.rhs_dilation[i]
        );
        let size = dilated(at(x, &p.lhs_layout, i + 2), p.lhs_dilation[i]);
        let kernel = at(w, &p.rhs_layout, i + 2);
        dims[p.out_layout[i + 2]] = window_output(
            op,
            size,
            kernel,
            p.strides[i],
            p.padding[i],
            p.rhs_dilation[i],
        )?;
    }
    let shape = Shape::from_dims(dims);
    shape.check(op)?;
    Ok(x.with_shape(shape))
}
