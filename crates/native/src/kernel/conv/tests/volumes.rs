//! Volumes with 3×3 windows and any depth: all three directions against their definition.

use super::super::{problem::Problem, winograd};
use super::*;
use crate::simd::Tiled;

/// Batch, features of the input and of the result, size, taps along the depth, padding of each axis, groups.
type Volume = (
    usize,
    usize,
    usize,
    [usize; 3],
    usize,
    [(isize, isize); 3],
    usize,
);

const SAME: [(isize, isize); 3] = [(1, 1); 3];

const VOLUMES: [Volume; 11] = [
    (2, 16, 16, [5, 9, 11], 3, SAME, 1),
    (1, 32, 16, [10, 8, 7], 3, [(0, 0); 3], 1),
    // More padding on one side, none on the other; deeper than one task; a depth that the tasks do not divide evenly.
    (2, 16, 48, [9, 12, 13], 3, [(2, 0), (1, 2), (0, 1)], 1),
    (1, 16, 16, [19, 8, 8], 3, SAME, 1),
    (1, 16, 32, [17, 10, 6], 3, [(0, 1), (1, 0), (1, 1)], 1),
    // Other windows along the depth, one that is deeper than the volume, results that read only padding along the
    // depth.
    (3, 16, 32, [2, 20, 21], 5, [(2, 2), (1, 1), (1, 1)], 1),
    (2, 16, 16, [6, 12, 12], 2, [(1, 0), (1, 1), (1, 1)], 1),
    (2, 16, 16, [6, 14, 15], 1, [(0, 0), (1, 1), (1, 1)], 1),
    (1, 16, 16, [4, 16, 18], 3, [(4, 3), (1, 1), (2, 1)], 1),
    // Padding that crops.
    (1, 16, 16, [9, 14, 13], 3, [(-1, -2), (-1, 1), (1, -1)], 1),
    // Groups, and rows of many patches.
    (1, 32, 32, [4, 9, 100], 3, SAME, 2),
];

/// The views of input, filter and result, and the window.
fn views(volume: &Volume, last: bool) -> (View, View, View, Window) {
    let (batch, inputs, outputs, size, deep, padding, groups) = *volume;
    let taps = [deep, 3, 3];
    let steps = padding.map(|(lo, hi)| Step {
        lo,
        hi,
        ..Step::default()
    });
    let positions = [0, 1, 2].map(|i| steps[i].output_size(size[i], taps[i]));
    (
        contiguous_view(batch, inputs, &size, last),
        contiguous_view(outputs, inputs / groups, &taps, last),
        contiguous_view(batch, outputs, &positions, last),
        Window {
            steps: steps.into_iter().collect(),
            feature_groups: groups,
            batch_groups: 1,
        },
    )
}

fn len(view: &View) -> usize {
    let positions: usize = view.spatial.iter().map(|axis| axis.size).product();
    view.outer.size * view.inner.size * positions
}

/// A view with batch and features, or both kinds of features, exchanged.
fn with_swapped_operands(view: &View) -> View {
    View {
        outer: view.inner,
        inner: view.outer,
        ..view.clone()
    }
}

/// Both gradients as convolutions by the definition: with a reversed filter, and with the output gradient as the
/// filter.
fn gradients(
    (x, lhs): (&[f64], &View),
    (w, rhs): (&[f64], &View),
    (grad, out): (&[f64], &View),
    window: &Window,
) -> (Vec<f64>, Vec<f64>) {
    let (mut dx, mut dw) = (vec![0.0; x.len()], vec![0.0; w.len()]);
    let mut backwards = (with_swapped_operands(rhs), window.clone());
    for (axis, step) in backwards.0.spatial.iter_mut().zip(&mut backwards.1.steps) {
        let last = axis.size as isize - 1;
        backwards.0.offset += (last * axis.stride) as usize;
        axis.stride = -axis.stride;
        (step.lo, step.hi) = (last - step.lo, last - step.hi);
    }
    let same = |x: f64| x;
    conv_naive(
        (&mut dx, lhs),
        (grad, out),
        (w, &backwards.0),
        &backwards.1,
        same,
        same,
    );
    conv_naive(
        (&mut dw, &with_swapped_operands(rhs)),
        (x, &with_swapped_operands(lhs)),
        (grad, &with_swapped_operands(out)),
        window,
        same,
        same,
    );
    (dx, dw)
}

