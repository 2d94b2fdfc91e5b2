//! Writes checkpoints, with one tensor in memory at a time.

use super::checksum::Checksum;
use super::header::{FRONT, LONGEST, check_structure};
use super::header_writer::{HeaderWriter, places};
use super::structure::Structure;
use crate::file;
use clematis_core::{Error, Kind, Result, Spec, Tensor, ensure};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

/// Writes tensors and their structure.
pub fn write(path: &Path, structure: &Structure, pairs: &[(String, Tensor)]) -> Result<()> {
    let failed = |e: io::Error| {
        Error::new(Kind::Io, format!("save: {}: {e}", path.display())).with_source(e)
    };
    let specs: Vec<(&str, &Spec)> = pairs
        .iter()
        .map(|(name, x)| (name.as_str(), x.spec()))
        .collect();
    let order = places(&specs)?;
    check_structure(structure, specs.iter().map(|(name, _)| *name))?;
    let draft = HeaderWriter::new(structure, order.iter().map(|(_, entry)| entry))?;
    let header = draft.text().as_bytes();
    ensure!(
        header.len() as u64 <= LONGEST,
        Io,
        "save: {}: expected at most {LONGEST} bytes of names and plain values, got {}",
        path.display(),
        header.len()
    );
    file::replace("save", path, |file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        out.write_all(&(header.len() as u64).to_le_bytes())
            .and_then(|()| out.write_all(header))
            .map_err(failed)?;
        let mut sum = Checksum::new();
        for (i, entry) in &order {
            let host = pairs[*i].1.to_host()?;
            let bytes = host.bytes().as_slice::<u8>();
            ensure!(
                bytes.len() as u64 == entry.end - entry.start,
                Internal,
                "save: `{}` has {} bytes",
                entry.name,
                bytes.len()
            );
            sum.add(bytes);
            out.write_all(bytes).map_err(failed)?;
        }
        // The file is invalid until this checksum is written.
        let (place, digits) = draft.checksum(sum.done());
        out.seek(SeekFrom::Start(FRONT + place))
            .and_then(|_| out.write_all(digits.as_bytes()))
            .and_then(|()| out.flush())
            .map_err(failed)
    })
}
