//! Blocking of a convolution: boxes of the result, and copies (slabs) of the input under a box with the contracted axis
//! innermost.

use super::staging_buffer::squares;
use super::{Axis, List, Real};
use crate::simd::{TRANSPOSE_SIZE, Tiled};

/// Bisects boxes, outermost axis first, until `enough`.
pub(super) fn divide(full: &[usize], enough: impl Fn(&[usize]) -> bool) -> List<usize> {
    let mut sizes: List<usize> = full.iter().copied().collect();
    while !enough(&sizes) {
        match sizes.iter_mut().find(|size| **size > 1) {
            Some(size) => *size = size.div_ceil(2),
            None => break,
        }
    }
    sizes
}

/// The number of boxes of `sizes` that cover `full`.
pub(super) fn boxes(full: &[usize], sizes: &[usize]) -> usize {
    full.iter()
        .zip(sizes)
        .map(|(full, size)| full.div_ceil(*size))
        .product()
}

/// The start of the `index`-th box.
pub(super) fn corner(full: &[usize], sizes: &[usize], mut index: usize) -> List<usize> {
    let mut corner: List<usize> = full.iter().copied().collect();
    for (start, size) in corner.iter_mut().zip(sizes).rev() {
        let count = start.div_ceil(*size);
        *start = index % count * size;
        index /= count;
    }
    corner
}

/// Strides of a contiguous array of these sizes whose innermost elements are `pitch` wide.
pub(super) fn strides(sizes: &[usize], pitch: usize) -> List<usize> {
    let mut strides: List<usize> = sizes.iter().copied().collect();
    let mut stride = pitch;
    for size in strides.iter_mut().rev() {
        (*size, stride) = (stride, stride * *size);
    }
    strides
}

/// A part of an input axis, which may extend into the padding on either side.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub axis: Axis,
    pub start: isize,
    pub size: usize,
}

/// The channel axis, which becomes innermost, and the pitch of its runs in the copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    pub axis: Axis,
    pub pitch: usize,
}

/// Copies a box of `data` to contiguous storage, channels innermost, with zeros where the spans extend into the
/// padding.
pub(super) fn fill<T: Real>(
    out: &mut [T::Sum],
    data: &[T],
    offset: isize,
    spans: &[Span],
    channels: Channels,
) {
    if channels.pitch > channels.axis.size {
        out.fill(T::Sum::default());
    }
    fill_inside(out, data, offset, spans, channels);
}

fn fill_inside<T: Real>(
    out: &mut [T::Sum],
    data: &[T],
    offset: isize,
    spans: &[Span],
    channels: Channels,
) {
    let Some((span, inner)) = spans.split_first() else {
        return fill_row(out, data, offset, Axis { size: 1, stride: 0 }, channels);
    };
    let first = (-span.start).clamp(0, span.size as isize) as usize;
    let end = (span.axis.size as isize - span.start).clamp(0, span.size as isize) as usize;
    if first >= end {
        return out.fill(T::Sum::default());
    }
    let step = out.len() / span.size;
    out[..first * step].fill(T::Sum::default());
    out[end * step..].fill(T::Sum::default());
    let offset = offset + (span.start + first as isize) * span.axis.stride;
    let out = &mut out[first * step..end * step];
    if inner.is_empty() {
        let axis = Axis {
            size: end - first,
            stride: span.axis.stride,
        };
        return fill_row(out, data, offset, axis, channels);
    }
    for (i, out) in out.chunks_exact_mut(step).enumerate() {
        fill_inside(
            out,
            data,
            offset + i as isize * span.axis.stride,
            inner,
            channels,
        );
    }
}

/// Copies `axis.size` runs of channels.
fn fill_row<T: Real>(
    out: &mut [T::Sum],
    data: &[T],
    offset: isize,
    axis: Axis,
    Channels {
        axis: channel,
        pitch,
    }: Channels,
) {
    let contiguous = channel.stride == 1 || channel.size == 1;
    if contiguous && axis.stride == pitch as isize && pitch == channel.size {
        copy(out, &data[offset as usize..offset as usize + out.len()]);
    } else if contiguous {
        for (i, out) in out.chunks_exact_mut(pitch).enumerate() {
            let start = (offset + i as isize * axis.stride) as usize;
            copy(&mut out[..channel.size], &data[start..start + channel.size]);
        }
    } else if axis.stride == 1 {
        across(out, data, offset, channel, pitch);
    } else {
        for (i, out) in out.chunks_exact_mut(pitch).enumerate() {
            for (c, out) in out[..channel.size].iter_mut().enumerate() {
                let at = offset + i as isize * axis.stride + c as isize * channel.stride;
                *out = data[at as usize].widen();
            }
        }
    }
}

/// Widens a run.
pub(super) fn copy<T: Real>(out: &mut [T::Sum], data: &[T]) {
    match T::as_sums(data) {
        Some(data) => out.copy_from_slice(data),
        None => {
            for (out, x) in out.iter_mut().zip(data) {
                *out = x.widen();
            }
        }
    }
}

/// `out[i·pitch + c] = data[offset + c·stride + i]`, sixteen channels at a time: they fill one cache line of the
/// output, and the lines that are read serve the next positions as well.
fn across<T: Real>(out: &mut [T::Sum], data: &[T], offset: isize, channel: Axis, pitch: usize) {
    let positions = out.len() / pitch;
    let transposed = T::as_sums(data)
        .filter(|_| positions >= TRANSPOSE_SIZE && channel.stride >= TRANSPOSE_SIZE as isize)
        .filter(|_| channel.size >= TRANSPOSE_SIZE);
    let mut c = 0;
    while c < channel.size {
        let from = offset + c as isize * channel.stride;
        let whole = c + TRANSPOSE_SIZE <= channel.size && channel.stride > 0;
        let (start, stride) = (from as usize, channel.stride.unsigned_abs());
        if let (true, Some(data)) = (whole, transposed) {
            for i in squares(positions) {
                let to = (&mut out[i * pitch + c..], pitch);
                T::Sum::transpose16((&data[start + i..], stride), to);
            }
            c += TRANSPOSE_SIZE;
        } else if whole {
            for (i, out) in out.chunks_exact_mut(pitch).enumerate() {
                let x = &data[start + i..start + i + (TRANSPOSE_SIZE - 1) * stride + 1];
                for (j, out) in out[c..c + TRANSPOSE_SIZE].iter_mut().enumerate() {
                    *out = x[j * stride].widen();
                }
            }
            c += TRANSPOSE_SIZE;
        } else {
            for (out, x) in out[c..].iter_mut().step_by(pitch).zip(&data[start..]) {
                *out = x.widen();
            }
            c += 1;
        }
    }
}
