//! Checks the order of the modules of a crate: each may only refer to those above it in `lib.rs` or `main.rs`.
//!
//! Modules that refer to one another form a group, which the caller lists. A listed group must be such a cycle, exactly: a
//! group that got smaller is reported as well.

use std::collections::{BTreeMap, BTreeSet};

use crate::source;

/// The root file as a module: it sees all others, so it is the last.
const ROOT: &str = "lib";

/// The modules of one crate in order.
pub struct Order {
    modules: Vec<String>,
    /// Names that the root re-exports or defines, with their modules.
    exports: BTreeMap<String, String>,
    /// Groups of modules that may refer to one another.
    groups: Vec<Vec<String>>,
}

/// A reference from one module to another.
struct Reference<'a> {
    file: &'a str,
    line: usize,
    from: &'a str,
    to: &'a str,
}

impl Order {
    /// The order that a root file, `lib.rs` or `main.rs`, defines.
    pub fn of(root: &str, groups: &[&[&str]]) -> Self {
        let code = source::without_tests(&source::code(root));
        let mut modules: Vec<String> = source::occurrences(&code, "mod")
            .map(|at| source::word(&code[at + "mod".len()..]).to_string())
            .filter(|name| !name.is_empty())
            .collect();
        let mut exports = BTreeMap::new();
        for item in ["const", "enum", "fn", "static", "struct", "trait", "type"] {
            for at in source::occurrences(&code, item) {
                let name = source::word(&code[at + item.len()..]);
                exports.insert(name.to_string(), ROOT.to_string());
            }
        }
        for at in source::occurrences(&code, "use") {
            let rest = &code[at + "use".len()..];
            let path = rest.split(';').next().unwrap_or_default().trim();
            let path = path.strip_prefix("crate::").unwrap_or(path);
            let path = path.strip_prefix("self::").unwrap_or(path);
            let module = source::word(path);
            if modules.iter().any(|name| name == module) {
                for leaf in leaves(path) {
                    exports.insert(leaf.to_string(), module.to_string());
                }
            }
        }
        // A module hides an item of its name, `run::run` for one.
        exports.retain(|name, from| from != ROOT || !modules.contains(name));
        modules.push(ROOT.to_string());
        let groups = groups
            .iter()
            .map(|group| group.iter().map(|name| name.to_string()).collect())
            .collect();
        Order {
            modules,
            exports,
            groups,
        }
    }

    /// One line for each pair of modules of which the first refers to the second, which is not above it, and for each group that is not the cycle it is said to
    /// be. `files` are the paths relative to the source folder `src`, with their texts.
    pub fn faults(&self, src: &str, files: &[(String, String)]) -> Vec<String> {
        let code: Vec<(&str, String)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), source::without_tests(&source::code(text))))
            .collect();
        let (references, mut faults) = self.references(src, &code);
        let mut seen = BTreeSet::new();
        for Reference {
            file,
            line,
            from,
            to,
        } in &references
        {
            let grouped =
                |group: &Vec<String>| [from, to].iter().all(|m| group.iter().any(|g| g == *m));
            let is_below = self.place(to) > self.place(from);
            if is_below && !self.groups.iter().any(grouped) && seen.insert((from, to)) {
                faults.push(format!(
                    "{src}/{file}:{line}: {from} refers to {to}, which is below it in the root file"
                ));
            }
        }
        let cycles = cycles(&self.modules, &references);
        for group in &self.groups {
            let listed: BTreeSet<&str> = group.iter().map(String::as_str).collect();
            if !cycles.contains(&listed) {
                let parts: Vec<String> = cycles
                    .iter()
                    .filter(|cycle| !cycle.is_disjoint(&listed))
                    .map(|cycle| format!("{cycle:?}"))
                    .collect();
                let now = match parts.is_empty() {
                    true => "none of them".to_string(),
                    false => parts.join(", "),
                };
                faults.push(format!(
                    "{src}: the group {listed:?} in xtask/src/layers.rs is out of date; {now} refer to one another"
                ));
            }
        }
        faults
    }

    /// References between modules, and a fault for each name whose module is unknown.
    fn references<'a>(
        &'a self,
        src: &str,
        code: &'a [(&'a str, String)],
    ) -> (Vec<Reference<'a>>, Vec<String>) {
        let macros: BTreeSet<&str> = code
            .iter()
            .flat_map(|(_, code)| {
                source::occurrences(code, "macro_rules").map(|at| {
                    let rest = code[at + "macro_rules".len()..].trim_start();
                    source::word(rest.strip_prefix('!').unwrap_or(rest))
                })
            })
            .collect();
        let (mut references, mut faults) = (Vec::new(), Vec::new());
        for (file, code) in code {
            let from = file.split(['/', '.']).next().unwrap_or_default();
            let is_test = file.split(['/', '.']).any(|part| part == "tests");
            if is_test || from == ROOT || self.place(from).is_none() {
                continue;
            }
            let depth = file.split('/').count();
            for (at, name) in named(code, depth) {
                let line = source::line(code, at);
                let to = self.exports.get(name).map_or(name, String::as_str);
                if self.place(to).is_some() {
                    references.push(Reference {
                        file,
                        line,
                        from,
                        to,
                    });
                } else if !macros.contains(name) && code[at..].starts_with("crate") {
                    // A `super` path may stay inside the file; without a module of that name it does.
                    faults.push(format!(
                        "{src}/{file}:{line}: `crate::{name}`: name the module it comes from"
                    ));
                }
            }
        }
        (references, faults)
    }

    fn place(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|name| name == module)
    }
}

