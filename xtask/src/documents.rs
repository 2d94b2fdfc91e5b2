//! Checks that documents of the code agree with it: every path and function that they name exists, and the files in which
//! an op occurs are those that its recipe in `CONTRIBUTING.md` lists.

use std::collections::BTreeSet;
use std::path::Path;

use crate::{Outcome, shell, source};

/// The documents that are read.
const DOCUMENTS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/architecture"];

/// What is searched for the ops of recipes. Tests, benchmarks and examples are left out unless a recipe lists them.
const SEARCHED: &[&str] = &["crates", "python/clematis", "docs/ops.md"];
const EXTENSIONS: &[&str] = &["json", "md", "py", "pyi", "rs", "toml", "txt"];
const NOT_SEARCHED: &[&str] = &["tests", "benches", "examples"];

pub fn run() -> Outcome {
    let root = shell::root();
    let mut pages = Vec::new();
    for document in DOCUMENTS {
        let path = root.join(document);
        match path.is_dir() {
            true => pages.extend(shell::files(&path, &["md"])?),
            false => pages.push(path),
        }
    }
    let (mut faults, mut recipes) = (Vec::new(), 0);
    for page in &pages {
        let (name, text) = (shell::relative(page, &root), shell::read(page)?);
        faults.extend(named_faults(&root, &name, &text)?);
        for recipe in Recipe::all(&text) {
            faults.extend(recipe.faults(&occurrences(&root, &recipe)?));
            recipes += 1;
        }
    }
    if faults.is_empty() {
        println!(
            "documents: {} pages, {recipes} recipes, as the code is",
            pages.len()
        );
        return Ok(());
    }
    Err(format!("documents:\n  {}", faults.join("\n  ")).into())
}

/// The code spans of a text, with the numbers of their lines. Fenced blocks are not read.
fn spans(text: &str) -> Vec<(usize, &str)> {
    let (mut found, mut fenced) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let inside = line.split('`').skip(1).step_by(2);
            found.extend(inside.map(|span| (number + 1, span)));
        }
    }
    found
}

/// Whether a code span is meant as a path from the root of the repository.
fn is_path(span: &str) -> bool {
    let first = span.split('/').next().unwrap_or_default();
    let rooted = ["bench", "crates", "data", "docs", "fuzz", "python", "xtask"].contains(&first);
    rooted && span.contains('/') && !span.contains([' ', '<', '*', '('])
}

/// A fault for each path or link that leads nowhere, and for each function that its file does not have: in a line of a numbered
/// list, the functions stand right after the path.
fn named_faults(root: &Path, page: &str, text: &str) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    for (line, span) in spans(text) {
        if is_path(span) && !root.join(span).exists() {
            faults.push(format!("{page}:{line}: `{span}` does not exist"));
        }
    }
    let folder = root.join(page);
    let folder = folder.parent().unwrap_or(root);
    for (number, line) in text.lines().enumerate() {
        for link in line.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if !target.contains("://") && !folder.join(target).exists() {
                faults.push(format!(
                    "{page}:{}: the link {target} leads nowhere",
                    number + 1
                ));
            }
        }
        let Some((path, names)) = step(line) else {
            continue;
        };
        let path = root.join(path);
        if !path.is_file() {
            continue;
        }
        let code = shell::read(&path)?;
        for name in names {
            let last = name.rsplit([':', '.']).next().unwrap_or(name);
            if source::occurrences(&code, last).next().is_none() {
                faults.push(format!(
                    "{page}:{}: `{name}` does not occur in {}",
                    number + 1,
                    shell::relative(&path, root)
                ));
            }
        }
    }
    Ok(faults)
}

/// The path and the functions of a line such as ``1. `path`, `function`, `function`: what it does``.
fn step(line: &str) -> Option<(&str, Vec<&str>)> {
    let (number, rest) = line.split_once(". `")?;
    number.parse::<u32>().ok()?;
    let (path, mut rest) = rest.split_once('`')?;
    let mut names = Vec::new();
    while let Some((name, after)) = rest
        .strip_prefix(", `")
        .and_then(|rest| rest.split_once('`'))
    {
        names.push(name);
        rest = after;
    }
    names.retain(|name| !name.contains('/'));
    is_path(path).then_some((path, names))
}

/// A recipe: the files to touch, shown on an op that exists. `<!-- recipe: signbit Signbit 12 -->` begins it; it ends with
/// the next such comment. The number is that of the files in which one of the names occurs, without those in folders that
/// are listed as a whole: these are optional.
struct Recipe<'a> {
    names: [&'a str; 2],
    count: usize,
    paths: Vec<&'a str>,
}

