//! Measurements: ours, and the same in the peers' libraries where Python has them.

use std::path::PathBuf;
use std::process::Command;

use crate::{Failure, Outcome, python, ratios, shell, suggest};

struct Bench {
    name: &'static str,
    /// The file that must exist, so that a missing one is named rather than cargo's target list.
    source: &'static str,
    cargo: &'static [&'static str],
    /// The peers' side, run with the same arguments.
    peers: &'static str,
    /// The same from Python, which measures its peers itself; needs the wheel.
    front: Option<&'static str>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "kernels",
        source: "crates/native/examples/bench_kernels.rs",
        cargo: &[
            "run",
            "--release",
            "-p",
            "clematis-native",
            "--example",
            "bench_kernels",
        ],
        peers: "bench/peers_kernels.py",
        front: None,
    },
    Bench {
        name: "dispatch",
        source: "crates/core/benches/dispatch.rs",
        cargo: &["bench", "-p", "clematis-core", "--bench", "dispatch"],
        peers: "",
        front: Some("bench/dispatch.py"),
    },
    Bench {
        name: "train",
        source: "crates/compile/examples/bench_train/main.rs",
        cargo: &[
            "build",
            "--release",
            "-p",
            "clematis-compile",
            "--example",
            "bench_train",
        ],
        peers: "",
        front: Some("bench/train.py"),
    },
];

pub fn run(args: &[String]) -> Outcome {
    let (bench, rest) = choose(args)?;
    let root = shell::root();
    if !root.join(bench.source).is_file() {
        return Err(format!("bench {}: {} does not exist", bench.name, bench.source).into());
    }
    if let Some(front) = bench.front {
        shell::run(shell::cargo(bench.cargo))?;
        python::set_up()?;
        let mut args = vec![front];
        args.extend(rest.iter().map(String::as_str));
        return Ok(shell::run(python::command("python", &args))?);
    }
    let peers = root.join(bench.peers).is_file().then(interpreter).flatten();
    let mut ours: Vec<&str> = bench.cargo.to_vec();
    if !rest.is_empty() || peers.is_some() {
        ours.push("--");
        ours.extend(rest.iter().map(String::as_str));
    }
    let Some(interpreter) = peers else {
        println!(
            "peers: no {} or no Python with torch, jax or numpy, so nothing to compare with",
            bench.peers
        );
        return Ok(shell::run(shell::cargo(&ours))?);
    };
    ours.push("--json");
    let own = shell::output(shell::cargo(&ours))?;
    let mut command = Command::new(interpreter);
    command.arg(bench.peers).current_dir(root);
    // A plain word is a filter, which the peers' script takes by name.
    for word in rest {
        if !word.starts_with('-') {
            command.arg("--filter");
        }
        command.arg(word);
    }
    let others = shell::output(command)?;
    print!("{}", ratios::table(&own, &others)?);
    Ok(())
}

/// The named benchmark, `kernels` if the first argument is an option or absent, and what is passed on.
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
        None => format!("there are: {}", names.collect::<Vec<_>>().join(", ")),
    };
    Err(Failure::Usage(format!("no benchmark `{name}`; {hint}")))
}

/// The first Python that has at least one of the peers.
fn interpreter() -> Option<PathBuf> {
    let asks = "import importlib.util as u, sys; \
                sys.exit(0 if any(u.find_spec(m) for m in ('torch', 'jax', 'numpy')) else 1)";
    let venv = shell::root().join(".venv");
    [
        venv.join("bin/python"),
        venv.join("Scripts/python.exe"),
        PathBuf::from("python3"),
        PathBuf::from("python"),
    ]
    .into_iter()
    .find(|python| {
        Command::new(python)
            .args(["-c", asks])
            .output()
            .is_ok_and(|out| out.status.success())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(args: &[&str]) -> Vec<String> {
        args.iter().map(|&arg| arg.to_string()).collect()
    }

    #[test]
    fn options_alone_mean_kernels_and_are_passed_on() {
        let args = strings(&["--quick", "matmul"]);
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
