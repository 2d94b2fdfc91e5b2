//! Expansions of composites into simpler ops.
//!
//! Expansions are written with the functions in `ops`, so they run on every backend, differentiate and trace. A
//! composite that keeps its operand's dtype computes sums of half-precision values in f32.

pub mod activation;
pub mod attention;
pub mod conv;
pub mod einsum;
pub mod linalg;
pub mod norm;
pub mod recurrent;
pub mod resize;
pub mod softmax;

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::Expr;
use crate::infer::{infer, legal_axes};
use crate::op::{Composite, Op};
use crate::ops;
use crate::outs::Outs;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::{bail, ensure};

impl Op {
    /// Computes an op from other ops: composites, loops and branches, custom ops.
    pub fn expand(&self, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        match self {
            Op::Call(c) => c.expand(inputs),
            Op::Custom(c) => c.0.expand(inputs).map(Outs::Many),
            Op::Cond(p) => self.legal(inputs).and_then(|()| p.run(inputs)),
            Op::While(p) => self.legal(inputs).and_then(|()| p.run(inputs)),
            Op::Scan(p) => self.legal(inputs).and_then(|()| p.run(inputs)),
            other => bail!(
                Unsupported,
                "{}: primitive op without an expansion; the backend must implement it",
                other.name()
            ),
        }
    }

    /// Checks a loop before it runs, not at the step that does not fit.
    fn legal(&self, inputs: &[&Tensor]) -> Result<()> {
        let specs: Vec<&Spec> = inputs.iter().map(|x| x.spec()).collect();
        infer(self, &specs).map(|_| ())
    }
}

/// Destructures the operands of a composite: `N` required ones and up to `M` optional ones.
fn operands<'a, const N: usize, const M: usize>(
    op: &str,
    inputs: &[&'a Tensor],
) -> Result<([&'a Tensor; N], [Option<&'a Tensor>; M])> {
    ensure!(
        (N..=N + M).contains(&inputs.len()),
        Value,
        "{op}: takes {N} to {} operands, not {}",
        N + M,
        inputs.len()
    );
    let mut optional = [None; M];
    for (slot, x) in optional.iter_mut().zip(&inputs[N..]) {
        *slot = Some(*x);
    }
    match <[&Tensor; N]>::try_from(&inputs[..N]) {
        Ok(required) => Ok((required, optional)),
        Err(_) => bail!(Internal, "{op}: operands"),
    }
}

/// Computes half-precision values in f32 and rounds once.
fn in_f32(x: &Tensor, f: impl FnOnce(Tensor) -> Result<Tensor>) -> Result<Tensor> {
    match x.dtype() {
        DType::F16 | DType::BF16 => {
            ops::cast(f(ops::cast(x, DType::F32).done()?)?, x.dtype()).done()
        }
        _ => f(x.clone()),
    }
}

impl Composite {
    /// Checks the dtype of the first operand.
    pub(crate) fn check(&self, first: Option<&Spec>) -> Result<()> {
        if let Some(x) = first {
            ensure!(
                self.takes().includes(x.dtype),
                DType,
                "{}: takes {}, not {x}",
                self.name(),
                self.takes().describe()
            );
        }
        Ok(())
    }

