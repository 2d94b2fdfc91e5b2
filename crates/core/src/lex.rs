//! The lexer of the text forms of sizes and graphs.
//!
//! A cursor is a position in a text and the token there. It is `Copy`, so lookahead is reading from a copy, and it
//! holds no state that grows with the text. Whitespace and `#` comments separate tokens.

use crate::error::{Error, Kind, Result};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Token<'a> {
    /// Letters, digits and underscores, not beginning with a digit.
    Name(&'a str),
    /// Digits.
    Int(&'a str),
    /// Digits with a fraction or an exponent.
    Float(&'a str),
    /// The contents of a quoted string, before unescaping.
    Text(&'a str),
    /// Punctuation.
    Sign(&'a str),
    /// End of the text.
    End,
    /// An invalid token, with the reason.
    Bad(&'static str),
}

/// The position of a token: line and column from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    line: u32,
    column: u32,
}

/// A position in a text and the token there.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    what: &'static str,
    rest: &'a str,
    /// The position of `rest`.
    next: Place,
    token: Token<'a>,
    place: Place,
}

/// Maximum number of characters of a token that messages quote.
const QUOTED: usize = 40;

impl<'a> Cursor<'a> {
    /// A cursor at the first token; `what` is the prefix of every message.
    pub fn new(what: &'static str, text: &'a str) -> Self {
        let start = Place { line: 1, column: 1 };
        let mut cursor = Cursor {
            what,
            rest: text,
            next: start,
            token: Token::End,
            place: start,
        };
        cursor.advance();
        cursor
    }

    /// The current token.
    pub fn token(&self) -> Token<'a> {
        self.token
    }

    /// The position of the current token.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Advances to the next token.
    pub fn advance(&mut self) {
        self.skip_blanks();
        self.place = self.next;
        let (token, bytes) = token(self.rest);
        self.token = token;
        self.skip(bytes);
    }

    /// Whether the current token is this sign.
    pub fn at(&self, sign: &str) -> bool {
        self.token == Token::Sign(sign)
    }

    /// Consumes this sign if it is the current token.
    pub fn eat(&mut self, sign: &str) -> bool {
        let here = self.at(sign);
        if here {
            self.advance();
        }
        here
    }

    /// Consumes this sign; an error if it is not the current token.
    pub fn expect(&mut self, sign: &str) -> Result<()> {
        if self.eat(sign) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{sign}`")))
    }

    /// Whether the current token is this word.
    pub fn at_word(&self, word: &str) -> bool {
        self.token == Token::Name(word)
    }

    /// Consumes this word if it is the current token.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let here = self.at_word(word);
        if here {
            self.advance();
        }
        here
    }

    /// Consumes a name; `what` describes it in messages.
    pub fn name(&mut self, what: &str) -> Result<&'a str> {
        let Token::Name(name) = self.token else {
            return Err(self.unexpected(what));
        };
        self.advance();
        Ok(name)
    }

    /// Consumes an unsigned number.
    pub fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T> {
        let Token::Int(digits) = self.token else {
            return Err(self.unexpected(what));
        };
        let number = digits.parse().map_err(|_| {
            self.fail(
                self.place,
                format!("{} is too large for {what}", cut(digits)),
            )
        })?;
        self.advance();
        Ok(number)
    }

    /// Consumes a quoted string and returns it unescaped.
    pub fn text(&mut self, what: &str) -> Result<String> {
        let Token::Text(raw) = self.token else {
            return Err(self.unexpected(what));
        };
        let text = unescape(raw)
            .map_err(|why| self.fail(self.place, format!("{why} in the text \"{}\"", cut(raw))))?;
        self.advance();
        Ok(text)
    }

    /// Returns an error unless the text has ended.
    pub fn end(&self) -> Result<()> {
        if self.token == Token::End {
            return Ok(());
        }
        Err(self.unexpected("the end of the text"))
    }

    /// The error that another token was expected here.
    pub fn unexpected(&self, expected: &str) -> Error {
        let found = match self.token {
            Token::Name(s) | Token::Int(s) | Token::Float(s) | Token::Sign(s) => {
                format!("found `{}`", cut(s))
            }
            Token::Text(s) => format!("found the text \"{}\"", cut(s)),
            Token::End => "the text ends".into(),
            Token::Bad(why) => why.into(),
        };
        self.fail(self.place, format!("expected {expected}, {found}"))
    }

    /// An error at a position.
    pub fn fail(&self, place: Place, message: impl std::fmt::Display) -> Error {
        let Place { line, column } = place;
        Error::new(
            Kind::Convert,
            format!("{}: line {line}, column {column}: {message}", self.what),
        )
    }

    fn skip_blanks(&mut self) {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.skip(blanks);
            if !self.rest.starts_with('#') {
                return;
            }
            self.skip(self.rest.find('\n').unwrap_or(self.rest.len()));
        }
    }

    fn skip(&mut self, bytes: usize) {
        let Some((passed, rest)) = self.rest.split_at_checked(bytes) else {
            return;
        };
        for c in passed.chars() {
            if c == '\n' {
                self.next.line = self.next.line.saturating_add(1);
                self.next.column = 1;
            } else {
                self.next.column = self.next.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }
}

/// The first token of a text, and its length in bytes.
fn token(text: &str) -> (Token<'_>, usize) {
    let Some(first) = text.chars().next() else {
        return (Token::End, 0);
    };
    if first == '"' {
        return quoted(text);
    }
    if first.is_ascii_digit() {
        return number(text);
    }
    let word = text.len() - text.trim_start_matches(is_word).len();
    if word > 0 {
        return (Token::Name(&text[..word]), word);
    }
    for sign in ["->", "//"] {
        if text.starts_with(sign) {
            return (Token::Sign(&text[..2]), 2);
        }
    }
    if "{}[](),:=@%+-*<>".contains(first) {
        return (Token::Sign(&text[..1]), 1);
    }
    (Token::Bad("found an invalid character"), first.len_utf8())
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn quoted(text: &str) -> (Token<'_>, usize) {
    let mut escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return (Token::Bad("found a text without its closing quote"), i),
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return (Token::Text(&text[1..i]), i + 1),
            _ => {}
        }
    }
    let why = "found a text without its closing quote";
    (Token::Bad(why), text.len())
}

fn number(text: &str) -> (Token<'_>, usize) {
    let bytes = text.as_bytes();
    let digits = |from: usize| {
        let tail = bytes.get(from..).unwrap_or_default();
        tail.iter().take_while(|b| b.is_ascii_digit()).count()
    };
    let mut len = digits(0);
    let mut float = false;
    if bytes.get(len) == Some(&b'.') && digits(len + 1) > 0 {
        len += 1 + digits(len + 1);
        float = true;
    }
    if matches!(bytes.get(len), Some(b'e' | b'E')) {
        let signed = usize::from(matches!(bytes.get(len + 1), Some(b'+' | b'-')));
        let exponent = digits(len + 1 + signed);
        if exponent > 0 {
            len += 1 + signed + exponent;
            float = true;
        }
    }
    let tail = &text[len..];
    let glued = tail.len() - tail.trim_start_matches(|c| is_word(c) || c == '.').len();
    if glued > 0 {
        return (Token::Bad("found a malformed number"), len + glued);
    }
    let number = &text[..len];
    if float {
        (Token::Float(number), len)
    } else {
        (Token::Int(number), len)
    }
}

/// The first characters of a text, for messages.
fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Quotes a text, escaping quotes and invisible characters.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

fn unescape(raw: &str) -> std::result::Result<String, &'static str> {
    let mut out = String::with_capacity(raw.len());
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match rest.next() {
            Some(c @ ('"' | '\\')) => c,
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('u') => {
                let tail = rest.as_str();
                let code = tail.strip_prefix('{').and_then(|t| t.split_once('}'));
                let (hex, after) = code.ok_or("a `\\u` without `{…}`")?;
                let code = u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
                rest = after.chars();
                code.ok_or("an invalid character `\\u{…}`")?
            }
            _ => return Err("an unknown escape"),
        });
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<Token<'_>> {
        let mut cursor = Cursor::new("test", text);
        let mut all = Vec::new();
        while cursor.token() != Token::End {
            all.push(cursor.token());
            cursor.advance();
        }
        all
    }

    #[test]
    fn a_line_is_tokenised() {
        use Token::*;
        assert_eq!(
            tokens("%12: f32[b,-1e-7] -> // # rest\n a_b \"x\\\"y\""),
            [
                Sign("%"),
                Int("12"),
                Sign(":"),
                Name("f32"),
                Sign("["),
                Name("b"),
                Sign(","),
                Sign("-"),
                Float("1e-7"),
                Sign("]"),
                Sign("->"),
                Sign("//"),
                Name("a_b"),
                Text("x\\\"y"),
            ]
        );
        for bad in ["1x", "1.5.2", "0.1f", "\"open", "\"open\nx", "é", "1."] {
            assert!(
                tokens(bad).iter().any(|t| matches!(t, Bad(_))),
                "{bad}: {:?}",
                tokens(bad)
            );
        }
    }

    #[test]
    fn places_are_lines_and_columns() {
        let mut cursor = Cursor::new("test", "a\n  \"é\" b");
        cursor.advance();
        cursor.advance();
        assert_eq!(cursor.place(), Place { line: 2, column: 7 });
        let error = cursor.unexpected("`;`");
        assert_eq!(
            error.message(),
            "test: line 2, column 7: expected `;`, found `b`"
        );
    }

    #[test]
    fn quoted_texts_are_read_back() {
        for text in [
            "",
            "plain",
            "a\"b\\c",
            "\n\r\t\u{0}\u{7f}\u{85}",
            "ключ 🌿",
            "\\u{41}",
        ] {
            let quoted = quote(text);
            assert!(!quoted.contains('\n'));
            assert_eq!(Cursor::new("test", &quoted).text("it").unwrap(), text);
        }
        for bad in ["\"\\x\"", "\"\\u41\"", "\"\\u{d800}\"", "\"\\u{zz}\""] {
            assert!(Cursor::new("test", bad).text("it").is_err(), "{bad}");
        }
    }
}
