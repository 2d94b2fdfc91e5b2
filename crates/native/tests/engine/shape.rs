use crate::tensors::*;
use clematis_core::op::{Broadcast, Full, Iota, Pad, Slice};
use clematis_core::{Axes, DType, Op, Scalar, Shape, Tensor};

#[test]
fn views_show_the_right_elements() {
    for dtype in DType::ALL {
        let mut dice = Dice::new(dtype as u64 + 1);
        for rank in 1..5 {
            let sizes = dice.sizes(rank, 4);
            let x = view(&mut dice, dtype, &sizes, true);
            let all = values(&x);
            let axes: Vec<usize> = (0..rank).rev().collect();
            let t = one(&Op::Transpose(Axes::new(&axes)), &[&x]);
            let expected: Vec<Scalar> = indices(&t.shape().sizes())
                .map(|i| all[place(&sizes, &i.iter().rev().copied().collect::<Vec<_>>())])
                .collect();
            assert_same(&t, &expected, "transpose");
            let r = one(&Op::Reverse(Axes::new(&[rank - 1])), &[&x]);
            let expected: Vec<Scalar> = indices(&sizes)
                .map(|mut i| {
                    i[rank - 1] = sizes[rank - 1] - 1 - i[rank - 1];
                    all[place(&sizes, &i)]
                })
                .collect();
            assert_same(&r, &expected, "reverse");
            let count: usize = sizes.iter().product();
            let flat = one(&Op::Reshape(Shape::from_sizes(&[count])), &[&x]);
            assert_same(&flat, &all, "reshape");
            let more = one(&Op::Reshape(Shape::from_sizes(&[1, count, 1])), &[&t]);
            assert_same(&more, &values(&t), "reshape of a view");
        }
    }
}

#[test]
fn slices_and_broadcasts() {
    let mut dice = Dice::new(3);
    for _ in 0..50 {
        let rank = 1 + dice.below(3);
        let sizes = dice.sizes(rank, 6);
        let x = view(&mut dice, DType::I32, &sizes, true);
        let start: Vec<usize> = sizes.iter().map(|&s| dice.below(s + 1)).collect();
        let limit: Vec<usize> = (0..rank)
            .map(|a| start[a] + dice.below(sizes[a] - start[a] + 1))
            .collect();
        let strides: Vec<usize> = (0..rank).map(|_| 1 + dice.below(3)).collect();
        let p = Slice {
            start: start.iter().map(|&s| s.into()).collect(),
            limit: limit.iter().map(|&s| s.into()).collect(),
            strides: Axes::new(&strides),
        };
        let y = one(&p.into(), &[&x]);
        let all = values(&x);
        let expected: Vec<Scalar> = indices(&y.shape().sizes())
            .map(|i| {
                let from: Vec<usize> = (0..rank).map(|a| start[a] + i[a] * strides[a]).collect();
                all[place(&sizes, &from)]
            })
            .collect();
        assert_same(&y, &expected, "slice");
    }
    let x = of(&[1, 2, 3], &[3, 1]);
    let p = Broadcast {
        shape: Shape::from_sizes(&[2, 3, 4]),
        axes: Axes::new(&[1, 2]),
    };
    let y = one(&p.into(), &[&x]).to_vec::<i32>().unwrap();
    assert!((0..24).all(|i| y[i] == (i / 4 % 3) as i32 + 1));
}

#[test]
fn padding_of_every_sign() {
    for dtype in [DType::Bool, DType::F16, DType::F32, DType::I64, DType::C128] {
        let mut dice = Dice::new(dtype as u64 + 60);
        for _ in 0..40 {
            let rank = 1 + dice.below(3);
            let sizes = dice.sizes(rank, 4);
            let x = view(&mut dice, dtype, &sizes, false);
            let interior: Vec<usize> = (0..rank).map(|_| dice.below(3)).collect();
            let mut low = vec![0i64; rank];
            let mut high = vec![0i64; rank];
            for a in 0..rank {
                let inner = if sizes[a] == 0 {
                    0
                } else {
                    (sizes[a] - 1) * (interior[a] + 1) + 1
                } as i64;
                low[a] = dice.below(7) as i64 - 3;
                high[a] = (dice.below(7) as i64 - 3).max(-(inner + low[a]));
            }
            let value = number(&mut dice, dtype, false);
            let p = Pad {
                low: low.iter().map(|&s| s.into()).collect(),
                high: high.iter().map(|&s| s.into()).collect(),
                interior: Axes::new(&interior),
            };
            if (0..rank).any(|a| {
                let inner = if sizes[a] == 0 {
                    0
                } else {
                    (sizes[a] - 1) * (interior[a] + 1) + 1
                } as i64;
                inner + low[a] + high[a] < 0
            }) {
                continue;
            }
            let y = one(&p.into(), &[&x, &Tensor::scalar(value, dtype)]);
            let all = values(&x);
            let expected: Vec<Scalar> = indices(&y.shape().sizes())
                .map(|i| {
                    let mut from = Vec::new();
                    for a in 0..rank {
                        let at = i[a] as i64 - low[a];
                        let step = interior[a] as i64 + 1;
                        if at < 0 || at % step != 0 || at / step >= sizes[a] as i64 {
                            return value.cast(dtype);
                        }
                        from.push((at / step) as usize);
                    }
                    all[place(&sizes, &from)]
                })
                .collect();
            assert_same(
                &y,
                &expected,
                &format!("pad {sizes:?} {low:?} {high:?} {interior:?}"),
            );
        }
    }
}

