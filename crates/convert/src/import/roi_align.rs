//! `roi_align`: mean pooling of boxes in images.
//!
//! A bin of a box is a mean over the points of a grid, each interpolated between four pixels. Grid and interpolation are
//! separable, so a bin is a weighted sum over rows and columns with weights computed axis by axis. The number of points
//! may depend on the box: those inside the image are bounded by its size.

use super::args::Slot;
use clematis_core::expr::{Expr, IntoExpr};
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};

/// The parameters of `roi_align`.
pub struct Align {
    /// Bins along height and width.
    pub bins: (i64, i64),
    /// Points along each axis of a bin (the sampling ratio); if not positive, one per pixel of the bin.
    pub points: i64,
    /// The spatial scale from box units to pixels.
    pub scale: f64,
    /// Whether boxes are shifted by half a pixel (`aligned`); otherwise a box is at least one pixel wide.
    pub centred: bool,
}

/// The bins `[boxes, channels, height, width]` of `boxes` (x1, y1, x2, y2) in the images with the indices `image_of`.
pub fn roi_align(x: &Tensor, boxes: &Tensor, image_of: &Tensor, how: &Align) -> Result<Expr> {
    let fine = |n: i64| (1..1 << 12).contains(&n);
    if !fine(how.bins.0) || !fine(how.bins.1) || how.points >= 1 << 12 {
        bail!(
            Convert,
            "convert: roi_align with {} by {} bins of {} points",
            how.bins.0,
            how.bins.1,
            how.points
        );
    }
    let shift = if how.centred { 0.5 } else { 0.0 };
    let boxes = ops::stop_gradient(ops::cast(boxes, x.dtype())).done()?;
    let edge = |i: i64| (ops::slice_axis(&boxes, 1, i, i + 1) * how.scale - shift).done();
    let (height, width) = (x.shape().dims()[2], x.shape().dims()[3]);
    let rows = weights(&edge(1)?, &edge(3)?, how.bins.0, height, how)?;
    let columns = weights(&edge(0)?, &edge(2)?, how.bins.1, width, how)?;
    let images = ops::take(x, ops::cast(image_of, DType::I64), 0);
    let by_rows = ops::matmul(ops::expand_dims(rows, 1), images);
    Ok(ops::matmul(
        by_rows,
        ops::expand_dims(ops::matrix_transpose(columns), 1),
    ))
}

/// The weight of each pixel along one axis in each bin: `[boxes, bins, size]`.
fn weights(low: &Tensor, high: &Tensor, bins: i64, size: Dim, how: &Align) -> Result<Tensor> {
    let dtype = low.dtype();
    let Some(length) = Slot::Int(size).as_number() else {
        bail!(Internal, "convert: expected a size that is a number");
    };
    let length = ops::cast(length, dtype).done()?;
    let line = |n: Dim| ops::iota(Shape::from_dims([n]), 0, dtype);
    let mut span = high - low;
    if !how.centred {
        span = ops::maximum(span, 1.0);
    }
    let bin = (span / bins as f64).done()?;
    let start = (low + line(Dim::number(bins)) * &bin).done()?;
    // One more axis for the points, and one for the pixels.
    let behind = |x: Expr| ops::expand_dims(x, -1);
    let (place, used, count) = if how.points > 0 {
        let step = behind((&bin / how.points as f64).done()?.into_expr());
        let place = behind((&start).into_expr()) + (line(Dim::number(how.points)) + 0.5) * step;
        (place.done()?, None, Tensor::number(how.points as f64))
    } else {
        let count = ops::ceil(&bin).done()?;
        let step = ops::where_(
            ops::greater(&count, 0.0),
            &bin / ops::maximum(&count, 1.0),
            1.0,
        )
        .done()?;
        // If there are several points, they are more than half a pixel apart, so this many cover the image.
        let most = (size + Dim::from(2)) * Dim::from(2);
        let first = ops::maximum(ops::floor((-1.0 - &start) / &step - 0.5), 0.0);
        let which = (behind(first) + line(most)).done()?;
        let place = behind((&start).into_expr()) + (&which + 0.5) * behind(step.into_expr());
        let used = ops::less(&which, behind((&count).into_expr()));
        let count = ops::maximum(&count, 1.0);
        (place.done()?, Some(used.done()?), behind(count).done()?)
    };
    let mut inside = ops::logical_and(
        ops::greater_equal(&place, -1.0),
        ops::less_equal(&place, &length),
    );
    if let Some(used) = used {
        inside = ops::logical_and(inside, used);
    }
    let held = ops::minimum(ops::maximum(place, 0.0), &length - 1.0);
    let near = ops::maximum(1.0 - ops::abs(behind(held) - line(size)), 0.0);
    let share = ops::where_(behind(inside), near, 0.0);
    (ops::sum(share, -2i64) / count).done()
}
