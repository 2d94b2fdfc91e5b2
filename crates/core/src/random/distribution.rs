//! Distributions, computed from uniform bits.

use super::Key;
use crate::control::{self, Carry};
use crate::dispatch::apply_one;
use crate::dtype::{DType, Real};
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::op::Composite;
use crate::ops::{self, Ops, bits::unit_uniform};
use crate::precondition::Precondition;
use crate::shape::{IntoShape, Shape};
use crate::tensor::Tensor;
use crate::{bail, ensure};

fn float(op: &str, dtype: DType) -> Result<()> {
    ensure!(
        dtype.is_float(),
        DType,
        "{op}: expected a float dtype, got {dtype}"
    );
    Ok(())
}

fn unit(key: &Key, shape: &Shape, dtype: DType) -> Result<Tensor> {
    unit_uniform(&key.words().done()?, dtype, shape)
}

/// Uniform on (0, 1), never 0, for logarithms: at the midpoints of the grid.
fn open_unit(key: &Key, shape: &Shape, dtype: DType) -> Result<Tensor> {
    let half = match dtype {
        DType::F64 => 2f64.powi(-54),
        DType::F32 => 2f64.powi(-25),
        DType::F16 => 2f64.powi(-12),
        _ => 2f64.powi(-9),
    };
    let largest = 1.0 - 2.0 * half;
    // Rounding at the last grid point could give 1.
    (unit(key, shape, dtype)? + half).minimum(largest).done()
}

fn shape_of(shape: impl IntoShape) -> Result<Shape> {
    shape.into_shape()
}

/// Uniform on [low, high); equal bounds give the bound.
pub fn uniform(
    key: &Key,
    shape: impl IntoShape,
    low: impl IntoExpr,
    high: impl IntoExpr,
    dtype: DType,
) -> Expr {
    let draw = || -> Result<Tensor> {
        float("uniform", dtype)?;
        let (low, high) = (low.into_expr().done()?, high.into_expr().done()?);
        ordered("uniform", &low, &high)?;
        let u = unit(key, &shape_of(shape)?, dtype)?;
        let (low, high) = (low.cast(dtype).done()?, high.cast(dtype).done()?);
        let x = (&u * (&high - &low) + &low).done()?;
        // Rounding may give `high` itself; it is replaced by the float below.
        let below = ops::maximum(ops::nextafter(&high, &low), &low).stop_gradient();
        ops::where_(
            ops::logical_and(ops::greater_equal(&x, &high), ops::greater(&high, &low)),
            below,
            &x,
        )
        .done()
    };
    draw().into()
}

fn ordered(op: &str, low: &Tensor, high: &Tensor) -> Result<()> {
    if let (Some(a), Some(b)) = (low.as_number(), high.as_number()) {
        ensure!(
            a.as_f64() <= b.as_f64(),
            Value,
            "{op}: low {a} is above high {b}"
        );
    }
    Ok(())
}

/// Normal with the given mean and standard deviation.
pub fn normal(
    key: &Key,
    shape: impl IntoShape,
    mean: impl IntoExpr,
    std: impl IntoExpr,
    dtype: DType,
) -> Expr {
    let draw = || -> Result<Tensor> {
        float("normal", dtype)?;
        let std = std.into_expr().done()?;
        if let Some(s) = std.as_number() {
            ensure!(
                s.as_f64() >= 0.0,
                Value,
                "normal: expected a non-negative standard deviation, got {s}"
            );
        }
        let z = standard_normal(key, &shape_of(shape)?, dtype)?;
        (z * std.cast(dtype) + mean.into_expr().cast(dtype)).done()
    };
    draw().into()
}

/// √2 erf⁻¹(2u - 1); half precision is computed in f32 and rounded once.
fn standard_normal(key: &Key, shape: &Shape, dtype: DType) -> Result<Tensor> {
    let wide = dtype.accumulator();
    let u = open_unit(key, shape, wide)?;
    (ops::erfinv(u * 2.0 - 1.0) * std::f64::consts::SQRT_2)
        .cast(dtype)
        .done()
}

