//! Files stay complete through kills, full disks, unwritable folders and concurrent writers.

#![allow(clippy::unwrap_used, clippy::panic)] // every line of a test may fail it

use clematis_nn::file;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Size of each version: enough for a kill to interrupt a write.
const SIZE: usize = 1 << 20;
const CHILD: &str = "CLEMATIS_FILE_TEST";

fn version(n: u8) -> Vec<u8> {
    vec![n; SIZE]
}

/// Checks that the file is one complete version.
fn is_whole(path: &Path) -> u8 {
    let bytes = fs::read(path).unwrap();
    assert_eq!(bytes.len(), SIZE);
    assert!(bytes.iter().all(|b| *b == bytes[0]), "two versions in one");
    bytes[0]
}

/// Runs this test in another process, which writes to a path; `before` is shell code that runs first.
fn writer(path: &Path, before: &str) -> Command {
    let own = std::env::current_exe().unwrap();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!(
        "{before} exec \"$0\" --exact writes_until_it_is_killed"
    ));
    shell.arg(own).env(CHILD, path);
    shell.stdout(Stdio::null()).stderr(Stdio::null());
    shell
}

// Does nothing unless it is started by the tests below.
#[test]
fn writes_until_it_is_killed() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    for n in (0..=u8::MAX).cycle() {
        if let Err(e) = file::write("save", &path, &version(n)) {
            fs::write(path.with_extension("error"), e.to_string()).unwrap_or_default();
            return;
        }
    }
}

#[test]
fn kills_leave_the_old_file_or_the_new_one() {
    let kills: u64 = std::env::var("CLEMATIS_KILLS").map_or(50, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    file::write("save", &path, &version(0)).unwrap();
    // How long a process takes to its first write, on this machine and under its load.
    let start = Instant::now();
    let mut child = writer(&path, "").spawn().unwrap();
    while is_whole(&path) == 0 {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "nothing was written"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let first_write = start.elapsed();
    child.kill().unwrap();
    child.wait().unwrap();
    for i in 0..kills {
        let mut child = writer(&path, "").spawn().unwrap();
        // Kills from before the first write to the middle of a later one.
        std::thread::sleep(first_write.mul_f64((i * 7919 % 2000) as f64 / 1000.0));
        child.kill().unwrap();
        child.wait().unwrap();
        is_whole(&path);
    }
    // Only temporary files are left behind, which a later save of this name removes.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if name != "x" {
            assert!(name.starts_with(".x.") && name.ends_with(".tmp"), "{name}");
            let left = fs::File::options().write(true).open(entry.path()).unwrap();
            let hour = std::time::SystemTime::now() - Duration::from_secs(3600);
            left.set_modified(hour).unwrap();
        }
    }
    file::write("save", &path, &version(1)).unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_full_disk_leaves_the_old_file_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    file::write("save", &path, &version(7)).unwrap();
    // Limits files to half the size that is written, and ignores the signal for that, as Python does.
    let limit = format!("trap '' XFSZ; ulimit -f {};", SIZE / 1024);
    let done = writer(&path, &limit).status().unwrap();
    assert!(done.success());
    let error = fs::read_to_string(path.with_extension("error")).unwrap();
    assert!(
        error.contains("save: ") && error.contains("/x: "),
        "{error}"
    );
    fs::remove_file(path.with_extension("error")).unwrap();
    assert_eq!(is_whole(&path), 7);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_folder_that_cannot_be_written_to_stays_as_it_was() {
    // Not even root can write there.
    for place in ["/sys/clematis", "/proc/clematis", "/no/such/folder/x"] {
        let error = file::write("save", Path::new(place), b"x").unwrap_err();
        assert!(
            error.to_string().starts_with(&format!("save: {place}: ")),
            "{error}"
        );
        assert!(file::check_writable("save", Path::new(place)).is_err());
    }
}

#[test]
fn processes_that_write_beside_each_other_leave_a_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    file::write("save", &path, &version(0)).unwrap();
    let mut children: Vec<_> = (0..3).map(|_| writer(&path, "").spawn().unwrap()).collect();
    for _ in 0..100 {
        is_whole(&path);
        std::thread::sleep(Duration::from_millis(2));
    }
    for child in &mut children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    is_whole(&path);
}
