//! Named tests, which do not belong to one op: random numbers and custom gradients.
//!
//! Each is a function that computes numbers on the current backend, and a check of them. Other backends must also
//! agree with the native engine: random numbers are composed of ops, so a seed gives the same numbers everywhere. A
//! function whose contract Python tests check too has the same name here, so that both are in one row.

mod custom;
mod random;

use crate::array::Array;
use crate::dashboard::Dashboard;
use clematis_core::{Result, Tensor};

/// A named test.
pub struct NamedTest {
    /// The table.
    pub dashboard: Dashboard,
    /// The test.
    pub row: &'static str,
    /// Computes the numbers.
    pub(crate) run: fn() -> Result<Tensor>,
    /// Checks the numbers.
    pub(crate) judge: fn(&Array) -> std::result::Result<(), String>,
}

/// All named tests.
pub fn all() -> Vec<NamedTest> {
    let mut rows = random::rows();
    rows.extend(custom::rows());
    rows
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
