//! Cases of `dot_general`, convolutions, windows and Fourier transforms.

use super::elementwise::push;
use super::{Case, shown};
use crate::compare::Tolerance;
use crate::draw::Draw;
use clematis_core::op::{
    Conv, Dot, Fft, FftKind, Pads, Window, WindowGather, WindowKind, WindowScatter,
};
use clematis_core::{Axes, DType, Dim, Op, Result};

/// Tolerance of sums of products in any order; half precision is summed in f32.
const SUM: f64 = 16.0;

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        dot(all, dtype)?;
        conv(all, dtype)?;
        for &kind in WindowKind::ALL {
            window(all, dtype, kind)?;
        }
        for &kind in FftKind::ALL {
            fourier(all, dtype, kind)?;
        }
    }
    Ok(())
}

fn dot(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    type Row<'a> = (&'a [usize], &'a [usize], [&'a [usize]; 4]);
    let rows: &[Row] = &[
        (&[2, 3], &[3, 4], [&[], &[], &[1], &[0]]),
        (&[3, 2], &[4, 3], [&[], &[], &[0], &[1]]),
        (&[2, 3, 4], &[2, 4, 5], [&[0], &[0], &[2], &[1]]),
        (&[3, 2, 4], &[4, 5, 2], [&[1], &[2], &[2], &[0]]),
        (&[2, 3, 4], &[4, 3], [&[], &[], &[1, 2], &[1, 0]]),
        (&[2], &[3], [&[], &[], &[], &[]]),
        (&[], &[2, 2], [&[], &[], &[], &[]]),
        (&[3], &[3], [&[], &[], &[0], &[0]]),
        (&[2, 0], &[0, 3], [&[], &[], &[1], &[0]]),
        (&[0, 2], &[2, 3], [&[], &[], &[1], &[0]]),
        (&[1, 1, 3], &[1, 3, 1], [&[0], &[0], &[2], &[1]]),
        (&[2, 3], &[2, 3], [&[0, 1], &[0, 1], &[], &[]]),
        (&[2, 2, 3, 2], &[2, 2, 2, 3], [&[1, 0], &[0, 2], &[2], &[3]]),
        (&[19, 33], &[33, 21], [&[], &[], &[1], &[0]]),
    ];
    for (p, q, [lb, rb, lc, rc]) in rows {
        let op = Dot {
            lhs_batch: Axes::new(lb),
            rhs_batch: Axes::new(rb),
            lhs_contract: Axes::new(lc),
            rhs_contract: Axes::new(rc),
        };
        let name = format!(
            "dot_general {dtype}{}{} {lb:?} {lc:?} {rc:?}",
            shown(p),
            shown(q)
        );
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.small(dtype, p)?, draw.small(dtype, q)?];
        let case = Case::by_parameters(name, op, dtype, inputs);
        push(all, case.within(Tolerance::overall(SUM)));
    }
    Ok(())
}

fn pads(padding: &[(i64, i64)]) -> Pads {
    padding
        .iter()
        .map(|&(l, h)| (Dim::number(l), Dim::number(h)))
        .collect()
}

/// A convolution in the default layout, to be modified.
fn plain(spatial: usize) -> Conv {
    let ones: Axes = std::iter::repeat_n(1, spatial).collect();
    Conv {
        strides: ones.clone(),
        padding: pads(&vec![(0, 0); spatial]),
        lhs_dilation: ones.clone(),
        rhs_dilation: ones,
        lhs_layout: Axes::all(spatial + 2),
        rhs_layout: Axes::all(spatial + 2),
        out_layout: Axes::all(spatial + 2),
        feature_groups: 1,
        batch_groups: 1,
    }
}

