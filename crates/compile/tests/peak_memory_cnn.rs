//! Peak memory of training steps of a convolutional network. A process of its own, because memory is counted per process.

mod peak_memory;

#[test]
fn steps_stay_near_the_planned_peak() {
    peak_memory::check("cnn64");
}
