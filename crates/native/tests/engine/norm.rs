use crate::tensors::*;
use clematis_core::{Axes, Composite, DType, Op, Tensor};

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

fn lanes(x: &Tensor, axis: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Vec<(f64, f64)> {
    let sizes = x.shape().sizes();
    let all = x.to_host().unwrap().to_f64();
    let mut out = vec![(0.0, 0.0); all.len()];
    for index in indices(&sizes).filter(|i| i[axis] == 0) {
        let at: Vec<usize> = (0..sizes[axis])
            .map(|i| {
                let mut at = index.clone();
                at[axis] = i;
                place(&sizes, &at)
            })
            .collect();
        let lane: Vec<f64> = at.iter().map(|&i| all[i]).collect();
        for (i, v) in at.into_iter().zip(f(&lane)) {
            out[i] = (v, 0.0);
        }
    }
    out
}

/// Rounded to the result's dtype, so that only the kernel's own rounding is compared.
fn rounded(all: Vec<(f64, f64)>, dtype: DType) -> Vec<(f64, f64)> {
    all.into_iter()
        .map(|(v, _)| (clematis_core::Scalar::from(v).cast(dtype).as_f64(), 0.0))
        .collect()
}

#[test]
fn softmax_and_its_logarithm_along_any_axis() {
    for dtype in FLOATS {
        let mut dice = Dice::new(dtype as u64);
        for _ in 0..20 {
            let rank = 1 + dice.below(3);
            let axis = dice.below(rank);
            let sizes = dice.sizes(rank, 40 / rank);
            let x = view(&mut dice, dtype, &sizes, false);
            let soft = |l: &[f64]| {
                let top = l.iter().copied().fold(f64::MIN, f64::max);
                let sum: f64 = l.iter().map(|v| (v - top).exp()).sum();
                l.iter().map(|v| (v - top).exp() / sum).collect::<Vec<_>>()
            };
            let y = one(&Composite::Softmax { axis }.into(), &[&x]);
            assert_near(
                &y,
                &rounded(lanes(&x, axis, soft), dtype),
                tolerance(dtype),
                "softmax",
            );
            let y = one(&Composite::LogSoftmax { axis }.into(), &[&x]);
            let expected = lanes(&x, axis, |l| soft(l).into_iter().map(f64::ln).collect());
            for (f, e) in y
                .to_host()
                .unwrap()
                .to_f64()
                .iter()
                .zip(rounded(expected, dtype))
            {
                assert!(
                    (f - e.0).abs() <= tolerance(dtype) * (4.0 + e.0.abs()),
                    "{f} {e:?}"
                );
            }
        }
    }
    let x = of(&[f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY], &[3]);
    let y = one(&Composite::Softmax { axis: 0 }.into(), &[&x]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [0.0, 1.0, 0.0]);
    let big = of(&[1e38f32, -1e38], &[2]);
    let y = one(&Composite::Softmax { axis: 0 }.into(), &[&big]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 0.0]);
}

#[test]
fn log_sum_exp_over_axes() {
    for dtype in FLOATS {
        let mut dice = Dice::new(dtype as u64 + 3);
        let x = view(&mut dice, dtype, &[3, 4, 5], false);
        let all = x.to_host().unwrap().to_f64();
        let y = one(
            &Composite::LogSumExp {
                axes: Axes::new(&[0, 2]),
            }
            .into(),
            &[&x],
        );
        let expected: Vec<(f64, f64)> = (0..4)
            .map(|j| {
                let sum: f64 = (0..3)
                    .flat_map(|i| (0..5).map(move |k| (i, k)))
                    .map(|(i, k)| all[(i * 4 + j) * 5 + k].exp())
                    .sum();
                (sum.ln(), 0.0)
            })
            .collect();
        assert_near(&y, &rounded(expected, dtype), tolerance(dtype), "logsumexp");
    }
    let x = of(&[f32::NEG_INFINITY; 2], &[2]);
    let y = one(
        &Composite::LogSumExp {
            axes: Axes::new(&[0]),
        }
        .into(),
        &[&x],
    );
    assert_eq!(y.to_vec::<f32>().unwrap(), [f32::NEG_INFINITY]);
}

