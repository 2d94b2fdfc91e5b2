use crate::tensors::*;
use clematis_core::op::{Gather, OutOfRange, Scatter, ScatterKind};
use clematis_core::{Axes, DType, Scalar, Tensor};

/// A random gather on a random operand, with its index vectors.
struct Case {
    x: Tensor,
    indices: Tensor,
    gather: Gather,
}

fn case(dice: &mut Dice, dtype: DType, mode: OutOfRange) -> Case {
    let rank = 1 + dice.below(3);
    let sizes: Vec<usize> = (0..rank).map(|_| 1 + dice.below(4)).collect();
    let mut rows: Vec<usize> = (0..dice.below(3)).map(|_| 1 + dice.below(3)).collect();
    // Sometimes one axis is a batch axis.
    let (mut operand_batch, mut index_batch) = (vec![], vec![]);
    if !rows.is_empty() && rank > 1 && dice.below(2) == 0 {
        operand_batch.push(dice.below(rank));
        index_batch.push(dice.below(rows.len()));
        rows[index_batch[0]] = sizes[operand_batch[0]];
    }
    let free: Vec<usize> = (0..rank).filter(|a| !operand_batch.contains(a)).collect();
    let index_map: Vec<usize> = free
        .iter()
        .copied()
        .filter(|_| dice.below(2) == 0)
        .rev()
        .collect();
    let mut slice: Vec<usize> = sizes.iter().map(|&s| 1 + dice.below(s)).collect();
    let mut collapsed = vec![];
    for &a in &free {
        if dice.below(2) == 0 {
            slice[a] = 1;
            collapsed.push(a);
        }
    }
    operand_batch.iter().for_each(|&a: &usize| slice[a] = 1);
    let kept = free.len() - collapsed.len();
    let out_rank = rows.len() + kept;
    let mut places: Vec<usize> = (0..out_rank).collect();
    while places.len() > kept {
        places.remove(dice.below(places.len()));
    }
    let mut index_sizes = rows.clone();
    index_sizes.push(index_map.len());
    let count = index_sizes.iter().product();
    let values: Vec<i32> = (0..count).map(|_| dice.below(8) as i32 - 2).collect();
    Case {
        x: view(dice, dtype, &sizes, false),
        indices: of(&values, &index_sizes),
        gather: Gather {
            offset_axes: Axes::new(&places),
            collapsed: Axes::new(&collapsed),
            index_map: Axes::new(&index_map),
            operand_batch: Axes::new(&operand_batch),
            index_batch: Axes::new(&index_batch),
            slice_sizes: slice.iter().map(|&s| s.into()).collect(),
            mode,
        },
    }
}

/// For each position of the result (or the updates): the position in the operand, or none if it is dropped.
fn map(case: &Case, out: &[usize]) -> Vec<Option<usize>> {
    let g = &case.gather;
    let sizes = case.x.shape().sizes();
    let slice: Vec<usize> = g
        .slice_sizes
        .iter()
        .map(|d| d.value().unwrap() as usize)
        .collect();
    let index_sizes = case.indices.shape().sizes();
    let vectors = values(&case.indices);
    indices(out)
        .map(|index| {
            let row: Vec<usize> = (0..out.len())
                .filter(|a| !g.offset_axes.contains(a))
                .map(|a| index[a])
                .collect();
            let offset: Vec<usize> = g.offset_axes.iter().map(|&a| index[a]).collect();
            let kept: Vec<usize> = (0..sizes.len())
                .filter(|a| !g.collapsed.contains(a) && !g.operand_batch.contains(a))
                .collect();
            let mut at = vec![0i64; sizes.len()];
            for (k, &axis) in g.index_map.iter().enumerate() {
                let mut i = row.clone();
                i.push(k);
                let start = vectors[place(&index_sizes, &i)].as_i128() as i64;
                let last = (sizes[axis] - slice[axis]) as i64;
                if g.mode == OutOfRange::Drop && !(0..=last).contains(&start) {
                    return None;
                }
                at[axis] = start.clamp(0, last);
            }
            for (&axis, &from) in g.operand_batch.iter().zip(g.index_batch.iter()) {
                at[axis] = row[from] as i64;
            }
            for (&axis, &o) in kept.iter().zip(&offset) {
                at[axis] += o as i64;
            }
            let at: Vec<usize> = at.iter().map(|&v| v as usize).collect();
            Some(place(&sizes, &at))
        })
        .collect()
}

