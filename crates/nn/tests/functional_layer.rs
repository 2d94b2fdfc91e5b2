//! Linear layers, attention, LSTM, dropout, norms, pooling and losses agree with their formulas.

use clematis_core::ops::{self, Padding};
use clematis_core::random::Key;
use clematis_core::{Axes, DType, Kind, Result, Tensor, autodiff};
use clematis_native as _;
use clematis_nn::functional::attention::{
    attention_of_heads, scaled_dot_product_attention, split_last,
};
use clematis_nn::functional::linear::{embedding, linear};
use clematis_nn::functional::loss::{self, Reduction};
use clematis_nn::functional::lstm::lstm_update;
use clematis_nn::functional::norm::{batch_norm, instance_norm, layer_norm, lp_normalize};
use clematis_nn::functional::pool::{Pooling, adaptive_avg_pool, avg_pool, max_pool};
use clematis_nn::functional::{activation, dropout, random};

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    ops::from_slice(values, shape).expect("a tensor")
}

fn near(x: &Tensor, want: &[f32]) {
    let got = x.to_vec::<f32>().expect("values");
    assert_eq!(got.len(), want.len(), "{got:?} for {want:?}");
    for (a, b) in got.iter().zip(want) {
        assert!(
            (a - b).abs() <= 1e-5 * b.abs().max(1.0),
            "{got:?} for {want:?}"
        );
    }
}

#[test]
fn a_batch_of_weights_goes_with_the_leading_axes() -> Result<()> {
    let x = tensor(&[1., 2., 3., 4., 5., 6., 7., 8.], &[2, 2, 2]);
    let w = tensor(&[1., 0., 0., 1., 2., 0., 0., 3.], &[2, 2, 2]);
    let b = tensor(&[0., 10., 20., 30.], &[2, 2]);
    let y = linear(&x, &w, Some(&b)).done()?;
    near(&y, &[1., 12., 3., 14., 30., 48., 34., 54.]);
    // Vectors, one per matrix.
    let rows = ops::squeeze(ops::slice_axis(&x, 1, 0, 1), 1).done()?;
    near(&linear(&rows, &w, Some(&b)).done()?, &[1., 12., 30., 48.]);
    let int = ops::tensor([[1i8, 2]])?;
    let y = linear(&int, ops::tensor([[[3i8, 4]]])?, None).done()?;
    assert_eq!((y.dtype(), y.to_vec::<i8>()?), (DType::I8, vec![11]));
    let e = linear(&x, &w, Some(&tensor(&[1.], &[1])))
        .done()
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    Ok(())
}

#[test]
fn long_embedding_rows_are_clipped() -> Result<()> {
    let table = tensor(&[3., 4., 0., 0., 0.3, 0.4], &[3, 2]);
    let rows = embedding(&table, ops::tensor([0i64, 1, 2])?, Some(1.0)).done()?;
    near(&rows, &[0.6, 0.8, 0., 0., 0.3, 0.4]);
    Ok(())
}

fn attended() -> [Tensor; 3] {
    [
        tensor(&[0.2, 1., 2.2, 3., 4.4, 5.6], &[1, 3, 2]),
        tensor(&[0.6, 1.5, 2.4, 3.3, 4.2, 5.1], &[1, 3, 2]),
        tensor(&[0.4, 1.3, 2.2, 3.1, 4.3, 5.3], &[1, 3, 2]),
    ]
}

#[test]
fn attention_matches_the_table() -> Result<()> {
    let [q, k, v] = attended();
    let at = |scale: f64, mask: Option<&Tensor>| {
        scaled_dot_product_attention(&q, &k, &v, &Tensor::number(scale), mask).done()
    };
    near(
        &at(1.0, None)?,
        &[4.03946, 5.028063, 4.299819, 5.299811, 4.3, 5.3],
    );
    let nothing = tensor(&[0.0; 9], &[3, 3]);
    near(&at(1.0, Some(&nothing))?, &[2.3, 3.233333].repeat(3));
    let lower = tensor(&[1., 0., 0., 2., 3., 0., 1., 1., 1.], &[1, 3, 3]);
    let want = [0.4, 1.3, 2.183451, 3.083451, 4.299741, 5.299728];
    near(&at(0.5, Some(&lower))?, &want);
    let lower = ops::cast(&lower, DType::Bool).done()?;
    near(&at(0.5, Some(&lower))?, &want);
    let e = at(0.5, Some(&tensor(&[1.; 3], &[1, 3]))).unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    Ok(())
}

