//! Checks dependencies between crates, between the modules of each crate, and the list of files that may contain `unsafe`.
//!
//! Owns the tables below. A new crate needs a row here; without one the check fails and says so.

mod modules;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{Outcome, shell, source};

/// The crates of the workspace, each with those its library may depend on. Tests and examples may depend on more.
const CRATES: &[(&str, &[&str])] = &[
    ("clematis-core", &[]),
    ("clematis-derive", &[]),
    ("clematis-passes", &["clematis-core"]),
    ("clematis-native", &["clematis-core"]),
    (
        "clematis-compile",
        &["clematis-core", "clematis-native", "clematis-passes"],
    ),
    ("clematis-nn", &["clematis-core", "clematis-derive"]),
    ("clematis-dialect", &[]),
    ("clematis-bridge", &["clematis-core", "clematis-dialect"]),
    ("clematis-conform", &["clematis-core"]),
    (
        "clematis-convert",
        &["clematis-core", "clematis-dialect", "clematis-nn"],
    ),
    (
        "clematis",
        &[
            "clematis-compile",
            "clematis-core",
            "clematis-derive",
            "clematis-native",
            "clematis-nn",
            "clematis-passes",
        ],
    ),
    ("clematis-alone", &["clematis"]),
    ("clematis-models", &["clematis-core"]),
    (
        "clematis-cli",
        &["clematis", "clematis-conform", "clematis-convert"],
    ),
    (
        "clematis-py",
        &[
            "clematis-bridge",
            "clematis-cli",
            "clematis-compile",
            "clematis-convert",
            "clematis-core",
            "clematis-native",
            "clematis-nn",
            "clematis-passes",
        ],
    ),
    ("clematis-python", &["clematis-py"]),
    ("xtask", &[]),
];

/// External crates that only some of ours may depend on: Python stays out of all others.
const RESERVED: &[(&str, &[&str])] = &[("pyo3", &["clematis-bridge", "clematis-py"])];

/// Modules of one crate that may refer to one another, and why. All other modules only refer to those above them in the
/// crate's `lib.rs` or `main.rs`; `lib` stands for that file, which is below all others.
const GROUPS: &[(&str, &[&str], &str)] = &[
    (
        "crates/core/src",
        &[
            "attr", "op", "tensor", "backend", "graph", "infer", "trace", "dispatch",
        ],
        "a loop op holds a graph, a graph holds constants, a tensor refers to its backend, a backend takes ops",
    ),
    (
        "crates/bridge/src",
        &["array", "framework"],
        "a framework wraps its arrays, and the cache of array classes refers to the framework of each",
    ),
    (
        "crates/py/src",
        &["operand", "tensor", "dlpack"],
        "a tensor's methods take operands, an operand may be a tensor, and both sides of DLPack are tensors",
    ),
    (
        "crates/compile/src",
        &[
            "rematerialize",
            "fusion",
            "batched_chain",
            "column_reduction",
            "fuse_pairs",
            "program",
            "tile_interpreter",
            "tile",
            "describe",
            "run",
            "scan",
            "plan",
        ],
        "grouping, lowering and execution share types as long as the schedule is not a stage of its own",
    ),
];

/// Crates that work on every backend and name none.
const NAMELESS: &[&str] = &["crates/core/src", "crates/nn/src"];

/// The names of backends.
const BACKENDS: &[&str] = &["native", "numpy", "torch", "jax", "tensorflow"];

/// The only files that may contain `unsafe`, and why. Each of them does.
const UNSAFE: &[&str] = &[
    // Vectorcall, which PyO3 does not offer under the stable ABI of 3.11, and reference counts.
    "crates/bridge/src/call.rs",
    // Reads arrays of numpy and torch through C.
    "crates/bridge/src/introspect.rs",
    "crates/bridge/src/introspect/numpy.rs",
    "crates/bridge/src/introspect/torch.rs",
    // Bytes that an arena lends or that others own.
    "crates/core/src/host.rs",
    // A cell that loom watches.
    "crates/models/tests/models.rs",
    // Tasks write disjoint elements of one result.
    "crates/native/src/kernel/conv/depthwise_3x3.rs",
    "crates/native/src/kernel/conv/depthwise_nchw.rs",
    "crates/native/src/kernel/conv/direct.rs",
    "crates/native/src/kernel/conv/implicit_gemm.rs",
    "crates/native/src/kernel/conv/pointwise.rs",
    "crates/native/src/kernel/conv/weight_gradient.rs",
    "crates/native/src/kernel/conv/winograd.rs",
    "crates/native/src/kernel/conv/winograd/weight_gradient.rs",
    "crates/native/src/kernel/conv/winograd_strided.rs",
    "crates/native/src/kernel/conv/winograd_strided/weight_gradient.rs",
    "crates/native/src/kernel/dot/gemm_f32.rs",
    "crates/native/src/kernel/gather.rs",
    "crates/native/src/kernel/reduce.rs",
    "crates/native/src/kernel/scan.rs",
    "crates/native/src/kernel/scatter.rs",
    "crates/native/src/kernel/shape.rs",
    "crates/native/src/kernel/sort.rs",
    "crates/native/src/kernel/window/fold.rs",
    "crates/native/src/kernel/window/select.rs",
    // Memory from the system: mappings and huge pages.
    "crates/native/src/memory/arena.rs",
    "crates/native/src/memory/huge_pages.rs",
    // Threads share slices and jobs.
    "crates/native/src/parallel.rs",
    "crates/native/src/pool.rs",
    // Intrinsics and functions compiled for an instruction set.
    "crates/native/src/prefetch.rs",
    "crates/native/src/simd.rs",
    "crates/native/src/simd/bf16.rs",
    "crates/native/src/simd/conv_kernel.rs",
    "crates/native/src/simd/depthwise_3x3.rs",
    "crates/native/src/simd/gemm_kernel.rs",
    // A C function that carries data, which PyO3 has no way to make.
    "crates/py/src/callable.rs",
    // DLPack capsules.
    "crates/py/src/dlpack.rs",
    // The tensor inside a Python object, read in place.
    "crates/py/src/tensor/object.rs",
    // The allocator of the extension module, which is a call of mimalloc.
    "python/src/allocator.rs",
];