fn convolutions() -> Vec<(Vec<usize>, Vec<usize>, Conv)> {
    let ax = Axes::new;
    vec![
        (vec![2, 3, 6], vec![4, 3, 3], plain(1)),
        (
            vec![2, 2, 5, 6],
            vec![3, 2, 3, 2],
            Conv {
                strides: ax(&[2, 1]),
                padding: pads(&[(1, 2), (0, 1)]),
                ..plain(2)
            },
        ),
        (
            vec![1, 2, 5, 5],
            vec![2, 2, 2, 3],
            Conv {
                lhs_dilation: ax(&[2, 1]),
                rhs_dilation: ax(&[1, 2]),
                padding: pads(&[(0, 1), (2, 1)]),
                ..plain(2)
            },
        ),
        // Cropped by negative padding.
        (
            vec![1, 1, 7],
            vec![2, 1, 2],
            Conv {
                padding: pads(&[(-2, -1)]),
                strides: ax(&[2]),
                ..plain(1)
            },
        ),
        // Feature groups; as many as features.
        (
            vec![2, 4, 5],
            vec![6, 2, 3],
            Conv {
                feature_groups: 2,
                ..plain(1)
            },
        ),
        (
            vec![1, 3, 4, 4],
            vec![6, 1, 3, 3],
            Conv {
                feature_groups: 3,
                padding: pads(&[(1, 1), (1, 1)]),
                ..plain(2)
            },
        ),
        // Batch groups.
        (
            vec![4, 3, 5],
            vec![4, 3, 2],
            Conv {
                batch_groups: 2,
                strides: ax(&[2]),
                ..plain(1)
            },
        ),
        // Features last, filter axes permuted, result transposed.
        (
            vec![2, 5, 4, 3],
            vec![2, 3, 4, 2],
            Conv {
                lhs_layout: ax(&[0, 3, 1, 2]),
                rhs_layout: ax(&[2, 1, 0, 3]),
                out_layout: ax(&[3, 0, 2, 1]),
                ..plain(2)
            },
        ),
        // Three and zero spatial axes.
        (
            vec![1, 2, 3, 4, 3],
            vec![2, 2, 2, 2, 2],
            Conv {
                strides: ax(&[1, 2, 1]),
                padding: pads(&[(1, 0), (0, 1), (0, 0)]),
                ..plain(3)
            },
        ),
        (vec![3, 2], vec![4, 2], plain(0)),
        // Empty cases: an empty batch, a filter larger than the input, no features.
        (vec![0, 2, 4], vec![3, 2, 2], plain(1)),
        (vec![2, 1, 2], vec![2, 1, 4], plain(1)),
        (vec![2, 0, 4], vec![3, 0, 2], plain(1)),
        (vec![1, 1, 1, 1], vec![1, 1, 1, 1], plain(2)),
        // A stride with a remainder, combined with everything else.
        (
            vec![2, 4, 9],
            vec![2, 2, 3],
            Conv {
                strides: ax(&[3]),
                padding: pads(&[(2, 1)]),
                lhs_dilation: ax(&[2]),
                rhs_dilation: ax(&[2]),
                feature_groups: 2,
                ..plain(1)
            },
        ),
    ]
}

fn conv(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (i, (p, q, op)) in convolutions().into_iter().enumerate() {
        let name = format!("conv_general {dtype} {i} {}{}", shown(&p), shown(&q));
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.small(dtype, &p)?, draw.small(dtype, &q)?];
        let case = Case::by_parameters(name, op, dtype, inputs);
        push(all, case.within(Tolerance::overall(SUM)));
    }
    Ok(())
}

type ConvConfig<'a> = (
    &'a [usize],
    &'a [usize],
    &'a [usize],
    &'a [(i64, i64)],
    &'a [usize],
    &'a [usize],
);

