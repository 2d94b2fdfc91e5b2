//! Checkpoints: saves and loads trees of tensors.
//!
//! A checkpoint is a safetensors file: tensors by path (`layers.v0.w`), and metadata with the format version, the
//! version of Clematis, the tree structure and two checksums. It is written to a temporary file in the same folder,
//! synced and renamed, so that a file with the final name is always complete. Loading never executes code.
//!
//! The format is implemented here instead of by the crate `safetensors`, which serves as reference in tests. That
//! crate needs the whole file in memory besides the tensors, uses eighteen times a header's size to read one, accepts
//! duplicate names, writes metadata in random order, and does not sync.

mod checksum;
mod structure;
mod raw_header;
mod header;
mod header_writer;
mod write;
mod read;

pub use read::Reader;
pub use structure::{DEPTH, Key, Structure};

use clematis_core::tree::{self, Path as TreePath, Tree};
use clematis_core::{Error, Kind, Result, Spec, Tensor, backend};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

/// A difference between a file and a tree, at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The path.
    pub path: String,
    /// What the tree has at the path, and what the file has.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path, self.what)
    }
}

impl Difference {
    /// A difference at a path; `None` if one side has nothing there.
    pub fn new(path: impl Into<String>, tree: Option<&str>, file: Option<&str>) -> Self {
        let what = match (tree, file) {
            (Some(tree), Some(file)) => format!("{tree} in the tree, {file} in the file"),
            (Some(tree), None) => format!("{tree} in the tree, nothing in the file"),
            (None, Some(file)) => format!("nothing in the tree, {file} in the file"),
            (None, None) => "nothing in the tree, nothing in the file".into(),
        };
        Difference {
            path: path.into(),
            what,
        }
    }

    /// A path that occurs twice in the tree or in the file.
    pub fn twice(path: impl Into<String>, side: &str) -> Self {
        Difference {
            path: path.into(),
            what: format!("two leaves of the {side} have this path"),
        }
    }

    /// Combines all differences into one error.
    pub fn error(path: &Path, all: &[Difference]) -> Error {
        let places = if all.len() == 1 { "place" } else { "places" };
        let mut message = format!(
            "load: {} and the tree differ in {} {places}:",
            path.display(),
            all.len()
        );
        for one in all {
            message.push_str(&format!("\n  {one}"));
        }
        Error::new(Kind::Io, message)
    }
}

/// The contents of a checkpoint, with tensors on the current backend.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The tensors by path, in the order of the structure.
    pub tensors: Vec<(String, Tensor)>,
    /// The tree structure, with the plain values in it.
    pub structure: Structure,
}

/// Saves a tree.
pub fn save(path: impl AsRef<Path>, tree: &(impl Tree + ?Sized)) -> Result<()> {
    let pairs: Vec<_> = tree::entries(tree)
        .into_iter()
        .map(|(path, _, x)| (path, x))
        .collect();
    save_pairs(path, &pairs)
}

/// Saves tensors by name; a dot in a name separates levels of the tree.
pub fn save_pairs(path: impl AsRef<Path>, pairs: &[(String, Tensor)]) -> Result<()> {
    let structure = Structure::from_paths(pairs.iter().map(|(name, _)| name.as_str()));
    save_structure(path, &structure, pairs)
}

/// Saves tensors with their tree structure; the tensors are its leaves.
pub fn save_structure(
    path: impl AsRef<Path>,
    structure: &Structure,
    pairs: &[(String, Tensor)],
) -> Result<()> {
    write::write(path.as_ref(), structure, pairs)
}

/// Loads a checkpoint, with tensors on the current backend.
pub fn load(path: impl AsRef<Path>) -> Result<Checkpoint> {
    let mut file = Reader::open(path.as_ref())?;
    let mut found: HashMap<String, Tensor> = HashMap::new();
    for (name, host) in file.read(|_| true)? {
        found.insert(name, clematis_core::ops::from_host(host)?);
    }
    let structure = file.into_structure();
    let mut tensors = Vec::new();
    for name in structure.tensors() {
        if let Some(x) = found.remove(&name) {
            tensors.push((name, x));
        }
    }
    Ok(Checkpoint { tensors, structure })
}

/// Loads a checkpoint into a tree: names, shapes and dtypes must match.
///
/// One error lists all differences, and the tree is unchanged. Without `strict`, leaves that differ are skipped and
/// returned. Each tensor is placed on the backend of the one that it replaces.
pub fn load_into(
    path: impl AsRef<Path>,
    tree: &mut (impl Tree + ?Sized),
    strict: bool,
) -> Result<Vec<Difference>> {
    let path = path.as_ref();
    let mut file = Reader::open(path)?;
    let own = tree::entries(tree);
    let differences = differences(
        own.iter().map(|(name, _, x)| (name.as_str(), x.spec())),
        &file,
    );
    if strict && !differences.is_empty() {
        return Err(Difference::error(path, &differences));
    }
    let skipped: HashSet<&str> = differences.iter().map(|d| d.path.as_str()).collect();
    let homes: HashMap<&str, &Tensor> = own.iter().map(|(n, _, x)| (n.as_str(), x)).collect();
    let mut new: HashMap<String, Tensor> = HashMap::new();
    for (name, host) in file.read(|name| homes.contains_key(name) && !skipped.contains(name))? {
        let x = match homes.get(name.as_str()).and_then(|x| x.backend()) {
            Some(backend) => backend::with(backend, || clematis_core::ops::from_host(host))?,
            None => clematis_core::ops::from_host(host)?,
        };
        new.insert(name, x);
    }
    tree.visit_mut(&mut TreePath::default(), &mut |at, _, x| {
        if let Some(value) = new.get(&at.to_string()) {
            *x = value.clone();
        }
    });
    Ok(differences)
}

/// The differences between the tensors of a tree and those of a file.
fn differences<'a>(
    tree: impl Iterator<Item = (&'a str, &'a Spec)>,
    file: &Reader,
) -> Vec<Difference> {
    let mut out = Vec::new();
    let mut seen = HashSet::new();
    for (name, own) in tree {
        if !seen.insert(name) {
            out.push(Difference::twice(name, "tree"));
            continue;
        }
        let found = file.spec(name);
        if found != Some(own) {
            let found = found.map(Spec::to_string);
            out.push(Difference::new(
                name,
                Some(&own.to_string()),
                found.as_deref(),
            ));
        }
    }
    for (name, found) in file.specs() {
        if !seen.contains(name) {
            out.push(Difference::new(name, None, Some(&found.to_string())));
        }
    }
    out
}
