//! The structure of a nest, with the plain values in it, as JSON.
//!
//! A tensor is `["tensor"]`: its name is the path to it. Text, truth values and nothing are JSON's own; so are integers
//! of 64 bits. The rest is a list that begins with a word: `["list", …]`, `["tuple", …]`, `["dict", key, value, …]`,
//! `["int", "digits"]`, `["float", "digits"]`, `["complex", "digits", "digits"]`. One level of a nest is one level of JSON.

use clematis_core::{Result, bail, ensure};
use serde_json::Value;
use std::collections::{HashMap, HashSet};
use std::fmt;

/// The deepest nest that is written or read; what reads JSON goes no deeper than 127.
pub const DEPTH: usize = 100;

/// The most parts of names that are made into dicts inside each other: a level costs far more memory than a dot.
const PARTS: usize = 300_000;

/// What a nest looks like, with its plain values; tensors stand beside it, by path.
#[derive(Clone, Debug, PartialEq)]
pub enum Nest {
    /// A tensor, whose name is the path.
    Tensor,
    /// Nothing: `None`.
    Nothing,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// The digits of an integer of more than 64 bits.
    BigInt(String),
    /// A float.
    Float(f64),
    /// Real and imaginary part.
    Complex(f64, f64),
    /// Text.
    Text(String),
    /// A list.
    List(Vec<Nest>),
    /// A tuple.
    Tuple(Vec<Nest>),
    /// A dict, in its order.
    Dict(Vec<(Key, Nest)>),
}

/// What stands before a value in a dict.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// Text.
    Text(String),
    /// An integer.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// Nothing: `None`.
    Nothing,
}

impl fmt::Display for Key {
    /// As Python's `str` says it, for it becomes a part of paths.
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

/// Dicts by the parts of names, before they are put in order.
#[derive(Default)]
struct Branch {
    places: HashMap<String, usize>,
    parts: Vec<(String, Option<Branch>)>,
}

impl Branch {
    /// Adds a name; false where a tensor stands where a dict is wanted, or the other way round.
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

    fn nest(self) -> Nest {
        let part = |(name, inside): (String, Option<Branch>)| {
            (Key::Text(name), inside.map_or(Nest::Tensor, Branch::nest))
        };
        Nest::Dict(self.parts.into_iter().map(part).collect())
    }
}

impl Nest {
    /// Dicts inside each other by the dots in names; one flat dict where names cannot nest so, a tensor for no name.
    pub fn from_paths<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Nest {
        let mut first = names.clone();
        if first.next() == Some("") && first.next().is_none() {
            return Nest::Tensor;
        }
        let mut tree = Branch::default();
        let dots = |name: &str| name.matches('.').count();
        let fits = names.clone().all(|name| dots(name) < DEPTH)
            && names.clone().map(|name| dots(name) + 1).sum::<usize>() <= PARTS;
        if fits && names.clone().all(|name| tree.add(name)) {
            return tree.nest();
        }
        Nest::Dict(
            names
                .map(|name| (Key::Text(name.into()), Nest::Tensor))
                .collect(),
        )
    }

    /// The paths of the tensors, in order.
    pub fn tensors(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.walk(&mut |path, leaf| {
            if *leaf == Nest::Tensor {
                out.push(path.to_owned());
            }
        });
        out
    }

    /// Shows every tensor and plain value with its path.
    pub fn walk(&self, f: &mut dyn FnMut(&str, &Nest)) {
        self.walk_from(&mut String::new(), true, f);
    }

    fn walk_from(&self, at: &mut String, is_root: bool, f: &mut dyn FnMut(&str, &Nest)) {
        let mut part = |name: &dyn fmt::Display, inside: &Nest| {
            let len = at.len();
            if !is_root {
                at.push('.');
            }
            at.push_str(&name.to_string());
            inside.walk_from(at, false, f);
            at.truncate(len);
        };
        match self {
            Nest::List(items) | Nest::Tuple(items) => {
                items.iter().enumerate().for_each(|(i, x)| part(&i, x));
            }
            Nest::Dict(items) => items.iter().for_each(|(key, x)| part(key, x)),
            leaf => f(at, leaf),
        }
    }

