//! The update formulas, in one dtype.

use super::Rule;
use crate::functional::safe_sqrt;
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Result, Tensor, bail, ops};

/// The scalar inputs of an update: learning rate and bias corrections.
pub(super) struct Numbers {
    /// The learning rate.
    lr: Tensor,
    /// Bias correction of the gradient average: 1 - beta1ᵗ.
    missing: Tensor,
    /// Square root of the bias correction of the squared average: √(1 - beta2ᵗ).
    root: Tensor,
    /// The learning rate divided by `missing`.
    scaled: Tensor,
    /// The factor that weight decay leaves of a parameter.
    kept: Tensor,
}

impl Numbers {
    /// Number of scalars.
    pub(super) const COUNT: usize = 5;

    /// Weakly typed numbers, which adopt their neighbours' dtype.
    pub(super) fn plain(numbers: [f64; Numbers::COUNT]) -> Self {
        let [lr, missing, root, scaled, kept] = numbers.map(Tensor::number);
        Numbers {
            lr,
            missing,
            root,
            scaled,
            kept,
        }
    }

    /// The elements of a vector, in a dtype.
    pub(super) fn of(vector: &Tensor, dtype: DType) -> Result<Self> {
        let all = ops::cast(vector, dtype).done()?;
        let at = |i: usize| ops::squeeze(ops::slice_axis(&all, 0, i, i + 1), 0).done();
        Ok(Numbers {
            lr: at(0)?,
            missing: at(1)?,
            root: at(2)?,
            scaled: at(3)?,
            kept: at(4)?,
        })
    }
}

impl Rule {
    /// The scalars of one step: learning rate, bias corrections, corrected rate, decay factor.
    pub fn numbers(&self, lr: f64, count: u64) -> [f64; 5] {
        let t = count as f64;
        let (beta1, beta2, decay) = match *self {
            Rule::Adam {
                beta1,
                beta2,
                weight_decay,
                ..
            }
            | Rule::Lamb {
                beta1,
                beta2,
                weight_decay,
                ..
            } => (beta1, beta2, weight_decay),
            Rule::Lion { weight_decay, .. } => (0.0, 0.0, weight_decay),
            _ => (0.0, 0.0, 0.0),
        };
        let (c1, c2) = (1.0 - beta1.powf(t), 1.0 - beta2.powf(t));
        [lr, c1, c2.sqrt(), lr / c1, 1.0 - lr * decay]
    }

