//! Expressions as text with placeholders for values, which are filled in once values have names.
//!
//! `\u{e}12:6\u{f}` is value 12 as operand of an operator of precedence 6; `\u{1}in\u{2}64\u{3}` is the number
//! 64, which may become an argument called `in` if instances of a class differ in it.

use super::program::Val;

/// The highest precedence: a name or a call.
pub const ATOM: u8 = 10;

/// An expression and the precedence of its outermost operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The text with placeholders.
    pub text: String,
    /// The precedence of the outermost operator.
    pub precedence: u8,
}

impl Expr {
    /// A name or a call.
    pub fn atom(text: impl Into<String>) -> Expr {
        Expr {
            text: text.into(),
            precedence: ATOM,
        }
    }

    /// The values in the expression, with repetitions.
    pub fn values(&self) -> Vec<Val> {
        places(&self.text).into_iter().map(|p| p.2).collect()
    }

    /// The expression with some of its values replaced by other expressions.
    pub fn with(&self, find: &dyn Fn(Val) -> Option<Expr>) -> Expr {
        let mut text = String::new();
        let mut from = 0;
        for (start, end, v, precedence) in places(&self.text) {
            text.push_str(&self.text[from..start]);
            from = end;
            match find(v) {
                Some(x) if x.precedence < precedence => text.push_str(&format!("({})", x.text)),
                Some(x) => text.push_str(&x.text),
                None => text.push_str(&self.text[start..end]),
            }
        }
        text.push_str(&self.text[from..]);
        Expr {
            text,
            precedence: self.precedence,
        }
    }

    /// The approximate length of the text.
    pub fn width(&self) -> usize {
        let mut n = 0;
        let mut from = 0;
        for (start, end, ..) in places(&self.text) {
            n += start - from + 3;
            from = end;
        }
        n + filled(&self.text[from..]).chars().count()
    }
}

/// The placeholder of a value.
pub fn place(v: Val, precedence: u8) -> String {
    format!("\u{e}{v}:{precedence}\u{f}")
}

/// A number that may become an argument.
pub fn hole(label: &str, value: impl std::fmt::Display) -> String {
    format!("\u{1}{label}\u{2}{value}\u{3}")
}

/// The start, end, value and precedence of each placeholder.
fn places(text: &str) -> Vec<(usize, usize, Val, u8)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find('\u{e}').map(|i| i + from) {
        let Some(end) = text[start..].find('\u{f}').map(|i| i + start) else {
            break;
        };
        let (v, precedence) = text[start + 1..end].split_once(':').unwrap_or(("0", "0"));
        found.push((
            start,
            end + 1,
            v.parse().unwrap_or(0),
            precedence.parse().unwrap_or(0),
        ));
        from = end + 1;
    }
    found
}

/// The holes of a text in order: label and value.
pub fn holes(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    each_hole(text, &mut |label, value| {
        found.push((label.to_string(), value.to_string()));
        String::new()
    });
    found
}

/// The text without the values of its holes: equal for instances of one class.
pub fn skeleton(text: &str) -> String {
    each_hole(text, &mut |label, _| format!("\u{1}{label}\u{3}"))
}

/// The text with the values of its holes filled in.
pub fn filled(text: &str) -> String {
    each_hole(text, &mut |_, value| value.to_string())
}

/// The text with each hole replaced by `f(label, value)`.
pub fn each_hole(text: &str, f: &mut dyn FnMut(&str, &str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('\u{1}') {
        out.push_str(&rest[..start]);
        let Some(end) = rest[start..].find('\u{3}').map(|i| i + start) else {
            break;
        };
        let (label, value) = rest[start + 1..end].split_once('\u{2}').unwrap_or(("", ""));
        out.push_str(&f(label, value));
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    out
}
