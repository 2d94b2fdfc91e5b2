//! Identifiers of generated code: one allocator for every exporter.
//!
//! Names come from model files and from users, so they may be anything: keywords, names of modules that the generated code
//! uses, strings that become equal once characters are replaced. An `Identifiers` knows all names of one scope and never
//! returns the same one twice.

use std::collections::HashSet;

/// Python's keywords.
pub const KEYWORDS: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue",
    "def", "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import",
    "in", "is", "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "try", "while",
    "with", "yield",
];

/// Builtins that generated code or its helper functions call.
pub const BUILTINS: [&str; 37] = [
    "__debug__",
    "NotImplemented",
    "abs",
    "all",
    "any",
    "bool",
    "bytes",
    "complex",
    "dict",
    "divmod",
    "enumerate",
    "float",
    "getattr",
    "hasattr",
    "int",
    "isinstance",
    "len",
    "list",
    "map",
    "max",
    "min",
    "next",
    "pow",
    "print",
    "property",
    "range",
    "repr",
    "reversed",
    "round",
    "set",
    "setattr",
    "slice",
    "sorted",
    "str",
    "sum",
    "super",
    "tuple",
];

/// Whether a word is a Python keyword.
pub fn is_keyword(word: &str) -> bool {
    KEYWORDS.contains(&word)
}

/// Whether a string is an identifier of ASCII letters, digits and underscores, and no keyword.
pub fn is_identifier(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().next().is_some_and(|c| !c.is_ascii_digit())
        && !is_keyword(text)
}

/// The closest identifier to a string: other characters become underscores, a keyword gets one at its end. `fallback`
/// replaces a string without letters and digits.
///
/// Only ASCII remains: Python normalizes identifiers to NFKC, in which different strings are equal.
pub fn identifier(text: &str, fallback: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let word: String = text
        .chars()
        .map(|c| if is_plain(c) { c } else { '_' })
        .collect();
    match word.chars().next() {
        _ if word.chars().all(|c| c == '_') => fallback.to_string(),
        Some(c) if c.is_ascii_digit() => format!("_{word}"),
        _ if is_keyword(&word) => format!("{word}_"),
        _ => word,
    }
}

/// The names of one scope.
#[derive(Clone, Debug, Default)]
pub struct Identifiers {
    taken: HashSet<String>,
    /// Prefixes reserved for numbered names that are not listed.
    numbered: Vec<&'static str>,
}

impl Identifiers {
    /// A scope of Python code: keywords and builtins are reserved.
    pub fn python() -> Self {
        let mut names = Identifiers::default();
        names.reserve(KEYWORDS);
        names.reserve(BUILTINS);
        names
    }

    /// Reserves names.
    pub fn reserve<T: Into<String>>(&mut self, names: impl IntoIterator<Item = T>) {
        self.taken.extend(names.into_iter().map(Into::into));
    }

    /// Reserves all names made of a prefix and a number.
    pub fn reserve_numbered(&mut self, prefix: &'static str) {
        self.numbered.push(prefix);
    }

    /// Whether a name is in use.
    pub fn contains(&self, name: &str) -> bool {
        let is_numbered = |prefix: &&str| {
            name.strip_prefix(*prefix)
                .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_digit()))
        };
        self.taken.contains(name) || self.numbered.iter().any(is_numbered)
    }

    /// Allocates the closest identifier to a string, with a number at its end if that one is in use.
    pub fn allocate(&mut self, text: &str, fallback: &str) -> String {
        self.distinct(&identifier(text, fallback))
    }

    /// Allocates a name that need not be an identifier, such as a dict key, with a number at its end if it is in use.
    pub fn distinct(&mut self, name: &str) -> String {
        let mut own = name.to_string();
        let mut count = 1;
        while self.contains(&own) {
            count += 1;
            // Not an underscore and a number: frameworks number names that way themselves.
            let mark = match name.ends_with(|c: char| c.is_ascii_digit() || c == '_') {
                true => "x",
                false => "",
            };
            own = format!("{name}{mark}{count}");
        }
        self.taken.insert(own.clone());
        own
    }

    /// An identifier for each string; strings that are valid and free keep theirs, whatever their order.
    pub fn allocate_all(&mut self, texts: &[&str], fallback: &str) -> Vec<String> {
        let mut found: Vec<Option<String>> = texts
            .iter()
            .map(|text| (is_identifier(text) && !self.contains(text)).then(|| self.distinct(text)))
            .collect();
        for (text, name) in texts.iter().zip(&mut found) {
            if name.is_none() {
                *name = Some(self.allocate(text, fallback));
            }
        }
        found.into_iter().flatten().collect()
    }

    /// A distinct key for each string; strings that are free keep theirs, whatever their order.
    pub fn distinct_all(&mut self, texts: &[&str]) -> Vec<String> {
        let mut found: Vec<Option<String>> = texts
            .iter()
            .map(|text| (!self.contains(text)).then(|| self.distinct(text)))
            .collect();
        for (text, name) in texts.iter().zip(&mut found) {
            if name.is_none() {
                *name = Some(self.distinct(text));
            }
        }
        found.into_iter().flatten().collect()
    }
}

