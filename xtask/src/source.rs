//! Lexes Rust source for the checks: blanks comments and strings, removes tests.
//!
//! Not a parser. It knows enough of the lexical grammar that a word in a comment or a brace in a string is never
//! mistaken for code.

/// The text with comments and the contents of literals replaced by spaces; line numbers are preserved.
pub fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match chars[at] {
            '/' if chars.get(at + 1) == Some(&'/') => line_comment(&chars, at),
            '/' if chars.get(at + 1) == Some(&'*') => block_comment(&chars, at),
            '"' => quoted(&chars, at, '"'),
            'r' if !after_word(&chars, at) => raw_string(&chars, at).unwrap_or(at),
            '\'' if is_char_literal(&chars, at) => quoted(&chars, at, '\''),
            _ => at,
        };
        if end == at {
            out.push(chars[at]);
            at += 1;
            continue;
        }
        let hidden = &chars[at..end.min(chars.len())];
        out.extend(hidden.iter().map(|&c| if c == '\n' { c } else { ' ' }));
        at = end;
    }
    out
}

fn line_comment(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
}

/// Block comments are nested.
fn block_comment(chars: &[char], at: usize) -> usize {
    let (mut i, mut depth) = (at, 0usize);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (i, depth) = (i + 2, depth + 1),
            ('*', Some('/')) => (i, depth) = (i + 2, depth - 1),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

fn quoted(chars: &[char], at: usize, mark: char) -> usize {
    let mut i = at + 1;
    while i < chars.len() && chars[i] != mark {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    i + 1
}

/// The end of `r"…"` or `r#"…"#` at `at`; `None` for an identifier that begins with r, raw or not.
fn raw_string(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
    let open = at + 1 + hashes;
    if chars.get(open) != Some(&'"') {
        return None;
    }
    let closes = |i: usize| {
        let tail = chars.get(i + 1..i + 1 + hashes);
        chars[i] == '"' && tail.is_some_and(|tail| tail.iter().all(|&c| c == '#'))
    };
    let close = (open + 1..chars.len()).find(|&i| closes(i));
    Some(close.map_or(chars.len(), |i| i + 1 + hashes))
}

/// A quote starts a character literal if it is escaped or closed after one character; otherwise it starts a lifetime.
fn is_char_literal(chars: &[char], at: usize) -> bool {
    chars.get(at + 1) == Some(&'\\') || chars.get(at + 2) == Some(&'\'')
}

fn after_word(chars: &[char], at: usize) -> bool {
    // `br"…"` and `cr"…"` are raw strings as well.
    let prefix = at > 0 && matches!(chars[at - 1], 'b' | 'c');
    let before = if prefix {
        at.checked_sub(2)
    } else {
        at.checked_sub(1)
    };
    before.is_some_and(|i| is_word(chars[i]))
}

pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The word at the start of the text, after leading space; may be empty.
pub fn word(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c| !is_word(c)).unwrap_or(text.len());
    &text[..end]
}

/// Positions of `wanted` as a whole word.
pub fn occurrences<'a>(code: &'a str, wanted: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(wanted).map(|(at, _)| at).filter(|&at| {
        let before = code[..at].chars().next_back();
        let after = code[at + wanted.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line number of a position, from 1.
pub fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// Code (from [`code`]) without its `#[cfg(test)]` modules; line numbers are preserved.
pub fn without_tests(code: &str) -> String {
    const MARK: &str = "#[cfg(test)]";
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find(MARK) {
        let after = &rest[at + MARK.len()..];
        out.push_str(&rest[..at]);
        let hidden = test_module(after).map_or(MARK.len(), |length| MARK.len() + length);
        out.extend(rest[at..at + hidden].chars().filter(|&c| c == '\n'));
        rest = &rest[at + hidden..];
    }
    out.push_str(rest);
    out
}

/// Where the first test module of a file begins; its end if there is none.
pub fn test_start(text: &str) -> usize {
    text.find("#[cfg(test)]").unwrap_or(text.len())
}

/// The length of the module at the start of the text, `mod x { … }` or `mod x;`.
fn test_module(text: &str) -> Option<usize> {
    let head = text.trim_start();
    let head = head.strip_prefix("pub(crate)").unwrap_or(head);
    if word(head) != "mod" {
        return None;
    }
    let open = text.find(['{', ';'])?;
    if text[open..].starts_with(';') {
        return Some(open + 1);
    }
    let mut depth = 0usize;
    for (at, c) in text[open..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(open + at + 1);
        }
    }
    Some(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let text = "a // unsafe\n/* b /* c */ d */ e \"unsafe \\\" {\" f '{' '\\'' g";
        let kept: Vec<_> = code(text).split_whitespace().map(String::from).collect();
        assert_eq!(kept, ["a", "e", "f", "g"]);
        assert_eq!(code("x\n/*\n*/y").matches('\n').count(), 2);
    }

    #[test]
    fn raw_strings_end_where_their_hashes_do() {
        assert_eq!(code("r#\"a\" unsafe\"# z").trim(), "z");
        assert_eq!(code("br\"{\" z").replace(' ', ""), "bz");
        assert_eq!(code("r#type for\"x\" r"), "r#type for    r");
    }

    #[test]
    fn lifetimes_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str)"), "fn f<'a>(x: &'a str)");
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_text() {
        assert_eq!(code("a \"b").trim(), "a");
        assert_eq!(code("a /* b").trim(), "a");
        assert_eq!(code("a r#\"b").trim(), "a");
        assert_eq!(code("a \"b\\").trim(), "a");
    }

    #[test]
    fn words_are_whole() {
        let text = "unsafe_code unsafe fn not_unsafe";
        assert_eq!(occurrences(text, "unsafe").collect::<Vec<_>>(), [12]);
    }

    #[test]
    fn test_modules_vanish_and_lines_stay() {
        let text = "a\n#[cfg(test)]\nmod tests {\n fn f() { }\n}\nb\n#[cfg(test)] mod more;\nc";
        let left = without_tests(text);
        let kept: Vec<_> = left.split_whitespace().collect();
        assert_eq!(kept, ["a", "b", "c"]);
        assert_eq!(left.matches('\n').count(), text.matches('\n').count());
        assert_eq!(without_tests("#[cfg(test)] fn f() {}").trim(), "fn f() {}");
    }
}
