//! Statement breaking of Python code, in the style of common formatters.
//!
//! Code is generated as logical lines. A line that is too long is broken inside its last bracket: first as one indented line,
//! then with one item per line and a trailing comma.

use crate::identifiers::is_keyword;

/// The maximum width of a line.
pub const WIDTH: usize = 88;

/// One logical line with its indentation, broken if it is too long.
pub fn laid_out(line: &str, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let mut out = String::new();
    place(line, indent, &mut out);
    debug_assert!(out.starts_with(&pad));
    out
}

fn place(line: &str, indent: usize, out: &mut String) {
    let pad = " ".repeat(indent);
    let fits = |text: &str, indent: usize| indent + text.chars().count() <= WIDTH;
    let whole = format!("{pad}{line}\n");
    if fits(line, indent) {
        out.push_str(&whole);
        return;
    }
    let Some((open, close)) = last_bracket(line) else {
        out.push_str(&whole);
        return;
    };
    let (head, body, tail) = (&line[..=open], &line[open + 1..close], &line[close..]);
    if body.is_empty() {
        out.push_str(&whole);
        return;
    }
    out.push_str(&format!("{pad}{head}\n"));
    let items = items(body);
    let is_loop = items.len() == 1 && body.contains(" for ");
    if fits(body, indent + 4) && !body.ends_with(',') {
        out.push_str(&format!("{pad}    {body}\n"));
    } else if is_loop {
        let at = body.find(" for ").unwrap_or(0);
        place(&body[..at], indent + 4, out);
        place(&body[at + 1..], indent + 4, out);
    } else {
        // A trailing comma after the only item of a group or an index would make a tuple.
        let is_call = head
            .strip_suffix('(')
            .is_some_and(|h| h.ends_with(is_operand))
            && !ends_with_keyword(&head[..open]);
        let is_list = head.ends_with(['[', '{']) && !head[..open].ends_with(is_operand);
        let comma = items.len() > 1 || body.ends_with(',') || is_call || is_list;
        for item in items {
            place(
                &format!("{item}{}", if comma { "," } else { "" }),
                indent + 4,
                out,
            );
        }
    }
    out.push_str(&format!("{pad}{tail}\n"));
}

/// Whether a character ends an expression that can be called or indexed.
fn is_operand(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | ')' | ']')
}

/// Whether a text ends in a keyword after which a bracket is a group: `return (`.
fn ends_with_keyword(text: &str) -> bool {
    let word = text
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next();
    word.is_some_and(is_keyword)
}

/// The bracket that closes last and the one that opens it.
fn last_bracket(line: &str) -> Option<(usize, usize)> {
    let mut stack = Vec::new();
    let mut found = None;
    let mut quote = None;
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"') => quote = Some('"'),
            (None, '(' | '[' | '{') => stack.push(at),
            (None, ')' | ']' | '}') => {
                if let Some(open) = stack.pop()
                    && stack.is_empty()
                    && at > open + 1
                {
                    found = Some((open, at));
                }
            }
            _ => {}
        }
    }
    found
}

/// The parts between top-level commas.
pub fn items(body: &str) -> Vec<&str> {
    let (mut depth, mut start, mut quote) = (0, 0, None);
    let mut found = Vec::new();
    for (at, c) in body.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"') => quote = Some('"'),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, ',') if depth == 0 => {
                found.push(body[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = body[start..].trim();
    if !last.is_empty() {
        found.push(last);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_group_gets_no_comma_and_a_long_call_does() {
        let sum = ["value_with_a_long_name"; 6].join(" + ");
        let text = laid_out(&format!("y = ({sum}) * x"), 4);
        assert!(text.contains("(\n") && !text.contains(",\n"), "{text}");
        let text = laid_out(&format!("y = x[{sum}] * x"), 4);
        assert!(!text.contains(",\n"), "{text}");
        let text = laid_out(&format!("return ({sum})"), 4);
        assert!(!text.contains(",\n"), "{text}");
        for call in [
            format!("y = f({sum})"),
            format!("y = ({sum},)"),
            format!("y = [{sum}]"),
        ] {
            assert!(laid_out(&call, 4).contains(",\n"), "{call}");
        }
    }
}
