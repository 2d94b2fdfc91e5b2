//! Elementwise kernels: iteration over operands of any layout.
//!
//! A kernel is a function of equally long rows. This module brings operands into that form: contiguous ones in place,
//! scalars as a row of copies, views and half-precision values through a small buffer. Rows and tasks depend on sizes
//! alone.

use crate::buffer::{Buffer, concrete};
use crate::element::{Stored, constant};
use crate::layout::{self, Strides, View};
use crate::{memory, parallel, simd};
use clematis_core::{Repr, Result, Shape, Spec, Tensor, bail};
use smallvec::SmallVec;

/// Elements per row if operands pass through a buffer.
const BLOCK: usize = 1024;
/// The longest row for views that are read across their memory order; some of these fit in L2.
const LONG_BLOCK: usize = 32 * 1024;
/// Rows of a view shorter than this are not worth one call each.
const SHORT_ROW: usize = 64;

/// Bytes of a row that is written with streaming stores. With longer rows, reads would wait for writes.
const STREAM_BLOCK: usize = 1024;

/// The number of tasks from which tasks grow with the work, up to `GROWTH` times: long runs keep the prefetcher busy.
const TASKS: usize = 16;
const GROWTH: usize = 4;

/// The time of a kernel per element, which determines the size from which threads pay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Bound by memory.
    Light,
    /// About a nanosecond.
    Medium,
    /// Ten nanoseconds or more.
    Heavy,
}

impl Cost {
    /// Elements per task.
    pub const fn grain(self) -> usize {
        match self {
            Cost::Light => layout::COPY_GRAIN,
            Cost::Medium => 1 << 14,
            Cost::Heavy => 1 << 11,
        }
    }

    /// Elements per task, for so many elements in total.
    pub const fn share(self, count: usize) -> usize {
        let growth = count / (TASKS * self.grain());
        if growth > GROWTH {
            GROWTH * self.grain()
        } else if growth > 1 {
            growth * self.grain()
        } else {
            self.grain()
        }
    }
}

/// A row of results from rows of one, two or three operands, in their computed types.
pub type Row1<A, O> = fn(&mut [<O as Stored>::Wide], &[<A as Stored>::Wide]);
/// See [`Row1`].
pub type Row2<A, B, O> =
    fn(&mut [<O as Stored>::Wide], &[<A as Stored>::Wide], &[<B as Stored>::Wide]);
/// See [`Row1`].
pub type Row3<A, B, C, O> = fn(
    &mut [<O as Stored>::Wide],
    &[<A as Stored>::Wide],
    &[<B as Stored>::Wide],
    &[<C as Stored>::Wide],
);

/// Where the elements of an operand come from.
pub enum Source<'a, T> {
    /// The same everywhere.
    Constant(T),
    /// Contiguous, in the order of the result.
    Dense(&'a [T]),
    /// Any other layout, with as few axes as possible; boxed, so that the other variants stay small.
    Strided(Box<View<'a, T>>),
}

/// An operand, broadcast to the result's shape.
#[inline]
pub fn source<'a, T: Stored>(x: &'a Tensor, out: &Shape) -> Result<Source<'a, T>> {
    if let Repr::Scalar { value, .. } = x.repr() {
        return match constant(*value, x.dtype()) {
            Some(value) => Ok(Source::Constant(value)),
            None => bail!(Internal, "native: {x:?} read as another type"),
        };
    }
    let buffer = concrete(x)?;
    let same = x.shape() == out;
    if same && let Some(slice) = buffer.dense(out.count()) {
        return Ok(Source::Dense(slice));
    }
    Ok(strided(buffer, x.shape(), out))
}

