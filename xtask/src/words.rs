//! Checks the vocabulary: the phrases of `xtask/words.txt` may not occur in sources, docs and file names.
//!
//! Text is read as words, not as code: comments, messages and identifiers count alike.

use std::collections::HashMap;

use crate::{Outcome, shell};

const LIST: &str = "xtask/words.txt";

pub fn run() -> Outcome {
    let root = shell::root();
    let vocabulary = Vocabulary::parse(&shell::read(&root.join(LIST))?)?;
    let paths = shell::files(&root, &["rs", "py", "pyi", "md"])?;
    let mut faults = Vec::new();
    for path in &paths {
        let name = shell::relative(path, &root);
        faults.extend(vocabulary.in_name(&name));
        for (line, fault) in vocabulary.in_text(&shell::read(path)?) {
            faults.push(format!("{name}:{line}: {fault}"));
        }
    }
    if faults.is_empty() {
        println!("words: {} files, none with a phrase of {LIST}", paths.len());
        return Ok(());
    }
    Err(format!("words ({LIST}):\n  {}", faults.join("\n  ")).into())
}

/// A word of a text. Words of different sentences make no phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    text: String,
    line: usize,
    sentence: usize,
}

struct Phrase {
    words: Vec<String>,
    /// What to write instead; `None` for an exception, a longer phrase that is fine.
    term: Option<String>,
}

struct Vocabulary {
    /// By first word.
    phrases: HashMap<String, Vec<Phrase>>,
    stems: Vec<String>,
}

impl Vocabulary {
    fn parse(text: &str) -> Result<Self, String> {
        let mut list = Vocabulary {
            phrases: HashMap::new(),
            stems: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = || format!("{LIST}:{}: expected `phrase = term`, got `{line}`", at + 1);
            let (phrases, rest) = line.split_once(" = ").ok_or_else(wrong)?;
            if phrases == "file" {
                list.stems.extend(rest.split_whitespace().map(String::from));
                continue;
            }
            let (term, exceptions) = rest.split_once(" except ").unwrap_or((rest, ""));
            for phrase in phrases.split(" | ") {
                list.add(phrase, Some(term.to_string())).ok_or_else(wrong)?;
            }
            for phrase in exceptions.split(" | ").filter(|phrase| !phrase.is_empty()) {
                list.add(phrase, None).ok_or_else(wrong)?;
            }
        }
        Ok(list)
    }

    fn add(&mut self, phrase: &str, term: Option<String>) -> Option<()> {
        let words: Vec<String> = phrase.split_whitespace().map(String::from).collect();
        let first = words.first()?.clone();
        let phrases = self.phrases.entry(first).or_default();
        phrases.push(Phrase { words, term });
        Some(())
    }

    /// The phrases that begin at `words[at]`.
    fn starting<'a>(&'a self, words: &'a [Word], at: usize) -> impl Iterator<Item = &'a Phrase> {
        let candidates = self.phrases.get(&words[at].text).into_iter().flatten();
        candidates.filter(move |phrase| {
            let Some(found) = words.get(at..at + phrase.words.len()) else {
                return false;
            };
            found
                .iter()
                .zip(&phrase.words)
                .all(|(word, wanted)| word.text == *wanted && word.sentence == found[0].sentence)
        })
    }

    /// The line and the message of each phrase that no exception covers.
    fn in_text(&self, text: &str) -> Vec<(usize, String)> {
        let words = words(text);
        let mut allowed = vec![false; words.len()];
        for at in 0..words.len() {
            for phrase in self.starting(&words, at).filter(|p| p.term.is_none()) {
                allowed[at..at + phrase.words.len()].fill(true);
            }
        }
        let mut faults = Vec::new();
        for at in (0..words.len()).filter(|&at| !allowed[at]) {
            for phrase in self.starting(&words, at) {
                if let Some(term) = &phrase.term {
                    let message = format!("`{}`: write {term}", phrase.words.join(" "));
                    faults.push((words[at].line, message));
                }
            }
        }
        faults
    }

