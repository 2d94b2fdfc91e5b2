//! A captured program of another framework as plain data that can be stored as JSON.

use clematis_core::{DType, Dim, Error, Kind, Result, Shape, Spec};
use serde::Deserialize;
use serde_json::Value as Json;

/// A captured program: inputs, nodes in order of execution, outputs.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Program {
    /// The inputs.
    pub inputs: Vec<Input>,
    /// The nodes.
    pub nodes: Vec<Node>,
    /// The outputs.
    pub outputs: Vec<Output>,
}

/// An input.
#[derive(Clone, Debug, Deserialize)]
pub struct Input {
    /// Its name in the program.
    pub name: String,
    /// Its role, as `clematis_core::graph::Role` spells it.
    pub role: String,
    /// Its path in the model; empty for call arguments.
    #[serde(default)]
    pub path: String,
    /// Dtype and shape.
    pub spec: CapturedSpec,
}

/// Dtype and shape; sizes may be expressions of symbolic dimensions.
#[derive(Clone, Debug, Deserialize)]
pub struct CapturedSpec {
    /// The dtype by our name.
    pub dtype: String,
    /// Numbers and expressions.
    pub shape: Vec<Json>,
}

/// One op.
#[derive(Clone, Debug, Deserialize)]
pub struct Node {
    /// Its name in the framework, without the overload.
    pub op: String,
    /// The overload.
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
    /// The specs of the results; that of a single result determines its dtype.
    #[serde(default)]
    pub specs: Vec<Option<CapturedSpec>>,
    /// The indices of results that nobody reads.
    #[serde(default)]
    pub unread: Vec<usize>,
    /// The path of the enclosing module.
    #[serde(default)]
    pub scope: String,
    /// The source location.
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
    /// Parses the JSON that a capturing front end wrote.
    pub fn parse(text: &str) -> Result<Program> {
        serde_json::from_str(text)
            .map_err(|e| Error::new(Kind::Convert, format!("convert: invalid program: {e}")))
    }
}

impl CapturedSpec {
    /// As a `Spec` of ours.
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
            format!("convert: expected a size, got {x}"),
        )),
    }
}

/// A dtype by our name of it.
pub fn dtype(name: &str) -> Result<DType> {
    name.parse().map_err(|_| {
        Error::new(
            Kind::Unsupported,
            format!("convert: unsupported dtype `{name}`"),
        )
    })
}
