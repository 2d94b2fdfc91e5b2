//! `dot_general`, convolutions and windows, by nested loops.

use super::number;
use crate::array::{Array, Num, extremes, offset, places};
use clematis_core::op::{
    Conv, Dot, Extreme, Pads, Window, WindowGather, WindowKind, WindowScatter,
};

pub fn dot(x: &Array, y: &Array, p: &Dot) -> Array {
    let free = |a: &Array, batch: &[usize], contract: &[usize]| -> Vec<usize> {
        (0..a.rank())
            .filter(|i| !batch.contains(i) && !contract.contains(i))
            .collect()
    };
    let x_free = free(x, &p.lhs_batch, &p.lhs_contract);
    let y_free = free(y, &p.rhs_batch, &p.rhs_contract);
    let shape: Vec<usize> = (p.lhs_batch.iter().map(|&a| x.shape[a]))
        .chain(x_free.iter().map(|&a| x.shape[a]))
        .chain(y_free.iter().map(|&a| y.shape[a]))
        .collect();
    let summed: Vec<usize> = p.lhs_contract.iter().map(|&a| x.shape[a]).collect();
    let n = p.lhs_batch.len();
    Array::from_fn(x.dtype, &shape, |at| {
        let (mut i, mut j) = (vec![0; x.rank()], vec![0; y.rank()]);
        for (k, (&a, &b)) in p.lhs_batch.iter().zip(p.rhs_batch.iter()).enumerate() {
            (i[a], j[b]) = (at[k], at[k]);
        }
        for (k, &a) in x_free.iter().enumerate() {
            i[a] = at[n + k];
        }
        for (k, &b) in y_free.iter().enumerate() {
            j[b] = at[n + x_free.len() + k];
        }
        let mut sum = Num::of(x.dtype, 0);
        for inner in places(&summed) {
            for (k, (&a, &b)) in p.lhs_contract.iter().zip(p.rhs_contract.iter()).enumerate() {
                (i[a], j[b]) = (inner[k], inner[k]);
            }
            sum = number::add(x.dtype, sum, number::mul(x.dtype, x.at(&i), y.at(&j)));
        }
        sum
    })
}

/// A size after dilation.
fn dilated(n: usize, by: usize) -> i64 {
    if n == 0 {
        0
    } else {
        (n as i64 - 1) * by as i64 + 1
    }
}

/// Number of window positions along an axis.
fn count(n: i64, window: i64, stride: usize, (low, high): (i64, i64)) -> usize {
    ((n + low + high - window).div_euclid(stride as i64) + 1).max(0) as usize
}

fn pads(padding: &Pads) -> Vec<(i64, i64)> {
    padding
        .iter()
        .map(|(l, h)| (l.value().unwrap_or(0), h.value().unwrap_or(0)))
        .collect()
}

/// The index of the element at a padded and dilated position; `None` for padding and gaps.
fn source(at: i64, low: i64, dilation: usize, n: usize) -> Option<usize> {
    let from = at - low;
    let whole = from >= 0 && from % dilation as i64 == 0 && from / (dilation as i64) < n as i64;
    whole.then_some((from / dilation as i64) as usize)
}

pub fn conv(x: &Array, w: &Array, p: &Conv) -> Array {
    let spatial = p.strides.len();
    let pads = pads(&p.padding);
    let (batch, features) = (x.shape[p.lhs_layout[0]], x.shape[p.lhs_layout[1]]);
    let (filters, inner) = (w.shape[p.rhs_layout[0]], w.shape[p.rhs_layout[1]]);
    let kernel: Vec<usize> = (0..spatial).map(|i| w.shape[p.rhs_layout[i + 2]]).collect();
    let sizes: Vec<usize> = (0..spatial).map(|i| x.shape[p.lhs_layout[i + 2]]).collect();
    let mut shape = vec![0; x.rank()];
    shape[p.out_layout[0]] = batch / p.batch_groups;
    shape[p.out_layout[1]] = filters;
    for i in 0..spatial {
        shape[p.out_layout[i + 2]] = count(
            dilated(sizes[i], p.lhs_dilation[i]),
            dilated(kernel[i], p.rhs_dilation[i]),
            p.strides[i],
            pads[i],
        );
    }
    let per_batch_group = batch / p.batch_groups;
    Array::from_fn(x.dtype, &shape, |at| {
        let (b, o) = (at[p.out_layout[0]], at[p.out_layout[1]]);
        // Filters are assigned to groups in order.
        let group = o / (filters / p.feature_groups.max(p.batch_groups)).max(1);
        let (row, first) = if p.batch_groups > 1 {
            (group * per_batch_group + b, 0)
        } else {
            (b, group * (features / p.feature_groups))
        };
        let mut sum = Num::of(x.dtype, 0);
        for k in places(&kernel) {
            let from: Option<Vec<usize>> = (0..spatial)
                .map(|i| {
                    let place = at[p.out_layout[i + 2]] * p.strides[i] + k[i] * p.rhs_dilation[i];
                    source(place as i64, pads[i].0, p.lhs_dilation[i], sizes[i])
                })
                .collect();
            let Some(from) = from else { continue };
            for c in 0..inner {
                let (mut i, mut j) = (vec![0; x.rank()], vec![0; w.rank()]);
                (i[p.lhs_layout[0]], i[p.lhs_layout[1]]) = (row, first + c);
                (j[p.rhs_layout[0]], j[p.rhs_layout[1]]) = (o, c);
                for s in 0..spatial {
                    i[p.lhs_layout[s + 2]] = from[s];
                    j[p.rhs_layout[s + 2]] = k[s];
                }
                sum = number::add(x.dtype, sum, number::mul(x.dtype, x.at(&i), w.at(&j)));
            }
        }
        sum
    })
}

