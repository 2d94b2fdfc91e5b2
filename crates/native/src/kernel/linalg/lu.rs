//! `P·A = L·U` with partial pivoting.
//!
//! Recursive over columns, with faer's matmuls and solves for the blocks. The panels are our own: a column without a
//! usable pivot must stay unchanged.

use super::{LinalgError, Scalar, check, load, over_batch, pieces, pieces_mut, store};
use faer::linalg::matmul::matmul;
use faer::linalg::triangular_solve::solve_unit_lower_triangular_in_place;
use faer::{Accum, MatMut, Par};

const OP: &str = "lu";

/// Columns below which recursion no longer pays.
const PANEL: usize = 16;

/// The factors in one `m × n` matrix (`L` below the diagonal, without its unit diagonal), the row that each of the
/// `min(m, n)` steps swapped with its own, and the permutation of rows with `A[permutation] = L·U`.
///
/// A singular matrix is not an error: it has zeros on the diagonal of `U`.
pub fn lu<T: Scalar>(
    a: &[T],
    batch: usize,
    (m, n): (usize, usize),
    factors: &mut [T],
    pivots: &mut [i32],
    permutation: &mut [i32],
) -> Result<(), LinalgError> {
    let k = m.min(n);
    check(OP, "the matrix", a.len(), &[batch, m, n])?;
    check(OP, "the factors", factors.len(), &[batch, m, n])?;
    check(OP, "the pivots", pivots.len(), &[batch, k])?;
    check(OP, "the permutation", permutation.len(), &[batch, m])?;
    let rows = pieces_mut(pivots, batch, k).zip(pieces_mut(permutation, batch, m));
    let outputs = pieces_mut(factors, batch, m * n).zip(rows);
    let items = pieces(a, batch, m * n).zip(outputs).collect();
    type Item<'a, T> = (&'a [T], (&'a mut [T], (&'a mut [i32], &'a mut [i32])));
    over_batch(
        items,
        (m, n),
        |_, (a, (factors, (pivots, permutation))): Item<'_, T>, par| {
            let mut work = load(a, m, n);
            let mut steps = vec![0; k];
            factor(work.as_mut(), &mut steps, par);
            store(work.as_ref(), factors, n);
            for (i, row) in permutation.iter_mut().enumerate() {
                *row = i as i32;
            }
            for (i, (pivot, &step)) in pivots.iter_mut().zip(&steps).enumerate() {
                *pivot = step as i32;
                permutation.swap(i, step);
            }
            Ok(())
        },
    )
}

/// Factors `a` in place; `pivots[i]` is the row swapped with row `i`.
fn factor<T: Scalar>(a: MatMut<'_, T>, pivots: &mut [usize], par: Par) {
    let k = pivots.len();
    if k <= PANEL {
        return panel(a, pivots);
    }
    let half = k / 2;
    let (mut left, mut right) = a.split_at_col_mut(half);
    let (first, second) = pivots.split_at_mut(half);
    factor(left.as_mut(), first, par);
    swap_rows(right.as_mut(), first);
    let (top, bottom) = left.as_ref().split_at_row(half);
    let (mut right_top, mut right_bottom) = right.split_at_row_mut(half);
    solve_unit_lower_triangular_in_place(top, right_top.as_mut(), par);
    matmul(
        right_bottom.as_mut(),
        Accum::Add,
        bottom,
        right_top.as_ref(),
        -T::one(),
        par,
    );
    factor(right_bottom, second, par);
    swap_rows(left.split_at_row_mut(half).1, second);
    for pivot in second {
        *pivot += half;
    }
}

fn swap_rows<T: Scalar>(mut a: MatMut<'_, T>, pivots: &[usize]) {
    for j in 0..a.ncols() {
        for (i, &pivot) in pivots.iter().enumerate() {
            if i != pivot {
                let x = a[(i, j)];
                a[(i, j)] = a[(pivot, j)];
                a[(pivot, j)] = x;
            }
        }
    }
}

/// The same without recursion, one rank-one update per column.
fn panel<T: Scalar>(mut a: MatMut<'_, T>, pivots: &mut [usize]) {
    let (m, n) = a.shape();
    for j in 0..pivots.len() {
        let mut pivot = j;
        for i in j + 1..m {
            if a[(i, j)].pivot_size() > a[(pivot, j)].pivot_size() {
                pivot = i;
            }
        }
        pivots[j] = pivot;
        if pivot != j {
            for column in 0..n {
                let x = a[(j, column)];
                a[(j, column)] = a[(pivot, column)];
                a[(pivot, column)] = x;
            }
        }
        let head = a[(j, j)];
        if head.is_zero() {
            continue;
        }
        for i in j + 1..m {
            a[(i, j)] = a[(i, j)].over(head);
        }
        let (left, mut right) = a.as_mut().split_at_col_mut(j + 1);
        let below = left.as_ref().col(j).subrows(j + 1, m - j - 1);
        for column in 0..right.ncols() {
            let factor = right[(j, column)];
            let target = right.as_mut().col_mut(column).subrows_mut(j + 1, m - j - 1);
            for (x, &l) in target.iter_mut().zip(below.iter()) {
                *x -= l * factor;
            }
        }
    }
}
