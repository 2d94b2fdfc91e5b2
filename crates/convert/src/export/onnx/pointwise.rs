//! Elementwise ops.

use super::emit::{Attr, Call, Emitter};
use clematis_core::op::{Binary, Compare, Unary};
use clematis_core::{Composite, DType, Op, Result, bail};

impl Emitter {
    /// Elementwise ops.
    pub fn pointwise(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        let x = c.x(0);
        Ok(Some(match c.op {
            Op::Unary(u) => self.unary(*u, x, c.dtype())?,
            Op::Binary(b) => self.binary(*b, x, c.x(1), c.dtype())?,
            Op::Compare(p) => self.compare(*p, x, c.x(1), c.dtype()),
            Op::Select => self.op("Where", &[x, c.x(1), c.x(2)]),
            Op::Clamp => {
                let low = self.op("Max", &[c.x(1), x]);
                self.op("Min", &[&low, c.x(2)])
            }
            Op::StopGradient => self.op("Identity", &[x]),
            Op::Cast(to) if *to == c.dtype() => self.op("Identity", &[x]),
            Op::Cast(to) => {
                if to.is_complex() || c.dtype().is_complex() {
                    bail!(Unsupported, "to_onnx: complex numbers");
                }
                self.cast(x, *to)
            }
            Op::Call(composite) => match &**composite {
                Composite::Relu {} => self.op("Relu", &[x]),
                Composite::LeakyRelu { negative_slope } => {
                    self.op_with("LeakyRelu", &[x], &[Attr::Float("alpha", negative_slope.0)])
                }
                Composite::Elu { alpha } => {
                    self.op_with("Elu", &[x], &[Attr::Float("alpha", alpha.0)])
                }
                Composite::Selu {} => self.op("Selu", &[x]),
                Composite::Gelu { approximate } => {
                    let word = if *approximate { "tanh" } else { "none" };
                    self.op_with("Gelu", &[x], &[Attr::Text("approximate", word)])
                }
                Composite::Sigmoid {} => self.op("Sigmoid", &[x]),
                Composite::Silu {} => {
                    let gate = self.op("Sigmoid", &[x]);
                    self.op("Mul", &[x, &gate])
                }
                Composite::LogSigmoid {} => {
                    let back = self.op("Neg", &[x]);
                    let soft = self.op("Softplus", &[&back]);
                    self.op("Neg", &[&soft])
                }
                Composite::Softplus {} => self.op("Softplus", &[x]),
                Composite::Mish {} => self.op("Mish", &[x]),
                Composite::HardSigmoid {} => self.op_with(
                    "HardSigmoid",
                    &[x],
                    &[Attr::Float("alpha", 1.0 / 6.0), Attr::Float("beta", 0.5)],
                ),
                Composite::HardSwish {} => self.op("HardSwish", &[x]),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn unary(&mut self, u: Unary, x: &str, dtype: DType) -> Result<String> {
        use Unary::*;
        let plain = match u {
            Neg => "Neg",
            Positive | Real | Conj => "Identity",
            Abs => "Abs",
            Sign => "Sign",
            Reciprocal => "Reciprocal",
            Sqrt => "Sqrt",
            Exp => "Exp",
            Log => "Log",
            Sin => "Sin",
            Cos => "Cos",
            Tan => "Tan",
            Asin => "Asin",
            Acos => "Acos",
            Atan => "Atan",
            Sinh => "Sinh",
            Cosh => "Cosh",
            Tanh => "Tanh",
            Asinh => "Asinh",
            Acosh => "Acosh",
            Atanh => "Atanh",
            Erf => "Erf",
            _ => "",
        };
        if dtype.is_complex() {
            bail!(Unsupported, "to_onnx: complex numbers");
        }
        if !plain.is_empty() {
            return Ok(self.op(plain, &[x]));
        }
        Ok(match u {
            Square => self.op("Mul", &[x, x]),
            Rsqrt => {
                let root = self.op("Sqrt", &[x]);
                self.op("Reciprocal", &[&root])
            }
            Cbrt => {
                let (size, third) = (self.op("Abs", &[x]), self.number(1.0 / 3.0, dtype)?);
                let (root, sign) = (self.op("Pow", &[&size, &third]), self.op("Sign", &[x]));
                self.op("Mul", &[&root, &sign])
            }
            Exp2 => {
                let two = self.number(2.0, dtype)?;
                self.op("Pow", &[&two, x])
            }
            Expm1 => {
                let (power, one) = (self.op("Exp", &[x]), self.number(1.0, dtype)?);
                self.op("Sub", &[&power, &one])
            }
            Log2 | Log10 => {
                let base: f64 = if u == Log2 { 2.0 } else { 10.0 };
                let (log, by) = (self.op("Log", &[x]), self.number(base.ln().recip(), dtype)?);
                self.op("Mul", &[&log, &by])
            }
            Log1p => {
                let one = self.number(1.0, dtype)?;
                let sum = self.op("Add", &[x, &one]);
                self.op("Log", &[&sum])
            }
            Erfc => {
                let (erf, one) = (self.op("Erf", &[x]), self.number(1.0, dtype)?);
                self.op("Sub", &[&one, &erf])
            }
            Floor | Ceil | Trunc | Round if !dtype.is_float() => self.op("Identity", &[x]),
            Floor => self.op("Floor", &[x]),
            Ceil => self.op("Ceil", &[x]),
            Round => self.op("Round", &[x]),
            Trunc => {
                let size = self.op("Abs", &[x]);
                let (whole, sign) = (self.op("Floor", &[&size]), self.op("Sign", &[x]));
                self.op("Mul", &[&whole, &sign])
            }
            IsNan if dtype.is_float() => self.op("IsNaN", &[x]),
            IsInf if dtype.is_float() => self.op("IsInf", &[x]),
            IsFinite if dtype.is_float() => {
                let (nan, inf) = (self.op("IsNaN", &[x]), self.op("IsInf", &[x]));
                let either = self.op("Or", &[&nan, &inf]);
                self.op("Not", &[&either])
            }
            IsNan | IsInf => {
                let same = self.op("Equal", &[x, x]);
                self.op("Not", &[&same])
            }
            IsFinite => self.op("Equal", &[x, x]),
            Signbit => {
                let zero = self.number(0.0, dtype)?;
                self.op("Less", &[x, &zero])
            }
            LogicalNot | BitwiseNot if dtype == DType::Bool => self.op("Not", &[x]),
            LogicalNot => {
                let zero = self.number(0.0, dtype)?;
                self.op("Equal", &[x, &zero])
            }
            BitwiseNot => self.op("BitwiseNot", &[x]),
            other => bail!(
                Unsupported,
                "to_onnx: unsupported operator `{}`",
                other.name()
            ),
        })
    }

    /// Whether each element is not zero.
    fn truth(&mut self, x: &str, dtype: DType) -> String {
        if dtype == DType::Bool {
            x.to_string()
        } else {
            self.cast(x, DType::Bool)
        }
    }

    fn binary(&mut self, b: Binary, x: &str, y: &str, dtype: DType) -> Result<String> {
        use Binary::*;
        if dtype.is_complex() {
            bail!(Unsupported, "to_onnx: complex numbers");
        }
        let bool_ = dtype == DType::Bool;
        Ok(match b {
            Add if bool_ => self.op("Or", &[x, y]),
            Mul if bool_ => self.op("And", &[x, y]),
            Add => self.op("Add", &[x, y]),
            Sub => self.op("Sub", &[x, y]),
            Mul => self.op("Mul", &[x, y]),
            Div => self.op("Div", &[x, y]),
            Pow => self.op("Pow", &[x, y]),
            Maximum | Minimum if bool_ => self.op(if b == Maximum { "Or" } else { "And" }, &[x, y]),
            Maximum => self.op("Max", &[x, y]),
            Minimum => self.op("Min", &[x, y]),
            Fmod => self.op_with("Mod", &[x, y], &[Attr::Int("fmod", 1)]),
            Remainder if dtype.is_int() => self.op("Mod", &[x, y]),
            Remainder | FloorDivide if dtype.is_float() => {
                let share = self.op("Div", &[x, y]);
                let whole = self.op("Floor", &[&share]);
                if b == FloorDivide {
                    return Ok(whole);
                }
                let part = self.op("Mul", &[&whole, y]);
                self.op("Sub", &[x, &part])
            }
            FloorDivide => {
                let rest = self.op("Mod", &[x, y]);
                let whole = self.op("Sub", &[x, &rest]);
                self.op("Div", &[&whole, y])
            }
            Hypot => {
                let (x, y) = (self.op("Mul", &[x, x]), self.op("Mul", &[y, y]));
                let sum = self.op("Add", &[&x, &y]);
                self.op("Sqrt", &[&sum])
            }
            Logaddexp => {
                let (most, apart) = (self.op("Max", &[x, y]), self.op("Sub", &[x, y]));
                let apart = self.op("Abs", &[&apart]);
                let back = self.op("Neg", &[&apart]);
                let soft = self.op("Exp", &[&back]);
                let one = self.number(1.0, dtype)?;
                let sum = self.op("Add", &[&soft, &one]);
                let more = self.op("Log", &[&sum]);
                self.op("Add", &[&most, &more])
            }
            Copysign => {
                let zero = self.number(0.0, dtype)?;
                let (size, below) = (self.op("Abs", &[x]), self.op("Less", &[y, &zero]));
                let back = self.op("Neg", &[&size]);
                self.op("Where", &[&below, &back, &size])
            }
            Atan2 => {
                // The angle of the quotient, plus or minus π in the left half-plane.
                let (zero, half) = (
                    self.number(0.0, dtype)?,
                    self.number(std::f64::consts::PI, dtype)?,
                );
                let share = self.op("Div", &[x, y]);
                let angle = self.op("Atan", &[&share]);
                let (left, below) = (self.op("Less", &[y, &zero]), self.op("Less", &[x, &zero]));
                let (more, less) = (
                    self.op("Add", &[&angle, &half]),
                    self.op("Sub", &[&angle, &half]),
                );
                let shifted = self.op("Where", &[&below, &less, &more]);
                let found = self.op("Where", &[&left, &shifted, &angle]);
                let (flat, upright) =
                    (self.op("Equal", &[x, &zero]), self.op("Equal", &[y, &zero]));
                let both = self.op("And", &[&flat, &upright]);
                self.op("Where", &[&both, &zero, &found])
            }
            LogicalAnd | LogicalOr | LogicalXor => {
                let (x, y) = (self.truth(x, dtype), self.truth(y, dtype));
                let word = match b {
                    LogicalAnd => "And",
                    LogicalOr => "Or",
                    _ => "Xor",
                };
                self.op(word, &[&x, &y])
            }
            BitwiseAnd | BitwiseOr | BitwiseXor => {
                let word = match (b, bool_) {
                    (BitwiseAnd, true) => "And",
                    (BitwiseOr, true) => "Or",
                    (BitwiseXor, true) => "Xor",
                    (BitwiseAnd, false) => "BitwiseAnd",
                    (BitwiseOr, false) => "BitwiseOr",
                    _ => "BitwiseXor",
                };
                self.op(word, &[x, y])
            }
            ShiftLeft | ShiftRight if dtype.is_unsigned() => {
                let word = if b == ShiftLeft { "LEFT" } else { "RIGHT" };
                self.op_with("BitShift", &[x, y], &[Attr::Text("direction", word)])
            }
            other => bail!(
                Unsupported,
                "to_onnx: unsupported operator `{}` of {dtype}",
                other.name()
            ),
        })
    }

    fn compare(&mut self, p: Compare, x: &str, y: &str, dtype: DType) -> String {
        // Booleans are compared as small integers.
        let (x, y) = match dtype == DType::Bool && !matches!(p, Compare::Equal | Compare::NotEqual)
        {
            true => (self.cast(x, DType::I32), self.cast(y, DType::I32)),
            false => (x.to_string(), y.to_string()),
        };
        let word = match p {
            Compare::Equal => "Equal",
            Compare::NotEqual => {
                let same = self.op("Equal", &[&x, &y]);
                return self.op("Not", &[&same]);
            }
            Compare::Less => "Less",
            Compare::LessEqual => "LessOrEqual",
            Compare::Greater => "Greater",
            Compare::GreaterEqual => "GreaterOrEqual",
        };
        self.op(word, &[&x, &y])
    }
}