    /// The length of all paths together, without making them: a short text can say many long ones.
    pub(super) fn path_bytes(&self, above: usize) -> usize {
        let part = |name: usize, inside: &Nest| inside.path_bytes(above + 1 + name);
        let sizes = |items: &mut dyn Iterator<Item = usize>| {
            items.fold(0usize, |total, size| total.saturating_add(size))
        };
        match self {
            Nest::List(items) | Nest::Tuple(items) => sizes(&mut items.iter().map(|x| part(8, x))),
            Nest::Dict(items) => sizes(&mut items.iter().map(|(key, x)| {
                let name = match key {
                    Key::Text(text) => text.len(),
                    _ => 8,
                };
                part(name, x)
            })),
            _ => above,
        }
    }

    /// As JSON.
    pub(super) fn to_json(&self) -> Value {
        let list = |word: &str, rest: Vec<Value>| {
            Value::Array(std::iter::once(Value::from(word)).chain(rest).collect())
        };
        let all = |items: &[Nest]| items.iter().map(Nest::to_json).collect();
        match self {
            Nest::Tensor => list("tensor", vec![]),
            Nest::Nothing => Value::Null,
            Nest::Bool(v) => (*v).into(),
            Nest::Int(v) => (*v).into(),
            Nest::Text(text) => text.as_str().into(),
            Nest::BigInt(digits) => list("int", vec![digits.as_str().into()]),
            // Text, for JSON has neither infinities nor a zero with a sign that survives.
            Nest::Float(v) => list("float", vec![format!("{v:?}").into()]),
            Nest::Complex(re, im) => list(
                "complex",
                vec![format!("{re:?}").into(), format!("{im:?}").into()],
            ),
            Nest::List(items) => list("list", all(items)),
            Nest::Tuple(items) => list("tuple", all(items)),
            Nest::Dict(items) => {
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

    /// From JSON.
    pub(super) fn from_json(value: Value, depth: usize) -> Result<Nest> {
        ensure!(
            depth <= DEPTH,
            Io,
            "the structure is nested deeper than {DEPTH}"
        );
        let items = match value {
            Value::Null => return Ok(Nest::Nothing),
            Value::Bool(v) => return Ok(Nest::Bool(v)),
            Value::String(text) => return Ok(Nest::Text(text)),
            Value::Number(v) => match v.as_i64() {
                Some(v) => return Ok(Nest::Int(v)),
                None => bail!(Io, "the structure has the number {v}"),
            },
            Value::Object(_) => bail!(Io, "the structure has a JSON object in it"),
            Value::Array(items) => items,
        };
        let mut items = items.into_iter();
        let Some(Value::String(word)) = items.next() else {
            bail!(Io, "the structure has a list that begins with no word");
        };
        let all = |items: std::vec::IntoIter<Value>| -> Result<Vec<Nest>> {
            items.map(|x| Nest::from_json(x, depth + 1)).collect()
        };
        match (word.as_str(), items.as_slice()) {
            ("list", _) => Ok(Nest::List(all(items)?)),
            ("tuple", _) => Ok(Nest::Tuple(all(items)?)),
            ("dict", _) => dict(items, depth),
            ("tensor", []) => Ok(Nest::Tensor),
            ("int", [Value::String(digits)]) if is_integer(digits) => {
                Ok(Nest::BigInt(digits.clone()))
            }
            ("float", [Value::String(v)]) => Ok(Nest::Float(float(v)?)),
            ("complex", [Value::String(re), Value::String(im)]) => {
                Ok(Nest::Complex(float(re)?, float(im)?))
            }
            (word, _) => bail!(Io, "the structure has a wrong `{}`", shorten(word)),
        }
    }
}

fn dict(mut items: std::vec::IntoIter<Value>, depth: usize) -> Result<Nest> {
    let mut out = Vec::with_capacity(items.len() / 2);
    let mut seen = HashSet::new();
    while let Some(key) = items.next() {
        let key = match key {
            Value::String(text) => Key::Text(text),
            Value::Bool(v) => Key::Bool(v),
            Value::Null => Key::Nothing,
            Value::Number(v) if v.as_i64().is_some() => Key::Int(v.as_i64().unwrap_or_default()),
            _ => bail!(Io, "the structure has a dict with a key that can be none"),
        };
        let Some(value) = items.next() else {
            bail!(Io, "the structure has a key without a value");
        };
        // Python takes `True` and 1 for one key.
        let plain = match key {
            Key::Bool(v) => Key::Int(v.into()),
            ref other => other.clone(),
        };
        if !seen.insert(plain) {
            bail!(
                Io,
                "the structure has a dict with the key `{}` twice",
                shorten(&key.to_string())
            );
        }
        out.push((key, Nest::from_json(value, depth + 1)?));
    }
    Ok(Nest::Dict(out))
}

fn is_integer(digits: &str) -> bool {
    let plain = digits.strip_prefix('-').unwrap_or(digits);
    !plain.is_empty() && plain.bytes().all(|b| b.is_ascii_digit())
}

fn float(text: &str) -> Result<f64> {
    match text.parse() {
        Ok(v) => Ok(v),
        Err(_) => bail!(Io, "the structure has the float `{}`", shorten(text)),
    }
}

/// Enough of a text to know it by: what a hostile file holds must not fill a screen.
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
    fn names_nest_by_their_dots_unless_they_cannot() {
        let names = |all: &[&'static str]| Nest::from_paths(all.iter().copied());
        let text = |nest: Nest| nest.to_json().to_string();
        assert_eq!(
            text(names(&["l.v0.w", "l.v0.b", "a"])),
            r#"["dict","l",["dict","v0",["dict","w",["tensor"],"b",["tensor"]]],"a",["tensor"]]"#
        );
        assert_eq!(
            text(names(&["a", "a.b"])),
            r#"["dict","a",["tensor"],"a.b",["tensor"]]"#
        );
        assert_eq!(names(&[""]), Nest::Tensor);
        assert_eq!(names(&[]), Nest::Dict(vec![]));
        for all in [&["l.v0.w", "l.b", "z."][..], &["a.b", "a"], &["", "a"]] {
            assert_eq!(names(all).tensors(), all);
        }
    }

    #[test]
    fn plain_values_survive() {
        let nest = Nest::Dict(vec![
            (Key::Int(-1), Nest::Float(-0.0)),
            (Key::Nothing, Nest::Float(f64::NEG_INFINITY)),
            (Key::Bool(true), Nest::Complex(0.1, 1e300)),
            (Key::Text("é".into()), Nest::Text("\u{0}\"".into())),
            (
                Key::Text("".into()),
                Nest::Tuple(vec![Nest::Nothing, Nest::Bool(false), Nest::Int(i64::MIN)]),
            ),
            (
                Key::Text("b".into()),
                Nest::BigInt("-1234567890123456789012".into()),
            ),
            (Key::Text("l".into()), Nest::List(vec![])),
        ]);
        let text = nest.to_json().to_string();
        let back = Nest::from_json(serde_json::from_str(&text).unwrap(), 0).unwrap();
        assert_eq!(back, nest);
        assert!(
            matches!(&back, Nest::Dict(d) if matches!(d[0].1, Nest::Float(v) if v.is_sign_negative()))
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
                Nest::from_json(serde_json::from_str(text).unwrap(), 0).is_err(),
                "{text}"
            );
        }
        let deep = format!("{}{}", r#"["list","#.repeat(110) + "1", "]".repeat(110));
        assert!(Nest::from_json(serde_json::from_str(&deep).unwrap(), 0).is_err());
    }
}
