//! Saves a graph with its values as one safetensors file whose metadata holds the program as text.
//!
//! Weights are stored under their paths, so that every safetensors reader finds them. Loading runs no code,
//! and the program's spec of each value is checked against the value.

use super::onnx::Names;
use super::python::CONSTANTS;
use clematis_core::graph::{Graph, Role};
use clematis_core::{Result, Tensor, bail, ops};
use clematis_nn::checkpoint::{self, Key, Reader, Structure};
use std::collections::HashMap;
use std::path::Path;

/// The key of the program among the weights.
const PROGRAM: &str = "__program__";
/// The version of the program's format.
const VERSION: i64 = 1;

/// The name of an input's value in a file; constants get numbered names.
fn place(name: &str, constants: &mut usize) -> String {
    if name.is_empty() {
        *constants += 1;
        return format!("{CONSTANTS}.c{}", *constants - 1);
    }
    name.to_string()
}

/// Saves a graph and the values of those inputs that are not call arguments. The file is written atomically.
pub fn save(path: &Path, graph: &Graph, names: &Names) -> Result<()> {
    // Loading numbers values from 0, so there must be no gaps.
    let graph = graph.prune();
    let (mut pairs, mut constants): (Vec<(String, Tensor)>, _) = (Vec::new(), 0);
    for (i, input) in graph.inputs.iter().enumerate() {
        let Some(host) = names.values.get(&i) else {
            if !matches!(input.role, Role::Input | Role::Key) {
                bail!(Convert, "to_file: input `{}` has no value", input.name);
            }
            continue;
        };
        let spec = graph.spec(input.value);
        if host.spec() != spec {
            bail!(
                Convert,
                "to_file: input `{}` is {spec} in the program, got the value {}",
                input.name,
                host.spec()
            );
        }
        let name = place(&input.name, &mut constants);
        if name.starts_with("__program__") || pairs.iter().any(|(seen, _)| *seen == name) {
            bail!(Convert, "to_file: invalid name `{name}` in a file");
        }
        pairs.push((name, ops::from_host(host.clone())?));
    }
    let text =
        |words: &[String]| Structure::List(words.iter().cloned().map(Structure::Text).collect());
    let program = Structure::Dict(vec![
        (Key::Text("version".into()), Structure::Int(VERSION)),
        (Key::Text("text".into()), Structure::Text(graph.to_string())),
        (Key::Text("inputs".into()), text(&names.inputs)),
        (Key::Text("outputs".into()), text(&names.outputs)),
    ]);
    let mut structure = match Structure::from_paths(pairs.iter().map(|(name, _)| name.as_str())) {
        Structure::Dict(parts) => parts,
        _ => Vec::new(),
    };
    structure.push((Key::Text(PROGRAM.into()), program));
    checkpoint::save_structure(path, &Structure::Dict(structure), &pairs)
}

fn entry<'a>(structure: &'a Structure, key: &str) -> Option<&'a Structure> {
    let Structure::Dict(parts) = structure else {
        return None;
    };
    let found = parts
        .iter()
        .find(|(k, _)| matches!(k, Key::Text(word) if word == key));
    found.map(|(_, x)| x)
}

/// Whether a file holds a program besides its weights.
pub fn holds_program(file: &Reader) -> bool {
    entry(file.structure(), PROGRAM).is_some()
}

/// The program of a file and the names of its inputs and outputs.
fn program(file: &Reader, path: &Path) -> Result<(Graph, Vec<String>, Vec<String>)> {
    let Some(own) = entry(file.structure(), PROGRAM) else {
        bail!(
            Io,
            "{}: the file has weights only, and no program",
            path.display()
        );
    };
    match entry(own, "version") {
        Some(Structure::Int(VERSION)) => {}
        Some(Structure::Int(n)) => bail!(
            Io,
            "{}: expected format version {VERSION}, got {n}",
            path.display()
        ),
        _ => bail!(Io, "{}: the program has no version", path.display()),
    }
    let Some(Structure::Text(text)) = entry(own, "text") else {
        bail!(Io, "{}: the program has no text", path.display());
    };
    let words = |key: &str| -> Vec<String> {
        let Some(Structure::List(words)) = entry(own, key) else {
            return Vec::new();
        };
        let word = |x: &Structure| {
            if let Structure::Text(word) = x {
                Some(word.clone())
            } else {
                None
            }
        };
        words.iter().filter_map(word).collect()
    };
    let graph = Graph::parse(text).map_err(|e| e.note(format!("in {}", path.display())))?;
    Ok((graph, words("inputs"), words("outputs")))
}

/// The program of a file without its weights.
pub fn look(file: &Reader, path: &Path) -> Result<(Graph, Names)> {
    let (graph, inputs, outputs) = program(file, path)?;
    let names = Names {
        inputs,
        outputs,
        ..Names::default()
    };
    Ok((graph, names))
}

/// Loads a graph and the values of its inputs by position.
pub fn load(path: &Path) -> Result<(Graph, Names)> {
    let mut file = Reader::open(path)?;
    let (graph, inputs, outputs) = program(&file, path)?;
    let mut found: HashMap<String, _> = file.read(|_| true)?.into_iter().collect();
    let (mut values, mut constants) = (HashMap::new(), 0);
    for (i, input) in graph.inputs.iter().enumerate() {
        if matches!(input.role, Role::Input | Role::Key) {
            continue;
        }
        let (name, spec) = (place(&input.name, &mut constants), graph.spec(input.value));
        let Some(host) = found.remove(&name) else {
            bail!(
                Io,
                "{}: no tensor `{name}`, which the program needs",
                path.display()
            );
        };
        if host.spec() != spec {
            bail!(
                Io,
                "{}: `{name}` is {spec} in the program, got {} in the file",
                path.display(),
                host.spec()
            );
        }
        values.insert(i, host);
    }
    let names = Names {
        values,
        inputs,
        outputs,
    };
    Ok((graph, names))
}
