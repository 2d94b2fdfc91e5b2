//! Results must not depend on threads, vector width, or where memory comes from.

use crate::tensors::*;
use clematis_core::op::{Binary, Reduce, ReduceKind, Unary};
use clematis_core::{Axes, Backend, Composite, DType, Op, Support, Tensor};
use clematis_native::{Native, set_thread_limit};
use proptest::prelude::*;

fn bits(x: &Tensor) -> Vec<u8> {
    x.to_host().unwrap().bytes().as_slice::<u8>().to_vec()
}

/// A digest of many kernels at sizes that use threads.
fn digest() -> Vec<Vec<u8>> {
    let mut dice = Dice::new(77);
    let x = random(&mut dice, DType::F32, &[257, 1031], false);
    let y = one(
        &Op::Transpose(Axes::new(&[1, 0])),
        &[&random(&mut dice, DType::F32, &[1031, 257], false)],
    );
    let key = of(&[7u32, 9], &[2]);
    let mut out = Vec::new();
    for op in [
        Op::Unary(Unary::Exp),
        Op::Unary(Unary::Sin),
        Op::Unary(Unary::Log1p),
        Op::Unary(Unary::Tanh),
        Op::Unary(Unary::Erf),
    ] {
        out.push(one(&op, &[&x]));
    }
    out.push(one(&Op::Binary(Binary::Mul), &[&x, &y]));
    for kind in [ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max] {
        for axes in [&[0][..], &[1], &[0, 1]] {
            out.push(one(
                &Reduce {
                    kind,
                    axes: Axes::new(axes),
                }
                .into(),
                &[&x],
            ));
            out.push(one(
                &Reduce {
                    kind,
                    axes: Axes::new(axes),
                }
                .into(),
                &[&y],
            ));
        }
    }
    for axis in 0..2 {
        out.push(one(&Composite::Softmax { axis }.into(), &[&x]));
        out.push(one(&Composite::LogSoftmax { axis }.into(), &[&y]));
    }
    out.push(one(
        &Composite::LayerNorm {
            axis: 1,
            epsilon: 1e-5.into(),
        }
        .into(),
        &[&y],
    ));
    let epsilon = 1e-5.into();
    let back = Composite::LayerNormGrad { axis: 1, epsilon };
    out.extend(many(&back.into(), &[&y, &y]));
    out.push(one(&Composite::Gelu { approximate: false }.into(), &[&x]));
    let shape = clematis_core::Shape::from_sizes(&[100_001]);
    for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
        out.push(one(
            &Composite::RandomBits {
                dtype,
                shape: shape.clone(),
            }
            .into(),
            &[&key],
        ));
    }
    out.push(one(&Op::Cast(DType::F16), &[&x]));
    out.iter().map(bits).collect()
}

#[test]
fn the_number_of_threads_does_not_show() {
    set_thread_limit(Some(1));
    let alone = digest();
    for threads in [2, 3, 8] {
        set_thread_limit(Some(threads));
        assert!(digest() == alone, "{threads} threads");
    }
    set_thread_limit(None);
}

/// Runs this binary again at each level; the level is fixed once per process.
#[test]
fn the_vector_width_does_not_show() {
    let mut found = Vec::new();
    for level in ["base", "avx2", "avx512"] {
        let out = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "invariance::print_digest", "--nocapture"])
            .env("CLEMATIS_SIMD", level)
            .output()
            .unwrap();
        let text = String::from_utf8(out.stdout).unwrap();
        let at = text.find("digest ").unwrap_or_else(|| panic!("{text}"));
        found.push(text[at..].lines().next().unwrap().to_string());
    }
    assert!(found.iter().all(|d| *d == found[0]), "{found:?}");
}

/// The output that the test above reads from its children.
#[test]
fn print_digest() {
    let parts: Vec<String> = digest()
        .iter()
        .map(|bytes| {
            let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| {
                (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
            });
            format!("{hash:x}")
        })
        .collect();
    println!("digest {}", parts.join(" "));
}

#[test]
fn bits_follow_their_definition() {
    let key = of(&[0x1319_8a2eu32, 0x0370_7344], &[2]);
    let bits = |dtype, n: usize| {
        one(
            &Composite::RandomBits {
                dtype,
                shape: clematis_core::Shape::from_sizes(&[n]),
            }
            .into(),
            &[&key],
        )
    };
    let words = bits(DType::U32, 9).to_vec::<u32>().unwrap();
    let block = clematis_native::kernel::random::threefry([0x1319_8a2e, 0x0370_7344], [0, 3]);
    assert_eq!(words[6..8], block);
    assert_eq!(
        bits(DType::U8, 9).to_vec::<u8>().unwrap(),
        words.iter().map(|&w| w as u8).collect::<Vec<_>>()
    );
    assert_eq!(
        bits(DType::U64, 4).to_vec::<u64>().unwrap()[3],
        u64::from(words[6]) << 32 | u64::from(words[7])
    );
}

#[test]
fn support_is_said_for_every_op() {
    assert_eq!(Native.support(&Op::Unary(Unary::Exp)), Support::Runs);
    assert_eq!(
        Native.support(&Composite::Softmax { axis: 0 }.into()),
        Support::Runs
    );
    assert_eq!(
        Native.support(&Composite::Linear {}.into()),
        Support::Expands
    );
}

#[test]
fn too_large_a_result_is_refused_with_its_name() {
    let x = of(&[1.0f32], &[1, 1]);
    let wide = broadcast(&x, &[1 << 40, 1]);
    let e = clematis_core::dispatch::apply(&Op::Unary(Unary::Exp), &[&wide])
        .err()
        .unwrap();
    let text = e.to_string();
    assert!(
        text.contains("exp")
            && text.contains("f32[1099511627776,1]")
            && text.contains("4398046511104"),
        "{text}"
    );
    assert_eq!(e.kind(), clematis_core::Kind::Value);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn adding_views_is_adding_their_elements(seed in any::<u64>(), sizes in prop::collection::vec(0usize..7, 0..4)) {
        let mut dice = Dice::new(seed);
        let (x, y) = (operand(&mut dice, DType::I64, &sizes, true), operand(&mut dice, DType::I64, &sizes, true));
        let z = one(&Op::Binary(Binary::Add), &[&x, &y]);
        let sizes = z.shape().sizes();
        let (a, b) = (broadcast_values(&x, &sizes), broadcast_values(&y, &sizes));
        for ((a, b), z) in a.iter().zip(&b).zip(values(&z)) {
            prop_assert_eq!((a.as_i128() + b.as_i128()) as i64, z.as_i128() as i64);
        }
    }

    #[test]
    fn a_sum_is_a_sum_whatever_the_layout(seed in any::<u64>(), sizes in prop::collection::vec(0usize..9, 1..5)) {
        let mut dice = Dice::new(seed);
        let x = view(&mut dice, DType::I32, &sizes, true);
        let axes = Axes::all(sizes.len());
        let total = one(&Reduce { kind: ReduceKind::Sum, axes }.into(), &[&x]).item().unwrap();
        let expected: i128 = values(&x).iter().map(|v| v.as_i128()).sum();
        prop_assert_eq!(total.as_i128(), i128::from(expected as i32));
    }
}
