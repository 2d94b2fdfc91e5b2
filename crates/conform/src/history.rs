//! Earlier runs, a line each: what the trend is drawn from.

use crate::cell::{CORE, micros};
use crate::matrix::Matrix;
use clematis_core::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Past {
    /// When it ended, `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The core's version.
    pub core: String,
    /// What was asked for; empty: everything.
    #[serde(default)]
    pub filter: String,
    /// All results that were there when it ended.
    pub backends: BTreeMap<String, Count>,
}

/// A backend's results in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The framework's version.
    pub version: String,
    /// How many cells passed.
    pub passed: usize,
    /// How many fail as a limit says.
    pub limits: usize,
    /// How many failed.
    pub failed: usize,
    /// How long they took.
    pub seconds: f64,
}

impl Past {
    /// The state of things after a run.
    pub fn of(matrix: &Matrix, filter: &str, now: SystemTime) -> Past {
        let backends = matrix.backends(&[]).into_iter().map(|name| {
            let tally = matrix.tally(&name);
            let count = Count {
                version: matrix.version(&name),
                passed: tally.passed,
                limits: tally.limits,
                failed: tally.failed,
                seconds: micros(tally.seconds),
            };
            (name, count)
        });
        Past {
            date: date(now),
            core: CORE.to_string(),
            filter: filter.to_string(),
            backends: backends.collect(),
        }
    }

    /// As a line of a file, its end included.
    pub fn line(&self) -> Result<String> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::new(Kind::Convert, format!("history: no JSON form: {e}")))?;
        Ok(text + "\n")
    }

    /// Reads lines; what is none is passed over, because a trend with a gap is better than no page.
    pub fn read(text: &str) -> Vec<Past> {
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// A moment in UTC, `2026-01-31T12:00:00Z`.
pub fn date(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days are counted from 0000-03-01, so that a leap day ends a year; eras have 400 years.
    let z = days + 719_468;
    let (era, day) = (z / 146_097, z % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, wanted) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (1_798_761_600, "2027-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), wanted);
        }
    }

    #[test]
    fn a_run_survives_its_line_and_a_broken_line_is_passed_over() {
        let past = Past::of(&Matrix::default(), "conv", UNIX_EPOCH);
        let line = past.line().unwrap();
        assert_eq!(
            Past::read(&format!("{line}{{\"date\n{line}")),
            [past.clone(), past]
        );
    }
}
