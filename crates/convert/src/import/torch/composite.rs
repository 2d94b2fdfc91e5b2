//! Composite ops that are imported without torch's decomposition, which would have to trace the program again.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{axis, rule};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Error, Kind, Result, Shape, Tensor, bail, ops, random};

/// The rule of another op.
macro_rules! same_as {
    ($name:literal) => {
        |w, a| match rule($name) {
            Some(rule) => rule(w, a),
            None => Err(Error::new(
                Kind::Internal,
                "convert: expected a rule for the aliased op",
            )),
        }
    };
}

pub const RULES: &[(&str, Rule)] = &[
    ("absolute", same_as!("abs")),
    ("negative", same_as!("neg")),
    ("multiply", same_as!("mul")),
    ("divide", same_as!("div")),
    ("true_divide", same_as!("div")),
    ("subtract", same_as!("sub")),
    ("clip", same_as!("clamp")),
    ("concat", same_as!("cat")),
    ("concatenate", same_as!("cat")),
    ("swapaxes", same_as!("transpose")),
    ("swapdims", same_as!("transpose")),
    ("greater", same_as!("gt")),
    ("greater_equal", same_as!("ge")),
    ("less", same_as!("lt")),
    ("less_equal", same_as!("le")),
    ("not_equal", same_as!("ne")),
    ("fix", same_as!("trunc")),
    ("special_expit", same_as!("sigmoid")),
    ("special_softmax", same_as!("softmax")),
    ("linalg_matmul", same_as!("matmul")),
    ("_is_all_true", same_as!("all")),
    ("_is_any_true", same_as!("any")),
    ("unsafe_chunk", same_as!("chunk")),
    ("grid_sampler", |w, a| {
        let name = match a.tensor(0, "input")?.rank() {
            4 => "grid_sampler_2d",
            _ => "grid_sampler_3d",
        };
        match rule(name) {
            Some(rule) => rule(w, a),
            None => Err(a.bad("a rule")),
        }
    }),
    ("pad", |w, a| {
        let mode = a.text(2, "mode", "constant")?;
        match (mode, rule("constant_pad_nd")) {
            ("constant", Some(rule)) => rule(w, &without(a, 2)),
            _ => padded_by_itself(a, mode),
        }
    }),
    ("broadcast_tensors", |_, a| {
        let xs = a.tensors(0, "tensors")?;
        let wide =
            |(i, x): (usize, &Tensor)| ops::broadcast_to(x, a.recorded_spec(i)?.shape).done();
        let all = xs
            .iter()
            .enumerate()
            .map(wide)
            .collect::<Result<Vec<_>>>()?;
        Ok(all.into())
    }),
    ("zero", |_, a| {
        let recorded = a.recorded_spec(0)?;
        Ok(ops::zeros(recorded.shape, recorded.dtype).done()?.into())
    }),
    ("lerp", |_, a| {
        let (x, y, w) = (
            a.tensor(0, "self")?,
            a.tensor(1, "end")?,
            a.tensor(2, "weight")?,
        );
        Ok((&x + w * (y - &x)).done()?.into())
    }),
    ("take_along_dim", |_, a| {
        let (x, at) = (a.tensor(0, "self")?, a.tensor(1, "indices")?);
        if !a.has(2, "dim") {
            let flat = ops::reshape(x, [-1i64]);
            return Ok(ops::take(flat, ops::reshape(at, [-1i64]), 0).done()?.into());
        }
        let along = axis(&x, a.int(2, "dim", 0)?);
        let recorded = a.recorded_spec(0)?.shape;
        let wide = |t: &Tensor, own: bool| {
            let dims = recorded.dims().iter().enumerate().map(|(i, &n)| {
                let keeps = own && i as i64 == along;
                if keeps { t.shape().dims()[i] } else { n }
            });
            ops::broadcast_to(t, Shape::from_dims(dims)).done()
        };
        Ok(
            ops::take_along_axis(wide(&x, true)?, wide(&at, true)?, along)
                .done()?
                .into(),
        )
    }),
    ("tile", tile),
    ("mT", |_, a| {
        Ok(ops::matrix_transpose(a.expr(0, "self")).done()?.into())
    }),
    ("numpy_T", |_, a| {
        let x = a.tensor(0, "self")?;
        let axes: Vec<i64> = (0..x.rank() as i64).rev().collect();
        Ok(ops::permute(x, axes).done()?.into())
    }),
    ("movedim", moved),
    ("moveaxis", moved),
    ("outer", |_, a| {
        let (x, y) = (a.tensor(0, "self")?, a.tensor(1, "vec2")?);
        Ok((ops::expand_dims(x, 1) * ops::expand_dims(y, 0))
            .done()?
            .into())
    }),
    ("meshgrid", meshgrid),
    ("glu", |_, a| {
        let x = a.tensor(0, "self")?;
        let along = axis(&x, a.int(1, "dim", -1)?);
        let half = a.recorded_spec(0)?.shape.dims()[along as usize];
        let own = ops::slice_axis(&x, along, 0, half);
        let gate = ops::slice_axis(&x, along, half, half + half);
        Ok((own * ops::sigmoid(gate)).done()?.into())
    }),
    ("addcmul", |_, a| {
        Ok(
            (a.expr(0, "self") + valued(a, a.expr(1, "tensor1") * a.expr(2, "tensor2"))?)
                .done()?
                .into(),
        )
    }),
    ("addcdiv", |_, a| {
        Ok(
            (a.expr(0, "self") + valued(a, a.expr(1, "tensor1") / a.expr(2, "tensor2"))?)
                .done()?
                .into(),
        )
    }),
    ("diff", diff),
    ("lcm", |w, a| {
        let divisor = match rule("gcd") {
            Some(gcd) => gcd(w, a)?,
            None => return Err(a.bad("a rule")),
        };
        let Slot::Tensor(divisor) = divisor else {
            return Err(a.bad("a divisor"));
        };
        let some = ops::maximum(&divisor, 1);
        let product =
            ops::floor_divide(ops::abs(a.expr(0, "self")), some) * ops::abs(a.expr(1, "other"));
        Ok(product.done()?.into())
    }),
    ("rrelu", |w, a| {
        let x = a.tensor(0, "self")?;
        let (low, high) = (
            a.float(1, "lower", 1.0 / 8.0)?,
            a.float(2, "upper", 1.0 / 3.0)?,
        );
        if !a.flag(3, "training", false)? {
            return Ok(ops::leaky_relu(&x, (low + high) / 2.0).done()?.into());
        }
        let negative_slope = random::uniform(&w.key(), x.shape().clone(), low, high, x.dtype());
        Ok(ops::where_(ops::greater(&x, 0.0), &x, &x * negative_slope)
            .done()?
            .into())
    }),
    ("repeat_interleave", repeat_interleave),
    ("_weight_norm", |_, a| {
        let (v, g) = (a.tensor(0, "v")?, a.tensor(1, "g")?);
        let kept = a.int(2, "dim", 0)?;
        let axes: Vec<i64> = (0..v.rank() as i64).filter(|&i| i != kept).collect();
        let length = ops::sqrt(ops::keepdims(ops::square(&v), axes, ops::sum));
        Ok((&v * (g / length)).done()?.into())
    }),
    ("instance_norm", |w, a| {
        let x = a.tensor(0, "input")?;
        if !a.flag(5, "use_input_stats", true)? {
            return match rule("batch_norm") {
                Some(rule) => rule(w, a),
                None => Err(a.bad("a rule")),
            };
        }
        let (scale, bias) = (a.maybe_tensor(1, "weight")?, a.maybe_tensor(2, "bias")?);
        let (groups, epsilon) = (
            x.shape().known_size(1, "instance_norm")?,
            a.float(7, "eps", 1e-5)?,
        );
        Ok(
            ops::group_norm(&x, scale.as_ref(), bias.as_ref(), 1, groups, epsilon)
                .done()?
                .into(),
        )
    }),
    ("pixel_shuffle", |_, a| {
        let (x, r) = (a.tensor(0, "self")?, a.int(1, "upscale_factor", 1)?);
        let (lead, c, h, w) = image(&x);
        let r = Dim::number(r);
        let channels = c.floor_div(r * r)?;
        let parts = [&lead[..], &[channels, r, r, h, w]].concat();
        let x = ops::reshape(&x, Shape::from_dims(parts));
        let x = ops::permute(x, places(lead.len(), &[0, 3, 1, 4, 2]));
        Ok(ops::reshape(x, a.recorded_spec(0)?.shape).done()?.into())
    }),
    ("pixel_unshuffle", |_, a| {
        let (x, r) = (a.tensor(0, "self")?, a.int(1, "downscale_factor", 1)?);
        let (lead, c, h, w) = image(&x);
        let r = Dim::number(r);
        let parts = [&lead[..], &[c, h.floor_div(r)?, r, w.floor_div(r)?, r]].concat();
        let x = ops::reshape(&x, Shape::from_dims(parts));
        let x = ops::permute(x, places(lead.len(), &[0, 2, 4, 1, 3]));
        Ok(ops::reshape(x, a.recorded_spec(0)?.shape).done()?.into())
    }),
];

