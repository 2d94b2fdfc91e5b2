//! Memory that training steps allocate, compared with the peak that their plan reports.

#[path = "../../examples/bench_train/train.rs"]
mod train;
#[path = "../../examples/bench_train/workload.rs"]
mod workload;

use clematis_compile::Plan;
use clematis_core::{DType, Executable, Result, ops};
use clematis_native::memory::memory_used;
use clematis_passes::{Options, optimize};

/// The largest ratio of allocated memory to the planned peak.
const MAX_RATIO: f64 = 1.15;

fn bound(plan: &Plan) -> Option<f64> {
    let text = plan.describe();
    let last = text.lines().rfind(|l| l.ends_with(" bytes at peak"))?;
    last.split_whitespace().rev().nth(3)?.parse().ok()
}

fn ratio(name: &str) -> Result<(f64, f64)> {
    assert!(workload::NAMES.contains(&name));
    let w = workload::workload(name)?;
    assert!(w.flops > 0.0);
    let program = train::record(&w)?;
    let bound = bound(&Plan::new(&optimize(program.graph(), Options::default())?)?)
        .expect("a plan reports its bound");
    let mut state = train::inputs(&w)?;
    // Give each tensor memory of its own, as after a step: shared memory cannot be updated in place.
    for x in &mut state {
        if x.dtype() == DType::F32 {
            *x = ops::mul(&*x, 1.0).done()?;
        }
    }
    let before = memory_used();
    for count in 1..=6 {
        train::step(&program, &mut state, count)?;
    }
    Ok(((memory_used() - before) as f64, bound))
}

/// Panics if the steps of a workload allocate too much.
pub fn check(name: &str) {
    let (taken, bound) = ratio(name).expect("the workload runs");
    println!(
        "{name}: {taken} bytes allocated, {bound} planned, {:.3}",
        taken / bound
    );
    assert!(
        taken <= MAX_RATIO * bound,
        "{name}: {taken} bytes allocated, {bound} planned"
    );
}
