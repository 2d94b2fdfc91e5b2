//! RNN, GRU and LSTM without decomposition: each is one loop over time, so the number of steps may be symbolic.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::out;
use clematis_core::{Dim, Result, Tensor, bail, control, ops, random};
use clematis_nn::functional::{gru, lstm};

pub const RULES: &[(&str, Rule)] = &[
    ("lstm", |w, a| layers(w, a, Cell::Lstm)),
    ("gru", |w, a| layers(w, a, Cell::Gru)),
    ("rnn_tanh", |w, a| layers(w, a, Cell::Plain(false))),
    ("rnn_relu", |w, a| layers(w, a, Cell::Plain(true))),
    ("lstm_cell", |_, a| {
        let state = a.tensors(1, "hx")?;
        let [h, c] = state.as_slice() else {
            bail!(
                Convert,
                "convert: lstm_cell: expected two states, got {}",
                state.len()
            );
        };
        let bias = match (a.maybe_tensor(4, "b_ih")?, a.maybe_tensor(5, "b_hh")?) {
            (Some(x), Some(y)) => Some((x + y).done()?),
            (x, y) => x.or(y),
        };
        let (wx, wh) = (a.tensor(2, "w_ih")?, a.tensor(3, "w_hh")?);
        let (h, c) = ops::lstm_cell(&a.tensor(0, "input")?, h, c, &wx, &wh, bias.as_ref())?;
        Ok(vec![h, c].into())
    }),
    ("gru_cell", |_, a| {
        let (bx, bh) = (a.maybe_tensor(4, "b_ih")?, a.maybe_tensor(5, "b_hh")?);
        let (wx, wh) = (a.tensor(2, "w_ih")?, a.tensor(3, "w_hh")?);
        let (x, h) = (a.tensor(0, "input")?, a.tensor(1, "hx")?);
        out(ops::gru_cell(&x, &h, &wx, &wh, bx.as_ref(), bh.as_ref()))
    }),
];

#[derive(Clone, Copy, PartialEq)]
enum Cell {
    Lstm,
    Gru,
    Plain(bool),
}

/// The weights of one direction of one layer; an LSTM may also have a projection of its state.
struct Weights {
    kernel: Tensor,
    recurrent: Tensor,
    biases: [Option<Tensor>; 2],
    projection: Option<Tensor>,
}

/// The positions of the parameters that all recurrent layers have after their weights.
struct Layout {
    biases: bool,
    layers: i64,
    dropout: f64,
    bidirectional: bool,
    batch_first: bool,
}

fn layout(a: &Args<'_>) -> Result<Layout> {
    Ok(Layout {
        biases: a.flag(3, "has_biases", true)?,
        layers: a.int(4, "num_layers", 1)?,
        dropout: if a.flag(6, "train", false)? {
            a.float(5, "dropout", 0.0)?
        } else {
            0.0
        },
        bidirectional: a.flag(7, "bidirectional", false)?,
        batch_first: a.flag(8, "batch_first", false)?,
    })
}

