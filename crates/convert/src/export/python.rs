//! Exports a graph as a self-contained Python package: a model class of the framework around a function of plain calls.
//!
//! The package holds `model.py`, the weights, and the functions of the framework's dialect that the program calls, so that
//! only the framework and NumPy have to be installed. The functions of each dialect are listed in a table, since Python
//! need not be installed where the package is written; a test compares the table with the dialects.

use super::onnx::Names;
use crate::identifiers::{Identifiers, TreePaths};
use crate::literal::{escaped, python_string};
use crate::lower::{self, Dialect};
use clematis_core::graph::{Graph, Role};
use clematis_core::host::Host;
use clematis_core::{Error, Kind, Op, Result, Spec, bail};
use clematis_dialect::DIALECTS;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};

/// The framework that a package is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// The packages that have to be installed.
    needs: &'static str,
    /// The dialects of its arrays.
    dialects: &'static [&'static str],
    imports: &'static str,
    model: &'static str,
}

macro_rules! target {
    ($name:literal, $needs:literal, $dialects:expr, $imports:literal) => {
        Target {
            name: $name,
            needs: $needs,
            dialects: &$dialects,
            imports: $imports,
            model: include_str!(concat!("python/", $name, ".py")),
        }
    };
}

/// Every supported framework.
pub const TARGETS: &[Target] = &[
    target!(
        "numpy",
        "numpy and ml_dtypes",
        ["numpy"],
        "import numpy as np\n"
    ),
    target!("torch", "torch and numpy", ["torch"], "import torch\n"),
    target!("jax", "jax", ["jax"], "import jax\n"),
    target!(
        "haiku",
        "dm-haiku",
        ["jax"],
        "import haiku as hk\nimport jax\n"
    ),
    target!(
        "flax",
        "flax",
        ["jax"],
        "import jax\nfrom flax import nnx\n"
    ),
    target!(
        "tensorflow",
        "tensorflow",
        ["tensorflow"],
        "import tensorflow as tf\n"
    ),
    target!(
        "keras",
        "keras and its backend",
        ["torch", "jax", "tensorflow"],
        "import keras\nimport numpy as np\n"
    ),
];

/// The directory of the dialects in a package.
const PACKAGE: &str = "clematis_ops";
/// The key of the program's constants in the weights file.
pub const CONSTANTS: &str = "__constants__";

/// A dialect's entry in the table.
#[derive(Deserialize)]
struct Known {
    functions: HashSet<String>,
    refuses: HashSet<String>,
    numbers: HashSet<String>,
    numberless: HashSet<String>,
    asks_for_64: bool,
    dynamic_sizes: bool,
    wraps_scalars: bool,
}

/// A package, ready to be written.
pub struct Package {
    /// Paths below the directory, and contents.
    pub files: Vec<(String, String)>,
    /// The tensors of `model.safetensors`.
    pub weights: Vec<(String, Host)>,
}

/// Finds a target.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|t| t.name == name)
}

/// Builds the package of a graph; `title` is the name of the model.
pub fn package(graph: &Graph, names: &Names, target: &Target, title: &str) -> Result<Package> {
    let mut graph = graph.clone();
    graph.outputs.retain(|o| o.updates.is_none());
    let (graph, more) = lower::without_held(&graph.prune())?;
    let mut values: HashMap<usize, Host> = names.values.clone();
    let first = graph.inputs.len() - more.len();
    for (i, x) in more.iter().enumerate() {
        values.insert(first + i, x.to_host()?);
    }
    let parts = Parts::of(&graph, names, values)?;
    let mut files = vec![(
        format!("{PACKAGE}/__init__.py"),
        format!(
            "\"\"\"The operators that model.py calls, implemented in {}.\"\"\"
            ",
            target.dialects.join(", ")
        ),
    )];
    files.push((
        format!("{PACKAGE}/files.py"),
        include_str!("python/files.py").to_string(),
    ));
    for dialect in DIALECTS
        .iter()
        .filter(|d| target.dialects.contains(&d.name))
    {
        for file in dialect.parts.iter().chain([&dialect.ops]) {
            files.push((
                format!("{PACKAGE}/{}.py", file.name),
                with_relative_imports(file.text),
            ));
        }
    }
    let mut programs = Vec::new();
    for name in target.dialects {
        programs.push((*name, printed(&graph, name)?));
    }
    let imported = match programs.as_slice() {
        [(dialect, _)] => format!("from {PACKAGE} import files, {dialect} as ops\n"),
        _ => format!("from {PACKAGE} import files\n"),
    };
    let mut text = format!(
        "\"\"\"{} for {}. Requires {}.
        
        `python model.py x.npy … --out y.npz` runs it on .npy files, or on random inputs if none are given. Weights are in
        model.safetensors, the operators that the program calls in {PACKAGE}.
        \"\"\"
        
        {}
        {imported}",
        escaped(title),
        target.name,
        target.needs,
        target.imports
    );
    text.push_str(&parts.written());
    match programs.as_slice() {
        [(dialect, program)] => {
            if known(dialect)?.dynamic_sizes {
                text.push_str("ops = ops.for_source()\n");
            }
            text.push_str(&format!("\n\n{program}"));
        }
        _ => {
            text.push_str(&keras_programs(&programs)?);
            for (dialect, program) in programs {
                let head = format!(
                    "\"\"\"The program as calls of {dialect} operators.\"\"\"
                
                
                "
                );
                files.push((format!("program_{dialect}.py"), head + &program));
            }
        }
    }
    text.push_str(&format!(
        "\n\n{}\n\nif __name__ == \"__main__\":\n    files.main(call, INPUTS, OUTPUTS)\n",
        target.model
    ));
    files.push(("model.py".to_string(), text));
    Ok(Package {
        files,
        weights: parts.weights,
    })
}

