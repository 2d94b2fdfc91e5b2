//! The digits dataset: 1,797 handwritten digits of 8 × 8 pixels with labels.
//!
//! Owns the file format, a gzipped CSV with 64 pixels from 0 to 16 and a label per row, and its validation.

use std::io::Read;
use std::path::Path;

use clematis::nn::file;
use flate2::read::MultiGzDecoder;

use crate::error::{Error, Result};

/// Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, UCI; see data/LICENSE.md.
const BUILT_IN: &[u8] = include_bytes!("../../../../data/digits.csv.gz");

pub const PIXELS: usize = 64;
const ROWS: usize = 1797;
const WHITE: u8 = 16;
const LARGEST_LABEL: u8 = 9;
/// Upper bound of the unpacked size: no row is longer than 64 times `16,` and a label.
const MOST_BYTES: u64 = (ROWS as u64 + 1) * 3 * (PIXELS as u64 + 1);

/// All images with their labels.
pub struct Digits {
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl Digits {
    /// The built-in copy.
    pub fn built_in() -> Result<Self> {
        Self::parse(BUILT_IN, "built-in digits")
    }

    pub fn read(path: &Path) -> Result<Self> {
        let name = path.display().to_string();
        let (file, _) = file::open("read", path).map_err(|error| {
            Error::new(format!("{name}: cannot be opened: {}", error.message()))
        })?;
        Self::parse(file, &name)
    }

    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// The 64 pixels of an image; `row` counts from 0.
    pub fn pixels(&self, row: usize) -> &[u8] {
        &self.pixels[row * PIXELS..(row + 1) * PIXELS]
    }

    /// The labels.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    fn parse(packed: impl Read, name: &str) -> Result<Self> {
        let wrong = |what: String| Error::new(format!("{name}: {what}"));
        let mut text = String::new();
        MultiGzDecoder::new(packed)
            .take(MOST_BYTES + 1)
            .read_to_string(&mut text)
            .map_err(|error| wrong(format!("not a whole gzip file of text: {error}")))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(wrong(format!(
                "unpacks to more than {MOST_BYTES} bytes, too many for {ROWS} digits"
            )));
        }
        let mut digits = Digits {
            pixels: Vec::with_capacity(ROWS * PIXELS),
            labels: Vec::with_capacity(ROWS),
        };
        for (index, line) in text.lines().enumerate() {
            digits
                .push(line)
                .map_err(|what| wrong(format!("row {}{what}", index + 1)))?;
        }
        if digits.len() != ROWS {
            return Err(wrong(format!("{} rows, {ROWS} expected", digits.len())));
        }
        Ok(digits)
    }

    /// Parses a row; the error continues the words `row N`.
    fn push(&mut self, line: &str) -> std::result::Result<(), String> {
        let columns = line.split(',').count();
        if columns != PIXELS + 1 {
            return Err(format!(" has {columns} columns, {} expected", PIXELS + 1));
        }
        for (column, text) in line.split(',').enumerate() {
            let is_label = column == PIXELS;
            let (what, most) = if is_label {
                ("a label", LARGEST_LABEL)
            } else {
                ("a pixel", WHITE)
            };
            let value = text
                .trim()
                .parse::<u8>()
                .ok()
                .filter(|&value| value <= most);
            let Some(value) = value else {
                // A damaged file may contain anything, so only the beginning is quoted.
                let shown: String = text.chars().take(20).collect();
                return Err(format!(
                    ", column {}: {shown:?} is not {what} from 0 to {most}",
                    column + 1
                ));
            };
            if is_label {
                self.labels.push(value);
            } else {
                self.pixels.push(value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn packed(text: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(text).expect("memory takes it");
        writer.finish().expect("memory takes it")
    }

    fn unpacked() -> String {
        let mut text = String::new();
        MultiGzDecoder::new(BUILT_IN)
            .read_to_string(&mut text)
            .expect("whole");
        text
    }

    fn complaint(file: &[u8]) -> String {
        match Digits::parse(file, "file") {
            Ok(_) => panic!("this file should be refused"),
            Err(error) => error.to_string(),
        }
    }

    /// The built-in data with one row replaced.
    fn with_row(row: usize, edit: impl Fn(&str) -> String) -> Vec<u8> {
        let text = unpacked();
        let lines = text.lines().enumerate().map(|(index, line)| {
            if index + 1 == row {
                edit(line)
            } else {
                line.to_string()
            }
        });
        packed(lines.collect::<Vec<_>>().join("\n").as_bytes())
    }

    #[test]
    fn the_built_in_digits_are_whole() {
        let digits = Digits::built_in().expect("whole");
        assert_eq!(digits.len(), ROWS);
        assert_eq!(digits.pixels(0)[..6], [0, 0, 5, 13, 9, 1]);
        assert_eq!(digits.labels()[..3], [0, 1, 2]);
        let zeros = digits.labels().iter().filter(|&&label| label == 0).count();
        assert_eq!(zeros, 178);
    }

    #[test]
    fn a_file_reads_like_the_built_in_copy() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("digits.csv.gz");
        std::fs::write(&path, BUILT_IN).expect("written");
        assert_eq!(Digits::read(&path).map(|d| d.len()).ok(), Some(ROWS));
        let missing = Digits::read(&folder.path().join("none.gz")).err();
        let text = missing.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains("none.gz: cannot be opened"), "{text}");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        assert!(complaint(b"").contains("not a whole gzip file"));
        assert!(complaint(b"0,0,5\n").contains("not a whole gzip file"));
        assert!(complaint(&BUILT_IN[..BUILT_IN.len() / 2]).contains("not a whole gzip file"));
        assert!(complaint(&BUILT_IN[..BUILT_IN.len() - 3]).contains("not a whole gzip file"));
        let mut flipped = BUILT_IN.to_vec();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 0xff;
        assert!(complaint(&flipped).starts_with("file: "));
        assert_eq!(complaint(&packed(b"")), "file: 0 rows, 1797 expected");
        assert!(complaint(&packed(&[0xff, 0xfe])).contains("not a whole gzip file of text"));
    }

    #[test]
    fn a_file_that_unpacks_to_too_much_is_refused() {
        let bomb = packed(&vec![b'0'; 4 << 20]);
        assert!(complaint(&bomb).contains("unpacks to more than"));
    }

    #[test]
    fn missing_and_surplus_rows_are_counted() {
        let text = unpacked();
        let half: Vec<_> = text.lines().take(900).collect();
        let found = complaint(&packed(half.join("\n").as_bytes()));
        assert_eq!(found, "file: 900 rows, 1797 expected");
        let first = text.lines().next().expect("a row");
        let found = complaint(&packed(format!("{text}{first}\n").as_bytes()));
        assert_eq!(found, "file: 1798 rows, 1797 expected");
    }

    #[test]
    fn a_wrong_value_is_named_with_its_place() {
        let found = complaint(&with_row(3, |line| line.replacen("0,", "17,", 1)));
        assert_eq!(
            found,
            "file: row 3, column 1: \"17\" is not a pixel from 0 to 16"
        );
        let found = complaint(&with_row(5, |line| format!("{}x", line)));
        assert_eq!(
            found,
            "file: row 5, column 65: \"4x\" is not a label from 0 to 9"
        );
        let found = complaint(&with_row(7, |line| format!("{line},1")));
        assert_eq!(found, "file: row 7 has 66 columns, 65 expected");
        let found = complaint(&with_row(9, |_| String::new()));
        assert_eq!(found, "file: row 9 has 1 columns, 65 expected");
    }
}
