//! Whether the library compiles for the machines that people have, without one of each at hand.

use std::process::Command;

use crate::{Outcome, shell};

/// What is checked: `cargo check` needs a target's standard library and no linker.
const TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-gnu",
];

/// How a target fared.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    Good,
    /// rustup could not add it, for this reason.
    NotThere(String),
    Bad,
}

pub fn run() -> Outcome {
    let mut fates = Vec::new();
    for target in TARGETS {
        fates.push((*target, check(target)));
    }
    println!("{}", table(&fates));
    match fates.iter().any(|(_, fate)| *fate == Fate::Bad) {
        true => Err("targets: some do not compile, see above".to_string().into()),
        false => Ok(()),
    }
}

fn check(target: &str) -> Fate {
    let mut add = Command::new("rustup");
    add.args(["target", "add", target])
        .current_dir(shell::root());
    if let Err(reason) = shell::output(add) {
        return Fate::NotThere(reason);
    }
    let args = ["check", "--package", "clematis", "--target", target];
    match shell::run(shell::cargo(&args)) {
        Ok(()) => Fate::Good,
        Err(_) => Fate::Bad,
    }
}

fn table(fates: &[(&str, Fate)]) -> String {
    let width = fates.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for (name, fate) in fates {
        let said = match fate {
            Fate::Good => "compiles".to_string(),
            Fate::Bad => "does not compile".to_string(),
            // The last line of what rustup says is the reason; the rest is progress.
            Fate::NotThere(reason) => {
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
        let fates = [
            ("a", Fate::Good),
            ("bcd", Fate::Bad),
            (
                "ef",
                Fate::NotThere("info: syncing\nerror: no network\n".into()),
            ),
        ];
        let expected = "a    compiles\nbcd  does not compile\nef   not checked: error: no network";
        assert_eq!(table(&fates), expected);
    }
}
