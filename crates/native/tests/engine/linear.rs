use crate::tensors::*;
use clematis_core::op::{
    Cholesky, Conv, Dot, Fft, FftKind, Transposed, TriangularSolve, Window, WindowGather,
    WindowKind, WindowScatter,
};
use clematis_core::{Axes, DType, Op, Tensor};

/// The sums that define a `dot_general`.
fn naive(p: &Dot, x: &Tensor, y: &Tensor) -> Vec<(f64, f64, i128)> {
    let (whole_x, whole_y) = (values(x), values(y));
    let (xs, ys) = (x.shape().sizes(), y.shape().sizes());
    let (a, b) = (
        x.to_host().unwrap().to_complex(),
        y.to_host().unwrap().to_complex(),
    );
    let free = |rank: usize, one: &[usize], two: &[usize]| {
        (0..rank)
            .filter(|i| !one.contains(i) && !two.contains(i))
            .collect::<Vec<_>>()
    };
    let (fx, fy) = (
        free(xs.len(), &p.lhs_batch, &p.lhs_contract),
        free(ys.len(), &p.rhs_batch, &p.rhs_contract),
    );
    let pick = |axes: &[usize], sizes: &[usize]| axes.iter().map(|&i| sizes[i]).collect::<Vec<_>>();
    let mut out = Vec::new();
    for batch in indices(&pick(&p.lhs_batch, &xs)) {
        for i in indices(&pick(&fx, &xs)) {
            for j in indices(&pick(&fy, &ys)) {
                let mut sum = num_complex::Complex::new(0.0, 0.0);
                let mut whole = 0i128;
                for k in indices(&pick(&p.lhs_contract, &xs)) {
                    let (mut at, mut to) = (vec![0; xs.len()], vec![0; ys.len()]);
                    p.lhs_batch
                        .iter()
                        .zip(&batch)
                        .for_each(|(&a, &v)| at[a] = v);
                    p.rhs_batch
                        .iter()
                        .zip(&batch)
                        .for_each(|(&a, &v)| to[a] = v);
                    p.lhs_contract.iter().zip(&k).for_each(|(&a, &v)| at[a] = v);
                    p.rhs_contract.iter().zip(&k).for_each(|(&a, &v)| to[a] = v);
                    fx.iter().zip(&i).for_each(|(&a, &v)| at[a] = v);
                    fy.iter().zip(&j).for_each(|(&a, &v)| to[a] = v);
                    let (from, with) = (place(&xs, &at), place(&ys, &to));
                    let (u, v) = (a[from], b[with]);
                    whole = whole.wrapping_add(
                        whole_x[from]
                            .as_i128()
                            .wrapping_mul(whole_y[with].as_i128()),
                    );
                    sum +=
                        num_complex::Complex::new(u.0, u.1) * num_complex::Complex::new(v.0, v.1);
                }
                out.push((sum.re, sum.im, whole));
            }
        }
    }
    out
}

