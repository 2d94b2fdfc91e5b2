//! Normalization, softmax, dropout.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::{Result, Tensor, ops, random};

pub const RULES: &[(&str, Rule)] = &[
    ("_softmax", |_, a| {
        Ok(ops::softmax(a.expr(0, "self"), a.int(1, "dim", -1)?)
            .done()?
            .into())
    }),
    ("softmax", |_, a| {
        Ok(ops::softmax(typed(a)?, a.int(1, "dim", -1)?).done()?.into())
    }),
    ("_log_softmax", |_, a| {
        Ok(ops::log_softmax(a.expr(0, "self"), a.int(1, "dim", -1)?)
            .done()?
            .into())
    }),
    ("log_softmax", |_, a| {
        Ok(ops::log_softmax(typed(a)?, a.int(1, "dim", -1)?)
            .done()?
            .into())
    }),
    ("layer_norm", layer_norm),
    ("rms_norm", rms_norm),
    ("group_norm", group_norm),
    ("_native_batch_norm_legit_no_training", batch_norm_eval),
    ("_native_batch_norm_legit_functional", batch_norm_train),
    ("batch_norm", batch_norm),
    ("_native_batch_norm_legit", batch_norm_of_itself),
    ("native_batch_norm", batch_norm_of_itself),
    ("_batch_norm_with_update_functional", |w, a| {
        with_reserve(batch_norm_train_at(w, a, 5)?)
    }),
    ("_batch_norm_no_update", |w, a| {
        with_reserve(batch_norm_eval_at(w, a, 6)?)
    }),
    ("native_layer_norm", |w, a| {
        Ok(Slot::List(vec![
            layer_norm(w, a)?,
            Slot::Nothing,
            Slot::Nothing,
        ]))
    }),
    ("native_group_norm", native_group_norm),
    ("_fused_rms_norm", |w, a| {
        Ok(Slot::List(vec![rms_norm(w, a)?, Slot::Nothing]))
    }),
    ("native_dropout", dropout),
    ("dropout", |w, a| match dropout(w, a)? {
        Slot::List(mut xs) => Ok(xs.swap_remove(0)),
        other => Ok(other),
    }),
];

/// The operand in the dtype of the result.
fn typed(a: &Args<'_>) -> Result<Tensor> {
    ops::cast(a.expr(0, "self"), a.recorded_spec(0)?.dtype).done()
}

fn layer_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let axes = a.dims(1, "normalized_shape")?.len() as i64;
    let (scale, bias) = (a.maybe_tensor(2, "weight")?, a.maybe_tensor(3, "bias")?);
    let epsilon = a.float(4, "eps", 1e-5)?;
    Ok(
        ops::layer_norm(&x, scale.as_ref(), bias.as_ref(), -axes, epsilon)
            .done()?
            .into(),
    )
}

fn rms_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let axes = a.dims(1, "normalized_shape")?.len() as i64;
    let scale = a.maybe_tensor(2, "weight")?;
    let epsilon = a.float(3, "eps", f64::from(f32::EPSILON))?;
    Ok(ops::rms_norm(&x, scale.as_ref(), -axes, epsilon)
        .done()?
        .into())
}

fn group_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let groups = a.int(1, "num_groups", 1)? as usize;
    let (scale, bias) = (a.maybe_tensor(2, "weight")?, a.maybe_tensor(3, "bias")?);
    let epsilon = a.float(4, "eps", 1e-5)?;
    Ok(
        ops::group_norm(&x, scale.as_ref(), bias.as_ref(), 1, groups, epsilon)
            .done()?
            .into(),
    )
}

/// Group norm; the number of elements and channels are parameters.
fn native_group_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let (scale, bias) = (a.maybe_tensor(1, "weight")?, a.maybe_tensor(2, "bias")?);
    let (groups, epsilon) = (a.int(6, "group", 1)? as usize, a.float(7, "eps", 1e-5)?);
    let y = ops::group_norm(&x, scale.as_ref(), bias.as_ref(), 1, groups, epsilon).done()?;
    Ok(Slot::List(vec![y.into(), Slot::Nothing, Slot::Nothing]))
}

