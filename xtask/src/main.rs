//! `cargo xtask VERB`: the one tool of this repository.
//!
//! Owns the list of verbs and how a failure becomes an exit code: 0 when all is
//! well, 1 when a check failed, 2 when the command line was not understood.
//! Each verb lives in a file of its own name.

mod bench;
mod docs;
mod fuzz;
mod layers;
mod lint;
mod python;
mod rows;
mod sanitize;
mod setup;
mod shell;
mod sizes;
mod soak;
mod source;
mod suggest;
mod targets;
mod test;

use std::process::ExitCode;

/// Why a verb did not succeed.
#[derive(Debug, PartialEq, Eq)]
enum Failure {
    /// The command line was not understood.
    Usage(String),
    /// A check or a command failed.
    Check(String),
    /// A check failed and has already said all there is to say.
    Told,
}

impl Failure {
    fn message(self) -> String {
        match self {
            Failure::Usage(message) | Failure::Check(message) => message,
            Failure::Told => "failed, see above".into(),
        }
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::Check(message)
    }
}

type Outcome = Result<(), Failure>;

struct Verb {
    name: &'static str,
    meaning: &'static str,
    run: fn(&[String]) -> Outcome,
}

const VERBS: &[Verb] = &[
    Verb {
        name: "setup",
        meaning: "check the tools, make the Python environment from its lock, build the wheel into it",
        run: |args| none(args).and_then(|()| setup::run()),
    },
    Verb {
        name: "lock",
        meaning: "pin the Python packages anew",
        run: |args| none(args).and_then(|()| Ok(python::lock()?)),
    },
    Verb {
        name: "test",
        meaning: "everything CI runs: lint, every test and example in Rust and Python, the matrix; --all: all of it; --deep: Miri and sanitizers",
        run: test::run,
    },
    Verb {
        name: "targets",
        meaning: "check that the library compiles for Linux, macOS and Windows, on x86-64 and aarch64",
        run: |args| none(args).and_then(|()| targets::run()),
    },
    Verb {
        name: "rows",
        meaning: "the functional rows on every backend, and their dashboards; --full: all examples",
        run: rows::run,
    },
    Verb {
        name: "bench",
        meaning: "measure: bench [kernels|dispatch|train] [ARGUMENTS PASSED ON...]",
        run: bench::run,
    },
    Verb {
        name: "soak",
        meaning: "train for 30 minutes in 2 GiB and see that memory stays flat; --seconds N: for so long",
        run: soak::run,
    },
    Verb {
        name: "fuzz",
        meaning: "feed files of every kind, guided by coverage; --hours N in all, --target NAME for one kind",
        run: fuzz::run,
    },
    Verb {
        name: "lint",
        meaning: "formatting, clippy with warnings denied, layers, sizes",
        run: |args| none(args).and_then(|()| lint::run()),
    },
    Verb {
        name: "layers",
        meaning: "which crate and which module may know which, and where unsafe may stand",
        run: |args| none(args).and_then(|()| layers::run()),
    },
    Verb {
        name: "sizes",
        meaning: "no source file over 800 lines; those over 400 are named",
        run: |args| none(args).and_then(|()| sizes::run()),
    },
    Verb {
        name: "stubs",
        meaning: "write the type stubs of the Python package anew",
        run: |args| none(args).and_then(|()| Ok(python::stubs()?)),
    },
    Verb {
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
        Err(Failure::Told) => ExitCode::from(1),
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
        return Err(Failure::Usage(format!("a verb is missing\n\n{}", usage())));
    };
    if matches!(name.as_str(), "help" | "-h" | "--help") {
        println!("{}", usage());
        return Ok(());
    }
    match VERBS.iter().find(|verb| verb.name == name) {
        Some(verb) => (verb.run)(rest),
        None => {
            let names = VERBS.iter().map(|verb| verb.name);
            let hint = match suggest::nearest(name, names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => usage(),
            };
            Err(Failure::Usage(format!("no verb `{name}`\n\n{hint}")))
        }
    }
}

/// Most verbs take no arguments; an argument that would be ignored is a mistake worth naming.
fn none(args: &[String]) -> Outcome {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(Failure::Usage(format!(
            "`{arg}` is not understood here: this verb takes no arguments"
        ))),
    }
}

fn usage() -> String {
    let mut text = String::from("usage: cargo xtask VERB\n");
    for verb in VERBS {
        text.push_str(&format!("\n  {:<7} {}", verb.name, verb.meaning));
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
    fn an_unknown_verb_is_a_usage_failure_with_a_suggestion() {
        let Err(Failure::Usage(message)) = run(&["tets"]) else {
            panic!("expected a usage failure");
        };
        assert!(message.contains("no verb `tets`"));
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
    fn usage_lists_every_verb() {
        assert!(VERBS.iter().all(|verb| usage().contains(verb.name)));
    }
}
