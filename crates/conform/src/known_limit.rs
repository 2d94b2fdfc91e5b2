//! Known limits of backends, as data with reasons.

use crate::report::{Check, Row, State};
use clematis_core::{DType, Error, Kind, Op, Result};
use serde::{Deserialize, Deserializer};

/// A known limit: an op that a backend does not support, or not with full accuracy.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownLimit {
    /// The op, or a named test (`test_bits`), or several of them.
    #[serde(deserialize_with = "one_or_several")]
    pub op: Vec<String>,
    /// The dtypes; empty for all.
    #[serde(default)]
    pub dtypes: Vec<String>,
    /// The checks that fail: forward, subnormal, special, vjp, jvp, second; empty for all.
    #[serde(default)]
    pub what: Vec<String>,
    /// The reason.
    pub reason: String,
}

/// Parses a string or a list of strings.
fn one_or_several<'de, D: Deserializer<'de>>(
    from: D,
) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Several(Vec<String>),
    }
    Ok(match Words::deserialize(from)? {
        Words::One(word) => vec![word],
        Words::Several(words) => words,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    limit: Vec<KnownLimit>,
}

impl KnownLimit {
    /// Parses a file of limits.
    pub fn parse(text: &str) -> Result<Vec<KnownLimit>> {
        let file: File = toml::from_str(text)
            .map_err(|e| Error::new(Kind::Convert, format!("limits: {}", e.message())))?;
        let ops = Op::all();
        let rows = crate::named_test::all();
        for limit in &file.limit {
            for op in &limit.op {
                let known = ops.iter().any(|(name, _)| name == op)
                    || rows.iter().any(|named| named.row == op);
                if !known {
                    return Err(Error::new(
                        Kind::Convert,
                        format!("limits: unknown op or row `{op}`"),
                    ));
                }
            }
            for dtype in &limit.dtypes {
                dtype.parse::<DType>()?;
            }
            for what in &limit.what {
                if !Check::ALL.iter().any(|c| c.name() == what) {
                    return Err(Error::new(
                        Kind::Convert,
                        format!("limits: {:?}: unknown check `{what}`", limit.op),
                    ));
                }
            }
        }
        Ok(file.limit)
    }

    /// The known limits of a backend; empty for unknown backends.
    pub fn of(backend: &str) -> Result<Vec<KnownLimit>> {
        match backend {
            "native" => KnownLimit::parse(include_str!("../limits/native.toml")),
            "numpy" => KnownLimit::parse(include_str!("../limits/numpy.toml")),
            "torch" => KnownLimit::parse(include_str!("../limits/torch.toml")),
            "jax" => KnownLimit::parse(include_str!("../limits/jax.toml")),
            "tensorflow" => KnownLimit::parse(include_str!("../limits/tensorflow.toml")),
            _ => Ok(Vec::new()),
        }
    }

    /// Updates the state of a result to which this limit applies.
    pub fn settle(&self, state: &mut State, message: &mut String) {
        match state {
            State::Failed => {
                *state = State::Limit;
                *message = self.reason.clone();
            }
            State::Passed => {
                *state = State::Failed;
                *message = format!("passes, so this limit must be removed: {}", self.reason);
            }
            State::None | State::Limit => {}
        }
    }

    /// Whether it applies to this op or row.
    pub fn names(&self, op: &str) -> bool {
        self.op.iter().any(|own| own == op)
    }

    fn covers(&self, op: &str, dtype: DType, check: Check) -> bool {
        let among = |list: &[String], word: &str| list.is_empty() || list.iter().any(|w| w == word);
        self.names(op) && among(&self.dtypes, dtype.name()) && among(&self.what, check.name())
    }
}

/// Marks failures with a known limit as limits, and limits without a failure as failures.
pub fn apply(rows: &mut [Row], limits: &[KnownLimit]) {
    for row in rows {
        let Some(limit) = limits
            .iter()
            .find(|l| l.covers(&row.op, row.dtype, row.check))
        else {
            continue;
        };
        limit.settle(&mut row.state, &mut row.message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{Finding, Outcome};

    #[test]
    fn a_limit_that_passes_fails_the_run() {
        let limits = KnownLimit::parse(
            "[[limit]]\nop = \"exp\"\ndtypes = [\"f16\"]\nwhat = [\"forward\"]\nreason = \"slow\"",
        )
        .unwrap();
        let run = |outcome| {
            let mut row = Row::new("exp", DType::F16, Check::Forward);
            row.add("c", Finding::timed(Check::Forward, || outcome));
            let mut rows = [row];
            apply(&mut rows, &limits);
            rows[0].state
        };
        assert_eq!(run(Outcome::Failed("x".into())), State::Limit);
        assert_eq!(run(Outcome::Passed(0.0)), State::Failed);
    }

    #[test]
    fn a_limit_of_nothing_known_is_an_error() {
        for wrong in [
            "[[limit]]\nop = \"exp\"",
            "[[limit]]\nop = \"exp\"\nreason = \"r\"\ndtypes = [\"f128\"]",
            "[[limit]]\nop = \"exp\"\nreason = \"r\"\nwhat = [\"third\"]",
            "[[limit]]\nop = \"no_such_op\"\nreason = \"r\"",
            "[[gap]]\nop = \"exp\"",
        ] {
            assert!(KnownLimit::parse(wrong).is_err(), "{wrong}");
        }
        for backend in ["native", "numpy", "torch", "jax", "tensorflow", "another"] {
            assert!(KnownLimit::of(backend).is_ok(), "{backend}");
        }
    }
}
