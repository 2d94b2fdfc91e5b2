//! Groups of cases by op and dtype: run, stored and resumed together.

use crate::array::Num;
use crate::case::{Case, cases};
use clematis_core::{DType, Result};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The cases of one op and dtype.
pub struct CaseGroup {
    /// The op.
    pub op: &'static str,
    /// The dtype.
    pub dtype: DType,
    /// The cases; at least one.
    pub cases: Vec<Case>,
    /// A digest that changes when a case does, so that stale results are detected.
    pub digest: String,
}

/// All case groups, in the order of op codes.
pub fn case_groups() -> Result<Vec<CaseGroup>> {
    Ok(group_cases(cases()?))
}

/// Groups these cases by op and dtype.
pub fn group_cases(cases: Vec<Case>) -> Vec<CaseGroup> {
    let mut found: BTreeMap<(usize, DType), CaseGroup> = BTreeMap::new();
    for case in cases {
        let group = found
            .entry((case.op.code(), case.dtype))
            .or_insert_with(|| CaseGroup {
                op: case.op.name(),
                dtype: case.dtype,
                cases: Vec::new(),
                digest: String::new(),
            });
        group.cases.push(case);
    }
    let mut groups: Vec<CaseGroup> = found.into_values().collect();
    for group in &mut groups {
        group.digest = digest(&group.cases);
    }
    groups
}

impl CaseGroup {
    /// The name of its row.
    pub fn row(&self) -> String {
        format!("test_{}", self.op)
    }
}

fn digest(cases: &[Case]) -> String {
    let mut hash = Fnv(0xCBF2_9CE4_8422_2325);
    for case in cases {
        // Writing to a number does not fail.
        let _ = hash.case(case);
    }
    format!("{:016x}", hash.0)
}

/// FNV-1a: the same on every machine and Rust version, unlike the standard library's hashes.
struct Fnv(u64);

impl Fnv {
    fn case(&mut self, case: &Case) -> fmt::Result {
        let (d, t) = (&case.derivative, &case.tolerance);
        write!(self, "{} {:?} {:?} ", case.name, case.op.attrs(), t)?;
        write!(self, "{} {} {} ", d.checked, d.smooth, d.flat)?;
        write!(self, "{:?} {:?} {:?} ", d.constants, d.no_reverse, d.none)?;
        write!(self, "{} {} {} ", d.tolerance, d.duality, d.step)?;
        for x in &case.inputs {
            write!(self, "{} ", x.spec())?;
            for value in &x.values {
                match value {
                    Num::Whole(v) => self.bytes(&v.to_le_bytes()),
                    Num::Inexact(v) => {
                        self.bytes(&v.re.to_bits().to_le_bytes());
                        self.bytes(&v.im.to_bits().to_le_bytes());
                    }
                }
            }
        }
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &b in bytes {
            self.0 = (self.0 ^ u64::from(b)).wrapping_mul(0x0100_0000_01B3);
        }
    }
}

impl Write for Fnv {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_repeat_and_notice_a_change() {
        let (first, second) = (case_groups().unwrap(), case_groups().unwrap());
        for (a, b) in first.iter().zip(&second) {
            assert_eq!(a.digest, b.digest, "{} {}", a.op, a.dtype);
        }
        let mut cases = second.into_iter().next().unwrap().cases;
        cases[0].tolerance.units += 1.0;
        assert_ne!(digest(&cases), first[0].digest);
        cases[0].tolerance.units -= 1.0;
        assert_eq!(digest(&cases), first[0].digest);
        cases.pop();
        assert_ne!(digest(&cases), first[0].digest);
    }
}
