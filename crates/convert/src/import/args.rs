//! The operands and parameters of one op of another framework, as rules ask for them.

use crate::foreign::{Node, Program};
use clematis_core::expr::Expr;
use clematis_core::{DType, Dim, Result, Scalar, Tensor, bail, ops};
use std::collections::HashMap;
use std::sync::Arc;

/// What a value of a foreign program stands for.
#[derive(Clone, Debug)]
pub enum Slot {
    /// A tensor.
    Tensor(Tensor),
    /// Several values.
    List(Vec<Slot>),
    /// An integer, maybe of named sizes.
    Int(Dim),
    /// A number.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Text(String),
    /// An element type.
    DType(DType),
    /// A body.
    Program(Arc<Program>),
    /// Nothing was given.
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
    /// What it is, in a message.
    pub fn kind(&self) -> &'static str {
        match self {
            Slot::Tensor(_) => "a tensor",
            Slot::List(_) => "a list",
            Slot::Int(_) => "an integer",
            Slot::Float(_) => "a number",
            Slot::Bool(_) => "a truth value",
            Slot::Text(_) => "a text",
            Slot::DType(_) => "an element type",
            Slot::Program(_) => "a body",
            Slot::Nothing => "nothing",
        }
    }

    /// A number as a tensor that follows its neighbours; of named sizes, one that is counted when the program runs.
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
    /// Parameter `i`, which may be given by its name.
    pub fn slot(&self, i: usize, name: &str) -> &Slot {
        static NOTHING: Slot = Slot::Nothing;
        let found = self.args.get(i).or_else(|| self.kwargs.get(name));
        found.unwrap_or(&NOTHING)
    }

    /// Whether something other than nothing is given.
    pub fn has(&self, i: usize, name: &str) -> bool {
        !matches!(self.slot(i, name), Slot::Nothing)
    }

    fn wrong<T>(&self, i: usize, name: &str, wanted: &str) -> Result<T> {
        let got = self.slot(i, name).kind();
        bail!(
            Convert,
            "convert: `{}`: {name} is {wanted}, not {got}",
            self.node.op
        )
    }

    /// That this op is given something that it does not take.
    pub fn bad(&self, what: &str) -> clematis_core::Error {
        let words = format!("convert: `{}`: {what} was expected", self.node.op);
        clematis_core::Error::new(clematis_core::Kind::Convert, words)
    }

    /// Whether anything reads this one of several results.
    pub fn wants(&self, i: usize) -> bool {
        matches!(self.node.specs.get(i), Some(Some(_))) && !self.node.unread.contains(&i)
    }

    /// A tensor or a number.
    pub fn tensor(&self, i: usize, name: &str) -> Result<Tensor> {
        match self.slot(i, name).as_number() {
            Some(x) => Ok(x),
            None => self.wrong(i, name, "a tensor"),
        }
    }

    /// The same in an expression.
    pub fn expr(&self, i: usize, name: &str) -> Expr {
        self.tensor(i, name).into()
    }

    /// A tensor, a number or nothing.
    pub fn maybe_tensor(&self, i: usize, name: &str) -> Result<Option<Tensor>> {
        if !self.has(i, name) {
            return Ok(None);
        }
        self.tensor(i, name).map(Some)
    }

    /// Several tensors.
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

    /// An integer, maybe of named sizes.
    pub fn dim(&self, i: usize, name: &str) -> Result<Dim> {
        match self.slot(i, name) {
            Slot::Int(d) => Ok(*d),
            _ => self.wrong(i, name, "an integer"),
        }
    }

    /// An integer that is known, or what it is if nothing is given.
    pub fn int(&self, i: usize, name: &str, default: i64) -> Result<i64> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Int(d) if d.value().is_some() => Ok(d.value().unwrap_or(default)),
            Slot::Bool(x) => Ok(i64::from(*x)),
            _ => self.wrong(i, name, "a known integer"),
        }
    }

    /// A number, or what it is if nothing is given.
    pub fn float(&self, i: usize, name: &str, default: f64) -> Result<f64> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Float(x) => Ok(*x),
            Slot::Int(d) if d.value().is_some() => Ok(d.value().unwrap_or(0) as f64),
            Slot::Bool(x) => Ok(f64::from(u8::from(*x))),
            _ => self.wrong(i, name, "a number"),
        }
    }

    /// A number of any kind that is known.
    pub fn scalar(&self, i: usize, name: &str) -> Result<Scalar> {
        match self.slot(i, name).as_number().and_then(|x| x.as_number()) {
            Some(x) => Ok(x),
            None => self.wrong(i, name, "a known number"),
        }
    }

    /// A truth value, or what it is if nothing is given.
    pub fn flag(&self, i: usize, name: &str, default: bool) -> Result<bool> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Bool(x) => Ok(*x),
            Slot::Int(d) => Ok(*d != 0usize),
            _ => self.wrong(i, name, "a truth value"),
        }
    }

    /// Text, or what it is if nothing is given.
    pub fn text<'s>(&'s self, i: usize, name: &str, default: &'s str) -> Result<&'s str> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(default),
            Slot::Text(x) => Ok(x),
            _ => self.wrong(i, name, "a text"),
        }
    }

    /// An element type, if one is given.
    pub fn dtype(&self, i: usize, name: &str) -> Result<Option<DType>> {
        match self.slot(i, name) {
            Slot::Nothing => Ok(None),
            Slot::DType(x) => Ok(Some(*x)),
            _ => self.wrong(i, name, "an element type"),
        }
    }

    /// Sizes; one alone counts as a list of it.
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

    /// Known integers; nothing gives none, one alone counts as a list of it.
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

    /// What the framework says of a result.
    pub fn told(&self, i: usize) -> Result<clematis_core::Spec> {
        match self.node.specs.get(i) {
            Some(Some(spec)) => spec.spec(),
            _ => bail!(
                Convert,
                "convert: nothing is known of the results of `{}`",
                self.node.op
            ),
        }
    }
}
