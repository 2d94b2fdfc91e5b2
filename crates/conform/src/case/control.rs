//! Cases of branches and loops, and of collectives, which only have inference so far.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use crate::reference::number::{add as sum, mul as product};
use clematis_core::op::{Collective, CollectiveKind, Cond, Scan, While};
use clematis_core::ops;
use clematis_core::trace::trace;
use clematis_core::{Body, DType, Dim, Kind, Op, Result, Spec, Tensor};

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        cond(all, dtype)?;
        while_(all, dtype)?;
        scan(all, dtype)?;
        for &kind in CollectiveKind::ALL {
            collective(all, dtype, kind)?;
        }
    }
    Ok(())
}

fn body(specs: &[Spec], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Body> {
    Ok(Body::new(trace(specs, f)?.graph))
}

fn tolerance(dtype: DType) -> Tolerance {
    Tolerance::overall(super::composite::units(dtype))
}

/// x + y, x y, or x alone.
fn cond(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (index, which) in [
        (DType::I32, 0),
        (DType::I64, 1),
        (DType::U8, 2),
        (DType::I32, -3),
        (DType::I16, 9),
        (DType::Bool, 1),
    ] {
        for shape in [&[2, 3][..], &[], &[0, 2]] {
            let name = format!("cond {dtype}{} {index} {which}", shown(shape));
            let mut draw = Draw::new(&name);
            let inputs = vec![
                Array::whole(index, &[], &[which]),
                draw.small(dtype, shape)?,
                draw.small(dtype, shape)?,
            ];
            let specs: Vec<Spec> = inputs[1..].iter().map(Array::spec).collect();
            let op = Cond {
                branches: vec![
                    body(&specs, |x| Ok(vec![ops::add(&x[0], &x[1]).done()?]))?,
                    body(&specs, |x| Ok(vec![ops::mul(&x[0], &x[1]).done()?]))?,
                    body(&specs, |x| Ok(vec![x[0].clone()]))?,
                ],
            };
            let run = move |x: &[Array]| {
                Ok(vec![match which.clamp(0, 2) {
                    0 => x[1].zip(&x[2], dtype, |a, b| sum(dtype, a, b)),
                    1 => x[1].zip(&x[2], dtype, |a, b| product(dtype, a, b)),
                    _ => x[1].clone(),
                }])
            };
            let case = Case::new(name, op, dtype, inputs, run);
            push(all, case.within(tolerance(dtype)));
        }
    }
    Ok(())
}

/// x ← x y + y, repeated a constant number of times.
fn while_(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, steps) in [(&[2, 3][..], 3), (&[], 1), (&[2], 0), (&[0, 2], 2)] {
        let name = format!("while {dtype}{} {steps}", shown(shape));
        let mut draw = Draw::new(&name);
        let inputs = vec![
            Array::whole(DType::I32, &[], &[steps]),
            draw.small(dtype, shape)?,
            Array::whole(DType::I32, &[], &[0]),
            draw.small(dtype, shape)?,
        ];
        let specs: Vec<Spec> = inputs.iter().map(Array::spec).collect();
        let counted = [specs[0].clone(), specs[2].clone(), specs[3].clone()];
        let op = While {
            test: body(&counted, |x| Ok(vec![ops::less(&x[1], &x[0]).done()?]))?,
            body: body(&specs[1..], |x| {
                let next = ops::add(ops::mul(&x[2], &x[0]), &x[0]).done()?;
                Ok(vec![ops::add(&x[1], 1).done()?, next])
            })?,
            test_consts: 1,
            body_consts: 1,
        };
        let run = move |x: &[Array]| {
            let mut carry = x[3].clone();
            for _ in 0..steps {
                carry = carry.zip(&x[1], dtype, |a, b| sum(dtype, product(dtype, a, b), b));
            }
            Ok(vec![Array::whole(DType::I32, &[], &[steps]), carry])
        };
        let case = Case::new(name, op, dtype, inputs, run).within(tolerance(dtype));
        push(all, case.deriving(|d| d.no_reverse = Some(Kind::Diff)));
    }
    Ok(())
}

