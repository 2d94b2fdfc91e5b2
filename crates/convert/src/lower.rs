//! Prints a graph as Python source in a framework's dialect.
//!
//! The source is a function of plain calls, one per op: `v7 = ops.reduce_sum(v6, axes=(1,))`, where `ops` is the dialect's
//! module. No number in it depends on the sizes of a call, so one source serves every batch, and the framework's own
//! compiler, exporter and autodiff see only the framework's functions. Composites that a dialect does not have are
//! decomposed; for those that it may decline, the decomposition is the fallback.

use crate::identifiers::{Identifiers, identifier, renamed};
use crate::literal::python_string;
use clematis_core::attr::Attr;
use clematis_core::graph::{Arg, Graph, Node};
use clematis_core::trace::trace;
use clematis_core::{DType, Op, Result, Scalar, Spec, Tensor, bail};
use std::collections::{HashMap, HashSet};

/// The properties of a dialect that printing depends on.
pub struct Dialect<'a> {
    /// Whether it has a function for an op.
    pub has: &'a dyn Fn(&Op) -> bool,
    /// Names of the functions that may return `NotImplemented`.
    pub refuses: &'a HashSet<String>,
    /// Names of the functions that accept Python numbers next to arrays.
    pub numbers: &'a HashSet<String>,
    /// Dtypes next to which a number has to be an array.
    pub numberless: &'a HashSet<String>,
    /// Whether 64-bit dtypes have to be enabled with `in_64`.
    pub asks_for_64: bool,
    /// Whether a size may be unknown while the framework traces, so that a reshape should not read it.
    pub dynamic_sizes: bool,
    /// Whether scalar results have to become arrays with `scalar_to_array`.
    pub wraps_scalars: bool,
}

/// The source of a function `name(ops, *inputs)` that returns a tuple.
pub fn lower(graph: &Graph, name: &str, dialect: &Dialect<'_>) -> Result<String> {
    let mut names = Identifiers::python();
    // Values are `v` and a number, functions of bodies begin with an underscore.
    names.reserve_numbered("v");
    names.reserve(["ops", "out", name]);
    let mut printer = Printer {
        dialect,
        names,
        sizes: HashMap::new(),
        depth: 0,
        count: 0,
    };
    printer.function(graph, name)
}

/// Whether the decomposition of an op contains constant tensors, such as the weights of a resize.
fn holds_tensors(graph: &Graph, node: &Node) -> Result<bool> {
    if !matches!(node.op, Op::Call(_)) {
        return Ok(false);
    }
    let specs: Vec<Spec> = node
        .args
        .iter()
        .map(|x| graph.arg_spec(x).clone())
        .collect();
    let inside = trace(&specs, |xs| {
        Ok(node.op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
    })?;
    Ok(!inside.captured.is_empty())
}

/// Decomposes the ops that contain constant tensors, which become the graph's last inputs; returns their values too.
pub fn without_held(graph: &Graph) -> Result<(Graph, Vec<Tensor>)> {
    graph.inlined(|node| holds_tensors(graph, node))
}

struct Printer<'a> {
    dialect: &'a Dialect<'a>,
    /// The names of the outermost function and of all inside it.
    names: Identifiers,
    /// The names of the symbolic sizes that the enclosing functions have read.
    sizes: HashMap<String, String>,
    /// The nesting depth of the current function: bodies are nested functions, which see symbolic sizes.
    depth: usize,
    count: usize,
}

