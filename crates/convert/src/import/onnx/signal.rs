//! DFT, STFT, window functions and MelWeightMatrix.

use super::super::args::{Args, Slot};
use super::super::{Importer, Rule};
use super::{NAMED, floats, int, maybe, out, ranked, recorded, unknown, version};
use clematis_core::ops::{Fourier, Norm};
use clematis_core::{DType, Result, Tensor, bail, ops};

pub const RULES: &[(&str, Rule)] = &[
    ("HannWindow", |_, a| window(a, &[0.5, 0.5])),
    ("HammingWindow", |_, a| {
        window(a, &[25.0 / 46.0, 21.0 / 46.0])
    }),
    ("BlackmanWindow", |_, a| window(a, &[0.42, 0.5, 0.08])),
    ("DFT", dft),
    ("STFT", stft),
    ("MelWeightMatrix", mel),
];

/// A sum of cosines with alternating signs.
fn window(a: &Args<'_>, shares: &[f64]) -> Result<Slot> {
    let n = int(a, 0)?;
    if !(0..1 << 22).contains(&n) {
        bail!(Convert, "convert: `{}` of size {n}", a.node.op);
    }
    let by = if a.flag(NAMED, "periodic", true)? {
        n
    } else {
        n - 1
    };
    let one = |i: i64| {
        let angle = 2.0 * std::f64::consts::PI * i as f64 / by.max(1) as f64;
        let parts = shares.iter().enumerate();
        parts
            .map(|(k, share)| {
                share * (k as f64 * angle).cos() * if k % 2 == 1 { -1.0 } else { 1.0 }
            })
            .sum()
    };
    let all: Vec<f64> = (0..n).map(one).collect();
    let to = crate::onnx::tensor::dtype(a.int(NAMED, "output_datatype", 1)?)?;
    out(ops::cast(ops::from_slice(&all, [all.len()])?, to))
}

/// The last axis as a complex number: real and imaginary part, or real part only.
fn complex(x: &Tensor) -> Result<Tensor> {
    let last = x.shape().known_size(x.rank().saturating_sub(1), "dft")?;
    let part = |i: i64| ops::squeeze(ops::slice_axis(x, -1, i, i + 1), -1i64);
    match last {
        1 => part(0).done(),
        2 => ops::complex(part(0), part(1)).done(),
        n => bail!(
            Convert,
            "convert: expected a signal whose last axis has size 1 or 2, got {n}"
        ),
    }
}

fn parted(x: &Tensor) -> Result<Tensor> {
    ops::stack(&[ops::real(x).done()?, ops::imag(x).done()?], -1).done()
}

fn dft(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = recorded(ranked(a, 0, 2)?, None)?;
    let axis = match (version(a) >= 20, a.has(2, "axis")) {
        (true, true) => int(a, 2)?,
        (true, false) => -2,
        (false, _) => a.int(NAMED, "axis", 1)?,
    };
    let at = x.shape().axis(axis, "dft")? as i64;
    let (inverse, half) = (
        a.flag(NAMED, "inverse", false)?,
        a.flag(NAMED, "onesided", false)?,
    );
    let own = x.dtype();
    // In float64, so that terms cancel where they should.
    let z = match inverse {
        true => complex(&x)?,
        false => complex(&ops::cast(&x, DType::F64).done()?)?,
    };
    let length = if a.has(1, "dft_length") {
        Some(vec![int(a, 1)?.clamp(0, 1 << 40) as usize])
    } else {
        None
    };
    let kind = match (inverse, half, z.dtype().is_complex()) {
        (false, true, false) => Fourier::Real,
        (true, true, true) => Fourier::RealInverse,
        (false, false, _) => Fourier::Forward,
        (true, false, _) => Fourier::Inverse,
        _ => bail!(
            Unsupported,
            "convert: `DFT` with onesided=1 of a {} signal",
            z.dtype()
        ),
    };
    let wide = if matches!(kind, Fourier::Forward | Fourier::Inverse) && !z.dtype().is_complex() {
        let none = ops::zeros_like(&z);
        ops::complex(&z, none).done()?
    } else {
        z
    };
    let y = ops::fourier(kind, wide, length, Some(vec![at]), Norm::Backward).done()?;
    if y.dtype().is_complex() {
        out(ops::cast(parted(&y)?, own))
    } else {
        out(ops::cast(ops::expand_dims(y, -1), own))
    }
}

