//! Models that were made to take much time or memory, or to be read in two ways: each is refused or done quickly.

use clematis_convert::import::onnx as reader;
use clematis_convert::onnx::program::Options;
use clematis_convert::onnx::wire::Message;
use clematis_core::{Host, Kind, Result, Shape, Tensor, backend, ops};
use clematis_native as _;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// No input of a few kilobytes may take longer, in code that is not optimised.
const LONGEST: Duration = Duration::from_secs(2);

fn quickly<R>(f: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let out = backend::with(backend::find("native").expect("it is there"), f);
    let took = start.elapsed();
    assert!(took < LONGEST, "{took:?}");
    out
}

fn refused(bytes: &[u8]) -> String {
    quickly(|| match reader::import(bytes, None, &Options::default()) {
        Ok(_) => "nothing was refused".to_string(),
        Err(e) => e.to_string(),
    })
}

fn call(op: &str, domain: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    let mut node = Message::default();
    for x in inputs {
        node.put(1, x);
    }
    for x in outputs {
        node.put(2, x);
    }
    node.put(4, op).put(7, domain);
    node
}

fn ints(name: &str, values: &[i64]) -> Message {
    let mut attribute = Message::default();
    attribute.put(1, name).int(20, 7);
    for x in values {
        attribute.int(8, *x);
    }
    attribute
}

fn text(name: &str, value: &str) -> Message {
    let mut attribute = Message::default();
    attribute.put(1, name).put(4, value).int(20, 3);
    attribute
}

fn int(name: &str, value: i64) -> Message {
    let mut attribute = Message::default();
    attribute.put(1, name).int(3, value).int(20, 2);
    attribute
}

fn input(name: &str, sizes: &[i64]) -> Message {
    let mut shape = Message::default();
    for n in sizes {
        let mut size = Message::default();
        size.int(1, *n);
        shape.message(1, &size);
    }
    let mut kind = Message::default();
    kind.int(1, 1).message(2, &shape);
    let mut outer = Message::default();
    outer.message(1, &kind);
    let mut info = Message::default();
    info.put(1, name).message(2, &outer);
    info
}

fn tensor(name: &str, sizes: &[i64], code: i64, raw: &[u8]) -> Message {
    let mut out = Message::default();
    for n in sizes {
        out.int(1, *n);
    }
    out.int(2, code).put(8, name).put(9, raw);
    out
}

fn named(name: &str) -> Message {
    let mut out = Message::default();
    out.put(1, name);
    out
}

fn model(graph: &Message, functions: &[Message]) -> Vec<u8> {
    let mut set = Message::default();
    set.int(2, 23);
    let mut model = Message::default();
    model.int(1, 9).message(7, graph).message(8, &set);
    for function in functions {
        model.message(25, function);
    }
    model.into_bytes()
}

fn graph(nodes: &[Message], held: &[Message], inputs: &[Message], outputs: &[&str]) -> Message {
    let mut out = Message::default();
    for node in nodes {
        out.message(1, node);
    }
    for x in held {
        out.message(5, x);
    }
    for x in inputs {
        out.message(11, x);
    }
    for x in outputs {
        out.message(12, &named(x));
    }
    out
}

#[test]
fn functions_that_multiply_are_refused_with_their_number() {
    // Each calls the next one four times: 4 to the power of 20 nodes in 2 kB.
    let functions: Vec<Message> = (0..20)
        .map(|i| {
            let mut function = Message::default();
            function.put(1, format!("f{i}")).put(4, "x").put(5, "y");
            let (op, domain) = match i {
                19 => ("Relu".to_string(), ""),
                _ => (format!("f{}", i + 1), "own"),
            };
            for (from, to) in [("x", "a"), ("a", "b"), ("b", "c"), ("c", "y")] {
                function.message(7, &call(&op, domain, &[from], &[to]));
            }
            function.put(10, "own");
            function
        })
        .collect();
    let graph = graph(
        &[call("f0", "own", &["x"], &["y"])],
        &[],
        &[input("x", &[2])],
        &["y"],
    );
    let bytes = model(&graph, &functions);
    assert!(bytes.len() < 3000);
    let message = refused(&bytes);
    assert!(message.contains("expected at most 9280 nodes"), "{message}");
}

