//! Benchmarks of Clematis and its baselines.

use crate::{Failure, Outcome, python, shell, suggest};

struct Bench {
    name: &'static str,
    /// The file that must exist, so that a missing one is reported by name.
    source: &'static str,
    /// What cargo builds or runs first.
    cargo: &'static [&'static [&'static str]],
    /// The script that measures the baselines, interleaved with Clematis where possible; needs the wheel. Empty where
    /// there is none: then the arguments go to what cargo runs.
    front: &'static str,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "kernels",
        source: "crates/compile/examples/bench_kernels.rs",
        cargo: &[&[
            "build",
            "--release",
            "-p",
            "clematis-compile",
            "--example",
            "bench_kernels",
        ]],
        front: "bench/kernels.py",
    },
    Bench {
        name: "compile",
        source: "crates/compile/examples/bench_compile.rs",
        cargo: &[&[
            "run",
            "--release",
            "-p",
            "clematis-compile",
            "--example",
            "bench_compile",
        ]],
        front: "",
    },
    Bench {
        name: "dispatch",
        source: "crates/core/benches/dispatch.rs",
        cargo: &[&["bench", "-p", "clematis-core", "--bench", "dispatch"]],
        front: "bench/dispatch.py",
    },
    Bench {
        name: "train",
        source: "crates/compile/examples/bench_train/main.rs",
        cargo: &[
            &[
                "build",
                "--release",
                "-p",
                "clematis-compile",
                "--example",
                "bench_train",
            ],
            // A baseline in Rust, built only here, so that tests and lint do not wait for it.
            &[
                "build",
                "--release",
                "--locked",
                "--manifest-path",
                "bench/candle/Cargo.toml",
            ],
        ],
        front: "bench/train.py",
    },
    Bench {
        name: "tree",
        source: "bench/tree.py",
        cargo: &[],
        front: "bench/tree.py",
    },
];

pub fn run(args: &[String]) -> Outcome {
    let (bench, rest) = choose(args)?;
    if !shell::root().join(bench.source).is_file() {
        return Err(format!("bench {}: {} does not exist", bench.name, bench.source).into());
    }
    for command in bench.cargo {
        let mut command = command.to_vec();
        if bench.front.is_empty() {
            command.push("--");
            command.extend(rest.iter().map(String::as_str));
        }
        shell::run(shell::cargo(&command))?;
    }
    if bench.front.is_empty() {
        return Ok(());
    }
    python::set_up()?;
    let mut args = vec![bench.front];
    args.extend(rest.iter().map(String::as_str));
    Ok(shell::run(python::command("python", &args))?)
}

/// The named benchmark, `kernels` if the first argument is an option or absent, and the remaining arguments.
fn choose(args: &[String]) -> Result<(&'static Bench, &[String]), Failure> {
    let (name, rest) = match args.split_first() {
        Some((first, rest)) if !first.starts_with('-') => (first.as_str(), rest),
        _ => ("kernels", args),
    };
    let rest = match rest.split_first() {
        Some((first, after)) if first == "--" => after,
        _ => rest,
    };
    if let Some(bench) = BENCHES.iter().find(|bench| bench.name == name) {
        return Ok((bench, rest));
    }
    let names = BENCHES.iter().map(|bench| bench.name);
    let hint = match suggest::nearest(name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("available: {}", names.collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::Usage(format!("no benchmark `{name}`; {hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_string()).collect()
    }

    #[test]
    fn options_alone_mean_kernels_and_are_passed_on() {
        let args = strings(&["--rounds", "2", "matmul"]);
        let (bench, rest) = choose(&args).expect("known");
        assert_eq!((bench.name, rest), ("kernels", args.as_slice()));
    }

    #[test]
    fn the_separator_is_not_passed_on() {
        let args = strings(&["dispatch", "--", "--quick"]);
        let (bench, rest) = choose(&args).expect("known");
        assert_eq!(bench.name, "dispatch");
        assert_eq!(rest, strings(&["--quick"]));
    }

    #[test]
    fn an_unknown_benchmark_is_a_usage_failure() {
        let args = strings(&["kernel"]);
        let Err(Failure::Usage(message)) = choose(&args) else {
            panic!("expected a usage failure");
        };
        assert!(message.contains("did you mean `kernels`?"), "{message}");
    }
}
