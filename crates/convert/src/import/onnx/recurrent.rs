//! RNN, GRU and LSTM: one loop over time per direction.

use super::super::Rule;
use super::super::args::{Args, Slot};
use super::{NAMED, maybe, numbers, several, t};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, control, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("LSTM", |_, a| layer(a, 4)),
    ("GRU", |_, a| layer(a, 3)),
    ("RNN", |_, a| layer(a, 1)),
];

/// An activation function by its name.
fn activation(word: &str, alpha: Option<f64>, beta: Option<f64>, x: Expr) -> Result<Tensor> {
    let or = |x: Option<f64>, y: f64| x.unwrap_or(y);
    match word.to_ascii_lowercase().as_str() {
        "tanh" => ops::tanh(x),
        "sigmoid" => ops::sigmoid(x),
        "relu" => ops::relu(x),
        "affine" => x * or(alpha, 1.0) + or(beta, 0.0),
        "leakyrelu" => ops::leaky_relu(x, or(alpha, 0.01)),
        "thresholdedrelu" => {
            let x = x.done()?;
            ops::where_(ops::greater(&x, or(alpha, 1.0)), &x, 0.0)
        }
        "scaledtanh" => or(alpha, 1.0) * ops::tanh(x * or(beta, 1.0)),
        "hardsigmoid" => ops::minimum(ops::maximum(x * or(alpha, 0.2) + or(beta, 0.5), 0.0), 1.0),
        "elu" => ops::elu(x, or(alpha, 1.0)),
        "softsign" => x.then(|x| &x / (1.0 + ops::abs(&x))),
        "softplus" => ops::softplus(x),
        other => bail!(
            Unsupported,
            "convert: unsupported activation \"{other}\" of a recurrent layer"
        ),
    }
    .done()
}

/// The weights of one direction.
struct Direction {
    functions: Vec<String>,
    alphas: Vec<f64>,
    betas: Vec<f64>,
    clip: f64,
    forget_once: bool,
    linear_before_reset: bool,
    /// Transposed recurrent weights, and the biases that are applied inside the loop.
    recurrent: Tensor,
    inner_bias: Option<Tensor>,
    peepholes: Option<Vec<Tensor>>,
}

impl Direction {
    fn f(&self, i: usize, x: Expr) -> Result<Tensor> {
        let x = if self.clip > 0.0 {
            ops::minimum(ops::maximum(x, -self.clip), self.clip)
        } else {
            x
        };
        let word = self.functions.get(i).map_or("tanh", String::as_str);
        activation(
            word,
            self.alphas.get(i).copied(),
            self.betas.get(i).copied(),
            x,
        )
    }

    /// One time step: new states from the input's contribution to each gate.
    fn step(
        &self,
        gates: usize,
        x: &Tensor,
        h: &Tensor,
        c: Option<&Tensor>,
    ) -> Result<(Tensor, Option<Tensor>)> {
        match (gates, c) {
            (4, Some(c)) => {
                let all = (x + ops::matmul(h, &self.recurrent)).done()?;
                // In the order i o f c.
                let part = ops::split(&all, 4, -1)?;
                let look = |i: usize, at: usize, c: &Tensor| -> Expr {
                    match &self.peepholes {
                        Some(p) => &part[i] + &p[at] * c,
                        None => Ok(part[i].clone()).into(),
                    }
                };
                let input = self.f(0, look(0, 0, c))?;
                let forget = if self.forget_once {
                    (1.0 - &input).done()?
                } else {
                    self.f(0, look(2, 2, c))?
                };
                let new = self.f(1, Ok(part[3].clone()).into())?;
                let c = (&forget * c + &input * new).done()?;
                let output = self.f(0, look(1, 1, &c))?;
                let word = self.functions.get(2).map_or("tanh", String::as_str);
                let shown = activation(
                    word,
                    self.alphas.get(2).copied(),
                    self.betas.get(2).copied(),
                    Ok(c.clone()).into(),
                )?;
                Ok(((output * shown).done()?, Some(c)))
            }
            (3, _) => {
                let width = h.shape().dims()[h.rank() - 1];
                let two = width * Dim::from(2);
                let three = width * Dim::from(3);
                let (first, last) = (
                    ops::slice_axis(&self.recurrent, -1, 0, two).done()?,
                    ops::slice_axis(&self.recurrent, -1, two, three).done()?,
                );
                let gates = (ops::slice_axis(x, -1, 0, two) + ops::matmul(h, first)).done()?;
                let part = ops::split(&gates, 2, -1)?;
                let (z, r) = (
                    self.f(0, Ok(part[0].clone()).into())?,
                    self.f(0, Ok(part[1].clone()).into())?,
                );
                let given = ops::slice_axis(x, -1, two, three);
                let inside = if self.linear_before_reset {
                    let mut y = ops::matmul(h, last);
                    if let Some(b) = &self.inner_bias {
                        y = y + b;
                    }
                    r * y
                } else {
                    let mut y = ops::matmul(r * h, last);
                    if let Some(b) = &self.inner_bias {
                        y = y + b;
                    }
                    y
                };
                let new = self.f(1, given + inside)?;
                Ok((((1.0 - &z) * new + &z * h).done()?, None))
            }
            _ => Ok((self.f(0, x + ops::matmul(h, &self.recurrent))?, None)),
        }
    }
}

