//! `clematis inspect`: shows the contents of a model file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clematis::Spec;
use clematis::graph::Role;
use clematis::nn::checkpoint::Reader;
use clematis_convert::export::model as format;
use clematis_convert::import::onnx as rules;
use clematis_convert::literal;
use clematis_convert::onnx::proto::{Graph, Model, Size, Value, ValueInfo};
use clematis_convert::onnx::tensor;
use comfy_table::{Table, presets};
use serde_json::{Value as Json, json};

use crate::error::Result;
use crate::model::{self, Kind};
use crate::terminal;

/// The options of `inspect`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// A safetensors file or an ONNX model
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A tensor in a file.
struct Row {
    name: String,
    dtype: String,
    shape: String,
    count: u64,
    bytes: u64,
}

impl Row {
    fn new(name: &str, spec: &Spec) -> Row {
        Row {
            name: name.to_string(),
            dtype: spec.dtype.long_name().to_string(),
            shape: spec.shape.to_string(),
            count: spec.shape.count() as u64,
            bytes: spec.bytes() as u64,
        }
    }

    fn json(&self) -> Json {
        json!({ "name": self.name, "dtype": self.dtype, "shape": self.shape, "elements": self.count, "bytes": self.bytes })
    }
}

pub fn run(args: &Args) -> Result<()> {
    let (head, rows) = match model::kind(&args.file)? {
        Kind::Safetensors => safetensors(&args.file)?,
        Kind::Onnx => onnx(&args.file)?,
    };
    let (count, bytes) = rows.iter().fold((0u64, 0u64), |(n, b), row| {
        (n.saturating_add(row.count), b.saturating_add(row.bytes))
    });
    if args.json {
        let tensors: Vec<Json> = rows.iter().map(Row::json).collect();
        let mut all = json!({ "file": args.file.display().to_string(), "tensors": tensors, "elements": count, "bytes": bytes });
        for (key, value) in head {
            all[key] = value;
        }
        return terminal::print_json(&all);
    }
    for (key, value) in &head {
        terminal::print_line(&described(key, value))?;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    for row in &rows {
        table.add_row([
            literal::terminal(&row.name),
            row.dtype.clone(),
            row.shape.clone(),
            model::size(row.bytes),
        ]);
    }
    if !rows.is_empty() {
        terminal::print_line(&table.trim_fmt())?;
    }
    terminal::print_line(&format!(
        "{} tensors, {count} elements, {}",
        rows.len(),
        model::size(bytes)
    ))
}

/// A short description for people.
fn described(key: &str, value: &Json) -> String {
    let text =
        |x: &Json| literal::terminal(&x.as_str().map_or_else(|| x.to_string(), String::from));
    match value {
        Json::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(k, v)| format!("{} {}", literal::terminal(k), text(v)))
                .collect();
            format!("{key}: {}", parts.join(", "))
        }
        Json::Array(list) => format!(
            "{key}: {}",
            list.iter().map(text).collect::<Vec<_>>().join(", ")
        ),
        other => format!("{key}: {}", text(other)),
    }
}

