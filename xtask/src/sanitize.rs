//! Undefined behaviour and data races: Miri on scalar code, the thread sanitizer on kernels at the base SIMD level.
//!
//! Both need a nightly toolchain; without one a message says so and the rest goes on. The loom models in
//! `clematis-models` need none and run with all tests.

use std::process::Command;

use crate::shell;

/// One run of a tool.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// The component of the nightly toolchain that it needs.
    component: &'static str,
}

/// Leaks are ignored because the pool's threads live as long as the process; isolation is off for the clock and the
/// environment.
const MIRI: &[(&str, &str)] = &[(
    "MIRIFLAGS",
    "-Zmiri-ignore-leaks -Zmiri-disable-isolation -Zmiri-permissive-provenance",
)];

/// Runs with every `cargo xtask test`: takes about a minute.
const SHORT: &[Step] = &[Step {
    name: "miri: threads of the engine",
    args: &["miri", "test", "--package", "clematis-models", "--lib"],
    env: MIRI,
    component: "miri",
}];

const DEEP: &[Step] = &[
    Step {
        name: "miri: core",
        args: &["miri", "test", "--package", "clematis-core", "--lib"],
        env: MIRI,
        component: "miri",
    },
    Step {
        name: "miri: derive",
        args: &[
            "miri",
            "test",
            "--package",
            "clematis-derive",
            "--test",
            "derive",
        ],
        env: MIRI,
        component: "miri",
    },
    Step {
        name: "miri: nn",
        args: &["miri", "test", "--package", "clematis-nn", "--lib"],
        env: MIRI,
        component: "miri",
    },
    Step {
        name: "miri: scalar kernels",
        args: &[
            "miri",
            "test",
            "--package",
            "clematis-native",
            "--lib",
            "--",
            "parallel::",
            "pool::",
            "memory::",
            "buffer::",
            "layout::",
            "simd::tests",
            "kernel::gather",
            "kernel::scatter",
            "kernel::sort",
            "kernel::scan",
            "kernel::select",
            "kernel::shape",
            "kernel::norm",
        ],
        env: MIRI,
        component: "miri",
    },
    Step {
        name: "thread sanitizer: kernels",
        args: &[
            "test",
            "-Zbuild-std",
            "--target",
            "x86_64-unknown-linux-gnu",
            "--package",
            "clematis-native",
            "--test",
            "engine",
            "--test",
            "interrupt",
        ],
        env: &[
            ("RUSTFLAGS", "-Zsanitizer=thread"),
            ("CLEMATIS_SIMD", "base"),
            ("CLEMATIS_THREADS", "4"),
            ("CARGO_TARGET_DIR", "target/sanitize"),
        ],
        component: "rust-src",
    },
];

/// Runs the short form, or everything. Returns the number of steps that passed, and adds failures to `faults`.
pub fn run(deep: bool, faults: &mut Vec<String>) -> usize {
    let steps: Vec<&Step> = match deep {
        true => SHORT.iter().chain(DEEP).collect(),
        false => SHORT.iter().collect(),
    };
    let mut passed = 0;
    for step in steps {
        if let Err(reason) = there(step.component) {
            println!("{}: not run, {reason}", step.name);
            continue;
        }
        match shell::run(command(step)) {
            Ok(()) => passed += 1,
            Err(message) => faults.push(format!("{}: {message}", step.name)),
        }
    }
    passed
}

/// An error if the nightly toolchain lacks a component.
fn there(component: &str) -> Result<(), String> {
    let mut list = Command::new("rustup");
    list.args(["component", "list", "--toolchain", "nightly", "--installed"]);
    let Ok(list) = shell::output(list) else {
        return Err(
            "rustup has no nightly toolchain here: `rustup toolchain install nightly`".into(),
        );
    };
    match list.lines().any(|line| line.starts_with(component)) {
        true => Ok(()),
        false => Err(format!(
            "nightly has no {component} here: `rustup +nightly component add {component}`"
        )),
    }
}

fn command(step: &Step) -> Command {
    // The variables by which cargo passes on its own toolchain would override the nightly one.
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(step.args)
        .current_dir(shell::root())
        .env_remove("CARGO")
        .env_remove("RUSTUP_TOOLCHAIN")
        .envs(step.env.iter().copied());
    command
}
