//! Patches of images: their numbering, their division into blocks, and reading their elements.

use super::super::blocking::{self, Channels, Span};
use super::super::{Axis, Real};
use super::transform::STEP;
use std::ops::Range;

/// Patches per task.
const PATCHES: usize = 128;

/// The patches of a stack of images, in rows: from top to bottom of an image, then from image to image.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patches {
    images: usize,
    /// Rows of one image.
    down: usize,
    /// Patches per row.
    pub across: usize,
}

impl Patches {
    /// The patches that give so many results vertically and horizontally.
    pub fn new(images: usize, [down, across]: [usize; 2]) -> Self {
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

    /// The image of a patch, and the position of its first result.
    #[inline]
    pub fn position(&self, [row, column]: [usize; 2]) -> (usize, [usize; 2]) {
        (row / self.down, [row % self.down * STEP, column * STEP])
    }

    /// The division into blocks of about `most` patches, for register tiles of `tile` rows.
    pub fn cut(&self, tile: usize, most: usize) -> Blocking {
        if self.across > most {
            let columns = (most / tile).max(1) * tile;
            return Blocking {
                columns: columns.min(self.across),
                rows: 1,
                rows_of_task: (PATCHES / self.across).clamp(1, self.rows()),
            };
        }
        // As many rows as fill whole tiles, as nearly as possible.
        let waste = |rows: &usize| {
            let patches = rows * self.across;
            (patches.next_multiple_of(tile) - patches) * 1000 / patches
        };
        let most = (most / self.across).clamp(1, self.rows());
        let all = (most.div_ceil(2)..=most).rev();
        let rows = all.min_by_key(waste).unwrap_or(1);
        // Tasks of equal size, or a thread would wait for the last one.
        let blocks = (PATCHES / (rows * self.across)).max(1);
        let tasks = self.rows().div_ceil(rows * blocks);
        Blocking {
            columns: self.across,
            rows,
            rows_of_task: self.rows().div_ceil(tasks).next_multiple_of(rows),
        }
    }
}

/// Sizes of blocks, of whole rows or of a part of one, and of tasks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocking {
    columns: usize,
    rows: usize,
    pub rows_of_task: usize,
}

impl Blocking {
    /// Patches per block.
    pub fn patches(&self) -> usize {
        self.rows * self.columns
    }

    /// The blocks of some rows.
    pub fn blocks(self, rows: Range<usize>, across: usize) -> impl Iterator<Item = Block> {
        rows.clone().step_by(self.rows).flat_map(move |row| {
            let rows = row..rows.end.min(row + self.rows);
            (0..across).step_by(self.columns).map(move |column| Block {
                rows: rows.clone(),
                columns: column..across.min(column + self.columns),
            })
        })
    }
}

/// Patches that are transformed together.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub rows: Range<usize>,
    pub columns: Range<usize>,
}

impl Block {
    pub fn len(&self) -> usize {
        self.rows.len() * self.columns.len()
    }

    /// Row and column of the `index`-th patch.
    pub fn patch(&self, index: usize) -> [usize; 2] {
        let across = self.columns.len();
        [
            self.rows.start + index / across,
            self.columns.start + index % across,
        ]
    }

    /// Row and column of each patch.
    pub fn patches(&self) -> impl Iterator<Item = [usize; 2]> {
        let columns = self.columns.clone();
        let in_row = move |row| columns.clone().map(move |column| [row, column]);
        self.rows.clone().flat_map(in_row)
    }
}

/// Every `apart`-th position of an axis, where position `v` is the element `apart · v + phase - lo`: the offset of the
/// first one in bounds, the axis of these positions, and how many are missing before it.
pub(super) fn strided_axis(
    axis: Axis,
    apart: usize,
    phase: usize,
    lo: isize,
) -> (isize, Axis, isize) {
    let (distance, before) = (apart as isize, lo - phase as isize);
    let missing = -(-before).div_euclid(distance);
    let first = missing * distance - before;
    let size = axis.size.saturating_sub(first as usize).div_ceil(apart);
    let axis = Axis {
        size,
        stride: axis.stride * distance,
    };
    (first * axis.stride / distance, axis, missing)
}

/// Images in any layout, with any type of element.
pub(super) struct Reader<'a, T> {
    pub data: &'a [T],
    pub offset: isize,
    /// The stride of images.
    pub image: isize,
    pub axes: [Axis; 2],
    /// How many elements before the first one the first patch begins.
    pub lo: [isize; 2],
    /// The stride between positions of a patch; elements in between belong to other phases.
    pub apart: [usize; 2],
    pub features: usize,
    /// The stride of features.
    pub feature: isize,
    /// The side length of a patch.
    pub side: usize,
    pub patches: Patches,
}

