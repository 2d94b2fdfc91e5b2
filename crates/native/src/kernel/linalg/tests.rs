//! Factorizations are checked by multiplying the factors.

use super::*;
use crate::math::reference::Bits;
use num_complex::{Complex32, Complex64};
use num_traits::Zero;
use proptest::prelude::*;

trait Sample: Scalar {
    fn sample(bits: &mut Bits) -> Self;
    /// The rounding error of a product of well scaled matrices, per row.
    const TOLERANCE: f64;
    fn size(self) -> f64;
    fn nan_or(self, finite: bool) -> bool;
}

macro_rules! sample {
    ($t:ty, $tolerance:expr, $bits:ident => $value:expr) => {
        impl Sample for $t {
            fn sample($bits: &mut Bits) -> Self {
                $value
            }
            const TOLERANCE: f64 = $tolerance;
            fn size(self) -> f64 {
                self.magnitude() as f64
            }
            fn nan_or(self, finite: bool) -> bool {
                self.finite() == finite
            }
        }
    };
}

sample!(f32, 4e-6, bits => bits.between(-1.0, 1.0) as f32);
sample!(f64, 1e-14, bits => bits.between(-1.0, 1.0));
sample!(Complex32, 4e-6, bits => Complex32::new(bits.between(-1.0, 1.0) as f32, bits.between(-1.0, 1.0) as f32));
sample!(Complex64, 1e-14, bits => Complex64::new(bits.between(-1.0, 1.0), bits.between(-1.0, 1.0)));

fn random<T: Sample>(count: usize, seed: u64) -> Vec<T> {
    let mut bits = Bits(seed);
    (0..count).map(|_| T::sample(&mut bits)).collect()
}

/// `a (m × k) · b (k × n)`.
fn product<T: Scalar>(a: &[T], b: &[T], m: usize, k: usize, n: usize) -> Vec<T> {
    let mut c = vec![T::zero(); m * n];
    for i in 0..m {
        for l in 0..k {
            for j in 0..n {
                c[i * n + j] += a[i * k + l] * b[l * n + j];
            }
        }
    }
    c
}

fn adjoint<T: Scalar>(a: &[T], m: usize, n: usize) -> Vec<T> {
    (0..m * n)
        .map(|at| a[(at % m) * n + at / m].conjugate())
        .collect()
}

fn transpose<T: Scalar>(a: &[T], m: usize, n: usize) -> Vec<T> {
    (0..m * n).map(|at| a[(at % m) * n + at / m]).collect()
}

fn identity<T: Scalar>(n: usize) -> Vec<T> {
    let mut a = vec![T::zero(); n * n];
    store_identity(&mut a, n);
    a
}

#[track_caller]
fn assert_near<T: Sample>(a: &[T], b: &[T], rows: usize) {
    assert_eq!(a.len(), b.len());
    let scale = b.iter().map(|x| x.size()).fold(1.0, f64::max);
    for (i, (&x, &y)) in a.iter().zip(b).enumerate() {
        let distance = (x - y).size();
        assert!(
            distance <= T::TOLERANCE * scale * (rows as f64 + 4.0),
            "at {i}: {x:?} and {y:?}"
        );
    }
}

#[track_caller]
fn assert_orthonormal_columns<T: Sample>(q: &[T], m: usize, n: usize) {
    assert_near(
        &product(&adjoint(q, m, n), q, n, m, n),
        &identity::<T>(n),
        m,
    );
}

/// `A·Aᴴ + n·1`.
fn positive_definite<T: Sample>(n: usize, seed: u64) -> Vec<T> {
    let a = random::<T>(n * n, seed);
    let mut c = product(&a, &adjoint(&a, n, n), n, n, n);
    for i in 0..n {
        c[i * n + i] = T::one().scaled(c[i * n + i].real_part() + num_traits::one::<T::Part>());
    }
    c
}

fn hermitian<T: Sample>(n: usize, seed: u64) -> Vec<T> {
    let a = random::<T>(n * n, seed);
    let b = adjoint(&a, n, n);
    let half: T::Part = num_traits::NumCast::from(0.5).unwrap();
    a.iter()
        .zip(&b)
        .map(|(&x, &y)| (x + y).scaled(half))
        .collect()
}

