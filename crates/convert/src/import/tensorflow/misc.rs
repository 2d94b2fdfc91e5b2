//! Space-to-batch, mirror padding, batch norm, losses, diagonals, linear algebra, Fourier transforms.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, e, ints, sizes, t};
use clematis_core::op::{Fft, FftKind, Transposed, TriangularSolve};
use clematis_core::shape::Axes;
use clematis_core::{Dim, Op, Result, Shape, Tensor, bail, dispatch, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("SpaceToBatchND", space_to_batch),
    ("BatchToSpaceND", batch_to_space),
    ("SpaceToDepth", space_to_depth),
    ("DepthToSpace", depth_to_space),
    ("MirrorPad", mirror_pad),
    ("Roll", |_, a| {
        let shifts = ints(a, 1)?;
        let axes = ints(a, 2)?;
        Ok(ops::roll_axes(e(a, 0), &shifts, Some(&axes)).done()?.into())
    }),
    ("FusedBatchNormV3", fused_batch_norm),
    ("L2Loss", |_, a| {
        Ok((ops::sum(ops::square(e(a, 0)), ..) * 0.5).done()?.into())
    }),
    ("SoftmaxCrossEntropyWithLogits", |_, a| {
        let logs = ops::log_softmax(e(a, 0), -1).done()?;
        let labels = t(a, 1)?;
        let loss = ops::sum(&labels * &logs, -1i64);
        let gradient = ops::exp(&logs) - &labels;
        Ok(vec![ops::neg(loss).done()?, gradient.done()?].into())
    }),
    ("SparseSoftmaxCrossEntropyWithLogits", |_, a| {
        let logs = ops::log_softmax(e(a, 0), -1).done()?;
        let depth = logs.shape().dims()[logs.rank() - 1];
        let hot = ops::one_hot(e(a, 1), depth, logs.dtype()).done()?;
        let loss = ops::sum(&hot * &logs, -1i64);
        Ok(vec![ops::neg(loss).done()?, (ops::exp(&logs) - hot).done()?].into())
    }),
    ("MatrixDiagV3", |_, a| diagonal_matrix(a)),
    ("MatrixDiag", |_, a| diagonal_matrix(a)),
    ("MatrixDiagPartV3", |_, a| diagonal(a)),
    ("MatrixDiagPart", |_, a| diagonal(a)),
    ("Cumprod", |_, a| {
        use clematis_core::op::CumulativeKind::Prod;
        if a.flag(NAMED, "exclusive", false)? {
            bail!(
                Unsupported,
                "convert: unsupported `Cumprod` with exclusive=True"
            );
        }
        let reverse = a.flag(NAMED, "reverse", false)?;
        Ok(ops::cumulative(Prod, e(a, 0), ints(a, 1)?[0], reverse)
            .done()?
            .into())
    }),
    ("Cholesky", |_, a| {
        Ok(ops::cholesky(e(a, 0), false).done()?.into())
    }),
    ("MatrixInverse", |_, a| Ok(ops::inv(e(a, 0)).done()?.into())),
    ("MatrixDeterminant", |_, a| {
        Ok(ops::det(e(a, 0)).done()?.into())
    }),
    ("MatrixSolve", |_, a| {
        let m = t(a, 0)?;
        let m = if a.flag(NAMED, "adjoint", false)? {
            ops::matrix_transpose(m).done()?
        } else {
            m
        };
        Ok(ops::solve(&m, e(a, 1)).done()?.into())
    }),
    ("MatrixTriangularSolve", |_, a| {
        let params = TriangularSolve {
            left: true,
            lower: a.flag(NAMED, "lower", true)?,
            transpose: match a.flag(NAMED, "adjoint", false)? {
                true => Transposed::Adjoint,
                false => Transposed::No,
            },
            unit_diagonal: false,
        };
        Ok(ops::triangular_solve(e(a, 0), e(a, 1), params)
            .done()?
            .into())
    }),
    ("Qr", |_, a| {
        let (q, r) = ops::qr(&t(a, 0)?, a.flag(NAMED, "full_matrices", false)?)?;
        Ok(vec![q, r].into())
    }),
    ("SelfAdjointEigV2", |_, a| {
        let (w, v) = ops::eigh(&t(a, 0)?)?;
        Ok(vec![w, v].into())
    }),
    ("Svd", |_, a| {
        let (u, s, v) = ops::svd(&t(a, 0)?, a.flag(NAMED, "full_matrices", false)?)?;
        // TensorFlow returns v itself, ours its transpose.
        Ok(vec![s, u, ops::matrix_transpose(v).done()?].into())
    }),
    ("FFT", |_, a| transform(a, FftKind::Forward, 1)),
    ("FFT2D", |_, a| transform(a, FftKind::Forward, 2)),
    ("FFT3D", |_, a| transform(a, FftKind::Forward, 3)),
    ("IFFT", |_, a| transform(a, FftKind::Inverse, 1)),
    ("IFFT2D", |_, a| transform(a, FftKind::Inverse, 2)),
    ("IFFT3D", |_, a| transform(a, FftKind::Inverse, 3)),
    ("RFFT", |_, a| transform(a, FftKind::Real, 1)),
    ("IRFFT", |_, a| transform(a, FftKind::RealInverse, 1)),
    ("LinSpace", |_, a| {
        let recorded = a.recorded_spec(0)?;
        let Some(count) = sizes(a, 2).and_then(|d| d.first()?.value()) else {
            bail!(
                Unsupported,
                "convert: `LinSpace`: a count that depends on values"
            );
        };
        let places = ops::iota(Shape::from_sizes(&[count as usize]), 0, recorded.dtype);
        let (from, to) = (t(a, 0)?, t(a, 1)?);
        let step = (to - &from) / (count - 1).max(1);
        Ok((places * step + from).done()?.into())
    }),
    ("BroadcastArgs", |_, a| {
        let (Some(x), Some(y)) = (sizes(a, 0), sizes(a, 1)) else {
            bail!(Unsupported, "convert: shapes that depend on values");
        };
        let shape = Shape::from_dims(x)
            .broadcast(&Shape::from_dims(y))
            .ok_or_else(|| a.bad("broadcastable shapes"))?;
        Ok(super::list(shape.dims().to_vec()))
    }),
];

