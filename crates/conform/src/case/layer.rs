//! Cases of layer composites.

use super::composite::{known, units};
use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use clematis_core::op::{Domain, Pads};
use clematis_core::{Axes, Composite, DType, Dim, Real, Result};

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        norms(all, dtype)?;
        products(all, dtype)?;
        attention(all, dtype)?;
        convolutions(all, dtype)?;
        pools(all, dtype)?;
        cells(all, dtype)?;
    }
    Ok(())
}

/// Layers in half precision round at each of many steps.
fn layer(case: Case) -> Case {
    let units = 4.0 * units(case.dtype);
    case.within(Tolerance::overall(units))
        // Over an axis of one element a norm's derivative is only the rounding error of a difference.
        .deriving(|d| d.duality = 1024.0)
}

fn norms(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    let epsilon = Real(1e-3);
    for (shape, axis) in [
        (&[2, 5][..], 1),
        (&[2, 3, 4], 1),
        (&[3], 0),
        (&[0, 4], 1),
        (&[2, 1], 1),
    ] {
        for operands in 1..=3 {
            let name = format!("layer_norm {dtype}{} {axis} {operands}", shown(shape));
            let mut draw = Draw::new(&name);
            let mut inputs = vec![draw.any(dtype, shape)?];
            for _ in 1..operands {
                inputs.push(draw.array(dtype, &shape[axis..], Domain::Nonzero, 0)?);
            }
            let c = Composite::LayerNorm { axis, epsilon };
            push(all, layer(known(name, c, dtype, inputs.clone())));
            if operands < 3 {
                let name = format!("layer_norm_grad {dtype}{} {axis} {operands}", shown(shape));
                let c = Composite::LayerNormGrad { axis, epsilon };
                let mut with_ct = inputs.clone();
                with_ct.insert(1, draw.any(dtype, shape)?);
                push(all, layer(known(name, c, dtype, with_ct)));
                let name = format!("rms_norm {dtype}{} {axis} {operands}", shown(shape));
                let c = Composite::RmsNorm { axis, epsilon };
                push(all, layer(known(name, c, dtype, inputs)));
            }
        }
    }
    for (shape, axis, groups) in [
        (&[2, 4, 3][..], 1, 2),
        (&[2, 3, 4], 2, 4),
        (&[2, 6], 1, 1),
        (&[0, 2, 2], 1, 2),
    ] {
        for operands in 1..=3 {
            let name = format!("group_norm {dtype}{} {groups} {operands}", shown(shape));
            let mut draw = Draw::new(&name);
            let mut inputs = vec![draw.any(dtype, shape)?];
            for _ in 1..operands {
                inputs.push(draw.array(dtype, &[shape[axis]], Domain::Nonzero, 0)?);
            }
            let c = Composite::GroupNorm {
                axis,
                groups,
                epsilon,
            };
            push(all, layer(known(name, c, dtype, inputs)));
        }
    }
    for (shape, axis) in [(&[2, 3, 4][..], 1), (&[3, 2], 1), (&[0, 2], 1), (&[4], 0)] {
        for operands in 3..=5 {
            let name = format!("batch_norm {dtype}{} {operands}", shown(shape));
            let mut draw = Draw::new(&name);
            let mut inputs = vec![draw.any(dtype, shape)?];
            for i in 1..operands {
                let domain = if i == 2 {
                    Domain::Positive
                } else {
                    Domain::Nonzero
                };
                inputs.push(draw.array(dtype, &[shape[axis]], domain, 0)?);
            }
            let c = Composite::BatchNorm { axis, epsilon };
            push(all, layer(known(name, c, dtype, inputs)));
        }
    }
    Ok(())
}

fn products(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (x, w) in [
        (&[2, 3][..], [4, 3]),
        (&[3], [2, 3]),
        (&[2, 2, 3], [1, 3]),
        (&[0, 3], [2, 3]),
        (&[2, 0], [3, 0]),
    ] {
        for bias in [false, true] {
            let name = format!("linear {dtype}{}{} {bias}", shown(x), shown(&w));
            let mut draw = Draw::new(&name);
            let mut inputs = vec![draw.small(dtype, x)?, draw.small(dtype, &w)?];
            if bias {
                inputs.push(draw.small(dtype, &w[..1])?);
            }
            push(all, known(name, Composite::Linear {}, dtype, inputs));
        }
    }
    Ok(())
}

fn attention(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (q, k, v) in [
        (&[3, 2][..], &[4, 2][..], &[4, 3][..]),
        (&[2, 3, 2], &[2, 3, 2], &[2, 3, 2]),
        (&[2, 2, 1, 2], &[2, 2, 2, 2], &[2, 2, 2, 2]),
        (&[0, 2], &[2, 2], &[2, 1]),
    ] {
        for causal in [false, true] {
            for mask in ["none", "bool", "float"] {
                let name = format!("attention {dtype}{}{} {causal} {mask}", shown(q), shown(k));
                let mut draw = Draw::new(&name);
                let mut inputs = vec![
                    draw.any(dtype, q)?,
                    draw.any(dtype, k)?,
                    draw.any(dtype, v)?,
                ];
                let rows = [q[q.len() - 2], k[k.len() - 2]];
                match mask {
                    "bool" => {
                        // The first row is fully masked.
                        let mut seen = draw.any(DType::Bool, &rows)?;
                        let n = rows[1].min(seen.len());
                        seen.values[..n].fill(Num::Whole(0));
                        inputs.push(seen);
                    }
                    "float" => inputs.push(draw.any(dtype, &rows)?),
                    _ => {}
                }
                let c = Composite::Attention {
                    scale: Real(0.7),
                    causal,
                };
                push(all, layer(known(name, c, dtype, inputs)));
            }
        }
    }
    Ok(())
}

