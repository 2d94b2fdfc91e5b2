//! A compiled training step agrees with the eager step.

use clematis_core::autodiff::value_and_grad;
use clematis_core::random::Key;
use clematis_core::{Kind, Result, Tensor, ops, tree};
use clematis_native as _;
use clematis_nn::{Adam, BatchNorm, JitStep, Linear, Module, Optimizer, Schedule, Sequential};
use clematis_passes as _;

type Batch = (Tensor, Tensor);

fn loss(net: &Linear, (x, y): &Batch) -> Result<Tensor> {
    let off = (net.forward(x)? - y).done()?;
    ops::mean(ops::square(off), ..).done()
}

fn data() -> Result<Batch> {
    let x = ops::from_slice(&[1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0], [3usize, 2])?;
    Ok((x, ops::from_slice(&[2.0f32, -1.0, 1.0], [3usize, 1])?))
}

fn optimizer() -> Adam {
    let lr = Schedule::Linear {
        start: 0.3,
        end: 0.1,
        steps: 100,
    };
    Adam::new(lr)
}

#[test]
fn a_compiled_step_trains_like_eager_steps() -> Result<()> {
    let batch = data()?;
    let mut plain = Linear::new(2, 1, &Key::new(0))?;
    let mut fast = plain.clone();
    let step = JitStep::new(optimizer(), loss);
    let (mut state, mut own) = (optimizer().init(&plain)?, step.init(&fast)?);
    let mut losses = Vec::new();
    for _ in 0..120 {
        let (_, grads) = value_and_grad(|net: &Linear| loss(net, &batch))(&plain)?;
        optimizer().step(&mut plain, &grads, &mut state)?;
        losses.push(step.step(&mut fast, &mut own, &batch)?.to_vec::<f32>()?[0]);
    }
    assert!(losses[119] < 1e-3 && losses[0] > 0.1, "{losses:?}");
    assert_eq!((step.stats().traced, own.steps), (1, 120));
    for (x, y) in tree::leaves(&plain).iter().zip(tree::leaves(&fast)) {
        for (x, y) in x.to_vec::<f32>()?.iter().zip(y.to_vec::<f32>()?) {
            assert!((x - y).abs() < 1e-3, "{x} and {y}");
        }
    }
    Ok(())
}

#[test]
fn a_constant_step_count_is_rejected() -> Result<()> {
    let (net, batch) = (Linear::new(2, 1, &Key::new(0))?, data()?);
    let state = optimizer().init(&net)?;
    let step = clematis_core::jit::jit(move |(net, batch): &(Linear, Batch)| {
        let (_, grads) = value_and_grad(|net: &Linear| loss(net, batch))(net)?;
        let (mut net, mut state) = (net.clone(), state.clone());
        optimizer().step(&mut net, &grads, &mut state)?;
        Ok(net)
    });
    let e = step.call(&(net, batch)).err();
    assert_eq!(e.map(|e| e.kind()), Some(Kind::Trace));
    Ok(())
}

#[test]
fn a_program_moves_the_statistics_of_a_batch_norm_inside_a_sequential() -> Result<()> {
    let batch = data()?;
    let mut norm = BatchNorm::new(2)?;
    let net = Sequential::new().then(norm.clone());
    let mut net = net.then(Linear::new(2, 1, &Key::new(0))?);
    let step = JitStep::with_state(optimizer(), |net: &mut Sequential, (x, y): &Batch| {
        let off = (net.forward_train(x)? - y).done()?;
        ops::mean(ops::square(off), ..).done()
    });
    let mut state = step.init(&net)?;
    for _ in 0..3 {
        step.step(&mut net, &mut state, &batch)?;
        norm.forward_train(&batch.0)?;
    }
    let leaves = |tree: &dyn Fn() -> Vec<(String, tree::Role, Tensor)>| {
        let states = tree()
            .into_iter()
            .filter(|(_, role, _)| *role == tree::Role::State);
        states
            .map(|(.., x)| x.to_vec::<f32>())
            .collect::<Result<Vec<_>>>()
    };
    let (found, expected) = (
        leaves(&|| tree::entries(&net))?,
        leaves(&|| tree::entries(&norm))?,
    );
    assert_eq!(found, expected);
    // Three steps of momentum 0.1 from 0 towards the mean of 2/3.
    assert!(
        (found[0][0] - (1.0 - 0.9f32.powi(3)) * 2.0 / 3.0).abs() < 1e-6,
        "{found:?}"
    );
    assert_eq!(step.stats().traced, 1);
    Ok(())
}

#[test]
fn a_sequential_is_send() -> Result<()> {
    let net = Sequential::new().then(Linear::new(2, 1, &Key::new(0))?);
    let (x, _) = data()?;
    let here = net.forward(&x)?.to_vec::<f32>()?;
    let there = std::thread::spawn(move || net.forward(&x)?.to_vec::<f32>());
    assert_eq!(there.join().expect("the thread ends well")?, here);
    Ok(())
}
