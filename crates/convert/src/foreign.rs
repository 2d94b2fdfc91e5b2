//! Another framework's program as plain data, which can be kept as JSON.

use clematis_core::{DType, Dim, Error, Kind, Result, Shape, Spec};
use serde::Deserialize;
use serde_json::Value as Json;

/// A program: what goes in, what is done in order, what comes out.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Program {
    /// What goes in.
    pub inputs: Vec<Input>,
    /// What is done.
    pub nodes: Vec<Node>,
    /// What comes out.
    pub outputs: Vec<Output>,
}

/// What goes in.
#[derive(Clone, Debug, Deserialize)]
pub struct Input {
    /// Its name in the program.
    pub name: String,
    /// One of the words of `clematis_core::graph::Role`.
    pub role: String,
    /// Its path in the model; empty for what a call gives.
    #[serde(default)]
    pub path: String,
    /// Element type and sizes.
    pub spec: ForeignSpec,
}

/// Element type and sizes, which may be expressions of names.
#[derive(Clone, Debug, Deserialize)]
pub struct ForeignSpec {
    /// Our name of the element type.
    pub dtype: String,
    /// Numbers and expressions.
    pub shape: Vec<Json>,
}

/// One op.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Its name in the framework, without what tells variants apart.
    pub op: String,
    /// Which variant.
    #[serde(default)]
    pub variant: String,
    /// Operands and parameters by position.
    #[serde(default)]
    pub args: Vec<Json>,
    /// Operands and parameters by name.
    #[serde(default)]
    pub kwargs: serde_json::Map<String, Json>,
    /// The name of its result, or of the list of its results.
    pub out: String,
    /// What is known of the results; of one, the framework's word is taken for its element type.
    #[serde(default)]
    pub specs: Vec<Option<ForeignSpec>>,
    /// Which of several results nobody reads.
    #[serde(default)]
    pub unread: Vec<usize>,
    /// The module that it stands in.
    #[serde(default)]
    pub scope: String,
    /// Where it was written.
    #[serde(default)]
    pub line: String,
}

/// A result, or the new value of an input that is state.
#[derive(Clone, Debug, Deserialize)]
pub struct Output {
    /// The value.
    pub value: Json,
    /// The name of the input that it replaces.
    #[serde(default)]
    pub updates: Option<String>,
}

impl Program {
    /// Reads what a reader has written.
    pub fn parse(text: &str) -> Result<Program> {
        serde_json::from_str(text)
            .map_err(|e| Error::new(Kind::Convert, format!("convert: not a program: {e}")))
    }
}

impl ForeignSpec {
    /// As ours.
    pub fn spec(&self) -> Result<Spec> {
        let dims = self.shape.iter().map(dim).collect::<Result<Vec<_>>>()?;
        Ok(Spec::new(dtype(&self.dtype)?, Shape::from_dims(dims)))
    }
}

/// A size: a number, or an expression as text or as `{"d": text}`.
pub fn dim(x: &Json) -> Result<Dim> {
    let text = x.as_str().or_else(|| x.get("d").and_then(Json::as_str));
    match (x.as_i64(), text) {
        (Some(n), _) => Ok(Dim::number(n)),
        (None, Some(text)) => Dim::parse(text),
        _ => Err(Error::new(
            Kind::Convert,
            format!("convert: {x} is no size"),
        )),
    }
}

/// An element type by our name of it.
pub fn dtype(name: &str) -> Result<DType> {
    name.parse().map_err(|_| {
        Error::new(
            Kind::Unsupported,
            format!("convert: there is no element type `{name}` here"),
        )
    })
}
