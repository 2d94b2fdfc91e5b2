//! What stands before the bytes of a safetensors file: eight bytes of length, then JSON.
//!
//! Owns the names of element types, the checks of what a file claims, and the two checksums. The
//! checksum in the metadata is 32 digits: 16 over the header, with zeros in their place, and 16 over the data.

use super::claim::{Claim, Claims};
use super::nest::{Nest, shorten};
use super::sum::Sum;
use clematis_core::shape::MAX_RANK;
use clematis_core::{DType, Error, Kind, Result, Shape, Spec, bail, ensure};
use std::collections::HashSet;

/// The longest header that is read, as the format has it.
pub const LONGEST: u64 = 100_000_000;
/// Where metadata stands; no tensor can be called so.
pub const METADATA: &str = "__metadata__";
/// The version of what we put into metadata.
pub const FORMAT: u32 = 1;
/// The most bytes of all paths of a structure.
const PATHS: usize = 400_000_000;
/// What a plain value may take while it is read.
const VALUE: u64 = 64;
/// What all may take, however small the file.
const ROOM: u64 = 512 << 20;
/// Bytes of length in front.
pub const FRONT: u64 = 8;
/// A checksum that is not known yet.
pub const ZEROS: &str = "00000000000000000000000000000000";

/// One tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its path.
    pub name: String,
    /// What it is.
    pub spec: Spec,
    /// Its bytes, counted from the end of the header.
    pub start: u64,
    /// Where they end.
    pub end: u64,
}

/// All that stands before the bytes.
#[derive(Debug)]
pub struct Header {
    /// The tensors in the order of their bytes.
    pub entries: Vec<Entry>,
    /// How they nest.
    pub structure: Nest,
    /// The checksum of the data, where it was written by us.
    pub sum: Option<u64>,
}

/// How the format calls an element type; complex128, which it has no name for, goes as two doubles on one more axis.
pub fn name(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "BOOL",
        DType::U8 => "U8",
        DType::U16 => "U16",
        DType::U32 => "U32",
        DType::U64 => "U64",
        DType::I8 => "I8",
        DType::I16 => "I16",
        DType::I32 => "I32",
        DType::I64 => "I64",
        DType::F16 => "F16",
        DType::BF16 => "BF16",
        DType::F32 => "F32",
        DType::F64 | DType::C128 => "F64",
        DType::C64 => "C64",
    }
}

fn dtype(name: &str) -> Option<DType> {
    let named = |d: &DType| *d != DType::C128 && self::name(*d) == name;
    DType::ALL.into_iter().find(named)
}

impl Header {
    /// Reads and checks a header before this many bytes of data.
    pub fn parse(text: &[u8], data: u64) -> Result<Header> {
        let Ok(text) = std::str::from_utf8(text) else {
            bail!(Io, "the header is not UTF-8");
        };
        let claims: Claims = serde_json::from_str(text).map_err(|e| {
            Error::new(
                Kind::Io,
                format!("the header cannot be read: {}", shorten(&e.to_string())),
            )
        })?;
        let metadata = claims.metadata.unwrap_or_default();
        let sum = match metadata.get("clematis_format") {
            Some(version) => {
                ensure!(
                    *version == FORMAT.to_string(),
                    Io,
                    "it is of format `{}`, this Clematis reads {FORMAT}",
                    shorten(version)
                );
                Some(check_sum(text, metadata.get("clematis_checksum"))?)
            }
            // One damaged name must not make it a file of somebody else's.
            None if metadata.keys().any(|key| key.starts_with("clematis")) => {
                bail!(Io, "the header is damaged: it does not tell its format")
            }
            None => None,
        };
        let complex: HashSet<String> = match metadata.get("clematis_complex128") {
            Some(names) if sum.is_some() => serde_json::from_str(names)
                .map_err(|_| Error::new(Kind::Io, "the list of complex tensors cannot be read"))?,
            _ => HashSet::new(),
        };
        let mut entries = Vec::with_capacity(claims.tensors.len());
        for (name, claim) in claims.tensors {
            let entry = check_claim(&name, claim, complex.contains(&name));
            entries.push(entry.map_err(|e| at(&name, e))?);
        }
        check_places(&mut entries, data)?;
        let structure = match metadata.get("clematis_structure") {
            Some(text) if sum.is_some() => {
                check_room(text, data)?;
                let value = serde_json::from_str(text).map_err(|_| {
                    Error::new(Kind::Io, "the structure is no JSON, or nested too deep")
                })?;
                let structure = Nest::from_json(value, 0)?;
                check_structure(&structure, entries.iter().map(|e| e.name.as_str()))?;
                structure
            }
            _ => Nest::from_paths(entries.iter().map(|e| e.name.as_str())),
        };
        Ok(Header {
            entries,
            structure,
            sum,
        })
    }
}

