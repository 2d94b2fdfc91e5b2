use crate::tensors::*;
use clematis_core::op::{ArgReduce, Cumulative, CumulativeKind, Extreme, Reduce, ReduceKind};
use clematis_core::{Axes, DType, Scalar, Tensor};

/// Elements of each result, in order.
fn groups(x: &Tensor, gone: &[usize]) -> Vec<Vec<Scalar>> {
    let sizes = x.shape().sizes();
    let kept: Vec<usize> = (0..sizes.len()).filter(|a| !gone.contains(a)).collect();
    let kept_sizes: Vec<usize> = kept.iter().map(|&a| sizes[a]).collect();
    let mut out = vec![Vec::new(); kept_sizes.iter().product()];
    let all = values(x);
    for (i, index) in indices(&sizes).enumerate() {
        let at: Vec<usize> = kept.iter().map(|&a| index[a]).collect();
        out[place(&kept_sizes, &at)].push(all[i]);
    }
    out
}

fn fold(kind: ReduceKind, group: &[Scalar], dtype: DType) -> Scalar {
    let int = |v: i128| match dtype {
        DType::U64 => Scalar::from(v as u64),
        _ => Scalar::Int(v as i64).cast(dtype),
    };
    match kind {
        ReduceKind::Any => Scalar::Bool(group.iter().any(|v| v.as_bool())),
        ReduceKind::All => Scalar::Bool(group.iter().all(|v| v.as_bool())),
        ReduceKind::Sum | ReduceKind::Prod if dtype.is_inexact() => {
            let sum = kind == ReduceKind::Sum;
            let mut all = num_complex::Complex::new(if sum { 0.0 } else { 1.0 }, 0.0);
            for v in group {
                let (re, im) = v.as_complex();
                // A product with a zero imaginary part would turn infinity into NaN.
                let real = !dtype.is_complex();
                let v = num_complex::Complex::new(re, im);
                all = if sum {
                    all + v
                } else if real {
                    num_complex::Complex::new(all.re * re, 0.0)
                } else {
                    all * v
                };
            }
            if dtype.is_complex() {
                all.into()
            } else {
                all.re.into()
            }
        }
        ReduceKind::Sum => int(group.iter().fold(0, |a, v| a + v.as_i128())),
        ReduceKind::Prod => int(group.iter().fold(1i128, |a, v| {
            i128::from((a as i64).wrapping_mul(v.as_i128() as i64))
        })),
        ReduceKind::Max | ReduceKind::Min => {
            if let Some(nan) = group.iter().find(|v| v.as_f64().is_nan()) {
                return *nan;
            }
            let beats = |a: &Scalar, b: &Scalar| {
                let order = if dtype.is_float() {
                    a.as_f64().partial_cmp(&b.as_f64()).unwrap()
                } else {
                    a.as_i128().cmp(&b.as_i128())
                };
                if kind == ReduceKind::Max {
                    order.is_gt()
                } else {
                    order.is_lt()
                }
            };
            group
                .iter()
                .copied()
                .reduce(|a, b| if beats(&b, &a) { b } else { a })
                .unwrap()
        }
    }
}

