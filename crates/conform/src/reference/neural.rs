//! References of layers: norms over channels, attention, recurrent cells, transposed convolution.

use super::composite::{affine, group, matmul_transposed, over, sigmoid, softmax, standardized};
use crate::array::{Array, C, Num, offset, places};
use clematis_core::{Axes, Composite, DType, Result, bail};

/// Reshapes a vector over channels to broadcast against a tensor.
fn along(v: &Array, axis: usize, rank: usize) -> Array {
    let mut shape = vec![1; rank];
    shape[axis] = v.len();
    Array::new(v.dtype, &shape, v.values.clone())
}

/// Splits channels into groups and standardises each group of each sample.
pub fn group_norm(x: &[Array], axis: usize, groups: usize, epsilon: f64) -> Array {
    let (rank, channels) = (x[0].rank(), x[0].shape[axis]);
    let mut wide = x[0].shape.clone();
    wide[axis] = groups;
    wide.insert(axis + 1, channels / groups.max(1));
    let split = Array::new(x[0].dtype, &wide, x[0].values.clone());
    let axes: Axes = (1..rank + 1).filter(|&a| a != axis).collect();
    let y = standardized(&split, &axes, epsilon);
    let y = Array::new(x[0].dtype, &x[0].shape, y.values);
    let scale = x.get(1).map(|s| along(s, axis, rank));
    let bias = x.get(2).map(|b| along(b, axis, rank));
    affine(&y, scale.as_ref(), bias.as_ref())
}

/// (x - mean) / √(variance + ε) scale + bias, per channel.
pub fn batch_norm(x: &[Array], axis: usize, epsilon: f64) -> Array {
    Array::from_fn(x[0].dtype, &x[0].shape, |at| {
        let part = |i: usize, otherwise: f64| {
            x.get(i)
                .map_or(C::new(otherwise, 0.0), |v| v.values[at[axis]].c())
        };
        let scaled = (x[0].at(at).c() - part(1, 0.0)) / (part(2, 1.0) + epsilon).sqrt();
        Num::Inexact(scaled * part(3, 1.0) + part(4, 0.0))
    })
}

/// softmax(q kᵀ scale + mask) v; a fully masked row gives zeros.
pub fn attention(x: &[Array], scale: f64, causal: bool) -> Array {
    let (q, k, v) = (&x[0], &x[1], &x[2]);
    let rank = q.rank();
    let (queries, keys) = (q.shape[rank - 2], k.shape[rank - 2]);
    let mut shape = q.shape.clone();
    shape[rank - 1] = keys;
    let hidden = |at: &[usize]| {
        let masked = x
            .get(3)
            .is_some_and(|m| m.dtype == DType::Bool && !m.spread(at).truth());
        masked || causal && at[rank - 1] > at[rank - 2]
    };
    let scores = Array::from_fn(q.dtype, &shape, |at| {
        if hidden(at) {
            return Num::real(f64::NEG_INFINITY);
        }
        let (mut i, mut j) = (at.to_vec(), at.to_vec());
        j[rank - 2] = at[rank - 1];
        let mut sum = 0.0;
        for d in 0..q.shape[rank - 1] {
            (i[rank - 1], j[rank - 1]) = (d, d);
            sum += q.at(&i).re() * k.at(&j).re();
        }
        let added = match x.get(3) {
            Some(m) if m.dtype != DType::Bool => m.spread(at).re(),
            _ => 0.0,
        };
        Num::real(sum * scale + added)
    });
    let weights = softmax(&scores, rank - 1);
    let mut shape = v.shape.clone();
    shape[rank - 2] = queries;
    Array::from_fn(q.dtype, &shape, |at| {
        let (mut i, mut j) = (at.to_vec(), at.to_vec());
        let mut sum = 0.0;
        for key in 0..keys {
            (i[rank - 1], j[rank - 2]) = (key, key);
            if !hidden(&i) {
                sum += weights.at(&i).re() * v.at(&j).re();
            }
        }
        Num::real(sum)
    })
}

/// x wxᵀ + b.
fn gates(x: &Array, w: &Array, b: Option<&Array>) -> Array {
    affine(&matmul_transposed(x, w), None, b)
}

/// The n-th of equal parts of the last axis.
fn part(x: &Array, n: usize, like: &Array) -> Array {
    let width = like.shape[like.rank() - 1];
    Array::from_fn(x.dtype, &like.shape, |at| {
        let mut from = at.to_vec();
        from[at.len() - 1] += n * width;
        x.at(&from)
    })
}

/// c' = f c + i g and h' = o tanh(c').
pub fn lstm(x: &[Array]) -> Vec<Array> {
    let (h, c) = (&x[1], &x[2]);
    let dtype = h.dtype;
    let all = gates(&x[0], &x[3], x.get(5)).zip(&gates(h, &x[4], None), dtype, |a, b| {
        Num::real(a.re() + b.re())
    });
    let gate = |n| part(&all, n, h);
    let (i, f, g, o) = (gate(0), gate(1), gate(2), gate(3));
    let next = Array::from_fn(dtype, &c.shape, |at| {
        let keep = sigmoid(f.at(at).re()) * c.at(at).re();
        Num::real(keep + sigmoid(i.at(at).re()) * g.at(at).re().tanh())
    });
    let out = Array::from_fn(dtype, &c.shape, |at| {
        Num::real(sigmoid(o.at(at).re()) * next.at(at).re().tanh())
    });
    vec![out, next]
}

