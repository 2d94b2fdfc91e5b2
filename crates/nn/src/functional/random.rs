//! Random draws whose parameters may be arrays.
//!
//! Uniform and normal numbers are computed in two steps: a standard draw, then the transformation by the parameters.
//! Gradients reach the parameters, and the draw can come from elsewhere.

use super::common;
use clematis_core::expr::Expr;
use clematis_core::precondition::Precondition;
use clematis_core::random::{self, Key};
use clematis_core::{Category, DType, Result, Shape, Tensor, bail, ensure, ops};

/// The float dtype in which a draw of this dtype is computed: half precision is rounded once, integers are truncated.
pub fn draw_dtype(op: &str, dtype: DType) -> Result<DType> {
    match dtype {
        DType::F64 | DType::I64 | DType::U64 => Ok(DType::F64),
        d if d.is_complex() || d == DType::Bool => {
            bail!(DType, "{op}: expected a real dtype, got {d}")
        }
        _ => Ok(DType::F32),
    }
}

/// The first concrete value that is invalid.
fn offender(x: &Tensor, bad: impl Fn(f64) -> bool) -> Option<f64> {
    match x.as_number() {
        Some(v) => Some(v.as_f64()).filter(|&v| bad(v)),
        None => {
            let host = x.to_host().ok()?;
            host.to_f64().into_iter().find(|&v| bad(v))
        }
    }
}

/// The pairs of lower and upper bounds, if concrete.
fn bounds(low: &Tensor, high: &Tensor) -> Vec<(f64, f64)> {
    let values = |x: &Tensor| match x.as_number() {
        Some(v) => vec![v.as_f64()],
        None => x.to_host().map(|host| host.to_f64()).unwrap_or_default(),
    };
    let (a, b) = (values(low), values(high));
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let pair = |i: usize| (a[i % a.len()], b[i % b.len()]);
    (0..a.len().max(b.len())).map(pair).collect()
}

/// Checks that low <= high.
fn ordered(op: &str, low: &Tensor, high: &Tensor) -> Result<()> {
    for (a, b) in bounds(low, high) {
        ensure!(a <= b, Value, "{op}: expected low <= high, got {a} and {b}");
    }
    Ok(())
}

/// The range of a dtype.
fn range(dtype: DType) -> (f64, f64) {
    let bits = dtype.size() as i32 * 8;
    match dtype {
        DType::F16 => (-65504.0, 65504.0),
        DType::BF16 => (-BF16_MAX, BF16_MAX),
        DType::F64 => (f64::MIN, f64::MAX),
        d if d.is_signed_int() => (-(2f64.powi(bits - 1)), 2f64.powi(bits - 1)),
        d if d.is_int() => (0.0, 2f64.powi(bits)),
        _ => (f64::from(f32::MIN), f64::from(f32::MAX)),
    }
}

/// (2 - 2⁻⁷) 2¹²⁷.
const BF16_MAX: f64 = 3.389_531_389_251_535_5e38;

/// Returns an error if a parameter is complex.
pub fn real_parameters(op: &str, xs: &[&Tensor]) -> Result<()> {
    super::real(op, xs)
}

/// The shape of a draw: the given one if both parameters are numbers, else that of the arrays.
pub fn shape_of(
    op: &str,
    names: [&str; 2],
    x: &Tensor,
    y: &Tensor,
    shape: Option<Shape>,
) -> Result<Shape> {
    super::real(op, &[x, y])?;
    let is_array = |t: &Tensor| t.as_number().is_none();
    match (shape, is_array(x), is_array(y)) {
        (Some(shape), false, false) => Ok(shape),
        (Some(shape), _, _) => bail!(
            Value,
            "{op}: expected {} and {} to be numbers because a shape is given, got {} and {} with {shape:?}",
            names[0],
            names[1],
            x.spec(),
            y.spec()
        ),
        (None, true, true) => {
            ensure!(
                x.shape() == y.shape(),
                Shape,
                "{op}: {} {} and {} {} differ in shape",
                names[0],
                x.spec(),
                names[1],
                y.spec()
            );
            Ok(x.shape().clone())
        }
        (None, true, false) => Ok(x.shape().clone()),
        (None, false, _) => Ok(y.shape().clone()),
    }
}

