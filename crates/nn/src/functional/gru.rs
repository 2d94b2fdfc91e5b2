//! GRU and plain RNN layers.

use super::common;
use clematis_core::control;
use clematis_core::{DType, Result, Tensor, ensure, ops};

/// The validated inputs of a recurrent layer, in one dtype.
struct RecurrentInputs {
    /// The contribution of `x` to the gates, bias included: `[time, batch…, gates·out]`.
    outside: Tensor,
    h: Tensor,
    recurrent: Tensor,
    /// The time axis of `x`.
    time: usize,
    /// The dtype of the result; half precision is computed in f32, or every step would round.
    dtype: DType,
    wide: DType,
}

fn recurrent_inputs(
    op: &str,
    gates: usize,
    x: &Tensor,
    h: &Tensor,
    kernels: [&Tensor; 2],
    biases: [Option<&Tensor>; 2],
) -> Result<RecurrentInputs> {
    let [kernel, recurrent] = kernels;
    ensure!(
        x.rank() >= 2 && kernel.rank() == 2 && recurrent.rank() == 2,
        Shape,
        "{op}: expected x [batch…, time, in] and two matrices as kernels, got {}, {} and {}",
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
        "{op}: x {}, kernel {} [in, {gates} out] and recurrent kernel {} [out, {gates} out] do not match",
        x.spec(),
        kernel.spec(),
        recurrent.spec()
    );
    for b in biases.into_iter().flatten() {
        ensure!(
            b.rank() == 1 && b.shape().dims()[0] == rows[1],
            Shape,
            "{op}: the bias {} does not match {} gates",
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
        "{op}: expected real numbers, got {met}"
    );
    let dtype = if met.is_float() { met } else { DType::FLOAT };
    let wide = dtype.accumulator();
    let state = x.shape().without(&[time]).with(time, columns[0]);
    ensure!(
        h.shape().broadcast(&state).is_some_and(|met| met == state),
        Shape,
        "{op}: got a state {}, expected {state:?}",
        h.spec()
    );
    // The input contribution is one matmul for all steps.
    let mut outside = ops::matmul(ops::cast(x, wide), ops::cast(kernel, wide));
    if let Some(b) = biases[0] {
        outside = outside + ops::cast(b, wide);
    }
    Ok(RecurrentInputs {
        outside: ops::move_axis(outside, time as i64, 0).done()?,
        h: ops::broadcast_to(ops::cast(h, wide), &state).done()?,
        recurrent: ops::cast(recurrent, wide).done()?,
        time,
        dtype,
        wide,
    })
}

fn steps(
    inputs: &RecurrentInputs,
    body: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let (_, hs) = control::scan(&inputs.h, &inputs.outside, None, false, |h, z| {
        let h = body(h, z)?;
        Ok((h.clone(), h))
    })?;
    ops::cast(ops::move_axis(&hs, 0, inputs.time as i64), inputs.dtype).done()
}

/// GRU over the second-last axis of `x`; returns all hidden states.
///
/// Kernels are `[in, 3 out]` and `[out, 3 out]`, biases `[3 out]`, gates in the order reset, update, new. The reset
/// gate is applied after the recurrent matmul, as in torch.
pub fn gru_update(
    x: &Tensor,
    h: &Tensor,
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: Option<&Tensor>,
    recurrent_bias: Option<&Tensor>,
) -> Result<Tensor> {
    let biases = [bias, recurrent_bias];
    let inputs = recurrent_inputs("gru_update", 3, x, h, [kernel, recurrent_kernel], biases)?;
    let inner = recurrent_bias
        .map(|b| ops::cast(b, inputs.wide).done())
        .transpose()?;
    steps(&inputs, |h, z| {
        let mut own = ops::matmul(h, &inputs.recurrent);
        if let Some(b) = &inner {
            own = own + b;
        }
        let (own, z) = (ops::split(&own.done()?, 3, -1)?, ops::split(z, 3, -1)?);
        let reset = ops::sigmoid(&z[0] + &own[0]);
        let keep = ops::sigmoid(&z[1] + &own[1]).done()?;
        let new = ops::tanh(&z[2] + reset * &own[2]).done()?;
        // The same as (1 - keep) new + keep h, with one multiplication.
        (&new + &keep * (h - &new)).done()
    })
}

/// `h = tanh(x kernel + h recurrent_kernel)`, or `relu`, over the second-last axis of `x`; returns all hidden states.
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
    let mut inputs = recurrent_inputs("rnn_update", 1, x, h, [kernel, recurrent_kernel], biases)?;
    if let Some(b) = recurrent_bias {
        inputs.outside = (&inputs.outside + ops::cast(b, inputs.wide)).done()?;
    }
    steps(&inputs, |h, z| {
        let sum = z + ops::matmul(h, &inputs.recurrent);
        match relu {
            true => ops::relu(sum).done(),
            false => ops::tanh(sum).done(),
        }
    })
}
