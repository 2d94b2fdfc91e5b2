//! A folder that a verb writes to: it is tried first, and files appear in it whole or not at all.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A folder that can be written to.
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes the folder and tries to write there, so that work never ends in a file that cannot be saved. `what` is
    /// what a complaint speaks of; `names` are the files to come.
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
        for name in names {
            if folder.at(name).is_dir() {
                let why = format!("{name} is a folder");
                return Err(refused(std::io::Error::new(ErrorKind::IsADirectory, why)));
            }
        }
        let draft = folder.draft("trial");
        fs::File::create(&draft)
            .and_then(|_| fs::remove_file(&draft))
            .map_err(refused)?;
        Ok(folder)
    }

    /// Where a file of this name is.
    pub fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes a file beside its place and moves it there, so that no reader sees half of it.
    pub fn write(&self, name: &str, text: &str) -> Result<()> {
        let (place, draft) = (self.at(name), self.draft(name));
        let folder = place.parent().unwrap_or(&self.path);
        let written = fs::create_dir_all(folder)
            .and_then(|()| fs::File::create(&draft))
            .and_then(|mut file| {
                file.write_all(text.as_bytes())?;
                file.sync_all()
            })
            .and_then(|()| fs::rename(&draft, &place));
        if written.is_err() {
            // The first error is the one to tell; a draft that cannot be removed either is only untidy.
            let _ = fs::remove_file(&draft);
        }
        written.map_err(|error| failed(&place, &error))
    }

    /// Reads a file; one that is not there has no text.
    pub fn read(&self, name: &str) -> Result<String> {
        let path = self.at(name);
        match fs::read(&path) {
            // A kill may have cut a character in two.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(Error::new(format!(
                "{}: cannot be read: {error}",
                path.display()
            ))),
        }
    }

    /// Adds to the end of a file, in one piece.
    pub fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.at(name);
        fs::File::options()
            .append(true)
            .create(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| failed(&path, &error))
    }

    /// A file in the folder, of this process alone. One left by a dead process of the same number is taken over.
    fn draft(&self, name: &str) -> PathBuf {
        let name = name.replace('/', "-");
        self.path.join(format!(".{name}.{}", std::process::id()))
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