    /// Computes the composite from other ops.
    pub fn expand(&self, inputs: &[&Tensor]) -> Result<Outs<Tensor>> {
        use Composite::*;
        self.check(inputs.first().map(|x| x.spec()))?;
        let name = self.name();
        let one = |x: Result<Tensor>| x.map(Outs::One);
        let unary = |f: fn(&Tensor) -> Expr| {
            let ([x], []) = operands(name, inputs)?;
            in_f32(x, |x| f(&x).done()).map(Outs::One)
        };
        match self {
            Relu {} => unary(activation::relu),
            Selu {} => unary(activation::selu),
            Sigmoid {} => unary(activation::sigmoid),
            LogSigmoid {} => unary(activation::log_sigmoid),
            Silu {} => unary(activation::silu),
            Softplus {} => unary(activation::softplus),
            Mish {} => unary(activation::mish),
            HardSigmoid {} => unary(activation::hard_sigmoid),
            HardSwish {} => unary(activation::hard_swish),
            Gelu { approximate: false } => unary(activation::gelu),
            Gelu { approximate: true } => unary(activation::gelu_tanh),
            LeakyRelu { negative_slope } => {
                let ([x], []) = operands(name, inputs)?;
                one(activation::leaky_relu(x, negative_slope.0).done())
            }
            Elu { alpha } => {
                let ([x], []) = operands(name, inputs)?;
                one(in_f32(x, |x| activation::elu(&x, alpha.0).done()))
            }
            Softmax { axis } => {
                let ([x], []) = operands(name, inputs)?;
                one(in_f32(x, |x| softmax::softmax(&x, *axis)))
            }
            LogSoftmax { axis } => {
                let ([x], []) = operands(name, inputs)?;
                one(in_f32(x, |x| softmax::log_softmax(&x, *axis)))
            }
            LogSumExp { axes } => {
                let ([x], []) = operands(name, inputs)?;
                legal_axes(name, axes, x.rank())?;
                one(in_f32(x, |x| softmax::logsumexp(&x, axes)))
            }
            CrossEntropy {} => {
                let ([logits, labels], []) = operands(name, inputs)?;
                one(softmax::cross_entropy(logits, labels))
            }
            Mean { axes } => {
                let ([x], []) = operands(name, inputs)?;
                legal_axes(name, axes, x.rank())?;
                one(in_f32(x, |x| ops::reduce::mean_body(&x, axes).done()))
            }
            Var { axes, correction } => {
                let ([x], []) = operands(name, inputs)?;
                legal_axes(name, axes, x.rank())?;
                one(in_f32(x, |x| {
                    ops::reduce::var_body(&x, axes, correction.0).done()
                }))
            }
            LayerNorm { axis, epsilon } => {
                let ([x], [scale, bias]) = operands(name, inputs)?;
                one(in_f32(x, |x| {
                    norm::layer_norm(&x, scale, bias, *axis, epsilon.0)
                }))
            }
            LayerNormGrad { axis, epsilon } => {
                let ([x, ct], [scale]) = operands(name, inputs)?;
                norm::layer_norm_grad(x, ct, scale, *axis, epsilon.0).map(Outs::Many)
            }
            RmsNorm { axis, epsilon } => {
                let ([x], [scale]) = operands(name, inputs)?;
                one(in_f32(x, |x| norm::rms_norm(&x, scale, *axis, epsilon.0)))
            }
            GroupNorm {
                axis,
                groups,
                epsilon,
            } => {
                let ([x], [scale, bias]) = operands(name, inputs)?;
                one(in_f32(x, |x| {
                    norm::group_norm(&x, scale, bias, *axis, *groups, epsilon.0)
                }))
            }
            BatchNorm { axis, epsilon } => {
                let ([x, mean, variance], [scale, bias]) = operands(name, inputs)?;
                one(norm::batch_norm(
                    x, mean, variance, scale, bias, *axis, epsilon.0,
                ))
            }
            Linear {} => {
                let ([x, w], [b]) = operands(name, inputs)?;
                one(attention::linear(x, w, b))
            }
            Embedding {} => {
                let ([table, indices], []) = operands(name, inputs)?;
                one(attention::embedding(table, indices))
            }
            Attention { scale, causal } => {
                let ([q, k, v], [mask]) = operands(name, inputs)?;
                one(attention::attention(q, k, v, mask, scale.0, *causal))
            }
            Dropout { rate } => {
                let ([x, key], []) = operands(name, inputs)?;
                one(attention::dropout(x, key, rate.0))
            }
            ConvTranspose { .. } => {
                let ([x, w], []) = operands(name, inputs)?;
                one(conv::transpose(self, x, w))
            }
            MaxPool { .. } | AvgPool { .. } => {
                let ([x], []) = operands(name, inputs)?;
                one(conv::pool(self, x))
            }
            Resize {
                shape,
                method,
                align_corners,
                antialias,
            } => {
                let ([x], []) = operands(name, inputs)?;
                one(resize::resize(
                    x,
                    shape,
                    *method,
                    *align_corners,
                    *antialias,
                ))
            }
            Einsum { equation } => one(einsum::einsum(equation, inputs)),
            OneHot { depth, dtype } => {
                let ([i], []) = operands(name, inputs)?;
                one(softmax::one_hot(i, *depth, *dtype))
            }
            LstmCell {} => {
                let ([x, h, c, wx, wh], [b]) = operands(name, inputs)?;
                recurrent::lstm_cell(x, h, c, wx, wh, b).map(|(h, c)| Outs::Many(vec![h, c]))
            }
            GruCell {} => {
                let ([x, h, wx, wh], [bx, bh]) = operands(name, inputs)?;
                one(recurrent::gru_cell(x, h, wx, wh, bx, bh))
            }
            Solve {} => {
                let ([a, b], []) = operands(name, inputs)?;
                one(ops::linalg::solve_body(a, b))
            }
            Inv {} => {
                let ([a], []) = operands(name, inputs)?;
                one(linalg::inv(a))
            }
            Det {} => {
                let ([a], []) = operands(name, inputs)?;
                one(linalg::det(a))
            }
            RandomBits { dtype, shape } => {
                let ([key], []) = operands(name, inputs)?;
                one(crate::ops::bits::random_bits(key, *dtype, shape))
            }
            Function { body, .. } => Ok(Outs::Many(body.call(inputs)?)),
        }
    }
}
