//! Batched chains: runs matmuls with common batch axes, and the ops between them, one matrix at a time. Intermediate
//! values stay in cache and are never held for all matrices at once. Attention and its backward pass are such chains.

use crate::describe::is_view;
use crate::fusion::FusionGroup;
use crate::plan::Plan;
use crate::run::allocate;
use crate::scan::{block_view, write_row};
use clematis_core::graph::{Arg, Graph, Output, ValueId};
use clematis_core::infer::infer;
use clematis_core::op::{Broadcast, Dot, Reduce};
use clematis_core::shape::Axes;
use clematis_core::{
    Composite, DType, Error, Executable, Op, Result, Role, Shape, Spec, Tensor, bail,
};
use clematis_native::buffer::concrete;
use clematis_native::parallel::{self, Columns};
use clematis_native::{Buffer, backend};
use clematis_passes::{GraphView, value};
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::Mutex;

/// The fewest matrices; each one is a task.
const MIN_MATRICES: usize = 8;
/// The fewest matmuls of a chain.
const MIN_MATMULS: usize = 2;
/// The most groups that are tried as one chain.
const MAX_GROUPS: usize = 256;
/// Bytes of intermediate values, for all matrices together, from which a chain pays; less stays in cache anyway.
const MIN_INTERMEDIATE_BYTES: usize = 1 << 20;
/// The most bytes that one matrix may hold at its peak: this much stays in L2.
const MAX_BYTES_PER_MATRIX: usize = 1 << 20;

/// A planned chain.
pub struct BatchedChain {
    /// The plan for one matrix.
    pub body: Plan,
    /// The sizes of the leading axes.
    lead: Vec<usize>,
    /// Which operands have the leading axes.
    has_lead: Vec<bool>,
    outs: Vec<Spec>,
}

/// Builds the graph for one matrix.
struct ChainBuilder<'a> {
    graph: &'a Graph,
    lead: Vec<usize>,
    body: Graph,
    /// The value of the body for each value of the graph, and whether it has the leading axes.
    mapped: HashMap<usize, (ValueId, bool)>,
    /// Values from outside the chain, in the order of the body's inputs.
    inputs: Vec<usize>,
    matmuls: usize,
}

/// The batch axes of a matmul, if they are its leading axes.
fn leading_axes(graph: &Graph, group: &FusionGroup) -> Option<Vec<usize>> {
    let [n] = group.nodes[..] else { return None };
    let node = &graph.nodes[n];
    let Op::Dot(p) = &node.op else { return None };
    let shape = &graph.arg_spec(&node.args[0]).shape;
    let lead = p.lhs_batch.len();
    let first = |axes: &Axes| axes.iter().copied().eq(0..lead);
    let fits = lead > 0 && first(&p.lhs_batch) && first(&p.rhs_batch);
    let lead: Vec<usize> = (0..lead).map(|a| shape.size(a)).collect();
    (fits && lead.iter().product::<usize>() >= MIN_MATRICES).then_some(lead)
}

impl<'a> ChainBuilder<'a> {
    fn new(graph: &'a Graph, lead: Vec<usize>) -> Self {
        ChainBuilder {
            graph,
            lead,
            body: Graph {
                scopes: graph.scopes.clone(),
                ..Graph::default()
            },
            mapped: HashMap::new(),
            inputs: Vec::new(),
            matmuls: 0,
        }
    }

    fn has_lead(&self, shape: &Shape) -> bool {
        shape.rank() >= self.lead.len()
            && self
                .lead
                .iter()
                .enumerate()
                .all(|(a, &n)| shape.size(a) == n)
    }

    fn without_lead(&self, shape: &Shape) -> Shape {
        let gone: Vec<usize> = (0..self.lead.len()).collect();
        shape.without(&gone)
    }

    /// An operand in the body; `None` if it was used with a different batching before.
    fn operand(&mut self, arg: &Arg, lead: bool) -> Option<Arg> {
        let Some(v) = value(arg) else {
            return (!lead).then(|| arg.clone());
        };
        if let Some(&(id, had)) = self.mapped.get(&v) {
            return (had == lead).then_some(Arg::Value(id));
        }
        let spec = &self.graph.values[v];
        let spec = match lead {
            true => spec.with_shape(self.without_lead(&spec.shape)),
            false => spec.clone(),
        };
        let id = self
            .body
            .input(spec, Role::Input, format!("x{}", self.inputs.len()));
        self.inputs.push(v);
        self.mapped.insert(v, (id, lead));
        Some(Arg::Value(id))
    }

