//! The module tree: steps of one module become a unit that is called.

use super::program::{Program, Step, Val, What, value};
use crate::identifiers::{Identifiers, identifier};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// An item of a unit.
#[derive(Clone, Debug)]
pub enum Item {
    /// One step.
    Step(Step),
    /// A call of a submodule.
    Call(Unit),
}

impl Item {
    /// The values that it reads from outside.
    pub fn reads(&self) -> Vec<Val> {
        match self {
            Item::Step(step) => step.reads().collect(),
            Item::Call(unit) => unit.inputs.clone(),
        }
    }
}

/// One call of a module.
#[derive(Clone, Debug, Default)]
pub struct Unit {
    /// The module path.
    pub path: String,
    /// The values that it takes from outside.
    pub inputs: Vec<Val>,
    /// The values that others read.
    pub outputs: Vec<Val>,
    /// The steps and calls, in order.
    pub items: Vec<Item>,
}

/// A path component as an identifier or the index of a list item; `None` for components that name no module.
fn plain(word: &str) -> Option<String> {
    if word.is_empty() || word == "~" || word.contains('(') || word == "submodules" {
        return None;
    }
    let number = word
        .strip_prefix('v')
        .filter(|n| is_number(n))
        .unwrap_or(word);
    if is_number(number) {
        return Some(number.to_string());
    }
    Some(
        identifier(number, "part")
            .trim_start_matches('_')
            .to_string(),
    )
}

/// The components of a path, and the call index of each.
fn split(path: &str) -> impl Iterator<Item = (&str, u32)> {
    path.split(['.', '/']).map(|word| {
        let (word, call) = word.split_once('#').unwrap_or((word, "0"));
        (word, call.parse().unwrap_or(0))
    })
}

/// Maps paths of a model to paths of the code: components that differ among a model's parameters, or among its modules, differ
/// in the code too.
#[derive(Default)]
pub struct Clean {
    /// By the cleaned parent path and the component.
    words: HashMap<(String, String), String>,
}

impl Clean {
    /// From the names of parameters and the paths of modules.
    ///
    /// A module may be spelled differently among the paths and among the names (`_fc` and `fc`), so components are only
    /// kept distinct where one of the two sets has both.
    pub fn new(held: &[&str], modules: &[&str]) -> Clean {
        let mut clean = Clean::default();
        let depth = |path: &&str| split(path).count();
        let most = held.iter().chain(modules).map(depth).max().unwrap_or(0);
        for level in 0..most {
            // Cleaned components by parent path, in order, with the components that they come from.
            let mut found: BTreeMap<String, BTreeMap<String, [BTreeSet<String>; 2]>> =
                BTreeMap::new();
            for (which, paths) in [held, modules].into_iter().enumerate() {
                for path in paths {
                    let Some((word, _)) = split(path).nth(level) else {
                        continue;
                    };
                    let Some(name) = plain(word) else { continue };
                    let around = clean.first(path, level);
                    let sets = found.entry(around).or_default().entry(name).or_default();
                    sets[which].insert(word.to_string());
                }
            }
            for (around, names) in found {
                let mut scope = Identifiers::default();
                scope.reserve(names.keys().cloned());
                for (name, sets) in names {
                    if sets.iter().all(|set| set.len() < 2) {
                        continue;
                    }
                    let mut words: Vec<String> = sets.into_iter().flatten().collect();
                    words.sort_by_key(|word| (*word != name, word.clone()));
                    words.dedup();
                    for word in words.into_iter().skip(1) {
                        let own = match is_number(&name) {
                            true => scope.allocate(&word, "part"),
                            false => scope.allocate(&name, "part"),
                        };
                        clean.words.insert((around.clone(), word), own);
                    }
                }
            }
        }
        clean
    }

    fn first(&self, path: &str, count: usize) -> String {
        let mut out = String::new();
        for (word, _) in split(path).take(count) {
            if let Some(name) = plain(word) {
                let key = (out.clone(), word.to_string());
                out = joined(&out, self.words.get(&key).unwrap_or(&name));
            }
        }
        out
    }

