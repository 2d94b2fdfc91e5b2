//! Cases of composites: activations, the softmax family, statistics, and others that are not layers.

use super::elementwise::push;
use super::{Case, shown};
use crate::array::{Array, Num};
use crate::compare::Tolerance;
use crate::draw::Draw;
use clematis_core::op::Domain;
use clematis_core::op::composite::ResizeMethod;
use clematis_core::ops;
use clematis_core::trace::trace;
use clematis_core::{Axes, Body, Composite, DType, Dim, Op, Real, Result, Shape};

/// In half precision every step of an expansion rounds.
pub(super) fn units(dtype: DType) -> f64 {
    match dtype {
        DType::F16 | DType::BF16 => 8.0,
        DType::F32 | DType::C64 => 32.0,
        _ => 64.0,
    }
}

/// A composite defined by its parameters.
pub(super) fn known(name: String, c: Composite, dtype: DType, inputs: Vec<Array>) -> Case {
    Case::by_parameters(name, c, dtype, inputs).within(Tolerance::overall(units(dtype)))
}

/// Adds all cases.
pub fn add(all: &mut Vec<Case>) -> Result<()> {
    for dtype in DType::ALL {
        activations(all, dtype)?;
        softmaxes(all, dtype)?;
        statistics(all, dtype)?;
        lookups(all, dtype)?;
        sums(all, dtype)?;
        resizes(all, dtype)?;
        random(all, dtype)?;
        function(all, dtype)?;
    }
    Ok(())
}

fn activations(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for c in [
        Composite::Relu {},
        Composite::LeakyRelu {
            negative_slope: Real(0.1),
        },
        Composite::Elu { alpha: Real(1.5) },
        Composite::Selu {},
        Composite::Gelu { approximate: false },
        Composite::Gelu { approximate: true },
        Composite::Sigmoid {},
        Composite::LogSigmoid {},
        Composite::Silu {},
        Composite::Softplus {},
        Composite::Mish {},
        Composite::HardSigmoid {},
        Composite::HardSwish {},
    ] {
        let word = format!("{} {dtype} {:?}", c.name(), c);
        for shape in [&[][..], &[2, 3], &[0, 2], &[1, 1], &[35]] {
            let name = format!("{word}{}", shown(shape));
            let x = Draw::new(&name).array(dtype, shape, Domain::Nonzero, 0)?;
            push(all, known(name, c.clone(), dtype, vec![x]));
        }
        if dtype.is_float() {
            // Both tails, where formulas overflow; beyond the corners of piecewise functions.
            let far = [-90.0, -20.0, -4.0, 4.0, 20.0, 90.0];
            let x = Array::real(dtype, &[far.len()], &far);
            push(
                all,
                known(format!("{word} far out"), c.clone(), dtype, vec![x]),
            );
            let x = Array::real(dtype, &[2], &[f64::NAN, 1.0]);
            let case = known(format!("{word} of nothing"), c.clone(), dtype, vec![x]);
            push(all, case.without_derivatives());
            let x = Array::real(dtype, &[4], &[-9.5, -4.25, 4.25, 9.5]);
            let name = format!("{word} beyond the corners");
            push(all, known(name, c.clone(), dtype, vec![x]));
        }
    }
    Ok(())
}

