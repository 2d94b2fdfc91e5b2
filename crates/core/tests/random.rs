//! Keys, bits and distributions: known answers, equivalent ways to draw, and goodness of fit for fixed keys.

use clematis_core::op::Composite;
use clematis_core::ops::{self, Ops};
use clematis_core::random::{self, Key};
use clematis_core::{DType, Op, Result, Tensor};
use clematis_native as _;

const N: usize = 20_000;

fn floats(x: clematis_core::expr::Expr) -> Vec<f64> {
    x.done().and_then(|x| x.to_host()).expect("a draw").to_f64()
}

/// Kolmogorov–Smirnov test: the maximum distance between the empirical and the model's distribution function.
///
/// A correct model exceeds 2.2 / √n for one in 8,000 keys; keys are fixed, so the test is deterministic.
#[track_caller]
fn fits(name: &str, mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) {
    sample.sort_by(f64::total_cmp);
    let n = sample.len() as f64;
    let gap = sample
        .iter()
        .enumerate()
        .map(|(i, &x)| {
            let f = cdf(x);
            (f - i as f64 / n).abs().max(((i + 1) as f64 / n - f).abs())
        })
        .fold(0.0, f64::max);
    assert!(
        gap < 2.2 / n.sqrt(),
        "{name}: the largest gap is {gap}, the bound {}",
        2.2 / n.sqrt()
    );
}

/// Pearson's chi-square test against expected counts, with a bound at about 4.5 standard deviations.
#[track_caller]
fn counts_fit(name: &str, counts: &[f64], expected: &[f64]) {
    let chi: f64 = counts
        .iter()
        .zip(expected)
        .map(|(c, e)| (c - e).powi(2) / e)
        .sum();
    let freedom = (counts.len() - 1) as f64;
    assert!(
        chi < freedom + 4.5 * (2.0 * freedom).sqrt() + 6.0,
        "{name}: chi-square {chi} with {freedom}"
    );
}

fn normal_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// The regularised lower incomplete gamma function, by its series or its continued fraction.
fn gamma_cdf(a: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() - x - libm::lgamma(a)).exp();
    if x < a + 1.0 {
        let (mut term, mut sum) = (1.0 / a, 1.0 / a);
        for k in 1..2000 {
            term *= x / (a + f64::from(k));
            sum += term;
        }
        return front * sum;
    }
    let mut f = 0.0;
    for k in (1..2000).rev() {
        let k = f64::from(k);
        f = k * (k - a) / (x + 2.0 * k + 1.0 - a - f);
    }
    1.0 - front / (x + 1.0 - a - f)
}

/// By Simpson's rule after a substitution that removes the singularities at both ends.
fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    let log_beta = libm::lgamma(a) + libm::lgamma(b) - libm::lgamma(a + b);
    let top = x.sqrt().asin();
    let f = |t: f64| {
        2.0 * ((2.0 * a - 1.0) * t.sin().ln() + (2.0 * b - 1.0) * t.cos().ln() - log_beta).exp()
    };
    let steps = 400;
    let h = top / f64::from(steps);
    let value = |t: f64| {
        if t <= 0.0 {
            if a > 0.5 { 0.0 } else { f(1e-12) }
        } else {
            f(t)
        }
    };
    (0..steps)
        .map(|i| {
            let t = f64::from(i) * h;
            h / 6.0 * (value(t) + 4.0 * value(t + h / 2.0) + value(t + h))
        })
        .sum()
}

