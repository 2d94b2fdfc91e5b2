//! Tests of the passes: the output of each as text, unchanged values, and preserved bits.

use clematis_core::{Graph, Result, Tensor, ops};
use clematis_native as _;
use clematis_passes::{Options, PASSES, optimize};

fn after(name: &str, text: &str, options: Options) -> Result<String> {
    let graph = Graph::parse(text)?;
    let pass = PASSES
        .iter()
        .find(|pass| pass.name == name)
        .expect("a pass");
    let graph = (pass.run)(&graph, options)?.unwrap_or(graph);
    graph.verify()?;
    Ok(graph.prune().to_string())
}

fn check(name: &str, before: &str, wanted: &str) -> Result<()> {
    check_with(name, before, wanted, Options::default())
}

fn check_with(name: &str, before: &str, wanted: &str, options: Options) -> Result<()> {
    let printed = after(name, before, options)?;
    assert_eq!(printed.trim(), wanted.trim(), "{printed}");
    Ok(())
}

/// A graph with one f32[2,3] input, from lines and a returned value.
fn program(lines: &str, out: &str) -> String {
    format!("graph {{\n  input %0: f32[2,3] input\n{lines}  return {out}\n}}")
}

#[test]
fn identities_are_removed() -> Result<()> {
    for lines in [
        "  %1: f32[2,3] = mul(%0, 1.0:f32)\n",
        "  %1: f32[2,3] = div(%0, 1.0:f32)\n",
        "  %1: f32[2,3] = sub(%0, 0.0:f32)\n",
        "  %1: f32[2,3] = add(%0, -0.0:f32)\n",
        "  %1: f32[2,3] = stop_gradient(%0)\n",
        "  %1: f32[2,3] = reshape(%0) {shape=[2,3]}\n",
        "  %1: f32[2,3] = transpose(%0) {axes=[0,1]}\n",
        "  %1: f32[2,3] = cast(%0) {dtype=f32}\n",
    ] {
        check(
            "algebraic_simplify",
            &program(lines, "%1"),
            &program("", "%0"),
        )?;
    }
    for lines in [
        "  %1: f32[2,3] = neg(%0)\n  %2: f32[2,3] = neg(%1)\n",
        "  %1: f64[2,3] = cast(%0) {dtype=f64}\n  %2: f32[2,3] = cast(%1) {dtype=f32}\n",
        "  %1: f32[3,2] = transpose(%0) {axes=[1,0]}\n  %2: f32[2,3] = transpose(%1) {axes=[1,0]}\n",
        "  %1: f32[6] = reshape(%0) {shape=[6]}\n  %2: f32[2,3] = reshape(%1) {shape=[2,3]}\n",
        "  %1: f32[2,3] = reverse(%0) {axes=[0]}\n  %2: f32[2,3] = reverse(%1) {axes=[0]}\n",
    ] {
        let once = after(
            "algebraic_simplify",
            &program(lines, "%2"),
            Options::default(),
        )?;
        // A node that the first round merged is removed in the second.
        check("algebraic_simplify", &once, &program("", "%0"))?;
    }
    Ok(())
}

#[test]
fn simplification_is_bit_exact() -> Result<()> {
    for lines in [
        "  %1: f32[2,3] = add(%0, 0.0:f32)\n",
        "  %1: f32[2,3] = mul(%0, 0.0:f32)\n",
        "  %1: f32[2,3] = sub(%0, %0)\n",
        "  %1: f32[2,3] = sub(%0, -0.0:f32)\n",
    ] {
        check(
            "algebraic_simplify",
            &program(lines, "%1"),
            &program(lines, "%1"),
        )?;
    }
    let lossy = "  %1: f16[2,3] = cast(%0) {dtype=f16}\n  %2: f32[2,3] = cast(%1) {dtype=f32}\n";
    check(
        "algebraic_simplify",
        &program(lossy, "%2"),
        &program(lossy, "%2"),
    )?;
    let fast = Options {
        fast_math: true,
        ..Options::default()
    };
    let zeros = "  %1: f32[2,3] = full() {value=0.0, dtype=f32, shape=[2,3]}\n";
    for (lines, wanted, out) in [
        ("  %1: f32[2,3] = add(%0, 0.0:f32)\n", "", "%0"),
        ("  %1: f32[2,3] = mul(%0, 0.0:f32)\n", zeros, "%1"),
        ("  %1: f32[2,3] = sub(%0, %0)\n", zeros, "%1"),
    ] {
        check_with(
            "algebraic_simplify",
            &program(lines, "%1"),
            &program(wanted, out),
            fast,
        )?;
    }
    Ok(())
}

