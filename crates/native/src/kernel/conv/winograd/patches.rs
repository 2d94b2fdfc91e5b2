//! Where the patches of images are.

use super::super::slab::{self, Channels, Span};
use super::super::{Axis, Real};
use super::transform::STEP;
use std::ops::Range;

/// Patches of one task.
const PATCHES: usize = 224;

/// The patches of a stack of images, counted along rows, then down an image, then from image to image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patches {
    images: usize,
    /// Rows of one image.
    down: usize,
    /// Patches of one row.
    pub across: usize,
}

impl Patches {
    /// Those that give so many results down and across.
    pub fn new(images: usize, down: usize, across: usize) -> Self {
        Patches {
            images,
            down: down.div_ceil(STEP),
            across: across.div_ceil(STEP),
        }
    }

    pub fn rows(&self) -> usize {
        self.images * self.down
    }

    pub fn count(&self) -> usize {
        self.rows() * self.across
    }

    /// The image of a patch, and where its results begin there.
    pub fn place(&self, patch: usize) -> (usize, [usize; 2]) {
        let (row, column) = (patch / self.across, patch % self.across);
        (row / self.down, [row % self.down * STEP, column * STEP])
    }

    /// Rows of one task: whole register tiles of so many patches, as nearly as can be.
    pub fn rows_of_task(&self, tile: usize) -> usize {
        let waste = |rows: &usize| {
            let patches = rows * self.across;
            (patches.next_multiple_of(tile) - patches) * 1000 / patches
        };
        let most = (PATCHES / self.across).clamp(1, self.rows());
        (most.div_ceil(2)..=most).min_by_key(waste).unwrap_or(1)
    }
}

/// Images as they are given: any layout, any type of element.
pub(super) struct Reader<'a, T> {
    pub data: &'a [T],
    pub offset: isize,
    /// From image to image.
    pub image: isize,
    pub axes: [Axis; 2],
    /// How many places before the first one the first patch begins.
    pub lo: [isize; 2],
    pub features: usize,
    /// From feature to feature.
    pub feature: isize,
    /// Places along the side of a patch.
    pub side: usize,
    pub patches: Patches,
}

impl<'a, T: Real> Reader<'a, T> {
    /// The stored elements as they are summed, if features lie side by side.
    fn direct(&self) -> Option<&'a [T::Sum]> {
        T::as_sums(self.data).filter(|_| self.feature == 1)
    }

    /// Places across all patches of a row.
    fn across(&self) -> usize {
        (self.patches.across - 1) * STEP + self.side
    }

    /// Elements that `images` needs for copies of so many rows.
    pub fn copies(&self, rows: usize) -> usize {
        match self.direct() {
            Some(_) => 0,
            None => rows * self.side * self.across() * self.features,
        }
    }

    /// Rows of patches with features side by side: as they lie, or copied row by row.
    pub fn images<'c>(
        &self,
        rows: Range<usize>,
        copies: &'c mut [T::Sum],
        zeros: &'c [T::Sum],
    ) -> Images<'c, T::Sum>
    where
        'a: 'c,
    {
        if let Some(data) = self.direct() {
            return Images {
                data,
                offset: self.offset,
                image: self.image,
                axes: self.axes,
                lo: self.lo,
                features: self.features,
                first: 0,
                patches: self.patches,
                zeros,
            };
        }
        let (size, pitch) = ([self.side, self.across()], self.features);
        let strip = size[0] * size[1] * pitch;
        for (row, copy) in rows.clone().zip(copies.chunks_exact_mut(strip)) {
            let (image, place) = self.patches.place(row * self.patches.across);
            let span = |i: usize| Span {
                axis: self.axes[i],
                start: place[i] as isize - self.lo[i],
                size: size[i],
            };
            let offset = self.offset + image as isize * self.image;
            let axis = Axis {
                size: self.features,
                stride: self.feature,
            };
            slab::fill(
                copy,
                self.data,
                offset,
                &[span(0), span(1)],
                Channels { axis, pitch },
            );
        }
        let strides = [size[1] * pitch, pitch];
        Images {
            data: copies,
            offset: 0,
            image: strip as isize,
            axes: [0, 1].map(|i| Axis {
                size: size[i],
                stride: strides[i] as isize,
            }),
            lo: [0, 0],
            features: self.features,
            first: rows.start * self.patches.across,
            patches: Patches {
                images: rows.len(),
                down: 1,
                across: self.patches.across,
            },
            zeros,
        }
    }
}

/// Images with features side by side.
pub(super) struct Images<'a, S> {
    data: &'a [S],
    offset: isize,
    image: isize,
    axes: [Axis; 2],
    lo: [isize; 2],
    pub features: usize,
    /// The first patch that is here.
    first: usize,
    patches: Patches,
    /// What lies beyond an image's border.
    zeros: &'a [S],
}

impl<'a, S> Images<'a, S> {
    /// The features of the `N` by `N` places of a patch.
    #[inline]
    pub fn patch<const N: usize>(&self, patch: usize) -> [[&'a [S]; N]; N] {
        let (image, place) = self.patches.place(patch - self.first);
        let offset = self.offset + image as isize * self.image;
        let mut places = [[self.zeros; N]; N];
        let [first, last] = [0, N - 1].map(|i| {
            let y = within(place[0] + i, self.lo[0], self.axes[0])?;
            Some(offset + y + within(place[1] + i, self.lo[1], self.axes[1])?)
        });
        if let (Some(first), Some(_)) = (first, last) {
            let [down, across] = [0, 1].map(|i| self.axes[i].stride);
            for (i, line) in places.iter_mut().enumerate() {
                for (j, features) in line.iter_mut().enumerate() {
                    let start = (first + i as isize * down + j as isize * across) as usize;
                    *features = &self.data[start..start + self.features];
                }
            }
            return places;
        }
        for (i, line) in places.iter_mut().enumerate() {
            let Some(y) = within(place[0] + i, self.lo[0], self.axes[0]) else {
                continue;
            };
            for (j, features) in line.iter_mut().enumerate() {
                if let Some(x) = within(place[1] + j, self.lo[1], self.axes[1]) {
                    let start = (offset + y + x) as usize;
                    *features = &self.data[start..start + self.features];
                }
            }
        }
        places
    }
}

/// How far a place is along an axis, if it is within.
#[inline]
fn within(at: usize, lo: isize, axis: Axis) -> Option<isize> {
    let at = at as isize - lo;
    (at >= 0 && (at as usize) < axis.size).then_some(at * axis.stride)
}
