//! ONNX models there and back, and files that are no models.

use clematis_convert::export::onnx::{Names, export};
use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;
use clematis_convert::onnx::proto::Model;
use clematis_convert::onnx::wire::Message;
use clematis_core::graph::Role;
use clematis_core::ops::{self, ConvOptions, Padding};
use clematis_core::trace::Trace;
use clematis_core::{DType, Dim, Graph, Host, Result, Shape, Spec, Tensor, backend, control};
use clematis_native as _;
use proptest::prelude::*;
use std::collections::HashMap;

fn native<R>(f: impl FnOnce() -> R) -> R {
    backend::with(backend::find("native").expect("it is there"), f)
}

fn weights(count: usize, shape: &[usize]) -> Host {
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 % 19) as f32 - 9.0) / 10.0)
        .collect();
    Host::from_slice(&values, Shape::from_sizes(shape)).expect("it fits")
}

/// A convolution, a pool, a loop and a product, with a batch that has a name.
fn program() -> Result<(Graph, Names)> {
    let batch = Dim::symbol("batch")?;
    let open = Trace::open(false);
    let image = Spec::new(
        DType::F32,
        Shape::from_dims([batch, 3.into(), 8.into(), 8.into()]),
    );
    let x = open.trace.input(image, Role::Input, "x");
    let hosts = [
        weights(4 * 27, &[4, 3, 3, 3]),
        weights(5 * 16, &[5, 16]),
        weights(5, &[5]),
    ];
    let held: Vec<Tensor> = ["conv.w", "linear.w", "linear.b"]
        .iter()
        .zip(&hosts)
        .map(|(name, h)| open.trace.input(h.spec().clone(), Role::Param, name))
        .collect();
    let options = ConvOptions {
        padding: Padding::Same,
        channels_last: false,
        ..ConvOptions::new(2)
    };
    let y = ops::relu(ops::conv(&x, &held[0], &options));
    let y = ops::max_pool(y, &[4, 4], &[4, 4], &Padding::Valid, false);
    let y = ops::linear(
        ops::reshape(y, Shape::from_dims([batch, 16.into()])),
        &held[1],
        Some(&held[2]),
    )
    .done()?;
    let (_, rows) = control::scan(
        &y,
        &ops::zeros(Shape::from_sizes(&[3]), DType::F32).done()?,
        None,
        false,
        |c, r| {
            let c = ops::tanh(c + r).done()?;
            Ok((c.clone(), c))
        },
    )?;
    let out = ops::softmax(ops::mean(rows, 0i64), -1).done()?;
    let closed = Trace::close(open, &[out]);
    assert!(closed.captured.is_empty());
    let values = hosts
        .into_iter()
        .enumerate()
        .map(|(i, h)| (i + 1, h))
        .collect();
    Ok((
        closed.graph.prune(),
        Names {
            values,
            inputs: vec!["image".into()],
            outputs: vec!["share".into()],
        },
    ))
}

fn model() -> Vec<u8> {
    native(|| {
        let (graph, names) = program().expect("it traces");
        export(&graph, &names)
            .and_then(|m| m.to_bytes())
            .expect("it is written")
    })
}

#[test]
fn a_model_goes_there_and_back() {
    native(|| {
        let (graph, names) = program().expect("it traces");
        let bytes = export(&graph, &names)
            .and_then(|m| m.to_bytes())
            .expect("it is written");
        let back = reader::import(&bytes, None, &Options::default()).expect("it is read");
        assert_eq!(
            (back.inputs, back.outputs),
            (vec!["image".to_string()], vec!["share".to_string()])
        );
        let paths: Vec<&str> = back.held.iter().map(|h| h.path.as_str()).collect();
        assert_eq!(paths, ["conv.w", "linear.w", "linear.b"]);
        assert!(back.held.iter().all(|h| h.role == "param"));
        for batch in [1, 3] {
            let x = ops::from_host(weights(batch * 192, &[batch, 3, 8, 8])).expect("an image");
            let held: Vec<Tensor> = (1..4)
                .map(|i| ops::from_host(names.values[&i].clone()).expect("weights"))
                .collect();
            let first: Vec<&Tensor> = [&x].into_iter().chain(&held).collect();
            let want = graph.call(&first).expect("it runs");
            let second: Vec<&Tensor> = held.iter().chain([&x]).chain(&back.constants).collect();
            let got = back.graph.call(&second).expect("it runs");
            let (want, got) = (
                want[0].to_vec::<f32>().expect("floats"),
                got[0].to_vec::<f32>().expect("floats"),
            );
            assert_eq!(want.len(), batch * 5);
            assert!(
                want.iter().zip(&got).all(|(a, b)| (a - b).abs() < 1e-6),
                "{want:?} {got:?}"
            );
            let inputs = HashMap::from([("image".to_string(), x.to_host().expect("values"))]);
            let run = reader::run(&bytes, None, inputs).expect("it runs");
            let run = run[0].1.to_vec::<f32>().expect("floats");
            assert!(want.iter().zip(&run).all(|(a, b)| (a - b).abs() < 1e-6));
        }
    });
}