/// h ← h w + x and n ← n + 1; each step outputs h x and the step number.
fn scan(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, length) in [(&[2][..], 4), (&[], 3), (&[2, 1], 1), (&[2], 0), (&[0], 2)] {
        for reverse in [false, true] {
            let name = format!("scan {dtype}{} {length} {reverse}", shown(shape));
            let mut draw = Draw::new(&name);
            let mut rows = vec![length];
            rows.extend(shape);
            let inputs = vec![
                draw.small(dtype, shape)?,
                draw.small(dtype, shape)?,
                Array::whole(DType::I32, &[], &[0]),
                draw.small(dtype, &rows)?,
            ];
            let one = inputs[0].spec();
            let specs = [one.clone(), one.clone(), inputs[2].spec(), one];
            let op = Scan {
                body: body(&specs, |x| {
                    let h = ops::add(ops::mul(&x[1], &x[0]), &x[3]).done()?;
                    let n = ops::add(&x[2], 1).done()?;
                    let y = ops::mul(&h, &x[3]).done()?;
                    Ok(vec![h, n.clone(), y, n])
                })?,
                consts: 1,
                carries: 2,
                length: Dim::from(length),
                reverse,
            };
            let case = Case::new(name, op, dtype, inputs, move |x| {
                Ok(scanned(x, length, reverse))
            });
            push(all, case.within(tolerance(dtype)));
        }
    }
    // No carries: a map.
    for (shape, length) in [(&[3][..], 2), (&[], 5), (&[2], 0)] {
        let name = format!("scan {dtype}{} {length} without carries", shown(shape));
        let mut draw = Draw::new(&name);
        let mut rows = vec![length];
        rows.extend(shape);
        let inputs = vec![draw.small(dtype, &rows)?, draw.small(dtype, &rows)?];
        let one = Array::filled(dtype, shape, Num::of(dtype, 0)).spec();
        let op = Scan {
            body: body(&[one.clone(), one], |x| {
                Ok(vec![ops::mul(&x[0], &x[1]).done()?])
            })?,
            consts: 0,
            carries: 0,
            length: Dim::from(length),
            reverse: false,
        };
        let case = Case::new(name, op, dtype, inputs, move |x| {
            Ok(vec![x[0].zip(&x[1], dtype, |a, b| product(dtype, a, b))])
        });
        push(all, case.within(tolerance(dtype)));
    }
    Ok(())
}

fn scanned(x: &[Array], length: usize, reverse: bool) -> Vec<Array> {
    let (w, dtype) = (&x[0], x[0].dtype);
    let mut h = x[1].clone();
    let mut out = x[3].clone();
    let mut numbers = vec![Num::Whole(0); length];
    let size = h.len();
    for step in 0..length {
        let at = if reverse { length - 1 - step } else { step };
        for i in 0..size {
            let row = x[3].values[at * size + i];
            h.values[i] = sum(dtype, product(dtype, h.values[i], w.values[i]), row);
            out.values[at * size + i] = product(dtype, h.values[i], row);
        }
        numbers[at] = Num::Whole(step as i128 + 1);
    }
    vec![
        h,
        Array::whole(DType::I32, &[], &[length as i128]),
        out,
        Array::new(DType::I32, &[length], numbers),
    ]
}

/// Inference only: there are no device groups yet.
fn collective(all: &mut Vec<Case>, dtype: DType, kind: CollectiveKind) -> Result<()> {
    let op = Op::from(Collective {
        kind,
        group: "data".into(),
        axis: 0,
    });
    let name = format!("{} {dtype} is refused", op.name());
    let x = Draw::new(&name).small(dtype, &[2])?;
    all.push(Case::refused(name, op, dtype, vec![x], Kind::Unsupported));
    Ok(())
}
