//! Coverage-guided fuzzing: `cargo xtask fuzz [--hours N] [--target T]`.
//!
//! Needs a nightly toolchain and `cargo install cargo-fuzz`. New inputs are kept in `target/fuzz/corpus`, crashes in
//! `target/fuzz/artifacts`; inputs worth keeping are moved to `fuzz/corpus`, which the tests replay.

use std::path::Path;
use std::process::Command;

use crate::{Failure, Outcome, shell};

/// The targets, as in `fuzz/src/lib.rs`.
const TARGETS: [&str; 6] = ["safetensors", "model", "onnx", "graph", "npy", "manifest"];

const USAGE: &str = "fuzz [--hours N] [--target NAME]";

#[derive(Debug, PartialEq)]
struct Options {
    hours: f64,
    targets: Vec<&'static str>,
}

pub fn run(args: &[String]) -> Outcome {
    let options = options(args)?;
    let root = shell::root();
    let seconds = (options.hours * 3600.0 / options.targets.len() as f64).max(1.0) as u64;
    for target in &options.targets {
        println!("fuzz: {target} for {seconds} s");
        shell::run(command(&root, target, seconds)?)?;
    }
    Ok(())
}

fn command(root: &Path, target: &str, seconds: u64) -> Result<Command, String> {
    let kept = root.join("target/fuzz/corpus").join(target);
    let artifacts = root.join("target/fuzz/artifacts").join(target);
    for folder in [&kept, &artifacts] {
        std::fs::create_dir_all(folder)
            .map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
    }
    let mut fuzz = Command::new("cargo");
    fuzz.current_dir(root);
    // The code under test has no unsafe: bounds and overflow are checked without a sanitizer, which would halve the
    // speed.
    fuzz.args(["+nightly", "fuzz", "run", "-s", "none", target]);
    fuzz.arg(&kept).arg(root.join("fuzz/corpus").join(target));
    fuzz.arg("--");
    fuzz.arg(format!("-max_total_time={seconds}"));
    // The target itself limits time and memory per input; these limits end a run that the target cannot.
    fuzz.args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384"]);
    fuzz.arg(format!("-artifact_prefix={}/", artifacts.display()));
    Ok(fuzz)
}

fn options(args: &[String]) -> Result<Options, Failure> {
    let mut found = Options {
        hours: 1.0,
        targets: TARGETS.to_vec(),
    };
    let mut rest = args.iter();
    while let Some(word) = rest.next() {
        let wrong = || Failure::Usage(format!("{USAGE}, not `{}`", args.join(" ")));
        let value = rest.next().ok_or_else(wrong)?;
        match word.as_str() {
            "--hours" => {
                let hours: f64 = value.parse().map_err(|_| wrong())?;
                if !(hours > 0.0 && hours.is_finite()) {
                    return Err(wrong());
                }
                found.hours = hours;
            }
            "--target" => {
                let known = TARGETS.iter().find(|t| *t == value);
                let unknown = || {
                    let all = TARGETS.join(", ");
                    Failure::Usage(format!("fuzz: expected one of {all}, got `{value}`"))
                };
                found.targets = vec![known.ok_or_else(unknown)?];
            }
            _ => return Err(wrong()),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_and_targets_are_read() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        let found = options(&words("--hours 0.5 --target onnx")).unwrap();
        assert_eq!((found.hours, found.targets), (0.5, vec!["onnx"]));
        assert_eq!(options(&[]).unwrap().targets.len(), 6);
        for wrong in ["--hours", "--hours soon", "--hours 0", "--target x", "7 8"] {
            assert!(matches!(options(&words(wrong)), Err(Failure::Usage(_))));
        }
    }
}
