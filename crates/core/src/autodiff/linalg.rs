//! Derivatives of matrix factorisations and Fourier transforms, most of them as JVPs.

use super::structural::impossible;
use crate::bail;
use crate::dim::Dim;
use crate::error::Result;
use crate::expr::Expr;
use crate::op::{FftKind, Op, Transposed, TriangularSolve};
use crate::ops::{self, Ops, linalg::eye_like};
use crate::shape::Shape;
use crate::tensor::Tensor;

/// Conjugate transpose.
fn adjoint(x: &Tensor) -> Expr {
    let t = ops::matrix_transpose(x);
    if x.dtype().is_complex() {
        ops::conj(t)
    } else {
        t
    }
}

/// The lower triangle with half of the diagonal.
fn half_lower(x: &Tensor) -> Expr {
    ops::tril(x, 0) - ops::tril(x, 0).then(|l| &l * eye_like(&l) * 0.5)
}

fn solve_with(a: &Tensor, b: &Tensor, left: bool, lower: bool, transpose: Transposed) -> Expr {
    ops::triangular_solve(
        a,
        b,
        TriangularSolve {
            left,
            lower,
            transpose,
            unit_diagonal: false,
        },
    )
}

/// dL = L Φ(L⁻¹ dA L⁻ᴴ), Φ being the lower triangle with half of the diagonal.
pub fn cholesky(
    op: &Op,
    _: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Cholesky(p), Some(da)) = (op, &dx[0]) else {
        return Ok(vec![None]);
    };
    let l = if p.upper {
        adjoint(y[0]).done()?
    } else {
        y[0].clone()
    };
    // The op reads the lower triangle only; the derivative uses the Hermitian matrix that it represents.
    let low = ops::tril(da, -1).done()?;
    let diagonal = (da * eye_like(da)).real().cast(da.dtype());
    let da = (&low + adjoint(&low) + diagonal).done()?;
    let inner = solve_with(&l, &da, true, true, Transposed::No).done()?;
    let inner = solve_with(&l, &inner, false, true, Transposed::Adjoint).done()?;
    let dl = ops::matmul(&l, half_lower(&inner)).done()?;
    Ok(vec![Some(if p.upper { adjoint(&dl).done()? } else { dl })])
}

/// For a tall or square operand: dR = (Φᵤ) R and dQ = dA R⁻¹ - Q (…).
pub fn qr(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Qr(p), Some(da)) = (op, &dx[0]) else {
        return Ok(vec![None; 2]);
    };
    let rank = x[0].rank();
    let (m, n) = (x[0].shape().dims()[rank - 2], x[0].shape().dims()[rank - 1]);
    let tall = (m - n).value().is_some_and(|gap| gap >= 0);
    if !tall || (p.complete && m != n) {
        bail!(
            Diff,
            "qr: the derivative needs mode reduced and at least as many rows as columns, got {}",
            x[0].spec()
        );
    }
    let (q, r) = (y[0], y[1]);
    let da_rinv = solve_with(r, da, false, false, Transposed::No).done()?;
    let qt_da = ops::matmul(adjoint(q), &da_rinv).done()?;
    let low = ops::tril(&qt_da, -1).done()?;
    let mut omega = (&low - adjoint(&low)).done()?;
    if da.dtype().is_complex() {
        // The diagonal of R stays real.
        let diagonal = &qt_da * eye_like(&qt_da);
        omega = (&omega + (diagonal.clone() - diagonal.real().cast(da.dtype()))).done()?;
    }
    let dq = (ops::matmul(q, &omega - &qt_da) + &da_rinv).done()?;
    let dr = ops::matmul(&qt_da - &omega, r).done()?;
    Ok(vec![Some(dq), Some(dr)])
}

/// 1 / (wⱼ - wᵢ) off the diagonal; 0 on it and between equal values.
fn gaps(w: &Tensor) -> Result<Tensor> {
    let gap = (ops::expand_dims(w, -2) - ops::expand_dims(w, -1)).done()?;
    let same = ops::equal(&gap, 0).done()?;
    let safe = ops::where_(&same, 1, &gap).cast(gap.dtype());
    ops::where_(&same, 0, safe.reciprocal())
        .cast(gap.dtype())
        .done()
}