#[test]
fn gathers_of_every_form() {
    for dtype in [DType::Bool, DType::F16, DType::F32, DType::I64, DType::C128] {
        let mut dice = Dice::new(dtype as u64 + 5);
        for mode in [OutOfRange::Clip, OutOfRange::Drop] {
            for _ in 0..60 {
                let case = case(&mut dice, dtype, mode);
                let y = one(&case.gather.clone().into(), &[&case.x, &case.indices]);
                let all = values(&case.x);
                let expected: Vec<Scalar> = map(&case, &y.shape().sizes())
                    .into_iter()
                    .map(|at| at.map_or(Scalar::ZERO.cast(dtype), |at| all[at]))
                    .collect();
                assert_same(&y, &expected, &format!("{:?}", case.gather));
            }
        }
    }
}

#[test]
fn scatters_of_every_kind() {
    for dtype in DType::ALL {
        for &kind in ScatterKind::ALL {
            if dtype.is_complex() && matches!(kind, ScatterKind::Min | ScatterKind::Max) {
                continue;
            }
            let mut dice = Dice::new(dtype as u64 * 7 + kind as u64);
            for mode in [OutOfRange::Clip, OutOfRange::Drop] {
                for _ in 0..12 {
                    let case = case(&mut dice, dtype, mode);
                    let g = &case.gather;
                    let like = one(&g.clone().into(), &[&case.x, &case.indices]);
                    let sizes = like.shape().sizes();
                    let updates = view(&mut dice, dtype, &sizes, false);
                    let p = Scatter {
                        kind,
                        window_axes: g.offset_axes.clone(),
                        inserted: g.collapsed.clone(),
                        index_map: g.index_map.clone(),
                        operand_batch: g.operand_batch.clone(),
                        index_batch: g.index_batch.clone(),
                        mode,
                    };
                    let y = one(&p.into(), &[&case.x, &case.indices, &updates]);
                    let mut expected = values(&case.x);
                    // In the order of index vectors: rows before offsets.
                    let places = map(&case, &sizes);
                    let from = values(&updates);
                    let mut order: Vec<usize> = (0..places.len()).collect();
                    let all: Vec<Vec<usize>> = indices(&sizes).collect();
                    let row = |i: usize| -> Vec<usize> {
                        (0..sizes.len())
                            .filter(|a| !g.offset_axes.contains(a))
                            .map(|a| all[i][a])
                            .collect()
                    };
                    order.sort_by_key(|&i| (row(i), i));
                    for i in order {
                        if let Some(at) = places[i] {
                            expected[at] = combine(kind, expected[at], from[i], dtype);
                        }
                    }
                    assert_same(&y, &expected, &format!("{kind:?} {dtype} {g:?}"));
                }
            }
        }
    }
}

fn combine(kind: ScatterKind, a: Scalar, b: Scalar, dtype: DType) -> Scalar {
    let (x, y) = (tensor(dtype, &[], &[a]), tensor(dtype, &[], &[b]));
    use clematis_core::op::Binary;
    let op = match kind {
        ScatterKind::Set => return b,
        ScatterKind::Add => Binary::Add,
        ScatterKind::Mul => Binary::Mul,
        ScatterKind::Min if dtype == DType::Bool => Binary::Mul,
        ScatterKind::Max if dtype == DType::Bool => Binary::Add,
        ScatterKind::Min => Binary::Minimum,
        ScatterKind::Max => Binary::Maximum,
    };
    values(&one(&clematis_core::Op::Binary(op), &[&x, &y]))[0]
}

#[test]
fn rows_of_a_table_added_up() {
    // Large enough for threads: each row is hit many times.
    let (rows, width, n) = (7, 200, 500);
    let at: Vec<i64> = (0..n as i64).map(|i| i * 3 % rows as i64).collect();
    let updates: Vec<f32> = (0..n * width).map(|i| (i % 13) as f32).collect();
    let p = Scatter {
        kind: ScatterKind::Add,
        window_axes: Axes::new(&[1]),
        inserted: Axes::new(&[0]),
        index_map: Axes::new(&[0]),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        mode: OutOfRange::Drop,
    };
    let table = of(&vec![0.0f32; rows * width], &[rows, width]);
    let y = one(
        &p.into(),
        &[&table, &of(&at, &[n, 1]), &of(&updates, &[n, width])],
    );
    let mut expected = vec![0.0f32; rows * width];
    for i in 0..n {
        for j in 0..width {
            expected[at[i] as usize * width + j] += updates[i * width + j];
        }
    }
    assert_eq!(y.to_vec::<f32>().unwrap(), expected);
}
