//! The header of a file that is being written: where each tensor goes, and the JSON that says so.

use super::header::{Entry, FORMAT, FRONT, METADATA, ZEROS, check_room, name};
use super::nest::Nest;
use super::sum::Sum;
use clematis_core::{DType, Result, Spec, ensure};
use serde_json::{Value, json};
use std::collections::HashSet;

/// Data begin at a multiple of this, so that who maps the file finds them as memory likes them.
const ALIGNMENT: usize = 64;

/// Places for tensors: the widest elements first, so that each is aligned, else in the given order.
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
            "save: `{METADATA}` can be no tensor's path"
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

/// The header of a file, before its data are known.
pub struct Draft {
    text: String,
    /// Where the digits of the checksum begin.
    digits: usize,
}

impl Draft {
    /// Of these tensors.
    pub fn new<'a>(
        structure: &Nest,
        entries: impl Iterator<Item = &'a Entry> + Clone,
    ) -> Result<Self> {
        let structure = structure.to_json().to_string();
        check_room(
            &structure,
            entries.clone().map(|e| e.end).max().unwrap_or(0),
        )?;
        // Written piece by piece: a map of JSON's would sort what must stand in order.
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
        Ok(Draft { text, digits })
    }

    /// The JSON, without a checksum: what a file has that was not finished.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Where the checksum stands in the JSON, and its digits.
    pub fn checksum(&self, data: u64) -> (u64, String) {
        let mut sum = Sum::new();
        sum.add(self.text.as_bytes());
        (
            self.digits as u64,
            format!("{:016x}{data:016x}", sum.done()),
        )
    }
}
