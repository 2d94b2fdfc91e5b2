//! Cases of reductions, cumulative reductions and sorts.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use clematis_core::op::{
    ArgReduce, Cumulative, CumulativeKind, Domain, Extreme, Reduce, ReduceKind, Sort,
};
use clematis_core::{Axes, DType, Dim, Op, Result};

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        for &kind in ReduceKind::ALL {
            reduce(all, dtype, kind)?;
        }
        for &kind in Extreme::ALL {
            arg_reduce(all, dtype, kind)?;
        }
        for &kind in CumulativeKind::ALL {
            cumulative(all, dtype, kind)?;
        }
        sort(all, dtype)?;
        top_k(all, dtype)?;
    }
    Ok(())
}

/// Sums of half precision are accumulated in f32 and rounded once; orders of summation differ.
const SUM: Tolerance = Tolerance {
    units: 8.0,
    overall: true,
    floor: 0.0,
    signed_zeros: false,
};

fn reduce(all: &mut Vec<Case>, dtype: DType, kind: ReduceKind) -> Result<()> {
    for (shape, axes) in [
        (&[2, 3, 4][..], &[0][..]),
        (&[2, 3, 4], &[1]),
        (&[2, 3, 4], &[2]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3, 4], &[0, 1, 2]),
        (&[2, 3], &[]),
        (&[1, 3], &[0]),
        (&[], &[]),
        (&[0, 3], &[0]),
        (&[0, 3], &[1]),
        (&[53], &[0]),
    ] {
        let op = Op::from(Reduce {
            kind,
            axes: Axes::new(axes),
        });
        let name = format!("{} {dtype}{} {axes:?}", op.name(), shown(shape));
        let mut draw = Draw::new(&name);
        let x = match kind {
            // Values about 1, so that long products stay within the range of half precision.
            ReduceKind::Prod if dtype.is_inexact() => draw
                .array(dtype, shape, Domain::Nonzero, 0)?
                .map(dtype, |v| Num::Inexact(v.c() / v.c().norm().sqrt()))
                .rounded()?,
            ReduceKind::Max | ReduceKind::Min => draw.distinct(dtype, shape)?,
            _ => draw.any(dtype, shape)?,
        };
        let exact = matches!(kind, ReduceKind::Max | ReduceKind::Min);
        let tolerance = if exact { Tolerance::exact() } else { SUM };
        let mut case = Case::by_parameters(name, op, dtype, vec![x]).within(tolerance);
        if kind == ReduceKind::Prod {
            // Long cumulative products in half precision.
            case = case.deriving(|d| d.duality = 512.0);
        }
        push(all, case);
    }
    if kind == ReduceKind::Prod && dtype.is_inexact() {
        // With one zero factor only its own derivative is nonzero; with two, none is.
        for zeros in [1, 2] {
            let name = format!("reduce_prod {dtype} with {zeros} zeros");
            let mut x = Draw::new(&name).array(dtype, &[2, 4], Domain::Nonzero, 0)?;
            for v in x.values.iter_mut().skip(1).take(zeros) {
                *v = Num::real(0.0);
            }
            let op = Reduce {
                kind,
                axes: Axes::new(&[1]),
            };
            push(
                all,
                Case::by_parameters(name, op, dtype, vec![x]).within(SUM),
            );
        }
    }
    if dtype.is_float() && matches!(kind, ReduceKind::Max | ReduceKind::Min | ReduceKind::Sum) {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = Array::real(
            dtype,
            &[4, 3],
            &[
                1.0, nan, 2.0, inf, 1.0, -3.0, -inf, -inf, 5.0, inf, nan, -inf,
            ],
        );
        let op = Op::from(Reduce {
            kind,
            axes: Axes::new(&[1]),
        });
        let name = format!("{} {dtype} specials", op.name());
        let case = Case::by_parameters(name, op, dtype, vec![x]).without_derivatives();
        push(all, case);
    }
    Ok(())
}

fn arg_reduce(all: &mut Vec<Case>, dtype: DType, kind: Extreme) -> Result<()> {
    for (shape, axis) in [
        (&[2, 3, 4][..], 0),
        (&[2, 3, 4], 1),
        (&[2, 3, 4], 2),
        (&[1], 0),
        (&[0, 2], 1),
        (&[41], 0),
    ] {
        let op = Op::from(ArgReduce { kind, axis });
        let name = format!("{} {dtype}{} {axis}", op.name(), shown(shape));
        // Few distinct values, so that ties occur.
        let x = Draw::new(&name).small(dtype, shape)?;
        push(all, Case::by_parameters(name, op, dtype, vec![x]).flat());
    }
    if dtype.is_float() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let rows = [
            1.0, nan, nan, inf, 1.0, inf, -inf, -inf, -inf, 0.0, -0.0, 0.0,
        ];
        let op = Op::from(ArgReduce { kind, axis: 1 });
        let name = format!("{} {dtype} specials", op.name());
        let x = Array::real(dtype, &[4, 3], &rows);
        push(all, Case::by_parameters(name, op, dtype, vec![x]).flat());
    }
    Ok(())
}

