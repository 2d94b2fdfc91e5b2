//! Attribute names of modules, parameters and buffers, and their keys in the weights file.

use super::code::{CodeWriter, Stored};
use super::deduplicate::relative;
use super::module_tree::{Unit, lies_in};
use super::program::{Operand, Val};
use super::target;
use crate::identifiers::is_keyword;

impl CodeWriter<'_> {
    /// The attribute of a module in the enclosing one, and its index if the attribute is a list.
    pub(super) fn attribute(&self, around: &str, path: &str) -> (String, Option<usize>) {
        let rest = if around.is_empty() {
            path
        } else {
            path.get(around.len() + 1..).unwrap_or(path)
        };
        let above = path.rsplit_once('.').map_or("", |p| p.0);
        if let Some(list) = self.lists.get(above)
            && above != around
        {
            let name = rest.rsplit_once('.').map_or(rest, |p| p.0);
            return (self.part(around, name), list.iter().position(|p| p == path));
        }
        (self.part(around, rest), None)
    }

    /// The attribute for a submodule or list.
    pub(super) fn part(&self, around: &str, rest: &str) -> String {
        self.named(around, false, rest)
    }

    /// The attribute for a parameter or buffer of the module.
    pub(super) fn value(&self, around: &str, rest: &str) -> String {
        self.named(around, true, rest)
    }

    fn named(&self, around: &str, is_value: bool, rest: &str) -> String {
        let mut attributes = self.attributes.borrow_mut();
        let key = (around.to_string(), is_value, rest.to_string());
        if let Some(name) = attributes.names.get(&key) {
            return name.clone();
        }
        let mut word = rest.replace('.', "_");
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            word = format!("layer_{word}");
        }
        let is_taken = self.target.has_attribute(&word) || is_keyword(&word) || word.is_empty();
        let word = match (is_taken, word.as_str()) {
            (true, "layers") => "blocks".into(),
            (true, _) => format!("{word}_"),
            _ => word,
        };
        let taken = attributes.taken.entry(around.to_string()).or_default();
        let name = taken.distinct(&word);
        attributes.names.insert(key, name.clone());
        name
    }

    /// The expression that reads a submodule in the enclosing one.
    pub(super) fn access(&self, around: &str, path: &str) -> String {
        let base = if self.target.classes { "self" } else { "p" };
        let (base, at) = self.innermost_access(base, around, path);
        self.below(&base, &at, path)
    }

    /// The expression that reads the innermost module on a path, and the path of that module.
    fn innermost_access(&self, base: &str, around: &str, path: &str) -> (String, String) {
        let (mut base, mut at) = (base.to_string(), around.to_string());
        loop {
            let inner = self.units.iter().filter(|u| {
                u.len() > at.len() && lies_in(u, &at) && lies_in(path, u) && *u != path
            });
            let Some(next) = inner.min_by_key(|u| u.len()) else {
                return (base, at);
            };
            base = self.below(&base, &at, next);
            at = next.clone();
        }
    }

    pub(super) fn below(&self, base: &str, around: &str, path: &str) -> String {
        let (name, at) = self.attribute(around, path);
        let mut text = if self.target.classes {
            format!("{base}.{name}")
        } else {
            format!("{base}[\"{name}\"]")
        };
        if let Some(i) = at {
            text.push_str(&format!("[{i}]"));
        }
        text
    }

    /// The expression that reads a parameter or buffer in an enclosing unit, and the unit that owns it.
    pub(super) fn held(&self, around: &str, name: &str) -> (String, String) {
        let base = if self.target.classes { "self" } else { "p" };
        let (base, at) = self.innermost_access(base, around, name);
        let rest = if at.is_empty() {
            name
        } else {
            &name[at.len() + 1..]
        };
        let word = self.value(&at, rest);
        let text = if self.target.classes {
            format!("{base}.{word}")
        } else {
            format!("{base}[\"{word}\"]")
        };
        (text, at)
    }

    /// A parameter or buffer that belongs to no layer and is read by some step: its name, sizes and dtype.
    pub(super) fn raw(&self, v: Val) -> Option<(String, Vec<String>, clematis_core::DType)> {
        let held = self.program.held(v)?;
        let in_layer = self
            .layers
            .values()
            .any(|l| l.weights.iter().any(|w| w.inputs.contains(&v)));
        let read = self.program.steps.iter().any(|s| s.reads().any(|x| x == v))
            || self.program.outputs.contains(&Operand::Val(v));
        let spec = &self.program.specs[v as usize];
        let shape = spec.shape.dims().iter().map(ToString::to_string).collect();
        (!in_layer && read).then(|| (held.name.clone(), shape, spec.dtype))
    }

    /// The line that reads a symbolic size from an argument's shape.
    pub(super) fn size(&self, name: &str, inputs: &[Val], arguments: &[String]) -> Option<String> {
        let word = self
            .printer
            .sizes
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_string());
        for (v, argument) in inputs.iter().zip(arguments) {
            for (axis, d) in self.program.specs[*v as usize]
                .shape
                .dims()
                .iter()
                .enumerate()
            {
                let by = (1..=64).find(|k| {
                    clematis_core::Dim::symbol(name)
                        .is_ok_and(|s| s * clematis_core::Dim::number(*k) == *d)
                });
                if let Some(k) = by {
                    let shape = match self.printer.name {
                        "tensorflow" => format!("tf.shape({argument})[{axis}]"),
                        "keras" => format!("ops.shape({argument})[{axis}]"),
                        _ => format!("{argument}.shape[{axis}]"),
                    };
                    let rest = if k == 1 {
                        String::new()
                    } else {
                        format!(" // {k}")
                    };
                    return Some(format!("{word} = {shape}{rest}"));
                }
            }
        }
        None
    }

    /// Keys and sources of all tensors in the weights file.
    pub(super) fn store(&mut self, root: &Unit) {
        let mut stored = Vec::new();
        let index = |v: Val| {
            self.program
                .inputs
                .iter()
                .position(|i| i.value == v)
                .unwrap_or(0)
        };
        for layer in self.layers.values() {
            let Some(made) = target::layer(self.target, layer, "") else {
                continue;
            };
            for (word, slot, last) in made.values {
                let Some(weight) = layer.weights.iter().find(|w| w.slot == slot) else {
                    continue;
                };
                let mut changes = weight.recipe.clone();
                changes.extend(last);
                stored.push(Stored {
                    name: self.file_name(&layer.path, &word),
                    inputs: weight.inputs.iter().map(|v| index(*v)).collect(),
                    changes,
                });
            }
        }
        for input in &self.program.inputs {
            if let Some((name, ..)) = self.raw(input.value) {
                let owner = self.held("", &name).1;
                let word = self.value(&owner, relative(&owner, &name));
                stored.push(Stored {
                    name: self.file_name(&owner, &word),
                    inputs: vec![index(input.value)],
                    changes: Vec::new(),
                });
            }
        }
        let _ = root;
        self.stored = stored;
    }

    /// The key of a tensor in the weights file: its attribute path, with dots.
    pub(super) fn file_name(&self, path: &str, word: &str) -> String {
        let mut chain: Vec<String> = Vec::new();
        let mut at = String::new();
        while at != path {
            let mut next: Vec<&str> = self
                .units
                .iter()
                .map(String::as_str)
                .chain(std::iter::once(path))
                .filter(|u| u.len() > at.len() && lies_in(u, &at) && lies_in(path, u))
                .collect();
            next.sort_by_key(|u| u.len());
            let Some(next) = next.first().map(ToString::to_string) else {
                break;
            };
            let (name, k) = self.attribute(&at, &next);
            match (k, self.target.name) {
                (Some(k), "keras" | "haiku") => chain.push(format!("{name}_{k}")),
                // Our list modules name their items this way.
                (Some(k), "clematis") => chain.extend([name, format!("v{k}")]),
                (Some(k), _) => chain.extend([name, k.to_string()]),
                (None, _) => chain.push(name),
            }
            at = next;
        }
        match self.target.name {
            "keras" => {
                chain.push(word.to_string());
                chain.join("/")
            }
            "haiku" => {
                let mut text: String = chain.iter().map(|w| format!("/~/{w}")).collect();
                match word.rsplit_once('.') {
                    Some((below, last)) => text.push_str(&format!("/{below}.{last}")),
                    None => text.push_str(&format!(".{word}")),
                }
                text
            }
            _ => {
                chain.push(word.to_string());
                chain.join(".")
            }
        }
    }
}
