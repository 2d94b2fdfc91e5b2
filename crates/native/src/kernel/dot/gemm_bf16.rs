//! GEMM of bf16 by register tiles of pairs, if the CPU has `vdpbf16ps`.
//!
//! All threads pack the right operand, panel by panel; each task packs its own rows of the left one.

use half::bf16;

use super::shifted;
use crate::memory::Scratch;
use crate::parallel::{self, Columns};
use crate::simd::{
    BF16_TILE, Bf16Pair, PairRows, Strides, TRANSPOSE_SIZE, bf16_tile, multiversion,
    transpose16_pairs,
};

/// Elements along the contraction that are packed at a time, and columns: 4 MiB of pairs.
const DEPTH: usize = 1024;
const COLUMNS: usize = 2048;
/// Rows whose partial sums are kept while the parts of the contraction are processed: 8 MiB.
const MAX_PARTIAL_ROWS: usize = 72 * BF16_TILE.0;
/// The row pitch of pairs packed column by column: all rows of a tile, and some that are not read.
const ROW_PITCH: usize = BF16_TILE.0.next_multiple_of(16);
/// MACs below which tiles would be mostly padding.
const MIN_MACS: usize = 1 << 12;

/// Whether a matmul is large enough: small ones, and GEMVs, are widened to f32.
pub(super) fn fits([m, n, k]: [usize; 3]) -> bool {
    m >= BF16_TILE.0 / 2 && n >= BF16_TILE.1 / 2 && k >= 2 && m * n * k >= MIN_MACS
}

/// An operand as pairs along the contraction.
struct Pairs<'a> {
    data: &'a [bf16],
    offset: isize,
    /// Strides from one row or column to the next, and along the contraction.
    across: isize,
    along: isize,
    /// The length of the contraction from here on.
    depth: usize,
}

impl Pairs<'_> {
    #[inline(always)]
    fn bits(&self, line: usize, at: usize) -> Bf16Pair {
        let offset_of = self.offset + line as isize * self.across + at as isize * self.along;
        Bf16Pair::from(self.data[offset_of as usize].to_bits())
    }

    /// The pair that begins at an even position; elements beyond the end are zero.
    #[inline(always)]
    fn pair(&self, line: usize, at: usize) -> Bf16Pair {
        let second = if at + 1 < self.depth {
            self.bits(line, at + 1)
        } else {
            0
        };
        self.bits(line, at) | second << 16
    }

    /// The lines of a tile: column by column if that is their memory order, else line by line.
    fn rows<'o>(&self, out: &'o mut [Bf16Pair], first: usize, count: usize) -> PairRows<'o> {
        let pairs = self.depth.div_ceil(2);
        let start = (self.offset + first as isize * self.across) as usize;
        let end = start + (self.depth - 1) * self.along.unsigned_abs() + ROW_PITCH;
        let side =
            self.across == 1 && self.along >= ROW_PITCH as isize && self.depth.is_multiple_of(2);
        if side && count == BF16_TILE.0 && end <= self.data.len() {
            let out = &mut out[..pairs * ROW_PITCH];
            let all = out.as_chunks_mut::<ROW_PITCH>().0;
            side_by_side(all, &self.data[start..], self.along as usize);
            return PairRows {
                data: out,
                row_stride: 1,
                step: ROW_PITCH,
            };
        }
        self.lines(&mut out[..BF16_TILE.0 * pairs], first, count);
        PairRows {
            data: out,
            row_stride: pairs,
            step: 1,
        }
    }

    /// Line by line.
    fn lines(&self, out: &mut [Bf16Pair], first: usize, count: usize) {
        let pairs = self.depth.div_ceil(2);
        for (i, out) in out.chunks_exact_mut(pairs).enumerate() {
            if i >= count {
                out.fill(0);
                continue;
            }
            let start = self.offset + (first + i) as isize * self.across;
            if self.along == 1 {
                let line = &self.data[start as usize..start as usize + self.depth];
                let (whole, rest) = line.as_chunks::<2>();
                for (out, [a, b]) in out.iter_mut().zip(whole) {
                    *out = Bf16Pair::from(a.to_bits()) | Bf16Pair::from(b.to_bits()) << 16;
                }
                if let ([last], Some(out)) = (rest, out.last_mut()) {
                    *out = Bf16Pair::from(last.to_bits());
                }
                continue;
            }
            for (p, out) in out.iter_mut().enumerate() {
                *out = self.pair(first + i, 2 * p);
            }
        }
    }

    /// Column by column: of each pair all lines.
    fn panel(&self, out: &mut [[Bf16Pair; BF16_TILE.1]], first: usize, count: usize) {
        let start = self.offset + first as isize * self.across;
        let full = count == BF16_TILE.1;
        let whole = match (self.across, self.along) {
            (1, 1..) if full => {
                let whole = self.depth / 2;
                let rows = &self.data[start as usize..];
                side_by_side(&mut out[..whole], rows, self.along as usize);
                whole
            }
            (across, 1) if full && across >= 2 * TRANSPOSE_SIZE as isize => {
                let whole = self.depth / (2 * TRANSPOSE_SIZE) * TRANSPOSE_SIZE;
                let out = out.as_flattened_mut();
                for j in (0..BF16_TILE.1).step_by(TRANSPOSE_SIZE) {
                    let start = (start + j as isize * across) as usize;
                    for p in (0..whole).step_by(TRANSPOSE_SIZE) {
                        let to = (&mut out[p * BF16_TILE.1 + j..], BF16_TILE.1);
                        transpose16_pairs((&self.data[start + 2 * p..], across as usize), to);
                    }
                }
                whole
            }
            _ => 0,
        };
        for (p, out) in out.iter_mut().enumerate().skip(whole) {
            for (j, out) in out.iter_mut().enumerate() {
                *out = if j < count {
                    self.pair(first + j, 2 * p)
                } else {
                    0
                };
            }
        }
    }
}

