//! Execution plans: a graph as steps over slots, with liveness, in-place updates and escape analysis.

use crate::batched_chain::BatchedChain;
use crate::describe::is_view;
use crate::fusion::{FusionGroup, fuse};
use crate::iteration_domain::value;
use crate::program::{self, Program};
use crate::rematerialize;
use crate::scan::PlannedScan;
use crate::skinny_gemm;
use clematis_core::backend::with;
use clematis_core::graph::{self, Arg, Graph};
use clematis_core::{DType, Executable, Op, Result, Spec, Support, Tensor};
use clematis_native::{backend, memory};
use clematis_passes::{Options, optimize, optimize_loops};

/// One step of a plan.
pub(crate) enum Step {
    /// An op, run by the engine's own kernel.
    Op(Node),
    /// A fusion group, run tile by tile.
    Fused(Program),
    /// A loop over the leading axis.
    Scan(Box<PlannedScan>, Vec<Arg>, Vec<usize>),
    /// A chain of ops, run one matrix of a batch at a time.
    BatchedChain(Box<BatchedChain>, Vec<Arg>, Vec<usize>),
}

/// An op with its operands.
pub(crate) struct Node {
    pub op: Op,
    pub args: Vec<Arg>,
    pub outs: Vec<usize>,
    pub specs: Vec<Spec>,
    /// Whether this is a skinny GEMM whose right operand is packed in advance.
    pub packed: bool,
}

/// A planned graph.
pub struct Plan {
    pub(crate) steps: Vec<(Step, Vec<usize>)>,
    /// The index of the first step of the tail: fused programs that run together, cannot fail, and may overwrite
    /// donated inputs.
    pub(crate) tail: usize,
    pub(crate) values: Vec<Spec>,
    /// The input index of each value that is an input.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) input_specs: Vec<Spec>,
    /// Values of the last inputs: constants that were captured when composites were expanded.
    pub(crate) captured: Vec<Tensor>,
    pub(crate) outputs: Vec<Arg>,
    /// Peak bytes held by results.
    pub(crate) peak_bytes: usize,
    pub(crate) report: String,
    /// Values whose memory may outlive a run.
    pub(crate) escapes: Vec<bool>,
}

/// Compiles a graph for the CPU engine; `None` if it has symbolic dimensions.
pub fn compile(graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return None;
    }
    Some(Plan::new(graph).map(|plan| Box::new(plan) as Box<dyn Executable>))
}

impl Plan {
    /// Plans a graph with static shapes.
    pub fn new(graph: &Graph) -> Result<Plan> {
        let (graph, captured) = prepare(graph)?;
        Plan::from_prepared(&graph, captured)
    }

