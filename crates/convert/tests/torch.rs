//! Small programs of torch's, as its reader writes them, run on the native engine; torch itself is not needed.

use clematis_convert::{Program, import};
use clematis_core::{Kind, Result, Tensor, ops};
use clematis_native as _;
use serde_json::{Value as Json, json};

/// A program of these inputs (name, element type, shape), nodes and results.
fn program(inputs: &[(&str, &str, Json)], nodes: &[Json], outputs: &[&str]) -> Program {
    let inputs: Vec<Json> = inputs
        .iter()
        .map(|(name, dtype, shape)| json!({"name": name, "role": "input", "spec": {"dtype": dtype, "shape": shape}}))
        .collect();
    let outputs: Vec<Json> = outputs
        .iter()
        .map(|name| json!({"value": {"v": name}}))
        .collect();
    let whole = json!({"inputs": inputs, "nodes": nodes, "outputs": outputs});
    Program::parse(&whole.to_string()).expect("a program")
}

/// One op with one result.
fn node(op: &str, args: Json, out: &str, dtype: &str, shape: Json) -> Json {
    json!({"op": op, "args": args, "out": out, "specs": [{"dtype": dtype, "shape": shape}]})
}

fn v(name: &str) -> Json {
    json!({"v": name})
}

fn run(program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let made = import(program, "torch")?;
    assert!(!made.draws);
    let all: Vec<&Tensor> = inputs.iter().chain(&made.constants).collect();
    made.graph.call(&all)
}

fn floats(values: &[f32], shape: &[usize]) -> Tensor {
    ops::from_slice(values, shape).expect("a tensor")
}

fn counted(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    floats(&(0..n).map(|i| i as f32).collect::<Vec<_>>(), shape)
}

fn ints(values: &[i64], shape: &[usize]) -> Tensor {
    ops::from_slice(values, shape).expect("a tensor")
}

fn row(x: &Tensor) -> Vec<f32> {
    x.to_vec::<f32>().expect("floats")
}

#[test]
fn one_program_for_every_batch() -> Result<()> {
    let p = program(
        &[
            ("w", "float32", json!([2, 3])),
            ("b", "float32", json!([2])),
            ("x", "float32", json!(["s0", 3])),
        ],
        &[
            node(
                "linear",
                json!([v("x"), v("w"), v("b")]),
                "y",
                "float32",
                json!(["s0", 2]),
            ),
            node("relu", json!([v("y")]), "z", "float32", json!(["s0", 2])),
            node(
                "view",
                json!([v("z"), [{"d": "2*s0"}]]),
                "flat",
                "float32",
                json!(["2*s0"]),
            ),
        ],
        &["flat"],
    );
    let (w, b) = (
        floats(&[1.0, 0.0, 0.0, 0.0, -1.0, 0.0], &[2, 3]),
        floats(&[0.5, 0.0], &[2]),
    );
    for batch in [1, 2, 5] {
        let out = run(&p, &[w.clone(), b.clone(), counted(&[batch, 3])])?;
        let want: Vec<f32> = (0..batch)
            .flat_map(|i| [3.0 * i as f32 + 0.5, 0.0])
            .collect();
        assert_eq!(row(&out[0]), want);
    }
    Ok(())
}

#[test]
fn walks_through_memory() -> Result<()> {
    // The same elements in another order of axes, then windows that overlap, with an open batch.
    let strided = |args: Json, own: Json, out: &str, shape: Json| {
        json!({"op": "as_strided", "args": args, "kwargs": {"own_stride": own, "own_offset": 0}, "out": out,
               "specs": [{"dtype": "float32", "shape": shape}]})
    };
    let p = program(
        &[("x", "float32", json!(["s0", 6]))],
        &[
            strided(
                json!([v("x"), [{"d": "s0"}, 6, 1, 1], [6, 1, 6, 6]]),
                json!([6, 1]),
                "a",
                json!(["s0", 6, 1, 1]),
            ),
            strided(
                json!([v("x"), [{"d": "s0"}, 3, 2], [6, 2, 1]]),
                json!([6, 1]),
                "b",
                json!(["s0", 3, 2]),
            ),
            node(
                "unfold",
                json!([v("x"), 1, 3, 2]),
                "c",
                "float32",
                json!(["s0", 2, 3]),
            ),
        ],
        &["a", "b", "c"],
    );
    let out = run(&p, &[counted(&[2, 6])])?;
    assert_eq!(row(&out[0]), row(&counted(&[12])));
    assert_eq!(row(&out[1]), row(&counted(&[12])));
    assert_eq!(
        row(&out[2]),
        [0.0, 1.0, 2.0, 2.0, 3.0, 4.0, 6.0, 7.0, 8.0, 8.0, 9.0, 10.0]
    );
    // What lies beyond the operand is refused.
    let p = program(
        &[("x", "float32", json!([2, 2]))],
        &[strided(
            json!([v("x"), [3], [3]]),
            json!([4, 1]),
            "a",
            json!([3]),
        )],
        &["a"],
    );
    assert_eq!(
        run(&p, &[counted(&[2, 2])]).expect_err("refused").kind(),
        Kind::Unsupported
    );
    Ok(())
}

