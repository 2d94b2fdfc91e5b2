use crate::tensors::*;
use clematis_core::op::{Binary, Compare, Unary};
use clematis_core::{DType, Op, Scalar, Tensor};
use clematis_native::math::{double, integer::Integer, special};
use num_complex::Complex;

type C = Complex<f64>;

/// The definition of a unary op on floats and complex numbers, in f64.
fn unary(u: Unary, z: C, complex: bool) -> C {
    let x = z.re;
    let real = |v: f64| C::new(v, 0.0);
    let truth = |b: bool| real(f64::from(u8::from(b)));
    if complex {
        return match u {
            Unary::Neg => -z,
            Unary::Positive => z,
            Unary::Abs => real(z.norm()),
            Unary::Sign => {
                if z.norm() == 0.0 {
                    z
                } else {
                    z / z.norm()
                }
            }
            Unary::Square => z * z,
            Unary::Reciprocal => z.inv(),
            Unary::Sqrt => z.sqrt(),
            Unary::Rsqrt => z.sqrt().inv(),
            Unary::Exp => z.exp(),
            Unary::Exp2 => (z * std::f64::consts::LN_2).exp(),
            Unary::Expm1 => z.exp() - 1.0,
            Unary::Log => z.ln(),
            Unary::Log2 => z.ln() / std::f64::consts::LN_2,
            Unary::Log10 => z.ln() / std::f64::consts::LN_10,
            Unary::Log1p => (z + 1.0).ln(),
            Unary::Sin => z.sin(),
            Unary::Cos => z.cos(),
            Unary::Tan => z.tan(),
            Unary::Asin => z.asin(),
            Unary::Acos => z.acos(),
            Unary::Atan => z.atan(),
            Unary::Sinh => z.sinh(),
            Unary::Cosh => z.cosh(),
            Unary::Tanh => z.tanh(),
            Unary::Asinh => z.asinh(),
            Unary::Acosh => z.acosh(),
            Unary::Atanh => z.atanh(),
            Unary::Round => C::new(z.re.round_ties_even(), z.im.round_ties_even()),
            Unary::Real => real(z.re),
            Unary::Imag => real(z.im),
            Unary::Conj => z.conj(),
            Unary::IsNan => truth(z.is_nan()),
            Unary::IsInf => truth(z.is_infinite()),
            Unary::IsFinite => truth(z.is_finite()),
            Unary::LogicalNot => truth(z.re == 0.0 && z.im == 0.0),
            other => panic!("{other:?} of complex numbers"),
        };
    }
    real(match u {
        Unary::Neg => -x,
        Unary::Positive | Unary::Real | Unary::Conj => x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 {
                0.0
            } else if x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Square => x * x,
        Unary::Reciprocal => x.recip(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => x.sqrt().recip(),
        Unary::Cbrt => x.cbrt(),
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Log => x.ln(),
        Unary::Log2 => x.log2(),
        Unary::Log10 => x.log10(),
        Unary::Log1p => x.ln_1p(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Sinh => x.sinh(),
        Unary::Cosh => x.cosh(),
        Unary::Tanh => x.tanh(),
        Unary::Asinh => libm::asinh(x),
        Unary::Acosh => x.acosh(),
        Unary::Atanh => x.atanh(),
        Unary::Erf => libm::erf(x),
        Unary::Erfc => libm::erfc(x),
        Unary::Erfinv => special::erfinv(x),
        Unary::Lgamma => libm::lgamma(x),
        Unary::Digamma => special::digamma(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Trunc => x.trunc(),
        Unary::Round => x.round_ties_even(),
        Unary::Imag => 0.0,
        Unary::IsNan => return truth(x.is_nan()),
        Unary::IsInf => return truth(x.is_infinite()),
        Unary::IsFinite => return truth(x.is_finite()),
        Unary::Signbit => return truth(x.is_sign_negative()),
        Unary::LogicalNot => return truth(x == 0.0),
        Unary::BitwiseNot => panic!("bits of a float"),
    })
}

#[test]
fn unary_ops_on_floats_and_complex_numbers() {
    for dtype in [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::C64,
        DType::C128,
    ] {
        for &u in Unary::ALL.iter().filter(|u| u.takes().includes(dtype)) {
            let mut dice = Dice::new(u as u64 * 31 + dtype as u64);
            for rank in 0..4 {
                let sizes = dice.sizes(rank, 5);
                // Special values of complex functions are covered by the functions' own tests.
                let x = view(&mut dice, dtype, &sizes, !dtype.is_complex());
                let y = one(&Op::Unary(u), &[&x]);
                let out = y.dtype();
                let expected: Vec<_> = x
                    .to_host()
                    .unwrap()
                    .to_complex()
                    .into_iter()
                    .map(|(re, im)| unary(u, C::new(re, im), dtype.is_complex()))
                    .map(|z| {
                        let z = Scalar::Complex(z.re.into(), z.im.into());
                        if out.is_complex() {
                            z.cast(out).as_complex()
                        } else {
                            Scalar::from(z.as_f64()).cast(out).as_complex()
                        }
                    })
                    .collect();
                let found = y.to_host().unwrap().to_complex();
                let loose = tolerance(dtype) * if dtype.is_complex() { 40.0 } else { 4.0 };
                for ((f, e), x) in found.iter().zip(&expected).zip(values(&x)) {
                    let size = e.0.abs().max(e.1.abs());
                    let fine = |a: f64, b: f64| {
                        near(a, b, loose) || (a - b).abs() <= loose * size.max(1e-4)
                    };
                    // Near a zero, relative error is meaningless; next to the poles of gamma as well.
                    let wild = matches!(u, Unary::Lgamma | Unary::Digamma | Unary::Tan)
                        && (f.0 - e.0).abs() < 1e-2 * (1.0 + e.0.abs());
                    assert!(
                        fine(f.0, e.0) && fine(f.1, e.1) || wild,
                        "{u:?} {dtype} of {x}: {f:?}, not {e:?}"
                    );
                }
            }
        }
    }
}

fn wrap(v: i128, dtype: DType) -> Scalar {
    let low = v as u64;
    match dtype {
        DType::U64 => Scalar::from(low),
        _ => Scalar::Int(low as i64).cast(dtype),
    }
}

#[test]
fn unary_ops_on_integers_and_bool() {
    for dtype in DType::ALL
        .into_iter()
        .filter(|d| d.is_int() || *d == DType::Bool)
    {
        for &u in Unary::ALL.iter().filter(|u| u.takes().includes(dtype)) {
            let mut dice = Dice::new(u as u64 * 37 + dtype as u64);
            let sizes = dice.sizes(3, 6);
            let x = view(&mut dice, dtype, &sizes, true);
            let y = one(&Op::Unary(u), &[&x]);
            let expected: Vec<Scalar> = values(&x)
                .into_iter()
                .map(|s| {
                    let v = s.as_i128();
                    let truth = Scalar::Bool;
                    match u {
                        Unary::Neg => wrap(-v, dtype),
                        Unary::Abs => wrap(v.abs(), dtype),
                        Unary::Sign => wrap(v.signum(), dtype),
                        Unary::Square => wrap(v.wrapping_mul(v), dtype),
                        Unary::BitwiseNot if dtype == DType::Bool => truth(v == 0),
                        Unary::BitwiseNot => wrap(!v, dtype),
                        Unary::LogicalNot => truth(v == 0),
                        Unary::IsNan | Unary::IsInf => truth(false),
                        Unary::IsFinite => truth(true),
                        Unary::Signbit => truth(v < 0),
                        Unary::Imag => wrap(0, dtype),
                        _ => s,
                    }
                })
                .collect();
            assert_same(&y, &expected, &format!("{u:?} {dtype}"));
        }
    }
}

fn binary_real(b: Binary, x: f64, y: f64) -> f64 {
    let truth = |b: bool| f64::from(u8::from(b));
    match b {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::FloorDivide => clematis_native::math::real::double::floor_divide(x, y),
        Binary::Remainder => clematis_native::math::real::double::remainder(x, y),
        Binary::Fmod => x % y,
        Binary::Pow => x.powf(y),
        Binary::Atan2 => x.atan2(y),
        Binary::Hypot => x.hypot(y),
        Binary::Copysign => x.copysign(y),
        Binary::Logaddexp => double::logaddexp(x, y),
        Binary::Polygamma => {
            if x >= 0.0 && x.fract() == 0.0 && x < 4e9 {
                special::polygamma(x as u32, y)
            } else {
                f64::NAN
            }
        }
        Binary::Maximum => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.max(y)
            }
        }
        Binary::Minimum => {
            if x.is_nan() || y.is_nan() {
                f64::NAN
            } else {
                x.min(y)
            }
        }
        Binary::LogicalAnd => truth(x != 0.0 && y != 0.0),
        Binary::LogicalOr => truth(x != 0.0 || y != 0.0),
        Binary::LogicalXor => truth((x != 0.0) != (y != 0.0)),
        other => panic!("{other:?} of floats"),
    }
}

fn shape_of(x: &Tensor, y: &Tensor) -> Vec<usize> {
    x.shape().broadcast(y.shape()).unwrap().sizes().to_vec()
}

#[test]
fn binary_ops_on_floats() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        for &b in Binary::ALL.iter().filter(|b| b.takes().includes(dtype)) {
            if matches!(b, Binary::Complex | Binary::Nextafter) {
                continue;
            }
            let mut dice = Dice::new(b as u64 * 41 + dtype as u64);
            for rank in 0..4 {
                let sizes = dice.sizes(rank, 5);
                // The polygamma function at poles and the powers of huge numbers differ in rounding only.
                let special = !matches!(b, Binary::Polygamma | Binary::Pow);
                let (x, y) = (
                    operand(&mut dice, dtype, &sizes, special),
                    operand(&mut dice, dtype, &sizes, special),
                );
                let z = one(&Op::Binary(b), &[&x, &y]);
                let sizes = shape_of(&x, &y);
                let expected = broadcast_values(&x, &sizes)
                    .into_iter()
                    .zip(broadcast_values(&y, &sizes))
                    .map(|(x, y)| {
                        (
                            Scalar::from(binary_real(b, x.as_f64(), y.as_f64()))
                                .cast(z.dtype())
                                .as_f64(),
                            0.0,
                        )
                    });
                let expected: Vec<_> = expected.collect();
                // Quotients that are whole except for rounding, as -3e38 // 1e-40, need not agree in a narrow type.
                if matches!(b, Binary::FloorDivide | Binary::Remainder) && dtype != DType::F64 {
                    continue;
                }
                assert_near(
                    &z,
                    &expected,
                    tolerance(dtype) * 4.0,
                    &format!("{b:?} {dtype}"),
                );
            }
        }
    }
}