fn pads(padding: &[(i64, i64)]) -> Pads {
    padding
        .iter()
        .map(|&(l, h)| (Dim::number(l), Dim::number(h)))
        .collect()
}

fn convolutions(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    type Row<'a> = (
        &'a [usize],
        &'a [usize],
        &'a [usize],
        &'a [(i64, i64)],
        &'a [usize],
        usize,
        bool,
    );
    let rows: &[Row] = &[
        (&[2, 3, 4], &[3, 2, 3], &[1], &[(0, 0)], &[1], 1, false),
        (
            &[1, 2, 3, 3],
            &[2, 3, 2, 2],
            &[2, 1],
            &[(1, 0), (0, 1)],
            &[1, 2],
            1,
            false,
        ),
        (&[1, 4, 3], &[4, 1, 3], &[2], &[(1, 1)], &[1], 2, false),
        (&[2, 3, 2], &[3, 1, 2], &[3], &[(0, -1)], &[1], 3, false),
        // Features last.
        (&[1, 4, 2], &[2, 3, 2], &[2], &[(0, 0)], &[1], 1, true),
        (&[0, 2, 3], &[2, 1, 2], &[1], &[(0, 0)], &[1], 1, false),
    ];
    for (x, w, strides, padding, dilation, groups, last) in rows {
        let rank = x.len();
        let layout = if *last {
            Axes::new(&[0, 2, 1])
        } else {
            Axes::all(rank)
        };
        let c = Composite::ConvTranspose {
            strides: Axes::new(strides),
            padding: pads(padding),
            rhs_dilation: Axes::new(dilation),
            lhs_layout: layout.clone(),
            rhs_layout: Axes::all(rank),
            out_layout: layout,
            feature_groups: *groups,
        };
        let name = format!(
            "conv_transpose {dtype}{}{} {strides:?} {padding:?}",
            shown(x),
            shown(w)
        );
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.small(dtype, x)?, draw.small(dtype, w)?];
        push(all, known(name, c, dtype, inputs));
    }
    Ok(())
}

fn pools(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    type Row<'a> = (
        &'a [usize],
        &'a [usize],
        &'a [usize],
        &'a [(i64, i64)],
        &'a [usize],
    );
    let rows: &[Row] = &[
        (&[2, 6], &[1, 2], &[1, 2], &[(0, 0), (0, 0)], &[1, 1]),
        (
            &[1, 2, 5, 4],
            &[1, 1, 3, 2],
            &[1, 1, 2, 1],
            &[(0, 0), (0, 0), (1, 1), (0, 1)],
            &[1, 1, 1, 1],
        ),
        (&[7], &[2], &[2], &[(1, 0)], &[2]),
        (&[0, 4], &[1, 2], &[1, 1], &[(0, 0), (0, 0)], &[1, 1]),
        (&[1], &[1], &[1], &[(0, 0)], &[1]),
    ];
    for (shape, size, strides, padding, dilation) in rows {
        let label = format!("{dtype}{} {size:?} {strides:?}", shown(shape));
        let (size, strides) = (Axes::new(size), Axes::new(strides));
        let (padding, dilation) = (pads(padding), Axes::new(dilation));
        let name = format!("max_pool {label}");
        let x: Array = Draw::new(&name).distinct(dtype, shape)?;
        let c = Composite::MaxPool {
            size: size.clone(),
            strides: strides.clone(),
            padding: padding.clone(),
            dilation: dilation.clone(),
        };
        push(all, known(name, c, dtype, vec![x]));
        for count_padding in [true, false] {
            let name = format!("avg_pool {label} {count_padding}");
            let x = Draw::new(&name).any(dtype, shape)?;
            let c = Composite::AvgPool {
                size: size.clone(),
                strides: strides.clone(),
                padding: padding.clone(),
                dilation: dilation.clone(),
                count_padding,
            };
            push(all, known(name, c, dtype, vec![x]));
        }
    }
    Ok(())
}

fn cells(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (batch, inputs, hidden) in [(2, 3, 2), (1, 1, 1), (0, 2, 3)] {
        for biased in [false, true] {
            let name = format!("lstm_cell {dtype} {batch} {inputs} {hidden} {biased}");
            let mut draw = Draw::new(&name);
            let mut operands = vec![
                draw.small(dtype, &[batch, inputs])?,
                draw.small(dtype, &[batch, hidden])?,
                draw.small(dtype, &[batch, hidden])?,
                draw.small(dtype, &[4 * hidden, inputs])?,
                draw.small(dtype, &[4 * hidden, hidden])?,
            ];
            if biased {
                operands.push(draw.small(dtype, &[4 * hidden])?);
            }
            push(
                all,
                layer(known(name, Composite::LstmCell {}, dtype, operands)),
            );
            let name = format!("gru_cell {dtype} {batch} {inputs} {hidden} {biased}");
            let mut draw = Draw::new(&name);
            let mut operands = vec![
                draw.small(dtype, &[batch, inputs])?,
                draw.small(dtype, &[batch, hidden])?,
                draw.small(dtype, &[3 * hidden, inputs])?,
                draw.small(dtype, &[3 * hidden, hidden])?,
            ];
            if biased {
                operands.push(draw.small(dtype, &[3 * hidden])?);
                operands.push(draw.small(dtype, &[3 * hidden])?);
            }
            push(
                all,
                layer(known(name, Composite::GruCell {}, dtype, operands)),
            );
        }
    }
    Ok(())
}
