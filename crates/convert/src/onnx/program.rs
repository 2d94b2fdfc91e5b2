//! An ONNX model as a captured program: names become values; bodies and model-local functions become nested programs.

use super::proto::{
    Attribute, Function, Graph, Model, Node, Size, Tensor, Value, ValueInfo, version,
};
use super::tensor;
use crate::captured::{CapturedSpec, Input, Node as Step, Output, Program};
use crate::identifiers::{Identifiers, TreePaths};
use clematis_core::host::Host;
use clematis_core::{Category, DType, Result, bail};
use serde_json::{Map, Value as Json, json};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// The maximum depth of nested function calls.
const DEPTH: usize = 24;
/// The maximum number of nodes.
const STEPS: usize = 1 << 20;
/// Values of up to this many elements that are not weights stay known to the rules.
const SMALL: usize = 4096;

/// Options that complete a model.
#[derive(Clone, Default)]
pub struct Options {
    /// Values of inputs that are the same at every call.
    pub values: HashMap<String, Host>,
    /// Values of symbolic sizes.
    pub sizes: HashMap<String, i64>,
}

/// An initializer of a model.
pub struct Initializer {
    /// Its path in our modules.
    pub path: String,
    /// Its role, as `clematis_core::graph::Role` spells it.
    pub role: &'static str,
    /// The value.
    pub host: Host,
}

/// A model as a captured program.
pub struct Source {
    /// Inputs: the initializers, then the call's inputs.
    pub program: Program,
    /// The values of the program's first inputs.
    pub held: Vec<Initializer>,
    /// Values that rules can read, by their names in the program.
    pub known: Vec<(String, Host)>,
    /// Names of the call's inputs.
    pub inputs: Vec<String>,
    /// Names of the outputs.
    pub outputs: Vec<String>,
}

/// Converts a model to a program; external data must be in or below `folder`.
pub fn read(model: &Model<'_>, folder: Option<&Path>, options: &Options) -> Result<Source> {
    let mut builder = Builder {
        functions: model
            .functions
            .iter()
            .map(|f| ((f.domain, f.name), f))
            .collect(),
        folder,
        known: Vec::new(),
        steps: 0,
        most: most_steps(model),
        low_precision: HashMap::new(),
        hosts: HashMap::new(),
    };
    let graph = &model.graph;
    distinct(graph)?;
    let types = graph.inputs.iter().map(|x| (x.name, x.dtype));
    for (name, code) in types.chain(graph.initializers.iter().map(|x| (x.name, x.dtype))) {
        builder.mark_low_precision(name, code);
    }
    let uses = uses(graph);
    let given: HashSet<&str> = graph.initializers.iter().map(|x| x.name).collect();
    let (mut inputs, mut held, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let mut paths = TreePaths::default();
    let sizes = Sizes::of(graph, options);
    for x in &graph.initializers {
        let host = match options.values.get(x.name) {
            Some(host) => host.clone(),
            None => tensor::host(x, folder)?,
        };
        match role(x.name, &host, &uses) {
            None => builder.known.push((x.name.to_string(), host)),
            Some(role) => {
                let path = paths.add(x.name);
                inputs.push(Input {
                    name: x.name.to_string(),
                    role: role.to_string(),
                    path: path.clone(),
                    spec: CapturedSpec {
                        dtype: host.spec().dtype.name().to_string(),
                        shape: x.dims.iter().map(|&n| json!(n)).collect(),
                    },
                });
                held.push(Initializer { path, role, host });
            }
        }
    }
    for input in graph.inputs.iter().filter(|x| !given.contains(x.name)) {
        if let Some(host) = options.values.get(input.name) {
            let wanted = tensor::dtype(input.dtype)?;
            if host.spec().dtype != wanted {
                bail!(
                    Convert,
                    "onnx: input `{}` is {wanted}, got the value {}",
                    input.name,
                    host.spec()
                );
            }
            builder.known.push((input.name.to_string(), host.clone()));
            continue;
        }
        names.push(input.name.to_string());
        inputs.push(Input {
            name: input.name.to_string(),
            role: "input".to_string(),
            path: String::new(),
            spec: spec(input, &sizes)?,
        });
    }
    let strange = options
        .values
        .keys()
        .find(|name| !graph.inputs.iter().any(|x| x.name == **name));
    if let Some(name) = strange {
        bail!(
            Value,
            "onnx: no input is called `{name}`; there are: {}",
            names.join(", ")
        );
    }
    let place = Place {
        opsets: &model.opsets,
        parameters: None,
        depth: 0,
    };
    let mut scope = Scope::default();
    let nodes = builder.nodes(&graph.nodes, &place, &mut scope)?;
    let outputs = graph.outputs.iter().map(|x| Output {
        value: json!({ "v": x.name }),
        updates: None,
    });
    let program = Program {
        inputs,
        nodes,
        outputs: outputs.collect(),
    };
    Ok(Source {
        program,
        held,
        known: builder.known,
        inputs: names,
        outputs: graph.outputs.iter().map(|x| x.name.to_string()).collect(),
    })
}

/// Dtype and shape of an input; sizes without a name get one from the input and axis.
fn spec(x: &ValueInfo<'_>, sizes: &Sizes<'_>) -> Result<CapturedSpec> {
    if let Some(other) = x.other {
        bail!(
            Unsupported,
            "onnx: expected input `{}` to be a tensor, got {other}",
            x.name
        );
    }
    let dtype = tensor::dtype(x.dtype).map_err(|e| e.note(format!("in input `{}`", x.name)))?;
    let Some(shape) = &x.shape else {
        bail!(
            Unsupported,
            "onnx: input `{}` has no shape; give its value",
            x.name
        );
    };
    let size = |(axis, size): (usize, &Size<'_>)| match size {
        Size::Known(n) if *n >= 0 => Ok(json!(n)),
        Size::Known(n) => bail!(Convert, "onnx: input `{}` has an axis of size {n}", x.name),
        Size::Named(name) => Ok(sizes.json(name)),
        Size::Open => Ok(sizes.json(&unnamed_size(x.name, axis))),
    };
    Ok(CapturedSpec {
        dtype: dtype.name().to_string(),
        shape: shape.iter().enumerate().map(size).collect::<Result<_>>()?,
    })
}

/// The name of an axis whose size has none.
fn unnamed_size(input: &str, axis: usize) -> String {
    format!("{input}_{axis}")
}

/// Words reserved by the core among the names of symbolic sizes, in addition to Python's.
const SIZE_WORDS: [&str; 8] = ["max", "min", "true", "false", "none", "inf", "nan", "graph"];

/// Our names of symbolic sizes: sizes with different names in the model stay different.
struct Sizes<'a> {
    words: HashMap<String, String>,
    options: &'a Options,
}

