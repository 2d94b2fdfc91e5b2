//! `jit` on the native engine.

use clematis_core::autodiff::{grad, value_and_grad};
use clematis_core::batch::vmap;
use clematis_core::control::{cond, scan, while_loop};
use clematis_core::jit::{jit, jit_with};
use clematis_core::ops::{self, Ops};
use clematis_core::random::stream;
use clematis_core::{DType, Kind, Result, Tensor};
use clematis_native as _;
use clematis_passes as _;

fn vector(values: &[f32]) -> Tensor {
    ops::from_slice(values, [values.len()]).expect("a vector")
}

fn close(a: &Tensor, b: &Tensor) {
    let (x, y) = (
        a.to_vec::<f32>().expect("f32"),
        b.to_vec::<f32>().expect("f32"),
    );
    assert_eq!(a.shape(), b.shape());
    for (x, y) in x.iter().zip(&y) {
        assert!((x - y).abs() <= 1e-5 * (1.0 + y.abs()), "{x} and {y}");
    }
}

#[test]
fn a_program_gives_what_the_function_gives() {
    let f = |x: &Tensor| (x * 2.0 + ops::exp(x)).sum(..).done();
    let x = vector(&[1.0, 2.0, 3.0]);
    let fast = jit(f);
    close(&fast.call(&x).expect("runs"), &f(&x).expect("runs"));
    close(&fast.call(&x).expect("runs again"), &f(&x).expect("runs"));
    assert_eq!(fast.stats().traced, 1);
    let other = vector(&[1.0, 2.0]);
    close(&fast.call(&other).expect("runs"), &f(&other).expect("runs"));
    assert_eq!(fast.stats().traced, 2);
}

#[test]
fn a_small_cache_evicts_the_least_recently_used() {
    let fast = jit(|x: &Tensor| (x + 1.0).done()).limit(3);
    for n in 1..=10 {
        fast.call(&vector(&vec![0.5; n])).expect("runs");
    }
    let stats = fast.stats();
    assert_eq!((stats.cached, stats.traced, stats.evicted), (3, 10, 7));
}

#[test]
fn static_arguments_have_programs_of_their_own() {
    let power = jit_with(|n: &u32, x: &Tensor| {
        let mut y = x.clone();
        for _ in 1..*n {
            y = (y * x).done()?;
        }
        Ok(y)
    });
    let x = vector(&[2.0]);
    for n in [1, 2, 3, 2] {
        let y = power.call_with(&n, &x).expect("runs");
        assert_eq!(y.to_vec::<f32>().expect("f32"), [2f32.powi(n as i32)]);
    }
    assert_eq!(power.stats().traced, 3);
}

#[test]
fn derivatives_of_programs_and_programs_of_derivatives_agree() {
    let f = |x: &Tensor| ops::sin(x).sum(..).done();
    let x = vector(&[0.1, 0.7, -2.0]);
    let want = grad(f)(&x).expect("a gradient");
    let inner = jit(f);
    close(
        &grad(|x: &Tensor| inner.call(x))(&x).expect("a gradient"),
        &want,
    );
    let outer = jit(move |x: &Tensor| grad(f)(x));
    close(&outer.call(&x).expect("a gradient"), &want);
    let nested = jit(move |x: &Tensor| (inner.call(x)? * 2.0).done());
    close(
        &nested.call(&x).expect("runs"),
        &(f(&x).expect("runs") * 2.0).done().expect("runs"),
    );
}

#[test]
fn draws_use_the_implicit_stream() {
    let draw = |x: &Tensor| -> Result<Tensor> {
        let noise = stream::next_key().bits(DType::U32, x.shape()).done()?;
        (x + ops::cast(noise, DType::F32)).done()
    };
    let x = vector(&[0.0; 4]);
    stream::seed(3);
    let eager = [draw(&x), draw(&x)].map(|y| y.expect("draws").to_vec::<f32>().expect("f32"));
    stream::seed(3);
    let fast = jit(draw);
    let other =
        [fast.call(&x), fast.call(&x)].map(|y| y.expect("draws").to_vec::<f32>().expect("f32"));
    assert_eq!(eager, other);
    assert_ne!(eager[0], eager[1]);
}