/// Normal truncated to [low, high], in units of the standard deviation.
pub fn truncated_normal(
    key: &Key,
    shape: impl IntoShape,
    low: f64,
    high: f64,
    dtype: DType,
) -> Expr {
    let draw = || -> Result<Tensor> {
        float("truncated_normal", dtype)?;
        ensure!(
            low < high,
            Value,
            "truncated_normal: low {low} is not below high {high}"
        );
        let wide = dtype.accumulator();
        let root = std::f64::consts::SQRT_2;
        let edge = |v: f64| {
            ops::erf(Tensor::scalar(v / root, DType::F64))
                .done()?
                .item()
        };
        let (a, b) = (edge(low)?.as_f64(), edge(high)?.as_f64());
        let u = open_unit(key, &shape_of(shape)?, wide)?;
        let z = ops::erfinv(u * (b - a) + a) * root;
        ops::clamp(z, low, high).cast(dtype).done()
    };
    draw().into()
}

/// Bernoulli: 1 with probability p, else 0.
pub fn bernoulli(key: &Key, shape: impl IntoShape, p: impl IntoExpr) -> Expr {
    let draw = || -> Result<Tensor> {
        let p = p.into_expr().done()?;
        if let Some(v) = p.as_number() {
            let v = v.as_f64();
            ensure!(
                (0.0..=1.0).contains(&v),
                Value,
                "bernoulli: expected a probability in [0, 1], got {v}"
            );
        }
        let dtype = if p.dtype() == DType::F64 && !p.is_weak() {
            DType::F64
        } else {
            DType::F32
        };
        let u = unit(key, &shape_of(shape)?, dtype)?;
        ops::less(u, p.cast(dtype)).done()
    };
    draw().into()
}

/// Uniform integers in [low, high), with a bias below 2⁻³².
pub fn randint(key: &Key, shape: impl IntoShape, low: i64, high: i64, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        ensure!(
            dtype.is_int(),
            DType,
            "randint: expected an integer dtype, got {dtype}"
        );
        ensure!(
            low <= high,
            Value,
            "randint: low {low} is above high {high}"
        );
        let shape = shape_of(shape)?;
        let span = (i128::from(high) - i128::from(low)) as u64;
        if span <= 1 {
            return ops::full(&shape, low, dtype).done();
        }
        // 64 random bits modulo the span: the bias is span / 2⁶⁴.
        let wide = key.bits(DType::U64, &shape) % ops::full((), span, DType::U64);
        let moved = ops::cast(wide, DType::I64) + ops::full((), low, DType::I64);
        moved.cast(dtype).done()
    };
    draw().into()
}

/// Exponential with the given rate.
pub fn exponential(key: &Key, shape: impl IntoShape, rate: impl IntoExpr, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        float("exponential", dtype)?;
        let u = unit(key, &shape_of(shape)?, dtype.accumulator())?;
        (-ops::log1p(-u) / rate.into_expr()).cast(dtype).done()
    };
    draw().into()
}

/// Laplace with mean 0 and scale 1.
pub fn laplace(key: &Key, shape: impl IntoShape, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        float("laplace", dtype)?;
        let u = (open_unit(key, &shape_of(shape)?, dtype.accumulator())? * 2.0 - 1.0).done()?;
        (-(ops::sign(&u) * ops::log1p(-ops::abs(&u))))
            .cast(dtype)
            .done()
    };
    draw().into()
}

/// Gumbel: -log(-log(u)).
pub fn gumbel(key: &Key, shape: impl IntoShape, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        float("gumbel", dtype)?;
        let u = open_unit(key, &shape_of(shape)?, dtype.accumulator())?;
        (-ops::log(-ops::log(u))).cast(dtype).done()
    };
    draw().into()
}

/// Draws one category per row of logits (last axis), with the Gumbel-max trick.
pub fn categorical(key: &Key, logits: impl IntoExpr) -> Expr {
    logits.into_expr().then(|logits| {
        ensure!(
            logits.rank() > 0,
            Shape,
            "categorical: expected logits with an axis of categories"
        );
        let noise = gumbel(key, logits.shape(), logits.dtype());
        ops::argmax(&logits + noise, Some(-1)).done()
    })
}

