//! Verifies graphs: every value is defined once, before its use; specs equal those of `infer`; inputs and updates
//! match. Bodies are verified too.

use crate::attr::Attr;
use crate::error::{Error, Kind, Result};
use crate::graph::text::line;
use crate::graph::{Arg, Body, Graph, Node, Output, Role, ValueId};
use crate::infer::infer;
use crate::op::Op;
use crate::spec::Spec;
use crate::{bail, ensure};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

/// The part of a graph that is invalid.
pub(crate) enum Part {
    /// An input, by index.
    Input(usize),
    /// A node, by index.
    Node(usize),
    /// An output, by index.
    Output(usize),
    /// No part in particular.
    Graph,
}

/// A verification error and where it is.
pub(crate) struct Fault {
    pub part: Part,
    pub error: Error,
}

impl Graph {
    /// Verifies the graph.
    pub fn verify(&self) -> Result<()> {
        check(self, true).map_err(|fault| fault.error)
    }
}

/// Verifies a graph, and its bodies if `bodies` is set.
pub(crate) fn check(graph: &Graph, bodies: bool) -> std::result::Result<(), Fault> {
    let whole = |error| Fault {
        part: Part::Graph,
        error,
    };
    let mut defined = vec![false; graph.values.len()];
    tables(graph).map_err(whole)?;
    let mut names = FxHashSet::default();
    for (i, input) in graph.inputs.iter().enumerate() {
        let fresh = input.name.is_empty() || names.insert(input.name.as_str());
        let part = Part::Input(i);
        define(&mut defined, input.value.0)
            .and_then(|()| {
                ensure!(
                    fresh,
                    Value,
                    "verify: two inputs have the name `{}`",
                    input.name
                );
                Ok(())
            })
            .map_err(|error| Fault { part, error })?;
    }
    for (i, node) in graph.nodes.iter().enumerate() {
        let part = Part::Node(i);
        check_node(graph, node, &mut defined, bodies).map_err(|error| Fault { part, error })?;
    }
    if let Some(id) = defined.iter().position(|d| !d) {
        return Err(whole(Error::new(
            Kind::Value,
            format!("verify: %{id}: {} is never defined", graph.values[id]),
        )));
    }
    let mut updated = FxHashSet::default();
    for (i, output) in graph.outputs.iter().enumerate() {
        let part = Part::Output(i);
        check_output(graph, output, &defined, &mut updated)
            .map_err(|error| Fault { part, error })?;
    }
    Ok(())
}

fn tables(graph: &Graph) -> Result<()> {
    for (id, spec) in graph.values.iter().enumerate() {
        spec.shape
            .check("verify")
            .map_err(|e| e.note(format!("in %{id}: {spec}")))?;
    }
    if let Some(root) = graph.scopes.first() {
        ensure!(
            root.is_empty(),
            Value,
            "verify: the first module path is `{root}`, not the root, which is empty"
        );
    }
    Ok(())
}

fn define(defined: &mut [bool], id: u32) -> Result<()> {
    let count = defined.len();
    match defined.get_mut(id as usize) {
        Some(true) => bail!(Value, "verify: %{id} is defined twice"),
        Some(slot) => *slot = true,
        None => bail!(Value, "verify: %{id} in a graph of {count} values"),
    }
    Ok(())
}

fn check_node(graph: &Graph, node: &Node, defined: &mut [bool], bodies: bool) -> Result<()> {
    let have = graph.values.len();
    // Comes first, because `line` iterates over the range.
    ensure!(
        node.outs.start <= node.outs.end && node.outs.end as usize <= have,
        Value,
        "verify: {} defines %{} up to %{} in a graph of {have} values",
        node.op.name(),
        node.outs.start,
        node.outs.end
    );
    let here = |e: Error| e.note(format!("in `{}`", line(graph, node)));
    let mut specs: SmallVec<[&Spec; 4]> = SmallVec::new();
    for arg in &node.args {
        specs.push(operand(graph, arg, defined).map_err(here)?);
    }
    let paths = graph.scopes.len().max(1);
    ensure!(
        (node.scope.0 as usize) < paths,
        Value,
        "verify: module path {} of {paths} in `{}`",
        node.scope.0,
        line(graph, node)
    );
    if bodies {
        for body in bodies_of(&node.op) {
            body.verify().map_err(here)?;
        }
    }
    for id in node.outs.clone() {
        define(defined, id).map_err(here)?;
    }
    // A custom op's results are not checked.
    if matches!(node.op, Op::Custom(_)) {
        return Ok(());
    }
    let gives = infer(&node.op, &specs).map_err(here)?;
    let says = &graph.values[node.outs.start as usize..node.outs.end as usize];
    ensure!(
        gives.as_slice() == says,
        Shape,
        "verify: `{}` gives {:?}, not {says:?}",
        line(graph, node),
        gives.as_slice()
    );
    Ok(())
}

fn operand<'a>(graph: &'a Graph, arg: &'a Arg, defined: &[bool]) -> Result<&'a Spec> {
    match arg {
        Arg::Const(t) => Ok(t.spec()),
        Arg::Value(ValueId(id)) => {
            match (graph.values.get(*id as usize), defined.get(*id as usize)) {
                (Some(spec), Some(true)) => Ok(spec),
                (Some(_), _) => bail!(Value, "verify: %{id} is not defined before its use"),
                (None, _) => bail!(
                    Value,
                    "verify: %{id} in a graph of {} values",
                    graph.values.len()
                ),
            }
        }
    }
}

fn check_output(
    graph: &Graph,
    output: &Output,
    defined: &[bool],
    updated: &mut FxHashSet<usize>,
) -> Result<()> {
    let spec = operand(graph, &output.arg, defined)?;
    let Some(index) = output.updates else {
        return Ok(());
    };
    let Some(input) = graph.inputs.get(index) else {
        bail!(
            Value,
            "verify: an output updates input {index}, but there are {} inputs",
            graph.inputs.len()
        );
    };
    ensure!(
        matches!(
            input.role,
            Role::State | Role::Transient | Role::Key | Role::Param
        ),
        Value,
        "verify: an output updates input {index}, expected state, got {}",
        input.role.name()
    );
    let want = graph.spec(input.value);
    ensure!(
        spec == want,
        Shape,
        "verify: the update of input {index} is {spec}, expected {want}"
    );
    ensure!(
        updated.insert(index),
        Value,
        "verify: input {index} is updated twice"
    );
    Ok(())
}

/// The graphs among the parameters of an op.
pub(crate) fn bodies_of(op: &Op) -> Vec<Body> {
    fn collect(attr: &Attr, into: &mut Vec<Body>) {
        match attr {
            Attr::Graph(body) => into.push(body.clone()),
            Attr::List(list) => list.iter().for_each(|attr| collect(attr, into)),
            _ => {}
        }
    }
    let mut bodies = Vec::new();
    for (_, attr) in op.attrs() {
        collect(&attr, &mut bodies);
    }
    bodies
}