/// dw = diag(Vᴴ dA V), dV = V (F ∘ Vᴴ dA V).
pub fn eigh(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Eigh(p), Some(da)) = (op, &dx[0]) else {
        return Ok(vec![None; 2]);
    };
    let (w, v) = if p.vectors {
        (y[0].clone(), y[1].clone())
    } else {
        // The second derivative needs the derivative of the eigenvectors, so they are recomputed here instead of read
        // as constants.
        ops::eigh(x[0])?
    };
    let low = ops::tril(da, -1).done()?;
    let diagonal = (da * eye_like(da)).real().cast(da.dtype());
    let da = (&low + adjoint(&low) + diagonal).done()?;
    let inner = ops::matmul(ops::matmul(adjoint(&v), &da), &v).done()?;
    let dw = ops::diagonal(&inner, 0).real().cast(w.dtype()).done()?;
    if !p.vectors {
        return Ok(vec![Some(dw)]);
    }
    let dv = ops::matmul(&v, gaps(&w)?.cast(v.dtype()) * &inner).done()?;
    Ok(vec![Some(dw), Some(dv)])
}

/// dw = diag(V⁻¹ dA V). With C = F ∘ V⁻¹ dA V, dV = V C, minus the part that would change the normalisation: each
/// vector keeps norm 1, and the phase of its largest component is kept as far as the norm determines it.
pub fn eig(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Eig(p), Some(da)) = (op, &dx[0]) else {
        return Ok(vec![None; 2]);
    };
    let (w, v) = if p.vectors {
        (y[0].clone(), y[1].clone())
    } else {
        ops::eig(x[0])?
    };
    let inner = ops::solve(&v, ops::matmul(da.cast(v.dtype()), &v)).done()?;
    let dw = ops::diagonal(&inner, 0).done()?;
    if !p.vectors {
        return Ok(vec![Some(dw)]);
    }
    let free = ops::matmul(&v, gaps(&w)? * &inner).done()?;
    let along = ops::keepdims((ops::conj(&v) * &free).real(), -2, ops::sum);
    let dv = (&free - &v * along.cast(v.dtype())).done()?;
    Ok(vec![Some(dw), Some(dv)])
}

/// A = U S Vᴴ: dS is the diagonal of Uᴴ dA V; dU and dV come from the off-diagonal elements.
pub fn svd(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::Svd(p), Some(da)) = (op, &dx[0]) else {
        return Ok(vec![None; 3]);
    };
    let rank = x[0].rank();
    let (m, n) = (x[0].shape().dims()[rank - 2], x[0].shape().dims()[rank - 1]);
    if p.vectors && p.complete && m != n {
        bail!(
            Diff,
            "svd: the complete vectors of {} are not unique and have no derivative; use complete = false",
            x[0].spec()
        );
    }
    let (u, s, vh) = if p.vectors {
        (y[0].clone(), y[1].clone(), y[2].clone())
    } else {
        ops::svd(x[0], false)?
    };
    let v = adjoint(&vh).done()?;
    let d = ops::matmul(ops::matmul(adjoint(&u), da), &v).done()?;
    let ds = ops::diagonal(&d, 0).real().cast(s.dtype()).done()?;
    if !p.vectors {
        return Ok(vec![Some(ds)]);
    }
    let dtype = u.dtype();
    // F[i, j] = 1 / (sⱼ² - sᵢ²).
    let f = gaps(&s.square().done()?)?.cast(dtype).done()?;
    let row = ops::expand_dims(&s, -2).cast(dtype).done()?;
    let column = ops::expand_dims(&s, -1).cast(dtype).done()?;
    let dh = adjoint(&d).done()?;
    let mut du_inner = (&f * (&d * &row + &column * &dh)).done()?;
    let dv_inner = (&f * (&column * &d + &dh * &row)).done()?;
    if dtype.is_complex() {
        // The imaginary part of the diagonal rotates the phases of the left singular vectors.
        let diagonal = ((&d - &dh) * 0.5 * eye_like(&d)).done()?;
        let zero = ops::equal(&row, 0).done()?;
        let safe = ops::where_(&zero, 1, &row).cast(dtype);
        du_inner = (&du_inner + diagonal / safe).done()?;
    }
    let safe_row = {
        let zero = ops::equal(&row, 0).done()?;
        ops::where_(&zero, 1, &row).cast(dtype).done()?
    };
    let mut du = ops::matmul(&u, &du_inner).done()?;
    let mut dv = ops::matmul(&v, &dv_inner).done()?;
    // The component outside the span of the singular vectors.
    if m != n {
        if (m - n).value().is_some_and(|gap| gap > 0) {
            let outside = ops::matmul(da, &v) - ops::matmul(&u, &d);
            du = (&du + outside / &safe_row).done()?;
        } else {
            let outside = ops::matmul(adjoint(da), &u) - ops::matmul(&v, &dh);
            dv = (&dv + outside / &safe_row).done()?;
        }
    }
    Ok(vec![Some(du), Some(ds), Some(adjoint(&dv).done()?)])
}

