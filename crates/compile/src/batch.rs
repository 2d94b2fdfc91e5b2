//! Products over the same leading axes and what lies between them, one matrix after the other: what a step leaves for the next one is
//! still in a cache, and is never held for all matrices at once. Attention is such a chain, forward and back.

use crate::describe::is_view;
use crate::group::Unit;
use crate::plan::Plan;
use crate::run::fresh;
use crate::scan::{part, write};
use crate::space::value;
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
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Mutex;

/// The fewest matrices: each is a task.
const FEWEST: usize = 8;
/// The fewest products of a chain that are worth it.
const PRODUCTS: usize = 2;
/// Bytes between the steps of a chain from which on it is worth it, of all matrices together: less stays in the caches anyway.
const LARGE: usize = 1 << 20;
/// Bytes that one matrix may hold at once: as much stays in the second cache.
const CACHED: usize = 1 << 20;

/// A chain made ready.
pub struct Batch {
    /// What is done with one matrix.
    pub body: Plan,
    /// The sizes of the leading axes.
    lead: Vec<usize>,
    /// Which operands have them.
    has_lead: Vec<bool>,
    outs: Vec<Spec>,
}

/// A chain under construction: the graph for one matrix.
struct Chain<'a> {
    graph: &'a Graph,
    lead: Vec<usize>,
    body: Graph,
    /// Where each value is in the body, and whether it has the leading axes.
    known: HashMap<usize, (ValueId, bool)>,
    /// What comes from outside, in the order of the body's inputs.
    inputs: Vec<usize>,
    products: usize,
}

/// The leading axes that a product goes over.
fn leads(graph: &Graph, unit: &Unit) -> Option<Vec<usize>> {
    let [n] = unit.nodes[..] else { return None };
    let node = &graph.nodes[n];
    let Op::Dot(p) = &node.op else { return None };
    let shape = &graph.arg_spec(&node.args[0]).shape;
    let lead = p.lhs_batch.len();
    let first = |axes: &Axes| axes.iter().copied().eq(0..lead);
    let fits = lead > 0 && first(&p.lhs_batch) && first(&p.rhs_batch);
    let lead: Vec<usize> = (0..lead).map(|a| shape.size(a)).collect();
    (fits && lead.iter().product::<usize>() >= FEWEST).then_some(lead)
}

impl<'a> Chain<'a> {
    fn new(graph: &'a Graph, lead: Vec<usize>) -> Self {
        Chain {
            graph,
            lead,
            body: Graph {
                scopes: graph.scopes.clone(),
                ..Graph::default()
            },
            known: HashMap::new(),
            inputs: Vec::new(),
            products: 0,
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

    fn cut(&self, shape: &Shape) -> Shape {
        let gone: Vec<usize> = (0..self.lead.len()).collect();
        shape.without(&gone)
    }

    /// An operand in the body; `None` where it was seen in the other way before.
    fn operand(&mut self, arg: &Arg, lead: bool) -> Option<Arg> {
        let Some(v) = value(arg) else {
            return (!lead).then(|| arg.clone());
        };
        if let Some(&(id, had)) = self.known.get(&v) {
            return (had == lead).then_some(Arg::Value(id));
        }
        let spec = &self.graph.values[v];
        let spec = match lead {
            true => spec.with_shape(self.cut(&spec.shape)),
            false => spec.clone(),
        };
        let id = self
            .body
            .input(spec, Role::Input, format!("x{}", self.inputs.len()));
        self.inputs.push(v);
        self.known.insert(v, (id, lead));
        Some(Arg::Value(id))
    }

    /// Takes all nodes of a unit in; `None` where one of them looks across matrices.
    fn join(&mut self, unit: &Unit) -> Option<()> {
        if !unit.downs.is_empty() {
            return None;
        }
        unit.nodes.iter().try_for_each(|&n| self.node(n))
    }

    /// Whether a unit reads what the chain makes.
    fn makes_operand_of(&self, unit: &Unit) -> bool {
        let args = unit.all().flat_map(|n| &self.graph.nodes[n].args);
        let mut own = args
            .filter_map(value)
            .filter(|v| self.known.contains_key(v));
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
        let (op, leads) = self.each(&node.op, &specs, out)?;
        let args = node.args.iter().zip(leads);
        let args = args.map(|(arg, lead)| self.operand(arg, lead));
        let args = args.collect::<Option<SmallVec<[Arg; 3]>>>()?;
        let specs: Vec<&Spec> = args.iter().map(|a| self.body.arg_spec(a)).collect();
        let made = infer(&op, &specs).ok()?.into_vec();
        if made.len() != 1 || made[0].shape != self.cut(&out.shape) {
            return None;
        }
        self.products += usize::from(matches!(op, Op::Dot(_)));
        let id = self.body.node(op, args, &made, node.scope).start;
        self.known
            .insert(node.outs.start as usize, (ValueId(id), true));
        Some(())
    }

    /// The op for one matrix, and which operands have the leading axes.
    fn each(&self, op: &Op, specs: &[&Spec], out: &Spec) -> Option<(Op, Vec<bool>)> {
        let lead = self.lead.len();
        let less = |axes: &Axes| {
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
                let each = Dot {
                    lhs_batch: Axes::default(),
                    rhs_batch: Axes::default(),
                    lhs_contract: less(&p.lhs_contract)?,
                    rhs_contract: less(&p.rhs_contract)?,
                };
                (each.into(), all_lead()?)
            }
            Op::Unary(_) | Op::Binary(_) | Op::Compare(_) | Op::Select | Op::Cast(_) => {
                // What has as many axes goes matrix by matrix; what has none of the leading ones is the same for all.
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
                let axes = less(&p.axes)?;
                (
                    Reduce {
                        axes,
                        ..(**p).clone()
                    }
                    .into(),
                    all_lead()?,
                )
            }
            Op::Reshape(shape) => (Op::Reshape(self.cut(shape)), all_lead()?),
            Op::Broadcast(p) if first(&p.axes) && p.axes.len() >= lead => {
                let axes = p.axes.iter().skip(lead).map(|a| a - lead).collect();
                let shape = self.cut(&p.shape);
                (Broadcast { shape, axes }.into(), all_lead()?)
            }
            _ => return None,
        })
    }

