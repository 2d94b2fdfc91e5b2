//! Ops as data: small, hashable, without their operands.
//!
//! Owns the closed list of ops, their names, codes and parameters. The meaning of an op is defined by `infer`, a
//! backend's `execute`, `autodiff::rule`, `composite::expand` and the framework dialects.

pub mod composite;
pub mod custom;
pub mod elementwise;
pub mod params;

pub use composite::Composite;
pub use custom::{Custom, CustomOp};
pub use elementwise::{Binary, Compare, Domain, Gives, Takes, Unary};
pub use params::*;

use crate::attr::{self, Attr, Attribute, Attrs, Params};
use crate::dim::{Bindings, Dim};
use crate::dtype::DType;
use crate::error::{Error, Kind, Result};
use crate::shape::{Axes, Axis, Shape};

/// The op table: ops without parameters, with one, with several, and families whose kind is part of the name.
macro_rules! op_table {
    (
        plain { $($plain:ident $plain_name:literal $plain_doc:literal,)* }
        single { $($single:ident $single_name:literal $field:ident: $ty:ty, $single_doc:literal,)* }
        several { $($several:ident $several_name:literal $several_doc:literal,)* }
        families { $($family:ident $kinds:ident [$($family_name:literal),*] $family_doc:literal,)* }
    ) => {
        /// An op, without its operands.
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        pub enum Op {
            /// Elementwise with one operand.
            Unary(Unary),
            /// Elementwise with two operands, which broadcast.
            Binary(Binary),
            /// An elementwise comparison; operands broadcast.
            Compare(Compare),
            $(#[doc = $plain_doc] $plain,)*
            $(#[doc = $single_doc] $single($ty),)*
            $(#[doc = $several_doc] $several(Box<$several>),)*
            $(#[doc = $family_doc] $family(Box<$family>),)*
            /// A composite: has an expansion into other ops; a backend may implement it directly.
            Call(Box<Composite>),
            /// A user-defined op.
            Custom(Custom),
        }

        #[derive(Clone, Copy)]
        enum Row { $($plain,)* $($single,)* $($several,)* Families }

        $(impl $family {
            const NAMES: &'static [&'static str] = &[$($family_name),*];
        })*

        impl Op {
            /// Name and description of every op but custom ones, in the order of their codes.
            pub fn all() -> Vec<(&'static str, &'static str)> {
                let mut all = Vec::new();
                all.extend(Unary::ALL.iter().map(|u| (u.name(), u.meaning())));
                all.extend(Binary::ALL.iter().map(|u| (u.name(), u.meaning())));
                all.extend(Compare::ALL.iter().map(|u| (u.name(), u.meaning())));
                $(all.push(($plain_name, $plain_doc));)*
                $(all.push(($single_name, $single_doc));)*
                $(all.push(($several_name, $several_doc));)*
                $(all.extend($family::NAMES.iter().map(|&n| (n, $family_doc)));)*
                all.extend(Composite::all());
                all
            }

            /// The name of the op everywhere: graph text, dialects, messages, the support matrix.
            pub fn name(&self) -> &'static str {
                match self {
                    Op::Unary(u) => u.name(),
                    Op::Binary(b) => b.name(),
                    Op::Compare(c) => c.name(),
                    $(Op::$plain => $plain_name,)*
                    $(Op::$single(_) => $single_name,)*
                    $(Op::$several(_) => $several_name,)*
                    $(Op::$family(p) => $family::NAMES[p.kind as usize],)*
                    Op::Call(c) => c.name(),
                    Op::Custom(_) => "custom",
                }
            }

            /// A dense index for tables over ops; all custom ops share the last one.
            #[inline]
            pub fn code(&self) -> usize {
                const PLAIN: usize = Unary::ALL.len() + Binary::ALL.len() + Compare::ALL.len();
                let mut at = PLAIN + Row::Families as usize;
                match self {
                    Op::Unary(u) => *u as usize,
                    Op::Binary(b) => Unary::ALL.len() + *b as usize,
                    Op::Compare(c) => Unary::ALL.len() + Binary::ALL.len() + *c as usize,
                    $(Op::$plain => PLAIN + Row::$plain as usize,)*
                    $(Op::$single(_) => PLAIN + Row::$single as usize,)*
                    $(Op::$several(_) => PLAIN + Row::$several as usize,)*
                    other => {
                        $(
                            if let Op::$family(p) = other { return at + p.kind as usize; }
                            at += $family::NAMES.len();
                        )*
                        match other {
                            Op::Call(c) => at + c.code(),
                            _ => at + Composite::COUNT,
                        }
                    }
                }
            }

            /// The parameters as named plain data.
            pub fn attrs(&self) -> Attrs {
                match self {
                    Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Custom(_) => Vec::new(),
                    $(Op::$plain => Vec::new(),)*
                    $(Op::$single(p) => vec![(stringify!($field), p.to_attr())],)*
                    $(Op::$several(p) => p.attrs(),)*
                    $(Op::$family(p) => p.attrs().into_iter().filter(|(n, _)| *n != "kind").collect(),)*
                    Op::Call(c) => c.attrs(),
                }
            }

            /// The op of this name with these parameters.
            pub fn from_attrs(name: &str, attrs: &[(String, Attr)]) -> Result<Op> {
                if let Some(u) = Unary::ALL.iter().find(|u| u.name() == name) {
                    return attr::only(name, attrs, &[]).map(|()| Op::Unary(*u));
                }
                if let Some(b) = Binary::ALL.iter().find(|b| b.name() == name) {
                    return attr::only(name, attrs, &[]).map(|()| Op::Binary(*b));
                }
                if let Some(c) = Compare::ALL.iter().find(|c| c.name() == name) {
                    return attr::only(name, attrs, &[]).map(|()| Op::Compare(*c));
                }
                $(if name == $plain_name {
                    return attr::only(name, attrs, &[]).map(|()| Op::$plain);
                })*
                $(if name == $single_name {
                    attr::only(name, attrs, &[stringify!($field)])?;
                    return Ok(Op::$single(attr::read(name, attrs, stringify!($field))?));
                })*
                $(if name == $several_name {
                    return Ok(Op::$several(Box::new(Params::from_attrs(name, attrs)?)));
                })*
                $(if let Some(at) = $family::NAMES.iter().position(|n| *n == name) {
                    let mut attrs = attrs.to_vec();
                    attrs.push(("kind".into(), $kinds::ALL[at].to_attr()));
                    return Ok(Op::$family(Box::new(Params::from_attrs(name, &attrs)?)));
                })*
                match Composite::from_attrs(name, attrs)? {
                    Some(c) => Ok(c.into()),
                    None => Err(Error::new(Kind::Convert, format!("unknown op `{name}`"))),
                }
            }

            /// Substitutes numbers for symbolic dimensions in the parameters.
            pub fn bind(&self, bindings: &Bindings) -> Result<Op> {
                Ok(match self {
                    Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Custom(_) => self.clone(),
                    $(Op::$plain => self.clone(),)*
                    $(Op::$single(p) => Op::$single(Attribute::bind(p, bindings)?),)*
                    $(Op::$several(p) => Op::$several(Box::new(p.bind(bindings)?)),)*
                    $(Op::$family(p) => Op::$family(Box::new(p.bind(bindings)?)),)*
                    Op::Call(c) => c.bind(bindings)?.into(),
                })
            }
        }

        $(impl From<$several> for Op {
            fn from(params: $several) -> Op { Op::$several(Box::new(params)) }
        })*
        $(impl From<$family> for Op {
            fn from(params: $family) -> Op { Op::$family(Box::new(params)) }
        })*
    };
}

op_table! {
    plain {
        Select "select" "The second operand where the first is true, else the third.",
        Clamp "clamp" "The second operand, clipped to the bounds given by the first and the third.",
        StopGradient "stop_gradient" "The operand, treated as a constant by derivatives.",
        DynamicUpdate "dynamic_update_slice" "The first operand with the second written at the start index given by the third; start indices are clipped.",
        Lu "lu" "LU decomposition with partial pivoting: packed factors, pivots, permutation.",
    }
    single {
        Cast "cast" dtype: DType, "Converts to another dtype; floats to integers truncate and saturate, NaN gives 0.",
        Bitcast "bitcast" dtype: DType, "Reinterprets the bits as another dtype of the same size.",
        Reshape "reshape" shape: Shape, "The same elements in row-major order with another shape.",
        Transpose "transpose" axes: Axes, "Axis i of the result is axis axes[i] of the operand.",
        Concat "concat" axis: Axis, "Concatenates all operands along an axis.",
        Reverse "reverse" axes: Axes, "Reverses the order of elements along axes.",
        DynamicSlice "dynamic_slice" sizes: Shape, "A block of the first operand at the start index given by the second; start indices are clipped.",
        TopK "top_k" k: Dim, "The k largest elements along the last axis in descending order, and their indices; NaN counts as the largest.",
        NonZero "nonzero" size: Dim, "The index vectors of the first `size` nonzero elements, padded with the shape.",
        SearchSorted "searchsorted" right: bool, "The insertion index of each element of the second operand into the sorted last axis of the first.",
    }
    several {
        Full "full" "A tensor filled with one value.",
        Iota "iota" "0, 1, 2 … along one axis.",
        Broadcast "broadcast" "Repeats along axes of size 1 and along new axes.",
        Slice "slice" "Every stride-th element from start up to limit.",
        Pad "pad" "Pads the first operand with the second around and between elements; negative padding crops.",
        Gather "gather" "Reads slices of the first operand at the index vectors of the second.",
        Sort "sort" "Sorts all operands by the first ones along an axis; NaN last in either direction.",
        Dot "dot_general" "Sums of products over contracted axes, batched over batch axes.",
        Conv "conv_general" "Convolution of the input with a filter.",
        Cholesky "cholesky" "Cholesky decomposition: the triangular factor of a positive definite matrix.",
        Qr "qr" "QR decomposition: an orthogonal and an upper triangular factor.",
        Svd "svd" "Singular value decomposition.",
        Eigh "eigh" "Eigenvalues and vectors of a Hermitian matrix.",
        Eig "eig" "Eigenvalues and vectors of any square matrix.",
        TriangularSolve "triangular_solve" "Solves with a triangular matrix.",
        Cond "cond" "Runs the branch whose index is the first operand.",
        While "while" "Runs a body while a test holds.",
        Scan "scan" "Runs a body over the leading axis, carrying values along.",
    }
    families {
        Reduce ReduceKind ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_any", "reduce_all"]
            "Reduces over axes, which are removed.",
        ArgReduce Extreme ["argmax", "argmin"] "Index of the first maximum or minimum along an axis.",
        Cumulative CumulativeKind ["cumulative_sum", "cumulative_prod", "cumulative_max", "cumulative_min", "cumulative_logsumexp"]
            "Cumulative reduction along an axis.",
        Scatter ScatterKind ["scatter", "scatter_add", "scatter_mul", "scatter_min", "scatter_max"]
            "Writes slices into the first operand at the index vectors of the second.",
        Window WindowKind ["reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window_prod"]
            "Reduces sliding windows.",
        WindowScatter Extreme ["window_scatter_max", "window_scatter_min"]
            "Adds to the element that each window selects by max or min.",
        WindowGather Extreme ["window_gather_max", "window_gather_min"]
            "Reads the element that each window selects by max or min.",
        Fft FftKind ["fft", "ifft", "rfft", "irfft"] "A Fourier transform over axes.",
        Collective CollectiveKind ["all_reduce_sum", "all_gather", "reduce_scatter_sum", "all_to_all", "broadcast_from"]
            "Combines values over a group of devices.",
    }
}

impl Op {
    /// One more than the largest code.
    pub fn count() -> usize {
        Op::all().len() + 1
    }

    /// The number of operands; `None` if it is variable.
    pub fn arity(&self) -> Option<usize> {
        Some(match self {
            Op::Unary(_) => 1,
            Op::Binary(_) | Op::Compare(_) => 2,
            Op::Select | Op::Clamp | Op::DynamicUpdate | Op::Scatter(_) => 3,
            Op::Full(_) | Op::Iota(_) => 0,
            Op::Pad(_)
            | Op::DynamicSlice(_)
            | Op::SearchSorted(_)
            | Op::Gather(_)
            | Op::Dot(_)
            | Op::Conv(_)
            | Op::TriangularSolve(_)
            | Op::WindowScatter(_)
            | Op::WindowGather(_) => 2,
            Op::Concat(_)
            | Op::Sort(_)
            | Op::Cond(_)
            | Op::While(_)
            | Op::Scan(_)
            | Op::Call(_)
            | Op::Custom(_) => return None,
            Op::StopGradient
            | Op::Lu
            | Op::Cast(_)
            | Op::Bitcast(_)
            | Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Reverse(_)
            | Op::TopK(_)
            | Op::NonZero(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::Cholesky(_)
            | Op::Qr(_)
            | Op::Svd(_)
            | Op::Eigh(_)
            | Op::Eig(_)
            | Op::Reduce(_)
            | Op::ArgReduce(_)
            | Op::Cumulative(_)
            | Op::Window(_)
            | Op::Fft(_)
            | Op::Collective(_) => 1,
        })
    }
}

impl From<Composite> for Op {
    fn from(composite: Composite) -> Op {
        Op::Call(Box::new(composite))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_codes_dense() {
        let all = Op::all();
        let mut names: Vec<_> = all.iter().map(|(n, _)| *n).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for (op, name) in [
            (Op::Unary(Unary::Exp), "exp"),
            (Op::Select, "select"),
            (Op::Cast(DType::F32), "cast"),
            (
                Reduce {
                    kind: ReduceKind::Max,
                    axes: Axes::new(&[0]),
                }
                .into(),
                "reduce_max",
            ),
            (
                Fft {
                    kind: FftKind::Real,
                    axes: Axes::new(&[0]),
                    length: 4.into(),
                }
                .into(),
                "rfft",
            ),
            (Composite::Relu {}.into(), "relu"),
        ] {
            assert_eq!(op.name(), name);
            assert_eq!(all[op.code()].0, name);
        }
        assert!(size_of::<Op>() <= 64, "{}", size_of::<Op>());
    }

    #[test]
    fn parameters_are_read_back() {
        let op: Op = Reduce {
            kind: ReduceKind::Max,
            axes: Axes::new(&[0, 2]),
        }
        .into();
        let attrs: Vec<_> = op
            .attrs()
            .into_iter()
            .map(|(n, a)| (n.to_string(), a))
            .collect();
        assert_eq!(Op::from_attrs("reduce_max", &attrs).unwrap(), op);
        assert!(Op::from_attrs("reduce_max", &[]).is_err());
        assert!(Op::from_attrs("exp", &attrs).is_err());
        assert!(Op::from_attrs("nonsense", &[]).is_err());
    }
}
