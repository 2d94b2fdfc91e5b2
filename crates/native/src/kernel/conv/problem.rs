//! The sum behind a convolution and both of its gradients.

use super::{Axis, List, View, Window};

/// An array by the roles of its axes in the sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub offset: isize,
    /// The stride of groups.
    pub group: isize,
    /// The stride of the axis that this array shares with the result (or the result with `lhs`).
    pub outer: isize,
    /// The stride of the contracted features (for the result: of the features it shares with `rhs`).
    pub inner: isize,
}

/// One spatial axis of the sum. `lhs` is read at `(p·step + t·spread - lo) / dilation` where that is a whole number
/// within `lhs.size`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    pub out: Axis,
    pub lhs: Axis,
    pub rhs: Axis,
    pub step: usize,
    pub spread: usize,
    pub dilation: usize,
    pub lo: isize,
}

/// `out[g, b, o, p] = Σ_{f, t} lhs[g, b, f, p·step + t·spread - lo] · rhs[g, o, f, t]`
///
/// Forward, `b` is the batch, `f` and `o` input and output features, `p` and `t` positions in the result and in the
/// window. For the input gradient the roles of the two feature axes are exchanged and the window is reversed; for the
/// weight gradient `f` is the batch, `t` runs over the whole image and `p` over the window.
#[derive(Clone, Debug)]
pub struct Problem {
    pub(crate) groups: usize,
    /// Sizes, per group.
    pub(crate) b: usize,
    pub(crate) f: usize,
    pub(crate) o: usize,
    pub(crate) out: Side,
    pub(crate) lhs: Side,
    pub(crate) rhs: Side,
    pub(crate) dims: List<Dim>,
}

fn side(view: &View, group: isize, outer: isize, inner: isize) -> Side {
    Side {
        offset: view.offset as isize,
        group,
        outer,
        inner,
    }
}

/// Sizes and group strides that do not depend on the direction, named as in the forward pass.
struct Groups {
    count: usize,
    batch: usize,
    inputs: usize,
    outputs: usize,
    input_group: isize,
    output_group: isize,
    filter_group: isize,
}

impl Groups {
    fn new(out: &View, lhs: &View, rhs: &View, window: &Window) -> Self {
        let (features, batches) = (window.feature_groups, window.batch_groups);
        assert!(
            features >= 1 && batches >= 1 && (features == 1 || batches == 1),
            "conv: groups"
        );
        let count = features * batches;
        let outputs = out.inner.size / count;
        let groups = Groups {
            count,
            batch: lhs.outer.size / batches,
            inputs: lhs.inner.size / features,
            outputs,
            input_group: match batches {
                1 => lhs.inner.stride * (lhs.inner.size / features) as isize,
                _ => lhs.outer.stride * (lhs.outer.size / batches) as isize,
            },
            output_group: out.inner.stride * outputs as isize,
            filter_group: rhs.outer.stride * outputs as isize,
        };
        assert!(
            groups.batch * batches == lhs.outer.size
                && groups.batch == out.outer.size
                && groups.inputs * features == lhs.inner.size
                && groups.inputs == rhs.inner.size
                && outputs * count == out.inner.size
                && out.inner.size == rhs.outer.size,
            "conv: sizes of batch and features do not fit"
        );
        let rank = window.steps.len();
        assert!(
            [out, lhs, rhs]
                .iter()
                .all(|view| view.spatial.len() == rank),
            "conv: numbers of spatial axes differ"
        );
        for (i, step) in window.steps.iter().enumerate() {
            assert!(
                step.stride > 0 && step.lhs_dilation > 0 && step.rhs_dilation > 0,
                "conv: a stride or dilation of zero"
            );
            let size = step.output_size(lhs.spatial[i].size, rhs.spatial[i].size);
            assert!(
                size == out.spatial[i].size,
                "conv: spatial sizes do not fit"
            );
        }
        groups
    }
}

impl Problem {
    pub(crate) fn forward(out: &View, lhs: &View, rhs: &View, window: &Window) -> Self {
        let g = Groups::new(out, lhs, rhs, window);
        let dims = window.steps.iter().enumerate().map(|(i, step)| Dim {
            out: out.spatial[i],
            lhs: lhs.spatial[i],
            rhs: rhs.spatial[i],
            step: step.stride,
            spread: step.rhs_dilation,
            dilation: step.lhs_dilation,
            lo: step.lo,
        });
        Problem {
            groups: g.count,
            b: g.batch,
            f: g.inputs,
            o: g.outputs,
            out: side(out, g.output_group, out.outer.stride, out.inner.stride),
            lhs: side(lhs, g.input_group, lhs.outer.stride, lhs.inner.stride),
            rhs: side(rhs, g.filter_group, rhs.outer.stride, rhs.inner.stride),
            dims: dims.collect(),
        }
    }

