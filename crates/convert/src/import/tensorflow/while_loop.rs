//! While loops.
//!
//! A loop with a known number of iterations becomes a scan: lists read in order are its inputs, and
//! lists written in order are its outputs. Scans support reverse-mode differentiation; other loops remain while loops.

use super::super::Importer;
use super::super::args::{Args, Slot};
use super::control::{program, reserved, several, to_tensor};
use crate::captured::{Node, Program};
use clematis_core::control::{self, Carry};
use clematis_core::{DType, Dim, Result, Shape, Tensor, bail, ops};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::HashMap;

/// How a loop variable changes in each iteration.
#[derive(Clone, Copy, PartialEq)]
enum VariableKind {
    /// It is constant.
    Fixed,
    /// It starts at a number and is incremented by one.
    Counter(i64, i64),
    /// A list that is written in order and not read.
    Rows,
    /// A list of one element that every iteration overwrites.
    Last,
    /// Any other variable.
    Carried,
}

/// A body with its nodes and inputs by name.
struct Names<'a> {
    nodes: HashMap<&'a str, &'a Node>,
    places: HashMap<&'a str, usize>,
    program: &'a Program,
}

impl<'a> Names<'a> {
    fn of(program: &'a Program) -> Self {
        let nodes = program.nodes.iter().map(|n| (n.out.as_str(), n)).collect();
        let inputs = program.inputs.iter().enumerate();
        let places = inputs.map(|(i, x)| (x.name.as_str(), i)).collect();
        Names {
            nodes,
            places,
            program,
        }
    }

    /// The value skip_identity ops without effect, such as Identity.
    fn skip_identity<'x>(&self, mut x: &'x Json) -> &'x Json
    where
        'a: 'x,
    {
        while let Some(node) = self.node(x)
            && node.op == "Identity"
            && let Some(inner) = node.args.first()
        {
            x = inner;
        }
        x
    }

    fn node(&self, x: &Json) -> Option<&'a Node> {
        self.nodes.get(x.get("v")?.as_str()?).copied()
    }

    /// The index of the input that a value is.
    fn input(&self, x: &Json) -> Option<usize> {
        let name = self.skip_identity(x).get("v")?.as_str()?;
        self.places.get(name).copied()
    }

    /// How often an input is read, by ops with an effect and as a result.
    fn uses(&self, input: usize) -> usize {
        let ops = self.program.nodes.iter().filter(|n| n.op != "Identity");
        let by_ops = ops
            .flat_map(|n| n.args.iter())
            .filter(|x| self.input(x) == Some(input))
            .count();
        let outputs = self.program.outputs.iter();
        by_ops
            + outputs
                .filter(|o| self.input(&o.value) == Some(input))
                .count()
    }

    /// The kind of each variable.
    fn kinds(&self, start: &[Slot]) -> Vec<VariableKind> {
        let one = |i: usize| {
            self.changes(i, start.get(i))
                .unwrap_or(VariableKind::Carried)
        };
        let mut kinds: Vec<VariableKind> = (0..self.program.inputs.len()).map(one).collect();
        for i in 0..kinds.len() {
            if kinds[i] == VariableKind::Carried
                && let Some(kind) = self.list(i, start.get(i), &kinds)
            {
                kinds[i] = kind;
            }
        }
        kinds
    }

    fn changes(&self, i: usize, start: Option<&Slot>) -> Option<VariableKind> {
        let out = self.skip_identity(&self.program.outputs.get(i)?.value);
        if self.input(out) == Some(i) {
            return Some(VariableKind::Fixed);
        }
        let node = self.node(out)?;
        let Some(Slot::Int(from)) = start else {
            return None;
        };
        if !matches!(node.op.as_str(), "AddV2" | "Add") {
            return None;
        }
        let (x, y) = (node.args.first()?, node.args.get(1)?);
        let step = match (self.input(x) == Some(i), self.input(y) == Some(i)) {
            (true, false) => self.skip_identity(y).as_i64()?,
            (false, true) => self.skip_identity(x).as_i64()?,
            _ => return None,
        };
        (step > 0).then_some(VariableKind::Counter(from.value()?, step))
    }

    fn list(&self, i: usize, start: Option<&Slot>, kinds: &[VariableKind]) -> Option<VariableKind> {
        let node = self.node(self.skip_identity(&self.program.outputs.get(i)?.value))?;
        let length = reserved(start?)?;
        if node.op != "TensorListSetItem"
            || self.input(node.args.first()?) != Some(i)
            || self.uses(i) != 1
        {
            return None;
        }
        if self.counts_from_zero(node.args.get(1)?, kinds) {
            return Some(VariableKind::Rows);
        }
        let one = matches!(length, Slot::Int(n) if n.value() == Some(1));
        (one && self.skip_identity(node.args.get(1)?).as_i64() == Some(0))
            .then_some(VariableKind::Last)
    }

    fn counts_from_zero(&self, index: &Json, kinds: &[VariableKind]) -> bool {
        self.input(index)
            .is_some_and(|at| kinds.get(at) == Some(&VariableKind::Counter(0, 1)))
    }
}