#[test]
fn binary_ops_on_integers_and_bool() {
    for dtype in DType::ALL
        .into_iter()
        .filter(|d| d.is_int() || *d == DType::Bool)
    {
        for &b in Binary::ALL.iter().filter(|b| b.takes().includes(dtype)) {
            let mut dice = Dice::new(b as u64 * 43 + dtype as u64);
            for rank in 0..4 {
                let sizes = dice.sizes(rank, 5);
                let (x, y) = (
                    operand(&mut dice, dtype, &sizes, true),
                    operand(&mut dice, dtype, &sizes, true),
                );
                let z = one(&Op::Binary(b), &[&x, &y]);
                let sizes = shape_of(&x, &y);
                let bits = 8 * dtype.size() as i128;
                let expected: Vec<Scalar> = broadcast_values(&x, &sizes)
                    .into_iter()
                    .zip(broadcast_values(&y, &sizes))
                    .map(|(x, y)| {
                        let (x, y) = (x.as_i128(), y.as_i128());
                        let truth = Scalar::Bool;
                        let logic = dtype == DType::Bool;
                        match b {
                            Binary::Add | Binary::BitwiseOr if logic => truth(x | y != 0),
                            Binary::Mul | Binary::BitwiseAnd if logic => truth(x & y != 0),
                            Binary::BitwiseXor if logic => truth(x ^ y != 0),
                            Binary::LogicalAnd => truth(x != 0 && y != 0),
                            Binary::LogicalOr => truth(x != 0 || y != 0),
                            Binary::LogicalXor => truth((x != 0) != (y != 0)),
                            Binary::Add => wrap(x + y, dtype),
                            Binary::Sub => wrap(x - y, dtype),
                            Binary::Mul => wrap(x.wrapping_mul(y), dtype),
                            Binary::FloorDivide | Binary::Remainder | Binary::Fmod if y == 0 => {
                                wrap(0, dtype)
                            }
                            Binary::FloorDivide => wrap(
                                x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0),
                                dtype,
                            ),
                            Binary::Remainder => wrap(
                                x - y
                                    * (x.div_euclid(y) - i128::from(y < 0 && x.rem_euclid(y) != 0)),
                                dtype,
                            ),
                            Binary::Fmod => wrap(x % y, dtype),
                            Binary::Pow => match dtype {
                                DType::I64 => Scalar::from((x as i64).power(y as i64)),
                                DType::U64 => Scalar::from((x as u64).power(y as u64)),
                                _ => power(x, y, dtype),
                            },
                            Binary::Maximum => wrap(x.max(y), dtype),
                            Binary::Minimum => wrap(x.min(y), dtype),
                            Binary::BitwiseAnd => wrap(x & y, dtype),
                            Binary::BitwiseOr => wrap(x | y, dtype),
                            Binary::BitwiseXor => wrap(x ^ y, dtype),
                            Binary::ShiftLeft => {
                                wrap(if (0..bits).contains(&y) { x << y } else { 0 }, dtype)
                            }
                            Binary::ShiftRight => {
                                wrap(if y < 0 { 0 } else { x >> y.min(bits) }, dtype)
                            }
                            other => panic!("{other:?} of integers"),
                        }
                    })
                    .collect();
                assert_same(&z, &expected, &format!("{b:?} {dtype}"));
            }
        }
    }
}

