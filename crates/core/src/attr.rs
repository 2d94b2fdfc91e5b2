//! Op parameters (attributes) as plain, named data.
//!
//! Graph text, the keyword arguments of framework functions and printed source all use this one representation. A
//! parameter type implements conversion to an `Attr`, conversion back, and substitution of symbolic dimensions.

use crate::dim::{Bindings, Dim};
use crate::dtype::{DType, Real, Scalar};
use crate::error::{Error, Kind, Result};
use crate::graph::Body;
use crate::shape::{Axes, Shape};
use smallvec::SmallVec;

/// The value of one op parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Attr {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer above `i64::MAX`.
    UInt(u64),
    /// A real number.
    Float(Real),
    /// A complex number.
    Complex(Real, Real),
    /// An identifier: an enum variant, a dtype, `none`.
    Word(String),
    /// A quoted string.
    Text(String),
    /// An expression of symbolic dimensions.
    Dim(Dim),
    /// A list.
    List(Vec<Attr>),
    /// A graph: the body of a loop or branch.
    Graph(Body),
}

/// The named parameters of one op.
pub type Attrs = Vec<(&'static str, Attr)>;

/// A type that an op parameter can have.
pub trait Attribute: Sized {
    /// Converts to plain data.
    fn to_attr(&self) -> Attr;
    /// Converts back from plain data; `None` if the data does not fit the type.
    fn from_attr(attr: &Attr) -> Option<Self>;
    /// Substitutes numbers for symbolic dimensions.
    fn bind(&self, _: &Bindings) -> Result<Self>;
}

/// The parameters of one op.
pub trait Params: Sized {
    /// Converts to named plain data, in the order of declaration.
    fn attrs(&self) -> Attrs;
    /// Converts back from named data.
    fn from_attrs(op: &str, attrs: &[(String, Attr)]) -> Result<Self>;
    /// Substitutes numbers for symbolic dimensions.
    fn bind(&self, bindings: &Bindings) -> Result<Self>;
}

/// Reads one named parameter of an op.
pub fn read<T: Attribute>(op: &str, attrs: &[(String, Attr)], name: &str) -> Result<T> {
    let (_, attr) = attrs.iter().find(|(n, _)| n == name).ok_or_else(|| {
        Error::new(
            Kind::Convert,
            format!("{op}: parameter `{name}` is missing"),
        )
    })?;
    T::from_attr(attr).ok_or_else(|| {
        Error::new(
            Kind::Convert,
            format!("{op}: invalid value {attr:?} for parameter `{name}`"),
        )
    })
}

/// Returns an error if a parameter is not one of `known`.
pub fn only(op: &str, attrs: &[(String, Attr)], known: &[&str]) -> Result<()> {
    match attrs.iter().find(|(n, _)| !known.contains(&n.as_str())) {
        Some((name, _)) => Err(Error::new(
            Kind::Convert,
            format!("{op}: unknown parameter `{name}`, expected one of {known:?}"),
        )),
        None => Ok(()),
    }
}

macro_rules! plain_attributes {
    ($($ty:ty: |$v:ident| $to:expr, $from:pat => $back:expr;)*) => { $(
        impl Attribute for $ty {
            fn to_attr(&self) -> Attr {
                let $v = self;
                $to
            }
            fn from_attr(attr: &Attr) -> Option<Self> {
                match attr {
                    $from => $back,
                    _ => None,
                }
            }
            fn bind(&self, _: &Bindings) -> Result<Self> {
                Ok(self.clone())
            }
        }
    )* };
}
plain_attributes! {
    bool: |v| Attr::Bool(*v), Attr::Bool(v) => Some(*v);
    usize: |v| Attr::Int(*v as i64), Attr::Int(v) => usize::try_from(*v).ok();
    i64: |v| Attr::Int(*v), Attr::Int(v) => Some(*v);
    u8: |v| Attr::Int(i64::from(*v)), Attr::Int(v) => u8::try_from(*v).ok();
    String: |v| Attr::Text(v.clone()), Attr::Text(v) => Some(v.clone());
    DType: |v| Attr::Word(v.name().into()), Attr::Word(v) => v.parse().ok();
    Axes: |v| Attr::List(v.iter().map(usize::to_attr).collect()),
        Attr::List(v) => v.iter().map(usize::from_attr).collect();
}

impl Attribute for Real {
    fn to_attr(&self) -> Attr {
        Attr::Float(*self)
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Float(v) => Some(*v),
            Attr::Int(v) => Some(Real(*v as f64)),
            _ => None,
        }
    }
    fn bind(&self, _: &Bindings) -> Result<Self> {
        Ok(*self)
    }
}

