use super::*;
use proptest::prelude::*;

mod winograd_strided;
mod volumes;

/// A small generator, so that a whole problem comes from one seed.
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
    fn between(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.below(hi - lo + 1)
    }
    /// Multiples of 1/2 between -1 and 1: sums of products are exact, so any order gives equal values.
    fn half(&mut self) -> f64 {
        self.below(5) as f64 / 2.0 - 1.0
    }
    /// A view of these sizes with its axes stored in random order, possibly with gaps or reversed, and the length of
    /// the storage it needs.
    fn view(
        &mut self,
        outer: usize,
        inner: usize,
        spatial: &[usize],
        reversed: bool,
    ) -> (View, usize) {
        let sizes: Vec<usize> = [outer, inner]
            .into_iter()
            .chain(spatial.iter().copied())
            .collect();
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        match self.below(3) {
            0 => {}
            1 => order.swap(0, 1),
            _ => (0..order.len()).for_each(|i| {
                let j = self.below(i + 1);
                order.swap(i, j)
            }),
        }
        // Channels last is common, so often bring axis 1 to the front of the order.
        if self.below(2) == 0 {
            order.retain(|&i| i != 1);
            order.insert(0, 1);
        }
        let (mut strides, mut stride, mut offset) = (vec![0isize; sizes.len()], 1, 0);
        for &i in &order {
            strides[i] = stride as isize;
            stride *= sizes[i].max(1) + if self.below(4) == 0 { self.below(2) } else { 0 };
            if reversed && self.below(6) == 0 && sizes[i] > 0 {
                offset += strides[i] as usize * (sizes[i] - 1);
                strides[i] = -strides[i];
            }
        }
        let axis = |i: usize| Axis {
            size: sizes[i],
            stride: strides[i],
        };
        let spatial = (2..sizes.len()).map(axis).collect();
        (
            View {
                offset,
                outer: axis(0),
                inner: axis(1),
                spatial,
            },
            stride,
        )
    }
}

#[derive(Debug)]
struct Sample {
    window: Window,
    out: (View, usize),
    lhs: (View, usize),
    rhs: (View, usize),
}

/// A random convolution. `wide` makes big windows, `channels` many features.
fn sample(dice: &mut Dice) -> Sample {
    let rank = dice.below(4);
    let groups = if dice.below(2) == 0 {
        dice.between(2, 4)
    } else {
        1
    };
    let by_batch = dice.below(3) == 0;
    let (feature_groups, batch_groups) = if by_batch { (1, groups) } else { (groups, 1) };
    let depthwise = dice.below(3) == 0;
    let many = dice.below(3) == 0;
    let inputs = if depthwise {
        1
    } else {
        dice.between(if many { 15 } else { 1 }, if many { 40 } else { 5 })
    };
    let outputs = if depthwise {
        1
    } else {
        dice.between(if many { 15 } else { 1 }, if many { 70 } else { 5 })
    };
    let batch = dice.between(1, 3);
    let big = dice.below(3) == 0;
    let (mut sizes, mut taps, mut positions, mut steps) = (vec![], vec![], vec![], List::new());
    for _ in 0..rank {
        loop {
            let largest = [0, 40, 10, 5][rank];
            let plain = dice.below(2) == 0;
            let mut dilation = |n| if plain { 1 } else { dice.between(1, n) };
            let (stride, lhs_dilation, rhs_dilation) = (dilation(3), dilation(3), dilation(3));
            let step = Step {
                stride,
                lhs_dilation,
                rhs_dilation,
                lo: dice.between(0, 5) as isize - 2,
                hi: dice.between(0, 5) as isize - 2,
            };
            let size = dice.between(1, largest);
            let tap = dice.between(1, if big { size } else { 4 });
            let position = step.output_size(size, tap);
            if position > 0 {
                sizes.push(size);
                taps.push(tap);
                positions.push(position);
                steps.push(step);
                break;
            }
        }
    }
    let window = Window {
        steps,
        feature_groups,
        batch_groups,
    };
    Sample {
        out: dice.view(batch, outputs * groups, &positions, false),
        lhs: dice.view(batch * batch_groups, inputs * feature_groups, &sizes, true),
        rhs: dice.view(outputs * groups, inputs, &taps, true),
        window,
    }
}