fn at(name: &str, e: Error) -> Error {
    Error::new(
        Kind::Io,
        format!("tensor `{}`: {}", shorten(name), e.message()),
    )
}

/// Checks the checksum of the header; gives that of the data.
fn check_sum(text: &str, digits: Option<&String>) -> Result<u64> {
    // Small digits only: one text for one number.
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let digits = digits.filter(|d| d.len() == ZEROS.len() && d.bytes().all(is_digit));
    let Some(digits) = digits else {
        bail!(Io, "its checksum is missing");
    };
    let half = |text: &str| u64::from_str_radix(text, 16).ok();
    let (Some(header), Some(data)) = (half(&digits[..16]), half(&digits[16..])) else {
        bail!(Io, "its checksum is no number");
    };
    // Quotes inside of any text have a backslash before them, so this is found where it is meant.
    let field = format!("\"clematis_checksum\":\"{digits}\"");
    let zeroed = text.replacen(&field, &format!("\"clematis_checksum\":\"{ZEROS}\""), 1);
    let mut sum = Sum::new();
    sum.add(zeroed.as_bytes());
    ensure!(
        sum.done() == header,
        Io,
        "the header is damaged, or the file was never finished: its checksum is wrong"
    );
    Ok(data)
}

/// A tensor with a known element type, whose shape and bytes fit each other.
fn check_claim(name: &str, claim: Claim, is_complex: bool) -> Result<Entry> {
    let Some(mut dtype) = self::dtype(&claim.dtype) else {
        bail!(
            Io,
            "no element type is called `{}` here",
            shorten(&claim.dtype)
        );
    };
    let mut sizes = claim.shape;
    if is_complex {
        ensure!(
            dtype == DType::F64 && sizes.pop() == Some(2),
            Io,
            "complex128 is stored as pairs of F64"
        );
        dtype = DType::C128;
    }
    ensure!(
        sizes.len() <= MAX_RANK,
        Io,
        "{} axes, the most is {MAX_RANK}",
        sizes.len()
    );
    let most = i64::MAX as u64 / 16;
    let count = sizes
        .iter()
        .try_fold(1u64, |n, &size| n.checked_mul(size).filter(|n| *n <= most));
    let count = count.filter(|_| sizes.iter().all(|&size| size <= most));
    let Some(count) = count else {
        bail!(Io, "more elements than can be numbered");
    };
    let (start, end) = claim.data_offsets;
    let bytes = count * dtype.size() as u64;
    ensure!(
        end.checked_sub(start) == Some(bytes),
        Io,
        "{bytes} bytes were expected, the offsets are {start} and {end}"
    );
    let sizes: Vec<usize> = sizes.into_iter().map(|size| size as usize).collect();
    let spec = Spec::new(dtype, Shape::from_sizes(&sizes));
    spec.shape.check("load")?;
    Ok(Entry {
        name: name.into(),
        spec,
        start,
        end,
    })
}

/// Names once each; bytes side by side, from the end of the header to the end of the file.
fn check_places(entries: &mut [Entry], data: u64) -> Result<()> {
    let mut names = HashSet::new();
    for e in entries.iter() {
        ensure!(
            names.insert(e.name.as_str()),
            Io,
            "tensor `{}` stands there twice",
            shorten(&e.name)
        );
    }
    entries.sort_by_key(|e| (e.start, e.end));
    let mut end = 0;
    for e in entries.iter() {
        ensure!(
            e.start == end,
            Io,
            "tensor `{}`: its bytes begin at {}, those before it end at {end}",
            shorten(&e.name),
            e.start
        );
        end = e.end;
    }
    ensure!(
        end == data,
        Io,
        "the tensors take {end} bytes, the file has {data}"
    );
    Ok(())
}

/// Refuses a structure whose values would take more memory than the tensors, unless that is little.
///
/// A digit and a comma are two bytes, the value that they become takes a good deal more.
pub fn check_room(structure: &str, data: u64) -> Result<()> {
    let commas = structure.bytes().filter(|&b| b == b',').count() as u64;
    ensure!(
        commas * VALUE <= data.max(ROOM),
        Io,
        "the structure has too many plain values: {commas} commas"
    );
    Ok(())
}

