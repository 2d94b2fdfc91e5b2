//! Atomic file replacement.
//!
//! Data is written to a temporary file in the same folder, which is synced and renamed in one step. A killed process
//! leaves a temporary file behind; the next save of the same name removes it.

use super::kind::{follow, regular};
use clematis_core::{Error, Kind, Result};
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Temporary files of other processes younger than this are kept: they may not be locked yet.
const AGE: Duration = Duration::from_secs(60);
/// Names up to this many bytes are part of their temporary files' names; systems allow 255 in total.
const LONG: usize = 180;
/// Number of temporary names to try.
const TRIES: usize = 100;

static COUNT: AtomicU64 = AtomicU64::new(0);

/// Removes a temporary file or folder on drop unless it was renamed.
struct Temporary {
    path: PathBuf,
    is_folder: bool,
    is_done: bool,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // The first error is reported; a leftover file is only untidy.
        let _ = match self.is_folder {
            true => fs::remove_dir_all(&self.path),
            false => fs::remove_file(&self.path),
        };
    }
}

fn failed(what: &str, path: &Path, e: io::Error) -> Error {
    let words = format!("{what}: {}: cannot be written: {e}", path.display());
    Error::new(Kind::Io, words).with_source(e)
}

/// The folder of a path.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The prefix of a file's temporary names.
fn prefix(name: &OsStr) -> String {
    let text = name.to_string_lossy();
    if text.len() <= LONG {
        return format!(".{text}.");
    }
    let mut hash = DefaultHasher::new();
    name.hash(&mut hash);
    format!(".{:016x}.", hash.finish())
}

/// The file to replace: its folder and name after resolving links, and its metadata if it exists.
fn place(what: &str, path: &Path) -> Result<(PathBuf, Option<Metadata>)> {
    let failed = |e| failed(what, path, e);
    let target = follow(path).map_err(failed)?;
    let about = match fs::symlink_metadata(&target) {
        Ok(about) => Some(about),
        Err(e) if e.kind() == io::ErrorKind::NotFound => None,
        Err(e) => return Err(failed(e)),
    };
    if let Some(about) = &about {
        regular(what, path, about)?;
    }
    if target.file_name().is_none() || path.as_os_str().to_string_lossy().ends_with('/') {
        let e = io::Error::new(io::ErrorKind::InvalidInput, "this names no file");
        return Err(failed(e));
    }
    Ok((target, about))
}

/// Calls `make` with new names next to a path until one does not exist yet.
fn beside<T>(
    target: &Path,
    prefix: &str,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    for _ in 0..TRIES {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}{}-{number}.tmp", std::process::id());
        let path = folder(target).join(name);
        match make(&path) {
            Ok(made) => return Ok((path, made)),
            // Taken, for example by a process with this id on another machine.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    let words = "no free name for a temporary file";
    Err(io::Error::new(io::ErrorKind::AlreadyExists, words))
}

/// Creates a new file without following links. If it replaces a private file, nobody else may read it meanwhile.
fn create(path: &Path, is_private: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    if is_private {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    #[cfg(not(unix))]
    let _ = is_private;
    options.open(path)
}

/// Copies owner and mode of the replaced file.
fn keep(file: &File, old: &Metadata) -> io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, fchown};
        let new = file.metadata()?;
        // Changing the owner needs privileges; without them the process's owner stays.
        if new.uid() != old.uid() {
            let _ = fchown(file, Some(old.uid()), None);
        }
        if new.gid() != old.gid() {
            let _ = fchown(file, None, Some(old.gid()));
        }
    }
    file.set_permissions(old.permissions())
}

/// Syncs a folder, so that a rename is durable.
fn sync(folder: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    match File::open(folder).and_then(|f| f.sync_all()) {
        // Some file systems do not support syncing folders.
        Err(e)
            if matches!(
                e.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
            ) =>
        {
            Ok(())
        }
        other => other,
    }
}

/// Writes a file with `fill` and renames it into place. On any error an existing file of that name is unchanged.
/// `what` is the prefix of error messages.
///
/// Links are followed to their target. The mode of a replaced file is kept, and its owner if the process has the
/// privilege.
///
/// # Errors
/// Errors of `fill`; devices, FIFOs, sockets and directories are rejected.
pub fn replace<E: From<Error>>(
    what: &str,
    path: &Path,
    fill: impl FnOnce(&mut File) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let failed = |e| E::from(failed(what, path, e));
    let (target, old) = place(what, path)?;
    let prefix = prefix(target.file_name().unwrap_or_default());
    sweep(folder(&target), &prefix);
    let made = beside(&target, &prefix, |path| create(path, old.is_some()));
    let (path, mut file) = made.map_err(failed)?;
    let mut temporary = Temporary {
        path,
        is_folder: false,
        is_done: false,
    };
    // Marks the file as in use; where files cannot be locked, nothing is swept either.
    let _ = file.try_lock();
    fill(&mut file)?;
    if let Some(old) = &old {
        keep(&file, old).map_err(failed)?;
    }
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary.path, &target).map_err(failed)?;
    temporary.is_done = true;
    sync(folder(&target)).map_err(failed)
}

