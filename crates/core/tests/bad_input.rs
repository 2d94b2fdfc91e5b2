//! Invalid input gives an error of the right kind that names the op and both values; nothing panics.

#![allow(clippy::unwrap_used, clippy::panic)] // every line of a test may fail it

use clematis_core::op::{Conv, Dot, Gather, OutOfRange, Pad, ScatterKind, Slice};
use clematis_core::ops::{self, At, ConvOptions, Padding};
use clematis_core::random::{self, Key};
use clematis_core::{
    Axes, DType, Dim, Graph, Host, Kind, Op, Result, Shape, Tensor, autodiff, control,
};
use clematis_native as _;

fn f32s(shape: &[usize]) -> Tensor {
    ops::zeros(shape, DType::F32).done().unwrap()
}

#[track_caller]
fn fails<T>(result: Result<T>, kind: Kind, parts: &[&str]) {
    let Err(e) = result else {
        panic!("an error was expected")
    };
    let text = e.to_string();
    assert_eq!(e.kind(), kind, "{text}");
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn mismatched_shapes() {
    let (a, b) = (f32s(&[2, 3]), f32s(&[4, 5]));
    fails((&a + &b).done(), Kind::Shape, &["add", "[2,3]", "[4,5]"]);
    fails(
        ops::matmul(&a, &b).done(),
        Kind::Shape,
        &["matmul", "3", "4"],
    );
    fails(
        ops::concat(&[a.clone(), b.clone()], 0).done(),
        Kind::Shape,
        &["concat", "[2,3]", "[4,5]"],
    );
    fails(
        ops::stack(&[a.clone(), b.clone()], 0).done(),
        Kind::Shape,
        &["stack"],
    );
    fails(
        ops::reshape(&a, [4usize, 2]).done(),
        Kind::Shape,
        &["reshape", "6", "8"],
    );
    fails(
        ops::reshape(&a, [-1i64, 4]).done(),
        Kind::Shape,
        &["reshape", "6", "4"],
    );
    fails(
        ops::broadcast_to(&a, [2usize, 4]).done(),
        Kind::Shape,
        &["broadcast", "3", "4"],
    );
    fails(
        ops::where_(ops::greater(&a, 0.0), &a, &b).done(),
        Kind::Shape,
        &["select"],
    );
    fails(ops::split(&a, 4, 0), Kind::Shape, &["split", "2", "4"]);
    fails(ops::squeeze(&a, 0).done(), Kind::Shape, &["squeeze", "2"]);
    fails(
        ops::cross_entropy(&a, ops::zeros([3usize], DType::I64)).done(),
        Kind::Shape,
        &["cross_entropy"],
    );
    fails(ops::linear(&a, &b, None).done(), Kind::Shape, &["linear"]);
    fails(
        ops::cholesky(&a, false).done(),
        Kind::Shape,
        &["cholesky", "square"],
    );
    fails(
        ops::solve(f32s(&[3, 3]), f32s(&[4, 1])).done(),
        Kind::Shape,
        &["3", "4"],
    );
}

#[test]
fn mismatched_dtypes() {
    let (x, n) = (f32s(&[2]), ops::zeros([2usize], DType::I32).done().unwrap());
    let z = ops::zeros([2usize], DType::C64).done().unwrap();
    fails((&x & &x).done(), Kind::DType, &["bitwise_and", "f32"]);
    fails(ops::less(&z, &z).done(), Kind::DType, &["less", "c64"]);
    fails(ops::take(&x, &x, 0).done(), Kind::DType, &["take", "f32"]);
    fails(
        ops::bitcast(&x, DType::F64).done(),
        Kind::DType,
        &["bitcast", "4", "8"],
    );
    fails(ops::erf(&z).done(), Kind::DType, &["erf", "c64"]);
    fails(ops::max(&z, ..).done(), Kind::DType, &["max", "complex"]);
    fails(
        autodiff::grad(|x: &Tensor| ops::sum(x, ..))(&n),
        Kind::DType,
        &["i32"],
    );
    fails(x.to_vec::<f64>(), Kind::DType, &["f64", "f32"]);
    fails(
        ops::call(Op::Binary(clematis_core::op::Binary::Add), &[&x, &n]).done(),
        Kind::DType,
        &["add", "f32", "i32"],
    );
    fails("float128".parse::<DType>(), Kind::DType, &["float128"]);
}

#[test]
fn axes_and_indices_out_of_range() {
    let x = f32s(&[2, 3]);
    fails(ops::sum(&x, 2).done(), Kind::Index, &["axis 2", "2 axes"]);
    fails(ops::sum(&x, -3).done(), Kind::Index, &["axis -3"]);
    fails(ops::sum(&x, [0, 0]).done(), Kind::Index, &["twice"]);
    fails(ops::sum(&x, [0, -2]).done(), Kind::Index, &["twice"]);
    fails(ops::permute(&x, [0, 0]).done(), Kind::Index, &["twice"]);
    fails(ops::permute(&x, [0]).done(), Kind::Index, &["transpose"]);
    fails(ops::slice_axis(&x, 0, 1, 4).done(), Kind::Index, &["1..4"]);
    fails(ops::slice_axis(&x, 0, 2, 1).done(), Kind::Index, &["2..1"]);
    fails(
        ops::index(&x, &[At::from(2)]).done(),
        Kind::Index,
        &["2", "axis 0"],
    );
    fails(
        ops::index(&x, &[At::from(0), At::from(0), At::from(0)]).done(),
        Kind::Index,
        &["3 indices"],
    );
    fails(
        ops::index(&x, &[At::Range(None, None, 0)]).done(),
        Kind::Value,
        &["step 0"],
    );
    let at = ops::tensor([5i64]).unwrap();
    fails(
        ops::take(&x, &at, 0).done(),
        Kind::Index,
        &["take", "5", "2"],
    );
    fails(
        ops::put(ScatterKind::Add, &x, &at, 1.0, 0).done(),
        Kind::Index,
        &["put", "5"],
    );
    fails(ops::expand_dims(&x, 4).done(), Kind::Index, &["4"]);
    fails(ops::top_k(&x, 4usize), Kind::Value, &["top_k", "4", "3"]);
}

#[test]
fn invalid_sizes() {
    fails(ops::zeros([-1i64], DType::F32).done(), Kind::Shape, &["-1"]);
    fails(
        ops::zeros([usize::MAX, 2], DType::F32).done(),
        Kind::Shape,
        &["too many elements"],
    );
    fails(
        ops::zeros([1usize << 40, 1 << 40], DType::F32).done(),
        Kind::Shape,
        &["too many elements"],
    );
    fails(
        ops::zeros(vec![1usize; 65], DType::F32).done(),
        Kind::Shape,
        &["65"],
    );
    fails(
        ops::broadcast_to(f32s(&[1]), [1usize << 50, 1 << 20]).done(),
        Kind::Shape,
        &["too many elements"],
    );
    fails(
        ops::tile(f32s(&[1 << 10]), &[1 << 60]).done(),
        Kind::Shape,
        &["too many elements"],
    );
    fails(
        ops::arange(0.0, 1e300, 1e-300, DType::F64).done(),
        Kind::Value,
        &["arange"],
    );
    fails(
        ops::arange(0, 5, 0, DType::I64).done(),
        Kind::Value,
        &["step 0"],
    );
    fails(
        Host::from_slice(&[1.0f32], [2usize]),
        Kind::Shape,
        &["2", "1"],
    );
    fails(
        ops::tensor(vec![vec![1.0f32], vec![]]),
        Kind::Shape,
        &["rows"],
    );
}

#[test]
fn empty_reductions() {
    let empty = f32s(&[2, 0]);
    fails(ops::max(&empty, 1).done(), Kind::Value, &["max", "axis 1"]);
    fails(ops::min(&empty, ..).done(), Kind::Value, &["min"]);
    fails(
        ops::argmax(&empty, Some(1)).done(),
        Kind::Value,
        &["argmax"],
    );
    fails(ops::median(&empty, 1).done(), Kind::Value, &["median"]);
    assert_eq!(ops::max(&empty, 0).done().unwrap().shape(), &[0usize]);
    assert_eq!(
        ops::sum(&empty, 1).done().unwrap().to_vec::<f32>().unwrap(),
        [0.0, 0.0]
    );
    assert_eq!(
        ops::prod(&empty, 1)
            .done()
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [1.0, 1.0]
    );
    assert!(
        ops::mean(&empty, 1)
            .done()
            .unwrap()
            .to_vec::<f32>()
            .unwrap()[0]
            .is_nan()
    );
}

#[test]
fn zero_sizes_go_through_everything() {
    let x = f32s(&[0, 3]);
    assert_eq!(
        ops::matmul(&x, f32s(&[3, 4])).done().unwrap().shape(),
        &[0usize, 4]
    );
    assert_eq!(
        ops::matmul(f32s(&[2, 0]), f32s(&[0, 3]))
            .done()
            .unwrap()
            .to_vec::<f32>()
            .unwrap(),
        [0.0; 6]
    );
    assert_eq!(
        ops::sort(&x, 0, false).done().unwrap().shape(),
        &[0usize, 3]
    );
    assert_eq!(ops::cumsum(&x, 0).done().unwrap().shape(), &[0usize, 3]);
    assert_eq!(ops::softmax(&x, -1).done().unwrap().shape(), &[0usize, 3]);
    assert_eq!(
        ops::concat(&[x.clone(), f32s(&[2, 3])], 0)
            .done()
            .unwrap()
            .shape(),
        &[2usize, 3]
    );
    assert_eq!(
        ops::take(f32s(&[4]), ops::zeros([0usize], DType::I64), 0)
            .done()
            .unwrap()
            .shape(),
        &[0usize]
    );
    assert_eq!(ops::nonzero(&x).done().unwrap().shape(), &[0usize, 2]);
    assert_eq!(ops::unique(&x).unwrap().values.shape(), &[0usize]);
    let g = autodiff::grad(|x: &Tensor| ops::sum(ops::exp(x), ..))(&x).unwrap();
    assert_eq!(g.shape(), &[0usize, 3]);
    let conv = ops::conv(
        f32s(&[0, 8, 8, 3]),
        f32s(&[3, 3, 3, 4]),
        &ConvOptions::new(2),
    )
    .done()
    .unwrap();
    assert_eq!(conv.shape(), &[0usize, 8, 8, 4]);
    assert_eq!(
        Key::new(0)
            .bits(DType::U32, [0usize])
            .done()
            .unwrap()
            .shape(),
        &[0usize]
    );
}

#[test]
fn division_by_integer_zero_is_defined() {
    let x = ops::tensor([7i32, -7, 0, i32::MIN]).unwrap();
    let zero = ops::tensor([0i32, 0, 0, -1]).unwrap();
    assert_eq!(
        ops::floor_divide(&x, &zero)
            .done()
            .unwrap()
            .to_vec::<i32>()
            .unwrap(),
        [0, 0, 0, i32::MIN]
    );
    assert_eq!(
        ops::remainder(&x, &zero)
            .done()
            .unwrap()
            .to_vec::<i32>()
            .unwrap(),
        [0, 0, 0, 0]
    );
}

#[test]
fn invalid_convolutions() {
    let (x, w) = (f32s(&[1, 8, 8, 3]), f32s(&[3, 3, 4, 2]));
    fails(
        ops::conv(&x, &w, &ConvOptions::new(2)).done(),
        Kind::Shape,
        &["4", "3"],
    );
    let ok = f32s(&[3, 3, 3, 2]);
    let mut o = ConvOptions::new(2);
    o.strides = vec![0, 1];
    fails(ops::conv(&x, &ok, &o).done(), Kind::Value, &["[0, 1]"]);
    let mut o = ConvOptions::new(2);
    o.groups = 2;
    fails(ops::conv(&x, &ok, &o).done(), Kind::Shape, &["2 groups"]);
    let mut o = ConvOptions::new(2);
    o.padding = Padding::Each(vec![(-5, -5), (0, 0)]);
    fails(ops::conv(&x, &ok, &o).done(), Kind::Shape, &["-5"]);
    fails(
        ops::conv(&x, f32s(&[3, 3]), &ConvOptions::new(2)).done(),
        Kind::Shape,
        &["filter"],
    );
    fails(
        ops::max_pool(&x, &[2], &[2], &Padding::Valid, true).done(),
        Kind::Shape,
        &["spatial"],
    );
}

#[test]
fn raw_parameters_are_checked_too() {
    let x = f32s(&[2, 3]);
    let d = |v: &[i64]| v.iter().map(|&v| Dim::from(v)).collect();
    let call = |op: Op, xs: &[&Tensor]| ops::call(op, xs).done();
    fails(
        call(Op::Transpose(Axes::new(&[0, 5])), &[&x]),
        Kind::Index,
        &["5"],
    );
    fails(
        call(
            Op::Reshape(Shape::from_dims([Dim::from(-6i64), Dim::from(-1i64)])),
            &[&x],
        ),
        Kind::Shape,
        &["-6"],
    );
    let slice = Slice {
        start: d(&[0]),
        limit: d(&[1]),
        strides: Axes::new(&[1]),
    };
    fails(call(slice.into(), &[&x]), Kind::Shape, &["slice"]);
    let pad = Pad {
        low: d(&[-3, 0]),
        high: d(&[0, 0]),
        interior: Axes::new(&[0, 0]),
    };
    fails(
        call(pad.into(), &[&x, &Tensor::scalar(0, DType::F32)]),
        Kind::Shape,
        &["-3"],
    );
    let dot = Dot {
        lhs_batch: Axes::default(),
        rhs_batch: Axes::default(),
        lhs_contract: Axes::new(&[7]),
        rhs_contract: Axes::new(&[0]),
    };
    fails(call(dot.into(), &[&x, &x]), Kind::Index, &["7"]);
    let conv = Conv {
        strides: Axes::new(&[1]),
        padding: [(Dim::from(0usize), Dim::from(0usize))]
            .into_iter()
            .collect(),
        lhs_dilation: Axes::new(&[0]),
        rhs_dilation: Axes::new(&[1]),
        lhs_layout: Axes::new(&[0, 1, 2]),
        rhs_layout: Axes::new(&[0, 1, 2]),
        out_layout: Axes::new(&[0, 1, 2]),
        feature_groups: 1,
        batch_groups: 1,
    };
    fails(
        call(conv.into(), &[&f32s(&[1, 1, 5]), &f32s(&[1, 1, 3])]),
        Kind::Value,
        &["dilations"],
    );
    let gather = Gather {
        offset_axes: Axes::new(&[9]),
        collapsed: Axes::default(),
        index_map: Axes::new(&[0]),
        operand_batch: Axes::default(),
        index_batch: Axes::default(),
        slice_sizes: d(&[1, 3]),
        mode: OutOfRange::Clip,
    };
    fails(
        call(
            gather.into(),
            &[&x, &ops::zeros([1usize, 1], DType::I64).done().unwrap()],
        ),
        Kind::Index,
        &["gather"],
    );
    fails(call(Op::Select, &[&x]), Kind::Value, &["3 operands", "1"]);
}

#[test]
fn random_parameters_are_checked() {
    let key = Key::new(0);
    fails(
        random::uniform(&key, [2usize], 1.0, 0.0, DType::F32).done(),
        Kind::Value,
        &["low 1.0", "high 0.0"],
    );
    fails(
        random::normal(&key, [2usize], 0.0, -1.0, DType::F32).done(),
        Kind::Value,
        &["-1.0"],
    );
    fails(
        random::bernoulli(&key, [2usize], 2.0).done(),
        Kind::Value,
        &["2"],
    );
    fails(
        random::randint(&key, [2usize], 3, 1, DType::I32).done(),
        Kind::Value,
        &["3", "1"],
    );
    fails(
        random::poisson(&key, [2usize], -1.0, DType::F32).done(),
        Kind::Value,
        &["-1"],
    );
    fails(
        random::gamma(&key, [2usize], 0.0, DType::F32).done(),
        Kind::Value,
        &["0"],
    );
    fails(
        random::multinomial(&key, ops::tensor([0.0f32, 0.0]), 1, true).done(),
        Kind::Value,
        &["sum to 0"],
    );
    fails(
        random::multinomial(&key, ops::tensor([0.5f32, 0.5]), 3, false).done(),
        Kind::Value,
        &["3", "2"],
    );
    fails(
        random::uniform(&key, [2usize], 0.0, 1.0, DType::I32).done(),
        Kind::DType,
        &["i32"],
    );
    fails(
        random::dropout(f32s(&[2]), &key, 1.5).done(),
        Kind::Value,
        &["1.5"],
    );
}

#[test]
fn undefined_derivatives() {
    let x = f32s(&[3]);
    fails(
        autodiff::grad(|x: &Tensor| ops::exp(x))(&x),
        Kind::Shape,
        &["one element", "[3]"],
    );
    let reverse = autodiff::grad(|x: &Tensor| {
        let out = control::while_loop(
            x.clone(),
            |x: &Tensor| ops::less(ops::sum(x, ..), 10.0).done(),
            |x: &Tensor| (x + 1.0).done(),
        );
        ops::sum(out, ..)
    });
    fails(reverse(&x), Kind::Diff, &["while", "scan"]);
    let custom = autodiff::custom_vjp("odd", |x| Ok(vec![x[0].clone()]), |_, _, _| Ok(vec![]));
    fails(
        autodiff::grad(|x: &Tensor| ops::sum(custom(&[x]).map(|mut v| v.remove(0)), ..))(&x),
        Kind::Diff,
        &["odd", "0", "1"],
    );
}

#[test]
fn tracers_do_not_leak_and_have_no_values() {
    let mut leaked = None;
    let spec = clematis_core::Spec::of(DType::F32, [2usize]).unwrap();
    let read = clematis_core::trace::trace(&[spec], |xs| {
        leaked = Some(xs[0].clone());
        xs[0].to_vec::<f32>().map(|_| vec![])
    });
    fails(read.map(|_| ()), Kind::Trace, &["without a concrete value"]);
    let leaked = leaked.unwrap();
    fails((&leaked + 1.0).done(), Kind::Trace, &["outlived"]);
    fails(ops::nonzero(&leaked).done(), Kind::Trace, &[]);
}

#[test]
fn a_size_may_not_have_two_values() {
    let b = Dim::symbol("b").unwrap();
    let spec = clematis_core::Spec::new(DType::F32, Shape::from_dims([b]));
    let graph: Graph = clematis_core::trace::trace(&[spec.clone(), spec], |xs| {
        Ok(vec![(&xs[0] + &xs[1]).done()?])
    })
    .unwrap()
    .graph;
    assert_eq!(
        graph.call(&[&f32s(&[3]), &f32s(&[3])]).unwrap()[0].shape(),
        &[3usize]
    );
    fails(
        graph.call(&[&f32s(&[3]), &f32s(&[4])]),
        Kind::Shape,
        &["b", "3", "4"],
    );
    fails(graph.call(&[&f32s(&[3])]), Kind::Value, &["2", "1"]);
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let e = ops::zeros([1usize << 42], DType::F32)
        .done()
        .map(|x| x.shape().count());
    fails(e, Kind::Value, &["full", "4398046511104"]);
}