/// Renames the names in an expression, all at once.
pub fn renamed(expression: &str, name: &dyn Fn(&str) -> Option<String>) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut out = String::with_capacity(expression.len());
    let mut rest = expression;
    while let Some(c) = rest.chars().next() {
        let end = match is_part(c) {
            true => rest.find(|c| !is_part(c)).unwrap_or(rest.len()),
            false => c.len_utf8(),
        };
        let word = &rest[..end];
        match name(word) {
            Some(other) => out.push_str(&other),
            None => out.push_str(word),
        }
        rest = &rest[end..];
    }
    out
}

/// Distinct dotted paths that fit into one tree: none equals another or is its prefix.
#[derive(Debug, Default)]
pub struct TreePaths {
    used: HashSet<String>,
}

impl TreePaths {
    /// The path of a tensor with this name: components of letters, digits and underscores, separated by dots.
    pub fn add(&mut self, name: &str) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '_'
            }
        };
        let word: String = name.chars().map(plain).collect();
        let parts = word
            .split('.')
            .map(|part| part.trim_matches('_'))
            .filter(|part| !part.is_empty());
        let word = parts.collect::<Vec<_>>().join(".");
        let word = if word.is_empty() {
            "value".to_string()
        } else {
            word
        };
        self.take(word)
    }

    /// A path for each name. Names that are valid paths keep themselves where they can; `/` separates components as dots do.
    pub fn of(names: &[&str]) -> Vec<String> {
        let mut paths = TreePaths::default();
        let mut found = vec![None; names.len()];
        for (name, path) in names.iter().zip(&mut found) {
            if !name.is_empty()
                && !name.contains('/')
                && name.split('.').all(|word| !word.is_empty())
                && paths.is_free(name)
            {
                *path = Some(paths.take(name.to_string()));
            }
        }
        for (name, path) in names.iter().zip(&mut found) {
            if path.is_none() {
                let words: Vec<&str> = name
                    .split(['.', '/'])
                    .filter(|word| !word.is_empty())
                    .collect();
                let word = match words.as_slice() {
                    [] => "value".to_string(),
                    words => words.join("."),
                };
                *path = Some(paths.take(word));
            }
        }
        found.into_iter().flatten().collect()
    }

    fn take(&mut self, word: String) -> String {
        // A prefix of the path is a value, so no suffix would help: the path becomes one component.
        let word = if self.is_below_a_value(&word) {
            word.replace('.', "_")
        } else {
            word
        };
        let mut path = word.clone();
        let mut count = 1;
        while self.clashes(&path) {
            count += 1;
            path = format!("{word}_{count}");
        }
        let mut at = 0;
        while let Some(dot) = path[at..].find('.') {
            at += dot;
            self.used.insert(format!("{}/", &path[..at]));
            at += 1;
        }
        self.used.insert(path.clone());
        path
    }

    fn is_free(&self, path: &str) -> bool {
        !self.clashes(path) && !self.is_below_a_value(path)
    }

    fn clashes(&self, path: &str) -> bool {
        self.used.contains(path) || self.used.contains(&format!("{path}/"))
    }

    fn is_below_a_value(&self, path: &str) -> bool {
        let dots = path.char_indices().filter(|(_, c)| *c == '.');
        dots.map(|(i, _)| &path[..i])
            .any(|above| self.used.contains(above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_never_stand_below_each_other() {
        let mut paths = TreePaths::default();
        let names = [
            "a.b", "a", "a.b.c", "a.b", "a_2", "x", "x.y", "x.y", "", ".",
        ];
        let found: Vec<String> = names.iter().map(|name| paths.add(name)).collect();
        let want = [
            "a.b", "a_2", "a_b_c", "a.b_2", "a_2_2", "x", "x_y", "x_y_2", "value", "value_2",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn names_that_are_paths_keep_themselves() {
        let found = TreePaths::of(&["a/b", "a.b", "_c", "c", "d", "d/e", "é.ü", "..", "/"]);
        let want = [
            "a.b_2", "a.b", "_c", "c", "d", "d_e", "é.ü", "value", "value_2",
        ];
        assert_eq!(found, want);
    }

    #[test]
    fn no_identifier_is_given_twice() {
        let mut names = Identifiers::python();
        names.reserve(["ops"]);
        names.reserve_numbered("v");
        let wishes = [
            "fc", "_fc", "a-b", "a_b", "a.b", "a/b", "if", "class", "ops", "v1", "fc", "fc_2", "",
            "é", "3x", "float", "a_b_2",
        ];
        let found = names.allocate_all(&wishes, "x");
        let distinct: HashSet<&String> = found.iter().collect();
        assert_eq!(distinct.len(), wishes.len(), "{found:?}");
        assert!(found.iter().all(|name| is_identifier(name)), "{found:?}");
        assert!(
            !found
                .iter()
                .any(|x| ["ops", "v1", "float"].contains(&x.as_str()))
        );
        // Names that can stay unchanged do.
        assert_eq!(
            (&*found[1], &*found[3], &*found[16]),
            ("_fc", "a_b", "a_b_2")
        );
    }

    #[test]
    fn names_in_expressions_are_replaced_at_once() {
        let swap = |word: &str| match word {
            "a" => Some("b".to_string()),
            "b" => Some("a".to_string()),
            _ => None,
        };
        assert_eq!(renamed("2*a+max(b,ab)//a", &swap), "2*b+max(a,ab)//b");
    }
}
