//! Training steps on candle, in turns with the other runners of `bench/train.py`.
//!
//! `candle-train WORKLOAD` steps for so many seconds at each line that comes in and answers with the times.
//! `RAYON_NUM_THREADS` is the number of threads.

mod model;

use candle_core::{Device, Result, Tensor, bail};
use candle_nn::{AdamW, Optimizer, ParamsAdamW, VarMap, loss};
use model::Model;
use std::time::{Duration, Instant};

struct Training {
    model: Model,
    vars: VarMap,
    adam: AdamW,
    x: Tensor,
    y: Tensor,
}

impl Training {
    fn new(workload: &str) -> Result<Self> {
        let vars = VarMap::new();
        let (model, shape) = model::build(workload, &vars)?;
        let adam = ParamsAdamW {
            lr: 1e-3,
            weight_decay: 0.0, // without it AdamW is Adam
            ..ParamsAdamW::default()
        };
        let classes = (0..shape[0] as u32).map(|row| row % 10);
        Ok(Self {
            model,
            adam: AdamW::new(vars.all_vars(), adam)?,
            vars,
            x: Tensor::randn(0f32, 1.0, shape, &Device::Cpu)?,
            y: Tensor::from_iter(classes, &Device::Cpu)?,
        })
    }

    fn loss(&self) -> Result<Tensor> {
        loss::cross_entropy(&(self.model)(&self.x)?, &self.y)
    }

    fn step(&mut self) -> Result<f32> {
        let loss = self.loss()?;
        self.adam.backward_step(&loss)?;
        loss.to_scalar()
    }

    /// Ops without a derivative stop the backward pass silently: the steps would be fast and learn nothing.
    fn check_gradients(&self) -> Result<()> {
        let grads = self.loss()?.backward()?;
        if self.vars.all_vars().iter().any(|v| grads.get(v).is_none()) {
            bail!("a parameter has no gradient");
        }
        Ok(())
    }
}

/// Seconds of processor time so far, all threads together.
fn processor() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let rest = text.rsplit(')').next().unwrap_or_default();
    let ticks = rest.split_whitespace().skip(11).take(2);
    ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
}

fn peak_memory() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

fn main() -> Result<()> {
    let workload = std::env::args().nth(1).unwrap_or_default();
    let mut training = Training::new(&workload)?;
    training.check_gradients()?;
    for _ in 0..3 {
        training.step()?;
    }
    for line in std::io::stdin().lines() {
        let line = line?;
        let Ok(seconds) = line.trim().parse() else {
            bail!("`{line}` is no number of seconds");
        };
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let (mut times, mut loss) = (Vec::new(), 0.0);
        let busy = processor();
        while Instant::now() < until || times.is_empty() {
            let start = Instant::now();
            loss = training.step()?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let busy = (processor() - busy) * 1e3;
        let mib = peak_memory();
        println!(
            "{{\"times\": {times:?}, \"busy\": {busy:.1}, \"mib\": {mib:.1}, \"loss\": {loss}}}"
        );
    }
    Ok(())
}
