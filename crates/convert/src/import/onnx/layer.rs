//! MatMul, Gemm, Softmax, Attention, RotaryEmbedding.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::reduce::as_rows;
use super::{NAMED, e, maybe, out, ranked, several, t, wanted};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("MatMul", |_, a| out(ops::matmul(e(a, 0), e(a, 1)))),
    ("Gemm", gemm),
    ("Einsum", |_, a| {
        let xs = (0..a.args.len())
            .map(|i| super::recorded(t(a, i)?, None))
            .collect::<Result<Vec<_>>>()?;
        let equation = a.text(NAMED, "equation", "")?.replace(' ', "");
        out(ops::einsum(&equation, &xs.iter().collect::<Vec<_>>()))
    }),
    ("Softmax", |_, a| as_rows(a, softmax)),
    ("LogSoftmax", |_, a| {
        as_rows(a, |x, axis| ops::log_softmax(x, axis))
    }),
    ("Det", |_, a| out(ops::det(e(a, 0)))),
    ("Attention", attention),
    ("RotaryEmbedding", rotary),
];

fn gemm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (alpha, beta) = (a.float(NAMED, "alpha", 1.0)?, a.float(NAMED, "beta", 1.0)?);
    let (turn_a, turn_b) = (
        a.flag(NAMED, "transA", false)?,
        a.flag(NAMED, "transB", false)?,
    );
    let (x, w, c) = (ranked(a, 0, 2)?, ranked(a, 1, 2)?, maybe(a, 2)?);
    let plain = alpha == 1.0 && !turn_a && turn_b && x.dtype().is_float();
    if plain
        && c.as_ref().is_none_or(|c| {
            c.rank() == 1 && beta == 1.0 && c.shape().dims()[0] == w.shape().dims()[0]
        })
    {
        return out(ops::linear(&x, &w, c.as_ref()));
    }
    let side = |x: Tensor, turn: bool| {
        if turn {
            ops::matrix_transpose(x)
        } else {
            Ok(x).into()
        }
    };
    let scaled = |x: Expr, by: f64| if by == 1.0 { x } else { x * by };
    let mut y = scaled(ops::matmul(side(x, turn_a), side(w, turn_b)), alpha);
    if let Some(c) = c
        && beta != 0.0
    {
        y = y + scaled(Ok(c).into(), beta);
    }
    out(y)
}

/// Softmax along an axis. In half precision each step is rounded, as ONNX defines it; otherwise it is one op.
fn softmax(x: &Tensor, axis: i64) -> Expr {
    if x.dtype() != DType::F16 {
        return ops::softmax(x, axis);
    }
    let top = ops::stop_gradient(ops::keepdims(x, vec![axis], ops::max));
    let parts = ops::exp(x - top).done();
    match parts {
        Ok(parts) => &parts / ops::keepdims(&parts, vec![axis], ops::sum),
        Err(e) => Err(e).into(),
    }
}

/// `[batch, length, heads * width]` as `[batch, heads, length, width]`.
fn heads(x: &Tensor, count: i64) -> Result<Tensor> {
    if x.rank() == 4 {
        return Ok(x.clone());
    }
    let d = x.shape().dims().to_vec();
    let [batch, length, width] = d.as_slice() else {
        bail!(Convert, "convert: attention on an operand {}", x.spec());
    };
    if count <= 0 {
        bail!(
            Convert,
            "convert: attention on {} without the number of heads",
            x.spec()
        );
    }
    let n = Dim::number(count);
    let wide = Shape::from_dims([*batch, *length, n, width.floor_div(n)?]);
    ops::permute(ops::reshape(x, wide), [0i64, 2, 1, 3].to_vec()).done()
}

