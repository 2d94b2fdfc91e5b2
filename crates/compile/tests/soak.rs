//! A short `cargo xtask soak`. A process of its own, because the memory limit is global.

#[path = "../examples/bench_train/soak.rs"]
mod soak;
#[path = "../examples/bench_train/train.rs"]
mod train;
#[path = "../examples/bench_train/workload.rs"]
mod workload;

use std::time::Duration;

#[test]
fn memory_stays_flat_while_models_train() {
    let _ = clematis_compile::Plan::new;
    assert!(workload::NAMES.contains(&"mlp64"));
    assert!(workload::workload("mlp64").is_ok_and(|w| w.flops > 0.0));
    let outcome = soak::run(&["mlp64"], Duration::from_secs(3));
    assert!(outcome.is_ok(), "{outcome:?}");
    assert!(soak::resident() > 0.0 || !cfg!(target_os = "linux"));
}
