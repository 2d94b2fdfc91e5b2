//! Tensors of ONNX files: dtype codes, the encodings of elements, external data.

use super::low_precision::{LowPrecision, low_precision};
use super::proto::Tensor;
use super::wire::{Message, number};
use clematis_core::host::{Bytes, Host};
use clematis_core::{DType, Error, Kind, Result, Shape, Spec, bail};
use clematis_nn::file;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Component, Path};

/// Our dtype for an ONNX dtype code; low-precision ones map to the wider dtype that holds them.
pub fn dtype(code: i64) -> Result<DType> {
    match own(code).or_else(|| low_precision(code).map(LowPrecision::storage_dtype)) {
        Some(dtype) => Ok(dtype),
        None => bail!(Unsupported, "onnx: unsupported dtype {}", name(code)),
    }
}

fn own(code: i64) -> Option<DType> {
    Some(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        4 => DType::U16,
        5 => DType::I16,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        12 => DType::U32,
        13 => DType::U64,
        14 => DType::C64,
        15 => DType::C128,
        16 => DType::BF16,
        _ => return None,
    })
}

/// ONNX's name of a dtype code.
pub fn name(code: i64) -> String {
    let known = match code {
        0 => "undefined",
        8 => "string",
        17 => "float8e4m3fn",
        18 => "float8e4m3fnuz",
        19 => "float8e5m2",
        20 => "float8e5m2fnuz",
        21 => "uint4",
        22 => "int4",
        23 => "float4e2m1",
        24 => "float8e8m0",
        25 => "uint2",
        26 => "int2",
        _ => {
            return own(code)
                .map_or_else(|| format!("number {code}"), |d| d.long_name().to_string());
        }
    };
    known.to_string()
}

/// The ONNX dtype code of our dtype.
pub fn code(dtype: DType) -> i64 {
    match dtype {
        DType::F32 => 1,
        DType::U8 => 2,
        DType::I8 => 3,
        DType::U16 => 4,
        DType::I16 => 5,
        DType::I32 => 6,
        DType::I64 => 7,
        DType::Bool => 9,
        DType::F16 => 10,
        DType::F64 => 11,
        DType::U32 => 12,
        DType::U64 => 13,
        DType::C64 => 14,
        DType::C128 => 15,
        DType::BF16 => 16,
    }
}

/// Dtype and shape, both known; a size that exceeds the address space is an error.
pub fn spec(x: &Tensor<'_>) -> Result<Spec> {
    let wrong = || {
        let words = format!("onnx: tensor `{}` has the sizes {:?}", x.name, x.dims);
        Error::new(Kind::Convert, words)
    };
    let sizes = x
        .dims
        .iter()
        .map(|&n| usize::try_from(n).map_err(|_| wrong()));
    let sizes = sizes.collect::<Result<Vec<usize>>>()?;
    let dtype = dtype(x.dtype).map_err(|e| e.note(format!("in tensor `{}`", x.name)))?;
    let bytes = sizes
        .iter()
        .try_fold(dtype.size(), |n, &size| n.checked_mul(size.max(1)));
    if bytes.is_none_or(|n| n > isize::MAX as usize) {
        return Err(wrong());
    }
    Ok(Spec::new(dtype, Shape::from_sizes(&sizes)))
}

/// The elements of a tensor; external data must be in or below `folder`.
pub fn host(x: &Tensor<'_>, folder: Option<&Path>) -> Result<Host> {
    let spec = spec(x)?;
    if let Some(kind) = low_precision(x.dtype) {
        return unpacked(x, kind, spec, folder);
    }
    if x.is_external {
        let bytes = external(x, &spec, spec.bytes(), folder)?;
        return finished(bytes, spec);
    }
    let Some(raw) = x.raw else {
        return typed(x, spec);
    };
    let bytes = spec.bytes();
    if raw.len() != bytes {
        bail!(
            Convert,
            "onnx: tensor `{}` is {spec} and needs {bytes} bytes, got {}",
            x.name,
            raw.len()
        );
    }
    let mut own = Bytes::zeroed(bytes)?;
    own.as_mut_slice::<u8>().copy_from_slice(raw);
    finished(own, spec)
}

/// Bytes as a host value: booleans are normalized to 0 or 1, and bytes are in native endianness.
fn finished(mut bytes: Bytes, spec: Spec) -> Result<Host> {
    if spec.dtype == DType::Bool {
        for x in bytes.as_mut_slice::<u8>() {
            *x = u8::from(*x != 0);
        }
    }
    if cfg!(target_endian = "big") {
        let width = match spec.dtype {
            DType::C64 | DType::C128 => spec.dtype.size() / 2,
            other => other.size(),
        };
        for element in bytes.as_mut_slice::<u8>().chunks_exact_mut(width) {
            element.reverse();
        }
    }
    Host::new(spec, bytes)
}

/// Elements of a low-precision dtype, several per byte, the first in the low bits.
fn unpacked(x: &Tensor<'_>, kind: LowPrecision, spec: Spec, folder: Option<&Path>) -> Result<Host> {
    let (count, bits) = (spec.shape.count(), kind.bits() as usize);
    let wanted = count.saturating_mul(bits).div_ceil(8);
    let mut kept = Vec::new();
    let outside;
    let packed: &[u8] = if x.is_external {
        outside = external(x, &spec, wanted, folder)?;
        outside.as_slice::<u8>()
    } else if let Some(raw) = x.raw {
        raw
    } else {
        for (_, piece) in x.typed.iter().filter(|(at, _)| *at == 5) {
            let mut rest = *piece;
            while !rest.is_empty() {
                kept.push(number(&mut rest)? as u8);
            }
        }
        &kept
    };
    if packed.len() != wanted {
        bail!(
            Convert,
            "onnx: tensor `{}` is {}{} and needs {wanted} bytes, got {}",
            x.name,
            name(x.dtype),
            spec.shape,
            packed.len()
        );
    }
    let element = |i: usize| kind.decode(packed[i * bits / 8] >> (i * bits % 8));
    match spec.dtype {
        DType::I8 => Host::from_slice(
            &(0..count).map(|i| element(i) as i8).collect::<Vec<_>>(),
            spec.shape,
        ),
        DType::U8 => Host::from_slice(
            &(0..count).map(|i| element(i) as u8).collect::<Vec<_>>(),
            spec.shape,
        ),
        _ => Host::from_slice(
            &(0..count).map(|i| element(i) as f32).collect::<Vec<_>>(),
            spec.shape,
        ),
    }
}

