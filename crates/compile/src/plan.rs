//! Execution plans: a graph as steps over slots, with liveness, in-place updates and escape analysis.

use crate::batched_chain::BatchedChain;
use crate::describe::is_view;
use crate::fusion::{FusionGroup, fuse};
use crate::program::{self, Program};
use crate::rematerialize;
use crate::scan::PlannedScan;
use crate::skinny_gemm;
use clematis_core::backend::with;
use clematis_core::graph::{self, Arg, Graph};
use clematis_core::{DType, Executable, Op, Result, Spec, Support, Tensor};
use clematis_native::{backend, memory};
use clematis_passes::{GraphView, Options, optimize, value};
use std::collections::{HashMap, HashSet, VecDeque};

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

/// How an input may be packed, as far as its readers have been seen.
#[derive(Clone, Copy)]
enum Packing {
    Unread,
    /// Along its contracted axis.
    Axis(usize),
    Never,
}

impl Packing {
    /// With one more reader, a skinny GEMM that contracts this axis; `None` for any other reader.
    fn and(self, axis: Option<usize>) -> Self {
        match (self, axis) {
            (Packing::Unread, Some(axis)) => Packing::Axis(axis),
            (Packing::Axis(own), Some(axis)) if own == axis => self,
            _ => Packing::Never,
        }
    }
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

/// The lifetimes of values, by fusion group.
struct Liveness {
    /// The position of the last group that reads each value; outputs have no last use.
    last_use: Vec<Option<usize>>,
    /// Whether a value is read outside of the group that produces it.
    needed: Vec<bool>,
    /// Whether each input is updated by an output.
    updated: Vec<bool>,
}

impl Liveness {
    fn new(view: &GraphView<'_>, groups: &[FusionGroup]) -> Self {
        let graph = view.graph();
        let mut group_of = vec![0; graph.nodes.len()];
        for (u, group) in groups.iter().enumerate() {
            group.all().for_each(|n| group_of[n] = u);
        }
        let last_use = |v: usize| match view.is_output(v) {
            true => None,
            false => view.users(v).map(|n| group_of[n]).max(),
        };
        let needed = |v: usize| {
            let own = view.producer(v).map(|n| group_of[n]);
            view.is_output(v) || view.users(v).any(|n| Some(group_of[n]) != own)
        };
        let values = 0..graph.values.len();
        let mut updated = vec![false; graph.inputs.len()];
        for input in graph.outputs.iter().filter_map(|o| o.updates) {
            updated[input] = true;
        }
        Liveness {
            last_use: values.clone().map(last_use).collect(),
            needed: values.map(needed).collect(),
            updated,
        }
    }

    /// Whether a value is not read after a group.
    fn dies(&self, v: usize, group: usize) -> bool {
        self.last_use[v] == Some(group)
    }
}

/// Compiles a graph for the CPU engine; `None` if it has symbolic dimensions.
pub fn compile(graph: &Graph) -> Option<Result<Box<dyn Executable>>> {
    if graph.values.iter().any(|s| s.shape.is_symbolic()) {
        return None;
    }
    Some(Plan::new(graph).map(|plan| Box::new(plan) as Box<dyn Executable>))
}

impl Plan {
    /// Plans a graph with static shapes. The passes have optimized it before.
    pub fn new(graph: &Graph) -> Result<Plan> {
        let prepared = prepare(graph)?;
        let groups = prepared.groups.unwrap_or_else(|| fuse(&prepared.graph));
        Plan::with_groups(&prepared.graph, groups, prepared.captured)
    }

    /// Plans a prepared graph; `captured` holds the values of its last inputs.
    pub(crate) fn from_prepared(graph: &Graph, captured: Vec<Tensor>) -> Result<Plan> {
        Plan::with_groups(graph, fuse(graph), captured)
    }

