//! Every transform against the defining sum.

use super::*;
use crate::math::reference::Bits;
use num_complex::Complex64;
use proptest::prelude::*;
use std::f64::consts::TAU;

fn random(count: usize, seed: u64) -> Vec<Complex64> {
    let mut bits = Bits(seed);
    (0..count)
        .map(|_| Complex64::new(bits.between(-1.0, 1.0), bits.between(-1.0, 1.0)))
        .collect()
}

/// The sum itself, along one axis, without the factor of the inverse.
fn naive(data: &[Complex64], shape: &[usize], axis: usize, inverse: bool) -> Vec<Complex64> {
    let Layout {
        outer,
        length,
        inner,
    } = Layout::of(shape, axis);
    let mut result = vec![Complex64::ZERO; data.len()];
    let sign = if inverse { TAU } else { -TAU };
    for o in 0..outer {
        for k in 0..length {
            for t in 0..length {
                let root = Complex64::cis(sign * ((k * t) % length) as f64 / length as f64);
                for i in 0..inner {
                    result[(o * length + k) * inner + i] +=
                        data[(o * length + t) * inner + i] * root;
                }
            }
        }
    }
    result
}

#[track_caller]
fn assert_near(a: &[Complex64], b: &[Complex64], tolerance: f64) {
    assert_eq!(a.len(), b.len());
    for (x, y) in a.iter().zip(b) {
        assert!((x - y).norm() <= tolerance, "{x} and {y}");
    }
}

const SHAPES: [&[usize]; 9] = [
    &[1],
    &[2],
    &[7],
    &[97],
    &[64],
    &[3, 5],
    &[5, 8, 3],
    &[2, 1, 13, 4],
    &[12, 10],
];

#[test]
fn every_axis_agrees_with_the_sum() {
    for shape in SHAPES {
        let data = random(shape.iter().product(), 1);
        for axis in 0..shape.len() {
            for inverse in [false, true] {
                let mut got = data.clone();
                c2c(&mut got, shape, &[axis], inverse).unwrap();
                let mut want = naive(&data, shape, axis, inverse);
                if inverse {
                    want.iter_mut().for_each(|x| *x /= shape[axis] as f64);
                }
                assert_near(&got, &want, 1e-12);
                let mut single: Vec<Complex<f32>> = data
                    .iter()
                    .map(|x| Complex::new(x.re as f32, x.im as f32))
                    .collect();
                c2c(&mut single, shape, &[axis], inverse).unwrap();
                let wide: Vec<_> = single
                    .iter()
                    .map(|x| Complex64::new(x.re as f64, x.im as f64))
                    .collect();
                assert_near(&wide, &want, 2e-4);
            }
        }
    }
}

#[test]
fn inverse_undoes_forward_over_several_axes() {
    let shape = [6, 5, 7];
    let data = random(210, 2);
    for axes in [&[0usize, 1, 2][..], &[2, 0], &[1], &[]] {
        let mut got = data.clone();
        c2c(&mut got, &shape, axes, false).unwrap();
        let mut want = data.clone();
        for &axis in axes {
            want = naive(&want, &shape, axis, false);
        }
        assert_near(&got, &want, 1e-11);
        c2c(&mut got, &shape, axes, true).unwrap();
        assert_near(&got, &data, 1e-13);
    }
}

/// Keeps the first `half` entries along an axis.
fn crop(data: &[Complex64], shape: &[usize], axis: usize, half: usize) -> Vec<Complex64> {
    let Layout { inner, length, .. } = Layout::of(shape, axis);
    data.chunks(inner * length)
        .flat_map(|block| block[..half * inner].to_vec())
        .collect()
}

#[test]
fn real_transforms_are_half_of_complex_ones() {
    for shape in SHAPES {
        let real: Vec<f64> = random(shape.iter().product(), 3)
            .iter()
            .map(|x| x.re)
            .collect();
        let full: Vec<Complex64> = real.iter().map(|&x| x.into()).collect();
        for last in 0..shape.len() {
            for other in 0..shape.len() {
                let axes: Vec<usize> = if other == last {
                    vec![last]
                } else {
                    vec![other, last]
                };
                let half = shape[last] / 2 + 1;
                let mut want = full.clone();
                c2c(&mut want, shape, &axes, false).unwrap();
                let want = crop(&want, shape, last, half);
                let mut got = vec![Complex64::ZERO; want.len()];
                r2c(&real, shape, &axes, &mut got).unwrap();
                assert_near(&got, &want, 1e-11);
                let mut half_shape = shape.to_vec();
                half_shape[last] = half;
                let mut back = vec![0.0; real.len()];
                c2r(&got, &half_shape, &axes, shape[last], &mut back).unwrap();
                for (x, y) in back.iter().zip(&real) {
                    assert!((x - y).abs() < 1e-12);
                }
            }
        }
    }
}

