//! Definitions and uses of the values of a graph.

use clematis_core::Op;
use clematis_core::graph::{Arg, Graph, Node};

/// No node, no input.
const NONE: u32 = u32::MAX;

/// The def-use chains of a graph: which node produces each value, which nodes read it, and whether it is an output.
///
/// Built once, in time and memory linear in the graph.
pub struct GraphView<'a> {
    graph: &'a Graph,
    /// The node that produces each value.
    producer: Vec<u32>,
    /// The index of each value that is an input.
    input: Vec<u32>,
    /// The end of each value's users in `users`; they begin where those of the value before end.
    ends: Vec<u32>,
    /// The nodes that read each value, in order; once per operand.
    users: Vec<u32>,
    /// How many outputs each value is.
    outputs: Vec<u32>,
}

impl<'a> GraphView<'a> {
    /// The view of a graph.
    pub fn new(graph: &'a Graph) -> Self {
        let count = graph.values.len();
        let mut view = GraphView {
            graph,
            producer: vec![NONE; count],
            input: vec![NONE; count],
            ends: vec![0; count],
            users: Vec::new(),
            outputs: vec![0; count],
        };
        for (i, input) in graph.inputs.iter().enumerate() {
            view.input[input.value.0 as usize] = i as u32;
        }
        for (n, node) in graph.nodes.iter().enumerate() {
            for v in node.outs.clone() {
                view.producer[v as usize] = n as u32;
            }
            for v in node.args.iter().filter_map(value) {
                view.ends[v] += 1;
            }
        }
        // From counts to starts; filling the lists moves each start to its end.
        let mut total = 0;
        for end in &mut view.ends {
            total += std::mem::replace(end, total);
        }
        view.users = vec![NONE; total as usize];
        for (n, node) in graph.nodes.iter().enumerate() {
            for v in node.args.iter().filter_map(value) {
                view.users[view.ends[v] as usize] = n as u32;
                view.ends[v] += 1;
            }
        }
        for v in graph.outputs.iter().filter_map(|o| value(&o.arg)) {
            view.outputs[v] += 1;
        }
        view
    }

    /// The graph.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The index of the node that produces a value; `None` for inputs.
    pub fn producer(&self, v: usize) -> Option<usize> {
        index(self.producer.get(v))
    }

    /// The node that produces an operand; `None` for inputs and constants.
    pub fn producer_of(&self, arg: &Arg) -> Option<&'a Node> {
        let at = self.producer(value(arg)?)?;
        self.graph.nodes.get(at)
    }

    /// The index of the input that a value is.
    pub fn input(&self, v: usize) -> Option<usize> {
        index(self.input.get(v))
    }

    /// The indices of the nodes that read a value, in order; a node that reads it twice occurs twice.
    pub fn users(&self, v: usize) -> impl DoubleEndedIterator<Item = usize> + Clone + '_ {
        let start = v.checked_sub(1).map_or(0, |before| self.ends[before]);
        let users = &self.users[start as usize..self.ends[v] as usize];
        users.iter().map(|&n| n as usize)
    }

    /// The number of times that nodes and outputs read a value.
    pub fn uses(&self, v: usize) -> usize {
        let start = v.checked_sub(1).map_or(0, |before| self.ends[before]);
        (self.ends[v] - start + self.outputs[v]) as usize
    }

    /// The last node that reads a value.
    pub fn last_use(&self, v: usize) -> Option<usize> {
        self.users(v).next_back()
    }

    /// Whether a value is an output of the graph.
    pub fn is_output(&self, v: usize) -> bool {
        self.outputs[v] > 0
    }

    /// The node that produces an operand, if that is read `times` times.
    pub fn producer_read(&self, arg: &Arg, times: usize) -> Option<&'a Node> {
        let v = value(arg)?;
        self.producer_of(arg).filter(|_| self.uses(v) == times)
    }

    /// Whether any node satisfies a condition on its op.
    pub fn has(&self, condition: impl Fn(&Op) -> bool) -> bool {
        self.graph.nodes.iter().any(|node| condition(&node.op))
    }
}

fn index(found: Option<&u32>) -> Option<usize> {
    found.filter(|&&at| at != NONE).map(|&at| at as usize)
}

/// The index of the value that an operand refers to; `None` for a constant.
pub fn value(arg: &Arg) -> Option<usize> {
    match arg {
        Arg::Value(id) => Some(id.0 as usize),
        Arg::Const(_) => None,
    }
}

/// Whether two operands are the same value or the same constant.
pub fn same_arg(a: &Arg, b: &Arg) -> bool {
    match (a, b) {
        (Arg::Value(a), Arg::Value(b)) => a == b,
        (Arg::Const(a), Arg::Const(b)) => a.same(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clematis_core::Result;

    #[test]
    fn uses_are_counted_by_operand_and_output() -> Result<()> {
        let graph = Graph::parse(
            "graph {
  input %0: f32[2] input
  input %1: f32[2] input
  %2: f32[2] = mul(%0, %0)
  %3: f32[2] = add(%2, 1.0:f32)
  %4: f32[2] = add(%2, %3)
  return %4, %2, %4
}",
        )?;
        let view = GraphView::new(&graph);
        let users: Vec<Vec<usize>> = (0..5).map(|v| view.users(v).collect()).collect();
        assert_eq!(users, [vec![0, 0], vec![], vec![1, 2], vec![2], vec![]]);
        assert_eq!([0, 1, 2, 3, 4].map(|v| view.uses(v)), [2, 0, 3, 1, 2]);
        assert_eq!([0, 1, 2].map(|v| view.producer(v)), [None, None, Some(0)]);
        assert_eq!([0, 1, 2].map(|v| view.input(v)), [Some(0), Some(1), None]);
        assert_eq!([1, 2].map(|v| view.last_use(v)), [None, Some(2)]);
        assert_eq!([2, 3, 4].map(|v| view.is_output(v)), [true, false, true]);
        Ok(())
    }
}