/// Pairs of sizes in an operand.
fn pairs(a: &Args<'_>, i: usize) -> Result<Vec<(Dim, Dim)>> {
    let wrong = || a.bad("pairs of known sizes");
    let Slot::List(rows) = a.slot(i, "pairs") else {
        return Err(wrong());
    };
    let one = |row: &Slot| match row {
        Slot::List(two) => match two.as_slice() {
            [Slot::Int(low), Slot::Int(high)] => Ok((*low, *high)),
            _ => Err(wrong()),
        },
        _ => Err(wrong()),
    };
    rows.iter().map(one).collect()
}

/// Moves blocks of spatial axes to the batch axis.
fn space_to_batch(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let (blocks, pads) = (ints(a, 1)?, pairs(a, 2)?);
    let (count, rank) = (blocks.len(), x.rank());
    let (mut low, mut high) = (vec![Dim::from(0); rank], vec![Dim::from(0); rank]);
    for (i, (before, after)) in pads.into_iter().enumerate() {
        (low[i + 1], high[i + 1]) = (before, after);
    }
    let zero = Tensor::scalar(0i64, x.dtype());
    let x = ops::pad(&x, &zero, &low, &high, &vec![0; rank]).done()?;
    let dims = x.shape().dims().to_vec();
    let (mut split, mut batch) = (vec![dims[0]], dims[0]);
    let mut rest = Vec::new();
    for (i, &block) in blocks.iter().enumerate() {
        let block = Dim::number(block);
        let size = dims[i + 1].floor_div(block)?;
        split.extend([size, block]);
        rest.push(size);
        batch = batch * block;
    }
    split.extend(&dims[count + 1..]);
    let mut order: Vec<i64> = (0..count).map(|i| 2 * i as i64 + 2).collect();
    order.push(0);
    order.extend((0..count).map(|i| 2 * i as i64 + 1));
    order.extend((2 * count + 1..split.len()).map(|i| i as i64));
    let y = ops::permute(ops::reshape(x, Shape::from_dims(split)), order);
    let out = std::iter::once(batch)
        .chain(rest)
        .chain(dims[count + 1..].iter().copied());
    Ok(ops::reshape(y, Shape::from_dims(out)).done()?.into())
}

