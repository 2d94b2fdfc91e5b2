//! Undefined behaviour and data races: Miri over scalar code, the thread sanitizer over kernels at the base vector level.
//!
//! Both need a nightly toolchain. Where there is none, that is said and the rest goes on. The model checker's part, `clematis-models`,
//! needs none and runs with all tests.

use std::process::Command;

use crate::shell;

/// One run of a tool.
struct Step {
    name: &'static str,
    args: &'static [&'static str],
    env: &'static [(&'static str, &'static str)],
    /// What the nightly toolchain needs for it.
    component: &'static str,
}

/// Leaks are the pool's threads, which live as long as the process; the clock and the environment are the machine's.
const MIRI: &[(&str, &str)] = &[(
    "MIRIFLAGS",
    "-Zmiri-ignore-leaks -Zmiri-disable-isolation -Zmiri-permissive-provenance",
)];

/// With every ordinary run: what compiles in a minute.
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

/// Runs the short form, or all of it. Gives how many steps passed, and says what failed.
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

/// Why the nightly toolchain has no such component.
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
    // The variables by which cargo passes on its own toolchain would win over the nightly one.
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
