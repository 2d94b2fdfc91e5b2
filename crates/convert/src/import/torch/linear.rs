//! Matmul, convolution, attention, distances.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use clematis_core::expr::Expr;
use clematis_core::op::Conv;
use clematis_core::shape::Axes;
use clematis_core::{Composite, DType, Dim, Result, Tensor, dispatch, ops};
use clematis_nn::functional::bilinear;

pub const RULES: &[(&str, Rule)] = &[
    ("linear", |_, a| {
        let b = a.maybe_tensor(2, "bias")?;
        let (x, w) = (a.tensor(0, "input")?, a.tensor(1, "weight")?);
        rounded_once(&[&x, &w], b.as_ref(), |xs, b| {
            ops::linear(&xs[0], &xs[1], b)
        })
    }),
    ("matmul", |_, a| {
        Ok(ops::matmul(a.expr(0, "self"), a.expr(1, "other"))
            .done()?
            .into())
    }),
    ("mm", |_, a| {
        Ok(ops::matmul(a.expr(0, "self"), a.expr(1, "mat2"))
            .done()?
            .into())
    }),
    ("bmm", |_, a| {
        Ok(ops::matmul(a.expr(0, "self"), a.expr(1, "mat2"))
            .done()?
            .into())
    }),
    ("mv", |_, a| {
        Ok(ops::matmul(a.expr(0, "self"), a.expr(1, "vec"))
            .done()?
            .into())
    }),
    ("dot", |_, a| {
        Ok(ops::matmul(a.expr(0, "self"), a.expr(1, "tensor"))
            .done()?
            .into())
    }),
    ("addmm", add_product),
    ("baddbmm", add_product),
    ("addbmm", |_, a| {
        let (beta, alpha) = (a.float(3, "beta", 1.0)?, a.float(4, "alpha", 1.0)?);
        let product = ops::sum(ops::matmul(a.expr(1, "batch1"), a.expr(2, "batch2")), 0i64) * alpha;
        Ok((a.expr(0, "self") * beta + product).done()?.into())
    }),
    ("addmv", add_product),
    ("_int_mm", |_, a| {
        let wide = |i, name| ops::cast(a.expr(i, name), DType::I32);
        Ok(ops::matmul(wide(0, "self"), wide(1, "mat2")).done()?.into())
    }),
    ("_trilinear", trilinear),
    ("bilinear", |_, a| {
        let bias = a.maybe_tensor(3, "bias")?;
        let (x, y, w) = (
            a.tensor(0, "input1")?,
            a.tensor(1, "input2")?,
            a.tensor(2, "weight")?,
        );
        Ok(bilinear::bilinear(&x, &y, &w, bias.as_ref()).done()?.into())
    }),
    ("_cdist_forward", distances),
    ("_euclidean_dist", distances),
    ("_pdist_forward", |_, a| {
        let (x, p) = (a.tensor(0, "self")?, a.float(1, "p", 2.0)?);
        let n = x.shape().known_size(0, "pdist")?;
        let pairs = (0..n as i64).flat_map(|i| (i + 1..n as i64).map(move |j| (i, j)));
        let (first, second): (Vec<i64>, Vec<i64>) = pairs.unzip();
        let row = |at: &[i64]| ops::take(&x, ops::from_slice(at, [at.len()])?, 0).done();
        Ok(distance(&row(&first)?, &row(&second)?, p)?.into())
    }),
    ("conv_tbc", |_, a| {
        let x = ops::permute(a.expr(0, "self"), [1i64, 2, 0].to_vec()).done()?;
        let w = ops::permute(a.expr(1, "weight"), [2i64, 1, 0].to_vec()).done()?;
        let pad = a.int(3, "pad", 0)?;
        let p = Conv {
            strides: Axes::new(&[1]),
            padding: std::iter::once((Dim::number(pad), Dim::number(pad))).collect(),
            lhs_dilation: Axes::new(&[1]),
            rhs_dilation: Axes::new(&[1]),
            lhs_layout: Axes::all(3),
            rhs_layout: Axes::all(3),
            out_layout: Axes::all(3),
            feature_groups: 1,
            batch_groups: 1,
        };
        let y = ops::permute(ops::conv_general(x, w, p), [2i64, 0, 1].to_vec());
        Ok((y + a.expr(2, "bias")).done()?.into())
    }),
    ("_scaled_dot_product_flash_attention_for_cpu", |_, a| {
        let (q, k, v) = (
            a.tensor(0, "query")?,
            a.tensor(1, "key")?,
            a.tensor(2, "value")?,
        );
        let width = q.shape().dims().last().and_then(|d| d.value()).unwrap_or(1);
        let scale = match a.kwargs.get("scale") {
            Some(Slot::Float(x)) => *x,
            _ => (width as f64).powf(-0.5),
        };
        let mask = match a.kwargs.get("attn_mask") {
            Some(Slot::Tensor(m)) => Some(m.clone()),
            _ => None,
        };
        let y = ops::attention(
            &q,
            &k,
            &v,
            mask.as_ref(),
            scale,
            a.flag(4, "is_causal", false)?,
        )
        .done()?;
        Ok(Slot::List(vec![y.into(), Slot::Nothing]))
    }),
    ("einsum", |_, a| {
        let xs = a.tensors(1, "tensors")?;
        Ok(
            ops::einsum(a.text(0, "equation", "")?, &xs.iter().collect::<Vec<_>>())
                .done()?
                .into(),
        )
    }),
    ("convolution", convolution),
    ("conv1d", named_convolution),
    ("conv2d", named_convolution),
    ("conv3d", named_convolution),
    ("conv_transpose1d", named_convolution),
    ("conv_transpose2d", named_convolution),
    ("conv_transpose3d", named_convolution),
    ("scaled_dot_product_attention", attention),
];

