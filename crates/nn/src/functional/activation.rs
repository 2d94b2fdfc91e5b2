//! Activation functions that are not core composites.

use super::{float, rounded_once};
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{Result, Tensor, ensure, ops};

/// `log(1 + exp(beta x)) / beta`; x itself above `threshold`, where the difference is negligible.
pub fn softplus(x: impl IntoExpr, beta: Option<f64>, threshold: Option<f64>) -> Expr {
    let x = x.into_expr();
    if beta.is_none() && threshold.is_none() {
        return ops::softplus(x);
    }
    x.then(|x| -> Result<Tensor> {
        let beta = beta.unwrap_or(1.0);
        ensure!(
            beta != 0.0 && beta.is_finite(),
            Value,
            "softplus: expected a nonzero beta, got {beta}"
        );
        rounded_once(&float(&x)?, |x| {
            (&x * beta).then(|scaled| {
                let smooth = ops::softplus(&scaled) / beta;
                match threshold {
                    Some(t) => ops::where_(ops::greater(&scaled, t), &x, smooth),
                    None => smooth,
                }
            })
        })
    })
}

/// x clipped to [0, 6].
pub fn relu6(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| ops::clamp(&x, 0, 6))
}

/// x where it is above the threshold, 0 elsewhere.
pub fn thresholded_relu(x: impl IntoExpr, threshold: f64) -> Expr {
    x.into_expr().then(|x| {
        let zero = ops::cast(0, x.dtype());
        ops::where_(ops::greater(&x, threshold), &x, zero)
    })
}

/// Parametric ReLU: x where positive, `weight` x elsewhere.
pub fn prelu(x: impl IntoExpr, weight: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| {
        let below = weight.into_expr() * &x;
        ops::where_(ops::greater(&x, 0), &x, below)
    })
}

/// `log(x / (1 - x))`; x is clipped to `[eps, 1 - eps]` if `eps` is given.
pub fn logit(x: impl IntoExpr, eps: Option<f64>) -> Expr {
    x.into_expr().then(|x| -> Result<Tensor> {
        rounded_once(&float(&x)?, |x| {
            let x = match eps {
                Some(eps) => ops::clamp(&x, eps, 1.0 - eps),
                None => x.into_expr(),
            };
            x.then(|x| ops::log(&x) - ops::log1p(-&x))
        })
    })
}

/// The first half of the last axis times `gelu` of the second.
pub fn geglu(x: impl IntoExpr) -> Expr {
    x.into_expr().then(|x| -> Result<Tensor> {
        let (own, gate) = super::attention::split_last("geglu", &float(&x)?)?;
        (own * ops::gelu(gate, false)).done()
    })
}