#[test]
fn norms_over_trailing_axes() {
    for dtype in FLOATS {
        let mut dice = Dice::new(dtype as u64 + 9);
        for centre in [true, false] {
            for axis in [1usize, 2] {
                let sizes = [3, 4, 25];
                let x = view(&mut dice, dtype, &sizes, false);
                let scale = view(&mut dice, dtype, &sizes[axis..], false);
                let bias = view(&mut dice, dtype, &sizes[axis..], false);
                let epsilon = 1e-3;
                let op: Op = if centre {
                    Composite::LayerNorm {
                        axis,
                        epsilon: epsilon.into(),
                    }
                    .into()
                } else {
                    Composite::RmsNorm {
                        axis,
                        epsilon: epsilon.into(),
                    }
                    .into()
                };
                let inner: usize = sizes[axis..].iter().product();
                let all = x.to_host().unwrap().to_f64();
                let (s, b) = (
                    scale.to_host().unwrap().to_f64(),
                    bias.to_host().unwrap().to_f64(),
                );
                for given in 0..if centre { 3 } else { 2 } {
                    let inputs = [&x, &scale, &bias];
                    let y = one(&op, &inputs[..=given]);
                    let found = y.to_host().unwrap().to_f64();
                    for (row, found) in all.chunks(inner).zip(found.chunks(inner)) {
                        let mean = if centre {
                            row.iter().sum::<f64>() / inner as f64
                        } else {
                            0.0
                        };
                        let var =
                            row.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / inner as f64;
                        for i in 0..inner {
                            let mut e = (row[i] - mean) / (var + epsilon).sqrt();
                            if given > 0 {
                                e *= s[i];
                            }
                            if given > 1 {
                                e += b[i];
                            }
                            assert!(
                                (found[i] - e).abs() < tolerance(dtype) * 8.0,
                                "{dtype} {} {e}",
                                found[i]
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_backward_pass_of_a_layer_norm_is_its_expansion() {
    for dtype in FLOATS {
        let mut dice = Dice::new(dtype as u64 + 29);
        for (sizes, axis) in [
            (&[3, 4, 25][..], 1),
            (&[300, 37], 1),
            (&[2, 70], 0),
            (&[5, 1], 1),
            (&[0, 6], 1),
        ] {
            let epsilon = 1e-3.into();
            let op: Op = Composite::LayerNormGrad { axis, epsilon }.into();
            let x = view(&mut dice, dtype, sizes, false);
            let ct = view(&mut dice, dtype, sizes, false);
            let scale = view(&mut dice, dtype, &sizes[axis..], false);
            for given in 2..=3 {
                let inputs = &[&x, &ct, &scale][..given];
                let wide: Vec<Tensor> = inputs
                    .iter()
                    .map(|x| one(&Op::Cast(DType::F64), &[x]))
                    .collect();
                let wide: Vec<&Tensor> = wide.iter().collect();
                let expected = op.expand(&wide).unwrap().into_vec();
                let found = many(&op, inputs);
                assert_eq!(found.len(), 3);
                for (found, expected) in found.iter().zip(&expected) {
                    assert_eq!(found.shape(), expected.shape());
                    let expected = expected.to_host().unwrap().to_f64();
                    let largest = expected.iter().fold(1.0f64, |m, v| m.max(v.abs()));
                    for (f, e) in found.to_host().unwrap().to_f64().iter().zip(expected) {
                        let near = (f - e).abs() < tolerance(dtype) * 8.0 * largest;
                        assert!(near, "{dtype} {sizes:?}: {f} {e}");
                    }
                }
            }
        }
    }
}

#[test]
fn activations() {
    for dtype in FLOATS {
        let mut dice = Dice::new(dtype as u64 + 19);
        let x = view(&mut dice, dtype, &[7, 9], false);
        let phi = |x: f64| 0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        for (op, f) in [
            (
                Composite::Relu {},
                &(|x: f64| x.max(0.0)) as &dyn Fn(f64) -> f64,
            ),
            (Composite::Sigmoid {}, &sigmoid),
            (Composite::Silu {}, &move |x| x * sigmoid(x)),
            (Composite::Gelu { approximate: false }, &move |x| x * phi(x)),
            (Composite::Gelu { approximate: true }, &|x: f64| {
                0.5 * x * (1.0 + (0.797_884_560_802_865_4 * (x + 0.044_715 * x * x * x)).tanh())
            }),
        ] {
            let name = op.name();
            let y = one(&op.into(), &[&x]);
            let expected: Vec<_> = x
                .to_host()
                .unwrap()
                .to_f64()
                .into_iter()
                .map(|v| (f(v), 0.0))
                .collect();
            let found = y.to_host().unwrap().to_f64();
            for (f, e) in found.iter().zip(rounded(expected, dtype)) {
                assert!(
                    near(*f, e.0, tolerance(dtype)) || (f - e.0).abs() < tolerance(dtype) * 0.1,
                    "{name} {dtype}: {f} {e:?}"
                );
            }
        }
    }
    let x = of(
        &[-9.0f32, -6.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY],
        &[5],
    );
    let y = one(&Composite::Gelu { approximate: false }.into(), &[&x])
        .to_vec::<f32>()
        .unwrap();
    assert!(
        near(f64::from(y[0]), -1.015_8e-18, 1e-3) && near(f64::from(y[1]), -5.919_5e-9, 1e-4),
        "{y:?}"
    );
    assert!(y[2].is_nan() && y[3] == f32::INFINITY);
    let y = one(&Composite::Relu {}.into(), &[&of(&[-3i32, 4], &[2])]);
    assert_eq!(y.to_vec::<i32>().unwrap(), [0, 4]);
}
