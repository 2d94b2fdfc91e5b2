//! A graph as steps over slots: what is run together, what is freed when, what is written over.

use crate::again;
use crate::batch::Batch;
use crate::code::{self, Program};
use crate::describe::is_view;
use crate::group::{Unit, group};
use crate::lighter;
use crate::narrow;
use crate::scan::Loop;
use crate::space::value;
use clematis_core::backend::with;
use clematis_core::graph::{self, Arg, Graph};
use clematis_core::pass::Options;
use clematis_core::{DType, Executable, Op, Result, Spec, Support, Tensor};
use clematis_native::{backend, memory};

/// What is done at once.
pub(crate) enum Step {
    /// An op by the engine's own kernel.
    Op(Node),
    /// Ops that run tile by tile.
    Fused(Program),
    /// A loop over the leading axis.
    Scan(Box<Loop>, Vec<Arg>, Vec<usize>),
    /// Steps for one matrix of a batch after the other.
    Batch(Box<Batch>, Vec<Arg>, Vec<usize>),
}

/// An op with its operands.
pub(crate) struct Node {
    pub op: Op,
    pub args: Vec<Arg>,
    pub outs: Vec<usize>,
    pub specs: Vec<Spec>,
    /// Whether it is a product with few rows whose right operand is packed before it is run.
    pub packed: bool,
}

/// A graph made ready.
pub struct Plan {
    pub(crate) steps: Vec<(Step, Vec<usize>)>,
    /// The first of the last steps, which cannot fail and may write over what was given away.
    pub(crate) last: usize,
    pub(crate) values: Vec<Spec>,
    /// The input that each value is, if it is one.
    pub(crate) inputs: Vec<Option<usize>>,
    pub(crate) input_specs: Vec<Spec>,
    /// The values of the last inputs, which came to light when composites were opened.
    pub(crate) more: Vec<Tensor>,
    pub(crate) outputs: Vec<Arg>,
    /// The most bytes that its results hold at once.
    pub(crate) most: usize,
    pub(crate) report: String,
    /// The values whose memory may outlive a run.
    pub(crate) escapes: Vec<bool>,
}

/// What makes a whole graph ready; `None` where a size is not known yet.
pub fn compile(graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return None;
    }
    Some(Plan::new(graph).map(|plan| Box::new(plan) as Box<dyn Executable>))
}

impl Plan {
    /// Plans a graph whose sizes are all known.
    pub fn new(graph: &Graph) -> Result<Plan> {
        let (graph, more) = prepare(graph)?;
        Plan::of(&graph, more)
    }

