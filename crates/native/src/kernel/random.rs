//! Random bits: Threefry-2x32 with 20 rounds.
//!
//! Word `i` of a stream is one half of the block with counter `i / 2`, so any part of a stream can be computed
//! independently. Types of up to 32 bits take the low bits of a word each, u64 takes two words, the first of them high.

use crate::buffer::Buffer;
use crate::simd::multiversion;
use crate::{memory, parallel};
use clematis_core::{DType, Result, Spec, Tensor, bail};

/// Blocks that are computed at a time.
const BATCH: usize = 32;
/// The xor of the words of a key schedule.
const PARITY: u32 = 0x1BD1_1BDA;
const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];

/// Encrypts one counter.
#[inline(always)]
pub fn threefry(key: [u32; 2], counter: [u32; 2]) -> [u32; 2] {
    let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
    let mut x = counter[0].wrapping_add(keys[0]);
    let mut y = counter[1].wrapping_add(keys[1]);
    for round in 0..5 {
        for rotation in ROTATIONS[round % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(keys[(round + 1) % 3]);
        y = y
            .wrapping_add(keys[(round + 2) % 3])
            .wrapping_add(round as u32 + 1);
    }
    [x, y]
}

multiversion! {
    /// The words of consecutive blocks from `first` on.
    fn blocks(key: [u32; 2], first: u64, out: &mut [u32; 2 * BATCH]) {
        let keys = [key[0], key[1], key[0] ^ key[1] ^ PARITY];
        let (mut x, mut y) = ([0u32; BATCH], [0u32; BATCH]);
        for i in 0..BATCH {
            let counter = first.wrapping_add(i as u64);
            x[i] = ((counter >> 32) as u32).wrapping_add(keys[0]);
            y[i] = (counter as u32).wrapping_add(keys[1]);
        }
        // As `threefry`, round by round for all blocks: one vector instruction per step.
        for round in 0..5 {
            for rotation in ROTATIONS[round % 2] {
                for i in 0..BATCH {
                    x[i] = x[i].wrapping_add(y[i]);
                    y[i] = y[i].rotate_left(rotation) ^ x[i];
                }
            }
            let a = keys[(round + 1) % 3];
            let b = keys[(round + 2) % 3].wrapping_add(round as u32 + 1);
            for i in 0..BATCH {
                x[i] = x[i].wrapping_add(a);
                y[i] = y[i].wrapping_add(b);
            }
        }
        for i in 0..BATCH {
            out[2 * i] = x[i];
            out[2 * i + 1] = y[i];
        }
    }
}

/// Fills `out` with the words of a stream from `start` on.
fn words(key: [u32; 2], start: u64, out: &mut [u32]) {
    let mut made = [0; 2 * BATCH];
    let (mut block, mut skip, mut done) = (start / 2, (start % 2) as usize, 0);
    while done < out.len() {
        blocks(key, block, &mut made);
        let len = (made.len() - skip).min(out.len() - done);
        out[done..done + len].copy_from_slice(&made[skip..skip + len]);
        done += len;
        skip = 0;
        block += BATCH as u64;
    }
}

/// Fills a result with the bits of a key.
pub fn random_bits(key: &Tensor, out: &Spec) -> Result<Buffer> {
    let key = super::shape::indices(key)?;
    let [a, b] = key[..] else {
        bail!(
            Internal,
            "random_bits: a key has two words, not {}",
            key.len()
        );
    };
    let key = [a as u32, b as u32];
    let mut bytes = memory::alloc("random_bits", out)?;
    const GRAIN: usize = 1 << 14;
    const SOME: usize = 256;
    macro_rules! narrow {
        ($t:ty) => {
            parallel::for_chunks_mut(bytes.as_mut_slice::<$t>(), GRAIN, |start, out| {
                let mut some = [0; SOME];
                for (i, out) in out.chunks_mut(SOME).enumerate() {
                    let some = &mut some[..out.len()];
                    words(key, (start + i * SOME) as u64, some);
                    for (out, &word) in out.iter_mut().zip(&*some) {
                        *out = word as $t;
                    }
                }
            })
        };
    }
    match out.dtype {
        DType::U8 => narrow!(u8),
        DType::U16 => narrow!(u16),
        DType::U32 => parallel::for_chunks_mut(bytes.as_mut_slice::<u32>(), GRAIN, |start, out| {
            words(key, start as u64, out);
        }),
        DType::U64 => parallel::for_chunks_mut(bytes.as_mut_slice::<u64>(), GRAIN, |start, out| {
            let mut some = [0; 2 * SOME];
            for (i, out) in out.chunks_mut(SOME).enumerate() {
                let some = &mut some[..2 * out.len()];
                words(key, 2 * (start + i * SOME) as u64, some);
                for (out, pair) in out.iter_mut().zip(some.chunks_exact(2)) {
                    *out = u64::from(pair[0]) << 32 | u64::from(pair[1]);
                }
            }
        }),
        other => bail!(
            DType,
            "random_bits: bits come as unsigned integers, not {other}"
        ),
    }
    Ok(Buffer::new(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        for (key, counter, words) in [
            ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
            ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
            (
                [0x1319_8a2e, 0x0370_7344],
                [0x243f_6a88, 0x85a3_08d3],
                [0xc492_3a9c, 0x483d_f7a0],
            ),
        ] {
            assert_eq!(threefry(key, counter), words);
        }
    }

    #[test]
    fn any_part_of_a_stream_can_be_made_by_itself() {
        let mut all = vec![0; 1000];
        words([1, 2], 0, &mut all);
        for (start, len) in [(0, 1), (1, 1), (63, 70), (501, 499)] {
            let mut part = vec![0; len];
            words([1, 2], start as u64, &mut part);
            assert_eq!(part, all[start..start + len]);
        }
        assert_eq!(threefry([1, 2], [0, 3]), [all[6], all[7]]);
    }
}