/// The product of two thin random matrices: rank at most `rank`.
fn deficient<T: Sample>(m: usize, n: usize, rank: usize, seed: u64) -> Vec<T> {
    product(
        &random::<T>(m * rank, seed),
        &random::<T>(rank * n, seed + 1),
        m,
        rank,
        n,
    )
}

const SHAPES: [(usize, usize); 12] = [
    (1, 1),
    (2, 2),
    (3, 3),
    (1, 5),
    (5, 1),
    (4, 7),
    (7, 4),
    (17, 17),
    (33, 20),
    (20, 33),
    (64, 64),
    (90, 3),
];

fn check_cholesky<T: Sample>() {
    for n in [1, 2, 5, 16, 33, 70] {
        let a = positive_definite::<T>(n, n as u64);
        let mut l = vec![T::zero(); n * n];
        cholesky(&a, 1, n, false, &mut l).unwrap();
        assert_near(&product(&l, &adjoint(&l, n, n), n, n, n), &a, n);
        let mut u = vec![T::one(); n * n];
        cholesky(&a, 1, n, true, &mut u).unwrap();
        assert_near(&u, &adjoint(&l, n, n), n);
        // The other triangle is neither read nor left unchanged.
        let mut half = a.clone();
        for i in 0..n {
            for j in i + 1..n {
                half[i * n + j] = T::undefined();
                assert!(l[i * n + j].is_zero() && u[j * n + i].is_zero());
            }
        }
        let mut again = vec![T::zero(); n * n];
        cholesky(&half, 1, n, false, &mut again).unwrap();
        assert_near(&again, &l, n);
    }
}

fn check_qr<T: Sample>() {
    for (m, n) in SHAPES {
        for a in [
            random::<T>(m * n, 3),
            deficient::<T>(m, n, 1, 4),
            vec![T::zero(); m * n],
        ] {
            for complete in [false, true] {
                let k = if complete { m } else { m.min(n) };
                let (mut q, mut r) = (vec![T::zero(); m * k], vec![T::zero(); k * n]);
                qr(&a, 1, (m, n), complete, &mut q, &mut r).unwrap();
                assert_near(&product(&q, &r, m, k, n), &a, m);
                assert_orthonormal_columns(&q, m, k);
                for i in 0..k {
                    for j in 0..n.min(i) {
                        assert!(r[i * n + j].is_zero());
                    }
                    if i < n {
                        assert_eq!(r[i * n + i], r[i * n + i].conjugate());
                    }
                }
            }
        }
    }
}

fn check_svd<T: Sample>() {
    for (m, n) in SHAPES {
        let k = m.min(n);
        for a in [
            random::<T>(m * n, 5),
            deficient::<T>(m, n, 1, 6),
            vec![T::zero(); m * n],
        ] {
            for full in [false, true] {
                let (left, right) = if full { (m, n) } else { (k, k) };
                let mut s = vec![num_traits::zero(); k];
                let (mut u, mut vh) = (vec![T::zero(); m * left], vec![T::zero(); right * n]);
                svd(&a, 1, (m, n), full, &mut s, Some((&mut u, &mut vh))).unwrap();
                assert!(
                    s.windows(2).all(|pair| pair[0] >= pair[1]) && s[k - 1] >= num_traits::zero()
                );
                assert_orthonormal_columns(&u, m, left);
                assert_orthonormal_columns(&adjoint(&vh, right, n), n, right);
                let mut scaled = vec![T::zero(); m * n];
                for i in 0..m {
                    for j in 0..n {
                        for l in 0..k {
                            let term = u[i * left + l].scaled(s[l]) * vh[l * n + j];
                            scaled[i * n + j] += term;
                        }
                    }
                }
                assert_near(&scaled, &a, m + n);
                let mut only = vec![num_traits::zero(); k];
                svd::<T>(&a, 1, (m, n), full, &mut only, None).unwrap();
                for (a, b) in only.iter().zip(&s) {
                    assert_near(&[T::one().scaled(*a)], &[T::one().scaled(*b)], m + n);
                }
            }
        }
    }
}