    /// Plans a graph that was prepared, with the values of its last inputs.
    pub(crate) fn of(graph: &Graph, more: Vec<Tensor>) -> Result<Plan> {
        let units = group(graph);
        let mut inputs = vec![None; graph.values.len()];
        for (i, input) in graph.inputs.iter().enumerate() {
            inputs[input.value.0 as usize] = Some(i);
        }
        let comes_out = |v: usize| graph.outputs.iter().any(|o| value(&o.arg) == Some(v));
        let mut last_use = vec![None; graph.values.len()];
        for (u, unit) in units.iter().enumerate() {
            for n in unit.all() {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    last_use[v] = Some(u);
                }
            }
        }
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.values.len()];
        for (u, unit) in units.iter().enumerate() {
            for n in unit.all() {
                for v in graph.nodes[n].args.iter().filter_map(value) {
                    users[v].push(u);
                }
            }
        }
        let mut steps = Vec::with_capacity(units.len());
        for (u, unit) in units.iter().enumerate() {
            let needed = |v: usize| comes_out(v) || users[v].iter().any(|&x| x != u);
            let dies = |v: usize| last_use[v] == Some(u) && !comes_out(v);
            let step = make(graph, unit, &needed, &dies, &inputs)?;
            let mut dead: Vec<usize> = unit
                .all()
                .flat_map(|n| graph.nodes[n].args.iter().filter_map(value))
                .filter(|&v| inputs[v].is_none() && dies(v))
                .collect();
            dead.sort_unstable();
            dead.dedup();
            steps.push((step, dead));
        }
        let is_fused = |(step, _): &(Step, Vec<usize>)| matches!(step, Step::Fused(_));
        let ends = steps.iter().rev().take_while(|s| is_fused(s)).count();
        let mut plan = Plan {
            last: steps.len() - ends,
            steps,
            values: graph.values.clone(),
            inputs,
            input_specs: graph.input_specs(),
            more,
            outputs: graph.outputs.iter().map(|o| o.arg.clone()).collect(),
            most: 0,
            report: String::new(),
            escapes: Vec::new(),
        };
        // The last ones run side by side, so none may need another's result.
        plan.last = plan.independent_end();
        plan.keep_shared();
        plan.escapes = plan.escaping();
        plan.most = plan.most_at_once();
        plan.report = plan.describe_steps();
        Ok(plan)
    }

    /// Has products with few rows take their right operand packed, where that is one of the first `fixed` inputs and read
    /// by nothing else. Gives those inputs and the axis that is summed.
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
                        let alike = axis.is_none() || axis == sum;
                        axis = sum;
                        alike && narrow::is_narrow(p, specs[0], specs[1])
                    }
                    (_, args) => !args.iter().any(reads),
                },
                Step::Fused(p) => !p.sources.iter().any(|s| reads(&s.arg)),
                Step::Scan(_, args, _) | Step::Batch(_, args, _) => !args.iter().any(reads),
            });
            let comes_out = self.outputs.iter().any(reads);
            if let (true, false, Some(axis)) = (fits, comes_out, axis) {
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

    /// Outputs, what those look at, and what they are written over.
    fn escaping(&self) -> Vec<bool> {
        let mut escapes = vec![false; self.values.len()];
        let outputs = self.outputs.iter().filter_map(value);
        outputs.for_each(|v| escapes[v] = true);
        for (step, _) in self.steps.iter().rev() {
            match step {
                Step::Op(node) if is_view(&node.op) && node.outs.iter().any(|&v| escapes[v]) => {
                    let seen = node.args.first().and_then(value);
                    seen.into_iter().for_each(|v| escapes[v] = true);
                }
                Step::Fused(program) => {
                    for target in &program.targets {
                        let over = target.over.and_then(|at| value(&program.sources[at].arg));
                        if let (true, Some(v)) = (escapes[target.id], over) {
                            escapes[v] = true;
                        }
                    }
                }
                Step::Op(_) | Step::Scan(..) | Step::Batch(..) => {}
            }
        }
        escapes
    }

    fn independent_end(&self) -> usize {
        let mut made: Vec<usize> = Vec::new();
        let mut last = self.last;
        for (at, (step, _)) in self.steps.iter().enumerate().skip(self.last) {
            if let Step::Fused(program) = step {
                let mut reads = program.sources.iter().filter_map(|s| value(&s.arg));
                if reads.any(|v| made.contains(&v)) {
                    made.clear();
                    last = at;
                }
                made.extend(program.targets.iter().map(|t| t.id));
                made.extend(program.downs.iter().map(|d| d.id));
            }
        }
        last
    }

    /// What two of the last programs read is not written over: they run at the same time.
    fn keep_shared(&mut self) {
        let mut reads: Vec<usize> = Vec::new();
        for (step, _) in &self.steps[self.last..] {
            if let Step::Fused(program) = step {
                reads.extend(program.sources.iter().filter_map(|s| value(&s.arg)));
            }
        }
        for (step, _) in &mut self.steps[self.last..] {
            if let Step::Fused(program) = step {
                let sources = &program.sources;
                let shared = |at: usize| {
                    value(&sources[at].arg)
                        .is_some_and(|v| reads.iter().filter(|r| **r == v).count() > 1)
                };
                for target in &mut program.targets {
                    target.over = target.over.filter(|&at| !shared(at));
                }
            }
        }
    }
}

