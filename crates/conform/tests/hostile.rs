//! Invalid operands and parameters: rejected, or computed as `infer` says, but never a panic.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::draw::Draw;
use clematis_conform::{Array, Case, cases};
use clematis_core::attr::Attr;
use clematis_core::dispatch::apply;
use clematis_core::infer::infer;
use clematis_core::{DType, Kind, Op, Real, Result, Spec, Tensor};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

fn upload(x: &Array) -> Result<Tensor> {
    clematis_conform::upload(clematis_native::backend(), x)
}

/// An array of another size, filled by repeating the old elements.
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

/// Variants of the operands with one fault each.
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

/// Invalid numbers: small, negative, and so large that sizes overflow.
const NUMBERS: [i64; 9] = [-1, 0, 1, 2, 5, 1 << 33, 1 << 62, i64::MAX, i64::MIN];

/// A parameter with one number changed, added or removed.
fn bent(attr: &Attr, draw: &mut Draw) -> Attr {
    let number = NUMBERS[draw.whole(0, NUMBERS.len() as i128 - 1) as usize];
    match attr {
        Attr::Int(_) | Attr::Dim(_) | Attr::UInt(_) => Attr::Int(number),
        Attr::Bool(b) => Attr::Bool(!b),
        Attr::Float(_) => Attr::Float(Real(
            [f64::NAN, -1.0, 0.0, 1e300][draw.whole(0, 3) as usize],
        )),
        Attr::List(list) if list.is_empty() => Attr::List(vec![Attr::Int(number)]),
        Attr::List(list) => {
            let mut list = list.clone();
            let at = draw.whole(0, list.len() as i128 - 1) as usize;
            match draw.whole(0, 3) {
                0 => {
                    list.remove(at);
                }
                1 => list.push(list[at].clone()),
                _ => list[at] = bent(&list[at], draw),
            }
            Attr::List(list)
        }
        other => other.clone(),
    }
}

/// The op with one parameter changed, if it can still be constructed.
fn bent_op(op: &Op, draw: &mut Draw) -> Option<Op> {
    let mut attrs: Vec<(String, Attr)> = op
        .attrs()
        .into_iter()
        .map(|(name, attr)| (name.to_string(), attr))
        .collect();
    if attrs.is_empty() {
        return None;
    }
    let at = draw.whole(0, attrs.len() as i128 - 1) as usize;
    attrs[at].1 = bent(&attrs[at].1, draw);
    Op::from_attrs(op.name(), &attrs).ok()
}

fn text(panic: Box<dyn std::any::Any + Send>) -> String {
    (panic.downcast_ref::<String>().cloned())
        .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_string()))
        .unwrap_or_default()
}

/// What is wrong with how an op handles these operands.
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
            Some(format!("expected {said:?} by infer, got {out:?}"))
        }
        (Err(e), Ok(Ok(out))) => Some(format!("expected the error {e} by infer, got {out:?}")),
        (_, Ok(Err(e))) if e.kind() == Kind::Internal => Some(e.to_string()),
        _ => None,
    }
}

/// Panics are expected and caught here; their messages would drown the report.
fn quietly(f: impl FnOnce() -> BTreeMap<&'static str, String>) {
    static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    // Fails at once instead of exhausting memory.
    clematis_native::set_memory_limit(1 << 26);
    std::panic::set_hook(Box::new(|_| {}));
    let found = f();
    let _ = std::panic::take_hook();
    drop(alone);
    assert!(found.is_empty(), "{} ops: {found:#?}", found.len());
}

fn note(found: &mut BTreeMap<&'static str, String>, case: &Case, inputs: &[Array]) {
    if let Some(wrong) = fault(case, inputs) {
        let specs: Vec<String> = inputs.iter().map(|x| x.spec().to_string()).collect();
        let (op, specs) = (&case.op, specs.join(", "));
        found
            .entry(op.name())
            .or_insert(format!("{}: {op:?} on {specs}: {wrong}", case.name));
    }
}

#[test]
fn invalid_operands_are_rejected() {
    quietly(|| {
        let mut found = BTreeMap::new();
        for case in cases().unwrap() {
            let mut draw = Draw::new(&format!("{} hostile operands", case.name));
            for _ in 0..10 {
                note(&mut found, &case, &spoiled(&case, &mut draw));
            }
        }
        found
    });
}

#[test]
fn invalid_parameters_are_rejected() {
    quietly(|| {
        let mut found = BTreeMap::new();
        for case in cases().unwrap() {
            let mut draw = Draw::new(&format!("{} hostile parameters", case.name));
            for _ in 0..10 {
                if let Some(op) = bent_op(&case.op, &mut draw) {
                    let bent = Case { op, ..case.clone() };
                    note(&mut found, &bent, &case.inputs);
                }
            }
        }
        found
    });
}