/// The sets of modules that reach one another.
fn cycles<'a>(modules: &'a [String], references: &[Reference<'a>]) -> Vec<BTreeSet<&'a str>> {
    let mut reach: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for Reference { from, to, .. } in references {
        reach.entry(from).or_default().insert(to);
    }
    // The root declares all modules.
    let all = modules.iter().map(String::as_str);
    reach.entry(ROOT).or_default().extend(all);
    for through in modules {
        let onwards = reach.get(through.as_str()).cloned().unwrap_or_default();
        for reached in reach.values_mut() {
            if reached.contains(through.as_str()) {
                reached.extend(&onwards);
            }
        }
    }
    let reaches = |a: &str, b: &str| reach.get(a).is_some_and(|reached| reached.contains(b));
    let mut found: Vec<BTreeSet<&str>> = Vec::new();
    for module in modules {
        let cycle: BTreeSet<&str> = modules
            .iter()
            .map(String::as_str)
            .filter(|other| reaches(module, other) && reaches(other, module))
            .collect();
        if cycle.len() > 1 && !found.contains(&cycle) {
            found.push(cycle);
        }
    }
    found
}

/// Positions and first segments of paths from the crate root: `crate::x`, and `super::x` repeated to the depth of the
/// file.
fn named(code: &str, depth: usize) -> Vec<(usize, &str)> {
    let up = "super::".repeat(depth);
    let mut found = Vec::new();
    for root in ["crate::", up.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = &code[..at];
            let joined = before.chars().next_back().is_some_and(source::is_word);
            // `$crate` belongs to the macro's caller; `in crate::x` is a visibility; longer chains of `super` are
            // found at their own start.
            if joined || before.ends_with(['$', ':']) || before.trim_end().ends_with("(in") {
                continue;
            }
            let firsts = firsts(&code[at + root.len()..]);
            found.extend(firsts.into_iter().map(|name| (at, name)));
        }
    }
    found.sort();
    found
}

/// The first segments of a path or of a braced group of paths; a glob has none.
fn firsts(text: &str) -> Vec<&str> {
    let text = text.trim_start();
    let Some(group) = text.strip_prefix('{') else {
        return vec![source::word(text)]
            .into_iter()
            .filter(|name| !name.is_empty())
            .collect();
    };
    let mut found = Vec::new();
    let (mut depth, mut starts) = (1usize, true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => break,
            '}' => depth -= 1,
            ',' if depth == 1 => starts = true,
            c if starts && source::is_word(c) => {
                found.push(source::word(&group[at..]));
                starts = false;
            }
            _ => {}
        }
    }
    found.retain(|name| *name != "self");
    found
}

