//! Our times beside the peers', joined by name.

use serde_json::Value;
use std::fmt::Write;

struct Row {
    name: String,
    by: String,
    milliseconds: f64,
}

fn rows(text: &str) -> Result<Vec<Row>, String> {
    let parsed: Value = serde_json::from_str(text)
        .map_err(|e| format!("bench: a benchmark's output is no JSON: {e}"))?;
    let list = parsed
        .as_array()
        .ok_or("bench: a benchmark's output is no list")?;
    list.iter()
        .map(|row| {
            let text = |key: &str| {
                row[key]
                    .as_str()
                    .map(String::from)
                    .ok_or(format!("bench: a row has no `{key}`"))
            };
            let milliseconds = row["min_ms"]
                .as_f64()
                .ok_or("bench: a row has no `min_ms`")?;
            Ok(Row {
                name: text("name")?,
                by: text("by")?,
                milliseconds,
            })
        })
        .collect()
}

/// One line per piece of work: our best time, each peer's, and the ratio to the best of them.
pub fn table(ours: &str, peers: &str) -> Result<String, String> {
    let (all, others) = (rows(ours)?, rows(peers)?);
    let (own, beside): (Vec<Row>, Vec<Row>) = all.into_iter().partition(|row| row.by == "clematis");
    let others: Vec<Row> = beside.into_iter().chain(others).collect();
    let mut out = format!(
        "{:<52} {:>10} {:>10}  {:<8} {:>6}\n",
        "milliseconds, best of many", "clematis", "best peer", "", "ratio"
    );
    for row in own {
        let best = others
            .iter()
            .filter(|other| other.name == row.name)
            .min_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
        let line = match best {
            Some(best) => writeln!(
                out,
                "{:<52} {:>10.4} {:>10.4}  {:<8} {:>6.2}",
                row.name,
                row.milliseconds,
                best.milliseconds,
                best.by,
                row.milliseconds / best.milliseconds
            ),
            None => writeln!(
                out,
                "{:<52} {:>10.4} {:>10}",
                row.name, row.milliseconds, "-"
            ),
        };
        line.map_err(|e| e.to_string())?;
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn rows_are_joined_by_name_and_compared_with_the_best() {
        let ours = r#"[{"name": "add", "by": "clematis", "min_ms": 2.0}, {"name": "add", "by": "gemm", "min_ms": 9.0}]"#;
        let peers = r#"[{"name": "add", "by": "torch", "min_ms": 4.0}, {"name": "exp", "by": "torch", "min_ms": 1.0}]"#;
        let text = table(ours, peers).expect("two lists");
        assert!(text.contains("torch") && text.contains("0.50"), "{text}");
        assert!(table("{", peers).is_err() && table("[{}]", peers).is_err());
    }
}
