//! One axis of a sliding window, split into phases of a dilated input.

use super::Axis;
use super::problem::Dim;

/// The output positions along one axis that read the same filter taps: every `step`-th from `first`.
///
/// Without dilation of the input there is one phase. With it, each phase reads only the taps that fall on real
/// elements, so no time is spent on the zeros in between.
#[derive(Clone, Debug)]
pub(crate) struct Phase {
    pub first: usize,
    pub step: usize,
    pub count: usize,
    /// The taps that are read, each with the input offset for the phase's first position.
    pub taps: Vec<(usize, isize)>,
}

/// One axis of the result with its phases.
#[derive(Clone, Debug)]
pub(crate) struct PhasedAxis {
    pub source: Axis,
    pub out: Axis,
    pub rhs: isize,
    pub phases: Vec<Phase>,
    /// Input distance between neighbouring positions of a phase.
    pub advance: usize,
    /// The largest count of any phase.
    pub count: usize,
    /// First and last input element that the first position of any phase reads.
    pub first: isize,
    pub last: isize,
}

impl PhasedAxis {
    /// The axis of independent images.
    pub fn batch(size: usize, source: isize, out: isize) -> Self {
        let phase = Phase {
            first: 0,
            step: 1,
            count: size,
            taps: vec![(0, 0)],
        };
        let (source, out) = (
            Axis {
                size,
                stride: source,
            },
            Axis { size, stride: out },
        );
        PhasedAxis {
            source,
            out,
            rhs: 0,
            phases: vec![phase],
            advance: 1,
            count: size,
            first: 0,
            last: 0,
        }
    }

    /// A spatial axis of a convolution.
    pub fn spatial(dim: &Dim) -> Self {
        let shared = gcd(dim.dilation, dim.step);
        let period = dim.dilation / shared;
        let phases: Vec<Phase> = (0..period.min(dim.out.size))
            .map(|first| {
                let taps = (0..dim.rhs.size).filter_map(|t| {
                    let at = (first * dim.step + t * dim.spread) as isize - dim.lo;
                    let dilation = dim.dilation as isize;
                    (at.rem_euclid(dilation) == 0).then(|| (t, at.div_euclid(dilation)))
                });
                Phase {
                    first,
                    step: period,
                    count: (dim.out.size - first).div_ceil(period),
                    taps: taps.collect(),
                }
            })
            .collect();
        let count = phases.iter().map(|phase| phase.count).max().unwrap_or(0);
        let reads = || phases.iter().flat_map(|phase| &phase.taps).map(|tap| tap.1);
        PhasedAxis {
            source: dim.lhs,
            out: dim.out,
            rhs: dim.rhs.stride,
            // The step of `period` positions, without the product, which may overflow; a single position has no step.
            advance: if count > 1 { dim.step / shared } else { 1 },
            count,
            first: reads().min().unwrap_or(0),
            last: reads().max().unwrap_or(0),
            phases,
        }
    }

    /// The input extent under so many positions.
    pub fn reach(&self, positions: usize) -> usize {
        positions.saturating_sub(1) * self.advance + (self.last - self.first) as usize + 1
    }

    /// Whether no position reads outside of the input.
    pub fn is_inside(&self) -> bool {
        self.first >= 0
            && self.first as usize + self.reach(self.count) <= self.source.size
            && self.source.stride >= 0
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
