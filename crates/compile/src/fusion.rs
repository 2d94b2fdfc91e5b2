//! Operator fusion: partitions the nodes of a graph into fusion groups.
//!
//! A node joins the groups that produce its operands, in order, unless the merged group would have to run both before
//! and after some other node. A group is closed by the first heavy op (dot, convolution, scan, window) that depends on
//! it: the backward pass is not fused into groups of the forward pass, so their values are not kept alive.

use crate::batched_chain;
use crate::column_reduction;
use crate::iteration_domain::{FusionRole, IterationDomain, role};
use clematis_core::Op;
use clematis_core::graph::Graph;
use clematis_passes::value;

/// The most nodes of a group. A program numbers its values with 16 bits, and a node needs at most seven: its result,
/// and three operands that are read and broadcast.
const MAX_NODES: usize = 8192;

/// Nodes that run as one fused kernel, in graph order; a node that runs alone has no domain.
#[derive(Clone, Debug)]
pub struct FusionGroup {
    /// Node indices.
    pub nodes: Vec<usize>,
    /// The iteration domain.
    pub domain: Option<IterationDomain>,
    /// Column sums that are computed on the side; no node of the group reads them.
    pub column_sums: Vec<usize>,
    /// The sizes of the leading axes, if the group is a batched chain over them.
    pub lead: Option<Vec<usize>>,
}

impl FusionGroup {
    /// All nodes that are computed, by index.
    pub fn all(&self) -> impl Iterator<Item = usize> + '_ {
        self.nodes.iter().chain(&self.column_sums).copied()
    }
}

/// A set of small integers.
#[derive(Clone, Default)]
struct BitSet(Vec<u64>);

impl BitSet {
    fn contains(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w >> (i % 64) & 1 == 1)
    }
    fn insert(&mut self, i: usize) {
        if self.0.len() <= i / 64 {
            self.0.resize(i / 64 + 1, 0);
        }
        self.0[i / 64] |= 1 << (i % 64);
    }
    fn union_with(&mut self, other: &BitSet) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            *a |= b;
        }
    }
    fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let bits = |(at, &word): (usize, &u64)| {
            (0..64)
                .filter(move |b| word >> b & 1 == 1)
                .map(move |b| at * 64 + b)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

struct GroupBuilder<'a> {
    graph: &'a Graph,
    /// Groups that were merged into others stay as empty ones.
    groups: Vec<FusionGroup>,
    /// The groups that must run before each group.
    predecessors: Vec<BitSet>,
    /// Whether no further node may join a group.
    closed: Vec<bool>,
    /// The group that produces each value.
    producer: Vec<Option<usize>>,
}

/// Whether an op is expensive enough to separate the groups before it from those after it.
fn is_heavy(op: &Op) -> bool {
    use Op::{Conv, Dot, Scan, Window, WindowGather, WindowScatter};
    matches!(
        op,
        Dot(_) | Conv(_) | Scan(_) | Window(_) | WindowScatter(_) | WindowGather(_)
    )
}

/// The fusion groups of a graph, in topological order.
pub fn fuse(graph: &Graph) -> Vec<FusionGroup> {
    let mut builder = GroupBuilder {
        graph,
        groups: Vec::new(),
        predecessors: Vec::new(),
        closed: Vec::new(),
        producer: vec![None; graph.values.len()],
    };
    for n in 0..graph.nodes.len() {
        builder.add_node(n);
    }
    batched_chain::form_chains(
        graph,
        column_reduction::attach(graph, builder.topological_order()),
    )
}

