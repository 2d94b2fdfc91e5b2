//! Cases of the elementwise families, generated from their tables; the domain column determines the operands.

use super::{Case, shown};
use crate::array::{Array, C, Num, broadcast, epsilon, extremes, tiny};
use crate::compare::Tolerance;
use crate::draw::Draw;
use crate::reference::{elementwise as reference, number};
use clematis_core::op::{Binary, Compare, Domain, Unary};
use clematis_core::{DType, Error, Host, Kind, Op, Result, Shape, Spec};

/// Long enough for full vectors of every width and a remainder.
const SHAPES: &[&[usize]] = &[&[], &[2, 3], &[1, 4], &[0, 3], &[37]];
const PAIRS: &[(&[usize], &[usize])] = &[
    (&[], &[2, 3]),
    (&[2, 1], &[1, 3]),
    (&[2, 3], &[3]),
    (&[4, 0], &[1, 0]),
    (&[37], &[37]),
    (&[], &[]),
];

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for &u in Unary::ALL {
        for dtype in DType::ALL {
            unary(all, u, dtype)?;
        }
    }
    for &b in Binary::ALL {
        for dtype in DType::ALL {
            binary(all, b, dtype)?;
        }
    }
    for &c in Compare::ALL {
        for dtype in DType::ALL {
            comparison(all, c, dtype)?;
        }
    }
    for dtype in DType::ALL {
        select(all, dtype)?;
        clamp(all, dtype)?;
        stop_gradient(all, dtype)?;
        for to in DType::ALL {
            cast(all, dtype, to)?;
            bitcast(all, dtype, to)?;
        }
    }
    Ok(())
}

fn missing(op: &str, dtype: DType) -> Error {
    Error::new(Kind::Internal, format!("{op}: no reference for {dtype}"))
}

/// Adds a case if `infer` accepts it.
pub(super) fn push(all: &mut Vec<Case>, case: Case) {
    if case.is_legal() {
        all.push(case);
    }
}

/// Tolerance of an elementwise function: one rounding for half precision, which is computed in f32; a few units for
/// wider dtypes, whose references are themselves computed in f64.
fn units(dtype: DType) -> Tolerance {
    let units = match dtype {
        DType::F16 | DType::BF16 => 0.51,
        DType::F32 => 4.0,
        DType::F64 => 16.0,
        // The reference of complex functions loses some digits.
        DType::C64 => 8.0,
        _ => 256.0,
    };
    Tolerance {
        signed_zeros: true,
        ..Tolerance::each(units)
    }
}

/// Special values: zeros, infinities, NaN, extremes.
fn specials(dtype: DType) -> Vec<Num> {
    if !dtype.is_inexact() {
        let (low, high) = extremes(dtype);
        let mut values = vec![
            0,
            1,
            low,
            high,
            low + 1,
            high - 1,
            -1,
            2,
            3,
            7,
            8,
            31,
            63,
            64,
        ];
        values.retain(|v| (low..=high).contains(v));
        return values.into_iter().map(Num::Whole).collect();
    }
    let largest = match dtype.real() {
        DType::F16 => 65504.0,
        DType::BF16 => (2.0 - epsilon(dtype)) * 2f64.powi(127),
        DType::F32 => f64::from(f32::MAX),
        _ => f64::MAX,
    };
    let reals = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -3.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        largest,
        -largest,
        tiny(dtype),
        tiny(dtype) / 4.0,
        1e-3,
        -1e-3,
        30.5,
        -30.5,
    ];
    if dtype.is_complex() {
        // Every combination of real and imaginary part, of a few special values.
        let few = &reals[..12];
        let pairs = few
            .iter()
            .flat_map(|&re| few.iter().map(move |&im| Num::Inexact(C::new(re, im))));
        return pairs.collect();
    }
    reals.iter().map(|&v| Num::real(v)).collect()
}

/// A case of a function of one operand.
pub(super) fn single(name: String, u: Unary, dtype: DType, x: Array) -> Case {
    let out = u.gives().dtype(dtype);
    let run = move |x: &[Array]| -> Result<Vec<Array>> {
        let values: Option<Vec<Num>> = x[0]
            .values
            .iter()
            .map(|&v| reference::unary(u, dtype, v))
            .collect();
        let values = values.ok_or_else(|| missing(u.name(), dtype))?;
        Ok(vec![Array::new(out, &x[0].shape, values)])
    };
    let mut tolerance = units(dtype);
    if matches!(u, Unary::Lgamma | Unary::Digamma) {
        // Both cross zero, where the reference's series have an absolute error.
        tolerance.floor = 4.0;
        tolerance.signed_zeros = false;
    }
    Case::new(name, Op::Unary(u), dtype, vec![x], run).within(tolerance)
}

