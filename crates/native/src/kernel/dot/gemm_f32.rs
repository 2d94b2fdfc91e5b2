//! Packed GEMM of f32: panels of the right operand's columns are packed; rows of the left operand are read in place if
//! that is as fast.
//!
//! Each task has a rectangle of the result and packs its own panels, since panels packed by another core would come
//! from its cache. An element is summed in the same order whatever rectangle it is in, so results are bit-identical for
//! any number of tasks.
#![allow(unsafe_code)]

use crate::memory::Scratch;
use crate::parallel::{self, SharedSlice, TaskSlice};
use crate::simd::{
    PanelShape, Rows, Strides, TRANSPOSE_SIZE, panel_shape, panel_tile, prefetch_line, transpose16,
};

/// The most steps of the contraction per pass (kc): a panel comes from L2 as fast as it is needed, and with fewer
/// passes the result is read and written less often.
const DEPTH: usize = 512;
/// The most columns that are packed at a time (nc): about what L2 holds.
const COLUMNS: usize = 1024;
/// Panels that are packed together, so that memory is read in longer runs.
const PACKED_TOGETHER: usize = 8;
/// MACs from which packing pays.
const MIN_MACS: usize = 1 << 21;
/// MACs per task.
const TASK_MACS: usize = 1 << 21;
/// Rows with this stride in bytes map to the same sets of L1.
const ALIASING_STRIDE: usize = 4096;
/// Blocks of rows that are copied at a time.
const STRIP: usize = 8;
/// Elements of the largest tile, and of a copied block of rows.
const TILE: usize = 14 * 32;
const COPY: usize = 14 * (DEPTH + ROW_PAD) + ROW_PAD;
/// Padding between copied rows: whole vectors may be written.
const ROW_PAD: usize = 16;
/// Elements per cache line.
const LINE: usize = 16;
/// The prefetch distance in rows of the right operand while it is packed.
const PREFETCH_ROWS: usize = 4;
/// The most lines of the left operand that are prefetched per tile: more would delay the tile's own loads.
const PREFETCH_LINES: usize = 16;

/// The tile shape for a matmul, if it is large enough and the machine has such tiles.
pub fn tile_shape([m, n, k]: [usize; 3]) -> Option<PanelShape> {
    let large = m.saturating_mul(n).saturating_mul(k) >= MIN_MACS;
    let fits = large && m >= 8 && n >= 16 && k >= 16;
    fits.then(panel_shape).flatten()
}

/// Whether a matmul runs on packed panels.
pub fn fits(shape: [usize; 3]) -> bool {
    tile_shape(shape).is_some()
}

/// `dst (+)= lhs · rhs`, contiguous `dst`, on `threads` threads, with the shape that [`tile_shape`] gave.
pub fn run(
    shape: PanelShape,
    [m, n, k]: [usize; 3],
    dst: &mut [f32],
    (left, lhs): (&[f32], Strides),
    (right, rhs): (&[f32], Strides),
    accumulate: bool,
    threads: usize,
) {
    assert!(dst.len() == m * n && lhs.fit(m, k, left.len()) && rhs.fit(k, n, right.len()));
    let work = Work {
        shape,
        left,
        lhs,
        right,
        rhs,
        n,
        k,
        depth: k.div_ceil(k.div_ceil(DEPTH).max(1)),
        accumulate,
    };
    let wanted = (m * n * k / TASK_MACS).clamp(1, threads.max(1));
    let (down, across) = divide(m, n, wanted);
    // Whole tiles, as far as there are rows and columns.
    let rows = m.div_ceil(down).next_multiple_of(2);
    let columns = n.div_ceil(across).next_multiple_of(shape.columns);
    let (down, across) = (m.div_ceil(rows), n.div_ceil(columns));
    let parts = SharedSlice::new(dst).watched();
    parallel::for_tasks(down * across, |task| {
        let (i, j) = (task / across * rows, task % across * columns);
        let (height, width) = (rows.min(m - i), columns.min(n - j));
        // SAFETY: rectangles do not overlap, and a task has one.
        let mut part = unsafe { parts.task(task) };
        work.rectangle(&mut part, (i, height), (j, width));
    });
}