#[test]
fn names_that_stand_twice_are_refused() {
    let relu = call("Relu", "", &["x"], &["y"]);
    let x = input("x", &[2]);
    let w = tensor("w", &[1], 1, &[0; 4]);
    let twice = |graph: &Message, what: &str| {
        let message = refused(&model(graph, &[]));
        assert!(
            message.contains(what) && message.contains("twice"),
            "{message}"
        );
    };
    let one = std::slice::from_ref(&relu);
    twice(&graph(one, &[], &[x.clone(), x.clone()], &["y"]), "inputs");
    twice(
        &graph(one, &[], std::slice::from_ref(&x), &["y", "y"]),
        "outputs",
    );
    twice(
        &graph(one, &[w.clone(), w], std::slice::from_ref(&x), &["y"]),
        "initializers",
    );
    let mut node = call("Transpose", "", &["x"], &["y"]);
    node.message(5, &ints("perm", &[0]))
        .message(5, &ints("perm", &[0]));
    twice(&graph(&[node], &[], &[x], &["y"]), "attributes");
}

#[test]
fn absurd_attributes_are_errors_and_no_panics() {
    let raw = |values: &[i64]| -> Vec<u8> { values.iter().flat_map(|x| x.to_le_bytes()).collect() };
    for mode in ["reflect", "edge", "wrap", "constant"] {
        for far in [i64::MIN, i64::MAX, -(1 << 40), 1 << 40] {
            let mut node = call("Pad", "", &["x", "p"], &["y"]);
            node.message(5, &text("mode", mode));
            let pads = tensor("p", &[2], 7, &raw(&[far, far]));
            let message = refused(&model(
                &graph(&[node], &[pads], &[input("x", &[4])], &["y"]),
                &[],
            ));
            assert!(!message.contains("internal"), "{mode} {far}: {message}");
        }
    }
    let mut node = call("Attention", "", &["q", "q", "q", "", "past"], &["y"]);
    node.message(5, &int("q_num_heads", 1))
        .message(5, &int("kv_num_heads", 1));
    let inputs = [input("q", &[1, 2, 4]), input("past", &[4])];
    let message = refused(&model(&graph(&[node], &[], &inputs, &["y"]), &[]));
    assert!(
        message.contains("expected a past_key of rank 4, got f32[4]"),
        "{message}"
    );
    for op in ["GRU", "LSTM", "RNN"] {
        let gates = match op {
            "GRU" => 3,
            "LSTM" => 4,
            _ => 1,
        };
        let mut node = call(op, "", &["x", "w", "r"], &["y"]);
        node.message(5, &int("hidden_size", 1 << 40));
        let inputs = [
            input("x", &[1, 1, 2]),
            input("w", &[1, gates * 2, 2]),
            input("r", &[1, gates * 2, 2]),
        ];
        let message = refused(&model(&graph(&[node], &[], &inputs, &["y"]), &[]));
        assert!(message.contains("expected a hidden_size of 2"), "{message}");
        assert!(message.contains("1099511627776"), "{message}");
    }
}

#[test]
fn a_window_dilated_by_thousands_takes_no_longer_than_what_it_reads() -> Result<()> {
    let mut node = call("ConvTranspose", "", &["x", "w"], &["y"]);
    node.message(5, &ints("dilations", &[65536, 7]));
    let ones: Vec<u8> = [1f32; 4].iter().flat_map(|x| x.to_le_bytes()).collect();
    let w = tensor("w", &[1, 1, 2, 2], 1, &ones);
    let bytes = model(
        &graph(&[node], &[w], &[input("x", &[1, 1, 2, 2])], &["y"]),
        &[],
    );
    let x = Host::from_slice(&[1f32, 2.0, 3.0, 4.0], [1usize, 1, 2, 2])?;
    let values = HashMap::from([("x".to_string(), x)]);
    let outs = quickly(|| reader::run(&bytes, None, values))?;
    let y = &outs[0].1;
    assert_eq!(y.shape().sizes().as_slice(), [1, 1, 65538, 9]);
    let y = y.to_vec::<f32>()?;
    // Each element of the input stands where each of the filter's puts it.
    let at = |i: usize, j: usize| y[i * 9 + j];
    for (i, j) in [(0, 0), (65536, 0), (0, 7), (65536, 7)] {
        assert_eq!(
            [at(i, j), at(i, j + 1), at(i + 1, j), at(i + 1, j + 1)],
            [1.0, 2.0, 3.0, 4.0]
        );
    }
    assert_eq!(y.iter().sum::<f32>(), 40.0);
    Ok(())
}