fn strided<'a, T: Stored>(buffer: &'a Buffer, shape: &Shape, out: &Shape) -> Source<'a, T> {
    let view = buffer.view::<T>(shape);
    let sizes = out.sizes();
    let missing = sizes.len() - view.sizes.len();
    let strides: Strides = (0..sizes.len())
        .map(|axis| match axis.checked_sub(missing) {
            Some(i) if view.sizes[i] == sizes[axis] => view.strides[i],
            _ => 0,
        })
        .collect();
    if sizes.contains(&0) {
        return Source::Dense(&[]);
    }
    let view = View {
        sizes,
        strides,
        ..view
    }
    .merged();
    if view.strides.iter().all(|&s| s == 0) {
        return Source::Constant(view.data[view.offset]);
    }
    match view.dense() {
        Some(slice) => Source::Dense(slice),
        None => Source::Strided(Box::new(view)),
    }
}

/// The number of elements up to which a scalar is copied out instead of passing through a buffer.
const FEW: usize = 16;

/// The fast path for an operand laid out like the result, or for a scalar with a few elements.
#[inline(always)]
fn dense_or_small<'a, T: Stored>(
    x: &'a Tensor,
    out: &Shape,
    count: usize,
    buffer: &'a mut Option<[T; FEW]>,
) -> Option<&'a [T]> {
    match x.repr() {
        Repr::Scalar { value, .. } if count <= FEW => {
            let row = buffer.insert([constant(*value, x.dtype())?; FEW]);
            Some(&row[..count])
        }
        _ if x.shape() == out => x.data::<Buffer>()?.dense(count),
        _ => None,
    }
}

/// Reads an operand for one task.
enum OperandReader<'a, T: Stored> {
    Constant(SmallVec<[T::Wide; 16]>),
    Slice(&'a [T], SmallVec<[T::Wide; 4]>),
    View(&'a View<'a, T>, Vec<T>, SmallVec<[T::Wide; 4]>),
}

impl<T> Source<'_, T> {
    /// Bytes that reading it takes from memory, without views.
    fn bytes(&self) -> usize {
        match self {
            Source::Dense(slice) => size_of_val(*slice),
            Source::Constant(_) | Source::Strided(_) => 0,
        }
    }
}

impl<T: Copy> Source<'_, T> {
    /// Whether it can be read in short rows at no extra cost.
    fn allows_short_rows(&self) -> bool {
        match self {
            Source::Constant(_) | Source::Dense(_) => true,
            Source::Strided(view) => view.strides.last() == Some(&1),
        }
    }
}

impl<'a, T: Stored> OperandReader<'a, T> {
    /// For a task on `start..start + len`.
    fn new(source: &'a Source<'a, T>, start: usize, len: usize) -> Self {
        match source {
            Source::Constant(value) => {
                let mut wide = [bytemuck::Zeroable::zeroed()];
                T::widen(&[*value], &mut wide);
                OperandReader::Constant(SmallVec::from_elem(wide[0], len.min(BLOCK)))
            }
            Source::Dense(slice) => {
                OperandReader::Slice(&slice[start..start + len], SmallVec::new())
            }
            Source::Strided(view) => OperandReader::View(view, Vec::new(), SmallVec::new()),
        }
    }

    /// The number of elements from `at` on that can be read at once.
    fn reach(&self, at: usize) -> usize {
        match self {
            OperandReader::Constant(_) => BLOCK,
            OperandReader::Slice(..) if T::DIRECT => usize::MAX,
            OperandReader::Slice(..) => BLOCK,
            OperandReader::View(view, ..) => {
                let rank = view.sizes.len();
                let row = view.sizes[rank - 1];
                if view.crosses() && row * 16 <= LONG_BLOCK {
                    row * 16 - at % (row * 16)
                } else if row >= SHORT_ROW {
                    (row - at % row).min(BLOCK)
                } else {
                    BLOCK
                }
            }
        }
    }

    /// The elements `at..at + len`; a slice counts from the task's start.
    #[inline]
    fn get(&mut self, start: usize, at: usize, len: usize) -> &[T::Wide] {
        match self {
            OperandReader::Constant(row) => &row[..len],
            OperandReader::Slice(slice, wide) => {
                widened(&slice[at - start..at - start + len], wide)
            }
            OperandReader::View(view, buffer, wide) => {
                let rank = view.sizes.len();
                let row = view.sizes[rank - 1];
                if view.strides[rank - 1] == 1 && at % row + len <= row {
                    return widened(run(view, at, len), wide);
                }
                buffer.resize(buffer.len().max(len), T::zeroed());
                view.read(at, &mut buffer[..len]);
                widened(&buffer[..len], wide)
            }
        }
    }
}