/// P A = L U: with M = L⁻¹ P dA U⁻¹, dL = L tril(M, -1) and dU = triu(M) U. For square matrices.
pub fn lu(
    _: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Some(da) = &dx[0] else {
        return Ok(vec![None; 3]);
    };
    let rank = x[0].rank();
    if x[0].shape().dims()[rank - 1] != x[0].shape().dims()[rank - 2] {
        bail!(
            Diff,
            "lu: the derivative needs a square matrix, got {}",
            x[0].spec()
        );
    }
    let (packed, order) = (y[0], y[2]);
    let order = ops::expand_dims(order.cast(crate::dtype::DType::I64), -1);
    let rows = ops::take_along_known(da, ops::broadcast_to(order, da.shape()), -2);
    let unit = TriangularSolve {
        left: true,
        lower: true,
        transpose: Transposed::No,
        unit_diagonal: true,
    };
    let inner = ops::triangular_solve(packed, rows, unit).done()?;
    let inner = solve_with(packed, &inner, false, false, Transposed::No).done()?;
    let lower = (ops::tril(packed, -1) + eye_like(packed)).done()?;
    let dl = ops::matmul(&lower, ops::tril(&inner, -1));
    let du = ops::matmul(ops::triu(&inner, 0), ops::triu(packed, 0));
    Ok(vec![Some((dl + du).done()?), None, None])
}

/// The part of a matrix that a triangular solve reads.
fn read_part(p: &TriangularSolve, a: &Tensor) -> Expr {
    let k = i64::from(p.unit_diagonal);
    if p.lower {
        ops::tril(a, -k)
    } else {
        ops::triu(a, k)
    }
}

fn taken(p: &TriangularSolve, a: &Tensor) -> Expr {
    match p.transpose {
        Transposed::No => ops::positive(a),
        Transposed::Yes => ops::matrix_transpose(a),
        Transposed::Adjoint => adjoint(a),
    }
}

/// dX = A⁻¹ (dB - dA X), or dX = (dB - X dA) A⁻¹ for a solve from the right.
pub fn triangular_solve_jvp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    dx: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let Op::TriangularSolve(p) = op else {
        bail!(Internal, "{}: not a solve", op.name())
    };
    let mut rhs = match &dx[1] {
        Some(db) => db.clone(),
        None => ops::zeros_like(x[1]).done()?,
    };
    if let Some(da) = &dx[0] {
        let da = read_part(p, da).then(|a| taken(p, &a));
        let product = if p.left {
            ops::matmul(da, y[0])
        } else {
            ops::matmul(y[0], da)
        };
        rhs = (&rhs - product).done()?;
    }
    Ok(vec![Some(
        ops::triangular_solve(x[0], &rhs, (**p).clone()).done()?,
    )])
}

