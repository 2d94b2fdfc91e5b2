//! Lines of Python, laid out the way formatters do.
//!
//! Code is made as logical lines; one that is too long is broken inside its last bracket, first as one indented line,
//! then with an item on each line and a comma behind the last.

/// How wide a line may be.
pub const WIDTH: usize = 88;

/// One logical line with its indentation, broken where it is too long.
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
        for item in items {
            place(&format!("{item},"), indent + 4, out);
        }
    }
    out.push_str(&format!("{pad}{tail}\n"));
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

/// The parts between commas that stand in no bracket.
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
