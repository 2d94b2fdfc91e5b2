use super::*;
use proptest::prelude::*;

/// A small generator, so that shapes and values come from one seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let x = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51afd7ed558ccd);
        x ^ (x >> 29)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// Multiples of 1/8 between -2 and 2: sums of a few products are exact even in half precision.
    fn eighth(&mut self) -> f64 {
        self.below(33) as f64 / 8.0 - 2.0
    }
}

/// Storage, the strides of one matrix and of the batch.
type Stored<T> = (Vec<T>, Strides, Vec<isize>);

/// An operand in random layout: transposed, reversed, padded or broadcast.
fn stored<T: Clone>(
    dice: &mut Dice,
    batch: &[usize],
    m: usize,
    n: usize,
    make: &mut dyn FnMut(&mut Dice) -> T,
) -> Stored<T> {
    let (pad, reversed, repeated) = (dice.below(3), dice.below(4) == 0, dice.below(4) == 0);
    let transposed = dice.below(2) == 0;
    let (row, col) = if transposed {
        (1, m + pad)
    } else {
        (n + pad, 1)
    };
    let size = (m + pad) * (n + pad) + 1;
    let (mut stride, mut strides) = (size as isize, vec![0; batch.len()]);
    for (i, &b) in batch.iter().enumerate().rev() {
        if !repeated {
            strides[i] = stride;
            stride *= b as isize;
        }
    }
    let count = size * batch.iter().product::<usize>().max(1);
    let data = (0..count).map(|_| make(dice)).collect();
    let flipped = reversed && m > 0;
    let offset = if flipped { (m - 1) * row } else { 0 };
    let row = if flipped {
        -(row as isize)
    } else {
        row as isize
    };
    (
        data,
        Strides {
            offset,
            row,
            col: col as isize,
        },
        strides,
    )
}

fn element<T: Copy>((data, strides, batch): &Stored<T>, index: &[usize], i: usize, j: usize) -> T {
    let base: isize = index.iter().zip(batch).map(|(&i, &s)| i as isize * s).sum();
    data[(base + strides.offset as isize + i as isize * strides.row + j as isize * strides.col)
        as usize]
}