/// Divides a result into about `wanted` rectangles: the division that reads the least.
fn divide(m: usize, n: usize, wanted: usize) -> (usize, usize) {
    let cuts = (1..=wanted).filter(|down| wanted.is_multiple_of(*down));
    let read = |down: usize| m.div_ceil(down) + n.div_ceil(wanted / down);
    let down = cuts.rev().min_by_key(|&down| read(down)).unwrap_or(1);
    (down, wanted / down)
}

/// The numbers of tall and short tiles that cover so many rows, and the number of rows left over.
fn heights(rows: usize, tall: usize, short: usize) -> (usize, usize, usize) {
    for rest in 0..tall.min(rows + 1) {
        let whole = rows - rest;
        for talls in (0..=whole / tall).rev().take(short) {
            let others = whole - talls * tall;
            if others.is_multiple_of(short) {
                return (talls, others / short, rest);
            }
        }
    }
    (0, 0, rows)
}

struct Work<'a> {
    shape: PanelShape,
    left: &'a [f32],
    lhs: Strides,
    right: &'a [f32],
    rhs: Strides,
    n: usize,
    k: usize,
    depth: usize,
    accumulate: bool,
}

impl Work<'_> {
    /// Computes a rectangle of the result, given by its first row and column and their numbers.
    fn rectangle(
        &self,
        out: &mut TaskSlice<'_, f32>,
        (row, rows): (usize, usize),
        (column, columns): (usize, usize),
    ) {
        let PanelShape { tall, short, .. } = self.shape;
        // Always the same size, so that it is the same memory from matmul to matmul, which is still in cache.
        let mut packed = Scratch::<f32>::unzeroed(COLUMNS * DEPTH);
        let mut copied = Scratch::<f32>::unzeroed(STRIP * COPY);
        let mut tile = [0f32; TILE];
        let (talls, shorts, rest) = heights(rows, tall, short);
        let counts = [
            (talls, tall),
            (shorts, short),
            (usize::from(rest > 0), rest),
        ];
        for j in (column..column + columns).step_by(COLUMNS) {
            let columns = COLUMNS.min(column + columns - j);
            let panels = columns.div_ceil(self.shape.columns);
            for p in (0..self.k).step_by(self.depth) {
                let depth = self.depth.min(self.k - p);
                self.pack(&mut packed, (j, columns), (p, depth));
                let accumulate = self.accumulate || p > 0;
                let mut i = row;
                for (count, height) in counts {
                    let strip = if self.is_transposed(height) { STRIP } else { 1 };
                    for first in (0..count).step_by(strip) {
                        // A task may be the whole matmul.
                        parallel::poll();
                        let some = strip.min(count - first);
                        let lies = self.can_read_in_place(height);
                        let mut prefetch = Prefetch::default();
                        if !lies {
                            self.copy(&mut copied, (i, height, some), (p, depth));
                            let next = some.min(count - first - some);
                            let rows = (i + some * height, next * height);
                            prefetch = self.prefetch(rows, (p, depth), some * panels);
                        }
                        for copied in copied.chunks_exact(COPY).take(some) {
                            let left = match lies {
                                true => self.in_place(i, p),
                                false => self.in_copy(copied, height, depth),
                            };
                            let block = (i, height, depth);
                            let memory = (&packed[..], &mut tile[..], &mut prefetch);
                            self.tiles(out, left, memory, block, (j, columns), accumulate);
                            i += height;
                        }
                    }
                }
            }
        }
    }

    /// A block of rows times all panels.
    fn tiles(
        &self,
        out: &mut TaskSlice<'_, f32>,
        left: Rows<'_>,
        (packed, tile, prefetch): (&[f32], &mut [f32], &mut Prefetch),
        (i, height, depth): (usize, usize, usize),
        (j, columns): (usize, usize),
        accumulate: bool,
    ) {
        let PanelShape {
            tall,
            short,
            columns: width,
            ..
        } = self.shape;
        let whole = height == tall || height == short;
        for (at, panel) in packed
            .chunks_exact(width * depth)
            .take(columns.div_ceil(width))
            .enumerate()
        {
            prefetch.issue(self.left);
            let first = at * width;
            let start = i * self.n + j + first;
            if whole && first + width <= columns {
                let mut grid = out.grid(start, height, width, self.n);
                panel_tile(
                    self.shape,
                    height,
                    left,
                    (panel, depth),
                    &mut grid,
                    accumulate,
                );
                continue;
            }
            // A tile that extends beyond the result is computed in scratch.
            let full = if whole { height } else { tall };
            let mut own = TaskSlice::whole(tile);
            let mut grid = own.grid(0, full, width, width);
            panel_tile(self.shape, full, left, (panel, depth), &mut grid, false);
            let sums = own.slice(0, full * width);
            for (r, sums) in sums.chunks_exact(width).take(height).enumerate() {
                let to = out.slice(start + r * self.n, width.min(columns - first));
                for (to, &sum) in to.iter_mut().zip(sums) {
                    *to = if accumulate { *to + sum } else { sum };
                }
            }
        }
    }

    /// The offset of element `(i, p)` of the left operand.
    fn offset_of(&self, i: usize, p: usize) -> usize {
        let Strides { offset, row, col } = self.lhs;
        (offset as isize + i as isize * row + p as isize * col) as usize
    }

    /// Whether rows are read in place.
    fn can_read_in_place(&self, height: usize) -> bool {
        let Strides { row, col, .. } = self.lhs;
        let whole = height == self.shape.tall || height == self.shape.short;
        let aliased = (row as usize * size_of::<f32>()).is_multiple_of(ALIASING_STRIDE);
        col == 1 && row > 0 && whole && !aliased
    }

    fn in_place(&self, i: usize, p: usize) -> Rows<'_> {
        Rows {
            data: self.left,
            start: self.offset_of(i, p),
            row_stride: self.lhs.row as usize,
            step: 1,
        }
    }

    /// Whether the operand is transposed: its rows are then copied with rows innermost.
    fn is_transposed(&self, height: usize) -> bool {
        self.lhs.row == 1 && (height == self.shape.tall || height == self.shape.short)
    }

    fn in_copy<'a>(&self, data: &'a [f32], height: usize, depth: usize) -> Rows<'a> {
        let (row_stride, step) = match self.is_transposed(height) {
            true => (1, height),
            false => (depth + ROW_PAD, 1),
        };
        Rows {
            data,
            start: 0,
            row_stride,
            step,
        }
    }

    /// The data that is copied next, to be prefetched over so many tiles.
    fn prefetch(
        &self,
        (i, rows): (usize, usize),
        (p, depth): (usize, usize),
        tiles: usize,
    ) -> Prefetch {
        let Strides { row, col, .. } = self.lhs;
        let (runs, len, row_stride) = match (row, col) {
            (1, _) => (depth, rows, col),
            (_, 1) => (rows, depth, row),
            _ => return Prefetch::default(),
        };
        if rows == 0 || row_stride < 0 {
            return Prefetch::default();
        }
        // One more, since a run may begin within a line.
        let lines = len.div_ceil(LINE) + 1;
        Prefetch {
            at: self.offset_of(i, p),
            row_stride: row_stride as usize,
            lines,
            line: 0,
            left: runs * lines,
            each: (runs * lines).div_ceil(tiles.max(1)).min(PREFETCH_LINES),
        }
    }

    /// Copies some blocks of rows. In an incomplete tile the other rows have arbitrary contents.
    fn copy(
        &self,
        copied: &mut [f32],
        (i, height, some): (usize, usize, usize),
        (p, depth): (usize, usize),
    ) {
        if self.is_transposed(height) {
            for q in 0..depth {
                // All blocks at once: a single block has less than a line.
                let from = self.offset_of(i, p + q);
                let line = &self.left[from..];
                for (block, to) in copied.chunks_exact_mut(COPY).take(some).enumerate() {
                    let (from, to) = (&line[block * height..], &mut to[q * height..]);
                    // The excess of a vector is overwritten by the next one.
                    match (
                        from.first_chunk::<ROW_PAD>(),
                        to.first_chunk_mut::<ROW_PAD>(),
                    ) {
                        (Some(from), Some(to)) => *to = *from,
                        _ => to[..height].copy_from_slice(&from[..height]),
                    }
                }
            }
            return;
        }
        for (block, to) in copied.chunks_exact_mut(COPY).take(some).enumerate() {
            let rows = to.chunks_exact_mut(depth + ROW_PAD).take(height);
            for (r, to) in rows.enumerate() {
                let row = i + block * height + r;
                let to = &mut to[..depth];
                if self.lhs.col == 1 {
                    let from = self.offset_of(row, p);
                    to.copy_from_slice(&self.left[from..from + depth]);
                    continue;
                }
                for (q, to) in to.iter_mut().enumerate() {
                    *to = self.left[self.offset_of(row, p + q)];
                }
            }
        }
    }

    /// Packs columns of the right operand into consecutive panels; columns beyond the edge are zero.
    fn pack(&self, packed: &mut [f32], (j, columns): (usize, usize), (p, depth): (usize, usize)) {
        let width = self.shape.columns;
        let Strides { offset, row, col } = self.rhs;
        let at = |q: usize, c: usize| {
            (offset as isize + (p + q) as isize * row + (j + c) as isize * col) as usize
        };
        let whole = columns / width;
        let panels = &mut packed[..columns.div_ceil(width) * width * depth];
        let (full, rest) = panels.split_at_mut(whole * width * depth);
        match (row, col) {
            (_, 1) => {
                for (g, some) in full.chunks_mut(PACKED_TOGETHER * width * depth).enumerate() {
                    for q in 0..depth {
                        let from = at(q, g * PACKED_TOGETHER * width);
                        let next =
                            from.wrapping_add_signed(row.wrapping_mul(PREFETCH_ROWS as isize));
                        for line in (0..some.len() / depth).step_by(LINE) {
                            prefetch_line(
                                self.right.as_ptr().wrapping_add(next.wrapping_add(line)),
                            );
                        }
                        let from = &self.right[from..from + some.len() / depth];
                        for (c, from) in from.chunks_exact(width).enumerate() {
                            let to = (c * depth + q) * width;
                            copy(&mut some[to..to + width], from);
                        }
                    }
                }
            }
            (1, _) if col > 0 && col as usize >= TRANSPOSE_SIZE => {
                for (c, panel) in full.chunks_exact_mut(width * depth).enumerate() {
                    let squares = depth / TRANSPOSE_SIZE * TRANSPOSE_SIZE;
                    for first in (0..width).step_by(TRANSPOSE_SIZE) {
                        for q in (0..squares).step_by(TRANSPOSE_SIZE) {
                            let from = (&self.right[at(q, c * width + first)..], col as usize);
                            transpose16(from, (&mut panel[q * width + first..], width));
                        }
                    }
                    for q in squares..depth {
                        for (e, to) in panel[q * width..(q + 1) * width].iter_mut().enumerate() {
                            *to = self.right[at(q, c * width + e)];
                        }
                    }
                }
            }
            _ => {
                for (c, panel) in full.chunks_exact_mut(width * depth).enumerate() {
                    for (q, to) in panel.chunks_exact_mut(width).enumerate() {
                        for (e, to) in to.iter_mut().enumerate() {
                            *to = self.right[at(q, c * width + e)];
                        }
                    }
                }
            }
        }
        for (q, to) in rest.chunks_exact_mut(width).enumerate() {
            for (e, to) in to.iter_mut().enumerate() {
                let column = whole * width + e;
                *to = if column < columns {
                    self.right[at(q, column)]
                } else {
                    0.0
                };
            }
        }
    }
}

