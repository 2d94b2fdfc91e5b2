//! Reads whole files after checking kind and size.

use super::kind::regular;
use clematis_core::limit::check_available;
use clematis_core::{Error, Kind, Result};
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

fn failed(what: &str, path: &Path, e: io::Error) -> Error {
    Error::new(Kind::Io, format!("{what}: {}: {e}", path.display())).with_source(e)
}

/// Opens a regular file; returns it with its size. Other kinds could block or never end.
pub fn open(what: &str, path: &Path) -> Result<(File, u64)> {
    // Opening a FIFO would wait for a writer, so the path is checked before opening, and the file again afterwards.
    let about = fs::metadata(path).map_err(|e| failed(what, path, e))?;
    regular(what, path, &about)?;
    let file = File::open(path).map_err(|e| failed(what, path, e))?;
    let about = file.metadata().map_err(|e| failed(what, path, e))?;
    regular(what, path, &about)?;
    Ok((file, about.len()))
}

/// Reads a regular file, if the memory limit allows.
pub fn read(what: &str, path: &Path) -> Result<Vec<u8>> {
    let (file, size) = open(what, path)?;
    let too_large = || {
        let words = format!("{what}: {}: out of memory for {size} bytes", path.display());
        Error::new(Kind::Io, words)
    };
    let bytes = usize::try_from(size).map_err(|_| too_large())?;
    check_available(what, bytes)?;
    let mut all = Vec::new();
    all.try_reserve_exact(bytes).map_err(|_| too_large())?;
    // Reads at most the announced size: files in /proc, and files that grow, may have more.
    let mut file = file.take(size);
    file.read_to_end(&mut all)
        .map_err(|e| failed(what, path, e))?;
    if all.len() < bytes {
        let words = format!(
            "{what}: {}: expected {bytes} bytes, got {}: the file shrank while it was read",
            path.display(),
            all.len()
        );
        return Err(Error::new(Kind::Io, words));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn devices_fifos_and_directories_are_named_and_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for (path, kind) in [
            (Path::new("/dev/zero"), "a character device"),
            (&fifo, "a FIFO"),
            (folder.path(), "a directory"),
        ] {
            let message = read("load", path).unwrap_err().to_string();
            assert!(message.contains(kind), "{message}");
        }
    }
}
