//! Builds the nodes of an ONNX graph and names their results.

use crate::onnx::tensor;
use crate::onnx::wire::Message;
use clematis_core::graph::{Arg, Graph, Node, ValueId};
use clematis_core::host::Host;
use clematis_core::trace::trace;
use clematis_core::{DType, Dim, Op, Result, Scalar, Shape, Spec, Tensor, bail};
use std::collections::HashMap;

/// An attribute of a node.
pub enum Attr<'a> {
    Int(&'a str, i64),
    Float(&'a str, f64),
    Text(&'a str, &'a str),
    Ints(&'a str, Vec<i64>),
    Body(&'a str, Message),
}

/// The graph under construction.
pub struct Emitter {
    /// The nodes of the current graph.
    pub nodes: Vec<Message>,
    /// Constants, all in the outermost graph: bodies see them.
    pub weights: Vec<(String, Host)>,
    /// Names of the graph's values.
    names: HashMap<u32, String>,
    constants: HashMap<(DType, String, Vec<i64>), String>,
    /// The input and axis that each symbolic size is read from.
    pub sizes: HashMap<String, (String, usize)>,
    /// Results that hold sizes, by the text of the size, in the current graph.
    pub counted: HashMap<String, String>,
    count: usize,
}

/// A `ValueInfoProto`.
pub fn value_info(name: &str, spec: &Spec) -> Message {
    let mut shape = Message::default();
    for dim in spec.shape.dims() {
        let mut size = Message::default();
        match dim.value() {
            Some(n) => size.int(1, n),
            None => size.put(2, dim.to_string()),
        };
        shape.message(1, &size);
    }
    let mut kind = Message::default();
    kind.int(1, tensor::code(spec.dtype)).message(2, &shape);
    let mut outer = Message::default();
    outer.message(1, &kind);
    let mut info = Message::default();
    info.put(1, name).message(2, &outer);
    info
}

fn attribute(attr: &Attr<'_>) -> Message {
    let mut out = Message::default();
    match attr {
        Attr::Int(name, x) => out.put(1, name).int(3, *x).int(20, 2),
        Attr::Float(name, x) => out.put(1, name).float(2, *x as f32).int(20, 1),
        Attr::Text(name, x) => out.put(1, name).put(4, x).int(20, 3),
        Attr::Ints(name, xs) => {
            out.put(1, name);
            for x in xs {
                out.int(8, *x);
            }
            out.int(20, 7)
        }
        Attr::Body(name, x) => out.put(1, name).message(6, x).int(20, 5),
    };
    out
}

impl Emitter {
    /// An empty graph.
    pub fn new() -> Self {
        Emitter {
            nodes: Vec::new(),
            weights: Vec::new(),
            names: HashMap::new(),
            constants: HashMap::new(),
            sizes: HashMap::new(),
            counted: HashMap::new(),
            count: 0,
        }
    }

    /// A unique name.
    pub fn fresh(&mut self) -> String {
        self.count += 1;
        format!("_{}", self.count)
    }

    /// Assigns a value of the graph its name.
    pub fn bind(&mut self, value: ValueId, name: &str) {
        self.names.insert(value.0, name.to_string());
    }

    /// Replaces the names by those of another graph, and returns the old ones.
    pub fn swap_names(&mut self, names: HashMap<u32, String>) -> HashMap<u32, String> {
        std::mem::replace(&mut self.names, names)
    }

    /// Records where symbolic sizes can be read.
    pub fn learn_sizes(&mut self, name: &str, spec: &Spec) {
        for (axis, dim) in spec.shape.dims().iter().enumerate() {
            if let Some(symbol) = dim.as_symbol() {
                self.sizes
                    .entry(symbol.to_string())
                    .or_insert_with(|| (name.to_string(), axis));
            }
        }
    }

    /// The name of an operand; a number becomes a constant.
    pub fn arg(&mut self, arg: &Arg) -> Result<String> {
        match arg {
            Arg::Value(id) => match self.names.get(&id.0) {
                Some(name) => Ok(name.clone()),
                None => bail!(Internal, "to_onnx: value {} has no name", id.0),
            },
            Arg::Const(x) => match x.as_number() {
                Some(value) => self.scalar(value, x.dtype()),
                None => bail!(
                    Internal,
                    "to_onnx: the graph captures a value from outside: {}",
                    x.spec()
                ),
            },
        }
    }

    /// A scalar constant.
    pub fn scalar(&mut self, value: Scalar, dtype: DType) -> Result<String> {
        self.constant(Host::scalar(value, dtype)?)
    }

    /// A float constant of this dtype.
    pub fn number(&mut self, value: f64, dtype: DType) -> Result<String> {
        self.scalar(value.into(), dtype)
    }

    /// A vector of integers.
    pub fn ints(&mut self, values: &[i64]) -> Result<String> {
        self.constant(Host::from_slice(values, [values.len()])?)
    }

    /// A constant.
    pub fn constant(&mut self, host: Host) -> Result<String> {
        let count = host.spec().shape.count();
        let key = (count <= 16).then(|| {
            let sizes = host
                .spec()
                .shape
                .dims()
                .iter()
                .map(|d| d.value().unwrap_or(0))
                .collect();
            (
                host.spec().dtype,
                format!("{:?}", host.bytes().as_slice::<u8>()),
                sizes,
            )
        });
        if let Some(name) = key.as_ref().and_then(|key| self.constants.get(key)) {
            return Ok(name.clone());
        }
        let name = self.fresh();
        self.weights.push((name.clone(), host));
        if let Some(key) = key {
            self.constants.insert(key, name.clone());
        }
        Ok(name)
    }

    /// Adds a node whose results already have names.
    pub fn op_to(&mut self, op: &str, inputs: &[&str], outputs: &[&str], attrs: &[Attr<'_>]) {
        let mut node = Message::default();
        for x in inputs {
            node.put(1, x);
        }
        for x in outputs {
            node.put(2, x);
        }
        node.put(3, format!("{op}_{}", self.nodes.len())).put(4, op);
        for attr in attrs {
            node.message(5, &attribute(attr));
        }
        self.nodes.push(node);
    }

    /// Adds a node with one result.
    pub fn op(&mut self, op: &str, inputs: &[&str]) -> String {
        self.op_with(op, inputs, &[])
    }

    /// Adds a node with one result and attributes.
    pub fn op_with(&mut self, op: &str, inputs: &[&str], attrs: &[Attr<'_>]) -> String {
        let out = self.fresh();
        self.op_to(op, inputs, &[&out], attrs);
        out
    }

    /// A cast.
    pub fn cast(&mut self, x: &str, to: DType) -> String {
        self.op_with("Cast", &[x], &[Attr::Int("to", tensor::code(to))])
    }

    /// A transpose, unless the order is the identity.
    pub fn transposed(&mut self, x: &str, order: &[usize]) -> String {
        if order.iter().enumerate().all(|(i, &a)| i == a) {
            return x.to_string();
        }
        let order = order.iter().map(|&a| a as i64).collect();
        self.op_with("Transpose", &[x], &[Attr::Ints("perm", order)])
    }

    /// A reshape.
    pub fn reshaped(&mut self, x: &str, to: &[Dim]) -> Result<String> {
        let shape = self.reshape_target(to)?;
        Ok(self.op_with(
            "Reshape",
            &[x, &shape],
            &[Attr::Int(
                "allowzero",
                i64::from(to.iter().any(|d| d.value() == Some(0))),
            )],
        ))
    }

    /// A node of the graph.
    pub fn node(&mut self, graph: &Graph, node: &Node) -> Result<()> {
        let args = node
            .args
            .iter()
            .map(|x| self.arg(x))
            .collect::<Result<Vec<String>>>()?;
        let specs: Vec<Spec> = node
            .args
            .iter()
            .map(|x| graph.arg_spec(x).clone())
            .collect();
        let outs: Vec<Spec> = node
            .outs
            .clone()
            .map(|i| graph.values[i as usize].clone())
            .collect();
        let call = Call {
            op: &node.op,
            args: &args,
            specs: &specs,
            outs: &outs,
        };
        let names = self.call(&call)?;
        if names.len() != outs.len() {
            bail!(
                Internal,
                "to_onnx: `{}`: expected {2} results, got {1}",
                node.op.name(),
                names.len(),
                outs.len()
            );
        }
        for (i, name) in node.outs.clone().zip(names) {
            self.names.insert(i, name);
        }
        Ok(())
    }

    fn call(&mut self, c: &Call<'_>) -> Result<Vec<String>> {
        let tries = [
            Emitter::pointwise,
            Emitter::shapes,
            Emitter::indices,
            Emitter::linear,
            Emitter::windows,
            Emitter::layers,
        ];
        for one in tries {
            if let Some(name) = one(self, c)? {
                return Ok(vec![name]);
            }
        }
        if let Some(names) = self.control(c)? {
            return Ok(names);
        }
        match c.op {
            Op::Call(_) | Op::Custom(_) => self.opened(c),
            other => bail!(
                Unsupported,
                "to_onnx: unsupported operator `{}`",
                other.name()
            ),
        }
    }

    /// The decomposition of a composite, inlined.
    fn opened(&mut self, c: &Call<'_>) -> Result<Vec<String>> {
        let inside = trace(c.specs, |xs| {
            Ok(c.op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
        })?;
        self.inlined(&inside.graph.prune(), c.args, &inside.captured)
    }

    /// Inlines the nodes of another graph on these operands; its last inputs are constants.
    pub fn inlined(
        &mut self,
        graph: &Graph,
        args: &[String],
        captured: &[Tensor],
    ) -> Result<Vec<String>> {
        let mut names = HashMap::new();
        let given = args.iter().cloned().map(Ok);
        let constants = captured.iter().map(|x| {
            let host = x.to_host()?;
            self.constant(host)
        });
        let all = given.chain(constants).collect::<Result<Vec<String>>>()?;
        for (input, name) in graph.inputs.iter().zip(all) {
            names.insert(input.value.0, name);
        }
        let outer = self.swap_names(names);
        let mut run = || -> Result<Vec<String>> {
            for node in &graph.nodes {
                self.node(graph, node)?;
            }
            graph.outputs.iter().map(|o| self.arg(&o.arg)).collect()
        };
        let outs = run();
        self.swap_names(outer);
        outs
    }
}

/// An op with its operands.
pub struct Call<'a> {
    pub op: &'a Op,
    pub args: &'a [String],
    pub specs: &'a [Spec],
    pub outs: &'a [Spec],
}

impl Call<'_> {
    /// Operand `i`.
    pub fn x(&self, i: usize) -> &str {
        self.args.get(i).map_or("", String::as_str)
    }

    /// The dtype of the first operand.
    pub fn dtype(&self) -> DType {
        self.specs.first().map_or(self.outs[0].dtype, |s| s.dtype)
    }

    /// The shape of operand `i`.
    pub fn shape(&self, i: usize) -> &Shape {
        &self.specs[i].shape
    }
}