fn softmaxes(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, axis) in [
        (&[2, 4][..], 1),
        (&[3, 2, 2], 0),
        (&[2, 3, 2], 1),
        (&[1], 0),
        (&[0, 3], 1),
        (&[21], 0),
    ] {
        let label = format!("{dtype}{} {axis}", shown(shape));
        for c in [Composite::Softmax { axis }, Composite::LogSoftmax { axis }] {
            let name = format!("{} {label}", c.name());
            let x = Draw::new(&name).any(dtype, shape)?;
            push(all, known(name, c, dtype, vec![x]));
        }
    }
    for (shape, axes) in [
        (&[2, 3, 4][..], &[1][..]),
        (&[2, 3, 4], &[0, 2]),
        (&[3], &[0]),
        (&[2, 1], &[1]),
        (&[0, 3], &[1]),
    ] {
        let c = Composite::LogSumExp {
            axes: Axes::new(axes),
        };
        let name = format!("logsumexp {dtype}{} {axes:?}", shown(shape));
        let x = Draw::new(&name).any(dtype, shape)?;
        push(all, known(name, c, dtype, vec![x]));
    }
    if dtype.is_float() {
        // Large numbers must not overflow, and masked elements have no weight.
        let inf = f64::INFINITY;
        let x = Array::real(dtype, &[2, 3], &[900.0, 899.0, -900.0, -inf, 1.0, 2.0]);
        for c in [
            Composite::Softmax { axis: 1 },
            Composite::LogSoftmax { axis: 1 },
            Composite::LogSumExp {
                axes: Axes::new(&[1]),
            },
        ] {
            let name = format!("{} {dtype} far out", c.name());
            push(
                all,
                known(name, c, dtype, vec![x.clone()]).without_derivatives(),
            );
        }
        let name = format!("logsumexp {dtype} of nothing to see");
        let x = Array::real(dtype, &[2, 2], &[-inf, -inf, inf, 1.0]);
        let c = Composite::LogSumExp {
            axes: Axes::new(&[1]),
        };
        push(all, known(name, c, dtype, vec![x]).without_derivatives());
    }
    for (shape, labels) in [
        (&[3, 4][..], &[3][..]),
        (&[2, 2, 3], &[2, 2]),
        (&[5], &[]),
        (&[0, 3], &[0]),
    ] {
        let name = format!("cross_entropy {dtype}{}", shown(shape));
        let mut draw = Draw::new(&name);
        let classes = shape[shape.len() - 1] as i128;
        let inputs = vec![
            draw.any(dtype, shape)?,
            draw.indices(DType::I32, labels, 0, classes - 1),
        ];
        push(all, known(name, Composite::CrossEntropy {}, dtype, inputs));
    }
    Ok(())
}

fn statistics(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (shape, axes) in [
        (&[2, 3, 4][..], &[1][..]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3], &[0, 1]),
        (&[0, 3], &[1]),
        (&[4], &[0]),
    ] {
        let axes = Axes::new(axes);
        let name = format!("mean {dtype}{} {axes:?}", shown(shape));
        let x = Draw::new(&name).any(dtype, shape)?;
        let c = Composite::Mean { axes: axes.clone() };
        push(all, known(name, c, dtype, vec![x]));
        for correction in [0.0, 1.0] {
            let name = format!("var {dtype}{} {axes:?} {correction}", shown(shape));
            let x = Draw::new(&name).any(dtype, shape)?;
            let c = Composite::Var {
                axes: axes.clone(),
                correction: Real(correction),
            };
            push(all, known(name, c, dtype, vec![x]));
        }
    }
    Ok(())
}

fn lookups(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (table, indices) in [
        (&[5, 3][..], &[2, 4][..]),
        (&[4], &[3]),
        (&[3, 2, 2], &[]),
        (&[2, 3], &[0]),
        (&[1, 1], &[2]),
    ] {
        let name = format!("embedding {dtype}{}{}", shown(table), shown(indices));
        let mut draw = Draw::new(&name);
        let rows = table[0] as i128;
        let inputs = vec![
            draw.any(dtype, table)?,
            draw.indices(DType::I32, indices, -rows, rows - 1),
        ];
        push(all, known(name, Composite::Embedding {}, dtype, inputs));
    }
    for (shape, depth) in [(&[2, 3][..], 4), (&[], 2), (&[0], 3), (&[2], 0), (&[1], 1)] {
        let name = format!("one_hot {dtype}{} {depth}", shown(shape));
        // Some are out of range, and give a row of zeros.
        let x = Draw::new(&name).indices(DType::I16, shape, -1, 4);
        let c = Composite::OneHot {
            depth: Dim::from(depth),
            dtype,
        };
        push(all, known(name, c, dtype, vec![x]));
    }
    Ok(())
}