impl GroupBuilder<'_> {
    fn producers(&self, n: usize) -> Vec<usize> {
        let args = self.graph.nodes[n].args.iter().filter_map(value);
        let mut producers: Vec<usize> = args.filter_map(|v| self.producer[v]).collect();
        producers.sort_unstable();
        producers.dedup();
        producers
    }

    /// The domain of a group after a node joins it; `None` if it cannot.
    fn domain_with(&self, group: usize, n: usize, role: FusionRole) -> Option<IterationDomain> {
        let domain = self.groups[group].domain.as_ref()?;
        let node = &self.graph.nodes[n];
        let out = &self.graph.values[node.outs.start as usize].shape;
        match role {
            FusionRole::Elementwise => domain.extent(out).map(|_| domain.clone()),
            FusionRole::Reduce => {
                let from = &self.graph.arg_spec(&node.args[0]).shape;
                (*from == domain.shape && domain.can_reduce_rows()).then(|| IterationDomain {
                    has_row_values: true,
                    ..domain.clone()
                })
            }
            // Only for per-row values: other reshapes and broadcasts are free views outside of the group.
            FusionRole::Broadcast => {
                let from = &self.graph.arg_spec(&node.args[0]).shape;
                let fits =
                    domain.has_row_values && domain.is_row(from) && domain.extent(out).is_some();
                fits.then(|| domain.clone())
            }
        }
    }

    /// Whether these groups and a node can merge: no other group lies on a path between any two of them.
    fn can_merge(&self, groups: &[usize], producers: &[usize]) -> bool {
        let mut required = BitSet::default();
        for &u in groups {
            required.union_with(&self.predecessors[u]);
        }
        for &m in producers {
            required.insert(m);
            required.union_with(&self.predecessors[m]);
        }
        let mut others = required.iter().filter(|u| !groups.contains(u));
        others.all(|u| {
            groups
                .iter()
                .all(|&own| !self.predecessors[u].contains(own))
        })
    }

    fn add_node(&mut self, n: usize) {
        let producers = self.producers(n);
        let role = role(self.graph, &self.graph.nodes[n]);
        let mut merged: Vec<usize> = Vec::new();
        let mut domain: Option<IterationDomain> = None;
        if let Some(role) = role {
            for &m in &producers {
                let with = self.domain_with(m, n, role);
                let Some(with) = with.filter(|_| !self.closed[m]) else {
                    continue;
                };
                let nodes = |&u: &usize| self.groups[u].nodes.len();
                if merged.iter().chain([&m]).map(nodes).sum::<usize>() >= MAX_NODES {
                    continue;
                }
                let same_shape = domain.as_ref().is_none_or(|s| s.shape == with.shape);
                merged.push(m);
                if !same_shape || !self.can_merge(&merged, &producers) {
                    merged.pop();
                    continue;
                }
                let has_row_values =
                    with.has_row_values || domain.as_ref().is_some_and(|s| s.has_row_values);
                domain = Some(IterationDomain {
                    has_row_values,
                    ..with
                });
            }
        }
        let group = match merged.first() {
            Some(&group) => group,
            None => {
                let node = &self.graph.nodes[n];
                let shape = match role {
                    Some(FusionRole::Reduce) => Some(&self.graph.arg_spec(&node.args[0]).shape),
                    Some(FusionRole::Elementwise) => {
                        Some(&self.graph.values[node.outs.start as usize].shape)
                    }
                    _ => None,
                };
                domain = shape.map(|shape| IterationDomain {
                    shape: shape.clone(),
                    has_row_values: role == Some(FusionRole::Reduce),
                });
                self.groups.push(FusionGroup {
                    nodes: Vec::new(),
                    domain: None,
                    column_sums: Vec::new(),
                    lead: None,
                });
                self.predecessors.push(BitSet::default());
                self.closed.push(false);
                self.groups.len() - 1
            }
        };
        for &other in merged.iter().skip(1) {
            self.merge(group, other);
        }
        let mut predecessors = self.predecessors[group].clone();
        for &m in producers.iter().filter(|m| !merged.contains(m)) {
            predecessors.insert(m);
            predecessors.union_with(&self.predecessors[m]);
        }
        self.predecessors[group] = predecessors;
        self.groups[group].nodes.push(n);
        self.groups[group].domain = domain;
        for v in self.graph.nodes[n].outs.clone() {
            self.producer[v as usize] = Some(group);
        }
        // Whatever runs after this group also runs after its predecessors.
        let all = self.predecessors[group].clone();
        if is_heavy(&self.graph.nodes[n].op) {
            all.iter().for_each(|u| self.closed[u] = true);
        }
        for set in &mut self.predecessors {
            if set.contains(group) {
                set.union_with(&all);
            }
        }
    }

    fn merge(&mut self, into: usize, from: usize) {
        let nodes = std::mem::take(&mut self.groups[from].nodes);
        self.groups[into].nodes.extend(nodes);
        self.groups[into].nodes.sort_unstable();
        let mut predecessors = std::mem::take(&mut self.predecessors[from]);
        predecessors.union_with(&self.predecessors[into]);
        for gone in [from, into] {
            if let Some(word) = predecessors.0.get_mut(gone / 64) {
                *word &= !(1 << (gone % 64));
            }
        }
        self.predecessors[into] = predecessors;
        for producer in self.producer.iter_mut().filter(|m| **m == Some(from)) {
            *producer = Some(into);
        }
        for set in &mut self.predecessors {
            if set.contains(from) {
                set.insert(into);
            }
        }
    }

    /// Topological order. Among ready groups the one with the earliest last node comes first; groups without successors
    /// come last.
    fn topological_order(self) -> Vec<FusionGroup> {
        let GroupBuilder {
            graph,
            groups,
            producer,
            ..
        } = self;
        let mut successors: Vec<Vec<usize>> = vec![Vec::new(); groups.len()];
        let mut pending = vec![0usize; groups.len()];
        let mut has_successor = vec![false; groups.len()];
        for (u, group) in groups.iter().enumerate() {
            let args = group.nodes.iter().flat_map(|&n| &graph.nodes[n].args);
            let mut producers: Vec<usize> = args
                .filter_map(value)
                .filter_map(|v| producer[v])
                .filter(|&m| m != u)
                .collect();
            producers.sort_unstable();
            producers.dedup();
            pending[u] = producers.len();
            for m in producers {
                successors[m].push(u);
                has_successor[m] = true;
            }
        }
        let key = |u: usize| {
            let last = groups[u].nodes.last().copied().unwrap_or(0);
            // Groups whose results are only outputs run last, so that they can reuse the memory of donated inputs.
            let only_output = !has_successor[u] && groups[u].domain.is_some();
            std::cmp::Reverse((only_output, last, u))
        };
        let mut ready: std::collections::BinaryHeap<_> = (0..groups.len())
            .filter(|&u| !groups[u].nodes.is_empty() && pending[u] == 0)
            .map(key)
            .collect();
        let mut order = Vec::new();
        while let Some(std::cmp::Reverse((_, _, u))) = ready.pop() {
            order.push(u);
            for &next in &successors[u] {
                pending[next] -= 1;
                if pending[next] == 0 {
                    ready.push(key(next));
                }
            }
        }
        let mut groups: Vec<Option<FusionGroup>> = groups.into_iter().map(Some).collect();
        order.into_iter().filter_map(|u| groups[u].take()).collect()
    }
}
