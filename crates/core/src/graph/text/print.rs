//! Prints graphs. Never fails, even for graphs that `verify` rejects: error messages show their lines.

use crate::attr::Attr;
use crate::dtype::{DType, Real, Scalar};
use crate::graph::{Arg, Graph, Node};
use crate::lex::quote;
use crate::op::Op;
use std::fmt::{self, Write};

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_graph(f, self, 0)
    }
}

/// Prints one node as a line of text, without bodies.
pub(crate) fn line(graph: &Graph, node: &Node) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_node(&mut text, graph, node, None);
    text
}

fn write_graph(f: &mut dyn Write, graph: &Graph, indent: usize) -> fmt::Result {
    let pad = "  ".repeat(indent + 1);
    f.write_str("graph {\n")?;
    for input in &graph.inputs {
        write!(f, "{pad}input ")?;
        write_result(f, graph, input.value.0)?;
        write!(f, " {}", input.role.name())?;
        if !input.name.is_empty() {
            write!(f, " {}", quote(&input.name))?;
        }
        f.write_str("\n")?;
    }
    for node in &graph.nodes {
        f.write_str(&pad)?;
        write_node(f, graph, node, Some(indent + 1))?;
        f.write_str("\n")?;
    }
    write!(f, "{pad}return")?;
    for (i, output) in graph.outputs.iter().enumerate() {
        f.write_str(if i == 0 { " " } else { ", " })?;
        write_arg(f, &output.arg)?;
        if let Some(input) = output.updates {
            write!(f, " -> {input}")?;
        }
    }
    write!(f, "\n{}}}", "  ".repeat(indent))
}

/// Writes the definition of a value.
fn write_result(f: &mut dyn Write, graph: &Graph, id: u32) -> fmt::Result {
    match graph.values.get(id as usize) {
        Some(spec) => write!(f, "%{id}: {spec}"),
        None => write!(f, "%{id}: ?"),
    }
}

/// Writes a node. Bodies are indented by `indent`, or left out if it is `None`.
fn write_node(f: &mut dyn Write, graph: &Graph, node: &Node, indent: Option<usize>) -> fmt::Result {
    // Cuts a range that exceeds the values: it may have any length.
    let outs = node.outs.clone().take(graph.values.len() + 1);
    for (i, id) in outs.enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_result(f, graph, id)?;
    }
    if node.outs.is_empty() {
        f.write_str("()")?;
    }
    write!(f, " = {}", node.op.name())?;
    if let Op::Custom(custom) = &node.op {
        write!(f, "<{}>", quote(custom.0.name()))?;
    }
    f.write_str("(")?;
    for (i, arg) in node.args.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write_arg(f, arg)?;
    }
    f.write_str(")")?;
    let attrs = node.op.attrs();
    for (i, (name, attr)) in attrs.iter().enumerate() {
        f.write_str(if i == 0 { " {" } else { ", " })?;
        write!(f, "{name}=")?;
        write_attr(f, attr, indent)?;
    }
    if !attrs.is_empty() {
        f.write_str("}")?;
    }
    match graph.scopes.get(node.scope.0 as usize) {
        Some(path) if !path.is_empty() => write!(f, " @ {}", quote(path)),
        _ => Ok(()),
    }
}

fn write_arg(f: &mut dyn Write, arg: &Arg) -> fmt::Result {
    match arg {
        Arg::Value(id) => write!(f, "%{}", id.0),
        Arg::Const(t) => match t.as_number() {
            Some(value) => write!(f, "{}:{}", Literal(value, t.dtype()), t.dtype()),
            None => write!(f, "const<{}>", t.spec()),
        },
    }
}

fn write_attr(f: &mut dyn Write, attr: &Attr, indent: Option<usize>) -> fmt::Result {
    match attr {
        Attr::Bool(v) => write!(f, "{v}"),
        Attr::Int(v) => write!(f, "{v}"),
        Attr::UInt(v) => write!(f, "{v}"),
        Attr::Float(v) => write!(f, "{}", Literal(Scalar::Float(*v), DType::F64)),
        Attr::Complex(re, im) => {
            write!(f, "{}", Literal(Scalar::Complex(*re, *im), DType::C128))
        }
        Attr::Word(word) => f.write_str(word),
        Attr::Text(text) => f.write_str(&quote(text)),
        Attr::Dim(dim) => write!(f, "{dim}"),
        Attr::List(list) => {
            let graphs = list.iter().any(|a| matches!(a, Attr::Graph(_)));
            f.write_str("[")?;
            for (i, attr) in list.iter().enumerate() {
                if i > 0 {
                    f.write_str(if graphs { ", " } else { "," })?;
                }
                write_attr(f, attr, indent)?;
            }
            f.write_str("]")
        }
        Attr::Graph(body) => match indent {
            Some(indent) => write_graph(f, body, indent),
            None => f.write_str("graph {…}"),
        },
    }
}

/// A number with as many digits as its dtype needs to round-trip.
struct Literal(Scalar, DType);

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let real = |f: &mut fmt::Formatter<'_>, v: Real| match v.0 {
            v if v.is_nan() => f.write_str("nan"),
            v if self.1.real() == DType::F64 => write!(f, "{v:?}"),
            // f16 and bf16 convert to f32 exactly.
            v => write!(f, "{:?}", v as f32),
        };
        match self.0.cast(self.1) {
            Scalar::Float(v) => real(f, v),
            Scalar::Complex(re, im) => {
                f.write_str("(")?;
                real(f, re)?;
                f.write_str(",")?;
                real(f, im)?;
                f.write_str(")")
            }
            other => write!(f, "{other}"),
        }
    }
}
