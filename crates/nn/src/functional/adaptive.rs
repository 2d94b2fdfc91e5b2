//! Adaptive and global pooling, by mean or maximum, with channels first or last.

use super::{float, pool};
use clematis_core::expr::Expr;
use clematis_core::{Result, Shape, Tensor, ensure, limit, ops};

/// The reduction of a pooling window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean.
    Mean,
    /// The maximum.
    Largest,
}

/// Adaptive pooling: windows of nearly equal size give the requested spatial sizes; `None` keeps the size of an axis.
///
/// The spatial axes are the last ones, or those before the channels.
pub fn adaptive_pool(
    op: &str,
    x: &Tensor,
    kind: Pool,
    sizes: &[Option<usize>],
    channels_last: bool,
) -> Expr {
    let build = || -> Result<Tensor> {
        let spatial = sizes.len();
        ensure!(
            x.rank() == spatial + 1 || x.rank() == spatial + 2,
            Shape,
            "{op}: {} has {} axes, not {} or {}",
            x.spec(),
            x.rank(),
            spatial + 1,
            spatial + 2
        );
        let front = -(spatial as i64) - 1;
        let inner = match channels_last {
            true => ops::move_axis(x, -1, front).done()?,
            false => x.clone(),
        };
        let out = match kind {
            Pool::Mean => pool::adaptive_avg_pool(op, &inner, sizes).done()?,
            Pool::Largest => {
                let first = inner.rank() - spatial;
                let mut axes = sizes.iter().enumerate();
                axes.try_fold(inner, |x, (i, &size)| largest(op, &x, first + i, size))?
            }
        };
        match channels_last {
            true => ops::move_axis(&out, front, -1).done(),
            false => Ok(out),
        }
    };
    build().into()
}

/// Adaptive max pooling along one axis.
fn largest(op: &str, x: &Tensor, axis: usize, size: Option<usize>) -> Result<Tensor> {
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
        return ops::max(ops::reshape(x, &parts), axis + 1).done();
    }
    // Windows of different lengths: shorter ones repeat their last index.
    limit::count::<u8>(op, "window indices", &[own, size])?;
    ensure!(
        i32::try_from(own).is_ok(),
        Shape,
        "{op}: axis {axis} of {} has more elements than {}",
        x.spec(),
        i32::MAX
    );
    let window = |place: usize| (place * own / size, ((place + 1) * own).div_ceil(size));
    let longest = (0..size).map(window).map(|(a, b)| b - a).max().unwrap_or(1);
    let mut at: Vec<i32> = limit::list(op, "window indices", &[size, longest])?;
    for (start, end) in (0..size).map(window) {
        at.extend((start..start + longest).map(|i| i.min(end - 1) as i32));
    }
    let make = || ops::from_slice(&at, Shape::from_sizes(&[size * longest]));
    let at = match x.backend() {
        Some(backend) => clematis_core::backend::with(backend, make)?,
        None => make()?,
    };
    let spread = ops::take_known(x, &at, axis as i64).done()?;
    let parts = spread.shape().with(axis, size).insert(axis + 1, longest);
    ops::max(ops::reshape(&spread, &parts), axis + 1).done()
}

/// Pools all spatial axes to one value: `[batch, spatial…, channels]` gives `[batch, channels]`.
pub fn global_pool(
    op: &str,
    x: &Tensor,
    kind: Pool,
    channels_second: bool,
    keepdims: bool,
) -> Expr {
    let build = || -> Result<Tensor> {
        ensure!(
            x.rank() >= 3,
            Shape,
            "{op}: expected batch, spatial axes and channels, got {}",
            x.spec()
        );
        let first = if channels_second { 2 } else { 1 };
        let axes: Vec<i64> = (first..first + x.rank() - 2).map(|a| a as i64).collect();
        let x = match kind {
            Pool::Mean => float(x)?,
            Pool::Largest => x.clone(),
        };
        match (kind, keepdims) {
            (Pool::Mean, false) => ops::mean(&x, axes).done(),
            (Pool::Mean, true) => ops::keepdims(&x, axes, ops::mean).done(),
            (Pool::Largest, false) => ops::max(&x, axes).done(),
            (Pool::Largest, true) => ops::keepdims(&x, axes, ops::max).done(),
        }
    };
    build().into()
}
