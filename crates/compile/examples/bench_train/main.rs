//! Training steps on the engine, compiled as one program: `cargo xtask bench train`.
//!
//! Prints milliseconds, the bound by floating-point operations and the most memory; `--describe` prints the plan,
//! `--graph` the program, `--interpreted` runs it op by op, `--check` compares both, `--serve` takes turns
//! with the peers of `bench/train.py`. `--soak=SECONDS` trains all of them under a memory limit: `cargo xtask soak`.

mod soak;
mod train;
mod workload;

use clematis_core::jit::Program;
use clematis_core::{Result, Tensor};
use clematis_passes::{Options, optimize};
use std::time::{Duration, Instant};
use train::{inputs, numbers, record, step};
use workload::{NAMES, Workload, workload};

#[global_allocator]
static MEMORY: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Floating-point operations that two cores of the reference machine reach, by measurement.
const PEAK: f64 = 227e9;

fn interpreted(program: &Program, state: &[Tensor]) -> Result<Vec<Tensor>> {
    let graph = optimize(program.graph(), Options::default())?;
    graph.call(&state.iter().collect::<Vec<_>>())
}

/// The greatest difference to the interpreter, over the sizes of the values.
fn check(w: &Workload, program: &Program) -> Result<f64> {
    let given = inputs(w)?;
    let plain = interpreted(program, &given)?;
    let fast = program.run(&mut given.clone())?;
    let mut most = 0f64;
    for (a, b) in plain.iter().zip(&fast) {
        let (a, b) = (a.to_vec::<f32>()?, b.to_vec::<f32>()?);
        let scale = a.iter().fold(1e-6f32, |m, x| m.max(x.abs()));
        for (a, b) in a.iter().zip(&b) {
            let apart = f64::from((a - b).abs() / scale);
            most = if apart <= most { most } else { apart };
        }
    }
    Ok(most)
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

/// Steps for so many seconds at each line that comes in; answers with the times.
fn serve(w: &Workload, program: &Program) -> Result<()> {
    let mut state = inputs(w)?;
    let mut count = 0;
    for line in std::io::stdin().lines().map_while(std::result::Result::ok) {
        let seconds = line.trim().parse().unwrap_or(0.4);
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut times = Vec::new();
        let busy = processor();
        while Instant::now() < until || times.is_empty() {
            count += 1;
            let start = Instant::now();
            step(program, &mut state, count)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let busy = (processor() - busy) * 1e3;
        println!(
            "{{\"times\": {times:?}, \"busy\": {busy:.1}, \"mib\": {:.1}, \"bound\": {:.3}}}",
            peak_memory(),
            w.flops / PEAK * 1e3
        );
    }
    Ok(())
}

fn bench(name: &str, words: &[String]) -> Result<()> {
    let asked = |word: &str| words.iter().any(|w| w == word);
    let w = workload(name)?;
    let program = record(&w)?;
    let home = clematis_native::backend();
    if asked("--graph") {
        println!("{}", optimize(program.graph(), Options::default())?);
    }
    if asked("--describe") {
        println!("{}", program.explain(home)?.1);
    }
    if asked("--check") {
        println!(
            "{name}: differs from the interpreter by {:.1e}",
            check(&w, &program)?
        );
        return Ok(());
    }
    if asked("--serve") {
        return serve(&w, &program);
    }
    let seconds = words
        .iter()
        .find_map(|w| w.strip_prefix("--seconds=")?.parse().ok());
    let until = Instant::now() + Duration::from_secs_f64(seconds.unwrap_or(3.0));
    let mut state = inputs(&w)?;
    state.remove(3 * w.params.len());
    state.insert(3 * w.params.len(), numbers(1)?);
    let first = Instant::now();
    let mut loss = 0.0;
    if !asked("--interpreted") {
        loss = step(&program, &mut state, 1)?;
    }
    let first = first.elapsed().as_secs_f64();
    let graph = optimize(program.graph(), Options::default())?;
    let mut times = Vec::new();
    let mut count = 1;
    let busy = processor();
    while Instant::now() < until || times.len() < 3 {
        count += 1;
        let start = Instant::now();
        if asked("--interpreted") {
            let out = graph.call(&state.iter().collect::<Vec<_>>())?;
            drop(out);
        } else {
            loss = step(&program, &mut state, count)?;
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let busy = (processor() - busy) * 1e3 / times.len() as f64;
    times.sort_by(f64::total_cmp);
    let (median, least) = (times[times.len() / 2], times[0]);
    let bound = w.flops / PEAK * 1e3;
    println!(
        "{name:8} {median:8.3} ms median {least:8.3} ms least {busy:8.3} ms of processors  bound {bound:6.2}  first {first:.2} s  loss {loss:.4}  {:.0} MiB  {} runs",
        peak_memory(),
        times.len()
    );
    Ok(())
}

fn main() -> Result<()> {
    let _ = clematis_compile::Plan::new;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let chosen: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .filter(|w| !w.starts_with('-'))
        .collect();
    let names = if chosen.is_empty() {
        NAMES.to_vec()
    } else {
        chosen
    };
    let seconds = words.iter().find_map(|w| w.strip_prefix("--soak="));
    if let Some(seconds) = seconds.and_then(|text| text.parse().ok()) {
        return soak::run(&names, Duration::from_secs_f64(seconds));
    }
    for name in names {
        bench(name, &words)?;
    }
    Ok(())
}
