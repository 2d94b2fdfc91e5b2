//! Sizes that exceed any memory give immediate errors that name them.
#![allow(clippy::unwrap_used)] // every line of a test may fail it

use clematis_core::control::scan;
use clematis_core::random::Key;
use clematis_core::{DType, Kind, Result, Tensor, ops};
use clematis_native as _;
use clematis_nn::functional::adaptive::{Pool, adaptive_pool};
use clematis_nn::{Bilinear, Conv2d, Embedding, Linear};

const ABSURD: usize = 1 << 62;

fn x(shape: &[usize]) -> Tensor {
    ops::ones(shape, DType::F32).done().unwrap()
}

fn refused<T>(what: &str, run: impl FnOnce() -> Result<T>) -> String {
    clematis_native::set_memory_limit(1 << 30);
    let at = std::time::Instant::now();
    let Err(e) = run() else {
        unreachable!("{what} was not refused");
    };
    assert!(at.elapsed().as_secs() < 2, "{what} took {:?}", at.elapsed());
    assert!(matches!(e.kind(), Kind::Value | Kind::Shape), "{what}: {e}");
    e.to_string()
}

#[test]
fn pooling_to_an_absurd_size_is_refused() {
    for kind in [Pool::Mean, Pool::Largest] {
        for shape in [&[1, 2, 7][..], &[0, 2, 7]] {
            let text = refused("adaptive_pool", || {
                adaptive_pool("adaptive_pool1d", &x(shape), kind, &[Some(ABSURD)], false).done()
            });
            assert!(text.contains("4611686018427387904"), "{text}");
        }
    }
}

#[test]
fn huge_repetitions_are_rejected() {
    let times = ops::tensor([1i64, ABSURD as i64]).unwrap();
    let text = refused("repeat", || ops::repeat_each(x(&[2]), &times, None).done());
    assert!(
        text.contains("repeat") && text.contains("46116860184273879"),
        "{text}"
    );
    let times = ops::tensor([i64::MAX, i64::MAX]).unwrap();
    refused("repeat", || ops::repeat_each(x(&[2]), &times, None).done());
    let times = ops::tensor([1i64, -1]).unwrap();
    refused("repeat", || ops::repeat_each(x(&[2]), &times, None).done());
    refused("tile", || ops::tile(x(&[2, 3]), &[ABSURD, 1]).done());
    refused("repeat", || ops::repeat(x(&[2, 3]), ABSURD, 0).done());
    refused("zeros", || {
        ops::zeros([ABSURD, 8], DType::F32).done()?.to_vec::<f32>()
    });
    refused("zeros", || {
        ops::zeros([1usize << 40], DType::F32)
            .done()?
            .to_vec::<f32>()
    });
    refused("broadcast_to", || {
        ops::broadcast_to(x(&[1]), [1usize << 40])
            .done()?
            .to_vec::<f32>()
    });
}

#[test]
fn diff_ends_on_an_empty_axis() {
    let out = ops::diff(x(&[3, 5]), ABSURD, 1).done().unwrap();
    assert_eq!(out.shape().sizes()[..], [3, 0]);
}

#[test]
fn a_loop_with_huge_results_is_rejected() {
    let run = || {
        scan(&x(&[]), &(), Some(1 << 31), false, |c, ()| {
            Ok((c.clone(), (c + 1.0).done()?))
        })
    };
    let text = refused("scan", run);
    assert!(text.contains("2147483648"), "{text}");
}

#[test]
fn layers_of_absurd_sizes_are_refused() {
    let key = Key::new(0);
    refused("Bilinear", || {
        Bilinear::new(usize::MAX, usize::MAX, 3, &key)
    });
    refused("Bilinear", || {
        Bilinear::new(usize::MAX, 2, usize::MAX, &key)
    });
    refused("Linear", || Linear::new(usize::MAX, usize::MAX, &key));
    refused("Embedding", || Embedding::new(1 << 40, 8, &key));
    refused("Conv2d", || Conv2d::new(ABSURD, 8, [usize::MAX, 3], &key));
}

#[test]
fn huge_rows_are_rejected() {
    // Broadcast elements take no memory.
    let row = ops::broadcast_to(x(&[1]), [1usize << 45]).done().unwrap();
    let refused = |what: &str, run: &dyn Fn() -> Result<()>| {
        let text = refused(what, run);
        assert!(text.contains("35184372088832 elements of a"), "{text}");
    };
    refused("top_k", &|| ops::top_k(&row, 3).map(|_| ()));
    refused("argmax", &|| ops::argmax(&row, Some(0)).done().map(|_| ()));
    refused("logsumexp", &|| ops::logsumexp(&row, ..).done().map(|_| ()));
}
