//! Walking an array line by line along one axis.

use super::FftError;
use rayon::prelude::*;

/// An array seen from one axis: `outer` blocks of `length` rows of `inner` elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) outer: usize,
    pub(super) length: usize,
    pub(super) inner: usize,
}

impl Layout {
    pub(super) fn of(shape: &[usize], axis: usize) -> Self {
        Self {
            outer: shape[..axis].iter().product(),
            length: shape[axis],
            inner: shape[axis + 1..].iter().product(),
        }
    }

    /// Whether there is enough to do for several threads.
    fn worth_dividing(self) -> bool {
        self.outer
            .saturating_mul(self.length)
            .saturating_mul(self.inner)
            >= 1 << 15
    }
}

/// Neighbouring lines gathered together: a cache line of the smallest complex type.
const TILE: usize = 8;

/// Lines handed to one thread at a time.
fn per_task(length: usize) -> usize {
    (4096 / length.max(1)).max(1)
}

/// Applies a line transform in place. `worker` makes one per thread, with its
/// own workspace.
pub(super) fn update<T, W, F>(data: &mut [T], layout: Layout, worker: W)
where
    T: Copy + Default + Send + Sync,
    W: Fn() -> F + Sync,
    F: FnMut(&mut [T]),
{
    let Layout {
        outer,
        length,
        inner,
    } = layout;
    let divide = layout.worth_dividing();
    if inner == 1 {
        let lines = |f: &mut F, lines: &mut [T]| lines.chunks_exact_mut(length).for_each(f);
        if divide && outer > 1 {
            let size = length * per_task(length);
            data.par_chunks_mut(size).for_each_init(&worker, lines);
        } else {
            lines(&mut worker(), data);
        }
        return;
    }
    let block = length * inner;
    if divide && outer >= rayon::current_num_threads() {
        data.par_chunks_mut(block).for_each_init(
            || (worker(), vec![T::default(); length * TILE]),
            |(f, buffer), block| {
                for start in (0..inner).step_by(TILE) {
                    let width = TILE.min(inner - start);
                    let buffer = &mut buffer[..length * width];
                    gather(block, buffer, inner, start);
                    buffer.chunks_exact_mut(length).for_each(&mut *f);
                    scatter(block, buffer, inner, start, length);
                }
            },
        );
        return;
    }
    // Few blocks: the threads share the lines of one, a group of tiles at a time.
    let tiles = if divide {
        4 * rayon::current_num_threads()
    } else {
        1
    };
    let mut buffer = vec![T::default(); length * (TILE * tiles).min(inner)];
    for block in data.chunks_exact_mut(block) {
        for start in (0..inner).step_by(TILE * tiles) {
            let width = (TILE * tiles).min(inner - start);
            let buffer = &mut buffer[..length * width];
            if tiles == 1 {
                gather(block, buffer, inner, start);
                buffer.chunks_exact_mut(length).for_each(worker());
                scatter(block, buffer, inner, start, length);
                continue;
            }
            let shared: &[T] = block;
            buffer
                .par_chunks_mut(length * TILE)
                .enumerate()
                .for_each_init(&worker, |f, (i, tile)| {
                    gather(shared, tile, inner, start + i * TILE);
                    tile.chunks_exact_mut(length).for_each(f);
                });
            let buffer: &[T] = buffer;
            block
                .par_chunks_mut(inner)
                .enumerate()
                .for_each(|(row, target)| {
                    for (column, x) in target[start..start + width].iter_mut().enumerate() {
                        *x = buffer[column * length + row];
                    }
                });
        }
    }
}

/// Copies the lines from `start` on, as many as `buffer` holds, one after the other.
fn gather<T: Copy>(block: &[T], buffer: &mut [T], inner: usize, start: usize) {
    let length = block.len() / inner;
    let width = buffer.len() / length;
    for (row, source) in block.chunks_exact(inner).enumerate() {
        for (column, &x) in source[start..start + width].iter().enumerate() {
            buffer[column * length + row] = x;
        }
    }
}

/// Copies lines of `length` back to where [`gather`] took them.
fn scatter<T: Copy>(block: &mut [T], buffer: &[T], inner: usize, start: usize, length: usize) {
    let width = buffer.len() / length;
    for (row, target) in block.chunks_exact_mut(inner).enumerate() {
        for (column, x) in target[start..start + width].iter_mut().enumerate() {
            *x = buffer[column * length + row];
        }
    }
}

/// Applies a transform that changes type and length: lines of `lengths.0` in
/// `input` become lines of `lengths.1` in `output`. It may overwrite its input
/// line, which is a copy.
pub(super) fn map<A, B, W, F>(
    input: &[A],
    output: &mut [B],
    layout: Layout,
    lengths: (usize, usize),
    worker: W,
) -> Result<(), FftError>
where
    A: Copy + Default + Send + Sync,
    B: Copy + Default + Send + Sync,
    W: Fn() -> F + Sync,
    F: FnMut(&mut [A], &mut [B]) -> Result<(), FftError>,
{
    let inner = layout.inner;
    let (from, to) = lengths;
    let divide = layout.worth_dividing() && layout.outer > 1;
    if inner == 1 {
        let lines = |(f, line): &mut (F, Vec<A>), (input, output): (&[A], &mut [B])| {
            for (source, target) in input.chunks_exact(from).zip(output.chunks_exact_mut(to)) {
                line.copy_from_slice(source);
                f(line, target)?;
            }
            Ok(())
        };
        let start = || (worker(), vec![A::default(); from]);
        if !divide {
            return lines(&mut start(), (input, output));
        }
        let count = per_task(to);
        return input
            .par_chunks(from * count)
            .zip(output.par_chunks_mut(to * count))
            .map_init(start, lines)
            .collect();
    }
    let start = || {
        (
            worker(),
            vec![A::default(); from * TILE],
            vec![B::default(); to * TILE],
        )
    };
    let blocks = |(f, lines, results): &mut (F, Vec<A>, Vec<B>),
                  (input, output): (&[A], &mut [B])| {
        for start in (0..inner).step_by(TILE) {
            let width = TILE.min(inner - start);
            let (lines, results) = (&mut lines[..from * width], &mut results[..to * width]);
            gather(input, lines, inner, start);
            for (line, result) in lines
                .chunks_exact_mut(from)
                .zip(results.chunks_exact_mut(to))
            {
                f(line, result)?;
            }
            scatter(output, results, inner, start, to);
        }
        Ok(())
    };
    let (from_block, to_block) = (from * inner, to * inner);
    if divide {
        return input
            .par_chunks(from_block)
            .zip(output.par_chunks_mut(to_block))
            .map_init(start, blocks)
            .collect();
    }
    let mut state = start();
    input
        .chunks_exact(from_block)
        .zip(output.chunks_exact_mut(to_block))
        .try_for_each(|pair| blocks(&mut state, pair))
}
