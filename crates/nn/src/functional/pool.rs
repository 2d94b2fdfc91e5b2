//! Max, average and adaptive average pooling.

use super::{data_format, float};
use clematis_core::expr::Expr;
use clematis_core::op::{Pads, Window, WindowKind};
use clematis_core::ops::{self, Padding};
use clematis_core::{Axes, Composite, Dim, Result, Shape, Tensor, ensure, limit};

/// Configuration of a pooling window over the spatial axes.
#[derive(Clone, Debug)]
pub struct Pooling {
    /// The name of the function in error messages.
    pub op: &'static str,
    /// Window sizes, one per spatial axis.
    pub kernel: Axes,
    /// One per spatial axis.
    pub strides: Axes,
    /// Padding of the spatial axes; in max pooling, padding is never the maximum.
    pub padding: Padding,
    /// Dilation of the window, one per spatial axis.
    pub dilations: Axes,
    /// Whether a window that starts inside but ends outside counts.
    pub ceil_mode: bool,
    /// Whether the channels are axis 1 instead of the last.
    pub channels_first: bool,
}

/// A window extended to all axes of the input.
struct PoolWindow {
    size: Axes,
    strides: Axes,
    dilation: Axes,
    /// The requested padding.
    padding: Pads,
    /// Extra padding for a last window that only starts inside (`ceil_mode`).
    beyond: Option<Pads>,
}

impl PoolWindow {
    /// The total padding.
    fn whole(&self) -> Pads {
        match &self.beyond {
            None => self.padding.clone(),
            Some(beyond) => {
                let pairs = self.padding.iter().zip(beyond);
                pairs.map(|(a, b)| (a.0 + b.0, a.1 + b.1)).collect()
            }
        }
    }
}

impl Pooling {
    fn place(&self, x: &Tensor) -> Result<PoolWindow> {
        let (op, spatial) = (self.op, self.kernel.len());
        let rank = spatial + 2;
        ensure!(
            x.rank() == rank,
            Shape,
            "{op}: expected an input of {rank} axes, got {}, which has {}",
            x.spec(),
            x.rank()
        );
        for (what, list) in [
            ("kernel sizes", &self.kernel),
            ("strides", &self.strides),
            ("dilations", &self.dilations),
        ] {
            data_format::counts(op, what, list, spatial)?;
        }
        let first = if self.channels_first { 2 } else { 1 };
        let none = (Dim::number(0), Dim::number(0));
        let (mut padding, mut beyond) = (Pads::from_elem(none, rank), Pads::from_elem(none, rank));
        let mut partial = false;
        for i in 0..spatial {
            let (size, stride) = (x.shape().dims()[first + i], Dim::from(self.strides[i]));
            let span = Dim::from((self.kernel[i] - 1) * self.dilations[i] + 1);
            let (low, high) = match &self.padding {
                Padding::Valid => none,
                Padding::Same => ops::same_padding(size, span, self.strides[i])?,
                Padding::Each(pads) => {
                    let (low, high) = pads.get(i).copied().unwrap_or((0, 0));
                    ensure!(
                        pads.len() == spatial,
                        Shape,
                        "{op}: got {} paddings for {spatial} spatial axes",
                        pads.len()
                    );
                    (low.into(), high.into())
                }
            };
            data_format::places(op, i, size, low, high)?;
            let free = size + low + high - span;
            let mut extra = Dim::number(0);
            if self.ceil_mode {
                let mut places = free.ceil_div(stride)? + Dim::number(1);
                // A window that starts outside of the input is dropped.
                let begins = (places - Dim::number(1)) * stride - size - low;
                if begins.value().is_some_and(|v| v >= 0) {
                    places = places - Dim::number(1);
                }
                extra = ((places - Dim::number(1)) * stride - free).max(extra);
                partial |= extra != 0usize;
            }
            ensure!(
                (free + extra).value().is_none_or(|v| v >= 0),
                Shape,
                "{op}: a window of size {span} exceeds the size {size} of spatial axis {i}, padded by {low} and {high}"
            );
            padding[first + i] = (low, high);
            beyond[first + i] = (Dim::number(0), extra);
        }
        let spread = |list: &Axes| -> Axes {
            let at = |a: usize| a.checked_sub(first).and_then(|i| list.get(i)).copied();
            (0..rank).map(|a| at(a).unwrap_or(1)).collect()
        };
        Ok(PoolWindow {
            size: spread(&self.kernel),
            strides: spread(&self.strides),
            dilation: spread(&self.dilations),
            padding,
            beyond: partial.then_some(beyond),
        })
    }
}