fn sums(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    let rows: &[(&str, &[&[usize]])] = &[
        ("ij,jk->ik", &[&[2, 3], &[3, 4]]),
        ("bij,bjk->bki", &[&[2, 2, 3], &[2, 3, 2]]),
        ("ii->i", &[&[3, 3]]),
        ("ij->ji", &[&[2, 3]]),
        ("ijk->j", &[&[2, 3, 2]]),
        ("i,j->ij", &[&[2], &[3]]),
        ("ij,ik,il->jkl", &[&[2, 2], &[2, 3], &[2, 2]]),
        ("i,i->", &[&[4], &[4]]),
        ("ij,jk->ik", &[&[0, 3], &[3, 2]]),
        ("ij,jk->ik", &[&[2, 0], &[0, 2]]),
        (",i->i", &[&[], &[3]]),
        ("aab,b->a", &[&[2, 2, 3], &[3]]),
    ];
    for (equation, shapes) in rows {
        let sizes: Vec<String> = shapes.iter().map(|s| shown(s)).collect();
        let name = format!("einsum {dtype} {equation} {}", sizes.join(""));
        let mut draw = Draw::new(&name);
        let inputs: Vec<Array> = shapes
            .iter()
            .map(|s| draw.small(dtype, s))
            .collect::<Result<_>>()?;
        let c = Composite::Einsum {
            equation: (*equation).into(),
        };
        push(all, known(name, c, dtype, inputs));
    }
    Ok(())
}

fn resizes(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for (from, to) in [
        (&[2, 3, 5][..], &[2, 6, 3][..]),
        (&[4], &[7]),
        (&[7], &[3]),
        (&[1, 2], &[3, 1]),
        (&[0, 3], &[0, 5]),
        (&[3], &[3]),
    ] {
        for &method in ResizeMethod::ALL {
            for (align_corners, antialias) in [(false, false), (true, false), (false, true)] {
                let name = format!(
                    "resize {dtype}{}{} {} {align_corners} {antialias}",
                    shown(from),
                    shown(to),
                    method.name()
                );
                let x = Draw::new(&name).any(dtype, from)?;
                let c = Composite::Resize {
                    shape: Shape::from_sizes(to),
                    method,
                    align_corners,
                    antialias,
                };
                push(all, known(name, c, dtype, vec![x]));
            }
        }
    }
    Ok(())
}

fn random(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    let key = Array::whole(DType::U32, &[2], &[0x1234_5678, 0x9ABC_DEF0]);
    for shape in [&[][..], &[2, 3], &[0, 2], &[7], &[1, 1]] {
        let name = format!("random_bits {dtype}{}", shown(shape));
        let c = Composite::RandomBits {
            dtype,
            shape: Shape::from_sizes(shape),
        };
        push(all, known(name, c, dtype, vec![key.clone()]));
        for rate in [0.25, 0.5] {
            let name = format!("dropout {dtype}{} {rate}", shown(shape));
            let x = Draw::new(&name).any(dtype, shape)?;
            let c = Composite::Dropout { rate: Real(rate) };
            push(all, known(name, c, dtype, vec![x, key.clone()]));
        }
    }
    Ok(())
}

/// x y + x, by name.
fn function(all: &mut Vec<Case>, dtype: DType) -> Result<()> {
    for shape in [&[2, 3][..], &[], &[0, 2]] {
        let name = format!("function {dtype}{}", shown(shape));
        let mut draw = Draw::new(&name);
        let inputs = vec![draw.small(dtype, shape)?, draw.small(dtype, shape)?];
        let specs: Vec<_> = inputs.iter().map(Array::spec).collect();
        let closed = trace(&specs, |x| {
            let product = ops::mul(&x[0], &x[1]).done()?;
            Ok(vec![ops::add(&product, &x[0]).done()?, product])
        })?;
        let c = Composite::Function {
            name: "fused".into(),
            body: Body::new(closed.graph),
        };
        let run = move |x: &[Array]| {
            use crate::reference::number::{add, mul};
            let product = x[0].zip(&x[1], dtype, |a, b| mul(dtype, a, b));
            let sum = product.zip(&x[0], dtype, |a: Num, b| add(dtype, a, b));
            Ok(vec![sum, product])
        };
        let case = Case::new(name, Op::from(c), dtype, inputs, run);
        push(all, case.within(Tolerance::overall(units(dtype))));
    }
    Ok(())
}
