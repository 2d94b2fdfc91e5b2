//! Learning rate schedules: pure functions of the number of steps taken.
//!
//! A run that resumes from a checkpoint only needs its step number.

use clematis_core::{Result, ensure};
use std::f64::consts::PI;
use std::fmt;

/// A learning rate for each step, from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Constant.
    Constant(f64),
    /// Step decay: multiplied by a factor every `every` steps.
    Step {
        /// Initial value.
        start: f64,
        /// Number of steps between decays.
        every: u64,
        /// Decay factor.
        factor: f64,
    },
    /// Exponential decay: multiplied by a factor after each step.
    Exponential {
        /// Initial value.
        start: f64,
        /// Decay factor.
        factor: f64,
    },
    /// Linear, then constant.
    Linear {
        /// Initial value.
        start: f64,
        /// Final value, after `steps`.
        end: f64,
        /// Number of steps.
        steps: u64,
    },
    /// Cosine decay, then constant.
    Cosine {
        /// Initial value.
        start: f64,
        /// Final value, after `steps`.
        end: f64,
        /// Number of steps.
        steps: u64,
    },
    /// One cycle: cosine warmup to a peak, then cosine decay to nearly zero.
    OneCycle {
        /// Peak value.
        peak: f64,
        /// Total number of steps.
        steps: u64,
        /// The fraction of steps in warmup.
        rise: f64,
        /// Ratio of peak to initial value.
        divide: f64,
        /// Ratio of initial to final value.
        final_divide: f64,
    },
    /// Concatenated schedules; each counts from the step at which it begins.
    Join(Vec<(u64, Schedule)>),
}

impl From<f64> for Schedule {
    fn from(value: f64) -> Self {
        Schedule::Constant(value)
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Schedule::Constant(value) => write!(f, "{value}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// Cosine interpolation between two values.
fn along_cosine(start: f64, end: f64, share: f64) -> f64 {
    end + (start - end) / 2.0 * (1.0 + (PI * share).cos())
}

impl Schedule {
    /// Linear warmup from `start` to the first value of another schedule, which then follows.
    pub fn warmup(steps: u64, then: impl Into<Schedule>, start: f64) -> Result<Schedule> {
        let then = then.into();
        let line = Schedule::Linear {
            start,
            end: then.at(0),
            steps,
        };
        let made = match steps {
            0 => then,
            _ => Schedule::Join(vec![(0, line), (steps, then)]),
        };
        made.check()?;
        Ok(made)
    }

    /// The value at a step, counted from 0.
    pub fn at(&self, step: u64) -> f64 {
        let share = |steps: u64| (step.min(steps) as f64) / (steps.max(1) as f64);
        match *self {
            Schedule::Constant(value) => value,
            Schedule::Step {
                start,
                every,
                factor,
            } => start * factor.powf((step / every.max(1)) as f64),
            Schedule::Exponential { start, factor } => start * factor.powf(step as f64),
            Schedule::Linear { start, end, steps } if step < steps => {
                start + (end - start) * share(steps)
            }
            Schedule::Cosine { start, end, steps } if step < steps => {
                along_cosine(start, end, share(steps))
            }
            Schedule::Linear { end, .. } | Schedule::Cosine { end, .. } => end,
            Schedule::OneCycle {
                peak,
                steps,
                rise,
                divide,
                final_divide,
            } => {
                let first = peak / divide;
                let (top, last) = (rise * steps as f64 - 1.0, steps as f64 - 1.0);
                let now = (step as f64).min(last);
                // Warmup takes no step if it would end before the first.
                if now <= top && top > 0.0 {
                    along_cosine(first, peak, now / top)
                } else if last > top {
                    along_cosine(peak, first / final_divide, (now - top) / (last - top))
                } else {
                    peak
                }
            }
            Schedule::Join(ref parts) => {
                let now = parts.iter().rev().find(|(from, _)| *from <= step);
                now.map_or(0.0, |(from, part)| part.at(step - from))
            }
        }
    }

    /// Checks the hyperparameters.
    pub fn check(&self) -> Result<()> {
        let name = self.name();
        let positive = |what: &str, n: u64| -> Result<()> {
            ensure!(n > 0, Value, "{name}: expected a positive {what}, got {n}");
            Ok(())
        };
        let rate = |what: &str, x: f64| -> Result<()> {
            ensure!(
                x >= 0.0 && x.is_finite(),
                Value,
                "{name}: expected a finite non-negative {what}, got {x}"
            );
            Ok(())
        };
        match *self {
            Schedule::Constant(value) => rate("lr", value),
            Schedule::Step {
                start,
                every,
                factor,
            } => {
                rate("lr", start)?;
                positive("every", every)?;
                rate("factor", factor)
            }
            Schedule::Exponential { start, factor } => {
                rate("lr", start)?;
                rate("factor", factor)
            }
            Schedule::Linear { start, end, steps } => {
                rate("start", start)?;
                rate("end", end)?;
                positive("steps", steps)
            }
            Schedule::Cosine { start, end, steps } => {
                rate("lr", start)?;
                rate("end", end)?;
                positive("steps", steps)
            }
            Schedule::OneCycle {
                peak,
                steps,
                rise,
                divide,
                final_divide,
            } => {
                rate("lr", peak)?;
                positive("steps", steps)?;
                ensure!(
                    (0.0..=1.0).contains(&rise),
                    Value,
                    "{name}: expected rise in [0, 1], got {rise}"
                );
                ensure!(
                    divide >= 1.0 && final_divide >= 1.0,
                    Value,
                    "{name}: expected divide and final_divide of at least 1, got {divide} and {final_divide}"
                );
                rate("lr / divide", peak / divide / final_divide)
            }
            Schedule::Join(ref parts) => {
                ensure!(
                    parts.first().is_some_and(|(from, _)| *from == 0),
                    Value,
                    "{name}: expected the first schedule to begin at step 0"
                );
                ensure!(
                    parts.windows(2).all(|two| two[0].0 < two[1].0),
                    Value,
                    "{name}: expected each schedule to begin after the previous one"
                );
                parts.iter().try_for_each(|(_, part)| part.check())
            }
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Schedule::Constant(_) => "Constant",
            Schedule::Step { .. } => "Step",
            Schedule::Exponential { .. } => "Exponential",
            Schedule::Linear { .. } => "Linear",
            Schedule::Cosine { .. } => "Cosine",
            Schedule::OneCycle { .. } => "OneCycle",
            Schedule::Join(_) => "Join",
        }
    }
}
