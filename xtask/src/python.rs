//! The Python environment: made from one lock file, with the wheel of this tree in it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// Every package with its version and hashes.
const LOCK: &str = "python/requirements.lock";
/// What the lock is made from.
const WISHES: &str = "python/requirements.in";
/// Where the wheel's sources are.
const SOURCES: &[&str] = &["crates", "python/src", "python/clematis"];
const MANIFESTS: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "pyproject.toml",
    "python/Cargo.toml",
];

/// The environment's folder.
fn folder() -> PathBuf {
    shell::root().join(".venv")
}

/// A program of the environment.
pub fn program(name: &str) -> PathBuf {
    if cfg!(windows) {
        folder().join("Scripts").join(format!("{name}.exe"))
    } else {
        folder().join("bin").join(name)
    }
}

/// A command of the environment, at the root.
pub fn command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program(name));
    command
        .args(args)
        .current_dir(shell::root())
        .env("VIRTUAL_ENV", folder())
        // Frameworks are quiet and stay off accelerators.
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .env("JAX_PLATFORMS", "cpu")
        .env("CUDA_VISIBLE_DEVICES", "")
        // Virtual machines name matrix instructions (AMX) that they do not let a process use, and oneDNN dies of it.
        .env("ONEDNN_MAX_CPU_ISA", "AVX512_CORE");
    command
}

/// Makes whatever is missing or old: the environment, the packages, the wheel.
pub fn set_up() -> Result<(), String> {
    let wanted = fingerprint(&[shell::root().join(LOCK)])?;
    if stamp("packages") != Some(wanted) {
        packages()?;
        mark("packages", wanted)?;
    }
    let wanted = fingerprint(&wheel_sources()?)?;
    if stamp("wheel") != Some(wanted) {
        wheel()?;
        mark("wheel", wanted)?;
    }
    Ok(())
}

fn packages() -> Result<(), String> {
    if !program("python").is_file() {
        let mut make = Command::new(base()?);
        make.args(["-m", "venv", ".venv"])
            .current_dir(shell::root());
        shell::run(make)?;
    }
    installer()?;
    shell::run(command(
        "uv",
        &["pip", "sync", "--quiet", "--require-hashes", LOCK],
    ))
}

/// The installer, which the lock names too, so that it is there from then on.
fn installer() -> Result<(), String> {
    if program("uv").is_file() {
        return Ok(());
    }
    shell::run(command(
        "python",
        &[
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            "uv",
        ],
    ))
}

fn wheel() -> Result<(), String> {
    let out = "target/wheels";
    let built = shell::root().join(out);
    if built.is_dir() {
        std::fs::remove_dir_all(&built).map_err(|e| format!("{out} cannot be emptied: {e}"))?;
    }
    shell::run(command(
        "maturin",
        &[
            "build",
            "--release",
            "--locked",
            "--strip",
            "--quiet",
            "--out",
            out,
        ],
    ))?;
    let wheels = shell::files(&built, &["whl"])?;
    let [wheel] = &wheels[..] else {
        return Err(format!("{out} holds {} wheels, not one", wheels.len()));
    };
    let wheel = wheel.to_string_lossy();
    shell::run(command(
        "uv",
        &[
            "pip",
            "install",
            "--quiet",
            "--offline",
            "--no-deps",
            "--reinstall",
            &wheel,
        ],
    ))
}

/// Pins the newest versions that fit.
pub fn lock() -> Result<(), String> {
    if !program("python").is_file() {
        packages()?;
    }
    installer()?;
    shell::run(command(
        "uv",
        &[
            "pip",
            "compile",
            "--quiet",
            "--generate-hashes",
            "--no-emit-index-url",
            "--no-header",
            "--python-version",
            "3.11",
            "--upgrade",
            WISHES,
            "-o",
            LOCK,
        ],
    ))
}

/// What writes the type stubs.
const STUBS: &str = "python/tools/stubs.py";

/// Writes the type stubs of the package.
pub fn stubs() -> Result<(), String> {
    set_up()?;
    shell::run(command("python", &[STUBS, "python/clematis"]))
}

/// The package as type checkers see it: the stubs are those that would be written now, and fit the module.
pub fn check_types() -> Result<(), String> {
    let fresh = shell::root().join("target/stubs");
    std::fs::create_dir_all(&fresh)
        .map_err(|e| format!("{} cannot be made: {e}", fresh.display()))?;
    shell::run(command("python", &[STUBS, "target/stubs"]))?;
    for file in shell::files(&fresh, &["pyi"])? {
        let name = file.file_name().unwrap_or_default();
        let kept = shell::root().join("python/clematis").join(name);
        if shell::read(&file)? != shell::read(&kept)? {
            return Err(format!(
                "{} is old; `cargo xtask stubs` writes it",
                kept.display()
            ));
        }
    }
    // The modules that have a stub file: of the whole package it would import every framework at once.
    let args = [
        "-m",
        "mypy.stubtest",
        "clematis._clematis",
        "clematis.fft",
        "clematis.linalg",
        "clematis.random",
        "clematis.tree",
    ];
    shell::run(command("python", &args))
}

/// A Python that the environment can be made of.
fn base() -> Result<String, String> {
    let asks = "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 1)";
    ["python3.11", "python3", "python"]
        .into_iter()
        .find(|python| {
            Command::new(python)
                .args(["-c", asks])
                .output()
                .is_ok_and(|out| out.status.success())
        })
        .map(String::from)
        .ok_or_else(|| "Python 3.11 or later is needed, and none was found".into())
}

fn wheel_sources() -> Result<Vec<PathBuf>, String> {
    let root = shell::root();
    let mut files: Vec<PathBuf> = MANIFESTS.iter().map(|m| root.join(m)).collect();
    for folder in SOURCES {
        files.extend(shell::files(
            &root.join(folder),
            &[
                "rs", "py", "pyi", "toml", "html", "js", "json", "css", "svg", "gz", "typed", "txt",
            ],
        )?);
    }
    // What only tests read does not change the wheel.
    files.retain(|f| {
        !f.components()
            .any(|c| c.as_os_str() == "tests" || c.as_os_str() == "examples")
    });
    Ok(files)
}

/// A number that changes when one of the files does.
fn fingerprint(files: &[PathBuf]) -> Result<u64, String> {
    let mut hasher = DefaultHasher::new();
    for file in files {
        file.strip_prefix(shell::root())
            .unwrap_or(file)
            .hash(&mut hasher);
        std::fs::read(file)
            .map_err(|e| format!("{} cannot be read: {e}", file.display()))?
            .hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn stamp_file(name: &str) -> PathBuf {
    folder().join(format!(".clematis-{name}"))
}

fn stamp(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(stamp_file(name)).ok()?;
    text.trim().parse().ok()
}

fn mark(name: &str, value: u64) -> Result<(), String> {
    let file: &Path = &stamp_file(name);
    std::fs::write(file, format!("{value}\n"))
        .map_err(|e| format!("{} cannot be written: {e}", file.display()))
}