/// Part of one row of a view whose last axis has no gaps.
fn run<'a, T: Copy>(view: &View<'a, T>, at: usize, len: usize) -> &'a [T] {
    let last = view.sizes.len() - 1;
    let row = view.sizes[last];
    let walk = layout::Walk::new(
        &view.sizes[..last],
        [&view.strides[..last]],
        [view.offset as isize],
        at / row,
    );
    let from = walk.at[0] as usize + at % row;
    &view.data[from..from + len]
}

#[inline]
fn widened<'b, T: Stored>(slice: &'b [T], buffer: &'b mut SmallVec<[T::Wide; 4]>) -> &'b [T::Wide] {
    if T::DIRECT {
        return bytemuck::cast_slice(slice);
    }
    buffer.resize(buffer.len().max(slice.len()), bytemuck::Zeroable::zeroed());
    T::widen(slice, &mut buffer[..slice.len()]);
    &buffer[..slice.len()]
}

/// Runs `f` on `out` in the computed type, through a buffer if that type differs or `out` is written with streaming
/// stores.
#[inline]
fn into<O: Stored>(
    out: &mut [O],
    buffer: &mut SmallVec<[O::Wide; 4]>,
    streams: bool,
    f: impl FnOnce(&mut [O::Wide]),
) {
    if O::DIRECT && !streams {
        return f(bytemuck::cast_slice_mut(out));
    }
    buffer.resize(buffer.len().max(out.len()), bytemuck::Zeroable::zeroed());
    let buffer = &mut buffer[..out.len()];
    f(buffer);
    if O::DIRECT {
        simd::stream(bytemuck::cast_slice_mut(out), buffer);
    } else {
        O::narrow(buffer, out);
    }
}

