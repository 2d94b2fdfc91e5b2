//! 4×4 windows with stride 2 or an input dilated by 2: odd sizes, sizes with a remainder, padding of either sign.

use super::*;

/// A window with stride 2 (`opened` false), or over an input dilated by 2.
fn step(opened: bool, lo: isize, hi: isize) -> Step {
    let (stride, lhs_dilation) = if opened { (1, 2) } else { (2, 1) };
    Step {
        stride,
        lhs_dilation,
        lo,
        hi,
        ..Step::default()
    }
}

struct Case {
    window: Window,
    lhs: View,
    rhs: View,
    out: View,
}

impl Case {
    fn new(
        (batch, inputs, outputs): (usize, usize, usize),
        size: [usize; 2],
        steps: [Step; 2],
        groups: usize,
        last: bool,
    ) -> Self {
        let positions = [0, 1].map(|i| steps[i].output_size(size[i], 4));
        Case {
            window: Window {
                steps: steps.into_iter().collect(),
                feature_groups: groups,
                batch_groups: 1,
            },
            lhs: contiguous_view(batch, inputs, &size, last),
            rhs: contiguous_view(outputs, inputs / groups, &[4, 4], last),
            out: contiguous_view(batch, outputs, &positions, last),
        }
    }

    fn run<T: Convolved + Default>(&self, x: &[T], w: &[T], grad: &[T]) -> [Vec<T>; 3] {
        let [mut y, mut dx, mut dw] = [grad, x, w].map(|x| vec![T::default(); x.len()]);
        let Case {
            window,
            lhs,
            rhs,
            out,
        } = self;
        conv((&mut y, out), (x, lhs), (w, rhs), window);
        conv_input_gradient((&mut dx, lhs), (grad, out), (w, rhs), window);
        conv_weight_gradient((&mut dw, rhs), (x, lhs), (grad, out), window);
        [y, dx, dw]
    }

    /// The same by the definition.
    fn expected(&self, x: &[f64], w: &[f64], grad: &[f64]) -> [Vec<f64>; 3] {
        let [mut y, mut dx, mut dw] = [grad, x, w].map(|x| vec![0.0; x.len()]);
        let Case {
            window,
            lhs,
            rhs,
            out,
        } = self;
        conv_naive((&mut y, out), (x, lhs), (w, rhs), window, |x| x, |x| x);
        adjoint(window, out, lhs, rhs, |o, l, r, first| {
            if let (false, Some(l), Some(r)) = (first, l, r) {
                dx[l] += grad[o] * w[r];
                dw[r] += x[l] * grad[o];
            }
        });
        [y, dx, dw]
    }

    /// Whether all three directions use Winograd.
    fn uses_winograd(&self, opened: bool) -> bool {
        let Case {
            window,
            lhs,
            rhs,
            out,
        } = self;
        let weight_gradient = Problem::weight_gradient(rhs, lhs, out, window);
        let weight_gradient = match opened {
            true => weight_gradient.with_swapped_operands(),
            false => weight_gradient,
        };
        super::super::winograd_strided::fits::<f32>(&Problem::forward(out, lhs, rhs, window))
            && super::super::winograd_strided::fits::<f32>(&Problem::input_gradient(
                lhs, out, rhs, window,
            ))
            && weight_gradient.has_long_window()
            && super::super::winograd_strided::fits_weight_gradient::<f32>(&weight_gradient)
    }

    fn lens(&self) -> [usize; 3] {
        [&self.lhs, &self.rhs, &self.out].map(|view| {
            let positions: usize = view.spatial.iter().map(|axis| axis.size).product();
            view.outer.size * view.inner.size * positions
        })
    }
}

