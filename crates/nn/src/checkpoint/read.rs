//! Reads checkpoints from untrusted files.
//!
//! Every claim is checked against the size of the file before use, so tensors never take more memory than the file
//! has bytes. Bytes are read directly into the tensor's memory.

use super::checksum::Checksum;
use super::header::{FRONT, Header, LONGEST};
use super::structure::{Structure, shorten};
use crate::file;
use clematis_core::host::Bytes;
use clematis_core::limit::check_available;
use clematis_core::{DType, Error, Host, Kind, Result, Spec, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Chunk size for reading tensors that are skipped; a multiple of a word.
const CHUNK: usize = 1 << 20;

/// An open file with a validated header.
pub struct Reader {
    path: PathBuf,
    file: File,
    data: u64,
    header: Header,
    places: HashMap<String, usize>,
}

impl Reader {
    /// Opens a file and validates its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader> {
        let path = path.as_ref();
        let failed = |e: io::Error| failed(path, e);
        let refused = |e: Error| refused(path, e.message());
        let (mut file, len) = file::open("load", path)?;
        if len < FRONT {
            return Err(self::refused(
                path,
                &format!("expected a header, got {len} bytes"),
            ));
        }
        let mut front = [0; FRONT as usize];
        file.read_exact(&mut front).map_err(failed)?;
        let size = u64::from_le_bytes(front);
        if size > LONGEST || size > len - FRONT {
            let message = format!(
                "expected a header of {size} bytes in a file of {len}: it is truncated, or not a checkpoint"
            );
            return Err(self::refused(path, &message));
        }
        let mut text = vec![0; size as usize];
        file.read_exact(&mut text).map_err(failed)?;
        let data = FRONT + size;
        let header = Header::parse(&text, len - data).map_err(refused)?;
        let places = header
            .entries
            .iter()
            .enumerate()
            .map(|(i, e)| (e.name.clone(), i))
            .collect();
        Ok(Reader {
            path: path.into(),
            file,
            data,
            header,
            places,
        })
    }

    /// The tree structure, with the plain values in it.
    pub fn structure(&self) -> &Structure {
        &self.header.structure
    }

    /// The tree structure, owned.
    pub fn into_structure(self) -> Structure {
        self.header.structure
    }

    /// The spec of the tensor at a path.
    pub fn spec(&self, name: &str) -> Option<&Spec> {
        let place = *self.places.get(name)?;
        Some(&self.header.entries[place].spec)
    }

    /// All tensors, in file order.
    pub fn specs(&self) -> impl Iterator<Item = (&str, &Spec)> {
        self.header
            .entries
            .iter()
            .map(|e| (e.name.as_str(), &e.spec))
    }

    /// Reads the selected tensors. All bytes of the file are read, because the checksum covers them.
    pub fn read(&mut self, wanted: impl Fn(&str) -> bool) -> Result<Vec<(String, Host)>> {
        let path = &self.path;
        let file = &mut self.file;
        let failed = |e: io::Error| failed(path, e);
        file.seek(SeekFrom::Start(self.data)).map_err(failed)?;
        let mut out = Vec::new();
        let mut sum = Checksum::new();
        let taken = self.header.entries.iter().filter(|e| wanted(&e.name));
        let taken = taken.map(|e| e.end - e.start).sum::<u64>();
        check_available("load", usize::try_from(taken).unwrap_or(usize::MAX))?;
        for e in &self.header.entries {
            let len = (e.end - e.start) as usize;
            if !wanted(&e.name) {
                let mut chunk = vec![0; len.min(CHUNK)];
                let mut left = len;
                while left > 0 {
                    let part = &mut chunk[..left.min(CHUNK)];
                    file.read_exact(part).map_err(failed)?;
                    sum.add(part);
                    left -= part.len();
                }
                continue;
            }
            let mut bytes = Bytes::zeroed(len)?;
            file.read_exact(bytes.as_mut_slice::<u8>())
                .map_err(failed)?;
            sum.add(bytes.as_slice());
            if e.spec.dtype == DType::Bool && bytes.as_slice::<u8>().iter().any(|&b| b > 1) {
                let message = format!("tensor `{}`: expected booleans of 0 or 1", shorten(&e.name));
                return Err(refused(path, &message));
            }
            out.push((e.name.clone(), Host::new(e.spec.clone(), bytes)?));
        }
        if let Some(own) = self.header.sum {
            ensure!(
                own == sum.done(),
                Io,
                "load: {}: wrong checksum: the data are damaged",
                path.display()
            );
        }
        Ok(out)
    }
}

#[cold]
fn failed(path: &Path, e: io::Error) -> Error {
    let what = match e.kind() {
        io::ErrorKind::UnexpectedEof => "unexpected end of file".to_owned(),
        _ => e.to_string(),
    };
    Error::new(Kind::Io, format!("load: {}: {what}", path.display())).with_source(e)
}

#[cold]
fn refused(path: &Path, message: &str) -> Error {
    Error::new(Kind::Io, format!("load: {}: {message}", path.display()))
}
