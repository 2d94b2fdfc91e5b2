//! Invalid graphs.

use super::round_trip;
use clematis_core::graph::{Arg, Graph, Output, Role, ScopeId, ValueId};
use clematis_core::op::*;
use clematis_core::*;
use smallvec::smallvec;

/// Invalid texts, the position of the error, and part of its message.
#[rustfmt::skip]
const WRONG: &[(&str, &str, &str)] = &[
    ("", "1, column 1", "expected `graph`, the text ends"),
    ("grph {}", "1, column 1", "found `grph`"),
    ("graph", "1, column 6", "expected `{`, the text ends"),
    ("graph {", "1, column 8", "expected an input, a node or `return`"),
    ("graph {}", "1, column 8", "`return`, found `}`"),
    ("graph {\n  return", "2, column 9", "the text ends"),
    ("graph {\n  return\n}\n}", "4, column 1", "expected the end of the text"),
    ("graph {\n  return\n} graph", "3, column 3", "found `graph`"),
    ("graph {\n  return %0\n}", "2, column 10", "%0 is not defined"),
    ("graph {\n  return ,\n}", "2, column 10", "expected a value or a number"),
    ("graph {\n  input %0 f32[] input\n  return\n}", "2, column 12", "expected `:`, found `f32`"),
    ("graph {\n  input 0: f32[] input\n  return\n}", "2, column 9", "a value such as `%0`"),
    ("graph {\n  input %x: f32[] input\n  return\n}", "2, column 10", "the number of a value, found `x`"),
    ("graph {\n  input %99999999999: f32[] input\n  return\n}", "2, column 10", "too large"),
    ("graph {\n  input %4294967295: f32[] input\n  return\n}", "2, column 9", "in a graph of 1 values"),
    ("graph {\n  input %1: f32[] input\n  return\n}", "2, column 9", "numbered from 0"),
    ("graph {\n  input %0: f31[] input\n  return\n}", "2, column 13", "unknown dtype `f31`"),
    ("graph {\n  input %0: f32 input\n  return\n}", "2, column 17", "expected `[`"),
    ("graph {\n  input %0: f32[2 input\n  return\n}", "2, column 19", "expected `]`"),
    ("graph {\n  input %0: f32[2,] input\n  return\n}", "2, column 19", "expected a size"),
    ("graph {\n  input %0: f32[-2] input\n  return\n}", "2, column 16", "got -2 on axis 0"),
    ("graph {\n  input %0: f32[2.5] input\n  return\n}", "2, column 17", "expected a size, found `2.5`"),
    ("graph {\n  input %0: f32[b//0] input\n  return\n}", "2, column 18", "// 0"),
    ("graph {\n  input %0: f32[4000000000,4000000000] input\n  return\n}", "2, column 16", "too many elements"),
    ("graph {\n  input %0: f32[9223372036854775807] input\n  return\n}", "2, column 17", "too large"),
    ("graph {\n  input %0: f32[] weight\n  return\n}", "2, column 19", "expected a role, one of param,"),
    ("graph {\n  input %0: f32[] \"x\"\n  return\n}", "2, column 19", "expected a role, found the text"),
    ("graph {\n  input %0: f32[] input \"x\n  return\n}", "2, column 25", "closing quote"),
    ("graph {\n  input %0: f32[] input \"\\q\"\n  return\n}", "2, column 25", "unknown escape"),
    ("graph {\n  input %0: f32[] input\n  input %0: f32[] input\n  return\n}", "3, column 9", "defined already"),
    ("graph {\n  input %0: f32[] input \"x\"\n  input %1: f32[] input \"x\"\n  return\n}", "3, column 3", "two inputs have the name `x`"),
    ("graph {\n  input %0: f32[] input\n  %0: f32[] = exp(%0)\n  return\n}", "3, column 3", "defined already"),
    ("graph {\n  %0: f32[] = exp(%0)\n  return\n}", "2, column 19", "not defined before"),
    ("graph {\n  %0: f32[] = exp(%1)\n  %1: f32[] = exp(%0)\n  return\n}", "2, column 19", "not defined before"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[] = exq(%0)\n  return\n}", "3, column 15", "unknown op `exq`"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[] = custom<\"f\">(%0)\n  return\n}", "3, column 15", "custom op"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[] = exp(%0, %0)\n  return\n}", "3, column 3", "takes 1 operands, not 2"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[2] = exp(%0)\n  return\n}", "3, column 3", "gives [f32[]], not [f32[2]]"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[], %2: f32[] = exp(%0)\n  return\n}", "3, column 3", "gives [f32[]], not"),
    ("graph {\n  input %0: f32[] input\n  %1: f32[], %3: f32[] = exp(%0)\n  return\n}", "3, column 14", "the value after %1, found %3"),
    ("graph {\n  input %0: f32[2] input\n  input %1: f32[3] input\n  %2: f32[2] = add(%0, %1)\n  return\n}", "4, column 3", "do not broadcast"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = add(%0, 1)\n  return\n}", "3, column 25", "expected `:`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = add(%0, 1:i32)\n  return\n}", "3, column 3", "got f32[2] and i32[]"),
    ("graph {\n  return 300:u8\n}", "2, column 10", "does not fit u8"),
    ("graph {\n  return -1:u64\n}", "2, column 10", "does not fit u64"),
    ("graph {\n  return 1.5:i32\n}", "2, column 10", "does not fit i32"),
    ("graph {\n  return 1e39:f32\n}", "2, column 10", "does not fit f32"),
    ("graph {\n  return 1e9:f16\n}", "2, column 10", "does not fit f16"),
    ("graph {\n  return 1.0:c64\n}", "2, column 10", "does not fit c64"),
    ("graph {\n  return 1:bool\n}", "2, column 10", "does not fit bool"),
    ("graph {\n  return true:f32\n}", "2, column 10", "does not fit f32"),
    ("graph {\n  return (1.0,2.0:c64\n}", "2, column 18", "expected `)`"),
    ("graph {\n  return const<f32[3]>\n}", "2, column 10", "constant tensor"),
    ("graph {\n  return 1x:f32\n}", "2, column 10", "malformed number"),
    ("graph {\n  return 1.0:f32 -> 0\n}", "2, column 10", "updates input 0, but there are 0 inputs"),
    ("graph {\n  input %0: f32[] state\n  return %0 -> x\n}", "3, column 16", "the number of an input"),
    ("graph {\n  input %0: f32[] input\n  return %0 -> 0\n}", "3, column 10", "expected state, got input"),
    ("graph {\n  input %0: f32[] state\n  return 1.0:f64 -> 0\n}", "3, column 10", "the update of input 0 is f64[], expected f32[]"),
    ("graph {\n  input %0: f32[] state\n  return %0 -> 0, %0 -> 0\n}", "3, column 19", "updated twice"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0)\n  return\n}", "3, column 15", "`axes` is missing"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=0}\n  return\n}", "3, column 15", "for parameter `axes`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[-1]}\n  return\n}", "3, column 15", "for parameter `axes`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[1]}\n  return\n}", "3, column 3", "axis 1 is out of range"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[0], k=2}\n  return\n}", "3, column 15", "unknown parameter `k`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[0], axes=[0]}\n  return\n}", "3, column 41", "one too many"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[0] k}\n  return\n}", "3, column 40", "expected `,` or `}`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[0}\n  return\n}", "3, column 38", "expected `,` or `]`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=}\n  return\n}", "3, column 36", "a parameter's value"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[99999999999999999999]}\n  return\n}", "3, column 37", "too large"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[] = reduce_sum(%0) {axes=[[[[[0]]]]]}\n  return\n}", "3, column 40", "lists are nested deeper"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = leaky_relu(%0) {negative_slope=1e999}\n  return\n}", "3, column 47", "too large"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = exp(%0) @ head\n  return\n}", "3, column 26", "the path of a module"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = exp(%0\n  return\n}", "4, column 3", "expected `)`, found `return`"),
    ("graph {\n  input %0: f32[2] input\n  %1: f32[2] = exp(%0)\n  input %2: f32[] input\n  return\n}", "4, column 3", "`return`, found `input`"),
    ("graph {\n  input %0: bool[] input\n  () = cond(%0) {branches=[graph {\n    %0: f32[2] = exp(1.0:f32)\n    return\n  }]}\n  return\n}", "4, column 5", "gives [f32[]], not [f32[2]]"),
    ("graph {\n  input %0: bool[] input\n  () = cond(%0) {branches=[graph {\n    return %0\n  }]}\n  return\n}", "4, column 12", "%0 is not defined"),
    ("graph {\n  input %0: bool[] input\n  () = cond(%0) {branches=[]}\n  return\n}", "3, column 3", "expected at least one branch"),
    ("graph {\n  return é\n}", "2, column 10", "found an invalid character"),
    ("graph {\n  return \u{0}\n}", "2, column 10", "found an invalid character"),
    ("graph {\n  return 1 / 2\n}", "2, column 12", "expected `:`"),
];

