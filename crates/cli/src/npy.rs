//! numpy's .npy and .npz files, versions 1 to 3. A header is checked against the file's length before anything is
//! allocated.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::Path;

use clematis::host::Bytes;
use clematis::nn::file;
use clematis::{DType, Host, Shape, Spec};

use crate::error::{Error, Result};
use crate::model;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Maximum length of a header.
const LONGEST: usize = 1 << 16;

/// The parsed header.
struct Header {
    dtype: DType,
    swapped: bool,
    fortran_order: bool,
    shape: Vec<usize>,
}

fn wrong(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(format!("{}: {what}", path.display()))
}

/// Reads an array.
pub fn read(path: &Path) -> Result<Host> {
    let (file, length) = file::open("read", path).map_err(Error::from_engine)?;
    parsed(path, BufReader::new(file), length)
}

/// Parses an array of `length` bytes; the path is only used in errors.
pub fn parsed(path: &Path, mut file: impl Read, length: u64) -> Result<Host> {
    let mut start = [0u8; 8];
    file.read_exact(&mut start)
        .map_err(|_| wrong(path, "too short for a numpy file"))?;
    if start[..6] != MAGIC[..] {
        return Err(wrong(path, "not a numpy file (.npy)"));
    }
    let (size, before) = match start[6] {
        1 => {
            let mut two = [0u8; 2];
            file.read_exact(&mut two).map_err(|e| wrong(path, e))?;
            (usize::from(u16::from_le_bytes(two)), 10u64)
        }
        2 | 3 => {
            let mut four = [0u8; 4];
            file.read_exact(&mut four).map_err(|e| wrong(path, e))?;
            (u32::from_le_bytes(four) as usize, 12)
        }
        other => {
            return Err(wrong(
                path,
                format!("unsupported version {other} of numpy's format, expected 1, 2 or 3"),
            ));
        }
    };
    if size > LONGEST || before + size as u64 > length {
        return Err(wrong(
            path,
            format!("invalid header size {size} in a file of {length} bytes"),
        ));
    }
    let mut text = vec![0u8; size];
    file.read_exact(&mut text).map_err(|e| wrong(path, e))?;
    let header = parse(&String::from_utf8_lossy(&text)).map_err(|what| wrong(path, what))?;
    let count = header
        .shape
        .iter()
        .try_fold(header.dtype.size(), |n, &d| n.checked_mul(d));
    let left = length - before - size as u64;
    let bytes = match count {
        Some(bytes) if bytes as u64 == left => bytes,
        _ => {
            let what = format!(
                "{} of shape {:?} does not match the {left} bytes that follow",
                header.dtype, header.shape
            );
            return Err(wrong(path, what));
        }
    };
    let mut data = Bytes::zeroed(bytes).map_err(Error::from_engine)?;
    file.read_exact(data.as_mut_slice::<u8>())
        .map_err(|e| wrong(path, e))?;
    finished(data, header).map_err(|e| wrong(path, e))
}

/// Converts to native byte order and row-major layout.
fn finished(mut data: Bytes, header: Header) -> clematis::Result<Host> {
    let dtype = header.dtype;
    if header.swapped {
        let width = if dtype.is_complex() {
            dtype.size() / 2
        } else {
            dtype.size()
        };
        for element in data.as_mut_slice::<u8>().chunks_exact_mut(width) {
            element.reverse();
        }
    }
    if dtype == DType::Bool {
        for x in data.as_mut_slice::<u8>() {
            *x = u8::from(*x != 0);
        }
    }
    let mut shape = header.shape;
    if !header.fortran_order || shape.len() < 2 {
        return Host::new(Spec::new(dtype, Shape::from_sizes(&shape)), data);
    }
    shape.reverse();
    let transposed = clematis::from_host(Host::new(
        Spec::new(dtype, Shape::from_sizes(&shape)),
        data,
    )?)?;
    let order: Vec<i64> = (0..shape.len() as i64).rev().collect();
    clematis::permute(transposed, order).done()?.to_host()
}

