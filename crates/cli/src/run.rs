//! `clematis run`: runs a model on numpy files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use clematis::graph::Role;
use clematis::{DType, Graph, Host, Kind as Fault, Spec, Tensor};
use clematis_convert::export::model as format;
use clematis_convert::export::onnx::Names;
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;
use clematis_convert::onnx::proto::{Model, Size};
use clematis_convert::onnx::tensor;

use crate::error::{Error, Result};
use crate::model::{self, Kind, Progress};
use crate::{npy, terminal};

/// The options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An ONNX model, or a file of ours with a program
    file: PathBuf,
    /// A numpy file for each input, in order, or NAME=FILE
    #[arg(value_name = "INPUT")]
    inputs: Vec<String>,
    /// Output file: .npy for one output, .npz for several; without it, shapes and dtypes are printed
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The declared spec of an input.
struct Wanted {
    name: String,
    dtype: DType,
    /// Sizes as numbers or names; `None` if undeclared.
    shape: Option<Vec<std::result::Result<i64, String>>>,
}

impl Wanted {
    fn of(name: String, spec: &Spec) -> Wanted {
        let size = |d: &clematis::Dim| d.value().ok_or_else(|| d.to_string());
        let shape = spec.shape.dims().iter().map(size).collect();
        Wanted {
            name,
            dtype: spec.dtype,
            shape: Some(shape),
        }
    }

    fn text(&self) -> String {
        let Some(shape) = &self.shape else {
            return self.dtype.to_string();
        };
        let size = |s: &std::result::Result<i64, String>| match s {
            Ok(n) => n.to_string(),
            Err(name) => name.clone(),
        };
        let sizes: Vec<String> = shape.iter().map(size).collect();
        format!("{}[{}]", self.dtype, sizes.join(","))
    }

    /// Whether a value matches, given the symbolic sizes bound so far.
    fn fits(&self, spec: &Spec, names: &mut HashMap<String, i64>) -> bool {
        let Some(shape) = &self.shape else {
            return spec.dtype == self.dtype;
        };
        let given = spec.shape.sizes();
        spec.dtype == self.dtype
            && given.len() == shape.len()
            && shape.iter().zip(&given).all(|(want, &n)| match want {
                Ok(want) => *want == n as i64,
                Err(name) => *names.entry(name.clone()).or_insert(n as i64) == n as i64,
            })
    }
}

/// Maps the files of the command line to input names.
fn assigned(given: &[String], wanted: &[Wanted]) -> Result<HashMap<String, PathBuf>> {
    let names: Vec<&str> = wanted.iter().map(|w| w.name.as_str()).collect();
    let (mut out, mut next) = (HashMap::new(), names.iter());
    for text in given {
        let (name, file) = match text.split_once('=') {
            Some((name, file)) if names.contains(&name) => (name, file),
            Some((name, file)) if !Path::new(text).exists() && !name.contains('/') => {
                return Err(Error::new(format!(
                    "{name}={file}: no input is called {name}; there are: {}",
                    names.join(", ")
                )));
            }
            _ => match next.find(|n| !out.contains_key(**n)) {
                Some(name) => (*name, text.as_str()),
                None => {
                    return Err(Error::new(format!(
                        "{text}: {} files are given, and the model has {} inputs: {}",
                        given.len(),
                        names.len(),
                        names.join(", ")
                    )));
                }
            },
        };
        if out.insert(name.to_string(), PathBuf::from(file)).is_some() {
            return Err(Error::new(format!("input {name} is given twice")));
        }
    }
    match names.iter().find(|n| !out.contains_key(**n)) {
        Some(name) => Err(Error::new(format!(
            "input {name} is missing; give it as a file, or as {name}=FILE.npy"
        ))),
        None => Ok(out),
    }
}

pub fn run(args: &Args) -> Result<()> {
    let kind = model::kind(&args.file)?;
    let progress = Progress::new(5);
    progress.step("reading the model");
    let signature = model_signature(&args.file, kind)?;
    let several = |out: &Path| out.extension().is_some_and(|e| e == "npz");
    if let Some(out) = &args.out {
        if !several(out) && signature.outputs.len() != 1 {
            return Err(Error::new(format!(
                "{}: the model has {} outputs: {}; a .npz file holds them all",
                out.display(),
                signature.outputs.len(),
                signature.outputs.join(", ")
            )));
        }
        model::check_writable(out)?;
    }
    progress.step("reading the inputs");
    let files = assigned(&args.inputs, &signature.inputs)?;
    let (mut values, mut names) = (HashMap::new(), HashMap::new());
    for want in &signature.inputs {
        let path = &files[&want.name];
        let host = npy::read(path)?;
        if !want.fits(host.spec(), &mut names) {
            return Err(Error::new(format!(
                "{}: input {} is {}, and the file holds {}",
                path.display(),
                want.name,
                want.text(),
                host.spec()
            )));
        }
        values.insert(want.name.clone(), host);
    }
    let found = evaluated(&args.file, kind, &values, &progress)?;
    progress.step("writing");
    if let Some(out) = &args.out {
        let mut hosts = Vec::new();
        for (name, x) in &found {
            hosts.push((name.as_str(), x.to_host().map_err(Error::from_engine)?));
        }
        match several(out) {
            true => npy::write_all(out, &hosts)?,
            false => npy::write(out, &hosts[0].1)?,
        }
    }
    drop(progress);
    for (name, x) in &found {
        terminal::print_line(&format!("{name}: {}", x.spec()))?;
    }
    match &args.out {
        Some(out) => terminal::print_line(&out.display().to_string()),
        None => Ok(()),
    }
}

