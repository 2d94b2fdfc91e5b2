//! A readable description of a plan: its steps, their results, and the peak memory.

use crate::plan::{Plan, Step};
use clematis_core::{Executable, Op, Spec};
use clematis_passes::value;

impl Plan {
    /// The steps, one per line.
    pub(crate) fn describe_steps(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let mut bytes = 0;
        for (at, (step, _)) in self.steps.iter().enumerate() {
            let _ = match step {
                Step::Op(node) => {
                    bytes += node.specs.iter().map(Spec::bytes).sum::<usize>();
                    let specs: Vec<String> = node.specs.iter().map(Spec::to_string).collect();
                    writeln!(text, "{at:4} {} -> {}", node.op.name(), specs.join(", "))
                }
                Step::Scan(scan, ..) => {
                    let blocks = scan.blocks.as_ref().map(|r| format!(", {}", r.describe()));
                    let blocks = blocks.unwrap_or_default();
                    writeln!(text, "{at:4} scan of {} steps{blocks}, each:", scan.length).and_then(
                        |()| {
                            let body = scan.body.describe();
                            body.lines().try_for_each(|l| writeln!(text, "     {l}"))
                        },
                    )
                }
                Step::BatchedChain(chain, _, outs) => {
                    bytes += outs.iter().map(|&v| self.values[v].bytes()).sum::<usize>();
                    let head = writeln!(
                        text,
                        "{at:4} batched chain over {} matrices, each:",
                        chain.count()
                    );
                    head.and_then(|()| {
                        let body = chain.body.describe();
                        body.lines().try_for_each(|l| writeln!(text, "     {l}"))
                    })
                }
                Step::Fused(p) => {
                    bytes += p.targets.iter().map(|t| t.spec.bytes()).sum::<usize>();
                    let column_sums = p.column_sums.iter().map(|d| &d.spec);
                    let outs = p.targets.iter().map(|t| &t.spec).chain(column_sums);
                    let outs: Vec<String> = outs.map(Spec::to_string).collect();
                    let end = if at >= self.tail { " in the tail" } else { "" };
                    writeln!(
                        text,
                        "{at:4} fused{end} over {} ({} in, {}+{} registers): {} -> {}",
                        p.domain.shape,
                        p.sources.len(),
                        p.registers[0],
                        p.registers[1],
                        p.ops.join(" "),
                        outs.join(", ")
                    )
                }
            };
        }
        let _ = writeln!(
            text,
            "{} steps, {bytes} bytes written, {} bytes at peak",
            self.steps.len(),
            self.peak_bytes
        );
        text
    }

    /// Peak bytes held by results, without inputs. A view keeps the storage of its operand alive.
    pub(crate) fn peak_bytes(&self) -> usize {
        let mut storage: Vec<Option<usize>> = vec![None; self.values.len()];
        // The number of values that refer to each storage.
        let mut refs = vec![0usize; self.values.len()];
        let (mut live, mut peak) = (0, 0);
        for (step, dead) in &self.steps {
            let mut dead_now = dead.clone();
            match step {
                Step::Op(node) => {
                    let viewed = node.args.first().and_then(value).and_then(|v| storage[v]);
                    for &v in &node.outs {
                        storage[v] = match (is_view(&node.op), viewed) {
                            (true, Some(of)) => Some(of),
                            (true, None) => None,
                            (false, _) => Some(v),
                        };
                    }
                    live += self.retain(&node.outs, &storage, &mut refs);
                }
                Step::Scan(_, _, outs) | Step::BatchedChain(_, _, outs) => {
                    outs.iter().for_each(|&v| storage[v] = Some(v));
                    live += self.retain(outs, &storage, &mut refs);
                }
                Step::Fused(p) => {
                    for target in &p.targets {
                        let over = target.reuses.and_then(|at| value(&p.sources[at].arg));
                        match over {
                            // Reuses the memory of an input, or of a value that dies here.
                            Some(v) if self.inputs[v].is_some() => {}
                            Some(v) if storage[v] == Some(v) && refs[v] == 1 => {
                                dead_now.retain(|&g| g != v);
                                storage[target.id] = storage[v];
                            }
                            _ => {
                                storage[target.id] = Some(target.id);
                                live += self.retain(&[target.id], &storage, &mut refs);
                            }
                        }
                    }
                    let column_sums: Vec<usize> = p.column_sums.iter().map(|d| d.id).collect();
                    column_sums.iter().for_each(|&v| storage[v] = Some(v));
                    live += self.retain(&column_sums, &storage, &mut refs);
                }
            }
            let scratch = match step {
                Step::BatchedChain(chain, ..) => chain.scratch_bytes(),
                _ => 0,
            };
            peak = peak.max(live + scratch);
            for of in dead_now.iter().filter_map(|&v| storage[v]) {
                refs[of] = refs[of].saturating_sub(1);
                if refs[of] == 0 {
                    live = live.saturating_sub(self.values[of].bytes());
                }
            }
        }
        peak
    }

    /// Counts references to storage; returns the bytes of newly allocated storage.
    fn retain(&self, values: &[usize], storage: &[Option<usize>], refs: &mut [usize]) -> usize {
        let mut bytes = 0;
        for of in values.iter().filter_map(|&v| storage[v]) {
            refs[of] += 1;
            if refs[of] == 1 {
                bytes += self.values[of].bytes();
            }
        }
        bytes
    }
}

/// Whether an op returns a view of its operand. A reshape may copy; it is counted as a view.
pub(crate) fn is_view(op: &Op) -> bool {
    matches!(
        op,
        Op::Reshape(_)
            | Op::Transpose(_)
            | Op::Broadcast(_)
            | Op::Slice(_)
            | Op::Reverse(_)
            | Op::StopGradient
    )
}
