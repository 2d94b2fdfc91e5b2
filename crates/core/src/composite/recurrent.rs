//! LSTM and GRU cells.

use crate::error::Result;
use crate::expr::Expr;
use crate::ops::composites::sigmoid;
use crate::ops::{self, Ops};
use crate::tensor::Tensor;

fn gates(x: &Tensor, w: &Tensor, b: Option<&Tensor>) -> Expr {
    let y = ops::matmul(x, ops::matrix_transpose(w));
    match b {
        Some(b) => y + b,
        None => y,
    }
}

/// Gates in the order i f g o; weights are `[4 hidden, in]` and `[4 hidden, hidden]`.
pub fn lstm_cell(
    x: &Tensor,
    h: &Tensor,
    c: &Tensor,
    wx: &Tensor,
    wh: &Tensor,
    b: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let all = (gates(x, wx, b) + gates(h, wh, None)).done()?;
    let parts = ops::split(&all, 4, -1)?;
    let (i, f, g, o) = (
        sigmoid(&parts[0]),
        sigmoid(&parts[1]),
        parts[2].tanh(),
        sigmoid(&parts[3]),
    );
    let c = (f * c + i * g).done()?;
    Ok(((o * c.tanh()).done()?, c))
}

/// Gates in the order r z n; weights are `[3 hidden, in]` and `[3 hidden, hidden]`.
pub fn gru_cell(
    x: &Tensor,
    h: &Tensor,
    wx: &Tensor,
    wh: &Tensor,
    bx: Option<&Tensor>,
    bh: Option<&Tensor>,
) -> Result<Tensor> {
    let a = ops::split(&gates(x, wx, bx).done()?, 3, -1)?;
    let b = ops::split(&gates(h, wh, bh).done()?, 3, -1)?;
    let r = sigmoid(&a[0] + &b[0]);
    let z = sigmoid(&a[1] + &b[1]).done()?;
    let n = (&a[2] + r * &b[2]).tanh();
    ((1.0 - &z) * n + &z * h).done()
}