/// Draws `count` categories per row of weights (last axis), with or without replacement.
pub fn multinomial(key: &Key, weights: impl IntoExpr, count: usize, replace: bool) -> Expr {
    weights.into_expr().then(|weights| {
        ensure!(
            weights.rank() > 0 && weights.dtype().is_float(),
            Shape,
            "multinomial: expected float weights with an axis of categories, got {}",
            weights.spec()
        );
        let last = weights.rank() - 1;
        let population = weights.shape().known_size(last, "multinomial")?;
        let wide = weights.dtype().accumulator();
        let weights = weights.cast(wide).done()?;
        let rule = |count| Precondition::Weights {
            op: "multinomial",
            count,
        };
        ops::require(&weights, rule(1))?;
        let logits = ops::log(&weights).done()?;
        if !replace {
            ensure!(
                count <= population,
                Value,
                "multinomial: cannot draw {count} of {population} without replacement"
            );
            ops::require(&weights, rule(count))?;
            let noise = gumbel(key, logits.shape(), wide);
            let (_, places) = ops::top_k(&(&logits + noise).done()?, count)?;
            return Ok(places);
        }
        ensure!(
            population > 0 || count == 0,
            Value,
            "multinomial: expected at least one category"
        );
        // Inverts the cumulative weights: one uniform number per draw.
        let sums = ops::cumsum(&weights, -1).done()?;
        let total = ops::slice_axis(&sums, -1, population as i64 - 1, population as i64);
        let shape = weights.shape().with(last, count);
        let u = (unit(key, &shape, wide)? * total).done()?;
        let places = ops::searchsorted(&sums, &u, true).done()?;
        ops::minimum(places, population as i64 - 1).done()
    })
}

/// A random permutation of 0 … n-1.
pub fn permutation(key: &Key, n: usize) -> Expr {
    let draw = || -> Result<Tensor> {
        let order = key.bits(DType::U64, [n]).done()?;
        let places = ops::iota([n], 0, DType::INDEX).done()?;
        match ops::sort_many(&[&order, &places], 1, 0, false)?.pop() {
            Some(places) => Ok(places),
            None => bail!(Internal, "permutation: no result"),
        }
    };
    draw().into()
}

/// Shuffles the rows (axis 0).
pub fn shuffle(key: &Key, x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        if x.rank() == 0 {
            return Ok(x);
        }
        let order = permutation(key, x.shape().known_size(0, "shuffle")?).done()?;
        ops::index::take_unchecked(&x, &order, 0)
    })
}

/// Gamma with the given shape parameter and rate 1, by Marsaglia and Tsang's rejection method.
pub fn gamma(key: &Key, shape: impl IntoShape, alpha: impl IntoExpr, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        float("gamma", dtype)?;
        let wide = dtype.accumulator();
        let shape = shape_of(shape)?;
        let alpha = alpha.into_expr().done()?;
        positive("gamma", "a shape of", &alpha)?;
        let alpha = ops::broadcast_to(alpha.cast(wide), &shape).done()?;
        let log = log_gamma_draw(key, &shape, &alpha, wide)?;
        ops::exp(&log).cast(dtype).done()
    };
    draw().into()
}

/// Checks that a parameter is positive and finite.
fn positive(op: &'static str, what: &'static str, x: &Tensor) -> Result<()> {
    let rule = Precondition::Within {
        op,
        what,
        low: 0.0,
        high: f64::MAX,
        above: true,
    };
    ops::require(x, rule)
}

/// The logarithm of a gamma draw: for small shapes the draw itself underflows.
fn log_gamma_draw(key: &Key, shape: &Shape, alpha: &Tensor, dtype: DType) -> Result<Tensor> {
    let (boost_key, loop_key) = key.split();
    // Below 1: draws for alpha + 1 and multiplies by u^(1/alpha).
    let small = ops::less(alpha, 1.0).done()?;
    let boosted = ops::where_(&small, alpha + 1.0, alpha).done()?;
    let d = (&boosted - 1.0 / 3.0).done()?;
    let c = (ops::rsqrt(&d) * (1.0 / 3.0)).done()?;
    let start = vec![
        ops::full_like(&boosted, 0).done()?,
        ops::full(shape, false, DType::Bool).done()?,
        ops::full((), 0, DType::U64).done()?,
    ];
    let words = loop_key.words().done()?;
    let out = control::while_loop(
        Carry(start),
        |x| ops::logical_not(ops::all(&x.0[1], ..)).done(),
        |x| {
            let key = Key::from_tensor(ops::bits::fold_in(&words, &x.0[2]));
            let (normal_key, uniform_key) = key.split();
            let z = standard_normal(&normal_key, shape, dtype)?;
            let u = open_unit(&uniform_key, shape, dtype)?;
            let v = (&c * &z + 1.0).done()?;
            let cube = (v.square() * &v).done()?;
            let inside = ops::greater(&cube, 0.0).done()?;
            let safe = ops::where_(&inside, &cube, 1.0).done()?;
            let log = ops::log(&safe).done()?;
            let bound = z.square() * 0.5 + &d - &d * &safe + &d * &log;
            let good = ops::logical_and(&inside, ops::less(ops::log(&u), bound)).done()?;
            let fresh = ops::logical_and(&good, ops::logical_not(&x.0[1]));
            let value = ops::where_(fresh, ops::log(&d) + log, &x.0[0]).done()?;
            let done = ops::logical_or(&x.0[1], &good).done()?;
            Ok(Carry(vec![value, done, (&x.0[2] + 1).done()?]))
        },
    )?;
    let u = open_unit(&boost_key, shape, dtype)?;
    ops::where_(&small, &out.0[0] + ops::log(u) / alpha, &out.0[0]).done()
}