/// The inverse of `space_to_batch`.
fn batch_to_space(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let (blocks, crops) = (ints(a, 1)?, pairs(a, 2)?);
    let count = blocks.len();
    let dims = x.shape().dims().to_vec();
    let whole = Dim::number(blocks.iter().product());
    let batch = dims[0].floor_div(whole)?;
    let split: Vec<Dim> = (blocks.iter().map(|&n| Dim::number(n)))
        .chain([batch])
        .chain(dims[1..].iter().copied())
        .collect();
    let mut order = vec![count as i64];
    for i in 0..count {
        order.extend([(count + 1 + i) as i64, i as i64]);
    }
    order.extend((2 * count + 1..split.len()).map(|i| i as i64));
    let y = ops::permute(ops::reshape(x, Shape::from_dims(split)), order);
    let mut out = vec![batch];
    for (i, &block) in blocks.iter().enumerate() {
        out.push(dims[i + 1] * Dim::number(block));
    }
    out.extend(&dims[count + 1..]);
    let mut y = ops::reshape(y, Shape::from_dims(out.clone()));
    for (i, (before, after)) in crops.into_iter().enumerate() {
        y = ops::slice_axis(y, i as i64 + 1, before, out[i + 1] - after);
    }
    Ok(y.done()?.into())
}

fn channels_second(a: &Args<'_>) -> Result<bool> {
    Ok(a.text(NAMED, "data_format", "NHWC")?.starts_with("NC"))
}

fn space_to_depth(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if channels_second(a)? {
        bail!(
            Unsupported,
            "convert: unsupported `SpaceToDepth` in NCHW layout"
        );
    }
    let x = t(a, 0)?;
    let n = Dim::number(a.int(NAMED, "block_size", 2)?);
    let d = x.shape().dims().to_vec();
    let (h, w) = (d[1].floor_div(n)?, d[2].floor_div(n)?);
    let y = ops::reshape(x, Shape::from_dims([d[0], h, n, w, n, d[3]]));
    let y = ops::permute(y, [0, 1, 3, 2, 4, 5]);
    Ok(
        ops::reshape(y, Shape::from_dims([d[0], h, w, n * n * d[3]]))
            .done()?
            .into(),
    )
}

fn depth_to_space(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    if channels_second(a)? {
        bail!(
            Unsupported,
            "convert: unsupported `DepthToSpace` in NCHW layout"
        );
    }
    let x = t(a, 0)?;
    let n = Dim::number(a.int(NAMED, "block_size", 2)?);
    let d = x.shape().dims().to_vec();
    let c = d[3].floor_div(n * n)?;
    let y = ops::reshape(x, Shape::from_dims([d[0], d[1], d[2], n, n, c]));
    let y = ops::permute(y, [0, 1, 3, 2, 4, 5]);
    Ok(
        ops::reshape(y, Shape::from_dims([d[0], d[1] * n, d[2] * n, c]))
            .done()?
            .into(),
    )
}

/// Reflection padding; `SYMMETRIC` repeats the edge.
fn mirror_pad(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let mut x = t(a, 0)?;
    let edge = i64::from(a.text(NAMED, "mode", "REFLECT")? == "REFLECT");
    for (axis, (low, high)) in pairs(a, 1)?.into_iter().enumerate() {
        let axis = axis as i64;
        let (Some(low), Some(high)) = (low.value(), high.value()) else {
            return Err(a.bad("known widths"));
        };
        if low == 0 && high == 0 {
            continue;
        }
        let size = x.shape().dims()[axis as usize];
        let mut parts = Vec::new();
        if low > 0 {
            let part = ops::slice_axis(&x, axis, edge, edge + low);
            parts.push(ops::flip(part, axis).done()?);
        }
        parts.push(x.clone());
        if high > 0 {
            let end = size - Dim::number(edge);
            let part = ops::slice_axis(&x, axis, end - Dim::number(high), end);
            parts.push(ops::flip(part, axis).done()?);
        }
        x = ops::concat(&parts, axis).done()?;
    }
    Ok(x.into())
}

