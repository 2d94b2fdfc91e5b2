use super::*;
use proptest::prelude::*;

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
    /// Strides for these sizes in random order, the offset of the first element and the storage.
    fn strides(&mut self, sizes: &[usize], reversed: bool) -> (Vec<isize>, usize, usize) {
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        match self.below(3) {
            0 => order.reverse(),
            _ => (0..order.len()).for_each(|i| {
                let j = self.below(i + 1);
                order.swap(i, j)
            }),
        }
        let (mut strides, mut stride, mut offset) = (vec![0isize; sizes.len()], 1, 0);
        for &i in &order {
            strides[i] = stride as isize;
            stride *= sizes[i].max(1);
            if reversed && self.below(6) == 0 && sizes[i] > 0 {
                offset += strides[i] as usize * (sizes[i] - 1);
                strides[i] = -strides[i];
            }
        }
        (strides, offset, stride)
    }
}

/// Axes with random windows, the offsets of input and output, and their storage.
fn sample(dice: &mut Dice) -> (Vec<WindowAxis>, [usize; 2], [usize; 2]) {
    let rank = dice.between(0, 4);
    let mut axes = Vec::new();
    while axes.len() < rank {
        let free = dice.below(2) == 0;
        let plain = dice.below(2) == 0;
        let mut one = |n| if free || plain { 1 } else { dice.between(1, n) };
        let (stride, lhs_dilation, rhs_dilation) = (one(3), one(3), one(3));
        let mut pad = || {
            if free {
                0
            } else {
                dice.between(0, 5) as isize - 2
            }
        };
        let step = Step {
            stride,
            lo: pad(),
            hi: pad(),
            lhs_dilation,
            rhs_dilation,
        };
        let size = if free && axes.is_empty() {
            dice.between(1, 70)
        } else {
            dice.between(1, 9)
        };
        let window = if free { 1 } else { dice.between(1, 4) };
        let places = step.output_size(size, window);
        if places > 0 {
            let axis = |size| Axis { size, stride: 0 };
            axes.push(WindowAxis {
                input: axis(size),
                output: axis(places),
                window,
                step,
            });
        }
    }
    let i = dice.below(axes.len().max(1));
    if !axes.is_empty() {
        axes.swap(0, i);
    }
    let inputs: Vec<usize> = axes.iter().map(|axis| axis.input.size).collect();
    let outputs: Vec<usize> = axes.iter().map(|axis| axis.output.size).collect();
    let (input, input_offset, input_size) = dice.strides(&inputs, true);
    let (output, output_offset, output_size) = dice.strides(&outputs, false);
    for (i, axis) in axes.iter_mut().enumerate() {
        (axis.input.stride, axis.output.stride) = (input[i], output[i]);
    }
    (
        axes,
        [input_offset, output_offset],
        [input_size, output_size],
    )
}

fn indices(sizes: impl Iterator<Item = usize>) -> Vec<Vec<usize>> {
    sizes.fold(vec![vec![]], |all, size| {
        let with = |head: &Vec<usize>, i| head.iter().copied().chain([i]).collect::<Vec<_>>();
        all.iter()
            .flat_map(|head| (0..size).map(|i| with(head, i)).collect::<Vec<_>>())
            .collect()
    })
}

/// Each position of the output with the elements that its window reads, in row-major order of the window.
fn windows(axes: &[WindowAxis], [input, output]: [usize; 2]) -> Vec<(usize, Vec<usize>)> {
    let at = |offset: usize, index: &[usize], pick: fn(&WindowAxis) -> Axis| {
        let steps = index
            .iter()
            .zip(axes)
            .map(|(&i, axis)| i as isize * pick(axis).stride);
        (offset as isize + steps.sum::<isize>()) as usize
    };
    let read = |place: &[usize], tap: &[usize]| -> Option<usize> {
        let index: Option<Vec<usize>> = axes
            .iter()
            .enumerate()
            .map(|(i, axis)| {
                let step = axis.step;
                let at = (place[i] * step.stride + tap[i] * step.rhs_dilation) as isize - step.lo;
                let inside = at >= 0
                    && at % step.lhs_dilation as isize == 0
                    && at / (step.lhs_dilation as isize) < axis.input.size as isize;
                inside.then(|| at as usize / step.lhs_dilation)
            })
            .collect();
        Some(at(input, &index?, |axis| axis.input))
    };
    let taps = indices(axes.iter().map(|axis| axis.window));
    indices(axes.iter().map(|axis| axis.output.size))
        .iter()
        .map(|place| {
            (
                at(output, place, |axis| axis.output),
                taps.iter().filter_map(|tap| read(place, tap)).collect(),
            )
        })
        .collect()
}