/// The value of a key in the header's dictionary, with the rest of the text.
fn entry<'a>(text: &'a str, key: &str) -> std::result::Result<&'a str, String> {
    let missing = || format!("missing key `{key}` in the header");
    let quoted = [format!("'{key}'"), format!("\"{key}\"")];
    let at = quoted
        .iter()
        .find_map(|k| text.find(k.as_str()).map(|i| i + k.len()))
        .ok_or_else(missing)?;
    let rest = text[at..]
        .trim_start()
        .strip_prefix(':')
        .ok_or_else(missing)?
        .trim_start();
    let end = if rest.starts_with('(') {
        rest.find(')').map(|i| i + 1)
    } else {
        rest.find([',', '}'])
    };
    Ok(rest[..end.ok_or_else(missing)?].trim())
}

fn parse(text: &str) -> std::result::Result<Header, String> {
    let descr = entry(text, "descr")?;
    let word = descr.trim_matches(['\'', '"']);
    let (order, kind) = match word.split_at_checked(1) {
        Some((order @ ("<" | ">" | "|" | "="), kind)) => (order, kind),
        _ => ("=", word),
    };
    let dtype = match kind {
        "b1" => DType::Bool,
        "u1" => DType::U8,
        "u2" => DType::U16,
        "u4" => DType::U32,
        "u8" => DType::U64,
        "i1" => DType::I8,
        "i2" => DType::I16,
        "i4" => DType::I32,
        "i8" => DType::I64,
        "f2" => DType::F16,
        "f4" => DType::F32,
        "f8" => DType::F64,
        "c8" => DType::C64,
        "c16" => DType::C128,
        _ => return Err(format!("unsupported dtype {descr:.40}")),
    };
    let fortran_order = match entry(text, "fortran_order")? {
        "True" => true,
        "False" => false,
        other => return Err(format!("`fortran_order` is {other:.40}")),
    };
    let shape = entry(text, "shape")?;
    let inside = shape.strip_prefix('(').and_then(|s| s.strip_suffix(')'));
    let inside = inside.ok_or_else(|| format!("invalid shape {shape:.40}"))?;
    let sizes = inside.split(',').map(str::trim).filter(|s| !s.is_empty());
    let sizes = sizes.map(|s| {
        s.trim_end_matches('L')
            .parse::<usize>()
            .map_err(|_| format!("invalid shape {shape:.80}"))
    });
    let shape = sizes.collect::<std::result::Result<Vec<_>, _>>()?;
    if shape.len() > 64 {
        return Err(format!("{} axes", shape.len()));
    }
    let big = if cfg!(target_endian = "big") {
        "<"
    } else {
        ">"
    };
    Ok(Header {
        dtype,
        swapped: order == big,
        fortran_order,
        shape,
    })
}

/// The header of an array, including the magic number.
fn header(path: &Path, spec: &Spec) -> Result<Vec<u8>> {
    let kind = match spec.dtype {
        DType::Bool => "|b1",
        DType::U8 => "|u1",
        DType::I8 => "|i1",
        DType::U16 => "<u2",
        DType::U32 => "<u4",
        DType::U64 => "<u8",
        DType::I16 => "<i2",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::F16 => "<f2",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
        DType::C64 => "<c8",
        DType::C128 => "<c16",
        DType::BF16 => return Err(wrong(path, "numpy has no bfloat16")),
    };
    let kind = if cfg!(target_endian = "big") {
        kind.replace('<', ">")
    } else {
        kind.to_string()
    };
    let sizes: Vec<String> = spec.shape.sizes().iter().map(usize::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        sizes.join(", ")
    );
    // Data start at a multiple of 64.
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.push_str(&" ".repeat(padded - header.len() - 1));
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| wrong(path, "too many axes"))?;
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend(length.to_le_bytes());
    out.extend(header.as_bytes());
    Ok(out)
}

/// Writes an array.
pub fn write(path: &Path, host: &Host) -> Result<()> {
    let header = header(path, host.spec())?;
    model::replace(path, |file| {
        let mut file = BufWriter::new(file);
        file.write_all(&header)
            .and_then(|()| file.write_all(host.bytes().as_slice::<u8>()))
            .and_then(|()| file.flush())
            .map_err(|e| wrong(path, e))
    })
}