fn check_eigh<T: Sample>() {
    for n in [1, 2, 3, 8, 31, 64] {
        let repeated = {
            // Two distinct values, each many times over.
            let (mut q, mut r) = (vec![T::zero(); n * n], vec![T::zero(); n * n]);
            qr(&random::<T>(n * n, 8), 1, (n, n), false, &mut q, &mut r).unwrap();
            let two: T::Part = num_traits::NumCast::from(2.0).unwrap();
            let scaled: Vec<T> = (0..n * n)
                .map(|i| {
                    if i % n < n / 2 {
                        q[i].scaled(two)
                    } else {
                        q[i]
                    }
                })
                .collect();
            product(&scaled, &adjoint(&q, n, n), n, n, n)
        };
        for a in [
            hermitian::<T>(n, 7),
            repeated,
            identity::<T>(n),
            vec![T::zero(); n * n],
        ] {
            let (mut w, mut v) = (vec![num_traits::zero(); n], vec![T::zero(); n * n]);
            eigh(&a, 1, n, &mut w, Some(&mut v)).unwrap();
            assert!(w.windows(2).all(|pair| pair[0] <= pair[1]));
            assert_orthonormal_columns(&v, n, n);
            let scaled: Vec<T> = (0..n * n).map(|i| v[i].scaled(w[i % n])).collect();
            assert_near(&product(&a, &v, n, n, n), &scaled, n);
            let mut only = vec![num_traits::zero(); n];
            eigh::<T>(&a, 1, n, &mut only, None).unwrap();
            for (a, b) in only.iter().zip(&w) {
                assert_near(&[T::one().scaled(*a)], &[T::one().scaled(*b)], n);
            }
            // The upper triangle is not read.
            let mut half = a.clone();
            (0..n).for_each(|i| half[i * n + i + 1..(i + 1) * n].fill(T::undefined()));
            let mut again = vec![num_traits::zero(); n];
            eigh::<T>(&half, 1, n, &mut again, None).unwrap();
            assert!(again == only);
        }
    }
}

fn check_eig<T: Sample>()
where
    Complex<T::Part>: Sample + Scalar<Part = T::Part>,
{
    for n in [1, 2, 3, 8, 31, 64, 100] {
        let mut rotation = identity::<T>(n);
        if n > 1 {
            (rotation[0], rotation[1]) = (T::zero(), T::one());
            (rotation[n], rotation[n + 1]) = (-T::one(), T::zero());
        }
        for a in [
            random::<T>(n * n, 9),
            hermitian::<T>(n, 10),
            rotation,
            identity::<T>(n),
            vec![T::zero(); n * n],
        ] {
            let wide: Vec<Complex<T::Part>> = a
                .iter()
                .map(|x| Complex::new(x.real_part(), T::imag_part_impl(x)))
                .collect();
            let mut w = vec![Complex::zero(); n];
            let mut v = vec![Complex::zero(); n * n];
            eig::<T>(&a, 1, n, &mut w, Some(&mut v)).unwrap();
            let scaled: Vec<_> = (0..n * n).map(|i| v[i] * w[i % n]).collect();
            assert_near(&product(&wide, &v, n, n, n), &scaled, 8 * n);
            for j in 0..n {
                let norm: f64 = (0..n).map(|i| v[i * n + j].size().powi(2)).sum();
                assert!((norm - 1.0).abs() < 16.0 * T::TOLERANCE);
            }
            let mut only = vec![Complex::zero(); n];
            eig::<T>(&a, 1, n, &mut only, None).unwrap();
            let sum = |w: &[Complex<T::Part>]| w.iter().fold(Complex::zero(), |s, &x| s + x);
            assert_near(&[sum(&only)], &[sum(&w)], 8 * n);
        }
    }
}

fn check_lu<T: Sample>() {
    for (m, n) in SHAPES {
        let k = m.min(n);
        for a in [
            random::<T>(m * n, 11),
            deficient::<T>(m, n, 1, 12),
            vec![T::zero(); m * n],
        ] {
            let mut packed = vec![T::zero(); m * n];
            let (mut pivots, mut permutation) = (vec![0; k], vec![0; m]);
            lu(&a, 1, (m, n), &mut packed, &mut pivots, &mut permutation).unwrap();
            let (mut l, mut u) = (vec![T::zero(); m * k], vec![T::zero(); k * n]);
            for i in 0..m {
                for j in 0..n {
                    let x = packed[i * n + j];
                    if i > j {
                        l[i * k + j] = x;
                        assert!(x.size() <= 1.42);
                    } else {
                        u[i * n + j] = x;
                    }
                }
                if i < k {
                    l[i * k + i] = T::one();
                }
            }
            let permuted: Vec<T> = permutation
                .iter()
                .flat_map(|&row| a[row as usize * n..][..n].to_vec())
                .collect();
            assert_near(&product(&l, &u, m, k, n), &permuted, m + n);
            let mut rows: Vec<i32> = (0..m as i32).collect();
            for (i, &pivot) in pivots.iter().enumerate() {
                assert!(pivot as usize >= i);
                rows.swap(i, pivot as usize);
            }
            assert_eq!(rows, permutation);
        }
    }
}