/// Incremental prefetch of runs of the left operand: some lines per tile.
#[derive(Clone, Copy, Debug, Default)]
struct Prefetch {
    /// The start of the current run, and the stride of runs.
    at: usize,
    row_stride: usize,
    /// Lines per run, and the current line.
    lines: usize,
    line: usize,
    /// Lines left to prefetch, and lines per tile.
    left: usize,
    each: usize,
}

impl Prefetch {
    fn issue(&mut self, data: &[f32]) {
        let each = self.each.min(self.left);
        self.left -= each;
        for _ in 0..each {
            let at = self.at.wrapping_add(self.line * LINE);
            prefetch_line(data.as_ptr().wrapping_add(at));
            self.line += 1;
            if self.line == self.lines {
                self.line = 0;
                self.at = self.at.wrapping_add(self.row_stride);
            }
        }
    }
}

/// Copies a row of a panel: of 16 or 32 elements, in whole vectors.
#[inline(always)]
fn copy(to: &mut [f32], from: &[f32]) {
    let ((to, _), (from, _)) = (to.as_chunks_mut::<16>(), from.as_chunks::<16>());
    for (to, from) in to.iter_mut().zip(from) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::panel_shapes;

    fn number(i: usize) -> f32 {
        ((i * 7919) % 23) as f32 - 11.0
    }

    /// Small integers, whose sums are exact in any order.
    fn check(tiles: PanelShape, [m, n, k]: [usize; 3], [left, right, accumulate]: [bool; 3]) {
        let a: Vec<f32> = (0..m * k + 3).map(number).collect();
        let b: Vec<f32> = (2..n * k + 7).map(number).collect();
        let strides = |rows: usize, columns: usize, transposed: bool| match transposed {
            false => (columns as isize, 1),
            true => (1, rows as isize),
        };
        let ((row, col), (rhs_row, rhs_col)) = (strides(m, k, left), strides(k, n, right));
        let lhs = Strides {
            offset: 3,
            row,
            col,
        };
        let rhs = Strides {
            offset: 5,
            row: rhs_row,
            col: rhs_col,
        };
        for threads in [1, 3] {
            let mut out: Vec<f32> = (0..m * n).map(|i| (i % 5) as f32).collect();
            run(
                tiles,
                [m, n, k],
                &mut out,
                (&a, lhs),
                (&b, rhs),
                accumulate,
                threads,
            );
            for i in (0..m).step_by(3) {
                for j in 0..n {
                    let at = |p: usize| {
                        let x = 3 + i as isize * row + p as isize * col;
                        let y = 5 + p as isize * rhs_row + j as isize * rhs_col;
                        a[x as usize] * b[y as usize]
                    };
                    let sum: f32 = (0..k).map(at).sum();
                    let before = if accumulate {
                        ((i * n + j) % 5) as f32
                    } else {
                        0.0
                    };
                    assert_eq!(out[i * n + j], sum + before, "{m} {n} {k} at {i} {j}");
                }
            }
        }
    }

    #[test]
    fn matmuls_are_exact_at_every_level() {
        // Rows that fill tiles and those that do not, columns beyond the last panel, several parts of the contraction.
        let shapes = [
            [26, 64, 20],
            [27, 33, 17],
            [9, 16, 16],
            [60, 70, 700],
            [29, 1100, 33],
        ];
        for tiles in panel_shapes() {
            for shape in shapes {
                for bits in 0..8 {
                    check(tiles, shape, [1, 2, 4].map(|bit| bits & bit != 0));
                }
            }
            // Rows that map to the same cache sets.
            check(tiles, [30, 40, 2048], [false, true, false]);
        }
    }

    #[test]
    fn large_matmuls_are_divided() {
        for tiles in panel_shapes() {
            check(tiles, [140, 260, 130], [false; 3]);
        }
        assert_eq!(divide(1024, 256, 4), (4, 1));
        assert_eq!(divide(256, 1024, 4), (1, 4));
        assert_eq!(divide(1000, 1000, 4), (2, 2));
    }

    #[test]
    fn tiles_cover_all_rows() {
        for rows in 1..400 {
            let (tall, short, rest) = heights(rows, 14, 12);
            assert_eq!(tall * 14 + short * 12 + rest, rows);
            assert!(rest < 14);
        }
        assert_eq!(heights(1024, 14, 12).2, 0);
    }
}