fn attention(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let input = t(a, 0)?;
    let (q_heads, kv_heads) = (
        a.int(NAMED, "q_num_heads", 0)?,
        a.int(NAMED, "kv_num_heads", 0)?,
    );
    let q = heads(&input, q_heads)?;
    let (mut k, mut v) = (heads(&t(a, 1)?, kv_heads)?, heads(&t(a, 2)?, kv_heads)?);
    let past = maybe(a, 4)?;
    for (word, past) in [("past_key", &past), ("past_value", &maybe(a, 5)?)] {
        if let Some(past) = past
            && past.rank() != 4
        {
            bail!(
                Convert,
                "convert: `Attention`: expected a {word} of rank 4, got {}",
                past.spec()
            );
        }
    }
    if let (Some(past_k), Some(past_v)) = (&past, maybe(a, 5)?) {
        k = ops::concat(&[past_k.clone(), k], 2).done()?;
        v = ops::concat(&[past_v, v], 2).done()?;
    }
    let (present_k, present_v) = (k.clone(), v.clone());
    let size = |x: &Tensor, axis: usize| x.shape().dims()[axis];
    let times = size(&q, 1).floor_div(size(&k, 1))?;
    if times.value() != Some(1) {
        let Some(times) = times.value() else {
            bail!(
                Unsupported,
                "convert: `Attention` with a symbolic number of heads"
            );
        };
        (k, v) = (
            ops::repeat(k, times as usize, 1).done()?,
            ops::repeat(v, times as usize, 1).done()?,
        );
    }
    let width = size(&q, 3).value().unwrap_or(1);
    let scale = a.float(NAMED, "scale", 1.0 / (width as f64).sqrt())?;
    let causal = a.flag(NAMED, "is_causal", false)?;
    let window = (
        a.int(NAMED, "left_window_size", -1)?,
        a.int(NAMED, "right_window_size", -1)?,
    );
    let cap = a.float(NAMED, "softcap", 0.0)?;
    let (mask, filled) = (maybe(a, 3)?, maybe(a, 6)?);
    let plain =
        mask.is_none() && filled.is_none() && cap == 0.0 && window == (-1, -1) && wanted(a) <= 3;
    let square = !causal || past.is_none() && size(&q, 2) == size(&k, 2);
    let (y, scores) = if plain && square && !a.has(NAMED, "softmax_precision") {
        (
            ops::attention(&q, &k, &v, None, scale, causal).done()?,
            None,
        )
    } else {
        let offset = past.as_ref().map(|p| size(p, 2));
        let bias = bias(&q, &k, mask, filled.as_ref(), causal, window, offset)?;
        let (y, scores) = scored(a, &q, &k, &v, bias, scale, cap)?;
        (y, Some(scores))
    };
    let y = if input.rank() == 3 {
        let d = input.shape().dims();
        let permuted = ops::permute(&y, [0i64, 2, 1, 3].to_vec());
        let whole = Shape::from_dims([d[0], d[1], size(&y, 1) * size(&y, 3)]);
        ops::reshape(permuted, whole).done()?
    } else {
        y
    };
    let last = scores.map_or(Slot::Nothing, Slot::Tensor);
    Ok(several(
        a,
        vec![y.into(), present_k.into(), present_v.into(), last],
    ))
}

/// The additive mask: 0 where a query may attend, -inf where not, or the given mask; `None` for none.
fn bias(
    q: &Tensor,
    k: &Tensor,
    mask: Option<Tensor>,
    filled: Option<&Tensor>,
    causal: bool,
    window: (i64, i64),
    past: Option<Dim>,
) -> Result<Option<Tensor>> {
    let dtype = q.dtype();
    let (rows, columns) = (q.shape().dims()[2], k.shape().dims()[2]);
    let keep = |seen: Expr| {
        ops::where_(
            seen,
            Tensor::scalar(0.0, dtype),
            Tensor::scalar(f64::NEG_INFINITY, dtype),
        )
    };
    let mut all: Option<Expr> = None;
    let mut add = |x: Expr| {
        all = Some(match all.take() {
            Some(y) => y + x,
            None => x,
        });
    };
    if let Some(mut mask) = mask {
        let own = mask.shape().dims().last().copied().unwrap_or(columns);
        if own != columns {
            let none = if mask.dtype() == DType::Bool {
                Tensor::scalar(false, DType::Bool)
            } else {
                Tensor::scalar(f64::NEG_INFINITY, mask.dtype())
            };
            let (low, mut high) = (
                vec![Dim::from(0); mask.rank()],
                vec![Dim::from(0); mask.rank()],
            );
            high[mask.rank() - 1] = columns - own;
            mask = ops::pad(&mask, none, &low, &high, &vec![0; mask.rank()]).done()?;
        }
        add(if mask.dtype() == DType::Bool {
            keep(Ok(mask).into())
        } else {
            ops::cast(mask, dtype)
        });
    }
    if causal || window != (-1, -1) {
        let shape = Shape::from_dims([Dim::from(1), Dim::from(1), rows, columns]);
        let mut row = ops::iota(shape.clone(), 2, DType::I64);
        let column = ops::iota(shape, 3, DType::I64).done()?;
        match (past, filled) {
            (Some(past), _) => row = row + super::counted(past)?,
            (None, Some(filled)) => {
                let start = ops::reshape(ops::cast(filled, DType::I64), [-1i64, 1, 1, 1].to_vec());
                row = row + (start - super::counted(rows)?);
            }
            _ => {}
        }
        let row = row.done()?;
        if causal {
            add(keep(ops::less_equal(&column, &row)));
        }
        if window.0 >= 0 {
            add(keep(ops::less_equal(&row - &column, window.0)));
        }
        if window.1 >= 0 {
            add(keep(ops::less_equal(&column - &row, window.1)));
        }
    }
    if let Some(filled) = filled {
        let shape = Shape::from_dims([Dim::from(1), Dim::from(1), Dim::from(1), columns]);
        let end = ops::reshape(ops::cast(filled, DType::I64), [-1i64, 1, 1, 1].to_vec());
        add(keep(ops::less(ops::iota(shape, 3, DType::I64), end)));
    }
    all.map(Expr::done).transpose()
}

