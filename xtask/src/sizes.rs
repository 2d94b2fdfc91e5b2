//! Checks file sizes: 800 lines is the limit; over 400 a split is suggested.

use crate::{Outcome, shell};

const HARD: usize = 800;
const SOFT: usize = 400;

pub fn run() -> Outcome {
    let root = shell::root();
    let mut counted = Vec::new();
    for path in shell::files(&root, &["rs", "py"])? {
        counted.push((
            shell::read(&path)?.lines().count(),
            shell::relative(&path, &root),
        ));
    }
    let report = judge(counted);
    for (lines, name) in &report.long {
        println!("hint: {name} has {lines} lines; more than {SOFT} are hard to keep in mind");
    }
    if report.over.is_empty() {
        println!("sizes: {} files, none over {HARD} lines", report.files);
        return Ok(());
    }
    let names: Vec<_> = report
        .over
        .iter()
        .map(|(lines, name)| format!("\n  {name}: {lines} lines"))
        .collect();
    Err(format!("files over {HARD} lines:{}", names.concat()).into())
}

#[derive(Debug, PartialEq, Eq)]
struct Report {
    files: usize,
    /// Over the soft limit, within the hard limit; longest first.
    long: Vec<(usize, String)>,
    over: Vec<(usize, String)>,
}

fn judge(mut counted: Vec<(usize, String)>) -> Report {
    counted.sort_by(|a, b| b.cmp(a));
    let files = counted.len();
    let (over, rest): (Vec<_>, Vec<_>) = counted.into_iter().partition(|(lines, _)| *lines > HARD);
    let long = rest
        .into_iter()
        .filter(|(lines, _)| *lines > SOFT)
        .collect();
    Report { files, long, over }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let file = |lines: usize| (lines, format!("f{lines}.rs"));
        let report = judge(vec![file(400), file(801), file(401), file(800), file(3)]);
        assert_eq!(report.files, 5);
        assert_eq!(report.over, [file(801)]);
        assert_eq!(report.long, [file(800), file(401)]);
    }
}
