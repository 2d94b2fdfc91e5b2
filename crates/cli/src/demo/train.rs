//! The network and its training.

use super::digits::Digits;
use super::history::History;
use super::progress::Progress;
use crate::error::{Error, Result};

/// How often the demo goes through its data unless told otherwise.
pub const EPOCHS: usize = 12;

/// What the user may choose about a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub epochs: usize,
    pub backend: String,
    /// `None` for all cores.
    pub threads: Option<usize>,
}

/// Trains on the digits and tells how it went.
pub fn train(digits: &Digits, options: &Options, _progress: &Progress) -> Result<History> {
    let Options {
        seed,
        epochs,
        backend,
        threads,
    } = options;
    let threads = threads.map_or("all".into(), |n| n.to_string());
    Err(Error::new(format!(
        "train: the {backend} engine is not there yet; asked for {epochs} epochs over {} digits with seed {seed} on {threads} threads",
        digits.len()
    )))
}
