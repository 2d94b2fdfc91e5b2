//! Tests from text to text of the passes of scans, and of the order of passes on bodies.

use clematis_core::{Graph, Result};
use clematis_native as _;
use clematis_passes::{Options, PASSES, optimize};

/// Runs one pass, then dead code elimination.
fn check(name: &str, before: &str, after: &str) -> Result<()> {
    let pass = PASSES
        .iter()
        .find(|pass| pass.name == name)
        .expect("a pass");
    let graph = Graph::parse(before)?;
    let graph = (pass.run)(&graph, Options::default())?.unwrap_or(graph);
    graph.verify()?;
    let printed = graph.prune().to_string();
    assert_eq!(printed.trim(), after.trim(), "{printed}");
    Ok(())
}

#[test]
fn a_dot_of_a_sequence_is_hoisted() -> Result<()> {
    check(
        "hoist",
        "graph {
  input %0: f32[3,2] input
  input %1: f32[4,2] input
  input %2: f32[5,4,3] input
  %3: f32[4,2], %4: f32[5,4,2] = scan(%0, %1, %2) {body=graph {
    input %0: f32[3,2] input
    input %1: f32[4,2] input
    input %2: f32[4,3] input
    %3: f32[4,2] = dot_general(%2, %0) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}
    %4: f32[4,2] = add(%1, %3)
    %5: f32[4,2] = tanh(%4)
    return %5, %5
  }, consts=1, carries=1, length=5, reverse=false}
  return %3, %4
}",
        "graph {
  input %0: f32[3,2] input
  input %1: f32[4,2] input
  input %2: f32[5,4,3] input
  %3: f32[5,4,2] = dot_general(%2, %0) {lhs_batch=[], rhs_batch=[], lhs_contract=[2], rhs_contract=[0]}
  %4: f32[4,2], %5: f32[5,4,2] = scan(%0, %1, %2, %3) {body=graph {
    input %0: f32[3,2] input
    input %1: f32[4,2] input
    input %2: f32[4,3] input
    input %3: f32[4,2] input
    %4: f32[4,2] = add(%1, %3)
    %5: f32[4,2] = tanh(%4)
    return %5, %5
  }, consts=1, carries=1, length=5, reverse=false}
  return %4, %5
}",
    )
}

#[test]
fn bodies_are_optimized_and_equal_bodies_stay_equal() -> Result<()> {
    let text = "graph {
  input %0: f32[5,2] input
  %1: f32[5,2] = scan(%0) {body=graph {
    input %0: f32[2] input
    %1: f32[2] = neg(%0)
    %2: f32[2] = neg(%1)
    %3: f32[2] = exp(%2)
    return %3
  }, consts=0, carries=0, length=5, reverse=false}
  return %1
}";
    let mut graph = Graph::parse(text)?;
    // The same loop again: the body is shared.
    let (node, spec) = (graph.nodes[0].clone(), graph.values[1].clone());
    let outs = graph.node(node.op, node.args, &[spec], node.scope);
    let second = clematis_core::graph::ValueId(outs.start);
    graph.outputs.push(clematis_core::graph::Output {
        arg: clematis_core::graph::Arg::Value(second),
        updates: None,
    });
    let printed = optimize(&graph, Options::default())?.to_string();
    let wanted = "graph {
  input %0: f32[5,2] input
  %1: f32[5,2] = scan(%0) {body=graph {
    input %0: f32[2] input
    %1: f32[2] = exp(%0)
    return %1
  }, consts=0, carries=0, length=5, reverse=false}
  return %1, %1
}";
    assert_eq!(printed.trim(), wanted, "{printed}");
    Ok(())
}

#[test]
fn deep_loops_take_time_linear_in_their_depth_squared() -> Result<()> {
    let mut body = "graph { input %0: f32[] input %1: f32[] = exp(%0) return %1 }".to_string();
    for _ in 0..24 {
        body = format!(
            "graph {{ input %0: f32[] input %1: f32[] = scan(%0) {{body={body}, consts=0, carries=1, length=2, reverse=false}} return %1 }}"
        );
    }
    let graph = Graph::parse(&body)?;
    optimize(&graph, Options::default())?;
    Ok(())
}

#[test]
fn every_pass_is_a_file_that_shows_before_and_after() {
    for pass in PASSES {
        let path = format!("{}/src/{}.rs", env!("CARGO_MANIFEST_DIR"), pass.name);
        let text = std::fs::read_to_string(&path).expect("a file of its name");
        let doc = text.lines().take_while(|line| line.starts_with("//!"));
        assert!(doc.collect::<String>().contains('→'), "{path}");
    }
}
