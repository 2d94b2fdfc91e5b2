//! Writes graphs as readable source code: classes by submodule, named layers, idiomatic calls for everything else.
//!
//! A program is rewritten in stages: layers are found (`layers`), the program is legalized for the target
//! (`legalize`), steps are grouped by module (`module_tree`), modules become classes or functions (`code`), whose
//! expressions are inlined and named (`statements`) and line-broken (`text`). The calls of each framework are in `tables`; the
//! ops without a template are listed in the response, and Python adds their functions from the dialects.

mod code;
mod control;
mod expr;
mod op_printer_rules;
mod deduplicate;
mod layers;
mod statements;
mod attribute_names;
mod legalize;
mod program;
mod op_printer;
mod style;
mod target;
mod text;
mod module_tree;

use crate::identifiers::{Identifiers, identifier};
use clematis_core::graph::{Graph, Role};
use clematis_core::{Error, Kind, Result, bail};
use program::{Layer, Program, Value};
use std::collections::BTreeMap;

/// A request.
#[derive(serde::Deserialize)]
pub struct Request {
    /// The target framework.
    pub target: String,
    /// The name of the model or function.
    pub name: String,
    /// The graph as text.
    pub graph: String,
    /// Names of the array arguments.
    pub arguments: Vec<String>,
    /// The returned expression, with the character U+0005 for each array.
    pub returns: String,
    /// Class names by the paths of their instances.
    #[serde(default)]
    pub classes: BTreeMap<String, String>,
    /// The paths of all modules, if they are known.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Whether it is a function rather than a model.
    #[serde(default)]
    pub function: bool,
    /// The attribute name for a model that is a single layer; empty for others.
    #[serde(default)]
    pub alone: String,
}

/// The response.
#[derive(serde::Serialize)]
pub struct Answer {
    /// The imports.
    pub imports: String,
    /// The ops whose helper functions go between imports and code.
    pub helpers: Vec<String>,
    /// The code.
    pub code: String,
    /// The function that loads weights, if there are any.
    pub loader: String,
    /// The tensors of the weights file.
    pub weights: Vec<code::Stored>,
    /// The name of the class or function.
    pub entry: String,
}

/// Writes source code; request and response are JSON.
pub fn write(request: &str) -> Result<String> {
    let wrong = |e: serde_json::Error| Error::new(Kind::Convert, format!("source: {e}"));
    let request: Request = serde_json::from_str(request).map_err(wrong)?;
    serde_json::to_string(&answer(&request)?).map_err(wrong)
}

fn answer(request: &Request) -> Result<Answer> {
    let Some(to) = target::TARGETS.iter().find(|t| t.name == request.target) else {
        let names: Vec<&str> = target::TARGETS.iter().map(|t| t.name).collect();
        bail!(
            Value,
            "source: unsupported target `{}`; available: {}",
            request.target,
            names.join(", ")
        );
    };
    let plain = target::Target {
        classes: to.classes && !request.function,
        ..*to
    };
    let to = &plain;
    let graph = Graph::parse(&request.graph)?;
    let Some(mut printer) = op_printer::OpPrinter::new(to.ops) else {
        bail!(Internal, "source: no op table for {}", to.ops);
    };
    name_sizes(&graph, &mut printer);
    let paths: Vec<&str> = request
        .classes
        .keys()
        .chain(&request.modules)
        .map(String::as_str)
        .collect();
    let mut program = Program::new(&graph, &paths)?;
    program.name_parameters(&request.alone);
    legalize::simplify(&mut program);
    if program.inputs.iter().any(|i| i.role == Role::Key) {
        bail!(
            Unsupported,
            "source: the model draws random numbers; call eval() first"
        );
    }
    layers::find(&mut program, &|layer| {
        target::layer(to, &in_layout(to, layer), "").is_some()
    });
    legalize::channels(&mut program, to.channels, to.pools, to.norms);
    legalize::padding(&mut program, &|sizes, layer| target::pads(to, sizes, layer));
    legalize::decompose(&mut program, &printer)?;
    legalize::sink(&mut program);
    let classes: BTreeMap<String, String> = request
        .classes
        .iter()
        .map(|(p, c)| (program.clean.path(p).0, identifier(c, "Part")))
        .collect();
    let mut division = module_tree::Division::new(&program);
    if !request.modules.is_empty() {
        division.only(&program, &request.modules);
    }
    for _ in 0..64 {
        printer.helpers.borrow_mut().clear();
        let root = module_tree::build(&program, &mut division);
        let mut writer = code::CodeWriter::new(
            &program,
            to,
            &printer,
            &classes,
            &request.arguments,
            &request.returns,
        );
        let (code, entry) = writer.write(&root, &request.name)?;
        if let Some(path) = writer.differs.take() {
            division.inline(path);
            continue;
        }
        return Ok(finished(to, &program, writer, code, entry, &printer));
    }
    bail!(
        Internal,
        "source: the modules of the model cannot be distinguished"
    )
}

