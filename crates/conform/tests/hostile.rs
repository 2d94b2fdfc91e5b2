//! Operands that an op was not made for: refused or computed as `infer` says, never a panic.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::draw::Draw;
use clematis_conform::{Array, Case, cases};
use clematis_core::dispatch::apply;
use clematis_core::infer::infer;
use clematis_core::{DType, Device, Kind, Result, Spec, Tensor};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn upload(x: &Array) -> Result<Tensor> {
    let (host, backend) = (x.to_host()?, clematis_native::backend());
    let spec = host.spec().clone();
    let data = backend.from_host(host, Device::Cpu)?;
    Ok(Tensor::concrete(spec, backend, data))
}

/// Another number of elements, filled with the old ones over and over.
fn reshaped(x: &Array, shape: &[usize]) -> Array {
    let count = shape.iter().product::<usize>();
    let zero = clematis_conform::array::Num::of(x.dtype, 0);
    let values = (0..count)
        .map(|i| {
            if x.is_empty() {
                zero
            } else {
                x.values[i % x.len()]
            }
        })
        .collect();
    Array::new(x.dtype, shape, values)
}

/// The operands with one thing wrong.
fn spoiled(case: &Case, draw: &mut Draw) -> Vec<Array> {
    let mut inputs = case.inputs.clone();
    if inputs.is_empty() {
        return vec![Array::real(DType::F32, &[2], &[1.0, 2.0])];
    }
    let at = draw.whole(0, inputs.len() as i128 - 1) as usize;
    let x = inputs[at].clone();
    let mut shape = x.shape.clone();
    match draw.whole(0, 6) {
        0 => {
            inputs.remove(at);
        }
        1 => inputs.push(x),
        2 => {
            let dtype = DType::ALL[draw.whole(0, 14) as usize];
            inputs[at] = x.map(dtype, |v| {
                if dtype.is_inexact() {
                    clematis_conform::array::Num::Inexact(v.c())
                } else {
                    clematis_conform::array::Num::of(dtype, v.i())
                }
            });
        }
        3 => {
            let place = draw.whole(0, shape.len() as i128) as usize;
            shape.insert(place, draw.whole(0, 2) as usize);
            inputs[at] = reshaped(&x, &shape);
        }
        4 if !shape.is_empty() => {
            let place = draw.whole(0, shape.len() as i128 - 1) as usize;
            shape.remove(place);
            inputs[at] = reshaped(&x, &shape);
        }
        _ if !shape.is_empty() => {
            let place = draw.whole(0, shape.len() as i128 - 1) as usize;
            shape[place] = draw.whole(0, 5) as usize;
            inputs[at] = reshaped(&x, &shape);
        }
        _ => inputs[at] = reshaped(&x, &[0]),
    }
    inputs
}

fn text(panic: Box<dyn std::any::Any + Send>) -> String {
    (panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()))
        .unwrap_or_default()
}

/// What is wrong with how an op takes these operands.
fn fault(case: &Case, inputs: &[Array]) -> Option<String> {
    let specs: Vec<Spec> = inputs.iter().map(Array::spec).collect();
    let asked = || infer(&case.op, &specs.iter().collect::<Vec<_>>());
    let said = match catch_unwind(AssertUnwindSafe(asked)) {
        Ok(said) => said,
        Err(panic) => return Some(format!("infer panicked: {}", text(panic))),
    };
    let ran = catch_unwind(AssertUnwindSafe(|| -> Result<Vec<Spec>> {
        let tensors: Vec<Tensor> = inputs.iter().map(upload).collect::<Result<_>>()?;
        let out = apply(&case.op, &tensors.iter().collect::<Vec<_>>())?.into_vec();
        out.iter()
            .map(|y| Ok(Array::from_tensor(y)?.spec()))
            .collect()
    }));
    match (said, ran) {
        (_, Err(panic)) => Some(format!("panicked: {}", text(panic))),
        (Ok(said), Ok(Ok(out))) if said.as_slice() != &out[..] => {
            Some(format!("{out:?} came out, infer says {said:?}"))
        }
        (Err(e), Ok(Ok(out))) => Some(format!("{out:?} came out, infer says {e}")),
        (_, Ok(Err(e))) if e.kind() == Kind::Internal => Some(e.to_string()),
        _ => None,
    }
}

#[test]
fn operands_that_do_not_fit_are_refused() {
    // Panics are expected to be caught here; their traces would drown the report.
    std::panic::set_hook(Box::new(|_| {}));
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for case in cases().unwrap() {
        let mut draw = Draw::new(&format!("{} hostile", case.name));
        for _ in 0..10 {
            let inputs = spoiled(&case, &mut draw);
            if let Some(wrong) = fault(&case, &inputs) {
                let specs: Vec<String> = inputs.iter().map(|x| x.spec().to_string()).collect();
                found.entry(case.op.name()).or_insert(format!(
                    "{} on {}: {wrong}",
                    case.name,
                    specs.join(", ")
                ));
            }
        }
    }
    let _ = std::panic::take_hook();
    assert!(found.is_empty(), "{} ops: {found:#?}", found.len());
}
