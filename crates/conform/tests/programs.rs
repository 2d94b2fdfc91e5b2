//! Every case as a program: traced abstractly, printed, parsed and run, it must be bit-identical to eager execution.
//! Derivatives are traced abstractly too, as a compiler sees them.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::{Array, Case, cases};
use clematis_core::autodiff::{jvp, vjp};
use clematis_core::dispatch::apply;
use clematis_core::graph::Graph;
use clematis_core::trace::trace;
use clematis_core::{Result, Spec, Tensor, ops};

fn upload(x: &Array) -> Result<Tensor> {
    clematis_conform::upload(clematis_native::backend(), x)
}

/// The bits of all results.
fn bits(xs: &[Tensor]) -> Result<Vec<(Spec, Vec<u8>)>> {
    xs.iter()
        .map(|x| {
            let host = x.to_host()?;
            Ok((host.spec().clone(), host.bytes().as_slice::<u8>().to_vec()))
        })
        .collect()
}

/// Runs a function eagerly, and as a program that was printed and parsed.
fn agree(
    inputs: &[Tensor],
    f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<std::result::Result<(), String>> {
    let eager = f(inputs)?;
    let specs: Vec<Spec> = inputs.iter().map(|x| x.spec().clone()).collect();
    let closed = trace(&specs, &f)?;
    closed.graph.verify()?;
    let text = closed.graph.to_string();
    let read = Graph::parse(&text)?;
    if read.to_string() != text {
        return Ok(Err(format!("printed again it differs:\n{text}\n{read}")));
    }
    let args: Vec<&Tensor> = inputs.iter().chain(&closed.captured).collect();
    let program = read.call(&args)?;
    if bits(&eager)? != bits(&program)? {
        return Ok(Err(format!("gives other results:\n{text}")));
    }
    Ok(Ok(()))
}

fn each(what: &str, check: impl Fn(&Case) -> Result<std::result::Result<(), String>> + Sync) {
    let all: Vec<Case> = cases()
        .unwrap()
        .into_iter()
        .filter(|c| c.is_legal())
        .collect();
    let run = |offset: usize| -> Vec<String> {
        let mut wrong = Vec::new();
        for case in all.iter().skip(offset).step_by(2) {
            let found = check(case)
                .unwrap_or_else(|e| Err(e.to_string()))
                .map_err(|e| format!("{}: {e}", case.name));
            wrong.extend(found.err());
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|s| {
        let other = s.spawn(|| run(1));
        let mut wrong = run(0);
        wrong.extend(other.join().unwrap());
        wrong
    });
    let shown: Vec<&String> = wrong.iter().take(20).collect();
    assert!(
        wrong.is_empty(),
        "{what}: {} wrong: {shown:#?}",
        wrong.len()
    );
}

fn inputs(case: &Case) -> Result<Vec<Tensor>> {
    case.inputs.iter().map(upload).collect()
}

#[test]
fn every_case_is_a_program_that_gives_the_same_bits() {
    each("forward", |case| {
        agree(&inputs(case)?, |x| {
            Ok(apply(&case.op, &x.iter().collect::<Vec<_>>())?.into_vec())
        })
    });
}

/// The indices of differentiable operands, if the case has differentiable results.
fn differentiable(case: &Case) -> Option<Vec<usize>> {
    let d = &case.derivative;
    let places: Vec<usize> = (0..case.inputs.len())
        .filter(|&i| case.inputs[i].dtype.is_inexact() && !d.constants.contains(&i))
        .collect();
    (d.checked && d.none.is_none() && !places.is_empty()).then_some(places)
}

fn results(case: &Case, all: &[Tensor], places: &[usize], xs: &[Tensor]) -> Result<Vec<Tensor>> {
    let mut args: Vec<&Tensor> = all.iter().collect();
    for (&i, x) in places.iter().zip(xs) {
        args[i] = x;
    }
    let mut out = apply(&case.op, &args)?.into_vec();
    out.retain(|y| y.dtype().is_inexact());
    Ok(out)
}

#[test]
fn derivatives_are_programs_that_give_the_same_values() {
    each("derivatives", |case| {
        let Some(places) = differentiable(case) else {
            return Ok(Ok(()));
        };
        let all = inputs(case)?;
        let pick = |x: &[Tensor]| -> Vec<Tensor> { places.iter().map(|&i| x[i].clone()).collect() };
        let forward = agree(&all, |x| {
            let dx = pick(x);
            let f = |v: &Vec<Tensor>| results(case, x, &places, v);
            Ok(jvp(f, &pick(x), &dx)?.1)
        })?;
        if forward.is_err() || case.derivative.no_reverse.is_some() {
            return Ok(forward);
        }
        agree(&all, |x| {
            let f = |v: &Vec<Tensor>| results(case, x, &places, v);
            let (y, pull) = vjp(f, &pick(x))?;
            let ct: Vec<Tensor> = y
                .iter()
                .map(|y| ops::ones_like(y).done())
                .collect::<Result<_>>()?;
            pull.call(&ct)
        })
    });
}
