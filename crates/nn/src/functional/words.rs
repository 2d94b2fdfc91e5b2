//! The words for layouts and padding.

use clematis_core::ops::Padding;
use clematis_core::{Result, bail, ensure};

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
