//! Reductions over sliding windows, and the selections of their gradients.

use super::{Plain, elements, elements_mut};
use crate::buffer::{self, Buffer};
use crate::kernel::conv::{Axis, Step};
use crate::kernel::window::{self, Elsewhere, Pooled, Reduction, WindowAxis};
use crate::layout::dense_strides;
use crate::memory;
use clematis_core::host::types::{BF16, C64, C128, F16};
use clematis_core::op::{Window, WindowGather, WindowKind, WindowScatter};
use clematis_core::{DType, Result, Scalar, Spec, Tensor, bail, ensure, limit};

/// Runs an expression with `E` standing for a number type: bool has no windows, complex types have no order.
macro_rules! by_number {
    ($op:expr, $dtype:expr, $E:ident => $body:expr, $($more:ident $t:ty),*) => {
        by_number!(@ $op, $dtype, $E, $body, $($more $t,)*
            U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64, F16 F16, BF16 BF16, F32 f32, F64 f64,)
    };
    (@ $op:expr, $dtype:expr, $E:ident, $body:expr, $($d:ident $t:ty,)*) => {
        match $dtype {
            $(DType::$d => { type $E = $t; $body })*
            other => bail!(Internal, "{}: the engine has no kernel for {other}", $op),
        }
    };
}

fn reduction(kind: WindowKind) -> Reduction {
    match kind {
        WindowKind::Sum => Reduction::Sum,
        WindowKind::Prod => Reduction::Prod,
        WindowKind::Max => Reduction::Max,
        WindowKind::Min => Reduction::Min,
    }
}

/// The window along each axis, from a strided array to contiguous windows.
fn axes(p: &Window, sizes: &[usize], strides: &[isize], windows: &[usize]) -> Vec<WindowAxis> {
    let number = |d: clematis_core::Dim| d.value().unwrap_or(0) as isize;
    let out = dense_strides(windows);
    (0..sizes.len())
        .map(|i| WindowAxis {
            input: Axis {
                size: sizes[i],
                stride: strides[i],
            },
            output: Axis {
                size: windows[i],
                stride: out[i],
            },
            window: p.size[i],
            step: Step {
                stride: p.strides[i],
                lo: number(p.padding[i].0),
                hi: number(p.padding[i].1),
                // An axis with one element has no stride, however large; nor does a window of one tap.
                lhs_dilation: if sizes[i] > 1 { p.base_dilation[i] } else { 1 },
                rhs_dilation: if p.size[i] > 1 {
                    p.window_dilation[i]
                } else {
                    1
                },
            },
        })
        .collect()
}

/// An error if the list of a window's elements exceeds the memory limit.
fn check_window(op: &str, p: &Window) -> Result<()> {
    let count = limit::count::<(isize, usize)>(op, "elements of a window", &p.size)?;
    ensure!(
        u32::try_from(count).is_ok(),
        Unsupported,
        "{op}: {count} elements of a window, the most is {}",
        u32::MAX
    );
    Ok(())
}

/// Runs a reduction over windows.
pub fn reduce(op: &str, p: &Window, x: &Tensor, out: &Spec) -> Result<Buffer> {
    // A window that fits nowhere may be too large to plan for.
    if out.shape.count() == 0 {
        return Ok(Buffer::new(memory::alloc(op, out)?));
    }
    check_window(op, p)?;
    fn typed<E: Plain + Pooled>(op: &str, p: &Window, x: &Tensor, out: &Spec) -> Result<Buffer> {
        let buffer = buffer::of(x)?;
        let view = buffer.view::<E::Stored>(x.shape());
        let axes = axes(p, &view.sizes, &view.strides, &out.shape.sizes());
        let mut bytes = memory::alloc(op, out)?;
        let input = (elements::<E>(view.data)?, view.offset);
        let to = (elements_mut::<E>(&mut bytes)?, 0);
        window::reduce_window(to, input, &axes, reduction(p.kind));
        Ok(Buffer::new(bytes))
    }
    by_number!(op, out.dtype, E => typed::<E>(op, p, x, out), C64 C64, C128 C128)
}

/// Adds each element of `y` to the element of `x` that its window selects.
pub fn scatter(op: &str, p: &WindowScatter, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    let p = Window::from(p.clone());
    let windows = y.shape().sizes();
    by_number!(op, out.dtype, E => select::<E>(op, &p, [x, y], &windows, out, true),)
}

/// Reads from `y` the element that each window selects in `x`.
pub fn gather(op: &str, p: &WindowGather, x: &Tensor, y: &Tensor, out: &Spec) -> Result<Buffer> {
    let p = Window::from(p.clone());
    let windows = out.shape.sizes();
    by_number!(op, out.dtype, E => select::<E>(op, &p, [x, y], &windows, out, false),)
}

/// Both visit the selected elements of `x`, and read their operands in place.
fn select<E: Plain + Pooled>(
    op: &str,
    p: &Window,
    [x, y]: [&Tensor; 2],
    windows: &[usize],
    out: &Spec,
    scatters: bool,
) -> Result<Buffer> {
    if windows.contains(&0) {
        return crate::kernel::create::fill(op, Scalar::ZERO, out);
    }
    check_window(op, p)?;
    let (input, other) = (buffer::of(x)?, buffer::of(y)?);
    let input = input.view::<E::Stored>(x.shape());
    let other = other.view::<E::Stored>(y.shape());
    let axes = axes(p, &input.sizes, &input.strides, windows);
    let (rows, window_rows) = (dense_strides(&input.sizes), dense_strides(windows));
    let mut bytes = memory::alloc(op, out)?;
    let to = elements_mut::<E>(&mut bytes)?;
    let from = (elements::<E>(input.data)?, input.offset);
    let values = elements::<E>(other.data)?;
    // A result like the input is contiguous; where the input is not, its offsets are computed separately.
    let as_input = input.strides == rows && input.offset == 0;
    let kind = reduction(p.kind);
    if scatters && as_input && other.strides == window_rows {
        window::window_scatter(to, (values, other.offset), from, &axes, kind);
    } else if scatters {
        let elsewhere = Elsewhere::new(&axes, (other.offset, &other.strides), (0, &rows));
        window::window_scatter_elsewhere(to, values, from, &axes, kind, &elsewhere);
    } else if input.strides == other.strides && input.offset == other.offset {
        window::window_gather((to, 0), values, from, &axes, kind);
    } else {
        let elsewhere = Elsewhere::new(&axes, (0, &window_rows), (other.offset, &other.strides));
        window::window_gather_elsewhere(to, values, from, &axes, kind, &elsewhere);
    }
    Ok(Buffer::new(bytes))
}