/// ct_B = A⁻ᵀ ct, ct_A = -ct_B Xᵀ, masked to the triangle that the solve reads (no conjugation in this convention).
pub fn triangular_solve_vjp(
    op: &Op,
    x: &[&Tensor],
    y: &[&Tensor],
    ct: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let (Op::TriangularSolve(p), Some(ct)) = (op, &ct[0]) else {
        return Ok(vec![None; 2]);
    };
    // The transpose of A⁻¹ is (Aᵀ)⁻¹; the transpose of A⁻ᴴ is the inverse of the conjugate.
    let (a, transpose) = match p.transpose {
        Transposed::No => (x[0].clone(), Transposed::Yes),
        Transposed::Yes => (x[0].clone(), Transposed::No),
        Transposed::Adjoint => (ops::conj(x[0]).done()?, Transposed::No),
    };
    let back = TriangularSolve {
        transpose,
        ..(**p).clone()
    };
    let ct_b = ops::triangular_solve(&a, ct, back).done()?;
    let mut ct_a = None;
    if wanted[0] {
        let product = if p.left {
            ops::matmul(&ct_b, ops::matrix_transpose(y[0]))
        } else {
            ops::matmul(ops::matrix_transpose(y[0]), &ct_b)
        };
        let product = (-product).done()?;
        let own = match p.transpose {
            Transposed::No => product,
            Transposed::Yes => ops::matrix_transpose(&product).done()?,
            Transposed::Adjoint => adjoint(&product).done()?,
        };
        ct_a = Some(read_part(p, &own).done()?);
    }
    Ok(vec![ct_a, Some(ct_b)])
}

/// The DFT matrix is symmetric, so the transform is its own transpose; a halved axis (rfft, irfft) is padded or
/// weighted.
pub fn fft(op: &Op, _: usize, x: &[&Tensor], ct: &Tensor) -> Expr {
    let Op::Fft(p) = op else {
        return impossible(op);
    };
    let axes: Vec<i64> = p.axes.iter().map(|&a| a as i64).collect();
    let (last, others) = (axes[axes.len() - 1], &axes[..axes.len() - 1]);
    match p.kind {
        FftKind::Forward => ops::fft(ct, &axes),
        FftKind::Inverse => ops::ifft(ct, &axes),
        FftKind::Real => {
            let inner = if others.is_empty() {
                ops::positive(ct)
            } else {
                ops::fft(ct, others)
            };
            inner.then(|c| {
                let gap = p.length - c.shape().dims()[last as usize];
                let zero = vec![Dim::number(0); c.rank()];
                let mut high = zero.clone();
                high[last as usize] = gap;
                let full = ops::pad(&c, 0, &zero, &high, &vec![0; c.rank()]);
                ops::real(ops::fft(full, &[last]))
            })
        }
        FftKind::RealInverse => {
            let half = ops::conj(ops::rfft(ct, &[last]));
            let scaled = half.then(|h| {
                let n = match p.length.value() {
                    Some(n) => n,
                    None => bail!(Trace, "irfft: length {} is not known yet", p.length),
                };
                let size = h.shape().dims()[last as usize];
                let row = Shape::from_dims([size]);
                let k = ops::create::iota_like(&h, &row, 0, crate::dtype::DType::I64).done()?;
                // Every frequency but the first, and the middle one of an even length, occurs twice in the full
                // spectrum.
                let edge = ops::logical_or(ops::equal(&k, 0), ops::equal(&k * 2, n));
                // Divide after the cast: two weak numbers would be computed in f32, which would round 1/n.
                let weight = (ops::where_(edge, 1, 2).cast(h.dtype()) / n).done()?;
                (&h * ops::broadcast_in(&weight, h.shape(), &[last as usize])).done()
            });
            let back = if others.is_empty() {
                scaled
            } else {
                scaled.then(|s| ops::ifft(&s, others))
            };
            back.then(|b| b.reshape(x[0].shape()))
        }
    }
}