/// The tensors of a structure are these.
pub fn check_structure<'a>(structure: &Nest, names: impl Iterator<Item = &'a str>) -> Result<()> {
    ensure!(
        structure.path_bytes(0) <= PATHS,
        Io,
        "the paths of the structure take more than {PATHS} bytes"
    );
    let mut own = structure.tensors();
    let mut names: Vec<&str> = names.collect();
    own.sort_unstable();
    names.sort_unstable();
    if let Some(twice) = own.windows(2).find(|w| w[0] == w[1]) {
        bail!(
            Io,
            "two tensors of the structure have the path `{}`",
            shorten(&twice[0])
        );
    }
    ensure!(
        own == names,
        Io,
        "the structure and the tensors do not belong together"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn parse(tensors: Value, data: u64) -> Result<Header> {
        Header::parse(tensors.to_string().as_bytes(), data)
    }

    fn tensor(dtype: &str, shape: Value, start: u64, end: u64) -> Value {
        json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]})
    }

    #[test]
    fn files_of_others_are_read_by_their_names() {
        let header = parse(
            json!({"l.w": tensor("F32", json!([2]), 4, 12), "l.b": tensor("BOOL", json!([4]), 0, 4)}),
            12,
        )
        .unwrap();
        assert_eq!(header.entries[1].spec.to_string(), "f32[2]");
        assert_eq!(header.structure.tensors(), ["l.b", "l.w"]);
        assert!(header.sum.is_none());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let huge = 1u64 << 62;
        for (what, tensors, data) in [
            (
                "overlap",
                json!({"a": tensor("U8", json!([4]), 0, 4), "b": tensor("U8", json!([4]), 2, 6)}),
                6,
            ),
            (
                "a gap",
                json!({"a": tensor("U8", json!([4]), 0, 4), "b": tensor("U8", json!([1]), 5, 6)}),
                6,
            ),
            (
                "beyond the end",
                json!({"a": tensor("U8", json!([40]), 0, 40)}),
                4,
            ),
            ("too few", json!({"a": tensor("U8", json!([4]), 0, 4)}), 5),
            ("backwards", json!({"a": tensor("U8", json!([4]), 4, 0)}), 4),
            (
                "a huge count",
                json!({"a": tensor("U8", json!([huge, huge]), 0, 4)}),
                4,
            ),
            (
                "huge and empty",
                json!({"a": tensor("U8", json!([0, u64::MAX]), 0, 0)}),
                0,
            ),
            (
                "overflow",
                json!({"a": tensor("F64", json!([u64::MAX / 4]), 0, u64::MAX)}),
                4,
            ),
            (
                "many axes",
                json!({"a": tensor("U8", json!(vec![1; 65]), 0, 1)}),
                1,
            ),
            (
                "negative",
                json!({"a": tensor("U8", json!([-1, -4]), 0, 4)}),
                4,
            ),
            (
                "a fraction",
                json!({"a": tensor("U8", json!([1.5]), 0, 1)}),
                1,
            ),
            (
                "an unknown type",
                json!({"a": tensor("F8_E4M3", json!([4]), 0, 4)}),
                4,
            ),
            (
                "no type",
                json!({"a": {"shape": [1], "data_offsets": [0, 1]}}),
                1,
            ),
            ("no object", json!([1, 2]), 0),
            ("metadata of numbers", json!({"__metadata__": {"a": 1}}), 0),
            (
                "a newer format",
                json!({"__metadata__": {"clematis_format": "2"}}),
                0,
            ),
            (
                "no format",
                json!({"__metadata__": {"clematis_checksum": ZEROS}}),
                0,
            ),
            (
                "no checksum",
                json!({"__metadata__": {"clematis_format": "1"}}),
                0,
            ),
            (
                "a wrong checksum",
                json!({"__metadata__": {"clematis_format": "1", "clematis_checksum": ZEROS}}),
                0,
            ),
        ] {
            assert_eq!(parse(tensors, data).unwrap_err().kind(), Kind::Io, "{what}");
        }
        let one = tensor("U8", json!([]), 0, 1);
        let twice = format!("{{\"a\":{one},\"a\":{one}}}");
        assert!(Header::parse(twice.as_bytes(), 1).is_err());
        assert!(Header::parse(b"{\"\xFF\":1}", 0).is_err());
        assert!(Header::parse("[".repeat(100_000).as_bytes(), 0).is_err());
        assert!(Header::parse(b"", 0).is_err());
    }

    #[test]
    fn each_element_type_has_a_name_of_its_own() {
        for d in DType::ALL.into_iter().filter(|d| *d != DType::C128) {
            assert_eq!(dtype(name(d)), Some(d));
        }
    }
}
