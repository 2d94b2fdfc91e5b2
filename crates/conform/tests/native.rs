//! Every case on the native engine; `CONFORM=dot_general` runs only the ops whose name starts with that.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

#[test]
fn the_engine_agrees_with_every_reference() {
    let wanted = std::env::var("CONFORM").unwrap_or_default();
    let report = clematis_conform::run(clematis_native::backend(), |op, case| {
        wanted.is_empty() || op == wanted || case.starts_with(&wanted)
    })
    .unwrap();
    println!(
        "{} cases, {report}",
        clematis_conform::cases().unwrap().len()
    );
    assert!(report.failures().is_empty(), "{report}");
}

#[test]
fn the_engine_passes_every_named_row() {
    let runner = clematis_conform::Runner::new(clematis_native::backend()).unwrap();
    for named in clematis_conform::named_test::all() {
        let cell = named.cell(&runner);
        let passed = cell.state == clematis_conform::State::Passed;
        assert!(passed, "{}: {}", cell.row, cell.message);
    }
}