impl Printer<'_> {
    fn line(&self, words: &str) -> String {
        format!("{}{words}\n", "    ".repeat(self.depth))
    }

    fn function(&mut self, graph: &Graph, name: &str) -> Result<String> {
        let inputs: Vec<String> = graph
            .inputs
            .iter()
            .map(|i| format!(", v{}", i.value.0))
            .collect();
        let mut text = self.line(&format!("def {name}(ops{}):", inputs.concat()));
        self.depth += 1;
        let around = self.sizes.clone();
        self.read_sizes(graph, &mut text);
        for node in &graph.nodes {
            text.push_str(&self.node(graph, node)?);
        }
        let outs = graph.outputs.iter().map(|o| self.operand(&o.arg, false));
        let outs = listed(&outs.collect::<Result<Vec<_>>>()?);
        text.push_str(&self.line(&format!("return {outs}")));
        self.depth -= 1;
        self.sizes = around;
        Ok(text)
    }

    /// Lines that read symbolic sizes from the shapes of inputs.
    fn read_sizes(&mut self, graph: &Graph, text: &mut String) {
        for input in &graph.inputs {
            for (axis, dim) in graph.spec(input.value).shape.dims().iter().enumerate() {
                if let Some(symbol) = dim.as_symbol()
                    && !self.sizes.contains_key(&*symbol)
                {
                    let name = self.names.allocate(symbol.trim_start_matches('_'), "size");
                    let line = format!("{name} = ops.size(v{}, {axis})", input.value.0);
                    text.push_str(&self.line(&line));
                    self.sizes.insert(symbol.to_string(), name);
                }
            }
        }
    }

    fn node(&mut self, graph: &Graph, node: &Node) -> Result<String> {
        let outs: Vec<String> = node.outs.clone().map(|i| format!("v{i}")).collect();
        let targets = outs.join(", ");
        // Ops that run bodies return a tuple, also of a single result.
        if !(self.dialect.has)(&node.op) {
            let (mut text, call) = self.opened(graph, node)?;
            text.push_str(&self.line(&format!("{targets}, = {call}")));
            return Ok(text);
        }
        let call = self.call(graph, node)?;
        let may_refuse =
            matches!(node.op, Op::Call(_)) && self.dialect.refuses.contains(node.op.name());
        let mut text = if may_refuse {
            let (mut text, other) = self.opened(graph, node)?;
            text.push_str(&self.line(&format!("out = {call}")));
            let tuple = if outs.len() == 1 { "(out,)" } else { "out" };
            let chosen = format!("{targets}, = {other} if out is NotImplemented else {tuple}");
            text.push_str(&self.line(&chosen));
            text
        } else {
            let comma = if outs.len() == 1 { "" } else { "," };
            self.line(&format!("{targets}{comma} = {call}"))
        };
        if self.dialect.wraps_scalars {
            for (i, out) in node.outs.clone().zip(&outs) {
                if graph.values[i as usize].rank() == 0 {
                    text.push_str(&self.line(&format!("{out} = ops.scalar_to_array({out})")));
                }
            }
        }
        Ok(text)
    }

    /// A call of the dialect's function.
    fn call(&mut self, graph: &Graph, node: &Node) -> Result<String> {
        let name = node.op.name();
        let beside_arrays = node.args.iter().any(|x| !matches!(x, Arg::Const(_)));
        let mut parts = Vec::new();
        let mut specs: Vec<&Spec> = node
            .outs
            .clone()
            .map(|i| &graph.values[i as usize])
            .collect();
        for arg in &node.args {
            let spec = graph.arg_spec(arg);
            specs.push(spec);
            let plain = beside_arrays
                && self.dialect.numbers.contains(name)
                && !self.dialect.numberless.contains(spec.dtype.name())
                // Frameworks that build graphs take a weakly typed first operand for Python's default dtype.
                && !(self.dialect.dynamic_sizes && parts.is_empty());
            parts.push(self.operand(arg, plain)?);
        }
        let wide = self.dialect.asks_for_64 && specs.iter().any(|s| is_wide(s.dtype));
        for (key, attr) in node.op.attrs() {
            let value = match (&node.op, &attr) {
                (Op::Reshape(_), Attr::List(sizes)) if self.dialect.dynamic_sizes => {
                    self.literal(&with_rest(sizes))?
                }
                _ => self.literal(&attr)?,
            };
            parts.push(format!("{key}={value}"));
        }
        Ok(match wide {
            true => format!("ops.in_64(ops.{name}, {})", parts.join(", ")),
            false => format!("ops.{name}({})", parts.join(", ")),
        })
    }

    /// Functions for the decomposition or the bodies of an op, and the call that runs them.
    fn opened(&mut self, graph: &Graph, node: &Node) -> Result<(String, String)> {
        let args: Vec<String> = node
            .args
            .iter()
            .map(|x| self.operand(x, false))
            .collect::<Result<_>>()?;
        let mut text = String::new();
        let call = match &node.op {
            Op::Custom(c) if c.0.has_vjp() || c.0.has_jvp() => {
                bail!(
                    Unsupported,
                    "lower: `{}` has a custom derivative, which source code cannot hold",
                    node.op.name()
                )
            }
            Op::Call(_) | Op::Custom(_) => {
                let specs: Vec<Spec> = node
                    .args
                    .iter()
                    .map(|x| graph.arg_spec(x).clone())
                    .collect();
                let inside = trace(&specs, |xs| {
                    Ok(node.op.expand(&xs.iter().collect::<Vec<_>>())?.into_vec())
                })?;
                if !inside.captured.is_empty() {
                    bail!(
                        Unsupported,
                        "lower: the decomposition of `{}` contains constant tensors",
                        node.op.name()
                    );
                }
                let name = self.body(&inside.graph.prune(), node.op.name(), &mut text)?;
                let args: Vec<String> = args.iter().map(|x| format!(", {x}")).collect();
                format!("{name}(ops{})", args.concat())
            }
            Op::Cond(p) => {
                let names = p.branches.iter().map(|b| self.body(b, "branch", &mut text));
                let names = names.collect::<Result<Vec<_>>>()?;
                format!(
                    "ops.run_cond(ops, {}, {}, {})",
                    args[0],
                    listed(&names),
                    listed(&args[1..])
                )
            }
            Op::While(p) => {
                let (test, body) = (
                    self.body(&p.test, "test", &mut text)?,
                    self.body(&p.body, "body", &mut text)?,
                );
                let (a, rest) = args.split_at(p.test_consts);
                let (b, start) = rest.split_at(p.body_consts);
                format!(
                    "ops.run_while(ops, {test}, {body}, {}, {}, {})",
                    listed(a),
                    listed(b),
                    listed(start)
                )
            }
            Op::Scan(p) => {
                let body = self.body(&p.body, "body", &mut text)?;
                let (consts, rest) = args.split_at(p.consts);
                let (start, rows) = rest.split_at(p.carries);
                let length = self.literal(&Attr::Dim(p.length))?;
                let reverse = if p.reverse { "True" } else { "False" };
                let parts = [consts, start, rows].map(listed).join(", ");
                format!("ops.run_scan(ops, {body}, {parts}, {length}, {reverse})")
            }
            other => bail!(
                Unsupported,
                "lower: unsupported operator `{}` in the dialect",
                other.name()
            ),
        };
        Ok((text, call))
    }

    fn body(&mut self, graph: &Graph, word: &str, text: &mut String) -> Result<String> {
        self.count += 1;
        let name = format!("_{}_{}", identifier(word, "body"), self.count);
        text.push_str(&self.function(graph, &name)?);
        Ok(name)
    }

    fn operand(&self, arg: &Arg, plain: bool) -> Result<String> {
        let x = match arg {
            Arg::Value(id) => return Ok(format!("v{}", id.0)),
            Arg::Const(x) => x,
        };
        let Some(value) = x.as_number() else {
            bail!(
                Internal,
                "lower: the graph captures a value from outside: {}",
                x.spec()
            );
        };
        if plain {
            return Ok(number(value));
        }
        Ok(self.scalar(value, x))
    }

    fn scalar(&self, value: Scalar, x: &Tensor) -> String {
        let dtype = x.dtype();
        let parts = format!(
            "value={}, dtype=ops.DTYPES[\"{}\"], shape=()",
            number(value),
            dtype.name()
        );
        match self.dialect.asks_for_64 && is_wide(dtype) {
            true => format!("ops.in_64(ops.full, {parts})"),
            false => format!("ops.full({parts})"),
        }
    }

    fn literal(&self, attr: &Attr) -> Result<String> {
        Ok(match attr {
            Attr::Bool(v) => if *v { "True" } else { "False" }.into(),
            Attr::Int(v) => v.to_string(),
            Attr::UInt(v) => v.to_string(),
            Attr::Float(v) => real(v.0),
            Attr::Complex(re, im) => format!("complex({}, {})", real(re.0), real(im.0)),
            Attr::Word(w) if w == "none" => "None".into(),
            Attr::Word(w) => match w.parse::<DType>() {
                Ok(d) => format!("ops.DTYPES[\"{}\"]", d.name()),
                Err(_) => python_string(w),
            },
            Attr::Text(w) => python_string(w),
            Attr::Dim(d) => {
                if let Some(name) = d
                    .symbols()
                    .iter()
                    .find(|name| !self.sizes.contains_key(&***name))
                {
                    bail!(
                        Unsupported,
                        "lower: no input has an axis of the symbolic size `{name}`, which {d} is computed from"
                    );
                }
                renamed(&d.to_string(), &|word| self.sizes.get(word).cloned())
            }
            Attr::List(items) => {
                let items = items.iter().map(|item| self.literal(item));
                listed(&items.collect::<Result<Vec<_>>>()?)
            }
            Attr::Graph(_) => bail!(Internal, "lower: a body among parameters"),
        })
    }
}