/// A model of one node on one constant.
fn with_tensor(tensor: &Message) -> Vec<u8> {
    let mut node = Message::default();
    node.put(1, "w").put(2, "y").put(4, "Identity");
    let mut out = Message::default();
    out.put(1, "y");
    let mut graph = Message::default();
    graph.message(1, &node).message(5, tensor).message(12, &out);
    let mut set = Message::default();
    set.int(2, 20);
    let mut model = Message::default();
    model.int(1, 9).message(7, &graph).message(8, &set);
    model.into_bytes()
}

fn refused(bytes: &[u8]) -> String {
    native(|| match reader::import(bytes, None, &Options::default()) {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    })
}

#[test]
fn sizes_are_not_believed() {
    let mut huge = Message::default();
    huge.int(1, 1 << 40)
        .int(1, 1 << 40)
        .int(2, 1)
        .put(8, "w")
        .put(9, [0u8; 4]);
    assert!(refused(&with_tensor(&huge)).contains("sizes"));
    let mut many = Message::default();
    many.int(1, 1 << 36).int(2, 1).put(8, "w").put(9, [0u8; 4]);
    assert!(refused(&with_tensor(&many)).contains("bytes"));
    let mut typed = Message::default();
    typed.int(1, 1 << 30).int(2, 7).put(8, "w").int(7, 1);
    assert!(refused(&with_tensor(&typed)).contains("numbers"));
    let mut negative = Message::default();
    negative.int(1, -1).int(2, 1).put(8, "w");
    assert!(refused(&with_tensor(&negative)).contains("sizes"));
    let mut strange = Message::default();
    strange.int(1, 1).int(2, 8).put(8, "w").put(6, "text");
    assert!(refused(&with_tensor(&strange)).contains("string"));
}

#[test]
fn data_in_other_files_stay_in_the_folder() {
    let outside = |place: &str| {
        let mut entry = Message::default();
        entry.put(1, "location").put(2, place);
        let mut tensor = Message::default();
        tensor
            .int(1, 1)
            .int(2, 1)
            .put(8, "w")
            .message(13, &entry)
            .int(14, 1);
        with_tensor(&tensor)
    };
    assert!(refused(&outside("w.bin")).contains("path"));
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("model");
    std::fs::create_dir(&inner).expect("a folder");
    std::fs::write(folder.path().join("w.bin"), 2.5f32.to_le_bytes()).expect("written");
    std::fs::write(inner.join("w.bin"), 1.5f32.to_le_bytes()).expect("written");
    let read = |place: &str| native(|| reader::run(&outside(place), Some(&inner), HashMap::new()));
    assert_eq!(
        read("w.bin").expect("it is read")[0]
            .1
            .to_vec::<f32>()
            .expect("floats"),
        [1.5]
    );
    let absolute = folder.path().join("w.bin").display().to_string();
    for place in ["../w.bin", "./../w.bin", "", "none.bin", &absolute] {
        assert!(read(place).is_err(), "{place}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("w.bin"), inner.join("link.bin"))
            .expect("a link");
        assert!(read("link.bin").is_err());
    }
    std::fs::write(inner.join("w.bin"), [0u8; 3]).expect("written");
    assert!(read("w.bin").is_err());
}

#[test]
fn functions_that_call_themselves_are_refused() {
    let mut call = Message::default();
    call.put(1, "x").put(2, "y").put(4, "f").put(7, "own");
    let mut function = Message::default();
    function
        .put(1, "f")
        .put(4, "x")
        .put(5, "y")
        .message(7, &call)
        .put(10, "own");
    let mut tensor = Message::default();
    tensor.int(1, 1).int(2, 1).put(8, "x").put(9, [0u8; 4]);
    let mut out = Message::default();
    out.put(1, "y");
    let mut graph = Message::default();
    graph
        .message(1, &call)
        .message(5, &tensor)
        .message(12, &out);
    let mut model = Message::default();
    model.int(1, 9).message(7, &graph).message(25, &function);
    assert!(refused(&model.into_bytes()).contains("calls itself"));
}

#[test]
fn unknown_ops_are_named_with_their_number() {
    let mut graph = Message::default();
    for i in 0..3 {
        let mut node = Message::default();
        node.put(1, "x").put(2, format!("y{i}")).put(4, "NoSuchOp");
        graph.message(1, &node);
    }
    let mut model = Message::default();
    model.int(1, 9).message(7, &graph);
    let told = refused(&model.into_bytes());
    assert!(told.contains("NoSuchOp (3 times"), "{told}");
}

/// Reads, imports and, where that succeeds, looks at what came out.
fn survives(bytes: &[u8]) {
    let _ = Model::parse(bytes);
    native(|| {
        if let Ok(made) = reader::import(bytes, None, &Options::default()) {
            assert!(made.graph.inputs.len() >= made.held.len());
        }
    });
}

/// How many cases: `PROPTEST_CASES` asks for more.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(512)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        survives(&bytes);
    }

    #[test]
    fn flipped_bits_are_refused_or_read(flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 1..4)) {
        let mut bytes = model();
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        survives(&bytes);
    }

    #[test]
    fn sizes_of_any_size_are_refused_or_read(at in any::<prop::sample::Index>(), more in proptest::collection::vec(128u8..=255, 1..10)) {
        // A number in the file grows by seven bits with each byte that is put before its last one.
        let mut bytes = model();
        let at = at.index(bytes.len());
        bytes.splice(at..at, more);
        survives(&bytes);
    }

    #[test]
    fn damaged_models_are_refused_or_read(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12), cut in any::<Option<prop::sample::Index>>()) {
        let mut bytes = model();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        survives(&bytes);
    }

    #[test]
    fn any_op_on_any_operands_is_refused_or_read(
        op in 0usize..400,
        ranks in proptest::collection::vec(0usize..5, 0..5),
        values in proptest::collection::vec(-3i64..6, 1..6),
        attributes in proptest::collection::vec((0usize..40, -2i64..5, any::<bool>()), 0..6),
        version in 1i64..24,
    ) {
        survives(&one_node(op, &ranks, &values, &attributes, version));
    }
}

