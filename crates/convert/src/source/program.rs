//! A graph as steps that passes may change: what is done, on what, in which part of the model.

use super::tree::Clean;
use crate::identifiers::Identifiers;
use clematis_core::graph::{Arg, Graph, Role};
use clematis_core::{DType, Op, Result, Scalar, Spec, bail};
use std::collections::{HashMap, HashSet};

/// A value, by number.
pub type Val = u32;

/// What a step works on.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A value.
    Val(Val),
    /// A number of an element type.
    Num(Scalar, DType),
}

/// A setting of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// One for each axis.
    Ints(Vec<i64>),
    /// What goes before and behind each axis.
    Pads(Vec<(i64, i64)>),
}

/// A parameter of a layer: which input it is, and how its axes stand in torch's order.
#[derive(Clone, Debug)]
pub struct Weight {
    /// What it is for: `weight`, `bias`, `mean`, `var`.
    pub slot: &'static str,
    /// The inputs that it is made of.
    pub inputs: Vec<Val>,
    /// What to do with them.
    pub recipe: Vec<Change>,
}

/// A change of values on their way into a file.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Axes in another order.
    Transpose(Vec<usize>),
    /// Another shape.
    Reshape(Vec<i64>),
}

/// A layer that frameworks have a name for.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Which.
    pub kind: &'static str,
    /// Where it stands in the model.
    pub path: String,
    /// Its settings.
    pub config: Vec<(&'static str, Value)>,
    /// What it holds.
    pub weights: Vec<Weight>,
}

