//! Random bits (Threefry-2x32), computed with ops so that every backend draws the same bits.
//!
//! Word i of a draw comes from the block with counter i/2: its first word for even i, its second for odd i. A u64
//! takes two words, high first; shorter integers take the low bits of one.

use crate::dim::Dim;
use crate::dispatch::apply_one;
use crate::dtype::DType;
use crate::ensure;
use crate::error::Result;
use crate::expr::{Expr, constant};
use crate::op::Composite;
use crate::ops;
use crate::shape::Shape;
use crate::tensor::Tensor;

const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
const PARITY: u32 = 0x1BD1_1BDA;

/// Threefry-2x32 with 20 rounds on plain words.
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = [
        counter[0].wrapping_add(keys[0]),
        counter[1].wrapping_add(keys[1]),
    ];
    for round in 0..5u32 {
        for r in ROTATIONS[round as usize % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(r) ^ x[0];
        }
        let next = round as usize + 1;
        x[0] = x[0].wrapping_add(keys[next % 3]);
        x[1] = x[1]
            .wrapping_add(keys[(next + 1) % 3])
            .wrapping_add(round + 1);
    }
    x
}

/// Threefry-2x32 on u32 tensors.
fn threefry_ops(key: [Tensor; 2], counter: [Expr; 2]) -> Result<[Tensor; 2]> {
    let parity = (&key[0] ^ &key[1]) ^ constant(u64::from(PARITY), DType::U32);
    let keys = [key[0].clone(), key[1].clone(), parity.done()?];
    let [a, b] = counter;
    let mut x = [(a + &keys[0]).done()?, (b + &keys[1]).done()?];
    for round in 0..5u32 {
        for r in ROTATIONS[round as usize % 2] {
            x[0] = (&x[0] + &x[1]).done()?;
            let rotated = (&x[1] << i64::from(r)) | (&x[1] >> i64::from(32 - r));
            x[1] = (rotated ^ &x[0]).done()?;
        }
        let next = round as usize + 1;
        x[0] = (&x[0] + &keys[next % 3]).done()?;
        x[1] = (&x[1] + &keys[(next + 1) % 3] + i64::from(round + 1)).done()?;
    }
    Ok(x)
}

/// The two words of a key, as scalar tensors.
pub(crate) fn key_words(key: &Tensor) -> Result<[Tensor; 2]> {
    ensure!(
        key.dtype() == DType::U32 && *key.shape() == [2usize],
        DType,
        "key: expected u32[2], got {}",
        key.spec()
    );
    let word = |i: i64| ops::squeeze(ops::slice_axis(key, 0, i, i + 1), 0).done();
    Ok([word(0)?, word(1)?])
}

/// The expansion of `random_bits`.
pub(crate) fn random_bits(key: &Tensor, dtype: DType, shape: &Shape) -> Result<Tensor> {
    ensure!(
        dtype.is_unsigned(),
        DType,
        "random_bits: expected an unsigned integer dtype, got {dtype}"
    );
    shape.check("random_bits")?;
    let words = shape.count_dim() * Dim::from(if dtype == DType::U64 { 2usize } else { 1 });
    let blocks = words.ceil_div(Dim::number(2))?;
    let places = Shape::from_dims([blocks]);
    let count = ops::create::iota_like(key, &places, 0, DType::U64).done()?;
    let high = ops::cast(&count >> 32, DType::U32);
    let low = ops::cast(&count, DType::U32);
    let [a, b] = threefry_ops(key_words(key)?, [high, low])?;
    let pairs = ops::stack(&[a, b], -1);
    let flat = ops::slice_axis(
        ops::reshape(pairs, Shape::from_dims([blocks * Dim::number(2)])),
        0,
        0,
        words,
    );
    if dtype == DType::U64 {
        let pairs = ops::reshape(
            ops::cast(flat, DType::U64),
            Shape::from_dims([shape.count_dim(), 2.into()]),
        )
        .done()?;
        let high = ops::squeeze(ops::slice_axis(&pairs, 1, 0, 1), 1);
        let low = ops::squeeze(ops::slice_axis(&pairs, 1, 1, 2), 1);
        return ops::reshape((high << 32) | low, shape).done();
    }
    ops::reshape(ops::cast(flat, dtype), shape).done()
}

/// Random bits as unsigned integers of this dtype.
pub fn bits(key: &Tensor, dtype: DType, shape: &Shape) -> Result<Tensor> {
    apply_one(
        &Composite::RandomBits {
            dtype,
            shape: shape.clone(),
        }
        .into(),
        &[key],
    )
}

/// Uniform on [0, 1), on the grid of the dtype's own precision, so that 1 never occurs.
pub fn unit_uniform(key: &Tensor, dtype: DType, shape: &Shape) -> Result<Tensor> {
    // As many bits as the significand holds.
    let (wide, keep) = match dtype {
        DType::F64 => (DType::U64, 53),
        DType::F32 => (DType::U32, 24),
        DType::F16 => (DType::U32, 11),
        DType::BF16 => (DType::U32, 8),
        other => crate::bail!(DType, "uniform: floats, not {other}"),
    };
    let drawn = bits(key, wide, shape)?;
    let whole = &drawn >> i64::from(wide.size() as u32 * 8 - keep);
    (ops::cast(whole, dtype) * 2f64.powi(-(keep as i32))).done()
}

/// Derives a key from a key and a number; its counters do not overlap with those of draws.
pub(crate) fn fold_in(key: &Tensor, number: &Tensor) -> Result<Tensor> {
    let n = ops::cast(number, DType::U64).done()?;
    let high = ops::cast(&n >> 32, DType::U32) | constant(0x8000_0000u64, DType::U32);
    let [a, b] = threefry_ops(key_words(key)?, [high, ops::cast(&n, DType::U32)])?;
    ops::stack(&[a, b], 0).done()
}

#[cfg(test)]
mod tests {
    use super::threefry;

    #[test]
    fn known_answers() {
        for (key, counter, want) in [
            ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
            ([!0, !0], [!0, !0], [0x1cb9_96fc, 0xbb00_2be7]),
            (
                [0x1319_8a2e, 0x0370_7344],
                [0x243f_6a88, 0x85a3_08d3],
                [0xc492_3a9c, 0x483d_f7a0],
            ),
        ] {
            assert_eq!(threefry(key, counter), want);
        }
    }
}
