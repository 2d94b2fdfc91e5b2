//! Replays the fuzzing corpus with the regular compiler, then mutations of it from a fixed seed.
//!
//! `cargo xtask fuzz` runs the same functions guided by coverage.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // every line of a test may fail it

#[path = "../../../fuzz/src/lib.rs"]
mod fuzz;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time for the mutations of each target; six targets and the replay take about a minute.
const SECONDS: Duration = Duration::from_secs(5);
/// Maximum length of a mutation.
const LONGEST: usize = 1 << 14;

/// Typical wrong values of lengths and sizes.
const NUMBERS: [i64; 12] = [
    0,
    1,
    -1,
    127,
    255,
    65_535,
    65_536,
    i32::MAX as i64,
    i32::MIN as i64,
    1 << 40,
    i64::MAX,
    i64::MIN,
];

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

fn mutated(seeds: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut data = seeds[random.below(seeds.len())].clone();
    for _ in 0..=random.below(4) {
        let at = random.below(data.len());
        let len = (1 + random.below(16)).min(data.len() - at);
        match random.below(7) {
            0 if !data.is_empty() => data[at] ^= 1 << random.below(8),
            1 if !data.is_empty() => data[at] = random.next() as u8,
            2 => drop(data.drain(at..at + len)),
            3 => {
                let part = data[at..at + len].to_vec();
                data.splice(at..at, part);
            }
            4 => {
                let number = NUMBERS[random.below(NUMBERS.len())];
                let text = number.to_string().into_bytes();
                let bytes = number.to_le_bytes();
                let width = 1 << random.below(4);
                match random.below(2) {
                    0 => drop(data.splice(at..at + len, text)),
                    _ => drop(data.splice(at..at + len, bytes[..width].to_vec())),
                }
            }
            5 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let to = (from + 1 + random.below(64)).min(other.len());
                data.splice(at..at + len, other[from..to].to_vec());
            }
            _ => data.truncate(at.max(1)),
        }
    }
    data.truncate(LONGEST);
    data
}

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder.join(target))
        .unwrap_or_else(|e| panic!("no corpus of {target}: {e}"))
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no file in the corpus of {target}");
    files
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

fn survives(target: &str, data: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| fuzz::run(target, data))).is_err() {
        let path = std::env::temp_dir().join(format!("clematis-fuzz-{target}.bin"));
        std::fs::write(&path, data).unwrap();
        panic!("{target} fails on {}", path.display());
    }
}

// A single test, so that no other one competes for time and memory.
#[test]
fn no_file_of_the_corpus_and_no_mutation_of_one_fails_hangs_or_fills_memory() {
    for (target, _) in fuzz::TARGETS {
        let seeds = corpus(target);
        for data in &seeds {
            survives(target, data);
        }
        let mut random = Random(20);
        let start = Instant::now();
        let mut count = 0;
        while start.elapsed() < SECONDS {
            survives(target, &mutated(&seeds, &mut random));
            count += 1;
        }
        println!("{target}: {} files, {count} mutations", seeds.len());
    }
}
