//! Checks dependencies between crates, between modules of the core, and the list of files that may contain `unsafe`.
//!
//! Owns the three tables below. A new crate needs a row here; without one the check fails and says so.

mod modules;

use std::collections::BTreeMap;
use std::path::Path;

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

/// The only files that may contain `unsafe`.
const UNSAFE: &[&str] = &[
    // Vectorcall, which PyO3 does not offer under the stable ABI of 3.11, and reference counts.
    "crates/bridge/src/call.rs",
    // Reads arrays of numpy and torch through C.
    "crates/bridge/src/introspect.rs",
    "crates/bridge/src/introspect/numpy.rs",
    "crates/bridge/src/introspect/torch.rs",
    "crates/core/src/host.rs",
    // A cell that loom watches.
    "crates/models/tests/models.rs",
    "crates/native/src/buffer.rs",
    "crates/native/src/element.rs",
    // Kernels promise that their tasks write different elements.
    "crates/native/src/kernel/conv/winograd_strided.rs",
    "crates/native/src/kernel/conv/winograd_strided/weight_gradient.rs",
    "crates/native/src/kernel/conv/direct.rs",
    "crates/native/src/kernel/conv/depthwise_nchw.rs",
    "crates/native/src/kernel/conv/pointwise.rs",
    "crates/native/src/kernel/conv/depthwise_3x3.rs",
    "crates/native/src/kernel/conv/implicit_gemm.rs",
    "crates/native/src/kernel/conv/weight_gradient.rs",
    "crates/native/src/kernel/conv/winograd.rs",
    "crates/native/src/kernel/conv/winograd/weight_gradient.rs",
    "crates/native/src/kernel/dot/gemm_f32.rs",
    "crates/native/src/kernel/gather.rs",
    "crates/native/src/kernel/reduce.rs",
    "crates/native/src/kernel/scan.rs",
    "crates/native/src/kernel/scatter.rs",
    "crates/native/src/kernel/shape.rs",
    "crates/native/src/kernel/sort.rs",
    "crates/native/src/kernel/window/fold.rs",
    "crates/native/src/kernel/window/select.rs",
    "crates/native/src/parallel.rs",
    "crates/native/src/pool.rs",
    "crates/native/src/simd.rs",
    "crates/native/src/simd/bf16.rs",
    "crates/native/src/arena.rs",
    "crates/native/src/simd/gemm_kernel.rs",
    "crates/native/src/simd/depthwise_3x3.rs",
    "crates/native/src/simd/conv_kernel.rs",
    // A C function that carries data, which PyO3 has no way to make.
    "crates/py/src/callable.rs",
    // DLPack capsules.
    "crates/py/src/dlpack.rs",
    // The tensor inside a Python object, read in place.
    "crates/py/src/tensor/object.rs",
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
    let crates = dependencies(&metadata)?;
    let mut faults = crate_faults(&crates);
    faults.extend(core_faults(&root.join("crates/core/src"))?);
    faults.extend(unsafe_faults(&root)?);
    if faults.is_empty() {
        println!("layers: {} crates, all in order", crates.len());
        return Ok(());
    }
    Err(format!("layers:\n  {}", faults.join("\n  ")).into())
}

/// Each package of the workspace with its dependencies, without dev dependencies.
fn dependencies(metadata: &str) -> Result<BTreeMap<String, Vec<String>>, String> {
    let wrong = |what: &str| format!("cargo metadata: {what}");
    let value: Value = serde_json::from_str(metadata).map_err(|e| wrong(&e.to_string()))?;
    let packages = value["packages"]
        .as_array()
        .ok_or_else(|| wrong("no packages"))?;
    let mut found = BTreeMap::new();
    for package in packages {
        let name = package["name"]
            .as_str()
            .ok_or_else(|| wrong("a package without a name"))?;
        let deps = package["dependencies"].as_array().into_iter().flatten();
        let names = deps
            .filter(|dep| dep["kind"].as_str() != Some("dev"))
            .filter_map(|dep| dep["name"].as_str().map(String::from));
        found.insert(name.to_string(), names.collect());
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

fn core_faults(src: &Path) -> Result<Vec<String>, String> {
    let order = modules::Order::of(&shell::read(&src.join("lib.rs"))?);
    let mut files = Vec::new();
    for path in shell::files(src, &["rs"])? {
        files.push((shell::relative(&path, src), shell::read(&path)?));
    }
    Ok(order.faults(&files))
}

fn unsafe_faults(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for path in shell::files(root, &["rs"])? {
        let name = shell::relative(&path, root);
        if UNSAFE.contains(&name.as_str()) {
            continue;
        }
        let code = source::code(&shell::read(&path)?);
        if let Some(at) = source::occurrences(&code, "unsafe").next() {
            let line = source::line(&code, at);
            faults.push(format!("{name}:{line}: unsafe is not allowed in this file"));
        }
    }
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
        let text = r#"{"packages":[{"name":"a","dependencies":[
            {"name":"b","kind":null},{"name":"c","kind":"dev"},{"name":"d","kind":"build"}]}]}"#;
        let found = dependencies(text).expect("well formed");
        assert_eq!(found, crates(&[("a", &["b", "d"])]));
        assert!(dependencies("{}").is_err());
        assert!(dependencies("nonsense").is_err());
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