    /// Bytes of all matrices that stay between the steps.
    fn between(&self, outs: &[usize]) -> usize {
        let inside = self
            .known
            .keys()
            .filter(|v| !self.inputs.contains(v) && !outs.contains(v));
        inside.map(|&v| self.graph.values[v].bytes()).sum()
    }
}

/// What others read of what these nodes make.
fn results(graph: &Graph, nodes: &[usize], needed: &dyn Fn(usize) -> bool) -> Vec<usize> {
    let made = nodes.iter().flat_map(|&n| graph.nodes[n].outs.clone());
    made.map(|v| v as usize).filter(|&v| needed(v)).collect()
}

/// Joins units that follow each other where they are such a chain.
pub fn attach(graph: &Graph, units: Vec<Unit>) -> Vec<Unit> {
    let mut out: Vec<Unit> = Vec::with_capacity(units.len());
    let mut at = 0;
    while at < units.len() {
        match longest(graph, &units[at..]) {
            Some((mut chain, count)) => {
                out.append(&mut chain);
                at += count;
            }
            None => {
                out.push(units[at].clone());
                at += 1;
            }
        }
    }
    out
}

/// Whether a unit only looks at what is there in another way.
fn looks(graph: &Graph, unit: &Unit) -> bool {
    unit.space.is_none() && unit.nodes.iter().all(|&n| is_view(&graph.nodes[n].op))
}

/// The longest chain that these units begin with, as one after what it looks at, and how many they are.
fn longest(graph: &Graph, units: &[Unit]) -> Option<(Vec<Unit>, usize)> {
    // The first product says what the leading axes are; what is before it has to have them.
    let lead = units.iter().find_map(|unit| leads(graph, unit))?;
    let mut chain = Chain::new(graph, lead.clone());
    // Which units are links; the others can be run before.
    let mut links: Vec<bool> = Vec::new();
    for unit in units {
        let joins = chain.join(unit).is_some();
        if !joins && (links.is_empty() || !looks(graph, unit) || chain.makes_operand_of(unit)) {
            break;
        }
        links.push(joins);
    }
    while let Some(last) = links.iter().rposition(|link| *link) {
        links.truncate(last + 1);
        let (own, before): (Vec<_>, Vec<_>) = units.iter().zip(&links).partition(|x| *x.1);
        let unit = Unit {
            nodes: own.iter().flat_map(|(u, _)| u.nodes.clone()).collect(),
            space: None,
            downs: Vec::new(),
            lead: Some(lead.clone()),
        };
        let needed = is_read_elsewhere(graph, &unit.nodes);
        if is_worth(graph, &unit, &lead, &needed) {
            let before = before.into_iter().map(|(u, _)| u.clone());
            return Some((before.chain([unit]).collect(), links.len()));
        }
        links.truncate(last);
    }
    None
}

