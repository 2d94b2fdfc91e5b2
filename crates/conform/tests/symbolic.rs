//! Cases with a symbolic first axis: the program is traced once and runs at the size of the case.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::{Array, Case, cases};
use clematis_core::autodiff::{jvp, vjp};
use clematis_core::dispatch::apply;
use clematis_core::graph::Graph;
use clematis_core::infer::infer;
use clematis_core::trace::trace;
use clematis_core::{DType, Dim, Kind, Op, Result, Spec, Tensor, ops};
use std::collections::BTreeMap;

fn upload(x: &Array) -> Result<Tensor> {
    clematis_conform::upload(clematis_native::backend(), x)
}

/// The operand specs with the size of the first axis made symbolic wherever it occurs.
fn named(case: &Case) -> Option<Vec<Spec>> {
    let size = *case.inputs.first()?.shape.first()?;
    let b = Dim::symbol("b").ok()?;
    let specs: Vec<Spec> = case
        .inputs
        .iter()
        .map(|x| {
            let spec = x.spec();
            if x.shape.first() == Some(&size) {
                spec.with_shape(spec.shape.with(0, b))
            } else {
                spec
            }
        })
        .collect();
    infer(&case.op, &specs.iter().collect::<Vec<_>>()).ok()?;
    Some(specs)
}

fn differ(a: &[Tensor], b: &[Tensor]) -> Result<bool> {
    for (a, b) in a.iter().zip(b) {
        let (a, b) = (Array::from_tensor(a)?, Array::from_tensor(b)?);
        let same = a.dtype == b.dtype
            && a.shape == b.shape
            && a.values.iter().zip(&b.values).all(|(x, y)| {
                let (x, y) = (x.c(), y.c());
                let near = |a: f64, b: f64| {
                    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * x.norm()
                };
                near(x.re, y.re) && near(x.im, y.im)
            });
        if !same {
            return Ok(true);
        }
    }
    Ok(a.len() != b.len())
}

/// Compares eager execution with a program that was traced symbolically and parsed from text.
fn agree(
    specs: &[Spec],
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Option<String>> {
    let closed = trace(specs, &f)?;
    let text = closed.graph.to_string();
    let args: Vec<&Tensor> = inputs.iter().chain(&closed.captured).collect();
    let program = Graph::parse(&text)?.call(&args)?;
    Ok(differ(&f(inputs)?, &program)?.then_some(text))
}

#[test]
fn symbolic_programs_run_at_any_size() {
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    let mut ran = 0;
    for case in cases().unwrap() {
        if !matches!(case.dtype, DType::F64 | DType::C128 | DType::I32) || !case.is_legal() {
            continue;
        }
        let Some(specs) = named(&case) else { continue };
        // Windows and dilation need at least one element: a symbolic size must not be empty there.
        let slides = matches!(
            case.op,
            Op::Pad(_) | Op::Window(_) | Op::WindowScatter(_) | Op::WindowGather(_)
        );
        let vanishes = |s: &Spec| s.shape.count() == 0;
        if slides && (case.results().unwrap().iter().any(vanishes) || case.inputs[0].is_empty()) {
            continue;
        }
        ran += 1;
        let inputs: Vec<Tensor> = case.inputs.iter().map(|x| upload(x).unwrap()).collect();
        let mut note = |what: &str, found: Result<Option<String>>| {
            let text = match found {
                Ok(None) => return,
                Ok(Some(text)) => format!("gives other values:\n{text}"),
                // Ops that need a number, or an order between two sizes, report an error.
                Err(e) if matches!(e.kind(), Kind::Trace | Kind::Diff) => return,
                Err(e) => e.to_string(),
            };
            let at = format!("{} {what}", case.op.name());
            wrong.entry(at).or_insert(format!("{}: {text}", case.name));
        };
        note(
            "forward",
            agree(&specs, &inputs, |x| {
                Ok(apply(&case.op, &x.iter().collect::<Vec<_>>())?.into_vec())
            }),
        );
        let d = &case.derivative;
        let places: Vec<usize> = (0..inputs.len())
            .filter(|&i| inputs[i].dtype().is_inexact() && !d.constants.contains(&i))
            .collect();
        if !d.checked || d.none.is_some() || places.is_empty() {
            continue;
        }
        let pick = |x: &[Tensor]| -> Vec<Tensor> { places.iter().map(|&i| x[i].clone()).collect() };
        let results = |x: &[Tensor], v: &Vec<Tensor>| -> Result<Vec<Tensor>> {
            let mut args: Vec<&Tensor> = x.iter().collect();
            for (&i, x) in places.iter().zip(v) {
                args[i] = x;
            }
            let mut out = apply(&case.op, &args)?.into_vec();
            out.retain(|y| y.dtype().is_inexact());
            Ok(out)
        };
        note(
            "jvp",
            agree(&specs, &inputs, |x| {
                Ok(jvp(|v: &Vec<Tensor>| results(x, v), &pick(x), &pick(x))?.1)
            }),
        );
        if d.no_reverse.is_some() {
            continue;
        }
        note(
            "vjp",
            agree(&specs, &inputs, |x| {
                let (y, pull) = vjp(|v: &Vec<Tensor>| results(x, v), &pick(x))?;
                let ct: Vec<Tensor> = y
                    .iter()
                    .map(|y| ops::ones_like(y).done())
                    .collect::<Result<_>>()?;
                pull.call(&ct)
            }),
        );
    }
    assert!(ran > 700, "only {ran} cases accept a symbolic size");
    assert!(wrong.is_empty(), "{} wrong: {wrong:#?}", wrong.len());
}
