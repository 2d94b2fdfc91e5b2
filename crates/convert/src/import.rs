//! Imports a captured program of another framework as a graph.
//!
//! This module walks the program: names, results, their specs, and the errors for unsupported ops. The rule for each op
//! is in the tables, one directory for each framework. A rule calls the core's functions on tracers, so
//! symbolic shapes, dtypes and composites are the same as for code written with Clematis.

pub mod args;
pub mod roi_align;
pub mod jax;
pub mod onnx;
pub mod tensorflow;
pub mod torch;

use crate::captured::{Input, Node, Program, dim, dtype};
use args::{Args, Slot};
use clematis_core::graph::{Graph, Role};
use clematis_core::random::Key;
use clematis_core::trace::{Trace, scope};
use clematis_core::{DType, Dim, Error, Kind, Result, Shape, Spec, Tensor, bail, ops};
use serde_json::Value as Json;
use std::collections::{BTreeMap, HashMap};

/// Computes an op of another framework with the core's functions.
pub type Rule = fn(&mut Importer<'_>, &Args<'_>) -> Result<Slot>;

/// The rules of one framework, by op name.
pub struct Table {
    /// The framework's name for its set of ops, such as `aten`.
    pub family: &'static str,
    /// Looks up a rule.
    pub rule: fn(&str) -> Option<Rule>,
}

/// The table of this framework.
pub fn table(name: &str) -> Result<&'static Table> {
    match name {
        "torch" => Ok(&torch::TABLE),
        "jax" => Ok(&jax::TABLE),
        "tensorflow" => Ok(&tensorflow::TABLE),
        "onnx" => Ok(&onnx::TABLE),
        _ => bail!(
            Value,
            "convert: unsupported framework `{name}`; available: torch, jax, tensorflow"
        ),
    }
}

/// An imported graph with its constants.
pub struct Imported {
    /// Inputs are the program's in order, then a key if it draws, then the constants.
    pub graph: Graph,
    /// Values of the inputs after the program's own and the key.
    pub constants: Vec<Tensor>,
    /// Whether an input with the two words of a key follows the program's own.
    pub draws: bool,
}

/// The state of an import: the values of a program by name.
pub struct Importer<'a> {
    table: &'a Table,
    known: HashMap<&'a str, Slot>,
    key: Tensor,
    draws: u64,
}

impl Importer<'_> {
    /// A new random key.
    pub fn key(&mut self) -> Key {
        self.draws += 1;
        Key::from_tensor(&self.key).fold_in(self.draws)
    }

    /// Imports a nested program on these operands.
    pub fn inside(&mut self, program: &Program, operands: &[Slot]) -> Result<Vec<Slot>> {
        let mut inner = Importer {
            table: self.table,
            known: HashMap::new(),
            key: self.key.clone(),
            draws: self.draws,
        };
        for (input, x) in program.inputs.iter().zip(operands) {
            inner.known.insert(&input.name, x.clone());
        }
        inner.run(program)?;
        let out = program
            .outputs
            .iter()
            .map(|o| inner.slot(&o.value))
            .collect();
        self.draws = inner.draws;
        out
    }
}

impl<'a> Importer<'a> {
    fn run(&mut self, program: &'a Program) -> Result<()> {
        for node in &program.nodes {
            let out = match node.scope.as_str() {
                "" => self.node(node),
                name => scope(name, || self.node(node)),
            };
            let out = out.map_err(|e| located(e, node, self.table))?;
            self.known.insert(&node.out, out);
        }
        Ok(())
    }

    fn node(&mut self, node: &Node) -> Result<Slot> {
        let Some(rule) = (self.table.rule)(&node.op) else {
            bail!(
                Unsupported,
                "convert: operator `{}` is not supported",
                node.op
            );
        };
        let args = node
            .args
            .iter()
            .map(|x| self.slot(x))
            .collect::<Result<_>>()?;
        let named = node.kwargs.iter();
        let named = named.map(|(name, x)| Ok((name.as_str(), self.slot(x)?)));
        let args = Args {
            node,
            args,
            kwargs: named.collect::<Result<_>>()?,
        };
        let out = rule(self, &args)?;
        agreed(out, node)
    }

    /// The slot for a value of the program.
    fn slot(&self, x: &Json) -> Result<Slot> {
        Ok(match x {
            Json::Null => Slot::Nothing,
            Json::Bool(x) => Slot::Bool(*x),
            Json::Number(x) => match x.as_i64() {
                Some(n) => Slot::Int(Dim::number(n)),
                None => Slot::Float(x.as_f64().unwrap_or(f64::NAN)),
            },
            Json::String(text) => Slot::Text(text.clone()),
            Json::Array(xs) => Slot::List(xs.iter().map(|x| self.slot(x)).collect::<Result<_>>()?),
            Json::Object(map) => {
                let Some((kind, value)) = map.iter().next() else {
                    return Ok(Slot::Nothing);
                };
                let text = value.as_str().unwrap_or_default();
                match kind.as_str() {
                    "v" => match self.known.get(text) {
                        Some(x) => x.clone(),
                        None => bail!(Convert, "convert: `{text}` is used before it is defined"),
                    },
                    "d" => Slot::Int(dim(x)?),
                    "t" => Slot::DType(dtype(text)?),
                    "f" => Slot::Float(text.parse().unwrap_or(f64::NAN)),
                    "g" => {
                        let inner = serde_json::from_value(value.clone());
                        let wrong = |e| Error::new(Kind::Convert, format!("convert: {e}"));
                        Slot::Program(std::sync::Arc::new(inner.map_err(wrong)?))
                    }
                    _ => bail!(Convert, "convert: unknown kind of value `{kind}`"),
                }
            }
        })
    }
}

