//! Eigenvalues and eigenvectors.

use super::{
    LinalgError, Scalar, check, over_batch, pieces, pieces_mut, safe_scale, store, workspace,
};
use faer::diag::Diag;
use faer::dyn_stack::MemStack;
use faer::linalg::evd::{
    ComputeEigenvectors, EvdError, evd_cplx, evd_real, evd_scratch, self_adjoint_evd,
    self_adjoint_evd_scratch,
};
use faer::{Mat, MatRef, Par};
use num_complex::Complex;
use num_traits::{Float, One, Zero};

/// Eigenvalues of a Hermitian matrix in ascending order and, if requested, its orthonormal eigenvectors as columns.
/// Only the lower triangle is read.
pub fn eigh<T: Scalar>(
    a: &[T],
    batch: usize,
    n: usize,
    values: &mut [T::Part],
    vectors: Option<&mut [T]>,
) -> Result<(), LinalgError> {
    const OP: &str = "eigh";
    check(OP, "the matrix", a.len(), &[batch, n, n])?;
    check(OP, "the values", values.len(), &[batch, n])?;
    if let Some(vectors) = &vectors {
        check(OP, "the vectors", vectors.len(), &[batch, n, n])?;
    }
    if n == 0 {
        return Ok(());
    }
    let inputs = pieces(a, batch, n * n).zip(pieces_mut(values, batch, n));
    let items = with_vectors(inputs, vectors, batch, n * n);
    over_batch(items, (n, n), |batch, ((a, values), vectors), _| {
        let lower = |i: usize| &a[i * n..i * n + i + 1];
        let Some(scale) = safe_scale((0..n).flat_map(lower).copied()) else {
            values.fill(T::undefined().real_part());
            vectors.into_iter().for_each(|v| v.fill(T::undefined()));
            return Ok(());
        };
        let copy;
        let matrix = if T::IS_REAL && scale == T::Part::one() {
            MatRef::from_row_major_slice(a, n, n)
        } else {
            copy = Mat::from_fn(n, n, |i, j| {
                let x = a[i * n + j].scaled(scale);
                // The diagonal of a Hermitian matrix is real; imaginary parts there are not read.
                if i == j {
                    T::one().scaled(x.real_part())
                } else {
                    x
                }
            });
            copy.as_ref()
        };
        let wanted = if vectors.is_some() {
            ComputeEigenvectors::Yes
        } else {
            ComputeEigenvectors::No
        };
        let need = self_adjoint_evd_scratch::<T>(n, wanted, Par::Seq, Default::default());
        let mut diagonal = Diag::<T>::zeros(n);
        let mut columns = vectors.is_some().then(|| Mat::<T>::zeros(n, n));
        self_adjoint_evd(
            matrix,
            diagonal.as_mut(),
            columns.as_mut().map(|columns| columns.as_mut()),
            Par::Seq,
            MemStack::new(&mut workspace(OP, need)?),
            Default::default(),
        )
        .map_err(|_| LinalgError::NoConvergence { op: OP, batch })?;
        let back = Float::recip(scale);
        for (value, found) in values.iter_mut().zip(diagonal.column_vector().iter()) {
            *value = found.real_part() * back;
        }
        if let (Some(columns), Some(vectors)) = (columns, vectors) {
            store(columns.as_ref(), vectors, n);
        }
        Ok(())
    })
}

/// Eigenvalues of any square matrix and, if requested, its right eigenvectors as columns, each of norm 1 with its
/// largest entry real.
///
/// A real matrix has them in conjugate pairs, the positive imaginary part first.
pub fn eig<T: Scalar>(
    a: &[T],
    batch: usize,
    n: usize,
    values: &mut [Complex<T::Part>],
    vectors: Option<&mut [Complex<T::Part>]>,
) -> Result<(), LinalgError> {
    const OP: &str = "eig";
    check(OP, "the matrix", a.len(), &[batch, n, n])?;
    check(OP, "the values", values.len(), &[batch, n])?;
    if let Some(vectors) = &vectors {
        check(OP, "the vectors", vectors.len(), &[batch, n, n])?;
    }
    if n == 0 {
        return Ok(());
    }
    let inputs = pieces(a, batch, n * n).zip(pieces_mut(values, batch, n));
    let items = with_vectors(inputs, vectors, batch, n * n);
    over_batch(items, (n, n), |batch, ((a, values), mut vectors), _| {
        let Some(scale) = safe_scale(a.iter().copied()) else {
            let nan = T::undefined().real_part();
            values.fill(Complex::new(nan, nan));
            vectors
                .into_iter()
                .for_each(|v| v.fill(Complex::new(nan, nan)));
            return Ok(());
        };
        let matrix = Mat::from_fn(n, n, |i, j| a[i * n + j].scaled(scale));
        let found = T::general(matrix.as_ref(), values, vectors.as_deref_mut())?;
        found.map_err(|_| LinalgError::NoConvergence { op: OP, batch })?;
        let back = Float::recip(scale);
        for value in values {
            *value = Complex::new(value.re * back, value.im * back);
        }
        if let Some(vectors) = vectors {
            normalise(vectors, n);
        }
        Ok(())
    })
}

/// Pairs each matrix with its eigenvector output, or with none.
fn with_vectors<I, V>(
    inputs: impl Iterator<Item = I>,
    vectors: Option<&mut [V]>,
    batch: usize,
    size: usize,
) -> Vec<(I, Option<&mut [V]>)> {
    match vectors {
        None => inputs.map(|input| (input, None)).collect(),
        Some(vectors) => inputs
            .zip(pieces_mut(vectors, batch, size).map(Some))
            .collect(),
    }
}

