//! Strided layouts: where the elements of a tensor are in memory.
//!
//! Owns strides: views that copy no element, merging of axes, and reading and copying a view in row-major order. Strides and
//! offsets count elements, not bytes.

use crate::parallel;
use smallvec::SmallVec;

/// Static sizes.
pub type Sizes = SmallVec<[usize; 6]>;
/// Strides per axis; negative for a reversed axis, 0 for a broadcast one.
pub type Strides = SmallVec<[isize; 6]>;

/// An offset, and strides unless the elements are contiguous in row-major order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The position of the first element.
    pub offset: usize,
    /// `None`: contiguous in row-major order.
    pub strides: Option<Strides>,
}

/// The strides of a contiguous row-major layout.
pub fn dense_strides(sizes: &[usize]) -> Strides {
    let mut strides: Strides = smallvec::smallvec![0; sizes.len()];
    let mut step = 1isize;
    for (stride, &size) in strides.iter_mut().zip(sizes).rev() {
        *stride = step;
        // Next to an empty axis other sizes may be arbitrarily large; no stride is then used.
        step = step.saturating_mul(size.max(1) as isize);
    }
    strides
}

/// Whether these strides are contiguous in row-major order; axes of size 1 may have any stride.
pub fn is_dense(sizes: &[usize], strides: &[isize]) -> bool {
    if sizes.contains(&0) {
        return true;
    }
    let mut step = 1isize;
    for (&size, &stride) in sizes.iter().zip(strides).rev() {
        if size != 1 {
            if stride != step {
                return false;
            }
            step *= size as isize;
        }
    }
    true
}

impl Layout {
    /// A strided layout; contiguous if the strides are.
    pub fn new(offset: usize, sizes: &[usize], strides: Strides) -> Self {
        let strides = if is_dense(sizes, &strides) {
            None
        } else {
            Some(strides)
        };
        Layout { offset, strides }
    }

    /// The strides for these sizes.
    pub fn strides(&self, sizes: &[usize]) -> Strides {
        match &self.strides {
            Some(strides) => strides.clone(),
            None => dense_strides(sizes),
        }
    }

    /// The axes in another order.
    pub fn transpose(&self, sizes: &[usize], axes: &[usize]) -> Layout {
        let old = self.strides(sizes);
        let sizes: Sizes = axes.iter().map(|&a| sizes[a]).collect();
        Layout::new(self.offset, &sizes, axes.iter().map(|&a| old[a]).collect())
    }

    /// Axis `i` becomes axis `axes[i]`; axes of size 1 and new axes are broadcast.
    pub fn broadcast(&self, sizes: &[usize], to: &[usize], axes: &[usize]) -> Layout {
        let old = self.strides(sizes);
        let mut strides: Strides = smallvec::smallvec![0; to.len()];
        for (i, &axis) in axes.iter().enumerate() {
            if sizes[i] == to[axis] {
                strides[axis] = old[i];
            }
        }
        Layout::new(self.offset, to, strides)
    }

    /// From `start` on with a step per axis; `to` are the resulting sizes.
    pub fn slice(&self, sizes: &[usize], start: &[usize], step: &[usize], to: &[usize]) -> Layout {
        let old = self.strides(sizes);
        let empty = to.contains(&0);
        let mut offset = self.offset as isize;
        let mut strides = Strides::new();
        for (axis, &stride) in old.iter().enumerate() {
            // An empty slice may start at the very end, where no element is.
            if !empty {
                offset += start[axis] as isize * stride;
            }
            // An axis with one element has no stride, however large.
            let apart = if to[axis] > 1 { step[axis] as isize } else { 1 };
            strides.push(stride * apart);
        }
        Layout::new(offset as usize, to, strides)
    }

    /// Reverses axes.
    pub fn reverse(&self, sizes: &[usize], axes: &[usize]) -> Layout {
        let mut strides = self.strides(sizes);
        let mut offset = self.offset as isize;
        for &axis in axes {
            offset += (sizes[axis].max(1) - 1) as isize * strides[axis];
            strides[axis] = -strides[axis];
        }
        Layout::new(offset as usize, sizes, strides)
    }

