//! Activation functions, numerically stable for large arguments of either sign.

use crate::expr::Expr;
use crate::ops::{self, Ops};
use crate::tensor::Tensor;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// max(x, 0); the derivative at 0 is 0.
pub fn relu(x: &Tensor) -> Expr {
    ops::where_(ops::greater(x, 0), x, 0).cast(x.dtype())
}

/// Leaky ReLU: x where positive, negative_slope x elsewhere.
pub fn leaky_relu(x: &Tensor, negative_slope: f64) -> Expr {
    ops::where_(ops::greater(x, 0.0), x, x * negative_slope)
}

/// x where positive, alpha (exp(x) - 1) elsewhere. Large x are masked in the exp branch to avoid overflow.
pub fn elu(x: &Tensor, alpha: f64) -> Expr {
    let positive = ops::greater(x, 0.0);
    let low = ops::where_(&positive, 0.0, x);
    ops::where_(positive, x, low.expm1() * alpha)
}

/// elu with the constants that preserve mean and variance.
pub fn selu(x: &Tensor) -> Expr {
    const ALPHA: f64 = 1.673_263_242_354_377_2;
    const SCALE: f64 = 1.050_700_987_355_480_5;
    elu(x, ALPHA) * SCALE
}

/// 1 / (1 + exp(-x)), without overflow on either side.
pub fn sigmoid(x: &Tensor) -> Expr {
    (x * 0.5).tanh() * 0.5 + 0.5
}

/// log(sigmoid(x)).
pub fn log_sigmoid(x: &Tensor) -> Expr {
    -(-x).then(|x| softplus(&x))
}

/// x sigmoid(x).
pub fn silu(x: &Tensor) -> Expr {
    x * crate::ops::composites::sigmoid(x)
}

/// log(1 + exp(x)).
pub fn softplus(x: &Tensor) -> Expr {
    ops::logaddexp(x, 0.0)
}

/// x tanh(softplus(x)).
pub fn mish(x: &Tensor) -> Expr {
    x * softplus(x).tanh()
}

/// relu6(x + 3) / 6.
pub fn hard_sigmoid(x: &Tensor) -> Expr {
    ops::clamp(x + 3.0, 0.0, 6.0) / 6.0
}

/// x hard_sigmoid(x).
pub fn hard_swish(x: &Tensor) -> Expr {
    x * hard_sigmoid(x)
}

/// x Φ(x).
pub fn gelu(x: &Tensor) -> Expr {
    // erfc keeps precision in the tail: 1 + erf(x) would be 0 below -6.
    x * 0.5 * ops::erfc(x * -FRAC_1_SQRT_2)
}

/// The tanh approximation of gelu.
pub fn gelu_tanh(x: &Tensor) -> Expr {
    let inner = (x + x.cube() * 0.044_715) * (2.0 / PI).sqrt();
    x * 0.5 * (inner.tanh() + 1.0)
}

trait Cube {
    fn cube(self) -> Expr;
}
impl Cube for &Tensor {
    fn cube(self) -> Expr {
        self.square() * self
    }
}