/// Rescales parameters that share a draw; `most` is their maximum.
///
/// If all are tiny, their logarithms would be infinite. Only ratios matter then, so all are scaled by one factor.
fn usable(alpha: &Tensor, most: &Tensor) -> Result<Tensor> {
    let (tiny, by, least) = match alpha.dtype() {
        DType::F64 => (1e-280, 1e100, 1e-300),
        _ => (1e-30, 1e15, 1e-37),
    };
    let scale = ops::where_(ops::less(most, tiny), by, ops::full_like(most, 1.0));
    ops::maximum(alpha * scale, least).done()
}

/// Beta with the given parameters.
pub fn beta(
    key: &Key,
    shape: impl IntoShape,
    a: impl IntoExpr,
    b: impl IntoExpr,
    dtype: DType,
) -> Expr {
    let draw = || -> Result<Tensor> {
        float("beta", dtype)?;
        let wide = dtype.accumulator();
        let shape = shape_of(shape)?;
        let (ka, kb) = key.split();
        let (a, b) = (a.into_expr().done()?, b.into_expr().done()?);
        positive("beta", "a parameter of", &a)?;
        positive("beta", "a parameter of", &b)?;
        let a = ops::broadcast_to(a.cast(wide), &shape).done()?;
        let b = ops::broadcast_to(b.cast(wide), &shape).done()?;
        let most = ops::maximum(&a, &b).done()?;
        let x = log_gamma_draw(&ka, &shape, &usable(&a, &most)?, wide)?;
        let y = log_gamma_draw(&kb, &shape, &usable(&b, &most)?, wide)?;
        // x / (x + y) from logarithms, so that tiny parameters do not give 0 / 0.
        ops::sigmoid(x - y).cast(dtype).done()
    };
    draw().into()
}

/// Dirichlet: `shape` draws of a vector that sums to one, with the given parameters (last axis).
pub fn dirichlet(key: &Key, shape: impl IntoShape, alpha: impl IntoExpr, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        float("dirichlet", dtype)?;
        let wide = dtype.accumulator();
        let alpha = alpha.into_expr().done()?;
        ensure!(
            alpha.rank() > 0,
            Shape,
            "dirichlet: expected parameters with an axis"
        );
        positive("dirichlet", "a parameter of", &alpha)?;
        let whole = shape_of(shape)?.join(alpha.shape());
        let alpha = ops::broadcast_to(alpha.cast(wide), &whole).done()?;
        let alpha = match alpha.shape().dims().last() {
            Some(&n) if n != 0usize => {
                usable(&alpha, &ops::keepdims(&alpha, -1, ops::max).done()?)?
            }
            _ => alpha,
        };
        let log = log_gamma_draw(key, &whole, &alpha, wide)?;
        ops::softmax(log, -1).cast(dtype).done()
    };
    draw().into()
}

/// Poisson with the given rate: Knuth's multiplication for small rates, transformed rejection (Hörmann's PTRS) above
/// 10.
pub fn poisson(key: &Key, shape: impl IntoShape, rate: impl IntoExpr, dtype: DType) -> Expr {
    let draw = || -> Result<Tensor> {
        let shape = shape_of(shape)?;
        let rate = rate.into_expr().done()?;
        let (wide, most) = if rate.dtype() == DType::F64 && !rate.is_weak() {
            (DType::F64, f64::MAX)
        } else {
            (DType::F32, f64::from(f32::MAX))
        };
        let rule = Precondition::Within {
            op: "poisson",
            what: "a rate of",
            low: 0.0,
            high: most,
            above: false,
        };
        ops::require(&rate, rule)?;
        let rate = ops::broadcast_to(rate.cast(wide), &shape).done()?;
        let (small_key, large_key) = key.split();
        let large = ops::greater_equal(&rate, 10.0).done()?;
        let few = poisson_products(
            &small_key,
            &shape,
            &ops::where_(&large, 0.0, &rate).done()?,
            wide,
        )?;
        let many = poisson_rejection(
            &large_key,
            &shape,
            &ops::where_(&large, &rate, 100.0).done()?,
            wide,
        )?;
        ops::where_(&large, many, few).cast(dtype).done()
    };
    draw().into()
}