pub fn run() -> Outcome {
    let root = shell::root();
    let metadata = shell::output(shell::cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
        "--offline",
    ]))?;
    let packages = packages(&metadata)?;
    let crates: BTreeMap<_, _> = packages
        .iter()
        .map(|p| (p.name.clone(), p.dependencies.clone()))
        .collect();
    let mut faults = crate_faults(&crates);
    for package in &packages {
        faults.extend(module_faults(&root, &package.folder.join("src"))?);
    }
    for (src, ..) in GROUPS {
        if !root.join(src).is_dir() {
            faults.push(format!(
                "{src} has a group in xtask/src/layers.rs and does not exist"
            ));
        }
    }
    for src in NAMELESS {
        for path in shell::files(&root.join(src), &["rs"])? {
            let name = shell::relative(&path, &root);
            faults.extend(backend_faults(&name, &shell::read(&path)?));
        }
    }
    faults.extend(unsafe_faults(&root)?);
    if faults.is_empty() {
        println!("layers: {} crates, all in order", crates.len());
        return Ok(());
    }
    Err(format!("layers:\n  {}", faults.join("\n  ")).into())
}

/// A package of the workspace.
#[derive(Debug, PartialEq)]
struct Package {
    name: String,
    folder: PathBuf,
    /// Without dev dependencies.
    dependencies: Vec<String>,
}

/// The packages in the output of `cargo metadata`.
fn packages(metadata: &str) -> Result<Vec<Package>, String> {
    let wrong = |what: &str| format!("cargo metadata: {what}");
    let value: Value = serde_json::from_str(metadata).map_err(|e| wrong(&e.to_string()))?;
    let packages = value["packages"]
        .as_array()
        .ok_or_else(|| wrong("no packages"))?;
    let mut found = Vec::new();
    for package in packages {
        let text = |key: &str| {
            package[key]
                .as_str()
                .ok_or_else(|| wrong(&format!("a package without a {key}")))
        };
        let manifest = Path::new(text("manifest_path")?);
        let deps = package["dependencies"].as_array().into_iter().flatten();
        let names = deps
            .filter(|dep| dep["kind"].as_str() != Some("dev"))
            .filter_map(|dep| dep["name"].as_str().map(String::from));
        found.push(Package {
            name: text("name")?.to_string(),
            folder: manifest.parent().unwrap_or(manifest).to_path_buf(),
            dependencies: names.collect(),
        });
    }
    Ok(found)
}

fn crate_faults(crates: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, deps) in crates {
        let Some((_, allowed)) = CRATES.iter().find(|(row, _)| row == name) else {
            faults.push(format!("{name} has no row in xtask/src/layers.rs"));
            continue;
        };
        for dep in deps {
            let ours = crates.contains_key(dep);
            if ours && !allowed.contains(&dep.as_str()) {
                faults.push(format!("{name} may not depend on {dep}"));
            }
            let reserved = RESERVED.iter().find(|(foreign, _)| foreign == dep);
            if reserved.is_some_and(|(_, users)| !users.contains(&name.as_str())) {
                faults.push(format!("{name} may not name {dep}"));
            }
        }
    }
    faults
}

/// Faults in the order of a crate's modules; none if it has no sources of its own.
fn module_faults(root: &Path, src: &Path) -> Result<Vec<String>, String> {
    let Some(root_file) = ["lib.rs", "main.rs"]
        .map(|name| src.join(name))
        .into_iter()
        .find(|path| path.is_file())
    else {
        return Ok(Vec::new());
    };
    let name = shell::relative(src, root);
    let groups: Vec<&[&str]> = GROUPS
        .iter()
        .filter(|(of, ..)| *of == name)
        .map(|(_, modules, _)| *modules)
        .collect();
    let order = modules::Order::of(&shell::read(&root_file)?, &groups);
    let mut files = Vec::new();
    for path in shell::files(src, &["rs"])? {
        files.push((shell::relative(&path, src), shell::read(&path)?));
    }
    Ok(order.faults(&name, &files))
}

