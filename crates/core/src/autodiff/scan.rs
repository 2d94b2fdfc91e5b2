//! Derivatives of `scan`.
//!
//! Reverse mode splits the differentiated body in two, as partial evaluation does: the forward scan also returns the
//! residuals, the values that the backward pass reads, stacked over the steps; the backward scan runs in reverse and
//! reads them. So no step runs twice. What costs nothing (views, broadcasts) or does not change from step to step is
//! computed again in the backward scan instead of being stored.

use super::control::{body, dense, floats, record, specs, zeros_where_missing};
use super::sweep::{Mode, active};
use crate::dispatch::apply;
use crate::error::Result;
use crate::graph::{Arg, Body, Graph, Role, ValueId};
use crate::op::{Op, Scan};
use crate::ops;
use crate::spec::Spec;
use crate::tensor::Tensor;
use crate::trace::{Pullback, Trace};
use crate::{bail, ensure};
use std::sync::Arc;

struct ScanParts<'a> {
    p: &'a Scan,
    consts: &'a [&'a Tensor],
    carries: &'a [&'a Tensor],
    sequences: &'a [&'a Tensor],
}

fn scan_parts<'a>(op: &'a Op, xs: &'a [&'a Tensor]) -> Result<ScanParts<'a>> {
    let Op::Scan(p) = op else {
        bail!(Internal, "{}: not a scan", op.name())
    };
    let fixed = p.consts + p.carries;
    Ok(ScanParts {
        p,
        consts: &xs[..p.consts],
        carries: &xs[p.consts..fixed],
        sequences: &xs[fixed..],
    })
}

fn step_spec(x: &Tensor) -> Spec {
    x.spec().with_shape(x.shape().without(&[0]))
}

/// Runs values and tangents through the loop side by side.
pub fn scan_jvp(
    op: &Op,
    xs: &[&Tensor],
    ys: &[&Tensor],
    dxs: &[Option<Tensor>],
) -> Result<Vec<Option<Tensor>>> {
    let s = scan_parts(op, xs)?;
    let fixed = s.p.consts + s.p.carries;
    let moving_consts: Vec<usize> = (0..s.consts.len()).filter(|&i| dxs[i].is_some()).collect();
    let moving = floats(s.carries);
    let moving_rows: Vec<usize> = (0..s.sequences.len())
        .filter(|&i| dxs[fixed + i].is_some())
        .collect();
    let const_tangents = dense(&dxs[..s.p.consts], s.consts, &moving_consts)?;
    let carry_tangents = dense(&dxs[s.p.consts..fixed], s.carries, &moving)?;
    let row_tangents = dense(&dxs[fixed..], s.sequences, &moving_rows)?;

    let mut given: Vec<&Tensor> = s.consts.to_vec();
    given.extend(&const_tangents);
    let consts = given.len();
    given.extend(s.carries);
    given.extend(&carry_tangents);
    let carries = given.len() - consts;
    let mut shapes = specs(&given);
    given.extend(s.sequences);
    given.extend(&row_tangents);
    shapes.extend(given[consts + carries..].iter().map(|x| step_spec(x)));

    let out_rows: Vec<usize> = floats(&ys[s.p.carries..]);
    let derived = body(&shapes, |inputs| {
        let (c, rest) = inputs.split_at(s.consts.len());
        let (dc, rest) = rest.split_at(const_tangents.len());
        let (h, rest) = rest.split_at(s.carries.len());
        let (dh, rest) = rest.split_at(carry_tangents.len());
        let (x, dx) = rest.split_at(s.sequences.len());
        let values: Vec<Tensor> = c.iter().chain(h).chain(x).cloned().collect();
        let places: Vec<usize> = moving_consts
            .iter()
            .copied()
            .chain(moving.iter().map(|i| i + s.p.consts))
            .chain(moving_rows.iter().map(|i| i + fixed))
            .collect();
        let recorded = record(Mode::Forward, &s.p.body, &values, &places)?;
        let tangents = dc.iter().chain(dh).chain(dx).cloned().map(Some).collect();
        let pushed = zeros_where_missing(recorded.forward(tangents)?, recorded.outputs())?;
        let mut out = recorded.outputs()[..s.p.carries].to_vec();
        out.extend(moving.iter().map(|&i| pushed[i].clone()));
        out.extend(out_rows.iter().map(|&i| pushed[s.p.carries + i].clone()));
        Ok(out)
    })?;
    let next = Scan {
        body: derived,
        consts,
        carries,
        length: s.p.length,
        reverse: s.p.reverse,
    };
    let all = apply(&next.into(), &given)?.into_vec();
    let mut out = vec![None; ys.len()];
    for (&i, t) in moving.iter().zip(&all[s.carries.len()..]) {
        out[i] = Some(t.clone());
    }
    for (&i, t) in out_rows.iter().zip(&all[carries..]) {
        out[s.p.carries + i] = Some(t.clone());
    }
    Ok(out)
}

