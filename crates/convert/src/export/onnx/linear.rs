//! Matmul and convolution.

use super::emit::{Attr, Call, Emitter};
use clematis_core::op::{Conv, Dot, Pad, Pads};
use clematis_core::shape::Axes;
use clematis_core::{Composite, DType, Dim, Op, Result, bail};

impl Emitter {
    /// Matmuls and convolutions.
    pub fn linear(&mut self, c: &Call<'_>) -> Result<Option<String>> {
        Ok(Some(match c.op {
            Op::Dot(p) => self.dot(c, p),
            Op::Conv(p) => self.conv(c, p)?,
            Op::Call(composite) => match &**composite {
                Composite::Linear {} => {
                    if c.shape(0).rank() == 2 && c.dtype().is_float() {
                        let args: Vec<&str> = c.args.iter().map(String::as_str).collect();
                        return Ok(Some(self.op_with("Gemm", &args, &[Attr::Int("transB", 1)])));
                    }
                    let transposed = self.transposed(c.x(1), &[1, 0]);
                    let y = self.op("MatMul", &[c.x(0), &transposed]);
                    if c.args.len() > 2 {
                        self.op("Add", &[&y, c.x(2)])
                    } else {
                        y
                    }
                }
                Composite::Einsum { equation } => {
                    let args: Vec<&str> = c.args.iter().map(String::as_str).collect();
                    self.op_with("Einsum", &args, &[Attr::Text("equation", equation)])
                }
                Composite::ConvTranspose {
                    strides,
                    padding,
                    rhs_dilation,
                    lhs_layout,
                    rhs_layout,
                    out_layout,
                    feature_groups,
                } => {
                    let known = conv_transpose_padding(padding, strides);
                    let Some((pads, more)) = known else {
                        return Ok(None);
                    };
                    let x = self.transposed(c.x(0), lhs_layout);
                    let w = self.transposed(c.x(1), rhs_layout);
                    let attrs = [
                        Attr::Ints("strides", axes(strides)),
                        Attr::Ints("dilations", axes(rhs_dilation)),
                        Attr::Ints("pads", pads),
                        Attr::Ints("output_padding", more),
                        Attr::Int("group", *feature_groups as i64),
                    ];
                    let y = self.op_with("ConvTranspose", &[&x, &w], &attrs);
                    self.transposed(&y, &out_layout.inverse())
                }
                Composite::Det {} => self.op("Det", &[c.x(0)]),
                _ => return Ok(None),
            },
            _ => return Ok(None),
        }))
    }

    fn dot(&mut self, c: &Call<'_>, p: &Dot) -> String {
        let (x, y) = (c.x(0), c.x(1));
        let (rank, other) = (c.shape(0).rank(), c.shape(1).rank());
        let batch = p.lhs_batch.len();
        let leading = |axes: &Axes| axes.iter().enumerate().all(|(i, &a)| i == a);
        let side = leading(&p.lhs_batch) && leading(&p.rhs_batch);
        let last = p.lhs_contract[..] == [rank.wrapping_sub(1)];
        let fits =
            side && last && other == batch + 2 && (rank == batch + 2 || batch == 0 && rank >= 2);
        if fits && p.rhs_contract[..] == [other - 2] {
            return self.op("MatMul", &[x, y]);
        }
        if fits && p.rhs_contract[..] == [other - 1] {
            let order: Vec<usize> = (0..other - 2).chain([other - 1, other - 2]).collect();
            let transposed = self.transposed(y, &order);
            return self.op("MatMul", &[x, &transposed]);
        }
        let mut letters = ('a'..='z').chain('A'..='Z');
        let mut next = || letters.next().unwrap_or('?');
        let (mut left, mut right) = (vec![' '; rank], vec![' '; other]);
        let mut out = String::new();
        for (&a, &b) in p.lhs_batch.iter().zip(p.rhs_batch.iter()) {
            let letter = next();
            (left[a], right[b]) = (letter, letter);
            out.push(letter);
        }
        for (&a, &b) in p.lhs_contract.iter().zip(p.rhs_contract.iter()) {
            let letter = next();
            (left[a], right[b]) = (letter, letter);
        }
        for letter in left
            .iter_mut()
            .chain(right.iter_mut())
            .filter(|l| **l == ' ')
        {
            *letter = next();
            out.push(*letter);
        }
        let word = |xs: &[char]| xs.iter().collect::<String>();
        let equation = format!("{},{}->{out}", word(&left), word(&right));
        self.op_with("Einsum", &[x, y], &[Attr::Text("equation", &equation)])
    }