fn unary(all: &mut Vec<Case>, u: Unary, dtype: DType) -> Result<()> {
    for shape in SHAPES {
        let name = format!("{} {dtype}{}", u.name(), shown(shape));
        let x = Draw::new(&name).array(dtype, shape, u.domain(), 0)?;
        let mut one = single(name, u, dtype, x);
        match u {
            Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => one = one.flat(),
            Unary::Sign if !dtype.is_complex() => one = one.flat(),
            _ => {}
        }
        push(all, one);
    }
    // Branch cuts and special values of complex functions are tested in the engines; here only those of plain
    // arithmetic.
    let plain = matches!(
        u,
        Unary::Neg
            | Unary::Positive
            | Unary::Abs
            | Unary::Real
            | Unary::Imag
            | Unary::Conj
            | Unary::IsNan
            | Unary::IsInf
            | Unary::IsFinite
            | Unary::LogicalNot
            | Unary::Round
    );
    if !dtype.is_complex() || plain {
        let values = specials(dtype);
        let n = values.len();
        let x = Array::new(dtype, &[n], values).rounded()?;
        let name = format!("{} {dtype} specials", u.name());
        push(all, single(name, u, dtype, x).without_derivatives());
    }
    Ok(())
}

/// A case of a function of two operands.
pub(super) fn pair(name: String, b: Binary, dtype: DType, x: Array, y: Array) -> Case {
    let out = b.gives().dtype(dtype);
    let run = move |x: &[Array]| -> Result<Vec<Array>> {
        let shape = broadcast(&x[0].shape, &x[1].shape);
        let mut found = true;
        let result = Array::from_fn(out, &shape, |at| {
            let value = reference::binary(b, dtype, x[0].spread(at), x[1].spread(at));
            found &= value.is_some();
            value.unwrap_or(Num::Whole(0))
        });
        if found {
            Ok(vec![result])
        } else {
            Err(missing(b.name(), dtype))
        }
    };
    Case::new(name, Op::Binary(b), dtype, vec![x, y], run).within(units(dtype))
}

fn binary(all: &mut Vec<Case>, b: Binary, dtype: DType) -> Result<()> {
    for (p, q) in PAIRS {
        let name = format!("{} {dtype}{}{}", b.name(), shown(p), shown(q));
        let mut draw = Draw::new(&name);
        let x = draw.array(dtype, p, b.domain(), 0)?;
        let y = draw.array(dtype, q, b.domain(), 1)?;
        let mut one = pair(name, b, dtype, x, y);
        match b {
            // The order is an integer, so it has no derivative.
            Binary::Polygamma => one = one.deriving(|d| d.constants = vec![0]),
            Binary::FloorDivide | Binary::Nextafter => one = one.flat(),
            _ => {}
        }
        push(all, one);
    }
    // Powers and quotients of special complex numbers are tested in the engines.
    let plain = matches!(
        b,
        Binary::Add | Binary::Sub | Binary::LogicalAnd | Binary::LogicalOr | Binary::LogicalXor
    );
    // The derivative is not defined at special orders.
    if b != Binary::Polygamma && (!dtype.is_complex() || plain) {
        let mut values = specials(dtype);
        if dtype.is_complex() {
            values.truncate(40);
        }
        let n = values.len();
        let x = Array::new(dtype, &[n, 1], values.clone()).rounded()?;
        let y = Array::new(dtype, &[n], values).rounded()?;
        let name = format!("{} {dtype} specials", b.name());
        push(all, pair(name, b, dtype, x, y).without_derivatives());
    }
    Ok(())
}

fn comparison(all: &mut Vec<Case>, c: Compare, dtype: DType) -> Result<()> {
    let case = |name: String, x: Array, y: Array| {
        let run = move |x: &[Array]| {
            Ok(vec![x[0].zip(&x[1], DType::Bool, |x, y| {
                reference::compare(c, x, y).into()
            })])
        };
        Case::new(name, Op::Compare(c), dtype, vec![x, y], run)
    };
    for (p, q) in PAIRS {
        let name = format!("{} {dtype}{}{}", c.name(), shown(p), shown(q));
        let mut draw = Draw::new(&name);
        let (x, y) = (draw.any(dtype, p)?, draw.any(dtype, q)?);
        push(all, case(name, x, y));
    }
    let mut values = specials(dtype);
    values.truncate(60);
    let n = values.len();
    let x = Array::new(dtype, &[n, 1], values.clone()).rounded()?;
    let y = Array::new(dtype, &[n], values).rounded()?;
    let name = format!("{} {dtype} specials", c.name());
    push(all, case(name, x, y).without_derivatives());
    Ok(())
}

