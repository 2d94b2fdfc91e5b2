//! NamedTest tests, which do not belong to one op: random numbers and custom gradients.
//!
//! Each is a function that computes numbers on the current backend, and a check of them. Other backends must also
//! agree with the native engine: random numbers are composed of ops, so a seed gives the same numbers everywhere. A
//! function whose contract Python tests check too has the same name here, so that both are in one row.

mod custom;
mod random;

use crate::array::Array;
use crate::cell::{CORE, Cell, Dashboard, micros};
use crate::compare::{Tolerance, compare};
use crate::report::State;
use crate::run::{Runner, guarded};
use clematis_core::{Result, Tensor, backend, bail};
use std::time::Instant;

/// A named test.
pub struct NamedTest {
    /// The table.
    pub dashboard: Dashboard,
    /// The test.
    pub row: &'static str,
    /// Computes the numbers.
    run: fn() -> Result<Tensor>,
    /// Checks the numbers.
    judge: fn(&Array) -> std::result::Result<(), String>,
}

/// All named tests.
pub fn all() -> Vec<NamedTest> {
    let mut rows = random::rows();
    rows.extend(custom::rows());
    rows
}

impl NamedTest {
    /// Runs the test.
    pub fn cell(&self, runner: &Runner) -> Cell {
        let start = Instant::now();
        let found = guarded(|| self.check(runner))
            .and_then(|result| result.map_err(|error| error.to_string()));
        let mut state = match found {
            Ok(()) => State::Passed,
            Err(_) => State::Failed,
        };
        let mut message = found.err().unwrap_or_default();
        if let Some(limit) = runner.limits().iter().find(|limit| limit.names(self.row)) {
            limit.settle(&mut state, &mut message);
        }
        let backend = runner.backend();
        Cell {
            message,
            seconds: micros(start.elapsed().as_secs_f64()),
            cases: 1,
            version: runner.version().to_string(),
            core: CORE.to_string(),
            ..Cell::new(self.dashboard, self.row, backend.name(), state)
        }
    }

    fn check(&self, runner: &Runner) -> Result<()> {
        let on = |b| backend::with(b, || Array::from_tensor(&(self.run)()?));
        let got = on(runner.backend())?;
        if let Err(message) = (self.judge)(&got) {
            bail!(Value, "{message}");
        }
        let Some(other) = runner.against() else {
            return Ok(());
        };
        // Logarithms and the like differ in the last bits, and so may results computed from them.
        let tolerance = Tolerance::overall(if got.dtype.is_inexact() { 64.0 } else { 0.0 });
        if let Err(message) = compare(&got, &on(other)?, &tolerance)? {
            bail!(Value, "differs from {}: {message}", other.name());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::Num;
    use clematis_core::DType;

    #[test]
    fn names_are_unique_and_begin_with_test() {
        let mut names: Vec<_> = all().iter().map(|n| n.row).collect();
        assert!(names.iter().all(|n| n.starts_with("test_")));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn wrong_numbers_fail() {
        let zeros = Array::new(DType::F32, &[4096], vec![Num::real(0.5e9); 4096]);
        for named in all().iter().filter(|n| n.dashboard == Dashboard::Random) {
            assert!((named.judge)(&zeros).is_err(), "{}", named.row);
        }
    }
}
