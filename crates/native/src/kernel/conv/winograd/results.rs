//! Writing Winograd results: transforms sixteen planes back and writes them as far as they are within the image.

use super::super::problem::Dim;
use super::super::staging_buffer;
use super::super::{Axis, Problem, Real};
use super::patches::Patches;
use super::transform::{self, LANES, STEP};
use crate::parallel::TaskSlice;
use crate::simd::TileShape;
use std::ops::Range;

/// The results of one group.
pub(super) struct Results<'a> {
    problem: &'a Problem,
    /// The offset of the first one.
    base: isize,
    depth: isize,
    down: Axis,
    across: Axis,
    patches: Patches,
}

impl<'a> Results<'a> {
    pub fn new(problem: &'a Problem, axes: &[Dim; 3], group: usize, patches: Patches) -> Self {
        let [depth, down, across] = axes.map(|dim| dim.out);
        Results {
            problem,
            base: problem.out.offset + group as isize * problem.out.group,
            depth: depth.stride,
            down,
            across,
            patches,
        }
    }

    /// Elements of staging that [`Results::write`] needs.
    pub fn stage(&self) -> usize {
        STEP * STEP * self.patches.across * LANES
    }

    /// Whether positions of a line are contiguous, and so are lines: then everything between two results of a row of
    /// patches belongs to these patches.
    fn is_dense(&self) -> bool {
        let positions = self.across.size as isize * self.across.stride;
        self.problem.out.inner == 1
            && self.across.stride == self.problem.o as isize
            && self.down.stride == positions
    }

    /// Writes the results in register tiles of consecutive patches at position `z` along the depth: the features from
    /// `first` on.
    #[allow(clippy::too_many_arguments)]
    pub fn write<T: Real>(
        &self,
        accumulators: &[T::Sum],
        shape: TileShape,
        first: usize,
        z: usize,
        block: Range<usize>,
        stage: &mut [T::Sum],
        out: &mut TaskSlice<'_, T>,
    ) {
        let apart = self.problem.out.inner;
        let base = self.base + z as isize * self.depth + first as isize * apart;
        let dense = self.is_dense() && T::as_sums(&[]).is_some();
        let mut start = block.start;
        while start < block.end {
            let end = block.end.min(self.patches.row_end(start));
            let (image, [y, x]) = self.patches.position(start);
            let row = start - block.start;
            let size = [
                STEP.min(self.down.size - y),
                (STEP * (end - start)).min(self.across.size - x),
            ];
            let base = base
                + image as isize * self.problem.out.outer
                + y as isize * self.down.stride
                + x as isize * self.across.stride;
            for lane in (0..shape.columns.min(self.problem.o - first)).step_by(LANES) {
                let base = base + lane as isize * apart;
                let accumulators = &accumulators[lane..];
                if dense {
                    let strides = [self.down, self.across].map(|axis| axis.stride as usize);
                    let last = (size[0] - 1) * strides[0] + (size[1] - 1) * strides[1];
                    let out = T::as_sums_mut(out.slice(base as usize, last + LANES));
                    if let Some(out) = out {
                        transform::squares(out, strides, size, accumulators, row, shape);
                    }
                    continue;
                }
                let strides = [size[1] * LANES, LANES];
                let held = &mut stage[..size[0] * strides[0]];
                transform::squares(held, strides, size, accumulators, row, shape);
                self.store(held, size, base, out);
            }
            start = end;
        }
    }

    /// Writes lines of results.
    fn store<T: Real>(
        &self,
        held: &[T::Sum],
        size: [usize; 2],
        base: isize,
        out: &mut TaskSlice<'_, T>,
    ) {
        let (step, apart) = (self.across.stride, self.problem.out.inner);
        let line = size[1] * LANES;
        // Lines that are adjacent in the result are merged.
        let line = match size[1] as isize * step == self.down.stride {
            true => held.len(),
            false => line,
        };
        for (i, held) in held.chunks_exact(line).enumerate() {
            let base = base + i as isize * self.down.stride;
            if apart != 1 {
                staging_buffer::write_line::<T>(held, (LANES, LANES), out, base, step, apart);
                continue;
            }
            for (x, lanes) in held.chunks_exact(LANES).enumerate() {
                let out = out.slice((base + x as isize * step) as usize, LANES);
                for (out, &x) in out.iter_mut().zip(lanes) {
                    *out = T::narrow(x);
                }
            }
        }
    }
}