/// A fault for each string outside of comments and tests that is the name of a backend.
fn backend_faults(file: &str, text: &str) -> Vec<String> {
    if file.split(['/', '.']).any(|part| part == "tests") {
        return Vec::new();
    }
    let end = source::test_start(text);
    let mut faults = Vec::new();
    for (number, line) in text[..end].lines().enumerate() {
        let line = line.trim_start();
        let quoted =
            |name: &&&str| !line.starts_with("//") && line.contains(&format!("\"{name}\""));
        if let Some(name) = BACKENDS.iter().find(quoted) {
            faults.push(format!(
                "{file}:{}: names the backend {name}; ask the backend what it supports",
                number + 1
            ));
        }
    }
    faults
}

/// Files with `unsafe` that are not listed, and listed files without.
fn unsafe_faults(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let mut unused: Vec<&str> = UNSAFE.to_vec();
    for path in shell::files(root, &["rs"])? {
        let name = shell::relative(&path, root);
        let code = source::code(&shell::read(&path)?);
        let Some(at) = source::occurrences(&code, "unsafe").next() else {
            continue;
        };
        if UNSAFE.contains(&name.as_str()) {
            unused.retain(|listed| *listed != name);
        } else {
            let line = source::line(&code, at);
            faults.push(format!("{name}:{line}: unsafe is not allowed in this file"));
        }
    }
    let unused = unused.iter();
    faults.extend(unused.map(|name| format!("{name}: is listed as unsafe, and has no unsafe")));
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crates(rows: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        rows.iter()
            .map(|(name, deps)| {
                (
                    name.to_string(),
                    deps.iter().map(|d| d.to_string()).collect(),
                )
            })
            .collect()
    }

    #[test]
    fn dev_dependencies_are_left_out() {
        let text = r#"{"packages":[{"name":"a","manifest_path":"/w/a/Cargo.toml","dependencies":[
            {"name":"b","kind":null},{"name":"c","kind":"dev"},{"name":"d","kind":"build"}]}]}"#;
        let a = Package {
            name: "a".into(),
            folder: "/w/a".into(),
            dependencies: vec!["b".into(), "d".into()],
        };
        assert_eq!(packages(text), Ok(vec![a]));
        assert!(packages(r#"{"packages":[{"name":"a"}]}"#).is_err());
        assert!(packages("{}").is_err());
        assert!(packages("nonsense").is_err());
    }

    #[test]
    fn a_crate_sees_only_what_stands_above_it() {
        let good = crates(&[
            ("clematis-core", &["half"]),
            ("clematis-native", &["clematis-core"]),
        ]);
        assert_eq!(crate_faults(&good), Vec::<String>::new());
        let bad = crates(&[
            ("clematis-core", &["clematis-native"]),
            ("clematis-native", &[]),
        ]);
        assert_eq!(
            crate_faults(&bad),
            ["clematis-core may not depend on clematis-native"]
        );
    }

    #[test]
    fn a_new_crate_needs_a_row_and_python_stays_out() {
        let found = crate_faults(&crates(&[
            ("clematis-new", &[]),
            ("clematis-nn", &["pyo3"]),
        ]));
        assert_eq!(
            found,
            [
                "clematis-new has no row in xtask/src/layers.rs",
                "clematis-nn may not name pyo3"
            ]
        );
    }

    #[test]
    fn the_diagram_of_the_crates_is_the_table() {
        let text = shell::read(&shell::root().join("ARCHITECTURE.md")).expect("readable");
        let short = |name: &str| name.strip_prefix("clematis-").unwrap_or(name).to_string();
        // Crates for tests and tools are in the table only.
        let is_drawn = |name: &str| !["clematis-alone", "clematis-models", "xtask"].contains(&name);
        for (name, deps) in CRATES.iter().filter(|(name, _)| is_drawn(name)) {
            let deps: Vec<String> = deps.iter().map(|dep| short(dep)).collect();
            let row = format!("{} ({})", short(name), deps.join(", "));
            assert!(text.contains(&row), "ARCHITECTURE.md: expected `{row}`");
        }
        for (name, _) in CRATES {
            assert!(
                text.contains(&format!("| `{name}` |")),
                "ARCHITECTURE.md: {name}"
            );
        }
    }

    #[test]
    fn crates_for_every_backend_name_none() {
        let text = "// \"torch\"\nif b.name() == \"native\" {}\n#[cfg(test)]\nmod tests { fn f() { find(\"jax\") } }";
        let found = backend_faults("crates/nn/src/a.rs", text);
        assert_eq!(
            found,
            ["crates/nn/src/a.rs:2: names the backend native; ask the backend what it supports"]
        );
        assert!(backend_faults("crates/nn/src/a/tests.rs", text).is_empty());
    }

    #[test]
    fn the_table_stands_in_order() {
        let names: Vec<_> = CRATES.iter().map(|(name, _)| *name).collect();
        for (at, (_, deps)) in CRATES.iter().enumerate() {
            assert!(
                deps.iter().all(|dep| names[..at].contains(dep)),
                "{}",
                names[at]
            );
        }
    }
}
