//! Control flow over pytrees: cond, switch, while_loop, scan, map.
//!
//! Functions receive tensors, also if framework arrays were passed; the results are framework arrays then.

mod traced;

use crate::error::{OrRaise, exception};
use crate::operand::operand;
use crate::pytree::{Leaves, Structure, called, flatten};
use crate::transform::{Noted, Object, on_backend, taken};
use clematis_core::{DType, Kind, Result, Tensor, backend, control};
use pyo3::prelude::*;
use pyo3::types::{PyModule, PyTuple};
use std::cell::RefCell;
use std::rc::Rc;

/// Checks that a function returns the structure of the first one.
fn same(op: &str, what: &str, want: &[String], got: &Leaves) -> PyResult<()> {
    if want == got.paths() {
        return Ok(());
    }
    let shown = |paths: &[String]| {
        let named: Vec<&str> = paths
            .iter()
            .map(|p| if p.is_empty() { "a tensor" } else { p.as_str() })
            .collect();
        format!("({})", named.join(", "))
    };
    Err(exception(
        Kind::Value,
        format!("{op}: {what}: {} and {}", shown(want), shown(got.paths())),
    ))
}

/// Whether it is one element of boolean or integer dtype.
fn chooser(
    op: &'static str,
    x: &Object<'_>,
    of: fn(DType) -> bool,
    kind: &str,
) -> PyResult<Tensor> {
    let x = operand(op, x)?.tensor;
    if x.shape().count_dim() != 1usize {
        return Err(exception(
            Kind::Shape,
            format!("{op}: expected a single element, got {}", x.spec()),
        ));
    }
    if !of(x.dtype()) {
        return Err(exception(
            Kind::DType,
            format!("{op}: expected {kind}, got {}", x.spec()),
        ));
    }
    Ok(x)
}

fn here<R>(leaves: &Leaves, other: &Tensor, f: impl FnOnce() -> R) -> R {
    match leaves.backend().or(other.backend()) {
        Some(backend) => backend::with(backend, f),
        None => f(),
    }
}

/// Branches that take the same operands and return the same structure.
struct Branches {
    op: &'static str,
    inputs: Structure,
    outputs: Noted,
    paths: RefCell<Option<Vec<String>>>,
}

impl Branches {
    fn new(op: &'static str, inputs: Structure) -> Self {
        Branches {
            op,
            inputs,
            outputs: RefCell::new(None),
            paths: RefCell::new(None),
        }
    }

    fn run(&self, f: &Object<'_>, xs: &Leaves) -> Result<Leaves> {
        let py = f.py();
        let run = || -> PyResult<Leaves> {
            let args = self.inputs.build(py, &xs.tensors, true)?;
            let (leaves, structure) = flatten(&f.call1(args.cast_into::<PyTuple>()?)?)?;
            let first = self.paths.borrow().clone();
            match first {
                Some(want) => {
                    let what = "branches return different structures";
                    same(self.op, what, &want, &leaves)?;
                }
                None => {
                    *self.paths.borrow_mut() = Some(leaves.paths().to_vec());
                    *self.outputs.borrow_mut() = Some(structure);
                }
            }
            Ok(leaves)
        };
        called(py, run())
    }

    fn give<'py>(&self, py: Python<'py>, out: &[Tensor]) -> PyResult<Object<'py>> {
        match &*self.outputs.borrow() {
            Some(structure) => structure.results(py, out, self.inputs.is_raw()),
            None => Err(exception(Kind::Internal, "no branch was run")),
        }
    }
}

/// Conditional: `then(*operands)` if the predicate holds, else `otherwise(*operands)`; both return the same structure.
#[pyfunction]
#[pyo3(signature = (predicate, then, otherwise, /, *operands))]
fn cond<'py>(
    predicate: &Object<'py>,
    then: &Object<'py>,
    otherwise: &Object<'py>,
    operands: &Bound<'py, PyTuple>,
) -> PyResult<Object<'py>> {
    let predicate = chooser("cond", predicate, |d| d == DType::Bool, "a bool")?;
    let (leaves, inputs) = flatten(operands.as_any())?;
    let ways = Branches::new("cond", inputs);
    let py = operands.py();
    if let Some(control) =
        traced::traced_control(py, std::slice::from_ref(&predicate), "traced_cond")?
    {
        let ways = Rc::new(ways);
        let branch = |f| control.part(&leaves, f, traced::Role::Branch(ways.clone()));
        let predicate = control.arrays(&[predicate])?.get_item(0)?;
        let xs = control.arrays(&leaves.tensors)?;
        let out = (predicate, branch(then)?, branch(otherwise)?, xs);
        let out = control.leaves(&control.function.call1(out)?)?;
        return ways.give(py, &out);
    }
    let out = here(&leaves, &predicate, || {
        control::cond(
            &predicate,
            &leaves,
            |xs| ways.run(then, xs),
            |xs| ways.run(otherwise, xs),
        )
    });
    ways.give(operands.py(), &out.or_raise()?.tensors)
}