/// By the Jacobian of a row, `(δᵢⱼ - 1/n - nᵢ nⱼ / n) / deviation`.
pub fn layer_norm_grad(x: &[Array], axis: usize, epsilon: f64) -> Vec<Array> {
    let axes: Axes = (axis..x[0].rank()).collect();
    let normal = standardized(&x[0], &axes, epsilon);
    let scaled = affine(&x[1], x.get(2), None);
    let to_x = Array::from_fn(x[0].dtype, &x[0].shape, |at| {
        let row = group(&x[0], &axes, at);
        let n = row.len() as f64;
        let centre = row.iter().sum::<C>() / n;
        let variance = row.iter().map(|v| (v - centre) * (v - centre)).sum::<C>() / n;
        let through: C = group(&normal, &axes, at)
            .iter()
            .zip(group(&scaled, &axes, at))
            .map(|(&other, c)| c * (1.0 + normal.at(at).c() * other) / n)
            .sum();
        Num::Inexact((scaled.at(at).c() - through) / (variance + epsilon).sqrt())
    });
    let wide = x[0].dtype.accumulator();
    let ahead: Axes = (0..axis).collect();
    let with = x[1].zip(&normal, wide, |ct, n| Num::Inexact(ct.c() * n.c()));
    let down = |x: &Array| over(x, &ahead, wide, |all| all.iter().sum());
    vec![to_x, down(&with), down(&x[1])]
}

/// n = tanh(xₙ + r hₙ) and h' = (1 - z) n + z h.
pub fn gru(x: &[Array]) -> Array {
    let h = &x[1];
    let a = gates(&x[0], &x[2], x.get(4));
    let b = gates(h, &x[3], x.get(5));
    Array::from_fn(h.dtype, &h.shape, |at| {
        let of = |x: &Array, n| part(x, n, h).at(at).re();
        let r = sigmoid(of(&a, 0) + of(&b, 0));
        let z = sigmoid(of(&a, 1) + of(&b, 1));
        let n = (of(&a, 2) + r * of(&b, 2)).tanh();
        Num::real((1.0 - z) * n + z * h.at(at).re())
    })
}

/// Scatters the filter for every element of x, the transpose of a convolution's reads.
pub fn conv_transpose(c: &Composite, x: &Array, w: &Array) -> Result<Array> {
    let Composite::ConvTranspose {
        strides,
        padding,
        rhs_dilation,
        lhs_layout,
        rhs_layout,
        out_layout,
        feature_groups,
    } = c
    else {
        bail!(Internal, "{}: not a transposed convolution", c.name());
    };
    let spatial = strides.len();
    let (filters, inner) = (w.shape[rhs_layout[0]], w.shape[rhs_layout[1]]);
    let kernel: Vec<usize> = (0..spatial).map(|i| w.shape[rhs_layout[i + 2]]).collect();
    let low: Vec<i64> = padding.iter().map(|p| p.0.value().unwrap_or(0)).collect();
    let mut shape = vec![0; x.rank()];
    shape[out_layout[0]] = x.shape[lhs_layout[0]];
    shape[out_layout[1]] = inner * feature_groups;
    for i in 0..spatial {
        let n = x.shape[lhs_layout[i + 2]] as i64;
        let reach = (kernel[i] as i64 - 1) * rhs_dilation[i] as i64 + 1;
        let high = padding[i].1.value().unwrap_or(0);
        shape[out_layout[i + 2]] =
            ((n - 1) * strides[i] as i64 + reach - low[i] - high).max(0) as usize;
    }
    let mut out = Array::filled(x.dtype, &shape, Num::of(x.dtype, 0));
    for from in places(&x.shape) {
        let o = from[lhs_layout[1]];
        let group = o / (filters / feature_groups).max(1);
        for k in places(&kernel) {
            let to: Option<Vec<usize>> = (0..spatial)
                .map(|i| {
                    let at = from[lhs_layout[i + 2]] as i64 * strides[i] as i64
                        + (k[i] * rhs_dilation[i]) as i64
                        - low[i];
                    let fits = (0..shape[out_layout[i + 2]] as i64).contains(&at);
                    fits.then_some(at as usize)
                })
                .collect();
            let Some(to) = to else { continue };
            for c in 0..inner {
                let (mut place, mut tap) = (vec![0; x.rank()], vec![0; w.rank()]);
                place[out_layout[0]] = from[lhs_layout[0]];
                place[out_layout[1]] = group * inner + c;
                (tap[rhs_layout[0]], tap[rhs_layout[1]]) = (o, c);
                for i in 0..spatial {
                    place[out_layout[i + 2]] = to[i];
                    tap[rhs_layout[i + 2]] = k[i];
                }
                let slot = &mut out.values[offset(&shape, &place)];
                *slot = Num::Inexact(slot.c() + x.at(&from).c() * w.at(&tap).c());
            }
        }
    }
    Ok(out)
}