impl<'a> Sizes<'a> {
    fn of(graph: &Graph<'_>, options: &'a Options) -> Self {
        let mut found: Vec<String> = Vec::new();
        for input in &graph.inputs {
            for (axis, size) in input.shape.iter().flatten().enumerate() {
                found.push(match size {
                    Size::Named(name) => name.to_string(),
                    Size::Open => unnamed_size(input.name, axis),
                    Size::Known(_) => continue,
                });
            }
        }
        let mut seen = HashSet::new();
        found.retain(|name| seen.insert(name.clone()));
        let mut names = Identifiers::default();
        names.reserve(SIZE_WORDS);
        let texts: Vec<&str> = found.iter().map(String::as_str).collect();
        let words = names.allocate_all(&texts, "n");
        Sizes {
            words: found.into_iter().zip(words).collect(),
            options,
        }
    }

    /// A symbolic size as an expression that the importer can parse.
    fn json(&self, name: &str) -> Json {
        match (self.options.sizes.get(name), self.words.get(name)) {
            (Some(n), _) => json!(n),
            (None, Some(word)) => json!(word),
            (None, None) => json!("n"),
        }
    }
}

/// The maximum number of nodes after function calls are expanded: functions that call each other twice grow
/// exponentially.
fn most_steps(model: &Model<'_>) -> usize {
    let inside = model.functions.iter().map(|f| f.nodes.len());
    let written = model.graph.nodes.len() + inside.sum::<usize>();
    written.saturating_mul(64).saturating_add(4096)
}

/// Checks that inputs, outputs and initializers have distinct names among their own kind.
fn distinct(graph: &Graph<'_>) -> Result<()> {
    let inputs: Vec<&str> = graph.inputs.iter().map(|x| x.name).collect();
    let outputs: Vec<&str> = graph.outputs.iter().map(|x| x.name).collect();
    let held: Vec<&str> = graph.initializers.iter().map(|x| x.name).collect();
    for (what, names) in [
        ("inputs", inputs),
        ("outputs", outputs),
        ("initializers", held),
    ] {
        let mut seen = HashSet::new();
        if let Some(name) = names.iter().find(|name| !seen.insert(**name)) {
            bail!(
                Convert,
                "onnx: expected {what} with distinct names, got `{name}` twice"
            );
        }
    }
    Ok(())
}