/// Elements in the field of their dtype: each takes at least one byte of the file, which bounds their number.
fn typed(x: &Tensor<'_>, spec: Spec) -> Result<Host> {
    let count = spec.shape.count();
    let complex = matches!(spec.dtype, DType::C64 | DType::C128);
    let numbers = if complex { count * 2 } else { count };
    let (field, least) = match spec.dtype {
        DType::F32 | DType::C64 => (4, 4),
        DType::F64 | DType::C128 => (10, 8),
        DType::I64 => (7, 1),
        DType::U32 | DType::U64 => (11, 1),
        _ => (5, 1),
    };
    let pieces = || {
        x.typed
            .iter()
            .filter(|(at, _)| *at == field)
            .map(|(_, bytes)| *bytes)
    };
    let there: usize = pieces().map(<[u8]>::len).sum();
    let missing = |have: usize| {
        let words = format!(
            "onnx: tensor `{}` is {spec} and has {numbers} numbers, got {have}",
            x.name
        );
        Error::new(Kind::Convert, words)
    };
    if there / least < numbers || least > 1 && there != numbers * least {
        return Err(missing(there / least));
    }
    let mut own = Bytes::zeroed(spec.bytes())?;
    let out = own.as_mut_slice::<u8>();
    let mut at = 0;
    if least > 1 {
        for piece in pieces() {
            out[at..at + piece.len()].copy_from_slice(piece);
            at += piece.len();
        }
        return finished(own, spec);
    }
    let width = spec.dtype.size();
    for piece in pieces() {
        let mut rest = piece;
        while !rest.is_empty() {
            let value = number(&mut rest)?.to_le_bytes();
            let Some(place) = out.get_mut(at..at + width) else {
                return Err(missing(at / width + 1));
            };
            place.copy_from_slice(&value[..width]);
            at += width;
        }
    }
    if at != out.len() {
        return Err(missing(at / width));
    }
    finished(own, spec)
}

/// The bytes of a tensor with external data.
fn external(x: &Tensor<'_>, spec: &Spec, wanted: usize, folder: Option<&Path>) -> Result<Bytes> {
    let entry = |key: &str| x.external.iter().find(|(k, _)| *k == key).map(|(_, v)| *v);
    let number = |key: &str| -> Result<Option<u64>> {
        let Some(text) = entry(key) else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(n) => Ok(Some(n)),
            Err(_) => bail!(
                Convert,
                "onnx: tensor `{}`: expected {key} to be a number, got `{text}`",
                x.name
            ),
        }
    };
    let place = entry("location").unwrap_or_default();
    let Some(folder) = folder else {
        bail!(
            Convert,
            "onnx: tensor `{}` has external data in `{place}`; give the model's path, not its bytes",
            x.name
        );
    };
    let inside = Path::new(place)
        .components()
        .all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
    if place.is_empty() || !inside {
        bail!(
            Convert,
            "onnx: tensor `{}` has external data in `{place}`, which is not below the model's folder",
            x.name
        );
    }
    let path = folder.join(place);
    let failed = |e: std::io::Error| Error::new(Kind::Io, format!("onnx: {}: {e}", path.display()));
    // The file may be a link, so its target is checked.
    let (real, home) = (
        path.canonicalize().map_err(failed)?,
        folder.canonicalize().map_err(failed)?,
    );
    if !real.starts_with(&home) {
        bail!(
            Convert,
            "onnx: tensor `{}` has external data in `{}`, which is outside of the model's folder",
            x.name,
            real.display()
        );
    }
    let (mut file, size) = file::open("onnx", &real)?;
    let (offset, bytes) = (number("offset")?.unwrap_or(0), wanted as u64);
    if let Some(given) = number("length")?
        && given != bytes
    {
        bail!(
            Convert,
            "onnx: tensor `{}` is {spec} and needs {bytes} bytes, got {given}",
            x.name
        );
    }
    if offset.checked_add(bytes).is_none_or(|end| end > size) {
        bail!(
            Convert,
            "onnx: tensor `{}` is {bytes} bytes at offset {offset} of `{}`, which has {}",
            x.name,
            path.display(),
            size
        );
    }
    file.seek(SeekFrom::Start(offset)).map_err(failed)?;
    let mut own = Bytes::zeroed(wanted)?;
    file.read_exact(own.as_mut_slice::<u8>()).map_err(failed)?;
    Ok(own)
}

/// The `TensorProto` up to its elements, which have to follow.
pub fn head(name: &str, host: &Host) -> Vec<u8> {
    let mut out = Message::default();
    for dim in host.spec().shape.dims() {
        out.int(1, dim.value().unwrap_or(0));
    }
    out.int(2, code(host.spec().dtype)).put(8, name);
    let mut bytes = out.into_bytes();
    bytes.extend(prefix(9, host.bytes().len()));
    bytes
}

/// The prefix of a length-delimited field of this many bytes.
pub fn prefix(at: u32, length: usize) -> Vec<u8> {
    let mut out = Message::default();
    out.start(at, length);
    out.into_bytes()
}
