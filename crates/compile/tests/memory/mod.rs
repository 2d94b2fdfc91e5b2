//! Memory that training steps take from the system, against the bound that their plan reports.

#[path = "../../examples/bench_train/train.rs"]
mod train;
#[path = "../../examples/bench_train/workload.rs"]
mod workload;

use clematis_compile::Plan;
use clematis_core::{DType, Executable, Result, ops};
use clematis_native::memory::memory_used;

/// The most that steps may take, to what the plan says that results hold at once.
const MOST: f64 = 1.15;

fn bound(plan: &Plan) -> Option<f64> {
    let text = plan.describe();
    let last = text.lines().rfind(|l| l.ends_with(" at once"))?;
    last.split_whitespace().rev().nth(2)?.parse().ok()
}

fn ratio(name: &str) -> Result<(f64, f64)> {
    assert!(workload::NAMES.contains(&name));
    let w = workload::workload(name)?;
    assert!(w.flops > 0.0);
    let program = train::record(&w)?;
    let bound = bound(&Plan::new(program.graph())?).expect("a plan reports its bound");
    let mut state = train::inputs(&w)?;
    // Each with memory of its own, as after a step: what somebody else holds cannot be written over.
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

/// Panics where steps of a workload take too much.
pub fn check(name: &str) {
    let (taken, bound) = ratio(name).expect("the workload runs");
    println!(
        "{name}: {taken} bytes taken, {bound} at once, {:.3}",
        taken / bound
    );
    assert!(
        taken <= MOST * bound,
        "{name}: {taken} bytes taken, {bound} at once"
    );
}
