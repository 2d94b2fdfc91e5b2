//! Merges equal units into one class or function, with arguments for the numbers in which they differ.

use super::code::{CodeWriter, reserved};
use super::expr::{self, each_hole, holes, skeleton};
use super::module_tree::is_number;
use crate::identifiers::identifier;

/// An attribute assignment in `__init__`.
#[derive(Clone)]
pub(super) enum Assignment {
    /// A single module or value: attribute and constructor.
    One(String, String),
    /// A list: attribute and constructors.
    Several(String, Vec<String>),
}

/// A class or function as one instance needs it.
#[derive(Clone)]
pub(super) struct Instance {
    pub(super) made: Vec<Assignment>,
    pub(super) lines: Vec<String>,
    pub(super) arguments: Vec<(String, String)>,
}

/// A class or function and all its instances.
pub(super) struct UnitClass {
    pub(super) base: String,
    pub(super) key: String,
    pub(super) inputs: Vec<String>,
    pub(super) instances: Vec<Instance>,
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

const CHILD: char = '\u{11}';

/// The placeholder for an instance of another class.
pub(super) fn child(kind: usize, instance: usize) -> String {
    format!("{CHILD}{kind}:{instance}\u{12}")
}

impl CodeWriter<'_> {
    pub(super) fn base(&self, path: &str) -> String {
        if let Some(name) = self.classes.get(path) {
            return name.clone();
        }
        let mut words: Vec<&str> = path.split('.').collect();
        let mut word = words.pop().unwrap_or("part");
        let numbered = is_number(word);
        while is_number(word) {
            word = words.pop().unwrap_or("part");
        }
        let word = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        let one = if numbered {
            word.strip_suffix('s').unwrap_or(word)
        } else {
            word
        };
        let name: String = one
            .split('_')
            .map(|w| {
                let mut c = w.chars();
                c.next()
                    .map_or(String::new(), |f| f.to_uppercase().chain(c).collect())
            })
            .collect();
        if name.is_empty() { "Part".into() } else { name }
    }

    /// Assigns class names and argument names.
    pub(super) fn assign_names(&mut self) {
        let mut used = reserved(&self.printer.helpers.borrow());
        // A function's own names shadow those of the file.
        let lines = self.kinds.iter().flat_map(|k| &k.instances);
        let lines = lines.flat_map(|x| &x.lines).flat_map(|line| names(line));
        used.reserve(lines);
        used.reserve(self.kinds.iter().flat_map(|k| k.inputs.iter().cloned()));
        for i in 0..self.kinds.len() {
            // Names with a leading underscore are those of helper functions.
            let base = self.kinds[i].base.trim_start_matches('_').to_string();
            let base = identifier(&base, "Part");
            let base = if self.target.classes {
                base
            } else {
                snake(&base)
            };
            let mut name = base.clone();
            let mut n = 2;
            while used.contains(&name) {
                name = format!("{base}{n}");
                n += 1;
            }
            self.kinds[i].name = used.distinct(&name);
            self.generalise(i);
            self.substitute(i);
        }
    }

    /// Turns the numbers in which instances differ into arguments.
    pub(super) fn generalise(&mut self, i: usize) {
        let kind = &mut self.kinds[i];
        let all: Vec<Vec<(String, String)>> = kind
            .instances
            .iter()
            .map(|x| holes(&instance_text(x)))
            .collect();
        let count = all.first().map_or(0, Vec::len);
        if all.iter().any(|h| h.len() != count) {
            return;
        }
        let mut groups: Vec<(Vec<String>, String)> = Vec::new();
        let mut names: Vec<Option<String>> = vec![None; count];
        // Arguments that the call method reads become attributes, next to those for modules and values.
        let mut used = reserved(&self.printer.helpers.borrow());
        used.reserve(kind.inputs.iter().cloned());
        let made = kind.instances.iter().flat_map(|x| &x.made);
        used.reserve(made.map(|m| match m {
            Assignment::One(name, _) | Assignment::Several(name, _) => name.clone(),
        }));
        for (at, name) in names.iter_mut().enumerate() {
            let column: Vec<String> = all.iter().map(|h| h[at].1.clone()).collect();
            if column.iter().all(|v| *v == column[0]) {
                continue;
            }
            if let Some((_, known)) = groups.iter().find(|(c, _)| *c == column) {
                *name = Some(known.clone());
                continue;
            }
            let label = match all[0][at].0.as_str() {
                "in" => "in_features".to_string(),
                "out" => "out_features".to_string(),
                "num" => "num_embeddings".to_string(),
                other => other.to_string(),
            };
            let mut own = label.clone();
            let mut n = 2;
            while used.contains(&own) || self.target.has_attribute(&own) {
                own = format!("{label}{n}");
                n += 1;
            }
            let own = used.distinct(&own);
            groups.push((column, own.clone()));
            *name = Some(own);
        }
        kind.arguments = groups.iter().map(|g| g.1.clone()).collect();
        for (n, instance) in kind.instances.iter_mut().enumerate() {
            instance.arguments = groups
                .iter()
                .map(|(c, name)| (name.clone(), c[n].clone()))
                .collect();
        }
        // The first instance is the one that is written.
        let mut at = 0;
        let mut put = |text: &str, is_call: bool| {
            each_hole(text, &mut |_, value| {
                let name = names[at].clone();
                at += 1;
                match name {
                    Some(name) if is_call && self.target.classes => format!("self.{name}"),
                    Some(name) => name,
                    None => value.to_string(),
                }
            })
        };
        if let Some(first) = kind.instances.first_mut() {
            for m in &mut first.made {
                match m {
                    Assignment::One(_, t) => *t = put(t, false),
                    Assignment::Several(_, items) => {
                        items.iter_mut().for_each(|t| *t = put(t, false))
                    }
                }
            }
            for line in &mut first.lines {
                *line = put(line, true);
            }
        }
    }