    /// A path of the code, and the call index of each component.
    pub fn path(&self, path: &str) -> (String, Vec<u32>) {
        let calls = split(path).filter(|(word, _)| plain(word).is_some());
        let calls = calls.map(|(_, call)| call).collect();
        (self.first(path, usize::MAX), calls)
    }
}

/// Whether a component is an index in a list.
pub fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit())
}

/// A path with one more component.
pub fn joined(path: &str, word: &str) -> String {
    if path.is_empty() {
        word.to_string()
    } else {
        format!("{path}.{word}")
    }
}

/// Whether a path equals another or is below it.
pub fn lies_in(path: &str, outer: &str) -> bool {
    outer.is_empty()
        || path == outer
        || path
            .strip_prefix(outer)
            .is_some_and(|rest| rest.starts_with('.'))
}

/// How a model is divided into modules.
pub struct Division {
    /// Paths of lists.
    lists: HashSet<String>,
    /// Paths whose steps are inlined into the enclosing module.
    open: HashSet<String>,
}

impl Division {
    /// Finds the lists of a program.
    pub fn new(program: &Program) -> Division {
        let mut next: HashMap<String, BTreeSet<String>> = HashMap::new();
        let mut own: HashSet<String> = HashSet::new();
        for step in &program.steps {
            own.insert(step.path.clone());
            let words: Vec<&str> = step.path.split('.').collect();
            for n in 0..words.len() {
                next.entry(words[..n].join("."))
                    .or_default()
                    .insert(words[n].to_string());
            }
        }
        for input in &program.inputs {
            if program.held(input.value).is_some()
                && let Some((above, _)) = input.name.rsplit_once('.')
            {
                own.insert(above.to_string());
            }
        }
        let mut lists: Vec<String> = Vec::new();
        let mut paths: Vec<&String> = next.keys().collect();
        paths.sort_by_key(|p| p.len());
        for path in paths {
            let above = path.rsplit_once('.').map_or("", |p| p.0);
            if !path.is_empty()
                && !own.contains(path)
                && next[path].iter().all(|w| is_number(w))
                && !lists.iter().any(|l| l == above)
            {
                lists.push(path.clone());
            }
        }
        Division {
            lists: lists.into_iter().collect(),
            open: HashSet::new(),
        }
    }

    /// The child of `prefix` that a path is below; `None` if the path is `prefix` itself.
    fn below(&self, prefix: &str, path: &str) -> Option<String> {
        let mut at = prefix.to_string();
        loop {
            if path == at || !lies_in(path, &at) {
                return None;
            }
            let rest = if at.is_empty() {
                path
            } else {
                &path[at.len() + 1..]
            };
            at = joined(&at, rest.split('.').next().unwrap_or(rest));
            if !self.lists.contains(&at) && !self.open.contains(&at) {
                return Some(at);
            }
        }
    }

    /// The module of a step: a layer belongs to the enclosing module.
    fn part(&self, prefix: &str, step: &Step) -> Option<String> {
        let found = self.below(prefix, &step.path)?;
        match &step.what {
            What::Layer(layer) if layer.path == found => None,
            _ => Some(found),
        }
    }
}

/// The program as one unit.
pub fn build(program: &Program, division: &mut Division) -> Unit {
    for _ in 0..64 {
        let mut again = None;
        let items = divide(program, division, "", program.steps.clone(), &mut again);
        match again {
            // A module whose steps cannot be contiguous is inlined.
            Some(path) => {
                division.open.insert(path);
            }
            None => {
                let outputs = program.outputs.iter().filter_map(value).collect();
                return Unit {
                    path: String::new(),
                    inputs: Vec::new(),
                    outputs,
                    items,
                };
            }
        }
    }
    let items = program.steps.iter().cloned().map(Item::Step).collect();
    Unit {
        items,
        outputs: program.outputs.iter().filter_map(value).collect(),
        ..Unit::default()
    }
}