impl<'a, T: Real> Reader<'a, T> {
    /// The stored elements as accumulator values, if features are contiguous.
    fn direct(&self) -> Option<&'a [T::Sum]> {
        T::as_sums(self.data).filter(|_| self.feature == 1)
    }

    /// Vertical and horizontal extent of all patches of a row.
    fn extent(&self) -> [usize; 2] {
        let across = (self.patches.across - 1) * STEP + self.side;
        [self.side * self.apart[0], across * self.apart[1]]
    }

    /// Elements that `images` needs for copies of so many rows.
    pub fn copies(&self, rows: usize) -> usize {
        let [down, across] = self.extent();
        match self.direct() {
            Some(_) => 0,
            None => rows * down * across * self.features,
        }
    }

    /// Rows of patches with contiguous features: in place, or copied row by row.
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
                apart: self.apart,
                features: self.features,
                first: 0,
                patches: self.patches,
                zeros,
            };
        }
        let (size, pitch) = (self.extent(), self.features);
        let strip = size[0] * size[1] * pitch;
        for (row, copy) in rows.clone().zip(copies.chunks_exact_mut(strip)) {
            let (image, position) = self.patches.position([row, 0]);
            let span = |i: usize| Span {
                axis: self.axes[i],
                start: (position[i] * self.apart[i]) as isize - self.lo[i],
                size: size[i],
            };
            let offset = self.offset + image as isize * self.image;
            let axis = Axis {
                size: self.features,
                stride: self.feature,
            };
            blocking::fill(
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
            apart: self.apart,
            features: self.features,
            first: rows.start,
            patches: Patches {
                images: rows.len(),
                down: 1,
                across: self.patches.across,
            },
            zeros,
        }
    }
}

/// Images with contiguous features.
#[derive(Clone, Copy)]
pub(super) struct Images<'a, S> {
    data: &'a [S],
    offset: isize,
    image: isize,
    axes: [Axis; 2],
    lo: [isize; 2],
    apart: [usize; 2],
    pub features: usize,
    /// The first row of patches that is available.
    first: usize,
    patches: Patches,
    /// The padding beyond an image's border.
    zeros: &'a [S],
}

impl<'a, S> Images<'a, S> {
    /// The positions of one phase, as images of their own.
    pub fn phase(mut self, phase: [usize; 2]) -> Self {
        for (i, phase) in phase.into_iter().enumerate() {
            let (offset, axis, lo) = strided_axis(self.axes[i], self.apart[i], phase, self.lo[i]);
            self.offset += offset;
            (self.axes[i], self.lo[i], self.apart[i]) = (axis, lo, 1);
        }
        self
    }

    /// The features of the `N × N` positions of a patch, in images of one phase.
    #[inline]
    pub fn patch<const N: usize>(&self, [row, column]: [usize; 2]) -> [[&'a [S]; N]; N] {
        let (image, position) = self.patches.position([row - self.first, column]);
        let offset = self.offset + image as isize * self.image;
        let mut positions = [[self.zeros; N]; N];
        let [first, last] = [0, N - 1].map(|i| {
            let y = within(position[0] + i, self.lo[0], self.axes[0])?;
            Some(offset + y + within(position[1] + i, self.lo[1], self.axes[1])?)
        });
        if let (Some(first), Some(_)) = (first, last) {
            let [down, across] = [0, 1].map(|i| self.axes[i].stride);
            for (i, line) in positions.iter_mut().enumerate() {
                for (j, features) in line.iter_mut().enumerate() {
                    let start = (first + i as isize * down + j as isize * across) as usize;
                    *features = &self.data[start..start + self.features];
                }
            }
            return positions;
        }
        for (i, line) in positions.iter_mut().enumerate() {
            let Some(y) = within(position[0] + i, self.lo[0], self.axes[0]) else {
                continue;
            };
            for (j, features) in line.iter_mut().enumerate() {
                if let Some(x) = within(position[1] + j, self.lo[1], self.axes[1]) {
                    let start = (offset + y + x) as usize;
                    *features = &self.data[start..start + self.features];
                }
            }
        }
        positions
    }
}

/// The offset of a position along an axis, if it is in bounds.
#[inline]
fn within(at: usize, lo: isize, axis: Axis) -> Option<isize> {
    let at = at as isize - lo;
    (at >= 0 && (at as usize) < axis.size).then_some(at * axis.stride)
}
