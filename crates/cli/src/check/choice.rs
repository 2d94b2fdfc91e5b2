//! Selection of the tests to run.

use std::collections::{BTreeMap, BTreeSet};

use clematis::DType;
use clematis_conform::named_test::{self, NamedTest};
use clematis_conform::{CaseGroup, Cell, Dashboard};
use comfy_table::{Table, presets};

use crate::error::{Error, Result};

/// The selected tests.
pub struct Choice<'a> {
    groups: Vec<&'a CaseGroup>,
    named: Vec<NamedTest>,
    /// Row and dtype of each, as in cells.
    keys: BTreeSet<(String, String)>,
}

impl<'a> Choice<'a> {
    /// Tests whose name begins with a filter, or else contains it, and that have one of the dtypes.
    pub fn new(all: &'a [CaseGroup], filters: &[String], dtypes: &[DType]) -> Result<Self> {
        let rows = named_test::all();
        let names: BTreeSet<&str> = all
            .iter()
            .map(|group| group.op)
            .chain(rows.iter().map(|named| bare(named.row)))
            .collect();
        let mut wanted: BTreeSet<String> = BTreeSet::new();
        for filter in filters {
            wanted.extend(matching(&names, filter)?);
        }
        let takes = |name: &str| filters.is_empty() || wanted.contains(name);
        let mut named = Vec::new();
        // A named test has no dtype to select by.
        if dtypes.is_empty() {
            named.extend(rows.into_iter().filter(|named| takes(bare(named.row))));
        }
        let named_groups: Vec<&CaseGroup> = all.iter().filter(|group| takes(group.op)).collect();
        let of_dtype = |group: &&&CaseGroup| dtypes.is_empty() || dtypes.contains(&group.dtype);
        let groups: Vec<&CaseGroup> = named_groups.iter().filter(of_dtype).copied().collect();
        if groups.is_empty() && named.is_empty() {
            let there: BTreeSet<&str> = named_groups
                .iter()
                .map(|group| group.dtype.name())
                .collect();
            let asked: Vec<&str> = dtypes.iter().map(|d| d.name()).collect();
            let there = match there.is_empty() {
                true => "none, because these tests do not belong to ops".into(),
                false => there.into_iter().collect::<Vec<_>>().join(", "),
            };
            let asked = asked.join(" or ");
            return Err(Error::new(format!(
                "check: no selected test has the dtype {asked}; available: {there}"
            )));
        }
        let own = groups.iter().map(|u| (u.row(), u.dtype.name().to_string()));
        let keys = own
            .chain(named.iter().map(|n| (n.row.to_string(), String::new())))
            .collect();
        Ok(Choice {
            groups,
            named,
            keys,
        })
    }

    /// An empty selection.
    pub fn nothing() -> Self {
        Choice {
            groups: Vec::new(),
            named: Vec::new(),
            keys: BTreeSet::new(),
        }
    }

    pub fn groups(&self) -> impl Iterator<Item = &'a CaseGroup> + '_ {
        self.groups.iter().copied()
    }

    pub fn named(&self) -> impl Iterator<Item = &NamedTest> {
        self.named.iter()
    }

    /// Whether a cell is a result of a selected test.
    pub fn covers(&self, cell: &Cell) -> bool {
        self.keys.contains(&(cell.row.clone(), cell.dtype.clone()))
    }

    /// A table of the tests.
    pub fn list(&self) -> String {
        let mut found: BTreeMap<String, (Vec<&str>, usize)> = BTreeMap::new();
        for group in &self.groups {
            let row = found.entry(group.row()).or_default();
            row.0.push(group.dtype.name());
            row.1 += group.cases.len();
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

/// A row's name as users type it.
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
            "check: no test begins with or contains `{filter}`; available: {}",
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
        let groups = clematis_conform::case_groups().expect("cases");
        let choose =
            |filters: &[&str], dtypes: &[DType]| Choice::new(&groups, &words(filters), dtypes);
        let all = choose(&[], &[]).expect("all");
        assert_eq!(all.groups().count(), groups.len());
        assert!(all.named().count() > 20);
        let some = choose(&["sinh", "uniform"], &[DType::F32, DType::F64]).expect("some");
        assert_eq!((some.groups().count(), some.named().count()), (2, 0));
        assert_eq!(choose(&["uniform"], &[]).expect("one").named().count(), 1);
        let Err(none) = choose(&["sinh"], &[DType::Bool]) else {
            panic!("sinh of bool");
        };
        assert!(none.to_string().contains("f32"), "{none}");
        assert!(choose(&["uniform"], &[DType::F32]).is_err());
    }
}
