//! Identities of factorisations: the product of the factors is the operand, and the factors have the promised form.

use super::matrix::{Matrix, matrices, vectors, worst};
use crate::array::{Array, C};
use clematis_core::op::{Cholesky, Transposed, TriangularSolve};

/// The error of orthonormality of the columns.
fn orthonormal(q: &Matrix) -> f64 {
    q.adjoint().times(q).distance(&Matrix::identity(q.columns))
}

fn ordered(values: &[C], rising: bool) -> f64 {
    let fine = values.windows(2).all(|w| {
        if rising {
            w[0].re <= w[1].re
        } else {
            w[0].re >= w[1].re
        }
    });
    if fine { 0.0 } else { f64::INFINITY }
}

pub fn cholesky(x: &[Array], y: &[Array], p: &Cholesky) -> f64 {
    let pairs = matrices(&x[0]).into_iter().zip(matrices(&y[0]));
    worst(
        &x[0],
        pairs.flat_map(|(a, l)| {
            let l = if p.upper { l.adjoint() } else { l };
            let positive = (0..l.rows).all(|i| l.at(i, i).re > 0.0 && l.at(i, i).im == 0.0);
            [
                l.times(&l.adjoint()).distance(&a.hermitian()),
                l.lower(0).distance(&l),
                if positive { 0.0 } else { f64::INFINITY },
            ]
        }),
    )
}

pub fn qr(x: &[Array], y: &[Array]) -> f64 {
    let factors = matrices(&y[0]).into_iter().zip(matrices(&y[1]));
    worst(
        &x[0],
        matrices(&x[0])
            .into_iter()
            .zip(factors)
            .flat_map(|(a, (q, r))| {
                let upper = r.transposed().lower(0).transposed();
                [
                    q.times(&r).distance(&a),
                    orthonormal(&q),
                    upper.distance(&r),
                ]
            }),
    )
}

/// Σ sᵢ², Σ sᵢ⁴ and Σ sᵢ⁶ are traces of powers of AᴴA.
fn moments(a: &Matrix, s: &[C]) -> [f64; 3] {
    let square = a.adjoint().times(a);
    let fourth = square.times(&square);
    let sixth = fourth.times(&square);
    [(2, square), (4, fourth), (6, sixth)].map(|(power, m)| {
        let sum: f64 = s.iter().map(|v| v.re.powi(power)).sum();
        (sum - m.trace().re).abs() / m.trace().re.max(1.0)
    })
}

pub fn svd(x: &[Array], y: &[Array]) -> f64 {
    if y.len() == 1 {
        let pairs = matrices(&x[0]).into_iter().zip(vectors(&y[0]));
        return worst(
            &x[0],
            pairs.flat_map(|(a, s)| {
                let mut errors = moments(&a, &s).to_vec();
                errors.push(ordered(&s, false));
                errors
            }),
        );
    }
    let (u, s, vh) = (matrices(&y[0]), vectors(&y[1]), matrices(&y[2]));
    worst(
        &x[0],
        matrices(&x[0]).iter().enumerate().flat_map(|(i, a)| {
            let middle = Matrix::diagonal(&s[i], u[i].columns, vh[i].rows);
            [
                u[i].times(&middle).times(&vh[i]).distance(a),
                orthonormal(&u[i]),
                orthonormal(&vh[i].adjoint()),
                ordered(&s[i], false),
                if s[i].iter().all(|v| v.re >= 0.0) {
                    0.0
                } else {
                    f64::INFINITY
                },
            ]
        }),
    )
}

/// A V = V diag(w).
fn eigen(a: &Matrix, w: &[C], v: &Matrix) -> f64 {
    let right = v.times(&Matrix::diagonal(w, w.len(), w.len()));
    a.times(v).distance(&right)
}

/// Sums of powers of eigenvalues are traces of powers.
fn traces(a: &Matrix, w: &[C]) -> Vec<f64> {
    let mut power = a.clone();
    let mut errors = Vec::new();
    for k in 1..=4 {
        let sum: C = w.iter().map(|w| w.powi(k)).sum();
        errors.push((sum - power.trace()).norm() / power.norm().max(1.0));
        power = power.times(a);
    }
    errors
}

pub fn eigh(x: &[Array], y: &[Array]) -> f64 {
    let w = vectors(&y[0]);
    let v = y.get(1).map(matrices);
    worst(
        &x[0],
        matrices(&x[0]).iter().enumerate().flat_map(|(i, a)| {
            let a = a.hermitian();
            let mut errors = traces(&a, &w[i]);
            errors.push(ordered(&w[i], true));
            if let Some(v) = &v {
                errors.push(eigen(&a, &w[i], &v[i]));
                errors.push(orthonormal(&v[i]));
            }
            errors
        }),
    )
}