impl Layer {
    /// A setting.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.config.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// A setting that is a number.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Int(n)) => *n,
            Some(Value::Bool(b)) => i64::from(*b),
            _ => 0,
        }
    }

    /// A setting that is a real number.
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Value::Float(x)) => *x,
            _ => 0.0,
        }
    }

    /// A setting that is a list.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Some(Value::Ints(xs)) => xs.clone(),
            _ => Vec::new(),
        }
    }

    /// Padding.
    pub fn pads(&self) -> Vec<(i64, i64)> {
        match self.get("padding") {
            Some(Value::Pads(xs)) => xs.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether it holds something.
    pub fn has(&self, slot: &str) -> bool {
        self.weights.iter().any(|w| w.slot == slot)
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub enum What {
    /// An op.
    Op(Op),
    /// A layer.
    Layer(Layer),
}

/// One thing that is done.
#[derive(Clone, Debug)]
pub struct Step {
    /// What.
    pub what: What,
    /// On what.
    pub args: Vec<Operand>,
    /// What comes out.
    pub outs: Vec<Val>,
    /// The part of the model.
    pub path: String,
    /// Which call of each part on the path it was.
    pub calls: Vec<u32>,
}

impl Step {
    /// The values that it reads.
    pub fn reads(&self) -> impl Iterator<Item = Val> + '_ {
        self.args.iter().filter_map(|x| match x {
            Operand::Val(v) => Some(*v),
            Operand::Num(..) => None,
        })
    }

    /// The op, if it is one.
    pub fn op(&self) -> Option<&Op> {
        match &self.what {
            What::Op(op) => Some(op),
            What::Layer(_) => None,
        }
    }
}

/// What goes in.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its value.
    pub value: Val,
    /// What it is for.
    pub role: Role,
    /// Its path or name.
    pub name: String,
}

/// A graph as steps.
pub struct Program {
    /// Paths of the model as paths of the code.
    pub clean: Clean,
    /// What is known of each value.
    pub specs: Vec<Spec>,
    /// What goes in.
    pub inputs: Vec<Input>,
    /// What is done.
    pub steps: Vec<Step>,
    /// What comes out.
    pub outputs: Vec<Operand>,
}

impl Program {
    /// Of a graph; new values of state are left out.
    ///
    /// `modules` are paths that will be asked for beside those of the graph.
    pub fn new(graph: &Graph, modules: &[&str]) -> Result<Program> {
        let is_held = |role: Role| !matches!(role, Role::Input | Role::Key);
        let held = graph.inputs.iter().filter(|i| is_held(i.role));
        let held: Vec<&str> = held.map(|i| i.name.as_str()).collect();
        let scopes = graph.scopes.iter().map(String::as_str);
        let modules: Vec<&str> = scopes.chain(modules.iter().copied()).collect();
        let clean = Clean::new(&held, &modules);
        // Paths can still be equal where words are left out or separated otherwise.
        let mut paths = Identifiers::default();
        let mut own = |name: &str| match clean.path(name).0 {
            path if path.is_empty() => path,
            path => paths.distinct(&path),
        };
        let operand = |arg: &Arg| match arg {
            Arg::Value(v) => Ok(Operand::Val(v.0)),
            Arg::Const(x) => match x.as_number() {
                Some(n) => Ok(Operand::Num(n, x.dtype())),
                None => bail!(
                    Internal,
                    "source: a graph that was not closed: {}",
                    x.spec()
                ),
            },
        };
        let inputs = graph.inputs.iter().map(|i| Input {
            value: i.value.0,
            role: i.role,
            name: match i.role {
                Role::Input | Role::Key => i.name.clone(),
                _ => own(&i.name),
            },
        });
        let inputs: Vec<Input> = inputs.collect();
        let mut steps = Vec::new();
        for node in &graph.nodes {
            let scope = graph.scopes.get(node.scope.0 as usize);
            let (path, calls) = clean.path(scope.map_or("", String::as_str));
            steps.push(Step {
                what: What::Op(node.op.clone()),
                args: node.args.iter().map(operand).collect::<Result<_>>()?,
                outs: node.outs.clone().collect(),
                path,
                calls,
            });
        }
        let results = graph.outputs.iter().filter(|o| o.updates.is_none());
        let mut program = Program {
            clean,
            specs: graph.values.clone(),
            inputs,
            steps,
            outputs: results.map(|o| operand(&o.arg)).collect::<Result<_>>()?,
        };
        program.sweep();
        Ok(program)
    }

    /// Names for what is held without one; `alone` is the part that all others are put into.
    pub fn name_held(&mut self, alone: &str) {
        let mut count = 0;
        let mut names = Identifiers::default();
        names.reserve(self.inputs.iter().map(|i| i.name.clone()));
        for input in &mut self.inputs {
            if matches!(input.role, Role::Input | Role::Key) {
                continue;
            }
            if input.name.is_empty() {
                let plain = if count == 0 {
                    "constant".to_string()
                } else {
                    format!("constant{}", count + 1)
                };
                input.name = names.distinct(&plain);
                count += 1;
            } else if !alone.is_empty() {
                input.name = format!("{alone}.{}", input.name);
            }
        }
    }

    /// Drops what nothing needs.
    pub fn sweep(&mut self) {
        let mut needed: HashSet<Val> = self.outputs.iter().filter_map(value).collect();
        let mut kept = Vec::new();
        for step in std::mem::take(&mut self.steps).into_iter().rev() {
            if step.outs.iter().any(|v| needed.contains(v)) {
                needed.extend(step.reads());
                kept.push(step);
            }
        }
        kept.reverse();
        self.steps = kept;
    }

    /// How often each value is read.
    pub fn uses(&self) -> HashMap<Val, usize> {
        let mut found = HashMap::new();
        for step in &self.steps {
            for v in step.reads() {
                *found.entry(v).or_insert(0) += 1;
            }
        }
        for v in self.outputs.iter().filter_map(value) {
            *found.entry(v).or_insert(0) += 1;
        }
        found
    }

    /// The step that makes each value.
    pub fn makers(&self) -> HashMap<Val, usize> {
        let pairs = self.steps.iter().enumerate();
        pairs
            .flat_map(|(at, step)| step.outs.iter().map(move |v| (*v, at)))
            .collect()
    }

    /// What is known of an operand.
    pub fn spec(&self, x: &Operand) -> Spec {
        match x {
            Operand::Val(v) => self.specs[*v as usize].clone(),
            Operand::Num(_, dtype) => Spec::scalar(*dtype),
        }
    }

    /// A new value.
    pub fn value(&mut self, spec: Spec) -> Val {
        self.specs.push(spec);
        self.specs.len() as Val - 1
    }

    /// The input that a value is, if it is held by the model.
    pub fn held(&self, v: Val) -> Option<&Input> {
        let found = self.inputs.iter().find(|i| i.value == v)?;
        (!matches!(found.role, Role::Input | Role::Key)).then_some(found)
    }
}

/// The value that an operand is.
pub fn value(x: &Operand) -> Option<Val> {
    match x {
        Operand::Val(v) => Some(*v),
        Operand::Num(..) => None,
    }
}