fn layer(a: &Args<'_>, gates: usize) -> Result<Slot> {
    let batch_first = a.flag(NAMED, "layout", false)?;
    let mut x = t(a, 0)?;
    if batch_first {
        x = ops::swap_axes(x, 0, 1).done()?;
    }
    let (w, r, b, lengths) = (t(a, 1)?, t(a, 2)?, maybe(a, 3)?, maybe(a, 4)?);
    let (h0, c0) = (maybe(a, 5)?, if gates == 4 { maybe(a, 6)? } else { None });
    let peepholes = if gates == 4 { maybe(a, 7)? } else { None };
    if x.rank() != 3 || w.rank() != 3 || r.rank() != 3 {
        bail!(
            Convert,
            "convert: `{}`: incompatible operands {}, {} and {}",
            a.node.op,
            x.spec(),
            w.spec(),
            r.spec()
        );
    }
    let width = r.shape().dims()[2];
    let given = a.int(NAMED, "hidden_size", width.value().unwrap_or(0))?;
    if width.value().is_some_and(|width| width != given) {
        bail!(
            Convert,
            "convert: `{}`: expected a hidden_size of {width}, as R is {}, got {given}",
            a.node.op,
            r.spec()
        );
    }
    let directions = match a.text(NAMED, "direction", "forward")? {
        "forward" => vec![false],
        "reverse" => vec![true],
        "bidirectional" => vec![false, true],
        other => bail!(
            Convert,
            "convert: `{}`: unsupported direction \"{other}\"",
            a.node.op
        ),
    };
    let words: Vec<String> = match a.slot(NAMED, "activations") {
        Slot::List(xs) => xs
            .iter()
            .map(|x| {
                if let Slot::Text(word) = x {
                    word.clone()
                } else {
                    String::new()
                }
            })
            .collect(),
        _ => {
            let own: &[&str] = match gates {
                4 => &["Sigmoid", "Tanh", "Tanh"],
                3 => &["Sigmoid", "Tanh"],
                _ => &["Tanh"],
            };
            own.repeat(directions.len())
                .into_iter()
                .map(String::from)
                .collect()
        }
    };
    let each = words.len() / directions.len();
    let hidden = r.shape().dims()[2];
    let of = |x: &Tensor, i: usize| ops::squeeze(ops::slice_axis(x, 0, i, i + 1), 0i64).done();
    let state = |x: &Option<Tensor>, i: usize, like: &Tensor| match x {
        Some(x) if batch_first => ops::squeeze(ops::slice_axis(x, 1, i, i + 1), 1i64).done(),
        Some(x) => of(x, i),
        None => ops::zeros(
            Shape::from_dims([like.shape().dims()[1], hidden]),
            like.dtype(),
        )
        .done(),
    };
    let (mut ys, mut hs, mut cs) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &back) in directions.iter().enumerate() {
        let slice = |xs: &[f64]| -> Vec<f64> {
            let n = xs.len() / directions.len();
            xs[i * n..(i + 1) * n].to_vec()
        };
        let bias = b.as_ref().map(|b| of(b, i)).transpose()?;
        let whole = hidden * Dim::from(gates);
        let linear = a.flag(NAMED, "linear_before_reset", false)?;
        let two = hidden * Dim::from(2);
        let (outer, inner) = match &bias {
            None => (None, None),
            Some(bias) => {
                let wb = ops::slice_axis(bias, 0, 0, whole).done()?;
                let rb = ops::slice_axis(bias, 0, whole, whole * Dim::from(2)).done()?;
                if gates == 3 {
                    // The last gate's recurrent bias is inside the product with the reset gate.
                    let first = ops::slice_axis(&rb, 0, 0, two).done()?;
                    let last = ops::slice_axis(&rb, 0, two, whole).done()?;
                    let none = ops::zeros_like(&last).done()?;
                    (
                        Some((wb + ops::concat(&[first, none], 0)).done()?),
                        Some(last),
                    )
                } else {
                    (Some((wb + rb).done()?), None)
                }
            }
        };
        let direction = Direction {
            functions: words[i * each..(i + 1) * each].to_vec(),
            alphas: slice(&numbers(a, "activation_alpha")?),
            betas: slice(&numbers(a, "activation_beta")?),
            clip: a.float(NAMED, "clip", 0.0)?,
            forget_once: a.flag(NAMED, "input_forget", false)?,
            linear_before_reset: linear,
            recurrent: ops::matrix_transpose(of(&r, i)?).done()?,
            inner_bias: inner,
            peepholes: match &peepholes {
                Some(p) => Some(ops::split(&of(p, i)?, 3, 0)?),
                None => None,
            },
        };
        let mut given = ops::matmul(&x, ops::matrix_transpose(of(&w, i)?));
        if let Some(outer) = outer {
            given = given + outer;
        }
        let start_h = state(&h0, i, &x)?;
        let start_c = if gates == 4 {
            vec![state(&c0, i, &x)?]
        } else {
            Vec::new()
        };
        let (y, h, c) = over_time(
            &direction,
            gates,
            given.done()?,
            start_h,
            start_c,
            lengths.as_ref(),
            back,
        )?;
        ys.push(y);
        hs.push(h);
        cs.extend(c);
    }
    // [time, directions, batch, hidden], or [batch, time, directions, hidden].
    let y = ops::stack(&ys, 1).done()?;
    let turn = |x: Tensor| {
        if batch_first {
            ops::swap_axes(x, 0, 1).done()
        } else {
            Ok(x)
        }
    };
    let y = if batch_first {
        ops::permute(y, [2i64, 0, 1, 3].to_vec()).done()?
    } else {
        y
    };
    let mut results: Vec<Slot> = vec![y.into(), turn(ops::stack(&hs, 0).done()?)?.into()];
    if gates == 4 {
        results.push(turn(ops::stack(&cs, 0).done()?)?.into());
    }
    Ok(several(a, results))
}