#[test]
fn constants_are_folded() -> Result<()> {
    let lines = "  %1: f32[] = mul(2.0:f32, 3.0:f32)\n  %2: f32[2,3] = mul(%0, %1)\n";
    let wanted = "  %1: f32[2,3] = mul(%0, 6.0:f32)\n";
    check(
        "constant_fold",
        &program(lines, "%2"),
        &program(wanted, "%1"),
    )?;
    let lines =
        "  %1: f32[2,3] = full() {value=4.0, dtype=f32, shape=[2,3]}\n  %2: f32[2,3] = sqrt(%1)\n";
    let wanted = "  %1: f32[2,3] = full() {value=2.0, dtype=f32, shape=[2,3]}\n";
    check(
        "constant_fold",
        &program(lines, "%2"),
        &program(wanted, "%1"),
    )
}

#[test]
fn constant_arrays_become_numbers() -> Result<()> {
    let lines = "  %1: f32[2,3] = full() {value=4.0, dtype=f32, shape=[2,3]}\n  %2: f32[2,3] = mul(%0, %1)\n";
    let wanted = "  %1: f32[2,3] = mul(%0, 4.0:f32)\n";
    check(
        "algebraic_simplify",
        &program(lines, "%2"),
        &program(wanted, "%1"),
    )
}

#[test]
fn common_subexpressions_are_merged() -> Result<()> {
    let lines =
        "  %1: f32[2,3] = exp(%0)\n  %2: f32[2,3] = exp(%0)\n  %3: f32[2,3] = add(%1, %2)\n";
    let wanted = "  %1: f32[2,3] = exp(%0)\n  %2: f32[2,3] = add(%1, %1)\n";
    check("cse", &program(lines, "%3"), &program(wanted, "%2"))
}

#[test]
fn transposes_are_folded_into_dots() -> Result<()> {
    let dot = |x: &str, contract: usize| {
        format!(
            "dot_general({x}, %1) {{lhs_batch=[], rhs_batch=[], lhs_contract=[{contract}], rhs_contract=[0]}}"
        )
    };
    let head = "graph {\n  input %0: f32[4,2] input\n  input %1: f32[4,5] input\n";
    let before = format!(
        "{head}  %2: f32[2,4] = transpose(%0) {{axes=[1,0]}}\n  %3: f32[2,5] = {}\n  return %3\n}}",
        dot("%2", 1)
    );
    let wanted = format!("{head}  %2: f32[2,5] = {}\n  return %2\n}}", dot("%0", 0));
    check("fold_transpose", &before, &wanted)
}

#[test]
fn optimisation_preserves_values() -> Result<()> {
    let text = program(
        "  %1: f32[2,3] = full() {value=1.0, dtype=f32, shape=[2,3]}
  %2: f32[2,3] = mul(%0, %1)
  %3: f32[2,3] = exp(%2)
  %4: f32[2,3] = exp(%0)
  %5: f32[2,3] = add(%3, %4)
  %6: f32[3,2] = transpose(%5) {axes=[1,0]}
  %7: f32[3,3] = dot_general(%6, %0) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}
",
        "%7",
    );
    let graph = Graph::parse(&text)?;
    let short = optimize(&graph, Options::default())?;
    assert_eq!(short.nodes.len(), 3, "{short}");
    let x: Tensor = ops::tensor([[0.5f32, -1.0, 2.0], [0.0, 3.0, -0.25]])?;
    let (a, b) = (graph.call(&[&x])?, short.call(&[&x])?);
    assert_eq!(a[0].to_vec::<f32>()?, b[0].to_vec::<f32>()?);
    Ok(())
}

/// The tanh formula of gelu.
const GELU: &str = "  %1: f32[2,3] = mul(%0, %0)
  %2: f32[2,3] = mul(%1, %0)
  %3: f32[2,3] = mul(%2, 0.044715:f32)
  %4: f32[2,3] = add(%0, %3)
  %5: f32[2,3] = mul(%4, 0.7978845608:f32)
  %6: f32[2,3] = tanh(%5)
  %7: f32[2,3] = add(1.0:f32, %6)
  %8: f32[2,3] = mul(%0, 0.5:f32)
  %9: f32[2,3] = mul(%8, %7)
";