/// Scales columns to norm 1 and rotates them so that the largest entry is real.
fn normalise<P: Float>(vectors: &mut [Complex<P>], n: usize) {
    for j in 0..n {
        let column = || (0..n).map(|i| vectors[i * n + j]);
        let largest = column().fold(Complex::zero(), |best: Complex<P>, x| {
            if x.norm_sqr() > best.norm_sqr() {
                x
            } else {
                best
            }
        });
        let norm = column()
            .map(|x| x.norm_sqr())
            .fold(P::zero(), |sum, x| sum + x)
            .sqrt();
        if norm.is_zero() || !norm.is_finite() {
            continue;
        }
        let rotation = if largest.im.is_zero() {
            Complex::from(norm.recip())
        } else {
            largest.conj() / (largest.norm() * norm)
        };
        for i in 0..n {
            let x = &mut vectors[i * n + j];
            let exact = !largest.im.is_zero() && *x == largest;
            *x = *x * rotation;
            if exact {
                x.im = P::zero();
            }
        }
    }
}

/// The difference between real and complex matrices.
pub trait Eigen: Sized {
    /// Eigenvalues, and eigenvectors of any norm, of a finite matrix.
    #[doc(hidden)]
    fn general(
        a: MatRef<'_, Self>,
        values: &mut [Complex<<Self as Scalar>::Part>],
        vectors: Option<&mut [Complex<<Self as Scalar>::Part>]>,
    ) -> Result<Result<(), EvdError>, LinalgError>
    where
        Self: Scalar;
}

fn wanted(vectors: bool) -> ComputeEigenvectors {
    if vectors {
        ComputeEigenvectors::Yes
    } else {
        ComputeEigenvectors::No
    }
}

macro_rules! eigen {
    ($t:ty) => {
        impl Eigen for $t {
            fn general(
                a: MatRef<'_, $t>,
                values: &mut [Complex<$t>],
                vectors: Option<&mut [Complex<$t>]>,
            ) -> Result<Result<(), EvdError>, LinalgError> {
                let n = a.nrows();
                let no = ComputeEigenvectors::No;
                let need = evd_scratch::<$t>(
                    n,
                    no,
                    wanted(vectors.is_some()),
                    Par::Seq,
                    Default::default(),
                );
                let (mut re, mut im) = (Diag::<$t>::zeros(n), Diag::<$t>::zeros(n));
                let mut columns = vectors.is_some().then(|| Mat::<$t>::zeros(n, n));
                let result = evd_real(
                    a,
                    re.as_mut(),
                    im.as_mut(),
                    None,
                    columns.as_mut().map(|columns| columns.as_mut()),
                    Par::Seq,
                    MemStack::new(&mut workspace("eig", need)?),
                    Default::default(),
                );
                for (i, value) in values.iter_mut().enumerate() {
                    *value = Complex::new(re[i], im[i]);
                }
                let (Some(columns), Some(vectors)) = (columns, vectors) else {
                    put_positive_first(values);
                    return Ok(result);
                };
                // Columns j and j + 1 of a pair hold the real and imaginary parts of the eigenvector of value j.
                let mut j = 0;
                while j < n {
                    let paired = im[j] != 0.0 && j + 1 < n;
                    for i in 0..n {
                        let part = if paired {
                            columns[(i, j + 1)] * im[j].signum()
                        } else {
                            0.0
                        };
                        let x = Complex::new(columns[(i, j)], part);
                        vectors[i * n + j] = x;
                        if paired {
                            vectors[i * n + j + 1] = x.conj();
                        }
                    }
                    j += if paired { 2 } else { 1 };
                }
                put_positive_first(values);
                Ok(result)
            }
        }

        impl Eigen for Complex<$t> {
            fn general(
                a: MatRef<'_, Self>,
                values: &mut [Self],
                vectors: Option<&mut [Self]>,
            ) -> Result<Result<(), EvdError>, LinalgError> {
                let n = a.nrows();
                let no = ComputeEigenvectors::No;
                let need = evd_scratch::<Self>(
                    n,
                    no,
                    wanted(vectors.is_some()),
                    Par::Seq,
                    Default::default(),
                );
                let mut diagonal = Diag::<Self>::zeros(n);
                let mut columns = vectors.is_some().then(|| Mat::<Self>::zeros(n, n));
                let result = evd_cplx(
                    a,
                    diagonal.as_mut(),
                    None,
                    columns.as_mut().map(|columns| columns.as_mut()),
                    Par::Seq,
                    MemStack::new(&mut workspace("eig", need)?),
                    Default::default(),
                );
                for (i, value) in values.iter_mut().enumerate() {
                    *value = diagonal[i];
                }
                if let (Some(columns), Some(vectors)) = (columns, vectors) {
                    store(columns.as_ref(), vectors, n);
                }
                Ok(result)
            }
        }
    };
}

eigen!(f32);
eigen!(f64);

/// Orders each conjugate pair of a real matrix.
fn put_positive_first<P: Float>(values: &mut [Complex<P>]) {
    let mut j = 0;
    while j + 1 < values.len() {
        if values[j].im.is_zero() {
            j += 1;
            continue;
        }
        values[j].im = values[j].im.abs();
        values[j + 1] = values[j].conj();
        j += 2;
    }
}