fn check<T: Pooled + std::fmt::Debug>(seed: u64, make: fn(f64) -> T) {
    let dice = &mut Dice(seed);
    let (axes, offsets, [input_size, output_size]) = sample(dice);
    // Few distinct values, so that ties are common; powers of two keep products exact.
    let mut values = |n: usize| -> Vec<T> {
        (0..n)
            .map(|_| make([-1.0, 0.5, 1.0, 2.0][dice.below(4)]))
            .collect()
    };
    let (x, other, source) = (values(input_size), values(input_size), values(output_size));
    let windows = windows(&axes, offsets);
    for reduction in [
        Reduction::Sum,
        Reduction::Prod,
        Reduction::Max,
        Reduction::Min,
    ] {
        let mut out = source.clone();
        let mut expected = source.clone();
        reduce_window((&mut out, offsets[1]), (&x, offsets[0]), &axes, reduction);
        for (place, reads) in &windows {
            let reads = reads.iter().map(|&at| x[at]);
            expected[*place] = match reduction {
                Reduction::Sum => {
                    T::narrow(reads.fold(T::IDENTITIES.0, |s, x| T::add(s, x.widen())))
                }
                Reduction::Prod => {
                    T::narrow(reads.fold(T::IDENTITIES.1, |s, x| T::mul(s, x.widen())))
                }
                Reduction::Max => reads.fold(T::LIMITS.0, |s, x| if x.above(s) { x } else { s }),
                Reduction::Min => reads.fold(T::LIMITS.1, |s, x| if x.below(s) { x } else { s }),
            };
        }
        assert!(out == expected, "{reduction:?} of {axes:?}");
    }
    for reduction in [Reduction::Max, Reduction::Min] {
        let (mut taken, mut spread) = (source.clone(), x.clone());
        window_gather(
            (&mut taken, offsets[1]),
            &other,
            (&x, offsets[0]),
            &axes,
            reduction,
        );
        window_scatter(
            &mut spread,
            (&source, offsets[1]),
            (&x, offsets[0]),
            &axes,
            reduction,
        );
        let (mut taken_expected, mut spread_expected) = (source.clone(), vec![T::ZERO; x.len()]);
        for (place, reads) in &windows {
            let chosen = reads.iter().copied().reduce(|a, b| {
                let replaces = if reduction == Reduction::Max {
                    x[b].above(x[a])
                } else {
                    x[b].below(x[a])
                };
                if replaces { b } else { a }
            });
            taken_expected[*place] = chosen.map_or(T::ZERO, |at| other[at]);
            if let Some(at) = chosen {
                spread_expected[at] =
                    T::narrow(T::add(spread_expected[at].widen(), source[*place].widen()));
            }
        }
        assert!(taken == taken_expected, "gather {reduction:?} of {axes:?}");
        assert!(
            spread == spread_expected,
            "scatter {reduction:?} of {axes:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn windows_agree_with_their_definition(seed: u64) {
        check::<f32>(seed, |x| x as f32);
        check::<f64>(seed, |x| x);
        check::<f16>(seed, f16::from_f64);
        check::<bf16>(seed, bf16::from_f64);
        check::<i32>(seed, |x| (x * 4.0) as i32);
        check::<u8>(seed, |x| (x * 4.0 + 9.0) as u8);
        check::<bool>(seed, |x| x > 0.6);
        // Real or imaginary, so that products stay powers of two.
        check::<Complex<f32>>(seed, |x| if x == 0.5 { Complex::new(0.0, 0.5) } else { Complex::new(x as f32, 0.0) });
    }
}

fn line(size: usize, window: usize, step: Step) -> WindowAxis {
    let axis = |size| Axis { size, stride: 1 };
    WindowAxis {
        input: axis(size),
        output: axis(step.output_size(size, window)),
        window,
        step,
    }
}

#[test]
fn nan_wins_and_the_first_of_equals_is_selected() {
    let x = [1.0, f32::NAN, 3.0, 2.0, 3.0, 3.0];
    let axes = [line(
        6,
        3,
        Step {
            stride: 3,
            ..Step::default()
        },
    )];
    for (reduction, last) in [(Reduction::Max, 3.0), (Reduction::Min, 2.0)] {
        let mut out = [0.0; 2];
        reduce_window((&mut out, 0), (&x, 0), &axes, reduction);
        assert!(out[0].is_nan() && out[1] == last);
    }
    let mut out = [0.0; 6];
    window_scatter(&mut out, (&[10.0, 20.0], 0), (&x, 0), &axes, Reduction::Max);
    assert_eq!(out, [0.0, 10.0, 0.0, 0.0, 20.0, 0.0]);
    let mut out = [0.0; 2];
    window_gather(
        (&mut out, 0),
        &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        (&x, 0),
        &axes,
        Reduction::Max,
    );
    assert_eq!(out, [2.0, 5.0]);
}

#[test]
fn a_window_of_padding_gives_the_identity_and_empty_arrays_are_fine() {
    let axes = [line(
        1,
        1,
        Step {
            lo: 1,
            hi: 1,
            ..Step::default()
        },
    )];
    let mut out = [7.0; 3];
    reduce_window((&mut out, 0), (&[5.0], 0), &axes, Reduction::Max);
    assert_eq!(out, [f32::NEG_INFINITY, 5.0, f32::NEG_INFINITY]);
    let axes = [line(0, 1, Step::default()), line(3, 2, Step::default())];
    reduce_window::<f32>((&mut [], 0), (&[], 0), &axes, Reduction::Sum);
    window_scatter::<f32>(&mut [], (&[], 0), (&[], 0), &axes, Reduction::Max);
    window_gather::<f32>((&mut [], 0), &[], (&[], 0), &axes, Reduction::Max);
}

#[test]
fn the_thread_count_does_not_show() {
    let axis = |size, stride| Axis { size, stride };
    let x: Vec<f32> = (0..4 * 64 * 64 * 16)
        .map(|i| ((i * 7919) % 1009) as f32)
        .collect();
    let step = Step {
        stride: 2,
        lo: 1,
        hi: 1,
        ..Step::default()
    };
    let same = Step::default();
    let axes = [
        WindowAxis {
            input: axis(4, 65536),
            output: axis(4, 16384),
            window: 1,
            step: same,
        },
        WindowAxis {
            input: axis(64, 1024),
            output: axis(32, 512),
            window: 3,
            step,
        },
        WindowAxis {
            input: axis(64, 16),
            output: axis(32, 16),
            window: 3,
            step,
        },
        WindowAxis {
            input: axis(16, 1),
            output: axis(16, 1),
            window: 1,
            step: same,
        },
    ];
    let run = || {
        let (mut sum, mut spread) = (vec![0f32; 4 * 32 * 32 * 16], vec![0f32; x.len()]);
        reduce_window((&mut sum, 0), (&x, 0), &axes, Reduction::Sum);
        window_scatter(&mut spread, (&sum, 0), (&x, 0), &axes, Reduction::Max);
        (sum, spread)
    };
    crate::parallel::set_thread_limit(Some(1));
    let one = run();
    crate::parallel::set_thread_limit(None);
    assert!(one == run());
}