/// Batch norm before decomposition, with its training flag.
fn batch_norm(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let first = |slot| match slot {
        Slot::List(mut xs) => Ok(xs.swap_remove(0)),
        other => Ok(other),
    };
    if a.flag(5, "training", false)? || !a.has(3, "running_mean") {
        return first(batch_norm_of_itself(w, a)?);
    }
    first(batch_norm_eval_at(w, a, 7)?)
}

/// Batch norm without running statistics in training, with the given statistics otherwise.
fn batch_norm_of_itself(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let bare = a.node.variant == "no_stats";
    let at = if bare { 3 } else { 5 };
    if !bare && !a.flag(at, "training", true)? {
        return batch_norm_eval_at(w, a, 7);
    }
    let (scale, bias) = (a.maybe_tensor(1, "weight")?, a.maybe_tensor(2, "bias")?);
    let epsilon = a.float(at + 2, "eps", 1e-5)?;
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&i| i != 1).collect();
    let (mean, var) = (
        ops::mean(&x, axes.clone()).done()?,
        ops::var(&x, axes, 0.0).done()?,
    );
    let y = ops::batch_norm(&x, &mean, &var, scale.as_ref(), bias.as_ref(), 1, epsilon).done()?;
    Ok(Slot::List(vec![y.into(), Slot::Nothing, Slot::Nothing]))
}

/// Inserts an empty reserve tensor, which only torch's own backward reads.
fn with_reserve(out: Slot) -> Result<Slot> {
    let Slot::List(mut xs) = out else {
        return Ok(out);
    };
    xs.insert(3.min(xs.len()), Slot::Nothing);
    Ok(Slot::List(xs))
}

fn batch_norm_eval(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    batch_norm_eval_at(w, a, 6)
}

fn batch_norm_eval_at(_: &mut Importer<'_>, a: &Args<'_>, epsilon_at: usize) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let (scale, bias) = (a.maybe_tensor(1, "weight")?, a.maybe_tensor(2, "bias")?);
    let (mean, var) = (a.tensor(3, "running_mean")?, a.tensor(4, "running_var")?);
    let epsilon = a.float(epsilon_at, "eps", 1e-5)?;
    let y = ops::batch_norm(&x, &mean, &var, scale.as_ref(), bias.as_ref(), 1, epsilon).done()?;
    // The saved statistics are for torch's own backward.
    Ok(Slot::List(vec![y.into(), Slot::Nothing, Slot::Nothing]))
}

fn batch_norm_train(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    batch_norm_train_at(w, a, 6)
}

fn batch_norm_train_at(_: &mut Importer<'_>, a: &Args<'_>, momentum_at: usize) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    let (scale, bias) = (a.maybe_tensor(1, "weight")?, a.maybe_tensor(2, "bias")?);
    let (momentum, epsilon) = (
        a.float(momentum_at, "momentum", 0.1)?,
        a.float(momentum_at + 1, "eps", 1e-5)?,
    );
    let axes: Vec<i64> = (0..x.rank() as i64).filter(|&i| i != 1).collect();
    let mean = ops::mean(&x, axes.clone()).done()?;
    let var = ops::var(&x, axes.clone(), 0.0).done()?;
    let y = ops::batch_norm(&x, &mean, &var, scale.as_ref(), bias.as_ref(), 1, epsilon).done()?;
    // The running variance is the unbiased one.
    let unbiased = ops::var(&x, axes, 1.0);
    let moved = |old: Tensor, new: clematis_core::expr::Expr| {
        ops::cast(
            &old * (1.0 - momentum) + ops::stop_gradient(new) * momentum,
            old.dtype(),
        )
        .done()
    };
    let new_mean = moved(a.tensor(3, "running_mean")?, (&mean).into_expr())?;
    let new_var = moved(a.tensor(4, "running_var")?, unbiased)?;
    Ok(Slot::List(vec![
        y.into(),
        Slot::Nothing,
        Slot::Nothing,
        new_mean.into(),
        new_var.into(),
    ]))
}

fn dropout(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "input")?;
    if !a.flag(2, "train", true)? {
        return Ok(Slot::List(vec![x.into(), Slot::Nothing]));
    }
    let y = random::dropout(&x, &w.key(), a.float(1, "p", 0.5)?).done()?;
    Ok(Slot::List(vec![y.into(), Slot::Nothing]))
}

use clematis_core::expr::IntoExpr;