#[test]
fn stride_two_agrees_with_the_definition_on_any_number_of_threads() {
    let dice = &mut Dice(21);
    // Sizes of batch and features, of the image, whether the result is the finer one, vertical and horizontal padding,
    // groups.
    type Row = (
        (usize, usize, usize),
        [usize; 2],
        bool,
        [(isize, isize); 2],
        usize,
    );
    let rows: [Row; 12] = [
        ((8, 16, 16), [13, 14], true, [(2, 2), (2, 2)], 1),
        ((11, 16, 32), [9, 22], true, [(3, 2), (1, 3)], 1),
        ((5, 32, 16), [11, 17], true, [(4, 0), (0, 4)], 1),
        ((8, 16, 48), [12, 12], true, [(5, 6), (-1, 1)], 1),
        ((17, 64, 32), [10, 11], true, [(2, 3), (3, 3)], 2),
        ((2, 16, 16), [9, 150], true, [(2, 2), (2, 2)], 1),
        ((8, 16, 16), [26, 28], false, [(1, 1), (1, 1)], 1),
        ((11, 32, 16), [27, 30], false, [(2, 0), (0, 3)], 1),
        ((6, 16, 32), [31, 25], false, [(0, 0), (3, 2)], 1),
        ((8, 48, 16), [29, 33], false, [(-1, 2), (4, 5)], 1),
        ((9, 32, 64), [28, 34], false, [(1, 1), (2, 1)], 2),
        ((2, 16, 16), [20, 300], false, [(1, 1), (1, 1)], 1),
    ];
    for (sizes, size, opened, padding, groups) in rows {
        let steps = padding.map(|(lo, hi)| step(opened, lo, hi));
        for last in [false, true] {
            let case = Case::new(sizes, size, steps, groups, last);
            let [x, w, grad] = case.lens().map(|len| values(dice, len, |x| x as f32));
            let to_f64 = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
            let expected = case.expected(&to_f64(&x), &to_f64(&w), &to_f64(&grad));
            crate::parallel::set_thread_limit(Some(1));
            let alone = case.run(&x, &w, &grad);
            crate::parallel::set_thread_limit(None);
            // All values are multiples of 1/2, so sums are exact in any order.
            for (direction, (found, expected)) in alone.iter().zip(&expected).enumerate() {
                let same = to_f64(found) == *expected;
                assert!(same, "{sizes:?} {size:?} {padding:?} {last} {direction}");
            }
            assert!(alone == case.run(&x, &w, &grad));
            // f64 and half-precision types use the same algorithm.
            let bf16s = [&x, &w, &grad].map(|x| {
                let bits = x.iter().map(|&x| bf16::from_f32(x));
                bits.collect::<Vec<_>>()
            });
            let found = case.run(&bf16s[0], &bf16s[1], &bf16s[2]);
            let from_f64 = |x: &f64| bf16::from_f32(*x as f32);
            for (found, expected) in found.iter().zip(&expected) {
                assert!(found.iter().zip(expected).all(|(a, b)| *a == from_f64(b)));
            }
            assert!(case.run(&to_f64(&x), &to_f64(&w), &to_f64(&grad)) == expected);
        }
    }
}

#[test]
fn stride_two_has_the_errors_of_the_definition() {
    let dice = &mut Dice(23);
    let mut random = |n: usize| -> Vec<f32> {
        (0..n)
            .map(|_| (dice.next() >> 40) as f32 / (1 << 23) as f32 - 1.0)
            .collect()
    };
    for (opened, size) in [(true, [14, 14]), (false, [28, 28])] {
        let pad = if opened { 2 } else { 1 };
        let steps = [step(opened, pad, pad); 2];
        let case = Case::new((11, 32, 32), size, steps, 1, true);
        let [x, w, grad] = case.lens().map(&mut random);
        let to_f64 = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let expected = case.expected(&to_f64(&x), &to_f64(&w), &to_f64(&grad));
        if <f32 as Tiled>::tile_shape(32, usize::MAX).columns >= 16 {
            assert!(case.uses_winograd(opened));
        }
        // One after the other in f32, as the definition says it.
        let mut sums = [&grad, &x, &w].map(|x| vec![0f32; x.len()]);
        let Case {
            window,
            lhs,
            rhs,
            out,
        } = &case;
        adjoint(window, out, lhs, rhs, |o, l, r, first| {
            if let (false, Some(l), Some(r)) = (first, l, r) {
                sums[0][o] += x[l] * w[r];
                sums[1][l] += grad[o] * w[r];
                sums[2][r] += x[l] * grad[o];
            }
        });
        let error = |found: &[f32], expected: &[f64]| {
            let errors = found.iter().zip(expected);
            let squares = errors.map(|(&a, &b)| (f64::from(a) - b).powi(2));
            (squares.sum::<f64>() / found.len() as f64).sqrt()
        };
        for (i, found) in case.run(&x, &w, &grad).iter().enumerate() {
            let (ours, definition) = (error(found, &expected[i]), error(&sums[i], &expected[i]));
            assert!(
                ours < 1.5 * definition,
                "{opened} {i}: {ours:e} {definition:e}"
            );
        }
    }
}
