//! Ctrl-C in the middle of an op: the op ends soon, with the listener's error, and the next op runs normally.

use clematis_core::ops::ConvOptions;
use clematis_core::random::Key;
use clematis_core::{DType, Error, Kind, Result, Tensor, interrupt, ops, random};
use clematis_native as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// When the interrupt becomes pending.
static ASKED: Mutex<Option<Instant>> = Mutex::new(None);

fn listener() -> Result<()> {
    let mut asked = ASKED.lock().expect("nobody panics with it");
    match asked.is_some_and(|at| Instant::now() >= at) {
        true => {
            *asked = None;
            Err(Error::new(Kind::Value, "the user wants an end"))
        }
        false => Ok(()),
    }
}

/// Measures how long an op continues after an interrupt that arrives while it runs.
fn check(name: &str, op: impl Fn() -> Result<Tensor>) {
    interrupt::listen(listener);
    let at = Instant::now() + Duration::from_millis(100);
    *ASKED.lock().expect("nobody panics with it") = Some(at);
    let done = op();
    let late = Instant::now().saturating_duration_since(at);
    let e = done.expect_err("it was done before anybody asked");
    assert!(
        e.to_string().contains("the user wants an end"),
        "{name}: {e}"
    );
    println!(
        "{name}: ended {} ms after it was asked to",
        late.as_millis()
    );
    // Alone on a machine and optimized it is 0.3 s; the op itself takes several times what is allowed here.
    assert!(late < Duration::from_secs(2), "{name}: {late:?} too late");
    // No state is left behind: a small op gives its usual result.
    let x = ops::iota([1000usize], 0, DType::F32).done().expect("runs");
    let sum = ops::sum(&x, ..).done().expect("runs");
    assert_eq!(sum.to_vec::<f32>().expect("runs"), [499_500.0]);
}

fn noise(shape: &[usize], dtype: DType) -> Tensor {
    let x = random::uniform(&Key::new(0), shape, 0.0, 1.0, DType::F32);
    ops::cast(x, dtype).done().expect("runs")
}

#[test]
fn long_ops_end_soon_after_they_are_asked_to() {
    for dtype in [DType::F32, DType::F64, DType::BF16] {
        let x = noise(&[6000, 6000], dtype);
        check(&format!("matmul {dtype}"), || ops::matmul(&x, &x).done());
    }
    let x = noise(&[8_000_000], DType::F32);
    check("sort", || ops::sort(&x, 0, false).done());
    let (x, w) = (
        noise(&[32, 256, 256, 64], DType::F32),
        noise(&[3, 3, 64, 128], DType::F32),
    );
    let options = ConvOptions::new(2);
    let image = |x: &Tensor, w: &Tensor| ops::conv(x, w, &options).done();
    check("convolution", || image(&x, &w));
    let (x, w) = (
        ops::cast(&x, DType::I32).done(),
        ops::cast(&w, DType::I32).done(),
    );
    let (x, w) = (x.expect("runs"), w.expect("runs"));
    check("convolution of integers", || image(&x, &w));
}