type Found = (Vec<(&'static str, Json)>, Vec<Row>);

fn safetensors(path: &Path) -> Result<Found> {
    let wrong = |e| model::in_file(path, &e);
    let file = Reader::open(path).map_err(wrong)?;
    let rows = file.specs().map(|(name, spec)| Row::new(name, spec));
    let rows = rows.collect();
    if !format::holds_program(&file) {
        return Ok((vec![("format", json!("safetensors"))], rows));
    }
    let (graph, names) = format::look(&file, path).map_err(wrong)?;
    let mut ops: BTreeMap<&str, u64> = BTreeMap::new();
    for node in &graph.nodes {
        *ops.entry(node.op.name()).or_insert(0) += 1;
    }
    let described = |words: &[String], i: usize, letter: char, spec: &Spec| {
        let plain = format!("{letter}{i}");
        format!("{} {spec}", words.get(i).unwrap_or(&plain))
    };
    let inputs = graph.inputs.iter().filter(|x| x.role == Role::Input);
    let inputs = inputs.enumerate();
    let inputs = inputs.map(|(i, x)| described(&names.inputs, i, 'x', graph.spec(x.value)));
    let outputs = graph.outputs.iter().filter(|o| o.updates.is_none());
    let outputs = outputs.enumerate();
    let outputs = outputs.map(|(i, o)| described(&names.outputs, i, 'y', graph.arg_spec(&o.arg)));
    let head = vec![
        ("format", json!("clematis")),
        ("inputs", json!(inputs.collect::<Vec<_>>())),
        ("outputs", json!(outputs.collect::<Vec<_>>())),
        ("ops", json!(ops)),
    ];
    Ok((head, rows))
}

fn onnx(path: &Path) -> Result<Found> {
    let bytes = model::bytes(path)?;
    let model = Model::parse(&bytes).map_err(|e| model::in_file(path, &e))?;
    let mut ops: BTreeMap<String, u64> = BTreeMap::new();
    count(&model.graph, &mut ops);
    let own = |name: &str| {
        model
            .functions
            .iter()
            .any(|f| name == f.name || name == format!("{}::{}", f.domain, f.name))
    };
    let known = rules::names();
    let unknown: Vec<&String> = ops
        .keys()
        .filter(|op| !known.contains(&op.as_str()) && !own(op))
        .collect();
    let opsets: serde_json::Map<String, Json> = model
        .opsets
        .iter()
        .map(|(name, version)| {
            (
                if name.is_empty() { "ai.onnx" } else { name }.to_string(),
                json!(version),
            )
        })
        .collect();
    let given: Vec<&str> = model.graph.initializers.iter().map(|x| x.name).collect();
    let inputs: Vec<String> = model
        .graph
        .inputs
        .iter()
        .filter(|x| !given.contains(&x.name))
        .map(info)
        .collect();
    let outputs: Vec<String> = model.graph.outputs.iter().map(info).collect();
    let mut head = vec![
        ("format", json!("onnx")),
        ("producer", json!(model.producer)),
        ("ir_version", json!(model.ir_version)),
        ("opset", Json::Object(opsets)),
        ("inputs", json!(inputs)),
        ("outputs", json!(outputs)),
        ("ops", json!(ops)),
    ];
    if !model.functions.is_empty() {
        head.push((
            "functions",
            json!(model.functions.iter().map(|f| f.name).collect::<Vec<_>>()),
        ));
    }
    if !unknown.is_empty() {
        head.push(("unknown_ops", json!(unknown)));
    }
    let row = |x: &clematis_convert::onnx::proto::Tensor<'_>| match tensor::spec(x) {
        Ok(spec) => Row {
            // Some dtypes are stored in wider ones here; show the file's own.
            dtype: tensor::name(x.dtype),
            bytes: x.raw.map_or(spec.bytes() as u64, |r| r.len() as u64),
            ..Row::new(x.name, &spec)
        },
        // An unsupported dtype can still be shown.
        Err(_) => Row {
            name: x.name.to_string(),
            dtype: tensor::name(x.dtype),
            shape: format!("{:?}", x.dims),
            count: 0,
            bytes: x.raw.map_or(0, |r| r.len() as u64),
        },
    };
    Ok((head, model.graph.initializers.iter().map(row).collect()))
}

fn count(graph: &Graph<'_>, ops: &mut BTreeMap<String, u64>) {
    for node in &graph.nodes {
        let main = node.domain.is_empty() || node.domain == "ai.onnx";
        let name = if main {
            node.op.to_string()
        } else {
            format!("{}::{}", node.domain, node.op)
        };
        *ops.entry(name).or_insert(0) += 1;
        for attribute in &node.attributes {
            if let Value::Graph(body) = &attribute.value {
                count(body, ops);
            }
        }
    }
}

fn info(x: &ValueInfo<'_>) -> String {
    let size = |s: &Size<'_>| match s {
        Size::Known(n) => n.to_string(),
        Size::Named(name) => name.to_string(),
        Size::Open => "?".to_string(),
    };
    let kind = x.other.map_or_else(|| tensor::name(x.dtype), String::from);
    match &x.shape {
        Some(sizes) => format!(
            "{} {kind}[{}]",
            x.name,
            sizes.iter().map(size).collect::<Vec<_>>().join(",")
        ),
        None => format!("{} {kind}", x.name),
    }
}