const ATTRIBUTES: [&str; 40] = [
    "axis",
    "axes",
    "keepdims",
    "to",
    "pads",
    "strides",
    "kernel_shape",
    "dilations",
    "group",
    "perm",
    "shape",
    "split",
    "num_outputs",
    "blocksize",
    "mode",
    "epsilon",
    "alpha",
    "beta",
    "k",
    "largest",
    "dtype",
    "size",
    "p",
    "depth",
    "starts",
    "ends",
    "output_shape",
    "output_padding",
    "ceil_mode",
    "auto_pad",
    "direction",
    "hidden_size",
    "num_scan_inputs",
    "q_num_heads",
    "kv_num_heads",
    "equation",
    "reduction",
    "batch_dims",
    "block_size",
    "value_ints",
];

/// A node with operands of these ranks, the odd ones constants.
fn one_node(
    op: usize,
    ranks: &[usize],
    values: &[i64],
    attributes: &[(usize, i64, bool)],
    version: i64,
) -> Vec<u8> {
    let names = reader::names();
    let op = names[op % names.len()];
    let (domain, name) = op.rsplit_once("::").unwrap_or(("", op));
    let mut graph = Message::default();
    let mut node = Message::default();
    for (i, &rank) in ranks.iter().enumerate() {
        let operand = format!("x{i}");
        node.put(1, &operand);
        if i % 2 == 1 {
            let mut tensor = Message::default();
            let row = if rank == 0 { &values[..1] } else { values };
            if rank > 0 {
                tensor.int(1, row.len() as i64);
            }
            tensor.int(2, 7).put(8, &operand);
            for x in row {
                tensor.int(7, *x);
            }
            graph.message(5, &tensor);
        } else {
            let mut shape = Message::default();
            for axis in 0..rank {
                let mut size = Message::default();
                if axis == 0 {
                    size.put(2, "n")
                } else {
                    size.int(1, 2 + axis as i64)
                };
                shape.message(1, &size);
            }
            let mut kind = Message::default();
            kind.int(1, 1).message(2, &shape);
            let mut outer = Message::default();
            outer.message(1, &kind);
            let mut info = Message::default();
            info.put(1, &operand).message(2, &outer);
            graph.message(11, &info);
        }
    }
    node.put(2, "y").put(4, name).put(7, domain);
    for (at, value, list) in attributes {
        let word = ATTRIBUTES[at % ATTRIBUTES.len()];
        let mut attribute = Message::default();
        attribute.put(1, word);
        match (word, list) {
            ("mode" | "auto_pad" | "direction" | "equation" | "reduction", _) => {
                let texts = [
                    "reflect",
                    "SAME_UPPER",
                    "bidirectional",
                    "ij,jk->ik",
                    "cubic",
                    "LEFT",
                    "none",
                ];
                attribute
                    .put(4, texts[value.unsigned_abs() as usize % texts.len()])
                    .int(20, 3);
            }
            ("epsilon" | "alpha" | "beta", _) => {
                attribute.float(2, *value as f32).int(20, 1);
            }
            (_, true) => {
                for x in values {
                    attribute.int(8, *x);
                }
                attribute.int(20, 7);
            }
            (_, false) => {
                attribute.int(3, *value).int(20, 2);
            }
        }
        node.message(5, &attribute);
    }
    graph.message(1, &node);
    let mut out = Message::default();
    out.put(1, "y");
    graph.message(12, &out);
    let mut set = Message::default();
    set.put(1, domain).int(2, version);
    let mut model = Message::default();
    model.int(1, 9).message(7, &graph).message(8, &set);
    model.into_bytes()
}
