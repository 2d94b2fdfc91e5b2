//! The parameters of every op round-trip.

use super::sym;
use clematis_core::attr::Attr;
use clematis_core::graph::{Arg, Graph, Role, ScopeId};
use clematis_core::op::composite::ResizeMethod;
use clematis_core::op::*;
use clematis_core::*;
use smallvec::smallvec;
use std::collections::BTreeSet;

fn body(text: &str) -> graph::Body {
    graph::Body::new(Graph::parse(text).unwrap())
}

/// One of each op, with distinct parameters.
fn every_op() -> Vec<Op> {
    let mut all: Vec<Op> = Vec::new();
    all.extend(Unary::ALL.iter().map(|u| Op::Unary(*u)));
    all.extend(Binary::ALL.iter().map(|b| Op::Binary(*b)));
    all.extend(Compare::ALL.iter().map(|c| Op::Compare(*c)));
    all.extend([
        Op::Select,
        Op::Clamp,
        Op::StopGradient,
        Op::DynamicUpdate,
        Op::Lu,
    ]);
    let (b, n) = (sym("b"), sym("n"));
    let half = (n + Dim::number(1)).floor_div(Dim::number(2)).unwrap();
    let shape = Shape::from_dims([b, Dim::number(3), half]);
    let axes = Axes::new(&[0, 2]);
    let dims: Dims = smallvec![b, Dim::number(-1), half];
    let pads: Pads = smallvec![(Dim::number(-1), n), (Dim::number(0), half)];
    let inner = body(
        "graph {\n  input %0: f32[b] input\n  %1: f32[b] = exp(%0) @ \"deep\"\n  return %1\n}",
    );
    all.extend([
        Op::Cast(DType::BF16),
        Op::Bitcast(DType::U32),
        Op::Reshape(shape.clone()),
        Op::Transpose(axes.clone()),
        Op::Concat(1),
        Op::Reverse(axes.clone()),
        Op::DynamicSlice(shape.clone()),
        Op::TopK(n),
        Op::NonZero(half),
        Op::SearchSorted(true),
        Iota {
            axis: 1,
            dtype: DType::I64,
            shape: shape.clone(),
        }
        .into(),
        Broadcast {
            shape: shape.clone(),
            axes: axes.clone(),
        }
        .into(),
        Slice {
            start: dims.clone(),
            limit: dims.clone(),
            strides: axes.clone(),
        }
        .into(),
        Pad {
            low: dims.clone(),
            high: dims.clone(),
            interior: axes.clone(),
        }
        .into(),
        Gather {
            offset_axes: axes.clone(),
            collapsed: Axes::default(),
            index_map: axes.clone(),
            operand_batch: axes.clone(),
            index_batch: axes.clone(),
            slice_sizes: dims.clone(),
            mode: OutOfRange::Drop,
        }
        .into(),
        Sort {
            axis: 0,
            keys: 255,
            descending: true,
            stable: false,
        }
        .into(),
        Dot {
            lhs_batch: axes.clone(),
            rhs_batch: axes.clone(),
            lhs_contract: Axes::default(),
            rhs_contract: axes.clone(),
        }
        .into(),
        Conv {
            strides: axes.clone(),
            padding: pads.clone(),
            lhs_dilation: axes.clone(),
            rhs_dilation: axes.clone(),
            lhs_layout: axes.clone(),
            rhs_layout: axes.clone(),
            out_layout: axes.clone(),
            feature_groups: 4,
            batch_groups: 1,
        }
        .into(),
        Cholesky { upper: true }.into(),
        Qr { complete: false }.into(),
        Svd {
            complete: true,
            vectors: false,
        }
        .into(),
        Eigh { vectors: true }.into(),
        Eig { vectors: false }.into(),
        TriangularSolve {
            left: true,
            lower: false,
            transpose: Transposed::Adjoint,
            unit_diagonal: true,
        }
        .into(),
        Cond {
            branches: vec![inner.clone(), inner.clone()],
        }
        .into(),
        While {
            test: inner.clone(),
            body: inner.clone(),
            test_consts: 1,
            body_consts: 2,
        }
        .into(),
        Scan {
            body: inner.clone(),
            consts: 1,
            carries: 2,
            length: half,
            reverse: true,
        }
        .into(),
    ]);
    for value in [
        Scalar::Bool(true),
        Scalar::Int(-3),
        Scalar::UInt(u64::MAX),
        Scalar::from(-0.0),
        Scalar::from(f64::INFINITY),
        Scalar::from(1e16),
        Scalar::Complex(0.5.into(), f64::NEG_INFINITY.into()),
    ] {
        all.push(
            Full {
                value,
                dtype: DType::C128,
                shape: shape.clone(),
            }
            .into(),
        );
    }
    for &kind in ReduceKind::ALL {
        all.push(
            Reduce {
                kind,
                axes: axes.clone(),
            }
            .into(),
        );
    }
    for &kind in Extreme::ALL {
        all.push(ArgReduce { kind, axis: 2 }.into());
    }
    for &kind in CumulativeKind::ALL {
        all.push(
            Cumulative {
                kind,
                axis: 2,
                reverse: true,
            }
            .into(),
        );
    }
    for &kind in ScatterKind::ALL {
        let a = axes.clone();
        all.push(
            Scatter {
                kind,
                window_axes: a.clone(),
                inserted: a.clone(),
                index_map: a.clone(),
                operand_batch: a.clone(),
                index_batch: a,
                mode: OutOfRange::Clip,
            }
            .into(),
        );
    }
    for &kind in WindowKind::ALL {
        let a = axes.clone();
        let window = Window {
            kind,
            size: a.clone(),
            strides: a.clone(),
            padding: pads.clone(),
            base_dilation: a.clone(),
            window_dilation: a,
        };
        if let Ok(scatter) = WindowScatter::try_from(window.clone()) {
            all.push(WindowGather::from(scatter.clone()).into());
            all.push(scatter.into());
        }
        all.push(window.into());
    }
    for &kind in FftKind::ALL {
        all.push(
            Fft {
                kind,
                axes: axes.clone(),
                length: half,
            }
            .into(),
        );
    }
    for &kind in CollectiveKind::ALL {
        all.push(
            Collective {
                kind,
                group: "data \"0\"".into(),
                axis: 1,
            }
            .into(),
        );
    }
    all.extend(
        every_composite(&shape, &axes, &pads, &inner)
            .into_iter()
            .map(Op::from),
    );
    all
}