macro_rules! zip {
    ($name:ident, $kernel:ident; $($x:ident: $X:ident),+) => {
        /// Fills `out` from operands of its size.
        pub fn $name<$($X: Stored,)+ O: Stored>(
            out: &mut [O],
            $($x: &Source<'_, $X>,)+
            cost: Cost,
            f: $kernel<$($X,)+ O>,
        ) {
            // A result larger than the last-level cache would only evict itself.
            let streams = O::DIRECT
                && size_of_val(out) $(+ $x.bytes())+ > memory::last_level_cache()
                $(&& $x.allows_short_rows())+;
            let longest = match (O::DIRECT, streams) {
                (true, false) => usize::MAX,
                (true, true) => (STREAM_BLOCK / size_of::<O>()).max(1),
                _ => BLOCK,
            };
            parallel::for_chunks_mut(out, cost.share(out.len()), |start, out| {
                $(let mut $x = OperandReader::new($x, start, out.len());)+
                let mut buffer = SmallVec::new();
                let mut at = start;
                let end = start + out.len();
                while at < end {
                    let len = (end - at)$(.min($x.reach(at)))+.min(longest);
                    let row = &mut out[at - start..at - start + len];
                    into(row, &mut buffer, streams, |row| f(row, $($x.get(start, at, len)),+));
                    at += len;
                }
                if streams {
                    simd::stream_done();
                }
            });
        }
    };
}
zip! { zip1, Row1; x: A }
zip! { zip2, Row2; x: A, y: B }
zip! { zip3, Row3; x: A, y: B, z: C }

/// One operand, one result of the shape in `spec`.
pub fn unary<A: Stored, O: Stored>(
    op: &str,
    x: &Tensor,
    spec: &Spec,
    cost: Cost,
    f: Row1<A, O>,
) -> Result<Buffer> {
    let mut bytes = memory::alloc(op, spec)?;
    if O::DIRECT && A::DIRECT {
        let out = bytes.as_mut_slice::<O>();
        let count = out.len();
        let mut buffer = None;
        let x = dense_or_small::<A>(x, &spec.shape, count, &mut buffer);
        if let (true, Some(x)) = (count <= cost.grain(), x) {
            f(bytemuck::cast_slice_mut(out), bytemuck::cast_slice(x));
            return Ok(Buffer::new(bytes));
        }
    }
    zip1(
        bytes.as_mut_slice::<O>(),
        &source::<A>(x, &spec.shape)?,
        cost,
        f,
    );
    Ok(Buffer::new(bytes))
}

/// One operand read as bits of its size, one result written as bytes.
pub fn by_bytes<S: Stored<Wide = S>>(
    op: &str,
    x: &Tensor,
    spec: &Spec,
    f: fn(&mut [u8], &[S]),
) -> Result<Buffer> {
    let mut bytes = memory::alloc(op, spec)?;
    let source = source::<S>(x, &spec.shape)?;
    let size = spec.dtype.size();
    let grain = Cost::Light.grain() * size;
    parallel::for_chunks_mut(bytes.as_mut_slice::<u8>(), grain, |start, out| {
        let (start, end) = (start / size, (start + out.len()) / size);
        let mut x = OperandReader::new(&source, start, end - start);
        let mut at = start;
        while at < end {
            let len = (end - at).min(x.reach(at));
            let row = &mut out[(at - start) * size..(at - start + len) * size];
            f(row, x.get(start, at, len));
            at += len;
        }
    });
    Ok(Buffer::new(bytes))
}

/// Two operands, one result of the shape in `spec`.
pub fn binary<A: Stored, B: Stored, O: Stored>(
    op: &str,
    [x, y]: [&Tensor; 2],
    spec: &Spec,
    cost: Cost,
    f: Row2<A, B, O>,
) -> Result<Buffer> {
    let mut bytes = memory::alloc(op, spec)?;
    if O::DIRECT && A::DIRECT && B::DIRECT {
        let out = bytes.as_mut_slice::<O>();
        let count = out.len();
        let (mut one, mut two) = (None, None);
        let operands = (
            dense_or_small::<A>(x, &spec.shape, count, &mut one),
            dense_or_small::<B>(y, &spec.shape, count, &mut two),
        );
        if let (true, (Some(x), Some(y))) = (count <= cost.grain(), operands) {
            f(
                bytemuck::cast_slice_mut(out),
                bytemuck::cast_slice(x),
                bytemuck::cast_slice(y),
            );
            return Ok(Buffer::new(bytes));
        }
    }
    zip2(
        bytes.as_mut_slice::<O>(),
        &source::<A>(x, &spec.shape)?,
        &source::<B>(y, &spec.shape)?,
        cost,
        f,
    );
    Ok(Buffer::new(bytes))
}

/// Two operands laid out like the result that exceed the last-level cache together with it: `f` uses streaming stores
/// itself.
pub fn binary_streamed<T: Stored<Wide = T>>(
    op: &str,
    [x, y]: [&Tensor; 2],
    spec: &Spec,
    f: Row2<T, T, T>,
) -> Result<Option<Buffer>> {
    let count = spec.shape.count();
    let (mut one, mut two) = (None, None);
    let (Some(x), Some(y)) = (
        dense_or_small::<T>(x, &spec.shape, count, &mut one),
        dense_or_small::<T>(y, &spec.shape, count, &mut two),
    ) else {
        return Ok(None);
    };
    if 3 * size_of_val(x) <= memory::last_level_cache() {
        return Ok(None);
    }
    let mut bytes = memory::alloc(op, spec)?;
    let out = bytes.as_mut_slice::<T>();
    parallel::for_chunks_mut(out, Cost::Light.share(count), |start, out| {
        let end = start + out.len();
        f(out, &x[start..end], &y[start..end]);
        simd::stream_done();
    });
    Ok(Some(Buffer::new(bytes)))
}
