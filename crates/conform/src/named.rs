//! Rows that are no op: random numbers and gradients of one's own.
//!
//! Each is a function that computes numbers on the current backend, and what those must be. On backends other than the
//! native engine the numbers must also be the engine's: randomness is made of ops, so a seed means the same everywhere.
//! A function whose contract the rows of the Python tests check too has its name here, so that it stands in one row.

mod custom;
mod random;

use crate::array::Array;
use crate::cell::{CORE, Cell, Dashboard, micros};
use crate::compare::{Tolerance, compare};
use crate::report::State;
use crate::run::{Runner, guarded};
use clematis_core::{Result, Tensor, backend, bail};
use std::time::Instant;

/// A named row.
pub struct Named {
    /// The table it stands in.
    pub dashboard: Dashboard,
    /// The test.
    pub row: &'static str,
    /// Computes.
    run: fn() -> Result<Tensor>,
    /// Says what is wrong with the numbers.
    judge: fn(&Array) -> std::result::Result<(), String>,
}

/// All of them.
pub fn all() -> Vec<Named> {
    let mut rows = random::rows();
    rows.extend(custom::rows());
    rows
}

impl Named {
    /// Runs it.
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
        // Logarithms and the like differ in the last bits, and so may what is made of them.
        let tolerance = Tolerance::overall(if got.dtype.is_inexact() { 64.0 } else { 0.0 });
        if let Err(message) = compare(&got, &on(other)?, &tolerance)? {
            bail!(Value, "not as on {}: {message}", other.name());
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
    fn numbers_that_are_wrong_are_judged_so() {
        let zeros = Array::new(DType::F32, &[4096], vec![Num::real(0.5e9); 4096]);
        for named in all().iter().filter(|n| n.dashboard == Dashboard::Random) {
            assert!((named.judge)(&zeros).is_err(), "{}", named.row);
        }
    }
}
