//! Factorizations, solvers, determinants, matrix functions.

use super::super::Rule;
use super::super::args::{Args, Slot};
use super::out;
use clematis_core::op::{Transposed, TriangularSolve};
use clematis_core::{DType, Result, Shape, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("_linalg_det", |_, a| {
        let x = a.tensor(0, "A")?;
        let whole = ops::det(&x).done()?;
        with_unused_results(a, vec![whole])
    }),
    ("_linalg_slogdet", |_, a| {
        let (sign, size) = ops::slogdet(&a.tensor(0, "A")?)?;
        with_unused_results(a, vec![sign, size])
    }),
    ("_linalg_eigh", |_, a| {
        let x = one_side(a)?;
        if !a.flag(2, "compute_v", true)? {
            return with_unused_results(a, vec![ops::eigvalsh(&x).done()?]);
        }
        let (values, vectors) = ops::eigh(&x)?;
        with_unused_results(a, vec![values, vectors])
    }),
    ("linalg_eig", |_, a| {
        let (values, vectors) = ops::eig(&a.tensor(0, "self")?)?;
        with_unused_results(a, vec![values, vectors])
    }),
    ("_linalg_eigvals", |_, a| {
        out(ops::eigvals(a.expr(0, "self")))
    }),
    ("linalg_eigvals", |_, a| {
        out(ops::eigvals(a.expr(0, "self")))
    }),
    ("_linalg_svd", |_, a| {
        let x = a.tensor(0, "A")?;
        if !a.flag(2, "compute_uv", true)? {
            let values = ops::svdvals(&x).done()?;
            return Ok(Slot::List(vec![
                Slot::Nothing,
                values.into(),
                Slot::Nothing,
            ]));
        }
        let (u, s, v) = ops::svd(&x, a.flag(1, "full_matrices", false)?)?;
        Ok(vec![u, s, v].into())
    }),
    ("linalg_qr", |_, a| {
        let (q, r) = match a.text(1, "mode", "reduced")? {
            "complete" => ops::qr(&a.tensor(0, "A")?, true)?,
            _ => ops::qr(&a.tensor(0, "A")?, false)?,
        };
        Ok(vec![q, r].into())
    }),
    ("linalg_cholesky_ex", |_, a| {
        let low = ops::cholesky(a.expr(0, "self"), a.flag(1, "upper", false)?).done()?;
        with_unused_results(a, vec![low])
    }),
    ("cholesky", |_, a| {
        out(ops::cholesky(a.expr(0, "self"), a.flag(1, "upper", false)?))
    }),
    ("linalg_inv_ex", |_, a| {
        with_unused_results(a, vec![ops::inv(a.expr(0, "A")).done()?])
    }),
    ("_linalg_solve_ex", |_, a| {
        let (x, y) = (a.tensor(0, "A")?, a.tensor(1, "B")?);
        let left = a.flag(2, "left", true)?;
        with_unused_results(a, vec![solved(&x, &y, left)?])
    }),
    ("linalg_solve_triangular", |_, a| {
        let upper = a.flag(2, "upper", false)?;
        let (left, unit) = (a.flag(3, "left", true)?, a.flag(4, "unitriangular", false)?);
        let (x, y) = batched(&a.tensor(0, "self")?, &a.tensor(1, "B")?)?;
        triangular(&x, &y, upper, left, Transposed::No, unit)
    }),
    ("triangular_solve", |_, a| {
        let (x, y) = batched(&a.tensor(1, "A")?, &a.tensor(0, "self")?)?;
        let side = if a.flag(3, "transpose", false)? {
            Transposed::Yes
        } else {
            Transposed::No
        };
        let solution = triangular(
            &x,
            &y,
            a.flag(2, "upper", true)?,
            true,
            side,
            a.flag(4, "unitriangular", false)?,
        )?;
        Ok(Slot::List(vec![solution, x.into()]))
    }),
    ("cholesky_solve", |_, a| {
        let (y, x) = (a.tensor(0, "self")?, a.tensor(1, "input2")?);
        let low = if a.flag(2, "upper", false)? {
            adjoint(&x)?
        } else {
            x
        };
        out(ops::solve(ops::matmul(&low, adjoint(&low)?), y))
    }),
    ("cholesky_inverse", |_, a| {
        let x = a.tensor(0, "self")?;
        let low = if a.flag(1, "upper", false)? {
            adjoint(&x)?
        } else {
            x
        };
        out(ops::inv(ops::matmul(&low, adjoint(&low)?)))
    }),
    ("linalg_lu", |_, a| {
        let x = a.tensor(0, "A")?;
        let (low, high, places) = parts(&x)?;
        let order = ops::one_hot(&places, x.shape().dims()[x.rank() - 2], x.dtype());
        Ok(vec![ops::matrix_transpose(order).done()?, low, high].into())
    }),
    ("linalg_matrix_exp", |_, a| {
        out(exponential(&a.tensor(0, "self")?)?.into_expr())
    }),
    ("linalg_lstsq", |_, a| {
        let (x, y) = (a.tensor(0, "self")?, a.tensor(1, "b")?);
        let vector = y.rank() + 1 == x.rank();
        let y = if vector {
            ops::expand_dims(&y, -1).done()?
        } else {
            y
        };
        let solution = ops::matmul(ops::pinv(&x, None), &y);
        let solution = if vector {
            ops::squeeze(solution, -1i64)
        } else {
            solution
        };
        with_unused_results(a, vec![solution.done()?])
    }),
    ("linalg_householder_product", |_, a| {
        let (x, scales) = (a.tensor(0, "input")?, a.tensor(1, "tau")?);
        reflections(&x, &scales).map(Slot::Tensor)
    }),
    ("trace", |_, a| out(ops::trace(a.expr(0, "self"), 0))),
];

