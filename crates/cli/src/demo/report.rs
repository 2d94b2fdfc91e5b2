//! The page about a run: one HTML file that needs nothing else.
//!
//! Owns where the page goes and that it appears there whole or not at all. What it
//! looks like is in `report.html`, which draws the run from the JSON inside it.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use super::history::History;
use crate::error::{Error, Result};

const SHELL: &str = include_str!("report.html");
const PLACE: &str = "{{history}}";
const NAME: &str = "index.html";

/// A place where the page can be written.
pub struct Page {
    folder: PathBuf,
}

impl Page {
    /// Makes the folder and tries to write there, so that a run never ends in a page that cannot be saved.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        let refused = |error: std::io::Error| {
            Error::new(format!(
                "{}: the page cannot be written to this folder: {error}",
                folder.display()
            ))
        };
        fs::create_dir_all(folder).map_err(refused)?;
        let page = Page {
            folder: folder.to_path_buf(),
        };
        if page.path().is_dir() {
            let error = std::io::Error::new(ErrorKind::IsADirectory, format!("{NAME} is a folder"));
            return Err(refused(error));
        }
        page.draft()
            .and_then(|(path, _)| fs::remove_file(path))
            .map_err(refused)?;
        Ok(page)
    }

    pub fn path(&self) -> PathBuf {
        self.folder.join(NAME)
    }

    /// Writes the page beside its place and moves it there, so that no reader sees half of it.
    pub fn write(&self, history: &History) -> Result<()> {
        let text = render(history)?;
        let failed = |error: std::io::Error| {
            Error::new(format!(
                "{}: cannot be written: {error}",
                self.path().display()
            ))
        };
        let (path, mut file) = self.draft().map_err(failed)?;
        let written = file
            .write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&path, self.path()));
        if written.is_err() {
            // The first error is the one to tell; a draft that cannot be removed either is only untidy.
            let _ = fs::remove_file(&path);
        }
        written.map_err(failed)
    }

    /// A new file in the folder, of this process alone. One left by a dead process of the same number is taken over.
    fn draft(&self) -> std::io::Result<(PathBuf, fs::File)> {
        let path = self.folder.join(format!(".{NAME}.{}", std::process::id()));
        let file = fs::File::create(&path)?;
        Ok((path, file))
    }
}

fn render(history: &History) -> Result<String> {
    let mut json = serde_json::to_value(history)
        .map_err(|error| Error::new(format!("the history has no JSON form: {error}")))?;
    // JavaScript rounds whole numbers beyond 2^53, and a rounded seed would not repeat the run.
    json["seed"] = history.seed.to_string().into();
    Ok(SHELL.replacen(PLACE, &escape(&json.to_string()), 1))
}

/// JSON that may stand inside a script element: these characters occur only in its strings, where an escape means the same.
fn escape(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn payload(page: &str) -> &str {
        let (_, rest) = page.split_once("id=\"history\">").expect("a payload");
        rest.split_once("</script>").expect("its end").0
    }

    #[test]
    fn the_payload_reads_back() {
        let page = render(&History::sample(3)).expect("renders");
        assert!(!page.contains(PLACE));
        let value: Value = serde_json::from_str(payload(&page)).expect("JSON");
        assert_eq!(value["epochs"].as_array().map(Vec::len), Some(3));
        assert_eq!(value["confusion"][8][1], 2);
        assert_eq!(value["seed"], "0");
        assert_eq!(
            value["misread"][0]["pixels"].as_array().map(Vec::len),
            Some(64)
        );
    }

    #[test]
    fn no_text_can_leave_the_script() {
        let mut history = History::sample(1);
        let hostile = "</script><script>alert(1)</script><!-- & \u{2028}{{history}}";
        history.backend = hostile.into();
        let page = render(&history).expect("renders");
        let value: Value = serde_json::from_str(payload(&page)).expect("JSON");
        assert_eq!(value["backend"], hostile);
        assert_eq!(
            page.matches("<script").count(),
            SHELL.matches("<script").count()
        );
    }

    #[test]
    fn a_run_that_diverged_has_a_page() {
        let mut history = History::sample(2);
        history.epochs[1].loss = f64::NAN;
        let page = render(&history).expect("renders");
        let value: Value = serde_json::from_str(payload(&page)).expect("JSON");
        assert_eq!(value["epochs"][1]["loss"], Value::Null);
    }

    #[test]
    fn the_shell_asks_nothing_of_the_network() {
        for reference in ["http:", "https:", "src=", "@import", "url("] {
            let uses = SHELL.matches(reference).count();
            let names = SHELL.matches("http://www.w3.org/2000/svg").count();
            let allowed = if reference == "http:" { names } else { 0 };
            assert_eq!(uses, allowed, "{reference}");
        }
        assert_eq!(SHELL.matches(PLACE).count(), 1);
    }

    #[test]
    fn the_page_is_the_only_file_left() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join("new/deep");
        let page = Page::in_folder(&folder).expect("writable");
        assert!(!page.path().exists());
        page.write(&History::sample(2)).expect("written");
        page.write(&History::sample(3)).expect("written again");
        let names: Vec<_> = fs::read_dir(&folder)
            .expect("readable")
            .map(|entry| entry.expect("an entry").file_name())
            .collect();
        assert_eq!(names, [NAME]);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused_at_once() {
        let root = tempfile::tempdir().expect("a folder");
        let file = root.path().join("file");
        fs::write(&file, "x").expect("written");
        let below = file.join("below");
        let taken = root.path().join("taken");
        fs::create_dir_all(taken.join(NAME)).expect("made");
        for folder in [&file, &below, &taken] {
            let Err(error) = Page::in_folder(folder) else {
                panic!("{} should be refused", folder.display());
            };
            assert!(
                error
                    .to_string()
                    .contains("cannot be written to this folder")
            );
        }
        assert_eq!(fs::read(&file).ok().as_deref(), Some(&b"x"[..]));
    }
}