fn check_triangular<T: Sample>() {
    for (n, columns) in [(1, 1), (2, 3), (5, 1), (16, 4), (33, 7), (40, 40)] {
        let mut a = random::<T>(n * n, 13);
        // A strong diagonal keeps the system well conditioned.
        let big: T::Part = num_traits::NumCast::from(n).unwrap();
        (0..n).for_each(|i| a[i * n + i] += T::one().scaled(big));
        let b = random::<T>(n * columns, 14);
        for triangle in [Triangle::Lower, Triangle::Upper] {
            for unit in [false, true] {
                let dense: Vec<T> = (0..n * n)
                    .map(|at| {
                        let (i, j) = (at / n, at % n);
                        let kept = if triangle == Triangle::Lower {
                            i > j
                        } else {
                            i < j
                        };
                        match (i == j, kept) {
                            (true, _) if unit => T::one(),
                            (true, _) | (_, true) if !unit => a[at],
                            // Keep the unit system tame as well.
                            (_, true) => a[at],
                            _ => T::zero(),
                        }
                    })
                    .collect();
                for transform in [Transform::None, Transform::Transpose, Transform::Adjoint] {
                    let operator = match transform {
                        Transform::None => dense.clone(),
                        Transform::Transpose => transpose(&dense, n, n),
                        Transform::Adjoint => adjoint(&dense, n, n),
                    };
                    if unit && n > 5 {
                        continue;
                    }
                    for side in [Side::Left, Side::Right] {
                        let mut x = vec![T::zero(); n * columns];
                        triangular_solve(
                            &a,
                            &b,
                            1,
                            (n, columns),
                            side,
                            triangle,
                            transform,
                            unit,
                            &mut x,
                        )
                        .unwrap();
                        let back = match side {
                            Side::Left => product(&operator, &x, n, n, columns),
                            Side::Right => product(&x, &operator, columns, n, n),
                        };
                        assert_near(&back, &b, 8 * n);
                    }
                }
            }
        }
    }
}

macro_rules! for_each_scalar {
    ($($test:ident: $check:ident;)*) => {$(
        #[test]
        fn $test() {
            $check::<f32>();
            $check::<f64>();
            $check::<Complex32>();
            $check::<Complex64>();
        }
    )*};
}

for_each_scalar! {
    cholesky_multiplies_back: check_cholesky;
    qr_multiplies_back: check_qr;
    svd_multiplies_back: check_svd;
    eigh_diagonalises: check_eigh;
    eig_diagonalises: check_eig;
    lu_multiplies_back: check_lu;
    triangular_solve_solves: check_triangular;
}

#[test]
fn a_batch_is_the_same_as_its_matrices() {
    // Large enough to be divided among threads.
    let (batch, n) = (9, 40);
    let a: Vec<f64> = (0..batch)
        .flat_map(|b| positive_definite::<f64>(n, b as u64))
        .collect();
    let mut together = vec![0.0; a.len()];
    cholesky(&a, batch, n, false, &mut together).unwrap();
    let (mut w, mut v) = (vec![0.0; batch * n], vec![0.0; a.len()]);
    eigh(&a, batch, n, &mut w, Some(&mut v)).unwrap();
    let mut s = vec![0.0; batch * n];
    svd(&a, batch, (n, n), false, &mut s, None).unwrap();
    for b in 0..batch {
        let one = &a[b * n * n..][..n * n];
        let mut alone = vec![0.0; n * n];
        cholesky(one, 1, n, false, &mut alone).unwrap();
        assert_eq!(alone, together[b * n * n..][..n * n]);
        let mut values = vec![0.0; n];
        eigh(one, 1, n, &mut values, Some(&mut alone)).unwrap();
        assert_eq!(values, w[b * n..][..n]);
        assert_eq!(alone, v[b * n * n..][..n * n]);
        svd(one, 1, (n, n), false, &mut values, None).unwrap();
        assert_eq!(values, s[b * n..][..n]);
    }
}