    /// Another shape over the same elements; `None` if that needs a copy.
    pub fn reshape(&self, from: &[usize], to: &[usize]) -> Option<Layout> {
        let Some(strides) = &self.strides else {
            return Some(self.clone());
        };
        let (sizes, old) = merge(from, [strides]);
        let old = &old[0];
        let mut new: Strides = smallvec::smallvec![0; to.len()];
        // Each merged run of the old shape must be split into whole axes of the new one.
        let mut axis = to.len();
        for (&size, &stride) in sizes.iter().zip(old).rev() {
            let (mut left, mut step) = (size, stride);
            while left > 1 {
                axis = axis.checked_sub(1)?;
                if left % to[axis] != 0 {
                    return None;
                }
                new[axis] = step;
                step *= to[axis] as isize;
                left /= to[axis];
            }
        }
        Some(Layout::new(self.offset, to, new))
    }
}

/// Drops axes of size 1 and merges neighbouring axes that one stride spans in every operand.
pub fn merge<const N: usize>(sizes: &[usize], strides: [&[isize]; N]) -> (Sizes, [Strides; N]) {
    let mut out = Sizes::new();
    let mut kept: [Strides; N] = std::array::from_fn(|_| Strides::new());
    for (axis, &size) in sizes.iter().enumerate() {
        if size == 1 {
            continue;
        }
        let fits = !out.is_empty()
            && (0..N).all(|k| kept[k].last().copied() == Some(strides[k][axis] * size as isize));
        match out.last_mut() {
            Some(last) if fits => {
                *last *= size;
                for (kept, strides) in kept.iter_mut().zip(strides) {
                    if let Some(last) = kept.last_mut() {
                        *last = strides[axis];
                    }
                }
            }
            _ => {
                out.push(size);
                for (kept, strides) in kept.iter_mut().zip(strides) {
                    kept.push(strides[axis]);
                }
            }
        }
    }
    (out, kept)
}

/// Iterates over all indices of some sizes in row-major order, with `N` offsets.
pub struct Walk<'a, const N: usize> {
    sizes: &'a [usize],
    strides: [&'a [isize]; N],
    index: Sizes,
    /// The offsets of the current index.
    pub at: [isize; N],
}

impl<'a, const N: usize> Walk<'a, N> {
    /// Starts at the `start`-th index; `offsets` are those of the first index.
    pub fn new(
        sizes: &'a [usize],
        strides: [&'a [isize]; N],
        offsets: [isize; N],
        start: usize,
    ) -> Self {
        let mut index: Sizes = smallvec::smallvec![0; sizes.len()];
        let mut at = offsets;
        let mut rest = start;
        for axis in (0..sizes.len()).rev() {
            let size = sizes[axis].max(1);
            index[axis] = rest % size;
            rest /= size;
            for (at, strides) in at.iter_mut().zip(strides) {
                *at += index[axis] as isize * strides[axis];
            }
        }
        Walk {
            sizes,
            strides,
            index,
            at,
        }
    }

    /// The current index.
    pub fn index(&self) -> &[usize] {
        &self.index
    }

    /// Advances to the next index; wraps around after the last one.
    #[inline]
    pub fn step(&mut self) {
        for axis in (0..self.sizes.len()).rev() {
            self.index[axis] += 1;
            if self.index[axis] < self.sizes[axis] {
                for (at, strides) in self.at.iter_mut().zip(self.strides) {
                    *at += strides[axis];
                }
                return;
            }
            let back = self.index[axis] as isize - 1;
            self.index[axis] = 0;
            for (at, strides) in self.at.iter_mut().zip(self.strides) {
                *at -= back * strides[axis];
            }
        }
    }
}

/// A tensor's elements as a slice with sizes and strides.
#[derive(Clone)]
pub struct View<'a, T> {
    /// All elements of the memory.
    pub data: &'a [T],
    /// The position of the tensor's first element.
    pub offset: usize,
    /// Sizes per axis.
    pub sizes: Sizes,
    /// Strides per axis.
    pub strides: Strides,
}

/// Rows that are read together when a view is read across its memory order.
const STRIP: usize = 16;

