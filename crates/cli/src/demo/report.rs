//! The page about a run: one self-contained HTML file.
//!
//! Owns the output path. The layout is in `report.html`, which renders the JSON inside it.

use std::path::{Path, PathBuf};

use clematis_conform::page::embed;
use serde_json::Value;

use super::compare::Run;
use super::history::History;
use crate::error::{Error, Result};
use crate::folder::Folder;

const SHELL: &str = include_str!("report.html");
const PLACE: &str = "{{history}}";
const NAME: &str = "index.html";

/// The history of a run, and the summaries of the other backends, as JSON.
pub fn json(history: &History, runs: &[Run]) -> Result<Value> {
    let wrong = |error| Error::new(format!("the history has no JSON form: {error}"));
    let mut json = serde_json::to_value(history).map_err(wrong)?;
    json["runs"] = serde_json::to_value(runs).map_err(wrong)?;
    Ok(json)
}

/// A page with a writable path.
pub struct Page {
    folder: Folder,
}

impl Page {
    /// Creates the folder and checks that it is writable before the run.
    pub fn in_folder(folder: &Path) -> Result<Self> {
        let folder = Folder::open(folder, "the page", &[NAME])?;
        Ok(Page { folder })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.at(NAME)
    }

    pub fn write(&self, history: &History, runs: &[Run]) -> Result<()> {
        self.folder.write(NAME, &render(history, runs)?)
    }
}

fn render(history: &History, runs: &[Run]) -> Result<String> {
    let mut json = json(history, runs)?;
    // JavaScript rounds integers above 2^53, and a rounded seed would not reproduce the run.
    json["seed"] = history.seed.to_string().into();
    Ok(embed(SHELL, PLACE, &json))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn payload(page: &str) -> &str {
        let (_, rest) = page.split_once("id=\"history\">").expect("a payload");
        rest.split_once("</script>").expect("its end").0
    }

    #[test]
    fn the_payload_reads_back() {
        let page = render(&History::sample(3), &[]).expect("renders");
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
        let page = render(&history, &[]).expect("renders");
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
        let page = render(&history, &[]).expect("renders");
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
        page.write(&History::sample(2), &[]).expect("written");
        page.write(&History::sample(3), &[]).expect("written again");
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