/// Where the backward scan finds a residual.
enum Residual {
    /// An operand of the scan, by its index among the sequences.
    Sequence(usize),
    /// A result of the forward scan.
    Result(usize),
}

/// The backward pass of one scan.
struct ScanPullback {
    /// The forward scan, with residuals as its last results.
    forward: Op,
    /// The number of results without residuals.
    results: usize,
    backward: Op,
    residuals: Vec<Residual>,
    consts: usize,
    carries: usize,
    /// The constants and sequences that get a cotangent; of the carries, all floats do.
    wanted_consts: Vec<usize>,
    wanted_carries: Vec<usize>,
    wanted_sequences: Vec<usize>,
    /// The stacked outputs that have a cotangent.
    ct_rows: Vec<usize>,
}

/// Prepares the backward pass of a scan that is being recorded.
pub fn prepare(
    trace: &Trace,
    op: &Op,
    args: &[Arg],
    xs: &[&Tensor],
) -> Result<Option<Arc<dyn Pullback>>> {
    if !matches!(op, Op::Scan(_)) {
        return Ok(None);
    }
    let active = active(&trace.recording().graph);
    let wanted: Vec<bool> = args
        .iter()
        .map(|arg| matches!(arg, Arg::Value(id) if active[id.0 as usize]))
        .collect();
    if !wanted.contains(&true) {
        return Ok(None);
    }
    let pullback = ScanPullback::new(op, xs, &wanted)?;
    Ok(Some(Arc::new(pullback)))
}

/// The VJP where no residuals were recorded: runs the forward scan again.
pub fn scan_vjp(
    op: &Op,
    xs: &[&Tensor],
    _: &[&Tensor],
    cts: &[Option<Tensor>],
    wanted: &[bool],
) -> Result<Vec<Option<Tensor>>> {
    let pullback = ScanPullback::new(op, xs, wanted)?;
    let ys = apply(&pullback.forward, xs)?.into_vec();
    pullback.pull(xs, &ys.iter().collect::<Vec<_>>(), cts)
}

/// The differentiated body of a scan: one step forward and one step back.
struct Joint {
    graph: Graph,
    /// The number of nodes of the step forward; those of the step back follow.
    forward_nodes: usize,
    /// The number of outputs of the step forward; cotangents follow.
    forward_outputs: usize,
}

impl ScanPullback {
    fn new(op: &Op, xs: &[&Tensor], wanted: &[bool]) -> Result<Self> {
        let s = scan_parts(op, xs)?;
        let fixed = s.p.consts + s.p.carries;
        let rows = s.p.body.output_specs().split_off(s.p.carries);
        let mut pullback = ScanPullback {
            forward: op.clone(),
            results: s.p.carries + rows.len(),
            backward: op.clone(),
            residuals: Vec::new(),
            consts: s.p.consts,
            carries: s.p.carries,
            wanted_consts: (0..s.p.consts).filter(|&i| wanted[i]).collect(),
            wanted_carries: floats(s.carries),
            wanted_sequences: (0..s.sequences.len())
                .filter(|&i| wanted[fixed + i])
                .collect(),
            ct_rows: (0..rows.len())
                .filter(|&i| rows[i].dtype.is_inexact())
                .collect(),
        };
        let joint = pullback.joint(&s, &rows)?;
        pullback.split(&s, joint)?;
        Ok(pullback)
    }