/// The program and the dialect for the configured Keras backend.
fn keras_programs(programs: &[(&str, String)]) -> Result<String> {
    let mut text = String::from("\nBACKEND = keras.backend.backend()\n");
    for (i, (dialect, _)) in programs.iter().enumerate() {
        let word = if i == 0 { "if" } else { "elif" };
        text.push_str(&format!(
            "{word} BACKEND == \"{dialect}\":\n    from program_{dialect} import program\n\n    from {PACKAGE} import {dialect} as ops\n"
        ));
        if known(dialect)?.dynamic_sizes {
            text.push_str("\n    ops = ops.for_source()\n");
        }
    }
    text.push_str(
        "else:
        raise SystemExit(f\"unsupported Keras backend {BACKEND}\")
    ",
    );
    Ok(text)
}

/// The source of a dialect with imports relative to the package.
fn with_relative_imports(text: &str) -> String {
    text.replace("from clematis._dialects import ", "from . import ")
        .replace("from clematis._dialects.", "from .")
}

fn known(name: &str) -> Result<Known> {
    let table: std::result::Result<HashMap<String, Known>, _> =
        serde_json::from_str(include_str!("python/dialects.json"));
    let mut table = table.map_err(|e| Error::new(Kind::Internal, format!("convert: {e}")))?;
    match table.remove(name) {
        Some(known) => Ok(known),
        None => bail!(Internal, "convert: unknown dialect `{name}`"),
    }
}

fn printed(graph: &Graph, dialect: &str) -> Result<String> {
    let known = known(dialect)?;
    let ops: HashSet<&str> = Op::all().into_iter().map(|(name, _)| name).collect();
    let has = |op: &Op| {
        !matches!(op, Op::Custom(_))
            && ops.contains(op.name())
            && known.functions.contains(op.name())
    };
    let dialect = Dialect {
        has: &has,
        refuses: &known.refuses,
        numbers: &known.numbers,
        numberless: &known.numberless,
        asks_for_64: known.asks_for_64,
        dynamic_sizes: known.dynamic_sizes,
        wraps_scalars: known.wraps_scalars,
    };
    lower::lower(graph, "program", &dialect)
}

/// Distinct names for inputs or outputs: the known ones, then a letter and a number.
fn distinct(letter: &str, known: &[String], count: usize) -> Vec<String> {
    let plain = |i: usize| format!("{letter}{i}");
    let all: Vec<String> = (0..count)
        .map(|i| known.get(i).cloned().unwrap_or_else(|| plain(i)))
        .collect();
    Identifiers::default().distinct_all(&words(&all))
}

fn words(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

/// A path whose components can be attributes: other characters than letters, digits and underscores become underscores.
fn python_path(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '/');
    name.chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect()
}

/// A graph's inputs by role, and its outputs.
struct Parts {
    /// Path, role, dtype.
    held: Vec<(String, &'static str, &'static str)>,
    inputs: Vec<(String, Spec)>,
    keys: usize,
    constants: Vec<(String, &'static str)>,
    outputs: Vec<(String, Spec)>,
    weights: Vec<(String, Host)>,
}

impl Parts {
    fn of(graph: &Graph, names: &Names, mut values: HashMap<usize, Host>) -> Result<Parts> {
        let mut parts = Parts {
            held: Vec::new(),
            inputs: Vec::new(),
            keys: 0,
            constants: Vec::new(),
            outputs: Vec::new(),
            weights: Vec::new(),
        };
        // Frameworks hold weights in module trees, and files by name.
        let held = graph.inputs.iter().enumerate();
        let held = held.filter(|(i, input)| values.contains_key(i) && !input.name.is_empty());
        let held: Vec<String> = held.map(|(_, input)| python_path(&input.name)).collect();
        let mut paths = TreePaths::of(&words(&held)).into_iter();
        let given = distinct("x", &names.inputs, graph.inputs.len());
        let mut given = given.into_iter();
        for (i, input) in graph.inputs.iter().enumerate() {
            let spec = graph.spec(input.value);
            let word = spec.dtype.name();
            let last = !parts.constants.is_empty();
            match (values.remove(&i), input.role) {
                (Some(host), _) if !input.name.is_empty() && !last => {
                    if !parts.inputs.is_empty() || parts.keys > 0 {
                        bail!(Internal, "convert: `{}` comes after the inputs", input.name);
                    }
                    let path = paths.next().unwrap_or_default();
                    parts.held.push((path.clone(), input.role.name(), word));
                    parts.weights.push((path, host));
                }
                (Some(host), _) => {
                    let name = format!("{CONSTANTS}.c{}", parts.constants.len());
                    parts.constants.push((name.clone(), word));
                    parts.weights.push((name, host));
                }
                (None, Role::Key) if !last => parts.keys += 1,
                (None, Role::Input) if !last && parts.keys == 0 => {
                    let name = given.next().unwrap_or_default();
                    parts.inputs.push((name, spec.clone()));
                }
                _ => bail!(Convert, "convert: input `{}` has no value", input.name),
            }
        }
        let specs = graph.output_specs();
        let outputs = distinct("y", &names.outputs, specs.len());
        parts.outputs = outputs.into_iter().zip(specs).collect();
        Ok(parts)
    }

    /// The program's inputs and outputs as Python dicts.
    fn written(&self) -> String {
        let dict = |name: &str, about: &str, lines: Vec<String>| {
            let inside: String = lines.iter().map(|line| format!("    {line},\n")).collect();
            match inside.is_empty() {
                true => format!("# {about}\n{name} = {{}}\n"),
                false => format!("# {about}\n{name} = {{\n{inside}}}\n"),
            }
        };
        let held = self
            .held
            .iter()
            .map(|(path, role, word)| format!("{}: (\"{role}\", \"{word}\")", python_string(path)));
        let inputs = self
            .inputs
            .iter()
            .map(|(name, spec)| format!("{}: {}", python_string(name), written_spec(spec)));
        let constants = self
            .constants
            .iter()
            .map(|(name, word)| format!("{}: \"{word}\"", python_string(name)));
        let outputs = self
            .outputs
            .iter()
            .map(|(name, spec)| format!("{}: \"{}\"", python_string(name), spec.dtype.name()));
        let shapes: Vec<String> = self
            .outputs
            .iter()
            .map(|(_, spec)| written_spec(spec))
            .collect();
        let mut text = String::from("\n");
        text.push_str(&dict("WEIGHTS", "Weights: role and dtype.", held.collect()));
        text.push_str(&dict(
            "INPUTS",
            "Dtypes and shapes; a symbolic size may be any.",
            inputs.collect(),
        ));
        text.push_str(&dict(
            "OUTPUTS",
            "Dtypes of the outputs.",
            outputs.collect(),
        ));
        text.push_str(&format!("SHAPES = [{}]\n", shapes.join(", ")));
        text.push_str(&dict(
            "CONSTANTS",
            "Constants of the program.",
            constants.collect(),
        ));
        text.push_str(&format!(
            "# The number of random draws.
        KEYS = {}
        ",
            self.keys
        ));
        text
    }
}

fn written_spec(spec: &Spec) -> String {
    let sizes = spec.shape.dims().iter().map(|d| match d.value() {
        Some(n) => n.to_string(),
        None => python_string(&d.to_string()),
    });
    format!(
        "(\"{}\", [{}])",
        spec.dtype.name(),
        sizes.collect::<Vec<_>>().join(", ")
    )
}
