//! An output folder that is checked first and written atomically.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clematis::nn::file;

use crate::error::{Error, Result};

/// A writable folder.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Creates the folder and checks that it is writable, so that work does not end in a file that cannot be saved.
    /// `what` names the output in errors; `names` are the files to be written.
    pub fn open(path: &Path, what: &str, names: &[&str]) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Error::new(format!(
                "{}: {what} cannot be written to this folder: {error}",
                path.display()
            ))
        };
        fs::create_dir_all(path).map_err(refused)?;
        let folder = Folder {
            path: path.to_path_buf(),
        };
        for name in names.iter().chain(&["trial"]) {
            file::check_writable(what, &folder.at(name)).map_err(|e| {
                Error::new(format!(
                    "{}: {what} cannot be written to this folder: {}",
                    path.display(),
                    e.message()
                ))
            })?;
        }
        Ok(folder)
    }

    /// The path of a file.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file atomically.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let place = self.at(name);
        let folder = place.parent().unwrap_or(&self.path);
        fs::create_dir_all(folder).map_err(|error| failed(&place, &error))?;
        file::write("write", &place, text.as_bytes()).map_err(Error::from_engine)
    }

    /// Reads a file; a missing file is empty.
    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.at(name);
        if !path.exists() {
            return Ok(String::new());
        }
        let bytes = file::read("read", &path).map_err(Error::from_engine)?;
        // A kill may have split a character.
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Appends to a file with one write.
    pub fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.at(name);
        fs::File::options()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| failed(&path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::new(format!("{}: cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_written_read_and_added_to() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = Folder::open(&root.path().join("new"), "it", &["a"]).expect("writable");
        assert_eq!(folder.read("a").expect("read"), "");
        folder.write("a", "one\n").expect("written");
        folder.append("a", "two\n").expect("added");
        folder.write("below/b", "three").expect("written");
        assert_eq!(folder.read("a").expect("read"), "one\ntwo\n");
        assert_eq!(folder.read("below/b").expect("read"), "three");
        let left = fs::read_dir(root.path().join("new"))
            .expect("readable")
            .count();
        assert_eq!(left, 2, "no draft is left");
    }
}