    /// Adds all nodes of a group; `None` if one of them combines several matrices.
    fn add_group(&mut self, group: &FusionGroup) -> Option<()> {
        if !group.column_sums.is_empty() {
            return None;
        }
        group.nodes.iter().try_for_each(|&n| self.node(n))
    }

    /// Whether a group reads a value that the chain produces.
    fn produces_operand_of(&self, group: &FusionGroup) -> bool {
        let args = group.all().flat_map(|n| &self.graph.nodes[n].args);
        let mut own = args
            .filter_map(value)
            .filter(|v| self.mapped.contains_key(v));
        own.any(|v| !self.inputs.contains(&v))
    }

    fn node(&mut self, n: usize) -> Option<()> {
        let graph = self.graph;
        let node = &graph.nodes[n];
        let specs: Vec<&Spec> = node.args.iter().map(|a| graph.arg_spec(a)).collect();
        let [out] = &graph.values[node.outs.start as usize..node.outs.end as usize] else {
            return None;
        };
        if !self.has_lead(&out.shape) || [DType::F32, DType::Bool].iter().all(|d| *d != out.dtype) {
            return None;
        }
        let (op, leads) = self.op_for_matrix(&node.op, &specs, out)?;
        let args = node.args.iter().zip(leads);
        let args = args.map(|(arg, lead)| self.operand(arg, lead));
        let args = args.collect::<Option<SmallVec<[Arg; 3]>>>()?;
        let specs: Vec<&Spec> = args.iter().map(|a| self.body.arg_spec(a)).collect();
        let made = infer(&op, &specs).ok()?.into_vec();
        if made.len() != 1 || made[0].shape != self.without_lead(&out.shape) {
            return None;
        }
        self.matmuls += usize::from(matches!(op, Op::Dot(_)));
        let id = self.body.node(op, args, &made, node.scope).start;
        self.mapped
            .insert(node.outs.start as usize, (ValueId(id), true));
        Some(())
    }

    /// The op for one matrix, and which operands have the leading axes.
    fn op_for_matrix(&self, op: &Op, specs: &[&Spec], out: &Spec) -> Option<(Op, Vec<bool>)> {
        let lead = self.lead.len();
        let without_lead_axes = |axes: &Axes| {
            axes.iter()
                .map(|a| a.checked_sub(lead))
                .collect::<Option<Axes>>()
        };
        let first = |axes: &Axes| axes.iter().copied().take(lead).eq(0..lead);
        let all_lead = || {
            specs
                .iter()
                .all(|s| self.has_lead(&s.shape))
                .then(|| vec![true; specs.len()])
        };
        Some(match op {
            Op::Dot(p) => {
                let fits = p.lhs_batch.len() == lead && first(&p.lhs_batch) && first(&p.rhs_batch);
                fits.then_some(())?;
                let dot = Dot {
                    lhs_batch: Axes::default(),
                    rhs_batch: Axes::default(),
                    lhs_contract: without_lead_axes(&p.lhs_contract)?,
                    rhs_contract: without_lead_axes(&p.rhs_contract)?,
                };
                (dot.into(), all_lead()?)
            }
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast(_) => {
                // An operand of the same rank is split by matrix; one without any of the leading axes is the same for
                // all.
                let leads = specs.iter().map(|s| match s.rank() == out.rank() {
                    true => self.has_lead(&s.shape).then_some(true),
                    false => (s.rank() + lead <= out.rank()).then_some(false),
                });
                (op.clone(), leads.collect::<Option<_>>()?)
            }
            Op::Call(c) => match &**c {
                Composite::Softmax { axis } => {
                    let axis = axis.checked_sub(lead)?;
                    (Composite::Softmax { axis }.into(), all_lead()?)
                }
                Composite::Relu {}
                | Composite::Sigmoid {}
                | Composite::Silu {}
                | Composite::Gelu { .. } => (op.clone(), all_lead()?),
                _ => return None,
            },
            Op::Reduce(p) => {
                let axes = without_lead_axes(&p.axes)?;
                (
                    Reduce {
                        axes,
                        ..(**p).clone()
                    }
                    .into(),
                    all_lead()?,
                )
            }
            Op::Reshape(shape) => (Op::Reshape(self.without_lead(shape)), all_lead()?),
            Op::Broadcast(p) if first(&p.axes) && p.axes.len() >= lead => {
                let axes = p.axes.iter().skip(lead).map(|a| a - lead).collect();
                let shape = self.without_lead(&p.shape);
                (Broadcast { shape, axes }.into(), all_lead()?)
            }
            _ => return None,
        })
    }