/// Writes named arrays to one .npz file, an uncompressed zip archive.
pub fn write_all(path: &Path, hosts: &[(&str, Host)]) -> Result<()> {
    let mut pieces: Vec<(String, Vec<u8>, &Host, u32)> = Vec::new();
    for (name, host) in hosts {
        let header = header(path, host.spec())?;
        let mut sum = flate2::Crc::new();
        sum.update(&header);
        sum.update(host.bytes().as_slice::<u8>());
        // A name is a path in the archive.
        let name = format!("{}.npy", name.replace(['/', '\\', ':'], "_"));
        pieces.push((name, header, host, sum.sum()));
    }
    let size = |i: usize| -> Result<u32> {
        let (_, header, host, _) = &pieces[i];
        let size = header.len() + host.bytes().len();
        u32::try_from(size)
            .map_err(|_| wrong(path, format!("{size} bytes in one array; write it as .npy")))
    };
    let (mut places, mut at) = (Vec::new(), 0u64);
    let about = |i: usize| -> Result<Vec<u8>> {
        let mut out = Vec::new();
        // Version 2.0, UTF-8 names, stored, midnight of the first day that zip can represent.
        for word in [20u16, 0x800, 0, 0, 0x21] {
            out.extend(word.to_le_bytes());
        }
        for word in [pieces[i].3, size(i)?, size(i)?] {
            out.extend(word.to_le_bytes());
        }
        out.extend((pieces[i].0.len() as u16).to_le_bytes());
        out.extend([0, 0]);
        Ok(out)
    };
    model::replace(path, |file| {
        let mut file = BufWriter::new(file);
        let mut put = |bytes: &[u8]| file.write_all(bytes).map_err(|e| wrong(path, e));
        for (i, (name, header, host, _)) in pieces.iter().enumerate() {
            places.push(at);
            let about = about(i)?;
            for bytes in [b"PK\x03\x04", &about[..], name.as_bytes(), header] {
                put(bytes)?;
                at += bytes.len() as u64;
            }
            put(host.bytes().as_slice::<u8>())?;
            at += host.bytes().len() as u64;
        }
        let start = at;
        for (i, (name, ..)) in pieces.iter().enumerate() {
            let place = u32::try_from(places[i]).map_err(|_| wrong(path, "more than 4 GiB"))?;
            let about = about(i)?;
            let end = place.to_le_bytes();
            let parts: [&[u8]; 6] = [
                b"PK\x01\x02",
                &20u16.to_le_bytes(),
                &about,
                &[0; 10],
                &end,
                name.as_bytes(),
            ];
            for bytes in parts {
                put(bytes)?;
                at += bytes.len() as u64;
            }
        }
        let wide = |x: u64| u32::try_from(x).map_err(|_| wrong(path, "more than 4 GiB"));
        let count = u16::try_from(pieces.len()).map_err(|_| wrong(path, "too many arrays"))?;
        put(b"PK\x05\x06\0\0\0\0")?;
        put(&count.to_le_bytes())?;
        put(&count.to_le_bytes())?;
        put(&wide(at - start)?.to_le_bytes())?;
        put(&wide(start)?.to_le_bytes())?;
        put(&[0, 0])?;
        file.flush().map_err(|e| wrong(path, e))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_round_trip() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        for shape in [vec![], vec![3], vec![2, 3], vec![0, 4]] {
            let count = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|i: usize| i as f32 / 3.0).collect();
            let host = Host::from_slice(&values, Shape::from_sizes(&shape)).expect("fits");
            write(&path, &host).expect("written");
            let back = read(&path).expect("read");
            assert_eq!(back.spec(), host.spec());
            assert_eq!(back.to_vec::<f32>().expect("floats"), values);
        }
    }

    #[test]
    fn headers_are_checked() {
        for bad in [
            "{'descr': '<f4', 'fortran_order': False, 'shape': (2, }",
            "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
            "{'descr': '<f4', 'shape': (2,), }",
            "",
            "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        ] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        let header =
            "{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }\n";
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        std::fs::write(&path, &bytes).expect("written");
        assert!(read(&path).is_err());
        std::fs::write(&path, b"\x93NUMPY\x02\x00\xff\xff\xff\xff").expect("written");
        assert!(read(&path).is_err());
    }

    #[test]
    fn fortran_order_and_byte_order_are_converted() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.npy");
        let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
        let mut bytes = b"\x93NUMPY\x03\x00".to_vec();
        bytes.extend((header.len() as u32).to_le_bytes());
        bytes.extend(header.as_bytes());
        for x in [1i16, 4, 2, 5, 3, 6] {
            bytes.extend(x.to_be_bytes());
        }
        std::fs::write(&path, &bytes).expect("written");
        assert_eq!(
            read(&path).expect("read").to_vec::<i16>().expect("shorts"),
            [1, 2, 3, 4, 5, 6]
        );
    }
}
