//! Import rules of ONNX operators.
//!
//! Shapes are values in ONNX, as in TensorFlow. A value that is computed from sizes alone stays a list of sizes here, so
//! that a batch stays symbolic. Small constants stay tensors with known values, which rules can read. Attributes are
//! named parameters, and the opset version is the node's variant.

mod control;
mod conv;
mod image;
mod index;
mod layer;
mod loss;
mod low_precision_cast;
mod norm;
mod pointwise;
mod pool;
mod quantize;
mod recurrent;
mod reduce;
mod grid_sample;
mod shape;
mod signal;

use super::args::{Args, Slot};
use super::{Importer, Rule, Table, check_known, role};
use crate::captured::Program;
use crate::export::onnx::Names;
use crate::onnx::program::{Initializer, Options, Source, read};
use crate::onnx::proto;
use clematis_core::expr::Expr;
use clematis_core::graph::{Graph, Role};
use clematis_core::host::Host;
use clematis_core::trace::Trace;
use clematis_core::{DType, Dim, Repr, Result, Shape, Spec, Tensor, bail, ops};
use std::collections::HashMap;
use std::path::Path;

/// The rules by name.
pub static TABLE: Table = Table {
    family: "onnx",
    rule,
};

const PARTS: [&[(&str, Rule)]; 15] = [
    pointwise::RULES,
    shape::RULES,
    index::RULES,
    reduce::RULES,
    layer::RULES,
    norm::RULES,
    conv::RULES,
    pool::RULES,
    image::RULES,
    grid_sample::RULES,
    recurrent::RULES,
    loss::RULES,
    quantize::RULES,
    signal::RULES,
    control::RULES,
];

fn rule(name: &str) -> Option<Rule> {
    let mut found = PARTS.iter().flat_map(|part| part.iter());
    found
        .find(|(known, _)| *known == name)
        .map(|(_, rule)| *rule)
}

/// The names of all operators that have a rule.
pub fn names() -> Vec<&'static str> {
    let all = PARTS
        .iter()
        .flat_map(|part| part.iter().map(|(name, _)| *name));
    all.filter(|name| *name != "getitem" && !name.starts_with('&'))
        .collect()
}

/// An imported model.
pub struct Imported {
    /// Inputs: the initializers, the call's inputs, a key if it draws, the constants.
    pub graph: Graph,
    /// The initializers, in the order of the graph's first inputs.
    pub held: Vec<Initializer>,
    /// The values of the last inputs.
    pub constants: Vec<Tensor>,
    /// Whether an input with the two words of a key precedes those.
    pub draws: bool,
    /// Names of the call's inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
}

impl Imported {
    /// The graph, with the values of all inputs except the call's.
    pub fn ready(self) -> Result<(Graph, Names)> {
        let first = self.graph.inputs.len() - self.constants.len();
        let held = self.held.into_iter().map(|held| held.host).enumerate();
        let mut values: HashMap<usize, Host> = held.collect();
        for (i, x) in self.constants.iter().enumerate() {
            values.insert(first + i, x.to_host()?);
        }
        let names = Names {
            values,
            inputs: self.inputs,
            outputs: self.outputs,
        };
        Ok((self.graph, names))
    }
}

/// Imports a model from its bytes; external data must be in or below `folder`.
pub fn import(bytes: &[u8], folder: Option<&Path>, options: &Options) -> Result<Imported> {
    let source = read(&proto::Model::parse(bytes)?, folder, options)?;
    check_known(&source.program, &TABLE)?;
    let open = Trace::open(false);
    let mut known = HashMap::new();
    for input in &source.program.inputs {
        let name = if input.path.is_empty() {
            &input.name
        } else {
            &input.path
        };
        let x = open.trace.input(input.spec.spec()?, role(input)?, name);
        known.insert(input.name.as_str(), Slot::Tensor(x));
    }
    let words = Spec::new(DType::U32, Shape::from_sizes(&[2]));
    let key = open.trace.input(words, Role::Key, "key");
    let (results, draws) = walked(&source.program, &source.known, known, key)?;
    let closed = Trace::close(open, &results);
    let mut graph = closed.graph.prune();
    if !draws {
        graph.inputs.remove(source.program.inputs.len());
    }
    let Source {
        held,
        inputs,
        outputs,
        ..
    } = source;
    Ok(Imported {
        graph,
        held,
        constants: closed.captured,
        draws,
        inputs,
        outputs,
    })
}