#[test]
fn products_over_any_axes() {
    for dtype in DType::ALL {
        let mut dice = Dice::new(dtype as u64 + 2);
        for round in 0..25 {
            // Sizes by role; operands hold their axes in a random order.
            let (nb, nk, nx, ny) = (dice.below(2), dice.below(3), dice.below(3), dice.below(3));
            let (bs, ks) = (dice.sizes(nb, 3), dice.sizes(nk, 4));
            let (fx, fy) = (dice.sizes(nx, 4), dice.sizes(ny, 4));
            let mut shuffle = |n: usize| {
                let mut order: Vec<usize> = (0..n).collect();
                for i in (1..n).rev() {
                    order.swap(i, dice.below(i + 1));
                }
                order
            };
            // Role i of the left operand is axis left[i].
            let (left, right) = (shuffle(nb + nk + nx), shuffle(nb + nk + ny));
            let sizes = |places: &[usize], free: &[usize]| {
                let mut all = vec![0; places.len()];
                for (i, &s) in bs.iter().chain(&ks).chain(free).enumerate() {
                    all[places[i]] = s;
                }
                all
            };
            let (xs, ys) = (sizes(&left, &fx), sizes(&right, &fy));
            let p = Dot {
                lhs_batch: Axes::new(&left[..nb]),
                rhs_batch: Axes::new(&right[..nb]),
                lhs_contract: Axes::new(&left[nb..nb + nk]),
                rhs_contract: Axes::new(&right[nb..nb + nk]),
            };
            let (x, y) = (
                view(&mut dice, dtype, &xs, false),
                view(&mut dice, dtype, &ys, false),
            );
            let z = one(&p.clone().into(), &[&x, &y]);
            let expected = naive(&p, &x, &y);
            let found = z.to_host().unwrap().to_complex();
            for ((f, z), e) in found.iter().zip(values(&z)).zip(&expected) {
                if dtype.is_inexact() {
                    let t = tolerance(dtype) * 100.0;
                    assert!(
                        (f.0 - e.0).abs() < t && (f.1 - e.1).abs() < t,
                        "{round} {dtype} {p:?} {xs:?} {ys:?}: {f:?} {e:?}"
                    );
                } else if dtype == DType::Bool {
                    assert_eq!(f.0 != 0.0, e.0 != 0.0);
                } else {
                    // Low bits of sums and products depend on low bits alone.
                    let low = |v: i128| v & ((1i128 << (8 * dtype.size())) - 1);
                    assert_eq!(low(z.as_i128()), low(e.2), "{dtype} {p:?}");
                }
            }
        }
    }
}

#[test]
fn a_convolution_in_two_layouts() {
    let mut dice = Dice::new(8);
    let (x, w) = (
        view(&mut dice, DType::F32, &[2, 3, 6, 5], false),
        view(&mut dice, DType::F32, &[4, 3, 3, 2], false),
    );
    let nchw = Conv {
        strides: Axes::new(&[2, 1]),
        padding: [(1.into(), 0.into()), (0.into(), 1.into())]
            .into_iter()
            .collect(),
        lhs_dilation: Axes::new(&[1, 1]),
        rhs_dilation: Axes::new(&[1, 2]),
        lhs_layout: Axes::new(&[0, 1, 2, 3]),
        rhs_layout: Axes::new(&[0, 1, 2, 3]),
        out_layout: Axes::new(&[0, 1, 2, 3]),
        feature_groups: 1,
        batch_groups: 1,
    };
    let y = one(&nchw.clone().into(), &[&x, &w]);
    let nhwc = Conv {
        lhs_layout: Axes::new(&[0, 3, 1, 2]),
        out_layout: Axes::new(&[0, 3, 1, 2]),
        ..nchw
    };
    let last = Axes::new(&[0, 2, 3, 1]);
    let z = one(
        &nhwc.into(),
        &[&one(&Op::Transpose(last.clone()), &[&x]), &w],
    );
    let y = one(&Op::Transpose(last), &[&y]);
    assert_eq!(y.shape(), z.shape());
    let expected: Vec<_> = y
        .to_host()
        .unwrap()
        .to_f64()
        .into_iter()
        .map(|v| (v, 0.0))
        .collect();
    assert_near(&z, &expected, 1e-4, "conv");
    // One element by hand.
    let (a, b) = (x.to_host().unwrap().to_f64(), w.to_host().unwrap().to_f64());
    let mut sum = 0.0;
    for c in 0..3 {
        for i in 0..3usize {
            for j in 0..2 {
                let (r, s) = (2 + i as i64 - 1, 1 + 2 * j);
                if (0..6).contains(&r) && s < 5 {
                    sum += a[((3 + c) * 6 + r as usize) * 5 + s] * b[((2 * 3 + c) * 3 + i) * 2 + j];
                }
            }
        }
    }
    let found = z.to_host().unwrap().to_f64();
    let sizes = z.shape().sizes();
    assert!(near(found[place(&sizes, &[1, 1, 1, 2])], sum, 1e-4));
}

