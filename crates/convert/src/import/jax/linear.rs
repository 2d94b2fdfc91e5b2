//! Dot, convolutions, window reductions, factorizations, Fourier transforms.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, places, x};
use clematis_core::op::{
    Conv, Dot, Extreme, FftKind, Pads, Transposed, TriangularSolve, Window, WindowKind,
    WindowScatter,
};
use clematis_core::shape::Axes;
use clematis_core::{Dim, Op, Result, Tensor, bail, dispatch, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("dot_general", dot_general),
    ("conv_general_dilated", conv),
    ("reduce_window_sum", |_, a| window(a, WindowKind::Sum)),
    ("reduce_window_max", |_, a| window(a, WindowKind::Max)),
    ("reduce_window_min", |_, a| window(a, WindowKind::Min)),
    ("select_and_scatter_add", select_and_scatter),
    ("cholesky", |_, a| {
        Ok(ops::cholesky(e(a, 0), false).done()?.into())
    }),
    ("eigh", |_, a| {
        let (w, v) = ops::eigh(&x(a, 0)?)?;
        Ok(vec![v, w].into())
    }),
    ("lu", |_, a| {
        let (packed, pivots, order) = ops::lu(&x(a, 0)?)?;
        Ok(vec![packed, pivots, order].into())
    }),
    ("qr", |_, a| {
        let (q, r) = ops::qr(&x(a, 0)?, a.flag(NAMED, "full_matrices", false)?)?;
        Ok(vec![q, r].into())
    }),
    ("svd", |_, a| {
        if !a.flag(NAMED, "compute_uv", true)? {
            return Ok(ops::svdvals(e(a, 0)).done()?.into());
        }
        let (u, s, v) = ops::svd(&x(a, 0)?, a.flag(NAMED, "full_matrices", false)?)?;
        Ok(vec![s, u, v].into())
    }),
    ("triangular_solve", triangular_solve),
    ("fft", fft),
];

fn lists(a: &Args<'_>, name: &str) -> Result<Vec<Slot>> {
    match a.slot(NAMED, name) {
        Slot::List(xs) => Ok(xs.clone()),
        other => bail!(
            Convert,
            "convert: `{}`: expected {name} to be a list, got {}",
            a.node.op,
            other.kind()
        ),
    }
}

fn axes_of(slot: Option<&Slot>) -> Axes {
    let Some(Slot::List(xs)) = slot else {
        return Axes::default();
    };
    let one = |x: &Slot| match x {
        Slot::Int(d) => d.value().map(|n| n as usize),
        _ => None,
    };
    xs.iter().filter_map(one).collect()
}

fn dot_general(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let numbers = lists(a, "dimension_numbers")?;
    let pair = |i: usize| match numbers.get(i) {
        Some(Slot::List(xs)) => (axes_of(xs.first()), axes_of(xs.get(1))),
        _ => Default::default(),
    };
    let ((lhs_contract, rhs_contract), (lhs_batch, rhs_batch)) = (pair(0), pair(1));
    let recorded = a.recorded_spec(0)?.dtype;
    let (x, y) = (ops::cast(e(a, 0), recorded), ops::cast(e(a, 1), recorded));
    let params = Dot {
        lhs_batch,
        rhs_batch,
        lhs_contract,
        rhs_contract,
    };
    Ok(ops::dot_general(x, y, params).done()?.into())
}

/// The padding before and after each axis.
fn pads(a: &Args<'_>) -> Result<Pads> {
    let number = |x: Option<&Slot>| match x {
        Some(Slot::Int(d)) => *d,
        _ => Dim::from(0),
    };
    let one = |pair: Slot| match pair {
        Slot::List(two) => Ok((number(two.first()), number(two.get(1)))),
        other => bail!(
            Convert,
            "convert: `{}`: expected padding to be pairs, got {}",
            a.node.op,
            other.kind()
        ),
    };
    lists(a, "padding")?.into_iter().map(one).collect()
}

fn conv(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let axes = |name: &str| -> Result<Axes> { Ok(Axes::new(&places(a, name)?)) };
    let params = Conv {
        strides: axes("window_strides")?,
        padding: pads(a)?,
        lhs_dilation: axes("lhs_dilation")?,
        rhs_dilation: axes("rhs_dilation")?,
        lhs_layout: axes("lhs_spec")?,
        rhs_layout: axes("rhs_spec")?,
        out_layout: axes("out_spec")?,
        feature_groups: a.int(NAMED, "feature_group_count", 1)? as usize,
        batch_groups: a.int(NAMED, "batch_group_count", 1)? as usize,
    };
    Ok(ops::conv_general(e(a, 0), e(a, 1), params).done()?.into())
}

/// One number per axis; ones if the parameter is missing.
fn each(a: &Args<'_>, name: &str, rank: usize) -> Result<Axes> {
    let given = places(a, name)?;
    Ok(if given.is_empty() {
        Axes::new(&vec![1; rank])
    } else {
        Axes::new(&given)
    })
}

fn window(a: &Args<'_>, kind: WindowKind) -> Result<Slot> {
    let x = x(a, 0)?;
    let params = Window {
        kind,
        size: each(a, "window_dimensions", x.rank())?,
        strides: each(a, "window_strides", x.rank())?,
        padding: pads(a)?,
        base_dilation: each(a, "base_dilation", x.rank())?,
        window_dilation: each(a, "window_dilation", x.rank())?,
    };
    Ok(ops::reduce_window(x, params).done()?.into())
}

/// Operands: the source that is added, and the operand in which windows select.
fn select_and_scatter(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (source, x) = (x(a, 0)?, x(a, 1)?);
    let chooses_max = a.text(NAMED, "select_prim", "ge")? == "ge";
    let ones = || Axes::new(&vec![1; x.rank()]);
    let op: Op = WindowScatter {
        kind: if chooses_max {
            Extreme::Max
        } else {
            Extreme::Min
        },
        size: each(a, "window_dimensions", x.rank())?,
        strides: each(a, "window_strides", x.rank())?,
        padding: pads(a)?,
        base_dilation: ones(),
        window_dilation: ones(),
    }
    .into();
    Ok(dispatch::apply_one(&op, &[&x, &source])?.into())
}

fn triangular_solve(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let adjoint = a.flag(NAMED, "conjugate_a", false)?;
    let params = TriangularSolve {
        left: a.flag(NAMED, "left_side", true)?,
        lower: a.flag(NAMED, "lower", true)?,
        transpose: match (a.flag(NAMED, "transpose_a", false)?, adjoint) {
            (true, true) => Transposed::Adjoint,
            (true, false) => Transposed::Yes,
            _ => Transposed::No,
        },
        unit_diagonal: a.flag(NAMED, "unit_diagonal", false)?,
    };
    Ok(ops::triangular_solve(e(a, 0), e(a, 1), params)
        .done()?
        .into())
}

fn fft(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x: Tensor = x(a, 0)?;
    let lengths = a.dims(NAMED, "fft_lengths")?;
    let count = lengths.len();
    let axes = Axes::new(&(x.rank() - count..x.rank()).collect::<Vec<_>>());
    let kind = match a.text(NAMED, "fft_type", "")? {
        "FFT" => FftKind::Forward,
        "IFFT" => FftKind::Inverse,
        "RFFT" => FftKind::Real,
        "IRFFT" => FftKind::RealInverse,
        other => bail!(Unsupported, "convert: unsupported fft kind `{other}`"),
    };
    let Some(&length) = lengths.last() else {
        return Ok(x.into());
    };
    let op: Op = clematis_core::op::Fft { kind, axes, length }.into();
    Ok(dispatch::apply_one(&op, &[&x])?.into())
}