/// In half precision, computes in float32 if a bias is added: torch rounds once, after the addition.
fn rounded_once(
    xs: &[&Tensor],
    bias: Option<&Tensor>,
    f: impl FnOnce(&[Tensor], Option<&Tensor>) -> Expr,
) -> Result<Slot> {
    let half = matches!(xs[0].dtype(), DType::F16 | DType::BF16);
    let Some(bias) = bias.filter(|_| half) else {
        let own: Vec<Tensor> = xs.iter().map(|&x| x.clone()).collect();
        return Ok(f(&own, bias).done()?.into());
    };
    let wide = |x: &Tensor| ops::cast(x, DType::F32).done();
    let all = xs.iter().map(|x| wide(x)).collect::<Result<Vec<_>>>()?;
    Ok(ops::cast(f(&all, Some(&wide(bias)?)), xs[0].dtype())
        .done()?
        .into())
}

fn add_product(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (beta, alpha) = (a.float(3, "beta", 1.0)?, a.float(4, "alpha", 1.0)?);
    let product = ops::matmul(a.expr(1, "mat1"), a.expr(2, "mat2"));
    let product = if alpha == 1.0 {
        product
    } else {
        product * alpha
    };
    let x = a.expr(0, "self");
    let out = if beta == 0.0 {
        product
    } else if beta == 1.0 {
        x + product
    } else {
        x * beta + product
    };
    Ok(out.done()?.into())
}

/// One number per spatial axis, from a list of one or of all.
fn each(given: &[i64], spatial: usize) -> Vec<usize> {
    (0..spatial)
        .map(|i| given.get(i).or(given.last()).copied().unwrap_or(0) as usize)
        .collect()
}

fn convolution(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w) = (a.tensor(0, "input")?, a.tensor(1, "weight")?);
    let spatial = x.rank() - 2;
    let pads = each(&a.ints(4, "padding")?, spatial);
    let whole = Convolution {
        strides: each(&a.ints(3, "stride")?, spatial),
        padding: pads.iter().map(|&p| (p as i64, p as i64)).collect(),
        dilation: each(&a.ints(5, "dilation")?, spatial),
        more: match a.flag(6, "transposed", false)? {
            true => Some(each(&a.ints(7, "output_padding")?, spatial)),
            false => None,
        },
        groups: a.int(8, "groups", 1)? as usize,
    };
    whole.of(x, w, a.maybe_tensor(2, "bias")?)
}

/// A convolution, or a transposed one if `more` (the output padding) is given.
struct Convolution {
    strides: Vec<usize>,
    padding: Vec<(i64, i64)>,
    dilation: Vec<usize>,
    more: Option<Vec<usize>>,
    groups: usize,
}

impl Convolution {
    fn of(&self, x: Tensor, w: Tensor, bias: Option<Tensor>) -> Result<Slot> {
        let spatial = self.strides.len();
        let plain = Axes::all(x.rank());
        let y = if let Some(more) = &self.more {
            // The weight is [in, out / groups, …], as in the convolution that the transposed one is the gradient of.
            let pairs = self.padding.iter().zip(more);
            let padding = pairs.map(|(p, &m)| (Dim::number(p.0), Dim::number(p.1 - m as i64)));
            let call = Composite::ConvTranspose {
                strides: Axes::new(&self.strides),
                padding: padding.collect(),
                rhs_dilation: Axes::new(&self.dilation),
                lhs_layout: plain.clone(),
                rhs_layout: plain.clone(),
                out_layout: plain,
                feature_groups: self.groups,
            };
            dispatch::apply_one(&call.into(), &[&x, &w])?
        } else {
            let pairs = self.padding.iter();
            let params = Conv {
                strides: Axes::new(&self.strides),
                padding: pairs
                    .map(|p| (Dim::number(p.0), Dim::number(p.1)))
                    .collect(),
                lhs_dilation: Axes::new(&vec![1; spatial]),
                rhs_dilation: Axes::new(&self.dilation),
                lhs_layout: plain.clone(),
                rhs_layout: plain.clone(),
                out_layout: plain,
                feature_groups: self.groups,
                batch_groups: 1,
            };
            ops::conv_general(x, w, params).done()?
        };
        let Some(b) = bias else {
            return Ok(y.into());
        };
        let mut shape = vec![1i64; spatial + 1];
        shape[0] = -1;
        Ok((y + ops::reshape(b, shape)).done()?.into())
    }
}