#[test]
fn reductions_over_any_axes_of_any_view() {
    for dtype in DType::ALL {
        for &kind in ReduceKind::ALL {
            let fine = match kind {
                ReduceKind::Any | ReduceKind::All => dtype == DType::Bool,
                ReduceKind::Sum | ReduceKind::Prod => dtype != DType::Bool,
                ReduceKind::Max | ReduceKind::Min => !dtype.is_complex(),
            };
            if !fine {
                continue;
            }
            let mut dice = Dice::new(dtype as u64 * 10 + kind as u64);
            for round in 0..25 {
                let rank = dice.below(5);
                let mut sizes = dice.sizes(rank, 5);
                let gone: Vec<usize> = (0..rank).filter(|_| dice.below(2) == 0).collect();
                if matches!(kind, ReduceKind::Max | ReduceKind::Min) {
                    gone.iter().for_each(|&a| sizes[a] = sizes[a].max(1));
                }
                // In another order a product of huge numbers and zeros has another value.
                let special = round % 2 == 0 && (kind != ReduceKind::Prod || dtype.is_int());
                let x = view(&mut dice, dtype, &sizes, special);
                let y = one(
                    &Reduce {
                        kind,
                        axes: Axes::new(&gone),
                    }
                    .into(),
                    &[&x],
                );
                let expected: Vec<Scalar> = groups(&x, &gone)
                    .iter()
                    .map(|g| fold(kind, g, dtype))
                    .collect();
                let what = format!("{kind:?} {dtype} {sizes:?} {gone:?}");
                let sums = matches!(kind, ReduceKind::Sum | ReduceKind::Prod) && dtype.is_inexact();
                if !sums {
                    assert_same(&y, &expected, &what);
                } else if round % 2 == 1 || !dtype.is_complex() {
                    let scale: f64 = groups(&x, &gone)
                        .iter()
                        .flatten()
                        .map(|v| v.as_f64().abs())
                        .filter(|v| *v < 1e30)
                        .sum();
                    for (f, e) in y.to_host().unwrap().to_complex().iter().zip(&expected) {
                        let e = e.cast(dtype).as_complex();
                        let t = tolerance(dtype);
                        let fine = |f: f64, e: f64| {
                            near(f, e, t * 8.0) || kind == ReduceKind::Sum && (f - e).abs() <= t * scale
                            // Near the edge of the type another order overflows.
                            || e.abs() > 1e4 && !f.is_finite() || e.abs() < 1e-4 && f.abs() < 1e-3
                        };
                        assert!(fine(f.0, e.0) && fine(f.1, e.1), "{what}: {f:?} {e:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn long_sums_are_accurate_in_every_layout() {
    let (m, n) = (1100, 301);
    let x: Vec<f32> = (0..m * n)
        .map(|i| ((i * 7919) % 1000) as f32 * 0.1)
        .collect();
    let exact: f64 = x.iter().map(|&v| f64::from(v)).sum();
    let x = of(&x, &[m, n]);
    let t = one(&clematis_core::Op::Transpose(Axes::new(&[1, 0])), &[&x]);
    for x in [&x, &t] {
        let all = one(
            &Reduce {
                kind: ReduceKind::Sum,
                axes: Axes::new(&[0, 1]),
            }
            .into(),
            &[x],
        );
        assert!(near(all.item().unwrap().as_f64(), exact, 1e-6));
        for axis in 0..2 {
            let part = one(
                &Reduce {
                    kind: ReduceKind::Sum,
                    axes: Axes::new(&[axis]),
                }
                .into(),
                &[x],
            );
            let expected: Vec<_> = groups(x, &[axis])
                .iter()
                .map(|g| (g.iter().map(|v| v.as_f64()).sum(), 0.0))
                .collect();
            assert_near(&part, &expected, 1e-6, "sum");
        }
    }
    let half = one(
        &clematis_core::Op::Cast(DType::BF16),
        &[&of(&vec![1.0f32; 70_000], &[70_000])],
    );
    let all = one(
        &Reduce {
            kind: ReduceKind::Sum,
            axes: Axes::new(&[0]),
        }
        .into(),
        &[&half],
    );
    assert_eq!(
        all.item().unwrap(),
        Scalar::from(70_000.0).cast(DType::BF16)
    );
}

#[test]
fn extremes_stand_where_they_stood_first() {
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        for kind in [Extreme::Max, Extreme::Min] {
            let mut dice = Dice::new(dtype as u64 * 3 + kind as u64);
            for _ in 0..20 {
                let rank = 1 + dice.below(3);
                let axis = dice.below(rank);
                let mut sizes = dice.sizes(rank, 20);
                sizes[axis] = sizes[axis].max(1);
                let x = view(&mut dice, dtype, &sizes, true);
                let y = one(&ArgReduce { kind, axis }.into(), &[&x]);
                let fold = |g: &Vec<Scalar>| {
                    let nan = g.iter().position(|v| v.as_f64().is_nan());
                    nan.unwrap_or_else(|| {
                        let mut best = 0;
                        for (i, v) in g.iter().enumerate() {
                            let order = if dtype.is_float() {
                                v.as_f64().partial_cmp(&g[best].as_f64()).unwrap()
                            } else {
                                v.as_i128().cmp(&g[best].as_i128())
                            };
                            if if kind == Extreme::Max {
                                order.is_gt()
                            } else {
                                order.is_lt()
                            } {
                                best = i;
                            }
                        }
                        best
                    })
                };
                let expected: Vec<Scalar> = groups(&x, &[axis])
                    .iter()
                    .map(|g| Scalar::from(fold(g)))
                    .collect();
                assert_same(
                    &y,
                    &expected,
                    &format!("arg {kind:?} {dtype} {sizes:?} {axis}"),
                );
            }
        }
    }
}

#[test]
fn running_reductions_both_ways() {
    for dtype in DType::ALL {
        for &kind in CumulativeKind::ALL {
            let fine = match kind {
                CumulativeKind::Sum | CumulativeKind::Prod => dtype != DType::Bool,
                CumulativeKind::Max | CumulativeKind::Min => !dtype.is_complex(),
                CumulativeKind::LogSumExp => dtype.is_float(),
            };
            if !fine {
                continue;
            }
            let mut dice = Dice::new(dtype as u64 * 5 + kind as u64);
            for round in 0..12 {
                let rank = 1 + dice.below(3);
                let axis = dice.below(rank);
                let sizes = dice.sizes(rank, 7);
                let reverse = round % 2 == 1;
                let x = view(&mut dice, dtype, &sizes, false);
                let y = one(
                    &Cumulative {
                        kind,
                        axis,
                        reverse,
                    }
                    .into(),
                    &[&x],
                );
                let all = values(&x);
                let expected: Vec<Scalar> = indices(&sizes)
                    .map(|index| {
                        let range: Vec<usize> = if reverse {
                            (index[axis]..sizes[axis]).collect()
                        } else {
                            (0..=index[axis]).collect()
                        };
                        let group: Vec<Scalar> = range
                            .into_iter()
                            .map(|i| {
                                let mut at = index.clone();
                                at[axis] = i;
                                all[place(&sizes, &at)]
                            })
                            .collect();
                        match kind {
                            CumulativeKind::Sum => fold(ReduceKind::Sum, &group, dtype),
                            CumulativeKind::Prod => fold(ReduceKind::Prod, &group, dtype),
                            CumulativeKind::Max => fold(ReduceKind::Max, &group, dtype),
                            CumulativeKind::Min => fold(ReduceKind::Min, &group, dtype),
                            CumulativeKind::LogSumExp => group
                                .iter()
                                .map(|v| v.as_f64().exp())
                                .sum::<f64>()
                                .ln()
                                .into(),
                        }
                    })
                    .collect();
                let what = format!("{kind:?} {dtype} {sizes:?} {axis} {reverse}");
                if dtype.is_inexact() {
                    let scale = 40.0;
                    for (f, e) in y.to_host().unwrap().to_complex().iter().zip(&expected) {
                        let e = e.cast(dtype).as_complex();
                        let t = tolerance(dtype);
                        let fine =
                            |f: f64, e: f64| near(f, e, t * 2.0) || (f - e).abs() <= t * scale;
                        let size = e.0.abs().max(e.1.abs());
                        assert!(
                            fine(f.0, e.0) && fine(f.1, e.1)
                                || (f.0 - e.0).abs() + (f.1 - e.1).abs() < t * 10.0 * size,
                            "{what}: {f:?} {e:?}"
                        );
                    }
                } else {
                    assert_same(&y, &expected, &what);
                }
            }
        }
    }
    let x = of(&[1.0f32, f32::NAN, 3.0, 0.5], &[4]);
    let y = one(
        &Cumulative {
            kind: CumulativeKind::Max,
            axis: 0,
            reverse: false,
        }
        .into(),
        &[&x],
    );
    let y = y.to_vec::<f32>().unwrap();
    assert!(y[0] == 1.0 && y[1..].iter().all(|v| v.is_nan()));
}