/// Calls the branch at `index`, clamped to the range, with the operands.
#[pyfunction]
#[pyo3(signature = (index, branches, /, *operands))]
fn switch<'py>(
    index: &Object<'py>,
    #[pyo3(from_py_with = functions)] branches: Vec<Object<'py>>,
    operands: &Bound<'py, PyTuple>,
) -> PyResult<Object<'py>> {
    let index = chooser("switch", index, DType::is_int, "an integer")?;
    let (leaves, inputs) = flatten(operands.as_any())?;
    let ways = Rc::new(Branches::new("switch", inputs));
    // The core requires functions that borrow nothing.
    let branches: Vec<Box<control::Branch<Leaves, Leaves>>> = branches
        .into_iter()
        .map(|f| {
            let (ways, f) = (ways.clone(), f.unbind());
            let run = move |xs: &Leaves| Python::attach(|py| ways.run(f.bind(py), xs));
            Box::new(run) as Box<control::Branch<Leaves, Leaves>>
        })
        .collect();
    let branches: Vec<&control::Branch<Leaves, Leaves>> =
        branches.iter().map(AsRef::as_ref).collect();
    let out = here(&leaves, &index, || {
        control::switch(&index, &leaves, &branches)
    });
    ways.give(operands.py(), &out.or_raise()?.tensors)
}

fn functions<'py>(x: &Object<'py>) -> PyResult<Vec<Object<'py>>> {
    x.try_iter()?.collect()
}

/// Runs `body` on the carried pytree while `test` of it is true.
#[pyfunction]
#[pyo3(signature = (test, body, start, /))]
fn while_loop<'py>(
    test: &Object<'py>,
    body: &Object<'py>,
    start: &Object<'py>,
) -> PyResult<Object<'py>> {
    let py = start.py();
    let (leaves, structure) = flatten(start)?;
    if let Some(control) = traced::traced_control(py, &leaves.tensors, "traced_while")? {
        let structure = Rc::new(structure);
        let test = control.part(&leaves, test, traced::Role::Test(structure.clone()))?;
        let body = control.part(&leaves, body, traced::Role::Body(structure.clone()))?;
        let xs = control.arrays(&leaves.tensors)?;
        let out = control.leaves(&control.function.call1((test, body, xs))?)?;
        return structure.results(py, &out, structure.is_raw());
    }
    let go_on = |xs: &Leaves| {
        let run = || -> PyResult<Tensor> {
            let out = test.call1((structure.build(py, &xs.tensors, true)?,))?;
            chooser("while_loop", &out, |d| d == DType::Bool, "a bool")
        };
        called(py, run())
    };
    let step = |xs: &Leaves| {
        let run = || -> PyResult<Leaves> {
            let out = body.call1((structure.build(py, &xs.tensors, true)?,))?;
            let out = flatten(&out)?.0;
            same(
                "while_loop",
                "the body changes the structure",
                leaves.paths(),
                &out,
            )?;
            Ok(out)
        };
        called(py, run())
    };
    let out =
        on_backend(&leaves, || control::while_loop(leaves.clone(), go_on, step)).or_raise()?;
    structure.results(py, &out.tensors, structure.is_raw())
}

/// Scans over the leading axis of `xs` with `body(carry, x) -> (carry, y)`; returns the last carry and all `y`, stacked.
#[pyfunction]
#[pyo3(signature = (body, start, xs=None, /, *, length=None, reverse=false))]
fn scan<'py>(
    body: &Object<'py>,
    start: &Object<'py>,
    xs: Option<&Object<'py>>,
    length: Option<usize>,
    reverse: bool,
) -> PyResult<(Object<'py>, Object<'py>)> {
    let py = start.py();
    let none = py.None().into_bound(py);
    let xs = xs.unwrap_or(&none);
    let (carry, carried) = flatten(start)?;
    let (items, given) = flatten(xs)?;
    let outputs: Noted = RefCell::new(None);
    let step = |c: &Leaves, x: &Leaves| {
        let run = || -> PyResult<(Leaves, Leaves)> {
            let c = carried.build(py, &c.tensors, true)?;
            let x = given.build(py, &x.tensors, true)?;
            let out = body.call1((c, x))?;
            let (c, y): (Object<'py>, Object<'py>) = out.extract().map_err(|_| {
                exception(
                    Kind::Value,
                    "scan: expected the body to return a pair (carry, y)",
                )
            })?;
            let c = flatten(&c)?.0;
            same(
                "scan",
                "the body changes the structure of the carry",
                carry.paths(),
                &c,
            )?;
            let (y, structure) = flatten(&y)?;
            *outputs.borrow_mut() = Some(structure);
            Ok((c, y))
        };
        called(py, run())
    };
    let backend = if carry.backend().is_some() {
        &carry
    } else {
        &items
    };
    let (last, all) = on_backend(backend, || {
        control::scan(&carry, &items, length, reverse, step)
    })
    .or_raise()?;
    let raw = carried.is_raw() || given.is_raw();
    Ok((
        carried.results(py, &last.tensors, raw)?,
        taken(outputs)?.results(py, &all.tensors, raw)?,
    ))
}

/// Maps `f` over the leading axis of a pytree and stacks the results.
#[pyfunction]
#[pyo3(signature = (f, xs, /))]
fn map<'py>(f: &Object<'py>, xs: &Object<'py>) -> PyResult<Object<'py>> {
    let py = xs.py();
    let (leaves, structure) = flatten(xs)?;
    let outputs: Noted = RefCell::new(None);
    let step = |x: &Leaves| {
        let run = || -> PyResult<Leaves> {
            let out = f.call1((structure.build(py, &x.tensors, true)?,))?;
            let (leaves, shape) = flatten(&out)?;
            *outputs.borrow_mut() = Some(shape);
            Ok(leaves)
        };
        called(py, run())
    };
    let out = on_backend(&leaves, || control::map(&leaves, step)).or_raise()?;
    taken(outputs)?.results(py, &out.tensors, structure.is_raw())
}

/// Adds the functions to a module.
pub fn install(m: &Bound<'_, PyModule>) -> PyResult<()> {
    crate::plain_functions!(m; cond switch while_loop scan map);
    Ok(())
}