type Ran = (Tensor, Tensor, Vec<Tensor>);

fn over_time(
    d: &Direction,
    gates: usize,
    given: Tensor,
    h: Tensor,
    c: Vec<Tensor>,
    lengths: Option<&Tensor>,
    back: bool,
) -> Result<Ran> {
    let steps = given.shape().dims()[0];
    let start: Vec<Tensor> = [h].into_iter().chain(c).collect();
    let number = ops::iota(Shape::from_dims([steps]), 0, DType::I64).done()?;
    let lengths = match lengths {
        Some(n) => Some(ops::expand_dims(ops::cast(n, DType::I64), -1).done()?),
        None => None,
    };
    let (carry, ys) = control::scan(&start, &(given, number), None, back, |carry, (x, i)| {
        let (h, c) = d.step(gates, x, &carry[0], carry.get(1))?;
        let new: Vec<Tensor> = [h].into_iter().chain(c).collect();
        let Some(lengths) = &lengths else {
            return Ok((new.clone(), new[0].clone()));
        };
        // After its end a sequence keeps its state and outputs zeros; in reverse it starts at its end.
        let on = ops::less(i, lengths).done()?;
        let kept = new
            .iter()
            .zip(carry)
            .map(|(new, old)| ops::where_(&on, new, old).done());
        let kept = kept.collect::<Result<Vec<_>>>()?;
        let y = ops::where_(&on, &new[0], Tensor::scalar(0.0, new[0].dtype())).done()?;
        Ok((kept, y))
    })?;
    let mut carry = carry.into_iter();
    match carry.next() {
        Some(h) => Ok((ys, h, carry.collect())),
        None => bail!(Internal, "convert: a loop without a state"),
    }
}
