//! Escapes strings for generated Python, terminals and JSON.

use std::fmt::Write;

/// A double-quoted Python string literal with the text as its value.
///
/// Printable ASCII stays unchanged and everything else is escaped: the literal fits on one line, and shows
/// lookalike characters and bidirectional controls.
pub fn python_string(text: &str) -> String {
    format!("\"{}\"", escaped(text))
}

/// The escaped contents of a Python string literal with either kind of quotes, single or triple.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            // Not `\"`: the line breaker finds the end of a literal at the next quote.
            '"' => out.push_str("\\x22"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' '..='~' => out.push(c),
            // Always of the full width: a digit that follows is not part of it. Writing to a string cannot fail.
            _ if (c as u32) < 0x100 => drop(write!(out, "\\x{:02x}", c as u32)),
            _ if (c as u32) < 0x1_0000 => drop(write!(out, "\\u{:04x}", c as u32)),
            _ => drop(write!(out, "\\U{:08x}", c as u32)),
        }
    }
    out
}

/// A text for terminals and logs: control characters, bidirectional controls and invisible characters are escaped, so
/// that it cannot move the cursor, hide or reorder the text around it.
pub fn terminal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

/// JSON with those characters escaped, which occur in its strings only.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hidden(c) && !matches!(c, '\n' | '\r' | '\t') {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_fit_on_one_line_and_end_where_they_should() {
        assert_eq!(python_string("a\"b\\c"), r#""a\x22b\\c""#);
        assert_eq!(python_string("\0").as_str(), r#""\x00""#);
        assert_eq!(
            python_string("\u{0}12\u{a0}\u{2028}\u{1f600}"),
            r#""\x0012\xa0\u2028\U0001f600""#
        );
        assert_eq!(python_string("'''\n"), r#""'''\n""#);
        assert_eq!(escaped("\"\"\"\nimport os\n"), r"\x22\x22\x22\nimport os\n");
    }

    #[test]
    fn terminals_see_no_control_characters() {
        assert_eq!(terminal("a\u{1b}[31mb\u{202e}é"), "a\\u{1b}[31mb\\u{202e}é");
        assert_eq!(terminal("plain name_1.w"), "plain name_1.w");
        assert_eq!(
            json("[\"\u{7f}\u{202e}\u{e0001}\"]"),
            "[\"\\u007f\\u202e\\udb40\\udc01\"]"
        );
    }
}
