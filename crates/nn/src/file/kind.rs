//! File kinds and symbolic links.

use clematis_core::{Error, Kind, Result};
use std::fs::{self, FileType, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of links followed; the usual limit of operating systems.
const LINKS: usize = 40;

/// The name of a non-regular file kind.
fn name(kind: FileType) -> &'static str {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a FIFO";
        }
        if kind.is_char_device() {
            return "a character device";
        }
        if kind.is_block_device() {
            return "a block device";
        }
        if kind.is_socket() {
            return "a socket";
        }
    }
    if kind.is_dir() {
        "a directory"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else {
        "a special file"
    }
}

/// Returns an error unless this is a regular file.
pub fn regular(what: &str, path: &Path, about: &Metadata) -> Result<()> {
    if about.is_file() {
        return Ok(());
    }
    let kind = name(about.file_type());
    Err(Error::new(
        Kind::Io,
        format!(
            "{what}: {}: expected a regular file, got {kind}",
            path.display()
        ),
    ))
}

/// Resolves symbolic links, including a link to a file that does not exist yet.
pub fn follow(path: &Path) -> io::Result<PathBuf> {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        match fs::symlink_metadata(&at) {
            Ok(about) if about.file_type().is_symlink() => {
                let to = fs::read_link(&at)?;
                at = match at.parent() {
                    Some(folder) => folder.join(to),
                    None => to,
                };
            }
            Ok(_) => return Ok(at),
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(at),
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}
