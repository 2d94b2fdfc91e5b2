//! Convolutions and transposed convolutions agree with their definition, and report invalid arguments.

use clematis_core::ops::{self, Padding};
use clematis_core::{DType, Kind, Result, Tensor, autodiff};
use clematis_native as _;
use clematis_nn::functional::conv::{ConvConfig, conv, conv_transpose, depthwise_conv2d};
use clematis_nn::functional::data_format;

fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
    ops::from_slice(values, shape).expect("a tensor")
}

fn counted(shape: &[usize]) -> Tensor {
    let n = shape.iter().product::<usize>();
    let values: Vec<f32> = (1..=n).map(|i| i as f32).collect();
    tensor(&values, shape)
}

/// 1, 10, 100 … of one channel.
fn powers(n: usize) -> Tensor {
    let values: Vec<f32> = (0..n).map(|i| 10f32.powi(i as i32)).collect();
    tensor(&values, &[n, 1, 1])
}

fn one(stride: usize, padding: Padding, dilation: usize) -> ConvConfig {
    let mut p = ConvConfig::new("conv1d", 1);
    p.strides = [stride].into();
    p.dilations = [dilation].into();
    p.padding = padding;
    p
}

#[test]
fn convolutions_match_the_table() -> Result<()> {
    let x = counted(&[1, 6, 1]);
    let each = |low, high| Padding::Each(vec![(low, high)]);
    for (stride, padding, dilation, gaps, want) in [
        (
            1,
            Padding::Same,
            1,
            1,
            &[210., 321., 432., 543., 654., 65.][..],
        ),
        (2, Padding::Same, 1, 1, &[321., 543., 65.]),
        (2, Padding::Valid, 1, 1, &[321., 543.]),
        (3, Padding::Same, 2, 1, &[420., 53.]),
        (
            1,
            each(2, 1),
            1,
            1,
            &[100., 210., 321., 432., 543., 654., 65.],
        ),
        (
            1,
            Padding::Same,
            1,
            2,
            &[10., 201., 20., 302., 30., 403., 40., 504., 50., 605., 60.],
        ),
        (2, Padding::Valid, 1, 3, &[1., 20., 300., 3., 40., 500., 5.]),
    ] {
        let mut p = one(stride, padding, dilation);
        p.x_dilations = [gaps].into();
        let y = conv(&x, powers(3), None, &p).done()?;
        assert_eq!(y.to_vec::<f32>()?, want, "{p:?}");
    }
    Ok(())
}

#[test]
fn transposed_convolutions_match_the_table() -> Result<()> {
    let x = counted(&[1, 3, 1]);
    let interleaved = [1., 10., 0., 2., 20., 0., 3., 30., 0.];
    for (k, stride, padding, dilation, want) in [
        (3, 1, Padding::Same, 1, &[12., 123., 230.][..]),
        (3, 2, Padding::Same, 1, &[1., 10., 102., 20., 203., 30.]),
        (
            3,
            2,
            Padding::Valid,
            1,
            &[1., 10., 102., 20., 203., 30., 300.],
        ),
        (2, 3, Padding::Same, 1, &interleaved),
        (2, 3, Padding::Valid, 1, &interleaved),
        (3, 2, Padding::Same, 2, &[0., 12., 0., 123., 0., 230.]),
        (
            4,
            2,
            Padding::Same,
            1,
            &[10., 102., 1020., 203., 2030., 300.],
        ),
    ] {
        let p = one(stride, padding, dilation);
        let y = conv_transpose(&x, powers(k), None, None, &p).done()?;
        assert_eq!(y.to_vec::<f32>()?, want, "{p:?}");
    }
    Ok(())
}

#[test]
fn groups_of_channels() -> Result<()> {
    let x = counted(&[1, 2, 4]);
    let mut p = one(1, Padding::Valid, 1);
    p.groups = 2;
    let y = conv(&x, counted(&[1, 2, 4]), None, &p).done()?;
    assert_eq!(y.to_vec::<f32>()?, [11., 14., 37., 44., 35., 46., 77., 92.]);
    let y = conv_transpose(&x, counted(&[1, 4, 2]), None, None, &p).done()?;
    assert_eq!(y.to_vec::<f32>()?, [7., 10., 43., 50., 23., 34., 91., 106.]);
    Ok(())
}

#[test]
fn each_channel_by_itself() -> Result<()> {
    let x = counted(&[1, 3, 3, 2]);
    let w = [1., 1., 1., 0., 1., 0., 1., -1.];
    let p = ConvConfig::new("depthwise_conv2d", 2);
    let want = [20., -8., 28., -8., 44., -8., 52., -8.];
    for shape in [&[2, 2, 2][..], &[2, 2, 2, 1]] {
        let y = depthwise_conv2d(&x, tensor(&w, shape), &p).done()?;
        assert_eq!(y.to_vec::<f32>()?, want);
    }
    let e = depthwise_conv2d(&x, counted(&[2, 2, 3]), &p)
        .done()
        .unwrap_err();
    assert_eq!(e.kind(), Kind::Shape);
    Ok(())
}

