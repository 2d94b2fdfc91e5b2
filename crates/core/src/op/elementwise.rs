//! The elementwise op families: one row each, used by the enum, the functions in `ops`, the conformance cases and the
//! docs.

/// Unary ops: variant, name, supported dtypes, result dtype, domain of conformance inputs, description.
///
/// Domains: `Number` (not bool), `Signed`, `Inexact` (float or complex), `Float`, `Integral` (integers and bool),
/// `Complex`, `Any`, `Logical` (bool). Outputs: `Same`, `Bool`, `Real`.
#[macro_export]
macro_rules! for_each_unary {
    ($with:ident) => {
        $with! {
            Neg         neg          Number   Same  Everywhere  "-x, wrapping for unsigned integers",
            Positive    positive     Number   Same  Everywhere  "x itself",
            Abs         abs          Number   Real  Everywhere  "the absolute value",
            Sign        sign         Number   Same  Everywhere  "-1, 0 or 1; z/|z| for complex z; NaN stays NaN",
            Square      square       Number   Same  Everywhere  "x times x",
            Reciprocal  reciprocal   Inexact  Same  Nonzero     "1 / x",
            Sqrt        sqrt         Inexact  Same  Positive    "the principal square root",
            Rsqrt       rsqrt        Inexact  Same  Positive    "1 / sqrt(x)",
            Cbrt        cbrt         Float    Same  Nonzero     "the real cube root",
            Exp         exp          Inexact  Same  Everywhere  "e to the power x",
            Exp2        exp2         Inexact  Same  Everywhere  "2 to the power x",
            Expm1       expm1        Inexact  Same  Everywhere  "exp(x) - 1, exact near zero",
            Log         log          Inexact  Same  Positive    "the natural logarithm",
            Log2        log2         Inexact  Same  Positive    "the logarithm to base 2",
            Log10       log10        Inexact  Same  Positive    "the logarithm to base 10",
            Log1p       log1p        Inexact  Same  Positive    "log(1 + x), exact near zero",
            Sin         sin          Inexact  Same  Everywhere  "the sine",
            Cos         cos          Inexact  Same  Everywhere  "the cosine",
            Tan         tan          Inexact  Same  Unit        "the tangent",
            Asin        asin         Inexact  Same  Unit        "the inverse sine",
            Acos        acos         Inexact  Same  Unit        "the inverse cosine",
            Atan        atan         Inexact  Same  Everywhere  "the inverse tangent",
            Sinh        sinh         Inexact  Same  Everywhere  "the hyperbolic sine",
            Cosh        cosh         Inexact  Same  Everywhere  "the hyperbolic cosine",
            Tanh        tanh         Inexact  Same  Everywhere  "the hyperbolic tangent",
            Asinh       asinh        Inexact  Same  Everywhere  "the inverse hyperbolic sine",
            Acosh       acosh        Inexact  Same  AboveOne    "the inverse hyperbolic cosine",
            Atanh       atanh        Inexact  Same  Unit        "the inverse hyperbolic tangent",
            Erf         erf          Float    Same  Everywhere  "the Gauss error function",
            Erfc        erfc         Float    Same  Everywhere  "1 - erf(x), exact for large x",
            Erfinv      erfinv       Float    Same  Unit        "the inverse of erf",
            Lgamma      lgamma       Float    Same  Positive    "log |gamma(x)|",
            Digamma     digamma      Float    Same  Positive    "the derivative of lgamma",
            Floor       floor        Real     Same  Everywhere  "rounded down",
            Ceil        ceil         Real     Same  Everywhere  "rounded up",
            Trunc       trunc        Real     Same  Everywhere  "rounded towards zero",
            Round       round        Number   Same  Everywhere  "rounded to the nearest, ties to even",
            Real        real         Number   Real  Everywhere  "the real part",
            Imag        imag         Number   Real  Everywhere  "the imaginary part",
            Conj        conj         Number   Same  Everywhere  "the complex conjugate",
            IsNan       isnan        Number   Bool  Everywhere  "whether it is NaN",
            IsInf       isinf        Number   Bool  Everywhere  "whether it is infinite",
            IsFinite    isfinite     Number   Bool  Everywhere  "whether it is neither infinite nor NaN",
            Signbit     signbit      Real     Bool  Everywhere  "whether the sign bit is set",
            BitwiseNot  bitwise_not  Integral Same  Everywhere  "all bits flipped",
            LogicalNot  logical_not  Any      Bool  Everywhere  "whether it is zero",
        }
    };
}

