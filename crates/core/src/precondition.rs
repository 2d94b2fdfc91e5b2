//! Preconditions on the values of an operand.
//!
//! Shapes and dtypes are checked during inference; values are known only when a program runs. A precondition is data,
//! so that one definition serves eager calls, which check immediately, and traces, which keep it for the program. It
//! is decided by a short vector, its summary; two summaries are merged by the elementwise minimum.

use crate::dtype::DType;
use crate::error::Result;
use crate::host::Host;
use crate::{bail, ensure};

/// A condition on the elements of an operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precondition {
    /// Indices into an axis; with `wraps`, negative ones count from the end.
    Index {
        /// The function that takes them.
        op: &'static str,
        /// The axis that is indexed.
        axis: usize,
        /// Its size.
        size: i64,
        /// Whether negative indices count from the end.
        wraps: bool,
    },
    /// Weights of categories along the last axis: finite, non-negative, at least `count` of each row positive.
    Weights {
        /// The function that takes them.
        op: &'static str,
        /// Number of categories of a row that must be positive.
        count: usize,
    },
    /// Numbers in an interval; NaN is in none.
    Within {
        /// The function that takes them.
        op: &'static str,
        /// Their description in messages.
        what: &'static str,
        /// The minimum.
        low: f64,
        /// The maximum.
        high: f64,
        /// Whether `low` itself is excluded.
        above: bool,
    },
}

impl Precondition {
    /// Length of the summary.
    pub fn width(&self) -> usize {
        match self {
            Precondition::Index { .. } | Precondition::Within { .. } => 2,
            Precondition::Weights { .. } => 3,
        }
    }

    /// Dtype of the summary of an operand of this dtype.
    pub fn summary_dtype(&self, x: DType) -> DType {
        match self {
            Precondition::Index { .. } => DType::INDEX,
            _ if x == DType::F64 || x.is_int() => DType::F64,
            _ => DType::F32,
        }
    }

    /// Checks the elements of an operand.
    pub fn check(&self, host: &Host) -> Result<()> {
        if host.spec().shape.sizes().contains(&0) {
            return Ok(());
        }
        match *self {
            Precondition::Index { .. } => {
                let (mut least, mut most) = (i64::MAX, i64::MIN);
                let mut see = |i: i64| (least, most) = (least.min(i), most.max(i));
                match host.spec().dtype {
                    DType::I64 => host.bytes().as_slice::<i64>().iter().for_each(|&i| see(i)),
                    DType::I32 => {
                        let all = host.bytes().as_slice::<i32>();
                        all.iter().for_each(|&i| see(i.into()));
                    }
                    _ => {
                        for at in 0..host.spec().shape.count() {
                            // An index beyond i64 is beyond every axis.
                            see(i64::try_from(host.get(at)?.as_i128()).unwrap_or(i64::MAX));
                        }
                    }
                }
                self.index(least, !most)
            }
            Precondition::Weights { .. } => {
                let row = host.spec().shape.sizes().last().copied().unwrap_or(1);
                let values = host.to_f64();
                let positive = values
                    .chunks(row.max(1))
                    .map(|row| row.iter().filter(|w| **w > 0.0).count() as f64);
                let [least, most] = extremes(values.iter().copied());
                self.number(least, -most, positive.fold(f64::INFINITY, f64::min))
            }
            Precondition::Within { .. } => {
                let [least, most] = extremes(host.to_f64().into_iter());
                self.number(least, -most, f64::INFINITY)
            }
        }
    }

    /// Checks summaries, which are along the last axis.
    pub fn check_summary(&self, host: &Host) -> Result<()> {
        if let Precondition::Index { .. } = self {
            let all = host.bytes().as_slice::<i64>();
            return all
                .chunks_exact(2)
                .try_for_each(|pair| self.index(pair[0], pair[1]));
        }
        let values = host.to_f64();
        values
            .chunks_exact(self.width())
            .try_for_each(|s| self.number(s[0], s[1], s.get(2).copied().unwrap_or(f64::INFINITY)))
    }

    /// The identity of merging: the summary of no elements.
    pub fn neutral(&self) -> Vec<f64> {
        match *self {
            Precondition::Index { .. } => vec![0.0, -1.0],
            Precondition::Weights { count, .. } => vec![0.0, 0.0, count as f64],
            Precondition::Within { high, .. } => vec![high, -high],
        }
    }

