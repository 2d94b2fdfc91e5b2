//! The cases of one op and element type: what is run, kept and resumed as one.

use crate::array::Num;
use crate::case::{Case, cases};
use clematis_core::{DType, Result};
use std::collections::BTreeMap;
use std::fmt::{self, Write};

/// The cases of one op and element type.
pub struct Unit {
    /// The op.
    pub op: &'static str,
    /// The element type.
    pub dtype: DType,
    /// What is run; at least one.
    pub cases: Vec<Case>,
    /// Changes when a case does, so that results of other cases are not taken for results of these.
    pub digest: String,
}

/// Every unit, in the order of op codes.
pub fn units() -> Result<Vec<Unit>> {
    Ok(units_of(cases()?))
}

/// These cases, by op and element type.
pub fn units_of(cases: Vec<Case>) -> Vec<Unit> {
    let mut found: BTreeMap<(usize, DType), Unit> = BTreeMap::new();
    for case in cases {
        let unit = found
            .entry((case.op.code(), case.dtype))
            .or_insert_with(|| Unit {
                op: case.op.name(),
                dtype: case.dtype,
                cases: Vec::new(),
                digest: String::new(),
            });
        unit.cases.push(case);
    }
    let mut units: Vec<Unit> = found.into_values().collect();
    for unit in &mut units {
        unit.digest = digest(&unit.cases);
    }
    units
}

impl Unit {
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

/// FNV-1a: the same on every machine and in every version of Rust, which the standard library's hashes are not.
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
        let (first, second) = (units().unwrap(), units().unwrap());
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