fn layers(w: &mut Importer<'_>, a: &Args<'_>, cell: Cell) -> Result<Slot> {
    if a.node.variant == "data" {
        bail!(
            Unsupported,
            "convert: a packed sequence, whose step sizes depend on values; call the layer on padded sequences"
        );
    }
    let layout = layout(a)?;
    let states = match a.slot(1, "hx") {
        Slot::List(_) => a.tensors(1, "hx")?,
        _ => vec![a.tensor(1, "hx")?],
    };
    let directions = if layout.bidirectional { 2 } else { 1 };
    let count = (layout.layers * directions) as usize;
    let all = a.tensors(2, "params")?;
    let each = all.len() / count.max(1);
    let plain = if layout.biases { 4 } else { 2 };
    let weights = |i: usize| -> Result<Weights> {
        let own = &all[i * each..(i + 1) * each];
        let transposed = |x: &Tensor| ops::matrix_transpose(x).done();
        Ok(Weights {
            kernel: transposed(&own[0])?,
            recurrent: transposed(&own[1])?,
            biases: if layout.biases {
                [own.get(2).cloned(), own.get(3).cloned()]
            } else {
                [None, None]
            },
            projection: own.get(plain).map(transposed).transpose()?,
        })
    };
    let input = a.tensor(0, "input")?;
    // Time is the second-last axis, whatever batch_first was.
    let mut x = if layout.batch_first || input.rank() == 2 {
        input.clone()
    } else {
        ops::swap_axes(&input, 0, 1).done()?
    };
    let state =
        |list: &Tensor, i: usize| ops::squeeze(ops::slice_axis(list, 0, i, i + 1), 0).done();
    let (mut hs, mut cs) = (Vec::new(), Vec::new());
    for layer in 0..layout.layers as usize {
        let mut sides = Vec::new();
        for direction in 0..directions as usize {
            let i = layer * directions as usize + direction;
            let back = direction == 1;
            let own = weights(i)?;
            let h = state(&states[0], i)?;
            let c = states.get(1).map(|c| state(c, i)).transpose()?;
            let transposed = if back {
                ops::flip(&x, -2i64).done()?
            } else {
                x.clone()
            };
            let (y, h, c) = one(cell, &transposed, &h, c.as_ref(), &own)?;
            sides.push(if back {
                ops::flip(&y, -2i64).done()?
            } else {
                y
            });
            hs.push(h);
            cs.extend(c);
        }
        x = if sides.len() == 1 {
            sides.remove(0)
        } else {
            ops::concat(&sides, -1).done()?
        };
        if layout.dropout > 0.0 && layer + 1 < layout.layers as usize {
            x = random::dropout(&x, &w.key(), layout.dropout).done()?;
        }
    }
    let y = if layout.batch_first || input.rank() == 2 {
        x
    } else {
        ops::swap_axes(&x, 0, 1).done()?
    };
    let mut results = vec![y, ops::stack(&hs, 0).done()?];
    if !cs.is_empty() {
        results.push(ops::stack(&cs, 0).done()?);
    }
    Ok(results.into())
}

/// The states of all steps, and the last ones.
fn one(
    cell: Cell,
    x: &Tensor,
    h: &Tensor,
    c: Option<&Tensor>,
    w: &Weights,
) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    let [bx, bh] = [w.biases[0].as_ref(), w.biases[1].as_ref()];
    let (k, r) = (&w.kernel, &w.recurrent);
    let (y, c) = match (cell, c, &w.projection) {
        (Cell::Lstm, Some(c), Some(p)) => return projected(x, h, c, w, p),
        (Cell::Lstm, Some(c), None) => {
            let (y, c) = lstm::lstm_update(x, h, c, k, r, bx, bh)?;
            (y, Some(c))
        }
        (Cell::Lstm, None, _) => bail!(Convert, "convert: an lstm without a cell state"),
        (Cell::Gru, ..) => (gru::gru_update(x, h, k, r, bx, bh)?, None),
        (Cell::Plain(relu), ..) => (gru::rnn_update(x, h, k, r, bx, bh, relu)?, None),
    };
    let last = last_step(&y)?;
    Ok((y, last, c))
}

fn last_step(y: &Tensor) -> Result<Tensor> {
    let steps = y.shape().dims()[y.rank() - 2];
    ops::squeeze(ops::slice_axis(y, -2, steps - Dim::from(1), steps), -2i64).done()
}

/// An LSTM whose state is projected to fewer features.
fn projected(
    x: &Tensor,
    h: &Tensor,
    c: &Tensor,
    w: &Weights,
    projection: &Tensor,
) -> Result<(Tensor, Tensor, Option<Tensor>)> {
    let mut outside = ops::matmul(x, &w.kernel);
    for b in w.biases.iter().flatten() {
        outside = outside + b;
    }
    let steps = ops::move_axis(outside, -2, 0).done()?;
    let ((h, c), hs) = control::scan(&(h.clone(), c.clone()), &steps, None, false, |(h, c), z| {
        let gates = (z + ops::matmul(h, &w.recurrent)).done()?;
        let parts = ops::split(&gates, 4, -1)?;
        let kept = ops::sigmoid(&parts[1]) * c;
        let c = (kept + ops::sigmoid(&parts[0]) * ops::tanh(&parts[2])).done()?;
        let h = ops::matmul(ops::sigmoid(&parts[3]) * ops::tanh(&c), projection).done()?;
        Ok(((h.clone(), c), h))
    })?;
    let y = ops::move_axis(&hs, 0, -2).done()?;
    Ok((y, h, Some(c)))
}
