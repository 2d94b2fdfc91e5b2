//! `clematis convert`: converts a model to another format, or to stand-alone Python.

use std::fs;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clematis::Graph;
use clematis::nn::{checkpoint, file};
use clematis_convert::export::onnx::{self as writer, Names};
use clematis_convert::export::{model as format, python};

use crate::error::{Error, Result};
use crate::model::{self, Progress};
use crate::terminal;

/// The target formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// A folder with a torch.nn.Module
    Torch,
    /// A folder with a keras.Model, for each backend of Keras
    Keras,
    /// A folder with an hk.Module
    Haiku,
    /// A folder with an nnx.Module
    Flax,
    /// A folder with a function of parameters and inputs
    Jax,
    /// A folder with a tf.Module
    Tensorflow,
    /// A folder with a class that computes with numpy
    Numpy,
    /// One file with the program and the weights, for `clematis run`
    Clematis,
    /// The weights alone
    Safetensors,
    /// ONNX again, with the ops and the op set that we write
    Onnx,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Torch => "torch",
            Target::Keras => "keras",
            Target::Haiku => "haiku",
            Target::Flax => "flax",
            Target::Jax => "jax",
            Target::Tensorflow => "tensorflow",
            Target::Numpy => "numpy",
            Target::Clematis => "clematis",
            Target::Safetensors => "safetensors",
            Target::Onnx => "onnx",
        }
    }
}

/// The options of `convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An ONNX model, or a file of ours with a program
    file: PathBuf,
    /// The target format
    #[arg(long)]
    to: Target,
    /// Output path: a folder, or a file name for single-file formats [default: next to the model]
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The model's file name without extension.
fn stem(path: &Path) -> String {
    let stem = path.file_stem().and_then(|s| s.to_str());
    stem.unwrap_or("model").to_string()
}

/// The output path of a single-file result; never the model itself.
fn place(args: &Args, ending: &str) -> Result<PathBuf> {
    let name = format!("{}.{ending}", stem(&args.file));
    let to = match &args.out {
        Some(out) if out.is_dir() => out.join(name),
        Some(out) => out.clone(),
        None => {
            let to = args.file.with_file_name(name);
            match to == args.file {
                true => to.with_extension(format!("new.{ending}")),
                false => to,
            }
        }
    };
    let same = |a: &Path, b: &Path| {
        a == b || matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
    };
    if same(&to, &args.file) {
        return Err(Error::new(format!(
            "{}: the result would overwrite the model",
            to.display()
        )));
    }
    model::check_writable(&to)?;
    Ok(to)
}

pub fn run(args: &Args) -> Result<()> {
    let kind = model::kind(&args.file)?;
    let folder = python::target(args.to.name());
    // Checks the output path before computing anything.
    let to = match folder {
        None => place(args, args.to.name())?,
        Some(_) => {
            let beside = format!("{}_{}", stem(&args.file), args.to.name());
            let to = args.out.clone();
            let to = to.unwrap_or_else(|| args.file.with_file_name(beside));
            if to.exists() && !to.is_dir() {
                return Err(Error::new(format!(
                    "{}: cannot be written: expected a folder, got a file",
                    to.display()
                )));
            }
            to
        }
    };
    let progress = Progress::new(if kind == model::Kind::Onnx { 3 } else { 2 });
    progress.step("reading the model");
    let (graph, names) = model::load(&args.file, kind, &progress)?;
    progress.step("writing");
    let wrong = |e| model::in_file(&to, &e);
    let mut written = vec![to.clone()];
    match (args.to, folder) {
        (_, Some(target)) => {
            let title = stem(&args.file);
            let made = python::package(&graph, &names, target, &title);
            written = folder_of(made.map_err(Error::from_engine)?, &to)?;
        }
        (Target::Clematis, _) => format::save(&to, &graph, &names).map_err(wrong)?,
        (Target::Onnx, _) => onnx(&graph, &names, &to)?,
        (_, None) => weights(&graph, names, &to)?,
    }
    drop(progress);
    for path in written {
        let bytes = fs::metadata(&path).map_or(0, |m| m.len());
        terminal::print_line(&format!("{} ({})", path.display(), model::size(bytes)))?;
    }
    Ok(())
}

/// Saves the weights under their paths; constants of the program are left out.
fn weights(graph: &Graph, mut names: Names, to: &Path) -> Result<()> {
    let mut pairs = Vec::new();
    for (i, input) in graph.inputs.iter().enumerate() {
        if let Some(host) = names.values.remove(&i).filter(|_| !input.name.is_empty()) {
            let x = clematis::from_host(host).map_err(Error::from_engine)?;
            pairs.push((input.name.clone(), x));
        }
    }
    checkpoint::save_pairs(to, &pairs).map_err(|e| model::in_file(to, &e))
}

fn onnx(graph: &Graph, names: &Names, to: &Path) -> Result<()> {
    let made = writer::export(graph, names).map_err(Error::from_engine)?;
    model::replace(to, |file| {
        made.write(&mut BufWriter::new(file))
            .map_err(|e| model::in_file(to, &e))
    })
}

/// Writes a new folder atomically. In an existing folder, each file of the same name is replaced atomically.
fn folder_of(made: python::Package, to: &Path) -> Result<Vec<PathBuf>> {
    let files = match to.exists() {
        true => filled(to, made)?,
        false => {
            let mut files = Vec::new();
            file::new_folder("convert", to, |draft| -> Result<()> {
                files = filled(draft, made)?;
                Ok(())
            })?;
            files
        }
    };
    Ok(files.into_iter().map(|file| to.join(file)).collect())
}

fn filled(folder: &Path, made: python::Package) -> Result<Vec<PathBuf>> {
    let wrong =
        |e: std::io::Error| Error::new(format!("{}: cannot be written: {e}", folder.display()));
    let mut files = Vec::new();
    for (name, text) in made.files {
        let path = folder.join(&name);
        fs::create_dir_all(model::folder(&path)).map_err(wrong)?;
        file::write("convert", &path, text.as_bytes()).map_err(Error::from_engine)?;
        files.push(PathBuf::from(name));
    }
    let mut pairs = Vec::new();
    for (name, host) in made.weights {
        pairs.push((name, clematis::from_host(host).map_err(Error::from_engine)?));
    }
    let weights = folder.join("model.safetensors");
    checkpoint::save_pairs(&weights, &pairs).map_err(Error::from_engine)?;
    files.push(PathBuf::from("model.safetensors"));
    Ok(files)
}