/// The graph that is planned: composites without a kernel are opened, loops made lighter, results turned in place.
pub(crate) fn prepare(graph: &Graph) -> Result<(Graph, Vec<Tensor>)> {
    let opens = |node: &graph::Node| {
        let is_call = matches!(node.op, Op::Call(_));
        Ok(is_call && backend().support(&node.op) == Support::Expands)
    };
    let (mut graph, mut more) = (graph.clone(), Vec::new());
    // What comes out of a composite may be one again.
    while graph.nodes.iter().any(|n| opens(n).is_ok_and(|o| o)) {
        let (opened, found) = with(backend(), || graph.inlined(opens))?;
        graph = opened;
        more.extend(found);
    }
    let graph = lighter(&graph.optimise(Options::default())?)?;
    Ok((again::run(&graph)?, more))
}

/// A single operation on more than the caches hold: the engine's own kernel writes past them, a tile would not.
fn streamed(
    graph: &Graph,
    unit: &Unit,
    dies: &dyn Fn(usize) -> bool,
    inputs: &[Option<usize>],
) -> Option<Node> {
    let ([n], []) = (&unit.nodes[..], &unit.downs[..]) else {
        return None;
    };
    let node = &graph.nodes[*n];
    let spec = &graph.values[node.outs.start as usize];
    let alike = |arg: &Arg| graph.arg_spec(arg) == spec;
    // What can be written over is in a cache already: a value's last use, or an input that the result updates.
    let updated = |i: usize| graph.outputs.iter().any(|o| o.updates == Some(i));
    let stays = |arg: &Arg| {
        value(arg).is_some_and(|v| match inputs[v] {
            Some(input) => !updated(input),
            None => !dies(v),
        })
    };
    let fits = matches!(node.op, Op::Binary(_))
        && spec.dtype == DType::F32
        && 3 * spec.bytes() > memory::cache()
        && node.args.iter().all(|arg| alike(arg) && stays(arg));
    fits.then(|| single(graph, node))
}

/// A node by itself.
fn single(graph: &Graph, node: &graph::Node) -> Node {
    let outs: Vec<usize> = node.outs.clone().map(|v| v as usize).collect();
    Node {
        op: node.op.clone(),
        args: node.args.to_vec(),
        specs: outs.iter().map(|&v| graph.values[v].clone()).collect(),
        outs,
        packed: false,
    }
}

fn make(
    graph: &Graph,
    unit: &Unit,
    needed: &dyn Fn(usize) -> bool,
    dies: &dyn Fn(usize) -> bool,
    inputs: &[Option<usize>],
) -> Result<Step> {
    if let Some(lead) = &unit.lead {
        let (batch, args, outs) = Batch::new(graph, unit, lead, needed)?;
        return Ok(Step::Batch(Box::new(batch), args, outs));
    }
    if let ([n], None) = (&unit.nodes[..], &unit.space) {
        let node = single(graph, &graph.nodes[*n]);
        if let Op::Scan(scan) = &node.op {
            let made = Loop::new(scan)?;
            return Ok(Step::Scan(Box::new(made), node.args, node.outs));
        }
        return Ok(Step::Op(node));
    }
    if let Some(node) = streamed(graph, unit, dies, inputs) {
        return Ok(Step::Op(node));
    }
    let mut program = code::lower(graph, unit, needed)?;
    // A target takes the place of a source of its own kind that nobody needs any more, each source once.
    let mut taken: Vec<usize> = Vec::new();
    let sources: Vec<Option<usize>> = program.sources.iter().map(|s| value(&s.arg)).collect();
    let shapes: Vec<_> = program.sources.iter().map(|s| s.shape.clone()).collect();
    for target in &mut program.targets {
        let fits = |(at, v): &(usize, &Option<usize>)| match v {
            Some(v) => {
                let once = sources.iter().filter(|o| **o == Some(*v)).count() == 1;
                let free = once && !taken.contains(at) && dies(*v);
                // A value that is repeated is read at other places than its own.
                free && graph.values[*v] == target.spec && shapes[*at] == target.spec.shape
            }
            None => false,
        };
        // Rather what was given away: its new value is to be there.
        let mut found: Vec<usize> = sources
            .iter()
            .enumerate()
            .filter(fits)
            .map(|x| x.0)
            .collect();
        found.sort_by_key(|&at| sources[at].is_none_or(|v| inputs[v].is_none()));
        if let Some(&at) = found.first() {
            target.over = Some(at);
            taken.push(at);
        }
    }
    Ok(Step::Fused(program))
}
