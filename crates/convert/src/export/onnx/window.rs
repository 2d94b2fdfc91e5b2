//! Pooling and window reductions.

use super::emit::{Attr, Call, Emitter};
use clematis_core::op::{Pads, WindowKind};
use clematis_core::shape::Axes;
use clematis_core::{Composite, DType, Dim, Op, Result, bail};

/// The parameters of a window over all axes.
struct WindowParams<'a> {
    size: &'a Axes,
    strides: &'a Axes,
    padding: &'a Pads,
    dilation: &'a Axes,
}

impl Emitter {
    /// Pooling and window reductions.
    pub fn windows(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        Ok(Some(match c.op {
            Op::Window(p) => {
                if p.base_dilation.iter().any(|&n| n != 1) {
                    bail!(
                        Unsupported,
                        "to_onnx: unsupported window reduction with base dilation"
                    );
                }
                let params = WindowParams {
                    size: &p.size,
                    strides: &p.strides,
                    padding: &p.padding,
                    dilation: &p.window_dilation,
                };
                match p.kind {
                    WindowKind::Max => self.pooled(c, "MaxPool", &params, &[], c.x(0))?,
                    WindowKind::Min => {
                        let back = self.op("Neg", &[c.x(0)]);
                        let most = self.pooled(c, "MaxPool", &params, &[], &back)?;
                        self.op("Neg", &[&most])
                    }
                    WindowKind::Sum => {
                        let mean = self.pooled(
                            c,
                            "AveragePool",
                            &params,
                            &[Attr::Int("count_include_pad", 1)],
                            c.x(0),
                        )?;
                        let count: usize = p.size.iter().product();
                        let count = self.number(count as f64, c.dtype())?;
                        self.op("Mul", &[&mean, &count])
                    }
                    WindowKind::Prod => {
                        bail!(Unsupported, "to_onnx: unsupported window reduction `prod`")
                    }
                }
            }
            Op::Call(composite) => match &**composite {
                Composite::MaxPool {
                    size,
                    strides,
                    padding,
                    dilation,
                } => self.pooled(
                    c,
                    "MaxPool",
                    &WindowParams {
                        size,
                        strides,
                        padding,
                        dilation,
                    },
                    &[],
                    c.x(0),
                )?,
                Composite::AvgPool {
                    size,
                    strides,
                    padding,
                    dilation,
                    count_padding,
                } => {
                    let attr = [Attr::Int("count_include_pad", i64::from(*count_padding))];
                    self.pooled(
                        c,
                        "AveragePool",
                        &WindowParams {
                            size,
                            strides,
                            padding,
                            dilation,
                        },
                        &attr,
                        c.x(0),
                    )?
                }
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    /// A pool: windowed axes last, two before them.
    fn pooled(
        &mut self,
        c: &Call<'_>,
        word: &str,
        s: &WindowParams<'_>,
        more: &[Attr<'_>],
        x: &str,
    ) -> Result<String> {
        let own = c.shape(0).dims().to_vec();
        let moves = |i: &usize| {
            s.size[*i] != 1 || s.strides[*i] != 1 || s.padding[*i] != (Dim::from(0), Dim::from(0))
        };
        let mut last: Vec<usize> = (0..own.len()).filter(moves).collect();
        if last.is_empty() {
            return Ok(self.op("Identity", &[x]));
        }
        // NCHW stays as it is, so that its own axes are pooled.
        if own.len() > 2 && last[0] >= 2 {
            last = (2..own.len()).collect();
        }
        let first: Vec<usize> = (0..own.len()).filter(|i| !last.contains(i)).collect();
        let order: Vec<usize> = first.iter().chain(&last).copied().collect();
        let plain = first.len() == 2;
        let mut y = self.transposed(x, &order);
        if !plain {
            let lead = first.iter().fold(Dim::from(1), |n, &i| n * own[i]);
            let sizes: Vec<Dim> = [lead, Dim::from(1)]
                .into_iter()
                .chain(last.iter().map(|&i| own[i]))
                .collect();
            y = self.reshaped(&y, &sizes)?;
        }
        let dtype = c.dtype();
        let narrow = !matches!(dtype, DType::F16 | DType::F32 | DType::F64);
        if narrow {
            y = self.cast(
                &y,
                if dtype.is_int() {
                    DType::F64
                } else {
                    DType::F32
                },
            );
        }
        let pick = |xs: &Axes| last.iter().map(|&i| xs[i] as i64).collect::<Vec<_>>();
        let pads = last
            .iter()
            .map(|&i| s.padding[i].0.value())
            .chain(last.iter().map(|&i| s.padding[i].1.value()));
        let Some(mut pads) = pads.collect::<Option<Vec<i64>>>() else {
            bail!(
                Unsupported,
                "to_onnx: unsupported pool whose padding depends on symbolic sizes"
            );
        };
        // The padding of a pool must be non-negative and smaller than its window.
        let n = last.len();
        let too_much = (0..2 * n).any(|i| pads[i] < 0 || pads[i] >= s.size[last[i % n]] as i64);
        if too_much {
            let counted = word == "AveragePool"
                && more
                    .iter()
                    .any(|a| matches!(a, Attr::Int("count_include_pad", 1)));
            if word == "AveragePool" && !counted {
                bail!(
                    Unsupported,
                    "to_onnx: unsupported padding {pads:?} of a pool"
                );
            }
            let edge = if word == "MaxPool" {
                f64::NEG_INFINITY
            } else {
                0.0
            };
            let edge = self.number(edge, if narrow { DType::F32 } else { dtype })?;
            let all = [0, 0]
                .into_iter()
                .chain(pads[..n].iter().copied())
                .chain([0, 0])
                .chain(pads[n..].iter().copied());
            let all = self.ints(&all.collect::<Vec<_>>())?;
            y = self.op("Pad", &[&y, &all, &edge]);
            pads = vec![0; 2 * n];
        }
        let mut attrs = vec![
            Attr::Ints("kernel_shape", pick(s.size)),
            Attr::Ints("strides", pick(s.strides)),
            Attr::Ints("dilations", pick(s.dilation)),
            Attr::Ints("pads", pads),
        ];
        for attr in more {
            if let Attr::Int(name, x) = attr {
                attrs.push(Attr::Int(name, *x));
            }
        }
        y = self.op_with(word, &[&y], &attrs);
        if narrow {
            y = self.cast(&y, dtype);
        }
        let out = c.outs[0].shape.dims();
        if !plain {
            let sizes: Vec<Dim> = order.iter().map(|&i| out[i]).collect();
            y = self.reshaped(&y, &sizes)?;
        }
        let mut back = vec![0; order.len()];
        for (now, &axis) in order.iter().enumerate() {
            back[axis] = now;
        }
        Ok(self.transposed(&y, &back))
    }
}
