//! Solving with a triangular matrix.

use super::{LinalgError, Scalar, check, over_batch, pieces, pieces_mut};
use faer::linalg::triangular_solve::{
    solve_lower_triangular_in_place_with_conj, solve_unit_lower_triangular_in_place_with_conj,
    solve_unit_upper_triangular_in_place_with_conj, solve_upper_triangular_in_place_with_conj,
};
use faer::{Conj, MatMut, MatRef};

const OP: &str = "triangular_solve";

/// The side of the unknown on which the matrix is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `op(A)·X = B`.
    Left,
    /// `X·op(A) = B`.
    Right,
}

/// Which triangle of the matrix is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Triangle {
    /// On and below the diagonal.
    Lower,
    /// On and above the diagonal.
    Upper,
}

/// The transform applied to the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// None.
    None,
    /// `Aᵀ`.
    Transpose,
    /// `Aᴴ`.
    Adjoint,
}

/// Solves for `x`, which has the shape of `b`: `n × columns` with the matrix on the left, `columns × n` with it on the
/// right. With `unit_diagonal` the diagonal of `a` is taken as ones and not read. A zero on the diagonal gives
/// infinities or NaN, not an error.
#[allow(clippy::too_many_arguments)]
pub fn triangular_solve<T: Scalar>(
    a: &[T],
    b: &[T],
    batch: usize,
    (n, columns): (usize, usize),
    side: Side,
    triangle: Triangle,
    transform: Transform,
    unit_diagonal: bool,
    x: &mut [T],
) -> Result<(), LinalgError> {
    check(OP, "the matrix", a.len(), &[batch, n, n])?;
    check(OP, "the right side", b.len(), &[batch, n, columns])?;
    check(OP, "the result", x.len(), &[batch, n, columns])?;
    x.copy_from_slice(b);
    if x.is_empty() {
        return Ok(());
    }
    // X·op(A) = B is op(A)ᵀ·Xᵀ = Bᵀ, so the right side only transposes once more; transposing swaps the triangles.
    let transposed = (transform != Transform::None) != (side == Side::Right);
    let lower = (triangle == Triangle::Lower) != transposed;
    let conj = if transform == Transform::Adjoint {
        Conj::Yes
    } else {
        Conj::No
    };
    let items = pieces(a, batch, n * n)
        .zip(pieces_mut(x, batch, n * columns))
        .collect();
    over_batch(
        items,
        (n, n.max(columns)),
        |_, (a, x): (&[T], &mut [T]), par| {
            let a = MatRef::from_row_major_slice(a, n, n);
            let a = if transposed { a.transpose() } else { a };
            let x = match side {
                Side::Left => MatMut::from_row_major_slice_mut(x, n, columns),
                Side::Right => MatMut::from_row_major_slice_mut(x, columns, n).transpose_mut(),
            };
            match (lower, unit_diagonal) {
                (true, false) => solve_lower_triangular_in_place_with_conj(a, conj, x, par),
                (true, true) => solve_unit_lower_triangular_in_place_with_conj(a, conj, x, par),
                (false, false) => solve_upper_triangular_in_place_with_conj(a, conj, x, par),
                (false, true) => solve_unit_upper_triangular_in_place_with_conj(a, conj, x, par),
            }
            Ok(())
        },
    )
}
