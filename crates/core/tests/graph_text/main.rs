//! The text form of graphs: printing and parsing round-trip, errors have positions, nothing panics.

#![allow(clippy::unwrap_used, clippy::panic)] // clippy knows test functions, not what they call

mod ops;
mod random;
mod wrong;

use clematis_core::graph::{Arg, Graph, Output, Role, ScopeId};
use clematis_core::*;
use smallvec::smallvec;

fn round_trip(text: &str) -> Graph {
    let graph = Graph::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let printed = graph.to_string();
    assert_eq!(printed.trim(), text.trim());
    assert_eq!(Graph::parse(&printed).unwrap().to_string(), printed);
    graph
}

fn sym(name: &str) -> Dim {
    Dim::symbol(name).unwrap()
}

#[test]
fn a_layer_round_trips() {
    let graph = round_trip(
        r#"
graph {
  input %0: f32[b,64] input "x"
  input %1: f32[64,10] param "layers.0.w"
  input %2: f32[10] state "layers.1.mean"
  input %3: u32[2] key
  %4: f32[b,10] = dot_general(%0, %1) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]} @ "layers.0"
  %5: f32[b,10] = maximum(%4, 0.0:f32) @ "layers.0"
  %6: f32[b,3], %7: i64[b,3] = top_k(%5) {k=3}
  %8: f32[10] = mul(%2, 0.9:f32) @ "layers.1"
  return %6, %7, %8 -> 2, 1.5:f32
}"#,
    );
    assert_eq!(graph.scopes, ["", "layers.0", "layers.1"]);
    assert_eq!(graph.nodes[1].scope, graph.nodes[0].scope);
    assert_eq!(graph.nodes[2].outs, 6..8);
    assert_eq!(graph.outputs[2].updates, Some(2));
    assert_eq!(graph.inputs[3].role, Role::Key);
    assert_eq!(&*graph.symbols()[0], "b");
}

#[test]
fn bodies_are_graphs_inside_graphs() {
    let graph = round_trip(
        r#"
graph {
  input %0: bool[] input
  input %1: f32[n,4] input
  %2: f32[n,4] = cond(%0, %1) {branches=[graph {
    input %0: f32[n,4] input
    %1: f32[n,4] = exp(%0)
    return %1
  }, graph {
    input %0: f32[n,4] input
    return %0
  }]} @ "gate"
  %3: f32[n,4] = while(%2) {test=graph {
    input %0: f32[n,4] input
    %1: f32[] = reduce_sum(%0) {axes=[0,1]}
    %2: bool[] = less(%1, 100.0:f32)
    return %2
  }, body=graph {
    input %0: f32[n,4] input
    %1: f32[n,4] = add(%0, %0) @ "inner"
    return %1
  }, test_consts=0, body_consts=0}
  %4: f32[n,4] = scan(0.5:f32, %1) {body=graph {
    input %0: f32[] input
    input %1: f32[4] input
    return %1
  }, consts=1, carries=0, length=n, reverse=false}
  return %3
}"#,
    );
    let mut bindings = Bindings::default();
    bindings.bind("n", 6).unwrap();
    let bound = graph.bind(&bindings).unwrap();
    assert!(!bound.is_symbolic() && bound.symbols().is_empty());
    bound.verify().unwrap();
    round_trip(&bound.to_string());
    assert_eq!(
        bound.to_string(),
        graph
            .to_string()
            .replace("[n", "[6")
            .replace("length=n", "length=6")
    );
    // A graph without symbolic dimensions is unchanged.
    let again = bound.bind(&Bindings::default()).unwrap();
    for (a, b) in again.nodes.iter().zip(&bound.nodes) {
        assert_eq!(a.op, b.op);
    }
    let error = graph.bind(&Bindings::default()).unwrap_err();
    assert!(error.to_string().contains("`n`"), "{error}");
}

