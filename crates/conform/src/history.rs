//! The history of runs, one per line, for the trend chart.

use crate::cell::{CORE, micros};
use crate::matrix::Matrix;
use clematis_core::{Error, Kind, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PastRun {
    /// When it ended, `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The version of the core.
    pub core: String,
    /// The selected tests; empty for all.
    #[serde(default)]
    pub filter: String,
    /// The results of each backend when it ended.
    pub backends: BTreeMap<String, Count>,
}

/// The counts of a backend's results.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The version of the framework.
    pub version: String,
    /// Number of cells that passed.
    pub passed: usize,
    /// Number of cells that fail as known limits.
    pub limits: usize,
    /// Number of cells that failed.
    pub failed: usize,
    /// Total duration.
    pub seconds: f64,
}

impl PastRun {
    /// The summary of a run.
    pub fn of(matrix: &Matrix, filter: &str, now: SystemTime) -> PastRun {
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
        PastRun {
            date: date(now),
            core: CORE.to_string(),
            filter: filter.to_string(),
            backends: backends.collect(),
        }
    }

    /// The run as a line, including the newline.
    pub fn line(&self) -> Result<String> {
        let text = serde_json::to_string(self)
            .map_err(|e| Error::new(Kind::Convert, format!("history: no JSON form: {e}")))?;
        Ok(text + "\n")
    }

    /// Parses lines; invalid ones are skipped, because a trend with a gap is better than no page.
    pub fn read(text: &str) -> Vec<PastRun> {
        text.lines()
            .filter_map(|line| serde_json::from_str(line).ok())
            .collect()
    }
}

/// A time in UTC, `2026-01-31T12:00:00Z`.
pub fn date(now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (days, rest) = (since.as_secs() / 86_400, since.as_secs() % 86_400);
    // Days are counted from 0000-03-01, so that a leap day ends a year; an era has 400 years.
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
        let past = PastRun::of(&Matrix::default(), "conv", UNIX_EPOCH);
        let line = past.line().unwrap();
        assert_eq!(
            PastRun::read(&format!("{line}{{\"date\n{line}")),
            [past.clone(), past]
        );
    }
}
