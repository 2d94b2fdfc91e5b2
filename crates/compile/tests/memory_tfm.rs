//! What steps of a transformer take. Alone in its process: memory is counted for all.

mod memory;

#[test]
fn steps_take_hardly_more_than_their_plan_says() {
    memory::check("tfm");
}