#[test]
fn attention_of_integers_is_in_f64() -> Result<()> {
    let x = ops::tensor([[1i32, 2]])?;
    let y = scaled_dot_product_attention(&x, &x, &x, &Tensor::number(0.5), None).done()?;
    assert_eq!(
        (y.dtype(), y.to_vec::<f64>()?),
        (DType::F64, vec![1.0, 2.0])
    );
    Ok(())
}

#[test]
fn multi_head_attention_matches_the_table() -> Result<()> {
    let x = tensor(&[0.2, 1., 2.2, 3., 4.4, 5.6], &[3, 2]);
    let context = [0.2, 1., 1.1, 4.2, 2.2, 3., 0.9, 3.6, 4.4, 5.6, 2.2, 0.4];
    let (k, v) = split_last("multi_head_attention", &tensor(&context, &[3, 4]))?;
    let y = attention_of_heads(&x, &k, &v, &Tensor::number(1.0), 2, None).done()?;
    near(
        &y,
        &[1.567876, 0.654418, 2.189697, 0.401314, 2.199919, 0.400002],
    );
    let e = attention_of_heads(&x, &v, &v, &Tensor::number(1.0), 3, None).done();
    assert_eq!(e.unwrap_err().kind(), Kind::Shape);
    Ok(())
}

#[test]
fn lstm_matches_the_table() -> Result<()> {
    let (hs, c) = lstm_update(
        &tensor(&[1., 2.], &[1, 2, 1]),
        &tensor(&[0.5], &[1, 1]),
        &tensor(&[0.25], &[1, 1]),
        &tensor(&[0.1, 0.2, 0.3, 0.4], &[1, 4]),
        &tensor(&[0.4, 0.3, 0.2, 0.1], &[1, 4]),
        Some(&tensor(&[0.01, 0.02, 0.03, 0.04], &[4])),
        None,
    )?;
    assert_eq!(*hs.shape(), [1usize, 2, 1]);
    near(&hs, &[0.225826, 0.364727]);
    near(&c, &[0.574516]);
    Ok(())
}

#[test]
fn dropout_shares_a_mask_and_ends_are_exact() -> Result<()> {
    let x = ops::ones([4usize, 50], DType::F32).done()?;
    let shape = dropout::noise_shape("dropout", &x, &[None, Some(1)])?;
    let u = random::unit(&Key::new(0), &shape, DType::F32);
    let keep = ops::greater_equal(u, 0.5).done()?;
    let y = dropout::dropout(&x, &keep, 0.5, true)
        .done()?
        .to_vec::<f32>()?;
    assert!(y.chunks(50).all(|row| row.iter().all(|v| *v == row[0])));
    assert!(y.iter().all(|v| *v == 0.0 || *v == 2.0));
    let hidden = ops::full((), false, DType::Bool).done()?;
    let inf = tensor(&[f32::INFINITY], &[1]);
    near(&dropout::dropout(&inf, &hidden, 1.0, true).done()?, &[0.0]);
    assert_eq!(
        dropout::probability("dropout", 1.5).unwrap_err().kind(),
        Kind::Value
    );
    let e = dropout::noise_shape("dropout", &x, &[Some(2), None]).unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    Ok(())
}

