//! A graph as a list of steps that passes can rewrite: each has an op or layer, operands, results and a module path.

use super::module_tree::Clean;
use crate::identifiers::Identifiers;
use clematis_core::graph::{Arg, Graph, Role};
use clematis_core::{DType, Op, Result, Scalar, Spec, bail};
use std::collections::{HashMap, HashSet};

/// The number of a value.
pub type Val = u32;

/// An operand of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A value.
    Val(Val),
    /// A scalar constant of a dtype.
    Num(Scalar, DType),
}

/// A hyperparameter of a layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// One integer for each axis.
    Ints(Vec<i64>),
    /// The padding before and after each axis.
    Pads(Vec<(i64, i64)>),
}

/// A parameter of a layer: the inputs it comes from, and how its axes are permuted to torch's order.
#[derive(Clone, Debug)]
pub struct Weight {
    /// Its slot: `weight`, `bias`, `mean` or `var`.
    pub slot: &'static str,
    /// The inputs that it is made of.
    pub inputs: Vec<Val>,
    /// The changes applied to them.
    pub recipe: Vec<Change>,
}

/// A change of a tensor before it is written to the weights file.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A permutation of the axes.
    Transpose(Vec<usize>),
    /// A reshape.
    Reshape(Vec<i64>),
}

/// A layer that frameworks have a class or function for.
#[derive(Clone, Debug)]
pub struct Layer {
    /// Its kind, such as `linear`.
    pub kind: &'static str,
    /// Its module path.
    pub path: String,
    /// Its hyperparameters.
    pub config: Vec<(&'static str, Value)>,
    /// Its parameters.
    pub weights: Vec<Weight>,
}

impl Layer {
    /// The hyperparameter of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.config.iter().find(|(n, _)| *n == name).map(|(_, v)| v)
    }

    /// The integer hyperparameter of this name; 0 if it is missing.
    pub fn int(&self, name: &str) -> i64 {
        match self.get(name) {
            Some(Value::Int(n)) => *n,
            Some(Value::Bool(b)) => i64::from(*b),
            _ => 0,
        }
    }

    /// The float hyperparameter of this name; 0 if it is missing.
    pub fn float(&self, name: &str) -> f64 {
        match self.get(name) {
            Some(Value::Float(x)) => *x,
            _ => 0.0,
        }
    }

    /// The list hyperparameter of this name.
    pub fn ints(&self, name: &str) -> Vec<i64> {
        match self.get(name) {
            Some(Value::Ints(xs)) => xs.clone(),
            _ => Vec::new(),
        }
    }

    /// The padding of each axis.
    pub fn pads(&self) -> Vec<(i64, i64)> {
        match self.get("padding") {
            Some(Value::Pads(xs)) => xs.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether the layer has a parameter in this slot.
    pub fn has(&self, slot: &str) -> bool {
        self.weights.iter().any(|w| w.slot == slot)
    }
}

/// The operation of a step.
#[derive(Clone, Debug)]
pub enum What {
    /// An op.
    Op(Op),
    /// A layer.
    Layer(Layer),
}

/// One step of a program.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation.
    pub what: What,
    /// The operands.
    pub args: Vec<Operand>,
    /// The results.
    pub outs: Vec<Val>,
    /// The module path.
    pub path: String,
    /// For each module on the path, the index of the call.
    pub calls: Vec<u32>,
}

impl Step {
    /// The values that the step reads.
    pub fn reads(&self) -> impl Iterator<Item = Val> + '_ {
        self.args.iter().filter_map(|x| match x {
            Operand::Val(v) => Some(*v),
            Operand::Num(..) => None,
        })
    }

    /// The op, or `None` for a layer.
    pub fn op(&self) -> Option<&Op> {
        match &self.what {
            What::Op(op) => Some(op),
            What::Layer(_) => None,
        }
    }
}

/// An input of the program.
#[derive(Clone, Debug)]
pub struct Input {
    /// Its value.
    pub value: Val,
    /// Its role.
    pub role: Role,
    /// Its path or name.
    pub name: String,
}

/// A graph as a list of steps.
pub struct Program {
    /// Maps paths of the model to paths of the code.
    pub clean: Clean,
    /// The spec of each value.
    pub specs: Vec<Spec>,
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The steps, in order of execution.
    pub steps: Vec<Step>,
    /// The outputs.
    pub outputs: Vec<Operand>,
}

impl Program {
    /// The program of a graph, without the new values of its state.
    ///
    /// `modules` are module paths to make available besides those of the graph.
    pub fn new(graph: &Graph, modules: &[&str]) -> Result<Program> {
        let is_held = |role: Role| !matches!(role, Role::Input | Role::Key);
        let held = graph.inputs.iter().filter(|i| is_held(i.role));
        let held: Vec<&str> = held.map(|i| i.name.as_str()).collect();
        let scopes = graph.scopes.iter().map(String::as_str);
        let modules: Vec<&str> = scopes.chain(modules.iter().copied()).collect();
        let clean = Clean::new(&held, &modules);
        // Paths can collide where words are dropped or separators replaced.
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
                    "source: the graph captures a value from outside: {}",
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

    /// Names parameters that have none; `alone` is the module that they are put into.
    pub fn name_parameters(&mut self, alone: &str) {
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

    /// Removes dead steps.
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

    /// The number of reads of each value.
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

    /// The index of the step that computes each value.
    pub fn makers(&self) -> HashMap<Val, usize> {
        let pairs = self.steps.iter().enumerate();
        pairs
            .flat_map(|(at, step)| step.outs.iter().map(move |v| (*v, at)))
            .collect()
    }

    /// The spec of an operand.
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

    /// The program input that a value is, if it is a parameter or buffer.
    pub fn held(&self, v: Val) -> Option<&Input> {
        let found = self.inputs.iter().find(|i| i.value == v)?;
        (!matches!(found.role, Role::Input | Role::Key)).then_some(found)
    }
}

/// The value of an operand, or `None` for a scalar constant.
pub fn value(x: &Operand) -> Option<Val> {
    match x {
        Operand::Val(v) => Some(*v),
        Operand::Num(..) => None,
    }
}