fn stft(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let x = recorded(ranked(a, 0, 2)?, None)?;
    let step = int(a, 1)?;
    let shape = maybe(a, 2)?;
    if shape.as_ref().is_some_and(|w| w.rank() != 1) {
        return Err(a.bad("a window of rank 1"));
    }
    let frame = match (a.has(3, "frame_length"), &shape) {
        (true, _) => int(a, 3)?,
        (false, Some(w)) => w.shape().known_size(0, "stft")? as i64,
        (false, None) => return unknown(a, 3),
    };
    let size = x.shape().known_size(1, "stft")? as i64;
    if step <= 0 || frame <= 0 || frame > size {
        bail!(
            Convert,
            "convert: `STFT` of a signal of size {size} with frame_length {frame} and frame_step {step}"
        );
    }
    let count = (size - frame) / step + 1;
    if count.saturating_mul(frame) > 1 << 24 {
        bail!(
            Unsupported,
            "convert: `STFT` with {count} frames of length {frame}"
        );
    }
    let places: Vec<i64> = (0..count)
        .flat_map(|i| (0..frame).map(move |k| i * step + k))
        .collect();
    let at = ops::from_slice(&places, [count as usize, frame as usize])?;
    let z = complex(&if x.rank() == 2 {
        ops::expand_dims(&x, -1).done()?
    } else {
        x
    })?;
    let frames = ops::take(z, at, 1).done()?;
    let frames = match shape {
        Some(w) => (&frames * w).done()?,
        None => frames,
    };
    let half = a.flag(NAMED, "onesided", true)?;
    let (kind, frames) = match (
        half && !frames.dtype().is_complex(),
        frames.dtype().is_complex(),
    ) {
        (true, _) => (Fourier::Real, frames),
        (false, true) => (Fourier::Forward, frames),
        (false, false) => (
            Fourier::Forward,
            ops::complex(&frames, ops::zeros_like(&frames)).done()?,
        ),
    };
    Ok(parted(&ops::fourier(kind, frames, None, Some(vec![2]), Norm::Backward).done()?)?.into())
}

fn mel(_: &mut Importer<'_>, a: &Args<'_>) -> Result<Slot> {
    let one = |i: usize| floats(a, i).map(|x| x.first().copied().unwrap_or(0.0));
    let (bins, size, rate, low, high) = (
        one(0)? as usize,
        one(1)? as usize,
        one(2)?,
        one(3)?,
        one(4)?,
    );
    let rows = size / 2 + 1;
    if bins == 0 || size == 0 || bins.saturating_mul(rows) > 1 << 24 {
        bail!(
            Convert,
            "convert: `MelWeightMatrix` with {bins} bins and dft_length {size}"
        );
    }
    let to_mel = |f: f64| 2595.0 * (1.0 + f / 700.0).log10();
    let (first, last) = (to_mel(low), to_mel(high));
    let step = (last - first) / (bins + 2) as f64;
    let edge = |i: usize| {
        let f = 700.0 * (10f64.powf((i as f64 * step + first) / 2595.0) - 1.0);
        ((size + 1) as f64 * f / rate).floor() as i64
    };
    let edges: Vec<i64> = (0..bins + 2).map(edge).collect();
    let mut out_ = vec![0f64; rows * bins];
    for i in 0..bins {
        let (low, centre, high) = (edges[i], edges[i + 1], edges[i + 2]);
        let mut put = |j: i64, x: f64| {
            if let Some(place) = usize::try_from(j).ok().filter(|&j| j < rows) {
                out_[place * bins + i] = x;
            }
        };
        if centre == low {
            put(centre, 1.0);
        } else {
            for j in low..=centre {
                put(j, (j - low) as f64 / (centre - low) as f64);
            }
        }
        if high > centre {
            for j in centre..high {
                put(j, (high - j) as f64 / (high - centre) as f64);
            }
        }
    }
    let to = crate::onnx::tensor::dtype(a.int(NAMED, "output_datatype", 1)?)?;
    out(ops::cast(ops::from_slice(&out_, [rows, bins])?, to))
}
