//! A plan that takes more memory than there is is refused before it starts. Alone in its process: the limit holds for all.

use clematis_compile::Plan;
use clematis_core::ops::Ops;
use clematis_core::trace::trace;
use clematis_core::{DType, Executable, Spec, ops};

#[test]
fn what_cannot_be_held_is_not_begun() {
    let spec = Spec::of(DType::F32, [1024usize, 4096]).expect("it is a shape");
    let graph = trace(&[spec], |x| {
        // Products stand between: nothing of it is fused.
        let turned = x[0].matrix_transpose().done()?;
        let whole = ops::matmul(&x[0], &turned).done()?;
        let again = ops::matmul(&whole, &x[0]).done()?;
        Ok(vec![whole, again])
    });
    let plan = Plan::new(&graph.expect("it runs").graph).expect("it runs");
    let x = ops::ones([1024usize, 4096], DType::F32)
        .done()
        .expect("it runs");
    let x = ops::materialize(&x).expect("it runs");
    clematis_native::set_memory_limit(clematis_native::memory_used() + (8 << 20));
    let mut given = vec![x.clone()];
    let e = plan
        .run(&mut given)
        .expect_err("there is no room")
        .to_string();
    assert!(e.contains("in use") && e.contains("smaller batches"), "{e}");
    assert!(given[0].same(&x));
    clematis_native::set_memory_limit(4 << 30);
    assert!(plan.run(&mut given).is_ok());
}
