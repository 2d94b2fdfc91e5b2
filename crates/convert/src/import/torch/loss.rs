//! CTC loss.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, control, ops};

pub const RULES: &[(&str, Rule)] = &[("ctc_loss", ctc_loss), ("_ctc_loss", ctc_forward)];

/// Log probability zero, with a finite derivative.
const NEVER: f64 = -1e30;

/// Lengths as a vector, given as numbers or as a tensor.
fn lengths(a: &Args<'_>, i: usize, name: &str) -> Result<Tensor> {
    let row = match a.slot(i, name) {
        Slot::List(_) => {
            let known = a.ints(i, name)?;
            ops::from_slice(&known, [known.len()])?
        }
        _ => a.tensor(i, name)?,
    };
    ops::cast(ops::reshape(row, [-1i64]), DType::I64).done()
}

/// Targets as padded rows.
fn rows(targets: &Tensor, a: &Args<'_>, batch: Dim) -> Result<Tensor> {
    if targets.rank() == 2 {
        return Ok(targets.clone());
    }
    if batch == 1usize {
        return ops::expand_dims(targets, 0).done();
    }
    // Concatenated targets, split at the known lengths.
    let Slot::List(_) = a.slot(3, "target_lengths") else {
        bail!(
            Unsupported,
            "convert: concatenated targets of ctc_loss with lengths that are values; give them as padded rows"
        );
    };
    let known = a.ints(3, "target_lengths")?;
    let longest = known.iter().copied().max().unwrap_or(0);
    let mut start = 0;
    let mut out = Vec::new();
    for n in known {
        let row = ops::slice_axis(targets, 0, start, start + n);
        let zero = Tensor::scalar(0i64, targets.dtype());
        let padded = ops::pad(row, zero, &[0.into()], &[(longest - n).into()], &[0]);
        out.push(padded.done()?);
        start += n;
    }
    ops::stack(&out, 0).done()
}

/// The negative log likelihood of the targets, one number per batch element.
fn unlikely(a: &Args<'_>) -> Result<(Tensor, Tensor)> {
    let given = a.tensor(0, "log_probs")?;
    let probs = if given.rank() == 2 {
        ops::expand_dims(&given, 1).done()?
    } else {
        given
    };
    let dims = probs.shape().dims();
    let (time, batch) = (dims[0], dims[1]);
    let targets = ops::cast(rows(&a.tensor(1, "targets")?, a, batch)?, DType::I64).done()?;
    let (times, counts) = (
        lengths(a, 2, "input_lengths")?,
        lengths(a, 3, "target_lengths")?,
    );
    let blank = a.int(4, "blank", 0)?;
    // A blank before, between and after the labels.
    let count = targets.shape().dims()[1];
    let length = count * Dim::from(2) + Dim::from(1);
    let wide = |k: usize| ops::full(Shape::from_dims([batch, Dim::from(k)]), blank, DType::I64);
    let blanks = ops::full(Shape::from_dims([batch, count]), blank, DType::I64).done()?;
    let pairs = ops::stack(&[blanks, targets], -1);
    let pairs = ops::reshape(pairs, Shape::from_dims([batch, count * Dim::from(2)])).done()?;
    let labels = ops::concat(&[pairs, wide(1).done()?], 1).done()?;
    let before = ops::slice_axis(&labels, 1, 0, length - Dim::from(2));
    let two_before = ops::concat(&[wide(2).done()?, before.done()?], 1).done()?;
    let place = ops::iota(labels.shape().clone(), 1, DType::I64).done()?;
    let skips = ops::logical_and(
        ops::not_equal(&labels, blank),
        ops::not_equal(&labels, &two_before),
    );
    let skips = ops::logical_and(skips, ops::greater_equal(&place, 2)).done()?;
    let spread = ops::broadcast_to(
        ops::expand_dims(&labels, 0),
        Shape::from_dims([time, batch, length]),
    );
    let steps = ops::take_along_axis(&probs, spread, 2).done()?;
    let first = ops::squeeze(ops::slice_axis(&steps, 0, 0, 1), 0i64);
    let start = ops::where_(ops::less(&place, 2), first, NEVER).done()?;
    let rest = ops::slice_axis(&steps, 0, 1, time).done()?;
    let moments = (ops::iota([time - Dim::from(1)], 0, DType::I64) + 1).done()?;
    let never = |k: usize| {
        ops::full(
            Shape::from_dims([batch, Dim::from(k)]),
            NEVER,
            start.dtype(),
        )
        .done()
    };
    let xs = control::Carry(vec![rest, moments]);
    let (last, ()) = control::scan(&start, &xs, None, false, |alpha, x| {
        let later = |k: usize| -> Result<Tensor> {
            let kept = ops::slice_axis(alpha, 1, 0, length - Dim::from(k)).done()?;
            ops::concat(&[never(k)?, kept], 1).done()
        };
        let two = ops::where_(&skips, later(2)?, NEVER);
        let sum = ops::logaddexp(ops::logaddexp(alpha, later(1)?), two) + &x.0[0];
        let held = ops::maximum(sum, NEVER);
        let runs = ops::expand_dims(ops::less(&x.0[1], &times), -1);
        Ok((ops::where_(runs, held, alpha).done()?, ()))
    })?;
    let end = ops::expand_dims(&counts * 2, -1).done()?;
    let at_blank = ops::take_along_axis(&last, &end, 1);
    let at_label = ops::take_along_axis(&last, ops::maximum(&end - 1, 0), 1);
    let at_label = ops::where_(ops::greater(&end, 0), at_label, NEVER);
    let total = ops::squeeze(ops::logaddexp(at_blank, at_label), -1i64).done()?;
    let lost = ops::less(&total, NEVER / 2.0);
    let loss = ops::where_(lost, f64::INFINITY, -&total).done()?;
    Ok((loss, counts))
}

fn finite(x: &Tensor, wanted: bool) -> Result<Tensor> {
    if wanted {
        ops::where_(ops::isinf(x), 0.0, x).done()
    } else {
        Ok(x.clone())
    }
}

fn ctc_loss(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (loss, counts) = unlikely(a)?;
    let loss = finite(&loss, a.flag(6, "zero_infinity", false)?)?;
    let out = match a.int(5, "reduction", 1)? {
        0 => ops::reshape(loss, a.recorded_spec(0)?.shape),
        1 => ops::mean(&loss / ops::cast(ops::maximum(counts, 1), loss.dtype()), ..),
        _ => ops::sum(loss, ..),
    };
    Ok(out.done()?.into())
}

/// The op that torch decomposes `ctc_loss` to.
fn ctc_forward(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (loss, _) = unlikely(a)?;
    let loss = finite(&loss, a.flag(5, "zero_infinity", false)?)?;
    let recorded = a.recorded_spec(0)?;
    Ok(Slot::List(vec![
        ops::reshape(loss, recorded.shape).done()?.into(),
        Slot::Nothing,
    ]))
}
