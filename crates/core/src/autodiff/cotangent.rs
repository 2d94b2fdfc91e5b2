//! The cotangent of a value while its users contribute to it.

use crate::dim::Dim;
use crate::error::Result;
use crate::op::Op;
use crate::ops;
use crate::tensor::Tensor;

/// A sum of contributions. Those of slices are kept apart until the sum is read: a value that was split gets one concat
/// of the cotangents of its slices, instead of a sum of zero-padded arrays.
#[derive(Clone, Default)]
pub struct Cotangent {
    sum: Option<Tensor>,
    slices: Vec<Part>,
}

/// The cotangent of a slice along one axis.
#[derive(Clone)]
struct Part {
    axis: usize,
    start: usize,
    size: usize,
    ct: Tensor,
}

impl Part {
    /// The contribution of a slice with stride 1 that crops one axis; `None` for other ops.
    fn new(op: &Op, x: &Tensor, ct: &Tensor) -> Option<Self> {
        let Op::Slice(p) = op else { return None };
        if p.strides.iter().any(|&stride| stride != 1) {
            return None;
        }
        let (from, to) = (x.shape().dims(), ct.shape().dims());
        let mut cropped = (0..from.len()).filter(|&axis| from[axis] != to[axis]);
        let axis = cropped.next()?;
        let number = |dim: Dim| usize::try_from(dim.value()?).ok();
        let part = Part {
            axis,
            start: number(p.start[axis])?,
            size: number(to[axis])?,
            ct: ct.clone(),
        };
        (cropped.next().is_none() && part.size > 0 && number(from[axis]).is_some()).then_some(part)
    }

    fn end(&self) -> usize {
        self.start + self.size
    }

    /// The cotangent, with zeros before and after it along the axis.
    fn pad(&self, before: usize, after: usize) -> Result<Tensor> {
        if before == 0 && after == 0 {
            return Ok(self.ct.clone());
        }
        let mut low = vec![0usize.into(); self.ct.rank()];
        let mut high = low.clone();
        (low[self.axis], high[self.axis]) = (before.into(), after.into());
        ops::pad(&self.ct, 0, &low, &high, &vec![0; self.ct.rank()]).done()
    }
}

impl Cotangent {
    /// Whether nothing contributed.
    pub fn is_none(&self) -> bool {
        self.sum.is_none() && self.slices.is_empty()
    }

    /// Adds a contribution.
    pub fn add(&mut self, part: Tensor) -> Result<()> {
        self.sum = Some(match self.sum.take() {
            Some(sum) => (&sum + &part).done()?,
            None => part,
        });
        Ok(())
    }

    /// Adds the contribution of `op(x)`, whose cotangent is `ct`, if `op` is a slice that can become part of a concat.
    pub fn add_slice(&mut self, op: &Op, x: &Tensor, ct: &Tensor) -> bool {
        let part = Part::new(op, x, ct);
        let found = part.is_some();
        self.slices.extend(part);
        found
    }

    /// The sum, for a value like `x`; `None` if nothing contributed.
    #[inline]
    pub fn take(&mut self, x: &Tensor) -> Result<Option<Tensor>> {
        if !self.slices.is_empty() {
            self.add_slices(x)?;
        }
        Ok(self.sum.take())
    }

    fn add_slices(&mut self, x: &Tensor) -> Result<()> {
        let mut slices = std::mem::take(&mut self.slices);
        slices.sort_by_key(|part| (part.axis, part.start));
        let mut rest = slices.as_slice();
        while let Some(first) = rest.first() {
            // The longest run of parts along one axis that do not overlap.
            let follows =
                |pair: &&[Part]| pair[0].axis == pair[1].axis && pair[0].end() <= pair[1].start;
            let count = 1 + rest.windows(2).take_while(follows).count();
            let (run, others) = rest.split_at(count);
            let size = x.shape().size(first.axis);
            let mut parts = Vec::with_capacity(count);
            for (i, part) in run.iter().enumerate() {
                let end = run.get(i + 1).map_or(size, |next| next.start);
                let before = if i == 0 { part.start } else { 0 };
                parts.push(part.pad(before, end - part.end())?);
            }
            self.add(ops::concat(&parts, first.axis as i64).done()?)?;
            rest = others;
        }
        Ok(())
    }
}
