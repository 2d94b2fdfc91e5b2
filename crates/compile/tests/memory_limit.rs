//! A plan whose peak exceeds the available memory fails before it starts. A process of its own, because the limit is global.

use clematis_compile::Plan;
use clematis_core::ops::Ops;
use clematis_core::trace::trace;
use clematis_core::{DType, Executable, Spec, ops};
use clematis_passes::{Options, optimize};

#[test]
fn a_plan_beyond_the_memory_limit_fails_before_it_starts() {
    let spec = Spec::of(DType::F32, [1024usize, 4096]).expect("it is a shape");
    let graph = trace(&[spec], |x| {
        // Matmuls do not fuse.
        let transposed = x[0].matrix_transpose().done()?;
        let whole = ops::matmul(&x[0], &transposed).done()?;
        let again = ops::matmul(&whole, &x[0]).done()?;
        Ok(vec![whole, again])
    });
    let graph = optimize(&graph.expect("it runs").graph, Options::default()).expect("it runs");
    let plan = Plan::new(&graph).expect("it runs");
    let x = ops::ones([1024usize, 4096], DType::F32)
        .done()
        .expect("it runs");
    let x = ops::materialize(&x).expect("it runs");
    clematis_native::set_memory_limit(clematis_native::memory_used() + (8 << 20));
    let mut given = vec![x.clone()];
    let e = plan
        .run(&mut given)
        .expect_err("it does not fit")
        .to_string();
    assert!(e.contains("in use") && e.contains("smaller batches"), "{e}");
    assert!(given[0].same(&x));
    clematis_native::set_memory_limit(4 << 30);
    assert!(plan.run(&mut given).is_ok());
}
