//! Tests from text to text of the passes that remove and move data: dead code, masks, transposes, pads and concats.

use clematis_core::{Graph, Result};
use clematis_native as _;
use clematis_passes::{Options, PASSES};

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

fn unchanged(name: &str, before: &str) -> Result<()> {
    check(name, before, before)
}

#[test]
fn dead_nodes_are_removed() -> Result<()> {
    check(
        "dce",
        "graph {
  input %0: f32[2] input
  input %1: f32[2] input
  %2: f32[2] = exp(%0)
  %3: f32[2] = neg(%0)
  return %3
}",
        "graph {
  input %0: f32[2] input
  input %1: f32[2] input
  %2: f32[2] = neg(%0)
  return %2
}",
    )
}

#[test]
fn a_mask_reads_the_relu_before_it() -> Result<()> {
    check(
        "relu_mask",
        "graph {
  input %0: f32[2] input
  %1: f32[2] = relu(%0)
  %2: bool[2] = greater(%0, 0.0:f32)
  return %1, %2
}",
        "graph {
  input %0: f32[2] input
  %1: f32[2] = relu(%0)
  %2: bool[2] = greater(%1, 0.0:f32)
  return %1, %2
}",
    )?;
    for line in ["greater(%0, 1.0:f32)", "less(%0, 0.0:f32)"] {
        unchanged(
            "relu_mask",
            &format!(
                "graph {{
  input %0: f32[2] input
  %1: f32[2] = relu(%0)
  %2: bool[2] = {line}
  return %1, %2
}}"
            ),
        )?;
    }
    Ok(())
}

/// A dot of `[7, 2, 3]` and `[7, 3, 5]` by the first axis, transposed by `axes`.
fn transposed_dot(axes: &str, shape: &str, outputs: &str) -> String {
    format!(
        "graph {{
  input %0: f32[7,2,3] input
  input %1: f32[7,3,5] input
  %2: f32[7,2,5] = dot_general(%0, %1) {{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]}}
  %3: f32[{shape}] = transpose(%2) {{axes=[{axes}]}}
  return {outputs}
}}"
    )
}

#[test]
fn a_transposed_dot_swaps_its_operands() -> Result<()> {
    check(
        "fold_dot_transpose",
        &transposed_dot("0,2,1", "7,5,2", "%3"),
        "graph {
  input %0: f32[7,2,3] input
  input %1: f32[7,3,5] input
  %2: f32[7,5,2] = dot_general(%1, %0) {lhs_batch=[0], rhs_batch=[0], lhs_contract=[1], rhs_contract=[2]}
  return %2
}",
    )?;
    // Other axes, and a dot that something else reads.
    unchanged(
        "fold_dot_transpose",
        &transposed_dot("1,0,2", "2,7,5", "%3"),
    )?;
    unchanged(
        "fold_dot_transpose",
        &transposed_dot("0,2,1", "7,5,2", "%3, %2"),
    )
}

#[test]
fn a_transpose_sinks_into_a_concat() -> Result<()> {
    check(
        "sink_transpose_into_concat",
        "graph {
  input %0: f32[2,3] input
  input %1: f32[4,3] input
  %2: f32[6,3] = concat(%0, %1) {axis=0}
  %3: f32[3,6] = transpose(%2) {axes=[1,0]}
  return %3
}",
        "graph {
  input %0: f32[2,3] input
  input %1: f32[4,3] input
  %2: f32[3,2] = transpose(%0) {axes=[1,0]}
  %3: f32[3,4] = transpose(%1) {axes=[1,0]}
  %4: f32[3,6] = concat(%2, %3) {axis=1}
  return %4
}",
    )
}

#[test]
fn symbolic_dimensions_are_left_alone() -> Result<()> {
    unchanged(
        "sink_transpose_into_concat",
        "graph {
  input %0: f32[n,3] input
  input %1: f32[4,3] input
  %2: f32[n+4,3] = concat(%0, %1) {axis=0}
  %3: f32[3,n+4] = transpose(%2) {axes=[1,0]}
  return %3
}",
    )
}
