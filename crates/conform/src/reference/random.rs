//! Random bits by the definition of Threefry-2x32 with 20 rounds.

use crate::array::{Array, Num};
use clematis_core::{DType, Shape};

/// One Threefry block: twenty rounds of add, rotate and xor, with a key injection after every fourth.
fn block(key: [u32; 2], counter: u64) -> [u32; 2] {
    let schedule = [key[0], key[1], 0x1BD1_1BDA ^ key[0] ^ key[1]];
    let turns = [13, 15, 26, 6, 17, 29, 16, 24];
    let mut a = ((counter >> 32) as u32).wrapping_add(schedule[0]);
    let mut b = (counter as u32).wrapping_add(schedule[1]);
    for round in 0..20 {
        a = a.wrapping_add(b);
        b = b.rotate_left(turns[round % 8]) ^ a;
        if round % 4 == 3 {
            let s = round / 4 + 1;
            a = a.wrapping_add(schedule[s % 3]);
            b = b.wrapping_add(schedule[(s + 1) % 3]).wrapping_add(s as u32);
        }
    }
    [a, b]
}

/// Word i of a draw: half i mod 2 of block i / 2.
fn word(key: [u32; 2], i: usize) -> u32 {
    block(key, i as u64 / 2)[i % 2]
}

pub fn bits(key: &Array, dtype: DType, shape: &Shape) -> Array {
    let key = [key.values[0].i() as u32, key.values[1].i() as u32];
    let sizes = shape.sizes();
    let count = sizes.iter().product::<usize>();
    let values = (0..count)
        .map(|i| {
            if dtype == DType::U64 {
                let (high, low) = (word(key, 2 * i), word(key, 2 * i + 1));
                Num::Whole(i128::from(high) << 32 | i128::from(low))
            } else {
                Num::Whole(crate::array::wrap(dtype, word(key, i).into()))
            }
        })
        .collect();
    Array::new(dtype, &sizes, values)
}

/// Uniform on [0, 1) in steps of 2⁻²⁴.
pub fn uniform(key: &Array, shape: &[usize]) -> Array {
    let drawn = bits(key, DType::U32, &Shape::from_sizes(shape));
    drawn.map(DType::F64, |v| {
        Num::real((v.i() >> 8) as f64 / 2f64.powi(24))
    })
}