fn listed(xs: &[String]) -> String {
    match xs {
        [] => "()".to_string(),
        _ => format!("({},)", xs.join(", ")),
    }
}

fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::U64 | DType::I64 | DType::F64 | DType::C128)
}

/// Sizes for a reshape: a symbolic one may be -1, which the framework infers.
fn with_rest(sizes: &[Attr]) -> Attr {
    let named = sizes.iter().filter(|s| matches!(s, Attr::Dim(_))).count();
    // A size of zero would leave -1 ambiguous.
    if named != 1 || sizes.iter().any(|s| *s == Attr::Int(0)) {
        return Attr::List(sizes.to_vec());
    }
    let size = |s: &Attr| {
        if matches!(s, Attr::Dim(_)) {
            Attr::Int(-1)
        } else {
            s.clone()
        }
    };
    Attr::List(sizes.iter().map(size).collect())
}

fn real(x: f64) -> String {
    if x.is_nan() {
        "float(\"nan\")".into()
    } else if x.is_infinite() {
        format!("float(\"{}inf\")", if x < 0.0 { "-" } else { "" })
    } else {
        format!("{x:?}")
    }
}

fn number(value: Scalar) -> String {
    match value {
        Scalar::Bool(v) => if v { "True" } else { "False" }.into(),
        Scalar::Int(v) => v.to_string(),
        Scalar::UInt(v) => v.to_string(),
        Scalar::Float(v) => real(v.0),
        Scalar::Complex(re, im) => format!("complex({}, {})", real(re.0), real(im.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clematis_core::{Dim, Shape, ops};

    #[test]
    fn a_graph_reads_as_plain_calls() {
        let batch = Dim::symbol("b").expect("a name");
        let x = Spec::new(DType::F32, Shape::from_dims([batch, 3.into()]));
        let w = Spec::new(DType::F32, Shape::from_sizes(&[2, 3]));
        let graph = trace(&[x, w], |xs| {
            let y = ops::linear(&xs[0], &xs[1], None) * 2.0;
            Ok(vec![
                ops::softmax(ops::reshape(y, Shape::from_dims([batch * 2.into()])), 0).done()?,
            ])
        })
        .expect("it traces")
        .graph;
        let names = |words: &[&str]| words.iter().map(|w| w.to_string()).collect();
        let (refuses, numbers, numberless) = (names(&["softmax"]), names(&["mul"]), names(&[]));
        let dialect = Dialect {
            has: &|_| true,
            refuses: &refuses,
            numbers: &numbers,
            numberless: &numberless,
            asks_for_64: false,
            dynamic_sizes: true,
            wraps_scalars: false,
        };
        let text = lower(&graph, "forward", &dialect).expect("it prints");
        for line in [
            "def forward(ops, v0, v1):",
            "    b = ops.size(v0, 0)",
            "    v2 = ops.linear(v0, v1)",
            "    v3 = ops.mul(v2, 2.0)",
            "    v4 = ops.reshape(v3, shape=(-1,))",
            "    def _softmax_1(ops, v0):",
            "    out = ops.softmax(v4, axis=0)",
            "    v5, = _softmax_1(ops, v4) if out is NotImplemented else (out,)",
            "    return (v5,)",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