#[test]
fn bits_match_known_answers() -> Result<()> {
    let key = Key::new(0x1319_8a2e_0370_7344);
    let words = key.bits(DType::U32, [5usize]).done()?.to_vec::<u32>()?;
    let block = |i: u32| clematis_core::ops::bits::threefry([0x1319_8a2e, 0x0370_7344], [0, i]);
    assert_eq!(
        words,
        [
            block(0)[0],
            block(0)[1],
            block(1)[0],
            block(1)[1],
            block(2)[0]
        ]
    );
    let wide = key.bits(DType::U64, [2usize]).done()?.to_vec::<u64>()?;
    assert_eq!(wide[0], u64::from(words[0]) << 32 | u64::from(words[1]));
    assert_eq!(
        key.bits(DType::U8, [1usize]).done()?.to_vec::<u8>()?,
        [words[0] as u8]
    );
    // The engine's kernel and the expansion give the same draw.
    for dtype in [DType::U8, DType::U16, DType::U32, DType::U64] {
        let op: Op = Composite::RandomBits {
            dtype,
            shape: ops::zeros([3usize, 7], DType::F32).done()?.shape().clone(),
        }
        .into();
        let words = key.words().done()?;
        let slow = op.expand(&[&words])?.one().unwrap();
        let fast = key.bits(dtype, [3usize, 7]).done()?;
        assert_eq!(slow.to_host()?.to_f64(), fast.to_host()?.to_f64());
    }
    Ok(())
}

#[test]
fn keys_split_equally_as_numbers_and_as_tensors() -> Result<()> {
    let plain = Key::new(42);
    let traced = Key::from_tensor(plain.words());
    let words = |k: &Key| k.words().done().unwrap().to_vec::<u32>().unwrap();
    let (a, b) = plain.split();
    let (c, d) = traced.split();
    assert_eq!((words(&a), words(&b)), (words(&c), words(&d)));
    assert_ne!(words(&a), words(&b));
    assert_eq!(words(&plain.fold_in(7)), words(&traced.fold_in(7)));
    assert_eq!(
        words(&plain.fold_in(u64::MAX)),
        words(&traced.fold_in(u64::MAX))
    );
    let many: std::collections::BTreeSet<_> = plain.split_n(1000).iter().map(words).collect();
    assert_eq!(many.len(), 1000);
    // Seed 0 is valid, and adjacent seeds are unrelated.
    let draw = |seed| {
        floats(random::uniform(
            &Key::new(seed),
            [8usize],
            0.0,
            1.0,
            DType::F64,
        ))
    };
    assert_eq!(draw(0), draw(0));
    assert!(
        draw(0)
            .iter()
            .zip(draw(1))
            .all(|(a, b)| (a - b).abs() > 1e-9)
    );
    Ok(())
}

#[test]
fn uniform_is_half_open_in_every_precision() {
    for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
        let x = floats(random::uniform(&Key::new(3), [N], 0.0, 1.0, dtype));
        assert!(x.iter().all(|&v| (0.0..1.0).contains(&v)), "{dtype}");
        let y = floats(random::uniform(&Key::new(3), [N], 2.0, 3.0, dtype));
        assert!(y.iter().all(|&v| (2.0..3.0).contains(&v)), "{dtype}");
    }
    fits(
        "uniform",
        floats(random::uniform(&Key::new(1), [N], -2.0, 5.0, DType::F32)),
        |x| (x + 2.0) / 7.0,
    );
    assert_eq!(
        floats(random::uniform(
            &Key::new(1),
            [2usize],
            4.0,
            4.0,
            DType::F32
        )),
        [4.0, 4.0]
    );
}

