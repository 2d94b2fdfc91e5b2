//! The support matrix as one self-contained HTML file.
//!
//! The layout is in `page.html`, which renders the JSON inside it. To keep that small, cells are lists of indices
//! into lists of strings.

use crate::cell::CORE;
use crate::dashboard::Dashboard;
use crate::history::PastRun;
use crate::matrix::Matrix;
use crate::report::State;
use clematis_core::DType;
use serde_json::{Value, json};
use std::collections::BTreeMap;

const SHELL: &str = include_str!("page.html");
const PLACE: &str = "{{matrix}}";
/// Maximum number of earlier runs in the trend chart.
const RUNS: usize = 60;

/// Renders the page.
pub fn page(matrix: &Matrix, history: &[PastRun], order: &[&str], date: &str) -> String {
    embed(SHELL, PLACE, &payload(matrix, history, order, date))
}

fn payload(matrix: &Matrix, history: &[PastRun], order: &[&str], date: &str) -> Value {
    let backends = matrix.backends(order);
    let dtypes: Vec<&str> = DType::ALL.iter().map(|d| d.name()).collect();
    let mut messages = Words::default();
    let mut checks = Words::default();
    let mut other = Words::default();
    let dashboards: Vec<Value> = Dashboard::ALL
        .into_iter()
        .map(|dashboard| {
            let rows: Vec<Value> = matrix
                .parts(dashboard)
                .iter()
                .flatten()
                .map(|(row, by_backend)| {
                    let cells: Vec<Value> = backends
                        .iter()
                        .map(|backend| {
                            let cells = by_backend.get(backend.as_str()).into_iter().flatten();
                            cells
                                .map(|c| {
                                    let dtype = dtypes.iter().position(|d| *d == c.dtype);
                                    // Another runner may have dtypes of its own.
                                    let dtype = match dtype {
                                        Some(at) => at,
                                        None => dtypes.len() + other.place(&c.dtype),
                                    };
                                    let micros = (c.seconds * 1e6).round() as u64;
                                    let worst = (c.worst * 1000.0).round() / 1000.0;
                                    json!([
                                        dtype,
                                        checks.place(&c.check),
                                        state(c.state),
                                        c.cases,
                                        worst,
                                        micros,
                                        messages.place(&c.message)
                                    ])
                                })
                                .collect()
                        })
                        .collect();
                    json!([row, cells])
                })
                .collect();
            json!({"name": dashboard.name(), "title": dashboard.title(), "rows": rows})
        })
        .collect();
    let backends: Vec<Value> = backends
        .iter()
        .map(|name| json!({"name": name, "version": matrix.version(name)}))
        .collect();
    let mut dtypes: Vec<String> = dtypes.into_iter().map(String::from).collect();
    dtypes.extend(other.words);
    json!({
        "core": CORE,
        "date": date,
        "backends": backends,
        "dtypes": dtypes,
        "checks": checks.words,
        "messages": messages.words,
        "dashboards": dashboards,
        "history": &history[history.len().saturating_sub(RUNS)..],
    })
}

fn state(state: State) -> u8 {
    match state {
        State::None => 0,
        State::Passed => 1,
        State::Limit => 2,
        State::Failed => 3,
    }
}

/// Interned strings.
#[derive(Default)]
struct Words {
    words: Vec<String>,
    places: BTreeMap<String, usize>,
}

impl Words {
    fn place(&mut self, word: &str) -> usize {
        if let Some(&at) = self.places.get(word) {
            return at;
        }
        self.words.push(word.to_string());
        self.places.insert(word.to_string(), self.words.len() - 1);
        self.words.len() - 1
    }
}

/// Embeds JSON into a script element of a page. Characters that could end the element occur only inside strings,
/// where they are escaped.
pub fn embed(shell: &str, place: &str, json: &Value) -> String {
    let text = json.to_string();
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    shell.replacen(place, &out, 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::Cell;

    fn payload_of(page: &str) -> Value {
        let (_, rest) = page.split_once("id=\"matrix\">").unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn hostile_strings_stay_strings() {
        let hostile = "</script><script>alert(1)</script><!-- & \u{2028}{{matrix}}";
        let mut matrix = Matrix::default();
        let mut cell = Cell::new(Dashboard::Layers, hostile, hostile, State::Failed);
        cell.message = hostile.into();
        cell.dtype = "int4".into();
        matrix.add(cell);
        let page = page(&matrix, &[], &[], "now");
        let value = payload_of(&page);
        assert_eq!(value["backends"][0]["name"], hostile);
        let row = &value["dashboards"][0]["rows"][0];
        assert_eq!(row[0], hostile);
        let at = row[1][0][0][0].as_u64().unwrap() as usize;
        assert_eq!(value["dtypes"][at], "int4");
        assert_eq!(
            page.matches("<script").count(),
            SHELL.matches("<script").count()
        );
    }

    #[test]
    fn the_shell_asks_nothing_of_the_network() {
        for reference in ["http:", "https:", "src=", "@import", "url("] {
            let names = SHELL.matches("http://www.w3.org/2000/svg").count();
            let allowed = if reference == "http:" { names } else { 0 };
            assert_eq!(SHELL.matches(reference).count(), allowed, "{reference}");
        }
        assert_eq!(SHELL.matches(PLACE).count(), 1);
    }

    #[test]
    fn the_trend_has_the_last_runs() {
        let past = |n: u64| {
            let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(n);
            PastRun::of(&Matrix::default(), "", at)
        };
        let runs: Vec<PastRun> = (0..100).map(past).collect();
        let value = payload(&Matrix::default(), &runs, &[], "now");
        let kept = value["history"].as_array().unwrap();
        assert_eq!(kept.len(), RUNS);
        assert_eq!(kept[RUNS - 1]["date"], runs[99].date);
    }
}