/// The uses of each name: the op and the operand index.
fn uses<'a>(graph: &Graph<'a>) -> HashMap<&'a str, Vec<(&'a str, usize)>> {
    let mut found: HashMap<_, Vec<_>> = HashMap::new();
    for node in &graph.nodes {
        for (i, name) in node.inputs.iter().enumerate() {
            found.entry(*name).or_default().push((node.op, i));
        }
    }
    found
}

/// The role of an initializer; `None` if rules may read its value.
fn role(name: &str, host: &Host, uses: &HashMap<&str, Vec<(&str, usize)>>) -> Option<&'static str> {
    let spec = host.spec();
    let count = spec.shape.count();
    let used = uses.get(name).map_or(&[][..], Vec::as_slice);
    let any = |ops: &[&str], from: usize| used.iter().any(|(op, i)| ops.contains(op) && *i >= from);
    let float = spec.dtype.category() == Category::Float;
    if float && any(&["BatchNormalization"], 3) {
        return Some("state");
    }
    let looked_at = any(
        &["Resize", "Upsample", "Clip", "Dropout", "Range", "Pad"],
        1,
    ) && count <= SMALL;
    let layers = [
        "Conv",
        "ConvTranspose",
        "Gemm",
        "MatMul",
        "LSTM",
        "GRU",
        "RNN",
        "BatchNormalization",
        "LayerNormalization",
        "InstanceNormalization",
        "GroupNormalization",
        "RMSNormalization",
        "PRelu",
    ];
    if float && !looked_at && (any(&layers, 1) || count > 1) {
        return Some("param");
    }
    (count > SMALL).then_some("constant")
}

/// The scope of nodes.
struct Place<'a> {
    opsets: &'a [(&'a str, i64)],
    /// Inside a function: the call's attributes, then the function's defaults.
    parameters: Option<(&'a [Attribute<'a>], &'a [Attribute<'a>], &'a Place<'a>)>,
    depth: usize,
}

/// Names defined here, and names captured from outside.
#[derive(Default)]
struct Scope {
    made: HashSet<String>,
    free: Vec<String>,
}

impl Scope {
    fn uses(&mut self, name: &str) {
        if !self.made.contains(name) && !self.free.iter().any(|f| f == name) {
            self.free.push(name.to_string());
        }
    }
}

struct Builder<'a> {
    functions: HashMap<(&'a str, &'a str), &'a Function<'a>>,
    folder: Option<&'a Path>,
    known: Vec<(String, Host)>,
    steps: usize,
    /// The maximum number of nodes.
    most: usize,
    /// Constants by the address of their bytes: a function's constants are shared by its calls.
    hosts: HashMap<(usize, usize), Host>,
    /// Values of low-precision dtypes, with the dtype code.
    low_precision: HashMap<String, i64>,
}

/// Ops that preserve the dtype of their first operand, and often occur between an op that rounds and one that
/// needs the dtype.
const SAME_TYPE: [&str; 6] = [
    "Identity",
    "Reshape",
    "Transpose",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
];

