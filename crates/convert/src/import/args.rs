//! The operands and parameters of a foreign op, with typed access for rules.

use crate::captured::{Node, Program};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Scalar, Tensor, bail, ops};
use std::collections::HashMap;
use std::sync::Arc;

/// A value of a captured program.
#[derive(Clone, Debug)]
pub enum Slot {
    /// A tensor.
    Tensor(Tensor),
    /// A list or tuple.
    List(Vec<Slot>),
    /// An integer, which may be symbolic.
    Int(Dim),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Text(String),
    /// A dtype.
    DType(DType),
    /// A nested program, such as the body of a loop.
    Program(Arc<Program>),
    /// `None`, or a parameter that is missing.
    Nothing,
}

impl From<Tensor> for Slot {
    fn from(x: Tensor) -> Slot {
        Slot::Tensor(x)
    }
}
impl From<Vec<Tensor>> for Slot {
    fn from(xs: Vec<Tensor>) -> Slot {
        Slot::List(xs.into_iter().map(Slot::Tensor).collect())
    }
}

impl Slot {
    /// The kind of the value, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Slot::Tensor(_) => "a tensor",
            Slot::List(_) => "a list",
            Slot::Int(_) => "an integer",
            Slot::Float(_) => "a number",
            Slot::Bool(_) => "a boolean",
            Slot::Text(_) => "a text",
            Slot::DType(_) => "a dtype",
            Slot::Program(_) => "a body",
            Slot::Nothing => "nothing",
        }
    }

    /// A number as a weakly typed tensor; a symbolic integer is computed when the program runs.
    pub fn as_number(&self) -> Option<Tensor> {
        match self {
            Slot::Tensor(x) => Some(x.clone()),
            Slot::Int(d) => match d.value() {
                Some(n) => Some(Tensor::number(n)),
                None => {
                    let ones = ops::ones(clematis_core::Shape::from_dims([*d]), DType::I64);
                    ops::sum(ones, ..).done().ok()
                }
            },
            Slot::Float(x) => Some(Tensor::number(*x)),
            Slot::Bool(x) => Some(Tensor::number(*x)),
            _ => None,
        }
    }
}

/// The operands and parameters of one op.
pub struct Args<'a> {
    /// The op.
    pub node: &'a Node,
    /// By position.
    pub args: Vec<Slot>,
    /// By name.
    pub kwargs: HashMap<&'a str, Slot>,
}