#[test]
fn factors_multiply_back() {
    let mut dice = Dice::new(4);
    let matmul = Dot {
        lhs_batch: Axes::new(&[0]),
        rhs_batch: Axes::new(&[0]),
        lhs_contract: Axes::new(&[2]),
        rhs_contract: Axes::new(&[1]),
    };
    for dtype in [DType::F32, DType::F64] {
        let x = view(&mut dice, dtype, &[2, 4, 4], false);
        let flip = Op::Transpose(Axes::new(&[0, 2, 1]));
        let squared = one(&matmul.clone().into(), &[&x, &one(&flip, &[&x])]);
        let expected = squared.to_host().unwrap().to_complex();
        let l = one(&Cholesky { upper: false }.into(), &[&squared]);
        let u = one(&Cholesky { upper: true }.into(), &[&squared]);
        for (a, b) in [(&l, &u), (&one(&flip, &[&u]), &one(&flip, &[&l]))] {
            let back = one(&matmul.clone().into(), &[a, b])
                .to_host()
                .unwrap()
                .to_complex();
            assert!(
                back.iter()
                    .zip(&expected)
                    .all(|(f, e)| (f.0 - e.0).abs() < 1e-3)
            );
        }
        let solve = TriangularSolve {
            left: true,
            lower: true,
            transpose: Transposed::No,
            unit_diagonal: false,
        };
        let one_ = one(&solve.into(), &[&l, &l]).to_host().unwrap().to_f64();
        assert!((0..32).all(|i| (one_[i] - f64::from(u8::from(i % 16 % 5 == 0))).abs() < 1e-4));
        assert_eq!(many(&Op::Lu, &[&x]).len(), 3);
    }
    let bad = of(&[1.0f32, 2.0, 2.0, 1.0], &[2, 2]);
    assert!(clematis_core::dispatch::apply(&Cholesky { upper: false }.into(), &[&bad]).is_err());
}

#[test]
fn transforms_come_back() {
    let mut dice = Dice::new(6);
    let x = view(&mut dice, DType::F64, &[3, 6], false);
    let there = Fft {
        kind: FftKind::Real,
        axes: Axes::new(&[0, 1]),
        length: 6.into(),
    };
    let back = Fft {
        kind: FftKind::RealInverse,
        axes: Axes::new(&[0, 1]),
        length: 6.into(),
    };
    let y = one(&there.into(), &[&x]);
    assert_eq!(y.shape(), &[3, 4]);
    let expected = x.to_host().unwrap().to_complex();
    let z = one(&back.into(), &[&y]).to_host().unwrap().to_complex();
    assert!(
        z.iter()
            .zip(&expected)
            .all(|(f, e)| (f.0 - e.0).abs() < 1e-12)
    );
    let c = one(&Op::Cast(DType::C128), &[&x]);
    let f = Fft {
        kind: FftKind::Forward,
        axes: Axes::new(&[1]),
        length: 6.into(),
    };
    let i = Fft {
        kind: FftKind::Inverse,
        axes: Axes::new(&[1]),
        length: 6.into(),
    };
    let z = one(&i.into(), &[&one(&f.into(), &[&c])])
        .to_host()
        .unwrap()
        .to_complex();
    assert!(
        z.iter()
            .zip(&expected)
            .all(|(f, e)| (f.0 - e.0).abs() < 1e-12)
    );
}

#[test]
fn pooling_selects_and_gives_back() {
    let x = of(&[1.0f32, 5.0, 2.0, 7.0, 7.0, 0.0], &[1, 6]);
    let x = one(&Op::Reverse(Axes::new(&[1])), &[&x]);
    let p = Window {
        kind: WindowKind::Max,
        size: Axes::new(&[1, 2]),
        strides: Axes::new(&[1, 2]),
        padding: [(0.into(), 0.into()), (0.into(), 0.into())]
            .into_iter()
            .collect(),
        base_dilation: Axes::new(&[1, 1]),
        window_dilation: Axes::new(&[1, 1]),
    };
    let y = one(&p.clone().into(), &[&x]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [7.0, 7.0, 5.0]);
    let g = of(&[1.0f32, 2.0, 3.0], &[1, 3]);
    let scatter = WindowScatter::try_from(p).unwrap();
    let back = one(&scatter.clone().into(), &[&x, &g]);
    assert_eq!(
        back.to_vec::<f32>().unwrap(),
        [0.0, 1.0, 2.0, 0.0, 3.0, 0.0]
    );
    let z = one(&WindowGather::from(scatter).into(), &[&x, &back]);
    assert_eq!(z.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0]);
}
