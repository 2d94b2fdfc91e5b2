//! `A = U·Σ·Vᴴ`.

use super::{
    LinalgError, Scalar, check, load, over_batch, pieces, pieces_mut, safe_scale, store,
    store_identity, workspace,
};
use faer::diag::Diag;
use faer::dyn_stack::MemStack;
use faer::linalg::svd::{ComputeSvdVectors, svd as faer_svd, svd_scratch};
use faer::{Mat, MatMut, Par};
use num_traits::Float;

const OP: &str = "svd";

/// Singular values in descending order, `min(m, n) = k` of them, and, if requested, `(U, Vᴴ)`: `m × k` and `k × n`, or
/// `m × m` and `n × n` if `full`.
pub fn svd<T: Scalar>(
    a: &[T],
    batch: usize,
    (m, n): (usize, usize),
    full: bool,
    values: &mut [T::Part],
    vectors: Option<(&mut [T], &mut [T])>,
) -> Result<(), LinalgError> {
    let k = m.min(n);
    let (left, right) = if full { (m, n) } else { (k, k) };
    check(OP, "the matrix", a.len(), &[batch, m, n])?;
    check(OP, "the values", values.len(), &[batch, k])?;
    let inputs = pieces(a, batch, m * n).zip(pieces_mut(values, batch, k));
    let Some((u, vh)) = vectors else {
        return over_batch(inputs.collect(), (m, n), |batch, (a, values), _| {
            one(batch, a, (m, n), values, None)
        });
    };
    check(OP, "U", u.len(), &[batch, m, left])?;
    check(OP, "Vᴴ", vh.len(), &[batch, right, n])?;
    let outputs = pieces_mut(u, batch, m * left).zip(pieces_mut(vh, batch, right * n));
    over_batch(
        inputs.zip(outputs).collect(),
        (m, n),
        |batch, ((a, values), vectors), _| {
            one(batch, a, (m, n), values, Some((vectors, left, right)))
        },
    )
}

type Vectors<'a, T> = ((&'a mut [T], &'a mut [T]), usize, usize);

fn one<T: Scalar>(
    batch: usize,
    a: &[T],
    (m, n): (usize, usize),
    values: &mut [T::Part],
    vectors: Option<Vectors<'_, T>>,
) -> Result<(), LinalgError> {
    let k = values.len();
    if k == 0 {
        if let Some(((u, vh), left, _)) = vectors {
            store_identity(u, left);
            store_identity(vh, n);
        }
        return Ok(());
    }
    let Some(scale) = safe_scale(a.iter().copied()) else {
        values.fill(T::undefined().real_part());
        if let Some(((u, vh), ..)) = vectors {
            u.fill(T::undefined());
            vh.fill(T::undefined());
        }
        return Ok(());
    };
    let mut matrix = load(a, m, n);
    let unit = <T::Part as num_traits::One>::one();
    if scale != unit {
        matrix = Mat::from_fn(m, n, |i, j| matrix[(i, j)].scaled(scale));
    }
    let mut diagonal = Diag::<T>::zeros(k);
    let (left, right) = match &vectors {
        None => (ComputeSvdVectors::No, ComputeSvdVectors::No),
        Some((_, left, right)) => {
            let width = |w: usize| {
                if w == k {
                    ComputeSvdVectors::Thin
                } else {
                    ComputeSvdVectors::Full
                }
            };
            (width(*left), width(*right))
        }
    };
    let mut memory = workspace(
        OP,
        svd_scratch::<T>(m, n, left, right, Par::Seq, Default::default()),
    )?;
    let stack = MemStack::new(&mut memory);
    let params = Default::default();
    let result = match vectors {
        None => faer_svd(
            matrix.as_ref(),
            diagonal.as_mut(),
            None,
            None,
            Par::Seq,
            stack,
            params,
        ),
        Some(((u, vh), left, right)) => {
            let mut columns = Mat::zeros(m, left);
            // faer adds to a full basis, and reused memory has arbitrary contents.
            vh.fill(T::zero());
            // Column-major V has the elements of row-major Vᵀ in its order.
            let v = MatMut::from_row_major_slice_mut(vh, right, n).transpose_mut();
            let result = faer_svd(
                matrix.as_ref(),
                diagonal.as_mut(),
                Some(columns.as_mut()),
                Some(v),
                Par::Seq,
                stack,
                params,
            );
            store(columns.as_ref(), u, left);
            if !T::IS_REAL {
                for x in vh {
                    *x = x.conjugate();
                }
            }
            result
        }
    };
    result.map_err(|_| LinalgError::NoConvergence { op: OP, batch })?;
    let back = Float::recip(scale);
    for (value, found) in values.iter_mut().zip(diagonal.column_vector().iter()) {
        *value = found.real_part() * back;
    }
    Ok(())
}
