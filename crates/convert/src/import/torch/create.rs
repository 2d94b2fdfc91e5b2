//! Creation ops and random draws.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::random::{self};
use clematis_core::{DType, Result, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("full", |_, a| filled(a, Some(1))),
    ("full_like", |_, a| filled(a, Some(1))),
    ("scalar_tensor", |_, a| filled(a, Some(0))),
    ("zeros", |_, a| filled(a, None)),
    ("zeros_like", |_, a| filled(a, None)),
    ("new_zeros", |_, a| filled(a, None)),
    ("empty", |_, a| filled(a, None)),
    ("empty_like", |_, a| filled(a, None)),
    ("empty_permuted", |_, a| filled(a, None)),
    ("ones", |_, a| ones(a)),
    ("ones_like", |_, a| ones(a)),
    ("new_ones", |_, a| ones(a)),
    ("new_full", |_, a| filled(a, Some(2))),
    ("arange", arange),
    ("eye", |_, a| {
        let recorded = a.recorded_spec(0)?;
        let row = ops::iota(recorded.shape.clone(), 0, DType::I64);
        let column = ops::iota(recorded.shape, 1, DType::I64);
        Ok(ops::cast(ops::equal(row, column), recorded.dtype)
            .done()?
            .into())
    }),
    ("new_empty", |_, a| filled(a, None)),
    ("empty_strided", |_, a| filled(a, None)),
    ("new_empty_strided", |_, a| filled(a, None)),
    ("fill", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(ops::broadcast_to(
            ops::cast(a.expr(1, "value"), recorded.dtype),
            recorded.shape,
        )
        .done()?
        .into())
    }),
    ("linspace", linspace),
    ("logspace", |w, a| {
        let base = a.float(3, "base", 10.0)?;
        let power = linspace(w, a)?.as_number().ok_or_else(|| a.bad("a row"))?;
        Ok(ops::exp(power * base.ln()).done()?.into())
    }),
    ("randint", |w, a| integers(w, a, 0)),
    ("randint_like", |w, a| integers(w, a, 1)),
    ("randperm", |w, a| {
        let recorded = a.recorded_spec(0)?;
        // The sort order of random draws is a uniformly random permutation.
        let draws = random::uniform(&w.key(), recorded.shape.clone(), 0.0, 1.0, DType::F32);
        Ok(ops::cast(ops::argsort(draws, 0, false), recorded.dtype)
            .done()?
            .into())
    }),
    ("multinomial", |w, a| {
        let (x, count) = (a.tensor(0, "self")?, a.int(1, "num_samples", 1)?);
        let replace = a.flag(2, "replacement", false)?;
        let drawn = random::multinomial(&w.key(), x, count as usize, replace);
        Ok(ops::cast(drawn, DType::I64).done()?.into())
    }),
    ("normal", normal),
    ("normal_functional", |w, a| {
        let recorded = a.recorded_spec(0)?;
        let (mean, std) = (a.float(1, "mean", 0.0)?, a.float(2, "std", 1.0)?);
        Ok(
            random::normal(&w.key(), recorded.shape, mean, std, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("uniform", |w, a| {
        let recorded = a.recorded_spec(0)?;
        let (low, high) = (a.float(1, "from", 0.0)?, a.float(2, "to", 1.0)?);
        Ok(
            random::uniform(&w.key(), recorded.shape, low, high, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("exponential", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(random::exponential(
            &w.key(),
            recorded.shape,
            a.float(1, "lambd", 1.0)?,
            recorded.dtype,
        )
        .done()?
        .into())
    }),
    ("poisson", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(random::poisson(
            &w.key(),
            recorded.shape,
            a.tensor(0, "self")?,
            recorded.dtype,
        )
        .done()?
        .into())
    }),
    ("_standard_gamma", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(random::gamma(
            &w.key(),
            recorded.shape,
            a.tensor(0, "self")?,
            recorded.dtype,
        )
        .done()?
        .into())
    }),
    ("rand", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            random::uniform(&w.key(), recorded.shape, 0.0, 1.0, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("rand_like", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            random::uniform(&w.key(), recorded.shape, 0.0, 1.0, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("randn", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            random::normal(&w.key(), recorded.shape, 0.0, 1.0, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("randn_like", |w, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(
            random::normal(&w.key(), recorded.shape, 0.0, 1.0, recorded.dtype)
                .done()?
                .into(),
        )
    }),
    ("bernoulli", |w, a| {
        let x = a.tensor(0, "self")?;
        let p = if a.has(1, "p") {
            a.tensor(1, "p")?
        } else {
            x.clone()
        };
        Ok(
            ops::cast(random::bernoulli(&w.key(), x.shape().clone(), p), x.dtype())
                .done()?
                .into(),
        )
    }),
];

/// A constant tensor; `value_at` is the position of its value.
fn filled(a: &Args<'_>, value_at: Option<usize>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let Some(at) = value_at else {
        return Ok(ops::zeros(recorded.shape, recorded.dtype).done()?.into());
    };
    let value = a.tensor(at, "fill_value")?;
    match value.as_number() {
        Some(x) => Ok(ops::full(recorded.shape, x, recorded.dtype).done()?.into()),
        None => Ok(
            ops::broadcast_to(ops::cast(value, recorded.dtype), recorded.shape)
                .done()?
                .into(),
        ),
    }
}

fn ones(a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    Ok(ops::ones(recorded.shape, recorded.dtype).done()?.into())
}

fn arange(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let (start_at, step_at) = match a.node.variant.as_str() {
        "start" => (Some(0), None),
        "start_step" => (Some(0), Some(2)),
        _ => (None, None),
    };
    let mut x = ops::iota(recorded.shape, 0, recorded.dtype);
    if let Some(at) = step_at.filter(|&at| a.has(at, "step")) {
        x = ops::cast(x * a.expr(at, "step"), recorded.dtype);
    }
    if let Some(at) = start_at {
        x = ops::cast(x + a.expr(at, "start"), recorded.dtype);
    }
    Ok(x.done()?.into())
}

/// Evenly spaced numbers, computed from the nearer end as in torch.
fn linspace(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let wide = if recorded.dtype == DType::F64 {
        DType::F64
    } else {
        DType::F32
    };
    let wide = if recorded.dtype.is_inexact() {
        wide
    } else {
        DType::F64
    };
    let (start, end) = (
        ops::cast(a.expr(0, "start"), wide).done()?,
        ops::cast(a.expr(1, "end"), wide).done()?,
    );
    let steps = a.int(2, "steps", 100)?;
    let gap = ((&end - &start) / ((steps - 1).max(1) as f64)).done()?;
    let i = ops::iota(recorded.shape, 0, wide).done()?;
    let low = &start + &gap * &i;
    let high = &end - &gap * ((steps - 1) as f64 - &i);
    let row = ops::where_(ops::less(&i, (steps / 2) as f64), low, high);
    let row = if steps == 1 {
        ops::where_(ops::less(&i, 1.0), &start, row)
    } else {
        row
    };
    Ok(ops::cast(row, recorded.dtype).done()?.into())
}

fn integers(w: &mut Importer<'_>, a: &Args<'_>, at: usize) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let ranged = a.node.variant.contains("low");
    let (low, high) = if ranged {
        (a.int(at, "low", 0)?, a.int(at + 1, "high", 1)?)
    } else {
        (0, a.int(at, "high", 1)?)
    };
    let drawn = random::randint(&w.key(), recorded.shape, low, high, DType::I64);
    Ok(ops::cast(drawn, recorded.dtype).done()?.into())
}

fn normal(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let recorded = a.recorded_spec(0)?;
    let z = random::normal(&w.key(), recorded.shape, 0.0, 1.0, recorded.dtype);
    let std = if a.has(1, "std") {
        a.expr(1, "std")
    } else {
        1.0.into_expr()
    };
    Ok((a.expr(0, "mean") + z * std).done()?.into())
}

use clematis_core::expr::IntoExpr;