#[test]
fn large_matrices_use_threads_and_stay_right() {
    let n = 515;
    let a = positive_definite::<f64>(n, 1);
    let mut l = vec![0.0; n * n];
    cholesky(&a, 1, n, false, &mut l).unwrap();
    assert_near(&product(&l, &adjoint(&l, n, n), n, n, n), &a, n);
    let (mut q, mut r) = (vec![0.0; n * n], vec![0.0; n * n]);
    qr(&a, 1, (n, n), false, &mut q, &mut r).unwrap();
    assert_near(&product(&q, &r, n, n, n), &a, n);
    let (mut w, mut v) = (vec![0.0; n], vec![0.0; n * n]);
    eigh(&a, 1, n, &mut w, Some(&mut v)).unwrap();
    let scaled: Vec<f64> = (0..n * n).map(|i| v[i] * w[i % n]).collect();
    assert_near(&product(&a, &v, n, n, n), &scaled, n);
}

#[test]
fn threads_change_nothing() {
    let n = 515;
    let (a, p) = (random::<f64>(n * n, 1), positive_definite::<f64>(n, 2));
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        pool.install(|| {
            let mut all: Vec<Vec<f64>> = vec![vec![0.0; n * n]; 9];
            let (mut w, mut s) = (vec![0.0; n], vec![0.0; n]);
            let (mut pivots, mut rows) = (vec![0; n], vec![0; n]);
            let [l, q, r, packed, u, vh, v, x, re] = &mut all[..] else {
                unreachable!()
            };
            cholesky(&p, 1, n, false, l).unwrap();
            qr(&a, 1, (n, n), false, q, r).unwrap();
            lu(&a, 1, (n, n), packed, &mut pivots, &mut rows).unwrap();
            svd(&a, 1, (n, n), false, &mut s, Some((u, vh))).unwrap();
            eigh(&p, 1, n, &mut w, Some(v)).unwrap();
            let (left, lower, none) = (Side::Left, Triangle::Lower, Transform::None);
            triangular_solve(&p, &a, 1, (n, n), left, lower, none, false, x).unwrap();
            let mut values = vec![Complex64::ZERO; n];
            eig(&a, 1, n, &mut values, None).unwrap();
            *re = values.iter().flat_map(|z| [z.re, z.im]).collect();
            all.push(w);
            all.push(s);
            all
        })
    };
    let alone = run(1);
    for threads in [2, 3] {
        let names = ["l", "q", "r", "lu", "u", "vh", "v", "x", "eig", "w", "s"];
        for ((name, one), many) in names.iter().zip(&alone).zip(&run(threads)) {
            assert!(one == many, "{name} with {threads} threads");
        }
    }
}

#[test]
fn failures_name_the_matrix_and_the_pivot() {
    let good = [4.0, 0.0, 0.0, 4.0];
    let bad = [1.0, 2.0, 2.0, 1.0];
    let a: Vec<f64> = good.iter().chain(&bad).copied().collect();
    let error = cholesky(&a, 2, 2, false, &mut [0.0; 8]).unwrap_err();
    assert_eq!(
        error,
        LinalgError::NotPositiveDefinite { batch: 1, pivot: 1 }
    );
    assert_eq!(
        error.to_string(),
        "cholesky: the matrix is not positive definite"
    );
    let nan = [f64::NAN; 4];
    assert_eq!(
        cholesky(&nan, 1, 2, false, &mut [0.0; 4]).unwrap_err(),
        LinalgError::NotPositiveDefinite { batch: 0, pivot: 0 }
    );
    let wrong = cholesky(&good, 1, 2, false, &mut [0.0; 3]).unwrap_err();
    assert_eq!(
        wrong.to_string(),
        "cholesky: the factor has 3 elements, its sizes ask for 4"
    );
}

