//! Checks that the library compiles for other targets.

use std::process::Command;

use crate::{Outcome, shell};

/// The targets: `cargo check` needs a target's standard library but no linker.
const TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-gnu",
];

/// The result for a target.
#[derive(Debug, PartialEq, Eq)]
enum Status {
    Good,
    /// rustup could not add it, with the reason.
    Unavailable(String),
    Bad,
}

pub fn run() -> Outcome {
    let mut statuses = Vec::new();
    for target in TARGETS {
        statuses.push((*target, check(target)));
    }
    println!("{}", table(&statuses));
    match statuses.iter().any(|(_, status)| *status == Status::Bad) {
        true => Err("targets: some do not compile, see above".to_string().into()),
        false => Ok(()),
    }
}

fn check(target: &str) -> Status {
    let mut add = Command::new("rustup");
    add.args(["target", "add", target])
        .current_dir(shell::root());
    if let Err(reason) = shell::output(add) {
        return Status::Unavailable(reason);
    }
    let args = ["check", "--package", "clematis", "--target", target];
    match shell::run(shell::cargo(&args)) {
        Ok(()) => Status::Good,
        Err(_) => Status::Bad,
    }
}

fn table(statuses: &[(&str, Status)]) -> String {
    let width = statuses
        .iter()
        .map(|(name, _)| name.len())
        .max()
        .unwrap_or(0);
    let mut lines = Vec::new();
    for (name, status) in statuses {
        let said = match status {
            Status::Good => "compiles".to_string(),
            Status::Bad => "does not compile".to_string(),
            // The last line of rustup's output is the reason; the rest is progress.
            Status::Unavailable(reason) => {
                let last = reason.lines().rfind(|line| !line.trim().is_empty());
                format!("not checked: {}", last.unwrap_or("rustup failed").trim())
            }
        };
        lines.push(format!("{name:<width$}  {said}"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_was_not_checked_and_why() {
        let statuses = [
            ("a", Status::Good),
            ("bcd", Status::Bad),
            (
                "ef",
                Status::Unavailable("info: syncing\nerror: no network\n".into()),
            ),
        ];
        let expected = "a    compiles\nbcd  does not compile\nef   not checked: error: no network";
        assert_eq!(table(&statuses), expected);
    }
}
