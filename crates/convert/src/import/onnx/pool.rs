//! Pooling.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::conv::{each, pads};
use super::{NAMED, ints, out, recorded, several, t, wanted};
use clematis_core::expr::Expr;
use clematis_core::op::{
    Extreme, OutOfRange, Pads, Scatter, ScatterKind, Window, WindowGather, WindowKind,
};
use clematis_core::shape::Axes;
use clematis_core::{Composite, DType, Dim, Result, Shape, Tensor, bail, dispatch, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("MaxPool", max_pool),
    ("AveragePool", average_pool),
    ("LpPool", |_, a| {
        let x = recorded(t(a, 0)?, None)?;
        let p = a.float(NAMED, "p", 2.0)?;
        let walk = walk(a, &x)?;
        let powers = ops::pow(ops::abs(&x), p);
        out(ops::pow(
            ops::reduce_window(powers, walk.window(WindowKind::Sum)),
            1.0 / p,
        ))
    }),
    ("GlobalAveragePool", |_, a| over(a, ops::mean)),
    ("GlobalMaxPool", |_, a| over(a, ops::max)),
    ("GlobalLpPool", |_, a| {
        let p = a.float(NAMED, "p", 2.0)?;
        over(a, move |x, at| ops::vector_norm(x, at, p))
    }),
    ("MaxUnpool", unpool),
];

fn over(a: &Args<'_>, f: impl Fn(Tensor, Vec<i64>) -> Expr) -> Result<Slot> {
    let x = t(a, 0)?;
    let at: Vec<i64> = (2..x.rank() as i64).collect();
    out(ops::keepdims(x, at, f))
}

/// The pooling window over all axes.
struct Path {
    size: Axes,
    strides: Axes,
    dilation: Axes,
    /// The given padding.
    padding: Pads,
    /// The padding with more at the end for the last window of ceil_mode.
    hanging: Pads,
}

impl Path {
    fn window(&self, kind: WindowKind) -> Window {
        Window {
            kind,
            size: self.size.clone(),
            strides: self.strides.clone(),
            padding: self.hanging.clone(),
            base_dilation: std::iter::repeat_n(1, self.size.len()).collect(),
            window_dilation: self.dilation.clone(),
        }
    }
}

fn walk(a: &Args<'_>, x: &Tensor) -> Result<Path> {
    let Some(spatial) = x.rank().checked_sub(2).filter(|&n| n > 0) else {
        bail!(Convert, "convert: `{}` of {}", a.node.op, x.spec());
    };
    let size = each(a, "kernel_shape", spatial, 1)?;
    let strides = each(a, "strides", spatial, 1)?;
    let dilation = each(a, "dilations", spatial, 1)?;
    if size
        .iter()
        .chain(&strides)
        .chain(&dilation)
        .any(|&n| n == 0)
    {
        return Err(a.bad("positive numbers"));
    }
    let span: Vec<Dim> = size
        .iter()
        .zip(&dilation)
        .map(|(&n, &d)| Dim::from((n - 1) * d + 1))
        .collect();
    let dims = &x.shape().dims()[2..];
    let padding = pads(a, dims, &span, &strides)?;
    let ceil =
        a.flag(NAMED, "ceil_mode", false)? && a.text(NAMED, "auto_pad", "NOTSET")? == "NOTSET";
    let more = |i: usize| -> Result<(Dim, Dim)> {
        let (low, high) = padding[i];
        if !ceil {
            return Ok((low, high));
        }
        let known = (dims[i].value(), span[i].value(), low.value(), high.value());
        let (Some(n), Some(span), Some(l), Some(h)) = known else {
            bail!(
                Unsupported,
                "convert: `{}` with ceil_mode over a symbolic axis",
                a.node.op
            );
        };
        let s = strides[i] as i64;
        let mut count = (n + l + h - span + s - 1).div_euclid(s) + 1;
        // A window that starts in the end padding is dropped.
        if (count - 1) * s >= n + l {
            count -= 1;
        }
        Ok((low, Dim::number(((count - 1) * s + span - n - l).max(h))))
    };
    let hanging = (0..spatial).map(more).collect::<Result<Pads>>()?;
    let all = |xs: &[usize]| -> Axes { [1, 1].into_iter().chain(xs.iter().copied()).collect() };
    let none = (Dim::from(0), Dim::from(0));
    let wide = |xs: Pads| -> Pads { [none, none].into_iter().chain(xs).collect() };
    Ok(Path {
        size: all(&size),
        strides: all(&strides),
        dilation: all(&dilation),
        padding: wide(padding),
        hanging: wide(hanging),
    })
}

