//! The tree structure of a checkpoint, with the plain values in it, as JSON.
//!
//! A tensor is `["tensor"]`; its name is its path. Strings, booleans, null and 64-bit integers are JSON's own.
//! Anything else is a list that begins with a keyword: `["list", …]`, `["tuple", …]`, `["dict", key, value, …]`,
//! `["int", "digits"]`, `["float", "digits"]`, `["complex", "digits", "digits"]`. One level of the tree is one level
//! of JSON.

use clematis_core::{Result, bail, ensure};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Maximum nesting depth; the JSON parser's own limit is 127.
pub const DEPTH: usize = 100;

/// Maximum number of name parts that become nested dicts: a level takes far more memory than a dot.
const PARTS: usize = 300_000;

/// The structure of a tree, with its plain values. Tensors are stored separately, by path.
#[derive(Clone, Debug, PartialEq)]
pub enum Structure {
    /// A tensor, stored under its path.
    Tensor,
    /// `None`.
    Nothing,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// An integer of more than 64 bits, as digits.
    BigInt(String),
    /// A float.
    Float(f64),
    /// A complex number: real and imaginary part.
    Complex(f64, f64),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Structure>),
    /// A tuple.
    Tuple(Vec<Structure>),
    /// A dict, in insertion order.
    Dict(Vec<(Key, Structure)>),
}

/// A key of a dict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// A string.
    Text(String),
    /// An integer.
    Int(i64),
    /// A boolean.
    Bool(bool),
    /// `None`.
    Nothing,
}

impl fmt::Display for Key {
    /// Formats as Python's `str`, because it becomes a part of paths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Text(text) => f.write_str(text),
            Key::Int(v) => write!(f, "{v}"),
            Key::Bool(true) => f.write_str("True"),
            Key::Bool(false) => f.write_str("False"),
            Key::Nothing => f.write_str("None"),
        }
    }
}

/// Dicts by name parts, before they are sorted.
#[derive(Default)]
struct Branch {
    places: HashMap<String, usize>,
    parts: Vec<(String, Option<Branch>)>,
}

impl Branch {
    /// Adds a name; false if a tensor is where a dict is needed, or the reverse.
    fn add(&mut self, name: &str) -> bool {
        let (first, rest) = match name.split_once('.') {
            Some((first, rest)) => (first, Some(rest)),
            None => (name, None),
        };
        let new = self.parts.len();
        let place = *self.places.entry(first.into()).or_insert(new);
        if place == new {
            self.parts
                .push((first.into(), rest.map(|_| Branch::default())));
            return rest.is_none_or(|rest| self.parts[new].1.as_mut().is_some_and(|b| b.add(rest)));
        }
        match (&mut self.parts[place].1, rest) {
            (Some(inside), Some(rest)) => inside.add(rest),
            _ => false,
        }
    }

    fn structure(self) -> Structure {
        let part = |(name, inside): (String, Option<Branch>)| {
            (
                Key::Text(name),
                inside.map_or(Structure::Tensor, Branch::structure),
            )
        };
        Structure::Dict(self.parts.into_iter().map(part).collect())
    }
}

impl Structure {
    /// Nested dicts by the dots in names; one flat dict if names conflict; a tensor for the empty name.
    pub fn from_paths<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Structure {
        let mut first = names.clone();
        if first.next() == Some("") && first.next().is_none() {
            return Structure::Tensor;
        }
        let mut tree = Branch::default();
        let dots = |name: &str| name.matches('.').count();
        let fits = names.clone().all(|name| dots(name) < DEPTH)
            && names.clone().map(|name| dots(name) + 1).sum::<usize>() <= PARTS;
        if fits && names.clone().all(|name| tree.add(name)) {
            return tree.structure();
        }
        Structure::Dict(
            names
                .map(|name| (Key::Text(name.into()), Structure::Tensor))
                .collect(),
        )
    }

    /// The paths of the tensors, in order.
    pub fn tensors(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.walk(&mut |path, leaf| {
            if *leaf == Structure::Tensor {
                out.push(path.to_owned());
            }
        });
        out
    }

    /// Visits every tensor and plain value with its path.
    pub fn walk(&self, f: &mut dyn FnMut(&str, &Structure)) {
        self.walk_from(&mut String::new(), true, f);
    }

