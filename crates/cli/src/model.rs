//! Model files, and a progress bar for reading them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use clematis::Graph;
use clematis::nn::file;
use clematis_convert::export::model as format;
use clematis_convert::export::onnx::Names;
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, Result};
use crate::terminal;

/// The kind of a model file, by name and contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An ONNX model.
    Onnx,
    /// Weights, and optionally a program of ours.
    Safetensors,
}

/// Determines the kind of a file.
pub fn kind(path: &Path) -> Result<Kind> {
    let wrong = |e: std::io::Error| Error::new(format!("{}: {e}", path.display()));
    let (file, _) = file::open("read", path).map_err(Error::from_engine)?;
    let mut start = Vec::new();
    file.take(9).read_to_end(&mut start).map_err(wrong)?;
    let word = path.extension().and_then(|e| e.to_str());
    match word.unwrap_or_default().to_ascii_lowercase().as_str() {
        "onnx" => Ok(Kind::Onnx),
        "safetensors" | "clematis" => Ok(Kind::Safetensors),
        // A length of eight bytes, then a JSON object.
        _ if start.get(8) == Some(&b'{') => Ok(Kind::Safetensors),
        // The first field of an ONNX model is its version.
        _ if start.first() == Some(&8) && start.len() > 1 => Ok(Kind::Onnx),
        _ => Err(Error::new(format!(
            "{}: neither an ONNX model nor a safetensors file",
            path.display()
        ))),
    }
}

/// Adds the file name to an error that may not have it.
pub fn in_file(path: &Path, error: &clematis::Error) -> Error {
    let text = error.to_string();
    let name = path.display().to_string();
    Error::new(match text.contains(&name) {
        true => text,
        false => format!("{name}: {text}"),
    })
}

/// Loads a model's program and its weights.
pub fn load(path: &Path, kind: Kind, progress: &Progress) -> Result<(Graph, Names)> {
    let wrong = |e| in_file(path, &e);
    match kind {
        Kind::Safetensors => format::load(path).map_err(wrong),
        Kind::Onnx => {
            let bytes = bytes(path)?;
            progress.step("converting");
            let made = reader::import(&bytes, Some(&folder(path)), &Options::default());
            made.and_then(reader::Imported::ready).map_err(wrong)
        }
    }
}

/// Writes a file atomically.
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    file::replace("write", path, fill)
}

/// Returns an error if a file could not be written there.
pub fn check_writable(path: &Path) -> Result<()> {
    file::check_writable("write", path).map_err(Error::from_engine)
}

/// The folder of a model's external data.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// A progress bar on a terminal; nothing in a pipe.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new(steps: u64) -> Self {
        let (_, is_terminal) = terminal::are_terminals();
        Progress(is_terminal.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
            let bar = ProgressBar::new(steps);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        }))
    }

    /// Starts the next step.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.0 {
            bar.set_message(what.to_string());
            bar.inc(1);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// Reads a whole file, with a progress bar for large ones.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let wrong = |e: std::io::Error| Error::new(format!("{}: {e}", path.display()));
    let (mut file, size) = file::open("read", path).map_err(Error::from_engine)?;
    let size_limit = usize::try_from(size).unwrap_or(usize::MAX);
    clematis::limit::check_available("read", size_limit).map_err(|e| in_file(path, &e))?;
    let (_, is_terminal) = terminal::are_terminals();
    let bar = (is_terminal && size > 1 << 26).then(|| {
        let bar = ProgressBar::new(size);
        match ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    });
    let mut all = Vec::new();
    if all.try_reserve_exact(size_limit).is_err() {
        return Err(Error::new(format!(
            "{}: out of memory for {size} bytes",
            path.display(),
        )));
    }
    // Reads at most the announced size: files in /proc, and files that grow, may have more.
    while all.len() < size_limit {
        let more = (size_limit - all.len()).min(1 << 24) as u64;
        if (&mut file)
            .take(more)
            .read_to_end(&mut all)
            .map_err(wrong)?
            == 0
        {
            break;
        }
        if let Some(bar) = &bar {
            bar.set_position(all.len() as u64);
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(all)
}

/// Formats a number of bytes.
pub fn size(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut x = bytes as f64;
    let mut unit = 0;
    while x >= 1024.0 && unit + 1 < units.len() {
        x /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{x:.1} {}", units[unit])
    }
}