impl Args<'_> {
    /// Parameter `i`, which may be given by name.
    pub fn slot(&self, i: usize, name: &str) -> &Slot {
        static NOTHING: Slot = Slot::Nothing;
        let found = self.args.get(i).or_else(|| self.kwargs.get(name));
        found.unwrap_or(&NOTHING)
    }

    /// Whether the parameter is given and not `None`.
    pub fn has(&self, i: usize, name: &str) -> bool {
        !matches!(self.slot(i, name), Slot::Nothing)
    }

    fn wrong<T>(&self, i: usize, name: &str, wanted: &str) -> Result<T> {
        let got = self.slot(i, name).kind();
        bail!(
            Convert,
            "convert: `{}`: expected {name} to be {wanted}, got {got}",
            self.node.op
        )
    }

    /// The error that a precondition of the op is not met.
    pub fn bad(&self, what: &str) -> clematis_core::Error {
        let words = format!("convert: `{}`: expected {what}", self.node.op);
        clematis_core::Error::new(clematis_core::Kind::Convert, words)
    }

    /// Whether anything reads result `i` of several.
    pub fn wants(&self, i: usize) -> bool {
        matches!(self.node.specs.get(i), Some(Some(_))) && !self.node.unread.contains(&i)
    }

    /// A tensor or a number, as a tensor.
    pub fn tensor(&self, i: usize, name: &str) -> Result<Tensor> {
        match self.slot(i, name).as_number() {
            Some(x) => Ok(x),
            None => self.wrong(i, name, "a tensor"),
        }
    }

    /// Like `tensor`, as an expression.
    pub fn expr(&self, i: usize, name: &str) -> Expr {
        self.tensor(i, name).into()
    }

    /// A tensor or a number, or `None`.
    pub fn maybe_tensor(&self, i: usize, name: &str) -> Result<Option<Tensor>> {
        if !self.has(i, name) {
            return Ok(None);
        }
        self.tensor(i, name).map(Some)
    }

    /// A list of tensors.
    pub fn tensors(&self, i: usize, name: &str) -> Result<Vec<Tensor>> {
        let Slot::List(xs) = self.slot(i, name) else {
            return self.wrong(i, name, "a list of tensors");
        };
        let all = xs.iter().map(|x| match x {
            Slot::Tensor(x) => Ok(x.clone()),
            other => match other.as_number() {
                Some(x) => ops::materialize(&x),
                None => self.wrong(i, name, "a list of tensors"),
            },
        });
        all.collect()
    }

    /// An integer, which may be symbolic.
    pub fn dim(&self, i: usize, name: &str) -> Result<Dim> {
        match self.slot(i, name) {
            Slot::Int(d) => Ok(*d),
            _ => self.wrong(i, name, "an integer"),
        }
    }

    /// A known integer; `default` if it is missing.
    pub fn int(&self, i: usize, name: &str, default: i64) -> Result<i64> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Int(d) if d.value().is_some() => Ok(d.value().unwrap_or(default)),
            Slot::Bool(x) => Ok(i64::from(*x)),
            _ => self.wrong(i, name, "a known integer"),
        }
    }

    /// A number; `default` if it is missing.
    pub fn float(&self, i: usize, name: &str, default: f64) -> Result<f64> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Float(x) => Ok(*x),
            Slot::Int(d) if d.value().is_some() => Ok(d.value().unwrap_or(0) as f64),
            Slot::Bool(x) => Ok(f64::from(u8::from(*x))),
            _ => self.wrong(i, name, "a number"),
        }
    }

    /// A known number.
    pub fn scalar(&self, i: usize, name: &str) -> Result<Scalar> {
        match self.slot(i, name).as_number().and_then(|x| x.as_number()) {
            Some(x) => Ok(x),
            None => self.wrong(i, name, "a known number"),
        }
    }

    /// A boolean; `default` if it is missing.
    pub fn flag(&self, i: usize, name: &str, default: bool) -> Result<bool> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Bool(x) => Ok(*x),
            Slot::Int(d) => Ok(*d != 0usize),
            _ => self.wrong(i, name, "a boolean"),
        }
    }

    /// A string; `default` if it is missing.
    pub fn text<'s>(&'s self, i: usize, name: &str, default: &'s str) -> Result<&'s str> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Text(x) => Ok(x),
            _ => self.wrong(i, name, "a text"),
        }
    }

    /// A dtype, or `None`.
    pub fn dtype(&self, i: usize, name: &str) -> Result<Option<DType>> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(None),
            Slot::DType(x) => Ok(Some(*x)),
            _ => self.wrong(i, name, "a dtype"),
        }
    }

    /// A list of sizes; a single size counts as a list of one.
    pub fn dims(&self, i: usize, name: &str) -> Result<Vec<Dim>> {
        match self.slot(i, name) {
            Slot::Int(d) => Ok(vec![*d]),
            Slot::List(xs) => {
                let all = xs.iter().map(|x| match x {
                    Slot::Int(d) => Ok(*d),
                    _ => self.wrong(i, name, "a list of sizes"),
                });
                all.collect()
            }
            _ => self.wrong(i, name, "a list of sizes"),
        }
    }

    /// A list of known integers; empty if it is missing, and a single integer counts as a list of one.
    pub fn ints(&self, i: usize, name: &str) -> Result<Vec<i64>> {
        if !self.has(i, name) {
            return Ok(Vec::new());
        }
        let dims = self.dims(i, name)?;
        let known: Option<Vec<i64>> = dims.iter().map(|d| d.value()).collect();
        match known {
            Some(known) => Ok(known),
            None => self.wrong(i, name, "a list of known integers"),
        }
    }

    /// The spec of result `i` that the framework recorded.
    pub fn recorded_spec(&self, i: usize) -> Result<clematis_core::Spec> {
        match self.node.specs.get(i) {
            Some(Some(spec)) => spec.spec(),
            _ => bail!(
                Convert,
                "convert: no spec recorded for the results of `{}`",
                self.node.op
            ),
        }
    }
}