/// n-th order differences.
fn diff(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let along = axis(&x, a.int(2, "dim", -1)?);
    let ends = [
        a.maybe_tensor(3, "prepend")?,
        Some(x),
        a.maybe_tensor(4, "append")?,
    ];
    let parts: Vec<Tensor> = ends.into_iter().flatten().collect();
    let mut x = ops::concat(&parts, along).done()?;
    for _ in 0..a.int(1, "n", 1)?.max(0) {
        let size = x.shape().dims()[along as usize];
        let count = (size - Dim::from(1)).max(Dim::from(0));
        let (left, right) = (
            ops::slice_axis(&x, along, 0, count),
            ops::slice_axis(&x, along, size - count, size),
        );
        x = if x.dtype() == DType::Bool {
            ops::not_equal(right, left).done()?
        } else {
            (right - left).done()?
        };
    }
    Ok(x.into())
}

/// Each element repeated, one after the other.
fn repeat_interleave(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if a.node.variant != "self_int" {
        bail!(
            Unsupported,
            "convert: the output shape of `repeat_interleave` depends on values; repeat each element the same number of times"
        );
    }
    let (mut x, times) = (a.tensor(0, "self")?, a.dim(1, "repeats")?);
    let along = if a.has(2, "dim") {
        axis(&x, a.int(2, "dim", 0)?) as usize
    } else {
        x = ops::reshape(&x, [-1i64]).done()?;
        0
    };
    let mut dims = x.shape().dims().to_vec();
    dims.insert(along + 1, times);
    let wide = ops::broadcast_to(
        ops::expand_dims(&x, along as i64 + 1),
        Shape::from_dims(dims),
    );
    Ok(ops::reshape(wide, a.recorded_spec(0)?.shape).done()?.into())
}

