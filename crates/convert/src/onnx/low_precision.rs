//! Low-precision ONNX dtypes (int2, int4, fp4, fp8): their encoding, and the wider dtype that holds their values.
//!
//! Values of such a dtype are stored as int8, uint8 or float32, and are rounded where the model rounds,
//! so results are those of the model; only the memory use differs.

use clematis_core::DType;

/// The encoding of a low-precision dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LowPrecision {
    /// An integer.
    Int {
        /// The number of bits.
        bits: u32,
        /// Whether it is signed.
        signed: bool,
    },
    /// A float.
    Float {
        /// Exponent bits.
        exponent: u32,
        /// Mantissa bits.
        mantissa: u32,
        /// The exponent bias.
        bias: i32,
        /// The encodings of non-finite values.
        special: Special,
    },
    /// A power of two (E8M0).
    Scale,
}

/// The non-finite values of a float format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Special {
    /// None.
    None,
    /// NaN with all bits except the sign set.
    Last,
    /// NaN in the encoding of negative zero.
    MinusZero,
    /// Infinities and NaN, as in IEEE formats.
    Infinities,
}

/// The type with this ONNX dtype code.
pub fn low_precision(code: i64) -> Option<LowPrecision> {
    let float = |exponent, mantissa, bias, special| LowPrecision::Float {
        exponent,
        mantissa,
        bias,
        special,
    };
    Some(match code {
        17 => float(4, 3, 7, Special::Last),
        18 => float(4, 3, 8, Special::MinusZero),
        19 => float(5, 2, 15, Special::Infinities),
        20 => float(5, 2, 16, Special::MinusZero),
        21 => int(4, false),
        22 => int(4, true),
        23 => float(2, 1, 1, Special::None),
        24 => LowPrecision::Scale,
        25 => int(2, false),
        26 => int(2, true),
        _ => return None,
    })
}

fn int(bits: u32, signed: bool) -> LowPrecision {
    LowPrecision::Int { bits, signed }
}

impl LowPrecision {
    /// The dtype that holds its values.
    pub fn storage_dtype(self) -> DType {
        match self {
            LowPrecision::Int { signed: true, .. } => DType::I8,
            LowPrecision::Int { signed: false, .. } => DType::U8,
            _ => DType::F32,
        }
    }

    /// Bits per element in a file.
    pub fn bits(self) -> u32 {
        match self {
            LowPrecision::Int { bits, .. } => bits,
            LowPrecision::Float {
                exponent, mantissa, ..
            } => 1 + exponent + mantissa,
            LowPrecision::Scale => 8,
        }
    }

    /// The smallest and largest finite number.
    pub fn limits(self) -> (f64, f64) {
        match self {
            LowPrecision::Int { bits, signed: true } => {
                let half = f64::from(1 << (bits - 1));
                (-half, half - 1.0)
            }
            LowPrecision::Int { bits, .. } => (0.0, f64::from((1 << bits) - 1)),
            LowPrecision::Scale => (2f64.powi(-127), 2f64.powi(127)),
            LowPrecision::Float {
                exponent,
                mantissa,
                special,
                ..
            } => {
                let all = (1u32 << (exponent + mantissa)) - 1;
                let last = match special {
                    Special::None | Special::MinusZero => all,
                    Special::Last => all - 1,
                    Special::Infinities => all - (1 << mantissa),
                };
                let most = self.decode(last as u8);
                (-most, most)
            }
        }
    }

    /// The number that a bit pattern encodes.
    pub fn decode(self, code: u8) -> f64 {
        match self {
            LowPrecision::Int { bits, signed } => {
                let low = i32::from(code) & ((1 << bits) - 1);
                let minus = signed && low >> (bits - 1) == 1;
                f64::from(if minus { low - (1 << bits) } else { low })
            }
            LowPrecision::Scale if code == 255 => f64::NAN,
            LowPrecision::Scale => 2f64.powi(i32::from(code) - 127),
            LowPrecision::Float {
                exponent,
                mantissa,
                bias,
                special,
            } => {
                let code = u32::from(code);
                let sign = if code >> (exponent + mantissa) & 1 == 1 {
                    -1.0
                } else {
                    1.0
                };
                let (top, part) = (
                    code >> mantissa & ((1 << exponent) - 1),
                    code & ((1 << mantissa) - 1),
                );
                let all = code & ((1 << (exponent + mantissa)) - 1);
                match special {
                    Special::Last if all == (1 << (exponent + mantissa)) - 1 => return f64::NAN,
                    Special::MinusZero if sign < 0.0 && all == 0 => return f64::NAN,
                    Special::Infinities if top == (1 << exponent) - 1 => {
                        return if part == 0 {
                            sign * f64::INFINITY
                        } else {
                            f64::NAN
                        };
                    }
                    _ => {}
                }
                let one = f64::from(1u32 << mantissa);
                let (whole, power) = match top {
                    0 => (f64::from(part) / one, 1 - bias),
                    _ => (1.0 + f64::from(part) / one, top as i32 - bias),
                };
                sign * whole * 2f64.powi(power)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_numbers_are_those_of_the_standards() {
        let most = |code| low_precision(code).map(|n| n.limits().1);
        let all = [448.0, 240.0, 57344.0, 57344.0, 15.0, 7.0, 6.0];
        for (code, want) in (17..).zip(all) {
            assert_eq!(most(code), Some(want), "{code}");
        }
        assert_eq!(most(26), Some(1.0));
        assert_eq!(low_precision(22).map(|n| n.decode(0xf8)), Some(-8.0));
    }
}