/// The result, and the scores at the stage that `qk_matmul_output_mode` asks for.
fn scored(
    a: &Args<'_>,
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    bias: Option<Tensor>,
    scale: f64,
    cap: f64,
) -> Result<(Tensor, Tensor)> {
    let dtype = q.dtype();
    let root = Tensor::scalar(scale.sqrt(), dtype);
    let raw = ops::matmul(q * &root, ops::matrix_transpose(k * &root)).done()?;
    let capped = if cap > 0.0 {
        (ops::tanh(&raw / cap) * cap).done()?
    } else {
        raw.clone()
    };
    let mut full = match &bias {
        Some(bias) => (&capped + bias).done()?,
        None => capped.clone(),
    };
    let biased = full.clone();
    if a.has(NAMED, "softmax_precision") {
        full = ops::cast(
            full,
            crate::onnx::tensor::dtype(a.int(NAMED, "softmax_precision", 1)?)?,
        )
        .done()?;
    }
    let mut share = softmax(&full, -1).done()?;
    if let Some(bias) = &bias {
        // A row that is fully masked has all weights zero.
        let best = ops::keepdims(bias, vec![-1i64], ops::max);
        let none = ops::equal(best, f64::NEG_INFINITY);
        share = ops::where_(none, Tensor::scalar(0.0, share.dtype()), &share).done()?;
    }
    let share = ops::cast(share, dtype).done()?;
    let y = ops::matmul(&share, v).done()?;
    let shown = match a.int(NAMED, "qk_matmul_output_mode", 0)? {
        1 => capped,
        2 => biased,
        3 => share,
        _ if cap > 0.0 => raw,
        _ => capped,
    };
    Ok((y, shown))
}

fn rotary(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let input = ranked(a, 0, 3)?;
    if input.rank() > 4 {
        return Err(a.bad("an operand of rank 3 or 4"));
    }
    let x = match input.rank() {
        // Length before heads.
        4 => ops::permute(&input, [0i64, 2, 1, 3].to_vec()).done()?,
        _ => {
            let d = input.shape().dims();
            let n = Dim::number(a.int(NAMED, "num_heads", 0)?.max(1));
            ops::reshape(
                &input,
                Shape::from_dims([d[0], d[1], n, d[2].floor_div(n)?]),
            )
            .done()?
        }
    };
    let width = x.shape().known_size(3, "rotary")? as i64;
    let rotary_dim = match a.int(NAMED, "rotary_embedding_dim", 0)? {
        0 => width,
        n => n.min(width),
    };
    let cache = |i: usize| -> Result<Tensor> {
        let table = t(a, i)?;
        let rows = match maybe(a, 3)? {
            Some(at) => ops::take(table, ops::cast(at, DType::I64), 0).done()?,
            None => table,
        };
        ops::expand_dims(rows, 2).done()
    };
    let (cos, sin) = (cache(1)?, cache(2)?);
    let part = ops::slice_axis(&x, 3, 0, rotary_dim).done()?;
    let (one, two) = if a.flag(NAMED, "interleaved", false)? {
        (
            ops::slice_axis_by(&part, 3, 0, rotary_dim, 2).done()?,
            ops::slice_axis_by(&part, 3, 1, rotary_dim, 2).done()?,
        )
    } else {
        (
            ops::slice_axis(&part, 3, 0, rotary_dim / 2).done()?,
            ops::slice_axis(&part, 3, rotary_dim / 2, rotary_dim).done()?,
        )
    };
    let real = (&cos * &one - &sin * &two).done()?;
    let imaginary = (&sin * &one + &cos * &two).done()?;
    let mut y = if a.flag(NAMED, "interleaved", false)? {
        ops::reshape(ops::stack(&[real, imaginary], -1), part.shape().clone()).done()?
    } else {
        ops::concat(&[real, imaginary], -1).done()?
    };
    if rotary_dim < width {
        y = ops::concat(&[y, ops::slice_axis(&x, 3, rotary_dim, width).done()?], -1).done()?;
    }
    match input.rank() {
        4 => out(ops::permute(y, [0i64, 2, 1, 3].to_vec())),
        _ => out(ops::reshape(y, input.shape().clone())),
    }
}
