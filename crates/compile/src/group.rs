//! Which nodes of a graph run together.
//!
//! Nodes join the groups of what they are computed from, in order, unless something outside would then have to run
//! both before and after the group. A group ends with the first product that needs it: what the way back computes from
//! what the way forward left is computed there, not carried along.

use crate::batch;
use crate::down;
use crate::space::{Part, Space, part, value};
use clematis_core::Op;
use clematis_core::graph::Graph;

/// The most nodes of a unit. A program numbers its values with 16 bits, and a node has at most seven: its result, and three
/// operands that are read and repeated.
const MOST: usize = 8192;

/// Nodes that run together, in the order of the graph; one alone has no space.
#[derive(Clone, Debug)]
pub struct Unit {
    /// By their numbers.
    pub nodes: Vec<usize>,
    /// What they are computed over.
    pub space: Option<Space>,
    /// Sums that are taken on the way, which none of the nodes reads.
    pub downs: Vec<usize>,
    /// The sizes of the leading axes, if they run for one place of these after the other.
    pub lead: Option<Vec<usize>>,
}

impl Unit {
    /// All that is computed, by its numbers.
    pub fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().chain(&self.downs).copied()
    }
}

/// A set of small numbers.
#[derive(Clone, Default)]
struct Set(Vec<u64>);