    /// Replaces the placeholders of a finished class by constructor calls.
    pub(super) fn substitute(&mut self, i: usize) {
        let name = self.kinds[i].name.clone();
        let with_rngs = self.target.name == "flax";
        let classes = self.target.classes;
        let makers: Vec<String> = self.kinds[i]
            .instances
            .iter()
            .map(|x| {
                let mut parts: Vec<String> = x
                    .arguments
                    .iter()
                    .enumerate()
                    .map(|(n, (word, value))| {
                        let value = expr::hole(word, value);
                        if n < 2 && classes {
                            value
                        } else {
                            format!("{word}={value}")
                        }
                    })
                    .collect();
                if with_rngs {
                    parts.push("rngs=rngs".into());
                }
                match classes {
                    true => format!("{name}({}", parts.join(", ")),
                    false => format!(
                        "{name}({}",
                        parts.iter().map(|p| format!("{p}, ")).collect::<String>()
                    ),
                }
            })
            .collect();
        for kind in &mut self.kinds[i + 1..] {
            for instance in &mut kind.instances {
                for (n, maker) in makers.iter().enumerate() {
                    let mark = child(i, n);
                    let named = |attr: &str| match self.target.name {
                        "haiku" | "keras" => {
                            let comma = if maker.ends_with('(') { "" } else { ", " };
                            format!("{maker}{comma}name=\"{attr}\")")
                        }
                        _ => format!("{maker})"),
                    };
                    for m in &mut instance.made {
                        match m {
                            Assignment::One(attr, t) => *t = t.replace(&mark, &named(attr)),
                            Assignment::Several(attr, items) => {
                                for (k, t) in items.iter_mut().enumerate() {
                                    *t = t.replace(&mark, &named(&format!("{attr}_{k}")));
                                }
                            }
                        }
                    }
                    if !classes {
                        for line in &mut instance.lines {
                            *line = line.replace(&mark, maker);
                        }
                    }
                }
            }
        }
    }

    pub(super) fn parts(&self, i: usize) -> Parts {
        let kind = &self.kinds[i];
        let first = &kind.instances[0];
        let fill = |t: &str| expr::filled(t);
        let body: Vec<String> = first.lines.iter().map(|l| fill(l)).collect();
        let kept = kind
            .arguments
            .iter()
            .filter(|a| body.iter().any(|l| l.contains(&format!("self.{a}"))))
            .cloned();
        Parts {
            name: kind.name.clone(),
            inputs: kind.inputs.clone(),
            kept: kept.collect(),
            arguments: kind.arguments.clone(),
            made: first
                .made
                .iter()
                .map(|m| match m {
                    Assignment::One(n, t) => (n.clone(), vec![fill(t)], false),
                    Assignment::Several(n, items) => {
                        (n.clone(), items.iter().map(|t| fill(t)).collect(), true)
                    }
                })
                .collect(),
            body,
        }
    }
}

/// The parts of a class or function definition.
pub struct Parts {
    /// The name of the class or function.
    pub name: String,
    /// The parameters of the call method.
    pub inputs: Vec<String>,
    /// The parameters of `__init__`.
    pub arguments: Vec<String>,
    /// The parameters of `__init__` that the call method reads.
    pub kept: Vec<String>,
    /// Attributes: name, constructors, and whether it is a list.
    pub made: Vec<(String, Vec<String>, bool)>,
    /// The body of the call method.
    pub body: Vec<String>,
}

/// A path relative to an enclosing path.
pub fn relative<'a>(around: &str, path: &'a str) -> &'a str {
    if around.is_empty() {
        path
    } else {
        path.get(around.len() + 1..).unwrap_or(path)
    }
}

pub(super) fn instance_text(x: &Instance) -> String {
    let mut text = String::new();
    for m in &x.made {
        match m {
            Assignment::One(n, t) => text.push_str(&format!("{n}={t}\n")),
            Assignment::Several(n, items) => {
                text.push_str(&format!("{n}=[{}]\n", items.join(", ")))
            }
        }
    }
    text.push_str(&x.lines.join("\n"));
    text
}

/// The key that instances of one class share: everything except numbers and the instances of other classes they hold.
pub(super) fn instance_key(x: &Instance) -> String {
    let text = skeleton(&instance_text(x));
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(CHILD) {
        let Some(end) = rest[start..].find('\u{12}').map(|e| e + start) else {
            break;
        };
        let kind = rest[start..end].split(':').next().unwrap_or("");
        out.push_str(&rest[..start]);
        out.push_str(kind);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}

/// The names in a line, without attribute names and the contents of strings.
fn names(line: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (i, code) in line.split('"').enumerate() {
        if i % 2 == 1 {
            continue;
        }
        let mut before = ' ';
        let mut rest = code;
        while let Some(c) = rest.chars().next() {
            let end = match is_part(c) {
                true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
                false => c.len_utf8(),
            };
            if is_part(c) && before != '.' {
                found.push(rest[..end].to_string());
            }
            before = c;
            rest = &rest[end..];
        }
    }
    found
}

/// `TwoWords` as `two_words`.
pub fn snake(name: &str) -> String {
    let mut out = String::new();
    let mut before = ' ';
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() && !before.is_uppercase() && before != '_' {
            out.push('_');
        }
        out.extend(c.to_lowercase());
        before = c;
    }
    out
}