    /// Bytes of intermediate values, for all matrices.
    fn intermediate_bytes(&self, outs: &[usize]) -> usize {
        let inside = self
            .mapped
            .keys()
            .filter(|v| !self.inputs.contains(v) && !outs.contains(v));
        inside.map(|&v| self.graph.values[v].bytes()).sum()
    }
}

/// The results of these nodes that others read.
fn external_results(graph: &Graph, nodes: &[usize], needed: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let made = nodes.iter().flat_map(|&n| graph.nodes[n].outs.clone());
    made.map(|v| v as usize).filter(|&v| needed(v)).collect()
}

/// Merges consecutive groups into batched chains.
pub fn form_chains(view: &GraphView<'_>, groups: Vec<FusionGroup>) -> Vec<FusionGroup> {
    // The leading axes of the first matmul at or after each group.
    let mut leads: Vec<Option<Rc<[usize]>>> = vec![None; groups.len() + 1];
    for (at, group) in groups.iter().enumerate().rev() {
        let own = leading_axes(view.graph(), group).map(Rc::from);
        leads[at] = own.or_else(|| leads[at + 1].clone());
    }
    let mut out: Vec<FusionGroup> = Vec::with_capacity(groups.len());
    let mut at = 0;
    while at < groups.len() {
        let found = leads[at].as_deref();
        match found.and_then(|lead| longest_chain(view, &groups[at..], lead)) {
            Some((mut chain, count)) => {
                out.append(&mut chain);
                at += count;
            }
            None => {
                out.push(groups[at].clone());
                at += 1;
            }
        }
    }
    out
}

/// Whether a group consists only of views.
fn is_view_group(graph: &Graph, group: &FusionGroup) -> bool {
    group.domain.is_none() && group.nodes.iter().all(|&n| is_view(&graph.nodes[n].op))
}

/// The longest chain at the start of these groups: the views it depends on, then the chain as one group, and the number
/// of groups consumed. The first matmul has the leading axes `lead`; the groups before it must have them too.
fn longest_chain(
    view: &GraphView<'_>,
    groups: &[FusionGroup],
    lead: &[usize],
) -> Option<(Vec<FusionGroup>, usize)> {
    let graph = view.graph();
    let mut chain = ChainBuilder::new(graph, lead.to_vec());
    // Which groups are part of the chain; the others can run before it.
    let mut links: Vec<bool> = Vec::new();
    // The number of matmuls up to each group.
    let mut matmuls: Vec<usize> = Vec::new();
    for group in groups.iter().take(MAX_GROUPS) {
        let added = chain.add_group(group).is_some();
        if !added
            && (links.is_empty()
                || !is_view_group(graph, group)
                || chain.produces_operand_of(group))
        {
            break;
        }
        links.push(added);
        matmuls.push(chain.matmuls);
    }
    while let Some(last) = links.iter().rposition(|link| *link) {
        links.truncate(last + 1);
        // A group that was added in part may have counted its matmul, so this is an upper bound.
        if matmuls[last] < MIN_MATMULS {
            break;
        }
        let (own, before): (Vec<_>, Vec<_>) = groups.iter().zip(&links).partition(|x| *x.1);
        let group = FusionGroup {
            nodes: own.iter().flat_map(|(u, _)| u.nodes.clone()).collect(),
            domain: None,
            column_sums: Vec::new(),
            lead: Some(lead.to_vec()),
        };
        let own: HashSet<usize> = group.nodes.iter().copied().collect();
        let needed = |v: usize| view.is_output(v) || view.users(v).any(|n| !own.contains(&n));
        if is_profitable(graph, &group, lead, &needed) {
            let before = before.into_iter().map(|(u, _)| u.clone());
            return Some((before.chain([group]).collect(), links.len()));
        }
        links.truncate(last);
    }
    None
}