#[test]
fn concatenation_keeps_every_part() {
    for dtype in DType::ALL {
        let mut dice = Dice::new(dtype as u64 + 70);
        for axis in 0..3 {
            let sizes = [2, 3, 2];
            let parts: Vec<Tensor> = (0..3)
                .map(|i| {
                    let mut sizes = sizes;
                    sizes[axis] = i;
                    view(&mut dice, dtype, &sizes, true)
                })
                .collect();
            let y = one(&Op::Concat(axis), &parts.iter().collect::<Vec<_>>());
            let mut at = 0;
            for part in &parts {
                let size = part.shape().size(axis);
                let mut limit = y.shape().sizes();
                limit[axis] = at + size;
                let mut start = [0usize; 3];
                start[axis] = at;
                let p = Slice {
                    start: start.iter().map(|&s| s.into()).collect(),
                    limit: limit.iter().map(|&s| s.into()).collect(),
                    strides: Axes::new(&[1, 1, 1]),
                };
                assert_same(&one(&p.into(), &[&y]), &values(part), "concat");
                at += size;
            }
        }
    }
}

#[test]
fn creation() {
    for dtype in DType::ALL {
        let p = Full {
            value: Scalar::from(1.0),
            dtype,
            shape: Shape::from_sizes(&[2, 3]),
        };
        let x = one(&p.into(), &[]);
        assert_same(&x, &[Scalar::Int(1).cast(dtype); 6], "full");
        if dtype == DType::Bool {
            continue;
        }
        let p = Iota {
            axis: 1,
            dtype,
            shape: Shape::from_sizes(&[2, 300]),
        };
        let expected: Vec<Scalar> = (0..600usize)
            .map(|i| Scalar::from(i % 300).cast(dtype))
            .collect();
        assert_same(&one(&p.into(), &[]), &expected, "iota");
    }
    let p = Full {
        value: Scalar::ONE,
        dtype: DType::F32,
        shape: Shape::from_sizes(&[0, 3]),
    };
    assert_eq!(one(&p.into(), &[]).to_vec::<f32>().unwrap(), []);
}

#[test]
fn dynamic_slices_are_clipped() {
    let x = of(&(0..20).collect::<Vec<i32>>(), &[4, 5]);
    let at = of(&[3i64, -7], &[2]);
    let y = one(&Op::DynamicSlice(Shape::from_sizes(&[2, 3])), &[&x, &at]);
    assert_eq!(y.to_vec::<i32>().unwrap(), [10, 11, 12, 15, 16, 17]);
    let at = of(&[1u8, 200], &[2]);
    let z = one(
        &Op::DynamicUpdate,
        &[
            &x,
            &one(&Op::Unary(clematis_core::op::Unary::Neg), &[&y]),
            &at,
        ],
    );
    let z = z.to_vec::<i32>().unwrap();
    assert_eq!(z[7..10], [-10, -11, -12]);
    assert_eq!(z[12..15], [-15, -16, -17]);
    assert_eq!(z[..7], [0, 1, 2, 3, 4, 5, 6]);
    let none = one(&Op::DynamicSlice(Shape::from_sizes(&[0, 5])), &[&x, &at]);
    assert_eq!(none.to_vec::<i32>().unwrap(), []);
}

#[test]
fn nonzero_pads_with_the_end() {
    let x = of(&[0.0f32, -0.0, f32::NAN, 2.0, 0.0, 1.0], &[2, 3]);
    let y = one(&Op::NonZero(4.into()), &[&x]);
    assert_eq!(y.to_vec::<i64>().unwrap(), [0, 2, 1, 0, 1, 2, 2, 3]);
    let y = one(&Op::NonZero(1.into()), &[&x]);
    assert_eq!(y.to_vec::<i64>().unwrap(), [0, 2]);
    let y = one(&Op::NonZero(2.into()), &[&of(&[true], &[])]);
    assert_eq!(y.shape(), &[2, 0]);
}

#[test]
fn bits_are_read_as_another_type() {
    let x = of(&[1.0f32, -2.5], &[2]);
    let y = one(&Op::Bitcast(DType::U32), &[&x]);
    assert_eq!(
        y.to_vec::<u32>().unwrap(),
        [1f32.to_bits(), (-2.5f32).to_bits()]
    );
    let y = one(&Op::Bitcast(DType::Bool), &[&of(&[0u8, 7], &[2])]);
    assert_eq!(y.to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn host_values_are_shared_not_copied() {
    let host = clematis_core::Host::from_slice(&[1.0f32, 2.0], [2usize]).unwrap();
    let b = clematis_native::backend();
    let at = host.bytes().as_slice::<f32>().as_ptr();
    let x = Tensor::concrete(
        host.spec().clone(),
        b,
        b.from_host(host, Default::default()).unwrap(),
    );
    assert_eq!(x.to_host().unwrap().bytes().as_slice::<f32>().as_ptr(), at);
    let y = one(&Op::Reverse(Axes::new(&[0])), &[&x]);
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 1.0]);
}