/// Whether something beside these nodes reads a value.
fn is_read_elsewhere(graph: &Graph, nodes: &[usize]) -> impl Fn(usize) -> bool + use<> {
    let mut read = vec![false; graph.values.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        if !nodes.contains(&n) {
            node.args
                .iter()
                .filter_map(value)
                .for_each(|v| read[v] = true);
        }
    }
    let outputs = graph.outputs.iter().filter_map(|o| value(&o.arg));
    outputs.for_each(|v| read[v] = true);
    move |v| read[v]
}

/// Whether running a chain matrix by matrix saves enough.
fn is_worth(graph: &Graph, unit: &Unit, lead: &[usize], needed: &dyn Fn(usize) -> bool) -> bool {
    let mut chain = Chain::new(graph, lead.to_vec());
    if chain.join(unit).is_none() || chain.products < PRODUCTS {
        return false;
    }
    let large = chain.between(&results(graph, &unit.nodes, needed)) >= LARGE;
    let planned = || Batch::new(graph, unit, lead, needed);
    large && planned().is_ok_and(|(batch, ..)| batch.body.most <= CACHED)
}

impl Batch {
    /// Plans a chain; gives its operands and results as well.
    pub fn new(
        graph: &Graph,
        unit: &Unit,
        lead: &[usize],
        needed: &dyn Fn(usize) -> bool,
    ) -> Result<(Self, Vec<Arg>, Vec<usize>)> {
        let mut chain = Chain::new(graph, lead.to_vec());
        if chain.join(unit).is_none() {
            bail!(Internal, "compile: a chain of products that is none");
        }
        let outs = results(graph, &unit.nodes, needed);
        for v in &outs {
            let (id, _) = chain.known[v];
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
        let batch = Batch {
            body: Plan::of(&chain.body, Vec::new())?,
            lead: chain.lead.clone(),
            has_lead: chain.inputs.iter().map(|v| chain.known[v].1).collect(),
            outs: outs.iter().map(|&v| graph.values[v].clone()).collect(),
        };
        Ok((batch, args, outs))
    }

    /// How many matrices there are.
    pub fn count(&self) -> usize {
        self.lead.iter().product()
    }

    /// Bytes that threads hold at once beside the results.
    pub fn held(&self) -> usize {
        self.body.most * parallel::threads().min(self.count())
    }

    /// All matrices, side by side.
    pub fn run(&self, inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let mut outs = self
            .outs
            .iter()
            .map(fresh)
            .collect::<Result<Vec<Tensor>>>()?;
        let mut parts = Vec::with_capacity(outs.len());
        for out in &mut outs {
            let Some(bytes) = out.data_mut::<Buffer>().and_then(Buffer::bytes_mut) else {
                bail!(Internal, "compile: memory of a chain's result is shared");
            };
            let each = bytes.len() / self.count().max(1);
            parts.push(Columns::chunks(bytes.as_mut_slice::<u8>(), each));
        }
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        let lock = || failed.lock().unwrap_or_else(|e| e.into_inner());
        parallel::for_tasks(self.count(), |task| {
            if lock().is_some() {
                return;
            }
            let run = || {
                let given = inputs.iter().zip(&self.has_lead);
                let given = given.map(|(x, &lead)| match lead {
                    true => self.item(x, task),
                    false => Ok((*x).clone()),
                });
                let mut given = given.collect::<Result<Vec<Tensor>>>()?;
                let made = self.body.run(&mut given)?;
                let mut pairs = parts.iter().zip(&made);
                pairs.try_for_each(|(all, x)| write(&mut all.take(task), 0, x))
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

    /// One matrix of an operand, where it lies.
    fn item(&self, x: &Tensor, mut at: usize) -> Result<Tensor> {
        let (mut start, mut to) = (vec![0; x.rank()], x.shape().sizes().to_vec());
        for (axis, &size) in self.lead.iter().enumerate().rev() {
            (start[axis], to[axis]) = (at % size, 1);
            at /= size;
        }
        let one = part(x, &start, &to)?;
        let rest = &to[self.lead.len()..];
        let Some(layout) = concrete(&one)?.layout().reshape(&to, rest) else {
            bail!(Internal, "compile: a matrix of {} takes a copy", x.spec());
        };
        let spec = x.spec().with_shape(Shape::from_sizes(rest));
        let data = concrete(&one)?.with_layout(layout).boxed();
        Ok(Tensor::concrete(spec, backend(), data))
    }
}