fn finished(
    to: &target::Target,
    program: &Program,
    writer: code::CodeWriter<'_>,
    code: String,
    entry: String,
    printer: &op_printer::OpPrinter,
) -> Answer {
    let inputs = writer.entry_inputs().join(", ");
    let weights = writer.stored;
    let functions = style::functions(to, &code);
    let code = format!("{functions}{code}");
    let examples: Vec<String> = program
        .inputs
        .iter()
        .filter(|i| i.role == Role::Input)
        .map(|i| {
            let spec = &program.specs[i.value as usize];
            let sizes: Vec<String> = spec
                .shape
                .dims()
                .iter()
                .map(|d| d.value().map_or("1".into(), |n| n.to_string()))
                .collect();
            let np = if to.name == "keras" { "ops" } else { "jnp" };
            let dtype = if spec.dtype == clematis_core::DType::F32 {
                String::new()
            } else {
                format!(", dtype=\"{}\"", spec.dtype.long_name())
            };
            format!("{np}.zeros({}{dtype})", op_printer::tuple(&sizes))
        })
        .collect();
    let stateful = weights.iter().any(|w| w.name.contains("_ema"));
    let needed = !weights.is_empty();
    let loader = match needed {
        true => style::loader(to, &entry, &examples.join(", "), &inputs, stateful),
        false => String::new(),
    };
    let imports = style::imports(to, &format!("{code}\n{loader}"), needed);
    let helpers = printer.helpers.borrow().iter().cloned().collect();
    Answer {
        imports,
        helpers,
        code,
        loader,
        weights,
        entry,
    }
}

/// A layer after its channel axis has been moved to where the target has it.
fn in_layout(to: &target::Target, layer: &Layer) -> Layer {
    let mut layer = layer.clone();
    let rank = layer.int("rank");
    for (name, v) in &mut layer.config {
        match (*name, to.norms) {
            ("axis", legalize::Channels::Last) => *v = Value::Int(rank - 1),
            ("axis", legalize::Channels::First) => *v = Value::Int(1),
            _ => {}
        }
        match (*name, to.channels) {
            ("last", legalize::Channels::Last) => *v = Value::Bool(true),
            ("last", legalize::Channels::First) => *v = Value::Bool(false),
            _ => {}
        }
    }
    layer
}

/// Renames symbolic sizes for the code: that of the first axis is the batch size.
fn name_sizes(graph: &Graph, printer: &mut op_printer::OpPrinter) {
    let mut names = Identifiers::default();
    for input in graph.inputs.iter().filter(|i| i.role == Role::Input) {
        for (axis, d) in graph.spec(input.value).shape.dims().iter().enumerate() {
            for symbol in d.symbols() {
                if printer.sizes.contains_key(&*symbol) {
                    continue;
                }
                let base = if axis == 0 { "batch" } else { "length" };
                let mut name = base.to_string();
                let mut n = 2;
                while names.contains(&name) {
                    name = format!("{base}{n}");
                    n += 1;
                }
                printer
                    .sizes
                    .insert(symbol.to_string(), names.distinct(&name));
            }
        }
    }
}