/// The names that a `use` path imports: those followed by a comma, a brace or the end.
fn leaves(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = path;
    while let Some(at) = rest.find(source::is_word) {
        let name = source::word(&rest[at..]);
        rest = rest[at + name.len()..].trim_start();
        if rest.is_empty() || rest.starts_with([',', '}']) {
            found.push(name);
        }
    }
    found.retain(|name| *name != "self");
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "
        //! The core. mod not_this;
        pub mod error;
        mod shape;
        pub mod op;
        pub(crate) mod tensor;
        pub mod ops;
        #[cfg(test)]
        mod cases;
        pub use error::{Error, Result};
        pub use ops::{self, add as plus, nested::{deep}};
        pub use tensor::Tensor;
        pub fn version() -> u32 { 1 }
    ";

    /// The faults of one file, among files where `op` and `tensor` refer to each other as they may.
    fn faults(file: &str, text: &str) -> Vec<String> {
        let cycle = [
            ("op/knot.rs", "use crate::tensor::Tensor;"),
            ("tensor/knot.rs", "use crate::op::Op;"),
        ];
        let files: Vec<_> = cycle
            .into_iter()
            .chain([(file, text)])
            .map(|(file, text)| (file.to_string(), text.to_string()))
            .collect();
        Order::of(LIB, &[&["op", "tensor"]]).faults("core/src", &files)
    }

    #[test]
    fn modules_and_exports_are_read_from_lib() {
        let order = Order::of(LIB, &[]);
        assert_eq!(
            order.modules,
            ["error", "shape", "op", "tensor", "ops", "lib"]
        );
        let from = |name: &str| order.exports.get(name).map(String::as_str);
        assert_eq!(from("Result"), Some("error"));
        assert_eq!(from("plus"), Some("ops"));
        assert_eq!(from("deep"), Some("ops"));
        assert_eq!(from("add"), None);
        assert_eq!(from("version"), Some("lib"));
    }

    #[test]
    fn a_module_may_name_those_above_it() {
        assert!(
            faults(
                "ops/create.rs",
                "use crate::{Error, shape::Shape, tensor::*};"
            )
            .is_empty()
        );
        assert!(faults("shape.rs", "use crate::error::Error; use crate::shape::X;").is_empty());
    }

    #[test]
    fn a_module_may_not_name_those_below_it() {
        let found = faults("shape.rs", "\nuse crate::{\n  error::Error, ops::add};");
        assert_eq!(
            found,
            ["core/src/shape.rs:2: shape refers to ops, which is below it in the root file"]
        );
        assert_eq!(faults("shape.rs", "fn f() { crate::ops::add(); }").len(), 1);
        assert_eq!(faults("shape.rs", "use crate::Tensor;").len(), 1);
        assert_eq!(faults("shape.rs", "use crate::version;").len(), 1);
        assert_eq!(faults("shape.rs", "use super::ops;").len(), 1);
        assert_eq!(faults("shape/axis.rs", "use super::super::ops;").len(), 1);
        assert_eq!(
            faults("shape/axis.rs", "use super::ops;"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_group_may_refer_to_itself_and_no_more() {
        assert!(faults("op.rs", "use crate::tensor::Tensor;").is_empty());
        assert_eq!(faults("op.rs", "use crate::ops::add;").len(), 1);
    }

    #[test]
    fn a_group_must_be_a_cycle_exactly() {
        let files = |op: &str| {
            [("op.rs", op), ("tensor.rs", "use crate::op::Op;")]
                .map(|(file, text)| (file.to_string(), text.to_string()))
        };
        let group: &[&[&str]] = &[&["op", "tensor"]];
        let cycle = files("use crate::tensor::Tensor;");
        assert!(Order::of(LIB, group).faults("src", &cycle).is_empty());
        assert_eq!(
            Order::of(LIB, &[]).faults("src", &cycle),
            ["src/op.rs:1: op refers to tensor, which is below it in the root file"]
        );
        let mended = files("");
        assert_eq!(
            Order::of(LIB, group).faults("src", &mended),
            [
                "src: the group {\"op\", \"tensor\"} in xtask/src/layers.rs is out of date; none of them refer to one another"
            ]
        );
        let wide: &[&[&str]] = &[&["op", "shape", "tensor"]];
        assert_eq!(Order::of(LIB, wide).faults("src", &cycle).len(), 1);
    }

    #[test]
    fn tests_comments_and_macro_paths_are_exempt() {
        let text = "// crate::ops\n#[cfg(test)] mod tests { use crate::ops; }\nmacro_rules! m { () => { $crate::ops::f() } } crate::m!();";
        assert_eq!(faults("shape.rs", text), Vec::<String>::new());
        assert!(faults("shape/tests.rs", "use crate::ops;").is_empty());
        assert!(faults("cases.rs", "use crate::ops;").is_empty());
    }

    #[test]
    fn a_name_of_unknown_origin_is_asked_for() {
        let found = faults("shape.rs", "use crate::Mystery;");
        assert_eq!(
            found,
            ["core/src/shape.rs:1: `crate::Mystery`: name the module it comes from"]
        );
    }
}