    /// Differentiates one step. Inputs: constants, sums of their cotangents, cotangents of the carries; the carries and
    /// elements of the sequences; cotangents of the stacked outputs.
    fn joint(&self, s: &ScanParts, rows: &[Spec]) -> Result<Joint> {
        let fixed = self.consts + self.carries;
        let mut given = specs(s.consts);
        given.extend(
            self.wanted_consts
                .iter()
                .map(|&i| s.consts[i].spec().clone()),
        );
        given.extend(
            self.wanted_carries
                .iter()
                .map(|&i| s.carries[i].spec().clone()),
        );
        given.extend(specs(s.carries));
        given.extend(s.sequences.iter().map(|x| step_spec(x)));
        given.extend(self.ct_rows.iter().map(|&i| rows[i].clone()));
        let open = Trace::open(false);
        let trace = open.trace.clone();
        let inputs: Vec<Tensor> = given
            .into_iter()
            .map(|spec| trace.input(spec, Role::Input, ""))
            .collect();
        let (c, rest) = inputs.split_at(s.consts.len());
        let (sums, rest) = rest.split_at(self.wanted_consts.len());
        let (ct_h, rest) = rest.split_at(self.wanted_carries.len());
        let (h, rest) = rest.split_at(s.carries.len());
        let (x, ct_y) = rest.split_at(s.sequences.len());
        let values: Vec<Tensor> = c.iter().chain(h).chain(x).cloned().collect();
        let places: Vec<usize> = self
            .wanted_consts
            .iter()
            .copied()
            .chain(self.wanted_carries.iter().map(|i| i + self.consts))
            .chain(self.wanted_sequences.iter().map(|i| i + fixed))
            .collect();
        let recorded = record(Mode::Reverse, &s.p.body, &values, &places)?;
        let forward_nodes = trace.recording().graph.nodes.len();
        let mut outputs = recorded.outputs().to_vec();
        let forward_outputs = outputs.len();
        let mut cts = vec![None; forward_outputs];
        for (&i, ct) in self.wanted_carries.iter().zip(ct_h) {
            cts[i] = Some(ct.clone());
        }
        for (&i, ct) in self.ct_rows.iter().zip(ct_y) {
            cts[self.carries + i] = Some(ct.clone());
        }
        let back = zeros_where_missing(recorded.backward(cts)?, recorded.inputs())?;
        let mut back = back.into_iter();
        for (sum, part) in sums.iter().zip(&mut back) {
            outputs.push((sum + &part).done()?);
        }
        outputs.extend(back);
        let closed = Trace::close(open, &outputs);
        ensure!(
            closed.captured.is_empty(),
            Internal,
            "scan: expected a derivative without captured tensors, got {}",
            closed.captured.len()
        );
        Ok(Joint {
            graph: closed.graph,
            forward_nodes,
            forward_outputs,
        })
    }

    /// Splits the differentiated step into the bodies of the forward and the backward scan.
    fn split(&mut self, s: &ScanParts, joint: Joint) -> Result<()> {
        let graph = &joint.graph;
        let ids: Vec<ValueId> = graph.inputs.iter().map(|input| input.value).collect();
        let (consts, rest) = ids.split_at(self.consts);
        let (cts, rest) = rest.split_at(self.wanted_consts.len() + self.wanted_carries.len());
        let (carries, rest) = rest.split_at(self.carries);
        let (sequences, ct_rows) = rest.split_at(s.sequences.len());
        let steps: Vec<ValueId> = carries.iter().chain(sequences).copied().collect();
        let outputs: Vec<Arg> = graph.outputs.iter().map(|o| o.arg.clone()).collect();
        let (forward_outputs, back) = outputs.split_at(joint.forward_outputs);

        let mut forward_outputs = forward_outputs.to_vec();
        let mut residual_ids = Vec::new();
        for id in residuals(&joint, &steps, back) {
            let arg = Arg::Value(id);
            let is_output = |o: &Arg| matches!(o, Arg::Value(v) if *v == id);
            let row = forward_outputs[self.carries..].iter().position(is_output);
            let sequence = sequences.iter().position(|x| *x == id);
            self.residuals.push(match (sequence, row) {
                (Some(i), _) => Residual::Sequence(i),
                (None, Some(row)) => Residual::Result(self.carries + row),
                (None, None) => {
                    forward_outputs.push(arg);
                    Residual::Result(forward_outputs.len() - 1)
                }
            });
            residual_ids.push(id);
        }
        if forward_outputs.len() > self.results {
            let inputs: Vec<ValueId> = consts.iter().chain(&steps).copied().collect();
            self.forward = Scan {
                body: Body::new(graph.extract(&inputs, &forward_outputs)?),
                ..s.p.clone()
            }
            .into();
        }
        let inputs: Vec<ValueId> = [consts, cts, &residual_ids, ct_rows].concat();
        self.backward = Scan {
            body: Body::new(graph.extract(&inputs, back)?),
            consts: self.consts,
            carries: cts.len(),
            length: s.p.length,
            reverse: !s.p.reverse,
        }
        .into();
        Ok(())
    }
}