/// The shape of a draw with broadcasting parameters: the given one, or their broadcast shape.
pub fn broadcast_shape(op: &str, xs: &[&Tensor], shape: Option<Shape>) -> Result<Shape> {
    super::real(op, xs)?;
    let mut met = Shape::scalar();
    for x in xs {
        met = met.broadcast_with(x.shape(), op)?;
    }
    let Some(shape) = shape else {
        return Ok(met);
    };
    let fits = met.broadcast(&shape).is_some_and(|s| s == shape);
    ensure!(
        fits,
        Shape,
        "{op}: parameters of shape {met:?} do not broadcast to {shape:?}"
    );
    Ok(shape)
}

/// The dtype of a draw: the requested one, else that of the first float array, else the default.
pub fn float_dtype(xs: &[&Tensor], asked: Option<DType>) -> DType {
    asked.unwrap_or_else(|| {
        let arrays = xs.iter().filter(|x| x.as_number().is_none());
        let mut floats = arrays.map(|x| x.dtype()).filter(|d| d.is_float());
        floats.next().unwrap_or(DType::FLOAT)
    })
}

/// Checks concrete bounds of uniform numbers of this dtype.
pub fn check_uniform(op: &str, low: &Tensor, high: &Tensor, dtype: DType) -> Result<()> {
    ordered(op, low, high)?;
    let (least, most) = range(dtype);
    for (a, b) in bounds(low, high) {
        ensure!(
            least <= a && b <= most,
            Value,
            "{op}: low {a} and high {b} exceed the range of {dtype}"
        );
    }
    Ok(())
}

/// Checks concrete parameters of normal numbers.
pub fn check_normal(op: &str, std: &Tensor) -> Result<()> {
    match offender(std, |v| !(v >= 0.0 && v.is_finite())) {
        Some(v) if v < 0.0 => bail!(Value, "{op}: expected a non-negative std, got {v}"),
        Some(v) => bail!(Value, "{op}: expected a finite std, got {v}"),
        None => Ok(()),
    }
}

/// Uniform numbers on [0, 1).
pub fn unit(key: &Key, shape: &Shape, dtype: DType) -> Expr {
    key.words()
        .then(|key| ops::bits::unit_uniform(&key, dtype, shape))
}

/// Standard normal numbers.
pub fn standard_normal(key: &Key, shape: &Shape, dtype: DType) -> Expr {
    random::normal(key, shape, 0.0, 1.0, dtype)
}

/// Maps numbers on [0, 1) to [low, high); equal bounds give the bound.
pub fn to_uniform(unit: &Tensor, low: &Tensor, high: &Tensor, dtype: DType) -> Expr {
    let build = || -> Result<Tensor> {
        let wide = unit.dtype();
        let at = |x: &Tensor, value: f64| x.as_number().is_some_and(|v| v.as_f64() == value);
        if dtype == wide && at(low, 0.0) && at(high, 1.0) {
            return Ok(unit.clone());
        }
        let (_, most) = range(wide);
        let is_far = bounds(low, high).iter().any(|(a, b)| b - a > most);
        let (a, b) = (ops::cast(low, wide).done()?, ops::cast(high, wide).done()?);
        // The width of the dtype's full range overflows the dtype.
        let moved = match is_far {
            true => unit * &b + (1.0 - unit) * &a,
            false => unit * (&b - &a) + &a,
        };
        let moved = ops::cast(moved, dtype).done()?;
        if !dtype.is_float() {
            return Ok(moved);
        }
        // Rounding may give `high` itself; it is replaced by the float below.
        let (low, high) = (ops::cast(&a, dtype).done()?, ops::cast(&b, dtype).done()?);
        let below = ops::maximum(ops::nextafter(&high, &low), &low);
        let over = ops::logical_and(ops::greater_equal(&moved, &high), ops::greater(&b, &a));
        ops::where_(over, ops::stop_gradient(below), &moved).done()
    };
    build().into()
}

/// Maps standard normal numbers to a mean and standard deviation.
pub fn to_normal(z: &Tensor, mean: &Tensor, std: &Tensor, dtype: DType) -> Expr {
    let wide = z.dtype();
    ops::cast(z * ops::cast(std, wide) + ops::cast(mean, wide), dtype)
}

