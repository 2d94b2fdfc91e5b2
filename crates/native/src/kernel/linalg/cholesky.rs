//! `A = L·Lᴴ` for a positive definite matrix.

use super::{LinalgError, Scalar, check, over_batch, pieces, pieces_mut, workspace};
use faer::Mat;
use faer::dyn_stack::MemStack;
use faer::linalg::cholesky::llt::factor::{
    LltError, LltRegularization, cholesky_in_place, cholesky_in_place_scratch,
};

const OP: &str = "cholesky";

/// Lower `L` with `A = L·Lᴴ`, or, with `upper`, `U = Lᴴ`. Only the triangle of
/// `a` on the same side is read; the other one of `factor` is zero.
pub fn cholesky<T: Scalar>(
    a: &[T],
    batch: usize,
    n: usize,
    upper: bool,
    factor: &mut [T],
) -> Result<(), LinalgError> {
    check(OP, "the matrix", a.len(), &[batch, n, n])?;
    check(OP, "the factor", factor.len(), &[batch, n, n])?;
    if n == 0 {
        return Ok(());
    }
    let items = pieces(a, batch, n * n)
        .zip(pieces_mut(factor, batch, n * n))
        .collect();
    over_batch(
        items,
        (n, n),
        |batch, (a, factor): (&[T], &mut [T]), par| {
            let mut l = Mat::from_fn(n, n, |i, j| match (i >= j, upper) {
                (false, _) => T::zero(),
                // The diagonal of a Hermitian matrix is real; imaginary parts there are not read.
                (true, _) if i == j => T::one().scaled(a[i * n + i].real_part()),
                (true, false) => a[i * n + j],
                (true, true) => a[j * n + i].conjugate(),
            });
            let need = cholesky_in_place_scratch::<T>(n, par, Default::default());
            let result = cholesky_in_place(
                l.as_mut(),
                LltRegularization::default(),
                par,
                MemStack::new(&mut workspace(OP, need)?),
                Default::default(),
            );
            if let Err(LltError::NonPositivePivot { index }) = result {
                return Err(LinalgError::NotPositiveDefinite {
                    batch,
                    pivot: index,
                });
            }
            for (i, row) in factor.chunks_exact_mut(n).enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    *x = match (i >= j, i <= j, upper) {
                        // Real except for rounding.
                        (true, true, _) => T::one().scaled(l[(i, i)].real_part()),
                        (true, _, false) => l[(i, j)],
                        (_, true, true) => l[(j, i)].conjugate(),
                        _ => T::zero(),
                    };
                }
            }
            Ok(())
        },
    )
}