/// Ops whose results are cheaper to compute again than to store.
fn is_free(op: &Op) -> bool {
    matches!(
        op,
        Op::Reshape(_) | Op::Transpose(_) | Op::Broadcast(_) | Op::Full(_) | Op::Iota(_)
    )
}

/// The values that the step back reads and cannot compute from constants: inputs of the step, and values of the step
/// forward.
fn residuals(joint: &Joint, steps: &[ValueId], back: &[Arg]) -> Vec<ValueId> {
    let graph = &joint.graph;
    let mut producer: Vec<Option<usize>> = vec![None; graph.values.len()];
    let mut varies = vec![false; graph.values.len()];
    let mut is_step_input = vec![false; graph.values.len()];
    for id in steps {
        (varies[id.0 as usize], is_step_input[id.0 as usize]) = (true, true);
    }
    for (n, node) in graph.nodes.iter().enumerate() {
        let any = node
            .args
            .iter()
            .any(|arg| matches!(arg, Arg::Value(id) if varies[id.0 as usize]));
        for v in node.outs.clone() {
            (producer[v as usize], varies[v as usize]) = (Some(n), any);
        }
    }
    let mut found = Vec::new();
    let mut seen = vec![false; graph.values.len()];
    let mut pending: Vec<&Arg> = back.iter().rev().collect();
    while let Some(arg) = pending.pop() {
        let Arg::Value(id) = arg else { continue };
        let v = id.0 as usize;
        if std::mem::replace(&mut seen[v], true) {
            continue;
        }
        match producer[v] {
            Some(n) => {
                let node = &graph.nodes[n];
                if n >= joint.forward_nodes || !varies[v] || is_free(&node.op) {
                    pending.extend(node.args.iter().rev());
                } else {
                    found.push(*id);
                }
            }
            None if is_step_input[v] => found.push(*id),
            None => {}
        }
    }
    found
}

impl Pullback for ScanPullback {
    fn forward(&self) -> &Op {
        &self.forward
    }

    fn results(&self) -> usize {
        self.results
    }

    fn pull(
        &self,
        xs: &[&Tensor],
        ys: &[&Tensor],
        cts: &[Option<Tensor>],
    ) -> Result<Vec<Option<Tensor>>> {
        let (n, fixed) = (self.carries, self.consts + self.carries);
        let sums = self.wanted_consts.iter();
        let sums = sums.map(|&i| ops::zeros_like(xs[i]).done());
        let sums = sums.collect::<Result<Vec<_>>>()?;
        let ct_carries = dense(&cts[..n], &ys[..n], &self.wanted_carries)?;
        let results = n..self.results;
        let ct_rows = dense(&cts[results.clone()], &ys[results], &self.ct_rows)?;
        let residuals = self.residuals.iter().map(|residual| match residual {
            Residual::Sequence(i) => xs[fixed + i],
            Residual::Result(i) => ys[*i],
        });
        let mut given: Vec<&Tensor> = xs[..self.consts].to_vec();
        given.extend(sums.iter().chain(&ct_carries));
        given.extend(residuals);
        given.extend(&ct_rows);
        let parts = apply(&self.backward, &given)?.into_vec();
        let places = self
            .wanted_consts
            .iter()
            .copied()
            .chain(self.wanted_carries.iter().map(|i| i + self.consts))
            .chain(self.wanted_sequences.iter().map(|i| i + fixed));
        let mut out = vec![None; xs.len()];
        for (i, part) in places.zip(parts) {
            out[i] = Some(part);
        }
        Ok(out)
    }
}