    #[cfg(test)]
    pub(crate) fn input_gradient(out: &View, grad: &View, rhs: &View, window: &Window) -> Self {
        let g = Groups::new(grad, out, rhs, window);
        let mut filter = side(rhs, g.filter_group, rhs.inner.stride, rhs.outer.stride);
        let mut dims = List::new();
        for (i, step) in window.steps.iter().enumerate() {
            // x·lhs_dilation = p·stride + t·rhs_dilation - lo, read with t counted from its end.
            let taps = rhs.spatial[i];
            let last = taps.size.saturating_sub(1) as isize;
            filter.offset += last * taps.stride;
            dims.push(Dim {
                out: out.spatial[i],
                lhs: grad.spatial[i],
                rhs: Axis {
                    size: taps.size,
                    stride: -taps.stride,
                },
                step: step.lhs_dilation,
                spread: step.rhs_dilation,
                dilation: step.stride,
                lo: last * step.rhs_dilation as isize - step.lo,
            });
        }
        Problem {
            groups: g.count,
            b: g.batch,
            f: g.outputs,
            o: g.inputs,
            out: side(out, g.input_group, out.outer.stride, out.inner.stride),
            lhs: side(grad, g.output_group, grad.outer.stride, grad.inner.stride),
            rhs: filter,
            dims,
        }
    }

    #[cfg(test)]
    pub(crate) fn weight_gradient(out: &View, lhs: &View, grad: &View, window: &Window) -> Self {
        let g = Groups::new(grad, lhs, out, window);
        let dims = window.steps.iter().enumerate().map(|(i, step)| Dim {
            out: out.spatial[i],
            lhs: lhs.spatial[i],
            rhs: grad.spatial[i],
            step: step.rhs_dilation,
            spread: step.stride,
            dilation: step.lhs_dilation,
            lo: step.lo,
        });
        Problem {
            groups: g.count,
            b: g.inputs,
            f: g.batch,
            o: g.outputs,
            out: side(out, g.filter_group, out.inner.stride, out.outer.stride),
            lhs: side(lhs, g.input_group, lhs.inner.stride, lhs.outer.stride),
            rhs: side(grad, g.output_group, grad.inner.stride, grad.outer.stride),
            dims: dims.collect(),
        }
    }

    /// The same sum with its operands exchanged: `x·dilation = p·step + t·spread - lo` solved for `x`'s counterpart,
    /// with `p` counted from its end. The dilation of the input becomes the dilation of the window.
    pub(crate) fn with_swapped_operands(&self) -> Self {
        let mut out = Side {
            outer: self.out.inner,
            inner: self.out.outer,
            ..self.out
        };
        let mut dims = List::new();
        for dim in &self.dims {
            let last = dim.out.size.saturating_sub(1) as isize;
            out.offset += last * dim.out.stride;
            dims.push(Dim {
                out: Axis {
                    size: dim.out.size,
                    stride: -dim.out.stride,
                },
                lhs: dim.rhs,
                rhs: dim.lhs,
                step: dim.step,
                spread: dim.dilation,
                dilation: dim.spread,
                lo: last * dim.step as isize - dim.lo,
            });
        }
        Problem {
            groups: self.groups,
            b: self.o,
            f: self.f,
            o: self.b,
            out,
            lhs: self.rhs,
            rhs: self.lhs,
            dims,
        }
    }

    /// The number of positions in the result, and of taps in the window.
    pub(crate) fn positions(&self) -> (usize, usize) {
        let count = |axis: fn(&Dim) -> usize| self.dims.iter().map(axis).product();
        (count(|dim| dim.out.size), count(|dim| dim.rhs.size))
    }

    /// The number of MACs, zeros included.
    pub(crate) fn macs(&self) -> usize {
        let (positions, taps) = self.positions();
        [self.groups, self.b, self.f, self.o, positions, taps]
            .into_iter()
            .fold(1, usize::saturating_mul)
    }

    /// Whether the sum is empty, so that the result is zeros or empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.macs() == 0 || self.dims.iter().any(|dim| dim.lhs.size == 0)
    }

    /// Whether this is a depthwise convolution: every channel is a group of its own.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.groups > 1 && self.f == 1 && self.o == 1
    }

    /// Whether this is the weight gradient of a depthwise convolution: the contracted axis is the batch, and the one
    /// input feature of a group takes the role of the batch.
    pub(crate) fn is_depthwise_weight_gradient(&self) -> bool {
        self.groups > 1 && self.b == 1 && self.o == 1 && self.has_long_window()
    }

    /// Whether the input is dilated.
    pub(crate) fn is_input_dilated(&self) -> bool {
        self.dims.iter().any(|dim| dim.dilation > 1)
    }

    /// Whether the window, rather than the features, is the long axis of the contraction, as in a weight gradient.
    pub(crate) fn has_long_window(&self) -> bool {
        let (positions, taps) = self.positions();
        !self.is_input_dilated() && taps > 4 * positions && self.f <= taps
    }
}
