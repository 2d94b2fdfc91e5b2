//! Every case under `vmap`: a batch must give the same results as its examples one by one.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

use clematis_conform::compare::compare;
use clematis_conform::{Array, Case, Tolerance, cases};
use clematis_core::batch::vmap_along;
use clematis_core::dispatch::apply;
use clematis_core::{Result, Tensor, ops};

fn upload(x: &Array) -> Result<Tensor> {
    clematis_conform::upload(clematis_native::backend(), x)
}

/// The operands of another example, valid wherever those of the case are.
fn other(x: &Tensor) -> Result<Tensor> {
    if x.dtype().is_inexact() {
        return (x * 0.5).done();
    }
    Ok(x.clone())
}

/// Which operands are batched: all, each alone, all but each.
fn choices(count: usize) -> Vec<Vec<bool>> {
    let mut all = vec![vec![true; count]];
    if count > 1 {
        for i in 0..count {
            all.push((0..count).map(|j| i == j).collect());
            if count > 2 {
                all.push((0..count).map(|j| i != j).collect());
            }
        }
    }
    all
}

fn check(case: &Case) -> Result<std::result::Result<(), String>> {
    let first = case.inputs.iter().map(upload).collect::<Result<Vec<_>>>()?;
    let second = first.iter().map(other).collect::<Result<Vec<_>>>()?;
    if first.is_empty() {
        return Ok(Ok(()));
    }
    for chosen in choices(first.len()) {
        let each: Vec<Vec<Tensor>> = [&second, &first, &second]
            .map(|own| {
                let mixed = own.iter().zip(&first).zip(&chosen);
                mixed
                    .map(|((x, y), &batched)| if batched { x } else { y }.clone())
                    .collect()
            })
            .into();
        let mut want = Vec::new();
        for args in &each {
            // Some operands cannot be changed.
            let Ok(out) = apply(&case.op, &args.iter().collect::<Vec<_>>()) else {
                return Ok(Ok(()));
            };
            want.push(out.into_vec());
        }
        let stacked = chosen
            .iter()
            .enumerate()
            .map(|(i, &batched)| match batched {
                true => ops::stack(&each.iter().map(|args| &args[i]).collect::<Vec<_>>(), 0).done(),
                false => Ok(first[i].clone()),
            });
        let stacked = stacked.collect::<Result<Vec<_>>>()?;
        let axes: Vec<Option<i64>> = chosen.iter().map(|&batched| batched.then_some(0)).collect();
        let run =
            |xs: &Vec<Tensor>| Ok(apply(&case.op, &xs.iter().collect::<Vec<_>>())?.into_vec());
        let got = vmap_along(run, &stacked, &axes, 0)?;
        for (i, y) in got.iter().enumerate() {
            let rows: Vec<&Tensor> = want.iter().map(|outs| &outs[i]).collect();
            let rows = ops::stack(&rows, 0).done()?;
            if y.spec() != rows.spec() {
                return Ok(Err(format!("{chosen:?}: {} for {}", y.spec(), rows.spec())));
            }
            // Sums over a batch have another order.
            let tolerance = Tolerance::overall(64.0f64.max(case.tolerance.units));
            let (y, rows) = (Array::from_tensor(y)?, Array::from_tensor(&rows)?);
            match compare(&y, &rows, &tolerance)? {
                Ok(units) if units <= tolerance.units => {}
                Ok(units) => {
                    return Ok(Err(format!(
                        "{chosen:?}: result {i} is off by {units} units"
                    )));
                }
                Err(why) => return Ok(Err(format!("{chosen:?}: result {i}: {why}"))),
            }
        }
    }
    Ok(Ok(()))
}

#[test]
fn a_batch_gives_what_its_examples_give() {
    let all: Vec<Case> = cases()
        .unwrap()
        .into_iter()
        .filter(Case::is_legal)
        .collect();
    let run = |offset: usize| -> Vec<String> {
        let mut wrong = Vec::new();
        for case in all.iter().skip(offset).step_by(2) {
            let found = check(case).unwrap_or_else(|e| Err(e.to_string()));
            wrong.extend(found.err().map(|e| format!("{}: {e}", case.name)));
        }
        wrong
    };
    let wrong: Vec<String> = std::thread::scope(|s| {
        let half = s.spawn(|| run(1));
        let mut wrong = run(0);
        wrong.extend(half.join().unwrap());
        wrong
    });
    let shown: Vec<&String> = wrong.iter().take(60).collect();
    assert!(
        wrong.is_empty(),
        "{} cases of {}:\n{shown:#?}",
        wrong.len(),
        all.len()
    );
}