/// Checks a result against the framework's spec: it is cast to that dtype, and sizes that are numbers must be equal.
fn agreed(out: Slot, node: &Node) -> Result<Slot> {
    let (Slot::Tensor(x), [Some(recorded)]) = (&out, node.specs.as_slice()) else {
        return Ok(out);
    };
    let recorded = recorded.spec()?;
    check_shape(x.shape(), &recorded.shape, &node.op)?;
    if x.dtype() == recorded.dtype && !x.is_weak() {
        return Ok(out);
    }
    ops::cast(x, recorded.dtype).done().map(Slot::Tensor)
}

fn check_shape(own: &Shape, recorded: &Shape, op: &str) -> Result<()> {
    let fits = own.rank() == recorded.rank()
        && own
            .dims()
            .iter()
            .zip(recorded.dims())
            .all(|(a, b)| match (a.value(), b.value()) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            });
    if !fits {
        bail!(
            Convert,
            "convert: `{op}` gives {own}; the framework recorded {recorded}"
        );
    }
    Ok(())
}

/// The name of an op with its namespace; ops of other namespaces have it already.
fn full_name(node: &Node, table: &Table) -> String {
    match node.op.contains('.') {
        true => node.op.clone(),
        false => format!("{}.{}", table.family, node.op),
    }
}

fn located(e: Error, node: &Node, table: &Table) -> Error {
    let mut place = format!("in {}", full_name(node, table));
    if !node.variant.is_empty() {
        place.push_str(&format!(".{}", node.variant));
    }
    if !node.scope.is_empty() {
        place.push_str(&format!(" of {}", node.scope));
    }
    if !node.line.is_empty() {
        place.push_str(&format!(", {}", node.line));
    }
    e.note(place)
}

/// Fails with every unsupported operator, its count in the program, and its first source location.
fn check_known(program: &Program, table: &Table) -> Result<()> {
    let mut missing: BTreeMap<&str, (usize, &Node)> = BTreeMap::new();
    for node in &program.nodes {
        if (table.rule)(&node.op).is_none() {
            missing.entry(&node.op).or_insert((0, node)).0 += 1;
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let list: Vec<String> = missing
        .values()
        .map(|(count, node)| {
            let place = if node.line.is_empty() {
                &node.scope
            } else {
                &node.line
            };
            let place = if place.is_empty() {
                String::new()
            } else {
                format!(", first at {place}")
            };
            let name = full_name(node, table);
            format!("{name} ({count} times{place})")
        })
        .collect();
    bail!(
        Unsupported,
        "convert: {} unsupported operators: {}",
        list.len(),
        list.join("; ")
    )
}

fn role(input: &Input) -> Result<Role> {
    let known = Role::ALL.iter().find(|r| r.name() == input.role);
    known.copied().ok_or_else(|| {
        let words = format!(
            "convert: unknown role `{}` of input `{}`",
            input.name, input.role
        );
        Error::new(Kind::Convert, words)
    })
}

/// Imports a program.
pub fn import(program: &Program, from: &str) -> Result<Imported> {
    let table = table(from)?;
    check_known(program, table)?;
    let open = Trace::open(false);
    let mut known = HashMap::new();
    for input in &program.inputs {
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
    let mut walk = Importer {
        table,
        known,
        key,
        draws: 0,
    };
    walk.run(program)?;
    let mut outputs = Vec::new();
    for output in &program.outputs {
        match walk.slot(&output.value)? {
            Slot::Tensor(x) => outputs.push(x),
            other => match other.as_number() {
                Some(x) => outputs.push(ops::materialize(&x)?),
                None => bail!(
                    Convert,
                    "convert: expected a tensor as output, got {}",
                    other.kind()
                ),
            },
        }
    }
    let draws = walk.draws > 0;
    drop(walk);
    let closed = Trace::close(open, &outputs);
    let mut graph = closed.graph.prune();
    for (out, foreign) in graph.outputs.iter_mut().zip(&program.outputs) {
        if let Some(name) = &foreign.updates {
            out.updates = program.inputs.iter().position(|input| input.name == *name);
        }
    }
    if !draws {
        graph.inputs.remove(program.inputs.len());
    }
    Ok(Imported {
        graph,
        constants: closed.captured,
        draws,
    })
}