/// The number of iterations, if the condition compares counters with constants.
fn iterations(test: &Names<'_>, x: &Json, start: &[Slot], kinds: &[VariableKind]) -> Option<Dim> {
    let node = test.node(test.skip_identity(x))?;
    let (x, y) = (node.args.first()?, node.args.get(1)?);
    let until = |counter: &Json, limit: &Json, more: i64| -> Option<Dim> {
        let VariableKind::Counter(from, step) = *kinds.get(test.input(counter)?)? else {
            return None;
        };
        let limit = match test.skip_identity(limit).as_i64() {
            Some(n) => Dim::number(n),
            None => {
                let at = test.input(limit)?;
                match (kinds.get(at)?, start.get(at)?) {
                    (VariableKind::Fixed, Slot::Int(d)) => *d,
                    _ => return None,
                }
            }
        };
        let left = limit - Dim::number(from - more);
        left.ceil_div(Dim::number(step)).ok()
    };
    match node.op.as_str() {
        "LogicalAnd" => {
            Some(iterations(test, x, start, kinds)?.min(iterations(test, y, start, kinds)?))
        }
        "Less" => until(x, y, 0),
        "LessEqual" => until(x, y, 1),
        "Greater" => until(y, x, 0),
        "GreaterEqual" => until(y, x, 1),
        _ => None,
    }
}

pub(super) fn repeated(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (test, step) = (program(a, "cond")?, program(a, "body")?);
    let names = Names::of(&step);
    let kinds = names.kinds(&a.args);
    let tests = Names::of(&test);
    let count = match test.outputs.first() {
        Some(out) => iterations(&tests, &out.value, &a.args, &kinds),
        None => bail!(Convert, "convert: `{}` without a condition", a.node.op),
    };
    match count {
        Some(count) => counted_loop(w, a, &names, &kinds, count),
        None => open_loop(w, a, &test, &step, &kinds),
    }
}

/// The initial values of a loop; a reserved list gets the shape that the first iteration writes.
fn initial_values(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    step: &Program,
    carried: &[usize],
) -> Result<Vec<Tensor>> {
    let mut first: Option<Vec<Slot>> = None;
    let mut out = Vec::new();
    for &i in carried {
        if reserved(&a.args[i]).is_none() {
            out.push(to_tensor(&a.args[i])?);
            continue;
        }
        if first.is_none() {
            first = Some(w.inside(step, &a.args)?);
        }
        match first.as_ref().and_then(|all| all.get(i)) {
            Some(Slot::Tensor(x)) => out.push(ops::zeros(x.shape().clone(), x.dtype()).done()?),
            _ => bail!(
                Unsupported,
                "convert: a TensorList that no iteration of a loop writes to"
            ),
        }
    }
    Ok(out)
}

/// The new value of a loop variable, cast to its dtype before the iteration.
fn cast_carry(out: &Slot, before: &Tensor) -> Result<Tensor> {
    let x = to_tensor(out)?;
    if x.dtype() == before.dtype() {
        return Ok(x);
    }
    ops::cast(x, before.dtype()).done()
}