fn values<T>(dice: &mut Dice, len: usize, make: impl Fn(f64) -> T) -> Vec<T> {
    (0..len).map(|_| make(dice.half())).collect()
}

/// Forward against the definition; both gradients against the adjoint of the definition.
fn check<T: Convolved + PartialEq + std::fmt::Debug>(
    seed: u64,
    widen: fn(T) -> f64,
    from_f64: fn(f64) -> T,
) {
    let dice = &mut Dice(seed);
    let Sample {
        window,
        out,
        lhs,
        rhs,
    } = sample(dice);
    let x = values(dice, lhs.1, from_f64);
    let w = values(dice, rhs.1, from_f64);
    let mut y = values(dice, out.1, from_f64);
    let mut expected = y.clone();
    conv((&mut y, &out.0), (&x, &lhs.0), (&w, &rhs.0), &window);
    conv_naive(
        (&mut expected, &out.0),
        (&x, &lhs.0),
        (&w, &rhs.0),
        &window,
        widen,
        from_f64,
    );
    assert_eq!(y, expected, "forward");

    let grad = values(dice, out.1, from_f64);
    let (mut dx, mut dw) = (values(dice, lhs.1, from_f64), values(dice, rhs.1, from_f64));
    let (mut ex, mut ew): (Vec<f64>, Vec<f64>) = (
        dx.iter().map(|&x| widen(x)).collect(),
        dw.iter().map(|&x| widen(x)).collect(),
    );
    adjoint(&window, &out.0, &lhs.0, &rhs.0, |o, l, r, first| {
        if first {
            if let Some(l) = l {
                ex[l] = 0.0
            }
            if let Some(r) = r {
                ew[r] = 0.0
            }
        } else if let (Some(l), Some(r)) = (l, r) {
            ex[l] += widen(grad[o]) * widen(w[r]);
            ew[r] += widen(x[l]) * widen(grad[o]);
        }
    });
    conv_input_gradient((&mut dx, &lhs.0), (&grad, &out.0), (&w, &rhs.0), &window);
    conv_weight_gradient((&mut dw, &rhs.0), (&x, &lhs.0), (&grad, &out.0), &window);
    assert_eq!(
        dx,
        ex.iter().map(|&x| from_f64(x)).collect::<Vec<_>>(),
        "input gradient"
    );
    assert_eq!(
        dw,
        ew.iter().map(|&x| from_f64(x)).collect::<Vec<_>>(),
        "weight gradient"
    );
}

fn indices(sizes: &[usize]) -> Vec<Vec<usize>> {
    sizes.iter().fold(vec![vec![]], |all, &size| {
        all.iter()
            .flat_map(|head| {
                (0..size).map(move |i| {
                    let mut next = head.clone();
                    next.push(i);
                    next
                })
            })
            .collect()
    })
}

fn position(view: &View, outer: usize, inner: usize, spatial: &[usize]) -> usize {
    let spatial: isize = spatial
        .iter()
        .zip(&view.spatial)
        .map(|(&i, axis)| i as isize * axis.stride)
        .sum();
    (view.offset as isize
        + outer as isize * view.outer.stride
        + inner as isize * view.inner.stride
        + spatial) as usize
}