use clematis_core::expr::IntoExpr;

/// These results, followed by `Nothing` for those that only torch's own backward reads.
fn with_unused_results(a: &Args<'_>, xs: Vec<Tensor>) -> Result<Slot> {
    let count = a.node.specs.len().max(xs.len());
    let mut slots: Vec<Slot> = xs.into_iter().map(Slot::Tensor).collect();
    while slots.len() < count {
        // The number of failed columns where torch returns it: zero.
        let recorded = a.node.specs.get(slots.len()).cloned().flatten();
        slots.push(match recorded.map(|s| s.spec()).transpose()? {
            Some(spec) if spec.dtype == DType::I32 => {
                ops::zeros(spec.shape, spec.dtype).done()?.into()
            }
            _ => Slot::Nothing,
        });
    }
    Ok(Slot::List(slots))
}

/// The operand with one triangle mirrored to the other.
fn one_side(a: &Args<'_>) -> Result<Tensor> {
    let x = a.tensor(0, "A")?;
    let (keep, rest) = match a.text(1, "UPLO", "L")? {
        "U" | "u" => (ops::triu(&x, 0), ops::triu(&x, 1)),
        _ => (ops::tril(&x, 0), ops::tril(&x, -1)),
    };
    (keep + adjoint(&rest.done()?)?).done()
}

fn adjoint(x: &Tensor) -> Result<Tensor> {
    let transposed = ops::matrix_transpose(x);
    if x.dtype().is_complex() {
        ops::conj(transposed).done()
    } else {
        transposed.done()
    }
}

/// Broadcasts the batch axes of both.
fn batched(x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    let lead = |x: &Tensor| Shape::from_dims(x.shape().dims()[..x.rank() - 2].iter().copied());
    let met = lead(x).broadcast_with(&lead(y), "solve")?;
    let wide = |x: &Tensor| {
        let tail = x.shape().dims()[x.rank() - 2..].iter().copied();
        ops::broadcast_to(x, Shape::from_dims(met.dims().iter().copied().chain(tail))).done()
    };
    Ok((wide(x)?, wide(y)?))
}