    fn walk_from(&self, at: &mut String, is_root: bool, f: &mut dyn FnMut(&str, &Structure)) {
        let mut part = |name: &dyn fmt::Display, inside: &Structure| {
            let len = at.len();
            if !is_root {
                at.push('.');
            }
            at.push_str(&name.to_string());
            inside.walk_from(at, false, f);
            at.truncate(len);
        };
        match self {
            Structure::List(items) | Structure::Tuple(items) => {
                items.iter().enumerate().for_each(|(i, x)| part(&i, x));
            }
            Structure::Dict(items) => items.iter().for_each(|(key, x)| part(key, x)),
            leaf => f(at, leaf),
        }
    }

    /// The total length of all paths, computed without building them: a short text can describe many long ones.
    pub(super) fn path_bytes(&self, above: usize) -> usize {
        let part = |name: usize, inside: &Structure| inside.path_bytes(above + 1 + name);
        let sizes = |items: &mut dyn Iterator<Item = usize>| {
            items.fold(0usize, |total, size| total.saturating_add(size))
        };
        match self {
            Structure::List(items) | Structure::Tuple(items) => {
                sizes(&mut items.iter().map(|x| part(8, x)))
            }
            Structure::Dict(items) => sizes(&mut items.iter().map(|(key, x)| {
                let name = match key {
                    Key::Text(text) => text.len(),
                    _ => 8,
                };
                part(name, x)
            })),
            _ => above,
        }
    }

    /// Converts to JSON.
    pub(super) fn to_json(&self) -> Value {
        let list = |word: &str, rest: Vec<Value>| {
            Value::Array(std::iter::once(Value::from(word)).chain(rest).collect())
        };
        let all = |items: &[Structure]| items.iter().map(Structure::to_json).collect();
        match self {
            Structure::Tensor => list("tensor", vec![]),
            Structure::Nothing => Value::Null,
            Structure::Bool(v) => (*v).into(),
            Structure::Int(v) => (*v).into(),
            Structure::Text(text) => text.as_str().into(),
            Structure::BigInt(digits) => list("int", vec![digits.as_str().into()]),
            // As a string: JSON has no infinities, and the sign of zero gets lost.
            Structure::Float(v) => list("float", vec![format!("{v:?}").into()]),
            Structure::Complex(re, im) => list(
                "complex",
                vec![format!("{re:?}").into(), format!("{im:?}").into()],
            ),
            Structure::List(items) => list("list", all(items)),
            Structure::Tuple(items) => list("tuple", all(items)),
            Structure::Dict(items) => {
                let mut parts = Vec::with_capacity(2 * items.len());
                for (key, x) in items {
                    parts.push(match key {
                        Key::Text(text) => text.as_str().into(),
                        Key::Int(v) => (*v).into(),
                        Key::Bool(v) => (*v).into(),
                        Key::Nothing => Value::Null,
                    });
                    parts.push(x.to_json());
                }
                list("dict", parts)
            }
        }
    }

    /// Parses from JSON.
    pub(super) fn from_json(value: Value, depth: usize) -> Result<Structure> {
        ensure!(
            depth <= DEPTH,
            Io,
            "the structure is nested deeper than {DEPTH}"
        );
        let items = match value {
            Value::Null => return Ok(Structure::Nothing),
            Value::Bool(v) => return Ok(Structure::Bool(v)),
            Value::String(text) => return Ok(Structure::Text(text)),
            Value::Number(v) => match v.as_i64() {
                Some(v) => return Ok(Structure::Int(v)),
                None => bail!(Io, "unsupported number {v} in the structure"),
            },
            Value::Object(_) => bail!(Io, "unexpected JSON object in the structure"),
            Value::Array(items) => items,
        };
        let mut items = items.into_iter();
        let Some(Value::String(word)) = items.next() else {
            bail!(
                Io,
                "expected lists that begin with a keyword in the structure"
            );
        };
        let all = |items: std::vec::IntoIter<Value>| -> Result<Vec<Structure>> {
            items.map(|x| Structure::from_json(x, depth + 1)).collect()
        };
        match (word.as_str(), items.as_slice()) {
            ("list", _) => Ok(Structure::List(all(items)?)),
            ("tuple", _) => Ok(Structure::Tuple(all(items)?)),
            ("dict", _) => dict(items, depth),
            ("tensor", []) => Ok(Structure::Tensor),
            ("int", [Value::String(digits)]) if is_integer(digits) => {
                Ok(Structure::BigInt(digits.clone()))
            }
            ("float", [Value::String(v)]) => Ok(Structure::Float(float(v)?)),
            ("complex", [Value::String(re), Value::String(im)]) => {
                Ok(Structure::Complex(float(re)?, float(im)?))
            }
            (word, _) => bail!(Io, "invalid `{}` in the structure", shorten(word)),
        }
    }
}

