//! References of composites, by formulas from textbooks and papers.

use super::{linalg, linear, neural, number, random, resize, special};
use crate::array::{Array, C, Num, places};
use clematis_core::op::{Dot, Reduce, ReduceKind, Window, WindowKind};
use clematis_core::{Axes, Composite, DType, Result, bail};
use std::f64::consts::{PI, SQRT_2};

/// The reference of a composite.
pub fn run(c: &Composite, x: &[Array]) -> Result<Vec<Array>> {
    if let Some(f) = activation(c) {
        return Ok(vec![x[0].map(x[0].dtype, |v| match v {
            Num::Whole(v) => Num::Whole(v.max(0)),
            Num::Inexact(v) => Num::real(f(v.re)),
        })]);
    }
    Ok(vec![match c {
        Composite::Softmax { axis } => softmax(&x[0], *axis),
        Composite::LogSoftmax { axis } => softmax_log(&x[0], *axis),
        Composite::LogSumExp { axes } => over(&x[0], axes, x[0].dtype, |v| {
            let v: Vec<f64> = v.iter().map(|v| v.re).collect();
            C::new(super::reduce::log_sum_exp(&v), 0.0)
        }),
        Composite::Mean { axes } => mean(&x[0], axes),
        Composite::Var { axes, correction } => over(&x[0], axes, x[0].dtype.real(), |v| {
            let n = v.len() as f64;
            let centre = v.iter().sum::<C>() / n;
            let sum: f64 = v.iter().map(|v| (v - centre).norm_sqr()).sum();
            C::new(sum / (n - correction.0).max(0.0), 0.0)
        }),
        Composite::LayerNorm { axis, epsilon } => {
            let axes: Axes = (*axis..x[0].rank()).collect();
            let y = standardized(&x[0], &axes, epsilon.0);
            affine(&y, x.get(1), x.get(2))
        }
        Composite::LayerNormGrad { axis, epsilon } => {
            return Ok(neural::layer_norm_grad(x, *axis, epsilon.0));
        }
        Composite::RmsNorm { axis, epsilon } => {
            let axes: Axes = (*axis..x[0].rank()).collect();
            let y = spread(&x[0], &axes, |v, all| {
                let n = all.len() as f64;
                v / (all.iter().map(|v| v * v).sum::<C>() / n + epsilon.0).sqrt()
            });
            affine(&y, x.get(1), None)
        }
        Composite::GroupNorm {
            axis,
            groups,
            epsilon,
        } => neural::group_norm(x, *axis, *groups, epsilon.0),
        Composite::BatchNorm { axis, epsilon } => neural::batch_norm(x, *axis, epsilon.0),
        Composite::Linear {} => {
            let y = matmul_transposed(&x[0], &x[1]);
            affine(&y, None, x.get(2))
        }
        Composite::Embedding {} => embedding(&x[0], &x[1]),
        Composite::Attention { scale, causal } => neural::attention(x, scale.0, *causal),
        Composite::Dropout { rate } => {
            let drawn = random::uniform(&x[1], &x[0].shape);
            x[0].zip(&drawn, x[0].dtype, |v, u| {
                if u.re() >= rate.0 {
                    Num::Inexact(v.c() / (1.0 - rate.0))
                } else {
                    Num::real(0.0)
                }
            })
        }
        Composite::ConvTranspose { .. } => neural::conv_transpose(c, &x[0], &x[1])?,
        Composite::MaxPool {
            size,
            strides,
            padding,
            dilation,
        } => linear::window(
            &x[0],
            &window(WindowKind::Max, size, strides, padding, dilation),
        ),
        Composite::AvgPool {
            size,
            strides,
            padding,
            dilation,
            count_padding,
        } => {
            let p = window(WindowKind::Sum, size, strides, padding, dilation);
            let sum = linear::window(&x[0], &p);
            let ones = x[0].map(x[0].dtype, |_| Num::real(1.0));
            let all = size.iter().product::<usize>() as f64;
            sum.zip(&linear::window(&ones, &p), x[0].dtype, |s, n| {
                Num::Inexact(s.c() / if *count_padding { all } else { n.re() })
            })
        }
        Composite::Resize {
            shape,
            method,
            align_corners,
            antialias,
        } => resize::resize(&x[0], &shape.sizes(), *method, *align_corners, *antialias),
        Composite::Einsum { equation } => einsum(equation, x),
        Composite::OneHot { depth, dtype } => {
            let mut shape = x[0].shape.clone();
            shape.push(depth.value().unwrap_or(0) as usize);
            Array::from_fn(*dtype, &shape, |at| {
                let (place, row) = (at[at.len() - 1], &at[..at.len() - 1]);
                Num::of(*dtype, i128::from(x[0].at(row).i() == place as i128))
            })
        }
        Composite::CrossEntropy {} => {
            let log = softmax_log(&x[0], x[0].rank() - 1);
            Array::from_fn(x[0].dtype, &x[1].shape, |at| {
                let mut from = at.to_vec();
                from.push(x[1].at(at).i() as usize);
                Num::real(-log.at(&from).re())
            })
        }
        Composite::LstmCell {} => return Ok(neural::lstm(x)),
        Composite::GruCell {} => neural::gru(x),
        Composite::Det {} => linalg::det(&x[0]),
        Composite::RandomBits { dtype, shape } => random::bits(&x[0], *dtype, shape),
        other => bail!(Internal, "{}: no reference", other.name()),
    }])
}

