//! Checks the order of the core's modules: each may only refer to those above it in `lib.rs`.
//!
//! One group of types may refer to each other: a loop op holds a graph, a graph holds constants, a tensor refers to
//! its backend, a backend takes ops.

use std::collections::{BTreeMap, BTreeSet};

use crate::source;

/// Modules that may refer to one another.
const KNOT: &[&str] = &[
    "attr", "op", "infer", "tensor", "backend", "graph", "trace", "dispatch",
];

pub struct Order {
    modules: Vec<String>,
    /// Names that `lib.rs` re-exports, with their modules.
    exports: BTreeMap<String, String>,
}

impl Order {
    pub fn of(lib: &str) -> Self {
        let code = source::without_tests(&source::code(lib));
        let modules: Vec<String> = source::occurrences(&code, "mod")
            .map(|at| source::word(&code[at + "mod".len()..]).to_string())
            .filter(|name| !name.is_empty())
            .collect();
        let mut exports = BTreeMap::new();
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
        Order { modules, exports }
    }

    /// One line for each reference to a module that is not above.
    pub fn faults(&self, files: &[(String, String)]) -> Vec<String> {
        let code: Vec<(&str, String)> = files
            .iter()
            .map(|(name, text)| (name.as_str(), source::without_tests(&source::code(text))))
            .collect();
        let macros: BTreeSet<&str> = code
            .iter()
            .flat_map(|(_, code)| {
                source::occurrences(code, "macro_rules").map(|at| {
                    let rest = code[at + "macro_rules".len()..].trim_start();
                    source::word(rest.strip_prefix('!').unwrap_or(rest))
                })
            })
            .collect();
        let mut faults = Vec::new();
        for (file, code) in &code {
            let own = file.split(['/', '.']).next().unwrap_or_default();
            let is_test = file.split(['/', '.']).any(|part| part == "tests");
            let Some(place) = self.place(own) else {
                continue;
            };
            if is_test {
                continue;
            }
            let depth = file.split('/').count();
            for (at, name) in named(code, depth) {
                let line = source::line(code, at);
                let module = self.exports.get(name).map_or(name, String::as_str);
                match self.place(module) {
                    Some(other) if other <= place => {}
                    Some(_) if KNOT.contains(&own) && KNOT.contains(&module) => {}
                    Some(_) => faults.push(format!(
                        "core/src/{file}:{line}: {own} names {module}, which is below it in lib.rs"
                    )),
                    None if macros.contains(name) => {}
                    // A `super` path may stay inside the file; without a module of that name it does.
                    None if !code[at..].starts_with("crate") => {}
                    None => faults.push(format!(
                        "core/src/{file}:{line}: `crate::{name}`: name the module it comes from"
                    )),
                }
            }
        }
        faults
    }

    fn place(&self, module: &str) -> Option<usize> {
        self.modules.iter().position(|name| name == module)
    }
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
    ";

    fn faults(file: &str, text: &str) -> Vec<String> {
        Order::of(LIB).faults(&[(file.to_string(), text.to_string())])
    }

    #[test]
    fn modules_and_exports_are_read_from_lib() {
        let order = Order::of(LIB);
        assert_eq!(order.modules, ["error", "shape", "op", "tensor", "ops"]);
        let from = |name: &str| order.exports.get(name).map(String::as_str);
        assert_eq!(from("Result"), Some("error"));
        assert_eq!(from("plus"), Some("ops"));
        assert_eq!(from("deep"), Some("ops"));
        assert_eq!(from("add"), None);
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
            ["core/src/shape.rs:2: shape names ops, which is below it in lib.rs"]
        );
        assert_eq!(faults("shape.rs", "fn f() { crate::ops::add(); }").len(), 1);
        assert_eq!(faults("shape.rs", "use crate::Tensor;").len(), 1);
        assert_eq!(faults("shape.rs", "use super::ops;").len(), 1);
        assert_eq!(faults("shape/axis.rs", "use super::super::ops;").len(), 1);
        assert_eq!(
            faults("shape/axis.rs", "use super::ops;"),
            Vec::<String>::new()
        );
    }

    #[test]
    fn the_knot_may_name_itself_and_no_more() {
        assert!(faults("op.rs", "use crate::tensor::Tensor;").is_empty());
        assert_eq!(faults("op.rs", "use crate::ops::add;").len(), 1);
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