#[test]
fn layouts_and_bias_agree() -> Result<()> {
    let (x, w, b) = (
        counted(&[1, 4, 5, 2]),
        counted(&[3, 2, 2, 3]),
        counted(&[3]),
    );
    let mut p = ConvConfig::new("conv2d", 2);
    p.padding = Padding::Same;
    p.strides = [2, 1].into();
    let last = conv(&x, &w, Some(&b), &p).done()?;
    p.channels_first = true;
    p.filter_channels_first = true;
    let first = conv(
        ops::move_axis(&x, 3, 1),
        ops::permute(&w, [3, 2, 0, 1]),
        Some(&b),
        &p,
    );
    let first = ops::move_axis(first, 1, 3).done()?;
    assert_eq!(first.to_vec::<f32>()?, last.to_vec::<f32>()?);
    Ok(())
}

#[test]
fn a_transpose_is_the_derivative_of_a_convolution() -> Result<()> {
    // Every length that a convolution of stride 3 maps to 2.
    for (padding, lengths) in [(Padding::Valid, 6..9i64), (Padding::Same, 4..7)] {
        for length in lengths {
            let p = one(3, padding.clone(), 1);
            let (w, y) = (counted(&[3, 2, 2]), counted(&[1, 2, 2]));
            // A transposed convolution has the filter's channels exchanged.
            let swapped = ops::swap_axes(&w, 1, 2).done()?;
            let out = conv_transpose(&y, &swapped, None, Some(&[length]), &p).done()?;
            let x = ops::zeros([1, length, 2], DType::F32).done()?;
            let grad = autodiff::grad(|x: &Tensor| ops::sum(conv(x, &w, None, &p) * &y, ..));
            assert_eq!(out.to_vec::<f32>()?, grad(&x)?.to_vec::<f32>()?, "{length}");
        }
    }
    Ok(())
}

#[test]
fn impossible_output_shapes_are_rejected() {
    let (x, w) = (counted(&[1, 2, 1]), powers(3));
    let valid = one(3, Padding::Valid, 1);
    let same = one(3, Padding::Same, 1);
    for (p, sizes) in [
        (&valid, &[5][..]),
        (&valid, &[9]),
        (&same, &[3]),
        (&same, &[7]),
        (&same, &[2, 6, 1]),
        (&same, &[1, 6, 2]),
        (&same, &[6, 6]),
    ] {
        let e = conv_transpose(&x, &w, None, Some(sizes), p)
            .done()
            .unwrap_err();
        assert_eq!(e.kind(), Kind::Shape, "{sizes:?}: {e}");
    }
    let whole = conv_transpose(&x, &w, None, Some(&[1, 5, 1]), &same).done();
    assert_eq!(*whole.expect("legal").shape(), [1usize, 5, 1]);
}

#[test]
fn errors_name_the_function_and_both_values() {
    let x = counted(&[1, 2, 1]);
    let p = one(1, Padding::Valid, 1);
    let mut cases: Vec<(Result<Tensor>, Kind, &str)> = vec![
        (
            conv(&x, powers(3), None, &p).done(),
            Kind::Shape,
            "size 3 exceeds the size 2",
        ),
        (
            conv(&x, counted(&[1, 2, 1]), None, &p).done(),
            Kind::Shape,
            "expects 2 channels",
        ),
        (
            conv(&x, counted(&[1, 1, 1, 1]), None, &p).done(),
            Kind::Shape,
            "4 axes, not 3",
        ),
        (
            conv(&x, powers(1), Some(&counted(&[2])), &p).done(),
            Kind::Shape,
            "does not match 1 channels",
        ),
    ];
    let each = one(1, Padding::Each(vec![(0, 0)]), 1);
    cases.push((
        conv_transpose(&x, powers(1), None, None, &each).done(),
        Kind::Value,
        "\"SAME\" or \"VALID\"",
    ));
    for (result, kind, word) in cases {
        let e = result.unwrap_err();
        assert_eq!(e.kind(), kind, "{e}");
        assert!(
            e.message().starts_with("conv1d: ") && e.message().contains(word),
            "{e}"
        );
    }
    for e in [
        data_format::channels_first("conv2d", "NCWH", 2).unwrap_err(),
        data_format::channel_word("conv", "data_format", "NCWH").unwrap_err(),
        data_format::padding_word("conv2d", "NCWH").unwrap_err(),
    ] {
        assert_eq!(e.kind(), Kind::Value);
        assert!(e.message().contains("NCWH"), "{e}");
    }
}