/// One call of a module, or none, and the consecutive steps in it.
type Run = (Option<(String, u32)>, Vec<Step>);

fn divide(
    program: &Program,
    division: &Division,
    prefix: &str,
    steps: Vec<Step>,
    again: &mut Option<String>,
) -> Vec<Item> {
    // Consecutive steps of one module; a later run is merged with an earlier one if no step in between depends on it.
    let mut runs: Vec<Run> = Vec::new();
    for step in steps {
        let key = division.part(prefix, &step).map(|path| {
            let depth = path.split('.').count();
            let call = step.calls.get(depth - 1).copied().unwrap_or(0);
            (path, call)
        });
        if key.is_some()
            && let Some(at) = runs.iter().rposition(|(k, _)| *k == key)
        {
            {
                let between: HashSet<Val> = runs[at + 1..]
                    .iter()
                    .flat_map(|(_, steps)| steps.iter().flat_map(|s| s.outs.clone()))
                    .collect();
                if !step.reads().any(|v| between.contains(&v)) {
                    runs[at].1.push(step);
                    continue;
                }
                let made: HashSet<Val> = runs[at].1.iter().flat_map(|s| s.outs.clone()).collect();
                let minds = runs[at + 1..]
                    .iter()
                    .flat_map(|(_, s)| s)
                    .any(|s| s.reads().any(|v| made.contains(&v)));
                if !minds {
                    let (key, mut steps) = runs.remove(at);
                    steps.push(step);
                    runs.push((key, steps));
                    continue;
                }
                if let Some((path, _)) = &key {
                    again.get_or_insert(path.clone());
                }
            }
        }
        match runs.last_mut() {
            Some((None, steps)) if key.is_none() => steps.push(step),
            _ => runs.push((key, vec![step])),
        }
    }
    let mut items = Vec::new();
    for (key, steps) in runs {
        let Some((path, _)) = key else {
            items.extend(steps.into_iter().map(Item::Step));
            continue;
        };
        let made: HashSet<Val> = steps.iter().flat_map(|s| s.outs.clone()).collect();
        let mut inputs = Vec::new();
        for v in steps.iter().flat_map(Step::reads) {
            let own = program.held(v).is_some_and(|i| lies_in(&i.name, &path));
            if !made.contains(&v) && !own && !inputs.contains(&v) {
                inputs.push(v);
            }
        }
        let is_small = steps.len() <= 3
            && steps.iter().all(|s| {
                matches!(s.what, What::Op(_)) && !s.reads().any(|v| program.held(v).is_some())
            });
        let mut outside: HashSet<Val> = program.outputs.iter().filter_map(value).collect();
        for step in &program.steps {
            if step.outs.first().is_none_or(|v| !made.contains(v)) {
                outside.extend(step.reads());
            }
        }
        let all: Vec<Val> = steps.iter().flat_map(|s| s.outs.clone()).collect();
        let outputs = all.into_iter().filter(|v| outside.contains(v)).collect();
        let inner = divide(program, division, &path, steps, again);
        if is_small {
            items.extend(inner);
        } else {
            items.push(Item::Call(Unit {
                path,
                inputs,
                outputs,
                items: inner,
            }));
        }
    }
    // Parameters are not the first arguments in code that people write.
    for item in &mut items {
        if let Item::Call(unit) = item {
            unit.inputs.sort_by_key(|v| program.held(*v).is_some());
        }
    }
    items
}

impl Division {
    /// Inlines every path that is not a known module.
    pub fn only(&mut self, program: &Program, modules: &[String]) {
        let known: HashSet<String> = modules.iter().map(|m| program.clean.path(m).0).collect();
        for step in &program.steps {
            let words: Vec<&str> = step.path.split('.').collect();
            for n in 1..=words.len() {
                let path = words[..n].join(".");
                if !known.contains(&path) && !self.lists.contains(&path) {
                    self.open.insert(path);
                }
            }
        }
    }

    /// Inlines a module into the enclosing one.
    pub fn inline(&mut self, path: String) {
        self.open.insert(path);
    }
}
