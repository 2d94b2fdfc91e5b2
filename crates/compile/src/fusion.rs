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
use clematis_passes::{GraphView, value};
use rustc_hash::FxHashSet;

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

/// Steps of path searches per node of the graph. Where they run out, which takes graphs that have tens of thousands of
/// groups open at once, nodes start groups of their own.
const SEARCH_STEPS_PER_NODE: usize = 2048;

struct GroupBuilder<'a> {
    graph: &'a Graph,
    /// Groups that were merged into others stay as empty ones.
    groups: Vec<FusionGroup>,
    /// The group that each group was merged into; itself, if it was not.
    parent: Vec<usize>,
    /// The groups whose values each group reads, perhaps under the number that they had before they were merged.
    predecessors: Vec<Vec<usize>>,
    /// Pairs of a group and a predecessor that are in these lists.
    edges: FxHashSet<(usize, usize)>,
    /// Whether no further node may join a group. The predecessors of a closed group are closed.
    closed: Vec<bool>,
    /// The group that produces each value.
    producer: Vec<Option<usize>>,
    /// The search that visited each group last, and the number of searches.
    visited: Vec<usize>,
    searches: usize,
    steps_left: usize,
}

/// Whether an op is expensive enough to separate the groups before it from those after it.
fn is_heavy(op: &Op) -> bool {
    use Op::{Conv, Dot, Scan, Window, WindowGather, WindowScatter};
    matches!(
        op,
        Dot(_) | Conv(_) | Scan(_) | Window(_) | WindowScatter(_) | WindowGather(_)
    )
}

/// Appends the shorter list to the longer one, in any order.
fn append(into: &mut Vec<usize>, mut from: Vec<usize>) {
    if from.len() > into.len() {
        std::mem::swap(into, &mut from);
    }
    into.append(&mut from);
}

/// The fusion groups of a graph, in topological order.
pub fn fuse(graph: &Graph) -> Vec<FusionGroup> {
    let view = GraphView::new(graph);
    let mut builder = GroupBuilder {
        graph,
        groups: Vec::new(),
        parent: Vec::new(),
        predecessors: Vec::new(),
        edges: FxHashSet::default(),
        closed: Vec::new(),
        producer: vec![None; graph.values.len()],
        visited: Vec::new(),
        searches: 0,
        steps_left: SEARCH_STEPS_PER_NODE * graph.nodes.len(),
    };
    for n in 0..graph.nodes.len() {
        builder.add_node(n);
    }
    let groups = column_reduction::attach(&view, builder.topological_order());
    batched_chain::form_chains(&view, groups)
}

impl GroupBuilder<'_> {
    /// The group that a group was merged into.
    fn find(&mut self, mut u: usize) -> usize {
        while self.parent[u] != u {
            self.parent[u] = self.parent[self.parent[u]];
            u = self.parent[u];
        }
        u
    }

    /// The groups that produce the operands of a node.
    fn producers(&mut self, n: usize) -> Vec<usize> {
        let args = self.graph.nodes[n].args.iter().filter_map(value);
        let found: Vec<usize> = args.filter_map(|v| self.producer[v]).collect();
        let mut producers: Vec<usize> = found.into_iter().map(|m| self.find(m)).collect();
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
    ///
    /// The groups are open, and all groups that depend on an open group are open, so closed groups need no search.
    fn can_merge(&mut self, groups: &[usize], producers: &[usize]) -> bool {
        self.searches += 1;
        let mut pending: Vec<usize> = Vec::new();
        for &u in producers.iter().filter(|u| !groups.contains(u)) {
            self.visit(u, &mut pending);
        }
        // No path leads from a group back to itself.
        let others = if groups.len() > 1 { groups } else { &[] };
        for &u in others {
            for at in 0..self.predecessors[u].len() {
                let before = self.find(self.predecessors[u][at]);
                if !groups.contains(&before) {
                    self.visit(before, &mut pending);
                }
            }
        }
        while let Some(u) = pending.pop() {
            for at in 0..self.predecessors[u].len() {
                if self.steps_left == 0 {
                    return false;
                }
                self.steps_left -= 1;
                let before = self.find(self.predecessors[u][at]);
                if groups.contains(&before) {
                    return false;
                }
                self.visit(before, &mut pending);
            }
        }
        true
    }

    /// Queues an open group that this search has not seen.
    fn visit(&mut self, u: usize, pending: &mut Vec<usize>) {
        if !self.closed[u] && self.visited[u] != self.searches {
            self.visited[u] = self.searches;
            pending.push(u);
        }
    }

    /// Closes all groups that a group depends on.
    fn close_before(&mut self, group: usize) {
        let mut pending = vec![group];
        while let Some(u) = pending.pop() {
            for at in 0..self.predecessors[u].len() {
                let before = self.find(self.predecessors[u][at]);
                if before != u && !std::mem::replace(&mut self.closed[before], true) {
                    pending.push(before);
                }
            }
        }
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
                self.predecessors.push(Vec::new());
                self.closed.push(false);
                self.visited.push(0);
                self.parent.push(self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        for &other in merged.iter().skip(1) {
            self.merge(group, other);
        }
        for &m in producers.iter().filter(|m| !merged.contains(m)) {
            if self.edges.insert((group, m)) {
                self.predecessors[group].push(m);
            }
        }
        self.groups[group].nodes.push(n);
        self.groups[group].domain = domain;
        for v in self.graph.nodes[n].outs.clone() {
            self.producer[v as usize] = Some(group);
        }
        if is_heavy(&self.graph.nodes[n].op) {
            self.close_before(group);
        }
    }

    fn merge(&mut self, into: usize, from: usize) {
        self.parent[from] = into;
        let nodes = std::mem::take(&mut self.groups[from].nodes);
        append(&mut self.groups[into].nodes, nodes);
        let predecessors = std::mem::take(&mut self.predecessors[from]);
        append(&mut self.predecessors[into], predecessors);
    }

    /// Topological order. Among ready groups the one with the earliest last node comes first; groups without successors
    /// come last.
    fn topological_order(mut self) -> Vec<FusionGroup> {
        for v in 0..self.producer.len() {
            self.producer[v] = self.producer[v].map(|m| self.find(m));
        }
        let GroupBuilder {
            graph,
            mut groups,
            producer,
            ..
        } = self;
        for group in &mut groups {
            group.nodes.sort_unstable();
        }
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