fn every_composite(shape: &Shape, axes: &Axes, pads: &Pads, inner: &graph::Body) -> Vec<Composite> {
    use Composite::*;
    let (axes, shape, padding) = (axes.clone(), shape.clone(), pads.clone());
    let epsilon = 1e-5.into();
    vec![
        Relu {},
        LeakyRelu {
            negative_slope: 0.01.into(),
        },
        Elu { alpha: 1.0.into() },
        Selu {},
        Gelu { approximate: true },
        Sigmoid {},
        LogSigmoid {},
        Silu {},
        Softplus {},
        Mish {},
        HardSigmoid {},
        HardSwish {},
        Softmax { axis: 1 },
        LogSoftmax { axis: 0 },
        LogSumExp { axes: axes.clone() },
        Mean { axes: axes.clone() },
        Var {
            axes: axes.clone(),
            correction: 1.0.into(),
        },
        LayerNorm { axis: 1, epsilon },
        LayerNormGrad { axis: 1, epsilon },
        RmsNorm { axis: 1, epsilon },
        GroupNorm {
            axis: 1,
            groups: 4,
            epsilon,
        },
        BatchNorm { axis: 1, epsilon },
        Linear {},
        Embedding {},
        Attention {
            scale: 0.125.into(),
            causal: true,
        },
        Dropout { rate: 0.5.into() },
        ConvTranspose {
            strides: axes.clone(),
            padding: padding.clone(),
            rhs_dilation: axes.clone(),
            lhs_layout: axes.clone(),
            rhs_layout: axes.clone(),
            out_layout: axes.clone(),
            feature_groups: 2,
        },
        MaxPool {
            size: axes.clone(),
            strides: axes.clone(),
            padding: padding.clone(),
            dilation: axes.clone(),
        },
        AvgPool {
            size: axes.clone(),
            strides: axes.clone(),
            padding,
            dilation: axes,
            count_padding: false,
        },
        Resize {
            shape: shape.clone(),
            method: ResizeMethod::Cubic,
            align_corners: false,
            antialias: true,
        },
        Einsum {
            equation: "bij,bjk->bik".into(),
        },
        OneHot {
            depth: sym("n"),
            dtype: DType::F16,
        },
        CrossEntropy {},
        LstmCell {},
        GruCell {},
        Solve {},
        Inv {},
        Det {},
        RandomBits {
            dtype: DType::U32,
            shape,
        },
        Function {
            name: "step \\ 1".into(),
            body: inner.clone(),
        },
    ]
}

#[test]
fn parameters_of_every_op_are_read_back() {
    let all = every_op();
    let covered: BTreeSet<_> = all.iter().map(Op::name).collect();
    let missing: Vec<_> = Op::all()
        .into_iter()
        .map(|(n, _)| n)
        .filter(|n| !covered.contains(n))
        .collect();
    assert!(missing.is_empty(), "no instance of {missing:?}");
    for op in all {
        let mut graph = Graph::default();
        let spec = Spec::of(DType::F32, [2usize, 2]).unwrap();
        let x = graph.input(spec.clone(), Role::Input, "");
        let args = (0..op.arity().unwrap_or(2))
            .map(|_| Arg::Value(x))
            .collect();
        graph.node(op.clone(), args, &[spec], ScopeId(0));
        let text = graph.to_string();
        let read = Graph::parse_unverified(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(read.to_string(), text);
        // Bodies compare by identity; their text was compared.
        if !op.attrs().iter().any(|(_, a)| {
            matches!(a, Attr::Graph(_) | Attr::List(_)) && format!("{a:?}").contains("graph of")
        }) {
            assert_eq!(read.nodes[0].op, op, "{text}");
        }
    }
}