    /// Plans a prepared graph; `captured` holds the values of its last inputs.
    pub(crate) fn from_prepared(graph: &Graph, captured: Vec<Tensor>) -> Result<Plan> {
        let groups = fuse(graph);
        let mut inputs = vec![None; graph.values.len()];
        for (i, input) in graph.inputs.iter().enumerate() {
            inputs[input.value.0 as usize] = Some(i);
        }
        let is_output = |v: usize| graph.outputs.iter().any(|o| value(&o.arg) == Some(v));
        let mut last_use = vec![None; graph.values.len()];
        for (u, group) in groups.iter().enumerate() {
            for n in group.all() {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    last_use[v] = Some(u);
                }
            }
        }
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        for (u, group) in groups.iter().enumerate() {
            for n in group.all() {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    users[v].push(u);
                }
            }
        }
        let mut steps = Vec::with_capacity(groups.len());
        for (u, group) in groups.iter().enumerate() {
            let needed = |v: usize| is_output(v) || users[v].iter().any(|&x| x != u);
            let dies = |v: usize| last_use[v] == Some(u) && !is_output(v);
            let step = plan_group(graph, group, &needed, &dies, &inputs)?;
            let mut dead: Vec<usize> = group
                .all()
                .flat_map(|n| graph.nodes[n].args.iter().filter_map(value))
                .filter(|&v| inputs[v].is_none() && dies(v))
                .collect();
            dead.sort_unstable();
            dead.dedup();
            steps.push((step, dead));
        }
        let is_fused = |(step, _): &(Step, Vec<usize>)| matches!(step, Step::Fused(_));
        let tail_len = steps.iter().rev().take_while(|s| is_fused(s)).count();
        let mut plan = Plan {
            tail: steps.len() - tail_len,
            steps,
            values: graph.values.clone(),
            inputs,
            input_specs: graph.input_specs(),
            captured,
            outputs: graph.outputs.iter().map(|o| o.arg.clone()).collect(),
            peak_bytes: 0,
            report: String::new(),
            escapes: Vec::new(),
        };
        // The tail runs in parallel, so none of its programs may need another's result.
        plan.tail = plan.independent_tail();
        plan.keep_shared_inputs();
        plan.escapes = plan.escape_analysis();
        plan.peak_bytes = plan.peak_bytes();
        plan.report = plan.describe_steps();
        Ok(plan)
    }

    /// Lets skinny GEMMs take a packed right operand, if that is one of the first `fixed` inputs and nothing else reads
    /// it. Returns those inputs with their contracted axes.
    pub(crate) fn pack(&mut self, fixed: usize) -> Vec<(usize, usize)> {
        let mut packed: Vec<(usize, usize)> = Vec::new();
        for input in 0..fixed {
            let is_input = |v: usize| self.inputs[v] == Some(input);
            let reads = |arg: &Arg| value(arg).is_some_and(is_input);
            let mut axis = None;
            let fits = self.steps.iter().all(|(step, _)| match step {
                Step::Op(node) => match (&node.op, &node.args[..]) {
                    (Op::Dot(p), [x, y]) if !reads(x) && reads(y) => {
                        let specs = [x, y].map(|a| match a {
                            Arg::Value(id) => &self.values[id.0 as usize],
                            Arg::Const(t) => t.spec(),
                        });
                        let sum = p.rhs_contract.first().copied();
                        let same_spec = axis.is_none() || axis == sum;
                        axis = sum;
                        same_spec && skinny_gemm::is_skinny(p, specs[0], specs[1])
                    }
                    (_, args) => !args.iter().any(reads),
                },
                Step::Fused(p) => !p.sources.iter().any(|s| reads(&s.arg)),
                Step::Scan(_, args, _) | Step::BatchedChain(_, args, _) => !args.iter().any(reads),
            });
            let is_output = self.outputs.iter().any(reads);
            if let (true, false, Some(axis)) = (fits, is_output, axis) {
                packed.push((input, axis));
            }
        }
        for (step, _) in &mut self.steps {
            if let Step::Op(node) = step
                && let (Op::Dot(_), Some(v)) = (&node.op, node.args.get(1).and_then(value))
            {
                node.packed = packed.iter().any(|&(i, _)| self.inputs[v] == Some(i));
            }
        }
        packed
    }

    /// Escape analysis: outputs, the storage they view, and the sources whose memory they reuse.
    fn escape_analysis(&self) -> Vec<bool> {
        let mut escapes = vec![false; self.values.len()];
        let outputs = self.outputs.iter().filter_map(value);
        outputs.for_each(|v| escapes[v] = true);
        for (step, _) in self.steps.iter().rev() {
            match step {
                Step::Op(node) if is_view(&node.op) && node.outs.iter().any(|&v| escapes[v]) => {
                    let viewed = node.args.first().and_then(value);
                    viewed.into_iter().for_each(|v| escapes[v] = true);
                }
                Step::Fused(program) => {
                    for target in &program.targets {
                        let reused = target.reuses.and_then(|at| value(&program.sources[at].arg));
                        if let (true, Some(v)) = (escapes[target.id], reused) {
                            escapes[v] = true;
                        }
                    }
                }
                Step::Op(_) | Step::Scan(..) | Step::BatchedChain(..) => {}
            }
        }
        escapes
    }

    fn independent_tail(&self) -> usize {
        let mut made: Vec<usize> = Vec::new();
        let mut tail = self.tail;
        for (at, (step, _)) in self.steps.iter().enumerate().skip(self.tail) {
            if let Step::Fused(program) = step {
                let mut reads = program.sources.iter().filter_map(|s| value(&s.arg));
                if reads.any(|v| made.contains(&v)) {
                    made.clear();
                    tail = at;
                }
                made.extend(program.targets.iter().map(|t| t.id));
                made.extend(program.column_sums.iter().map(|d| d.id));
            }
        }
        tail
    }

    /// An input that two programs of the tail read is not overwritten: they run at the same time.
    fn keep_shared_inputs(&mut self) {
        let mut reads: Vec<usize> = Vec::new();
        for (step, _) in &self.steps[self.tail..] {
            if let Step::Fused(program) = step {
                reads.extend(program.sources.iter().filter_map(|s| value(&s.arg)));
            }
        }
        for (step, _) in &mut self.steps[self.tail..] {
            if let Step::Fused(program) = step {
                let sources = &program.sources;
                let shared = |at: usize| {
                    value(&sources[at].arg)
                        .is_some_and(|v| reads.iter().filter(|r| **r == v).count() > 1)
                };
                for target in &mut program.targets {
                    target.reuses = target.reuses.filter(|&at| !shared(at));
                }
            }
        }
    }
}

