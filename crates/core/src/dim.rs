//! Sizes: numbers, or integer expressions of symbolic dimensions.
//!
//! Eager shapes hold numbers only and pay nothing for symbolic sizes: a `Dim` is eight bytes and `Copy`. Expressions
//! are kept in normal form in one process-wide table, so two expressions that are equal as polynomials are the same
//! `Dim`; comparing, hashing and copying never look inside.

mod text;

use crate::error::{Error, Kind, Result};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Add, Mul, Neg, Sub};
use std::sync::{Arc, RwLock};

/// A size, an offset or a padding: a number or an expression of symbolic dimensions.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dim(i64);

/// Values below are numbers; values from here on are indices into the expression table.
const FIRST_EXPRESSION: i64 = 1 << 62;

/// Maximum number of expressions with names from outside. The table is process-wide and never shrinks, so files with
/// ever new names must not fill memory.
const MOST: usize = 1 << 16;

/// Keywords that a symbolic dimension cannot be named.
const RESERVED: [&str; 8] = ["max", "min", "true", "false", "none", "inf", "nan", "graph"];

/// A product of atoms with exponents, sorted; empty for the constant term.
type Monomial = Vec<(Atom, u32)>;

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Atom {
    Symbol(Arc<str>),
    FloorDiv(Dim, Dim),
    Rem(Dim, Dim),
    Max(Dim, Dim),
    Min(Dim, Dim),
}

/// A sum of monomials with nonzero integer coefficients.
type Polynomial = BTreeMap<Monomial, i64>;

#[derive(Default)]
struct Table {
    all: Vec<Arc<Polynomial>>,
    index: FxHashMap<Arc<Polynomial>, usize>,
}

static TABLE: RwLock<Option<Table>> = RwLock::new(None);

/// The values of symbolic dimensions in one call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bindings(BTreeMap<Arc<str>, i64>);

impl Bindings {
    /// Binds a name; an error if it is already bound to another size.
    pub fn bind(&mut self, name: &str, size: i64) -> Result<()> {
        match self.0.get(name) {
            Some(&old) if old != size => Err(Error::new(
                Kind::Shape,
                format!("size `{name}` is {old} in one place and {size} in another"),
            )),
            Some(_) => Ok(()),
            None => {
                self.0.insert(name.into(), size);
                Ok(())
            }
        }
    }

    /// The size bound to a name.
    pub fn size(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }
}

impl Dim {
    /// A symbolic dimension. Names consist of letters, digits and underscores and do not begin with a digit.
    pub fn symbol(name: &str) -> Result<Dim> {
        let fine = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
        if !fine || RESERVED.contains(&name) {
            return Err(Error::new(
                Kind::Value,
                format!("symbol: `{name}` is not a valid name for a symbolic dimension"),
            ));
        }
        let symbol = Polynomial::from([(vec![(Atom::Symbol(name.into()), 1)], 1)]);
        Ok(intern(bounded(symbol)?))
    }

    /// A number. Out-of-range numbers saturate; no shape accepts them.
    #[inline]
    pub const fn number(value: i64) -> Dim {
        if value >= FIRST_EXPRESSION {
            Dim(FIRST_EXPRESSION - 1)
        } else {
            Dim(value)
        }
    }

    /// The number, or `None` if it is symbolic.
    #[inline]
    pub const fn value(self) -> Option<i64> {
        if self.0 < FIRST_EXPRESSION {
            Some(self.0)
        } else {
            None
        }
    }

    /// Whether it is an expression of symbolic dimensions.
    #[inline]
    pub const fn is_symbolic(self) -> bool {
        self.0 >= FIRST_EXPRESSION
    }

    /// The name, if it is a single symbolic dimension.
    pub fn as_symbol(self) -> Option<Arc<str>> {
        let poly = self.symbolic()?;
        let (monomial, &coefficient) = poly.iter().next()?;
        match (poly.len(), coefficient, monomial.as_slice()) {
            (1, 1, [(Atom::Symbol(name), 1)]) => Some(name.clone()),
            _ => None,
        }
    }

    /// The names of all symbolic dimensions in it, sorted.
    pub fn symbols(self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        self.collect_symbols(&mut names);
        names.sort();
        names.dedup();
        names
    }