multiversion! {
    /// Pairs of two rows each, with this row stride.
    fn side_by_side[const N: usize](out: &mut [[Bf16Pair; N]], rows: &[bf16], row_stride: usize) {
        for (p, out) in out.iter_mut().enumerate() {
            let [one, two] = [2 * p, 2 * p + 1].map(|row| &rows[row * row_stride..row * row_stride + N]);
            for j in 0..N {
                out[j] = Bf16Pair::from(one[j].to_bits()) | Bf16Pair::from(two[j].to_bits()) << 16;
            }
        }
    }

    fn round(out: &mut [bf16], sums: &[f32]) {
        for (out, &sum) in out.iter_mut().zip(sums) {
            *out = bf16::from_f32(sum);
        }
    }
}

/// `dst = lhs · rhs`, contiguous `dst`.
pub(super) fn run(
    [m, n, k]: [usize; 3],
    dst: &mut [bf16],
    lhs: (&[bf16], Strides),
    rhs: (&[bf16], Strides),
    threads: usize,
) {
    if k > DEPTH && m > MAX_PARTIAL_ROWS {
        // Some rows at a time, so that the workspace stays bounded.
        for (at, dst) in dst.chunks_mut(MAX_PARTIAL_ROWS * n).enumerate() {
            let lhs = (lhs.0, shifted(lhs.1, at * MAX_PARTIAL_ROWS, 0));
            run([dst.len() / n, n, k], dst, lhs, rhs, threads);
        }
        return;
    }
    let (columns, depth) = (n.min(COLUMNS), k.min(DEPTH));
    let panels = columns.div_ceil(BF16_TILE.1);
    // Partial sums are kept only if the contraction is divided into several parts.
    let tiles = m.div_ceil(BF16_TILE.0) * panels;
    let mut sums = vec![[[0f32; BF16_TILE.1]; BF16_TILE.0]; if k > DEPTH { tiles } else { 0 }];
    let mut packed = Scratch::<Bf16Pair>::unzeroed(panels * BF16_TILE.1 * depth.div_ceil(2));
    for j in (0..n).step_by(columns) {
        let columns = columns.min(n - j);
        for p in (0..k).step_by(depth) {
            let depth = depth.min(k - p);
            let pairs = depth.div_ceil(2);
            let left = Pairs {
                data: lhs.0,
                offset: lhs.1.offset as isize + p as isize * lhs.1.col,
                across: lhs.1.row,
                along: lhs.1.col,
                depth,
            };
            let right = Pairs {
                data: rhs.0,
                offset: rhs.1.offset as isize + p as isize * rhs.1.row + j as isize * rhs.1.col,
                across: rhs.1.col,
                along: rhs.1.row,
                depth,
            };
            let panels = columns.div_ceil(BF16_TILE.1);
            let packed = &mut packed.as_chunks_mut::<{ BF16_TILE.1 }>().0[..panels * pairs];
            let some = if threads > 1 {
                4 * pairs
            } else {
                panels * pairs
            };
            parallel::for_chunks_mut(packed, some, |at, packed| {
                for (i, panel) in packed.chunks_exact_mut(pairs).enumerate() {
                    let first = (at / pairs + i) * BF16_TILE.1;
                    right.panel(panel, first, BF16_TILE.1.min(columns - first));
                }
            });
            let ends = p + depth == k;
            let work = Block {
                left,
                packed,
                pairs,
                columns,
                accumulate: p > 0,
            };
            // A tile each, so that threads finish together.
            let rows = if threads > 1 { BF16_TILE.0 } else { m };
            let partial = Columns::chunks(&mut sums, rows.div_ceil(BF16_TILE.0) * panels);
            let out = Columns::chunks(dst, rows * n);
            let make = || Scratch::<Bf16Pair>::unzeroed(ROW_PITCH * pairs);
            parallel::for_tasks_with(m.div_ceil(rows), make, |buffer, task| {
                let mut dst = out.take(task);
                // The partial sums of earlier parts, if there are any.
                let mut partial = (k > DEPTH).then(|| partial.take(task));
                for first in (task * rows..m.min((task + 1) * rows)).step_by(BF16_TILE.0) {
                    // A task may be the whole matmul.
                    parallel::poll();
                    let count = BF16_TILE.0.min(m - first);
                    let left = work.left.rows(buffer, first, count);
                    let mut own = [[0f32; BF16_TILE.1]; BF16_TILE.0];
                    for panel in 0..panels {
                        let at = (first - task * rows) / BF16_TILE.0 * panels + panel;
                        let tile = match &mut partial {
                            Some(partial) => &mut partial.slice(0, at, 1)[0],
                            None => &mut own,
                        };
                        work.tile(tile, left, panel);
                        if ends {
                            for (i, sums) in tile.iter().take(count).enumerate() {
                                let at = panel * BF16_TILE.1;
                                let width = BF16_TILE.1.min(work.columns - at);
                                let start = (first - task * rows + i) * n + j + at;
                                round(dst.slice(0, start, width), sums);
                            }
                        }
                    }
                }
            });
        }
    }
}

/// A part of the contraction and of the columns.
struct Block<'a> {
    left: Pairs<'a>,
    packed: &'a [[Bf16Pair; BF16_TILE.1]],
    pairs: usize,
    columns: usize,
    /// Whether there are sums of earlier parts.
    accumulate: bool,
}

impl Block<'_> {
    fn tile(&self, out: &mut [[f32; BF16_TILE.1]; BF16_TILE.0], rows: PairRows<'_>, panel: usize) {
        let columns = &self.packed[panel * self.pairs..(panel + 1) * self.pairs];
        bf16_tile(out, rows, columns, self.accumulate);
    }
}