/// Writes bytes to a file atomically.
///
/// # Errors
/// As [`replace`].
pub fn write(what: &str, path: &Path, bytes: &[u8]) -> Result<()> {
    replace(what, path, |file| {
        file.write_all(bytes).map_err(|e| failed(what, path, e))
    })
}

/// Returns an error if a file could not be written there.
pub fn check_writable(what: &str, path: &Path) -> Result<()> {
    let (target, _) = place(what, path)?;
    let prefix = prefix(target.file_name().unwrap_or_default());
    let made = beside(&target, &prefix, |path| create(path, true));
    let (path, _) = made.map_err(|e| failed(what, path, e))?;
    drop(Temporary {
        path,
        is_folder: false,
        is_done: false,
    });
    Ok(())
}

/// Fills a temporary folder and renames it into place: a new folder is complete or absent.
///
/// # Errors
/// Errors of `fill`; an error if the name exists already.
pub fn new_folder<E: From<Error>>(
    what: &str,
    path: &Path,
    fill: impl FnOnce(&Path) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let failed = |e| E::from(failed(what, path, e));
    let Some(name) = path.file_name() else {
        let e = io::Error::new(io::ErrorKind::InvalidInput, "this names no folder");
        return Err(failed(e));
    };
    let made = beside(path, &prefix(name), |path| fs::create_dir(path));
    let (draft, ()) = made.map_err(failed)?;
    let mut temporary = Temporary {
        path: draft,
        is_folder: true,
        is_done: false,
    };
    fill(&temporary.path)?;
    sync(&temporary.path).map_err(failed)?;
    fs::rename(&temporary.path, path).map_err(failed)?;
    temporary.is_done = true;
    sync(folder(path)).map_err(failed)
}

/// Removes temporary files that killed processes left; errors are ignored.
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
        replace::<Error>("save", &path, |f| {
            f.write_all(b"old").unwrap();
            Ok(())
        })
        .unwrap();
        let out = replace::<Error>("save", &path, |f| {
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
            assert_eq!(write("save", &bad, b"").unwrap_err().kind(), Kind::Io);
        }
    }

    #[test]
    fn old_temporary_files_are_removed() {
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
        write("save", &folder.path().join("x"), b"").unwrap();
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
        write("save", &link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_to_a_file_that_is_not_there_makes_it_there() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("below"), folder.path().join("link"));
        std::os::unix::fs::symlink("below", &link).unwrap();
        write("save", &link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[cfg(unix)]
    #[test]
    fn devices_fifos_and_directories_are_refused_by_name_and_stay() {
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&fifo).status();
        assert!(made.unwrap().success());
        for (path, kind) in [
            (Path::new("/dev/null"), "a character device"),
            (&fifo, "a FIFO"),
            (folder.path(), "a directory"),
        ] {
            for done in [write("save", path, b"x"), check_writable("save", path)] {
                let message = done.unwrap_err().to_string();
                assert!(message.contains(kind), "{message}");
            }
        }
        let null = fs::metadata("/dev/null").unwrap().file_type();
        assert!(null.is_char_device());
        assert_eq!(names(folder.path()), ["fifo"]);
    }

    #[cfg(unix)]
    #[test]
    fn mode_and_owner_stay_and_names_may_be_as_long_as_the_system_allows() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("n".repeat(255));
        write("save", &path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        // Only root may change the owner.
        let owner = match std::os::unix::fs::chown(&path, Some(1234), Some(4321)) {
            Ok(()) => (1234, 4321),
            Err(_) => {
                let about = fs::metadata(&path).unwrap();
                (about.uid(), about.gid())
            }
        };
        write("save", &path, b"new").unwrap();
        let about = fs::metadata(&path).unwrap();
        assert_eq!(about.mode() & 0o7777, 0o640);
        assert_eq!((about.uid(), about.gid()), owner);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn readers_see_one_of_the_writers_files_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        write("save", &path, &[0; 4096]).unwrap();
        std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4u8)
                .map(|n| {
                    let path = &path;
                    scope.spawn(move || {
                        for i in 0..50u8 {
                            write("save", path, &vec![n * 50 + i; 4096]).unwrap();
                        }
                    })
                })
                .collect();
            while !writers.iter().all(|w| w.is_finished()) {
                let bytes = fs::read(&path).unwrap();
                assert!(bytes.len() == 4096 && bytes.iter().all(|b| *b == bytes[0]));
            }
        });
        assert_eq!(names(folder.path()), ["x"]);
    }

    #[test]
    fn a_new_folder_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let no = new_folder("convert", &path, |draft| {
            write("convert", &draft.join("a"), b"a")?;
            Err(Error::new(Kind::Io, "no"))
        });
        assert!(no.is_err());
        assert!(names(folder.path()).is_empty());
        new_folder("convert", &path, |draft| {
            write("convert", &draft.join("a"), b"a")
        })
        .unwrap();
        assert_eq!(names(&path), ["a"]);
        assert_eq!(names(folder.path()), ["new"]);
    }
}
