//! Cases of factorisations and solvers.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, C, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use crate::reference::linalg as identity;
use clematis_core::op::{Cholesky, Eig, Eigh, Qr, Svd, Transposed, TriangularSolve};
use clematis_core::ops;
use clematis_core::{Composite, DType, Kind, Op, Result, Tensor};

/// Factorisations of small matrices lose a few digits; eigenvectors lose more for close eigenvalues.
const UNITS: f64 = 200.0;

const SQUARE: &[&[usize]] = &[
    &[3, 3],
    &[2, 4, 4],
    &[1, 1],
    &[0, 0],
    &[0, 3, 3],
    &[2, 1, 2, 2],
];

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_inexact()) {
        cholesky(all, dtype)?;
        qr(all, dtype)?;
        svd(all, dtype)?;
        eigen(all, dtype)?;
        lu(all, dtype)?;
        triangular_solve(all, dtype)?;
        solve(all, dtype)?;
    }
    Ok(())
}

/// Adds `by` to the diagonals, to keep matrices regular and eigenvalues separate.
fn raised(x: &Array, by: impl Fn(usize) -> f64) -> Result<Array> {
    let rank = x.rank();
    Array::from_fn(x.dtype, &x.shape, |at| {
        let v = x.at(at).c();
        Num::Inexact(if at[rank - 1] == at[rank - 2] {
            v + by(at[rank - 1])
        } else {
            v
        })
    })
    .rounded()
}

fn factored(case: Case) -> Case {
    case.within(Tolerance::overall(UNITS)).deriving(|d| {
        d.tolerance = 1e-6;
        d.duality = 4096.0;
    })
}

fn cholesky(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in SQUARE {
        for upper in [false, true] {
            let name = format!("cholesky {dtype}{} {upper}", shown(shape));
            let x = raised(&Draw::new(&name).small(dtype, shape)?, |_| 4.0)?;
            let p = Cholesky { upper };
            let own = p.clone();
            let case = Case::holding(name, p, dtype, vec![x], move |x, y| {
                Ok(identity::cholesky(x, y, &own))
            });
            push(all, factored(case));
        }
    }
    Ok(())
}

fn qr(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in [
        &[3, 3][..],
        &[4, 2],
        &[2, 4],
        &[2, 3, 2],
        &[1, 1],
        &[0, 2],
        &[3, 0],
        &[0, 3, 3],
    ] {
        for complete in [false, true] {
            let name = format!("qr {dtype}{} {complete}", shown(shape));
            let x = Draw::new(&name).small(dtype, shape)?;
            let case = Case::holding(name, Qr { complete }, dtype, vec![x], |x, y| {
                Ok(identity::qr(x, y))
            });
            let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
            push(
                all,
                factored(case).deriving(|d| {
                    if m < n || complete && m != n {
                        d.none = Some(Kind::Diff);
                    } else if dtype.is_complex() {
                        // qₖ rₖ is invariant to the phase of both.
                        d.invariant = Some(|y| {
                            let columns = ops::matrix_transpose(&y[0]);
                            let outer = ops::expand_dims(columns, -1) * ops::expand_dims(&y[1], -2);
                            Ok(vec![outer.done()?])
                        });
                    }
                }),
            );
        }
    }
    Ok(())
}

/// vₖ vₖᴴ for each column: invariant to sign and phase.
fn projectors(v: &Tensor) -> Result<Tensor> {
    let columns = ops::matrix_transpose(v).done()?;
    (ops::expand_dims(&columns, -1) * ops::conj(ops::expand_dims(&columns, -2))).done()
}

fn svd(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in [
        &[3, 3][..],
        &[4, 2],
        &[2, 4],
        &[2, 3, 2],
        &[1, 1],
        &[0, 2],
        &[2, 0],
        &[0, 3, 3],
    ] {
        for (complete, vectors) in [(false, true), (true, true), (false, false)] {
            let name = format!("svd {dtype}{} {complete} {vectors}", shown(shape));
            let x = raised(&Draw::new(&name).small(dtype, shape)?, |i| 1.0 + i as f64)?;
            let p = Svd { complete, vectors };
            let case = Case::holding(name, p, dtype, vec![x], |x, y| Ok(identity::svd(x, y)));
            let (m, n) = (shape[shape.len() - 2], shape[shape.len() - 1]);
            push(
                all,
                factored(case).deriving(|d| {
                    if vectors {
                        // uₖ vₖᴴ is invariant to the phase of both.
                        d.invariant = Some(|y| {
                            let columns = ops::matrix_transpose(&y[0]);
                            let outer = ops::expand_dims(columns, -1) * ops::expand_dims(&y[2], -2);
                            Ok(vec![y[1].clone(), outer.done()?])
                        });
                    }
                    if vectors && complete && m != n {
                        d.none = Some(Kind::Diff);
                        d.invariant = None;
                    }
                }),
            );
        }
    }
    Ok(())
}

/// Eigenvalues and projectors; the eigenvalues of a Hermitian matrix are ordered.
fn rising(y: &[Tensor]) -> Result<Vec<Tensor>> {
    match y {
        [w, v] => Ok(vec![w.clone(), projectors(v)?]),
        _ => Ok(y.to_vec()),
    }
}

/// Sums over all eigenvalues and vectors of a square matrix, which are unordered: Σ w, Σ w³, Σ w² v vᴴ.
fn unordered(y: &[Tensor]) -> Result<Vec<Tensor>> {
    let w = &y[0];
    let mut sums = vec![ops::sum(w, -1).done()?, ops::sum(w * w * w, -1).done()?];
    if let [w, v] = y {
        let weight = ops::expand_dims(ops::expand_dims(w * w, -1), -1);
        sums.push(ops::sum(weight * projectors(v)?, -3).done()?);
    }
    Ok(sums)
}