/// Max pooling.
pub fn max_pool(x: &Tensor, p: &Pooling) -> Expr {
    let build = || -> Result<Tensor> {
        let at = p.place(x)?;
        let op = Composite::MaxPool {
            padding: at.whole(),
            size: at.size,
            strides: at.strides,
            dilation: at.dilation,
        };
        ops::call(op, &[x]).done()
    };
    build().into()
}

/// Average pooling; padding counts as zeros if `count_padding` is set, and `divisor` replaces the number of elements.
pub fn avg_pool(x: &Tensor, p: &Pooling, count_padding: bool, divisor: Option<f64>) -> Expr {
    let build = || -> Result<Tensor> {
        let x = float(x)?;
        let at = p.place(&x)?;
        if let Some(divisor) = divisor {
            ensure!(
                divisor != 0.0,
                Value,
                "{}: expected a nonzero divisor_override",
                p.op
            );
            let window = Window {
                kind: WindowKind::Sum,
                padding: at.whole(),
                base_dilation: std::iter::repeat_n(1, x.rank()).collect(),
                size: at.size,
                strides: at.strides,
                window_dilation: at.dilation,
            };
            return super::rounded_once(&x, |x| ops::reduce_window(&x, window) / divisor);
        }
        let mean = |x: &Tensor, padding: Pads, count_padding: bool| {
            let op = Composite::AvgPool {
                size: at.size.clone(),
                strides: at.strides.clone(),
                padding,
                dilation: at.dilation.clone(),
                count_padding,
            };
            ops::call(op, &[x])
        };
        match &at.beyond {
            // Requested padding counts; extra padding of a last window does not.
            Some(beyond) if count_padding => {
                let (low, high): (Vec<Dim>, Vec<Dim>) = at.padding.iter().copied().unzip();
                let x = ops::pad(&x, 0, &low, &high, &vec![0; x.rank()]).done()?;
                mean(&x, beyond.clone(), false).done()
            }
            _ => mean(&x, at.whole(), count_padding).done(),
        }
    };
    build().into()
}

/// Adaptive average pooling of the last axes to these sizes; the channels are before them.
pub fn adaptive_avg_pool(op: &str, x: &Tensor, sizes: &[Option<usize>]) -> Expr {
    let build = || -> Result<Tensor> {
        let spatial = sizes.len();
        ensure!(
            x.rank() > spatial,
            Shape,
            "{op}: {} has {} axes, not {} or {}",
            x.spec(),
            x.rank(),
            spatial + 1,
            spatial + 2
        );
        let x = float(x)?;
        let first = x.rank() - spatial;
        super::rounded_once(&x, |x| {
            let axes = sizes.iter().enumerate();
            axes.fold(Expr::from(Ok(x)), |x, (i, &size)| {
                x.then(|x| to_size(op, &x, first + i, size))
            })
        })
    };
    build().into()
}

fn to_size(op: &str, x: &Tensor, axis: usize, size: Option<usize>) -> Result<Tensor> {
    let own = x.shape().known_size(axis, op)?;
    let size = size.unwrap_or(own);
    ensure!(
        size > 0 && own > 0,
        Shape,
        "{op}: cannot pool {own} elements of axis {axis} of {} to {size}",
        x.spec()
    );
    if size == own {
        return Ok(x.clone());
    }
    if own % size == 0 {
        let parts = x.shape().with(axis, size).insert(axis + 1, own / size);
        return ops::mean(ops::reshape(x, &parts), axis + 1).done();
    }
    // Windows of different lengths: a matmul with their weights.
    let mut weights = limit::list(op, "weights", &[own, size])?;
    weights.resize(own * size, 0.0);
    for place in 0..size {
        let (start, end) = (place * own / size, ((place + 1) * own).div_ceil(size));
        for at in start..end {
            weights[at * size + place] = 1.0 / (end - start) as f64;
        }
    }
    let make = || ops::from_slice(&weights, Shape::from_sizes(&[own, size]));
    let weights = match x.backend() {
        Some(backend) => clematis_core::backend::with(backend, make)?,
        None => make()?,
    };
    let out = ops::tensordot(x, ops::cast(&weights, x.dtype()), &[axis as i64], &[0]);
    ops::move_axis(out, -1, axis as i64).done()
}
