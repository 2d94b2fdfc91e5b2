//! Layers with an ONNX operator.

use super::emit::{Attr, Call, Emitter};
use clematis_core::host::Host;
use clematis_core::{Composite, DType, Op, Result, Shape};

impl Emitter {
    /// Normalization and softmax.
    pub fn layers(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        let Op::Call(composite) = c.op else {
            return Ok(None);
        };
        let x = c.x(0);
        Ok(Some(match &**composite {
            Composite::Softmax { axis } => {
                self.op_with("Softmax", &[x], &[Attr::Int("axis", *axis as i64)])
            }
            Composite::LogSoftmax { axis } => {
                self.op_with("LogSoftmax", &[x], &[Attr::Int("axis", *axis as i64)])
            }
            Composite::LayerNorm { axis, epsilon } => {
                let rest = Shape::from_dims(c.shape(0).dims()[*axis..].iter().copied());
                let scale = match c.args.len() {
                    1 if rest.is_symbolic() => return Ok(None),
                    1 => self.filled(&rest, 1.0, c.dtype())?,
                    _ => c.x(1).to_string(),
                };
                let mut args = vec![x, &scale];
                if c.args.len() > 2 {
                    args.push(c.x(2));
                }
                self.op_with(
                    "LayerNormalization",
                    &args,
                    &[
                        Attr::Int("axis", *axis as i64),
                        Attr::Float("epsilon", epsilon.0),
                    ],
                )
            }
            Composite::BatchNorm { axis: 1, epsilon } if c.shape(0).rank() >= 2 => {
                let row = c.shape(1).clone();
                let part = |own: &mut Self, i: usize, value: f64| match c.args.get(i) {
                    Some(name) => Ok(Some(name.clone())),
                    None if row.is_symbolic() => Ok(None),
                    None => own.filled(&row, value, c.dtype()).map(Some),
                };
                let (Some(scale), Some(bias)) = (part(self, 3, 1.0)?, part(self, 4, 0.0)?) else {
                    return Ok(None);
                };
                self.op_with(
                    "BatchNormalization",
                    &[x, &scale, &bias, c.x(1), c.x(2)],
                    &[Attr::Float("epsilon", epsilon.0)],
                )
            }
            _ => return Ok(None),
        }))
    }

    /// A constant tensor with one value.
    fn filled(&mut self, shape: &Shape, value: f64, dtype: DType) -> Result<String> {
        let count = shape.count();
        let host = clematis_core::with_element!(dtype, T => {
            use clematis_core::Element;
            Host::from_slice(&vec![T::from_scalar(value.into()); count], shape.clone())
        });
        self.constant(host?)
    }
}
