//! Checks the installed tools, and creates the Python environment from the lock file.

use std::process::Command;

use crate::{Outcome, python, shell};

pub fn run() -> Outcome {
    let pinned = channel(&shell::read(&shell::root().join("rust-toolchain.toml"))?);
    let mut missing = Vec::new();
    let needed = [
        ("rustc", asked("rustc", &["--version"])),
        ("cargo", shell::output(shell::cargo(&["--version"]))),
        (
            "rustfmt",
            shell::output(shell::cargo(&["fmt", "--version"])),
        ),
        (
            "clippy",
            shell::output(shell::cargo(&["clippy", "--version"])),
        ),
    ];
    for (name, found) in needed {
        match found {
            Ok(text) => {
                let text = text.trim();
                println!("{name:<8} {text}");
                if name == "rustc"
                    && let Some(pinned) = &pinned
                    && version(text) != version(pinned)
                {
                    missing.push(format!(
                        "rust-toolchain.toml asks for {pinned}, rustc is {text}"
                    ));
                }
            }
            Err(why) => {
                println!("{name:<8} missing");
                missing.push(why);
            }
        }
    }
    if missing.is_empty() {
        python::set_up()?;
        println!("setup: ready; next, `cargo xtask test`");
        return Ok(());
    }
    let advice = "install Rust from https://rustup.rs, then `rustup component add rustfmt clippy`";
    Err(format!("{}\n{advice}", missing.join("\n")).into())
}

fn asked(program: &str, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(args).current_dir(shell::root());
    shell::output(command)
}

/// The pinned version in `rust-toolchain.toml`.
fn channel(text: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "channel").then(|| value.trim().trim_matches('"').to_string())
    })
}

/// The first word that looks like `1.95.0`, as major and minor version.
fn version(text: &str) -> Option<(u32, u32)> {
    text.split_whitespace().find_map(|word| {
        let mut parts = word.split('.');
        let major = parts.next()?.parse().ok()?;
        let minor = parts.next()?.parse().ok()?;
        Some((major, minor))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_pinned_channel() {
        let text = "[toolchain]\nchannel = \"1.95.0\"\n";
        assert_eq!(channel(text).as_deref(), Some("1.95.0"));
        assert_eq!(channel("[toolchain]"), None);
    }

    #[test]
    fn versions_compare_by_major_and_minor() {
        assert_eq!(version("rustc 1.95.0 (abc 2026-04-01)"), Some((1, 95)));
        assert_eq!(version("1.95"), Some((1, 95)));
        assert_eq!(version("stable"), None);
    }
}