impl Builder<'_> {
    fn mark_low_precision(&mut self, name: &str, code: i64) {
        if super::low_precision::low_precision(code).is_some() {
            self.low_precision.insert(name.to_string(), code);
        }
    }

    /// The value of a constant; one that was read before shares its memory.
    fn host(&mut self, x: &Tensor<'_>) -> Result<Host> {
        let Some(raw) = x.raw.filter(|raw| raw.len() > 64) else {
            return tensor::host(x, self.folder);
        };
        let key = (raw.as_ptr() as usize, raw.len());
        if let Some(known) = self.hosts.get(&key)
            && tensor::spec(x)? == *known.spec()
        {
            return Ok(known.clone());
        }
        let host = tensor::host(x, self.folder)?;
        self.hosts.insert(key, host.clone());
        Ok(host)
    }

    /// The low-precision dtype code of a node's result; 0 for none.
    fn low_precision_result(&self, node: &Node<'_>) -> i64 {
        let of = |i: usize| {
            node.inputs
                .get(i)
                .and_then(|name| self.low_precision.get(*name))
        };
        let given = |name: &str| match node.attributes.iter().find(|x| x.name == name) {
            Some(Attribute {
                value: Value::Int(code),
                ..
            }) => Some(*code),
            _ => None,
        };
        let code = match node.op {
            "Cast" => given("to"),
            "CastLike" => of(1).copied(),
            "QuantizeLinear" => of(2).copied().or_else(|| given("output_dtype")),
            op if SAME_TYPE.contains(&op) => of(0).copied(),
            _ => None,
        };
        code.unwrap_or(0)
    }
    fn nodes(
        &mut self,
        nodes: &[Node<'_>],
        place: &Place<'_>,
        scope: &mut Scope,
    ) -> Result<Vec<Step>> {
        let mut out = Vec::new();
        for node in nodes {
            self.steps += 1;
            if self.steps > STEPS || place.depth > 0 && self.steps > self.most {
                let most = if self.steps > STEPS { STEPS } else { self.most };
                bail!(
                    Convert,
                    "onnx: expected at most {most} nodes with the calls of functions expanded, got {} and more",
                    self.steps
                );
            }
            self.node(node, place, scope, &mut out)?;
        }
        Ok(out)
    }

    fn node(
        &mut self,
        node: &Node<'_>,
        place: &Place<'_>,
        scope: &mut Scope,
        out: &mut Vec<Step>,
    ) -> Result<()> {
        let mut args: Vec<Json> = Vec::new();
        for name in &node.inputs {
            args.push(value(name, scope));
        }
        let wanted = node
            .outputs
            .iter()
            .rposition(|x| !x.is_empty())
            .map_or(0, |i| i + 1);
        let mut kwargs = Map::new();
        kwargs.insert("&outputs".into(), json!(wanted));
        let function = self.functions.get(&(node.domain, node.op)).copied();
        let (op, variant) = match function {
            Some(function) => {
                let body = self.called(function, node, place, scope, &mut args)?;
                kwargs.insert("body".into(), body);
                ("&call".to_string(), String::new())
            }
            None => {
                for attribute in &node.attributes {
                    self.attribute(attribute, place, scope, &mut kwargs)?;
                }
                let dtype = self.low_precision_result(node);
                if super::low_precision::low_precision(dtype).is_some() {
                    kwargs.insert("&low_precision".into(), json!(dtype));
                    if let Some(name) = node.outputs.first() {
                        self.mark_low_precision(name, dtype);
                    }
                }
                let main = node.domain.is_empty() || node.domain == "ai.onnx";
                let op = if main {
                    node.op.to_string()
                } else {
                    format!("{}::{}", node.domain, node.op)
                };
                (
                    op,
                    version(place.opsets, node.domain).unwrap_or(1).to_string(),
                )
            }
        };
        let single = wanted == 1 && op != "&call";
        let result = match node.outputs.first() {
            Some(name) if single => name.to_string(),
            _ => format!("&{}", self.steps),
        };
        out.push(step(&op, &variant, args, kwargs, &result, node.name));
        if single {
            scope.made.insert(result);
            return Ok(());
        }
        for (i, name) in node
            .outputs
            .iter()
            .enumerate()
            .filter(|(_, name)| !name.is_empty())
        {
            let args = vec![json!({ "v": result }), json!(i)];
            out.push(step("getitem", "", args, Map::new(), name, ""));
            scope.made.insert(name.to_string());
        }
        Ok(())
    }

    fn attribute(
        &mut self,
        x: &Attribute<'_>,
        place: &Place<'_>,
        scope: &mut Scope,
        kwargs: &mut Map<String, Json>,
    ) -> Result<()> {
        if !x.reference.is_empty() {
            let Some((given, own, outside)) = place.parameters else {
                bail!(
                    Convert,
                    "onnx: attribute `{}` refers to a function attribute outside of a function",
                    x.name
                );
            };
            let found = |list: &[Attribute<'_>]| list.iter().position(|y| y.name == x.reference);
            let (value, place) = match (found(given), found(own)) {
                (Some(i), _) => (&given[i], outside),
                (None, Some(i)) => (&own[i], place),
                (None, None) => return Ok(()),
            };
            if place.depth > DEPTH {
                bail!(Convert, "onnx: functions call each other without end");
            }
            let renamed = Attribute {
                name: x.name,
                ..value.clone()
            };
            return self.attribute(&renamed, place, scope, kwargs);
        }
        let text = |bytes: &[u8]| json!(String::from_utf8_lossy(bytes));
        let json = match &x.value {
            Value::Float(v) => float(*v),
            Value::Int(v) => json!(v),
            Value::Text(v) => text(v),
            Value::Floats(v) => v.iter().map(|v| float(*v)).collect(),
            Value::Ints(v) => json!(v),
            Value::Texts(v) => v.iter().map(|v| text(v)).collect(),
            Value::Tensor(v) => {
                let name = format!("&value{}", self.known.len());
                let host = self.host(v)?;
                self.known.push((name.clone(), host));
                value(&name, scope)
            }
            Value::Graph(v) => {
                let (body, captured) = self.body(v, place)?;
                let outside: Json = captured.iter().map(|name| value(name, scope)).collect();
                kwargs.insert(format!("&{}", x.name), outside);
                body
            }
            Value::Unknown => bail!(
                Unsupported,
                "onnx: unsupported type of attribute `{}`",
                x.name
            ),
        };
        if kwargs.insert(x.name.to_string(), json).is_some() {
            bail!(
                Convert,
                "onnx: expected attributes with distinct names, got `{}` twice",
                x.name
            );
        }
        Ok(())
    }

    /// A body as a program whose last inputs are the values it captures.
    fn body(&mut self, graph: &Graph<'_>, place: &Place<'_>) -> Result<(Json, Vec<String>)> {
        let mut scope = Scope::default();
        scope
            .made
            .extend(graph.inputs.iter().map(|x| x.name.to_string()));
        let mut renamed = Vec::new();
        for x in &graph.initializers {
            // Other bodies may use the same name, so it gets a unique one.
            let name = format!("&value{}", self.known.len());
            let host = self.host(x)?;
            self.known.push((name.clone(), host));
            renamed.push(step(
                "Identity",
                "13",
                vec![value(&name, &mut scope)],
                Map::new(),
                x.name,
                "",
            ));
            scope.made.insert(x.name.to_string());
        }
        let mut nodes = self.nodes(&graph.nodes, place, &mut scope)?;
        renamed.append(&mut nodes);
        let outputs: Vec<Json> = graph
            .outputs
            .iter()
            .map(|x| value(x.name, &mut scope))
            .collect();
        let inputs = graph
            .inputs
            .iter()
            .map(|x| x.name)
            .filter(|name| !renamed.iter().any(|s| s.out == **name));
        let names: Vec<String> = inputs
            .map(String::from)
            .chain(scope.free.iter().cloned())
            .collect();
        Ok((written(&names, &renamed, &outputs), scope.free))
    }

    /// The body of a model-local function, for this call.
    fn called(
        &mut self,
        function: &Function<'_>,
        node: &Node<'_>,
        place: &Place<'_>,
        scope: &mut Scope,
        args: &mut Vec<Json>,
    ) -> Result<Json> {
        if place.depth >= DEPTH {
            bail!(Convert, "onnx: function `{}` calls itself", function.name);
        }
        let inside = Place {
            opsets: if function.opsets.is_empty() {
                place.opsets
            } else {
                &function.opsets
            },
            parameters: Some((&node.attributes, &function.defaults, place)),
            depth: place.depth + 1,
        };
        let mut own = Scope::default();
        own.made
            .extend(function.inputs.iter().map(|x| x.to_string()));
        let nodes = self.nodes(&function.nodes, &inside, &mut own)?;
        let outputs: Vec<Json> = function
            .outputs
            .iter()
            .map(|x| value(x, &mut own))
            .collect();
        args.resize(function.inputs.len(), Json::Null);
        args.extend(own.free.iter().map(|name| value(name, scope)));
        let names: Vec<String> = function
            .inputs
            .iter()
            .map(|x| x.to_string())
            .chain(own.free)
            .collect();
        Ok(written(&names, &nodes, &outputs))
    }
}

fn value(name: &str, scope: &mut Scope) -> Json {
    if name.is_empty() {
        return Json::Null;
    }
    scope.uses(name);
    json!({ "v": name })
}

fn float(x: f32) -> Json {
    match serde_json::Number::from_f64(f64::from(x)) {
        Some(x) => Json::Number(x),
        None => json!({ "f": x.to_string() }),
    }
}

fn step(
    op: &str,
    variant: &str,
    args: Vec<Json>,
    kwargs: Map<String, Json>,
    out: &str,
    line: &str,
) -> Step {
    Step {
        op: op.into(),
        variant: variant.into(),
        args,
        kwargs,
        out: out.into(),
        specs: Vec::new(),
        unread: Default::default(),
        scope: String::new(),
        line: line.into(),
    }
}

/// A nested program.
fn written(inputs: &[String], nodes: &[Step], outputs: &[Json]) -> Json {
    let input = |name: &String| {
        // The spec is known from the operand that it is given.
        json!({ "name": name, "role": "input", "spec": { "dtype": DType::F32.name(), "shape": [] } })
    };
    let node = |n: &Step| json!({ "op": n.op, "variant": n.variant, "args": n.args, "kwargs": n.kwargs, "out": n.out, "line": n.line });
    let inputs: Vec<Json> = inputs.iter().map(input).collect();
    let nodes: Vec<Json> = nodes.iter().map(node).collect();
    let outputs: Vec<Json> = outputs.iter().map(|x| json!({ "value": x })).collect();
    json!({ "g": { "inputs": inputs, "nodes": nodes, "outputs": outputs } })
}