fn select(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (c, p, q) in [
        (&[2, 3][..], &[2, 3][..], &[2, 3][..]),
        (&[], &[3], &[2, 1]),
        (&[2, 1], &[], &[1, 3]),
        (&[0, 3], &[3], &[1, 1]),
        (&[], &[], &[]),
    ] {
        let name = format!("select {dtype}{}{}{}", shown(c), shown(p), shown(q));
        let mut draw = Draw::new(&name);
        let inputs = vec![
            draw.any(DType::Bool, c)?,
            draw.any(dtype, p)?,
            draw.any(dtype, q)?,
        ];
        let run = move |x: &[Array]| {
            let shape = broadcast(&x[0].shape, &broadcast(&x[1].shape, &x[2].shape));
            Ok(vec![Array::from_fn(dtype, &shape, |at| {
                let i = if x[0].spread(at).truth() { 1 } else { 2 };
                x[i].spread(at)
            })])
        };
        push(all, Case::new(name, Op::Select, dtype, inputs, run));
    }
    Ok(())
}

fn clamp(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (l, p, h) in [
        (&[3][..], &[2, 3][..], &[][..]),
        (&[2, 3], &[1, 3], &[2, 1]),
        (&[], &[0, 2], &[2]),
        (&[], &[], &[]),
        (&[1, 1], &[2, 2], &[2, 1]),
    ] {
        let name = format!("clamp {dtype}{}{}{}", shown(l), shown(p), shown(h));
        let mut draw = Draw::new(&name);
        // Bounds on opposite sides of zero, and operands inside and outside of them.
        let low = draw.any(dtype, l)?.map(dtype, |v| toward(dtype, v, -1.0));
        let high = draw.any(dtype, h)?.map(dtype, |v| toward(dtype, v, 1.0));
        let inputs = vec![low.rounded()?, draw.any(dtype, p)?, high.rounded()?];
        let run = move |x: &[Array]| {
            let shape = broadcast(&x[0].shape, &broadcast(&x[1].shape, &x[2].shape));
            Ok(vec![Array::from_fn(dtype, &shape, |at| {
                let above = number::max(x[1].spread(at), x[0].spread(at));
                number::min(above, x[2].spread(at))
            })])
        };
        push(all, Case::new(name, Op::Clamp, dtype, inputs, run).kinked());
    }
    Ok(())
}

/// A number between 0 and 1.5 on one side of zero.
fn toward(dtype: DType, v: Num, side: f64) -> Num {
    match v {
        Num::Whole(v) => Num::of(dtype, if side > 0.0 { v.abs() } else { -(v.abs() % 40) }),
        Num::Inexact(v) => Num::real(v.re.abs() / 2.0 * side),
    }
}

fn stop_gradient(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in [&[2, 3][..], &[], &[0, 2]] {
        let name = format!("stop_gradient {dtype}{}", shown(shape));
        let x = Draw::new(&name).any(dtype, shape)?;
        let case = Case::new(name, Op::StopGradient, dtype, vec![x], |x| {
            Ok(vec![x[0].clone()])
        });
        push(all, case.flat());
    }
    Ok(())
}

fn cast(all: &mut Vec<Case>, from: DType, to: DType) -> Result<()> {
    let case = |name: String, x: Array| {
        Case::new(name, Op::Cast(to), from, vec![x], move |x: &[Array]| {
            Ok(vec![x[0].map(to, |v| number::cast(v, to))])
        })
    };
    for shape in [&[2, 5][..], &[], &[3, 0]] {
        let name = format!("cast {from} to {to}{}", shown(shape));
        let x = Draw::new(&name).array(from, shape, Domain::Nonzero, 0)?;
        let mut one = case(name, x);
        // A cast to a narrower dtype looks like a staircase to finite differences in the wider one; between wide
        // dtypes it is linear.
        one = one.kinked();
        push(all, one);
    }
    let mut values = specials(from);
    if from.is_complex() {
        values.truncate(40);
    }
    let x = Array::new(from, &[values.len()], values).rounded()?;
    let name = format!("cast {from} to {to} specials");
    push(all, case(name, x).without_derivatives());
    Ok(())
}

fn bitcast(all: &mut Vec<Case>, from: DType, to: DType) -> Result<()> {
    let name = format!("bitcast {from} to {to}");
    // Any bits are valid except for booleans, which have their own cases.
    let x = if from.is_inexact() {
        Draw::new(&name).array(from, &[2, 4], Domain::Nonzero, 0)?
    } else {
        Draw::new(&name).small(from, &[2, 4])?
    };
    let run = move |x: &[Array]| {
        if to == DType::Bool {
            return Ok(vec![x[0].map(to, |v| v.truth().into())]);
        }
        let host = x[0].to_host()?;
        let spec = Spec::new(to, Shape::from_sizes(&x[0].shape));
        Ok(vec![Array::from_host(&Host::new(
            spec,
            host.bytes().clone(),
        )?)?])
    };
    push(
        all,
        Case::new(name, Op::Bitcast(to), from, vec![x], run).flat(),
    );
    Ok(())
}
