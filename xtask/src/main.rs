//! `cargo xtask COMMAND`: the development tool of this repository.
//!
//! Owns the list of commands and the exit codes: 0 for success, 1 for a failed check, 2 for an invalid command line.
//! Each command is in a file of its own name.

mod outcome;
mod shell;
mod source;
mod sizes;
mod python;
mod suggest;
mod bench;
mod docs;
mod documents;
mod fuzz;
mod ivy_rows;
mod layers;
mod words;
mod lint;
mod sanitize;
mod setup;
mod soak;
mod targets;
mod test;

use std::process::ExitCode;

use outcome::{Failure, Outcome};

struct Task {
    name: &'static str,
    meaning: &'static str,
    run: fn(&[String]) -> Outcome,
}

const TASKS: &[Task] = &[
    Task {
        name: "setup",
        meaning: "check the tools, make the Python environment from its lock, build the wheel into it",
        run: |args| none(args).and_then(|()| setup::run()),
    },
    Task {
        name: "lock",
        meaning: "update the lock file of the Python packages",
        run: |args| none(args).and_then(|()| Ok(python::lock()?)),
    },
    Task {
        name: "test",
        meaning: "everything CI runs: lint, every test and example in Rust and Python, the matrix; --all: all of it; --deep: Miri and sanitizers",
        run: test::run,
    },
    Task {
        name: "targets",
        meaning: "check that the library compiles for Linux, macOS and Windows, on x86-64 and aarch64",
        run: |args| none(args).and_then(|()| targets::run()),
    },
    Task {
        name: "rows",
        meaning: "run Ivy's rows on every backend and write their dashboards; --full: all examples",
        run: ivy_rows::run,
    },
    Task {
        name: "bench",
        meaning: "measure: bench [kernels|dispatch|train] [ARGUMENTS PASSED ON...]",
        run: bench::run,
    },
    Task {
        name: "soak",
        meaning: "train for 30 minutes in 2 GiB and check that memory stays constant; --seconds N: another duration",
        run: soak::run,
    },
    Task {
        name: "fuzz",
        meaning: "coverage-guided fuzzing of the file formats; --hours N in total, --target NAME for one format",
        run: fuzz::run,
    },
    Task {
        name: "lint",
        meaning: "formatting, clippy with warnings denied, layers, sizes, documents",
        run: |args| none(args).and_then(|()| lint::run()),
    },
    Task {
        name: "layers",
        meaning: "check dependencies between crates and between the modules of each, and where unsafe is allowed",
        run: |args| none(args).and_then(|()| layers::run()),
    },
    Task {
        name: "sizes",
        meaning: "no source file over 800 lines; those over 400 are listed",
        run: |args| none(args).and_then(|()| sizes::run()),
    },
    Task {
        name: "words",
        meaning: "no phrase of xtask/words.txt in sources, docs and file names",
        run: |args| none(args).and_then(|()| words::run()),
    },
    Task {
        name: "documents",
        meaning: "every path and function that the documents of the code name exists, and recipes list the files of their ops",
        run: |args| none(args).and_then(|()| documents::run()),
    },
    Task {
        name: "stubs",
        meaning: "regenerate the type stubs of the Python package",
        run: |args| none(args).and_then(|()| Ok(python::stubs()?)),
    },
    Task {
        name: "docs",
        meaning: "build the API documentation and regenerate the generated pages",
        run: |args| none(args).and_then(|()| docs::run()),
    },
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Reported) => ExitCode::from(1),
        Err(Failure::Check(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(message)) => {
            eprintln!("xtask: {message}");
            ExitCode::from(2)
        }
    }
}

fn dispatch(args: &[String]) -> Outcome {
    let Some((name, rest)) = args.split_first() else {
        return Err(Failure::Usage(format!("missing command\n\n{}", usage())));
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        println!("{}", usage());
        return Ok(());
    }
    match TASKS.iter().find(|task| task.name == name) {
        Some(task) => (task.run)(rest),
        None => {
            let names = TASKS.iter().map(|task| task.name);
            let hint = match suggest::nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => usage(),
            };
            Err(Failure::Usage(format!(
                "unknown command `{name}`\n\n{hint}"
            )))
        }
    }
}

/// Most commands take no arguments; an argument that would be ignored is reported.
fn none(args: &[String]) -> Outcome {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(Failure::Usage(format!(
            "unexpected argument `{arg}`: this command takes no arguments"
        ))),
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask COMMAND\n");
    for task in TASKS {
        text.push_str(&format!("\n  {:<9} {}", task.name, task.meaning));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(args: &[&str]) -> Outcome {
        dispatch(&args.iter().map(|&a| a.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn an_unknown_command_is_a_usage_failure_with_a_suggestion() {
        let Err(Failure::Usage(message)) = run(&["tets"]) else {
            panic!("expected a usage failure");
        };
        assert!(message.contains("unknown command `tets`"));
        assert!(message.contains("did you mean `test`?"));
    }

    #[test]
    fn a_stray_argument_is_named() {
        let Err(Failure::Usage(message)) = run(&["sizes", "--all"]) else {
            panic!("expected a usage failure");
        };
        assert!(message.contains("`--all`"));
    }

    #[test]
    fn usage_lists_every_command() {
        assert!(TASKS.iter().all(|task| usage().contains(task.name)));
    }
}