    fn collect_symbols(self, into: &mut Vec<Arc<str>>) {
        for (atom, _) in self.symbolic().iter().flat_map(|p| p.keys()).flatten() {
            match atom {
                Atom::Symbol(name) => into.push(name.clone()),
                Atom::FloorDiv(a, b) | Atom::Rem(a, b) | Atom::Max(a, b) | Atom::Min(a, b) => {
                    a.collect_symbols(into);
                    b.collect_symbols(into);
                }
            }
        }
    }

    /// Evaluates it with names bound to numbers; an error names a missing one.
    pub fn eval(self, bindings: &Bindings) -> Result<i64> {
        let Some(poly) = self.symbolic() else {
            return Ok(self.0);
        };
        let mut sum = 0i64;
        for (monomial, &coefficient) in poly.iter() {
            let mut product = coefficient;
            for (atom, power) in monomial {
                let value = match atom {
                    Atom::Symbol(name) => bindings.size(name).ok_or_else(|| {
                        Error::new(Kind::Shape, format!("size `{name}` is not bound"))
                    })?,
                    Atom::FloorDiv(a, b) => floor_div(a.eval(bindings)?, b.eval(bindings)?)?,
                    Atom::Rem(a, b) => floor_rem(a.eval(bindings)?, b.eval(bindings)?)?,
                    Atom::Max(a, b) => a.eval(bindings)?.max(b.eval(bindings)?),
                    Atom::Min(a, b) => a.eval(bindings)?.min(b.eval(bindings)?),
                };
                product = product.saturating_mul(value.saturating_pow(*power));
            }
            sum = sum.saturating_add(product);
        }
        Ok(sum)
    }

    /// Substitutes bound names; the result is symbolic if a name is not bound.
    pub fn bind(self, bindings: &Bindings) -> Result<Dim> {
        if !self.is_symbolic() {
            return Ok(self);
        }
        self.eval(bindings).map(Dim::number)
    }

    /// Division rounded down; division by zero is an error.
    pub fn floor_div(self, by: Dim) -> Result<Dim> {
        if let (Some(a), Some(b)) = (self.value(), by.value()) {
            return floor_div(a, b).map(Dim::number);
        }
        if by == Dim(1) || by == Dim(0) {
            return if by.0 == 1 {
                Ok(self)
            } else {
                floor_div(0, 0).map(Dim)
            };
        }
        if self == by {
            return Ok(Dim(1));
        }
        Ok(self
            .divide_exactly(by)
            .unwrap_or_else(|| atom(Atom::FloorDiv(self, by))))
    }

    /// The remainder of `floor_div`.
    #[allow(clippy::should_implement_trait)] // it can fail, the operator cannot
    pub fn rem(self, by: Dim) -> Result<Dim> {
        if let (Some(a), Some(b)) = (self.value(), by.value()) {
            return floor_rem(a, b).map(Dim::number);
        }
        if by == Dim(0) {
            return floor_rem(0, 0).map(Dim);
        }
        if by == Dim(1) || self == by || self.divide_exactly(by).is_some() {
            return Ok(Dim(0));
        }
        Ok(atom(Atom::Rem(self, by)))
    }

    /// Division rounded up.
    pub fn ceil_div(self, by: Dim) -> Result<Dim> {
        (self + by - Dim(1)).floor_div(by)
    }

    /// The larger of both.
    #[must_use]
    pub fn max(self, other: Dim) -> Dim {
        match (self.value(), other.value(), (self - other).value()) {
            (Some(a), Some(b), _) => Dim(a.max(b)),
            (_, _, Some(gap)) => {
                if gap >= 0 {
                    self
                } else {
                    other
                }
            }
            _ => atom(Atom::Max(self.min_id(other), self.max_id(other))),
        }
    }

    /// The smaller of both.
    #[must_use]
    pub fn min(self, other: Dim) -> Dim {
        match (self.value(), other.value(), (self - other).value()) {
            (Some(a), Some(b), _) => Dim(a.min(b)),
            (_, _, Some(gap)) => {
                if gap <= 0 {
                    self
                } else {
                    other
                }
            }
            _ => atom(Atom::Min(self.min_id(other), self.max_id(other))),
        }
    }

    // Max and min commute: operands are sorted by code, so that both orders are one atom.
    fn min_id(self, other: Dim) -> Dim {
        Dim(self.0.min(other.0))
    }
    fn max_id(self, other: Dim) -> Dim {
        Dim(self.0.max(other.0))
    }

