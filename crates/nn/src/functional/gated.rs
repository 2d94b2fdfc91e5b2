//! Recurrent layers besides the LSTM: the gated unit and the plain one.

use super::common;
use clematis_core::control;
use clematis_core::{DType, Result, Tensor, ensure, ops};

/// What the steps need, checked and in one element type.
struct Ready {
    /// What comes from outside, `[time, batch…, gates out]`, the bias included.
    outside: Tensor,
    h: Tensor,
    recurrent: Tensor,
    /// The axis of time in `x`.
    time: usize,
    /// The type of the result; halves are computed in more, or they would be rounded at each step.
    dtype: DType,
    wide: DType,
}

fn ready(
    op: &str,
    gates: usize,
    x: &Tensor,
    h: &Tensor,
    kernels: [&Tensor; 2],
    biases: [Option<&Tensor>; 2],
) -> Result<Ready> {
    let [kernel, recurrent] = kernels;
    ensure!(
        x.rank() >= 2 && kernel.rank() == 2 && recurrent.rank() == 2,
        Shape,
        "{op}: x {} is [batch…, time, in], kernels {} and {} are matrices",
        x.spec(),
        kernel.spec(),
        recurrent.spec()
    );
    let (time, inputs) = (x.rank() - 2, x.rank() - 1);
    let (rows, columns) = (kernel.shape().dims(), recurrent.shape().dims());
    ensure!(
        rows[0] == x.shape().dims()[inputs]
            && rows[1] == columns[1]
            && columns[0] * gates.into() == columns[1],
        Shape,
        "{op}: x {}, kernel {} [in, {gates} out] and recurrent kernel {} [out, {gates} out] do not fit",
        x.spec(),
        kernel.spec(),
        recurrent.spec()
    );
    for b in biases.into_iter().flatten() {
        ensure!(
            b.rank() == 1 && b.shape().dims()[0] == rows[1],
            Shape,
            "{op}: a bias {} for {} gates",
            b.spec(),
            rows[1]
        );
    }
    let mut all = vec![x, h, kernel, recurrent];
    all.extend(biases.into_iter().flatten());
    let met = common(&all);
    ensure!(
        !met.is_complex(),
        DType,
        "{op}: takes real numbers, not {met}"
    );
    let dtype = if met.is_float() { met } else { DType::FLOAT };
    let wide = dtype.accumulator();
    let state = x.shape().without(&[time]).with(time, columns[0]);
    ensure!(
        h.shape().broadcast(&state).is_some_and(|met| met == state),
        Shape,
        "{op}: a state {} where {state:?} was expected",
        h.spec()
    );
    // What comes from outside is one product for all steps.
    let mut outside = ops::matmul(ops::cast(x, wide), ops::cast(kernel, wide));
    if let Some(b) = biases[0] {
        outside = outside + ops::cast(b, wide);
    }
    Ok(Ready {
        outside: ops::move_axis(outside, time as i64, 0).done()?,
        h: ops::broadcast_to(ops::cast(h, wide), &state).done()?,
        recurrent: ops::cast(recurrent, wide).done()?,
        time,
        dtype,
        wide,
    })
}

fn steps(ready: &Ready, body: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (_, hs) = control::scan(&ready.h, &ready.outside, None, false, |h, z| {
        let h = body(h, z)?;
        Ok((h.clone(), h))
    })?;
    ops::cast(ops::move_axis(&hs, 0, ready.time as i64), ready.dtype).done()
}

/// A gated recurrent unit over the second last axis of `x`: every hidden state.
///
/// Kernels are `[in, 3 out]` and `[out, 3 out]`, biases `[3 out]`, gates in the order reset, update, new. The reset gate
/// works on the product with the state, as in torch.
pub fn gru_update(
    x: &Tensor,
    h: &Tensor,
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: Option<&Tensor>,
    recurrent_bias: Option<&Tensor>,
) -> Result<Tensor> {
    let biases = [bias, recurrent_bias];
    let ready = ready("gru_update", 3, x, h, [kernel, recurrent_kernel], biases)?;
    let inner = recurrent_bias
        .map(|b| ops::cast(b, ready.wide).done())
        .transpose()?;
    steps(&ready, |h, z| {
        let mut own = ops::matmul(h, &ready.recurrent);
        if let Some(b) = &inner {
            own = own + b;
        }
        let (own, z) = (ops::split(&own.done()?, 3, -1)?, ops::split(z, 3, -1)?);
        let reset = ops::sigmoid(&z[0] + &own[0]);
        let keep = ops::sigmoid(&z[1] + &own[1]).done()?;
        let new = ops::tanh(&z[2] + reset * &own[2]).done()?;
        // The same as (1 - keep) new + keep h, with one product.
        (&new + &keep * (h - &new)).done()
    })
}

/// `h = tanh(x kernel + h recurrent_kernel)`, or `relu`, over the second last axis of `x`: every hidden state.
pub fn rnn_update(
    x: &Tensor,
    h: &Tensor,
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: Option<&Tensor>,
    recurrent_bias: Option<&Tensor>,
    relu: bool,
) -> Result<Tensor> {
    let biases = [bias, recurrent_bias];
    let mut ready = ready("rnn_update", 1, x, h, [kernel, recurrent_kernel], biases)?;
    if let Some(b) = recurrent_bias {
        ready.outside = (&ready.outside + ops::cast(b, ready.wide)).done()?;
    }
    steps(&ready, |h, z| {
        let sum = z + ops::matmul(h, &ready.recurrent);
        match relu {
            true => ops::relu(sum).done(),
            false => ops::tanh(sum).done(),
        }
    })
}
