//! What of all tests is to be run.

use std::collections::{BTreeMap, BTreeSet};

use clematis::DType;
use clematis_conform::named::{self, Named};
use clematis_conform::{Cell, Dashboard, Unit};
use comfy_table::{Table, presets};

use crate::error::{Error, Result};

/// The tests that are to be run.
pub struct Choice<'a> {
    units: Vec<&'a Unit>,
    named: Vec<Named>,
    /// Row and element type of each, as cells have them.
    keys: BTreeSet<(String, String)>,
}

impl<'a> Choice<'a> {
    /// Those that begin with one of the filters, or else contain it, and have one of the element types.
    pub fn new(all: &'a [Unit], filters: &[String], dtypes: &[DType]) -> Result<Self> {
        let rows = named::all();
        let names: BTreeSet<&str> = all
            .iter()
            .map(|unit| unit.op)
            .chain(rows.iter().map(|named| bare(named.row)))
            .collect();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for filter in filters {
            wanted.extend(matching(&names, filter)?);
        }
        let takes = |name: &str| filters.is_empty() || wanted.contains(name);
        let mut named = Vec::new();
        // A row that is no op has no element type to choose it by.
        if dtypes.is_empty() {
            named.extend(rows.into_iter().filter(|named| takes(bare(named.row))));
        }
        let named_units: Vec<&Unit> = all.iter().filter(|unit| takes(unit.op)).collect();
        let of_dtype = |unit: &&&Unit| dtypes.is_empty() || dtypes.contains(&unit.dtype);
        let units: Vec<&Unit> = named_units.iter().filter(of_dtype).copied().collect();
        if units.is_empty() && named.is_empty() {
            let there: BTreeSet<&str> = named_units.iter().map(|unit| unit.dtype.name()).collect();
            let asked: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
            let there = match there.is_empty() {
                true => "none, because these tests are no ops".into(),
                false => there.into_iter().collect::<Vec<_>>().join(", "),
            };
            let asked = asked.join(" or ");
            return Err(Error::new(format!(
                "check: no such test has the element type {asked}; there are: {there}"
            )));
        }
        let own = units.iter().map(|u| (u.row(), u.dtype.name().to_string()));
        let keys = own
            .chain(named.iter().map(|n| (n.row.to_string(), String::new())))
            .collect();
        Ok(Choice { units, named, keys })
    }

    /// Nothing at all.
    pub fn nothing() -> Self {
        Choice {
            units: Vec::new(),
            named: Vec::new(),
            keys: BTreeSet::new(),
        }
    }

    pub fn units(&self) -> impl Iterator<Item = &'a Unit> + '_ {
        self.units.iter().copied()
    }

    pub fn named(&self) -> impl Iterator<Item = &Named> {
        self.named.iter()
    }

    /// Whether a cell is a result of one of these.
    pub fn covers(&self, cell: &Cell) -> bool {
        self.keys.contains(&(cell.row.clone(), cell.dtype.clone()))
    }

    /// A table of the tests.
    pub fn list(&self) -> String {
        let mut found: BTreeMap<String, (Vec<&str>, usize)> = BTreeMap::new();
        for unit in &self.units {
            let row = found.entry(unit.row()).or_default();
            row.0.push(unit.dtype.name());
            row.1 += unit.cases.len();
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        for (row, (dtypes, cases)) in found {
            let cases = match cases {
                1 => "1 case".to_string(),
                n => format!("{n} cases"),
            };
            table.add_row([row, cases, dtypes.join(" ")]);
        }
        for named in &self.named {
            table.add_row([named.row, "1 case", Dashboard::title(named.dashboard)]);
        }
        table.trim_fmt()
    }
}

/// A row's name as people type it.
fn bare(row: &str) -> &str {
    row.strip_prefix("test_").unwrap_or(row)
}

/// The names that begin with a filter, or else contain it.
fn matching(names: &BTreeSet<&str>, filter: &str) -> Result<Vec<String>> {
    let word = bare(filter);
    let begin = |name: &&&str| name.starts_with(word);
    let contain = |name: &&&str| name.contains(word);
    let mut found: Vec<&&str> = names.iter().filter(begin).collect();
    if found.is_empty() {
        found = names.iter().filter(contain).collect();
    }
    if found.is_empty() || word.is_empty() {
        let all: Vec<&str> = names.iter().copied().collect();
        return Err(Error::new(format!(
            "check: no test begins with or contains `{filter}`; there are: {}",
            all.join(", ")
        )));
    }
    Ok(found.into_iter().map(|name| name.to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &[&str]) -> Vec<String> {
        list.iter().map(|w| w.to_string()).collect()
    }

    #[test]
    fn a_filter_takes_beginnings_before_parts() {
        let names = BTreeSet::from(["add", "conv_general", "pad", "sum_add"]);
        let take = |filter| matching(&names, filter).map_err(|e| e.to_string());
        assert_eq!(take("add"), Ok(words(&["add"])));
        assert_eq!(take("test_conv"), Ok(words(&["conv_general"])));
        assert_eq!(take("ad"), Ok(words(&["add"])));
        assert_eq!(take("dd"), Ok(words(&["add", "sum_add"])));
        for none in ["nothing", "", "test_"] {
            assert!(
                take(none).is_err_and(|why| why.contains("conv_general")),
                "{none}"
            );
        }
    }

    #[test]
    fn a_choice_is_by_name_and_element_type() {
        let units = clematis_conform::units().expect("cases");
        let choose =
            |filters: &[&str], dtypes: &[DType]| Choice::new(&units, &words(filters), dtypes);
        let all = choose(&[], &[]).expect("all");
        assert_eq!(all.units().count(), units.len());
        assert!(all.named().count() > 20);
        let some = choose(&["sinh", "uniform"], &[DType::F32, DType::F64]).expect("some");
        assert_eq!((some.units().count(), some.named().count()), (2, 0));
        assert_eq!(choose(&["uniform"], &[]).expect("one").named().count(), 1);
        let Err(none) = choose(&["sinh"], &[DType::Bool]) else {
            panic!("sinh of bool");
        };
        assert!(none.to_string().contains("f32"), "{none}");
        assert!(choose(&["uniform"], &[DType::F32]).is_err());
    }
}
