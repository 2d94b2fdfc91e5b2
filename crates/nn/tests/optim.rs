//! Optimisers and schedules: equal to Python's bits; state files; errors that change nothing.

use clematis_core::random::{self, Key};
use clematis_core::{DType, Kind, Result, Tensor, ops, tree};
use clematis_derive::Tree;
use clematis_native as _;
use clematis_nn::checkpoint;
use clematis_nn::optim::{Accumulate, Groups, clip_by_global_norm, clip_by_value, global_norm};
use clematis_nn::{
    Adagrad, Adam, AdamW, Lamb, Lars, Lion, LossScale, Optimizer, RmsProp, Schedule, Sgd,
};

fn normal(seed: u64, size: usize) -> Result<Tensor> {
    random::normal(&Key::new(seed), [size], 0.0, 1.0, DType::F32).done()
}

/// Five steps: the bits of the parameter, as python/tests/test_optim_bits.py writes them.
fn line(name: &str, optimizer: &impl Optimizer, size: usize) -> Result<String> {
    let mut w = normal(0, size)?;
    let mut state = optimizer.init(&w)?;
    for i in 0..5 {
        optimizer.step(&mut w, &normal(i + 1, size)?, &mut state)?;
    }
    assert_eq!(state.steps, 5);
    let words = w.to_vec::<f32>()?;
    let words = words.iter().map(|x| format!(" {:08x}", x.to_bits()));
    Ok(format!("{name}{}", words.collect::<String>()))
}

#[test]
fn steps_are_bit_identical_to_python() -> Result<()> {
    let cosine = Schedule::Cosine {
        start: 0.1,
        end: 0.0,
        steps: 10,
    };
    let cycle = Schedule::OneCycle {
        peak: 0.1,
        steps: 10,
        rise: 0.3,
        divide: 25.0,
        final_divide: 1e4,
    };
    let step_decay = Schedule::Step {
        start: 0.1,
        every: 2,
        factor: 0.5,
    };
    let falling = Schedule::Exponential {
        start: 0.1,
        factor: 0.9,
    };
    let down = Schedule::Linear {
        start: 0.1,
        end: 0.01,
        steps: 5,
    };
    let sgd = Sgd {
        momentum: 0.9,
        nesterov: true,
        weight_decay: 0.01,
        ..Sgd::new(0.1)
    };
    let lars = Lars {
        decay_lambda: 0.01,
        momentum: 0.9,
        trust: 0.5,
        ..Lars::new(step_decay)
    };
    let lamb = Lamb {
        decay_lambda: 0.01,
        ..Lamb::new(0.1)
    };
    let rms = RmsProp {
        momentum: 0.5,
        centered: true,
        ..RmsProp::new(0.1)
    };
    let adagrad = Adagrad {
        weight_decay: 0.01,
        ..Adagrad::new(falling)
    };
    let lion = Lion {
        weight_decay: 0.01,
        ..Lion::new(down)
    };
    let lines = [
        line("SGD", &sgd, 7)?,
        line("Adam", &Adam::new(Schedule::warmup(2, cosine, 0.0)?), 7)?,
        line("AdamW", &AdamW::new(cycle), 7)?,
        line("LARS", &lars, 1)?,
        line("LAMB", &lamb, 1)?,
        line("RMSprop", &rms, 7)?,
        line("Adagrad", &adagrad, 7)?,
        line("Lion", &lion, 7)?,
    ];
    let wanted: Vec<_> = include_str!("optim_bits.txt").lines().collect();
    assert_eq!(lines.to_vec(), wanted);
    Ok(())
}

#[derive(Clone, Tree)]
struct Layer {
    w: Tensor,
    b: Tensor,
}

#[derive(Clone, Tree)]
struct Net {
    layer: Layer,
}

fn net() -> Result<Net> {
    Ok(Net {
        layer: Layer {
            w: ops::tensor([[1.0f32, 2.0], [3.0, 4.0]])?,
            b: ops::tensor([0.5f32])?,
        },
    })
}

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("clematis-optim-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    path
}

#[test]
fn a_state_saved_by_python_can_be_resumed() -> Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/optim_state.safetensors");
    let adam = Adam::new(0.1);
    let mut net = net()?;
    let mut state = adam.init(&net)?;
    for _ in 0..3 {
        let grads = net.clone();
        adam.step(&mut net, &grads, &mut state)?;
    }
    let mut loaded = adam.init(&net)?;
    loaded.load(file)?;
    assert_eq!(loaded.steps, 3);
    for (a, b) in tree::leaves(&state).iter().zip(tree::leaves(&loaded)) {
        assert_eq!(a.to_vec::<f32>()?, b.to_vec::<f32>()?);
    }
    // Saved again, it has the same names and structure.
    let path = folder("state").join("again.safetensors");
    loaded.save(&path)?;
    let (one, two) = (checkpoint::load(file)?, checkpoint::load(&path)?);
    assert_eq!(one.structure, two.structure);
    let names = |c: &checkpoint::Checkpoint| -> Vec<String> {
        c.tensors.iter().map(|(name, _)| name.clone()).collect()
    };
    assert_eq!(names(&one), names(&two));
    Ok(())
}

