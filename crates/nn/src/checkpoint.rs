//! Trees of tensors in files.
//!
//! A checkpoint is a safetensors file: tensors by their paths (`layers.v0.w`), and metadata with the version of the
//! format, the version of Clematis, the structure of the nest and two checksums. It is written to a temporary file in
//! the same folder, synced and renamed, so that a file of the wanted name is always whole. Nothing in it is ever run.
//!
//! The format is read and written here rather than by the crate `safetensors`, which the tests compare with: that one
//! wants the whole file in memory beside the tensors, takes eighteen times a header's size to read one, accepts a name that
//! stands twice, puts metadata down in a random order, and does not sync.

mod sum;
mod nest;
mod claim;
mod header;
mod draft;
mod write;
mod read;

pub use nest::{DEPTH, Key, Nest};
pub use read::Reader;

use clematis_core::tree::{self, Path as TreePath, Tree};
use clematis_core::{Error, Kind, Result, Spec, Tensor, backend};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;

/// What a file and a tree do not have in common, at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Where.
    pub path: String,
    /// What the tree has there and what the file has.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.path, self.what)
    }
}

impl Difference {
    /// At a path, the tree has one thing and the file another, or nothing.
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

    /// Two leaves of the tree, or of the file, that no name tells apart.
    pub fn twice(path: impl Into<String>, side: &str) -> Self {
        Difference {
            path: path.into(),
            what: format!("two leaves of the {side} have this path"),
        }
    }

    /// Every difference in one error.
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

/// What a file holds, with its tensors on the current backend.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The tensors by path, in the order of the structure.
    pub tensors: Vec<(String, Tensor)>,
    /// How they nest, with the plain values between them.
    pub structure: Nest,
}

/// Writes a tree.
pub fn save(path: impl AsRef<Path>, tree: &(impl Tree + ?Sized)) -> Result<()> {
    let pairs: Vec<_> = tree::entries(tree)
        .into_iter()
        .map(|(path, _, x)| (path, x))
        .collect();
    save_pairs(path, &pairs)
}

/// Writes tensors by name; a dot in a name is a level of nesting.
pub fn save_pairs(path: impl AsRef<Path>, pairs: &[(String, Tensor)]) -> Result<()> {
    let structure = Nest::from_paths(pairs.iter().map(|(name, _)| name.as_str()));
    save_nest(path, &structure, pairs)
}

/// Writes tensors with the structure that they stand in, whose leaves they are.
pub fn save_nest(
    path: impl AsRef<Path>,
    structure: &Nest,
    pairs: &[(String, Tensor)],
) -> Result<()> {
    write::write(path.as_ref(), structure, pairs)
}

/// Reads a file, its tensors onto the current backend.
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

/// Reads a file into a tree: names, shapes and element types must be the same.
///
/// Every difference is listed in one error, and the tree is then as it was. Unless `strict`, what differs is left as it
/// is and returned. Each tensor goes to the backend of the one that it replaces.
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
            Some(home) => backend::with(home, || clematis_core::ops::from_host(host))?,
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

/// What the tensors of a tree and those of a file do not have in common.
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
