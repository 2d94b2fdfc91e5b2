//! Reductions, cumulative reductions and sorts, element by element.

use super::number;
use crate::array::{Array, Num, offset, places};
use clematis_core::DType;
use clematis_core::op::{ArgReduce, Cumulative, CumulativeKind, Extreme, Reduce, ReduceKind, Sort};

pub fn reduce(x: &Array, p: &Reduce) -> Array {
    let kept: Vec<usize> = (0..x.rank()).filter(|a| !p.axes.contains(a)).collect();
    let shape: Vec<usize> = kept.iter().map(|&a| x.shape[a]).collect();
    let mut sums: Vec<Option<Num>> = vec![None; shape.iter().product()];
    for at in places(&x.shape) {
        let to: Vec<usize> = kept.iter().map(|&a| at[a]).collect();
        let (slot, v) = (&mut sums[offset(&shape, &to)], x.at(&at));
        *slot = Some(match *slot {
            None => v,
            Some(old) => match p.kind {
                ReduceKind::Sum => number::add(x.dtype, old, v),
                ReduceKind::Prod => number::mul(x.dtype, old, v),
                ReduceKind::Max => number::max(old, v),
                ReduceKind::Min => number::min(old, v),
                ReduceKind::Any => (old.truth() || v.truth()).into(),
                ReduceKind::All => (old.truth() && v.truth()).into(),
            },
        });
    }
    let of_nothing = match p.kind {
        ReduceKind::Prod | ReduceKind::All => Num::of(x.dtype, 1),
        _ => Num::of(x.dtype, 0),
    };
    let values = sums.into_iter().map(|v| v.unwrap_or(of_nothing)).collect();
    Array::new(x.dtype, &shape, values)
}

pub fn arg_reduce(x: &Array, p: &ArgReduce) -> Array {
    let mut shape = x.shape.clone();
    let n = shape.remove(p.axis);
    Array::from_fn(DType::INDEX, &shape, |at| {
        let value = |i: usize| {
            let mut own = at.to_vec();
            own.insert(p.axis, i);
            x.at(&own)
        };
        let mut best = 0;
        for i in 1..n {
            let (old, new) = (value(best), value(i));
            let nan = |v: Num| v.re().is_nan();
            let order = number::before(new, old);
            let better = match p.kind {
                _ if nan(old) => false,
                _ if nan(new) => true,
                Extreme::Max => order.is_gt(),
                Extreme::Min => order.is_lt(),
            };
            if better {
                best = i;
            }
        }
        Num::Whole(best as i128)
    })
}

pub fn cumulative(x: &Array, p: &Cumulative) -> Array {
    let n = x.shape[p.axis];
    Array::from_fn(x.dtype, &x.shape, |at| {
        let value = |i: usize| {
            let mut own = at.to_vec();
            own[p.axis] = i;
            x.at(&own)
        };
        let range: Vec<usize> = if p.reverse {
            (at[p.axis]..n).rev().collect()
        } else {
            (0..=at[p.axis]).collect()
        };
        let all = range.into_iter().map(value);
        match p.kind {
            CumulativeKind::Sum => all.reduce(|a, b| number::add(x.dtype, a, b)),
            CumulativeKind::Prod => all.reduce(|a, b| number::mul(x.dtype, a, b)),
            CumulativeKind::Max => all.reduce(number::max),
            CumulativeKind::Min => all.reduce(number::min),
            CumulativeKind::LogSumExp => {
                let all: Vec<f64> = all.map(Num::re).collect();
                Some(Num::real(log_sum_exp(&all)))
            }
        }
        .unwrap_or(Num::Whole(0))
    })
}

/// log Σ exp(x), shifted by the maximum.
pub fn log_sum_exp(x: &[f64]) -> f64 {
    let top = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_infinite() && !x.iter().any(|v| v.is_nan()) {
        return top;
    }
    top + x.iter().map(|v| (v - top).exp()).sum::<f64>().ln()
}

/// The stable sort order of one lane by the keys, NaN last.
fn order(n: usize, descending: bool, keys: &[Vec<Num>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| {
        for key in keys {
            let (a, b) = (key[i], key[j]);
            let nan = a.re().is_nan() || b.re().is_nan();
            let by_key = number::before(a, b);
            let by_key = if descending && !nan {
                by_key.reverse()
            } else {
                by_key
            };
            if by_key.is_ne() {
                return by_key;
            }
        }
        std::cmp::Ordering::Equal
    });
    order
}

fn lane(x: &Array, axis: usize, at: &[usize]) -> Vec<Num> {
    (0..x.shape[axis])
        .map(|i| {
            let mut own = at.to_vec();
            own[axis] = i;
            x.at(&own)
        })
        .collect()
}

pub fn sort(x: &[Array], p: &Sort) -> Vec<Array> {
    x.iter()
        .map(|operand| {
            Array::from_fn(operand.dtype, &operand.shape, |at| {
                let keys: Vec<Vec<Num>> = x[..usize::from(p.keys)]
                    .iter()
                    .map(|k| lane(k, p.axis, at))
                    .collect();
                let order = order(operand.shape[p.axis], p.descending, &keys);
                let mut own = at.to_vec();
                own[p.axis] = order[at[p.axis]];
                operand.at(&own)
            })
        })
        .collect()
}

pub fn top_k(x: &Array, k: usize) -> Vec<Array> {
    let axis = x.rank() - 1;
    let mut shape = x.shape.clone();
    shape[axis] = k;
    let at = |at: &[usize]| {
        let lane = lane(x, axis, at);
        let mut order = order(x.shape[axis], true, std::slice::from_ref(&lane));
        // NaN counts as the largest here, while a sort puts it last in either direction.
        order.sort_by_key(|&i| !lane[i].re().is_nan());
        order[at[axis]]
    };
    let indices = Array::from_fn(DType::INDEX, &shape, |place| Num::Whole(at(place) as i128));
    let values = Array::from_fn(x.dtype, &shape, |place| {
        let mut own = place.to_vec();
        own[axis] = at(place);
        x.at(&own)
    });
    vec![values, indices]
}