fn eigen(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in SQUARE {
        for vectors in [true, false] {
            let name = format!("eigh {dtype}{} {vectors}", shown(shape));
            let x = raised(&Draw::new(&name).small(dtype, shape)?, |i| 2.0 * i as f64)?;
            let case = Case::holding(name, Eigh { vectors }, dtype, vec![x], |x, y| {
                Ok(identity::eigh(x, y))
            });
            push(all, factored(case).deriving(|d| d.invariant = Some(rising)));
            let name = format!("eig {dtype}{} {vectors}", shown(shape));
            let x = raised(&Draw::new(&name).small(dtype, shape)?, |i| 3.0 * i as f64)?;
            let case = Case::holding(name, Eig { vectors }, dtype, vec![x], |x, y| {
                Ok(identity::eig(x, y))
            });
            push(
                all,
                factored(case).deriving(|d| d.invariant = Some(unordered)),
            );
        }
    }
    // Eigenvalues off the real axis.
    if !dtype.is_complex() {
        let rotation = [0.5, -2.0, 0.1, 2.0, 0.25, -0.3, 0.0, 0.2, 3.0];
        let x = Array::real(dtype, &[3, 3], &rotation);
        let name = format!("eig {dtype} of a rotation");
        let op = Eig { vectors: true };
        let case = Case::holding(name, op, dtype, vec![x], |x, y| Ok(identity::eig(x, y)));
        push(
            all,
            factored(case).deriving(|d| d.invariant = Some(unordered)),
        );
    }
    Ok(())
}

fn lu(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in [
        &[3, 3][..],
        &[2, 4, 4],
        &[4, 2],
        &[2, 3],
        &[1, 1],
        &[0, 0],
        &[0, 3, 3],
    ] {
        let name = format!("lu {dtype}{}", shown(shape));
        let x = Draw::new(&name).small(dtype, shape)?;
        let case = Case::holding(name, Op::Lu, dtype, vec![x], |x, y| Ok(identity::lu(x, y)));
        let square = shape[shape.len() - 2] == shape[shape.len() - 1];
        push(
            all,
            factored(case).deriving(|d| {
                if !square {
                    d.none = Some(Kind::Diff);
                }
            }),
        );
    }
    Ok(())
}

fn triangular_solve(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    let both = [false, true];
    for (a, b) in [
        (&[3, 3][..], &[3, 2][..]),
        (&[2, 2, 2], &[2, 2, 2]),
        (&[1, 1], &[1, 1]),
        (&[0, 0], &[0, 2]),
        (&[2, 2], &[2, 0]),
        (&[0, 2, 2], &[0, 2, 1]),
    ] {
        for left in both {
            for lower in both {
                for &transpose in Transposed::ALL {
                    for unit_diagonal in both {
                        let p = TriangularSolve {
                            left,
                            lower,
                            transpose,
                            unit_diagonal,
                        };
                        let name = format!(
                            "triangular_solve {dtype}{}{} {left} {lower} {} {unit_diagonal}",
                            shown(a),
                            shown(b),
                            transpose.name()
                        );
                        let mut draw = Draw::new(&name);
                        let mut wide = b.to_vec();
                        if !left {
                            let rank = wide.len();
                            wide.swap(rank - 1, rank - 2);
                        }
                        let inputs = vec![
                            raised(&draw.small(dtype, a)?, |_| 2.0)?,
                            draw.small(dtype, &wide)?,
                        ];
                        let own = p.clone();
                        let case = Case::holding(name, p, dtype, inputs, move |x, y| {
                            Ok(identity::triangular_solve(x, y, &own))
                        });
                        push(all, factored(case));
                    }
                }
            }
        }
    }
    Ok(())
}

fn solve(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (a, b) in [
        (&[3, 3][..], &[3, 2][..]),
        (&[3, 3], &[3]),
        (&[2, 2, 2], &[2, 2, 3]),
        (&[1, 1], &[1, 1]),
        (&[0, 0], &[0, 2]),
        (&[0, 2, 2], &[0, 2, 1]),
    ] {
        let name = format!("solve {dtype}{}{}", shown(a), shown(b));
        let mut draw = Draw::new(&name);
        let inputs = vec![
            raised(&draw.small(dtype, a)?, |_| 2.5)?,
            draw.small(dtype, b)?,
        ];
        let case = Case::holding(name, Composite::Solve {}, dtype, inputs, |x, y| {
            Ok(identity::solve(x, y))
        });
        push(all, factored(case));
    }
    for shape in SQUARE {
        let name = format!("inv {dtype}{}", shown(shape));
        let x = raised(&Draw::new(&name).small(dtype, shape)?, |_| 2.5)?;
        let case = Case::holding(name, Composite::Inv {}, dtype, vec![x], |x, y| {
            Ok(identity::inv(x, y))
        });
        push(all, factored(case));
        let name = format!("det {dtype}{}", shown(shape));
        let x = Draw::new(&name).small(dtype, shape)?;
        let case = Case::new(name, Composite::Det {}, dtype, vec![x], |x| {
            Ok(vec![identity::det(&x[0])])
        });
        push(all, factored(case));
    }
    // A permutation has a sign and zeros on its diagonal.
    let swap = Array::from_fn(dtype, &[3, 3], |at| {
        Num::Inexact(C::new(f64::from(u8::from((at[0] + 1) % 3 == at[1])), 0.0))
    });
    let name = format!("det {dtype} of a permutation");
    let case = Case::new(name, Composite::Det {}, dtype, vec![swap], |x| {
        Ok(vec![identity::det(&x[0])])
    });
    push(all, factored(case));
    Ok(())
}
