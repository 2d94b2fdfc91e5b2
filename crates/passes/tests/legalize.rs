//! Tests of `legalize`: what scans become when they are unrolled, and that values stay.

use clematis_core::ops::Ops;
use clematis_core::{DType, Graph, Result, Tensor, control, ops, random, trace};
use clematis_native as _;
use clematis_passes::{Options, Target, legalize, optimize};

fn torch() -> &'static Target {
    Target::named("torch").expect("a target")
}

#[test]
fn a_scan_becomes_its_steps() -> Result<()> {
    let text = "graph {\n  input %0: f32[2] input\n  input %1: f32[3,2] input\n  \
                %2: f32[2], %3: f32[3,2] = scan(%0, %1) {body=graph {\n    input %0: f32[2] input\n    input %1: f32[2] input\n    \
                %2: f32[2] = add(%0, %1)\n    %3: f32[2] = exp(%1)\n    return %2, %3\n  }, consts=0, carries=1, length=3, reverse=true}\n  \
                %4: f32[2], %5: f32[3,2] = scan(%2, %3) {body=graph {\n    input %0: f32[2] input\n    input %1: f32[2] input\n    \
                %2: f32[2] = mul(%0, %1)\n    return %2, %0\n  }, consts=0, carries=1, length=3, reverse=false}\n  return %4\n}";
    let found = legalize(&Graph::parse(text)?, torch())?;
    assert!(found.has_unrolled);
    // The second scan reads the steps of the first one, and stacks nothing.
    let ops: Vec<&str> = found.graph.nodes.iter().map(|n| n.op.name()).collect();
    let count = |name: &str| ops.iter().filter(|op| **op == name).count();
    let counts = ["slice", "add", "exp", "mul", "concat"].map(count);
    assert_eq!(counts, [3, 3, 3, 3, 0], "{}", found.graph);
    for target in ["numpy", "jax", "tensorflow"] {
        let kept = legalize(
            &Graph::parse(text)?,
            Target::named(target).expect("a target"),
        )?;
        assert!(!kept.has_unrolled);
        assert_eq!(kept.graph.to_string().trim(), text);
    }
    Ok(())
}

#[test]
fn a_scan_beyond_the_limit_is_kept() -> Result<()> {
    let text = "graph {\n  input %0: f32[] input\n  %1: f32[] = scan(%0) {body=graph {\n    input %0: f32[] input\n    \
                %1: f32[] = exp(%0)\n    return %1\n  }, consts=0, carries=1, length=1000000, reverse=false}\n  return %1\n}";
    let kept = legalize(&Graph::parse(text)?, torch())?;
    assert!(!kept.has_unrolled && kept.graph.nodes.len() == 1);
    Ok(())
}

/// An LSTM step by step, and its gradients.
fn recurrent(reverse: bool) -> Result<(Graph, Vec<Tensor>)> {
    let normal = |seed, shape: &[usize]| {
        let key = random::Key::new(seed);
        random::normal(&key, shape, 0.0, 1.0, DType::F32).done()
    };
    let inputs = vec![normal(1, &[3, 12])?, normal(2, &[5, 2, 12])?];
    let specs: Vec<_> = inputs.iter().map(|x| x.spec().clone()).collect();
    let closed = trace::trace(&specs, |xs| {
        let loss = |p: &(Tensor, Tensor)| -> Result<Tensor> {
            let zero = ops::zeros([2usize, 3], DType::F32).done()?;
            let start = (zero.clone(), zero);
            let step = |(h, c): &(Tensor, Tensor), u: &Tensor| {
                let z = (u + ops::matmul(h, &p.0)).done()?;
                let gate = |i: usize| ops::slice_axis(&z, 1, i * 3, i * 3 + 3).done();
                let c = (gate(0)?.tanh() * gate(1)? + c * gate(2)?).done()?;
                let h = (c.tanh() * gate(3)?).done()?;
                Ok(((h.clone(), c), h))
            };
            let (_, hs) = control::scan(&start, &p.1, None, reverse, step)?;
            ops::sum(hs.square(), ..).done()
        };
        let (value, (dw, dx)) =
            clematis_core::autodiff::value_and_grad(loss)(&(xs[0].clone(), xs[1].clone()))?;
        Ok(vec![value, dw, dx])
    })?;
    assert!(closed.captured.is_empty());
    Ok((optimize(&closed.graph, Options::default())?, inputs))
}

#[test]
fn values_and_gradients_stay() -> Result<()> {
    for reverse in [false, true] {
        let (graph, inputs) = recurrent(reverse)?;
        let found = legalize(&graph, torch())?;
        assert!(!found.graph.nodes.iter().any(|n| n.op.name() == "scan"));
        // The gradients of all gates of all steps are copied by one concat.
        let concats = found.graph.nodes.iter().filter(|n| n.op.name() == "concat");
        let widest = concats.map(|n| n.args.len()).max();
        assert_eq!(widest, Some(20), "{}", found.graph);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let (before, after) = (graph.call(&inputs)?, found.graph.call(&inputs)?);
        for (a, b) in before.iter().zip(&after) {
            assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
        }
    }
    Ok(())
}