fn dict(mut items: std::vec::IntoIter<Value>, depth: usize) -> Result<Structure> {
    let mut out = Vec::with_capacity(items.len() / 2);
    let mut seen = HashSet::new();
    while let Some(key) = items.next() {
        let key = match key {
            Value::String(text) => Key::Text(text),
            Value::Bool(v) => Key::Bool(v),
            Value::Null => Key::Nothing,
            Value::Number(v) if v.as_i64().is_some() => Key::Int(v.as_i64().unwrap_or_default()),
            _ => bail!(Io, "invalid dict key in the structure"),
        };
        let Some(value) = items.next() else {
            bail!(Io, "dict key without a value in the structure");
        };
        // In Python `True` and 1 are the same key.
        let plain = match key {
            Key::Bool(v) => Key::Int(v.into()),
            ref other => other.clone(),
        };
        if !seen.insert(plain) {
            bail!(
                Io,
                "duplicate dict key `{}` in the structure",
                shorten(&key.to_string())
            );
        }
        out.push((key, Structure::from_json(value, depth + 1)?));
    }
    Ok(Structure::Dict(out))
}

fn is_integer(digits: &str) -> bool {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit())
}

fn float(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(v) => Ok(v),
        Err(_) => bail!(Io, "invalid float `{}` in the structure", shorten(text)),
    }
}

/// The beginning of a text, for messages: a hostile file must not fill the screen.
pub(super) fn shorten(text: &str) -> String {
    let mut out: String = text.chars().take(80).flat_map(char::escape_debug).collect();
    if text.chars().nth(80).is_some() {
        out.push('…');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_names_become_nested_dicts() {
        let names = |all: &[&'static str]| Structure::from_paths(all.iter().copied());
        let text = |structure: Structure| structure.to_json().to_string();
        assert_eq!(
            text(names(&["l.v0.w", "l.v0.b", "a"])),
            r#"["dict","l",["dict","v0",["dict","w",["tensor"],"b",["tensor"]]],"a",["tensor"]]"#
        );
        assert_eq!(
            text(names(&["a", "a.b"])),
            r#"["dict","a",["tensor"],"a.b",["tensor"]]"#
        );
        assert_eq!(names(&[""]), Structure::Tensor);
        assert_eq!(names(&[]), Structure::Dict(vec![]));
        for all in [&["l.v0.w", "l.b", "z."][..], &["a.b", "a"], &["", "a"]] {
            assert_eq!(names(all).tensors(), all);
        }
    }

    #[test]
    fn plain_values_survive() {
        let structure = Structure::Dict(vec![
            (Key::Int(-1), Structure::Float(-0.0)),
            (Key::Nothing, Structure::Float(f64::NEG_INFINITY)),
            (Key::Bool(true), Structure::Complex(0.1, 1e300)),
            (Key::Text("é".into()), Structure::Text("\u{0}\"".into())),
            (
                Key::Text("".into()),
                Structure::Tuple(vec![
                    Structure::Nothing,
                    Structure::Bool(false),
                    Structure::Int(i64::MIN),
                ]),
            ),
            (
                Key::Text("b".into()),
                Structure::BigInt("-1234567890123456789012".into()),
            ),
            (Key::Text("l".into()), Structure::List(vec![])),
        ]);
        let text = structure.to_json().to_string();
        let back = Structure::from_json(serde_json::from_str(&text).unwrap(), 0).unwrap();
        assert_eq!(back, structure);
        assert!(
            matches!(&back, Structure::Dict(d) if matches!(d[0].1, Structure::Float(v) if v.is_sign_negative()))
        );
    }

    #[test]
    fn a_wrong_structure_is_refused() {
        for text in [
            "[]",
            "{}",
            "1.5",
            "[1]",
            r#"["what"]"#,
            r#"["tensor",1]"#,
            r#"["int","1e9"]"#,
            r#"["float","x"]"#,
            r#"["dict","a"]"#,
            r#"["dict","a",1,"a",2]"#,
            r#"["dict",1,0,true,0]"#,
            r#"["dict",[],1]"#,
            r#"["complex","1"]"#,
            "18446744073709551615",
        ] {
            assert!(
                Structure::from_json(serde_json::from_str(text).unwrap(), 0).is_err(),
                "{text}"
            );
        }
        let deep = format!("{}{}", r#"["list","#.repeat(110) + "1", "]".repeat(110));
        assert!(Structure::from_json(serde_json::from_str(&deep).unwrap(), 0).is_err());
    }
}