#[test]
fn composite_formulas_are_recognised() -> Result<()> {
    let gelu = "  %1: f32[2,3] = gelu(%0) {approximate=true}\n";
    check(
        "match_composites",
        &program(GELU, "%9"),
        &program(gelu, "%1"),
    )?;
    let other_way = GELU.replace("mul(%8, %7)", "mul(%7, %8)");
    check(
        "match_composites",
        &program(&other_way, "%9"),
        &program(gelu, "%1"),
    )?;
    let sigmoid = "  %1: f32[2,3] = sigmoid(%0)\n  %2: f32[2,3] = mul(%1, %0)\n";
    let silu = "  %1: f32[2,3] = silu(%0)\n";
    check(
        "match_composites",
        &program(sigmoid, "%2"),
        &program(silu, "%1"),
    )?;
    Ok(())
}

#[test]
fn formulas_with_other_readers_are_kept() -> Result<()> {
    for (lines, out) in [
        (GELU.to_owned(), "%9, %6"),
        (GELU.replace("0.044715", "0.04"), "%9"),
        (GELU.replace("mul(%8, %7)", "mul(%8, %8)"), "%9, %7"),
        (GELU.replace("f32", "f16"), "%9"),
    ] {
        let before = program(&lines, out);
        let before = match lines.contains("f16") {
            true => before.replace("f32", "f16"),
            false => before,
        };
        // Printed and parsed, because numbers are shortest then.
        let printed = Graph::parse(&before)?.prune().to_string();
        check("match_composites", &before, &printed)?;
    }
    Ok(())
}

#[test]
fn recognised_composites_are_bit_identical() -> Result<()> {
    let x: Vec<f32> = (0..6000).map(|i| (i as f32 - 3000.0) * 0.004).collect();
    let x: Tensor = ops::from_slice(&x, [1000usize, 2, 3])?;
    for (lines, out) in [
        (GELU, "%9"),
        (
            "  %1: f32[2,3] = sigmoid(%0)\n  %2: f32[2,3] = mul(%1, %0)\n",
            "%2",
        ),
    ] {
        let text = program(lines, out).replace("[2,3]", "[1000,2,3]");
        let plain = Graph::parse(&text)?;
        let short = optimize(&plain, Options::default())?;
        assert_eq!(short.nodes.len(), 1);
        let bits = |graph: &Graph| -> Result<Vec<u32>> {
            let out = graph.call(&[&x])?[0].to_vec::<f32>()?;
            Ok(out.into_iter().map(f32::to_bits).collect())
        };
        assert_eq!(bits(&plain)?, bits(&short)?);
    }
    Ok(())
}

/// Formulas with the composite that rounds differently.
const ROUNDED: [(&str, &str, &str); 6] = [
    (
        "  %1: f32[2] = reduce_max(%0) {axes=[1]}
  %2: f32[2,1] = reshape(%1) {shape=[2,1]}
  %3: f32[2,3] = sub(%0, %2)
  %4: f32[2,3] = exp(%3)
  %5: f32[2] = reduce_sum(%4) {axes=[1]}
  %6: f32[2,1] = reshape(%5) {shape=[2,1]}
  %7: f32[2,3] = div(%4, %6)
",
        "%7",
        "softmax(%0) {axis=1}",
    ),
    (
        "  %1: f32[3] = reduce_max(%0) {axes=[0]}
  %2: f32[1,3] = reshape(%1) {shape=[1,3]}
  %3: f32[2,3] = sub(%0, %2)
  %4: f32[2,3] = exp(%3)
  %5: f32[3] = reduce_sum(%4) {axes=[0]}
  %6: f32[1,3] = reshape(%5) {shape=[1,3]}
  %7: f32[1,3] = log(%6)
  %8: f32[2,3] = sub(%3, %7)
",
        "%8",
        "log_softmax(%0) {axis=0}",
    ),
    (
        "  %1: f32[2,3] = div(%0, 1.4142135:f32)
  %2: f32[2,3] = erf(%1)
  %3: f32[2,3] = add(%2, 1.0:f32)
  %4: f32[2,3] = mul(0.5:f32, %0)
  %5: f32[2,3] = mul(%4, %3)
",
        "%5",
        "gelu(%0) {approximate=false}",
    ),
    (
        "  %1: f32[2,3] = neg(%0)
  %2: f32[2,3] = exp(%1)
  %3: f32[2,3] = add(1.0:f32, %2)
  %4: f32[2,3] = div(1.0:f32, %3)
",
        "%4",
        "sigmoid(%0)",
    ),
    (
        "  %1: f32[2] = mean(%0) {axes=[1]}
  %2: f32[2,1] = reshape(%1) {shape=[2,1]}
  %3: f32[2] = var(%0) {axes=[1], correction=0.0}
  %4: f32[2,1] = reshape(%3) {shape=[2,1]}
  %5: f32[2,3] = sub(%0, %2)
  %6: f32[2,1] = add(%4, 1e-5:f32)
  %7: f32[2,1] = sqrt(%6)
  %8: f32[2,3] = div(%5, %7)
",
        "%8",
        "layer_norm(%0) {axis=1, epsilon=",
    ),
    (
        "  %1: f32[2] = mean(%0) {axes=[1]}
  %2: f32[2,1] = reshape(%1) {shape=[2,1]}
  %3: f32[2,3] = sub(%0, %2)
  %4: f32[2,3] = mul(%3, %3)
  %5: f32[2] = mean(%4) {axes=[1]}
  %6: f32[2,1] = reshape(%5) {shape=[2,1]}
  %7: f32[2,1] = add(%6, 1e-5:f32)
  %8: f32[2,1] = rsqrt(%7)
  %9: f32[2,3] = mul(%3, %8)
",
        "%9",
        "layer_norm(%0) {axis=1, epsilon=",
    ),
];

