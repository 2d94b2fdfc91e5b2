//! A file that is whole or not there.
//!
//! What is written goes to a temporary file in the same folder, which is synced and takes the wanted name in one step. A
//! process that is killed leaves a temporary file behind; the next save of the same name removes it.

use clematis_core::{Error, Kind, Result};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Temporary files of other processes are left alone until they are this old: they may be about to be locked.
const AGE: Duration = Duration::from_secs(60);

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Removes a temporary file unless it has got its name.
struct Temporary {
    path: PathBuf,
    is_done: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Writes a file by `fill`, then gives it its name; whatever fails, a file of that name is as it was.
pub fn replace(path: &Path, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    let failed = |e: io::Error| {
        Error::new(Kind::Io, format!("save: {}: {e}", path.display())).with_source(e)
    };
    // A link stays one: what it points to is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let no_name = || io::Error::new(io::ErrorKind::InvalidInput, "this names no file");
    let name = target.file_name().ok_or_else(no_name).map_err(failed)?;
    if target.is_dir() {
        return Err(failed(io::Error::new(
            io::ErrorKind::IsADirectory,
            "this is a folder",
        )));
    }
    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let prefix = format!(".{}.", name.to_string_lossy());
    sweep(folder, &prefix);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = folder.join(format!("{prefix}{}-{number}.tmp", std::process::id()));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&temporary)
        .map_err(failed)?;
    let mut temporary = Temporary {
        path: temporary,
        is_done: false,
    };
    // Tells others that somebody is at it; where files cannot be locked nothing is swept either.
    let _ = file.try_lock();
    if let Ok(old) = fs::metadata(&target) {
        file.set_permissions(old.permissions()).map_err(failed)?;
    }
    fill(&mut file)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary.path, &target).map_err(failed)?;
    temporary.is_done = true;
    // The name itself is part of the folder.
    if cfg!(unix) {
        File::open(folder)
            .and_then(|f| f.sync_all())
            .map_err(failed)?;
    }
    Ok(())
}

/// Removes what killed processes left; failing to do so harms nothing.
fn sweep(folder: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Some(middle) = name
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_suffix(".tmp"))
        else {
            continue;
        };
        let is_ours = |c: char| c.is_ascii_digit() || c == '-';
        let old = |e: &fs::DirEntry| -> Option<bool> {
            let made = e.metadata().ok().filter(|m| m.is_file())?.modified().ok()?;
            Some(made.elapsed().ok()? > AGE)
        };
        if !middle.is_empty() && middle.chars().all(is_ours) && old(&entry) == Some(true) {
            let free = File::open(entry.path()).is_ok_and(|f| f.try_lock().is_ok());
            if free {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::SystemTime;

    fn names(folder: &Path) -> Vec<String> {
        let all = fs::read_dir(folder).unwrap();
        let mut all: Vec<_> = all
            .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        all.sort();
        all
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        replace(&path, |f| {
            f.write_all(b"old").unwrap();
            Ok(())
        })
        .unwrap();
        let out = replace(&path, |f| {
            f.write_all(b"new").unwrap();
            Err(Error::new(Kind::Io, "no"))
        });
        assert!(out.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["x"]);
        for bad in [
            folder.path().to_owned(),
            folder.path().join("no/x"),
            PathBuf::from(".."),
        ] {
            assert_eq!(replace(&bad, |_| Ok(())).unwrap_err().kind(), Kind::Io);
        }
    }

    #[test]
    fn what_was_left_behind_is_removed_once_it_is_old() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            ".x.1-0.tmp",
            ".x.2-0.tmp",
            ".x.3-0.tmp",
            ".x.mine.tmp",
            ".y.1-0.tmp",
        ] {
            let file = File::create(folder.path().join(name)).unwrap();
            if name != ".x.2-0.tmp" {
                file.set_modified(SystemTime::now() - 2 * AGE).unwrap();
            }
        }
        let busy = File::open(folder.path().join(".x.3-0.tmp")).unwrap();
        busy.try_lock().unwrap();
        replace(&folder.path().join("x"), |_| Ok(())).unwrap();
        assert_eq!(
            names(folder.path()),
            [".x.2-0.tmp", ".x.3-0.tmp", ".x.mine.tmp", ".y.1-0.tmp", "x"]
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_link_stays_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        replace(&link, |f| {
            f.write_all(b"new").unwrap();
            Ok(())
        })
        .unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }
}