    fn conv(&mut self, c: &Call<'_>, p: &Conv) -> Result<String> {
        if p.batch_groups != 1 {
            bail!(
                Unsupported,
                "to_onnx: unsupported convolution with batch groups"
            );
        }
        let (mut x, w) = (
            self.transposed(c.x(0), &p.lhs_layout),
            self.transposed(c.x(1), &p.rhs_layout),
        );
        let own =
            clematis_core::Shape::from_dims(p.lhs_layout.iter().map(|&a| c.shape(0).dims()[a]));
        let spatial = p.strides.len();
        let wide = p.lhs_dilation.iter().any(|&n| n != 1);
        let odd = p
            .padding
            .iter()
            .any(|(l, h)| l.value().is_none_or(|n| n < 0) || h.value().is_none_or(|n| n < 0));
        let mut pads = vec![0i64; 2 * spatial];
        if wide || odd {
            // Zeros between and around, before the convolution; negative padding crops.
            let zero = Dim::from(0);
            let side = |f: fn(&(Dim, Dim)) -> Dim| {
                [zero, zero]
                    .into_iter()
                    .chain(p.padding.iter().map(f))
                    .collect()
            };
            let pad = Pad {
                low: side(|x| x.0),
                high: side(|x| x.1),
                interior: [0, 0]
                    .into_iter()
                    .chain(p.lhs_dilation.iter().map(|&n| n - 1))
                    .collect(),
            };
            x = self.padded(&x, &own, c.dtype(), None, &pad)?;
        } else {
            for (i, (low, high)) in p.padding.iter().enumerate() {
                (pads[i], pads[i + spatial]) =
                    (low.value().unwrap_or(0), high.value().unwrap_or(0));
            }
        }
        let dtype = c.dtype();
        let narrow = !matches!(dtype, DType::F16 | DType::F32 | DType::F64);
        let (x, w) = if narrow {
            (self.cast(&x, DType::F32), self.cast(&w, DType::F32))
        } else {
            (x, w)
        };
        let attrs = [
            Attr::Ints("strides", axes(&p.strides)),
            Attr::Ints("dilations", axes(&p.rhs_dilation)),
            Attr::Ints("pads", pads),
            Attr::Int("group", p.feature_groups as i64),
        ];
        let y = self.op_with("Conv", &[&x, &w], &attrs);
        let y = if narrow { self.cast(&y, dtype) } else { y };
        Ok(self.transposed(&y, &p.out_layout.inverse()))
    }
}

/// Axes as integers.
pub fn axes(axes: &Axes) -> Vec<i64> {
    axes.iter().map(|&n| n as i64).collect()
}

/// Pads and output padding of a transposed convolution; `None` if ONNX cannot express them.
fn conv_transpose_padding(padding: &Pads, strides: &Axes) -> Option<(Vec<i64>, Vec<i64>)> {
    let (mut low, mut high, mut more) = (Vec::new(), Vec::new(), Vec::new());
    for ((l, h), &s) in padding.iter().zip(strides.iter()) {
        let (l, h) = (l.value()?, h.value()?);
        let extra = (-h).max(0);
        if l < 0 || extra >= s as i64 {
            return None;
        }
        low.push(l);
        high.push(h.max(0));
        more.push(extra);
    }
    low.extend(high);
    Some((low, more))
}
