//! Inference of window ops (pooling).

use super::same_dtype;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Extreme, Pads, Window, WindowGather, WindowKind, WindowScatter};
use crate::shape::{Axes, Shape};
use crate::spec::Spec;
use crate::{bail, ensure};

/// A size after dilation: `dilation - 1` gaps between neighbouring elements.
pub fn dilated(size: Dim, dilation: usize) -> Dim {
    if dilation == 1 || size == 0usize {
        return size;
    }
    (size - Dim::number(1)) * Dim::from(dilation) + Dim::number(1)
}

/// Number of window positions along one axis; never negative.
pub fn window_output(
    op: &str,
    size: Dim,
    window: Dim,
    stride: usize,
    padding: (Dim, Dim),
    dilation: usize,
) -> Result<Dim> {
    ensure!(
        stride > 0 && dilation > 0,
        Value,
        "{op}: stride {stride} and dilation {dilation} must be positive"
    );
    let padded = size + padding.0 + padding.1;
    ensure!(
        padded.value().is_none_or(|v| v >= 0),
        Shape,
        "{op}: padding {} and {} crops more than the {size} there are",
        padding.0,
        padding.1
    );
    let span = dilated(window, dilation);
    // Far beyond any memory, and small enough that sums of a few such numbers do not overflow.
    const MOST: i64 = i64::MAX / 8;
    let within = |d: Dim| d.value().is_none_or(|v| (-MOST..=MOST).contains(&v));
    ensure!(
        [padding.0, padding.1, padded, span].into_iter().all(within),
        Shape,
        "{op}: a window over {span} of {size}, padded by {} and {}, is too large",
        padding.0,
        padding.1
    );
    let places = (padded - span).floor_div(Dim::from(stride))? + Dim::number(1);
    Ok(match places.value() {
        Some(v) => Dim::number(v.max(0)),
        None => places,
    })
}

fn output(
    op: &str,
    x: &Spec,
    size: &Axes,
    strides: &Axes,
    padding: &Pads,
    base: &Axes,
    dilation: &Axes,
) -> Result<Shape> {
    let rank = x.rank();
    ensure!(
        [
            size.len(),
            strides.len(),
            padding.len(),
            base.len(),
            dilation.len()
        ]
        .iter()
        .all(|&n| n == rank),
        Shape,
        "{op}: {x} has {rank} axes; size, strides, padding and dilations have {}, {}, {}, {} and {}",
        size.len(),
        strides.len(),
        padding.len(),
        base.len(),
        dilation.len()
    );
    let mut dims = Vec::with_capacity(rank);
    for i in 0..rank {
        ensure!(
            size[i] > 0 && base[i] > 0,
            Value,
            "{op}: invalid window size {} and dilation {} on axis {i}",
            size[i],
            base[i]
        );
        let n = dilated(x.shape.dims()[i], base[i]);
        dims.push(window_output(
            op,
            n,
            Dim::from(size[i]),
            strides[i],
            padding[i],
            dilation[i],
        )?);
    }
    let shape = Shape::from_dims(dims);
    shape.check(op)?;
    Ok(shape)
}

pub fn reduce(op: &str, x: &Spec, p: &Window) -> Result<Spec> {
    ensure!(
        x.dtype != DType::Bool,
        DType,
        "{op}: expected numbers, got {x}"
    );
    let ordered = matches!(p.kind, WindowKind::Max | WindowKind::Min);
    ensure!(
        !(ordered && x.dtype.is_complex()),
        DType,
        "{op}: complex numbers have no order"
    );
    let shape = output(
        op,
        x,
        &p.size,
        &p.strides,
        &p.padding,
        &p.base_dilation,
        &p.window_dilation,
    )?;
    Ok(x.with_shape(shape))
}

/// The two ops that use selected positions: `window_scatter` takes one value per window, `window_gather` one per
/// element.
pub fn select(op: &str, x: &Spec, y: &Spec, p: &WindowScatter, scatters: bool) -> Result<Spec> {
    ensure!(
        !x.dtype.is_complex() && x.dtype != DType::Bool,
        DType,
        "{op}: expected real numbers, got {x}"
    );
    same_dtype(op, x, y)?;
    let windows = output(
        op,
        x,
        &p.size,
        &p.strides,
        &p.padding,
        &p.base_dilation,
        &p.window_dilation,
    )?;
    let (want, out) = if scatters {
        (&windows, &x.shape)
    } else {
        (&x.shape, &windows)
    };
    ensure!(
        y.shape == *want,
        Shape,
        "{op}: expected a second operand of shape {want}, got {y}"
    );
    Ok(x.with_shape(out.clone()))
}

macro_rules! convert {
    ($($from:ident => $to:ident),*) => { $(
        impl From<$from> for $to {
            fn from(p: $from) -> $to {
                $to {
                    kind: p.kind.into(),
                    size: p.size,
                    strides: p.strides,
                    padding: p.padding,
                    base_dilation: p.base_dilation,
                    window_dilation: p.window_dilation,
                }
            }
        }
    )* };
}
convert!(WindowGather => WindowScatter, WindowScatter => WindowGather, WindowGather => Window, WindowScatter => Window);

impl From<Extreme> for WindowKind {
    fn from(kind: Extreme) -> WindowKind {
        match kind {
            Extreme::Max => WindowKind::Max,
            Extreme::Min => WindowKind::Min,
        }
    }
}

/// The scatter that selects as a max or min over windows does.
impl TryFrom<Window> for WindowScatter {
    type Error = Error;

    fn try_from(p: Window) -> Result<WindowScatter> {
        let kind = match p.kind {
            WindowKind::Max => Extreme::Max,
            WindowKind::Min => Extreme::Min,
            WindowKind::Sum | WindowKind::Prod => {
                bail!(
                    Value,
                    "window_scatter: expected max or min, got {}",
                    p.kind.name()
                )
            }
        };
        Ok(WindowScatter {
            kind,
            size: p.size,
            strides: p.strides,
            padding: p.padding,
            base_dilation: p.base_dilation,
            window_dilation: p.window_dilation,
        })
    }
}