#[test]
fn sizes_are_expressions() {
    let graph = round_trip(
        r#"
graph {
  input %0: f32[b,n,h,w] input "x"
  %1: f32[b*h*n*w] = reshape(%0) {shape=[b*h*n*w]}
  %2: f32[b,n,h,w//2+1] = slice(%0) {start=[0,0,0,w-(w//2)-1], limit=[b,n,h,w], strides=[1,1,1,1]}
  %3: f32[max(2*b,n),0] = full() {value=-0.0, dtype=f32, shape=[max(2*b,n),0]}
  %4: f32[b,2*n-1,h,w] = pad(%0, 0.0:f32) {low=[0,-1,0,0], high=[0,n,0,0], interior=[0,0,0,0]}
  return %1, %2, %3, %4
}"#,
    );
    assert_eq!(graph.symbols().len(), 4);
    let mut at = Bindings::default();
    for (name, size) in [("b", 2), ("n", 3), ("h", 4), ("w", 5)] {
        at.bind(name, size).unwrap();
    }
    let bound = graph.bind(&at).unwrap();
    bound.verify().unwrap();
    assert!(
        bound
            .to_string()
            .contains("%2: f32[2,3,4,3] = slice(%0) {start=[0,0,0,2]"),
        "{bound}"
    );
}

#[test]
fn numbers_keep_their_bits() {
    let mut graph = Graph::default();
    let mut want = Vec::new();
    let floats = [
        0.1,
        -0.0,
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e-45,
        65504.0,
        1.0 / 3.0,
        1e300,
        5e-324,
        f64::MAX,
    ];
    let ints = [0i64, 1, -1, 127, -128, i64::MAX, i64::MIN];
    let mut put = |value: Scalar, dtype: DType| {
        let t = Tensor::scalar(value, dtype);
        want.push((t.as_number().unwrap(), dtype));
        graph.outputs.push(Output {
            arg: Arg::Const(t),
            updates: None,
        });
    };
    for dtype in DType::ALL {
        match dtype.category() {
            Category::Bool => [true, false].iter().for_each(|&v| put(v.into(), dtype)),
            Category::Int => ints.iter().for_each(|&v| put(v.into(), dtype)),
            Category::Float => floats.iter().for_each(|&v| put(v.into(), dtype)),
            Category::Complex => floats
                .iter()
                .for_each(|&v| put(Scalar::Complex(v.into(), (-v).into()), dtype)),
        }
    }
    put(u64::MAX.into(), DType::U64);
    put(f64::NAN.into(), DType::BF16);
    let text = graph.to_string();
    let read = round_trip(&text);
    let found: Vec<_> = read
        .outputs
        .iter()
        .map(|o| match &o.arg {
            Arg::Const(t) => (t.as_number().unwrap(), t.dtype()),
            Arg::Value(_) => panic!(),
        })
        .collect();
    assert_eq!(found, want);
    for part in [
        "0.1:f32",
        "0.1:f64",
        "-inf:f16",
        "nan:bf16",
        "-0.0:bf16",
        "(0.1,-0.1):c64",
        "18446744073709551615:u64",
        "true:bool",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    // A plain number has the dtype that it adopted from its neighbours.
    graph.outputs = vec![Output {
        arg: Arg::Const(Tensor::number(0.1)),
        updates: None,
    }];
    assert!(graph.to_string().contains("return 0.1:f32"));
}

#[test]
fn texts_are_escaped() {
    let mut graph = Graph::default();
    let name = "a \"b\"\\\n\t\u{1}é🌿 } return # ";
    let x = graph.input(Spec::scalar(DType::F32), Role::Input, name);
    graph.scopes = vec![String::new(), name.into()];
    graph.node(
        Op::Unary(op::Unary::Exp),
        smallvec![Arg::Value(x)],
        &[Spec::scalar(DType::F32)],
        ScopeId(1),
    );
    let read = round_trip(&graph.to_string());
    assert_eq!(read.inputs[0].name, name);
    assert_eq!(read.scopes[1], name);
}

#[test]
fn comments_and_blanks_mean_nothing() {
    let text = "# a graph\ngraph{input%0:f32[ b , 2 ]input\"x\" # x\n%1:f32[b,2]=exp(%0)return%1}\n# over\n";
    let graph = Graph::parse(text).unwrap();
    assert_eq!(graph.nodes.len(), 1);
    round_trip(&graph.to_string());
}

#[test]
fn inputs_may_be_numbered_after_nodes() {
    // A trace places captured tensors there.
    round_trip(
        "graph {\n  input %0: f32[] input\n  input %2: f32[] constant\n  %1: f32[] = add(%0, %2)\n  return %1\n}",
    );
    // An empty graph.
    round_trip(
        "graph {\n  () = cond(true:bool) {branches=[graph {\n    return\n  }]}\n  return\n}",
    );
}

/// The inputs of the nodes below.
const INPUTS: &str = r#"
  input %0: f32[4,6] input
  input %1: i64[4,1] input
  input %2: f32[6,6] input
  input %3: c64[4,8] input
  input %4: bool[4,6] input
  input %5: f32[1,2,8,8] input
  input %6: f32[3,2,3,3] input
  input %7: i32[2] input
  input %8: f32[] input
  input %9: u32[4,6] input
  input %10: i64[6] input
"#;

/// A valid node of every family.
#[rustfmt::skip]
const LEGAL: &[&str] = &[
    "%11: f32[4,6] = erf(%0)",
    "%11: bool[4,6] = isnan(%0)",
    "%11: f32[4,8] = real(%3)",
    "%11: f32[4,6] = atan2(%0, 2.5:f32)",
    "%11: c64[4,6] = complex(%0, %8)",
    "%11: bool[4,6] = greater_equal(%0, %8)",
    "%11: u32[4,6] = shift_left(%9, 7:u32)",
    "%11: f32[4,6] = select(%4, %0, nan:f32)",
    "%11: f32[4,6] = clamp(-inf:f32, %0, inf:f32)",
    "%11: c64[4,8] = mul(%3, (0.0,1.0):c64)",
    "%11: f32[4,6] = stop_gradient(%0)",
    "%11: bf16[4,6] = cast(%0) {dtype=bf16}",
    "%11: u32[4,6] = bitcast(%0) {dtype=u32}",
    "%11: u8[2,3] = full() {value=7, dtype=u8, shape=[2,3]}",
    "%11: i32[2,b] = iota() {axis=1, dtype=i32, shape=[2,b]}",
    "%11: f32[2,12] = reshape(%0) {shape=[2,12]}",
    "%11: f32[6,4] = transpose(%0) {axes=[1,0]}",
    "%11: f32[3,4,6] = broadcast(%0) {shape=[3,4,6], axes=[1,2]}",
    "%11: f32[2,2] = slice(%0) {start=[1,0], limit=[3,6], strides=[1,3]}",
    "%11: f32[7,5] = pad(%0, %8) {low=[0,-1], high=[0,0], interior=[1,0]}",
    "%11: f32[10,6] = concat(%0, %2) {axis=0}",
    "%11: f32[4,6] = reverse(%0) {axes=[1]}",
    "%11: f32[2,2] = dynamic_slice(%0, %7) {sizes=[2,2]}",
    "%11: f32[4,6] = dynamic_update_slice(%0, %0, %7)",
    "%11: f32[4,6] = gather(%0, %1) {offset_axes=[1], collapsed=[0], index_map=[0], operand_batch=[], index_batch=[], slice_sizes=[1,6], mode=clip}",
    "%11: f32[6,6] = scatter_add(%2, %1, %0) {window_axes=[1], inserted=[0], index_map=[0], operand_batch=[], index_batch=[], mode=drop}",
    "%11: i64[9,2] = nonzero(%0) {size=9}",
    "%11: i64[4,6] = searchsorted(%0, %0) {right=false}",
    "%11: f32[4] = reduce_max(%0) {axes=[1]}",
    "%11: bool[] = reduce_any(%4) {axes=[0,1]}",
    "%11: i64[4] = argmin(%0) {axis=1}",
    "%11: f32[4,6] = cumulative_logsumexp(%0) {axis=1, reverse=true}",
    "%11: f32[4,6], %12: f32[4,6] = sort(%0, %0) {axis=1, keys=1, descending=false, stable=true}",
    "%11: f32[4,2], %12: i64[4,2] = top_k(%0) {k=2}",
    "%11: f32[4,6] = dot_general(%0, %2) {lhs_batch=[], rhs_batch=[], lhs_contract=[1], rhs_contract=[0]}",
    "%11: f32[1,3,4,4] = conv_general(%5, %6) {strides=[2,2], padding=[[1,1],[1,1]], lhs_dilation=[1,1], rhs_dilation=[1,1], lhs_layout=[0,1,2,3], rhs_layout=[0,1,2,3], out_layout=[0,1,2,3], feature_groups=1, batch_groups=1}",
    "%11: f32[4,2] = reduce_window_max(%0) {size=[1,3], strides=[1,3], padding=[[0,0],[0,0]], base_dilation=[1,1], window_dilation=[1,1]}",
    "%11: f32[6,6] = cholesky(%2) {upper=false}",
    "%11: f32[4,4], %12: f32[4,6] = qr(%0) {complete=false}",
    "%11: f32[4,4], %12: f32[4], %13: f32[4,6] = svd(%0) {complete=false, vectors=true}",
    "%11: f32[6], %12: f32[6,6] = eigh(%2) {vectors=true}",
    "%11: c64[6] = eig(%2) {vectors=false}",
    "%11: f32[4,6], %12: i32[4], %13: i32[4] = lu(%0)",
    "%11: f32[6,6] = triangular_solve(%2, %2) {left=true, lower=true, transpose=adjoint, unit_diagonal=false}",
    "%11: c64[4,8] = fft(%3) {axes=[1], length=8}",
    "%11: c64[4,4] = rfft(%0) {axes=[1], length=6}",
    "%11: f32[4,6] = relu(%0)",
    "%11: f32[4,6] = gelu(%0) {approximate=false}",
    "%11: f32[4,6] = softmax(%0) {axis=1} @ \"head\"",
];

fn graph_of(line: &str) -> String {
    format!("graph {{{INPUTS}  {line}\n  return\n}}")
}

#[test]
fn legal_nodes_of_every_family_are_verified() {
    for line in LEGAL {
        round_trip(&graph_of(line));
    }
}

#[test]
fn invalid_ids_do_not_panic() {
    let odd = [
        "0",
        "1",
        "7",
        "-1",
        "b",
        "4611686018427387903",
        "9223372036854775807",
        "-9223372036854775808",
    ];
    for line in LEGAL {
        let numbers: Vec<_> = line.match_indices(|c: char| c.is_ascii_digit()).collect();
        for (at, digit) in numbers {
            for new in odd {
                let text = graph_of(&format!(
                    "{}{new}{}",
                    &line[..at],
                    &line[at + digit.len()..]
                ));
                if let Ok(graph) = Graph::parse(&text) {
                    round_trip(&graph.to_string());
                }
            }
        }
    }
}

#[test]
fn dead_nodes_are_pruned() {
    let graph = round_trip(
        r#"
graph {
  input %0: f32[4] input "x"
  input %5: f32[4] param "unused"
  %1: f32[4] = exp(%0)
  %2: f32[4] = log(%1)
  %3: f32[2], %4: i64[2] = top_k(%1) {k=2}
  return %4
}"#,
    );
    let pruned = graph.prune();
    pruned.verify().unwrap();
    assert_eq!(
        pruned.to_string(),
        r#"graph {
  input %0: f32[4] input "x"
  input %1: f32[4] param "unused"
  %2: f32[4] = exp(%0)
  %3: f32[2], %4: i64[2] = top_k(%2) {k=2}
  return %4
}"#
    );
}