#[test]
fn a_state_of_other_parameters_is_rejected() -> Result<()> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/optim_state.safetensors");
    let other = Layer {
        w: ops::tensor([1.0f32])?,
        b: ops::tensor([0.5f32])?,
    };
    let mut state = Adam::new(0.1).init(&other)?;
    let e = state.load(file).expect_err("other names");
    assert_eq!(e.kind(), Kind::Structure);
    let text = e.to_string();
    assert!(text.contains("`mean.w` is not in the file"), "{text}");
    assert!(
        text.contains("`square.layer.b` is not in the state"),
        "{text}"
    );
    assert_eq!(state.steps, 0);
    // The state of other parameters, and that of another rule.
    let mut params = net()?;
    let grads = net()?;
    let e = Adam::new(0.1)
        .step(&mut params, &grads, &mut state)
        .expect_err("other paths");
    assert_eq!(e.kind(), Kind::Structure);
    assert!(e.to_string().contains("`layer.w` has no moments"), "{e}");
    let mut plain = Sgd::new(0.1).init(&params)?;
    let e = Adam::new(0.1)
        .step(&mut params, &grads, &mut plain)
        .expect_err("another rule");
    assert_eq!(e.kind(), Kind::Structure);
    Ok(())
}

#[test]
fn groups_use_their_own_hyperparameters() -> Result<()> {
    let optimizer = Groups::new(Sgd::new(0.1)).with("layer/b", Sgd::new(0.0))?;
    let (mut params, grads) = (net()?, net()?);
    let before: Vec<_> = tree::leaves(&params);
    let mut state = optimizer.init(&params)?;
    optimizer.step(&mut params, &grads, &mut state)?;
    for ((path, _, after), before) in tree::entries(&params).into_iter().zip(before) {
        let same = after.to_vec::<f32>()? == before.to_vec::<f32>()?;
        assert_eq!(same, path == "layer.b", "{path}");
    }
    Ok(())
}

#[test]
fn invalid_numbers_are_rejected() -> Result<()> {
    let w = ops::tensor([1.0f32])?;
    let wrong = [
        Adam {
            beta1: 1.0,
            ..Adam::new(0.1)
        },
        Adam {
            epsilon: f64::NAN,
            ..Adam::new(0.1)
        },
        Adam::new(-1.0),
        Adam::new(f64::INFINITY),
        Adam::new(Schedule::Join(vec![])),
    ];
    for adam in wrong {
        assert_eq!(adam.init(&w).expect_err("refused").kind(), Kind::Value);
    }
    let few = Adam::new(0.1);
    let mut params = net()?;
    let mut state = few.init(&params)?;
    let e = few
        .step(&mut params, &w, &mut state)
        .expect_err("other paths");
    assert_eq!(e.kind(), Kind::Structure);
    assert!(e.to_string().contains("`layer.w` has no gradient"), "{e}");
    Ok(())
}

#[test]
fn gradients_are_clipped() -> Result<()> {
    let mut grads = Layer {
        w: ops::tensor([3.0f32, 0.0])?,
        b: ops::tensor([4.0f32])?,
    };
    assert_eq!(global_norm(&grads)?.item()?.as_f64(), 5.0);
    let norm = clip_by_global_norm(&mut grads, 2.5)?;
    assert_eq!(norm.item()?.as_f64(), 5.0);
    assert_eq!(grads.w.to_vec::<f32>()?, [1.5, 0.0]);
    clip_by_value(&mut grads, -1.0, 1.0)?;
    assert_eq!(grads.b.to_vec::<f32>()?, [1.0]);
    assert!(clip_by_value(&mut grads, 1.0, -1.0).is_err());
    assert!(clip_by_global_norm(&mut grads, 0.0).is_err());
    Ok(())
}

#[test]
fn gradients_are_accumulated() -> Result<()> {
    let mut sum = Accumulate::new(2)?;
    let mut first = ops::cast(&ops::tensor([1.0f32])?, DType::F16).done()?;
    assert!(!sum.add(&mut first)?);
    let mut second = ops::cast(&ops::tensor([4.0f32])?, DType::F16).done()?;
    assert!(sum.add(&mut second)?);
    assert_eq!(second.to_vec::<f32>()?, [2.5]);
    assert!(Accumulate::new(0).is_err());
    Ok(())
}

#[test]
fn loss_scaling_prevents_half_precision_underflow() -> Result<()> {
    let scale = LossScale {
        scale: 1024.0,
        every: 1,
        ..LossScale::default()
    };
    let mut grads = ops::cast(&ops::tensor([512.0f32])?, DType::F16).done()?;
    assert!(scale.unscale(&mut grads)?);
    assert_eq!(grads.to_vec::<f32>()?, [0.5]);
    let mut bad = ops::tensor([f32::INFINITY])?;
    assert!(!scale.unscale(&mut bad)?);
    assert_eq!(scale.next(false).scale, 512.0);
    assert_eq!(scale.next(true).scale, 2048.0);
    Ok(())
}
