//! Learning rates that change from step to step: pure functions of the number of steps taken.
//!
//! The same value for the same step, so a run that goes on after a checkpoint needs to know its step and nothing else.

use clematis_core::{Result, ensure};
use std::f64::consts::PI;
use std::fmt;

/// A number for each step, from 0.
#[derive(Clone, Debug, PartialEq)]
pub enum Schedule {
    /// Always the same.
    Constant(f64),
    /// Times a factor after every so many steps.
    Step {
        /// At first.
        start: f64,
        /// How many steps it stays.
        every: u64,
        /// What it is multiplied with then.
        factor: f64,
    },
    /// Times a factor after each step.
    Exponential {
        /// At first.
        start: f64,
        /// What it is multiplied with.
        factor: f64,
    },
    /// Along a straight line, and then constant.
    Linear {
        /// At first.
        start: f64,
        /// After `steps`.
        end: f64,
        /// How many steps it takes.
        steps: u64,
    },
    /// Down half a period of a cosine, and then constant.
    Cosine {
        /// At first.
        start: f64,
        /// After `steps`.
        end: f64,
        /// How many steps it takes.
        steps: u64,
    },
    /// Up to a peak and down to almost nothing, both along a cosine.
    OneCycle {
        /// The largest.
        peak: f64,
        /// How many steps it takes in all.
        steps: u64,
        /// The share of the steps on the way up.
        rise: f64,
        /// The peak over the first.
        divide: f64,
        /// The first over the last.
        final_divide: f64,
    },
    /// One after the other; each counts from the step at which it begins.
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

/// From one value to another along half a period of a cosine.
fn along_cosine(start: f64, end: f64, share: f64) -> f64 {
    end + (start - end) / 2.0 * (1.0 + (PI * share).cos())
}

impl Schedule {
    /// Linear from `start` to the first value of another schedule, which then follows.
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

    /// The value for a step, counted from 0.
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
                // Up takes no step at all where it would end before the first.
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

    /// Whether its numbers make sense.
    pub fn check(&self) -> Result<()> {
        let name = self.name();
        let positive = |what: &str, n: u64| -> Result<()> {
            ensure!(
                n > 0,
                Value,
                "{name}: {what} is a whole number from 1 on, not {n}"
            );
            Ok(())
        };
        let rate = |what: &str, x: f64| -> Result<()> {
            ensure!(
                x >= 0.0 && x.is_finite(),
                Value,
                "{name}: {what} is a number from 0 on, not {x}"
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
                    "{name}: rise is from 0 to 1, not {rise}"
                );
                ensure!(
                    divide >= 1.0 && final_divide >= 1.0,
                    Value,
                    "{name}: divide and final_divide are at least 1, not {divide} and {final_divide}"
                );
                rate("lr / divide", peak / divide / final_divide)
            }
            Schedule::Join(ref parts) => {
                ensure!(
                    parts.first().is_some_and(|(from, _)| *from == 0),
                    Value,
                    "{name}: the first schedule begins at step 0"
                );
                ensure!(
                    parts.windows(2).all(|two| two[0].0 < two[1].0),
                    Value,
                    "{name}: each schedule begins after the one before it"
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