/// Runs a model once on values, also if shapes depend on them; returns the outputs.
pub fn run(
    bytes: &[u8],
    folder: Option<&Path>,
    inputs: HashMap<String, Host>,
) -> Result<Vec<(String, Tensor)>> {
    let options = Options {
        values: inputs,
        ..Options::default()
    };
    let source = read(&proto::Model::parse(bytes)?, folder, &options)?;
    if let Some(name) = source.inputs.first() {
        bail!(Value, "onnx: input `{name}` is missing");
    }
    check_known(&source.program, &TABLE)?;
    let mut known = HashMap::new();
    for (input, held) in source.program.inputs.iter().zip(source.held) {
        known.insert(
            input.name.as_str(),
            Slot::Tensor(ops::from_host(held.host)?),
        );
    }
    let key = ops::from_slice(&[0u32, 0], [2usize])?;
    let (results, _) = walked(&source.program, &source.known, known, key)?;
    Ok(source.outputs.into_iter().zip(results).collect())
}

/// Runs the rules of a program: returns the outputs, and whether anything was drawn.
fn walked<'a>(
    program: &'a Program,
    values: &'a [(String, Host)],
    mut known: HashMap<&'a str, Slot>,
    key: Tensor,
) -> Result<(Vec<Tensor>, bool)> {
    for (name, host) in values {
        known.insert(name, Slot::Tensor(ops::from_host(host.clone())?));
    }
    let mut walk = Importer {
        table: &TABLE,
        known,
        key,
        draws: 0,
    };
    walk.run(program)?;
    let outputs = program
        .outputs
        .iter()
        .map(|out| match walk.slot(&out.value)? {
            Slot::Tensor(x) => ops::materialize(&x),
            other => to_tensor(&other),
        });
    Ok((outputs.collect::<Result<_>>()?, walk.draws > 0))
}

/// Out of range for positions: attributes are given by name only.
const NAMED: usize = usize::MAX;

/// A value as a tensor; a list of sizes becomes an integer vector.
fn to_tensor(slot: &Slot) -> Result<Tensor> {
    match slot {
        Slot::Tensor(x) => Ok(x.clone()),
        Slot::Int(d) => counted(*d),
        Slot::List(parts) if parts.len() > 4096 => bail!(Convert, "convert: {} sizes", parts.len()),
        Slot::List(parts) if parts.is_empty() => {
            ops::zeros(Shape::from_sizes(&[0]), DType::I64).done()
        }
        Slot::List(parts) => {
            let known: Option<Vec<i64>> = parts
                .iter()
                .map(|p| {
                    if let Slot::Int(d) = p {
                        d.value()
                    } else {
                        None
                    }
                })
                .collect();
            if let Some(known) = known {
                return ops::from_slice(&known, [known.len()]);
            }
            let one = |part: &Slot| match part {
                Slot::Int(d) => ops::reshape(counted(*d)?, Shape::from_sizes(&[1])).done(),
                other => bail!(
                    Unsupported,
                    "convert: expected a list of sizes, got one with {}",
                    other.kind()
                ),
            };
            let parts = parts.iter().map(one).collect::<Result<Vec<_>>>()?;
            ops::concat(&parts, 0).done()
        }
        other => bail!(Convert, "convert: expected a tensor, got {}", other.kind()),
    }
}

/// A size as a scalar tensor.
fn counted(d: Dim) -> Result<Tensor> {
    match d.value() {
        Some(n) => ops::from_slice(&[n], Shape::scalar()),
        None => match Slot::Int(d).as_number() {
            Some(x) => Ok(x),
            None => bail!(Convert, "convert: a size without a value"),
        },
    }
}

/// Operand `i`.
fn t(a: &Args<'_>, i: usize) -> Result<Tensor> {
    match a.slot(i, "operand") {
        Slot::Nothing => bail!(Convert, "convert: `{}`: operand {i} is missing", a.node.op),
        slot => folded(to_tensor(slot)?),
    }
}

/// Computes small results now and larger ones when the program runs: otherwise two constants could make one of any size.
fn folded(x: Tensor) -> Result<Tensor> {
    let many = x.shape().count_dim().value().is_none_or(|n| n > 256);
    if many { recorded(x, None) } else { Ok(x) }
}

/// Operand `i`, of rank `least` or more.
fn ranked(a: &Args<'_>, i: usize, least: usize) -> Result<Tensor> {
    let x = t(a, i)?;
    if x.rank() < least {
        bail!(
            Convert,
            "convert: `{}`: expected operand {i} of rank {least} or more, got {}",
            a.node.op,
            x.spec()
        );
    }
    Ok(x)
}

/// Operand `i` as an expression.
fn e(a: &Args<'_>, i: usize) -> Expr {
    t(a, i).into()
}

/// Operand `i`, or `None`.
fn maybe(a: &Args<'_>, i: usize) -> Result<Option<Tensor>> {
    match a.slot(i, "operand") {
        Slot::Nothing => Ok(None),
        slot => folded(to_tensor(slot)?).map(Some),
    }
}

/// A result.
fn out(x: Expr) -> Result<Slot> {
    Ok(x.done()?.into())
}

/// The values of a constant tensor.
fn values(x: &Tensor) -> Option<Host> {
    match x.repr() {
        Repr::Traced { .. } => None,
        _ => ops::materialize(x).and_then(|x| x.to_host()).ok(),
    }
}