#[test]
fn continuous_distributions_fit() {
    let key = |n| Key::new(2026).fold_in(n);
    for dtype in [DType::F32, DType::F64] {
        fits(
            "normal",
            floats(random::normal(&key(0), [N], 1.0, 2.0, dtype)),
            |x| normal_cdf((x - 1.0) / 2.0),
        );
        let (a, b) = (normal_cdf(-1.0), normal_cdf(2.0));
        let cut = floats(random::truncated_normal(&key(1), [N], -1.0, 2.0, dtype));
        assert!(cut.iter().all(|x| (-1.0..=2.0).contains(x)));
        fits("truncated_normal", cut, |x| (normal_cdf(x) - a) / (b - a));
        fits(
            "exponential",
            floats(random::exponential(&key(2), [N], 3.0, dtype)),
            |x| -(-3.0 * x).exp_m1(),
        );
        fits(
            "laplace",
            floats(random::laplace(&key(3), [N], dtype)),
            |x| {
                if x < 0.0 {
                    0.5 * x.exp()
                } else {
                    1.0 - 0.5 * (-x).exp()
                }
            },
        );
        fits("gumbel", floats(random::gumbel(&key(4), [N], dtype)), |x| {
            (-(-x).exp()).exp()
        });
    }
    for (i, alpha) in [0.3, 1.0, 2.5, 40.0].into_iter().enumerate() {
        let x = floats(random::gamma(&key(5 + i as u64), [N], alpha, DType::F64));
        fits("gamma", x, |x| gamma_cdf(alpha, x));
    }
    for (i, (a, b)) in [(0.6, 0.8), (2.0, 3.0), (8.0, 1.5)].into_iter().enumerate() {
        let x = floats(random::beta(&key(10 + i as u64), [N], a, b, DType::F64));
        fits("beta", x, |x| beta_cdf(a, b, x));
    }
}

#[test]
fn dirichlet_sums_to_one_and_its_parts_are_beta() -> Result<()> {
    let alpha = ops::tensor([1.5f64, 2.0, 0.7])?;
    let x = random::dirichlet(&Key::new(9), [N], &alpha, DType::F64).done()?;
    assert_eq!(x.shape(), &[N, 3]);
    let sums = floats(x.sum(1));
    assert!(sums.iter().all(|s| (s - 1.0).abs() < 1e-12));
    for (i, a) in [1.5, 2.0, 0.7].into_iter().enumerate() {
        let part = floats(ops::squeeze(ops::slice_axis(&x, 1, i, i + 1), 1));
        fits("dirichlet", part, |x| beta_cdf(a, 4.2 - a, x));
    }
    Ok(())
}

#[test]
fn discrete_distributions_fit() -> Result<()> {
    let key = |n| Key::new(77).fold_in(n);
    let tally = |x: Vec<f64>, n: usize| {
        let mut counts = vec![0.0; n];
        for v in x {
            counts[(v as usize).min(n - 1)] += 1.0;
        }
        counts
    };
    let n = N as f64;
    let coins = floats(random::bernoulli(&key(0), [N], 0.3).cast(DType::F32));
    counts_fit("bernoulli", &tally(coins, 2), &[0.7 * n, 0.3 * n]);
    let dice = floats(random::randint(&key(1), [N], -3, 4, DType::I32) + 3);
    counts_fit("randint", &tally(dice, 7), &[n / 7.0; 7]);
    let weights = [0.1f32, 0.4, 0.0, 0.5];
    let rows = ops::broadcast_to(ops::log(ops::tensor(weights)), [N, 4]).done()?;
    let picks = tally(floats(random::categorical(&key(2), &rows)), 4);
    assert_eq!(picks[2], 0.0);
    counts_fit(
        "categorical",
        &[picks[0], picks[1], picks[3]],
        &[0.1 * n, 0.4 * n, 0.5 * n],
    );
    let picks = tally(
        floats(random::multinomial(&key(3), ops::tensor(weights), N, true)),
        4,
    );
    assert_eq!(picks[2], 0.0);
    counts_fit(
        "multinomial",
        &[picks[0], picks[1], picks[3]],
        &[0.1 * n, 0.4 * n, 0.5 * n],
    );
    for (i, rate) in [0.5f64, 4.0, 30.0, 400.0].into_iter().enumerate() {
        let x = floats(random::poisson(&key(4 + i as u64), [N], rate, DType::F64));
        // Bins of equal width around the mean; each tail is one bin.
        let (low, width) = (
            (rate - 3.0 * rate.sqrt()).max(0.0).floor(),
            (rate.sqrt() / 4.0).ceil(),
        );
        let bins = ((6.0 * rate.sqrt() + 1.0) / width).ceil() as usize + 1;
        let bin = |v: f64| (((v - low) / width).floor().max(0.0) as usize).min(bins - 1);
        let (mut counts, mut expected) = (vec![0.0; bins], vec![0.0; bins]);
        for v in x {
            counts[bin(v)] += 1.0;
        }
        for k in 0..2000 {
            let k = f64::from(k);
            expected[bin(k)] += n * (k * rate.ln() - rate - libm::lgamma(k + 1.0)).exp();
        }
        let keep: Vec<usize> = (0..bins).filter(|&i| expected[i] > 8.0).collect();
        let pick = |v: &[f64]| keep.iter().map(|&i| v[i]).collect::<Vec<_>>();
        counts_fit(&format!("poisson {rate}"), &pick(&counts), &pick(&expected));
    }
    Ok(())
}