/// The shape of a window op's result, and for each index the elements inside the window.
fn windows(x: &Array, p: &Window) -> (Vec<usize>, impl Fn(&[usize]) -> Vec<Vec<usize>> + use<>) {
    let pads = pads(&p.padding);
    let shape: Vec<usize> = (0..x.rank())
        .map(|i| {
            count(
                dilated(x.shape[i], p.base_dilation[i]),
                dilated(p.size[i], p.window_dilation[i]),
                p.strides[i],
                pads[i],
            )
        })
        .collect();
    let (sizes, p) = (x.shape.clone(), p.clone());
    let inside = move |at: &[usize]| {
        places(&p.size)
            .filter_map(|k| {
                (0..sizes.len())
                    .map(|i| {
                        let place = at[i] * p.strides[i] + k[i] * p.window_dilation[i];
                        source(place as i64, pads[i].0, p.base_dilation[i], sizes[i])
                    })
                    .collect()
            })
            .collect()
    };
    (shape, inside)
}

pub fn window(x: &Array, p: &Window) -> Array {
    let (shape, inside) = windows(x, p);
    Array::from_fn(x.dtype, &shape, |at| {
        let all = inside(at).into_iter().map(|i| x.at(&i));
        let found = match p.kind {
            WindowKind::Sum => all.reduce(|a, b| number::add(x.dtype, a, b)),
            WindowKind::Prod => all.reduce(|a, b| number::mul(x.dtype, a, b)),
            WindowKind::Max => all.reduce(number::max),
            WindowKind::Min => all.reduce(number::min),
        };
        found.unwrap_or_else(|| nothing(x, p.kind))
    })
}

/// The result of an empty window.
fn nothing(x: &Array, kind: WindowKind) -> Num {
    let inexact = x.dtype.is_inexact();
    match kind {
        WindowKind::Sum => Num::of(x.dtype, 0),
        WindowKind::Prod => Num::of(x.dtype, 1),
        WindowKind::Max if inexact => Num::real(f64::NEG_INFINITY),
        WindowKind::Min if inexact => Num::real(f64::INFINITY),
        WindowKind::Max => Num::Whole(extremes(x.dtype).0),
        WindowKind::Min => Num::Whole(extremes(x.dtype).1),
    }
}

/// The first extreme of a window.
fn selected(x: &Array, kind: Extreme, inside: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut best: Option<&Vec<usize>> = None;
    for at in inside {
        let better = match best {
            None => true,
            Some(old) => {
                let order = number::before(x.at(at), x.at(old));
                match kind {
                    Extreme::Max => order.is_gt(),
                    Extreme::Min => order.is_lt(),
                }
            }
        };
        if better {
            best = Some(at);
        }
    }
    best.cloned()
}

pub fn window_scatter(x: &Array, y: &Array, p: &WindowScatter) -> Array {
    let (shape, inside) = windows(x, &p.clone().into());
    let mut out = Array::filled(x.dtype, &x.shape, Num::of(x.dtype, 0));
    for at in places(&shape) {
        if let Some(to) = selected(x, p.kind, &inside(&at)) {
            let to = offset(&x.shape, &to);
            out.values[to] = number::add(x.dtype, out.values[to], y.at(&at));
        }
    }
    out
}

pub fn window_gather(x: &Array, y: &Array, p: &WindowGather) -> Array {
    let (shape, inside) = windows(x, &p.clone().into());
    Array::from_fn(x.dtype, &shape, |at| {
        selected(x, p.kind, &inside(at)).map_or(Num::of(x.dtype, 0), |from| y.at(&from))
    })
}
