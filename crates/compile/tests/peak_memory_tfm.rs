//! Peak memory of training steps of a transformer. A process of its own, because memory is counted per process.

mod peak_memory;

#[test]
fn steps_stay_near_the_planned_peak() {
    peak_memory::check("tfm");
}
