//! Functions of complex numbers: textbook formulas, valid away from branch cuts.

use crate::array::C;
use clematis_core::op::Unary;
use std::f64::consts::{LN_2, LN_10};

/// A unary op with a complex result.
pub fn unary(u: Unary, z: C) -> Option<C> {
    let one = C::new(1.0, 0.0);
    Some(match u {
        Unary::Neg => -z,
        Unary::Positive => z,
        Unary::Conj => z.conj(),
        Unary::Sign if z.norm() == 0.0 => C::new(0.0, 0.0),
        Unary::Sign => z / z.norm(),
        Unary::Square => z * z,
        Unary::Reciprocal => z.conj() / z.norm_sqr(),
        Unary::Sqrt => z.sqrt(),
        Unary::Rsqrt => one / z.sqrt(),
        Unary::Exp => z.exp(),
        Unary::Exp2 => (z * LN_2).exp(),
        // e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y/2)
        Unary::Expm1 => C::new(
            z.re.exp_m1() * z.im.cos() - 2.0 * (z.im / 2.0).sin().powi(2),
            z.re.exp() * z.im.sin(),
        ),
        Unary::Log => z.ln(),
        Unary::Log2 => z.ln() / LN_2,
        Unary::Log10 => z.ln() / LN_10,
        Unary::Log1p => (z + 1.0).ln(),
        Unary::Sin => z.sin(),
        Unary::Cos => z.cos(),
        Unary::Tan => z.sin() / z.cos(),
        Unary::Asin => z.asin(),
        Unary::Acos => z.acos(),
        Unary::Atan => z.atan(),
        Unary::Sinh => z.sinh(),
        Unary::Cosh => z.cosh(),
        Unary::Tanh => z.sinh() / z.cosh(),
        Unary::Asinh => z.asinh(),
        Unary::Acosh => z.acosh(),
        Unary::Atanh => z.atanh(),
        Unary::Round => C::new(z.re.round_ties_even(), z.im.round_ties_even()),
        _ => return None,
    })
}