#[test]
fn errors_have_positions() {
    let mut faults = Vec::new();
    for (text, place, says) in WRONG {
        let error = Graph::parse(text).expect_err(text);
        assert_eq!(error.kind(), Kind::Convert, "{text}");
        let message = error.to_string();
        let is_there = message.starts_with(&format!("graph: line {place}: "));
        if !is_there || !message.contains(says) {
            faults.push(format!("{message}\nwanted {place}, {says}"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn hostile_texts_are_bounded() {
    let nested = |depth: usize| {
        let open = "graph {\ninput %0: bool[] input\n() = cond(%0, %0) {branches=[";
        let close = "]}\nreturn\n}";
        format!(
            "{}graph {{ input %0: bool[] input return }}{}",
            open.repeat(depth),
            close.repeat(depth)
        )
    };
    round_trip(&Graph::parse(&nested(63)).unwrap().to_string());
    let refuse = |text: &str, says: &str| {
        let error = Graph::parse(text).unwrap_err();
        assert!(error.message().contains(says), "{error}");
    };
    refuse(&nested(64), "graphs are nested deeper");
    refuse(&nested(100_000), "graphs are nested deeper");
    let of = |shape: &str| format!("graph {{ input %0: f32[{shape}] input return }}");
    refuse(&of(&"(".repeat(100_000)), "sizes are nested deeper");
    refuse(&of(&"-".repeat(100_000)), "expected a size");
    refuse(&of(&vec!["1"; 65].join(",")), "at most 64 axes, got 65");
    // Each size is short, but their product would have 2^40 terms.
    let wide: Vec<_> = (0..40).map(|i| format!("a{i}+b{i}")).collect();
    refuse(&of(&wide.join(",")), "too many terms");
    let lists = format!("graph {{ %0: f32[] = exp() {{a={}", "[".repeat(100_000));
    refuse(&lists, "lists are nested deeper");
    let huge = "graph {\n%0: f32[4611686018427387903] = full() {value=0, dtype=f32, shape=[4611686018427387903]}\nreturn\n}";
    refuse(huge, "too many elements");
    let many = format!(
        "graph {{ %0: f32[] = exp() {{{}",
        (0..99).map(|i| format!("a{i}=1,")).collect::<String>()
    );
    refuse(&many, "one too many");
    refuse(&"x".repeat(1 << 20), "found `xxxx");
}

struct Twice;

impl CustomOp for Twice {
    fn name(&self) -> &str {
        "my.twice"
    }
    fn infer(&self, inputs: &[&Spec]) -> Result<Vec<Spec>> {
        Ok(inputs.iter().map(|s| (*s).clone()).collect())
    }
    fn expand(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        Ok(inputs.iter().map(|t| (*t).clone()).collect())
    }
}

#[test]
fn constants_and_custom_ops_are_printed_but_not_parsed() {
    let open = trace::Trace::open(false);
    let spec = Spec::of(DType::F32, [3usize]).unwrap();
    let at_hand = open.trace.input(spec.clone(), Role::Input, "");
    let mut graph = Graph::default();
    let op = Op::Custom(Custom(std::sync::Arc::new(Twice)));
    graph.node(op, smallvec![Arg::Const(at_hand)], &[spec], ScopeId(0));
    graph.verify().unwrap();
    let text = graph.to_string();
    let line = "%0: f32[3] = custom<\"my.twice\">(const<f32[3]>)";
    assert_eq!(text, format!("graph {{\n  {line}\n  return\n}}"));
    let error = Graph::parse(&text).unwrap_err();
    assert!(error.message().contains("a custom op"), "{error}");
    let error = Graph::parse(&text.replace("custom<\"my.twice\">", "exp")).unwrap_err();
    assert!(error.message().contains("make it an input"), "{error}");
}

fn scalar() -> Spec {
    Spec::scalar(DType::F32)
}

#[test]
fn hand_made_graphs_are_verified() {
    let base = || {
        let mut graph = Graph::default();
        let x = graph.input(scalar(), Role::State, "x");
        graph.node(
            Op::Unary(Unary::Exp),
            smallvec![Arg::Value(x)],
            &[scalar()],
            ScopeId(0),
        );
        graph.outputs.push(Output {
            arg: Arg::Value(ValueId(1)),
            updates: Some(0),
        });
        graph
    };
    base().verify().unwrap();
    type Change = fn(&mut Graph);
    let changes: &[(Change, &str)] = &[
        (
            |g| g.nodes[0].args[0] = Arg::Value(ValueId(9)),
            "%9 in a graph of 2 values",
        ),
        (
            |g| g.nodes[0].args[0] = Arg::Value(ValueId(1)),
            "%1 is not defined before its use",
        ),
        (
            |g| g.nodes[0].outs = 1..u32::MAX,
            "exp defines %1 up to %4294967295",
        ),
        (|g| g.nodes[0].outs = 0..1, "%0 is defined twice"),
        (|g| g.nodes[0].outs = 1..1, "gives [f32[]], not []"),
        (
            |g| g.nodes[0].scope = ScopeId(3),
            "module path 3 of 1 in `%1: f32[] = exp(%0)`",
        ),
        (
            |g| g.scopes = vec!["a".into()],
            "the first module path is `a`",
        ),
        (|g| g.values.push(scalar()), "%2: f32[] is never defined"),
        (
            |g| g.values[1].dtype = DType::F64,
            "`%1: f64[] = exp(%0)` gives [f32[]], not [f64[]]",
        ),
        (
            |g| g.values[1].shape = Shape::from_dims([Dim::number(-1)]),
            "got -1 on axis 0",
        ),
        (
            |g| g.inputs.push(g.inputs[0].clone()),
            "%0 is defined twice",
        ),
        (
            |g| g.inputs[0].value = ValueId(7),
            "%7 in a graph of 2 values",
        ),
        (
            |g| g.inputs[0].role = Role::Constant,
            "expected state, got constant",
        ),
        (
            |g| g.outputs[0].updates = Some(1),
            "updates input 1, but there are 1 inputs",
        ),
        (
            |g| g.outputs.push(g.outputs[0].clone()),
            "input 0 is updated twice",
        ),
        (
            |g| g.outputs[0].arg = Arg::Value(ValueId(2)),
            "%2 in a graph",
        ),
        (
            |g| g.outputs[0].arg = Arg::Const(Tensor::scalar(1i64, DType::I8)),
            "the update of input 0 is i8[], expected f32[]",
        ),
        (
            |g| {
                let mut inner = Graph::default();
                inner.outputs.push(Output {
                    arg: Arg::Value(ValueId(4)),
                    updates: None,
                });
                let op: Op = Cond {
                    branches: vec![graph::Body::new(inner)],
                }
                .into();
                let which = Arg::Const(Tensor::scalar(true, DType::Bool));
                g.node(op, smallvec![which], &[], ScopeId(0));
            },
            "in `() = cond(true:bool) {branches=[graph {…}]}`",
        ),
    ];
    let mut faults = Vec::new();
    for (change, says) in changes {
        let mut graph = base();
        change(&mut graph);
        let error = graph.verify().expect_err(says).to_string();
        if !error.contains(says) {
            faults.push(format!("{error}\nwanted {says}"));
        }
        // Invalid graphs can still be printed and optimised.
        let _ = (graph.to_string(), graph.prune());
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