#[test]
fn branches_and_loops_are_part_of_a_program() {
    let f = |x: &Tensor| -> Result<Tensor> {
        let big = ops::greater(x.sum(..), 1.0).done()?;
        let y = cond(&big, x, |x| (x * 2.0).done(), |x| (x - 1.0).done())?;
        let (last, _) = scan(&y, &(), Some(3), false, |c: &Tensor, ()| {
            Ok(((c * 1.5).done()?, ()))
        })?;
        while_loop(
            last,
            |c: &Tensor| ops::less(c.sum(..), 100.0).done(),
            |c: &Tensor| (c + 10.0).done(),
        )
    };
    let fast = jit(f);
    for x in [vector(&[0.1, 0.2]), vector(&[3.0, 4.0])] {
        close(&fast.call(&x).expect("runs"), &f(&x).expect("runs"));
    }
    assert_eq!(fast.stats().traced, 1);
}

#[test]
fn reading_a_tracer_fails_and_a_leak_names_the_trace() {
    let fast = jit(|x: &Tensor| {
        let value = x.item()?.as_f64();
        (x * value).done()
    });
    let e = fast.call(&vector(&[1.0])).expect_err("no value");
    assert_eq!(e.kind(), Kind::Trace);
    let leaked = std::sync::Arc::new(std::sync::Mutex::new(None));
    let place = leaked.clone();
    let leaks = jit(move |x: &Tensor| {
        *place.lock().expect("a lock") = Some(x.clone());
        (x + 1.0).done()
    });
    leaks.call(&vector(&[1.0])).expect("runs");
    let leaked = leaked.lock().expect("a lock").clone().expect("it leaked");
    let e = leaked.to_vec::<f32>().expect_err("it is gone");
    assert!(e.to_string().contains("outlived"), "{e}");
}

#[test]
fn a_jitted_step_trains() {
    // y = x w, by gradient descent.
    let x = ops::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3usize, 2]).expect("data");
    let y = ops::from_slice(&[2.0f32, -1.0, 1.0], [3usize, 1]).expect("data");
    let step = jit(|(w, x, y): &(Tensor, Tensor, Tensor)| {
        let loss = value_and_grad(|w: &Tensor| ops::mean((ops::matmul(x, w) - y).square(), ..));
        let (loss, grad) = loss(w)?;
        Ok((loss, (w - grad * 0.3).done()?))
    });
    let mut w = ops::zeros([2usize, 1], DType::F32).done().expect("zeros");
    let mut losses = Vec::new();
    for _ in 0..200 {
        let (loss, new) = step.take((w, x.clone(), y.clone())).expect("a step");
        losses.push(loss.to_vec::<f32>().expect("f32")[0]);
        w = new;
    }
    assert!(losses[199] < 1e-6 && losses[0] > 1.0, "{losses:?}");
    close(
        &w,
        &ops::from_slice(&[2.0f32, -1.0], [2usize, 1]).expect("weights"),
    );
    assert_eq!(step.stats().traced, 1);
}

#[test]
fn threads_share_a_program() {
    let fast = std::sync::Arc::new(jit(|x: &Tensor| ops::exp(x * 0.5).sum(..).done()));
    let want = fast
        .call(&vector(&[1.0; 64]))
        .expect("runs")
        .to_vec::<f32>()
        .expect("f32");
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (fast, want) = (fast.clone(), want.clone());
            std::thread::spawn(move || {
                for _ in 0..50 {
                    let y = fast.call(&vector(&[1.0; 64])).expect("runs");
                    assert_eq!(y.to_vec::<f32>().expect("f32"), want);
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|t| t.join().expect("a thread"));
}

#[test]
fn batches_inside_of_programs() {
    let each = |x: &Tensor| ops::sin(x).sum(..).done();
    let fast = jit(move |x: &Tensor| vmap(each)(x));
    let x = ops::from_slice(&[0.1f32, 0.2, 0.3, 0.4], [2usize, 2]).expect("data");
    close(
        &fast.call(&x).expect("runs"),
        &vmap(each)(&x).expect("runs"),
    );
}

#[test]
fn derivatives_reach_captured_tensors() {
    let x = vector(&[1.0, 2.0]);
    let gradient = grad(|w: &Tensor| {
        let own = w.clone();
        jit(move |x: &Tensor| (x * &own).sum(..).done()).call(&x)
    })(&vector(&[3.0, 4.0]));
    close(&gradient.expect("a gradient"), &x);
}