/// Binary ops: columns as in `for_each_unary`; both operands have the same dtype and broadcast.
#[macro_export]
macro_rules! for_each_binary {
    ($with:ident) => {
        $with! {
            Add          add           Any      Same  Everywhere  "x + y, wrapping for integers, or for bool",
            Sub          sub           Number   Same  Everywhere  "x - y, wrapping for integers",
            Mul          mul           Any      Same  Everywhere  "x * y, wrapping for integers, and for bool",
            Div          div           Inexact  Same  Nonzero     "x / y",
            FloorDivide  floor_divide  Real     Same  Nonzero     "x / y rounded down; an integer by zero gives 0",
            Remainder    remainder     Real     Same  Nonzero     "the remainder of floor_divide, with y's sign; an integer by zero gives 0",
            Fmod         fmod          Real     Same  Nonzero     "the remainder of division towards zero, with x's sign; an integer by zero gives 0",
            Pow          pow           Number   Same  Positive    "x to the power y; integers to a negative power give 0 but for bases 1 and -1",
            Atan2        atan2         Float    Same  Nonzero     "the angle of the point with coordinates x (second operand) and y (first operand)",
            Hypot        hypot         Float    Same  Nonzero     "sqrt(x² + y²) without overflow",
            Copysign     copysign      Float    Same  Nonzero     "x with y's sign",
            Nextafter    nextafter     Float    Same  Everywhere  "the float after x towards y",
            Logaddexp    logaddexp     Float    Same  Everywhere  "log(exp(x) + exp(y))",
            Polygamma    polygamma     Float    Same  Order       "the derivative of digamma at the second operand, of the order given by the first, a whole number",
            Maximum      maximum       Real     Same  Everywhere  "the larger; NaN if either is",
            Minimum      minimum       Real     Same  Everywhere  "the smaller; NaN if either is",
            Complex      complex       Float    Complex Everywhere "x + iy",
            BitwiseAnd   bitwise_and   Integral Same  Everywhere  "bits set in both",
            BitwiseOr    bitwise_or    Integral Same  Everywhere  "bits set in either",
            BitwiseXor   bitwise_xor   Integral Same  Everywhere  "bits set in one",
            ShiftLeft    shift_left    Integer  Same  Shift       "bits shifted left by y; 0 when y is the width or more",
            ShiftRight   shift_right   Integer  Same  Shift       "bits shifted right by y, keeping the sign",
            LogicalAnd   logical_and   Any      Bool  Everywhere  "whether both are not zero",
            LogicalOr    logical_or    Any      Bool  Everywhere  "whether one is not zero",
            LogicalXor   logical_xor   Any      Bool  Everywhere  "whether exactly one is not zero",
        }
    };
}

/// Comparisons: variant, name, supported dtypes, description; the result is bool.
#[macro_export]
macro_rules! for_each_compare {
    ($with:ident) => {
        $with! {
            Equal         equal          Any   "x = y; NaN equals nothing",
            NotEqual      not_equal      Any   "x ≠ y",
            Less          less           Real  "x < y",
            LessEqual     less_equal     Real  "x ≤ y",
            Greater       greater        Real  "x > y",
            GreaterEqual  greater_equal  Real  "x ≥ y",
        }
    };
}

use crate::dtype::{Category, DType};

/// The dtypes that an op supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// All.
    Any,
    /// All but bool.
    Number,
    /// All but complex.
    Real,
    /// Floats and complex.
    Inexact,
    /// Floats.
    Float,
    /// Integers and bool.
    Integral,
    /// Integers.
    Integer,
}

impl Takes {
    /// Whether this dtype is supported.
    #[inline]
    pub fn includes(self, dtype: DType) -> bool {
        let c = dtype.category();
        match self {
            Takes::Any => true,
            Takes::Number => c != Category::Bool,
            Takes::Real => c != Category::Complex && c != Category::Bool,
            Takes::Inexact => c >= Category::Float,
            Takes::Float => c == Category::Float,
            Takes::Integral => c <= Category::Int,
            Takes::Integer => c == Category::Int,
        }
    }

    /// A description for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Takes::Any => "every dtype",
            Takes::Number => "numbers",
            Takes::Real => "real numbers",
            Takes::Inexact => "floats and complex numbers",
            Takes::Float => "floats",
            Takes::Integral => "integers and bool",
            Takes::Integer => "integers",
        }
    }
}

/// The dtype of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gives {
    /// The operand's dtype.
    Same,
    /// Bool.
    Bool,
    /// The dtype of the parts of a complex operand.
    Real,
    /// The complex dtype of a real operand.
    Complex,
}

impl Gives {
    /// The dtype of the result for an operand of dtype `x`.
    #[inline]
    pub fn dtype(self, x: DType) -> DType {
        match self {
            Gives::Same => x,
            Gives::Bool => DType::Bool,
            Gives::Real => x.real(),
            Gives::Complex => x.complex(),
        }
    }
}

/// The domain where an op is defined and smooth enough to be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domain {
    /// Anywhere.
    Everywhere,
    /// Away from zero.
    Nonzero,
    /// Above zero.
    Positive,
    /// Between -1 and 1.
    Unit,
    /// Above one.
    AboveOne,
    /// First operand a small whole number, second positive.
    Order,
    /// Second operand a small shift count.
    Shift,
}

macro_rules! family {
    ($name:ident, $what:literal; $($variant:ident $word:ident $takes:ident $gives:ident $domain:ident $doc:literal,)*) => {
        #[doc = $what]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name { $(#[doc = $doc] $variant),* }
        impl $name {
            /// All variants, in the order of their codes.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The name.
            pub const fn name(self) -> &'static str { match self { $($name::$variant => stringify!($word)),* } }
            /// The supported dtypes.
            pub const fn takes(self) -> Takes { match self { $($name::$variant => Takes::$takes),* } }
            /// The dtype of the result.
            pub const fn gives(self) -> Gives { match self { $($name::$variant => Gives::$gives),* } }
            /// The domain of test inputs.
            pub const fn domain(self) -> Domain { match self { $($name::$variant => Domain::$domain),* } }
            /// A one-line description.
            pub const fn meaning(self) -> &'static str { match self { $($name::$variant => $doc),* } }
        }
    };
}
macro_rules! unary_enum { ($($row:tt)*) => { family!(Unary, "An op of one operand, element by element."; $($row)*); } }
macro_rules! binary_enum { ($($row:tt)*) => { family!(Binary, "An op of two operands, element by element."; $($row)*); } }
macro_rules! compare_enum {
    ($($variant:ident $word:ident $takes:ident $doc:literal,)*) => {
        family!(Compare, "A comparison, element by element."; $($variant $word $takes Bool Everywhere $doc,)*);
    };
}
for_each_unary!(unary_enum);
for_each_binary!(binary_enum);
for_each_compare!(compare_enum);
