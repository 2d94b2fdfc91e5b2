//! The LSTM layer.

use super::common;
use clematis_core::control;
use clematis_core::{DType, Result, Tensor, ensure, ops};

/// LSTM over the second-last axis of `x`; returns all hidden states and the last cell state.
///
/// Kernels are `[in, 4 out]` and `[out, 4 out]`, biases `[4 out]`, gates in the order input, forget, cell, output.
#[allow(clippy::too_many_arguments)]
pub fn lstm_update(
    x: &Tensor,
    h: &Tensor,
    c: &Tensor,
    kernel: &Tensor,
    recurrent_kernel: &Tensor,
    bias: Option<&Tensor>,
    recurrent_bias: Option<&Tensor>,
) -> Result<(Tensor, Tensor)> {
    let op = "lstm_update";
    ensure!(
        x.rank() >= 2 && kernel.rank() == 2 && recurrent_kernel.rank() == 2,
        Shape,
        "{op}: expected x [batch…, time, in] and two matrices as kernels, got {}, {} and {}",
        x.spec(),
        kernel.spec(),
        recurrent_kernel.spec()
    );
    let (time, inputs) = (x.rank() - 2, x.rank() - 1);
    let (rows, columns) = (kernel.shape().dims(), recurrent_kernel.shape().dims());
    let outputs = columns[0];
    ensure!(
        rows[0] == x.shape().dims()[inputs]
            && rows[1] == columns[1]
            && outputs * 4usize.into() == columns[1],
        Shape,
        "{op}: x {}, kernel {} [in, 4 out] and recurrent kernel {} [out, 4 out] do not match",
        x.spec(),
        kernel.spec(),
        recurrent_kernel.spec()
    );
    for b in [bias, recurrent_bias].into_iter().flatten() {
        ensure!(
            b.rank() == 1 && b.shape().dims()[0] == rows[1],
            Shape,
            "{op}: the bias {} does not match {} gates",
            b.spec(),
            rows[1]
        );
    }
    let mut all = vec![x, h, c, kernel, recurrent_kernel];
    all.extend([bias, recurrent_bias].into_iter().flatten());
    super::real(op, &all)?;
    let met = common(&all);
    let dtype = if met.is_float() { met } else { DType::FLOAT };
    // In half precision every step would round.
    let wide = dtype.accumulator();
    let state = x.shape().without(&[time]).with(time, outputs);
    let start = |s: &Tensor| {
        let fits = s.shape().broadcast(&state).is_some_and(|met| met == state);
        ensure!(
            fits,
            Shape,
            "{op}: got a state {}, expected {state:?}",
            s.spec()
        );
        ops::broadcast_to(ops::cast(s, wide), &state).done()
    };
    let (h, c) = (start(h)?, start(c)?);
    let recurrent = ops::cast(recurrent_kernel, wide).done()?;
    // The input contribution is one matmul for all steps.
    let mut outside = ops::matmul(ops::cast(x, wide), ops::cast(kernel, wide));
    for b in [bias, recurrent_bias].into_iter().flatten() {
        outside = outside + ops::cast(b, wide);
    }
    let steps = ops::move_axis(outside, time as i64, 0).done()?;
    let ((_, c), hs) = control::scan(&(h, c), &steps, None, false, |(h, c), z| {
        let gates = (z + ops::matmul(h, &recurrent)).done()?;
        let parts = ops::split(&gates, 4, -1)?;
        let kept = ops::sigmoid(&parts[1]) * c;
        let c = (kept + ops::sigmoid(&parts[0]) * ops::tanh(&parts[2])).done()?;
        let h = (ops::sigmoid(&parts[3]) * ops::tanh(&c)).done()?;
        Ok(((h.clone(), c), h))
    })?;
    let hs = ops::move_axis(&hs, 0, time as i64);
    Ok((ops::cast(hs, dtype).done()?, ops::cast(&c, dtype).done()?))
}