/// Compares `matmul` with three loops in `W` on random operands.
fn check<T: Dot + PartialEq + std::fmt::Debug, W: Copy>(
    seed: u64,
    largest: usize,
    mut make: impl FnMut(&mut Dice) -> T,
    zero: W,
    add_product: impl Fn(W, T, T) -> W,
    same: impl Fn(T, W) -> bool,
) {
    let dice = &mut Dice(seed);
    let batch: Vec<usize> = (0..dice.below(3)).map(|_| dice.below(4)).collect();
    let [m, n, k] = [(); 3].map(|()| dice.below(largest + 1));
    let lhs = stored(dice, &batch, m, k, &mut make);
    let rhs = stored(dice, &batch, k, n, &mut make);
    let count: usize = batch.iter().product();
    let mut dst = (0..count * m * n).map(|_| make(dice)).collect::<Vec<T>>();
    matmul(
        &mut dst,
        Sizes {
            batch: &batch,
            m,
            n,
            k,
        },
        Operand {
            data: &lhs.0,
            matrix: lhs.1,
            batch: &lhs.2,
        },
        Operand {
            data: &rhs.0,
            matrix: rhs.1,
            batch: &rhs.2,
        },
    );
    for b in 0..count {
        let mut index = vec![0; batch.len()];
        let mut rest = b;
        for (i, &size) in index.iter_mut().zip(&batch).rev() {
            *i = rest % size;
            rest /= size;
        }
        for i in 0..m {
            for j in 0..n {
                let sum = (0..k).fold(zero, |sum, p| {
                    add_product(
                        sum,
                        element(&lhs, &index, i, p),
                        element(&rhs, &index, p, j),
                    )
                });
                let found = dst[(b * m + i) * n + j];
                assert!(
                    same(found, sum),
                    "{found:?} at {b} {i} {j} of {batch:?} {m} {n} {k}"
                );
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn every_dtype_agrees_with_three_loops(seed: u64) {
        check(seed, 40, Dice::eighth, 0.0, |s, a, b| s + a * b, |x: f64, y| x == y);
        check(seed, 40, |d| d.eighth() as f32, 0.0, |s, a, b| s + a * b, |x: f32, y| x == y);
        check(seed, 40, |d| f16::from_f64(d.eighth()), 0.0, |s, a, b| s + a.to_f32() * b.to_f32(), |x, y| x == f16::from_f32(y));
        check(seed, 40, |d| bf16::from_f64(d.eighth()), 0.0, |s, a, b| s + a.to_f32() * b.to_f32(), |x, y| x == bf16::from_f32(y));
        let zero = Complex::new(0.0, 0.0);
        check(seed, 20, |d| Complex::new(d.eighth(), d.eighth()), zero, |s, a, b| s + a * b, |x: Complex<f64>, y| x == y);
        let zero = Complex::new(0f32, 0.0);
        check(seed, 20, |d| Complex::new(d.eighth() as f32, d.eighth() as f32), zero, |s, a, b| s + a * b, |x: Complex<f32>, y| x == y);
        check(seed, 40, |d| d.next() as i32, 0i32, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), |x: i32, y| x == y);
        check(seed, 20, |d| d.next() as u8, 0u8, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), |x: u8, y| x == y);
        check(seed, 20, |d| d.next() as i64, 0i64, |s, a, b| s.wrapping_add(a.wrapping_mul(b)), |x: i64, y| x == y);
        check(seed, 20, |d| d.below(4) == 0, false, |s, a, b| s | (a & b), |x: bool, y| x == y);
    }
}

#[test]
fn blocks_of_the_exact_and_the_widened_loops_fit_together() {
    let add = |s: i32, a: i32, b: i32| s.wrapping_add(a.wrapping_mul(b));
    for seed in 0..4 {
        check(seed, 300, |d| d.next() as i32, 0, add, |x, y| x == y);
    }
    // Ones: every sum is its depth, on both sides of each panel edge.
    let [m, n, k] = [PANEL[0] + 3, PANEL[1] + 5, PANEL[2] + 1];
    let (lhs, rhs) = (vec![bf16::ONE; m * k], vec![bf16::ONE; k * n]);
    let mut dst = vec![bf16::ZERO; m * n];
    bf16::gemm(
        [m, n, k],
        &mut dst,
        (&lhs, contiguous(k)),
        (&rhs, contiguous(n)),
        1,
    );
    assert!(dst.iter().all(|&x| x == bf16::from_f32(k as f32)));
}

#[test]
fn half_precision_is_summed_in_f32_and_rounded_once() {
    // 2048 + 1 + 1: the ones are lost in f16 and kept in f32.
    let lhs = [2048.0, 1.0, 1.0].map(f16::from_f32);
    let mut dst = [f16::ZERO];
    f16::gemm(
        [1, 1, 3],
        &mut dst,
        (&lhs, contiguous(3)),
        (&[f16::ONE; 3], contiguous(1)),
        1,
    );
    assert_eq!(dst[0].to_f32(), 2050.0);
}

#[test]
fn nothing_contracted_gives_zeros_and_empty_results_are_fine() {
    let none: [f32; 0] = [];
    for (batch, m, n, k) in [(2, 3, 4, 0), (0, 3, 4, 5), (2, 0, 4, 5), (2, 3, 0, 5)] {
        let mut dst = vec![f32::NAN; batch * m * n];
        let data = vec![1.0; 1000];
        let data: &[f32] = if k == 0 { &none } else { &data };
        let batch_sizes = [batch];
        let operand = |columns| Operand {
            data,
            matrix: contiguous(columns),
            batch: &[0],
        };
        matmul(
            &mut dst,
            Sizes {
                batch: &batch_sizes,
                m,
                n,
                k,
            },
            operand(k),
            operand(n),
        );
        assert!(dst.iter().all(|&x| x == 0.0));
    }
}

#[test]
fn nan_and_infinity_pass_through() {
    let lhs = [f32::INFINITY, 1.0, f32::NAN, 1.0, 1.0, -1.0];
    let mut dst = [0.0; 3];
    f32::gemm(
        [3, 1, 2],
        &mut dst,
        (&lhs, contiguous(2)),
        (&[1.0, 1.0], contiguous(1)),
        1,
    );
    assert_eq!(dst[0], f32::INFINITY);
    assert!(dst[1].is_nan());
    assert_eq!(dst[2], 0.0);
}

#[test]
fn the_thread_count_does_not_show() {
    let dice = &mut Dice(7);
    for [m, n, k] in [
        [200, 300, 257],
        [1000, 3, 700],
        [1, 900, 1500],
        [129, 65, 4000],
        [511, 1023, 33],
        [2000, 6, 100],
        [6, 2000, 100],
        [64, 64, 5000],
    ] {
        let mut random = |n: usize| -> Vec<f32> {
            (0..n)
                .map(|_| dice.next() as f32 / u64::MAX as f32 - 0.5)
                .collect()
        };
        let (lhs, rhs) = (random(m * k), random(k * n));
        for (left, right) in [
            (contiguous(k), contiguous(n)),
            (
                Strides {
                    offset: 0,
                    row: 1,
                    col: m as isize,
                },
                contiguous(n),
            ),
            (
                contiguous(k),
                Strides {
                    offset: 0,
                    row: 1,
                    col: k as isize,
                },
            ),
        ] {
            let run = |threads| {
                let mut dst = vec![0f32; m * n];
                large([m, n, k], &mut dst, (&lhs, left), (&rhs, right), threads);
                dst.into_iter().map(f32::to_bits).collect::<Vec<_>>()
            };
            let one = run(1);
            for threads in [2, 3, 8] {
                assert!(one == run(threads), "{m} {n} {k} on {threads}");
            }
        }
    }
}

#[test]
fn bf16_pairs_give_the_sums_of_single_ones() {
    // On other CPUs there is nothing to run: operands are widened, which the tests above cover.
    let shapes = [
        [14, 32, 2],
        [15, 33, 7],
        [100, 70, 1030],
        [7, 2100, 5],
        [1010, 17, 1026],
    ];
    for [m, n, k] in shapes.into_iter().filter(|_| simd::has_bf16_dot()) {
        let number = |i: usize| bf16::from_f32((i * 7 % 5) as f32 - 2.0);
        for (transposed, threads) in [(false, 1), (true, 2)] {
            let lhs: Vec<bf16> = (0..m * k).map(number).collect();
            let rhs: Vec<bf16> = (0..k * n).map(|i| number(i + 3)).collect();
            let (left, right) = match transposed {
                false => (contiguous(k), contiguous(n)),
                true => (
                    Strides {
                        offset: 0,
                        row: 1,
                        col: m as isize,
                    },
                    Strides {
                        offset: 0,
                        row: 1,
                        col: k as isize,
                    },
                ),
            };
            let mut dst = vec![bf16::ONE; m * n];
            gemm_bf16::run([m, n, k], &mut dst, (&lhs, left), (&rhs, right), threads);
            let at = |data: &[bf16], s: Strides, i: usize, j: usize| {
                data[(i as isize * s.row + j as isize * s.col) as usize].to_f32()
            };
            for i in 0..m {
                for j in 0..n {
                    let sum: f32 = (0..k)
                        .map(|p| at(&lhs, left, i, p) * at(&rhs, right, p, j))
                        .sum();
                    assert_eq!(
                        dst[i * n + j],
                        bf16::from_f32(sum),
                        "{m} {n} {k} at {i} {j}"
                    );
                }
            }
        }
    }
}
