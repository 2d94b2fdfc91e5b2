//! How elementwise kernels walk over their operands.
//!
//! A kernel is a function on equally long rows. Here operands are brought into that form: dense ones as they lie,
//! numbers as a row of copies, views and halves through a small workspace. Rows and tasks are cut by sizes alone.

use crate::buffer::{Buffer, concrete};
use crate::element::{Stored, constant};
use crate::layout::{Strides, View};
use crate::{memory, parallel, simd};
use clematis_core::{Repr, Result, Shape, Spec, Tensor, bail};
use smallvec::SmallVec;

/// Elements per row where operands pass through a workspace.
const BLOCK: usize = 1024;
/// The longest row for views that lie across; some fit in the second-level cache.
const LONG_BLOCK: usize = 32 * 1024;
/// Rows of a view shorter than this are not worth a call each.
const SHORT_ROW: usize = 64;

/// Bytes of a row that is written past the caches. With longer ones reading would wait for writing.
const STREAM_BLOCK: usize = 1024;

/// Tasks from which on they grow with the work, up to `GROWTH` times: long runs keep prefetching going.
const TASKS: usize = 16;
const GROWTH: usize = 4;

/// How long a kernel takes per element, which decides from which size on threads pay.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// As long as memory takes.
    Light,
    /// About a nanosecond.
    Medium,
    /// Ten nanoseconds and more.
    Heavy,
}

impl Cost {
    /// Elements per task.
    pub const fn grain(self) -> usize {
        match self {
            Cost::Light => 1 << 16,
            Cost::Medium => 1 << 14,
            Cost::Heavy => 1 << 11,
        }
    }

    /// Elements per task for so many in all.
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

/// A row of results from rows of one, two or three operands, in the types they are computed in.
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

/// Where an operand's elements come from.
pub enum Source<'a, T> {
    /// The same everywhere.
    Constant(T),
    /// As many as the result has, in its order.
    Dense(&'a [T]),
    /// Anything else, with as few axes as possible; boxed, so that the others stay small.
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

/// Numbers that are copied out instead of going through a workspace.
const FEW: usize = 16;

/// An operand that lies as the result does, or a number beside a few elements: found out at the least cost.
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

/// One task's way of reading an operand.
enum OperandReader<'a, T: Stored> {
    Constant(SmallVec<[T::Wide; 16]>),
    Slice(&'a [T], SmallVec<[T::Wide; 4]>),
    View(&'a View<'a, T>, Vec<T>, SmallVec<[T::Wide; 4]>),
}

impl<T> Source<'_, T> {
    /// Bytes that reading it takes from memory, views aside.
    fn bytes(&self) -> usize {
        match self {
            Source::Dense(slice) => size_of_val(*slice),
            Source::Constant(_) | Source::Strided(_) => 0,
        }
    }
}

impl<T: Copy> Source<'_, T> {
    /// Whether it can be had in short rows at no loss.
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
            Source::Dense(slice) => OperandReader::Slice(&slice[start..start + len], SmallVec::new()),
            Source::Strided(view) => OperandReader::View(view, Vec::new(), SmallVec::new()),
        }
    }

    /// How many elements from `at` on can be had at once.
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
            OperandReader::Slice(slice, wide) => widened(&slice[at - start..at - start + len], wide),
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
    let walk = crate::layout::Walk::new(
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

/// Runs `f` on `out` in the computed type, by way of `buffer` where that differs or `out` is to be streamed to.
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
            // What the last cache cannot hold would only push itself out of it.
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

/// Two operands that lie as the result does, and are with it more than the caches hold: `f` writes past them itself.
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

/// Copies a view in row-major order.
pub fn copy<T: Stored>(view: &View<'_, T>, out: &mut [T]) {
    if let Some(slice) = view.dense() {
        return parallel::for_chunks_mut(out, Cost::Light.grain(), |start, out| {
            out.copy_from_slice(&slice[start..start + out.len()]);
        });
    }
    let view = view.merged();
    // Whole strips of rows per task, so that a view that lies across is read along its memory.
    let mut grain = Cost::Light.grain();
    if let (true, Some(row)) = (view.crosses(), view.sizes.last()) {
        grain = grain.div_ceil(row * 16) * row * 16;
    }
    parallel::for_chunks_mut(out, grain, |start, out| view.read(start, out));
}