/// Prepares a graph for planning: expands composites without a kernel, then runs the optimization passes.
pub(crate) fn prepare(graph: &Graph) -> Result<(Graph, Vec<Tensor>)> {
    let expands = |node: &graph::Node| {
        let is_call = matches!(node.op, Op::Call(_));
        Ok(is_call && backend().support(&node.op) == Support::Expands)
    };
    let (mut graph, mut captured) = (graph.clone(), Vec::new());
    // An expanded composite may contain another composite.
    while graph.nodes.iter().any(|n| expands(n).is_ok_and(|o| o)) {
        let (opened, found) = with(backend(), || graph.inlined(expands))?;
        graph = opened;
        captured.extend(found);
    }
    let graph = optimize_loops(&optimize(&graph, Options::default())?)?;
    Ok((rematerialize::run(&graph)?, captured))
}

/// A single binary op on data larger than the last-level cache: the engine's kernel uses streaming stores, a tile would
/// not.
fn streaming_op(
    graph: &Graph,
    group: &FusionGroup,
    dies: &dyn Fn(usize) -> bool,
    inputs: &[Option<usize>],
) -> Option<Node> {
    let ([n], []) = (&group.nodes[..], &group.column_sums[..]) else {
        return None;
    };
    let node = &graph.nodes[*n];
    let spec = &graph.values[node.outs.start as usize];
    let same_spec = |arg: &Arg| graph.arg_spec(arg) == spec;
    // Memory that can be overwritten is already in cache: a value at its last use, or an input that the result updates.
    let updated = |i: usize| graph.outputs.iter().any(|o| o.updates == Some(i));
    let stays_live = |arg: &Arg| {
        value(arg).is_some_and(|v| match inputs[v] {
            Some(input) => !updated(input),
            None => !dies(v),
        })
    };
    let fits = matches!(node.op, Op::Binary(_))
        && spec.dtype == DType::F32
        && 3 * spec.bytes() > memory::last_level_cache()
        && node
            .args
            .iter()
            .all(|arg| same_spec(arg) && stays_live(arg));
    fits.then(|| single_op(graph, node))
}

/// A node as a step of its own.
fn single_op(graph: &Graph, node: &graph::Node) -> Node {
    let outs: Vec<usize> = node.outs.clone().map(|v| v as usize).collect();
    Node {
        op: node.op.clone(),
        args: node.args.to_vec(),
        specs: outs.iter().map(|&v| graph.values[v].clone()).collect(),
        outs,
        packed: false,
    }
}

fn plan_group(
    graph: &Graph,
    group: &FusionGroup,
    needed: &dyn Fn(usize) -> bool,
    dies: &dyn Fn(usize) -> bool,
    inputs: &[Option<usize>],
) -> Result<Step> {
    if let Some(lead) = &group.lead {
        let (batched_chain, args, outs) = BatchedChain::new(graph, group, lead, needed)?;
        return Ok(Step::BatchedChain(Box::new(batched_chain), args, outs));
    }
    if let ([n], None) = (&group.nodes[..], &group.domain) {
        let node = single_op(graph, &graph.nodes[*n]);
        if let Op::Scan(scan) = &node.op {
            let made = PlannedScan::new(scan)?;
            return Ok(Step::Scan(Box::new(made), node.args, node.outs));
        }
        return Ok(Step::Op(node));
    }
    if let Some(node) = streaming_op(graph, group, dies, inputs) {
        return Ok(Step::Op(node));
    }
    let mut program = program::lower(graph, group, needed)?;
    // A target reuses the memory of a source of the same shape and dtype that dies here; each source at most once.
    let mut taken: Vec<usize> = Vec::new();
    let sources: Vec<Option<usize>> = program.sources.iter().map(|s| value(&s.arg)).collect();
    let shapes: Vec<_> = program.sources.iter().map(|s| s.shape.clone()).collect();
    for target in &mut program.targets {
        let fits = |(at, v): &(usize, &Option<usize>)| match v {
            Some(v) => {
                let once = sources.iter().filter(|o| **o == Some(*v)).count() == 1;
                let free = once && !taken.contains(at) && dies(*v);
                // A broadcast source is read at other positions than it would be written.
                free && graph.values[*v] == target.spec && shapes[*at] == target.spec.shape
            }
            None => false,
        };
        // Prefer donated inputs: the caller expects the new value in their memory.
        let mut found: Vec<usize> = sources
            .iter()
            .enumerate()
            .filter(fits)
            .map(|x| x.0)
            .collect();
        found.sort_by_key(|&at| sources[at].is_none_or(|v| inputs[v].is_none()));
        if let Some(&at) = found.first() {
            target.reuses = Some(at);
            taken.push(at);
        }
    }
    Ok(Step::Fused(program))
}