/// Results: the output, mean and variance, and three reserves that only the gradient reads.
fn fused_batch_norm(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = t(a, 0)?;
    let axis = if channels_second(a)? { 1 } else { x.rank() - 1 };
    let others: Vec<i64> = (0..x.rank())
        .filter(|&i| i != axis)
        .map(|i| i as i64)
        .collect();
    let training = a.flag(NAMED, "is_training", true)?;
    let epsilon = a.float(NAMED, "epsilon", 1e-4)?;
    let wide = |v: &Tensor| ops::expand_axes(v, &others);
    let (mean, var) = if training {
        (
            ops::mean(&x, others.clone()).done()?,
            ops::var(&x, others.clone(), 0.0).done()?,
        )
    } else {
        (t(a, 3)?, t(a, 4)?)
    };
    let scale = (ops::rsqrt(&var + epsilon) * t(a, 1)?).done()?;
    let y = (&x - wide(&mean)) * wide(&scale) + wide(&t(a, 2)?);
    let recorded = if training {
        // The running variance is the unbiased one.
        let count = others
            .iter()
            .fold(Dim::from(1), |n, &i| n * x.shape().dims()[i as usize]);
        let count = ops::cast(super::counted(count)?, var.dtype()).done()?;
        (&var * (&count / ops::maximum(&count - 1.0, 1.0))).done()?
    } else {
        var.clone()
    };
    Ok(vec![y.done()?, mean.clone(), recorded, mean, var.clone(), var].into())
}

/// Checks that only the main diagonal is used.
fn main_diagonal(a: &Args<'_>) -> Result<()> {
    if a.args.len() > 1 && ints(a, 1)?.iter().any(|&k| k != 0) {
        bail!(
            Unsupported,
            "convert: `{}` of a diagonal other than the main one",
            a.node.op
        );
    }
    Ok(())
}

fn diagonal_matrix(a: &Args<'_>) -> Result<Slot> {
    main_diagonal(a)?;
    let x = t(a, 0)?;
    let Some(n) = x.shape().dims().last().and_then(|d| d.value()) else {
        bail!(Unsupported, "convert: `{}` of unknown length", a.node.op);
    };
    let eye = ops::eye(n as usize, n as usize, 0, x.dtype());
    Ok((ops::expand_dims(x, -1) * eye).done()?.into())
}

fn diagonal(a: &Args<'_>) -> Result<Slot> {
    main_diagonal(a)?;
    let x = t(a, 0)?;
    let [.., rows, columns] = x.shape().dims() else {
        return Err(a.bad("a matrix"));
    };
    let (Some(rows), Some(columns)) = (rows.value(), columns.value()) else {
        bail!(Unsupported, "convert: `{}` of unknown sizes", a.node.op);
    };
    let n = rows.min(columns);
    let square = ops::slice_axis(ops::slice_axis(&x, -1, 0, n), -2, 0, n);
    let eye = ops::eye(n as usize, n as usize, 0, x.dtype());
    Ok(ops::sum(square * eye, -1i64).done()?.into())
}

fn transform(a: &Args<'_>, kind: FftKind, count: usize) -> Result<Slot> {
    let mut x = t(a, 0)?;
    let last = x.rank() - 1;
    if let FftKind::Real | FftKind::RealInverse = kind {
        let Some(length) = sizes(a, 1).and_then(|d| d.first().copied()) else {
            bail!(
                Unsupported,
                "convert: a Fourier transform whose length depends on values"
            );
        };
        // The input is sliced or zero-padded to the length of the transform.
        let wanted = match kind {
            FftKind::Real => length,
            _ => length.floor_div(Dim::from(2))? + Dim::from(1),
        };
        let own = x.shape().dims()[last];
        if let (Some(own), Some(wanted)) = (own.value(), wanted.value()) {
            if own > wanted {
                x = ops::slice_axis(&x, -1, 0, wanted).done()?;
            } else if own < wanted {
                let mut high = vec![Dim::from(0); x.rank()];
                high[last] = Dim::number(wanted - own);
                let zero = Tensor::scalar(0i64, x.dtype());
                let none = vec![Dim::from(0); x.rank()];
                x = ops::pad(&x, &zero, &none, &high, &vec![0; x.rank()]).done()?;
            }
        }
        let op: Op = Fft {
            kind,
            axes: Axes::new(&[last]),
            length,
        }
        .into();
        return Ok(dispatch::apply_one(&op, &[&x])?.into());
    }
    let axes: Vec<usize> = (x.rank() - count..x.rank()).collect();
    let op: Op = Fft {
        kind,
        axes: Axes::new(&axes),
        length: x.shape().dims()[last],
    }
    .into();
    Ok(dispatch::apply_one(&op, &[&x])?.into())
}
