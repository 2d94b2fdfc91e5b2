//! Parses layouts (`data_format`) and padding modes.

use clematis_core::ops::Padding;
use clematis_core::{Dim, Result, bail, ensure};

/// Whether a data layout has the channels before the spatial axes.
pub fn channels_first(op: &str, word: &str, spatial: usize) -> Result<bool> {
    let known = match spatial {
        1 => ["NWC", "NCW"],
        2 => ["NHWC", "NCHW"],
        _ => ["NDHWC", "NCDHW"],
    };
    one_of(op, "data_format", word, known)
}

/// The same for `channel_first` and `channel_last`.
pub fn channel_word(op: &str, what: &str, word: &str) -> Result<bool> {
    one_of(op, what, word, ["channel_last", "channel_first"])
}

/// Parses one of two words.
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

/// Maximum of strides, dilations, padding and sizes of windows. Some frameworks have only 31 bits for them.
const MOST: i64 = i32::MAX as i64;

/// Checks counts of a window, one per spatial axis: positive and at most 31 bits.
pub fn counts(op: &str, what: &str, list: &[usize], spatial: usize) -> Result<()> {
    ensure!(
        list.len() == spatial,
        Shape,
        "{op}: got {} {what} for {spatial} spatial axes",
        list.len()
    );
    ensure!(
        list.iter().all(|&n| n > 0 && n as u64 <= MOST as u64),
        Value,
        "{op}: expected {what} from 1 to {MOST}, got {list:?}"
    );
    Ok(())
}

/// The padded size of a spatial axis: at most 31 bits.
pub fn places(op: &str, axis: usize, size: Dim, low: Dim, high: Dim) -> Result<()> {
    let fits = |x: Dim| x.value().is_none_or(|n| n <= MOST);
    ensure!(
        fits(low) && fits(high) && fits(size) && fits(size + low + high),
        Value,
        "{op}: expected a padded size of at most {MOST}, got spatial axis {axis} of {size}, padded by {low} and {high}"
    );
    Ok(())
}

/// Parses a padding mode.
pub fn padding_word(op: &str, word: &str) -> Result<Padding> {
    match word {
        "SAME" => Ok(Padding::Same),
        "VALID" => Ok(Padding::Valid),
        _ => bail!(
            Value,
            "{op}: expected padding \"SAME\", \"VALID\", a number or pairs of numbers, got \"{word}\""
        ),
    }
}