#[test]
fn nothing_is_a_matrix_too() {
    let (mut none, mut pivots, mut rows) = ([0.0f64; 0], [0; 0], [0; 0]);
    for batch in [0, 3] {
        cholesky::<f64>(&[], batch, 0, false, &mut none).unwrap();
        eigh::<f64>(&[], batch, 0, &mut [], Some(&mut none)).unwrap();
        eig::<f64>(&[], batch, 0, &mut [], Some(&mut [])).unwrap();
        lu::<f64>(&[], batch, (0, 0), &mut none, &mut pivots, &mut rows).unwrap();
        svd::<f64>(&[], batch, (0, 0), true, &mut [], None).unwrap();
        qr::<f64>(&[], batch, (0, 0), true, &mut [], &mut []).unwrap();
        triangular_solve::<f64>(
            &[],
            &[],
            batch,
            (0, 4),
            Side::Left,
            Triangle::Lower,
            Transform::None,
            false,
            &mut [],
        )
        .unwrap();
    }
    cholesky::<f64>(&[], 0, 5, false, &mut none).unwrap();
    svd::<f64>(&[], 0, (3, 2), false, &mut [], Some((&mut [], &mut []))).unwrap();
    // Without columns the complete Q is the identity.
    let mut q = [0.0; 4];
    qr::<f64>(&[], 1, (2, 0), true, &mut q, &mut []).unwrap();
    assert_eq!(q, [1.0, 0.0, 0.0, 1.0]);
    let mut u = [0.0; 9];
    svd::<f64>(&[], 1, (3, 0), true, &mut [], Some((&mut u, &mut []))).unwrap();
    assert_eq!(u.to_vec(), identity::<f64>(3));
    let mut vh = [0.0; 4];
    svd::<f64>(&[], 1, (0, 2), true, &mut [], Some((&mut [], &mut vh))).unwrap();
    assert_eq!(vh.to_vec(), identity::<f64>(2));
    let mut permutation = [9; 3];
    lu::<f64>(&[], 1, (3, 0), &mut [], &mut [], &mut permutation).unwrap();
    assert_eq!(permutation, [0, 1, 2]);
}

fn check_undefined<T: Sample>()
where
    Complex<T::Part>: Sample,
{
    for n in [1, 2, 9, 40] {
        for (bad, at) in [
            (T::undefined(), 0),
            (T::undefined(), n * n - 1),
            (T::one() / T::zero(), n / 2 * n),
        ] {
            let mut a = random::<T>(n * n, 15);
            a[at] = bad;
            let mut square = vec![T::zero(); n * n];
            let mut other = square.clone();
            let mut values = vec![num_traits::zero(); n];
            svd(
                &a,
                1,
                (n, n),
                true,
                &mut values,
                Some((&mut square, &mut other)),
            )
            .unwrap();
            assert!(values.iter().all(|x: &T::Part| Float::is_nan(*x)));
            assert!(square.iter().all(|x| x.nan_or(false)));
            eigh(&a, 1, n, &mut values, Some(&mut square)).unwrap();
            let mut complex = vec![Complex::new(num_traits::zero(), num_traits::zero()); n];
            eig(&a, 1, n, &mut complex, None).unwrap();
            assert!(complex.iter().all(|x| x.nan_or(false)));
            qr(&a, 1, (n, n), false, &mut square, &mut other).unwrap();
            let (mut pivots, mut rows) = (vec![0; n], vec![0; n]);
            lu(&a, 1, (n, n), &mut square, &mut pivots, &mut rows).unwrap();
            let _ = cholesky(&a, 1, n, false, &mut square);
            triangular_solve(
                &a,
                &other,
                1,
                (n, n),
                Side::Left,
                Triangle::Upper,
                Transform::None,
                false,
                &mut square,
            )
            .unwrap();
        }
    }
}

#[test]
fn undefined_entries_neither_hang_nor_panic() {
    check_undefined::<f32>();
    check_undefined::<f64>();
    check_undefined::<Complex32>();
    check_undefined::<Complex64>();
}

#[test]
fn extreme_scales_do_not_overflow() {
    for scale in [1e-300, 1e300, 1e-200, 1e200] {
        let n = 12;
        let plain = hermitian::<f64>(n, 21);
        let a: Vec<f64> = plain.iter().map(|x| x * scale).collect();
        let (mut w, mut expected) = (vec![0.0; n], vec![0.0; n]);
        let mut v = vec![0.0; n * n];
        eigh(&plain, 1, n, &mut expected, None).unwrap();
        eigh(&a, 1, n, &mut w, Some(&mut v)).unwrap();
        assert_orthonormal_columns(&v, n, n);
        for (x, y) in w.iter().zip(&expected) {
            assert!((x / scale - y).abs() < 1e-13);
        }
        svd(&plain, 1, (n, n), false, &mut expected, None).unwrap();
        svd(&a, 1, (n, n), false, &mut w, None).unwrap();
        for (x, y) in w.iter().zip(&expected) {
            assert!((x / scale - y).abs() < 1e-13);
        }
        let mut complex = vec![Complex64::ZERO; n];
        eig(&a, 1, n, &mut complex, None).unwrap();
        assert!(complex.iter().all(|x| x.is_finite()));
    }
}

