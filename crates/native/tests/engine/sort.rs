use crate::tensors::*;
use clematis_core::op::Sort;
use clematis_core::{DType, Op, Scalar, Tensor};
use std::cmp::Ordering;

/// NaN after everything, in both directions.
fn order(a: &Scalar, b: &Scalar, float: bool, descending: bool) -> Ordering {
    if float {
        let (a, b) = (a.as_f64(), b.as_f64());
        match (a.is_nan(), b.is_nan()) {
            (false, false) => {
                let o = a.partial_cmp(&b).unwrap();
                if descending { o.reverse() } else { o }
            }
            (a, b) => a.cmp(&b),
        }
    } else {
        let o = a.as_i128().cmp(&b.as_i128());
        if descending { o.reverse() } else { o }
    }
}

fn lane(x: &Tensor, axis: usize, index: &[usize]) -> Vec<Scalar> {
    let sizes = x.shape().sizes();
    let all = values(x);
    (0..sizes[axis])
        .map(|i| {
            let mut at = index.to_vec();
            at[axis] = i;
            all[place(&sizes, &at)]
        })
        .collect()
}

#[test]
fn sorting_by_one_and_two_keys() {
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        for descending in [false, true] {
            let mut dice = Dice::new(dtype as u64 * 2 + u64::from(descending));
            for keys in [1u8, 2] {
                let rank = 1 + dice.below(3);
                let axis = dice.below(rank);
                let sizes = dice.sizes(rank, 9);
                let first = view(&mut dice, dtype, &sizes, true);
                let second = view(&mut dice, DType::I16, &sizes, true);
                let payload = view(&mut dice, DType::C128, &sizes, false);
                let op = Sort {
                    axis,
                    keys,
                    descending,
                    stable: true,
                }
                .into();
                let out = many(&op, &[&first, &second, &payload]);
                for index in indices(&sizes).filter(|i| i[axis] == 0) {
                    let lanes: Vec<Vec<Scalar>> = [&first, &second, &payload]
                        .iter()
                        .map(|x| lane(x, axis, &index))
                        .collect();
                    let mut at: Vec<usize> = (0..sizes[axis]).collect();
                    at.sort_by(|&a, &b| {
                        let o = order(&lanes[0][a], &lanes[0][b], dtype.is_float(), descending);
                        if keys == 1 {
                            o
                        } else {
                            o.then(order(&lanes[1][a], &lanes[1][b], false, descending))
                        }
                    });
                    for (out, lane_) in out.iter().zip(&lanes) {
                        let found = lane(out, axis, &index);
                        for (f, &from) in found.iter().zip(&at) {
                            let e = lane_[from];
                            assert!(
                                *f == e || f.as_f64().is_nan() && e.as_f64().is_nan(),
                                "{dtype} {sizes:?}: {f} {e}"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_largest_k() {
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_complex()) {
        let mut dice = Dice::new(dtype as u64 + 11);
        let sizes = [3, 8];
        let x = view(&mut dice, dtype, &sizes, true);
        for k in [0usize, 1, 3, 8] {
            let out = many(&Op::TopK(k.into()), &[&x]);
            let (found, at) = (values(&out[0]), values(&out[1]));
            for row in 0..3 {
                let all = lane(&x, 1, &[row, 0]);
                let mut order_: Vec<usize> = (0..8).collect();
                order_.sort_by(|&a, &b| {
                    let nan = |v: &Scalar| v.as_f64().is_nan();
                    nan(&all[b]).cmp(&nan(&all[a])).then(order(
                        &all[a],
                        &all[b],
                        dtype.is_float(),
                        true,
                    ))
                });
                for i in 0..k {
                    assert_eq!(at[row * k + i], Scalar::from(order_[i]), "{dtype} {k}");
                    let (f, e) = (found[row * k + i], all[order_[i]]);
                    assert!(f == e || f.as_f64().is_nan());
                }
            }
        }
    }
}

#[test]
fn places_in_a_sorted_row() {
    let rows = of(&[1.0f32, 2.0, 2.0, f32::NAN, 0.0, 1.0, 5.0, 9.0], &[2, 4]);
    let x = of(&[2.0f32, 0.0, f32::NAN, 5.0, -1.0, 9.5], &[2, 3]);
    let left = one(&Op::SearchSorted(false), &[&rows, &x]);
    assert_eq!(left.to_vec::<i64>().unwrap(), [1, 0, 3, 2, 0, 4]);
    let right = one(&Op::SearchSorted(true), &[&rows, &x]);
    assert_eq!(right.to_vec::<i64>().unwrap(), [3, 0, 4, 3, 0, 4]);
    let one_row = of(&[1i8, 3, 5], &[3]);
    let x = of(&[-128i8, 3, 4, 127], &[2, 2]);
    let left = one(&Op::SearchSorted(false), &[&one_row, &x]);
    assert_eq!(left.to_vec::<i64>().unwrap(), [0, 1, 2, 3]);
    let none = of::<u64>(&[], &[0]);
    let left = one(&Op::SearchSorted(false), &[&none, &of(&[u64::MAX], &[1])]);
    assert_eq!(left.to_vec::<i64>().unwrap(), [0]);
}