#[test]
fn norms_have_mean_zero_and_the_deviation_asked_for() -> Result<()> {
    let x = tensor(&[1., 2., 3., 5., 6., 10.], &[2, 3]);
    let two = tensor(&[2., 2., 2.], &[3]);
    for axes in [&[-1][..], &[0], &[0, 1]] {
        let y = layer_norm(&x, axes, None, Some(&two), 0.0, 3.0);
        let mean = ops::mean(y.clone(), axes).done()?.to_vec::<f32>()?;
        let std = ops::std(y, axes, 0.0).done()?.to_vec::<f32>()?;
        assert!(mean.iter().all(|m| m.abs() < 1e-5), "{mean:?}");
        assert!(std.iter().all(|s| (s - 3.0).abs() < 1e-4), "{std:?}");
    }
    let plain = layer_norm(&x, &[-1], None, None, 0.0, 1.0).done()?;
    let scaled = layer_norm(&x, &[-1], Some(&two), Some(&two), 0.0, 1.0).done()?;
    near(&scaled, &(plain * 2.0 + 2.0).done()?.to_vec::<f32>()?);
    let (zero, one) = (tensor(&[0.; 3], &[3]), tensor(&[1.; 3], &[3]));
    let same = batch_norm(&x, &zero, &one, Some(&two), None, false, 0.0, true).done()?;
    near(&same, &[3., 4., 5., 7., 8., 12.]);
    let found = instance_norm(
        &ops::reshape(&x, [1i64, 2, 3]).done()?,
        None,
        None,
        0.0,
        true,
    )?;
    near(&found.mean, &[2., 7.]);
    near(&lp_normalize("l1", &x, 1.0, Some(&[1])).sum(1), &[1., 1.]);
    let zeros = lp_normalize("l2", &tensor(&[0., 0.], &[2]), 2.0, None).done()?;
    near(&zeros, &[0., 0.]);
    Ok(())
}

trait Sum {
    fn sum(self, axis: i64) -> Tensor;
}
impl Sum for clematis_core::expr::Expr {
    fn sum(self, axis: i64) -> Tensor {
        ops::sum(self, axis).done().expect("a sum")
    }
}

fn pooling(kernel: usize, stride: usize, padding: Padding, ceil_mode: bool) -> Pooling {
    Pooling {
        op: "max_pool1d",
        kernel: [kernel].into(),
        strides: [stride].into(),
        padding,
        dilations: Axes::from([1]),
        ceil_mode,
        channels_first: false,
    }
}

#[test]
fn windows_at_the_borders() -> Result<()> {
    let x = tensor(&[-1., -2., -3., -4., -5.], &[1, 5, 1]);
    let same = pooling(2, 2, Padding::Same, false);
    near(&max_pool(&x, &same).done()?, &[-1., -3., -5.]);
    near(
        &avg_pool(&x, &same, false, None).done()?,
        &[-1.5, -3.5, -5.],
    );
    near(
        &avg_pool(&x, &same, true, None).done()?,
        &[-1.5, -3.5, -2.5],
    );
    near(
        &avg_pool(&x, &same, true, Some(1.0)).done()?,
        &[-3., -7., -5.],
    );
    let cut = pooling(2, 2, Padding::Valid, false);
    near(&max_pool(&x, &cut).done()?, &[-1., -3.]);
    let whole = pooling(2, 2, Padding::Valid, true);
    near(&max_pool(&x, &whole).done()?, &[-1., -3., -5.]);
    near(
        &avg_pool(&x, &whole, true, None).done()?,
        &[-1.5, -3.5, -5.],
    );
    let wide = pooling(9, 1, Padding::Valid, false);
    assert_eq!(max_pool(&x, &wide).done().unwrap_err().kind(), Kind::Shape);
    let row = ops::reshape(&x, [1i64, 1, 5]).done()?;
    near(
        &adaptive_avg_pool("adaptive_avg_pool1d", &row, &[Some(3)]).done()?,
        &[-1.5, -3., -4.5],
    );
    Ok(())
}

