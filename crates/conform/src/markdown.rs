//! The support matrix as Markdown: one file per table, one row per test, one column per backend.

use crate::cell::Cell;
use crate::dashboard::Dashboard;
use crate::matrix::{Line, Matrix, Tally};
use crate::report::State;

/// The badge files, by path; tables refer to them.
pub fn badges() -> Vec<(String, String)> {
    [State::Passed, State::Limit, State::Failed]
        .into_iter()
        .map(|state| (badge_file(state), badge(state)))
        .collect()
}

/// The text of a badge.
fn word(state: State) -> &'static str {
    match state {
        State::None => "none",
        State::Passed => "success",
        State::Limit => "limit",
        State::Failed => "failure",
    }
}

fn badge_file(state: State) -> String {
    format!("badges/{}.svg", word(state))
}

fn badge(state: State) -> String {
    let color = match state {
        State::Passed => "#1a7f4b",
        State::Limit => "#8a6100",
        _ => "#c0331f",
    };
    let (word, width) = (word(state), 14 + 7 * word(state).len());
    let middle = width as f64 / 2.0;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"20\" role=\"img\" aria-label=\"{word}\">\
         <title>{word}</title><rect width=\"{width}\" height=\"20\" rx=\"4\" fill=\"{color}\"/>\
         <text x=\"{middle}\" y=\"14\" fill=\"#fff\" text-anchor=\"middle\" \
         font-family=\"Verdana,DejaVu Sans,sans-serif\" font-size=\"11\">{word}</text></svg>\n"
    )
}

/// A table as a page.
pub fn page(matrix: &Matrix, dashboard: Dashboard, order: &[&str], date: &str) -> String {
    let backends = matrix.backends(order);
    let parts = matrix.parts(dashboard);
    let mut out = format!("# {}\n\n", dashboard.title());
    let versions = backends.iter().map(|name| match matrix.version(name) {
        version if version.is_empty() => name.clone(),
        version => format!("{name} {version}"),
    });
    let versions: Vec<String> = versions.map(|text| plain(&text)).collect();
    out += &format!(
        "Written by `clematis check` on {date}, with {}.\n\n",
        versions.join(", ")
    );
    if parts.iter().all(Vec::is_empty) {
        out += "No test has a row here yet.\n";
        return out;
    }
    out += "Below each word: how many examples were compared, and the worst error as a share of what is allowed.\n";
    let both = parts.iter().all(|part| !part.is_empty());
    let mut notes = Vec::new();
    for (part, title) in parts.iter().zip(["Functions", "Ops and single checks"]) {
        if part.is_empty() {
            continue;
        }
        if both {
            out += &format!("\n## {title}\n");
        }
        out += "\n";
        out += &table(part, &backends);
        let cells = part.iter().flat_map(|line| line.1.values().flatten());
        notes.extend(cells.filter_map(|cell| note(cell)));
    }
    if !notes.is_empty() {
        out += "\n## Failures and limits\n\n";
        out += &notes.concat();
    }
    out
}

fn table(lines: &[Line<'_>], backends: &[String]) -> String {
    let names: Vec<String> = backends.iter().map(|name| plain(name)).collect();
    let mut out = format!("| test | {} |\n", names.join(" | "));
    out += &format!("|---|{}\n", ":-:|".repeat(backends.len()));
    for (row, by_backend) in lines {
        out += &format!("| `{}` |", plain(row));
        for backend in backends {
            let cells = by_backend.get(backend.as_str());
            let tally: Tally = cells.into_iter().flatten().copied().collect();
            out += &match tally.state() {
                State::None => " – |".to_string(),
                state => format!(
                    " ![{}]({}){} |",
                    word(state),
                    badge_file(state),
                    found(&tally)
                ),
            };
        }
        out += "\n";
    }
    out
}

/// Number of examples and worst error, if there are any.
fn found(tally: &Tally) -> String {
    match tally.cases {
        0 => String::new(),
        cases => format!("<br>{cases}, {} %", percent(tally.worst)),
    }
}

/// A nonzero fraction is never shown as zero.
fn percent(share: f64) -> String {
    match share * 100.0 {
        p if p > 0.0 && p < 0.1 => "< 0.1".into(),
        p if p < 1.0 => format!("{p:.1}"),
        p => format!("{p:.0}"),
    }
}

fn note(cell: &Cell) -> Option<String> {
    if !matches!(cell.state, State::Failed | State::Limit) {
        return None;
    }
    let words = [&cell.backend, &cell.dtype, &cell.check, &cell.message];
    let words: Vec<String> = words
        .into_iter()
        .filter(|w| !w.is_empty())
        .map(|w| plain(w))
        .collect();
    let state = word(cell.state);
    Some(format!(
        "- `{}` {state}: {}\n",
        plain(&cell.row),
        words.join(", ")
    ))
}

/// Escapes Markdown and HTML.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' => out.push(' '),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '|' | '*' | '[' | ']' | '`' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_per_test_and_a_column_per_backend() {
        let mut matrix = Matrix::default();
        let mut add = |row: &str, backend: &str, state, message: &str| {
            let mut cell = Cell::new(Dashboard::Layers, row, backend, state);
            cell.message = message.into();
            cell.version = "2.0".into();
            if state == State::Passed {
                (cell.cases, cell.worst) = (57, 0.251);
            }
            matrix.add(cell);
        };
        add("test_conv2d", "native", State::Passed, "");
        add("test_conv2d", "torch", State::Failed, "1 | <b>2</b>\nthree");
        add("test_linear", "torch", State::Limit, "has none");
        let text = page(&matrix, Dashboard::Layers, &["native"], "2026-01-02");
        for wanted in [
            "# Layers",
            "on 2026-01-02, with native 2.0, torch 2.0",
            "| test | native | torch |\n|---|:-:|:-:|\n",
            "| `test_conv2d` | ![success](badges/success.svg)<br>57, 25 % | ![failure](badges/failure.svg) |\n",
            "| `test_linear` | – | ![limit](badges/limit.svg) |\n",
            "- `test_conv2d` failure: torch, 1 \\| &lt;b&gt;2&lt;/b&gt; three\n",
            "- `test_linear` limit: torch, has none\n",
        ] {
            assert!(text.contains(wanted), "{wanted}\n{text}");
        }
        assert!(!text.contains("## Functions"), "{text}");
        let mut held = Cell::new(Dashboard::Layers, "test_conv2d", "torch", State::Passed);
        held.check = crate::cell::CONTRACT.into();
        matrix.add(held);
        let text = page(&matrix, Dashboard::Layers, &["native"], "2026-01-02");
        let (functions, others) = text.split_once("## Ops and single checks").unwrap();
        assert!(functions.contains("## Functions") && functions.contains("`test_conv2d` |"));
        assert!(!others.contains("`test_conv2d` |") && others.contains("`test_linear` |"));
        let other = page(&matrix, Dashboard::Random, &[], "x");
        assert!(other.contains("No test has a row here yet"), "{other}");
    }

    #[test]
    fn a_small_error_is_not_shown_as_zero() {
        let shown = [0.0, 1e-5, 0.004, 0.02, 0.256, 3.0].map(percent);
        assert_eq!(shown, ["0.0", "< 0.1", "0.4", "2", "26", "300"]);
    }

    #[test]
    fn every_badge_that_a_table_shows_is_a_file() {
        let badges = badges();
        for state in [State::Passed, State::Limit, State::Failed] {
            let file = badge_file(state);
            let (_, text) = badges.iter().find(|(name, _)| *name == file).unwrap();
            assert!(text.contains(word(state)) && text.starts_with("<svg"));
        }
    }
}
