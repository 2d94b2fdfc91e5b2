//! Expressions as text with places for values in them, until values have names.
//!
//! `\u{e}12:6\u{f}` stands for value 12 where an operator of strength 6 is around it; `\u{1}in\u{2}64\u{3}` is the number
//! 64, which may become an argument called `in` where instances of a class differ in it.

use super::program::Val;

/// Nothing binds stronger: a name, a call.
pub const ATOM: u8 = 10;

/// An expression, and how strong its outermost operator is.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// The text with places in it.
    pub text: String,
    /// The strength of the outermost operator.
    pub strength: u8,
}

impl Expr {
    /// A name or a call.
    pub fn atom(text: impl Into<String>) -> Expr {
        Expr {
            text: text.into(),
            strength: ATOM,
        }
    }

    /// The values that stand in it, each as often as it does.
    pub fn values(&self) -> Vec<Val> {
        places(&self.text).into_iter().map(|p| p.2).collect()
    }

    /// With other expressions for some of its values.
    pub fn with(&self, find: &dyn Fn(Val) -> Option<Expr>) -> Expr {
        let mut text = String::new();
        let mut from = 0;
        for (start, end, v, strength) in places(&self.text) {
            text.push_str(&self.text[from..start]);
            from = end;
            match find(v) {
                Some(x) if x.strength < strength => text.push_str(&format!("({})", x.text)),
                Some(x) => text.push_str(&x.text),
                None => text.push_str(&self.text[start..end]),
            }
        }
        text.push_str(&self.text[from..]);
        Expr {
            text,
            strength: self.strength,
        }
    }

    /// How long it will be, about.
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

/// The place of a value.
pub fn place(v: Val, strength: u8) -> String {
    format!("\u{e}{v}:{strength}\u{f}")
}

/// A number that may become an argument.
pub fn hole(label: &str, value: impl std::fmt::Display) -> String {
    format!("\u{1}{label}\u{2}{value}\u{3}")
}

/// Where places begin and end, their values and strengths.
fn places(text: &str) -> Vec<(usize, usize, Val, u8)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text[from..].find('\u{e}').map(|i| i + from) {
        let Some(end) = text[start..].find('\u{f}').map(|i| i + start) else {
            break;
        };
        let (v, strength) = text[start + 1..end].split_once(':').unwrap_or(("0", "0"));
        found.push((
            start,
            end + 1,
            v.parse().unwrap_or(0),
            strength.parse().unwrap_or(0),
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

/// A text without the values of its holes.
pub fn skeleton(text: &str) -> String {
    each_hole(text, &mut |label, _| format!("\u{1}{label}\u{3}"))
}

/// A text with the values of its holes.
pub fn filled(text: &str) -> String {
    each_hole(text, &mut |_, value| value.to_string())
}

/// A text with something else in the place of each hole.
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