    fn in_name(&self, path: &str) -> Vec<String> {
        let parts = path
            .split('/')
            .map(|part| part.split('.').next().unwrap_or(part));
        let stems = parts
            .filter(|part| self.stems.iter().any(|stem| stem == part))
            .map(|stem| format!("{path}: `{stem}`: choose a name that says what the file holds"));
        let phrases = self.in_text(path).into_iter();
        stems
            .chain(phrases.map(|(_, fault)| format!("{path}: the file's name has {fault}")))
            .collect()
    }
}

/// The lower-case words of a text; identifiers are divided at underscores and capitals.
fn words(text: &str) -> Vec<Word> {
    let mut found = Vec::new();
    let mut sentence = 0;
    for (number, line) in text.lines().enumerate() {
        // An empty line, or one of comment marks alone, ends a paragraph.
        if !line.chars().any(char::is_alphanumeric) {
            sentence += 1;
        }
        let mut word = String::new();
        let mut before = ' ';
        for c in line.chars().chain([' ']) {
            let starts = c.is_uppercase() && before.is_lowercase();
            if (!c.is_alphanumeric() || starts) && !word.is_empty() {
                found.push(Word {
                    text: std::mem::take(&mut word),
                    line: number + 1,
                    sentence,
                });
            }
            if c.is_alphanumeric() {
                word.extend(c.to_lowercase());
            } else if ".,;:()[]{}=\"|".contains(c) {
                sentence += 1;
            }
            before = c;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str =
        "# comment\n\nred fox | grey fox = vixen\nowl = bird except night owl\nfile = den\n";

    fn faults(text: &str) -> Vec<(usize, String)> {
        let vocabulary = Vocabulary::parse(RULES).expect("well formed");
        vocabulary.in_text(text)
    }

    #[test]
    fn identifiers_are_divided_into_words() {
        let texts =
            |text: &str| -> Vec<String> { words(text).into_iter().map(|word| word.text).collect() };
        assert_eq!(
            texts("fn red_fox(RedFox2: X)"),
            ["fn", "red", "fox", "red", "fox2", "x"]
        );
        assert_eq!(texts("Red-fox's"), ["red", "fox", "s"]);
    }

    #[test]
    fn a_phrase_is_found_in_comments_and_names() {
        let want = |line| vec![(line, "`red fox`: write vixen".to_string())];
        assert_eq!(faults("\n/// A red fox."), want(2));
        assert_eq!(faults("let x = RED_FOX;"), want(1));
        assert_eq!(faults("struct RedFox;"), want(1));
    }

    #[test]
    fn a_phrase_goes_over_lines_but_not_over_sentences() {
        assert_eq!(faults("// a red\n// fox").len(), 1);
        assert!(faults("It was red. Fox was not.").is_empty());
        assert!(faults("// a red\n\n// fox").is_empty());
        assert!(faults("f(red, fox)").is_empty());
    }

    #[test]
    fn an_exception_covers_its_own_words_alone() {
        assert!(faults("the night owl").is_empty());
        assert_eq!(faults("the night owl saw an owl").len(), 1);
    }

    #[test]
    fn file_names_are_checked() {
        let vocabulary = Vocabulary::parse(RULES).expect("well formed");
        assert_eq!(vocabulary.in_name("a/den/b.rs").len(), 1);
        assert_eq!(vocabulary.in_name("a/den.rs").len(), 1);
        assert_eq!(vocabulary.in_name("a/owl.rs").len(), 1);
        assert!(vocabulary.in_name("a/dense.rs").is_empty());
    }

    #[test]
    fn a_line_without_a_term_is_refused() {
        let error = Vocabulary::parse("red fox").err().expect("no term");
        assert!(error.contains("words.txt:1"), "{error}");
    }
}