#[test]
fn losses_of_small_numbers() -> Result<()> {
    let truth = tensor(&[1., 0., 0., 1.], &[2, 2]);
    let pred = tensor(&[0.5, 0.5, 1.0, 0.0], &[2, 2]);
    let edge = 1e-7f32.ln().abs();
    let half = 2f32.ln();
    let sum = loss::cross_entropy(&truth, &pred, -1, 1e-7, Reduction::Sum).done()?;
    near(&sum, &[half, edge]);
    let classes = ops::tensor([0i32, 1])?;
    let sparse = loss::sparse_cross_entropy(&classes, &pred, -1, 1e-7, Reduction::Sum).done()?;
    near(&sparse, &[half, edge]);
    let logits = tensor(&[0., 0., 900., -900.], &[2, 2]);
    let none = Reduction::None;
    let by_logits = loss::binary_cross_entropy_with_logits(&truth, &logits, None, none).done()?;
    near(&by_logits, &[half, half, 900., 900.]);
    let huber = loss::huber_loss(&truth, &logits, 1.0, Reduction::Mean).done()?;
    near(&huber, &[(0.5 + 0. + 899.5 + 900.5) / 4.]);
    assert_eq!(
        Reduction::from_word("l1_loss", "avg").unwrap_err().kind(),
        Kind::Value
    );
    Ok(())
}

#[test]
fn activations_at_their_corners() -> Result<()> {
    let x = tensor(&[-1., 0., 3., 9.], &[4]);
    near(&activation::relu6(&x).done()?, &[0., 0., 3., 6.]);
    near(
        &activation::thresholded_relu(&x, 3.0).done()?,
        &[0., 0., 0., 9.],
    );
    near(&activation::prelu(&x, 0.5).done()?, &[-0.5, 0., 3., 9.]);
    let cut = activation::softplus(&x, Some(2.0), Some(5.0)).done()?;
    near(&cut, &[0.063464, 0.346574, 3., 9.]);
    let p = tensor(&[0., 0.5, 1.], &[3]);
    near(
        &activation::logit(&p, Some(0.25)).done()?,
        &[-1.098612, 0., 1.098612],
    );
    Ok(())
}

#[test]
fn a_masked_row_has_zero_gradient_for_queries_and_keys() -> Result<()> {
    let [q, k, v] = attended();
    let mask = tensor(&[0., 0., 0., 1., 1., 0., 1., 1., 1.], &[3, 3]);
    let grad = autodiff::grad(|q: &Tensor| {
        ops::sum(
            scaled_dot_product_attention(q, &k, &v, &Tensor::number(1.0), Some(&mask)),
            ..,
        )
    });
    let grad = grad(&q)?.to_vec::<f32>()?;
    assert_eq!(grad[..2], [0.0, 0.0]);
    assert!(
        grad[2..].iter().all(|v| v.is_finite() && *v != 0.0),
        "{grad:?}"
    );
    Ok(())
}

#[test]
fn dropout_of_everything_gives_zeros_and_zero_gradients() -> Result<()> {
    let x = tensor(&[1., f32::INFINITY, f32::NAN, -2.], &[4]);
    let all = clematis_nn::Dropout { rate: 1.0 };
    let key = Key::new(3);
    near(&all.forward(&x, Some(&key))?, &[0.; 4]);
    let sum = |x: &Tensor| {
        all.forward(x, Some(&key))
            .and_then(|y| ops::sum(y, ..).done())
    };
    let dx = autodiff::grad(sum)(&x)?;
    near(&dx, &[0.; 4]);
    Ok(())
}

#[test]
fn losses_reject_logits_and_invalid_labels() -> Result<()> {
    let logits = tensor(&[1., 2., 3., 3., -1., 1.], &[2, 3]);
    let classes = |list: [i64; 2]| ops::from_slice(&list, [2]);
    let sparse = |truth: &Tensor, pred: &Tensor| {
        loss::sparse_cross_entropy(truth, pred, -1, 1e-7, Reduction::Sum).done()
    };
    let e = sparse(&classes([0, 2])?, &logits).expect_err("logits");
    assert_eq!(e.kind(), Kind::Value, "{e}");
    let pred = ops::softmax(&logits, -1).done()?;
    sparse(&classes([0, 2])?, &pred)?;
    for bad in [[0, 3], [-1, 0]] {
        let e = sparse(&classes(bad)?, &pred).expect_err("no class");
        assert_eq!(e.kind(), Kind::Index, "{e}");
    }
    Ok(())
}