#[test]
fn without_replacement_indices_are_distinct_and_rows_independent() -> Result<()> {
    let weights = ops::ones([50usize, 10], DType::F32).done()?;
    let picks = random::multinomial(&Key::new(5), &weights, 10, false).done()?;
    let rows = picks.to_vec::<i64>()?;
    let mut distinct = std::collections::BTreeSet::new();
    for row in rows.chunks(10) {
        let mut sorted = row.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<_>>());
        distinct.insert(row.to_vec());
    }
    assert!(distinct.len() > 45, "equal rows: {}", distinct.len());
    Ok(())
}

#[test]
fn permutations_are_uniform_and_shuffles_move_rows() -> Result<()> {
    let mut counts = std::collections::BTreeMap::new();
    for i in 0..2400 {
        let p = random::permutation(&Key::new(i), 4)
            .done()?
            .to_vec::<i64>()?;
        *counts.entry(p).or_insert(0.0) += 1.0;
    }
    let counts: Vec<f64> = counts.into_values().collect();
    assert_eq!(counts.len(), 24);
    counts_fit("permutation", &counts, &[100.0; 24]);
    let x = ops::reshape(ops::arange(0, 30, 1, DType::I32), [10usize, 3]).done()?;
    let y = random::shuffle(&Key::new(0), &x).done()?.to_vec::<i32>()?;
    assert!(
        y.chunks(3)
            .all(|r| r[0] % 3 == 0 && r[1] == r[0] + 1 && r[2] == r[0] + 2)
    );
    assert_ne!(y, x.to_vec::<i32>()?);
    Ok(())
}

#[test]
fn dropout_keeps_the_mean_and_both_ends_are_exact() -> Result<()> {
    let x = ops::ones([N], DType::F32).done()?;
    let y = floats(random::dropout(&x, &Key::new(4), 0.3));
    let kept = y.iter().filter(|v| **v != 0.0).count() as f64;
    counts_fit(
        "dropout",
        &[kept, N as f64 - kept],
        &[0.7 * N as f64, 0.3 * N as f64],
    );
    assert!(y.iter().all(|&v| v == 0.0 || (v - 1.0 / 0.7).abs() < 1e-6));
    assert_eq!(floats(random::dropout(&x, &Key::new(4), 0.0)), vec![1.0; N]);
    assert_eq!(floats(random::dropout(&x, &Key::new(4), 1.0)), vec![0.0; N]);
    Ok(())
}

#[test]
fn gradients_reach_the_parameters_of_reparameterised_draws() -> Result<()> {
    let key = Key::new(8);
    let scale = ops::tensor([2.0f64])?;
    let gradient = clematis_core::autodiff::grad(|s: &Tensor| {
        ops::sum(random::normal(&key, [5usize], 0.0, s, DType::F64), ..)
    });
    let z: f64 = floats(random::normal(&key, [5usize], 0.0, 1.0, DType::F64))
        .iter()
        .sum();
    assert!((gradient(&scale)?.to_vec::<f64>()?[0] - z).abs() < 1e-12);
    Ok(())
}