impl<'a> Recipe<'a> {
    fn all(text: &'a str) -> Vec<Recipe<'a>> {
        let mut found = Vec::new();
        for part in text.split("<!-- recipe: ").skip(1) {
            let Some((head, body)) = part.split_once("-->") else {
                continue;
            };
            let words: Vec<&str> = head.split_whitespace().collect();
            let [one, two, count] = words[..] else {
                continue;
            };
            let body = body.split("\n<!--").next().unwrap_or(body);
            let paths = spans(body).into_iter().map(|(_, span)| span);
            found.push(Recipe {
                names: [one, two],
                count: count.parse().unwrap_or_default(),
                paths: paths.filter(|span| is_path(span)).collect(),
            });
        }
        found
    }

    /// Whether it lists this file, or a folder with it.
    fn lists(&self, file: &str) -> bool {
        let is = |path: &&str| file == *path || path.ends_with('/') && file.starts_with(*path);
        self.paths.iter().any(is)
    }

    fn faults(&self, files: &BTreeSet<String>) -> Vec<String> {
        let [op, _] = self.names;
        let mut faults = Vec::new();
        for file in files.iter().filter(|file| !self.lists(file)) {
            faults.push(format!(
                "{op} occurs in {file}, which its recipe does not list"
            ));
        }
        for path in &self.paths {
            let has = |file: &String| file == path || path.ends_with('/') && file.starts_with(path);
            if !files.iter().any(has) {
                faults.push(format!(
                    "the recipe of {op} lists {path}, where it does not occur"
                ));
            }
        }
        let is_optional =
            |file: &&String| (self.paths.iter()).any(|p| p.ends_with('/') && file.starts_with(*p));
        let exact = |file: &&String| self.paths.contains(&file.as_str());
        let count = files.iter().filter(|f| exact(f) || !is_optional(f)).count();
        if count != self.count {
            faults.push(format!(
                "{op} occurs in {count} files, and its recipe says {}",
                self.count
            ));
        }
        faults
    }
}

/// The files in which an op is named, other than as a method: what calls it is no part of its recipe.
fn occurrences(root: &Path, recipe: &Recipe<'_>) -> Result<BTreeSet<String>, String> {
    let mut found = BTreeSet::new();
    let mut paths = Vec::new();
    for searched in SEARCHED {
        let path = root.join(searched);
        match path.is_dir() {
            true => paths.extend(shell::files(&path, EXTENSIONS)?),
            false => paths.push(path),
        }
    }
    for path in &recipe.paths {
        let path = root.join(path);
        if path.is_file() && !paths.contains(&path) {
            paths.push(path);
        }
    }
    for path in paths {
        let name = shell::relative(&path, root);
        let is_test = name
            .split(['/', '.'])
            .any(|part| NOT_SEARCHED.contains(&part));
        if is_test && !recipe.lists(&name) {
            continue;
        }
        let text = shell::read(&path)?;
        let is_named =
            |op: &str| source::occurrences(&text, op).any(|at| !text[..at].ends_with('.'));
        if recipe.names.into_iter().any(is_named) {
            found.insert(name);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_agree_with_the_code() {
        assert_eq!(run(), Ok(()));
    }

    #[test]
    fn paths_and_functions_are_read_from_lines() {
        let line = "1. `crates/core/src/jit.rs`, `Program::close`, `run`: closes `it`.";
        let expected = ("crates/core/src/jit.rs", vec!["Program::close", "run"]);
        assert_eq!(step(line), Some(expected));
        assert_eq!(
            step("1. `crates/core/src/jit.rs`: the file."),
            Some(("crates/core/src/jit.rs", vec![]))
        );
        assert_eq!(step("1. a word: `crates/core/src/jit.rs`"), None);
        assert_eq!(step("- `crates/core/src/jit.rs`: no number"), None);
    }

    #[test]
    fn what_does_not_exist_is_a_fault() {
        let text = "[a](b.md) [c](README.md#d) [e](https://f.g)\n`crates/core/src/nowhere.rs` and `crates/<name>`\n1. `xtask/src/documents.rs`, `no_such`: x\n```\n`xtask/no`\n```";
        // Written apart, so that this file does not have it.
        let text = text.replace("no_such", concat!("absent_", "function"));
        let found = named_faults(&shell::root(), "page.md", &text).expect("readable");
        assert_eq!(
            found,
            [
                "page.md:2: `crates/core/src/nowhere.rs` does not exist".to_string(),
                "page.md:1: the link b.md leads nowhere".to_string(),
                format!(
                    "page.md:3: `{}` does not occur in xtask/src/documents.rs",
                    concat!("absent_", "function")
                ),
            ]
        );
    }

    #[test]
    fn a_recipe_lists_the_files_of_its_op_and_their_number() {
        let text =
            "<!-- recipe: erf Erf 1 -->\n`crates/a.rs`, `crates/b/`\n<!-- end -->\n`crates/c.rs`";
        let recipes = Recipe::all(text);
        let [recipe] = &recipes[..] else {
            panic!("expected one recipe");
        };
        let files = |names: &[&str]| names.iter().map(|n| n.to_string()).collect();
        assert!(
            recipe
                .faults(&files(&["crates/a.rs", "crates/b/c.rs"]))
                .is_empty()
        );
        assert_eq!(
            recipe.faults(&files(&["crates/a.rs", "crates/d.rs"])),
            [
                "erf occurs in crates/d.rs, which its recipe does not list",
                "the recipe of erf lists crates/b/, where it does not occur",
                "erf occurs in 2 files, and its recipe says 1"
            ]
        );
        let more = files(&["crates/a.rs", "crates/b/c.rs", "crates/b/d.rs"]);
        assert!(recipe.faults(&more).is_empty());
    }
}
