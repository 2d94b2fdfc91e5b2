//! Shapes, axes and broadcasting.
//!
//! Owns sizes per axis, broadcasting and the checks of axes. Strides belong to the engine.

use crate::dim::{Bindings, Dim};
use crate::error::{Error, Kind, Result};
use crate::{bail, ensure};
use smallvec::SmallVec;
use std::fmt;
use std::ops::Deref;

/// The sizes of a tensor; stored inline up to six axes.
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[Dim; 6]>);

impl Clone for Shape {
    // Every op copies shapes: copies one block instead of element by element as `SmallVec::clone` does.
    #[inline]
    fn clone(&self) -> Self {
        Shape(SmallVec::from_slice(&self.0))
    }
}

/// A normalised axis: non-negative and in range.
pub type Axis = usize;

/// A list of axes, or any other list of small counts.
#[derive(Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Axes(SmallVec<[usize; 4]>);

/// Maximum number of axes of a tensor.
pub const MAX_RANK: usize = 64;

impl Shape {
    /// The shape with no axes.
    #[inline]
    pub fn scalar() -> Self {
        Shape::default()
    }

    /// A checked shape: no negative size, not too many axes, and an element count that fits `isize`.
    pub fn new<D: Into<Dim> + Copy>(dims: &[D]) -> Result<Self> {
        let shape = Shape(dims.iter().map(|&d| d.into()).collect());
        shape.check("shape")?;
        Ok(shape)
    }

    /// An unchecked shape; call `check` before it reaches a user.
    pub fn from_dims(dims: impl IntoIterator<Item = Dim>) -> Self {
        Shape(dims.into_iter().collect())
    }

    /// A shape from known-valid sizes, such as those of an existing tensor.
    pub fn from_sizes(sizes: &[usize]) -> Self {
        Shape(sizes.iter().map(|&s| Dim::from(s)).collect())
    }

    /// Returns an error for a negative size, too many axes, or too many elements.
    pub fn check(&self, op: &str) -> Result<()> {
        ensure!(
            self.rank() <= MAX_RANK,
            Shape,
            "{op}: expected at most {MAX_RANK} axes, got {}",
            self.rank()
        );
        if let Some(axis) = self.0.iter().position(|d| d.value().is_some_and(|v| v < 0)) {
            bail!(
                Shape,
                "{op}: expected a non-negative size, got {} on axis {axis} of {self}",
                self.0[axis]
            );
        }
        // Sizes of 0 are skipped: NumPy and XLA multiply the other sizes even if there are no elements, and XLA
        // aborts on overflow.
        let count = self
            .0
            .iter()
            .filter_map(|d| d.value().filter(|&n| n != 0))
            .try_fold(1i64, i64::checked_mul);
        // The widest element has 16 bytes: below this count, the byte count fits isize.
        ensure!(
            count.is_some_and(|n| n <= i64::MAX / 16),
            Shape,
            "{op}: {self} has too many elements"
        );
        Ok(())
    }

    /// Number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The sizes.
    #[inline]
    pub fn dims(&self) -> &[Dim] {
        &self.0
    }

    /// Whether a size is symbolic.
    #[inline]
    pub fn is_symbolic(&self) -> bool {
        self.0.iter().any(|d| d.is_symbolic())
    }

    /// The size of an axis as a number; 0 if it is symbolic, which eager tensors never are.
    #[inline]
    pub fn size(&self, axis: Axis) -> usize {
        self.0[axis].value().map_or(0, |v| v as usize)
    }

    /// The size of an axis; an error if it is symbolic.
    pub fn known_size(&self, axis: Axis, op: &str) -> Result<usize> {
        ensure!(
            !self.0[axis].is_symbolic(),
            Trace,
            "{op}: expected a known size on axis {axis}, got {self}"
        );
        Ok(self.size(axis))
    }

    /// The sizes as numbers.
    pub fn sizes(&self) -> SmallVec<[usize; 6]> {
        (0..self.rank()).map(|axis| self.size(axis)).collect()
    }

    /// The number of elements; an error if a size is symbolic.
    pub fn known_count(&self, op: &str) -> Result<usize> {
        ensure!(
            !self.is_symbolic(),
            Trace,
            "{op}: expected known sizes, got {self}"
        );
        Ok(self.count())
    }

    /// The number of elements of a shape of numbers.
    #[inline]
    pub fn count(&self) -> usize {
        self.0
            .iter()
            .map(|d| d.value().map_or(0, |v| v as usize))
            // An empty shape may have sizes whose product overflows.
            .fold(1, usize::wrapping_mul)
    }

    /// The number of elements, possibly symbolic.
    pub fn count_dim(&self) -> Dim {
        self.0.iter().fold(Dim::number(1), |n, &d| n * d)
    }

    /// The common broadcast shape; `None` if the shapes do not broadcast.
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

    /// Like `broadcast`, with an error that names both shapes.
    pub fn broadcast_with(&self, other: &Shape, op: &str) -> Result<Shape> {
        self.broadcast(other).ok_or_else(|| {
            let e = Error::new(
                Kind::Shape,
                format!("{op}: shapes {self} and {other} do not broadcast"),
            );
            if self.is_symbolic() || other.is_symbolic() {
                e.note("a symbolic dimension broadcasts only with itself and 1")
            } else {
                e
            }
        })
    }

    /// Normalises an axis; negative ones count from the end.
    pub fn axis(&self, axis: i64, op: &str) -> Result<Axis> {
        normalize_axis(axis, self.rank(), op)
    }

    /// Normalises axes; negative ones count from the end, duplicates are an error.
    pub fn axes(&self, axes: &[i64], op: &str) -> Result<Axes> {
        let mut out = SmallVec::new();
        for &axis in axes {
            let axis = self.axis(axis, op)?;
            ensure!(
                !out.contains(&axis),
                Index,
                "{op}: axis {axis} occurs twice in {axes:?}"
            );
            out.push(axis);
        }
        Ok(Axes(out))
    }

    /// Removes these axes.
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

    /// Replaces the size of one axis.
    #[must_use]
    pub fn with(&self, axis: Axis, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.clone();
        dims[axis] = dim.into();
        Shape(dims)
    }

    /// Inserts an axis before `axis`.
    #[must_use]
    pub fn insert(&self, axis: Axis, dim: impl Into<Dim>) -> Shape {
        let mut dims = self.0.clone();
        dims.insert(axis, dim.into());
        Shape(dims)
    }

    /// Concatenates the axes of both.
    #[must_use]
    pub fn join(&self, other: &Shape) -> Shape {
        Shape(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Substitutes numbers for symbolic dimensions.
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

/// Normalises an axis; negative ones count from the end.
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

/// Anything that can be passed as a shape; checked when it is used.
pub trait IntoShape {
    /// Converts to a shape.
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
    /// The axes as given.
    pub fn new(axes: &[usize]) -> Self {
        Axes(axes.into())
    }

    /// `0 … rank-1`.
    pub fn all(rank: usize) -> Self {
        Axes((0..rank).collect())
    }

    /// The inverse permutation.
    #[must_use]
    pub fn inverse(&self) -> Axes {
        let mut out: SmallVec<_> = smallvec::smallvec![0; self.0.len()];
        for (i, &axis) in self.0.iter().enumerate() {
            out[axis] = i;
        }
        Axes(out)
    }

    /// The axes in ascending order.
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
        // An empty axis does not excuse the others: frameworks multiply the other sizes.
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