/// Sizes, if the operand consists of sizes or of known integers.
fn sizes(a: &Args<'_>, i: usize) -> Option<Vec<Dim>> {
    dims(a.slot(i, "operand"))
}

fn dims(slot: &Slot) -> Option<Vec<Dim>> {
    match slot {
        Slot::Int(d) => Some(vec![*d]),
        Slot::List(parts) => parts
            .iter()
            .map(|part| {
                if let Slot::Int(d) = part {
                    Some(*d)
                } else {
                    None
                }
            })
            .collect(),
        Slot::Tensor(x) if x.rank() <= 1 && matches!(x.dtype(), DType::I64 | DType::I32) => {
            let host = values(x).filter(|host| host.spec().shape.count() <= 4096)?;
            (0..host.spec().shape.count())
                .map(|i| Some(Dim::number(host.get(i).ok()?.as_i128() as i64)))
                .collect()
        }
        _ => None,
    }
}

/// Sizes in an operand that has to be known.
fn known_sizes(a: &Args<'_>, i: usize) -> Result<Vec<Dim>> {
    match sizes(a, i) {
        Some(dims) => Ok(dims),
        None => unknown(a, i),
    }
}

fn unknown<T>(a: &Args<'_>, i: usize) -> Result<T> {
    bail!(
        Unsupported,
        "convert: `{}`: operand {i} determines a shape, so its value must be known: make it an initializer or give it in `values`",
        a.node.op
    )
}

/// Known integers in an operand.
fn ints(a: &Args<'_>, i: usize) -> Result<Vec<i64>> {
    let known = sizes(a, i).and_then(|dims| dims.iter().map(|d| d.value()).collect());
    match known {
        Some(known) => Ok(known),
        None => unknown(a, i),
    }
}

/// A known integer in an operand.
fn int(a: &Args<'_>, i: usize) -> Result<i64> {
    match ints(a, i)?.first() {
        Some(n) => Ok(*n),
        None => Err(a.bad("an integer")),
    }
}

/// Known numbers in an operand.
fn floats(a: &Args<'_>, i: usize) -> Result<Vec<f64>> {
    match values(&to_tensor(a.slot(i, "operand"))?) {
        Some(host) => Ok(host.to_f64()),
        None => unknown(a, i),
    }
}

/// A list of numbers in an attribute.
fn numbers(a: &Args<'_>, name: &str) -> Result<Vec<f64>> {
    let Slot::List(xs) = a.slot(NAMED, name) else {
        return Ok(Vec::new());
    };
    let one = |x: &Slot| match x {
        Slot::Float(x) => Ok(*x),
        Slot::Int(d) => Ok(d.value().unwrap_or(0) as f64),
        other => bail!(
            Convert,
            "convert: `{}`: expected numbers in {name}, got {}",
            a.node.op,
            other.kind()
        ),
    };
    xs.iter().map(one).collect()
}

/// Integers that are an attribute up to some opset version, and an operand after it; `None` if neither is given.
fn axes(a: &Args<'_>, i: usize, name: &str) -> Result<Option<Vec<i64>>> {
    if a.has(i, "operand") {
        return ints(a, i).map(Some);
    }
    if a.has(NAMED, name) {
        return a.ints(NAMED, name).map(Some);
    }
    Ok(None)
}

/// A list of sizes as a value.
fn list(dims: Vec<Dim>) -> Slot {
    Slot::List(dims.into_iter().map(Slot::Int).collect())
}

/// The opset version.
fn version(a: &Args<'_>) -> i64 {
    a.node.variant.parse().unwrap_or(1)
}

/// The number of results that are read.
fn wanted(a: &Args<'_>) -> usize {
    a.int(NAMED, "&outputs", 1).unwrap_or(1).max(0) as usize
}

/// The results that are read; a single one is not put into a list.
fn several(a: &Args<'_>, mut xs: Vec<Slot>) -> Slot {
    match wanted(a) {
        1 if !xs.is_empty() => xs.swap_remove(0),
        _ => Slot::List(xs),
    }
}

/// Records the tensor as a traced value: what is computed from it is computed when the program runs.
///
/// A file of a few bytes can define a constant of any size.
fn recorded(x: Tensor, count: Option<Dim>) -> Result<Tensor> {
    let large = count.and_then(Dim::value).is_none_or(|n| n > 1 << 22);
    match Trace::innermost_abstract() {
        Some(trace) if large && !matches!(x.repr(), Repr::Traced { .. }) => {
            let same = clematis_core::Op::Reshape(x.shape().clone());
            match trace.record(&same, &[&x])?.one() {
                Some(x) => Ok(x),
                None => bail!(Internal, "convert: expected one result"),
            }
        }
        _ => Ok(x),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_op_has_one_rule() {
        let mut all = names();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(count >= 120, "{count}");
    }
}
