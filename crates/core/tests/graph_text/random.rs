//! Random graphs round-trip; damaged texts never panic.

use super::sym;
use clematis_core::graph::{Arg, Graph, Output, Role, ScopeId, ValueId};
use clematis_core::infer::infer;
use clematis_core::op::*;
use clematis_core::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Step {
    op: usize,
    x: prop::sample::Index,
    y: prop::sample::Index,
    number: f32,
    scope: usize,
}

fn step() -> impl Strategy<Value = Step> {
    (
        0usize..10,
        any::<prop::sample::Index>(),
        any::<prop::sample::Index>(),
        any::<f32>(),
        0usize..4,
    )
        .prop_map(|(op, x, y, number, scope)| Step {
            op,
            x,
            y,
            number,
            scope,
        })
}

/// A valid graph: steps that do not match are skipped.
fn random_graph(steps: &[Step]) -> Graph {
    let mut graph = Graph::default();
    let (b, n) = (sym("b"), sym("n"));
    let specs = [
        vec![b, n],
        vec![n],
        vec![],
        vec![b, Dim::number(3)],
        vec![Dim::number(1), n],
    ];
    for (i, dims) in specs.into_iter().enumerate() {
        graph.input(
            Spec::new(DType::F32, Shape::from_dims(dims)),
            Role::State,
            format!("in.{i}"),
        );
    }
    graph.scopes = ["", "a", "a.b", "c \"d\""].map(String::from).into();
    for s in steps {
        let x = ValueId(s.x.index(graph.values.len()) as u32);
        let y = ValueId(s.y.index(graph.values.len()) as u32);
        let shape = graph.spec(x).shape.clone();
        let number = Arg::Const(Tensor::scalar(s.number, graph.spec(x).dtype));
        let (x, y) = (Arg::Value(x), Arg::Value(y));
        let (op, args): (Op, Vec<Arg>) = match s.op {
            0 => (Op::Unary(Unary::Exp), vec![x]),
            1 => (Op::Binary(Binary::Add), vec![x, y]),
            2 => (Op::Binary(Binary::Maximum), vec![x, number]),
            3 => (Op::Compare(Compare::Less), vec![number, y]),
            4 => (Op::Reshape(Shape::from_dims([shape.count_dim()])), vec![x]),
            5 => (Op::Transpose((0..shape.rank()).rev().collect()), vec![x]),
            6 => (
                Reduce {
                    kind: ReduceKind::Sum,
                    axes: Axes::new(&[0]),
                }
                .into(),
                vec![x],
            ),
            7 => (Op::Concat(0), vec![x, y]),
            8 => (Op::Cast(DType::F64), vec![x]),
            _ => {
                let zero: Dims = shape.dims().iter().map(|_| Dim::number(0)).collect();
                let strides = shape.dims().iter().map(|_| 2).collect();
                (
                    Slice {
                        start: zero,
                        limit: shape.dims().into(),
                        strides,
                    }
                    .into(),
                    vec![x],
                )
            }
        };
        let specs: Vec<&Spec> = args.iter().map(|a| graph.arg_spec(a)).collect();
        let Ok(out) = infer(&op, &specs) else {
            continue;
        };
        if out.as_slice().iter().all(|s| s.to_string().len() < 200) {
            graph.node(op, args.into(), out.as_slice(), ScopeId(s.scope as u32));
        }
    }
    let last = ValueId(graph.values.len() as u32 - 1);
    graph.outputs = vec![
        Output {
            arg: Arg::Value(last),
            updates: None,
        },
        Output {
            arg: Arg::Value(ValueId(1)),
            updates: Some(1),
        },
    ];
    graph
}

const SAMPLE: &str = r#"graph {
  input %0: f32[b,2*n+1] input "x"
  input %1: f32[max(b,3)] state "s"
  %2: f32[b] = reduce_sum(%0) {axes=[1]} @ "a.b"
  %3: f32[b,(2*n+1)//2] = slice(%0) {start=[0,1], limit=[b,2*n+1], strides=[1,2]}
  %4: bool[] = cond(true:bool, 1.5:f32, (1.0,-0.5):c64) {branches=[graph {
    input %0: f32[] input
    input %1: c64[] input
    %2: bool[] = less(%0, -inf:f32)
    return %2
  }]}
  %5: f32[b,1], %6: i64[b,1] = top_k(%0) {k=1}
  %7: f32[b,2*n+1] = softmax(%0) {axis=1}
  %8: f32[n//2,2] = full() {value=1e-3, dtype=f32, shape=[n//2,2]}
  return %2, %1 -> 1, nan:f16
}"#;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_graphs_are_read_back(steps in prop::collection::vec(step(), 0..12)) {
        let graph = random_graph(&steps);
        graph.verify().unwrap();
        let text = graph.to_string();
        prop_assert_eq!(Graph::parse(&text).unwrap().to_string(), text);
        let pruned = graph.prune();
        pruned.verify().unwrap();
        prop_assert!(pruned.nodes.len() <= graph.nodes.len());
        prop_assert_eq!(pruned.prune().to_string(), pruned.to_string());
        let mut at = Bindings::default();
        at.bind("b", 5).unwrap();
        at.bind("n", 8).unwrap();
        let bound = graph.bind(&at).unwrap();
        bound.verify().unwrap();
        prop_assert!(!bound.is_symbolic());
    }

    #[test]
    fn floats_are_read_back(bits in any::<u64>()) {
        for (value, dtype) in [(f64::from_bits(bits), DType::F64), (f64::from(f32::from_bits(bits as u32)), DType::F32)] {
            prop_assume!(!value.is_nan());
            let mut graph = Graph::default();
            graph.outputs.push(Output { arg: Arg::Const(Tensor::scalar(value, dtype)), updates: None });
            let read = Graph::parse(&graph.to_string()).unwrap();
            let Arg::Const(t) = &read.outputs[0].arg else { panic!() };
            prop_assert_eq!(t.as_number(), Some(Scalar::from(value)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_texts_do_not_panic(
        damage in prop::collection::vec((0usize..5, any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let pieces: Vec<&str> = SAMPLE.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        let mut bytes = SAMPLE.as_bytes().to_vec();
        for (kind, at, from, byte) in damage {
            let at = at.index(bytes.len().max(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => { bytes.remove(at); }
                2 => bytes.insert(at, b"0123456789-%[]{}(),:=@\"\\ .e"[usize::from(byte) % 27]),
                3 => { bytes.splice(at..at, from.get(&pieces).bytes()); }
                _ => bytes.truncate(bytes.len() - usize::from(byte) % 50.min(bytes.len().max(1))),
            }
        }
        let text = String::from_utf8_lossy(&bytes);
        match Graph::parse(&text) {
            Ok(graph) => {
                let printed = graph.to_string();
                prop_assert_eq!(Graph::parse(&printed).unwrap().to_string(), printed);
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), Kind::Convert);
                prop_assert!(error.message().starts_with("graph: line "), "{}", error);
            }
        }
    }

    #[test]
    fn any_text_is_parsed_or_rejected(text in "\\PC{0,60}") {
        prop_assert!(Graph::parse(&text).is_err());
        let _ = Graph::parse(&format!("graph {{ {text} return }}"));
    }
}

#[test]
fn the_sample_is_legal() {
    let graph = Graph::parse(SAMPLE).unwrap();
    assert_eq!(graph.to_string(), SAMPLE.replace("1e-3", "0.001"));
}