impl Set {
    fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    fn add(&mut self, i: usize) {
        if self.0.len() <= i / 64 {
            self.0.resize(i / 64 + 1, 0);
        }
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn add_all(&mut self, other: &Set) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
    fn each(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(at, &word): (usize, &u64)| {
            (0..64)
                .filter(move |b| word >> b & 1 == 1)
                .map(move |b| at * 64 + b)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

struct Groups<'a> {
    graph: &'a Graph,
    /// Units that were merged into others stay as empty ones.
    units: Vec<Unit>,
    /// What must run before each unit.
    before: Vec<Set>,
    /// Whether nothing joins a unit any more.
    ended: Vec<bool>,
    /// The unit that makes each value.
    maker: Vec<Option<usize>>,
}

/// Whether an op takes so long that it parts what is before it from what is after it.
fn is_heavy(op: &Op) -> bool {
    use Op::{Conv, Dot, Scan, Window, WindowGather, WindowScatter};
    matches!(
        op,
        Dot(_) | Conv(_) | Scan(_) | Window(_) | WindowScatter(_) | WindowGather(_)
    )
}

/// The units of a graph, each after all it needs.
pub fn group(graph: &Graph) -> Vec<Unit> {
    let mut groups = Groups {
        graph,
        units: Vec::new(),
        before: Vec::new(),
        ended: Vec::new(),
        maker: vec![None; graph.values.len()],
    };
    for n in 0..graph.nodes.len() {
        groups.place(n);
    }
    batch::attach(graph, down::attach(graph, groups.in_order()))
}

impl Groups<'_> {
    fn makers(&self, n: usize) -> Vec<usize> {
        let args = self.graph.nodes[n].args.iter().filter_map(value);
        let mut makers: Vec<usize> = args.filter_map(|v| self.maker[v]).collect();
        makers.sort_unstable();
        makers.dedup();
        makers
    }

    /// The space that a unit has if a node joins it.
    fn space_with(&self, unit: usize, n: usize, part: Part) -> Option<Space> {
        let space = self.units[unit].space.as_ref()?;
        let node = &self.graph.nodes[n];
        let out = &self.graph.values[node.outs.start as usize].shape;
        match part {
            Part::Each => space.class(out).map(|_| space.clone()),
            Part::Fold => {
                let from = &self.graph.arg_spec(&node.args[0]).shape;
                (*from == space.shape && space.has_rows()).then(|| Space {
                    by_rows: true,
                    ..space.clone()
                })
            }
            // Only rows: other values change their shape or are repeated at no cost, outside.
            Part::Spread => {
                let from = &self.graph.arg_spec(&node.args[0]).shape;
                let fits = space.by_rows && space.is_row(from) && space.class(out).is_some();
                fits.then(|| space.clone())
            }
        }
    }

    /// Whether these units and a node can be one: nothing else stands between any two of them.
    fn can_be_one(&self, units: &[usize], makers: &[usize]) -> bool {
        let mut needed = Set::default();
        for &u in units {
            needed.add_all(&self.before[u]);
        }
        for &m in makers {
            needed.add(m);
            needed.add_all(&self.before[m]);
        }
        let mut others = needed.each().filter(|u| !units.contains(u));
        others.all(|u| units.iter().all(|&own| !self.before[u].has(own)))
    }

    fn place(&mut self, n: usize) {
        let makers = self.makers(n);
        let part = part(self.graph, &self.graph.nodes[n]);
        let mut joined: Vec<usize> = Vec::new();
        let mut space: Option<Space> = None;
        if let Some(part) = part {
            for &m in &makers {
                let with = self.space_with(m, n, part);
                let Some(with) = with.filter(|_| !self.ended[m]) else {
                    continue;
                };
                let nodes = |&u: &usize| self.units[u].nodes.len();
                if joined.iter().chain([&m]).map(nodes).sum::<usize>() >= MOST {
                    continue;
                }
                let alike = space.as_ref().is_none_or(|s| s.shape == with.shape);
                joined.push(m);
                if !alike || !self.can_be_one(&joined, &makers) {
                    joined.pop();
                    continue;
                }
                let by_rows = with.by_rows || space.as_ref().is_some_and(|s| s.by_rows);
                space = Some(Space { by_rows, ..with });
            }
        }
        let unit = match joined.first() {
            Some(&unit) => unit,
            None => {
                let node = &self.graph.nodes[n];
                let shape = match part {
                    Some(Part::Fold) => Some(&self.graph.arg_spec(&node.args[0]).shape),
                    Some(Part::Each) => Some(&self.graph.values[node.outs.start as usize].shape),
                    _ => None,
                };
                space = shape.map(|shape| Space {
                    shape: shape.clone(),
                    by_rows: part == Some(Part::Fold),
                });
                self.units.push(Unit {
                    nodes: Vec::new(),
                    space: None,
                    downs: Vec::new(),
                    lead: None,
                });
                self.before.push(Set::default());
                self.ended.push(false);
                self.units.len() - 1
            }
        };
        for &other in joined.iter().skip(1) {
            self.merge(unit, other);
        }
        let mut before = self.before[unit].clone();
        for &m in makers.iter().filter(|m| !joined.contains(m)) {
            before.add(m);
            before.add_all(&self.before[m]);
        }
        self.before[unit] = before;
        self.units[unit].nodes.push(n);
        self.units[unit].space = space;
        for v in self.graph.nodes[n].outs.clone() {
            self.maker[v as usize] = Some(unit);
        }
        // What runs after this unit runs after all that it needs.
        let all = self.before[unit].clone();
        if is_heavy(&self.graph.nodes[n].op) {
            all.each().for_each(|u| self.ended[u] = true);
        }
        for set in &mut self.before {
            if set.has(unit) {
                set.add_all(&all);
            }
        }
    }

    fn merge(&mut self, into: usize, from: usize) {
        let nodes = std::mem::take(&mut self.units[from].nodes);
        self.units[into].nodes.extend(nodes);
        self.units[into].nodes.sort_unstable();
        let mut before = std::mem::take(&mut self.before[from]);
        before.add_all(&self.before[into]);
        for gone in [from, into] {
            if let Some(word) = before.0.get_mut(gone / 64) {
                *word &= !(1 << (gone % 64));
            }
        }
        self.before[into] = before;
        for maker in self.maker.iter_mut().filter(|m| **m == Some(from)) {
            *maker = Some(into);
        }
        for set in &mut self.before {
            if set.has(from) {
                set.add(into);
            }
        }
    }

    /// Each unit after what it needs, else as late as its last node; those that nobody waits for come last.
    fn in_order(self) -> Vec<Unit> {
        let Groups {
            graph,
            units,
            maker,
            ..
        } = self;
        let mut needs: Vec<Vec<usize>> = vec![Vec::new(); units.len()];
        let mut waits = vec![0usize; units.len()];
        let mut awaited = vec![false; units.len()];
        for (u, unit) in units.iter().enumerate() {
            let args = unit.nodes.iter().flat_map(|&n| &graph.nodes[n].args);
            let mut makers: Vec<usize> = args
                .filter_map(value)
                .filter_map(|v| maker[v])
                .filter(|&m| m != u)
                .collect();
            makers.sort_unstable();
            makers.dedup();
            waits[u] = makers.len();
            for m in makers {
                needs[m].push(u);
                awaited[m] = true;
            }
        }
        let key = |u: usize| {
            let last = units[u].nodes.last().copied().unwrap_or(0);
            // Free choice: what only comes out waits, so that it may overwrite what went in.
            let waits = !awaited[u] && units[u].space.is_some();
            std::cmp::Reverse((waits, last, u))
        };
        let mut ready: std::collections::BinaryHeap<_> = (0..units.len())
            .filter(|&u| !units[u].nodes.is_empty() && waits[u] == 0)
            .map(key)
            .collect();
        let mut order = Vec::new();
        while let Some(std::cmp::Reverse((_, _, u))) = ready.pop() {
            order.push(u);
            for &next in &needs[u] {
                waits[next] -= 1;
                if waits[next] == 0 {
                    ready.push(key(next));
                }
            }
        }
        let mut units: Vec<Option<Unit>> = units.into_iter().map(Some).collect();
        order.into_iter().filter_map(|u| units[u].take()).collect()
    }
}