fn solved(x: &Tensor, y: &Tensor, left: bool) -> Result<Tensor> {
    // A vector, or a batch of vectors if the shapes say so.
    if y.rank() == 1
        || (y.rank() + 1 == x.rank() && y.shape().dims() == &x.shape().dims()[..x.rank() - 1])
    {
        let column = ops::solve(x, ops::expand_dims(y, -1));
        return ops::squeeze(column, -1i64).done();
    }
    if left {
        let (x, y) = batched(x, y)?;
        return ops::solve(x, y).done();
    }
    let (x, y) = batched(
        &ops::matrix_transpose(x).done()?,
        &ops::matrix_transpose(y).done()?,
    )?;
    ops::matrix_transpose(ops::solve(x, y)).done()
}

fn triangular(
    x: &Tensor,
    y: &Tensor,
    upper: bool,
    left: bool,
    transpose: Transposed,
    unit: bool,
) -> Result<Slot> {
    let p = TriangularSolve {
        left,
        lower: !upper,
        transpose,
        unit_diagonal: unit,
    };
    out(ops::triangular_solve(x, y, p))
}

/// The factors and the pivots of an LU factorization.
fn parts(x: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
    let (packed, _, order) = ops::lu(x)?;
    let (rows, columns) = (
        x.shape().dims()[x.rank() - 2],
        x.shape().dims()[x.rank() - 1],
    );
    let Some((m, n)) = rows.value().zip(columns.value()) else {
        bail!(
            Unsupported,
            "convert: linalg_lu of {}: sizes must be known",
            x.spec()
        );
    };
    let k = m.min(n);
    let ones = ops::eye(m as usize, k as usize, 0, x.dtype());
    let low = ops::tril(ops::slice_axis(&packed, -1, 0, k), -1) + ones;
    let high = ops::triu(ops::slice_axis(&packed, -2, 0, k), 0);
    Ok((low.done()?, high.done()?, order))
}

/// The matrix exponential by scaling and squaring a Taylor series, in float64, since squaring doubles the error.
fn exponential(given: &Tensor) -> Result<Tensor> {
    let n = given.shape().known_size(given.rank() - 1, "matrix_exp")?;
    let wide = if given.dtype().is_complex() {
        given.dtype()
    } else {
        DType::F64
    };
    let x = ops::cast(given, wide).done()?;
    let one = ops::eye(n, n, 0, wide).done()?;
    let halvings = 10;
    let small = (x / f64::from(1u32 << halvings)).done()?;
    let mut less = small.clone();
    let mut term = small.clone();
    for i in 2..=8 {
        term = (ops::matmul(&term, &small) / f64::from(i)).done()?;
        less = (&less + &term).done()?;
    }
    // exp(2x) - 1 = 2 (exp(x) - 1) + (exp(x) - 1)²: no cancellation next to the identity.
    for _ in 0..halvings {
        less = (&less * 2.0 + ops::matmul(&less, &less)).done()?;
    }
    ops::cast(less + &one, given.dtype()).done()
}

/// The product of Householder reflections given by the columns below the diagonal.
fn reflections(x: &Tensor, scales: &Tensor) -> Result<Tensor> {
    let rank = x.rank();
    let (m, n) = (
        x.shape().known_size(rank - 2, "householder")?,
        x.shape().known_size(rank - 1, "householder")?,
    );
    let k = scales
        .shape()
        .known_size(scales.rank() - 1, "householder")?;
    let eye = ops::eye(m, n, 0, x.dtype()).done()?;
    let mut q = ops::broadcast_to(&eye, x.shape().clone()).done()?;
    let below = (ops::tril(x, -1) + eye).done()?;
    for i in (0..k).rev() {
        let v = ops::slice_axis(&below, -1, i, i + 1).done()?;
        let scale = ops::expand_dims(ops::slice_axis(scales, -1, i, i + 1), -1).done()?;
        let along = ops::matmul(adjoint(&v)?, &q);
        q = (&q - ops::matmul(v * scale, along)).done()?;
    }
    Ok(q)
}