/// Uniform integers in [low, high), of signed dtypes; equal bounds give the bound.
pub fn randint(key: &Key, shape: &Shape, low: &Tensor, high: &Tensor, dtype: DType) -> Expr {
    let build = || -> Result<Tensor> {
        for (what, d) in [
            ("low", low.dtype()),
            ("high", high.dtype()),
            ("dtype", dtype),
        ] {
            ensure!(
                d.is_signed_int(),
                DType,
                "randint: expected a signed integer dtype for {what}, got {d}"
            );
        }
        ordered("randint", low, high)?;
        let bits = dtype.size() as u32 * 8;
        let (least, most) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) as f64);
        for x in [low, high] {
            if let Some(v) = offender(x, |v| v < least as f64 || v > most) {
                bail!(Value, "randint: {v} is out of range for {dtype}");
            }
        }
        if let (Some(a), Some(b)) = (low.as_number(), high.as_number()) {
            let (a, b) = (a.as_i128() as i64, b.as_i128() as i64);
            return random::randint(key, shape, a, b, dtype).done();
        }
        let (a, b) = (
            ops::cast(low, DType::I64).done()?,
            ops::cast(high, DType::I64),
        );
        // 64 random bits modulo the span: the bias is span / 2⁶⁴.
        let span = ops::maximum(ops::cast(b - &a, DType::U64), Tensor::scalar(1, DType::U64));
        let drawn = key.bits(DType::U64, shape) % span;
        ops::cast(ops::cast(drawn, DType::I64) + &a, dtype).done()
    };
    build().into()
}

/// Bernoulli with a probability or a logit.
pub fn bernoulli(
    key: &Key,
    shape: &Shape,
    probs: Option<&Tensor>,
    logits: Option<&Tensor>,
    dtype: DType,
) -> Expr {
    let build = || -> Result<Tensor> {
        let p = match (probs, logits) {
            (Some(p), None) => {
                let rule = Precondition::Within {
                    op: "bernoulli",
                    what: "a probability of",
                    low: 0.0,
                    high: 1.0,
                    above: false,
                };
                ops::require(p, rule)?;
                p.clone()
            }
            (None, Some(logits)) => {
                if let Some(v) = offender(logits, f64::is_nan) {
                    bail!(Value, "bernoulli: expected a finite logit, got {v}");
                }
                ops::sigmoid(ops::cast(logits, compute(&[logits]))).done()?
            }
            _ => bail!(Value, "bernoulli: expected either probs or logits"),
        };
        let wide = compute(&[&p]);
        let p = ops::cast(&p, wide).done()?;
        ops::cast(random::bernoulli(key, shape, &p), dtype).done()
    };
    build().into()
}

/// f64 if any operand is, else f32.
fn compute(xs: &[&Tensor]) -> DType {
    let met = common(xs);
    let wide = met == DType::F64 && xs.iter().any(|x| !x.is_weak());
    if wide { DType::F64 } else { DType::F32 }
}

/// Gamma with the given shape and rate.
pub fn gamma(key: &Key, shape: &Shape, alpha: &Tensor, rate: &Tensor, dtype: DType) -> Expr {
    let build = || -> Result<Tensor> {
        let rule = Precondition::Within {
            op: "gamma",
            what: "a rate of",
            low: 0.0,
            high: f64::MAX,
            above: true,
        };
        ops::require(rate, rule)?;
        let wide = draw_dtype("gamma", dtype)?;
        let drawn = random::gamma(key, shape, alpha, wide);
        ops::cast(drawn / ops::cast(rate, wide), dtype).done()
    };
    build().into()
}

/// Draws category indices by weights (last axis), or uniformly `[batch, population]`.
pub fn multinomial(
    key: &Key,
    population: Option<usize>,
    batch: usize,
    weights: Option<&Tensor>,
    count: usize,
    replace: bool,
    dtype: DType,
) -> Expr {
    let build = || -> Result<Tensor> {
        ensure!(
            dtype.category() == Category::Int,
            DType,
            "multinomial: expected an integer dtype, got {dtype}"
        );
        let weights = match (weights, population) {
            (Some(w), _) => {
                super::real("multinomial", &[w])?;
                super::float(w)?
            }
            (None, Some(n)) => ops::full(Shape::from_sizes(&[batch, n]), 1.0, DType::F32).done()?,
            (None, None) => bail!(Value, "multinomial: expected a population_size or probs"),
        };
        ops::cast(random::multinomial(key, &weights, count, replace), dtype).done()
    };
    build().into()
}

/// Reorders slices along an axis by a permutation.
pub fn reordered(x: &Tensor, order: &Tensor, axis: i64) -> Expr {
    ops::take_known(x, order, axis)
}
