//! A plan for people: its steps, what they write, and how much is held at once.

use crate::plan::{Plan, Step};
use crate::space::value;
use clematis_core::{Executable, Op, Spec};

impl Plan {
    /// The steps, one a line.
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
                    let rows = scan.rows.as_ref().map(|r| format!(", {}", r.describe()));
                    let rows = rows.unwrap_or_default();
                    writeln!(text, "{at:4} scan of {} steps{rows}, each:", scan.length).and_then(
                        |()| {
                            let body = scan.body.describe();
                            body.lines().try_for_each(|l| writeln!(text, "     {l}"))
                        },
                    )
                }
                Step::Batch(batch, _, outs) => {
                    bytes += outs.iter().map(|&v| self.values[v].bytes()).sum::<usize>();
                    let head = writeln!(
                        text,
                        "{at:4} {} matrices side by side, each:",
                        batch.count()
                    );
                    head.and_then(|()| {
                        let body = batch.body.describe();
                        body.lines().try_for_each(|l| writeln!(text, "     {l}"))
                    })
                }
                Step::Fused(p) => {
                    bytes += p.targets.iter().map(|t| t.spec.bytes()).sum::<usize>();
                    let downs = p.downs.iter().map(|d| &d.spec);
                    let outs = p.targets.iter().map(|t| &t.spec).chain(downs);
                    let outs: Vec<String> = outs.map(Spec::to_string).collect();
                    let end = if at >= self.last { " at the end" } else { "" };
                    writeln!(
                        text,
                        "{at:4} fused{end} over {} ({} in, {}+{} registers): {} -> {}",
                        p.space.shape,
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
            "{} steps, {bytes} bytes written, {} at once",
            self.steps.len(),
            self.most
        );
        text
    }

    /// The most bytes that results hold at once, what goes in aside. Views hold what they look at.
    pub(crate) fn most_at_once(&self) -> usize {
        let mut holds: Vec<Option<usize>> = vec![None; self.values.len()];
        // How many values look at each piece of memory.
        let mut looks = vec![0usize; self.values.len()];
        let (mut now, mut most) = (0, 0);
        for (step, dead) in &self.steps {
            let mut gone = dead.clone();
            match step {
                Step::Op(node) => {
                    let seen = node.args.first().and_then(value).and_then(|v| holds[v]);
                    for &v in &node.outs {
                        holds[v] = match (is_view(&node.op), seen) {
                            (true, Some(of)) => Some(of),
                            (true, None) => None,
                            (false, _) => Some(v),
                        };
                    }
                    now += self.looked_at(&node.outs, &holds, &mut looks);
                }
                Step::Scan(_, _, outs) | Step::Batch(_, _, outs) => {
                    outs.iter().for_each(|&v| holds[v] = Some(v));
                    now += self.looked_at(outs, &holds, &mut looks);
                }
                Step::Fused(p) => {
                    for target in &p.targets {
                        let over = target.over.and_then(|at| value(&p.sources[at].arg));
                        match over {
                            // An input's memory, or that of a value that dies here.
                            Some(v) if self.inputs[v].is_some() => {}
                            Some(v) if holds[v] == Some(v) && looks[v] == 1 => {
                                gone.retain(|&g| g != v);
                                holds[target.id] = holds[v];
                            }
                            _ => {
                                holds[target.id] = Some(target.id);
                                now += self.looked_at(&[target.id], &holds, &mut looks);
                            }
                        }
                    }
                    let downs: Vec<usize> = p.downs.iter().map(|d| d.id).collect();
                    downs.iter().for_each(|&v| holds[v] = Some(v));
                    now += self.looked_at(&downs, &holds, &mut looks);
                }
            }
            let beside = match step {
                Step::Batch(batch, ..) => batch.held(),
                _ => 0,
            };
            most = most.max(now + beside);
            for of in gone.iter().filter_map(|&v| holds[v]) {
                looks[of] = looks[of].saturating_sub(1);
                if looks[of] == 0 {
                    now = now.saturating_sub(self.values[of].bytes());
                }
            }
        }
        most
    }

    /// Counts who looks at what; the bytes of memory that is new.
    fn looked_at(&self, values: &[usize], holds: &[Option<usize>], looks: &mut [usize]) -> usize {
        let mut bytes = 0;
        for of in values.iter().filter_map(|&v| holds[v]) {
            looks[of] += 1;
            if looks[of] == 1 {
                bytes += self.values[of].bytes();
            }
        }
        bytes
    }
}

/// Whether an op only looks at its operand in another way. A reshape may copy; it is counted as if it did not.
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