fn counted_loop(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    names: &Names<'_>,
    kinds: &[VariableKind],
    count: Dim,
) -> Result<Slot> {
    let mut step = names.program.clone();
    // An element written to a list is a scan output, and the list itself is not carried.
    for (i, kind) in kinds.iter().enumerate() {
        if let VariableKind::Rows | VariableKind::Last = kind
            && let Some(node) = names.node(names.skip_identity(&names.program.outputs[i].value))
            && let Some(own) = step.nodes.iter_mut().find(|own| own.out == node.out)
        {
            own.op = "Identity".into();
            own.args = vec![node.args[2].clone()];
            own.specs.clear();
        }
    }
    let (mut rows, mut row_names) = (Vec::new(), Vec::new());
    for (at, node) in names.program.nodes.iter().enumerate() {
        let Some(i) = (node.op == "TensorListGetItem").then(|| names.input(&node.args[0])) else {
            continue;
        };
        let Some(i) = i.filter(|&i| kinds[i] == VariableKind::Fixed) else {
            continue;
        };
        if let Slot::Tensor(x) = &a.args[i]
            && x.shape().dims()[0] == count
            && names.counts_from_zero(&node.args[1], kinds)
        {
            let name = format!("row {at}");
            step.nodes[at].op = "Identity".into();
            step.nodes[at].args = vec![json!({"v": name})];
            step.nodes[at].specs.clear();
            rows.push(x.clone());
            row_names.push(name);
        }
    }
    for name in &row_names {
        let mut place = step.inputs[0].clone();
        place.name = name.clone();
        step.inputs.push(place);
    }
    let places = |wanted: fn(&VariableKind) -> bool| -> Vec<usize> {
        (0..kinds.len()).filter(|&i| wanted(&kinds[i])).collect()
    };
    let carried = places(|k| *k == VariableKind::Carried);
    let written = places(|k| matches!(k, VariableKind::Rows | VariableKind::Last));
    let start = Carry(initial_values(w, a, names.program, &carried)?);
    let mut sequences = vec![ops::iota(Shape::from_dims([count]), 0, DType::I32).done()?];
    sequences.extend(rows);
    let (last, results) = control::scan(&start, &Carry(sequences), None, false, |carry, row| {
        let mut left = carry.0.iter();
        let mut operands = Vec::new();
        for (i, kind) in kinds.iter().enumerate() {
            operands.push(match kind {
                VariableKind::Fixed => a.args[i].clone(),
                VariableKind::Counter(from, by) => Slot::Tensor((&row.0[0] * *by + *from).done()?),
                VariableKind::Rows | VariableKind::Last => Slot::Nothing,
                VariableKind::Carried => left.next().cloned().map_or(Slot::Nothing, Slot::Tensor),
            });
        }
        operands.extend(row.0[1..].iter().cloned().map(Slot::Tensor));
        let out = w.inside(&step, &operands)?;
        let next = carried.iter().zip(&carry.0);
        let next = next.map(|(&i, before)| cast_carry(&out[i], before));
        let next = Carry(next.collect::<Result<_>>()?);
        let results = written.iter().map(|&i| to_tensor(&out[i]));
        Ok((next, Carry(results.collect::<Result<_>>()?)))
    })?;
    let (mut last, mut results) = (last.0.into_iter(), results.0.into_iter());
    let mut out = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        out.push(match kind {
            VariableKind::Fixed => a.args[i].clone(),
            VariableKind::Counter(from, by) => {
                Slot::Int(Dim::number(*from) + count * Dim::number(*by))
            }
            VariableKind::Carried => last.next().map_or(Slot::Nothing, Slot::Tensor),
            VariableKind::Rows => results.next().map_or(Slot::Nothing, Slot::Tensor),
            VariableKind::Last => match results.next() {
                Some(all) => ops::slice_axis(all, 0, count - Dim::from(1), count)
                    .done()?
                    .into(),
                None => Slot::Nothing,
            },
        });
    }
    Ok(several(out))
}

/// A while loop: the number of iterations is known at run time only.
fn open_loop(
    w: &mut Importer<'_>,
    a: &Args<'_>,
    test: &Program,
    step: &Program,
    kinds: &[VariableKind],
) -> Result<Slot> {
    let moving: Vec<usize> = (0..kinds.len())
        .filter(|&i| kinds[i] != VariableKind::Fixed)
        .collect();
    let start = Carry(initial_values(w, a, step, &moving)?);
    let with = |carry: &Carry| -> Vec<Slot> {
        let mut operands = a.args.clone();
        for (&i, x) in moving.iter().zip(&carry.0) {
            operands[i] = Slot::Tensor(x.clone());
        }
        operands
    };
    let walk = RefCell::new(w);
    let out = control::while_loop(
        start,
        |carry| {
            let out = walk.borrow_mut().inside(test, &with(carry))?;
            match out.first() {
                Some(go_on) => ops::reshape(ops::cast(to_tensor(go_on)?, DType::Bool), ()).done(),
                None => bail!(Convert, "convert: the condition of a loop has no result"),
            }
        },
        |carry| {
            let out = walk.borrow_mut().inside(step, &with(carry))?;
            let next = moving.iter().zip(&carry.0);
            let next = next.map(|(&i, before)| cast_carry(&out[i], before));
            Ok(Carry(next.collect::<Result<_>>()?))
        },
    )?;
    Ok(several(with(&out)))
}