impl Attribute for Scalar {
    fn to_attr(&self) -> Attr {
        match *self {
            Scalar::Bool(v) => Attr::Bool(v),
            Scalar::Int(v) => Attr::Int(v),
            Scalar::UInt(v) => Attr::UInt(v),
            Scalar::Float(v) => Attr::Float(v),
            Scalar::Complex(re, im) => Attr::Complex(re, im),
        }
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        Some(match *attr {
            Attr::Bool(v) => Scalar::Bool(v),
            Attr::Int(v) => Scalar::Int(v),
            Attr::UInt(v) => Scalar::UInt(v),
            Attr::Float(v) => Scalar::Float(v),
            Attr::Complex(re, im) => Scalar::Complex(re, im),
            _ => return None,
        })
    }
    fn bind(&self, _: &Bindings) -> Result<Self> {
        Ok(*self)
    }
}

impl Attribute for Dim {
    fn to_attr(&self) -> Attr {
        self.value().map_or(Attr::Dim(*self), Attr::Int)
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Int(v) => Some(Dim::number(*v)),
            Attr::Dim(v) => Some(*v),
            // In text, a single symbolic dimension is a word like any other.
            Attr::Word(v) => Dim::symbol(v).ok(),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        Dim::bind(*self, bindings)
    }
}

impl Attribute for Body {
    fn to_attr(&self) -> Attr {
        Attr::Graph(self.clone())
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Graph(v) => Some(v.clone()),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        Body::bind(self, bindings)
    }
}

impl Attribute for Shape {
    fn to_attr(&self) -> Attr {
        Attr::List(self.dims().iter().map(Dim::to_attr).collect())
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::List(v) => Some(Shape::from_dims(
                v.iter().map(Dim::from_attr).collect::<Option<Vec<_>>>()?,
            )),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        Shape::bind(self, bindings)
    }
}

impl<T: Attribute> Attribute for Option<T> {
    fn to_attr(&self) -> Attr {
        self.as_ref()
            .map_or_else(|| Attr::Word("none".into()), T::to_attr)
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::Word(w) if w == "none" => Some(None),
            other => T::from_attr(other).map(Some),
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        self.as_ref().map(|v| v.bind(bindings)).transpose()
    }
}

impl<T: Attribute> Attribute for Vec<T> {
    fn to_attr(&self) -> Attr {
        Attr::List(self.iter().map(T::to_attr).collect())
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::List(v) => v.iter().map(T::from_attr).collect(),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        self.iter().map(|v| v.bind(bindings)).collect()
    }
}

impl<T: Attribute, const N: usize> Attribute for SmallVec<[T; N]> {
    fn to_attr(&self) -> Attr {
        Attr::List(self.iter().map(T::to_attr).collect())
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::List(v) => v.iter().map(T::from_attr).collect(),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        self.iter().map(|v| v.bind(bindings)).collect()
    }
}

impl<A: Attribute, B: Attribute> Attribute for (A, B) {
    fn to_attr(&self) -> Attr {
        Attr::List(vec![self.0.to_attr(), self.1.to_attr()])
    }
    fn from_attr(attr: &Attr) -> Option<Self> {
        match attr {
            Attr::List(v) if v.len() == 2 => Some((A::from_attr(&v[0])?, B::from_attr(&v[1])?)),
            _ => None,
        }
    }
    fn bind(&self, bindings: &Bindings) -> Result<Self> {
        Ok((self.0.bind(bindings)?, self.1.bind(bindings)?))
    }
}

/// Defines an enum of keywords: its names, the list of its variants, and its conversion to an op parameter.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident $word:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        #[allow(missing_docs)] // most words say what they are
        pub enum $name { $($(#[$doc])* $variant),* }

        impl $name {
            /// All variants, in the order of their discriminants.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];
            /// The keyword.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl $crate::attr::Attribute for $name {
            fn to_attr(&self) -> $crate::attr::Attr {
                $crate::attr::Attr::Word(self.name().into())
            }
            fn from_attr(attr: &$crate::attr::Attr) -> Option<Self> {
                match attr {
                    $crate::attr::Attr::Word(w) => $name::ALL.iter().copied().find(|k| k.name() == w),
                    _ => None,
                }
            }
            fn bind(&self, _: &$crate::dim::Bindings) -> $crate::Result<Self> {
                Ok(*self)
            }
        }
    };
}

/// Defines a struct of op parameters: its fields and their conversion to named data.
#[macro_export]
macro_rules! params {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $ty:ty),* $(,)? })*) => { $(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)] // the struct's line speaks of its fields
        pub struct $name { $($(#[$doc])* pub $field: $ty),* }

        impl $crate::attr::Params for $name {
            fn attrs(&self) -> $crate::attr::Attrs {
                vec![$((stringify!($field), $crate::attr::Attribute::to_attr(&self.$field))),*]
            }
            fn from_attrs(op: &str, attrs: &[(String, $crate::attr::Attr)]) -> $crate::Result<Self> {
                $crate::attr::only(op, attrs, &[$(stringify!($field)),*])?;
                Ok($name { $($field: $crate::attr::read(op, attrs, stringify!($field))?),* })
            }
            fn bind(&self, bindings: &$crate::dim::Bindings) -> $crate::Result<Self> {
                Ok($name { $($field: $crate::attr::Attribute::bind(&self.$field, bindings)?),* })
            }
        }
    )* };
}
