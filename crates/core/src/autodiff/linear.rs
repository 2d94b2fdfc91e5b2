//! Transposes of `dot_general` and convolutions.

use super::structural::impossible;
use crate::composite::conv::swap_features;
use crate::dim::Dim;
use crate::error::Result;
use crate::expr::Expr;
use crate::infer::dilated;
use crate::op::{Conv, Dot, Op, Pads};
use crate::ops::{self, Ops};
use crate::shape::Axes;
use crate::tensor::Tensor;

/// Contracts the cotangent with the other operand and restores the operand's axis order.
pub fn dot(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Dot(p) = op else {
        return impossible(op);
    };
    let (own, other) = (x[i], x[1 - i]);
    let (batch, contract, other_batch, other_contract) = if i == 0 {
        (&p.lhs_batch, &p.lhs_contract, &p.rhs_batch, &p.rhs_contract)
    } else {
        (&p.rhs_batch, &p.rhs_contract, &p.lhs_batch, &p.lhs_contract)
    };
    let free = |t: &Tensor, b: &Axes, c: &Axes| -> Vec<usize> {
        (0..t.rank())
            .filter(|a| !b.contains(a) && !c.contains(a))
            .collect()
    };
    let own_free = free(own, batch, contract);
    let other_free = free(other, other_batch, other_contract);
    let n = batch.len();
    // The axes of the result are batch, lhs free and rhs free, in this order.
    let start = if i == 0 { n + own_free.len() } else { n };
    let product = ops::dot_general(
        ct,
        other,
        Dot {
            lhs_batch: Axes::all(n),
            rhs_batch: other_batch.clone(),
            lhs_contract: (start..start + other_free.len()).collect(),
            rhs_contract: other_free[..].into(),
        },
    );
    // Now the axes are batch, own free, and contracted in the order of the other operand.
    let mut rest: Vec<usize> = (0..contract.len()).collect();
    rest.sort_by_key(|&k| other_contract[k]);
    let now: Vec<usize> = batch
        .iter()
        .copied()
        .chain(own_free)
        .chain(rest.iter().map(|&k| contract[k]))
        .collect();
    product.permute(&Axes::from(&now[..]).inverse())
}

fn spatial(t: &Tensor, layout: &Axes, i: usize) -> Dim {
    t.shape().dims()[layout[i + 2]]
}

fn swapped(layout: &Axes) -> Axes {
    [layout[1], layout[0]]
        .into_iter()
        .chain(layout[2..].iter().copied())
        .collect()
}

/// The input gradient and the weight gradient of a convolution are convolutions with exchanged roles.
pub fn conv(op: &Op, i: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Conv(p) = op else {
        return impossible(op);
    };
    let back = if i == 0 {
        input_gradient(p, x[0], x[1], ct)
    } else {
        filter_gradient(p, x[0], x[1], ct)
    };
    back.into()
}

fn input_gradient(p: &Conv, x: &Tensor, w: &Tensor, ct: &Tensor) -> Result<Tensor> {
    let groups = p.feature_groups.max(p.batch_groups);
    let pads: Pads = (0..p.strides.len())
        .map(|i| {
            let input = dilated(spatial(x, &p.lhs_layout, i), p.lhs_dilation[i]);
            let filter = dilated(spatial(w, &p.rhs_layout, i), p.rhs_dilation[i]);
            let output = dilated(spatial(ct, &p.out_layout, i), p.strides[i]);
            let low = filter - p.padding[i].0 - Dim::number(1);
            (low, input + filter - Dim::number(1) - output - low)
        })
        .collect();
    let (w, layout) = swap_features(w, &p.rhs_layout, groups)?;
    let flipped = ops::flip(
        &w,
        layout[2..].iter().map(|&a| a as i64).collect::<Vec<_>>(),
    );
    let back = ops::conv_general(
        ct,
        flipped,
        Conv {
            strides: p.lhs_dilation.clone(),
            padding: pads,
            lhs_dilation: p.strides.clone(),
            rhs_dilation: p.rhs_dilation.clone(),
            lhs_layout: p.out_layout.clone(),
            rhs_layout: layout,
            out_layout: p.lhs_layout.clone(),
            feature_groups: groups,
            batch_groups: 1,
        },
    )
    .done()?;
    if p.batch_groups == 1 {
        return Ok(back);
    }
    // The groups are in the features of the result and must move in front of the batch.
    let (batch, feature) = (p.lhs_layout[0], p.lhs_layout[1]);
    let per_group = back.shape().dims()[feature].floor_div(Dim::from(groups))?;
    let wide = back
        .shape()
        .with(feature, groups)
        .insert(feature + 1, per_group);
    let at = |axis: usize| if axis > feature { axis + 1 } else { axis };
    let mut order: Vec<usize> = (0..wide.rank()).filter(|&a| a != feature).collect();
    let place = order.iter().position(|&a| a == at(batch)).unwrap_or(0);
    order.insert(place, feature);
    back.reshape(&wide)
        .permute(&Axes::from(&order[..]))
        .reshape(x.shape())
        .done()
}

fn filter_gradient(p: &Conv, x: &Tensor, w: &Tensor, ct: &Tensor) -> Result<Tensor> {
    let pads: Pads = (0..p.strides.len())
        .map(|i| {
            let input = dilated(spatial(x, &p.lhs_layout, i), p.lhs_dilation[i]);
            let filter = dilated(spatial(w, &p.rhs_layout, i), p.rhs_dilation[i]);
            let output = dilated(spatial(ct, &p.out_layout, i), p.strides[i]);
            let low = p.padding[i].0;
            (low, output - input + filter - low - Dim::number(1))
        })
        .collect();
    ops::conv_general(
        x,
        ct,
        Conv {
            strides: p.rhs_dilation.clone(),
            padding: pads,
            lhs_dilation: p.lhs_dilation.clone(),
            rhs_dilation: p.strides.clone(),
            lhs_layout: swapped(&p.lhs_layout),
            rhs_layout: swapped(&p.out_layout),
            out_layout: swapped(&p.rhs_layout),
            feature_groups: p.batch_groups,
            batch_groups: p.feature_groups,
        },
    )
    .done()
}
