//! The Python environment: created from one lock file, with the wheel of this tree.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::shell;

/// Every package with its version and hashes.
const LOCK: &str = "python/requirements.lock";
/// The requirements from which the lock file is made.
const WISHES: &str = "python/requirements.in";
/// The folders of the wheel's sources.
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

/// The path of a program in the environment.
pub fn program(name: &str) -> PathBuf {
    if cfg!(windows) {
        folder().join("Scripts").join(format!("{name}.exe"))
    } else {
        folder().join("bin").join(name)
    }
}

/// A command in the environment, run at the root.
pub fn command(name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(program(name));
    command
        .args(args)
        .current_dir(shell::root())
        .env("VIRTUAL_ENV", folder())
        // Silences frameworks and keeps them off accelerators.
        .env("TF_CPP_MIN_LOG_LEVEL", "3")
        .env("JAX_PLATFORMS", "cpu")
        .env("CUDA_VISIBLE_DEVICES", "")
        // Some virtual machines announce matrix instructions (AMX) that processes may not use, and oneDNN crashes on
        // them.
        .env("ONEDNN_MAX_CPU_ISA", "AVX512_CORE");
    command
}

/// Creates or updates the environment, the packages and the wheel as needed.
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

/// The installer, which is in the lock file too.
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
        return Err(format!("expected one wheel in {out}, got {}", wheels.len()));
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

/// Updates the lock file to the newest compatible versions.
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

/// The script that writes the type stubs.
const STUBS: &str = "python/tools/stubs.py";

/// Writes the type stubs of the package.
pub fn stubs() -> Result<(), String> {
    set_up()?;
    shell::run(command("python", &[STUBS, "python/clematis"]))
}

/// Type-checks the package: the stubs must be up to date and match the module.
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
                "{} is stale; run `cargo xtask stubs`",
                kept.display()
            ));
        }
    }
    // Only modules with a stub file: checking the whole package would import every framework.
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

/// A Python from which the environment can be created.
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
        .ok_or_else(|| "Python 3.11 or later is required, and was not found".into())
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
    // Files that only tests read do not change the wheel.
    files.retain(|f| {
        !f.components()
            .any(|c| c.as_os_str() == "tests" || c.as_os_str() == "examples")
    });
    Ok(files)
}

/// A hash of the files' contents.
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
