//! Exports a graph as an ONNX model.
//!
//! Composites with an ONNX operator become that operator; others are decomposed. Symbolic sizes become symbolic dimensions, and
//! expressions of them are computed in the model, from the shapes of the inputs. Weights are written to the file
//! without a copy.

mod emit;
mod index;
mod layer;
mod linear;
mod control;
mod pointwise;
mod shape;
mod size;
mod window;

use crate::identifiers::Identifiers;
use crate::onnx::tensor;
use crate::onnx::wire::Message;
use clematis_core::graph::{Graph, Role};
use clematis_core::host::Host;
use clematis_core::{Error, Kind, Result, bail};
use emit::Emitter;
use std::collections::HashMap;
use std::io::Write;

/// The opset version that is written.
pub const OPSET: i64 = 20;
/// The version of the ONNX format.
const IR: i64 = 9;

/// An ONNX model, ready to be written.
pub struct Model {
    /// The `GraphProto` without its weights.
    graph: Vec<u8>,
    weights: Vec<(String, Host)>,
}

/// Names and values of a graph's inputs and outputs.
#[derive(Default)]
pub struct Names {
    /// The values of inputs that are not call arguments, by position.
    pub values: HashMap<usize, Host>,
    /// Names of the call arguments, in order; missing ones are `x0`, `x1` …
    pub inputs: Vec<String>,
    /// Names of the outputs, in order.
    pub outputs: Vec<String>,
}

/// Exports a graph.
pub fn export(graph: &Graph, names: &Names) -> Result<Model> {
    // Values, inputs and outputs share one scope, also with bodies; values without names are `_` and a number.
    let mut scope = Identifiers::default();
    scope.reserve_numbered("_");
    scope.reserve([""]);
    let inner = |(i, input): (usize, &clematis_core::graph::Input)| match input.name.as_str() {
        _ if !names.values.contains_key(&i) => None,
        "" => Some("constant".to_string()),
        name => Some(name.to_string()),
    };
    let held: Vec<String> = graph.inputs.iter().enumerate().filter_map(inner).collect();
    let calls = |letter: &str, known: &[String], count: usize| -> Vec<String> {
        let plain = |i: usize| format!("{letter}{i}");
        (0..count)
            .map(|i| known.get(i).cloned().unwrap_or_else(|| plain(i)))
            .collect()
    };
    let given = (0..graph.inputs.len()).filter(|i| !names.values.contains_key(i));
    let given = calls("x", &names.inputs, given.count());
    let results = graph.outputs.iter().filter(|o| o.updates.is_none()).count();
    let outputs = calls("y", &names.outputs, results);
    // Names that callers use come first, so that weights give way.
    let take = |scope: &mut Identifiers, names: &[String]| {
        scope.distinct_all(&names.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let given = take(&mut scope, &given);
    let outputs = take(&mut scope, &outputs);
    let held = take(&mut scope, &held);
    let mut emitter = Emitter::new();
    let mut own = Message::default();
    let (mut given, mut held) = (given.into_iter(), held.into_iter());
    for (i, input) in graph.inputs.iter().enumerate() {
        let spec = graph.spec(input.value);
        if let Some(host) = names.values.get(&i) {
            let name = held.next().unwrap_or_default();
            // Counters such as num_batches_tracked are used in training only.
            if !reads(graph, i) {
                continue;
            }
            if host.spec() != spec {
                bail!(
                    Convert,
                    "to_onnx: input `{}` is {} in the graph, got the value {}",
                    input.name,
                    spec,
                    host.spec()
                );
            }
            emitter.bind(input.value, &name);
            emitter.weights.push((name, host.clone()));
            continue;
        }
        match input.role {
            Role::Input => {}
            Role::Key if !reads(graph, i) => continue,
            Role::Key => bail!(
                Unsupported,
                "to_onnx: the model draws random numbers, which ONNX does not support; call eval() first"
            ),
            _ => bail!(Convert, "to_onnx: input `{}` has no value", input.name),
        }
        let name = given.next().unwrap_or_default();
        emitter.bind(input.value, &name);
        emitter.learn_sizes(&name, spec);
        own.message(11, &emit::value_info(&name, spec));
    }
    for node in &graph.nodes {
        emitter
            .node(graph, node)
            .map_err(|e| e.note(format!("in {}", node.op.name())))?;
    }
    let results = graph.outputs.iter().filter(|o| o.updates.is_none());
    for (output, name) in results.zip(outputs) {
        let from = emitter.arg(&output.arg)?;
        emitter.op_to("Identity", &[&from], &[&name], &[]);
        own.message(12, &emit::value_info(&name, graph.arg_spec(&output.arg)));
    }
    let mut bytes = Message::default();
    for node in &emitter.nodes {
        bytes.message(1, node);
    }
    bytes.put(2, "clematis");
    let mut graph = bytes.into_bytes();
    graph.extend(own.into_bytes());
    Ok(Model {
        graph,
        weights: emitter.weights,
    })
}

/// Whether any node or output reads an input.
fn reads(graph: &Graph, i: usize) -> bool {
    let value = graph.inputs[i].value;
    let is = |arg: &clematis_core::graph::Arg| matches!(arg, clematis_core::graph::Arg::Value(v) if *v == value);
    graph.nodes.iter().any(|n| n.args.iter().any(is)) || graph.outputs.iter().any(|o| is(&o.arg))
}

impl Model {
    /// Writes the file.
    pub fn write(&self, to: &mut impl Write) -> Result<()> {
        let failed = |e: std::io::Error| Error::new(Kind::Io, format!("to_onnx: {e}"));
        let mut head = Message::default();
        head.int(1, IR)
            .put(2, "clematis")
            .put(3, env!("CARGO_PKG_VERSION"));
        let mut set = Message::default();
        set.put(1, "").int(2, OPSET);
        head.message(8, &set);
        let heads: Vec<Vec<u8>> = self
            .weights
            .iter()
            .map(|(name, host)| tensor::head(name, host))
            .collect();
        let size = |i: usize| heads[i].len() + self.weights[i].1.bytes().len();
        let prefix = |i: usize| tensor::prefix(5, size(i));
        let all = (0..heads.len())
            .map(|i| prefix(i).len() + size(i))
            .sum::<usize>()
            + self.graph.len();
        if all >= 1 << 31 {
            bail!(
                Unsupported,
                "to_onnx: expected a model of at most 2 GiB, got {all} bytes"
            );
        }
        to.write_all(&head.into_bytes()).map_err(failed)?;
        to.write_all(&tensor::prefix(7, all)).map_err(failed)?;
        to.write_all(&self.graph).map_err(failed)?;
        for (i, (_, host)) in self.weights.iter().enumerate() {
            to.write_all(&prefix(i)).map_err(failed)?;
            to.write_all(&heads[i]).map_err(failed)?;
            to.write_all(host.bytes().as_slice::<u8>())
                .map_err(failed)?;
        }
        to.flush().map_err(failed)
    }

    /// The bytes of the file.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(bytes)
    }
}
