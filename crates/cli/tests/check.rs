//! `clematis check` from a user's view.

#![allow(clippy::panic)] // clippy knows test functions, not what they call

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

fn check(out: &Path, args: &[&str]) -> Output {
    let mut command = Command::cargo_bin("clematis").expect("the binary is built");
    command.arg("check").args(args).arg("--out").arg(out);
    command.output().expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// Runs with `--json` and gives the object.
fn object(out: &Path, args: &[&str]) -> Value {
    let found = check(out, &[args, &["--json"]].concat());
    serde_json::from_slice(&found.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&found.stderr)))
}

#[test]
fn a_selection_is_run_and_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("deep/check");
    let found = check(&out, &["--backend", "native", "add", "relu"]);
    let said = text(&found.stdout);
    assert!(found.status.success(), "{said}{}", text(&found.stderr));
    for wanted in ["test_add", "test_relu", "native", "0 failed", "index.html"] {
        assert!(said.contains(wanted), "{wanted} is not in\n{said}");
    }
    let success = "| `test_add` | ![success](badges/success.svg)<br>";
    assert!(read(&out, "ops.md").contains(success));
    assert!(read(&out, "gradients.md").contains(success));
    assert!(read(&out, "badges/success.svg").starts_with("<svg"));
    for name in [
        "layers",
        "random",
        "modules",
        "converters",
        "custom-gradients",
        "array-api",
    ] {
        assert!(
            read(&out, &format!("{name}.md")).starts_with("# "),
            "{name}"
        );
    }
    assert!(read(&out, "index.html").contains("test_relu"));
    assert!(read(&out, "results.jsonl").lines().count() > 40);
    assert_eq!(read(&out, "partial.jsonl"), "");
    let past: Value = serde_json::from_str(&read(&out, "history.jsonl")).expect("one line");
    assert_eq!(past["filter"], "add relu --backend native");
    assert_eq!(past["backends"]["native"]["failed"], 0);
    let left: Vec<_> = std::fs::read_dir(&out)
        .expect("readable")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn other_results_stay_and_the_history_grows() {
    let folder = tempfile::tempdir().expect("a folder");
    object(folder.path(), &["sinh"]);
    let second = object(folder.path(), &["cosh", "--dtype", "f32"]);
    assert_eq!(second["resumed"], 0);
    assert_eq!(second["backends"][0]["failed"], 0);
    let page = read(folder.path(), "ops.md");
    assert!(
        page.contains("test_sinh") && page.contains("test_cosh"),
        "{page}"
    );
    assert_eq!(read(folder.path(), "history.jsonl").lines().count(), 2);
    // Stale results are not shown: here, results of a core version that never existed.
    let old = read(folder.path(), "results.jsonl").replace("\"core\":\"", "\"core\":\"0.0.");
    std::fs::write(folder.path().join("results.jsonl"), old).expect("written");
    object(folder.path(), &["tanh"]);
    let page = read(folder.path(), "ops.md");
    assert!(
        !page.contains("test_sinh") && page.contains("test_tanh"),
        "{page}"
    );
    object(folder.path(), &["cosh", "--fresh"]);
    assert!(!read(folder.path(), "ops.md").contains("test_tanh"));
    assert_eq!(read(folder.path(), "history.jsonl").lines().count(), 4);
}

/// Starts a full run and kills it after its first results.
fn interrupted(out: &Path) {
    let mut child = std::process::Command::new(assert_cmd::cargo::cargo_bin("clematis"))
        .args(["check", "--out"])
        .arg(out)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let start = Instant::now();
    let partial = out.join("partial.jsonl");
    let lines = || std::fs::read_to_string(&partial).map_or(0, |text| text.lines().count());
    while lines() < 200 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().expect("it is ours");
    child.wait().expect("it ends");
}

