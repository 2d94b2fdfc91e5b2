//! Draws have the requested shape, dtype and bounds.

use clematis_core::random::Key;
use clematis_core::{DType, Kind, Result, Shape, Tensor, ops};
use clematis_native as _;
use clematis_nn::functional::random;
use clematis_nn::functional::stream::{self, State};

fn number(x: f64) -> Tensor {
    Tensor::number(x)
}

#[test]
fn uniform_numbers_never_reach_the_upper_bound() -> Result<()> {
    let shape = Shape::from_sizes(&[20_000]);
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let wide = random::draw_dtype("random_uniform", dtype)?;
        let u = random::unit(&Key::new(0), &shape, wide).done()?;
        for (low, high) in [(0.0, 1.0), (-1000.0, 101.0), (1.0, 1.0 + 1.0 / 128.0)] {
            let x = random::to_uniform(&u, &number(low), &number(high), dtype).done()?;
            assert_eq!(x.dtype(), dtype);
            let x = ops::cast(&x, DType::F64).done()?.to_vec::<f64>()?;
            assert!(
                x.iter().all(|v| low <= *v && *v < high),
                "{dtype} {low} {high}"
            );
        }
        let same = random::to_uniform(&u, &number(3.0), &number(3.0), dtype).done()?;
        let same = ops::cast(&same, DType::F64).done()?.to_vec::<f64>()?;
        assert!(same.iter().all(|v| *v == 3.0));
    }
    Ok(())
}

#[test]
fn whole_numbers_cover_their_range_evenly() -> Result<()> {
    let n = 12_000;
    let low = ops::full([n], -5, DType::I32).done()?;
    let high = ops::full([n], 7, DType::I32).done()?;
    let x = random::randint(&Key::new(1), low.shape(), &low, &high, DType::I8).done()?;
    let mut counts = [0; 12];
    for v in x.to_vec::<i8>()? {
        counts[usize::try_from(v + 5).expect("in range")] += 1;
    }
    assert!(counts.iter().all(|c| (850..1150).contains(c)), "{counts:?}");
    let e = |low: &Tensor, high: &Tensor, dtype| {
        random::randint(&Key::new(1), &Shape::scalar(), low, high, dtype)
            .done()
            .unwrap_err()
            .kind()
    };
    let (one, two) = (Tensor::number(1), Tensor::number(2));
    assert_eq!(e(&two, &one, DType::I64), Kind::Value);
    assert_eq!(e(&one, &two, DType::U8), Kind::DType);
    assert_eq!(e(&number(1.0), &two, DType::I64), Kind::DType);
    assert_eq!(e(&one, &Tensor::number(1000), DType::I8), Kind::Value);
    Ok(())
}

#[test]
fn shapes_follow_the_parameters() -> Result<()> {
    let rows = ops::zeros([3usize], DType::F32).done()?;
    let pair = ops::zeros([2usize], DType::F32).done()?;
    let of = |x: &Tensor, y: &Tensor, shape: Option<Shape>| {
        random::shape_of("random_uniform", ["low", "high"], x, y, shape)
    };
    assert_eq!(of(&number(0.0), &number(1.0), None)?, Shape::scalar());
    assert_eq!(of(&rows, &number(1.0), None)?, Shape::from_sizes(&[3]));
    assert_eq!(of(&number(0.0), &rows, None)?, Shape::from_sizes(&[3]));
    assert_eq!(of(&rows, &pair, None).unwrap_err().kind(), Kind::Shape);
    let given = Some(Shape::from_sizes(&[3]));
    assert_eq!(
        of(&rows, &number(1.0), given).unwrap_err().kind(),
        Kind::Value
    );
    let wide = random::broadcast_shape("poisson", &[&rows], Some(Shape::from_sizes(&[2, 3])))?;
    assert_eq!(wide, Shape::from_sizes(&[2, 3]));
    let e = random::broadcast_shape("poisson", &[&rows], Some(Shape::from_sizes(&[2])));
    assert_eq!(e.unwrap_err().kind(), Kind::Shape);
    Ok(())
}

#[test]
fn gamma_is_by_rate() -> Result<()> {
    let shape = Shape::from_sizes(&[20_000]);
    let x = random::gamma(&Key::new(2), &shape, &number(3.0), &number(2.0), DType::F32);
    let mean = ops::mean(x, ..).done()?.item()?.as_f64();
    assert!((mean - 1.5).abs() < 0.02, "{mean}");
    Ok(())
}

#[test]
fn categories_without_replacement_are_distinct() -> Result<()> {
    let draw = |replace: bool, count: usize| {
        random::multinomial(&Key::new(3), Some(6), 50, None, count, replace, DType::I64).done()
    };
    let x = draw(false, 6)?.to_vec::<i64>()?;
    let mut rows: Vec<Vec<i64>> = x.chunks(6).map(<[i64]>::to_vec).collect();
    assert!(rows.iter().any(|row| *row != rows[0]), "rows are alike");
    for row in &mut rows {
        row.sort_unstable();
        assert_eq!(*row, [0, 1, 2, 3, 4, 5]);
    }
    assert_eq!(*draw(true, 9)?.shape(), [50usize, 9]);
    assert_eq!(draw(false, 7).unwrap_err().kind(), Kind::Value);
    Ok(())
}

#[test]
fn probabilities_are_checked_and_logits_agree_with_them() -> Result<()> {
    let shape = Shape::from_sizes(&[500]);
    let draw = |p: Option<&Tensor>, l: Option<&Tensor>| {
        random::bernoulli(&Key::new(4), &shape, p, l, DType::F32).done()
    };
    let by_p = draw(Some(&number(0.25)), None)?.to_vec::<f32>()?;
    let by_logit = draw(None, Some(&number((1.0f64 / 3.0).ln())))?.to_vec::<f32>()?;
    assert_eq!(by_p, by_logit);
    assert_eq!(
        draw(Some(&number(2.0)), None).unwrap_err().kind(),
        Kind::Value
    );
    assert_eq!(draw(None, None).unwrap_err().kind(), Kind::Value);
    Ok(())
}

#[test]
fn the_stream_resumes_from_its_state() -> Result<()> {
    let draw = || {
        random::unit(&stream::next_key(), &Shape::scalar(), DType::F32)
            .done()?
            .item()
    };
    stream::seed(7);
    let first = [draw()?, draw()?];
    assert_ne!(first[0].as_f64(), first[1].as_f64());
    assert_eq!(stream::state(), State { seed: 7, count: 2 });
    stream::seed(7);
    draw()?;
    let place = stream::state();
    let second = draw()?;
    stream::set_state(place);
    assert_eq!(draw()?, second);
    assert_eq!(second, first[1]);
    Ok(())
}
