//! Products of bf16 by register tiles of pairs, where the processor has an instruction for them.
//!
//! The right operand is packed by all threads, panel by panel; each task packs its own rows of the left one.

use half::bf16;

use super::shifted;
use crate::memory::Room;
use crate::parallel;
use crate::simd::{BRAIN, Pair, Strides, brain_tile};

/// Elements along the contraction that are packed at once, and columns: 4 MiB of pairs.
const DEPTH: usize = 1024;
const COLUMNS: usize = 2048;
/// Rows whose sums are kept while parts of the contraction pass by: 8 MiB.
const KEPT: usize = 72 * BRAIN.0;
/// Rows of a task: whole tiles.
const ROWS: usize = 4 * BRAIN.0;
/// Products below which tiles would be mostly padding.
const FEWEST: usize = 1 << 12;

/// Whether a product is large enough: small ones, and those with a vector, are widened.
pub(super) fn fits([m, n, k]: [usize; 3]) -> bool {
    m >= BRAIN.0 / 2 && n >= BRAIN.1 / 2 && k >= 2 && m * n * k >= FEWEST
}

/// An operand as pairs along the contraction.
struct Pairs<'a> {
    data: &'a [bf16],
    offset: isize,
    /// From one row or column to the next, and along the contraction.
    across: isize,
    along: isize,
    /// How long the contraction is, from here on.
    depth: usize,
}

impl Pairs<'_> {
    #[inline(always)]
    fn bits(&self, line: usize, at: usize) -> Pair {
        let place = self.offset + line as isize * self.across + at as isize * self.along;
        Pair::from(self.data[place as usize].to_bits())
    }

    /// The pair that begins at an even place; what is beyond the end is zero.
    #[inline(always)]
    fn pair(&self, line: usize, at: usize) -> Pair {
        let second = if at + 1 < self.depth {
            self.bits(line, at + 1)
        } else {
            0
        };
        self.bits(line, at) | second << 16
    }

    /// One line after the other.
    fn lines(&self, out: &mut [Pair], first: usize, count: usize) {
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
                    *out = Pair::from(a.to_bits()) | Pair::from(b.to_bits()) << 16;
                }
                if let ([last], Some(out)) = (rest, out.last_mut()) {
                    *out = Pair::from(last.to_bits());
                }
                continue;
            }
            for (p, out) in out.iter_mut().enumerate() {
                *out = self.pair(first + i, 2 * p);
            }
        }
    }

    /// Pair after pair, of each all lines.
    fn panel(&self, out: &mut [[Pair; BRAIN.1]], first: usize, count: usize) {
        for (p, out) in out.iter_mut().enumerate() {
            let start = self.offset + first as isize * self.across + 2 * p as isize * self.along;
            let next = start + self.along;
            if self.across == 1 && count == BRAIN.1 && 2 * p + 1 < self.depth {
                let [one, two] =
                    [start, next].map(|at| &self.data[at as usize..at as usize + BRAIN.1]);
                for (out, (a, b)) in out.iter_mut().zip(one.iter().zip(two)) {
                    *out = Pair::from(a.to_bits()) | Pair::from(b.to_bits()) << 16;
                }
                continue;
            }
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

/// `dst = lhs · rhs`, contiguous `dst`.
pub(super) fn product(
    [m, n, k]: [usize; 3],
    dst: &mut [bf16],
    lhs: (&[bf16], Strides),
    rhs: (&[bf16], Strides),
    threads: usize,
) {
    if k > DEPTH && m > KEPT {
        // Some rows after the other, so that the workspace stays bounded.
        for (at, dst) in dst.chunks_mut(KEPT * n).enumerate() {
            let lhs = (lhs.0, shifted(lhs.1, at * KEPT, 0));
            product([dst.len() / n, n, k], dst, lhs, rhs, threads);
        }
        return;
    }
    let (columns, depth) = (n.min(COLUMNS), k.min(DEPTH));
    let panels = columns.div_ceil(BRAIN.1);
    // Sums are kept between parts of the contraction only where there is more than one.
    let tiles = m.div_ceil(BRAIN.0) * panels;
    let mut sums = vec![[[0f32; BRAIN.1]; BRAIN.0]; if k > DEPTH { tiles } else { 0 }];
    let mut packed = Room::<Pair>::any(panels * BRAIN.1 * depth.div_ceil(2));
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
            let panels = columns.div_ceil(BRAIN.1);
            let packed = &mut packed.as_chunks_mut::<{ BRAIN.1 }>().0[..panels * pairs];
            let some = if threads > 1 {
                4 * pairs
            } else {
                panels * pairs
            };
            parallel::for_chunks_mut(packed, some, |at, packed| {
                for (i, panel) in packed.chunks_exact_mut(pairs).enumerate() {
                    let first = (at / pairs + i) * BRAIN.1;
                    right.panel(panel, first, BRAIN.1.min(columns - first));
                }
            });
            let ends = p + depth == k;
            let work = Block {
                left,
                packed,
                pairs,
                columns,
                begun: p > 0,
            };
            let rows = if threads > 1 { ROWS } else { m };
            let kept = parallel::Parts::new(&mut sums);
            let make = || Room::<Pair>::any(BRAIN.0 * pairs);
            parallel::for_disjoint(dst, m.div_ceil(rows), make, |room, task, dst| {
                for first in (task * rows..m.min((task + 1) * rows)).step_by(BRAIN.0) {
                    let count = BRAIN.0.min(m - first);
                    work.left.lines(room, first, count);
                    let mut part = kept.task(task);
                    let mut own = [[0f32; BRAIN.1]; BRAIN.0];
                    for panel in 0..panels {
                        let tile = match k > DEPTH {
                            true => &mut part.slice(first / BRAIN.0 * panels + panel, 1)[0],
                            false => &mut own,
                        };
                        work.tile(tile, room, panel);
                        if ends {
                            for (i, sums) in tile.iter().take(count).enumerate() {
                                let at = panel * BRAIN.1;
                                let width = BRAIN.1.min(work.columns - at);
                                let start = (first + i) * n + j + at;
                                for (dst, &sum) in dst.slice(start, width).iter_mut().zip(sums) {
                                    *dst = bf16::from_f32(sum);
                                }
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
    packed: &'a [[Pair; BRAIN.1]],
    pairs: usize,
    columns: usize,
    /// Whether sums of earlier parts are there.
    begun: bool,
}

impl Block<'_> {
    fn tile(&self, out: &mut [[f32; BRAIN.1]; BRAIN.0], rows: &[Pair], panel: usize) {
        let columns = &self.packed[panel * self.pairs..(panel + 1) * self.pairs];
        brain_tile(out, rows, columns, self.begun);
    }
}
