//! Matrix inverse and determinant by LU factorisation.

use crate::ensure;
use crate::error::Result;
use crate::ops;
use crate::tensor::Tensor;

fn square(op: &str, x: &Tensor) -> Result<()> {
    let rank = x.rank();
    ensure!(
        rank >= 2 && x.shape().dims()[rank - 1] == x.shape().dims()[rank - 2],
        Shape,
        "{op}: expected square matrices, got {}",
        x.spec()
    );
    Ok(())
}

/// The inverse: x with a x = 1.
pub fn inv(a: &Tensor) -> Result<Tensor> {
    square("inv", a)?;
    ops::solve(a, ops::linalg::eye_like(a)).done()
}

/// The product of the diagonal of U, with the sign of the row permutation.
pub fn det(a: &Tensor) -> Result<Tensor> {
    square("det", a)?;
    let (packed, pivots, _) = ops::lu(a)?;
    let sign = ops::linalg::exchange_sign(&pivots, a.dtype())?;
    (ops::prod(ops::diagonal(&packed, 0), -1) * sign).done()
}