impl<'a, T: Copy> View<'a, T> {
    /// The number of elements.
    pub fn count(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The elements as a slice, if they are contiguous in row-major order.
    pub fn dense(&self) -> Option<&'a [T]> {
        if !is_dense(&self.sizes, &self.strides) {
            return None;
        }
        let count = self.count();
        if count == 0 {
            return Some(&[]);
        }
        self.data.get(self.offset..self.offset + count)
    }

    /// The same elements with as few axes as possible.
    pub fn merged(&self) -> View<'a, T> {
        let (sizes, [strides]) = merge(&self.sizes, [&self.strides]);
        View {
            data: self.data,
            offset: self.offset,
            sizes,
            strides,
        }
    }

    /// The axes in another order.
    pub fn transposed(&self, axes: &[usize]) -> View<'a, T> {
        View {
            data: self.data,
            offset: self.offset,
            sizes: axes.iter().map(|&a| self.sizes[a]).collect(),
            strides: axes.iter().map(|&a| self.strides[a]).collect(),
        }
    }

    /// Whether memory runs along the second-to-last axis, so that reading row by row would waste cache lines.
    pub fn crosses(&self) -> bool {
        let rank = self.sizes.len();
        rank >= 2
            && self.strides[rank - 2] != 0
            && self.strides[rank - 2].unsigned_abs() < self.strides[rank - 1].unsigned_abs()
    }

    /// Copies elements in row-major order from the `start`-th on; fastest on a merged view.
    pub fn read(&self, start: usize, out: &mut [T]) {
        let rank = self.sizes.len();
        if out.is_empty() {
            return;
        }
        if rank == 0 {
            out.fill(self.data[self.offset]);
            return;
        }
        let (row, step) = (self.sizes[rank - 1], self.strides[rank - 1]);
        let outer = &self.sizes[..rank - 1];
        let mut walk = Walk::new(
            outer,
            [&self.strides[..rank - 1]],
            [self.offset as isize],
            start / row,
        );
        let mut column = start % row;
        let mut done = 0;
        let crosses = self.crosses();
        while done < out.len() {
            if crosses && column == 0 {
                // As many whole rows as are adjacent here, at most a strip.
                let here = outer[rank - 2] - walk.index()[rank - 2];
                let rows = ((out.len() - done) / row).min(here).min(STRIP);
                if rows > 1 {
                    let to = &mut out[done..done + rows * row];
                    let across = self.strides[rank - 2];
                    self.read_strip(walk.at[0], (rows, across), (row, step), to);
                    done += rows * row;
                    (0..rows).for_each(|_| walk.step());
                    continue;
                }
            }
            let len = (row - column).min(out.len() - done);
            let from = walk.at[0] + column as isize * step;
            read_run(self.data, from, step, &mut out[done..done + len]);
            done += len;
            column = 0;
            walk.step();
        }
    }

    /// Reads `rows` rows at once, along memory.
    fn read_strip(
        &self,
        at: isize,
        (rows, across): (usize, isize),
        (row, step): (usize, isize),
        out: &mut [T],
    ) {
        let mut column = 0;
        if rows == STRIP && across == 1 {
            // Square blocks that fit in L1: sixteen runs in, sixteen runs out.
            let mut square = [[self.data[at as usize]; STRIP]; STRIP];
            while column + STRIP <= row {
                for (i, line) in square.iter_mut().enumerate() {
                    let from = (at + (column + i) as isize * step) as usize;
                    line.copy_from_slice(&self.data[from..from + STRIP]);
                }
                for (r, to) in out.chunks_exact_mut(row).enumerate() {
                    for (to, line) in to[column..column + STRIP].iter_mut().zip(&square) {
                        *to = line[r];
                    }
                }
                column += STRIP;
            }
        }
        for column in column..row {
            let from = at + column as isize * step;
            for r in 0..rows {
                out[r * row + column] = self.data[(from + r as isize * across) as usize];
            }
        }
    }
}