#[test]
fn a_run_that_was_killed_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    interrupted(folder.path());
    let kept = read(folder.path(), "partial.jsonl").lines().count();
    assert!(kept >= 200, "{kept}");
    // Simulates a kill in the middle of a line.
    let torn = read(folder.path(), "partial.jsonl") + "{\"dashboard\":\"ops\",\"row\":\"te";
    std::fs::write(folder.path().join("partial.jsonl"), torn).expect("written");
    let first = read(folder.path(), "partial.jsonl");
    let first: Value = serde_json::from_str(first.lines().next().expect("a line")).expect("JSON");
    let part = object(folder.path(), &[first["row"].as_str().expect("a name")]);
    assert!(part["resumed"].as_u64() > Some(0), "{part}");
    let whole = object(folder.path(), &[]);
    assert!(whole["resumed"].as_u64() > Some(20), "{whole}");
    assert_eq!(whole["failures"], Value::Array(Vec::new()));
    assert!(
        whole["backends"][0]["passed"].as_u64() > Some(3000),
        "{whole}"
    );
    assert_eq!(read(folder.path(), "partial.jsonl"), "");
    // A finished run is run again.
    assert_eq!(object(folder.path(), &["add"])["resumed"], 0);
}

#[test]
fn results_of_another_build_are_not_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    interrupted(folder.path());
    let other = read(folder.path(), "partial.jsonl").replace("\"build\":\"", "\"build\":\"0");
    std::fs::write(folder.path().join("partial.jsonl"), other).expect("written");
    assert_eq!(object(folder.path(), &[])["resumed"], 0);
}

#[test]
fn results_of_other_runners_are_imported() {
    let folder = tempfile::tempdir().expect("a folder");
    let rows = folder.path().join("rows.jsonl");
    let line = r#"{"dashboard":"layers","row":"test_conv2d","backend":"torch","state":"failed","message":"off by 2","seconds":0.5}"#;
    std::fs::write(&rows, line).expect("written");
    let out = folder.path().join("out");
    let rows = rows.to_string_lossy();
    let found = check(&out, &["--no-run", "--rows", &rows]);
    assert_eq!(found.status.code(), Some(1), "a failure is a failure");
    let said = text(&found.stdout);
    assert!(said.contains("test_conv2d on torch: off by 2"), "{said}");
    assert!(text(&found.stderr).contains("1 result is a failure"));
    let page = read(&out, "layers.md");
    assert!(
        page.contains("| `test_conv2d` | ![failure](badges/failure.svg) |"),
        "{page}"
    );
    // They are kept, and a run without them is not judged by them.
    let later = check(&out, &["add"]);
    assert!(later.status.success(), "{}", text(&later.stderr));
    assert!(read(&out, "index.html").contains("off by 2"));
    let missing = check(&out, &["--rows", "no-such-file"]);
    assert!(text(&missing.stderr).contains("no-such-file: cannot be read"));
    std::fs::write(folder.path().join("bad"), format!("{line}\nnonsense")).expect("written");
    let bad = check(
        &out,
        &["--rows", &folder.path().join("bad").to_string_lossy()],
    );
    assert!(
        text(&bad.stderr).contains("line 2"),
        "{}",
        text(&bad.stderr)
    );
}

#[test]
fn unknown_names_are_rejected_with_the_known_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    for (args, wanted, code) in [
        (&["no_such_op"][..], "conv_general", 1),
        (&["--backend", "nativ"], "native", 2),
        (&["--dtype", "f128"], "bf16", 2),
        (&["sinh", "--dtype", "bool"], "f32", 1),
    ] {
        let found = check(&out, args);
        let complaint = text(&found.stderr);
        assert_eq!(found.status.code(), Some(code), "{args:?}: {complaint}");
        assert!(complaint.contains(wanted), "{args:?}: {complaint}");
        assert!(!out.exists(), "{args:?}");
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "in the way").expect("written");
    let complaint = text(&check(&file, &["add"]).stderr);
    assert!(
        complaint.contains("cannot be written to this folder"),
        "{complaint}"
    );
}

#[test]
fn the_list_names_tests_types_and_cases() {
    let folder = tempfile::tempdir().expect("a folder");
    let found = check(&folder.path().join("out"), &["--list", "conv", "uniform"]);
    let said = text(&found.stdout);
    for wanted in [
        "test_conv_general",
        "bf16",
        "cases",
        "test_random_uniform",
        "Random numbers",
    ] {
        assert!(said.contains(wanted), "{wanted} is not in\n{said}");
    }
    assert!(!folder.path().join("out").exists());
}