fn cumulative(all: &mut Vec<Case>, dtype: DType, kind: CumulativeKind) -> Result<()> {
    for (shape, axis) in [
        (&[3, 4][..], 0),
        (&[3, 4], 1),
        (&[2, 3, 2], 1),
        (&[1], 0),
        (&[0, 2], 0),
        (&[2, 0], 0),
        (&[19], 0),
    ] {
        for reverse in [false, true] {
            let op = Op::from(Cumulative {
                kind,
                axis,
                reverse,
            });
            let name = format!("{} {dtype}{} {axis} {reverse}", op.name(), shown(shape));
            let mut draw = Draw::new(&name);
            let x = match kind {
                CumulativeKind::Max | CumulativeKind::Min => draw.distinct(dtype, shape)?,
                CumulativeKind::Prod if dtype.is_inexact() => draw
                    .array(dtype, shape, Domain::Nonzero, 0)?
                    .map(dtype, |v| Num::Inexact(v.c() / v.c().norm().sqrt()))
                    .rounded()?,
                _ => draw.any(dtype, shape)?,
            };
            let case = Case::by_parameters(name, op, dtype, vec![x]);
            push(all, case.within(SUM).deriving(|d| d.duality = 512.0));
        }
    }
    if dtype.is_float() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let rows = [1.0, nan, 2.0, -inf, -inf, 3.0, inf, 1.0, -inf];
        let op = Op::from(Cumulative {
            kind,
            axis: 1,
            reverse: false,
        });
        let name = format!("{} {dtype} specials", op.name());
        let x = Array::real(dtype, &[3, 3], &rows);
        let case = Case::by_parameters(name, op, dtype, vec![x]);
        push(all, case.within(SUM).without_derivatives());
    }
    Ok(())
}

fn sort(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, axis) in [
        (&[4, 3][..], 0),
        (&[2, 5], 1),
        (&[1], 0),
        (&[0, 2], 0),
        (&[3, 0], 0),
        (&[23], 0),
    ] {
        for descending in [false, true] {
            let name = format!("sort {dtype}{} {axis} {descending}", shown(shape));
            let op = Op::from(Sort {
                axis,
                keys: 1,
                descending,
                stable: true,
            });
            let mut draw = Draw::new(&name);
            let x = draw.distinct(dtype, shape)?;
            push(all, Case::by_parameters(&name, op, dtype, vec![x]));
            // Two keys, the first with ties, and a payload.
            let name = format!("{name} with two keys");
            let op = Op::from(Sort {
                axis,
                keys: 2,
                descending,
                stable: true,
            });
            let inputs = vec![
                draw.small(DType::I8, shape)?,
                draw.distinct(dtype, shape)?,
                draw.any(DType::F64, shape)?,
            ];
            push(all, Case::by_parameters(name, op, dtype, inputs));
        }
    }
    // Complex numbers cannot be keys but can be payload.
    if dtype.is_complex() {
        let name = format!("sort {dtype} by a real key");
        let mut draw = Draw::new(&name);
        let inputs = vec![
            draw.distinct(DType::F64, &[2, 4])?,
            draw.any(dtype, &[2, 4])?,
        ];
        let op = Sort {
            axis: 1,
            keys: 1,
            descending: false,
            stable: true,
        };
        push(all, Case::by_parameters(name, op, dtype, inputs));
    }
    if dtype.is_float() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = Array::real(dtype, &[8], &[nan, 1.0, -0.0, inf, 0.0, nan, -inf, -2.0]);
        for descending in [false, true] {
            let op = Sort {
                axis: 0,
                keys: 1,
                descending,
                stable: true,
            };
            let name = format!("sort {dtype} specials {descending}");
            let case = Case::by_parameters(name, op, dtype, vec![x.clone()]);
            push(all, case.within(Tolerance::exact()).without_derivatives());
        }
    }
    Ok(())
}

fn top_k(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, k) in [
        (&[3, 5][..], 2),
        (&[4], 4),
        (&[2, 3], 0),
        (&[0, 3], 1),
        (&[1, 1], 1),
        (&[29], 7),
    ] {
        let name = format!("top_k {dtype}{} {k}", shown(shape));
        let x = Draw::new(&name).distinct(dtype, shape)?;
        push(
            all,
            Case::by_parameters(name, Op::TopK(Dim::from(k)), dtype, vec![x]),
        );
    }
    if dtype.is_float() {
        // NaN first, as in torch and jax; among ties the first.
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        let x = Array::real(dtype, &[8], &[1.0, nan, -0.0, inf, 0.0, nan, -inf, 1.0]);
        for k in [1, 3, 8] {
            let name = format!("top_k {dtype} specials {k}");
            let op = Op::TopK(Dim::from(k));
            let case = Case::by_parameters(name, op, dtype, vec![x.clone()]);
            push(all, case.within(Tolerance::exact()).without_derivatives());
        }
    }
    Ok(())
}