fn for_frameworks() -> Options {
    Options {
        fused: true,
        ..Options::default()
    }
}

#[test]
fn frameworks_get_fused_ops() -> Result<()> {
    let x: Tensor = ops::tensor([[0.5f32, -1.0, 2.0], [0.0, 3.0, -0.25]])?;
    for (lines, out, wanted) in ROUNDED {
        let graph = Graph::parse(&program(lines, out))?;
        let kept = optimize(&graph, Options::default())?;
        assert_eq!(
            kept.nodes.len(),
            graph.nodes.len(),
            "the engine keeps {kept}"
        );
        let found = optimize(&graph, for_frameworks())?;
        assert_eq!(found.nodes.len(), 1, "{found}");
        assert!(found.to_string().contains(wanted), "{found}");
        let (a, b) = (graph.call(&[&x])?, found.call(&[&x])?);
        for (a, b) in a[0].to_vec::<f32>()?.iter().zip(b[0].to_vec::<f32>()?) {
            assert!((a - b).abs() < 1e-6, "{wanted}: {a} {b}");
        }
    }
    Ok(())
}

#[test]
fn norm_parameters_are_recognised() -> Result<()> {
    let scaled = |scale: &str| {
        format!(
            "graph {{
  input %0: f32[2,3] input
  input %1: f32[{scale}] input
  input %2: f32[3] input
  %3: f32[2,3] = layer_norm(%0) {{axis=1, epsilon=1e-5}}
  %4: f32[2,3] = mul(%3, %1)
  %5: f32[2,3] = add(%2, %4)
  return %5
}}"
        )
    };
    let found = optimize(&Graph::parse(&scaled("3"))?, for_frameworks())?;
    assert_eq!(found.nodes.len(), 1, "{found}");
    assert!(
        found.to_string().contains("layer_norm(%0, %1, %2)"),
        "{found}"
    );
    // One number for all elements of a row is not a parameter of a norm.
    let found = optimize(&Graph::parse(&scaled("2,1"))?, for_frameworks())?;
    assert_eq!(found.nodes.len(), 3, "{found}");
    Ok(())
}

#[test]
fn intermediates_with_other_readers_are_kept() -> Result<()> {
    for ((lines, out, _), part) in ROUNDED
        .into_iter()
        .zip(["%4", "%3", "%2", "%2", "%5", "%3"])
    {
        let graph = Graph::parse(&program(lines, &format!("{out}, {part}")))?;
        let found = optimize(&graph, for_frameworks())?;
        assert_eq!(found.nodes.len(), graph.nodes.len(), "{found}");
    }
    Ok(())
}

#[test]
fn a_graph_of_many_nodes_takes_seconds() -> Result<()> {
    // A chain with a long range of uses: quadratic passes would take minutes.
    let mut lines = String::new();
    let count = 50_000;
    for i in 0..count {
        use std::fmt::Write;
        let far = i / 2;
        let _ = writeln!(lines, "  %{}: f32[2,3] = add(%{i}, %{far})", i + 1);
    }
    let graph = Graph::parse(&program(&lines, &format!("%{count}")))?;
    let start = std::time::Instant::now();
    let optimized = optimize(&graph, Options::default())?;
    assert_eq!(optimized.nodes.len(), count);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    Ok(())
}
