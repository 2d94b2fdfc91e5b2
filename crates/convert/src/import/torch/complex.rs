//! Complex numbers and Fourier transforms.

use super::super::Rule;
use super::super::args::{Args, Slot};
use super::{axis, out};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Tensor, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("view_as_complex", |_, a| {
        let x = a.tensor(0, "self")?;
        let part = |i: i64| ops::squeeze(ops::slice_axis(&x, -1, i, i + 1), -1);
        out(ops::complex(part(0), part(1)))
    }),
    ("view_as_real", |_, a| {
        let x = a.tensor(0, "self")?;
        out(ops::stack(
            &[ops::real(&x).done()?, ops::imag(&x).done()?],
            -1,
        ))
    }),
    ("complex", |_, a| {
        out(ops::complex(a.expr(0, "real"), a.expr(1, "imag")))
    }),
    ("polar", |_, a| {
        let (size, angle) = (a.tensor(0, "abs")?, a.tensor(1, "angle")?);
        out(ops::complex(
            &size * ops::cos(&angle),
            &size * ops::sin(&angle),
        ))
    }),
    ("real", |_, a| part(a, ops::real)),
    ("imag", |_, a| part(a, ops::imag)),
    ("conj", |_, a| part(a, ops::conj)),
    ("_conj", |_, a| part(a, ops::conj)),
    ("_conj_physical", |_, a| part(a, ops::conj)),
    ("conj_physical", |_, a| part(a, ops::conj)),
    ("_neg_view", |_, a| part(a, ops::neg)),
    ("resolve_conj", |_, a| part(a, |x| x)),
    ("resolve_neg", |_, a| part(a, |x| x)),
    ("angle", |_, a| part(a, ops::angle)),
    ("sgn", |_, a| part(a, ops::sign)),
    ("_fft_c2c", |_, a| {
        let x = a.tensor(0, "self")?;
        let axes = a.ints(1, "dim")?;
        let forward = a.flag(3, "forward", true)?;
        let y = if forward {
            ops::fft(&x, &axes)
        } else {
            ops::ifft(&x, &axes)
        };
        scaled(a, y, length(&x, &axes), !forward)
    }),
    ("_fft_r2c", |_, a| {
        let x = a.tensor(0, "self")?;
        let axes = a.ints(1, "dim")?;
        let y = match a.flag(3, "onesided", true)? {
            true => ops::rfft(&x, &axes),
            false => ops::fft(ops::cast(&x, x.dtype().complex()), &axes),
        };
        scaled(a, y, length(&x, &axes), false)
    }),
    ("_fft_c2r", |_, a| {
        let x = a.tensor(0, "self")?;
        let axes = a.ints(1, "dim")?;
        let last = a.int(3, "last_dim_size", 1)?;
        let others = &axes[..axes.len().saturating_sub(1)];
        let count = length(&x, others) * Dim::number(last);
        scaled(a, ops::irfft(&x, &axes, Some(last as usize)), count, true)
    }),
    ("fft_fftfreq", |_, a| frequencies(a, false)),
    ("fft_rfftfreq", |_, a| frequencies(a, true)),
];

fn part(a: &Args<'_>, f: impl FnOnce(Expr) -> Expr) -> Result<Slot> {
    out(f(a.expr(0, "self")))
}

/// The number of elements that are transformed together.
fn length(x: &Tensor, axes: &[i64]) -> Dim {
    axes.iter().fold(Dim::from(1), |n, &i| {
        n * x.shape().dims()[axis(x, i) as usize]
    })
}

/// Applies torch's normalization: none, by the square root of the count, or by the count. Ours divides by the count in the
/// inverse only.
fn scaled(a: &Args<'_>, y: Expr, count: Dim, inverse: bool) -> Result<Slot> {
    let count = || {
        ops::cast(
            Expr::from(Slot::Int(count).as_number().ok_or_else(|| a.bad("a size"))),
            DType::F64,
        )
    };
    let by = match (a.int(2, "normalization", 0)?, inverse) {
        (0, false) | (2, true) => return out(y),
        (0, true) => count(),
        (1, true) => ops::sqrt(count()),
        (1, false) => 1.0 / ops::sqrt(count()),
        _ => 1.0 / count(),
    };
    y.then(|y| {
        let real = ops::real(&y).done()?.dtype();
        (&y * ops::cast(by, real)).done()
    })
    .done()
    .map(Slot::Tensor)
}

fn frequencies(a: &Args<'_>, half: bool) -> Result<Slot> {
    let (n, spacing) = (a.int(0, "n", 1)?, a.float(1, "d", 1.0)?);
    out(ops::frequencies(
        n as usize,
        spacing,
        half,
        a.recorded_spec(0)?.dtype,
    ))
}
