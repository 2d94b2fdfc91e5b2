//! Polyphase decomposition of 4×4 windows with stride 2, or with an input dilated by 2.
//!
//! They are 2×2 windows over phases. With `fine = 2 · coarse + tap - lo`, and taps and fine positions both counted as
//! `2 · i + phase`, each phase of `fine` corresponds to `coarse` position by position. If the input is the fine array,
//! its four phases are summed as if they were features; if the result is, its phases are features of one image that has
//! a position per 2×2 square.

use super::super::Problem;
use super::super::problem::Dim;
use super::super::winograd::transform::PLANES;
use super::patches::Patches;
use super::transform::TAPS;

/// Taps of the window along each axis.
const WINDOW: usize = 4;
/// The stride between positions of a phase.
pub(super) const PHASE_STRIDE: usize = WINDOW / TAPS;

/// How the positions of a problem are counted.
#[derive(Clone, Debug)]
pub(super) struct Polyphase {
    /// Whether phases count taps from the end.
    reversed: bool,
    /// The stride between positions of a phase, in the input and in the result.
    pub read_stride: usize,
    pub write_stride: usize,
    /// Elements that are missing before the first position.
    pub read_lo: [isize; 2],
    pub write_lo: [isize; 2],
    /// Positions of the result, per phase.
    pub counts: [usize; 2],
}

impl Polyphase {
    /// The decomposition of a problem, if it has one.
    pub fn new(problem: &Problem) -> Option<Self> {
        let [down, across] = &problem.dims[..] else {
            return None;
        };
        let dims = [down, across];
        let all = |is: fn(&Dim) -> bool| dims.into_iter().all(is);
        if !all(|dim| dim.spread == 1 && dim.rhs.size == WINDOW) {
            return None;
        }
        let phased = Polyphase {
            reversed: false,
            read_stride: 1,
            write_stride: 1,
            read_lo: dims.map(|dim| dim.lo),
            write_lo: [0, 0],
            counts: dims.map(|dim| dim.out.size),
        };
        let form = if all(|dim| dim.step == PHASE_STRIDE && dim.dilation == 1) {
            Polyphase {
                read_stride: PHASE_STRIDE,
                ..phased
            }
        } else if all(|dim| dim.step == 1 && dim.dilation == PHASE_STRIDE) {
            // A result is `2 · input - tap + lo`: with taps counted from the end, as above. The window's last position
            // gives a phase's position its number, so reading begins one before it.
            let lo = dims.map(|dim| WINDOW as isize - 1 - dim.lo);
            let first = lo.map(|lo| lo.div_euclid(PHASE_STRIDE as isize));
            let last = [0, 1]
                .map(|i| (lo[i] + dims[i].out.size as isize - 1).div_euclid(PHASE_STRIDE as isize));
            Polyphase {
                reversed: true,
                write_stride: PHASE_STRIDE,
                read_lo: first.map(|first| 1 - first),
                write_lo: [0, 1].map(|i| lo[i] - first[i] * PHASE_STRIDE as isize),
                counts: [0, 1].map(|i| (last[i] - first[i] + 1) as usize),
                ..phased
            }
        } else {
            return None;
        };
        // The work on patches beyond the border must not exceed what is saved.
        let macs = form.patches(1).count() * PLANES * form.phases();
        let [positions, of_definition] = [
            dims.map(|dim| dim.out.size),
            [WINDOW / form.write_stride; 2],
        ]
        .map(|sizes| sizes[0] * sizes[1]);
        (4 * macs <= 3 * positions * of_definition).then_some(form)
    }

    /// The patches of so many images.
    pub fn patches(&self, images: usize) -> Patches {
        Patches::new(images, self.counts)
    }

    /// The number of phases of the input, and of the result.
    pub fn sources(&self) -> usize {
        self.read_stride * self.read_stride
    }

    pub fn sinks(&self) -> usize {
        self.write_stride * self.write_stride
    }

    pub fn phases(&self) -> usize {
        self.sources() * self.sinks()
    }

    /// The first tap of a phase, along either axis.
    pub fn first_tap(&self, phase: usize) -> usize {
        match self.reversed {
            true => PHASE_STRIDE - 1 - phase,
            false => phase,
        }
    }
}

/// The `index`-th phase: vertical and horizontal.
pub(super) fn phase(index: usize, apart: usize) -> [usize; 2] {
    [index / apart, index % apart]
}
