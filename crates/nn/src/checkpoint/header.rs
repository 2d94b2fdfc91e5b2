//! The header of a safetensors file: eight bytes of length, then JSON.
//!
//! Owns the names of dtypes, the validation of a header, and the two checksums. The checksum in the metadata has 32
//! digits: 16 for the header, computed with zeros in their place, and 16 for the data.

use super::checksum::Checksum;
use super::raw_header::{RawHeader, RawTensor};
use super::structure::{Structure, shorten};
use clematis_core::shape::MAX_RANK;
use clematis_core::{DType, Error, Kind, Result, Shape, Spec, bail, ensure};
use std::collections::HashSet;

/// Maximum length of a header, from the specification of the format.
pub const LONGEST: u64 = 100_000_000;
/// The name of the metadata entry; reserved, no tensor can have it.
pub const METADATA: &str = "__metadata__";
/// Version of our metadata.
pub const FORMAT: u32 = 1;
/// Maximum length of all paths of a structure together, in bytes.
const PATHS: usize = 400_000_000;
/// Estimated memory of one plain value while it is parsed, in bytes.
const VALUE: u64 = 64;
/// Memory that plain values may take in any file, in bytes.
const MIN_BUDGET: u64 = 512 << 20;
/// Size of the length field, in bytes.
pub const FRONT: u64 = 8;
/// Placeholder of a checksum that is not computed yet.
pub const ZEROS: &str = "00000000000000000000000000000000";

/// A tensor in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The path.
    pub name: String,
    /// Dtype and shape.
    pub spec: Spec,
    /// Start of its bytes, from the end of the header.
    pub start: u64,
    /// End of its bytes.
    pub end: u64,
}

/// A validated header.
#[derive(Debug)]
pub struct Header {
    /// The tensors, ordered by offset.
    pub entries: Vec<Entry>,
    /// The tree structure.
    pub structure: Structure,
    /// The checksum of the data, in files written by us.
    pub sum: Option<u64>,
}

/// The format's name of a dtype. complex128 has none; it is stored as pairs of doubles with one more axis.
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
    /// Parses and validates a header that is followed by `data` bytes.
    pub fn parse(text: &[u8], data: u64) -> Result<Header> {
        let Ok(text) = std::str::from_utf8(text) else {
            bail!(Io, "the header is not UTF-8");
        };
        let claims: RawHeader = serde_json::from_str(text).map_err(|e| {
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
                    "unsupported format version `{}`, expected {FORMAT}",
                    shorten(version)
                );
                Some(verify_header_checksum(
                    text,
                    metadata.get("clematis_checksum"),
                )?)
            }
            // A damaged name must not turn the file into one of another library.
            None if metadata.keys().any(|key| key.starts_with("clematis")) => {
                bail!(Io, "the header is damaged: the format version is missing")
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
            let entry = check_tensor(&name, claim, complex.contains(&name));
            entries.push(entry.map_err(|e| at(&name, e))?);
        }
        check_places(&mut entries, data)?;
        let structure = match metadata.get("clematis_structure") {
            Some(text) if sum.is_some() => {
                check_value_memory(text, data)?;
                let value = serde_json::from_str(text).map_err(|_| {
                    Error::new(
                        Kind::Io,
                        "the structure is not valid JSON, or nested too deeply",
                    )
                })?;
                let structure = Structure::from_json(value, 0)?;
                check_structure(&structure, entries.iter().map(|e| e.name.as_str()))?;
                structure
            }
            _ => Structure::from_paths(entries.iter().map(|e| e.name.as_str())),
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

/// Verifies the header's checksum; returns the checksum of the data.
fn verify_header_checksum(text: &str, digits: Option<&String>) -> Result<u64> {
    // Lowercase digits only, so that a number has one text.
    let is_digit = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let digits = digits.filter(|d| d.len() == ZEROS.len() && d.bytes().all(is_digit));
    let Some(digits) = digits else {
        bail!(Io, "its checksum is missing");
    };
    let half = |text: &str| u64::from_str_radix(text, 16).ok();
    let (Some(header), Some(data)) = (half(&digits[..16]), half(&digits[16..])) else {
        bail!(Io, "its checksum is not a number");
    };
    // Quotes inside strings are escaped, so this finds the field itself.
    let field = format!("\"clematis_checksum\":\"{digits}\"");
    let zeroed = text.replacen(&field, &format!("\"clematis_checksum\":\"{ZEROS}\""), 1);
    let mut sum = Checksum::new();
    sum.add(zeroed.as_bytes());
    ensure!(
        sum.done() == header,
        Io,
        "wrong checksum: the header is damaged, or the file is incomplete"
    );
    Ok(data)
}

/// Validates a tensor: a known dtype, and a byte range that matches the shape.
fn check_tensor(name: &str, claim: RawTensor, is_complex: bool) -> Result<Entry> {
    let Some(mut dtype) = self::dtype(&claim.dtype) else {
        bail!(Io, "unknown dtype `{}`", shorten(&claim.dtype));
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
        "expected at most {MAX_RANK} axes, got {}",
        sizes.len()
    );
    let most = i64::MAX as u64 / 16;
    let count = sizes
        .iter()
        .try_fold(1u64, |n, &size| n.checked_mul(size).filter(|n| *n <= most));
    let count = count.filter(|_| sizes.iter().all(|&size| size <= most));
    let Some(count) = count else {
        bail!(Io, "too many elements");
    };
    let (start, end) = claim.data_offsets;
    let bytes = count * dtype.size() as u64;
    ensure!(
        end.checked_sub(start) == Some(bytes),
        Io,
        "expected {bytes} bytes, got offsets {start} and {end}"
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

/// Checks that names are unique, and that the tensors' bytes are contiguous and fill the file.
fn check_places(entries: &mut [Entry], data: u64) -> Result<()> {
    let mut names = HashSet::new();
    for e in entries.iter() {
        ensure!(
            names.insert(e.name.as_str()),
            Io,
            "duplicate tensor `{}`",
            shorten(&e.name)
        );
    }
    entries.sort_by_key(|e| (e.start, e.end));
    let mut end = 0;
    for e in entries.iter() {
        ensure!(
            e.start == end,
            Io,
            "tensor `{}`: expected its bytes to begin at {end}, got {}",
            shorten(&e.name),
            e.start
        );
        end = e.end;
    }
    ensure!(
        end == data,
        Io,
        "expected {data} bytes of tensors, got {end}"
    );
    Ok(())
}

/// Rejects a structure whose plain values would take more memory than the tensors, unless that is little.
///
/// A digit and a comma are two bytes in the file; the parsed value takes much more.
pub fn check_value_memory(structure: &str, data: u64) -> Result<()> {
    let commas = structure.bytes().filter(|&b| b == b',').count() as u64;
    ensure!(
        commas * VALUE <= data.max(MIN_BUDGET),
        Io,
        "the structure has too many plain values: {commas} commas"
    );
    Ok(())
}

/// Checks that these are the tensors of the structure.
pub fn check_structure<'a>(
    structure: &Structure,
    names: impl Iterator<Item = &'a str>,
) -> Result<()> {
    ensure!(
        structure.path_bytes(0) <= PATHS,
        Io,
        "the paths of the structure exceed {PATHS} bytes"
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
        "the structure and the tensors do not match"
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
    fn invalid_headers_are_rejected() {
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
