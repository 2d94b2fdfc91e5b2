//! The binary from a user's view.

use assert_cmd::Command;
use std::process::Output;

/// Runs `clematis` in an empty folder, so that nothing is written into the checkout.
fn clematis(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::cargo_bin("clematis").expect("the binary is built");
    command
        .args(args)
        .current_dir(&folder)
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a command line that must fail, and returns its error message.
fn refused(args: &[&str], code: i32) -> String {
    let out = clematis(args);
    let complaint = text(&out.stderr);
    assert_eq!(out.status.code(), Some(code), "{args:?}: {complaint}");
    assert!(out.stdout.is_empty(), "{args:?}: {}", text(&out.stdout));
    assert!(!complaint.contains("panicked"), "{args:?}: {complaint}");
    complaint
}

#[test]
fn help_names_the_commands() {
    let out = clematis(&["--help"]);
    assert!(out.status.success());
    for command in ["demo", "check", "backends"] {
        assert!(text(&out.stdout).contains(command), "{command}");
    }
}

#[test]
fn help_of_a_command_names_its_options() {
    let out = clematis(&["demo", "--help"]);
    assert!(out.status.success());
    for option in [
        "--seed",
        "--epochs",
        "--backend",
        "--threads",
        "--data",
        "--out",
        "--json",
    ] {
        assert!(text(&out.stdout).contains(option), "{option}");
    }
}

#[test]
fn version_is_the_crates_version() {
    let out = clematis(&["--version"]);
    assert!(out.status.success());
    let wanted = format!("clematis {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(text(&out.stdout), wanted);
}

#[test]
fn backends_lists_the_native_engine() {
    let out = clematis(&["backends"]);
    assert!(out.status.success());
    assert!(text(&out.stdout).contains("native"));
}

#[test]
fn an_unknown_command_gets_a_suggestion() {
    let complaint = refused(&["backend"], 2);
    assert!(complaint.contains("'backends'"), "{complaint}");
    let complaint = refused(&["dmo"], 2);
    assert!(complaint.contains("'demo'"), "{complaint}");
}

#[test]
fn an_unknown_flag_gets_a_suggestion() {
    let complaint = refused(&["demo", "--epoch", "3"], 2);
    assert!(complaint.contains("'--epochs'"), "{complaint}");
    refused(&["demo", "--no-such-thing"], 2);
}

#[test]
fn an_unknown_backend_is_rejected_with_the_known_ones() {
    let complaint = refused(&["demo", "--backend", "nativ"], 2);
    assert!(complaint.contains("native"), "{complaint}");
}

#[test]
fn invalid_numbers_are_rejected() {
    let complaint = refused(&["demo", "--epochs", "0"], 2);
    assert!(complaint.contains("at least 1"), "{complaint}");
    refused(&["demo", "--epochs", "many"], 2);
    refused(&["demo", "--epochs", "-3"], 2);
    refused(&["demo", "--threads", "0"], 2);
    refused(&["demo", "--seed", "-1"], 2);
}

#[test]
fn an_unwritable_folder_is_refused_before_training() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").expect("written");
    for out in [file.clone(), file.join("below")] {
        let complaint = refused(&["demo", "--out", &out.to_string_lossy()], 1);
        assert!(
            complaint.contains("cannot be written to this folder"),
            "{complaint}"
        );
        assert!(complaint.contains("file"), "{complaint}");
    }
    assert_eq!(
        std::fs::read(&file).ok().as_deref(),
        Some(&b"in the way"[..])
    );
}

#[test]
fn damaged_data_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("digits.csv.gz");
    let out = folder.path().join("out");
    std::fs::write(&data, b"\x1f\x8b\x08\x00 not really").expect("written");
    let args = [
        "demo",
        "--data",
        &data.to_string_lossy(),
        "--out",
        &out.to_string_lossy(),
    ];
    let complaint = refused(&args, 1);
    assert!(
        complaint.contains("digits.csv.gz: not a whole gzip file"),
        "{complaint}"
    );
    assert!(!out.exists());
    let missing = folder.path().join("missing.gz");
    let complaint = refused(&["demo", "--data", &missing.to_string_lossy()], 1);
    assert!(complaint.contains("cannot be opened"), "{complaint}");
}