    fn divide_exactly(self, by: Dim) -> Option<Dim> {
        let (divisor, dividend) = (by.polynomial(), self.polynomial());
        if divisor.len() != 1 {
            return None;
        }
        let (monomial, &coefficient) = divisor.iter().next()?;
        let mut quotient = Polynomial::new();
        for (term, &c) in dividend.iter() {
            let (Some(0), Some(c)) = (c.checked_rem(coefficient), c.checked_div(coefficient))
            else {
                return None;
            };
            let mut left = term.clone();
            for (atom, power) in monomial {
                let at = left.iter().position(|(a, p)| a == atom && p >= power)?;
                left[at].1 -= power;
                if left[at].1 == 0 {
                    left.remove(at);
                }
            }
            quotient.insert(left, c);
        }
        Some(intern(quotient))
    }

    fn symbolic(self) -> Option<Arc<Polynomial>> {
        let index = usize::try_from(self.0.checked_sub(FIRST_EXPRESSION)?).ok()?;
        let table = TABLE.read().unwrap_or_else(|e| e.into_inner());
        table.as_ref()?.all.get(index).cloned()
    }

    fn polynomial(self) -> Arc<Polynomial> {
        self.symbolic().unwrap_or_else(|| {
            let mut poly = Polynomial::new();
            if self.0 != 0 {
                poly.insert(Vec::new(), self.0);
            }
            Arc::new(poly)
        })
    }
}

fn atom(atom: Atom) -> Dim {
    intern(Polynomial::from([(vec![(atom, 1)], 1)]))
}

/// Returns the expression, unless it is new and the table is full.
fn bounded(poly: Polynomial) -> Result<Polynomial> {
    let guard = TABLE.read().unwrap_or_else(|e| e.into_inner());
    let is_full = |table: &Table| table.all.len() >= MOST && !table.index.contains_key(&poly);
    if guard.as_ref().is_some_and(is_full) {
        return Err(Error::new(
            Kind::Value,
            format!(
                "size: expected at most {MOST} distinct expressions in one process, got another"
            ),
        )
        .note("use the same names for sizes in different models"));
    }
    drop(guard);
    Ok(poly)
}

fn intern(poly: Polynomial) -> Dim {
    if poly.is_empty() {
        return Dim(0);
    }
    if let (1, Some(&value)) = (poly.len(), poly.get(&Vec::new())) {
        return Dim::number(value);
    }
    let mut guard = TABLE.write().unwrap_or_else(|e| e.into_inner());
    let table = guard.get_or_insert_default();
    if let Some(&index) = table.index.get(&poly) {
        return Dim(FIRST_EXPRESSION + index as i64);
    }
    let (index, poly) = (table.all.len(), Arc::new(poly));
    table.all.push(poly.clone());
    table.index.insert(poly, index);
    Dim(FIRST_EXPRESSION + index as i64)
}

fn floor_div(a: i64, b: i64) -> Result<i64> {
    crate::ensure!(b != 0, Value, "size: {a} // 0");
    Ok(a.wrapping_div_euclid(b) - i64::from(b < 0 && a.wrapping_rem_euclid(b) != 0))
}

fn floor_rem(a: i64, b: i64) -> Result<i64> {
    Ok(a.wrapping_sub(floor_div(a, b)?.wrapping_mul(b)))
}

fn combine(a: Dim, b: Dim, sign: i64) -> Dim {
    let mut poly = (*a.polynomial()).clone();
    accumulate(&mut poly, &b.polynomial(), sign);
    intern(poly)
}

fn accumulate(sum: &mut Polynomial, other: &Polynomial, sign: i64) {
    for (monomial, &c) in other {
        let slot = sum.entry(monomial.clone()).or_insert(0);
        *slot = slot.saturating_add(c.saturating_mul(sign));
        if *slot == 0 {
            sum.remove(monomial);
        }
    }
}

fn multiply(x: &Polynomial, y: &Polynomial) -> Polynomial {
    let mut poly = Polynomial::new();
    for (left, &a) in x {
        for (right, &b) in y {
            let mut powers: BTreeMap<Atom, u32> = left.iter().cloned().collect();
            for (atom, power) in right {
                *powers.entry(atom.clone()).or_insert(0) += power;
            }
            let monomial: Monomial = powers.into_iter().collect();
            let slot = poly.entry(monomial.clone()).or_insert(0);
            *slot = slot.saturating_add(a.saturating_mul(b));
            if *slot == 0 {
                poly.remove(&monomial);
            }
        }
    }
    poly
}