fn power(x: i128, y: i128, dtype: DType) -> Scalar {
    if y < 0 {
        return wrap(
            match x {
                1 => 1,
                -1 if y % 2 == 0 => 1,
                -1 => -1,
                _ => 0,
            },
            dtype,
        );
    }
    // Low bits of a product depend on low bits alone.
    let (mut base, mut left, mut all) = (x as u64, y as u64, 1u64);
    while left > 0 {
        if left & 1 == 1 {
            all = all.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        left >>= 1;
    }
    wrap(i128::from(all as i64), dtype)
}

#[test]
fn comparisons_of_every_dtype() {
    for dtype in DType::ALL {
        for &c in Compare::ALL {
            if dtype.is_complex() && !matches!(c, Compare::Equal | Compare::NotEqual) {
                continue;
            }
            let mut dice = Dice::new(c as u64 * 47 + dtype as u64);
            let sizes = dice.sizes(3, 5);
            let (x, y) = (
                operand(&mut dice, dtype, &sizes, true),
                operand(&mut dice, dtype, &sizes, true),
            );
            let z = one(&Op::Compare(c), &[&x, &y]);
            let sizes = shape_of(&x, &y);
            let expected: Vec<Scalar> = broadcast_values(&x, &sizes)
                .into_iter()
                .zip(broadcast_values(&y, &sizes))
                .map(|(x, y)| {
                    let exact = dtype.is_int();
                    let (a, b) = (x.as_complex(), y.as_complex());
                    let order = if exact {
                        Some(x.as_i128().cmp(&y.as_i128()))
                    } else {
                        a.0.partial_cmp(&b.0)
                    };
                    let equal = order.is_some_and(|o| o.is_eq()) && a.1 == b.1;
                    Scalar::Bool(match c {
                        Compare::Equal => equal,
                        Compare::NotEqual => !equal,
                        Compare::Less => order.is_some_and(|o| o.is_lt()),
                        Compare::LessEqual => order.is_some_and(|o| o.is_le()),
                        Compare::Greater => order.is_some_and(|o| o.is_gt()),
                        Compare::GreaterEqual => order.is_some_and(|o| o.is_ge()),
                    })
                })
                .collect();
            assert_same(&z, &expected, &format!("{c:?} {dtype}"));
        }
    }
}

#[test]
fn complex_arithmetic_and_parts() {
    let mut dice = Dice::new(5);
    for dtype in [DType::C64, DType::C128] {
        let (x, y) = (
            view(&mut dice, dtype, &[3, 4], false),
            view(&mut dice, dtype, &[3, 4], false),
        );
        let pairs: Vec<(C, C)> = x
            .to_host()
            .unwrap()
            .to_complex()
            .into_iter()
            .zip(y.to_host().unwrap().to_complex())
            .map(|(a, b)| (C::new(a.0, a.1), C::new(b.0, b.1)))
            .collect();
        for (b, f) in [
            (Binary::Add, (|x, y| x + y) as fn(C, C) -> C),
            (Binary::Sub, |x, y| x - y),
            (Binary::Mul, |x, y| x * y),
            (Binary::Div, |x, y| x / y),
            (Binary::Pow, |x, y| x.powc(y)),
        ] {
            let expected: Vec<_> = pairs
                .iter()
                .map(|&(x, y)| f(x, y))
                .map(|z| (z.re, z.im))
                .collect();
            assert_near(
                &one(&Op::Binary(b), &[&x, &y]),
                &expected,
                tolerance(dtype) * 300.0,
                &format!("{b:?}"),
            );
        }
        let (re, im) = (
            one(&Op::Unary(Unary::Real), &[&x]),
            one(&Op::Unary(Unary::Imag), &[&x]),
        );
        let whole = one(&Op::Binary(Binary::Complex), &[&re, &im]);
        assert_same(&whole, &values(&x), "complex");
    }
}

#[test]
fn the_neighbour_of_a_half_is_a_half() {
    for dtype in [DType::F16, DType::BF16, DType::F32] {
        let x = tensor(dtype, &[3], &[1.0.into(), 0.0.into(), (-2.0).into()]);
        let up = one(
            &Op::Binary(Binary::Nextafter),
            &[&x, &Tensor::scalar(9.0, dtype)],
        );
        for (x, up) in values(&x).into_iter().zip(values(&up)) {
            let (x, up) = (x.as_f64(), up.as_f64());
            assert!(
                up > x && Scalar::from((x + up) / 2.0).cast(dtype).as_f64() != (x + up) / 2.0
                    || x == 0.0 && up > 0.0
            );
        }
    }
}

#[test]
fn casts_between_all_dtypes() {
    for from in DType::ALL {
        for to in DType::ALL {
            let mut dice = Dice::new(from as u64 * 16 + to as u64);
            let sizes = dice.sizes(2, 9);
            let x = view(&mut dice, from, &sizes, true);
            let y = one(&Op::Cast(to), &[&x]);
            let expected: Vec<Scalar> = values(&x)
                .into_iter()
                .map(|v| match v {
                    // A complex number gives its real part to everything but bool and complex.
                    Scalar::Complex(re, _) if !to.is_complex() && to != DType::Bool => {
                        Scalar::Float(re).cast(to)
                    }
                    other => other.cast(to),
                })
                .collect();
            // A number goes through f64 on its way to half precision; the engine rounds better where f64 is inexact.
            if !(matches!(from, DType::I64 | DType::U64) && to.is_float()) {
                assert_same(&y, &expected, &format!("{from} to {to}"));
            }
        }
    }
}

#[test]
fn rounding_to_a_half_happens_once() {
    // Half a unit of bf16 above 1, and a bit that f32 cannot hold.
    let x = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
    let y = one(&Op::Cast(DType::BF16), &[&of(&[x], &[1])]);
    assert_eq!(values(&y)[0].as_f64(), 1.0 + 2f64.powi(-7));
    let x = (1i64 << 62) + (1 << 54) + 1;
    let y = one(&Op::Cast(DType::BF16), &[&of(&[x, -x], &[2])]);
    assert_eq!(values(&y)[0].as_f64(), 2f64.powi(62) + 2f64.powi(55));
    assert_eq!(values(&y)[1].as_f64(), -(2f64.powi(62) + 2f64.powi(55)));
}

#[test]
fn select_and_clamp() {
    for dtype in DType::ALL {
        let mut dice = Dice::new(dtype as u64 + 900);
        for rank in 0..4 {
            let sizes = dice.sizes(rank, 5);
            let c = operand(&mut dice, DType::Bool, &sizes, true);
            let (x, y) = (
                operand(&mut dice, dtype, &sizes, true),
                operand(&mut dice, dtype, &sizes, true),
            );
            let z = one(&Op::Select, &[&c, &x, &y]);
            let sizes = z.shape().sizes().to_vec();
            let (c, a, b) = (
                broadcast_values(&c, &sizes),
                broadcast_values(&x, &sizes),
                broadcast_values(&y, &sizes),
            );
            let expected: Vec<Scalar> = (0..c.len())
                .map(|i| if c[i].as_bool() { a[i] } else { b[i] })
                .collect();
            assert_same(&z, &expected, &format!("select {dtype}"));
            if dtype.is_complex() || dtype == DType::Bool {
                continue;
            }
            let w = operand(&mut dice, dtype, &z.shape().sizes(), true);
            let z = one(&Op::Clamp, &[&x, &w, &y]);
            let up = one(&Op::Binary(Binary::Maximum), &[&w, &x]);
            assert_same(
                &z,
                &values(&one(&Op::Binary(Binary::Minimum), &[&up, &y])),
                &format!("clamp {dtype}"),
            );
        }
    }
}

#[test]
fn large_operands_take_threads_and_blocks() {
    let n = 300;
    let x: Vec<f32> = (0..n * n).map(|i| i as f32).collect();
    let x = of(&x, &[n, n]);
    let t = one(&Op::Transpose([1, 0].into()), &[&x]);
    let row = of(&vec![0.5f32; n], &[n]);
    let all = one(&Op::Binary(Binary::Add), &[&x, &t]);
    let all = one(&Op::Binary(Binary::Mul), &[&all, &row]);
    let found = all.to_vec::<f32>().unwrap();
    for i in 0..n {
        for j in 0..n {
            assert_eq!(
                found[i * n + j],
                ((i * n + j) as f32 + (j * n + i) as f32) * 0.5
            );
        }
    }
    let tanh = one(
        &Op::Cast(DType::F16),
        &[&one(&Op::Unary(Unary::Tanh), &[&t])],
    );
    assert_eq!(tanh.shape(), &[n, n]);
}

#[test]
fn results_too_large_for_caches_are_whole() {
    // Beyond this size rows use streaming stores; the odd length leaves a tail.
    let n = 3_000_001;
    let x: Vec<f32> = (0..n).map(|i| (i % 1009) as f32).collect();
    let x = of(&x, &[n]);
    let z = one(&Op::Binary(Binary::Add), &[&x, &x])
        .to_vec::<f32>()
        .unwrap();
    assert!((0..n).all(|i| z[i] == 2.0 * (i % 1009) as f32));
}
