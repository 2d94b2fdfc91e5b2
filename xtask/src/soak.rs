//! Soak test, a long training run: `cargo xtask soak [--seconds N]`.

use std::process::Command;

use crate::{Failure, Outcome, shell};

/// The duration for a release.
const SECONDS: u64 = 30 * 60;

pub fn run(args: &[String]) -> Outcome {
    let seconds = seconds(args)?;
    let mut train = Command::new("cargo");
    train
        .args([
            "run",
            "--release",
            "-p",
            "clematis-compile",
            "--example",
            "bench_train",
            "--",
        ])
        .arg(format!("--soak={seconds}"))
        .current_dir(shell::root());
    Ok(shell::run(train)?)
}

fn seconds(args: &[String]) -> Result<u64, Failure> {
    let usage = |found: &str| Failure::Usage(format!("soak [--seconds N], not `{found}`"));
    match args {
        [] => Ok(SECONDS),
        [flag, count] if flag == "--seconds" => count.parse().map_err(|_| usage(count)),
        _ => Err(usage(&args.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_half_an_hour() {
        let words = |text: &str| {
            text.split_whitespace()
                .map(String::from)
                .collect::<Vec<_>>()
        };
        assert_eq!(seconds(&[]), Ok(1800));
        assert_eq!(seconds(&words("--seconds 7")), Ok(7));
        for wrong in ["--seconds", "--seconds soon", "7"] {
            assert!(matches!(seconds(&words(wrong)), Err(Failure::Usage(_))));
        }
    }
}