#[test]
fn writes_at_indices() -> Result<()> {
    let p = program(
        &[
            ("x", "float32", json!(["s0", 3])),
            ("at", "int64", json!([2])),
            ("y", "float32", json!(["s0", 2])),
        ],
        &[
            node(
                "index_put",
                json!([v("x"), [null, v("at")], v("y")]),
                "a",
                "float32",
                json!(["s0", 3]),
            ),
            node(
                "index_add",
                json!([v("x"), 1, v("at"), v("y")]),
                "b",
                "float32",
                json!(["s0", 3]),
            ),
            node("gt", json!([v("x"), 2]), "m", "bool", json!(["s0", 3])),
            node(
                "index_put",
                json!([v("x"), [v("m")], v("zero")]),
                "c",
                "float32",
                json!(["s0", 3]),
            ),
            node(
                "masked_scatter",
                json!([v("x"), v("m"), v("y")]),
                "d",
                "float32",
                json!(["s0", 3]),
            ),
        ]
        .iter()
        .enumerate()
        .flat_map(|(i, n)| {
            let zero = node("full", json!([[], 0]), "zero", "float32", json!([]));
            (i == 0).then_some(zero).into_iter().chain([n.clone()])
        })
        .collect::<Vec<_>>(),
        &["a", "b", "c", "d"],
    );
    let y = floats(&[10.0, 20.0, 30.0, 40.0], &[2, 2]);
    let out = run(&p, &[counted(&[2, 3]), ints(&[2, 0], &[2]), y])?;
    assert_eq!(row(&out[0]), [20.0, 1.0, 10.0, 40.0, 4.0, 30.0]);
    assert_eq!(row(&out[1]), [20.0, 1.0, 12.0, 43.0, 4.0, 35.0]);
    assert_eq!(row(&out[2]), [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]);
    assert_eq!(row(&out[3]), [0.0, 1.0, 2.0, 10.0, 20.0, 30.0]);
    Ok(())
}

#[test]
fn reduces_into_places() -> Result<()> {
    let reduce = |word: &str, own: bool, out: &str| {
        json!({"op": "scatter_reduce", "variant": "two", "args": [v("x"), 0, v("at"), v("y"), word], "out": out,
               "kwargs": {"include_self": own}, "specs": [{"dtype": "float32", "shape": [3]}]})
    };
    let p = program(
        &[
            ("x", "float32", json!([3])),
            ("at", "int64", json!([4])),
            ("y", "float32", json!([4])),
        ],
        &[
            reduce("sum", true, "a"),
            reduce("mean", false, "b"),
            reduce("amax", false, "c"),
            reduce("prod", true, "d"),
        ],
        &["a", "b", "c", "d"],
    );
    let x = floats(&[5.0, 6.0, 7.0], &[3]);
    let out = run(
        &p,
        &[
            x,
            ints(&[0, 0, 2, 0], &[4]),
            floats(&[1.0, 2.0, 3.0, 6.0], &[4]),
        ],
    )?;
    assert_eq!(row(&out[0]), [14.0, 6.0, 10.0]);
    assert_eq!(row(&out[1]), [3.0, 6.0, 3.0]);
    assert_eq!(row(&out[2]), [6.0, 6.0, 3.0]);
    assert_eq!(row(&out[3]), [60.0, 6.0, 21.0]);
    Ok(())
}

