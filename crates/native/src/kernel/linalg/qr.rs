//! `A = Q·R` by Householder reflections.

use super::{LinalgError, Scalar, check, load, over_batch, pieces, pieces_mut, store, workspace};
use faer::dyn_stack::MemStack;
use faer::linalg::householder::{
    apply_block_householder_sequence_on_the_left_in_place_scratch,
    apply_block_householder_sequence_on_the_left_in_place_with_conj,
};
use faer::linalg::qr::no_pivoting::factor::{
    qr_in_place, qr_in_place_scratch, recommended_block_size,
};
use faer::{Conj, Mat, Par};
use num_traits::Float;

const OP: &str = "qr";

/// `Q` with orthonormal columns and upper triangular `R`, with `k = min(m, n)`:
/// `q` is `m × k` and `r` is `k × n`, or `m × m` and `m × n` if `complete`.
///
/// The diagonal of `R` is real; as in LAPACK it may be negative.
pub fn qr<T: Scalar>(
    a: &[T],
    batch: usize,
    (m, n): (usize, usize),
    complete: bool,
    q: &mut [T],
    r: &mut [T],
) -> Result<(), LinalgError> {
    let k = m.min(n);
    let inner = if complete { m } else { k };
    check(OP, "the matrix", a.len(), &[batch, m, n])?;
    check(OP, "Q", q.len(), &[batch, m, inner])?;
    check(OP, "R", r.len(), &[batch, inner, n])?;
    let outputs = pieces_mut(q, batch, m * inner).zip(pieces_mut(r, batch, inner * n));
    let items = pieces(a, batch, m * n).zip(outputs).collect();
    over_batch(
        items,
        (m, n),
        |_, (a, (q, r)): (&[T], (&mut [T], &mut [T])), _| {
            if k == 0 {
                super::store_identity(q, inner);
                return Ok(());
            }
            let mut factors = load(a, m, n);
            let block = recommended_block_size::<T>(m, n);
            let mut coefficients = Mat::zeros(block, k);
            let need = qr_in_place_scratch::<T>(m, n, block, Par::Seq, Default::default()).or(
                apply_block_householder_sequence_on_the_left_in_place_scratch::<T>(m, block, inner),
            );
            let mut memory = workspace(OP, need)?;
            qr_in_place(
                factors.as_mut(),
                coefficients.as_mut(),
                Par::Seq,
                MemStack::new(&mut memory),
                Default::default(),
            );
            let mut basis = Mat::<T>::identity(m, inner);
            apply_block_householder_sequence_on_the_left_in_place_with_conj(
                factors.as_ref().subcols(0, k),
                coefficients.as_ref(),
                Conj::No,
                basis.as_mut(),
                Par::Seq,
                MemStack::new(&mut memory),
            );
            store(basis.as_ref(), q, inner);
            for (i, row) in r.chunks_exact_mut(n).enumerate() {
                for (j, x) in row.iter_mut().enumerate() {
                    *x = if i <= j { factors[(i, j)] } else { T::zero() };
                }
            }
            if !T::IS_REAL {
                make_diagonal_real(q, r, inner, n, k);
            }
            Ok(())
        },
    )
}

/// Moves the phase of each diagonal entry of `R` into the column of `Q`.
fn make_diagonal_real<T: Scalar>(q: &mut [T], r: &mut [T], inner: usize, n: usize, k: usize) {
    for i in 0..k {
        let diagonal = r[i * n + i];
        let size = Float::copysign(diagonal.magnitude(), diagonal.real_part());
        if size == num_traits::Zero::zero() || !diagonal.finite() {
            continue;
        }
        let phase = diagonal.scaled(Float::recip(size));
        for x in &mut r[i * n + i..(i + 1) * n] {
            *x *= phase.conjugate();
        }
        // The product above leaves a rounding error where there must be a zero.
        r[i * n + i] = T::one().scaled(size);
        for row in q.chunks_exact_mut(inner) {
            row[i] *= phase;
        }
    }
}