const WINDOWS: &[ConvConfig] = &[
    (&[5], &[3], &[1], &[(0, 0)], &[1], &[1]),
    (
        &[2, 6, 5],
        &[1, 2, 3],
        &[1, 2, 1],
        &[(0, 0), (1, 0), (1, 1)],
        &[1, 1, 1],
        &[1, 1, 1],
    ),
    (
        &[4, 5],
        &[2, 2],
        &[2, 3],
        &[(0, 1), (1, 1)],
        &[1, 2],
        &[2, 1],
    ),
    (&[7], &[2], &[2], &[(-1, -2)], &[1], &[1]),
    (&[3], &[2], &[1], &[(0, 0)], &[3], &[1]),
    (
        &[0, 3],
        &[1, 2],
        &[1, 1],
        &[(0, 0), (0, 0)],
        &[1, 1],
        &[1, 1],
    ),
    (&[2], &[4], &[1], &[(0, 0)], &[1], &[1]),
    (
        &[1, 1],
        &[1, 1],
        &[1, 1],
        &[(0, 0), (0, 0)],
        &[1, 1],
        &[1, 1],
    ),
    (&[], &[], &[], &[], &[], &[]),
];

fn window(all: &mut Vec<Case>, dtype: DType, kind: WindowKind) -> Result<()> {
    for (i, (shape, size, strides, padding, base, dilation)) in WINDOWS.iter().enumerate() {
        let p = Window {
            kind,
            size: Axes::new(size),
            strides: Axes::new(strides),
            padding: pads(padding),
            base_dilation: Axes::new(base),
            window_dilation: Axes::new(dilation),
        };
        let op = Op::from(p.clone());
        let name = format!("{} {dtype} {i} {}", op.name(), shown(shape));
        let mut draw = Draw::new(&name);
        let x = draw.distinct(dtype, shape)?;
        let small = draw.small(dtype, shape)?;
        let ordered = matches!(kind, WindowKind::Max | WindowKind::Min);
        let operand = if ordered { x.clone() } else { small };
        let tolerance = if ordered {
            Tolerance::exact()
        } else {
            Tolerance::overall(SUM)
        };
        let mut case = Case::by_parameters(name, op, dtype, vec![operand]).within(tolerance);
        if *shape == [3] && ordered {
            // Empty windows give infinities, which have no finite differences.
            case = case.without_derivatives();
        }
        push(all, case);
        if !ordered {
            continue;
        }
        let scatter = WindowScatter::try_from(p.clone())?;
        let gather = Op::from(WindowGather::from(scatter.clone()));
        let scatter = Op::from(scatter);
        let windows = crate::reference::run(&Op::from(p), std::slice::from_ref(&x))?;
        for (op, other) in [(scatter, &windows[0].shape), (gather, &x.shape)] {
            let name = format!("{} {dtype} {i} {}", op.name(), shown(shape));
            let y = Draw::new(&name).small(dtype, other)?;
            let case = Case::by_parameters(name, op, dtype, vec![x.clone(), y]);
            push(all, case.within(Tolerance::overall(SUM)));
        }
    }
    Ok(())
}

fn fourier(all: &mut Vec<Case>, dtype: DType, kind: FftKind) -> Result<()> {
    for (shape, axes) in [
        (&[8][..], &[0][..]),
        (&[2, 5], &[1]),
        (&[3, 4], &[0, 1]),
        (&[4, 3], &[1, 0]),
        (&[1], &[0]),
        (&[2], &[0]),
        (&[2, 3, 4], &[0, 1, 2]),
        (&[0, 4], &[1]),
        (&[6, 7], &[0]),
        (&[13], &[0]),
    ] {
        let last = axes[axes.len() - 1];
        // The operand of irfft is the half spectrum of the given shape.
        let length = shape[last];
        let mut own = shape.to_vec();
        if kind == FftKind::RealInverse {
            own[last] = length / 2 + 1;
        }
        let op = Op::from(Fft {
            kind,
            axes: Axes::new(axes),
            length: Dim::from(length),
        });
        let name = format!("{} {dtype}{} {axes:?}", op.name(), shown(shape));
        let x = Draw::new(&name).small(dtype, &own)?;
        let case = Case::by_parameters(name, op, dtype, vec![x]);
        push(all, case.within(Tolerance::overall(SUM)));
    }
    Ok(())
}
