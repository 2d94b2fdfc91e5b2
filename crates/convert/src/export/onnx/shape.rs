//! Reshapes, slices, padding, constants.

use super::emit::{Attr, Call, Emitter};
use clematis_core::host::Host;
use clematis_core::op::Pad;
use clematis_core::{DType, Dim, Op, Result, Shape, bail};

impl Emitter {
    /// Shape ops and creation ops.
    pub fn shapes(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        let x = c.x(0);
        Ok(Some(match c.op {
            Op::Reshape(to) => self.reshaped(x, to.dims())?,
            Op::Transpose(axes) => {
                let order = axes.iter().map(|&a| a as i64).collect();
                self.op_with("Transpose", &[x], &[Attr::Ints("perm", order)])
            }
            Op::Concat(axis) => {
                let all: Vec<&str> = c.args.iter().map(String::as_str).collect();
                self.op_with("Concat", &all, &[Attr::Int("axis", *axis as i64)])
            }
            Op::Reverse(axes) => {
                let at: Vec<i64> = axes.iter().map(|&a| a as i64).collect();
                let (starts, ends) = (
                    self.ints(&vec![-1; at.len()])?,
                    self.ints(&vec![i64::MIN + 1; at.len()])?,
                );
                let (steps, at) = (self.ints(&vec![-1; at.len()])?, self.ints(&at)?);
                self.op("Slice", &[x, &starts, &ends, &at, &steps])
            }
            Op::Full(p) => {
                let value = self.constant(Host::scalar(p.value, p.dtype)?)?;
                self.spread(&value, &p.shape)?
            }
            Op::Iota(p) => {
                let size = p.shape.dims()[p.axis];
                let numbers = match size.value() {
                    Some(n) if n <= 1 << 16 => self.ints(&(0..n).collect::<Vec<_>>())?,
                    _ => {
                        let none = self.ints(&[])?;
                        let end = self.size(size)?;
                        let end = self.op("Reshape", &[&end, &none]);
                        let (zero, one) = (
                            self.scalar(0i64.into(), DType::I64)?,
                            self.scalar(1i64.into(), DType::I64)?,
                        );
                        self.op("Range", &[&zero, &end, &one])
                    }
                };
                let numbers = if p.dtype == DType::I64 {
                    numbers
                } else {
                    self.cast(&numbers, p.dtype)
                };
                let mut row = vec![1i64; p.shape.rank()];
                row[p.axis] = -1;
                let row = self.ints(&row)?;
                let wide = self.op("Reshape", &[&numbers, &row]);
                if p.shape.rank() == 1 {
                    wide
                } else {
                    self.spread(&wide, &p.shape)?
                }
            }
            Op::Broadcast(p) => {
                let own = c.shape(0);
                let mut sizes = vec![Dim::from(1); p.shape.rank()];
                for (i, &axis) in p.axes.iter().enumerate() {
                    sizes[axis] = own.dims()[i];
                }
                // Leading axes are added by broadcasting.
                let first = p.axes.first().copied().unwrap_or(p.shape.rank());
                let in_row = p.axes.iter().enumerate().all(|(i, &a)| a == first + i)
                    && first + p.axes.len() == p.shape.rank();
                let wide = if in_row {
                    x.to_string()
                } else {
                    self.reshaped(x, &sizes)?
                };
                self.spread(&wide, &p.shape)?
            }
            Op::Slice(p) => {
                let own = c.shape(0).dims();
                let changed = |i: &usize| {
                    p.start[*i].value() != Some(0) || p.limit[*i] != own[*i] || p.strides[*i] != 1
                };
                let at: Vec<usize> = (0..own.len()).filter(changed).collect();
                if at.is_empty() {
                    return Ok(Some(self.op("Identity", &[x])));
                }
                let starts = self.sizes(&at.iter().map(|&i| p.start[i]).collect::<Vec<_>>())?;
                let ends = self.sizes(&at.iter().map(|&i| p.limit[i]).collect::<Vec<_>>())?;
                let steps =
                    self.ints(&at.iter().map(|&i| p.strides[i] as i64).collect::<Vec<_>>())?;
                let at = self.ints(&at.iter().map(|&i| i as i64).collect::<Vec<_>>())?;
                self.op("Slice", &[x, &starts, &ends, &at, &steps])
            }
            Op::Pad(p) => self.padded(x, c.shape(0), c.dtype(), Some(c.x(1)), p)?,
            Op::DynamicSlice(sizes) => {
                let starts = self.clipped_starts(c.x(1), c.shape(0), sizes.dims())?;
                let sizes = self.sizes(sizes.dims())?;
                let ends = self.op("Add", &[&starts, &sizes]);
                self.op("Slice", &[x, &starts, &ends])
            }
            _ => return Ok(None),
        }))
    }

    /// Broadcasts to a larger shape.
    pub fn spread(&mut self, x: &str, to: &Shape) -> Result<String> {
        let to = self.sizes(to.dims())?;
        Ok(self.op("Expand", &[x, &to]))
    }

    /// Starts of a block, clamped so that it fits.
    fn clipped_starts(&mut self, starts: &str, own: &Shape, sizes: &[Dim]) -> Result<String> {
        let most: Vec<Dim> = own.dims().iter().zip(sizes).map(|(&n, &s)| n - s).collect();
        let (starts, most) = (self.cast(starts, DType::I64), self.sizes(&most)?);
        let zero = self.scalar(0i64.into(), DType::I64)?;
        let low = self.op("Max", &[&starts, &zero]);
        Ok(self.op("Min", &[&low, &most]))
    }

    /// Exterior and interior padding; the default value is zero.
    pub fn padded(
        &mut self,
        x: &str,
        own: &Shape,
        dtype: DType,
        value: Option<&str>,
        p: &Pad,
    ) -> Result<String> {
        if dtype == DType::Bool {
            let wide = self.cast(x, DType::I32);
            let value = value.map(|value| self.cast(value, DType::I32));
            let y = self.padded(&wide, own, DType::I32, value.as_deref(), p)?;
            return Ok(self.cast(&y, DType::Bool));
        }
        let value = value.unwrap_or("");
        let rank = own.rank();
        let mut y = x.to_string();
        let mut sizes = own.dims().to_vec();
        for axis in 0..rank {
            let between = p.interior[axis];
            if between == 0 {
                continue;
            }
            // Each element becomes a row of itself and the padding after it; the last row is cut.
            let by = Dim::from(between + 1);
            let mut split = sizes.clone();
            split.insert(axis + 1, Dim::from(1));
            y = self.reshaped(&y, &split)?;
            let (mut pads, n) = (vec![0i64; 2 * (rank + 1)], sizes[axis]);
            pads[rank + 1 + axis + 1] = between as i64;
            let pads = self.ints(&pads)?;
            y = self.op("Pad", &[&y, &pads, value]);
            sizes[axis] = n * by;
            y = self.reshaped(&y, &sizes)?;
            let whole = (n * by - Dim::from(between)).max(Dim::from(0));
            let (start, end, at) = (
                self.ints(&[0])?,
                self.size(whole)?,
                self.ints(&[axis as i64])?,
            );
            y = self.op("Slice", &[&y, &start, &end, &at]);
            sizes[axis] = whole;
        }
        let pads: Vec<Dim> = p.low.iter().chain(&p.high).copied().collect();
        if pads.iter().all(|d| d.value() == Some(0)) {
            return Ok(y);
        }
        let pads = self.sizes(&pads)?;
        if rank == 0 {
            bail!(Internal, "to_onnx: padding of a scalar");
        }
        Ok(self.op("Pad", &[&y, &pads, value]))
    }
}
