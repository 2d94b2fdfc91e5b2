//! Builds the header of a file to write: the offset of each tensor, and the JSON.

use super::checksum::Checksum;
use super::header::{Entry, FORMAT, FRONT, METADATA, ZEROS, check_value_memory, name};
use super::structure::Structure;
use clematis_core::{DType, Result, Spec, ensure};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Data start at a multiple of this, so that memory-mapped tensors are aligned.
const ALIGNMENT: usize = 64;

/// Assigns offsets: the widest elements first, so that each tensor is aligned, else in the given order.
pub fn places(specs: &[(&str, &Spec)]) -> Result<Vec<(usize, Entry)>> {
    let mut seen = HashSet::new();
    for (name, spec) in specs {
        ensure!(
            seen.insert(*name),
            Io,
            "save: two tensors of the tree have the path `{name}`"
        );
        ensure!(
            *name != METADATA,
            Io,
            "save: `{METADATA}` is reserved and cannot be a tensor's path"
        );
        spec.shape.known_count("save")?;
    }
    let mut order: Vec<usize> = (0..specs.len()).collect();
    let width = |d: DType| d.real().size();
    order.sort_by_key(|&i| std::cmp::Reverse(width(specs[i].1.dtype)));
    let mut end = 0;
    let mut out = Vec::with_capacity(order.len());
    for i in order {
        let (name, spec) = specs[i];
        let start = end;
        end += spec.bytes() as u64;
        let entry = Entry {
            name: name.into(),
            spec: spec.clone(),
            start,
            end,
        };
        out.push((i, entry));
    }
    Ok(out)
}

/// A header whose data checksum is not known yet.
pub struct HeaderWriter {
    text: String,
    /// Offset of the checksum's digits.
    digits: usize,
}

impl HeaderWriter {
    /// Builds the header of these tensors.
    pub fn new<'a>(
        structure: &Structure,
        entries: impl Iterator<Item = &'a Entry> + Clone,
    ) -> Result<Self> {
        let structure = structure.to_json().to_string();
        check_value_memory(
            &structure,
            entries.clone().map(|e| e.end).max().unwrap_or(0),
        )?;
        // Written piece by piece: a JSON map would sort entries, but their order matters.
        let mut text = format!(
            "{{\"{METADATA}\":{{\"clematis_format\":\"{FORMAT}\",\"clematis_version\":\"{}\",\"clematis_structure\":{}",
            env!("CARGO_PKG_VERSION"),
            Value::from(structure),
        );
        let complex: Vec<&str> = entries
            .clone()
            .filter(|e| e.spec.dtype == DType::C128)
            .map(|e| e.name.as_str())
            .collect();
        if !complex.is_empty() {
            let names = Value::from(Value::from(complex).to_string());
            text.push_str(&format!(",\"clematis_complex128\":{names}"));
        }
        text.push_str(",\"clematis_checksum\":\"");
        let digits = text.len();
        text.push_str(ZEROS);
        text.push_str("\"}");
        for e in entries {
            let mut sizes = e.spec.shape.sizes();
            if e.spec.dtype == DType::C128 {
                sizes.push(2);
            }
            text.push_str(&format!(
                ",{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                Value::from(e.name.as_str()),
                name(e.spec.dtype),
                json!(sizes.as_slice()),
                e.start,
                e.end
            ));
        }
        text.push('}');
        let len = (text.len() + FRONT as usize).next_multiple_of(ALIGNMENT) - FRONT as usize;
        text.extend(std::iter::repeat_n(' ', len - text.len()));
        Ok(HeaderWriter { text, digits })
    }

    /// The JSON without checksum, as it is in an unfinished file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The offset of the checksum in the JSON, and its digits.
    pub fn checksum(&self, data: u64) -> (u64, String) {
        let mut sum = Checksum::new();
        sum.add(self.text.as_bytes());
        (
            self.digits as u64,
            format!("{:016x}{data:016x}", sum.done()),
        )
    }
}
