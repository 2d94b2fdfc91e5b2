//! Pooling to a given size, by the mean or the largest, with the channels on either side.

use super::{float, pool};
use clematis_core::expr::Expr;
use clematis_core::{Result, Shape, Tensor, ensure, limit, ops};

/// What becomes of the places of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pool {
    /// Their mean.
    Mean,
    /// The largest.
    Largest,
}

/// Windows as even as they can be, so that the spatial axes come out with these sizes; `None` leaves one as it is.
///
/// Spatial axes are the last ones, or those before the channels.
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

/// The largest of even windows along one axis.
fn largest(op: &str, x: &Tensor, axis: usize, size: Option<usize>) -> Result<Tensor> {
    let own = x.shape().known_size(axis, op)?;
    let size = size.unwrap_or(own);
    ensure!(
        size > 0 && own > 0,
        Shape,
        "{op}: {size} places from the {own} of axis {axis} of {}",
        x.spec()
    );
    if size == own {
        return Ok(x.clone());
    }
    if own % size == 0 {
        let parts = x.shape().with(axis, size).insert(axis + 1, own / size);
        return ops::max(ops::reshape(x, &parts), axis + 1).done();
    }
    // Windows of different lengths: the shorter ones have their last place twice.
    limit::count::<u8>(op, "places of windows", &[own, size])?;
    ensure!(
        i32::try_from(own).is_ok(),
        Shape,
        "{op}: axis {axis} of {} has more places than {}",
        x.spec(),
        i32::MAX
    );
    let window = |place: usize| (place * own / size, ((place + 1) * own).div_ceil(size));
    let longest = (0..size).map(window).map(|(a, b)| b - a).max().unwrap_or(1);
    let mut at: Vec<i32> = limit::list(op, "places of windows", &[size, longest])?;
    for (start, end) in (0..size).map(window) {
        at.extend((start..start + longest).map(|i| i.min(end - 1) as i32));
    }
    let make = || ops::from_slice(&at, Shape::from_sizes(&[size * longest]));
    let at = match x.backend() {
        Some(home) => clematis_core::backend::with(home, make)?,
        None => make()?,
    };
    let spread = ops::take_known(x, &at, axis as i64).done()?;
    let parts = spread.shape().with(axis, size).insert(axis + 1, longest);
    ops::max(ops::reshape(&spread, &parts), axis + 1).done()
}

/// All places of all spatial axes in one: `[batch, spatial…, channels]` gives `[batch, channels]`.
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
            "{op}: {} needs a batch, spatial axes and channels",
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