/// Batch axes, then channels, height and width.
fn image(x: &Tensor) -> (Vec<Dim>, Dim, Dim, Dim) {
    let dims = x.shape().dims();
    let first = dims.len() - 3;
    (
        dims[..first].to_vec(),
        dims[first],
        dims[first + 1],
        dims[first + 2],
    )
}

/// The first axes unchanged, then others in this order.
fn places(first: usize, order: &[i64]) -> Vec<i64> {
    let behind = order.iter().map(|&i| i + first as i64);
    (0..first as i64).chain(behind).collect()
}

/// Padding with elements of the operand: each padded index is mapped to the index that it repeats.
fn padded_by_itself(a: &Args<'_>, mode: &str) -> Result<Slot> {
    let mut x = a.tensor(0, "self")?;
    let pads = a.ints(1, "pad")?;
    // Pairs are in order from the last axis to the first.
    for (i, pair) in pads.chunks_exact(2).enumerate() {
        let along = x.rank() - 1 - i;
        if pair == [0, 0] {
            continue;
        }
        let size = x.shape().known_size(along, "pad")? as i64;
        let place = |at: i64| match mode {
            "reflect" if at < 0 => -at,
            "reflect" if at >= size => 2 * (size - 1) - at,
            "circular" => at.rem_euclid(size.max(1)),
            _ => at.clamp(0, size - 1),
        };
        let places: Vec<i64> = (-pair[0]..size + pair[1]).map(place).collect();
        let at = ops::from_slice(&places, [places.len()])?;
        x = ops::take(&x, at, along as i64).done()?;
    }
    Ok(x.into())
}

/// The arguments without one, so that those after it move up.
fn without<'a>(a: &Args<'a>, at: usize) -> Args<'a> {
    let mut args = a.args.clone();
    if at < args.len() {
        args.remove(at);
    }
    let kwargs = a.kwargs.iter().map(|(&k, v)| (k, v.clone())).collect();
    Args {
        node: a.node,
        args,
        kwargs,
    }
}

fn valued(a: &Args<'_>, x: Expr) -> Result<Expr> {
    let value = a.float(3, "value", 1.0)?;
    Ok(if value == 1.0 { x } else { x * value })
}

fn moved(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let all = |i, name| -> Result<Vec<i64>> {
        Ok(a.ints(i, name)?.into_iter().map(|n| axis(&x, n)).collect())
    };
    let (from, to) = (all(1, "source")?, all(2, "destination")?);
    let mut order: Vec<Option<i64>> = vec![None; x.rank()];
    for (&f, &t) in from.iter().zip(&to) {
        order[t as usize] = Some(f);
    }
    let mut rest = (0..x.rank() as i64).filter(|i| !from.contains(i));
    let order: Vec<i64> = order
        .into_iter()
        .filter_map(|place| place.or_else(|| rest.next()))
        .collect();
    Ok(ops::permute(x, order).done()?.into())
}

fn meshgrid(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let xs = a.tensors(0, "tensors")?;
    let crossed = a.text(1, "indexing", "ij")? == "xy" && xs.len() > 1;
    let one = |(i, x): (usize, &Tensor)| {
        let at = if crossed && i < 2 { 1 - i } else { i };
        let mut shape = vec![1i64; xs.len()];
        shape[at] = -1;
        ops::broadcast_to(ops::reshape(x, shape), a.recorded_spec(i)?.shape).done()
    };
    let all = xs.iter().enumerate().map(one).collect::<Result<Vec<_>>>()?;
    Ok(all.into())
}

fn tile(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = a.tensor(0, "self")?;
    let mut times = a.dims(1, "dims")?;
    while times.len() < x.rank() {
        times.insert(0, Dim::from(1));
    }
    let more = Args {
        node: a.node,
        args: vec![
            x.into(),
            Slot::List(times.into_iter().map(Slot::Int).collect()),
        ],
        kwargs: Default::default(),
    };
    match rule("repeat") {
        Some(repeat) => repeat(w, &more),
        None => Err(a.bad("a rule")),
    }
}