    /// Computes the new parameter; updates the moments in place.
    pub(super) fn formula(
        &self,
        w: &Tensor,
        g: &Tensor,
        slots: &mut [Tensor],
        numbers: &Numbers,
    ) -> Result<Tensor> {
        let Numbers {
            lr,
            missing,
            root,
            scaled,
            kept,
        } = numbers;
        match (*self, slots) {
            (
                Rule::Sgd {
                    momentum,
                    nesterov,
                    weight_decay,
                },
                slots,
            ) => {
                let g = decayed(g, w, weight_decay)?;
                let [velocity] = slots else {
                    return (w - g * lr).done();
                };
                *velocity = (&*velocity * momentum + &g).done()?;
                match nesterov {
                    true => (w - (g + &*velocity * momentum) * lr).done(),
                    false => (w - &*velocity * lr).done(),
                }
            }
            (
                Rule::Adam {
                    beta1,
                    beta2,
                    epsilon,
                    weight_decay,
                    decoupled,
                },
                [mean, square],
            ) => {
                let g = decayed(g, w, if decoupled { 0.0 } else { weight_decay })?;
                averages(&g, mean, square, beta1, beta2)?;
                // Both averages start at zero, which the bias corrections compensate.
                let root = safe_sqrt(square) / root + epsilon;
                let step = &*mean / root * scaled;
                match decoupled && weight_decay != 0.0 {
                    true => (w * kept - step).done(),
                    false => (w - step).done(),
                }
            }
            (
                Rule::Lars {
                    momentum,
                    weight_decay,
                    trust,
                },
                slots,
            ) => {
                let (own, grad) = (ops::norm(w, ..).done()?, ops::norm(g, ..).done()?);
                let below = &grad + &own * weight_decay;
                let ratio = ratio(&own, &grad, &own * trust, below)?;
                let step = (decayed(g, w, weight_decay)? * (ratio * lr)).done()?;
                let [velocity] = slots else {
                    return (w - step).done();
                };
                *velocity = (&*velocity * momentum + step).done()?;
                (w - &*velocity).done()
            }
            (
                Rule::Lamb {
                    beta1,
                    beta2,
                    epsilon,
                    weight_decay,
                    most,
                },
                [mean, square],
            ) => {
                averages(g, mean, square, beta1, beta2)?;
                let root = safe_sqrt(square) / root + epsilon;
                let step = decayed(&(&*mean / root / missing).done()?, w, weight_decay)?;
                let (own, length) = (ops::norm(w, ..).done()?, ops::norm(&step, ..).done()?);
                let ratio = ratio(&own, &length, &own, &length)?;
                (w - step * (ops::minimum(ratio, most) * lr)).done()
            }
            (
                Rule::RmsProp {
                    alpha,
                    epsilon,
                    momentum,
                    centered,
                    weight_decay,
                },
                [square, rest @ ..],
            ) => {
                let g = decayed(g, w, weight_decay)?;
                *square = (&*square * alpha + ops::square(&g) * (1.0 - alpha)).done()?;
                let (root, rest) = match (centered, rest) {
                    (true, [mean, rest @ ..]) => {
                        *mean = (&*mean * alpha + &g * (1.0 - alpha)).done()?;
                        // Rounding can make the difference negative.
                        let spread = (&*square - ops::square(&*mean)).done()?;
                        (safe_sqrt(&spread), rest)
                    }
                    (_, rest) => (safe_sqrt(square), rest),
                };
                let step = (&g / (root + epsilon)).done()?;
                let [velocity] = rest else {
                    return (w - step * lr).done();
                };
                *velocity = (&*velocity * momentum + step).done()?;
                (w - &*velocity * lr).done()
            }
            (
                Rule::Adagrad {
                    epsilon,
                    weight_decay,
                },
                [square],
            ) => {
                let g = decayed(g, w, weight_decay)?;
                *square = (&*square + ops::square(&g)).done()?;
                (w - g / (safe_sqrt(square) + epsilon) * lr).done()
            }
            (
                Rule::Lion {
                    beta1,
                    beta2,
                    weight_decay,
                },
                [mean],
            ) => {
                let step = ops::sign(&*mean * beta1 + g * (1.0 - beta1));
                *mean = (&*mean * beta2 + g * (1.0 - beta2)).done()?;
                match weight_decay != 0.0 {
                    true => (w * kept - step * lr).done(),
                    false => (w - step * lr).done(),
                }
            }
            _ => bail!(Internal, "{}: moments are missing", self.name()),
        }
    }
}

/// The gradient with the L2 penalty.
fn decayed(g: &Tensor, w: &Tensor, decay: f64) -> Result<Tensor> {
    if decay == 0.0 {
        return Ok(g.clone());
    }
    (g + w * decay).done()
}

/// Updates the moving averages of gradients and squared gradients.
fn averages(
    g: &Tensor,
    mean: &mut Tensor,
    square: &mut Tensor,
    beta1: f64,
    beta2: f64,
) -> Result<()> {
    *mean = (&*mean * beta1 + g * (1.0 - beta1)).done()?;
    *square = (&*square * beta2 + ops::square(g) * (1.0 - beta2)).done()?;
    Ok(())
}

/// A ratio of norms, or 1 if one norm is 0: a parameter of zeros must still be updated.
fn ratio(one: &Tensor, two: &Tensor, above: impl IntoExpr, below: impl IntoExpr) -> Result<Expr> {
    let some = ops::logical_and(ops::greater(one, 0.0), ops::greater(two, 0.0)).done()?;
    let below = ops::where_(&some, below, 1.0);
    Ok(ops::where_(&some, above.into_expr() / below, 1.0))
}
