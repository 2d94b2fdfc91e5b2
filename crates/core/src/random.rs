//! Random numbers: explicit keys, counter-based bits, distributions composed of ops.
//!
//! A key gives the same bits on every backend, machine and number of threads.

pub mod distribution;
pub mod stream;

pub use distribution::*;

use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Expr, IntoExpr};
use crate::ops::bits::{self, threefry};
use crate::ops::{self};
use crate::shape::{IntoShape, Shape};
use crate::tensor::Tensor;

/// A random key. Use it once; split it for more draws.
#[derive(Clone, Debug)]
pub struct Key(Words);

#[derive(Clone, Debug)]
enum Words {
    /// The common case: splitting takes a few nanoseconds and cannot fail.
    Plain([u32; 2]),
    /// A key inside a traced function, or one given as a tensor.
    Traced(Expr),
}

impl Key {
    /// Creates a key from any seed, including 0.
    pub fn new(seed: u64) -> Key {
        Key(Words::Plain([(seed >> 32) as u32, seed as u32]))
    }

    /// Wraps a tensor u32[2] as a key.
    pub fn from_tensor(words: impl IntoExpr) -> Key {
        Key(Words::Traced(words.into_expr()))
    }

    /// The key as a tensor u32[2].
    pub fn words(&self) -> Expr {
        match &self.0 {
            Words::Plain(words) => ops::from_slice(words, [2usize]).into(),
            Words::Traced(words) => words.clone(),
        }
    }

    /// Splits into two new keys.
    pub fn split(&self) -> (Key, Key) {
        (self.nth(0), self.nth(1))
    }

    /// Splits into `n` new keys.
    pub fn split_n(&self, n: usize) -> Vec<Key> {
        (0..n as u64).map(|i| self.nth(i)).collect()
    }

    /// The i-th key of a split.
    fn nth(&self, i: u64) -> Key {
        match &self.0 {
            Words::Plain(key) => Key(Words::Plain(threefry(*key, [(i >> 32) as u32, i as u32]))),
            Words::Traced(words) => Key::from_tensor(words.clone().then(|key| {
                let count = i64::try_from(i).unwrap_or(i64::MAX - 1) + 1;
                let all = bits::bits(&key, DType::U32, &Shape::new(&[count, 2])?)?;
                ops::squeeze(ops::slice_axis(&all, 0, count - 1, count), 0).done()
            })),
        }
    }

    /// Derives a key from a number: a step, a layer, a worker.
    pub fn fold_in(&self, n: u64) -> Key {
        match &self.0 {
            Words::Plain(key) => Key(Words::Plain(threefry(
                *key,
                [(n >> 32) as u32 | 0x8000_0000, n as u32],
            ))),
            Words::Traced(words) => Key::from_tensor(
                words
                    .clone()
                    .then(|key| bits::fold_in(&key, &Tensor::scalar(n, DType::U64))),
            ),
        }
    }

    /// Random bits as unsigned integers.
    pub fn bits(&self, dtype: DType, shape: impl IntoShape) -> Expr {
        self.words()
            .then(|key| -> Result<Tensor> { bits::bits(&key, dtype, &shape.into_shape()?) })
    }
}
