//! Shapes and axes.
//!
//! Owns sizes per axis, broadcasting and the checks on axes. Strides are the engine's affair.

use crate::dim::{Bindings, Dim};
use crate::error::{Error, Kind, Result};
use crate::{bail, ensure};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// Sizes per axis; inline up to six axes.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[Dim; 6]>);

impl Clone for Shape {
    // Every op copies shapes: one block, not axis by axis as the list's own `clone` does.
    #[inline]
    fn clone(&self) -> Self {
        Shape(SmallVec::from_slice(&self.0))
    }
}

/// A normalised axis: counted from the front and in range.
pub type Axis = usize;

/// A list of axes, or any other list of small counts.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Axes(SmallVec<[usize; 4]>);

/// The most axes a tensor may have.
pub const MAX_RANK: usize = 64;

impl Shape {
    /// The shape with no axes.
    #[inline]
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// Checked: no negative size, not too many axes, and a count of elements that fits `isize`.
    pub fn new<D: Into<Dim> + Copy>(dims: &[D]) -> Result<Self> {
        let shape = Shape(dims.iter().map(|&d| d.into()).collect());
        shape.check("shape")?;
        Ok(shape)
    }

    /// Unchecked; `check` before it reaches a user.
    pub fn from_dims(dims: impl IntoIterator<Item = Dim>) -> Self {
        Shape(dims.into_iter().collect())
    }

    /// From sizes that exist already, as those of a tensor at hand.
    pub fn from_sizes(sizes: &[usize]) -> Self {
        Shape(sizes.iter().map(|&s| Dim::from(s)).collect())
    }

    /// Says why it is no shape: a negative size, too many axes, or more elements than memory can number.
    pub fn check(&self, op: &str) -> Result<()> {
        ensure!(
            self.rank() <= MAX_RANK,
            Shape,
            "{op}: {} axes, the most is {MAX_RANK}",
            self.rank()
        );
        if let Some(axis) = self.0.iter().position(|d| d.value().is_some_and(|v| v < 0)) {
            bail!(
                Shape,
                "{op}: size {} on axis {axis} of {self}",
                self.0[axis]
            );
        }
        // Without the zeros: NumPy and XLA multiply the other sizes also where there is no element, and XLA aborts.
        let count = self
            .0
            .iter()
            .filter_map(|d| d.value().filter(|&n| n != 0))
            .try_fold(1i64, i64::checked_mul);
        // 16 bytes is the widest element: a count below this has a byte count that fits isize.
        ensure!(
            count.is_some_and(|n| n <= i64::MAX / 16),
            Shape,
            "{op}: {self} has more elements than can be numbered"
        );
        Ok(())
    }

    /// How many axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The sizes.
    #[inline]
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// Whether an axis is an expression of named sizes.
    #[inline]
    pub fn is_symbolic(&self) -> bool {
        self.0.iter().any(|d| d.is_symbolic())
    }

    /// The size of an axis as a number; 0 stands for an expression, which eager tensors never hold.
    #[inline]
    pub fn size(&self, axis: Axis) -> usize {
        self.0[axis].value().map_or(0, |v| v as usize)
    }

    /// The size of an axis; an error where it is not a number.
    pub fn known_size(&self, axis: Axis, op: &str) -> Result<usize> {
        ensure!(
            !self.0[axis].is_symbolic(),
            Trace,
            "{op}: axis {axis} of {self} has a size that is not known yet"
        );
        Ok(self.size(axis))
    }

    /// The sizes as numbers.
    pub fn sizes(&self) -> SmallVec<[usize; 6]> {
        (0..self.rank()).map(|axis| self.size(axis)).collect()
    }

    /// The number of elements; an error where a size is not a number.
    pub fn known_count(&self, op: &str) -> Result<usize> {
        ensure!(
            !self.is_symbolic(),
            Trace,
            "{op}: {self} has sizes that are not known yet"
        );
        Ok(self.count())
    }

