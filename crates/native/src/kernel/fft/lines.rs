//! Iterates over the lines of an array along one axis.

use super::FftError;
use crate::parallel::{self, Columns};
use std::sync::Mutex;

/// An array split at one axis: `outer` blocks of `length` rows of `inner` elements.
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

    /// Whether there is enough work for several threads.
    fn worth_dividing(self) -> bool {
        self.outer
            .saturating_mul(self.length)
            .saturating_mul(self.inner)
            >= 1 << 15
    }
}

/// Neighbouring lines that are gathered together: a cache line of the smallest complex type.
const TILE: usize = 8;

/// Lines per task.
fn per_task(length: usize) -> usize {
    (4096 / length.max(1)).max(1)
}

/// Applies a line transform in place. `worker` creates one per thread, with its own workspace.
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
            in_chunks(data, length * per_task(length), &worker, |f, _, chunk| {
                lines(f, chunk)
            });
        } else {
            lines(&mut worker(), data);
        }
        return;
    }
    let block = length * inner;
    if divide && outer >= parallel::threads() {
        in_chunks(
            data,
            block,
            || (worker(), vec![T::default(); length * TILE]),
            |(f, buffer), _, block| {
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
    // Few blocks: the threads divide the lines of one, a group of tiles at a time.
    let tiles = if divide { 4 * parallel::threads() } else { 1 };
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
            in_chunks(buffer, length * TILE, &worker, |f, i, tile| {
                gather(shared, tile, inner, start + i * TILE);
                tile.chunks_exact_mut(length).for_each(f);
            });
            let buffer: &[T] = buffer;
            let rows = per_task(inner);
            parallel::for_chunks_mut(block, rows * inner, |at, targets| {
                for (row, target) in (at / inner..).zip(targets.chunks_exact_mut(inner)) {
                    for (column, x) in target[start..start + width].iter_mut().enumerate() {
                        *x = buffer[column * length + row];
                    }
                }
            });
        }
    }
}

/// Runs `f(workspace, i, chunk)` on chunks of `len` elements, each a task.
fn in_chunks<T: Send, S>(
    data: &mut [T],
    len: usize,
    start: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, usize, &mut [T]) + Sync,
) {
    let tasks = data.len().div_ceil(len);
    let chunks = Columns::chunks(data, len);
    parallel::for_tasks_with(tasks, start, |state, task| {
        f(state, task, chunks.take(task).row(0));
    });
}

/// [`in_chunks`] of a result paired with those of an input, for fallible transforms.
fn in_pairs<A: Sync, B: Send, S>(
    (input, from): (&[A], usize),
    (output, to): (&mut [B], usize),
    start: impl Fn() -> S + Sync,
    f: impl Fn(&mut S, (&[A], &mut [B])) -> Result<(), FftError> + Sync,
) -> Result<(), FftError> {
    let failed = Mutex::new(None);
    let lock = || failed.lock().unwrap_or_else(|e| e.into_inner());
    in_chunks(output, to, start, |state, i, output| {
        let input = &input[i * from..input.len().min((i + 1) * from)];
        if let Err(e) = f(state, (input, output)) {
            lock().get_or_insert(e);
        }
    });
    match lock().take() {
        Some(e) => Err(e),
        None => Ok(()),
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

/// Applies a transform that changes type and length: lines of `lengths.0` in `input` become lines of `lengths.1` in
/// `output`. It may overwrite its input line, which is a copy.
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
        return in_pairs((input, from * count), (output, to * count), start, lines);
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
        return in_pairs((input, from_block), (output, to_block), start, blocks);
    }
    let mut state = start();
    input
        .chunks_exact(from_block)
        .zip(output.chunks_exact_mut(to_block))
        .try_for_each(|pair| blocks(&mut state, pair))
}
