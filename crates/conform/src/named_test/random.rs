//! Tests of distributions: enough numbers from one seed to check mean and variance.

use super::NamedTest;
use crate::array::Array;
use crate::dashboard::Dashboard;
use clematis_core::DType::{F32, I32, U32};
use clematis_core::random::distribution as draw;
use clematis_core::random::{Key, dropout};
use clematis_core::{Result, Tensor, ops};

const N: usize = 4096;

fn key() -> Key {
    Key::new(7)
}

/// Checks that mean and variance are within 6.5 standard errors of the expected ones, and values in range.
fn moments(x: &Array, mean: f64, variance: f64, low: f64, high: f64) -> Verdict {
    let values: Vec<f64> = x.values.iter().map(|v| v.re()).collect();
    if let Some(v) = values.iter().find(|v| !(low..=high).contains(*v)) {
        return Err(format!("{v} is not between {low} and {high}"));
    }
    let n = values.len() as f64;
    let m = values.iter().sum::<f64>() / n;
    let v = values.iter().map(|x| (x - m).powi(2)).sum::<f64>() / n;
    let error = 6.5 * (variance / n).sqrt();
    if (m - mean).abs() > error {
        return Err(format!(
            "expected a mean of {mean} within {error:.4}, got {m:.4}"
        ));
    }
    // For heavy tails the sample variance has a large variance.
    if (v - variance).abs() > 0.25 * variance {
        return Err(format!("expected a variance of {variance:.4}, got {v:.4}"));
    }
    Ok(())
}

type Verdict = std::result::Result<(), String>;

/// Checks that each of 0 to count - 1 occurs once.
fn distinct(x: &Array, count: usize) -> Verdict {
    let mut seen: Vec<i128> = x.values.iter().map(|v| v.i()).collect();
    seen.sort_unstable();
    if seen.iter().copied().eq(0..count as i128) {
        Ok(())
    } else {
        Err(format!("expected each of 0 to {} once", count - 1))
    }
}

fn counting(shape: &[usize]) -> Result<Tensor> {
    ops::iota(shape, 0, I32).done()
}

pub fn rows() -> Vec<NamedTest> {
    const ANY: f64 = f64::INFINITY;
    let named = |row, run, judge| NamedTest {
        dashboard: Dashboard::Random,
        row,
        run,
        judge,
    };
    vec![
        named(
            "test_random_uniform",
            || draw::uniform(&key(), [N], -1.0, 3.0, F32).done(),
            |x| moments(x, 1.0, 16.0 / 12.0, -1.0, 3.0),
        ),
        named(
            "test_random_normal",
            || draw::normal(&key(), [N], 2.0, 0.5, F32).done(),
            |x| moments(x, 2.0, 0.25, -2.0, 6.0),
        ),
        named(
            "test_truncated_normal",
            || draw::truncated_normal(&key(), [N], -1.0, 1.0, F32).done(),
            |x| moments(x, 0.0, 0.291_125, -1.0, 1.0),
        ),
        named(
            "test_bernoulli",
            || draw::bernoulli(&key(), [N], 0.25).done(),
            |x| moments(x, 0.25, 0.1875, 0.0, 1.0),
        ),
        named(
            "test_randint",
            || draw::randint(&key(), [N], -5, 6, I32).done(),
            |x| moments(x, 0.0, 10.0, -5.0, 5.0),
        ),
        named(
            "test_exponential",
            || draw::exponential(&key(), [N], 2.0, F32).done(),
            |x| moments(x, 0.5, 0.25, 0.0, 20.0),
        ),
        named(
            "test_laplace",
            || draw::laplace(&key(), [N], F32).done(),
            |x| moments(x, 0.0, 2.0, -30.0, 30.0),
        ),
        named(
            "test_gumbel",
            || draw::gumbel(&key(), [N], F32).done(),
            |x| moments(x, 0.577_216, 1.644_934, -5.0, 30.0),
        ),
        named(
            "test_gamma",
            || draw::gamma(&key(), [N], 2.5, F32).done(),
            |x| moments(x, 2.5, 2.5, 0.0, 40.0),
        ),
        named(
            "test_beta",
            || draw::beta(&key(), [N], 2.0, 3.0, F32).done(),
            |x| moments(x, 0.4, 0.04, 0.0, 1.0),
        ),
        named(
            "test_poisson",
            || draw::poisson(&key(), [N], 3.5, I32).done(),
            |x| moments(x, 3.5, 3.5, 0.0, ANY),
        ),
        named(
            "test_dirichlet",
            || draw::dirichlet(&key(), [N / 4], ops::full([4], 2.0, F32), F32).done(),
            |x| moments(x, 0.25, 0.020_833, 0.0, 1.0),
        ),
        named(
            "test_categorical",
            || draw::categorical(&key(), ops::full([N, 4], 0.0, F32)).done(),
            |x| moments(x, 1.5, 1.25, 0.0, 3.0),
        ),
        named(
            "test_multinomial",
            || draw::multinomial(&key(), ops::full([64], 1.0, F32), 64, false).done(),
            |x| distinct(x, 64),
        ),
        named(
            "test_permutation",
            || draw::permutation(&key(), 64).done(),
            |x| distinct(x, 64),
        ),
        named(
            "test_shuffle",
            || draw::shuffle(&key(), counting(&[64])?).done(),
            |x| distinct(x, 64),
        ),
        NamedTest {
            dashboard: Dashboard::Layers,
            row: "test_dropout",
            run: || dropout(ops::full([N], 1.0, F32), &key(), 0.5).done(),
            judge: |x| moments(x, 1.0, 1.0, 0.0, 2.0),
        },
        named(
            "test_bits",
            || key().bits(U32, [N]).done(),
            |x| {
                let top = f64::from(u32::MAX);
                moments(x, top / 2.0, top * top / 12.0, 1.0, top)
            },
        ),
        named(
            "test_split",
            || {
                let (a, b) = key().split();
                ops::stack(
                    &[
                        a.words().done()?,
                        b.words().done()?,
                        key().words().done()?,
                        key().fold_in(1).words().done()?,
                    ],
                    0,
                )
                .done()
            },
            |x| {
                let mut keys: Vec<_> = x.values.chunks(2).map(|k| (k[0].i(), k[1].i())).collect();
                keys.sort_unstable();
                keys.dedup();
                if keys.len() == 4 && x.values.len() == 8 {
                    Ok(())
                } else {
                    Err("keys repeat".into())
                }
            },
        ),
    ]
}