fn to_f64(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

#[test]
fn volumes_are_right_in_all_directions() {
    let dice = &mut Dice(21);
    // The number of problems with enough patches for Winograd's weight gradient.
    let mut filters = 0;
    for volume in &VOLUMES {
        for last in [false, true] {
            let (lhs, rhs, out, window) = views(volume, last);
            if f32::tile_shape(16, 16).columns >= 16 {
                let problem = Problem::forward(&out, &lhs, &rhs, &window);
                assert!(winograd::fits::<f32>(&problem).is_some(), "{volume:?}");
                let problem = Problem::weight_gradient(&rhs, &lhs, &out, &window);
                filters += usize::from(
                    problem.has_long_window()
                        && winograd::fits_weight_gradient::<f32>(&problem).is_some(),
                );
            }
            let x = values(dice, len(&lhs), |x| x as f32);
            let w = values(dice, len(&rhs), |x| x as f32);
            let grad = values(dice, len(&out), |x| x as f32);
            let (mut y, mut dx, mut dw) = (
                vec![f32::NAN; grad.len()],
                vec![f32::NAN; x.len()],
                vec![f32::NAN; w.len()],
            );
            conv((&mut y, &out), (&x, &lhs), (&w, &rhs), &window);
            conv_input_gradient((&mut dx, &lhs), (&grad, &out), (&w, &rhs), &window);
            conv_weight_gradient((&mut dw, &rhs), (&x, &lhs), (&grad, &out), &window);
            let mut expected = vec![0.0; grad.len()];
            let (x, w, grad) = (to_f64(&x), to_f64(&w), to_f64(&grad));
            let same = |x: f64| x;
            conv_naive(
                (&mut expected, &out),
                (&x, &lhs),
                (&w, &rhs),
                &window,
                same,
                same,
            );
            assert!(to_f64(&y) == expected, "forward {volume:?} {last}");
            if volume.6 == 1 {
                let (input_gradient, weight_gradient) =
                    gradients((&x, &lhs), (&w, &rhs), (&grad, &out), &window);
                assert!(to_f64(&dx) == input_gradient, "by input {volume:?} {last}");
                assert!(
                    to_f64(&dw) == weight_gradient,
                    "by filter {volume:?} {last}"
                );
            }
            // Exactly, since all values are multiples of 1/2.
            let dot = |a: &[f64], b: &[f32]| a.iter().zip(b).map(|(a, &b)| a * f64::from(b)).sum();
            let product: f64 = dot(&grad, &y);
            assert_eq!(product, dot(&x, &dx), "{volume:?} {last}");
            assert_eq!(product, dot(&w, &dw), "{volume:?} {last}");
        }
    }
    assert!(filters == 16 || f32::tile_shape(16, 16).columns < 16);
}

#[test]
fn sums_of_volumes_are_good_and_the_thread_count_does_not_show() {
    let dice = &mut Dice(22);
    let mut random = |n: usize| -> Vec<f32> {
        (0..n)
            .map(|_| (dice.next() >> 40) as f32 / (1 << 23) as f32 - 1.0)
            .collect()
    };
    for (volume, last) in [
        ((2, 16, 16, [16, 20, 22], 3, SAME, 1), false),
        ((2, 16, 16, [16, 20, 22], 3, SAME, 1), true),
        ((1, 32, 48, [11, 13, 9], 3, SAME, 1), true),
    ] {
        let (lhs, rhs, out, window) = views(&volume, last);
        let (x, w, grad) = (random(len(&lhs)), random(len(&rhs)), random(len(&out)));
        let run = || {
            let (mut y, mut dx, mut dw) = (grad.clone(), x.clone(), w.clone());
            conv((&mut y, &out), (&x, &lhs), (&w, &rhs), &window);
            conv_input_gradient((&mut dx, &lhs), (&grad, &out), (&w, &rhs), &window);
            conv_weight_gradient((&mut dw, &rhs), (&x, &lhs), (&grad, &out), &window);
            (y, dx, dw)
        };
        crate::parallel::set_thread_limit(Some(1));
        let (y, dx, dw) = run();
        crate::parallel::set_thread_limit(None);
        assert!((y.clone(), dx.clone(), dw.clone()) == run());
        let mut expected = vec![0.0; grad.len()];
        let (x, w, grad) = (to_f64(&x), to_f64(&w), to_f64(&grad));
        let same = |x: f64| x;
        conv_naive(
            (&mut expected, &out),
            (&x, &lhs),
            (&w, &rhs),
            &window,
            same,
            same,
        );
        let (input_gradient, weight_gradient) =
            gradients((&x, &lhs), (&w, &rhs), (&grad, &out), &window);
        for (name, got, exact) in [
            ("forward", y, expected),
            ("input gradient", dx, input_gradient),
            ("weight gradient", dw, weight_gradient),
        ] {
            let largest = exact.iter().fold(0.0f64, |most, x| most.max(x.abs()));
            let errors = got.iter().zip(&exact);
            let worst = errors.fold(0.0f64, |most, (&x, e)| most.max((f64::from(x) - e).abs()));
            // A single rounding of the largest one is 6e-8 of it.
            assert!(
                worst < 5e-7 * largest,
                "{name} {volume:?} {last}: {}",
                worst / largest
            );
        }
    }
}