pub fn eig(x: &[Array], y: &[Array]) -> f64 {
    let w = vectors(&y[0]);
    let v = y.get(1).map(matrices);
    worst(
        &x[0],
        matrices(&x[0]).iter().enumerate().flat_map(|(i, a)| {
            let mut errors = traces(a, &w[i]);
            if let Some(v) = &v {
                errors.push(eigen(a, &w[i], &v[i]));
                for j in 0..a.columns {
                    let size: f64 = (0..a.rows).map(|k| v[i].at(k, j).norm_sqr()).sum();
                    errors.push((size - 1.0).abs());
                }
            }
            errors
        }),
    )
}

pub fn lu(x: &[Array], y: &[Array]) -> f64 {
    let packed = matrices(&y[0]);
    let (pivots, order) = (vectors(&y[1]), vectors(&y[2]));
    worst(
        &x[0],
        matrices(&x[0]).iter().enumerate().flat_map(|(b, a)| {
            let k = a.rows.min(a.columns);
            let lower = Matrix::from_fn(a.rows, k, |i, j| match i.cmp(&j) {
                std::cmp::Ordering::Greater => packed[b].at(i, j),
                std::cmp::Ordering::Equal => C::new(1.0, 0.0),
                std::cmp::Ordering::Less => C::new(0.0, 0.0),
            });
            let upper = Matrix::from_fn(k, a.columns, |i, j| {
                if i <= j {
                    packed[b].at(i, j)
                } else {
                    C::new(0.0, 0.0)
                }
            });
            let row = |i: usize| order[b][i].re as usize;
            let moved = Matrix::from_fn(a.rows, a.columns, |i, j| a.at(row(i), j));
            // Applying row exchanges sequentially gives the permutation.
            let mut exchanged: Vec<usize> = (0..a.rows).collect();
            for (i, pivot) in pivots[b].iter().enumerate() {
                exchanged.swap(i, pivot.re as usize);
            }
            let same = (0..a.rows).all(|i| exchanged[i] == row(i));
            // Complex pivots are chosen by |re| + |im|, so they are the largest in magnitude up to a factor of √2.
            let small = lower.values.iter().all(|v| v.norm() <= 1.4143);
            [
                lower.times(&upper).distance(&moved),
                if same && small { 0.0 } else { f64::INFINITY },
            ]
        }),
    )
}

/// The matrix that a triangular solve reads from its first operand.
fn taken(a: &Matrix, p: &TriangularSolve) -> Matrix {
    let half = if p.lower {
        a.lower(0)
    } else {
        a.transposed().lower(0).transposed()
    };
    let unit = Matrix::from_fn(a.rows, a.columns, |i, j| {
        if p.unit_diagonal && i == j {
            C::new(1.0, 0.0)
        } else {
            half.at(i, j)
        }
    });
    match p.transpose {
        Transposed::No => unit,
        Transposed::Yes => unit.transposed(),
        Transposed::Adjoint => unit.adjoint(),
    }
}

pub fn triangular_solve(x: &[Array], y: &[Array], p: &TriangularSolve) -> f64 {
    let (b, solved) = (matrices(&x[1]), matrices(&y[0]));
    worst(
        &x[0],
        matrices(&x[0]).iter().enumerate().map(|(i, a)| {
            let a = taken(a, p);
            let back = if p.left {
                a.times(&solved[i])
            } else {
                solved[i].times(&a)
            };
            back.distance(&b[i])
        }),
    )
}

/// A X = B for square A; whether B is a vector depends on the ranks.
pub fn solve(x: &[Array], y: &[Array]) -> f64 {
    let column = |v: &Array| -> Vec<Matrix> {
        if v.rank() + 1 == x[0].rank() {
            let mut wide = v.clone();
            wide.shape.push(1);
            matrices(&wide)
        } else {
            matrices(v)
        }
    };
    let (b, solved) = (column(&x[1]), column(&y[0]));
    worst(
        &x[0],
        matrices(&x[0])
            .iter()
            .enumerate()
            .map(|(i, a)| a.times(&solved[i]).distance(&b[i])),
    )
}

pub fn inv(x: &[Array], y: &[Array]) -> f64 {
    let inverse = matrices(&y[0]);
    worst(
        &x[0],
        matrices(&x[0])
            .iter()
            .enumerate()
            .map(|(i, a)| a.times(&inverse[i]).distance(&Matrix::identity(a.rows))),
    )
}

pub fn det(x: &Array) -> Array {
    let values = matrices(x)
        .iter()
        .map(|a| crate::array::Num::Inexact(a.determinant()))
        .collect();
    Array::new(x.dtype, &x.shape[..x.rank() - 2], values)
}
