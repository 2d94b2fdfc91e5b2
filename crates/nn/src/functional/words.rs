//! The words for layouts and padding.

use clematis_core::ops::Padding;
use clematis_core::{Dim, Result, bail, ensure};

/// Whether a word for the layout of data puts the channels before the spatial axes.
pub fn channels_first(op: &str, word: &str, spatial: usize) -> Result<bool> {
    let known = match spatial {
        1 => ["NWC", "NCW"],
        2 => ["NHWC", "NCHW"],
        _ => ["NDHWC", "NCDHW"],
    };
    one_of(op, "data_format", word, known)
}

/// The same of the words that say no more than that.
pub fn channel_word(op: &str, what: &str, word: &str) -> Result<bool> {
    one_of(op, what, word, ["channel_last", "channel_first"])
}

/// Which of two words it is.
pub fn one_of(op: &str, what: &str, word: &str, known: [&str; 2]) -> Result<bool> {
    if word == known[0] {
        return Ok(false);
    }
    ensure!(
        word == known[1],
        Value,
        "{op}: {what} is \"{}\" or \"{}\", not \"{word}\"",
        known[0],
        known[1]
    );
    Ok(true)
}

/// The most that a window counts: strides, gaps, paddings and places. Some frameworks have no more bits for them.
const MOST: i64 = i32::MAX as i64;

/// Counts of a window, one per spatial axis: positive, and none beyond 31 bits.
pub fn counts(op: &str, what: &str, list: &[usize], spatial: usize) -> Result<()> {
    ensure!(
        list.len() == spatial,
        Shape,
        "{op}: {} {what} for {spatial} spatial axes",
        list.len()
    );
    ensure!(
        list.iter().all(|&n| n > 0 && n as u64 <= MOST as u64),
        Value,
        "{op}: {what} {list:?} are not all from 1 to {MOST}"
    );
    Ok(())
}

/// The places that a window slides over on a spatial axis, padding included: none beyond 31 bits.
pub fn places(op: &str, axis: usize, size: Dim, low: Dim, high: Dim) -> Result<()> {
    let fits = |x: Dim| x.value().is_none_or(|n| n <= MOST);
    ensure!(
        fits(low) && fits(high) && fits(size) && fits(size + low + high),
        Value,
        "{op}: spatial axis {axis} has {size} places, padded by {low} and {high}, and at most {MOST} can be slid over"
    );
    Ok(())
}

/// Padding by a word.
pub fn padding_word(op: &str, word: &str) -> Result<Padding> {
    match word {
        "SAME" => Ok(Padding::Same),
        "VALID" => Ok(Padding::Valid),
        _ => bail!(
            Value,
            "{op}: padding is \"SAME\", \"VALID\", a number or pairs of numbers, not \"{word}\""
        ),
    }
}