fn max_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = recorded(t(a, 0)?, None)?;
    let path = walk(a, &x)?;
    let call = Composite::MaxPool {
        size: path.size.clone(),
        strides: path.strides.clone(),
        padding: path.hanging.clone(),
        dilation: path.dilation.clone(),
    };
    let y = dispatch::apply_one(&call.into(), &[&x])?;
    if wanted(a) < 2 {
        return Ok(y.into());
    }
    // The row-major (or column-major) index of each element in the spatial axes.
    let rank = x.rank();
    let columns = a.flag(NAMED, "storage_order", false)?;
    let order: Vec<usize> = if columns {
        [0, 1].into_iter().chain((2..rank).rev()).collect()
    } else {
        (0..rank).collect()
    };
    let mut number = ops::zeros(x.shape().clone(), DType::F64);
    for i in order {
        let size = ops::cast(super::counted(x.shape().dims()[i])?, DType::F64);
        number = number * size + ops::iota(x.shape().clone(), i, DType::F64);
    }
    let wide = ops::cast(&x, DType::F64).done()?;
    let gather = WindowGather {
        kind: Extreme::Max,
        size: path.size.clone(),
        strides: path.strides.clone(),
        padding: path.hanging.clone(),
        base_dilation: std::iter::repeat_n(1, rank).collect(),
        window_dilation: path.dilation.clone(),
    };
    let at = ops::call(gather, &[&wide, &number.done()?]);
    Ok(several(
        a,
        vec![y.into(), ops::cast(at, DType::I64).done()?.into()],
    ))
}

fn average_pool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = recorded(t(a, 0)?, None)?;
    let path = walk(a, &x)?;
    let count_padding = a.flag(NAMED, "count_include_pad", false)?;
    if !count_padding || path.hanging == path.padding {
        let call = Composite::AvgPool {
            size: path.size,
            strides: path.strides,
            padding: path.hanging,
            dilation: path.dilation,
            count_padding,
        };
        return out(dispatch::apply_one(&call.into(), &[&x]).into());
    }
    // Padding counts, but not the extra padding of ceil_mode.
    let sizes = x.shape().dims().iter().zip(&path.padding).enumerate();
    let shape =
        sizes.map(|(i, (&n, &(low, high)))| if i < 2 { Dim::from(1) } else { n + low + high });
    let ones = ops::ones(Shape::from_dims(shape), x.dtype());
    let mut over = path.window(WindowKind::Sum);
    over.padding = path
        .hanging
        .iter()
        .zip(&path.padding)
        .map(|(h, p)| (Dim::from(0), h.1 - p.1))
        .collect();
    out(ops::reduce_window(&x, path.window(WindowKind::Sum)) / ops::reduce_window(ones, over))
}

fn unpool(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, at) = (recorded(t(a, 0)?, None)?, t(a, 1)?);
    let path = walk(a, &x)?;
    let dims = x.shape().dims();
    let one = |i: usize| match i {
        0 | 1 => dims[i],
        _ => {
            let (low, high) = path.padding[i];
            (dims[i] - Dim::from(1)) * Dim::from(path.strides[i]) - low - high
                + Dim::from(path.size[i])
        }
    };
    let own = Shape::from_dims((0..x.rank()).map(one));
    let zeros = ops::zeros(Shape::from_dims([own.count_dim()]), x.dtype());
    let flat = |x: &Tensor| ops::reshape(x, [-1i64].to_vec());
    let p = Scatter {
        kind: ScatterKind::Set,
        window_axes: Axes::new(&[]),
        inserted: Axes::new(&[0]),
        index_map: Axes::new(&[0]),
        operand_batch: Axes::new(&[]),
        index_batch: Axes::new(&[]),
        mode: OutOfRange::Drop,
    };
    let filled = ops::scatter(zeros, ops::expand_dims(flat(&at), -1), flat(&x), p);
    let y = ops::reshape(filled, own.clone()).done()?;
    if !a.has(2, "output_shape") {
        return Ok(y.into());
    }
    let given = ints(a, 2)?;
    if given.len() != y.rank() {
        return Err(a.bad("one size per axis"));
    }
    let high: Vec<Dim> = given
        .iter()
        .zip(own.dims())
        .map(|(&n, &d)| Dim::number(n) - d)
        .collect();
    let low = vec![Dim::from(0); y.rank()];
    out(ops::pad(
        &y,
        Tensor::scalar(0i64, y.dtype()),
        &low,
        &high,
        &vec![0; y.rank()],
    ))
}
