//! Patches of images: their numbering, and reading their elements.

use super::super::blocking::{self, Channels, Span};
use super::super::{Axis, Real};
use super::transform::STEP;
use std::ops::Range;

/// Patches per task, for images that are read once.
pub(super) const PATCHES: usize = 224;

/// The patches of a stack of images, counted along rows, then from top to bottom of an image, then from image to image.
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

    /// The image of a patch, and the position of its first result.
    pub fn position(&self, patch: usize) -> (usize, [usize; 2]) {
        let (row, column) = (patch / self.across, patch % self.across);
        (row / self.down, [row % self.down * STEP, column * STEP])
    }

    /// The first patch behind the row of this one.
    pub fn row_end(&self, patch: usize) -> usize {
        (patch / self.across + 1) * self.across
    }

    /// Rows of one task of at most so many patches: whole register tiles, as nearly as possible.
    pub fn rows_of_task(&self, tile: usize, patches: usize) -> usize {
        let waste = |rows: &usize| {
            let patches = rows * self.across;
            (patches.next_multiple_of(tile) - patches) * 1000 / patches
        };
        let most = (patches / self.across).clamp(1, self.rows());
        (most.div_ceil(2)..=most).min_by_key(waste).unwrap_or(1)
    }
}

/// Images in any layout, with any type of element.
pub(super) struct Reader<'a, T> {
    pub data: &'a [T],
    pub offset: isize,
    /// The stride of images.
    pub image: isize,
    /// The stride of images within a volume.
    pub depth: isize,
    pub axes: [Axis; 2],
    /// How many positions before the first one the first patch begins.
    pub lo: [isize; 2],
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

    /// The horizontal extent of all patches of a row.
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

    /// Rows of patches at this depth of their volumes, with contiguous features: in place, or copied row by row.
    pub fn images<'c>(
        &self,
        rows: Range<usize>,
        deep: usize,
        copies: &'c mut [T::Sum],
        zeros: &'c [T::Sum],
    ) -> Images<'c, T::Sum>
    where
        'a: 'c,
    {
        let offset = self.offset + deep as isize * self.depth;
        if let Some(data) = self.direct() {
            return Images {
                data,
                offset,
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
        let (line, mut before) = (size[1] * pitch, None);
        for (i, row) in rows.clone().enumerate() {
            let (image, position) = self.patches.position(row * self.patches.across);
            // The row above has copied the overlap.
            let shared = match before {
                Some(above) if above == image => self.side - STEP,
                _ => 0,
            };
            before = Some(image);
            let start = i * strip;
            copies.copy_within(start - shared * line..start, start);
            let span = |i: usize, behind: usize| Span {
                axis: self.axes[i],
                start: (position[i] + behind) as isize - self.lo[i],
                size: size[i] - behind,
            };
            let offset = offset + image as isize * self.image;
            let axis = Axis {
                size: self.features,
                stride: self.feature,
            };
            blocking::fill(
                &mut copies[start + shared * line..start + strip],
                self.data,
                offset,
                &[span(0, shared), span(1, 0)],
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

/// Images with contiguous features.
pub(super) struct Images<'a, S> {
    data: &'a [S],
    offset: isize,
    image: isize,
    axes: [Axis; 2],
    lo: [isize; 2],
    pub features: usize,
    /// The first patch that is available.
    first: usize,
    patches: Patches,
    /// The padding beyond an image's border.
    zeros: &'a [S],
}

impl<'a, S: Copy> Images<'a, S> {
    /// Consecutive patches of `N × N` positions, row by row.
    pub fn runs<const N: usize>(
        &self,
        patches: Range<usize>,
    ) -> impl Iterator<Item = Run<'a, S, N>> {
        let mut start = patches.start;
        std::iter::from_fn(move || {
            let run = start
                ..patches
                    .end
                    .min(self.patches.row_end(start - self.first) + self.first);
            start = run.end;
            (!run.is_empty()).then(|| self.run(run))
        })
    }

    fn run<const N: usize>(&self, patches: Range<usize>) -> Run<'a, S, N> {
        let (image, position) = self.patches.position(patches.start - self.first);
        let offset = self.offset + image as isize * self.image;
        let mut lines = [Line {
            data: self.zeros,
            start: 0,
            step: 0,
        }; N];
        for (i, line) in lines.iter_mut().enumerate() {
            if let Some(y) = within(position[0] + i, self.lo[0], self.axes[0]) {
                *line = Line {
                    data: self.data,
                    start: offset + y,
                    step: self.axes[1].stride,
                };
            }
        }
        Run {
            lines,
            first: position[1] as isize - self.lo[1],
            size: self.axes[1].size,
            count: patches.len(),
            features: self.features,
        }
    }
}

/// Neighbouring patches of a row.
pub(super) struct Run<'a, S, const N: usize> {
    /// The input lines under them, from top to bottom.
    pub lines: [Line<'a, S>; N],
    /// The first position that they read. It may lie before the lines begin, as the last one may lie behind them.
    pub first: isize,
    /// Positions per line.
    pub size: usize,
    pub count: usize,
    pub features: usize,
}

/// A line of positions with contiguous features. All positions beyond the border of the image share one, of zeros.
#[derive(Clone, Copy)]
pub(super) struct Line<'a, S> {
    data: &'a [S],
    start: isize,
    step: isize,
}

impl<'a, S> Line<'a, S> {
    /// The features from position `x` on.
    #[inline(always)]
    pub fn at(&self, x: usize) -> &'a [S] {
        &self.data[(self.start + x as isize * self.step) as usize..]
    }
}

/// The offset of a position along an axis, if it is in bounds.
#[inline]
fn within(at: usize, lo: isize, axis: Axis) -> Option<isize> {
    let at = at as isize - lo;
    (at >= 0 && (at as usize) < axis.size).then_some(at * axis.stride)
}