#[test]
fn branches_and_loops() -> Result<()> {
    let body = |op: &str, by: f64| {
        json!({"g": {"inputs": [{"name": "p", "role": "input", "spec": {"dtype": "float32", "shape": ["s0"]}}],
                     "nodes": [node(op, json!([v("p"), by]), "q", "float32", json!(["s0"]))],
                     "outputs": [{"value": v("q")}]}})
    };
    let p = program(
        &[("x", "float32", json!(["s0"]))],
        &[
            node("sum", json!([v("x")]), "s", "float32", json!([])),
            node("gt", json!([v("s"), 0]), "c", "bool", json!([])),
            node(
                "cond",
                json!([v("c"), body("mul", 2.0), body("sub", 1.0), [v("x")]]),
                "l",
                "float32",
                json!(["s0"]),
            ),
            node("getitem", json!([v("l"), 0]), "y", "float32", json!(["s0"])),
        ],
        &["y"],
    );
    assert_eq!(row(&run(&p, &[floats(&[1.0, 2.0], &[2])])?[0]), [2.0, 4.0]);
    assert_eq!(
        row(&run(&p, &[floats(&[-1.0, -2.0, 0.0], &[3])])?[0]),
        [-2.0, -3.0, -1.0]
    );

    let spec = json!({"dtype": "float32", "shape": []});
    let test = json!({"g": {"inputs": [{"name": "p", "role": "input", "spec": spec}],
        "nodes": [node("lt", json!([v("p"), 100]), "q", "bool", json!([]))], "outputs": [{"value": v("q")}]}});
    let step = json!({"g": {"inputs": [{"name": "p", "role": "input", "spec": spec}],
        "nodes": [node("mul", json!([v("p"), 3]), "q", "float32", json!([]))], "outputs": [{"value": v("q")}]}});
    let p = program(
        &[("x", "float32", json!([]))],
        &[
            node(
                "while_loop",
                json!([test, step, [v("x")], []]),
                "l",
                "float32",
                json!([]),
            ),
            node("getitem", json!([v("l"), 0]), "y", "float32", json!([])),
        ],
        &["y"],
    );
    assert_eq!(row(&run(&p, &[floats(&[2.0], &[])])?[0]), [162.0]);
    Ok(())
}

#[test]
fn a_recurrent_layer_over_any_time() -> Result<()> {
    // Gates that are all open: the state is the sum of what comes in, squashed twice.
    let p = program(
        &[
            ("x", "float32", json!(["b", "t", 1])),
            ("h", "float32", json!([1, "b", 1])),
            ("c", "float32", json!([1, "b", 1])),
            ("wx", "float32", json!([4, 1])),
            ("wh", "float32", json!([4, 1])),
            ("bx", "float32", json!([4])),
            ("bh", "float32", json!([4])),
        ],
        &[
            json!({"op": "lstm", "variant": "input", "out": "l", "specs": [],
                   "args": [v("x"), [v("h"), v("c")], [v("wx"), v("wh"), v("bx"), v("bh")], true, 1, 0.0, false, false, true]}),
            node(
                "getitem",
                json!([v("l"), 0]),
                "y",
                "float32",
                json!(["b", "t", 1]),
            ),
            node(
                "getitem",
                json!([v("l"), 2]),
                "last",
                "float32",
                json!([1, "b", 1]),
            ),
        ],
        &["y", "last"],
    );
    let wx = floats(&[0.0, 0.0, 1.0, 0.0], &[4, 1]);
    let wh = floats(&[0.0; 4], &[4, 1]);
    let open = floats(&[50.0, 50.0, 0.0, 50.0], &[4]);
    let none = floats(&[0.0; 4], &[4]);
    for time in [1usize, 3] {
        let zero = floats(&[0.0; 2], &[1, 2, 1]);
        let x = floats(&vec![0.5; 2 * time], &[2, time, 1]);
        let out = run(
            &p,
            &[
                x,
                zero.clone(),
                zero,
                wx.clone(),
                wh.clone(),
                open.clone(),
                none.clone(),
            ],
        )?;
        let cell = time as f32 * 0.5f32.tanh();
        assert!((row(&out[1])[0] - cell).abs() < 1e-6);
        assert!((row(&out[0])[time - 1] - cell.tanh()).abs() < 1e-6);
    }
    Ok(())
}

#[test]
fn bags_of_rows() -> Result<()> {
    let p = program(
        &[
            ("w", "float32", json!([4, 2])),
            ("at", "int64", json!([5])),
            ("from", "int64", json!([3])),
        ],
        &[
            json!({"op": "_embedding_bag", "args": [v("w"), v("at"), v("from"), false, 1, false, null, false, -1], "out": "l",
                   "specs": [{"dtype": "float32", "shape": [3, 2]}, null, null, null]}),
            node("getitem", json!([v("l"), 0]), "y", "float32", json!([3, 2])),
        ],
        &["y"],
    );
    let out = run(
        &p,
        &[
            counted(&[4, 2]),
            ints(&[0, 1, 3, 3, 2], &[5]),
            ints(&[0, 2, 2], &[3]),
        ],
    )?;
    let mean = 16.0 / 3.0;
    assert_eq!(row(&out[0]), [1.0, 2.0, 0.0, 0.0, mean, mean + 1.0]);
    Ok(())
}