fn poisson_products(key: &Key, shape: &Shape, rate: &Tensor, dtype: DType) -> Result<Tensor> {
    let words = key.words().done()?;
    let start = vec![
        ops::full_like(rate, 0).done()?,
        ops::full_like(rate, 0).done()?,
        ops::full((), 0, DType::U64).done()?,
    ];
    let limit = (-rate).done()?;
    let out = control::while_loop(
        Carry(start),
        |x| ops::any(ops::greater(&x.0[1], &limit), ..).done(),
        |x| {
            let key = Key::from_tensor(ops::bits::fold_in(&words, &x.0[2]));
            let log = (&x.0[1] + ops::log(open_unit(&key, shape, dtype)?)).done()?;
            let more = ops::greater(&log, &limit).cast(dtype);
            Ok(Carry(vec![
                (&x.0[0] + more).done()?,
                log,
                (&x.0[2] + 1).done()?,
            ]))
        },
    )?;
    Ok(out.0[0].clone())
}

fn poisson_rejection(key: &Key, shape: &Shape, rate: &Tensor, dtype: DType) -> Result<Tensor> {
    let words = key.words().done()?;
    let log_rate = ops::log(rate).done()?;
    let b = (ops::sqrt(rate) * 2.53 + 0.931).done()?;
    let a = (&b * 0.024_83 - 0.059).done()?;
    let inverse_alpha = (1.1239 + 1.1328 / (&b - 3.4)).done()?;
    let v_r = (0.9277 - 3.6224 / (&b - 2.0)).done()?;
    let start = vec![
        ops::full_like(rate, -1).done()?,
        ops::full(shape, false, DType::Bool).done()?,
        ops::full((), 0, DType::U64).done()?,
    ];
    let out = control::while_loop(
        Carry(start),
        |x| ops::logical_not(ops::all(&x.0[1], ..)).done(),
        |x| {
            let key = Key::from_tensor(ops::bits::fold_in(&words, &x.0[2]));
            let (ku, kv) = key.split();
            let u = (open_unit(&ku, shape, dtype)? - 0.5).done()?;
            let v = open_unit(&kv, shape, dtype)?;
            let us = (0.5 - ops::abs(&u)).done()?;
            let k = ops::floor((&a * 2.0 / &us + &b) * &u + rate + 0.43).done()?;
            let quick = ops::logical_and(ops::greater_equal(&us, 0.07), ops::less_equal(&v, &v_r));
            let reject = ops::logical_or(
                ops::less(&k, 0.0),
                ops::logical_and(ops::less(&us, 0.013), ops::greater(&v, &us)),
            );
            let s = ops::log(&v * &inverse_alpha / (&a / us.square() + &b));
            let safe = ops::maximum(&k, 0.0).done()?;
            let t = &safe * &log_rate - rate - ops::lgamma(&safe + 1.0);
            let slow = ops::logical_and(ops::logical_not(reject), ops::less_equal(s, t));
            let good = ops::logical_or(quick, slow).done()?;
            let fresh = ops::logical_and(&good, ops::logical_not(&x.0[1]));
            let value = ops::where_(fresh, &k, &x.0[0]).done()?;
            let done = ops::logical_or(&x.0[1], &good).done()?;
            Ok(Carry(vec![value, done, (&x.0[2] + 1).done()?]))
        },
    )?;
    Ok(out.0[0].clone())
}

/// Dropout: zeroes a fraction `rate` of the elements and scales the rest by 1 / (1 - rate).
pub fn dropout(x: impl IntoExpr, key: &Key, rate: f64) -> Expr {
    ops::composites::float(x).then(|x| {
        ensure!(
            (0.0..=1.0).contains(&rate),
            Value,
            "dropout: rate {rate} is not between 0 and 1"
        );
        let key = key.words().done()?;
        apply_one(&Composite::Dropout { rate: Real(rate) }.into(), &[&x, &key])
    })
}