    /// The number of elements of a shape of numbers.
    #[inline]
    pub fn count(&self) -> usize {
        self.0
            .iter()
            .map(|d| d.value().map_or(0, |v| v as usize))
            // A shape without elements may have sizes whose product is too large.
            .fold(1, usize::wrapping_mul)
    }

    /// The number of elements, symbolic or not.
    pub fn count_dim(&self) -> Dim {
        self.0.iter().fold(Dim::number(1), |n, &d| n * d)
    }

    /// The shape that both broadcast to.
    pub fn broadcast(&self, other: &Shape) -> Option<Shape> {
        if self == other {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let one = Dim::number(1);
        let at = |s: &Shape, i: usize| {
            (i + s.rank())
                .checked_sub(rank)
                .map_or(one, |i| s.dims()[i])
        };
        let mut dims = SmallVec::new();
        for i in 0..rank {
            let (a, b) = (at(self, i), at(other, i));
            dims.push(if a == b || b == one {
                a
            } else if a == one {
                b
            } else {
                return None;
            });
        }
        Some(Shape(dims))
    }

    /// Like `broadcast`, with the error that names both.
    pub fn broadcast_with(&self, other: &Shape, op: &str) -> Result<Shape> {
        self.broadcast(other).ok_or_else(|| {
            let e = Error::new(
                Kind::Shape,
                format!("{op}: shapes {self} and {other} do not broadcast"),
            );
            if self.is_symbolic() || other.is_symbolic() {
                e.note("a named size fits itself and 1 only")
            } else {
                e
            }
        })
    }

    /// An axis counted from the end when negative.
    pub fn axis(&self, axis: i64, op: &str) -> Result<Axis> {
        normalize_axis(axis, self.rank(), op)
    }

    /// Axes counted from the end when negative; twice the same is an error.
    pub fn axes(&self, axes: &[i64], op: &str) -> Result<Axes> {
        let mut out = SmallVec::new();
        for &axis in axes {
            let axis = self.axis(axis, op)?;
            ensure!(
                !out.contains(&axis),
                Index,
                "{op}: axis {axis} is named twice in {axes:?}"
            );
            out.push(axis);
        }
        Ok(Axes(out))
    }

    /// Without these axes.
    #[must_use]
    pub fn without(&self, axes: &[usize]) -> Shape {
        Shape(
            self.0
                .iter()
                .enumerate()
                .filter(|(i, _)| !axes.contains(i))
                .map(|(_, &d)| d)
                .collect(),
        )
    }

    /// With another size on one axis.
    #[must_use]
    pub fn with(&self, axis: Axis, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.clone();
        dims[axis] = dim.into();
        Shape(dims)
    }

    /// With an axis put in before `axis`.
    #[must_use]
    pub fn insert(&self, axis: Axis, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.clone();
        dims.insert(axis, dim.into());
        Shape(dims)
    }

    /// The axes of both, one after the other.
    #[must_use]
    pub fn join(&self, other: &Shape) -> Shape {
        Shape(self.0.iter().chain(&other.0).copied().collect())
    }

    /// With names bound to numbers.
    pub fn bind(&self, bindings: &Bindings) -> Result<Shape> {
        if !self.is_symbolic() {
            return Ok(self.clone());
        }
        let dims: Result<SmallVec<_>> = self.0.iter().map(|d| d.bind(bindings)).collect();
        let shape = Shape(dims?);
        shape.check("bind")?;
        Ok(shape)
    }
}

/// An axis counted from the end when negative.
pub fn normalize_axis(axis: i64, rank: usize, op: &str) -> Result<Axis> {
    let signed = rank as i64;
    ensure!(
        (-signed..signed).contains(&axis),
        Index,
        "{op}: axis {axis} is out of range for {rank} axes"
    );
    Ok(if axis < 0 { axis + signed } else { axis } as usize)
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        self.0.len() == other.len() && self.0.iter().zip(other).all(|(a, b)| a == b)
    }
}
impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        *self == other[..]
    }
}