#[test]
fn a_singular_matrix_has_zeros_on_the_diagonal_of_u() {
    let a = [0.0, 1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 5.0, 6.0];
    let (mut packed, mut pivots, mut rows) = ([0.0; 9], [0; 3], [0; 3]);
    lu(&a, 1, (3, 3), &mut packed, &mut pivots, &mut rows).unwrap();
    assert_eq!(packed[0], 0.0);
    assert!(packed.iter().all(|x: &f64| x.is_finite()));
}

#[test]
fn conjugate_pairs_come_with_the_positive_half_first() {
    let a = random::<f64>(30 * 30, 17);
    let mut w = vec![Complex64::ZERO; 30];
    eig(&a, 1, 30, &mut w, None).unwrap();
    let mut j = 0;
    while j < 30 {
        if w[j].im != 0.0 {
            assert!(w[j].im > 0.0 && w[j + 1] == w[j].conj());
            j += 1;
        }
        j += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn any_shape_multiplies_back(m in 1usize..30, n in 1usize..30, seed: u64) {
        let a = random::<f64>(m * n, seed);
        let k = m.min(n);
        let (mut q, mut r) = (vec![0.0; m * k], vec![0.0; k * n]);
        qr(&a, 1, (m, n), false, &mut q, &mut r).unwrap();
        assert_near(&product(&q, &r, m, k, n), &a, m);
        let (mut u, mut s, mut vh) = (vec![0.0; m * k], vec![0.0; k], vec![0.0; k * n]);
        svd(&a, 1, (m, n), false, &mut s, Some((&mut u, &mut vh))).unwrap();
        let scaled: Vec<f64> = (0..m * k).map(|i| u[i] * s[i % k]).collect();
        assert_near(&product(&scaled, &vh, m, k, n), &a, m + n);
    }

    #[test]
    fn lattice_matrices_do_not_confuse_anything(n in 1usize..12, seed: u64) {
        // Small integers: exact ties, zeros, repeated eigenvalues, singular blocks.
        let mut bits = Bits(seed);
        let a: Vec<f64> = (0..n * n).map(|_| (bits.next() % 3) as f64 - 1.0).collect();
        let (mut w, mut v) = (vec![Complex64::ZERO; n], vec![Complex64::ZERO; n * n]);
        eig(&a, 1, n, &mut w, Some(&mut v)).unwrap();
        let wide: Vec<Complex64> = a.iter().map(|&x| x.into()).collect();
        let scaled: Vec<Complex64> = (0..n * n).map(|i| v[i] * w[i % n]).collect();
        for (x, y) in product(&wide, &v, n, n, n).iter().zip(&scaled) {
            prop_assert!((x - y).norm() < 1e-10, "{} and {}", x, y);
        }
        let (mut packed, mut pivots, mut rows) = (vec![0.0; n * n], vec![0; n], vec![0; n]);
        lu(&a, 1, (n, n), &mut packed, &mut pivots, &mut rows).unwrap();
        prop_assert!(packed.iter().all(|x| x.is_finite()));
        let mut s = vec![0.0; n];
        svd(&a, 1, (n, n), false, &mut s, None).unwrap();
        let squares: f64 = a.iter().map(|x| x * x).sum();
        prop_assert!((s.iter().map(|x| x * x).sum::<f64>() - squares).abs() < 1e-11 * (1.0 + squares));
    }
}

#[test]
fn smallest_numbers_of_all() {
    let tiny = f64::from_bits(1);
    let (mut values, mut found) = ([0.0], [Complex::new(0.0, 0.0)]);
    svd(&[tiny], 1, (1, 1), false, &mut values, None).unwrap();
    assert_eq!(values, [tiny]);
    eig(&[tiny], 1, 1, &mut found, None).unwrap();
    assert_eq!(found[0].re, tiny);
}