/// The declared inputs and outputs of a model.
struct ModelSignature {
    inputs: Vec<Wanted>,
    outputs: Vec<String>,
}

fn model_signature(path: &Path, kind: Kind) -> Result<ModelSignature> {
    let wrong = |e| model::in_file(path, &e);
    if kind == Kind::Safetensors {
        let file = clematis::nn::checkpoint::Reader::open(path).map_err(wrong)?;
        let (graph, names) = format::look(&file, path).map_err(wrong)?;
        return Ok(program_signature(&graph, &names));
    }
    let bytes = model::bytes(path)?;
    let model = Model::parse(&bytes).map_err(wrong)?;
    let held: Vec<&str> = model.graph.initializers.iter().map(|x| x.name).collect();
    let mut inputs = Vec::new();
    for x in model
        .graph
        .inputs
        .iter()
        .filter(|x| !held.contains(&x.name))
    {
        let size = |s: &Size<'_>| match s {
            Size::Known(n) => Ok(*n),
            Size::Named(name) => Err(name.to_string()),
            Size::Open => Err("?".to_string()),
        };
        let dtype = tensor::dtype(x.dtype);
        inputs.push(Wanted {
            name: x.name.to_string(),
            dtype: dtype.map_err(|e| wrong(e.note(format!("in input `{}`", x.name))))?,
            shape: x.shape.as_ref().map(|s| s.iter().map(size).collect()),
        });
    }
    for x in &mut inputs {
        // An unnamed size is unique.
        for (axis, size) in x.shape.iter_mut().flatten().enumerate() {
            if size.as_ref().is_err_and(|name| name == "?") {
                *size = Err(format!("{}_{axis}", x.name));
            }
        }
    }
    let outputs = model.graph.outputs.iter().map(|x| x.name.to_string());
    Ok(ModelSignature {
        inputs,
        outputs: outputs.collect(),
    })
}

/// The inputs and outputs of a program of ours.
fn program_signature(graph: &Graph, names: &Names) -> ModelSignature {
    let asked = graph.inputs.iter().filter(|x| x.role == Role::Input);
    let named = |words: &[String], i: usize, letter: char| {
        let plain = format!("{letter}{i}");
        words.get(i).cloned().unwrap_or(plain)
    };
    let inputs = asked.enumerate();
    let inputs = inputs.map(|(i, x)| Wanted::of(named(&names.inputs, i, 'x'), graph.spec(x.value)));
    let results = graph.outputs.iter().filter(|o| o.updates.is_none());
    ModelSignature {
        inputs: inputs.collect(),
        outputs: (0..results.count())
            .map(|i| named(&names.outputs, i, 'y'))
            .collect(),
    }
}

/// Computes the outputs: with a compiled program if possible, else op by op, where shapes may depend on values.
fn evaluated(
    path: &Path,
    kind: Kind,
    values: &HashMap<String, Host>,
    progress: &Progress,
) -> Result<Vec<(String, Tensor)>> {
    let wrong = |e| model::in_file(path, &e);
    if kind == Kind::Safetensors {
        let (graph, names) = format::load(path).map_err(wrong)?;
        progress.step("running");
        return called(&graph, names, values).map_err(wrong);
    }
    let (bytes, folder) = (model::bytes(path)?, model::folder(path));
    let made = reader::import(&bytes, Some(&folder), &Options::default());
    progress.step("running");
    match made.and_then(reader::Imported::ready) {
        Ok((graph, names)) => called(&graph, names, values).map_err(wrong),
        Err(e) if e.kind() == Fault::Unsupported => {
            let found = reader::run(&bytes, Some(&folder), values.clone());
            // Report why it is not a program if the user can change that.
            found.map_err(|other| match other.kind() {
                Fault::Unsupported => wrong(e),
                _ => wrong(other),
            })
        }
        Err(e) => Err(wrong(e)),
    }
}

fn called(
    graph: &Graph,
    mut names: Names,
    values: &HashMap<String, Host>,
) -> clematis::Result<Vec<(String, Tensor)>> {
    let signature = program_signature(graph, &names);
    let mut asked = signature.inputs.iter();
    let mut all = Vec::new();
    for (i, input) in graph.inputs.iter().enumerate() {
        let host = match (names.values.remove(&i), input.role) {
            (Some(host), _) => Some(host),
            (None, Role::Input) => asked.next().and_then(|w| values.get(&w.name)).cloned(),
            (None, _) => None,
        };
        all.push(match host {
            Some(host) => clematis::from_host(host)?,
            // Draws are numbered, so every run gives the same numbers.
            None => clematis::from_slice(&[0u32, i as u32], [2usize])?,
        });
    }
    let outs = graph.call(&all.iter().collect::<Vec<_>>())?;
    let results = graph.outputs.iter().zip(outs);
    let results = results.filter(|(o, _)| o.updates.is_none());
    Ok(signature
        .outputs
        .into_iter()
        .zip(results.map(|(_, x)| x))
        .collect())
}
