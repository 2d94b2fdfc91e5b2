//! Every op has a case for every dtype.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::{Array, Case, cases};
use clematis_core::autodiff::Rule;
use clematis_core::{DType, Op};
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn by_op(all: &[Case]) -> BTreeMap<&'static str, Vec<&Case>> {
    let mut found: BTreeMap<_, Vec<&Case>> = BTreeMap::new();
    for case in all {
        found.entry(case.op.name()).or_default().push(case);
    }
    found
}

#[test]
fn every_op_has_a_case() {
    let all = cases().unwrap();
    let found = by_op(&all);
    let missing: Vec<&str> = Op::all()
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !found.contains_key(name))
        .collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for case in cases().unwrap() {
        assert!(seen.insert(case.name.clone()), "{} twice", case.name);
    }
}

/// The same case with operands of another dtype.
fn retyped(case: &Case, dtype: DType) -> Case {
    let inputs = case
        .inputs
        .iter()
        .map(|x| {
            let dtype = if x.dtype == case.dtype {
                dtype
            } else {
                x.dtype
            };
            Array { dtype, ..x.clone() }
        })
        .collect();
    Case {
        inputs,
        ..case.clone()
    }
}

#[test]
fn every_element_type_that_an_op_takes_has_a_case() {
    let all = cases().unwrap();
    let mut missing = Vec::new();
    for (name, cases) in by_op(&all) {
        let have: BTreeSet<DType> = cases.iter().map(|c| c.dtype).collect();
        for dtype in DType::ALL.into_iter().filter(|d| !have.contains(d)) {
            let takes = cases.iter().any(|c| {
                c.inputs.iter().any(|x| x.dtype == c.dtype) && retyped(c, dtype).is_legal()
            });
            if takes {
                missing.push(format!("{name} {dtype}"));
            }
        }
    }
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn every_differentiable_op_is_differentiated() {
    let all = cases().unwrap();
    for (name, cases) in by_op(&all) {
        for dtype in DType::ALL.into_iter().filter(|d| d.is_inexact()) {
            let own: Vec<&&Case> = cases
                .iter()
                .filter(|c| c.dtype == dtype && c.is_legal())
                .filter(|c| c.inputs.iter().any(|x| x.dtype.is_inexact()))
                .collect();
            let smooth = own
                .iter()
                .any(|c| !matches!(c.op.rule(), Rule::Zero | Rule::None(_)));
            assert!(
                !smooth || own.iter().any(|c| c.derivative.checked),
                "{name} {dtype} is never differentiated"
            );
        }
    }
}

#[test]
fn shapes_without_axes_of_size_one_and_of_size_zero_occur() {
    let all = cases().unwrap();
    // Ops that need an axis have no case without one, and so on.
    let mut counts = [0usize; 3];
    for (_, cases) in by_op(&all) {
        let shapes: Vec<&Vec<usize>> = cases
            .iter()
            .flat_map(|c| c.inputs.iter().map(|x| &x.shape))
            .collect();
        counts[0] += usize::from(shapes.iter().any(|s| s.is_empty()));
        counts[1] += usize::from(shapes.iter().any(|s| s.contains(&1)));
        counts[2] += usize::from(shapes.iter().any(|s| s.contains(&0)));
    }
    assert!(
        counts[0] > 100 && counts[1] > 130 && counts[2] > 150,
        "{counts:?}"
    );
}