/// Copies one strided run of elements.
#[inline]
pub fn read_run<T: Copy>(data: &[T], from: isize, step: isize, out: &mut [T]) {
    let at = from as usize;
    match step {
        1 => out.copy_from_slice(&data[at..at + out.len()]),
        0 => out.fill(data[at]),
        step if step > 0 => {
            for (out, &value) in out.iter_mut().zip(data[at..].iter().step_by(step as usize)) {
                *out = value;
            }
        }
        step => {
            let back = data[..=at].iter().rev().step_by(step.unsigned_abs());
            for (out, &value) in out.iter_mut().zip(back) {
                *out = value;
            }
        }
    }
}

/// Elements per task of a copy, and of any kernel that is bound by memory.
pub const COPY_GRAIN: usize = 1 << 16;

/// Copies a view in row-major order.
pub fn copy<T: Copy + Send + Sync>(view: &View<'_, T>, out: &mut [T]) {
    if let Some(slice) = view.dense() {
        return parallel::for_chunks_mut(out, COPY_GRAIN, |start, out| {
            out.copy_from_slice(&slice[start..start + out.len()]);
        });
    }
    let view = view.merged();
    // Whole strips of rows per task, so that a transposed view is read along its memory.
    let mut grain = COPY_GRAIN;
    if let (true, Some(row)) = (view.crosses(), view.sizes.last()) {
        grain = grain.div_ceil(row * 16) * row * 16;
    }
    parallel::for_chunks_mut(out, grain, |start, out| view.read(start, out));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_an_axis_without_elements_others_may_be_of_any_size() {
        let sizes = [1 << 40, 1 << 40, 0];
        assert_eq!(dense_strides(&sizes).len(), 3);
        assert!(is_dense(&sizes, &dense_strides(&sizes)));
    }

    #[test]
    fn axes_merge_where_memory_runs_on() {
        let (sizes, [strides]) = merge(&[2, 1, 3, 4], [&[12, 7, 4, 1]]);
        assert_eq!((&sizes[..], &strides[..]), (&[24][..], &[1][..]));
        let (sizes, _) = merge(&[2, 3], [&[3, 1], &[0, 1]]);
        assert_eq!(&sizes[..], &[2, 3]);
        let (sizes, [strides]) = merge(&[2, 3], [&[0, 0]]);
        assert_eq!((&sizes[..], &strides[..]), (&[6][..], &[0][..]));
    }

    #[test]
    fn a_reshape_keeps_strides_where_it_can() {
        let rows = Layout::new(0, &[4, 3], smallvec::smallvec![6, 1]);
        assert_eq!(
            rows.reshape(&[4, 3], &[2, 2, 3]).and_then(|l| l.strides),
            Some(smallvec::smallvec![12, 6, 1])
        );
        assert_eq!(rows.reshape(&[4, 3], &[12]), None);
        assert_eq!(
            rows.reshape(&[4, 3], &[1, 4, 1, 3])
                .and_then(|l| l.strides)
                // Nobody steps along an axis of size 1.
                .map(|strides| (strides[1], strides[3])),
            Some((6, 1))
        );
    }

    #[test]
    fn views_read_in_row_major_order_from_anywhere() {
        let data: Vec<u32> = (0..40 * 50).collect();
        for (sizes, strides, offset) in [
            (vec![40, 50], vec![50, 1], 0),
            (vec![50, 40], vec![1, 50], 0),
            (vec![50, 40], vec![-1, 50], 49),
            (vec![2, 25, 40], vec![25, 1, 50], 0),
            (vec![40, 50], vec![0, -1], 49),
            (vec![20, 10], vec![100, 5], 3),
            (vec![], vec![], 7),
        ] {
            let view = View {
                data: &data,
                offset,
                sizes: sizes.iter().copied().collect(),
                strides: strides.iter().copied().collect(),
            };
            let n = view.count();
            let mut walk = Walk::new(&view.sizes, [&view.strides], [offset as isize], 0);
            let expected: Vec<u32> = (0..n)
                .map(|_| {
                    let v = data[walk.at[0] as usize];
                    walk.step();
                    v
                })
                .collect();
            for start in [0, 1, n / 3, n / 2] {
                for len in [n - start.min(n), (n - start.min(n)) / 2] {
                    let mut out = vec![0; len];
                    view.read(start, &mut out);
                    assert_eq!(out, expected[start..start + len], "{sizes:?} {start} {len}");
                }
            }
        }
    }
}