#[test]
fn an_einsum_of_thousands_of_operands_is_done_quickly() -> Result<()> {
    quickly(|| {
        let x = ops::from_slice(&[0.5f32, 0.5, 0.5, 0.5], [2usize, 2])?;
        let xs: Vec<&Tensor> = vec![&x; 2000];
        // A chain of matmuls: ij,jk,kl…; a repeated letter would be another sum.
        let equation = vec!["ij"; 2000].join(",") + "->ij";
        let y = ops::einsum(&equation, &xs).done()?;
        assert_eq!(y.shape().sizes().as_slice(), [2, 2]);
        assert_eq!(y.to_vec::<f32>()?[0], 0.0);
        Ok(())
    })
}

#[test]
fn the_order_of_an_einsum_is_the_cheapest_pair_first() -> Result<()> {
    backend::with(backend::find("native")?, || {
        let host = |shape: &[usize]| {
            let count: usize = shape.iter().product();
            let values: Vec<f32> = (0..count).map(|i| (i % 7) as f32 - 3.0).collect();
            ops::from_slice(&values, Shape::from_sizes(shape))
        };
        let (a, b, c, d) = (
            host(&[3, 4])?,
            host(&[4, 5])?,
            host(&[5, 2])?,
            host(&[2, 3])?,
        );
        let y = ops::einsum("ij,jk,kl,lm->im", &[&a, &b, &c, &d]).done()?;
        let want = ops::matmul(ops::matmul(&a, &b), ops::matmul(&c, &d)).done()?;
        assert_eq!(y.to_vec::<f32>()?, want.to_vec::<f32>()?);
        Ok(())
    })
}

#[test]
fn a_resize_of_any_scale_is_quick_and_right_for_large_images() -> Result<()> {
    // More places than a matrix of weights is made for.
    let scales: Vec<u8> = [1f32, 1.0, 1.0, 1500.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let mut node = call("Resize", "", &["x", "", "s"], &["y"]);
    node.message(5, &text("mode", "linear"));
    let s = tensor("s", &[4], 1, &scales);
    let size = 1000;
    let bytes = model(
        &graph(&[node], &[s], &[input("x", &[1, 1, 1, size])], &["y"]),
        &[],
    );
    let values: Vec<f32> = (0..size).map(|i| i as f32).collect();
    let x = Host::from_slice(&values, [1usize, 1, 1, size as usize])?;
    let message = match quickly(|| reader::run(&bytes, None, HashMap::from([("x".to_string(), x)])))
    {
        Ok(_) => String::new(),
        Err(e) => e.to_string(),
    };
    assert!(message.contains("axis of size 1000 by 1500"), "{message}");
    let scales: Vec<u8> = [1f32, 1.0, 1.0, 2.0]
        .iter()
        .flat_map(|x| x.to_le_bytes())
        .collect();
    let mut node = call("Resize", "", &["x", "", "s"], &["y"]);
    node.message(5, &text("mode", "linear"));
    let s = tensor("s", &[4], 1, &scales);
    let bytes = model(
        &graph(&[node], &[s], &[input("x", &[1, 1, 1, size])], &["y"]),
        &[],
    );
    let x = Host::from_slice(&values, [1usize, 1, 1, size as usize])?;
    let y = quickly(|| reader::run(&bytes, None, HashMap::from([("x".to_string(), x)])))?;
    let y = y[0].1.to_vec::<f32>()?;
    assert_eq!(
        (y.len(), y[0], y[1], y[2], y[1999]),
        (2000, 0.0, 0.25, 0.75, 999.0)
    );
    Ok(())
}

#[test]
fn devices_are_no_models() {
    let path = std::path::Path::new("/dev/zero");
    let error = clematis_convert::export::model::load(path)
        .err()
        .expect("refused");
    assert_eq!(error.kind(), Kind::Io);
    assert!(error.to_string().contains("a character device"), "{error}");
}