    /// Checks the least index, and the largest one, given as its complement.
    fn index(&self, least: i64, most: i64) -> Result<()> {
        let &Precondition::Index {
            op,
            axis,
            size,
            wraps,
        } = self
        else {
            bail!(Internal, "precondition: expected indices");
        };
        let most = !most;
        let low = if wraps { -size } else { 0 };
        if least >= low && most < size {
            return Ok(());
        }
        let wrong = if least < low { least } else { most };
        bail!(
            Index,
            "{op}: index {wrong} is out of range for {size} (axis {axis})"
        )
    }

    /// Checks the least number, the negated largest one, and the fewest positive weights of a row.
    fn number(&self, least: f64, most: f64, positive: f64) -> Result<()> {
        let most = -most;
        let wrong = |fine: bool| if fine { most } else { least };
        match *self {
            Precondition::Weights { op, count } => {
                if !(least >= 0.0 && most.is_finite()) {
                    bail!(
                        Value,
                        "{op}: expected non-negative finite weights, got {}",
                        wrong(least >= 0.0)
                    );
                }
                ensure!(
                    positive >= 1.0 || count == 0,
                    Value,
                    "{op}: weights sum to 0"
                );
                ensure!(
                    positive >= count as f64,
                    Value,
                    "{op}: expected at least {count} categories with positive weight to draw without replacement, got {positive}"
                );
            }
            Precondition::Within {
                op,
                what,
                low,
                high,
                above,
            } => {
                let fine = if above { least > low } else { least >= low };
                if !(fine && most <= high) {
                    let wrong = wrong(fine);
                    if low == f64::MIN && high == f64::MAX {
                        bail!(Value, "{op}: {what} {wrong} is not finite");
                    }
                    match (low == 0.0 && high >= f64::from(f32::MAX), above) {
                        (true, true) => {
                            bail!(Value, "{op}: {what} {wrong} is not positive and finite")
                        }
                        (true, false) => {
                            bail!(Value, "{op}: {what} {wrong} is negative or not finite")
                        }
                        _ => bail!(
                            Value,
                            "{op}: {what} {wrong} is not between {low} and {high}"
                        ),
                    }
                }
            }
            Precondition::Index { .. } => {
                bail!(Internal, "precondition: expected numbers")
            }
        }
        Ok(())
    }
}

/// The minimum and maximum; NaN if any value is NaN.
fn extremes(values: impl Iterator<Item = f64>) -> [f64; 2] {
    values.fold([f64::INFINITY, f64::NEG_INFINITY], |[a, b], v| {
        if v.is_nan() || a.is_nan() {
            [f64::NAN; 2]
        } else {
            [a.min(v), b.max(v)]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: Precondition = Precondition::Index {
        op: "take",
        axis: 1,
        size: 3,
        wraps: true,
    };

    #[test]
    fn an_index_error_names_axis_and_size() {
        let wrong = |values: &[i64]| {
            let host = Host::from_slice(values, [values.len()]).unwrap();
            INDEX.check(&host).map_err(|e| e.to_string())
        };
        assert_eq!(wrong(&[0, -3, 2]), Ok(()));
        assert_eq!(
            wrong(&[0, 3]),
            Err("take: index 3 is out of range for 3 (axis 1)".into())
        );
        assert_eq!(
            wrong(&[-4, 7]),
            Err("take: index -4 is out of range for 3 (axis 1)".into())
        );
        assert!(wrong(&[i64::MIN, i64::MAX]).is_err());
        assert_eq!(wrong(&[]), Ok(()));
    }

    #[test]
    fn a_neutral_summary_is_neutral() {
        let within = Precondition::Within {
            op: "bernoulli",
            what: "a probability of",
            low: 0.0,
            high: 1.0,
            above: false,
        };
        let weights = Precondition::Weights {
            op: "multinomial",
            count: 2,
        };
        for p in [within, weights] {
            let host = Host::from_slice(&p.neutral(), [p.width()]).unwrap();
            p.check_summary(&host).unwrap();
        }
        let host = Host::from_slice(&[0i64, -1], [2]).unwrap();
        INDEX.check_summary(&host).unwrap();
    }

    #[test]
    fn nan_violates_preconditions() {
        let weights = Precondition::Weights {
            op: "multinomial",
            count: 1,
        };
        let row = |values: [f64; 2]| weights.check(&Host::from_slice(&values, [1, 2]).unwrap());
        assert!(row([0.0, 1.0]).is_ok());
        for bad in [
            [0.0, 0.0],
            [f64::NAN, 1.0],
            [-1.0, 2.0],
            [f64::INFINITY, 1.0],
        ] {
            assert!(row(bad).is_err(), "{bad:?}");
        }
    }
}
