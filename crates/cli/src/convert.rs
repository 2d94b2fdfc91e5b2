//! `clematis convert`: a model in another format.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

use clematis::nn::checkpoint;
use clematis_convert::export::onnx as writer;
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;

use crate::error::{Error, Result};
use crate::model::{self, Kind, Progress};
use crate::terminal;

/// What a model can become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Target {
    /// The weights alone
    Safetensors,
    /// The program as text (.graph) and the weights beside it (.safetensors)
    Clematis,
    /// ONNX again, with the ops and the op set that we write
    Onnx,
}

/// The options of `convert`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// An ONNX model
    file: PathBuf,
    /// What it becomes
    #[arg(long)]
    to: Target,
    /// Where the result goes; beside the model unless told otherwise
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Where the result goes: never over the model itself.
fn place(args: &Args, ending: &str) -> Result<PathBuf> {
    let to = match &args.out {
        Some(out) => out.clone(),
        None => {
            let to = args.file.with_extension(ending);
            if to == args.file {
                let stem = args
                    .file
                    .file_stem()
                    .and_then(|s| s.to_str())
                    .unwrap_or("model");
                return Ok(args
                    .file
                    .with_file_name(format!("{stem}.clematis.{ending}")));
            }
            to
        }
    };
    if to == args.file {
        return Err(Error::new(format!(
            "{}: the result would be written over the model",
            to.display()
        )));
    }
    Ok(to)
}

pub fn run(args: &Args) -> Result<()> {
    if model::kind(&args.file)? != Kind::Onnx {
        return Err(Error::new(format!(
            "{}: only ONNX models are converted; a safetensors file holds no program",
            args.file.display()
        )));
    }
    let progress = Progress::new(3);
    progress.step("reading the model");
    let bytes = model::bytes(&args.file)?;
    progress.step("converting");
    let made = reader::import(
        &bytes,
        Some(&model::folder(&args.file)),
        &Options::default(),
    )
    .map_err(Error::from_engine)?;
    drop(bytes);
    progress.step("writing");
    let written = match args.to {
        Target::Safetensors => weights(made, &place(args, "safetensors")?)?,
        Target::Clematis => {
            let to = place(args, "graph")?;
            let text = made.graph.to_string();
            std::fs::write(&to, text).map_err(|e| Error::new(format!("{}: {e}", to.display())))?;
            let mut all = vec![to.clone()];
            all.extend(weights(made, &to.with_extension("safetensors"))?);
            all
        }
        Target::Onnx => onnx(made, &place(args, "onnx")?)?,
    };
    drop(progress);
    for path in written {
        let bytes = std::fs::metadata(&path).map_or(0, |m| m.len());
        terminal::say(&format!("{} ({})", path.display(), model::size(bytes)))?;
    }
    Ok(())
}

/// Weights under their paths, constants under numbers in the order of the program's last inputs.
fn weights(made: reader::Imported, to: &Path) -> Result<Vec<PathBuf>> {
    let mut pairs = Vec::new();
    for held in made.held {
        pairs.push((
            held.path,
            clematis::from_host(held.host).map_err(Error::from_engine)?,
        ));
    }
    for (i, x) in made.constants.into_iter().enumerate() {
        pairs.push((format!("constants.c{i}"), x));
    }
    checkpoint::save_pairs(to, &pairs).map_err(Error::from_engine)?;
    Ok(vec![to.to_path_buf()])
}

fn onnx(made: reader::Imported, to: &Path) -> Result<Vec<PathBuf>> {
    let mut names = writer::Names {
        inputs: made.inputs,
        outputs: made.outputs,
        ..Default::default()
    };
    let first = made.graph.inputs.len() - made.constants.len();
    for (i, held) in made.held.into_iter().enumerate() {
        names.values.insert(i, held.host);
    }
    for (i, x) in made.constants.iter().enumerate() {
        names
            .values
            .insert(first + i, x.to_host().map_err(Error::from_engine)?);
    }
    let model = writer::export(&made.graph, &names).map_err(Error::from_engine)?;
    let file = File::create(to).map_err(|e| Error::new(format!("{}: {e}", to.display())))?;
    model
        .write(&mut BufWriter::new(file))
        .map_err(Error::from_engine)?;
    Ok(vec![to.to_path_buf()])
}
