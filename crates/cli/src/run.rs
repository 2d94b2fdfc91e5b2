//! `clematis run`: a model on numpy files.

use std::collections::HashMap;
use std::path::PathBuf;

use clematis::{Host, Tensor};
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;

use crate::error::{Error, Result};
use crate::model::{self, Kind, Progress};
use crate::{npy, terminal};

/// The options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An ONNX model
    file: PathBuf,
    /// A numpy file for each input, in order, or NAME=FILE
    #[arg(long, short)]
    input: Vec<String>,
    /// Where to write each output, in order, or NAME=FILE; without it, shapes and types are printed
    #[arg(long, short)]
    output: Vec<String>,
}

/// `NAME=FILE` taken apart, where NAME is one of those that there are.
fn named<'a>(text: &'a str, names: &[String]) -> (Option<String>, &'a str) {
    match text.split_once('=') {
        Some((name, file)) if names.iter().any(|n| n == name) => (Some(name.to_string()), file),
        _ => (None, text),
    }
}

/// The files of the command line by the names of a model's inputs or outputs.
fn assigned(given: &[String], names: &[String], what: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut out: Vec<(String, PathBuf)> = Vec::new();
    let mut next = names.iter();
    for text in given {
        let (name, file) = named(text, names);
        let name = match name {
            Some(name) => name,
            None => match next.find(|n| !out.iter().any(|(seen, _)| seen == *n)) {
                Some(name) => name.clone(),
                None => {
                    return Err(Error::new(format!(
                        "{text}: the model has {} {what}s: {}",
                        names.len(),
                        names.join(", ")
                    )));
                }
            },
        };
        if out.iter().any(|(seen, _)| *seen == name) {
            return Err(Error::new(format!("{what} {name} is given twice")));
        }
        out.push((name, PathBuf::from(file)));
    }
    Ok(out)
}

pub fn run(args: &Args) -> Result<()> {
    if model::kind(&args.file)? != Kind::Onnx {
        return Err(Error::new(format!(
            "{}: only ONNX models are run; safetensors files hold weights alone",
            args.file.display()
        )));
    }
    let progress = Progress::new(4);
    progress.step("reading the model");
    let bytes = model::bytes(&args.file)?;
    let parsed = clematis_convert::onnx::proto::Model::parse(&bytes).map_err(Error::from_engine)?;
    let held: Vec<&str> = parsed.graph.initializers.iter().map(|x| x.name).collect();
    let inputs: Vec<String> = parsed
        .graph
        .inputs
        .iter()
        .map(|x| x.name)
        .filter(|n| !held.contains(n))
        .map(String::from)
        .collect();
    let outputs: Vec<String> = parsed
        .graph
        .outputs
        .iter()
        .map(|x| x.name.to_string())
        .collect();
    drop(parsed);
    let to = assigned(&args.output, &outputs, "output")?;
    progress.step("reading the inputs");
    let mut values: HashMap<String, Host> = HashMap::new();
    for (name, path) in assigned(&args.input, &inputs, "input")? {
        values.insert(name, npy::read(&path)?);
    }
    if let Some(name) = inputs.iter().find(|n| !values.contains_key(*n)) {
        return Err(Error::new(format!(
            "input {name} is missing; give it with --input {name}=FILE.npy"
        )));
    }
    progress.step("running");
    let folder = model::folder(&args.file);
    let found = evaluated(&bytes, &folder, &inputs, &values).map_err(Error::from_engine)?;
    progress.step("writing");
    for (name, path) in &to {
        if let Some((_, x)) = found.iter().find(|(n, _)| n == name) {
            npy::write(path, &x.to_host().map_err(Error::from_engine)?)?;
        }
    }
    drop(progress);
    for (name, x) in &found {
        let place = to
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, path)| format!(" -> {}", path.display()));
        terminal::say(&format!(
            "{name}: {}{}",
            x.spec(),
            place.unwrap_or_default()
        ))?;
    }
    Ok(())
}

/// As a graph if it can be one; else step by step, where shapes may depend on values.
fn evaluated(
    bytes: &[u8],
    folder: &std::path::Path,
    inputs: &[String],
    values: &HashMap<String, Host>,
) -> clematis::Result<Vec<(String, Tensor)>> {
    match reader::import(bytes, Some(folder), &Options::default()) {
        Ok(made) => {
            let mut all = Vec::new();
            for held in made.held {
                all.push(clematis::from_host(held.host)?);
            }
            for name in inputs {
                if let Some(host) = values.get(name) {
                    all.push(clematis::from_host(host.clone())?);
                }
            }
            if made.draws {
                all.push(clematis::from_slice(&[0u32, 0], [2usize])?);
            }
            all.extend(made.constants);
            let outs = made.graph.call(&all.iter().collect::<Vec<_>>())?;
            Ok(made.outputs.into_iter().zip(outs).collect())
        }
        Err(e) if e.kind() == clematis::Kind::Unsupported => {
            reader::run(bytes, Some(folder), values.clone()).map_err(|_| e)
        }
        Err(e) => Err(e),
    }
}