/// A convolution before decomposition: padding may be a string, and the batch axis may be missing.
fn named_convolution(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, w) = (a.tensor(0, "input")?, a.tensor(1, "weight")?);
    let spatial = w.rank() - 2;
    let ones = |given: Vec<i64>| match given.is_empty() {
        true => vec![1; spatial],
        false => each(&given, spatial),
    };
    let back = a.node.op.contains("transpose");
    let (groups_at, dilation_at) = if back { (6, 7) } else { (6, 5) };
    let dilation = ones(a.ints(dilation_at, "dilation")?);
    let padding = match a.slot(4, "padding") {
        Slot::Text(word) if word == "same" => {
            let pair = |i: usize| {
                let size = w.shape().known_size(i + 2, "conv")? as i64;
                let total = dilation[i] as i64 * (size - 1);
                Ok((total / 2, total - total / 2))
            };
            (0..spatial).map(pair).collect::<Result<Vec<_>>>()?
        }
        Slot::Text(_) => vec![(0, 0); spatial],
        _ => {
            let pads = each(&a.ints(4, "padding")?, spatial);
            pads.iter().map(|&p| (p as i64, p as i64)).collect()
        }
    };
    let whole = Convolution {
        strides: ones(a.ints(3, "stride")?),
        padding,
        dilation,
        more: match back {
            true => Some(each(&a.ints(5, "output_padding")?, spatial)),
            false => None,
        },
        groups: a.int(groups_at, "groups", 1)? as usize,
    };
    let bias = a.maybe_tensor(2, "bias")?;
    if x.rank() == spatial + 2 {
        return whole.of(x, w, bias);
    }
    match whole.of(ops::expand_dims(&x, 0).done()?, w, bias)? {
        Slot::Tensor(y) => Ok(ops::squeeze(y, 0).done()?.into()),
        other => Ok(other),
    }
}

fn attention(w: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let q = a.tensor(0, "query")?;
    let (mut k, mut v) = (a.tensor(1, "key")?, a.tensor(2, "value")?);
    if a.flag(7, "enable_gqa", false)? {
        (k, v) = (grouped(&k, &q)?, grouped(&v, &q)?);
    }
    let width = q.shape().dims().last().and_then(|d| d.value()).unwrap_or(1);
    let scale = a.float(6, "scale", (width as f64).powf(-0.5))?;
    let mask = a.maybe_tensor(3, "attn_mask")?;
    let causal = a.flag(5, "is_causal", false)?;
    let drop = a.float(4, "dropout_p", 0.0)?;
    if drop == 0.0 {
        return Ok(ops::attention(&q, &k, &v, mask.as_ref(), scale, causal)
            .done()?
            .into());
    }
    let mut scores = ops::matmul(&q, ops::matrix_transpose(&k)) * scale;
    if causal {
        scores = scores.then(|s| {
            let seen = ops::tril(ops::cast(ops::ones_like(&s), DType::Bool), 0);
            ops::where_(seen, &s, f64::NEG_INFINITY)
        });
    }
    if let Some(mask) = mask {
        scores = match mask.dtype() {
            DType::Bool => ops::where_(&mask, scores, f64::NEG_INFINITY),
            _ => scores + &mask,
        };
    }
    let weights = clematis_core::random::dropout(ops::softmax(scores, -1), &w.key(), drop);
    Ok(ops::matmul(weights, &v).done()?.into())
}

/// Repeats key or value heads for grouped-query attention.
fn grouped(x: &Tensor, q: &Tensor) -> Result<Tensor> {
    let heads = |x: &Tensor| x.shape().dims()[x.rank() - 3].value().unwrap_or(1);
    let times = (heads(q) / heads(x).max(1)).max(1) as usize;
    if times == 1 {
        Ok(x.clone())
    } else {
        ops::repeat(x, times, -3).done()
    }
}

/// The p-norm of the difference of rows.
fn distance(x: &Tensor, y: &Tensor, p: f64) -> Result<Tensor> {
    ops::vector_norm(x - y, -1i64, p).done()
}

/// The distance of every row of one operand to every row of the other.
fn distances(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let (x, y) = (a.tensor(0, "x1")?, a.tensor(1, "x2")?);
    let p = a.float(2, "p", 2.0)?;
    let (x, y) = (
        ops::expand_dims(&x, -2).done()?,
        ops::expand_dims(&y, -3).done()?,
    );
    Ok(distance(&x, &y, p)?.into())
}

/// `_trilinear`: a sum of products of three operands, each expanded along some axes.
fn trilinear(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut product: Option<Tensor> = None;
    for i in 0..3 {
        let mut x = a.tensor(i, "operand")?;
        let mut new = a.ints(i + 3, "expand")?;
        new.sort_unstable();
        for axis in new {
            x = ops::expand_dims(&x, axis).done()?;
        }
        product = Some(match product {
            Some(y) => (y * x).done()?,
            None => x,
        });
    }
    let over = a.ints(6, "sumdim")?;
    match product {
        Some(x) => Ok(ops::sum(x, over).done()?.into()),
        None => Err(a.bad("three operands")),
    }
}
