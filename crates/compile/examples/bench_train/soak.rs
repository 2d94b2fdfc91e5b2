//! Training for a long time in little memory: neither the engine's own count nor the process may grow beyond what workspaces take.

use super::train::{inputs, numbers, record, step};
use super::workload::workload;
use clematis_core::{Result, bail};
use std::time::{Duration, Instant};

/// What tensors may take together.
const LIMIT: usize = 2 << 30;
/// How much more than after the first round the process may hold: pages that the allocator keeps come and go.
const SLACK: f64 = 32.0;
/// How many bytes of tensors more than then: workspaces stay with threads, and which thread meets which kernel depends on time.
const WORKSPACES: usize = 4 << 20;
/// Steps of each model before the next one has its turn.
const TURN: usize = 20;
/// Between two lines of the report.
const REPORT: Duration = Duration::from_secs(30);

/// MiB of this process that are in memory now.
pub fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|l| l.strip_prefix("VmRSS:"));
    let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Trains the models in turns for so long; an error if memory grows or a loss is no number.
pub fn run(names: &[&str], time: Duration) -> Result<()> {
    clematis_native::set_memory_limit(LIMIT);
    let mut models = Vec::new();
    for name in names {
        let w = workload(name)?;
        let mut state = inputs(&w)?;
        state[3 * w.params.len()] = numbers(1)?;
        models.push((*name, record(&w)?, state));
    }
    let start = Instant::now();
    let (mut count, mut told, mut first) = (0u64, start, None);
    while start.elapsed() < time || first.is_none() {
        for (name, program, state) in &mut models {
            for _ in 0..TURN {
                count += 1;
                let loss = step(program, state, count)?;
                if !loss.is_finite() {
                    bail!(Internal, "{name}: the loss of step {count} is {loss}");
                }
            }
        }
        let (now, used) = (resident(), clematis_native::memory_used());
        // The second round has met all that the first one left behind.
        let round = count as usize / (TURN * models.len());
        if round == 2 {
            first = Some((now, used));
        }
        if let Some((then, before)) = first
            && (now > then + SLACK || used > before + WORKSPACES)
        {
            bail!(
                Internal,
                "memory grows: {then:.0} MiB and {before} bytes of tensors after two rounds, {now:.0} MiB and {used} bytes after {count} steps"
            );
        }
        if told.elapsed() >= REPORT {
            told = Instant::now();
            let seconds = start.elapsed().as_secs();
            println!("{seconds:6} s  {count:8} steps  {now:6.0} MiB  {used:12} bytes of tensors");
        }
    }
    let (then, before) = first.unwrap_or_default();
    println!(
        "flat: {count} steps in {:.0} s, {then:.0} MiB after two rounds, {:.0} MiB now, {before} and {} bytes of tensors, limit {LIMIT}",
        start.elapsed().as_secs_f64(),
        resident(),
        clematis_native::memory_used()
    );
    Ok(())
}
