//! Model files as the verbs meet them, and a bar that tells how far they are.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{Error, Result};
use crate::terminal;

/// What kind of file it is, by its name and by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Onnx,
    Safetensors,
}

/// Finds out what a file is.
pub fn kind(path: &Path) -> Result<Kind> {
    let mut file = File::open(path).map_err(|e| Error::new(format!("{}: {e}", path.display())))?;
    let mut start = [0u8; 9];
    let begun = file
        .read(&mut start)
        .map_err(|e| Error::new(format!("{}: {e}", path.display())))?;
    let word = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default()
        .to_ascii_lowercase();
    match word.as_str() {
        "onnx" => Ok(Kind::Onnx),
        "safetensors" => Ok(Kind::Safetensors),
        // A length of eight bytes, then an object.
        _ if begun == 9 && start[8] == b'{' => Ok(Kind::Safetensors),
        // The first field of a model is its version.
        _ if begun > 1 && start[0] == 8 => Ok(Kind::Onnx),
        _ => Err(Error::new(format!(
            "{}: neither an ONNX model nor a safetensors file",
            path.display()
        ))),
    }
}

/// The folder that a model's other files lie in.
pub fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// How far a verb is: a bar for a person who watches, nothing for a pipe.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    pub fn new(steps: u64) -> Self {
        let (_, watched) = terminal::watched();
        Progress(watched.then(|| {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
            let bar = ProgressBar::new(steps);
            match style {
                Ok(style) => bar.with_style(style),
                Err(_) => bar,
            }
        }))
    }

    /// The next step begins.
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

/// Reads a whole file, with a bar for large ones.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    let wrong = |e: std::io::Error| Error::new(format!("{}: {e}", path.display()));
    let mut file = File::open(path).map_err(wrong)?;
    let about = file.metadata().map_err(wrong)?;
    if !about.is_file() {
        return Err(Error::new(format!("{}: not a file", path.display())));
    }
    let (_, watched) = terminal::watched();
    let bar = (watched && about.len() > 1 << 26).then(|| {
        let bar = ProgressBar::new(about.len());
        match ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {bytes_per_sec}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    });
    let mut all = Vec::new();
    let room = usize::try_from(about.len()).unwrap_or(usize::MAX);
    if all.try_reserve_exact(room).is_err() {
        return Err(Error::new(format!(
            "{}: {} bytes do not fit into memory",
            path.display(),
            about.len()
        )));
    }
    let mut piece = (&mut file).take(1 << 24);
    while piece.read_to_end(&mut all).map_err(wrong)? > 0 {
        if let Some(bar) = &bar {
            bar.set_position(all.len() as u64);
        }
        piece.set_limit(1 << 24);
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    Ok(all)
}

/// A number of bytes for people.
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