/// Whether running a chain matrix by matrix pays.
fn is_profitable(
    graph: &Graph,
    group: &FusionGroup,
    lead: &[usize],
    needed: &dyn Fn(usize) -> bool,
) -> bool {
    let mut chain = ChainBuilder::new(graph, lead.to_vec());
    if chain.add_group(group).is_none() || chain.matmuls < MIN_MATMULS {
        return false;
    }
    let large = chain.intermediate_bytes(&external_results(graph, &group.nodes, needed))
        >= MIN_INTERMEDIATE_BYTES;
    let planned = || BatchedChain::new(graph, group, lead, needed);
    large && planned().is_ok_and(|(batch, ..)| batch.body.peak_bytes <= MAX_BYTES_PER_MATRIX)
}

impl BatchedChain {
    /// Plans a chain; also returns its operands and results.
    pub fn new(
        graph: &Graph,
        group: &FusionGroup,
        lead: &[usize],
        needed: &dyn Fn(usize) -> bool,
    ) -> Result<(Self, Vec<Arg>, Vec<usize>)> {
        let mut chain = ChainBuilder::new(graph, lead.to_vec());
        if chain.add_group(group).is_none() {
            bail!(Internal, "compile: not a batched chain");
        }
        let outs = external_results(graph, &group.nodes, needed);
        for v in &outs {
            let (id, _) = chain.mapped[v];
            chain.body.outputs.push(Output {
                arg: Arg::Value(id),
                updates: None,
            });
        }
        let args = chain
            .inputs
            .iter()
            .map(|&v| Arg::Value(ValueId(v as u32)))
            .collect();
        let batch = BatchedChain {
            body: Plan::from_prepared(&chain.body, Vec::new())?,
            lead: chain.lead.clone(),
            has_lead: chain.inputs.iter().map(|v| chain.mapped[v].1).collect(),
            outs: outs.iter().map(|&v| graph.values[v].clone()).collect(),
        };
        Ok((batch, args, outs))
    }

    /// The number of matrices.
    pub fn count(&self) -> usize {
        self.lead.iter().product()
    }

    /// Bytes of scratch that all threads hold at once, without the results.
    pub fn scratch_bytes(&self) -> usize {
        self.body.peak_bytes * parallel::threads().min(self.count())
    }

    /// Runs all matrices in parallel.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut outs = self
            .outs
            .iter()
            .map(allocate)
            .collect::<Result<Vec<Tensor>>>()?;
        let mut parts = Vec::with_capacity(outs.len());
        for out in &mut outs {
            let Some(bytes) = out.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                bail!(
                    Internal,
                    "compile: the memory of a batched chain's result is shared"
                );
            };
            let len = bytes.len() / self.count().max(1);
            parts.push(Columns::chunks(bytes.as_mut_slice::<u8>(), len));
        }
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let lock = || failed.lock().unwrap_or_else(|e| e.into_inner());
        parallel::for_tasks(self.count(), |task| {
            if lock().is_some() {
                return;
            }
            let run = || {
                let operands = inputs.iter().zip(&self.has_lead);
                let operands = operands.map(|(x, &lead)| match lead {
                    true => self.matrix_view(x, task),
                    false => Ok((*x).clone()),
                });
                let mut operands = operands.collect::<Result<Vec<Tensor>>>()?;
                let made = self.body.run(&mut operands)?;
                let mut pairs = parts.iter().zip(&made);
                pairs.try_for_each(|(all, x)| write_row(&mut all.take(task), 0, x))
            };
            if let Err(e) = run() {
                lock().get_or_insert(e);
            }
        });
        drop(parts);
        match failed.into_inner().unwrap_or_else(|e| e.into_inner()) {
            Some(e) => Err(e),
            None => Ok(outs),
        }
    }

    /// A view of one matrix of an operand.
    fn matrix_view(&self, x: &Tensor, mut at: usize) -> Result<Tensor> {
        let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
        for (axis, &size) in self.lead.iter().enumerate().rev() {
            (start[axis], to[axis]) = (at % size, 1);
            at /= size;
        }
        let one = block_view(x, &start, &to)?;
        let rest = &to[self.lead.len()..];
        let Some(layout) = concrete(&one)?.layout().reshape(&to, rest) else {
            bail!(Internal, "compile: a matrix of {} is not a view", x.spec());
        };
        let spec = x.spec().with_shape(Shape::from_sizes(rest));
        let data = concrete(&one)?.with_layout(layout).boxed();
        Ok(Tensor::concrete(spec, backend(), data))
    }
}