/// 1 / (1 + e^-x).
pub fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

/// Log(1 + e^x).
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn activation(c: &Composite) -> Option<Box<dyn Fn(f64) -> f64>> {
    let elu = |x: f64, alpha: f64| if x > 0.0 { x } else { alpha * x.exp_m1() };
    Some(match *c {
        Composite::Relu {} => Box::new(|x| if x > 0.0 || x.is_nan() { x } else { 0.0 }),
        Composite::LeakyRelu { negative_slope } => {
            Box::new(move |x| if x > 0.0 { x } else { negative_slope.0 * x })
        }
        Composite::Elu { alpha } => Box::new(move |x| elu(x, alpha.0)),
        // The constants of Klambauer et al.
        Composite::Selu {} => {
            Box::new(move |x| 1.050_700_987_355_480_5 * elu(x, 1.673_263_242_354_377_2))
        }
        Composite::Gelu { approximate: false } => {
            Box::new(|x| 0.5 * x * special::erfc(-x / SQRT_2))
        }
        Composite::Gelu { approximate: true } => {
            Box::new(|x| 0.5 * x * (1.0 + ((2.0 / PI).sqrt() * (x + 0.044_715 * x.powi(3))).tanh()))
        }
        Composite::Sigmoid {} => Box::new(sigmoid),
        Composite::LogSigmoid {} => Box::new(|x| -softplus(-x)),
        Composite::Silu {} => Box::new(|x| x * sigmoid(x)),
        Composite::Softplus {} => Box::new(softplus),
        Composite::Mish {} => Box::new(|x| x * softplus(x).tanh()),
        Composite::HardSigmoid {} => Box::new(|x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
        Composite::HardSwish {} => Box::new(|x| x * (x + 3.0).clamp(0.0, 6.0) / 6.0),
        _ => return None,
    })
}

/// The elements that are reduced to one index.
pub fn group(x: &Array, axes: &Axes, at: &[usize]) -> Vec<C> {
    places(&x.shape)
        .filter(|p| (0..x.rank()).all(|a| axes.contains(&a) || p[a] == at[a]))
        .map(|p| x.at(&p).c())
        .collect()
}

/// A function of all elements over some axes.
pub fn over(x: &Array, axes: &Axes, dtype: DType, f: impl Fn(&[C]) -> C) -> Array {
    let kept: Vec<usize> = (0..x.rank()).filter(|a| !axes.contains(a)).collect();
    let shape: Vec<usize> = kept.iter().map(|&a| x.shape[a]).collect();
    Array::from_fn(dtype, &shape, |at| {
        let mut whole = vec![0; x.rank()];
        for (&a, &i) in kept.iter().zip(at) {
            whole[a] = i;
        }
        Num::Inexact(f(&group(x, axes, &whole)))
    })
}

/// A function of each element and of all elements that are reduced with it.
pub fn spread(x: &Array, axes: &Axes, f: impl Fn(C, &[C]) -> C) -> Array {
    Array::from_fn(x.dtype, &x.shape, |at| {
        Num::Inexact(f(x.at(at).c(), &group(x, axes, at)))
    })
}

/// (x - mean) / √(variance + ε).
pub fn standardized(x: &Array, axes: &Axes, epsilon: f64) -> Array {
    spread(x, axes, |v, all| {
        let n = all.len() as f64;
        let centre = all.iter().sum::<C>() / n;
        let variance = all.iter().map(|v| (v - centre) * (v - centre)).sum::<C>() / n;
        (v - centre) / (variance + epsilon).sqrt()
    })
}

/// x scale + bias, both broadcast.
pub fn affine(x: &Array, scale: Option<&Array>, bias: Option<&Array>) -> Array {
    let mut y = x.clone();
    if let Some(scale) = scale {
        y = y.zip(scale, x.dtype, |a, b| number::mul(x.dtype, a, b));
    }
    if let Some(bias) = bias {
        y = y.zip(bias, x.dtype, |a, b| number::add(x.dtype, a, b));
    }
    y
}

fn mean(x: &Array, axes: &Axes) -> Array {
    let n: usize = axes.iter().map(|&a| x.shape[a]).product();
    let sum = super::reduce::reduce(
        x,
        &Reduce {
            kind: ReduceKind::Sum,
            axes: axes.clone(),
        },
    );
    sum.map(x.dtype, |v| Num::Inexact(v.c() / n as f64))
}

/// e^x / Σ e^x along an axis.
pub fn softmax(x: &Array, axis: usize) -> Array {
    spread(x, &Axes::new(&[axis]), |v, all| {
        let top = all.iter().map(|v| v.re).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all.iter().map(|v| (v.re - top).exp()).sum();
        C::new((v.re - top).exp() / sum, 0.0)
    })
}

fn softmax_log(x: &Array, axis: usize) -> Array {
    spread(x, &Axes::new(&[axis]), |v, all| {
        let all: Vec<f64> = all.iter().map(|v| v.re).collect();
        C::new(v.re - super::reduce::log_sum_exp(&all), 0.0)
    })
}

/// x wᵀ over the last axis of both.
pub fn matmul_transposed(x: &Array, w: &Array) -> Array {
    linear::dot(
        x,
        w,
        &Dot {
            lhs_batch: Axes::default(),
            rhs_batch: Axes::default(),
            lhs_contract: Axes::new(&[x.rank() - 1]),
            rhs_contract: Axes::new(&[1]),
        },
    )
}

/// Rows of a table; negative indices count from the end.
fn embedding(table: &Array, indices: &Array) -> Array {
    let mut shape = indices.shape.clone();
    shape.extend(&table.shape[1..]);
    Array::from_fn(table.dtype, &shape, |at| {
        let i = indices.at(&at[..indices.rank()]).i();
        let i = if i < 0 { i + table.shape[0] as i128 } else { i };
        let mut from = vec![i as usize];
        from.extend(&at[indices.rank()..]);
        table.at(&from)
    })
}

fn window(
    kind: WindowKind,
    size: &Axes,
    strides: &Axes,
    padding: &clematis_core::op::Pads,
    dilation: &Axes,
) -> Window {
    Window {
        kind,
        size: size.clone(),
        strides: strides.clone(),
        padding: padding.clone(),
        base_dilation: std::iter::repeat_n(1, size.len()).collect(),
        window_dilation: dilation.clone(),
    }
}

/// Einstein summation by enumerating all index values; without `...`.
fn einsum(equation: &str, x: &[Array]) -> Array {
    let (left, right) = equation.split_once("->").unwrap_or((equation, ""));
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    let mut letters: Vec<char> = right.chars().collect();
    let out = letters.len();
    for c in terms.iter().flatten() {
        if !letters.contains(c) {
            letters.push(*c);
        }
    }
    let size = |c: char| {
        terms
            .iter()
            .zip(x)
            .flat_map(|(t, x)| t.iter().zip(&x.shape))
            .find(|(d, _)| **d == c)
            .map_or(1, |(_, &n)| n)
    };
    let sizes: Vec<usize> = letters.iter().map(|&c| size(c)).collect();
    Array::from_fn(x[0].dtype, &sizes[..out], |at| {
        let mut sum = Num::of(x[0].dtype, 0);
        for inner in places(&sizes[out..]) {
            let value = |c: &char| {
                let i = letters.iter().position(|d| d == c).unwrap_or(0);
                if i < out { at[i] } else { inner[i - out] }
            };
            let product = terms
                .iter()
                .zip(x)
                .fold(Num::of(x[0].dtype, 1), |p, (t, x)| {
                    let place: Vec<usize> = t.iter().map(value).collect();
                    number::mul(x.dtype, p, x.at(&place))
                });
            sum = number::add(x[0].dtype, sum, product);
        }
        sum
    })
}