#[test]
fn transforms_and_complex_numbers() -> Result<()> {
    let p = program(
        &[("x", "float32", json!(["s0", 4]))],
        &[
            node(
                "_fft_r2c",
                json!([v("x"), [1], 0, true]),
                "f",
                "complex64",
                json!(["s0", 3]),
            ),
            node(
                "_fft_c2r",
                json!([v("f"), [1], 2, 4]),
                "y",
                "float32",
                json!(["s0", 4]),
            ),
            node(
                "view_as_real",
                json!([v("f")]),
                "r",
                "float32",
                json!(["s0", 3, 2]),
            ),
        ],
        &["y", "r"],
    );
    let out = run(&p, &[counted(&[2, 4])])?;
    let back = row(&out[0]);
    assert!(
        back.iter()
            .enumerate()
            .all(|(i, x)| (x - i as f32).abs() < 1e-6),
        "{back:?}"
    );
    assert_eq!(row(&out[1])[..2], [6.0, 0.0]);
    Ok(())
}

#[test]
fn other_sizes() -> Result<()> {
    let p = program(
        &[("x", "float32", json!(["s0", 1, 3]))],
        &[
            node(
                "_upsample_nearest_exact1d",
                json!([v("x"), [5], null]),
                "a",
                "float32",
                json!(["s0", 1, 5]),
            ),
            node(
                "upsample_nearest1d",
                json!([v("x"), [5], null]),
                "b",
                "float32",
                json!(["s0", 1, 5]),
            ),
            node(
                "upsample_linear1d",
                json!([v("x"), [5], true]),
                "c",
                "float32",
                json!(["s0", 1, 5]),
            ),
        ],
        &["a", "b", "c"],
    );
    let out = run(&p, &[counted(&[1, 1, 3])])?;
    assert_eq!(row(&out[0]), [0.0, 0.0, 1.0, 2.0, 2.0]);
    assert_eq!(row(&out[1]), [0.0, 0.0, 1.0, 1.0, 2.0]);
    assert_eq!(row(&out[2]), [0.0, 0.5, 1.0, 1.5, 2.0]);
    Ok(())
}

#[test]
fn state_is_an_output_that_replaces_an_input() -> Result<()> {
    let whole = json!({
        "inputs": [{"name": "n", "role": "state", "path": "count", "spec": {"dtype": "float32", "shape": []}}],
        "nodes": [node("add", json!([v("n"), 1]), "m", "float32", json!([]))],
        "outputs": [{"value": v("m")}, {"value": v("m"), "updates": "n"}],
    });
    let made = import(&Program::parse(&whole.to_string())?, "torch")?;
    assert_eq!(made.graph.outputs[1].updates, Some(0));
    Ok(())
}

#[test]
fn what_is_not_understood_is_named() {
    let p = program(
        &[("x", "float32", json!([2]))],
        &[
            json!({"op": "no_such", "args": [v("x")], "out": "a", "specs": [], "line": "net.py:7"}),
            json!({"op": "no_such", "args": [v("x")], "out": "b", "specs": []}),
            json!({"op": "nor_this", "args": [v("x")], "out": "c", "specs": []}),
        ],
        &["a"],
    );
    let e = run(&p, &[counted(&[2])]).expect_err("refused");
    assert_eq!(e.kind(), Kind::Unsupported);
    let words = e.to_string();
    assert!(
        words.contains("2 unsupported operators")
            && words.contains("aten.no_such (2 times")
            && words.contains("net.py:7"),
        "{words}"
    );

    let p = program(
        &[("x", "float32", json!([2]))],
        &[json!({"op": "nonzero", "args": [v("x")], "out": "a", "specs": [], "line": "net.py:9"})],
        &["a"],
    );
    let words = run(&p, &[counted(&[2])]).expect_err("refused").to_string();
    assert!(
        words.contains("depends on values") && words.contains("net.py:9"),
        "{words}"
    );
}

#[test]
fn damaged_programs_are_errors() {
    for text in [
        "",
        "{",
        "[]",
        "{\"inputs\": 3}",
        "{\"inputs\": [], \"nodes\": [{}], \"outputs\": []}",
    ] {
        assert_eq!(
            Program::parse(text).expect_err("refused").kind(),
            Kind::Convert
        );
    }
    // A value that nobody makes, sizes that differ from the framework's, an element type that is not there.
    let one = |args: Json, dtype: &str, shape: Json| {
        program(
            &[("x", "float32", json!([2]))],
            &[node("relu", args, "y", dtype, shape)],
            &["y"],
        )
    };
    for p in [
        one(json!([v("z")]), "float32", json!([2])),
        one(json!([v("x")]), "float32", json!([3])),
    ] {
        assert_eq!(
            run(&p, &[counted(&[2])]).expect_err("refused").kind(),
            Kind::Convert
        );
    }
    assert!(
        run(
            &one(json!([v("x")]), "float7", json!([2])),
            &[counted(&[2])]
        )
        .is_err()
    );
}