/// Visits every element of `lhs` and `rhs` (`first`), then every product of the forward sum.
fn adjoint(
    window: &Window,
    out: &View,
    lhs: &View,
    rhs: &View,
    mut visit: impl FnMut(usize, Option<usize>, Option<usize>, bool),
) {
    let sizes = |view: &View| {
        view.spatial
            .iter()
            .map(|axis| axis.size)
            .collect::<Vec<_>>()
    };
    for s in indices(&sizes(lhs)) {
        for b in 0..lhs.outer.size {
            for f in 0..lhs.inner.size {
                visit(0, Some(position(lhs, b, f, &s)), None, true)
            }
        }
    }
    for t in indices(&sizes(rhs)) {
        for o in 0..rhs.outer.size {
            for f in 0..rhs.inner.size {
                visit(0, None, Some(position(rhs, o, f, &t)), true)
            }
        }
    }
    let per_group = out.inner.size / (window.feature_groups * window.batch_groups);
    for p in indices(&sizes(out)) {
        'taps: for t in indices(&sizes(rhs)) {
            let mut s = vec![];
            for (i, step) in window.steps.iter().enumerate() {
                let at = (p[i] * step.stride + t[i] * step.rhs_dilation) as isize - step.lo;
                if at < 0
                    || at % step.lhs_dilation as isize != 0
                    || at / step.lhs_dilation as isize >= lhs.spatial[i].size as isize
                {
                    continue 'taps;
                }
                s.push(at as usize / step.lhs_dilation);
            }
            for b in 0..out.outer.size {
                for o in 0..out.inner.size {
                    for f in 0..rhs.inner.size {
                        let group = o / per_group;
                        let b_in = if window.batch_groups > 1 {
                            group * out.outer.size + b
                        } else {
                            b
                        };
                        let f_in = if window.feature_groups > 1 {
                            group * rhs.inner.size + f
                        } else {
                            f
                        };
                        visit(
                            position(out, b, o, &p),
                            Some(position(lhs, b_in, f_in, &s)),
                            Some(position(rhs, o, f, &t)),
                            false,
                        );
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn forward_and_gradients_agree_with_their_definitions(seed: u64) {
        check::<f32>(seed, f64::from, |x| x as f32);
        check::<f64>(seed, |x| x, |x| x);
        check::<f16>(seed, f64::from, f16::from_f64);
        check::<bf16>(seed, f64::from, |x| bf16::from_f32(x as f32));
    }

    #[test]
    fn integers_and_complex_numbers_agree_too(seed: u64) {
        check::<i16>(seed, f64::from, |x| x as i16);
        check::<u8>(seed, f64::from, |x| x as i64 as u8);
        check::<Complex<f32>>(seed, |x| x.re as f64, |x| Complex::new(x as f32, 0.0));
    }
}

/// A contiguous view, features before or after the spatial axes.
fn contiguous_view(outer: usize, inner: usize, spatial: &[usize], last: bool) -> View {
    let positions: usize = spatial.iter().product();
    let mut stride = if last { inner } else { 1 };
    let mut axes: Vec<Axis> = Vec::new();
    for &size in spatial.iter().rev() {
        axes.insert(
            0,
            Axis {
                size,
                stride: stride as isize,
            },
        );
        stride *= size;
    }
    View {
        offset: 0,
        outer: Axis {
            size: outer,
            stride: (inner * positions) as isize,
        },
        inner: Axis {
            size: inner,
            stride: if last { 1 } else { positions as isize },
        },
        spatial: axes.into_iter().collect(),
    }
}

#[test]
fn large_problems_are_right_and_the_thread_count_does_not_show() {
    let same = Step {
        lo: 1,
        hi: 1,
        ..Step::default()
    };
    // batch, inputs, outputs, size, taps, step, groups
    type Shape = (usize, usize, usize, &'static [usize], usize, Step, usize);
    let shapes: [Shape; 22] = [
        (2, 24, 40, &[17, 19], 3, same, 1),
        (8, 32, 96, &[17, 22], 3, same, 2),
        (6, 48, 32, &[25, 24], 3, Step::default(), 1),
        (1, 64, 70, &[9, 9], 3, Step { stride: 2, ..same }, 1),
        (
            3,
            32,
            20,
            &[12, 12],
            4,
            Step {
                lhs_dilation: 2,
                lo: 2,
                hi: 2,
                ..Step::default()
            },
            1,
        ),
        (2, 16, 16, &[6, 8, 9], 3, same, 1),
        (2, 64, 64, &[30, 40], 3, same, 64),
        (1, 300, 300, &[3, 3], 1, Step::default(), 1),
        (
            2,
            40,
            80,
            &[150],
            5,
            Step {
                rhs_dilation: 2,
                ..same
            },
            4,
        ),
        (40, 130, 200, &[1], 1, Step::default(), 1),
        // Channels whose copies would alias in the cache; a weight gradient that is a GEMM in any layout; tiles of one
        // vector whose rows are evenly spaced.
        (2, 256, 40, &[12, 12], 3, Step { stride: 2, ..same }, 1),
        (4, 128, 144, &[9, 9], 1, Step::default(), 1),
        (3, 32, 16, &[8, 28], 3, Step { stride: 2, ..same }, 1),
        // Depthwise 3×3: some lanes or columns computed twice, an odd row, without padding or with padding on one side.
        (3, 35, 35, &[21, 17], 3, same, 35),
        (2, 16, 16, &[9, 70], 3, Step::default(), 16),
        (1, 48, 48, &[20, 90], 3, Step { hi: 0, ..same }, 48),
        // Few features: one GEMM of all positions, and filters that are transposed into panels.
        (2, 64, 64, &[70, 72], 1, Step::default(), 1),
        (2, 32, 64, &[20, 29], 3, Step { stride: 2, ..same }, 1),
        // Padding that covers whole windows, and border lines that form tiles of their own.
        (
            2,
            20,
            40,
            &[7, 33],
            2,
            Step {
                lo: 5,
                hi: 4,
                ..same
            },
            1,
        ),
        (
            2,
            24,
            33,
            &[9, 31],
            4,
            Step {
                lhs_dilation: 2,
                lo: 2,
                hi: 3,
                ..same
            },
            1,
        ),
        (
            2,
            18,
            34,
            &[11, 37],
            5,
            Step {
                stride: 2,
                lo: 2,
                hi: 2,
                ..same
            },
            2,
        ),
        (
            1,
            12,
            36,
            &[5, 6, 20],
            3,
            Step {
                rhs_dilation: 2,
                lo: 2,
                hi: 2,
                ..same
            },
            2,
        ),
    ];
    let dice = &mut Dice(5);
    for (batch, inputs, outputs, size, taps, step, groups) in shapes {
        for last in [false, true] {
            let positions: Vec<usize> = size
                .iter()
                .map(|&size| step.output_size(size, taps))
                .collect();
            let lhs = contiguous_view(batch, inputs, size, last);
            let rhs = contiguous_view(outputs, inputs / groups, &vec![taps; size.len()], last);
            let out = contiguous_view(batch, outputs, &positions, last);
            let window = Window {
                steps: size.iter().map(|_| step).collect(),
                feature_groups: groups,
                batch_groups: 1,
            };
            let len = |view: &View| {
                view.outer.size
                    * view.inner.size
                    * view.spatial.iter().map(|axis| axis.size).product::<usize>()
            };
            let x = values(dice, len(&lhs), |x| x as f32);
            let w = values(dice, len(&rhs), |x| x as f32);
            let grad = values(dice, len(&out), |x| x as f32);
            let run = || {
                let (mut y, mut dx, mut dw) = (grad.clone(), x.clone(), w.clone());
                conv((&mut y, &out), (&x, &lhs), (&w, &rhs), &window);
                conv_input_gradient((&mut dx, &lhs), (&grad, &out), (&w, &rhs), &window);
                conv_weight_gradient((&mut dw, &rhs), (&x, &lhs), (&grad, &out), &window);
                (y, dx, dw)
            };
            let mut expected = grad.clone();
            conv_naive(
                (&mut expected, &out),
                (&x, &lhs),
                (&w, &rhs),
                &window,
                f64::from,
                |x| x as f32,
            );
            crate::parallel::set_thread_limit(Some(1));
            let (y, dx, dw) = run();
            crate::parallel::set_thread_limit(None);
            assert!(y == expected, "{inputs} {outputs} {size:?}");
            // <y, grad> = <x, dx> = <w, dw>, exactly, since all values are multiples of 1/2.
            let dot = |a: &[f32], b: &[f32]| {
                a.iter()
                    .zip(b)
                    .map(|(&a, &b)| f64::from(a) * f64::from(b))
                    .sum::<f64>()
            };
            let product = dot(&y, &grad);
            assert_eq!(product, dot(&x, &dx));
            assert_eq!(product, dot(&w, &dw));
            assert!((y, dx, dw) == run());
        }
    }
}

#[test]
fn gradients_of_planes_agree_with_their_definition() {
    let dice = &mut Dice(11);
    for (width, lo, hi) in [(8, 1, 1), (17, 1, 0), (33, 0, 1), (56, 1, 1), (20, 0, 0)] {
        let step = Step {
            lo,
            hi,
            ..Step::default()
        };
        let window = Window {
            steps: [step; 2].into_iter().collect(),
            feature_groups: 6,
            batch_groups: 1,
        };
        let sizes = [5, width];
        let positions = sizes.map(|size| step.output_size(size, 3));
        let lhs = contiguous_view(3, 6, &sizes, false);
        let rhs = contiguous_view(6, 1, &[3, 3], false);
        let out = contiguous_view(3, 6, &positions, false);
        let mut x = values(dice, 18 * sizes[0] * sizes[1], |x| x as f32);
        let grad = values(dice, 18 * positions[0] * positions[1], |x| x as f32);
        for infinite in [false, true] {
            if infinite && !crate::simd::has_depthwise_3x3() {
                // `depthwise_nchw` pads rows with zeros, which may multiply it.
                continue;
            }
            if infinite {
                // The last element of a plane: taps that never reach it must not be affected.
                x[sizes[0] * sizes[1] - 1] = f32::INFINITY;
            }
            let (mut dw, mut expected) = (vec![f32::NAN; 54], vec![0f64; 54]);
            conv_weight_gradient((&mut dw, &rhs), (&x, &lhs), (&grad, &out), &window);
            adjoint(&window, &out, &lhs, &rhs, |o, l, r, first| {
                if let (false, Some(l), Some(r)) = (first, l, r) {
                    expected[r] += f64::from(x[l]) * f64::from(grad[o]);
                }
            });
            let same = |(&a, &b): (&f32, &f64)| f64::from(a) == b || a.is_nan() && b.is_nan();
            assert!(dw.iter().zip(&expected).all(same), "{width} {lo} {hi}");
        }
    }
}

#[test]
fn sums_are_as_good_as_f32_allows() {
    let dice = &mut Dice(9);
    let (lhs, rhs) = (
        contiguous_view(2, 30, &[12, 12], false),
        contiguous_view(35, 30, &[3, 3], false),
    );
    let out = contiguous_view(2, 35, &[12, 12], false);
    let window = Window {
        steps: [Step {
            lo: 1,
            hi: 1,
            ..Step::default()
        }; 2]
            .into_iter()
            .collect(),
        feature_groups: 1,
        batch_groups: 1,
    };
    let mut random = |n: usize| -> Vec<f32> {
        (0..n)
            .map(|_| (dice.next() >> 40) as f32 / (1 << 23) as f32 - 1.0)
            .collect()
    };
    let (x, w) = (random(2 * 30 * 144), random(35 * 30 * 9));
    let (mut y, mut expected) = (vec![0f32; 2 * 35 * 144], vec![0f64; 2 * 35 * 144]);
    conv((&mut y, &out), (&x, &lhs), (&w, &rhs), &window);
    let to_f64 = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    conv_naive(
        (&mut expected, &out),
        (&to_f64(&x), &lhs),
        (&to_f64(&w), &rhs),
        &window,
        |x| x,
        |x| x,
    );
    let worst = y
        .iter()
        .zip(&expected)
        .map(|(&y, &e)| (f64::from(y) - e).abs())
        .fold(0.0, f64::max);
    assert!(worst < 2e-5, "{worst}");
}

#[test]
fn special_values_pass_through_and_empty_sums_are_zero() {
    let (lhs, rhs, out) = (
        contiguous_view(1, 1, &[4], false),
        contiguous_view(1, 1, &[2], false),
        contiguous_view(1, 1, &[3], false),
    );
    let window = Window {
        steps: [Step::default()].into_iter().collect(),
        feature_groups: 1,
        batch_groups: 1,
    };
    let mut y = [0f32; 3];
    conv(
        (&mut y, &out),
        (&[1.0, f32::INFINITY, 1.0, f32::NAN], &lhs),
        (&[1.0, 1.0], &rhs),
        &window,
    );
    assert!(y[0] == f32::INFINITY && y[1] == f32::INFINITY && y[2].is_nan());
    // No input features: zeros. No positions, no images: nothing to do.
    let (lhs, rhs) = (
        contiguous_view(1, 0, &[4], false),
        contiguous_view(1, 0, &[2], false),
    );
    conv((&mut y, &out), (&[], &lhs), (&[], &rhs), &window);
    assert_eq!(y, [0.0; 3]);
    let (lhs, out) = (
        contiguous_view(0, 1, &[4], false),
        contiguous_view(0, 1, &[3], false),
    );
    let rhs = contiguous_view(1, 1, &[2], false);
    conv((&mut [], &out), (&[], &lhs), (&[1.0, 1.0], &rhs), &window);
    let mut dw = [f32::NAN; 2];
    conv_weight_gradient((&mut dw, &rhs), (&[], &lhs), (&[], &out), &window);
    assert_eq!(dw, [0.0; 2]);
}