#[test]
fn imaginary_parts_that_no_real_signal_has_are_ignored() {
    for n in [1usize, 2, 5, 8] {
        let mut spectrum = random(n / 2 + 1, 4);
        let (mut with, mut without) = (vec![0.0; n], vec![0.0; n]);
        c2r(&spectrum, &[n / 2 + 1], &[0], n, &mut with).unwrap();
        spectrum[0].im = 0.0;
        if n % 2 == 0 {
            spectrum[n / 2].im = 0.0;
        }
        c2r(&spectrum, &[n / 2 + 1], &[0], n, &mut without).unwrap();
        assert_eq!(with, without);
    }
}

#[test]
fn spectra_are_cropped_or_filled_to_the_length_asked_for() {
    let spectrum = random(4, 5);
    let mut short = vec![0.0; 4];
    c2r(&spectrum, &[4], &[0], 4, &mut short).unwrap();
    let mut same = vec![0.0; 4];
    c2r(&spectrum[..3], &[3], &[0], 4, &mut same).unwrap();
    assert_eq!(short, same);
    let mut filled = spectrum.clone();
    filled.resize(6, Complex64::ZERO);
    let (mut long, mut want) = (vec![0.0; 11], vec![0.0; 11]);
    c2r(&spectrum, &[4], &[0], 11, &mut long).unwrap();
    c2r(&filled, &[6], &[0], 11, &mut want).unwrap();
    assert_eq!(long, want);
}

#[test]
fn threads_change_nothing() {
    // Above the size from which work is divided, in every arrangement of axes.
    for shape in [
        &[300usize, 211][..],
        &[70, 31, 40],
        &[2, 40000],
        &[40000, 2],
        &[1 << 16],
    ] {
        let data = random(shape.iter().product(), 6);
        let lone = |run: &dyn Fn() -> Vec<Complex64>| {
            crate::parallel::set_thread_limit(Some(1));
            let got = run();
            crate::parallel::set_thread_limit(None);
            got
        };
        for axis in 0..shape.len() {
            let run = || {
                let mut got = data.clone();
                c2c(&mut got, shape, &[axis], false).unwrap();
                got
            };
            assert!(run() == lone(&run));
            let real: Vec<f64> = data.iter().map(|x| x.re).collect();
            let half = shape[axis] / 2 + 1;
            let run = || {
                let mut got = vec![Complex64::ZERO; real.len() / shape[axis] * half];
                r2c(&real, shape, &[axis], &mut got).unwrap();
                got
            };
            let got = run();
            assert!(got == lone(&run));
            let mut half_shape = shape.to_vec();
            half_shape[axis] = half;
            let mut back = vec![0.0; real.len()];
            c2r(&got, &half_shape, &[axis], shape[axis], &mut back).unwrap();
            assert!(back.iter().zip(&real).all(|(x, y)| (x - y).abs() < 1e-11));
        }
    }
}

#[test]
fn empty_arrays_pass_and_nonsense_is_refused() {
    let none: &mut [Complex64] = &mut [];
    c2c(none, &[0, 4], &[1], false).unwrap();
    c2c(none, &[0, 4], &[0, 1], true).unwrap();
    r2c::<f64>(&[], &[0, 4], &[1], none).unwrap();
    c2r::<f64>(none, &[0, 3], &[1], 4, &mut []).unwrap();
    let mut zeros = [1.0; 3];
    c2r::<f64>(none, &[0], &[0], 3, &mut zeros).unwrap();
    assert_eq!(zeros, [0.0; 3]);
    assert_eq!(
        r2c::<f64>(&[], &[0], &[0], &mut [Complex64::ZERO]),
        Err(FftError::NoPoints { axis: 0 })
    );
    assert_eq!(
        c2c(none, &[0], &[1], false),
        Err(FftError::Axis { axis: 1, rank: 1 })
    );
    assert_eq!(
        c2c(none, &[0, 0], &[1, 1], false),
        Err(FftError::RepeatedAxis(1))
    );
    assert_eq!(r2c::<f64>(&[1.0], &[1], &[], none), Err(FftError::NoAxes));
    let error = c2c(none, &[3], &[0], false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "fft: the array has 0 elements, its sizes ask for 3"
    );
    let mut nan = vec![Complex64::new(f64::NAN, f64::INFINITY); 12];
    c2c(&mut nan, &[3, 4], &[0, 1], false).unwrap();
    assert!(nan.iter().all(|x| x.re.is_nan()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn energy_is_kept(n in 1usize..200, m in 1usize..6, seed: u64) {
        let data = random(n * m, seed);
        let mut spectrum = data.clone();
        c2c(&mut spectrum, &[n, m], &[0], false).unwrap();
        let energy = |x: &[Complex64]| x.iter().map(|x| x.norm_sqr()).sum::<f64>();
        let (before, after) = (energy(&data), energy(&spectrum) / n as f64);
        prop_assert!((before - after).abs() < 1e-11 * before);
    }
}