    /// Plans a prepared graph with its fusion groups, in order.
    fn with_groups(graph: &Graph, groups: Vec<FusionGroup>, captured: Vec<Tensor>) -> Result<Plan> {
        let view = GraphView::new(graph);
        let liveness = Liveness::new(&view, &groups);
        let mut steps = Vec::with_capacity(groups.len());
        for (u, group) in groups.iter().enumerate() {
            let step = plan_group(&view, group, u, &liveness)?;
            let mut dead: Vec<usize> = group
                .all()
                .flat_map(|n| graph.nodes[n].args.iter().filter_map(value))
                .filter(|&v| view.input(v).is_none() && liveness.dies(v, u))
                .collect();
            dead.sort_unstable();
            dead.dedup();
            steps.push((step, dead));
        }
        let inputs = (0..graph.values.len()).map(|v| view.input(v)).collect();
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
        let fixed_input = |arg: &Arg| {
            let input = value(arg).and_then(|v| self.inputs[v]);
            input.filter(|&input| input < fixed)
        };
        // What the readers of each input allow: nothing yet, a contracted axis, or no packing.
        let mut axes: Vec<Packing> = vec![Packing::Unread; fixed];
        for (step, _) in &self.steps {
            let mut rest: Vec<usize> = Vec::new();
            match step {
                Step::Op(node) => match (&node.op, &node.args[..]) {
                    (Op::Dot(p), [x, y]) if fixed_input(x) != fixed_input(y) => {
                        rest.extend(fixed_input(x));
                        if let Some(input) = fixed_input(y) {
                            let specs = [x, y].map(|a| match a {
                                Arg::Value(id) => &self.values[id.0 as usize],
                                Arg::Const(t) => t.spec(),
                            });
                            let fits = skinny_gemm::is_skinny(p, specs[0], specs[1]);
                            let axis = p.rhs_contract.first().copied().filter(|_| fits);
                            axes[input] = axes[input].and(axis);
                        }
                    }
                    (_, args) => rest.extend(args.iter().filter_map(fixed_input)),
                },
                Step::Fused(p) => {
                    rest.extend(p.sources.iter().filter_map(|s| fixed_input(&s.arg)));
                }
                Step::Scan(_, args, _) | Step::BatchedChain(_, args, _) => {
                    rest.extend(args.iter().filter_map(fixed_input));
                }
            }
            rest.into_iter().for_each(|i| axes[i] = Packing::Never);
        }
        for input in self.outputs.iter().filter_map(fixed_input) {
            axes[input] = Packing::Never;
        }
        let axes = axes.into_iter().enumerate();
        let packed: Vec<(usize, usize)> = axes
            .filter_map(|(input, packing)| match packing {
                Packing::Axis(axis) => Some((input, axis)),
                Packing::Unread | Packing::Never => None,
            })
            .collect();
        let is_packed: HashSet<usize> = packed.iter().map(|p| p.0).collect();
        for (step, _) in &mut self.steps {
            if let Step::Op(node) = step
                && let (Op::Dot(_), Some(v)) = (&node.op, node.args.get(1).and_then(value))
            {
                node.packed = self.inputs[v].is_some_and(|i| is_packed.contains(&i));
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
        let mut made: HashSet<usize> = HashSet::new();
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
        let mut reads = vec![0usize; self.values.len()];
        for (step, _) in &self.steps[self.tail..] {
            if let Step::Fused(program) = step {
                let read = program.sources.iter().filter_map(|s| value(&s.arg));
                read.for_each(|v| reads[v] += 1);
            }
        }
        for (step, _) in &mut self.steps[self.tail..] {
            if let Step::Fused(program) = step {
                let sources = &program.sources;
                let shared = |at: usize| value(&sources[at].arg).is_some_and(|v| reads[v] > 1);
                for target in &mut program.targets {
                    target.reuses = target.reuses.filter(|&at| !shared(at));
                }
            }
        }
    }
}

/// A graph that is ready for planning.
pub(crate) struct Prepared {
    pub graph: Graph,
    /// Values of the last inputs: constants that were captured when composites were expanded.
    pub captured: Vec<Tensor>,
    /// The fusion groups, if rematerialization has left them as they were.
    groups: Option<Vec<FusionGroup>>,
}

/// Prepares an optimized graph for planning: expands composites without a kernel, and rematerializes cheap values.
///
/// Only a graph that still has such composites is optimized again; those of a program are expanded before its passes.
pub(crate) fn prepare(graph: &Graph) -> Result<Prepared> {
    let expands = |node: &graph::Node| {
        matches!(node.op, Op::Call(_)) && backend().support(&node.op) == Support::Expands
    };
    let (mut graph, mut captured) = (graph.clone(), Vec::new());
    if graph.nodes.iter().any(expands) {
        let (expanded, found) = with(backend(), || graph.expanded(expands))?;
        graph = optimize(&expanded, Options::default())?;
        captured = found;
    }
    let groups = fuse(&graph);
    let (graph, groups) = match rematerialize::run(&graph, &groups)? {
        Some(new) => (new, None),
        None => (graph, Some(groups)),
    };
    Ok(Prepared {
        graph,
        captured,
        groups,
    })
}

/// A single binary op on data larger than the last-level cache: the engine's kernel uses streaming stores, a tile would
/// not.
fn streaming_op(
    view: &GraphView<'_>,
    group: &FusionGroup,
    at: usize,
    liveness: &Liveness,
) -> Option<Node> {
    let graph = view.graph();
    let ([n], []) = (&group.nodes[..], &group.column_sums[..]) else {
        return None;
    };
    let node = &graph.nodes[*n];
    let spec = &graph.values[node.outs.start as usize];
    let same_spec = |arg: &Arg| graph.arg_spec(arg) == spec;
    // Memory that can be overwritten is already in cache: a value at its last use, or an input that the result updates.
    let stays_live = |arg: &Arg| {
        value(arg).is_some_and(|v| match view.input(v) {
            Some(input) => !liveness.updated[input],
            None => !liveness.dies(v, at),
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

/// The step of a group, which is number `at`.
fn plan_group(
    view: &GraphView<'_>,
    group: &FusionGroup,
    at: usize,
    liveness: &Liveness,
) -> Result<Step> {
    let graph = view.graph();
    let needed = |v: usize| liveness.needed[v];
    if let Some(lead) = &group.lead {
        let (batched_chain, args, outs) = BatchedChain::new(graph, group, lead, &needed)?;
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
    if let Some(node) = streaming_op(view, group, at, liveness) {
        return Ok(Step::Op(node));
    }
    let mut program = program::lower(view, group, &needed)?;
    reuse_sources(&mut program, view, at, liveness);
    Ok(Step::Fused(program))
}

/// Lets targets reuse the memory of sources of the same shape and dtype that die in this group; each source at most once.
fn reuse_sources(program: &mut Program, view: &GraphView<'_>, at: usize, liveness: &Liveness) {
    let values = &view.graph().values;
    let mut reads: HashMap<usize, usize> = HashMap::new();
    for v in program.sources.iter().filter_map(|s| value(&s.arg)) {
        *reads.entry(v).or_default() += 1;
    }
    // Free sources by spec, donated inputs first: the caller expects the new value in their memory.
    let mut free: HashMap<&Spec, [VecDeque<usize>; 2]> = HashMap::new();
    for (source, v) in program.sources.iter().enumerate() {
        let Some(v) = value(&v.arg) else { continue };
        // A broadcast source is read at other positions than it would be written.
        let fits = program.sources[source].shape == values[v].shape;
        if fits && reads[&v] == 1 && liveness.dies(v, at) {
            let kinds = free.entry(&values[v]).or_default();
            kinds[usize::from(view.input(v).is_none())].push_back(source);
        }
    }
    for target in &mut program.targets {
        if let Some(kinds) = free.get_mut(&target.spec) {
            target.reuses = kinds.iter_mut().find_map(VecDeque::pop_front);
        }
    }
}