impl Add for Dim {
    type Output = Dim;
    fn add(self, other: Dim) -> Dim {
        match (self.value(), other.value()) {
            (Some(a), Some(b)) => Dim::number(a.saturating_add(b)),
            _ => combine(self, other, 1),
        }
    }
}

impl Sub for Dim {
    type Output = Dim;
    fn sub(self, other: Dim) -> Dim {
        match (self.value(), other.value()) {
            (Some(a), Some(b)) => Dim::number(a.saturating_sub(b)),
            _ => combine(self, other, -1),
        }
    }
}

impl Neg for Dim {
    type Output = Dim;
    fn neg(self) -> Dim {
        Dim(0) - self
    }
}

impl Mul for Dim {
    type Output = Dim;
    fn mul(self, other: Dim) -> Dim {
        if let (Some(a), Some(b)) = (self.value(), other.value()) {
            return Dim::number(a.saturating_mul(b));
        }
        intern(multiply(&self.polynomial(), &other.polynomial()))
    }
}

impl From<usize> for Dim {
    fn from(value: usize) -> Dim {
        Dim::number(i64::try_from(value).unwrap_or(i64::MAX))
    }
}
impl From<i64> for Dim {
    fn from(value: i64) -> Dim {
        Dim::number(value)
    }
}
impl From<i32> for Dim {
    fn from(value: i32) -> Dim {
        Dim(i64::from(value))
    }
}
impl PartialEq<usize> for Dim {
    fn eq(&self, other: &usize) -> bool {
        *self == Dim::from(*other)
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sym(name: &str) -> Dim {
        Dim::symbol(name).unwrap()
    }

    #[test]
    fn equal_polynomials_are_the_same_dim() {
        let (b, n) = (sym("b"), sym("n"));
        assert_eq!((b + n) * (b - n), b * b - n * n);
        assert_eq!(b + b, b * Dim(2));
        assert_eq!(b - b, Dim(0));
        assert_eq!((b * Dim(12)).floor_div(Dim(4)).unwrap(), b * Dim(3));
        assert_eq!((b * n).floor_div(n).unwrap(), b);
        assert_eq!(b.max(n), n.max(b));
        assert_eq!((b + Dim(1)).max(b), b + Dim(1));
    }

    #[test]
    fn expressions_evaluate() {
        let n = sym("n");
        let half = (n + Dim(1)).floor_div(Dim(2)).unwrap();
        let mut at = Bindings::default();
        at.bind("n", 7).unwrap();
        assert_eq!(half.eval(&at).unwrap(), 4);
        assert_eq!((half * n - Dim(3)).eval(&at).unwrap(), 25);
        assert_eq!(n.rem(Dim(4)).unwrap().eval(&at).unwrap(), 3);
        assert!(sym("m").eval(&at).unwrap_err().to_string().contains("`m`"));
        assert!(at.bind("n", 8).is_err());
    }

    #[test]
    fn division_rounds_down_for_every_sign() {
        for (a, b, q, r) in [
            (7, 2, 3, 1),
            (-7, 2, -4, 1),
            (7, -2, -4, -1),
            (-7, -2, 3, -1),
        ] {
            assert_eq!(Dim(a).floor_div(Dim(b)).unwrap(), Dim(q));
            assert_eq!(Dim(a).rem(Dim(b)).unwrap(), Dim(r));
        }
        assert!(Dim(1).floor_div(Dim(0)).is_err());
        assert!(sym("n").floor_div(Dim(0)).is_err());
    }

    #[test]
    fn the_table_of_names_is_bounded() {
        // Does not fill the table: other tests of this process need names.
        let known = sym("b");
        assert!(bounded((*known.polynomial()).clone()).is_ok());
        let table = TABLE.read().unwrap_or_else(|e| e.into_inner());
        assert!(table.as_ref().is_some_and(|t| t.all.len() < MOST));
    }

    #[test]
    fn text_is_plain() {
        let (b, n) = (sym("b"), sym("n"));
        assert_eq!((b * Dim(2) + Dim(1)).to_string(), "2*b+1");
        assert_eq!((b * b - n).to_string(), "b*b-n");
        assert!(Dim::symbol("2x").is_err() && Dim::symbol("").is_err());
    }
}