/// What can be given where a shape is asked for; checked when it is used.
pub trait IntoShape {
    /// The shape, or why it is none.
    fn into_shape(self) -> Result<Shape>;
}
impl IntoShape for Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(self)
    }
}
impl IntoShape for &Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(self.clone())
    }
}
impl<D: Into<Dim> + Copy> IntoShape for &[D] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}
impl<D: Into<Dim> + Copy, const N: usize> IntoShape for [D; N] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}
impl<D: Into<Dim> + Copy> IntoShape for Vec<D> {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}
impl IntoShape for () {
    fn into_shape(self) -> Result<Shape> {
        Ok(Shape::scalar())
    }
}

impl Axes {
    /// Axes as given.
    pub fn new(axes: &[usize]) -> Self {
        Axes(axes.into())
    }

    /// `0 … rank-1`.
    pub fn all(rank: usize) -> Self {
        Axes((0..rank).collect())
    }

    /// The permutation that undoes this one.
    #[must_use]
    pub fn inverse(&self) -> Axes {
        let mut out: SmallVec<_> = smallvec::smallvec![0; self.0.len()];
        for (i, &axis) in self.0.iter().enumerate() {
            out[axis] = i;
        }
        Axes(out)
    }

    /// In rising order.
    #[must_use]
    pub fn sorted(&self) -> Axes {
        let mut out = self.0.clone();
        out.sort_unstable();
        Axes(out)
    }
}

impl Deref for Axes {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}
impl FromIterator<usize> for Axes {
    fn from_iter<I: IntoIterator<Item = usize>>(iter: I) -> Self {
        Axes(iter.into_iter().collect())
    }
}
impl From<&[usize]> for Axes {
    fn from(axes: &[usize]) -> Self {
        Axes(axes.into())
    }
}
impl<const N: usize> From<[usize; N]> for Axes {
    fn from(axes: [usize; N]) -> Self {
        Axes(axes[..].into())
    }
}
impl fmt::Debug for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_checked() {
        assert!(
            Shape::new(&[2i64, -1])
                .unwrap_err()
                .to_string()
                .contains("-1")
        );
        assert!(Shape::new(&[usize::MAX, 2]).is_err());
        assert!(Shape::new(&[1usize << 40, 1 << 40]).is_err());
        assert_eq!(Shape::new(&[1usize << 40, 0]).unwrap().count(), 0);
        // Beside an axis without elements, too: frameworks number what the others would hold.
        assert!(Shape::new(&[1usize << 62, 6, 0]).is_err());
        assert!(Shape::new(&[1usize; 65]).is_err());
    }

    #[test]
    fn broadcasting_is_the_array_api_rule() {
        let s = |d: &[usize]| Shape::from_sizes(d);
        assert_eq!(s(&[3, 1]).broadcast(&s(&[4])), Some(s(&[3, 4])));
        assert_eq!(s(&[0]).broadcast(&s(&[1])), Some(s(&[0])));
        assert_eq!(s(&[2]).broadcast(&s(&[3])), None);
        let b = Shape::from_dims([Dim::symbol("b").unwrap()]);
        assert_eq!(b.broadcast(&s(&[1])), Some(b.clone()));
        assert_eq!(b.broadcast(&s(&[5])), None);
    }

    #[test]
    fn axes_are_normalised_and_checked() {
        let s = Shape::from_sizes(&[2, 3, 4]);
        assert_eq!(&*s.axes(&[-1, 0], "sum").unwrap(), &[2, 0]);
        assert!(
            s.axes(&[3], "sum")
                .unwrap_err()
                .to_string()
                .contains("3 axes")
        );
        assert!(
            s.axes(&[0, -3], "sum")
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
        assert_eq!(&*Axes::new(&[2, 0, 1]).inverse(), &[1, 2, 0]);
    }
}
